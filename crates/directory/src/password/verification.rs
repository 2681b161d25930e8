//! Verification of an asserted password. The cost of a verification does not reveal why the password is wrong.
//!
//! A right password costs as much as its stored form. A wrong password costs one verification of the settings' scheme.
//! This cost is the same for an unknown name, an entry without a password, and a stored fast digest. If the stored
//! value itself has the settings' scheme, no additional verification is needed. The duration of a failing bind
//! therefore does not reveal whether a name exists. Password guessing begins with names that exist (RFC 4513 section
//! 6.3.3).
//!
//! Limitation: every slow value of an entry must be tried before the result is negative. Binds to an entry fail later
//! than other binds if the entry's values together cost more than one verification of the settings' scheme. This
//! happens if the entry has several slow values, or if another server made them with a higher cost. Setting the
//! password again corrects this. If the settings' scheme is itself fast, the duration hides only entries with fast
//! digests.

use super::cost::decoy;
use super::{
    Scheme, StorageScheme, Stored, argon2, cost, cost_of_scheme, crypt, is_slow, parse, pbkdf2, try_verify,
    verify,
};

/// Schemes of values that delegate verification to another service: Pando's scheme, and OpenLDAP's scheme for migrated
/// data. Such values match no password.
pub(super) const PASS_THROUGH: [&[u8]; 2] = [b"PASSTHROUGH", b"SASL"];

/// Stored values against which an asserted password is verified.
#[derive(Clone, PartialEq, Eq)]
pub struct Verification {
    stored: Vec<Vec<u8>>,
    scheme: StorageScheme,
}

/// Result of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerificationResult {
    /// Whether the password matches.
    pub is_right: bool,
    /// Number of slow hashes that were computed.
    pub hash_count: u32,
}

/// Formats only the number of stored values.
impl std::fmt::Debug for Verification {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Verification");
        shown.field("stored", &self.stored.len()).field("scheme", &self.scheme).finish()
    }
}

impl Verification {
    /// Creates a verification that succeeds if one of `stored` matches. `scheme` must be the scheme of the settings. A
    /// failure costs as much as a verification of this scheme.
    pub fn new(stored: Vec<Vec<u8>>, scheme: StorageScheme) -> Verification {
        Verification { stored, scheme }
    }

    /// Drops the stored values, so that no password matches. The cost stays the same as for any wrong password.
    pub fn verify_nothing(&mut self) {
        self.stored.clear();
    }

    /// Returns true if a stored value is weaker than a value of `scheme`.
    pub fn has_weaker(&self, scheme: StorageScheme) -> bool {
        self.stored.iter().any(|stored| is_weaker(stored, scheme))
    }

    /// Returns the stored value that matches `asserted`, if the stored value is weaker than a value of `scheme`.
    pub fn weaker_match(&self, asserted: &[u8], scheme: StorageScheme) -> Option<&[u8]> {
        let mut weaker = self.stored.iter().filter(|stored| is_weaker(stored, scheme));
        weaker.find(|stored| verify(stored, asserted)).map(Vec::as_slice)
    }

    /// Returns the stored values, which are secrets.
    pub fn stored(&self) -> &[Vec<u8>] {
        &self.stored
    }

    /// Returns the value that delegates verification to another service, and the name with which to bind to this
    /// service.
    pub fn delegation(&self) -> Option<(&[u8], &str)> {
        self.stored.iter().find_map(|stored| match super::split_scheme(stored) {
            Some((scheme, name))
                if PASS_THROUGH.iter().any(|known| scheme.eq_ignore_ascii_case(known))
                    && !name.is_empty() =>
            {
                Some((stored.as_slice(), std::str::from_utf8(name).ok()?))
            }
            _ => None,
        })
    }

    /// Returns the stored value that matches `asserted`.
    pub fn matching(&self, asserted: &[u8]) -> Option<&[u8]> {
        self.stored.iter().find(|stored| verify(stored, asserted)).map(Vec::as_slice)
    }

    /// Returns the approximate cost of [`run`](Verification::run), in units of [`cost`](super::cost()). The result is
    /// the cost of all slow values, but at least the cost of the settings' scheme, and at least 1.
    pub fn cost(&self) -> u32 {
        let stored = self.stored.iter().map(|stored| cost(stored));
        stored.fold(0, u32::saturating_add).max(cost_of_scheme(self.scheme)).max(1)
    }

