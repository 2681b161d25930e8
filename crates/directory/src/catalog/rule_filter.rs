//! The filters in access rules, checked: they say yes or no of every entry.
//!
//! Elsewhere a part of a filter that nobody can answer is Undefined. In a rule that would be a slip of whoever wrote
//! it, and nobody would see it, so it is an error: an unknown type, a value that its syntax does not allow, a rule that
//! the type does not have, and a secret, of which a rule would tell.

use ldap::{Assertion, ExtensibleMatch, Filter, FilterBuf, FilterKind, Substrings};
use schema::{AttributeType, MatchingRule, RuleAssertion, Schema, SubstringAssertion};

use super::secret::is_secret;
use super::virtual_attribute::{VirtualAttribute, counts_entries};

/// Reads a filter of a rule.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn rule_filter(text: &str, schema: &Schema) -> Result<FilterBuf, String> {
    let filter = FilterBuf::parse(text).map_err(|error| format!("{text:?} is no filter: {error}"))?;
    check(filter.as_filter(), schema).map_err(|what| format!("filter {text:?}: {what}"))?;
    Ok(filter)
}

fn check(filter: Filter<'_>, schema: &Schema) -> Result<(), String> {
    match filter.kind() {
        FilterKind::And(list) | FilterKind::Or(list) => {
            list.iter().try_for_each(|filter| check(filter, schema))
        }
        FilterKind::Not(filter) => check(filter, schema),
        FilterKind::EqualityMatch(assertion) | FilterKind::ApproxMatch(assertion) => {
            check_value(&assertion, schema, "equality", |known| known.equality)
        }
        FilterKind::GreaterOrEqual(assertion) | FilterKind::LessOrEqual(assertion) => {
            check_value(&assertion, schema, "ordering", |known| known.ordering)
        }
        FilterKind::Substrings(substrings) => check_substrings(&substrings, schema),
        FilterKind::Present(description) => known(description, schema).map(|_| ()),
        FilterKind::ExtensibleMatch(extensible) => check_extensible(&extensible, schema),
        FilterKind::Unrecognized(_) => Err("it has a part of an unknown kind".to_owned()),
    }
}

/// The type of a description that a rule may ask for.
fn known<'s>(description: &str, schema: &'s Schema) -> Result<&'s AttributeType, String> {
    let parsed = schema.parse_description(description).map_err(|error| error.to_string())?;
    let attribute_type = schema.type_by_id(parsed.type_id);
    if is_secret(schema, parsed.type_id) {
        return Err(format!("{description} is a secret, of which a rule would tell"));
    }
    if counts_entries(schema, parsed.type_id) {
        return Err(format!("{description} depends on other entries"));
    }
    Ok(attribute_type)
}

fn check_value(
    assertion: &Assertion<'_>,
    schema: &Schema,
    what: &str,
    rule: fn(&AttributeType) -> Option<MatchingRule>,
) -> Result<(), String> {
    let attribute_type = known(assertion.description, schema)?;
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

fn check_substrings(substrings: &Substrings<'_>, schema: &Schema) -> Result<(), String> {
    let attribute_type = known(substrings.description, schema)?;
    let name = attribute_type.name();
    let rule = attribute_type.substring.ok_or_else(|| format!("{name} has no substring rule"))?;
    SubstringAssertion::new(rule, substrings.initial, substrings.any.iter(), substrings.final_)
        .map(|_| ())
        .map_err(|error| format!("the parts are none of a value of {name}: {error}"))
}

fn check_extensible(extensible: &ExtensibleMatch<'_>, schema: &Schema) -> Result<(), String> {
    let Some(description) = extensible.description else {
        return Err("a match without an attribute would ask for all of them".to_owned());
    };
    let attribute_type = known(description, schema)?;
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
