//! Positions of answers. A client can ask for the position of an answer and send it with a later request to any node of
//! the cluster. That node then answers from a state with at least that position.
//!
//! If the node has not reached the position, the request and the requests after it wait in the connection's input. A
//! waiting request occupies no other resources. The event loop checks the request again when a commit reaches the
//! position or the time to wait is over.

use std::time::{Duration, Instant};

use directory::virtual_entries::MONITOR_DN;
use directory::{Outcome, Requester};
use ldap::{AtLeast, Control, ControlsBuf, Message, PositionToken, Request, ResultCode, oids};
use replication::{Lineage, Reach};
use store::StoreError;

use super::outstanding::RequestHead;
use super::{Session, context::Context};
use crate::limits::{POSITION_WAIT_MAX, POSITION_WAITERS_MAX};

/// A request's wait until the directory reaches a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PositionWait {
    pub(crate) position: u64,
    /// Time at which the request is answered with busy.
    pub(crate) until: Instant,
}

/// Result of comparing the position that a request requires with the position of the snapshot.
pub(super) enum Reached {
    /// The request can be handled, because the snapshot has reached the position.
    Shown,
    /// The request must wait, because the snapshot has not reached the position yet.
    Later,
    /// The request is refused with this outcome.
    Never(Outcome),
}

impl Session {
    /// Returns the wait of the first request in the input, if it waits for a position.
    pub(crate) fn position_wait(&self) -> Option<PositionWait> {
        self.position_wait.as_deref().copied()
    }

    /// Returns the reason to refuse a search or compare if the data may be older than the node's settings allow. The
    /// administrator may always read. Every client may always read the root DSE and `cn=monitor`.
    pub(super) fn refuse_old(&self, context: &Context, request: &Request<'_>) -> Option<Outcome> {
        let age = context.shared.read_age.as_deref()?;
        let is_bounded = match request {
            Request::Search(search) => !is_about_server(search.base_object),
            Request::Compare(compare) => !is_about_server(compare.entry),
            _ => false,
        };
        if !is_bounded || matches!(*self.requester, Requester::Administrator { .. }) {
            return None;
        }
        age.too_old(context.now).map(|text| Outcome::new(ResultCode::UNAVAILABLE, text))
    }

    /// Decides whether the snapshot has reached the position that the request requires.
    pub(super) fn reach_position(&mut self, context: &Context, message: &Message<'_>) -> Reached {
        if matches!(message.request, Request::Unbind | Request::Abandon(_)) {
            return Reached::Shown;
        }
        let control = message.controls.iter().find(|control| control.oid == oids::AT_LEAST);
        // An invalid control value is refused later, when all controls are read.
        let Some(decoded) = control.and_then(|control| AtLeast::decode(control.value?)) else {
            return Reached::Shown;
        };
        if decoded.token.generation != context.shared.generation {
            let text = "the position is one of other data: ask for a new one";
            return Reached::Never(Outcome::new(ResultCode::UNWILLING_TO_PERFORM, text));
        }
        let (shown, lineage) = match context.place() {
            Ok(place) => place,
            Err(error) => return Reached::Never(Outcome::new(ResultCode::UNAVAILABLE, error.to_string())),
        };
        let position = decoded.token.position;
        match lineage.reach(shown, position, decoded.token.epoch) {
            Reach::Shown => return Reached::Shown,
            Reach::Later => {}
            Reach::Lost => {
                let text = "a promotion without the supplier has lost what the position stands for: ask for a new one";
                return Reached::Never(Outcome::new(ResultCode::UNWILLING_TO_PERFORM, text));
            }
        }
        let patience = Duration::from_millis(decoded.wait_ms.into()).min(POSITION_WAIT_MAX);
        let is_new = self.position_wait.is_none();
        let wait = **self
            .position_wait
            .get_or_insert_with(|| Box::new(PositionWait { position, until: context.now + patience }));
        let too_many = is_new && context.position_waiters >= POSITION_WAITERS_MAX;
        if wait.until > context.now && !too_many {
            return Reached::Later;
        }
        let text = match too_many {
            true => "too many requests wait here for a position",
            false => "ask another node, or later",
        };
        let text = match position.checked_sub(shown) {
            Some(missing @ 1..) => {
                format!("this node shows position {shown}, {missing} changes before {position}: {text}")
            }
            _ => format!("this node does not know the writer of position {position}: {text}"),
        };
        Reached::Never(Outcome::new(ResultCode::BUSY, text))
    }
}

/// Returns true if `base` is the root DSE, or `cn=monitor` or an entry below it. A DN in another spelling is not
/// recognized.
fn is_about_server(base: &str) -> bool {
    let split = base.len().checked_sub(MONITOR_DN.len()).and_then(|from| base.split_at_checked(from));
    let is_monitor = |(below, end): (&str, &str)| {
        end.eq_ignore_ascii_case(MONITOR_DN) && (below.is_empty() || below.ends_with(','))
    };
    base.is_empty() || split.is_some_and(is_monitor)
}

impl RequestHead {
    /// Makes the response report the newest position of the directory. The session calls this function after the writer
    /// has made a change. The change is visible at that position.
    pub(super) fn note_newest_position(&mut self, context: &Context) {
        if self.wants_position {
            let newest = context.shared.directory.newest_place().ok();
            self.shown = newest.map(|(position, lineage)| context.token_at(position, &decoded(&lineage)));
        }
    }

    /// Adds the position of the answer, if the client asked for it.
    pub(super) fn put_position(&self, context: &Context, controls: &mut ControlsBuf) {
        if self.wants_position
            && let Some(token) = self.shown.or_else(|| context.token())
        {
            controls.push(Control { oid: oids::POSITION, critical: false, value: Some(&token.encode()) });
        }
    }
}

impl Context {
    /// Returns the position of the snapshot; `None` if the store cannot provide it.
    pub(super) fn token(&self) -> Option<PositionToken> {
        self.place().ok().map(|(position, lineage)| self.token_at(position, &lineage))
    }

    /// Returns the position of the snapshot, and its lineage.
    fn place(&self) -> Result<(u64, Lineage), StoreError> {
        Ok((self.snapshot.position()?, decoded(self.snapshot.lineage()?)))
    }

    fn token_at(&self, position: u64, lineage: &Lineage) -> PositionToken {
        let epoch = lineage.epoch_of(position);
        PositionToken { generation: self.shared.generation, position, epoch }
    }
}

/// Decodes the lineage of the data. A damaged lineage counts as empty.
fn decoded(lineage: &[u8]) -> Lineage {
    Lineage::decode(lineage).unwrap_or_default()
}
