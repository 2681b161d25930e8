//! The table `[pass_through]`: the service that verifies passwords that this server does not store.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use ldap::ServerUrl;
use serde::Deserialize;

use crate::config::ConfigError;
use crate::config::values::FromText;
use crate::limits;

/// The table `[pass_through]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PassThroughKeys {
    server: Option<FromText<ServerUrl>>,
    pub(crate) authorities: Option<PathBuf>,
    pub(crate) saslauthd: Option<PathBuf>,
    service: Option<String>,
    timeout_seconds: Option<u64>,
    threads: Option<NonZeroUsize>,
}

/// Settings for verification by another service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassThroughSettings {
    /// The service.
    pub verifier: Verifier,
    /// Timeout of each step of a verification, in seconds.
    pub timeout_seconds: u64,
    /// Maximum number of concurrent verifications.
    pub threads: usize,
}

/// Service that verifies passwords.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verifier {
    /// An LDAP server, which verifies a password by a bind.
    Ldap {
        /// URL of the server.
        server: ServerUrl,
        /// File with the authorities that sign the server's certificate, in PEM form; `None` only for a Unix socket.
        authorities: Option<PathBuf>,
    },
    /// The daemon of Cyrus SASL on this machine, which uses PAM or another configured method.
    Saslauthd {
        /// Path of the socket, which is `mux` in the daemon's folder.
        socket: PathBuf,
        /// Name under which the daemon and PAM know this server.
        service: String,
    },
}

impl Verifier {
    /// Returns the file of the authorities that sign the server's certificate.
    pub(crate) fn authorities(&self) -> Option<&Path> {
        match self {
            Verifier::Ldap { authorities, .. } => authorities.as_deref(),
            Verifier::Saslauthd { .. } => None,
        }
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verifier::Ldap { server, .. } => server.fmt(f),
            Verifier::Saslauthd { socket, .. } => write!(f, "saslauthd at {}", socket.display()),
        }
    }
}

impl PassThroughSettings {
    /// Returns the settings of the table.
    pub(super) fn of(table: PassThroughKeys) -> Result<Option<PassThroughSettings>, ConfigError> {
        let PassThroughKeys { server, authorities, saslauthd, service, timeout_seconds, threads } = table;
        let verifier = match (server.map(|server| server.0), authorities, saslauthd, service) {
            (None, None, None, None) if timeout_seconds.is_none() && threads.is_none() => return Ok(None),
            (None, None, Some(socket), service) => {
                Verifier::Saslauthd { socket, service: service.unwrap_or_else(|| "ldap".to_owned()) }
            }
            (Some(server @ ServerUrl::Local(_)), authorities, None, None) => {
                Verifier::Ldap { server, authorities }
            }
            (Some(server), Some(authorities), None, None) => {
                Verifier::Ldap { server, authorities: Some(authorities) }
            }
            _ => return Err(ConfigError::PassThroughInPart),
        };
        Ok(Some(PassThroughSettings {
            verifier,
            timeout_seconds: timeout_seconds.unwrap_or(limits::PASS_THROUGH_SECONDS).max(1),
            threads: threads.map_or(limits::PASS_THROUGH_THREADS, NonZeroUsize::get),
        }))
    }
}
