//! Salvage of a damaged data directory: exports its entries up to the first gap in the redo log, and lists the changes
//! that are lost after the gap.
//!
//! The store determines which data are intact, and returns the records that were not applied. This module describes
//! the changes in these records by time and name. This module omits values, because lists of lost changes are copied
//! into logs and tickets.

use std::ops::RangeInclusive;
use std::path::Path;

use store::{FileDamage, LogDamage, OmittedRecord, Salvage};

use crate::catalog::Catalog;
use crate::database::check_versions;
use crate::model::csn::Csn;
use crate::model::open_error::OpenError;
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;
use crate::model::record::{Change, Record};
use crate::model::rows::MAPS;
use crate::model::settings::{NodeSettings, Settings};
use crate::tree::TreeState;

/// A damaged data directory that is opened to salvage its intact data. No other process may have the directory open at
/// the same time.
pub struct SalvagedDirectory {
    salvage: Salvage,
    /// Catalog and settings of the intact rows, or the reason why they cannot be read.
    meaning: Result<(Catalog, Settings), OpenError>,
}

/// Position and time of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangePoint {
    /// Position in the log.
    pub position: u64,
    /// Change sequence number, which includes the time; `None` if the record cannot be read.
    pub csn: Option<Csn>,
}

/// A change that was not salvaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostChange {
    /// Number of the redo group that contains the change.
    pub group: u64,
    /// The change, as far as its record can be read. `None` for a group that changes no entry, such as a slice of index
    /// rows.
    pub change: Option<(ChangePoint, String)>,
}

impl SalvagedDirectory {
    /// Opens the data directory `path` without changing it. No other process may have the directory open.
    ///
    /// # Errors
    /// Another process has the data directory open, or the data directory does not exist.
    pub fn open(path: &Path) -> Result<SalvagedDirectory, OpenError> {
        let salvage = store::salvage(path, MAPS)?;
        let meaning = match salvage.read() {
            Ok(read) => check_versions(read).and_then(|is_empty| {
                if is_empty {
                    return Err(OpenError::Empty);
                }
                let catalog = Catalog::load(read)?;
                let settings = Settings::of(&NodeSettings::default(), &catalog.settings.general);
                Ok((catalog, settings))
            }),
            // The caller receives the reason from [`state`](SalvagedDirectory::state).
            Err(_) => Err(OpenError::Empty),
        };
        Ok(SalvagedDirectory { salvage, meaning })
    }

    /// Returns the intact data, from which entries can be exported.
    ///
    /// # Errors
    /// The reason why no data are intact: the data file is missing or cannot be read.
    pub fn state(&self) -> Result<TreeState<'_>, String> {
        let read = self.salvage.read().map_err(ToString::to_string)?;
        let (catalog, settings) = self.meaning.as_ref().map_err(ToString::to_string)?;
        Ok(TreeState::stored(read, catalog, settings))
    }

    /// Returns the last change that [`state`](SalvagedDirectory::state) contains; `None` if the intact data contain no
    /// change.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn last_change(&self) -> Result<Option<ChangePoint>, OperationError> {
        let Ok(read) = self.salvage.read() else { return Ok(None) };
        let position = read.position()?;
        if position == 0 {
            return Ok(None);
        }
        // The change counts even if its record is missing, because its entries exist.
        let record = read.log_records(position).next().and_then(Result::ok);
        let csn = record.and_then(|(_, bytes)| Record::decode(bytes)).map(|record| record.csn);
        Ok(Some(ChangePoint { position, csn }))
    }

    /// Returns the numbers of the redo groups whose changes [`state`](SalvagedDirectory::state) contains, but the data
    /// file does not.
    pub fn applied(&self) -> Option<RangeInclusive<u64>> {
        self.salvage.applied()
    }

    /// Returns the numbers of the lost redo groups.
    pub fn missing(&self) -> &[RangeInclusive<u64>] {
        self.salvage.missing()
    }

    /// Returns the number of the last redo group, if only the group's header exists. The client may have received no
    /// response for this group.
    pub fn in_doubt(&self) -> Option<u64> {
        self.salvage.in_doubt()
    }

    /// Returns the faults in the files of the redo log.
    pub fn damage(&self) -> &[FileDamage] {
        self.salvage.damage()
    }

    /// Returns true if a redo log exists.
    pub fn has_redo_log(&self) -> bool {
        self.salvage.has_redo_log()
    }

    /// Returns true if nothing is missing according to the data file and the redo log.
    pub fn is_whole(&self) -> bool {
        self.salvage.is_whole() && self.meaning.is_ok()
    }

    /// Passes each readable change after the gap to `each`, in log order.
    ///
    /// # Errors
    /// The redo log can no longer be read.
    pub fn for_each_lost(&self, each: &mut dyn FnMut(&LostChange)) -> Result<(), OperationError> {
        self.salvage.for_each_left_out(&mut |left_out| each(&lost(left_out)))?;
        Ok(())
    }
}

