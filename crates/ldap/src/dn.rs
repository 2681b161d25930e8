//! Parser of distinguished names (RFC 4514).
//!
//! The parser accepts all names of RFC 4514. It also accepts older forms that clients still send: from RFC 2253 section
//! 4, spaces around `=`, `,` and `+`, `;` instead of `,`, and values in double quotes; from RFC 1779, `OID.2.5.4.3`.
//! The parser does not use a schema: the `schema` crate decides whether an attribute exists and whether two values are
//! equal.
//!
//! Every request contains a DN, so the common case is fast: a DN without escapes borrows all its text and allocates one
//! `Vec`.

use std::borrow::Cow;
use std::fmt;

use crate::DN_AVA_COUNT_MAX;
use crate::dn_text::{escape_value, hex_pair};

/// A parsed distinguished name. `Display` writes it in the form of RFC 4514.
#[derive(Clone, Debug, Default)]
pub struct Dn<'a> {
    text: &'a str,
    avas: Vec<Ava<'a>>,
}

/// An attribute value assertion (AVA) of an RDN: a name and a value. Two AVAs are equal if their names and their values
/// are equal byte for byte.
#[derive(Clone, Debug)]
pub struct Ava<'a> {
    /// The attribute's name or OID as written, without the `OID.` prefix of RFC 1779.
    pub attribute: &'a str,
    /// The value with escapes decoded. A value that is written as `#` and hexadecimal digits is a BER element (RFC 4514
    /// section 2.4). If that element is a string, this field has its content, otherwise the whole element.
    pub value: Cow<'a, [u8]>,
    /// Offset of the AVA in the text of the DN.
    start: usize,
    end: usize,
    /// Whether the AVA is the last of its RDN.
    ends_rdn: bool,
}

/// One relative distinguished name: one or more AVAs. `Display` writes it in the form of RFC 4514.
#[derive(Clone, Copy, Debug)]
pub struct Rdn<'d, 'a> {
    /// The AVAs in the order written; at least one.
    pub avas: &'d [Ava<'a>],
    /// The RDN as written, without surrounding spaces.
    pub text: &'a str,
}

/// Error of parsing a DN, with its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DnError {
    /// Number of octets before the error.
    pub offset: usize,
    /// Kind of error.
    pub kind: DnErrorKind,
}

/// Kind of error in the text of a DN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DnErrorKind {
    /// No attribute name or OID at a position that requires one, such as between two commas or after the last comma.
    BadAttribute,
    /// No `=` after the attribute.
    MissingEquals,
    /// A backslash that is not followed by a special character or two hexadecimal digits.
    BadEscape,
    /// A character that must be escaped in a value.
    UnescapedSpecial(char),
    /// A quoted value without its closing quote.
    UnterminatedQuote,
    /// `#` without pairs of hexadecimal digits after it, or with digits that are not valid BER.
    BadHexValue,
    /// Text between a quoted value or `#` value and the next separator.
    TrailingText,
    /// More AVAs than [`DN_AVA_COUNT_MAX`].
    TooLong,
}

impl<'a> Dn<'a> {
    /// The empty DN, which names the root.
    pub const ROOT: Dn<'static> = Dn { text: "", avas: Vec::new() };

