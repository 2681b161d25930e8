//! The server as the host of a cluster node. The node's thread runs in place of the writer's loop and receives the
//! changes in the writer's queue. The node itself is in the crate `cluster`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use cluster::{
    Answer, ChangeTimes, Changes, Cluster, ClusterError, DecidedForOther, Host, LocalChange, LocalWork,
    MessageContext, NodeSettings, TransactionChange,
};
use directory::account_update::AccountUpdate;
use directory::rows::EntryId;
use directory::{ClientLink, Directory, Outcome, Requester, WriteBatch, Writer};
use ldap::ResultCode;

use crate::config::ClusterSettings;
use crate::stamp::{Random, micros_since, now_micros};
use crate::telemetry::counters::Operation;
use crate::telemetry::health::Health;
use crate::telemetry::operation_event::kind_of;
use crate::telemetry::traces::{ChangeStages, TraceFeed, TraceLink, TracedOperation, spans_of};
use crate::workers::index_upkeep::Upkeep;
use crate::workers::read_age::ReadAge;
use crate::workers::writer::{
    self, ChangeContext, WriteQueue, WriteRequest, WriterWork, execute_message, execute_transaction,
    forwarded_passwords, prepared_passwords, update_account,
};

/// Converts the server's settings of the cluster to the settings of the node.
pub(crate) fn node_settings(settings: &ClusterSettings) -> NodeSettings {
    NodeSettings {
        brokers: settings.brokers.clone(),
        topic: settings.topic.clone(),
        listen: settings.listen.clone(),
        address: settings.address.clone(),
        keys: settings.keys.clone(),
        session_timeout_ms: settings.session_timeout_ms,
        append_timeout_ms: settings.append_timeout_ms,
        change_timeout_ms: settings.change_timeout_ms,
        compare_minutes: settings.compare_minutes,
        compare_bytes: settings.compare_bytes,
        seal: settings.seal,
        snapshots: settings.snapshots.clone(),
        snapshot_minutes: settings.snapshot_minutes,
        kafka: (settings.kafka.iter())
            .map(|(name, value)| (name.clone(), String::from_utf8_lossy(&value.0).into_owned()))
            .collect(),
    }
}

/// Opens the cluster node of a data directory.
///
/// # Errors
/// The same as those of [`Cluster::open`].
pub(crate) fn open(
    settings: &ClusterSettings,
    data: &Path,
    directory: &Arc<Directory>,
    parts: HostParts,
) -> Result<Cluster, ClusterError> {
    let host = ServerHost { parts, random: Random::default(), upkeep: Upkeep::default() };
    Cluster::open(&node_settings(settings), data, directory, Box::new(host))
}

/// Runs a node on this thread until the queue is closed and empty. A second thread takes the changes from the queue.
/// Calls `end` if the node's data must no longer be served.
pub(crate) fn run(
    cluster: Cluster,
    writer: Writer,
    queue: &Arc<WriteQueue>,
    health: &Health,
    end: &dyn Fn(),
) {
    let changes = cluster.changes();
    std::thread::scope(|scope| {
        scope.spawn(|| take_changes(queue, &changes));
        let end = |cause: &str| {
            health.stop_changes(cause);
            end();
        };
        if catch_unwind(AssertUnwindSafe(|| cluster.run(writer, &end))).is_err() {
            health.stop_changes("a defect was met in the node's thread");
        }
    });
    // After a fault the queue may contain changes, and further changes may arrive. Refuse all of them.
    queue.refuse_all();
}

/// Takes changes from the queue and sends them to the node's thread.
fn take_changes(queue: &Arc<WriteQueue>, changes: &Changes) {
    let mut requests = Vec::new();
    while queue.take_changes(&mut requests) {
        let local = requests.drain(..).map(|request| local_change(queue, request)).collect();
        if !changes.send(local) {
            return;
        }
    }
    changes.close();
}

fn local_change(queue: &Arc<WriteQueue>, request: WriteRequest) -> LocalChange {
    let WriteRequest {
        address,
        requester,
        change,
        passwords,
        reservation,
        origin,
        keeps_old_values,
        link,
        ..
    } = request;
    let (work, account) = match change {
        WriterWork::Message(mut message) => (LocalWork::Message(std::mem::take(&mut *message)), None),
        WriterWork::Transaction(changes) => {
            (LocalWork::Transaction(changes.into_iter().map(local_part).collect()), None)
        }
        WriterWork::Account { id, grace, totp_step } => {
            (LocalWork::Account(id, queue.take_account_update(id, (grace, totp_step))), Some(id))
        }
        // Cannot occur. The settings do not permit a node to follow another server, and a node neither has replicas nor
        // is a replica.
        WriterWork::Follow(_)
        | WriterWork::ForwardedAccount(..)
        | WriterWork::Fence(_)
        | WriterWork::Promote { .. } => (LocalWork::Message(Vec::new()), None),
    };
    let queue = Arc::clone(queue);
    let reply = move |answer: Answer| {
        drop(reservation);
        if let Some(id) = account {
            let code = answer.outcome.code;
            let is_recorded = code == ResultCode::SUCCESS || code == ResultCode::INVALID_CREDENTIALS;
            queue.settle_account(id, is_recorded);
        } else {
            queue.note_due(address, &answer.outcome);
        }
        let Answer { outcome, value, position, positions, times } = answer;
        let stages = times.map(|times| match times {
            ChangeTimes::Decided(times) => ChangeStages::of_node(times),
            ChangeTimes::Forwarded(operation, times) => ChangeStages::forwarded(operation, times),
        });
        queue.answer(address, writer::Answer { outcome, value, position, positions, stages });
    };
    let passwords = forwarded_passwords(passwords);
    LocalChange { requester, link, work, passwords, origin, keeps_old_values, reply: Box::new(reply) }
}

