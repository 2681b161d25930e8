//! Limits on the resources that SCIM clients can use.

use std::time::Duration;

/// Maximum size of the body of a request, in octets.
pub const BODY_SIZE_MAX: usize = 1 << 20;

/// Maximum number of operations in a bulk request.
pub const BULK_OPERATIONS_MAX: usize = 1000;

/// Maximum number of operations in a PATCH request.
pub(crate) const PATCH_OPERATIONS_MAX: usize = 1000;

/// Maximum work of a PATCH request: octets of values that its operations compare or copy.
pub(crate) const PATCH_WORK_MAX: usize = 64 << 20;

/// Maximum number of names in `attributes` and in `excludedAttributes`. Each attribute of each resource is compared
/// with them.
pub(crate) const SELECTED_MAX: usize = 100;

/// Maximum nesting depth of JSON.
pub(crate) const JSON_DEPTH_MAX: usize = 16;

/// Time after which no further LDAP operation is begun for a request. It is shorter than the time that HTTP allows for
/// an answer.
pub(crate) const WORK_TIME: Duration = Duration::from_secs(20);

/// Maximum size of a filter or a path, in octets.
pub(crate) const FILTER_SIZE_MAX: usize = 8192;

/// Maximum nesting depth of a filter, counting parentheses and brackets. Each SCIM level becomes at most three LDAP
/// levels.
pub(crate) const FILTER_DEPTH_MAX: usize = 16;

/// Maximum number of comparisons in a filter.
pub(crate) const FILTER_TERMS_MAX: usize = 100;

/// Maximum number of resources on a page.
pub(crate) const PAGE_SIZE_MAX: usize = 1000;

/// Default number of resources on a page.
pub(crate) const PAGE_SIZE_DEFAULT: usize = 100;

/// Maximum number of resources that are skipped to reach a start index without a remembered place.
pub(crate) const SKIPPED_MAX: usize = 1_000_000;

/// Maximum number of remembered places in result lists, for clients that page by index.
pub(crate) const PLACES_MAX: usize = 1024;

/// Maximum size of a message from the directory, and of the resources in an answer, in octets.
pub(crate) const ANSWER_SIZE_MAX: usize = 16 << 20;

/// Maximum total size of the answers that are written or sent, in octets.
pub(crate) const ANSWERS_BYTES_MAX: usize = 64 << 20;

/// Size up to which an answer is not counted, in octets.
pub(crate) const ANSWER_FREE_BYTES: usize = 256 << 10;

/// Maximum number of ids that are looked up in one search.
pub(crate) const IDS_PER_SEARCH: usize = 50;

/// Maximum number of members of a group that is returned in the answer to a PATCH.
pub(crate) const MEMBERS_RETURNED_MAX: usize = 1000;

/// Maximum number of attempts of a change whose entry is changed concurrently.
pub(crate) const ATTEMPTS_MAX: usize = 5;

/// Maximum size of the credentials in a request, in octets.
pub(crate) const CREDENTIALS_SIZE_MAX: usize = 16 << 10;

// A SCIM level becomes an `and`, a `not` and an `or` in LDAP, inside an `and` with the object class.
const _: () = assert!(3 * FILTER_DEPTH_MAX + 4 < ldap::FILTER_DEPTH_MAX);
