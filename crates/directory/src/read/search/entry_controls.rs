//! Controls that come with each result: whether one can bind with its password, and what the entries that it names are
//! like. They are put behind a message that is written already. A result that is too large to be put together in memory
//! comes as a stream, with the same controls.

use std::sync::Arc;

use ldap::{Control, ControlsBuf, MessageId, SearchRequest, oids, response};

use super::dereference::Dereferencing;
use super::matched::MatchedValues;
use super::persistent::Persistent;
use super::result::ResultWriter;
use super::selection::Selection;
use super::sync::Sync;
use super::usability;
use crate::access::{Access, RequestContext, Standing};
use crate::filter::Candidate;
use crate::model::outcome::OperationError;
use crate::read::controls::RequestControls;
use crate::snapshot::Snapshot;
use crate::snapshot::name_cache::NameCache;
use crate::tree::TreeState;

type Result<T> = std::result::Result<T, OperationError>;

/// What is told with each result.
#[derive(Debug)]
pub(super) struct EntryControls {
    /// The time at which one would bind, in microseconds since 1970.
    usability_at: Option<i64>,
    pub(super) dereferencing: Option<Dereferencing>,
    /// What values pass that come back: no control of its own, but it makes results otherwise, too.
    pub(super) matched: Option<MatchedValues>,
    /// What the client is told of a content.
    pub(super) sync: Option<Sync>,
    /// What it is told of changes.
    pub(super) persistent: Option<Persistent>,
}

impl EntryControls {
    /// Those that a request asks for; `None` where it asks for none, as most.
    ///
    /// # Errors
    /// One cannot be as it is asked for.
    pub(super) fn of(
        snapshot: &Snapshot,
        (context, access, standing): (&RequestContext<'_>, Access, Option<&Arc<Standing>>),
        id: MessageId,
        request: &SearchRequest<'_>,
        controls: &RequestControls,
    ) -> Result<Option<Box<EntryControls>>> {
        let matched = MatchedValues::of(snapshot.state(), access, controls, request.types_only)?;
        let sync = Sync::of(snapshot, (context.requester, standing.map(|of| &**of)), id, request, controls)?;
        let usability_at = controls.account_usability.then_some(context.now);
        let dereferencing = match controls.dereference() {
            Some(asked) => Dereferencing::of(snapshot, (context, access, standing), asked)?,
            None => None,
        };
        let persistent = Persistent::of(controls)?;
        let is_told = sync.is_some() || persistent.is_some();
        let is_none = usability_at.is_none() && dereferencing.is_none() && matched.is_none() && !is_told;
        let controls = EntryControls { usability_at, dereferencing, matched, sync, persistent };
        Ok((!is_none).then(|| Box::new(controls)))
    }

    /// Others that tell the same, with buffers of their own.
    pub(super) fn copy(&self) -> EntryControls {
        let dereferencing = self.dereferencing.as_ref().map(Dereferencing::copy);
        let matched = self.matched.clone();
        let persistent = self.persistent.clone();
        // A poll is not shared out.
        EntryControls { usability_at: self.usability_at, dereferencing, matched, sync: None, persistent }
    }

    /// Bytes of memory that they hold, themselves included.
    pub(super) fn memory_bytes(&self) -> usize {
        let dereferencing = self.dereferencing.as_ref().map_or(0, Dereferencing::heap_bytes);
        size_of::<EntryControls>()
            + dereferencing
            + self.matched.as_ref().map_or(0, MatchedValues::heap_bytes)
            + self.sync.as_ref().map_or(0, Sync::heap_bytes)
    }

    /// Brings what was found out on an earlier snapshot up to date.
    pub(super) fn catch_up(&mut self, state: TreeState<'_>) -> Result<()> {
        self.matched.as_mut().map_or(Ok(()), |matched| matched.catch_up(state))
    }

    /// The asker has this standing by now.
    pub(super) fn permit(&mut self, standing: &Arc<Standing>) {
        if let Some(dereferencing) = &mut self.dereferencing {
            dereferencing.permit(standing);
        }
    }

    /// Those of a result but for what the entries are like that it names. `selection` has the rights of the asker at
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

    /// Those that say what became of an entry: also of one of which no more than the name is sent.
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

    /// Goes on finding out what they have to tell, where that takes long; true when that is done.
    #[cold]
    #[inline(never)]
    pub(super) fn is_ready(&mut self, state: TreeState<'_>, records_max: u32) -> Result<bool> {
        self.sync.as_mut().map_or(Ok(true), |sync| sync.read_changes(state, records_max))
    }

    /// As [`ResultWriter::put_entry`], with those values alone that pass, and with controls: what that takes, in
    /// candidates; `None`, and nothing appended, for too much.
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

    /// Adds controls to the message of a result, which begins at `start` and ends `out`. Returns how many entries were
    /// looked up for them; `None`, and nothing added, if that is too much for one go.
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
