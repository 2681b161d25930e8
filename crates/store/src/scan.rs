//! Scans: the keys of a map in order, between bounds, in either direction.

use std::ops::Bound;

use crate::layout::{Map, MapKind};
use crate::lmdb::{Cursor, Failure, Row, Step};
use crate::{Read, Result, StoreError};

/// A range of keys in memcmp order. Bounds may have any length; an empty one stands below every key.
pub type KeyRange<'k> = (Bound<&'k [u8]>, Bound<&'k [u8]>);

/// Which way a scan goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the lowest key up.
    Forward,
    /// From the highest key down.
    Backward,
}

/// The walk under both kinds of scan: from the near bound, which the cursor finds once, to the far one, which every key is held against.
struct Walk<'r> {
    cursor: Cursor<'r>,
    direction: Direction,
    near: Bound<Box<[u8]>>,
    far: Bound<Box<[u8]>>,
    started: bool,
}

impl<'r> Walk<'r> {
    fn new(cursor: Cursor<'r>, (low, high): KeyRange<'_>, direction: Direction) -> Walk<'r> {
        let (low, high) = (low.map(Box::from), high.map(Box::from));
        let (near, far) = match direction {
            Direction::Forward => (low, high),
            Direction::Backward => (high, low),
        };
        Walk { cursor, direction, near, far, started: false }
    }

    fn next(&mut self) -> std::result::Result<Option<Row<'r>>, Failure> {
        let row = match (self.started, self.direction) {
            (true, Direction::Forward) => self.cursor.step(Step::NextKey)?,
            (true, Direction::Backward) => self.cursor.step(Step::PreviousKey)?,
            (false, Direction::Forward) => self.lowest()?,
            (false, Direction::Backward) => self.highest()?,
        };
        self.started = true;
        Ok(row.filter(|(key, _)| self.within_far_bound(key)))
    }

    fn lowest(&mut self) -> std::result::Result<Option<Row<'r>>, Failure> {
        let (Bound::Included(near) | Bound::Excluded(near)) = &self.near else {
            return self.cursor.step(Step::First);
        };
        if near.is_empty() {
            return self.cursor.step(Step::First);
        }
        let row = self.cursor.at_or_after(near)?;
        match (&self.near, row) {
            (Bound::Excluded(near), Some((key, _))) if key == &**near => self.cursor.step(Step::NextKey),
            _ => Ok(row),
        }
    }

    fn highest(&mut self) -> std::result::Result<Option<Row<'r>>, Failure> {
        let (Bound::Included(near) | Bound::Excluded(near)) = &self.near else {
            return self.cursor.step(Step::Last);
        };
        if near.is_empty() {
            return Ok(None);
        }
        match (self.cursor.at_or_after(near)?, &self.near) {
            (None, _) => self.cursor.step(Step::Last),
            (Some(row), Bound::Included(near)) if row.0 == &**near => Ok(Some(row)),
            (Some(_), _) => self.cursor.step(Step::PreviousKey),
        }
    }

    fn within_far_bound(&self, key: &[u8]) -> bool {
        match (self.direction, &self.far) {
            (_, Bound::Unbounded) => true,
            (Direction::Forward, Bound::Included(high)) => key <= &**high,
            (Direction::Forward, Bound::Excluded(high)) => key < &**high,
            (Direction::Backward, Bound::Included(low)) => key >= &**low,
            (Direction::Backward, Bound::Excluded(low)) => key > &**low,
        }
    }
}

/// A walk that may have failed to begin, that ends with an error, and that ends for good.
struct Steps<'r> {
    read: &'r Read,
    state: State<'r>,
}

enum State<'r> {
    Walking(Walk<'r>),
    Failed(StoreError),
    Ended,
}

impl<'r> Steps<'r> {
    fn new(read: &'r Read, map: Result<Map>, range: KeyRange<'_>, direction: Direction) -> Steps<'r> {
        let state = match map.and_then(|map| read.cursor(map)) {
            Ok(cursor) => State::Walking(Walk::new(cursor, range, direction)),
            Err(error) => State::Failed(error),
        };
        Steps { read, state }
    }

    /// The next row, turned by `item` into what the scan yields.
    fn next<T>(
        &mut self,
        item: impl FnOnce(&mut Cursor<'r>, Row<'r>) -> std::result::Result<T, Failure>,
    ) -> Option<Result<T>> {
        if let State::Walking(walk) = &mut self.state {
            let outcome = walk.next().and_then(|row| match row {
                Some(row) => item(&mut walk.cursor, row).map(Some),
                None => Ok(None),
            });
            match outcome {
                Ok(Some(item)) => return Some(Ok(item)),
                Ok(None) => self.state = State::Ended,
                Err(failure) => self.state = State::Failed(self.read.error(failure)),
            }
        }
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Failed(error) => Some(Err(error)),
            _ => None,
        }
    }
}

/// Iterator of [`Read::scan`]. An error ends it.
pub struct Scan<'r>(Steps<'r>);

impl<'r> Scan<'r> {
    pub(crate) fn new(read: &'r Read, map: Map, range: KeyRange<'_>, direction: Direction) -> Scan<'r> {
        Scan(Steps::new(read, map.of_kind(MapKind::Plain), range, direction))
    }
}

impl<'r> Iterator for Scan<'r> {
    type Item = Result<(&'r [u8], &'r [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next(|_, row| Ok(row))
    }
}

/// Iterator of [`Read::scan_keys`]. An error ends it.
pub struct KeyScan<'r> {
    steps: Steps<'r>,
    first_id: Option<u64>,
}

impl<'r> KeyScan<'r> {
    pub(crate) fn new(read: &'r Read, map: Map, range: KeyRange<'_>, direction: Direction) -> KeyScan<'r> {
        KeyScan { steps: Steps::new(read, map.of_kind(MapKind::IdSet), range, direction), first_id: None }
    }

    /// The lowest id of the key returned last by a forward scan: all there is to know of a key with one id.
    pub fn first_id(&self) -> Option<u64> {
        self.first_id
    }
}

impl<'r> Iterator for KeyScan<'r> {
    type Item = Result<(&'r [u8], u64)>;

    fn next(&mut self) -> Option<Self::Item> {
        let first_id = &mut self.first_id;
        self.steps.next(|cursor, (key, value)| {
            *first_id = value.try_into().ok().map(u64::from_be_bytes);
            Ok((key, cursor.value_count()?))
        })
    }
}
