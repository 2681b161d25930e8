//! Text form of filters (RFC 4515): parsing and writing.
//!
//! The parser writes BER directly, so its result, [`FilterBuf`], can be put into a request. The limits on depth and
//! terms are the same as in decoding, so a filter that parses here also decodes. In addition to the RFC, the parser
//! accepts the empty `(&)` and `(|)` of RFC 4526, and spaces between parentheses.

use std::borrow::Cow;
use std::fmt;

use ber::{Reader, Tag, Writer};

use crate::dn_text::{hex_pair, push_hex_escape};
use crate::filter::tags;
use crate::{Assertion, FILTER_DEPTH_MAX, FILTER_TERMS_MAX, Filter, FilterKind, FilterList};

/// Owned form of [`Filter`]. `Display` writes the text form.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct FilterBuf {
    /// One valid encoded filter.
    bytes: Vec<u8>,
}

/// Error of parsing a filter, with its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// Number of octets before the error.
    pub offset: usize,
    /// Kind of error.
    pub kind: FilterErrorKind,
}

/// Kind of error in the text of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterErrorKind {
    /// No opening parenthesis at the start of a filter.
    MissingOpening,
    /// No closing parenthesis at the end of a filter.
    MissingClosing,
    /// Text after the filter.
    TrailingText,
    /// No attribute description at a position that requires one, or a description with an invalid character.
    BadDescription,
    /// None of `=`, `~=`, `>=`, `<=` and `:=` after the attribute description.
    BadOperator,
    /// A matching rule that is neither a name nor an OID, or an extensible match with neither rule nor attribute.
    BadMatchingRule,
    /// A backslash that is not followed by two hexadecimal digits.
    BadEscape,
    /// A character that must be escaped in a value.
    UnescapedSpecial(char),
    /// Deeper than [`FILTER_DEPTH_MAX`].
    TooDeep,
    /// More terms than [`FILTER_TERMS_MAX`].
    TooManyTerms,
}

impl FilterBuf {
    /// Parses the text form.
    ///
    /// # Errors
    /// The text is not a filter; the error has position and kind.
    pub fn parse(text: &str) -> Result<FilterBuf, FilterError> {
        let mut bytes = Vec::with_capacity(text.len() + 16);
        let mut parser =
            Parser { text, position: 0, terms_left: FILTER_TERMS_MAX, out: Writer::new(&mut bytes) };
        parser.skip_spaces();
        parser.filter(1)?;
        parser.skip_spaces();
        if parser.peek().is_some() {
            return parser.error(FilterErrorKind::TrailingText);
        }
        Ok(FilterBuf { bytes })
    }

    /// Returns the filter, to put into a request.
    pub fn as_filter(&self) -> Filter<'_> {
        Filter::read(&mut Reader::new(&self.bytes))
    }
}

impl From<Filter<'_>> for FilterBuf {
    fn from(filter: Filter<'_>) -> FilterBuf {
        let mut bytes = Vec::with_capacity(filter.encoded_len());
        filter.encode(&mut bytes);
        FilterBuf { bytes }
    }
}

struct Parser<'t, 'o> {
    text: &'t str,
    position: usize,
    terms_left: usize,
    out: Writer<'o>,
}

type Parsed<T> = Result<T, FilterError>;

