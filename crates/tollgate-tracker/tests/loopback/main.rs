//! The simulated Discord behind real sockets, and the examples.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod minute;

#[path = "../../examples/discord.rs"]
mod discord_example;
#[path = "../../examples/llm.rs"]
mod llm_example;
#[path = "../../examples/local/mod.rs"]
mod local;
#[path = "../../examples/reqwest.rs"]
mod reqwest_example;
#[path = "../../examples/tower.rs"]
mod tower_example;

#[test]
fn the_examples_run() {
    discord_example::main().unwrap();
    llm_example::main().unwrap();
    reqwest_example::main().unwrap();
    tower_example::main().unwrap();
}
