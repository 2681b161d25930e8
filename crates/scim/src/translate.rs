//! Translates SCIM filters to LDAP filters (RFC 4515).
//!
//! Each comparison is translated so that an index can answer it. For example, a search by `userName` or `externalId`
//! examines one entry. A filter that has no exact translation is refused.

mod inner;

use ldap::filter_value;
use serde_json::Value;

use crate::attribute::{Attribute, Binding, DISABLED, Kind};
use crate::error::{Result, ScimError};
use crate::filter::{Filter, Operator};
use crate::model::{CREATE_TIMESTAMP, ENTRY_UUID, MODIFY_TIMESTAMP, ResourceType};
use crate::path::AttributePath;
use crate::time;

/// The LDAP filters that always match and that never match (RFC 4526).
pub(crate) const ALWAYS: &str = "(&)";
pub(crate) const NEVER: &str = "(|)";

/// Function that returns the DN of the resource with an id. It returns `None` if there is no such resource.
pub(crate) type FindDn<'f> = &'f mut dyn FnMut(&str) -> Result<Option<String>>;

/// Returns the LDAP filter for resources of this type. The filter does not contain the condition on the object class.
///
/// # Errors
/// invalidFilter if an attribute is unknown, an operator does not fit the type of the attribute, or a value has the
/// wrong type.
pub(crate) fn translate(resource: &ResourceType, filter: &Filter, find: FindDn<'_>) -> Result<String> {
    Ok(match filter {
        Filter::And(filters) => format!("(&{})", joined(resource, filters, find)?),
        Filter::Or(filters) => format!("(|{})", joined(resource, filters, find)?),
        Filter::Not(filter) => negated(&translate(resource, filter, find)?),
        Filter::Present(path) => compare(resource, path, None, find)?,
        Filter::Compare(path, operator, value) => compare(resource, path, Some((*operator, value)), find)?,
        Filter::HasValue(path, inner) => inner::has_value(resource, path, inner, find)?,
    })
}

fn joined(resource: &ResourceType, filters: &[Filter], find: FindDn<'_>) -> Result<String> {
    let mut all = String::new();
    for filter in filters {
        all += &translate(resource, filter, find)?;
    }
    Ok(all)
}

fn negated(filter: &str) -> String {
    match filter {
        ALWAYS => NEVER.to_owned(),
        NEVER => ALWAYS.to_owned(),
        filter => format!("(!{filter})"),
    }
}

/// Translates a comparison. If there is no operator, translates a test of presence.
fn compare(
    resource: &ResourceType,
    path: &AttributePath,
    comparison: Option<(Operator, &Value)>,
    find: FindDn<'_>,
) -> Result<String> {
    // `attribute eq null` matches if the attribute has no value.
    if let Some((operator @ (Operator::Equal | Operator::NotEqual), Value::Null)) = comparison {
        let present = compare(resource, path, None, find)?;
        return Ok(if operator == Operator::Equal { negated(&present) } else { present });
    }
    if path.schema.is_none()
        || path.schema.as_deref().is_some_and(|schema| schema.eq_ignore_ascii_case(resource.schema))
    {
        if path.is("id") {
            return id(comparison);
        }
        if path.name.eq_ignore_ascii_case("meta") {
            return meta(resource, path, comparison);
        }
    }
    let unknown = || ScimError::filter(format!("{path}: {} has no such attribute", resource.name.text()));
    let resolved = resource.resolve(path).ok_or_else(unknown)?;
    match resolved.part {
        // If the path contains no part of the attribute, the part `value` is compared (RFC 7644 section 3.4.2.2).
        None => attribute(resolved.attribute, path, comparison, find),
        Some(part) => part_of(resolved.attribute, part, path, comparison, find),
    }
}

fn attribute(
    attribute: &Attribute,
    path: &AttributePath,
    comparison: Option<(Operator, &Value)>,
    find: FindDn<'_>,
) -> Result<String> {
    match &attribute.binding {
        Binding::Text(name) | Binding::Values(name) => text(name, path, comparison),
        Binding::Active(name) => active(name, path, comparison),
        Binding::Typed(slots) => {
            let names = slots.iter().map(|slot| slot.description.as_str());
            any_of(names.map(|name| text(name, path, comparison)).collect::<Result<Vec<_>>>()?, comparison)
        }
        Binding::Link(name) | Binding::Members(name) | Binding::Groups(name) => {
            link(name, path, comparison, find)
        }
        Binding::Inner | Binding::Address if comparison.is_none() => {
            let mut names = Vec::new();
            attribute.each_description(&mut |name| names.push(format!("({name}=*)")));
            any_of(names, None)
        }
        Binding::Inner | Binding::Address => Err(ScimError::filter(format!("{path}: name one of its parts"))),
        Binding::Unmapped | Binding::Password(_) => {
            Err(ScimError::filter(format!("{path}: it is not kept here, or never returned")))
        }
    }
}

