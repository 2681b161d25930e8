//! Filters on the parts of one value. Example: `emails[type eq "work" and value co "@example.com"]`.
//!
//! All comparisons apply to the same value. An LDAP filter with two comparisons cannot express that. Therefore
//! comparisons of parts that the settings determine (`type`) are evaluated during the translation. The rest may be one
//! comparison, or several that are joined by `or`.

use serde_json::{Map, Value};

use super::{FindDn, NEVER, attribute};
use crate::attribute::{Attribute, Binding, Slot};
use crate::error::{Result, ScimError};
use crate::filter::{Filter, matches};
use crate::model::ResourceType;
use crate::path::AttributePath;

/// Returns the filter for entries that have a value which matches `inner`.
pub(super) fn has_value(
    resource: &ResourceType,
    path: &AttributePath,
    inner: &Filter,
    find: FindDn<'_>,
) -> Result<String> {
    let unknown = || ScimError::filter(format!("{path}: {} has no such attribute", resource.name.text()));
    let resolved = resource.resolve(path).ok_or_else(unknown)?;
    if resolved.part.is_some() || resolved.attribute.parts.is_empty() {
        return Err(ScimError::filter(format!("{path}: it has no parts to filter by")));
    }
    if matches!(resolved.attribute.binding, Binding::Inner) {
        // The attribute has only one value, and each part of it has its own LDAP attribute.
        return super::translate(resource, &prefixed(path, inner)?, find);
    }
    values(resolved.attribute, path, inner, find)
}

/// Returns the filter for entries that have a value of `attribute` which matches `inner`.
pub(super) fn values(
    attribute: &Attribute,
    path: &AttributePath,
    inner: &Filter,
    find: FindDn<'_>,
) -> Result<String> {
    let Binding::Typed(slots) = &attribute.binding else {
        return of_slot(attribute, path, None, inner, find);
    };
    let mut filters = Vec::new();
    for slot in slots {
        filters.push(of_slot(attribute, path, Some(slot), inner, find)?);
    }
    filters.retain(|filter| filter != NEVER);
    Ok(match filters.len() {
        1 => filters.concat(),
        _ => format!("(|{})", filters.concat()),
    })
}

/// Returns the filter for entries that have a value which matches `inner`. If the slot has a type, only the values of
/// this type are considered.
fn of_slot(
    attribute: &Attribute,
    path: &AttributePath,
    slot: Option<&Slot>,
    inner: &Filter,
    find: FindDn<'_>,
) -> Result<String> {
    Ok(match reduced(&mut Values { attribute, path, slot, find }, inner)? {
        Reduced::Constant(false) => NEVER.to_owned(),
        Reduced::Constant(true) => match slot {
            Some(slot) => format!("({}=*)", slot.description),
            None => self::attribute(attribute, path, None, &mut |_| Ok(None))?,
        },
        Reduced::Filter(filter) => filter,
    })
}

/// Result of evaluating the comparisons of the parts that the settings determine: a constant, or a filter on the other
/// parts.
enum Reduced {
    Constant(bool),
    Filter(String),
}

/// The values that a filter applies to: all values of an attribute, or the values of one type.
struct Values<'a, 'f> {
    attribute: &'a Attribute,
    path: &'a AttributePath,
    slot: Option<&'a Slot>,
    find: FindDn<'f>,
}

