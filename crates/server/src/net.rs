//! The network layer below sessions: listeners, streams, buffers, the request memory, and the mailboxes of event loops.

pub(crate) mod acceptor;
pub(crate) mod arrivals;
pub(crate) mod buffers;
pub(crate) mod certificate;
pub(crate) mod client_identity;
pub(crate) mod connection_places;
pub(crate) mod descriptors;
pub(crate) mod http;
pub(crate) mod listener;
pub(crate) mod listening_places;
pub(crate) mod mailbox;
pub mod proxy_header;
pub(crate) mod released_memory;
pub(crate) mod request_memory;
pub(crate) mod socket;
pub(crate) mod stream;
pub(crate) mod tls;
