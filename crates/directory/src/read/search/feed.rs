//! The feed of changes of an event loop: one pass over the log for all its searches that listen.
//!
//! Searches that listen have a seat each. While a search waits, it keeps nothing of the directory: the feed has the
//! snapshot that all of them were told of. After commits the feed makes a [`ChangeSet`] of what came since, slice by
//! slice, and hands it to those whose base or standing it may concern. The others are told of the newer snapshot
//! without knowing. A search that has told what concerns it waits again; where the feed has moved on meanwhile, because
//! the client reads slowly, it makes a change set of its own from where it is to where the feed is.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use foldhash::{HashSet, HashSetExt};

use super::change_set::{ChangeSet, ChangeSetBuilder};
use super::scope::SearchScope;
use crate::access::Standing;
use crate::model::limits::{COOKIE_RECORDS_MAX, FOLLOWED_RECORDS_MAX, SHARED_SNAPSHOTS_MAX};
use crate::model::outcome::OperationError;
use crate::model::rows::EntryId;
use crate::snapshot::Snapshot;
use crate::snapshot::shared::SharedSnapshot;

type Result<T> = std::result::Result<T, OperationError>;

/// What the event loop calls a search: the slot of its connection, and its ticket there.
pub type ListenerKey = (usize, u64);

/// The searches of an event loop that listen for changes, and what they are told.
#[derive(Default)]
pub struct Feed {
    shared: Arc<Shared>,
    builder: Option<Box<ChangeSetBuilder>>,
}

/// What the feed and its searches share. All of them are of one thread, so a lock never waits.
#[derive(Default)]
struct Shared {
    /// A search has begun to listen, or waits for the feed to catch up with it.
    has_news: AtomicBool,
    seats: Mutex<Seats>,
}

#[derive(Default)]
struct Seats {
    /// What all that wait were told; `None` while there is no seat.
    told: Option<Arc<SharedSnapshot>>,
    taken: HashMap<u64, Taken, RandomState>,
    by_base: HashMap<EntryId, HashSet<u64>, RandomState>,
    /// Seats whose search follows aliases.
    alias_followers: HashSet<u64>,
    last_number: u64,
}

/// A seat that is taken.
struct Taken {
    key: ListenerKey,
    base: EntryId,
    state: State,
}

enum State {
    /// It was told all up to a position, and is bound by these access rules, if by any.
    Waits { told: u64, standing: Option<Arc<Standing>> },
    /// It was told of a later state than the others.
    IsAhead,
    /// It sends what was there at this position.
    Begins { since: u64 },
    /// It has to tell what came after this position.
    Tells { since: u64 },
}

/// The seat of a search. It is given up when this is dropped.
pub(super) struct Seat {
    shared: Arc<Shared>,
    number: u64,
}

/// What a search that has told all does next.
pub(super) enum NextStep {
    /// It waits for a change set. It keeps no snapshot meanwhile.
    Wait,
    /// It waits until the feed has caught up with it, and keeps its snapshot.
    WaitForFeed,
    /// It tells what came until this snapshot.
    CatchUp(Arc<SharedSnapshot>),
}

/// How far [`Feed::advance`] came.
pub enum Advance {
    /// There is nothing new.
    Nothing,
    /// There is more to go through: call it again.
    More,
    /// There is something to tell.
    Done(Vec<(ListenerKey, Woken)>),
}

