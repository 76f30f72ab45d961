//! The files of the working tree, as the rules see them.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use crate::error::Error;
use crate::process::{command, output, root};

/// Every file that is, or could next be, in the repository: its path from the root and its text.
pub(super) struct Tree {
    /// A file that is not text is there with an empty text.
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the files that git knows or would add; refuses what it cannot read.
    pub(super) fn read() -> Result<Self, Error> {
        // In a container the checkout often belongs to another user, which git refuses by default.
        let list = ["-c", "safe.directory=*", "ls-files", "-z"];
        let which = ["--cached", "--others", "--exclude-standard", "--deduplicate"];
        let paths = output(command("git", &[&list[..], &which].concat()))?;
        let paths = String::from_utf8_lossy(&paths);
        let mut files = BTreeMap::new();
        for path in paths.split_terminator('\0') {
            if let Some(text) = read_text(&root().join(path))? {
                files.insert(path.to_owned(), text);
            }
        }
        Ok(Self { files })
    }

    /// A tree that exists only here.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let own = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        Self { files: files.iter().map(own).collect() }
    }

    /// Every path with its text, in order.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The text of the file at `path`; empty if there is none.
    pub(super) fn text(&self, path: &str) -> &str {
        self.files.get(path).map_or("", String::as_str)
    }

    /// Whether `path` is a file, or a folder with a file in it. The root is the empty path.
    pub(super) fn has(&self, path: &str) -> bool {
        let folder = if path.is_empty() { String::new() } else { format!("{path}/") };
        self.files.contains_key(path) || self.files.keys().any(|file| file.starts_with(&folder))
    }

    /// The line, counted from 1, of the first line of `path` that `wanted` holds for; else 1.
    pub(super) fn line_where(&self, path: &str, wanted: impl Fn(&str) -> bool) -> usize {
        self.text(path).lines().position(wanted).map_or(1, |index| index + 1)
    }
}

/// The text of a file; `None` if git still lists it but it has been deleted.
fn read_text(path: &Path) -> Result<Option<String>, Error> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8(bytes).unwrap_or_default())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Read { path: path.to_owned(), source }),
    }
}
