//! Names that searches need again and again: the DNs of containers, and the entries that search bases mean.
//!
//! Most results lie below a few containers and most searches start at a few bases, so each
//! [`Snapshot`](crate::snapshot::Snapshot) keeps these: with them, a search by an indexed value costs two look-ups in
//! the store instead of five. Bounded. A snapshot that moves starts anew where names may have changed, which
//! [`NamesClock`] tells; entries that are added and values that are modified change nothing here.
//!
//! [`NamesClock`]: crate::snapshot::names_clock::NamesClock

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::model::limits::{BASES_CACHED_MAX, CONTAINERS_CACHED_MAX, TREE_DEPTH_MAX};
use crate::model::outcome::OperationError;
use crate::model::rows::{EntryId, NodeFlags};
use crate::snapshot::known_names::KnownNames;
use crate::tree::{State, damaged_row, node};

/// What is known of an entry with entries below it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Container {
    /// Its own superior.
    pub(crate) parent: EntryId,
    /// Alias, referral, subentry.
    pub(crate) flags: NodeFlags,
    /// The highest id of it and its superiors.
    pub(crate) highest: EntryId,
    /// Its DN in [`NameCache::texts`].
    start: usize,
    end: usize,
}

/// The empty DN.
const ROOT: Container =
    Container { parent: EntryId::ROOT, flags: NodeFlags(0), highest: EntryId::ROOT, start: 0, end: 0 };

/// What is known of names as a snapshot has them.
#[derive(Debug, Default)]
pub(crate) struct NameCache {
    /// The changes of names that it was sure to see when it last moved.
    settled: Option<u64>,
    containers: HashMap<EntryId, Container, RandomState>,
    texts: Vec<u8>,
    bases: HashMap<Box<str>, (EntryId, NodeFlags), RandomState>,
    /// The administrator's DN and the entry that has it, once that was looked for.
    pub(crate) administrator: Option<(Box<str>, Option<EntryId>)>,
    /// Which entry a DN was found to name, however long ago.
    pub(crate) known: KnownNames,
}

impl NameCache {
    /// The snapshot has moved. Before, changes of names up to `settled` were sure to be seen; after, up to `begun` may
    /// have been.
    pub(crate) fn moved(&mut self, settled: Option<u64>, begun: u64) {
        // An entry that is added can have a name that nobody had.
        self.administrator.take_if(|(_, entry)| entry.is_none());
        if self.settled != Some(begun) {
            self.bases.clear();
            self.administrator = None;
            self.forget_containers();
        }
        self.settled = settled;
    }

    fn forget_containers(&mut self) {
        self.containers.clear();
        self.texts.clear();
    }

    /// The DN of a container (UTF-8), empty for the root. To be asked before the next container is.
    #[inline]
    pub(crate) fn dn(&self, container: Container) -> &[u8] {
        &self.texts[container.start..container.end]
    }

    /// What is to know of the container `id`.
    #[inline]
    pub(crate) fn container(&mut self, state: State<'_>, id: EntryId) -> Result<Container, OperationError> {
        if self.containers.len() >= CONTAINERS_CACHED_MAX {
            self.forget_containers();
        }
        self.look_up(state, id, 0)
    }

    fn look_up(&mut self, state: State<'_>, id: EntryId, depth: usize) -> Result<Container, OperationError> {
        if id == EntryId::ROOT {
            return Ok(ROOT);
        }
        if let Some(container) = self.containers.get(&id) {
            return Ok(*container);
        }
        if depth > TREE_DEPTH_MAX {
            return Err(OperationError::Damaged(format!("the parents of entry {} do not end", id.0)));
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

    /// The entry that a DN, spelled like this, was found to name.
    #[inline]
    pub(crate) fn base(&self, dn: &str) -> Option<(EntryId, NodeFlags)> {
        self.bases.get(dn).copied()
    }

    /// Keeps the entry that a DN, spelled like this, names without aliases being followed.
    pub(crate) fn keep_base(&mut self, dn: &str, found: (EntryId, NodeFlags)) {
        if self.bases.len() >= BASES_CACHED_MAX {
            self.bases.clear();
        }
        self.bases.insert(dn.into(), found);
    }
}
