//! Changes of a content as they come: the persist stage of content synchronization (RFC 4533 section 3.4), and
//! persistent search (draft-ietf-ldapext-psearch-03).
//!
//! The search has a snapshot of the directory as the client was told of it, the first part of it included. After
//! commits it takes another: a [`ChangeSet`] has the entries that may be others, and each of them is held against the
//! search on both snapshots. What was a result and is none is told as deleted, what is one as it is. Then the newer
//! snapshot is the one that was told. In an event loop a [`Feed`] makes the change set for
//! all searches, and has the snapshot while they wait; a search that has fallen behind makes its own.
//!
//! An entry that moved with its superior is told under its new name. What may have changed more than a change set names
//! ends the search: the client is to poll, or to search again, and finds out. So do records by which other access rules
//! hold for the requester than before, and a rename or the end of the base, or of an entry above it.
//!
//! A persistent search says what happened to an entry. One that is no result any longer, but may be seen, comes as it
//! is by now; one that is gone, or hidden, comes as it was told. Clients know entries by their DNs: where one takes the
//! DN of another that comes later, that other one is told as deleted first. With its base the search ends.

use std::sync::Arc;

use foldhash::{HashSet, HashSetExt};
use ldap::response::{SearchEntryLens, put_attributes_header, put_controls, put_search_entry_header};
use ldap::{ChangeType, Filter, ResultCode, SyncState};

use super::TreeSearch;
use crate::access::{RequestContext, Requester, Standing};
use crate::filter::Candidate;
use crate::model::client_link::ClientLink;
use crate::model::limits::SHARED_SNAPSHOTS_MAX;
use crate::model::outcome::OperationError;
use crate::model::rows::EntryId;
use crate::read::controls::RequestControls;
use crate::read::search::budget::Budget;
use crate::read::search::change_set::{ChangeSet, ChangeSetBuilder, parsed};
use crate::read::search::feed::{Feed, ListenerKey, NextStep, Seat};
use crate::read::search::scanner::Scanner;
use crate::read::search::scope::SearchScope;
use crate::read::search::sync::goes_by_others;
use crate::snapshot::Snapshot;
use crate::snapshot::shared::SharedSnapshot;
use crate::tree::{TreeState, node};

type Result<T> = std::result::Result<T, OperationError>;

/// How far a search is that tells of changes.
pub(super) struct Follow {
    /// The directory as the client was told of it, or is being told at first; `None` while it waits for its feed, which
    /// has it.
    told: Option<Arc<SharedSnapshot>>,
    /// Whether the first part is over.
    has_begun: bool,
    round: Option<Box<Round>>,
    /// Whom access rules bind, if they do.
    bound: Option<Bound>,
    is_administrator: bool,
    /// Whether what is there already is not told.
    changes_only: bool,
    /// Whether all is told until there is another change.
    pub(super) waits: bool,
    seat: Option<Seat>,
}

/// A requester whom access rules bind.
struct Bound {
    requester: Requester,
    link: Option<ClientLink>,
    /// What the rules come to in what was told.
    standing: Arc<Standing>,
}

/// Changes that are being told.
struct Round {
    /// The directory afterwards.
    after: Arc<SharedSnapshot>,
    changes: Changes,
    /// Tells what is to be told; made when the changes are known.
    telling: Option<Telling>,
}

enum Changes {
    /// They are looked for in the log.
    Sought(Box<ChangeSetBuilder>),
    Known(Arc<ChangeSet>),
}

struct Telling {
    /// Looks at the directory before.
    before: Scanner,
    /// Place of the next entry that may be another one.
    next: usize,
    /// Those of them that were told as deleted before it was their turn.
    freed: HashSet<u64>,
    /// Whether the base is gone, or has another name.
    loses_base: bool,
}

