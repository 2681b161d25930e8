//! Doubtful entries: copied entries whose values may differ from the values on the other server, because renames
//! arrived in an unfavorable order. The records of the copied changes show which entries are doubtful.

use std::collections::{BTreeSet, VecDeque};

use ldap::SyncUuid;
use store::Position;

use super::{ENTRY_UUID, Result};
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::record::{Change, Delete, DeleteTree, Modify, Record, Value};
use crate::model::rows::{AttrId, EntryId, LINKED, NAMES, decode_name_row, id_key, link_key};
use crate::snapshot::Snapshot;
use crate::tree::{Found, TreeState, damaged_row, entry_row};

/// Maximum number of entries of a renamed tree whose incoming links are read. In a larger tree, the incoming links of
/// some entries are not read.
const TREE_MAX: usize = 100_000;

/// Returns the doubtful entries at or below `base` with their DNs, and the position of the last record read. Reads the
/// records after position `since`. An entry is doubtful if it received a dangling link, or had a link to a deleted or
/// renamed entry. Reading stops after the record with which the number of entries reaches `max`.
///
/// # Errors
/// The store failed, or a record is damaged.
pub fn doubtful(
    snapshot: &Snapshot,
    base: &str,
    since: Position,
    max: usize,
) -> Result<(Vec<(SyncUuid, String)>, Position)> {
    let (ids, reached, _) = ids_after(snapshot.state(), since, max)?;
    Ok((named(snapshot.state(), base, ids)?, reached))
}

/// Returns the ids of doubtful entries in all trees, and the position of the last record read. The third value is false
/// if some doubtful entries up to that position were not found.
fn ids_after(
    state: TreeState<'_>,
    since: Position,
    max: usize,
) -> Result<(BTreeSet<EntryId>, Position, bool)> {
    let newest = state.read.position()?;
    let first = state.read.first_position()?.unwrap_or(1);
    let is_link = |attribute: AttrId| state.catalog.attribute(attribute).is_link;
    let has_text = |values: &[Value]| values.iter().any(|value| matches!(value, Value::Bytes(_)));
    let (mut ids, mut reached, mut are_all) = (BTreeSet::new(), newest, true);
    for record in state.read.log_records((since + 1).max(first)) {
        let (position, bytes) = record?;
        if position > newest {
            break;
        }
        if ids.len() >= max {
            reached = position - 1;
            break;
        }
        let damaged = || OperationError::Damaged(format!("the record at position {position} of the log"));
        match Record::decode(bytes).ok_or_else(damaged)?.change {
            Change::Add(add) if add.values.iter().any(|(of, values)| is_link(*of) && has_text(values)) => {
                ids.insert(add.id);
            }
            Change::Modify(Modify { id, changes, .. })
                if changes.iter().any(|change| is_link(change.attribute) && has_text(&change.values)) =>
            {
                ids.insert(id);
            }
            Change::Delete(Delete { trace: Some(trace), .. })
            | Change::DeleteTree(DeleteTree { trace: Some(trace), .. }) => ids.extend(trace.named_by),
            Change::ModifyDn(renamed) => are_all &= name_below(state, renamed.id, max, &mut ids)?,
            _ => {}
        }
    }
    Ok((ids, reached, are_all))
}

/// Returns the entries among `ids` that are at or below `base`, each with its DN.
fn named(state: TreeState<'_>, base: &str, ids: BTreeSet<EntryId>) -> Result<Vec<(SyncUuid, String)>> {
    let type_id = state.catalog.schema.attribute_type(ENTRY_UUID).map(|known| known.id);
    let attribute = type_id.and_then(|id| state.catalog.attribute_id(id, ""));
    let mut entries = Vec::new();
    let name = NormalName::of(&parse_dn(base)?, &state.catalog.schema);
    let Found::Entry(base, _) = state.find(&name)? else { return Ok(entries) };
    for id in ids {
        if !state.is_at_or_below(id, base)? {
            continue;
        }
        let (Some(dn), Some(attribute)) = (state.dn(id)?, attribute) else { continue };
        entries.extend(entry_row(state.read, id)?.uuid(attribute).map(|uuid| (uuid, dn)));
    }
    Ok(entries)
}

