//! Compare (RFC 4511 section 4.10): tests whether an entry has a value.
//!
//! Subtypes and further options are included, as in a filter. For userPassword the asserted value is a plaintext
//! password, which is verified with the stored forms. The verification takes as long as a bind. [`crate::access`]
//! states which requesters may compare passwords. Superclasses count as values of objectClass.

use std::borrow::Cow;

use ldap::{CompareRequest, ResultCode};
use schema::{AttributeDescription, MatchingRule, Schema};

use crate::access::{
    AllowedValues, EffectiveRights, OfferedBinds, RequestContext, RightExtent, denied, hint,
};
use crate::accounts;
use crate::catalog::{Catalog, Shown, is_user_password};
use crate::filter::{Candidate, InMemory, Matcher, MemberUse, Term, Truth, has_visible_end, is_in_a_group};
use crate::model::access_rule::COMPARE;
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::{OperationError, Outcome};
use crate::model::rows::{ENTRIES, EntryId, NodeFlags, NodeRow};
use crate::model::virtual_entries::VirtualEntry;
use crate::password::Verification;
use crate::password::policy::Account;
use crate::read::bind::stored_passwords;
use crate::read::controls::RequestControls;
use crate::read::search::{check_assertion, check_assertion_in_memory, entries_outside, resolved};
use crate::snapshot::Snapshot;
use crate::tree::operational::is_member_type;
use crate::tree::target::locate_name;
use crate::tree::{TreeState, damaged_row, node};

/// Outcome of a compare request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompareOutcome {
    /// The compare is decided.
    Done(Outcome),
    /// The verification decides the compare. If the asserted password verifies, the result is compareTrue, otherwise
    /// compareFalse.
    Verify {
        /// Verification with the stored forms of the password.
        verification: Verification,
        /// The account state, if a password policy governs the entry. In that case, the compare counts as an
        /// authentication attempt.
        account: Option<Box<Account>>,
    },
}

/// Carries out a compare request.
pub fn compare(
    snapshot: &Snapshot,
    context: &RequestContext<'_>,
    request: &CompareRequest<'_>,
    controls: &RequestControls,
) -> CompareOutcome {
    match try_compare(snapshot, context, request, controls) {
        Ok(outcome) => outcome,
        Err(error) => CompareOutcome::Done(error.into()),
    }
}

/// Returns the result of a compare after verification.
pub fn compare_result(verified: bool) -> Outcome {
    Outcome::code(if verified { ResultCode::COMPARE_TRUE } else { ResultCode::COMPARE_FALSE })
}

/// Entry that a compare names.
enum Compared<'s> {
    Tree(EntryId, Option<NodeRow<'s>>),
    Outside(Cow<'s, VirtualEntry>),
}

fn find<'s>(
    snapshot: &'s Snapshot,
    rights: &EffectiveRights,
    offered: OfferedBinds,
    request: &CompareRequest<'_>,
    manage_dsa_it: bool,
) -> Result<Compared<'s>, OperationError> {
    let state = snapshot.state();
    let is_plain = |flags: NodeFlags| !flags.is_referral() || manage_dsa_it;
    if let Some((id, row)) = snapshot.cached_entry(request.entry)?.filter(|(_, row)| is_plain(row.flags)) {
        rights.check_read_tree()?;
        state.read.prefetch(ENTRIES, id.0);
        return Ok(Compared::Tree(id, Some(row)));
    }
    let dn = parse_dn(request.entry)?;
    if let Some((id, _)) = snapshot.entry_below_cached(&dn)?.filter(|(_, flags)| is_plain(*flags)) {
        rights.check_read_tree()?;
        return Ok(Compared::Tree(id, None));
    }
    let name = NormalName::of(&dn, &state.catalog.schema);
    if let Some(entries) = entries_outside(snapshot, rights, &dn, &name, offered)?
        && let Some((_, entry)) = entries.into_iter().next()
    {
        return Ok(Compared::Outside(entry));
    }
    rights.check_read_tree()?;
    let target = rights.permitted(state, request.entry, locate_name(state, &dn, &name, manage_dsa_it))?;
    snapshot.keep_entry(&dn, target.id)?;
    Ok(Compared::Tree(target.id, None))
}

