//! `ratekeeper replay`: recorded traffic, decided in virtual time.

pub(crate) mod args;
mod doors;
mod escape;
mod limits;
pub(crate) mod lines;
mod request;
mod rows;
mod unix_time;

use std::path::PathBuf;

use ratekeeper::limiter::MEMORY_DEFAULT;
use ratekeeper::store::Secret;
use ratekeeper::{Limiter, Limits};
use ratekeeper_protocol::throttr;

use crate::error::{Error, Exit};
use crate::files::Files;

pub(crate) use rows::BadRow;

/// The same input must give the same output, also when memory runs short; and what is recorded is
/// not an attack on the table.
const SECRET: Secret = Secret::new(0x7261_7465_6b65_6570, 0x7265_706c_6179);

/// A limiter for recorded times, which may step back.
fn limiter(limits: Limits) -> Result<Limiter, Error> {
    let limiter = Limiter::with_secret(limits, MEMORY_DEFAULT, SECRET).map_err(Error::Memory)?;
    limiter.expect_steps_back();
    Ok(limiter)
}

/// What is replayed: asks by name, or what a door receives.
#[derive(Debug)]
pub(crate) enum Replay {
    Limits(Files),
    Udp { rules: PathBuf, buckets: Option<PathBuf>, files: Option<Files> },
    Bucket { buckets: PathBuf, files: Option<Files> },
    Throttr { files: Option<Files>, options: throttr::Options },
    Resp(Option<Files>),
}

/// Answers standard input line by line.
pub(crate) fn run(replay: &Replay) -> Result<Exit, Error> {
    match replay {
        Replay::Limits(files) => return limits::run(files),
        Replay::Udp { rules, buckets, files } => {
            doors::udp(rules, buckets.as_deref(), files.as_ref())?;
        }
        Replay::Bucket { buckets, files } => doors::bucket(buckets, files.as_ref())?,
        Replay::Throttr { files, options } => doors::throttr(files.as_ref(), *options)?,
        Replay::Resp(files) => doors::resp(files.as_ref())?,
    }
    Ok(Exit::Allowed)
}
