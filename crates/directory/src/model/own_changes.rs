//! Changes that the server itself makes, and the requesters that their records name.

/// Requester of memberships that the setting `auto_members` adds.
pub(crate) const AUTO_MEMBERS: &str = "cn=auto members,cn=config";

/// Requester of deletes of expired dynamic entries.
pub(crate) const DYNAMIC_ENTRIES: &str = "cn=dynamic entries,cn=config";

/// Requester of removals of values whose end times have passed.
pub(crate) const ENDED_VALUES: &str = "cn=ended values,cn=config";

/// Requester of conversions of values to links.
pub(crate) const LINKS: &str = "cn=links,cn=config";

/// Returns the name in the audit trail for changes with this requester. Returns `None` if a client requested the
/// change.
pub fn name_of(requester: &str) -> Option<&'static str> {
    match requester {
        AUTO_MEMBERS => Some("automatic membership"),
        DYNAMIC_ENTRIES => Some("end of a dynamic entry"),
        LINKS => Some("values become links"),
        ENDED_VALUES => Some("end of a value"),
        _ => None,
    }
}
