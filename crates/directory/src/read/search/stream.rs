//! A stream sends an entry that is too large for memory, such as a group with a million members.
//!
//! A message begins with its length, so the entry is traversed twice: once to measure, once to write. Both passes run
//! in slices and on one snapshot. The snapshot is pinned until the client has received the entry. The value of the
//! dereference control is measured and written in the same way, because it has one item for each name in the entry. The
//! number of streams is limited ([`STREAMS_MAX`]), because the store cannot reuse pages that a pinned snapshot needs.
//!
//! Between the first and the last byte of the message nothing else can be sent on the connection: see
//! [`Search::is_mid_message`](super::Search::is_mid_message).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ldap::response::{
    SearchEntryLens, control_len, put_attributes_header, put_controls, put_controls_and_header,
    put_search_entry_header, search_entry_len,
};
use ldap::{ControlsBuf, ResultCode, oids};

use super::attribute_stream::{AttributeStream, Room};
use super::dereference::{Dereferencing, NameTraversal};
use super::result::ResultWriter;
use super::scanner::Scanner;
use crate::filter::Candidate;
use crate::model::limits::{MESSAGE_BYTES_MAX, STREAMS_MAX};
use crate::model::outcome::OperationError;
use crate::model::rows::EntryId;
use crate::snapshot::{Directory, Snapshot};
use crate::tree::{damaged_row, node};

type Result<T> = std::result::Result<T, OperationError>;

/// Stream that sends an entry to a client.
pub(super) struct EntryStream {
    snapshot: Snapshot,
    /// Whether the entry is sent without collective attributes.
    is_of_stored: bool,
    id: EntryId,
    attributes: AttributeStream,
    /// Controls of the message, except the dereference control.
    controls: ControlsBuf,
    /// The dereference control. It follows the other controls in the message.
    named: Option<DereferenceStream>,
    stage: Stage,
    _pin: Pin,
}

/// Stream of the dereference control.
struct DereferenceStream {
    dereferencing: Dereferencing,
    traversal: NameTraversal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    MeasureAttributes,
    MeasureNamed,
    /// The message has begun; attributes are being written.
    WriteAttributes,
    WriteNamed,
}

/// Counts an open stream as long as this value exists.
struct Pin(Arc<Directory>);

