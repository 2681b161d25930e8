//! The HTTP listeners: connections and their limits, TLS, and the router for all requests.
//!
//! All console code except conversations with the directory runs on one thread of its own. Conversations run on further
//! threads. The console therefore does not block the server's event loops.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::{ServerConfig, ServerConnection};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

use crate::host::Client;
use crate::limits::{
    CONNECTION_TIME, CONNECTIONS_MAX, CONNECTIONS_PER_SOURCE_MAX, HANDSHAKE_TIME, HEAD_BYTES_MAX, HEAD_TIME,
    LAST_ANSWER_TIME, LDAP_THREADS_MAX, STOP_TIME,
};
use crate::places::{Place, Places, source};
use crate::proxies::Proxies;

/// Function that returns the TLS configuration for a new connection.
pub type TlsConfig = Box<dyn Fn() -> Arc<ServerConfig> + Send + Sync>;

/// Pause before the next connection is accepted if accepting has failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The HTTP listeners before they are served.
pub struct Http {
    /// Listening sockets. They must be non-blocking.
    pub listeners: Vec<std::net::TcpListener>,
    /// Configuration of TLS; `None` means HTTP without TLS.
    pub tls: Option<TlsConfig>,
    /// The reverse proxies that may report the senders of requests.
    pub proxies: Proxies,
    /// Router of all pages.
    pub app: Router,
}

/// Order to stop the listeners. They stop when this struct is dropped.
pub struct StopOrder {
    _sender: oneshot::Sender<()>,
}

/// Receiver of a [`StopOrder`].
pub struct Stopped(oneshot::Receiver<()>);

/// Returns a new order to stop, and its receiver, which [`Http::run`] needs.
pub fn stop_order() -> (StopOrder, Stopped) {
    let (sender, receiver) = oneshot::channel();
    (StopOrder { _sender: sender }, Stopped(receiver))
}

/// State that all connections share.
struct Shared {
    places: Arc<Places<IpAddr>>,
    tls: Option<TlsConfig>,
    proxies: Proxies,
    app: Router,
}

impl Shared {
    /// Takes one of the limited places for a connection from this address. Returns `None` if no place is free.
    fn place(&self, address: IpAddr) -> Option<Place<IpAddr>> {
        if self.proxies.include(address) {
            self.places.take_for_others(source(address))
        } else {
            self.places.take(source(address))
        }
    }
}

impl Http {
    /// Serves the listeners until the [`StopOrder`] is dropped.
    ///
    /// # Errors
    /// The system cannot create an event queue, or a listener cannot be used.
    pub fn run(self, stopped: Stopped) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(LDAP_THREADS_MAX)
            .thread_name("pando-console-ldap")
            .build()?;
        let Http { listeners, tls, proxies, app } = self;
        let places = Places::new(CONNECTIONS_MAX, CONNECTIONS_PER_SOURCE_MAX);
        let shared = Arc::new(Shared { places, tls, proxies, app });
        let served: io::Result<()> = runtime.block_on(async {
            for listener in listeners {
                tokio::spawn(accept(TcpListener::from_std(listener)?, Arc::clone(&shared)));
            }
            // No message is ever sent. When the sender is dropped, the wait ends with an error, and the server stops.
            let _ = stopped.0.await;
            Ok(())
        });
        runtime.shutdown_timeout(STOP_TIME);
        served
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => match shared.place(address.ip()) {
                Some(place) => {
                    let shared = Arc::clone(&shared);
                    tokio::spawn(async move {
                        let _place = place;
                        serve(stream, address, &shared).await;
                    });
                }
                None => tracing::debug!("{address} has too many connections to the console"),
            },
            Err(error) => {
                tracing::debug!("a connection to the console is not accepted: {error}");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, address: SocketAddr, shared: &Shared) {
    let _ = stream.set_nodelay(true);
    let Some(tls) = &shared.tls else {
        let client = Client { address, is_secured: false, certificate_subject: None };
        return exchange(stream, client, shared).await;
    };
    match timeout(HANDSHAKE_TIME, TlsAcceptor::from(tls()).accept(stream)).await {
        Ok(Ok(stream)) => {
            let certificate_subject = subject(stream.get_ref().1);
            exchange(stream, Client { address, is_secured: true, certificate_subject }, shared).await;
        }
        Ok(Err(error)) => tracing::debug!("{address} does not reach the console: {error}"),
        Err(_) => tracing::debug!("{address} does not reach the console: its handshake takes too long"),
    }
}

/// Returns the subject of the certificate that the client sent; `None` if it sent none.
fn subject(session: &ServerConnection) -> Option<Arc<str>> {
    let certificate = session.peer_certificates()?.first()?;
    schema::certificate_facts(certificate).ok().map(|facts| facts.subject.into())
}

/// Serves one connection.
async fn exchange(stream: impl AsyncRead + AsyncWrite + Unpin, client: Client, shared: &Shared) {
    let address = client.address;
    let service = service_fn(|mut request: hyper::Request<Incoming>| {
        let sender = shared.proxies.sender(client.clone(), request.headers());
        request.extensions_mut().insert(sender);
        shared.app.clone().oneshot(request.map(Body::new))
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_BYTES_MAX);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    let mut ended = timeout(CONNECTION_TIME, connection.as_mut()).await;
    if ended.is_err() {
        connection.as_mut().graceful_shutdown();
        ended = timeout(LAST_ANSWER_TIME, connection).await;
    }
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!("{address} and the console: {error}"),
        Err(_) => tracing::debug!("{address} reads an answer of the console too slowly"),
    }
}
