//! `tollgate serve` and `tollgate config`: the server, and its settings.

use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, FromArgMatches};
use tollgate_server::settings::{ControlSetting, DEFAULT_FILE, SETTINGS, Setting, Settings};
use tollgate_server::{Server, Text, run, start_log};

use crate::error::{Error, Exit};
use crate::output::{Output, say};

/// The settings file that is read if it is there and no other is named.
const FILE: &str = "tollgate.yaml";

/// The settings that were given as arguments or in the environment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Serve {
    file: Option<PathBuf>,
    given: Vec<Given>,
}

#[derive(Clone, Debug)]
struct Given {
    setting: &'static Setting,
    text: String,
    is_variable: bool,
}

/// Every setting is an argument, by the table of the server.
impl Args for Serve {
    fn augment_args(command: clap::Command) -> clap::Command {
        let file = Arg::new("config")
            .long("config")
            .env("TOLLGATE_CONFIG")
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help("The settings file [default: tollgate.yaml, if there is one]");
        let arg = |setting: &'static Setting| {
            Arg::new(setting.name)
                .long(setting.flag)
                .env(setting.variable)
                .value_name(setting.value)
                .help(setting.help)
        };
        let args = SETTINGS.iter().map(arg).chain([file]);
        command.args(args.map(|arg| arg.hide_env(true)))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Serve {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = SETTINGS.iter().filter_map(|setting| {
            let text = matches.get_one::<String>(setting.name)?.clone();
            let source = matches.value_source(setting.name);
            Some(Given { setting, text, is_variable: source == Some(ValueSource::EnvVariable) })
        });
        Ok(Self { file: matches.get_one::<PathBuf>("config").cloned(), given: given.collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Serve {
    /// The settings: built in, then the file, then the environment, then the arguments.
    pub(crate) fn settings(&self) -> Result<Settings, Error> {
        let mut settings = Settings::default();
        if let Some(path) = self.file() {
            let text = Text::read("settings", &path)?;
            let folder = path.parent().unwrap_or(Path::new(""));
            settings
                .apply_file(&text.source(), folder)
                .map_err(|faults| Error::Faults { faults, is_old: false })?;
        }
        for Given { setting, text, is_variable } in &self.given {
            setting.set(&mut settings, text).map_err(|source| {
                let name = if *is_variable {
                    setting.variable.to_owned()
                } else {
                    format!("--{}", setting.flag)
                };
                Error::Setting { name, text: text.clone(), source }
            })?;
        }
        Ok(settings)
    }

    fn file(&self) -> Option<PathBuf> {
        let usual = || Some(PathBuf::from(FILE)).filter(|path| path.exists());
        self.file.clone().or_else(usual)
    }
}

/// Serves until told to stop.
pub(crate) fn serve(serve: &Serve) -> Result<Exit, Error> {
    let settings = serve.settings()?;
    let _log = start_log(settings.log);
    let mut announced = Ok(());
    run(&settings, |server| announced = announce(server, &settings))?;
    announced.map(|()| Exit::Allowed)
}

/// One line per door for scripts, and for people what to try.
fn announce(server: &Server, settings: &Settings) -> Result<(), Error> {
    let mut output = Output::new();
    for (door, address) in server.addresses() {
        output.line(format_args!("listening {door} {address}"))?;
    }
    output.finish()?;
    // As this one was called, so that it can be pasted.
    let program = std::env::args().next().unwrap_or_else(|| "tollgate".into());
    say("\nTry it, in another terminal:");
    // Where it is not where clients look for it, they have to be told.
    let ask = |door: &str, port: u16, words: &str| {
        let Some(address) = server.address(door) else { return };
        let usual = address == std::net::SocketAddr::from(([127, 0, 0, 1], port));
        let place = if usual { String::new() } else { format!(" --server {address}") };
        say(format_args!("  {program} ask {}", words.replace(" @", &place)));
    };
    let is_starter = |file: &Option<PathBuf>| file.is_none();
    let udp = if is_starter(&settings.udp.rules) { "over_limit 'ws global'" } else { "ping" };
    ask("udp", 2000, &format!("udp @ {udp}"));
    let bucket = if is_starter(&settings.bucket.buckets) { "bucketa" } else { "NAME" };
    ask("bucket", 4444, &format!("bucket @ {bucket}"));
    ask("throttr", 9000, "throttr insert @ ada /search --quota 10 --usage 1 --ttl 60s");
    match &settings.control {
        ControlSetting::Off => {}
        ControlSetting::Auto => say(format_args!("  {program} stats")),
        ControlSetting::At(path) => {
            say(format_args!("  {program} stats --control {}", path.display()));
        }
    }
    say("");
    Ok(())
}

/// Prints the settings file that says what is built in.
pub(crate) fn config() -> Result<Exit, Error> {
    let mut output = Output::new();
    output.text(DEFAULT_FILE)?;
    output.finish().map(|()| Exit::Allowed)
}
