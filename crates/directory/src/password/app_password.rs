//! Application passwords, which a user has in addition to the user's own password. Each application password is for one
//! program, which must not know the user's own password.
//!
//! Application passwords are random, and so long that a fast digest suffices to protect them. Trying all of a user's
//! application passwords therefore takes microseconds. Application passwords need no time-based code. Rules about the
//! age and change of the user's own password do not apply to application passwords.

use super::{Stored, is_slow, parse, verify};

/// An application password.
#[derive(Clone, PartialEq, Eq)]
pub struct AppPassword {
    /// Attribute options that name the application.
    pub options: String,
    /// Stored form.
    pub stored: Vec<u8>,
    /// Expiry time.
    pub end: Option<i64>,
    /// Time of the last recorded use.
    pub last_used: Option<i64>,
}

/// Formats the password without its stored form.
impl std::fmt::Debug for AppPassword {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppPassword").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Returns true if an application password may have this stored form. The form must be a digest, because only a digest
/// is hashed but fast to verify.
pub fn is_fit(stored: &[u8]) -> bool {
    matches!(parse(stored), Stored::Hashed(..)) && !is_slow(stored)
}

/// Returns the application password that matches `asserted` and has not expired at this time.
pub fn matching_password<'a>(
    passwords: &'a [AppPassword],
    asserted: &[u8],
    now: i64,
) -> Option<&'a AppPassword> {
    let mut found = None;
    // Try all passwords, so that the duration does not reveal which password matches.
    for password in passwords.iter().filter(|password| is_fit(&password.stored)) {
        if verify(&password.stored, asserted) && password.end.is_none_or(|end| now < end) {
            found = Some(password);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::{StorageScheme, hash};
    use super::*;

    #[test]
    fn finds_the_matching_password_until_it_expires() {
        let password = |options: &str, clear: &[u8], scheme, end| AppPassword {
            options: options.to_owned(),
            stored: hash(scheme, clear, &[7; 16]),
            end,
            last_used: None,
        };
        let all = [
            password("x-app-mail", b"one", StorageScheme::Ssha512, None),
            password("x-app-scan", b"two", StorageScheme::Ssha512, Some(100)),
            password("x-app-slow", b"three", StorageScheme::Pbkdf2Sha256, None),
            password("x-app-open", b"four", StorageScheme::Clear, None),
        ];
        let found =
            |asserted: &[u8], now| matching_password(&all, asserted, now).map(|of| of.options.as_str());
        assert_eq!(found(b"one", 1_000), Some("x-app-mail"));
        assert_eq!([99, 100].map(|now| found(b"two", now)), [Some("x-app-scan"), None]);
        for none in [&b"three"[..], b"four", b"", b"five"] {
            assert_eq!(found(none, 0), None);
        }
    }
}
