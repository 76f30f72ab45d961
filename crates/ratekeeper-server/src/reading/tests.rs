use std::sync::mpsc::sync_channel;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::*;
use crate::files::Text;

/// As long as no test waits.
const LONG: Duration = Duration::from_mins(1);
/// Soon over.
const SHORT: Duration = Duration::from_millis(20);

#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    let folder = std::env::temp_dir().join(format!("ratekeeper-reading-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let pipe = folder.join("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    for path in [&*pipe, &*folder, Path::new("/dev/zero"), Path::new("/dev/tty")] {
        let refused = read_file(path, 9).unwrap_err();
        assert_eq!(refused.to_string(), "it is no regular file", "{}", path.display());
    }
    let file = folder.join("file");
    std::fs::write(&file, "0123456789").unwrap();
    assert_eq!(read_file(&file, 9).unwrap(), b"012345678");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_file_that_hangs_is_told_and_holds_up_nobody_for_longer_than_the_bound() {
    let thread = FileThread::start(SHORT).unwrap();
    let (go_on, wait) = sync_channel::<()>(0);
    let hang = move |place: &Place| {
        place.is(Path::new("/mnt/limits.yaml"));
        wait.recv().unwrap();
    };
    let late = Unread::Late { path: "/mnt/limits.yaml".into(), bound: SHORT };
    assert_eq!(thread.run(hang), Err(late.clone()));
    assert_eq!(thread.run(|_| ()), Err(late), "it still hangs");
    go_on.send(()).unwrap();
    while thread.run(|_| 7) != Ok(7) {
        thread::yield_now();
    }
}

#[test]
fn whoever_waits_is_let_go_when_the_server_is_to_stop() {
    let thread = FileThread::start(LONG).unwrap();
    let (begun, has_begun) = sync_channel::<()>(0);
    let (go_on, wait) = sync_channel::<()>(0);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            thread.run(move |_| {
                begun.send(()).unwrap();
                let _ = wait.recv();
            })
        });
        has_begun.recv().unwrap();
        thread.stop();
        assert_eq!(waiting.join().unwrap(), Err(Unread::Stopped));
        assert_eq!(thread.run(|_| ()), Err(Unread::Stopped));
    });
    drop(go_on);
}

#[test]
fn a_panic_on_the_thread_is_told_and_the_next_goes_on() {
    let thread = FileThread::start(LONG).unwrap();
    assert_eq!(thread.run(|_| panic!("on purpose")).map(|()| 1), Err(Unread::Gone));
    assert_eq!(thread.run(|_| 2), Ok(2));
}

#[test]
fn a_settings_file_whose_disk_hangs_is_told_within_the_bound() {
    let thread = FileThread::start(SHORT).unwrap();
    let (go_on, wait) = sync_channel::<()>(0);
    let hang = move |place: &Place| {
        place.is(Path::new("/mnt/ratekeeper.yaml"));
        let _ = wait.recv();
    };
    thread.run(hang).unwrap_err();
    let told = Text::read_on(&thread, "settings", "/mnt/ratekeeper.yaml".into(), true).unwrap_err();
    assert!(told.to_string().starts_with("/mnt/ratekeeper.yaml does not answer"), "{told}");
    drop(go_on);
    let none = |must_exist| Text::read_in_time("settings", Path::new("/nonexistent"), must_exist);
    assert_eq!(none(false).unwrap(), None);
    assert!(none(true).is_err());
}
