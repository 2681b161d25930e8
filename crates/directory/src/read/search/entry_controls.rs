//! Response controls of each result: account usability, dereferenced entries, and reports of changes. The controls are
//! appended after the other parts of the result's message are written. A result too large for memory is sent as a
//! stream, with the same controls.

use ldap::{Control, ControlsBuf, oids, response};

use super::dereference::Dereferencing;
use super::matched::MatchedValues;
use super::persistent::Persistent;
use super::result::ResultWriter;
use super::selection::Selection;
use super::sync::Sync;
use super::{SearchInputs, usability};
use crate::access::EffectiveRights;
use crate::filter::Candidate;
use crate::model::outcome::OperationError;
use crate::snapshot::name_cache::NameCache;
use crate::tree::TreeState;

type Result<T> = std::result::Result<T, OperationError>;

/// Response controls of each result.
#[derive(Debug)]
pub(super) struct EntryControls {
    /// Time for which account usability is reported, in microseconds since 1970; `None` if the client does not request
    /// it.
    usability_at: Option<i64>,
    pub(super) dereferencing: Option<Dereferencing>,
    /// Filters for returned values. They add no response control, but change how results are written.
    pub(super) matched: Option<MatchedValues>,
    /// Synchronization state.
    pub(super) sync: Option<Sync>,
    /// Persistent search state.
    pub(super) persistent: Option<Persistent>,
}

impl EntryControls {
    /// Creates the controls that a request asks for. Returns `None` if the request asks for none, as most requests
    /// do, or if the search only counts its results.
    ///
    /// # Errors
    /// A control that the search cannot honor.
    pub(super) fn of(inputs: &SearchInputs<'_>) -> Result<Option<Box<EntryControls>>> {
        let controls = inputs.controls;
        if controls.count().is_some() {
            return Ok(None);
        }
        let matched = MatchedValues::of(inputs)?;
        let sync = Sync::of(inputs)?;
        let usability_at = controls.account_usability.then_some(inputs.context.now);
        let dereferencing = match controls.dereference() {
            Some(asked) => Dereferencing::of(inputs, asked)?,
            None => None,
        };
        let persistent = Persistent::of(controls)?;
        let is_reported = sync.is_some() || persistent.is_some();
        let is_none = usability_at.is_none() && dereferencing.is_none() && matched.is_none() && !is_reported;
        let controls = EntryControls { usability_at, dereferencing, matched, sync, persistent };
        Ok((!is_none).then(|| Box::new(controls)))
    }

    /// Returns a copy with buffers of its own.
    pub(super) fn copy(&self) -> EntryControls {
        let dereferencing = self.dereferencing.as_ref().map(Dereferencing::copy);
        let matched = self.matched.clone();
        let persistent = self.persistent.clone();
        // A copy does not synchronize: it scans a part of the candidates of another search, or evaluates entries on an
        // earlier snapshot.
        EntryControls { usability_at: self.usability_at, dereferencing, matched, sync: None, persistent }
    }

