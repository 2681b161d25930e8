//! Pages over HTTP/1.1 (RFC 9112), for what watches the server. Each connection has a thread for a short time and gets
//! one answer, so that whoever is slow costs little and keeps nobody waiting for long.

use std::cell::Cell;
use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::rt::ReadBufCursor;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustls::{ServerConnection, StreamOwned};
use subtle::ConstantTimeEq as _;

use crate::config::Secret;
use crate::limits::{HTTP_ACCEPT_PAUSE_SECONDS, HTTP_BUFFER_MAX, HTTP_CONNECTION_TIME, HTTP_CONNECTIONS_MAX};
use crate::net::certificate::Certificates;

/// A page, or why there is none.
#[derive(Debug)]
pub(crate) enum Page {
    /// Text of a media type.
    Found(&'static str, String),
    /// The server is not able to now, for this reason.
    Unavailable(String),
    /// Only for who knows the token.
    NeedsToken,
    /// There is no such page.
    Unknown,
}

/// Makes the page of a path, for somebody who knows the token or not.
pub(crate) type Pages = dyn Fn(&str, bool) -> Page + Send + Sync;

/// What all connections share.
pub(crate) struct Rules {
    /// For TLS; `None` where the listener has none.
    pub(crate) certificates: Option<Arc<Certificates>>,
    /// What a client says behind `Bearer` (RFC 6750 section 2.1); `None` where everybody knows it.
    pub(crate) token: Option<Secret>,
    pub(crate) pages: Box<Pages>,
}

/// Answers on a listener until the other side of `end` is closed.
pub(crate) fn run(listener: &TcpListener, rules: &Arc<Rules>, end: &UnixStream) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let mut waits = [PollFd::new(end, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
        match poll(&mut waits, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return tracing::error!(%error, "the metrics are not there until a restart"),
        }
        let [ended, arrived] = waits.map(|wait| !wait.revents().is_empty());
        if ended {
            return;
        }
        if !arrived {
            continue;
        }
        match listener.accept() {
            Ok((stream, peer)) => begin(stream, peer, rules, &open),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                tracing::warn!(%error, "nobody is accepted for the metrics for {HTTP_ACCEPT_PAUSE_SECONDS} s");
                let pause = Timespec { tv_sec: HTTP_ACCEPT_PAUSE_SECONDS, tv_nsec: 0 };
                if poll(&mut [PollFd::new(end, PollFlags::IN)], Some(&pause)).is_ok_and(|ready| ready > 0) {
                    return;
                }
            }
        }
    }
}

/// Counts a connection as long as it is open.
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Gives a connection its thread; closes it where too many are open.
fn begin(stream: TcpStream, peer: SocketAddr, rules: &Arc<Rules>, open: &Arc<AtomicUsize>) {
    let others = open.fetch_add(1, Ordering::Relaxed);
    let open = Open(Arc::clone(open));
    if others >= HTTP_CONNECTIONS_MAX {
        return tracing::debug!("{peer} is refused: {others} others read metrics");
    }
    let rules = Arc::clone(rules);
    let run = move || {
        let _open = open;
        if let Err(error) = serve(stream, &rules) {
            tracing::debug!("{peer} got no metrics: {error}");
        }
    };
    if let Err(error) = std::thread::Builder::new().name("pando-http".to_owned()).spawn(run) {
        tracing::warn!(%error, "{peer} got no metrics");
    }
}

fn serve(stream: TcpStream, rules: &Rules) -> Result<(), Box<dyn Error>> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    let (stream, blocked) = (Rc::new(stream), Rc::new(Cell::new(PollFlags::empty())));
    let socket = Socket { stream: Rc::clone(&stream), blocked: Rc::clone(&blocked) };
    match &rules.certificates {
        None => talk(Wire(socket), (&stream, &blocked), rules),
        Some(certificates) => {
            let session = ServerConnection::new(certificates.config())?;
            talk(Wire(StreamOwned::new(session, socket)), (&stream, &blocked), rules)
        }
    }
}

