//! The queue of the hash pool: fair between the sources of its jobs, and not the same for all of them.
//!
//! Sources take turns, so one that asks a thousand times waits for itself. A flood from a thousand sources is met by
//! what is known of them: those whose passwords were right lately are in the first class, those that are new in the
//! second, those whose passwords are always wrong in the last. A class has most turns of those behind it, and none
//! starves. When the queue is full, a job of a class behind gives way, or of the source that has most.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use crate::limits::{
    GOOD_SOURCE_FAILURES_MAX, SOURCE_FAILURES_MAX, SOURCE_REFUSALS_MAX, SOURCES_MAX, STANDING_FORGOTTEN_AFTER,
};
use crate::net::request_memory::Source;

/// What is known of a source, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// Passwords from there were right.
    Good,
    /// Little.
    New,
    /// Passwords from there were wrong, and none right since.
    Bad,
}

/// What sources are known for. The table is bounded: what does not fit stays new.
#[derive(Debug, Default)]
pub(super) struct Standings {
    sources: HashMap<Source, Record>,
}

#[derive(Debug)]
struct Record {
    last: Instant,
    was_right: bool,
    /// Wrong passwords since the last that was right.
    failures: u32,
    /// Binds since then that were answered busy: whoever asks again at once, and again, is flooding.
    refusals: u32,
}

/// The jobs that wait.
#[derive(Debug)]
pub(super) struct FairQueue<J> {
    classes: [Class<J>; 3],
    len: usize,
    /// Jobs that were taken.
    taken: u64,
}

/// The jobs of the sources of one standing.
#[derive(Debug)]
struct Class<J> {
    sources: HashMap<Source, VecDeque<J>>,
    /// Those with jobs, each once, in the order of their turns.
    turns: VecDeque<Source>,
}

/// Of so many turns, a class leaves one to those behind it.
const TURNS: u64 = 4;

impl Standings {
    pub(super) fn of(&self, source: &Source, now: Instant) -> Standing {
        match self.sources.get(source).filter(|record| !record.is_old(now)) {
            Some(record) if record.was_right && record.failures < GOOD_SOURCE_FAILURES_MAX => Standing::Good,
            Some(record) if record.failures >= SOURCE_FAILURES_MAX => Standing::Bad,
            Some(record) if record.refusals >= SOURCE_REFUSALS_MAX => Standing::Bad,
            _ => Standing::New,
        }
    }

    /// A password from there was right or wrong.
    pub(super) fn note(&mut self, source: Source, is_right: bool, now: Instant) {
        let Some(record) = self.record(source, now) else { return };
        record.was_right |= is_right;
        (record.failures, record.refusals) =
            if is_right { (0, 0) } else { (record.failures.saturating_add(1), record.refusals) };
    }

    /// A bind from there was answered busy.
    pub(super) fn note_refusal(&mut self, source: Source, now: Instant) {
        if let Some(record) = self.record(source, now) {
            record.refusals = record.refusals.saturating_add(1);
        }
    }

    fn record(&mut self, source: Source, now: Instant) -> Option<&mut Record> {
        if self.sources.len() >= SOURCES_MAX && !self.sources.contains_key(&source) {
            self.sources.retain(|_, record| !record.is_old(now));
            if self.sources.len() >= SOURCES_MAX {
                return None;
            }
        }
        let new = || Record { last: now, was_right: false, failures: 0, refusals: 0 };
        let record = self.sources.entry(source).or_insert_with(new);
        if record.is_old(now) {
            *record = new();
        }
        record.last = now;
        Some(record)
    }
}

impl Record {
    fn is_old(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) >= STANDING_FORGOTTEN_AFTER
    }
}

impl<J> Default for FairQueue<J> {
    fn default() -> FairQueue<J> {
        let classes = [(); 3].map(|()| Class { sources: HashMap::new(), turns: VecDeque::new() });
        FairQueue { classes, len: 0, taken: 0 }
    }
}

impl<J> FairQueue<J> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, source: Source, standing: Standing, job: J) {
        let class = self.class(standing);
        let jobs = class.sources.entry(source).or_default();
        if jobs.is_empty() {
            class.turns.push_back(source);
        }
        jobs.push_back(job);
        self.len += 1;
    }

    /// The next job: of the first class whose turn it is, of the source there that has waited longest.
    pub(super) fn pop(&mut self) -> Option<(Source, J)> {
        self.taken += 1;
        let mut turn = self.taken;
        let mut waiting = self.classes.iter_mut().filter(|class| !class.turns.is_empty()).peekable();
        while let Some(class) = waiting.next() {
            let leaves_it = turn.is_multiple_of(TURNS) && waiting.peek().is_some();
            turn /= TURNS;
            if !leaves_it {
                let (source, job) = class.pop()?;
                self.len -= 1;
                return Some((source, job));
            }
        }
        None
    }

    /// Takes out the newest job, for which `may_go`, of a class behind `standing`, or of a source of the same class
    /// that has more than `source` would have.
    pub(super) fn give_way(
        &mut self,
        source: &Source,
        standing: Standing,
        may_go: impl Fn(&J) -> bool,
    ) -> Option<(Source, J)> {
        for class in self.classes.iter_mut().skip(standing as usize + 1).rev() {
            if let Some(found) = class.take_newest(0, &may_go) {
                self.len -= 1;
                return Some(found);
            }
        }
        let class = self.class(standing);
        let own = class.sources.get(source).map_or(0, VecDeque::len);
        let found = class.take_newest(own + 1, &may_go)?;
        self.len -= 1;
        Some(found)
    }

    /// Drops the jobs for which not `stays`. Returns how many.
    pub(super) fn retain(&mut self, stays: impl Fn(&J) -> bool) -> usize {
        let before = self.len;
        for class in &mut self.classes {
            class.sources.values_mut().for_each(|jobs| jobs.retain(&stays));
            class.forget_empty();
        }
        self.len = self.classes.iter().flat_map(|class| class.sources.values()).map(VecDeque::len).sum();
        before - self.len
    }

    fn class(&mut self, standing: Standing) -> &mut Class<J> {
        let [good, new, bad] = &mut self.classes;
        match standing {
            Standing::Good => good,
            Standing::New => new,
            Standing::Bad => bad,
        }
    }
}

