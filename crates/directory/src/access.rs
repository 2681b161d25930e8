//! Who may do what: the one place that every operation asks.
//!
//! Where the settings have access rules, a [`Standing`] is what they come to for the asker: see `standing.rs`, and
//! `docs/how-to/access-rules.md` for what they mean. Without any the rules are fixed and few, so [`Access`] is a small
//! copyable value made once an operation, and asking it costs a comparison:
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
//! Undefined (RFC 4511 section 4.5.1.7), so it never tells anything. *Compare* on userPassword is an attempt to
//! authenticate: it tells what a bind with that name and password tells, and besides whether there is a password at
//! all.
//!
//! A refusal never depends on whether the entry exists: a requester without the right to read the tree gets
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

/// Whether access rules may be about the control or extended operation of this OID.
pub fn may_be_used(oid: &str) -> bool {
    Uses::of_oid(oid) != Uses::default()
}

/// The identity on whose behalf an operation runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requester {
    /// Nobody in particular.
    Anonymous,
    /// The administrator of the settings, who needs no entry.
    Administrator {
        /// The configured DN.
        dn: String,
    },
    /// The user of an entry that has a userPassword.
    User {
        /// The entry: identity survives a rename.
        id: EntryId,
        /// Its DN at the time of the bind.
        dn: String,
    },
}

impl Requester {
    /// The authorization identity in the form of RFC 4513 section 5.2.1.8, as "who am I?" returns it (RFC 4532): empty
    /// for anonymous.
    pub fn authorization_id(&self) -> String {
        match self {
            Requester::Anonymous => String::new(),
            Requester::Administrator { dn } | Requester::User { dn, .. } => format!("dn:{dn}"),
        }
    }

    /// The DN, empty for anonymous: what records and creatorsName say.
    pub fn dn(&self) -> &str {
        match self {
            Requester::Anonymous => "",
            Requester::Administrator { dn } | Requester::User { dn, .. } => dn,
        }
    }

    /// Whether this is the administrator, whom no limit of the settings binds.
    pub fn is_administrator(&self) -> bool {
        matches!(self, Requester::Administrator { .. })
    }
}

/// What a requester may do under the settings. Made once an operation, asked often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    kind: Kind,
    /// Whether access rules say what may be seen, besides what this says.
    goes_by_rules: bool,
    /// Those of a search, where the administrator does not ask.
    limits: SearchLimits,
}

/// What bounds a search, 0 being none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SearchLimits {
    size: u32,
    time_seconds: u32,
    examined: u64,
}

/// Limits of some askers, in place of those of the settings; `None` leaves those.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AskerLimits {
    /// Entries that a search returns, or a page of it; 0 is any.
    pub size: Option<u32>,
    /// Seconds that a search takes; 0 is any.
    pub time_seconds: Option<u32>,
    /// Entries that a search looks at without an index; 0 is any.
    pub examined: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Anonymous { reads_tree: bool },
    User(EntryId),
    Administrator,
}

impl Access {
    /// The rights of `requester`.
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

    /// Whether the administrator asks.
    pub fn is_administrator(self) -> bool {
        self.kind == Kind::Administrator
    }

    /// Whether one request, or a connection from a SASL bind on, may run as somebody else. Nobody gains a right by it
    /// who does not have them all.
    pub(crate) fn may_act_as_others(self) -> bool {
        self.is_administrator()
    }

    /// The same with limits of the asker's own.
    pub(crate) fn limited(mut self, own: AskerLimits) -> Access {
        let SearchLimits { size, time_seconds, examined } = self.limits;
        self.limits = SearchLimits {
            size: own.size.unwrap_or(size),
            time_seconds: own.time_seconds.unwrap_or(time_seconds),
            examined: own.examined.unwrap_or(examined),
        };
        self
    }

    /// Most entries that a search returns which asks for so many, or a page of it.
    pub(crate) fn size_limit(self, asked: u32) -> u32 {
        self.limit_of(asked, self.limits.size)
    }

    /// Most seconds that a search takes which asks for so many.
    pub(crate) fn time_limit_seconds(self, asked: u32) -> u32 {
        self.limit_of(asked, self.limits.time_seconds)
    }

    /// Most entries that a search may look at in vain.
    pub(crate) fn examined_max(self) -> u64 {
        match self.limits.examined {
            0 => u64::MAX,
            _ if self.is_administrator() => u64::MAX,
            max => max,
        }
    }

    /// The limit that holds where a request asks for one and the settings set one, 0 being none: the lower. What is set
    /// does not bind the administrator.
    fn limit_of(self, asked: u32, set: u32) -> u32 {
        match (asked, if self.is_administrator() { 0 } else { set }) {
            (0, limit) | (limit, 0) => limit,
            (asked, set) => asked.min(set),
        }
    }

    /// Whether entries of the tree may be found and read.
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

    /// Whether `cn=monitor` may be read, which tells of other clients' work. The refusal is the same for every name
    /// there.
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

    /// The same under rules, whether or not there are some now: for rehearsals of others.
    pub(crate) fn under_rules(self) -> Access {
        Access { goes_by_rules: true, ..self }
    }

    /// Whether values of this type may be returned and used in filters, where the entry may be read at all.
    pub(crate) fn may_read_attribute(self, catalog: &Catalog, type_id: TypeId) -> bool {
        self.shown().includes(&catalog.secrets, type_id)
    }

    /// Which types may be returned and used in filters, where the entry may be read at all.
    pub(crate) fn shown(self) -> Shown {
        match self.kind {
            Kind::Administrator => Shown::Secrets,
            _ if self.goes_by_rules => Shown::AsRulesSay,
            _ => Shown::Plain,
        }
    }

    /// Whether values of this type of the entry `target` may be compared with, where the entry may be read at all. Ask
    /// before looking whether the entry has any: a refusal does not tell.
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

    /// Whether entries may be added, deleted, renamed and moved. Ask before looking for the entry.
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

    /// Whether anything may be changed under access rules, which say what: not by who has not bound, whatever they say.
    ///
    /// # Errors
    /// strongerAuthRequired for anonymous clients.
    pub(crate) fn check_bound(self) -> Result<(), OperationError> {
        match self.kind {
            Kind::Anonymous { .. } => Err(unauthenticated()),
            Kind::Administrator | Kind::User(_) => Ok(()),
        }
    }

    /// Whether the state of passwords may be asked for and set, where no access rules say so. Ask before looking for
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

    /// Whether entries may be modified at all, some attributes of some entries: ask before looking for the entry.
    ///
    /// # Errors
    /// insufficientAccessRights; strongerAuthRequired for anonymous clients.
    pub fn check_modify_some(self) -> Result<(), OperationError> {
        match self.kind {
            Kind::Anonymous { .. } => Err(unauthenticated()),
            Kind::Administrator | Kind::User(_) => Ok(()),
        }
    }

    /// Whether these attribute types of the entry `target` may be modified. Everyone changes the own userPassword.
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

/// Whether the entry `id` is one of those that these DNs name now.
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

/// strongerAuthRequired rather than insufficientAccessRights, as in slapd: it tells the client what to do.
fn unauthenticated() -> OperationError {
    OperationError::refused(
        ResultCode::STRONGER_AUTH_REQUIRED,
        "anonymous clients may not change anything: bind first",
    )
}

pub(crate) fn denied(diagnostic: impl Into<String>) -> OperationError {
    OperationError::refused(ResultCode::INSUFFICIENT_ACCESS_RIGHTS, diagnostic)
}
