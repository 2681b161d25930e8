//! The history of an entry: its changes in the log, newest first.

use ldap::{HistoryAnswer, HistoryChange, HistoryEffect, HistoryKind, HistoryRequest, HistoryValues};

use crate::access::{EffectiveRights, EntryRights, RequestContext};
use crate::catalog::Secrecy;
use crate::model::csn::generalized_time;
use crate::model::limits::{HISTORY_BYTES_MAX, HISTORY_READ_BYTES_MAX, HISTORY_RECORDS_MAX};
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::record::{Change, Record, Value, ValueChange, ValueChangeKind};
use crate::model::rows::{AttrId, EntryId};
use crate::model::settings::{GENERAL, SettingsRecord};
use crate::model::virtual_entries::CONFIG_DN;
use crate::tree::TreeState;
use crate::tree::target::locate_name;

type Result<T> = std::result::Result<T, OperationError>;

/// Attributes that the server sets with every change. Histories omit them.
const STAMPS: [&str; 3] = ["modifyTimestamp", "modifiersName", "entryCSN"];

/// Returns changes of an entry. The number of records examined and the size of the answer are bounded. The answer
/// contains only values of attributes that the requester may read at present. The caller must have checked that the
/// requester may use the operation.
///
/// # Errors
/// noSuchObject for an entry that the requester may not see; invalidDNSyntax; the store failed.
pub fn history(
    state: TreeState<'_>,
    context: &RequestContext<'_>,
    request: &HistoryRequest<'_>,
) -> Result<HistoryAnswer> {
    let reading = Reading::begin(state, context, request.entry)?;
    let first = state.read.first_position()?.unwrap_or(0).max(1);
    let newest = state.read.position()?;
    let mut position =
        if request.before == 0 { newest } else { newest.min(request.before.saturating_sub(1)) };
    let (mut answer, mut read_bytes, mut bytes) = (HistoryAnswer::default(), 0, 0);
    for _ in 0..HISTORY_RECORDS_MAX {
        if position < first || read_bytes > HISTORY_READ_BYTES_MAX || bytes > HISTORY_BYTES_MAX {
            break;
        }
        let Some(row) = state.read.log_records(position).next() else { break };
        let (found, encoded) = row?;
        read_bytes += encoded.len();
        let damaged = || OperationError::Damaged(format!("record {found} of the log cannot be read"));
        let record = Record::decode(encoded).ok_or_else(damaged)?;
        if let Some(change) = reading.change(found, &record)? {
            bytes += size_of(&change);
            answer.changes.push(change);
        }
        position -= 1;
    }
    answer.next = if position < first { 0 } else { position + 1 };
    Ok(answer)
}

fn size_of(change: &HistoryChange) -> usize {
    let of_values =
        |values: &HistoryValues| values.values.iter().map(|value| value.len() + 16).sum::<usize>();
    128 + change.values.iter().map(of_values).sum::<usize>()
}

/// Subject of a history, and the rights of the requester.
struct Reading<'s> {
    state: TreeState<'s>,
    /// The entry; `None` for the history of the settings.
    id: Option<EntryId>,
    effective: EffectiveRights,
    /// Rights at the entry; `None` if no rules restrict the requester.
    rights: Option<std::sync::Arc<EntryRights>>,
}

