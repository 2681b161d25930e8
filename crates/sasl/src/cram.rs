//! CRAM-MD5 (RFC 2195). The client proves the password by an HMAC-MD5 of the server's challenge.
//!
//! The server needs the password, or the two states of MD5 after the padded key. These states are the part of HMAC that
//! does not depend on the challenge. The server stores the states. The password cannot be computed from them, but they
//! are sufficient for a bind with CRAM-MD5.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::digest::common::hazmat::{SerializableState, SerializedState};
use md5::{Digest as _, Md5};
use subtle::ConstantTimeEq as _;

use crate::SaslError;
use crate::limits::{MESSAGE_SIZE_MAX, NAME_SIZE_MAX};

/// Name of the mechanism.
pub const CRAM_MD5: &str = "CRAM-MD5";

/// Size of a block of MD5, in octets. HMAC pads keys to this size.
const BLOCK_SIZE: usize = 64;

/// The key that a server derives from a password and stores.
#[derive(Clone, PartialEq, Eq)]
pub struct CramKey {
    inner: [u8; 16],
    outer: [u8; 16],
}

/// Does not show the key.
impl std::fmt::Debug for CramKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CramKey").finish_non_exhaustive()
    }
}

impl CramKey {
    /// Derives the key from a password.
    pub fn derive(password: &[u8]) -> CramKey {
        let mut key = [0; BLOCK_SIZE];
        if password.len() > BLOCK_SIZE {
            key.iter_mut().zip(Md5::digest(password)).for_each(|(octet, of)| *octet = of);
        } else {
            key.iter_mut().zip(password).for_each(|(octet, of)| *octet = *of);
        }
        // The two paddings of RFC 2104 section 2.
        CramKey {
            inner: state_after(key.map(|octet| octet ^ 0x36)),
            outer: state_after(key.map(|octet| octet ^ 0x5c)),
        }
    }

    /// Returns a key that no password matches.
    pub fn of_unknown_user() -> CramKey {
        CramKey { inner: [0; 16], outer: [0; 16] }
    }

    /// Returns the key as text: `CRAM-MD5$` and both states in base64.
    pub fn text(&self) -> String {
        format!("{CRAM_MD5}${}", STANDARD.encode([self.inner, self.outer].concat()))
    }

    /// Parses the text of a key. Returns `None` if `text` is not a key.
    pub fn parse(text: &str) -> Option<CramKey> {
        let (scheme, states) = text.split_once('$')?;
        let states = STANDARD.decode(states).ok().filter(|_| scheme.eq_ignore_ascii_case(CRAM_MD5))?;
        let (inner, outer) = states.split_at_checked(16)?;
        Some(CramKey { inner: inner.try_into().ok()?, outer: outer.try_into().ok()? })
    }

    /// Returns the digest that a client with the password sends as the response to this challenge.
    fn proof(&self, challenge: &[u8]) -> Option<[u8; 16]> {
        let inner = continued(self.inner)?.chain_update(challenge).finalize();
        Some(continued(self.outer)?.chain_update(inner).finalize().into())
    }
}

/// Returns the state of MD5 after it has processed one block.
fn state_after(block: [u8; BLOCK_SIZE]) -> [u8; 16] {
    let mut state = [0; 16];
    let serialized = Md5::new().chain_update(block).serialize();
    state.iter_mut().zip(serialized).for_each(|(octet, of)| *octet = of);
    state
}

/// Returns an MD5 computation that continues from `state`, the state after one block.
fn continued(state: [u8; 16]) -> Option<Md5> {
    // Besides the state, the serialized form contains the number of blocks and an empty buffer. The number and the
    // empty buffer are the same after any single block.
    let mut serialized: SerializedState<Md5> = Md5::new().chain_update([0; BLOCK_SIZE]).serialize();
    serialized.iter_mut().zip(state).for_each(|(octet, of)| *octet = of);
    Md5::deserialize(&serialized).ok()
}

/// Returns the challenge of the server. `random` must be unique and printable.
pub fn challenge(random: &str, seconds: u64) -> String {
    format!("<{random}.{seconds}@pando>")
}

