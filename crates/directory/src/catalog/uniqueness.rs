//! Uniqueness rules of the settings, with resolved names. Under a uniqueness rule, no two entries have the same value
//! of certain attribute types.

use schema::{AttributeType, Schema, TypeId};

use super::access_rules::TypeSet;
use super::covered_entries::{CoveredEntries, is_determined, types_of};
use super::is_link_type;
use super::secret::Secrets;
use crate::model::rule_tokens::{Parser, named, tokens};

/// A uniqueness rule: no two of the covered entries have the same value of the rule's types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UniqueRule {
    pub(crate) name: String,
    /// Attribute types; at least one. All types of a rule have the same equality rule and share their values: one
    /// entry's value of one type conflicts with the same value of another type in another entry.
    pub(crate) types: Vec<TypeId>,
    pub(crate) covered: CoveredEntries,
}

/// All uniqueness rules of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Uniqueness {
    pub(crate) rules: Vec<UniqueRule>,
    /// Whether a rule could not be parsed. In this case no entry can be added or changed, because any change may
    /// violate the rule. The server checks settings before it accepts them, so another program must have written the
    /// rule.
    pub(crate) is_broken: bool,
    /// Types whose changes can violate a rule: the types of the rules, and the types that their filters test.
    pub(crate) watched: TypeSet,
}

impl Uniqueness {
    /// Compiles the rules of the settings.
    pub(crate) fn of(texts: &[String], schema: &Schema, secrets: &Secrets) -> Uniqueness {
        let mut all = Uniqueness::default();
        for text in texts {
            match UniqueRule::read(text, schema, secrets) {
                Ok(rule) => {
                    rule.types.iter().for_each(|type_id| all.watched.insert(*type_id));
                    all.watched.add(&rule.covered.tests);
                    all.rules.push(rule);
                }
                Err(_) => all.is_broken = true,
            }
        }
        all
    }

    /// Returns true if there are no rules.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty() && !self.is_broken
    }
}

impl UniqueRule {
    /// Compiles a rule: `NAME: ATTRIBUTE, ... [in 'DN'] [matching 'FILTER']`.
    ///
    /// # Errors
    /// A message that describes the mistake in the rule.
    pub(crate) fn read(text: &str, schema: &Schema, secrets: &Secrets) -> Result<UniqueRule, String> {
        let (name, rest) = named(text, "mail: mail in 'ou=people,dc=example,dc=com'")?;
        let tokens = tokens(rest)?;
        let mut parser = Parser { tokens: &tokens };
        let types = types_of(&mut parser, schema, |known, before| {
            check_type(known, secrets)?;
            let first = before.first().map(|first| schema.type_by_id(*first));
            match first.filter(|first| first.equality != known.equality) {
                Some(first) => Err(format!(
                    "values of {} and {} are compared by different rules: write a rule for each",
                    first.name(),
                    known.name()
                )),
                None => Ok(()),
            }
        })?;
        let covered = CoveredEntries::read(&parser.covered_entries()?, (schema, secrets))?;
        Ok(UniqueRule { name: name.to_owned(), types, covered })
    }
}

fn check_type(known: &AttributeType, secrets: &Secrets) -> Result<(), String> {
    let name = known.name();
    if secrets.has(known.id) {
        return Err(format!("{name} is a secret: refusals would reveal its values"));
    }
    if is_determined(known) {
        return Err(format!("values of {name} are determined by the server or by the schema"));
    }
    if is_link_type(known) {
        return Err(format!("values of {name} are names of entries, which this rule does not compare"));
    }
    match known.equality {
        Some(_) => Ok(()),
        None => Err(format!("{name} has no equality rule")),
    }
}
