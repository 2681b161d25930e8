//! A node of a cluster: one directory on several machines, whose log is a topic of Apache Kafka.
//!
//! The protocol is the crate `replication`, the log the crate `kafka-log`. Here is the node: the thread that owns the
//! directory's writer (`node.rs`), frames between nodes (`transport.rs`), who a node is (`identity.rs`), and what it
//! says of itself (`figures.rs`). `docs/how-to/cluster.md` tells operators about it.

mod budget;
pub(crate) mod figures;
mod gone;
mod growth;
pub(crate) mod identity;
mod node;
mod operation;
pub(crate) mod stage;
pub(crate) mod transport;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use directory::{Directory, Writer};
use kafka_log::{Message, Settings, topic_facts};
use replication::digest::Parts as DigestParts;
use replication::forward::Answer;
use replication::{Follower, PlannedSlice};

use crate::config::ClusterSettings;
use crate::limits::{
    CLUSTER_APPEND_TIMEOUT, CLUSTER_CERTIFICATE_WARNING_DAYS, CLUSTER_CHANGE_PATIENCE,
    CLUSTER_DIGEST_INTERVAL, CLUSTER_DIGEST_SLICE_BYTES, CLUSTER_MESSAGE_OVERHEAD, CLUSTER_SESSION_TIMEOUT,
    CLUSTER_SNAPSHOT_INTERVAL,
};
use crate::stamp::now_seconds;
use crate::telemetry::health::Health;
use crate::workers::read_age::ReadAge;
use crate::workers::writer::{WriteQueue, WriteRequest};
use figures::Figures;
use gone::Gone;
use identity::keys::NumberedKey;
use identity::{Identity, IdentityError};
use node::snapshots::Schedule;
pub(crate) use node::snapshots::{Verified, verify};
use node::{Node, Parts};
use transport::{Forwarder, Frame, Host, Listener};

