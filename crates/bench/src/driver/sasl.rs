//! Client side of CRAM-MD5 (RFC 2195) and SCRAM (RFC 5802, RFC 7677). It is fast enough for thousands of binds per
//! second, because each salted password is computed only once.

use std::collections::HashMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Digest;

use crate::workload::BindMechanism;

/// Cache of salted passwords. The key is mechanism, password, salt and number of iterations.
pub(crate) type SaltedPasswords = HashMap<(bool, Vec<u8>, Vec<u8>, u32), Vec<u8>>;

type Hash = fn(&[u8]) -> Vec<u8>;
type KeyedHash = fn(&[u8], &[u8]) -> Vec<u8>;

/// Maximum number of iterations. Servers require fewer, and more would take minutes.
const ITERATIONS_MAX: u32 = 10_000_000;

/// State of one bind.
#[derive(Debug)]
pub(crate) struct Exchange {
    mechanism: BindMechanism,
    user: Vec<u8>,
    password: Vec<u8>,
    nonce: String,
    client_first_bare: String,
    /// Signature that the server must send.
    server_signature: Option<Vec<u8>>,
}

impl Exchange {
    pub(crate) fn new(mechanism: BindMechanism, user: Vec<u8>, password: Vec<u8>, random: u64) -> Exchange {
        let nonce = format!("{random:016x}{:016x}", random.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Exchange {
            mechanism,
            user,
            password,
            nonce,
            client_first_bare: String::new(),
            server_signature: None,
        }
    }

    pub(crate) fn mechanism(&self) -> &'static str {
        self.mechanism.sasl_name().unwrap_or_default()
    }

    /// Returns the credentials of the first request.
    pub(crate) fn first(&mut self) -> Option<Vec<u8>> {
        if self.mechanism == BindMechanism::CramMd5 {
            return None;
        }
        let user = String::from_utf8_lossy(&self.user).replace('=', "=3D").replace(',', "=2C");
        self.client_first_bare = format!("n={user},r={}", self.nonce);
        Some(format!("n,,{}", self.client_first_bare).into_bytes())
    }

    /// Returns the response to a challenge.
    ///
    /// # Errors
    /// The challenge is malformed or unacceptable.
    pub(crate) fn answer(
        &mut self,
        challenge: &[u8],
        salted: &mut SaltedPasswords,
    ) -> Result<Vec<u8>, &'static str> {
        match self.mechanism {
            BindMechanism::CramMd5 => {
                let digest = mac::<Hmac<md5::Md5>>(&self.password, challenge);
                let mut response = self.user.clone();
                response.push(b' ');
                response.extend(HEXLOWER.encode(&digest).into_bytes());
                Ok(response)
            }
            _ if self.server_signature.is_some() => Ok(Vec::new()),
            BindMechanism::ScramSha256 => self.scram(challenge, salted, true),
            _ => self.scram(challenge, salted, false),
        }
    }

    fn scram(
        &mut self,
        challenge: &[u8],
        salted: &mut SaltedPasswords,
        is_256: bool,
    ) -> Result<Vec<u8>, &'static str> {
        const NO_CHALLENGE: &str = "the server's SCRAM challenge is none";
        let challenge = std::str::from_utf8(challenge).map_err(|_| NO_CHALLENGE)?;
        let field = |name: &str| challenge.split(',').find_map(|field| field.strip_prefix(name));
        let nonce = field("r=").filter(|nonce| nonce.starts_with(&self.nonce)).ok_or(NO_CHALLENGE)?;
        let salt = field("s=").and_then(|salt| BASE64_STANDARD.decode(salt).ok()).ok_or(NO_CHALLENGE)?;
        let iterations = field("i=").and_then(|count| count.parse().ok()).ok_or(NO_CHALLENGE)?;
        if !(1..=ITERATIONS_MAX).contains(&iterations) {
            return Err("the server's SCRAM challenge has an impossible number of iterations");
        }
        let (hmac, hash): (KeyedHash, Hash) = if is_256 {
            (mac::<Hmac<sha2::Sha256>>, |octets| sha2::Sha256::digest(octets).to_vec())
        } else {
            (mac::<Hmac<sha1::Sha1>>, |octets| sha1::Sha1::digest(octets).to_vec())
        };
        let known = salted.entry((is_256, self.password.clone(), salt, iterations));
        let salted = known.or_insert_with_key(|(_, password, salt, iterations)| {
            if is_256 {
                pbkdf2::pbkdf2_hmac_array::<sha2::Sha256, 32>(password, salt, *iterations).to_vec()
            } else {
                pbkdf2::pbkdf2_hmac_array::<sha1::Sha1, 20>(password, salt, *iterations).to_vec()
            }
        });
        let without_proof = format!("c=biws,r={nonce}");
        let message = format!("{},{challenge},{without_proof}", self.client_first_bare);
        let client_key = hmac(salted, b"Client Key");
        let signature = hmac(&hash(&client_key), message.as_bytes());
        let proof: Vec<u8> =
            client_key.iter().zip(&signature).map(|(key, signature)| key ^ signature).collect();
        self.server_signature = Some(hmac(&hmac(salted, b"Server Key"), message.as_bytes()));
        Ok(format!("{without_proof},p={}", BASE64_STANDARD.encode(proof)).into_bytes())
    }

    /// Returns true if the server has authenticated itself by its last message. With CRAM-MD5, servers do not
    /// authenticate themselves, so the function returns true.
    pub(crate) fn is_proven(&self, last: Option<&[u8]>) -> bool {
        let Some(signature) = &self.server_signature else { return self.mechanism == BindMechanism::CramMd5 };
        let verifier = last.and_then(|last| last.strip_prefix(b"v="));
        verifier
            .and_then(|verifier| BASE64_STANDARD.decode(verifier).ok())
            .is_some_and(|given| given == *signature)
    }
}

