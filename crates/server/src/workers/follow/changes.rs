//! Sources without content synchronization. Such a source has a list of changes, which names the entries to read.
//!
//! The list is polled: the external change log of OpenDJ by its cookie, the retro change log of 389 DS and of Sun's
//! servers by change numbers, the access log of slapd by CSNs, and Active Directory by DirSync. The content of a change
//! is not used. Instead the entry is read as it is now, so that nothing depends on the form in which a server describes
//! changes. If the entry is not found, it was deleted, or it is no longer among the entries to copy.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use client::{ClientError, Connection, Received};
use directory::follow::{SourceEntry, identifier, uuid_text};
use ldap::{
    Control, Controls, ControlsBuf, DirSyncDone, DirSyncRequest, FilterBuf, PagedResults, Request, Response,
    ResultCode, Scope, SearchEntry, SearchRequest, SelectionBuf, SyncRequest, SyncUuid, oids,
};

use super::{FollowError, NO_ENTRY, cookie, source};
use crate::config::FollowSettings;
use crate::limits::follow::{
    FOLLOW_PAGE_ENTRIES, FOLLOW_POLL_BYTES, FOLLOW_POLL_CHANGES, FOLLOW_READ_BYTES, FOLLOW_SILENCE,
};

type Result<T> = std::result::Result<T, FollowError>;

/// Kind of a list of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// External change log of OpenDJ. Its cookies are opaque.
    Cookie,
    /// Retro change log. Its cookie is a change number.
    Number,
    /// Log of slapd's overlay accesslog (slapo-accesslog(5)). Its cookie is a CSN.
    AccessLog,
    /// DirSync of Active Directory.
    DirSync,
}

/// The list of changes of a source.
pub(crate) struct ChangeList {
    kind: Kind,
    /// Base DN of searches in the list.
    base: String,
    /// Cookie of the newest change when the list was found. Empty for a kind of list whose newest change is found only
    /// by polling.
    newest: Vec<u8>,
}

/// A change in the list.
pub(super) struct Change {
    pub(super) uuid: SyncUuid,
    /// Whether the entry may have moved into the content. Its subordinates have then moved, too, without changes in the
    /// list.
    pub(super) may_be_moved: bool,
}

/// Result of one poll.
#[derive(Default)]
pub(super) struct PollResult {
    pub(super) changes: Vec<Change>,
    /// Cookie of the source's state after these changes; `None` if there are no changes.
    pub(super) cookie: Option<Vec<u8>>,
    /// Whether the list has more changes.
    pub(super) has_more: bool,
}

/// Entries that one search has read, by their identifiers. An entry is `None` if it is in the content, but is not kept
/// because the entries before it are large.
type ReadEntries = HashMap<SyncUuid, Option<SourceEntry>>;

/// A connection whose searches are aborted when the server stops.
pub(crate) struct Exchange<'e> {
    pub(crate) connection: &'e mut Connection,
    pub(crate) is_stopping: &'e AtomicBool,
}

type Each<'e> = &'e mut dyn FnMut(&SearchEntry<'_>) -> Result<()>;

impl Kind {
    /// Returns the prefix of stored cookies of this kind. No cookie of content synchronization begins with it.
    fn word(self) -> &'static str {
        match self {
            Kind::Cookie => "opendj ",
            Kind::Number => "number ",
            Kind::AccessLog => "accesslog ",
            Kind::DirSync => "dirsync ",
        }
    }

    /// Returns the attribute with the identifier of an entry.
    fn identifier(self) -> &'static str {
        match self {
            Kind::Cookie | Kind::AccessLog => "entryUUID",
            Kind::Number => "nsUniqueId",
            Kind::DirSync => "objectGUID",
        }
    }

    /// Returns three attributes of a change in the list: the identifier of the changed entry, the cookie of the change,
    /// and the kind of change.
    fn attributes(self) -> [&'static str; 3] {
        match self {
            Kind::Cookie => ["targetEntryUUID", "changeLogCookie", "changeType"],
            Kind::AccessLog => ["reqEntryUUID", "entryCSN", "reqType"],
            Kind::Number | Kind::DirSync => ["targetUniqueId", "changeNumber", "changeType"],
        }
    }

    /// Returns the error for a change without an identifier.
    fn names_no_entry(self) -> FollowError {
        FollowError::Source(match self {
            Kind::AccessLog => {
                "a change of the access log names no entry by its entryUUID: the source needs slapd 2.5 or later"
            }
            _ => {
                "a change of the change log names no entry by its identifier: for 389 DS, let the retro change log \
                 plugin record nsUniqueId as targetUniqueId (nsslapd-attribute)"
            }
        })
    }
}

