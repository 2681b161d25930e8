//! The table `[cluster]` of a node file: the settings of a node of a cluster.

mod kafka_security;

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::config::values::{FromText, KafkaProperty, SaslMechanism};
use crate::config::{ConfigError, Secret};

/// The keys of the table `[cluster]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClusterKeys {
    pub(crate) brokers: Option<String>,
    pub(crate) topic: Option<String>,
    pub(crate) listen: Option<String>,
    pub(crate) address: Option<String>,
    pub(crate) keys: Option<PathBuf>,
    pub(crate) session_timeout_ms: Option<u32>,
    pub(crate) append_timeout_ms: Option<u32>,
    pub(crate) change_timeout_ms: Option<u32>,
    pub(crate) compare_minutes: Option<u32>,
    pub(crate) compare_bytes: Option<NonZeroU32>,
    pub(crate) read_age_seconds: Option<NonZeroU32>,
    pub(crate) seal: Option<bool>,
    pub(crate) snapshots: Option<PathBuf>,
    pub(crate) snapshot_minutes: Option<u32>,
    pub(crate) kafka_tls: Option<bool>,
    pub(crate) kafka_ca: Option<PathBuf>,
    pub(crate) kafka_certificate: Option<PathBuf>,
    pub(crate) kafka_key: Option<PathBuf>,
    pub(crate) kafka_sasl: Option<FromText<SaslMechanism>>,
    pub(crate) kafka_user: Option<String>,
    pub(crate) kafka_password_file: Option<PathBuf>,
    pub(crate) kafka: Option<Vec<FromText<KafkaProperty>>>,
}

/// Settings of a node of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSettings {
    /// `host:port` of some Kafka brokers, separated by commas.
    pub brokers: String,
    /// Kafka topic that contains the log of the cluster.
    pub topic: String,
    /// Address for connections from other nodes, as `host:port`.
    pub listen: String,
    /// Address at which other nodes reach this node, if it differs from `listen`.
    pub address: Option<String>,
    /// Folder with the node's identity.
    pub keys: PathBuf,
    /// Time without a message from the writer after which another node becomes the writer, in milliseconds.
    pub session_timeout_ms: Option<u32>,
    /// Time for which an append is retried, in milliseconds.
    pub append_timeout_ms: Option<u32>,
    /// Time for which a change waits for a writer before its client receives `unavailable`, in milliseconds.
    pub change_timeout_ms: Option<u32>,
    /// Interval at which the writer starts a comparison of a data slice on all nodes, in minutes; 0 for never.
    pub compare_minutes: Option<u32>,
    /// Maximum size of a comparison slice, in octets of rows.
    pub compare_bytes: Option<u32>,
    /// Maximum age of the data that this node returns; `None` for any age.
    pub read_age: Option<Duration>,
    /// Whether this node encrypts the groups of records that it writes to the cluster's log.
    pub seal: bool,
    /// Folder for the snapshots that this node makes at intervals; `None` if it makes none.
    pub snapshots: Option<PathBuf>,
    /// Interval at which this node makes snapshots, in minutes.
    pub snapshot_minutes: Option<u32>,
    /// Names and values of further settings of the Kafka clients.
    pub kafka: Vec<(String, Secret)>,
    /// Whether the node file itself contains Kafka settings, which may include a secret.
    pub is_kafka_given: bool,
    /// Files with secrets for authentication to the brokers.
    pub secret_files: Vec<PathBuf>,
}

impl ClusterKeys {
    /// Returns the keys of the table that are paths.
    pub(super) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let own = [&mut self.keys, &mut self.kafka_ca, &mut self.kafka_certificate, &mut self.kafka_key];
        own.into_iter().chain([&mut self.kafka_password_file, &mut self.snapshots]).flatten()
    }
}

impl ClusterSettings {
    /// Default folder of the node's identity, relative to its data directory.
    const FOLDER: &str = "cluster";
    /// Default topic.
    const TOPIC: &str = "pando";

    pub(super) fn of(keys: ClusterKeys, data: &Path) -> Result<ClusterSettings, ConfigError> {
        let security = kafka_security::properties(&keys)?;
        let secret_files = [keys.kafka_key, keys.kafka_password_file].into_iter().flatten().collect();
        let is_kafka_given = keys.kafka.as_ref().is_some_and(|given| !given.is_empty());
        let given = keys.kafka.unwrap_or_default().into_iter();
        let given = given.map(|FromText(KafkaProperty((name, value)))| (name, Secret(value.into_bytes())));
        Ok(ClusterSettings {
            kafka: security.into_iter().chain(given).collect(),
            brokers: keys.brokers.ok_or(ConfigError::ClusterKey("brokers"))?,
            topic: keys.topic.unwrap_or_else(|| ClusterSettings::TOPIC.to_owned()),
            listen: keys.listen.ok_or(ConfigError::ClusterKey("listen"))?,
            address: keys.address,
            keys: keys.keys.unwrap_or_else(|| data.join(ClusterSettings::FOLDER)),
            session_timeout_ms: keys.session_timeout_ms,
            append_timeout_ms: keys.append_timeout_ms,
            change_timeout_ms: keys.change_timeout_ms,
            compare_minutes: keys.compare_minutes,
            compare_bytes: keys.compare_bytes.map(NonZeroU32::get),
            read_age: keys.read_age_seconds.map(|seconds| Duration::from_secs(u64::from(seconds.get()))),
            seal: keys.seal.unwrap_or(false),
            snapshots: keys.snapshots,
            snapshot_minutes: keys.snapshot_minutes,
            is_kafka_given,
            secret_files,
        })
    }
}