impl<'t> Parser<'t, '_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    fn skip_spaces(&mut self) {
        while self.peek() == Some(b' ') {
            self.position += 1;
        }
    }

    fn slice(&self, start: usize, end: usize) -> &'t str {
        self.text.get(start..end).unwrap_or_default()
    }

    fn error<T>(&self, kind: FilterErrorKind) -> Parsed<T> {
        Err(FilterError { offset: self.position, kind })
    }

    fn expect(&mut self, octet: u8, otherwise: FilterErrorKind) -> Parsed<()> {
        if self.peek() != Some(octet) {
            return self.error(otherwise);
        }
        self.position += 1;
        Ok(())
    }

    fn take_term(&mut self) -> Parsed<()> {
        match self.terms_left.checked_sub(1) {
            Some(left) => {
                self.terms_left = left;
                Ok(())
            }
            None => self.error(FilterErrorKind::TooManyTerms),
        }
    }

    /// Parses `filter = LPAREN filtercomp RPAREN`. `depth` is its level, from 1.
    fn filter(&mut self, depth: usize) -> Parsed<()> {
        self.expect(b'(', FilterErrorKind::MissingOpening)?;
        self.skip_spaces();
        self.take_term()?;
        match self.peek() {
            Some(b'&') => self.operator(tags::AND, depth)?,
            Some(b'|') => self.operator(tags::OR, depth)?,
            Some(b'!') => self.operator(tags::NOT, depth)?,
            _ => self.item()?,
        }
        self.expect(b')', FilterErrorKind::MissingClosing)
    }

    /// Parses `&`, `|` or `!` and its operands. `!` takes one operand; `&` and `|` take any number of operands.
    fn operator(&mut self, tag: Tag, depth: usize) -> Parsed<()> {
        self.position += 1;
        self.skip_spaces();
        let mark = self.out.begin(tag);
        while tag == tags::NOT || self.peek() == Some(b'(') {
            if depth >= FILTER_DEPTH_MAX {
                return self.error(FilterErrorKind::TooDeep);
            }
            self.filter(depth + 1)?;
            self.skip_spaces();
            if tag == tags::NOT {
                break;
            }
        }
        self.out.end(mark);
        Ok(())
    }

    fn item(&mut self) -> Parsed<()> {
        let start = self.position;
        while self.peek().is_some_and(is_description_octet) {
            self.position += 1;
        }
        let description = self.slice(start, self.position);
        let after = self.text.as_bytes().get(self.position..).unwrap_or_default();
        if description.is_empty() && after.first() != Some(&b':') {
            return self.error(FilterErrorKind::BadDescription);
        }
        match after {
            [b'=', ..] => self.equality(description),
            [b'~', b'=', ..] => self.ordering(tags::APPROX_MATCH, description),
            [b'>', b'=', ..] => self.ordering(tags::GREATER_OR_EQUAL, description),
            [b'<', b'=', ..] => self.ordering(tags::LESS_OR_EQUAL, description),
            [b':', ..] => self.extensible_match(description),
            [b'~' | b'>' | b'<' | b')', ..] | [] => self.error(FilterErrorKind::BadOperator),
            _ => self.error(FilterErrorKind::BadDescription),
        }
    }

    /// Parses the text after `attr=`: a value, `*`, or substrings with `*` between them.
    fn equality(&mut self, description: &str) -> Parsed<()> {
        self.position += 1;
        let raw = self.raw_value();
        if raw == "*" {
            self.out.element(tags::PRESENT, description.as_bytes());
            self.position += 1;
            return Ok(());
        }
        if raw.contains('*') {
            return self.substrings(description, raw);
        }
        self.assertion(tags::EQUALITY_MATCH, description)
    }

    /// Parses the text after the attribute description of `attr~=value`, `attr>=value` or `attr<=value`.
    fn ordering(&mut self, tag: Tag, description: &str) -> Parsed<()> {
        self.position += 2;
        self.assertion(tag, description)
    }

    fn assertion(&mut self, tag: Tag, description: &str) -> Parsed<()> {
        let value = self.value(self.raw_value())?;
        let mark = self.out.begin(tag);
        self.out.octet_string(description.as_bytes());
        self.out.octet_string(&value);
        self.out.end(mark);
        Ok(())
    }

    /// Encodes the substrings between asterisks. The first and the last substring may be missing. Empty inner
    /// substrings are valid and are encoded.
    fn substrings(&mut self, description: &str, raw: &'t str) -> Parsed<()> {
        let item = self.out.begin(tags::SUBSTRINGS);
        self.out.octet_string(description.as_bytes());
        let pieces = self.out.begin(Tag::SEQUENCE);
        let last_index = raw.matches('*').count();
        for (index, piece) in raw.split('*').enumerate() {
            let tag = match index {
                0 => tags::INITIAL,
                _ if index == last_index => tags::FINAL,
                _ => tags::ANY,
            };
            let value = self.value(piece)?;
            if index < last_index {
                self.position += 1;
            }
            if tag == tags::ANY || !value.is_empty() {
                self.take_term()?;
                self.out.element(tag, &value);
            }
        }
        self.out.end(pieces);
        self.out.end(item);
        Ok(())
    }

    /// Parses the text after the attribute of `attr[:dn][:rule]:=value`.
    fn extensible_match(&mut self, description: &str) -> Parsed<()> {
        let mut rule = None;
        let mut dn_attributes = false;
        loop {
            // The position is at a colon.
            self.position += 1;
            let start = self.position;
            if self.peek() == Some(b'=') {
                break;
            }
            while self.peek().is_some_and(is_description_octet) {
                self.position += 1;
            }
            let word = self.slice(start, self.position);
            if self.peek() != Some(b':') {
                return self.error(FilterErrorKind::BadOperator);
            }
            if word.eq_ignore_ascii_case("dn") && !dn_attributes && rule.is_none() {
                dn_attributes = true;
            } else if rule.is_none() && !word.is_empty() {
                rule = Some(word);
            } else {
                self.position = start;
                return self.error(FilterErrorKind::BadMatchingRule);
            }
        }
        if rule.is_none() && description.is_empty() {
            return self.error(FilterErrorKind::BadMatchingRule);
        }
        self.position += 1;
        let value = self.value(self.raw_value())?;
        let mark = self.out.begin(tags::EXTENSIBLE_MATCH);
        if let Some(rule) = rule {
            self.out.element(tags::MATCHING_RULE, rule.as_bytes());
        }
        if !description.is_empty() {
            self.out.element(tags::TYPE, description.as_bytes());
        }
        self.out.element(tags::MATCH_VALUE, &value);
        // FALSE is the default, and a default must not be encoded (RFC 4511 section 5.1).
        if dn_attributes {
            self.out.element(tags::DN_ATTRIBUTES, &[0xff]);
        }
        self.out.end(mark);
        Ok(())
    }

    /// Returns the text up to the next closing parenthesis. Normally this text is an escaped value.
    fn raw_value(&self) -> &'t str {
        let rest = self.slice(self.position, self.text.len());
        rest.split(')').next().unwrap_or_default()
    }

    /// Decodes the escapes of `raw`, and advances past `raw`. `raw` must start at the current position.
    fn value(&mut self, raw: &'t str) -> Parsed<Cow<'t, [u8]>> {
        let is_special = |octet: &u8| matches!(octet, b'\\' | b'(' | b'*' | 0);
        if !raw.as_bytes().iter().any(is_special) {
            self.position += raw.len();
            return Ok(Cow::Borrowed(raw.as_bytes()));
        }
        let end = self.position + raw.len();
        let mut value = Vec::with_capacity(raw.len());
        while self.position < end {
            let rest = self.slice(self.position, end).as_bytes();
            match rest {
                [b'\\', digits @ ..] => match hex_pair(digits) {
                    Some(octet) => value.push(octet),
                    None => return self.error(FilterErrorKind::BadEscape),
                },
                [special @ (b'(' | b'*' | 0), ..] => {
                    return self.error(FilterErrorKind::UnescapedSpecial(char::from(*special)));
                }
                _ => {
                    let plain_len = rest.iter().take_while(|octet| !is_special(octet)).count();
                    value.extend(rest.iter().take(plain_len));
                    self.position += plain_len;
                    continue;
                }
            }
            self.position += "\\00".len();
        }
        Ok(Cow::Owned(value))
    }
}