impl ChangeList {
    /// Returns the list of changes of a source. Returns `None` if the source offers content synchronization for the
    /// entry `base`, or if it has no list.
    pub(crate) fn find(connection: &mut Connection, base: &str) -> Result<Option<ChangeList>> {
        let names = [
            "supportedControl",
            "changelog",
            "lastExternalChangelogCookie",
            "lastChangeNumber",
            "defaultNamingContext",
            "namingContexts",
        ];
        let Some(root) = connection.entry("", &names)? else { return Ok(None) };
        let has = |oid: &str| root.texts("supportedControl").iter().any(|known| known == oid);
        if has(oids::SYNC_REQUEST) && is_synchronized(connection, base)? {
            return Ok(None);
        }
        let text = |name: &str| root.text(name);
        let found = if let (true, Some(base)) = (has(oids::DIR_SYNC), text("defaultNamingContext")) {
            (Kind::DirSync, base, Vec::new())
        } else if let (true, Some(base)) = (has(oids::CHANGE_LOG_COOKIE), text("changelog")) {
            (Kind::Cookie, base, text("lastExternalChangelogCookie").unwrap_or_default().into_bytes())
        } else if let (Some(base), Some(number)) = (text("changelog"), text("lastChangeNumber")) {
            (Kind::Number, base, number.into_bytes())
        } else {
            match access_log(connection, &root.texts("namingContexts"))? {
                Some(base) => (Kind::AccessLog, base, Vec::new()),
                None => return Ok(None),
            }
        };
        let (kind, base, newest) = found;
        Ok(Some(ChangeList { kind, base, newest }))
    }

    /// Returns true if a stored cookie belongs to a list of changes.
    pub(super) fn is_cookie(stored: &[u8]) -> bool {
        [Kind::Cookie, Kind::Number, Kind::AccessLog, Kind::DirSync]
            .iter()
            .any(|kind| stored.starts_with(kind.word().as_bytes()))
    }

    /// Returns a cookie of this list in the form in which it is stored.
    pub(crate) fn stored(&self, cookie: &[u8]) -> Vec<u8> {
        [self.kind.word().as_bytes(), cookie].concat()
    }

