//! Limits of this crate.

/// Most octets of a message.
pub const MESSAGE_SIZE_MAX: usize = 8_192;
/// Most octets of a response of DIGEST-MD5 (RFC 2831 section 2.1.2 requires fewer than 4,096).
pub const DIGEST_MESSAGE_SIZE_MAX: usize = 4_095;
/// Most octets of a message with a token, which may list a user's groups.
pub const BEARER_MESSAGE_SIZE_MAX: usize = 32_768;
/// Most octets of a token of Kerberos: 64 KiB is the largest that Windows makes of a user with many groups.
pub const KERBEROS_TOKEN_SIZE_MAX: usize = 65_536;
/// Most keys of an issuer.
pub const TOKEN_KEYS_MAX: usize = 64;
/// Most octets of a name, as received.
pub const NAME_SIZE_MAX: usize = 1_024;
/// Most octets of a client's nonce; the usual ones have 24 to 64.
pub const NONCE_SIZE_MAX: usize = 512;
/// Most iterations of keys: RFC 7677 section 4 requires at least 4,096, and they cost the client, not the server.
pub const ITERATIONS_MAX: u32 = 10_000_000;
/// Most octets of a salt.
pub const SALT_SIZE_MAX: usize = 1_024;
