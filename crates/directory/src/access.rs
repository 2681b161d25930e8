//! Access control: the one place that every operation asks for permission.
//!
//! If the settings have access rules, a [`Standing`] holds the effective rights of a requester: see `standing.rs`, and
//! `docs/how-to/access-rules.md` for their meaning. Without access rules the rules are fixed and few. So [`Access`] is
//! a small copyable value, created once per operation, and each check costs a comparison:
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
//! Undefined (RFC 4511 section 4.5.1.7), so it reveals nothing. *Compare* on userPassword is an attempt to
//! authenticate: it reveals the same as a bind with that name and password, and in addition whether the entry has a
//! password.
//!
//! A refusal never depends on whether the entry exists: a requester without the right to read the tree receives
//! insufficientAccessRights for every name in it.
//!
//! [`GeneralSettings::monitor_readers`]: crate::settings::GeneralSettings::monitor_readers
//! [`GeneralSettings::secret_attributes`]: crate::settings::GeneralSettings::secret_attributes
//! [`GeneralSettings::password_comparers`]: crate::settings::GeneralSettings::password_comparers

mod asker;
mod entry_rights;
mod explain;
mod external;
mod request_context;
mod sources;
mod standing;
#[cfg(test)]
mod tests;
mod uses;

use ldap::ResultCode;
use schema::{Schema, TypeId};

pub use crate::catalog::access_rules::default_rules;
use crate::catalog::{Catalog, Secrecy, Shown, is_user_password};
pub use crate::model::access_rule::{AccessRule, Reach, RequesterSpec, Rights};
pub use crate::model::link_conditions::LinkConditions;
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::rows::EntryId;
pub use crate::model::sasl_mechanisms::{
    ANONYMOUS, CRAM_MD5, DIGEST_MD5, GSS_SPNEGO, GSSAPI, OAUTHBEARER, PLAIN,
};
use crate::model::settings::Settings;
use crate::model::usable::Uses;
use crate::tree::{Found, TreeState};
pub(crate) use asker::groups_of;
pub(crate) use entry_rights::{EntryRights, RightExtent};
pub(crate) use explain::{
    ASKED, Asked, QuestionPlace, RulesInForce, explain, explain_standing, explain_under, explain_use, hint,
    right_over_password,
};
pub use explain::{AccessExplanation, DecidingRule};
pub(crate) use external::EXTERNAL;
pub use external::{BindStrength, ExternalIdentity, Offered};
pub use request_context::RequestContext;
pub(crate) use sources::{Sources, Touch, touches};
pub(crate) use standing::{Newcomer, Standing, Walk};

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
    /// The user of an entry that has a userPassword.
    User {
        /// The entry; the identity survives a rename.
        id: EntryId,
        /// Its DN at the time of the bind.
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

    /// Returns the DN, empty for anonymous, as records and creatorsName contain it.
    pub fn dn(&self) -> &str {
        match self {
            Requester::Anonymous => "",
            Requester::Administrator { dn } | Requester::User { dn, .. } => dn,
        }
    }

    /// Returns true for the administrator, to whom no limit of the settings applies.
    pub fn is_administrator(&self) -> bool {
        matches!(self, Requester::Administrator { .. })
    }
}

/// Rights of a requester under the settings. Created once per operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    kind: Kind,
    /// Whether access rules decide, in addition to this, what may be read.
    goes_by_rules: bool,
    /// Limits of a search; not for the administrator.
    limits: SearchLimits,
}

/// Limits of a search; 0 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SearchLimits {
    size: u32,
    time_seconds: u32,
    examined: u64,
}

/// Limits of some requesters, in place of those of the settings; `None` keeps the latter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AskerLimits {
    /// Maximum number of entries that a search, or a page of it, returns; 0 for any.
    pub size: Option<u32>,
    /// Time limit of a search in seconds; 0 for any.
    pub time_seconds: Option<u32>,
    /// Maximum number of entries that a search examines without an index; 0 for any.
    pub examined: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Anonymous { reads_tree: bool },
    User(EntryId),
    Administrator,
}

impl Access {
    /// Returns the rights of `requester`.
    pub fn of(requester: &Requester, settings: &Settings) -> Access {
        let kind = match requester {
            Requester::Anonymous => {
                Kind::Anonymous { reads_tree: settings.anonymous_read() || settings.has_access_rules() }
            }
            Requester::User { id, .. } => Kind::User(*id),
            Requester::Administrator { .. } => Kind::Administrator,
        };
        let general = &settings.general;
        let (size, time_seconds) = (general.size_limit, general.time_limit_seconds);
        let limits = SearchLimits { size, time_seconds, examined: general.unindexed_examined_max };
        Access { kind, goes_by_rules: settings.has_access_rules(), limits }
    }

