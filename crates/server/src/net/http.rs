//! Pages over HTTP/1.1 (RFC 9112) for monitoring systems. Each connection gets one answer.
//!
//! Probes must be answered even if there are many hostile clients. One thread serves all connections, so that a slow
//! client occupies a place but no thread. A client that sends nothing occupies only an entry in the kernel's queue
//! (`listen_for_requests`). A request that arrives with its connection is answered at once. A connection that needs
//! several messages has [`HTTP_GRACE`] for them before it may be evicted (`places`).
//!
//! A separate thread makes `/metrics` (`gathering`), so that `/live` and `/ready` do not wait for the disk.

mod gathering;
mod places;
mod wire;

use std::cell::Cell;
use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustls::{ServerConnection, StreamOwned};
use subtle::ConstantTimeEq as _;

use self::gathering::Gathering;
use self::places::{Place, Stage};
use self::wire::{Socket, Stream, Wire};
use crate::config::Secret;
use crate::limits::http::{
    HTTP_ACCEPT_PAUSE, HTTP_ACCEPTS_PER_PASS, HTTP_BUFFER_MAX, HTTP_CONNECTION_TIME,
    HTTP_CONNECTIONS_DESCRIPTORS_DIVISOR, HTTP_CONNECTIONS_MAX, HTTP_CONNECTIONS_SHARE_DIVISOR, HTTP_GRACE,
    HTTP_TURNS_PER_PASS,
};
use crate::net::certificate::Certificates;
use crate::net::descriptors::DescriptorLimits;
use crate::net::request_memory::Source;
use crate::net::stream::Peer;

/// A page, or the reason for an error.
#[derive(Clone, Debug)]
pub(crate) enum Page {
    /// Media type and text of the page.
    Found(&'static str, String),
    /// The page must be made by [`Rules::metrics`].
    Metrics,
    /// The server cannot make the page now, for the reason in the text.
    Unavailable(String),
    /// The page requires the token, which the client did not send.
    NeedsToken,
    /// The page does not exist.
    Unknown,
}

/// Function that returns the page for a path. Its second argument is true if the client has sent the token, or if no
/// token is required. The function must not block.
pub(crate) type Pages = dyn Fn(&str, bool) -> Page + Send + Sync;

/// Settings and pages of a listener.
pub(crate) struct Rules {
    /// Certificates for TLS; `None` if the listener has no TLS.
    pub(crate) certificates: Option<Arc<Certificates>>,
    /// Token that clients must send after `Bearer` (RFC 6750 section 2.1); `None` if no page requires it.
    pub(crate) token: Option<Secret>,
    pub(crate) pages: Box<Pages>,
    /// Function that makes the page with the metrics. It may read the disk.
    pub(crate) metrics: Arc<dyn Fn() -> Page + Send + Sync>,
}

/// State that all connections share.
struct Shared {
    /// Maximum number of connections.
    connections_max: usize,
    rules: Arc<Rules>,
    gathering: Gathering,
    /// Socket that interrupts the `poll` of the loop.
    interrupt: Arc<UnixStream>,
}

/// The HTTP exchange with one client.
type Exchange = Pin<Box<dyn Future<Output = Result<(), Box<dyn Error>>>>>;

/// Connection of one client.
struct Connection {
    peer: SocketAddr,
    source: Source,
    since: Instant,
    stage: Rc<Cell<Stage>>,
    stream: Rc<TcpStream>,
    /// Socket events for which the connection waits.
    blocked: Rc<Cell<PollFlags>>,
    alarm: Arc<Alarm>,
    /// Future that ends when the answer is sent.
    exchange: Exchange,
}

/// Waker of one connection.
struct Alarm {
    is_due: AtomicBool,
    interrupt: Arc<UnixStream>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_due.swap(true, Ordering::AcqRel) {
            // If the octet does not fit, an earlier octet will interrupt the `poll`.
            let _ = (&*self.interrupt).write(&[0]);
        }
    }
}

/// Answers requests on a listener until the peer of `end` is closed.
pub(crate) fn run(listener: &TcpListener, rules: &Arc<Rules>, end: &UnixStream) {
    if let Err(error) = serve(listener, rules, end) {
        tracing::error!(%error, "no metrics and no probes until a restart");
    }
}

