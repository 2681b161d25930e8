//! Argon2 (RFC 9106) in PHC strings, as OpenLDAP's argon2 module and libargon2 write them.

use ::argon2::password_hash::phc::PasswordHash;
use ::argon2::{Algorithm, Argon2, Params, PasswordHasher as _, PasswordVerifier as _, Version};

use super::limits;

/// Parameters of new hashes, which are OWASP's first choice for Argon2id: memory in KiB, passes, lanes, and output size
/// in bytes.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;
const OUTPUT_SIZE: usize = 32;

pub(super) fn verify(encoded: &[u8], asserted: &[u8]) -> Option<bool> {
    let mut hash = PasswordHash::new(std::str::from_utf8(encoded).ok()?).ok()?;
    // A missing `v=` means the first version, as in libargon2. The library used here would assume the present version.
    hash.version = hash.version.or(Some(Version::V0x10.into()));
    if !is_in_bounds(&Params::try_from(&hash).ok()?) {
        return None;
    }
    Some(Argon2::default().verify_password(asserted, &hash).is_ok())
}

/// Returns true if the work that a value announces is within the limits. Returns `None` if the value cannot be read.
pub(super) fn in_bounds(encoded: &[u8]) -> Option<bool> {
    let hash = PasswordHash::new(std::str::from_utf8(encoded).ok()?).ok()?;
    Some(is_in_bounds(&Params::try_from(&hash).ok()?))
}

fn is_in_bounds(params: &Params) -> bool {
    let memory_kib = u64::from(params.m_cost());
    memory_kib <= limits::MEMORY_KIB_MAX
        && memory_kib * u64::from(params.t_cost()) <= limits::ARGON2_WORK_KIB_MAX
}

/// Returns the memory that a verification of a value fills in all passes, in KiB.
pub(super) fn work_kib(encoded: &[u8]) -> Option<u64> {
    let hash = PasswordHash::new(std::str::from_utf8(encoded).ok()?).ok()?;
    let params = Params::try_from(&hash).ok()?;
    Some(u64::from(params.m_cost()).saturating_mul(u64::from(params.t_cost())))
}

/// Returns true if verifying a value costs as much as verifying a hash of [`hash`]. The variant of Argon2 may differ.
pub(super) fn costs_like_ours(encoded: &[u8]) -> bool {
    let Some(hash) = std::str::from_utf8(encoded).ok().and_then(|text| PasswordHash::new(text).ok()) else {
        return false;
    };
    Params::try_from(&hash).is_ok_and(|params| {
        (params.m_cost(), params.t_cost(), params.p_cost()) == (MEMORY_KIB, PASSES, LANES)
    })
}

/// Hashes a clear password. Returns `None` if the memory cannot be allocated.
pub(super) fn hash(clear: &[u8], salt: &[u8]) -> Option<Vec<u8>> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, Some(OUTPUT_SIZE)).ok()?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hash: PasswordHash = argon2.hash_password_with_salt(clear, salt).ok()?;
    Some(format!("{{ARGON2}}{hash}").into_bytes())
}
