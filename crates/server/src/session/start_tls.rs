//! StartTLS (RFC 4511 section 4.14), and the checks for requests that require TLS (RFC 4513 sections 3 and 6.3).

use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::Arc;

use directory::bind::{BindStrength, ExternalIdentity, OAUTHBEARER, PLAIN};
use directory::passwords::has_password;
use directory::{BindMethod, ClientLink, Outcome, Requester, WeekTime};
use ldap::oids::{START_TLS, VERIFY_CREDENTIALS};
use ldap::{
    Authentication, Controls, ExtendedRequest, LdapResult, Request, ResultCode, Scope, VerifyCredentials,
    response,
};

use super::audit::OperationEnd;
use super::password_modify::is_password_modify;
use super::responder::Responder;
use super::{Next, Session};
use crate::config::ListenerRules;
use crate::config::values::TlsNeed;
use crate::net::stream::{ConsoleClient, Peer, PeerAddresses};
use crate::net::tls::ChannelBindings;
use crate::session::context::Context;
use crate::stamp::now_micros;

/// Protection of a connection against attackers between the client and the server.
#[derive(Debug)]
pub(super) enum Protection {
    /// No protection against attackers, except by the network if the settings declare this address safe.
    None(IpAddr),
    /// No protection, on a connection through a proxy. Boxed because most connections are idle and direct.
    Proxied(Box<PeerAddresses>),
    /// The kernel, because the client is a process on this machine.
    Kernel,
    /// TLS between the client and the console, which opened this connection. Boxed because the console opens few
    /// connections.
    Console(Box<ConsoleClient>),
    /// TLS on this connection, after the handshake. Boxed because most connections are idle.
    Tls(Box<TlsFacts>),
}

/// Facts from the TLS handshake.
#[derive(Debug)]
pub(super) struct TlsFacts {
    /// The subject of the client's certificate, if there is one.
    subject: Option<String>,
    channel: ChannelBindings,
    /// Client's address; `None` for a process on this machine.
    address: Option<IpAddr>,
}

impl Protection {
    pub(super) fn of(peer: &Peer) -> Protection {
        match (peer, peer.hops()) {
            (Peer::Network(address), _) => Protection::None(address.ip()),
            (Peer::Console(client), _) if !client.is_secured => Protection::None(client.address.ip()),
            (Peer::Console(client), _) => Protection::Console(client.clone()),
            (_, Some(hops)) => Protection::Proxied(Box::new(hops)),
            (_, None) => Protection::Kernel,
        }
    }

    /// Returns the client's address, which may come from a proxy header; `None` for a process on this machine.
    fn address(&self) -> Option<IpAddr> {
        match self {
            Protection::None(address) => Some(*address),
            Protection::Console(client) => Some(client.address.ip()),
            Protection::Proxied(hops) => Some(hops.client()),
            Protection::Kernel => None,
            Protection::Tls(tls) => tls.address,
        }
    }
}

/// Returns true if a request is StartTLS.
pub(super) fn is_start_tls(request: &Request<'_>) -> bool {
    matches!(request, Request::Extended(request) if request.name == START_TLS)
}

impl Session {
    /// Returns the facts about the connection on which access rules depend. Returns `None` if neither a rule nor a bind
    /// by mail token needs them.
    pub(super) fn client_link(&self, context: &Context) -> Option<ClientLink> {
        (context.snapshot.depends_on_link() || self.bind_method == BindMethod::MailToken).then(|| {
            let is_protected =
                matches!(self.protection, Protection::Kernel | Protection::Console(_) | Protection::Tls(_));
            let method = match *self.requester {
                Requester::Anonymous => BindMethod::None,
                Requester::Administrator { .. } | Requester::User { .. } => self.bind_method,
            };
            let at = Some(WeekTime::of_micros(now_micros()));
            let listener = Some(context.settings.listener_name(self.listener));
            let address = self.protection.address();
            ClientLink { address, is_protected, method: Some(method), at, listener }
        })
    }

    /// Returns true if TLS runs on this connection and its handshake is done.
    pub(crate) fn is_secured(&self) -> bool {
        matches!(self.protection, Protection::Tls(..))
    }

