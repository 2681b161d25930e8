//! The entries that a rule of the settings covers. The entries are at or below a DN and match a filter.
//!
//! The filter depends only on user attributes that are stored in the entry itself and are not links. Therefore the
//! filter can be evaluated on an entry that a change is building, and changes of other entries do not affect its
//! result.

use ldap::{Filter, FilterBuf, FilterKind};
use schema::{AttributeType, Schema, TypeId};

use super::VirtualAttribute;
use super::access_rules::{TypeSet, normal};
use super::is_link_type;
use super::rule_filter::rule_filter;
use super::secret::Secrets;
use crate::model::name::NormalName;
use crate::model::rule_tokens::{CoveredEntriesText, Parser};

/// The entries that a rule covers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CoveredEntries {
    /// Name of the top entry; `None` to cover the whole directory.
    pub(crate) base: Option<NormalName>,
    /// Filter that the entries must match.
    pub(crate) filter: Option<FilterBuf>,
    /// Attribute types on which the filter depends.
    pub(crate) tests: TypeSet,
}

impl CoveredEntries {
    /// Parses and resolves the names in a rule's conditions on entries.
    ///
    /// # Errors
    /// A message that describes the mistake in the rule.
    pub(crate) fn read(
        text: &CoveredEntriesText,
        (schema, secrets): (&Schema, &Secrets),
    ) -> Result<CoveredEntries, String> {
        let mut covered = CoveredEntries::default();
        if let Some(dn) = &text.base {
            let base = normal(dn, schema)?;
            covered.base = (base.depth() > 0).then_some(base);
        }
        if let Some(text) = &text.filter {
            let filter = rule_filter(text, schema, secrets)?;
            collect(filter.as_filter(), schema, &mut covered.tests)
                .map_err(|what| format!("filter {text:?}: {what}"))?;
            covered.filter = Some(filter);
        }
        Ok(covered)
    }
}

/// Parses a list of at least one attribute type in a rule. Repeated types are returned once. `check` receives each type
/// and the types before it, and may refuse the type.
///
/// # Errors
/// A message that describes the mistake in the list.
pub(super) fn types_of(
    parser: &mut Parser<'_, '_>,
    schema: &Schema,
    check: impl Fn(&AttributeType, &[TypeId]) -> Result<(), String>,
) -> Result<Vec<TypeId>, String> {
    let mut types = Vec::new();
    for name in parser.list("an attribute type")? {
        let known = schema.attribute_type(name).ok_or_else(|| format!("{name} is not defined"))?;
        check(known, &types)?;
        if !types.contains(&known.id) {
            types.push(known.id);
        }
    }
    Ok(types)
}

/// Returns true if the server or the schema determines the values of a type, so that clients cannot choose them freely.
pub(super) fn is_determined(known: &AttributeType) -> bool {
    known.no_user_modification || VirtualAttribute::of(known).is_some() || known.oid == "2.5.4.0"
}

/// Collects the types on which a filter depends, with their subtypes.
fn collect(filter: Filter<'_>, schema: &Schema, types: &mut TypeSet) -> Result<(), String> {
    let description = match filter.kind() {
        FilterKind::And(list) | FilterKind::Or(list) => {
            return list.iter().try_for_each(|filter| collect(filter, schema, types));
        }
        FilterKind::Not(filter) => return collect(filter, schema, types),
        FilterKind::EqualityMatch(assertion)
        | FilterKind::ApproxMatch(assertion)
        | FilterKind::GreaterOrEqual(assertion)
        | FilterKind::LessOrEqual(assertion) => assertion.description,
        FilterKind::Substrings(substrings) => substrings.description,
        FilterKind::Present(description) => description,
        FilterKind::ExtensibleMatch(extensible) if extensible.dn_attributes => {
            return Err("it may not test the names of entries".to_owned());
        }
        FilterKind::ExtensibleMatch(extensible) => extensible.description.unwrap_or_default(),
        FilterKind::Unrecognized(_) => "",
    };
    let parsed = schema.parse_description(description).map_err(|error| error.to_string())?;
    for type_id in schema.subtypes(parsed.type_id) {
        let known = schema.type_by_id(*type_id);
        if known.is_operational() || is_link_type(known) || VirtualAttribute::of(known).is_some() {
            return Err(format!(
                "{} is maintained by the server or names other entries: the filter may test only other attributes \
                 of the entry",
                known.name()
            ));
        }
        types.insert(*type_id);
    }
    Ok(())
}