    /// Parses a DN. An empty text, or one that has only spaces, is the root.
    ///
    /// # Errors
    /// The text is not a DN; the error has position and kind.
    pub fn parse(text: &'a str) -> Result<Dn<'a>, DnError> {
        let mut parser = Parser { text, position: 0 };
        parser.skip_spaces();
        let mut avas = Vec::new();
        if parser.peek().is_some() {
            avas.reserve(TYPICAL_AVA_COUNT);
            while parser.ava(&mut avas)? {}
        }
        Ok(Dn { text, avas })
    }

    /// Parses one RDN, such as the new RDN of a modify DN request. The result has exactly one RDN; see
    /// [`rdn`](Self::rdn).
    ///
    /// # Errors
    /// The text is not an RDN; the error has position and kind. A second RDN is [`DnErrorKind::TrailingText`], and an
    /// empty text [`DnErrorKind::BadAttribute`].
    pub fn parse_rdn(text: &'a str) -> Result<Dn<'a>, DnError> {
        let dn = Dn::parse(text)?;
        match dn.len() {
            0 => Err(DnError { offset: text.len(), kind: DnErrorKind::BadAttribute }),
            1 => Ok(dn),
            _ => {
                let offset = text.len() - dn.text_from(1).len();
                Err(DnError { offset, kind: DnErrorKind::TrailingText })
            }
        }
    }

    /// Returns the text from which the DN was parsed.
    pub const fn text(&self) -> &'a str {
        self.text
    }

    /// Returns the RDNs, the entry's own first. The iterator is double-ended.
    pub fn rdns(&self) -> impl DoubleEndedIterator<Item = Rdn<'_, 'a>> + Clone {
        self.avas.split_inclusive(|ava| ava.ends_rdn).map(|avas| Rdn::new(self.text, avas))
    }

    /// Returns the first RDN, the entry's own; `None` for the root.
    pub fn rdn(&self) -> Option<Rdn<'_, 'a>> {
        self.rdns().next()
    }

    /// Returns the number of RDNs: 0 for the root.
    pub fn len(&self) -> usize {
        self.avas.iter().filter(|ava| ava.ends_rdn).count()
    }

    /// Returns true if this is the root.
    pub const fn is_empty(&self) -> bool {
        self.avas.is_empty()
    }

    /// Returns the DN without its first RDN; `None` for the root.
    pub fn parent(&self) -> Option<Dn<'a>> {
        if self.is_empty() { None } else { Some(self.ancestor(1)) }
    }

    /// Returns the DN without its first `rdn_count` RDNs, or the root if the DN has at most `rdn_count` RDNs.
    pub fn ancestor(&self, rdn_count: usize) -> Dn<'a> {
        let text = self.text_from(rdn_count);
        let removed = self.text.len() - text.len();
        let mut avas = self.avas_from(rdn_count).to_vec();
        for ava in &mut avas {
            ava.start -= removed;
            ava.end -= removed;
        }
        Dn { text, avas }
    }

    /// Returns the text of [`ancestor`](Self::ancestor), without parsing or allocating.
    pub fn text_from(&self, rdn_count: usize) -> &'a str {
        let start = self.avas_from(rdn_count).first().map_or(self.text.len(), |ava| ava.start);
        self.text.get(start..).unwrap_or_default()
    }

    /// Returns the DN in the form of RFC 4514, with `,` and `+` as separators and no spaces around them. Names and
    /// values are copied as written, except values in quotes, which are escaped instead. `name_of` returns the name to
    /// write for an attribute.
    pub fn normal_text<'n>(&'n self, name_of: impl Fn(&'n str) -> &'n str) -> String {
        let mut out = String::with_capacity(self.text.len());
        let mut separator = "";
        for ava in &self.avas {
            out.push_str(separator);
            out.push_str(name_of(ava.attribute));
            out.push('=');
            let written = self.text.get(ava.start..ava.end).and_then(|text| text.split_once('='));
            let written = written.map_or("", |(_, value)| value.trim_start_matches(' '));
            if written.starts_with('"') {
                escape_value(&ava.value, &mut out);
            } else {
                out.push_str(written);
            }
            separator = if ava.ends_rdn { "," } else { "+" };
        }
        out
    }

    fn avas_from(&self, rdn_count: usize) -> &[Ava<'a>] {
        let skipped: usize =
            self.avas.split_inclusive(|ava| ava.ends_rdn).take(rdn_count).map(<[_]>::len).sum();
        self.avas.get(skipped..).unwrap_or_default()
    }
}

