//! Finding the entry that an operation names: through aliases where they are to be followed (RFC 4511 section 4.5.1.3),
//! or to the referral that knows more (RFC 3296 section 5).

use std::ops::ControlFlow;

use ldap::{Dn, ResultCode, Scope};

use crate::model::entry::EntryRow;
use crate::model::limits::ALIAS_HOPS_MAX;
use crate::model::name::NormalName;
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;
use crate::model::rows::{ENTRIES, EntryId, NodeFlags, id_key};
use crate::tree::stored_values::for_each_value;
use crate::tree::target::missing;
use crate::tree::{Found, State, damaged_row};

/// OID of `aliasedObjectName`.
const ALIASED_OBJECT_NAME: &str = "2.5.4.1";

/// How the entry of a name is to be found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finding {
    /// Whether aliases are followed.
    pub(crate) follows_aliases: bool,
    /// Whether referral entries count as ordinary ones (ManageDsaIT).
    pub(crate) manages: bool,
    /// Scope of the search, for the URLs of a referral.
    pub(crate) scope: Option<Scope>,
}

/// Why an alias leads nowhere.
enum AliasFault {
    /// The aliased name has no entry, or the alias no aliased name.
    Nowhere,
    /// It leads back to an alias already followed, or through too many.
    Loop,
}

/// Finds the entry that `dn`, with the normal form `name`, names.
///
/// # Errors
/// noSuchObject, referral, aliasProblem, aliasDereferencingProblem; the matched DN says how far it went.
pub(crate) fn find_entry(
    state: State<'_>,
    dn: &Dn<'_>,
    name: &NormalName,
    finding: Finding,
) -> Result<(EntryId, NodeFlags), OperationError> {
    match state.find(name)? {
        Found::Entry(id, flags) if !finding.is_special(flags) => Ok((id, flags)),
        found => find_on(state, dn, name, found, finding),
    }
}

impl Finding {
    /// Whether an entry with these flags is more than an entry: an alias to follow, a signpost elsewhere.
    pub(crate) fn is_special(self, flags: NodeFlags) -> bool {
        (flags.is_referral() && !self.manages) || (flags.is_alias() && self.follows_aliases)
    }
}

/// Goes on from where the plain look-up ended.
#[cold]
fn find_on(
    state: State<'_>,
    dn: &Dn<'_>,
    name: &NormalName,
    found: Found,
    finding: Finding,
) -> Result<(EntryId, NodeFlags), OperationError> {
    let (at, flags, depth) = match found {
        Found::Entry(id, flags) => (id, flags, name.depth()),
        Found::Missing { nearest: Some(nearest) } => nearest,
        Found::Missing { nearest: None } => return Err(missing(state, dn, name, None)?),
    };
    let below_count = dn.len() - depth;
    // ManageDsaIT makes an entry of the referral itself; what is below it is elsewhere all the same.
    if flags.is_referral() && (!finding.manages || below_count > 0) {
        return Err(crate::tree::referral::referral(
            state,
            at,
            &leading_rdns(dn, below_count),
            finding.scope,
        )?);
    }
    if flags.is_alias() && finding.follows_aliases {
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

/// Follows an alias to the name it gives, with `below` in front of it, through further aliases.
fn follow(
    state: State<'_>,
    aliased: Option<String>,
    below: String,
    finding: Finding,
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
        let rest = leading_rdns(&dn, dn.len() - depth);
        if flags.is_referral() && !finding.manages {
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

/// Where an alias met while searching leads: `None` where it leads nowhere, in a circle, or to another server. Such
/// aliases are passed over: the search answers with what there is.
pub(crate) fn dereference(state: State<'_>, alias: EntryId) -> Result<Option<EntryId>, OperationError> {
    let finding = Finding { follows_aliases: true, manages: false, scope: None };
    let aliased = aliased_name(state, alias)?;
    match follow(state, aliased, String::new(), finding, &mut vec![alias]) {
        Ok(found) => Ok(found.ok().map(|(id, _)| id)),
        Err(OperationError::Referral { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The value of `aliasedObjectName`.
fn aliased_name(state: State<'_>, alias: EntryId) -> Result<Option<String>, OperationError> {
    let Some(attribute_type) = state.catalog.schema.attribute_type(ALIASED_OBJECT_NAME) else {
        return Ok(None);
    };
    let Some(attribute) = state.catalog.attribute_id(attribute_type.id, "") else { return Ok(None) };
    let bytes = state.read.get(ENTRIES, &id_key(alias))?;
    let entry = bytes.and_then(EntryRow::decode).ok_or_else(|| damaged_row("entries", alias))?;
    let mut name = None;
    if let Some(row) = entry.find(attribute) {
        for_each_value(state, alias, &row, &mut |value| {
            name = String::from_utf8(value.to_vec()).ok();
            ControlFlow::Break(())
        })?;
    }
    Ok(name)
}

/// The text of the first `count` RDNs of a name.
fn leading_rdns(dn: &Dn<'_>, count: usize) -> String {
    let rdns: Vec<&str> = dn.rdns().take(count).map(|rdn| rdn.text).collect();
    rdns.join(",")
}

fn alias_error(
    state: State<'_>,
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
