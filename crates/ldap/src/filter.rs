//! Search filters on the wire (RFC 4511 section 4.5.1.7).
//!
//! A [`Filter`] is the encoded filter, validated. [`Filter::kind`] decodes one level, as a planner needs it, and cannot
//! fail. The text form is in `filter_text`.

use std::fmt;

use ber::{Reader, Tag};

use crate::decode::{Body, BodyError, Budget, InComponent, checked_text, string, text};
use crate::{DecodeErrorKind, DecodeLimits, FILTER_DEPTH_CEILING, Limit};

/// Tags of the filter's choices and their components.
pub(crate) mod tags {
    use ber::Tag;

    pub(crate) const AND: Tag = Tag::context_constructed(0);
    pub(crate) const OR: Tag = Tag::context_constructed(1);
    pub(crate) const NOT: Tag = Tag::context_constructed(2);
    pub(crate) const EQUALITY_MATCH: Tag = Tag::context_constructed(3);
    pub(crate) const SUBSTRINGS: Tag = Tag::context_constructed(4);
    pub(crate) const GREATER_OR_EQUAL: Tag = Tag::context_constructed(5);
    pub(crate) const LESS_OR_EQUAL: Tag = Tag::context_constructed(6);
    pub(crate) const PRESENT: Tag = Tag::context(7);
    pub(crate) const APPROX_MATCH: Tag = Tag::context_constructed(8);
    pub(crate) const EXTENSIBLE_MATCH: Tag = Tag::context_constructed(9);

    pub(crate) const INITIAL: Tag = Tag::context(0);
    pub(crate) const ANY: Tag = Tag::context(1);
    pub(crate) const FINAL: Tag = Tag::context(2);

    pub(crate) const MATCHING_RULE: Tag = Tag::context(1);
    pub(crate) const TYPE: Tag = Tag::context(2);
    pub(crate) const MATCH_VALUE: Tag = Tag::context(3);
    pub(crate) const DN_ATTRIBUTES: Tag = Tag::context(4);
}

/// A filter: one validated element with its content. `Display` writes the text form of RFC 4515.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Filter<'a> {
    tag: Tag,
    content: &'a [u8],
}

