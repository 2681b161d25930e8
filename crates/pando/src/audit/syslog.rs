//! Sends events to a syslog server (RFC 5424). The transport is TCP with octet counting (RFC 6587 section 3.4.1), UDP
//! (RFC 5426), or datagrams to a socket of this machine.

use std::io::{self, BufWriter, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::str::FromStr;

/// Maximum size of a message in a datagram, in octets. A longer message is cut. UDP carries at most 65,507 octets.
const DATAGRAM_MAX: usize = 60_000;

/// Destination of syslog messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SyslogTarget {
    Tcp(String),
    Udp(String),
    Unix(PathBuf),
}

impl FromStr for SyslogTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<SyslogTarget, String> {
        let wrong =
            || format!("{text:?} is no place for syslog: tcp://HOST:PORT, udp://HOST:PORT, unix:///PATH");
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let has_port = rest
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0));
        match scheme {
            "tcp" if has_port => Ok(SyslogTarget::Tcp(rest.to_owned())),
            "udp" if has_port => Ok(SyslogTarget::Udp(rest.to_owned())),
            "unix" if rest.starts_with('/') => Ok(SyslogTarget::Unix(rest.into())),
            _ => Err(wrong()),
        }
    }
}

impl SyslogTarget {
    /// Connects to the syslog server.
    ///
    /// # Errors
    /// The syslog server cannot be reached.
    pub(crate) fn connect(&self) -> io::Result<SyslogWriter> {
        let sink = match self {
            SyslogTarget::Tcp(address) => Sink::Tcp(BufWriter::new(TcpStream::connect(address)?)),
            SyslogTarget::Udp(address) => {
                let unknown = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                let address = address.to_socket_addrs()?.next().ok_or_else(unknown)?;
                let any: SocketAddr = match address {
                    SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                    SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
                };
                let socket = UdpSocket::bind(any)?;
                socket.connect(address)?;
                Sink::Udp(socket)
            }
            SyslogTarget::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                Sink::Unix(socket)
            }
        };
        Ok(SyslogWriter { sink, line: Vec::new() })
    }
}

enum Sink {
    Tcp(BufWriter<TcpStream>),
    Udp(UdpSocket),
    Unix(UnixDatagram),
}

/// A writer that sends each line as a syslog message.
pub(crate) struct SyslogWriter {
    sink: Sink,
    line: Vec<u8>,
}

impl SyslogWriter {
    fn send(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        let cut = String::from_utf8_lossy(line.get(..DATAGRAM_MAX).unwrap_or(&line));
        match &mut self.sink {
            Sink::Tcp(stream) => {
                write!(stream, "{} ", line.len())?;
                stream.write_all(&line)
            }
            Sink::Udp(socket) => socket.send(cut.as_bytes()).map(drop),
            Sink::Unix(socket) => socket.send(cut.as_bytes()).map(drop),
        }
    }
}

impl Write for SyslogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            match byte {
                b'\n' => self.send()?,
                byte => self.line.push(*byte),
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Sink::Tcp(stream) => stream.flush(),
            Sink::Udp(_) | Sink::Unix(_) => Ok(()),
        }
    }
}

/// Returns the header of a syslog message: priority (facility "log audit" and the severity), time, host name,
/// application, process id, and the operation as the message id.
pub(crate) fn head(severity: u8, time: &str, operation: &str) -> String {
    const LOG_AUDIT: u8 = 13;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let is_name = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic());
    let (host, process) = (if is_name { host } else { "-" }, std::process::id());
    format!("<{}>1 {time} {host} pando-audit {process} {operation} - ", LOG_AUDIT * 8 + severity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syslog_targets_are_parsed() {
        assert_eq!("tcp://[::1]:514".parse(), Ok(SyslogTarget::Tcp("[::1]:514".to_owned())));
        assert_eq!("unix:///dev/log".parse(), Ok(SyslogTarget::Unix("/dev/log".into())));
        for wrong in ["", "tcp://host", "udp://:514", "tcp://host:0", "unix://dev/log", "http://host:1"] {
            assert!(wrong.parse::<SyslogTarget>().unwrap_err().contains("udp://HOST:PORT"), "{wrong}");
        }
    }
}
