//! Estimated size and growth of the log, from the messages that this node has read since its start. Kafka does not
//! report the size of a topic on the brokers' disks.

use kafka_log::Message;

/// Bytes that Kafka adds to each message: the head of a record batch with one record, and the head of the record.
const OVERHEAD: u64 = 61 + 12;

const DAY_MILLIS: u64 = 24 * 60 * 60 * 1_000;

/// Messages that were read.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    messages: u64,
    bytes: u64,
    first_millis: u64,
    last_millis: u64,
}

impl Growth {
    pub(crate) fn read(&mut self, message: &Message) {
        let millis = u64::try_from(message.millis).unwrap_or(0);
        if self.messages == 0 {
            self.first_millis = millis;
        }
        self.messages += 1;
        self.bytes += (message.key.len() + message.bytes.len()) as u64 + OVERHEAD;
        self.last_millis = self.last_millis.max(millis);
    }

    /// Returns the estimated size in bytes of `messages` messages on each broker.
    pub(crate) fn bytes_of(&self, messages: u64) -> u64 {
        let bytes = u128::from(self.bytes) * u128::from(messages) / u128::from(self.messages.max(1));
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Returns the estimated growth in bytes a day since the first message that was read. Returns `None` if fewer than
    /// two messages were read, or no time has passed since the first message.
    pub(crate) fn bytes_per_day(&self, now_millis: u64) -> Option<u64> {
        let passed = now_millis.max(self.last_millis).saturating_sub(self.first_millis);
        if self.messages < 2 || passed == 0 {
            return None;
        }
        let bytes = u128::from(self.bytes) * u128::from(DAY_MILLIS) / u128::from(passed);
        Some(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_and_growth_are_estimated_from_read_messages() {
        let mut growth = Growth::default();
        assert_eq!((growth.bytes_of(10), growth.bytes_per_day(5)), (0, None));
        let message = |millis, size| Message { offset: 0, key: Vec::new(), bytes: vec![0; size], millis };
        growth.read(&message(1_000, 100 - 73));
        assert_eq!((growth.bytes_of(10), growth.bytes_per_day(2_000)), (1_000, None));
        growth.read(&message(61_000, 300 - 73));
        assert_eq!(growth.bytes_of(10), 2_000);
        assert_eq!(growth.bytes_per_day(61_000), Some(400 * 24 * 60));
        // Two hours without a message count as well.
        assert_eq!(growth.bytes_per_day(1_000 + 7_200_000), Some(400 * 12));
    }
}
