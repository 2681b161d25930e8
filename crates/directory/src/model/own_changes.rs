//! Changes that the server makes by itself, with its own rights: their requesters in records.

/// Requester of memberships by the setting `auto_members`.
pub(crate) const AUTO_MEMBERS: &str = "cn=auto members,cn=config";

/// Requester of deletes of dynamic entries whose time has come.
pub(crate) const DYNAMIC_ENTRIES: &str = "cn=dynamic entries,cn=config";

/// Requester of removals of values whose end has come.
pub(crate) const ENDED_VALUES: &str = "cn=ended values,cn=config";

/// Requester of values that become links.
pub(crate) const LINKS: &str = "cn=links,cn=config";

/// Returns the name of the server's own change that a requester stands for, for the audit trail; `None` for clients.
pub fn name_of(requester: &str) -> Option<&'static str> {
    match requester {
        AUTO_MEMBERS => Some("automatic membership"),
        DYNAMIC_ENTRIES => Some("end of a dynamic entry"),
        LINKS => Some("values become links"),
        ENDED_VALUES => Some("end of a value"),
        _ => None,
    }
}
