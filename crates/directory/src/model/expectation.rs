//! Parser of an expectation about access rules, as written in the settings:
//!
//! ```text
//! anonymous|'DN' may|may not RIGHT [ATTRIBUTE of] 'DN'
//! anonymous|'DN' may|may not use NAME
//! ```

use super::rule_tokens::{Parser, tokens};

/// Keyword of the right to use controls and extended operations. This right applies to no entry.
pub(crate) const USE_WORD: &str = "use";

/// Expectation that a requester has, or does not have, a right. Names are as written in the text of the expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expectation {
    /// DN of the requester; `None` for anonymous.
    pub(crate) requester: Option<String>,
    pub(crate) is_allowed: bool,
    /// Keyword of the right.
    pub(crate) right: String,
    /// Attribute type. For `use`, the name of a control or an extended operation; `entry` is then empty.
    pub(crate) attribute: Option<String>,
    pub(crate) entry: String,
}

impl Expectation {
    /// Parses the text of an expectation.
    ///
    /// # Errors
    /// A message that describes the fault.
    pub(crate) fn parse(text: &str) -> Result<Expectation, String> {
        let tokens = tokens(text)?;
        let mut parser = Parser { tokens: &tokens };
        let requester =
            if parser.takes("anonymous") { None } else { Some(parser.quoted("anonymous, or a DN")?) };
        if !parser.takes("may") {
            return Err(format!("expected \"may\" or \"may not\", found {}", parser.next_text()));
        }
        let is_allowed = !parser.takes("not");
        let right = parser.word("a right")?.to_owned();
        let mut attribute = None;
        if parser.is_word() {
            attribute = Some(parser.word("an attribute")?.to_owned());
            if right == USE_WORD && parser.tokens.is_empty() {
                return Ok(Expectation { requester, is_allowed, right, attribute, entry: String::new() });
            }
            if !parser.takes("of") {
                return Err(format!("expected \"of\" and a DN, found {}", parser.next_text()));
            }
        }
        let entry = parser.quoted("a DN")?;
        match parser.tokens {
            [] => Ok(Expectation { requester, is_allowed, right, attribute, entry }),
            _ => Err(format!("unexpected {} after the end of the expectation", parser.next_text())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_expectations() {
        let read = |text: &str| Expectation::parse(text).unwrap();
        let one = read("'uid=a,dc=x' may not read mail of \"uid=b,dc=x\"");
        assert_eq!((one.requester.as_deref(), one.is_allowed), (Some("uid=a,dc=x"), false));
        assert_eq!((one.right.as_str(), one.attribute.as_deref()), ("read", Some("mail")));
        assert_eq!(one.entry, "uid=b,dc=x");
        let other = read("anonymous may browse 'dc=x'");
        assert_eq!((other.requester, other.is_allowed, other.attribute), (None, true, None));
        let of_none = read("anonymous may not use paging");
        assert_eq!((of_none.attribute.as_deref(), of_none.entry.as_str()), (Some("paging"), ""));
        for (text, expected) in [
            ("uid=a may read mail of 'b'", ", found \"uid=a\""),
            ("anonymous can read mail of 'b'", ", found \"can\""),
            ("anonymous may read mail 'b'", ", found \"b\""),
            ("anonymous may browse", ", found the end of the rule"),
            ("anonymous may browse 'b' now", "unexpected \"now\" after"),
        ] {
            let error = Expectation::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
