//! Records of the log: validated effects, not requests.
//!
//! A record contains the new state of entries. Its attribute and class set numbers were allocated in the log itself,
//! so that [`crate::write::apply`] needs no schema check and cannot refuse the record. Passwords appear only in stored
//! form. Links appear as entry ids, which do not change with renames.
//!
//! Encoding: version (1 octet), kind (1 octet), CSN text, requester's DN, attributes allocated, class sets allocated
//! (as in `meta`), in version 2 the [`Origin`], then the fields of the kind. Numbers are varints. A text is preceded by
//! its length, a list by its number of items. The store adds the position and a crc32c.
//!
//! ```text
//!  1 add            entry id, parent id, RDN, DN, class set, flags (1), attributes with their values
//!  2 modify         entry id, DN, class set, flags (1), value changes
//!  3 delete         entry id, DN, link attributes whose values are removed; the last value of a required attribute
//!                   becomes the text of the DN
//!  4 modify DN      entry id, old DN, parent id, RDN, value changes
//!  5 suffix         DN; written only by an import, for an existing suffix
//!  6 index          attribute, for equality and ordering (read only)
//!  7 administrator  password in stored form
//!  8 index          attribute, kinds (1), 0 for none (read only)
//!  9 settings       parts that are present (1: 1 schema, 2 suffixes, 4 settings), then each: schema texts and settings
//!                   as in `meta`, suffixes as numbers and DNs; between suffixes and settings, indexes as attributes
//!                   and kinds (1); at the end, if rules of `auto_members` were added, the list of kind 20
//! 10 delete tree    entry id, DN, the entries below (entry id, RDN, number of the superior: 0 for the first entry, n
//!                   for the nth below), link attributes whose values are removed; last values as in 3
//! 11, 12            as 3 and 10, but such a last value becomes the empty DN
//! 13, 14            as 11 and 12, and a tombstone of each entry is kept
//! 15 undelete       position of the delete, DN and parent id of the first entry, entry ids, each after its superior,
//!                   value changes of each entry
//! 16 forget         position and entry id of the last tombstone that is removed
//! 17, 18            as 11 and 12, then flags (1: 1 a tombstone is kept), entryUUIDs (16 each, superiors last), ids of
//!                   the entries that named a deleted entry; written if neither list has more than 1,000 members
//! 19 add            as 1, then value changes that set the ends of values
//! 20 joins          pending rules of `auto_members`: text, entry id examined last, number of entries that joined,
//!                   reason of a refusal, empty for none
//! 21 links          entry ids whose plain values become links, entry id examined last, whether none is left (1)
//! ```
//!
//! A value is `00` with a length and bytes, or `01` with the id of the entry that it links to. A value change is an
//! attribute, a kind and values. The kinds are 0 add, 1 remove, 2 replace and 3 end time. Kind 3 is followed by the end
//! time in seconds since 1970, or 0 for none.

use crate::catalog::{AttributeAllocation, ClassSetAllocation};
use crate::model::codec::{Decoder, put_bytes, put_list, put_varint};
use crate::model::csn::Csn;
pub use crate::model::delete_trace::DeleteTrace;
use crate::model::index_definition::IndexKinds;
use crate::model::limits::TREE_DEPTH_MAX;
pub use crate::model::link_progress::LinkStep;
use crate::model::origin::Origin;
use crate::model::pending_join::{PendingJoin, put_joins, take_joins};
pub use crate::model::record_value::Value;
use crate::model::record_value::{put_value, take_value};
use crate::model::rows::{AttrId, ClassSetId, EntryId, NodeFlags};
use crate::model::settings::SettingsRecord;

/// Version of the encoding. Readers refuse unknown versions.
pub const RECORD_VERSION: u8 = 1;

/// Version of the encoding with an [`Origin`].
pub const RECORD_VERSION_WITH_ORIGIN: u8 = 2;