/// Returns the entries that [`doubtful`] would return after reading all records after `since`. Returns `None` if the
/// log no longer has all of these records, or if there are `max` entries or more.
///
/// # Errors
/// As [`doubtful`].
pub fn all_doubtful(
    snapshot: &Snapshot,
    base: &str,
    since: Position,
    max: usize,
) -> Result<Option<Vec<(SyncUuid, String)>>> {
    let state = snapshot.state();
    if state.read.first_position()?.is_some_and(|first| first > since + 1) {
        return Ok(None);
    }
    let (ids, _, are_all) = ids_after(state, since, max)?;
    match are_all && ids.len() < max {
        true => named(state, base, ids).map(Some),
        false => Ok(None),
    }
}

/// Adds to `ids` the entries with links to the entry `top` or to an entry below it, until `ids` has `max` entries.
/// Returns false if the tree was too large to find all such entries.
fn name_below(state: TreeState<'_>, top: EntryId, max: usize, ids: &mut BTreeSet<EntryId>) -> Result<bool> {
    let links: Vec<AttrId> =
        state.catalog.attributes().iter().filter(|def| def.is_link).map(|def| def.id).collect();
    let mut below = VecDeque::from([top]);
    let (mut seen, mut is_whole) = (0, true);
    while let Some(id) = below.pop_front() {
        for link in &links {
            let (mut sources, left) = (Vec::new(), max.saturating_sub(ids.len()));
            state.read.ids(LINKED, &link_key(id, *link))?.next_block(&mut sources, left)?;
            ids.extend(sources.into_iter().map(EntryId));
        }
        seen += 1;
        if ids.len() >= max {
            break;
        }
        for row in state.read.scan_below(NAMES, &id_key(id)) {
            let (_, value) = row?;
            below.push_back(decode_name_row(value).ok_or_else(|| damaged_row("names", id))?.0);
            if seen + below.len() >= TREE_MAX {
                is_whole = false;
                break;
            }
        }
    }
    Ok(is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SUFFIX, TestDirectory, ok};

    /// If two entries that name each other are renamed at the same time, the overlay refint of slapd can leave an old
    /// name in one of them. A copy of slapd updates that name by itself. It then differs from slapd until it reads the
    /// entry again.
    #[test]
    fn entries_that_name_a_renamed_entry_are_doubtful() {
        let mut directory = TestDirectory::with_suffix_entry();
        directory.define_index("entryUUID", "equality");
        directory.finish_indexes();
        let person = |directory: &mut TestDirectory, dn: &str, manager: &str| {
            let class: &[&str] = &["inetOrgPerson"];
            let attributes =
                [("objectClass", class), ("cn", &["x"]), ("sn", &["y"]), ("manager", &[manager])];
            ok(directory.add(dn, &attributes));
        };
        for unit in ["ou=a,dc=example,dc=com", "ou=b,dc=example,dc=com"] {
            ok(directory.add(unit, &[("objectClass", &["organizationalUnit"])]));
        }
        person(&mut directory, "uid=boss,ou=a,dc=example,dc=com", "dc=example,dc=com");
        person(&mut directory, "uid=one,ou=b,dc=example,dc=com", "uid=boss,ou=a,dc=example,dc=com");
        person(&mut directory, "uid=two,ou=b,dc=example,dc=com", "dc=example,dc=com");
        let position = directory.snapshot.position().unwrap();
        let doubted = |directory: &TestDirectory, max| {
            let (entries, reached) = doubtful(&directory.snapshot, SUFFIX, position, max).unwrap();
            (entries.into_iter().map(|(_, dn)| dn).collect::<Vec<_>>(), reached)
        };
        ok(directory.modify_dn("ou=a,dc=example,dc=com", "ou=c", true, None));
        assert_eq!(
            doubted(&directory, 10),
            (vec!["uid=one,ou=b,dc=example,dc=com".to_owned()], position + 1)
        );
        ok(directory.modify_dn("uid=boss,ou=c,dc=example,dc=com", "uid=chief", true, None));
        ok(directory.modify_dn("uid=two,ou=b,dc=example,dc=com", "uid=three", true, None));
        let all = |since, max| all_doubtful(&directory.snapshot, SUFFIX, since, max).unwrap();
        assert_eq!(all(position, 10).map(|all| all.len()), Some(1));
        assert_eq!(all(position, 1), None);
        // The next call reads the records after that position.
        assert_eq!(doubted(&directory, 1).1, position + 1);
        assert_eq!(doubted(&directory, 10).1, position + 3);
    }
}
