//! Positions of answers. A client can ask for the position of an answer and send it with a later request to any node of
//! the cluster. That node answers from a state of at least that position.
//!
//! On a node that has not reached the position, the request waits in the connection's input, and so do the requests
//! after it; It occupies no other resources. The event loop checks the request again when a commit reaches the
//! position, or when the time to wait is over.

use std::time::{Duration, Instant};

use directory::virtual_entries::MONITOR_DN;
use directory::{Outcome, Requester};
use ldap::{AtLeast, Control, ControlsBuf, Message, PositionToken, Request, ResultCode, oids};

use super::outstanding::RequestHead;
use super::{Session, context::Context};
use crate::limits::{POSITION_WAIT_MAX, POSITION_WAITERS_MAX};

/// Wait of a request until the directory reaches its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PositionWait {
    pub(crate) position: u64,
    /// Deadline after which the request is answered with busy.
    pub(crate) until: Instant,
}

/// Decision about a request that requires a position.
pub(super) enum Reached {
    /// The snapshot has reached the position: handle the request.
    Shown,
    /// The snapshot has not reached the position yet: wait.
    Later,
    /// The request is refused with this outcome.
    Never(Outcome),
}

impl Session {
    /// Returns the position that the first request in the input waits for, if any.
    pub(crate) fn position_wait(&self) -> Option<PositionWait> {
        self.position_wait.as_deref().copied()
    }

    /// Returns the reason to refuse a read: the data may be older than the node's settings allow. The administrator and
    /// the entries about the server itself are exempt.
    pub(super) fn refuse_old(&self, context: &Context, request: &Request<'_>) -> Option<Outcome> {
        let age = context.shared.read_age.as_deref()?;
        let is_bounded = match request {
            Request::Search(search) => !is_about_server(search.base_object),
            Request::Compare(_) => true,
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
        // An invalid position is refused later, when all controls are read.
        let Some(asked) = control.and_then(|control| AtLeast::decode(control.value?)) else {
            return Reached::Shown;
        };
        if asked.token.generation != context.shared.generation {
            let text = "the position is one of other data: ask for a new one";
            return Reached::Never(Outcome::new(ResultCode::UNWILLING_TO_PERFORM, text));
        }
        let shown = match context.snapshot.position() {
            Ok(position) => position,
            Err(error) => return Reached::Never(Outcome::new(ResultCode::UNAVAILABLE, error.to_string())),
        };
        let position = asked.token.position;
        if shown >= position {
            return Reached::Shown;
        }
        let patience = Duration::from_millis(asked.wait_ms.into()).min(POSITION_WAIT_MAX);
        let is_new = self.position_wait.is_none();
        let wait = **self
            .position_wait
            .get_or_insert_with(|| Box::new(PositionWait { position, until: context.now + patience }));
        let too_many = is_new && context.position_waiters >= POSITION_WAITERS_MAX;
        if wait.until > context.now && !too_many {
            return Reached::Later;
        }
        let behind = position - shown;
        let text = match too_many {
            true => "too many requests wait here for a position",
            false => "ask another node, or later",
        };
        let text = format!("this node shows position {shown}, {behind} changes before {position}: {text}");
        Reached::Never(Outcome::new(ResultCode::BUSY, text))
    }
}

/// Returns true if `base` is the root DSE, or `cn=monitor` or an entry below it. Only the usual spelling is recognized.
fn is_about_server(base: &str) -> bool {
    let monitor = base.len().checked_sub(MONITOR_DN.len()).and_then(|from| base.get(from..));
    base.is_empty() || monitor.is_some_and(|end| end.eq_ignore_ascii_case(MONITOR_DN))
}

impl RequestHead {
    /// Stores the newest position for the response after the writer has answered. The change is visible at that
    /// position.
    pub(super) fn note_newest_position(&mut self, context: &Context) {
        if self.wants_position {
            self.shown = context.shared.directory.newest_position().ok();
        }
    }

    /// Adds the position of the answer, if the client asked for it.
    pub(super) fn put_position(&self, context: &Context, controls: &mut ControlsBuf) {
        if self.wants_position
            && let Some(token) = self.shown.map(|shown| context.token_at(shown)).or_else(|| context.token())
        {
            controls.push(Control { oid: oids::POSITION, critical: false, value: Some(&token.encode()) });
        }
    }
}

impl Context {
    /// Returns the position of the snapshot; `None` if the store cannot provide it.
    pub(super) fn token(&self) -> Option<PositionToken> {
        self.snapshot.position().ok().map(|position| self.token_at(position))
    }

    fn token_at(&self, position: u64) -> PositionToken {
        PositionToken { generation: self.shared.generation, position }
    }
}
