//! Programs on a processor of their own.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use super::super::Failure;

/// The processor of the servers.
pub(super) const SERVER_CORE: &str = "0";
/// The processor of whoever asks them.
pub(super) const CLIENT_CORE: &str = "1";

/// A program that runs on one processor only.
pub(super) fn pinned(core: &str, program: impl AsRef<Path>) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", core]).arg(program.as_ref()).stdin(Stdio::null());
    command
}

/// Refuses a machine on which nothing can be pinned, or nothing beside a server.
pub(super) fn can_pin() -> Result<(), Failure> {
    for core in [SERVER_CORE, CLIENT_CORE] {
        let tried = pinned(core, "true").stderr(Stdio::null()).status().map_err(|error| {
            format!("starting taskset ({error}): install util-linux, which has it")
        })?;
        if !tried.success() {
            let words = format!("there is no processor {core}");
            return Err(format!("{words}: a server and its client need one each").into());
        }
    }
    Ok(())
}

/// What a program wrote. Refuses any ending but success, in its words.
pub(super) fn output(mut command: Command) -> Result<String, Failure> {
    let program = command.get_program();
    let pinned = if program == "taskset" { command.get_args().nth(2) } else { None };
    let name = pinned.unwrap_or(program).to_owned();
    let name = name.display();
    let output = command.output().map_err(|error| format!("starting {name}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let mut lines = said.lines().filter(|line| !line.trim().is_empty());
        let words = lines.clone().find(|line| line.starts_with("error")).or(lines.next_back());
        let words = words.unwrap_or_default();
        return Err(format!("{name} ended with {}: {words}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// A server's process, which ends when it is dropped.
pub(super) struct Process {
    child: Child,
    output: Option<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts it; what it writes to standard output is read by `line`.
    pub(super) fn start(mut command: Command) -> Result<Self, Failure> {
        command.stdout(Stdio::piped());
        Self::spawn(command)
    }

    /// Starts it; nobody is interested in what it writes.
    pub(super) fn start_silent(mut command: Command) -> Result<Self, Failure> {
        command.stdout(Stdio::null());
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Result<Self, Failure> {
        command.stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("starting a server: {error}"))?;
        let output = child.stdout.take().map(BufReader::new);
        Ok(Self { child, output })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line. Refuses if there is none, because the program has ended.
    pub(super) fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        if let Some(output) = &mut self.output {
            output.read_line(&mut line)?;
        }
        if line.is_empty() {
            return Err("it ended without saying where it listens".into());
        }
        Ok(line.trim_end().to_owned())
    }

    /// What all its threads have used until now.
    pub(super) fn cpu(&self) -> Result<Duration, Failure> {
        let mut nanos = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.pid()))? {
            let text = fs::read_to_string(task?.path().join("schedstat"))?;
            nanos += on_processor(&text).ok_or("the kernel tells no processor time")?;
        }
        Ok(Duration::from_nanos(nanos))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first of the three numbers of `schedstat`.
fn on_processor(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests;
