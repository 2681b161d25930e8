//! Membership in a cluster, and deletion of messages of its log. The commands read the state of a node, which may be
//! served, and append announcements to the log.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use cluster::identity::Identity;
use cluster::transport::keys;
use cluster::{ClusterError, Verified, log_settings, verify};
use directory::replicated::{copy_node, log_rows_in};
use kafka_log::{Event, Reader, Settings, delete_before, fetch};
use replication::limits::KEYS_LEVEL;
use replication::message::Announcement;
use replication::{Follower, IgnoreReason, NodeId, StateError, Tag, Verdict};

use crate::admin::cluster::{PATIENCE, append, refused, settings_of};
use crate::cluster_host::node_settings;
use crate::config::Config;
use crate::error::ServeError;
use crate::open::Opened;

/// Interval at which a command looks for a new key.
const KEY_LOOK: Duration = Duration::from_millis(100);

/// State of a node, read from its data directory, and access to the cluster's log.
pub(super) struct LogClient {
    pub(super) identity: Identity,
    pub(super) follower: Follower,
    pub(super) log: Settings,
}

impl LogClient {
    pub(super) fn of(config: &Config) -> Result<LogClient, ServeError> {
        let settings = settings_of(config)?;
        let identity = Identity::open(&settings.keys).map_err(ClusterError::from)?;
        let follower = follower_in(&config.data, &identity)?;
        let log = log_settings(&node_settings(&settings), &identity);
        Ok(LogClient { identity, follower, log })
    }

    /// Appends an announcement and reads it back. Returns its offset.
    ///
    /// An announcement has no effect if it uses a key that is no longer in force. In that case this function appends
    /// the announcement again.
    fn announce(&mut self, node: NodeId, announcement: Announcement) -> Result<u64, ServeError> {
        self.catch_up()?;
        loop {
            let offset = append(&self.log, &self.follower.announcement_of(node, announcement))?;
            if !self.read_to(offset + 1)?.is_under_other_key {
                return Ok(offset);
            }
        }
    }

    /// Reads the log from the node's position to the end.
    pub(super) fn catch_up(&mut self) -> Result<CatchUpOutcome, ServeError> {
        let failed = |error: kafka_log::LogError| ServeError::from(ClusterError::from(error));
        let cursor = *self.follower.cursor();
        let (message, start, end) = fetch(&self.log, cursor.offset, PATIENCE).map_err(failed)?;
        let bytes = message.as_ref().map(|message| &*message.bytes);
        let checked = self.follower.check_start(cursor.topic, start, end, bytes);
        checked.map_err(|reseed| refused(reseed.to_string()))?;
        self.read_to(end)
    }

    /// Reads the log up to an offset.
    fn read_to(&mut self, end: u64) -> Result<CatchUpOutcome, ServeError> {
        let failed = |error: kafka_log::LogError| ServeError::from(ClusterError::from(error));
        let (sender, events) = channel();
        let sink = Arc::new(move |event| drop(sender.send(event)));
        let _reader = Reader::start(&self.log, self.follower.next_offset(), sink).map_err(failed)?;
        let mut read = CatchUpOutcome::default();
        while self.follower.next_offset() < end {
            let Ok(event) = events.recv_timeout(PATIENCE) else {
                return Err(refused("the log cannot be read in time"));
            };
            let Event::Message(message) = event else { continue };
            let mut verdict = self.follower.step(message.offset, &message.bytes);
            if let Verdict::NeedsKey(number) = verdict {
                self.get_key(number)?;
                verdict = self.follower.step(message.offset, &message.bytes);
            }
            read.is_under_other_key = matches!(verdict, Verdict::Ignored(IgnoreReason::OtherKey));
            match verdict {
                Verdict::NewGeneration(id) => {
                    let tag = Tag::of_message(&message.bytes);
                    read.generation = tag.map(|tag| (id, message.offset, tag));
                    return Ok(read);
                }
                Verdict::Alarm(alarm) if alarm.stops() => return Err(refused(alarm.to_string())),
                _ => {}
            }
        }
        Ok(read)
    }

    /// Waits for the key with this number. The process that serves the node may be fetching it.
    fn get_key(&mut self, number: u32) -> Result<(), ServeError> {
        let started = Instant::now();
        loop {
            self.follower.set_keys(self.identity.keys().map_err(ClusterError::from)?);
            if self.follower.keys().has(number) {
                return Ok(());
            }
            if started.elapsed() > PATIENCE {
                return Err(refused(StateError::NoKey(number).to_string()));
            }
            std::thread::sleep(KEY_LOOK);
        }
    }
}

