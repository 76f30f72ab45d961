//! The binary `tollgate`.
fn main() {}
