//! One connection to the other server: connects, searches, and converts the received messages to batches of changes.
//!
//! The session records which entries the other server sends or names as unchanged during the refresh. Without a cookie
//! in the request, or if the server does not report deletes, all other entries of the copy are deleted at the end of
//! the refresh (RFC 4533 section 3.3.2). Only then is the cookie stored.
//!
//! Some changes wait for other changes, such as an entry that arrives before its superior. The waiting changes are
//! tried again at the end of the refresh, and later with the next changes, unless a later change of the same entry was
//! made. No cookie is stored while changes wait, so that the source would send them again. A change that has waited for
//! some cookies is given up.

mod polls;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

use client::{ClientError, Connection, Received};
use directory::follow::{SourceChange, SourceEntry, all_doubtful, others_below};
use directory::{Outcome, Requester};
use ldap::{
    Controls, ExtendedRequest, MessageId, Request, Response, ResultCode, SearchEntry, SyncInfo, SyncState,
    SyncStateValue, SyncUuid, oids,
};

use super::changes::ChangeList;
use super::latest::Latest;
use super::recheck::Recheck;
use super::refresh::Refresh;
use super::rejected::Rejected;
use super::{Follow, FollowError, FollowStage, NO_ENTRY, cookie, recheck, source};
use crate::limits::follow::{
    FOLLOW_BATCH_BYTES, FOLLOW_BATCH_CHANGES, FOLLOW_LINKS_BYTES_MAX, FOLLOW_LOOK, FOLLOW_PATIENCE,
    FOLLOW_RECHECK_SLICE, FOLLOW_RECHECK_WAIT, FOLLOW_RECHECKED_MAX, FOLLOW_REREADS_MAX, FOLLOW_SILENCE,
    FOLLOW_WAITING_BYTES_MAX,
};
use crate::stamp::Random;
use crate::workers::copy_state::CopyState;
use crate::workers::writer::{FollowedChanges, GroupEnd, WriterWork, change_bytes};

type Result<T> = std::result::Result<T, FollowError>;

/// A connection to the other server.
pub(super) struct Session<'f> {
    follow: &'f Follow,
    random: Random,
    /// Entries that the refresh has sent or named as unchanged; `None` when the refresh is complete.
    refresh: Option<Refresh>,
    /// entryCSNs of the entries that the refresh has sent with changes that are newer than its cookie. slapd sends
    /// these changes again.
    newer: HashMap<SyncUuid, String>,
    /// Cookie in the search request; `None` if the request had no cookie.
    sent_cookie: Option<Vec<u8>>,
    /// Changes that were received and that are not submitted to the writer yet.
    pending: Vec<Arc<SourceChange>>,
    pending_bytes: usize,
    /// Changes that wait for other changes.
    waiting: Latest,
    /// Number of cookies or polls for which each waiting change has waited, by entry.
    waits: HashMap<SyncUuid, u32>,
    /// Entries with values that name other entries, received since the last stored cookie.
    with_links: Latest,
    /// Whether `with_links` became too large and was dropped.
    lacks_links: bool,
    /// Whether an entry was renamed since the last stored cookie.
    has_renames: bool,
    /// Position of this server's log when this connection began, or when entries were last read again.
    reread: u64,
    /// Cookie at the end of the refresh.
    refreshed: Vec<u8>,
    /// Cookie of the last received changes. `has_new_cookie` is true if it is not stored yet.
    cookie: Vec<u8>,
    has_new_cookie: bool,
    /// Entries that could not be copied.
    rejected: Rejected,
    /// Number of received values that have no meaning in this server, by attribute.
    left_out: BTreeMap<&'static str, u64>,
    recheck: Recheck,
    /// Entries of the last recheck that are still to be read.
    doubtful: Vec<(SyncUuid, String)>,
    /// Connection on which doubtful entries are read.
    reader: Option<Connection>,
    was_complete: bool,
    heard: Instant,
    probe: Option<MessageId>,
}

/// Outcome of a batch of changes.
#[derive(Clone, Copy)]
enum BatchOutcome {
    /// All changes were made.
    All,
    /// Some changes wait for other changes, and none was refused.
    SomeWait,
    /// Some changes were refused.
    SomeRefused,
}

