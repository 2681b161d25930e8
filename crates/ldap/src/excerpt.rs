//! Excerpts of a peer's texts in diagnostic messages. Without them, a request of a megabyte could produce a message of
//! a megabyte.

use std::fmt::{Debug, Display, Formatter, Result, Write};

/// Maximum number of characters of an excerpt in a diagnostic text.
pub const EXCERPT_MAX: usize = 200;

/// A text that displays at most [`EXCERPT_MAX`] characters, with an ellipsis if it is longer. `{}` displays the excerpt
/// unchanged. `{:?}` displays it in quotes, with escapes.
pub struct Excerpt<T>(pub T);

impl<T: AsRef<str>> Excerpt<T> {
    /// Returns the part that is displayed, and whether the text is longer.
    pub fn prefix(&self) -> (&str, bool) {
        let text = self.0.as_ref();
        match text.char_indices().nth(EXCERPT_MAX) {
            Some((end, _)) => (text.get(..end).unwrap_or_default(), true),
            None => (text, false),
        }
    }
}

impl<T: AsRef<str>> Display for Excerpt<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let (prefix, is_cut) = self.prefix();
        f.write_str(prefix)?;
        if is_cut { f.write_char('\u{2026}') } else { Ok(()) }
    }
}

impl<T: AsRef<str>> Debug for Excerpt<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let (prefix, is_cut) = self.prefix();
        Debug::fmt(prefix, f)?;
        if is_cut { f.write_char('\u{2026}') } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        for (text, expected) in [("", ""), ("cn", "cn"), (&"é".repeat(200), &*"é".repeat(200))] {
            assert_eq!(Excerpt(text).to_string(), expected);
        }
        assert_eq!(Excerpt("é".repeat(201)).to_string(), format!("{}…", "é".repeat(200)));
        assert_eq!(format!("{:?}", Excerpt("a\n".repeat(200))), format!("\"{}\"…", "a\\n".repeat(100)));
    }
}
