//! A connection to a source whose list of changes is polled.
//!
//! An entry is read after its change was received, and may then include later changes. So its superior may be an entry
//! that the list names only later, or that has another name in the copy. Such an entry waits, and is read again after
//! the next changes. The cookie is stored when no entry waits. An entry that has waited for some polls is given up.

use std::sync::atomic::Ordering;
use std::time::Instant;

use client::Connection;
use directory::follow::{at_and_below, has_entry};

use super::*;
use crate::limits::follow::{FOLLOW_PATIENCE, FOLLOW_POLL, FOLLOW_READ_ENTRIES};
use crate::workers::follow::changes::{Change, ChangeList, Exchange};

impl Session<'_> {
    /// Polls the source until the connection ends.
    pub(super) fn follow_list(&mut self, connection: &mut Connection, list: &ChangeList) -> Result<()> {
        let follow = self.follow;
        let mut exchange = Exchange { connection, is_stopping: &follow.is_stopping };
        let own_cookie = self.sent_cookie.as_deref().and_then(|cookie| list.own(cookie));
        // A cookie is empty if the list had no change at that time. Such a cookie is not used, because the list may
        // have been trimmed since.
        let own_cookie = own_cookie.filter(|cookie| !cookie.is_empty()).map(<[u8]>::to_vec);
        let start = if list.loses_deletes() { list.start_time(&mut exchange)? } else { None };
        let mut cookie = match own_cookie {
            Some(cookie) => {
                (self.refresh, self.cookie) = (None, list.stored(&cookie));
                if list.loses_deletes() && (start.is_none() || *follow.compared_start.borrow() != start) {
                    self.delete_lost(&mut exchange, list)?;
                }
                self.was_complete = true;
                follow.figures.set_stage(FollowStage::Following);
                cookie
            }
            None => self.read_all(&mut exchange, list)?,
        };
        follow.compared_start.replace(start);
        loop {
            self.check_end()?;
            let polled = match list.poll(&mut exchange, &cookie) {
                Err(FollowError::CookieRefused) => {
                    self.forget_cookie()?;
                    return Err(FollowError::CookieRefused);
                }
                polled => polled?,
            };
            self.take_changes(&mut exchange, list, &polled.changes)?;
            self.flush()?;
            self.read_waiting(&mut exchange, list)?;
            let is_quiet = polled.changes.is_empty() && !polled.has_more;
            if !polled.has_more {
                self.give_up();
            }
            cookie = polled.cookie.unwrap_or(cookie);
            let stored = list.stored(&cookie);
            if stored != self.cookie && self.waiting.is_empty() {
                (self.cookie, self.has_new_cookie) = (stored, true);
                self.flush()?;
            }
            if !polled.has_more {
                self.recheck()?;
            }
            if (is_quiet && self.doubtful.is_empty()) || !(polled.has_more || self.waiting.is_empty()) {
                self.pause()?;
            }
        }
    }

    /// Deletes the entries that the source no longer has, although its list may lack their deletes.
    fn delete_lost(&mut self, exchange: &mut Exchange<'_>, list: &ChangeList) -> Result<()> {
        let settings = &self.follow.settings;
        let present = list.identifiers(exchange, settings)?;
        let snapshot = self.follow.directory.snapshot()?;
        let missing = others_below(&snapshot, settings.base(), &|uuid| present.contains(uuid))?;
        drop(snapshot);
        let changes = missing.into_iter().map(|uuid| Change { uuid, may_be_moved: false });
        self.take_changes(exchange, list, &changes.collect::<Vec<_>>())?;
        self.flush()
    }

    /// Compares the whole content. Returns a cookie of the source's state before the content was read.
    fn read_all(&mut self, exchange: &mut Exchange<'_>, list: &ChangeList) -> Result<Vec<u8>> {
        let settings = &self.follow.settings;
        let newest = list.newest(exchange)?;
        self.take_content(exchange, list, settings.source_base())?;
        self.flush()?;
        self.retry_waiting()?;
        // Waiting entries may need superiors that were added or renamed while the content was read.
        let mut patience = FOLLOW_PATIENCE;
        while patience > 0 && !self.waiting.is_empty() {
            let changes = list.poll(exchange, &newest)?.changes;
            self.take_changes(exchange, list, &changes)?;
            self.flush()?;
            self.read_waiting(exchange, list)?;
            patience -= 1;
        }
        self.delete_others()?;
        self.finish_refresh(Some(&list.stored(&newest)))?;
        Ok(newest)
    }

    /// Updates the entries at and below `base` from the source. Entries for which the source sends only some of the
    /// values come last.
    fn take_content(&mut self, exchange: &mut Exchange<'_>, list: &ChangeList, base: &str) -> Result<()> {
        let mut in_part = Vec::new();
        list.content(exchange, (base, &self.follow.settings.filter), &mut |entry| {
            let entry = list.entry(entry)?;
            self.refresh.iter_mut().for_each(|seen| seen.sent(entry.uuid, None));
            match list.is_in_part(&entry) {
                true => in_part.push(Change { uuid: entry.uuid, may_be_moved: false }),
                false => self.push_entry(entry)?,
            }
            if self.is_batch_full() { self.flush() } else { Ok(()) }
        })?;
        self.take_changes(exchange, list, &in_part)
    }

    /// Reads the waiting entries again.
    fn read_waiting(&mut self, exchange: &mut Exchange<'_>, list: &ChangeList) -> Result<()> {
        let waiting = self.waiting.take().into_iter();
        let changes = waiting.map(|waiting| Change { uuid: *waiting.uuid(), may_be_moved: false });
        self.take_changes(exchange, list, &changes.collect::<Vec<_>>())?;
        self.flush()
    }

    /// Reads the entries of changes from the source and updates the copy. An entry that has several changes is read
    /// once, at the place of the first change.
    fn take_changes(
        &mut self,
        exchange: &mut Exchange<'_>,
        list: &ChangeList,
        changes: &[Change],
    ) -> Result<()> {
        let moved = changes.iter().filter(|change| change.may_be_moved).map(|change| change.uuid);
        let moved: HashSet<SyncUuid> = moved.collect();
        let (mut seen, settings) = (HashSet::new(), &self.follow.settings);
        let once: Vec<&Change> = changes.iter().filter(|change| seen.insert(change.uuid)).collect();
        for some in once.chunks(FOLLOW_READ_ENTRIES) {
            let uuids: Vec<SyncUuid> = some.iter().map(|change| change.uuid).collect();
            let mut read = list.read(exchange, settings, &uuids)?;
            for change in some {
                let found = match read.remove(&change.uuid) {
                    Some(None) => list.read(exchange, settings, &[change.uuid])?.remove(&change.uuid),
                    found => found,
                };
                let may_be_moved = moved.contains(&change.uuid);
                self.take_change(
                    exchange,
                    list,
                    &Change { uuid: change.uuid, may_be_moved },
                    found.flatten(),
                )?;
            }
        }
        Ok(())
    }

    /// Updates the copy after a change whose entry was read. `found` is `None` if the source has no such entry.
    fn take_change(
        &mut self,
        exchange: &mut Exchange<'_>,
        list: &ChangeList,
        change: &Change,
        found: Option<SourceEntry>,
    ) -> Result<()> {
        let (settings, uuid) = (&self.follow.settings, &change.uuid);
        let snapshot = self.follow.directory.snapshot()?;
        match (&mut self.refresh, &found) {
            (Some(seen), Some(_)) => seen.sent(*uuid, None),
            (Some(seen), None) => seen.deleted(uuid),
            (None, _) => {}
        }
        match found {
            None => {
                for deleted in at_and_below(&snapshot, settings.base(), uuid)? {
                    self.push(Arc::new(SourceChange::Delete(deleted)));
                }
            }
            Some(entry) => {
                let has_moved = change.may_be_moved && !has_entry(&snapshot, uuid)?;
                drop(snapshot);
                let dn = entry.dn.clone();
                self.push_entry(entry)?;
                if has_moved {
                    self.take_content(exchange, list, &dn)?;
                }
            }
        }
        if self.is_batch_full() { self.flush() } else { Ok(()) }
    }

    /// Waits until the next poll is due.
    fn pause(&self) -> Result<()> {
        let started = Instant::now();
        while started.elapsed() < FOLLOW_POLL {
            if self.follow.is_stopping.load(Ordering::Relaxed) {
                return Err(FollowError::Stopping);
            }
            std::thread::sleep(FOLLOW_LOOK / 10);
        }
        Ok(())
    }
}
