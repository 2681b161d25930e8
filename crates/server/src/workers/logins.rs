//! Last logins. They are gathered and recorded some minutes later, once per user, in the order of the entries.
//!
//! At the start of a working day all users log in. If each login were recorded at once, binds would cost as much as
//! changes. A recorded last login is accurate only to the precision of the policy. Therefore a login may wait for a
//! fraction of that precision ([`LOGIN_WAIT_DIVISOR`]). Logins are gathered for that time and then recorded over the
//! same time, a few each second. The check for idle accounts includes waiting logins. When the server stops, all logins
//! are recorded. A crash loses the waiting logins.

use std::collections::HashMap;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use directory::rows::EntryId;
use directory::{Directory, Requester};

use crate::limits::{
    BATCH_WRITES_MAX, LOGIN_PATIENCE, LOGIN_RETRY, LOGIN_TICK, LOGIN_WAIT_DIVISOR, LOGIN_WAIT_MAX,
    LOGIN_WAIT_MIN,
};
use crate::workers::due_changes::{self, JoinWatch, LinkWatch};
use crate::workers::policy_watch::PolicyWatch;
use crate::workers::service::Service;
use crate::workers::writer::{WriteQueue, WriteRequest};

/// A login that is not recorded yet. Times are microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Login {
    /// Time of the login.
    pub(crate) time: i64,
    /// Last login that was recorded when this login happened. If the account has another value when this login is
    /// recorded, that value is newer and remains.
    pub(crate) over: Option<i64>,
}

/// Logins that are not recorded yet.
pub(crate) struct Logins {
    waiting: Mutex<Waiting>,
    /// Maximum number of gathered logins.
    max: usize,
}

#[derive(Default)]
struct Waiting {
    gathered: HashMap<EntryId, Login>,
    /// Time at which recording begins, and the time over which it is spread.
    due: Option<(Instant, Duration)>,
    /// Logins that are being recorded.
    leaving: HashMap<EntryId, Login>,
}

impl Logins {
    pub(crate) fn new(max: usize) -> Logins {
        Logins { waiting: Mutex::default(), max }
    }

    /// Gathers a login. `precision` is the password policy's precision of login times, in seconds. Returns false if the
    /// login must be recorded at once.
    pub(crate) fn keep(&self, id: EntryId, login: Login, precision: u32, now: Instant) -> bool {
        let wait = (Duration::from_secs(precision.into()) / LOGIN_WAIT_DIVISOR).min(LOGIN_WAIT_MAX);
        if wait < LOGIN_WAIT_MIN {
            return false;
        }
        let mut waiting = self.lock();
        if waiting.gathered.len() >= self.max && !waiting.gathered.contains_key(&id) {
            return false;
        }
        let due = (now + wait, wait);
        waiting.due = Some(waiting.due.map_or(due, |(at, wait)| (at.min(due.0), wait.min(due.1))));
        waiting.gathered.insert(id, login);
        true
    }

    /// Returns the time of the user's unrecorded login, unless `recorded` is newer.
    pub(crate) fn since(&self, id: EntryId, recorded: Option<i64>) -> Option<i64> {
        let waiting = self.lock();
        let login = waiting.gathered.get(&id).or_else(|| waiting.leaving.get(&id));
        login.filter(|login| login.over == recorded).map(|login| login.time)
    }

    /// Removes a login that the writer has received or that cannot be recorded.
    fn forget(&self, id: EntryId) {
        self.lock().leaving.remove(&id);
    }

    /// Begins to record the gathered logins if they are due or if `is_end` is set. Returns their entries, and the time
    /// over which recording them is spread.
    fn turn(&self, now: Instant, is_end: bool) -> Option<(Vec<EntryId>, Duration)> {
        let mut waiting = self.lock();
        let (at, wait) = waiting.due?;
        if now < at && waiting.gathered.len() < self.max && !is_end {
            return None;
        }
        waiting.due = None;
        waiting.leaving = std::mem::take(&mut waiting.gathered);
        let ids: Vec<EntryId> = waiting.leaving.keys().copied().collect();
        drop(waiting);
        Some((ids, wait))
    }