impl Bound {
    /// Brings what the rules come to up to date. False where other rules hold than before.
    fn catch_up(&mut self, now: &Snapshot, scanner: &mut Scanner) -> Result<bool> {
        if let Some(own) = self.standing.own()
            && node(now.state().read, own)?.is_none()
        {
            return Ok(false);
        }
        let standing = now.standing(&RequestContext::new(&self.requester, self.link))?;
        let Some(standing) = standing.filter(|new| new.identity() == self.standing.identity()) else {
            return Ok(false);
        };
        scanner.permit(&standing);
        self.standing = standing;
        Ok(true)
    }
}

impl Follow {
    /// # Errors
    /// There are too many, or what changes cannot be told.
    pub(super) fn begin(
        snapshot: &Snapshot,
        (context, standing): (&RequestContext<'_>, Option<&Arc<Standing>>),
        (filter, scope): (Filter<'_>, &SearchScope),
        controls: &RequestControls,
    ) -> Result<Box<Follow>> {
        let (state, requester, link) = (snapshot.state(), context.requester, context.link);
        let goes_by_time = standing.is_some() && state.catalog.access_rules.ask_time();
        let rules = standing.map(|standing| &**standing);
        if goes_by_others(state, rules, filter) || goes_by_time || *requester == Requester::Anonymous {
            let text = "anonymous, whom access rules bind by the time or by attributes that are made, and filters on \
                        such attributes, are not told of changes as they come: poll (refreshOnly)";
            return Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, text));
        }
        if scope.has_aliases {
            let text = "there are aliases below the base: ask without following them in the search";
            return Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, text));
        }
        if snapshot.directory().shared_snapshots() >= 2 * SHARED_SNAPSHOTS_MAX {
            let text =
                "too many searches that are to tell of changes still send what was there: ask again later";
            return Err(OperationError::refused(ResultCode::BUSY, text));
        }
        let told = snapshot.shared()?;
        // The requester's snapshot may be older.
        let (told_standing, has_same_rules) = {
            let told = told.lock();
            (told.standing(context)?, told.has_reading_rules_of(snapshot))
        };
        if told_standing.is_some() != standing.is_some() || !has_same_rules {
            let text = "what access rules let you read has just changed: ask again";
            return Err(OperationError::refused(ResultCode::BUSY, text));
        }
        let bound = told_standing.map(|standing| Bound { requester: requester.clone(), link, standing });
        let changes_only = controls.persistent().is_some_and(|asked| asked.changes_only);
        Ok(Box::new(Follow {
            told: Some(told),
            has_begun: false,
            round: None,
            bound,
            is_administrator: requester.is_administrator(),
            changes_only,
            waits: false,
            seat: None,
        }))
    }

    /// Takes a seat at a feed, which tells of changes from now on.
    pub(super) fn sit(&mut self, feed: &Feed, key: ListenerKey, scope: &SearchScope) -> Result<()> {
        if let Some(told) = &self.told {
            self.seat = Some(feed.take_seat(key, told, scope)?);
        }
        Ok(())
    }

    /// Takes the changes that the feed hands out.
    pub(super) fn take(&mut self, set: Arc<ChangeSet>) {
        let after = Arc::clone(&set.after);
        self.told = Some(Arc::clone(&set.before));
        self.round = Some(Box::new(Round { after, changes: Changes::Known(set), telling: None }));
        self.waits = false;
    }

    /// The directory as it is told at first.
    pub(super) fn told(&self) -> Option<Arc<SharedSnapshot>> {
        self.told.clone()
    }

    /// What the requester may see of what was told; `None` where no rules bind.
    pub(super) fn standing(&self) -> Option<&Arc<Standing>> {
        self.bound.as_ref().map(|bound| &bound.standing)
    }

    /// Whether the first part is over.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Bytes of memory that it holds, itself included.
    pub(super) fn memory_bytes(&mut self) -> usize {
        size_of::<Follow>() + self.round.as_mut().map_or(0, |round| round.memory_bytes())
    }

    /// One slice; the result code if it is the last.
    pub(super) fn run(
        &mut self,
        search: &mut TreeSearch,
        current: &Snapshot,
        out: &mut Vec<u8>,
        budget: &Budget,
    ) -> Result<Option<ResultCode>> {
        if self.has_begun || search.is_streaming() {
            return self.tell_changes(search, current, out, budget);
        }
        let Some(told) = self.told() else { return Ok(None) };
        let told = told.lock();
        if self.changes_only {
            // Nor may this tell whether there is a base that the requester may not see.
            search.check_base(told.state())?;
        } else {
            match search.run_measured(&told, out, budget)? {
                Some(ResultCode::SUCCESS) => {}
                other => return Ok(other),
            }
        }
        // All that is there is sent.
        self.has_begun = true;
        search.has_sent_all();
        if let Some(sync) = search.scanner.sync_mut() {
            sync.name_present(out);
            sync.tell_refreshed(out);
            sync.telling = Some(SyncState::Add);
        }
        Ok(None)
    }

    fn tell_changes(
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
            let (Some(told), Some(mut round)) = (self.told(), self.round.take()) else { return Ok(None) };
            let after = Arc::clone(&round.after);
            let (told, now) = (told.lock(), after.lock());
            match self.go_on(search, &mut round, (&told, &now), out, (out_end, &mut left))? {
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
                        sync.tell_cookie(out);
                    }
                }
            }
            drop((told, now));
            self.told = Some(after);
        }
    }

    /// Begins to tell of what came since. False where there is nothing, or the feed is to say what.
    fn begin_round(&mut self, current: &Snapshot) -> Result<bool> {
        let Some(told) = &self.told else { return Ok(false) };
        let after = match &self.seat {
            Some(seat) => match seat.next(told, self.bound.as_ref().map(|bound| &bound.standing))? {
                NextStep::Wait => {
                    self.told = None;
                    return Ok(false);
                }
                NextStep::WaitForFeed => return Ok(false),
                NextStep::CatchUp(after) => after,
            },
            None => current.shared()?,
        };
        if after.number() <= told.number() {
            return Ok(false);
        }
        let builder = ChangeSetBuilder::begin(Arc::clone(told), Arc::clone(&after), false)?;
        self.round =
            Some(Box::new(Round { after, changes: Changes::Sought(Box::new(builder)), telling: None }));
        Ok(true)
    }

    /// Goes on with a round.
    fn go_on(
        &mut self,
        search: &mut TreeSearch,
        round: &mut Round,
        (told, now): (&Snapshot, &Snapshot),
        out: &mut Vec<u8>,
        (out_end, budget): (usize, &mut u32),
    ) -> Result<Reached> {
        if let Changes::Sought(builder) = &mut round.changes
            && !builder.step(told, now, budget)?
        {
            return Ok(Reached::Pause);
        }
        let set = round.changes.known();
        let telling = match &mut round.telling {
            Some(telling) => telling,
            None => match self.begin_telling(search, &set, told, now)? {
                Some(telling) => round.telling.insert(telling),
                None => return Ok(Reached::TooMuch),
            },
        };
        while let Some(id) = set.changed_in(&search.scanner.scope, telling.next) {
            if *budget == 0 || out.len() >= out_end {
                return Ok(Reached::Pause);
            }
            *budget -= 1;
            telling.next += 1;
            let freed = (&*set, &mut telling.freed);
            if !tell(search, (&mut telling.before, told), (now, freed), EntryId(id), out)? {
                return Ok(Reached::TooMuch);
            }
            if search.is_streaming() {
                return Ok(Reached::Pause);
            }
        }
        Ok(Reached::End { loses_base: telling.loses_base })
    }

    /// Finds what of a change set is to be told. `None` where more may have changed than that.
    fn begin_telling(
        &mut self,
        search: &mut TreeSearch,
        set: &ChangeSet,
        told: &Snapshot,
        now: &Snapshot,
    ) -> Result<Option<Telling>> {
        let scope = &search.scanner.scope;
        let has_other_rules = set.has_other_rules && !self.is_administrator;
        if !set.is_whole || has_other_rules || (set.has_aliases && scope.follows_aliases) {
            return Ok(None);
        }
        let loses_base = set.loses(scope.base, told)?;
        if set.is_too_wide(scope) || (loses_base && search.scanner.sync().is_some()) {
            return Ok(None);
        }
        let mut before = search.scanner.copy();
        before.catch_up(told)?;
        if let Some(bound) = &mut self.bound {
            before.permit(&bound.standing);
            if set.touches(bound.standing.sources()) && !bound.catch_up(now, &mut search.scanner)? {
                return Ok(None);
            }
        }
        Ok(Some(Telling { before, next: 0, freed: HashSet::new(), loses_base }))
    }
}

