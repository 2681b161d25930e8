//! A browser's view of the console: requests in the clear, one connection each.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::{DEADLINE, Pando};

/// An answer over HTTP.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    /// Returns the values of a header.
    pub fn headers<'a>(&'a self, name: &str) -> Vec<&'a str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Returns the address of the console, from the server's log.
#[track_caller]
pub fn console_address(pando: &Pando) -> SocketAddr {
    let log = pando.log();
    let (_, rest) = log.split_once("console at ").expect("a line about the console");
    rest.split('/').nth(2).unwrap().parse().unwrap()
}

/// Sends a request as it stands, and reads its answer.
#[track_caller]
pub fn send(address: SocketAddr, request: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    // A server that refuses a body does not read it.
    let _ = stream.write_all(request);
    let mut octets = Vec::new();
    let _ = stream.read_to_end(&mut octets);
    let end = octets.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or_else(|| panic!("{octets:?}"));
    let head = String::from_utf8(octets[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut body = octets[end + 4..].to_vec();
    if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        body = unchunked(&body);
    }
    Answer { status, head, body }
}

fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = body.windows(2).position(|two| two == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&body[..end]).unwrap(), 16).unwrap();
        whole.extend_from_slice(&body[end + 2..end + 2 + size]);
        body = &body[end + 4 + size..];
    }
    whole
}

/// Requests a page, with more lines of the head, each with its end.
#[track_caller]
pub fn get(address: SocketAddr, path: &str, head: &str) -> Answer {
    send(
        address,
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{head}\r\n").as_bytes(),
    )
}
