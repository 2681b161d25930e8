//! The thread that serves copies of the data to new replicas, which request them part by part.
//!
//! A copy is a file in the data directory that contains the data at one position. The first request starts to make the
//! copy. The copy then serves all replicas, and is removed after some time without requests. A replica whose connection
//! breaks continues with the next part. The thread starts with the first request.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

use directory::{Directory, Outcome};
use ldap::{CopyAnswer, CopyPart, ResultCode};
use sha2::{Digest, Sha256};

use crate::limits::{COPY_KEPT, COPY_PART_BYTES, COPY_READS_MAX, COPY_WAIT, REPLICA_COPY_BYTES_PER_SECOND};
use crate::net::mailbox::{Address, Mailbox, post_extended};
use crate::stamp::Random;

/// Folder of the copy, in the data directory.
const FOLDER: &str = "copy-for-replicas";
/// Name of the copy's file in the folder.
const FILE: &str = "data.mdb";

/// A request for a part of a copy.
pub(crate) struct CopyRead {
    pub(crate) address: Address,
    /// Name of the copy; empty if the replica has no part yet.
    pub(crate) copy: Vec<u8>,
    pub(crate) offset: u64,
}

/// The thread and its queue. Dropping this struct ends the thread.
pub(crate) struct Copies {
    inner: Arc<Inner>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Inner {
    directory: Weak<Directory>,
    folder: PathBuf,
    mailboxes: Arc<[Mailbox]>,
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Default)]
struct Waiting {
    reads: VecDeque<CopyRead>,
    /// Result of making a copy, until the thread takes it.
    finished: Option<Result<CopyFile, String>>,
    is_closed: bool,
}

/// A complete copy.
struct CopyFile {
    file: File,
    bytes: u64,
    /// Position at which the copy began. The copy contains all changes up to it.
    position: u64,
    sha256: [u8; 32],
}

/// State of the copy.
enum Present {
    Nothing,
    /// Another thread is making the copy, which has this name.
    Making([u8; 16]),
    Ready {
        name: [u8; 16],
        copy: CopyFile,
        used: Instant,
    },
}

impl Copies {
    /// Creates the state for serving copies of a directory. The copies are stored in the folder `data`.
    pub(crate) fn new(directory: &Arc<Directory>, data: &Path, mailboxes: &Arc<[Mailbox]>) -> Copies {
        let inner = Inner {
            directory: Arc::downgrade(directory),
            folder: data.join(FOLDER),
            mailboxes: Arc::clone(mailboxes),
            waiting: Mutex::default(),
            arrived: Condvar::new(),
        };
        // A killed process may have left a copy.
        let _ = fs::remove_dir_all(&inner.folder);
        Copies { inner: Arc::new(inner), thread: Mutex::default() }
    }

    /// Queues a request. The answer goes to the mailbox of the event loop in the request's address. Returns false if
    /// too many requests wait.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(crate) fn submit(&self, read: CopyRead) -> io::Result<bool> {
        {
            let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
            if thread.is_none() {
                let inner = Arc::clone(&self.inner);
                let work = move || inner.work();
                *thread = Some(std::thread::Builder::new().name("pando-copies".to_owned()).spawn(work)?);
            }
        }
        let mut waiting = self.inner.lock();
        if waiting.reads.len() >= COPY_READS_MAX {
            return Ok(false);
        }
        waiting.reads.push_back(read);
        drop(waiting);
        self.inner.arrived.notify_one();
        Ok(true)
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        self.inner.lock().is_closed = true;
        self.inner.arrived.notify_all();
        if let Some(thread) = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            // The thread returns no result.
            let _ = thread.join();
        }
    }
}

/// Event that the thread waits for.
enum Next {
    Read(CopyRead),
    Made(Result<CopyFile, String>),
    /// A deadline is reached, or no request has arrived for some time.
    Idle,
    Closed,
}

impl Inner {
    fn work(self: &Arc<Self>) {
        let mut present = Present::Nothing;
        // Requests that wait for a copy to be made. Each request is answered at its deadline even if the copy is not
        // ready.
        let mut later: Vec<(Instant, CopyRead)> = Vec::new();
        loop {
            match self.next(later.iter().map(|(until, _)| *until).min()) {
                Next::Closed => break,
                Next::Made(copy) => {
                    present = self.take_finished(present, copy, &mut later);
                    for (_, read) in std::mem::take(&mut later) {
                        self.serve(&mut present, read, &mut later);
                    }
                }
                Next::Read(read) => self.serve(&mut present, read, &mut later),
                Next::Idle => {
                    if let Present::Ready { used, .. } = &present
                        && used.elapsed() >= COPY_KEPT
                    {
                        present = Present::Nothing;
                        let _ = fs::remove_dir_all(&self.folder);
                    }
                    let (now, making) = (Instant::now(), &present);
                    for (_, read) in later.extract_if(.., |(until, _)| *until <= now) {
                        if let Present::Making(name) = making {
                            self.answer(read.address, answer(name, 0, CopyPart::Making));
                        }
                    }
                }
            }
        }
        let _ = fs::remove_dir_all(&self.folder);
    }