    /// Returns the size of the stored values, in bytes.
    pub fn stored_bytes(&self) -> usize {
        self.stored.iter().map(Vec::len).sum()
    }

    /// Verifies a password within microseconds if possible: if a fast value matches, or if neither a value nor the
    /// settings' scheme is slow. Otherwise returns `None`, and [`run`](Verification::run) must be called on the hash
    /// pool.
    pub fn run_quick(&self, asserted: &[u8]) -> Option<bool> {
        // Try all fast values, so that the duration does not reveal which value matches.
        let mut is_right = false;
        for stored in self.stored.iter().filter(|stored| !is_slow(stored)) {
            is_right |= verify(stored, asserted);
        }
        let is_quick = || !self.scheme.is_slow() && !self.stored.iter().any(|stored| is_slow(stored));
        if is_right {
            Some(true)
        } else if is_quick() {
            if self.stored.is_empty() {
                verify(decoy(self.scheme).as_bytes(), asserted);
            }
            Some(false)
        } else {
            None
        }
    }

    /// Verifies the slow values, if [`run_quick`](Verification::run_quick) returned `None`. If no value matches and the
    /// settings' scheme is slow, at least one verification must cost as much as this scheme. If none did, also verifies
    /// a value of this scheme that matches no password.
    pub fn run(&self, asserted: &[u8]) -> VerificationResult {
        let mut verified = VerificationResult { is_right: false, hash_count: 0 };
        let mut is_paid = !self.scheme.is_slow();
        for stored in self.stored.iter().filter(|stored| is_slow(stored)) {
            // Malformed values and values beyond a limit cost no time.
            let Some(is_right) = try_verify(stored, asserted) else { continue };
            verified.hash_count += 1;
            if is_right {
                return VerificationResult { is_right, ..verified };
            }
            is_paid |= costs_like(stored, self.scheme);
        }
        if !is_paid {
            verify(decoy(self.scheme).as_bytes(), asserted);
            verified.hash_count += 1;
        }
        verified
    }
}

/// Returns true if a stored value is easier to crack than a value of `scheme`. Returns false for a value of an unknown
/// scheme.
fn is_weaker(stored: &[u8], scheme: StorageScheme) -> bool {
    let strength = |scheme| match scheme {
        StorageScheme::Clear => 0,
        StorageScheme::Ssha => 2,
        StorageScheme::Ssha256 => 3,
        StorageScheme::Ssha512 => 4,
        StorageScheme::Pbkdf2Sha256 => 6,
        StorageScheme::Argon2id => 7,
    };
    let stored = match parse(stored) {
        Stored::Clear(_) => 0,
        Stored::Unknown(_) => return false,
        Stored::Hashed(Scheme::Digest { salted: false, .. }, _) => 1,
        Stored::Hashed(Scheme::Digest { algorithm, .. }, _) => algorithm.strength(),
        Stored::Hashed(Scheme::Md5Crypt(_), _) => 1,
        Stored::Hashed(Scheme::Crypt, encoded) if crypt::is_obsolete(encoded) => 1,
        Stored::Hashed(Scheme::Crypt, _) => 5,
        Stored::Hashed(Scheme::Pbkdf2(_) | Scheme::Pbkdf2Binary | Scheme::Pkcs5s2, _) => 6,
        Stored::Hashed(Scheme::Argon2, _) => 7,
    };
    stored < strength(scheme)
}

