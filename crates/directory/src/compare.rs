//! Compare (RFC 4511 section 4.10): whether an entry has a value.
//!
//! Subtypes and further options answer too, as in a filter. On userPassword the asserted value is a password in clear,
//! verified against the stored forms; see [`crate::access`] for who may ask. Superclasses count as values of objectClass.

use ldap::{CompareRequest, ResultCode};
use schema::{AttributeDescription, MatchingRule};

use crate::access::{Access, Requester, is_user_password};
use crate::bind::stored_passwords;
use crate::controls::RequestControls;
use crate::operational::VirtualAttribute;
use crate::search::{Candidate, Compiler, Evaluator, InMemory, Term, Truth, entries_outside, resolved};
use crate::target::locate;
use crate::tree::{NormalName, State, damaged_row, node, parse_dn};
use crate::virtual_entries::VirtualEntry;
use crate::{OperationError, Outcome, Snapshot};

/// What a compare request comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompareOutcome {
    /// Decided.
    Done(Outcome),
    /// compareTrue if one of these verifies with the asserted value, else compareFalse.
    Verify {
        /// Stored forms, see [`crate::password::verify`].
        stored: Vec<Vec<u8>>,
    },
}

/// Carries out a compare request.
pub fn compare(
    snapshot: &Snapshot,
    requester: &Requester,
    request: &CompareRequest<'_>,
    controls: &RequestControls,
) -> CompareOutcome {
    match try_compare(snapshot, requester, request, controls) {
        Ok(outcome) => outcome,
        Err(error) => CompareOutcome::Done(error.into()),
    }
}

/// The end of a compare that had to be verified.
pub fn compare_result(verified: bool) -> Outcome {
    Outcome::code(if verified { ResultCode::COMPARE_TRUE } else { ResultCode::COMPARE_FALSE })
}

fn try_compare(
    snapshot: &Snapshot,
    requester: &Requester,
    request: &CompareRequest<'_>,
    controls: &RequestControls,
) -> Result<CompareOutcome, OperationError> {
    let state = snapshot.state();
    let access = Access::of(requester, state.settings);
    let dn = parse_dn(request.entry)?;
    let name = NormalName::of(&dn, &state.catalog.schema);
    if let Some(entries) = entries_outside(snapshot, access, &dn, &name)?
        && let Some((_, entry)) = entries.first()
    {
        let description = described(state, request.description)?;
        return compare_outside(state, access, entry, description, request.value).map(CompareOutcome::Done);
    }
    access.check_read_tree()?;
    let target = locate(state, request.entry, controls.manage_dsa_it)?;
    let description = described(state, request.description)?;
    access.check_compare(&state.catalog.schema, description.type_id)?;
    let row = node(state.read, target.id)?.ok_or_else(|| damaged_row("nodes", target.id))?;
    let candidate = Candidate::new(target.id, row);
    if !has_attribute(state, &candidate, &description)? {
        return Err(no_such_attribute(request.description));
    }
    if is_user_password(&state.catalog.schema, description.type_id) {
        return Ok(CompareOutcome::Verify { stored: stored_passwords(state, target.id)? });
    }
    let mut term = assertion(state, access, description, request.value)?;
    term.find_targets(state)?;
    let truth = Evaluator::new(access).truth(&term, state, &candidate)?;
    Ok(CompareOutcome::Done(compare_result(truth == Truth::True)))
}

fn compare_outside(
    state: State<'_>,
    access: Access,
    entry: &VirtualEntry,
    description: AttributeDescription,
    value: &[u8],
) -> Result<Outcome, OperationError> {
    let schema = &state.catalog.schema;
    let in_memory = InMemory { dn: &entry.dn, attributes: resolved(schema, entry) };
    if !in_memory.attributes.iter().any(|(has, _)| has.is_subtype_of(schema, &description)) {
        return Err(no_such_attribute(schema.type_by_id(description.type_id).name()));
    }
    let term = assertion(state, access, description, value)?;
    let truth = Evaluator::new(access).truth_in_memory(&term, schema, &in_memory);
    Ok(compare_result(truth == Truth::True))
}

/// The attribute of the assertion.
fn described(state: State<'_>, description: &str) -> Result<AttributeDescription, OperationError> {
    let described = state.catalog.schema.parse_description(description);
    described
        .map_err(|error| OperationError::refused(ResultCode::UNDEFINED_ATTRIBUTE_TYPE, error.to_string()))
}

/// The assertion as a filter.
fn assertion(
    state: State<'_>,
    access: Access,
    description: AttributeDescription,
    value: &[u8],
) -> Result<Term, OperationError> {
    let schema = &state.catalog.schema;
    let attribute_type = schema.type_by_id(description.type_id);
    let Some(rule) = attribute_type.equality else {
        let diagnostic = format!("{} has no equality matching rule", attribute_type.name());
        return Err(OperationError::refused(ResultCode::INAPPROPRIATE_MATCHING, diagnostic));
    };
    let term = Compiler { catalog: state.catalog, access }.equality_of(description, rule, value);
    term.ok_or_else(|| bad_value(state, attribute_type.name(), rule, value))
}

fn bad_value(state: State<'_>, name: &str, rule: MatchingRule, value: &[u8]) -> OperationError {
    let diagnostic = match rule.normalize_assertion(&state.catalog.schema, value, &mut Vec::new()) {
        Err(error) => format!("{name}: {error}"),
        Ok(()) => format!("{name}: {:?} is not defined in the schema", String::from_utf8_lossy(value)),
    };
    OperationError::refused(ResultCode::INVALID_ATTRIBUTE_SYNTAX, diagnostic)
}

fn no_such_attribute(description: &str) -> OperationError {
    OperationError::refused(
        ResultCode::NO_SUCH_ATTRIBUTE,
        format!("the entry has no attribute {description}"),
    )
}

/// Whether the entry has the attribute, one of its subtypes, or either with further options.
fn has_attribute<'s>(
    state: State<'s>,
    candidate: &Candidate<'s>,
    description: &AttributeDescription,
) -> Result<bool, OperationError> {
    let attribute_type = state.catalog.schema.type_by_id(description.type_id);
    if let Some(attribute) = VirtualAttribute::of(attribute_type) {
        return attribute.is_present(state, candidate.id, &candidate.node);
    }
    let numbers = state.catalog.matching_attributes(description);
    Ok(candidate.entry(state)?.attributes().any(|row| numbers.contains(&row.id)))
}