/// Returns true if an attribute description or matching rule can contain this octet (RFC 4512 section 2.5). Underscores
/// are accepted, because names in the schemas of other servers contain them.
fn is_description_octet(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'.' | b';' | b'_')
}

impl fmt::Display for Filter<'_> {
    /// Writes the text form. The depth of recursion is limited by decoding. A choice that has no text form is written
    /// as `(?=undefined)`, which the parser does not accept.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        match self.kind() {
            FilterKind::And(members) => fmt_members(f, "&", members)?,
            FilterKind::Or(members) => fmt_members(f, "|", members)?,
            FilterKind::Not(member) => write!(f, "!{member}")?,
            FilterKind::EqualityMatch(assertion) => fmt_assertion(f, assertion, "=")?,
            FilterKind::GreaterOrEqual(assertion) => fmt_assertion(f, assertion, ">=")?,
            FilterKind::LessOrEqual(assertion) => fmt_assertion(f, assertion, "<=")?,
            FilterKind::ApproxMatch(assertion) => fmt_assertion(f, assertion, "~=")?,
            FilterKind::Present(description) => write!(f, "{}=*", Escaped(description.as_bytes()))?,
            FilterKind::Substrings(item) => {
                write!(f, "{}=", Escaped(item.description.as_bytes()))?;
                write!(f, "{}*", Escaped(item.initial.unwrap_or_default()))?;
                for piece in item.any.iter() {
                    write!(f, "{}*", Escaped(piece))?;
                }
                write!(f, "{}", Escaped(item.final_.unwrap_or_default()))?;
            }
            FilterKind::ExtensibleMatch(item) => {
                write!(f, "{}", Escaped(item.description.unwrap_or_default().as_bytes()))?;
                if item.dn_attributes {
                    f.write_str(":dn")?;
                }
                if let Some(rule) = item.rule {
                    write!(f, ":{}", Escaped(rule.as_bytes()))?;
                }
                write!(f, ":={}", Escaped(item.value))?;
            }
            FilterKind::Unrecognized(_) => f.write_str("?=undefined")?,
        }
        f.write_str(")")
    }
}

