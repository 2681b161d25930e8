//! Merge of sorted sources by a loser tree. Each inner node stores the source that lost the comparison at that node. So
//! the next row of the winner is compared with only one opponent per level on its way up.

#![expect(
    clippy::indexing_slicing,
    reason = "sources and nodes are numbered here, and no input is a number of one"
)]

use std::cmp::Ordering;

use super::row_buffer::{RowBuffer, head_of};
use super::run::RunReader;
use crate::Result;

/// A source of sorted rows.
pub(crate) enum Rows {
    /// Rows in memory, and the number of rows read so far. The current row is the row read last.
    Memory(RowBuffer, usize),
    File(RunReader),
}

struct Source {
    rows: Rows,
    /// The head of the current row's key; unused after the last row.
    head: u64,
    ended: bool,
}

pub(crate) struct Merge {
    sources: Vec<Source>,
    /// At each index from 1, the source that lost the comparison at that inner node. At index 0, the overall winner.
    tree: Vec<usize>,
    /// Whether the winner's row has been returned.
    is_winner_returned: bool,
}

impl Merge {
    pub(crate) fn new(rows: Vec<Rows>) -> Result<Merge> {
        let mut sources = Vec::with_capacity(rows.len());
        for rows in rows {
            let mut source = Source { rows, head: 0, ended: false };
            source.advance()?;
            sources.push(source);
        }
        let mut merge = Merge { tree: vec![0; sources.len()], sources, is_winner_returned: false };
        merge.play_all();
        Ok(merge)
    }

    /// Returns the next row, as key and value.
    pub(crate) fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.sources.is_empty() {
            return Ok(None);
        }
        if self.is_winner_returned {
            self.sources[self.tree[0]].advance()?;
            self.play_winner();
        }
        let winner = &self.sources[self.tree[0]];
        self.is_winner_returned = !winner.ended;
        Ok(if winner.ended { None } else { Some(winner.row()) })
    }

    /// Finds the first winner. Source `i` of `n` is the leaf `n + i`, and the nodes `2k` and `2k + 1` are below node
    /// `k`.
    fn play_all(&mut self) {
        let count = self.sources.len();
        let mut winners: Vec<usize> = (0..count).chain(0..count).collect();
        for node in (1..count).rev() {
            let (one, other) = (winners[2 * node], winners[2 * node + 1]);
            let (winner, loser) = if self.wins(one, other) { (one, other) } else { (other, one) };
            (winners[node], self.tree[node]) = (winner, loser);
        }
        if let (Some(root), Some(&winner)) = (self.tree.first_mut(), winners.get(1.min(count))) {
            *root = winner;
        }
    }

    /// Finds the next winner, after the last winner has advanced to its next row.
    fn play_winner(&mut self) {
        let mut winner = self.tree[0];
        let mut node = (self.sources.len() + winner) / 2;
        while node > 0 {
            if self.wins(self.tree[node], winner) {
                std::mem::swap(&mut self.tree[node], &mut winner);
            }
            node /= 2;
        }
        self.tree[0] = winner;
    }

    #[inline]
    fn wins(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.sources[one], &self.sources[other]);
        if one.ended || other.ended {
            return other.ended;
        }
        match one.head.cmp(&other.head) {
            Ordering::Equal => one.row() < other.row(),
            order => order.is_lt(),
        }
    }
}

impl Source {
    #[inline]
    fn row(&self) -> (&[u8], &[u8]) {
        match &self.rows {
            Rows::Memory(rows, passed) => rows.row(passed.wrapping_sub(1)).unwrap_or_default(),
            Rows::File(reader) => (reader.key(), reader.value()),
        }
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        self.ended = match &mut self.rows {
            Rows::Memory(rows, passed) => {
                *passed += 1;
                *passed > rows.len()
            }
            Rows::File(reader) => !reader.advance()?,
        };
        self.head = head_of(self.row().0);
        Ok(())
    }
}