impl<'f> Session<'f> {
    pub(super) fn new(follow: &'f Follow) -> Session<'f> {
        Session {
            follow,
            random: Random::default(),
            refresh: Some(Refresh::default()),
            newer: HashMap::new(),
            sent_cookie: None,
            pending: Vec::new(),
            pending_bytes: 0,
            waiting: Latest::default(),
            waits: HashMap::new(),
            with_links: Latest::default(),
            lacks_links: false,
            has_renames: false,
            reread: 0,
            refreshed: Vec::new(),
            cookie: Vec::new(),
            has_new_cookie: false,
            rejected: Rejected::default(),
            left_out: BTreeMap::new(),
            recheck: Recheck::default(),
            doubtful: Vec::new(),
            reader: None,
            was_complete: false,
            heard: Instant::now(),
            probe: None,
        }
    }

    /// Returns true if the copy has been complete on this connection.
    pub(super) fn was_complete(&self) -> bool {
        self.was_complete
    }

    /// Follows the other server until the connection ends.
    pub(super) fn run(&mut self) -> Result<()> {
        let stored = self.follow.directory.follow_state(self.follow.settings.base())?;
        let state = stored.and_then(|bytes| CopyState::decode(&bytes, &self.follow.settings));
        // If an entry was refused before, everything is requested again, because the entry may be accepted now.
        let usable = state.filter(|state| state.rejected == 0 && !state.cookie.is_empty());
        self.sent_cookie = usable.map(|state| state.cookie);
        self.reread = self.follow.directory.snapshot()?.position()?;
        let mut connection = source::connect(&self.follow.settings)?;
        let list = ChangeList::find(&mut connection, self.follow.settings.source_base())?;
        // Up to here, an answer may take as long as a step of connecting.
        connection.set_timeout(FOLLOW_LOOK)?;
        self.follow.figures.connections.fetch_add(1, Ordering::Relaxed);
        self.follow.figures.set_stage(FollowStage::Refreshing);
        if let Some(list) = list {
            return self.follow_list(&mut connection, &list);
        }
        // Content synchronization does not accept a cookie of a list of changes.
        self.sent_cookie.take_if(|cookie| ChangeList::is_cookie(cookie));
        let search =
            source::search(&self.follow.settings, &mut connection, (true, self.sent_cookie.as_deref()))?;
        self.heard = Instant::now();
        loop {
            self.check_end()?;
            if self.refresh.is_none() && !connection.has_message() {
                self.flush()?;
                self.recheck()?;
                // If doubtful entries are left, the next entries are read as soon as no message waits.
                let wait = if self.doubtful.is_empty() { FOLLOW_LOOK } else { FOLLOW_RECHECK_WAIT };
                connection.set_timeout(wait)?;
            }
            match connection.receive_any() {
                Ok(received) => {
                    self.heard = Instant::now();
                    if received.id() == search {
                        self.take(&received)?;
                    } else {
                        self.probe = None;
                    }
                }
                Err(ClientError::TimedOut) => self.check_silence(&mut connection)?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn check_end(&self) -> Result<()> {
        if self.follow.is_stopping.load(Ordering::Relaxed) {
            return Err(FollowError::Stopping);
        }
        match self.follow.directory.is_promoted(self.follow.settings.base()) {
            true => Err(FollowError::Promoted),
            false => Ok(()),
        }
    }

    /// Sends a probe if the server is silent. Ends the connection if the server does not answer the probe.
    fn check_silence(&mut self, connection: &mut Connection) -> Result<()> {
        if self.heard.elapsed() < FOLLOW_SILENCE {
            return Ok(());
        }
        if self.probe.is_some() {
            return Err(FollowError::Source("the source is silent"));
        }
        let who_am_i = ExtendedRequest { name: oids::WHO_AM_I, value: None };
        self.probe = Some(connection.send(Request::Extended(who_am_i), Controls::NONE)?);
        self.heard = Instant::now();
        Ok(())
    }

    /// Handles a message of the search.
    fn take(&mut self, received: &Received) -> Result<()> {
        let message = received.message();
        match message.response {
            Response::SearchEntry(entry) => self.take_entry(&entry, message.controls)?,
            Response::Intermediate { name: Some(oids::SYNC_INFO), value: Some(value) } => {
                let info = SyncInfo::decode(value).ok_or(FollowError::Source("a sync info is malformed"))?;
                self.take_info(info)?;
            }
            response => {
                let Some(result) = response.result() else { return Ok(()) };
                self.flush()?;
                return Err(self.ended(result.code, result.diagnostic));
            }
        }
        match self.is_batch_full() {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Returns the reason why the search ended.
    fn ended(&mut self, code: ResultCode, diagnostic: &str) -> FollowError {
        if code == ResultCode::E_SYNC_REFRESH_REQUIRED {
            if self.refresh.is_some() && self.sent_cookie.is_some() {
                // The source no longer accepts the cookie.
                if let Err(error) = self.forget_cookie() {
                    return error;
                }
            }
            return FollowError::Again;
        }
        FollowError::Refused { what: "the search", code, diagnostic: diagnostic.to_owned() }
    }

    fn take_entry(&mut self, entry: &SearchEntry<'_>, controls: Controls<'_>) -> Result<()> {
        let control = controls.find(oids::SYNC_STATE).and_then(|control| control.value);
        let Some(SyncStateValue { state, uuid, cookie }) = control.and_then(SyncStateValue::decode) else {
            return Err(FollowError::Source("an entry has no sync state: is the source's provider enabled?"));
        };
        // A delete is always made. slapd may report it late, with a CSN that the cookie already includes.
        let is_known = match (&mut self.refresh, state) {
            (Some(refresh), SyncState::Delete) => {
                refresh.deleted(&uuid);
                false
            }
            (None, SyncState::Delete) => false,
            (Some(refresh), _) => {
                refresh.sent(uuid, entry_csn(entry));
                false
            }
            (None, _) => {
                let has_sent =
                    self.newer.get(&uuid).zip(entry_csn(entry)).is_some_and(|(sent, csn)| csn <= *sent);
                has_sent || cookie.is_some_and(|cookie| cookie::contains(&self.refreshed, cookie))
            }
        };
        match state {
            SyncState::Present => {}
            _ if is_known => {}
            SyncState::Delete => self.push(Arc::new(SourceChange::Delete(uuid))),
            SyncState::Add | SyncState::Modify => {
                self.push_entry(source::entry(entry, uuid))?;
            }
        }
        self.note_cookie(cookie);
        Ok(())
    }

    /// Adds a change that makes the entry in the copy equal to this entry of the source.
    fn push_entry(&mut self, mut entry: SourceEntry) -> Result<()> {
        let snapshot = self.follow.directory.snapshot()?;
        source::map(&mut entry, &snapshot.state().catalog.schema, &self.follow.settings);
        let (random, mut failure) = (&mut self.random, None);
        let mut salt = || {
            random.bytes().unwrap_or_else(|error| {
                failure = Some(error);
                [0; 16]
            })
        };
        let has_links = entry.adapt(&snapshot, &mut salt, &mut self.left_out)?;
        if failure.is_some() {
            return Err(FollowError::Source("the system gives no random numbers"));
        }
        let change = Arc::new(SourceChange::Entry(entry));
        self.push(Arc::clone(&change));
        if has_links {
            self.keep_links(change);
        }
        Ok(())
    }

    /// If `with_links` was dropped and an entry was renamed, reads again the entries whose values name other entries,
    /// because these values may differ from the source. If the entries cannot be read, `end_group` detects that, and
    /// the whole content is compared again.
    fn reread_links(&mut self) -> Result<()> {
        for _ in 0..FOLLOW_REREADS_MAX {
            if !self.lacks_links || !self.has_renames {
                return Ok(());
            }
            let snapshot = self.follow.directory.snapshot()?;
            let base = self.follow.settings.base();
            let all = all_doubtful(&snapshot, base, self.reread, FOLLOW_RECHECKED_MAX)?;
            let (Some(entries), position) = (all, snapshot.position()?) else { return Ok(()) };
            drop(snapshot);
            (self.reread, self.has_renames) = (position, false);
            if !self.read_again(entries)? {
                self.has_renames = true;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads again the entries that the source may have changed without a message. Each call reads only some of the
    /// entries, so that changes are not delayed.
    fn recheck(&mut self) -> Result<()> {
        if self.doubtful.is_empty() {
            self.reader = None;
            if !recheck::is_needed(&self.cookie) || !self.recheck.is_due() {
                return Ok(());
            }
            self.doubtful = self.recheck.begin(self.follow)?;
        }
        let rest = self.doubtful.len().saturating_sub(FOLLOW_RECHECK_SLICE);
        let entries = self.doubtful.split_off(rest);
        self.read_again(entries).map(drop)
    }

    /// Updates entries of the copy from the source. Returns false if no connection for reading can be opened.
    fn read_again(&mut self, entries: Vec<(SyncUuid, String)>) -> Result<bool> {
        if entries.is_empty() {
            return Ok(true);
        }
        let reader = self.reader.take().or_else(|| recheck::connect(self.follow));
        let Some(mut connection) = reader else { return Ok(false) };
        for (uuid, dn) in entries {
            self.check_end()?;
            let Some(entry) = recheck::read(&mut connection, self.follow, (uuid, &dn))? else { continue };
            self.push_entry(entry)?;
            if self.is_batch_full() {
                self.flush()?;
            }
        }
        self.flush()?;
        self.reader = Some(connection);
        Ok(true)
    }

    fn is_batch_full(&self) -> bool {
        self.pending.len() >= FOLLOW_BATCH_CHANGES || self.pending_bytes >= FOLLOW_BATCH_BYTES
    }

    fn take_info(&mut self, info: SyncInfo<'_>) -> Result<()> {
        match info {
            SyncInfo::NewCookie(cookie) => self.note_cookie(Some(cookie)),
            SyncInfo::IdSet(set) if set.refresh_deletes => {
                set.uuids.into_iter().for_each(|uuid| self.push(Arc::new(SourceChange::Delete(uuid))));
            }
            SyncInfo::IdSet(set) => self.refresh.iter_mut().for_each(|seen| seen.named(&set.uuids)),
            SyncInfo::Refreshed { deletes, cookie, is_done } => {
                // If the request had no cookie, the source has sent the whole content, even if it reports a delete
                // phase.
                if !deletes || (is_done && self.sent_cookie.is_none()) {
                    self.delete_others()?;
                }
                if is_done {
                    self.finish_refresh(cookie)?;
                }
            }
        }
        Ok(())
    }

    /// Records a cookie. Ignores cookies before the end of the refresh, because they do not describe the state of the
    /// copy.
    fn note_cookie(&mut self, cookie: Option<&[u8]>) {
        if self.refresh.is_none()
            && let Some(cookie) = cookie.and_then(|cookie| cookie::combined(&self.cookie, cookie))
        {
            self.cookie = cookie;
            self.has_new_cookie = true;
        }
    }

    /// Adds a change. Pending earlier changes of the same entry stay pending. An earlier change may give the entry a
    /// name that other pending changes need, because their entries are placed below this name.
    fn push(&mut self, change: Arc<SourceChange>) {
        if self.refresh.is_some() {
            // A waiting older change of the entry must not be made after this change.
            self.waiting.remove(change.uuid());
        }
        self.with_links.remove(change.uuid());
        self.pending_bytes += change_bytes(&change);
        self.pending.push(change);
    }

    /// Retains an entry with values that name other entries. The entry must be updated again if one of the named
    /// entries is renamed. If there are too many such entries, none is retained, and all of them are read again after a
    /// rename.
    fn keep_links(&mut self, change: Arc<SourceChange>) {
        if self.lacks_links {
            return;
        }
        self.with_links.push(change);
        if self.with_links.bytes() > FOLLOW_LINKS_BYTES_MAX {
            (self.with_links, self.lacks_links) = (Latest::default(), true);
        }
    }

    /// Deletes the entries of the copy that the source has neither sent nor named as unchanged.
    fn delete_others(&mut self) -> Result<()> {
        self.flush()?;
        let Some(seen) = &self.refresh else { return Ok(()) };
        let snapshot = self.follow.directory.snapshot()?;
        let others = others_below(&snapshot, self.follow.settings.base(), &|uuid| seen.contains(uuid))?;
        drop(snapshot);
        if seen.is_empty() && !others.is_empty() {
            return Err(FollowError::Source(NO_ENTRY));
        }
        for uuid in others {
            self.push(Arc::new(SourceChange::Delete(uuid)));
            if self.pending.len() >= FOLLOW_BATCH_CHANGES {
                self.flush()?;
            }
        }
        self.flush()
    }

    fn finish_refresh(&mut self, cookie: Option<&[u8]>) -> Result<()> {
        self.flush()?;
        self.retry_waiting()?;
        // If the message has no cookie, the source is in the state of the request's cookie.
        let cookie = cookie.or(self.sent_cookie.as_deref()).unwrap_or_default().to_vec();
        if recheck::is_needed(&cookie) {
            self.reread_links()?;
        }
        let refresh = self.refresh.take().unwrap_or_default();
        self.cookie = cookie;
        self.refreshed = self.cookie.clone();
        self.newer = refresh.newer_than(&self.cookie);
        self.has_new_cookie = true;
        self.flush()?;
        self.was_complete = true;
        self.follow.figures.set_stage(FollowStage::Following);
        let (source, rejected) = (&self.follow.settings.url, self.rejected.count());
        let left_out = counts_text(&self.left_out);
        tracing::info!(%source, rejected, values_left_out = left_out, "the copy is complete");
        Ok(())
    }

    /// Tries the waiting changes repeatedly, until a pass makes no change.
    fn retry_waiting(&mut self) -> Result<()> {
        loop {
            let before = self.waiting.len();
            for change in self.waiting.take() {
                self.pending_bytes += change_bytes(&change);
                self.pending.push(change);
                if self.pending.len() >= FOLLOW_BATCH_CHANGES {
                    self.flush()?;
                }
            }
            self.flush()?;
            if self.waiting.is_empty() || self.waiting.len() == before {
                return Ok(());
            }
        }
    }

    /// Makes the pending and waiting changes, and stores the cookie if there is a new cookie.
    fn flush(&mut self) -> Result<()> {
        if self.pending.is_empty() && !self.has_new_cookie {
            return Ok(());
        }
        let (rejected, lacking) = (self.rejected.count(), self.lacking());
        let mut changes = if self.refresh.is_none() { self.waiting.take() } else { Vec::new() };
        changes.append(&mut self.pending);
        self.pending_bytes = 0;
        let cookie = std::mem::take(&mut self.has_new_cookie).then(|| self.cookie.clone());
        let state = |lacking, cookie: &Vec<u8>| {
            CopyState::new(&self.follow.settings, lacking, cookie.clone()).encode()
        };
        let end = cookie.as_ref().map(|cookie| GroupEnd {
            state: state(rejected, cookie),
            incomplete_state: state(lacking.max(1), cookie),
            gives_up: !self.was_complete,
            keeps_state: self.was_complete && !cookie.is_empty(),
            with_links: self.with_links.take(),
            has_renames: self.has_renames,
        });
        let (done, outcome) = channel();
        let base = self.follow.settings.base().to_owned();
        let changes = Arc::new(FollowedChanges::new(base, changes, end, done));
        self.submit(&changes)?;
        let outcome = self.wait(&outcome)?;
        if outcome.code != ResultCode::SUCCESS {
            return Err(FollowError::Writer(outcome.diagnostic));
        }
        let settled = self.settle(&changes);
        if cookie.is_some() && self.was_complete {
            self.give_up();
        }
        let count = changes.changes.len() as u64;
        let shown = if cookie.is_some() { self.lacking() } else { self.rejected.count() };
        self.follow.figures.committed(count, cookie.as_deref(), shown);
        if self.waiting.bytes() > FOLLOW_WAITING_BYTES_MAX {
            return Err(FollowError::Source("too many entries come before their superiors"));
        }
        let Some(cookie) = cookie else { return Ok(()) };
        let is_stored = match settled {
            BatchOutcome::All => self.lacking() == rejected,
            // The stored state belongs to an earlier cookie. It stays correct unless the number of rejected entries has
            // changed.
            BatchOutcome::SomeWait if self.was_complete && !cookie.is_empty() => {
                self.rejected.count() == rejected
            }
            BatchOutcome::SomeWait | BatchOutcome::SomeRefused => self.lacking() == lacking.max(1),
        };
        self.end_group(is_stored)
    }

    /// Returns the number of entries that are not copied, including those that wait.
    fn lacking(&self) -> u64 {
        self.rejected.count() + self.waiting.len() as u64
    }

    /// Begins a new group of changes after a cookie. If `is_stored` is false, the stored state has a wrong number of
    /// entries that are not copied, and is written again.
    fn end_group(&mut self, is_stored: bool) -> Result<()> {
        let lacks_links = std::mem::take(&mut self.lacks_links);
        if std::mem::take(&mut self.has_renames) && lacks_links {
            self.forget_cookie()?;
            return Err(FollowError::Again);
        }
        if is_stored {
            return Ok(());
        }
        self.has_new_cookie = true;
        self.flush()
    }

    fn submit(&self, changes: &Arc<FollowedChanges>) -> Result<()> {
        let (queue, anonymous) = (&self.follow.queue, Arc::new(Requester::Anonymous));
        loop {
            let change = WriterWork::Follow(Arc::clone(changes));
            if let Some(request) = queue.own_request(change, &anonymous) {
                queue.submit(&mut vec![request]);
                return Ok(());
            }
            if self.follow.is_stopping.load(Ordering::Relaxed) {
                return Err(FollowError::Stopping);
            }
            // Changes of clients fill the queue. Wait for room.
            std::thread::sleep(FOLLOW_LOOK / 25);
        }
    }

    fn wait(&self, outcome: &Receiver<Outcome>) -> Result<Outcome> {
        loop {
            match outcome.recv_timeout(FOLLOW_LOOK) {
                Ok(outcome) => return Ok(outcome),
                Err(RecvTimeoutError::Timeout) if !self.follow.is_stopping.load(Ordering::Relaxed) => {}
                Err(_) => return Err(FollowError::Stopping),
            }
        }
    }

    /// Retains the changes that must wait, and records which changes were refused and which were made.
    fn settle(&mut self, changes: &FollowedChanges) -> BatchOutcome {
        let leftovers = changes.take_leftovers();
        let settled = match (leftovers.is_empty(), leftovers.refused.is_empty()) {
            (true, _) => BatchOutcome::All,
            (false, true) => BatchOutcome::SomeWait,
            (false, false) => BatchOutcome::SomeRefused,
        };
        self.has_renames |= leftovers.has_renames;
        let refused: HashMap<usize, Outcome> = leftovers.refused.into_iter().collect();
        let waiting: HashSet<usize> = leftovers.waiting.iter().copied().collect();
        for (place, change) in changes.changes.iter().enumerate() {
            match refused.get(&place) {
                Some(outcome) => self.rejected.add(change, outcome),
                None if waiting.contains(&place) => {}
                None => self.rejected.remove(change.uuid()),
            }
        }
        for place in leftovers.waiting {
            if let Some(change) = changes.changes.get(place) {
                self.waiting.push(Arc::clone(change));
            }
        }
        settled
    }

    /// Gives up entries whose superiors have not arrived after some cookies or polls. An entry that was given up before
    /// is refused at once, because the filter excludes its superior.
    fn give_up(&mut self) {
        let waiting = self.waiting.take();
        let uuids: HashSet<&SyncUuid> = waiting.iter().map(|change| change.uuid()).collect();
        self.waits.retain(|uuid, _| uuids.contains(uuid));
        for change in waiting {
            let waits = self.waits.entry(*change.uuid()).or_default();
            *waits += 1;
            if let (1, SourceChange::Entry(entry)) = (*waits, &*change) {
                tracing::info!(entry = entry.dn, "an entry of the source waits for its superior");
            }
            if *waits <= FOLLOW_PATIENCE && !self.rejected.contains(change.uuid()) {
                self.waiting.push(change);
                continue;
            }
            self.waits.remove(change.uuid());
            let text = "its superior is not in the copy, or it has entries below it";
            self.rejected.add(&change, &Outcome::new(ResultCode::NO_SUCH_OBJECT, text));
        }
    }

    /// Makes the next connection start without a cookie.
    fn forget_cookie(&mut self) -> Result<()> {
        self.refresh = None;
        self.rejected.add_unknown();
        (self.cookie, self.has_new_cookie) = (Vec::new(), true);
        self.flush()
    }
}

/// Lists counts by name in a text for messages.
pub(crate) fn counts_text<N: std::fmt::Display>(counts: &BTreeMap<N, u64>) -> String {
    let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    counts.join(", ")
}

fn entry_csn(entry: &SearchEntry<'_>) -> Option<String> {
    let mut attributes = entry.attributes.iter();
    let attribute = attributes.find(|attribute| attribute.description.eq_ignore_ascii_case("entryCSN"))?;
    attribute.values.iter().next().map(|csn| String::from_utf8_lossy(csn).into_owned())
}
