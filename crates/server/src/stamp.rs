//! The clock and the random source: what the directory is never allowed to ask for itself.

use std::time::{SystemTime, UNIX_EPOCH};

use directory::{Outcome, ServerFault};
use ldap::ResultCode;

use crate::limits::RANDOM_BLOCK_SIZE;

/// Microseconds since 1970-01-01T00:00:00Z by the system's clock; 0 if that is set to before then.
pub(crate) fn now_micros() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX)
}

/// Random bytes of the operating system, taken a block at a time.
#[derive(Debug)]
pub(crate) struct Random {
    block: [u8; RANDOM_BLOCK_SIZE],
    used: usize,
}

impl Default for Random {
    fn default() -> Random {
        Random { block: [0; RANDOM_BLOCK_SIZE], used: RANDOM_BLOCK_SIZE }
    }
}

impl Random {
    /// Sixteen random bytes, never given out twice.
    ///
    /// # Errors
    /// The system has no random bytes to give, which happens before it has gathered any and never later.
    pub(crate) fn bytes(&mut self) -> Result<[u8; 16], getrandom::Error> {
        if self.used + 16 > self.block.len() {
            getrandom::fill(&mut self.block)?;
            self.used = 0;
        }
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.block[self.used..self.used + 16]);
        self.block[self.used..self.used + 16].fill(0);
        self.used += 16;
        Ok(bytes)
    }

    /// A random UUID (version 4, RFC 9562 section 5.4).
    ///
    /// # Errors
    /// As [`bytes`](Random::bytes).
    pub(crate) fn uuid(&mut self) -> Result<[u8; 16], getrandom::Error> {
        let mut bytes = self.bytes()?;
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Ok(bytes)
    }
}

/// The answer to an operation that needs random numbers when the system gives none.
pub(crate) fn no_random_numbers(error: getrandom::Error) -> Outcome {
    let text = format!("no random numbers: {error}");
    Outcome::new(ResultCode::UNAVAILABLE, text).by_fault(ServerFault::Random)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn uuids_differ_and_say_version_four() {
        let mut random = Random::default();
        let mut seen = HashSet::new();
        for _ in 0..3 * RANDOM_BLOCK_SIZE / 16 {
            let uuid = random.uuid().unwrap();
            assert_eq!((uuid[6] >> 4, uuid[8] >> 6), (4, 2));
            assert!(seen.insert(uuid));
        }
    }
}