/// Speaks HTTP, waiting for the socket wherever it is not ready, as long as the connection may take.
fn talk<S: Stream>(
    wire: Wire<S>,
    (socket, blocked): (&TcpStream, &Cell<PollFlags>),
    rules: &Rules,
) -> Result<(), Box<dyn Error>> {
    let ends = Instant::now() + HTTP_CONNECTION_TIME;
    let service = service_fn(|request| {
        let answer = answer(&request, rules);
        async { Ok::<_, Infallible>(answer) }
    });
    let mut http = http1::Builder::new();
    http.keep_alive(false).max_buf_size(HTTP_BUFFER_MAX);
    let mut connection = pin!(http.serve_connection(wire, service));
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(result) = connection.as_mut().poll(&mut context) {
            return Ok(result?);
        }
        let left = ends.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err("it took too long".into());
        }
        let waits_for = blocked.replace(PollFlags::empty());
        if !waits_for.is_empty() {
            let left = Timespec::try_from(left)?;
            match poll(&mut [PollFd::new(socket, waits_for)], Some(&left)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn answer(request: &Request<Incoming>, rules: &Rules) -> Response<Full<Bytes>> {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n".to_owned());
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    let told = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
    match (rules.pages)(request.uri().path(), knows(rules.token.as_ref(), told)) {
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
        Page::Unknown => text(StatusCode::NOT_FOUND, "there are /metrics, /live and /ready\n".to_owned()),
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

/// Whether the value of `Authorization` has the token, where one is needed.
fn knows(token: Option<&Secret>, told: Option<&[u8]>) -> bool {
    let Some(Secret(token)) = token else { return true };
    let Some((scheme, told)) = told.and_then(|told| told.split_at_checked("Bearer ".len())) else {
        return false;
    };
    scheme.eq_ignore_ascii_case(b"Bearer ") && bool::from(told.trim_ascii().ct_eq(token))
}

/// A socket that does not block, and notes what it would have waited for.
struct Socket {
    stream: Rc<TcpStream>,
    blocked: Rc<Cell<PollFlags>>,
}

impl Socket {
    fn noting<T>(&self, waits_for: PollFlags, result: io::Result<T>) -> io::Result<T> {
        if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            self.blocked.set(self.blocked.get() | waits_for);
        }
        result
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.noting(PollFlags::IN, (&*self.stream).read(buffer))
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.noting(PollFlags::OUT, (&*self.stream).write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What HTTP is spoken over.
trait Stream: Read + Write + Unpin {
    /// Says that nothing more comes.
    fn finish(&mut self) -> io::Result<()>;
}

impl Stream for Socket {
    fn finish(&mut self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }
}

impl Stream for StreamOwned<ServerConnection, Socket> {
    fn finish(&mut self) -> io::Result<()> {
        self.conn.send_close_notify();
        self.flush()?;
        self.sock.finish()
    }
}

/// A stream as HTTP's library takes it.
struct Wire<S>(S);

/// What would block is pending.
fn polled<T>(result: io::Result<T>) -> Poll<io::Result<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        other => Poll::Ready(other),
    }
}

impl<S: Stream> hyper::rt::Read for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut octets = [0; 4_096];
        let room = octets.len().min(buffer.remaining());
        let read = octets.get_mut(..room).map_or(Ok(0), |octets| self.0.read(octets));
        polled(read.map(|read| buffer.put_slice(octets.get(..read).unwrap_or_default())))
    }
}

impl<S: Stream> hyper::rt::Write for Wire<S> {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        polled(self.0.write(bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        polled(self.0.flush())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        polled(self.0.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_compared_whole() {
        let token = Secret(b"abc".to_vec());
        let check =
            |told: Option<&[u8]>, expected| assert_eq!(knows(Some(&token), told), expected, "{told:?}");
        check(Some(b"Bearer abc"), true);
        check(Some(b"bearer  abc "), true);
        check(Some(b"Bearer ab"), false);
        check(Some(b"Bearer abcd"), false);
        check(Some(b"Basic abc"), false);
        check(Some(b"Bearer"), false);
        check(None, false);
        assert!(knows(None, None));
    }
}
