//! Connections to another server that this server copies. The settings contain the identity for the bind.

use std::path::{Path, PathBuf};
use std::time::Duration;

use client::{ClientError, Connection, Tls};
use ldap::{ResultCode, ServerUrl};

use crate::config::FollowIdentity;

/// Reason why a connection failed.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("cannot read {file}: {error}")]
    File { file: String, error: String },
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the source refuses the bind: {code}: {diagnostic}")]
    Refused { code: ResultCode, diagnostic: String },
}

/// Connects and binds. `table` is the name of the settings table for messages. `patience` is the time limit of each
/// step.
pub(crate) fn connect(
    table: &str,
    url: &ServerUrl,
    authorities: Option<&PathBuf>,
    identity: &FollowIdentity,
    patience: Duration,
) -> Result<Connection, SourceError> {
    let read = |file: &Path| {
        std::fs::read(file)
            .map_err(|error| SourceError::File { file: file.display().to_string(), error: error.to_string() })
    };
    let tls = match (authorities, identity) {
        (None, _) => None,
        (Some(authorities), FollowIdentity::Certificate { certificate, key }) => {
            Some(Tls::with_certificate(&read(authorities)?, &read(certificate)?, &read(key)?))
        }
        (Some(authorities), _) => Some(Tls::authorities(&read(authorities)?)),
    };
    let tls = tls.transpose().map_err(|error| SourceError::File {
        file: format!("the certificates of [{table}]"),
        error: error.to_string(),
    })?;
    let mut connection = match &tls {
        Some(tls) => Connection::open_within(url, Some(tls), patience)?,
        None => Connection::open_url(url, None)?,
    };
    connection.set_timeout(patience)?;
    let bound = match identity {
        FollowIdentity::Password { dn, file } => {
            let password = String::from_utf8_lossy(&read(file)?).into_owned();
            connection.bind(dn.as_str(), password.strip_suffix('\n').unwrap_or(&password))?
        }
        FollowIdentity::Certificate { .. } | FollowIdentity::Socket => connection.bind_external(None)?,
    };
    match bound.code {
        ResultCode::SUCCESS => Ok(connection),
        code => Err(SourceError::Refused { code, diagnostic: bound.diagnostic }),
    }
}
