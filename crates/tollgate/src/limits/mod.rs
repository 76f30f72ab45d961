//! Names, id formats, defaults and overrides, and the files that hold them.
