//! Secrets from the environment. As arguments they would be seen by everybody on the machine, so
//! there they are refused, with advice.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches};
use ratekeeper_server::settings::SecretText;

/// The argument that the command line has for a secret: one that nobody is told of.
pub fn arg(name: &'static str, variable: &'static str) -> Arg {
    Arg::new(name).long(name).env(variable).hide(true).hide_env_values(true)
}

/// The secret, if there is one. Refuses one that was typed, with what to `set` instead.
pub fn read(
    matches: &ArgMatches,
    name: &str,
    set: &str,
) -> Result<Option<SecretText>, clap::Error> {
    if matches.value_source(name) == Some(ValueSource::CommandLine) {
        let words = format!("--{name} on the command line is seen by others: set {set}");
        return Err(clap::Error::raw(ErrorKind::ArgumentConflict, words));
    }
    let text = matches.get_one::<String>(name).map(|text| text.trim());
    let text = text.filter(|text| !text.is_empty());
    Ok(text.map(|text| SecretText(text.to_owned())))
}
