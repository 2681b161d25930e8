//! Sends changes of a content as they occur: the persist stage of content synchronization (RFC 4533 section 3.4), and
//! persistent search (draft-ietf-ldapext-psearch-03).
//!
//! The search holds the *known snapshot*: the snapshot whose state the client has received. At first, the known
//! snapshot is the snapshot of the initial results. After commits the search takes a newer snapshot. A [`ChangeSet`]
//! names the entries that may differ between the two snapshots. The search evaluates each of these entries on both
//! snapshots. If an entry matched and no longer matches, the search reports the entry as deleted. If the entry
//! matches now, the search sends it. Then the newer snapshot becomes the known snapshot. In an event loop, a [`Feed`]
//! builds the change set for all searches and holds the known snapshot of the searches that wait. A search that is
//! slower than the feed builds its own change set.
//!
//! An entry that moved with its superior is sent under its new DN. The search ends if the change set cannot name all
//! entries that may have changed. The client then polls or searches again. The search also ends if records change the
//! access rules that apply to the requester, or if the base or an entry above it is renamed or deleted.
//!
//! A persistent search reports the change type of each entry. An entry that no longer matches but is still visible is
//! sent in its current state. An entry that was deleted or hidden is sent in its last reported state. Clients identify
//! entries by DN: if an entry takes the DN of another entry that comes later in the change set, the search first
//! reports that other entry as deleted.

use std::sync::Arc;

use foldhash::{HashSet, HashSetExt};
use ldap::response::{SearchEntryLens, put_attributes_header, put_controls, put_search_entry_header};
use ldap::{ChangeType, ResultCode, SyncState};

use super::TreeSearch;
use crate::access::{EffectiveRights, RequestContext, Requester};
use crate::filter::Candidate;
use crate::model::client_link::ClientLink;
use crate::model::limits::SHARED_SNAPSHOTS_MAX;
use crate::model::outcome::OperationError;
use crate::model::rows::EntryId;
use crate::read::search::SearchInputs;
use crate::read::search::budget::Budget;
use crate::read::search::change_set::{ChangeSet, ChangeSetBuilder, parsed};
use crate::read::search::feed::{Feed, ListenerKey, NextStep, Registration};
use crate::read::search::scanner::Scanner;
use crate::read::search::scope::SearchScope;
use crate::read::search::sync::depends_on_others;
use crate::snapshot::Snapshot;
use crate::snapshot::shared::SharedSnapshot;
use crate::tree::{TreeState, node};

type Result<T> = std::result::Result<T, OperationError>;

/// State of a search that sends changes as they occur.
pub(super) struct Follow {
    /// Snapshot whose state the client has received, or is receiving as initial results. `None` while the search waits
    /// for its feed, which then holds the snapshot.
    client_state: Option<Arc<SharedSnapshot>>,
    /// Whether the initial results have all been sent.
    has_started: bool,
    round: Option<Box<Round>>,
    requester: Requester,
    link: Option<ClientLink>,
    /// Effective rights of the requester on the snapshot whose state the client has received.
    rights: EffectiveRights,
    /// Whether the client wants only changes, no initial results.
    changes_only: bool,
    /// Whether the client is up to date and the search waits for another change.
    pub(super) waits: bool,
    registration: Option<Registration>,
}

/// Changes that are being sent.
struct Round {
    /// Snapshot after the changes.
    after: Arc<SharedSnapshot>,
    changes: Changes,
    /// Position in the change set; created when the set is complete.
    cursor: Option<ChangeCursor>,
}

enum Changes {
    /// The builder has not completed the change set.
    Sought(Box<ChangeSetBuilder>),
    Known(Arc<ChangeSet>),
}

struct ChangeCursor {
    /// Evaluates entries on the snapshot before the changes.
    before: Scanner,
    /// Index of the next entry in the change set.
    next: usize,
    /// Entries reported as deleted before their turn, because another entry has taken their DN.
    freed: HashSet<u64>,
    /// Whether the base was deleted or renamed.
    loses_base: bool,
}

