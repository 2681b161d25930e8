//! SCIM 2.0 (RFC 7643 and 7644): users and groups of the directory for identity providers and other programs.
//!
//! A [`Service`] is a client of the directory: it answers a request by LDAP operations on a connection that it binds
//! with the credentials of the request. So access rules, limits, password policies and the audit trail hold without a
//! line here. It keeps no session and no data; [`ScimSettings`] maps the attributes of SCIM to those of LDAP.
//!
//! A search becomes a filter of LDAP ([`translate`]), entries become resources ([`read`]), and a changed resource
//! becomes the difference to its entry ([`mod@write`]), which the directory applies only if the entry is still the one
//! that was read (RFC 4528). Members of groups are added and deleted as values, and never written as a whole.
//!
//! HTTP itself is outside: a request here is a method, a path and octets.
#![forbid(unsafe_code)]

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

pub use error::ScimError;
pub use service::{ScimRequest, ScimResponse, Service};
pub use settings::ScimSettings;
