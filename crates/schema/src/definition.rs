//! The grammar of definitions (RFC 4512 section 4.1): parsing and writing.
//!
//! All eight kinds have the same form: an identifier, terms in any order, extensions. A table lists the terms of each
//! kind and the syntax after each keyword. Names are not resolved here.
//!
//! The parser accepts more than the ABNF, because files in use contain more: terms in any order and any case, names
//! without quotes, quoted OIDs after `SUP`, `SYNTAX` and the rules (389 DS), empty descriptions, OID macros (OpenLDAP),
//! identifiers such as `myAttribute-oid` instead of numbers (389 DS), extensions without a value.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::SchemaErrorKind;
use crate::oid::{is_descriptor, is_numeric_oid};

/// Syntax of the text that follows the keyword of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Nothing.
    Flag,
    /// One quoted string.
    Text,
    /// One name or a list of names in parentheses.
    Names,
    /// One OID or name.
    Oid,
    /// One OID, or a list in parentheses separated by `$`.
    Oids,
    /// One OID with an optional length in braces.
    Syntax,
    /// One number, or a list in parentheses.
    Numbers,
    /// One bare word.
    Word,
}

/// Kind of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    AttributeType,
    ObjectClass,
    Syntax,
    MatchingRule,
    MatchingRuleUse,
    ContentRule,
    StructureRule,
    NameForm,
}

const NAME: (&str, Shape) = ("NAME", Shape::Names);
const DESC: (&str, Shape) = ("DESC", Shape::Text);
const OBSOLETE: (&str, Shape) = ("OBSOLETE", Shape::Flag);
const MUST: (&str, Shape) = ("MUST", Shape::Oids);
const MAY: (&str, Shape) = ("MAY", Shape::Oids);

const ATTRIBUTE_TYPE: &[(&str, Shape)] = &[
    NAME,
    DESC,
    OBSOLETE,
    ("SUP", Shape::Oid),
    ("EQUALITY", Shape::Oid),
    ("ORDERING", Shape::Oid),
    ("SUBSTR", Shape::Oid),
    ("SYNTAX", Shape::Syntax),
    ("SINGLE-VALUE", Shape::Flag),
    ("COLLECTIVE", Shape::Flag),
    ("NO-USER-MODIFICATION", Shape::Flag),
    ("USAGE", Shape::Word),
];
const OBJECT_CLASS: &[(&str, Shape)] = &[
    NAME,
    DESC,
    OBSOLETE,
    ("SUP", Shape::Oids),
    ("ABSTRACT", Shape::Flag),
    ("STRUCTURAL", Shape::Flag),
    ("AUXILIARY", Shape::Flag),
    MUST,
    MAY,
];
/// Terms of a syntax definition. RFC 2307 and some files give syntaxes names, which the grammar of RFC 4512 does not
/// allow. The parser therefore accepts a name, and the writer omits the name.
const SYNTAX: &[(&str, Shape)] = &[DESC, NAME];
const MATCHING_RULE: &[(&str, Shape)] = &[NAME, DESC, OBSOLETE, ("SYNTAX", Shape::Syntax)];
const MATCHING_RULE_USE: &[(&str, Shape)] = &[NAME, DESC, OBSOLETE, ("APPLIES", Shape::Oids)];
const CONTENT_RULE: &[(&str, Shape)] =
    &[NAME, DESC, OBSOLETE, ("AUX", Shape::Oids), MUST, MAY, ("NOT", Shape::Oids)];
const STRUCTURE_RULE: &[(&str, Shape)] =
    &[NAME, DESC, OBSOLETE, ("FORM", Shape::Oid), ("SUP", Shape::Numbers)];
const NAME_FORM: &[(&str, Shape)] = &[NAME, DESC, OBSOLETE, ("OC", Shape::Oid), MUST, MAY];