impl Follow {
    /// Prepares a search to send changes as they occur.
    ///
    /// # Errors
    /// unwillingToPerform if the server cannot follow the changes of this search. busy if too many snapshots are held,
    /// or if the access rules have just changed.
    pub(super) fn begin(inputs: &SearchInputs<'_>, scope: &SearchScope) -> Result<Box<Follow>> {
        let SearchInputs { snapshot, context, rights, request, controls, .. } = *inputs;
        let (state, requester) = (snapshot.state(), context.requester);
        let goes_by_time = rights.is_restricted() && state.catalog.access_rules.depend_on_time();
        let depends_on_others = depends_on_others(state, rights, request.filter);
        if depends_on_others || goes_by_time || *requester == Requester::Anonymous {
            let text = "anonymous, whom access rules bind by the time or by attributes that are made, and filters on \
                        such attributes, are not told of changes as they come: poll (refreshOnly)";
            return Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, text));
        }
        if scope.has_aliases {
            let text = "there are aliases below the base: ask without following them in the search";
            return Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, text));
        }
        if snapshot.directory().shared_snapshots() >= 2 * SHARED_SNAPSHOTS_MAX {
            let text = "too many persistent searches still send their first results: retry later";
            return Err(OperationError::refused(ResultCode::BUSY, text));
        }
        let client_state = snapshot.shared()?;
        // The snapshot of the request may be older than the shared snapshot.
        let (client_rights, has_same_rules) = {
            let client_state = client_state.lock();
            (client_state.rights(context)?, client_state.has_reading_rules_of(snapshot))
        };
        if client_rights.is_restricted() != rights.is_restricted() || !has_same_rules {
            let text = "what access rules let you read has just changed: ask again";
            return Err(OperationError::refused(ResultCode::BUSY, text));
        }
        Ok(Box::new(Follow {
            client_state: Some(client_state),
            has_started: false,
            round: None,
            requester: requester.clone(),
            link: context.link,
            rights: client_rights,
            changes_only: controls.persistent().is_some_and(|asked| asked.changes_only),
            waits: false,
            registration: None,
        }))
    }

    /// Updates the effective rights to the snapshot `now`. Returns false if the requester's entry no longer exists,
    /// or if other access rules apply to the requester on that snapshot.
    fn renew_rights(&mut self, now: &Snapshot, scanner: &mut Scanner) -> Result<bool> {
        if let Some(own) = self.rights.own()
            && node(now.state().read, own)?.is_none()
        {
            return Ok(false);
        }
        let rights = now.rights(&RequestContext::new(&self.requester, self.link))?;
        if !rights.is_restricted() || rights.identity() != self.rights.identity() {
            return Ok(false);
        }
        scanner.permit(&rights);
        self.rights = rights;
        Ok(true)
    }

    /// Registers the search with a feed. From now on, the feed supplies changes.
    pub(super) fn sit(&mut self, feed: &Feed, key: ListenerKey, scope: &SearchScope) -> Result<()> {
        if let Some(client_state) = &self.client_state {
            self.registration = Some(feed.register(key, client_state, scope)?);
        }
        Ok(())
    }

    /// Accepts changes from the feed.
    pub(super) fn take(&mut self, set: Arc<ChangeSet>) {
        let after = Arc::clone(&set.after);
        self.client_state = Some(Arc::clone(&set.before));
        self.round = Some(Box::new(Round { after, changes: Changes::Known(set), cursor: None }));
        self.waits = false;
    }

    /// Returns the snapshot whose state the client has received; `None` while the feed holds that snapshot.
    pub(super) fn client_state(&self) -> Option<Arc<SharedSnapshot>> {
        self.client_state.clone()
    }

    /// Returns the requester's effective rights on the snapshot whose state the client has received.
    pub(super) fn rights(&self) -> &EffectiveRights {
        &self.rights
    }

    /// Returns true if the initial results have all been sent.
    pub(super) fn has_started(&self) -> bool {
        self.has_started
    }

    /// Returns the memory that the state uses, itself included, in bytes.
    pub(super) fn memory_bytes(&mut self) -> usize {
        size_of::<Follow>() + self.round.as_mut().map_or(0, |round| round.memory_bytes())
    }

    /// Runs one slice. Returns the result code after the last slice.
    pub(super) fn run(
        &mut self,
        search: &mut TreeSearch,
        current: &Snapshot,
        out: &mut Vec<u8>,
        budget: &Budget,
    ) -> Result<Option<ResultCode>> {
        if self.has_started || search.is_streaming() {
            return self.send_changes(search, current, out, budget);
        }
        let Some(client_state) = self.client_state() else { return Ok(None) };
        let client_state = client_state.lock();
        if self.changes_only {
            // The base is checked first, because other errors would reveal a base that the requester may not see.
            search.check_base(client_state.state())?;
        } else {
            match search.run_measured(&client_state, out, budget)? {
                Some(ResultCode::SUCCESS) => {}
                other => return Ok(other),
            }
        }
        // All initial results are sent.
        self.has_started = true;
        search.has_sent_all();
        if let Some(sync) = search.scanner.sync_mut() {
            sync.name_present(out);
            sync.send_refreshed(out);
            sync.next_state = Some(SyncState::Add);
        }
        Ok(None)
    }

    fn send_changes(
        &mut self,
        search: &mut TreeSearch,
        current: &Snapshot,
        out: &mut Vec<u8>,
        budget: &Budget,
    ) -> Result<Option<ResultCode>> {
        self.waits = false;
        if search.is_streaming() {
            search.run_stream(out, budget)?;
            return Ok(None);
        }
        let out_end = out.len().saturating_add(budget.out_bytes_max);
        let mut left = budget.entries_examined_max.max(1);
        loop {
            if self.round.is_none() && !self.begin_round(current)? {
                self.waits = true;
                return Ok(None);
            }
            let (Some(client_state), Some(mut round)) = (self.client_state(), self.round.take()) else {
                return Ok(None);
            };
            let after = Arc::clone(&round.after);
            let (client_state, now) = (client_state.lock(), after.lock());
            match self.go_on(search, &mut round, (&client_state, &now), out, (out_end, &mut left))? {
                Reached::Pause => {
                    self.round = Some(round);
                    return Ok(None);
                }
                Reached::TooMuch => return too_much(search),
                Reached::End { loses_base: true } => {
                    let text = "the base was deleted or renamed";
                    return Err(OperationError::refused(ResultCode::NO_SUCH_OBJECT, text));
                }
                Reached::End { loses_base: false } => {
                    if let Some(sync) = search.scanner.sync_mut() {
                        sync.is_now_at(now.state())?;
                        sync.send_cookie(out);
                    }
                }
            }
            drop((client_state, now));
            self.client_state = Some(after);
        }
    }

    /// Begins a round with the changes since the last round. Returns false if there are no changes, or if the feed will
    /// supply them.
    fn begin_round(&mut self, current: &Snapshot) -> Result<bool> {
        let Some(client_state) = &self.client_state else { return Ok(false) };
        let after = match &self.registration {
            Some(registration) => match registration.next(client_state, &self.rights)? {
                NextStep::Wait => {
                    self.client_state = None;
                    return Ok(false);
                }
                NextStep::WaitForFeed => return Ok(false),
                NextStep::CatchUp(after) => after,
            },
            None => current.shared()?,
        };
        if after.number() <= client_state.number() {
            return Ok(false);
        }
        let builder = ChangeSetBuilder::begin(Arc::clone(client_state), Arc::clone(&after), false)?;
        self.round =
            Some(Box::new(Round { after, changes: Changes::Sought(Box::new(builder)), cursor: None }));
        Ok(true)
    }

    /// Continues a round.
    fn go_on(
        &mut self,
        search: &mut TreeSearch,
        round: &mut Round,
        (client_state, now): (&Snapshot, &Snapshot),
        out: &mut Vec<u8>,
        (out_end, budget): (usize, &mut u32),
    ) -> Result<Reached> {
        if let Changes::Sought(builder) = &mut round.changes
            && !builder.step(client_state, now, budget)?
        {
            return Ok(Reached::Pause);
        }
        let set = round.changes.complete_set();
        let cursor = match &mut round.cursor {
            Some(cursor) => cursor,
            None => match self.begin_sending(search, &set, client_state, now)? {
                Some(cursor) => round.cursor.insert(cursor),
                None => return Ok(Reached::TooMuch),
            },
        };
        while let Some(id) = set.changed_in(&search.scanner.scope, cursor.next) {
            if *budget == 0 || out.len() >= out_end {
                return Ok(Reached::Pause);
            }
            *budget -= 1;
            cursor.next += 1;
            let freed = (&*set, &mut cursor.freed);
            if !send_entry_change(search, (&mut cursor.before, client_state), (now, freed), EntryId(id), out)?
            {
                return Ok(Reached::TooMuch);
            }
            if search.is_streaming() {
                return Ok(Reached::Pause);
            }
        }
        Ok(Reached::End { loses_base: cursor.loses_base })
    }

    /// Prepares to send the changes of a set. Returns `None` if entries may have changed that the set does not name.
    fn begin_sending(
        &mut self,
        search: &mut TreeSearch,
        set: &ChangeSet,
        client_state: &Snapshot,
        now: &Snapshot,
    ) -> Result<Option<ChangeCursor>> {
        let scope = &search.scanner.scope;
        let has_other_rules = set.has_other_rules && !self.rights.is_administrator();
        if !set.is_whole || has_other_rules || (set.has_aliases && scope.follows_aliases) {
            return Ok(None);
        }
        let loses_base = set.loses(scope.base, client_state)?;
        if set.is_too_wide(scope) || (loses_base && search.scanner.sync().is_some()) {
            return Ok(None);
        }
        let mut before = search.scanner.copy();
        before.catch_up(client_state)?;
        before.permit(&self.rights);
        let is_touched = self.rights.sources().is_some_and(|sources| set.touches(sources));
        if is_touched && !self.renew_rights(now, &mut search.scanner)? {
            return Ok(None);
        }
        Ok(Some(ChangeCursor { before, next: 0, freed: HashSet::new(), loses_base }))
    }
}