    /// Returns true if the client uses TLS, either on this connection or between the client and the console.
    pub(super) fn has_tls(&self) -> bool {
        matches!(self.protection, Protection::Tls(..) | Protection::Console(_))
    }

    /// Returns the subject of the client's certificate, if it sent one.
    pub(super) fn certificate_subject(&self) -> Option<&str> {
        match &self.protection {
            Protection::Tls(tls) => tls.subject.as_deref(),
            Protection::Console(client) => client.certificate_subject.as_deref(),
            _ => None,
        }
    }

    /// Records the end of the TLS handshake. The session becomes anonymous, because an attacker between the client and
    /// the server may have sent its bind. RFC 4513 section 3.1.1 leaves the choice to the server. From now on, SASL
    /// EXTERNAL uses the client's certificate, if the client sent one.
    pub(crate) fn now_secured(
        &mut self,
        context: &mut Context,
        certificate: Option<&[u8]>,
        channel: ChannelBindings,
    ) {
        self.set_requester(context, Arc::clone(&context.anonymous));
        let facts = certificate.and_then(|certificate| schema::certificate_facts(certificate).ok());
        if let Some(facts) = &facts {
            tracing::debug!("conn={} has a certificate of {}", self.number(), facts.subject);
            self.external = ExternalIdentity::Certificate;
        }
        let subject = facts.map(|facts| facts.subject);
        let address = self.protection.address();
        self.protection = Protection::Tls(Box::new(TlsFacts { subject, channel, address }));
        self.audit_event(context, ::audit::Kind::Tls, "");
    }

    /// Answers StartTLS. The TLS handshake begins when the answer is sent.
    pub(super) fn start_tls(
        &mut self,
        to: Responder<'_>,
        request: &ExtendedRequest<'_>,
    ) -> ControlFlow<Next> {
        let refused = if request.value.is_some() {
            Some((ResultCode::PROTOCOL_ERROR, "StartTLS has no value"))
        } else if self.is_secured() {
            Some((ResultCode::OPERATIONS_ERROR, "there is TLS already"))
        } else if !self.is_idle() {
            Some((ResultCode::OPERATIONS_ERROR, "wait for the answers to all requests before StartTLS"))
        } else {
            None
        };
        if let Some((code, text)) = refused {
            self.answer(to, &Outcome::new(code, text));
            return ControlFlow::Continue(());
        }
        let success = LdapResult::SUCCESS;
        response::encode_extended_response(
            to.out,
            to.head.id,
            &success,
            Some(START_TLS),
            None,
            Controls::NONE,
        );
        to.context.counters.completed(to.head.operation, ResultCode::SUCCESS, to.head.waited(to.context.now));
        self.end_event(to.context, &to.head, ResultCode::SUCCESS, OperationEnd::default());
        ControlFlow::Break(Next::StartTls)
    }

    /// Returns the channel bindings for proofs; `None` without TLS.
    pub(super) fn channel_bindings(&self) -> Option<&ChannelBindings> {
        let Protection::Tls(tls) = &self.protection else { return None };
        tls.channel.is_there().then_some(&tls.channel)
    }

