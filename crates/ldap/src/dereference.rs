//! The values of the dereference control (draft-masarati-ldap-deref-00 sections 2.2 and 2.3).

use ber::{Reader, Tag, Writer, element_len, put_element, put_header};

use crate::control::text;
use crate::limits::DEREFERENCED_MAX;

/// Tag of the attributes of the named entry (`PartialAttributeList`).
const ATTRIBUTES: Tag = Tag::context_constructed(0);

/// An attribute whose values name entries, and the attributes to return of these entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DereferenceSpec<'a> {
    /// Description of the attribute whose values are DNs.
    pub attribute: &'a str,
    /// Descriptions of the attributes to return of the named entries.
    pub wanted: Vec<&'a str>,
}

impl<'a> DereferenceSpec<'a> {
    /// Decodes the value of a request control; returns `None` if it is malformed, or has no descriptions, or more than
    /// [`DEREFERENCED_MAX`] descriptions.
    pub fn decode_list(value: &'a [u8]) -> Option<Vec<DereferenceSpec<'a>>> {
        let mut reader = Reader::new(value);
        let mut list = reader.sequence(Tag::SEQUENCE).ok()?;
        let (mut specs, mut count) = (Vec::new(), 0);
        while !list.is_empty() {
            let mut fields = list.sequence(Tag::SEQUENCE).ok()?;
            let attribute = text(fields.octet_string().ok()?)?;
            let mut names = fields.sequence(Tag::SEQUENCE).ok()?;
            let mut wanted = Vec::new();
            while !names.is_empty() {
                wanted.push(text(names.octet_string().ok()?)?);
                count += 1;
            }
            count += 1;
            if !fields.is_empty() || count > DEREFERENCED_MAX {
                return None;
            }
            specs.push(DereferenceSpec { attribute, wanted });
        }
        (reader.is_empty() && !specs.is_empty()).then_some(specs)
    }

    /// Encodes the value of a request control.
    pub fn encode_list(specs: &[DereferenceSpec<'_>]) -> Vec<u8> {
        let mut value = Vec::new();
        let mut writer = Writer::new(&mut value);
        let list = writer.begin(Tag::SEQUENCE);
        for spec in specs {
            let fields = writer.begin(Tag::SEQUENCE);
            writer.octet_string(spec.attribute.as_bytes());
            let wanted = writer.begin(Tag::SEQUENCE);
            spec.wanted.iter().for_each(|name| writer.octet_string(name.as_bytes()));
            writer.end(wanted);
            writer.end(fields);
        }
        writer.end(list);
        value
    }
}

/// Returns the size in octets of one `DerefRes`: an attribute, its value, and the encoded attributes of the entry that
/// the value names.
pub const fn dereferenced_len(attribute_len: usize, value_len: usize, attributes_len: usize) -> usize {
    element_len(content_len(attribute_len, value_len, attributes_len))
}

/// Appends a `DerefRes` without the attributes of the entry that `value` names. The caller appends these next, each
/// encoded as in a search result entry, `attributes_len` octets in total. If `attributes_len` is 0, the `DerefRes` is
/// complete.
pub fn put_dereferenced(out: &mut Vec<u8>, attribute: &str, value: &[u8], attributes_len: usize) {
    put_header(out, Tag::SEQUENCE, content_len(attribute.len(), value.len(), attributes_len));
    put_element(out, Tag::OCTET_STRING, attribute.as_bytes());
    put_element(out, Tag::OCTET_STRING, value);
    if attributes_len > 0 {
        put_header(out, ATTRIBUTES, attributes_len);
    }
}

/// Returns the size of the content of a `DerefRes`. An empty list of attributes is omitted (section 2.3).
const fn content_len(attribute_len: usize, value_len: usize, attributes_len: usize) -> usize {
    let attributes = if attributes_len == 0 { 0 } else { element_len(attributes_len) };
    element_len(attribute_len) + element_len(value_len) + attributes
}

/// Attributes of an entry that an attribute value names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dereferenced<'a> {
    /// The attribute.
    pub attribute: &'a str,
    /// Value of the attribute: a DN.
    pub value: &'a [u8],
    /// Requested attributes that the requester may see, with their values.
    pub attributes: Vec<(&'a str, Vec<&'a [u8]>)>,
}

impl<'a> Dereferenced<'a> {
    /// Decodes the value of a response control; returns `None` if it is malformed.
    pub fn decode_list(value: &'a [u8]) -> Option<Vec<Dereferenced<'a>>> {
        let mut reader = Reader::new(value);
        let mut list = reader.sequence(Tag::SEQUENCE).ok()?;
        let mut all = Vec::new();
        while !list.is_empty() {
            let mut fields = list.sequence(Tag::SEQUENCE).ok()?;
            let attribute = text(fields.octet_string().ok()?)?;
            let value = fields.octet_string().ok()?;
            let mut attributes = Vec::new();
            if let Some(content) = fields.optional(ATTRIBUTES).ok()? {
                let mut rest = Reader::new(content);
                while !rest.is_empty() {
                    let mut fields = rest.sequence(Tag::SEQUENCE).ok()?;
                    let name = text(fields.octet_string().ok()?)?;
                    let mut set = fields.sequence(Tag::SET).ok()?;
                    let mut values = Vec::new();
                    while !set.is_empty() {
                        values.push(set.octet_string().ok()?);
                    }
                    if !fields.is_empty() {
                        return None;
                    }
                    attributes.push((name, values));
                }
            }
            if !fields.is_empty() {
                return None;
            }
            all.push(Dereferenced { attribute, value, attributes });
        }
        reader.is_empty().then_some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_specified_encoding() {
        let specs = [
            DereferenceSpec { attribute: "member", wanted: vec!["uid", "cn"] },
            DereferenceSpec { attribute: "m", wanted: vec![] },
        ];
        let first = [&[0x30, 19, 4, 6][..], b"member", &[0x30, 9, 4, 3], b"uid", &[4, 2], b"cn"].concat();
        let second = [0x30, 5, 4, 1, b'm', 0x30, 0];
        let value = DereferenceSpec::encode_list(&specs);
        assert_eq!(value, [&[0x30, 28][..], &first, &second].concat());
        assert_eq!(DereferenceSpec::decode_list(&value).as_deref(), Some(&specs[..]));
        let many = [DereferenceSpec { attribute: "m", wanted: vec!["x"; DEREFERENCED_MAX] }];
        assert_eq!(DereferenceSpec::decode_list(&DereferenceSpec::encode_list(&many)), None);
        let cases: [&[u8]; 6] = [
            b"",
            &[0x30, 0],
            &[0x30, 2, 0x30, 0],
            // Invalid values: no list, trailing octets, an invalid name.
            &[0x30, 5, 0x30, 3, 4, 1, b'm'],
            &[0x30, 9, 0x30, 7, 4, 1, b'm', 0x30, 0, 5, 0],
            &[0x30, 10, 0x30, 8, 4, 1, b'm', 0x30, 3, 4, 1, 0xff],
        ];
        for value in cases {
            assert_eq!(DereferenceSpec::decode_list(value), None, "{value:02x?}");
        }
    }

    #[test]
    fn responses_have_the_specified_encoding() {
        let uid = [0x30, 10, 4, 3, b'u', b'i', b'd', 0x31, 3, 4, 1, b'a'];
        let mut items = Vec::new();
        put_dereferenced(&mut items, "m", b"cn=a", uid.len());
        items.extend_from_slice(&uid);
        assert_eq!(items.len(), dereferenced_len(1, 4, uid.len()));
        put_dereferenced(&mut items, "m", b"cn=b", 0);
        assert_eq!(items.len(), dereferenced_len(1, 4, uid.len()) + dereferenced_len(1, 4, 0));
        let mut value = Vec::new();
        put_element(&mut value, Tag::SEQUENCE, &items);
        let expected = [
            Dereferenced { attribute: "m", value: b"cn=a", attributes: vec![("uid", vec![&b"a"[..]])] },
            Dereferenced { attribute: "m", value: b"cn=b", attributes: vec![] },
        ];
        assert_eq!(Dereferenced::decode_list(&value).as_deref(), Some(&expected[..]));
        for cut in 1..value.len() {
            assert_eq!(Dereferenced::decode_list(&value[..cut]), None, "{cut}");
        }
    }
}
