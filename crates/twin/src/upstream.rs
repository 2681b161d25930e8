//! Connections to the two servers.

use std::io;
use std::sync::Arc;

use client::Tls;
use ldap::{
    Controls, ExtendedRequest, Message, MessageId, Request, ResponseMessage, ResultCode, ServerUrl, oids,
};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::exchange::DECODE_LIMITS;
use crate::limits::CONNECT;
use crate::worker::Server;

/// A connected socket, with or without TLS.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket for S {}

pub(crate) type BoxedSocket = Box<dyn Socket>;

/// Maximum size of the answer to StartTLS, in bytes.
const ANSWER_SIZE_MAX: usize = 16 << 10;

/// Connects to a server.
pub(crate) async fn connect(server: &Server) -> io::Result<BoxedSocket> {
    let timed_out = |_| io::Error::from(io::ErrorKind::TimedOut);
    timeout(CONNECT, connect_patiently(server)).await.map_err(timed_out)?
}

async fn connect_patiently(Server { url, tls }: &Server) -> io::Result<BoxedSocket> {
    let (host, port, is_tls) = match url {
        ServerUrl::Local(path) => return Ok(Box::new(UnixStream::connect(path).await?)),
        ServerUrl::Internet { host, port, tls } => (host, *port, *tls),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let host = if host.is_empty() { "localhost" } else { host };
    let mut socket = TcpStream::connect((host, port)).await?;
    socket.set_nodelay(true)?;
    match tls {
        None if is_tls => Err(io::Error::other("nothing says which certificates to trust")),
        None => Ok(Box::new(socket)),
        Some(tls) => {
            if !is_tls {
                start_tls(&mut socket).await?;
            }
            secured(socket, tls, host).await
        }
    }
}

async fn secured(socket: TcpStream, tls: &Tls, host: &str) -> io::Result<BoxedSocket> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let connector = TlsConnector::from(Arc::clone(tls.config()));
    Ok(Box::new(connector.connect(name, socket).await?))
}

/// Requests StartTLS (RFC 4511 section 4.14).
async fn start_tls(socket: &mut TcpStream) -> io::Result<()> {
    let request = Request::Extended(ExtendedRequest { name: oids::START_TLS, value: None });
    let mut bytes = Vec::new();
    Message { id: MessageId(1), request, controls: Controls::NONE }.encode(&mut bytes);
    socket.write_all(&bytes).await?;
    let mut answer = Vec::new();
    loop {
        if let Ok(Some(len)) = ldap::frame_len(&answer)
            && len == answer.len()
        {
            break;
        }
        // Read one octet at a time, because the octets after the answer belong to TLS.
        answer.push(socket.read_u8().await?);
        if answer.len() > ANSWER_SIZE_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    let message = ResponseMessage::decode(&answer, &DECODE_LIMITS).map_err(io::Error::other)?;
    match message.response.result() {
        Some(result) if result.code == ResultCode::SUCCESS => Ok(()),
        Some(result) => Err(io::Error::other(format!("StartTLS: {}", result.code))),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}
