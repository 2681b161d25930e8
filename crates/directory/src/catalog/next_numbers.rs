//! Rules of the settings for numbers that the server chooses when a client requests the next free number of a range.

use schema::{AttributeType, Schema, TypeId};

use super::covered_entries::{CoveredEntries, types_of};
use super::secret::Secrets;
use crate::model::name::NormalName;
use crate::model::rule_tokens::{Parser, named, tokens};

/// Syntax of integers (RFC 4517 section 3.3.16).
const INTEGER_SYNTAX: &str = "1.3.6.1.4.1.1466.115.121.1.27";

/// A rule with a range of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NextNumberRule {
    pub(crate) name: String,
    /// Attribute types; at least one. A number that an attribute of one type uses is not free for the other types. A
    /// request receives the same number for all types.
    pub(crate) types: Vec<TypeId>,
    /// First and last number, from 0 to 2^63 - 2.
    pub(crate) range: (i64, i64),
    /// Name of the top entry of the subtree to which the rule applies; `None` for all entries.
    pub(crate) base: Option<NormalName>,
}

impl NextNumberRule {
    /// Compiles a rule: `NAME: ATTRIBUTE, ... from NUMBER to NUMBER [in 'DN']`.
    ///
    /// # Errors
    /// A message that describes the mistake in the rule.
    pub(crate) fn read(text: &str, schema: &Schema, secrets: &Secrets) -> Result<NextNumberRule, String> {
        let (name, rest) = named(text, "users: uidNumber from 10000 to 59999")?;
        let tokens = tokens(rest)?;
        let mut parser = Parser { tokens: &tokens };
        let types = types_of(&mut parser, schema, |known, _| check_type(known, schema, secrets))?;
        parser.expect("from")?;
        let from = number(parser.word("a number")?)?;
        parser.expect("to")?;
        let to = number(parser.word("a number")?)?;
        if to < from {
            return Err(format!("the range from {from} to {to} is empty"));
        }
        let covered = parser.covered_entries()?;
        if covered.filter.is_some() {
            return Err("a range of numbers has no filter".to_owned());
        }
        let base = CoveredEntries::read(&covered, (schema, secrets))?.base;
        Ok(NextNumberRule { name: name.to_owned(), types, range: (from, to), base })
    }
}

fn number(text: &str) -> Result<i64, String> {
    let number = text.parse().ok().filter(|number: &i64| (0..i64::MAX).contains(number));
    number.ok_or_else(|| format!("{text:?} is not a whole number from 0 to {}", i64::MAX - 1))
}

fn check_type(known: &AttributeType, schema: &Schema, secrets: &Secrets) -> Result<(), String> {
    let name = known.name();
    if schema.syntax_by_id(known.syntax).oid != INTEGER_SYNTAX || known.equality.is_none() {
        return Err(format!("values of {name} are not integers with an equality rule"));
    }
    match known.no_user_modification || secrets.has(known.id) {
        true => Err(format!("{name} is a secret or determined by the server")),
        false => Ok(()),
    }
}
