//! Bounds on what a client of SCIM can make the server hold or do.

use std::time::Duration;

/// Octets of the body of a request.
pub const BODY_SIZE_MAX: usize = 1 << 20;

/// Operations of a bulk request.
pub const BULK_OPERATIONS_MAX: usize = 1000;

/// Operations of a PATCH request.
pub(crate) const PATCH_OPERATIONS_MAX: usize = 1000;

/// Nesting of JSON.
pub(crate) const JSON_DEPTH_MAX: usize = 16;

/// Time after which the work for a request ends between two operations of LDAP. It is less than the time that HTTP
/// leaves for an answer.
pub(crate) const WORK_TIME: Duration = Duration::from_secs(20);

/// Octets of a filter or of a path.
pub(crate) const FILTER_SIZE_MAX: usize = 8192;

/// Nesting of a filter, counting parentheses and brackets. Every level of SCIM is at most three of LDAP.
pub(crate) const FILTER_DEPTH_MAX: usize = 16;

/// Comparisons of a filter.
pub(crate) const FILTER_TERMS_MAX: usize = 100;

/// Resources on a page.
pub(crate) const PAGE_SIZE_MAX: usize = 1000;

/// Resources on a page if the client names no number.
pub(crate) const PAGE_SIZE_DEFAULT: usize = 100;

/// Resources that are skipped to reach a start index whose place is not known.
pub(crate) const SKIPPED_MAX: usize = 1_000_000;

/// Places in result lists that are remembered for clients that page by index.
pub(crate) const PLACES_MAX: usize = 1024;

/// Octets of one message of the directory, and of the resources of one answer.
pub(crate) const ANSWER_SIZE_MAX: usize = 16 << 20;

/// Ids that are looked up in one search.
pub(crate) const IDS_PER_SEARCH: usize = 50;

/// Members of a group up to which the answer to a PATCH contains the group.
pub(crate) const MEMBERS_RETURNED_MAX: usize = 1000;

/// Attempts of a change whose entry others change at the same time.
pub(crate) const ATTEMPTS_MAX: usize = 5;

/// Octets of the credentials of a request.
pub(crate) const CREDENTIALS_SIZE_MAX: usize = 16 << 10;

// A level of SCIM becomes an `and`, a `not` and an `or` of LDAP, in an `and` with the object class.
const _: () = assert!(3 * FILTER_DEPTH_MAX + 4 < ldap::FILTER_DEPTH_MAX);
