//! `ratekeeper serve` and `ratekeeper config`: the server, and its settings.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, FromArgMatches};
use ratekeeper_console::{Output, secret};
use ratekeeper_server::settings::{
    DEFAULT_FILE, Level, LogSettings, SETTINGS, SecretText, Setting, Settings,
};
use ratekeeper_server::{LogGuard, Text, log_error, log_panics, run, start_log};

use crate::banner;
use crate::environment;
use crate::error::{Error, Exit};

/// The settings file that is read if it is there and no other is named.
const FILE: &str = "ratekeeper.yaml";

/// The settings that were given as arguments or in the environment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Serve {
    file: Option<PathBuf>,
    given: Vec<Given>,
    /// Who may do what over HTTP, as a tokens file says it.
    tokens: Option<SecretText>,
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
            .env("RATEKEEPER_CONFIG")
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help("The settings file [default: ratekeeper.yaml, if there is one]");
        let arg = |setting: &'static Setting| {
            Arg::new(setting.name)
                .long(setting.flag)
                .env(setting.variable)
                .value_name(setting.value)
                .help(setting.help)
        };
        let tokens = secret::arg("tokens", "RATEKEEPER_TOKENS");
        let args = SETTINGS.iter().map(arg).chain([file, tokens]);
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
        Ok(Self {
            file: matches.get_one::<PathBuf>("config").cloned(),
            given: given.collect(),
            tokens: secret::read(
                matches,
                "tokens",
                "RATEKEEPER_TOKENS, or name a file with --http-tokens",
            )?,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Serve {
    /// Applies what is set to what is built in: the file, then the environment, then the arguments.
    fn apply(&self, settings: &mut Settings) -> Result<(), Error> {
        let variables = environment::read();
        environment::refuse_unknown(&variables, &crate::args::variables())?;
        let path = self.file.as_deref().unwrap_or(Path::new(FILE));
        if let Some(text) = Text::read_in_time("settings", path, self.file.is_some())? {
            let folder = path.parent().unwrap_or(Path::new(""));
            settings
                .apply_file(&text.source(), folder)
                .map_err(|faults| Error::Faults { faults, is_old: false })?;
        }
        for Given { setting, text, is_variable } in &self.given {
            setting.set(settings, text).map_err(|source| {
                let name = if *is_variable {
                    setting.variable.to_owned()
                } else {
                    format!("--{}", setting.flag)
                };
                Error::Setting { name, text: setting.shown(text).to_owned(), source }
            })?;
        }
        settings.http.tokens_text.clone_from(&self.tokens);
        // Last, and only where nothing is said in our own words.
        if let (Some(threads), None) = (variables.get(environment::THREADS), settings.workers) {
            environment::set_threads(settings, threads)?;
        }
        Ok(())
    }
}

/// Serves until told to stop.
pub(crate) fn serve(serve: &Serve) -> Result<Exit, Error> {
    let mut settings = Settings::default();
    if let Err(error) = serve.apply(&mut settings) {
        if !is_json_log_asked_for().unwrap_or(settings.log.json) {
            return Err(error);
        }
        let _log = start_json_log();
        log_error(error.with_causes());
        return Ok(error.exit());
    }
    let _log = start_log(settings.log);
    if settings.log.json {
        log_panics();
    }
    let mut announced = Ok(());
    let ran = run(&settings, |server| announced = banner::announce(server, &settings));
    match ran.map_err(Error::from).and(announced) {
        Ok(()) => Ok(Exit::Allowed),
        // Whoever reads JSON gets nothing else.
        Err(error) if settings.log.json => {
            log_error(error.with_causes());
            Ok(error.exit())
        }
        Err(error) => Err(error),
    }
}

/// Whether a server was to be started that logs JSON and nothing else, by its arguments or the
/// environment. The arguments may be wrong elsewhere.
///
/// None if neither says how the log is written.
pub(crate) fn is_json_log_asked_for() -> Option<bool> {
    let arguments: Vec<_> = std::env::args_os().skip(1).map(OsString::into_string).collect();
    let arguments: Vec<&str> = arguments.iter().map(|it| it.as_deref().unwrap_or("")).collect();
    let variable = environment::read().remove("RATEKEEPER_LOG_FORMAT");
    is_json_log_asked_by(&arguments, variable.as_deref())
}

fn is_json_log_asked_by(arguments: &[&str], variable: Option<&str>) -> Option<bool> {
    const FLAG: &str = "--log-format";
    if arguments.first() != Some(&"serve") {
        return None;
    }
    let separate =
        arguments.windows(2).filter(|pair| pair[0] == FLAG).map(|pair| pair[1]).next_back();
    let joined =
        arguments.iter().filter_map(|it| it.strip_prefix(FLAG)?.strip_prefix('=')).next_back();
    separate.or(joined).or(variable).map(|format| format == "json")
}

/// A log of JSON, before there are settings.
pub(crate) fn start_json_log() -> LogGuard {
    start_log(LogSettings { json: true, level: Level::Error })
}

/// Prints the settings file that says what is built in.
pub(crate) fn config() -> Result<Exit, Error> {
    let mut output = Output::stdout();
    output.text(DEFAULT_FILE)?;
    output.finish()?;
    Ok(Exit::Allowed)
}

#[cfg(test)]
mod tests;
