//! Emits the rows of an entry that has passed every check.
//!
//! The entry row is final, because it does not depend on the entry's place in the tree or on the targets of its links.
//! Rows of `values`, `index` and `classes` are final, too. These rows are dropped later if the entry has no place in
//! the tree.

use schema::Schema;

use super::job::ImportError;
use super::prepare::{CheckedEntry, PreparedRows, Preparer, RecordPlace};
use super::resolved::ResolvedAttribute;
use super::sorters::Rows;
use crate::catalog::AttributeDef;
use crate::index::keys::for_each_row;
use crate::model::codec::{Decoder, put_bytes, put_varint};
use crate::model::entry::{InlineValue, RowWriter};
use crate::model::limits::{INLINE_VALUE_COUNT_MAX, INLINE_VALUE_MAX};
use crate::model::name::name_in;
use crate::model::rows::{
    CLASSES, ClassSetId, EntryId, INDEX, NodeFlags, VALUES, class_key, put_index_key, value_counter,
    value_hash, value_key,
};
use crate::model::value_end::EndingValue;

type Result<T> = std::result::Result<T, ImportError>;

impl Preparer<'_> {
    /// Makes the rows of the entry in the draft.
    pub(super) fn emit(
        &mut self,
        checked: &CheckedEntry,
        place: RecordPlace,
        prepared: &mut PreparedRows,
    ) -> Result<()> {
        let id = checked.id;
        let mut row = RowWriter::begin(std::mem::take(&mut prepared.rows), self.job.position);
        for number in 0..self.draft.attributes().len() {
            self.emit_attribute(id, number, &mut row)?;
        }
        prepared.rows = row.finish();
        prepared.ends.push((id, prepared.rows.len()));
        let CheckedEntry { name, rdn, class_set, flags, placed, .. } = checked;
        let rdn_start = name.ends.iter().rev().nth(1).copied().unwrap_or(0);
        self.sorters.names.entry(&name.key, id, *flags, rdn_start, placed.as_ref())?;
        self.sorters.rows.id(CLASSES, &class_key(*class_set), id)?;
        NodeItem { id, class_set: *class_set, flags: *flags, rdn, place }.encode(&mut prepared.nodes);
        Ok(())
    }

    /// Makes the rows of the attribute with this number in the draft.
    #[expect(clippy::indexing_slicing, reason = "the number is of one of the attributes of the draft")]
    fn emit_attribute(&mut self, id: EntryId, number: usize, row: &mut RowWriter) -> Result<()> {
        let attribute = &self.draft.attributes()[number];
        let resolved = self.resolved.at(attribute.place);
        let def = &resolved.def;
        let count = self.draft.value_count(number);
        let mut values = self.draft.values(attribute);
        let rows = &mut self.sorters.rows;
        if count == 0 {
            return Ok(());
        }
        if def.is_link {
            row.links(def.id);
            rows.count(&value_counter(id, def.id), count as i64)?;
            let until = |place| match self.ends.is_empty() {
                true => 0,
                false => self.ends.get(&(attribute.place, place)).copied().unwrap_or(0),
            };
            return values.enumerate().try_for_each(|(place, value)| {
                self.job.emit_link(&mut self.sorters, (def, id), value, until(place))
            });
        }
        if resolved.has_value_rows {
            values.clone().try_for_each(|(_, normal)| {
                rows.id_with(INDEX, id, |key| put_index_key(def.base, normal, key))
            })?;
        }
        if !resolved.other_parts.is_empty() {
            values
                .clone()
                .try_for_each(|(value, _)| emit_pieces(&self.job.schema, resolved, value, id, rows))?;
        }
        if count > INLINE_VALUE_COUNT_MAX {
            row.table(def.id);
            rows.count(&value_counter(id, def.id), count as i64)?;
            values
                .try_for_each(|(value, normal)| rows.plain(VALUES, &value_key(id, def.id, normal), value))?;
            return Ok(());
        }
        // Most attributes have one value, for which nothing is allocated.
        if count == 1
            && let Some((value, _)) = values.clone().next()
            && value.len() <= INLINE_VALUE_MAX
        {
            row.inline(def.id, &[InlineValue::Here(value)]);
            return Ok(());
        }
        let mut inline = Vec::with_capacity(count);
        for (value, _) in values {
            if value.len() <= INLINE_VALUE_MAX {
                inline.push(InlineValue::Here(value));
                continue;
            }
            let hash = value_hash(value);
            rows.plain(VALUES, &value_key(id, def.id, &hash), value)?;
            inline.push(InlineValue::Reference(hash));
        }
        row.inline(def.id, &inline);
        Ok(())
    }
}

