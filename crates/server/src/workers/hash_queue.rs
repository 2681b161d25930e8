//! The queue of the hash pool: fair queuing between the sources and identities of its jobs, by the cost of the jobs.
//!
//! Costs are in hashes (see [`directory::password::cost`]). Binds and password changes have separate lanes, each with
//! its own limit. While both lanes have jobs, binds have three of four turns. Therefore a flood of changes neither
//! refuses a bind nor delays it for long.
//!
//! In a lane, sources take turns. Within a source, its identities take turns. A turn is one hash. A job with a higher
//! cost continues in its source's next turn. If a job cannot be divided, its source skips later turns. Therefore a
//! source that submits a thousand jobs, or a job of a thousand hashes, delays only itself.
//!
//! Three classes, in this order, protect against a flood from a thousand sources: sources with recent right passwords,
//! new sources, and sources with several wrong passwords in a row. A class has three of four turns while a later class
//! also has jobs, so that no class starves. When a lane is full, it evicts a job of a later class, or of the source
//! with the highest cost.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use crate::limits::{
    GOOD_SOURCE_FAILURES_MAX, REPUTATION_FORGOTTEN_AFTER, SOURCE_FAILURES_MAX, SOURCE_REFUSALS_MAX,
    SOURCES_MAX,
};
use crate::net::request_memory::Source;

/// Reputation of a source, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reputation {
    /// A password from the source was right, and only few were wrong since.
    Good,
    /// Neither [`Good`](Reputation::Good) nor [`Bad`](Reputation::Bad).
    New,
    /// Several passwords in a row were wrong, or many jobs were answered `busy` since the last right password.
    Bad,
}

/// Reputations of sources. The table is bounded. A source that does not fit counts as new.
#[derive(Debug, Default)]
pub(super) struct Reputations {
    sources: HashMap<Source, Record>,
}

#[derive(Debug)]
struct Record {
    last: Instant,
    was_right: bool,
    /// Number of wrong passwords since the last right password.
    failures: u32,
    /// Number of jobs answered `busy` since the last right password. A high number shows that the source retries at
    /// once.
    refusals: u32,
}

/// Kind of work. Each kind has its own lane in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Proof of a password or Kerberos ticket: a bind or compare.
    Binds,
    /// Preparation of the passwords of a change.
    Changes,
}

/// Place of a job in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) lane: Lane,
    pub(super) reputation: Reputation,
    pub(super) source: Source,
    /// Number of the account for a bind, or of the requester for a change.
    pub(super) identity: u64,
}

/// The waiting jobs.
#[derive(Debug)]
pub(super) struct FairQueue<J> {
    lanes: [LaneQueue<J>; 2],
    /// Number of turns so far.
    turns: u64,
}

/// The waiting jobs of a lane.
#[derive(Debug)]
struct LaneQueue<J> {
    classes: [Class<J>; 3],
    /// Number of turns of this lane so far.
    turns: u64,
    /// Total cost of the jobs in hashes.
    cost: u64,
    /// Cost in hashes of each identity's jobs. Identities without jobs are absent.
    identities: HashMap<u64, u64>,
}

/// The waiting jobs of a lane whose sources have the same reputation.
#[derive(Debug)]
struct Class<J> {
    sources: HashMap<Source, SourceJobs<J>>,
    /// Sources with jobs, each once, in the order of their turns.
    turns: VecDeque<Source>,
}

/// The waiting jobs of one source, at least one.
#[derive(Debug)]
struct SourceJobs<J> {
    identities: HashMap<u64, VecDeque<Waiting<J>>>,
    /// Identities with jobs, each once, in the order of their turns.
    turns: VecDeque<u64>,
    cost: u64,
    /// Number of turns that the source must skip, for jobs that took more than one turn.
    debt: u64,
}

#[derive(Debug)]
struct Waiting<J> {
    cost: u32,
    job: J,
}

/// Out of this number of turns, one goes first to a later lane or class.
const TURNS: u64 = 4;

