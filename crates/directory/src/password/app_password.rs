//! Passwords of applications: beside a user's own password, each for a program that cannot be given that one.
//!
//! They are made at random, long enough that a quick digest keeps them, so trying all of them costs microseconds. A
//! code does not come with them, and neither age nor change of the user's own password is about them.

use super::{Stored, is_slow, parse, verify};

/// The password of an application.
#[derive(Clone, PartialEq, Eq)]
pub struct AppPassword {
    /// The options of its attributes, which name the application.
    pub options: String,
    /// As it is stored.
    pub stored: Vec<u8>,
    /// When it ends.
    pub end: Option<i64>,
    /// When it was used last, as far as that is recorded.
    pub last_used: Option<i64>,
}

/// Shows no password.
impl std::fmt::Debug for AppPassword {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppPassword").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Whether a stored form is one that an application's password may have: a salted digest, which is quick.
pub fn is_fit(stored: &[u8]) -> bool {
    matches!(parse(stored), Stored::Hashed(..)) && !is_slow(stored)
}

/// The one of these that is right, and has not ended at this time.
pub fn right_one<'a>(passwords: &'a [AppPassword], asserted: &[u8], now: i64) -> Option<&'a AppPassword> {
    let mut found = None;
    // All of them, so that the place of the right one does not tell.
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
    fn the_right_one_is_found_until_it_ends() {
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
        let found = |asserted: &[u8], now| right_one(&all, asserted, now).map(|of| of.options.as_str());
        assert_eq!(found(b"one", 1_000), Some("x-app-mail"));
        assert_eq!([99, 100].map(|now| found(b"two", now)), [Some("x-app-scan"), None]);
        for none in [&b"three"[..], b"four", b"", b"five"] {
            assert_eq!(found(none, 0), None);
        }
    }
}
