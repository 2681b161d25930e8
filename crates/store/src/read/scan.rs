//! Scans: the keys of a map in order, between bounds, in either direction.

use std::cmp::Ordering;
use std::ops::Bound;

use super::Read;
use super::ids::IdCursor;
use crate::lmdb::{Cursor, Failure, Row, Step};
use crate::maps::{Direction, KeyRange, Map, MapKind};
use crate::overlay::{IdChanges, Key, LayerCursor, Overlay, RowChange, SetChange};
use crate::{Result, StoreError};

/// Traversal of the data file for both kinds of scan. The cursor is placed once, at the near bound. Each key is then
/// compared with the far bound.
struct Traversal<'r> {
    cursor: Cursor<'r>,
    direction: Direction,
    near: Bound<Key>,
    far: Bound<Key>,
    started: bool,
    /// Whether the remaining steps only move to the next row: the traversal has started, is forward, and has no far
    /// bound.
    continues: bool,
}

impl<'r> Traversal<'r> {
    fn new(cursor: Cursor<'r>, (low, high): KeyRange<'_>, direction: Direction) -> Traversal<'r> {
        let (low, high) = (low.map(Key::of_any_length), high.map(Key::of_any_length));
        let (near, far) = match direction {
            Direction::Forward => (low, high),
            Direction::Backward => (high, low),
        };
        Traversal { cursor, direction, near, far, started: false, continues: false }
    }

    /// Returns the next row if it is on the current page.
    #[inline(always)]
    fn next_at_hand(&mut self) -> Option<Row<'r>> {
        if self.continues { self.cursor.next_at_hand() } else { None }
    }

    #[inline]
    fn next(&mut self) -> Result<Option<Row<'r>>, Failure> {
        let row = match (self.started, self.direction) {
            (true, Direction::Forward) => self.cursor.step(Step::NextKey)?,
            (true, Direction::Backward) => self.cursor.step(Step::PreviousKey)?,
            (false, Direction::Forward) => self.lowest()?,
            (false, Direction::Backward) => self.highest()?,
        };
        self.started = true;
        self.continues = self.direction == Direction::Forward && matches!(self.far, Bound::Unbounded);
        Ok(row.filter(|(key, _)| self.within_far_bound(key)))
    }

    fn lowest(&mut self) -> Result<Option<Row<'r>>, Failure> {
        let (Bound::Included(near) | Bound::Excluded(near)) = &self.near else {
            return self.cursor.step(Step::First);
        };
        if near.bytes().is_empty() {
            return self.cursor.step(Step::First);
        }
        let row = self.cursor.at_or_after(near.bytes())?;
        match (&self.near, row) {
            (Bound::Excluded(near), Some((key, _))) if key == near.bytes() => self.cursor.step(Step::NextKey),
            _ => Ok(row),
        }
    }

    fn highest(&mut self) -> Result<Option<Row<'r>>, Failure> {
        let (Bound::Included(near) | Bound::Excluded(near)) = &self.near else {
            return self.cursor.step(Step::Last);
        };
        if near.bytes().is_empty() {
            return Ok(None);
        }
        match (self.cursor.at_or_after(near.bytes())?, &self.near) {
            (None, _) => self.cursor.step(Step::Last),
            (Some(row), Bound::Included(near)) if row.0 == near.bytes() => Ok(Some(row)),
            (Some(_), _) => self.cursor.step(Step::PreviousKey),
        }
    }

    fn within_far_bound(&self, key: &[u8]) -> bool {
        match (self.direction, &self.far) {
            (_, Bound::Unbounded) => true,
            (Direction::Forward, Bound::Included(high)) => key <= high.bytes(),
            (Direction::Forward, Bound::Excluded(high)) => key < high.bytes(),
            (Direction::Backward, Bound::Included(low)) => key >= low.bytes(),
            (Direction::Backward, Bound::Excluded(low)) => key > low.bytes(),
        }
    }
}

/// Traversal of the data file merged with pending changes. If a key is in both, the pending change is used.
struct Merge<'r, V> {
    traversal: Traversal<'r>,
    /// Row of the data file at the cursor, if not returned yet.
    row: Option<Row<'r>>,
    row_due: bool,
    changes: LayerCursor<'r, V>,
}

