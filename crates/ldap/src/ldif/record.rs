//! Records that borrow the reader's buffers, and their interpretation as entries and changes.

use std::ops::Range;

use super::{LdifError, LdifErrorKind};
use crate::{AttributesBuf, ChangeOperation, Control};

/// A record: an entry or a change. Borrows the reader's buffers until the next record is read.
#[derive(Clone, Copy, Debug)]
pub struct LdifRecord<'r> {
    /// Number of the `dn:` line, from 1.
    pub line: u64,
    /// The DN, unparsed.
    pub dn: &'r str,
    /// The controls to send with a change.
    pub controls: LdifControls<'r>,
    /// Contents of the record.
    pub body: LdifBody<'r>,
}

/// Contents of a record.
#[derive(Clone, Copy, Debug)]
pub enum LdifBody<'r> {
    /// An entry's content: a record without a change type.
    Entry(LdifValues<'r>),
    /// Add an entry with this content.
    Add(LdifValues<'r>),
    /// Delete the entry.
    Delete,
    /// Change the entry's attributes.
    Modify(LdifModifications<'r>),
    /// Rename or move the entry.
    ModifyDn {
        /// The new RDN, unparsed.
        new_rdn: &'r str,
        /// Whether to remove the values of the old RDN.
        delete_old_rdn: bool,
        /// The DN of the new parent, unparsed, for a move.
        new_superior: Option<&'r str>,
    },
}

/// One line of an entry: an attribute and one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LdifValue<'r> {
    /// Number of the line, from 1.
    pub line: u64,
    /// The attribute description, unparsed.
    pub description: &'r str,
    /// The value.
    pub value: &'r [u8],
}

/// Lines of attributes and values, in the order of the text. The values of one attribute need not be adjacent.
#[derive(Clone, Copy, Debug)]
pub struct LdifValues<'r> {
    buffer: &'r RecordBuffer,
    lines: &'r [Line],
}

/// One change of a modify record.
#[derive(Clone, Copy, Debug)]
pub struct LdifModification<'r> {
    /// Number of the line, from 1.
    pub line: u64,
    /// Operation of the change.
    pub operation: ChangeOperation,
    /// The attribute description, unparsed.
    pub description: &'r str,
    /// The values.
    pub values: LdifValues<'r>,
}

/// The changes of a modify record, in order.
#[derive(Clone, Copy, Debug)]
pub struct LdifModifications<'r> {
    buffer: &'r RecordBuffer,
    lines: &'r [Line],
}

/// The controls of a change record, in order.
#[derive(Clone, Copy, Debug)]
pub struct LdifControls<'r> {
    buffer: &'r RecordBuffer,
    lines: &'r [Line],
}

impl<'r> LdifValues<'r> {
    /// Returns the lines in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = LdifValue<'r>> + Clone + use<'r> {
        let buffer = self.buffer;
        self.lines.iter().map(move |line| LdifValue {
            line: line.number,
            description: buffer.name(line),
            value: buffer.value(line),
        })
    }

    /// Returns the number of values.
    pub const fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns true if there are no values.
    pub const fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Appends the values to `attributes`, as the content of an add request. Lines whose descriptions differ only in
    /// case become one attribute. Attributes are in the order of their first lines.
    pub fn append_to(&self, attributes: &mut AttributesBuf) {
        let mut descriptions: Vec<&str> = Vec::new();
        let mut numbered: Vec<(usize, &[u8])> = Vec::with_capacity(self.len());
        let mut last = 0;
        for LdifValue { description, value, .. } in self.iter() {
            let is_this = |known: &&str| known.eq_ignore_ascii_case(description);
            // Usually the attribute is the same as on the line before.
            if !descriptions.get(last).is_some_and(is_this) {
                last = descriptions.iter().position(is_this).unwrap_or_else(|| {
                    descriptions.push(description);
                    descriptions.len() - 1
                });
            }
            numbered.push((last, value));
        }
        numbered.sort_by_key(|(attribute, _)| *attribute);
        for values in numbered.chunk_by(|left, right| left.0 == right.0) {
            let description = values.first().and_then(|(attribute, _)| descriptions.get(*attribute));
            attributes.push(description.unwrap_or(&""), values.iter().map(|(_, value)| value));
        }
    }
}

