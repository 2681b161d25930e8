//! The thread that reads the supplier's log. It requests the next records while the previous records are being applied.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use client::{ClientError, Connection};
use directory::{Directory, OperationError};
use ldap::{LogAnswer, LogPart, LogRequest, ResultCode, oids};
use replication::Lineage;
use replication::comparison::{Mark, Notice};
use store::StoreError;

use super::compare::Reports;
use super::figures::{ReplicaFigures, ReplicaStage};
use crate::config::ReplicaSettings;
use crate::limits::{
    LOG_BLOCK_BYTES, REPLICA_CONNECT, REPLICA_HALTED_RETRY, REPLICA_LOOK, REPLICA_RETRY_MAX,
    REPLICA_RETRY_MIN, REPLICA_SILENCE,
};
use crate::workers::log_reader::record_digest;
use crate::workers::source_connection::{self, SourceError};
use crate::workers::writer::WriteQueue;

/// Consecutive records of the supplier.
pub(super) struct Block {
    /// Number of the connection to the supplier, counted from 1.
    pub(super) reading: u64,
    /// Position of the first record.
    pub(super) first: u64,
    /// The records; empty if the supplier has no more.
    pub(super) records: Vec<Vec<u8>>,
    /// Position of the supplier's last record. The supplier determined this position after the time `requested`.
    pub(super) newest: u64,
    pub(super) requested: Instant,
    /// Lineage that the supplier sent.
    pub(super) lineage: Lineage,
    /// Mark (digest barrier) at the end of these records, if there is one.
    pub(super) mark: Option<Mark>,
}

/// State that the thread shares with its owner.
#[derive(Default)]
pub(super) struct Control {
    is_stopping: AtomicBool,
    /// Number of the last connection whose records are ignored.
    unwanted: AtomicU64,
    /// Number of the present connection; 0 if there is none.
    reading: AtomicU64,
}

/// The thread. Dropping this struct ends the thread.
pub(super) struct Fetcher {
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
}

/// Reason why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error("this server stops")]
    Stopping,
    #[error("the records are read again")]
    Again,
    #[error(transparent)]
    Connect(#[from] SourceError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the supplier refuses to serve its log: {0}: {1}")]
    Refused(ResultCode, String),
    #[error("the supplier's answer is malformed")]
    Malformed,
    #[error("{0}")]
    Halted(String),
    #[error(transparent)]
    Operation(#[from] OperationError),
}

impl From<StoreError> for FetchError {
    fn from(error: StoreError) -> FetchError {
        FetchError::Operation(error.into())
    }
}

/// State of the thread.
pub(super) struct Source {
    pub(super) settings: ReplicaSettings,
    pub(super) directory: Arc<Directory>,
    pub(super) queue: Arc<WriteQueue>,
    pub(super) figures: Arc<ReplicaFigures>,
    pub(super) blocks: SyncSender<Block>,
    pub(super) reports: Arc<Reports>,
}

impl Fetcher {
    pub(super) fn start(source: Source) -> io::Result<Fetcher> {
        Fetcher::spawn(move |control| source.run(control))
    }

    /// Starts a thread that runs `run`, which must end when its `Control` requests that.
    pub(super) fn spawn(run: impl FnOnce(&Control) + Send + 'static) -> io::Result<Fetcher> {
        let control = Arc::<Control>::default();
        let own = Arc::clone(&control);
        let run = move || run(&own);
        let thread = std::thread::Builder::new().name("pando-fetch".to_owned()).spawn(run)?;
        Ok(Fetcher { control, thread: Some(thread) })
    }

    /// Makes the thread read again after the last commit, over a new connection. `reading` is the number of the present
    /// connection.
    pub(super) fn read_again(&self, reading: u64) {
        self.control.unwanted.store(reading, Ordering::Release);
    }

    /// Returns the number of the present connection to the supplier; 0 if there is none.
    pub(super) fn reading(&self) -> u64 {
        self.control.reading.load(Ordering::Acquire)
    }
}

impl Drop for Fetcher {
    fn drop(&mut self) {
        self.control.is_stopping.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread returns no result.
            let _ = thread.join();
        }
    }
}

impl Control {
    fn check(&self, reading: u64) -> Result<(), FetchError> {
        if self.is_stopping.load(Ordering::Acquire) {
            return Err(FetchError::Stopping);
        }
        if self.unwanted.load(Ordering::Acquire) >= reading { Err(FetchError::Again) } else { Ok(()) }
    }

