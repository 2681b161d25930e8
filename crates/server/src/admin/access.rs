//! Access rules of a data directory: what `pando access` does.

use std::path::Path;

use directory::access::AccessExplanation;
use directory::rehearse::{self, AccessChange, Rehearsal, Rehearsed, RulesVersion};
use directory::tree::State;
use directory::{NodeSettings, Outcome, ReadOnlyDirectory, Requester, Settings, access_question, settings};
use ldap::AccessQuestion;

use crate::admin::indexes::ExplainError;
use crate::admin::settings::{SettingsFile, of_directory};
use crate::admin::verify::open_read_only;
use crate::config::{Config, settings_text};
use crate::error::ServeError;

/// Says who may do what in a data directory, and by which rule. The directory may be served meanwhile.
///
/// # Errors
/// There is no data, it cannot be read, or the question is about nobody or no entry.
pub fn explain_access(
    config: &Config,
    question: &AccessQuestion<'_>,
) -> Result<AccessExplanation, ExplainError> {
    let directory = open_read_only(config)?;
    let settings = settings_of(config, &directory);
    let state = State { settings: &settings, ..directory.state() };
    let administrator = Requester::Administrator { dn: config.admin_dn.as_str().to_owned() };
    access_question::answer(state, &administrator, question).map_err(refused)
}

/// Holds the access rules of a settings file against those in force in a data directory, which may be served meanwhile.
///
/// # Errors
/// There is no data, it cannot be read, the settings cannot be, or an asker is nobody.
pub fn rehearse_access(
    config: &Config,
    file: &SettingsFile,
    rehearsal: &Rehearsal,
    each: &mut dyn FnMut(&AccessChange),
) -> Result<Rehearsed, ExplainError> {
    let checked = settings::check(file.settings());
    checked.map_err(|problems| {
        ServeError::Settings(problems.iter().map(|problem| file.error(problem)).collect())
    })?;
    let directory = open_read_only(config)?;
    let settings = settings_of(config, &directory);
    let state = State { settings: &settings, ..directory.state() };
    rehearse::rehearse(state, &file.settings().general, rehearsal, each)
        .map_err(|error| refused(error.into()))
}

/// The access rules that the log of a data directory has, oldest first. The directory may be served meanwhile.
///
/// # Errors
/// There is no data, or it cannot be read.
pub fn access_history(config: &Config) -> Result<Vec<RulesVersion>, ExplainError> {
    let directory = open_read_only(config)?;
    rehearse::rules_history(directory.state()).map_err(|error| refused(error.into()))
}

/// The settings of a data directory with the access rules of another version, as a settings file.
///
/// # Errors
/// There is no data, or it cannot be read.
pub fn with_rules(config: &Config, rules: &[String]) -> Result<SettingsFile, ServeError> {
    let mut settings = of_directory(config)?;
    settings.general.access_rules = rules.to_vec();
    SettingsFile::parse(Path::new("the version before"), &settings_text::write(&settings))
}

fn settings_of(config: &Config, directory: &ReadOnlyDirectory) -> Settings {
    let node = NodeSettings {
        admin_dn: config.admin_dn.as_str().to_owned(),
        anonymous_read: config.anonymous_read,
        ..NodeSettings::default()
    };
    Settings::of(&node, &directory.state().settings.general)
}

fn refused(outcome: Outcome) -> ExplainError {
    ExplainError::Refused { code: outcome.code, diagnostic: outcome.diagnostic }
}
