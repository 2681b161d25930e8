//! The thread that watches the files of certificates for changes, and renews the server's own certificate.
//!
//! It compares contents, not times: renewing a certificate may move files, links or whole folders. A reload of the
//! settings checks at once.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use crate::limits::{CERTIFICATE_WARNING_INTERVAL, CERTIFICATE_WATCH};
use crate::net::certificate::Certificates;
use crate::stamp::now_seconds;

/// Checks at intervals, until the other end of `stop` is dropped.
pub(crate) fn run(certificates: &Arc<Certificates>, stop: &Receiver<()>) {
    let mut told = None;
    let mut since_warning = std::time::Duration::ZERO;
    while stop.recv_timeout(CERTIFICATE_WATCH) == Err(RecvTimeoutError::Timeout) {
        let now = now_seconds();
        // The files are read even if the server's own certificate cannot be renewed.
        let renewed = certificates.renew(now);
        match certificates.reload(None, now).and_then(|changed| renewed.map(|_| changed)) {
            Ok(changed) => {
                told = None;
                if changed {
                    tracing::info!("new certificate files are in force");
                }
            }
            // Logged once: an operator may be in the middle of replacing them.
            Err(error) => {
                let error = error.to_string();
                if told.as_ref() != Some(&error) {
                    tracing::error!("{error}; the certificate in force stays");
                    told = Some(error);
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
