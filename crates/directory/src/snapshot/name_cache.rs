//! Cache of names that searches need repeatedly: the DNs of containers, and the entries of search bases.
//!
//! Most results are below a few containers, and most searches start at a few bases, so each
//! [`Snapshot`](crate::snapshot::Snapshot) caches the names of these containers and bases. A search by an indexed
//! value then costs two lookups in the store instead of five. The size is limited. A snapshot that moves to another
//! position drops the cache. Dropping the cache is cheap, because a few lookups fill the cache again and commits are
//! batched.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::model::limits::{BASES_CACHED_MAX, CONTAINERS_CACHED_MAX, TREE_DEPTH_MAX};
use crate::model::outcome::OperationError;
use crate::model::rows::{EntryId, NodeFlags};
use crate::snapshot::name_hints::NameHints;
use crate::tree::{TreeState, damaged_row, node};

/// Cached data of an entry with subordinates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Container {
    /// Superior of the container.
    pub(crate) parent: EntryId,
    /// Whether the container is an alias, a referral or a subentry.
    pub(crate) flags: NodeFlags,
    /// Highest entry id among the container and its superiors.
    pub(crate) highest: EntryId,
    /// Range of the DN in [`NameCache::texts`].
    start: usize,
    end: usize,
}

/// Container with the empty DN.
const ROOT: Container =
    Container { parent: EntryId::ROOT, flags: NodeFlags(0), highest: EntryId::ROOT, start: 0, end: 0 };

/// Cached names of a snapshot.
#[derive(Debug, Default)]
pub(crate) struct NameCache {
    containers: HashMap<EntryId, Container, RandomState>,
    texts: Vec<u8>,
    bases: HashMap<Box<str>, (EntryId, NodeFlags), RandomState>,
    /// The administrator's DN and the entry with this DN; `None` before the first lookup.
    pub(crate) administrator: Option<(Box<str>, Option<EntryId>)>,
    /// Entries that were found by their DNs, at this or an earlier position.
    pub(crate) hints: NameHints,
}

impl NameCache {
    /// Drops the cached data that may differ at another position.
    pub(crate) fn forget(&mut self) {
        self.bases.clear();
        self.administrator = None;
        self.forget_containers();
    }

    fn forget_containers(&mut self) {
        self.containers.clear();
        self.texts.clear();
    }

    /// Returns the DN of a container (UTF-8), empty for the root. Must be called before the next container is looked
    /// up.
    #[inline]
    pub(crate) fn dn(&self, container: Container) -> &[u8] {
        self.texts.get(container.start..container.end).unwrap_or_default()
    }

    /// Returns the cached data of the container `id`. Reads the data if they are not cached.
    #[inline]
    pub(crate) fn container(
        &mut self,
        state: TreeState<'_>,
        id: EntryId,
    ) -> Result<Container, OperationError> {
        if self.containers.len() >= CONTAINERS_CACHED_MAX {
            self.forget_containers();
        }
        self.look_up(state, id, 0)
    }

    fn look_up(
        &mut self,
        state: TreeState<'_>,
        id: EntryId,
        depth: usize,
    ) -> Result<Container, OperationError> {
        if id == EntryId::ROOT {
            return Ok(ROOT);
        }
        if let Some(container) = self.containers.get(&id) {
            return Ok(*container);
        }
        if depth > TREE_DEPTH_MAX {
            return Err(OperationError::Damaged(format!(
                "the chain of parents of entry {} has no end",
                id.0
            )));
        }
        let row = node(state.read, id)?.ok_or_else(|| damaged_row("nodes", id))?;
        let parent = self.look_up(state, row.parent, depth + 1)?;
        let start = self.texts.len();
        self.texts.extend_from_slice(row.rdn);
        if parent.start < parent.end {
            self.texts.push(b',');
            self.texts.extend_from_within(parent.start..parent.end);
        }
        let container = Container {
            parent: row.parent,
            flags: row.flags,
            highest: parent.highest.max(id),
            start,
            end: self.texts.len(),
        };
        self.containers.insert(id, container);
        Ok(container)
    }

    /// Returns the cached entry of a DN in exactly this spelling.
    #[inline]
    pub(crate) fn base(&self, dn: &str) -> Option<(EntryId, NodeFlags)> {
        self.bases.get(dn).copied()
    }

    /// Caches the entry that a DN in exactly this spelling names. The entry must have been found without following an
    /// alias.
    pub(crate) fn keep_base(&mut self, dn: &str, found: (EntryId, NodeFlags)) {
        if self.bases.len() >= BASES_CACHED_MAX {
            self.bases.clear();
        }
        self.bases.insert(dn.into(), found);
    }
}

#[cfg(test)]
mod tests {
    use ldap::{ResultCode, Scope};

    use crate::testing::{SUFFIX, TestDirectory};

    #[test]
    fn renewing_a_changed_snapshot_drops_cached_names() {
        let (unit, person) = ("ou=a,dc=example,dc=com", "cn=p,ou=a,dc=example,dc=com");
        let mut directory = TestDirectory::with_suffix_entry();
        directory.add(unit, &[("objectClass", &["organizationalUnit"])]);
        directory.add(person, &[("objectClass", &["person"]), ("sn", &["x"])]);
        let names_of_people = |directory: &mut TestDirectory| {
            let found = directory.search(SUFFIX, Scope::WholeSubtree, "(sn=x)", &["1.1"]);
            assert_eq!(found.code, ResultCode::SUCCESS);
            found.entries.into_iter().map(|entry| entry.dn).collect::<Vec<_>>()
        };
        assert_eq!(names_of_people(&mut directory), [person]);
        assert!(directory.snapshot.names().base(SUFFIX).is_some());
        // Nothing has changed, so the snapshot does not move and keeps its cache.
        directory.snapshot.renew().unwrap();
        assert!(directory.snapshot.names().base(SUFFIX).is_some());
        let renamed = directory.modify_dn(unit, "ou=b", true, None);
        assert_eq!(renamed.code, ResultCode::SUCCESS);
        assert!(directory.snapshot.names().base(SUFFIX).is_none());
        assert_eq!(names_of_people(&mut directory), ["cn=p,ou=b,dc=example,dc=com"]);
    }
}
