//! `cargo xtask bench`: how fast it is, always as a ratio to something else in the same run.

mod all;
mod crowd;
mod engine;
mod redis;
mod saved;
pub(crate) mod tracker;
pub(crate) mod udp;

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(clap::Subcommand)]
pub(crate) enum Bench {
    /// Every door beside a bare echo, and beside the servers and libraries of others
    All(all::Args),
    /// Be a server that only echoes
    #[command(hide = true)]
    Echo(all::echo::Args),
    /// One decision in process, beside governor's
    Engine(engine::Args),
    /// One datagram through the UDP door, beside the bare store
    Udp(udp::Args),
    /// How long clients wait while thousands of others are idle or trickle
    Crowd(crowd::Args),
    /// Saving all buckets and restoring them
    Saved(saved::Args),
    /// Decisions in Redis, beside a plain loop of EVALSHA; and while Redis is away
    Redis(redis::Args),
    /// Asking the tracker and telling it of the response, beside one check by governor
    Tracker(tracker::Args),
}

pub(crate) fn run(bench: &Bench) -> Result<(), Failure> {
    match bench {
        Bench::All(args) => all::run(args),
        Bench::Echo(args) => all::echo::run(args),
        Bench::Engine(args) => engine::run(args),
        Bench::Udp(args) => udp::run(args),
        Bench::Crowd(args) => crowd::run(args),
        Bench::Saved(args) => saved::run(args),
        Bench::Redis(args) => redis::run(args),
        Bench::Tracker(args) => tracker::run(args),
    }
}