/// Result of a slice of a round.
enum Reached {
    /// The slice is over.
    Pause,
    /// All changes are sent.
    End { loses_base: bool },
    /// Entries may have changed that the change set does not name.
    TooMuch,
}

impl Changes {
    /// Returns the change set, which must be complete.
    fn complete_set(&mut self) -> Arc<ChangeSet> {
        match self {
            Changes::Known(set) => Arc::clone(set),
            Changes::Sought(builder) => {
                let set = Arc::new(builder.take_set());
                *self = Changes::Known(Arc::clone(&set));
                set
            }
        }
    }
}

impl Round {
    fn memory_bytes(&mut self) -> usize {
        let changes = match &self.changes {
            Changes::Sought(builder) => builder.memory_bytes(),
            // The feed counts the memory of its change sets. The memory of a change set that the search built itself
            // was counted with the builder.
            Changes::Known(_) => 0,
        };
        let cursor = self
            .cursor
            .as_mut()
            .map_or(0, |cursor| cursor.freed.capacity() * 2 * size_of::<u64>() + cursor.before.copy_bytes());
        size_of::<Round>() + changes + cursor
    }
}

/// Ends a search because more may have changed than can be reported entry by entry.
fn too_much(search: &TreeSearch) -> Result<Option<ResultCode>> {
    if search.scanner.sync().is_some() {
        return Ok(Some(ResultCode::E_SYNC_REFRESH_REQUIRED));
    }
    let text = "more may have changed than can be sent entry by entry: search again";
    Err(OperationError::refused(ResultCode::BUSY, text))
}