fn serve(listener: &TcpListener, rules: &Arc<Rules>, end: &UnixStream) -> io::Result<()> {
    let (interrupt, interrupted) = UnixStream::pair()?;
    interrupt.set_nonblocking(true)?;
    interrupted.set_nonblocking(true)?;
    let metrics = Arc::clone(&rules.metrics);
    let gathering = Gathering::start(move || metrics())?;
    let descriptors = DescriptorLimits::read().open_max / HTTP_CONNECTIONS_DESCRIPTORS_DIVISOR;
    let connections_max =
        usize::try_from(descriptors).map_or(HTTP_CONNECTIONS_MAX, |max| max.min(HTTP_CONNECTIONS_MAX));
    let shared =
        Shared { connections_max, rules: Arc::clone(rules), gathering, interrupt: Arc::new(interrupt) };
    let mut connections: Vec<Connection> = Vec::new();
    let mut pause_until = None;
    loop {
        let now = Instant::now();
        take_turns(&mut connections, now);
        pause_until = pause_until.filter(|until| *until > now);
        let deadlines = connections.iter().map(|connection| connection.since + HTTP_CONNECTION_TIME);
        let patience = match connections.iter().any(Connection::is_due) {
            true => Some(Duration::ZERO),
            false => deadlines.chain(pause_until).min().map(|at| at.saturating_duration_since(now)),
        };
        let [ended, arrived] =
            wait(listener, end, &interrupted, &connections, patience, pause_until.is_none())?;
        if ended {
            return Ok(());
        }
        if arrived {
            pause_until = accept(listener, &shared, &mut connections).unwrap_or_else(|error| {
                tracing::warn!(%error, "no client is accepted for the metrics for {HTTP_ACCEPT_PAUSE:?}");
                Some(Instant::now() + HTTP_ACCEPT_PAUSE)
            });
        }
    }
}

/// Waits for events, and marks the connections whose sockets are ready. Returns whether the server is stopping, and
/// whether clients have connected.
fn wait(
    listener: &TcpListener,
    end: &UnixStream,
    interrupted: &UnixStream,
    connections: &[Connection],
    patience: Option<Duration>,
    accepts: bool,
) -> io::Result<[bool; 2]> {
    let accepts = if accepts { PollFlags::IN } else { PollFlags::empty() };
    let mut waits = vec![
        PollFd::new(end, PollFlags::IN),
        PollFd::new(interrupted, PollFlags::IN),
        PollFd::new(listener, accepts),
    ];
    let first = waits.len();
    // A socket without awaited events is left out, because `poll` would report its hang-up again and again.
    let blocked = connections.iter().filter(|connection| !connection.blocked.get().is_empty());
    waits.extend(
        blocked
            .clone()
            .map(|connection| PollFd::from_borrowed_fd(connection.stream.as_fd(), connection.blocked.get())),
    );
    let patience =
        patience.map(|patience| Timespec::try_from(patience).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 }));
    match poll(&mut waits, patience.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let is_ready = |wait: &PollFd<'_>| !wait.revents().is_empty();
    for (connection, _) in blocked.zip(waits.iter().skip(first)).filter(|(_, wait)| is_ready(wait)) {
        connection.alarm.is_due.store(true, Ordering::Release);
    }
    let mut ready = waits.iter().map(is_ready);
    let [ended, interrupts, arrived] = [(); 3].map(|()| ready.next().unwrap_or_default());
    if interrupts {
        let mut octets = [0; 64];
        while matches!(rustix::io::read(interrupted, &mut octets), Ok(1..)) {}
    }
    Ok([ended, arrived])
}

/// Gives turns to at most [`HTTP_TURNS_PER_PASS`] connections that are due, and removes connections that have ended.
/// The newest connection has the first turn. Therefore the request of a probe does not wait for the handshakes of an
/// earlier burst.
fn take_turns(connections: &mut Vec<Connection>, now: Instant) {
    let mut turns = 0;
    for index in (0..connections.len()).rev() {
        let Some(connection) = connections.get_mut(index) else { return };
        let has_turn = turns < HTTP_TURNS_PER_PASS && connection.is_due();
        turns += usize::from(has_turn);
        if !connection.run_turn(now, has_turn) {
            connections.remove(index);
        }
    }
}

