//! A non-blocking, connected TCP or Unix socket.

use std::io::{self, IoSlice, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use rustix::net::RecvFlags;

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Socket {
    /// A TCP socket.
    Tcp(TcpStream),
    /// A Unix socket.
    Local(UnixStream),
}

impl Socket {
    /// Reads the bytes that are available.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::net::recv(self, buffer, RecvFlags::empty())?.1)
    }

    /// Reads the bytes that are available, without removing them.
    pub(crate) fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::net::recv(self, buffer, RecvFlags::PEEK)?.1)
    }

    /// Sends as many bytes as the socket accepts.
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => { stream }.write(bytes),
            Socket::Local(stream) => { stream }.write(bytes),
        }
    }

    /// Sends as many bytes of several slices as the socket accepts.
    pub(crate) fn send_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => { stream }.write_vectored(pieces),
            Socket::Local(stream) => { stream }.write_vectored(pieces),
        }
    }

    /// Shuts down the sending direction.
    pub(crate) fn finish_sending(&self) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Socket::Local(stream) => stream.shutdown(Shutdown::Write),
        }
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            Socket::Tcp(stream) => stream,
            Socket::Local(stream) => stream,
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Local(stream) => stream.as_fd(),
        }
    }
}

impl Source for Socket {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        self.source().register(registry, token, interests)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        self.source().reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.source().deregister(registry)
    }
}