    /// Returns true if the requester is the administrator.
    pub fn is_administrator(self) -> bool {
        self.kind == Kind::Administrator
    }

    /// Returns true if one request, or a connection after a SASL bind, may run as another identity. Only requesters
    /// with all rights may do so, so none gains a right.
    pub(crate) fn may_act_as_others(self) -> bool {
        self.is_administrator()
    }

    /// Replaces limits by those of the requester.
    pub(crate) fn limited(mut self, own: AskerLimits) -> Access {
        let SearchLimits { size, time_seconds, examined } = self.limits;
        self.limits = SearchLimits {
            size: own.size.unwrap_or(size),
            time_seconds: own.time_seconds.unwrap_or(time_seconds),
            examined: own.examined.unwrap_or(examined),
        };
        self
    }

    /// Returns the size limit of a search, or of a page, for the requested limit.
    pub(crate) fn size_limit(self, asked: u32) -> u32 {
        self.limit_of(asked, self.limits.size)
    }

    /// Returns the time limit of a search in seconds, for the requested limit.
    pub(crate) fn time_limit_seconds(self, asked: u32) -> u32 {
        self.limit_of(asked, self.limits.time_seconds)
    }

    /// Returns the maximum number of entries that a search may examine without a match.
    pub(crate) fn examined_max(self) -> u64 {
        match self.limits.examined {
            0 => u64::MAX,
            _ if self.is_administrator() => u64::MAX,
            max => max,
        }
    }

    /// Returns the lower of the requested and the set limit; 0 means none. The set limit does not apply to the
    /// administrator.
    fn limit_of(self, asked: u32, set: u32) -> u32 {
        match (asked, if self.is_administrator() { 0 } else { set }) {
            (0, limit) | (limit, 0) => limit,
            (asked, set) => asked.min(set),
        }
    }

