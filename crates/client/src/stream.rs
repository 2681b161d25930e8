//! Socket of a connection: TCP, TLS over TCP, or a Unix domain socket.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustls::{ClientConnection, StreamOwned};

/// Maximum length in octets of the name of a Unix domain socket.
const SOCKET_NAME_MAX: usize = 107;

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
    Local(UnixStream),
}

impl Stream {
    /// Connects to a Unix domain socket. If its name is too long, connects through its folder.
    pub(crate) fn local(path: &Path) -> io::Result<Stream> {
        if path.as_os_str().len() <= SOCKET_NAME_MAX {
            return UnixStream::connect(path).map(Stream::Local);
        }
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(ErrorKind::InvalidFilename.into());
        };
        let folder = File::open(folder)?;
        let short = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
        UnixStream::connect(short).map(Stream::Local)
    }

    /// Returns TLS over a connected socket, after the handshake.
    pub(crate) fn secured(mut stream: TcpStream, mut session: ClientConnection) -> io::Result<Stream> {
        while session.is_handshaking() {
            session.complete_io(&mut stream)?;
        }
        Ok(Stream::Tls(Box::new(StreamOwned::new(session, stream))))
    }

    /// Returns the TCP socket; `None` for a Unix domain socket.
    pub(crate) fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Stream::Tcp(stream) => Some(stream),
            Stream::Tls(stream) => Some(&stream.sock),
            Stream::Local(_) => None,
        }
    }

    /// Sets the time limit of reads, and the time limit of writes if `write` is given.
    pub(crate) fn set_timeouts(&self, read: Duration, write: Option<Duration>) -> io::Result<()> {
        if let Stream::Local(stream) = self {
            write.map_or(Ok(()), |write| stream.set_write_timeout(Some(write)))?;
            return stream.set_read_timeout(Some(read));
        }
        let Some(stream) = self.tcp() else { return Ok(()) };
        write.map_or(Ok(()), |write| stream.set_write_timeout(Some(write)))?;
        stream.set_read_timeout(Some(read))
    }

    pub(crate) fn finish_data(&mut self) -> io::Result<()> {
        let Stream::Tls(stream) = self else { return self.finish_sending() };
        stream.conn.send_close_notify();
        stream.flush()
    }

    pub(crate) fn finish_sending(&mut self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Tls(stream) => {
                stream.conn.send_close_notify();
                stream.flush()?;
                stream.sock.shutdown(Shutdown::Write)
            }
            Stream::Local(stream) => stream.shutdown(Shutdown::Write),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
            Stream::Local(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
            Stream::Local(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        // Streams without TLS do not buffer data.
        if let Stream::Tls(stream) = self { stream.flush() } else { Ok(()) }
    }
}
