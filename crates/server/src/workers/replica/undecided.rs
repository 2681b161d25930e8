//! A server that was promoted before, and whose settings still name its former supplier when it starts.
//!
//! The node file may be older than the promotion, or the former supplier may have been promoted while this server was
//! down. Two writers would create histories that cannot be merged. Therefore this server makes no change until the
//! supplier has sent its lineage. If the lineage contains an epoch that this server lacks, this server becomes a
//! replica.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use directory::replica::ReplicationRole;
use directory::{Outcome, Writer};
use ldap::ResultCode;

use super::ReplicaParts;
use super::fetch::{Control, FetchError, Fetcher, lineages};
use super::figures::{ReplicaFigures, ReplicaStage};
use crate::limits::{REPLICA_CONNECT, REPLICA_RETRY_MAX, REPLICA_RETRY_MIN};
use crate::net::mailbox::Address;
use crate::stamp::{Random, no_random_numbers};
use crate::workers::writer::replaced::{knows, promote};
use crate::workers::writer::{Fetched, WriteQueue, WriteRequest, WriterWork};

/// Role of the server from now on.
pub(super) enum Decision {
    /// The server is the writer. Contains the address of the client that requested the promotion, if a client did.
    Writes(Option<Address>),
    /// The server follows its supplier.
    Follows,
    /// Another server is the writer, and has asked this server to stop writing.
    Replaced,
    /// The server is stopping.
    Ends,
}

/// Asks the supplier which server is the writer. Answers the requests of clients until the supplier has answered.
///
/// # Errors
/// The system cannot start a thread, or the store failed.
pub(super) fn run(
    parts: &ReplicaParts,
    writer: &mut Writer,
    queue: &Arc<WriteQueue>,
) -> io::Result<Decision> {
    parts.figures.begins(ReplicaStage::Undecided);
    let (decision_sender, answers) = channel();
    let inquiry = SupplierInquiry {
        settings: parts.settings.clone(),
        directory: Arc::clone(&parts.directory),
        figures: Arc::clone(&parts.figures),
        queue: Arc::clone(queue),
        decision_sender,
    };
    let _thread = Fetcher::spawn(move |control| inquiry.run(control))?;
    // Changes wait for the first answer of the supplier, because it usually arrives at once.
    let mut is_later = answers.recv_timeout(REPLICA_CONNECT).ok().flatten();
    let mut requests = Vec::new();
    loop {
        if let Some(is_later) = is_later {
            queue.submit(&mut requests);
            return decide(parts, writer, queue, is_later);
        }
        if queue.fetch(&mut requests, None) == Fetched::Closed {
            return Ok(Decision::Ends);
        }
        is_later = newest(&answers);
        if is_later.is_some() {
            continue;
        }
        let mut remaining = std::mem::take(&mut requests).into_iter();
        while let Some(request) = remaining.next() {
            if let Some(decision) = take(request, parts, writer, queue) {
                queue.submit(&mut remaining.collect());
                return Ok(decision);
            }
        }
    }
}

/// Returns the supplier's answer, if one has arrived.
fn newest(answers: &Receiver<Option<bool>>) -> Option<bool> {
    answers.try_iter().flatten().next()
}

fn decide(
    parts: &ReplicaParts,
    writer: &mut Writer,
    queue: &WriteQueue,
    is_later: bool,
) -> io::Result<Decision> {
    let supplier = &parts.settings.supplier;
    if is_later {
        writer.resign(&ReplicationRole::Replica).map_err(io::Error::other)?;
        queue.committed();
        parts.figures.begins(ReplicaStage::Disconnected);
        tracing::warn!(%supplier, "the supplier was promoted after this server, which becomes its replica");
        return Ok(Decision::Follows);
    }
    tracing::warn!(
        "this server was promoted and is no replica of {supplier} any longer: remove the table [replica]"
    );
    let (_, lineage) = writer.place_in_lineage().map_err(io::Error::other)?;
    parts.figures.promoted(replication::Lineage::decode(&lineage).unwrap_or_default().number());
    Ok(Decision::Writes(None))
}

/// Answers a request while the role is unknown. Returns the decision if the request decides the role.
fn take(
    request: WriteRequest,
    parts: &ReplicaParts,
    writer: &mut Writer,
    queue: &WriteQueue,
) -> Option<Decision> {
    let text = parts.figures.get().undecided();
    let outcome = match request.change {
        WriterWork::Promote { without_supplier: true } => match promote_again(parts, writer) {
            Ok(()) => return Some(Decision::Writes(Some(request.address))),
            Err(outcome) => outcome,
        },
        WriterWork::Promote { .. } => Outcome::new(
            ResultCode::UNWILLING_TO_PERFORM,
            "this server was promoted before, and asks its former supplier: if that is lost, use --without-supplier",
        ),
        WriterWork::Fence(epoch) if is_past(writer, epoch) => Outcome::success(),
        WriterWork::Fence(epoch) => match writer.resign(&ReplicationRole::Replaced { epoch }) {
            Ok(()) => {
                queue.committed();
                queue.answer(request.address, Outcome::success().into());
                return Some(Decision::Replaced);
            }
            Err(error) => error.into(),
        },
        WriterWork::Account { id, .. } => {
            queue.settle_account(id, false);
            Outcome::new(ResultCode::UNAVAILABLE, text)
        }
        _ => Outcome::new(ResultCode::UNAVAILABLE, text),
    };
    queue.answer(request.address, outcome.into());
    None
}

/// Returns true if the epoch is in this server's lineage.
fn is_past(writer: &Writer, epoch: [u8; 16]) -> bool {
    writer.place_in_lineage().is_ok_and(|(_, lineage)| knows(&lineage, epoch))
}

/// Begins another epoch, so that the former supplier stops writing when it can be reached again.
fn promote_again(parts: &ReplicaParts, writer: &mut Writer) -> Result<(), Outcome> {
    let epoch = Random::default().bytes().map_err(no_random_numbers)?;
    let number = promote(writer, epoch, &parts.settings.supplier.to_string())?;
    parts.figures.promoted(number);
    Ok(())
}

/// State of the thread that asks the supplier.
struct SupplierInquiry {
    settings: crate::config::ReplicaSettings,
    directory: Arc<directory::Directory>,
    figures: Arc<ReplicaFigures>,
    queue: Arc<WriteQueue>,
    /// Sender of the supplier's answer: whether the supplier was promoted later than this server. `None` is sent if the
    /// supplier did not answer.
    decision_sender: Sender<Option<bool>>,
}

impl SupplierInquiry {
    /// Asks the supplier repeatedly, until it answers.
    fn run(&self, control: &Control) {
        let mut pause = REPLICA_RETRY_MIN;
        loop {
            let answer = match lineages(control, &self.settings, &self.directory) {
                Ok((theirs, own)) => Some(theirs.has_further_epoch(&own)),
                Err(FetchError::Stopping) => return,
                Err(error) => {
                    if self.figures.failed(ReplicaStage::Undecided, &error.to_string()) {
                        tracing::error!("no change is made: {}", self.figures.get().undecided());
                    }
                    None
                }
            };
            // Sending cannot fail, because the receiver lives longer than this thread.
            let _ = self.decision_sender.send(answer);
            self.queue.poke();
            if answer.is_some() {
                return;
            }
            control.pause(pause);
            pause = (pause * 2).min(REPLICA_RETRY_MAX);
        }
    }
}