    /// Returns the cookie of this list in a stored cookie; `None` if it belongs to another kind of list.
    pub(super) fn own<'c>(&self, stored: &'c [u8]) -> Option<&'c [u8]> {
        stored.strip_prefix(self.kind.word().as_bytes())
    }

    /// Returns true if a stored cookie belongs to Active Directory. In Active Directory, links follow renamed entries,
    /// as in this server.
    pub(super) fn is_dir_sync(stored: &[u8]) -> bool {
        stored.starts_with(Kind::DirSync.word().as_bytes())
    }

    /// Returns a cookie of the source's current state. The caller must call this function before it reads the entries.
    pub(crate) fn newest(&self, exchange: &mut Exchange<'_>) -> Result<Vec<u8>> {
        if !matches!(self.kind, Kind::DirSync | Kind::AccessLog) {
            return Ok(self.newest.clone());
        }
        let mut cookie = Vec::new();
        loop {
            let polled = self.poll(exchange, &cookie)?;
            cookie = polled.cookie.unwrap_or(cookie);
            if !polled.has_more {
                return Ok(cookie);
            }
        }
    }

    /// Requests the changes after a cookie.
    pub(super) fn poll(&self, exchange: &mut Exchange<'_>, cookie: &[u8]) -> Result<PollResult> {
        match self.kind {
            Kind::Cookie => self.poll_log(exchange, cookie, "(objectClass=changeLogEntry)", Some(cookie)),
            Kind::Number => {
                let last: u64 = String::from_utf8_lossy(cookie).trim().parse().unwrap_or(0);
                let filter = format!("(changeNumber>={})", last.saturating_add(1));
                let polled = self.poll_log(exchange, cookie, &filter, None)?;
                check_numbers(exchange, last)?;
                Ok(polled)
            }
            Kind::AccessLog => {
                let after = match cookie {
                    [] => String::new(),
                    csn => format!("(entryCSN>={})", String::from_utf8_lossy(csn)),
                };
                let filter = format!("(&(objectClass=auditWriteObject)(reqResult=0){after})");
                let polled = self.poll_log(exchange, cookie, &filter, None)?;
                self.check_least_csn(exchange, cookie, &polled)?;
                Ok(polled)
            }
            Kind::DirSync => self.poll_objects(exchange, cookie),
        }
    }

    /// Checks, after a poll, that the access log still has all changes after the CSN `seen`.
    fn check_least_csn(&self, exchange: &mut Exchange<'_>, seen: &[u8], polled: &PollResult) -> Result<()> {
        let mut least = None;
        exchange.entry(&self.base, &["minCSN"], &mut |log| {
            least = value(log, "minCSN").map(<[u8]>::to_vec);
        })?;
        match least {
            None if !polled.changes.is_empty() => Err(FollowError::Source(
                "the access log shows no minCSN, so that a lack of changes would not be noticed: let the identity \
                 read it",
            )),
            // The log is empty, so slapd has created it after the cookie.
            None if !seen.is_empty() => Err(FollowError::CookieRefused),
            Some(least) if !seen.is_empty() && *least > *seen => Err(FollowError::CookieRefused),
            _ => Ok(()),
        }
    }

    fn poll_log(
        &self,
        exchange: &mut Exchange<'_>,
        before: &[u8],
        filter: &str,
        control: Option<&[u8]>,
    ) -> Result<PollResult> {
        let control = control.map(|value| {
            let value = Some(value);
            Control { oid: oids::CHANGE_LOG_COOKIE, critical: true, value }
        });
        let [uuid, cookie, change_type] = self.kind.attributes();
        let filter = FilterBuf::parse(filter).map_err(ClientError::Filter)?;
        let selection = SelectionBuf::from_iter([change_type, uuid, cookie]);
        let (filter, selection) = (filter.as_filter(), selection.as_selection());
        let request = SearchRequest {
            size_limit: FOLLOW_POLL_CHANGES,
            ..SearchRequest::new(&self.base, Scope::WholeSubtree, filter, selection)
        };
        let mut polled = PollResult::default();
        let controls = ControlsBuf::from_iter(control);
        let last = exchange.search(request, controls.as_controls(), &mut |entry| {
            // An entry without a cookie is the base entry of the list.
            let Some(own) = value(entry, cookie) else { return Ok(()) };
            if self.kind == Kind::AccessLog {
                check_provider(polled.cookie.as_deref().unwrap_or(before), own)?;
                if own <= before {
                    return Ok(());
                }
            }
            let Some(id) = value(entry, uuid).and_then(identifier) else {
                return Err(self.kind.names_no_entry());
            };
            let kind = value(entry, change_type).unwrap_or_default();
            let may_be_moved = kind.eq_ignore_ascii_case(b"modrdn") || kind.eq_ignore_ascii_case(b"moddn");
            polled.changes.push(Change { uuid: id, may_be_moved });
            // The access log is not sorted, so the greatest CSN is taken. CSNs compare as texts. The other lists are
            // sorted.
            if self.kind != Kind::AccessLog || polled.cookie.as_deref().is_none_or(|last| last < own) {
                polled.cookie = Some(own.to_vec());
            }
            Ok(())
        })?;
        let (code, diagnostic) = code(&last);
        let is_limit = code == ResultCode::SIZE_LIMIT_EXCEEDED || code == ResultCode::ADMIN_LIMIT_EXCEEDED;
        polled.has_more = is_limit && !polled.changes.is_empty();
        match code == ResultCode::SUCCESS || polled.has_more {
            true => Ok(polled),
            // The source reports that it no longer has the changes after the cookie.
            false if !before.is_empty() && refuses_cookie(code) => Err(FollowError::CookieRefused),
            false => Err(FollowError::Refused { what: "the search for changes", code, diagnostic }),
        }
    }

    fn poll_objects(&self, exchange: &mut Exchange<'_>, cookie: &[u8]) -> Result<PollResult> {
        let sync = DirSyncRequest { bytes_max: FOLLOW_POLL_BYTES, cookie }.encode();
        let control = Control { oid: oids::DIR_SYNC, critical: true, value: Some(&sync) };
        let controls = ControlsBuf::from_iter([control]);
        let filter = FilterBuf::parse("(objectClass=*)").map_err(ClientError::Filter)?;
        let selection = SelectionBuf::from_iter(["*"]);
        let (filter, selection) = (filter.as_filter(), selection.as_selection());
        let request = SearchRequest::new(&self.base, Scope::WholeSubtree, filter, selection);
        let mut polled = PollResult::default();
        let last = exchange.search(request, controls.as_controls(), &mut |entry| {
            if let Some(uuid) = value(entry, self.kind.identifier()).and_then(identifier) {
                polled.changes.push(Change { uuid, may_be_moved: true });
            }
            Ok(())
        })?;
        let (code, diagnostic) = code(&last);
        match code == ResultCode::SUCCESS {
            true => {}
            false if !cookie.is_empty() && refuses_cookie(code) => return Err(FollowError::CookieRefused),
            false => return Err(FollowError::Refused { what: "DirSync", code, diagnostic }),
        }
        let control = last.message().controls.find(oids::DIR_SYNC).and_then(|control| control.value);
        let Some(done) = control.and_then(DirSyncDone::decode) else {
            return Err(FollowError::Source("the answer to DirSync has no cookie"));
        };
        polled.has_more = done.has_more;
        polled.cookie = Some(done.cookie.to_vec());
        Ok(polled)
    }

    /// Converts an entry of the source, including its identifier.
    pub(crate) fn entry(&self, entry: &SearchEntry<'_>) -> Result<SourceEntry> {
        let text =
            "an entry has no identifier that this server may read (entryUUID, nsUniqueId or objectGUID)";
        let uuid = value(entry, self.kind.identifier()).and_then(identifier);
        Ok(source::entry(entry, uuid.ok_or(FollowError::Source(text))?))
    }

    /// Returns true if the source has sent only some of the values of an attribute.
    pub(crate) fn is_in_part(&self, entry: &SourceEntry) -> bool {
        self.kind == Kind::DirSync
            && entry.attributes.iter().any(|attribute| attribute.description.contains(";range="))
    }

    /// Reads the entries with these identifiers. An entry that is missing in the result is not in the content.
    pub(super) fn read(
        &self,
        exchange: &mut Exchange<'_>,
        settings: &FollowSettings,
        uuids: &[SyncUuid],
    ) -> Result<ReadEntries> {
        let id = self.kind.identifier();
        let value = |uuid: &SyncUuid| match self.kind {
            Kind::Cookie | Kind::AccessLog => uuid_text(uuid),
            Kind::Number => in_groups(uuid),
            Kind::DirSync => little_endian(uuid).iter().map(|octet| format!("\\{octet:02x}")).collect(),
        };
        let terms: String = uuids.iter().map(|uuid| format!("({id}={})", value(uuid))).collect();
        let filter = match uuids {
            [_] => format!("(&{terms}{})", settings.filter),
            _ => format!("(&(|{terms}){})", settings.filter),
        };
        let (mut read, mut bytes) = (ReadEntries::default(), 0_usize);
        self.content(exchange, (settings.source_base(), &filter), &mut |entry| {
            let entry = self.entry(entry)?;
            bytes =
                bytes.saturating_add(entry.attributes.iter().flat_map(|of| &of.values).map(Vec::len).sum());
            let is_kept = bytes <= FOLLOW_READ_BYTES || read.is_empty();
            read.entry(entry.uuid).or_insert(is_kept.then_some(entry));
            Ok(())
        })?;
        if self.kind == Kind::DirSync {
            for entry in read.values_mut().flatten() {
                complete_ranges(exchange, entry)?;
            }
        }
        if read.len() < uuids.len() {
            // The source may hide its content for a moment while its access rules are being changed.
            self.check_base(exchange, settings)?;
        }
        Ok(read)
    }

    /// Checks that the top entry of the content is visible. If it is, an entry that is not found was deleted, and is
    /// not just hidden.
    fn check_base(&self, exchange: &mut Exchange<'_>, settings: &FollowSettings) -> Result<()> {
        match exchange.entry(settings.source_base(), &["1.1"], &mut |_| ())? {
            true => Ok(()),
            false => Err(FollowError::Source(NO_ENTRY)),
        }
    }

    /// Reads the entries at and below `base`, page by page.
    pub(crate) fn content(
        &self,
        exchange: &mut Exchange<'_>,
        (base, filter): (&str, &str),
        each: Each<'_>,
    ) -> Result<()> {
        exchange.search_by_pages((base, filter), &["*", "+", self.kind.identifier()], each)
    }

    /// Reads the identifiers of all entries of the content.
    pub(super) fn identifiers(
        &self,
        exchange: &mut Exchange<'_>,
        settings: &FollowSettings,
    ) -> Result<HashSet<SyncUuid>> {
        let (mut found, name) = (HashSet::new(), self.kind.identifier());
        exchange.search_by_pages((settings.source_base(), &settings.filter), &[name], &mut |entry| {
            found.extend(value(entry, name).and_then(identifier));
            Ok(())
        })?;
        Ok(found)
    }

    /// Returns true if a source that is killed can lose deletes from its list. A killed OpenDJ can lose the newest
    /// changes of its list. It recovers them from the entries, which record their last changes, and deleted entries
    /// record nothing.
    pub(super) fn loses_deletes(&self) -> bool {
        self.kind == Kind::Cookie
    }

    /// Returns the time at which an OpenDJ was started; `None` if the identity may not read it.
    pub(super) fn start_time(&self, exchange: &mut Exchange<'_>) -> Result<Option<String>> {
        let mut start = None;
        let read = exchange.entry("cn=monitor", &["startTime"], &mut |entry| {
            start = value(entry, "startTime").map(|time| String::from_utf8_lossy(time).into_owned());
        });
        match read {
            Ok(_) | Err(FollowError::Refused { .. }) => Ok(start),
            Err(error) => Err(error),
        }
    }
}

