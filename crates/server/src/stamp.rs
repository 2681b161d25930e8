//! Reading of the clock, and random numbers. The directory itself uses neither.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use directory::{Outcome, ServerFault, Stamp};
use ldap::ResultCode;

use crate::limits::RANDOM_BLOCK_SIZE;

/// Returns the current time in microseconds since 1970-01-01T00:00:00Z; 0 if the system's clock is earlier.
pub(crate) fn now_micros() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the current time in seconds since 1970.
pub(crate) fn now_seconds() -> i64 {
    i64::try_from(now_micros() / 1_000_000).unwrap_or(i64::MAX)
}

/// Returns the current time in microseconds since 1970, in the integer type that the times of passwords have.
pub(crate) fn password_time() -> i64 {
    i64::try_from(now_micros()).unwrap_or(i64::MAX)
}

/// Returns the number of microseconds since `start`.
pub(crate) fn micros_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// Returns the processor time that this thread has used, in microseconds.
pub(crate) fn thread_micros() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000 + time.tv_nsec / 1_000).unwrap_or(0)
}

/// Returns the stamp (time and UUID) of a change that a command makes, or that the server makes when it starts.
pub(crate) fn new_stamp(random: &mut Random) -> Result<Stamp, getrandom::Error> {
    Ok(Stamp { now_micros: now_micros(), uuid: random.uuid()?, ..Stamp::default() })
}

/// Random bytes of the operating system. They are read in blocks.
#[derive(Debug)]
pub(crate) struct Random {
    block: [[u8; 16]; RANDOM_BLOCK_SIZE / 16],
    used: usize,
}

impl Default for Random {
    fn default() -> Random {
        let block = [[0; 16]; RANDOM_BLOCK_SIZE / 16];
        Random { used: block.len(), block }
    }
}

impl Random {
    /// Returns sixteen random bytes. Each call returns different bytes.
    ///
    /// # Errors
    /// The system returns no random bytes. That is possible only shortly after the boot.
    pub(crate) fn bytes(&mut self) -> Result<[u8; 16], getrandom::Error> {
        loop {
            if let Some(bytes) = self.block.get_mut(self.used) {
                self.used += 1;
                return Ok(std::mem::take(bytes));
            }
            getrandom::fill(self.block.as_flattened_mut())?;
            self.used = 0;
        }
    }

    /// Returns a random UUID (version 4, RFC 9562 section 5.4).
    ///
    /// # Errors
    /// The same as those of [`bytes`](Random::bytes).
    pub(crate) fn uuid(&mut self) -> Result<[u8; 16], getrandom::Error> {
        let mut bytes = self.bytes()?;
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Ok(bytes)
    }
}

/// Returns the outcome of an operation that failed because the system returned no random numbers.
pub(crate) fn no_random_numbers(error: getrandom::Error) -> Outcome {
    let text = format!("no random numbers: {error}");
    Outcome::new(ResultCode::UNAVAILABLE, text).by_fault(ServerFault::Random)
}

/// Returns a password of 80 random bits that people can easily read and type. It consists of sixteen letters and digits
/// in groups of four, without letters and digits that look alike.
pub(crate) fn readable_password(random: &[u8; 16]) -> String {
    letters(random)
}

/// Returns an application password of 100 random bits. It consists of twenty letters and digits like those of
/// [`readable_password`], in groups of four.
pub(crate) fn application_password(random: &[[u8; 16]; 2]) -> String {
    letters(random.as_flattened().get(..20).unwrap_or_default())
}

/// Converts each octet to a letter or digit, in groups of four.
fn letters(random: &[u8]) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";
    let mut text = String::new();
    for (place, byte) in random.iter().enumerate() {
        if place > 0 && place % 4 == 0 {
            text.push('-');
        }
        text.extend(ALPHABET.get(usize::from(byte % 32)).copied().map(char::from));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn uuids_differ_and_have_version_four() {
        let mut random = Random::default();
        let mut seen = HashSet::new();
        for _ in 0..3 * RANDOM_BLOCK_SIZE / 16 {
            let uuid = random.uuid().unwrap();
            assert_eq!((uuid[6] >> 4, uuid[8] >> 6), (4, 2));
            assert!(seen.insert(uuid));
        }
    }

    #[test]
    fn generated_passwords_can_be_typed() {
        let random = std::array::from_fn(|place| (place as u8).wrapping_mul(37));
        let password = readable_password(&random);
        assert_eq!(password.len(), 19);
        assert!(password.split('-').all(|group| group.len() == 4));
        assert_ne!(password, readable_password(&[7; 16]));
    }
}
