//! The value of the matched values control (RFC 3876 section 2).

use ber::{Reader, Tag, Writer};

use crate::limits::MATCHED_ITEMS_MAX;
use crate::{DecodeLimits, Filter, FilterKind};

/// Decodes the items of the control. The search returns only values that match at least one of these items. Returns
/// `None` if the value is malformed, has an item that RFC 3876 does not permit, or has no items or more than
/// [`MATCHED_ITEMS_MAX`] items.
pub fn decode_matched_values(value: &[u8]) -> Option<Vec<Filter<'_>>> {
    let mut reader = Reader::new(value);
    let mut list = reader.sequence(Tag::SEQUENCE).ok()?;
    let mut items = Vec::new();
    while !list.is_empty() && items.len() <= MATCHED_ITEMS_MAX {
        let item = Filter::decode(&mut list, &DecodeLimits::default()).ok()?;
        let is_simple = match item.kind() {
            FilterKind::And(_) | FilterKind::Or(_) | FilterKind::Not(_) | FilterKind::Unrecognized(_) => {
                false
            }
            // RFC 3876 does not permit dnAttributes, because values in the entry's DN are not attribute values that
            // could be returned.
            FilterKind::ExtensibleMatch(item) => !item.dn_attributes,
            _ => true,
        };
        if !is_simple {
            return None;
        }
        items.push(item);
    }
    (reader.is_empty() && !items.is_empty() && items.len() <= MATCHED_ITEMS_MAX).then_some(items)
}

/// Encodes the value of a request for the values that match at least one of these items.
pub fn encode_matched_values<'f>(items: impl IntoIterator<Item = Filter<'f>>) -> Vec<u8> {
    let mut encoded = Vec::new();
    items.into_iter().for_each(|item| item.encode(&mut encoded));
    let mut value = Vec::new();
    Writer::new(&mut value).element(Tag::SEQUENCE, &encoded);
    value
}
