//! Checks the filters in rules of the settings. Such a filter must evaluate to true or false for every entry.
//!
//! In a search, a filter item that cannot be evaluated is Undefined. In a rule, such an item would be an unnoticed
//! mistake, so it is an error. Causes are an unknown type, a value that the syntax does not allow, and a matching rule
//! that the type does not have. A secret type is also an error, because the rule would reveal secret values.

use ldap::{Assertion, ExtensibleMatch, Filter, FilterBuf, FilterKind, Substrings};
use schema::{
    AttributeDescription, AttributeType, MatchingRule, RuleAssertion, Schema, SubstringAssertion, TypeId,
};

use super::is_link_type;
use super::secret::Secrets;
use super::virtual_attribute::{VirtualAttribute, counts_entries};
use crate::model::access_rule::{COMPARE, READ, Rights, SEARCH};

/// A schema and its secret attribute types.
type Types<'s> = (&'s Schema, &'s Secrets);

/// Parses a filter of a rule.
///
/// # Errors
/// A message that describes the mistake in the filter.
pub(crate) fn rule_filter(text: &str, schema: &Schema, secrets: &Secrets) -> Result<FilterBuf, String> {
    let filter = FilterBuf::parse(text).map_err(|error| format!("{text:?} is not a filter: {error}"))?;
    check(filter.as_filter(), (schema, secrets)).map_err(|what| format!("filter {text:?}: {what}"))?;
    Ok(filter)
}

/// Parses the filter that single values of an attribute must match.
///
/// The result of the filter depends only on the value, and is the same for all spellings of the value. Therefore a
/// requester learns no more about a stored value from the filter than from a filter on an asserted value.
///
/// # Errors
/// A message that describes the mistake in the filter, or why the attribute cannot have a filter on values.
pub(crate) fn value_filter(
    text: &str,
    of: TypeId,
    rights: Rights,
    (schema, secrets): Types<'_>,
) -> Result<FilterBuf, String> {
    let filter = rule_filter(text, schema, secrets)?;
    let equality = schema.type_by_id(of).equality;
    for type_id in schema.subtypes(of) {
        let attribute_type = schema.type_by_id(*type_id);
        let name = attribute_type.name();
        if attribute_type.equality.is_none() || attribute_type.equality != equality {
            return Err(format!(
                "values of {name} are not distinguished by the equality rule of the attribute type"
            ));
        }
        if VirtualAttribute::of(attribute_type).is_some() {
            return Err(format!(
                "values of {name} are computed on demand, so a rule cannot select some of them"
            ));
        }
        if is_link_type(attribute_type) || schema.syntax_by_id(attribute_type.syntax).name_syntax().is_some()
        {
            return Err(format!("values of {name} are names of entries, which rules do not distinguish"));
        }
        if attribute_type.oid == OBJECT_CLASS && rights.has(READ.with(SEARCH).with(COMPARE)) {
            return Err(format!(
                "every filter may test {name}: a rule for some of its values can only allow or deny write"
            ));
        }
    }
    check_items(filter.as_filter(), of, schema).map_err(|what| format!("filter {text:?}: {what}"))?;
    Ok(filter)
}

/// Checks that a filter on values of the type `of` tests no other attribute.
fn check_items(filter: Filter<'_>, of: TypeId, schema: &Schema) -> Result<(), String> {
    let attribute_type = schema.type_by_id(of);
    let (description, rule) = match filter.kind() {
        FilterKind::And(list) | FilterKind::Or(list) => {
            return list.iter().try_for_each(|filter| check_items(filter, of, schema));
        }
        FilterKind::Not(filter) => return check_items(filter, of, schema),
        FilterKind::EqualityMatch(assertion) => (assertion.description, attribute_type.equality),
        FilterKind::GreaterOrEqual(assertion) | FilterKind::LessOrEqual(assertion) => {
            (assertion.description, attribute_type.ordering)
        }
        FilterKind::Substrings(substrings) => (substrings.description, attribute_type.substring),
        FilterKind::Present(_)
        | FilterKind::ApproxMatch(_)
        | FilterKind::ExtensibleMatch(_)
        | FilterKind::Unrecognized(_) => {
            return Err("a filter for values can use equality, substrings, >= and <=".to_owned());
        }
    };
    let parsed = schema.parse_description(description).map_err(|error| error.to_string())?;
    if parsed != AttributeDescription::of(of) {
        return Err(format!("{description} is not the attribute of the rule, {}", attribute_type.name()));
    }
    match (attribute_type.equality, rule) {
        (Some(equality), Some(rule)) if equality.shares_key_with(rule) => Ok(()),
        _ => Err(format!(
            "the rule does not compare values of {} as its equality rule does",
            attribute_type.name()
        )),
    }
}

