//! [`LogScan`]: the records of the log in order, each checked.

use super::Read;
use super::scan::Scan;
use crate::error::LogDamage;
use crate::log::{position_of, unframe};
use crate::{Position, Result, StoreError};

/// Iterator of [`Read::log_records`]. An error ends it.
pub struct LogScan<'r> {
    read: &'r Read,
    rows: Scan<'r>,
    from: Position,
    /// Position that the next record must have; `None` before the first record.
    expected: Option<Position>,
    ended: bool,
}

impl<'r> LogScan<'r> {
    /// Creates the scan. `rows` are the rows of the log from position `from` on.
    pub(crate) fn new(read: &'r Read, rows: Scan<'r>, from: Position) -> LogScan<'r> {
        LogScan { read, rows, from, expected: None, ended: false }
    }

    fn record(&mut self, key: &'r [u8], framed: &'r [u8]) -> Result<(Position, &'r [u8])> {
        let position = position_of(key)?;
        let damaged = |damage| StoreError::DamagedLog { position, damage };
        let missing = match self.expected {
            Some(expected) => position != expected,
            // The log may begin after `from`. In that case, the first record found must be the log's first record.
            None => position != self.from && self.read.first_position()? != Some(position),
        };
        if missing {
            return Err(damaged(LogDamage::Gap));
        }
        self.expected = position.checked_add(1);
        Ok((position, unframe(position, framed).map_err(damaged)?))
    }
}

impl<'r> Iterator for LogScan<'r> {
    type Item = Result<(Position, &'r [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = self.rows.next()?.and_then(|(key, framed)| self.record(key, framed));
        self.ended = item.is_err();
        Some(item)
    }
}
