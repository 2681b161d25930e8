//! Settings of a directory that is served: an extended operation of ours carries them to the writer.
//!
//! The request's value is the text of a settings file with its schema texts inline. The writer decides it as one
//! change, one record, between those of other clients. The answer's value has what has changed, a line each; where the
//! settings are refused, what is wrong, a line each of a place, a tab and a text, so that who sent them can point to
//! the lines of the file they came from.

use directory::settings::{SettingsError, SettingsProblem};
use directory::{DirectorySettings, Outcome, Requester, Stamp, WriteBatch};
use ldap::ResultCode;

use super::text;
use super::{Changes, SettingsFile};
use crate::start::ServeError;

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

/// Carries out the operation on the writer: the outcome, and the value of the answer.
pub(crate) fn execute(
    batch: &mut WriteBatch<'_>,
    requester: &Requester,
    value: Option<&[u8]>,
    stamp: &Stamp,
) -> (Outcome, Option<Vec<u8>>) {
    if !requester.is_administrator() {
        let text = "only the administrator may change settings of the directory";
        return (Outcome::new(ResultCode::INSUFFICIENT_ACCESS_RIGHTS, text), None);
    }
    let settings = match read(value) {
        Ok(settings) => settings,
        Err(outcome) => return (outcome, None),
    };
    match change(batch, requester, &settings, stamp) {
        Ok(lines) => (Outcome::success(), Some(lines.join("\n").into_bytes())),
        Err(error) => {
            let problems = match &error {
                SettingsError::Problems(problems) => problems.as_slice(),
                _ => &[],
            };
            let line = |problem: &SettingsProblem| format!("{}\t{}", problem.place, problem.what);
            let lines: Vec<_> = problems.iter().map(line).collect();
            let value = (!lines.is_empty()).then(|| lines.join("\n").into_bytes());
            (error.into(), value)
        }
    }
}

fn read(value: Option<&[u8]>) -> Result<DirectorySettings, Outcome> {
    let text = value.and_then(|value| std::str::from_utf8(value).ok());
    let text = text.ok_or_else(|| {
        let what = "the value has to be the text of a settings file, in UTF-8";
        Outcome::new(ResultCode::PROTOCOL_ERROR, what)
    })?;
    let mut no_files = |_: &str, path: &str| {
        Err(format!("{path}: a server reads no files of its clients; give definitions as text in [schema]"))
    };
    text::parse(text, &mut no_files).map(|parsed| parsed.settings).map_err(|problems| {
        let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
        Outcome::new(ResultCode::CONSTRAINT_VIOLATION, texts.join("\n"))
    })
}

fn change(
    batch: &mut WriteBatch<'_>,
    requester: &Requester,
    settings: &DirectorySettings,
    stamp: &Stamp,
) -> Result<Vec<String>, SettingsError> {
    let differences = batch.change_settings(requester.dn(), settings, stamp)?;
    let mut lines = Vec::new();
    for difference in &differences {
        // Rows that go are not counted: others wait for the writer.
        lines.extend(difference.describe(Some(batch.state()), false)?);
    }
    if !lines.is_empty() {
        tracing::info!("settings of the directory change: {}", lines.join("; "));
    }
    Ok(lines)
}
