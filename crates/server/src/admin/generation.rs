//! Data that nodes of a cluster begin from again: a node takes that of another, or all take data that did not come
//! about by changes, such as an import: a new generation.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;

use directory::replicated::{copy_plain, replace_node};
use kafka_log::{Event, Reader, fetch};
use replication::message::{Generation, encode_generation};
use replication::{RowChange, Verdict};

use super::membership::Place;
use crate::admin::cluster::{PATIENCE, append, refused, settings_of};
use crate::cluster::ClusterError;
use crate::cluster::identity::Identity;
use crate::config::Config;
use crate::error::ServeError;
use crate::open::Opened;
use crate::stamp::Random;

/// Where a generation is put together, in the data directory.
const STAGE: &str = "generation.new";

/// Replaces the data of a node that nobody serves by that of another node, or a copy of it. The node stays who it is.
///
/// # Errors
/// It is served, or the other is no node of this cluster.
pub fn reseed_node(config: &Config, from: &Path) -> Result<u32, ServeError> {
    let settings = settings_of(config)?;
    let identity = Identity::open(&settings.keys).map_err(ClusterError::from)?;
    super::membership::follower_in(from, &identity)?;
    let failed = |error| ServeError::Open { path: config.data.clone(), error };
    replace_node(from, &config.data, &store::Options::default()).map_err(failed)?;
    identity.set_diverged(None).map_err(ClusterError::from)?;
    Ok(identity.node().0)
}

/// Begins a new generation with the data of the directory `from`, which is no node and which nobody serves: it becomes
/// that of the node, which nobody serves either, and every other node stops until it is given a copy. Returns the
/// position that the generation begins at.
///
/// # Errors
/// Another generation is in force; a directory is served; the log cannot be reached.
pub fn begin_generation(config: &Config, from: &Path) -> Result<u64, ServeError> {
    let mut place = Place::of(config)?;
    let stage = config.data.join(STAGE);
    if stage.exists() {
        fs::remove_dir_all(&stage)?;
    }
    // That nobody serves the node is known before anybody is told anything.
    drop(Opened::open_to(config.clone(), true)?);
    let failed = |error| ServeError::Open { path: from.to_owned(), error };
    copy_plain(from, &stage, &store::Options::default()).map_err(failed)?;
    let staged = Config { data: stage.clone(), cluster: None, suffixes: Vec::new(), ..config.clone() };
    let mut opened = Opened::open_to(staged, true)?;
    let position = opened.directory().facts()?.position;
    catch_up(&mut place)?;
    let id = Random::default().bytes()?;
    let generation = Generation { follows: place.follower.cursor().generation, position };
    let keys = place.identity.keys().map_err(ClusterError::from)?;
    let (message, tag) = encode_generation(&keys, &id, &generation);
    let offset = append(&place.log, &message)?;
    let rows = place.follower.succeed(keys, id, &generation, offset, tag);
    let rows: Vec<_> = rows.iter().map(|RowChange { key, value }| (&**key, value.as_deref())).collect();
    opened.writer().0.apply_group(1, [], &rows)?;
    drop(opened);
    let failed = |error| ServeError::Open { path: config.data.clone(), error };
    replace_node(&stage, &config.data, &store::Options::default()).map_err(failed)?;
    place.identity.set_diverged(None).map_err(ClusterError::from)?;
    fs::remove_dir_all(&stage)?;
    Ok(position)
}

/// Reads the log to its end, to know that the generation of the node is the one in force.
fn catch_up(place: &mut Place) -> Result<(), ServeError> {
    let failed = |error: kafka_log::LogError| ServeError::from(ClusterError::from(error));
    let cursor = *place.follower.cursor();
    let (message, start, end) = fetch(&place.log, cursor.offset, PATIENCE).map_err(failed)?;
    let bytes = message.as_ref().map(|message| &*message.bytes);
    let checked = place.follower.check_start(cursor.topic, start, end, bytes);
    checked.map_err(|reseed| refused(reseed.to_string()))?;
    let (sender, events) = channel();
    let sink = Arc::new(move |event| drop(sender.send(event)));
    let _reader = Reader::start(&place.log, place.follower.next_offset(), sink).map_err(failed)?;
    while place.follower.next_offset() < end {
        let Ok(event) = events.recv_timeout(PATIENCE) else {
            return Err(refused("the log cannot be read in time"));
        };
        let Event::Message(message) = event else { continue };
        match place.follower.step(message.offset, &message.bytes) {
            Verdict::NewGeneration(_) => {
                return Err(refused("another generation is in force: `pando cluster reseed` takes its data"));
            }
            Verdict::Alarm(alarm) if alarm.stops() => return Err(refused(alarm.to_string())),
            _ => {}
        }
    }
    Ok(())
}
