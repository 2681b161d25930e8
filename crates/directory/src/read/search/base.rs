//! Lookup of the entry that an operation names. The lookup follows aliases if requested (RFC 4511 section 4.5.1.3) and
//! stops at referrals (RFC 3296 section 5).

use ldap::{DerefAliases, Dn, ResultCode, Scope, SearchRequest};

use super::SearchInputs;
use super::outside::{self, NamedEntry};
use crate::access::EffectiveRights;
use crate::model::limits::ALIAS_HOPS_MAX;
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;
use crate::model::rows::{EntryId, NodeFlags};
use crate::snapshot::Snapshot;
use crate::tree::stored_values::values_of_type;
use crate::tree::target::missing;
use crate::tree::{Found, TreeState};

/// OID of `aliasedObjectName`.
const ALIASED_OBJECT_NAME: &str = "2.5.4.1";

/// Options of a lookup.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LookupOptions<'f> {
    /// Rights of the requester. Aliases and their targets are treated as missing if the requester may not see them.
    pub(crate) rights: &'f EffectiveRights,
    /// Whether aliases are followed.
    pub(crate) follows_aliases: bool,
    /// Whether referral entries are treated as ordinary entries (ManageDsaIT).
    pub(crate) manages: bool,
    /// Scope of the search, for the URLs in a referral.
    pub(crate) scope: Option<Scope>,
}

/// Reason why an alias cannot be followed.
enum AliasFault {
    /// No entry has the aliased name, the requester may not see that entry, or the alias has no valid
    /// `aliasedObjectName`.
    Nowhere,
    /// The alias leads back to an alias already followed, or through too many aliases.
    Loop,
}

/// Base of a search.
pub(super) enum Base<'s> {
    /// An entry of the tree; the root for the empty DN.
    Tree(EntryId),
    /// Virtual entries: the base and the entries below it.
    Outside(Vec<NamedEntry<'s>>),
}

/// Finds the base of a search, even if the requester may not see it. The search later reports a hidden base as missing,
/// unless a visible entry below that base is a result.
///
/// # Errors
/// As [`find_entry`], and insufficientAccessRights. A hidden entry causes the same error as a missing entry, and
/// insufficientAccessRights does not reveal whether the entry exists.
pub(super) fn find_base<'s>(inputs: &SearchInputs<'s>) -> Result<Base<'s>, OperationError> {
    inputs.rights.permitted(inputs.snapshot.state(), inputs.request.base_object, any_base(inputs))
}

/// Finds the base. Errors may name hidden entries.
fn any_base<'s>(inputs: &SearchInputs<'s>) -> Result<Base<'s>, OperationError> {
    let SearchInputs { snapshot, rights, request, .. } = *inputs;
    let finding = LookupOptions::of(inputs);
    if let Some(base) = remembered(snapshot, request, finding)? {
        rights.check_read_tree()?;
        return Ok(Base::Tree(base));
    }
    let state = snapshot.state();
    let dn = parse_dn(request.base_object)?;
    if let Some((base, flags)) = snapshot.entry_below_cached(&dn)?
        && !finding.is_special(flags)
    {
        rights.check_read_tree()?;
        return Ok(Base::Tree(base));
    }
    let name = NormalName::of(&dn, &state.catalog.schema);
    // The children of the root are the suffix entries.
    let is_root = dn.is_empty() && request.scope != Scope::BaseObject;
    if !is_root && let Some(entries) = outside::entries(snapshot, rights, &dn, &name, inputs.context.offered)?
    {
        return Ok(Base::Outside(entries));
    }
    rights.check_read_tree()?;
    if is_root {
        return Ok(Base::Tree(EntryId::ROOT));
    }
    let found = find_entry(state, &dn, &name, finding)?;
    let has_aliases = state.catalog.class_set_flags().is_alias();
    if !(finding.follows_aliases && has_aliases) {
        snapshot.keep_entry(&dn, found.0)?;
        // Searches of scope baseObject are not cached, because they seldom repeat a base.
        if request.scope != Scope::BaseObject {
            snapshot.names().keep_base(request.base_object, found);
        }
    }
    Ok(Base::Tree(found.0))
}

