//! The threads that read entries and small trees of the server's backup for the administrator.
//!
//! One thread receives the requests. Another thread restores the data of the requested moment into a separate folder.
//! Meanwhile, requests are answered with `busy`. After that, the copy serves all requests for the same moment. The copy
//! is removed when no request has arrived for a while.
//!
//! There is at most one copy. While changes are applied to it, it may occupy twice the size of the data. A restore
//! begins only if that much space and the reserve are free. If a process is killed, the next start removes its copy.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Instant;

use directory::backup::Until;
use directory::export::{ExportError, TreeBounds, export_entry, export_tree};
use directory::{Directory, Outcome, ReadOnlyDirectory};
use ldap::{BackupAnswer, BackupRequest, ResultCode};
use system::lower_priority;

use crate::backup::BackupError;
use crate::backup::encryption::BackupIdentities;
use crate::backup::restore::{Restored, restore};
use crate::config::backup::BackupPlace;
use crate::limits::{
    BACKUP_COPY_FRESH, BACKUP_COPY_KEPT, BACKUP_ENTRY_BYTES, BACKUP_NICENESS, BACKUP_READ_WAIT,
    BACKUP_READS_MAX, BACKUP_TREE_ENTRIES_MAX, BACKUP_TREE_NAMES_BYTES, BACKUP_TREE_NAMES_MAX,
};
use crate::net::mailbox::Mailbox;
use crate::stamp::{Random, new_stamp};
use crate::unfinished::TemporaryFolder;
use crate::workers::jobs::Jobs;

/// Name of the copy's folder. It is in the folder of the backup, or in the data directory if the backup is in a bucket.
const FOLDER: &str = "moment-for-clients";

/// The thread that receives requests. A job is the value of a request.
pub(crate) type BackupReader = Jobs<Vec<u8>>;

/// Removes the copy that a killed process has left, because it contains all passwords.
pub(crate) fn remove_left(backup: Option<&BackupPlace>, data: &Path) {
    for folder in backup.and_then(BackupPlace::folder).into_iter().chain([data]) {
        let folder = folder.join(FOLDER);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::error!(%error, "cannot remove {}, a copy of the data: remove it", folder.display());
            }
            _ => {}
        }
    }
}

/// Starts the thread.
///
/// # Errors
/// The system cannot start a thread.
pub(crate) fn start(
    backup: &BackupPlace,
    data: &Path,
    directory: &Arc<Directory>,
    mailboxes: &Arc<[Mailbox]>,
) -> io::Result<BackupReader> {
    let folder = backup.folder().unwrap_or(data).join(FOLDER);
    let mut reader = Reader { backup: backup.clone(), folder, directory: Arc::clone(directory), copy: None };
    Jobs::start("pando-moments", BACKUP_READS_MAX, mailboxes, move |value: Vec<u8>| {
        match reader.answer(&value) {
            Ok(answer) => (Outcome::success(), Some(answer.encode())),
            Err(outcome) => (outcome, None),
        }
    })
}

type Answer = Result<BackupAnswer, Outcome>;

/// A request for an entry, or for the entry and all entries below it.
struct Question {
    entry: String,
    is_tree: bool,
    answer: Sender<Answer>,
}

struct Reader {
    backup: BackupPlace,
    /// Folder of the copy.
    folder: PathBuf,
    /// The data that the server serves.
    directory: Arc<Directory>,
    copy: Option<Copy>,
}

/// A restored copy, and the thread that reads it.
struct Copy {
    micros: u64,
    started: Instant,
    /// Position and time of the restored data. Unset while the restore runs, and `None` if the restore failed.
    restored: Arc<OnceLock<Option<Restored>>>,
    questions: Option<Sender<Question>>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    fn answer(&mut self, value: &[u8]) -> Answer {
        let Some(BackupRequest { entry, micros, is_tree }) = BackupRequest::decode(value) else {
            return Err(Outcome::new(
                ResultCode::PROTOCOL_ERROR,
                "the value is no request for an entry of the backup",
            ));
        };
        if let Some(copy) = self.copy.take_if(|copy| !copy.serves(micros))
            && !copy.has_ended()
        {
            self.copy = Some(copy);
            return Err(Outcome::new(
                ResultCode::BUSY,
                "another moment of the backup is being restored: ask again later",
            ));
        }
        let copy = match &self.copy {
            Some(copy) => copy,
            None => {
                self.check_room()?;
                self.copy.insert(Copy::begin(&self.backup, &self.folder, micros).map_err(|error| {
                    Outcome::new(ResultCode::UNAVAILABLE, format!("the system gives no thread: {error}"))
                })?)
            }
        };
        copy.query(entry, is_tree)
    }