    fn next(&self, until: Option<Instant>) -> Next {
        let mut waiting = self.lock();
        let until = until.unwrap_or_else(|| Instant::now() + COPY_KEPT);
        loop {
            if waiting.is_closed {
                return Next::Closed;
            }
            if let Some(copy) = waiting.finished.take() {
                return Next::Made(copy);
            }
            if let Some(read) = waiting.reads.pop_front() {
                return Next::Read(read);
            }
            let patience = until.saturating_duration_since(Instant::now());
            if patience.is_zero() {
                return Next::Idle;
            }
            waiting = self.arrived.wait_timeout(waiting, patience).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Takes over a finished copy. If making it failed, refuses the requests that wait for it.
    fn take_finished(
        &self,
        present: Present,
        copy: Result<CopyFile, String>,
        later: &mut Vec<(Instant, CopyRead)>,
    ) -> Present {
        match (present, copy) {
            (Present::Making(name), Ok(copy)) => {
                tracing::info!("a copy of the data is made for replicas: {} bytes", copy.bytes);
                Present::Ready { name, copy, used: Instant::now() }
            }
            (_, Ok(_)) => Present::Nothing,
            (_, Err(error)) => {
                tracing::error!("no copy of the data is made for replicas: {error}");
                let _ = fs::remove_dir_all(&self.folder);
                for (_, read) in later.drain(..) {
                    let text = format!("no copy of the data can be made: {error}");
                    self.post(read.address, Outcome::new(ResultCode::OTHER, text), None);
                }
                Present::Nothing
            }
        }
    }

    fn serve(self: &Arc<Self>, present: &mut Present, read: CopyRead, later: &mut Vec<(Instant, CopyRead)>) {
        if let Present::Ready { copy, .. } = present
            && !self.log_reaches(copy.position)
        {
            // The log has dropped records after the copy's position. A replica that begins with this copy would miss
            // them.
            *present = Present::Nothing;
        }
        match present {
            Present::Nothing => match self.begin() {
                Ok(name) => {
                    *present = Present::Making(name);
                    later.push((Instant::now() + COPY_WAIT, read));
                }
                Err(error) => {
                    let text = format!("no copy of the data can be made: {error}");
                    self.post(read.address, Outcome::new(ResultCode::OTHER, text), None);
                }
            },
            Present::Making(_) => later.push((Instant::now() + COPY_WAIT, read)),
            Present::Ready { name, copy, used } => {
                *used = Instant::now();
                let offset = if read.copy == name[..] { read.offset } else { 0 };
                match copy.part(offset) {
                    Ok(None) => {
                        self.answer(read.address, answer(name, copy.bytes, CopyPart::End(&copy.sha256)))
                    }
                    Ok(Some(part)) => {
                        self.answer(read.address, answer(name, copy.bytes, CopyPart::Data(&part)));
                    }
                    Err(error) => {
                        tracing::error!(%error, "the copy for replicas cannot be read");
                        let text = "the copy cannot be read: the server's log says why";
                        self.post(read.address, Outcome::new(ResultCode::OTHER, text), None);
                    }
                }
            }
        }
    }

    /// Returns true if the log has all records after `position`.
    fn log_reaches(&self, position: u64) -> bool {
        let Some(directory) = self.directory.upgrade() else { return false };
        let first = directory.snapshot().and_then(|snapshot| snapshot.first_log_position());
        first.is_ok_and(|first| first.is_none_or(|first| first <= position + 1))
    }

    /// Begins to make a copy and returns its name.
    fn begin(self: &Arc<Self>) -> Result<[u8; 16], String> {
        let name: [u8; 16] = Random::default().bytes().map_err(|error| error.to_string())?;
        let inner = Arc::clone(self);
        let make = move || {
            let copy = inner.make();
            inner.lock().finished = Some(copy);
            inner.arrived.notify_one();
        };
        let started = std::thread::Builder::new().name("pando-copy".to_owned()).spawn(make);
        started.map(|_| name).map_err(|error| error.to_string())
    }

    fn make(&self) -> Result<CopyFile, String> {
        let failed = |error: io::Error| format!("{}: {error}", self.folder.display());
        let _ = fs::remove_dir_all(&self.folder);
        let directory = self.directory.upgrade().ok_or("the server stops")?;
        let position = directory.newest_position().map_err(|error| error.to_string())?;
        directory.copy_to(&self.folder, REPLICA_COPY_BYTES_PER_SECOND).map_err(|error| error.to_string())?;
        drop(directory);
        let mut file = File::open(self.folder.join(FILE)).map_err(failed)?;
        let (mut hash, mut bytes) = (Sha256::new(), 0);
        let mut part = vec![0; COPY_PART_BYTES];
        loop {
            let count = file.read(&mut part).map_err(failed)?;
            if count == 0 {
                break;
            }
            hash.update(part.get(..count).unwrap_or_default());
            bytes += count as u64;
        }
        Ok(CopyFile { file, bytes, position, sha256: hash.finalize().into() })
    }

    fn answer(&self, address: Address, value: Vec<u8>) {
        self.post(address, Outcome::success(), Some(value));
    }

    fn post(&self, address: Address, outcome: Outcome, value: Option<Vec<u8>>) {
        post_extended(&self.mailboxes, address, outcome, value);
    }

    /// A panic under the lock cannot leave half a request. Therefore a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CopyFile {
    /// Returns the compressed part at `offset`; `None` at the end of the copy.
    fn part(&mut self, offset: u64) -> io::Result<Option<Vec<u8>>> {
        if offset >= self.bytes {
            return Ok(None);
        }
        self.file.seek(SeekFrom::Start(offset))?;
        let mut part = Vec::with_capacity(COPY_PART_BYTES);
        (&mut self.file).take(COPY_PART_BYTES as u64).read_to_end(&mut part)?;
        zstd::bulk::compress(&part, 1).map(Some)
    }
}

fn answer(name: &[u8; 16], total: u64, part: CopyPart<'_>) -> Vec<u8> {
    CopyAnswer { copy: name, total, part }.encode()
}
