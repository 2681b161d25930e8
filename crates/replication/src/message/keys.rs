//! Messages about the cluster's key.

use super::{GenerationId, KIND_HOLDER, KIND_OFFER, KIND_ROTATION, head, sealed};
use crate::codec::{Reader, put_length};
use crate::key::{Fingerprint, KeyRing};
use crate::limits::ADDRESS_BYTES_MAX;
use crate::operation::NodeId;

/// Offer of a new key. Other nodes fetch the key from the node that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyOffer<'m> {
    /// Node that made the key.
    pub node: NodeId,
    /// Fingerprint of the key.
    pub fingerprint: Fingerprint,
    /// Address of the node for other nodes.
    pub address: &'m str,
}

/// Announcement that a node has the offered key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHolder<'m> {
    /// Node that has the key.
    pub node: NodeId,
    /// Number of the key.
    pub number: u32,
    /// Address of the node for other nodes.
    pub address: &'m str,
}

/// Message of the writer that puts the offered key in force: all later messages are under that key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRotation {
    /// Offset of the writer's claim.
    pub epoch: u64,
    /// Number of the key.
    pub number: u32,
}

fn address<'m>(reader: &mut Reader<'m>) -> Option<&'m str> {
    let bytes = reader.bytes().filter(|bytes| bytes.len() <= ADDRESS_BYTES_MAX)?;
    std::str::from_utf8(bytes).ok()
}

fn put_address(out: &mut Vec<u8>, address: &str) {
    // An address over the limit is replaced by an empty address, at which the node cannot be reached.
    let address = if address.len() > ADDRESS_BYTES_MAX { "" } else { address };
    put_length(out, address.len());
    out.extend(address.as_bytes());
}

impl<'m> KeyOffer<'m> {
    pub(super) fn decode(reader: &mut Reader<'m>) -> Option<KeyOffer<'m>> {
        let (node, fingerprint) = (NodeId(reader.u32()?), Fingerprint(reader.array()?));
        Some(KeyOffer { node, fingerprint, address: address(reader)? })
    }

    pub(crate) fn encode(&self, keys: &KeyRing, key: u32, generation: &GenerationId) -> Vec<u8> {
        let mut out = head(key, KIND_OFFER, generation);
        out.extend(self.node.0.to_be_bytes());
        out.extend(self.fingerprint.0);
        put_address(&mut out, self.address);
        sealed(keys, key, out).0
    }
}

impl<'m> KeyHolder<'m> {
    pub(super) fn decode(reader: &mut Reader<'m>) -> Option<KeyHolder<'m>> {
        let (node, number) = (NodeId(reader.u32()?), reader.u32()?);
        Some(KeyHolder { node, number, address: address(reader)? })
    }

    pub(crate) fn encode(&self, keys: &KeyRing, key: u32, generation: &GenerationId) -> Vec<u8> {
        let mut out = head(key, KIND_HOLDER, generation);
        out.extend(self.node.0.to_be_bytes());
        out.extend(self.number.to_be_bytes());
        put_address(&mut out, self.address);
        sealed(keys, key, out).0
    }
}

impl KeyRotation {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Option<KeyRotation> {
        Some(KeyRotation { epoch: reader.u64()?, number: reader.u32()? })
    }

    pub(crate) fn encode(&self, keys: &KeyRing, key: u32, generation: &GenerationId) -> Vec<u8> {
        let mut out = head(key, KIND_ROTATION, generation);
        out.extend(self.epoch.to_be_bytes());
        out.extend(self.number.to_be_bytes());
        sealed(keys, key, out).0
    }
}