    /// Sleeps for `pause`, or until the thread must end.
    pub(super) fn pause(&self, pause: Duration) {
        let until = Instant::now() + pause;
        while !self.is_stopping.load(Ordering::Acquire) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::park_timeout(left);
        }
    }
}

impl Source {
    /// Connects again whenever a connection ends, until the thread must end.
    fn run(&self, control: &Control) {
        let mut pause = REPLICA_RETRY_MIN;
        for reading in 1.. {
            let mut has_read = false;
            let ended = self.follow(control, reading, &mut has_read);
            control.reading.store(0, Ordering::Release);
            if has_read {
                pause = REPLICA_RETRY_MIN;
            }
            let Err(error) = ended else { return };
            let (stage, retry) = match &error {
                FetchError::Stopping => return,
                FetchError::Halted(_) => (ReplicaStage::Halted, REPLICA_HALTED_RETRY),
                _ => (ReplicaStage::Disconnected, pause),
            };
            let text = error.to_string();
            if !matches!(error, FetchError::Again) && self.figures.failed(stage, &text) {
                let supplier = &self.settings.supplier;
                match stage {
                    ReplicaStage::Halted => tracing::error!(%supplier, "this replica does not go on: {text}"),
                    _ => tracing::warn!(%supplier, "the supplier is not followed: {text}"),
                }
                self.queue.poke();
            }
            control.pause(retry);
            pause = (pause * 2).min(REPLICA_RETRY_MAX);
        }
    }

    /// Reads the log over one connection, until the connection ends.
    fn follow(&self, control: &Control, reading: u64, has_read: &mut bool) -> Result<(), FetchError> {
        control.check(reading)?;
        let ReplicaSettings { supplier, authorities, identity, name, .. } = &self.settings;
        let mut connection =
            source_connection::connect("replica", supplier, authorities.as_ref(), identity, REPLICA_CONNECT)?;
        connection.set_timeout(REPLICA_LOOK)?;
        control.reading.store(reading, Ordering::Release);
        self.figures.lock().connections += 1;
        let (mut from, mut marks) = (Place::of(&self.directory)?, MarksRead::default());
        let generation = self.directory.generation()?;
        let bytes_max = u32::try_from(LOG_BLOCK_BYTES).unwrap_or(u32::MAX);
        // The first request does not wait for records, because changes are forwarded only after its answer.
        let mut wait_ms = 0;
        loop {
            let lineage = from.lineage.encode();
            let report = self.reports.next();
            let comparison = report.as_ref().map(|report| report.encode()).unwrap_or_default();
            let request = LogRequest {
                generation,
                position: from.position,
                digest: &from.digest,
                lineage: &lineage,
                wait_ms,
                bytes_max,
                name,
                comparison: &comparison,
            };
            let requested = Instant::now();
            self.figures.record_request(requested);
            let value = send_request(control, reading, &mut connection, &request.encode())?;
            let answer = LogAnswer::decode(&value).ok_or(FetchError::Malformed)?;
            let theirs = Lineage::decode(answer.lineage).ok_or(FetchError::Malformed)?;
            let notice = Notice::decode(answer.comparison).ok_or(FetchError::Malformed)?;
            let (first, records) = records_of(&from, &answer, &theirs)?;
            *has_read = true;
            wait_ms = u32::try_from(REPLICA_LOOK.as_millis()).unwrap_or(u32::MAX);
            self.figures.record_answer(answer.newest);
            if let (Some(report), Some(verdict)) = (&report, notice.verdict) {
                self.reports.judged(report, verdict, &self.figures);
            }
            from.position += records.len() as u64;
            from.lineage = theirs.up_to(from.position);
            from.digest.clear();
            let records = records.into_iter().map(<[u8]>::to_vec).collect();
            let mark = marks.due(notice.mark, first, from.position);
            let block = Block {
                reading,
                first,
                records,
                newest: answer.newest,
                requested,
                lineage: theirs,
                mark: None,
            };
            for block in block.ending_at(mark) {
                self.pass_on(control, block)?;
            }
        }
    }