    /// Returns an error if the disk has too little room for a copy.
    fn check_room(&self) -> Result<(), Outcome> {
        let failed = |error: &dyn std::fmt::Display| {
            tracing::error!("no moment of the backup is restored, the free space is unknown: {error}");
            Outcome::new(
                ResultCode::OTHER,
                "the free space of the disk is unknown: the server's log says why",
            )
        };
        let facts = self.directory.facts().map_err(|error| failed(&error))?;
        let parent = self.folder.parent().unwrap_or(&self.folder);
        let disk = rustix::fs::statvfs(parent).map_err(|error| failed(&error))?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let needed = room_needed(facts.used_bytes, facts.disk_reserve_bytes);
        if free >= needed {
            return Ok(());
        }
        let [free, needed] = [free, needed].map(|bytes| bytes >> 20);
        let text = format!(
            "the disk has too little room to restore a moment of the backup: {free} MiB are free, {needed} MiB are \
             needed"
        );
        Err(Outcome::new(ResultCode::UNWILLING_TO_PERFORM, text))
    }
}

/// Returns the free space that a restore needs, in octets, if the data occupies `used` octets.
fn room_needed(used: u64, reserve: u64) -> u64 {
    used.saturating_mul(2).saturating_add(reserve)
}

impl Copy {
    fn begin(backup: &BackupPlace, folder: &Path, micros: u64) -> io::Result<Copy> {
        let (questions, received) = channel();
        let restored = Arc::<OnceLock<_>>::default();
        let (backup, folder, restored_copy) = (backup.clone(), folder.to_owned(), Arc::clone(&restored));
        let serve = move || serve(&backup, &folder, micros, &received, &restored_copy);
        let thread = std::thread::Builder::new().name("pando-moment".to_owned()).spawn(serve)?;
        Ok(Copy {
            micros,
            started: Instant::now(),
            restored,
            questions: Some(questions),
            thread: Some(thread),
        })
    }

    /// Returns true if the restore has ended, with or without success.
    fn has_ended(&self) -> bool {
        self.restored.get().is_some() || self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Returns true if this copy can answer a request for the moment `micros`. A copy of the newest data is used for a
    /// limited time only, because the backup grows.
    fn serves(&self, micros: u64) -> bool {
        if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            return false;
        }
        match self.restored.get() {
            None => micros == self.micros,
            Some(None) => false,
            Some(Some(Restored { micros: last, has_later, .. })) => {
                // The copy was restored as of `self.micros`. The backup has no change between `last`, the time of the
                // copy's last change, and `self.micros`.
                (*last..=self.micros).contains(&micros)
                    && (*has_later || self.started.elapsed() < BACKUP_COPY_FRESH)
            }
        }
    }

    fn query(&self, entry: &str, is_tree: bool) -> Answer {
        let (answer, answered) = channel();
        let question = Question { entry: entry.to_owned(), is_tree, answer };
        let sent = self.questions.as_ref().map(|questions| questions.send(question));
        let busy = |text: &str| Err(Outcome::new(ResultCode::BUSY, text));
        if !matches!(sent, Some(Ok(()))) {
            return busy("the copy of the moment has just been removed: ask again");
        }
        match answered.recv_timeout(BACKUP_READ_WAIT) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => {
                busy("the moment of the backup is being restored: ask again later")
            }
            Err(RecvTimeoutError::Disconnected) => {
                busy("the copy of the moment has just been removed: ask again")
            }
        }
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        self.questions = None;
        // Do not wait for a restore in progress. The next restore removes the folder of this restore.
        if let Some(thread) = self.thread.take()
            && self.restored.get().is_some()
        {
            // The thread returns no result.
            let _ = thread.join();
        }
    }
}

/// Restores the data as of `micros` and answers requests for it.
fn serve(
    backup: &BackupPlace,
    folder: &Path,
    micros: u64,
    received: &Receiver<Question>,
    restored_copy: &OnceLock<Option<Restored>>,
) {
    lower_priority(BACKUP_NICENESS, "the restore of a moment for clients has no low priority");
    let copied = restored(backup, folder, micros);
    // Setting cannot fail, because no other code sets the cell.
    let _ = restored_copy.set(copied.as_ref().ok().map(|(restored, ..)| *restored));
    while let Ok(Question { entry, is_tree, answer }) = received.recv_timeout(BACKUP_COPY_KEPT) {
        let found = match &copied {
            Ok((restored, directory, _)) => read(directory, *restored, &entry, is_tree),
            Err(outcome) => Err(outcome.clone()),
        };
        // Sending fails if the request is no longer awaited.
        let _ = answer.send(found);
        if copied.is_err() {
            return;
        }
    }
}

