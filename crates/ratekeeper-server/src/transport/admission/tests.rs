use super::*;

fn admission(connections: usize, per_source: usize, allow: &[&str]) -> Arc<Admission> {
    let allow: Vec<IpNet> = allow.iter().map(|net| net.parse().unwrap()).collect();
    Arc::new(Admission::new(&allow, connections, per_source))
}

#[test]
fn bounds_hold_and_places_come_back() {
    let door = admission(3, 2, &[]);
    let [ada, bob]: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|it| it.parse().unwrap());
    let first = door.admit(ada).unwrap();
    let second = door.admit(ada).unwrap();
    assert!(door.admit(ada).is_none(), "two from one address are enough");
    let third = door.admit(bob).unwrap();
    assert!(door.admit("10.0.0.3".parse().unwrap()).is_none(), "three in all are enough");
    drop(first);
    drop(door.admit(ada).unwrap());
    drop((second, third));
    assert_eq!(door.open.load(Ordering::Relaxed), 0);
    assert!(door.sources.lock().is_empty(), "who is gone is forgotten");
}

#[test]
fn only_allowed_networks_come_in() {
    let door = admission(9, 9, &["10.0.0.0/8", "2001:db8::/32"]);
    for (source, expected) in [
        ("10.1.2.3", true),
        ("11.1.2.3", false),
        ("::ffff:10.1.2.3", true),
        ("2001:db8::1", true),
        ("::1", false),
    ] {
        assert_eq!(door.admit(source.parse().unwrap()).is_some(), expected, "{source}");
    }
}
