//! Content synchronization (RFC 4533): what became of a content since the client was last told of it, by a poll or at
//! the beginning of what `follow` goes on with.
//!
//! The state that a client has is a position of the log, which its cookie names by CSN, as OpenLDAP's do. Each entry
//! row says at which position it was changed last, so a poll is a search that writes the results changed since, and
//! names the others in sets: what the client has besides is gone (section 3.3.2, a present phase). Nothing is kept of a
//! client.
//!
//! A row does not show that another entry was renamed which the entry names, or is below of. The records since tell
//! that: of a renamed entry without subordinates, those that name it count as changed; where one with subordinates was
//! renamed, settings were changed, or too much happened, all entries do. So they do where anything happened and the
//! filter, or one of an access rule for the asker, is about attributes that are made, which go by other entries.
//! Attributes that are made are not part of a content (section 3.2), but for structuralObjectClass.
//!
//! Under access rules the content is that of the asker: the cookie names the rules that held for the asker, too, and
//! with others all entries are sent. A cookie without that, as OpenLDAP's consumers make it, is as good where rules do
//! not go by groups, by filters on askers, or by where a request comes from: then only a change of the asker's own name
//! makes others hold.

use std::fmt::Write as _;

use foldhash::{HashSet, HashSetExt};
use hmac::Mac;
use ldap::response::encode_intermediate_response;
use ldap::{
    Controls, DerefAliases, Filter, FilterKind, MessageId, ResultCode, SearchRequest, SyncDone, SyncIdSet,
    SyncInfo, SyncState, SyncStateValue, SyncUuid, oids,
};
use schema::{AttributeDescription, Schema};
use store::{MapId, Position};
use uuid::Uuid;

use crate::access::{Requester, Standing};
use crate::catalog::{VirtualAttribute, last_csn};
use crate::filter::Candidate;
use crate::model::csn::Csn;
use crate::model::entry::{Content, InlineValue};
use crate::model::limits::{SYNC_RECORDS_MAX, SYNC_SET_MAX, SYNC_TOUCHED_MAX};
use crate::model::outcome::OperationError;
use crate::model::record::{Change, Record};
use crate::model::rows::{AttrId, EntryId, LINKED, children_counter, link_key};
use crate::read::controls::RequestControls;
use crate::snapshot::Snapshot;
use crate::tree::{TreeState, damaged_row};

type Result<T> = std::result::Result<T, OperationError>;

/// Ids read at a time.
const BLOCK: usize = 512;

/// A poll under way.
#[derive(Debug)]
pub(super) struct Sync {
    id: MessageId,
    /// The client has entries as they were at this position; 0 where it has none.
    since: Position,
    /// Records behind that, up to the second position, which have not been gone through.
    unread: Option<(Position, Position)>,
    /// Entries that are others since although their rows do not say so.
    touched: HashSet<u64>,
    /// The asker's entry, where access rules bind.
    own: Option<EntryId>,
    /// The number of entryUUID, where any entry has one.
    uuid: Option<AttrId>,
    /// Entries that are as they were and have not been named yet.
    present: SyncIdSet,
    cookie: String,
    /// What of the cookie stays the same.
    seal: String,
    /// As what the next entry is sent, once changes are told as they come: then each entry is.
    pub(super) telling: Option<SyncState>,
}