/// Joins the filters for several LDAP attributes. With `ne`, all filters must match; otherwise at least one must match.
fn any_of(filters: Vec<String>, comparison: Option<(Operator, &Value)>) -> Result<String> {
    if filters.len() == 1 {
        return Ok(filters.concat());
    }
    let is_not_equal = comparison.is_some_and(|(operator, _)| operator == Operator::NotEqual);
    Ok(format!("({}{})", if is_not_equal { '&' } else { '|' }, filters.concat()))
}

fn part_of(
    attribute: &Attribute,
    part: &Attribute,
    path: &AttributePath,
    comparison: Option<(Operator, &Value)>,
    find: FindDn<'_>,
) -> Result<String> {
    match (&attribute.binding, &part.binding) {
        (_, Binding::Text(name)) => text(name, path, comparison),
        (_, Binding::Unmapped) => Err(ScimError::filter(format!("{path}: it is not kept here"))),
        _ if part.name == "value" => self::attribute(attribute, path, comparison, find),
        _ => {
            let name = AttributePath { schema: None, name: part.name.to_owned(), part: None };
            let inner = match comparison {
                Some((operator, value)) => Filter::Compare(name, operator, value.clone()),
                None => Filter::Present(name),
            };
            inner::values(attribute, path, &inner, find)
        }
    }
}

/// Translates the comparison of a text with the LDAP attribute `name`.
fn text(name: &str, path: &AttributePath, comparison: Option<(Operator, &Value)>) -> Result<String> {
    let Some((operator, value)) = comparison else { return Ok(format!("({name}=*)")) };
    let Value::String(value) = value else {
        return Err(ScimError::filter(format!("{path}: it is compared with a string")));
    };
    Ok(compared(name, operator, value))
}

/// Returns the LDAP filter that compares the attribute `name` with a value. The value is already in the form that LDAP
/// uses.
fn compared(name: &str, operator: Operator, value: &str) -> String {
    let is_empty = value.is_empty();
    let value = filter_value(value);
    match operator {
        Operator::Equal => format!("({name}={value})"),
        Operator::NotEqual => format!("(!({name}={value}))"),
        // Every text contains the empty text.
        Operator::Contains | Operator::StartsWith | Operator::EndsWith if is_empty => format!("({name}=*)"),
        Operator::Contains => format!("({name}=*{value}*)"),
        Operator::StartsWith => format!("({name}={value}*)"),
        Operator::EndsWith => format!("({name}=*{value})"),
        Operator::Greater => format!("(&({name}>={value})(!({name}={value})))"),
        Operator::GreaterOrEqual => format!("({name}>={value})"),
        Operator::Less => format!("(&({name}<={value})(!({name}={value})))"),
        Operator::LessOrEqual => format!("({name}<={value})"),
    }
}

/// Returns true if a text has the form of an id. An id is a UUID (RFC 4122 section 3).
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(place, octet)| match place {
            8 | 13 | 18 | 23 => octet == b'-',
            _ => octet.is_ascii_hexdigit(),
        })
}

fn id(comparison: Option<(Operator, &Value)>) -> Result<String> {
    match comparison {
        None => Ok(ALWAYS.to_owned()),
        Some((operator @ (Operator::Equal | Operator::NotEqual), Value::String(id))) => {
            // A text that does not have this form is the id of no resource.
            let equal = if is_id(id) { format!("({ENTRY_UUID}={id})") } else { NEVER.to_owned() };
            Ok(if operator == Operator::Equal { equal } else { negated(&equal) })
        }
        Some(_) => Err(ScimError::filter("id: only eq, ne and pr, and with a string")),
    }
}

