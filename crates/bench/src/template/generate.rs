//! The whole document, by as many threads as are asked for, in order and never in memory.
//!
//! The document is cut into pieces: a range of entries, or, of an entry with more members than [`MEMBERS_PER_PIECE`], a
//! range of its members. Threads take pieces in turn and hand them in numbered; one thread writes them in order. A
//! thread that is far ahead waits, so at most [`PIECES_AHEAD_MAX`] pieces are held.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::entry::Renderer;
use super::parse::Line;
use super::plan::{Location, Plan, Step};

/// Entries generated at once: some hundred kilobytes of most templates.
const ENTRIES_PER_PIECE: u64 = 256;

/// Members generated at once. A group with more of them is cut.
const MEMBERS_PER_PIECE: u64 = 4096;

/// Pieces that wait for an earlier one to be written.
const PIECES_AHEAD_MAX: u64 = 32;

/// Writes the document; gives the number of octets.
pub(super) fn generate(
    plan: &Plan,
    seed: u64,
    threads: NonZeroUsize,
    out: &mut impl Write,
) -> io::Result<u64> {
    let mut pieces = Pieces::new(plan);
    let mut octets = 0;
    if threads.get() == 1 {
        let mut renderer = Renderer::new(plan, seed);
        let mut text = Vec::new();
        while let Some(piece) = pieces.next() {
            text.clear();
            piece.render(plan, &mut renderer, &mut text);
            out.write_all(&text)?;
            octets += text.len() as u64;
        }
        return Ok(octets);
    }
    let desk = Desk {
        state: Mutex::new(State {
            pieces,
            taken: 0,
            written: 0,
            done: BTreeMap::new(),
            spare: Vec::new(),
            workers: threads.get(),
            is_stopped: false,
        }),
        handed_in: Condvar::new(),
        has_room: Condvar::new(),
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.get() {
            scope.spawn(|| desk.work(plan, seed));
        }
        desk.write(out)
    })
}

/// What one thread generates at a time.
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

/// Cuts the document into pieces, in its order.
struct Pieces<'p> {
    plan: &'p Plan,
    /// Nodes whose entries have too many members for one piece.
    large: Vec<usize>,
    next: u64,
    total: u64,
    /// The next entry of a large node.
    next_large: Option<u64>,
    /// What is left of the one begun.
    begun: Option<Group>,
    location: Location,
}

/// An entry with many members, cut in pieces: lines, members, lines, and so on.
struct Group {
    step: Step,
    /// The first line that is not written yet.
    next_line: usize,
    /// The line of members that is being written, whose, and which are left.
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
            begun: None,
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

    fn next(&mut self) -> Option<Piece> {
        if let Some(group) = self.begun.take() {
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

    /// The next piece of a group; what is left stays begun.
    fn piece_of(&mut self, mut group: Group) -> Piece {
        let Step { node, index, .. } = group.step;
        if let Some((line, target, left)) = &mut group.members
            && !left.is_empty()
        {
            let ordinals = left.start..(left.start + MEMBERS_PER_PIECE).min(left.end);
            left.start = ordinals.end;
            let piece = Piece::Members { node, line: *line, target: *target, ordinals };
            self.begun = Some(group);
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
        self.begun = Some(group);
        Piece::Lines { index, lines }
    }
}

/// Where threads take pieces and hand in text.
struct Desk<'p> {
    state: Mutex<State<'p>>,
    handed_in: Condvar,
    has_room: Condvar,
}

struct State<'p> {
    pieces: Pieces<'p>,
    taken: u64,
    written: u64,
    done: BTreeMap<u64, Vec<u8>>,
    /// Buffers to use again.
    spare: Vec<Vec<u8>>,
    /// Threads still at work.
    workers: usize,
    /// Nobody writes any more.
    is_stopped: bool,
}

impl<'p> Desk<'p> {
    fn lock(&self) -> MutexGuard<'_, State<'p>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, plan: &Plan, seed: u64) {
        // However this ends, the writer must not wait for it.
        struct Leaving<'d, 'p>(&'d Desk<'p>);
        impl Drop for Leaving<'_, '_> {
            fn drop(&mut self) {
                self.0.lock().workers -= 1;
                self.0.handed_in.notify_one();
            }
        }
        let _leaving = Leaving(self);
        let mut renderer = Renderer::new(plan, seed);
        loop {
            let (number, piece, mut text) = {
                let mut state = self.lock();
                while state.taken >= state.written + PIECES_AHEAD_MAX && !state.is_stopped {
                    state = self.has_room.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                if state.is_stopped {
                    return;
                }
                let Some(piece) = state.pieces.next() else { return };
                state.taken += 1;
                (state.taken - 1, piece, state.spare.pop().unwrap_or_default())
            };
            text.clear();
            piece.render(plan, &mut renderer, &mut text);
            self.lock().done.insert(number, text);
            self.handed_in.notify_one();
        }
    }

    fn write(&self, out: &mut impl Write) -> io::Result<u64> {
        let mut octets = 0;
        let mut state = self.lock();
        loop {
            let number = state.written;
            let Some(text) = state.done.remove(&number) else {
                if state.workers == 0 {
                    return Ok(octets);
                }
                state = self.handed_in.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            let result = out.write_all(&text);
            octets += text.len() as u64;
            state = self.lock();
            state.written += 1;
            state.spare.push(text);
            state.is_stopped |= result.is_err();
            self.has_room.notify_all();
            result?;
        }
    }
}