/// One level of a filter: an item, or an operator with its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterKind<'a> {
    /// All operands match; an empty list is TRUE (RFC 4526).
    And(FilterList<'a>),
    /// At least one operand matches; an empty list is FALSE (RFC 4526).
    Or(FilterList<'a>),
    /// The operand does not match.
    Not(Filter<'a>),
    /// A value is equal to the assertion value.
    EqualityMatch(Assertion<'a>),
    /// A value contains these substrings in this order.
    Substrings(Substrings<'a>),
    /// A value is equal to or greater than the assertion value.
    GreaterOrEqual(Assertion<'a>),
    /// A value is equal to or less than the assertion value.
    LessOrEqual(Assertion<'a>),
    /// The attribute with this description has a value.
    Present(&'a str),
    /// A value is approximately equal to the assertion value.
    ApproxMatch(Assertion<'a>),
    /// A value matches by a named matching rule.
    ExtensibleMatch(ExtensibleMatch<'a>),
    /// A kind of filter that RFC 4511 does not define. Such a filter is not a protocol error, because filters are an
    /// extensible CHOICE. The filter evaluates to Undefined, like everything that a server cannot evaluate (RFC 4511
    /// section 4.5.1.7).
    Unrecognized(Tag),
}

/// An attribute description, and the value with which the attribute's values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assertion<'a> {
    /// The attribute description, unparsed.
    pub description: &'a str,
    /// The assertion value.
    pub value: &'a [u8],
}

/// A substrings item, with at least one substring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Substrings<'a> {
    /// The attribute description, unparsed.
    pub description: &'a str,
    /// Required start of a value.
    pub initial: Option<&'a [u8]>,
    /// Required substrings after the start, in this order and without overlap.
    pub any: SubstringAny<'a>,
    /// Required end of a value.
    pub final_: Option<&'a [u8]>,
}

/// The inner substrings of a substrings item.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SubstringAny<'a> {
    content: &'a [u8],
}

/// An extensible match (RFC 4511 section 4.5.1.7.7). At least one of rule and description is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtensibleMatch<'a> {
    /// Name or OID of the matching rule; `None` for the attribute's equality rule.
    pub rule: Option<&'a str>,
    /// The attribute description, unparsed; `None` for all attributes to which the rule applies.
    pub description: Option<&'a str>,
    /// The assertion value.
    pub value: &'a [u8],
    /// Whether the attribute values in the entry's DN are compared too.
    pub dn_attributes: bool,
}

/// The members of an `and` or `or`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FilterList<'a> {
    content: &'a [u8],
}

impl<'a> FilterList<'a> {
    /// Returns the members in the order sent.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Filter<'a>> + Clone + use<'a> {
        let mut reader = Reader::new(self.content);
        std::iter::from_fn(move || reader.any().ok().map(|(tag, content)| Filter { tag, content }))
    }

    /// Returns the number of members, in linear time.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Returns true if there are no members.
    pub const fn is_empty(&self) -> bool {
        self.content.is_empty()
    }
}

impl<'a> SubstringAny<'a> {
    /// Returns the substrings in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let mut reader = Reader::new(self.content);
        std::iter::from_fn(move || reader.any().ok())
            .filter(|(tag, _)| *tag == tags::ANY)
            .map(|(_, piece)| piece)
    }
}

impl<'a> Filter<'a> {
    /// Decodes a filter that is not part of a search request, as in the assertion control (RFC 4528).
    ///
    /// # Errors
    /// The filter is malformed, or octets follow it.
    pub fn from_bytes(bytes: &'a [u8], limits: &DecodeLimits) -> Result<Filter<'a>, DecodeErrorKind> {
        let mut reader = Reader::new(bytes);
        let filter = Filter::decode(&mut reader, limits).map_err(|error| error.kind)?;
        if reader.is_empty() { Ok(filter) } else { Err(DecodeErrorKind::Misplaced) }
    }

    /// Returns the kind of the filter, one level deep.
    #[inline]
    pub fn kind(&self) -> FilterKind<'a> {
        let content = self.content;
        match self.tag {
            tags::AND => FilterKind::And(FilterList { content }),
            tags::OR => FilterKind::Or(FilterList { content }),
            tags::NOT => FilterKind::Not(Filter::read(&mut Reader::new(content))),
            tags::EQUALITY_MATCH => FilterKind::EqualityMatch(Assertion::read(content)),
            tags::GREATER_OR_EQUAL => FilterKind::GreaterOrEqual(Assertion::read(content)),
            tags::LESS_OR_EQUAL => FilterKind::LessOrEqual(Assertion::read(content)),
            tags::APPROX_MATCH => FilterKind::ApproxMatch(Assertion::read(content)),
            tags::PRESENT => FilterKind::Present(checked_text(content)),
            tags::SUBSTRINGS => FilterKind::Substrings(Substrings::read(content)),
            tags::EXTENSIBLE_MATCH => FilterKind::ExtensibleMatch(ExtensibleMatch::read(content)),
            tag => FilterKind::Unrecognized(tag),
        }
    }

    /// Appends the filter as encoded on the wire.
    pub fn encode(&self, out: &mut Vec<u8>) {
        ber::put_element(out, self.tag, self.content);
    }

    /// Returns the number of octets that [`encode`](Self::encode) appends.
    pub const fn encoded_len(&self) -> usize {
        ber::element_len(self.content.len())
    }

    /// Reads the next element. The element must be a validated filter.
    pub(crate) fn read(reader: &mut Reader<'a>) -> Filter<'a> {
        // The default is never used, because a validated filter can always be read. The default has the tag 0, which no
        // filter has.
        let (tag, content) = reader.any().unwrap_or((Tag(0), &[]));
        Filter { tag, content }
    }

    /// Reads the next element, and checks that the element is a valid filter within the limits.
    pub(crate) fn decode(reader: &mut Reader<'a>, limits: &DecodeLimits) -> Body<Filter<'a>> {
        let mut checker = Checker {
            terms: Budget::new(Limit::FilterTerms, limits.filter_terms_max),
            depth_max: limits.filter_depth_max.min(FILTER_DEPTH_CEILING),
        };
        checker.filter(reader, 1)
    }
}

/// Validates a filter, depth first, by recursion of at most [`FILTER_DEPTH_CEILING`] levels. An explicit stack instead
/// of recursion would need an allocation, or memory for the deepest filter in every call.
struct Checker {
    terms: Budget,
    depth_max: usize,
}

const FILTER: &str = "SearchRequest.filter";

impl Checker {
    /// Validates the next element. `depth` is its level, from 1.
    fn filter<'a>(&mut self, reader: &mut Reader<'a>, depth: usize) -> Body<Filter<'a>> {
        self.terms.take(FILTER)?;
        let (tag, content) = reader.any().component(FILTER)?;
        match tag {
            tags::AND | tags::OR => {
                let mut members = self.enter(content, depth)?;
                while !members.is_empty() {
                    self.filter(&mut members, depth + 1)?;
                }
            }
            tags::NOT => {
                let mut member = self.enter(content, depth)?;
                self.filter(&mut member, depth + 1)?;
                if !member.is_empty() {
                    return Err(BodyError::new(FILTER, DecodeErrorKind::Misplaced));
                }
            }
            tags::EQUALITY_MATCH | tags::GREATER_OR_EQUAL | tags::LESS_OR_EQUAL | tags::APPROX_MATCH => {
                check_assertion(content)?;
            }
            tags::PRESENT => {
                text(content).component("Filter.present")?;
            }
            tags::SUBSTRINGS => self.substrings(content)?,
            tags::EXTENSIBLE_MATCH => check_extensible_match(content)?,
            _ => {}
        }
        Ok(Filter { tag, content })
    }

    /// Returns a reader of the members of an operator at `depth`; fails if the members would be nested too deeply.
    fn enter<'a>(&self, content: &'a [u8], depth: usize) -> Body<Reader<'a>> {
        if depth >= self.depth_max && !content.is_empty() {
            return Err(BodyError::limit(FILTER, Limit::FilterDepth, self.depth_max));
        }
        Ok(Reader::new(content))
    }

    /// Checks that there is at least one substring, that only the first is `initial`, and that only the last is
    /// `final`.
    fn substrings(&mut self, content: &[u8]) -> Body<()> {
        const COMPONENT: &str = "SubstringFilter.substrings";
        let mut reader = Reader::new(content);
        string(&mut reader).component("SubstringFilter.type")?;
        let mut pieces = reader.sequence(Tag::SEQUENCE).component(COMPONENT)?;
        if pieces.is_empty() {
            return Err(BodyError::new(COMPONENT, DecodeErrorKind::Empty));
        }
        let mut is_first = true;
        while !pieces.is_empty() {
            self.terms.take(COMPONENT)?;
            let (tag, _) = pieces.any().component(COMPONENT)?;
            let in_place = match tag {
                tags::INITIAL => is_first,
                tags::ANY => true,
                tags::FINAL => pieces.is_empty(),
                found => {
                    let error = ber::BerError::UnexpectedTag { expected: tags::ANY, found };
                    return Err(BodyError::new(COMPONENT, error));
                }
            };
            if !in_place {
                return Err(BodyError::new(COMPONENT, DecodeErrorKind::Misplaced));
            }
            is_first = false;
        }
        reader.skip_rest().component("SubstringFilter")
    }
}