fn check(filter: Filter<'_>, types: Types<'_>) -> Result<(), String> {
    match filter.kind() {
        FilterKind::And(list) | FilterKind::Or(list) => {
            list.iter().try_for_each(|filter| check(filter, types))
        }
        FilterKind::Not(filter) => check(filter, types),
        FilterKind::EqualityMatch(assertion) | FilterKind::ApproxMatch(assertion) => {
            check_value(&assertion, types, "equality", |known| known.equality)
        }
        FilterKind::GreaterOrEqual(assertion) | FilterKind::LessOrEqual(assertion) => {
            check_value(&assertion, types, "ordering", |known| known.ordering)
        }
        FilterKind::Substrings(substrings) => check_substrings(&substrings, types),
        FilterKind::Present(description) => testable_type(description, types).map(|_| ()),
        FilterKind::ExtensibleMatch(extensible) => check_extensible(&extensible, types),
        FilterKind::Unrecognized(_) => Err("it contains an unknown kind of item".to_owned()),
    }
}

/// Returns the attribute type of a description, if a rule may test the type.
fn testable_type<'s>(description: &str, (schema, secrets): Types<'s>) -> Result<&'s AttributeType, String> {
    let parsed = schema.parse_description(description).map_err(|error| error.to_string())?;
    let attribute_type = schema.type_by_id(parsed.type_id);
    if secrets.has(parsed.type_id) {
        return Err(format!("{description} is a secret, which a rule would reveal"));
    }
    let is_end = VirtualAttribute::of(attribute_type).is_some_and(VirtualAttribute::is_end);
    if counts_entries(schema, parsed.type_id) || is_end {
        return Err(format!("{description} depends on other entries"));
    }
    Ok(attribute_type)
}

fn check_value(
    assertion: &Assertion<'_>,
    (schema, secrets): Types<'_>,
    what: &str,
    rule: fn(&AttributeType) -> Option<MatchingRule>,
) -> Result<(), String> {
    let attribute_type = testable_type(assertion.description, (schema, secrets))?;
    let name = attribute_type.name();
    let rule = rule(attribute_type).ok_or_else(|| format!("{name} has no {what} rule"))?;
    let value = String::from_utf8_lossy(assertion.value);
    let is_class = attribute_type.oid == OBJECT_CLASS
        || VirtualAttribute::of(attribute_type) == Some(VirtualAttribute::StructuralObjectClass);
    if is_class && schema.object_class(value.trim()).is_none() {
        return Err(format!("{value} is not an object class of the schema"));
    }
    rule.normalize_assertion(schema, assertion.value, &mut Vec::new())
        .map_err(|error| format!("{value:?} is not a valid value of {name}: {error}"))
}

fn check_substrings(substrings: &Substrings<'_>, types: Types<'_>) -> Result<(), String> {
    let attribute_type = testable_type(substrings.description, types)?;
    let name = attribute_type.name();
    let rule = attribute_type.substring.ok_or_else(|| format!("{name} has no substring rule"))?;
    SubstringAssertion::new(rule, substrings.initial, substrings.any.iter(), substrings.final_)
        .map(|_| ())
        .map_err(|error| format!("the parts are not valid for {name}: {error}"))
}

fn check_extensible(extensible: &ExtensibleMatch<'_>, (schema, secrets): Types<'_>) -> Result<(), String> {
    let Some(description) = extensible.description else {
        return Err("an extensible match without an attribute would test all of them".to_owned());
    };
    let attribute_type = testable_type(description, (schema, secrets))?;
    let name = attribute_type.name();
    let rule = match extensible.rule {
        None => attribute_type.equality.ok_or_else(|| format!("{name} has no equality rule"))?,
        Some(text) => {
            let rule =
                MatchingRule::find(text).ok_or_else(|| format!("{text} is not a known matching rule"))?;
            let is_membership =
                VirtualAttribute::of(attribute_type).is_some_and(VirtualAttribute::is_membership);
            if rule.follows_chains() && !is_link_type(attribute_type) && !is_membership {
                return Err(format!(
                    "{text} does not apply to {name}, whose values are not links to entries"
                ));
            }
            if rule.follows_chains() && extensible.dn_attributes {
                return Err(format!("{text} does not apply to the values in names of entries"));
            }
            if attribute_type.equality != Some(rule) && !schema.rule_applies(rule, attribute_type) {
                return Err(format!("{text} does not apply to values of {name}"));
            }
            rule
        }
    };
    RuleAssertion::new(schema, rule, extensible.value).map(|_| ()).map_err(|error| {
        format!("{:?} is not a valid value of {name}: {error}", String::from_utf8_lossy(extensible.value))
    })
}

/// OID of objectClass.
const OBJECT_CLASS: &str = "2.5.4.0";