/// State of an entry on one of the two snapshots, as far as the search reports it.
enum EntryState<'s> {
    Nothing,
    /// A continuation reference, for which no deletion can be reported.
    Reference,
    NoResult(Candidate<'s>),
    Result(Candidate<'s>),
}

impl<'s> EntryState<'s> {
    fn of(scanner: &mut Scanner, snapshot: &'s Snapshot, id: EntryId) -> Result<EntryState<'s>> {
        let Some(row) = node(snapshot.state().read, id)? else { return Ok(EntryState::Nothing) };
        if scanner.is_reference(snapshot, id, &row)? {
            return Ok(EntryState::Reference);
        }
        let candidate = Candidate::new(id, row);
        let is_result = scanner.passes(snapshot, &candidate)?;
        Ok(if is_result { EntryState::Result(candidate) } else { EntryState::NoResult(candidate) })
    }
}

/// Sends the change of an entry that is a result on one of the two snapshots. Returns false if the change cannot be
/// reported.
fn send_entry_change(
    search: &mut TreeSearch,
    (before, client_state): (&mut Scanner, &Snapshot),
    (now, (set, freed)): (&Snapshot, (&ChangeSet, &mut HashSet<u64>)),
    id: EntryId,
    out: &mut Vec<u8>,
) -> Result<bool> {
    // A stream may have left the scanner on another snapshot.
    search.scanner.catch_up(now)?;
    let is = EntryState::of(&mut search.scanner, now, id)?;
    let was =
        if freed.contains(&id.0) { EntryState::Nothing } else { EntryState::of(before, client_state, id)? };
    let is_base = id == search.scanner.scope.base && !matches!(is, EntryState::Nothing);
    match (&was, &is) {
        (EntryState::Reference, _) | (_, EntryState::Reference) => return Ok(false),
        // The requester could see the base on the known snapshot and can no longer see it. If the base was already
        // hidden, nothing is reported.
        _ if is_base
            && !search.scanner.rights.may_browse(now.state(), id)?
            && before.rights.may_browse(client_state.state(), id)? =>
        {
            return Ok(false);
        }
        (EntryState::Result(_), _) | (_, EntryState::Result(_)) if search.scanner.sync().is_some() => {
            send_content_change(search, (client_state, was), (now, is), out)?;
        }
        (EntryState::Result(_), _) | (_, EntryState::Result(_)) => {
            send_notification(search, (before, client_state, was), (now, is, (set, freed)), out)?;
        }
        _ => {}
    }
    Ok(true)
}

/// Sends the change of an entry that is in the content (RFC 4533) on one of the two snapshots.
fn send_content_change<'s>(
    search: &mut TreeSearch,
    (client_state, was): (&'s Snapshot, EntryState<'s>),
    (now, is): (&'s Snapshot, EntryState<'s>),
    out: &mut Vec<u8>,
) -> Result<()> {
    let Some(sync) = search.scanner.sync_mut() else { return Ok(()) };
    match (was, is) {
        (was, EntryState::Result(candidate)) => {
            let is_new = !matches!(was, EntryState::Result(_));
            sync.next_state = Some(if is_new { SyncState::Add } else { SyncState::Modify });
            if !search.scanner.put_result(now, &candidate, out)? {
                return search.begin_stream(now, candidate.id);
            }
            search.tally.entries_sent += 1;
        }
        (EntryState::Result(candidate), _) => {
            sync.next_state = Some(SyncState::Delete);
            put_name(&search.scanner, client_state.state(), &candidate, out)?;
        }
        _ => {}
    }
    Ok(())
}

/// Sends the notification of a persistent search for an entry that is a result on one of the two snapshots.
fn send_notification<'s>(
    search: &mut TreeSearch,
    (before, client_state, was): (&mut Scanner, &'s Snapshot, EntryState<'s>),
    (now, is, (set, freed)): (&'s Snapshot, EntryState<'s>, (&ChangeSet, &mut HashSet<u64>)),
    out: &mut Vec<u8>,
) -> Result<()> {
    let scanner = &mut search.scanner;
    let was_result = matches!(was, EntryState::Result(_));
    let shown = match is {
        EntryState::Result(candidate) => Some((candidate, true)),
        EntryState::NoResult(candidate) => {
            scanner.permits(now.state(), &candidate)?.then_some((candidate, false))
        }
        EntryState::Nothing | EntryState::Reference => None,
    };
    if let Some((candidate, is_result)) = shown {
        let dn = now.state().dn(candidate.id)?.unwrap_or_default();
        let previous_dn =
            if freed.contains(&candidate.id.0) { None } else { client_state.state().dn(candidate.id)? };
        let (change, previous_dn) = match previous_dn {
            None => (ChangeType::Add, None),
            Some(previous) if previous == dn => (ChangeType::Modify, None),
            // The requester may not have seen the entry under its previous DN, so that DN is not revealed.
            Some(_) if !was_result && scanner.rights.is_restricted() => (ChangeType::Add, None),
            previous => (ChangeType::ModifyDn, previous),
        };
        if change != ChangeType::Modify
            && let Some(holder) = client_state.state().entry_of(&parsed(client_state.state(), &dn)?)?
            && set.is_later(holder.0, candidate.id.0)
            && freed.insert(holder.0)
            && let EntryState::Result(holder) = EntryState::of(before, client_state, holder)?
        {
            search.tally.entries_sent += u64::from(send_deletion(before, client_state, &holder, out)?);
        }
        if !scanner.persistent_mut().is_some_and(|persistent| persistent.set_change(change, previous_dn)) {
            return Ok(());
        }
        if !scanner.put_result(now, &candidate, out)? {
            if search.begin_stream_of(now, candidate.id, is_result)? || is_result {
                return Ok(());
            }
            put_name(&search.scanner, now.state(), &candidate, out)?;
        }
        search.tally.entries_sent += 1;
    } else if let EntryState::Result(candidate) = was {
        search.tally.entries_sent += u64::from(send_deletion(before, client_state, &candidate, out)?);
    }
    Ok(())
}

