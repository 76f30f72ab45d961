//! The example of a real deployment: what it counts, rewrites and limits.

use crate::udp_fixture::{MUSICBRAINZ, UdpFixture};

/// The limit and period that a key is answered with.
fn limit(key: &str) -> String {
    let answer = UdpFixture::new(MUSICBRAINZ).send(format!("over_limit {key}"));
    String::from_utf8(answer).unwrap().replace("ok N 0.0 ", "")
}

/// What a key is rewritten to, told by the statistics that are kept under it.
#[track_caller]
fn counts_as(key: &str, rewritten: &str) {
    let mut fixture = UdpFixture::new(MUSICBRAINZ);
    fixture.send(format!("over_limit {key}"));
    let expected = format!("n_req=1 n_over=0 last_max_rate=0 key={rewritten}");
    fixture.says(&format!("get_stats {rewritten}"), &expected);
    if key != rewritten {
        let expected = format!("n_req=0 n_over=0 last_max_rate=0 key={key}");
        fixture.says(&format!("get_stats {key}"), &expected);
    }
}

#[test]
fn every_rule_has_its_limit() {
    for (key, expected) in [
        ("ws cust=bbc", "300.0 20"),
        (" cust=bbc", "300.0 20"),
        ("anything cust=ia", "220.0 20"),
        ("x cust=7d", "220.0 20"),
        ("frontend internal", "2000.0 20"),
        ("frontend ip=1.2.3.4", "45.0 20"),
        ("ws ip=1.2.3.4", "22.0 20"),
        ("ws ip=4.14.989.98", "22.0 20"),
        ("search ip=1.2.3.4", "22.0 20"),
        ("ws global", "2500.0 10"),
        ("ws headphones", "300.0 10"),
        ("ws ua=python-musicbrainz/0.7.3", "500.0 10"),
        ("ws ua=generic-bad-ua", "100.0 10"),
        ("ws ua=libvlc", "125.0 10"),
        ("ws ua=nsplayer", "125.0 10"),
        ("two words cust=bbc", "1.0 1"),
        ("ws ip=1.2.3.4 ", "1.0 1"),
        ("ws ip=1.2.3", "1.0 1"),
        ("ws ip=::1", "1.0 1"),
        ("other ip=1.2.3.4", "1.0 1"),
        ("ws global ", "1.0 1"),
        ("WS global", "1.0 1"),
        ("ws ua=libvlc/2", "1.0 1"),
        ("", "1.0 1"),
    ] {
        assert_eq!(limit(key), expected, "{key}");
    }
}

#[test]
fn addresses_of_customers_are_rewritten() {
    for (key, rewritten) in [
        ("ws ip=132.185.1.2", "ws cust=bbc"),
        ("search ip=132.185.255.0", "search cust=bbc"),
        ("ws ip=212.58.220.1", "ws cust=bbc"),
        ("ws ip=212.58.259.1", "ws cust=bbc"),
        ("ws ip=207.241.224.9", "ws cust=ia"),
        ("ws ip=207.241.239.9", "ws cust=ia"),
        ("ws ip=84.45.16.4", "ws cust=7d"),
        ("ws ip=81.153.103.174", "ws cust=7d"),
        ("frontend ip=10.1.1.77", "frontend internal"),
    ] {
        counts_as(key, rewritten);
    }
}

#[test]
fn addresses_beside_those_of_customers_are_not() {
    for key in [
        "ws ip=132.186.1.2",
        "ws ip=212.58.219.1",
        "ws ip=212.58.260.1",
        "ws ip=207.241.223.9",
        "ws ip=207.241.240.9",
        "ws ip=84.45.16.42",
        "ws ip=84.45.16.40",
        "ws ip=10.1.2.1",
        "ws ip=110.1.1.1",
    ] {
        assert_eq!(limit(key), "22.0 20", "{key}");
    }
}

#[test]
fn user_agents_that_say_nothing_share_a_limit() {
    for ua in [
        "",
        " ",
        "-",
        "- - -",
        "Java/1.6.0_20",
        "Python-urllib/2.7",
        "Jakarta Commons-HttpClient/3.1",
        "Apache-HttpClient/UNAVAILABLE (java 1.4)",
    ] {
        counts_as(&format!("ws ua={ua}"), "ws ua=generic-bad-ua");
    }
    for ua in ["java/1.6", "Java/1.6 x", "Java/", "Apache-HttpClient/UNAVAILABLE (java 1x4)", "x"] {
        assert_eq!(limit(&format!("ws ua={ua}")), "1.0 1", "{ua}");
    }
}

#[test]
fn one_old_client_is_left_alone() {
    counts_as("ws ua=python-musicbrainz/0.7.3", "ws ua=python-musicbrainz/0.7.3");
    assert_eq!(limit("ws ua=python-musicbrainz/0.7.3 ua=Java/1.6"), "1.0 1");
    assert_eq!(limit("ws ua=python-musicbrainz/0.7.4 ua=Java/1.6"), "1.0 1");
    // It is not one of those that are rewritten later.
    counts_as("ws ua=python-musicbrainz/0.7.3 HeadPhones", "ws headphones");
}

