//! Import of records too large for memory, such as a group with ten million members.
//!
//! The record is read twice, in chunks. The first pass counts the values of each attribute. The second pass adds the
//! values of small attributes to the draft. For large attributes the second pass makes rows immediately, because each
//! of their values has its own row anyway. A duplicate value of a large attribute is stored once and not refused,
//! because only the sorted rows reveal the duplicate.

use std::io::{self, Read};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ldap::ldif::{LdifBody, LdifReader};

use super::emit::emit_pieces;
use super::job::ImportError;
use super::prepare::{Failure, PreparedRows, Preparer, RecordPlace, Refusal, RejectedRecord, refusal_of};
use super::resolved::ValueHandling;
use crate::model::limits::INLINE_VALUE_COUNT_MAX;
use crate::model::outcome::OperationError;
use crate::model::rows::{EntryId, INDEX, VALUES, index_key, value_key};
use crate::write::given_values::check_value;

/// Size of a chunk in bytes, unless a value is longer.
const PART_SIZE: usize = 1 << 20;

/// Maximum length of a line after unfolding, in bytes.
const LINE_SIZE_MAX: usize = 64 << 20;

/// A record too large for memory.
#[derive(Clone, Copy)]
pub struct LargeText<'t> {
    /// Number of the text that contains the record.
    pub source: u32,
    /// Offset of the record in its text, in bytes.
    pub offset: u64,
    /// Length of the record, in bytes.
    pub length: u64,
    /// Number of lines in the text before the record.
    pub line: u64,
    /// Id of the entry.
    pub id: u64,
    /// Opens the record for reading from its beginning.
    pub open: &'t dyn Fn() -> Box<dyn Read + 't>,
}

impl Preparer<'_> {
    /// Makes the rows of a record too large for memory.
    ///
    /// # Errors
    /// An error that ends the import. A rejected record does not end the import.
    pub fn prepare_large(&mut self, text: &LargeText<'_>) -> Result<PreparedRows, ImportError> {
        let mut prepared = self.begin(0);
        self.problems.lines_before = 0;
        self.statistics.records = 1;
        let id = EntryId(text.id);
        prepared.last_id = id;
        let place = RecordPlace {
            source: text.source,
            offset: text.offset,
            length: text.length,
            line: text.line + 1,
        };
        let checked = self.read_large(id, text).and_then(|dn| match self.finish(id, &dn) {
            Ok(Some(checked)) => Ok(checked),
            Ok(None) => Err(self.problems.refusal(place.line)),
            Err(other) => Err(Failure::Ended(other.into())),
        });
        match checked {
            Ok(_) if self.foreign_state.is_deleted => self.leave_out(id, &mut prepared),
            Ok(checked) => self.emit(&checked, place, &mut prepared)?,
            Err(Failure::Ended(error)) => return Err(error),
            Err(Failure::LeftOut) => self.leave_out(id, &mut prepared),
            Err(Failure::Refused(..)) if self.foreign_state.is_deleted => self.leave_out(id, &mut prepared),
            Err(Failure::Refused(refusal, line, reason)) => {
                // Mark the id as refused, because some rows of the record may already exist.
                prepared.refused.push(id);
                prepared.rejected.push(RejectedRecord {
                    place: RecordPlace { line, ..place },
                    refusal,
                    reason,
                });
            }
        }
        self.complete_statistics(&mut prepared);
        Ok(prepared)
    }

    /// Drops an entry that the other server has deleted. Some rows of the entry may already exist.
    fn leave_out(&mut self, id: EntryId, prepared: &mut PreparedRows) {
        self.statistics.deleted_entries += 1;
        prepared.refused.push(id);
    }

    /// Reads the record twice. During the second reading, the values go to the draft or become rows. Returns the
    /// entry's DN.
    fn read_large(&mut self, id: EntryId, text: &LargeText<'_>) -> Result<String, Failure> {
        let mut counts: Vec<usize> = Vec::new();
        self.for_each_value(text, &mut |preparer, description, _| {
            if let ValueHandling::Stored(place)
            | ValueHandling::State(place)
            | ValueHandling::Part(place, _)
            | ValueHandling::Ending(place, _) = preparer.resolved.find(preparer.job, description)?
            {
                counts.resize(counts.len().max(place + 1), 0);
                if let Some(count) = counts.get_mut(place) {
                    *count += 1;
                }
            }
            Ok(Ok(()))
        })?;
        self.begin_record();
        let mut normal = Vec::new();
        self.for_each_value(text, &mut |preparer, description, value| match preparer
            .resolved
            .find(preparer.job, description)?
        {
            named @ (ValueHandling::Stored(place)
            | ValueHandling::State(place)
            | ValueHandling::Part(place, _)
            | ValueHandling::Ending(place, _))
                if counts.get(place).is_some_and(|count| *count > INLINE_VALUE_COUNT_MAX)
                    && !preparer.resolved.at(place).is_user_password =>
            {
                preparer.statistics.state_options += u64::from(named == ValueHandling::State(place));
                let until = match named {
                    ValueHandling::Ending(_, until) => until,
                    ValueHandling::Part(_, is_last) => {
                        preparer.note_part(place, is_last);
                        0
                    }
                    _ => 0,
                };
                preparer.stream_value((id, place), (value, until), &mut normal)
            }
            _ => preparer.value(description, value).map(Ok),
        })
    }

    /// Checks a value of a large attribute, and makes the rows of the value.
    fn stream_value(
        &mut self,
        (id, place): (EntryId, usize),
        (value, until): (&[u8], u64),
        normal: &mut Vec<u8>,
    ) -> Result<Result<(), ImportError>, OperationError> {
        if until > 0 {
            self.count_end()?;
        }
        let resolved = self.resolved.at(place);
        let def = &resolved.def;
        let number = self.draft.attribute(place);
        normal.clear();
        check_value(&self.job.schema, &def.description, self.draft.value_count(number) + 1, value, normal)?;
        self.draft.add_streamed(number);
        let sorters = &mut self.sorters;
        if def.is_link {
            return Ok(self.job.emit_link(sorters, (def, id), (value, normal), until));
        }
        let result = (|| {
            if resolved.has_value_rows {
                sorters.rows.id(INDEX, &index_key(def.base, normal), id)?;
            }
            if !resolved.other_parts.is_empty() {
                emit_pieces(&self.job.schema, resolved, value, id, &mut sorters.rows)?;
            }
            sorters.rows.plain(VALUES, &value_key(id, def.id, normal), value)?;
            Ok(())
        })();
        Ok(result)
    }

    /// Passes every value of the record to `each`. Returns the entry's DN.
    fn for_each_value(&mut self, text: &LargeText<'_>, each: &mut Each<'_, Self>) -> Result<String, Failure> {
        let mut parts = Parts { input: (text.open)(), rest: Vec::new(), line: text.line, is_at_end: false };
        let (mut dn, mut part) = (None::<String>, Vec::new());
        loop {
            part.clear();
            // Each chunk is read as a separate record, with the DN of the first chunk.
            if let Some(dn) = &dn {
                part.extend_from_slice(format!("dn:: {}\n", STANDARD.encode(dn)).as_bytes());
            }
            let name_lines = u64::from(dn.is_some());
            let line = parts.line;
            if !parts.append_next(&mut part).map_err(|error| Failure::Ended(error.into()))? {
                break;
            }
            if part.len() > LINE_SIZE_MAX {
                let reason = format!("a line has more than {LINE_SIZE_MAX} bytes");
                return Err(Failure::Refused(Refusal::Bad, line + 1, reason));
            }
            let mut reader = LdifReader::with_record_size_max(part.as_slice(), part.len());
            let at = |number: u64| (line + number).saturating_sub(name_lines);
            let refused = |refusal, number, reason| Err(Failure::Refused(refusal, at(number), reason));
            let record = match reader.next_record() {
                Ok(Some(record)) => record,
                Ok(None) => continue,
                Err(error) => return refused(refusal_of(&error.kind), error.line, error.kind.to_string()),
            };
            let (LdifBody::Entry(values) | LdifBody::Add(values)) = record.body else {
                return refused(Refusal::Bad, record.line, super::prepare::IS_A_CHANGE.to_owned());
            };
            for value in values.iter() {
                match each(self, value.description, value.value) {
                    Ok(done) => done.map_err(Failure::Ended)?,
                    Err(error) => {
                        let added = self.problems.add(Some(at(value.line)), error);
                        added.map_err(|other| Failure::Ended(other.into()))?;
                        return Err(self.problems.refusal(at(value.line)));
                    }
                }
            }
            dn.get_or_insert_with(|| record.dn.to_owned());
        }
        Ok(dn.unwrap_or_default())
    }
}