fn check_assertion(content: &[u8]) -> Body<()> {
    let mut reader = Reader::new(content);
    string(&mut reader).component("AttributeValueAssertion.attributeDesc")?;
    reader.octet_string().component("AttributeValueAssertion.assertionValue")?;
    reader.skip_rest().component("AttributeValueAssertion")
}

/// Validates an extensible match: without a rule, a type is required (RFC 4511 section 4.5.1.7.7).
fn check_extensible_match(content: &[u8]) -> Body<()> {
    let mut reader = Reader::new(content);
    let rule = reader.optional(tags::MATCHING_RULE).component("MatchingRuleAssertion.matchingRule")?;
    rule.map(text).transpose().component("MatchingRuleAssertion.matchingRule")?;
    let description = reader.optional(tags::TYPE).component("MatchingRuleAssertion.type")?;
    description.map(text).transpose().component("MatchingRuleAssertion.type")?;
    reader.element(tags::MATCH_VALUE).component("MatchingRuleAssertion.matchValue")?;
    if reader.peek_tag() == Some(tags::DN_ATTRIBUTES) {
        reader.boolean_tagged(tags::DN_ATTRIBUTES).component("MatchingRuleAssertion.dnAttributes")?;
    }
    reader.skip_rest().component("MatchingRuleAssertion")?;
    if rule.is_none() && description.is_none() {
        return Err(BodyError::new("MatchingRuleAssertion.type", DecodeErrorKind::Empty));
    }
    Ok(())
}

// The `read` functions read content that was validated above, so their default values are never used.

impl<'a> Assertion<'a> {
    fn read(content: &'a [u8]) -> Assertion<'a> {
        let mut reader = Reader::new(content);
        let description = checked_text(reader.octet_string().unwrap_or_default());
        Assertion { description, value: reader.octet_string().unwrap_or_default() }
    }
}

impl<'a> Substrings<'a> {
    fn read(content: &'a [u8]) -> Substrings<'a> {
        let mut reader = Reader::new(content);
        let description = checked_text(reader.octet_string().unwrap_or_default());
        let content = reader.element(Tag::SEQUENCE).unwrap_or_default();
        let mut pieces = Reader::new(content);
        let (mut initial, mut final_) = (None, None);
        while let Ok((tag, piece)) = pieces.any() {
            match tag {
                tags::INITIAL => initial = Some(piece),
                tags::FINAL => final_ = Some(piece),
                _ => {}
            }
        }
        Substrings { description, initial, any: SubstringAny { content }, final_ }
    }
}

impl<'a> ExtensibleMatch<'a> {
    fn read(content: &'a [u8]) -> ExtensibleMatch<'a> {
        let mut reader = Reader::new(content);
        let rule = reader.optional(tags::MATCHING_RULE).unwrap_or_default().map(checked_text);
        let description = reader.optional(tags::TYPE).unwrap_or_default().map(checked_text);
        let value = reader.element(tags::MATCH_VALUE).unwrap_or_default();
        let dn_attributes = reader.boolean_tagged(tags::DN_ATTRIBUTES).unwrap_or_default();
        ExtensibleMatch { rule, description, value, dn_attributes }
    }
}

/// Shows the text form of RFC 4515. A filter may contain a password, so log it with care.
impl fmt::Debug for Filter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for FilterList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Debug for SubstringAny<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes with small limits. Returns the text form, or the component and kind of the error.
    fn decode(bytes: &[u8]) -> Result<String, DecodeErrorKind> {
        let limits = DecodeLimits { filter_depth_max: 3, filter_terms_max: 6, ..DecodeLimits::default() };
        Filter::from_bytes(bytes, &limits).map(|filter| filter.to_string())
    }