/// Result of reading the log.
#[derive(Default)]
pub(super) struct CatchUpOutcome {
    /// The generation that the last message begins: its id, and the offset and the tag of the message. Later messages
    /// are not read.
    pub(super) generation: Option<([u8; 16], u64, Tag)>,
    /// Whether the last message used a key that is not in force.
    is_under_other_key: bool,
}

/// Returns the replication state in a data directory.
pub(super) fn follower_in(data: &Path, identity: &Identity) -> Result<Follower, ServeError> {
    let rows = log_rows_in(data).map_err(|error| ServeError::Open { path: data.to_owned(), error })?;
    let keys = identity.keys().map_err(ClusterError::from)?;
    Follower::load(keys, rows).map_err(|error| refused(error.to_string()))
}

/// Ends the membership of a data directory that is not served. The directory becomes an ordinary directory, and the
/// other nodes refuse its certificate. If `is_announced` is false, nothing is written to the log, so that the other
/// nodes still accept the certificate.
///
/// # Errors
/// The directory is in use or is not a node, or the log cannot be reached.
pub fn leave_cluster(config: Config, is_announced: bool) -> Result<(), ServeError> {
    let mut client = LogClient::of(&config)?;
    let mut opened = Opened::open_to(config, true, false)?;
    let rows = opened.directory().log_rows()?;
    if is_announced {
        let own = client.identity.node();
        client.announce(own, Announcement::Left).map_err(|error| {
            refused(format!(
                "{error}: nothing is changed; with --untold the directory leaves without its cluster's knowledge, and \
                 `pando cluster unregister {}` on another node has its certificate refused",
                own.0
            ))
        })?;
    }
    let deleted: Vec<_> = rows.iter().map(|(key, _)| (&**key, None)).collect();
    opened.writer().0.apply_group(1, [], &deleted)?;
    client.identity.discard();
    Ok(())
}

/// Removes another node from the cluster permanently. All nodes refuse its certificate, the log keeps no messages for
/// it, and its number is never given to another node. Returns the offset of the announcement.
///
/// # Errors
/// `node` is this node or has already left, or the log cannot be reached.
pub fn unregister_node(config: &Config, node: u32) -> Result<u64, ServeError> {
    let (mut client, node) = (LogClient::of(config)?, NodeId(node));
    if node == client.identity.node() {
        return Err(refused(format!("{node} is this one: stop it, and use `pando cluster leave`")));
    }
    if client.follower.has_left(node) {
        return Err(refused(format!("{node} does not belong to the cluster any longer")));
    }
    client.announce(node, Announcement::Left)
}

/// Result of [`keep_snapshot`].
#[derive(Debug)]
pub struct SnapshotOutcome {
    /// Offset up to which the snapshot contains all changes of the log.
    pub offset: u64,
    /// Number of entries.
    pub entries: u64,
}

/// Copies the data of a node into the new data directory `to`. A server may be using the node's directory. Reads the
/// whole copy back and announces it in the log. `to` must stay on this machine. Messages that precede the snapshots of
/// two machines may be deleted.
///
/// # Errors
/// The directory is not a node, `to` has data, the copy is damaged, or the log cannot be reached.
pub fn keep_snapshot(config: &Config, to: &Path) -> Result<SnapshotOutcome, ServeError> {
    let mut client = LogClient::of(config)?;
    let failed = |error| ServeError::Open { path: config.data.clone(), error };
    copy_node(&config.data, to, &store::Options::default()).map_err(failed)?;
    let Verified { offset, checked } = verify(to).map_err(refused)?;
    let own = client.identity.node();
    client.announce(own, Announcement::Snapshot(offset))?;
    Ok(SnapshotOutcome { offset, entries: checked.entries })
}

/// Result of [`trim_log`].
#[derive(Debug)]
pub struct TrimOutcome {
    /// Offset of the log's first message before the deletion.
    pub before: u64,
    /// Offset of the log's first message after the deletion.
    pub start: u64,
}

