//! Control of a running server: stopping it, and reloading its settings.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};

use directory::{Directory, password};

use super::event_loops::Listening;
use super::settings::node_settings;
use crate::config::{Config, Secret};
use crate::error::ServeError;
use crate::limits::RELOAD_PATIENCE;
use crate::net::acceptor::AcceptorControl;
use crate::net::certificate::{AuthorityFile, Certificates};
use crate::net::listening_places::ListeningPlaces;
use crate::net::mailbox::{LoopMessage, Mailbox};
use crate::session::context::Shared;
use crate::stamp::{Random, now_seconds};

/// A handle that controls a running server.
#[derive(Clone)]
pub struct Handle {
    acceptor: Arc<AcceptorControl>,
    mailboxes: Arc<[Mailbox]>,
    /// A weak reference, so that a handle does not keep the data directory open.
    directory: Weak<Directory>,
    certificates: Arc<Certificates>,
    listening: Arc<ListeningPlaces>,
    config: Arc<Mutex<Config>>,
}

/// Result of a reload.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Names of the changed settings that are now applied.
    pub applied: Vec<&'static str>,
    /// Names of the changed settings that are applied only after a restart.
    pub need_restart: Vec<&'static str>,
}

impl Handle {
    pub(super) fn new(config: Config, listening: &Listening, shared: &Shared) -> Handle {
        shared.listening.set_count_max(config.online.persistent_searches.count_max);
        Handle {
            acceptor: listening.control(),
            mailboxes: Arc::clone(&listening.mailboxes),
            directory: Arc::downgrade(&shared.directory),
            certificates: Arc::clone(&shared.certificates),
            listening: Arc::clone(&shared.listening),
            config: Arc::new(Mutex::new(config)),
        }
    }

    /// Returns the certificate with which clients verify the server. Returns `None` if the server's certificate was not
    /// signed by the server's own authority.
    pub(super) fn authority(&self) -> Option<AuthorityFile> {
        self.certificates.authority()
    }

    /// Returns the error because of which the server stopped accepting connections; `None` if there was none.
    pub(super) fn accept_failure(&self) -> Option<String> {
        self.acceptor.failure.get().map(ToString::to_string)
    }

    /// Stops the server. The server first finishes its outstanding operations.
    pub fn stop(&self) {
        self.acceptor.stop();
    }

    /// Applies the settings of `new` that a running server can change. Does nothing if the server has stopped.
    ///
    /// # Errors
    /// A TLS file or a setting of the directory cannot be used, or the system returns no random salt for the
    /// administrator's password. In these cases no setting is applied. The certificates may have been reloaded.
    pub fn reload(&self, new: Config) -> Result<Reloaded, ServeError> {
        let mut reloaded = Reloaded::default();
        let Some(directory) = self.directory.upgrade() else { return Ok(reloaded) };
        let has_new_certificates = self.certificates.reload(Some(&new.tls), now_seconds())?;
        let mut config = self.lock_config();
        for (name, online) in config.changes(&new) {
            let list = if online { &mut reloaded.applied } else { &mut reloaded.need_restart };
            list.push(name);
        }
        if has_new_certificates {
            reloaded.applied.push("files of certificates");
        }
        let in_force = directory.settings();
        let mut node = node_settings(&new);
        node.admin_password = match &new.admin_password {
            same if *same == config.admin_password => in_force.node.admin_password.clone(),
            Some(Secret(clear)) => {
                Some(password::hash(in_force.general.password_scheme, clear, &Random::default().bytes()?))
            }
            None => None,
        };
        let path = config.data.clone();
        directory.set_node_settings(node).map_err(|error| ServeError::Open { path, error })?;
        self.acceptor.set_connections_max(new.online.connections_max);
        self.listening.set_count_max(new.online.persistent_searches.count_max);
        let mut online = new.online.clone();
        online.find_rules(&config.listen);
        let online = Arc::new(online);
        let (in_force, ended) = mpsc::channel();
        for mailbox in self.mailboxes.iter() {
            mailbox.post(LoopMessage::Settings(Arc::clone(&online), in_force.clone()));
        }
        drop(in_force);
        config.take_online(new);
        // Wait until all event loops have applied the settings, so that they are in force when the reload ends. No
        // messages are sent over this channel: it closes when every loop has dropped its sender.
        if ended.recv_timeout(RELOAD_PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            tracing::warn!("an event loop has not taken the new settings yet");
        }
        Ok(reloaded)
    }

    fn lock_config(&self) -> MutexGuard<'_, Config> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
