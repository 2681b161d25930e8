//! Client side of the extended operation that changes the settings of a served directory.
//!
//! The value of the request is the text of a settings file, including its schema texts. The writer makes the change
//! with one record, in order with the changes of other clients. The value of the response has a line for each change,
//! and lines with the prefix `note: ` for further notes. If the settings are refused, the value has a line for each
//! problem instead: the problem's place, a tab and a text. The client uses the place to find the line in the file.

use directory::settings::SettingsProblem;
use ldap::ResultCode;

use super::{SettingsChanges, SettingsFile};
use crate::config::settings_text as text;
use crate::error::ServeError;
use crate::workers::settings_change::NOTE;

/// Returns the value of a request that puts the settings of a file in force.
pub fn request(file: &SettingsFile) -> Vec<u8> {
    text::write(file.settings()).into_bytes()
}

/// Evaluates a server's response, which consists of a result code, a diagnostic message and a value.
///
/// # Errors
/// The settings are refused. If the value contains the places of the problems, the error has their lines in the file.
pub fn answer(
    file: &SettingsFile,
    code: ResultCode,
    diagnostic: &str,
    value: Option<&[u8]>,
) -> Result<SettingsChanges, ServeError> {
    let lines: Vec<String> =
        String::from_utf8_lossy(value.unwrap_or_default()).lines().map(str::to_owned).collect();
    if code == ResultCode::SUCCESS {
        let (notes, lines): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| line.starts_with(NOTE));
        let notes = notes.iter().filter_map(|note| note.strip_prefix(NOTE)).map(str::to_owned).collect();
        return Ok(SettingsChanges { is_new: false, lines, notes });
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
