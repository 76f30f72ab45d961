//! `cargo xtask fuzz-api`: asks a server everything that its own document allows, and much that it
//! does not, with schemathesis. What it answers has to be what the document says: to anybody where
//! there are no tokens, and where there are, to who may do all and to who may only decide.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::error::Error;
use crate::install::ensure_program;
use crate::process::{command, run as run_command, spelled, succeeds, target};

/// The version that is installed, so that everybody finds the same.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";

/// A stream that never ends has no answer to look at.
const ENDLESS: &str = "/v1/live";

/// Few limits, so that some of what is asked is allowed and some is denied.
const LIMITS: &str = "\
LoginsPerUser: {burst: 5, count: 1, period: 1m}
RequestsPerIPAddress: {burst: 20, count: 10, period: 1s, id: ipAddress}
";

/// What is valid may still be refused: 422 says that a limit is not there, or a time over, which no
/// schema can know.
const CONFIG: &str = r#"
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "401", "403", "404", "409", "422", "429"]
"#;

/// The tokens of a server that has some, as in its environment.
const TOKENS: &str = "ops admin a-token-that-may-do-all;app decide a-token-that-may-decide";

/// Who asks.
const PASSES: [Pass; 3] = [
    Pass { about: "anybody, where there are no tokens", token: None },
    Pass { about: "the role admin", token: Some("a-token-that-may-do-all") },
    Pass { about: "the role decide", token: Some("a-token-that-may-decide") },
];

struct Pass {
    about: &'static str,
    /// With it, schemathesis also takes it away and sends a wrong one: both have to be refused
    /// wherever the document says that one is needed.
    token: Option<&'static str>,
}

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many requests are made up for each route and kind
    #[arg(long, value_name = "N", default_value_t = 200)]
    examples: u32,
    /// Where to begin, to make up the same requests again
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u32,
}

/// Refuses if an answer is not what the document says.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let folder = target()?.join("fuzz-api");
    let schemathesis = install(&folder)?;
    // The profile of the tests: optimised, and a number that overflows is found.
    let build =
        ["build", "--quiet", "--profile", "test", "--locked", "--package", "ratekeeper-cli"];
    run_command(command("cargo", &build))?;
    write(&folder.join("schemathesis.toml"), CONFIG)?;
    let program = target()?.join("debug/ratekeeper");
    for pass in &PASSES {
        eprintln!("asking as {}", pass.about);
        let server = Server::start(&program, &folder, pass.token.is_some())?;
        run_command(pass.fuzz(&schemathesis, &server, args, &folder))?;
    }
    Ok(())
}

impl Pass {
    fn fuzz(&self, schemathesis: &Path, server: &Server, args: &Args, folder: &Path) -> Command {
        let document = format!("http://{}/openapi.json", server.address);
        let (examples, seed) = (args.examples.to_string(), args.seed.to_string());
        let mut fuzz = Command::new(schemathesis);
        fuzz.args(["run", &document, "--checks", "all", "--exclude-path", ENDLESS])
            .args(["--max-examples", &examples, "--seed", &seed, "--continue-on-failure"])
            .args(["--suppress-health-check", "all", "--generation-database", "none"])
            // It keeps what it likes in the folder where it runs.
            .current_dir(folder)
            .stdin(Stdio::null());
        if let Some(token) = self.token {
            fuzz.args(["--header", &format!("Authorization: Bearer {token}")]);
        }
        fuzz
    }
}

/// A server on a free port, which ends with this command.
struct Server {
    process: Child,
    address: String,
    /// Held open, as the server may write to it.
    _output: BufReader<ChildStdout>,
}

impl Server {
    fn start(program: &Path, folder: &Path, has_tokens: bool) -> Result<Self, Error> {
        let (limits, state) = (folder.join("limits.yaml"), folder.join("state"));
        write(&limits, LIMITS)?;
        // What an earlier run has spent is of no interest.
        let _ = fs::remove_dir_all(&state);
        let mut command = Command::new(program);
        command
            .args(["serve", "--http", "127.0.0.1:0", "--udp", "off", "--bucket", "off"])
            .args(["--throttr", "off", "--resp", "off"])
            .args(["--control", "off", "--log-level", "error", "--limits"])
            .arg(&limits)
            .arg("--state")
            .arg(&state)
            .env_remove("RATEKEEPER_TOKENS")
            .envs(has_tokens.then_some(("RATEKEEPER_TOKENS", TOKENS)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let name = spelled(&command);
        let start = |source| Error::Start { command: name.clone(), source };
        let mut process = command.spawn().map_err(start)?;
        let Some(stdout) = process.stdout.take() else {
            return Err(Error::Silent { command: name });
        };
        let mut output = BufReader::new(stdout);
        let mut line = String::new();
        output.read_line(&mut line).map_err(start)?;
        let address = line.trim_end().strip_prefix("listening http ").map(str::to_owned);
        // Made first, so that the process is ended also if it says something else.
        let mut server = Self { process, address: String::new(), _output: output };
        server.address = address.ok_or(Error::Silent { command: name })?;
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Installs schemathesis where only this command sees it, unless it is there, and returns it.
fn install(folder: &Path) -> Result<PathBuf, Error> {
    let environment = folder.join(SCHEMATHESIS);
    let program = environment.join("bin/schemathesis");
    if succeeds(command(&program.to_string_lossy(), &["--version"])) {
        return Ok(program);
    }
    ensure_program("python3", &["-c", "import ensurepip"], "python3-venv")?;
    let place = environment.to_string_lossy();
    run_command(command("python3", &["-m", "venv", "--clear", &place]))?;
    let pip = environment.join("bin/pip");
    run_command(command(&pip.to_string_lossy(), &["install", "--quiet", SCHEMATHESIS]))?;
    Ok(program)
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    let written = path.parent().map_or(Ok(()), fs::create_dir_all);
    let written = written.and_then(|()| fs::write(path, text));
    written.map_err(|source| Error::Write { path: path.to_owned(), source })
}