fn lost(left_out: &OmittedRecord<'_>) -> LostChange {
    let change = left_out.record.map(|(position, record)| {
        let (csn, what) = match record.map(Record::decode) {
            Ok(Some(record)) => (Some(record.csn), describe(&record.change)),
            Ok(None) => (None, "a record that this program cannot read".to_owned()),
            Err(damage) => (None, unreadable(damage)),
        };
        (ChangePoint { position, csn }, what)
    });
    LostChange { group: left_out.group, change }
}

fn unreadable(damage: LogDamage) -> String {
    format!("a damaged record: {damage}")
}

/// Returns the kind of a change, and the DNs that the change contains. Omits values.
fn describe(change: &Change) -> String {
    match change {
        Change::Add(add) => format!("add {}", Quoted(&add.dn)),
        Change::Modify(modify) => format!("modify {}", Quoted(&modify.dn)),
        Change::Delete(delete) => format!("delete {}", Quoted(&delete.dn)),
        Change::DeleteTree(tree) => {
            format!("delete {} with the {} entries below it", Quoted(&tree.dn), tree.below.len())
        }
        Change::ModifyDn(rename) => format!("rename {} to {}", Quoted(&rename.old_dn), Quoted(&rename.rdn)),
        Change::Suffix { dn } => format!("suffix {}", Quoted(dn)),
        Change::Settings(_) => "settings of the directory".to_owned(),
        Change::Administrator { .. } => "password of the administrator".to_owned(),
        Change::Undelete(undelete) => {
            format!("undelete {}, {} entries in all", Quoted(&undelete.dn), undelete.entries.len())
        }
        Change::Joins(_) => "progress of automatic memberships".to_owned(),
        Change::Links(step) => format!("links in the place of values of {} entries", step.entries.len()),
        Change::Purge { .. } => "removal of old deleted entries".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::origin::Origin;
    use crate::model::record::{Delete, LastValue, Modify, ModifyDn, Value, ValueChange, ValueChangeKind};
    use crate::model::rows::{AttrId, ClassSetId, EntryId, NodeFlags};

    fn text_of(change: Change) -> String {
        let csn = Csn { micros: 1_700_000_000_123_456, count: 0, server: 0 };
        let record = Record {
            csn,
            requester: String::new(),
            attributes: Vec::new(),
            class_sets: Vec::new(),
            origin: Origin::default(),
            change,
        };
        let bytes = record.encode();
        let omitted = lost(&OmittedRecord { group: 7, record: Some((9, Ok(&bytes))) });
        let (when, what) = omitted.change.unwrap();
        assert_eq!((omitted.group, when), (7, ChangePoint { position: 9, csn: Some(csn) }));
        what
    }

    fn secret() -> Vec<ValueChange> {
        let values = vec![Value::Bytes(b"secret".to_vec())];
        vec![ValueChange { attribute: AttrId(1), kind: ValueChangeKind::Replace, values }]
    }

    #[test]
    fn describes_a_lost_change_by_kind_and_name_without_values() {
        let dn = "cn=a\nb,dc=example".to_owned();
        let modify = Modify {
            id: EntryId(5),
            dn: dn.clone(),
            class_set: ClassSetId(2),
            flags: NodeFlags(0),
            changes: secret(),
        };
        // A line break in a DN is escaped, so that it does not start another line.
        assert_eq!(text_of(Change::Modify(modify)), r#"modify "cn=a\nb,dc=example""#);
        let delete = Delete {
            id: EntryId(5),
            dn: "cn=a".to_owned(),
            vanishing: Vec::new(),
            last: LastValue::EmptyDn,
            is_kept: false,
            trace: None,
        };
        assert_eq!(text_of(Change::Delete(delete)), r#"delete "cn=a""#);
        let rename = ModifyDn {
            id: EntryId(5),
            old_dn: "cn=a,o=b".to_owned(),
            parent: EntryId(1),
            rdn: "cn=c".to_owned(),
            changes: secret(),
        };
        assert_eq!(text_of(Change::ModifyDn(rename)), r#"rename "cn=a,o=b" to "cn=c""#);
        let administrator = Change::Administrator { stored: b"secret".to_vec() };
        assert_eq!(text_of(administrator), "password of the administrator");
    }

    #[test]
    fn describes_records_that_cannot_be_read() {
        let damaged = lost(&OmittedRecord { group: 7, record: Some((9, Err(LogDamage::Checksum))) });
        let (when, what) = damaged.change.unwrap();
        assert_eq!((when.csn, what.as_str()), (None, "a damaged record: checksum mismatch"));
        let unknown = lost(&OmittedRecord { group: 7, record: Some((9, Ok(&[200]))) });
        assert_eq!(unknown.change.unwrap().1, "a record that this program cannot read");
        assert_eq!(lost(&OmittedRecord { group: 7, record: None }), LostChange { group: 7, change: None });
    }
}