impl<'d, 'a> Rdn<'d, 'a> {
    fn new(text: &'a str, avas: &'d [Ava<'a>]) -> Rdn<'d, 'a> {
        let start = avas.first().map_or(0, |ava| ava.start);
        let end = avas.last().map_or(0, |ava| ava.end);
        Rdn { avas, text: text.get(start..end).unwrap_or_default() }
    }
}

/// Returns true if the text of a DN is certainly in the form of RFC 4514: no quotes, no `;`, no spaces next to
/// separators, no attribute given by its OID. Reads each octet once and does not parse.
pub fn is_plain_dn_text(text: &[u8]) -> bool {
    let mut octets = text.iter().copied();
    let mut in_attribute = true;
    // The preceding octet. A `=` inside a value is recorded as another character, so that `=` in this variable always
    // means that a value begins. With this variable, spaces at the beginning and end of a value are found.
    let mut before = b',';
    while let Some(octet) = octets.next() {
        before = match octet {
            b'"' | b';' => return false,
            b' ' if in_attribute || before == b'=' => return false,
            // Only OIDs have dots.
            b'.' if in_attribute => return false,
            b'=' if in_attribute => {
                in_attribute = false;
                octet
            }
            b',' | b'+' if in_attribute || before == b' ' => return false,
            b',' | b'+' => {
                in_attribute = true;
                octet
            }
            b'\\' => {
                octets.next();
                octet
            }
            b'=' => b'x',
            _ => octet,
        };
    }
    text.is_empty() || (!in_attribute && before != b' ')
}

impl PartialEq for Ava<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.attribute == other.attribute && self.value == other.value
    }
}

impl Eq for Ava<'_> {}

/// Initial capacity of the list of AVAs. Few DNs have more.
const TYPICAL_AVA_COUNT: usize = 8;

/// Class of an octet in an unquoted value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Plain,
    Space,
    Separator,
    Escape,
    /// A character that must be escaped.
    Special,
}

#[expect(
    clippy::indexing_slicing,
    reason = "every octet has its place, and constants are computed by the compiler"
)]
const CLASSES: [Class; 256] = {
    let mut classes = [Class::Plain; 256];
    classes[b' ' as usize] = Class::Space;
    classes[b',' as usize] = Class::Separator;
    classes[b';' as usize] = Class::Separator;
    classes[b'+' as usize] = Class::Separator;
    classes[b'\\' as usize] = Class::Escape;
    classes[b'"' as usize] = Class::Special;
    classes[b'<' as usize] = Class::Special;
    classes[b'>' as usize] = Class::Special;
    classes[0] = Class::Special;
    classes
};

impl Class {
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "every octet has its place")]
    fn of(octet: u8) -> Class {
        CLASSES[usize::from(octet)]
    }
}

