//! The extended operation that changes the settings of a running server's directory: the writer's part, and the
//! comparison of proposed settings with the settings in force.

use directory::settings::{self, SettingsError, SettingsProblem};
use directory::tree::TreeState;
use directory::violations::{violations, violations_of_few};
use directory::{DirectorySettings, Outcome, Requester, Stamp, WriteBatch};
use ldap::{ResultCode, SettingsRequest};

use crate::config::settings_text::{self, SettingsText};
use crate::limits::PLAN_ENTRIES_MAX;

/// Prefix of a response line that is a note and not a change.
pub(crate) const NOTE: &str = "note: ";

/// Applies the settings in a request. Returns the outcome and the value of the response.
pub(crate) fn execute(
    batch: &mut WriteBatch<'_>,
    requester: &Requester,
    value: Option<&[u8]>,
    stamp: &Stamp,
) -> (Outcome, Option<Vec<u8>>) {
    if let Err(outcome) = check_requester(requester) {
        return (outcome, None);
    }
    let Some(SettingsRequest::Apply { text, version }) = SettingsRequest::decode(value) else {
        return (malformed(), None);
    };
    let present = settings::version(batch.state().catalog);
    if let Some(version) = version.filter(|version| *version != present) {
        let text =
            format!("the settings have changed since version {version}: they have version {present} now");
        return (Outcome::new(ResultCode::ASSERTION_FAILED, text), None);
    }
    let stated = match read(text) {
        Ok(stated) => stated,
        Err(outcome) => return (outcome, None),
    };
    match change(batch, requester, &stated.settings, stamp) {
        Ok(lines) => (Outcome::success(), Some(lines.join("\n").into_bytes())),
        Err(error) => refusal(error, &stated),
    }
}

/// Refuses a requester that is not the administrator.
pub(crate) fn check_requester(requester: &Requester) -> Result<(), Outcome> {
    match requester.is_administrator() {
        true => Ok(()),
        false => {
            let text = "only the administrator may see or change settings of the directory";
            Err(Outcome::new(ResultCode::INSUFFICIENT_ACCESS_RIGHTS, text))
        }
    }
}

/// Returns the outcome for a malformed request value.
pub(crate) fn malformed() -> Outcome {
    let what = "the value has to be the text of a settings file, in UTF-8, or another request about settings";
    Outcome::new(ResultCode::PROTOCOL_ERROR, what)
}

/// Reads the settings in the text of a request.
///
/// # Errors
/// The text is not a valid settings file. Each problem is reported with its line.
pub(crate) fn read(text: &str) -> Result<SettingsText, Outcome> {
    let mut no_files = |path: &str| {
        Err(format!("{path}: a server reads no files of its clients; give definitions as text in [schema]"))
    };
    settings_text::parse(text, &mut no_files).map_err(|problems| {
        let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
        Outcome::new(ResultCode::CONSTRAINT_VIOLATION, texts.join("\n"))
    })
}

/// Returns the outcome and the response value for refused settings. The value has one line per problem: the problem's
/// place, a tab and a text. The diagnostic message refers to lines in the text of the request.
pub(crate) fn refusal(error: SettingsError, stated: &SettingsText) -> (Outcome, Option<Vec<u8>>) {
    let SettingsError::Problems(problems) = &error else { return (error.into(), None) };
    let line = |problem: &SettingsProblem| format!("{}\t{}", problem.place, problem.what);
    let value = problems.iter().map(line).collect::<Vec<_>>().join("\n").into_bytes();
    let line = |problem: &SettingsProblem| format!("line {}: {}", stated.line(&problem.place), problem.what);
    let diagnostic = problems.iter().map(line).collect::<Vec<_>>().join("\n");
    let Outcome { code, .. } = error.into();
    (Outcome::new(code, diagnostic), Some(value))
}

/// Changes that proposed settings would make, and notes about the proposed settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) lines: Vec<String>,
    pub(crate) notes: Vec<String>,
}

impl Planned {
    /// Compares proposed settings with the settings of a directory.
    ///
    /// # Errors
    /// The proposed settings are invalid, the data prevents them, or the data cannot be read.
    pub(crate) fn of(
        state: TreeState<'_>,
        proposed: &DirectorySettings,
        extent: Extent,
    ) -> Result<Planned, SettingsError> {
        let decided = settings::decide(state, proposed)?;
        let mut notes = settings::notes(state, proposed)?;
        notes.extend(match extent {
            Extent::All => [
                violations(state, proposed)?,
                directory::joins::notes(state, proposed)?,
                directory::linking::notes(state, proposed)?,
            ]
            .concat(),
            Extent::Bounded => violations_of_few(state, proposed, PLAN_ENTRIES_MAX)?,
        });
        let mut lines = Vec::new();
        for difference in &decided.differences {
            lines.extend(difference.describe(Some(state), true)?);
        }
        Ok(Planned { lines, notes })
    }

    /// Returns the value of the response.
    pub(crate) fn to_value(&self) -> Vec<u8> {
        let notes = self.notes.iter().map(|note| format!("{NOTE}{note}"));
        self.lines.iter().cloned().chain(notes).collect::<Vec<_>>().join("\n").into_bytes()
    }
}

/// Extent of the search for entries that violate rules in proposed settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    All,
    /// No search if the directory has too many entries.
    Bounded,
}

fn change(
    batch: &mut WriteBatch<'_>,
    requester: &Requester,
    proposed: &DirectorySettings,
    stamp: &Stamp,
) -> Result<Vec<String>, SettingsError> {
    let notes = settings::notes(batch.state(), proposed)?;
    let differences = batch.change_settings(requester.dn(), proposed, stamp)?;
    let mut lines = Vec::new();
    for difference in &differences {
        // Rows that the change removes are not counted, because counting takes time while other changes wait for the
        // writer.
        lines.extend(difference.describe(Some(batch.state()), false)?);
    }
    if !lines.is_empty() {
        tracing::info!("settings of the directory change: {}", lines.join("; "));
    }
    lines.extend(notes.into_iter().map(|note| format!("{NOTE}{note}")));
    Ok(lines)
}
