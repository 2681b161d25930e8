//! Sources of audit events: the folder of the trail, or a server.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use audit::{AuditError, Item, Traversal};
use client::{ClientError, Connection};
use directory::virtual_entries::READ_AUDIT;
use ldap::{ResultCode, TrailAnswer, TrailPiece, TrailRequest};

/// Interval between two reads of a trail's directory, while new events are followed.
const FOLDER_INTERVAL: Duration = Duration::from_millis(200);

/// Interval between two requests for new events to a server.
const SERVER_INTERVAL: Duration = Duration::from_secs(1);

/// An item of a trail.
pub(super) enum TrailItem {
    /// Events.
    Block { number: u64, written_micros: u64, events: Vec<u8> },
    /// Description and position of damaged data.
    Damage(String),
    /// Position at which a crash cut off the last write.
    Torn(String),
}

/// Reason why a trail cannot be read further.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourceError {
    #[error(transparent)]
    Trail(AuditError),
    #[error("the server cannot be asked: {0}")]
    Client(ClientError),
    #[error("the server refuses: {code}: {diagnostic}")]
    Refused { code: ResultCode, diagnostic: String },
    #[error("the server answers with what is no part of a trail")]
    Answer,
}

/// A trail to read.
pub(super) enum Source {
    Folder(Box<Traversal>),
    Server(Box<RemoteTrail>),
}

/// The trail of a server, which is read in several requests.
pub(super) struct RemoteTrail {
    connection: Connection,
    request: TrailRequest,
    received: VecDeque<TrailItem>,
    /// Whether the last response reached the end of the trail.
    is_end: bool,
}

impl Source {
    /// Opens the trail in a directory.
    pub(super) fn folder(folder: &Path) -> Result<Source, AuditError> {
        Traversal::begin(folder).map(|walk| Source::Folder(Box::new(walk)))
    }

    /// Returns the trail of a server, beginning with the first block that was written at or after `since_micros`.
    pub(super) fn server(connection: Connection, since_micros: u64) -> Source {
        let request = TrailRequest { since_micros, from: None };
        Source::Server(Box::new(RemoteTrail {
            connection,
            request,
            received: VecDeque::new(),
            is_end: false,
        }))
    }

    /// Returns the interval at which to look for new events.
    pub(super) fn interval(&self) -> Duration {
        match self {
            Source::Folder(_) => FOLDER_INTERVAL,
            Source::Server(_) => SERVER_INTERVAL,
        }
    }

    /// Returns the next item, or `None` at the present end of the trail.
    pub(super) fn next(&mut self, follows: bool) -> Result<Option<TrailItem>, SourceError> {
        match self {
            Source::Folder(walk) => {
                let item = if follows { walk.follow() } else { walk.next().transpose() };
                Ok(item.map_err(SourceError::Trail)?.map(|item| match item {
                    Item::Damage(place, damage) => TrailItem::Damage(format!("{place}: {damage}")),
                    Item::Torn(place) => TrailItem::Torn(place.to_string()),
                    Item::Block(block) => TrailItem::Block {
                        number: block.number,
                        written_micros: block.written_micros,
                        events: block.events,
                    },
                }))
            }
            Source::Server(server) => server.next(),
        }
    }
}

impl RemoteTrail {
    fn next(&mut self) -> Result<Option<TrailItem>, SourceError> {
        loop {
            if let Some(received) = self.received.pop_front() {
                return Ok(Some(received));
            }
            if std::mem::take(&mut self.is_end) {
                return Ok(None);
            }
            self.request_items()?;
        }
    }

    fn request_items(&mut self) -> Result<(), SourceError> {
        let value = self.request.encode();
        let reply = self.connection.extended(READ_AUDIT, Some(&value)).map_err(SourceError::Client)?;
        if !reply.outcome.is_success() {
            let (code, diagnostic) = (reply.outcome.code, reply.outcome.diagnostic);
            return Err(SourceError::Refused { code, diagnostic });
        }
        let value = reply.extended.value.unwrap_or_default();
        let answer = TrailAnswer::decode(&value).ok_or(SourceError::Answer)?;
        self.received.extend(answer.pieces.iter().map(|piece| match piece {
            TrailPiece::Damage(text) => TrailItem::Damage((*text).to_owned()),
            TrailPiece::Torn(text) => TrailItem::Torn((*text).to_owned()),
            TrailPiece::Block(number, written_micros, events) => {
                TrailItem::Block { number: *number, written_micros: *written_micros, events: events.to_vec() }
            }
        }));
        // The end of the trail may be read again. Report its torn write only once.
        if self.request.from == Some(answer.next) {
            self.received.retain(|received| !matches!(received, TrailItem::Torn(_)));
        }
        (self.request.from, self.is_end) = (Some(answer.next), answer.is_end);
        Ok(())
    }
}