/// Why a node cannot take part in its cluster.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// Its folder is of no use.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Kafka cannot be used.
    #[error(transparent)]
    Log(#[from] kafka_log::LogError),
    /// The topic is not fit to be a log.
    #[error("the topic {topic:?} is not fit to be a log: {}", problems.join("; "))]
    Topic {
        /// Its name.
        topic: String,
        /// Each reason.
        problems: Vec<String>,
    },
    /// A port cannot be listened on, or the system gives no thread.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The directory cannot be read.
    #[error(transparent)]
    Directory(#[from] directory::OperationError),
    /// What is asked cannot be done.
    #[error("{0}")]
    Refused(String),
}

/// What reaches the node's thread.
enum NodeEvent {
    /// Changes of this node's clients.
    Local(Vec<WriteRequest>),
    /// There will be no more of them.
    Closed,
    /// Changes of another node's clients.
    Frame(Frame),
    /// What the writer says to the frame of this number.
    Answers(u64, Result<Vec<Answer>, String>),
    /// From the log; the number of the reader.
    Log(u64, kafka_log::Event),
    /// What stands in the log where this node stopped.
    LogPlace(Result<LogPlace, String>),
    /// The offset of a snapshot that this node made by itself.
    SnapshotMade(Result<u64, String>),
    /// Where the log begins now.
    Trimmed(Result<u64, String>),
    /// Keys of the cluster, from another node.
    Keys(Result<Vec<NumberedKey>, String>),
    /// The slice to compare next.
    SlicePlanned(Result<PlannedSlice, String>),
    /// What this node has at a mark.
    Digested(u64, Result<DigestParts, String>),
    /// Where the writer of an epoch is reached.
    WriterAddress(u64, Option<String>),
}

/// What stands in the log where a node stopped.
struct LogPlace {
    follower: Box<Follower>,
    message: Option<Message>,
    start: u64,
    end: u64,
}

/// A node that is about to run.
pub(crate) struct Cluster {
    node: Node,
    listener: Listener,
    sender: Sender<NodeEvent>,
    figures: Arc<Figures>,
}

/// How Kafka is reached, by the settings of a node.
pub(crate) fn log_settings(settings: &ClusterSettings, identity: &Identity) -> Settings {
    let millis = |given: Option<u32>, default| given.unwrap_or(default);
    Settings {
        brokers: settings.brokers.clone(),
        topic: settings.topic.clone(),
        group: format!("pando-{}", identity.cluster()),
        session_timeout_ms: millis(settings.session_timeout_ms, CLUSTER_SESSION_TIMEOUT),
        append_timeout_ms: millis(settings.append_timeout_ms, CLUSTER_APPEND_TIMEOUT),
        properties: (settings.kafka.iter())
            .map(|(name, value)| (name.clone(), String::from_utf8_lossy(&value.0).into_owned()))
            .collect(),
    }
}

/// That the topic is fit to be a log, and the largest message it takes. `None` where Kafka cannot be asked now.
///
/// # Errors
/// It is not.
pub(crate) fn check_topic(settings: &Settings) -> Result<Option<usize>, ClusterError> {
    let facts = match topic_facts(settings) {
        Ok(facts) => facts,
        Err(error @ kafka_log::LogError::NoTopic(_)) => return Err(error.into()),
        Err(error) => {
            tracing::warn!(%error, "the topic is not looked at now");
            return Ok(None);
        }
    };
    let problems = facts.problems();
    if !problems.is_empty() {
        return Err(ClusterError::Topic { topic: settings.topic.clone(), problems });
    }
    if facts.replicas_min < 2 {
        let (replicas, in_sync) = (facts.replicas, facts.replicas_min);
        tracing::warn!(
            "the topic has {replicas} replicas and min.insync.replicas {in_sync}: the loss of one broker's disk can \
             lose changes that were answered; 3 and 2 are what a cluster wants"
        );
    }
    Ok(Some(facts.message_bytes_max))
}

impl Cluster {
    /// Puts a node together: it listens for others, and does not run yet.
    ///
    /// # Errors
    /// See [`ClusterError`]. That Kafka cannot be reached is none: the node answers reads.
    pub(crate) fn open(
        settings: &ClusterSettings,
        data: &Path,
        directory: &Arc<Directory>,
        queue: &Arc<WriteQueue>,
        read_age: Option<Arc<ReadAge>>,
    ) -> Result<Cluster, ClusterError> {
        stage::refuse_unfinished(data)?;
        let identity = Identity::open(&settings.keys)?;
        let rows = directory.log_rows()?;
        if rows.is_empty() {
            let text =
                "this data directory is not that of a node: `pando cluster init` or `join` makes it one";
            return Err(ClusterError::Refused(text.to_owned()));
        }
        let log = log_settings(settings, &identity);
        let message_bytes_max = check_topic(&log)?.unwrap_or(kafka_log::MESSAGE_BYTES_DEFAULT);
        if let Some(cause) = identity.diverged() {
            return Err(ClusterError::Refused(cause));
        }
        warn_of_certificate(&identity, now_seconds());
        let incarnation = identity.next_incarnation()?;
        let (sender, events) = channel();
        let gone = Arc::new(Gone::default());
        if let Ok(follower) = Follower::load(identity.keys()?, rows) {
            gone.set(&follower);
        }
        let host = Host {
            config: identity.server_config()?,
            gone: Arc::clone(&gone),
            copies: transport::snapshot::Sender::new(Arc::downgrade(directory), data),
            keys: transport::keys::Keys(settings.keys.clone()),
            events: sender.clone(),
        };
        let listener = Listener::start(&settings.listen, host)?;
        let client = identity.client_config()?;
        let forwarder = Forwarder::start(Arc::clone(&client), incarnation, sender.clone())?;
        let figures = Arc::new(Figures::default());
        let address = settings.address.clone().unwrap_or_else(|| listener.address().to_string());
        figures.lock().address.clone_from(&address);
        let parts = Parts {
            settings: log,
            patience: settings
                .change_timeout_ms
                .map_or(CLUSTER_CHANGE_PATIENCE, |millis| Duration::from_millis(millis.into())),
            address,
            digest_interval: match settings.compare_minutes {
                None => Some(CLUSTER_DIGEST_INTERVAL),
                Some(0) => None,
                Some(minutes) => Some(Duration::from_secs(u64::from(minutes) * 60)),
            },
            digest_bytes_max: settings.compare_bytes.map_or(CLUSTER_DIGEST_SLICE_BYTES, u64::from),
            group_bytes_max: message_bytes_max.saturating_sub(CLUSTER_MESSAGE_OVERHEAD),
            identity,
            directory: Arc::clone(directory),
            queue: Arc::clone(queue),
            figures: Arc::clone(&figures),
            events,
            sender: sender.clone(),
            forwarder,
            client,
            seals: settings.seal,
            read_age,
            snapshots: settings.snapshots.clone().map(|folder| Schedule {
                folder,
                interval: settings.snapshot_minutes.map_or(CLUSTER_SNAPSHOT_INTERVAL, |minutes| {
                    Duration::from_secs(u64::from(minutes.max(1)) * 60)
                }),
            }),
            gone,
        };
        let node = Node::new(parts, incarnation);
        Ok(Cluster { node, listener, sender, figures })
    }

    /// What the node says of itself.
    pub(crate) fn figures(&self) -> Arc<Figures> {
        Arc::clone(&self.figures)
    }

    /// Runs until the queue is closed and empty, on this thread and one that takes changes from the queue.
    /// `end` ends the server: its data must not be served.
    pub(crate) fn run(self, writer: Writer, queue: &WriteQueue, health: &Health, end: &dyn Fn()) {
        let Cluster { node, listener, sender, .. } = self;
        tracing::info!("other nodes reach this one at {}", listener.address());
        std::thread::scope(|scope| {
            scope.spawn(|| take_changes(queue, &sender));
            let end = |cause: &str| {
                health.stop_changes(cause);
                end();
            };
            if catch_unwind(AssertUnwindSafe(|| node.run(writer, &end))).is_err() {
                health.stop_changes("a defect was met in the node's thread");
            }
        });
        // Whatever is left, or still comes, after a defect.
        queue.refuse_all();
    }
}

/// Passes the changes of the queue on to the node's thread.
fn take_changes(queue: &WriteQueue, sender: &Sender<NodeEvent>) {
    loop {
        let mut requests = Vec::new();
        let event = match queue.take_changes(&mut requests) {
            true => NodeEvent::Local(requests),
            false => NodeEvent::Closed,
        };
        let is_last = matches!(event, NodeEvent::Closed);
        if sender.send(event).is_err() || is_last {
            return;
        }
    }
}

/// Warns of the end of the node's certificate, after which other nodes refuse it.
fn warn_of_certificate(identity: &Identity, now_seconds: i64) {
    const DAY: i64 = 86_400;
    let Some(end) = identity.certificate_end() else { return };
    let days = (end - now_seconds).div_euclid(DAY);
    if days < CLUSTER_CERTIFICATE_WARNING_DAYS {
        let node = identity.node();
        tracing::warn!(
            "the certificate of {node} for other nodes ends in {days} days: `pando cluster renew` makes a new one"
        );
    }
}