struct Parser<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    fn skip_spaces(&mut self) {
        while self.peek() == Some(b' ') {
            self.position += 1;
        }
    }

    fn slice(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or_default()
    }

    fn error<T>(&self, kind: DnErrorKind) -> Result<T, DnError> {
        Err(DnError { offset: self.position, kind })
    }

    /// Parses one AVA and the separator after it. Returns true if another AVA must follow.
    fn ava(&mut self, avas: &mut Vec<Ava<'a>>) -> Result<bool, DnError> {
        if avas.len() == DN_AVA_COUNT_MAX {
            return self.error(DnErrorKind::TooLong);
        }
        self.skip_spaces();
        let start = self.position;
        let attribute = self.attribute()?;
        self.skip_spaces();
        if self.peek() != Some(b'=') {
            return self.error(DnErrorKind::MissingEquals);
        }
        self.position += 1;
        self.skip_spaces();
        let (value, end) = match self.peek() {
            Some(b'#') => self.hex_value()?,
            Some(b'"') => self.quoted_value()?,
            _ => self.plain_value()?,
        };
        self.skip_spaces();
        let separator = self.peek();
        match separator {
            None | Some(b',' | b';' | b'+') => self.position += 1,
            Some(_) => return self.error(DnErrorKind::TrailingText),
        }
        avas.push(Ava { attribute, value, start, end, ends_rdn: separator != Some(b'+') });
        Ok(separator.is_some())
    }

    /// Parses a descriptor or numeric OID (RFC 4512 section 1.4), or an OID with the prefix of RFC 1779. Underscores
    /// are accepted, because attribute names of other servers contain them.
    fn attribute(&mut self) -> Result<&'a str, DnError> {
        let start = self.position;
        let is_name_octet = |octet: &u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_' | b'.');
        let rest = self.text.as_bytes().get(start..).unwrap_or_default();
        let len = rest.iter().position(|octet| !is_name_octet(octet)).unwrap_or(rest.len());
        let mut attribute = self.slice(start, start + len);
        if let Some((prefix, oid)) = attribute.split_at_checked("oid.".len())
            && prefix.eq_ignore_ascii_case("oid.")
        {
            self.position += prefix.len();
            attribute = oid;
        }
        let is_name =
            attribute.starts_with(|first: char| first.is_ascii_alphabetic()) && !attribute.contains('.');
        if (is_name && self.position == start) || is_numeric_oid(attribute) {
            self.position = start + len;
            Ok(attribute)
        } else {
            self.error(DnErrorKind::BadAttribute)
        }
    }

    /// Parses a value without quotes; returns the value and the offset of its end. Trailing spaces are not part of the
    /// value unless they are escaped.
    fn plain_value(&mut self) -> Result<(Cow<'a, [u8]>, usize), DnError> {
        let start = self.position;
        let rest = self.text.as_bytes().get(start..).unwrap_or_default();
        let is_plain = |octet: &u8| matches!(Class::of(*octet), Class::Plain | Class::Space);
        let len = rest.iter().position(|octet| !is_plain(octet)).unwrap_or(rest.len());
        self.position += len;
        match rest.get(len).map(|octet| (*octet, Class::of(*octet))) {
            Some((_, Class::Escape)) => self.escaped_value(start),
            Some((octet, Class::Special)) => self.error(DnErrorKind::UnescapedSpecial(char::from(octet))),
            _ => {
                let value = self.slice(start, self.position).trim_end_matches(' ');
                Ok((Cow::Borrowed(value.as_bytes()), start + value.len()))
            }
        }
    }

    /// Parses a value without quotes that began at `start`, from its first escape on.
    fn escaped_value(&mut self, start: usize) -> Result<(Cow<'a, [u8]>, usize), DnError> {
        let before = self.slice(start, self.position).as_bytes();
        let mut value = Vec::with_capacity(before.len() + 32);
        value.extend_from_slice(before);
        let mut significant_len = value.len();
        let mut end = self.position;
        while let Some(octet) = self.peek() {
            match Class::of(octet) {
                Class::Separator => break,
                Class::Special => return self.error(DnErrorKind::UnescapedSpecial(char::from(octet))),
                Class::Escape => value.push(self.escape()?),
                Class::Plain | Class::Space => {
                    self.position += 1;
                    value.push(octet);
                }
            }
            if octet != b' ' {
                significant_len = value.len();
                end = self.position;
            }
        }
        value.truncate(significant_len);
        Ok((Cow::Owned(value), end))
    }

    /// Parses a value in quotes (RFC 2253 section 4): only quotes and backslashes are escaped, and spaces are part of
    /// the value.
    fn quoted_value(&mut self) -> Result<(Cow<'a, [u8]>, usize), DnError> {
        let opening = self.position;
        self.position += 1;
        let mut value = Vec::new();
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => value.push(self.escape()?),
                Some(0) => return self.error(DnErrorKind::UnescapedSpecial('\0')),
                Some(octet) => {
                    value.push(octet);
                    self.position += 1;
                }
                None => {
                    self.position = opening;
                    return self.error(DnErrorKind::UnterminatedQuote);
                }
            }
        }
        self.position += 1;
        Ok((Cow::Owned(value), self.position))
    }

    /// Parses a backslash with a special character or two hexadecimal digits; returns the octet that they encode.
    fn escape(&mut self) -> Result<u8, DnError> {
        let bytes = self.text.as_bytes();
        match bytes.get(self.position + 1) {
            Some(&special @ (b' ' | b'"' | b'#' | b'+' | b',' | b';' | b'<' | b'=' | b'>' | b'\\')) => {
                self.position += 2;
                Ok(special)
            }
            _ => match bytes.get(self.position + 1..).and_then(hex_pair) {
                Some(octet) => {
                    self.position += 3;
                    Ok(octet)
                }
                None => self.error(DnErrorKind::BadEscape),
            },
        }
    }

    /// Parses `#` and the BER encoding of a value in hexadecimal digits (RFC 4514 section 2.4).
    fn hex_value(&mut self) -> Result<(Cow<'a, [u8]>, usize), DnError> {
        let start = self.position;
        self.position += 1;
        let mut encoding = Vec::new();
        while let Some(octet) = self.text.as_bytes().get(self.position..).and_then(hex_pair) {
            encoding.push(octet);
            self.position += 2;
        }
        match string_content(&encoding) {
            Some(content) => Ok((Cow::Owned(content), self.position)),
            None => {
                self.position = start;
                self.error(DnErrorKind::BadHexValue)
            }
        }
    }
}

