//! Resolution of DNs to entry ids and back, and superiors of entries.
//!
//! A DN is resolved with one lookup in `names` for each RDN below the suffix. A DN is built by following the parents in
//! `nodes`. No function of this module follows aliases or referrals. The result shows at which entry resolution
//! stopped, and the operation decides how to continue (see `search/base.rs` and `target.rs`).

pub(crate) mod collective;
pub(crate) mod dynamic_groups;
pub(crate) mod entry_rows;
pub mod operational;
pub(crate) mod referral;
pub mod stored_values;
pub(crate) mod structure;
pub mod target;
pub(crate) mod value_ends;

use ldap::Dn;
use schema::Schema;
use store::Read;

use crate::catalog::Catalog;
use crate::model::collective::CollectiveSubentries;
use crate::model::entry::EntryRow;
use crate::model::limits::TREE_DEPTH_MAX;
use crate::model::name::NormalName;
use crate::model::outcome::OperationError;
use crate::model::rows::{
    ENTRIES, EntryId, NAMES, NODES, NodeFlags, NodeRow, decode_name_row, id_key, name_key,
};
use crate::model::settings::Settings;

/// State that every operation reads: the rows at one position, their catalog, and the settings.
#[derive(Clone, Copy)]
pub struct TreeState<'a> {
    /// The rows.
    pub read: &'a Read,
    /// The catalog of the rows.
    pub catalog: &'a Catalog,
    /// Directory-wide settings.
    pub settings: &'a Settings,
    /// Subentries that give entries collective attributes (RFC 3671); `None` if entries have only their stored
    /// attributes.
    pub(crate) collective: Option<&'a CollectiveSubentries>,
}

/// Result of resolving a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The entry with the name.
    Entry(EntryId, NodeFlags),
    /// No entry has the name.
    Missing {
        /// The nearest existing superior and the number of RDNs that lead to it. `None` if not even the suffix entry
        /// exists.
        nearest: Option<(EntryId, NodeFlags, usize)>,
    },
}

impl<'a> TreeState<'a> {
    /// Returns the state for readers, in which entries have collective attributes.
    #[inline]
    pub(crate) fn of_readers(read: &'a Read, catalog: &'a Catalog, settings: &'a Settings) -> TreeState<'a> {
        TreeState { read, catalog, settings, collective: catalog.collective.as_deref() }
    }

    /// Returns the state in which entries have only their stored attributes.
    #[inline]
    pub(crate) fn stored(read: &'a Read, catalog: &'a Catalog, settings: &'a Settings) -> TreeState<'a> {
        TreeState { read, catalog, settings, collective: None }
    }

    /// Returns this state with other settings.
    pub fn with_settings(self, settings: &'a Settings) -> TreeState<'a> {
        TreeState { settings, ..self }
    }

    /// Returns this state without collective attributes: entries have only their stored attributes.
    #[inline]
    pub(crate) fn as_stored(self) -> TreeState<'a> {
        TreeState { collective: None, ..self }
    }
}

impl TreeState<'_> {
    /// Finds the entry with a name.
    pub fn find(&self, name: &NormalName) -> Result<Found, OperationError> {
        find(self.read, self.catalog, name)
    }

    /// Returns the entry with a name. The entry may be an alias, a referral or a subentry.
    pub(crate) fn entry_of(&self, name: &NormalName) -> Result<Option<EntryId>, OperationError> {
        Ok(match self.find(name)? {
            Found::Entry(id, _) => Some(id),
            Found::Missing { .. } => None,
        })
    }

    /// Returns the entry with a name. Returns `None` if no entry has the name, or if the entry is a referral.
    pub(crate) fn entry_here(&self, name: &NormalName) -> Result<Option<EntryId>, OperationError> {
        Ok(match self.find(name)? {
            Found::Entry(id, flags) if !flags.is_referral() => Some(id),
            Found::Entry(..) | Found::Missing { .. } => None,
        })
    }

    /// Returns the entry with this normal RDN one level below `parent`.
    pub fn child(
        &self,
        parent: EntryId,
        normal_rdn: &[u8],
    ) -> Result<Option<(EntryId, NodeFlags)>, OperationError> {
        child(self.read, parent, normal_rdn)
    }

    /// Returns the node row of an entry.
    pub fn node(&self, id: EntryId) -> Result<Option<NodeRow<'_>>, OperationError> {
        node(self.read, id)
    }

