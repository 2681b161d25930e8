//! Reads the rows that depend only on log records, grouped by part of the directory. Nodes of a cluster compare
//! digests of these rows.
//!
//! These rows are entries with their values and links, settings and schema. `check` treats the same rows as primary
//! data. All other rows are derived from them: index rows, names, counters and reverse links. Derived rows are not
//! compared, because each node builds index rows at its own pace.
//!
//! A part consists of an entry directly below a suffix entry, and all entries below this entry. If an entry directly
//! below a suffix entry has no subordinates, the entry belongs to the part of the suffix entry.
//!
//! Entries are read as rows without packed values, because nodes may have the same values in rows of different
//! versions.
//!
//! Rows are read in slices. Points are ordered by their octets, and a slice contains the rows between two points. A
//! point consists of a letter that represents a map, and a key of the map. In the point of a link, the id of the link's
//! target follows the key, so that a slice may end within the members of one group. A point remains valid if its row is
//! deleted. Therefore deletions do not change the bounds of slices, and an added row belongs to the slice that contains
//! its point.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::{Bound, ControlFlow};

use store::{Direction, MapId};

use crate::catalog::{
    META_ADMINISTRATOR, META_ATTRIBUTE, META_CLASS_SET, META_CONTEXT_CSN, META_JOINS, META_LAST_CSN,
    META_LAST_ENTRY, META_LINKS, META_SCHEMA, META_SETTINGS, META_SUFFIX,
};
use crate::model::entry::plain;
use crate::model::limits::TREE_DEPTH_MAX;
use crate::model::outcome::OperationError;
use crate::model::rows::{
    DELETED, ENDS, ENTRIES, EntryId, LINKS, META, NODES, NodeRow, VALUES, children_counter,
};
use crate::snapshot::Snapshot;
use crate::tree::TreeState;

type Result<T> = std::result::Result<T, OperationError>;

/// Callback for a row. The callback receives the row's part, its key (unique among all maps) and its value. The
/// callback returns whether to continue.
pub type EachRow<'f> = dyn FnMut(&str, &[u8], &[u8]) -> ControlFlow<()> + 'f;

/// Callback for a row, without the row's part.
type Visit<'f> = dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>> + 'f;

/// A range of rows between two points. If `from` is empty, the range begins with the first row. If `to` is empty, the
/// range ends with the last row.
#[derive(Clone, Copy, Debug)]
pub struct RowSlice<'p> {
    /// First point, inclusive.
    pub from: &'p [u8],
    /// Last point, exclusive.
    pub to: &'p [u8],
}

/// Range of a slice within one map.
struct MapSlice<'p> {
    /// First point without its letter, inclusive; `None` if the range begins with the first row of the map.
    from: Option<&'p [u8]>,
    /// Last point without its letter, exclusive; `None` if the range ends with the last row of the map.
    to: Option<&'p [u8]>,
}

/// Fixed cost that is added to the size of a row. The cost accounts for finding the row's part and computing a hash.
/// The unit is bytes, so that one limit covers both costs.
pub const ROW_COST: u64 = 64;

/// Maps with the letters that represent them in points.
const MAPS: [(u8, MapId); 6] = [
    (b'd', DELETED),
    (LETTER_ENTRY, ENTRIES),
    (LETTER_LINK, LINKS),
    (b'n', NODES),
    (b'u', ENDS),
    (b'v', VALUES),
];

const LETTER_ENTRY: u8 = b'e';
const LETTER_LINK: u8 = b'l';
const LETTER_SETTING: u8 = b'm';

/// Size of a key of `links`, in octets. In a point, the id of the link's target follows the key.
const LINK_KEY_SIZE: usize = 12;

/// Name of the part that contains settings and schema.
const SETTINGS: &str = "settings";

/// Name of the part for rows of entries that do not exist or have no place in the tree.
const NOWHERE: &str = "no entry";

/// Maximum number of parts of entries. Further entries directly below a suffix entry belong to the part of the suffix
/// entry.
const PARTS_MAX: usize = 500;

/// Number of ids read in one step.
const ID_BLOCK: usize = 512;

const ALL: store::KeyRange<'static> = (Bound::Unbounded, Bound::Unbounded);

/// Passes the rows of a slice to `each`. The rows of settings and schema are included in every slice.
///
/// # Errors
/// The store failed.
pub fn each_row(snapshot: &Snapshot, slice: RowSlice<'_>, each: &mut EachRow<'_>) -> Result<ControlFlow<()>> {
    let state = snapshot.state();
    if settings(state, each)?.is_break() {
        return Ok(ControlFlow::Break(()));
    }
    let mut parts = Parts { state, names: vec![NOWHERE.to_owned()], of: HashMap::new(), last: None };
    walk(state, slice, &mut |key, value| Ok(each(parts.name(key.get(1..).unwrap_or_default())?, key, value)))
}