/// Deletes messages of the log that no node and no snapshot needs. If `is_rehearsal` is set, deletes nothing and
/// returns the expected result.
///
/// # Errors
/// Nothing may be deleted, the log cannot be reached, or the log does not permit this client to delete messages.
pub fn trim_log(config: &Config, is_rehearsal: bool) -> Result<TrimOutcome, ServeError> {
    let client = LogClient::of(config)?;
    let retained = |reason: replication::retention::RetentionReason| {
        refused(format!("nothing may be deleted: {reason}"))
    };
    let offset = client.follower.deletable_before().map_err(retained)?;
    let failed = |error: kafka_log::LogError| ServeError::from(ClusterError::from(error));
    let cursor = client.follower.cursor().offset;
    let (message, start, end) = fetch(&client.log, cursor, PATIENCE).map_err(failed)?;
    let topic = client.follower.cursor().topic;
    let bytes = message.as_ref().map(|message| &*message.bytes);
    // Offsets are meaningful only for the topic that the node has read.
    client.follower.check_start(topic, start, end, bytes).map_err(|reseed| refused(reseed.to_string()))?;
    if offset <= start {
        return Ok(TrimOutcome { before: start, start });
    }
    let now = if is_rehearsal { offset } else { delete_before(&client.log, offset).map_err(failed)? };
    Ok(TrimOutcome { before: start, start: now })
}

/// Requests a new key of the cluster from the process that serves this node. The other nodes receive the key. The key
/// comes into force when all nodes have it, or when most nodes have it and a time limit has passed. Waits until this
/// node has read in the log that the key is in force, and then returns the number of the key.
///
/// # Errors
/// The node is not served, too few nodes are running, or not all nodes support the feature level.
pub fn rotate_key(config: &Config) -> Result<u32, ServeError> {
    let mut client = LogClient::of(config)?;
    let before = client.follower.cursor().key;
    if client.follower.level() < KEYS_LEVEL {
        return Err(refused(format!("not all nodes know feature level {KEYS_LEVEL}: update them first")));
    }
    if Opened::open_to(config.clone(), true, false).is_ok() {
        return Err(refused("this node is not served: start it, or use another one"));
    }
    client.identity.want_key(true).map_err(ClusterError::from)?;
    let started = Instant::now();
    loop {
        std::thread::sleep(KEY_LOOK);
        let waits = StillWaiting { identity: &client.identity, since: started };
        client.follower = match follower_in(&config.data, &client.identity) {
            Ok(follower) => follower,
            // The state may be unreadable because the new key has just come into force.
            Err(error) if waits.is_over() => return Err(error),
            Err(_) => continue,
        };
        if client.follower.cursor().key != before {
            return Ok(client.follower.cursor().key);
        }
        if waits.is_over() {
            return Err(waits.say(&client.follower));
        }
    }
}

struct StillWaiting<'w> {
    identity: &'w Identity,
    since: Instant,
}

impl StillWaiting<'_> {
    fn is_over(&self) -> bool {
        self.since.elapsed() > PATIENCE
    }

    fn say(&self, follower: &Follower) -> ServeError {
        let Some(offered) = follower.offered() else {
            return match self.identity.want_key(false) {
                Ok(()) => refused(
                    "no key is made: check that this node is served and that the cluster has a writer",
                ),
                Err(error) => ClusterError::from(error).into(),
            };
        };
        let holders: Vec<u32> = follower.key_holders().map(|(node, _)| node.0).collect();
        let lacking = follower.registered().into_iter().filter(|node| !holders.contains(&node.0));
        let lacking: Vec<String> = lacking.map(|node| node.to_string()).collect();
        refused(format!(
            "key {} is not in force yet: it is by itself once most nodes have it, which {} do not",
            offered.fingerprint.number(),
            lacking.join(", ")
        ))
    }
}

/// Fetches the keys of the cluster from the node `there` at `address`, for a node that cannot fetch them itself.
/// Returns the number of keys.
///
/// # Errors
/// The other node cannot be reached, or sends no keys.
pub fn fetch_keys(config: &Config, address: &str, there: u32) -> Result<usize, ServeError> {
    let identity = Identity::open(&settings_of(config)?.keys).map_err(ClusterError::from)?;
    let client = identity.client_config().map_err(ClusterError::from)?;
    let there = NodeId(there);
    let given = keys::receive(there, address, &client)
        .map_err(|error| refused(format!("no keys of {there} at {address}: {error}")))?;
    identity.take_keys(&given).map_err(ClusterError::from)?;
    Ok(given.len())
}