fn reduced(values: &mut Values<'_, '_>, filter: &Filter) -> Result<Reduced> {
    match filter {
        Filter::And(filters) => {
            let mut rest = None;
            for filter in filters {
                match reduced(values, filter)? {
                    Reduced::Constant(true) => {}
                    Reduced::Constant(false) => return Ok(Reduced::Constant(false)),
                    Reduced::Filter(filter) if rest.is_none() => rest = Some(filter),
                    Reduced::Filter(_) => return Err(inexpressible(values.path)),
                }
            }
            Ok(rest.map_or(Reduced::Constant(true), Reduced::Filter))
        }
        Filter::Or(filters) => {
            let mut all = String::new();
            for filter in filters {
                match reduced(values, filter)? {
                    Reduced::Constant(true) => return Ok(Reduced::Constant(true)),
                    Reduced::Constant(false) => {}
                    Reduced::Filter(filter) => all += &filter,
                }
            }
            Ok(if all.is_empty() { Reduced::Constant(false) } else { Reduced::Filter(format!("(|{all})")) })
        }
        Filter::Not(filter) => match reduced(values, filter)? {
            Reduced::Constant(value) => Ok(Reduced::Constant(!value)),
            Reduced::Filter(_) => Err(inexpressible(values.path)),
        },
        Filter::Present(name) => part(values, name, filter, None),
        Filter::Compare(name, operator, value) => {
            if name.is("value") && *operator == crate::filter::Operator::NotEqual {
                return Err(inexpressible(values.path));
            }
            part(values, name, filter, Some((*operator, value)))
        }
        Filter::HasValue(..) => Err(ScimError::filter(format!("{}: a filter in a filter", values.path))),
    }
}

/// Evaluates the comparison of a part, or translates it.
fn part(
    values: &mut Values<'_, '_>,
    name: &AttributePath,
    filter: &Filter,
    comparison: Option<(crate::filter::Operator, &Value)>,
) -> Result<Reduced> {
    let Values { attribute, path, slot, find } = values;
    let unknown = || ScimError::filter(format!("{path}: {name}: there is no such part"));
    let found = attribute.part(&name.name).filter(|part| part.is_mapped() && name.part.is_none());
    let found = found.filter(|_| name.schema.is_none()).ok_or_else(unknown)?;
    if let Binding::Text(description) = &found.binding {
        return super::text(description, path, comparison).map(Reduced::Filter);
    }
    match (found.name, slot) {
        ("type", slot) => {
            let canonical = match (&attribute.binding, slot) {
                (_, Some(slot)) => slot.canonical,
                (Binding::Address, None) => "work",
                _ => return Err(ScimError::filter(format!("{path}: there is no filter by type"))),
            };
            let object = Map::from_iter([("type".to_owned(), canonical.into())]);
            Ok(Reduced::Constant(matches(filter, &object)))
        }
        ("value", Some(slot)) => super::text(&slot.description, path, comparison).map(Reduced::Filter),
        ("value", None) => self::attribute(attribute, path, comparison, *find).map(Reduced::Filter),
        _ => Err(ScimError::filter(format!("{path}: there is no filter by {name}"))),
    }
}

fn inexpressible(path: &AttributePath) -> ScimError {
    ScimError::filter(format!(
        "{path}: of one value only one comparison besides the type, and neither ne nor not"
    ))
}

/// Returns the filter with complete paths: the name of the attribute is put before the names of its parts.
fn prefixed(path: &AttributePath, filter: &Filter) -> Result<Filter> {
    let whole = |part: &AttributePath| {
        if part.part.is_some() || part.schema.is_some() {
            return Err(ScimError::filter(format!("{path}: {part}: there is no such part")));
        }
        Ok(AttributePath { part: Some(part.name.clone()), ..path.clone() })
    };
    let all = |filters: &[Filter]| filters.iter().map(|filter| prefixed(path, filter)).collect::<Result<_>>();
    Ok(match filter {
        Filter::And(filters) => Filter::And(all(filters)?),
        Filter::Or(filters) => Filter::Or(all(filters)?),
        Filter::Not(filter) => Filter::Not(Box::new(prefixed(path, filter)?)),
        Filter::Present(part) => Filter::Present(whole(part)?),
        Filter::Compare(part, operator, value) => Filter::Compare(whole(part)?, *operator, value.clone()),
        Filter::HasValue(..) => return Err(ScimError::filter(format!("{path}: a filter in a filter"))),
    })
}