impl Sync {
    /// The poll that a request asks for, if it does.
    ///
    /// # Errors
    /// It asks for something that does not go with it.
    pub(super) fn of(
        snapshot: &Snapshot,
        (requester, standing): (&Requester, Option<&Standing>),
        id: MessageId,
        request: &SearchRequest<'_>,
        controls: &RequestControls,
    ) -> Result<Option<Sync>> {
        let Some(asked) = controls.sync() else { return Ok(None) };
        check(request, controls)?;
        let state = snapshot.state();
        let seal = {
            // Section 3.5: the limits are not part of a content.
            let unlimited = SearchRequest { size_limit: 0, time_limit_seconds: 0, ..*request };
            let seal = snapshot.directory().page_key.seal(requester, &unlimited, controls);
            let rules = standing.map(Standing::identity).unwrap_or_default();
            let seal = seal.chain_update(b"content").chain_update(rules).finalize().into_bytes();
            seal.iter().take(8).fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            })
        };
        let known = asked.cookie.as_deref().and_then(|cookie| Known::parse(cookie, &seal));
        let rules = &state.catalog.access_rules;
        let goes_by_others = goes_by_others(state, standing, request.filter);
        let newest = state.read.position()?;
        let since = match known {
            Some(Known { csn, is_sealed }) if is_sealed || standing.is_none() || !rules.ask_others() => {
                position_of(state, csn)?.unwrap_or(0)
            }
            _ => 0,
        };
        let newer = newest.saturating_sub(since);
        let since = if newer > 0 && (goes_by_others || newer > SYNC_RECORDS_MAX) { 0 } else { since };
        let unread = (since > 0 && since < newest).then_some((since + 1, newest));
        let description = state.catalog.schema.attribute_type("entryUUID").map(|known| known.id);
        let uuid = description.and_then(|type_id| {
            state.catalog.matching_attributes(&AttributeDescription::of(type_id)).iter().next().copied()
        });
        let present = SyncIdSet { refresh_deletes: false, uuids: Vec::new() };
        let cookie = String::new();
        let touched = HashSet::new();
        let own = standing.and_then(Standing::own);
        let mut sync = Sync { id, since, unread, touched, own, uuid, present, cookie, seal, telling: None };
        sync.is_now_at(state)?;
        Ok(Some(sync))
    }

    /// Bytes of memory that it holds besides itself.
    pub(super) fn heap_bytes(&self) -> usize {
        // As much again for the table that a set is.
        self.touched.capacity() * 2 * size_of::<u64>()
            + self.present.uuids.capacity() * size_of::<SyncUuid>()
            + self.cookie.capacity()
    }

    /// The content is told as it is here.
    pub(super) fn is_now_at(&mut self, state: TreeState<'_>) -> Result<()> {
        self.cookie = format!("csn={},data={}", last_csn(state.read)?, self.seal);
        Ok(())
    }

    /// Tells the client that all was sent, and changes follow.
    pub(super) fn tell_refreshed(&self, out: &mut Vec<u8>) {
        self.tell(
            &SyncInfo::Refreshed { deletes: false, cookie: Some(self.cookie.as_bytes()), is_done: true },
            out,
        );
    }

    /// Tells the client up to where it was told.
    pub(super) fn tell_cookie(&self, out: &mut Vec<u8>) {
        self.tell(&SyncInfo::NewCookie(self.cookie.as_bytes()), out);
    }

    fn tell(&self, info: &SyncInfo<'_>, out: &mut Vec<u8>) {
        let value = info.encode();
        encode_intermediate_response(out, self.id, Some(oids::SYNC_INFO), Some(&value), Controls::NONE);
    }

    /// Goes through some of the records that came since the client was told; true when that is done.
    pub(super) fn read_changes(&mut self, state: TreeState<'_>, records_max: u32) -> Result<bool> {
        let Some((next, until)) = self.unread else { return Ok(true) };
        let (end, mut is_wide) = (next.saturating_add(u64::from(records_max.max(1))), false);
        // The log may have been trimmed since.
        is_wide |= state.read.first_position()?.is_none_or(|first| first > next);
        if !is_wide {
            for record in state.read.log_records(next) {
                let (position, bytes) = record?;
                if position >= end || position > until {
                    break;
                }
                is_wide |= is_wide_change(state, (position, bytes), self.own, &mut self.touched)?;
            }
        }
        if is_wide || self.touched.len() > SYNC_TOUCHED_MAX {
            // All entries are sent.
            (self.since, self.touched, self.unread) = (0, HashSet::new(), None);
        } else {
            self.unread = (end <= until).then_some((end, until));
        }
        Ok(self.unread.is_none())
    }

    /// Whether the client has an entry as it is. Then it is named, now or later, and not sent.
    pub(super) fn has<'s>(
        &mut self,
        state: TreeState<'s>,
        candidate: &Candidate<'s>,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let position = candidate.entry(state)?.position;
        if self.telling.is_some() || position > self.since || self.touched.contains(&candidate.id.0) {
            return Ok(false);
        }
        self.present.uuids.push(self.uuid_of(state, candidate)?);
        if self.present.uuids.len() >= SYNC_SET_MAX {
            self.name_present(out);
        }
        Ok(true)
    }

    /// Names those that are as they were and have not been named.
    pub(super) fn name_present(&mut self, out: &mut Vec<u8>) {
        if self.present.uuids.is_empty() {
            return;
        }
        let set =
            std::mem::replace(&mut self.present, SyncIdSet { refresh_deletes: false, uuids: Vec::new() });
        self.tell(&SyncInfo::IdSet(set), out);
    }

    /// The value of the control with which an entry is sent.
    pub(super) fn state_value<'s>(&self, state: TreeState<'s>, candidate: &Candidate<'s>) -> Result<Vec<u8>> {
        let uuid = self.uuid_of(state, candidate)?;
        let state = self.telling.unwrap_or(SyncState::Add);
        Ok(SyncStateValue { state, uuid, cookie: None }.encode())
    }

    /// The value of the control of the last message, where all went well.
    pub(super) fn done_value(&self) -> Vec<u8> {
        SyncDone { cookie: Some(self.cookie.as_bytes()), refresh_deletes: false }.encode()
    }

    fn uuid_of<'s>(&self, state: TreeState<'s>, candidate: &Candidate<'s>) -> Result<SyncUuid> {
        let row = candidate.entry(state)?;
        let text = self.uuid.and_then(|uuid| match row.find(uuid)?.content {
            Content::Inline(values) => match values.iter().next()? {
                InlineValue::Here(text) => Uuid::try_parse_ascii(text).ok(),
                InlineValue::Elsewhere(_) => None,
            },
            Content::Links | Content::Table => None,
        });
        text.map(Uuid::into_bytes).ok_or_else(|| damaged_row("entries", candidate.id))
    }
}

