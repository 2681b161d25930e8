//! A browser's view of the console: requests without TLS, each on a separate connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::{DEADLINE, Pando};

/// An answer over HTTP.
#[derive(Debug)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Status line and headers.
    pub head: String,
    /// Body, without chunks.
    pub body: Vec<u8>,
}

impl Answer {
    /// Returns the values of a header.
    pub fn headers<'a>(&'a self, name: &str) -> Vec<&'a str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Returns the address of the console of the last started server, from its log.
#[track_caller]
pub fn console_address(pando: &Pando) -> SocketAddr {
    let log = pando.log();
    let (_, rest) = log.rsplit_once("console at ").expect("a line about the console");
    rest.split('/').nth(2).unwrap().parse().unwrap()
}

/// Sends an encoded request, and reads its answer.
#[track_caller]
pub fn send(address: SocketAddr, request: &[u8]) -> Answer {
    send_over(TcpStream::connect(address).unwrap(), request)
}

/// Sends a request over a connection, and reads until the end of the connection.
#[track_caller]
pub fn send_over(mut stream: TcpStream, request: &[u8]) -> Answer {
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    // Writing may fail, because a server that refuses a body does not read it.
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

/// Requests a page with additional header lines, each with its line end.
#[track_caller]
pub fn get(address: SocketAddr, path: &str, head: &str) -> Answer {
    send(
        address,
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{head}\r\n").as_bytes(),
    )
}

/// A browser with a cookie.
pub struct Browser {
    /// Address of the console.
    pub address: SocketAddr,
    /// The cookie in the form `name=value`, or empty.
    pub cookie: String,
    /// The token for the forms of the session.
    pub token: String,
}

impl Browser {
    /// Returns a browser without a cookie.
    pub fn new(pando: &Pando) -> Browser {
        Browser { address: console_address(pando), cookie: String::new(), token: String::new() }
    }

    /// Signs in, and panics if that fails.
    #[track_caller]
    pub fn signed_in(pando: &Pando, name: &str, password: &str) -> Browser {
        let mut browser = Browser::new(pando);
        let answer = browser.sign_in(name, password);
        assert_eq!(answer.status, 200, "{}", answer.text());
        browser
    }

    /// Tries to sign in, and stores the cookie and the token.
    #[track_caller]
    pub fn sign_in(&mut self, name: &str, password: &str) -> Answer {
        let answer = self.post_json("/sign-in", &[("name", name), ("password", password)]);
        self.keep_cookie(&answer);
        if let Ok(model) = serde_json::from_slice::<serde_json::Value>(&answer.body) {
            self.token = model["token"].as_str().unwrap_or_default().to_owned();
        }
        answer
    }

    fn keep_cookie(&mut self, answer: &Answer) {
        if let Some(cookie) = answer.headers("set-cookie").first() {
            self.cookie = cookie.split(';').next().unwrap().to_owned();
        }
    }

    fn head(&self) -> String {
        if self.cookie.is_empty() { String::new() } else { format!("Cookie: {}\r\n", self.cookie) }
    }

    /// Requests a page.
    #[track_caller]
    pub fn get(&self, path: &str) -> Answer {
        get(self.address, path, &self.head())
    }

    /// Returns the JSON model of a page.
    #[track_caller]
    pub fn json(&self, path: &str) -> serde_json::Value {
        let answer = get(self.address, path, &format!("{}Accept: application/json\r\n", self.head()));
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        serde_json::from_slice(&answer.body).unwrap()
    }

    /// Sends a form with the session's token.
    #[track_caller]
    pub fn post(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.send_form(path, fields, "")
    }

    /// Sends a form, and asks for the JSON model of the next page.
    #[track_caller]
    pub fn post_json(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.send_form(path, fields, "Accept: application/json\r\n")
    }

    /// Sends a form with additional header lines.
    #[track_caller]
    pub fn send_form(&self, path: &str, fields: &[(&str, &str)], head: &str) -> Answer {
        let mut pairs: Vec<String> =
            fields.iter().map(|(name, value)| format!("{}={}", quoted(name), quoted(value))).collect();
        if !fields.iter().any(|(name, _)| *name == "token") {
            pairs.push(format!("token={}", self.token));
        }
        let body = pairs.join("&");
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: \
             application/x-www-form-urlencoded\r\nContent-Length: {}\r\n{}{head}\r\n{body}",
            self.address,
            body.len(),
            self.head(),
        );
        send(self.address, request.as_bytes())
    }
}

/// Encodes a text for a query.
pub fn quoted(text: &str) -> String {
    let octet = |octet: u8| match octet {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(octet).to_string(),
        octet => format!("%{octet:02X}"),
    };
    text.bytes().map(octet).collect()
}