/// A change and its requester.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Change sequence number. CSNs increase along the log.
    pub csn: Csn,
    /// DN of the requester; empty for an anonymous client and for the server itself.
    pub requester: String,
    /// Attributes to which the record allocates numbers, because no entry had them.
    pub attributes: Vec<AttributeAllocation>,
    /// Class sets to which the record allocates numbers, because no entry had them.
    pub class_sets: Vec<ClassSetAllocation>,
    /// Origin of the change.
    pub origin: Origin,
    /// The effect.
    pub change: Change,
}

/// The effect of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a record is made, written and gone; few are of settings")]
pub enum Change {
    /// Adds an entry.
    Add(Add),
    /// Changes values of an entry.
    Modify(Modify),
    /// Deletes an entry without subordinates.
    Delete(Delete),
    /// Deletes an entry and everything below it.
    DeleteTree(DeleteTree),
    /// Renames or moves an entry, with everything below it.
    ModifyDn(ModifyDn),
    /// Adds a naming context. The suffix entry is added by another record.
    Suffix {
        /// DN of the naming context, with attribute names in the schema's spelling.
        dn: String,
    },
    /// Changes directory-wide settings. A new index covers changes of entries from then on. The rows of existing
    /// entries are built in slices; see [`crate::index::maintenance`].
    Settings(SettingsRecord),
    /// Sets the pending rules of `auto_members`.
    Joins(Vec<PendingJoin>),
    /// Converts plain values of entries to links, because the definition of their type received `X-LINK`.
    Links(LinkStep),
    /// Sets the administrator's password.
    Administrator {
        /// The password in stored form.
        stored: Vec<u8>,
    },
    /// Restores deleted entries.
    Undelete(Undelete),
    /// Removes all tombstones up to and including the given one.
    Purge {
        /// Position of the delete that created the tombstone.
        position: u64,
        /// Entry of the tombstone.
        id: EntryId,
    },
}

/// Contents of [`Change::Add`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Add {
    /// The new entry.
    pub id: EntryId,
    /// Superior of the new entry.
    pub parent: EntryId,
    /// RDN with attribute names in the schema's spelling. A suffix entry has all RDNs of the suffix.
    pub rdn: String,
    /// DN, for readers of the log.
    pub dn: String,
    /// Object classes.
    pub class_set: ClassSetId,
    /// Flags: alias, referral, subentry.
    pub flags: NodeFlags,
    /// All stored attributes, including operational ones.
    pub values: Vec<(AttrId, Vec<Value>)>,
    /// End times of values of link attributes, as changes of the kind [`ValueChangeKind::Until`].
    pub ends: Vec<ValueChange>,
}

/// Contents of [`Change::Modify`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modify {
    /// The entry.
    pub id: EntryId,
    /// DN, for readers of the log.
    pub dn: String,
    /// Object classes after the change.
    pub class_set: ClassSetId,
    /// Flags after the change: alias, referral, subentry.
    pub flags: NodeFlags,
    /// Changes of values.
    pub changes: Vec<ValueChange>,
}

/// Contents of [`Change::Delete`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delete {
    /// The entry.
    pub id: EntryId,
    /// DN before the deletion. Links to the entry become this text.
    pub dn: String,
    /// Link attributes whose values are removed if they name the deleted entry: the attributes in the setting
    /// `integrity_attributes` at the time of the delete.
    pub vanishing: Vec<AttrId>,
    /// Replacement of a removed value, if this value was the last value of an attribute that the object classes of the
    /// entry require.
    pub last: LastValue,
    /// Whether a [`Tombstone`](crate::model::tombstone::Tombstone) of the entry is kept. Always false with
    /// [`LastValue::DeletedDn`].
    pub is_kept: bool,
    /// Trace for clients that keep copies of entries. `None` in records of earlier builds, with
    /// [`LastValue::DeletedDn`], and if the trace would be too large.
    pub trace: Option<DeleteTrace>,
}

/// Replacement of the last value of a required link attribute. The replacement is used if the entry that the value
/// names is deleted, and the attribute is one of `integrity_attributes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastValue {
    /// The DN of the deleted entry. Earlier builds write this form in records, and so do clusters as long as one node
    /// runs an earlier build. If an entry with this DN is added later, the value names the new entry.
    DeletedDn,
    /// The empty DN, which no entry can have.
    EmptyDn,
}