impl Kind {
    fn terms(self) -> &'static [(&'static str, Shape)] {
        match self {
            Kind::AttributeType => ATTRIBUTE_TYPE,
            Kind::ObjectClass => OBJECT_CLASS,
            Kind::Syntax => SYNTAX,
            Kind::MatchingRule => MATCHING_RULE,
            Kind::MatchingRuleUse => MATCHING_RULE_USE,
            Kind::ContentRule => CONTENT_RULE,
            Kind::StructureRule => STRUCTURE_RULE,
            Kind::NameForm => NAME_FORM,
        }
    }

    /// Returns the name of the kind, with its article, for messages.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Kind::AttributeType => "an attribute type",
            Kind::ObjectClass => "an object class",
            Kind::Syntax => "a syntax",
            Kind::MatchingRule => "a matching rule",
            Kind::MatchingRuleUse => "a matching rule use",
            Kind::ContentRule => "a DIT content rule",
            Kind::StructureRule => "a DIT structure rule",
            Kind::NameForm => "a name form",
        }
    }
}

/// Attribute types that another server defines under the OID of a shipped type. Each row has that OID, the other
/// server's name of the type, and the OID that Pando gives to the other server's type.
const RENUMBERED: [(&str, &str, &str); 1] =
    // The OID of mailLocalAddress (draft-lachman-laser-ldap-mail-routing).
    [("2.16.840.1.113730.3.1.13", "mailAlternateAddress", "1.3.6.1.4.1.99999.2.205")];

/// Extension of attribute types whose values are links to entries.
pub(crate) const X_LINK: &str = "X-LINK";

/// Canonical names, by alternative names in lower case.
pub(crate) type Aliases = HashMap<String, String>;

/// OID macros by name.
pub(crate) type Macros = HashMap<String, String>;

/// A parsed definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Definition {
    pub(crate) kind: Kind,
    /// Numeric OID (rarely a name instead), or the number of a structure rule.
    pub(crate) oid: String,
    /// Keywords as in the table, with their values.
    terms: Vec<(&'static str, Vec<String>)>,
    /// Extensions: each `X-` keyword with its strings.
    pub(crate) extensions: Vec<(String, Vec<String>)>,
}

/// A mistake and its place in the definition's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mistake {
    pub(crate) offset: usize,
    pub(crate) kind: SchemaErrorKind,
}

impl Definition {
    /// Parses the text of one definition, parentheses included.
    pub(crate) fn parse(kind: Kind, text: &str, macros: &Macros) -> Result<Definition, Mistake> {
        Parser { text, offset: 0, macros }.definition(kind).map(Definition::renumbered)
    }

    /// Replaces the OID if the definition is one of [`RENUMBERED`].
    fn renumbered(mut self) -> Definition {
        let names = self.many("NAME");
        let is_this = |oid: &str, name: &str| {
            self.oid == oid && names.len() == 1 && names.iter().all(|other| other.eq_ignore_ascii_case(name))
        };
        let found = RENUMBERED.iter().find(|(oid, name, _)| is_this(oid, name));
        if let Some((.., own)) = found.filter(|_| self.kind == Kind::AttributeType) {
            (*own).clone_into(&mut self.oid);
        }
        self
    }

