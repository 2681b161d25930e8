//! Names in messages for people.

use std::fmt::{Display, Formatter, Result, Write};

/// A text in quotes, as it was given: a DN keeps its backslashes single, so that it can be copied from a message. Only
/// control characters are escaped, which would garble logs.
pub(crate) struct Quoted<T>(pub(crate) T);

impl<T: AsRef<str>> Display for Quoted<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_char('"')?;
        for character in self.0.as_ref().chars() {
            match character.is_control() {
                true => write!(f, "{}", character.escape_default())?,
                false => f.write_char(character)?,
            }
        }
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_as_they_are() {
        for (text, expected) in [
            (r"cn=a\,b,dc=example", r#""cn=a\,b,dc=example""#),
            (r#"cn=\"x\""#, r#""cn=\"x\"""#),
            ("cn=é\n\u{7}", r#""cn=é\n\u{7}""#),
            ("", r#""""#),
        ] {
            assert_eq!(Quoted(text).to_string(), expected);
        }
    }
}
