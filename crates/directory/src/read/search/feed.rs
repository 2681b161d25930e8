//! The feed of changes of an event loop. It reads the log once for all listening searches of the loop.
//!
//! Each listening search is registered in the feed. A waiting search holds no snapshot. Instead, the feed holds one
//! snapshot, whose state the clients of all waiting searches have received. After commits the feed builds a
//! [`ChangeSet`] of the later changes, slice by slice. It passes the change set to the searches whose base or effective
//! rights the changes may affect. The other searches move to the newer snapshot without being woken. A search that has
//! sent its changes waits again. If its client reads slowly and the feed has advanced in the meantime, the search
//! builds its own change set, from its own snapshot to the snapshot of the feed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use foldhash::{HashSet, HashSetExt};

use super::change_set::{ChangeSet, ChangeSetBuilder};
use super::scope::SearchScope;
use crate::access::EffectiveRights;
use crate::model::limits::{COOKIE_RECORDS_MAX, FOLLOWED_RECORDS_MAX, SHARED_SNAPSHOTS_MAX};
use crate::model::outcome::OperationError;
use crate::model::rows::EntryId;
use crate::snapshot::Snapshot;
use crate::snapshot::shared::SharedSnapshot;

type Result<T> = std::result::Result<T, OperationError>;

/// Key of a search in the event loop: the slot of the connection, and the number of the search in that connection.
pub type ListenerKey = (usize, u64);

/// Feed of the searches of an event loop that listen for changes.
#[derive(Default)]
pub struct Feed {
    shared: Arc<Shared>,
    builder: Option<Box<ChangeSetBuilder>>,
}

/// State shared by the feed and its searches. The feed and all its searches run on one thread, so a lock never waits.
#[derive(Default)]
struct Shared {
    /// Whether a search has begun to listen, or waits for the feed to reach its snapshot.
    has_new_listeners: AtomicBool,
    registered: Mutex<RegisteredSearches>,
}

#[derive(Default)]
struct RegisteredSearches {
    /// Snapshot whose state the clients of all waiting searches have received; `None` while no search is registered.
    notified: Option<Arc<SharedSnapshot>>,
    by_number: HashMap<u64, RegisteredSearch, RandomState>,
    by_base: HashMap<EntryId, HashSet<u64>, RandomState>,
    /// Numbers of searches that follow aliases.
    alias_followers: HashSet<u64>,
    last_number: u64,
}

/// A search that is registered in the feed.
struct RegisteredSearch {
    key: ListenerKey,
    base: EntryId,
    state: State,
}

enum State {
    /// The client is up to date: it has received all changes up to position `notified`, under these rights.
    Waits { notified: u64, rights: EffectiveRights },
    /// The client has received a later state than the snapshot of the feed.
    IsAhead,
    /// The search sends its initial results, from the snapshot at this position.
    Starting { since: u64 },
    /// The search sends the changes after this position.
    Following { since: u64 },
}

/// Registration of a search in the feed. Dropping it removes the search from the feed.
pub(super) struct Registration {
    shared: Arc<Shared>,
    number: u64,
}

/// Next step of a search that has sent all changes.
pub(super) enum NextStep {
    /// Waits for a change set, without holding a snapshot.
    Wait,
    /// Holds its snapshot and waits until the feed has reached that snapshot.
    WaitForFeed,
    /// Sends the changes up to this snapshot.
    CatchUp(Arc<SharedSnapshot>),
}

/// Result of [`Feed::advance`].
pub enum Advance {
    /// No search has anything to send.
    Nothing,
    /// The change set is not complete: call [`Feed::advance`] again.
    More,
    /// These searches are to be woken, each for the given reason.
    Done(Vec<(ListenerKey, WakeReason)>),
}