/// Sends the last state of an entry as a deletion. Returns false if the client did not subscribe to deletions.
fn send_deletion<'s>(
    before: &mut Scanner,
    client_state: &'s Snapshot,
    candidate: &Candidate<'s>,
    out: &mut Vec<u8>,
) -> Result<bool> {
    if !before.persistent_mut().is_some_and(|persistent| persistent.set_change(ChangeType::Delete, None)) {
        return Ok(false);
    }
    if !before.put_result(client_state, candidate, out)? {
        put_name(before, client_state.state(), candidate, out)?;
    }
    Ok(true)
}

/// Appends a result with the DN and the controls of an entry but without attributes.
fn put_name<'s>(
    scanner: &Scanner,
    state: TreeState<'s>,
    candidate: &Candidate<'s>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let controls = scanner.controls_of_name(state, candidate)?;
    let controls = controls.as_controls();
    let dn = state.dn(candidate.id)?.unwrap_or_default();
    let controls_len = controls.as_bytes().len();
    let lens = SearchEntryLens { dn_len: dn.len(), attributes_len: 0, controls_len };
    put_search_entry_header(out, scanner.writer.id, lens);
    out.extend_from_slice(dn.as_bytes());
    put_attributes_header(out, 0);
    put_controls(out, controls);
    Ok(())
}
