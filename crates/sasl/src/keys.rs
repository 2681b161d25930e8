//! The keys for SCRAM that a server derives from a password and stores (RFC 5802 section 3), and their text (RFC 5803).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};
use zeroize::Zeroizing;

use crate::limits::{ITERATIONS_MAX, SALT_SIZE_MAX};
use crate::prepared;

/// The hash function of a SCRAM mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// SCRAM-SHA-1.
    Sha1,
    /// SCRAM-SHA-256.
    Sha256,
    /// SCRAM-SHA-512.
    Sha512,
}

impl Hash {
    /// All hash functions, the strongest first.
    pub const ALL: [Hash; 3] = [Hash::Sha512, Hash::Sha256, Hash::Sha1];

    /// Returns the name of the mechanism without channel binding.
    pub fn mechanism(self) -> &'static str {
        match self {
            Hash::Sha1 => "SCRAM-SHA-1",
            Hash::Sha256 => "SCRAM-SHA-256",
            Hash::Sha512 => "SCRAM-SHA-512",
        }
    }

    /// Returns the name of the mechanism with channel binding.
    pub fn mechanism_plus(self) -> &'static str {
        match self {
            Hash::Sha1 => "SCRAM-SHA-1-PLUS",
            Hash::Sha256 => "SCRAM-SHA-256-PLUS",
            Hash::Sha512 => "SCRAM-SHA-512-PLUS",
        }
    }

    /// Returns the hash function of the mechanism with this name, and whether the mechanism uses channel binding.
    pub fn of_mechanism(name: &str) -> Option<(Hash, bool)> {
        Hash::ALL.into_iter().find_map(|hash| {
            let is = |mechanism: &str| mechanism.eq_ignore_ascii_case(name);
            match (is(hash.mechanism()), is(hash.mechanism_plus())) {
                (true, _) => Some((hash, false)),
                (_, true) => Some((hash, true)),
                _ => None,
            }
        })
    }

    pub(crate) fn size(self) -> usize {
        match self {
            Hash::Sha1 => 20,
            Hash::Sha256 => 32,
            Hash::Sha512 => 64,
        }
    }

    pub(crate) fn digest(self, data: &[u8]) -> Vec<u8> {
        match self {
            Hash::Sha1 => Sha1::digest(data).to_vec(),
            Hash::Sha256 => Sha256::digest(data).to_vec(),
            Hash::Sha512 => Sha512::digest(data).to_vec(),
        }
    }

    pub(crate) fn hmac(self, key: &[u8], data: &[u8]) -> Vec<u8> {
        match self {
            Hash::Sha1 => hmac::<Hmac<Sha1>>(key, data),
            Hash::Sha256 => hmac::<Hmac<Sha256>>(key, data),
            Hash::Sha512 => hmac::<Hmac<Sha512>>(key, data),
        }
    }

    /// Returns the salted password. The client key and the server key are derived from the salted password. A client
    /// may store the salted password.
    pub(crate) fn salted(self, password: &str, salt: &[u8], iterations: u32) -> Vec<u8> {
        let password = prepared(password);
        let mut output = vec![0; self.size()];
        match self {
            Hash::Sha1 => pbkdf2::pbkdf2_hmac::<Sha1>(password.as_bytes(), salt, iterations, &mut output),
            Hash::Sha256 => pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), salt, iterations, &mut output),
            Hash::Sha512 => pbkdf2::pbkdf2_hmac::<Sha512>(password.as_bytes(), salt, iterations, &mut output),
        }
        output
    }
}

fn hmac<M: Mac + KeyInit>(key: &[u8], data: &[u8]) -> Vec<u8> {
    // HMAC accepts keys of any length (RFC 2104 section 2). Therefore this call does not fail.
    let Ok(mac) = <M as KeyInit>::new_from_slice(key) else { return Vec::new() };
    mac.chain_update(data).finalize().into_bytes().to_vec()
}

/// The keys that a server derives from a password and stores for one mechanism. They are not sufficient for a bind, but
/// an attacker who has them can test guesses of the password without the server.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramKeys {
    /// Hash function of the mechanism.
    pub hash: Hash,
    /// Iteration count of the salted password.
    pub iterations: u32,
    /// Salt of the salted password.
    pub salt: Vec<u8>,
    pub(crate) stored_key: Vec<u8>,
    pub(crate) server_key: Vec<u8>,
}