impl Reputations {
    pub(super) fn of(&self, source: &Source, now: Instant) -> Reputation {
        match self.sources.get(source).filter(|record| !record.is_old(now)) {
            Some(record) if record.was_right && record.failures < GOOD_SOURCE_FAILURES_MAX => {
                Reputation::Good
            }
            Some(record) if record.failures >= SOURCE_FAILURES_MAX => Reputation::Bad,
            Some(record) if record.refusals >= SOURCE_REFUSALS_MAX => Reputation::Bad,
            _ => Reputation::New,
        }
    }

    /// Records whether a password from a source was right.
    pub(super) fn note(&mut self, source: Source, is_right: bool, now: Instant) {
        let Some(record) = self.record(source, now) else { return };
        record.was_right |= is_right;
        (record.failures, record.refusals) =
            if is_right { (0, 0) } else { (record.failures.saturating_add(1), record.refusals) };
    }

    /// Records that a job from a source was answered `busy`.
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
        now.saturating_duration_since(self.last) >= REPUTATION_FORGOTTEN_AFTER
    }
}

impl<J> Default for FairQueue<J> {
    fn default() -> FairQueue<J> {
        FairQueue { lanes: [(); 2].map(|()| LaneQueue::default()), turns: 0 }
    }
}

impl<J> Default for LaneQueue<J> {
    fn default() -> LaneQueue<J> {
        let classes = [(); 3].map(|()| Class { sources: HashMap::new(), turns: VecDeque::new() });
        LaneQueue { classes, turns: 0, cost: 0, identities: HashMap::new() }
    }
}

impl<J> FairQueue<J> {
    /// Returns the cost of a lane's jobs in hashes.
    pub(super) fn cost(&self, lane: Lane) -> u64 {
        self.lane(lane).cost
    }

    /// Returns the cost of one identity's jobs in a lane, from all sources.
    pub(super) fn cost_of(&self, lane: Lane, identity: u64) -> u64 {
        self.lane(lane).identities.get(&identity).copied().unwrap_or_default()
    }

    /// Adds a job. Its cost in hashes counts as at least one.
    pub(super) fn push(&mut self, place: &Place, cost: u32, job: J) {
        self.add(place, cost, |jobs, waiting| jobs.push_back(waiting), job);
    }

    /// Puts a job in progress back, before the other jobs of its source and identity. `cost` is its remaining cost.
    pub(super) fn push_started(&mut self, place: &Place, cost: u32, job: J) {
        self.add(place, cost, |jobs, waiting| jobs.push_front(waiting), job);
    }

    fn add(
        &mut self,
        place: &Place,
        cost: u32,
        insert: impl FnOnce(&mut VecDeque<Waiting<J>>, Waiting<J>),
        job: J,
    ) {
        let cost = cost.max(1);
        let lane = self.lane_mut(place.lane);
        lane.cost += u64::from(cost);
        *lane.identities.entry(place.identity).or_default() += u64::from(cost);
        let class = lane.class(place.reputation);
        let turns = &mut class.turns;
        let source = class.sources.entry(place.source).or_insert_with(|| {
            turns.push_back(place.source);
            SourceJobs { identities: HashMap::new(), turns: VecDeque::new(), cost: 0, debt: 0 }
        });
        source.cost += u64::from(cost);
        let jobs = source.identities.entry(place.identity).or_default();
        if jobs.is_empty() {
            source.turns.push_back(place.identity);
        }
        insert(jobs, Waiting { cost, job });
    }

    /// Removes the next job. The job is from the lane and the class whose turn it is, and from the source that has
    /// waited longest.
    pub(super) fn pop(&mut self) -> Option<(Place, J)> {
        let [binds, changes] = &mut self.lanes;
        self.turns += 1;
        let is_left = self.turns.is_multiple_of(TURNS);
        let order = if is_left {
            [(changes, Lane::Changes), (binds, Lane::Binds)]
        } else {
            [(binds, Lane::Binds), (changes, Lane::Changes)]
        };
        order.into_iter().find_map(|(queue, lane)| queue.pop(lane))
    }

