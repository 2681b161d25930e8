//! Limits of this crate.

/// Maximum size of a message in octets.
pub const MESSAGE_SIZE_MAX: usize = 8_192;
/// Maximum size of a response of DIGEST-MD5, in octets. RFC 2831 section 2.1.2 requires less than 4,096.
pub const DIGEST_MESSAGE_SIZE_MAX: usize = 4_095;
/// Maximum size of a message with a token, in octets. A token may contain all groups of the user.
pub const BEARER_MESSAGE_SIZE_MAX: usize = 32_768;
/// Maximum size of a Kerberos token, in octets. Windows creates tokens of up to 64 KiB for users with many groups.
pub const KERBEROS_TOKEN_SIZE_MAX: usize = 65_536;
/// Maximum number of keys of an issuer. Further keys are ignored.
pub const TOKEN_KEYS_MAX: usize = 64;
/// Maximum size of a name in a message, in octets.
pub const NAME_SIZE_MAX: usize = 1_024;
/// Maximum size of a client's nonce, in octets. Usual nonces have 24 to 64 octets.
pub const NONCE_SIZE_MAX: usize = 512;
/// Maximum iteration count of keys. RFC 7677 section 4 requires at least 4,096. The iterations are computed by the
/// client and not by the server.
pub const ITERATIONS_MAX: u32 = 10_000_000;
/// Maximum size of a salt in octets.
pub const SALT_SIZE_MAX: usize = 1_024;