/// Source of a row.
enum Found<'r, V> {
    /// The data file; the cursor is at the row.
    File(Row<'r>),
    Change(&'r (Key, V)),
}

impl<'r, V> Merge<'r, V> {
    fn next(&mut self) -> Result<Option<Found<'r, V>>, Failure> {
        if self.row_due {
            self.row = self.traversal.next()?;
            self.row_due = false;
        }
        let change = self.changes.item().filter(|(key, _)| self.traversal.within_far_bound(key.bytes()));
        let Some(change) = change else { return Ok(self.take_row().map(Found::File)) };
        let key = change.0.bytes();
        let order = self.row.map_or(Ordering::Less, |(of_row, _)| match self.traversal.direction {
            Direction::Forward => key.cmp(of_row),
            Direction::Backward => of_row.cmp(key),
        });
        if order == Ordering::Greater {
            return Ok(self.take_row().map(Found::File));
        }
        if order == Ordering::Equal {
            self.take_row();
        }
        self.changes.pass(key);
        Ok(Some(Found::Change(change)))
    }

    /// Takes the current row. After it has returned `None`, it always returns `None`.
    fn take_row(&mut self) -> Option<Row<'r>> {
        let row = self.row.take();
        self.row_due = row.is_some();
        row
    }
}

/// Traversal of a scan. If the traversal could not begin, the first step returns the error. An error ends the
/// traversal.
struct Steps<'r, V> {
    read: &'r Read,
    state: StepState<'r, V>,
}

enum StepState<'r, V> {
    Walking(Traversal<'r>),
    Merging(Box<Merge<'r, V>>),
    Failed(StoreError),
    Ended,
}

impl<'r, V> Steps<'r, V> {
    /// Creates the traversal. `changes` are the pending changes of the map, if any.
    fn new(
        read: &'r Read,
        map: Result<Map>,
        range: KeyRange<'_>,
        direction: Direction,
        changes: impl FnOnce(&'r Overlay, usize) -> Option<LayerCursor<'r, V>>,
    ) -> Steps<'r, V> {
        let traversal = map.and_then(|map| Ok((map, Traversal::new(read.cursor(map)?, range, direction))));
        let (map, traversal) = match traversal {
            Ok(traversal) => traversal,
            Err(error) => return Steps { read, state: StepState::Failed(error) },
        };
        let changes = read.overlay.as_deref().and_then(|overlay| changes(overlay, map.index));
        let state = match changes.and_then(|changes| in_range(changes, &traversal)) {
            Some(changes) => {
                StepState::Merging(Box::new(Merge { traversal, row: None, row_due: true, changes }))
            }
            None => StepState::Walking(traversal),
        };
        Steps { read, state }
    }

    /// Returns the next row as the scan's item. `of_file` converts a row of the data file. `of_change` converts a
    /// pending change, and skips a deleted row.
    #[inline]
    fn next<T>(
        &mut self,
        mut of_file: impl FnMut(&mut Cursor<'r>, Row<'r>) -> Result<T, Failure>,
        of_change: impl FnMut(&'r [u8], &'r V) -> Result<Option<T>>,
    ) -> Option<Result<T>> {
        if let StepState::Walking(traversal) = &mut self.state {
            let outcome = traversal.next().and_then(|row| match row {
                Some(row) => of_file(&mut traversal.cursor, row).map(Some),
                None => Ok(None),
            });
            match outcome {
                Ok(Some(item)) => return Some(Ok(item)),
                Ok(None) => self.state = StepState::Ended,
                Err(failure) => self.state = StepState::Failed(self.read.error(failure)),
            }
        }
        self.next_merged(of_file, of_change)
    }

    /// Does the same as [`next`](Steps::next). Called if there are pending changes, or after the end.
    #[inline(never)]
    fn next_merged<T>(
        &mut self,
        mut of_file: impl FnMut(&mut Cursor<'r>, Row<'r>) -> Result<T, Failure>,
        mut of_change: impl FnMut(&'r [u8], &'r V) -> Result<Option<T>>,
    ) -> Option<Result<T>> {
        while let StepState::Merging(merge) = &mut self.state {
            let outcome = match merge.next() {
                Ok(Some(Found::Change((key, change)))) => match of_change(key.bytes(), change) {
                    Ok(None) => continue,
                    outcome => outcome,
                },
                Ok(Some(Found::File(row))) => {
                    let item = of_file(&mut merge.traversal.cursor, row);
                    item.map(Some).map_err(|failure| self.read.error(failure))
                }
                Ok(None) => Ok(None),
                Err(failure) => Err(self.read.error(failure)),
            };
            match outcome {
                Ok(Some(item)) => return Some(Ok(item)),
                Ok(None) => self.state = StepState::Ended,
                Err(error) => self.state = StepState::Failed(error),
            }
        }
        match std::mem::replace(&mut self.state, StepState::Ended) {
            StepState::Failed(error) => Some(Err(error)),
            _ => None,
        }
    }
}

/// Returns the cursor at the first change within a traversal's range, if there is one.
fn in_range<'r, V>(mut changes: LayerCursor<'r, V>, traversal: &Traversal<'_>) -> Option<LayerCursor<'r, V>> {
    changes.seek(traversal.near.as_ref().map(Key::bytes), traversal.direction);
    let is_within = changes.item().is_some_and(|(key, _)| traversal.within_far_bound(key.bytes()));
    is_within.then_some(changes)
}

/// Iterator of [`Read::scan`]. An error ends it.
pub struct Scan<'r>(Steps<'r, RowChange>);

