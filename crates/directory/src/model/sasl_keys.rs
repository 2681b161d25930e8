//! SASL keys: keys derived from a clear password. With these keys, the password's user can bind by challenge-response
//! mechanisms.

use std::ops::ControlFlow;

use super::limits::{DIGEST_NAME_SIZE_MAX, DIGEST_NAMES_MAX};

/// Keys to derive from a clear password.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SaslKeyRules {
    /// Mechanisms that need a key.
    pub mechanisms: Vec<String>,
    /// Iteration count of SCRAM keys.
    pub iterations: u32,
    /// Names for which keys for DIGEST-MD5 are derived, one key for each name, in the client's spelling. Empty without
    /// a realm.
    pub names: Vec<String>,
    /// Realm of the keys for DIGEST-MD5; empty if DIGEST-MD5 is not among the mechanisms.
    pub realm: String,
}

/// Collects the names of a user for which keys for DIGEST-MD5 are derived. A key takes about 300 octets in a row, so
/// only a few values are examined. Each value gives at most one name.
#[derive(Debug, Default)]
pub(crate) struct DigestNames {
    names: Vec<String>,
    looked_at: usize,
}

impl DigestNames {
    /// Examines a value of an identity attribute.
    pub(crate) fn look_at(&mut self, value: &[u8]) -> ControlFlow<()> {
        if self.looked_at == DIGEST_NAMES_MAX {
            return ControlFlow::Break(());
        }
        self.looked_at += 1;
        let fits = |name: &&str| !name.is_empty() && name.len() <= DIGEST_NAME_SIZE_MAX;
        if let Some(name) = std::str::from_utf8(value).ok().filter(fits)
            && !self.names.iter().any(|other| other == name)
        {
            self.names.push(name.to_owned());
        }
        ControlFlow::Continue(())
    }

    /// Returns the collected names.
    pub(crate) fn finish(self) -> Vec<String> {
        self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_the_number_and_length_of_names() {
        let long = "x".repeat(DIGEST_NAME_SIZE_MAX + 1);
        let gathered = |values: &[&[u8]]| {
            let mut names = DigestNames::default();
            let looked_at = values.iter().take_while(|value| names.look_at(value).is_continue()).count();
            (names.finish(), looked_at)
        };
        let (names, looked_at) = gathered(&[b"anna", b"\xff", long.as_bytes(), b"anna", b"a", b"b"]);
        assert_eq!((names, looked_at), (vec!["anna".to_owned()], DIGEST_NAMES_MAX));
        let many: Vec<String> = (0..1_000).map(|number| format!("u{number}")).collect();
        let (names, looked_at) = gathered(&many.iter().map(|name| name.as_bytes()).collect::<Vec<_>>());
        assert_eq!((names.len(), looked_at), (DIGEST_NAMES_MAX, DIGEST_NAMES_MAX));
        assert_eq!(gathered(&[b"", &long.as_bytes()[1..]]).0, [&long[1..]]);
    }
}
