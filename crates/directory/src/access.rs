//! Access control: every operation checks its permissions here.
//!
//! [`EffectiveRights`] are the rights of one requester, computed once per operation. If the settings have access rules,
//! the rules decide. `rule_rights.rs` evaluates them, and `docs/how-to/access-rules.md` describes them. Without access
//! rules the rights are fixed, and each check costs a comparison:
//!
//! | | administrator | authenticated user | anonymous |
//! |---|---|---|---|
//! | root DSE and schema | read | read | read |
//! | `cn=monitor` | read | read if among [`GeneralSettings::monitor_readers`] | no |
//! | entries of the tree | read, change | read | read if [`Settings::anonymous_read`] |
//! | the own userPassword | | compare, change | |
//! | others' userPassword | read, compare, change | compare if among [`GeneralSettings::password_comparers`] | no |
//! | authPassword, pwdHistory | read, compare, change | no | no |
//! | types of [`GeneralSettings::secret_attributes`] | read, compare, change | no | no |
//! | pandoTotpSecret | change | no | no |
//! | acting as others | yes | no | no |
//!
//! *Read* covers search, compare and use in filters: a filter item on an attribute that the requester may not read is
//! Undefined (RFC 4511 section 4.5.1.7), so the item reveals nothing. *Compare* on userPassword is an attempt to
//! authenticate. Such a compare reveals whether the password is correct, as a bind does. It also reveals whether the
//! entry has a password.
//!
//! A refusal never depends on whether the entry exists. A requester without the right to read the tree receives
//! insufficientAccessRights for every name in the tree.
//!
//! [`Settings::anonymous_read`]: crate::settings::Settings::anonymous_read
//! [`GeneralSettings::monitor_readers`]: crate::settings::GeneralSettings::monitor_readers
//! [`GeneralSettings::secret_attributes`]: crate::settings::GeneralSettings::secret_attributes
//! [`GeneralSettings::password_comparers`]: crate::settings::GeneralSettings::password_comparers

mod access_list;
mod allowed_values;
mod effective_rights;
mod entry_rights;
mod explain;
mod external;
mod request_context;
mod requester;
mod rights_cache;
mod rule_rights;
mod sources;
#[cfg(test)]
mod tests;
mod uses;

pub use crate::catalog::access_rules::default_rules;
pub use crate::model::access_rule::{AccessRule, Reach, RequesterSpec, Rights};
pub use crate::model::link_conditions::LinkConditions;
use crate::model::outcome::OperationError;
use crate::model::rows::EntryId;
pub use crate::model::sasl_mechanisms::{
    ANONYMOUS, CRAM_MD5, DIGEST_MD5, GSS_SPNEGO, GSSAPI, MAIL_TOKEN, OAUTHBEARER, PLAIN,
};
use crate::model::usable::Uses;
pub(crate) use access_list::access_list;
pub use access_list::{AccessList, ListedRequester, ListedRule};
pub(crate) use allowed_values::{AllowedValues, is_membership, type_of};
pub(crate) use effective_rights::EffectiveRights;
pub(crate) use entry_rights::{EntryRights, RightExtent};
pub(crate) use explain::{
    ASKED, QuestionPlace, RightQuestion, RulesInForce, explain, explain_rights, explain_under, explain_use,
    hint, right_over_password,
};
pub use explain::{AccessExplanation, DecidingRule};
pub(crate) use external::EXTERNAL;
pub use external::{BindStrength, ExternalIdentity, OfferedBinds};
use ldap::ResultCode;
pub use request_context::RequestContext;
pub(crate) use requester::is_member;
pub(crate) use rights_cache::RightsCache;
pub(crate) use rule_rights::{NewEntryFacts, Readable, TraversalCache};
pub(crate) use sources::{EntryEffect, Sources, touches};

/// Returns true if access rules can restrict the control or extended operation of this OID.
pub fn may_be_used(oid: &str) -> bool {
    Uses::of_oid(oid) != Uses::default()
}

/// Authorization identity of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requester {
    /// An anonymous client.
    Anonymous,
    /// The administrator of the settings, without an entry.
    Administrator {
        /// The configured DN.
        dn: String,
    },
    /// A user who has an entry in the tree.
    User {
        /// The entry. A renamed entry stays the requester's identity.
        id: EntryId,
        /// The DN of the entry at the time of the bind.
        dn: String,
    },
}

impl Requester {
    /// Returns the authorization identity in the form of RFC 4513 section 5.2.1.8, as "who am I?" returns it (RFC
    /// 4532): empty for anonymous.
    pub fn authorization_id(&self) -> String {
        match self {
            Requester::Anonymous => String::new(),
            Requester::Administrator { dn } | Requester::User { dn, .. } => format!("dn:{dn}"),
        }
    }

    /// Returns the DN that log records and creatorsName contain; empty for an anonymous client.
    pub fn dn(&self) -> &str {
        match self {
            Requester::Anonymous => "",
            Requester::Administrator { dn } | Requester::User { dn, .. } => dn,
        }
    }

    /// Returns true for the administrator. No limit of the settings applies to the administrator.
    pub fn is_administrator(&self) -> bool {
        matches!(self, Requester::Administrator { .. })
    }
}

/// Limits of one requester. A limit that is set replaces the limit of the settings. `None` leaves the limit of the
/// settings in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequesterLimits {
    /// Maximum number of entries that a search, or one page of a search, returns; 0 for no limit.
    pub size: Option<u32>,
    /// Time limit of a search in seconds; 0 for no limit.
    pub time_seconds: Option<u32>,
    /// Maximum number of entries that a search without an index examines; 0 for no limit.
    pub examined: Option<u64>,
    /// Percentage of the scan threads' time that the requester's searches without an index may take; 0 for no limit.
    pub scan_share: Option<u32>,
}

pub(crate) fn denied(diagnostic: impl Into<String>) -> OperationError {
    OperationError::refused(ResultCode::INSUFFICIENT_ACCESS_RIGHTS, diagnostic)
}