/// Accepts at most [`HTTP_ACCEPTS_PER_PASS`] new connections. If all places belong to connections that still have time
/// to send their requests, returns the time at which to accept again.
fn accept(
    listener: &TcpListener,
    shared: &Shared,
    connections: &mut Vec<Connection>,
) -> io::Result<Option<Instant>> {
    let share = (shared.connections_max / HTTP_CONNECTIONS_SHARE_DIVISOR).max(1);
    for _ in 0..HTTP_ACCEPTS_PER_PASS {
        let begins = connections.iter().map(|connection| connection.since);
        let place_at = places::free_at(begins, shared.connections_max, HTTP_GRACE);
        if place_at.is_some_and(|at| at > Instant::now()) {
            return Ok(place_at);
        }
        let (stream, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            // The client has already disconnected.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(error) => return Err(error),
        };
        let source = Source::from(&Peer::Network(peer));
        let now = Instant::now();
        let places: Vec<Place> = match connections.len() < share {
            true => Vec::new(),
            false => connections.iter().map(|connection| connection.place(now)).collect(),
        };
        if let Some(index) = places::choose_evicted(&places, source, shared.connections_max, share) {
            let removed = connections.remove(index);
            tracing::debug!("{} gives its place for the metrics to {peer}", removed.peer);
        }
        match Connection::new(stream, peer, source, shared) {
            // A request without TLS has arrived with its connection. It is answered before other connections need a
            // place. A TLS handshake is costly, so it waits for its turn.
            Ok(mut connection) => {
                let stays = shared.rules.certificates.is_some() || connection.run_turn(now, true);
                connections.extend(stays.then_some(connection));
            }
            Err(error) => tracing::debug!("{peer} got no metrics: {error}"),
        }
    }
    Ok(None)
}

impl Connection {
    fn new(
        stream: TcpStream,
        peer: SocketAddr,
        source: Source,
        shared: &Shared,
    ) -> Result<Connection, Box<dyn Error>> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let (stream, blocked) = (Rc::new(stream), Rc::new(Cell::new(PollFlags::empty())));
        let stage = Rc::new(Cell::new(Stage::Receiving));
        let socket = Socket { stream: Rc::clone(&stream), blocked: Rc::clone(&blocked) };
        let (rules, gathering) = (Arc::clone(&shared.rules), shared.gathering.clone());
        let exchange = match &shared.rules.certificates {
            None => exchange(Wire(socket), rules, gathering, Rc::clone(&stage)),
            Some(certificates) => {
                let session = ServerConnection::new(certificates.config())?;
                exchange(Wire(StreamOwned::new(session, socket)), rules, gathering, Rc::clone(&stage))
            }
        };
        // The first turn determines the events for which the connection waits.
        let alarm = Alarm { is_due: AtomicBool::new(true), interrupt: Arc::clone(&shared.interrupt) };
        let since = Instant::now();
        Ok(Connection { peer, source, since, stage, stream, blocked, alarm: Arc::new(alarm), exchange })
    }

    fn place(&self, now: Instant) -> Place {
        let is_new = now.saturating_duration_since(self.since) < HTTP_GRACE;
        Place { source: self.source, is_new, stage: self.stage.get(), since: self.since }
    }

    fn is_due(&self) -> bool {
        self.alarm.is_due.load(Ordering::Acquire)
    }

    /// Gives the connection a turn if `has_turn` is set and the connection is due. Returns false if the connection has
    /// ended.
    fn run_turn(&mut self, now: Instant, has_turn: bool) -> bool {
        if has_turn && self.alarm.is_due.swap(false, Ordering::AcqRel) {
            self.blocked.set(PollFlags::empty());
            let waker = Waker::from(Arc::clone(&self.alarm));
            match self.exchange.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => return false,
                Poll::Ready(Err(error)) => {
                    tracing::debug!("{} got no metrics: {error}", self.peer);
                    return false;
                }
            }
        }
        let is_late = now >= self.since + HTTP_CONNECTION_TIME;
        if is_late {
            tracing::debug!("{} got no metrics: it took longer than {HTTP_CONNECTION_TIME:?}", self.peer);
        }
        !is_late
    }
}

/// Handles one request of a client over HTTP, and sends one answer.
fn exchange<S: Stream + 'static>(
    wire: Wire<S>,
    rules: Arc<Rules>,
    gathering: Gathering,
    stage: Rc<Cell<Stage>>,
) -> Exchange {
    let service = service_fn(move |request| {
        let (rules, gathering, stage) = (Arc::clone(&rules), gathering.clone(), Rc::clone(&stage));
        async move { Ok::<_, Infallible>(respond(&request, &rules, &gathering, &stage).await) }
    });
    let mut http = http1::Builder::new();
    http.keep_alive(false).max_buf_size(HTTP_BUFFER_MAX);
    let connection = http.serve_connection(wire, service);
    Box::pin(async move { Ok(connection.await?) })
}

async fn respond(
    request: &Request<Incoming>,
    rules: &Rules,
    gathering: &Gathering,
    stage: &Cell<Stage>,
) -> Response<Full<Bytes>> {
    stage.set(Stage::Preparing);
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        stage.set(Stage::Sending);
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n".to_owned());
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    let authorization = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let page = match (rules.pages)(request.uri().path(), is_authorized(rules.token.as_ref(), authorization)) {
        Page::Metrics => gathering.page().await,
        page => page,
    };
    stage.set(Stage::Sending);
    match page {
        Page::Found(media_type, page) => {
            let mut response = text(StatusCode::OK, page);
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
            response
        }
        Page::Unavailable(reason) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
        Page::NeedsToken => {
            let mut response =
                text(StatusCode::UNAUTHORIZED, "say the token of metrics.token_file\n".to_owned());
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            response
        }
        Page::Metrics | Page::Unknown => {
            text(StatusCode::NOT_FOUND, "there are /metrics, /live, /ready and /ready/read\n".to_owned())
        }
    }
}