    /// Each step leaves the state consistent. Therefore a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Logins that the thread is recording.
#[derive(Default)]
struct Round {
    /// Entries that are left, in descending order of their ids.
    ids: Vec<EntryId>,
    /// Number of entries to record at each tick.
    step: usize,
}

impl Round {
    /// Returns the entries to record at this tick.
    fn next(&mut self, logins: &Logins, now: Instant, is_end: bool) -> Vec<EntryId> {
        if self.ids.is_empty()
            && let Some((mut ids, wait)) = logins.turn(now, is_end)
        {
            ids.sort_unstable_by(|a, b| b.cmp(a));
            let ticks = usize::try_from(wait.as_secs() / LOGIN_TICK.as_secs()).unwrap_or(1).max(1);
            *self = Round { step: ids.len().div_ceil(ticks), ids };
        }
        if is_end {
            self.step = BATCH_WRITES_MAX;
        }
        let from = self.ids.len().saturating_sub(self.step);
        let mut turn = self.ids.split_off(from);
        turn.reverse();
        turn
    }
}

/// Starts the thread. It submits changes even when it stops. Therefore it must be stopped before the writer.
///
/// # Errors
/// The system cannot start a thread.
pub(crate) fn start(
    logins: &Arc<Logins>,
    queue: &Arc<WriteQueue>,
    directory: &Arc<Directory>,
) -> io::Result<Service> {
    let (logins, queue, directory) = (Arc::clone(logins), Arc::clone(queue), Arc::clone(directory));
    let (stop, stopped) = channel();
    let run = move || run(&logins, &queue, &directory, &stopped);
    Service::start("pando-logins", run, move || drop(stop))
}

/// Records gathered logins until the sender of `stop` is dropped, and then all remaining logins. At each tick, also
/// checks the password policies and requests due changes.
fn run(logins: &Logins, queue: &Arc<WriteQueue>, directory: &Arc<Directory>, stop: &Receiver<()>) {
    let anonymous = Arc::new(Requester::Anonymous);
    let mut round = Round::default();
    let (mut policies, mut joins, mut links) =
        (PolicyWatch::default(), JoinWatch::default(), LinkWatch::default());
    policies.log_changes(directory);
    while stop.recv_timeout(LOGIN_TICK) == Err(RecvTimeoutError::Timeout) {
        let turn = round.next(logins, Instant::now(), false);
        log_lost(write((logins, queue), directory, &anonymous, &turn));
        policies.log_changes(directory);
        due_changes::request_due(queue, directory, &anonymous);
        joins.log_changes(directory);
        links.log_changes(directory);
    }
    loop {
        let turn = round.next(logins, Instant::now(), true);
        if turn.is_empty() {
            return;
        }
        let left = write((logins, queue), directory, &anonymous, &turn);
        if left > 0 {
            return log_lost(left + round.ids.len() + logins.lock().gathered.len());
        }
    }
}

fn log_lost(logins: usize) {
    if logins > 0 {
        tracing::warn!(logins, "last logins are not recorded: the writer has no room for them");
    }
}

/// Submits logins to the writer. Returns the number of logins for which the writer had no room.
fn write(
    (logins, queue): (&Logins, &Arc<WriteQueue>),
    directory: &Arc<Directory>,
    anonymous: &Arc<Requester>,
    ids: &[EntryId],
) -> usize {
    if ids.is_empty() {
        return 0;
    }
    let snapshot = match directory.snapshot() {
        Ok(snapshot) => snapshot,
        Err(error) => {
            tracing::error!(%error, logins = ids.len(), "last logins are not recorded");
            ids.iter().for_each(|id| logins.forget(*id));
            return 0;
        }
    };
    let mut requests = Vec::with_capacity(ids.len());
    for (place, id) in ids.iter().enumerate() {
        // An account that cannot be read is skipped. The user's next bind reports the error.
        let recorded = directory::bind::account(&snapshot, *id).ok().flatten().map(|of| of.last_success);
        let login = logins.since(*id, recorded.flatten()).filter(|_| recorded.is_some());
        if let Some(time) = login
            && queue.attempts().note(*id, |update| update.success = update.success.max(Some(time)))
        {
            let Some(request) = wait_for_room(queue, *id, anonymous, &mut requests) else {
                queue.attempts().not_queued(*id);
                return ids.len() - place;
            };
            requests.push(request);
        }
        logins.forget(*id);
    }
    queue.submit(&mut requests);
    0
}

/// Waits for room in the writer's queue and returns a request to record the account. Submits the requests gathered so
/// far before it waits. Returns `None` if the queue stays full for too long.
fn wait_for_room(
    queue: &Arc<WriteQueue>,
    id: EntryId,
    anonymous: &Arc<Requester>,
    requests: &mut Vec<WriteRequest>,
) -> Option<WriteRequest> {
    let since = Instant::now();
    loop {
        if let Some(request) = queue.account_request(id, anonymous) {
            return Some(request);
        }
        queue.submit(requests);
        if since.elapsed() >= LOGIN_PATIENCE {
            return None;
        }
        std::thread::sleep(LOGIN_RETRY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u32 = 3_600;

    fn login(time: i64) -> Login {
        Login { time, over: None }
    }

    #[test]
    fn logins_are_written_in_order_after_a_part_of_the_precision() {
        let (logins, now) = (Logins::new(1_000), Instant::now());
        for id in (0..450).rev() {
            assert!(logins.keep(EntryId(id), login(1), HOUR, now));
        }
        let wait = Duration::from_secs(225);
        let mut round = Round::default();
        assert!(round.next(&logins, now + wait - LOGIN_TICK, false).is_empty());
        assert_eq!(round.next(&logins, now + wait, false), [EntryId(0), EntryId(1)]);
        assert_eq!(logins.since(EntryId(449), None), Some(1), "until it is written");
        // A login that arrives during a round waits for the next round.
        assert!(logins.keep(EntryId(7), login(2), HOUR, now + wait));
        for step in 1..225 {
            assert_eq!(round.next(&logins, now + wait, false)[0], EntryId(2 * step));
        }
        assert!(round.next(&logins, now + wait, false).is_empty());
        assert_eq!(round.next(&logins, now + 2 * wait, false), [EntryId(7)]);
    }

    #[test]
    fn precise_and_excess_logins_are_not_deferred() {
        let (logins, now) = (Logins::new(2), Instant::now());
        assert!(!logins.keep(EntryId(1), login(1), 0, now));
        assert!(!logins.keep(EntryId(1), login(1), 15, now));
        assert!(logins.keep(EntryId(1), login(1), 16, now));
        assert!(logins.keep(EntryId(2), login(1), HOUR, now));
        assert!(!logins.keep(EntryId(3), login(1), HOUR, now));
        assert!(logins.keep(EntryId(2), login(2), HOUR, now), "a later login replaces the earlier one");
        // If the table is full, recording begins early. Recording is spread over the shortest wait of all gathered
        // logins.
        let mut round = Round::default();
        assert_eq!(round.next(&logins, now, false), [EntryId(1), EntryId(2)]);
    }

    #[test]
    fn a_deferred_login_counts_only_if_the_recorded_time_is_unchanged() {
        let (logins, now) = (Logins::new(2), Instant::now());
        assert!(logins.keep(EntryId(1), Login { time: 9, over: Some(3) }, HOUR, now));
        assert_eq!(logins.since(EntryId(1), Some(3)), Some(9));
        assert_eq!(logins.since(EntryId(1), Some(4)), None, "another change set the time");
        assert_eq!(logins.since(EntryId(1), None), None, "a new password");
        assert_eq!(logins.since(EntryId(2), None), None);
    }

    #[test]
    fn deferred_logins_are_written_at_once_at_the_end() {
        let (logins, now) = (Logins::new(10), Instant::now());
        assert!(logins.keep(EntryId(5), login(1), HOUR, now));
        assert!(logins.keep(EntryId(4), login(1), HOUR, now));
        let mut round = Round::default();
        assert_eq!(round.next(&logins, now, true), [EntryId(4), EntryId(5)]);
        assert!(round.next(&logins, now, true).is_empty());
    }
}
