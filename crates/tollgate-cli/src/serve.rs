//! `tollgate serve` and `tollgate config`: the server, and its settings.

use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, FromArgMatches};
use tollgate_server::settings::{DEFAULT_FILE, SETTINGS, SecretText, Setting, Settings};
use tollgate_server::{Text, log_error, log_panics, run, start_log};

use crate::banner;
use crate::environment;
use crate::error::{Error, Exit};
use crate::output::Output;
use crate::secret;

/// The settings file that is read if it is there and no other is named.
const FILE: &str = "tollgate.yaml";

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
        let tokens = secret::arg("tokens", "TOLLGATE_TOKENS");
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
                "TOLLGATE_TOKENS, or name a file with --http-tokens",
            )?,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Serve {
    /// The settings: built in, then the file, then the environment, then the arguments.
    pub(crate) fn settings(&self) -> Result<Settings, Error> {
        let variables = environment::read();
        environment::refuse_unknown(&variables, &crate::args::variables())?;
        let mut settings = Settings::default();
        // First, so that whatever is said in our own words wins.
        if let Some(threads) = variables.get(environment::THREADS) {
            environment::set_threads(&mut settings, threads)?;
        }
        if let Some(path) = self.file() {
            let text = Text::read_regular("settings", &path)?;
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
                Error::Setting { name, text: setting.shown(text).to_owned(), source }
            })?;
        }
        settings.http.tokens_text.clone_from(&self.tokens);
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

/// Prints the settings file that says what is built in.
pub(crate) fn config() -> Result<Exit, Error> {
    let mut output = Output::new();
    output.text(DEFAULT_FILE)?;
    output.finish().map(|()| Exit::Allowed)
}
