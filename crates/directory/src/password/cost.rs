//! Cost of verifying or computing a stored value. The cost is computed from the parameters in the value.
//!
//! The unit is the cost of one Argon2id hash of [`hash`](super::hash), about 20 ms of one core. Queues count in this
//! unit. A limit in this unit applies to the forms that users may store. The factors between schemes are approximate.

use super::{Scheme, StorageScheme, Stored, argon2, crypt, parse, pbkdf2};

/// Argon2 work of one unit: KiB filled in all passes.
const ARGON2_KIB: u64 = 38_912;
/// PBKDF2 work of one unit: runs of the inner HMAC.
const PBKDF2_ROUNDS: u64 = 60_000;
/// SHA-crypt work of one unit: rounds.
const SHA_CRYPT_ROUNDS: u64 = 10_000;
/// DES work of one unit: encryptions.
const DES_ROUNDS: u64 = 20_000;
/// bcrypt work of one unit: the rounds of bcrypt cost 8.
const BCRYPT_ROUNDS: u64 = 1 << 8;
/// yescrypt work of one unit: KiB.
const YESCRYPT_KIB: u64 = 16 << 10;

/// Returns the cost of verifying a stored value. The cost is 0 for clear text, fast digests and malformed values. A
/// value beyond the [`limits`](super::limits) has the cost that it announces, although it is never verified.
pub fn cost(stored: &[u8]) -> u32 {
    let Stored::Hashed(scheme, encoded) = parse(stored) else { return 0 };
    let (work, unit) = match scheme {
        Scheme::Digest { .. } => return 0,
        Scheme::Argon2 => (argon2::work_kib(encoded), ARGON2_KIB),
        Scheme::Pbkdf2(_) => (pbkdf2::rounds(encoded), PBKDF2_ROUNDS),
        Scheme::Pbkdf2Binary => (pbkdf2::rounds_binary(encoded), PBKDF2_ROUNDS),
        Scheme::Pkcs5s2 => (Some(pbkdf2::rounds_pkcs5s2()), PBKDF2_ROUNDS),
        Scheme::Md5Crypt(_) => (Some(1), 1),
        Scheme::Crypt => match crypt::work(encoded) {
            Some(crypt::Work::DesRounds(rounds)) => (Some(rounds), DES_ROUNDS),
            Some(crypt::Work::Fixed) => (Some(1), 1),
            Some(crypt::Work::ShaRounds(rounds)) => (Some(rounds), SHA_CRYPT_ROUNDS),
            Some(crypt::Work::BcryptRounds(rounds)) => (Some(rounds), BCRYPT_ROUNDS),
            Some(crypt::Work::YescryptKib(kib)) => (Some(kib), YESCRYPT_KIB),
            None => (None, 1),
        },
    };
    work.map_or(0, |work| u32::try_from(work.div_ceil(unit).max(1)).unwrap_or(u32::MAX))
}

/// Returns the cost of hashing with a storage scheme. The cost is 0 for a scheme that takes microseconds.
pub fn cost_of_scheme(scheme: StorageScheme) -> u32 {
    cost(decoy(scheme).as_bytes())
}

/// Returns true if a hashed value costs more than users may impose on the server. The limit is the cost of the scheme
/// in the settings, or the cost of Argon2id if the scheme is fast.
pub(crate) fn is_too_costly(stored: &[u8], scheme: StorageScheme) -> bool {
    cost(stored) > cost_of_scheme(scheme).max(1)
}

