//! Checks of the source that no kept tool does. `house floors` holds the modules of each crate against `floors.toml`.
//!
//! An offence is a line on standard output, and makes the exit code 1. The last argument may be another checkout.

mod floors;
mod modules;
mod uses;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let offences = match words[..] {
        ["floors"] => floors::check(&here),
        ["floors", root] => floors::check(Path::new(root)),
        ["uses", name] => floors::list_uses(&here, name),
        _ => {
            eprintln!("usage: house floors [CHECKOUT] | uses CRATE");
            return ExitCode::from(2);
        }
    };
    match offences {
        Ok(offences) if offences.is_empty() => ExitCode::SUCCESS,
        Ok(offences) => {
            for offence in offences {
                println!("{offence}");
            }
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("house: {error}");
            ExitCode::from(2)
        }
    }
}
