//! The server's certificate and other TLS settings. Their files may change while the server runs.
//!
//! If the settings name no certificate, the first start creates an authority and a certificate that the authority signs
//! ([`own`]). New files take effect if they are consistent. If they are not, the previous certificate stays in force,
//! and the server logs an error.

mod own;

use std::fmt::Display;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwap;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use zeroize::Zeroizing;

use crate::config::TlsSettings;
use crate::config::values::TlsVersion;
use crate::limits::{CERTIFICATE_WARNING, TLS_FILE_SIZE_MAX};
use crate::net::tls::TlsSession;
pub use own::AuthorityFile;
use own::OwnCertificate;

/// Folder in the data directory that contains the server's own certificate.
const FOLDER: &str = "tls";

/// Seconds in a day.
const DAY: u64 = 86_400;

/// Error in a TLS file. It contains the path of the file.
#[derive(Debug, thiserror::Error)]
#[error("TLS: {}: {what}", file.display())]
pub struct TlsError {
    file: PathBuf,
    what: String,
}

impl TlsError {
    fn new(file: &Path, what: impl Display) -> TlsError {
        TlsError { file: file.to_owned(), what: what.to_string() }
    }
}

/// Configuration of new TLS sessions, read from files.
pub(crate) struct Certificates {
    in_force: ArcSwap<CurrentConfig>,
    /// Settings and files from which the present configuration was made.
    source: Mutex<TlsFiles>,
    /// The server's own certificate; `None` if the settings named a certificate at the start.
    own: Option<OwnCertificate>,
    /// Expiry of the certificate in force, in seconds since 1970.
    not_after: AtomicU64,
    /// Number of completed handshakes.
    pub(crate) established: AtomicU64,
    /// Number of sessions that were resumed with the keys of an earlier session.
    pub(crate) resumed: AtomicU64,
    /// Number of failed handshakes.
    pub(crate) failed: AtomicU64,
}

/// Configuration in force for new sessions.
struct CurrentConfig {
    config: Arc<ServerConfig>,
    /// Data of the channel binding tls-server-end-point, if the certificate has any.
    end_point: Option<Arc<[u8]>>,
}

/// TLS settings and the contents of the files that they name.
#[derive(Clone, PartialEq, Eq)]
struct TlsFiles {
    settings: TlsSettings,
    certificate: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
    client_authorities: Vec<u8>,
}

impl Certificates {
    /// Reads the files. If the settings name no certificate, uses the server's own certificate in `data`, and creates
    /// it if it does not exist. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// A file cannot be read or does not match the other files, or a folder cannot be written.
    pub(crate) fn open(
        settings: &TlsSettings,
        data: &Path,
        hosts: &[String],
        now: i64,
    ) -> Result<Certificates, TlsError> {
        let own = match settings.certificate {
            Some(_) => None,
            None => Some(OwnCertificate::open(data.join(FOLDER), hosts, now)?),
        };
        let settings = match &own {
            None => settings.clone(),
            Some(own) => {
                TlsSettings { certificate: Some(own.certificate()), key: Some(own.key()), ..settings.clone() }
            }
        };
        let source = TlsFiles::read(&settings)?;
        let (in_force, not_after) = source.build()?;
        let certificates = Certificates {
            in_force: ArcSwap::from_pointee(in_force),
            source: Mutex::new(source),
            own,
            not_after: AtomicU64::new(not_after),
            established: AtomicU64::new(0),
            resumed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        };
        certificates.warn_of_expiry(now);
        Ok(certificates)
    }

    /// Creates a session for a new connection, or for a connection that requested StartTLS.
    pub(crate) fn session(&self, now: Instant) -> Result<TlsSession, rustls::Error> {
        let CurrentConfig { config, end_point } = &**self.in_force.load();
        TlsSession::new(Arc::clone(config), end_point.clone(), now)
    }

