//! Messages between coordinator and agent, and their framing.
//!
//! ```text
//! length: 4 octets, most significant first    JSON: that number of octets
//! ```

use data_encoding::HEXLOWER;

use super::Token;
use crate::driver::{Options, Phase};
use crate::result::{Environment, Second, WorkloadResult};
use hmac::{Hmac, KeyInit, Mac};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Version of the protocol, raised whenever a message changes.
pub(crate) const PROTOCOL: u32 = 2;
/// Maximum size in octets of a message before authentication.
pub(crate) const GREETING_BYTES_MAX: usize = 4096;
/// Maximum size in octets of a message after authentication. A result has a histogram for each second and some
/// kilobytes of text.
pub(crate) const MESSAGE_BYTES_MAX: usize = 256 << 20;
/// Interval at which an agent sends messages during a run.
pub(crate) const WORD_EVERY: Duration = Duration::from_secs(1);
/// Silence after which a machine is considered dead.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Maximum time that either side waits for a message of the greeting.
pub(crate) const GREETING_MAX: Duration = Duration::from_secs(10);

/// The agent's first message.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Challenge {
    pub(crate) protocol: u32,
    pub(crate) version: String,
    /// Random nonce in hexadecimal.
    pub(crate) nonce: String,
}

/// The coordinator's first message.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Proof {
    pub(crate) protocol: u32,
    pub(crate) version: String,
    /// HMAC-SHA256 of the nonce with the token as its key, in hexadecimal.
    pub(crate) mac: String,
}

/// The agent's answer to the coordinator's first message: accepted or refused.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Greeting {
    Welcome { environment: Box<Environment> },
    Refused { reason: String },
}

/// Messages of the coordinator.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// Request the agent's time.
    Clock,
    /// Prepare and connect.
    Run(Box<RunOrder>),
    /// Continue at this time of the agent's clock.
    Go { at_micros: u64 },
}

/// A workload, and the agent's share of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunOrder {
    pub(crate) workload_name: String,
    /// Text of the workload file.
    pub(crate) workload_text: String,
    pub(crate) targets: Vec<String>,
    pub(crate) options: Options,
}

/// Messages of the agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AgentMessage {
    /// Microseconds since 1970.
    Clock { micros: u64 },
    /// The agent is still working.
    Alive,
    /// The agent waits for [`Order::Go`].
    Ready,
    /// Phase of the run, remaining time of the phase, and the counts of the last complete second of the measurement, if
    /// there is one.
    Second { phase: Phase, left: Duration, second: Option<Box<Second>> },
    /// The run is complete.
    Result(Box<WorkloadResult>),
    /// The workload failed before anything was measured.
    Failed { reason: String },
}

/// Computes the proof that the sender has the token.
fn mac(token: &Token, nonce: &str) -> Hmac<Sha256> {
    // HMAC accepts keys of any length.
    let mut mac = Hmac::<Sha256>::new_from_slice(&token.0).expect("a key of any length");
    mac.update(b"pando bench agent ");
    mac.update(nonce.as_bytes());
    mac
}

/// Returns the proof as hexadecimal text.
pub(crate) fn prove(token: &Token, nonce: &str) -> String {
    HEXLOWER.encode(&mac(token, nonce).finalize().into_bytes())
}

/// Returns true if the proof is correct. Compares in constant time.
pub(crate) fn is_proved(token: &Token, nonce: &str, proof: &str) -> bool {
    let Ok(bytes) = HEXLOWER.decode(proof.as_bytes()) else { return false };
    mac(token, nonce).verify_slice(&bytes).is_ok()
}

/// Sends one message.
pub(crate) fn send(sink: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let length = u32::try_from(bytes.len() - 4).map_err(|_| io::Error::from(ErrorKind::InvalidInput))?;
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    sink.write_all(&bytes)?;
    sink.flush()
}

/// Reads one message of at most `bytes_max` octets. Allocates memory only for octets that were received, not for the
/// announced length.
pub(crate) fn receive<T: DeserializeOwned>(source: &mut impl Read, bytes_max: usize) -> io::Result<T> {
    let mut length = [0; 4];
    source.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    let invalid = |message: String| io::Error::new(ErrorKind::InvalidData, message);
    if length > bytes_max {
        return Err(invalid(format!("a message of {length} octets; the limit is {bytes_max}")));
    }
    let mut bytes = Vec::new();
    source.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&bytes).map_err(|error| invalid(format!("not a message of an agent: {error}")))
}

/// Returns the microseconds since 1970.
pub(crate) fn now_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_micros() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip() {
        let mut wire = Vec::new();
        send(&mut wire, &Order::Go { at_micros: 7 }).unwrap();
        send(&mut wire, &AgentMessage::Ready).unwrap();
        let mut source = wire.as_slice();
        assert!(matches!(receive(&mut source, 100), Ok(Order::Go { at_micros: 7 })));
        assert!(matches!(receive(&mut source, 100), Ok(AgentMessage::Ready)));
        let end = receive::<AgentMessage>(&mut source, 100).unwrap_err();
        assert_eq!(end.kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn hostile_messages_are_refused_without_memory_for_them() {
        let check = |bytes: &[u8], kind: ErrorKind| {
            let mut source = bytes;
            assert_eq!(receive::<AgentMessage>(&mut source, 1000).unwrap_err().kind(), kind, "{bytes:?}");
        };
        check(&[0xff, 0xff, 0xff, 0xff, b'x'], ErrorKind::InvalidData);
        check(&[0, 0, 3, 0, b'x'], ErrorKind::UnexpectedEof);
        check(&[0, 0, 0, 2, b'{', b'}'], ErrorKind::InvalidData);
        check(&[0, 0], ErrorKind::UnexpectedEof);
        let deep = [b"\0\0\x03\xe8".as_slice(), &[b'['; 1000]].concat();
        check(&deep, ErrorKind::InvalidData);
    }

    #[test]
    fn a_proof_needs_the_token_and_the_nonce() {
        let token = Token::new("0123456789abcdef").unwrap();
        let other = Token::new("0123456789abcdeF").unwrap();
        let proof = prove(&token, "aa");
        assert!(is_proved(&token, "aa", &proof));
        assert!(!is_proved(&other, "aa", &proof) && !is_proved(&token, "ab", &proof));
        for wrong in ["", "0", "zz", &proof[2..], "é"] {
            assert!(!is_proved(&token, "aa", wrong), "{wrong}");
        }
        assert!(Token::new("short").unwrap_err().contains("openssl rand"));
    }
}
