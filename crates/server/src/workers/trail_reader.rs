//! The thread that reads the audit trail for permitted clients, so that no event loop waits for the trail's files.

use std::path::Path;
use std::sync::Arc;

use audit::{AuditError, Item, Traversal};
use directory::Outcome;
use ldap::{ResultCode, TrailAnswer, TrailPiece, TrailPosition, TrailRequest};

use crate::limits::{TRAIL_ANSWER_BYTES, TRAIL_READS_MAX};
use crate::net::mailbox::Mailbox;
use crate::workers::jobs::Jobs;

/// The thread. A job is a request.
pub(crate) type TrailReader = Jobs<TrailRequest>;

/// Starts the thread.
///
/// # Errors
/// The system cannot start a thread.
pub(crate) fn start(folder: &Path, mailboxes: &Arc<[Mailbox]>) -> std::io::Result<TrailReader> {
    let folder = folder.to_owned();
    Jobs::start("pando-trail", TRAIL_READS_MAX, mailboxes, move |request| match read(&folder, request) {
        Ok(value) => (Outcome::success(), Some(value)),
        Err(error) => {
            tracing::error!(%error, "the audit trail cannot be read for a client");
            let text = "the audit trail cannot be read: the server's log says why";
            (Outcome::new(ResultCode::OTHER, text), None)
        }
    })
}

/// Reads about [`TRAIL_ANSWER_BYTES`] of blocks, starting at the position in the request.
fn read(folder: &Path, request: TrailRequest) -> Result<Vec<u8>, AuditError> {
    let mut traversal = match request.from {
        Some(TrailPosition { segment, offset }) => Traversal::resume(folder, segment, offset)?,
        None => Traversal::begin(folder)?,
    };
    let start = request.from.unwrap_or(TrailPosition { segment: 0, offset: 0 });
    let mut read: Vec<(u64, u64, Vec<u8>)> = Vec::new();
    // Each note about damage, with the number of blocks that were read before it.
    let mut notes: Vec<(usize, String)> = Vec::new();
    let (mut bytes, mut is_end, mut torn) = (0, false, None);
    let mut next = start;
    while bytes < TRAIL_ANSWER_BYTES {
        match traversal.follow()? {
            None => {
                is_end = true;
                break;
            }
            Some(Item::Torn(place)) => {
                // The server may still be writing this block. The next request reads it again.
                torn = Some(place.to_string());
                next = TrailPosition { segment: place.segment, offset: place.offset };
                is_end = true;
                break;
            }
            Some(Item::Damage(place, damage)) => {
                let note = format!("{place}: {damage}");
                bytes += note.len();
                notes.push((read.len(), note));
            }
            Some(Item::Block(block)) => {
                if block.written_micros >= request.since_micros && !block.is_anchor {
                    bytes += block.events.len();
                    read.push((block.number, block.written_micros, block.events));
                }
                let end = block.place.offset + block.place.length;
                next = TrailPosition { segment: block.place.segment, offset: end };
            }
        }
    }
    let mut pieces = Vec::with_capacity(read.len() + notes.len());
    let mut noted = notes.iter().peekable();
    for (index, (number, micros, events)) in read.iter().enumerate() {
        while let Some((_, note)) = noted.next_if(|(before, _)| *before <= index) {
            pieces.push(TrailPiece::Damage(note));
        }
        pieces.push(TrailPiece::Block(*number, *micros, events));
    }
    pieces.extend(noted.map(|(_, note)| TrailPiece::Damage(note)));
    pieces.extend(torn.as_deref().map(TrailPiece::Torn));
    Ok(TrailAnswer { next, is_end, pieces }.encode())
}
