//! The protocol of Cyrus SASL's `saslauthd`. A request has four strings: name, password, service and realm. Each is
//! preceded by its length in two octets. The response is one such string: `OK` or `NO`, with an optional text.

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
/// The daemon gave no answer; `timeout` applies to each step.
pub(super) fn verify(
    path: &Path,
    service: &str,
    name: &str,
    password: &[u8],
    timeout: Duration,
) -> Result<bool, String> {
    let (user, realm) = name.rsplit_once('@').unwrap_or((name, ""));
    let Some(question) = question([user.as_bytes(), password, service.as_bytes(), realm.as_bytes()]) else {
        // The daemon closes the connection if a string is longer, so no user can have such a name or password.
        return Ok(false);
    };
    let told = |error: std::io::Error| error.to_string();
    let mut stream = open(path, timeout).map_err(told)?;
    stream.write_all(&question).map_err(told)?;
    let mut length = [0; 2];
    stream.read_exact(&mut length).map_err(told)?;
    let mut answer = Vec::new();
    stream.take(u16::from_be_bytes(length).into()).read_to_end(&mut answer).map_err(told)?;
    match answer.get(..2) {
        Some(b"OK") => Ok(true),
        Some(b"NO") => Ok(false),
        _ => Err(format!("it answered {:?}", String::from_utf8_lossy(&answer))),
    }
}

/// Returns the request, or `None` if a string is too long for it.
fn question(strings: [&[u8]; 4]) -> Option<Zeroizing<Vec<u8>>> {
    // Allocated at full size, because growing would free memory without overwriting it.
    let mut question = Zeroizing::new(Vec::with_capacity(strings.len() * (2 + STRING_MAX)));
    for string in strings {
        let length = u16::try_from(string.len()).ok().filter(|_| string.len() <= STRING_MAX)?;
        question.extend_from_slice(&length.to_be_bytes());
        question.extend_from_slice(string);
    }
    Some(question)
}

/// Connects with a timeout that is set first, because a daemon with a full queue blocks connecting clients.
fn open(path: &Path, timeout: Duration) -> std::io::Result<UnixStream> {
    let socket = socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(timeout))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(timeout))?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}