/// Contents of [`Change::DeleteTree`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteTree {
    /// The entry.
    pub top: EntryId,
    /// DN before the deletion.
    pub dn: String,
    /// The entries below the top entry, each after its superior.
    pub below: Vec<Below>,
    /// Link attributes as in [`Delete::vanishing`].
    pub vanishing: Vec<AttrId>,
    /// Replacement as in [`Delete::last`].
    pub last: LastValue,
    /// Whether a tombstone of each deleted entry is kept; see [`Delete::is_kept`].
    pub is_kept: bool,
    /// Trace as in [`Delete::trace`].
    pub trace: Option<DeleteTrace>,
}

/// An entry below the top of a [`DeleteTree`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Below {
    /// The entry.
    pub id: EntryId,
    /// RDN before the deletion, with attribute names in the schema's spelling.
    pub rdn: String,
    /// Superior of the entry: 0 for the top entry, n for the nth entry of [`DeleteTree::below`], counted from 1.
    pub superior: u32,
}

impl DeleteTree {
    /// Returns the deleted entries with their DNs. Each entry precedes its superior.
    pub fn entries(&self) -> Vec<(EntryId, String)> {
        let mut entries = Vec::with_capacity(1 + self.below.len());
        entries.push((self.top, self.dn.clone()));
        for Below { id, rdn, superior } in &self.below {
            let above = entries.get(*superior as usize).map_or("", |(_, dn)| dn);
            let dn = [rdn, ",", above].concat();
            entries.push((*id, dn));
        }
        entries.reverse();
        entries
    }
}

/// Contents of [`Change::ModifyDn`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModifyDn {
    /// The entry.
    pub id: EntryId,
    /// DN before the change, for readers of the log.
    pub old_dn: String,
    /// Superior after the change.
    pub parent: EntryId,
    /// RDN after the change, with attribute names in the schema's spelling.
    pub rdn: String,
    /// Changes of values that accompany the new name: for example, naming values and modifyTimestamp.
    pub changes: Vec<ValueChange>,
}

/// Contents of [`Change::Undelete`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undelete {
    /// Position of the delete.
    pub position: u64,
    /// DN of the first entry after it is restored.
    pub dn: String,
    /// Superior of the first entry after it is restored. Each other entry is restored below its former superior.
    pub parent: EntryId,
    /// The entries, each after its superior.
    pub entries: Vec<EntryId>,
    /// Changes of values in each entry: for example, modifyTimestamp. Only dynamic entries get entryExpireTimestamp.
    pub changes: Vec<ValueChange>,
}

/// Change of the values of one attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueChange {
    /// The attribute.
    pub attribute: AttrId,
    /// Kind of the change.
    pub kind: ValueChangeKind,
    /// The values. A removal lists only values that the entry had. `Replace` without values removes the attribute.
    pub values: Vec<Value>,
}

/// Kind of a change of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueChangeKind {
    /// Adds values after the existing ones.
    Add,
    /// Removes values.
    Remove,
    /// Replaces all values.
    Replace,
    /// Sets the end time of values of a link attribute, in seconds since 1970; 0 for none.
    Until(u64),
}

impl Record {
    /// Returns the encoded record.
    pub fn encode(&self) -> Vec<u8> {
        // Initial capacity, which suffices for most records.
        let mut out = Vec::with_capacity(1_024);
        let has_origin = !self.origin.is_empty();
        let version = if has_origin { RECORD_VERSION_WITH_ORIGIN } else { RECORD_VERSION };
        out.extend_from_slice(&[version, self.change.kind()]);
        put_bytes(&mut out, self.csn.text().as_bytes());
        put_bytes(&mut out, self.requester.as_bytes());
        put_list(&mut out, &self.attributes, |out, allocation| allocation.encode(out));
        put_list(&mut out, &self.class_sets, |out, allocation| allocation.encode(out));
        if has_origin {
            self.origin.encode(&mut out);
        }
        self.change.encode(&mut out);
        out
    }

