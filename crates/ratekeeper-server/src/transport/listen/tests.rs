use std::sync::Barrier;

use super::*;

#[test]
fn an_open_address_needs_a_list_of_who_may_come() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let address = address.parse().unwrap();
        let refused = udp("udp", address, &[], 1).unwrap_err().to_string();
        assert!(refused.contains("--udp-allow"), "{refused}");
        assert!(matches!(tcp("bucket", address, &[], 1), Err(ListenError::Open { .. })));
    }
    let everybody = ["0.0.0.0/0".parse().unwrap()];
    assert!(tcp("bucket", "0.0.0.0:0".parse().unwrap(), &everybody, 1).is_ok());
    for loopback in ["127.0.0.1:0", "127.9.9.9:0", "[::1]:0"] {
        assert!(udp("udp", loopback.parse().unwrap(), &[], 2).is_ok(), "{loopback}");
    }
}

#[test]
fn workers_share_an_address_that_nobody_else_has() {
    let address = "127.0.0.1:0".parse().unwrap();
    let first = tcp("bucket", address, &[], 3).unwrap();
    assert_eq!(first.sockets.len(), 3);
    assert!(first.sockets.iter().all(|it| it.local_addr().unwrap() == first.address));
    let second = tcp("bucket", first.address, &[], 1).unwrap_err();
    let second = second.to_string();
    assert!(second.contains("the bucket door cannot listen on"), "{second}");
    assert!(second.contains("or close the door with --bucket off"), "{second}");
    let first = udp("udp", address, &[], 2).unwrap();
    assert!(udp("udp", first.address, &[], 2).is_err());
}

#[test]
fn of_servers_that_open_at_the_same_moment_exactly_one_has_the_port() {
    const ROUNDS: usize = 50;
    // Where no other test opens anything meanwhile.
    const ADDRESS: &str = "127.88.0.1:0";
    // Those of one row are in each other's way.
    const WANTED: [[&str; 4]; 3] = [
        ["127.88.0.1", "127.88.0.1", "127.88.0.1", "127.88.0.1"],
        ["0.0.0.0", "127.88.0.1", "0.0.0.0", "0.0.0.0"],
        ["127.88.0.1", "0.0.0.0", "127.88.0.1", "::"],
    ];
    let open: [fn(SocketAddr) -> Option<SocketAddr>; 2] = [
        |address| guarded_tcp("http", address, 2).ok().map(forget),
        |address| {
            let everybody = ["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()];
            udp("udp", address, &everybody, 2).ok().map(forget)
        },
    ];
    for open in open {
        let mut rounds = WANTED.iter().cycle().take(ROUNDS).peekable();
        let mut taken_by_others = 0;
        while let Some(wanted) = rounds.peek() {
            // A port that was free a moment ago, and is nobody's now.
            let free = tcp("bucket", ADDRESS.parse().unwrap(), &[], 1).unwrap().address;
            let ready = Barrier::new(wanted.len());
            let try_it = |ip: &str| {
                let address = SocketAddr::new(ip.parse().unwrap(), free.port());
                ready.wait();
                open(address)
            };
            let winners = thread::scope(|scope| {
                let all = wanted.map(|ip| scope.spawn(move || try_it(ip)));
                all.into_iter().filter_map(|it| it.join().unwrap()).count()
            });
            // If nobody has the port, it is because of each other; unless another test took it meanwhile, and then
            // it is refused to one that comes alone, too.
            if winners == 0
                && open(SocketAddr::new(wanted[0].parse().unwrap(), free.port())).is_none()
            {
                taken_by_others += 1;
                assert!(taken_by_others < ROUNDS / 10, "the port {} is never free", free.port());
                continue;
            }
            assert_eq!(winners, 1, "of {wanted:?} that wanted port {}", free.port());
            rounds.next();
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_port_that_somebody_else_claims_and_does_not_open_is_opened_all_the_same() {
    let free = tcp("bucket", "127.88.0.2:0".parse().unwrap(), &[], 1).unwrap().address;
    for kind in [Type::STREAM, Type::DGRAM] {
        let squatter = claim(free, kind).unwrap();
        let opened = if kind == Type::STREAM {
            tcp("bucket", free, &[], 2).unwrap().address
        } else {
            udp("udp", free, &[], 2).unwrap().address
        };
        assert_eq!(opened, free);
        drop(squatter);
    }
}

/// Keeps the sockets open until the process ends, so that whoever comes a little later finds
/// them too.
fn forget<S>(opened: Listening<S>) -> SocketAddr {
    let address = opened.address;
    std::mem::forget(opened);
    address
}