    /// Returns the memory that the controls use, themselves included, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let dereferencing = self.dereferencing.as_ref().map_or(0, Dereferencing::heap_bytes);
        size_of::<EntryControls>()
            + dereferencing
            + self.matched.as_ref().map_or(0, MatchedValues::heap_bytes)
            + self.sync.as_ref().map_or(0, Sync::heap_bytes)
    }

    /// Resolves the DNs in the filters for returned values again, on a newer snapshot.
    pub(super) fn catch_up(&mut self, state: TreeState<'_>) -> Result<()> {
        self.matched.as_mut().map_or(Ok(()), |matched| matched.catch_up(state))
    }

    /// Sets the current effective rights of the requester.
    pub(super) fn permit(&mut self, rights: &EffectiveRights) {
        if let Some(dereferencing) = &mut self.dereferencing {
            dereferencing.permit(rights);
        }
    }

    /// Builds the controls of a result, without the dereference control. `selection` holds the requester's rights at
    /// the entry.
    pub(super) fn of_result<'s>(
        &self,
        state: TreeState<'s>,
        candidate: &Candidate<'s>,
        selection: &Selection,
    ) -> Result<ControlsBuf> {
        let mut controls = ControlsBuf::new();
        if let Some(now) = self.usability_at
            && let Some(value) = usability::value(state, selection, candidate.id, now)?
        {
            controls.push(Control { oid: oids::ACCOUNT_USABILITY, critical: false, value: Some(&value) });
        }
        self.push_changes(state, candidate, &mut controls)?;
        Ok(controls)
    }

    /// Builds the controls that report the change of an entry. An entry that is sent with only its name has no other
    /// controls.
    pub(super) fn of_name<'s>(&self, state: TreeState<'s>, candidate: &Candidate<'s>) -> Result<ControlsBuf> {
        let mut controls = ControlsBuf::new();
        self.push_changes(state, candidate, &mut controls)?;
        Ok(controls)
    }

    fn push_changes<'s>(
        &self,
        state: TreeState<'s>,
        candidate: &Candidate<'s>,
        controls: &mut ControlsBuf,
    ) -> Result<()> {
        let (oid, value) = match (&self.sync, &self.persistent) {
            (Some(sync), _) => (oids::SYNC_STATE, Some(sync.state_value(state, candidate)?)),
            (None, Some(persistent)) => (oids::ENTRY_CHANGE_NOTIFICATION, persistent.change_value()),
            (None, None) => return Ok(()),
        };
        if let Some(value) = value {
            controls.push(Control { oid, critical: false, value: Some(&value) });
        }
        Ok(())
    }

    /// Continues preparations that may take several slices. Returns true when they are complete.
    #[cold]
    #[inline(never)]
    pub(super) fn is_ready(&mut self, state: TreeState<'_>, records_max: u32) -> Result<bool> {
        self.sync.as_mut().map_or(Ok(true), |sync| sync.read_changes(state, records_max))
    }

    /// Returns the ids of the candidates that replace the candidates of the plan; `None` if the plan's candidates are
    /// used. Returns the ids only once.
    #[cold]
    #[inline(never)]
    pub(super) fn take_listed(&mut self, state: TreeState<'_>) -> Result<Option<Vec<u64>>> {
        self.sync.as_mut().map_or(Ok(None), |sync| sync.take_listed(state))
    }

    /// Does the same as [`ResultWriter::put_entry`], but writes only the values that match the filters for returned
    /// values, and adds the controls. Omits an entry if the client of a synchronization has its current state.
    /// Returns the cost as a number of candidates. If the result is too large, returns `None` and appends nothing.
    #[cold]
    #[inline(never)]
    pub(super) fn put_entry<'s>(
        &mut self,
        writer: &mut ResultWriter,
        out: &mut Vec<u8>,
        state: TreeState<'s>,
        names: &mut NameCache,
        candidate: &Candidate<'s>,
    ) -> Result<Option<u32>> {
        if let Some(sync) = &mut self.sync
            && sync.has(state, candidate, out)?
        {
            return Ok(Some(0));
        }
        let start = out.len();
        let cost = match &self.matched {
            Some(matched) => matched.put_entry(writer, out, state, names, candidate)?,
            None => writer.put_entry(out, state, names, candidate)?.then_some(0),
        };
        let Some(cost) = cost else { return Ok(None) };
        let Some(looked_up) = self.put((out, start), state, names, candidate, &writer.selection)? else {
            out.truncate(start);
            return Ok(None);
        };
        Ok(Some(cost.saturating_add(looked_up)))
    }

    /// Adds controls to the message of a result. The message is the content of `out` from `start` on. Returns the
    /// number of entries looked up for the controls. If there are too many entries for one slice, returns `None` and
    /// adds nothing.
    fn put<'s>(
        &mut self,
        (out, start): (&mut Vec<u8>, usize),
        state: TreeState<'s>,
        names: &mut NameCache,
        candidate: &Candidate<'s>,
        selection: &Selection,
    ) -> Result<Option<u32>> {
        let (mut controls, mut looked_up) = (self.of_result(state, candidate, selection)?, 0);
        if let Some(dereferencing) = &mut self.dereferencing {
            let Some((value, count)) = dereferencing.gather(state, names, candidate, selection)? else {
                return Ok(None);
            };
            looked_up = count;
            if !value.is_empty() {
                controls.push(Control { oid: oids::DEREFERENCE, critical: false, value: Some(&value) });
            }
        }
        if !controls.as_controls().is_empty() {
            response::add_controls(out, start, controls.as_controls());
        }
        Ok(Some(looked_up))
    }
}
