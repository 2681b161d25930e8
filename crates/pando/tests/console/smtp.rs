//! A small SMTP server on loopback (RFC 5321), with TLS (RFC 3207, RFC 8314) and authentication (RFC 4954). The server
//! stores the mails that it receives.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use test_support::DEADLINE;

const GREETING: &[u8] = b"220 test\r\n";

/// A mail as it was received.
#[derive(Debug)]
pub(crate) struct Mail {
    pub(crate) to: String,
    pub(crate) text: String,
    /// User name and password of the client's authentication, each after a NUL (RFC 4616).
    pub(crate) credentials: String,
    pub(crate) over_tls: bool,
}

/// Settings of a server.
#[derive(Clone, Copy)]
pub(crate) struct MailServerSettings {
    /// Whether TLS begins with the first octet (RFC 8314), not with STARTTLS.
    pub(crate) implicit_tls: bool,
    /// SASL mechanism that the server offers, PLAIN or LOGIN.
    pub(crate) mechanism: &'static str,
    /// Credentials that a client must have for a mail, in the form of [`Mail::credentials`]. If `None`, every client
    /// may send mails.
    pub(crate) account: Option<&'static str>,
}

/// A running server. Its threads end with the process.
pub(crate) struct MailServer {
    pub(crate) address: SocketAddr,
    /// The certificate of the server, in PEM form.
    pub(crate) certificate: String,
    mails: Receiver<Mail>,
    /// Replies that refuse the next mails.
    pub(crate) refusals: Arc<Mutex<VecDeque<&'static str>>>,
}

struct Client {
    settings: MailServerSettings,
    tls: Arc<ServerConfig>,
    refusals: Arc<Mutex<VecDeque<&'static str>>>,
    mails: Sender<Mail>,
}

impl MailServer {
    pub(crate) fn start() -> MailServer {
        MailServer::with(MailServerSettings { implicit_tls: false, mechanism: "PLAIN", account: None })
    }

    pub(crate) fn with(settings: MailServerSettings) -> MailServer {
        let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(pair.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![pair.cert.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, mails) = channel();
        let refusals = Arc::<Mutex<VecDeque<_>>>::default();
        let (tls, of_clients) = (Arc::new(tls), Arc::clone(&refusals));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (tls, refusals, mails) = (tls.clone(), of_clients.clone(), sender.clone());
                let client = Client { settings, tls, refusals, mails };
                std::thread::spawn(move || client.serve(stream.unwrap()));
            }
        });
        MailServer { address, certificate: pair.cert.pem(), mails, refusals }
    }

    /// Waits for the next mail.
    #[track_caller]
    pub(crate) fn next(&self) -> Mail {
        self.mails.recv_timeout(DEADLINE).expect("a mail")
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.mails.try_recv().is_err()
    }
}

impl Client {
    fn serve(&self, mut stream: TcpStream) {
        if !self.settings.implicit_tls {
            stream.write_all(GREETING).unwrap();
            if !self.talk(&mut BufReader::new(&stream), &mut &stream, false) {
                return;
            }
        }
        let connection = ServerConnection::new(Arc::clone(&self.tls)).unwrap();
        let tls = Mutex::new(StreamOwned::new(connection, stream));
        let (mut input, mut output) = (BufReader::new(Shared(&tls)), Shared(&tls));
        // A client that does not use TLS fails at the greeting.
        if !self.settings.implicit_tls || output.write_all(GREETING).is_ok() {
            self.talk(&mut input, &mut output, true);
        }
    }

