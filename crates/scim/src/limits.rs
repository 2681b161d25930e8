//! Limits on what SCIM clients may use.

use std::time::Duration;

/// Maximum size of the body of a request, in octets.
pub const BODY_SIZE_MAX: usize = 1 << 20;

/// Maximum number of operations in a bulk request.
pub const BULK_OPERATIONS_MAX: usize = 1000;

/// Maximum number of operations in a PATCH request.
pub(crate) const PATCH_OPERATIONS_MAX: usize = 1000;

/// Maximum work of a PATCH request. The unit is an octet of a value that an operation compares or copies.
pub(crate) const PATCH_WORK_MAX: usize = 64 << 20;

/// Maximum number of names in `attributes` and in `excludedAttributes`. They are compared with each attribute of each
/// resource.
pub(crate) const SELECTED_MAX: usize = 100;

/// Maximum depth of JSON.
pub(crate) const JSON_DEPTH_MAX: usize = 16;

/// Time after which a request begins no further LDAP operation. It is shorter than the time that HTTP permits for an
/// answer.
pub(crate) const WORK_TIME: Duration = Duration::from_secs(20);

/// Maximum size of a filter or a path, in octets.
pub(crate) const FILTER_SIZE_MAX: usize = 8192;

/// Maximum depth of a filter. Each parenthesis and each bracket is a level. A level becomes at most three levels of an
/// LDAP filter.
pub(crate) const FILTER_DEPTH_MAX: usize = 16;

/// Maximum number of comparisons in a filter.
pub(crate) const FILTER_TERMS_MAX: usize = 100;

/// Maximum number of resources on a page.
pub(crate) const PAGE_SIZE_MAX: usize = 1000;

/// Default number of resources on a page.
pub(crate) const PAGE_SIZE_DEFAULT: usize = 100;

/// Maximum number of resources that are read and skipped to reach a start index, if no cookie for that index is stored.
pub(crate) const SKIPPED_MAX: usize = 1_000_000;

/// Maximum number of stored places in lists. A place is an index and the cookie for it; places serve clients that
/// request pages by index.
pub(crate) const PLACES_MAX: usize = 1024;

/// Maximum size of a message from the directory, in octets. Also the maximum size of all resources in one answer.
pub(crate) const ANSWER_SIZE_MAX: usize = 16 << 20;

/// Maximum total size of the answers that are being written or sent, in octets.
pub(crate) const ANSWERS_BYTES_MAX: usize = 64 << 20;

/// Size in octets up to which an answer does not count toward [`ANSWERS_BYTES_MAX`].
pub(crate) const ANSWER_FREE_BYTES: usize = 256 << 10;

/// Maximum number of ids in one search for the entries with these ids.
pub(crate) const IDS_PER_SEARCH: usize = 50;

/// Maximum number of members of a group that the answer to a PATCH contains. If the group has more members, the answer
/// does not contain the group.
pub(crate) const MEMBERS_RETURNED_MAX: usize = 1000;

/// Maximum number of attempts to make a change if other clients change the entry at the same time.
pub(crate) const ATTEMPTS_MAX: usize = 5;

/// Maximum size of the credentials in a request, in octets.
pub(crate) const CREDENTIALS_SIZE_MAX: usize = 16 << 10;

// In LDAP, a level of a SCIM filter becomes an `and`, a `not` and an `or`. All levels are inside of an `and` with the
// object class.
const _: () = assert!(3 * FILTER_DEPTH_MAX + 4 < ldap::FILTER_DEPTH_MAX);