impl Exchange<'_> {
    /// Reads one entry and passes it to `each`. Returns false if the source shows no such entry.
    fn entry(&mut self, dn: &str, names: &[&str], each: &mut dyn FnMut(&SearchEntry<'_>)) -> Result<bool> {
        let selection = SelectionBuf::from_iter(names.iter().copied());
        let filter = FilterBuf::parse("(objectClass=*)").map_err(ClientError::Filter)?;
        let (filter, selection) = (filter.as_filter(), selection.as_selection());
        let mut is_there = false;
        let request = SearchRequest::new(dn, Scope::BaseObject, filter, selection);
        let last = self.search(request, Controls::NONE, &mut |entry| {
            is_there = true;
            each(entry);
            Ok(())
        })?;
        match code(&last) {
            (ResultCode::SUCCESS | ResultCode::NO_SUCH_OBJECT, _) => Ok(is_there),
            (code, diagnostic) => {
                Err(FollowError::Refused { what: "the search for an entry", code, diagnostic })
            }
        }
    }

    /// Reads the entries at and below `base` page by page, with the attributes `names`.
    fn search_by_pages(
        &mut self,
        (base, filter): (&str, &str),
        names: &[&str],
        each: Each<'_>,
    ) -> Result<()> {
        let filter = FilterBuf::parse(filter).map_err(ClientError::Filter)?;
        let selection = SelectionBuf::from_iter(names.iter().copied());
        let mut cookie = Vec::new();
        loop {
            let page = PagedResults { size: FOLLOW_PAGE_ENTRIES, cookie: &cookie }.encode();
            let controls = ControlsBuf::from_iter([
                Control { oid: oids::PAGED_RESULTS, critical: true, value: Some(&page) },
                Control { oid: oids::MANAGE_DSA_IT, critical: false, value: None },
            ]);
            let (filter, selection) = (filter.as_filter(), selection.as_selection());
            let request = SearchRequest::new(base, Scope::WholeSubtree, filter, selection);
            let last = self.search(request, controls.as_controls(), each)?;
            match code(&last) {
                (ResultCode::SUCCESS, _) => {}
                (ResultCode::NO_SUCH_OBJECT, _) if cookie.is_empty() => return Ok(()),
                (code, diagnostic) => {
                    return Err(FollowError::Refused { what: "the search for entries", code, diagnostic });
                }
            }
            let control = last.message().controls.find(oids::PAGED_RESULTS).and_then(|control| control.value);
            cookie =
                control.and_then(PagedResults::decode).map(|page| page.cookie.to_vec()).unwrap_or_default();
            if cookie.is_empty() {
                return Ok(());
            }
        }
    }

    /// Searches, and passes each entry to `each`. Returns the message that ends the search.
    fn search(
        &mut self,
        request: SearchRequest<'_>,
        controls: Controls<'_>,
        each: Each<'_>,
    ) -> Result<Received> {
        let id = self.connection.send(Request::Search(request), controls)?;
        let mut heard = Instant::now();
        loop {
            if self.is_stopping.load(Ordering::Relaxed) {
                return Err(FollowError::Stopping);
            }
            let received = match self.connection.receive_any() {
                Ok(received) => received,
                Err(ClientError::TimedOut) if heard.elapsed() < FOLLOW_SILENCE => continue,
                Err(ClientError::TimedOut) => return Err(FollowError::Source("the source is silent")),
                Err(error) => return Err(error.into()),
            };
            heard = Instant::now();
            if received.id() != id {
                continue;
            }
            match received.message().response {
                Response::SearchEntry(entry) => each(&entry)?,
                response if response.result().is_some() => return Ok(received),
                _ => {}
            }
        }
    }
}

