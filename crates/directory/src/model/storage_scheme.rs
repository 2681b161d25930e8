//! Storage schemes of passwords and their names in settings.

use std::fmt;
use std::str::FromStr;

/// Storage scheme of passwords that arrive in clear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StorageScheme {
    /// `{ARGON2}$argon2id$v=19$m=19456,t=2,p=1$...`, the default: 19 MiB, two passes, one lane, 32 bytes of output, as
    /// OWASP recommends. OpenLDAP's argon2 module and 389 DS's pwdchan can verify it. Takes about 20 ms.
    #[default]
    Argon2id,
    /// `{SSHA}`: one SHA-1 over password and salt. Only for exchange with software without better schemes.
    Ssha,
    /// `{SSHA256}`: one SHA-256.
    Ssha256,
    /// `{SSHA512}`: one SHA-512.
    Ssha512,
    /// `{PBKDF2-SHA256}` with 600,000 iterations, in the format of OpenLDAP and 389 DS. For FIPS requirements.
    Pbkdf2Sha256,
    /// Clear text, as received.
    Clear,
}

impl StorageScheme {
    /// All schemes with their names in settings.
    pub(crate) const NAMES: [(StorageScheme, &'static str); 6] = [
        (StorageScheme::Argon2id, "argon2id"),
        (StorageScheme::Ssha, "ssha"),
        (StorageScheme::Ssha256, "ssha256"),
        (StorageScheme::Ssha512, "ssha512"),
        (StorageScheme::Pbkdf2Sha256, "pbkdf2-sha256"),
        (StorageScheme::Clear, "clear"),
    ];

    /// Returns true if computing or verifying a stored form takes milliseconds, so that the hash pool has to do this
    /// work.
    pub fn is_slow(self) -> bool {
        matches!(self, StorageScheme::Argon2id | StorageScheme::Pbkdf2Sha256)
    }

    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(scheme, _)| *scheme == self).map_or("argon2id", |(_, name)| name)
    }
}

impl fmt::Display for StorageScheme {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Error for a text that names no [`StorageScheme`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown password storage scheme \"{0}\": choose argon2id, ssha, ssha256, ssha512, pbkdf2-sha256 or clear"
)]
pub struct UnknownStorageScheme(pub String);

impl FromStr for StorageScheme {
    type Err = UnknownStorageScheme;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = Self::NAMES.iter().find(|(_, known)| known.eq_ignore_ascii_case(name));
        known.map(|(scheme, _)| *scheme).ok_or_else(|| UnknownStorageScheme(name.to_owned()))
    }
}
