//! Packed contents, which take fewer octets than their values.
//!
//! Most entries have an entryUUID, an entryCSN, two times and the same object classes. A row contains these values in
//! special forms. Their texts are built when the values are read:
//!
//! - *uuid*: one value, a UUID in lower case (RFC 9562 section 4), in 16 octets
//! - *time*: one value `YYYYmmddHHMMSSZ`, in 5 octets: 14 bits for the year, 4 for the month, 5 for the day, 5 for the
//!   hour, 6 for the minute and 6 for the second
//! - *csn*: one value `YYYYmmddHHMMSS.uuuuuuZ#oooooo#sss#mmmmmm`, in 9 to 15 octets: a time, 20 bits for the
//!   microseconds, 12 for the server, 24 for the count and 24 for the modification number; zero octets at the end of
//!   the last two fields are omitted
//! - *words*: a sequence of items. An item is an OCTET STRING, a reference, or an [octet](super::words) that represents
//!   one value or several.
//!
//! The form depends only on the values, not on the attribute. Values are packed only if unpacking restores exactly the
//! same octets. A value in another spelling is stored unchanged.

use super::words;
use super::{FORM_CSN, FORM_TIME, FORM_UUID, FORM_WORDS, InlineValue, put_value};

/// Longest text of a packed value.
const TEXT_LEN_MAX: usize = CSN_LEN;

const UUID_LEN: usize = 36;
const TIME_LEN: usize = 15;
const CSN_LEN: usize = 40;

/// Length of `YYYYmmddHHMMSS`.
const SECONDS_LEN: usize = 14;

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

    /// Returns the text that consists of these parts.
    #[inline(always)]
    fn of<const COUNT: usize>(parts: [&[u8]; COUNT]) -> PackedText {
        let (mut bytes, mut len) = ([0; TEXT_LEN_MAX], 0);
        for part in parts {
            if let Some(place) = bytes.get_mut(len..len + part.len()) {
                place.copy_from_slice(part);
                len += part.len();
            }
        }
        PackedText { bytes, len: last_octet(len as u64) }
    }
}

fn last_octet(number: u64) -> u8 {
    number.to_le_bytes()[0]
}

/// Eight octets with the value 1.
const EACH: u64 = 0x0101_0101_0101_0101;

/// Returns the four numbers below 100 that eight decimal digits denote; `None` if an octet is not a digit.
#[inline(always)]
fn pairs(digits: [u8; 8]) -> Option<[u64; 4]> {
    let digits = u64::from_le_bytes(digits) ^ (EACH * 0x30);
    // Adding 0x76 sets the high bit of an octet that is above 9.
    if (digits.wrapping_add(EACH * 0x76) | digits) & (EACH * 0x80) != 0 {
        return None;
    }
    let pairs = digits * 10 + (digits >> 8);
    Some([0, 16, 32, 48].map(|shift| pairs >> shift & 0xff))
}

/// Returns the two decimal digits of a number below 100.
#[inline(always)]
fn pair(number: u64) -> [u8; 2] {
    [b'0' + last_octet(number / 10), b'0' + last_octet(number % 10)]
}

/// Returns the four octets that eight hexadecimal digits denote; `None` if an octet is not a digit in lower case.
#[inline(always)]
fn octets(digits: [u8; 8]) -> Option<[u8; 4]> {
    let text = u64::from_le_bytes(digits);
    // Letters have bit 6. The low four bits of a letter are its value minus 9.
    let numbers = (text & (EACH * 0x0f)) + (text >> 6 & EACH) * 9;
    if digits_of(numbers) != text {
        return None;
    }
    let [first, _, second, _, third, _, fourth, _] = (numbers << 4 | numbers >> 8).to_le_bytes();
    Some([first, second, third, fourth])
}

/// Returns the eight hexadecimal digits of four octets, in lower case.
#[inline(always)]
fn hex([first, second, third, fourth]: [u8; 4]) -> [u8; 8] {
    let octets = u64::from_le_bytes([first, 0, second, 0, third, 0, fourth, 0]);
    let low = octets & 0x000f_000f_000f_000f;
    digits_of((octets >> 4 & 0x000f_000f_000f_000f) | low << 8).to_le_bytes()
}

/// Returns the hexadecimal digits of eight numbers below 25. For numbers above 15, the results are not digits.
#[inline(always)]
fn digits_of(numbers: u64) -> u64 {
    let letters = (numbers + EACH * 0x76) >> 7 & EACH;
    numbers + EACH * 0x30 + letters * 0x27
}