    /// Returns the configuration for callers whose TLS library accesses the socket itself.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.in_force.load().config)
    }

    /// Returns the certificate of the server's own authority. Returns `None` if the certificate in force is self-signed
    /// or named by the settings.
    pub(crate) fn authority(&self) -> Option<AuthorityFile> {
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        self.own_in_force(&source)?.for_clients()
    }

    /// If the server's own certificate is in force and about to expire, renews it, and returns true.
    /// [`reload`](Certificates::reload) then puts the new certificate in force.
    ///
    /// # Errors
    /// A file cannot be read or written, or the files do not match.
    pub(crate) fn renew(&self, now: i64) -> Result<bool, TlsError> {
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        self.own_in_force(&source).map_or(Ok(false), |own| own.renew(now))
    }

    fn own_in_force(&self, source: &TlsFiles) -> Option<&OwnCertificate> {
        self.own.as_ref().filter(|own| source.settings.certificate.as_ref() == Some(&own.certificate()))
    }

    /// Reads the files again, and takes new settings if they are given. Returns true if something changed. Existing
    /// sessions are not affected. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// The new files cannot be used. The old configuration stays in force.
    pub(crate) fn reload(&self, settings: Option<&TlsSettings>, now: i64) -> Result<bool, TlsError> {
        let mut in_force = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        let mut settings = settings.unwrap_or(&in_force.settings).clone();
        if settings.certificate.is_none() {
            // If the new settings name no certificate, the present certificate stays in force. The server's own
            // certificate is chosen only at a start.
            settings.certificate.clone_from(&in_force.settings.certificate);
            settings.key.clone_from(&in_force.settings.key);
        }
        let source = TlsFiles::read(&settings)?;
        if source == *in_force {
            return Ok(false);
        }
        let (built, not_after) = source.build()?;
        self.in_force.store(Arc::new(built));
        self.not_after.store(not_after, Ordering::Relaxed);
        *in_force = source;
        drop(in_force);
        self.warn_of_expiry(now);
        Ok(true)
    }

    /// Returns the expiry of the certificate, in seconds since 1970.
    pub(crate) fn not_after(&self) -> u64 {
        self.not_after.load(Ordering::Relaxed)
    }

    /// Logs a warning if the certificate has expired or is about to expire. `now` is in seconds since 1970.
    pub(crate) fn warn_of_expiry(&self, now: i64) {
        match self.expiry(now) {
            Some((true, text)) => tracing::error!("{text}"),
            Some((false, text)) => tracing::warn!("{text}"),
            None => {}
        }
    }

    /// Returns a message if the certificate has expired or is about to expire. The boolean is true if it has expired.
    fn expiry(&self, now: i64) -> Option<(bool, String)> {
        let left = self.not_after().saturating_sub(u64::try_from(now).unwrap_or(0));
        if left >= CERTIFICATE_WARNING.as_secs() {
            return None;
        }
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        let file = source.settings.certificate.as_deref().unwrap_or(Path::new("")).display();
        let advice = match self.own_in_force(&source) {
            Some(own) => own.renewal_advice(now),
            None => "replace it, and its key: the server takes new files while it runs".to_owned(),
        };
        Some(match left / DAY {
            _ if left == 0 => (true, format!("the certificate in {file} has expired: {advice}")),
            days => (false, format!("the certificate in {file} expires in {days} days: {advice}")),
        })
    }
}

impl TlsFiles {
    fn read(settings: &TlsSettings) -> Result<TlsFiles, TlsError> {
        let read = |file: &Option<PathBuf>| file.as_deref().map_or(Ok(Vec::new()), read_bounded);
        Ok(TlsFiles {
            settings: settings.clone(),
            certificate: read(&settings.certificate)?,
            // If the settings name no key file, the certificate file also contains the key.
            key: read(if settings.key.is_some() { &settings.key } else { &settings.certificate })?.into(),
            client_authorities: read(&settings.client_authorities)?,
        })
    }

