//! The certificates of the server. A thread watches their files for changes and renews the server's own certificate.
//!
//! The thread compares contents and not modification times, because renewing a certificate may move files, links or
//! whole folders. A reload of the settings checks the files at once.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use ldap::ServerUrl;

use crate::config::Config;
use crate::limits::{CERTIFICATE_WARNING_INTERVAL, CERTIFICATE_WATCH};
use crate::net::certificate::{Certificates, TlsError, own_hosts};
use crate::stamp::now_seconds;
use crate::workers::service::Service;

/// Opens the certificate that the settings name, or the server's own certificate if they name none.
///
/// # Errors
/// The files cannot be used.
pub(crate) fn open(config: &Config) -> Result<Certificates, TlsError> {
    let hosts = config.listen.iter().filter_map(|url| match url {
        ServerUrl::Internet { host, .. } => Some(host.clone()),
        ServerUrl::Local(_) => None,
    });
    let certificates = Certificates::open(&config.tls, &config.data, &own_hosts(hosts), now_seconds())?;
    if let Some(authority) = certificates.authority() {
        tracing::info!("{authority}");
    }
    Ok(certificates)
}

/// Starts the thread.
///
/// # Errors
/// The system cannot start a thread.
pub(crate) fn start(certificates: &Arc<Certificates>) -> io::Result<Service> {
    let certificates = Arc::clone(certificates);
    let (stop, stopped) = channel();
    Service::start("pando-certificates", move || run(&certificates, &stopped), move || drop(stop))
}

/// Checks the files at intervals, until the sender of `stop` is dropped.
fn run(certificates: &Arc<Certificates>, stop: &Receiver<()>) {
    let mut logged = None;
    let mut since_warning = std::time::Duration::ZERO;
    while stop.recv_timeout(CERTIFICATE_WATCH) == Err(RecvTimeoutError::Timeout) {
        let now = now_seconds();
        // The files are read even if the server's own certificate cannot be renewed.
        let renewed = certificates.renew(now);
        match certificates.reload(None, now).and_then(|changed| renewed.map(|_| changed)) {
            Ok(changed) => {
                logged = None;
                if changed {
                    tracing::info!("new certificate files are in force");
                }
            }
            // An error is logged only once. An operator may be replacing the files at this moment.
            Err(error) => {
                let error = error.to_string();
                if logged.as_ref() != Some(&error) {
                    tracing::error!("{error}; the certificate in force stays");
                    logged = Some(error);
                }
            }
        }
        since_warning += CERTIFICATE_WATCH;
        if since_warning >= CERTIFICATE_WARNING_INTERVAL {
            since_warning = std::time::Duration::ZERO;
            certificates.warn_of_expiry(now);
        }
    }
}
