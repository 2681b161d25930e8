//! The protocol of Cyrus SASL's `saslauthd`. A request has four strings: name, password, service and realm. A length in
//! two octets precedes each string. The response is one string with a length: `OK` or `NO`, with an optional text.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
use zeroize::Zeroizing;

/// Maximum size of a string that `saslauthd` reads, in octets.
const STRING_MAX: usize = 256;

/// Returns true if the daemon at the socket `path` accepts this password. `name` may end with `@REALM`, as in Cyrus
/// SASL.
///
/// # Errors
/// The daemon gave no answer. `timeout` applies to each step of the exchange.
pub(super) fn verify(
    path: &Path,
    service: &str,
    name: &str,
    password: &[u8],
    timeout: Duration,
) -> Result<bool, String> {
    let (user, realm) = name.rsplit_once('@').unwrap_or((name, ""));
    let Some(question) = question([user.as_bytes(), password, service.as_bytes(), realm.as_bytes()]) else {
        // No user can have a name or password of this size, because the daemon closes the connection if a string is
        // longer.
        return Ok(false);
    };
    let to_text = |error: std::io::Error| error.to_string();
    let mut stream = open(path, timeout).map_err(to_text)?;
    stream.write_all(&question).map_err(to_text)?;
    let mut length = [0; 2];
    stream.read_exact(&mut length).map_err(to_text)?;
    let mut answer = Vec::new();
    stream.take(u16::from_be_bytes(length).into()).read_to_end(&mut answer).map_err(to_text)?;
    match answer.get(..2) {
        Some(b"OK") => Ok(true),
        Some(b"NO") => Ok(false),
        _ => Err(format!("it answered {:?}", String::from_utf8_lossy(&answer))),
    }
}

/// Returns the encoded request; `None` if a string is too long.
fn question(strings: [&[u8]; 4]) -> Option<Zeroizing<Vec<u8>>> {
    // The vector has its full size from the start. If it grew, the freed memory would still contain the password.
    let mut question = Zeroizing::new(Vec::with_capacity(strings.len() * (2 + STRING_MAX)));
    for string in strings {
        let length = u16::try_from(string.len()).ok().filter(|_| string.len() <= STRING_MAX)?;
        question.extend_from_slice(&length.to_be_bytes());
        question.extend_from_slice(string);
    }
    Some(question)
}

/// Connects to the daemon. The timeout is set before connecting, because a daemon with a full queue blocks clients that
/// connect.
fn open(path: &Path, timeout: Duration) -> std::io::Result<UnixStream> {
    let socket = socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(timeout))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(timeout))?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}