/// Plans the slice that begins at `from`. Returns the end of the slice, and the cost of the slice's present rows. The
/// cost is at most `bytes_max`, unless the slice has only one row. A row costs the size of its key and value, plus
/// [`ROW_COST`]. The end is empty if no row remains after the slice.
///
/// `step` receives the cost of each row, and returns whether to continue. If `step` stops the traversal, the result is
/// `None`.
///
/// # Errors
/// The store failed.
pub fn plan(
    snapshot: &Snapshot,
    from: &[u8],
    bytes_max: u64,
    step: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Option<(Vec<u8>, u64)>> {
    let (mut bytes, mut end, mut is_stopped) = (0, Vec::new(), false);
    let _ = walk(snapshot.state(), RowSlice { from, to: &[] }, &mut |key, value| {
        let cost = row_cost(key, value);
        if bytes > 0 && bytes + cost > bytes_max {
            end = key.to_vec();
            if key.first() == Some(&LETTER_LINK) {
                end.extend(value);
            }
            return Ok(ControlFlow::Break(()));
        }
        bytes += cost;
        is_stopped = step(cost).is_break();
        Ok(if is_stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok((!is_stopped).then_some((end, bytes)))
}

/// Returns the cost of a row.
pub fn row_cost(key: &[u8], value: &[u8]) -> u64 {
    (key.len() as u64 + value.len() as u64).saturating_add(ROW_COST)
}

/// Passes the rows of a slice to `visit` in the order of their points. `visit` receives the letter and the key
/// together, then the value. The value of a link is the id of its target.
fn walk(state: TreeState<'_>, slice: RowSlice<'_>, visit: &mut Visit<'_>) -> Result<ControlFlow<()>> {
    let mut tagged = Vec::new();
    for (letter, map) in MAPS {
        let Some(MapSlice { from, to }) = slice.of_map(letter) else { continue };
        if letter == LETTER_LINK {
            if links(state, MapSlice { from, to }, visit)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            continue;
        }
        let low = from.map_or(Bound::Unbounded, Bound::Included);
        let high = to.map_or(Bound::Unbounded, Bound::Excluded);
        for row in state.read.scan(map, (low, high), Direction::Forward) {
            let (key, value) = row?;
            tag(&mut tagged, letter, key);
            let value = if letter == LETTER_ENTRY { plain(value) } else { Cow::Borrowed(value) };
            if visit(&tagged, &value)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Passes the links between two points (without their letter) to `visit`. Skips targets of the first and the last key
/// that are outside of the slice.
fn links(state: TreeState<'_>, slice: MapSlice<'_>, visit: &mut Visit<'_>) -> Result<ControlFlow<()>> {
    let (from, to) = (slice.from.map(link_point), slice.to.map(link_point));
    let low = from.map_or(Bound::Unbounded, |(key, _)| Bound::Included(key));
    let high = to.map_or(Bound::Unbounded, |(key, _)| Bound::Included(key));
    let (mut tagged, mut block) = (Vec::new(), Vec::new());
    for row in state.read.scan_keys(LINKS, (low, high), Direction::Forward) {
        let (key, _) = row?;
        tag(&mut tagged, LETTER_LINK, key);
        let first = from.filter(|(of, _)| *of == key).map_or(0, |(_, id)| id);
        let end = to.filter(|(of, _)| *of == key).map(|(_, id)| id);
        let mut ids = state.read.ids(LINKS, key)?;
        ids.seek(first)?;
        loop {
            block.clear();
            if ids.next_block(&mut block, ID_BLOCK)? == 0 {
                break;
            }
            for id in &block {
                if end.is_some_and(|end| *id >= end) {
                    return Ok(ControlFlow::Continue(()));
                }
                if visit(&tagged, &id.to_be_bytes())?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Splits the point of a link into the key and the target.
fn link_point(point: &[u8]) -> (&[u8], u64) {
    match point.split_at_checked(LINK_KEY_SIZE) {
        Some((key, id)) => (key, id.first_chunk().map_or(0, |id| u64::from_be_bytes(*id))),
        None => (point, 0),
    }
}

impl<'p> RowSlice<'p> {
    /// Returns the range of the slice within the map with this letter; `None` if the range is empty.
    fn of_map(self, letter: u8) -> Option<MapSlice<'p>> {
        let from = match self.from.split_first() {
            Some((of, _)) if *of > letter => return None,
            // A key is never empty.
            Some((of, key)) if *of == letter && !key.is_empty() => Some(key),
            _ => None,
        };
        let to = match self.to.split_first() {
            Some((of, _)) if *of < letter => return None,
            Some((of, [])) if *of == letter => return None,
            Some((of, key)) if *of == letter => Some(key),
            _ => None,
        };
        Some(MapSlice { from, to })
    }
}

fn tag(tagged: &mut Vec<u8>, letter: u8, key: &[u8]) {
    tagged.clear();
    tagged.push(letter);
    tagged.extend_from_slice(key);
}

fn settings(state: TreeState<'_>, each: &mut EachRow<'_>) -> Result<ControlFlow<()>> {
    let whole = [
        META_SETTINGS,
        META_SCHEMA,
        META_ADMINISTRATOR,
        META_JOINS,
        META_LINKS,
        META_LAST_ENTRY,
        META_LAST_CSN,
    ];
    let numbered = [META_ATTRIBUTE, META_CLASS_SET, META_SUFFIX, META_CONTEXT_CSN];
    let mut tagged = Vec::new();
    for row in state.read.scan(META, ALL, Direction::Forward) {
        let (key, value) = row?;
        let is_numbered = key.len() == 5 && key.first().is_some_and(|kind| numbered.contains(kind));
        if is_numbered || whole.contains(&key) {
            tag(&mut tagged, LETTER_SETTING, key);
            if each(SETTINGS, &tagged, value).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Finds the parts to which rows belong.
struct Parts<'s> {
    state: TreeState<'s>,
    names: Vec<String>,
    /// For each suffix entry, and each entry with subordinates: the index in `names` of the part that contains the
    /// entry.
    of: HashMap<EntryId, usize>,
    /// The entry of the last row, and its part. Rows of one entry are adjacent.
    last: Option<(EntryId, usize)>,
}

impl Parts<'_> {
    /// Returns the name of the part of the directory to which a row belongs. `key` begins with an entry id.
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
