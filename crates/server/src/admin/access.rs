//! Access rules of a data directory: what `pando access` does.

use std::path::Path;

use audit::Event;
use directory::access::AccessExplanation;
use directory::rehearse::{
    self, AccessChange, DecisionChange, RecordedExplainer, RecordedLimits, RecordedRehearsal, RecordedTally,
    Rehearsal, Rehearsed, RulesVersion,
};
use directory::tree::TreeState;
use directory::{NodeSettings, Outcome, ReadOnlyDirectory, Requester, Settings, access_question, settings};
use ldap::AccessQuestion;

use crate::admin::indexes::ExplainError;
use crate::admin::recorded::{EventReading, RecordedReader, Written};
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
    let state = TreeState { settings: &settings, ..directory.state() };
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
    check(file)?;
    let directory = open_read_only(config)?;
    let settings = settings_of(config, &directory);
    let state = TreeState { settings: &settings, ..directory.state() };
    rehearse::rehearse(state, &file.settings().general, rehearsal, each)
        .map_err(|error| refused(error.into()))
}

/// What a settings file would change for the operations of an audit trail.
#[derive(Clone, Debug, Default)]
pub struct RecordedRehearsed {
    /// Decisions that would be others.
    pub changes: Vec<DecisionChange>,
    /// What was decided.
    pub tally: RecordedTally,
    /// Operations of which the trail does not say enough.
    pub withheld: u64,
    /// Operations of which the trail does not say how the client was connected, if rules ask.
    pub link_unknown: u64,
    /// Damages of the trail.
    pub damages: u64,
}

/// Holds the access rules of a settings file against those in force in a data directory, which may be served meanwhile:
/// for each operation of an audit trail that is `wanted`, on the entries of now.
///
/// # Errors
/// There is no data or no trail, it cannot be read, or the settings cannot be.
pub fn rehearse_recorded(
    config: &Config,
    (file, folder): (&SettingsFile, &Path),
    limits: RecordedLimits,
    wanted: &dyn Fn(Event<'_>) -> bool,
    each_damage: &mut dyn FnMut(String),
) -> Result<RecordedRehearsed, ExplainError> {
    check(file)?;
    let directory = open_read_only(config)?;
    let settings = settings_of(config, &directory);
    let state = TreeState { settings: &settings, ..directory.state() };
    let mut rehearsal = RecordedRehearsal::new(state, &file.settings().general, limits);
    let (asks_link, asks_listener) = (rehearsal.asks_link(), rehearsal.asks_listener());
    let (mut rehearsed, mut damages) = (RecordedRehearsed::default(), 0);
    RecordedReader::default().read::<ExplainError>(
        folder,
        &mut |reader, event, _| {
            if !wanted(event) {
                return Ok(());
            }
            match reader.recorded(event, &mut |recorded| rehearsal.decide(recorded).map_err(refused))? {
                EventReading::Nothing => {}
                EventReading::Withheld => rehearsed.withheld += 1,
                EventReading::Read { has_link } => {
                    rehearsed.link_unknown += u64::from(asks_listener || (asks_link && !has_link));
                }
            }
            Ok(())
        },
        &mut |damage| {
            damages += 1;
            each_damage(damage);
        },
    )?;
    let (changes, tally) = rehearsal.finish();
    Ok(RecordedRehearsed { changes, tally, damages, ..rehearsed })
}

/// Takes an event, where it stands, and what decided about it.
pub type TakeExplained<'t> = &'t mut dyn FnMut(Event<'_>, Written, Vec<String>) -> std::io::Result<()>;

/// Gives the events of an audit trail that are `wanted`, with what decided about each by the access rules of its time,
/// on the entries of now. The directory may be served meanwhile.
///
/// # Errors
/// There is no data or no trail, or it cannot be read; what `each` returns.
pub fn explain_recorded(
    config: &Config,
    folder: &Path,
    wanted: &dyn Fn(Event<'_>) -> bool,
    each: TakeExplained<'_>,
    each_damage: &mut dyn FnMut(String),
) -> Result<(), ExplainError> {
    let directory = open_read_only(config)?;
    let settings = settings_of(config, &directory);
    let state = TreeState { settings: &settings, ..directory.state() };
    let mut explainer = RecordedExplainer::new(state).map_err(refused)?;
    RecordedReader::default().read::<ExplainError>(
        folder,
        &mut |reader, event, written| {
            if !wanted(event) {
                return Ok(());
            }
            let mut explained = Vec::new();
            reader.recorded(event, &mut |recorded| {
                explained = explainer.explain(recorded).map_err(refused)?;
                Ok::<_, ExplainError>(())
            })?;
            each(event, written, explained).map_err(ExplainError::Written)
        },
        each_damage,
    )
}

fn check(file: &SettingsFile) -> Result<(), ServeError> {
    let checked = settings::check(file.settings()).map_err(|problems| {
        ServeError::Settings(problems.iter().map(|problem| file.error(problem)).collect())
    });
    checked.map(|_| ())
}

/// The access rules that the log of a data directory has, oldest first. The directory may be served meanwhile.
///
/// # Errors
/// There is no data, or it cannot be read.
pub fn access_history(config: &Config) -> Result<Vec<RulesVersion>, ExplainError> {
    let directory = open_read_only(config)?;
    rehearse::rules_history(directory.state()).map_err(|error| refused(error.into()))
}

/// The settings of a data directory with the access rules and expectations of another version, as a settings file.
/// Rules and expectations go together: the rules of one version need not meet the expectations of another.
///
/// # Errors
/// There is no data, or it cannot be read.
pub fn with_rules(config: &Config, version: &RulesVersion) -> Result<SettingsFile, ServeError> {
    let mut settings = of_directory(config)?;
    settings.general.access_rules.clone_from(&version.rules);
    settings.general.access_expectations.clone_from(&version.expectations);
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