    /// Passes records to the owner. Waits while too many earlier records are not applied.
    fn pass_on(&self, control: &Control, block: Block) -> Result<(), FetchError> {
        let (reading, mut block) = (block.reading, block);
        loop {
            control.check(reading)?;
            match self.blocks.try_send(block) {
                Ok(()) => {
                    self.queue.poke();
                    return Ok(());
                }
                Err(TrySendError::Disconnected(_)) => return Err(FetchError::Stopping),
                Err(TrySendError::Full(back)) => {
                    block = back;
                    // The owner unparks this thread when it has taken a block.
                    std::thread::park_timeout(REPLICA_LOOK);
                }
            }
        }
    }
}

impl Block {
    /// Splits the block after the record at the mark's position, so that the data can be compared at that position.
    fn ending_at(mut self, mark: Option<Mark>) -> impl Iterator<Item = Block> {
        let Some(mark) = mark else { return [Some(self), None].into_iter().flatten() };
        let before = usize::try_from((mark.position + 1).saturating_sub(self.first)).unwrap_or(usize::MAX);
        let records = self.records.split_off(before.min(self.records.len()));
        self.mark = Some(mark);
        let first = self.first + self.records.len() as u64;
        let (lineage, mark) = (self.lineage.clone(), None);
        let rest = (!records.is_empty()).then_some(Block { first, records, lineage, mark, ..self });
        [Some(self), rest].into_iter().flatten()
    }
}

/// Marks (digest barriers) that the supplier has sent on one connection.
#[derive(Default)]
struct MarksRead {
    last: Option<Mark>,
    /// The last mark, if the records up to it have not arrived yet.
    waiting: Option<Mark>,
}

impl MarksRead {
    /// Records the mark in an answer. The supplier may have sent the same mark before. `first` and `last` are the
    /// positions of the answer's first and last record. Returns the waiting mark if its position is from `first - 1` to
    /// `last`. Drops the waiting mark if its position is less than `first - 1`.
    fn due(&mut self, received: Option<Mark>, first: u64, last: u64) -> Option<Mark> {
        if received.is_some() && received != self.last {
            self.last.clone_from(&received);
            self.waiting = received;
        }
        self.waiting.take_if(|mark| mark.position <= last).filter(|mark| mark.position + 1 >= first)
    }
}