    /// Makes a source skip `turns` turns, because a job took more than one turn. A source without waiting jobs is not
    /// charged, because the queue stores nothing about it.
    pub(super) fn charge(&mut self, place: &Place, turns: u32) {
        let class = self.lane_mut(place.lane).class(place.reputation);
        if let Some(source) = class.sources.get_mut(&place.source) {
            source.debt += u64::from(turns);
        }
    }

    /// Makes room for a job of `cost` hashes at `place`. Removes the newest job for which `may_go` returns true. The
    /// job is from the worst class that has such a job, and within the class from the source with the highest cost.
    /// Classes that are better than the class of `place` are not searched. If the job is from the class of `place`, the
    /// cost of the job's source must be higher than the cost that the source of `place` would have with the new job.
    pub(super) fn evict(
        &mut self,
        place: &Place,
        cost: u32,
        may_go: impl Fn(&J) -> bool,
    ) -> Option<(Source, J)> {
        let lane = self.lane_mut(place.lane);
        let own = lane.class(place.reputation).sources.get(&place.source);
        let own = own.map_or(0, |jobs| jobs.cost) + u64::from(cost);
        let mut behind = lane.classes.iter_mut().enumerate().skip(place.reputation as usize).rev();
        let (source, identity, waiting) = behind.find_map(|(class, jobs)| {
            let above = if class == place.reputation as usize { own } else { 0 };
            jobs.take_newest(above, &may_go)
        })?;
        lane.forget(identity, waiting.cost);
        Some((source, waiting.job))
    }

    /// Drops the jobs for which `stays` returns false. Returns the number of dropped jobs.
    pub(super) fn retain(&mut self, stays: impl Fn(&J) -> bool) -> usize {
        self.lanes.iter_mut().map(|lane| lane.retain(&stays)).sum()
    }

    fn lane(&self, lane: Lane) -> &LaneQueue<J> {
        let [binds, changes] = &self.lanes;
        if lane == Lane::Binds { binds } else { changes }
    }

    fn lane_mut(&mut self, lane: Lane) -> &mut LaneQueue<J> {
        let [binds, changes] = &mut self.lanes;
        if lane == Lane::Binds { binds } else { changes }
    }
}

impl<J> LaneQueue<J> {
    fn class(&mut self, reputation: Reputation) -> &mut Class<J> {
        let [good, new, bad] = &mut self.classes;
        match reputation {
            Reputation::Good => good,
            Reputation::New => new,
            Reputation::Bad => bad,
        }
    }

    fn pop(&mut self, lane: Lane) -> Option<(Place, J)> {
        self.turns += 1;
        let mut turn = self.turns;
        let reputations = [Reputation::Good, Reputation::New, Reputation::Bad];
        let classes = self.classes.iter_mut().zip(reputations);
        let mut waiting = classes.filter(|(class, _)| !class.turns.is_empty()).peekable();
        while let Some((class, reputation)) = waiting.next() {
            let leaves_it = turn.is_multiple_of(TURNS) && waiting.peek().is_some();
            turn /= TURNS;
            if !leaves_it {
                let (source, identity, Waiting { cost, job }) = class.pop()?;
                self.forget(identity, cost);
                return Some((Place { lane, reputation, source, identity }, job));
            }
        }
        None
    }

    /// Subtracts a removed job from the costs.
    fn forget(&mut self, identity: u64, cost: u32) {
        self.cost -= u64::from(cost);
        if let Some(own) = self.identities.get_mut(&identity) {
            *own -= u64::from(cost);
            if *own == 0 {
                self.identities.remove(&identity);
            }
        }
    }

