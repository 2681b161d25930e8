//! SCIM 2.0 (RFC 7643 and 7644): users and groups of the directory for identity providers and other programs.
//!
//! A [`Service`] is a client of the directory: it answers a request with LDAP operations on a connection that is bound
//! with the credentials in the request. So access rules, limits, password policies and the audit trail apply without
//! any code here. The service stores no sessions and no data. [`ScimSettings`] maps SCIM attributes to LDAP attributes.
//!
//! A search is translated to an LDAP filter ([`translate`]), and entries are converted to resources ([`read`]). A
//! changed resource is converted to the difference from its entry ([`mod@write`]). The directory applies the difference
//! only if the entry has not changed since it was read (RFC 4528). Group members are added and deleted as single
//! values, and never replaced as a whole.
//!
//! HTTP is not part of this crate: a request consists of a method, a path and octets.
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