fn text(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns true if `authorization`, the value of the header field `Authorization`, contains the token, or if no token
/// is required.
fn is_authorized(token: Option<&Secret>, authorization: Option<&[u8]>) -> bool {
    let Some(Secret(token)) = token else { return true };
    let Some((scheme, authorization)) =
        authorization.and_then(|authorization| authorization.split_at_checked("Bearer ".len()))
    else {
        return false;
    };
    scheme.eq_ignore_ascii_case(b"Bearer ") && bool::from(authorization.trim_ascii().ct_eq(token))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::sync::Mutex;
    use std::sync::mpsc::{Sender, channel};

    use super::*;
    use crate::net::listener::listen_for_requests;

    #[test]
    fn the_whole_token_is_compared() {
        let token = Secret(b"abc".to_vec());
        let check = |authorization: Option<&[u8]>, expected| {
            assert_eq!(is_authorized(Some(&token), authorization), expected, "{authorization:?}")
        };
        check(Some(b"Bearer abc"), true);
        check(Some(b"bearer  abc "), true);
        check(Some(b"Bearer ab"), false);
        check(Some(b"Bearer abcd"), false);
        check(Some(b"Basic abc"), false);
        check(Some(b"Bearer"), false);
        check(None, false);
        assert!(is_authorized(None, None));
    }

    /// A listener without TLS and token. Its metrics are made when `pace` permits.
    struct Sample {
        address: SocketAddr,
        pace: Sender<()>,
        _end: UnixStream,
    }

    impl Sample {
        fn start() -> Sample {
            let listener = listen_for_requests("127.0.0.1:0".parse().unwrap(), HTTP_CONNECTION_TIME).unwrap();
            let address = listener.local_addr().unwrap();
            let (pace, paced) = channel();
            let paced = Mutex::new(paced);
            let rules = Rules {
                certificates: None,
                token: None,
                pages: Box::new(|path, _| match path {
                    "/metrics" => Page::Metrics,
                    "/live" => Page::Found("text/plain", "live\n".to_owned()),
                    _ => Page::Unknown,
                }),
                metrics: Arc::new(move || {
                    let _ = paced.lock().unwrap().recv();
                    Page::Found("text/plain", "figures\n".to_owned())
                }),
            };
            let (end, ended) = UnixStream::pair().unwrap();
            std::thread::spawn(move || run(&listener, &Arc::new(rules), &ended));
            Sample { address, pace, _end: end }
        }

        /// Returns a connection that has sent `octets`, which are the start of a request.
        fn send(&self, octets: &str) -> TcpStream {
            let mut stream = TcpStream::connect(self.address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            stream.write_all(octets.as_bytes()).unwrap();
            stream
        }

        fn get(&self, path: &str) -> TcpStream {
            self.send(&format!("GET {path} HTTP/1.1\r\nHost: pando\r\n\r\n"))
        }
    }

    #[track_caller]
    fn expect(mut stream: TcpStream, expected: &str) {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with(expected), "{answer:?}");
    }

    #[test]
    fn a_page_that_waits_for_the_disk_does_not_delay_probes() {
        let sample = Sample::start();
        let waiting: Vec<TcpStream> = (0..3 * HTTP_CONNECTIONS_MAX).map(|_| sample.get("/metrics")).collect();
        expect(sample.get("/live"), "live\n");
        // The clients that get a place receive at most two different pages. There is a second page if some of the
        // clients arrived after the first page was begun.
        let last = waiting.into_iter().next_back().unwrap();
        (0..2).for_each(|_| sample.pace.send(()).unwrap());
        expect(last, "figures\n");
    }

    #[test]
    fn idle_and_slow_clients_do_not_block_probes() {
        let sample = Sample::start();
        let mut idle = Vec::new();
        for round in 0..3 * HTTP_CONNECTIONS_MAX {
            let partial_request = ["", "GET /live", "GET /live HTTP/1.1\r\nX: "][round % 3];
            idle.push(sample.send(partial_request));
            if round % 16 == 0 {
                expect(sample.get("/live"), "live\n");
            }
            // A connection that has lost its place is closed by the server.
            let _ = idle[round / 2].write_all(b"x");
        }
        expect(sample.get("/live"), "live\n");
    }
}