    /// Checks that entries of the tree may be found and read.
    ///
    /// # Errors
    /// insufficientAccessRights.
    pub fn check_read_tree(self) -> Result<(), OperationError> {
        match self.kind {
            Kind::Anonymous { reads_tree: false } => {
                Err(denied("anonymous clients see only the root DSE and the schema: bind first"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that `cn=monitor` may be read, which describes the work of other clients. The refusal is the same for
    /// every name there.
    ///
    /// # Errors
    /// insufficientAccessRights.
    pub(crate) fn check_read_monitor(self, state: TreeState<'_>) -> Result<(), OperationError> {
        match self.kind {
            Kind::Administrator => Ok(()),
            Kind::User(id) if is_among(state, id, &state.settings.general.monitor_readers)? => Ok(()),
            Kind::User(_) => Err(denied(
                "cn=monitor is for the administrator, and for whom the setting monitor_readers names",
            )),
            Kind::Anonymous { .. } => Err(denied("anonymous clients do not see cn=monitor: bind first")),
        }
    }

    /// Returns these rights as if access rules applied, even if there are none: for rehearsals.
    pub(crate) fn under_rules(self) -> Access {
        Access { goes_by_rules: true, ..self }
    }

    /// Returns true if values of this type may be returned and used in filters, provided that the entry may be read.
    pub(crate) fn may_read_attribute(self, catalog: &Catalog, type_id: TypeId) -> bool {
        self.shown().includes(&catalog.secrets, type_id)
    }

    /// Returns the types that may be returned and used in filters, provided that the entry may be read.
    pub(crate) fn shown(self) -> Shown {
        match self.kind {
            Kind::Administrator => Shown::Secrets,
            _ if self.goes_by_rules => Shown::AsRulesSay,
            _ => Shown::Plain,
        }
    }

    /// Checks that values of this type of the entry `target` may be compared, provided that the entry may be read. Call
    /// it before reading the values, so that a refusal reveals nothing.
    ///
    /// # Errors
    /// insufficientAccessRights.
    pub(crate) fn check_compare(
        self,
        state: TreeState<'_>,
        target: EntryId,
        type_id: TypeId,
    ) -> Result<(), OperationError> {
        let schema = &*state.catalog.schema;
        if self.may_read_attribute(state.catalog, type_id) {
            return Ok(());
        }
        let name = schema.type_by_id(type_id).name();
        if state.catalog.secrets.of_type(type_id) == Secrecy::Nobody {
            return Err(denied(format!("nobody may read or compare {name}")));
        }
        match self.kind {
            Kind::User(own) if is_user_password(schema, type_id) => {
                if own == target || is_among(state, own, &state.settings.general.password_comparers)? {
                    return Ok(());
                }
                Err(denied(format!(
                    "{name} of others may be compared by the administrator, and by whom the setting \
                     password_comparers names"
                )))
            }
            Kind::Anonymous { .. } => Err(denied(format!("anonymous clients may not compare {name}"))),
            _ => Err(denied(format!("only the administrator may compare {name}"))),
        }
    }

    /// Checks that entries may be added, deleted, renamed and moved. Call it before looking for the entry.
    ///
    /// # Errors
    /// insufficientAccessRights; strongerAuthRequired for anonymous clients.
    pub fn check_write_tree(self) -> Result<(), OperationError> {
        match self.kind {
            Kind::Administrator => Ok(()),
            Kind::User(_) => Err(denied("only the administrator may add, delete, rename and move entries")),
            Kind::Anonymous { .. } => Err(unauthenticated()),
        }
    }

    /// Checks that access rules may permit changes: never for anonymous clients, whatever the rules say.
    ///
    /// # Errors
    /// strongerAuthRequired for anonymous clients.
    pub(crate) fn check_bound(self) -> Result<(), OperationError> {
        match self.kind {
            Kind::Anonymous { .. } => Err(unauthenticated()),
            Kind::Administrator | Kind::User(_) => Ok(()),
        }
    }

    /// Checks that the account state may be read and set, if no access rules decide this. Call it before looking for
    /// the entry.
    ///
    /// # Errors
    /// insufficientAccessRights; strongerAuthRequired for anonymous clients.
    pub(crate) fn check_manage_accounts(self) -> Result<(), OperationError> {
        match self.kind {
            Kind::Administrator => Ok(()),
            Kind::User(_) => Err(denied("only the administrator may look after the passwords of others")),
            Kind::Anonymous { .. } => Err(unauthenticated()),
        }
    }

    /// Checks that at least some attributes of some entries may be modified. Call it before looking for the entry.
    ///
    /// # Errors
    /// insufficientAccessRights; strongerAuthRequired for anonymous clients.
    pub fn check_modify_some(self) -> Result<(), OperationError> {
        match self.kind {
            Kind::Anonymous { .. } => Err(unauthenticated()),
            Kind::Administrator | Kind::User(_) => Ok(()),
        }
    }

    /// Checks that these attribute types of the entry `target` may be modified. All users may change their own
    /// userPassword.
    ///
    /// # Errors
    /// insufficientAccessRights; strongerAuthRequired for anonymous clients.
    pub fn check_modify(
        self,
        schema: &Schema,
        target: EntryId,
        changed: impl IntoIterator<Item = TypeId>,
    ) -> Result<(), OperationError> {
        match self.kind {
            Kind::Administrator => Ok(()),
            Kind::User(own) if own == target => {
                match changed.into_iter().find(|type_id| !is_user_password(schema, *type_id)) {
                    None => Ok(()),
                    Some(type_id) => Err(denied(format!(
                        "only the administrator may change {}; users change their own userPassword",
                        schema.type_by_id(type_id).name()
                    ))),
                }
            }
            Kind::User(_) => Err(denied("only the administrator may change the entries of others")),
            Kind::Anonymous { .. } => Err(unauthenticated()),
        }
    }
}

/// Returns true if one of these DNs now names the entry `id`.
fn is_among(state: TreeState<'_>, id: EntryId, dns: &[String]) -> Result<bool, OperationError> {
    for dn in dns {
        let name = NormalName::of(&parse_dn(dn)?, &state.catalog.schema);
        if let Found::Entry(found, _) = state.find(&name)?
            && found == id
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns strongerAuthRequired and not insufficientAccessRights, as slapd does: it shows the client what to do.
fn unauthenticated() -> OperationError {
    OperationError::refused(
        ResultCode::STRONGER_AUTH_REQUIRED,
        "anonymous clients may not change anything: bind first",
    )
}

pub(crate) fn denied(diagnostic: impl Into<String>) -> OperationError {
    OperationError::refused(ResultCode::INSUFFICIENT_ACCESS_RIGHTS, diagnostic)
}