    /// Decodes a record; `None` if it is damaged or of an unknown version.
    pub fn decode(bytes: &[u8]) -> Option<Record> {
        let mut decoder = Decoder(bytes);
        let version = decoder.byte()?;
        if ![RECORD_VERSION, RECORD_VERSION_WITH_ORIGIN].contains(&version) {
            return None;
        }
        let kind = decoder.byte()?;
        let record = Record {
            csn: Csn::parse(decoder.str()?)?,
            requester: decoder.string()?,
            attributes: decoder.list(AttributeAllocation::decode)?,
            class_sets: decoder.list(ClassSetAllocation::decode)?,
            origin: match version {
                RECORD_VERSION_WITH_ORIGIN => Origin::decode(&mut decoder)?,
                _ => Origin::default(),
            },
            change: Change::decode(kind, &mut decoder)?,
        };
        decoder.is_empty().then_some(record)
    }
}

impl Change {
    /// Sets the replacement of last values in a record of a delete. If `may_keep` is false, the delete creates no
    /// tombstones. If `may_trace` is false, or `value` is [`LastValue::DeletedDn`], the delete's trace is dropped. Does
    /// nothing for other changes.
    pub(crate) fn set_form_of_delete(&mut self, value: LastValue, may_keep: bool, may_trace: bool) {
        match self {
            Change::Delete(Delete { last, is_kept, trace, .. })
            | Change::DeleteTree(DeleteTree { last, is_kept, trace, .. }) => {
                *last = value;
                *is_kept &= may_keep;
                if !may_trace || value == LastValue::DeletedDn {
                    *trace = None;
                }
            }
            _ => {}
        }
    }

    /// Returns true if the change sets end times of values. Earlier builds cannot read such a record.
    pub(crate) fn has_ends(&self) -> bool {
        let is_end = |change: &ValueChange| matches!(change.kind, ValueChangeKind::Until(_));
        match self {
            Change::Add(add) => !add.ends.is_empty(),
            Change::Modify(modify) => modify.changes.iter().any(is_end),
            _ => false,
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Change::Add(Add { ends, .. }) if !ends.is_empty() => 19,
            Change::Add(_) => 1,
            Change::Modify(_) => 2,
            Change::Delete(Delete { last: LastValue::DeletedDn, .. }) => 3,
            Change::Delete(Delete { trace: Some(_), .. }) => 17,
            Change::Delete(Delete { is_kept: true, .. }) => 13,
            Change::Delete(_) => 11,
            Change::DeleteTree(DeleteTree { last: LastValue::DeletedDn, .. }) => 10,
            Change::DeleteTree(DeleteTree { trace: Some(_), .. }) => 18,
            Change::DeleteTree(DeleteTree { is_kept: true, .. }) => 14,
            Change::DeleteTree(_) => 12,
            Change::Undelete(_) => 15,
            Change::Purge { .. } => 16,
            Change::Joins(_) => 20,
            Change::Links(_) => 21,
            Change::ModifyDn(_) => 4,
            Change::Suffix { .. } => 5,
            Change::Settings(_) => 9,
            Change::Administrator { .. } => 7,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Change::Add(add) => {
                put_varint(out, add.id.0);
                put_varint(out, add.parent.0);
                put_bytes(out, add.rdn.as_bytes());
                put_bytes(out, add.dn.as_bytes());
                put_varint(out, u64::from(add.class_set.0));
                out.push(add.flags.0);
                put_list(out, &add.values, |out, (attribute, values)| {
                    put_varint(out, u64::from(attribute.0));
                    put_list(out, values, put_value);
                });
                if !add.ends.is_empty() {
                    put_list(out, &add.ends, put_value_change);
                }
            }
            Change::Modify(modify) => {
                put_varint(out, modify.id.0);
                put_bytes(out, modify.dn.as_bytes());
                put_varint(out, u64::from(modify.class_set.0));
                out.push(modify.flags.0);
                put_list(out, &modify.changes, put_value_change);
            }
            Change::Delete(delete) => {
                put_varint(out, delete.id.0);
                put_bytes(out, delete.dn.as_bytes());
                put_list(out, &delete.vanishing, |out, attribute| put_varint(out, u64::from(attribute.0)));
                put_trace(out, delete.is_kept, delete.trace.as_ref());
            }
            Change::DeleteTree(tree) => {
                put_varint(out, tree.top.0);
                put_bytes(out, tree.dn.as_bytes());
                put_list(out, &tree.below, |out, below| {
                    put_varint(out, below.id.0);
                    put_bytes(out, below.rdn.as_bytes());
                    put_varint(out, u64::from(below.superior));
                });
                put_list(out, &tree.vanishing, |out, attribute| put_varint(out, u64::from(attribute.0)));
                put_trace(out, tree.is_kept, tree.trace.as_ref());
            }
            Change::ModifyDn(rename) => {
                put_varint(out, rename.id.0);
                put_bytes(out, rename.old_dn.as_bytes());
                put_varint(out, rename.parent.0);
                put_bytes(out, rename.rdn.as_bytes());
                put_list(out, &rename.changes, put_value_change);
            }
            Change::Suffix { dn } => put_bytes(out, dn.as_bytes()),
            Change::Settings(settings) => settings.encode(out),
            Change::Administrator { stored } => put_bytes(out, stored),
            Change::Undelete(undelete) => {
                put_varint(out, undelete.position);
                put_bytes(out, undelete.dn.as_bytes());
                put_varint(out, undelete.parent.0);
                put_list(out, &undelete.entries, |out, id| put_varint(out, id.0));
                put_list(out, &undelete.changes, put_value_change);
            }
            Change::Purge { position, id } => {
                put_varint(out, *position);
                put_varint(out, id.0);
            }
            Change::Joins(list) => put_joins(out, list),
            Change::Links(step) => step.encode(out),
        }
    }

