//! Explanation and rehearsal of the access rules of a data directory.

use std::path::Path;

use audit::{AuditError, Event};
use directory::access::AccessExplanation;
use directory::rehearse::{
    self, AccessChange, DecisionChange, RecordedExplainer, RecordedLimits, RecordedTally, Rehearsal,
    RehearsalSummary, RulesVersion,
};
use directory::tree::TreeState;
use directory::{
    DirectorySettings, NodeSettings, Outcome, ReadOnlyDirectory, Requester, Settings, access_question,
};
use ldap::{AccessQuestion, ResultCode};

use crate::trail_operations::{EventPlace, EventReading, OperationReader};

/// Error of an explanation or a rehearsal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReviewError {
    /// The audit trail cannot be read.
    #[error(transparent)]
    Trail(#[from] AuditError),
    /// The receiver of a result could not write it.
    #[error("{0}")]
    Written(std::io::Error),
    /// The directory refused the request, or could not be read.
    #[error("{code}: {diagnostic}")]
    Refused {
        /// The result code.
        code: ResultCode,
        /// The diagnostic text.
        diagnostic: String,
    },
}

impl From<Outcome> for ReviewError {
    fn from(outcome: Outcome) -> ReviewError {
        ReviewError::Refused { code: outcome.code, diagnostic: outcome.diagnostic }
    }
}

/// Rehearsal of new access rules on the operations of an audit trail.
#[derive(Clone, Debug, Default)]
pub struct RecordedRehearsal {
    /// Decisions that the new rules change.
    pub changes: Vec<DecisionChange>,
    /// Counts of the operations, by the effect of the new rules.
    pub tally: RecordedTally,
    /// Number of operations that were skipped, because the trail withholds a name or a filter.
    pub withheld: u64,
    /// Number of operations that were decided although a rule depends on the client's connection and the trail does not
    /// describe this connection.
    pub link_unknown: u64,
    /// Number of damaged places in the trail.
    pub damages: u64,
}

/// Callback that receives an event, the place of the event in the trail, and the access rules that decided the event.
pub type TakeExplained<'t> = &'t mut dyn FnMut(Event<'_>, EventPlace, Vec<String>) -> std::io::Result<()>;

/// Reader of the access rules of an open data directory. Decisions also depend on the settings of a node.
pub struct Review {
    directory: ReadOnlyDirectory,
    settings: Settings,
    administrator_dn: String,
}

impl Review {
    /// Creates a review with the settings in the directory and the settings of the node.
    pub fn new(directory: ReadOnlyDirectory, node: &NodeSettings) -> Review {
        let settings = Settings::of(node, &directory.state().settings.general);
        Review { directory, settings, administrator_dn: node.admin_dn.clone() }
    }

    fn state(&self) -> TreeState<'_> {
        self.directory.state().with_settings(&self.settings)
    }

    /// Explains whether a requester has a right, and which access rule grants or denies the right.
    ///
    /// # Errors
    /// The data cannot be read, or the question names an unknown requester or entry.
    pub fn explain(&self, question: &AccessQuestion<'_>) -> Result<AccessExplanation, ReviewError> {
        let administrator = Requester::Administrator { dn: self.administrator_dn.clone() };
        Ok(access_question::answer(self.state(), &administrator, question)?)
    }

    /// Compares the access rules of `proposed` with the rules in force, on a sample of requesters and entries. Passes
    /// each difference to `each`. The settings in `proposed` must be valid.
    ///
    /// # Errors
    /// The data cannot be read, or a requester of `rehearsal` does not exist.
    pub fn rehearse(
        &self,
        proposed: &DirectorySettings,
        rehearsal: &Rehearsal,
        each: &mut dyn FnMut(&AccessChange),
    ) -> Result<RehearsalSummary, ReviewError> {
        rehearse::rehearse(self.state(), &proposed.general, rehearsal, each, &mut || true)
            .map_err(|error| Outcome::from(error).into())
    }

    /// Compares the access rules of `proposed` with the rules in force, on each operation of the audit trail in
    /// `folder` that `wanted` accepts. Searches use the present entries of the directory. The settings in `proposed`
    /// must be valid.
    ///
    /// # Errors
    /// The data or the trail cannot be read.
    pub fn rehearse_recorded(
        &self,
        (proposed, folder): (&DirectorySettings, &Path),
        limits: RecordedLimits,
        wanted: &dyn Fn(Event<'_>) -> bool,
        each_damage: &mut dyn FnMut(String),
    ) -> Result<RecordedRehearsal, ReviewError> {
        let mut rehearsal = rehearse::RecordedRehearsal::new(self.state(), &proposed.general, limits);
        let (depends_on_link, depends_on_listener) =
            (rehearsal.depends_on_link(), rehearsal.depends_on_listener());
        let (mut rehearsed, mut damages) = (RecordedRehearsal::default(), 0);
        OperationReader::default().read::<ReviewError>(
            folder,
            &mut |reader, event, _| {
                if !wanted(event) {
                    return Ok(());
                }
                match reader
                    .recorded(event, &mut |recorded| rehearsal.decide(recorded).map_err(ReviewError::from))?
                {
                    EventReading::Nothing => {}
                    EventReading::Withheld => rehearsed.withheld += 1,
                    EventReading::Read { has_link } => {
                        rehearsed.link_unknown +=
                            u64::from(depends_on_listener || (depends_on_link && !has_link));
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
        Ok(RecordedRehearsal { changes, tally, damages, ..rehearsed })
    }

    /// Explains each event of the audit trail in `folder` that `wanted` accepts. Uses the rules that were in force at
    /// the time of the event, and the present entries of the directory.
    ///
    /// # Errors
    /// The data or the trail cannot be read, or `each` fails.
    pub fn explain_recorded(
        &self,
        folder: &Path,
        wanted: &dyn Fn(Event<'_>) -> bool,
        each: TakeExplained<'_>,
        each_damage: &mut dyn FnMut(String),
    ) -> Result<(), ReviewError> {
        let mut explainer = RecordedExplainer::new(self.state())?;
        OperationReader::default().read::<ReviewError>(
            folder,
            &mut |reader, event, place| {
                if !wanted(event) {
                    return Ok(());
                }
                let mut explained = Vec::new();
                reader.recorded(event, &mut |recorded| {
                    explained = explainer.explain(recorded)?;
                    Ok::<_, ReviewError>(())
                })?;
                each(event, place, explained).map_err(ReviewError::Written)
            },
            each_damage,
        )
    }

    /// Returns the versions of the access rules in the directory's log, the oldest first.
    ///
    /// # Errors
    /// The data cannot be read.
    pub fn history(&self) -> Result<Vec<RulesVersion>, ReviewError> {
        rehearse::rules_history(self.directory.state()).map_err(|error| Outcome::from(error).into())
    }
}