fn try_compare(
    snapshot: &Snapshot,
    context: &RequestContext<'_>,
    request: &CompareRequest<'_>,
    controls: &RequestControls,
) -> Result<CompareOutcome, OperationError> {
    let state = snapshot.state();
    let rights = &snapshot.rights(context)?;
    let (target, row) = match find(snapshot, rights, context.offered, request, controls.manage_dsa_it)? {
        Compared::Tree(id, row) => (id, row),
        Compared::Outside(entry) => {
            return compare_outside(state.catalog, rights, &entry, request, controls)
                .map(CompareOutcome::Done);
        }
    };
    let at = rights.at_visible(state, target, request.entry)?;
    check_assertion(state, rights, controls, target)?;
    let description = described(&state.catalog.schema, request.description)?;
    let type_id = description.type_id;
    rights.check_compare(state, target, type_id)?;
    // Access rules cover a secret attribute only if a rule names it. For all other secrets, `check_compare` alone
    // decides.
    let at = at.filter(|_| Shown::AsRulesSay.includes(&state.catalog.secrets, type_id));
    if let Some(at) = &at
        && at.extent(COMPARE, Some(type_id)) == RightExtent::Nothing
    {
        let hint = hint(state, rights, at, (target, COMPARE, Some(type_id)))?;
        return Err(denied(format!("no access rule lets you compare {}{hint}", request.description)));
    }
    // `allowed` is set only if the requester may not compare all subtypes or values.
    let allowed = at.as_deref().map(|rights| AllowedValues { rights, right: COMPARE });
    let allowed = allowed.filter(|allowed| !allowed.has_whole(type_id, &state.catalog.schema));
    let row = match row {
        Some(row) => row,
        None => node(state.read, target)?.ok_or_else(|| damaged_row("nodes", target))?,
    };
    let candidate = Candidate::new(target, row);
    let is_there = match allowed {
        None => has_attribute(state, &candidate, &description, rights)?,
        Some(allowed) => {
            let present = rights.compiler(state.catalog).presence_of(description.clone());
            let present = allowed.left_of(&present, state.catalog);
            Matcher::new(rights.shown()).truth(&present, state, &candidate)? == Truth::True
        }
    };
    // A rule about single values cannot cover the members that come from the URLs of a dynamic group. Therefore these
    // members do not count if such a rule applies.
    if !is_there && (allowed.is_some() || !has_described(state, rights, target, &description)?) {
        return Err(no_such_attribute(request.description));
    }
    if is_user_password(&state.catalog.schema, type_id) {
        let stored = stored_passwords(state, target)?;
        let verification = Verification::new(stored, state.settings.general.password_scheme);
        let account = accounts::account(state, target)?.map(Box::new);
        return Ok(CompareOutcome::Verify { verification, account });
    }
    let mut term = assertion(state.catalog, rights, description, request.value)?;
    term.find_targets(snapshot)?;
    if let Some(allowed) = allowed {
        term = allowed.left_of(&term, state.catalog);
    }
    let truth = rights.matcher(MemberUse::Compare).truth(&term, state, &candidate)?;
    Ok(CompareOutcome::Done(compare_result(truth == Truth::True)))
}

