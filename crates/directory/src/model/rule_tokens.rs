//! Tokens of access rules, expectations and value rules.

/// A token after the name of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'t> {
    Word(&'t str),
    Quoted(&'t str),
    Comma,
}

/// Maximum length of a rule's name, in octets.
const NAME_MAX: usize = 100;

/// Splits the text of a rule into its name and the rest. Errors quote `example`, which is a correct rule.
///
/// # Errors
/// The text has no valid name.
pub(crate) fn named<'t>(text: &'t str, example: &str) -> Result<(&'t str, &'t str), String> {
    let Some((name, rest)) = text.split_once(':') else {
        return Err(format!("a rule begins with its name and a colon, such as {example:?}"));
    };
    let name = name.trim();
    if name.is_empty() || name.len() > NAME_MAX || name.contains(['"', '\'', '\n']) {
        return Err(format!("a rule has a name of 1 to {NAME_MAX} octets without quotes before its colon"));
    }
    Ok((name, rest))
}

pub(crate) fn tokens(text: &str) -> Result<Vec<Token<'_>>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let token_len = match first {
            ',' => {
                tokens.push(Token::Comma);
                1
            }
            '"' | '\'' => {
                let inner = rest.get(1..).unwrap_or_default();
                let Some(len) = inner.find(first) else {
                    return Err(format!("the quote in {rest:?} is not closed"));
                };
                tokens.push(Token::Quoted(inner.get(..len).unwrap_or_default()));
                len + 2
            }
            _ => {
                let len = rest.find([',', '"', '\'', ' ', '\t', '\n']).unwrap_or(rest.len());
                tokens.push(Token::Word(rest.get(..len).unwrap_or_default()));
                len
            }
        };
        rest = rest.get(token_len..).unwrap_or_default().trim_start();
    }
    Ok(tokens)
}

/// Parser that consumes tokens from left to right.
pub(crate) struct Parser<'p, 't> {
    pub(crate) tokens: &'p [Token<'t>],
}

impl<'t> Parser<'_, 't> {
    pub(crate) fn next_text(&self) -> String {
        match self.tokens.first() {
            None => "the end of the rule".to_owned(),
            Some(Token::Comma) => "a comma".to_owned(),
            Some(Token::Word(text) | Token::Quoted(text)) => format!("{text:?}"),
        }
    }

    fn advance(&mut self) {
        self.tokens = self.tokens.get(1..).unwrap_or_default();
    }

    pub(crate) fn takes(&mut self, word: &str) -> bool {
        let takes = self.tokens.first() == Some(&Token::Word(word));
        if takes {
            self.advance();
        }
        takes
    }

    pub(crate) fn is_word(&self) -> bool {
        matches!(self.tokens.first(), Some(Token::Word(_)))
    }

    /// Consumes this word.
    ///
    /// # Errors
    /// The next token is not this word.
    pub(crate) fn expect(&mut self, word: &str) -> Result<(), String> {
        match self.takes(word) {
            true => Ok(()),
            false => Err(format!("expected {word:?}, found {}", self.next_text())),
        }
    }

    pub(crate) fn takes_comma(&mut self) -> bool {
        let takes = self.tokens.first() == Some(&Token::Comma);
        if takes {
            self.advance();
        }
        takes
    }

    pub(crate) fn word(&mut self, what: &str) -> Result<&'t str, String> {
        match self.tokens.first() {
            Some(Token::Word(word)) => {
                self.advance();
                Ok(word)
            }
            _ => Err(format!("expected {what}, found {}", self.next_text())),
        }
    }

    pub(crate) fn quoted(&mut self, what: &str) -> Result<String, String> {
        match self.tokens.first() {
            Some(Token::Quoted(text)) => {
                self.advance();
                Ok((*text).to_owned())
            }
            _ => Err(format!("expected {what} in quotes, found {}", self.next_text())),
        }
    }

    pub(crate) fn list(&mut self, what: &str) -> Result<Vec<&'t str>, String> {
        let mut all = vec![self.word(what)?];
        while self.takes_comma() {
            all.push(self.word(what)?);
        }
        Ok(all)
    }

    /// Parses the conditions on the entries that a rule covers: `[in 'DN'] [matching 'FILTER']`. The rule ends after
    /// these conditions.
    pub(crate) fn covered_entries(&mut self) -> Result<CoveredEntriesText, String> {
        let mut covered = CoveredEntriesText::default();
        if self.takes("in") {
            covered.base = Some(self.quoted("a DN")?);
        }
        if self.takes("matching") {
            covered.filter = Some(self.quoted("a filter")?);
        }
        match self.tokens {
            [] => Ok(covered),
            _ => Err(format!("unexpected {} in the rule", self.next_text())),
        }
    }
}

/// Conditions on the entries that a rule covers, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CoveredEntriesText {
    /// DN of the top entry of the covered subtree; `None` for the whole directory.
    pub(crate) base: Option<String>,
    /// Filter that the entries must match.
    pub(crate) filter: Option<String>,
}
