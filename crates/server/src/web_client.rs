//! An HTTP client. It uses the server's TLS library and the certificate authorities of the system.

use hyper::body::Body;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};

use crate::limits::WEB_CONNECT;

/// An HTTP client for requests whose body has the type `B`.
pub(crate) type WebClient<B> = Client<HttpsConnector<HttpConnector>, B>;

/// Creates a client. Its requests must run in a tokio runtime.
///
/// # Errors
/// The TLS library supports none of the default protocol versions.
pub(crate) fn web_client<B>() -> Result<WebClient<B>, rustls::Error>
where
    B: Body + Send,
    B::Data: Send,
{
    let mut tcp = HttpConnector::new();
    tcp.set_connect_timeout(Some(WEB_CONNECT));
    tcp.enforce_http(false);
    let mut authorities = RootCertStore::empty();
    // If the system has no authorities, requests over TLS fail with an error about that.
    authorities.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = rustls::crypto::ring::default_provider();
    let tls = ClientConfig::builder_with_provider(provider.into()).with_safe_default_protocol_versions()?;
    let tls = tls.with_root_certificates(authorities).with_no_client_auth();
    let connector =
        HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().wrap_connector(tcp);
    Ok(Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector))
}

/// Returns the texts of an error and of its causes in one line. Omits a cause whose text is already a part of the line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let own = error.to_string();
        if !text.contains(&own) {
            text = format!("{text}: {own}");
        }
        cause = error.source();
    }
    text
}
