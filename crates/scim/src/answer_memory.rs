//! Limit on the memory of large answers. If a client reads slowly, its answer stays in memory. While an answer is being
//! composed, its resources occupy several times the size of the answer.
//!
//! The size of a large answer counts from its search until its last octet was sent. If there is no room, the request is
//! answered with 503. The answers to one address may use half of the memory.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Result, ScimError};
use crate::limits::{ANSWER_FREE_BYTES, ANSWERS_BYTES_MAX};

/// Number of octets that the answers to each address occupy.
#[derive(Debug, Default)]
pub(crate) struct AnswerMemory(Mutex<HashMap<IpAddr, usize>>);

/// The memory that one answer occupies. Dropping this struct releases it.
#[derive(Debug)]
pub struct AnswerShare {
    memory: Arc<AnswerMemory>,
    client: IpAddr,
    octets: usize,
}

impl AnswerMemory {
    /// Returns a share of size 0 for an answer to this client.
    pub(crate) fn share(self: &Arc<AnswerMemory>, client: IpAddr) -> AnswerShare {
        AnswerShare { memory: Arc::clone(self), client, octets: 0 }
    }
}

impl AnswerShare {
    /// Enlarges the share to `octets` if it is smaller.
    ///
    /// # Errors
    /// 503 if there is not enough room because of other answers.
    pub(crate) fn reach(&mut self, octets: usize) -> Result<()> {
        let more = octets.saturating_sub(self.octets);
        if octets <= ANSWER_FREE_BYTES || more == 0 {
            return Ok(());
        }
        let mut shares = self.memory.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_all = shares.values().sum::<usize>() + more;
        let of_client = shares.get(&self.client).copied().unwrap_or_default() + more;
        if of_all > ANSWERS_BYTES_MAX || of_client > ANSWERS_BYTES_MAX / 2 {
            let text =
                "other large answers are being sent: read them, ask for fewer resources, or try again later";
            return Err(ScimError::new(503, text));
        }
        shares.insert(self.client, of_client);
        self.octets = octets;
        Ok(())
    }
}

impl Drop for AnswerShare {
    fn drop(&mut self) {
        let mut shares = self.memory.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = shares.get(&self.client).map_or(0, |octets| octets.saturating_sub(self.octets));
        match left {
            0 => drop(shares.remove(&self.client)),
            left => drop(shares.insert(self.client, left)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_gets_half_of_the_memory_and_dropped_shares_are_freed() {
        let memory = Arc::new(AnswerMemory::default());
        let share = |last: u8, octets: usize| {
            let mut share = memory.share(IpAddr::from([192, 0, 2, last]));
            share.reach(octets).map(|()| share)
        };
        let half = ANSWERS_BYTES_MAX / 2;
        let mut first = share(1, half - ANSWER_FREE_BYTES - 1).unwrap();
        assert!(share(1, ANSWER_FREE_BYTES + 2).is_err(), "its half is used");
        assert!(share(1, ANSWER_FREE_BYTES).is_ok(), "a small answer");
        first.reach(10).unwrap();
        first.reach(half).unwrap();
        let second = share(2, half).unwrap();
        assert_eq!(share(3, ANSWER_FREE_BYTES + 1).unwrap_err().status, 503);
        drop(second);
        drop(share(3, half).unwrap());
        drop(first);
        assert!(memory.0.lock().unwrap().is_empty());
    }
}