impl<J> Class<J> {
    fn pop(&mut self) -> Option<(Source, J)> {
        let source = self.turns.pop_front()?;
        let jobs = self.sources.get_mut(&source)?;
        let job = jobs.pop_front()?;
        if jobs.is_empty() {
            self.sources.remove(&source);
        } else {
            self.turns.push_back(source);
        }
        Some((source, job))
    }

    /// The newest job of the source that has most, if it has more than `at_least`.
    fn take_newest(&mut self, at_least: usize, may_go: impl Fn(&J) -> bool) -> Option<(Source, J)> {
        let most = self.sources.iter().max_by_key(|(_, jobs)| jobs.len());
        let source = *most.filter(|(_, jobs)| jobs.len() > at_least)?.0;
        let jobs = self.sources.get_mut(&source)?;
        let job = jobs.iter().rposition(may_go).and_then(|index| jobs.remove(index))?;
        self.forget_empty();
        Some((source, job))
    }

    fn forget_empty(&mut self) {
        self.sources.retain(|_, jobs| !jobs.is_empty());
        self.turns.retain(|source| self.sources.contains_key(source));
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn source(number: u8) -> Source {
        Source::Network(IpAddr::from([127, 0, 0, number]))
    }

    fn taken(queue: &mut FairQueue<u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.pop()).map(|(_, job)| job).collect()
    }

    #[test]
    fn sources_take_turns() {
        let mut queue = FairQueue::default();
        for (from, job) in [(1, 10), (1, 11), (1, 12), (2, 20), (3, 30), (2, 21)] {
            queue.push(source(from), Standing::New, job);
        }
        assert_eq!(queue.len(), 6);
        assert_eq!(taken(&mut queue), [10, 20, 30, 11, 21, 12]);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn the_good_go_first_and_nobody_starves() {
        let mut queue = FairQueue::default();
        for number in 0..40 {
            queue.push(source(1), Standing::Bad, 300 + number);
            queue.push(source(2), Standing::New, 200 + number);
            queue.push(source(3), Standing::Good, 100 + number);
        }
        let order = taken(&mut queue);
        let share = |class: u32| order.iter().take(32).filter(|job| **job / 100 == class).count();
        assert_eq!([share(1), share(2), share(3)], [24, 6, 2]);
        assert_eq!(order.len(), 120);
    }

    #[test]
    fn a_full_queue_makes_room_for_who_has_less() {
        let mut queue = FairQueue::default();
        let fill = |queue: &mut FairQueue<u32>, standing| {
            for job in 0..4 {
                queue.push(source(1), standing, job);
            }
        };
        fill(&mut queue, Standing::New);
        let all = |_: &u32| true;
        assert_eq!(queue.give_way(&source(1), Standing::New, all), None, "its own");
        assert_eq!(queue.give_way(&source(2), Standing::Bad, all), None, "of a class before");
        assert_eq!(queue.give_way(&source(2), Standing::New, all), Some((source(1), 3)));
        assert_eq!(queue.give_way(&source(2), Standing::New, |job| *job == 0), Some((source(1), 0)));
        queue.push(source(2), Standing::New, 9);
        assert_eq!(queue.give_way(&source(3), Standing::New, all), Some((source(1), 2)));
        assert_eq!(queue.give_way(&source(3), Standing::New, all), None, "one each");
        assert_eq!(queue.give_way(&source(3), Standing::Good, all).map(|(_, job)| job > 0), Some(true));
        assert_eq!((queue.len(), queue.retain(|job| *job == 1)), (1, usize::from(taken(&mut queue) != [1])));
    }

    #[test]
    fn a_source_has_a_standing_by_its_passwords() {
        let (mut standings, now) = (Standings::default(), Instant::now());
        let of = |standings: &Standings, number, at| standings.of(&source(number), at);
        assert_eq!(of(&standings, 1, now), Standing::New);
        (0..SOURCE_FAILURES_MAX).for_each(|_| standings.note(source(1), false, now));
        assert_eq!(of(&standings, 1, now), Standing::Bad);
        standings.note(source(1), true, now);
        assert_eq!(of(&standings, 1, now), Standing::Good);
        (1..GOOD_SOURCE_FAILURES_MAX).for_each(|_| standings.note(source(1), false, now));
        assert_eq!(of(&standings, 1, now), Standing::Good, "many users, some of whom err");
        standings.note(source(1), false, now);
        assert_eq!(of(&standings, 1, now), Standing::Bad);
        assert_eq!(of(&standings, 1, now + STANDING_FORGOTTEN_AFTER), Standing::New);
        assert_eq!(of(&standings, 2, now), Standing::New);
        (0..SOURCE_REFUSALS_MAX).for_each(|_| standings.note_refusal(source(2), now));
        assert_eq!(of(&standings, 2, now), Standing::Bad, "it floods");
        standings.note(source(2), true, now);
        (0..SOURCE_REFUSALS_MAX).for_each(|_| standings.note_refusal(source(2), now));
        assert_eq!(of(&standings, 2, now), Standing::Good);
    }
}
