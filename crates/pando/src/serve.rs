//! `pando serve`.

use std::io::Write;
use std::process::ExitCode;

use server::{Opened, ServeError, Server};

use crate::arguments::ServeArguments;
use crate::exit;

pub(crate) fn run(arguments: ServeArguments) -> ExitCode {
    let served = arguments
        .to_server()
        .map_err(ServeError::from)
        .and_then(|given| server::serve(&given, |opened| prepare(opened, arguments.sample), say_ready));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::failed(&error),
    }
}

/// What happens before anybody is served.
fn prepare(opened: &mut Opened, sample: bool) -> Result<(), ServeError> {
    if let Some(password) = opened.generated_password() {
        say(&format!("pando: the password of {} is {password}", opened.config().admin_dn));
        say("pando: it is not shown again; a hash of it is kept in the data directory");
    }
    if sample { load_sample(opened) } else { Ok(()) }
}

/// Puts the sample organisation below the first suffix, unless there is anything in the directory.
fn load_sample(opened: &mut Opened) -> Result<(), ServeError> {
    if !opened.directory().is_empty()? {
        say("pando: the directory has entries, the sample is not loaded");
        return Ok(());
    }
    let given = opened.config().suffixes.first().map(ToString::to_string);
    let Some(suffix) = given.or_else(|| opened.directory().suffixes().into_iter().next()) else {
        return Ok(());
    };
    let entries =
        bench::sample::organisation(&suffix).map_err(|error| ServeError::Sample(error.to_string()))?;
    let count = opened.load(entries.map(|entry| (entry.dn, entry.attributes)))?;
    let password = bench::sample::PASSWORD;
    say(&format!(
        "pando: loaded a sample organisation of {count} entries below {suffix}; everybody's password is {password:?}"
    ));
    Ok(())
}

/// The authority that clients trust, and the line that tells people, scripts and tests where the server listens. The
/// form of the last is a promise.
fn say_ready(server: &Server) {
    if let Some(authority) = server.authority() {
        say(&format!("pando: {authority}"));
    }
    let listeners: Vec<String> = server.listeners().iter().map(ToString::to_string).collect();
    say(&format!("pando: ready on {}", listeners.join(" ")));
}

/// Says something on standard output, at once. Nobody may be listening there, which is no reason not to serve.
fn say(text: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}