    fn decode(kind: u8, decoder: &mut Decoder<'_>) -> Option<Change> {
        Some(match kind {
            1 | 19 => Change::Add(Add {
                id: EntryId(decoder.varint()?),
                parent: EntryId(decoder.varint()?),
                rdn: decoder.string()?,
                dn: decoder.string()?,
                class_set: ClassSetId(decoder.number()?),
                flags: NodeFlags(decoder.byte()?),
                values: decoder.list(|d| Some((AttrId(d.number()?), d.list(take_value)?)))?,
                ends: match kind {
                    19 => decoder.list(take_value_change)?,
                    _ => Vec::new(),
                },
            }),
            2 => Change::Modify(Modify {
                id: EntryId(decoder.varint()?),
                dn: decoder.string()?,
                class_set: ClassSetId(decoder.number()?),
                flags: NodeFlags(decoder.byte()?),
                changes: decoder.list(take_value_change)?,
            }),
            3 | 11 | 13 | 17 => Change::Delete(take_delete(decoder, kind)?),
            10 | 12 | 14 | 18 => Change::DeleteTree(take_tree(decoder, kind)?),
            15 => Change::Undelete(Undelete {
                position: decoder.varint()?,
                dn: decoder.string()?,
                parent: EntryId(decoder.varint()?),
                entries: decoder.list(|d| Some(EntryId(d.varint()?)))?,
                changes: decoder.list(take_value_change)?,
            }),
            16 => Change::Purge { position: decoder.varint()?, id: EntryId(decoder.varint()?) },
            20 => Change::Joins(take_joins(decoder)?),
            21 => Change::Links(LinkStep::decode(decoder)?),
            4 => Change::ModifyDn(ModifyDn {
                id: EntryId(decoder.varint()?),
                old_dn: decoder.string()?,
                parent: EntryId(decoder.varint()?),
                rdn: decoder.string()?,
                changes: decoder.list(take_value_change)?,
            }),
            5 => Change::Suffix { dn: decoder.string()? },
            // An index record of the first versions of the program, for equality and ordering.
            6 => index(AttrId(decoder.number()?), IndexKinds::EQUALITY.with(IndexKinds::ORDERING)),
            8 => index(AttrId(decoder.number()?), IndexKinds::from_bits(decoder.byte()?)?),
            9 => Change::Settings(SettingsRecord::decode(decoder)?),
            7 => Change::Administrator { stored: decoder.bytes()?.to_vec() },
            _ => return None,
        })
    }
}

