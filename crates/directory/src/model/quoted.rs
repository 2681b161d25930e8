//! Names in messages for administrators and users. Each name is shortened to [`ldap::EXCERPT_MAX`] characters.

use std::fmt::{Display, Formatter, Result, Write};

use ldap::Excerpt;

/// A text that is displayed in quotes. Backslashes are not doubled, so that a DN can be copied from the message. Only
/// control characters are escaped, because they would garble logs.
pub(crate) struct Quoted<T>(pub(crate) T);

impl<T: AsRef<str>> Display for Quoted<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let excerpt = Excerpt(&self.0);
        let (shown, is_cut) = excerpt.prefix();
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
    fn quotes_names_unchanged() {
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
