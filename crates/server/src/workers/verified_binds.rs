//! Cache of recently verified passwords. An application that binds repeatedly costs only one slow hash in the lifetime
//! of a cached password.
//!
//! The key of an entry is a MAC of the asserted password and of all stored values with which it was verified. Only this
//! process can compute the MAC. A changed password needs no invalidation, because other stored values give another MAC.
//! The state of the account under its policy (locked, expired, must change) is checked at every bind, even if the
//! password is cached. A locked account has no stored values to match. A wrong password is never cached and always
//! costs the full verification.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use directory::password::Verification;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::limits::VERIFIED_BINDS_MAX;

/// MAC of a verification, which only this process can compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct VerifiedKey([u8; 32]);

/// Cache of recently verified passwords.
pub(crate) struct VerifiedBinds {
    secret: Zeroizing<[u8; 32]>,
    /// Time of each verification, by the key of the password.
    verified: Mutex<HashMap<VerifiedKey, Instant>>,
}

impl VerifiedBinds {
    /// Creates a cache with a new random key.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub(crate) fn new() -> Result<VerifiedBinds, getrandom::Error> {
        let mut secret = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *secret)?;
        Ok(VerifiedBinds { secret, verified: Mutex::default() })
    }

    /// Returns the cache key for an asserted password.
    pub(crate) fn key(&self, verification: &Verification, asserted: &[u8]) -> Option<VerifiedKey> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&*self.secret).ok()?;
        for stored in verification.stored() {
            mac.update(&stored.len().to_be_bytes());
            mac.update(stored);
        }
        // This length separates the stored values from the password, because no stored value has it.
        mac.update(&usize::MAX.to_be_bytes());
        mac.update(asserted);
        Some(VerifiedKey(mac.finalize().into_bytes().into()))
    }

    /// Returns true if the password with this key was verified within `lifetime`.
    pub(crate) fn has(&self, key: &VerifiedKey, lifetime: Duration, now: Instant) -> bool {
        self.lock().get(key).is_some_and(|verified| now.saturating_duration_since(*verified) < lifetime)
    }

    /// Adds a verification. Does nothing if the table is full of verifications that are younger than `lifetime`.
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

    /// Keys are inserted and removed in one step. Therefore a poisoned lock is usable.
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
    fn a_verified_bind_is_cached_for_the_same_password_and_stored_values() {
        let (binds, now) = (VerifiedBinds::new().unwrap(), Instant::now());
        let key = |stored: &[&[u8]], asserted: &[u8]| {
            let stored = stored.iter().map(|stored| stored.to_vec()).collect();
            binds.key(&Verification::new(stored, StorageScheme::Argon2id), asserted).unwrap()
        };
        let cached_key = key(&[b"one", b"two"], b"secret");
        binds.keep(cached_key, LIFETIME, now);
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
        assert!(!binds.has(&cached_key, LIFETIME, now + LIFETIME));
        let others = VerifiedBinds::new().unwrap();
        let elsewhere = Verification::new(vec![b"one".to_vec(), b"two".to_vec()], StorageScheme::Argon2id);
        assert_ne!(others.key(&elsewhere, b"secret"), Some(cached_key), "another process");
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
        assert_eq!(binds.lock().len(), 1, "expired rows are removed");
    }
}
