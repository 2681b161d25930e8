//! Creation of the first node and of further nodes of a cluster.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use cluster::identity::Identity;
use cluster::identity::keys::NumberedKey;
use cluster::transport::{keys, snapshot};
use cluster::{ClusterError, check_topic, log_settings};
use directory::replicated::{copy_node, take_copy};
use kafka_log::{Appender, Event, create_topic, fetch, topic_facts};
use replication::message::{Generation, encode_generation};
use replication::{FIRST_KEY, Follower, NodeId, RowChange};
use rustls::ClientConfig;

use crate::admin::ownership::FolderOwner;
use crate::cluster_host::node_settings;
use crate::config::{ClusterSettings, Config};
use crate::error::ServeError;
use crate::open::Opened;

/// Maximum time to append a message to the cluster's log or to read one.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Folder in the data directory for a copy that is being received.
const INCOMING: &str = "copy-being-received";

/// Result of creating the first node.
#[derive(Debug)]
pub struct Initialized {
    /// Folder with the keys of the node's identity.
    pub keys: std::path::PathBuf,
    /// Whether the command created the topic.
    pub has_created_topic: bool,
    /// Position of the data with which the cluster begins.
    pub position: u64,
    /// Password of the administrator, if one was generated. The caller must show it once.
    pub generated_password: Option<String>,
}

pub(super) fn settings_of(config: &Config) -> Result<ClusterSettings, ServeError> {
    let text = "the node file has no table [cluster]: give one with --node FILE";
    config.cluster.clone().ok_or_else(|| ClusterError::Refused(text.to_owned()).into())
}

pub(super) fn refused(text: impl Into<String>) -> ServeError {
    ClusterError::Refused(text.into()).into()
}

/// Makes a data directory the first node of a new cluster. Creates the directory and the topic if they do not exist.
/// `replicas` is the number of replicas of a new topic.
///
/// # Errors
/// The directory is in use or is already a node, Kafka cannot be used, or the topic is not suitable or not empty.
pub fn init_cluster(config: Config, replicas: usize) -> Result<Initialized, ServeError> {
    let _owner = FolderOwner::of(&config.data);
    let settings = settings_of(&config)?;
    // The directory is opened first. If a server is running in it, nothing is created.
    let mut opened = Opened::open(Config { cluster: None, ..config })?;
    let generated_password = opened.generated_password().map(str::to_owned);
    let identity = Identity::create(&settings.keys).map_err(ClusterError::from)?;
    let outcome = begin(&mut opened, &settings, &identity, replicas);
    match outcome {
        Ok((has_created_topic, position)) => {
            Ok(Initialized { keys: settings.keys, has_created_topic, position, generated_password })
        }
        Err(error) => {
            // Removing the identity allows the command to be repeated.
            identity.discard();
            Err(error)
        }
    }
}

fn begin(
    opened: &mut Opened,
    settings: &ClusterSettings,
    identity: &Identity,
    replicas: usize,
) -> Result<(bool, u64), ServeError> {
    let log = log_settings(&node_settings(settings), identity);
    let failed = |error: kafka_log::LogError| ServeError::from(ClusterError::from(error));
    let has_created_topic = match topic_facts(&log) {
        Ok(_) => false,
        Err(kafka_log::LogError::NoTopic(_)) => {
            create_topic(&log, replicas).map_err(failed)?;
            true
        }
        Err(error) => return Err(failed(error)),
    };
    check_topic(&log)?;
    let (_, start, end) = fetch(&log, 0, PATIENCE).map_err(failed)?;
    if (start, end) != (0, 0) {
        let topic = &log.topic;
        return Err(refused(format!(
            "the topic {topic:?} has messages: it is the log of a cluster already, or of others"
        )));
    }
    let position = opened.directory().facts()?.position;
    let keys = identity.keys().map_err(ClusterError::from)?;
    let (writer, random) = opened.writer();
    let id = random.bytes()?;
    let generation = Generation { follows: [0; 16], position };
    let (message, tag) = encode_generation(&keys, FIRST_KEY, &id, &generation);
    let offset = append(&log, &message)?;
    // Kafka does not report the id of a topic to clients. Therefore the id of the generation is used in its place.
    let (_, rows) = Follower::seed((keys, FIRST_KEY), id, id, &generation, offset, tag);
    let rows: Vec<_> = rows.iter().map(|RowChange { key, value }| (&**key, value.as_deref())).collect();
    writer.apply_group(1, [], &rows)?;
    Ok((has_created_topic, position))
}

/// Appends one message. Returns its offset.
pub(super) fn append(log: &kafka_log::Settings, message: &[u8]) -> Result<u64, ServeError> {
    let (sender, events) = channel();
    let sink = Arc::new(move |event| drop(sender.send(event)));
    let appender = Appender::start(log, sink).map_err(ClusterError::from)?;
    appender.append(0, b"", message);
    while let Ok(event) = events.recv_timeout(PATIENCE) {
        match event {
            Event::Appended { offset, .. } => return Ok(offset),
            Event::Failed { reason, .. } => return Err(refused(format!("a message for the log: {reason}"))),
            _ => {}
        }
    }
    Err(refused("a message is not in the log in time"))
}

