use super::*;

#[test]
fn every_file_of_the_folder_is_served() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/http/page");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| path.file_name().is_some_and(|name| name != "tests.rs"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let mut served: Vec<_> = PAGES.iter().map(|page| page.text.to_owned()).collect();
    files.sort_unstable();
    served.sort_unstable();
    assert!(files == served, "{} files, {} are served", files.len(), served.len());
}

#[test]
fn whoever_has_a_file_is_not_sent_it_again() {
    let fixed = Fixed::new(HTML, Bytes::from_static(b"text"));
    let tag = fixed.tag.to_str().unwrap().to_owned();
    let status = |field: &str| {
        let headers = HeaderMap::from_iter([(IF_NONE_MATCH, field.parse().unwrap())]);
        fixed.answer(&headers).status().as_u16()
    };
    assert_eq!(status(&tag), 304);
    assert_eq!(status(&format!("\"other\", W/{tag}")), 304);
    assert_eq!(status("*"), 304);
    assert_eq!(status("\"other\""), 200);
    let other = Fixed::new(HTML, Bytes::from_static(b"texts"));
    assert_ne!(other.tag, fixed.tag);
}
