//! The end of a connection: after a timeout, with a notice of disconnection, or when the server stops.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use ldap::{ResultCode, response};

use super::{Connection, Phase, Turn, Waiting};
use crate::limits::{
    DRAIN_LINGER_TIMEOUT, LINGER_TIMEOUT, PROXY_HEADER_TIMEOUT, READS_PER_TURN_MAX, STALL_TIMEOUT,
    TLS_HANDSHAKE_TIMEOUT,
};
use crate::net::buffers::Buffers;
use crate::session::Session;
use crate::session::context::Context;

/// Diagnostic message in the notice of disconnection when the server stops.
pub(super) const STOPPING: &str = "the server is stopping";

impl Connection {
    /// Returns true if a timeout or deadline of the connection may be running.
    pub(crate) fn needs_watching(&self) -> bool {
        self.unsent() > 0
            || !self.input.is_empty()
            || self.session.has_deadline()
            || self.handshake_since().is_some()
            || matches!(self.phase, Phase::Beginning(_) | Phase::Lingering { .. })
    }

    /// Checks for timeouts. Returns `Close` if a timeout has expired, and `Again` if there may be answers to send.
    pub(crate) fn check_timeouts(&mut self, context: &mut Context, buffers: &mut Buffers) -> Turn {
        if let Phase::Lingering { since } = self.phase {
            let is_over = context.now.duration_since(since) >= LINGER_TIMEOUT;
            return if is_over { Turn::Close } else { Turn::Wait };
        }
        if let Phase::Beginning(beginning) = &self.phase {
            let timeout = until_first_request(context, PROXY_HEADER_TIMEOUT);
            if context.now.duration_since(beginning.since) < timeout {
                return Turn::Wait;
            }
            self.refuse_proxy(context, &ErrorKind::TimedOut.into());
            return Turn::Close;
        }
        // If `has_requested` is set, TLS was started by StartTLS, so that the timeout for the first request does not
        // apply.
        let handshake_timeout = match self.has_requested {
            true => TLS_HANDSHAKE_TIMEOUT,
            false => until_first_request(context, TLS_HANDSHAKE_TIMEOUT),
        };
        if self.handshake_since().is_some_and(|since| context.now.duration_since(since) >= handshake_timeout)
        {
            tracing::debug!("conn={} has not finished its TLS handshake and is closed", self.number());
            return Turn::Close;
        }
        if self.has_stalled(context.now) {
            tracing::debug!("conn={} has stalled and is closed", self.number());
            return Turn::Close;
        }
        if self.session.has_deadline() {
            self.prepare_output(buffers);
            self.session.expire(context, &mut self.output);
            return Turn::Again;
        }
        Turn::Wait
    }

    /// Returns true if the rest of a request or the reading of an answer has made no progress for the maximum time.
    pub(super) fn has_stalled(&self, now: Instant) -> bool {
        let half_sent = !self.input.is_empty() && self.waiting == Waiting::Bytes;
        (half_sent || self.unsent() > 0) && now.duration_since(self.last_progress) >= STALL_TIMEOUT
    }

