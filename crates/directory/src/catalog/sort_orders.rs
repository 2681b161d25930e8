//! Sort orders of the settings, with resolved names. A sort order keeps entries sorted by some attributes, so that
//! searches sorted by these attributes need no sorting.

use schema::{Schema, TypeId};

use super::VirtualAttribute;
use super::access_rules::TypeSet;
use super::covered_entries::{CoveredEntries, types_of};
use super::is_link_type;
use super::secret::Secrets;
use crate::model::rule_tokens::{Parser, named, tokens};
use crate::model::sort_order::SortOrderRow;

/// Definition of a sort order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SortOrderRule {
    pub(crate) name: String,
    /// Types to sort by, the most significant first; at least one.
    pub(crate) types: Vec<TypeId>,
    /// Entries that the order contains.
    pub(crate) covered: CoveredEntries,
    /// Types whose values determine whether an entry is in the order, and at which place.
    pub(crate) watched: TypeSet,
}

/// A sort order, and the state of its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SortOrder {
    /// Number in the keys of its rows.
    pub(crate) number: u32,
    pub(crate) row: SortOrderRow,
    /// Definition; `None` if the text cannot be parsed. The server checks settings before it accepts them, so another
    /// program must have written the text.
    pub(crate) rule: Option<SortOrderRule>,
}

impl SortOrderRule {
    /// Compiles a definition: `NAME: ATTRIBUTE, ... [in 'DN'] [matching 'FILTER']`.
    ///
    /// # Errors
    /// A message that describes the mistake in the definition.
    pub(crate) fn read(text: &str, schema: &Schema, secrets: &Secrets) -> Result<SortOrderRule, String> {
        let (name, rest) = named(text, "names: sn, givenName in 'ou=people,dc=example,dc=com'")?;
        let tokens = tokens(rest)?;
        let mut parser = Parser { tokens: &tokens };
        let types = types_of(&mut parser, schema, |known, before| {
            let name = known.name();
            let what = if before.contains(&known.id) {
                "is given twice"
            } else if secrets.has(known.id) {
                "is a secret: the order would reveal its values"
            } else if is_link_type(known) {
                "names other entries, whose changes would change the order"
            } else if VirtualAttribute::of(known).is_some() || known.oid == "2.5.4.0" {
                "is computed on demand"
            } else if known.ordering.or(known.equality).is_none_or(|rule| !rule.is_order_preserving()) {
                "has no rule to sort by"
            } else {
                return Ok(());
            };
            Err(format!("{name} {what}"))
        })?;
        if types.len() > ldap::SORT_KEYS_MAX {
            return Err(format!(
                "there are {} attributes, but at most {} are allowed",
                types.len(),
                ldap::SORT_KEYS_MAX
            ));
        }
        let covered = CoveredEntries::read(&parser.covered_entries()?, (schema, secrets))?;
        let mut watched = covered.tests.clone();
        types.iter().flat_map(|of| schema.subtypes(*of)).for_each(|type_id| watched.insert(*type_id));
        Ok(SortOrderRule { name: name.to_owned(), types, covered, watched })
    }
}

impl SortOrder {
    pub(crate) fn of(number: u32, row: SortOrderRow, (schema, secrets): (&Schema, &Secrets)) -> SortOrder {
        let rule = SortOrderRule::read(&row.text, schema, secrets).ok();
        SortOrder { number, row, rule }
    }

    /// Returns the name of the order in the settings.
    pub(crate) fn name(&self) -> &str {
        self.rule.as_ref().map_or(&self.row.text, |rule| &rule.name)
    }

    /// Returns the definition, if changes of entries must maintain the rows of the order.
    pub(crate) fn maintained(&self) -> Option<&SortOrderRule> {
        self.rule.as_ref().filter(|_| self.row.is_maintained())
    }
}