impl<'r> LdifModifications<'r> {
    /// Returns the changes in order.
    pub fn iter(&self) -> impl Iterator<Item = LdifModification<'r>> + Clone + use<'r> {
        let buffer = self.buffer;
        // Already validated: each change starts with its operation line and ends at its `-` line.
        self.lines.split(|line| line.kind == LineKind::EndOfChange).filter_map(move |lines| {
            let (first, values) = lines.split_first()?;
            Some(LdifModification {
                line: first.number,
                operation: change_operation(buffer.name(first))?,
                description: buffer.text_value(first)?.trim_ascii_end(),
                values: LdifValues { buffer, lines: values },
            })
        })
    }
}

impl<'r> LdifControls<'r> {
    /// Returns the controls in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Control<'r>> + Clone + use<'r> {
        let buffer = self.buffer;
        self.lines.iter().map(move |line| Control {
            oid: buffer.name(line),
            critical: matches!(line.kind, LineKind::Control { critical: true, .. }),
            value: matches!(line.kind, LineKind::Control { has_value: true, .. }).then(|| buffer.value(line)),
        })
    }

    /// Returns true if there are no controls.
    pub const fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

/// Text of a record, unfolded, and the positions of its lines.
#[derive(Default)]
pub(super) struct RecordBuffer {
    /// The logical lines without their ends.
    pub(super) text: Vec<u8>,
    /// Values decoded from base64.
    pub(super) decoded: Vec<u8>,
    pub(super) lines: Vec<Line>,
}

/// A parsed logical line.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Number of the line's first physical line, from 1.
    pub(super) number: u64,
    pub(super) kind: LineKind,
    /// Range of the name: an attribute description, or the OID of a control. Always ASCII.
    pub(super) name: Range<usize>,
    pub(super) value: Range<usize>,
    /// Whether the value is in `decoded` rather than `text`.
    pub(super) is_decoded: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    /// `name: value`.
    Value,
    /// `control: oid criticality: value`.
    Control { critical: bool, has_value: bool },
    /// `-`, the end of one change of a modify.
    EndOfChange,
}

/// Returns the operation that starts a change. `increment` is from RFC 4525 section 4, which is later than RFC 2849.
fn change_operation(name: &str) -> Option<ChangeOperation> {
    let operations = [
        ("add", ChangeOperation::Add),
        ("delete", ChangeOperation::Delete),
        ("replace", ChangeOperation::Replace),
        ("increment", ChangeOperation::Increment),
    ];
    let found = operations.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, operation)| operation)
}

type Parsed<T> = Result<T, LdifError>;

fn error<T>(line: &Line, kind: LdifErrorKind) -> Parsed<T> {
    Err(LdifError { line: line.number, kind })
}

impl RecordBuffer {
    fn name(&self, line: &Line) -> &str {
        let name = self.text.get(line.name.clone()).unwrap_or_default();
        std::str::from_utf8(name).unwrap_or_default()
    }

    fn is_named(&self, line: &Line, name: &str) -> bool {
        let bytes = self.text.get(line.name.clone()).unwrap_or_default();
        line.kind == LineKind::Value && bytes.eq_ignore_ascii_case(name.as_bytes())
    }

    pub(super) fn value(&self, line: &Line) -> &[u8] {
        let buffer = if line.is_decoded { &self.decoded } else { &self.text };
        buffer.get(line.value.clone()).unwrap_or_default()
    }

    fn text_value(&self, line: &Line) -> Option<&str> {
        std::str::from_utf8(self.value(line)).ok()
    }

    fn text_of(&self, line: &Line) -> Parsed<&str> {
        self.text_value(line).ok_or(LdifError { line: line.number, kind: LdifErrorKind::NotUtf8 })
    }

