//! Content synchronization (RFC 4533): reports the changes since the client's last synchronization. A *content* is the
//! set of results of a search. This module serves polls, and the refresh stage of a search that `follow` continues.
//!
//! The state of a client is a position of the log. The client's cookie names that position by CSN, as in OpenLDAP. Each
//! entry row contains the position of its last change. So a poll is a search that sends the results that have changed
//! since the cookie, and lists the entryUUIDs of the unchanged results in sets. The client deletes all entries that
//! were neither sent nor listed (section 3.3.2, a present phase). The server keeps no state for a client.
//!
//! If the records since the cookie only add, modify, rename and delete entries, they give the list of the entries that
//! may differ. Then only these entries are examined. Entries on the list that are not results are reported as deleted
//! (a delete phase). The record of a delete contains the entryUUID of the deleted entry, and the ids of the entries
//! that named it. A requester under access rules always receives a present phase, because a delete phase would list
//! hidden entries.
//!
//! An entry also changes when an entry that it names, or an entry above it, is renamed. The row of the entry does not
//! show this, but the records since the cookie do. If an entry without subordinates was renamed, the entries that name
//! it count as changed. All entries count as changed if an entry with subordinates was renamed, if settings were
//! changed, or if there are too many records. If the filter, or a filter of an access rule for the requester, tests
//! virtual attributes that depend on other entries, any change at all makes all entries count as changed. Virtual
//! attributes are not part of a content (section 3.2), except structuralObjectClass.
//!
//! Under access rules the content depends on the requester. Therefore the cookie also identifies the rules that
//! applied, and all entries are sent if other rules apply now. OpenLDAP's consumers build a cookie that does not
//! identify the rules. That cookie is sufficient if no rule depends on groups, on filters for requesters, or on the
//! client's connection. In that case only a rename of the requester's entry can change the rules that apply.

use data_encoding::HEXLOWER;
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use hmac::Mac;
use ldap::response::encode_intermediate_response;
use ldap::{
    Controls, DerefAliases, Filter, FilterKind, MessageId, ResultCode, SearchRequest, SyncDone, SyncIdSet,
    SyncInfo, SyncState, SyncStateValue, SyncUuid, oids,
};
use schema::{AttributeDescription, MatchingRule, Schema};
use store::{MapId, Position};

use super::SearchInputs;
use crate::access::EffectiveRights;
use crate::catalog::{VirtualAttribute, last_csn};
use crate::filter::Candidate;
use crate::model::csn::Csn;
use crate::model::entry::EntryRow;
use crate::model::limits::{SYNC_DELETED_MAX, SYNC_RECORDS_MAX, SYNC_SET_MAX, SYNC_TOUCHED_MAX};
use crate::model::outcome::OperationError;
use crate::model::record::{Change, Delete, DeleteTree, Record};
use crate::model::rows::{AttrId, EntryId, LINKED, children_counter, link_key};
use crate::read::controls::RequestControls;
use crate::tree::{TreeState, damaged_row, entry_row};

type Result<T> = std::result::Result<T, OperationError>;

/// Number of ids read at a time.
const BLOCK: usize = 512;

/// State of content synchronization in a search.
#[derive(Debug)]
pub(super) struct Sync {
    id: MessageId,
    /// Log position of the state that the client has; 0 if the client has none.
    since: Position,
    /// Positions of the first and the last record since the cookie that are not read yet.
    unread: Option<(Position, Position)>,
    /// Entries that have changed although their rows do not show the change.
    touched: HashSet<u64>,
    /// Entries that may differ and have not been sent. `None` if the records do not give the list of all entries that
    /// may differ.
    changed: Option<HashMap<u64, SyncUuid>>,
    /// Entries that were deleted.
    deleted: Vec<SyncUuid>,
    /// Whether only the entries in `changed` are examined, in a delete phase.
    is_listed: bool,
    /// Entry of the requester; `None` if no access rules restrict the requester.
    own: Option<EntryId>,
    /// Attribute number of entryUUID; `None` if no entry has it.
    uuid: Option<AttrId>,
    /// Unchanged entries whose UUIDs have not been sent yet.
    present: SyncIdSet,
    cookie: String,
    /// The part of the cookie that identifies the content.
    seal: String,
    /// State to send with the next entry in the persist stage; `None` in the refresh stage. In the persist stage, no
    /// entry is omitted as unchanged.
    pub(super) next_state: Option<SyncState>,
}

