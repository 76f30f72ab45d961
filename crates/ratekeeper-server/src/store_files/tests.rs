use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::*;
use crate::with_causes;

#[test]
fn certificates_of_the_store_are_regular_files_of_a_bounded_size_that_are_read_once() {
    let folder = std::env::temp_dir().join(format!("ratekeeper-store-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (pipe, file) = (folder.join("pipe"), folder.join("ca.pem"));
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let read = |path: &Path| {
        let settings = StoreSettings { ca: Some(path.to_owned()), ..StoreSettings::default() };
        read_tls(&settings, &Place::default())
    };
    let refused = with_causes(&read(&pipe).unwrap_err());
    assert!(refused.ends_with("it is no regular file"), "{refused}");
    std::fs::write(&file, vec![b'x'; PEM_BYTES_MAX + 1]).unwrap();
    let refused = with_causes(&read(&file).unwrap_err());
    assert!(refused.contains("ca.pem: it is larger than"), "{refused}");
    std::fs::write(&file, "some text").unwrap();
    let tls = read(&file).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(tls.authority.unwrap().text, b"some text");
}
