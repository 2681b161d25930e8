//! A proxy for a migration between two LDAP servers. One of them, the *active* server, answers the clients. The other
//! server gets the same requests, and the differences between the answers are grouped by cause.
//!
//! ```text
//!   clients ──> front (one thread) ──> active server
//!                 │ exchanges: a request and all of its responses, in the order of the last response
//!                 └──> replay (one thread) ──> workers ──> other server, comparison, figures
//! ```
//!
//! The front waits only for the active server. The queue of exchanges is bounded in bytes. Reads that do not fit are
//! not compared. A change that does not fit ends the replay, because the other server would not receive it. So does a
//! change after a bind that does not fit, because the other server would see another identity.
//!
//! [`run`] serves until the process ends; [`send_command`] sends a command to it. Access control, and StartTLS for
//! clients, are out of scope.
#![forbid(unsafe_code)]

mod answer;
mod control;
mod difference;
mod exchange;
mod figures;
mod front;
mod limits;
mod replay;
mod shared;
mod upstream;
mod worker;

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::channel;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

pub use control::{Command, send_command};
use front::Front;
pub use limits::{CONNECTIONS_DEFAULT, EXCHANGE_BYTES_MAX, MESSAGE_SIZE_MAX, QUEUE_BYTES_DEFAULT};
use shared::Shared;
pub use worker::Server;
use worker::Worker;

/// Attributes that are not compared by default, because each server generates its own values or stores passwords in a
/// different form.
pub const IGNORED: [&str; 16] = [
    "entryUUID",
    "entryCSN",
    "contextCSN",
    "createTimestamp",
    "modifyTimestamp",
    "creatorsName",
    "modifiersName",
    "structuralObjectClass",
    "subschemaSubentry",
    "pwdChangedTime",
    "pwdFailureTime",
    "pwdLastSuccess",
    "pwdHistory",
    "authTimestamp",
    "userPassword",
    "userPassword;binary",
];

/// Options of the proxy.
#[derive(Clone, Debug)]
pub struct Options {
    /// The old server, which answers clients at first.
    pub old: Server,
    /// The new server.
    pub new: Server,
    /// Addresses for clients without TLS.
    pub listen: Vec<SocketAddr>,
    /// Addresses for clients with TLS from the first octet.
    pub listen_tls: Vec<SocketAddr>,
    /// Certificate chain and key, in PEM form, for clients with TLS.
    pub certificate: Option<(Vec<u8>, Vec<u8>)>,
    /// Unix socket for commands.
    pub control: PathBuf,
    /// Attributes that are not compared, in addition to [`IGNORED`].
    pub ignored: Vec<String>,
    /// Maximum number of connected clients.
    pub connections_max: usize,
    /// Maximum memory for exchanges that wait for their replay, in bytes.
    pub queue_bytes: usize,
}

/// Reason why the proxy cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TwinError {
    /// An address cannot be used.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error.
        error: io::Error,
    },
    /// The control socket cannot be created.
    #[error("cannot create the socket {path}: {error}")]
    Control {
        /// Path of the socket.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// The certificate or key cannot be used.
    #[error("the certificate or its key: {0}")]
    Certificate(String),
    /// Another error of the system.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Runs the proxy until the process ends. Calls `ready` with the addresses as soon as the proxy listens on them.
///
/// # Errors
/// The proxy cannot listen on an address, or a thread cannot be started.
pub fn run(options: Options, ready: impl FnOnce(&[SocketAddr])) -> Result<(), TwinError> {
    let shared = Arc::new(Shared::new(options.queue_bytes));
    let servers = [options.old.clone(), options.new.clone()];
    let ignored = IGNORED.iter().map(|name| name.to_ascii_lowercase());
    let ignored: BTreeSet<String> =
        ignored.chain(options.ignored.iter().map(|name| name.to_ascii_lowercase())).collect();
    let (sender, receiver) = channel();
    let replayed = (servers.clone(), Arc::clone(&shared));
    std::thread::Builder::new().name("replay".to_owned()).spawn(move || {
        let (servers, shared) = replayed;
        replay::dispatch(&receiver, &shared, || {
            Worker::new(servers.clone(), ignored.clone(), Arc::clone(&shared))
        });
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    local.block_on(&runtime, async move {
        let front = Rc::new(Front::new(servers, options.connections_max, shared, sender));
        let mut addresses = Vec::new();
        let acceptor = acceptor(options.certificate.as_ref())?;
        let plain = options.listen.iter().map(|address| (*address, None));
        let secured = options.listen_tls.iter().map(|address| (*address, acceptor.clone()));
        for (address, acceptor) in plain.chain(secured) {
            let listener = listener(address).map_err(|error| TwinError::Listen { address, error })?;
            addresses.push(listener.local_addr()?);
            spawn_local(accept(Rc::clone(&front), listener, acceptor));
        }
        let path = options.control;
        let control = control::listen(&path).map_err(|error| TwinError::Control { path, error })?;
        ready(&addresses);
        control::serve(front, control).await;
        Ok(())
    })
}

fn listener(address: SocketAddr) -> io::Result<tokio::net::TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener)
}

fn acceptor(certificate: Option<&(Vec<u8>, Vec<u8>)>) -> Result<Option<TlsAcceptor>, TwinError> {
    let Some((chain, key)) = certificate else { return Ok(None) };
    let unusable = |error: &dyn std::fmt::Display| TwinError::Certificate(error.to_string());
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(chain).collect::<Result<_, _>>().map_err(|error| unusable(&error))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| unusable(&error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&error))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| unusable(&error))?;
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

/// Accepts clients.
async fn accept(front: Rc<Front>, listener: tokio::net::TcpListener, acceptor: Option<TlsAcceptor>) {
    loop {
        let socket = match listener.accept().await {
            Ok((socket, _)) => socket,
            Err(error) => {
                eprintln!("pando: cannot accept a connection: {error}");
                tokio::time::sleep(limits::COMMAND).await;
                continue;
            }
        };
        let Some(place) = front.admit() else { continue };
        let _ = socket.set_nodelay(true);
        let (front, acceptor) = (Rc::clone(&front), acceptor.clone());
        spawn_local(async move {
            let _place = place;
            match acceptor {
                None => front.serve(Box::new(socket)).await,
                Some(acceptor) => {
                    if let Ok(Ok(secured)) = timeout(limits::CONNECT, acceptor.accept(socket)).await {
                        front.serve(Box::new(secured)).await;
                    }
                }
            }
        });
    }
}