impl Sync {
    /// Creates the synchronization state of a request; `None` if the request has no content synchronization control.
    ///
    /// # Errors
    /// The request combines the synchronization control with an incompatible option.
    pub(super) fn of(inputs: &SearchInputs<'_>) -> Result<Option<Sync>> {
        let SearchInputs { snapshot, rights, id, request, controls, .. } = *inputs;
        let Some(sync_control) = controls.sync() else { return Ok(None) };
        check(request, controls)?;
        let state = snapshot.state();
        let seal = {
            // The seal of the cookie excludes the limits, because they are not part of a content (section 3.5).
            let unlimited = SearchRequest { size_limit: 0, time_limit_seconds: 0, ..*request };
            let seal = snapshot.directory().page_key.seal(&SearchInputs { request: &unlimited, ..*inputs });
            let seal = seal.chain_update(b"content").chain_update(rights.identity()).finalize().into_bytes();
            HEXLOWER.encode(seal.get(..8).unwrap_or_default())
        };
        let client = sync_control.cookie.as_deref().and_then(|cookie| ClientState::parse(cookie, &seal));
        let rules = &state.catalog.access_rules;
        let depends_on_others = depends_on_others(state, rights, request.filter);
        let newest = state.read.position()?;
        let since = match client {
            Some(ClientState { csn, is_sealed })
                if is_sealed || !rights.is_restricted() || !rules.depend_on_others() =>
            {
                position_of(state, csn)?.unwrap_or(0)
            }
            _ => 0,
        };
        let newer = newest.saturating_sub(since);
        let since = if newer > 0 && (depends_on_others || newer > SYNC_RECORDS_MAX) { 0 } else { since };
        let unread = (since > 0 && since < newest).then_some((since + 1, newest));
        let may_list = since > 0 && !rights.is_restricted();
        let changed = may_list.then(HashMap::new);
        let description = state.catalog.schema.attribute_type("entryUUID").map(|known| known.id);
        let uuid = description.and_then(|type_id| {
            state.catalog.matching_attributes(&AttributeDescription::of(type_id)).iter().next().copied()
        });
        let present = SyncIdSet { refresh_deletes: false, uuids: Vec::new() };
        let cookie = String::new();
        let touched = HashSet::new();
        let own = rights.own();
        let mut sync = Sync {
            id,
            since,
            unread,
            touched,
            changed,
            deleted: Vec::new(),
            is_listed: false,
            own,
            uuid,
            present,
            cookie,
            seal,
            next_state: None,
        };
        sync.is_now_at(state)?;
        Ok(Some(sync))
    }