#[test]
fn headphones_under_many_names_are_one() {
    for key in [
        "ws ua=Headphones/0.5",
        "anything hEADpHONES at all",
        "ws ua=python-headphones/0.7.4",
        "ws ua=python-musicbrainz-ngs/0.5devMODIFIED",
        "ws ua=python-musicbrainzngs/0.12devMODIFIED x",
        "ws ua=python-musicbrainz-ngs/0.5devmodified",
        "ws ua=Python-MusicBrainzNGS/0.5DEVMODIFIED",
    ] {
        counts_as(key, "ws headphones");
    }
    assert_eq!(limit("ws ua=python-musicbrainz-ngs/0.5dev"), "1.0 1");
    assert_eq!(limit("ws ua=python-musicbrainz-ngs/0x5devMODIFIED"), "1.0 1", "its dot is a dot");
}

#[test]
fn popular_clients_are_counted_by_name() {
    for (ua, word) in [
        ("MusicBrainz Picard/1.2", "picard"),
        ("Mozilla/5.0 (compatible; Googlebot/2.1)", "googlebot"),
        ("BANSHEE", "banshee"),
        ("jaikoz 4", "jaikoz"),
        ("AbelsSoft", "abelssoft"),
        ("python-musicbrainz-ngs/0.4", "python-musicbrainz-ngs"),
        ("xbmc/11", "xbmc"),
        ("(Vox)", "vox"),
        ("picard googlebot", "picard"),
    ] {
        let mut fixture = UdpFixture::new(MUSICBRAINZ);
        fixture.says(&format!("over_limit ws ua={ua}"), "ok N 0.0 1.0 1");
        let expected = format!("n_req=1 n_over=0 last_max_rate=0 key={word}");
        fixture.says(&format!("get_stats {word}"), &expected);
        fixture.says("get_stats default", "n_req=1 n_over=0 last_max_rate=0 key=default");
    }
}

#[test]
fn a_word_within_a_word_is_not_counted() {
    let mut fixture = UdpFixture::new(MUSICBRAINZ);
    fixture.send("over_limit ws ua=picardy voxel xbmc_");
    for word in ["picard", "vox", "xbmc"] {
        let expected = format!("n_req=0 n_over=0 last_max_rate=0 key={word}");
        fixture.says(&format!("get_stats {word}"), &expected);
    }
}

#[test]
fn a_count_rule_without_a_key_counts_under_the_key_itself() {
    let mut fixture = UdpFixture::new(MUSICBRAINZ);
    let key = "ws ua=python-headphones/0.7.3";
    fixture.says(&format!("over_limit {key}"), "ok N 0.0 300.0 10");
    let expected = format!("n_req=1 n_over=0 last_max_rate=0 key={key}");
    fixture.says(&format!("get_stats {key}"), &expected);
    fixture.says("get_stats ws headphones", "n_req=1 n_over=0 last_max_rate=0 key=ws headphones");
}

#[test]
fn what_is_counted_is_never_refused_for_it() {
    let mut fixture = UdpFixture::new(MUSICBRAINZ);
    for _ in 0..10 {
        fixture.says("over_limit ws ua=picard", "ok N 0.0 1.0 1");
    }
    // 3 per 3 s: the fourth use has a rate of 3. That is no limit, so nothing is over it.
    fixture.says("get_stats picard", "n_req=10 n_over=0 last_max_rate=0 key=picard");
    fixture.wait_secs(300);
    fixture.says("get_stats picard", "n_req=10 n_over=0 last_max_rate=9 key=picard");
}

#[test]
fn the_highest_rate_is_of_the_bucket_before() {
    // Begins at a multiple of 300 s plus 100 s.
    let mut fixture = UdpFixture::new(MUSICBRAINZ);
    let told = |fixture: &mut UdpFixture, n_req: u32, max: u32| {
        let expected = format!("n_req={n_req} n_over=0 last_max_rate={max} key=ws global");
        fixture.says("get_stats ws global", &expected);
    };
    for _ in 0..8 {
        fixture.send("over_limit ws global");
    }
    told(&mut fixture, 8, 0);
    let start = fixture.now.as_nanos() / 300_000_000_000 * 300;
    fixture.wait_secs(start + 299 - fixture.now.as_nanos() / 1_000_000_000);
    told(&mut fixture, 8, 0);
    fixture.wait_secs(1);
    told(&mut fixture, 8, 7);
    fixture.send("over_limit ws global");
    told(&mut fixture, 9, 7);
    fixture.wait_secs(299);
    told(&mut fixture, 9, 7);
    fixture.wait_secs(1);
    // The one use in that bucket was long after the others.
    told(&mut fixture, 9, 0);
    fixture.wait_secs(300);
    told(&mut fixture, 9, 0);
}

#[test]
fn over_limit_uses_are_counted_as_such() {
    let mut fixture = UdpFixture::new(MUSICBRAINZ);
    for _ in 0..130 {
        fixture.send("over_limit ws ua=libvlc");
    }
    fixture.says("get_stats ws ua=libvlc", "n_req=130 n_over=5 last_max_rate=0 key=ws ua=libvlc");
    fixture.wait_secs(300);
    fixture.says("get_stats ws ua=libvlc", "n_req=130 n_over=5 last_max_rate=125 key=ws ua=libvlc");
}

#[test]
fn addresses_have_no_statistics() {
    let mut fixture = UdpFixture::new(MUSICBRAINZ);
    fixture.send("over_limit ws ip=1.2.3.4");
    fixture.says("get_stats ws ip=1.2.3.4", "n_req=0 n_over=0 last_max_rate=0 key=ws ip=1.2.3.4");
    fixture.says("get_stats default", "n_req=0 n_over=0 last_max_rate=0 key=default");
}