    /// Interprets the lines. Returns `None` if there are no lines.
    pub(super) fn record(&self) -> Parsed<Option<LdifRecord<'_>>> {
        let Some((first, rest)) = self.lines.split_first() else { return Ok(None) };
        if !self.is_named(first, "dn") {
            return error(first, LdifErrorKind::MissingDn);
        }
        let dn = self.text_of(first)?;
        if let Some(second) = rest.iter().find(|line| self.is_named(line, "dn")) {
            return error(second, LdifErrorKind::SecondDn);
        }
        let control_count =
            rest.iter().take_while(|line| matches!(line.kind, LineKind::Control { .. })).count();
        let (controls, rest) = rest.split_at(control_count);
        if let Some(stray) = rest.iter().find(|line| matches!(line.kind, LineKind::Control { .. })) {
            return error(stray, LdifErrorKind::BadControl);
        }
        let body = match rest.split_first() {
            Some((change_type, rest)) if self.is_named(change_type, "changetype") => {
                self.change(change_type, rest)?
            }
            _ if !controls.is_empty() => return error(first, LdifErrorKind::BadChangeType),
            _ => LdifBody::Entry(self.values(rest)?),
        };
        let controls = LdifControls { buffer: self, lines: controls };
        Ok(Some(LdifRecord { line: first.number, dn, controls, body }))
    }

    /// Interprets the lines after `changetype:`.
    fn change<'r>(&'r self, change_type: &Line, lines: &'r [Line]) -> Parsed<LdifBody<'r>> {
        let value = self.value(change_type).trim_ascii_end();
        let is = |name: &str| value.eq_ignore_ascii_case(name.as_bytes());
        if is("add") {
            Ok(LdifBody::Add(self.values(lines)?))
        } else if is("delete") {
            match lines.first() {
                Some(line) => error(line, LdifErrorKind::Expected("end of the record")),
                None => Ok(LdifBody::Delete),
            }
        } else if is("modify") {
            self.modifications(lines)
        } else if is("modrdn") || is("moddn") {
            self.modify_dn(change_type, lines)
        } else {
            error(change_type, LdifErrorKind::BadChangeType)
        }
    }

    fn values<'r>(&'r self, lines: &'r [Line]) -> Parsed<LdifValues<'r>> {
        for line in lines {
            if line.kind != LineKind::Value {
                return error(line, LdifErrorKind::MissingColon);
            }
            if self.is_named(line, "changetype") {
                return error(line, LdifErrorKind::BadChangeType);
            }
        }
        Ok(LdifValues { buffer: self, lines })
    }

    /// Parses changes. Each starts with an operation and ends with `-`; the last `-` may be missing, as ldapmodify
    /// allows.
    fn modifications<'r>(&'r self, lines: &'r [Line]) -> Parsed<LdifBody<'r>> {
        const EXPECTED: &str = "'add:', 'delete:', 'replace:' or 'increment:'";
        for (index, change) in lines.split(|line| line.kind == LineKind::EndOfChange).enumerate() {
            let Some((first, values)) = change.split_first() else {
                // This part has no lines. If a `-` line follows the part, that `-` line ends no change, which is an
                // error. After the last `-` line, there may be no lines.
                match lines.iter().filter(|line| line.kind == LineKind::EndOfChange).nth(index) {
                    Some(stray) => return error(stray, LdifErrorKind::Expected(EXPECTED)),
                    None => continue,
                }
            };
            if change_operation(self.name(first)).is_none() {
                return error(first, LdifErrorKind::Expected(EXPECTED));
            }
            let description = self.text_of(first)?.trim_ascii_end();
            let is_other = |line: &&Line| !self.name(line).eq_ignore_ascii_case(description);
            if let Some(other) = values.iter().find(is_other) {
                return error(other, LdifErrorKind::Expected("value of the attribute that changes, or '-'"));
            }
        }
        Ok(LdifBody::Modify(LdifModifications { buffer: self, lines }))
    }

    fn modify_dn<'r>(&'r self, change_type: &Line, lines: &'r [Line]) -> Parsed<LdifBody<'r>> {
        let named = |index: usize, name: &'static str, what: &'static str| match lines.get(index) {
            Some(line) if self.is_named(line, name) => Ok(line),
            line => error(line.unwrap_or(change_type), LdifErrorKind::Expected(what)),
        };
        let new_rdn = self.text_of(named(0, "newrdn", "'newrdn:'")?)?;
        let delete_old_rdn = named(1, "deleteoldrdn", "'deleteoldrdn:'")?;
        let delete_old_rdn = match self.value(delete_old_rdn).trim_ascii_end() {
            b"0" => false,
            b"1" => true,
            _ => return error(delete_old_rdn, LdifErrorKind::Expected("0 or 1")),
        };
        let new_superior = match lines.get(2) {
            Some(_) => Some(self.text_of(named(2, "newsuperior", "'newsuperior:'")?)?),
            None => None,
        };
        match lines.get(3) {
            Some(line) => error(line, LdifErrorKind::Expected("end of the record")),
            None => Ok(LdifBody::ModifyDn { new_rdn, delete_old_rdn, new_superior }),
        }
    }
}

/// Does not show the text, which may contain passwords.
impl std::fmt::Debug for RecordBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordBuffer").field("line_count", &self.lines.len()).finish_non_exhaustive()
    }
}
