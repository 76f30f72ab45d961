//! `tollgate bench`: measuring a server from outside.

pub(crate) mod args;
mod trial;

pub(crate) use trial::{Trial, run};