/// Appends the flags and the trace of a delete that has a trace. Without a trace, the kind of the record shows whether
/// tombstones are kept.
fn put_trace(out: &mut Vec<u8>, is_kept: bool, trace: Option<&DeleteTrace>) {
    if let Some(trace) = trace {
        out.push(u8::from(is_kept));
        trace.encode(out);
    }
}

/// Decodes whether tombstones are kept, and the trace, in a delete record of this kind.
fn take_trace(decoder: &mut Decoder<'_>, kind: u8) -> Option<(bool, Option<DeleteTrace>)> {
    match kind {
        17 | 18 => match decoder.byte()? {
            kept @ (0 | 1) => Some((kept == 1, Some(DeleteTrace::decode(decoder)?))),
            _ => None,
        },
        _ => Some(([13, 14].contains(&kind), None)),
    }
}

fn take_delete(decoder: &mut Decoder<'_>, kind: u8) -> Option<Delete> {
    let (id, dn) = (EntryId(decoder.varint()?), decoder.string()?);
    let vanishing = decoder.list(|d| Some(AttrId(d.number()?)))?;
    let last = if kind == 3 { LastValue::DeletedDn } else { LastValue::EmptyDn };
    let (is_kept, trace) = take_trace(decoder, kind)?;
    Some(Delete { id, dn, vanishing, last, is_kept, trace })
}

fn take_tree(decoder: &mut Decoder<'_>, kind: u8) -> Option<DeleteTree> {
    let (top, dn) = (EntryId(decoder.varint()?), decoder.string()?);
    let below = |d: &mut Decoder<'_>| {
        Some(Below { id: EntryId(d.varint()?), rdn: d.string()?, superior: d.number()? })
    };
    let below: Vec<Below> = decoder.list(below)?;
    // Each entry must follow its superior, and the tree must not be deeper than TREE_DEPTH_MAX.
    let mut depths = vec![0];
    for Below { superior, .. } in &below {
        let depth = depths.get(*superior as usize)? + 1;
        if depth > TREE_DEPTH_MAX {
            return None;
        }
        depths.push(depth);
    }
    let vanishing = decoder.list(|d| Some(AttrId(d.number()?)))?;
    let last = if kind == 10 { LastValue::DeletedDn } else { LastValue::EmptyDn };
    let (is_kept, trace) = take_trace(decoder, kind)?;
    Some(DeleteTree { top, dn, below, vanishing, last, is_kept, trace })
}

fn index(attribute: AttrId, kinds: IndexKinds) -> Change {
    Change::Settings(SettingsRecord { indexes: vec![(attribute, kinds)], ..SettingsRecord::default() })
}

pub(crate) fn put_value_change(out: &mut Vec<u8>, change: &ValueChange) {
    put_varint(out, u64::from(change.attribute.0));
    match change.kind {
        ValueChangeKind::Add => out.push(0),
        ValueChangeKind::Remove => out.push(1),
        ValueChangeKind::Replace => out.push(2),
        ValueChangeKind::Until(until) => {
            out.push(3);
            put_varint(out, until);
        }
    }
    put_list(out, &change.values, put_value);
}

