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

/// Controls a running server.
#[derive(Clone)]
pub struct Handle {
    acceptor: Arc<AcceptorControl>,
    mailboxes: Arc<[Mailbox]>,
    /// Weak, so that a handle does not keep the data directory open.
    directory: Weak<Directory>,
    certificates: Arc<Certificates>,
    listening: Arc<ListeningPlaces>,
    config: Arc<Mutex<Config>>,
}

/// Result of a reload.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Changed settings that apply now.
    pub applied: Vec<&'static str>,
    /// Changed settings that require a restart.
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

    /// Returns the certificate with which clients verify the server, if its own authority has signed the server's
    /// certificate.
    pub(super) fn authority(&self) -> Option<AuthorityFile> {
        self.certificates.authority()
    }

    /// Returns the error that ended accepting, if one did.
    pub(super) fn accept_failure(&self) -> Option<String> {
        self.acceptor.failure.get().map(ToString::to_string)
    }

    /// Makes the server finish its outstanding operations and stop.
    pub fn stop(&self) {
        self.acceptor.stop();
    }

    /// Applies those settings of `new` that can be applied to a running server. Does nothing if the server has stopped.
    ///
    /// # Errors
    /// A setting of the directory is invalid, or there is no random salt for the administrator's password. Nothing is
    /// then applied.
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
        // Waits until all loops have applied the settings, so that the end of the reload is reliable. The channel
        // carries no messages.
        if ended.recv_timeout(RELOAD_PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            tracing::warn!("an event loop has not taken the new settings yet");
        }
        Ok(reloaded)
    }

    fn lock_config(&self) -> MutexGuard<'_, Config> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