impl<'s> Reading<'s> {
    fn begin(state: TreeState<'s>, context: &RequestContext<'_>, entry: &str) -> Result<Reading<'s>> {
        let effective = EffectiveRights::of(state, context)?;
        let schema = &state.catalog.schema;
        let dn = parse_dn(entry)?;
        let name = NormalName::of(&dn, schema);
        let config = NormalName::of(&parse_dn(CONFIG_DN)?, schema);
        if name.key == config.key && effective.is_administrator() {
            return Ok(Reading { state, id: None, effective, rights: None });
        }
        let located = locate_name(state, &dn, &name, true);
        let target = effective.permitted(state, entry, located)?;
        let rights = effective.at_visible(state, target.id, entry)?;
        Ok(Reading { state, id: Some(target.id), effective, rights })
    }

    fn change(&self, position: u64, record: &Record) -> Result<Option<HistoryChange>> {
        let Some((kind, name)) = self.kind_of(&record.change) else { return Ok(None) };
        let mut values = match &record.change {
            Change::Add(add) => {
                let added = add.values.iter();
                self.all(added.map(|(attribute, values)| (HistoryEffect::Replaced, *attribute, values)))?
            }
            Change::Modify(modify) => self.changes(&modify.changes)?,
            Change::ModifyDn(rename) => self.changes(&rename.changes)?,
            Change::Settings(settings) => self.settings(settings),
            _ => Vec::new(),
        };
        let old = record.origin.old_values.iter();
        values.extend(self.all(old.map(|(attribute, values)| (HistoryEffect::Before, *attribute, values)))?);
        Ok(Some(HistoryChange {
            position,
            micros: record.csn.micros,
            kind,
            requester: record.requester.clone(),
            name: if self.rights.is_none() { name.to_owned() } else { String::new() },
            values,
        }))
    }

    /// Returns the kind of a change and the DN in its record; `None` if the change does not affect the subject.
    fn kind_of<'r>(&self, change: &'r Change) -> Option<(HistoryKind, &'r str)> {
        let Some(own) = self.id else {
            return matches!(change, Change::Settings(_)).then_some((HistoryKind::Settings, CONFIG_DN));
        };
        let (kind, id, name) = match change {
            Change::Add(add) => (HistoryKind::Add, add.id, &add.dn),
            Change::Modify(modify) => (HistoryKind::Modify, modify.id, &modify.dn),
            Change::ModifyDn(rename) => (HistoryKind::Rename, rename.id, &rename.old_dn),
            Change::Delete(delete) => (HistoryKind::Delete, delete.id, &delete.dn),
            Change::DeleteTree(tree) => {
                let is_below = tree.below.iter().any(|below| below.id == own);
                (HistoryKind::Delete, if is_below { own } else { tree.top }, &tree.dn)
            }
            Change::Undelete(back) => {
                let is_back = back.entries.contains(&own);
                (HistoryKind::Undelete, if is_back { own } else { EntryId::ROOT }, &back.dn)
            }
            _ => return None,
        };
        (id == own).then_some((kind, name.as_str()))
    }

    fn changes(&self, changes: &[ValueChange]) -> Result<Vec<HistoryValues>> {
        let mut all = Vec::new();
        for change in changes {
            let (fate, end) = match change.kind {
                ValueChangeKind::Add => (HistoryEffect::Added, None),
                ValueChangeKind::Remove => (HistoryEffect::Removed, None),
                ValueChangeKind::Replace => (HistoryEffect::Replaced, None),
                ValueChangeKind::Until(0) => (HistoryEffect::Until, Some(String::new())),
                ValueChangeKind::Until(end) => (HistoryEffect::Until, Some(generalized_time(end))),
            };
            for mut values in self.all([(fate, change.attribute, &change.values)].into_iter())? {
                values.values.splice(0..0, end.clone().map(String::into_bytes));
                all.push(values);
            }
        }
        Ok(all)
    }

    fn all<'v>(
        &self,
        changes: impl Iterator<Item = (HistoryEffect, AttrId, &'v Vec<Value>)>,
    ) -> Result<Vec<HistoryValues>> {
        let (mut all, mut bytes) = (Vec::new(), 0);
        for (fate, attribute, values) in changes {
            let Some(known) = self.state.catalog.attributes().get(attribute.0 as usize) else { continue };
            let is_readable =
                self.rights.as_ref().is_none_or(|rights| rights.may_read(known.description.type_id));
            if STAMPS.contains(&known.name.as_str()) || !is_readable {
                continue;
            }
            let is_secret = known.secrecy != Secrecy::Open;
            let (mut shown, mut is_whole) = (Vec::new(), !is_secret);
            for value in values.iter().filter(|_| !is_secret) {
                match self.value(value)? {
                    Some(octets) if bytes + octets.len() <= HISTORY_BYTES_MAX => {
                        bytes += octets.len();
                        shown.push(known.value_text(&self.state.catalog.schema, &octets).into_owned());
                    }
                    _ => is_whole = false,
                }
            }
            all.push(HistoryValues { fate, attribute: known.name.clone(), is_whole, values: shown });
        }
        Ok(all)
    }

    /// Returns a value as octets. For a link, returns the current DN of the entry that it names, or `None` if that
    /// entry does not exist or the requester may not see it.
    fn value(&self, value: &Value) -> Result<Option<Vec<u8>>> {
        match value {
            Value::Bytes(octets) => Ok(Some(octets.clone())),
            Value::Link(id) if self.effective.may_browse(self.state, *id)? => {
                Ok(self.state.dn(*id)?.map(String::into_bytes))
            }
            Value::Link(_) => Ok(None),
        }
    }

    /// Returns the settings in a record: the key and the text of each.
    fn settings(&self, record: &SettingsRecord) -> Vec<HistoryValues> {
        let whole = |attribute: String, text: String| HistoryValues {
            fate: HistoryEffect::Replaced,
            attribute,
            is_whole: true,
            values: vec![text.into_bytes()],
        };
        let mut all = Vec::new();
        if let Some(suffixes) = &record.suffixes {
            let names: Vec<&str> = suffixes.iter().map(|(_, dn)| dn.as_str()).collect();
            all.push(whole("suffixes".to_owned(), format!("{names:?}")));
        }
        for (attribute, kinds) in &record.indexes {
            let known = self.state.catalog.attributes().get(attribute.0 as usize);
            let name = known.map_or("", |known| known.name.as_str());
            let kinds = if kinds.is_none() { String::new() } else { kinds.to_string() };
            all.push(whole(format!("indexes.{name}"), kinds));
        }
        for (name, text) in record.schema.iter().flatten() {
            all.push(whole(format!("schema.{name}"), format!("{} lines", text.lines().count())));
        }
        if let Some(general) = &record.general {
            let settings = GENERAL.iter();
            all.extend(
                settings.map(|setting| whole(setting.key.to_owned(), setting.value(general).to_string())),
            );
        }
        all
    }
}
