//! Contents that take fewer octets than their values.
//!
//! Most entries have an entryUUID, an entryCSN, two times and the same object classes. A row has them in forms of
//! their own, and their texts are made when they are wanted:
//!
//! - *uuid*: 16 octets, of one value, a UUID in lower case (RFC 9562 section 4)
//! - *time*: 5 octets, of one value `YYYYmmddHHMMSSZ`: 14 bits of the year, 4 of the month, 5 of the day, 5 of the
//!   hour, 6 of the minute and 6 of the second
//! - *csn*: 9 to 15 octets, of one value `YYYYmmddHHMMSS.uuuuuuZ#oooooo#sss#mmmmmm`: a time, 20 bits of the
//!   microseconds, 12 of the server, then 24 of the count and 24 of the modification, whose last zero octets are left
//!   out
//! - *words*: items. An item is an OCTET STRING, a reference, or an [octet](super::words) for one value or several.
//!
//! The form depends on the values alone, not on the attribute. Values are packed only if exactly their octets come
//! back; whatever has another spelling stays as it is.

use super::words::{self, Meaning};
use super::{FORM_CSN, FORM_TIME, FORM_UUID, FORM_WORDS, InlineValue, put_value};

/// Longest text of a packed value.
const TEXT_LEN_MAX: usize = CSN_LEN;

const UUID_LEN: usize = 36;
const TIME_LEN: usize = 15;
const CSN_LEN: usize = 40;

/// Size of a packed time.
const TIME_SIZE: usize = 5;

/// Size of a packed CSN whose count and modification are 0.
const CSN_SIZE_MIN: usize = 9;
const CSN_SIZE_MAX: usize = 15;

/// Text of a packed value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedText {
    bytes: [u8; TEXT_LEN_MAX],
    len: u8,
}

impl PackedText {
    /// Returns the text.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    fn begin() -> PackedText {
        PackedText { bytes: [0; TEXT_LEN_MAX], len: 0 }
    }

    fn push(&mut self, octet: u8) {
        if let Some(place) = self.bytes.get_mut(usize::from(self.len)) {
            *place = octet;
            self.len += 1;
        }
    }

    fn marks(&mut self, marks: &[u8]) {
        marks.iter().for_each(|mark| self.push(*mark));
    }

    /// Appends the last `count` decimal digits of a number.
    fn digits(&mut self, number: u64, count: u32) {
        for place in (0..count).rev() {
            self.push(b'0' + last_octet(number / 10u64.pow(place) % 10));
        }
    }

    /// Appends the last `count` hexadecimal digits of a number, in lower case.
    fn hex(&mut self, number: u64, count: u32) {
        for place in (0..count).rev() {
            let digit = last_octet(number >> (4 * place) & 0xf);
            self.push(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 });
        }
    }

    /// Appends `YYYYmmddHHMMSS`.
    fn seconds(&mut self, time: u64) {
        self.digits(time >> 26, 4);
        for (shift, bits) in TIME_FIELDS {
            self.digits(time >> shift & ((1 << bits) - 1), 2);
        }
    }
}

fn last_octet(number: u64) -> u8 {
    number.to_le_bytes()[0]
}

/// Places and sizes in bits of month, day, hour, minute and second in a time.
const TIME_FIELDS: [(u32, u32); 5] = [(22, 4), (17, 5), (12, 5), (6, 6), (0, 6)];

/// Appends values in a form that takes fewer octets, and returns the form; `None` if there is none, and nothing is
/// appended.
pub(super) fn put<'v>(
    out: &mut Vec<u8>,
    values: impl ExactSizeIterator<Item = InlineValue<'v>> + Clone,
) -> Option<u8> {
    if values.len() == 1
        && let Some(form) = values.clone().next().and_then(|value| put_single(out, value.here()?))
    {
        return Some(form);
    }
    values.clone().any(|value| value.here().and_then(words::octet_of).is_some()).then(|| {
        put_words(out, values);
        FORM_WORDS
    })
}

#[inline]
fn put_single(out: &mut Vec<u8>, value: &[u8]) -> Option<u8> {
    match value.len() {
        UUID_LEN => put_uuid(out, value.first_chunk()?),
        TIME_LEN => put_time(out, value.first_chunk()?),
        CSN_LEN => put_csn(out, value.first_chunk()?),
        _ => None,
    }
}