/// Returns the base from the cache of the snapshot, if this request treats it as an ordinary entry.
fn remembered(
    snapshot: &Snapshot,
    request: &SearchRequest<'_>,
    finding: LookupOptions<'_>,
) -> Result<Option<EntryId>, OperationError> {
    let known = match request.scope {
        Scope::BaseObject => snapshot.cached_entry(request.base_object)?.map(|(id, row)| (id, row.flags)),
        _ => snapshot.names().base(request.base_object),
    };
    Ok(known.filter(|(_, flags)| !finding.is_special(*flags)).map(|(id, _)| id))
}

/// Finds the entry with the DN `dn`, whose normal form is `name`.
///
/// # Errors
/// noSuchObject, referral, aliasProblem, aliasDereferencingProblem; the matched DN names the last entry found.
pub(crate) fn find_entry(
    state: TreeState<'_>,
    dn: &Dn<'_>,
    name: &NormalName,
    finding: LookupOptions<'_>,
) -> Result<(EntryId, NodeFlags), OperationError> {
    match state.find(name)? {
        Found::Entry(id, flags) if !finding.is_special(flags) => Ok((id, flags)),
        found => find_on(state, dn, name, found, finding),
    }
}

impl LookupOptions<'_> {
    /// Returns the lookup options for the base of a search.
    fn of<'f>(inputs: &SearchInputs<'f>) -> LookupOptions<'f> {
        let SearchInputs { rights, request, controls, .. } = *inputs;
        LookupOptions {
            rights,
            follows_aliases: matches!(
                request.deref_aliases,
                DerefAliases::FindingBase | DerefAliases::Always
            ),
            manages: controls.manage_dsa_it,
            scope: Some(request.scope),
        }
    }

    /// Returns true if a lookup ends with a referral at an entry with these flags. The entry is `below_count` RDNs
    /// above the requested name. With ManageDsaIT a referral entry is an ordinary entry, but the entries below it are
    /// still on another server (RFC 3296 sections 3 and 5.1).
    fn refers(self, flags: NodeFlags, below_count: usize) -> bool {
        flags.is_referral() && (!self.manages || below_count > 0)
    }

    /// Returns true if the requester may see the entry `id`, an alias or the target of an alias.
    fn sees(self, state: TreeState<'_>, id: EntryId) -> Result<bool, OperationError> {
        self.rights.may_browse(state, id)
    }

    /// Returns true if the lookup must treat an entry with these flags as an alias to follow or as a referral.
    pub(crate) fn is_special(self, flags: NodeFlags) -> bool {
        (flags.is_referral() && !self.manages) || (flags.is_alias() && self.follows_aliases)
    }
}

/// Continues a lookup that reached an alias, a referral or no entry.
#[cold]
fn find_on(
    state: TreeState<'_>,
    dn: &Dn<'_>,
    name: &NormalName,
    found: Found,
    finding: LookupOptions<'_>,
) -> Result<(EntryId, NodeFlags), OperationError> {
    let (at, flags, depth) = match found {
        Found::Entry(id, flags) => (id, flags, name.depth()),
        Found::Missing { nearest: Some(nearest) } => nearest,
        Found::Missing { nearest: None } => return Err(missing(state, dn, name, None)?),
    };
    let below_count = dn.len() - depth;
    if finding.refers(flags, below_count) {
        return Err(crate::tree::referral::referral(
            state,
            at,
            &leading_rdns(dn, below_count),
            finding.scope,
        )?);
    }
    if flags.is_alias() && finding.follows_aliases {
        if !finding.sees(state, at)? {
            return Err(missing(state, dn, name, Some((at, flags, depth)))?);
        }
        let next = aliased_name(state, at)?;
        return match follow(state, next, leading_rdns(dn, below_count), finding, &mut vec![at])? {
            Ok(found) => Ok(found),
            Err(fault) => Err(alias_error(state, at, fault)?),
        };
    }
    match found {
        Found::Entry(id, flags) => Ok((id, flags)),
        Found::Missing { nearest } => Err(missing(state, dn, name, nearest)?),
    }
}

