//! The page of a search that a request asks for (RFC 2696).

use ldap::{PagedResults, SORT_KEYS_MAX};

use crate::model::limits::SORT_VALUE_MAX;

/// Octets of a cookie before its seal.
pub(super) const POSITION_SIZE: usize = 17;

/// Octets of the seal.
pub(super) const SEAL_SIZE: usize = 16;

/// A cookie as it goes to the client, where results are not sorted.
pub(super) type CookieBytes = [u8; COOKIE_SIZE];

const COOKIE_SIZE: usize = POSITION_SIZE + SEAL_SIZE;

/// The longest cookie: it has the key of a result that is sorted by all that it can be sorted by.
const COOKIE_SIZE_MAX: usize = 16 << 10;

const _: () = assert!(SORT_KEYS_MAX * (2 * SORT_VALUE_MAX + 3) + 64 < COOKIE_SIZE_MAX);

/// The page that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRequest {
    pub(super) size: u32,
    pub(super) cookie: Cookie,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cookie {
    /// The first page.
    Empty,
    /// As long as ours are.
    Sealed(CookieBytes),
    /// Longer, as those of sorted results are.
    Sorted(Box<[u8]>),
    /// Of a length that none of ours has.
    Foreign,
}

impl PageRequest {
    /// Takes over what the control says.
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
