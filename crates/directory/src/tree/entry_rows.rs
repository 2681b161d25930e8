//! Reading entry rows in order to change them.

use store::Batch;

use crate::catalog::Catalog;
use crate::model::entry::{EntryRow, StoredEntry};
use crate::model::outcome::OperationError;
use crate::model::rows::{ENTRIES, EntryId, id_key};
use crate::tree::damaged_row;

type Result<T> = std::result::Result<T, OperationError>;

/// An entry while a record changes it.
pub(crate) struct ChangedEntry<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) id: EntryId,
    pub(crate) entry: &'a mut StoredEntry,
}

/// Returns the attributes of an entry before the record at `position`. During replay, returns `None` if the entry does
/// not exist or already has the change of that record.
pub(crate) fn load_older(batch: &Batch<'_>, id: EntryId, position: u64) -> Result<Option<StoredEntry>> {
    Ok(load(batch, id)?.filter(|entry| entry.position < position))
}

/// Returns the attributes of an entry; `None` if there is no such entry.
pub(crate) fn load(batch: &Batch<'_>, id: EntryId) -> Result<Option<StoredEntry>> {
    let Some(bytes) = batch.get(ENTRIES, &id_key(id))? else { return Ok(None) };
    let row = EntryRow::decode(bytes).ok_or_else(|| damaged_row("entries", id))?;
    Ok(Some(StoredEntry::of(&row)))
}

pub(crate) fn save(batch: &mut Batch<'_>, id: EntryId, entry: &StoredEntry) -> Result<()> {
    batch.put(ENTRIES, &id_key(id), &entry.encode())?;
    Ok(())
}

/// Returns the normal form under which `names` lists an entry. For a suffix entry, the normal form contains all RDNs
/// of the suffix.
pub(crate) fn normal_rdn(catalog: &Catalog, parent: EntryId, rdn: &str) -> Result<Vec<u8>> {
    let damaged = |error: String| OperationError::Damaged(format!("RDN {rdn:?}: {error}"));
    let dn = ldap::Dn::parse(rdn).map_err(|error| damaged(error.to_string()))?;
    let mut key = Vec::with_capacity(rdn.len() + 8);
    debug_assert!(parent == EntryId::ROOT || dn.len() == 1);
    catalog.schema.normalize_dn(&dn, &mut key).map_err(|error| damaged(error.to_string()))?;
    Ok(key)
}