/// Returns the content of a BER-encoded string. Returns the whole encoding if it encodes another type, and `None` if it
/// is not BER.
fn string_content(encoding: &[u8]) -> Option<Vec<u8>> {
    const UTF8_STRING: u8 = 0x0c;
    const NUMERIC_STRING: u8 = 0x12;
    const PRINTABLE_STRING: u8 = 0x13;
    const TELETEX_STRING: u8 = 0x14;
    const IA5_STRING: u8 = 0x16;
    const VISIBLE_STRING: u8 = 0x1a;
    let mut reader = ber::Reader::new(encoding);
    let (tag, content) = reader.any().ok()?;
    if !reader.is_empty() {
        return None;
    }
    Some(match tag.0 {
        UTF8_STRING | NUMERIC_STRING | PRINTABLE_STRING | TELETEX_STRING | IA5_STRING | VISIBLE_STRING => {
            content.to_vec()
        }
        _ if tag == ber::Tag::OCTET_STRING => content.to_vec(),
        _ => encoding.to_vec(),
    })
}

/// Returns true if the text is `number 1*( DOT number )` without leading zeros (RFC 4512 section 1.4).
pub(crate) fn is_numeric_oid(text: &str) -> bool {
    let is_number = |part: &str| {
        part.bytes().all(|octet| octet.is_ascii_digit())
            && (part == "0" || part.starts_with(|first: char| first != '0'))
    };
    text.contains('.') && text.split('.').all(is_number)
}

impl fmt::Display for Dn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, rdn) in self.rdns().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            rdn.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Rdn<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = String::new();
        for (index, ava) in self.avas.iter().enumerate() {
            value.clear();
            escape_value(&ava.value, &mut value);
            let separator = if index > 0 { "+" } else { "" };
            write!(f, "{separator}{}={value}", ava.attribute)?;
        }
        Ok(())
    }
}

impl fmt::Display for DnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at octet {}", self.kind, self.offset)
    }
}

impl fmt::Display for DnErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DnErrorKind::BadAttribute => f.write_str("attribute name or OID expected"),
            DnErrorKind::MissingEquals => f.write_str("'=' expected"),
            DnErrorKind::BadEscape => {
                f.write_str("'\\' must be followed by a special character or two hex digits")
            }
            DnErrorKind::UnescapedSpecial(special) => write!(f, "{special:?} must be escaped"),
            DnErrorKind::UnterminatedQuote => f.write_str("quote is not closed"),
            DnErrorKind::BadHexValue => f.write_str("'#' must be followed by BER in hex digits"),
            DnErrorKind::TrailingText => f.write_str("',' or '+' expected"),
            DnErrorKind::TooLong => write!(f, "more than {DN_AVA_COUNT_MAX} names and values"),
        }
    }
}

