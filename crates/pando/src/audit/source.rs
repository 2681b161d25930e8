//! Where events come from: the folder of the trail, or a server that has it.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use audit::{AuditError, Item, Walk};
use client::{ClientError, Connection};
use directory::virtual_entries::READ_AUDIT;
use ldap::{ResultCode, TrailAnswer, TrailPiece, TrailRequest};

/// How often a folder is looked at that is followed.
const FOLDER_INTERVAL: Duration = Duration::from_millis(200);

/// How often a server is asked whose trail is followed.
const SERVER_INTERVAL: Duration = Duration::from_secs(1);

/// What is told of a trail.
pub(super) enum Told {
    /// Events.
    Block { number: u64, written_micros: u64, events: Vec<u8> },
    /// What is wrong, and where.
    Damage(String),
    /// Where a crash cut the last write.
    Torn(String),
}

/// Why nothing more is told.
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

/// A trail.
pub(super) enum Source {
    Folder(Box<Walk>),
    Server(Box<Asked>),
}

/// A server that is asked part by part.
pub(super) struct Asked {
    connection: Connection,
    request: TrailRequest,
    told: VecDeque<Told>,
    /// Whether the last answer was all that there was.
    is_end: bool,
}

impl Source {
    /// The trail of a folder.
    pub(super) fn folder(folder: &Path) -> Result<Source, AuditError> {
        Walk::begin(folder).map(|walk| Source::Folder(Box::new(walk)))
    }

    /// The trail of a server, from blocks on that were written then.
    pub(super) fn server(connection: Connection, since_micros: u64) -> Source {
        let request = TrailRequest { since_micros, from: None };
        Source::Server(Box::new(Asked { connection, request, told: VecDeque::new(), is_end: false }))
    }

    /// How long to wait for more.
    pub(super) fn interval(&self) -> Duration {
        match self {
            Source::Folder(_) => FOLDER_INTERVAL,
            Source::Server(_) => SERVER_INTERVAL,
        }
    }

    /// What comes next; `None` where that is all by now.
    pub(super) fn next(&mut self, follows: bool) -> Result<Option<Told>, SourceError> {
        match self {
            Source::Folder(walk) => {
                let item = if follows { walk.follow() } else { walk.next().transpose() };
                Ok(item.map_err(SourceError::Trail)?.map(|item| match item {
                    Item::Damage(place, damage) => Told::Damage(format!("{place}: {damage}")),
                    Item::Torn(place) => Told::Torn(place.to_string()),
                    Item::Block(block) => Told::Block {
                        number: block.number,
                        written_micros: block.written_micros,
                        events: block.events,
                    },
                }))
            }
            Source::Server(asked) => asked.next(),
        }
    }
}

impl Asked {
    fn next(&mut self) -> Result<Option<Told>, SourceError> {
        loop {
            if let Some(told) = self.told.pop_front() {
                return Ok(Some(told));
            }
            if std::mem::take(&mut self.is_end) {
                return Ok(None);
            }
            self.ask()?;
        }
    }

    fn ask(&mut self) -> Result<(), SourceError> {
        let value = self.request.encode();
        let reply = self.connection.extended(READ_AUDIT, Some(&value)).map_err(SourceError::Client)?;
        if !reply.outcome.is_success() {
            let (code, diagnostic) = (reply.outcome.code, reply.outcome.diagnostic);
            return Err(SourceError::Refused { code, diagnostic });
        }
        let value = reply.extended.value.unwrap_or_default();
        let answer = TrailAnswer::decode(&value).ok_or(SourceError::Answer)?;
        self.told.extend(answer.pieces.iter().map(|piece| match piece {
            TrailPiece::Damage(text) => Told::Damage((*text).to_owned()),
            TrailPiece::Torn(text) => Told::Torn((*text).to_owned()),
            TrailPiece::Block(number, written_micros, events) => {
                Told::Block { number: *number, written_micros: *written_micros, events: events.to_vec() }
            }
        }));
        // What is torn is told once, however often it is looked at.
        if self.request.from == Some(answer.next) {
            self.told.retain(|told| !matches!(told, Told::Torn(_)));
        }
        (self.request.from, self.is_end) = (Some(answer.next), answer.is_end);
        Ok(())
    }
}
