//! `pando serve`: serves a directory.

use std::io::Write;
use std::process::ExitCode;

use server::{Arguments, ConfigError, Opened, ServeError, Server};

use crate::arguments::ServeArguments;
use crate::{exit, sample};

pub(crate) fn run(arguments: ServeArguments) -> ExitCode {
    serve(&arguments, arguments.to_server())
}

/// Serves a directory with the settings of the arguments.
pub(crate) fn serve(arguments: &ServeArguments, given: Result<Arguments, ConfigError>) -> ExitCode {
    let served = given
        .map_err(ServeError::from)
        .and_then(|given| server::serve(&given, |opened| prepare(opened, arguments.sample), say_ready));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::failed(&error),
    }
}

/// Prints the generated password of the administrator, if there is one, and loads the sample if requested.
fn prepare(opened: &mut Opened, loads_sample: bool) -> Result<(), ServeError> {
    if let Some(password) = opened.generated_password() {
        say(&format!("pando: the password of {} is {password}", opened.config().admin_dn));
        say("pando: it is not shown again; a hash of it is kept in the data directory");
    }
    if loads_sample {
        say(&format!("pando: {}", sample::load(opened)?));
    }
    Ok(())
}

/// Prints the certificate authority that clients can trust, then the line with the addresses of the server. People,
/// scripts and tests read this line, so its format is stable.
fn say_ready(server: &Server) {
    if let Some(authority) = server.authority() {
        say(&format!("pando: {authority}"));
    }
    let listeners: Vec<String> = server.listeners().iter().map(ToString::to_string).collect();
    say(&format!("pando: ready on {}", listeners.join(" ")));
}

/// Prints on standard output, and flushes it. A closed pipe does not stop the server.
fn say(text: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}
