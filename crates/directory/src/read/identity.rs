//! Resolution of authorization identities (RFC 4513 section 5.2.1.8), and the right to assume them with SASL or proxied
//! authorization (RFC 4370).
//!
//! `dn:` followed by a DN denotes the entry with that DN. `u:` followed by a name, or a name alone, denotes the only
//! entry that has the name as a value of one of the attributes in the setting `identity_attributes`. If several
//! entries have that value, the name denotes no entry. Only indexes are searched, so a lookup reads only a few rows.

use ber::{Reader, Tag};
use ldap::oids::{PROXIED_AUTHORIZATION, PROXIED_AUTHORIZATION_V1};
use ldap::{Control, Controls, ResultCode};
use schema::AttributeType;

use crate::access::{RequestContext, Requester, is_member};
use crate::accounts;
use crate::catalog::normal_value;
use crate::model::access_rule::PROXY;
use crate::model::client_pattern::ClientPattern;
use crate::model::index_definition::IndexPart;
use crate::model::limits::NAMED_ENTRIES_MAX;
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::{OperationError, Outcome};
use crate::model::rows::{EntryId, INDEX, index_key};
use crate::password::policy::{Account, PasswordPolicy};
use crate::read::bind::is_administrator;
use crate::snapshot::Snapshot;
use crate::tree::{Found, TreeState, damaged_row};

type Result<T> = std::result::Result<T, OperationError>;

/// The requester that an identity denotes, with the data that authentication of that requester needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identified {
    /// The requester after successful authentication.
    pub requester: Requester,
    /// Keys for SCRAM (RFC 5803), CRAM-MD5 and DIGEST-MD5 in text form.
    pub sasl_keys: Vec<String>,
    /// The account state, if a password policy governs the entry.
    pub account: Option<Box<Account>>,
}

/// Resolves an identity; `None` if it denotes no entry.
///
/// # Errors
/// The store failed.
pub fn identify(snapshot: &Snapshot, identity: &str) -> std::result::Result<Option<Identified>, Outcome> {
    try_identify(snapshot.state(), identity).map_err(Outcome::from)
}

/// Finds the only entry with this value of an attribute. Returns `None` if there is no match, more than one match, or
/// no index on the attribute.
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

