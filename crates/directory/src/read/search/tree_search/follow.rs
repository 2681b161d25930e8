//! Changes of a content as they come: the persist stage of content synchronization (RFC 4533 section 3.4), and
//! persistent search (draft-ietf-ldapext-psearch-03).
//!
//! The search has a snapshot of the directory as the client was told of it, the first part of it included. Behind
//! commits it takes another: the records between the two name the entries that may be others, and each of them is held
//! against the search on both. What was a result and is none is told as deleted, what is one as it is. Then the newer
//! snapshot is the one that was told. So nothing is kept of a client but a snapshot, which is as new as the directory
//! as long as the client reads; a client that does not is cut off.
//!
//! What may have changed more than the records name (see `sync`) ends the search: the client is to poll, or to search
//! again, and finds out. So do records by which other access rules hold for the asker than before.
//!
//! A persistent search says what happened to an entry. One that is no result any longer, but may be seen, comes as it
//! is by now; one that is gone, or hidden, comes as it was told. Clients know entries by their DNs: where one takes the
//! DN of another that comes later, that other one is told as deleted first. With its base the search ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use foldhash::{HashSet, HashSetExt};
use ldap::response::{SearchEntryLens, put_attributes_header, put_controls, put_search_entry_header};
use ldap::{ChangeType, Dn, Filter, ResultCode, SyncState};
use store::Position;

use super::TreeSearch;
use crate::access::{Requester, Sources, Standing};
use crate::filter::Candidate;
use crate::model::client_link::ClientLink;
use crate::model::limits::{FOLLOWED_ENTRIES_MAX, FOLLOWED_RECORDS_MAX, FOLLOWED_TREE_MAX, FOLLOWERS_MAX};
use crate::model::name::NormalName;
use crate::model::outcome::OperationError;
use crate::model::record::Change;
use crate::model::rows::{DANGLING, EntryId, children_counter, dangling_key};
use crate::read::controls::RequestControls;
use crate::read::search::budget::Budget;
use crate::read::search::scanner::Scanner;
use crate::read::search::scope::SearchScope;
use crate::read::search::sync::{goes_by_others, read_record, touch_all, touch_sources};
use crate::snapshot::{Directory, Snapshot};
use crate::tree::{TreeState, node};

type Result<T> = std::result::Result<T, OperationError>;

/// How far a search is that tells of changes.
pub(super) struct Follow {
    /// The directory as the client was told of it, or is being told at first.
    pub(super) told: Snapshot,
    /// Looks at that; made when the first part is over.
    before: Option<Box<Scanner>>,
    round: Option<Round>,
    /// Whom access rules bind, if they do.
    bound: Option<Bound>,
    /// Whether what is there already is not told.
    changes_only: bool,
    /// Whether all is told until there is another change.
    pub(super) waits: bool,
    _place: Place,
}

/// An asker whom access rules bind.
struct Bound {
    requester: Requester,
    link: Option<ClientLink>,
    /// What the rules come to in what was told.
    standing: Arc<Standing>,
}

/// What is being told.
struct Round {
    now: Snapshot,
    /// The next record to be gone through.
    next: Position,
    /// Entries that may be others.
    changed: HashSet<u64>,
    /// Whether access rules may come to something else by a record.
    touches_rules: bool,
    /// Whether the base is gone, or has another name.
    loses_base: bool,
    /// The same in order, the next one last, once all records are gone through.
    left: Option<Vec<u64>>,
    /// Those of them that were told as deleted before it was their turn.
    freed: HashSet<u64>,
}

impl Bound {
    /// Brings what the rules come to up to date. False where other rules hold than before.
    fn catch_up(&mut self, now: &Snapshot, scanner: &mut Scanner) -> Result<bool> {
        if let Some(own) = self.standing.own()
            && node(now.state().read, own)?.is_none()
        {
            return Ok(false);
        }
        let standing = now.standing(&self.requester, self.link.as_ref())?;
        let Some(standing) = standing.filter(|new| new.identity() == self.standing.identity()) else {
            return Ok(false);
        };
        scanner.permit(&standing);
        self.standing = standing;
        Ok(true)
    }
}