    fn retain(&mut self, stays: impl Fn(&J) -> bool) -> usize {
        let mut dropped = Vec::new();
        for class in &mut self.classes {
            for source in class.sources.values_mut() {
                for (identity, jobs) in &mut source.identities {
                    jobs.retain(|waiting| {
                        let stays = stays(&waiting.job);
                        if !stays {
                            source.cost -= u64::from(waiting.cost);
                            dropped.push((*identity, waiting.cost));
                        }
                        stays
                    });
                }
                source.forget_empty();
            }
            class.forget_empty();
        }
        dropped.iter().for_each(|(identity, cost)| self.forget(*identity, *cost));
        dropped.len()
    }
}

impl<J> Class<J> {
    fn pop(&mut self) -> Option<(Source, u64, Waiting<J>)> {
        // If all sources must skip turns, each source skips as many turns as the source with the fewest, so that one
        // source is next.
        let least = self.sources.values().map(|jobs| jobs.debt).min().unwrap_or_default();
        self.sources.values_mut().for_each(|jobs| jobs.debt -= least);
        loop {
            let source = self.turns.pop_front()?;
            let jobs = self.sources.get_mut(&source)?;
            if jobs.debt > 0 {
                jobs.debt -= 1;
                self.turns.push_back(source);
                continue;
            }
            let (identity, waiting) = jobs.pop()?;
            if jobs.turns.is_empty() {
                self.sources.remove(&source);
            } else {
                self.turns.push_back(source);
            }
            return Some((source, identity, waiting));
        }
    }

    /// Removes the newest job of the source with the highest cost, if that source's cost is above `above`.
    fn take_newest(&mut self, above: u64, may_go: impl Fn(&J) -> bool) -> Option<(Source, u64, Waiting<J>)> {
        let most = self.sources.iter().max_by_key(|(_, jobs)| jobs.cost);
        let source = *most.filter(|(_, jobs)| jobs.cost > above)?.0;
        let jobs = self.sources.get_mut(&source)?;
        let (identity, waiting) = jobs.take_newest(may_go)?;
        self.forget_empty();
        Some((source, identity, waiting))
    }

    fn forget_empty(&mut self) {
        self.sources.retain(|_, jobs| !jobs.turns.is_empty());
        self.turns.retain(|source| self.sources.contains_key(source));
    }
}

impl<J> SourceJobs<J> {
    fn pop(&mut self) -> Option<(u64, Waiting<J>)> {
        let identity = self.turns.pop_front()?;
        let jobs = self.identities.get_mut(&identity)?;
        let waiting = jobs.pop_front()?;
        if jobs.is_empty() {
            self.identities.remove(&identity);
        } else {
            self.turns.push_back(identity);
        }
        self.cost -= u64::from(waiting.cost);
        Some((identity, waiting))
    }

    /// Removes the newest job for which `may_go` returns true, from the identity with the highest cost.
    fn take_newest(&mut self, may_go: impl Fn(&J) -> bool) -> Option<(u64, Waiting<J>)> {
        let cost =
            |jobs: &VecDeque<Waiting<J>>| jobs.iter().map(|waiting| u64::from(waiting.cost)).sum::<u64>();
        let has_one = |jobs: &VecDeque<Waiting<J>>| jobs.iter().any(|waiting| may_go(&waiting.job));
        let able = self.identities.iter().filter(|(_, jobs)| has_one(jobs));
        let identity = *able.max_by_key(|(_, jobs)| cost(jobs))?.0;
        let jobs = self.identities.get_mut(&identity)?;
        let newest = jobs.iter().rposition(|waiting| may_go(&waiting.job));
        let waiting = newest.and_then(|index| jobs.remove(index))?;
        self.cost -= u64::from(waiting.cost);
        self.forget_empty();
        Some((identity, waiting))
    }