/// Returns the digits with leading zeros, eight digits in total.
#[inline(always)]
fn padded<const COUNT: usize>(digits: &[u8; COUNT]) -> [u8; 8] {
    let mut all = [b'0'; 8];
    if let Some(last) = all.last_chunk_mut() {
        *last = *digits;
    }
    all
}

/// Appends values in a packed form, and returns the form. Returns `None` and appends nothing if the values cannot be
/// packed.
#[inline]
pub(super) fn put(out: &mut Vec<u8>, values: &[InlineValue<'_>]) -> Option<u8> {
    if let [value] = values {
        return put_single(out, value.here()?);
    }
    values.iter().any(|value| word(value).is_some()).then(|| {
        put_words(out, values);
        FORM_WORDS
    })
}

#[inline]
fn put_single(out: &mut Vec<u8>, value: &[u8]) -> Option<u8> {
    if let UUID_LEN | TIME_LEN | CSN_LEN = value.len()
        && let Some(form) = put_text(out, value)
    {
        return Some(form);
    }
    out.push(words::octet_of(value)?);
    Some(FORM_WORDS)
}

fn put_text(out: &mut Vec<u8>, value: &[u8]) -> Option<u8> {
    match value.len() {
        UUID_LEN => {
            out.extend_from_slice(uuid(value.first_chunk()?)?.as_flattened());
            Some(FORM_UUID)
        }
        TIME_LEN => {
            let [_, _, _, time @ ..] = time(value.strip_suffix(b"Z")?.first_chunk()?)?.to_be_bytes();
            out.extend_from_slice(&time);
            Some(FORM_TIME)
        }
        CSN_LEN => {
            let [csn @ .., _] = csn(value.first_chunk()?)?.to_be_bytes();
            let spare = csn.iter().rev().take(CSN_SIZE_MAX - CSN_SIZE_MIN);
            let zeros = spare.take_while(|octet| **octet == 0).count();
            out.extend_from_slice(csn.get(..CSN_SIZE_MAX - zeros)?);
            Some(FORM_CSN)
        }
        _ => None,
    }
}

fn word(value: &InlineValue<'_>) -> Option<u8> {
    value.here().and_then(words::octet_of)
}

fn put_words(out: &mut Vec<u8>, values: &[InlineValue<'_>]) {
    let (octet, count) = words::list_of(values).unzip();
    out.extend(octet);
    for value in values.iter().skip(count.unwrap_or(0)) {
        match word(value) {
            Some(octet) => out.push(octet),
            None => put_value(out, value),
        }
    }
}

/// Returns the octets of a UUID; `None` if the text is not a UUID in lower case.
#[inline]
fn uuid(text: &[u8; UUID_LEN]) -> Option<[[u8; 4]; 4]> {
    let (first, rest) = text.split_first_chunk::<8>()?;
    let (second, rest) = rest.strip_prefix(b"-")?.split_first_chunk::<4>()?;
    let (third, rest) = rest.strip_prefix(b"-")?.split_first_chunk::<4>()?;
    let (fourth, rest) = rest.strip_prefix(b"-")?.split_first_chunk::<4>()?;
    let (fifth, rest) = rest.strip_prefix(b"-")?.split_first_chunk::<4>()?;
    let joined = |[a, b, c, d]: [u8; 4], [e, f, g, h]: [u8; 4]| octets([a, b, c, d, e, f, g, h]);
    Some([octets(*first)?, joined(*second, *third)?, joined(*fourth, *fifth)?, octets(*rest.first_chunk()?)?])
}

/// Returns the packed bits of a time `YYYYmmddHHMMSS`; `None` if an octet is not a digit, or if a field exceeds its
/// bits.
#[inline]
fn time(text: &[u8; SECONDS_LEN]) -> Option<u64> {
    let [century, year, month, day] = pairs(*text.first_chunk()?)?;
    let [_, hour, minute, second] = pairs(*text.last_chunk()?)?;
    if month >> 4 | day >> 5 | hour >> 5 | minute >> 6 | second >> 6 != 0 {
        return None;
    }
    Some((century * 100 + year) << 26 | month << 22 | day << 17 | hour << 12 | minute << 6 | second)
}

/// Returns the text `YYYYmmddHHMMSS` of the packed bits of a time.
#[inline]
fn seconds(time: u64) -> [[u8; 2]; 7] {
    let (year, bits) = (time >> 26, |shift: u32, bits: u32| time >> shift & ((1 << bits) - 1));
    let date = [year / 100 % 100, year % 100, bits(22, 4), bits(17, 5)];
    let [century, year, month, day] = date.map(pair);
    let [hour, minute, second] = [bits(12, 5), bits(6, 6), bits(0, 6)].map(pair);
    [century, year, month, day, hour, minute, second]
}

/// Returns the packed bits of a CSN, followed by eight zero bits; `None` if the text has another form.
fn csn(text: &[u8; CSN_LEN]) -> Option<u128> {
    let (seconds, rest) = text.split_first_chunk()?;
    let (micros, rest) = rest.strip_prefix(b".")?.split_first_chunk::<6>()?;
    let (count, rest) = rest.strip_prefix(b"Z#")?.split_first_chunk::<6>()?;
    let (server, rest) = rest.strip_prefix(b"#")?.split_first_chunk::<3>()?;
    let modification = rest.strip_prefix(b"#")?.first_chunk::<6>()?;
    let [_, high, middle, low] = pairs(padded(micros))?;
    let number = |digits| octets(digits).map(|octets| u128::from(u32::from_be_bytes(octets)));
    let micros = u128::from(high * 10_000 + middle * 100 + low);
    let head = u128::from(time(seconds)?) << 32 | micros << 12 | number(padded(server))?;
    Some((head << 48 | number(padded(count))? << 24 | number(padded(modification))?) << 8)
}

/// Returns the text of a packed content with one value; `None` if the content is damaged.
#[inline(never)]
pub(super) fn text(form: u8, content: &[u8]) -> Option<PackedText> {
    match form {
        FORM_UUID => uuid_text(content.try_into().ok()?),
        FORM_TIME => {
            let [a, b, c, d, e]: [u8; TIME_SIZE] = content.try_into().ok()?;
            let seconds = seconds(u64::from_be_bytes([0, 0, 0, a, b, c, d, e]));
            Some(PackedText::of([seconds.as_flattened(), b"Z"]))
        }
        FORM_CSN if content.len() >= CSN_SIZE_MIN => {
            let mut csn = [0; CSN_SIZE_MAX];
            csn.get_mut(..content.len())?.copy_from_slice(content);
            Some(csn_text(csn))
        }
        _ => None,
    }
}

fn uuid_text(octets: &[u8; 16]) -> Option<PackedText> {
    let (octets, _) = octets.as_chunks::<4>();
    let [first, second, third, fourth] = octets else { return None };
    let (second, third) = (hex(*second), hex(*third));
    let ((a, b), (c, d)) = (second.split_at(4), third.split_at(4));
    Some(PackedText::of([&hex(*first), b"-", a, b"-", b, b"-", c, b"-", d, &hex(*fourth)]))
}

fn csn_text(csn: [u8; CSN_SIZE_MAX]) -> PackedText {
    let [a, b, c, d, e, f, g, h, i, count @ .., m, n, o] = csn;
    let seconds = seconds(u64::from_be_bytes([0, 0, 0, a, b, c, d, e]));
    let micros = u64::from(u32::from_be_bytes([0, f, g, h]) >> 4);
    let micros = [micros / 10_000 % 100, micros / 100 % 100, micros % 100].map(pair);
    let [j, k, l] = count;
    let (count, server, modification) = (hex([0, j, k, l]), hex([0, 0, h & 0x0f, i]), hex([0, m, n, o]));
    PackedText::of([
        seconds.as_flattened(),
        b".",
        micros.as_flattened(),
        b"Z#",
        count.split_at(2).1,
        b"#",
        server.split_at(5).1,
        b"#",
        modification.split_at(2).1,
    ])
}

/// Returns the values of a *words* content of one octet, as OCTET STRINGs; `None` for any other content.
#[inline(never)]
pub(super) fn encoded_words(content: &[u8]) -> Option<&'static [u8]> {
    let [octet] = content else { return None };
    words::values_of(*octet)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::entry::{
        AttributeRow, CHECKED_FROM, Content, EncodedAttribute, EntryRow, InlineValues, OctetStrings,
        StoredEntry, plain,
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

    fn only_attribute(row: &[u8]) -> AttributeRow<'_> {
        EntryRow::decode(row).unwrap().attributes().next().unwrap()
    }

    /// Stores the values, and returns the size of their content in octets. Checks that the row returns the same values,
    /// with and without packing. Packing the values again must restore the row.
    fn stored_size(values: &[InlineValue<'_>]) -> usize {
        let row = row_of(values);
        let plain = plain(&row).into_owned();
        let again = StoredEntry::of(&EntryRow::decode(&plain).unwrap()).encode();
        assert_eq!(again, row);
        for row in [&row, &plain] {
            let Content::Inline(found) = only_attribute(row).content else { panic!("not inline") };
            assert_eq!(found.count, values.len());
            let found: Vec<_> = found.iter().collect();
            assert_eq!(found.len(), values.len());
            for (found, value) in found.iter().zip(values) {
                assert_eq!(found.here(), value.here());
                assert!(value.here().is_some() || found == value);
            }
        }
        let Content::Inline(found) = only_attribute(&row).content else { panic!("not inline") };
        found.bytes.len()
    }

    fn size(values: &[&str]) -> usize {
        stored_size(&values.iter().map(|value| InlineValue::Here(value.as_bytes())).collect::<Vec<_>>())
    }

    #[test]
    fn packed_values_take_fewer_octets_and_round_trip() {
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
            // Values in other spellings, and times whose fields exceed their bits, are not packed.
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
    fn random_values_round_trip() {
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
                if rng.u8(..9) == 0 { InlineValue::Reference([4; 16]) } else { InlineValue::Here(text) }
            };
            let values: Vec<_> = texts.iter().map(Vec::as_slice).map(value).collect();
            stored_size(&values);
        }
    }

    /// Random changes set and remove attributes of a row. Between the changes, the row is sometimes converted to the
    /// version without packed values.
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

    /// A damaged content has a limited number of values.
    #[test]
    fn random_contents_have_a_limited_number_of_values() {
        let mut rng = fastrand::Rng::with_seed(218);
        for _ in 0..20_000 {
            let len = rng.usize(..40);
            let content: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(len).collect();
            let form = rng.u8(FORM_UUID..12);
            let values = InlineValues { count: 1, form, bytes: &content };
            assert!(values.iter().count() <= 5 * content.len() + 1);
        }
    }

    /// Returns the values of each attribute. Checks that a search result receives the same values.
    fn all_values(row: &EntryRow<'_>) -> Vec<(AttrId, Vec<Option<Vec<u8>>>)> {
        let mut attributes = row.attributes();
        let all = std::iter::from_fn(|| attributes.next_located()).map(|(id, located)| {
            let Content::Inline(values) = located.content() else { return (id, Vec::new()) };
            let values: Vec<_> = values.iter().map(|value| value.here().map(<[u8]>::to_vec)).collect();
            if let (FORM_WORDS, Some(encoded)) = (located.form, located.encoded()) {
                let copied = OctetStrings(encoded).map(|value| Some(value.to_vec()));
                assert_eq!(copied.collect::<Vec<_>>(), values);
            }
            (id, values)
        });
        all.collect()
    }

    /// Rows with random damage and a correct checksum have a limited number of values. The values stay the same if the
    /// row is unpacked and packed again.
    #[test]
    fn damaged_rows_have_a_limited_number_of_values() {
        let mut rng = fastrand::Rng::with_seed(220);
        let contents: [&[&str]; 7] =
            [&[UUID], &[TIME], &[CSN], &["top"], &["top", "person", "x", "person"], &["other"], &[""]];
        let mut entry = StoredEntry::default();
        for (id, texts) in (0..).map(AttrId).zip(contents) {
            let values: Vec<_> = texts.iter().map(|text| InlineValue::Here(text.as_bytes())).collect();
            entry.set(id, Some(EncodedAttribute::inline(id, &values)));
        }
        let mixed = [InlineValue::Here(b"top"), InlineValue::Reference([4; 16])];
        entry.set(AttrId(200), Some(EncodedAttribute::inline(AttrId(200), &mixed)));
        let good = entry.encode();
        let mut read_count = 0;
        for _ in 0..20_000 {
            let mut row = good.clone();
            for _ in 0..rng.usize(1..6) {
                let place = rng.usize(CHECKED_FROM..row.len());
                row[place] = rng.u8(..);
            }
            let crc = crc32c::crc32c(&row[CHECKED_FROM..]);
            row[1..CHECKED_FROM].copy_from_slice(&crc.to_le_bytes());
            let Some(read) = EntryRow::decode(&row) else { continue };
            read_count += 1;
            let values = all_values(&read);
            assert!(values.iter().map(|(_, values)| values.len()).sum::<usize>() <= 5 * row.len());
            let plain = plain(&row);
            let plain = EntryRow::decode(&plain).unwrap();
            assert_eq!(all_values(&plain), values);
            for entry in [StoredEntry::of(&read), StoredEntry::of(&plain)] {
                let again = entry.encode();
                assert_eq!(all_values(&EntryRow::decode(&again).unwrap()), values);
            }
        }
        assert!(read_count > 10_000);
    }
}
