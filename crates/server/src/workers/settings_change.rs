//! The writer's part of the extended operation that changes the settings of a served directory.

use directory::settings::{SettingsError, SettingsProblem};
use directory::{DirectorySettings, Outcome, Requester, Stamp, WriteBatch};
use ldap::ResultCode;

use crate::config::settings_text;

/// Prefix of a response line that reports something other than a change.
pub(crate) const NOTE: &str = "note: ";

/// Carries out the operation. Returns the outcome and the value of the response.
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
    let mut no_files = |path: &str| {
        Err(format!("{path}: a server reads no files of its clients; give definitions as text in [schema]"))
    };
    settings_text::parse(text, &mut no_files).map(|parsed| parsed.settings).map_err(|problems| {
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
    let notes = directory::settings::notes(batch.state(), settings)?;
    let differences = batch.change_settings(requester.dn(), settings, stamp)?;
    let mut lines = Vec::new();
    for difference in &differences {
        // Rows to remove are not counted, because changes wait for the writer.
        lines.extend(difference.describe(Some(batch.state()), false)?);
    }
    if !lines.is_empty() {
        tracing::info!("settings of the directory change: {}", lines.join("; "));
    }
    lines.extend(notes.into_iter().map(|note| format!("{NOTE}{note}")));
    Ok(lines)
}
