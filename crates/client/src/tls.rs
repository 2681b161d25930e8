//! TLS of a client: trusted certificates, and sessions.
//!
//! By default no session is resumed, so each new connection performs a full handshake, like a new client.

use std::io;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// Client configuration for TLS 1.2 or 1.3. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ClientConfig>,
    is_checked: bool,
    is_resuming: bool,
}

/// Reason why TLS is not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The trusted certificates cannot be used.
    #[error("trusted certificates: {0}")]
    Authorities(String),
    /// The client's own certificate or key cannot be used.
    #[error("the client's certificate: {0}")]
    Certificate(String),
    /// An error of the TLS library.
    #[error("TLS: {0}")]
    Library(#[from] rustls::Error),
}

/// Number of servers whose sessions are stored.
const SESSIONS_KEPT: usize = 256;

impl Tls {
    /// Trusts servers whose certificates one of these authorities has signed.
    ///
    /// # Errors
    /// The PEM text has no certificate, or a certificate cannot be read.
    pub fn authorities(pem: &[u8]) -> Result<Tls, TlsError> {
        let config = builder()?.with_root_certificates(roots(pem)?).with_no_client_auth();
        Ok(Tls::of(config, true))
    }

    /// Trusts servers whose certificates one of these authorities has signed, and authenticates with the client's own
    /// certificate and key, both as PEM text.
    ///
    /// # Errors
    /// Those of [`Tls::authorities`]. Also fails if the certificate or the key is invalid, or if the key does not
    /// belong to the certificate.
    pub fn with_certificate(authorities: &[u8], certificate: &[u8], key: &[u8]) -> Result<Tls, TlsError> {
        let unusable = |error: rustls::pki_types::pem::Error| TlsError::Certificate(error.to_string());
        let chain =
            CertificateDer::pem_slice_iter(certificate).collect::<Result<_, _>>().map_err(unusable)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(unusable)?;
        let config =
            builder()?.with_root_certificates(roots(authorities)?).with_client_auth_cert(chain, key)?;
        Ok(Tls::of(config, true))
    }

    /// Trusts any server. For measurements only, never for secrets.
    ///
    /// # Errors
    /// The TLS library refuses the configuration. This is not expected.
    pub fn insecure() -> Result<Tls, TlsError> {
        let verifier = Arc::new(AnyCertificate(ring::default_provider()));
        let config = builder()?.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        Ok(Tls::of(config, false))
    }

    fn of(mut config: ClientConfig, is_checked: bool) -> Tls {
        config.resumption = Resumption::disabled();
        Tls { config: Arc::new(config), is_checked, is_resuming: false }
    }

    /// Allows new connections to resume the session of an earlier connection (RFC 8446 section 2.2).
    #[must_use]
    pub fn resuming(mut self) -> Tls {
        Arc::make_mut(&mut self.config).resumption = Resumption::in_memory_sessions(SESSIONS_KEPT);
        self.is_resuming = true;
        self
    }

    /// Returns true if new connections may resume sessions.
    pub fn is_resuming(&self) -> bool {
        self.is_resuming
    }

    /// Returns the configuration, for connections of another library.
    pub fn config(&self) -> &Arc<ClientConfig> {
        &self.config
    }

    /// Returns true if certificates are checked.
    pub fn is_checked(&self) -> bool {
        self.is_checked
    }

    /// Creates a session with a server of this name or address.
    ///
    /// # Errors
    /// `host` is neither a name nor an address.
    pub fn session(&self, host: &str) -> io::Result<ClientConnection> {
        let invalid = |error: String| io::Error::new(io::ErrorKind::InvalidInput, error);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| invalid(format!("{host:?} is no name of a server: {error}")))?;
        ClientConnection::new(self.config.clone(), name).map_err(|error| invalid(error.to_string()))
    }
}

fn roots(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| TlsError::Authorities(error.to_string()))?;
        roots.add(certificate).map_err(|error| TlsError::Authorities(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(TlsError::Authorities("there is no certificate in PEM form".to_owned()));
    }
    Ok(roots)
}

fn builder() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, TlsError> {
    let provider = Arc::new(ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?)
}

/// Accepts any certificate, but requires the server to prove that it has the key.
#[derive(Debug)]
struct AnyCertificate(CryptoProvider);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_authorities_and_names() {
        for pem in ["", "nothing", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(matches!(Tls::authorities(pem.as_bytes()), Err(TlsError::Authorities(_))), "{pem:?}");
        }
        let tls = Tls::insecure().unwrap();
        assert!(!tls.is_checked());
        for (host, is_one) in [("localhost", true), ("127.0.0.1", true), ("[::1]", true), ("a b", false)] {
            assert_eq!(tls.session(host).is_ok(), is_one, "{host}");
        }
    }
}
