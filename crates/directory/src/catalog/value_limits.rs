//! Value limits of the settings. Each rule limits the values of certain attribute types by a maximum number, a maximum
//! size, a pattern or a set of allowed values.

use ldap::{LdapUrl, Scope};
use regex_lite::Regex;
use schema::{Schema, TypeId};

use super::covered_entries::{CoveredEntries, is_determined, types_of};
use super::is_link_type;
use super::secret::Secrets;
use crate::model::limits::PATTERN_SIZE_MAX;
use crate::model::rule_tokens::{CoveredEntriesText, Parser, named, tokens};

/// A rule that limits the values of each of its attribute types.
#[derive(Clone, Debug)]
pub(crate) struct ValueLimit {
    pub(crate) name: String,
    pub(crate) types: Vec<TypeId>,
    /// Maximum number of values of one type, counting all options together.
    pub(crate) count_max: Option<usize>,
    /// Maximum size of a value in octets.
    pub(crate) size_max: Option<usize>,
    /// Pattern that each whole value must match, and the text of the pattern.
    pub(crate) pattern: Option<(Regex, String)>,
    /// Source of the allowed values.
    pub(crate) source: Option<ValueSource>,
    /// Entries that the rule covers. A value limit has no base, so it covers the whole directory, with an optional
    /// filter.
    pub(crate) covered: CoveredEntries,
}

/// A set of allowed values: the values of one attribute type in the entries that a search finds.
#[derive(Clone, Debug)]
pub(crate) struct ValueSource {
    pub(crate) type_id: TypeId,
    pub(crate) scope: Scope,
    /// Base and filter of the search.
    pub(crate) found: CoveredEntries,
}

impl ValueSource {
    /// Compiles an LDAP URL. The URL must have exactly one attribute, no host and no extensions.
    fn read(text: &str, schema: &Schema, secrets: &Secrets) -> Result<ValueSource, String> {
        let wrong = |what: &str| format!("{text:?} {what}");
        let url = LdapUrl::parse(text).map_err(|error| wrong(&format!("is not an LDAP URL: {error}")))?;
        if url.host.is_some() || !url.extensions.is_empty() {
            return Err(wrong("has a host or extensions: the values are those of this directory"));
        }
        let [attribute] = url.attributes.as_slice() else {
            return Err(wrong("does not name one attribute"));
        };
        let known = schema.attribute_type(attribute).ok_or_else(|| format!("{attribute} is not defined"))?;
        if is_determined(known) || is_link_type(known) || secrets.has(known.id) || known.equality.is_none() {
            return Err(format!(
                "{} is a secret, names other entries, is determined by the server, or has no equality rule",
                known.name()
            ));
        }
        let covered = CoveredEntriesText { base: Some(url.dn), filter: url.filter };
        let found = CoveredEntries::read(&covered, (schema, secrets))?;
        let scope = url.scope.unwrap_or(Scope::BaseObject);
        if found.base.is_none() && scope != Scope::WholeSubtree {
            return Err(wrong("has the empty DN as its base, with which the scope has to be sub"));
        }
        Ok(ValueSource { type_id: known.id, scope, found })
    }
}

impl ValueLimit {
    /// Compiles a rule: `NAME: ATTRIBUTE, ... [at most NUMBER values] [at most NUMBER octets] [like 'PATTERN'] [from
    /// 'URL'] [matching 'FILTER']`.
    ///
    /// # Errors
    /// A message that describes the mistake in the rule.
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
        let (mut count_max, mut size_max, mut pattern, mut source) = (None, None, None, None);
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
            } else if parser.takes("from") {
                source = Some(ValueSource::read(&parser.quoted("an LDAP URL")?, schema, secrets)?);
            } else {
                break;
            }
        }
        if count_max.is_none() && size_max.is_none() && pattern.is_none() && source.is_none() {
            return Err(format!("expected \"at most\", \"like\" or \"from\", found {}", parser.next_text()));
        }
        let covered = parser.covered_entries()?;
        if covered.base.is_some() {
            return Err("limits of values apply in the whole directory: use a filter".to_owned());
        }
        let covered = CoveredEntries::read(&covered, (schema, secrets))?;
        Ok(ValueLimit { name: name.to_owned(), types, count_max, size_max, pattern, source, covered })
    }
}
