//! The life of a process in one, with real signals.

use std::sync::mpsc::sync_channel;

use nix::sys::signal::{Signal, raise};
use ratekeeper::Nanos;

use super::*;
use crate::overrides::{NewOverride, Who};
use crate::reading::Unread;
use crate::settings::ControlSetting;

fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.udp.listen = Some("127.0.0.1:0".parse().unwrap());
    settings.http.listen = None;
    settings.bucket.stream.listen = None;
    settings.throttr.stream.listen = None;
    settings.resp.listen = None;
    settings.memory = 16 << 20;
    settings.control = ControlSetting::Off;
    settings
}

#[test]
fn a_stop_and_a_change_of_overrides_do_not_wait_for_a_disk_that_hangs() {
    let settings = settings();
    let server = Arc::new(Server::start(&settings, Arc::new(Clock::start())).unwrap());
    let (begun, has_begun) = sync_channel::<()>(0);
    let (go_on, wait) = sync_channel::<()>(0);
    let hanging_server = Arc::clone(&server);
    let hanging = thread::spawn(move || {
        hanging_server.admin().file_groups.limits.run(move |_| {
            begun.send(()).unwrap();
            let _ = wait.recv();
        })
    });
    has_begun.recv().unwrap();
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let is_over = LocalSet::new().block_on(&runtime, async {
        let signals = Signals::new().unwrap();
        let living = spawn_local({
            let (settings, server) = (settings.clone(), Arc::clone(&server));
            async move { live(&settings, server, signals).await }
        });
        raise(Signal::SIGHUP).unwrap();
        let task_server = Arc::clone(&server);
        let put = spawn_blocking(move || put(&task_server, None));
        put.await.unwrap();
        raise(Signal::SIGTERM).unwrap();
        living.await.unwrap()
    });
    assert!(is_over, "all that used the server has ended");
    assert_eq!(hanging.join().unwrap(), Err(Unread::Stopped));
    assert!(Arc::into_inner(server).unwrap().drain(settings.drain).unwrap());
    drop(go_on);
}

fn put(server: &Server, until: Option<Moment>) {
    let new = NewOverride {
        limit: "LoginsPerUser".into(),
        id: "ada".into(),
        burst: 100,
        count: 100,
        period: Nanos::from_secs(1),
        why: "a test".into(),
        until,
        may_lower: true,
    };
    server.put_override(new, Who { by: "ops", from: None }, false).unwrap();
}

#[test]
fn an_override_ends_without_being_asked_also_while_the_disk_of_another_change_hangs() {
    for does_hang in [false, true] {
        let settings = settings();
        let server = Arc::new(Server::start(&settings, Arc::new(Clock::start())).unwrap());
        let until = server.time().wall().after(Nanos::from_secs(1));
        put(&server, Some(until));
        // As whoever makes an override holds it while a disk is written to.
        let hanging = does_hang.then(|| server.engine().active_overrides.record());
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ended = LocalSet::new().block_on(&runtime, async {
            let (stop, _) = watch::channel(());
            let mut housekeeping = keep_house(&server, &stop);
            while server.override_of("LoginsPerUser", "ada").is_some() {
                tokio::task::yield_now().await;
            }
            let ended = server.time().wall();
            drop(hanging);
            while server.audit(9).unwrap().len() < 2 {
                tokio::task::yield_now().await;
            }
            drop(stop);
            while housekeeping.join_next().await.is_some() {}
            ended
        });
        assert!(ended >= until, "not before its time");
        let record = server.audit(1).unwrap().pop().unwrap();
        assert!(record.at.0 >= until, "{record:?}");
        assert_eq!(record.before.as_deref(), Some("100 per 1s"));
    }
}

#[test]
fn a_start_that_hangs_is_ended_by_a_signal() {
    let (begun, has_begun) = sync_channel::<()>(0);
    let (go_on, wait) = sync_channel::<()>(0);
    let hang = move || {
        begun.send(()).unwrap();
        let _ = wait.recv();
        Err(StartError::NoDoor)
    };
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let started = LocalSet::new().block_on(&runtime, async {
        let mut signals = Signals::new().unwrap();
        let starting = spawn_local(async move {
            start_unless_stopped(hang, Duration::from_millis(1), &mut signals).await
        });
        spawn_blocking(move || has_begun.recv().unwrap()).await.unwrap();
        raise(Signal::SIGTERM).unwrap();
        starting.await.unwrap().unwrap()
    });
    assert!(started.is_none(), "no server is left");
    drop(go_on);
}
