//! Who belongs to a cluster, and what of its log may go: commands that read the state of a node, served or not, and
//! tell the log.

use std::path::Path;

use directory::replicated::{copy_node, log_rows_in};
use kafka_log::{Settings, delete_before, fetch};
use replication::message::News;
use replication::{Follower, NodeId};

use crate::admin::cluster::{PATIENCE, append, refused, settings_of};
use crate::admin::verify;
use crate::cluster::identity::Identity;
use crate::cluster::{ClusterError, log_settings};
use crate::config::Config;
use crate::error::ServeError;
use crate::open::Opened;

/// What a node's data says of its cluster, and how its log is reached.
pub(super) struct Place {
    pub(super) identity: Identity,
    pub(super) follower: Follower,
    pub(super) log: Settings,
}

impl Place {
    pub(super) fn of(config: &Config) -> Result<Place, ServeError> {
        let settings = settings_of(config)?;
        let identity = Identity::open(&settings.keys).map_err(ClusterError::from)?;
        let follower = follower_in(&config.data, &identity)?;
        let log = log_settings(&settings, &identity);
        Ok(Place { identity, follower, log })
    }

    fn tell(&self, node: NodeId, news: News) -> Result<u64, ServeError> {
        append(&self.log, &self.follower.news_of(node, news))
    }
}

/// The state of the protocol in a data directory.
pub(super) fn follower_in(data: &Path, identity: &Identity) -> Result<Follower, ServeError> {
    let rows = log_rows_in(data).map_err(|error| ServeError::Open { path: data.to_owned(), error })?;
    let keys = identity.keys().map_err(ClusterError::from)?;
    Follower::load(keys, rows).map_err(|error| refused(error.to_string()))
}

/// Takes a data directory that nobody serves out of its cluster: it is one like any other from then on, and the other
/// nodes refuse its certificate. Where the log `is_told` nothing of it, they do not.
///
/// # Errors
/// It is in use, or no node; the log cannot be reached.
pub fn leave_cluster(config: Config, is_told: bool) -> Result<(), ServeError> {
    let place = Place::of(&config)?;
    let mut opened = Opened::open_to(config, true)?;
    let rows = opened.directory().log_rows()?;
    if is_told {
        place.tell(place.identity.node(), News::Gone).map_err(|error| {
            refused(format!(
                "{error}: nothing is changed; with --untold the directory leaves without its cluster's knowledge, and \
                 `pando cluster unregister {}` on another node has its certificate refused",
                place.identity.node().0
            ))
        })?;
    }
    let gone: Vec<_> = rows.iter().map(|(key, _)| (&**key, None)).collect();
    opened.writer().0.apply_group(1, [], &gone)?;
    place.identity.discard();
    Ok(())
}

/// Takes another node out of the cluster, for good: its certificate is refused by all, it keeps nothing of the log any
/// longer, and its number is never used again. Returns the offset from which on.
///
/// # Errors
/// It is this one, or gone already; the log cannot be reached.
pub fn unregister_node(config: &Config, node: u32) -> Result<u64, ServeError> {
    let (place, node) = (Place::of(config)?, NodeId(node));
    if node == place.identity.node() {
        return Err(refused(format!("{node} is this one: stop it, and use `pando cluster leave`")));
    }
    if place.follower.is_gone(node) {
        return Err(refused(format!("{node} does not belong to the cluster any longer")));
    }
    place.tell(node, News::Gone)
}

/// What [`keep_snapshot`] came to.
#[derive(Debug)]
pub struct Kept {
    /// The offset of the log up to which the snapshot has everything.
    pub offset: u64,
    /// Its number of entries.
    pub entries: u64,
}

/// Copies the data of a node, served or not, into the new data directory `to`, which stays on this machine; reads all
/// of it back, and tells the log of it: what lies before the snapshots of two machines is not needed any longer.
///
/// # Errors
/// It is no node, `to` has data, the copy is not whole; the log cannot be reached.
pub fn keep_snapshot(config: &Config, to: &Path) -> Result<Kept, ServeError> {
    let place = Place::of(config)?;
    let failed = |error| ServeError::Open { path: config.data.clone(), error };
    copy_node(&config.data, to, &store::Options::default()).map_err(failed)?;
    let copy = Config { data: to.to_owned(), ..config.clone() };
    let mut first = None;
    let checked = verify::verify(&copy, &mut |finding| {
        first.get_or_insert_with(|| finding.text.clone());
    })?;
    if let Some(finding) = first {
        return Err(refused(format!("the copy in {} is not whole: {finding}", to.display())));
    }
    let offset = follower_in(to, &place.identity)?.cursor().offset;
    place.tell(place.identity.node(), News::Snapshot(offset))?;
    Ok(Kept { offset, entries: checked.entries })
}

/// What [`trim_log`] came to: the log begins at `start` now, and did at `before`.
#[derive(Debug)]
pub struct Trimmed {
    /// The offset of its first message before.
    pub before: u64,
    /// The same now.
    pub start: u64,
}

/// Deletes from the log what no node and no snapshot needs any longer. With `is_rehearsal` only says what that is.
///
/// # Errors
/// Nothing may be deleted; the log cannot be reached or does not let this client.
pub fn trim_log(config: &Config, is_rehearsal: bool) -> Result<Trimmed, ServeError> {
    let place = Place::of(config)?;
    let kept = |kept: replication::retention::Kept| refused(format!("nothing may be deleted: {kept}"));
    let offset = place.follower.deletable_before().map_err(kept)?;
    let failed = |error: kafka_log::LogError| ServeError::from(ClusterError::from(error));
    let cursor = place.follower.cursor().offset;
    let (message, start, end) = fetch(&place.log, cursor, PATIENCE).map_err(failed)?;
    let topic = place.follower.cursor().topic;
    let bytes = message.as_ref().map(|message| &*message.bytes);
    // Another topic has other offsets.
    place.follower.check_start(topic, start, end, bytes).map_err(|reseed| refused(reseed.to_string()))?;
    if offset <= start {
        return Ok(Trimmed { before: start, start });
    }
    let now = if is_rehearsal { offset } else { delete_before(&place.log, offset).map_err(failed)? };
    Ok(Trimmed { before: start, start: now })
}