/// Parts of the server that the node needs.
pub(crate) struct HostParts {
    pub(crate) queue: Arc<WriteQueue>,
    /// The maximum age of the data that this node returns. `None` if the settings contain no maximum age.
    pub(crate) read_age: Option<Arc<ReadAge>>,
    /// The queue of operations to trace. Only set if the settings contain a receiver.
    pub(crate) traces: Option<Arc<TraceFeed>>,
    /// Generation of the data. All nodes derive the same trace ids from it.
    pub(crate) generation: [u8; 16],
}

/// The services of the server that the node uses.
struct ServerHost {
    parts: HostParts,
    random: Random,
    upkeep: Upkeep,
}

impl Host for ServerHost {
    fn execute(
        &mut self,
        batch: &mut WriteBatch<'_>,
        requester: &Requester,
        message: &[u8],
        context: MessageContext<'_>,
    ) -> Answer {
        let MessageContext { passwords, link, origin, keeps_old_values } = context;
        let given =
            ChangeContext { passwords: prepared_passwords(passwords), link, origin, keeps_old_values };
        node_answer(execute_message(batch, requester, message, given, &mut self.random))
    }

    fn execute_transaction(
        &mut self,
        batch: &mut WriteBatch<'_>,
        requester: &Requester,
        changes: &[TransactionChange],
        link: Option<ClientLink>,
        keeps_old_values: bool,
    ) -> Answer {
        let changes = changes.iter().map(|TransactionChange { message, passwords, origin }| {
            (message.as_slice(), prepared_passwords(passwords.clone()), origin.as_deref())
        });
        let random = &mut self.random;
        node_answer(execute_transaction(batch, requester, changes, (link, keeps_old_values), random))
    }

    fn update_account(&mut self, batch: &mut WriteBatch<'_>, id: EntryId, update: &AccountUpdate) -> Outcome {
        update_account(batch, id, update, &mut self.random)
    }

    fn unrecorded_accounts(&mut self) -> Vec<(EntryId, AccountUpdate)> {
        let accounts = self.parts.queue.unrecorded_accounts().into_iter();
        accounts.map(|id| (id, self.parts.queue.take_account_update(id, (None, None)))).collect()
    }

    fn decided_for_other(&mut self, change: &DecidedForOther<'_>) {
        let Some(traces) = &self.parts.traces else { return };
        let took_micros = micros_since(change.since);
        let (link, is_slow) =
            (TraceLink::of(&self.parts.generation, change.operation), traces.is_slow(took_micros));
        if (is_slow || traces.samples_link(&link)) && traces.has_room() {
            let operation = change.message.and_then(ldap::operation_of).and_then(Operation::of);
            let ChangeStages { stages, .. } = ChangeStages::of_node(change.times);
            traces.push(TracedOperation {
                name: kind_of(operation.unwrap_or(Operation::EXTENDED)).name(),
                started_micros: now_micros().saturating_sub(took_micros),
                took_micros,
                code: change.code.0,
                stages: spans_of(change.since, &stages),
                received: Some(link),
                is_slow,
                ..TracedOperation::default()
            });
        }
    }

    fn committed(&mut self) {
        self.parts.queue.committed();
    }

    fn is_complete_as_of(&mut self, at: Instant) {
        if let Some(age) = &self.parts.read_age {
            age.is_complete_as_of(at);
        }
    }

    fn maintenance_patience(&self, writer: &Writer) -> Option<std::time::Duration> {
        self.upkeep.patience(writer)
    }

    fn is_maintenance_due(&mut self, writer: &Writer) -> bool {
        self.upkeep.is_due(writer)
    }

    fn run_maintenance(&mut self, writer: &mut Writer) {
        self.upkeep.run(writer);
    }
}

fn local_part(change: writer::TransactionChange) -> TransactionChange {
    let writer::TransactionChange { mut message, passwords, origin } = change;
    TransactionChange {
        message: std::mem::take(&mut *message),
        passwords: forwarded_passwords(passwords),
        origin,
    }
}

fn node_answer(answer: writer::Answer) -> Answer {
    let writer::Answer { outcome, value, position, positions, .. } = answer;
    Answer { outcome, value, position, positions, times: None }
}
