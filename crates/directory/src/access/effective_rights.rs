//! Effective rights of a requester, either fixed or determined by access rules.

use std::sync::Arc;

use ldap::ResultCode;
use schema::TypeId;

use super::rule_rights::{NewEntryFacts, Readable, RuleRights, TraversalCache};
use super::sources::Sources;
use super::{EntryRights, RequestContext, Requester, denied};
use crate::catalog::access_rules::{AccessRules, TypeSet};
use crate::catalog::{Catalog, Secrecy, Shown, is_user_password};
use crate::filter::{Compiler, GroupsOf, Matcher, MemberUse, Memberships};
use crate::model::access_rule::RESET;
use crate::model::client_link::ClientLink;
use crate::model::limits::TREE_DEPTH_MAX;
use crate::model::name::{NormalName, invalid_name, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;
use crate::model::rows::{AttrId, EntryId};
use crate::model::settings::Settings;
use crate::model::usable::Uses;
use crate::tree::{Found, TreeState};

type Result<T> = std::result::Result<T, OperationError>;

/// Rights of a requester. Computed once per operation and borrowed.
#[derive(Clone, Debug)]
pub(crate) struct EffectiveRights {
    kind: Kind,
    /// Limits of a search. These limits do not apply to the administrator.
    limits: SearchLimits,
    /// Rights under access rules; `None` if no rules restrict the requester, as for the administrator.
    pub(super) rules: Option<Arc<RuleRights>>,
}

/// Limits of a search; 0 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SearchLimits {
    size: u32,
    time_seconds: u32,
    examined: u64,
    scan_share: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Anonymous { reads_tree: bool },
    User(EntryId),
    Administrator,
}

/// Constructors.
impl EffectiveRights {
    /// Computes the rights of the requester in this context.
    ///
    /// # Errors
    /// adminLimitExceeded for a user in more than
    /// [`REQUESTER_GROUPS_MAX`](crate::model::limits::REQUESTER_GROUPS_MAX) groups; the store failed.
    pub(crate) fn of(state: TreeState<'_>, context: &RequestContext<'_>) -> Result<EffectiveRights> {
        let rules = &state.catalog.access_rules;
        let rules = match rules.are_there() {
            true => RuleRights::of(rules, state, context.requester, context.link.as_ref())?,
            false => None,
        };
        Ok(EffectiveRights::with(state.settings, context, rules.map(Arc::new)))
    }

    /// Computes the rights of a requester as if these rules were in force.
    ///
    /// # Errors
    /// As [`of`](EffectiveRights::of).
    pub(crate) fn under(
        rules: &Arc<AccessRules>,
        state: TreeState<'_>,
        requester: &Requester,
        link: Option<&ClientLink>,
    ) -> Result<EffectiveRights> {
        let rules = RuleRights::of(rules, state, requester, link)?.map(Arc::new);
        Ok(EffectiveRights::with(state.settings, &requester.context(), rules))
    }

    /// Returns the effective rights of a requester whose rights under the rules are already computed.
    pub(super) fn with(
        settings: &Settings,
        context: &RequestContext<'_>,
        rules: Option<Arc<RuleRights>>,
    ) -> EffectiveRights {
        let kind = match context.requester {
            Requester::Anonymous => {
                Kind::Anonymous { reads_tree: settings.anonymous_read() || rules.is_some() }
            }
            Requester::User { id, .. } => Kind::User(*id),
            Requester::Administrator { .. } => Kind::Administrator,
        };
        let (own, general) = (context.limits, &settings.general);
        let limits = SearchLimits {
            size: own.size.unwrap_or(general.size_limit),
            time_seconds: own.time_seconds.unwrap_or(general.time_limit_seconds),
            examined: own.examined.unwrap_or(general.unindexed_examined_max),
            scan_share: own.scan_share.unwrap_or(general.scan_share_percent),
        };
        EffectiveRights { kind, limits, rules }
    }
}

/// The requester, and the limits of its searches.
impl EffectiveRights {
    /// Returns true if the requester is the administrator. The administrator has all rights, and may therefore act as
    /// any identity.
    pub(crate) fn is_administrator(&self) -> bool {
        self.kind == Kind::Administrator
    }

    /// Returns true if access rules restrict the requester. If so, counts must exclude entries that the requester may
    /// not see.
    pub(crate) fn is_restricted(&self) -> bool {
        self.rules.is_some()
    }

    /// Returns the requester's entry. Returns `None` if the requester has no entry or is not restricted by access
    /// rules.
    pub(crate) fn own(&self) -> Option<EntryId> {
        self.rules.as_ref()?.own()
    }

