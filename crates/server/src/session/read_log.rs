//! Replication: a replica reads the log and copies the data. It is bound as the administrator, or as an identity to
//! which an access rule grants `use of replication`.

use std::ops::ControlFlow;

use directory::virtual_entries::{COPY_DATA, READ_LOG};
use directory::{OperationError, Outcome};
use ldap::{CopyRequest, ExtendedRequest, LogRequest, ResultCode};
use replication::comparison::Report;
use replication::{Lineage, Relation};

use super::responder::Responder;
use super::start_tls::Protection;
use super::{Next, Session, Work};
use crate::limits::{COPY_PART_BYTES, LOG_BLOCK_BYTES};
use crate::session::context::Context;
use crate::workers::copies::CopyRead;
use crate::workers::log_reader::{Consumer, LogRead, wait_until};
use crate::workers::writer::WriterWork;

/// Maximum length of the name of a replica, in characters. Longer names are cut.
const NAME_CHARS_MAX: usize = 64;

impl Session {
    /// Submits a replica's request for records.
    pub(super) fn read_log(
        &mut self,
        mut to: Responder<'_>,
        request: &ExtendedRequest<'_>,
    ) -> ControlFlow<Next> {
        let admitted = self.log_read(to.context, request.value).and_then(|read| {
            self.fence_if_replaced(to.context, &read)?;
            let bytes = read.bytes_max;
            let submitted = to.context.shared.log_reader.submit(read);
            submitted.map(|()| bytes).map_err(|error| Outcome::new(ResultCode::BUSY, error.to_string()))
        });
        match admitted {
            Ok(bytes) => {
                // The replica decides how long the request waits.
                to.head.is_not_timed();
                self.keep(to.head, Work::Change, bytes, None);
            }
            Err(outcome) => self.answer(to, &outcome),
        }
        ControlFlow::Continue(())
    }

    /// Stops changes on this server if the replica knows a later epoch, in which another server is the writer.
    fn fence_if_replaced(&self, context: &mut Context, read: &LogRead) -> Result<(), Outcome> {
        if read.lineage.epochs().is_empty() || !context.shared.log_reader.is_same_data(&read.generation) {
            return Ok(());
        }
        let lineage = context.snapshot.lineage().map_err(OperationError::from)?;
        let own = Lineage::decode(lineage).unwrap_or_default();
        if own.judge(read.position, &read.lineage, read.position) == Relation::SupplierReplaced
            && let Some(epoch) = read.lineage.epochs().last()
        {
            let (queue, anonymous) = (&context.shared.writes, &context.anonymous);
            context.outbox.extend(queue.own_request(WriterWork::Fence(epoch.id), anonymous));
        }
        Ok(())
    }

    fn log_read(&self, context: &Context, value: Option<&[u8]>) -> Result<LogRead, Outcome> {
        self.check_may_replicate(context, READ_LOG)?;
        let malformed = || Outcome::new(ResultCode::PROTOCOL_ERROR, "the value is no request for the log");
        let decoded = value.and_then(LogRequest::decode).ok_or_else(malformed)?;
        let digest = match decoded.digest {
            [] => None,
            digest => Some(digest.try_into().map_err(|_| malformed())?),
        };
        let bytes_max = usize::try_from(decoded.bytes_max).unwrap_or(LOG_BLOCK_BYTES).min(LOG_BLOCK_BYTES);
        Ok(LogRead {
            address: self.address(context),
            generation: decoded.generation,
            position: decoded.position,
            digest,
            report: match decoded.comparison {
                [] => None,
                report => Some(Report::decode(report).ok_or_else(malformed)?),
            },
            lineage: Lineage::decode(decoded.lineage).ok_or_else(malformed)?,
            bytes_max,
            until: wait_until(context.now, decoded.wait_ms),
            consumer: Consumer {
                name: decoded.name.chars().filter(|char| !char.is_control()).take(NAME_CHARS_MAX).collect(),
                who: self.requester.dn().to_owned(),
                position: decoded.position,
            },
        })
    }

    /// Submits a replica's request for a part of a copy of the data.
    pub(super) fn copy_data(
        &mut self,
        mut to: Responder<'_>,
        request: &ExtendedRequest<'_>,
    ) -> ControlFlow<Next> {
        let admitted = self.copy_read(to.context, request.value).and_then(|read| {
            match to.context.shared.copies.submit(read) {
                Ok(true) => Ok(()),
                Ok(false) => {
                    Err(Outcome::new(ResultCode::BUSY, "too many replicas copy the data: try again"))
                }
                Err(error) => {
                    Err(Outcome::new(ResultCode::BUSY, format!("the system gives no thread: {error}")))
                }
            }
        });
        match admitted {
            Ok(()) => {
                to.head.is_not_timed();
                self.keep(to.head, Work::Change, COPY_PART_BYTES, None);
            }
            Err(outcome) => self.answer(to, &outcome),
        }
        ControlFlow::Continue(())
    }

    fn copy_read(&self, context: &Context, value: Option<&[u8]>) -> Result<CopyRead, Outcome> {
        self.check_may_replicate(context, COPY_DATA)?;
        let decoded = value.and_then(CopyRequest::decode).ok_or_else(|| {
            Outcome::new(ResultCode::PROTOCOL_ERROR, "the value is no request for a copy of the data")
        })?;
        Ok(CopyRead { address: self.address(context), copy: decoded.copy.to_vec(), offset: decoded.offset })
    }

    /// Checks that the requester may replicate this server. That is a strong right, because the log contains
    /// everything, including password hashes.
    pub(super) fn check_may_replicate(&self, context: &Context, operation: &str) -> Result<(), Outcome> {
        let refused = |code, text: &str| Err(Outcome::new(code, text));
        if !context.snapshot.may_use(&self.request_context(context), operation)? {
            let text = "the log is for the administrator, and for whom a rule allows the use of replication";
            return refused(ResultCode::INSUFFICIENT_ACCESS_RIGHTS, text);
        }
        let is_bare = match &self.protection {
            Protection::None(address) => !address.to_canonical().is_loopback(),
            Protection::Proxied(_) => true,
            Protection::Kernel | Protection::Console(_) | Protection::Tls(_) => false,
        };
        if is_bare {
            let text = "the log contains passwords, so it goes over TLS alone, except to this machine";
            return refused(ResultCode::CONFIDENTIALITY_REQUIRED, text);
        }
        match context.snapshot.is_node()? {
            true => {
                let text = "this is a node of a cluster: other machines join the cluster, they do not replicate a node";
                refused(ResultCode::UNWILLING_TO_PERFORM, text)
            }
            false => Ok(()),
        }
    }
}
