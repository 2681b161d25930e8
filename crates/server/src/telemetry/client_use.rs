//! The work for clients, listeners and indexes: sums, and their text in `cn=monitor`.

use std::fmt;
use std::str::FromStr;

/// Work of the event loops and the scan threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Processor time of the event loops and the scan threads, in microseconds.
    pub micros: u64,
    /// Number of finished operations.
    pub operations: u64,
    /// Number of entries that searches examined. A search is counted when it finishes.
    pub examined: u64,
    /// Number of received octets.
    pub bytes_received: u64,
    /// Number of sent octets.
    pub bytes_sent: u64,
}

impl Work {
    /// Adds `other` to this sum.
    pub(crate) fn add(&mut self, other: &Work) {
        self.micros = self.micros.saturating_add(other.micros);
        self.operations = self.operations.saturating_add(other.operations);
        self.examined = self.examined.saturating_add(other.examined);
        self.bytes_received = self.bytes_received.saturating_add(other.bytes_received);
        self.bytes_sent = self.bytes_sent.saturating_add(other.bytes_sent);
    }

    /// Returns the difference to an earlier value of this sum.
    pub(crate) fn since(&self, earlier: &Work) -> Work {
        Work {
            micros: self.micros.wrapping_sub(earlier.micros),
            operations: self.operations.wrapping_sub(earlier.operations),
            examined: self.examined.wrapping_sub(earlier.examined),
            bytes_received: self.bytes_received.wrapping_sub(earlier.bytes_received),
            bytes_sent: self.bytes_sent.wrapping_sub(earlier.bytes_sent),
        }
    }
}

/// The work for one client. A client is an identity at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientUse {
    /// The work.
    pub work: Work,
    /// The client's address, or the user of this machine. An IPv6 address is reduced to its first 64 bits.
    pub source: String,
    /// DN of the client's identity, possibly shortened. It is empty for an anonymous client.
    pub dn: String,
}

/// Names of the numbers in the text of a [`ClientUse`], in their order.
const NUMBERS: [&str; 5] = ["microseconds", "operations", "examined", "received", "sent"];

impl fmt::Display for ClientUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Work { micros, operations, examined, bytes_received, bytes_sent } = self.work;
        for (name, number) in NUMBERS.iter().zip([micros, operations, examined, bytes_received, bytes_sent]) {
            write!(f, "{name}={number} ")?;
        }
        write!(f, "source={:?} dn={}", self.source, self.dn)
    }
}

/// Error of a text that is not the text of a [`ClientUse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the use of a client, as this version writes it")]
pub struct ClientUseError;

impl FromStr for ClientUse {
    type Err = ClientUseError;

    fn from_str(text: &str) -> Result<ClientUse, ClientUseError> {
        let (numbers, rest) = text.split_once("source=\"").ok_or(ClientUseError)?;
        let (source, dn) = rest.split_once("\" dn=").ok_or(ClientUseError)?;
        let mut found = [0; NUMBERS.len()];
        let mut words = numbers.split_ascii_whitespace();
        for (name, number) in NUMBERS.iter().zip(&mut found) {
            let value = words.next().and_then(|word| word.strip_prefix(name)?.strip_prefix('='));
            *number = value.and_then(|value| value.parse().ok()).ok_or(ClientUseError)?;
        }
        let [micros, operations, examined, bytes_received, bytes_sent] = found;
        let work = Work { micros, operations, examined, bytes_received, bytes_sent };
        Ok(ClientUse { work, source: source.to_owned(), dn: dn.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_use_decodes_as_encoded() {
        let work = Work { micros: 1, operations: 2, examined: 3, bytes_received: 4, bytes_sent: 5 };
        for dn in ["", "cn=a \"b\" dn=c,o=d", "uid=ä,o=b"] {
            let used = ClientUse { work, source: "user 0 of this machine".to_owned(), dn: dn.to_owned() };
            assert_eq!(used.to_string().parse(), Ok(used));
        }
        assert_eq!("microseconds=1".parse::<ClientUse>(), Err(ClientUseError));
    }
}
