//! The web console: pages for people and JSON for scripts over HTTP.
//!
//! The console is a client of the server that it is part of. For each session, [`Host::connect`] opens an LDAP
//! connection, which the event loops serve like any other. So access rules, limits, password policies and the audit
//! trail apply to the console without any code in it.
//!
//! Other protocols over HTTP share the listener: a [`Part`] is a router below a separate path. Its handlers get the
//! sender of a request as `axum::Extension<Client>`, open a connection with [`Ldap::connect`], and use it inside
//! [`Ldap::talk`], because the [`client`] crate blocks. A part must authenticate each request by its headers. It does
//! not use the console's cookies. Its answers get the console's headers ([`headers`]).
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
pub use crate::sign_ins::SignIns;

/// Handlers of another protocol on the console's listener.
pub struct Part {
    /// Path prefix of its requests, such as `/scim/v2`.
    pub path: &'static str,
    /// Handlers by the rest of the path. The body of a request has at most [`limits::BODY_BYTES_MAX`] bytes, and the
    /// answer begins within [`limits::REQUEST_TIME`].
    pub router: Router,
}

/// Returns the router for the console and these parts.
pub fn router(ldap: &Ldap, parts: Vec<Part>) -> Router {
    let mut router = pages::router(Arc::new(app::App::new(ldap.clone())));
    for Part { path, router: part } in parts {
        router = router.nest(path, part);
    }
    headers::with_bounds(router)
}
