//! Deleted entries as search results.

use ldap::Dn;
use uuid::Uuid;

use crate::catalog::AttributeDef;
use crate::filter::Target;
use crate::model::limits::TOMBSTONE_RESULT_MAX;
use crate::model::outcome::OperationError;
use crate::model::record::Value;
use crate::model::rows::{DELETED, EntryId};
use crate::model::tombstone::{Tombstone, TombstonePlace, delete_prefix};
use crate::model::virtual_entries::VirtualEntry;
use crate::tree::{TreeState, damaged_row};

type Result<T> = std::result::Result<T, OperationError>;

/// Selects the values of a link attribute that are resolved to DNs.
#[derive(Clone, Copy)]
pub(crate) enum Links<'t> {
    None,
    All,
    /// Only values that may be equal to one of these DNs.
    Named(&'t [&'t Target]),
}

/// A deleted entry, with the DN that it would have if it had not been deleted.
pub(crate) struct Deleted<'s> {
    /// Tombstone without the values.
    pub(crate) head: Tombstone,
    /// DN of the entry. If the whole entry is shown and its superior exists, this DN is below the superior's current
    /// DN.
    pub(crate) former_dn: String,
    place: TombstonePlace,
    row: &'s [u8],
    is_whole: bool,
}

impl<'s> Deleted<'s> {
    /// Reads a tombstone. Unless `is_whole`, the entry has no values, and its DN is the DN stored in the tombstone, as
    /// in the list of deleted entries.
    pub(crate) fn of(
        state: TreeState<'s>,
        (place, row): (TombstonePlace, &'s [u8]),
        is_whole: bool,
    ) -> Result<Deleted<'s>> {
        let head = Tombstone::decode_head(row).ok_or_else(|| damaged_row("deleted", place.id))?;
        let above = match is_whole && head.parent != EntryId::ROOT {
            true => state.dn(head.parent)?,
            false => None,
        };
        let former_dn = above.map_or_else(|| head.dn.clone(), |above| format!("{},{above}", head.rdn));
        Ok(Deleted { head, former_dn, place, row, is_whole })
    }

    /// Returns the number of octets of the row that must be decoded to show the entry.
    pub(crate) fn cost(&self) -> usize {
        if self.is_whole { self.row.len().min(TOMBSTONE_RESULT_MAX) } else { self.former_dn.len() }
    }

    /// Returns the entry for results. If its row has more than [`TOMBSTONE_RESULT_MAX`] octets, the returned entry has
    /// no values. `wanted` selects values of link attributes, because each of these values costs a lookup.
    pub(crate) fn entry<'t>(
        &self,
        state: TreeState<'_>,
        wanted: impl Fn(&AttributeDef) -> Links<'t>,
    ) -> Result<VirtualEntry> {
        let uuid = Uuid::from_bytes(self.head.uuid).to_string();
        let above = Dn::parse(&self.former_dn).ok().and_then(|dn| {
            let rdns: Vec<&str> = dn.rdns().skip(dn_depth(&self.head.rdn)).map(|rdn| rdn.text).collect();
            (!rdns.is_empty()).then(|| rdns.join(","))
        });
        let mut entry = VirtualEntry::new(format!("entryUUID={uuid},{}", self.former_dn))
            .with("isDeleted", ["TRUE"])
            .with("lastKnownParent", above);
        if !self.is_whole || self.row.len() > TOMBSTONE_RESULT_MAX {
            return Ok(entry.with("entryUUID", [uuid]).with_operational());
        }
        let whole = Tombstone::decode(self.row).ok_or_else(|| damaged_row("deleted", self.place.id))?;
        for (attribute, values) in &whole.values {
            let def = state.catalog.attribute(*attribute);
            let links = if def.is_link { wanted(def) } else { Links::All };
            if matches!(links, Links::None) {
                continue;
            }
            let others_are_deleted = match links {
                Links::Named(_) => self.is_of_tree(state)?,
                _ => true,
            };
            let mut texts = Vec::with_capacity(values.len());
            for value in values {
                match value {
                    Value::Bytes(text) => {
                        texts.push(def.value_text(&state.catalog.schema, text).into_owned());
                    }
                    Value::Link(target) => match links {
                        Links::Named(names) if names.iter().all(|name| name.entry != Some(*target)) => {
                            // The value names none of the existing entries that the filter names. The value can still
                            // equal a DN in the filter if it names a deleted entry, because the former DN of that entry
                            // is compared.
                            if others_are_deleted {
                                texts.extend(self.deleted_target(state, *target)?);
                            }
                        }
                        _ => texts.extend(self.target(state, *target)?),
                    },
                }
            }
            entry = entry.with(&def.name, texts);
        }
        Ok(entry.with_operational())
    }

    /// Returns the DN to show for a value that names the entry `id`: the current DN of `id` or, if the request that
    /// deleted this entry also deleted `id`, the DN that `id` had then. Otherwise returns `None`.
    fn target(&self, state: TreeState<'_>, id: EntryId) -> Result<Option<Vec<u8>>> {
        match state.dn(id)? {
            Some(dn) => Ok(Some(dn.into_bytes())),
            None => self.deleted_target(state, id),
        }
    }

    /// Returns the DN that the entry `id` had when the request that deleted this entry deleted `id` too.
    fn deleted_target(&self, state: TreeState<'_>, id: EntryId) -> Result<Option<Vec<u8>>> {
        let place = TombstonePlace { position: self.place.position, id };
        let Some(row) = state.read.get(DELETED, &place.key())? else { return Ok(None) };
        let head = Tombstone::decode_head(row).ok_or_else(|| damaged_row("deleted", id))?;
        Ok(Some(head.dn.into_bytes()))
    }

    /// Returns true if the request that deleted this entry also deleted other entries whose tombstones are kept.
    fn is_of_tree(&self, state: TreeState<'_>) -> Result<bool> {
        let prefix = delete_prefix(self.place.position);
        let mut rows = state.read.scan_below(DELETED, &prefix).take(2);
        Ok(rows.try_fold(0, |count, row| row.map(|_| count + 1))? > 1)
    }
}

/// Returns the number of RDNs that a tombstone stores as the RDN of its entry. For a suffix entry, this number may be
/// greater than one.
fn dn_depth(rdn: &str) -> usize {
    Dn::parse(rdn).map_or(1, |dn| dn.len())
}
