//! The filters in access rules, checked: they say yes or no of every entry.
//!
//! Elsewhere a part of a filter that nobody can answer is Undefined. In a rule that would be a slip of whoever wrote
//! it, and nobody would see it, so it is an error: an unknown type, a value that its syntax does not allow, a rule that
//! the type does not have, and a secret, of which a rule would tell.

use ldap::{Assertion, ExtensibleMatch, Filter, FilterBuf, FilterKind, Substrings};
use schema::{
    AttributeDescription, AttributeType, MatchingRule, RuleAssertion, Schema, SubstringAssertion, TypeId,
};

use super::is_link_type;
use super::secret::Secrets;
use super::virtual_attribute::{VirtualAttribute, counts_entries};
use crate::model::access_rule::{COMPARE, READ, Rights, SEARCH};

/// Attribute types, and which of them are secrets.
type Types<'s> = (&'s Schema, &'s Secrets);

/// Reads a filter of a rule.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn rule_filter(text: &str, schema: &Schema, secrets: &Secrets) -> Result<FilterBuf, String> {
    let filter = FilterBuf::parse(text).map_err(|error| format!("{text:?} is no filter: {error}"))?;
    check(filter.as_filter(), (schema, secrets)).map_err(|what| format!("filter {text:?}: {what}"))?;
    Ok(filter)
}

/// Reads the filter that single values of an attribute have to match, each for itself.
///
/// What it says of a value is what it says of every other spelling of the value, and the same wherever the value is:
/// so it never tells more of a value that is there than of one that is asked for.
///
/// # Errors
/// What is wrong with it, or with a filter for values of the attribute.
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
                "values of {name} are not told apart by the equality rule of the attribute type"
            ));
        }
        if VirtualAttribute::of(attribute_type).is_some() {
            return Err(format!("values of {name} are made when they are asked for"));
        }
        if is_link_type(attribute_type) || schema.syntax_by_id(attribute_type.syntax).name_syntax().is_some()
        {
            return Err(format!("values of {name} are names of entries, which rules do not tell apart"));
        }
        if attribute_type.oid == OBJECT_CLASS && rights.has(READ.with(SEARCH).with(COMPARE)) {
            return Err(format!("every filter may ask for {name}: some values of it can only be written"));
        }
    }
    check_items(filter.as_filter(), of, schema).map_err(|what| format!("filter {text:?}: {what}"))?;
    Ok(filter)
}

/// Whether a filter for values asks for nothing but the values.
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
            return Err("values are told apart by equality, substrings, >= and <=".to_owned());
        }
    };
    let parsed = schema.parse_description(description).map_err(|error| error.to_string())?;
    if parsed != AttributeDescription::of(of) {
        return Err(format!("{description} is not the attribute of the rule, {}", attribute_type.name()));
    }
    match (attribute_type.equality, rule) {
        (Some(equality), Some(rule)) if equality.shares_key_with(rule) => Ok(()),
        _ => Err(format!("{} does not tell values apart as its equality rule does", attribute_type.name())),
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
        FilterKind::Present(description) => known(description, types).map(|_| ()),
        FilterKind::ExtensibleMatch(extensible) => check_extensible(&extensible, types),
        FilterKind::Unrecognized(_) => Err("it has a part of an unknown kind".to_owned()),
    }
}

/// The type of a description that a rule may ask for.
fn known<'s>(description: &str, (schema, secrets): Types<'s>) -> Result<&'s AttributeType, String> {
    let parsed = schema.parse_description(description).map_err(|error| error.to_string())?;
    let attribute_type = schema.type_by_id(parsed.type_id);
    if secrets.has(parsed.type_id) {
        return Err(format!("{description} is a secret, of which a rule would tell"));
    }
    if counts_entries(schema, parsed.type_id) {
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
    let attribute_type = known(assertion.description, (schema, secrets))?;
    let name = attribute_type.name();
    let rule = rule(attribute_type).ok_or_else(|| format!("{name} has no {what} rule"))?;
    let value = String::from_utf8_lossy(assertion.value);
    let is_class = attribute_type.oid == OBJECT_CLASS
        || VirtualAttribute::of(attribute_type) == Some(VirtualAttribute::StructuralObjectClass);
    if is_class && schema.object_class(value.trim()).is_none() {
        return Err(format!("{value} is no object class of the schema"));
    }
    rule.normalize_assertion(schema, assertion.value, &mut Vec::new())
        .map_err(|error| format!("{value:?} is no value for {name}: {error}"))
}

fn check_substrings(substrings: &Substrings<'_>, types: Types<'_>) -> Result<(), String> {
    let attribute_type = known(substrings.description, types)?;
    let name = attribute_type.name();
    let rule = attribute_type.substring.ok_or_else(|| format!("{name} has no substring rule"))?;
    SubstringAssertion::new(rule, substrings.initial, substrings.any.iter(), substrings.final_)
        .map(|_| ())
        .map_err(|error| format!("the parts are none of a value of {name}: {error}"))
}

fn check_extensible(extensible: &ExtensibleMatch<'_>, (schema, secrets): Types<'_>) -> Result<(), String> {
    let Some(description) = extensible.description else {
        return Err("a match without an attribute would ask for all of them".to_owned());
    };
    let attribute_type = known(description, (schema, secrets))?;
    let name = attribute_type.name();
    let rule = match extensible.rule {
        None => attribute_type.equality.ok_or_else(|| format!("{name} has no equality rule"))?,
        Some(text) => {
            let rule = MatchingRule::find(text).ok_or_else(|| format!("{text} is no matching rule here"))?;
            if attribute_type.equality != Some(rule) && !schema.rule_applies(rule, attribute_type) {
                return Err(format!("{text} is not for values of {name}"));
            }
            rule
        }
    };
    RuleAssertion::new(schema, rule, extensible.value).map(|_| ()).map_err(|error| {
        format!("{:?} is no value for {name}: {error}", String::from_utf8_lossy(extensible.value))
    })
}

/// OID of objectClass.
const OBJECT_CLASS: &str = "2.5.4.0";
