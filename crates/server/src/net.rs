//! Connections before anybody reads them, and how threads tell event loops something.

pub(crate) mod acceptor;
pub(crate) mod buffers;
pub(crate) mod descriptors;
pub(crate) mod listener;
pub(crate) mod mailbox;
pub(crate) mod request_memory;
pub(crate) mod stream;