    /// Returns the memory that the poll uses, without itself, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        // A hash table uses about twice the memory of its keys.
        self.touched.capacity() * 2 * size_of::<u64>()
            + self.changed.as_ref().map_or(0, HashMap::capacity) * 2 * size_of::<(u64, SyncUuid)>()
            + (self.present.uuids.capacity() + self.deleted.capacity()) * size_of::<SyncUuid>()
            + self.cookie.capacity()
    }

    /// Sets the position that the next cookie names to the position of `state`.
    pub(super) fn is_now_at(&mut self, state: TreeState<'_>) -> Result<()> {
        self.cookie = format!("csn={},data={}", last_csn(state.read)?, self.seal);
        Ok(())
    }

    /// Notifies the client that the refresh stage is complete and that changes follow.
    pub(super) fn send_refreshed(&self, out: &mut Vec<u8>) {
        self.send_info(
            &SyncInfo::Refreshed {
                deletes: self.is_listed,
                cookie: Some(self.cookie.as_bytes()),
                is_done: true,
            },
            out,
        );
    }

    /// Sends the client a new cookie.
    pub(super) fn send_cookie(&self, out: &mut Vec<u8>) {
        self.send_info(&SyncInfo::NewCookie(self.cookie.as_bytes()), out);
    }

    fn send_info(&self, info: &SyncInfo<'_>, out: &mut Vec<u8>) {
        let value = info.encode();
        encode_intermediate_response(out, self.id, Some(oids::SYNC_INFO), Some(&value), Controls::NONE);
    }

    /// Reads up to `records_max` of the records since the cookie. Returns true when all are read.
    pub(super) fn read_changes(&mut self, state: TreeState<'_>, records_max: u32) -> Result<bool> {
        let Some((next, until)) = self.unread else { return Ok(true) };
        let (end, mut is_wide) = (next.saturating_add(u64::from(records_max.max(1))), false);
        // If the log was trimmed since the poll began, all entries count as changed.
        is_wide |= state.read.first_position()?.is_none_or(|first| first > next);
        if !is_wide {
            for record in state.read.log_records(next) {
                let (position, bytes) = record?;
                if position >= end || position > until {
                    break;
                }
                let change = read_record(position, bytes)?.change;
                is_wide |= is_wide_change(state, &change, self.own, &mut self.touched)?;
                self.list(state, &change)?;
            }
        }
        if is_wide || self.touched.len() > SYNC_TOUCHED_MAX {
            // Position 0 is before all entries, so the client receives all of them.
            (self.since, self.touched, self.changed, self.unread) = (0, HashSet::new(), None, None);
            self.deleted = Vec::new();
        } else {
            self.unread = (end <= until).then_some((end, until));
        }
        Ok(self.unread.is_none())
    }

    /// Adds to `changed`, `touched` and `deleted` the entries that a change affects. If these entries are unknown,
    /// sets `changed` to `None`.
    fn list(&mut self, state: TreeState<'_>, change: &Change) -> Result<()> {
        let Some(changed) = &mut self.changed else { return Ok(()) };
        let id = match change {
            Change::Modify(modify) => modify.id,
            Change::ModifyDn(rename) => rename.id,
            Change::Add(add) => {
                // Dangling links to this name, stored as text, become links to the new entry.
                touch_sources(state, add.id, (&mut self.touched, SYNC_TOUCHED_MAX))?;
                add.id
            }
            Change::Delete(Delete { trace: Some(trace), .. })
            | Change::DeleteTree(DeleteTree { trace: Some(trace), .. })
                if self.deleted.len() + trace.uuids.len() <= SYNC_DELETED_MAX =>
            {
                self.deleted.extend(&trace.uuids);
                // The values that named the deleted entry became text or were removed.
                self.touched.extend(trace.named_by.iter().map(|id| id.0));
                return Ok(());
            }
            Change::Administrator { .. } | Change::Purge { .. } | Change::Joins(_) | Change::Links(_) => {
                return Ok(());
            }
            _ => {
                (self.changed, self.deleted) = (None, Vec::new());
                return Ok(());
            }
        };
        changed.insert(id.0, SyncUuid::default());
        Ok(())
    }

    /// Returns the ids of the entries to examine in place of all candidates, ascending. Returns `None` if the records
    /// do not list these entries, or if the ids were returned before.
    pub(super) fn take_listed(&mut self, state: TreeState<'_>) -> Result<Option<Vec<u64>>> {
        if self.is_listed || self.unread.is_some() {
            return Ok(None);
        }
        let Some(changed) = self.changed.take() else { return Ok(None) };
        let mut listed = HashMap::with_capacity(changed.len() + self.touched.len());
        for id in changed.into_keys().chain(self.touched.iter().copied()) {
            // An entry that no longer exists is in `deleted`, because a record reports its delete.
            let uuid = entry_row(state.read, EntryId(id)).ok().and_then(|row| self.uuid_in(&row));
            if let Some(uuid) = uuid {
                listed.insert(id, uuid);
            }
        }
        // A deleted entry may have been added again with the same entryUUID.
        let present: HashSet<SyncUuid> = listed.values().copied().collect();
        self.deleted.retain(|uuid| !present.contains(uuid));
        let mut ids: Vec<u64> = listed.keys().copied().collect();
        ids.sort_unstable();
        (self.changed, self.is_listed) = (Some(listed), true);
        Ok(Some(ids))
    }

    /// Returns true if the client has the current state of an entry. In that case, does not send the entry and adds its
    /// UUID to the next set of unchanged entries.
    pub(super) fn has<'s>(
        &mut self,
        state: TreeState<'s>,
        candidate: &Candidate<'s>,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let position = candidate.entry(state)?.position;
        if self.next_state.is_some() || position > self.since || self.touched.contains(&candidate.id.0) {
            if let Some(changed) = &mut self.changed {
                changed.remove(&candidate.id.0);
            }
            return Ok(false);
        }
        self.present.uuids.push(self.uuid_of(state, candidate)?);
        if self.present.uuids.len() >= SYNC_SET_MAX {
            self.name_present(out);
        }
        Ok(true)
    }

    /// Sends the UUIDs of the unchanged entries that have not been sent yet. In a delete phase, first sends the UUIDs
    /// of the entries that the client must delete: the deleted entries, and the entries in `changed` that were not
    /// sent because they are no longer results.
    pub(super) fn name_present(&mut self, out: &mut Vec<u8>) {
        if self.is_listed {
            let mut deleted = std::mem::take(&mut self.deleted);
            deleted.extend(self.changed.take().unwrap_or_default().into_values());
            for uuids in deleted.chunks(SYNC_SET_MAX) {
                let set = SyncIdSet { refresh_deletes: true, uuids: uuids.to_vec() };
                self.send_info(&SyncInfo::IdSet(set), out);
            }
        }
        if self.present.uuids.is_empty() {
            return;
        }
        let set =
            std::mem::replace(&mut self.present, SyncIdSet { refresh_deletes: false, uuids: Vec::new() });
        self.send_info(&SyncInfo::IdSet(set), out);
    }

    /// Returns the value of the Sync State control of an entry.
    pub(super) fn state_value<'s>(&self, state: TreeState<'s>, candidate: &Candidate<'s>) -> Result<Vec<u8>> {
        let uuid = self.uuid_of(state, candidate)?;
        let state = self.next_state.unwrap_or(SyncState::Add);
        Ok(SyncStateValue { state, uuid, cookie: None }.encode())
    }

    /// Returns the value of the Sync Done control after success.
    pub(super) fn done_value(&self) -> Vec<u8> {
        SyncDone { cookie: Some(self.cookie.as_bytes()), refresh_deletes: self.is_listed }.encode()
    }

    fn uuid_of<'s>(&self, state: TreeState<'s>, candidate: &Candidate<'s>) -> Result<SyncUuid> {
        let row = candidate.entry(state)?;
        self.uuid_in(&row).ok_or_else(|| damaged_row("entries", candidate.id))
    }

    fn uuid_in(&self, row: &EntryRow<'_>) -> Option<SyncUuid> {
        self.uuid.and_then(|uuid| row.uuid(uuid))
    }
}