    fn forget_empty(&mut self) {
        self.identities.retain(|_, jobs| !jobs.is_empty());
        self.turns.retain(|identity| self.identities.contains_key(identity));
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn source(number: u8) -> Source {
        Source::Network(IpAddr::from([127, 0, 0, number]))
    }

    /// Returns the place of a bind.
    fn bind(from: u8, reputation: Reputation) -> Place {
        Place { lane: Lane::Binds, reputation, source: source(from), identity: from.into() }
    }

    /// Returns the place of a change from a source with good reputation.
    fn change(from: u8, identity: u64) -> Place {
        Place { lane: Lane::Changes, reputation: Reputation::Good, source: source(from), identity }
    }

    fn drain(queue: &mut FairQueue<u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.pop()).map(|(_, job)| job).collect()
    }

    #[test]
    fn sources_take_turns() {
        let mut queue = FairQueue::default();
        for (from, job) in [(1, 10), (1, 11), (1, 12), (2, 20), (3, 30), (2, 21)] {
            queue.push(&bind(from, Reputation::New), 1, job);
        }
        assert_eq!((queue.cost(Lane::Binds), queue.cost_of(Lane::Binds, 1)), (6, 3));
        assert_eq!(drain(&mut queue), [10, 20, 30, 11, 21, 12]);
        assert_eq!((queue.cost(Lane::Binds), queue.cost_of(Lane::Binds, 1)), (0, 0));
    }

    #[test]
    fn identities_at_a_source_take_turns() {
        let mut queue = FairQueue::default();
        for (identity, job) in [(1, 10), (1, 11), (1, 12), (2, 20), (3, 30)] {
            queue.push(&change(1, identity), 1, job);
        }
        queue.push(&change(2, 4), 1, 40);
        assert_eq!(drain(&mut queue), [10, 40, 20, 30, 11, 12]);
    }

    #[test]
    fn sources_of_good_reputation_have_precedence_and_none_starves() {
        let mut queue = FairQueue::default();
        for number in 0..40 {
            queue.push(&bind(1, Reputation::Bad), 1, 300 + number);
            queue.push(&bind(2, Reputation::New), 1, 200 + number);
            queue.push(&bind(3, Reputation::Good), 1, 100 + number);
        }
        let order = drain(&mut queue);
        let share = |class: u32| order.iter().take(32).filter(|job| **job / 100 == class).count();
        assert_eq!([share(1), share(2), share(3)], [24, 6, 2]);
        assert_eq!(order.len(), 120);
    }

    /// A job that costs many hashes runs one hash per turn, and other jobs have turns in between.
    #[test]
    fn a_long_job_delays_others_by_at_most_one_hash() {
        let mut queue = FairQueue::default();
        queue.push(&change(1, 1), 25, 25);
        queue.push(&change(2, 2), 1, 0);
        let mut done = Vec::new();
        while let Some((place, left)) = queue.pop() {
            done.push(place.identity);
            if left > 1 {
                queue.push_started(&place, left - 1, left - 1);
            }
        }
        assert_eq!(done[..3], [1, 2, 1]);
        assert_eq!(done.len(), 26);
    }

    /// Work that cannot be divided is charged afterwards.
    #[test]
    fn an_expensive_source_skips_turns() {
        let mut queue = FairQueue::default();
        for number in 0..9 {
            queue.push(&bind(1, Reputation::Good), 3, 100 + number);
            queue.push(&bind(2, Reputation::Good), 1, 200 + number);
        }
        let mut order = Vec::new();
        while let Some((place, job)) = queue.pop() {
            order.push(job / 100);
            queue.charge(&place, if job < 200 { 2 } else { 0 });
        }
        assert_eq!(order[..8], [1, 2, 2, 2, 1, 2, 2, 2]);
        assert_eq!(order.len(), 18, "a source that is alone has no debt");
    }

    /// Binds have three of four turns, however many clients change passwords.
    #[test]
    fn binds_get_three_of_four_turns_during_password_changes() {
        let mut queue = FairQueue::default();
        (0..64).for_each(|from| queue.push(&change(from, from.into()), 25, 0));
        (0..12).for_each(|number| queue.push(&bind(200, Reputation::New), 1, 100 + number));
        let first: Vec<u32> = (0..16).filter_map(|_| queue.pop()).map(|(_, job)| job / 100).collect();
        assert_eq!(first, [1, 1, 1, 0].repeat(4));
    }

