//! The thread that backs up the data of a server. It makes a backup at the start, at intervals, and before the log
//! drops changes that no backup contains.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use directory::Directory;
use directory::backup::BackupSource;
use system::lower_priority;

use crate::backup::BackupError;
use crate::backup::list::{BackupChain, list};
use crate::backup::make::{BackupOutcome, BackupRules, WrittenPart, make};
use crate::backup::part::Pace;
use crate::config::backup::BackupSettings;
use crate::limits::{
    BACKUP_CHAINS_MAX, BACKUP_LIST, BACKUP_LOOK, BACKUP_NICENESS, BACKUP_RECORDS_MIN, BACKUP_RETRY,
    COPY_BYTES_PER_SECOND,
};
use crate::stamp::now_micros;
use crate::workers::service::Service;

/// State of the backup, for `cn=monitor`.
#[derive(Debug, Default)]
pub(crate) struct BackupFigures(Mutex<BackupState>);

/// Data of [`BackupFigures`].
#[derive(Clone, Debug, Default)]
pub(crate) struct BackupState {
    /// Time of the last complete backup in seconds since 1970, and its position; `None` before the first backup since
    /// the start.
    pub(crate) last: Option<(u64, u64)>,
    /// Error of the last attempt to back up, if it failed.
    pub(crate) error: Option<String>,
    /// Interval between backups in seconds.
    pub(crate) interval_seconds: u64,
    /// Place of the backup; empty until the thread has started.
    pub(crate) place: String,
    /// Chains of the backup, each with the moments that it covers, the oldest first. The chains were read when the
    /// backup was last listed.
    pub(crate) chains: Arc<[BackupChain]>,
}

impl BackupFigures {
    pub(crate) fn get(&self) -> BackupState {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BackupState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, outcome: Result<&BackupOutcome, &BackupError>) {
        let mut state = self.lock();
        match outcome {
            Ok(outcome) => {
                state.last = Some((now_micros() / 1_000_000, outcome.position));
                state.error = None;
            }
            Err(error) => state.error = Some(error.to_string()),
        }
    }

    /// Lists the backup again. If its place cannot be read, the next attempt to back up reports the error.
    fn list(&self, settings: &BackupSettings, pace: &Pace) {
        let listed = crate::backup::open(&settings.place, pace.is_stopping.clone())
            .and_then(|storage| list(&*storage));
        let listed = listed.unwrap_or_default();
        let first = listed.len().saturating_sub(BACKUP_CHAINS_MAX);
        self.lock().chains = listed.into_iter().skip(first).collect();
    }
}

/// Starts the thread. A stop interrupts a backup in progress.
///
/// # Errors
/// The system cannot start a thread.
pub(crate) fn start(
    settings: &BackupSettings,
    directory: &Arc<Directory>,
    figures: Arc<BackupFigures>,
) -> io::Result<Service> {
    let (settings, directory) = (settings.clone(), Arc::clone(directory));
    let (stop, stopped) = channel();
    let is_stopping = Arc::<AtomicBool>::default();
    let stopping = Arc::clone(&is_stopping);
    let run = move || run(&settings, &directory, &figures, &stopped, &is_stopping);
    Service::start("pando-backup", run, move || {
        stopping.store(true, Ordering::Relaxed);
        drop(stop);
    })
}

/// Makes backups until the sender of `stop` is dropped. `is_stopping` is set before that, to interrupt a backup.
fn run(
    settings: &BackupSettings,
    directory: &Arc<Directory>,
    figures: &BackupFigures,
    stop: &Receiver<()>,
    is_stopping: &Arc<AtomicBool>,
) {
    lower_priority(BACKUP_NICENESS, "the backup has no low priority");
    let rules = BackupRules {
        is_full: false,
        full_after: settings.full_after,
        keep: settings.keep,
        recipients: settings.recipients.clone(),
    };
    let pace =
        Pace { bytes_per_second: Some(COPY_BYTES_PER_SECOND), is_stopping: Some(Arc::clone(is_stopping)) };
    {
        let mut state = figures.lock();
        state.interval_seconds = settings.interval.as_secs();
        state.place = settings.place.to_string();
    }
    let (mut next, mut next_list) = (Instant::now(), Instant::now());
    loop {
        if Instant::now() >= next || is_log_expiring(directory, figures) {
            let outcome = back_up(settings, directory, &rules, &pace);
            figures.set(outcome.as_ref());
            let wait = match outcome {
                Ok(outcome) => {
                    log_backup(&outcome);
                    settings.interval
                }
                Err(_) if is_stopping.load(Ordering::Relaxed) => return,
                Err(error) => {
                    let place = &settings.place;
                    tracing::error!("the data is not backed up to {place}: {error}");
                    BACKUP_RETRY.min(settings.interval)
                }
            };
            next = Instant::now() + wait;
            next_list = Instant::now();
        }
        // Another process may have changed the backup.
        if Instant::now() >= next_list {
            figures.list(settings, &pace);
            next_list = Instant::now() + BACKUP_LIST;
        }
        if stop.recv_timeout(BACKUP_LOOK) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

fn back_up(
    settings: &BackupSettings,
    directory: &Directory,
    rules: &BackupRules,
    pace: &Pace,
) -> Result<BackupOutcome, BackupError> {
    let source = BackupSource::of(directory).map_err(directory::backup::BackupError::from)?;
    let storage = crate::backup::open(&settings.place, pace.is_stopping.clone())?;
    make(&*storage, now_micros(), rules, &source, pace)
}

/// Returns true if more than half of the records that the log retains are newer than the last backup. If the log drops
/// them first, the next backup must contain all entries again. Returns false while backups fail, because a failed
/// backup is retried at its own interval.
fn is_log_expiring(directory: &Directory, figures: &BackupFigures) -> bool {
    let BackupState { last: Some((_, position)), error: None, .. } = figures.get() else { return false };
    let records_max = directory.settings().general.log_records_kept.max(BACKUP_RECORDS_MIN);
    directory.newest_position().is_ok_and(|newest| newest.saturating_sub(position) > records_max / 2)
}

fn log_backup(outcome: &BackupOutcome) {
    let BackupOutcome { position, written, bytes, removed } = outcome;
    match written {
        WrittenPart::Nothing => {}
        WrittenPart::Rows(why) => {
            tracing::info!(position, bytes, removed, "all entries are backed up and read back: {why}");
        }
        WrittenPart::Changes(changes) => {
            tracing::info!(position, changes, bytes, removed, "changes are backed up and read back");
        }
    }
}