    /// Returns the rules of the listener that accepted the connection.
    #[inline]
    pub(super) fn rules<'a>(&self, context: &'a Context) -> &'a ListenerRules {
        context.settings.rules(self.listener)
    }

    /// Returns true if passwords may arrive without TLS.
    pub(super) fn allows_clear(&self, context: &Context) -> bool {
        let rules = self.rules(context);
        match &self.protection {
            Protection::None(address) => rules.allow_clear(*address),
            Protection::Proxied(hops) => hops.are_all(|address| rules.allow_clear(address)),
            Protection::Kernel | Protection::Console(_) | Protection::Tls(..) => true,
        }
    }

    /// Returns the reason to refuse a request if the connection must be protected, or if the authentication must be
    /// stronger.
    pub(super) fn refuse_unprotected(&self, context: &Context, request: &Request<'_>) -> Option<Outcome> {
        self.refuse_without_tls(context, request).or_else(|| self.refuse_weak(context, request))
    }

    fn refuse_without_tls(&self, context: &Context, request: &Request<'_>) -> Option<Outcome> {
        let need = self.rules(context).tls_needed_for;
        // A search sends no password. Most requests are searches, so this test is first.
        let is_clear_search = matches!((need, request), (TlsNeed::Passwords, Request::Search(_)));
        if is_clear_search || self.allows_clear(context) || is_always_allowed(request) {
            return None;
        }
        let text = match need {
            TlsNeed::Everything => "ask for TLS first, with StartTLS, or use ldaps",
            TlsNeed::Passwords if sends_password(request, context) => {
                "a password that is sent in the clear can be read on its way, and may have been: change it, and use \
                 StartTLS or ldaps"
            }
            TlsNeed::Passwords => return None,
        };
        Some(Outcome::new(ResultCode::CONFIDENTIALITY_REQUIRED, text))
    }

    /// Returns the reason to refuse a bind that is too weak for the listener, or a request of an anonymous client.
    fn refuse_weak(&self, context: &Context, request: &Request<'_>) -> Option<Outcome> {
        let weakest = self.rules(context).weakest_bind;
        if weakest == BindStrength::Anonymous {
            return None;
        }
        let strength = match request {
            Request::Bind(bind) => match bind.authentication {
                // An empty password makes the bind anonymous, with or without a name (RFC 4513 sections 5.1.1 and
                // 5.1.2).
                Authentication::Simple([]) => BindStrength::Anonymous,
                Authentication::Simple(_) => BindStrength::Password,
                Authentication::Sasl { mechanism, .. } => BindStrength::of_mechanism(mechanism),
                Authentication::Unrecognized(_) => return None,
            },
            request if is_always_allowed(request) || *self.requester != Requester::Anonymous => return None,
            _ => {
                let text = "nothing is done for anonymous clients here: bind first";
                return Some(Outcome::new(ResultCode::STRONGER_AUTH_REQUIRED, text));
            }
        };
        if strength >= weakest {
            return None;
        }
        let (code, text) = match (strength, weakest) {
            // RFC 4511 appendix A: a client that bound anonymously must provide some form of credentials.
            (BindStrength::Anonymous, _) => (
                ResultCode::INAPPROPRIATE_AUTHENTICATION,
                "anonymous binds are not taken here: bind with a name and credentials",
            ),
            (_, BindStrength::Certificate) => (
                ResultCode::STRONGER_AUTH_REQUIRED,
                "this address takes binds by SASL EXTERNAL with a certificate alone",
            ),
            _ => (
                ResultCode::STRONGER_AUTH_REQUIRED,
                "this address takes no passwords: bind by a SASL mechanism that proves it, such as SCRAM-SHA-256",
            ),
        };
        Some(Outcome::new(code, text))
    }
}

/// Returns true if a request is allowed on every connection: Abandon, Unbind, StartTLS, or a read of the root DSE.
fn is_always_allowed(request: &Request<'_>) -> bool {
    match request {
        Request::Abandon(_) | Request::Unbind => true,
        Request::Search(search) => search.base_object.is_empty() && search.scope == Scope::BaseObject,
        request => is_start_tls(request),
    }
}

/// Returns true if a request contains a password or a token in the clear.
fn sends_password(request: &Request<'_>, context: &Context) -> bool {
    match request {
        Request::Bind(bind) => is_clear(bind.authentication),
        Request::Extended(request) if request.name == VERIFY_CREDENTIALS => {
            VerifyCredentials::decode(request.value)
                .is_some_and(|decoded| is_clear(decoded.bind.authentication))
        }
        request if is_password_modify(request) => true,
        request => has_password(request, &context.snapshot),
    }
}

/// Returns true if credentials are a password or a token in the clear.
fn is_clear(authentication: Authentication<'_>) -> bool {
    match authentication {
        Authentication::Simple(password) => !password.is_empty(),
        Authentication::Sasl { mechanism, .. } => {
            [PLAIN, OAUTHBEARER].iter().any(|clear| mechanism.eq_ignore_ascii_case(clear))
        }
        Authentication::Unrecognized(_) => false,
    }
}