/// Restores the data as of `micros`. The folder is removed when the returned `TemporaryFolder` is dropped.
fn restored(
    backup: &BackupPlace,
    folder: &Path,
    micros: u64,
) -> Result<(Restored, ReadOnlyDirectory, TemporaryFolder), Outcome> {
    let failed = |error: &dyn std::fmt::Display| {
        tracing::error!("a moment of the backup is not restored for a client: {error}");
        Outcome::new(
            ResultCode::OTHER,
            "the moment of the backup cannot be restored: the server's log says why",
        )
    };
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&error)),
        _ => {}
    }
    let temporary = TemporaryFolder::create(folder.to_owned()).map_err(|error| failed(&error))?;
    let mut random = Random::default();
    let stamp = new_stamp(&mut random).map_err(|error| failed(&error))?;
    let generation = random.bytes().map_err(|error| failed(&error))?;
    let until = Until { micros, ..Until::END };
    let storage = crate::backup::open(backup, None);
    let restored = storage.and_then(|storage| {
        restore(&*storage, &BackupIdentities::default(), folder, until, generation, stamp)
    });
    let restored = restored.map_err(|error| match error {
        BackupError::Refused(text) => {
            let text = format!("the backup does not have that moment: {text}");
            Outcome::new(ResultCode::UNWILLING_TO_PERFORM, text)
        }
        BackupError::Encrypted { .. } => {
            let text =
                "the backup is encrypted, and the server cannot read it: use `pando backup recover --identity`";
            Outcome::new(ResultCode::UNWILLING_TO_PERFORM, text)
        }
        error => failed(&error),
    })?;
    let directory = ReadOnlyDirectory::open(folder).map_err(|error| failed(&error))?;
    Ok((restored, directory, temporary))
}

fn read(directory: &ReadOnlyDirectory, restored: Restored, entry: &str, is_tree: bool) -> Answer {
    let mut ldif = Bounded { text: Vec::new(), bytes_max: BACKUP_ENTRY_BYTES };
    let mut referrers = Bounded { text: Vec::new(), bytes_max: BACKUP_TREE_NAMES_BYTES };
    let bounds = TreeBounds { entries_max: BACKUP_TREE_ENTRIES_MAX, names_max: BACKUP_TREE_NAMES_MAX };
    let exported = match is_tree {
        true => export_tree(directory.state(), entry, bounds, &mut ldif, &mut referrers),
        false => export_entry(directory.state(), entry, &mut ldif).map(drop),
    };
    match exported {
        Ok(()) => {}
        Err(ExportError::Operation(error)) => {
            let outcome = Outcome::from(error);
            if outcome.code != ResultCode::NO_SUCH_OBJECT {
                return Err(outcome);
            }
            ldif.text.clear();
        }
        Err(_) => {
            let what = if is_tree { "tree" } else { "entry" };
            let text = format!("the {what} is too large: `pando backup recover` has no such bound");
            return Err(Outcome::new(ResultCode::ADMIN_LIMIT_EXCEEDED, text));
        }
    }
    let Restored { position, micros, .. } = restored;
    Ok(BackupAnswer { position, micros, ldif: ldif.text, referrers: referrers.text })
}

/// LDIF text, up to a maximum size.
struct Bounded {
    text: Vec<u8>,
    bytes_max: usize,
}

impl Write for Bounded {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        if self.text.len() + octets.len() > self.bytes_max {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.text.extend_from_slice(octets);
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_needs_space_for_twice_the_data_and_the_reserve() {
        assert_eq!(room_needed(10, 5), 25);
        assert_eq!(room_needed(u64::MAX - 1, 5), u64::MAX);
    }

    #[test]
    fn a_copy_of_a_killed_process_is_removed() {
        let base = std::env::temp_dir().join(format!("pando-moments-{}", std::process::id()));
        let (data, backup) = (base.join("data"), base.join("backup"));
        for folder in [&data, &backup] {
            fs::create_dir_all(folder.join(FOLDER).join("below")).unwrap();
        }
        remove_left(Some(&BackupPlace::Folder(backup.clone())), &data);
        assert!(!data.join(FOLDER).exists() && !backup.join(FOLDER).exists() && backup.exists());
        remove_left(None, &data);
        fs::remove_dir_all(base).unwrap();
    }
}
