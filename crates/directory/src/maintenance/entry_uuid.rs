//! Access to entryUUID (RFC 4530). An entryUUID must be unique, because other servers identify copied entries by
//! entryUUID. If two entries had the same entryUUID, other servers would copy only one of them.

use schema::AttributeDescription;
use uuid::Uuid;

use crate::catalog::Catalog;
use crate::model::entry::EntryRow;
use crate::model::rows::AttrId;

/// Name of the attribute.
pub(super) const ENTRY_UUID: &str = "entryUUID";

/// Returns the attribute number of entryUUID; `None` if no entry has an entryUUID.
pub(super) fn uuid_attribute(catalog: &Catalog) -> Option<AttrId> {
    let type_id = catalog.schema.attribute_type(ENTRY_UUID)?.id;
    catalog.attribute_id(type_id, &AttributeDescription::of(type_id).options)
}

/// Returns the entryUUID in an entry row. `attribute` is the attribute number of entryUUID.
pub(super) fn uuid_in(row: &EntryRow<'_>, attribute: Option<AttrId>) -> Option<Uuid> {
    row.uuid(attribute?).map(Uuid::from_bytes)
}