fn put_uuid(out: &mut Vec<u8>, text: &[u8; UUID_LEN]) -> Option<u8> {
    out.extend_from_slice(&uuid(text)?);
    Some(FORM_UUID)
}

fn put_time(out: &mut Vec<u8>, text: &[u8; TIME_LEN]) -> Option<u8> {
    let [_, _, _, time @ ..] = time(text.strip_suffix(b"Z")?)?.to_be_bytes();
    out.extend_from_slice(&time);
    Some(FORM_TIME)
}

fn put_csn(out: &mut Vec<u8>, text: &[u8; CSN_LEN]) -> Option<u8> {
    let [csn @ .., _] = csn(text)?.to_be_bytes();
    let zeros = csn.iter().rev().take(CSN_SIZE_MAX - CSN_SIZE_MIN).take_while(|octet| **octet == 0).count();
    out.extend_from_slice(csn.get(..CSN_SIZE_MAX - zeros)?);
    Some(FORM_CSN)
}

fn put_words<'v>(out: &mut Vec<u8>, mut values: impl Iterator<Item = InlineValue<'v>> + Clone) {
    if let Some((octet, count)) = words::list_of(values.clone()) {
        out.push(octet);
        values.by_ref().take(count).for_each(drop);
    }
    for value in values {
        match value.here().and_then(words::octet_of) {
            Some(octet) => out.push(octet),
            None => put_value(out, &value),
        }
    }
}

/// Returns the octets of a UUID; `None` if it has another spelling.
fn uuid(text: &[u8]) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    let mut rest = text;
    for (place, byte) in bytes.iter_mut().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            rest = rest.strip_prefix(b"-")?;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        (*byte, rest) = (u8::try_from(hex(digits)?).ok()?, after);
    }
    rest.is_empty().then_some(bytes)
}

/// Returns the bits of a time, `YYYYmmddHHMMSS`; `None` if it has another spelling or no such bits.
fn time(text: &[u8]) -> Option<u64> {
    let (year, mut rest) = text.split_at_checked(4)?;
    let mut time = decimal(year)? << 26;
    for (shift, bits) in TIME_FIELDS {
        let (field, after) = rest.split_at_checked(2)?;
        let field = decimal(field).filter(|field| field >> bits == 0)?;
        (time, rest) = (time | field << shift, after);
    }
    rest.is_empty().then_some(time)
}

/// Returns the bits of a CSN, of which the last eight are 0; `None` if it has another spelling.
fn csn(text: &[u8]) -> Option<u128> {
    let (seconds, rest) = text.split_at_checked(14)?;
    let (micros, rest) = rest.strip_prefix(b".")?.split_at_checked(6)?;
    let (count, rest) = rest.strip_prefix(b"Z#")?.split_at_checked(6)?;
    let (server, rest) = rest.strip_prefix(b"#")?.split_at_checked(3)?;
    let modification = rest.strip_prefix(b"#").filter(|rest| rest.len() == 6)?;
    let head =
        u128::from(time(seconds)?) << 32 | u128::from(decimal(micros)?) << 12 | u128::from(hex(server)?);
    Some((head << 48 | u128::from(hex(count)?) << 24 | u128::from(hex(modification)?)) << 8)
}

fn decimal(digits: &[u8]) -> Option<u64> {
    digits
        .iter()
        .try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0')))
}

/// Returns the number with these hexadecimal digits in lower case.
fn hex(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |number, digit| match digit {
        b'0'..=b'9' => Some(number << 4 | u64::from(digit - b'0')),
        b'a'..=b'f' => Some(number << 4 | u64::from(digit - b'a' + 10)),
        _ => None,
    })
}

