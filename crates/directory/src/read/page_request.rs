//! The page of a search that a request asks for (RFC 2696).

use ldap::PagedResults;

/// Octets of a cookie before its seal.
pub(super) const POSITION_SIZE: usize = 17;

/// Octets of the seal.
pub(super) const SEAL_SIZE: usize = 16;

/// A cookie as it goes to the client.
pub(super) type CookieBytes = [u8; POSITION_SIZE + SEAL_SIZE];

/// The page that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest {
    pub(super) size: u32,
    pub(super) cookie: Cookie,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cookie {
    /// The first page.
    Empty,
    /// As long as ours are.
    Sealed(CookieBytes),
    /// Of another length.
    Foreign,
}

impl PageRequest {
    /// Takes over what the control says.
    pub(crate) fn of(value: PagedResults<'_>) -> PageRequest {
        let cookie = match (value.cookie.is_empty(), value.cookie.try_into()) {
            (true, _) => Cookie::Empty,
            (false, Ok(sealed)) => Cookie::Sealed(sealed),
            (false, Err(_)) => Cookie::Foreign,
        };
        PageRequest { size: value.size, cookie }
    }
}
