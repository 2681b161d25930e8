//! Replacement of the data of nodes. Either one node takes the data of another node, or all nodes take new data in a
//! new generation, for example after an import.

use std::fs;
use std::path::Path;

use cluster::ClusterError;
use cluster::identity::{Identity, write_private};
use cluster::stage::{MESSAGE_FILE, STAGE, refuse_unfinished};
use directory::replicated::{copy_plain, replace_node};
use replication::message::{Body, Generation, Message, encode_generation};
use replication::{Follower, RowChange, Tag};

use super::membership::LogClient;
use crate::admin::cluster::{append, refused, settings_of, with_copy};
use crate::admin::ownership::FolderOwner;
use crate::config::Config;
use crate::error::ServeError;
use crate::open::Opened;
use crate::stamp::Random;

/// Replaces the data of a node by the data in the folder `from`. That data belongs to another node, or is a copy of
/// another node's data. No server may be using the node's directory. The node keeps its identity.
///
/// # Errors
/// The node is served, or `from` does not contain a node of this cluster.
pub fn reseed_node(config: &Config, from: &Path) -> Result<u32, ServeError> {
    let _owner = FolderOwner::of(&config.data);
    let settings = settings_of(config)?;
    let identity = Identity::open(&settings.keys).map_err(ClusterError::from)?;
    super::membership::follower_in(from, &identity)?;
    let failed = |error| ServeError::Open { path: config.data.clone(), error };
    replace_node(from, &config.data, &store::Options::default()).map_err(failed)?;
    identity.set_diverged(None).map_err(ClusterError::from)?;
    Ok(identity.node().0)
}

/// Replaces the data of a node, as [`reseed_node`] does. The data is copied from the node `there`, over its cluster
/// listener at `address`.
///
/// # Errors
/// The same as those of [`reseed_node`], or the other node cannot be reached or sends no copy. The node then keeps its
/// data.
pub fn reseed_from(config: &Config, address: &str, there: u32) -> Result<u32, ServeError> {
    let owner = FolderOwner::of(&config.data);
    let identity = Identity::open(&settings_of(config)?.keys).map_err(ClusterError::from)?;
    // If a server is using the node's directory, this call fails before the other node is asked for all its data.
    drop(Opened::open_to(config.clone(), true, false)?);
    let client = identity.client_config().map_err(ClusterError::from)?;
    let reseeded = with_copy(config, (there, address), &client, |copy, keys| {
        identity.take_keys(keys).map_err(ClusterError::from)?;
        reseed_node(config, copy)
    });
    drop(owner);
    reseeded
}

/// Begins a new generation with the data of the directory `from`. The directory must not be a node. Its data replaces
/// the data of this node. Neither directory may be served. Every other node stops until it receives a copy. Returns the
/// position at which the generation begins.
///
/// The message that begins the generation is stored with the data before it is appended to the log. Therefore
/// [`finish_generation`] can complete an interrupted command.
///
/// # Errors
/// Another generation is in force, this node has already begun one, a directory is served, or the log cannot be
/// reached.
pub fn begin_generation(config: &Config, from: &Path) -> Result<u64, ServeError> {
    let _owner = FolderOwner::of(&config.data);
    refuse_unfinished(&config.data)?;
    let mut client = LogClient::of(config)?;
    let stage = config.data.join(STAGE);
    if stage.exists() {
        fs::remove_dir_all(&stage)?;
    }
    // If a server is using the node's directory, this call fails before anything is appended to the log.
    drop(Opened::open_to(config.clone(), true, false)?);
    let failed = |error| ServeError::Open { path: from.to_owned(), error };
    copy_plain(from, &stage, &store::Options::default()).map_err(failed)?;
    let position = open_staged(config)?.directory().facts()?.position;
    if client.catch_up()?.generation.is_some() {
        return Err(refused(OTHER));
    }
    let id = Random::default().bytes()?;
    let generation = Generation { follows: client.follower.cursor().generation, position };
    let (keys, key) = (client.follower.keys(), client.follower.cursor().key);
    let (message, _) = encode_generation(keys, key, &id, &generation);
    write_private(&stage, MESSAGE_FILE, &message)?;
    finish_generation(config)
}

/// Completes the generation that an interrupted call of [`begin_generation`] on this node has begun. Returns the
/// position at which the generation begins.
///
/// # Errors
/// The same as those of [`begin_generation`], or this node did not begin a generation.
pub fn finish_generation(config: &Config) -> Result<u64, ServeError> {
    let _owner = FolderOwner::of(&config.data);
    let stage = config.data.join(STAGE);
    let Ok(bytes) = fs::read(stage.join(MESSAGE_FILE)) else {
        return Err(refused("no generation was begun here and not finished"));
    };
    drop(Opened::open_to(config.clone(), true, false)?);
    let mut client = LogClient::of(config)?;
    let (id, generation) = generation_in(&client.follower, &bytes)?;
    if client.follower.cursor().generation != id {
        let (offset, tag) = append_generation(&mut client, id, &bytes)?;
        let rows = client.follower.succeed(id, &generation, offset, tag);
        let rows: Vec<_> = rows.iter().map(|RowChange { key, value }| (&**key, value.as_deref())).collect();
        open_staged(config)?.writer().0.apply_group(1, [], &rows)?;
        let failed = |error| ServeError::Open { path: config.data.clone(), error };
        replace_node(&stage, &config.data, &store::Options::default()).map_err(failed)?;
    }
    client.identity.set_diverged(None).map_err(ClusterError::from)?;
    fs::remove_dir_all(&stage)?;
    Ok(generation.position)
}

const OTHER: &str = "another generation is in force: `pando cluster reseed` takes its data";

/// Returns the id of the generation that a message begins, and the generation. A node of this cluster must have made
/// the message.
fn generation_in(follower: &Follower, bytes: &[u8]) -> Result<([u8; 16], Generation), ServeError> {
    let key = follower.cursor().key;
    match Message::decode(bytes, follower.keys(), key).map(|message| (message.generation, message.body)) {
        Ok((id, Body::Generation(generation))) => Ok((id, generation)),
        _ => Err(refused(format!("the message of the generation is not one under key {key}: begin it anew"))),
    }
}

/// Returns the offset and the tag of the message that begins the generation. Appends the message unless the log
/// contains it. If the log contains it twice, the first message counts.
fn append_generation(client: &mut LogClient, id: [u8; 16], bytes: &[u8]) -> Result<(u64, Tag), ServeError> {
    let mut found = client.catch_up()?.generation;
    if found.is_none() {
        append(&client.log, bytes)?;
        found = client.catch_up()?.generation;
    }
    match found {
        Some((found, offset, tag)) if found == id => Ok((offset, tag)),
        Some(_) => Err(refused(OTHER)),
        None => Err(refused("the log does not take the message of the generation: begin it anew")),
    }
}

fn open_staged(config: &Config) -> Result<Opened, ServeError> {
    let data = config.data.join(STAGE);
    Opened::open_to(Config { data, cluster: None, suffixes: Vec::new(), ..config.clone() }, true, false)
}
