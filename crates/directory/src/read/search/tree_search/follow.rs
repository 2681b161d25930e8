//! Changes of a content as they come: the persist stage of content synchronization (RFC 4533 section 3.4).
//!
//! The search has a snapshot of the directory as the client was told of it, the first part of it included. Behind
//! commits it takes another: the records between the two name the entries that may be others, and each of them is held
//! against the search on both. What was a result and is none is told as deleted, what is one as it is. Then the newer
//! snapshot is the one that was told. So nothing is kept of a client but a snapshot, which is as new as the directory
//! as long as the client reads; a client that does not is cut off.
//!
//! What may have changed more than the records name (see `sync`) ends the search: the client is to poll, and finds out.
//! So do records by which other access rules hold for the asker than before.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use foldhash::{HashSet, HashSetExt};
use ldap::response::{SearchEntryLens, put_attributes_header, put_controls, put_search_entry_header};
use ldap::{Dn, ResultCode, SyncState};
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
use crate::read::search::budget::Budget;
use crate::read::search::scanner::Scanner;
use crate::read::search::sync::{read_record, touch_all, touch_sources};
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
    /// The same in order, the next one last, once all records are gone through.
    left: Option<Vec<u64>>,
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
    /// There are too many.
    pub(super) fn begin(
        snapshot: &Snapshot,
        (requester, standing): (&Requester, Option<&Arc<Standing>>),
        link: Option<ClientLink>,
    ) -> Result<Box<Follow>> {
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
        Ok(Box::new(Follow { told, before: None, round: None, bound, waits: false, _place: place }))
    }

    /// What the asker may see of what was told; `None` where no rules bind.
    pub(super) fn standing(&self) -> Option<&Arc<Standing>> {
        self.bound.as_ref().map(|bound| &bound.standing)
    }

    /// Bytes of memory that it holds, itself included.
    pub(super) fn memory_bytes(&mut self) -> usize {
        let of_round = |round: &Round| {
            let left = round.left.as_ref().map_or(0, Vec::capacity);
            (left + round.changed.capacity() * 2) * size_of::<u64>()
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
        match search.run_measured(&self.told, out, budget)? {
            Some(ResultCode::SUCCESS) => {}
            other => return Ok(other),
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
                    return Ok(Some(ResultCode::E_SYNC_REFRESH_REQUIRED));
                }
                // A rule may ask for an attribute that no entry had.
                let known = |snapshot: &Snapshot| snapshot.state().catalog.attributes().len();
                let touches_rules = known(&now) != known(&self.told);
                self.round = Some(Round { now, next, changed, touches_rules, left: None });
                continue;
            };
            let Some(left) = &mut round.left else {
                let base = search.scanner.scope.base;
                let sources = self.bound.as_ref().map(|bound| bound.standing.sources());
                match round.read_records(self.told.state(), (base, sources), &mut examined_left)? {
                    Records::Read => {
                        if let Some(bound) = self.bound.as_mut().filter(|_| round.touches_rules)
                            && !bound.catch_up(&round.now, &mut search.scanner)?
                        {
                            return Ok(Some(ResultCode::E_SYNC_REFRESH_REQUIRED));
                        }
                        continue;
                    }
                    Records::More => return Ok(None),
                    Records::Wide => return Ok(Some(ResultCode::E_SYNC_REFRESH_REQUIRED)),
                }
            };
            let Some(id) = left.pop() else {
                if let Some(Round { now, .. }) = self.round.take() {
                    self.told = now;
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
            if !tell(search, (before, &self.told), &round.now, EntryId(id), out)? {
                return Ok(Some(ResultCode::E_SYNC_REFRESH_REQUIRED));
            }
            if search.is_streaming() {
                return Ok(None);
            }
        }
    }
}

/// Tells what became of an entry, if it is or was a result. False where that cannot be told.
fn tell(
    search: &mut TreeSearch,
    (before, told): (&mut Scanner, &Snapshot),
    now: &Snapshot,
    id: EntryId,
    out: &mut Vec<u8>,
) -> Result<bool> {
    let (old, new) = (told.state(), now.state());
    // A stream may have moved it on.
    search.scanner.catch_up(now)?;
    let was = match node(old.read, id)? {
        // Results of another kind, which have no deletes.
        Some(row) if row.flags.is_referral() => return Ok(false),
        Some(row) => {
            let candidate = Candidate::new(id, row);
            before.passes(told, &candidate)?.then_some(candidate)
        }
        None => None,
    };
    let is = match node(new.read, id)? {
        Some(row) if row.flags.is_referral() => return Ok(false),
        Some(row) => {
            let candidate = Candidate::new(id, row);
            search.scanner.passes(now, &candidate)?.then_some(candidate)
        }
        None => None,
    };
    // What the base of a search is may be seen.
    if id == search.scanner.scope.base && !search.scanner.shows(new, id)? {
        return Ok(false);
    }
    let Some(sync) = search.scanner.sync_mut() else { return Ok(false) };
    match (was, is) {
        (None, None) => {}
        (was, Some(candidate)) => {
            sync.telling = Some(if was.is_some() { SyncState::Modify } else { SyncState::Add });
            if !search.scanner.put_result(now, &candidate, out)? {
                search.begin_stream(now, id)?;
            } else {
                search.tally.entries_sent += 1;
            }
        }
        (Some(candidate), None) => {
            sync.telling = Some(SyncState::Delete);
            let controls = sync.state_controls(old, &candidate)?;
            let controls = controls.as_controls();
            let dn = old.dn(id)?.unwrap_or_default();
            let controls_len = controls.as_bytes().len();
            let lens = SearchEntryLens { dn_len: dn.len(), attributes_len: 0, controls_len };
            put_search_entry_header(out, search.scanner.writer.id, lens);
            out.extend_from_slice(dn.as_bytes());
            put_attributes_header(out, 0);
            put_controls(out, controls);
        }
    }
    Ok(true)
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
        (base, sources): (EntryId, Option<&Sources>),
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
            if !add_changed(record.change, (told, now), base, &mut self.changed)? {
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

/// Adds the entries that may be others by a change. False where those may be of which it does not tell.
fn add_changed(
    change: Change,
    (told, now): (TreeState<'_>, TreeState<'_>),
    base: EntryId,
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
            if told.read.count(&counter)? > 0 || now.read.count(&counter)? > 0 || rename.id == base {
                return Ok(false);
            }
            (named, names) = (Some(rename.id), vec![rename.old_dn]);
        }
    }
    if gone.contains(&base) {
        return Ok(false);
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
    let damaged = |error: ldap::DnError| OperationError::Damaged(format!("DN {dn:?}: {error}"));
    let name = NormalName::of(&Dn::parse(dn).map_err(damaged)?, &state.catalog.schema);
    touch_all(state, DANGLING, (touched, FOLLOWED_ENTRIES_MAX), |attribute| {
        dangling_key(attribute, &name.key)
    })
}
