//! Keys of the cluster that a node has. The node's identity file contains the first key and the keys that were in its
//! invitation. Later keys are in a separate file.
//!
//! A node sends to other nodes only keys that it has *seen* in the log, offered or in force. It may receive a key
//! earlier, with a copy of data or from the administrator. It does not send such a key yet: a message that the
//! requesting node has left the cluster may precede the offer of the key in the log.

use std::collections::BTreeMap;
use std::{fs, io};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use replication::{ClusterKey, FIRST_KEY, Fingerprint, KeyRing};
use serde::{Deserialize, Serialize};

use super::{Identity, IdentityError, failed, write_private};
use crate::limits::KEYS_MAX;

const KEYS_FILE: &str = "keys.toml";
/// File with the key that this node has made and that is not in the log yet.
const NEXT_FILE: &str = "next-key";
/// File that records an administrator's request for a new key.
const WANTED_FILE: &str = "key-wanted";

/// All files that this module writes to the folder.
pub(super) const FILES: [&str; 3] = [KEYS_FILE, NEXT_FILE, WANTED_FILE];

/// Key with its number.
pub type NumberedKey = (u32, [u8; 32]);

/// Keys in hexadecimal, by number.
#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct KeysFile {
    seen: BTreeMap<String, String>,
    taken: BTreeMap<String, String>,
}

fn secret(text: &str) -> Option<[u8; 32]> {
    HEXLOWER_PERMISSIVE.decode(text.trim().as_bytes()).ok()?.try_into().ok()
}

fn numbered((number, text): (&String, &String)) -> Option<NumberedKey> {
    let key = (number.parse().ok()?, secret(text)?);
    is_right(&key).then_some(key)
}

/// Returns true if the number of the key is the number that is derived from the secret.
fn is_right((number, secret): &NumberedKey) -> bool {
    ClusterKey::new(secret).fingerprint().number() == *number
}

impl Identity {
    fn first_key(&self) -> Result<[u8; 32], IdentityError> {
        secret(&self.papers.key).ok_or_else(|| failed(&self.folder)("the key of the cluster is damaged"))
    }

    fn keys_file(&self) -> Result<KeysFile, IdentityError> {
        let file = self.folder.join(KEYS_FILE);
        match fs::read_to_string(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(KeysFile::default()),
            text => toml::from_str(&text.map_err(failed(&file))?).map_err(failed(&file)),
        }
    }

    fn keep_keys(&self, keys: &KeysFile) -> Result<(), IdentityError> {
        let text = toml::to_string(keys).map_err(failed(&self.folder))?;
        write_private(&self.folder, KEYS_FILE, text.as_bytes()).map_err(failed(&self.folder))
    }

    /// Reads the keys of the cluster.
    ///
    /// # Errors
    /// The key files are damaged.
    pub fn keys(&self) -> Result<KeyRing, IdentityError> {
        let ring = KeyRing::new(FIRST_KEY, ClusterKey::new(&self.first_key()?));
        let all = self.later_keys()?;
        Ok(all.iter().fold(ring, |ring, (number, secret)| ring.with(*number, ClusterKey::new(secret))))
    }

    /// Reads all keys but the first.
    fn later_keys(&self) -> Result<Vec<NumberedKey>, IdentityError> {
        let file = self.keys_file()?;
        let texts = self.papers.keys.iter().chain(&file.taken).chain(&file.seen);
        let keys = texts.map(numbered).collect::<Option<_>>();
        keys.ok_or_else(|| failed(&self.folder.join(KEYS_FILE))("a key of the cluster is damaged"))
    }

    /// Reads all keys but the first, for an invitation.
    pub(super) fn invited_keys(&self) -> Result<BTreeMap<String, String>, IdentityError> {
        let all = self.later_keys()?;
        Ok(all.iter().map(|(number, secret)| (number.to_string(), HEXLOWER.encode(secret))).collect())
    }

    /// Reads the keys that this node may send to other nodes.
    ///
    /// # Errors
    /// The key files are damaged.
    pub fn given_keys(&self) -> Result<Vec<NumberedKey>, IdentityError> {
        let file = self.keys_file()?;
        let first = (FIRST_KEY, self.first_key()?);
        Ok(std::iter::once(first).chain(file.seen.iter().filter_map(numbered)).collect())
    }