/// What a search that waits is woken with.
pub enum Woken {
    /// Changes that may concern it.
    Changes(Arc<ChangeSet>),
    /// The feed has caught up with it.
    CaughtUp,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Seats> {
        // A seat that is in one list alone is found to be none in the others.
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Feed {
    /// Whether a search has begun to listen since the last call, so that the event loop is to be told of commits.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.shared.has_news.load(Ordering::Relaxed)
    }

    /// Whether any search listens. Takes note of the news.
    pub fn has_listeners(&self) -> bool {
        self.shared.has_news.store(false, Ordering::Relaxed);
        !self.shared.lock().taken.is_empty()
    }

    /// Takes a seat for a search that was told of `told`, or is being told.
    pub(super) fn take_seat(
        &self,
        key: ListenerKey,
        told: &Arc<SharedSnapshot>,
        scope: &SearchScope,
    ) -> Result<Seat> {
        let since = told.lock().position()?;
        let mut seats = self.shared.lock();
        if seats.told.is_none() {
            seats.told = Some(Arc::clone(told));
        }
        seats.last_number += 1;
        let number = seats.last_number;
        let state = State::Begins { since };
        seats.taken.insert(number, Taken { key, base: scope.base, state });
        seats.by_base.entry(scope.base).or_default().insert(number);
        if scope.follows_aliases {
            seats.alias_followers.insert(number);
        }
        self.shared.has_news.store(true, Ordering::Relaxed);
        Ok(Seat { shared: Arc::clone(&self.shared), number })
    }

    /// Goes through what was committed since, as `current` shows it, in about `budget` steps.
    ///
    /// # Errors
    /// The store failed, or a record is damaged. The searches end at the next call.
    pub fn advance(&mut self, current: &Snapshot, budget: u32) -> Result<Advance> {
        let told = {
            let mut seats = self.shared.lock();
            if seats.taken.is_empty() {
                (seats.told, self.builder) = (None, None);
            }
            let Some(told) = &seats.told else { return Ok(Advance::Nothing) };
            Arc::clone(told)
        };
        let mut builder = match self.builder.take() {
            Some(builder) => builder,
            None => {
                let after = current.shared()?;
                if after.number() == told.number() {
                    return Ok(Advance::Nothing);
                }
                Box::new(ChangeSetBuilder::begin(told, after, true)?)
            }
        };
        let mut budget = budget.max(1);
        let (before, after) = builder.snapshots();
        let stepped = builder.step(&before.lock(), &after.lock(), &mut budget);
        match stepped {
            Ok(false) => {
                self.builder = Some(builder);
                Ok(Advance::More)
            }
            Ok(true) => Ok(Advance::Done(self.hand_out(Arc::new(builder.take_set())))),
            Err(error) => {
                // What cannot be read would be read again for ever.
                builder.give_up();
                self.builder = Some(builder);
                Err(error)
            }
        }
    }

    /// Seats whose change set this may be.
    fn hand_out(&mut self, set: Arc<ChangeSet>) -> Vec<(ListenerKey, Woken)> {
        let mut seats = self.shared.lock();
        let Seats { told, taken, by_base, alias_followers, .. } = &mut *seats;
        *told = Some(Arc::clone(&set.after));
        let mut concerned: HashSet<u64> = HashSet::new();
        if !set.is_whole || set.concerns_any_base() {
            concerned.extend(taken.keys());
        } else {
            for place in set.places() {
                concerned.extend(by_base.get(&EntryId(place)).into_iter().flatten());
            }
            if set.has_aliases {
                concerned.extend(alias_followers.iter());
            }
        }
        let since = set.before.lock().position().unwrap_or(0);
        let until = set.after.lock().position().unwrap_or(0);
        let mut woken = Vec::new();
        for (number, seat) in taken.iter_mut() {
            match &seat.state {
                State::Waits { told, standing } => {
                    let is_touched = |standing: &Arc<Standing>| set.touches(standing.sources());
                    let has_old_cookie = until.saturating_sub(*told) >= COOKIE_RECORDS_MAX;
                    if has_old_cookie
                        || concerned.contains(number)
                        || standing.as_ref().is_some_and(is_touched)
                    {
                        seat.state = State::Tells { since };
                        woken.push((seat.key, Woken::Changes(Arc::clone(&set))));
                    }
                }
                State::IsAhead => {
                    seat.state = State::Tells { since };
                    woken.push((seat.key, Woken::CaughtUp));
                }
                State::Begins { .. } | State::Tells { .. } => {}
            }
        }
        woken
    }

    /// The searches that are to end because their clients read too slowly: those that have not told what came more than
    /// [`FOLLOWED_RECORDS_MAX`] records ago, and while more than [`SHARED_SNAPSHOTS_MAX`] snapshots are kept, the
    /// slowest of these and of those that still send what was there. How long that takes alone ends none, for a poll
    /// could not go on with it.
    pub fn laggards(&self, current: &Snapshot) -> Result<Vec<ListenerKey>> {
        let position = current.position()?;
        let is_crowded = current.directory().shared_snapshots() > SHARED_SNAPSHOTS_MAX;
        let seats = self.shared.lock();
        let behind = |seat: &Taken| match seat.state {
            State::Begins { since } => Some((since, seat.key, false)),
            State::Tells { since } => Some((since, seat.key, true)),
            State::Waits { .. } | State::IsAhead => None,
        };
        let mut behind: Vec<_> = seats.taken.values().filter_map(behind).collect();
        behind.sort_unstable();
        let half = behind.len() / 2;
        let late = behind.iter().enumerate().filter(|(place, (since, _, has_begun))| {
            (*has_begun && position.saturating_sub(*since) > FOLLOWED_RECORDS_MAX)
                || (is_crowded && *place <= half && position > *since)
        });
        Ok(late.map(|(_, (_, key, _))| *key).collect())
    }
}

impl Seat {
    /// The search was told all that `told` shows.
    ///
    /// # Errors
    /// The store failed.
    pub(super) fn next(&self, told: &SharedSnapshot, standing: Option<&Arc<Standing>>) -> Result<NextStep> {
        let since = told.lock().position()?;
        let mut seats = self.shared.lock();
        let Seats { told: fed, taken, .. } = &mut *seats;
        let (Some(fed), Some(seat)) = (fed, taken.get_mut(&self.number)) else {
            return Ok(NextStep::WaitForFeed);
        };
        Ok(match told.number().cmp(&fed.number()) {
            std::cmp::Ordering::Equal => {
                seat.state = State::Waits { told: since, standing: standing.cloned() };
                NextStep::Wait
            }
            std::cmp::Ordering::Less => {
                seat.state = State::Tells { since };
                NextStep::CatchUp(Arc::clone(fed))
            }
            std::cmp::Ordering::Greater => {
                seat.state = State::IsAhead;
                self.shared.has_news.store(true, Ordering::Relaxed);
                NextStep::WaitForFeed
            }
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seats = self.shared.lock();
        let Seats { taken, by_base, alias_followers, .. } = &mut *seats;
        let Some(seat) = taken.remove(&self.number) else { return };
        alias_followers.remove(&self.number);
        if let Some(numbers) = by_base.get_mut(&seat.base) {
            numbers.remove(&self.number);
            if numbers.is_empty() {
                by_base.remove(&seat.base);
            }
        }
    }
}
