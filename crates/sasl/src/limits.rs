//! Limits of this crate.

/// Maximum size of a message in octets.
pub const MESSAGE_SIZE_MAX: usize = 8_192;
/// Maximum size of a DIGEST-MD5 response in octets (RFC 2831 section 2.1.2 requires fewer than 4,096).
pub const DIGEST_MESSAGE_SIZE_MAX: usize = 4_095;
/// Maximum size in octets of a message with a token, which may list a user's groups.
pub const BEARER_MESSAGE_SIZE_MAX: usize = 32_768;
/// Maximum size of a Kerberos token in octets: 64 KiB, the maximum that Windows creates for a user with many groups.
pub const KERBEROS_TOKEN_SIZE_MAX: usize = 65_536;
/// Maximum number of keys of an issuer.
pub const TOKEN_KEYS_MAX: usize = 64;
/// Maximum size of a name in octets, as received.
pub const NAME_SIZE_MAX: usize = 1_024;
/// Maximum size of a client's nonce in octets. Usual nonces have 24 to 64 octets.
pub const NONCE_SIZE_MAX: usize = 512;
/// Maximum iteration count of keys. RFC 7677 section 4 requires at least 4,096. The cost is the client's, not the
/// server's.
pub const ITERATIONS_MAX: u32 = 10_000_000;
/// Maximum size of a salt in octets.
pub const SALT_SIZE_MAX: usize = 1_024;