    /// Returns the original OID if this definition was renumbered, because another server gives it the OID of a shipped
    /// type.
    pub(crate) fn replaced_oid(&self) -> Option<&'static str> {
        RENUMBERED.iter().find(|(.., own)| self.oid == *own).map(|(oid, ..)| *oid)
    }

    /// Returns true if the flag is present.
    pub(crate) fn flag(&self, keyword: &str) -> bool {
        self.terms.iter().any(|(term, _)| *term == keyword)
    }

    /// Returns the values after the keyword; empty if it is missing.
    pub(crate) fn many(&self, keyword: &str) -> &[String] {
        self.terms.iter().find(|(term, _)| *term == keyword).map_or(&[], |(_, values)| values)
    }

    /// Returns the single word after the keyword.
    pub(crate) fn one(&self, keyword: &str) -> Option<&str> {
        self.many(keyword).first().map(String::as_str)
    }

    /// Returns the strings of an extension.
    pub(crate) fn extension(&self, keyword: &str) -> Option<&[String]> {
        self.extensions.iter().find(|(name, _)| name == keyword).map(|(_, values)| values.as_slice())
    }

    /// Returns the canonical name for messages: the first name, or the OID.
    pub(crate) fn label(&self) -> &str {
        self.one("NAME").unwrap_or(&self.oid)
    }

    /// Returns true if `later` has the same meaning as this definition, so that loading another server's copy of a
    /// standard file is harmless. Descriptions, extensions, length bounds, case and the order of lists are ignored, and
    /// `later` may omit names and rules that this definition has.
    pub(crate) fn is_repeated_by(&self, later: &Definition) -> bool {
        let repeated = |term: &str| {
            let (own, other) = (comparable(self.many(term)), comparable(later.many(term)));
            match term {
                "DESC" => true,
                "NAME" => other.iter().all(|name| own.contains(name)),
                "EQUALITY" | "ORDERING" | "SUBSTR" => other.is_empty() || own == other,
                _ => self.flag(term) == later.flag(term) && own == other,
            }
        };
        self.kind == later.kind
            && self.oid == later.oid
            && self.kind.terms().iter().all(|(term, _)| repeated(term))
    }

    /// Replaces alternative names of superiors and attribute types by their canonical names.
    pub(crate) fn with_canonical_names(&self, superiors: &Aliases, types: &Aliases) -> Cow<'_, Definition> {
        if superiors.is_empty() && types.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut changed = self.clone();
        for (keyword, values) in &mut changed.terms {
            let aliases = match *keyword {
                "SUP" => superiors,
                "MUST" | "MAY" => types,
                _ => continue,
            };
            for value in values {
                if let Some(canonical) = aliases.get(&value.to_ascii_lowercase()) {
                    value.clone_from(canonical);
                }
            }
        }
        Cow::Owned(changed)
    }

    /// Returns the definition in the notation of RFC 4512, with the terms in the order of the RFC.
    pub(crate) fn render(&self) -> String {
        let mut out = format!("( {}", self.oid);
        for &(keyword, shape) in self.kind.terms() {
            if !self.flag(keyword) || self.kind == Kind::Syntax && keyword == "NAME" {
                continue;
            }
            out.push(' ');
            out.push_str(keyword);
            render_values(self.many(keyword), shape, &mut out);
        }
        for (keyword, values) in &self.extensions {
            out.push(' ');
            out.push_str(keyword);
            render_values(values, Shape::Names, &mut out);
        }
        out.push_str(" )");
        out
    }
}

fn comparable(values: &[String]) -> Vec<String> {
    let without_bound = |value: &String| match value.split_once('{') {
        Some((oid, _)) => oid.to_owned(),
        None => value.to_ascii_lowercase(),
    };
    let mut values: Vec<String> = values.iter().map(without_bound).collect();
    values.sort();
    values.dedup();
    values
}

fn render_values(values: &[String], shape: Shape, out: &mut String) {
    let quoted = matches!(shape, Shape::Text | Shape::Names);
    let separator = if shape == Shape::Oids { " $ " } else { " " };
    let word = |value: &String| if quoted { quote(value) } else { value.clone() };
    match values {
        [] => {}
        [value] => {
            out.push(' ');
            out.push_str(&word(value));
        }
        values => {
            let words: Vec<String> = values.iter().map(word).collect();
            out.push_str(&format!(" ( {} )", words.join(separator)));
        }
    }
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\5C").replace('\'', "\\27"))
}

/// A token of the notation.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token<'a> {
    Open,
    Close,
    Dollar,
    Quoted(String),
    Bare(&'a str),
    End,
}

