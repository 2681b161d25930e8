//! Parser for filters and for the paths of PATCH operations.

use serde_json::Value;

use super::{Filter, Operator};
use crate::error::{Result, ScimError};
use crate::limits::{FILTER_DEPTH_MAX, FILTER_SIZE_MAX, FILTER_TERMS_MAX};
use crate::path::{AttributePath, is_path_char};

/// The target of a PATCH operation: an attribute, a filter that selects values of the attribute, and a part of these
/// values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PatchPath {
    pub(crate) path: AttributePath,
    pub(crate) filter: Option<Filter>,
    /// The part after the filter. If there is no filter, `path` contains the part.
    pub(crate) part: Option<String>,
}

/// Parses a filter.
///
/// # Errors
/// invalidFilter. The text of the error contains the position in the filter.
pub(crate) fn parse_filter(text: &str) -> Result<Filter> {
    let mut parser = Parser::new(text)?;
    let filter = parser.any_of(0)?;
    parser.end()?;
    Ok(filter)
}

/// Parses the path of a PATCH operation.
///
/// # Errors
/// invalidPath, or invalidFilter for an error in the brackets.
pub(crate) fn parse_patch_path(text: &str) -> Result<PatchPath> {
    let mut parser = Parser::new(text)?;
    let path = parser.path().map_err(|error| ScimError::path(error.detail))?;
    let filter = if parser.take("[") {
        let filter = parser.any_of(1)?;
        parser.expect("]")?;
        Some(filter)
    } else {
        None
    };
    let part = if filter.is_some() && parser.take(".") { Some(parser.path()?.name) } else { None };
    parser.end().map_err(|error| ScimError::path(error.detail))?;
    if filter.is_some() && path.part.is_some() {
        return Err(ScimError::path(format!(
            "{path}: a filter belongs after an attribute, not after a part"
        )));
    }
    Ok(PatchPath { path, filter, part })
}