fn meta(
    resource: &ResourceType,
    path: &AttributePath,
    comparison: Option<(Operator, &Value)>,
) -> Result<String> {
    let refused = || ScimError::filter(format!("{path}: it cannot be compared this way"));
    let name = match path.part.as_deref().map(str::to_ascii_lowercase).as_deref() {
        Some("created") => CREATE_TIMESTAMP,
        Some("lastmodified") => MODIFY_TIMESTAMP,
        Some("resourcetype") => {
            return match comparison {
                None => Ok(ALWAYS.to_owned()),
                Some((operator @ (Operator::Equal | Operator::NotEqual), Value::String(name))) => {
                    let is_own = name == resource.name.text();
                    let is_true = is_own == (operator == Operator::Equal);
                    Ok(if is_true { ALWAYS } else { NEVER }.to_owned())
                }
                Some(_) => Err(refused()),
            };
        }
        _ => return Err(refused()),
    };
    let Some((operator, value)) = comparison else { return Ok(format!("({name}=*)")) };
    if matches!(operator, Operator::Contains | Operator::StartsWith | Operator::EndsWith) {
        return Err(refused());
    }
    let time = value.as_str().and_then(time::to_ldap);
    let invalid = || ScimError::filter(format!("{path}: a time such as \"2026-11-27T08:30:00Z\" expected"));
    Ok(compared(name, operator, &time.ok_or_else(invalid)?))
}

fn active(name: &str, path: &AttributePath, comparison: Option<(Operator, &Value)>) -> Result<String> {
    let disabled = format!("({name}={DISABLED})");
    match comparison {
        None => Ok(ALWAYS.to_owned()),
        Some((operator @ (Operator::Equal | Operator::NotEqual), Value::Bool(value))) => {
            let is_active = *value == (operator == Operator::Equal);
            Ok(if is_active { negated(&disabled) } else { disabled })
        }
        Some(_) => Err(ScimError::filter(format!("{path}: eq, ne or pr, and true or false"))),
    }
}

/// Translates a comparison with the id of another resource.
fn link(
    name: &str,
    path: &AttributePath,
    comparison: Option<(Operator, &Value)>,
    find: FindDn<'_>,
) -> Result<String> {
    match comparison {
        None => Ok(format!("({name}=*)")),
        Some((operator @ (Operator::Equal | Operator::NotEqual), Value::String(id))) => {
            let dn = if is_id(id) { find(id)? } else { None };
            let equal = dn.map_or(NEVER.to_owned(), |dn| format!("({name}={})", filter_value(&dn)));
            Ok(if operator == Operator::Equal { equal } else { negated(&equal) })
        }
        Some(_) => Err(ScimError::filter(format!("{path}: eq, ne or pr, and the id of a resource"))),
    }
}