struct Parser<'a> {
    text: &'a str,
    offset: usize,
    macros: &'a Macros,
}

type Parsed<T> = Result<T, Mistake>;

impl<'a> Parser<'a> {
    fn definition(mut self, kind: Kind) -> Parsed<Definition> {
        self.expect(Token::Open, "'('")?;
        let oid = self.identifier(kind)?;
        let mut definition = Definition { kind, oid, terms: Vec::new(), extensions: Vec::new() };
        loop {
            self.skip_space();
            let start = self.offset;
            match self.next()? {
                Token::Close => break,
                Token::Bare(word) if word.get(..2).is_some_and(|head| head.eq_ignore_ascii_case("X-")) => {
                    let strings = self.strings()?;
                    definition.extensions.push((word.to_owned(), strings));
                }
                Token::Bare(word) => self.term(word, start, &mut definition)?,
                token => return Err(self.unexpected(start, "a term or ')'", &token)),
            }
        }
        self.skip_space();
        let start = self.offset;
        match self.next()? {
            Token::End => self.check(definition),
            token => Err(self.unexpected(start, "nothing after the last ')'", &token)),
        }
    }

    fn term(&mut self, word: &str, start: usize, definition: &mut Definition) -> Parsed<()> {
        let known = definition.kind.terms().iter().find(|(term, _)| term.eq_ignore_ascii_case(word));
        let Some(&(keyword, shape)) = known else {
            let kind =
                SchemaErrorKind::UnknownTerm { term: word.to_owned(), definition: definition.kind.noun() };
            return Err(Mistake { offset: start, kind });
        };
        if definition.flag(keyword) {
            return Err(Mistake { offset: start, kind: SchemaErrorKind::RepeatedTerm(keyword) });
        }
        let values = match shape {
            Shape::Flag => Vec::new(),
            Shape::Text => vec![self.text_value()?],
            Shape::Names => self.names()?,
            Shape::Oid => vec![self.oid_word()?],
            Shape::Syntax => vec![self.syntax_word()?],
            Shape::Oids => self.oid_list()?,
            Shape::Numbers => self.numbers()?,
            Shape::Word => vec![self.word("a word")?],
        };
        // Other software writes `MUST ( )`, which has no meaning and is ignored.
        if shape == Shape::Flag || !values.is_empty() {
            definition.terms.push((keyword, values));
        }
        Ok(())
    }

    /// Checks a definition on its own, without the rest of the schema.
    fn check(&self, definition: Definition) -> Parsed<Definition> {
        let mistake = |kind| Err(Mistake { offset: 0, kind });
        let kinds: Vec<&'static str> = ["ABSTRACT", "STRUCTURAL", "AUXILIARY"]
            .into_iter()
            .filter(|term| definition.flag(term))
            .collect();
        if let [one, other, ..] = kinds[..] {
            return mistake(SchemaErrorKind::ContradictoryTerms(one, other));
        }
        let missing = match definition.kind {
            Kind::AttributeType if !definition.flag("SUP") && !definition.flag("SYNTAX") => "SUP or SYNTAX",
            Kind::MatchingRule if !definition.flag("SYNTAX") => "SYNTAX",
            Kind::MatchingRuleUse if !definition.flag("APPLIES") => "APPLIES",
            Kind::StructureRule if !definition.flag("FORM") => "FORM",
            Kind::NameForm if !definition.flag("OC") => "OC",
            Kind::NameForm if !definition.flag("MUST") => "MUST",
            _ => return Ok(definition),
        };
        mistake(SchemaErrorKind::MissingTerm(missing))
    }