/// Callback for a description and a value. The outer error refuses the record. The inner error ends the import.
type Each<'e, P> = dyn FnMut(&mut P, &str, &[u8]) -> Result<Result<(), ImportError>, OperationError> + 'e;

/// Reader of a record in chunks. Each chunk begins with a line that is not a continuation line.
struct Parts<'t> {
    input: Box<dyn Read + 't>,
    /// Bytes that were read after the end of the last chunk.
    rest: Vec<u8>,
    /// Number of lines before the next chunk.
    line: u64,
    is_at_end: bool,
}

impl Parts<'_> {
    /// Appends the next chunk. Returns false at the end of the record. If a line is longer than allowed, the chunk may
    /// end anywhere.
    #[expect(clippy::indexing_slicing, reason = "begin and end lie within the part")]
    fn append_next(&mut self, part: &mut Vec<u8>) -> io::Result<bool> {
        let begin = part.len();
        part.append(&mut self.rest);
        let end = loop {
            if self.is_at_end || part.len() > LINE_SIZE_MAX {
                break part.len();
            }
            let wanted = PART_SIZE.max(part.len());
            let read = (&mut self.input).take(wanted as u64).read_to_end(part)?;
            self.is_at_end = read < wanted;
            if self.is_at_end {
                break part.len();
            }
            let is_begin = |place: &usize| part[place - 1] == b'\n' && !matches!(part[*place], b' ' | b'\r');
            if let Some(end) = (begin + 1..part.len()).rev().find(is_begin) {
                break end;
            }
        };
        self.rest.extend_from_slice(&part[end..]);
        part.truncate(end);
        self.line += part[begin..].iter().filter(|byte| **byte == b'\n').count() as u64;
        Ok(part.len() > begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_begin_with_whole_lines_and_contain_all_input() {
        let mut text = Vec::new();
        for number in 0..200_000 {
            text.extend_from_slice(format!("member: cn=a{number},\n  o=x\n").as_bytes());
        }
        let mut parts =
            Parts { input: Box::new(text.as_slice()), rest: Vec::new(), line: 0, is_at_end: false };
        let (mut all, mut part, mut count) = (Vec::new(), Vec::new(), 0);
        while parts.append_next(&mut part).unwrap() {
            assert!(part.starts_with(b"member: "));
            all.append(&mut part);
            count += 1;
        }
        assert_eq!((all == text, parts.line), (true, 400_000));
        assert!(count > 3, "{count}");
    }
}