/// A recursive parser. It limits the length, the depth and the number of comparisons.
struct Parser<'t> {
    text: &'t str,
    position: usize,
    terms_left: usize,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Result<Parser<'t>> {
        if text.len() > FILTER_SIZE_MAX {
            return Err(ScimError::filter(format!("a filter has at most {FILTER_SIZE_MAX} octets")));
        }
        Ok(Parser { text, position: 0, terms_left: FILTER_TERMS_MAX })
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.position..).unwrap_or_default()
    }

    fn error(&self, expected: &str) -> ScimError {
        let rest = ldap::Excerpt(self.rest());
        ScimError::filter(format!("{expected} expected after {} octets, before {rest:?}", self.position))
    }

    fn skip_spaces(&mut self) {
        let rest = self.rest();
        self.position += rest.len() - rest.trim_start_matches(' ').len();
    }

    /// If `text` comes next, skips it and returns true.
    fn take(&mut self, text: &str) -> bool {
        let is_next = self.rest().starts_with(text);
        self.position += if is_next { text.len() } else { 0 };
        is_next
    }

    fn expect(&mut self, text: &str) -> Result<()> {
        self.skip_spaces();
        if self.take(text) { Ok(()) } else { Err(self.error(text)) }
    }

    fn end(&mut self) -> Result<()> {
        self.skip_spaces();
        if self.rest().is_empty() { Ok(()) } else { Err(self.error("the end")) }
    }

    /// If the next word is `word` in upper or lower case, skips it and returns true.
    fn keyword(&mut self, word: &str) -> bool {
        let is_next = self.rest().get(..word.len()).is_some_and(|next| next.eq_ignore_ascii_case(word))
            && !self.rest()[word.len()..].starts_with(is_path_char);
        self.position += if is_next { word.len() } else { 0 };
        is_next
    }

    /// Parses filters that are joined by `or`. The operator `or` has the lowest precedence.
    fn any_of(&mut self, depth: usize) -> Result<Filter> {
        let mut filters = vec![self.all_of(depth)?];
        while self.next_keyword("or") {
            filters.push(self.all_of(depth)?);
        }
        Ok(if filters.len() == 1 { filters.remove(0) } else { Filter::Or(filters) })
    }

    fn all_of(&mut self, depth: usize) -> Result<Filter> {
        let mut filters = vec![self.one(depth)?];
        while self.next_keyword("and") {
            filters.push(self.one(depth)?);
        }
        Ok(if filters.len() == 1 { filters.remove(0) } else { Filter::And(filters) })
    }

    fn next_keyword(&mut self, word: &str) -> bool {
        self.skip_spaces();
        self.keyword(word)
    }

    /// Parses a comparison, a negation or a group in parentheses.
    fn one(&mut self, depth: usize) -> Result<Filter> {
        if depth >= FILTER_DEPTH_MAX {
            return Err(ScimError::filter(format!("a filter nests at most {FILTER_DEPTH_MAX} levels")));
        }
        self.skip_spaces();
        let start = self.position;
        if self.keyword("not") {
            self.skip_spaces();
            if self.take("(") {
                let filter = self.any_of(depth + 1)?;
                self.expect(")")?;
                return Ok(Filter::Not(Box::new(filter)));
            }
            // The word was not an operator, so it is the name of an attribute.
            self.position = start;
        }
        if self.take("(") {
            let filter = self.any_of(depth + 1)?;
            self.expect(")")?;
            return Ok(filter);
        }
        self.count_term()?;
        let path = self.path()?;
        if self.take("[") {
            let filter = self.any_of(depth + 1)?;
            self.expect("]")?;
            let filter = if self.take(".") { self.with_part(filter)? } else { filter };
            return Ok(Filter::HasValue(path, Box::new(filter)));
        }
        self.comparison(path)
    }

    /// Parses the comparison of a part after a filter in brackets, and joins both. Example: the end of
    /// `emails[type eq "work"].value eq "a@example.com"`. RFC 7644 has no such form, but Microsoft Entra ID sends it.
    fn with_part(&mut self, filter: Filter) -> Result<Filter> {
        self.count_term()?;
        let part = self.path()?;
        Ok(Filter::And(vec![filter, self.comparison(part)?]))
    }

    fn count_term(&mut self) -> Result<()> {
        self.terms_left = self.terms_left.checked_sub(1).ok_or_else(|| {
            ScimError::filter(format!("a filter has at most {FILTER_TERMS_MAX} comparisons"))
        })?;
        Ok(())
    }

    fn path(&mut self) -> Result<AttributePath> {
        self.skip_spaces();
        let rest = self.rest();
        let length = rest.find(|char| !is_path_char(char)).unwrap_or(rest.len());
        let path =
            AttributePath::parse(&rest[..length]).ok_or_else(|| self.error("the name of an attribute"))?;
        self.position += length;
        Ok(path)
    }

    fn comparison(&mut self, path: AttributePath) -> Result<Filter> {
        self.skip_spaces();
        if self.keyword("pr") {
            return Ok(Filter::Present(path));
        }
        let all = [
            ("eq", Operator::Equal),
            ("ne", Operator::NotEqual),
            ("co", Operator::Contains),
            ("sw", Operator::StartsWith),
            ("ew", Operator::EndsWith),
            ("gt", Operator::Greater),
            ("ge", Operator::GreaterOrEqual),
            ("lt", Operator::Less),
            ("le", Operator::LessOrEqual),
        ];
        let found = all.into_iter().find(|(word, _)| self.keyword(word));
        let (_, operator) = found.ok_or_else(|| self.error("eq, ne, co, sw, ew, gt, ge, lt, le or pr"))?;
        self.skip_spaces();
        let value = self.value()?;
        Ok(Filter::Compare(path, operator, value))
    }

    /// Parses a JSON string, a number, a boolean or null.
    fn value(&mut self) -> Result<Value> {
        let rest = self.rest();
        let length = match rest.strip_prefix('"') {
            Some(text) => {
                end_of_string(text).map(|end| end + 2).ok_or_else(|| self.error("a closing quote"))?
            }
            None => rest.find([' ', ')', ']']).unwrap_or(rest.len()),
        };
        let parsed = serde_json::from_str(&rest[..length]).ok();
        let value = parsed.filter(|value: &Value| !value.is_array() && !value.is_object());
        let value = value.ok_or_else(|| self.error("a string in quotes, a number, true, false or null"))?;
        self.position += length;
        Ok(value)
    }
}