/// Counts those that there are.
struct Place(Arc<Directory>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.followers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Follow {
    /// # Errors
    /// There are too many, or what changes cannot be told.
    pub(super) fn begin(
        snapshot: &Snapshot,
        (requester, standing): (&Requester, Option<&Arc<Standing>>),
        (filter, scope): (Filter<'_>, &SearchScope),
        controls: &RequestControls,
    ) -> Result<Box<Follow>> {
        let (state, link) = (snapshot.state(), controls.link);
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
        let directory = snapshot.directory_handle();
        let before = directory.followers.fetch_add(1, Ordering::Relaxed);
        let place = Place(Arc::clone(directory));
        if before >= FOLLOWERS_MAX {
            let text =
                format!("{FOLLOWERS_MAX} searches are told of changes as they come: poll (refreshOnly)");
            return Err(OperationError::refused(ResultCode::BUSY, text));
        }
        let told = directory.snapshot()?;
        // The asker's snapshot may be older.
        let told_standing = told.standing(requester, link.as_ref())?;
        if told_standing.is_some() != standing.is_some() {
            let text = "whether access rules bind you has just changed: ask again";
            return Err(OperationError::refused(ResultCode::BUSY, text));
        }
        let bound = told_standing.map(|standing| Bound { requester: requester.clone(), link, standing });
        let changes_only = controls.persistent().is_some_and(|asked| asked.changes_only);
        Ok(Box::new(Follow {
            told,
            before: None,
            round: None,
            bound,
            changes_only,
            waits: false,
            _place: place,
        }))
    }

    /// What the asker may see of what was told; `None` where no rules bind.
    pub(super) fn standing(&self) -> Option<&Arc<Standing>> {
        self.bound.as_ref().map(|bound| &bound.standing)
    }

    /// Whether the first part is over.
    pub(super) fn has_begun(&self) -> bool {
        self.before.is_some()
    }

    /// Bytes of memory that it holds, itself included.
    pub(super) fn memory_bytes(&mut self) -> usize {
        let of_round = |round: &Round| {
            let left = round.left.as_ref().map_or(0, Vec::capacity);
            let sets = round.changed.capacity() + round.freed.capacity();
            (left + sets * 2) * size_of::<u64>()
        };
        let left = self.round.as_ref().map_or(0, of_round);
        size_of::<Follow>() + left + self.before.as_mut().map_or(0, |scanner| scanner.copy_bytes())
    }

    /// One slice; the result code if it is the last.
    pub(super) fn run(
        &mut self,
        search: &mut TreeSearch,
        current: &Snapshot,
        out: &mut Vec<u8>,
        budget: &Budget,
    ) -> Result<Option<ResultCode>> {
        if self.before.is_some() || search.is_streaming() {
            return self.tell_changes(search, current, out, budget);
        }
        if self.changes_only {
            // Nor may this tell whether there is a base that the asker may not see.
            search.check_base(self.told.state())?;
        } else {
            match search.run_measured(&self.told, out, budget)? {
                Some(ResultCode::SUCCESS) => {}
                other => return Ok(other),
            }
        }
        // All that is there is sent.
        self.before = Some(Box::new(search.scanner.copy()));
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
        let Some(before) = &mut self.before else { return Ok(None) };
        let out_end = out.len().saturating_add(budget.out_bytes_max);
        let mut examined_left = budget.entries_examined_max.max(1);
        loop {
            let Some(round) = &mut self.round else {
                if current.position()? <= self.told.position()? {
                    self.waits = true;
                    return Ok(None);
                }
                let now = self.told.directory_handle().snapshot()?;
                let (next, changed) = (self.told.position()? + 1, HashSet::new());
                if !is_told_whole(next, now.state())? {
                    return too_much(search);
                }
                // A rule may ask for an attribute that no entry had.
                let known = |snapshot: &Snapshot| snapshot.state().catalog.attributes().len();
                let touches_rules = known(&now) != known(&self.told);
                let freed = HashSet::new();
                self.round =
                    Some(Round { now, next, changed, touches_rules, loses_base: false, left: None, freed });
                continue;
            };
            let Some(left) = &mut round.left else {
                let sources = self.bound.as_ref().map(|bound| bound.standing.sources());
                match round.read_records(self.told.state(), (&search.scanner, sources), &mut examined_left)? {
                    Records::Read => {
                        if let Some(bound) = self.bound.as_mut().filter(|_| round.touches_rules)
                            && !bound.catch_up(&round.now, &mut search.scanner)?
                        {
                            return too_much(search);
                        }
                        continue;
                    }
                    Records::More => return Ok(None),
                    Records::Wide => return too_much(search),
                }
            };
            let Some(id) = left.pop() else {
                if let Some(Round { now, loses_base, .. }) = self.round.take() {
                    self.told = now;
                    if loses_base {
                        let text = "the base was deleted or renamed";
                        return Err(OperationError::refused(ResultCode::NO_SUCH_OBJECT, text));
                    }
                }
                before.catch_up(&self.told)?;
                if let Some(bound) = &self.bound {
                    before.permit(&bound.standing);
                }
                if let Some(sync) = search.scanner.sync_mut() {
                    sync.is_now_at(self.told.state())?;
                    sync.tell_cookie(out);
                }
                continue;
            };
            if examined_left == 0 || out.len() >= out_end {
                left.push(id);
                return Ok(None);
            }
            examined_left -= 1;
            let now = (&round.now, &mut round.freed);
            if !tell(search, (before, &self.told), now, EntryId(id), out)? {
                return too_much(search);
            }
            if search.is_streaming() {
                return Ok(None);
            }
        }
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
    (now, freed): (&Snapshot, &mut HashSet<u64>),
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
        // What the base of a search is may be seen.
        _ if is_base && !search.scanner.shows(now.state(), id)? => return Ok(false),
        (Met::Result(_), _) | (_, Met::Result(_)) if search.scanner.sync().is_some() => {
            tell_content(search, (told, was), (now, is), out)?;
        }
        (Met::Result(_), _) | (_, Met::Result(_)) => {
            tell_change(search, (before, told, was), (now, is, freed), out)?;
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
    (now, is, freed): (&'s Snapshot, Met<'s>, &mut HashSet<u64>),
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
            && holder > candidate.id
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

/// Whether the log has all changes from a position on, and not too many of them.
fn is_told_whole(next: Position, now: TreeState<'_>) -> Result<bool> {
    let is_there = now.read.first_position()?.is_some_and(|first| first <= next);
    Ok(is_there && now.read.position()?.saturating_sub(next) < FOLLOWED_RECORDS_MAX)
}

/// How far [`Round::read_records`] has come.
enum Records {
    /// All records are gone through.
    Read,
    More,
    /// More may have changed than records tell.
    Wide,
}

impl Round {
    /// Goes through some records for the entries that may be others by them.
    fn read_records(
        &mut self,
        told: TreeState<'_>,
        (scanner, sources): (&Scanner, Option<&Sources>),
        budget: &mut u32,
    ) -> Result<Records> {
        let now = self.now.state();
        for record in now.read.log_records(self.next) {
            if *budget == 0 {
                return Ok(Records::More);
            }
            *budget -= 1;
            let (position, bytes) = record?;
            let record = read_record(position, bytes)?;
            self.touches_rules |= sources.is_some_and(|sources| sources.are_touched(&record));
            let loses_base = loses_base(&record.change, scanner.scope.base);
            let is_about_alias = scanner.scope.follows_aliases && is_about_alias(&record.change, now)?;
            if (loses_base && scanner.sync().is_some()) || is_about_alias {
                return Ok(Records::Wide);
            }
            self.loses_base |= loses_base;
            if !add_changed(record.change, (told, now), &mut self.changed)? {
                return Ok(Records::Wide);
            }
            if self.changed.len() > FOLLOWED_ENTRIES_MAX {
                return Ok(Records::Wide);
            }
            self.next = position + 1;
        }
        let mut left: Vec<u64> = std::mem::take(&mut self.changed).into_iter().collect();
        left.sort_unstable_by(|one, other| other.cmp(one));
        self.left = Some(left);
        Ok(Records::Read)
    }
}

/// Whether the base is gone by a change, or has another name.
fn loses_base(change: &Change, base: EntryId) -> bool {
    match change {
        Change::Delete(delete) => delete.id == base,
        Change::DeleteTree(tree) => tree.top == base || tree.below.iter().any(|below| below.id == base),
        Change::ModifyDn(rename) => rename.id == base,
        Change::Add(_)
        | Change::Modify(_)
        | Change::Suffix { .. }
        | Change::Settings(_)
        | Change::Administrator { .. } => false,
    }
}

/// Whether there is an alias by a change where there was none.
fn is_about_alias(change: &Change, now: TreeState<'_>) -> Result<bool> {
    match change {
        Change::Add(add) => Ok(add.flags.is_alias()),
        Change::ModifyDn(rename) => Ok(node(now.read, rename.id)?.is_some_and(|row| row.flags.is_alias())),
        _ => Ok(false),
    }
}

/// Adds the entries that may be others by a change. False where those may be of which it does not tell.
fn add_changed(
    change: Change,
    (told, now): (TreeState<'_>, TreeState<'_>),
    changed: &mut HashSet<u64>,
) -> Result<bool> {
    // Names that entries had, which others may have in text: with the entry that becomes a link, and with its end
    // another text or nothing.
    let (mut gone, mut named, mut names) = (Vec::new(), None, Vec::new());
    match change {
        Change::Settings(_) | Change::Suffix { .. } => return Ok(false),
        Change::Administrator { .. } => {}
        Change::Modify(modify) if modify.flags.is_alias() => return Ok(false),
        Change::Modify(modify) => drop(changed.insert(modify.id.0)),
        Change::Add(add) => (named, names) = (Some(add.id), vec![add.dn]),
        Change::Delete(delete) => (gone, names) = (vec![delete.id], vec![delete.dn]),
        // All at once is too much for one record.
        Change::DeleteTree(tree) if tree.below.len() > FOLLOWED_TREE_MAX => return Ok(false),
        Change::DeleteTree(tree) => (gone, names) = tree.entries().into_iter().unzip(),
        Change::ModifyDn(rename) => {
            let counter = children_counter(rename.id);
            if told.read.count(&counter)? > 0 || now.read.count(&counter)? > 0 {
                return Ok(false);
            }
            (named, names) = (Some(rename.id), vec![rename.old_dn]);
        }
    }
    for id in gone {
        touch_sources(told, id, (changed, FOLLOWED_ENTRIES_MAX))?;
        changed.insert(id.0);
    }
    if let Some(id) = named {
        touch_sources(now, id, (changed, FOLLOWED_ENTRIES_MAX))?;
        changed.insert(id.0);
    }
    for name in names {
        touch_text(told, &name, changed)?;
    }
    Ok(true)
}

/// Adds the entries that have a name in text, where an entry could be.
fn touch_text(state: TreeState<'_>, dn: &str, touched: &mut HashSet<u64>) -> Result<()> {
    if state.read.row_count(DANGLING)? == 0 {
        return Ok(());
    }
    let name = parsed(state, dn)?;
    touch_all(state, DANGLING, (touched, FOLLOWED_ENTRIES_MAX), |attribute| {
        dangling_key(attribute, &name.key)
    })
}

/// A DN of the directory's own, in normal form.
fn parsed(state: TreeState<'_>, dn: &str) -> Result<NormalName> {
    let damaged = |error: ldap::DnError| OperationError::Damaged(format!("DN {dn:?}: {error}"));
    Ok(NormalName::of(&Dn::parse(dn).map_err(damaged)?, &state.catalog.schema))
}
