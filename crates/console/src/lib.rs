//! The web console: pages for people and JSON for scripts over HTTP.
//!
//! The console is a client of the server that it is part of. For each session [`Host::connect`] opens an LDAP
//! connection, which the event loops serve as any other. So access rules, limits, password policies and the audit trail
//! hold for the console without a line of it.
//!
//! Other protocols over HTTP share the listener: a [`Part`] is a router below a path of its own. Its handlers take the
//! sender of a request as `axum::Extension<Client>`, open a connection with [`Ldap::connect`], and use it inside
//! [`Ldap::talk`], because the [`client`] crate blocks. A part authenticates each request itself, by the headers of the
//! request. It has no part in the console's cookies, and its answers carry the console's headers ([`headers`]).
#![forbid(unsafe_code)]

mod app;
mod ask;
mod cookies;
mod describe;
mod download;
mod fields;
mod form;
pub mod headers;
mod host;
mod http;
pub mod limits;
mod mail_texts;
mod monitor;
mod multipart;
mod origin;
mod own;
mod page;
mod pages;
mod places;
mod prove;
mod proxies;
mod rates;
mod rights;
mod sessions;
mod sign_ins;
mod texts;
mod times;
mod trouble;

use std::sync::Arc;

use axum::Router;

pub use crate::host::{Client, ConversationError, Host, Ldap};
pub use crate::http::{Http, StopOrder, Stopped, TlsConfig, stop_order};
pub use crate::mail_texts::MailTexts;
pub use crate::proxies::Proxies;

/// Pages of another protocol on the console's listener.
pub struct Part {
    /// Path below which its requests are, such as `/scim/v2`.
    pub path: &'static str,
    /// Its handlers, by the rest of the path. A request's body has at most [`limits::BODY_BYTES_MAX`] bytes, and the
    /// answer begins within [`limits::REQUEST_TIME`].
    pub router: Router,
}

/// Returns the router of the console and of these parts.
pub fn router(ldap: &Ldap, parts: Vec<Part>) -> Router {
    let mut router = pages::router(Arc::new(app::App::new(ldap.clone())));
    for Part { path, router: part } in parts {
        router = router.nest(path, part);
    }
    headers::with_bounds(router)
}
