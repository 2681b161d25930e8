//! A request and its responses, as forwarded by the proxy.

use std::time::Duration;

use ldap::{DecodeLimits, Message, Request, oids};

use crate::limits::{EXCHANGE_OVERHEAD, MESSAGE_SIZE_MAX};

/// Limits of decoding. The proxy accepts everything that the servers accept.
pub(crate) const DECODE_LIMITS: DecodeLimits = DecodeLimits {
    message_size_max: MESSAGE_SIZE_MAX,
    filter_depth_max: ldap::FILTER_DEPTH_CEILING,
    filter_terms_max: usize::MAX,
    element_count_max: usize::MAX,
    value_count_max: usize::MAX,
    control_count_max: 1_024,
};

/// Kind of request that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Bind,
    Search,
    Compare,
    Add,
    Modify,
    ModifyDn,
    Delete,
    PasswordModify,
    Extended,
}

impl Kind {
    /// Returns the kind of a request; `None` for StartTLS and for requests without an answer.
    pub(crate) fn of(request: &Request<'_>) -> Option<Kind> {
        Some(match request {
            Request::Bind(_) => Kind::Bind,
            Request::Search(_) => Kind::Search,
            Request::Compare(_) => Kind::Compare,
            Request::Add(_) => Kind::Add,
            Request::Modify(_) => Kind::Modify,
            Request::ModifyDn(_) => Kind::ModifyDn,
            Request::Delete(_) => Kind::Delete,
            Request::Extended(extended) if extended.name == oids::MODIFY_PASSWORD => Kind::PasswordModify,
            Request::Extended(extended) if extended.name == oids::START_TLS => return None,
            Request::Extended(_) => Kind::Extended,
            Request::Unbind | Request::Abandon(_) => return None,
        })
    }

    /// Returns true if a request of this kind can change the directory.
    pub(crate) fn is_change(self) -> bool {
        matches!(self, Kind::Add | Kind::Modify | Kind::ModifyDn | Kind::Delete | Kind::PasswordModify)
    }

    /// Returns true if later requests depend on a request of this kind, so that it must be replayed: if it can change
    /// the directory or the client's identity.
    pub(crate) fn is_needed(self) -> bool {
        self.is_change() || self == Kind::Bind
    }

    /// Returns the name for reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Bind => "bind",
            Kind::Search => "search",
            Kind::Compare => "compare",
            Kind::Add => "add",
            Kind::Modify => "modify",
            Kind::ModifyDn => "modifyDN",
            Kind::Delete => "delete",
            Kind::PasswordModify => "password modify",
            Kind::Extended => "extended operation",
        }
    }
}

/// A request that the active server has answered, and that is replayed on the other server.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// Number of the client's connection.
    pub(crate) client: u64,
    /// Number of the server that answered: 0 is the old server, 1 the new server.
    pub(crate) answered_by: usize,
    pub(crate) kind: Kind,
    pub(crate) request: Vec<u8>,
    /// The responses in order.
    pub(crate) responses: Vec<u8>,
    /// Whether the responses are complete.
    pub(crate) is_complete: bool,
    /// Whether a change of any client was in progress at the same time, so that it is unknown whether the change or
    /// this request came first.
    pub(crate) overlaps_change: bool,
    /// Time from the request to the last response.
    pub(crate) latency: Duration,
    /// Number of bytes that the exchange occupies in the queue.
    pub(crate) charge: usize,
}

/// Event for the replay. Events come in the order in which the active server answered.
#[derive(Debug)]
pub(crate) enum Event {
    Exchange(Box<Exchange>),
    /// The connection with this number has ended.
    Closed(u64),
}

/// Returns the number of bytes that a request occupies in the queue.
pub(crate) fn charge_of(request: &[u8]) -> usize {
    request.len() + EXCHANGE_OVERHEAD
}

/// Decodes a request.
pub(crate) fn decode(frame: &[u8]) -> Option<Message<'_>> {
    Message::decode(frame, &DECODE_LIMITS).ok()
}

/// Returns the complete messages at the beginning of `bytes`.
pub(crate) fn frames(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let len = ldap::frame_len(rest).ok().flatten()?;
        let (frame, after) = rest.split_at_checked(len)?;
        rest = after;
        Some(frame)
    })
}