/// Refuses what cannot be synchronized.
fn check(request: &SearchRequest<'_>, controls: &RequestControls) -> Result<()> {
    let refused = |code, text: &str| Err(OperationError::refused(code, text));
    if matches!(request.deref_aliases, DerefAliases::InSearching | DerefAliases::Always) {
        // Section 3.5.2.
        let text = "aliases below the base are not followed where content is synchronized";
        return refused(ResultCode::PROTOCOL_ERROR, text);
    }
    let is_partial = controls.page().is_some() || controls.sort().is_some() || controls.window().is_some();
    if is_partial || request.types_only || controls.matched_values().is_some() {
        let text =
            "content is synchronized whole: not in pages, in an order, without values, or some of them";
        return refused(ResultCode::UNWILLING_TO_PERFORM, text);
    }
    Ok(())
}

/// What a cookie says that the client has.
struct Known {
    csn: Csn,
    /// Whether it says of which content.
    is_sealed: bool,
}

impl Known {
    /// Of a cookie of this or another server: OpenLDAP's consumers take its CSN and make a cookie of their own. `None`
    /// where it says nothing, or is of another content.
    fn parse(cookie: &[u8], seal: &str) -> Option<Known> {
        let text = std::str::from_utf8(cookie).ok()?;
        let field =
            |name: &str| text.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        let data = field("data");
        if data.is_some_and(|data| data != seal) {
            return None;
        }
        // One of several servers would be one of several.
        Some(Known { csn: Csn::parse(field("csn")?)?, is_sealed: data.is_some() })
    }
}

/// The position of the record with a CSN: those of the log ascend. `None` where there is none any longer.
fn position_of(state: TreeState<'_>, csn: Csn) -> Result<Option<Position>> {
    let csn_at = |position| -> Result<Option<Csn>> {
        let record = state.read.log_records(position).next().transpose()?;
        let known = record.filter(|(found, _)| *found == position);
        Ok(known.and_then(|(_, bytes)| Record::decode(bytes)).map(|record| record.csn))
    };
    let (Some(mut low), mut high) = (state.read.first_position()?, state.read.position()?) else {
        return Ok(None);
    };
    while low <= high {
        let middle = low + (high - low) / 2;
        match csn_at(middle)?.map(|found| found.cmp(&csn)) {
            None => return Ok(None),
            Some(std::cmp::Ordering::Equal) => return Ok(Some(middle)),
            Some(std::cmp::Ordering::Less) => low = middle + 1,
            Some(std::cmp::Ordering::Greater) => high = middle.saturating_sub(1),
        }
    }
    Ok(None)
}

