//! Keys of a cluster, and the tags made with them.

use std::collections::BTreeMap;
use std::fmt;

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// MAC at the end of every message: HMAC-SHA-256 (RFC 2104) of all bytes before it. A group contains the tag of the
/// previous group, so a tag authenticates the whole history up to its message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Tag(pub [u8; Tag::SIZE]);

impl Tag {
    pub(crate) const SIZE: usize = 32;

    /// Returns the tag at the end of `message` without verifying it.
    pub fn of_message(message: &[u8]) -> Option<Tag> {
        message.last_chunk().copied().map(Tag)
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "{}", HEXLOWER.encode_display(&[a, b, c, d]))
    }
}

/// Fingerprint of a key: its MAC of a fixed text. It identifies the key and does not disclose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; Fingerprint::SIZE]);

impl Fingerprint {
    pub(crate) const SIZE: usize = 32;

    /// Returns the number by which messages name the key. The first key of a cluster has the number [`FIRST_KEY`]
    /// instead.
    pub fn number(&self) -> u32 {
        let number = self.0.first_chunk().copied().map_or(0, u32::from_be_bytes);
        number.max(FIRST_KEY + 1)
    }
}

/// Number of the first key of a cluster.
pub const FIRST_KEY: u32 = 1;

/// Secret that all nodes of a cluster share. It authenticates messages of the log.
#[derive(Clone)]
pub struct ClusterKey {
    mac: Hmac<Sha256>,
}

impl ClusterKey {
    /// Returns the cluster key with this secret of 32 random bytes.
    pub fn new(secret: &[u8; 32]) -> ClusterKey {
        // One block of the hash: RFC 2104 pads shorter keys with zeros.
        let mut block = [0; 64];
        block.iter_mut().zip(secret).for_each(|(to, from)| *to = *from);
        ClusterKey { mac: Hmac::new(&block.into()) }
    }

    /// Returns the fingerprint of the key.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint(self.derive(&[b"pando cluster key"]))
    }

    /// Derives a key for one purpose, or another value that only a holder of this key can compute.
    pub(crate) fn derive(&self, purpose: &[&[u8]]) -> [u8; 32] {
        purpose
            .iter()
            .fold(self.mac.clone(), |mac, part| mac.chain_update(part))
            .finalize()
            .into_bytes()
            .into()
    }
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey")
    }
}

/// Keys that a node has, by number. The log determines the key in force.
#[derive(Clone, Debug)]
pub struct KeyRing {
    keys: BTreeMap<u32, ClusterKey>,
    first: ClusterKey,
}

impl KeyRing {
    /// Returns a ring with one key, whose number is `id`.
    pub fn new(id: u32, key: ClusterKey) -> KeyRing {
        KeyRing { keys: BTreeMap::from([(id, key.clone())]), first: key }
    }

    /// Adds a key with the number `id`.
    #[must_use]
    pub fn with(mut self, id: u32, key: ClusterKey) -> KeyRing {
        self.keys.insert(id, key);
        self
    }

    /// Returns true if the ring contains a key of this number.
    pub fn has(&self, id: u32) -> bool {
        self.keys.contains_key(&id)
    }

    /// Returns true if the ring contains the key of this fingerprint.
    pub(crate) fn has_key(&self, fingerprint: &Fingerprint) -> bool {
        self.get(fingerprint.number()).is_some_and(|key| key.fingerprint() == *fingerprint)
    }

    pub(crate) fn get(&self, id: u32) -> Option<&ClusterKey> {
        self.keys.get(&id)
    }

    /// Adds all keys of `other`.
    #[cfg(test)]
    pub(crate) fn extend(&mut self, other: &KeyRing) {
        self.keys.extend(other.keys.clone());
    }

    /// Appends the tag under the key `id` to `message`. The ring must contain that key. This holds because a follower
    /// that lacks the key in force stops and appends no messages.
    pub fn seal(&self, id: u32, message: &mut Vec<u8>) -> Tag {
        let key = self.keys.get(&id).unwrap_or(&self.first);
        let tag = Tag(key.derive(&[message]));
        message.extend(tag.0);
        tag
    }

    /// Returns true if `tag` is the tag of `content` under the key `id`.
    pub(crate) fn is_authentic(&self, id: u32, content: &[u8], tag: &Tag) -> bool {
        let mac = self.keys.get(&id).map(|key| key.mac.clone().chain_update(content));
        mac.is_some_and(|mac| mac.verify_slice(&tag.0).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected value computed with Python: `hmac.new(bytes(range(32)), b"what is sealed", "sha256")`.
    #[test]
    fn a_tag_is_hmac_sha_256() {
        let secret = std::array::from_fn(|index| index as u8);
        let mut message = b"what is sealed".to_vec();
        let tag = KeyRing::new(1, ClusterKey::new(&secret)).seal(1, &mut message);
        assert_eq!(
            HEXLOWER.encode(&tag.0),
            "3a09154e7f18fbd2a470d6e58a6df8370e938bba0d07dec9f2b127afc17b8d77"
        );
        assert_eq!(Tag::of_message(&message), Some(tag));
    }
}
