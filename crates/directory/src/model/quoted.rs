//! Names in messages for people, no longer than [`ldap::EXCERPT_MAX`] characters each.

use std::fmt::{Display, Formatter, Result, Write};

use ldap::Excerpt;

/// A text in quotes, as it was given: a DN keeps its backslashes single, so that it can be copied from a message. Only
/// control characters are escaped, which would garble logs.
pub(crate) struct Quoted<T>(pub(crate) T);

impl<T: AsRef<str>> Display for Quoted<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let excerpt = Excerpt(&self.0);
        let (shown, is_cut) = excerpt.shown();
        f.write_char('"')?;
        for character in shown.chars() {
            match character.is_control() {
                true => write!(f, "{}", character.escape_default())?,
                false => f.write_char(character)?,
            }
        }
        f.write_char('"')?;
        if is_cut { f.write_char('\u{2026}') } else { Ok(()) }
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
