//! The HTTP listener of the metrics.

use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use crate::config::metrics::MetricsSettings;
use crate::error::ServeError;
use crate::limits::http::HTTP_CONNECTION_TIME;
use crate::monitor::Monitor;
use crate::net::certificate::Certificates;
use crate::net::http;
use crate::net::listener::listen_for_requests;
use crate::workers::service::Service;

/// The open listener of the metrics, before a thread serves it.
pub(super) struct MetricsListener {
    listener: TcpListener,
    rules: Arc<http::Rules>,
}

impl MetricsListener {
    /// Opens the listener.
    ///
    /// # Errors
    /// The server cannot listen on its address.
    pub(super) fn open(
        settings: &MetricsSettings,
        monitor: &Arc<Monitor>,
        certificates: &Arc<Certificates>,
    ) -> Result<MetricsListener, ServeError> {
        let failed = |error| ServeError::Metrics { address: settings.listen, error };
        let listener = listen_for_requests(settings.listen, HTTP_CONNECTION_TIME).map_err(failed)?;
        tracing::info!("metrics at {}", settings.url(listener.local_addr().map_err(failed)?));
        if settings.token.is_none() && !settings.listen.ip().is_loopback() {
            tracing::warn!(
                "every client that reaches {} reads the metrics: set metrics.token_file",
                settings.listen
            );
        }
        let (monitor, gathered) = (Arc::clone(monitor), Arc::clone(monitor));
        let rules = http::Rules {
            certificates: settings.tls.then(|| Arc::clone(certificates)),
            token: settings.token.clone(),
            pages: Box::new(move |path, knows_token| monitor.page(path, knows_token)),
            metrics: Arc::new(move || gathered.metrics_page()),
        };
        Ok(MetricsListener { listener, rules: Arc::new(rules) })
    }

    /// Starts the thread that serves the listener.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(super) fn start(self) -> io::Result<Service> {
        let MetricsListener { listener, rules } = self;
        let (stop, stopped) = UnixStream::pair()?;
        Service::start("pando-metrics", move || http::run(&listener, &rules, &stopped), move || drop(stop))
    }
}