impl Fetcher {
    /// Notifies the thread that the owner has taken a block.
    pub(super) fn has_room(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

/// Position up to which the thread has read the log.
struct Place {
    position: u64,
    /// Digest of the record at `position`. It is sent with the first request of a connection.
    digest: Vec<u8>,
    lineage: Lineage,
}

impl Place {
    /// Returns the position of the directory's last commit.
    fn of(directory: &Arc<Directory>) -> Result<Place, FetchError> {
        let snapshot = directory.snapshot()?;
        let position = snapshot.position()?;
        let last = snapshot.log_records(position).next().transpose()?;
        let last = last.filter(|(of, _)| *of == position && position > 0);
        Ok(Place {
            position,
            digest: last.map(|(_, record)| record_digest(record).to_vec()).unwrap_or_default(),
            lineage: Lineage::decode(snapshot.lineage()?).unwrap_or_default(),
        })
    }
}

/// Asks a supplier once for its lineage. Returns the supplier's lineage and the lineage of this directory.
pub(super) fn lineages(
    control: &Control,
    settings: &ReplicaSettings,
    directory: &Arc<Directory>,
) -> Result<(Lineage, Lineage), FetchError> {
    // The number of this connection has no meaning, because it reads no records.
    let reading = u64::MAX;
    control.check(reading)?;
    let ReplicaSettings { supplier, authorities, identity, name, .. } = settings;
    let mut connection =
        source_connection::connect("replica", supplier, authorities.as_ref(), identity, REPLICA_CONNECT)?;
    connection.set_timeout(REPLICA_LOOK)?;
    let from = Place::of(directory)?;
    let request = LogRequest {
        generation: directory.generation()?,
        position: from.position,
        digest: &from.digest,
        lineage: &from.lineage.encode(),
        wait_ms: 0,
        bytes_max: 1,
        name,
        comparison: &[],
    };
    let value = send_request(control, reading, &mut connection, &request.encode())?;
    let answer = LogAnswer::decode(&value).ok_or(FetchError::Malformed)?;
    if answer.part == LogPart::OtherData {
        return Err(FetchError::Halted("it has other data, for example after an import".to_owned()));
    }
    let theirs = Lineage::decode(answer.lineage).ok_or(FetchError::Malformed)?;
    Ok((theirs, from.lineage))
}

/// Sends a request with this value, and returns the value of its answer.
fn send_request(
    control: &Control,
    reading: u64,
    connection: &mut Connection,
    value: &[u8],
) -> Result<Vec<u8>, FetchError> {
    let request = ldap::ExtendedRequest { name: oids::READ_LOG, value: Some(value) };
    let id = connection.send(ldap::Request::Extended(request), ldap::Controls::NONE)?;
    let since = Instant::now();
    let reply = loop {
        control.check(reading)?;
        match connection.reply(id) {
            Ok(reply) => break reply,
            // A large answer over a slow connection may take several timeouts.
            Err(ClientError::TimedOut) if since.elapsed() < REPLICA_SILENCE => {}
            Err(error) => return Err(error.into()),
        }
    };
    match reply.outcome.code {
        ResultCode::SUCCESS => reply.extended.value.ok_or(FetchError::Malformed),
        code => Err(FetchError::Refused(code, reply.outcome.diagnostic)),
    }
}

/// Returns the records of an answer, and the position of the first.
fn records_of<'a>(
    from: &Place,
    answer: &LogAnswer<'a>,
    theirs: &Lineage,
) -> Result<(u64, Vec<&'a [u8]>), FetchError> {
    let halted = |text: String| Err(FetchError::Halted(text));
    let position = from.position;
    match &answer.part {
        LogPart::Records { first, records } if *first == position + 1 => Ok((*first, records.clone())),
        LogPart::Records { .. } => Err(FetchError::Malformed),
        LogPart::Trimmed(first) => halted(format!(
            "the supplier keeps its log from position {first} on, and this replica ends at position {position}: it \
             needs a copy of the data (move the data directory away and start again)"
        )),
        LogPart::Diverged(since) => halted(format!(
            "the histories differ from position {since} on, and this replica ends at position {position}: what only \
             this server has is never merged (export it, move the data directory away and start again)"
        )),
        LogPart::Replaced => halted(format!(
            "the supplier belongs to epoch {}, and a later writer was promoted in epoch {}: name that one as the \
             supplier",
            theirs.number(),
            from.lineage.number()
        )),
        LogPart::OtherData => halted(
            "the supplier has other data, for example after an import: this replica needs a copy (move the data \
             directory away and start again)"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(position: u64) -> Mark {
        Mark { position, slice: Default::default() }
    }

    #[test]
    fn a_mark_is_due_once_when_its_records_have_arrived() {
        let mut marks = MarksRead::default();
        assert_eq!(marks.due(Some(mark(12)), 5, 9), None, "its records have not arrived");
        assert_eq!(marks.due(None, 10, 14), Some(mark(12)));
        assert_eq!(marks.due(Some(mark(12)), 15, 14), None, "the supplier repeats it");
        // The mark is at the last record that the replica already has.
        assert_eq!(marks.due(Some(mark(14)), 15, 14), Some(mark(14)));
        // A new mark replaces an earlier mark that waits. A mark before the records of the answer is dropped.
        assert_eq!(marks.due(Some(mark(30)), 15, 20), None);
        assert_eq!(marks.due(Some(mark(31)), 21, 40), Some(mark(31)));
        assert_eq!((marks.due(Some(mark(3)), 41, 50), marks.due(None, 51, 60)), (None, None));
    }

    #[test]
    fn records_are_split_at_a_mark() {
        let block = || Block {
            reading: 1,
            first: 5,
            records: vec![vec![5], vec![6], vec![7]],
            newest: 9,
            requested: Instant::now(),
            lineage: Lineage::default(),
            mark: None,
        };
        let split = |at: Option<u64>| -> Vec<_> {
            let blocks = block().ending_at(at.map(mark));
            blocks.map(|block| (block.first, block.records.concat(), block.mark.is_some())).collect()
        };
        assert_eq!(split(None), [(5, vec![5, 6, 7], false)]);
        assert_eq!(split(Some(4)), [(5, vec![], true), (5, vec![5, 6, 7], false)]);
        assert_eq!(split(Some(5)), [(5, vec![5], true), (6, vec![6, 7], false)]);
        assert_eq!(split(Some(7)), [(5, vec![5, 6, 7], true)]);
    }
}
