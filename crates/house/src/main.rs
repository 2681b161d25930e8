//! Checks of the source that no existing tool offers:
//!
//! - `house floors` compares the modules of each crate with `floors.toml`.
//! - `house columns` finds lines that are too wide.
//! - `house corpora` finds fuzz corpora that no test replays.
//! - `house named-tests` finds tests that the documentation names but that do not exist.
//! - `house settings` finds unknown names of settings in messages and pages.
//! - `house pages` finds pages that docs/README.md does not list.
//! - `house causes` finds causes of unwillingToPerform that the page of errors lacks.
//! - `house words` finds wording that has to be read twice.
//! - `house lengths` finds functions that are too long.
//!
//! Each offence is a line on standard output. If there is any offence, the exit code is 1. The last argument of
//! `floors` may be the folder of another checkout.

mod causes;
mod columns;
mod corpora;
mod files;
mod floors;
mod lengths;
mod modules;
mod named_tests;
mod pages;
mod prose;
mod settings;
mod test_items;
mod uses;
mod words;

use std::path::Path;
use std::process::ExitCode;

use files::Files;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // `cargo run` sets the variable at run time. The value at compile time would be wrong if the program was built in
    // another checkout.
    let manifest =
        std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    let here = Path::new(&manifest).join("../..");
    let offences = match words[..] {
        ["floors"] => floors::check(&here),
        ["floors", root] => floors::check(Path::new(root)),
        ["columns"] => Files::list(&here).and_then(|files| columns::check(&files)),
        ["corpora"] => Files::list(&here).and_then(|files| corpora::check(&files)),
        ["named-tests"] => Files::list(&here).and_then(|files| named_tests::check(&files)),
        ["settings"] => Files::list(&here).and_then(|files| settings::check(&files)),
        ["pages"] => Files::list(&here).and_then(|files| pages::check(&files)),
        ["causes"] => Files::list(&here).and_then(|files| causes::check(&files)),
        ["lengths"] => Files::list(&here).and_then(|files| lengths::check(&files)),
        ["words"] => Files::list(&here).and_then(|files| words::check(&files)),
        ["words", "--write"] => Files::list(&here).and_then(|files| words::lower(&files, &here)),
        ["words", name] => Files::list(&here).and_then(|files| words::list(&files, name)),
        ["uses", name] => floors::list_uses(&here, name),
        _ => {
            eprintln!(
                "usage: house floors [CHECKOUT] | columns | corpora | named-tests | settings | pages | causes | \
                 lengths | words [--write | counts | PATTERN] | uses CRATE"
            );
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
