//! Access of HTTP handlers to the directory, over LDAP connections of the server that contains the console.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use client::{ClientError, Connection};
use tokio::sync::Semaphore;

use crate::limits::{CONVERSATIONS_MAX, LDAP_ANSWER_TIME, LDAP_MESSAGE_BYTES_MAX};
use crate::places::source;

/// The sender of an HTTP request. Handlers receive it as the extension `axum::Extension<Client>` of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Address of the sender.
    pub address: SocketAddr,
    /// Whether the sender's connection uses TLS.
    pub is_secured: bool,
    /// Subject of the sender's certificate, which the TLS library has verified. The certificate of a reverse proxy is
    /// never used here.
    pub certificate_subject: Option<Arc<str>>,
}

impl Client {
    /// Returns the address under which the client is counted. For IPv6, this address consists of the first 64 bits.
    pub fn source(&self) -> IpAddr {
        source(self.address.ip())
    }
}

/// The server that contains the console.
pub trait Host: Send + Sync {
    /// Opens an LDAP connection for a client. The server treats the connection as if the client itself had opened it:
    /// limits, access rules and the audit trail use the client's address and the listener `console`.
    ///
    /// # Errors
    /// The server is stopping, or the process has no file descriptors left.
    fn connect(&self, client: Client) -> io::Result<UnixStream>;

    /// Returns true if the server sends mail with links to users who forgot their password.
    fn sends_links(&self) -> bool;

    /// Requests a mail with a link for the account with this user name or mail address. Does not block, because the
    /// server searches for the account later. Returns false if there are too many requests or if the server sends no
    /// links. The result does not depend on the name.
    fn request_link(&self, client: Client, name: &str) -> bool;
}

/// Error of running a conversation with the directory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConversationError {
    /// Too many conversations are waiting.
    #[error("too many requests wait for the directory")]
    Overloaded,
    /// The conversation panicked.
    #[error("the request met a defect in the console")]
    Defect,
}

/// Opens LDAP connections, and runs conversations over them. A conversation blocks its thread, so it runs on a separate
/// thread. Cloning is cheap.
#[derive(Clone)]
pub struct Ldap {
    host: Arc<dyn Host>,
    places: Arc<Semaphore>,
}

impl Ldap {
    /// Creates the access to the directory of this server.
    pub fn new(host: Arc<dyn Host>) -> Ldap {
        Ldap { host, places: Arc::new(Semaphore::new(CONVERSATIONS_MAX)) }
    }

    /// Opens an LDAP connection that is not bound. Does not block.
    ///
    /// # Errors
    /// The server is stopping, or the process has no file descriptors left.
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

    /// Runs `talk` on a separate thread. On that thread, `talk` may block while it waits for answers. If the client
    /// disconnects, this future is dropped, but `talk` continues. Therefore a guard that limits threads must be moved
    /// into `talk`.
    ///
    /// # Errors
    /// Too many conversations are waiting, or `talk` panicked.
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
