//! Generation of the whole document. Several threads generate parts of the document, which are written in order. The
//! document is never in memory as a whole.
//!
//! The document is divided into pieces. Most pieces are ranges of entries. An entry with at least [`MEMBERS_PER_PIECE`]
//! members has pieces of its own: ranges of its lines, and ranges of its members. Pieces are assigned to the threads in
//! turn, and their output is written in the same order. A thread that is far ahead must wait. So at most about
//! [`PIECES_AHEAD_MAX`] pieces are in memory, in addition to one for each thread.

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::mpsc::sync_channel;

use super::entry::Renderer;
use super::parse::Line;
use super::plan::{Location, Plan, Step};

/// Number of entries in a piece. With most templates, a piece has a few hundred kilobytes.
const ENTRIES_PER_PIECE: u64 = 256;

/// Number of members in a piece. A group with more members is divided.
const MEMBERS_PER_PIECE: u64 = 4096;

/// Number of pieces that may wait for an earlier piece to be written.
const PIECES_AHEAD_MAX: usize = 32;

/// Writes the document. Returns the number of octets.
pub(super) fn generate(
    plan: &Plan,
    seed: u64,
    threads: NonZeroUsize,
    out: &mut impl Write,
) -> io::Result<u64> {
    let threads = threads.get();
    std::thread::scope(|scope| {
        let mut receivers = Vec::new();
        for thread in 0..threads {
            let (sender, receiver) = sync_channel(PIECES_AHEAD_MAX.div_ceil(threads));
            receivers.push(receiver);
            scope.spawn(move || {
                let mut renderer = Renderer::new(plan, seed);
                for piece in Pieces::new(plan).skip(thread).step_by(threads) {
                    let mut text = Vec::new();
                    piece.render(plan, &mut renderer, &mut text);
                    if sender.send(text).is_err() {
                        // The receiver was dropped, so nothing is written any more.
                        return;
                    }
                }
            });
        }
        let mut octets = 0;
        // If a thread has no piece when it is its turn, the document is complete.
        for text in receivers.iter().cycle().map_while(|receiver| receiver.recv().ok()) {
            out.write_all(&text)?;
            octets += text.len() as u64;
        }
        Ok(octets)
    })
}

/// Part of the document that a thread generates at a time.
enum Piece {
    Entries(Range<u64>),
    Lines { index: u64, lines: Range<usize> },
    Members { node: usize, line: usize, target: usize, ordinals: Range<u64> },
}

impl Piece {
    fn render(self, plan: &Plan, renderer: &mut Renderer<'_>, out: &mut Vec<u8>) {
        match self {
            Piece::Entries(range) => renderer.entries(range, out),
            Piece::Lines { index, lines } => renderer.part(index, lines, out),
            Piece::Members { node, line, target, ordinals } => {
                renderer.members(&plan.nodes[node].lines[line].label, target, ordinals, out);
            }
        }
    }
}

/// Divides the document into pieces, in its order.
struct Pieces<'p> {
    plan: &'p Plan,
    /// Nodes whose entries have too many members for one piece.
    large: Vec<usize>,
    next: u64,
    total: u64,
    /// The next entry of a large node.
    next_large: Option<u64>,
    /// The rest of a group whose first pieces were already returned.
    open_group: Option<Group>,
    location: Location,
}

/// An entry with many members. Its pieces alternate between lines and members.
struct Group {
    step: Step,
    /// The first line that is not written yet.
    next_line: usize,
    /// The line of members that is being written: its index, the node of the members, and the range of members that
    /// remain.
    members: Option<(usize, usize, Range<u64>)>,
}

impl<'p> Pieces<'p> {
    fn new(plan: &'p Plan) -> Pieces<'p> {
        let is_large = |node: &usize| {
            let mut members = plan.nodes[*node].lines.iter().filter_map(Line::members);
            members.any(|target| plan.count(target) / plan.count(*node).max(1) >= MEMBERS_PER_PIECE)
        };
        let mut pieces = Pieces {
            plan,
            large: (0..plan.nodes.len()).filter(is_large).collect(),
            next: 0,
            total: plan.entry_count(),
            next_large: None,
            open_group: None,
            location: Location::default(),
        };
        pieces.find_large();
        pieces
    }

    /// Finds the next entry of a large node, from `next` on.
    fn find_large(&mut self) {
        self.next_large = None;
        if self.large.is_empty() || self.next >= self.total {
            return;
        }
        self.plan.locate(self.plan.all(), self.next, &mut self.location);
        let here = std::mem::take(&mut self.location.before);
        for &node in &self.large {
            if here[node] < self.plan.count(node) {
                self.plan.locate(node, here[node], &mut self.location);
                let index = self.location.path.last().map(|step| step.index);
                self.next_large = [self.next_large, index].into_iter().flatten().min();
            }
        }
    }

    /// Returns the next piece of a group, and stores the rest in `open_group`.
    fn piece_of(&mut self, mut group: Group) -> Piece {
        let Step { node, index, .. } = group.step;
        if let Some((line, target, left)) = &mut group.members
            && !left.is_empty()
        {
            let ordinals = left.start..(left.start + MEMBERS_PER_PIECE).min(left.end);
            left.start = ordinals.end;
            let piece = Piece::Members { node, line: *line, target: *target, ordinals };
            self.open_group = Some(group);
            return piece;
        }
        let all = &self.plan.nodes[node].lines;
        let of_members = |line: usize| all[line].members().map(|target| (line, target));
        let Some((line, target)) = (group.next_line..all.len()).find_map(of_members) else {
            return Piece::Lines { index, lines: group.next_line..all.len() };
        };
        let lines = group.next_line..line;
        group.next_line = line + 1;
        group.members = Some((line, target, self.plan.members(group.step, target)));
        self.open_group = Some(group);
        Piece::Lines { index, lines }
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if let Some(group) = self.open_group.take() {
            return Some(self.piece_of(group));
        }
        if self.next == self.total {
            return None;
        }
        if self.next_large == Some(self.next) {
            self.plan.locate(self.plan.all(), self.next, &mut self.location);
            let step = self.location.path.last().copied()?;
            self.next += 1;
            self.find_large();
            let group = Group { step, next_line: 0, members: None };
            return Some(self.piece_of(group));
        }
        let end = (self.next + ENTRIES_PER_PIECE).min(self.total).min(self.next_large.unwrap_or(u64::MAX));
        let range = self.next..end;
        self.next = end;
        Some(Piece::Entries(range))
    }
}
