//! The connection between HTTP requests and the directory: LDAP, through the server that contains the console.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use client::{ClientError, Connection};
use tokio::sync::Semaphore;

use crate::limits::{CONVERSATIONS_MAX, LDAP_ANSWER_TIME, LDAP_MESSAGE_BYTES_MAX};
use crate::places::source;

/// Sender of an HTTP request. Each request has it as the extension `axum::Extension<Client>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Address of the HTTP client.
    pub address: SocketAddr,
    /// Whether the connection of the client uses TLS.
    pub is_secured: bool,
    /// Subject of the client's certificate, which TLS has verified. Never the certificate of a proxy.
    pub certificate_subject: Option<Arc<str>>,
}

impl Client {
    /// Returns the address for counting the client: of IPv6 addresses the first 64 bits.
    pub fn source(&self) -> IpAddr {
        source(self.address.ip())
    }
}

/// The server that contains the console.
pub trait Host: Send + Sync {
    /// Opens an LDAP connection on behalf of a client. The server treats it as one that the client opened itself:
    /// limits, access rules and the audit trail use the client's address, and the listener `console`.
    ///
    /// # Errors
    /// The server is stopping, or the process has no descriptors left.
    fn connect(&self, client: Client) -> io::Result<UnixStream>;

    /// Returns true if the server sends mail with links to users who forgot their password.
    fn sends_links(&self) -> bool;

    /// Requests a mail with a link for the account with this user name or mail address. Does not block, because the
    /// server looks up the account later. Returns false if there are too many requests, regardless of the name, or if
    /// the server sends no links.
    fn request_link(&self, client: Client, name: &str) -> bool;
}

/// Error of a conversation with the directory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConversationError {
    /// Too many requests wait for the directory.
    #[error("too many requests wait for the directory")]
    Overloaded,
    /// The conversation panicked.
    #[error("the request met a defect in the console")]
    Defect,
}

/// Opens LDAP connections, and runs blocking conversations over them on separate threads. Cheap to clone.
#[derive(Clone)]
pub struct Ldap {
    host: Arc<dyn Host>,
    places: Arc<Semaphore>,
}

impl Ldap {
    /// Creates the connection to this server.
    pub fn new(host: Arc<dyn Host>) -> Ldap {
        Ldap { host, places: Arc::new(Semaphore::new(CONVERSATIONS_MAX)) }
    }

    /// Opens an anonymous connection. Does not block.
    ///
    /// # Errors
    /// The server is stopping, or the process has no descriptors left.
    pub fn connect(&self, client: Client) -> Result<Connection, ClientError> {
        let mut connection = Connection::over_local(self.host.connect(client)?)?;
        connection.set_timeout(LDAP_ANSWER_TIME)?;
        connection.set_message_size_max(LDAP_MESSAGE_BYTES_MAX);
        Ok(connection)
    }

    /// See [`Host::sends_links`].
    pub(crate) fn sends_links(&self) -> bool {
        self.host.sends_links()
    }

    /// See [`Host::request_link`].
    pub(crate) fn request_link(&self, client: Client, name: &str) -> bool {
        self.host.request_link(client, name)
    }

    /// Runs `talk` on a thread on which it may block for the answers of a connection.
    ///
    /// # Errors
    /// Too many conversations wait already, or `talk` panicked.
    pub async fn talk<T: Send + 'static>(
        &self,
        talk: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ConversationError> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.map_err(|_| ConversationError::Overloaded)?;
        let running = tokio::task::spawn_blocking(move || {
            let _place = place;
            talk()
        });
        running.await.map_err(|_| ConversationError::Defect)
    }
}