    /// Returns the size limit in force for a search, or for one page, given the limit that the client requests.
    pub(crate) fn size_limit(&self, question: u32) -> u32 {
        self.limit_of(question, self.limits.size)
    }

    /// Returns the time limit in force for a search in seconds, given the limit that the client requests.
    pub(crate) fn time_limit_seconds(&self, question: u32) -> u32 {
        self.limit_of(question, self.limits.time_seconds)
    }

    /// Returns the maximum number of entries that a search may examine without a match.
    pub(crate) fn examined_max(&self) -> u64 {
        match self.limits.examined {
            0 => u64::MAX,
            _ if self.is_administrator() => u64::MAX,
            max => max,
        }
    }

    /// Returns the percentage of the scan threads' time that searches without an index may take; 0 for no limit.
    pub(crate) fn scan_share(&self) -> u32 {
        if self.is_administrator() { 0 } else { self.limits.scan_share }
    }

    /// Returns the lower of the requested and the configured limit; 0 means no limit. The configured limit does not
    /// apply to the administrator.
    fn limit_of(&self, question: u32, set: u32) -> u32 {
        match (question, if self.is_administrator() { 0 } else { set }) {
            (0, limit) | (limit, 0) => limit,
            (question, set) => question.min(set),
        }
    }
}

/// Rights to read.
impl EffectiveRights {
    /// Checks that the requester may find and read entries of the tree.
    ///
    /// # Errors
    /// insufficientAccessRights.
    pub(crate) fn check_read_tree(&self) -> Result<()> {
        match self.kind {
            Kind::Anonymous { reads_tree: false } => {
                Err(denied("anonymous clients see only the root DSE and the schema: bind first"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the requester may read `cn=monitor`, which reveals what other clients do. The refusal is the same
    /// for every name at or below `cn=monitor`.
    ///
    /// # Errors
    /// insufficientAccessRights.
    pub(crate) fn check_read_monitor(&self, state: TreeState<'_>) -> Result<()> {
        match self.kind {
            Kind::Administrator => Ok(()),
            Kind::User(id) if is_among(state, id, &state.settings.general.monitor_readers)? => Ok(()),
            Kind::User(_) => Err(denied(
                "cn=monitor is for the administrator, and for whom the setting monitor_readers names",
            )),
            Kind::Anonymous { .. } => Err(denied("anonymous clients do not see cn=monitor: bind first")),
        }
    }

    /// Returns the secrecy classes of attribute types that results may contain and filters may test. At each entry,
    /// access rules may further restrict the visible types.
    pub(crate) fn shown(&self) -> Shown {
        match self.kind {
            Kind::Administrator => Shown::Secrets,
            _ if self.is_restricted() => Shown::AsRulesSay,
            _ => Shown::Plain,
        }
    }

    /// Returns a compiler of filters on the types that [`shown`](EffectiveRights::shown) includes.
    pub(crate) fn compiler<'c>(&self, catalog: &'c Catalog) -> Compiler<'c> {
        Compiler { catalog, shown: self.shown(), known: None }
    }

    /// Returns a matcher that considers only the groups that are visible to the requester.
    pub(crate) fn matcher(&self, by: MemberUse) -> Matcher {
        Matcher::under(self.shown(), self.groups(by))
    }

    /// Returns the visibility of groups for virtual attributes; `None` if all groups are visible.
    pub(crate) fn groups(&self, by: MemberUse) -> Option<GroupsOf> {
        let view = Arc::clone(self.rules.as_ref()?) as _;
        Some(GroupsOf { view, by })
    }

    /// Checks that the requester may compare values of this type in the entry `target`, apart from access rules for
    /// that entry. Call this before reading the values, so that a refusal reveals nothing.
    ///
    /// # Errors
    /// insufficientAccessRights.
    pub(crate) fn check_compare(&self, state: TreeState<'_>, target: EntryId, type_id: TypeId) -> Result<()> {
        let schema = &*state.catalog.schema;
        if self.shown().includes(&state.catalog.secrets, type_id) {
            return Ok(());
        }
        let name = schema.type_by_id(type_id).name();
        if state.catalog.secrets.of_type(type_id) == Secrecy::Nobody {
            return Err(denied(format!("no client may read or compare {name}")));
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
}

/// Rights to change.
impl EffectiveRights {
    /// Checks that the requester is not anonymous. Anonymous clients may not change anything, whatever the rules say.
    /// Call this before the lookup of the entry.
    ///
    /// # Errors
    /// strongerAuthRequired, as in slapd, because this code shows the client what to do.
    pub(crate) fn check_bound(&self) -> Result<()> {
        match self.kind {
            Kind::Anonymous { .. } => Err(OperationError::refused(
                ResultCode::STRONGER_AUTH_REQUIRED,
                "anonymous clients may not change anything: bind first",
            )),
            Kind::Administrator | Kind::User(_) => Ok(()),
        }
    }

    /// Checks that the requester may possibly add, delete, rename and move entries: the requester is the
    /// administrator, or access rules decide at each entry. Call this before the lookup of the entry.
    ///
    /// # Errors
    /// insufficientAccessRights; strongerAuthRequired for anonymous clients.
    pub(crate) fn check_write_tree(&self) -> Result<()> {
        self.check_by_rules("add, delete, rename and move entries")
    }

    /// Checks that the requester may possibly read and set the state of accounts: the requester is the administrator,
    /// or access rules decide at each entry. Call this before the lookup of the entry.
    ///
    /// # Errors
    /// insufficientAccessRights; strongerAuthRequired for anonymous clients.
    pub(crate) fn check_manage_accounts(&self) -> Result<()> {
        self.check_by_rules("look after the passwords of others")
    }

    /// Checks that the requester is the administrator or is restricted by access rules. If rules restrict the
    /// requester, a later check applies these rules. `what` names the operation in the error.
    fn check_by_rules(&self, what: &str) -> Result<()> {
        self.check_bound()?;
        match self.is_administrator() || self.is_restricted() {
            true => Ok(()),
            false => Err(denied(format!("only the administrator may {what}"))),
        }
    }

    /// Checks that the fixed rights of the requester permit a modify of these attribute types in the entry `target`.
    /// Access rules are checked elsewhere. All users may change their own userPassword.
    ///
    /// # Errors
    /// insufficientAccessRights; strongerAuthRequired for anonymous clients.
    pub(crate) fn check_modify(
        &self,
        catalog: &Catalog,
        target: EntryId,
        changed: impl IntoIterator<Item = TypeId>,
    ) -> Result<()> {
        self.check_bound()?;
        let schema = &*catalog.schema;
        match self.kind {
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
            Kind::Administrator | Kind::Anonymous { .. } => Ok(()),
        }
    }

    /// Returns true if the requester may change the password of the entry `id`, given the requester's rights `at` at
    /// this entry. A change of the requester's own entry requires the right to write; other entries require the right
    /// to reset.
    pub(crate) fn may_change_password(&self, at: &EntryRights, id: EntryId, password: TypeId) -> bool {
        if self.own() == Some(id) { at.may_write(password) } else { at.may(RESET) }
    }
}

/// Rights at an entry. These functions return `None` in place of rights if no rules restrict the requester.
impl EffectiveRights {
    /// Returns the rights at an entry of the tree. `traversal` caches state from entry to entry.
    ///
    /// # Errors
    /// The store failed.
    #[inline]
    pub(crate) fn at(
        &self,
        state: TreeState<'_>,
        traversal: &mut TraversalCache,
        id: EntryId,
        parent: EntryId,
    ) -> Result<Option<Arc<EntryRights>>> {
        self.rules.as_ref().map(|rules| rules.at(state, traversal, id, parent)).transpose()
    }

    /// Returns the rights at an entry that is known to exist.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) fn at_entry(&self, state: TreeState<'_>, id: EntryId) -> Result<Option<Arc<EntryRights>>> {
        self.rules.as_ref().map(|rules| rules.at_entry(state, id)).transpose()
    }

    /// Returns the rights at a new entry below `parent`.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) fn below(
        &self,
        state: TreeState<'_>,
        parent: EntryId,
        newcomer: NewEntryFacts<'_>,
    ) -> Result<Option<Arc<EntryRights>>> {
        self.rules.as_ref().map(|rules| rules.below(state, parent, newcomer)).transpose()
    }

    /// Returns the rights at the entry `id`, whose DN in the request is `dn`.
    ///
    /// # Errors
    /// noSuchObject, as for a missing entry, if the requester may not see the entry; the store failed.
    pub(crate) fn at_visible(
        &self,
        state: TreeState<'_>,
        id: EntryId,
        dn: &str,
    ) -> Result<Option<Arc<EntryRights>>> {
        let at = self.at_entry(state, id)?;
        match at.as_ref().is_none_or(|at| at.may_browse()) {
            true => Ok(at),
            false => Err(self.hidden(state, dn, Some(id))?),
        }
    }

    /// Returns true if the requester may see an entry, or the root of the tree.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) fn may_browse(&self, state: TreeState<'_>, id: EntryId) -> Result<bool> {
        match &self.rules {
            Some(rules) if id != EntryId::ROOT => Ok(rules.at_entry(state, id)?.may_browse()),
            _ => Ok(true),
        }
    }

    /// Determines from the rules alone, without reading entries, whether the requester may read all values of these
    /// types in the subtree of `base`.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) fn readable(&self, state: TreeState<'_>, base: EntryId, types: &TypeSet) -> Result<Readable> {
        match &self.rules {
            Some(rules) => rules.readable(state, base, types),
            None => Ok(Readable::Everywhere),
        }
    }

    /// Returns true if the requester may have the right `explain` at some entry. The administrator has this right
    /// everywhere; other requesters need a rule.
    pub(crate) fn may_explain_some(&self) -> bool {
        self.is_administrator() || self.rules.as_ref().is_some_and(|rules| rules.may_explain_some())
    }

    /// Returns true if the requester may use all these controls and extended operations.
    pub(crate) fn may_use(&self, uses: Uses) -> bool {
        match &self.rules {
            Some(rules) => !rules.may_not_use(uses),
            None => self.is_administrator() || !uses.has(Uses::BY_NAME),
        }
    }

    /// Returns true if the requester may use the members in an attribute of a group for the purpose `by`.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) fn shows_member(
        &self,
        state: TreeState<'_>,
        place: (EntryId, AttrId),
        by: MemberUse,
    ) -> Result<bool> {
        self.rules.as_ref().map_or(Ok(true), |rules| rules.shows_member(state, place, by))
    }