fn mac<M: Mac + KeyInit>(key: &[u8], message: &[u8]) -> Vec<u8> {
    // HMAC accepts keys of any length, so this cannot fail.
    let Ok(mut mac) = <M as KeyInit>::new_from_slice(key) else { return Vec::new() };
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cram_md5_matches_the_example_of_rfc_2195() {
        let mut exchange =
            Exchange::new(BindMechanism::CramMd5, b"tim".to_vec(), b"tanstaaftanstaaf".to_vec(), 1);
        assert_eq!(exchange.first(), None);
        let challenge = b"<1896.697170952@postoffice.reston.mci.net>";
        let answer = exchange.answer(challenge, &mut SaltedPasswords::new()).unwrap();
        assert_eq!(answer, b"tim b913a602c7eda7a495b4e6e7334d3890");
        assert!(exchange.is_proven(None));
    }

    /// The examples of RFC 5802 section 5 and RFC 7677 section 3.
    #[test]
    fn scram_matches_the_examples_of_its_rfcs() {
        for (mechanism, nonce, challenge, last, verifier) in [
            (
                BindMechanism::ScramSha1,
                "fyko+d2lbbFgONRv9qkxdawL",
                "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
                "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
                "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
            ),
            (
                BindMechanism::ScramSha256,
                "rOprNGfwEbeRWgbNEkqO",
                "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
                "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                 p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
                "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
            ),
        ] {
            let mut exchange = Exchange::new(mechanism, b"user".to_vec(), b"pencil".to_vec(), 1);
            exchange.nonce = nonce.to_owned();
            assert_eq!(exchange.first().unwrap(), format!("n,,n=user,r={nonce}").into_bytes());
            let mut salted = SaltedPasswords::new();
            let answer = exchange.answer(challenge.as_bytes(), &mut salted).unwrap();
            assert_eq!(String::from_utf8(answer).unwrap(), last);
            assert!(exchange.is_proven(Some(verifier.as_bytes())));
            assert!(!exchange.is_proven(Some(b"v=AAAA")) && !exchange.is_proven(None));
            for broken in ["", "r=other,s=QSXCR+Q6sek8bf92,i=4096", &challenge.replace("i=4096", "i=0")] {
                let mut exchange = Exchange::new(mechanism, Vec::new(), Vec::new(), 1);
                exchange.nonce = nonce.to_owned();
                assert!(exchange.answer(broken.as_bytes(), &mut salted).is_err(), "{broken}");
            }
        }
    }
}
