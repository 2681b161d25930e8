//! `pando passwd`: prints the stored form of a password.

use std::io::{self, BufRead, IsTerminal};
use std::process::ExitCode;

use clap::Args;
use directory::password::StorageScheme;
use serde_json::json;

use crate::exit;
use crate::print::Report;

/// The options of `pando passwd`.
#[derive(Debug, Args)]
pub(crate) struct PasswdArguments {
    /// argon2id, ssha, ssha256, ssha512, pbkdf2-sha256 or clear
    #[arg(long, value_name = "SCHEME", default_value_t)]
    scheme: StorageScheme,
}

/// Asks for a password twice at the terminal. If standard input is no terminal, reads the password from it.
pub(crate) fn new_password() -> Result<String, String> {
    let password = if io::stdin().is_terminal() { prompt() } else { read() };
    let password = password.map_err(|error| format!("cannot read the password: {error}"))??;
    String::from_utf8(password).map_err(|_| "the password is not UTF-8".to_owned())
}

pub(crate) fn run(arguments: &PasswdArguments) -> ExitCode {
    let password = match if io::stdin().is_terminal() { prompt() } else { read() } {
        Ok(Ok(password)) => password,
        Ok(Err(reason)) => return exit::refused(reason),
        Err(error) => return exit::failure(&format!("cannot read the password: {error}")),
    };
    let stored = match server::hash_password(arguments.scheme, &password) {
        Ok(stored) => stored,
        Err(error) => return exit::failed(&error),
    };
    let stored = String::from_utf8_lossy(&stored).into_owned();
    Report::result(json!({ "value": stored }), stored).print();
    ExitCode::SUCCESS
}

/// A password, or the reason why it is not accepted.
type Password = Result<Vec<u8>, &'static str>;

/// Asks for a password twice at the terminal, without echo.
fn prompt() -> io::Result<Password> {
    let first = rpassword::prompt_password("Password: ")?;
    let second = rpassword::prompt_password("Again: ")?;
    Ok(if first == second { not_empty(first.into_bytes()) } else { Err("the two passwords differ") })
}

/// Reads the first line of standard input.
fn read() -> io::Result<Password> {
    let mut line = Vec::new();
    io::stdin().lock().read_until(b'\n', &mut line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok(not_empty(line))
}

fn not_empty(password: Vec<u8>) -> Password {
    // An empty password could never be used, because a bind with it is unauthenticated (RFC 4513 section 5.1.2).
    if password.is_empty() { Err("the password is empty") } else { Ok(password) }
}

pub(crate) const HELP: &str = "\
Asks for a password twice, or reads one line if standard input is not a terminal, and prints the value to store in
userPassword. The password is never an argument, which other users could see.

Examples:
  pando passwd
  pando passwd --scheme ssha512 < password.txt

Exit codes:
  0  done
  1  reading or writing failed
  2  the command line is wrong, the password is empty, or the two differ";