/// Refuses searches whose content cannot be synchronized.
fn check(request: &SearchRequest<'_>, controls: &RequestControls) -> Result<()> {
    let refused = |code, text: &str| Err(OperationError::refused(code, text));
    if matches!(request.deref_aliases, DerefAliases::InSearching | DerefAliases::Always) {
        // Section 3.5.2 forbids following aliases below the base.
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

/// State of the client, as its cookie describes it.
struct ClientState {
    csn: Csn,
    /// Whether the cookie has the part that identifies the content.
    is_sealed: bool,
}

impl ClientState {
    /// Parses a cookie of this server, or a cookie that OpenLDAP's consumers build from the CSN of this server's
    /// cookie. Returns `None` if the cookie is malformed or belongs to another content.
    fn parse(cookie: &[u8], seal: &str) -> Option<ClientState> {
        let text = std::str::from_utf8(cookie).ok()?;
        let field =
            |name: &str| text.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        let data = field("data");
        if data.is_some_and(|data| data != seal) {
            return None;
        }
        // A field with the CSNs of several servers does not parse, so that cookie is not accepted.
        Some(ClientState { csn: Csn::parse(field("csn")?)?, is_sealed: data.is_some() })
    }
}

/// Finds the position of the record with a CSN by binary search, because CSNs ascend in the log. Returns `None` if
/// the log does not have the record.
fn position_of(state: TreeState<'_>, csn: Csn) -> Result<Option<Position>> {
    let csn_at = |position| -> Result<Option<Csn>> {
        let record = state.read.log_records(position).next().transpose()?;
        let at_position = record.filter(|(found, _)| *found == position);
        Ok(at_position.and_then(|(_, bytes)| Record::decode(bytes)).map(|record| record.csn))
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

/// Returns true if a change may affect all entries. Otherwise adds to `touched` the affected entries whose rows do not
/// show the change.
fn is_wide_change(
    state: TreeState<'_>,
    change: &Change,
    own: Option<EntryId>,
    touched: &mut HashSet<u64>,
) -> Result<bool> {
    match change {
        Change::Modify(modify) => Ok(modify.flags.is_alias()),
        // An add, undelete or rename of the requester's own entry may change the rules that apply to the requester.
        Change::Add(add) if Some(add.id) == own => Ok(true),
        Change::ModifyDn(rename) if Some(rename.id) == own => Ok(true),
        // When a value becomes a link or text, or is removed, the row of its entry receives a new position. So these
        // changes need no entry in `touched`.
        Change::Undelete(undelete) => Ok(own.is_some_and(|own| undelete.entries.contains(&own))),
        Change::Add(_)
        | Change::Delete(_)
        | Change::DeleteTree(_)
        | Change::Administrator { .. }
        | Change::Joins(_)
        | Change::Links(_)
        | Change::Purge { .. } => Ok(false),
        Change::Settings(_) | Change::Suffix { .. } => Ok(true),
        Change::ModifyDn(rename) => {
            touch_sources(state, rename.id, (touched, SYNC_TOUCHED_MAX))?;
            Ok(state.read.count(&children_counter(rename.id))? > 0)
        }
    }
}

/// Decodes the record at a position.
pub(super) fn read_record(position: Position, bytes: &[u8]) -> Result<Record> {
    Record::decode(bytes)
        .ok_or_else(|| OperationError::Damaged(format!("the record at position {position} of the log")))
}

/// Adds the entries that name the entry `target`. Stops when `touched` has more than `max` entries.
pub(super) fn touch_sources(
    state: TreeState<'_>,
    target: EntryId,
    (touched, max): (&mut HashSet<u64>, usize),
) -> Result<()> {
    touch_all(state, LINKED, (touched, max), |attribute| link_key(target, attribute))
}

/// For each attribute that names entries, adds to `touched` the ids in `map` under the key that `key` returns for this
/// attribute. Stops when `touched` has more than `max` entries.
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

/// Returns true if the results depend on other entries, because the filter or the access rules test chains of links,
/// or virtual attributes that depend on other entries.
pub(super) fn depends_on_others(state: TreeState<'_>, rights: &EffectiveRights, filter: Filter<'_>) -> bool {
    let mut filters = rights.filters().chain([filter]);
    filters.any(|filter| tests_computed(&state.catalog.schema, filter))
}

/// Returns true if a filter tests chains of links, or a virtual attribute that depends on other entries.
fn tests_computed(schema: &Schema, filter: Filter<'_>) -> bool {
    let is_made = |name: &str| {
        let description = schema.parse_description(name).ok();
        let virtual_attribute =
            description.and_then(|description| VirtualAttribute::of(schema.type_by_id(description.type_id)));
        virtual_attribute
            .is_some_and(|virtual_attribute| virtual_attribute != VirtualAttribute::StructuralObjectClass)
    };
    match filter.kind() {
        FilterKind::And(list) | FilterKind::Or(list) => list.iter().any(|item| tests_computed(schema, item)),
        FilterKind::Not(item) => tests_computed(schema, item),
        FilterKind::EqualityMatch(item)
        | FilterKind::GreaterOrEqual(item)
        | FilterKind::LessOrEqual(item)
        | FilterKind::ApproxMatch(item) => is_made(item.description),
        FilterKind::Substrings(item) => is_made(item.description),
        FilterKind::Present(name) => is_made(name),
        // Without an attribute, the item tests all attributes to which the rule applies.
        FilterKind::ExtensibleMatch(item) => {
            let rule = item.rule.and_then(MatchingRule::find);
            item.description.is_none_or(is_made) || rule.is_some_and(MatchingRule::follows_chains)
        }
        FilterKind::Unrecognized(_) => false,
    }
}