/// Returns the text of a content with one value; `None` if it is damaged.
#[cold]
pub(super) fn text(form: u8, content: &[u8]) -> Option<PackedText> {
    let mut text = PackedText::begin();
    match form {
        FORM_UUID => {
            let bytes: &[u8; 16] = content.try_into().ok()?;
            for (place, byte) in bytes.iter().enumerate() {
                if matches!(place, 4 | 6 | 8 | 10) {
                    text.push(b'-');
                }
                text.hex(u64::from(*byte), 2);
            }
        }
        FORM_TIME if content.len() == TIME_SIZE => {
            text.seconds(number(content));
            text.push(b'Z');
        }
        FORM_CSN if content.len() >= CSN_SIZE_MIN => {
            let mut csn = [0; CSN_SIZE_MAX];
            csn.get_mut(..content.len())?.copy_from_slice(content);
            let (time, rest) = csn.split_at(TIME_SIZE);
            let (micros_and_server, rest) = rest.split_at(4);
            let (count, modification) = rest.split_at(3);
            text.seconds(number(time));
            text.push(b'.');
            text.digits(number(micros_and_server) >> 12, 6);
            text.marks(b"Z#");
            text.hex(number(count), 6);
            text.push(b'#');
            text.hex(number(micros_and_server), 3);
            text.push(b'#');
            text.hex(number(modification), 6);
        }
        _ => return None,
    }
    Some(text)
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Returns the values of a *words* content as OCTET STRINGs, if it has one item that is a list.
#[inline(never)]
pub(super) fn encoded_words(content: &[u8]) -> Option<&'static [u8]> {
    let [octet] = content else { return None };
    match words::meaning(*octet)? {
        Meaning::List(list) => Some(list),
        Meaning::Word(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::entry::{
        AttributeRow, Content, EncodedAttribute, EntryRow, InlineValues, StoredEntry, plain,
    };
    use crate::model::rows::AttrId;

    const UUID: &str = "5e2a1f6e-0000-4000-8000-0000000000ff";
    const TIME: &str = "20261127231048Z";
    const CSN: &str = "20261127231048.123456Z#000000#001#000000";

    /// Returns the row of an entry with one attribute.
    fn row_of(values: &[InlineValue<'_>]) -> Vec<u8> {
        let mut entry = StoredEntry::default();
        entry.set(AttrId(3), Some(EncodedAttribute::inline(AttrId(3), values)));
        entry.encode()
    }

    fn only(row: &[u8]) -> AttributeRow<'_> {
        EntryRow::decode(row).unwrap().attributes().next().unwrap()
    }

    /// Stores the values, and returns the octets of their content. They come back as they are, also without packing and
    /// packed again.
    fn stored(values: &[InlineValue<'_>]) -> usize {
        let row = row_of(values);
        let plain = plain(&row).into_owned();
        let again = StoredEntry::of(&EntryRow::decode(&plain).unwrap()).encode();
        assert_eq!(again, row);
        for row in [&row, &plain] {
            let Content::Inline(found) = only(row).content else { panic!("not inline") };
            assert_eq!(found.count, values.len());
            let found: Vec<_> = found.iter().collect();
            assert_eq!(found.len(), values.len());
            for (found, value) in found.iter().zip(values) {
                assert_eq!(found.here(), value.here());
                assert!(value.here().is_some() || found == value);
            }
        }
        let Content::Inline(found) = only(&row).content else { panic!("not inline") };
        found.bytes.len()
    }

    fn size(values: &[&str]) -> usize {
        stored(&values.iter().map(|value| InlineValue::Here(value.as_bytes())).collect::<Vec<_>>())
    }

    #[test]
    fn values_take_fewer_octets_and_come_back() {
        let classes = ["top", "person", "organizationalPerson", "inetOrgPerson"];
        let cases: [(&[&str], usize); 22] = [
            (&[UUID], 16),
            (&[TIME], 5),
            (&["99991231235960Z"], 5),
            (&["00000000000000Z"], 5),
            (&[CSN], 9),
            (&["20261127231048.999999Z#000001#fff#000000"], 12),
            (&["20261127231048.000000Z#000000#000#0000ff"], 15),
            (&["20261127231048.000000Z#ffffff#000#ff0000"], 13),
            (&classes, 1),
            (
                &[classes[0], classes[1], classes[2], classes[3], "posixAccount", "vendorPerson", "account"],
                16,
            ),
            (&["person", "top"], 2),
            (&["cn=admin"], 1),
            // Other spellings, and times without such bits.
            (&["5E2A1F6E-0000-4000-8000-0000000000FF"], 38),
            (&["5e2a1f6e00000-4000-8000-0000000000ff"], 38),
            (&["20269927231048Z"], 17),
            (&["2026112723104Z0"], 17),
            (&["20261127231048z"], 17),
            (&["20261127231048.123456Z#00000A#001#000000"], 42),
            (&["20261127231048.123456Z#000000.001#000000"], 42),
            (&["Top"], 5),
            (&[UUID, TIME], 38 + 17),
            (&[""], 2),
        ];
        for (values, expected) in cases {
            assert_eq!(size(values), expected, "{values:?}");
        }
    }

    #[test]
    fn random_values_come_back() {
        let mut rng = fastrand::Rng::with_seed(217);
        let models =
            [UUID, TIME, CSN, "top", "person", "organizationalPerson", "inetOrgPerson", "account", "x"];
        for _ in 0..20_000 {
            let count = if rng.bool() { 1 } else { rng.usize(1..7) };
            let texts: Vec<Vec<u8>> = std::iter::repeat_with(|| {
                let mut text = models[rng.usize(..models.len())].as_bytes().to_vec();
                for _ in 0..[0, 0, 1, 9][rng.usize(..4)] {
                    let (place, octets) = (rng.usize(..text.len()), b"0123456789abcdefF.-#Z\xff");
                    text[place] = octets[rng.usize(..octets.len())];
                }
                text
            })
            .take(count)
            .collect();
            let value = |text| {
                if rng.u8(..9) == 0 { InlineValue::Elsewhere([4; 16]) } else { InlineValue::Here(text) }
            };
            let values: Vec<_> = texts.iter().map(Vec::as_slice).map(value).collect();
            stored(&values);
        }
    }

    /// Entries of random attributes, which random changes splice. In between, the row is written in the version
    /// without packed values, or read again.
    #[test]
    fn random_splices_keep_the_values_of_a_model() {
        let mut rng = fastrand::Rng::with_seed(219);
        let texts =
            [UUID, TIME, CSN, "top", "person", "organizationalPerson", "inetOrgPerson", "cn=admin", "x", ""];
        for _ in 0..500 {
            let mut model: Vec<(AttrId, Vec<&str>)> = Vec::new();
            let mut row = StoredEntry::default().encode();
            for _ in 0..30 {
                if rng.bool() {
                    row = plain(&row).into_owned();
                }
                let mut entry = StoredEntry::of(&EntryRow::decode(&row).unwrap());
                for _ in 0..rng.usize(..3) {
                    let id = AttrId([rng.u32(..8), 130, 70_000][rng.usize(..3)]);
                    let count = rng.usize(..5);
                    let values: Vec<&str> =
                        std::iter::repeat_with(|| texts[rng.usize(..texts.len())]).take(count).collect();
                    let inline: Vec<_> =
                        values.iter().map(|text| InlineValue::Here(text.as_bytes())).collect();
                    let place = model.iter().position(|(known, _)| *known == id);
                    entry.set(id, (count > 0).then(|| EncodedAttribute::inline(id, &inline)));
                    match place {
                        Some(place) if count == 0 => drop(model.remove(place)),
                        Some(place) => model[place].1 = values,
                        None if count > 0 => model.push((id, values)),
                        None => {}
                    }
                }
                row = entry.encode();
                let read = EntryRow::decode(&row).unwrap();
                let found: Vec<_> = read.attributes().map(|row| (row.id, texts_of(row.content))).collect();
                let expected = model.iter().map(|(id, values)| {
                    (*id, values.iter().map(|value| value.as_bytes().to_vec()).collect::<Vec<_>>())
                });
                assert_eq!(found, expected.collect::<Vec<_>>());
            }
        }
    }

    fn texts_of(content: Content<'_>) -> Vec<Vec<u8>> {
        let Content::Inline(values) = content else { panic!("not inline") };
        values.iter().map(|value| value.here().unwrap().to_vec()).collect()
    }

    /// Whatever a damaged content is, reading it ends.
    #[test]
    fn random_contents_are_read_to_an_end() {
        let mut rng = fastrand::Rng::with_seed(218);
        for _ in 0..20_000 {
            let len = rng.usize(..40);
            let content: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(len).collect();
            let form = rng.u8(FORM_UUID..12);
            let values = InlineValues { count: 1, form, bytes: &content };
            assert!(values.iter().count() <= 5 * content.len() + 1);
        }
    }
}
