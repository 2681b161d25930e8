//! SCIM 2.0 (RFC 7643 and 7644). Identity providers and other programs use this protocol to read and change users and
//! groups of the directory.
//!
//! A [`Service`] is a client of the directory. It answers a request by LDAP operations on a connection that is bound
//! with the credentials in the request. Therefore access rules, limits, password policies and the audit trail apply
//! without code for them here. The service stores no sessions and no data. [`ScimSettings`] defines which LDAP
//! attribute stores which SCIM attribute.
//!
//! A SCIM filter is translated to an LDAP filter ([`translate`]), and the entries that match are converted to resources
//! ([`read`]). To change a resource, the service computes the difference between the new resource and its entry
//! ([`mod@write`]). With the assertion control (RFC 4528), the directory makes the change only if the entry has not
//! changed since it was read. Members of a group are added and deleted one by one, unless a request removes all of
//! them.
//!
//! This crate does not contain HTTP. A request consists of a method, a path and octets.
#![forbid(unsafe_code)]

mod answer_memory;
mod attribute;
mod bulk;
mod check;
mod credentials;
mod documents;
mod error;
mod filter;
mod json;
pub mod limits;
mod listing;
mod model;
mod patch;
mod path;
mod places;
mod read;
mod resources;
mod selection;
mod service;
mod session;
mod settings;
mod time;
mod translate;
mod write;

pub use answer_memory::AnswerShare;
pub use error::ScimError;
pub use service::{ScimRequest, ScimResponse, Service};
pub use settings::ScimSettings;