fn fmt_members(f: &mut fmt::Formatter<'_>, operator: &str, members: FilterList<'_>) -> fmt::Result {
    f.write_str(operator)?;
    members.iter().try_for_each(|member| write!(f, "{member}"))
}

fn fmt_assertion(f: &mut fmt::Formatter<'_>, assertion: Assertion<'_>, operator: &str) -> fmt::Result {
    write!(f, "{}{operator}{}", Escaped(assertion.description.as_bytes()), Escaped(assertion.value))
}

/// Displays octets with the required escapes. Control characters and octets that are not UTF-8 are also escaped, so
/// that the result can be logged. Received descriptions are displayed with this type too, because they can contain any
/// octets.
struct Escaped<'a>(&'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needs_escape =
            |character: char| matches!(character, '*' | '(' | ')' | '\\') || character.is_ascii_control();
        let mut escape = String::new();
        for chunk in self.0.utf8_chunks() {
            for part in chunk.valid().split_inclusive(needs_escape) {
                let special = part.chars().next_back().filter(|last| needs_escape(*last));
                let plain_len = part.len() - special.map_or(0, char::len_utf8);
                f.write_str(part.get(..plain_len).unwrap_or_default())?;
                if let Some(special) = special {
                    escape.clear();
                    push_hex_escape(special as u8, &mut escape);
                    f.write_str(&escape)?;
                }
            }
            for octet in chunk.invalid() {
                escape.clear();
                push_hex_escape(*octet, &mut escape);
                f.write_str(&escape)?;
            }
        }
        Ok(())
    }
}

/// Returns a value escaped for the text of a filter (RFC 4515 section 3).
pub fn filter_value(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for character in value.chars() {
        match character {
            '*' => text.push_str("\\2a"),
            '(' => text.push_str("\\28"),
            ')' => text.push_str("\\29"),
            '\\' => text.push_str("\\5c"),
            '\0' => text.push_str("\\00"),
            other => text.push(other),
        }
    }
    text
}