/// Follows an alias to the name `aliased`, extended by the RDNs `below`. If that name leads to another alias, follows
/// that alias too.
fn follow(
    state: TreeState<'_>,
    aliased: Option<String>,
    below: String,
    finding: LookupOptions<'_>,
    seen: &mut Vec<EntryId>,
) -> Result<Result<(EntryId, NodeFlags), AliasFault>, OperationError> {
    let (mut aliased, mut below) = (aliased, below);
    loop {
        let Some(target) = aliased else { return Ok(Err(AliasFault::Nowhere)) };
        let text = if below.is_empty() { target } else { format!("{below},{target}") };
        let Ok(dn) = Dn::parse(&text) else { return Ok(Err(AliasFault::Nowhere)) };
        let name = NormalName::of(&dn, &state.catalog.schema);
        let (at, flags, depth) = match state.find(&name)? {
            Found::Entry(id, flags) => (id, flags, name.depth()),
            Found::Missing { nearest: Some(nearest) } => nearest,
            Found::Missing { nearest: None } => return Ok(Err(AliasFault::Nowhere)),
        };
        let below_count = dn.len() - depth;
        let rest = leading_rdns(&dn, below_count);
        if !finding.sees(state, at)? {
            return Ok(Err(AliasFault::Nowhere));
        }
        if finding.refers(flags, below_count) {
            return Err(crate::tree::referral::referral(state, at, &rest, finding.scope)?);
        }
        if !flags.is_alias() {
            return Ok(if rest.is_empty() { Ok((at, flags)) } else { Err(AliasFault::Nowhere) });
        }
        if seen.contains(&at) || seen.len() >= ALIAS_HOPS_MAX {
            return Ok(Err(AliasFault::Loop));
        }
        seen.push(at);
        aliased = aliased_name(state, at)?;
        below = rest;
    }
}

/// Target of an alias in the scope of a search.
pub(crate) enum AliasTarget {
    Entry(EntryId),
    /// A subtree on another server, given by the URLs of the continuation reference (RFC 4511 section 4.5.3).
    OtherServer(Vec<String>),
    /// No target: the alias or the aliased entry is hidden, no entry has the aliased name, or there are too many
    /// aliases or a loop of aliases. The search skips such aliases.
    Nowhere,
}

/// Follows an alias in the scope of a search.
pub(crate) fn dereference(
    state: TreeState<'_>,
    alias: EntryId,
    rights: &EffectiveRights,
    (scope, manages): (Scope, bool),
) -> Result<AliasTarget, OperationError> {
    // In a search one level below the base, only the target of the alias itself is in scope.
    let scope = if scope == Scope::SingleLevel { Scope::BaseObject } else { Scope::WholeSubtree };
    let finding = LookupOptions { rights, follows_aliases: true, manages, scope: Some(scope) };
    if !finding.sees(state, alias)? {
        return Ok(AliasTarget::Nowhere);
    }
    let aliased = aliased_name(state, alias)?;
    match follow(state, aliased, String::new(), finding, &mut vec![alias]) {
        Ok(Ok((id, _))) => Ok(AliasTarget::Entry(id)),
        Ok(Err(_)) => Ok(AliasTarget::Nowhere),
        Err(OperationError::Referral { referrals, .. }) => Ok(AliasTarget::OtherServer(referrals)),
        Err(error) => Err(error),
    }
}

/// Returns the value of `aliasedObjectName`.
fn aliased_name(state: TreeState<'_>, alias: EntryId) -> Result<Option<String>, OperationError> {
    let names = values_of_type(state, alias, ALIASED_OBJECT_NAME)?;
    Ok(names.into_iter().next().and_then(|name| String::from_utf8(name).ok()))
}

/// Returns the text of the first `count` RDNs of a name.
fn leading_rdns(dn: &Dn<'_>, count: usize) -> String {
    let rdns: Vec<&str> = dn.rdns().take(count).map(|rdn| rdn.text).collect();
    rdns.join(",")
}

fn alias_error(
    state: TreeState<'_>,
    alias: EntryId,
    fault: AliasFault,
) -> Result<OperationError, OperationError> {
    let matched_dn = state.dn(alias)?.unwrap_or_default();
    let (code, what) = match fault {
        AliasFault::Nowhere => (ResultCode::ALIAS_PROBLEM, "leads to no entry"),
        AliasFault::Loop => {
            (ResultCode::ALIAS_DEREFERENCING_PROBLEM, "leads in a circle or through too many aliases")
        }
    };
    let diagnostic = format!("the alias {} {what}", Quoted(&matched_dn));
    Ok(OperationError::Alias { code, diagnostic, matched_dn })
}
