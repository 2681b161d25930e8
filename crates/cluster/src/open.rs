//! Opening and running a node.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use directory::{Directory, Writer};
use kafka_log::{Settings, topic_facts};
use replication::Follower;
use replication::limits::GROUP_RECORDS_MAX;

use crate::environment::{SystemRuntime, system_micros};
use crate::error::ClusterError;
use crate::event::NodeEvent;
use crate::figures::Figures;
use crate::former_members::FormerMembers;
use crate::host::{Host, LocalChange};
use crate::identity::Identity;
use crate::kafka::KafkaLog;
use crate::limits::{
    APPEND_TIMEOUT, CERTIFICATE_WARNING_DAYS, CHANGE_PATIENCE, DIGEST_INTERVAL, DIGEST_SLICE_BYTES,
    MESSAGE_OVERHEAD, SESSION_TIMEOUT, SNAPSHOT_INTERVAL,
};
use crate::node::snapshots::Schedule;
use crate::node::{Node, Parts};
use crate::settings::NodeSettings;
use crate::stage;
use crate::transport::{self, Listener, Services, TlsPeers};

/// A node that is ready to run.
pub struct Cluster {
    node: Node,
    listener: Listener,
    sender: Sender<NodeEvent>,
    figures: Arc<Figures>,
}

/// Sender of changes of this node's clients to the node's thread.
#[derive(Clone)]
pub struct Changes(Sender<NodeEvent>);

impl Changes {
    /// Passes changes to the node in order. Returns false if the node has ended.
    pub fn send(&self, changes: Vec<LocalChange>) -> bool {
        self.0.send(NodeEvent::Local(changes)).is_ok()
    }

    /// Reports that no more changes follow. The node ends after it has answered the changes received before.
    pub fn close(&self) {
        let _ = self.0.send(NodeEvent::Closed);
    }
}

/// Returns the settings of the clients of Kafka.
pub fn log_settings(settings: &NodeSettings, identity: &Identity) -> Settings {
    Settings {
        brokers: settings.brokers.clone(),
        topic: settings.topic.clone(),
        group: format!("pando-{}", identity.cluster()),
        session_timeout_ms: settings.session_timeout_ms.unwrap_or(SESSION_TIMEOUT),
        append_timeout_ms: settings.append_timeout_ms.unwrap_or(APPEND_TIMEOUT),
        properties: settings.kafka.clone(),
    }
}

/// Checks that the topic can serve as a log. Returns the size of the largest message that the topic accepts, or `None`
/// if Kafka cannot be reached at present.
///
/// # Errors
///
/// The topic does not exist, or its settings make it unsuitable.
pub fn check_topic(settings: &Settings) -> Result<Option<usize>, ClusterError> {
    let facts = match topic_facts(settings) {
        Ok(facts) => facts,
        Err(error @ kafka_log::LogError::NoTopic(_)) => return Err(error.into()),
        Err(error) => {
            tracing::warn!(%error, "the settings of the topic cannot be checked now");
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
             lose changes that were acknowledged; use 3 and 2"
        );
    }
    Ok(Some(facts.message_bytes_max))
}

impl Cluster {
    /// Opens a node. The node accepts connections of other nodes but does not run yet.
    ///
    /// # Errors
    ///
    /// See [`ClusterError`]. If Kafka cannot be reached, the node opens without an error and answers reads.
    pub fn open(
        settings: &NodeSettings,
        data: &Path,
        directory: &Arc<Directory>,
        host: Box<dyn Host>,
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
        warn_of_certificate(&identity, i64::try_from(system_micros() / 1_000_000).unwrap_or(i64::MAX));
        let incarnation = identity.next_incarnation(system_micros())?;
        let (sender, events) = channel();
        let former_members = Arc::new(FormerMembers::default());
        if let Ok(follower) = Follower::load(identity.keys()?, rows) {
            former_members.set(&follower);
        }
        let services = Services {
            config: identity.server_config()?,
            former_members: Arc::clone(&former_members),
            copies: transport::snapshot::Sender::new(Arc::downgrade(directory), data),
            keys: transport::keys::Keys(settings.keys.clone()),
            events: sender.clone(),
        };
        let listener = Listener::start(&settings.listen, services)?;
        let peers = TlsPeers::start(identity.client_config()?, incarnation, sender.clone())?;
        let figures = Arc::new(Figures::default());
        let address = settings.address.clone().unwrap_or_else(|| listener.address().to_string());
        figures.lock().address.clone_from(&address);
        let parts = Parts {
            claim_patience: Duration::from_millis(log.append_timeout_ms.into()),
            patience: settings
                .change_timeout_ms
                .map_or(CHANGE_PATIENCE, |millis| Duration::from_millis(millis.into())),
            address,
            digest_interval: match settings.compare_minutes {
                None => Some(DIGEST_INTERVAL),
                Some(0) => None,
                Some(minutes) => Some(Duration::from_secs(u64::from(minutes) * 60)),
            },
            digest_bytes_max: settings.compare_bytes.map_or(DIGEST_SLICE_BYTES, u64::from),
            group_bytes_max: message_bytes_max.saturating_sub(MESSAGE_OVERHEAD),
            group_records_max: GROUP_RECORDS_MAX,
            identity,
            directory: Arc::clone(directory),
            host,
            figures: Arc::clone(&figures),
            runtime: Box::new(SystemRuntime::new(events, sender.clone())),
            log: Box::new(KafkaLog::new(log, sender.clone())),
            peers: Box::new(peers),
            seals: settings.seal,
            snapshots: settings.snapshots.clone().map(|folder| Schedule {
                folder,
                interval: settings
                    .snapshot_minutes
                    .map_or(SNAPSHOT_INTERVAL, |minutes| Duration::from_secs(u64::from(minutes.max(1)) * 60)),
            }),
            former_members,
        };
        let node = Node::new(parts, incarnation);
        Ok(Cluster { node, listener, sender, figures })
    }

    /// Returns the state of the node for monitoring, kept up to date while it runs.
    pub fn figures(&self) -> Arc<Figures> {
        Arc::clone(&self.figures)
    }

    /// Returns a sender for changes of this node's clients.
    pub fn changes(&self) -> Changes {
        Changes(self.sender.clone())
    }

    /// Runs on this thread until [`Changes::close`] was called and all earlier changes are answered. Calls `end` with
    /// the cause if the node's data must not be served any longer.
    pub fn run(self, writer: Writer, end: &dyn Fn(&str)) {
        // The listener is dropped at the end of this function, after the node.
        let Cluster { node, listener, .. } = self;
        tracing::info!("other nodes reach this one at {}", listener.address());
        node.run(writer, end);
    }
}

/// Warns if the end of the node's certificate is near. Other nodes refuse the certificate after its end.
fn warn_of_certificate(identity: &Identity, now_seconds: i64) {
    const DAY: i64 = 86_400;
    let Some(end) = identity.certificate_end() else { return };
    let days = (end - now_seconds).div_euclid(DAY);
    if days < CERTIFICATE_WARNING_DAYS {
        let node = identity.node();
        tracing::warn!(
            "the certificate of {node} for other nodes ends in {days} days: `pando cluster renew` makes a new one"
        );
    }
}