/// Returns the naming context that is slapd's access log, if `contexts` contains it.
fn access_log(connection: &mut Connection, contexts: &[String]) -> Result<Option<String>> {
    for context in contexts {
        let Some(entry) = connection.entry(context, &["objectClass"])? else { continue };
        if entry.texts("objectClass").iter().any(|class| class.eq_ignore_ascii_case("auditContainer")) {
            return Ok(Some(context.clone()));
        }
    }
    Ok(None)
}

/// Returns false if the source refuses content synchronization of the entry `base`. The root DSE of slapd is no proof:
/// it lists the control for all databases as soon as the module syncprov is loaded.
fn is_synchronized(connection: &mut Connection, base: &str) -> Result<bool> {
    let sync = SyncRequest { persists: false, cookie: None, reload_hint: false }.encode();
    let control = Control { oid: oids::SYNC_REQUEST, critical: true, value: Some(&sync) };
    let controls = ControlsBuf::from_iter([control]);
    let filter = FilterBuf::parse("(!(objectClass=*))").map_err(ClientError::Filter)?;
    let selection = SelectionBuf::from_iter(["1.1"]);
    let (filter, selection) = (filter.as_filter(), selection.as_selection());
    let request = SearchRequest::new(base, Scope::BaseObject, filter, selection);
    let last = connection.search_each::<ClientError>(request, controls.as_controls(), |_| Ok(()))?;
    Ok(code(&last).0 != ResultCode::UNAVAILABLE_CRITICAL_EXTENSION)
}

