//! Identity under which a client's use of shared resources is counted.

use std::fmt;

use directory::Requester;

use crate::net::request_memory::Source;

/// Identity of a client. Anonymous clients are distinguished by their source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClientIdentity {
    Administrator,
    Entry(u64),
    AnonymousAt(Source),
}

impl ClientIdentity {
    pub(crate) fn of(requester: &Requester, source: Source) -> ClientIdentity {
        match requester {
            Requester::Administrator { .. } => ClientIdentity::Administrator,
            Requester::User { id, .. } => ClientIdentity::Entry(id.0),
            Requester::Anonymous => ClientIdentity::AnonymousAt(source),
        }
    }
}

impl fmt::Display for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientIdentity::Administrator => f.write_str("the administrator"),
            ClientIdentity::Entry(id) => write!(f, "entry {id}"),
            ClientIdentity::AnonymousAt(source) => write!(f, "anonymous clients at {source}"),
        }
    }
}
