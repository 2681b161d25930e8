//! A small LDAP client for tests and tools: blocking, pipelined, over one connection, be it TCP, with TLS or without,
//! or a socket of the file system.
//!
//! [`Connection::send`] puts a request on the wire and returns its id at once, so that many can be outstanding; the
//! answers are taken by id, in any order, with [`Connection::receive`], [`Connection::reply`]. For one request at a
//! time there are the helpers: [`Connection::bind`], [`Connection::search`], [`Connection::add`] and so on. What a
//! server answers is data, whatever the result code; a [`ClientError`] means that there was no answer.
//!
//! Every read has a time limit, so that a server that hangs fails a test instead of hanging it.
//!
//! Left out on purpose: client certificates, SASL but EXTERNAL, referral chasing, reconnecting, pooling. Load at scale,
//! with thousands of connections on a thread, belongs to the `bench` crate.
#![forbid(unsafe_code)]

mod connection;
mod content;
mod error;
mod export;
mod reply;
mod stream;
mod tls;

pub use connection::{Connection, READ_TIMEOUT_DEFAULT};
pub use content::{Content, ContentError};
pub use error::ClientError;
pub use export::{LdifExport, LdifExportError, LdifExported, export_ldif};
pub use reply::{Attribute, Entry, ExtendedReply, Outcome, Received, Reply};
pub use tls::{Tls, TlsError};
