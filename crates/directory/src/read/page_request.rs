//! The page that a search request names (RFC 2696).

use ldap::PagedResults;

use crate::model::limits::SORT_KEY_MAX;

/// Size of a cookie without its seal (the HMAC at its end), in octets.
pub(super) const POSITION_SIZE: usize = 17;

/// Size of the seal of a cookie, in octets.
pub(super) const SEAL_SIZE: usize = 16;

/// A cookie for results that are not sorted.
pub(super) type CookieBytes = [u8; COOKIE_SIZE];

const COOKIE_SIZE: usize = POSITION_SIZE + SEAL_SIZE;

/// Maximum size of a cookie in octets. A cookie may contain a sort key.
const COOKIE_SIZE_MAX: usize = 1 << 10;

const _: () = assert!(SORT_KEY_MAX + 64 < COOKIE_SIZE_MAX);

/// The page that a search request names: its size, and the cookie that gives its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRequest {
    pub(super) size: u32,
    pub(super) cookie: Cookie,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cookie {
    /// No cookie: the first page.
    Empty,
    /// A cookie for results that are not sorted.
    Sealed(CookieBytes),
    /// A longer cookie, for sorted results and deleted entries.
    Sorted(Box<[u8]>),
    /// A cookie of a length that this server never issues.
    Foreign,
}

impl PageRequest {
    /// Creates the request from the value of the control.
    pub(crate) fn of(value: PagedResults<'_>) -> PageRequest {
        let cookie = match value.cookie {
            [] => Cookie::Empty,
            cookie => match (cookie.try_into(), cookie.len()) {
                (Ok(sealed), _) => Cookie::Sealed(sealed),
                (Err(_), ..COOKIE_SIZE | COOKIE_SIZE_MAX..) => Cookie::Foreign,
                (Err(_), _) => Cookie::Sorted(cookie.into()),
            },
        };
        PageRequest { size: value.size, cookie }
    }
}
