use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::*;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn no_id_begins_a_line_of_the_log_or_reaches_the_terminal() {
    let lines = Lines::default();
    let writer = lines.clone();
    let log = fmt()
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .without_time()
        .fmt_fields(debug_fn(write_field).delimited(" "));
    let id = "ada\n2026-12-01 ERROR all is lost\u{1b}[2J\r\u{9b}1m\u{2028}\u{202e}";
    tracing::subscriber::with_default(log.finish(), || {
        tracing::warn!(%id, at = 7, "it does not apply");
        tracing::error!("files were refused:\n{id}");
    });
    let text = String::from_utf8(lines.0.lock().clone()).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[0].contains(r"it does not apply id=ada\n2026-12-01"), "{text}");
    assert!(lines[0].ends_with(r"\u{1b}[2J\r\u{9b}1m\u{2028}\u{202e} at=7"), "{text}");
    assert!(lines[3].starts_with("    2026-12-01 ERROR"), "{text}");
    let is_raw = |c: char| crate::is_unseen(c) && c != '\n';
    assert!(!text.chars().any(is_raw), "{text:?}");
}