    /// Returns true if rules for the requester have filters on entries.
    pub(crate) fn has_entry_filters(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| rules.has_entry_filters())
    }

    /// Returns the error for an entry that is missing or hidden. The error is the same in both cases. Its matched DN is
    /// the nearest superior that the requester may see.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) fn hidden(
        &self,
        state: TreeState<'_>,
        dn: &str,
        nearest: Option<EntryId>,
    ) -> Result<OperationError> {
        let mut at = nearest;
        for _ in 0..=TREE_DEPTH_MAX {
            let Some(id) = at.filter(|id| *id != EntryId::ROOT) else { break };
            if self.may_browse(state, id)? {
                break;
            }
            at = state.node(id)?.map(|node| node.parent);
        }
        let matched_dn = match at {
            Some(id) => state.dn(id)?.unwrap_or_default(),
            None => String::new(),
        };
        let what = format!("{} does not exist, or you may not see it", Quoted(dn));
        Ok(OperationError::NoSuchObject { matched_dn, what })
    }

    /// Returns the result of a lookup of `dn`, but replaces an error that the requester must not receive.
    ///
    /// # Errors
    /// The errors of the lookup, without DNs of hidden entries; the store failed.
    pub(crate) fn permitted<T>(&self, state: TreeState<'_>, dn: &str, found: Result<T>) -> Result<T> {
        match found {
            Err(error) if self.is_restricted() => Err(self.permitted_error(state, dn, error)?),
            found => found,
        }
    }

    #[cold]
    fn permitted_error(
        &self,
        state: TreeState<'_>,
        dn: &str,
        error: OperationError,
    ) -> Result<OperationError> {
        let (OperationError::NoSuchObject { matched_dn, .. }
        | OperationError::Referral { matched_dn, .. }
        | OperationError::Alias { matched_dn, .. }) = &error
        else {
            return Ok(error);
        };
        let schema = &state.catalog.schema;
        let matched = match matched_dn.as_str() {
            "" => None,
            dn => state.entry_of(&NormalName::of(&parse_dn(dn)?, schema))?,
        };
        if !matches!(error, OperationError::NoSuchObject { .. }) {
            if let Some(id) = matched
                && self.may_browse(state, id)?
            {
                return Ok(error);
            }
            // If the referral or alias is hidden, an invalid name below the referral or alias is reported as invalid,
            // as if the referral or alias did not exist.
            if let Some(failure) = NormalName::of(&parse_dn(dn)?, schema).failure {
                return Ok(invalid_name(dn, &failure));
            }
        }
        self.hidden(state, dn, matched)
    }
}

/// Dependencies of the rights.
impl EffectiveRights {
    /// Returns the sources of the rights under rules. A change of any source invalidates these rights.
    pub(crate) fn sources(&self) -> Option<&Sources> {
        self.rules.as_ref().map(|rules| rules.sources())
    }

    /// Returns octets that identify the requester and the rules that may apply: see [`RuleRights::identity`].
    pub(crate) fn identity(&self) -> Vec<u8> {
        self.rules.as_ref().map(|rules| rules.identity()).unwrap_or_default()
    }

    /// Returns the filters that entries must match for rules to apply.
    pub(crate) fn filters(&self) -> impl Iterator<Item = ldap::Filter<'_>> {
        self.rules.iter().flat_map(|rules| rules.filters())
    }
}

/// Returns true if one of these DNs is the present DN of the entry `id`.
fn is_among(state: TreeState<'_>, id: EntryId, dns: &[String]) -> Result<bool> {
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