    /// Returns the configuration for sessions, and the expiry of the certificate.
    fn build(&self) -> Result<(CurrentConfig, u64), TlsError> {
        let settings = &self.settings;
        let certificate_file = settings.certificate.as_deref().unwrap_or(Path::new(""));
        let key_file = settings.key.as_deref().unwrap_or(certificate_file);
        let chain = certificates(&self.certificate, certificate_file)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|error| TlsError::new(key_file, format!("no private key in PEM form: {error}")))?;
        let first = chain.first().map_or(&[][..], |first| first.as_ref());
        let facts = schema::certificate_facts(first)
            .map_err(|fault| TlsError::new(certificate_file, format!("the first certificate: {fault}")))?;
        let end_point = end_point(first, &facts.signature_algorithm);
        let provider = Arc::new(ring::default_provider());
        let versions = match settings.minimum_version {
            TlsVersion::Tls12 => &[&TLS13, &TLS12][..],
            TlsVersion::Tls13 => &[&TLS13][..],
        };
        let failed = |error: rustls::Error| TlsError::new(certificate_file, error);
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(failed)?;
        let builder = match &settings.client_authorities {
            None => builder.with_no_client_auth(),
            Some(file) => builder.with_client_cert_verifier(self.client_verifier(file, provider)?),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|error| {
            TlsError::new(certificate_file, format!("with the key in {}: {error}", key_file.display()))
        })?;
        // Clients store the tickets with which sessions are resumed, so that no client can make the server store
        // sessions.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = ring::Ticketer::new().map_err(failed)?;
        config.send_tls13_tickets = 1;
        let in_force = CurrentConfig { config: Arc::new(config), end_point };
        Ok((in_force, u64::try_from(facts.not_after).unwrap_or(0)))
    }

    fn client_verifier(
        &self,
        file: &Path,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&self.client_authorities, file)? {
            roots.add(certificate).map_err(|error| TlsError::new(file, error))?;
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let builder = if self.settings.client_certificates_required {
            builder
        } else {
            builder.allow_unauthenticated()
        };
        builder.build().map_err(|error| TlsError::new(file, error))
    }
}

/// Returns the data of the channel binding tls-server-end-point (RFC 5929 section 4.1): a digest of the certificate.
/// Uses the hash function of the certificate's signature, but SHA-256 in place of MD5 and SHA-1. Returns `None` for a
/// signature algorithm without a separate hash function, such as Ed25519.
fn end_point(certificate: &[u8], signed_by: &str) -> Option<Arc<[u8]>> {
    Some(match signed_by {
        // RSA with MD5, SHA-1 or SHA-256; ECDSA with SHA-1 or SHA-256.
        "1.2.840.113549.1.1.4"
        | "1.2.840.113549.1.1.5"
        | "1.2.840.113549.1.1.11"
        | "1.2.840.10045.4.1"
        | "1.2.840.10045.4.3.2" => Sha256::digest(certificate).as_slice().into(),
        // SHA-384.
        "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" => Sha384::digest(certificate).as_slice().into(),
        // SHA-512.
        "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" => Sha512::digest(certificate).as_slice().into(),
        _ => return None,
    })
}

/// Returns the certificates in a PEM text. A text without a certificate is an error.
fn certificates(pem: &[u8], file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err(TlsError::new(file, "no certificate in PEM form")),
        Ok(found) => Ok(found),
        Err(error) => Err(TlsError::new(file, error)),
    }
}

fn read_bounded(file: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |error: io::Error| TlsError::new(file, error);
    let size = fs::metadata(file).map_err(failed)?.len();
    if size > TLS_FILE_SIZE_MAX {
        return Err(TlsError::new(file, format!("{size} octets; the limit here is {TLS_FILE_SIZE_MAX}")));
    }
    fs::read(file).map_err(failed)
}

/// Returns the host names for the server's own certificate: the name of this machine, the addresses in `listens_on`,
/// and the loopback addresses.
pub(crate) fn own_hosts(listens_on: impl IntoIterator<Item = String>) -> Vec<String> {
    let uname = rustix::system::uname();
    let mut hosts: Vec<String> = uname.nodename().to_str().map(str::to_owned).into_iter().collect();
    let is_specific = |host: &String| {
        !host.is_empty() && !host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified())
    };
    let listens_on = listens_on.into_iter().map(|host| host.trim_matches(['[', ']']).to_owned());
    hosts.extend(listens_on.filter(is_specific));
    hosts.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
    let mut seen = std::collections::HashSet::new();
    hosts.retain(|host| seen.insert(host.clone()));
    hosts
}