pub(crate) fn take_value_change(decoder: &mut Decoder<'_>) -> Option<ValueChange> {
    Some(ValueChange {
        attribute: AttrId(decoder.number()?),
        kind: match decoder.byte()? {
            0 => ValueChangeKind::Add,
            1 => ValueChangeKind::Remove,
            2 => ValueChangeKind::Replace,
            3 => ValueChangeKind::Until(decoder.varint()?),
            _ => return None,
        },
        values: decoder.list(take_value)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::settings::GeneralSettings;

    fn records() -> Vec<Record> {
        let values = vec![Value::Bytes(b"x".to_vec()), Value::Link(EntryId(9)), Value::Bytes(Vec::new())];
        let change = |kind| ValueChange { attribute: AttrId(300), kind, values: values.clone() };
        let changes = vec![
            change(ValueChangeKind::Add),
            change(ValueChangeKind::Remove),
            change(ValueChangeKind::Replace),
            change(ValueChangeKind::Until(1_798_761_600)),
        ];
        let (dn, rdn) = ("cn=a,dc=b".to_owned(), "cn=a".to_owned());
        let all = [
            Change::Add(Add {
                id: EntryId(5),
                parent: EntryId(1),
                rdn: rdn.clone(),
                dn: dn.clone(),
                class_set: ClassSetId(2),
                flags: NodeFlags(1),
                values: vec![(AttrId(0), values.clone())],
                ends: Vec::new(),
            }),
            Change::Add(Add {
                id: EntryId(5),
                parent: EntryId(1),
                rdn: rdn.clone(),
                dn: dn.clone(),
                class_set: ClassSetId(2),
                flags: NodeFlags(1),
                values: vec![(AttrId(300), values.clone())],
                ends: vec![change(ValueChangeKind::Until(1_798_761_600))],
            }),
            Change::Modify(Modify {
                id: EntryId(5),
                dn: dn.clone(),
                class_set: ClassSetId(2),
                flags: NodeFlags(0),
                changes: changes.clone(),
            }),
            Change::Delete(Delete {
                id: EntryId(5),
                dn: dn.clone(),
                vanishing: vec![AttrId(300)],
                last: LastValue::DeletedDn,
                is_kept: false,
                trace: None,
            }),
            Change::Delete(Delete {
                id: EntryId(5),
                dn: dn.clone(),
                vanishing: vec![AttrId(300)],
                last: LastValue::EmptyDn,
                is_kept: false,
                trace: None,
            }),
            Change::Delete(Delete {
                id: EntryId(5),
                dn: dn.clone(),
                vanishing: Vec::new(),
                last: LastValue::EmptyDn,
                is_kept: true,
                trace: None,
            }),
            Change::Delete(Delete {
                id: EntryId(5),
                dn: dn.clone(),
                vanishing: vec![AttrId(300)],
                last: LastValue::EmptyDn,
                is_kept: true,
                trace: Some(DeleteTrace { uuids: vec![[7; 16]], named_by: vec![EntryId(9), EntryId(300)] }),
            }),
            Change::DeleteTree(DeleteTree {
                top: EntryId(5),
                dn: dn.clone(),
                below: vec![Below { id: EntryId(6), rdn: "cn=b".to_owned(), superior: 0 }],
                vanishing: Vec::new(),
                last: LastValue::EmptyDn,
                is_kept: true,
                trace: None,
            }),
            Change::DeleteTree(DeleteTree {
                top: EntryId(5),
                dn: dn.clone(),
                below: vec![Below { id: EntryId(6), rdn: "cn=b".to_owned(), superior: 0 }],
                vanishing: Vec::new(),
                last: LastValue::EmptyDn,
                is_kept: true,
                trace: Some(DeleteTrace { uuids: vec![[7; 16], [8; 16]], named_by: vec![EntryId(9)] }),
            }),
            Change::Undelete(Undelete {
                position: 300,
                dn: dn.clone(),
                parent: EntryId(4),
                entries: vec![EntryId(5), EntryId(600)],
                changes: changes.clone(),
            }),
            Change::Purge { position: 300, id: EntryId(5) },
            Change::Links(LinkStep {
                entries: vec![EntryId(7), EntryId(9)],
                after: EntryId(300),
                is_last: true,
            }),
            Change::Joins(vec![PendingJoin {
                after: EntryId(300),
                joined: 7,
                ..PendingJoin::new("a: x".to_owned())
            }]),
            Change::DeleteTree(DeleteTree {
                top: EntryId(5),
                dn: dn.clone(),
                below: vec![
                    Below { id: EntryId(6), rdn: "cn=b".to_owned(), superior: 0 },
                    Below { id: EntryId(7), rdn: "cn=c".to_owned(), superior: 1 },
                ],
                vanishing: vec![AttrId(300)],
                last: LastValue::EmptyDn,
                is_kept: false,
                trace: None,
            }),
            Change::ModifyDn(ModifyDn {
                id: EntryId(5),
                old_dn: dn.clone(),
                parent: EntryId(0),
                rdn,
                changes,
            }),
            Change::Suffix { dn },
            index(AttrId(7), IndexKinds::SUBSTRING),
            Change::Settings(SettingsRecord {
                schema: Some([("local".to_owned(), "# nothing".to_owned())].into()),
                suffixes: Some(vec![(0, "dc=b".to_owned()), (300, "o=c".to_owned())]),
                indexes: Vec::new(),
                general: Some(GeneralSettings { size_limit: 7, ..GeneralSettings::default() }),
                joins: Some(vec![PendingJoin::new("b: y".to_owned())]),
            }),
            Change::Administrator { stored: b"{SSHA}x".to_vec() },
        ];
        let record = |change| Record {
            csn: Csn { micros: 1_700_000_000_000_001, count: 2, server: 0 },
            requester: "cn=admin".to_owned(),
            attributes: vec![AttributeAllocation {
                id: AttrId(4),
                oid: "2.5.4.3".to_owned(),
                options: "lang-en".to_owned(),
                rules: "a b c".to_owned(),
            }],
            class_sets: vec![ClassSetAllocation { id: ClassSetId(2), oids: vec!["2.5.6.0".to_owned()] }],
            origin: Origin::default(),
            change,
        };
        all.into_iter().map(record).collect()
    }

    #[test]
    fn decodes_index_records_of_the_first_versions_as_settings() {
        // The record contains an index: first in the form without kinds, which means equality and ordering, then with
        // kinds.
        let both = IndexKinds::EQUALITY.with(IndexKinds::ORDERING);
        for (kind, tail, kinds) in [(6, &[7][..], both), (8, &[7, 8], IndexKinds::SUBSTRING)] {
            let record =
                Record { change: Change::Administrator { stored: Vec::new() }, ..records().remove(0) };
            let mut bytes = record.encode();
            bytes[1] = kind;
            bytes.pop();
            bytes.extend_from_slice(tail);
            assert_eq!(Record::decode(&bytes).unwrap().change, index(AttrId(7), kinds));
        }
    }

    #[test]
    fn rejects_a_deleted_tree_deeper_than_the_limit() {
        let chain = |depth: usize| {
            let below = (0..depth).map(|place| Below {
                id: EntryId(place as u64 + 2),
                rdn: "cn=x".to_owned(),
                superior: place as u32,
            });
            let (below, vanishing, last) = (below.collect(), Vec::new(), LastValue::EmptyDn);
            let (dn, is_kept) = ("o=x".to_owned(), false);
            let trace = Some(DeleteTrace { uuids: vec![[7; 16]; 2], named_by: vec![EntryId(300)] });
            let tree = DeleteTree { top: EntryId(1), dn, below, vanishing, last, is_kept, trace };
            Record { change: Change::DeleteTree(tree), ..records().remove(0) }
        };
        let deepest = chain(TREE_DEPTH_MAX);
        assert_eq!(Record::decode(&deepest.encode()).as_ref(), Some(&deepest));
        let Change::DeleteTree(tree) = &deepest.change else { panic!("it is no tree") };
        let entries = tree.entries();
        assert_eq!(
            (entries[TREE_DEPTH_MAX].1.as_str(), entries[0].1.matches("cn=x,").count()),
            ("o=x", TREE_DEPTH_MAX)
        );
        assert_eq!(Record::decode(&chain(TREE_DEPTH_MAX + 1).encode()), None);
        // After the swap, an entry precedes its superior, so the record is refused.
        let mut turned = chain(2);
        let Change::DeleteTree(tree) = &mut turned.change else { panic!("it is no tree") };
        tree.below.swap(0, 1);
        assert_eq!(Record::decode(&turned.encode()), None);
    }

    #[test]
    fn records_round_trip_and_damage_never_panics() {
        let from = Origin { network: "10.0.0.1:1".to_owned(), epoch: Some(3), ..Origin::default() };
        let with_origin = records().into_iter().map(|record| Record { origin: from.clone(), ..record });
        for record in records().into_iter().chain(with_origin) {
            let bytes = record.encode();
            assert_eq!(bytes[0], if record.origin.is_empty() { 1 } else { 2 });
            assert_eq!(Record::decode(&bytes), Some(record));
            for end in 0..bytes.len() {
                assert_eq!(Record::decode(&bytes[..end]), None);
            }
        }
    }
}