/// Does not show the keys.
impl std::fmt::Debug for ScramKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScramKeys").field("hash", &self.hash).finish_non_exhaustive()
    }
}

impl ScramKeys {
    /// Derives the keys from a password. The cost is proportional to `iterations`. 4,096 iterations take some
    /// milliseconds.
    pub fn derive(hash: Hash, password: &str, salt: &[u8], iterations: u32) -> ScramKeys {
        // Each of these two values is sufficient for a bind. Therefore both are erased from memory.
        let salted = Zeroizing::new(hash.salted(password, salt, iterations));
        let client_key = Zeroizing::new(hash.hmac(&salted, b"Client Key"));
        ScramKeys {
            hash,
            iterations,
            salt: salt.to_vec(),
            stored_key: hash.digest(&client_key),
            server_key: hash.hmac(&salted, b"Server Key"),
        }
    }

    /// Returns keys that no password matches, for a user who does not exist. The salt depends only on the name (RFC
    /// 5802 section 9).
    pub fn of_unknown_user(hash: Hash, secret: &[u8], name: &[u8], iterations: u32) -> ScramKeys {
        let salt = hash.hmac(secret, name).into_iter().take(16).collect();
        let nothing = hash.hmac(secret, b"no password");
        ScramKeys { hash, iterations, salt, stored_key: nothing.clone(), server_key: nothing }
    }

    /// Returns the keys as text (RFC 5803 section 2): `SCRAM-SHA-256$4096:SALT$STORED:SERVER`.
    pub fn text(&self) -> String {
        let encode = |bytes: &[u8]| STANDARD.encode(bytes);
        format!(
            "{}${}:{}${}:{}",
            self.hash.mechanism(),
            self.iterations,
            encode(&self.salt),
            encode(&self.stored_key),
            encode(&self.server_key)
        )
    }

    /// Parses the text of keys. Returns `None` if `text` does not contain keys or the iteration count is too high.
    pub fn parse(text: &str) -> Option<ScramKeys> {
        let mut parts = text.split('$').map(str::trim);
        let (scheme, info, value) = (parts.next()?, parts.next()?, parts.next()?);
        let (hash, has_binding) = Hash::of_mechanism(scheme)?;
        let (iterations, salt) = info.split_once(':')?;
        let (stored_key, server_key) = value.split_once(':')?;
        let decode = |text: &str| STANDARD.decode(text).ok();
        let keys = ScramKeys {
            hash,
            iterations: iterations.parse().ok()?,
            salt: decode(salt)?,
            stored_key: decode(stored_key)?,
            server_key: decode(server_key)?,
        };
        let fits = parts.next().is_none()
            && !has_binding
            && (1..=ITERATIONS_MAX).contains(&keys.iterations)
            && (1..=SALT_SIZE_MAX).contains(&keys.salt.len())
            && keys.stored_key.len() == hash.size()
            && keys.server_key.len() == hash.size();
        fits.then_some(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_decode_as_encoded() {
        for hash in Hash::ALL {
            let keys = ScramKeys::derive(hash, "pencil", b"some salt", 10);
            assert_eq!(ScramKeys::parse(&keys.text()), Some(keys.clone()));
            assert_eq!(Hash::of_mechanism(hash.mechanism_plus()), Some((hash, true)));
        }
        let good = ScramKeys::derive(Hash::Sha256, "x", b"salt", 4_096).text();
        for bad in [
            String::new(),
            good.replace("4096", "0"),
            good.replace("4096", "99999999999"),
            good.replace("SHA-256", "SHA-1"),
            good.replace("SHA-256", "SHA-256-PLUS"),
            good.replace(':', ";"),
            format!("{good}$x"),
        ] {
            assert_eq!(ScramKeys::parse(&bad), None, "{bad}");
        }
    }

    #[test]
    fn unknown_users_have_a_stable_salt_of_their_own() {
        let keys = |name: &str| ScramKeys::of_unknown_user(Hash::Sha256, b"secret", name.as_bytes(), 4_096);
        assert_eq!(keys("anna"), keys("anna"));
        assert_ne!(keys("anna").salt, keys("bert").salt);
        assert_eq!(keys("anna").salt.len(), 16);
    }
}
