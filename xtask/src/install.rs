//! What the tests need beyond a Rust toolchain, on a fresh Debian machine.

use crate::error::Error;
use crate::process::{command, run, succeeds};

/// Parts of the Rust toolchain: the cargo command, and the component that has it.
const COMPONENTS: [(&str, &str); 2] = [("fmt", "rustfmt"), ("clippy", "clippy")];

/// Programs, arguments with which each succeeds, and the Debian package that has it.
const PROGRAMS: [(&str, &[&str], &str); 14] = [
    ("git", &["--version"], "git"),
    // These four run the clients of docs/doors.md.
    // Other programs of that name do not know `-W`.
    ("nc", &["-W1", "-h"], "netcat-openbsd"),
    ("perl", &["--version"], "perl"),
    ("python3", &["--version"], "python3"),
    ("node", &["--version"], "nodejs"),
    // Proxies, with the files of examples/proxies. Users other than root do not search /usr/sbin.
    ("/usr/sbin/nginx", &["-v"], "nginx-light"),
    ("caddy", &["version"], "caddy"),
    // Servers that keep buckets, alone, watched over and in a cluster.
    ("redis-server", &["--version"], "redis-server"),
    ("redis-sentinel", &["--version"], "redis-sentinel"),
    // Clients of Redis, which the RESP door answers too; Debian's package is for Debian's Python.
    ("redis-cli", &["--version"], "redis-tools"),
    ("redis-benchmark", &["--version"], "redis-tools"),
    ("/usr/bin/python3", &["-c", "import redis"], "python3-redis"),
    // A browser for the live page.
    ("chromium", &["--version"], "chromium"),
    ("chromedriver", &["--version"], "chromium-driver"),
];

/// Installs what is missing; refuses to go on without it.
pub(crate) fn install() -> Result<(), Error> {
    for (subcommand, component) in COMPONENTS {
        ensure_component(subcommand, component)?;
    }
    for (program, args, debian_package) in PROGRAMS {
        ensure_program(program, args, debian_package)?;
    }
    Ok(())
}

fn ensure_component(subcommand: &str, component: &str) -> Result<(), Error> {
    let present = || succeeds(command("cargo", &[subcommand, "--version"]));
    if present() || run(command("rustup", &["component", "add", component])).is_ok() && present() {
        return Ok(());
    }
    Err(Error::Missing {
        program: format!("cargo {subcommand}"),
        remedy: format!("add the component `{component}` to your Rust toolchain and try again"),
    })
}

/// Installs a package unless `program` succeeds with `args`; refuses to go on without it.
pub(crate) fn ensure_program(
    program: &str,
    args: &[&str],
    debian_package: &str,
) -> Result<(), Error> {
    let present = || succeeds(command(program, args));
    if present() || apt_install(debian_package) && present() {
        return Ok(());
    }
    Err(Error::Missing {
        program: program.to_owned(),
        remedy: format!("run `sudo apt-get install {debian_package}` and try again"),
    })
}

/// Installs a package as root, or through `sudo` where that asks for no password.
fn apt_install(debian_package: &str) -> bool {
    let apt = |prefix: &[&str], args: &[&str]| {
        let quiet_apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet", "--yes"];
        let words = [prefix, &quiet_apt, args].concat();
        run(command(words[0], &words[1..])).is_ok()
    };
    let with = |prefix: &[&str]| {
        apt(prefix, &["update"])
            && apt(prefix, &["install", "--no-install-recommends", debian_package])
    };
    with(&[]) || with(&["sudo", "--non-interactive"])
}