    #[test]
    fn a_full_queue_evicts_a_job_of_the_source_with_the_most_jobs() {
        let mut queue = FairQueue::default();
        (0..4).for_each(|job| queue.push(&bind(1, Reputation::New), 1, job));
        let all = |_: &u32| true;
        let evict = |queue: &mut FairQueue<u32>, from, reputation, may_go: &dyn Fn(&u32) -> bool| {
            queue.evict(&bind(from, reputation), 1, may_go)
        };
        assert_eq!(evict(&mut queue, 1, Reputation::New, &all), None, "its own");
        assert_eq!(
            evict(&mut queue, 2, Reputation::Bad, &all),
            None,
            "jobs of a better class are not evicted"
        );
        assert_eq!(evict(&mut queue, 2, Reputation::New, &all), Some((source(1), 3)));
        assert_eq!(evict(&mut queue, 2, Reputation::New, &|job| *job == 0), Some((source(1), 0)));
        queue.push(&bind(2, Reputation::New), 1, 9);
        assert_eq!(evict(&mut queue, 3, Reputation::New, &all), Some((source(1), 2)));
        assert_eq!(evict(&mut queue, 3, Reputation::New, &all), None, "one each");
        assert_eq!(evict(&mut queue, 3, Reputation::Good, &all).map(|(_, job)| job > 0), Some(true));
        assert_eq!(queue.cost(Lane::Binds), 1);
        assert_eq!(queue.retain(|_| false), 1);
        assert_eq!((queue.cost(Lane::Binds), drain(&mut queue)), (0, Vec::new()));
    }

    #[test]
    fn a_job_counts_by_its_cost_in_hashes() {
        let mut queue = FairQueue::default();
        queue.push(&change(1, 1), 25, 1);
        (0..10).for_each(|job| queue.push(&change(2, 2), 1, 20 + job));
        let newcomer = change(3, 3);
        assert_eq!(queue.evict(&newcomer, 1, |_| true), Some((source(1), 1)));
        assert_eq!(queue.evict(&newcomer, 25, |_| true), None, "its own source would have the most");
        assert_eq!(queue.evict(&newcomer, 1, |_| true), Some((source(2), 29)));
        assert_eq!((queue.cost(Lane::Changes), queue.cost_of(Lane::Changes, 1)), (9, 0));
    }

    #[test]
    fn right_and_wrong_passwords_determine_a_source_s_reputation() {
        let (mut reputations, now) = (Reputations::default(), Instant::now());
        let of = |reputations: &Reputations, number, at| reputations.of(&source(number), at);
        assert_eq!(of(&reputations, 1, now), Reputation::New);
        (0..SOURCE_FAILURES_MAX).for_each(|_| reputations.note(source(1), false, now));
        assert_eq!(of(&reputations, 1, now), Reputation::Bad);
        reputations.note(source(1), true, now);
        assert_eq!(of(&reputations, 1, now), Reputation::Good);
        (1..GOOD_SOURCE_FAILURES_MAX).for_each(|_| reputations.note(source(1), false, now));
        assert_eq!(of(&reputations, 1, now), Reputation::Good, "many users, some of whom err");
        reputations.note(source(1), false, now);
        assert_eq!(of(&reputations, 1, now), Reputation::Bad);
        assert_eq!(of(&reputations, 1, now + REPUTATION_FORGOTTEN_AFTER), Reputation::New);
        assert_eq!(of(&reputations, 2, now), Reputation::New);
        (0..SOURCE_REFUSALS_MAX).for_each(|_| reputations.note_refusal(source(2), now));
        assert_eq!(of(&reputations, 2, now), Reputation::Bad, "it floods");
        reputations.note(source(2), true, now);
        (0..SOURCE_REFUSALS_MAX).for_each(|_| reputations.note_refusal(source(2), now));
        assert_eq!(of(&reputations, 2, now), Reputation::Good);
    }
}
