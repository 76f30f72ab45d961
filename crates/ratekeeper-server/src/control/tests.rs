use std::os::unix::fs::symlink;
use std::sync::Barrier;
use std::thread;

use tokio::runtime::Builder;

use super::*;

fn folder(name: &str) -> PathBuf {
    let name = format!("ratekeeper-control-{}-{name}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn of_servers_that_start_at_the_same_moment_exactly_one_has_the_socket() {
    const SERVERS: usize = 4;
    let folder = folder("many");
    for round in 0..50 {
        let path = folder.join(format!("{round}.sock"));
        // As a server left it that was killed.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let (ready, all_have_tried) = (Barrier::new(SERVERS), Barrier::new(SERVERS));
        let try_it = || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            let _inside = runtime.enter();
            ready.wait();
            let opened = Control::open(&path);
            all_have_tried.wait();
            let answers = StdUnixStream::connect(&path).is_ok();
            all_have_tried.wait();
            assert!(answers, "the one that has it can be reached");
            opened.is_ok()
        };
        let winners = thread::scope(|scope| {
            let all: Vec<_> = (0..SERVERS).map(|_| scope.spawn(try_it)).collect();
            all.into_iter().map(|it| it.join().unwrap()).filter(|it| *it).count()
        });
        assert_eq!(winners, 1, "of {SERVERS} in round {round}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_path_is_free_again_when_its_server_is_gone_and_a_link_is_not_followed() {
    let folder = folder("one");
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let path = folder.join("sock");
    for _ in 0..3 {
        let control = Control::open(&path).unwrap();
        let refused = Control::open(&path).err().unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        let mode = std::fs::metadata(folder.join("sock.lock")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(control);
    }
    symlink(folder.join("victim"), folder.join("other.lock")).unwrap();
    assert!(Control::open(&folder.join("other")).is_err());
    assert!(!folder.join("victim").exists());
    std::fs::remove_dir_all(&folder).unwrap();
}