impl<'r> Scan<'r> {
    pub(crate) fn new(read: &'r Read, map: Map, range: KeyRange<'_>, direction: Direction) -> Scan<'r> {
        Scan(Steps::new(read, map.of_kind(MapKind::Plain), range, direction, Overlay::rows))
    }
}

impl<'r> Iterator for Scan<'r> {
    type Item = Result<(&'r [u8], &'r [u8])>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        // Fast path for nearly all rows of a long scan: returns the row without storing a result in memory.
        if let StepState::Walking(traversal) = &mut self.0.state
            && let Some(row) = traversal.next_at_hand()
        {
            return Some(Ok(row));
        }
        self.0.next(|_, row| Ok(row), |key, change| Ok(change.as_deref().map(|value| (key, value))))
    }
}

/// Iterator of [`Read::scan_keys`]. An error ends it.
pub struct KeyScan<'r> {
    steps: Steps<'r, SetChange>,
    map: usize,
    direction: Direction,
    first_id: Option<u64>,
}

impl<'r> KeyScan<'r> {
    pub(crate) fn new(read: &'r Read, map: Map, range: KeyRange<'_>, direction: Direction) -> KeyScan<'r> {
        let steps = Steps::new(read, map.of_kind(MapKind::IdSet), range, direction, Overlay::sets);
        KeyScan { steps, map: map.index, direction, first_id: None }
    }

    /// Returns the lowest id of the key that a forward scan returned last. For a key with one id, that is the only id.
    pub fn first_id(&self) -> Option<u64> {
        self.first_id
    }
}

impl<'r> Iterator for KeyScan<'r> {
    type Item = Result<(&'r [u8], u64)>;

    fn next(&mut self) -> Option<Self::Item> {
        let (read, map, direction) = (self.steps.read, self.map, self.direction);
        let mut first_id = None;
        let item = self.steps.next(
            |cursor, (key, value)| {
                let id = value.try_into().ok().map(u64::from_be_bytes);
                Ok(((key, cursor.value_count()?), id))
            },
            |key, change| {
                let id = match (change.count, &change.ids) {
                    (0, _) => return Ok(None),
                    (1, IdChanges::One(id, true)) => Some(*id),
                    _ if direction == Direction::Forward => IdCursor::open(read, map, key)?.seek(0)?,
                    _ => None,
                };
                Ok(Some(((key, change.count), id)))
            },
        );
        let item = item?.map(|(item, id)| {
            first_id = id;
            item
        });
        self.first_id = first_id;
        Some(item)
    }
}
