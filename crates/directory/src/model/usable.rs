//! Controls and extended operations that access rules can restrict, and their names in rules.
//!
//! Rules cannot restrict the controls of a bind, because a bind has no requester yet. Rules cannot restrict StartTLS,
//! because StartTLS protects the bind. Rules cannot restrict operations that only the administrator may use.

use ldap::oids;

use crate::model::virtual_entries::{
    COPY_DATA, EXPLAIN_ACCESS, FORWARD, LIST_DELETED, OWN_CREDENTIALS, READ_AUDIT, READ_HISTORY, READ_LOG,
    UNDELETE,
};

/// OID of the control that requests an explanation of how a search is executed. The control has no value. The
/// searchResDone contains the explanation as UTF-8 text (`docs/explanation/indexes.md`). The arc is a placeholder, as
/// in `pando.schema`.
pub const EXPLAIN: &str = "1.3.6.1.4.1.99999.4.1";

/// Names that access rules use for controls and operations, each with the OIDs that the name covers. [`Uses::BY_NAME`]
/// consists of the last five names.
const USABLE: [(&str, &[&str]); 45] = [
    ("manage-dsa-it", &[oids::MANAGE_DSA_IT]),
    ("assertion", &[oids::ASSERTION]),
    ("permissive-modify", &[oids::PERMISSIVE_MODIFY]),
    ("tree-delete", &[oids::TREE_DELETE]),
    ("pre-read", &[oids::PRE_READ]),
    ("post-read", &[oids::POST_READ]),
    ("no-operation", &[oids::NO_OPERATION, oids::NO_OPERATION_UNBOUNDID]),
    ("domain-scope", &[oids::DOMAIN_SCOPE]),
    ("subentries", &[oids::SUBENTRIES, oids::SUBENTRIES_DRAFT]),
    ("real-attributes", &[oids::REAL_ATTRIBUTES_ONLY]),
    ("virtual-attributes", &[oids::VIRTUAL_ATTRIBUTES_ONLY]),
    ("dont-use-copy", &[oids::DONT_USE_COPY]),
    ("entry-count", &[oids::SEARCH_NO_OP, oids::ENTRY_COUNT_REQUEST]),
    ("lazy-commit", &[oids::LAZY_COMMIT]),
    ("what-failed", &[oids::WHAT_FAILED]),
    ("search-options", &[oids::SEARCH_OPTIONS]),
    ("paging", &[oids::PAGED_RESULTS]),
    ("sorting", &[oids::SORT_REQUEST]),
    ("list-view", &[oids::VLV_REQUEST]),
    ("matched-values", &[oids::MATCHED_VALUES]),
    ("synchronization", &[oids::SYNC_REQUEST]),
    ("persistent-search", &[oids::PERSISTENT_SEARCH]),
    ("password-policy", &[oids::PASSWORD_POLICY]),
    ("account-usability", &[oids::ACCOUNT_USABILITY]),
    ("dereference", &[oids::DEREFERENCE]),
    ("session-tracking", &[oids::SESSION_TRACKING]),
    ("proxied-authorization", &[oids::PROXIED_AUTHORIZATION, oids::PROXIED_AUTHORIZATION_V1]),
    ("effective-rights", &[oids::EFFECTIVE_RIGHTS]),
    ("position", &[oids::POSITION]),
    ("at-least", &[oids::AT_LEAST]),
    ("search-plan", &[EXPLAIN]),
    ("password-modify", &[oids::MODIFY_PASSWORD]),
    ("password-state", &[oids::PASSWORD_STATE, oids::PASSWORD_STATE_UNBOUNDID]),
    ("who-am-i", &[oids::WHO_AM_I]),
    ("cancel", &[oids::CANCEL]),
    ("refresh", &[oids::REFRESH]),
    ("connection-id", &[oids::CONNECTION_ID]),
    ("transactions", &[oids::START_TRANSACTION, oids::END_TRANSACTION, oids::TRANSACTION_SPECIFICATION]),
    ("explain-access", &[EXPLAIN_ACCESS]),
    ("own-credentials", &[OWN_CREDENTIALS]),
    ("verify-credentials", &[oids::VERIFY_CREDENTIALS]),
    ("relax-rules", &[oids::RELAX_RULES]),
    (UNDELETE_WORD, &[UNDELETE, LIST_DELETED, oids::SHOW_DELETED]),
    (READ_AUDIT_WORD, &[READ_AUDIT, READ_HISTORY]),
    (REPLICATION_WORD, &[READ_LOG, FORWARD, COPY_DATA]),
];

/// Some of the names in [`Uses::BY_NAME`].
const READ_AUDIT_WORD: &str = "read-audit";
const UNDELETE_WORD: &str = "undelete";
const REPLICATION_WORD: &str = "replication";

/// A set of controls and extended operations, one bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Uses(u64);

impl Uses {
    /// The set of all controls and operations.
    pub(crate) const ALL: Uses = Uses(u64::MAX);

    /// Controls and operations that an allow rule grants only if it lists their names, not by a general `use`.
    pub(crate) const BY_NAME: Uses = Uses(0b1_1111 << (USABLE.len() - 5));

    fn at(place: Option<usize>) -> Uses {
        Uses(place.map_or(0, |place| 1 << place))
    }

    /// Returns the set that contains only the control or operation with this OID. The set is empty if rules cannot
    /// restrict the OID.
    pub(crate) fn of_oid(oid: &str) -> Uses {
        Uses::at(USABLE.iter().position(|(_, oids)| oids.contains(&oid)))
    }

    /// Returns the set that these names or OIDs in a rule cover.
    ///
    /// # Errors
    /// A name is unknown.
    pub(crate) fn named(names: &[String]) -> Result<Uses, String> {
        let mut uses = Uses::default();
        for name in names {
            let is_named = |(word, oids): &(&str, &[&str])| word == name || oids.contains(&name.as_str());
            let place = USABLE.iter().position(is_named).ok_or_else(|| {
                let words: Vec<_> = USABLE.iter().map(|(word, _)| *word).collect();
                let words = words.join(", ");
                format!(
                    "{name} is not a control or extended operation that rules can restrict: choose from \
                     {words}, or their OIDs"
                )
            })?;
            uses = uses.and(Uses::at(Some(place)));
        }
        Ok(uses)
    }

    /// Returns the names of the set's members.
    pub(crate) fn words(self) -> String {
        let of_set = USABLE.iter().zip(0..).filter(|(_, place)| self.0 >> place & 1 != 0);
        of_set.map(|((word, _), _)| *word).collect::<Vec<_>>().join(", ")
    }

    /// Returns the union of both sets.
    pub(crate) fn and(self, others: Uses) -> Uses {
        Uses(self.0 | others.0)
    }

    /// Returns the set without the members of `others`.
    pub(crate) fn without(self, others: Uses) -> Uses {
        Uses(self.0 & !others.0)
    }

    /// Returns true if the sets have a common member.
    pub(crate) fn has(self, others: Uses) -> bool {
        self.0 & others.0 != 0
    }
}
