//! Sending of the cluster's keys to other nodes, over the listener of the cluster.

use std::io::{self, ErrorKind, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use replication::NodeId;
use rustls::ClientConfig;

use super::{connect, read_frame, write_frame};
use crate::identity::Identity;
use crate::identity::keys::NumberedKey;
use crate::limits::KEYS_MAX;

/// Frame that requests the keys. No frame of requests begins with these bytes.
pub(super) const REQUEST: &[u8] = b"\0keys 1";

/// Time limit for a node to send its keys. After that time, the next node is asked.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of a key with its number.
const ITEM: usize = 4 + 32;

/// Sender of the keys in the folder of this node's identity.
pub(crate) struct Keys(pub(crate) PathBuf);

impl Keys {
    /// Sends to `node` the keys that this node may give to others.
    pub(super) fn send(&self, node: NodeId, stream: &mut impl Write) -> io::Result<()> {
        let keys = Identity::open(&self.0).and_then(|identity| identity.given_keys());
        let keys = keys.map_err(io::Error::other)?;
        tracing::info!("{node} takes the keys of the cluster: {} of them", keys.len());
        let put = |(number, secret): &NumberedKey| [&number.to_be_bytes()[..], secret].concat();
        write_frame(stream, &keys.iter().flat_map(put).collect::<Vec<_>>())
    }
}

/// Receives the keys that `node`, reached at `address`, gives to other nodes.
///
/// # Errors
/// The node does not accept this node's certificate, or the connection broke.
pub fn receive(node: NodeId, address: &str, config: &Arc<ClientConfig>) -> io::Result<Vec<NumberedKey>> {
    let (started, mut stream) = (Instant::now(), connect(node, address, config)?);
    write_frame(&mut stream, REQUEST)?;
    receive_keys(&mut stream, &|| started.elapsed() < PATIENCE)
}

fn receive_keys(stream: &mut impl Read, is_wanted: &dyn Fn() -> bool) -> io::Result<Vec<NumberedKey>> {
    let frame = read_frame(stream, is_wanted)?;
    let (items, rest) = frame.as_chunks::<ITEM>();
    if !rest.is_empty() || items.len() > KEYS_MAX {
        return Err(io::Error::new(ErrorKind::InvalidData, "a frame that is no keys"));
    }
    let item = |item: &[u8; ITEM]| {
        let (number, secret) = item.split_first_chunk()?;
        Some((u32::from_be_bytes(*number), secret.try_into().ok()?))
    };
    Ok(items.iter().filter_map(item).collect())
}

/// Receives keys from the first of `sources` that has the key with this number.
///
/// # Errors
/// No node in `sources` has the key.
pub(crate) fn receive_from_any(
    sources: &[(NodeId, String)],
    config: &Arc<ClientConfig>,
    number: u32,
) -> Result<Vec<NumberedKey>, String> {
    let mut reasons = Vec::new();
    for (node, address) in sources {
        match receive(*node, address, config) {
            Ok(keys) if keys.iter().any(|(given, _)| *given == number) => return Ok(keys),
            Ok(_) => reasons.push(format!("{node} at {address} does not have it")),
            Err(error) => reasons.push(format!("{node} at {address}: {error}")),
        }
    }
    Err(if reasons.is_empty() { "no other node is known to have it".to_owned() } else { reasons.join("; ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_received_completely_or_refused() {
        let receive = |frame: &[u8]| {
            let mut sent = Vec::new();
            write_frame(&mut sent, frame).unwrap();
            receive_keys(&mut &*sent, &|| true)
        };
        let two = [&7_u32.to_be_bytes()[..], &[1; 32], &8_u32.to_be_bytes(), &[2; 32]].concat();
        assert_eq!(receive(&two).unwrap(), [(7, [1; 32]), (8, [2; 32])]);
        assert_eq!(receive(&[]).unwrap(), []);
        assert!(receive(&two[1..]).is_err());
        assert!(receive(&vec![0; ITEM * (KEYS_MAX + 1)]).is_err());
    }
}
