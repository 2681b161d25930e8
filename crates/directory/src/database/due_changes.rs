//! Due changes: changes that the writer makes without a request.

use ldap::{Request, ResultCode};

use super::WriteBatch;
use crate::catalog::schema_of;
use crate::model::limits::{EXPIRED_AT_ONCE_MAX, JOINED_AT_ONCE_MAX, LINK_ENTRIES_MAX, VALUES_ENDED_MAX};
use crate::model::link_progress::LinkStep;
use crate::model::link_types::is_declared_link;
use crate::model::outcome::{OperationError, Outcome};
use crate::model::own_changes::LINKS;
use crate::model::record::Change;
use crate::model::settings::SettingsRecord;
use crate::model::stamp::Stamp;
use crate::write::{dynamic_entries, linking, undelete, value_ends};

/// Progress of the due changes of a batch.
#[derive(Default)]
struct DueProgress {
    /// Whether the batch has a record.
    has_any: bool,
    /// The first refusal.
    refusal: Option<OperationError>,
}

impl WriteBatch<'_> {
    /// Makes a limited number of the changes that are due at the time of the stamp. Removes values whose end time has
    /// passed, deletes expired dynamic entries, purges expired tombstones, converts plain values to links, and adds
    /// entries to groups. Returns true if any change was made. In other respects, works like
    /// [`execute`](WriteBatch::execute).
    ///
    /// If the batch has no room for more records, the records made so far stay, and the other changes remain due. If a
    /// change is refused, the others are made.
    ///
    /// # Errors
    /// The outcome of the first change that was refused, or of the failure.
    pub fn make_due_changes(&mut self, stamp: &Stamp) -> Result<bool, Outcome> {
        self.check_failure()?;
        let mut progress = DueProgress::default();
        for make in
            [Self::end_due_values, Self::expire_due_entries, Self::purge_due_entry, Self::link_or_join]
        {
            match make(self, stamp, &mut progress) {
                Err(_) if progress.has_any && self.record_limit.rejected.is_some() => {
                    self.record_limit.rejected = None;
                    break;
                }
                result => self.note_refusal(result, &mut progress)?,
            }
        }
        match progress.refusal {
            Some(refusal) => Err(refusal.into()),
            None => Ok(progress.has_any),
        }
    }

    /// Keeps a refusal, so that other changes can be made first. Returns the error if the batch has failed, or has no
    /// room for the change.
    fn note_refusal(
        &self,
        result: Result<(), OperationError>,
        progress: &mut DueProgress,
    ) -> Result<(), OperationError> {
        match result {
            Err(error) if self.record_limit.rejected.is_none() && self.check_failure().is_ok() => {
                progress.refusal.get_or_insert(error);
                Ok(())
            }
            other => other,
        }
    }

    fn end_due_values(&mut self, stamp: &Stamp, progress: &mut DueProgress) -> Result<(), OperationError> {
        for _ in 0..EXPIRED_AT_ONCE_MAX {
            if !self.make_step(VALUES_ENDED_MAX, |batch, max| batch.end_values(max, stamp))? {
                break;
            }
            progress.has_any = true;
        }
        Ok(())
    }

    fn expire_due_entries(
        &mut self,
        stamp: &Stamp,
        progress: &mut DueProgress,
    ) -> Result<(), OperationError> {
        let mut refused = Vec::new();
        for _ in 0..EXPIRED_AT_ONCE_MAX {
            let id = dynamic_entries::expired(self.state(), stamp.now_micros, &refused)?;
            let Some(id) = id else { break };
            let csn = self.next_csn(stamp)?;
            let expired = dynamic_entries::expire(self.state(), id, stamp, csn)
                .and_then(|record| self.make(Some(record), stamp));
            match expired {
                Ok(()) => progress.has_any = true,
                refusal => {
                    self.note_refusal(refusal, progress)?;
                    refused.push(id);
                }
            }
        }
        Ok(())
    }

    fn purge_due_entry(&mut self, stamp: &Stamp, progress: &mut DueProgress) -> Result<(), OperationError> {
        if let Some(place) = undelete::expired(self.state(), stamp.now_micros)? {
            let purge = Change::Purge { position: place.position, id: place.id };
            self.record_with("", purge, Vec::new(), stamp)?;
            progress.has_any = true;
        }
        Ok(())
    }

    /// Converts plain values to links, or adds entries to groups. Entries join groups only after the conversion is
    /// complete, because plain values that become links may be members.
    fn link_or_join(&mut self, stamp: &Stamp, progress: &mut DueProgress) -> Result<(), OperationError> {
        progress.has_any |= self.make_step(LINK_ENTRIES_MAX, |batch, max| batch.link_existing(max, stamp))?
            || self.make_step(JOINED_AT_ONCE_MAX, |batch, max| batch.join_existing(max, stamp))?;
        Ok(())
    }

    /// Makes a step with at most `count` entries or values. If the batch has no room for the step's records, tries a
    /// smaller step. The batch contains either all records of a step or none. For example, a step may consist of one
    /// record for a membership and one record for the progress of its rule.
    fn make_step(
        &mut self,
        mut count: usize,
        step: impl Fn(&mut Self, usize) -> Result<bool, OperationError>,
    ) -> Result<bool, OperationError> {
        loop {
            match self.transaction(|batch| step(batch, count)) {
                Err(_) if count > 1 && self.record_limit.rejected.is_some() => {
                    self.record_limit.rejected = None;
                    count = (count / 4).max(1);
                }
                result => return result,
            }
        }
    }

    /// Removes values whose end times have passed, at most `values_max` of one attribute. Returns true if any value
    /// was removed.
    fn end_values(&mut self, values_max: usize, stamp: &Stamp) -> Result<bool, OperationError> {
        let ended = value_ends::ended(self.state(), stamp.now_micros, values_max)?;
        let Some(ended) = ended else { return Ok(false) };
        let record = value_ends::end(self.state(), ended, stamp, self.next_csn(stamp)?)?;
        self.make(Some(record), stamp).map(|()| true)
    }

    /// Converts plain values of at most `entries_max` entries to links. Returns true if a step was made. Makes no step
    /// if the disk is nearly full.
    fn link_existing(&mut self, entries_max: usize, stamp: &Stamp) -> Result<bool, OperationError> {
        if self.disk_full().is_some() {
            return Ok(false);
        }
        match linking::next_step(self.state(), entries_max)? {
            Some(step) => self.link(step, stamp).map(|()| true),
            None => Ok(false),
        }
    }

    /// Returns the step that converts the plain values of an entry to links. The step must be made before the request
    /// changes the entry.
    #[inline]
    pub(super) fn step_first(&self, request: &Request<'_>) -> Result<Option<LinkStep>, OperationError> {
        match linking::is_pending(self.state()) {
            true => linking::step_of(self.state(), request),
            false => Ok(None),
        }
    }

    pub(super) fn link(&mut self, step: LinkStep, stamp: &Stamp) -> Result<(), OperationError> {
        self.record_with(LINKS, Change::Links(step), Vec::new(), stamp)
    }

    /// Refuses definitions with `X-LINK` if a node of the cluster does not support them.
    pub(super) fn check_links(&self, record: &SettingsRecord) -> Result<(), OperationError> {
        let Some(Ok(schema)) = record.schema.as_ref().filter(|_| !self.may_link).map(schema_of) else {
            return Ok(());
        };
        if !schema.attribute_types().iter().any(is_declared_link) {
            return Ok(());
        }
        let text = "a node of the cluster runs a version without X-LINK; update all nodes first";
        Err(OperationError::refused(ResultCode::UNAVAILABLE, text))
    }
}