/// Checks that a change is from the same provider as the last change. In the log, CSNs of different providers are not
/// in ascending order.
fn check_provider(last: &[u8], csn: &[u8]) -> Result<()> {
    let provider = |csn| std::str::from_utf8(csn).ok().and_then(cookie::sid);
    match last.is_empty() || provider(last) == provider(csn) {
        true => Ok(()),
        false => Err(FollowError::Source(
            "the access log has changes of several providers: load slapd's overlay syncprov, which this server follows",
        )),
    }
}

/// Checks that the retro change log still has all changes after the number `seen`. A search does not show that: in a
/// log that was trimmed or recreated, it succeeds and returns the remaining changes.
fn check_numbers(exchange: &mut Exchange<'_>, seen: u64) -> Result<()> {
    let number = |entry: &SearchEntry<'_>, name: &str| -> Option<u64> {
        String::from_utf8_lossy(value(entry, name)?).trim().parse().ok()
    };
    let (mut first, mut last) = (None, None);
    exchange.entry("", &["firstChangeNumber", "lastChangeNumber"], &mut |root| {
        (first, last) = (number(root, "firstChangeNumber"), number(root, "lastChangeNumber"));
    })?;
    let is_trimmed = first.is_some_and(|first| first > seen.saturating_add(1));
    match is_trimmed || last.is_some_and(|last| last < seen) {
        true => Err(FollowError::CookieRefused),
        false => Ok(()),
    }
}

/// Completes the attributes for which Active Directory has sent only some of the values (`member;range=0-1499`).
fn complete_ranges(exchange: &mut Exchange<'_>, entry: &mut SourceEntry) -> Result<()> {
    for attribute in &mut entry.attributes {
        while let Some((name, next)) = rest_of_range(&attribute.description) {
            let wanted = format!("{name};range={next}-*");
            let selection = SelectionBuf::from_iter([wanted.as_str()]);
            let filter = FilterBuf::parse("(objectClass=*)").map_err(ClientError::Filter)?;
            let (filter, selection) = (filter.as_filter(), selection.as_selection());
            let request = SearchRequest::new(&entry.dn, Scope::BaseObject, filter, selection);
            let mut more = None;
            exchange.search(request, Controls::NONE, &mut |found| {
                let mut found = found.attributes.iter();
                more = found.next().map(|part| {
                    (part.description.to_owned(), part.values.iter().map(<[u8]>::to_vec).collect::<Vec<_>>())
                });
                Ok(())
            })?;
            let Some((description, mut values)) = more.filter(|(_, values)| !values.is_empty()) else {
                return Err(FollowError::Source(
                    "the source gives only a part of the values of an attribute",
                ));
            };
            attribute.values.append(&mut values);
            attribute.description = description;
        }
        if let Some((name, _)) = attribute.description.split_once(";range=") {
            attribute.description = name.to_owned();
        }
    }
    Ok(())
}