/// Returns the number of octets of a JSON string before the quotation mark at its end.
fn end_of_string(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (offset, octet) in text.bytes().enumerate() {
        match octet {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return Some(offset),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> AttributePath {
        AttributePath::parse(text).unwrap()
    }

    #[test]
    fn and_binds_closer_than_or_and_names_may_be_keywords() {
        let equal = |path: &str, value: Value| Filter::Compare(name(path), Operator::Equal, value);
        for (text, expected) in [
            (
                r#"a eq 1 or b eq true and c eq null"#,
                Filter::Or(vec![
                    equal("a", 1.into()),
                    Filter::And(vec![equal("b", true.into()), equal("c", Value::Null)]),
                ]),
            ),
            (
                r#"NOT (a EQ "x\") or (") AND order pr"#,
                Filter::And(vec![
                    Filter::Not(Box::new(equal("a", "x\") or (".into()))),
                    Filter::Present(name("order")),
                ]),
            ),
            ("not pr", Filter::Present(name("not"))),
            (
                r#"emails[type eq "work" and value co "@"]"#,
                Filter::HasValue(
                    name("emails"),
                    Box::new(Filter::And(vec![
                        equal("type", "work".into()),
                        Filter::Compare(name("value"), Operator::Contains, "@".into()),
                    ])),
                ),
            ),
            (
                r#"emails[type eq "work"].value eq "a@x" and a eq 1"#,
                Filter::And(vec![
                    Filter::HasValue(
                        name("emails"),
                        Box::new(Filter::And(vec![
                            equal("type", "work".into()),
                            equal("value", "a@x".into()),
                        ])),
                    ),
                    equal("a", 1.into()),
                ]),
            ),
        ] {
            assert_eq!(parse_filter(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn hostile_filters_are_refused() {
        let nested = |levels: usize| format!("{}a pr{}", "(".repeat(levels), ")".repeat(levels));
        assert!(parse_filter(&nested(FILTER_DEPTH_MAX - 1)).is_ok());
        let many = vec!["a pr"; FILTER_TERMS_MAX + 1].join(" or ");
        let brackets = format!("{}a pr{}", "a[".repeat(100), "]".repeat(100));
        for text in [
            "",
            " ",
            "a",
            "a eq",
            "a eq b",
            "a eq 'b'",
            r#"a eq "b"#,
            r#"a eq "\x""#,
            "a pr b pr",
            "(a pr",
            "a pr)",
            "a eq {}",
            "a eq []",
            "a[b pr",
            "a[b pr]c pr",
            "a[b pr].",
            "a[b pr].c",
            "a[b pr].c[d pr]",
            "a xx 1",
            "and pr and",
            "a eq 1e999",
            "not not (a pr)",
            "a eq \u{0}",
            &nested(FILTER_DEPTH_MAX),
            &nested(4000),
            &many,
            &brackets,
            &"not (".repeat(1000),
            &"a".repeat(9000),
        ] {
            let error = parse_filter(text).unwrap_err();
            assert_eq!((error.status, error.scim_type), (400, Some("invalidFilter")), "{text}: {error:?}");
            assert!(error.detail.len() < 1000);
        }
    }

    #[test]
    fn patch_paths_are_parsed() {
        let path = parse_patch_path(r#"emails[type eq "work"].value"#).unwrap();
        assert_eq!((path.path, path.part.as_deref()), (name("emails"), Some("value")));
        assert!(path.filter.is_some());
        assert_eq!(parse_patch_path("name.familyName").unwrap().path, name("name.familyName"));
        for text in ["", "a.b[c pr]", "a[", "a[]", "a b", "a[b pr].", "a[b pr]c", "[a pr]"] {
            assert!(parse_patch_path(text).is_err(), "{text}");
        }
    }
}
