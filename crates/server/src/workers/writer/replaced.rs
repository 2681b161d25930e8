//! A writer that another server has replaced. It refuses changes unless it is promoted again.

use directory::replica::ReplicationRole;
use directory::{OperationError, Outcome, WriteBatch, Writer};
use ldap::ResultCode;
use replication::{FenceAnswer, Lineage};

use super::{Fetched, WriteQueue, WriteRequest, WriterWork};
use crate::stamp::{Random, no_random_numbers};
use crate::telemetry::health::Health;

/// Diagnostic message of a writer that was replaced.
const REPLACED: &str = "this server was replaced: another one was promoted, and takes changes";

/// Records in a batch that another server begins an epoch, so that this server stops writing. An earlier request of the
/// batch may have made this server stop already.
pub(super) fn fence(batch: &mut WriteBatch<'_>, epoch: [u8; 16]) -> Outcome {
    match fence_answer(batch, epoch) {
        Ok(FenceAnswer::Stops) => {
            let stopped = batch.put_role(&ReplicationRole::Replaced { epoch });
            stopped.map_or_else(Outcome::from, |()| Outcome::success())
        }
        Ok(FenceAnswer::Unchanged) => Outcome::success(),
        Ok(FenceAnswer::Refused) => Outcome::new(ResultCode::UNAVAILABLE, REPLACED),
        Err(error) => error.into(),
    }
}

fn fence_answer(batch: &WriteBatch<'_>, epoch: [u8; 16]) -> Result<FenceAnswer, OperationError> {
    let replaced_by = match batch.replication_role()? {
        ReplicationRole::Replaced { epoch } => Some(epoch),
        _ => None,
    };
    Ok(Lineage::decode(&batch.lineage()?).unwrap_or_default().fence(replaced_by, epoch))
}

/// Returns true if an encoded lineage contains an epoch with this name.
pub(crate) fn knows(lineage: &[u8], epoch: [u8; 16]) -> bool {
    Lineage::decode(lineage).is_some_and(|lineage| lineage.epochs().iter().any(|own| own.id == epoch))
}

/// Returns true if the batch contains a request to stop writing.
pub(super) fn has_fence(batch: &[WriteRequest]) -> bool {
    batch.iter().any(|request| matches!(request.change, WriterWork::Fence(_)))
}

/// Returns true if another server is the writer.
pub(super) fn is_replaced(writer: &Writer) -> bool {
    writer.replication_role().is_ok_and(|role| !role.may_write())
}

/// Returns the outcome of a promotion of a server that already is the writer.
pub(super) fn no_replica() -> Outcome {
    Outcome::new(ResultCode::UNWILLING_TO_PERFORM, "this server is no replica: it decides changes already")
}

/// Makes a server the writer, in the epoch with this name. Returns the number of the epoch.
///
/// # Errors
/// The store failed, or there were too many promotions.
pub(crate) fn promote(writer: &mut Writer, epoch: [u8; 16], supplier: &str) -> Result<u64, OperationError> {
    let (position, lineage) = writer.place_in_lineage()?;
    let own = Lineage::decode(&lineage).unwrap_or_default();
    let promoted = own.promoted(position, epoch).ok_or_else(|| {
        OperationError::refused(ResultCode::ADMIN_LIMIT_EXCEEDED, "there were too many promotions")
    })?;
    writer.promote(&promoted.encode(), supplier)?;
    let number = promoted.number();
    tracing::warn!(
        "this server was promoted: it decides changes from position {} on, in epoch {number}",
        position + 1
    );
    Ok(number)
}

/// Refuses changes until the queue is closed and empty. If a promotion makes this server the writer again, runs the
/// writer.
pub(crate) fn run(mut writer: Writer, queue: &WriteQueue, health: &Health, mut backlog: Vec<WriteRequest>) {
    queue.decides(false);
    tracing::error!("another server was promoted: this one makes no changes any longer");
    loop {
        let mut requests = std::mem::take(&mut backlog).into_iter();
        while let Some(request) = requests.next() {
            if let WriterWork::Promote { without_supplier: true } = request.change {
                let promoted = match Random::default().bytes() {
                    Ok(epoch) => promote(&mut writer, epoch, "").map_err(Outcome::from),
                    Err(error) => Err(no_random_numbers(error)),
                };
                let outcome = promoted.as_ref().map_or_else(Clone::clone, |_| Outcome::success());
                queue.answer(request.address, outcome.into());
                if promoted.is_ok() {
                    queue.submit(&mut requests.collect());
                    return super::run(writer, queue, health);
                }
                continue;
            }
            match request.change {
                WriterWork::Account { id, .. } => queue.settle_account(id, false),
                // The new writer repeats its request if it did not receive the answer.
                WriterWork::Fence(epoch)
                    if writer
                        .replication_role()
                        .is_ok_and(|role| role == ReplicationRole::Replaced { epoch }) =>
                {
                    queue.answer(request.address, Outcome::success().into());
                    continue;
                }
                _ => {}
            }
            queue.answer(request.address, Outcome::new(ResultCode::UNAVAILABLE, REPLACED).into());
        }
        if queue.fetch(&mut backlog, None) == Fetched::Closed {
            return;
        }
    }
}