/// Whether all entries may be others by a change. Adds those that are although their rows do not say so.
fn is_wide_change(
    state: TreeState<'_>,
    (position, bytes): (Position, &[u8]),
    own: Option<EntryId>,
    touched: &mut HashSet<u64>,
) -> Result<bool> {
    match read_record(position, bytes)?.change {
        Change::Modify(modify) => Ok(modify.flags.is_alias()),
        // Rules may hold for the asker that did not, and the other way round; so they may for another of that name.
        Change::Add(add) if Some(add.id) == own => Ok(true),
        Change::ModifyDn(rename) if Some(rename.id) == own => Ok(true),
        // What becomes a link or text with them, or vanishes, is a change of the row that has it.
        Change::Add(_) | Change::Delete(_) | Change::DeleteTree(_) | Change::Administrator { .. } => {
            Ok(false)
        }
        Change::Settings(_) | Change::Suffix { .. } => Ok(true),
        Change::ModifyDn(rename) => {
            touch_sources(state, rename.id, (touched, SYNC_TOUCHED_MAX))?;
            Ok(state.read.count(&children_counter(rename.id))? > 0)
        }
    }
}

/// The record at a position.
pub(super) fn read_record(position: Position, bytes: &[u8]) -> Result<Record> {
    Record::decode(bytes)
        .ok_or_else(|| OperationError::Damaged(format!("the record at position {position} of the log")))
}

/// Adds the entries that name another, until there are more than `max`.
pub(super) fn touch_sources(
    state: TreeState<'_>,
    target: EntryId,
    (touched, max): (&mut HashSet<u64>, usize),
) -> Result<()> {
    touch_all(state, LINKED, (touched, max), |attribute| link_key(target, attribute))
}

/// Adds the ids that a map has under the key of each attribute with names, until there are more than `max`.
pub(super) fn touch_all<K: AsRef<[u8]>>(
    state: TreeState<'_>,
    map: MapId,
    (touched, max): (&mut HashSet<u64>, usize),
    key: impl Fn(AttrId) -> K,
) -> Result<()> {
    let mut block = Vec::new();
    for link in state.catalog.attributes().iter().filter(|def| def.is_link) {
        let mut sources = state.read.ids(map, key(link.id).as_ref())?;
        while touched.len() <= max && sources.next_block(&mut block, BLOCK)? > 0 {
            touched.extend(block.drain(..));
        }
    }
    Ok(())
}

/// Whether what is a result goes by other entries than the one itself: by attributes that are made.
pub(super) fn goes_by_others(state: TreeState<'_>, standing: Option<&Standing>, filter: Filter<'_>) -> bool {
    let mut filters = standing.into_iter().flat_map(Standing::filters).chain([filter]);
    filters.any(|filter| is_about_made(&state.catalog.schema, filter))
}

/// Whether a filter is about attributes that are made of more than the entry itself.
fn is_about_made(schema: &Schema, filter: Filter<'_>) -> bool {
    let is_made = |name: &str| {
        let description = schema.parse_description(name).ok();
        let made =
            description.and_then(|description| VirtualAttribute::of(schema.type_by_id(description.type_id)));
        made.is_some_and(|made| made != VirtualAttribute::StructuralObjectClass)
    };
    match filter.kind() {
        FilterKind::And(list) | FilterKind::Or(list) => list.iter().any(|item| is_about_made(schema, item)),
        FilterKind::Not(item) => is_about_made(schema, item),
        FilterKind::EqualityMatch(item)
        | FilterKind::GreaterOrEqual(item)
        | FilterKind::LessOrEqual(item)
        | FilterKind::ApproxMatch(item) => is_made(item.description),
        FilterKind::Substrings(item) => is_made(item.description),
        FilterKind::Present(name) => is_made(name),
        // Without a name, all that the rule fits.
        FilterKind::ExtensibleMatch(item) => item.description.is_none_or(is_made),
        FilterKind::Unrecognized(_) => false,
    }
}
