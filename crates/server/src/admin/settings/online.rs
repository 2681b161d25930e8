//! Settings of a directory that is served: an extended operation of ours carries them to the writer.
//!
//! The request's value is the text of a settings file with its schema texts inline. The writer decides it as one
//! change, one record, between those of other clients. The answer's value has what has changed, a line each; where the
//! settings are refused, what is wrong, a line each of a place, a tab and a text, so that who sent them can point to
//! the lines of the file they came from.

use directory::settings::SettingsProblem;
use ldap::ResultCode;

use super::{Changes, SettingsFile};
use crate::config::settings_text as text;
use crate::error::ServeError;

/// The value of a request to put the settings of a file in force.
pub fn request(file: &SettingsFile) -> Vec<u8> {
    text::write(file.settings()).into_bytes()
}

/// What a server says to the settings of a file: its result code, its diagnostic text and the value.
///
/// # Errors
/// The settings are refused; with the lines of the file where the value names them.
pub fn answer(
    file: &SettingsFile,
    code: ResultCode,
    diagnostic: &str,
    value: Option<&[u8]>,
) -> Result<Changes, ServeError> {
    let lines: Vec<String> =
        String::from_utf8_lossy(value.unwrap_or_default()).lines().map(str::to_owned).collect();
    if code == ResultCode::SUCCESS {
        return Ok(Changes { is_new: false, lines });
    }
    let problem = |line: &String| {
        let (place, what) = line.split_once('\t')?;
        Some(file.error(&SettingsProblem { place: place.parse().ok()?, what: what.to_owned(), code }))
    };
    let problems: Vec<_> = lines.iter().filter_map(problem).collect();
    match problems.is_empty() {
        true => Err(ServeError::Refused { code, diagnostic: diagnostic.to_owned() }),
        false => Err(ServeError::Settings(problems)),
    }
}