/// Reason for waking a waiting search.
pub enum WakeReason {
    /// There are changes that may affect the search.
    Changes(Arc<ChangeSet>),
    /// The feed has reached the snapshot of the search.
    CaughtUp,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, RegisteredSearches> {
        // After a panic, a registration may be in only some of the fields of `RegisteredSearches`. This is harmless,
        // because a registration that is not in `by_number` is ignored.
        self.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Feed {
    /// Returns true if, since the last call of [`has_listeners`](Feed::has_listeners), a search has begun to listen
    /// or to wait for the feed. If so, commits must notify the event loop.
    #[inline]
    pub fn has_new_listeners(&self) -> bool {
        self.shared.has_new_listeners.load(Ordering::Relaxed)
    }

    /// Returns true if any search listens. Resets [`has_new_listeners`](Feed::has_new_listeners).
    pub fn has_listeners(&self) -> bool {
        self.shared.has_new_listeners.store(false, Ordering::Relaxed);
        !self.shared.lock().by_number.is_empty()
    }

    /// Registers a search whose client has received the state of the snapshot `notified`, or is receiving it.
    pub(super) fn register(
        &self,
        key: ListenerKey,
        notified: &Arc<SharedSnapshot>,
        scope: &SearchScope,
    ) -> Result<Registration> {
        let since = notified.lock().position()?;
        let mut registered = self.shared.lock();
        if registered.notified.is_none() {
            registered.notified = Some(Arc::clone(notified));
        }
        registered.last_number += 1;
        let number = registered.last_number;
        let state = State::Starting { since };
        registered.by_number.insert(number, RegisteredSearch { key, base: scope.base, state });
        registered.by_base.entry(scope.base).or_default().insert(number);
        if scope.follows_aliases {
            registered.alias_followers.insert(number);
        }
        self.shared.has_new_listeners.store(true, Ordering::Relaxed);
        Ok(Registration { shared: Arc::clone(&self.shared), number })
    }

    /// Reads the records committed since the last change set, up to `current`, in about `budget` steps.
    ///
    /// # Errors
    /// The store failed, or a record is damaged. The next call ends all listening searches.
    pub fn advance(&mut self, current: &Snapshot, budget: u32) -> Result<Advance> {
        let notified = {
            let mut registered = self.shared.lock();
            if registered.by_number.is_empty() {
                (registered.notified, self.builder) = (None, None);
            }
            let Some(notified) = &registered.notified else { return Ok(Advance::Nothing) };
            Arc::clone(notified)
        };
        let mut builder = match self.builder.take() {
            Some(builder) => builder,
            None => {
                let after = current.shared()?;
                if after.number() == notified.number() {
                    return Ok(Advance::Nothing);
                }
                Box::new(ChangeSetBuilder::begin(notified, after, true)?)
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
                // If the builder did not give up, the feed would read the unreadable record again and again.
                builder.give_up();
                self.builder = Some(builder);
                Err(error)
            }
        }
    }

    /// Moves the feed to the newer snapshot, and returns the searches to wake. Wakes each waiting search that the
    /// change set may affect or whose cookie is too old, and each search whose snapshot the feed has reached.
    fn hand_out(&mut self, set: Arc<ChangeSet>) -> Vec<(ListenerKey, WakeReason)> {
        let mut registered = self.shared.lock();
        let RegisteredSearches { notified, by_number, by_base, alias_followers, .. } = &mut *registered;
        *notified = Some(Arc::clone(&set.after));
        let mut concerned: HashSet<u64> = HashSet::new();
        if !set.is_whole || set.concerns_any_base() {
            concerned.extend(by_number.keys());
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
        for (number, registration) in by_number.iter_mut() {
            match &registration.state {
                State::Waits { notified, rights } => {
                    let has_old_cookie = until.saturating_sub(*notified) >= COOKIE_RECORDS_MAX;
                    if has_old_cookie
                        || concerned.contains(number)
                        || rights.sources().is_some_and(|sources| set.touches(sources))
                    {
                        registration.state = State::Following { since };
                        woken.push((registration.key, WakeReason::Changes(Arc::clone(&set))));
                    }
                }
                State::IsAhead => {
                    registration.state = State::Following { since };
                    woken.push((registration.key, WakeReason::CaughtUp));
                }
                State::Starting { .. } | State::Following { .. } => {}
            }
        }
        woken
    }

    /// Returns the searches to end because their clients read too slowly. A search that sends changes is ended if its
    /// unsent changes are more than [`FOLLOWED_RECORDS_MAX`] records old. While more than [`SHARED_SNAPSHOTS_MAX`]
    /// snapshots are held, the slower half of all searches that send results or changes is ended too. A search that
    /// sends its initial results is ended only in this second case, because its client has no cookie with which to
    /// resume.
    pub fn laggards(&self, current: &Snapshot) -> Result<Vec<ListenerKey>> {
        let position = current.position()?;
        let is_crowded = current.directory().shared_snapshots() > SHARED_SNAPSHOTS_MAX;
        let registered = self.shared.lock();
        let behind = |registration: &RegisteredSearch| match registration.state {
            State::Starting { since } => Some((since, registration.key, false)),
            State::Following { since } => Some((since, registration.key, true)),
            State::Waits { .. } | State::IsAhead => None,
        };
        let mut behind: Vec<_> = registered.by_number.values().filter_map(behind).collect();
        behind.sort_unstable();
        let half = behind.len() / 2;
        let late = behind.iter().enumerate().filter(|(place, (since, _, has_started))| {
            (*has_started && position.saturating_sub(*since) > FOLLOWED_RECORDS_MAX)
                || (is_crowded && *place <= half && position > *since)
        });
        Ok(late.map(|(_, (_, key, _))| *key).collect())
    }
}

impl Registration {
    /// Returns the next step of a search that has sent everything up to the snapshot `notified`.
    ///
    /// # Errors
    /// The store failed.
    pub(super) fn next(&self, notified: &SharedSnapshot, rights: &EffectiveRights) -> Result<NextStep> {
        let since = notified.lock().position()?;
        let mut registered = self.shared.lock();
        let RegisteredSearches { notified: fed, by_number, .. } = &mut *registered;
        let (Some(fed), Some(registration)) = (fed, by_number.get_mut(&self.number)) else {
            return Ok(NextStep::WaitForFeed);
        };
        Ok(match notified.number().cmp(&fed.number()) {
            std::cmp::Ordering::Equal => {
                registration.state = State::Waits { notified: since, rights: rights.clone() };
                NextStep::Wait
            }
            std::cmp::Ordering::Less => {
                registration.state = State::Following { since };
                NextStep::CatchUp(Arc::clone(fed))
            }
            std::cmp::Ordering::Greater => {
                registration.state = State::IsAhead;
                self.shared.has_new_listeners.store(true, Ordering::Relaxed);
                NextStep::WaitForFeed
            }
        })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut registered = self.shared.lock();
        let RegisteredSearches { by_number, by_base, alias_followers, .. } = &mut *registered;
        let Some(registration) = by_number.remove(&self.number) else { return };
        alias_followers.remove(&self.number);
        if let Some(numbers) = by_base.get_mut(&registration.base) {
            numbers.remove(&self.number);
            if numbers.is_empty() {
                by_base.remove(&registration.base);
            }
        }
    }
}