/// How far a round came.
enum Reached {
    /// The slice is over.
    Pause,
    /// All is told.
    End { loses_base: bool },
    /// More may have changed than can be told.
    TooMuch,
}

impl Changes {
    /// The change set, once it is complete.
    fn known(&mut self) -> Arc<ChangeSet> {
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
            // The feed's, or what the builder counted.
            Changes::Known(_) => 0,
        };
        let telling = self.telling.as_mut().map_or(0, |telling| {
            telling.freed.capacity() * 2 * size_of::<u64>() + telling.before.copy_bytes()
        });
        size_of::<Round>() + changes + telling
    }
}

/// More may have changed than is told entry by entry.
fn too_much(search: &TreeSearch) -> Result<Option<ResultCode>> {
    if search.scanner.sync().is_some() {
        return Ok(Some(ResultCode::E_SYNC_REFRESH_REQUIRED));
    }
    let text = "more may have changed than is told entry by entry: search again";
    Err(OperationError::refused(ResultCode::BUSY, text))
}

/// An entry as it was, or is.
enum Met<'s> {
    Nothing,
    /// A result of another kind, which has no deletes.
    Reference,
    NoResult(Candidate<'s>),
    Result(Candidate<'s>),
}

impl<'s> Met<'s> {
    fn of(scanner: &mut Scanner, snapshot: &'s Snapshot, id: EntryId) -> Result<Met<'s>> {
        let Some(row) = node(snapshot.state().read, id)? else { return Ok(Met::Nothing) };
        if scanner.is_reference(snapshot, id, &row)? {
            return Ok(Met::Reference);
        }
        let candidate = Candidate::new(id, row);
        let is_result = scanner.passes(snapshot, &candidate)?;
        Ok(if is_result { Met::Result(candidate) } else { Met::NoResult(candidate) })
    }
}

/// Tells what became of an entry, if it is or was a result. False where that cannot be told.
fn tell(
    search: &mut TreeSearch,
    (before, told): (&mut Scanner, &Snapshot),
    (now, (set, freed)): (&Snapshot, (&ChangeSet, &mut HashSet<u64>)),
    id: EntryId,
    out: &mut Vec<u8>,
) -> Result<bool> {
    // A stream may have moved it on.
    search.scanner.catch_up(now)?;
    let is = Met::of(&mut search.scanner, now, id)?;
    let was = if freed.contains(&id.0) { Met::Nothing } else { Met::of(before, told, id)? };
    let is_base = id == search.scanner.scope.base && !matches!(is, Met::Nothing);
    match (&was, &is) {
        (Met::Reference, _) | (_, Met::Reference) => return Ok(false),
        // Whoever saw the base sees it no more. Of one that was not seen nothing is told.
        _ if is_base && !search.scanner.shows(now.state(), id)? && before.shows(told.state(), id)? => {
            return Ok(false);
        }
        (Met::Result(_), _) | (_, Met::Result(_)) if search.scanner.sync().is_some() => {
            tell_content(search, (told, was), (now, is), out)?;
        }
        (Met::Result(_), _) | (_, Met::Result(_)) => {
            tell_change(search, (before, told, was), (now, is, (set, freed)), out)?;
        }
        _ => {}
    }
    Ok(true)
}

/// Tells what became of a content by an entry that is or was in it.
fn tell_content<'s>(
    search: &mut TreeSearch,
    (told, was): (&'s Snapshot, Met<'s>),
    (now, is): (&'s Snapshot, Met<'s>),
    out: &mut Vec<u8>,
) -> Result<()> {
    let Some(sync) = search.scanner.sync_mut() else { return Ok(()) };
    match (was, is) {
        (was, Met::Result(candidate)) => {
            let is_new = !matches!(was, Met::Result(_));
            sync.telling = Some(if is_new { SyncState::Add } else { SyncState::Modify });
            if !search.scanner.put_result(now, &candidate, out)? {
                return search.begin_stream(now, candidate.id);
            }
            search.tally.entries_sent += 1;
        }
        (Met::Result(candidate), _) => {
            sync.telling = Some(SyncState::Delete);
            put_name(&search.scanner, told.state(), &candidate, out)?;
        }
        _ => {}
    }
    Ok(())
}

/// Tells what happened to an entry that is or was a result.
fn tell_change<'s>(
    search: &mut TreeSearch,
    (before, told, was): (&mut Scanner, &'s Snapshot, Met<'s>),
    (now, is, (set, freed)): (&'s Snapshot, Met<'s>, (&ChangeSet, &mut HashSet<u64>)),
    out: &mut Vec<u8>,
) -> Result<()> {
    let scanner = &mut search.scanner;
    let was_result = matches!(was, Met::Result(_));
    let shown = match is {
        Met::Result(candidate) => Some((candidate, true)),
        Met::NoResult(candidate) => scanner.permits(now.state(), &candidate)?.then_some((candidate, false)),
        Met::Nothing | Met::Reference => None,
    };
    if let Some((candidate, is_result)) = shown {
        let dn = now.state().dn(candidate.id)?.unwrap_or_default();
        let previous_dn =
            if freed.contains(&candidate.id.0) { None } else { told.state().dn(candidate.id)? };
        let (change, previous_dn) = match previous_dn {
            None => (ChangeType::Add, None),
            Some(previous) if previous == dn => (ChangeType::Modify, None),
            // Whoever access rules did not show the entry is not told what it was called.
            Some(_) if !was_result && scanner.permitted.is_some() => (ChangeType::Add, None),
            previous => (ChangeType::ModifyDn, previous),
        };
        if change != ChangeType::Modify
            && let Some(holder) = told.state().entry_of(&parsed(told.state(), &dn)?)?
            && set.is_later(holder.0, candidate.id.0)
            && freed.insert(holder.0)
            && let Met::Result(holder) = Met::of(before, told, holder)?
        {
            search.tally.entries_sent += u64::from(tell_deleted(before, told, &holder, out)?);
        }
        if !scanner.persistent_mut().is_some_and(|persistent| persistent.tells(change, previous_dn)) {
            return Ok(());
        }
        if !scanner.put_result(now, &candidate, out)? {
            if search.begin_stream_of(now, candidate.id, is_result)? || is_result {
                return Ok(());
            }
            put_name(&search.scanner, now.state(), &candidate, out)?;
        }
        search.tally.entries_sent += 1;
    } else if let Met::Result(candidate) = was {
        search.tally.entries_sent += u64::from(tell_deleted(before, told, &candidate, out)?);
    }
    Ok(())
}

/// Sends an entry as it was, if the client wants to hear of those that are gone.
fn tell_deleted<'s>(
    before: &mut Scanner,
    told: &'s Snapshot,
    candidate: &Candidate<'s>,
    out: &mut Vec<u8>,
) -> Result<bool> {
    if !before.persistent_mut().is_some_and(|persistent| persistent.tells(ChangeType::Delete, None)) {
        return Ok(false);
    }
    if !before.put_result(told, candidate, out)? {
        put_name(before, told.state(), candidate, out)?;
    }
    Ok(true)
}

/// Appends the name of an entry, with the controls that say what became of it, and without attributes.
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
