//! Every bound of this crate.

/// Octets of a message that is looked at.
pub const MESSAGE_SIZE_MAX: usize = 8_192;
/// Octets of a response of DIGEST-MD5 (RFC 2831 section 2.1.2 wants fewer than 4,096).
pub const DIGEST_MESSAGE_SIZE_MAX: usize = 4_095;
/// Octets of a message with a token, which lists a user's groups at times.
pub const BEARER_MESSAGE_SIZE_MAX: usize = 32_768;
/// Octets of a token of Kerberos: 64 KiB is the largest that Windows makes of a user with many groups.
pub const KERBEROS_TOKEN_SIZE_MAX: usize = 65_536;
/// Keys of an issuer that are looked at.
pub const TOKEN_KEYS_MAX: usize = 64;
/// Octets of a name, as it comes.
pub const NAME_SIZE_MAX: usize = 1_024;
/// Octets of a client's nonce; the usual ones have 24 to 64.
pub const NONCE_SIZE_MAX: usize = 512;
/// Iterations of keys that are used: RFC 7677 section 4 wants 4,096 at least, and each costs who binds, not us.
pub const ITERATIONS_MAX: u32 = 10_000_000;
/// Octets of a salt.
pub const SALT_SIZE_MAX: usize = 1_024;
