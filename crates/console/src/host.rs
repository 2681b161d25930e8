//! The way from a request to the directory: LDAP, over a connection of the server that the console is part of.

use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use client::{ClientError, Connection};
use tokio::sync::Semaphore;

use crate::limits::{CONVERSATIONS_MAX, LDAP_ANSWER_TIME, LDAP_MESSAGE_BYTES_MAX};

/// Sender of an HTTP request. Each request has it among its extensions: `axum::Extension<Client>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Address of the HTTP client.
    pub address: SocketAddr,
    /// Whether its connection uses TLS.
    pub is_secured: bool,
    /// The subject of the certificate that it sent, which TLS has verified; never that of a proxy.
    pub certificate_subject: Option<Arc<str>>,
}

/// The server, as the console sees it.
pub trait Host: Send + Sync {
    /// Opens an LDAP connection on behalf of a client. The server treats it as one that the client opened itself: its
    /// limits, rules and the audit trail see the client's address, and the listener `console`.
    ///
    /// # Errors
    /// The server stops, or the process has no descriptors left.
    fn connect(&self, client: Client) -> io::Result<UnixStream>;

    /// Whether the server sends links with which users who forgot their password set another.
    fn sends_links(&self) -> bool;

    /// Requests such a link for the account of this user name or mail address. Does not block: the server looks for the
    /// account later. Returns false if there are too many requests, whatever the name is, or if it sends no links.
    fn request_link(&self, client: Client, name: &str) -> bool;
}

/// Error of a conversation that did not take place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConversationError {
    /// Too many requests wait for the directory.
    #[error("too many requests wait for the directory")]
    Overloaded,
    /// The conversation met a defect.
    #[error("the request met a defect in the console")]
    Defect,
}

/// Opens LDAP connections, and runs blocking conversations over them on threads of their own. Cheap to clone.
#[derive(Clone)]
pub struct Ldap {
    host: Arc<dyn Host>,
    places: Arc<Semaphore>,
}

impl Ldap {
    /// Returns the way to this server.
    pub fn new(host: Arc<dyn Host>) -> Ldap {
        Ldap { host, places: Arc::new(Semaphore::new(CONVERSATIONS_MAX)) }
    }

    /// Opens a connection, which is anonymous. Does not block.
    ///
    /// # Errors
    /// The server stops, or the process has no descriptors left.
    pub fn connect(&self, client: Client) -> Result<Connection, ClientError> {
        let mut connection = Connection::over_local(self.host.connect(client)?)?;
        connection.set_timeout(LDAP_ANSWER_TIME)?;
        connection.set_message_size_max(LDAP_MESSAGE_BYTES_MAX);
        Ok(connection)
    }

    /// As [`Host::sends_links`].
    pub(crate) fn sends_links(&self) -> bool {
        self.host.sends_links()
    }

    /// As [`Host::request_link`].
    pub(crate) fn request_link(&self, client: Client, name: &str) -> bool {
        self.host.request_link(client, name)
    }

    /// Runs `talk`, which may block on the answers of a connection, on a thread for such work.
    ///
    /// # Errors
    /// Too many wait already, or `talk` panicked.
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