    fn identifier(&mut self, kind: Kind) -> Parsed<String> {
        self.skip_space();
        let start = self.offset;
        let word = self.word("an OID")?;
        if kind == Kind::StructureRule {
            return match word.parse::<u32>() {
                Ok(_) => Ok(word),
                Err(_) => Err(Mistake { offset: start, kind: SchemaErrorKind::BadNumber(word) }),
            };
        }
        let oid = self.expand(&word, start, true)?;
        let named = is_descriptor(&oid) && oid.to_ascii_lowercase().ends_with("-oid");
        if is_numeric_oid(&oid) || named {
            return Ok(oid);
        }
        Err(Mistake { offset: start, kind: SchemaErrorKind::BadOid(oid) })
    }

    /// Expands `macro:suffix`. If `alone` is true, only an OID is allowed here, and `macro` without a suffix is
    /// expanded too.
    fn expand(&self, word: &str, start: usize, alone: bool) -> Parsed<String> {
        let find = |name: &str| self.macros.get(&name.to_ascii_lowercase());
        match word.split_once(':') {
            Some((name, suffix)) => match find(name) {
                Some(oid) => Ok(format!("{oid}.{suffix}")),
                None => Err(Mistake { offset: start, kind: SchemaErrorKind::UnknownMacro(name.to_owned()) }),
            },
            None if alone && !is_numeric_oid(word) => Ok(find(word).cloned().unwrap_or(word.to_owned())),
            None => Ok(word.to_owned()),
        }
    }

    fn oid_word(&mut self) -> Parsed<String> {
        self.skip_space();
        let start = self.offset;
        let word = self.word("an OID or a name")?;
        let word = self.expand(&word, start, false)?;
        if is_numeric_oid(&word) || is_descriptor(&word) {
            return Ok(word);
        }
        Err(Mistake { offset: start, kind: SchemaErrorKind::BadName(word) })
    }

    fn syntax_word(&mut self) -> Parsed<String> {
        self.skip_space();
        let start = self.offset;
        let word = self.word("the OID of a syntax")?;
        let (oid, bound) = match word.split_once('{') {
            Some((oid, bound)) => (oid, Some(bound)),
            None => (word.as_str(), None),
        };
        let oid = self.expand(oid, start, true)?;
        if !is_numeric_oid(&oid) {
            return Err(Mistake { offset: start, kind: SchemaErrorKind::BadOid(oid) });
        }
        match bound {
            None => Ok(oid),
            Some(bound) => match bound.strip_suffix('}').map(str::parse::<u32>) {
                Some(Ok(bound)) => Ok(format!("{oid}{{{bound}}}")),
                _ => Err(Mistake { offset: start, kind: SchemaErrorKind::BadNumber(format!("{{{bound}")) }),
            },
        }
    }

    fn oid_list(&mut self) -> Parsed<Vec<String>> {
        if !self.take(Token::Open) {
            return Ok(vec![self.oid_word()?]);
        }
        if self.take(Token::Close) {
            return Ok(Vec::new());
        }
        let mut oids = vec![self.oid_word()?];
        loop {
            self.skip_space();
            let start = self.offset;
            match self.next()? {
                Token::Dollar => oids.push(self.oid_word()?),
                Token::Close => return Ok(oids),
                token => return Err(self.unexpected(start, "'$' or ')'", &token)),
            }
        }
    }

    fn numbers(&mut self) -> Parsed<Vec<String>> {
        let words = if self.take(Token::Open) {
            self.until_close("a rule id")?
        } else {
            vec![self.word("a rule id")?]
        };
        match words.iter().find(|word| word.parse::<u32>().is_err()) {
            None => Ok(words),
            Some(word) => {
                Err(Mistake { offset: self.offset, kind: SchemaErrorKind::BadNumber(word.clone()) })
            }
        }
    }

    fn names(&mut self) -> Parsed<Vec<String>> {
        self.skip_space();
        let start = self.offset;
        let names =
            if self.take(Token::Open) { self.until_close("a name")? } else { vec![self.word("a name")?] };
        match names.iter().find(|name| !is_descriptor(name)) {
            None => Ok(names),
            Some(name) => Err(Mistake { offset: start, kind: SchemaErrorKind::BadName(name.clone()) }),
        }
    }