/// Returns the LDAP attribute by which the parameter `sortBy` sorts.
///
/// # Errors
/// invalidPath if the attribute has no order.
pub(crate) fn sort_attribute(resource: &ResourceType, path: &AttributePath) -> Result<String> {
    let refused = || ScimError::path(format!("{path}: there is no order by this attribute"));
    if path.name.eq_ignore_ascii_case("meta") {
        return match path.part.as_deref().map(str::to_ascii_lowercase).as_deref() {
            Some("created") => Ok(CREATE_TIMESTAMP.to_owned()),
            Some("lastmodified") => Ok(MODIFY_TIMESTAMP.to_owned()),
            _ => Err(refused()),
        };
    }
    if path.is("id") {
        return Ok(ENTRY_UUID.to_owned());
    }
    let resolved = resource.resolve(path).ok_or_else(refused)?;
    let is_value = resolved.part.is_none_or(|part| part.name == "value");
    match (&resolved.attribute.binding, resolved.part.map(|part| &part.binding)) {
        (_, Some(Binding::Text(name))) => Ok(name.clone()),
        (Binding::Text(name) | Binding::Values(name), _) if resolved.attribute.kind != Kind::Boolean => {
            Ok(name.clone())
        }
        (Binding::Typed(slots), _) if is_value => {
            slots.first().map(|slot| slot.description.clone()).ok_or_else(refused)
        }
        _ => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::parse_filter;
    use crate::model::Model;
    use crate::settings::ScimSettings;

    fn model() -> Model {
        Model::of(&ScimSettings::new("ou=people,dc=x".to_owned(), "ou=groups,dc=x".to_owned())).unwrap()
    }

    fn of_user(model: &Model, text: &str) -> Result<String> {
        let mut find = |id: &str| Ok((!id.starts_with('0')).then(|| "uid=a\\2Cb (c),dc=x".to_owned()));
        translate(&model.users, &parse_filter(text)?, &mut find)
    }

    #[test]
    fn filters_are_translated_to_ldap() {
        let model = model();
        let member = "10000000-0000-4000-8000-000000000000";
        for (filter, expected) in [
            (r#"userName eq "a*(b)\\c""#, r"(uid=a\2a\28b\29\5cc)"),
            (r#"USERNAME Ne "a""#, "(!(uid=a))"),
            (r#"title gt "a""#, "(&(title>=a)(!(title=a)))"),
            (r#"title co """#, "(title=*)"),
            (r#"title eq null"#, "(!(title=*))"),
            (
                r#"phoneNumbers eq "1" and (active ne true or not (name pr))"#,
                "(&(|(telephoneNumber=1)(homePhone=1)(mobile=1)(facsimileTelephoneNumber=1)(pager=1))\
                 (|(pwdAccountLockedTime=000001010000Z)(!(|(cn=*)(sn=*)(givenName=*)))))",
            ),
            (
                r#"phoneNumbers[type eq "fax" or value sw "1"]"#,
                "(|(|(telephoneNumber=1*))(|(homePhone=1*))(|(mobile=1*))(facsimileTelephoneNumber=*)(|(pager=1*)))",
            ),
            (
                r#"phoneNumbers[not (type eq "fax") and type ne "pager" and type co "o" and value eq "1"]"#,
                "(|(telephoneNumber=1)(homePhone=1)(mobile=1))",
            ),
            (r#"emails[type eq "home"]"#, "(|)"),
            (r#"emails[type eq "work"].value eq "a@x""#, "(mail=a@x)"),
            (r#"phoneNumbers[type eq "fax"].value pr"#, "(facsimileTelephoneNumber=*)"),
            (r#"name[familyName eq "x" and givenName pr]"#, "(&(sn=x)(givenName=*))"),
            (r#"addresses[type eq "work" and locality eq "Wien"]"#, "(l=Wien)"),
            (r#"meta.lastModified ge "2026-11-27T08:30:00.5Z""#, "(modifyTimestamp>=20261127083000.5Z)"),
            (r#"meta.resourceType eq "Group" or id pr"#, "(|(|)(&))"),
            (r#"id eq "x""#, "(|)"),
            (r#"not (id eq "x")"#, "(&)"),
            (&format!("groups.value eq \"{member}\""), r"(memberOf=uid=a\5c2Cb \28c\29,dc=x)"),
            (&format!("groups eq \"0{}\"", &member[1..]), "(|)"),
        ] {
            assert_eq!(of_user(&model, filter).as_deref(), Ok(expected), "{filter}");
        }
    }

    /// Random filters are refused or translated to a valid LDAP filter. Nothing panics.
    #[test]
    fn random_filters_are_valid_or_refused() {
        const WORDS: [&str; 44] = [
            "userName",
            "emails",
            "emails.value",
            "emails.type",
            "phoneNumbers",
            "name",
            "name.familyName",
            "active",
            "groups",
            "meta.created",
            "id",
            "externalId",
            "addresses",
            "type",
            "value",
            "primary",
            "nickName",
            "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:manager",
            " eq ",
            " ne ",
            " co ",
            " sw ",
            " ew ",
            " gt ",
            " ge ",
            " lt ",
            " le ",
            " pr",
            " and ",
            " or ",
            "not ",
            "(",
            ")",
            "[",
            "]",
            "\"a\"",
            "\"\\u0000*)(\n\"",
            "\"10000000-0000-4000-8000-000000000000\"",
            "true",
            "null",
            "7",
            "\"",
            "\"work\"",
            "\"2026-11-27T08:30:00Z\"",
        ];
        let (model, mut random) = (model(), fastrand::Rng::with_seed(7));
        let mut accepted = 0;
        for round in 0..200_000 {
            let text: String = if round % 2 == 0 {
                (0..random.usize(1..12)).map(|_| WORDS[random.usize(..WORDS.len())]).collect()
            } else {
                let comparison = |random: &mut fastrand::Rng| {
                    let (name, operator) = (WORDS[random.usize(..18)], WORDS[random.usize(18..27)]);
                    format!("{name}{operator}{}", WORDS[random.usize(35..44)])
                };
                let (one, other) = (comparison(&mut random), comparison(&mut random));
                match random.usize(..4) {
                    0 => one,
                    1 => format!("not ({one} or {other})"),
                    2 => format!("{one} and ({other})"),
                    _ => format!("{}[{one} and {other}]", WORDS[random.usize(..18)]),
                }
            };
            if let Ok(filter) = of_user(&model, &text) {
                accepted += 1;
                assert!(ldap::FilterBuf::parse(&filter).is_ok(), "{text}: {filter}");
            }
        }
        assert!(accepted > 1000, "{accepted}");
    }
}