    /// Returns the reason to close the connection if it has been silent for too long. A connection without a request is
    /// closed if it was opened at or before `before_first`. Any connection is closed if no byte has moved since `idle`.
    /// However, a trusted connection or a connection with an outstanding operation is never closed here.
    pub(crate) fn silence(
        &self,
        now: Instant,
        before_first: Option<Instant>,
        idle: Option<Instant>,
    ) -> Option<&'static str> {
        // A TLS handshake and a proxy header have separate deadlines.
        let is_busy =
            !self.session.is_idle() || self.handshake_since().is_some() || self.waiting == Waiting::Position;
        if self.session.is_trusted() || self.phase != Phase::Open || is_busy {
            return None;
        }
        // A timeout in a `[[limit]]` table replaces the common timeout. Zero means no timeout.
        let own = self.session.idle_timeout();
        let idle = own.map_or(idle, |own| if own.is_zero() { None } else { now.checked_sub(own) });
        let is_since = |since: Option<Instant>| since.is_some_and(|since| self.last_progress <= since);
        if !self.has_requested && is_since(before_first) {
            Some("no request came in time")
        } else if is_since(idle) {
            Some("nothing was asked for too long")
        } else {
            None
        }
    }

    /// Disconnects the client because the server is stopping. If an operation is outstanding, first waits until it ends
    /// or `is_over` is set.
    pub(crate) fn drain(&mut self, context: &mut Context, buffers: &mut Buffers, is_over: bool) -> Turn {
        if let Phase::Lingering { since } = self.phase {
            let has_lingered = context.now.duration_since(since) >= DRAIN_LINGER_TIMEOUT;
            return if has_lingered { Turn::Close } else { Turn::Wait };
        }
        if let Phase::Beginning(_) = self.phase {
            return Turn::Close;
        }
        // Requests that are still in the input are not answered.
        self.phase = Phase::Draining;
        if self.session.listens() {
            self.prepare_output(buffers);
            self.session.end_following(context, Some(ResultCode::UNAVAILABLE), &mut self.output);
        }
        if self.session.is_idle() || is_over {
            return self.disconnect(context, buffers, ResultCode::UNAVAILABLE, STOPPING);
        }
        Turn::Wait
    }

    /// Sends a notice of disconnection (RFC 4511 section 4.4.1) and gives the peer time to read it.
    pub(crate) fn disconnect(
        &mut self,
        context: &mut Context,
        buffers: &mut Buffers,
        code: ResultCode,
        why: &str,
    ) -> Turn {
        tracing::debug!("conn={} is disconnected, {code}: {why}", self.number());
        if self.session.is_mid_message() {
            // The client would read the notice as part of the unfinished message.
            return Turn::Close;
        }
        if self.handshake_since().is_some() || matches!(self.phase, Phase::Beginning(_)) {
            return Turn::Close;
        }
        self.prepare_output(buffers);
        response::encode_notice_of_disconnection(&mut self.output, code, why);
        self.session.close(context);
        self.input = Vec::new();
        if !self.send(context) || self.unsent() > 0 {
            // A peer that does not read its answers would not read the notice either.
            return Turn::Close;
        }
        buffers.give(std::mem::take(&mut self.output));
        if self.stream.finish_sending().is_err() {
            return Turn::Close;
        }
        self.phase = Phase::Lingering { since: context.now };
        self.readable = true;
        self.linger(context, buffers)
    }

    /// Drops bytes that arrive after the notice of disconnection, until the peer closes.
    pub(super) fn linger(&mut self, context: &mut Context, buffers: &mut Buffers) -> Turn {
        let mut input = buffers.take();
        for _ in 0..READS_PER_TURN_MAX {
            input.clear();
            if !self.readable {
                break;
            }
            if self.read(context, &mut input).is_some() {
                return Turn::Close;
            }
        }
        buffers.give(input);
        if self.readable { Turn::Again } else { Turn::Wait }
    }

    /// Closes the session and returns the connection's buffers to the pool. Afterwards, the session contains only the
    /// changes that the writer has received and not finished.
    pub(crate) fn close(&mut self, context: &mut Context, buffers: &mut Buffers) {
        self.session.audit_event(context, audit::Kind::Closed, "");
        self.session.close(context);
        if self.has_entered {
            context.shared.arrivals.leave(*self.session.source(), context.now);
        }
        self.stream.end();
        buffers.give(std::mem::take(&mut self.output));
        buffers.give(std::mem::take(&mut self.input));
    }

    /// Closes the socket. Returns the closed session, if the writer has not finished its changes.
    pub(crate) fn into_unfinished(self) -> Option<Session> {
        (!self.session.is_idle()).then_some(self.session)
    }
}

/// Returns the timeout of a step before the first request: `usual`, but not more than the timeout for the first
/// request.
fn until_first_request(context: &Context, usual: Duration) -> Duration {
    context.settings.first_request_timeout.map_or(usual, |first| first.min(usual))
}