impl super::Job {
    /// Adds a value of a link attribute to a sorter. The sorter of names receives the name. If the value can never
    /// become a link, the sorter of rows receives the text of the value instead. `until` is the end time of the value,
    /// 0 for none.
    pub(super) fn emit_link(
        &self,
        sorters: &mut super::Sorters,
        (def, source): (&AttributeDef, EntryId),
        (value, normal): (&[u8], &[u8]),
        until: u64,
    ) -> Result<()> {
        match name_in(&self.schema, value) {
            Some(name) => sorters.names.link(&name.key, (source, def.id), value, until)?,
            None => {
                sorters.rows.plain(VALUES, &value_key(source, def.id, normal), value)?;
                sorters.rows.end((source, def.id), EndingValue::Text(normal), until)?;
            }
        }
        Ok(())
    }
}

/// Makes the rows of all index parts except normal values.
pub(super) fn emit_pieces(
    schema: &Schema,
    resolved: &ResolvedAttribute,
    value: &[u8],
    id: EntryId,
    rows: &mut Rows,
) -> Result<()> {
    let mut outcome = Ok(());
    for_each_row(schema, &resolved.def, resolved.other_parts, value, &mut |part, key| {
        if outcome.is_ok() {
            outcome = rows.id(part.map(), key, id);
        }
    });
    Ok(outcome?)
}

/// Fields of an entry for its row in `nodes`, except the superior. Also contains the place of the entry's record in
/// the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeItem<'a> {
    pub(super) id: EntryId,
    pub(super) class_set: ClassSetId,
    pub(super) flags: NodeFlags,
    pub(super) rdn: &'a str,
    pub(super) place: RecordPlace,
}

impl<'a> NodeItem<'a> {
    /// Appends the item, preceded by its length.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let mut item = Vec::with_capacity(40 + self.rdn.len());
        put_varint(&mut item, self.id.0);
        put_varint(&mut item, u64::from(self.class_set.0));
        item.push(self.flags.0);
        put_bytes(&mut item, self.rdn.as_bytes());
        for number in [u64::from(self.place.source), self.place.offset, self.place.length, self.place.line] {
            put_varint(&mut item, number);
        }
        #[expect(clippy::cast_possible_truncation, reason = "an RDN is far shorter than 4 GiB")]
        out.extend_from_slice(&(item.len() as u32).to_le_bytes());
        out.extend_from_slice(&item);
    }

    /// Decodes an item, without its length.
    pub(super) fn decode(bytes: &'a [u8]) -> Option<NodeItem<'a>> {
        let mut decoder = Decoder(bytes);
        Some(NodeItem {
            id: EntryId(decoder.varint()?),
            class_set: ClassSetId(decoder.number()?),
            flags: NodeFlags(decoder.byte()?),
            rdn: decoder.str()?,
            place: RecordPlace {
                source: decoder.number()?,
                offset: decoder.varint()?,
                length: decoder.varint()?,
                line: decoder.varint()?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_items_round_trip() {
        let item = NodeItem {
            id: EntryId(70_000),
            class_set: ClassSetId(3),
            flags: NodeFlags(2),
            rdn: "cn=Ærø",
            place: RecordPlace { source: 1, offset: 1 << 40, length: 700, line: 12 },
        };
        let mut bytes = Vec::new();
        item.encode(&mut bytes);
        let (length, encoded) = bytes.split_at(4);
        assert_eq!(u32::from_le_bytes(length.try_into().unwrap()) as usize, encoded.len());
        assert_eq!(NodeItem::decode(encoded), Some(item));
        assert_eq!(NodeItem::decode(&encoded[..5]), None);
    }
}
