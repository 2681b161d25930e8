//! The table `[pass_through]`: who verifies passwords that are kept elsewhere.

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

/// Who verifies passwords that are kept there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassThroughSettings {
    /// Who it is.
    pub verifier: Verifier,
    /// How long each step of asking may take.
    pub timeout_seconds: u64,
    /// Questions at a time.
    pub threads: usize,
}

/// Who says whether a password is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verifier {
    /// An LDAP server, by a bind there.
    Ldap {
        /// Where it is.
        server: ServerUrl,
        /// Who may vouch for it, in PEM form; `None` only for a socket of the file system.
        authorities: Option<PathBuf>,
    },
    /// The daemon of Cyrus SASL on this machine, which asks PAM or whatever it is set to.
    Saslauthd {
        /// Its socket, `mux` in its folder.
        socket: PathBuf,
        /// The name by which it and PAM know what asks.
        service: String,
    },
}

impl Verifier {
    /// The file of who may vouch for a server.
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
    /// What the table says.
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