/// Returns true if the entry is a dynamic group, the attribute contains its members, and the requester may use a URL of
/// the group.
#[inline]
fn has_described(
    state: TreeState<'_>,
    rights: &EffectiveRights,
    target: EntryId,
    description: &AttributeDescription,
) -> Result<bool, OperationError> {
    if state.catalog.dynamic_groups.is_empty() {
        return Ok(false);
    }
    let is_member = is_member_type(state.catalog.schema.type_by_id(description.type_id));
    let group = state.catalog.dynamic_groups.of(target);
    let Some(group) = group.filter(|_| is_member && description.options.is_empty()) else { return Ok(false) };
    for url in &group.urls {
        if rights.shows_member(state, (target, url.attribute), MemberUse::Compare)? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cold]
#[inline(never)]
fn compare_outside(
    catalog: &Catalog,
    rights: &EffectiveRights,
    entry: &VirtualEntry,
    request: &CompareRequest<'_>,
    controls: &RequestControls,
) -> Result<Outcome, OperationError> {
    let schema = &catalog.schema;
    let in_memory = InMemory { dn: &entry.dn, attributes: resolved(schema, entry) };
    check_assertion_in_memory(catalog, rights, controls, &in_memory)?;
    let description = described(schema, request.description)?;
    if !in_memory.attributes.iter().any(|(has, _)| has.is_subtype_of(schema, &description)) {
        return Err(no_such_attribute(schema.type_by_id(description.type_id).name()));
    }
    let term = assertion(catalog, rights, description, request.value)?;
    let truth = Matcher::new(rights.shown()).truth_in_memory(&term, catalog, &in_memory);
    Ok(compare_result(truth == Truth::True))
}

/// Resolves the attribute of the assertion.
fn described(schema: &Schema, description: &str) -> Result<AttributeDescription, OperationError> {
    schema
        .parse_description(description)
        .map_err(|error| OperationError::refused(ResultCode::UNDEFINED_ATTRIBUTE_TYPE, error.to_string()))
}

/// Returns the assertion as a filter.
fn assertion(
    catalog: &Catalog,
    rights: &EffectiveRights,
    description: AttributeDescription,
    value: &[u8],
) -> Result<Term, OperationError> {
    let schema = &catalog.schema;
    let attribute_type = schema.type_by_id(description.type_id);
    let Some(rule) = attribute_type.equality else {
        let diagnostic = format!("{} has no equality matching rule", attribute_type.name());
        return Err(OperationError::refused(ResultCode::INAPPROPRIATE_MATCHING, diagnostic));
    };
    let term = rights.compiler(catalog).equality_of(description, rule, value);
    term.ok_or_else(|| bad_value(schema, attribute_type.name(), rule, value))
}

fn bad_value(schema: &Schema, name: &str, rule: MatchingRule, value: &[u8]) -> OperationError {
    let diagnostic = match rule.normalize_assertion(schema, value, &mut Vec::new()) {
        Err(error) => format!("{name}: {error}"),
        Ok(()) => format!(
            "{name}: {:?} is not defined in the schema",
            ldap::Excerpt(String::from_utf8_lossy(value))
        ),
    };
    OperationError::refused(ResultCode::INVALID_ATTRIBUTE_SYNTAX, diagnostic)
}

fn no_such_attribute(description: &str) -> OperationError {
    OperationError::refused(
        ResultCode::NO_SUCH_ATTRIBUTE,
        format!("the entry has no attribute {}", ldap::Excerpt(description)),
    )
}

/// Returns true if the entry has the attribute or one of its subtypes, with or without further options.
fn has_attribute<'s>(
    state: TreeState<'s>,
    candidate: &Candidate<'s>,
    description: &AttributeDescription,
    rights: &EffectiveRights,
) -> Result<bool, OperationError> {
    if let Some(attribute) = state.catalog.type_facts(description.type_id).virtual_attribute {
        // Virtual attributes have no options.
        if !description.options.is_empty() {
            return Ok(false);
        }
        let entry = (candidate.id, &candidate.node);
        let groups = || rights.groups(MemberUse::Compare);
        return match attribute {
            _ if attribute.is_membership() => is_in_a_group(state, entry, groups().as_ref(), true),
            _ if attribute.is_end() => has_visible_end(state, attribute, groups().as_ref(), entry),
            _ => attribute.is_present(state, candidate.id, &candidate.node),
        };
    }
    let numbers = state.catalog.matching_attributes(description);
    Ok(candidate.entry(state)?.attributes().next_of(&numbers).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Requester;
    use crate::testing::{SUFFIX, TestDirectory};

    const ADA: &str = "cn=ada,dc=example,dc=com";

    fn sample() -> TestDirectory {
        let mut directory = TestDirectory::with_suffix_entry();
        let person: &[(&str, &[&str])] = &[
            ("objectClass", &["person"]),
            ("cn", &["ada"]),
            ("sn;lang-en", &["Lovelace"]),
            ("sn", &["King"]),
            ("seeAlso", &["DC=Example,dc=com", "cn=ghost,dc=example,dc=com"]),
            ("userPassword", &["{SSHA}xyz"]),
        ];
        let outcome = directory.add(ADA, person);
        assert_eq!(outcome.code, ResultCode::SUCCESS, "{}", outcome.diagnostic);
        directory
    }

    fn run(directory: &TestDirectory, entry: &str, description: &str, value: &str) -> CompareOutcome {
        let request = CompareRequest { entry, description, value: value.as_bytes() };
        compare(&directory.snapshot, &directory.requester.context(), &request, &RequestControls::default())
    }

    #[test]
    fn values_are_compared_by_the_equality_rule() {
        let directory = sample();
        let check = |entry, description, value, code| match run(&directory, entry, description, value) {
            CompareOutcome::Done(outcome) => {
                assert_eq!(outcome.code, code, "{entry} {description} {value}: {}", outcome.diagnostic);
            }
            other => panic!("{other:?}"),
        };
        let (yes, no) = (ResultCode::COMPARE_TRUE, ResultCode::COMPARE_FALSE);
        check(ADA, "sn", "KING", yes);
        check(ADA, "sn", "lovelace", yes);
        check(ADA, "sn;lang-en", "king", no);
        check(ADA, "name", " ada ", yes);
        check(ADA, "cn", "bob", no);
        check(ADA, "objectClass", "top", yes);
        check(ADA, "objectClass", "device", no);
        check(ADA, "seeAlso", "dc=EXAMPLE, dc=com", yes);
        check(ADA, "seeAlso", "cn=Ghost,dc=example,dc=com", yes);
        check(ADA, "seeAlso", ADA, no);
        check(ADA, "entryDN", "CN=Ada,dc=example,dc=com", yes);
        check(SUFFIX, "numSubordinates", "1", yes);
        check(SUFFIX, "hasSubordinates", "FALSE", no);
        check(ADA, "mail", "x", ResultCode::NO_SUCH_ATTRIBUTE);
        check(ADA, "memberOf", SUFFIX, ResultCode::NO_SUCH_ATTRIBUTE);
        check(ADA, "nonsense", "x", ResultCode::UNDEFINED_ATTRIBUTE_TYPE);
        // A type without a binary form is unrecognized with the option `binary` (RFC 4522 section 3).
        check(ADA, "sn;binary", "King", ResultCode::UNDEFINED_ATTRIBUTE_TYPE);
        check(ADA, "entryDN;binary", ADA, ResultCode::UNDEFINED_ATTRIBUTE_TYPE);
        check("", "objectClass;binary", "top", ResultCode::UNDEFINED_ATTRIBUTE_TYPE);
        check(ADA, "userCertificate;binary", "x", ResultCode::NO_SUCH_ATTRIBUTE);
        check(ADA, "entryDN;lang-en", ADA, ResultCode::NO_SUCH_ATTRIBUTE);
        check(ADA, "objectClass", "nonsense", ResultCode::INVALID_ATTRIBUTE_SYNTAX);
        check(ADA, "seeAlso", "no dn", ResultCode::INVALID_ATTRIBUTE_SYNTAX);
        check("cn=bob,dc=example,dc=com", "cn", "bob", ResultCode::NO_SUCH_OBJECT);
        check("no dn", "cn", "x", ResultCode::INVALID_DN_SYNTAX);
        check("", "objectClass", "top", yes);
        check("", "supportedFeatures", "1.3.6.1.1.14", yes);
        check("", "namingContexts", SUFFIX, ResultCode::INAPPROPRIATE_MATCHING);
        check("", "cn", "x", ResultCode::NO_SUCH_ATTRIBUTE);
        check("cn=subschema", "cn", "SUBSCHEMA", yes);
    }

    const BOB: &str = "cn=bob,dc=example,dc=com";

    /// Returns the identity that a bind as this entry establishes. The suffix entry of the sample has the id 1, and the
    /// ids of further entries follow.
    fn user(id: u64, dn: &str) -> Requester {
        Requester::User { id: crate::model::rows::EntryId(id), dn: dn.to_owned() }
    }

    /// Regression test: with compare, any user could try the passwords of others and learn which entries have a
    /// password.
    #[test]
    fn only_owner_administrator_and_password_comparers_compare_passwords() {
        let mut directory = sample();
        let person: &[(&str, &[&str])] = &[("objectClass", &["person"]), ("sn", &["Bob"])];
        assert_eq!(directory.add(BOB, person).code, ResultCode::SUCCESS);
        let stored = vec![b"{SSHA}xyz".to_vec()];
        let verify = CompareOutcome::Verify {
            verification: Verification::new(stored, crate::password::StorageScheme::Argon2id),
            account: None,
        };
        let code = |outcome| match outcome {
            CompareOutcome::Done(outcome) => outcome,
            other => panic!("{other:?}"),
        };
        assert_eq!(run(&directory, ADA, "userPassword", "secret"), verify);
        directory.requester = user(2, ADA);
        assert_eq!(run(&directory, ADA, "2.5.4.35", "secret"), verify, "the own one");
        let denied = ResultCode::INSUFFICIENT_ACCESS_RIGHTS;
        for (id, dn) in [(3, BOB), (1, SUFFIX)] {
            directory.requester = user(id, dn);
            let set = code(run(&directory, ADA, "userPassword;x-a", "secret"));
            let unset =
                code(run(&directory, if id == 3 { SUFFIX } else { BOB }, "userPassword;x-a", "secret"));
            assert_eq!((set.code, &set), (denied, &unset), "whether there is one is not told");
            assert_eq!(code(run(&directory, ADA, "authPassword", "secret")).code, denied);
        }
        directory.requester = Requester::Anonymous;
        assert_eq!(code(run(&directory, ADA, "userPassword", "secret")).code, denied);

        directory.requester = Requester::Administrator { dn: "cn=admin".to_owned() };
        let names: &[(ldap::ChangeOperation, &str, &[&str])] =
            &[(ldap::ChangeOperation::Add, "pandoPasswordComparer", &["CN=Bob, dc=example,dc=com"])];
        assert_eq!(directory.modify("cn=config", names).code, ResultCode::SUCCESS);
        directory.requester = user(3, BOB);
        assert_eq!(run(&directory, ADA, "userPassword", "secret"), verify, "named by the setting");
        directory.requester = user(1, SUFFIX);
        assert_eq!(code(run(&directory, ADA, "userPassword", "secret")).code, denied);
    }
}