/// Returns an invitation for one more node, as the content of a secret file, and the number of that node. If
/// `may_invite` is set, that node may also invite nodes.
///
/// # Errors
/// This node does not have the key of the cluster's authority.
pub fn invite_node(config: &Config, may_invite: bool) -> Result<(String, u32), ServeError> {
    let _owner = FolderOwner::of(&config.data);
    let identity = Identity::open(&settings_of(config)?.keys).map_err(ClusterError::from)?;
    let (invitation, node) = identity.invite(may_invite).map_err(ClusterError::from)?;
    Ok((invitation, node.0))
}

/// Returns a new certificate for the node with this number, as the content of a secret file.
///
/// # Errors
/// This node does not have the key of the cluster's authority.
pub fn renew_certificate(config: &Config, node: u32) -> Result<String, ServeError> {
    let identity = Identity::open(&settings_of(config)?.keys).map_err(ClusterError::from)?;
    Ok(identity.renewal(NodeId(node)).map_err(ClusterError::from)?)
}

/// Installs a certificate that [`renew_certificate`] made for this node. If `renewal` is `None`, makes the certificate
/// here. The node uses the certificate from its next start on. Returns the number of the node.
///
/// # Errors
/// The file is not a certificate for this node, or this node does not have the key of the cluster's authority.
pub fn take_certificate(config: &Config, renewal: Option<&Path>) -> Result<u32, ServeError> {
    let _owner = FolderOwner::of(&config.data);
    let identity = Identity::open(&settings_of(config)?.keys).map_err(ClusterError::from)?;
    let text = match renewal {
        Some(file) => std::fs::read_to_string(file)?,
        None => identity.renewal(identity.node()).map_err(ClusterError::from)?,
    };
    identity.take_renewal(&text).map_err(ClusterError::from)?;
    Ok(identity.node().0)
}

/// Creates the data directory of an invited node, with a copy of the data of the node in the folder `from`. The node in
/// `from` may be served at the same time. Returns the number of the new node.
///
/// # Errors
/// The data directory already has data, or the invitation or the data in `from` is not valid.
pub fn join_cluster(config: &Config, invitation: &Path, from: &Path) -> Result<u32, ServeError> {
    let _owner = FolderOwner::of(&config.data);
    let failed = |error| ServeError::Open { path: from.to_owned(), error };
    copy_node(from, &config.data, &store::Options::default()).map_err(failed)?;
    Ok(accept(config, invitation)?.node().0)
}

/// Accepts an invitation: stores the identity that it contains.
fn accept(config: &Config, invitation: &Path) -> Result<Identity, ServeError> {
    Ok(Identity::accept(&settings_of(config)?.keys, invitation).map_err(ClusterError::from)?)
}

/// Creates the data directory of an invited node, as [`join_cluster`] does. The data is copied from the node `there`,
/// over its cluster listener at `address`.
///
/// # Errors
/// The same as those of [`join_cluster`], or the node cannot be reached or sends no copy. In these cases nothing is
/// created.
pub fn join_from(config: &Config, invitation: &Path, address: &str, there: u32) -> Result<u32, ServeError> {
    let _owner = FolderOwner::of(&config.data);
    let settings = settings_of(config)?;
    let failed =
        |error: store::OpenError| ServeError::Open { path: config.data.clone(), error: error.into() };
    if store::has_data_file(&config.data).map_err(failed)? {
        return Err(ServeError::Open { path: config.data.clone(), error: directory::OpenError::HasData });
    }
    let invited = Identity::invited(&settings.keys, invitation).map_err(ClusterError::from)?;
    let client = invited.client_config().map_err(ClusterError::from)?;
    with_copy(config, (there, address), &client, |copy, keys| {
        let failed = |error| ServeError::Open { path: copy.to_owned(), error };
        take_copy(copy, &config.data).map_err(failed)?;
        let identity = accept(config, invitation)?;
        identity.take_keys(keys).map_err(ClusterError::from)?;
        Ok(identity.node().0)
    })
}

/// Receives a copy of the data of the node `there` from its listener at `address`. Also receives the keys of the
/// cluster, because the data may use a key that this node does not have yet. Passes the folder of the copy and the keys
/// to `take`, and then removes the folder.
pub(super) fn with_copy<T>(
    config: &Config,
    (there, address): (u32, &str),
    client: &Arc<ClientConfig>,
    take: impl FnOnce(&Path, &[NumberedKey]) -> Result<T, ServeError>,
) -> Result<T, ServeError> {
    let incoming = config.data.join(INCOMING);
    let _ = std::fs::remove_dir_all(&incoming);
    let there = NodeId(there);
    let failed =
        |error: store::OpenError| ServeError::Open { path: config.data.clone(), error: error.into() };
    store::make_data_directory(&config.data).map_err(failed)?;
    let received = snapshot::receive(there, address, client, &incoming)
        .and_then(|_| keys::receive(there, address, client))
        .map_err(|error| refused(format!("no copy of {there} at {address}: {error}")));
    let outcome = received.and_then(|keys| take(&incoming, &keys));
    let _ = std::fs::remove_dir_all(&incoming);
    outcome
}

/// Makes a consistent copy of a node's data in the new data directory `to`. A server may be using the node's directory.
/// The copy can be carried to another machine for [`join_cluster`].
///
/// # Errors
/// The directory is not a node, or `to` has data.
pub fn copy_of_node(config: &Config, to: &Path) -> Result<(), ServeError> {
    let failed = |error| ServeError::Open { path: config.data.clone(), error };
    copy_node(&config.data, to, &store::Options::default()).map_err(failed)
}