    #[test]
    fn valid_encodings_decode() {
        let check = |bytes: &[u8], expected: &str| assert_eq!(decode(bytes).as_deref(), Ok(expected));
        check(b"\x87\x02cn", "(cn=*)");
        check(b"\xa3\x07\x04\x02cn\x04\x01a", "(cn=a)");
        check(b"\xa0\x00", "(&)");
        check(b"\xa1\x00", "(|)");
        check(b"\xa2\x04\x87\x02cn", "(!(cn=*))");
        check(b"\xa2\x06\xa2\x04\x87\x02cn", "(!(!(cn=*)))");
        check(b"\xa4\x0f\x04\x02cn\x30\x09\x80\x01a\x81\x01b\x82\x01c", "(cn=a*b*c)");
        check(b"\xa9\x0b\x81\x03r-1\x83\x01a\x84\x01\x01", "(:dn:r-1:=a)");
        check(b"\xa9\x07\x82\x02cn\x83\x01a", "(cn:=a)");
        // A later version of the protocol may add components and choices. Such components are ignored, and such choices
        // are Undefined.
        check(b"\xa3\x0a\x04\x02cn\x04\x01a\x8f\x01x", "(cn=a)");
        check(b"\xa0\x06\x87\x02cn\x8a\x00", "(&(cn=*)(?=undefined))");
    }

    #[test]
    fn invalid_encodings_are_refused() {
        let check = |bytes: &[u8], expected: DecodeErrorKind| assert_eq!(decode(bytes), Err(expected));
        let ber = DecodeErrorKind::Ber;
        let truncated = ber(ber::BerError::Truncated);
        check(b"", truncated);
        check(b"\x87\x02c", truncated);
        check(b"\x87\x02cn\x00", DecodeErrorKind::Misplaced);
        check(b"\x87\x02\xffn", DecodeErrorKind::NotUtf8);
        check(b"\xa3\x04\x04\x02cn", truncated);
        check(b"\xa2\x00", truncated);
        check(b"\xa2\x08\x87\x02cn\x87\x02cn", DecodeErrorKind::Misplaced);
        check(b"\xa4\x06\x04\x02cn\x30\x00", DecodeErrorKind::Empty);
        check(b"\xa4\x0c\x04\x02cn\x30\x06\x81\x01a\x80\x01b", DecodeErrorKind::Misplaced);
        check(b"\xa4\x0c\x04\x02cn\x30\x06\x82\x01a\x81\x01b", DecodeErrorKind::Misplaced);
        check(b"\xa4\x0c\x04\x02cn\x30\x06\x80\x01a\x80\x01b", DecodeErrorKind::Misplaced);
        check(b"\xa9\x03\x83\x01a", DecodeErrorKind::Empty);
        let unexpected = ber::BerError::UnexpectedTag { expected: tags::ANY, found: Tag::context(3) };
        check(b"\xa4\x09\x04\x02cn\x30\x03\x83\x01a", ber(unexpected));
    }

    #[test]
    fn depth_and_number_of_terms_are_limited() {
        let check = |bytes: &[u8], limit: Limit, max: usize| {
            assert_eq!(decode(bytes), Err(DecodeErrorKind::LimitExceeded { limit, max }));
        };
        check(b"\xa2\x08\xa2\x06\xa2\x04\x87\x02cn", Limit::FilterDepth, 3);
        let six_members = [b"\xa0\x18".as_slice(), &b"\x87\x02cn".repeat(6)].concat();
        check(&six_members, Limit::FilterTerms, 6);
        let six_pieces = [b"\xa4\x18\x04\x02cn\x30\x12".as_slice(), &b"\x81\x01a".repeat(6)].concat();
        check(&six_pieces, Limit::FilterTerms, 6);
    }
}