    /// Returns the DN of an entry; empty for [`EntryId::ROOT`], `None` if there is no such entry.
    pub fn dn(&self, id: EntryId) -> Result<Option<String>, OperationError> {
        dn_of(self.read, id)
    }

    /// Returns true if `id` is `ancestor` or lies below it.
    pub fn is_at_or_below(&self, id: EntryId, ancestor: EntryId) -> Result<bool, OperationError> {
        let mut at = id;
        for _ in 0..TREE_DEPTH_MAX {
            if at == ancestor {
                return Ok(true);
            }
            if at == EntryId::ROOT {
                return Ok(false);
            }
            let Some(node) = self.node(at)? else { return Ok(false) };
            at = node.parent;
        }
        Err(OperationError::Damaged(format!("the chain of parents of entry {} has no end", id.0)))
    }
}

/// Finds the entry with a name.
pub fn find(read: &Read, catalog: &Catalog, name: &NormalName) -> Result<Found, OperationError> {
    let Some(suffix) = catalog.suffix_above(&name.key) else {
        return Ok(Found::Missing { nearest: None });
    };
    let Some((mut id, mut flags)) = child(read, EntryId::ROOT, &suffix.key)? else {
        return Ok(Found::Missing { nearest: None });
    };
    for place in suffix.rdn_count..name.depth() {
        match child(read, id, name.rdn(place))? {
            Some(child) => (id, flags) = child,
            None => return Ok(Found::Missing { nearest: Some((id, flags, place)) }),
        }
    }
    if name.failure.is_some() {
        return Ok(Found::Missing { nearest: Some((id, flags, name.depth())) });
    }
    Ok(Found::Entry(id, flags))
}

/// Returns the entry with this normal RDN one level below `parent`.
pub fn child(
    read: &Read,
    parent: EntryId,
    normal_rdn: &[u8],
) -> Result<Option<(EntryId, NodeFlags)>, OperationError> {
    match read.get(NAMES, &name_key(parent, normal_rdn))? {
        None => Ok(None),
        Some(row) => decode_name_row(row).map(Some).ok_or_else(|| damaged_row("names", parent)),
    }
}

/// Returns the node row of an entry.
pub fn node(read: &Read, id: EntryId) -> Result<Option<NodeRow<'_>>, OperationError> {
    match read.get(NODES, &id_key(id))? {
        None => Ok(None),
        Some(row) => NodeRow::decode(row).map(Some).ok_or_else(|| damaged_row("nodes", id)),
    }
}

/// Returns the row with the attributes of an entry that exists.
#[inline]
pub(crate) fn entry_row(read: &Read, id: EntryId) -> Result<EntryRow<'_>, OperationError> {
    let bytes = read.get(ENTRIES, &id_key(id))?;
    bytes.and_then(EntryRow::decode).ok_or_else(|| damaged_row("entries", id))
}

/// Returns the DN of an entry; empty for [`EntryId::ROOT`], `None` if there is no such entry.
pub fn dn_of(read: &Read, id: EntryId) -> Result<Option<String>, OperationError> {
    // Most DNs fit into this capacity.
    let mut dn = String::with_capacity(96);
    let mut at = id;
    for _ in 0..TREE_DEPTH_MAX {
        if at == EntryId::ROOT {
            return Ok(Some(dn));
        }
        let Some(row) = node(read, at)? else { return Ok(None) };
        if !dn.is_empty() {
            dn.push(',');
        }
        dn.push_str(row.rdn_text().ok_or_else(|| damaged_row("nodes", at))?);
        at = row.parent;
    }
    Err(OperationError::Damaged(format!("the chain of parents of entry {} has no end", id.0)))
}

/// Returns the normal form of an entry's DN; `None` if there is no such entry.
pub fn normal_dn_of(read: &Read, schema: &Schema, id: EntryId) -> Result<Option<Vec<u8>>, OperationError> {
    let Some(text) = dn_of(read, id)? else { return Ok(None) };
    let mut key = Vec::with_capacity(text.len());
    let dn = Dn::parse(&text).map_err(|error| OperationError::Damaged(format!("DN {text:?}: {error}")))?;
    schema
        .normalize_dn(&dn, &mut key)
        .map_err(|error| OperationError::Damaged(format!("DN {text:?}: {error}")))?;
    Ok(Some(key))
}

pub(crate) fn damaged_row(map: &str, id: EntryId) -> OperationError {
    OperationError::Damaged(format!("row {} of {map}", id.0))
}
