//! Normal forms of stored values.

use schema::Schema;

use crate::catalog::AttributeDef;

/// Returns the normal form of a value. Values that are equal under the equality rule have the same normal form. Without
/// an equality rule, or if the rule cannot normalize the value, returns the value itself.
pub fn normal_value(schema: &Schema, def: &AttributeDef, value: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(value.len() + 8);
    put_normal_value(schema, def, value, &mut key);
    key
}

/// Appends the [normal form](normal_value) of a value.
pub(crate) fn put_normal_value(schema: &Schema, def: &AttributeDef, value: &[u8], out: &mut Vec<u8>) {
    let is_normalized = def.equality.is_some_and(|rule| rule.normalize(schema, value, out).is_ok());
    if !is_normalized {
        out.extend_from_slice(value);
    }
}
