//! Messages about the cluster's key.

use super::{GenerationId, KIND_HOLDER, KIND_OFFER, KIND_ROTATION, head, sealed};
use crate::codec::{Reader, put_length};
use crate::key::{Fingerprint, KeyRing};
use crate::limits::ADDRESS_BYTES_MAX;
use crate::operation::NodeId;

/// A node has made a new key, which others get from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyOffer<'m> {
    /// Who made it.
    pub node: NodeId,
    /// Which key.
    pub fingerprint: Fingerprint,
    /// Where other nodes reach it.
    pub address: &'m str,
}

/// A node has the key that is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHolder<'m> {
    /// Who.
    pub node: NodeId,
    /// The number of the key.
    pub number: u32,
    /// Where other nodes reach it.
    pub address: &'m str,
}

/// The writer puts the key that is offered in force: all messages behind this one are under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRotation {
    /// The offset of the writer's claim.
    pub epoch: u64,
    /// The number of the key.
    pub number: u32,
}

fn address<'m>(reader: &mut Reader<'m>) -> Option<&'m str> {
    let bytes = reader.bytes().filter(|bytes| bytes.len() <= ADDRESS_BYTES_MAX)?;
    std::str::from_utf8(bytes).ok()
}

fn put_address(out: &mut Vec<u8>, address: &str) {
    // One that is longer than may be is of no use to anybody; nobody is reached at none.
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