impl std::error::Error for DnError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the AVAs as `attribute=value`, separated by `+` and `,`, with each value converted to text lossily.
    fn shape(text: &str) -> Result<String, (usize, DnErrorKind)> {
        let dn = Dn::parse(text).map_err(|error| (error.offset, error.kind))?;
        let rdn_shape = |rdn: Rdn<'_, '_>| {
            let ava_shape =
                |ava: &Ava<'_>| format!("{}={}", ava.attribute, String::from_utf8_lossy(&ava.value));
            rdn.avas.iter().map(ava_shape).collect::<Vec<_>>().join(" + ")
        };
        Ok(dn.rdns().map(rdn_shape).collect::<Vec<_>>().join(" | "))
    }

    #[test]
    fn examples_of_rfc_4514_parse() {
        let check = |text: &str, expected: &str| assert_eq!(shape(text).as_deref(), Ok(expected), "{text}");
        check("UID=jsmith,DC=example,DC=net", "UID=jsmith | DC=example | DC=net");
        check("OU=Sales+CN=J.  Smith,DC=example,DC=net", "OU=Sales + CN=J.  Smith | DC=example | DC=net");
        check(
            r#"CN=James \"Jim\" Smith\, III,DC=example,DC=net"#,
            r#"CN=James "Jim" Smith, III | DC=example | DC=net"#,
        );
        check(r"CN=Before\0dAfter,DC=example,DC=net", "CN=Before\rAfter | DC=example | DC=net");
        check("1.3.6.1.4.1.1466.0=#04024869", "1.3.6.1.4.1.1466.0=Hi");
        check(r"CN=Lu\C4\8Di\C4\87", "CN=Lučić");
    }

    #[test]
    fn unusual_valid_dns_parse() {
        let check = |text: &str, expected: &str| assert_eq!(shape(text).as_deref(), Ok(expected), "{text}");
        check("", "");
        check("  ", "");
        check("cn=", "cn=");
        check("cn=,dc=x", "cn= | dc=x");
        check("cn = Babs Jensen , o = x", "cn=Babs Jensen | o=x");
        check("cn=a + sn=b;dc=c", "cn=a + sn=b | dc=c");
        check(r"cn=a\ ,dc=c", "cn=a  | dc=c");
        check(r"cn=a\20 ,dc=c", "cn=a  | dc=c");
        check(r"cn=\ a\  ", "cn= a ");
        check(r"cn=\#a#b=c", "cn=#a#b=c");
        check(r"cn=\23a", "cn=#a");
        check(r#"cn="a, b+c;\"<># ",dc=x"#, r#"cn=a, b+c;"<>#  | dc=x"#);
        check(r#"cn="" ,dc=x"#, "cn= | dc=x");
        check("OID.2.5.4.3=a,oid.2.5.4.10=b", "2.5.4.3=a | 2.5.4.10=b");
        check("oid=1,OID-x=2", "oid=1 | OID-x=2");
        check("cn=#0C0141", "cn=A");
        check("cn=#020141 , dc=x", "cn=\u{2}\u{1}A | dc=x");
        check("x-my_type=ä b", "x-my_type=ä b");
        check("cn=a\nb", "cn=a\nb");
    }

    #[test]
    fn errors_have_positions() {
        let check = |text: &str, offset: usize, kind: DnErrorKind| {
            assert_eq!(shape(text), Err((offset, kind)), "{text}");
        };
        check("cn", 2, DnErrorKind::MissingEquals);
        check("cn x=a", 3, DnErrorKind::MissingEquals);
        check("=a", 0, DnErrorKind::BadAttribute);
        check("cn=a,", 5, DnErrorKind::BadAttribute);
        check("cn=a,,dc=b", 5, DnErrorKind::BadAttribute);
        check(",dc=b", 0, DnErrorKind::BadAttribute);
        check("cn=a+", 5, DnErrorKind::BadAttribute);
        check("-cn=a", 0, DnErrorKind::BadAttribute);
        check("1=a", 0, DnErrorKind::BadAttribute);
        check("1.02=a", 0, DnErrorKind::BadAttribute);
        check("1..2=a", 0, DnErrorKind::BadAttribute);
        check("OID.cn=a", 4, DnErrorKind::BadAttribute);
        check("cn.x=a", 0, DnErrorKind::BadAttribute);
        check("cn;lang-en=a", 2, DnErrorKind::MissingEquals);
        check(r"cn=a\", 4, DnErrorKind::BadEscape);
        check(r"cn=a\4", 4, DnErrorKind::BadEscape);
        check(r"cn=a\zz", 4, DnErrorKind::BadEscape);
        check("cn=a\"b", 4, DnErrorKind::UnescapedSpecial('"'));
        check("cn=a<b", 4, DnErrorKind::UnescapedSpecial('<'));
        check("cn=a\0b", 4, DnErrorKind::UnescapedSpecial('\0'));
        check("cn=\"ab", 3, DnErrorKind::UnterminatedQuote);
        check("cn=\"a\"b", 6, DnErrorKind::TrailingText);
        check("cn=#", 3, DnErrorKind::BadHexValue);
        check("cn=#0", 3, DnErrorKind::BadHexValue);
        check("cn=#04024", 3, DnErrorKind::BadHexValue);
        check("cn=#040141xy", 10, DnErrorKind::TrailingText);
    }

    #[test]
    fn plain_values_borrow_from_the_text() {
        let dn = Dn::parse("uid=user.1,ou=People,dc=example,dc=com").unwrap();
        let borrows = |ava: &Ava<'_>| matches!(ava.value, Cow::Borrowed(_));
        assert!(dn.rdns().all(|rdn| rdn.avas.iter().all(borrows)));
    }

    #[test]
    fn rdns_and_ancestors_keep_their_text() {
        let dn = Dn::parse(r" cn=a\ +sn= \41 , ou = b , dc=c ").unwrap();
        let texts: Vec<_> = dn.rdns().map(|rdn| rdn.text).collect();
        assert_eq!(texts, [r"cn=a\ +sn= \41", "ou = b", "dc=c"]);
        assert_eq!(dn.len(), 3);
        assert_eq!(dn.text_from(1), "ou = b , dc=c ");
        assert_eq!(dn.text_from(9), "");
        let parent = dn.parent().unwrap();
        assert_eq!(parent.to_string(), "ou=b,dc=c");
        assert_eq!(parent.rdn().unwrap().text, "ou = b");
        assert_eq!(dn.ancestor(2).rdn().unwrap().text, "dc=c");
        assert!(dn.ancestor(3).is_empty());
        assert!(Dn::ROOT.parent().is_none());
        assert_eq!(dn.rdns().next_back().unwrap().text, "dc=c");
    }

    #[test]
    fn display_writes_the_form_of_rfc_4514() {
        let check = |text: &str, expected: &str| {
            let rendered = Dn::parse(text).unwrap().to_string();
            assert_eq!(rendered, expected);
            assert_eq!(shape(&rendered), shape(text));
        };
        check("cn = a ; o = \"b, c\" + ou=d", r"cn=a,o=b\, c+ou=d");
        check(r"cn=\20\23x\20", r"cn=\ #x\ ");
        check(r"OID.1.2=\ff\00", r"1.2=\FF\00");
        check("1.2=#04024869", "1.2=Hi");
    }

    #[test]
    fn a_single_rdn_parses() {
        assert_eq!(Dn::parse_rdn("cn=a+sn=b").unwrap().rdn().unwrap().avas.len(), 2);
        assert_eq!(Dn::parse_rdn("").unwrap_err().kind, DnErrorKind::BadAttribute);
        let error = Dn::parse_rdn("cn=a,dc=b").unwrap_err();
        assert_eq!(error, DnError { offset: 5, kind: DnErrorKind::TrailingText });
    }

    #[test]
    fn the_number_of_avas_is_limited() {
        let mut text = vec!["dc=x"; DN_AVA_COUNT_MAX].join(",");
        assert_eq!(Dn::parse(&text).unwrap().len(), DN_AVA_COUNT_MAX);
        text.push_str(",dc=x");
        assert_eq!(Dn::parse(&text).unwrap_err().kind, DnErrorKind::TooLong);
    }
}