/// Returns the name of an attribute for which only the first values were sent, and the index of the next value to
/// request.
fn rest_of_range(description: &str) -> Option<(&str, u64)> {
    let (name, range) = description.split_once(";range=")?;
    let (_, last) = range.split_once('-')?;
    Some((name, last.parse::<u64>().ok()?.checked_add(1)?))
}

/// Formats an identifier as an nsUniqueId: four groups of hexadecimal digits.
fn in_groups(uuid: &SyncUuid) -> String {
    let groups =
        uuid.chunks(4).map(|group| group.iter().map(|octet| format!("{octet:02x}")).collect::<String>());
    groups.collect::<Vec<_>>().join("-")
}

/// Returns an identifier as the octets of an objectGUID, whose first three fields are little-endian.
fn little_endian(uuid: &SyncUuid) -> SyncUuid {
    let mut octets = *uuid;
    for field in [0..4, 4..6, 6..8] {
        octets.get_mut(field).unwrap_or_default().reverse();
    }
    octets
}

fn value<'e>(entry: &SearchEntry<'e>, name: &str) -> Option<&'e [u8]> {
    let mut attributes = entry.attributes.iter();
    let attribute = attributes.find(|attribute| attribute.description.eq_ignore_ascii_case(name))?;
    attribute.values.iter().next()
}

/// Returns true if a source rejects a cookie with this result code.
fn refuses_cookie(code: ResultCode) -> bool {
    code == ResultCode::UNWILLING_TO_PERFORM
        || code == ResultCode::NO_SUCH_OBJECT
        || code == ResultCode::PROTOCOL_ERROR
}

fn code(last: &Received) -> (ResultCode, String) {
    let result = last.outcome();
    result.map_or_else(|| (ResultCode::OTHER, String::new()), |result| (result.code, result.diagnostic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_identifies_its_change_list() {
        let list = ChangeList { kind: Kind::Number, base: "cn=changelog".to_owned(), newest: b"7".to_vec() };
        let stored = list.stored(b"7");
        assert_eq!(list.own(&stored), Some(&b"7"[..]));
        assert!(ChangeList::is_cookie(&stored) && !ChangeList::is_dir_sync(&stored));
        assert!(ChangeList::is_dir_sync(b"dirsync x"));
        assert!(!ChangeList::is_cookie(b"rid=001,csn=20261127090000.000001Z#000000#001#000000"));
        assert_eq!(list.own(b"opendj x"), None);
    }

    #[test]
    fn an_access_log_of_another_provider_is_refused() {
        let [first, other] = ["001", "002"].map(|sid| format!("20261127090000.000001Z#000000#{sid}#000000"));
        assert!(check_provider(b"", first.as_bytes()).is_ok());
        assert!(check_provider(first.as_bytes(), first.as_bytes()).is_ok());
        assert!(check_provider(first.as_bytes(), other.as_bytes()).is_err());
    }

    #[test]
    fn identifiers_and_ranges_are_parsed_in_the_form_of_the_source() {
        let uuid = *b"\x4f\x2a\x1c\x01\x0c\x6a\x11\xee\x8a\x0f\xb8\xa1\xc2\xd3\xe4\xf5";
        assert_eq!(in_groups(&uuid), "4f2a1c01-0c6a11ee-8a0fb8a1-c2d3e4f5");
        assert_eq!(identifier(in_groups(&uuid).as_bytes()), Some(uuid));
        assert_eq!(identifier(&little_endian(&uuid)), Some(uuid));
        assert_eq!(rest_of_range("member;range=0-1499"), Some(("member", 1500)));
        assert_eq!(rest_of_range("member;range=1500-*"), None);
        assert_eq!(rest_of_range("member"), None);
    }
}
