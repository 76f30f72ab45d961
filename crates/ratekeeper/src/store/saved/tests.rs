//! Frames and sections, whole and broken.
#![expect(clippy::indexing_slicing, reason = "a panic is a failed test")]

use ratekeeper_testkit::random::Random;

use super::*;

/// Three sections, of which the second takes several frames.
fn file() -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file).unwrap();
    writer.begin(Section::Limits);
    writer.text("name").unwrap();
    writer.end().unwrap();
    writer.begin(Section::Averages);
    for n in 0..100_000 {
        writer.u64(n).unwrap();
    }
    writer.end().unwrap();
    writer.begin(Section::Quotas);
    writer.end().unwrap();
    let bytes = writer.finish().unwrap();
    assert_eq!(bytes, file.len() as u64);
    file
}

fn sections(file: &[u8]) -> Result<Vec<Section>, RestoreError> {
    let mut reader = Reader::new(file)?;
    let mut sections = Vec::new();
    while let Some(section) = reader.next_section()? {
        sections.push(section);
    }
    Ok(sections)
}

#[test]
fn what_was_written_is_read() {
    let file = file();
    let mut reader = Reader::new(file.as_slice()).unwrap();
    assert_eq!(reader.next_section().unwrap(), Some(Section::Limits));
    reader.begin(Section::Limits).unwrap();
    assert_eq!(reader.text().unwrap(), "name");
    reader.end().unwrap();
    assert_eq!(reader.next_section().unwrap(), Some(Section::Averages));
    reader.begin(Section::Averages).unwrap();
    for n in 0..100_000 {
        assert_eq!(reader.u64().unwrap(), n);
    }
    reader.end().unwrap();
    assert_eq!(reader.next_section().unwrap(), Some(Section::Quotas));
    reader.begin(Section::Quotas).unwrap();
    reader.end().unwrap();
    assert_eq!(reader.next_section().unwrap(), None);
}

#[test]
fn a_section_that_nobody_reads_is_passed_over() {
    let all = [Section::Limits, Section::Averages, Section::Quotas];
    assert_eq!(sections(&file()).unwrap(), all);
}

#[test]
fn a_section_is_read_to_its_end_and_no_further() {
    let file = file();
    let mut reader = Reader::new(file.as_slice()).unwrap();
    reader.next_section().unwrap();
    reader.begin(Section::Limits).unwrap();
    reader.u8().unwrap();
    assert!(reader.end().unwrap_err().is_damage(), "there is more");
    reader.bytes(5).unwrap();
    assert!(reader.u8().unwrap_err().is_damage(), "there is no more");
    assert_eq!(reader.next_section().unwrap(), Some(Section::Averages));
    assert!(matches!(reader.begin(Section::Quotas), Err(RestoreError::Section { .. })));
    assert!(reader.begin(Section::Averages).is_err(), "it is asked for only once");
}

#[test]
fn nothing_in_a_section_that_is_damaged_is_looked_at() {
    let mut file = file();
    let place = file.len() / 2;
    file[place] ^= 1;
    let mut reader = Reader::new(file.as_slice()).unwrap();
    reader.next_section().unwrap();
    reader.next_section().unwrap();
    reader.begin(Section::Averages).unwrap();
    let mut read = 0;
    while let Ok(n) = reader.u64() {
        assert_eq!(n, read);
        read += 1;
    }
    assert!(read < 50_000);
    assert!(reader.u64().unwrap_err().is_damage(), "nor later");
}

#[test]
fn frames_that_change_places_are_noticed() {
    let file = file();
    let start = HEADER_BYTES + SUM_BYTES;
    let first = FRAME_HEADER_BYTES + 6 + SUM_BYTES;
    let second = FRAME_BYTES_MAX + SUM_BYTES;
    assert_eq!(file[start + first], Mark::Begin(Section::Averages).byte());
    let mut swapped = file.clone();
    swapped[start..start + first + second].rotate_left(first);
    assert!(sections(&swapped).unwrap_err().is_damage());
    let mut missing = file;
    missing.drain(start..start + first);
    assert!(sections(&missing).unwrap_err().is_damage());
}

#[test]
fn another_version_is_no_damage() {
    let mut file = Vec::from(MAGIC);
    file.extend_from_slice(&(VERSION + 1).to_le_bytes());
    file.extend_from_slice(&crc32fast::hash(&file).to_le_bytes());
    let error = sections(&file).unwrap_err();
    assert!(matches!(error, RestoreError::Version { found } if found == VERSION + 1), "{error}");
}

#[test]
fn an_error_of_the_reader_is_no_damage() {
    struct Broken;
    impl io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("no disk"))
        }
    }
    let file = file();
    let mut reader = Reader::new(io::Read::chain(&file[..1_000], Broken)).unwrap();
    reader.next_section().unwrap();
    assert!(matches!(reader.next_section(), Err(RestoreError::Read(_))));
}

#[test]
fn an_error_of_the_writer_is_told() {
    let mut room = [0; 40];
    let mut writer = Writer::new(room.as_mut_slice()).unwrap();
    writer.begin(Section::Quotas);
    writer.u128(1).unwrap();
    assert!(writer.end().is_err());
}

#[test]
fn a_length_that_is_a_lie_takes_no_memory() {
    let mut file = Vec::from(MAGIC);
    file.extend_from_slice(&VERSION.to_le_bytes());
    file.extend_from_slice(&crc32fast::hash(&file).to_le_bytes());
    file.push(Mark::Begin(Section::Limits).byte());
    file.extend_from_slice(&u32::try_from(FRAME_BYTES_MAX).unwrap().to_le_bytes());
    assert!(sections(&file).unwrap_err().is_damage());
    let length = file.len();
    file[length - 4..].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(sections(&file).unwrap_err().is_damage());
}

#[test]
fn any_bytes_are_refused() {
    let mut random = Random::new(1);
    let start = &file()[..HEADER_BYTES + SUM_BYTES];
    for round in 0..20_000 {
        let length = random.index(300);
        let mut bytes = if round % 2 == 0 { Vec::new() } else { start.to_vec() };
        bytes.extend((0..length).map(|_| u8::try_from(random.below(256)).unwrap()));
        assert!(sections(&bytes).unwrap_err().is_damage());
    }
}