/// Returns a stored form that costs as much as other values of its scheme, but matches no password, because its salt
/// and hash are zeros. For clear text, returns a value of {SSHA}.
pub(super) fn decoy(scheme: StorageScheme) -> &'static str {
    match scheme {
        StorageScheme::Pbkdf2Sha256 => {
            "{PBKDF2-SHA256}600000$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
        }
        StorageScheme::Argon2id => {
            "{ARGON2}$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$\
             AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
        }
        StorageScheme::Ssha512 => {
            "{SSHA512}AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\
             AAAAAAAA"
        }
        StorageScheme::Ssha256 => "{SSHA256}AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        StorageScheme::Ssha | StorageScheme::Clear => {
            "{SSHA}AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_follows_the_announced_parameters() {
        let binary = |iterations: u32| {
            let octets = [&iterations.to_be_bytes()[..], &[7; 64 + 256]].concat();
            use base64::Engine as _;
            format!("{{PBKDF2_SHA256}}{}", base64::engine::general_purpose::STANDARD.encode(octets))
        };
        let argon2 = |parameters: &str| {
            format!("{{ARGON2}}$argon2id$v=19${parameters}$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA")
        };
        for (stored, expected) in [
            ("secret".to_owned(), 0),
            ("{SSHA}AAAA".to_owned(), 0),
            ("{OTHER}AAAA".to_owned(), 0),
            (argon2("m=19456,t=2,p=1"), 1),
            (argon2("m=7168,t=5,p=1"), 1),
            (argon2("m=65536,t=3,p=4"), 6),
            (argon2("m=262144,t=8,p=1"), 54),
            // Memory beyond the limit.
            (argon2("m=4194304,t=100,p=1"), 10_779),
            ("{PBKDF2-SHA256}600000$AAAA$AAAA".to_owned(), 10),
            ("{PBKDF2}10000$AAAA$AAAA".to_owned(), 1),
            ("{PBKDF2-SHA512}10000000$AAAA$AAAA".to_owned(), 167),
            (binary(8_192), 2),
            (binary(10_000_000), 1_334),
            ("{CRYPT}$6$salt$hash".to_owned(), 1),
            ("{CRYPT}$5$rounds=1000000$salt$hash".to_owned(), 100),
            (format!("{{CRYPT}}$2b$08${}", "a".repeat(53)), 1),
            (format!("{{CRYPT}}$2y$12${}", "a".repeat(53)), 16),
            ("{CRYPT}$2y$12$salthash".to_owned(), 0),
            ("{CRYPT}$y$j9T$salt$hash".to_owned(), 1),
            ("{CRYPT}$y$jDT$salt$hash".to_owned(), 16),
            ("{CRYPT}ab1234567890a".to_owned(), 1),
            ("{CRYPT}ab1234567890".to_owned(), 0),
            ("{CRYPT}$1$saltsalt$hash".to_owned(), 1),
            ("{CRYPT}_J9..rasmz0.F/jqjWck".to_owned(), 1),
            // The maximum number of rounds that this form can announce, which is beyond the limit.
            ("{CRYPT}_zzzzrasmz0.F/jqjWck".to_owned(), 839),
            ("{CRYPT}_zzzz".to_owned(), 0),
            ("{APR1}Ix66H6GmSm9gP+NUjDlZkGx3LjZYNlBw".to_owned(), 1),
            ("{PBKDF2-HMAC-SHA256}600000:AAAA".to_owned(), 10),
            ("{PKCS5S2}AAAA".to_owned(), 1),
            ("{ARGON2}nonsense".to_owned(), 0),
        ] {
            assert_eq!(cost(stored.as_bytes()), expected, "{stored}");
        }
        assert_eq!(cost_of_scheme(StorageScheme::Argon2id), 1);
        assert_eq!(cost_of_scheme(StorageScheme::Pbkdf2Sha256), 10);
        assert_eq!(cost_of_scheme(StorageScheme::Ssha512), 0);
        let two = argon2("m=65536,t=1,p=1");
        assert!(is_too_costly(two.as_bytes(), StorageScheme::Argon2id));
        assert!(is_too_costly(two.as_bytes(), StorageScheme::Ssha));
        assert!(!is_too_costly(two.as_bytes(), StorageScheme::Pbkdf2Sha256));
    }
}