    /// Parses the strings of an extension; there may be none.
    fn strings(&mut self) -> Parsed<Vec<String>> {
        self.skip_space();
        match self.rest().chars().next() {
            Some('(') => {
                self.next()?;
                self.until_close("a quoted string")
            }
            Some('\'') => Ok(vec![self.text_value()?]),
            _ => Ok(Vec::new()),
        }
    }

    fn until_close(&mut self, what: &'static str) -> Parsed<Vec<String>> {
        let mut words = Vec::new();
        while !self.take(Token::Close) {
            words.push(self.word(what)?);
        }
        Ok(words)
    }

    fn text_value(&mut self) -> Parsed<String> {
        self.skip_space();
        let start = self.offset;
        match self.next()? {
            Token::Quoted(text) => Ok(text),
            token => Err(self.unexpected(start, "a string in quotes", &token)),
        }
    }

    /// Parses a word with or without quotes.
    fn word(&mut self, what: &'static str) -> Parsed<String> {
        self.skip_space();
        let start = self.offset;
        match self.next()? {
            Token::Quoted(text) => Ok(text),
            Token::Bare(word) => Ok(word.to_owned()),
            token => Err(self.unexpected(start, what, &token)),
        }
    }

    fn expect(&mut self, expected: Token<'_>, what: &'static str) -> Parsed<()> {
        self.skip_space();
        let start = self.offset;
        let token = self.next()?;
        if token == expected { Ok(()) } else { Err(self.unexpected(start, what, &token)) }
    }

    /// Consumes the next token if it is `expected`. Returns true if the token was consumed.
    fn take(&mut self, expected: Token<'_>) -> bool {
        self.skip_space();
        let start = self.offset;
        let found = self.next().is_ok_and(|token| token == expected);
        if !found {
            self.offset = start;
        }
        found
    }

    fn unexpected(&self, offset: usize, what: &'static str, token: &Token<'_>) -> Mistake {
        let found = match token {
            Token::Open => "'('".to_owned(),
            Token::Close => "')'".to_owned(),
            Token::Dollar => "'$'".to_owned(),
            Token::Quoted(text) => format!("'{text}'"),
            Token::Bare(word) => word.chars().take(64).collect(),
            Token::End => "the end of the definition".to_owned(),
        };
        Mistake { offset, kind: SchemaErrorKind::Unexpected { what, found } }
    }

    /// Returns the unread text. The offset is always at the start of a character, because it follows a token.
    fn rest(&self) -> &'a str {
        self.text.get(self.offset..).unwrap_or_default()
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.offset += rest.len() - rest.trim_ascii_start().len();
    }

    fn next(&mut self) -> Parsed<Token<'a>> {
        self.skip_space();
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(Token::End) };
        let (token, size) = match first {
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            '$' => (Token::Dollar, 1),
            '\'' => {
                let Some((quoted, _)) = rest.strip_prefix('\'').and_then(|rest| rest.split_once('\'')) else {
                    let kind = SchemaErrorKind::Unexpected {
                        what: "a closing quote",
                        found: "the end of the definition".to_owned(),
                    };
                    return Err(Mistake { offset: self.offset, kind });
                };
                (Token::Quoted(unquote(quoted)), quoted.len() + 2)
            }
            _ => {
                let ends = |character: char| character.is_ascii_whitespace() || "()$'".contains(character);
                let word = rest.split(ends).next().unwrap_or_default();
                (Token::Bare(word), word.len())
            }
        };
        self.offset += size;
        Ok(token)
    }
}

/// Decodes `\27` and `\5C`; other backslashes are kept, because 389 DS writes backslashes without escaping them.
fn unquote(text: &str) -> String {
    text.replace("\\27", "'").replace("\\5C", "\\").replace("\\5c", "\\")
}
