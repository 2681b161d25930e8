//! The rows that follow from records alone, by part of the directory: what nodes of a cluster compare.
//!
//! Entries, their values and their links, and what settings and schema are: all that `check` holds to be the directory.
//! Index rows, names, counters and links backwards follow from these, and each node makes those in its own time.
//!
//! A part is what stands below an entry directly below a suffix. Entries there that have nothing below them belong to
//! the part of the suffix.

use std::collections::HashMap;
use std::ops::Bound;

use store::Direction;

use crate::catalog::{
    META_ADMINISTRATOR, META_ATTRIBUTE, META_CLASS_SET, META_CONTEXT_CSN, META_LAST_CSN, META_LAST_ENTRY,
    META_SCHEMA, META_SETTINGS, META_SUFFIX,
};
use crate::model::limits::TREE_DEPTH_MAX;
use crate::model::outcome::OperationError;
use crate::model::rows::{ENTRIES, EntryId, LINKS, META, NODES, NodeRow, VALUES, children_counter};
use crate::snapshot::Snapshot;
use crate::tree::TreeState;

type Result<T> = std::result::Result<T, OperationError>;

/// What a row is given to: its part, its key, which no row of another map has, and its value.
pub type EachRow<'f> = dyn FnMut(&str, &[u8], &[u8]) + 'f;

/// The part of settings and schema.
const SETTINGS: &str = "settings";

/// The part of rows whose entry is not there, or stands nowhere in the tree.
const NOWHERE: &str = "no entry";

/// Parts besides those; what else is directly below a suffix belongs to the suffix's.
const PARTS_MAX: usize = 500;

/// Ids read at a time.
const ID_BLOCK: usize = 512;

const ALL: store::KeyRange<'static> = (Bound::Unbounded, Bound::Unbounded);

/// Gives every such row to `each`, in no particular order. Reads all of the directory.
///
/// # Errors
/// The store failed.
pub fn each_row(snapshot: &Snapshot, each: &mut EachRow<'_>) -> Result<()> {
    let state = snapshot.state();
    settings(state, each)?;
    let mut parts = Parts { state, names: vec![NOWHERE.to_owned()], of: HashMap::new(), last: None };
    for (letter, map) in [(b'n', NODES), (b'e', ENTRIES), (b'v', VALUES)] {
        for row in state.read.scan(map, ALL, Direction::Forward) {
            let (key, value) = row?;
            each(parts.name(key)?, &tagged(letter, key), value);
        }
    }
    let mut block = Vec::new();
    for row in state.read.scan_keys(LINKS, ALL, Direction::Forward) {
        let (key, _) = row?;
        let name = parts.name(key)?;
        let tagged = tagged(b'l', key);
        let mut ids = state.read.ids(LINKS, key)?;
        loop {
            block.clear();
            if ids.next_block(&mut block, ID_BLOCK)? == 0 {
                break;
            }
            block.iter().for_each(|id| each(name, &tagged, &id.to_be_bytes()));
        }
    }
    Ok(())
}

fn tagged(letter: u8, key: &[u8]) -> Vec<u8> {
    [&[letter], key].concat()
}

fn settings(state: TreeState<'_>, each: &mut EachRow<'_>) -> Result<()> {
    let whole = [META_SETTINGS, META_SCHEMA, META_ADMINISTRATOR, META_LAST_ENTRY, META_LAST_CSN];
    let numbered = [META_ATTRIBUTE, META_CLASS_SET, META_SUFFIX, META_CONTEXT_CSN];
    for row in state.read.scan(META, ALL, Direction::Forward) {
        let (key, value) = row?;
        let is_numbered = key.len() == 5 && key.first().is_some_and(|kind| numbered.contains(kind));
        if is_numbered || whole.contains(&key) {
            each(SETTINGS, &tagged(b'm', key), value);
        }
    }
    Ok(())
}

/// Finds the parts of rows.
struct Parts<'s> {
    state: TreeState<'s>,
    names: Vec<String>,
    /// Parts, as places in `names`, of entries that have others below them.
    of: HashMap<EntryId, usize>,
    /// Rows of one entry stand together.
    last: Option<(EntryId, usize)>,
}

impl Parts<'_> {
    /// The part of a row whose key begins with an entry's id.
    fn name(&mut self, key: &[u8]) -> Result<&str> {
        let id = key.first_chunk().map(|id| EntryId(u64::from_be_bytes(*id)));
        let place = match (id, self.last) {
            (None, _) => 0,
            (Some(id), Some((last, place))) if id == last => place,
            (Some(id), _) => {
                let place = self.place(id, TREE_DEPTH_MAX)?;
                self.last = Some((id, place));
                place
            }
        };
        Ok(self.names.get(place).map_or(NOWHERE, String::as_str))
    }

    fn place(&mut self, id: EntryId, depth_left: usize) -> Result<usize> {
        if let Some(place) = self.of.get(&id) {
            return Ok(*place);
        }
        let (state, has_more) = (self.state, self.names.len() < PARTS_MAX);
        let Some(parent) = state.node(id)?.map(|NodeRow { parent, .. }| parent).filter(|_| depth_left > 0)
        else {
            return Ok(0);
        };
        let has_children = state.read.count(&children_counter(id))? > 0;
        let place = if parent == EntryId::ROOT {
            self.new_part(id)?
        } else {
            let above = self.place(parent, depth_left - 1)?;
            let is_below_suffix = state.node(parent)?.is_some_and(|node| node.parent == EntryId::ROOT);
            if is_below_suffix && has_children && has_more { self.new_part(id)? } else { above }
        };
        if has_children || parent == EntryId::ROOT {
            self.of.insert(id, place);
        }
        Ok(place)
    }

    fn new_part(&mut self, id: EntryId) -> Result<usize> {
        self.names.push(self.state.dn(id)?.unwrap_or_default());
        Ok(self.names.len() - 1)
    }
}
