//! Who is meant by an identity (RFC 4513 section 5.2.1.8), and who may act as whom: the authorization identities of
//! SASL, and those of proxied authorization (RFC 4370).
//!
//! `dn:` and a DN is that entry. `u:` and a name, or a name alone, is the one entry that has it as a value of an
//! attribute of the setting `identity_attributes`. A name that two entries have is nobody's. Only indexes are asked, so
//! that a name costs no more than a few rows.

use ber::{Reader, Tag};
use ldap::oids::{PROXIED_AUTHORIZATION, PROXIED_AUTHORIZATION_V1};
use ldap::{Control, Controls, ResultCode};

use crate::access::{Access, Requester, groups_of};
use crate::accounts;
use crate::catalog::normal_value;
use crate::model::index_definition::IndexPart;
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::{OperationError, Outcome};
use crate::model::rows::{EntryId, INDEX, index_key};
use crate::password::policy::{Account, PasswordPolicy};
use crate::read::bind::is_administrator;
use crate::snapshot::Snapshot;
use crate::tree::{Found, TreeState, damaged_row};

type Result<T> = std::result::Result<T, OperationError>;

/// Somebody who may prove to be who they say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identified {
    /// Who it is then.
    pub requester: Requester,
    /// The text forms of keys for SCRAM (RFC 5803), CRAM-MD5 and DIGEST-MD5.
    pub sasl_keys: Vec<String>,
    /// What is on record of the password, where a policy governs it.
    pub account: Option<Box<Account>>,
}

/// Whoever is meant by an identity; `None` for nobody.
///
/// # Errors
/// The store failed.
pub fn identify(snapshot: &Snapshot, identity: &str) -> std::result::Result<Option<Identified>, Outcome> {
    try_identify(snapshot.state(), identity).map_err(Outcome::from)
}

/// Whoever has this value of an attribute; `None` for nobody, for two, and where the attribute has no index.
///
/// # Errors
/// The store failed.
pub fn identify_by(
    snapshot: &Snapshot,
    attribute: &str,
    value: &str,
) -> std::result::Result<Option<Identified>, Outcome> {
    let state = snapshot.state();
    let found = || match find_by(state, &[attribute], value)? {
        Some(id) => identified(state, id).map(Some),
        None => Ok(None),
    };
    found().map_err(Outcome::from)
}

fn try_identify(state: TreeState<'_>, identity: &str) -> Result<Option<Identified>> {
    let id = match identity.get(..3).filter(|prefix| prefix.eq_ignore_ascii_case("dn:")) {
        Some(_) => {
            let Ok(dn) = parse_dn(identity.get(3..).unwrap_or_default()) else { return Ok(None) };
            let name = NormalName::of(&dn, &state.catalog.schema);
            if is_administrator(state, &name)? {
                let requester = Requester::Administrator { dn: state.settings.node.admin_dn.clone() };
                return Ok(Some(Identified { requester, sasl_keys: Vec::new(), account: None }));
            }
            match state.find(&name)? {
                Found::Entry(id, flags) if !flags.is_alias() && !flags.is_referral() => Some(id),
                _ => None,
            }
        }
        None => {
            let name = identity.strip_prefix("u:").unwrap_or(identity);
            find_by(state, &state.settings.general.identity_attributes, name)?
        }
    };
    id.map(|id| identified(state, id)).transpose()
}

fn identified(state: TreeState<'_>, id: EntryId) -> Result<Identified> {
    let requester = Requester::User { id, dn: state.dn(id)?.ok_or_else(|| damaged_row("nodes", id))? };
    let account = accounts::account(state, id)?.map(Box::new);
    Ok(Identified { requester, sasl_keys: accounts::sasl_keys(state, id)?, account })
}

/// Whether somebody is the user of the entry of this DN, or in the group of this DN, by way of other groups, too. What
/// cannot be found out is not so.
pub fn is_named(snapshot: &Snapshot, requester: &Requester, dn: &str, as_group: bool) -> bool {
    let (state, Requester::User { id, .. }) = (snapshot.state(), requester) else { return false };
    let Ok(dn) = parse_dn(dn) else { return false };
    let Ok(Some(named)) = state.entry_of(&NormalName::of(&dn, &state.catalog.schema)) else { return false };
    match as_group {
        false => named == *id,
        true => groups_of(state, *id).is_ok_and(|groups| groups.binary_search(&named.0).is_ok()),
    }
}

/// Whoever is meant by an identity, as a requester; `None` for nobody.
pub(crate) fn requester(state: TreeState<'_>, identity: &str) -> Result<Option<Requester>> {
    Ok(try_identify(state, identity)?.map(|identified| identified.requester))
}

/// Whom somebody acts as who has proved to be `requester` and asks for this authorization identity in SASL; `None` for
/// whom that requester may not act as, whether there is such a one or not. An empty one is the requester's own
/// (RFC 4422 section 3.4.1).
///
/// # Errors
/// The store failed.
pub fn authorized(
    snapshot: &Snapshot,
    requester: &Requester,
    identity: &str,
) -> std::result::Result<Option<Requester>, Outcome> {
    if identity.is_empty() {
        return Ok(Some(requester.clone()));
    }
    let other = identify(snapshot, identity)?.map(|identified| identified.requester);
    Ok(match other {
        Some(other) if other == *requester || may_act_as(snapshot, requester, &other)? => Some(other),
        _ => None,
    })
}