/// Returns a key that is equal for all spellings of a name. For example, `u:Anna` and ` anna` have the same key if user
/// names are compared without regard to case and spaces. The name need not denote an entry.
pub fn name_key(snapshot: &Snapshot, identity: &str) -> Vec<u8> {
    let state = snapshot.state();
    let schema = &*state.catalog.schema;
    if let Some(dn) = identity.get(..3).filter(|prefix| prefix.eq_ignore_ascii_case("dn:")) {
        let rest = identity.get(dn.len()..).unwrap_or_default();
        return parse_dn(rest).map_or_else(|_| identity.into(), |dn| NormalName::of(&dn, schema).key);
    }
    let name = identity.strip_prefix("u:").unwrap_or(identity);
    let attributes = &state.settings.general.identity_attributes;
    let types = attributes.iter().filter_map(|attribute| schema.attribute_type(attribute));
    let ids = types.filter_map(|known| state.catalog.attribute_id(known.id, ""));
    let def = ids.map(|id| state.catalog.attribute(id)).next();
    def.map_or_else(|| name.to_lowercase().into(), |def| normal_value(schema, def, name.as_bytes()))
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

/// Returns true if the requester is the entry with this DN. If `as_group`, returns true if the requester is a member of
/// the group with this DN, in the sense of access rules. Also returns false if the lookup fails.
pub fn is_named(snapshot: &Snapshot, requester: &Requester, dn: &str, as_group: bool) -> bool {
    let (state, Requester::User { id, .. }) = (snapshot.state(), requester) else { return false };
    let Ok(dn) = parse_dn(dn) else { return false };
    let Ok(Some(named)) = state.entry_of(&NormalName::of(&dn, &state.catalog.schema)) else { return false };
    match as_group {
        false => named == *id,
        true => is_member(state, *id, named).unwrap_or(false),
    }
}

/// Returns true if the client of a request matches one of `patterns`, which come from a setting.
pub(crate) fn is_client_of(snapshot: &Snapshot, context: &RequestContext<'_>, patterns: &[String]) -> bool {
    let is_anonymous = matches!(context.requester, Requester::Anonymous);
    patterns.iter().filter_map(|text| ClientPattern::parse(text).ok()).any(|pattern| match pattern {
        ClientPattern::Anonymous => is_anonymous,
        ClientPattern::Users => !is_anonymous,
        ClientPattern::Entry(dn) => is_named(snapshot, context.requester, dn, false),
        ClientPattern::MembersOf(dn) => is_named(snapshot, context.requester, dn, true),
        ClientPattern::Listener(name) => context.link.is_some_and(|link| link.listener == Some(name)),
    })
}

/// Resolves an identity to a requester; `None` if it denotes no entry.
pub(crate) fn requester(state: TreeState<'_>, identity: &str) -> Result<Option<Requester>> {
    Ok(try_identify(state, identity)?.map(|identified| identified.requester))
}

/// Returns the requester for the authorization identity that an authenticated `requester` requests in SASL. Returns
/// `None` if the identity does not exist or the requester may not assume it. An empty identity denotes `requester`
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

/// Returns the identity in the proxied authorization control; `None` without the control. The identity need not exist.
///
/// # Errors
/// protocolError for a malformed value or a control that is not critical. RFC 4370 requires criticality, because a
/// server that ignored the control would run the request with the client's own identity.
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

/// Returns the requester for the identity in the proxied authorization control; `None` without the control.
///
/// # Errors
/// As [`proxied_identity`]; authorizationDenied for an identity that does not exist or that the requester may not
/// assume. The response does not reveal which of these two cases occurred.
pub fn proxied_requester(
    snapshot: &Snapshot,
    requester: &Requester,
    controls: &Controls<'_>,
) -> std::result::Result<Option<Requester>, Outcome> {
    let Some(identity) = proxied_identity(controls)? else { return Ok(None) };
    let found = match identity.as_str() {
        "" | "dn:" => Some(Requester::Anonymous),
        // RFC 4513 section 5.2.1.8 defines no other forms.
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

/// Returns true if `requester` may run requests as `other`. The administrator may act as any identity. Other users may
/// act as users at whose entries a rule grants `proxy`.
fn may_act_as(
    snapshot: &Snapshot,
    requester: &Requester,
    other: &Requester,
) -> std::result::Result<bool, Outcome> {
    let state = snapshot.state();
    if requester.is_administrator() {
        return Ok(true);
    }
    let (Requester::User { .. }, Requester::User { id, .. }) = (requester, other) else { return Ok(false) };
    let at = snapshot.rights(&requester.context())?.at_entry(state, *id)?;
    Ok(at.is_some_and(|at| at.may(PROXY)))
}

fn refused(code: ResultCode, text: &str) -> Outcome {
    Outcome::new(code, format!("proxied authorization: {text}"))
}

/// Decodes the DN in version 1 of the proxied authorization control: `SEQUENCE { proxyDN LDAPDN }`
/// (draft-weltman-ldapv3-proxy-04 section 3).
fn proxy_dn(value: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(value);
    let mut sequence = reader.sequence(Tag::SEQUENCE).ok()?;
    let dn = sequence.octet_string().ok()?;
    (sequence.is_empty() && reader.is_empty()).then_some(dn)
}

/// Returns the SCRAM iteration count of the default policy. Unknown names receive this count too, so that the count
/// does not reveal which names exist.
pub fn usual_scram_iterations(snapshot: &Snapshot) -> u32 {
    let policies = &snapshot.state().catalog.policies;
    let usual = policies.default.and_then(|id| policies.of(id));
    usual.map_or(PasswordPolicy::default().scram_iterations(), |policy| policy.scram_iterations())
}

/// Finds the only entry that has this value in one of these attributes. Returns `None` if no entry or several entries
/// have the value.
fn find_by(state: TreeState<'_>, attributes: &[impl AsRef<str>], name: &str) -> Result<Option<EntryId>> {
    let mut found = None;
    for attribute in attributes {
        let Some(attribute_type) = state.catalog.schema.attribute_type(attribute.as_ref()) else { continue };
        let Some(named) = entries_named(state, attribute_type, name)? else { return Ok(None) };
        for id in named {
            match found {
                Some(other) if other != id => return Ok(None),
                _ => found = Some(id),
            }
        }
    }
    Ok(found)
}

/// Returns the entries that have this value of an attribute type, without aliases and referrals. Returns `None` if more
/// than `NAMED_ENTRIES_MAX` entries have it. Returns no entry if the type has no index, because a name must not cost a
/// scan of all entries.
pub(super) fn entries_named(
    state: TreeState<'_>,
    attribute_type: &AttributeType,
    value: &str,
) -> Result<Option<Vec<EntryId>>> {
    let schema = &*state.catalog.schema;
    let Some(base) = state.catalog.attribute_id(attribute_type.id, "") else { return Ok(Some(Vec::new())) };
    let def = state.catalog.attribute(base);
    if !def.index.answers(IndexPart::Values)
        || schema.validate_value(attribute_type, value.as_bytes()).is_err()
    {
        return Ok(Some(Vec::new()));
    }
    let normal = normal_value(schema, def, value.as_bytes());
    let (mut ids, mut block) = (state.read.ids(INDEX, &index_key(base, &normal))?, Vec::new());
    if ids.next_block(&mut block, NAMED_ENTRIES_MAX + 1)? > NAMED_ENTRIES_MAX {
        return Ok(None);
    }
    let mut named = Vec::new();
    for id in block.into_iter().map(EntryId) {
        let node = state.node(id)?.ok_or_else(|| damaged_row("nodes", id))?;
        if !node.flags.is_alias() && !node.flags.is_referral() {
            named.push(id);
        }
    }
    Ok(Some(named))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SUFFIX, TestDirectory, ok};

    /// Regression test: only the first two entries with a name were examined, and an alias among them hid a third.
    #[test]
    fn aliases_hide_no_entry_with_the_same_name() {
        let mut directory = TestDirectory::with_suffix_entry();
        let add = |directory: &mut TestDirectory, class: &[&str], dn: &str| {
            let values = [("objectClass", class), ("uid", &["ada"]), ("aliasedObjectName", &[SUFFIX])];
            let person = [("objectClass", class), ("uid", &["ada"]), ("cn", &["x"]), ("sn", &["x"])];
            ok(if class.contains(&"alias") {
                directory.add(dn, &values)
            } else {
                directory.add(dn, &person)
            });
        };
        let found = |directory: &TestDirectory| {
            let found = identify(&directory.snapshot, "u:ada").unwrap();
            found.map(|found| match found.requester {
                Requester::User { dn, .. } => dn,
                other => panic!("{other:?}"),
            })
        };
        let (alias, person) = (["alias", "extensibleObject"], ["inetOrgPerson"]);
        for number in 0..3 {
            add(&mut directory, &alias, &format!("ou=alias{number},{SUFFIX}"));
        }
        assert_eq!(found(&directory), None);
        let first = format!("uid=ada,{SUFFIX}");
        add(&mut directory, &person, &first);
        assert_eq!(found(&directory), Some(first));
        add(&mut directory, &person, &format!("cn=x,{SUFFIX}"));
        assert_eq!(found(&directory), None, "two entries have the name");
    }
}
