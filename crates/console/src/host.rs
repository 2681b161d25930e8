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