/// Returns true if verifying a stored value costs as much as verifying a value of `scheme`.
fn costs_like(stored: &[u8], scheme: StorageScheme) -> bool {
    match (scheme, parse(stored)) {
        (StorageScheme::Argon2id, Stored::Hashed(Scheme::Argon2, encoded)) => {
            argon2::costs_like_ours(encoded)
        }
        (StorageScheme::Pbkdf2Sha256, Stored::Hashed(Scheme::Pbkdf2(prf), encoded)) => {
            pbkdf2::costs_like_ours(prf, encoded)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::hash;
    use super::*;

    const SLOW: [StorageScheme; 2] = [StorageScheme::Argon2id, StorageScheme::Pbkdf2Sha256];
    const QUICK: [StorageScheme; 4] =
        [StorageScheme::Ssha, StorageScheme::Ssha256, StorageScheme::Ssha512, StorageScheme::Clear];

    fn stored(scheme: StorageScheme) -> Vec<u8> {
        hash(scheme, b"right", &[9; 16])
    }

    #[test]
    fn decoys_cost_as_much_as_stored_values_and_never_match() {
        for scheme in SLOW.into_iter().chain(QUICK) {
            let decoy = decoy(scheme).as_bytes();
            assert!(matches!(parse(decoy), Stored::Hashed(..)), "{scheme}");
            assert_eq!(is_slow(decoy), scheme.is_slow(), "{scheme}");
            assert_eq!(try_verify(decoy, b"x"), Some(false), "{scheme}: computed, and no match");
            if scheme.is_slow() {
                assert!(costs_like(decoy, scheme) && costs_like(&stored(scheme), scheme), "{scheme}");
            }
        }
    }

    /// Regression test: the response to a wrong password took microseconds for a user with {SSHA}, but 16 ms for an
    /// unknown name.
    #[test]
    fn every_failure_costs_one_hash_of_the_configured_scheme() {
        for scheme in SLOW {
            let check = |values: Vec<Vec<u8>>, asserted: &[u8], hash_count| {
                let verification = Verification::new(values, scheme);
                assert_eq!(verification.run_quick(asserted), None, "{scheme}: {verification:?}");
                assert_eq!(
                    verification.run(asserted),
                    VerificationResult { is_right: false, hash_count },
                    "{scheme}"
                );
            };
            check(Vec::new(), b"wrong", 1);
            for quick in QUICK {
                check(vec![stored(quick)], b"wrong", 1);
            }
            check(vec![stored(scheme)], b"wrong", 1);
            check(vec![b"{UNKNOWN}x".to_vec()], b"wrong", 1);
            // The values have slow schemes, but require no work.
            check(vec![b"{ARGON2}nonsense".to_vec(), b"{PBKDF2}0$AA$AA".to_vec()], b"wrong", 1);
            check(vec![stored(scheme), stored(StorageScheme::Ssha)], b"wrong", 1);
            // A password longer than the limit is not hashed, but the verification still counts as one hash.
            let long = vec![b'x'; super::super::limits::PASSWORD_SIZE_MAX + 1];
            check(vec![stored(StorageScheme::Ssha)], &long, 1);
            // Values of other costs, and several values, take additional time: see the limitation in the module's
            // comment.
            check(
                vec![b"{CRYPT}$2b$04$......................7uPgSUoZ3oqIbdBMdTZFGnbpMPbXfWC".to_vec()],
                b"wrong",
                2,
            );
            check(vec![stored(scheme), hash(scheme, b"other", &[1; 16])], b"wrong", 2);
        }
    }

    #[test]
    fn right_passwords_cost_as_much_as_their_stored_form() {
        for scheme in SLOW {
            let slow = stored(scheme);
            for quick in QUICK {
                let verification = Verification::new(vec![slow.clone(), stored(quick)], scheme);
                assert_eq!(verification.run_quick(b"right"), Some(true), "{quick}");
            }
            let verification = Verification::new(vec![stored(StorageScheme::Ssha), slow], scheme);
            assert_eq!(verification.run(b"right"), VerificationResult { is_right: true, hash_count: 1 });
        }
    }

    #[test]
    fn fast_schemes_are_decided_at_once() {
        for scheme in QUICK {
            for values in [Vec::new(), vec![stored(scheme)], vec![stored(StorageScheme::Ssha)]] {
                assert_eq!(Verification::new(values, scheme).run_quick(b"wrong"), Some(false));
            }
            let slow = Verification::new(vec![stored(StorageScheme::Argon2id)], scheme);
            assert_eq!(slow.run_quick(b"right"), None);
            assert_eq!(slow.run(b"wrong"), VerificationResult { is_right: false, hash_count: 1 });
        }
    }

    #[test]
    fn debug_output_contains_no_stored_value() {
        let verification = Verification::new(vec![b"clear-secret".to_vec()], StorageScheme::Clear);
        assert_eq!(format!("{verification:?}"), "Verification { stored: 1, scheme: Clear }");
    }
}