    /// Serves a client until it ends the connection. Returns true if the client requests TLS.
    fn talk(&self, input: &mut impl BufRead, output: &mut impl Write, over_tls: bool) -> bool {
        let (mut to, mut credentials, mut line) = (String::new(), String::new(), String::new());
        loop {
            line.clear();
            if input.read_line(&mut line).unwrap_or(0) == 0 {
                return false;
            }
            let (command, rest) = line.trim_end().split_once(' ').unwrap_or((line.trim_end(), ""));
            let answer = match command.to_ascii_uppercase().as_str() {
                "EHLO" if over_tls => &format!("250-test\r\n250 AUTH {}", self.settings.mechanism),
                "EHLO" => "250-test\r\n250 STARTTLS",
                "STARTTLS" => {
                    output.write_all(b"220 begin\r\n").unwrap();
                    return true;
                }
                "AUTH" => {
                    credentials = self.authenticate(rest, input, output);
                    match self.accepts(&credentials) {
                        true => "235 2.7.0 authenticated",
                        false => "535 5.7.8 user name or password is wrong",
                    }
                }
                "MAIL" if !self.accepts(&credentials) => "530 5.7.0 authentication is required",
                "RCPT" => {
                    to = rest.trim_start_matches("TO:").to_owned();
                    "250 good"
                }
                "DATA" => {
                    let text = data(input, output);
                    match self.refusals.lock().unwrap().pop_front() {
                        Some(refusal) => refusal,
                        None => {
                            let (to, credentials) = (to.clone(), credentials.clone());
                            let _ = self.mails.send(Mail { to, text, credentials, over_tls });
                            "250 taken"
                        }
                    }
                }
                "QUIT" => "221 bye",
                _ => "250 good",
            };
            if write!(output, "{answer}\r\n").and_then(|()| output.flush()).is_err() {
                return false;
            }
        }
    }

    fn accepts(&self, credentials: &str) -> bool {
        self.settings.account.is_none_or(|account| account == credentials)
    }

    /// Returns the credentials of an AUTH command. The command must use the mechanism that the server offers.
    fn authenticate(&self, rest: &str, input: &mut impl BufRead, output: &mut impl Write) -> String {
        let decoded = |text: &str| String::from_utf8(BASE64_STANDARD.decode(text).unwrap()).unwrap();
        let mut parts = rest.split(' ');
        assert_eq!(parts.next(), Some(self.settings.mechanism));
        match parts.next() {
            Some(initial) => decoded(initial),
            None => {
                let mut answers = ["Username:", "Password:"].map(|question| {
                    write!(output, "334 {}\r\n", BASE64_STANDARD.encode(question)).unwrap();
                    output.flush().unwrap();
                    let mut line = String::new();
                    input.read_line(&mut line).unwrap();
                    decoded(line.trim_end())
                });
                answers.iter_mut().for_each(|answer| answer.insert(0, '\0'));
                answers.concat()
            }
        }
    }
}

/// Receives the text of a mail.
fn data(input: &mut impl BufRead, output: &mut impl Write) -> String {
    output.write_all(b"354 go on\r\n").and_then(|()| output.flush()).unwrap();
    let mut text = String::new();
    while !text.ends_with("\r\n.\r\n") {
        assert!(input.read_line(&mut text).unwrap() > 0, "{text}");
    }
    decoded(&text)
}

/// Returns a mail with its body decoded. In a quoted-printable body, `=` at the end of a line is a soft line break, and
/// `=3D` is an equals sign (RFC 2045 section 6.7).
fn decoded(mail: &str) -> String {
    let (head, body) = mail.split_once("\r\n\r\n").expect("an empty line after the header");
    if !head.contains("Content-Transfer-Encoding: quoted-printable") {
        return mail.to_owned();
    }
    let body = body.replace("=\r\n", "");
    let mut parts = body.split('=');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let octet = u8::from_str_radix(&part[..2], 16).expect("two hexadecimal digits");
        text.push(char::from(octet));
        text.push_str(&part[2..]);
    }
    format!("{head}\r\n\r\n{text}")
}

/// One stream as two values, for reading and writing in turn.
struct Shared<'a>(&'a Mutex<StreamOwned<ServerConnection, TcpStream>>);

impl Read for Shared<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().read(buffer)
    }
}

impl Write for Shared<'_> {
    fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(octets)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.lock().unwrap().flush()
    }
}
