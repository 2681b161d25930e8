//! Keys of a cluster, and the tags they make.

use std::collections::BTreeMap;
use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The MAC at the end of every message: HMAC-SHA-256 (RFC 2104) of all that stands before it. Because a group contains
/// the tag of the group before it, a tag also stands for the whole history up to its message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Tag(pub [u8; Tag::SIZE]);

impl Tag {
    pub(crate) const SIZE: usize = 32;

    /// The tag that ends `message`, whether right or wrong.
    pub fn of_message(message: &[u8]) -> Option<Tag> {
        message.last_chunk().copied().map(Tag)
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(4).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A secret that all nodes of a cluster share. Who has it can write the log.
#[derive(Clone)]
pub struct ClusterKey {
    mac: Hmac<Sha256>,
}

impl ClusterKey {
    /// The key of these 32 random bytes.
    pub fn new(secret: &[u8; 32]) -> ClusterKey {
        // A block of the hash: RFC 2104 fills shorter keys with zeros.
        let mut block = [0; 64];
        block.iter_mut().zip(secret).for_each(|(to, from)| *to = *from);
        ClusterKey { mac: Hmac::new(&block.into()) }
    }
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey")
    }
}

/// The keys that a node has, by number. The log says which one is in force: that of the message that began the
/// generation.
#[derive(Clone, Debug)]
pub struct KeyRing {
    keys: BTreeMap<u32, ClusterKey>,
    current: (u32, ClusterKey),
}

impl KeyRing {
    /// The key `id`, which new generations are written with.
    pub fn new(id: u32, key: ClusterKey) -> KeyRing {
        KeyRing { keys: BTreeMap::from([(id, key.clone())]), current: (id, key) }
    }

    /// Has the key `id` as well.
    pub fn with(mut self, id: u32, key: ClusterKey) -> KeyRing {
        self.keys.insert(id, key);
        self
    }

    pub(crate) fn has(&self, id: u32) -> bool {
        self.keys.contains_key(&id)
    }

    pub(crate) fn current_id(&self) -> u32 {
        self.current.0
    }

    /// Appends the tag of the key `id` to `message`; of the current one if there is no such key.
    pub fn seal(&self, id: u32, message: &mut Vec<u8>) -> Tag {
        let key = self.keys.get(&id).unwrap_or(&self.current.1);
        let tag = Tag(key.mac.clone().chain_update(&*message).finalize().into_bytes().into());
        message.extend(tag.0);
        tag
    }

    /// Whether `tag` is that of `content` under the key `id`.
    pub(crate) fn is_authentic(&self, id: u32, content: &[u8], tag: &Tag) -> bool {
        let mac = self.keys.get(&id).map(|key| key.mac.clone().chain_update(content));
        mac.is_some_and(|mac| mac.verify_slice(&tag.0).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checked with another implementation: `hmac.new(bytes(range(32)), b"what is sealed", "sha256")` of Python.
    #[test]
    fn a_tag_is_hmac_sha_256() {
        let secret = std::array::from_fn(|index| index as u8);
        let mut message = b"what is sealed".to_vec();
        let tag = KeyRing::new(1, ClusterKey::new(&secret)).seal(1, &mut message);
        let hex: String = tag.0.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "3a09154e7f18fbd2a470d6e58a6df8370e938bba0d07dec9f2b127afc17b8d77");
        assert_eq!(Tag::of_message(&message), Some(tag));
    }
}
