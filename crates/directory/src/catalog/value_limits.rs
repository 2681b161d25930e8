//! Limits of the settings for values of some attribute types: their number, their size, and a pattern.

use regex_lite::Regex;
use schema::{Schema, TypeId};

use super::covered_entries::{CoveredEntries, is_determined, types_of};
use super::is_link_type;
use super::secret::Secrets;
use crate::model::limits::PATTERN_SIZE_MAX;
use crate::model::rule_tokens::{Parser, named, tokens};

/// A rule for the values of each of some types.
#[derive(Clone, Debug)]
pub(crate) struct ValueLimit {
    pub(crate) name: String,
    pub(crate) types: Vec<TypeId>,
    /// Maximum number of values, counted for all options together.
    pub(crate) count_max: Option<usize>,
    /// Maximum size of a value in octets.
    pub(crate) size_max: Option<usize>,
    /// Pattern that each whole value must match, and its text.
    pub(crate) pattern: Option<(Regex, String)>,
    /// The entries that the rule covers; it has no base.
    pub(crate) covered: CoveredEntries,
}

impl ValueLimit {
    /// Compiles a rule: `NAME: ATTRIBUTE, ... [at most NUMBER values] [at most NUMBER octets] [like 'PATTERN']
    /// [matching 'FILTER']`.
    ///
    /// # Errors
    /// The text says what is wrong with it.
    pub(crate) fn read(text: &str, schema: &Schema, secrets: &Secrets) -> Result<ValueLimit, String> {
        let (name, rest) = named(text, "phones: telephoneNumber at most 3 values like '[+0-9 ]+'")?;
        let tokens = tokens(rest)?;
        let mut parser = Parser { tokens: &tokens };
        let types = types_of(&mut parser, schema, |known, _| {
            match is_determined(known) || is_link_type(known) || secrets.has(known.id) {
                true => Err(format!(
                    "{} is a secret, names other entries, or is determined by the server or by the schema",
                    known.name()
                )),
                false => Ok(()),
            }
        })?;
        let (mut count_max, mut size_max, mut pattern) = (None, None, None);
        loop {
            if parser.takes("at") {
                parser.expect("most")?;
                let number = parser.word("a number")?;
                let number: usize = number.parse().map_err(|_| format!("{number:?} is not a number"))?;
                match parser.word("values or octets")? {
                    "values" | "value" => count_max = Some(number),
                    "octets" | "octet" => size_max = Some(number),
                    other => return Err(format!("expected values or octets, found {other:?}")),
                }
            } else if parser.takes("like") {
                let text = parser.quoted("a pattern")?;
                if text.len() > PATTERN_SIZE_MAX {
                    return Err(format!("the pattern has more than {PATTERN_SIZE_MAX} octets"));
                }
                let whole =
                    Regex::new(&format!("^(?:{text})$")).map_err(|error| format!("{text:?}: {error}"))?;
                pattern = Some((whole, text));
            } else {
                break;
            }
        }
        if count_max.is_none() && size_max.is_none() && pattern.is_none() {
            return Err(format!("expected \"at most\" or \"like\", found {}", parser.next_text()));
        }
        let covered = parser.covered_entries()?;
        if covered.base.is_some() {
            return Err("limits of values apply in the whole directory: use a filter".to_owned());
        }
        let covered = CoveredEntries::read(&covered, (schema, secrets))?;
        Ok(ValueLimit { name: name.to_owned(), types, count_max, size_max, pattern, covered })
    }
}
