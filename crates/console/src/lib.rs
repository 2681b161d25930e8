//! The web console: pages for people, and JSON for scripts, over HTTP.
//!
//! The console is a part of the server, and at the same time a client of it. For each session, [`Host::connect`] opens
//! an LDAP connection. The server's event loops serve this connection like any other connection. Therefore access
//! rules, limits, password policies and the audit trail apply to the console without code for them.
//!
//! Other protocols over HTTP can use the same listener. A [`Part`] is a router below its own path. Its handlers receive
//! the sender of a request as `axum::Extension<Client>`. They open a connection with [`Ldap::connect`] and use it in
//! [`Ldap::talk`], because the [`client`] crate blocks. A part must authenticate each request by the headers of the
//! request. It does not use the cookies of the console. Its responses contain the console's headers ([`headers`]). As
//! for the pages, requests that change something are refused if a browser sends them from another site.
#![forbid(unsafe_code)]

mod app;
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
mod page_error;
mod pages;
mod places;
mod prove;
mod proxies;
mod rates;
mod requests;
mod rights;
mod sessions;
mod sign_ins;
mod texts;
mod times;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn;

pub use crate::host::{Client, ConversationError, Host, Ldap};
pub use crate::http::{Http, StopOrder, Stopped, TlsConfig, stop_order};
pub use crate::mail_texts::MailTexts;
pub use crate::proxies::Proxies;
pub use crate::sign_ins::SignIns;

/// Another protocol on the listener of the console.
pub struct Part {
    /// Path prefix of the protocol's requests, for example `/scim/v2`.
    pub path: &'static str,
    /// Router of the protocol. It receives paths without the prefix. The body of a request has at most
    /// [`limits::BODY_BYTES_MAX`] bytes, and the response must begin within [`limits::REQUEST_TIME`].
    pub router: Router,
}

/// Returns the router of the console and of the given parts.
pub fn router(ldap: &Ldap, parts: Vec<Part>) -> Router {
    let mut router = pages::router(Arc::new(app::App::new(ldap.clone())));
    for Part { path, router: part } in parts {
        router = router.nest(path, part);
    }
    headers::with_bounds(router.layer(from_fn(origin::refuse_other_origins)))
}
