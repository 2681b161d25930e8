//! Steps before the first request of a connection: reading the proxy header, starting TLS, and counting the connection.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use ldap::{ResultCode, response};

use super::{Connection, Phase};
use crate::limits::UNCHARGED_MAX;
use crate::net::request_memory::Admission;
use crate::net::stream::Peer;
use crate::net::tls::TlsSession;
use crate::session::context::Context;
use crate::session::{ConnectionPlace, Session};

/// State of a connection that waits for a proxy header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Beginning {
    /// Time at which the connection was opened.
    pub(super) since: Instant,
    /// The proxy.
    pub(super) peer: Peer,
    pub(super) place: ConnectionPlace,
    /// Whether TLS follows the header.
    pub(super) has_tls: bool,
}

impl Connection {
    /// Charges the memory of an unfinished TLS handshake. Returns false if the memory is not available. After the
    /// handshake, informs the session once that TLS is established.
    pub(super) fn after_tls_read(&mut self, context: &mut Context) -> bool {
        if self.session.is_secured() {
            return true;
        }
        let Some(tls) = self.stream.tls() else { return true };
        if tls.handshake_since().is_some() {
            if tls.buffered_bytes() <= UNCHARGED_MAX {
                return true;
            }
            self.session.charge(context, tls.buffered_bytes());
            let is_admitted = self.session.admission(context) == Admission::Admitted;
            if !is_admitted {
                context.shared.request_memory.refuse(context.now);
            }
            return is_admitted;
        }
        let certificates = &context.shared.certificates;
        certificates.established.fetch_add(1, Ordering::Relaxed);
        if tls.is_resumed() {
            certificates.resumed.fetch_add(1, Ordering::Relaxed);
        }
        tracing::debug!("conn={} has {}", self.session.number(), tls.description());
        let certificate = tls.client_certificate().map(|certificate| certificate.as_ref());
        self.session.now_secured(context, certificate, tls.channel_bindings());
        self.last_progress = context.now;
        true
    }

    /// Reads the proxy header, which contains the address of the client. Returns false if the header is incomplete.
    pub(super) fn take_proxy_header(&mut self, context: &mut Context) -> std::io::Result<bool> {
        let Phase::Beginning(beginning) = &self.phase else { return Ok(true) };
        if !self.readable {
            return Ok(false);
        }
        let Some(header) = self.stream.proxy_header()? else {
            self.readable = false;
            // If the stream ends here, the header is incomplete.
            return if self.ending { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(false) };
        };
        let Beginning { place, has_tls, .. } = **beginning;
        let (peer, number) = (beginning.peer.clone().with_proxy_header(header), self.number());
        tracing::debug!("conn={number} is of {peer}");
        let settings = &context.settings;
        let is_trusted = peer.hops().is_none_or(|hops| hops.are_all(|address| settings.trusts(address)));
        self.session = Session::new(place, Arc::clone(&context.anonymous), &peer, is_trusted);
        self.session.find_limits(context);
        self.session.now_open(context, &peer);
        self.last_progress = context.now;
        self.phase = Phase::Open;
        if !self.enter(context, has_tls) {
            self.broken = true;
            return Ok(false);
        }
        if has_tls && !self.start_tls(context) {
            self.broken = true;
            return Ok(false);
        }
        Ok(true)
    }

    /// Adds the connection to the counts for its address and for its `[[limit]]` table. Returns false if there are too
    /// many connections. The caller must then close this connection. The client has already received a notice of
    /// disconnection, unless TLS is expected.
    pub(super) fn enter(&mut self, context: &Context, has_tls: bool) -> bool {
        let Err(why) = self.count(context) else { return true };
        if !has_tls {
            let mut notice = Vec::new();
            response::encode_notice_of_disconnection(&mut notice, ResultCode::BUSY, why);
            // A new socket has room for the notice. If sending fails, the peer still sees the connection close.
            let _ = self.stream.send(&notice);
        }
        false
    }

    fn count(&mut self, context: &Context) -> Result<(), &'static str> {
        self.session.take_place(context)?;
        if !self.session.is_trusted() {
            let source = *self.session.source();
            context.shared.arrivals.enter(source, &context.settings, context.now)?;
            self.has_entered = true;
        }
        Ok(())
    }

    pub(super) fn refuse_proxy(&self, context: &Context, error: &std::io::Error) {
        if let Phase::Beginning(beginning) = &self.phase {
            context.shared.proxies.refuse(context.now, self.number(), &beginning.peer, error);
        }
    }

    /// Begins TLS. Returns false if that fails. The connection must then be closed.
    pub(super) fn start_tls(&mut self, context: &Context) -> bool {
        match context.shared.certificates.session(context.now) {
            Ok(session) => {
                self.stream.start_tls(session);
                true
            }
            Err(error) => {
                tracing::error!(%error, "conn={} is closed: TLS could not begin", self.number());
                false
            }
        }
    }

    /// Returns the start of the TLS handshake; `None` if it is done.
    pub(super) fn handshake_since(&self) -> Option<Instant> {
        self.stream.tls().and_then(TlsSession::handshake_since)
    }
}