impl Pin {
    fn new(directory: &Arc<Directory>) -> Result<Pin> {
        let pin = Pin(Arc::clone(directory));
        if pin.0.streams.fetch_add(1, Ordering::Relaxed) < STREAMS_MAX {
            return Ok(pin);
        }
        Err(OperationError::refused(
            ResultCode::BUSY,
            format!("{STREAMS_MAX} entries as large as this one are being sent already: try again later"),
        ))
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl EntryStream {
    /// Returns the memory that the stream uses, itself included, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        let named = self
            .named
            .as_ref()
            .map_or(0, |named| named.dereferencing.heap_bytes() + named.traversal.heap_bytes());
        size_of::<EntryStream>()
            + self.attributes.heap_bytes()
            + self.controls.as_controls().as_bytes().len()
            + named
    }

    /// Begins a stream of the current state of the entry `id`. If `is_result`, returns `None` if the entry is no longer
    /// a result. Otherwise returns `None` if the entry is no longer visible.
    pub(super) fn begin(
        snapshot: &Snapshot,
        scanner: &mut Scanner,
        id: EntryId,
        is_result: bool,
    ) -> Result<Option<EntryStream>> {
        let pin = Pin::new(snapshot.directory_handle())?;
        let snapshot = snapshot.directory_handle().snapshot()?;
        scanner.catch_up(&snapshot)?;
        let state = scanner.state_of(&snapshot);
        let Some(row) = node(state.read, id)? else { return Ok(None) };
        let candidate = Candidate::new(id, row);
        let is_sent = match is_result {
            true => scanner.passes(&snapshot, &candidate)?,
            false => scanner.permits(state, &candidate)?,
        };
        if !is_sent {
            return Ok(None);
        }
        let controls = scanner.controls_of_result(state, &candidate)?;
        let matched = scanner.matched_values().cloned();
        let attributes = AttributeStream::of(state, &mut scanner.writer, &candidate, matched.as_ref())?;
        let named = match scanner.dereferencing() {
            None => None,
            Some(dereferencing) => {
                let rights = scanner.writer.selection.rights.clone();
                let dereferencing = dereferencing.on_its_own(&snapshot)?;
                Some(DereferenceStream { dereferencing, traversal: NameTraversal::new(id, rights) })
            }
        };
        let (stage, is_of_stored) = (Stage::MeasureAttributes, scanner.scope.is_of_stored);
        Ok(Some(EntryStream { snapshot, is_of_stored, id, attributes, controls, named, stage, _pin: pin }))
    }

    /// Returns true if everything is measured and the message has begun.
    pub(super) fn has_started(&self) -> bool {
        matches!(self.stage, Stage::WriteAttributes | Stage::WriteNamed)
    }

    /// Continues as long as budget is left. Returns true when the message is complete.
    ///
    /// # Errors
    /// adminLimitExceeded if the message would be longer than [`MESSAGE_BYTES_MAX`]. In that case, no part of it has
    /// been sent.
    pub(super) fn step(&mut self, writer: &ResultWriter, out: &mut Vec<u8>, room: &mut Room) -> Result<bool> {
        while room.is_left(out) {
            let state = self.snapshot.state();
            let state = if self.is_of_stored { state.as_stored() } else { state };
            let is_over = match self.stage {
                Stage::MeasureAttributes | Stage::WriteAttributes => {
                    self.attributes.step((state, &mut self.snapshot.names()), out, room)?
                }
                Stage::MeasureNamed | Stage::WriteNamed => match &mut self.named {
                    Some(DereferenceStream { dereferencing, traversal }) => {
                        traversal.step(dereferencing, (state, &mut self.snapshot.names()), out, room)?
                    }
                    None => true,
                },
            };
            if !is_over {
                continue;
            }
            match self.stage {
                Stage::MeasureAttributes => self.stage = Stage::MeasureNamed,
                Stage::MeasureNamed => {
                    self.put_head(writer, out)?;
                    self.stage = Stage::WriteAttributes;
                }
                Stage::WriteAttributes => {
                    self.put_controls(out);
                    self.stage = Stage::WriteNamed;
                }
                Stage::WriteNamed => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Begins the message and the second pass.
    fn put_head(&mut self, writer: &ResultWriter, out: &mut Vec<u8>) -> Result<()> {
        let state = self.snapshot.state();
        let attributes_len = self.attributes.begin_writing(state);
        let mut controls_len = self.controls.as_controls().as_bytes().len();
        // If the entry names no entries, the control is omitted, as for a result that fits into memory.
        self.named = self.named.take().filter(|named| named.traversal.value_len() > 0);
        if let Some(named) = &mut self.named {
            controls_len += control_len(oids::DEREFERENCE, named.traversal.begin_writing());
        }
        let dn = state.dn(self.id)?.ok_or_else(|| damaged_row("nodes", self.id))?;
        let lens = SearchEntryLens { dn_len: dn.len(), attributes_len, controls_len };
        if search_entry_len(writer.id, lens) > MESSAGE_BYTES_MAX {
            return Err(too_long(self.named.is_some()));
        }
        put_search_entry_header(out, writer.id, lens);
        out.extend_from_slice(dn.as_bytes());
        put_attributes_header(out, attributes_len);
        Ok(())
    }

    fn put_controls(&self, out: &mut Vec<u8>) {
        let controls = self.controls.as_controls();
        match &self.named {
            None => put_controls(out, controls),
            Some(named) => {
                put_controls_and_header(out, controls, oids::DEREFERENCE, named.traversal.value_len());
                named.traversal.put_header(out);
            }
        }
    }
}

/// Returns the error for a result that is too large for any message. The search fails even if the dereference control
/// is not critical. Without the control, the client would conclude that the result names no entries.
#[cold]
fn too_long(has_control: bool) -> OperationError {
    let what = match has_control {
        true => "a result with its dereference control",
        false => "a result",
    };
    OperationError::refused(
        ResultCode::ADMIN_LIMIT_EXCEEDED,
        format!(
            "{what} would be a message of more than {MESSAGE_BYTES_MAX} octets: ask for fewer attributes"
        ),
    )
}
