//! The HTTP listener of the web console, and the path of its requests to the event loops.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Instant;

use ::console::{Client, Host, Http, Ldap, Proxies, stop_order};
use ::scim::ScimSettings;

use crate::config::ListenerIndex;
use crate::config::console::ConsoleSettings;
use crate::error::ServeError;
use crate::limits::http::HTTP_CONNECTION_TIME;
use crate::net::acceptor::AcceptorControl;
use crate::net::certificate::Certificates;
use crate::net::listener::listen_for_requests;
use crate::net::stream::{ConsoleClient, Peer};
use crate::open::scim;
use crate::workers::reset_mails::ResetMails;
use crate::workers::service::Service;

/// The open listeners of the console, before a thread serves them.
pub(super) struct ConsoleListener(Http);

/// Passes connections from the console to the event loops. An event loop treats them like connections from an LDAP
/// listener.
struct Loops {
    acceptor: Arc<AcceptorControl>,
    reset_mails: Option<Arc<ResetMails>>,
}

impl Host for Loops {
    fn connect(&self, client: Client) -> io::Result<UnixStream> {
        let (own, other) = UnixStream::pair()?;
        other.set_nonblocking(true)?;
        let Client { address, is_secured, certificate_subject } = client;
        let client = ConsoleClient { address, is_secured, certificate_subject };
        let peer = Peer::Console(Box::new(client));
        self.acceptor.bring(mio::net::UnixStream::from_std(other), peer, ListenerIndex::CONSOLE)?;
        Ok(own)
    }

    fn sends_links(&self) -> bool {
        self.reset_mails.is_some()
    }

    fn request_link(&self, client: Client, name: &str) -> bool {
        let mails = self.reset_mails.as_ref();
        mails.is_some_and(|mails| mails.request(name, client.address, Instant::now()))
    }
}

impl ConsoleListener {
    /// Opens the listeners.
    ///
    /// # Errors
    /// The server cannot listen on an address.
    pub(super) fn open(
        (settings, users_and_groups): (&ConsoleSettings, Option<&ScimSettings>),
        (acceptor, reset_mails): (Arc<AcceptorControl>, Option<Arc<ResetMails>>),
        certificates: &Arc<Certificates>,
    ) -> Result<ConsoleListener, ServeError> {
        let mut listeners = Vec::new();
        for &address in &settings.listen {
            let failed = |error| ServeError::Console { address, error };
            let listener = listen_for_requests(address, HTTP_CONNECTION_TIME).map_err(failed)?;
            let scheme = if settings.tls { "https" } else { "http" };
            tracing::info!("console at {scheme}://{}/", listener.local_addr().map_err(failed)?);
            listeners.push(listener);
        }
        let ldap = Ldap::new(Arc::new(Loops { acceptor, reset_mails }));
        let certificates = Arc::clone(certificates);
        let tls: Option<::console::TlsConfig> =
            if settings.tls { Some(Box::new(move || certificates.config())) } else { None };
        let parts = users_and_groups.and_then(|settings| scim::part(&ldap, settings)).into_iter().collect();
        let app = ::console::router(&ldap, parts);
        let proxies = Proxies(settings.trusted_proxies.clone());
        Ok(ConsoleListener(Http { listeners, tls, proxies, app }))
    }

    /// Starts the thread that serves the listeners.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(super) fn start(self) -> io::Result<Service> {
        let (order, stopped) = stop_order();
        let run = move || {
            if let Err(error) = self.0.run(stopped) {
                tracing::error!(%error, "the console ended");
            }
        };
        Service::start("pando-console", run, move || drop(order))
    }
}
