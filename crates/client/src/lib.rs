//! A small blocking LDAP client for tests and tools. It uses one connection: TCP with or without TLS, or a Unix domain
//! socket.
//!
//! [`Connection::send`] sends a request and returns its id immediately, so that many requests can be outstanding.
//! [`Connection::receive`] and [`Connection::reply`] return the responses by id, in any order. For one request at a
//! time there are [`Connection::bind`], [`Connection::search`], [`Connection::add`] and so on. A response is a value,
//! whatever its result code; a [`ClientError`] means that there was no response.
//!
//! Every read has a time limit, so that a server that hangs makes a test fail instead of hang.
//!
//! Omitted on purpose: SASL mechanisms except EXTERNAL, referral chasing, reconnecting, pooling. The `bench` crate has
//! the client for high load, with thousands of connections per thread.
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
