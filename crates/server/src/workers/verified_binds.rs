//! Passwords that were verified a short while ago, so that an application that binds again and again costs one slow
//! hash a minute.
//!
//! Kept is a MAC, by a key that this process alone has, of the asserted password and of all stored values that it was
//! verified by. So nothing has to be forgotten when a password changes: other stored values are another MAC. What a
//! policy says of an account (a lock, an age, a forced change) is asked at every bind, with the cache as without; a
//! lock takes the stored values away before this is asked. A wrong password is never here, and costs what it always
//! did.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use directory::password::Verification;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::limits::VERIFIED_BINDS_MAX;

/// What was verified, as nobody else can compute it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct VerifiedKey([u8; 32]);

/// All that was verified lately.
pub(crate) struct VerifiedBinds {
    secret: Zeroizing<[u8; 32]>,
    /// When each was verified.
    verified: Mutex<HashMap<VerifiedKey, Instant>>,
}

impl VerifiedBinds {
    /// With a secret of its own.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub(crate) fn new() -> Result<VerifiedBinds, getrandom::Error> {
        let mut secret = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *secret)?;
        Ok(VerifiedBinds { secret, verified: Mutex::default() })
    }

    /// The key of an assertion.
    pub(crate) fn key(&self, verification: &Verification, asserted: &[u8]) -> Option<VerifiedKey> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&*self.secret).ok()?;
        for stored in verification.stored() {
            mac.update(&stored.len().to_be_bytes());
            mac.update(stored);
        }
        // No stored value is as long, so what follows is none.
        mac.update(&usize::MAX.to_be_bytes());
        mac.update(asserted);
        Some(VerifiedKey(mac.finalize().into_bytes().into()))
    }

    /// Whether this was verified within `lifetime`.
    pub(crate) fn has(&self, key: &VerifiedKey, lifetime: Duration, now: Instant) -> bool {
        self.lock().get(key).is_some_and(|verified| now.saturating_duration_since(*verified) < lifetime)
    }

    /// Keeps that this was just verified. A full table keeps what is in it until that is old.
    pub(crate) fn keep(&self, key: VerifiedKey, lifetime: Duration, now: Instant) {
        let mut verified = self.lock();
        if verified.len() >= VERIFIED_BINDS_MAX {
            verified.retain(|_, verified| now.saturating_duration_since(*verified) < lifetime);
            if verified.len() >= VERIFIED_BINDS_MAX {
                return;
            }
        }
        verified.insert(key, now);
    }

    /// Keys are put in and taken out whole, so a poisoned lock is fit for use.
    fn lock(&self) -> MutexGuard<'_, HashMap<VerifiedKey, Instant>> {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use directory::password::StorageScheme;

    use super::*;

    const LIFETIME: Duration = Duration::from_secs(60);

    #[test]
    fn only_the_same_password_of_the_same_values_is_known_and_not_for_long() {
        let (binds, now) = (VerifiedBinds::new().unwrap(), Instant::now());
        let key = |stored: &[&[u8]], asserted: &[u8]| {
            let stored = stored.iter().map(|stored| stored.to_vec()).collect();
            binds.key(&Verification::new(stored, StorageScheme::Argon2id), asserted).unwrap()
        };
        let known = key(&[b"one", b"two"], b"secret");
        binds.keep(known, LIFETIME, now);
        assert!(binds.has(&key(&[b"one", b"two"], b"secret"), LIFETIME, now));
        for other in [
            key(&[b"one", b"two"], b"Secret"),
            key(&[b"one", b"two"], b""),
            key(&[b"one"], b"secret"),
            key(&[b"onetwo"], b"secret"),
            key(&[b"one", b"tw"], b"osecret"),
            key(&[], b"secret"),
        ] {
            assert!(!binds.has(&other, LIFETIME, now));
        }
        assert!(!binds.has(&known, LIFETIME, now + LIFETIME));
        let others = VerifiedBinds::new().unwrap();
        let elsewhere = Verification::new(vec![b"one".to_vec(), b"two".to_vec()], StorageScheme::Argon2id);
        assert_ne!(others.key(&elsewhere, b"secret"), Some(known), "another process");
    }

    #[test]
    fn the_table_is_bounded() {
        let (binds, now) = (VerifiedBinds::new().unwrap(), Instant::now());
        let key = |number: usize| {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&number.to_be_bytes());
            VerifiedKey(bytes)
        };
        (0..VERIFIED_BINDS_MAX + 5).for_each(|number| binds.keep(key(number), LIFETIME, now));
        assert_eq!(binds.lock().len(), VERIFIED_BINDS_MAX);
        assert!(!binds.has(&key(VERIFIED_BINDS_MAX), LIFETIME, now));
        binds.keep(key(VERIFIED_BINDS_MAX), LIFETIME, now + LIFETIME);
        assert_eq!(binds.lock().len(), 1, "what is old goes");
    }
}