    /// Stores keys that another node sent, at most [`KEYS_MAX`]. Keys with wrong numbers are ignored.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn take_keys(&self, given: &[NumberedKey]) -> Result<(), IdentityError> {
        let mut file = self.keys_file()?;
        for (number, secret) in given.iter().filter(|key| is_right(key)).take(KEYS_MAX) {
            let number = number.to_string();
            if !file.seen.contains_key(&number) {
                file.taken.insert(number, HEXLOWER.encode(secret));
            }
        }
        self.keep_keys(&file)
    }

    /// Records that the key with this number is in the log, offered or in force.
    ///
    /// # Errors
    ///
    /// The folder cannot be written.
    pub fn note_seen(&self, number: u32) -> Result<(), IdentityError> {
        let mut file = self.keys_file()?;
        let number = number.to_string();
        let secret = file.taken.remove(&number).or_else(|| self.papers.keys.get(&number).cloned());
        match secret.filter(|_| !file.seen.contains_key(&number)) {
            Some(key) => {
                file.seen.insert(number, key);
                self.keep_keys(&file)
            }
            None => Ok(()),
        }
    }

    /// Creates a new key and stores it in a separate file until the offer of the key is in the log.
    ///
    /// # Errors
    ///
    /// There is no randomness, or the folder cannot be written.
    pub fn make_next_key(&self) -> Result<Fingerprint, IdentityError> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(failed(&self.folder))?;
        write_private(&self.folder, NEXT_FILE, HEXLOWER.encode(&secret).as_bytes())
            .map_err(failed(&self.folder))?;
        Ok(ClusterKey::new(&secret).fingerprint())
    }

    /// If the key that this node created has this fingerprint, moves it to the ordinary keys and returns true. Must be
    /// called after this node has read the offer of the key from the log.
    ///
    /// # Errors
    /// The folder cannot be read or written.
    pub fn keep_next_key(&self, offered: &Fingerprint) -> Result<bool, IdentityError> {
        let own_key = fs::read_to_string(self.folder.join(NEXT_FILE)).ok().and_then(|text| secret(&text));
        let Some(own_key) = own_key.filter(|secret| ClusterKey::new(secret).fingerprint() == *offered) else {
            return Ok(false);
        };
        self.take_keys(&[(offered.number(), own_key)])?;
        self.note_seen(offered.number())?;
        self.remove(NEXT_FILE)?;
        Ok(true)
    }

    /// Returns true if an administrator has asked for a new key.
    pub fn is_key_wanted(&self) -> bool {
        self.folder.join(WANTED_FILE).exists()
    }

    /// Asks the process that serves this node for a new key, or withdraws the request.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn want_key(&self, is_wanted: bool) -> Result<(), IdentityError> {
        match is_wanted {
            true => write_private(&self.folder, WANTED_FILE, b"").map_err(failed(&self.folder)),
            false => self.remove(WANTED_FILE),
        }
    }

    fn remove(&self, name: &str) -> Result<(), IdentityError> {
        let file = self.folder.join(name);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&file)(error)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_sent_only_once_the_log_has_it() {
        let folder = std::env::temp_dir().join(format!("pando-keys-{}", std::process::id()));
        let identity = Identity::create(&folder).unwrap();
        let given = |identity: &Identity| identity.given_keys().unwrap().len();
        assert_eq!(given(&identity), 1);

        // The node's own next key is stored separately. An older key of the node must not be mistaken for it.
        let old = identity.make_next_key().unwrap();
        let own_key = identity.make_next_key().unwrap();
        assert!(!identity.keep_next_key(&old).unwrap() && !identity.keys().unwrap().has(own_key.number()));
        assert!(identity.keep_next_key(&own_key).unwrap() && identity.keys().unwrap().has(own_key.number()));
        assert!(!identity.keep_next_key(&own_key).unwrap(), "once");
        assert_eq!(given(&identity), 2);

        // The node stores a key that it receives early, and ignores bytes that are not a key.
        let other = ClusterKey::new(&[3; 32]).fingerprint().number();
        identity.take_keys(&[(other, [3; 32]), (77, [3; 32])]).unwrap();
        let ring = identity.keys().unwrap();
        assert!(ring.has(other) && !ring.has(77));
        assert_eq!(given(&identity), 2);
        identity.note_seen(other).unwrap();
        identity.take_keys(&[(other, [3; 32])]).unwrap();
        assert_eq!(given(&identity), 3);

        // An invitation contains all keys.
        let (invitation, _) = identity.invite(false).unwrap();
        let file = folder.join("invitation");
        fs::write(&file, invitation).unwrap();
        let invited = Identity::accept(&folder.join("second"), &file).unwrap();
        let ring = invited.keys().unwrap();
        assert!(ring.has(FIRST_KEY) && ring.has(own_key.number()) && ring.has(other));
        assert_eq!(given(&invited), 1);
        invited.note_seen(other).unwrap();
        assert_eq!(given(&invited), 2);
        fs::remove_dir_all(&folder).unwrap();
    }
}