impl fmt::Display for FilterBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_filter())
    }
}

impl fmt::Debug for FilterBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at octet {}", self.kind, self.offset)
    }
}

impl fmt::Display for FilterErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilterErrorKind::MissingOpening => f.write_str("'(' expected"),
            FilterErrorKind::MissingClosing => f.write_str("')' expected"),
            FilterErrorKind::TrailingText => f.write_str("text after the filter"),
            FilterErrorKind::BadDescription => f.write_str("attribute description expected"),
            FilterErrorKind::BadOperator => f.write_str("'=', '~=', '>=', '<=' or ':=' expected"),
            FilterErrorKind::BadMatchingRule => f.write_str("matching rule expected"),
            FilterErrorKind::BadEscape => f.write_str("'\\' must be followed by two hex digits"),
            FilterErrorKind::UnescapedSpecial(special) => write!(f, "{special:?} must be escaped"),
            FilterErrorKind::TooDeep => write!(f, "nested deeper than {FILTER_DEPTH_MAX}"),
            FilterErrorKind::TooManyTerms => write!(f, "more than {FILTER_TERMS_MAX} terms"),
        }
    }
}

impl std::error::Error for FilterError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DecodeLimits;

    /// Parses the text, decodes the resulting BER, and returns the text form of the decoded filter.
    fn round_trip(text: &str) -> String {
        let filter = FilterBuf::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let decoded = Filter::from_bytes(&filter.bytes, &DecodeLimits::default());
        assert_eq!(decoded, Ok(filter.as_filter()), "{text}");
        assert_eq!(FilterBuf::from(filter.as_filter()), filter);
        filter.to_string()
    }

    #[test]
    fn canonical_texts_round_trip() {
        let texts = [
            "(cn=Babs Jensen)",
            "(!(cn=Tim Howes))",
            "(&(objectClass=Person)(|(sn=Jensen)(cn=Babs J*)))",
            "(o=univ*of*mich*)",
            "(o=*a)",
            "(o=*a*)",
            "(o=a*b)",
            "(o=**)",
            "(o=a**b)",
            "(seeAlso=)",
            "(cn:caseExactMatch:=Fred Flintstone)",
            "(cn:=Betty Rubble)",
            "(sn:dn:2.4.6.8.10:=Barney Rubble)",
            "(o:dn:=Ace Industry)",
            "(:1.2.3:=Wilma Flintstone)",
            "(:dn:2.4.6.8.10:=Dino)",
            r"(o=Parens R Us \28for all your parenthetical needs\29)",
            r"(cn=*\2A*)",
            r"(filename=C:\5CMyFile)",
            r"(bin=\00\00\00\04)",
            r"(1.3.6.1.4.1.1466.0=\04\02Hi)",
            r"(bin=\FF\C4)",
            "(cn;lang-de;binary>=a=b)",
            "(a<=b)",
            "(a~=b)",
            "(cn=*)",
            "(cn= a )",
            "(&)",
            "(|)",
            "(!(&))",
        ];
        texts.iter().for_each(|text| assert_eq!(round_trip(text), **text));
    }

    #[test]
    fn normalizes_other_spellings() {
        let check = |text: &str, expected: &str| assert_eq!(round_trip(text), expected);
        check(r"(sn=Lu\c4\8di\c4\87)", "(sn=Lučić)");
        check("(:DN:2.4.6.8.10:=Dino)", "(:dn:2.4.6.8.10:=Dino)");
        check(" ( & ( a=b ) ( ! (c=d) ) ) ", "(&(a=b )(!(c=d)))");
        check(r"(cn=\61*\62)", "(cn=a*b)");
    }

    #[test]
    fn errors_have_positions() {
        let check = |text: &str, offset: usize, kind: FilterErrorKind| {
            assert_eq!(FilterBuf::parse(text), Err(FilterError { offset, kind }), "{text}");
        };
        check("", 0, FilterErrorKind::MissingOpening);
        check("cn=a", 0, FilterErrorKind::MissingOpening);
        check("()", 1, FilterErrorKind::BadDescription);
        check("(=a)", 1, FilterErrorKind::BadDescription);
        check("(c n=a)", 2, FilterErrorKind::BadDescription);
        check("(cn)", 3, FilterErrorKind::BadOperator);
        check("(cn", 3, FilterErrorKind::BadOperator);
        check("(cn~a)", 3, FilterErrorKind::BadOperator);
        check("(cn=a", 5, FilterErrorKind::MissingClosing);
        check("(cn=a))", 6, FilterErrorKind::TrailingText);
        check("(cn=a)(cn=b)", 6, FilterErrorKind::TrailingText);
        check("(!)", 2, FilterErrorKind::MissingOpening);
        check("(!(a=b)(c=d))", 7, FilterErrorKind::MissingClosing);
        check("(&(a=b)", 7, FilterErrorKind::MissingClosing);
        check("(&a=b)", 2, FilterErrorKind::MissingClosing);
        check(r"(cn=a\4)", 5, FilterErrorKind::BadEscape);
        check(r"(cn=a*\zz)", 6, FilterErrorKind::BadEscape);
        check("(cn=a(b)", 5, FilterErrorKind::UnescapedSpecial('('));
        check("(cn>=a*b)", 6, FilterErrorKind::UnescapedSpecial('*'));
        check("(cn=a\0)", 5, FilterErrorKind::UnescapedSpecial('\0'));
        check("(cn:a=b)", 5, FilterErrorKind::BadOperator);
        check("(:=b)", 2, FilterErrorKind::BadMatchingRule);
        check("(:dn:=b)", 5, FilterErrorKind::BadMatchingRule);
        check("(cn:a:b:=c)", 6, FilterErrorKind::BadMatchingRule);
    }

    #[test]
    fn the_limits_of_decoding_apply() {
        let nested = |depth: usize| format!("{}(a=b){}", "(!".repeat(depth - 1), ")".repeat(depth - 1));
        assert_eq!(round_trip(&nested(FILTER_DEPTH_MAX)), nested(FILTER_DEPTH_MAX));
        let error = FilterBuf::parse(&nested(FILTER_DEPTH_MAX + 1)).unwrap_err();
        assert_eq!(error.kind, FilterErrorKind::TooDeep);

        let wide = |terms: usize| format!("(|{})", "(a=b)".repeat(terms - 1));
        assert_eq!(round_trip(&wide(FILTER_TERMS_MAX)), wide(FILTER_TERMS_MAX));
        let error = FilterBuf::parse(&wide(FILTER_TERMS_MAX + 1)).unwrap_err();
        assert_eq!(error.kind, FilterErrorKind::TooManyTerms);

        let pieces = |terms: usize| format!("(a={})", "x*".repeat(terms - 1));
        assert_eq!(round_trip(&pieces(FILTER_TERMS_MAX)), pieces(FILTER_TERMS_MAX));
        let error = FilterBuf::parse(&pieces(FILTER_TERMS_MAX + 1)).unwrap_err();
        assert_eq!(error.kind, FilterErrorKind::TooManyTerms);
    }

    #[test]
    fn values_cannot_change_a_filter() {
        assert_eq!(filter_value(r"a*(b)\"), r"a\2a\28b\29\5c");
        for value in ["*", "a)(uid=*", "\\2a", "ü\0", "*)(uid=*"] {
            let filter = FilterBuf::parse(&format!("(cn={})", filter_value(value))).unwrap();
            let FilterKind::EqualityMatch(assertion) = filter.as_filter().kind() else { panic!("{value}") };
            assert_eq!(assertion.value, value.as_bytes());
        }
    }
}