/// The response of the client. It does not implement `Debug`, because it proves a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer<'a> {
    /// Name of the user.
    pub name: &'a str,
    proof: [u8; 16],
}

impl<'a> Answer<'a> {
    /// Parses the response. It consists of a name, a space and 32 hexadecimal digits.
    ///
    /// # Errors
    /// The message is malformed.
    pub fn parse(message: &'a [u8]) -> Result<Answer<'a>, SaslError> {
        let malformed = SaslError::Malformed;
        let text = std::str::from_utf8(message).map_err(|_| malformed("it is not UTF-8"))?;
        let (name, digits) =
            text.rsplit_once(' ').ok_or(malformed("a name, a space and a proof expected"))?;
        if message.len() > MESSAGE_SIZE_MAX || name.is_empty() || name.len() > NAME_SIZE_MAX {
            return Err(malformed("the name is empty, or too long"));
        }
        let digits = digits.as_bytes();
        let mut proof = [0; 16];
        let is_proof = digits.len() == 32
            && digits.chunks_exact(2).zip(&mut proof).all(|(pair, octet)| {
                let text = std::str::from_utf8(pair).unwrap_or_default();
                let read =
                    u8::from_str_radix(text, 16).ok().filter(|_| pair.iter().all(u8::is_ascii_hexdigit));
                *octet = read.unwrap_or_default();
                read.is_some()
            });
        if is_proof {
            Ok(Answer { name, proof })
        } else {
            Err(malformed("a proof has 32 hexadecimal digits"))
        }
    }

    /// Returns true if the response to `challenge` proves the password of this key.
    pub fn is_right(&self, key: &CramKey, challenge: &str) -> bool {
        key.proof(challenge.as_bytes()).is_some_and(|proof| proof.ct_eq(&self.proof).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in RFC 2195 section 2.
    const CHALLENGE: &str = "<1896.697170952@postoffice.reston.mci.net>";

    #[test]
    fn the_exchange_of_the_rfc_is_verified() {
        let key = CramKey::derive(b"tanstaaftanstaaf");
        let answer = Answer::parse(b"tim b913a602c7eda7a495b4e6e7334d3890").ok().unwrap();
        assert_eq!(answer.name, "tim");
        assert!(answer.is_right(&key, CHALLENGE));
        assert!(!answer.is_right(&CramKey::derive(b"tanstaaftanstaag"), CHALLENGE));
        assert!(!answer.is_right(&key, "<1896.697170953@postoffice.reston.mci.net>"));
        assert!(!answer.is_right(&CramKey::of_unknown_user(), CHALLENGE));
        assert_eq!(CramKey::parse(&key.text()), Some(key));
    }

    /// A key that is longer than a block is hashed first. The result is the same as the result of the library's HMAC.
    #[test]
    fn proofs_equal_the_hmac_for_keys_of_every_length() {
        use hmac::{Hmac, KeyInit as _, Mac as _};
        for length in [1, 16, 63, 64, 65, 200] {
            let password = vec![b'x'; length];
            let expected = Hmac::<Md5>::new_from_slice(&password).unwrap().chain_update(CHALLENGE).finalize();
            let proof = CramKey::derive(&password).proof(CHALLENGE.as_bytes()).unwrap();
            assert_eq!(proof, *expected.into_bytes(), "{length}");
        }
    }

    #[test]
    fn malformed_answers_and_keys_are_refused() {
        let long = format!("{} {}", "a".repeat(NAME_SIZE_MAX + 1), "0".repeat(32));
        for bad in [
            &b""[..],
            b" ",
            b"tim",
            b"tim b913",
            b" b913a602c7eda7a495b4e6e7334d3890",
            b"tim b913a602c7eda7a495b4e6e7334d389g",
            b"tim +913a602c7eda7a495b4e6e7334d3890",
            b"\xff b913a602c7eda7a495b4e6e7334d3890",
            long.as_bytes(),
        ] {
            assert!(Answer::parse(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
        for bad in ["", "CRAM-MD5", "CRAM-MD5$", "CRAM-MD5$AAAA", "SCRAM-SHA-1$AAAA"] {
            assert_eq!(CramKey::parse(bad), None, "{bad}");
        }
    }
}