/// The identity that a request's control for proxied authorization names, which may be nobody's; `None` without one.
///
/// # Errors
/// protocolError for a control that is not critical, which would run as somebody else where it is not known, or whose
/// value is none.
pub fn proxied_identity(controls: &Controls<'_>) -> std::result::Result<Option<String>, Outcome> {
    let is_proxied =
        |control: &Control<'_>| [PROXIED_AUTHORIZATION, PROXIED_AUTHORIZATION_V1].contains(&control.oid);
    let Some(control) = controls.iter().find(is_proxied) else { return Ok(None) };
    if !control.critical {
        return Err(refused(ResultCode::PROTOCOL_ERROR, "the control must be critical (RFC 4370 section 3)"));
    }
    let value = control.value.unwrap_or_default();
    if control.oid == PROXIED_AUTHORIZATION {
        return Ok(Some(String::from_utf8_lossy(value).into_owned()));
    }
    match proxy_dn(value) {
        Some(dn) => Ok(Some(format!("dn:{}", String::from_utf8_lossy(dn)))),
        None => Err(refused(ResultCode::PROTOCOL_ERROR, "the value is not a SEQUENCE of one DN")),
    }
}

/// Whom a request runs as by its control for proxied authorization; `None` without one.
///
/// # Errors
/// Those of [`proxied_identity`]; authorizationDenied for somebody who is not there or whom the requester may not act
/// as: the answer does not tell which.
pub fn proxied_requester(
    snapshot: &Snapshot,
    requester: &Requester,
    controls: &Controls<'_>,
) -> std::result::Result<Option<Requester>, Outcome> {
    let Some(identity) = proxied_identity(controls)? else { return Ok(None) };
    let found = match identity.as_str() {
        "" | "dn:" => Some(Requester::Anonymous),
        // RFC 4513 section 5.2.1.8 knows no other form.
        known if known.starts_with("dn:") || known.starts_with("u:") => {
            identify(snapshot, known)?.map(|identified| identified.requester)
        }
        _ => None,
    };
    let found = match found {
        Some(other) if may_act_as(snapshot, requester, &other)? => Some(other),
        _ => None,
    };
    let denied = || refused(ResultCode::AUTHORIZATION_DENIED, "you may not act as that identity");
    found.map(Some).ok_or_else(denied)
}

/// Whether requests may run as somebody else: the administrator's as anybody, those of others as the users of entries
/// at which a rule lets them.
fn may_act_as(
    snapshot: &Snapshot,
    requester: &Requester,
    other: &Requester,
) -> std::result::Result<bool, Outcome> {
    let state = snapshot.state();
    if Access::of(requester, state.settings).may_act_as_others() {
        return Ok(true);
    }
    let (Requester::User { .. }, Requester::User { id, .. }) = (requester, other) else { return Ok(false) };
    let may = match snapshot.standing(&requester.context())? {
        Some(standing) => standing.at_entry(state, *id)?.may_proxy(),
        None => false,
    };
    Ok(may)
}

fn refused(code: ResultCode, text: &str) -> Outcome {
    Outcome::new(code, format!("proxied authorization: {text}"))
}

/// The DN of the control's first version: `SEQUENCE { proxyDN LDAPDN }` (draft-weltman-ldapv3-proxy-04 section 3).
fn proxy_dn(value: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(value);
    let mut sequence = reader.sequence(Tag::SEQUENCE).ok()?;
    let dn = sequence.octet_string().ok()?;
    (sequence.is_empty() && reader.is_empty()).then_some(dn)
}

/// Iterations that keys for SCRAM usually have here: what a name gets that nobody has.
pub fn usual_scram_iterations(snapshot: &Snapshot) -> u32 {
    let policies = &snapshot.state().catalog.policies;
    let usual = policies.default.and_then(|id| policies.of(id));
    usual.map_or(PasswordPolicy::default().scram_iterations(), |policy| policy.scram_iterations())
}

/// The only entry that has this value of one of these attributes.
fn find_by(state: TreeState<'_>, attributes: &[impl AsRef<str>], name: &str) -> Result<Option<EntryId>> {
    let schema = &*state.catalog.schema;
    let mut found = None;
    for attribute in attributes {
        let Some(attribute_type) = schema.attribute_type(attribute.as_ref()) else { continue };
        let Some(base) = state.catalog.attribute_id(attribute_type.id, "") else { continue };
        let def = state.catalog.attribute(base);
        // Without an index nobody is found: a name must not cost a walk over all entries.
        if !def.index.answers(IndexPart::Values)
            || schema.validate_value(attribute_type, name.as_bytes()).is_err()
        {
            continue;
        }
        let normal = normal_value(schema, def, name.as_bytes());
        let mut ids = state.read.ids(INDEX, &index_key(base, &normal))?;
        let mut block = Vec::new();
        ids.next_block(&mut block, 2)?;
        for id in block.into_iter().map(EntryId) {
            let is_person =
                state.node(id)?.is_some_and(|node| !node.flags.is_alias() && !node.flags.is_referral());
            match found {
                _ if !is_person => {}
                Some(other) if other != id => return Ok(None),
                _ => found = Some(id),
            }
        }
    }
    Ok(found)
}
