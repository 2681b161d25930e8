//! Adapters from the sockets of the HTTP listener to the interface of hyper, with and without TLS. No call blocks.
//! Instead a socket records the events for which a call would have waited, and the loop in `http` waits for them.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use hyper::rt::ReadBufCursor;
use rustix::event::PollFlags;
use rustls::{ServerConnection, StreamOwned};

/// A non-blocking socket that records the events for which it would have waited.
pub(super) struct Socket {
    pub(super) stream: Rc<TcpStream>,
    pub(super) blocked: Rc<Cell<PollFlags>>,
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

/// Transport for HTTP.
pub(super) trait Stream: Read + Write + Unpin {
    /// Shuts down the sending direction.
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

/// Adapter from a stream to the traits of the HTTP library.
pub(super) struct Wire<S>(pub(super) S);

/// Maps `WouldBlock` to `Pending`.
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
