use std::sync::Barrier;
use std::thread;

use super::*;

fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("ratekeeper-state-{name}-{}", std::process::id()))
}

#[test]
fn a_new_directory_is_its_owners_alone() {
    let outer = folder("private");
    let inner = outer.join("a/state");
    StateDir::open(&inner).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&inner), PRIVATE);
    fs::set_permissions(&inner, Permissions::from_mode(0o750)).unwrap();
    StateDir::open(&inner).unwrap();
    assert_eq!(mode(&inner), 0o750, "what its owner allows is the owner's business");
    fs::remove_dir_all(outer).unwrap();
}

#[test]
fn of_servers_that_start_at_the_same_moment_exactly_one_has_the_directory() {
    const SERVERS: usize = 4;
    for round in 0..20 {
        let folder = folder(&format!("race-{round}"));
        let (ready, done) = (Barrier::new(SERVERS), Barrier::new(SERVERS));
        let try_it = || {
            ready.wait();
            let opened = StateDir::open(&folder);
            // Whoever has it keeps it until all have tried.
            done.wait();
            opened.is_ok()
        };
        let winners = thread::scope(|scope| {
            let all: Vec<_> = (0..SERVERS).map(|_| scope.spawn(try_it)).collect();
            all.into_iter().map(|it| it.join().unwrap()).filter(|it| *it).count()
        });
        assert_eq!(winners, 1);
        fs::remove_dir_all(folder).unwrap();
    }
}
