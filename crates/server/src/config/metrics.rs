//! The listener of the metrics and its access token. This is the table `[metrics]` of the node file.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

use super::{ConfigError, Secret, read_password};

/// Settings of the metrics' listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsSettings {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Whether the listener uses TLS, with the server's certificate.
    pub tls: bool,
    /// Token that clients must send; `None` if no token is required.
    pub token: Option<Secret>,
    /// File that contains the token.
    pub token_file: Option<PathBuf>,
}

/// The table `[metrics]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MetricsKeys {
    listen: Option<SocketAddr>,
    tls: Option<bool>,
    pub(crate) token_file: Option<PathBuf>,
}

impl MetricsSettings {
    /// Returns the settings. Without an address, there is no listener.
    pub(super) fn of(table: MetricsKeys) -> Result<Option<MetricsSettings>, ConfigError> {
        let MetricsKeys { listen, tls, token_file } = table;
        let Some(listen) = listen else {
            return match (tls, &token_file) {
                (None, None) => Ok(None),
                _ => Err(ConfigError::Metrics("it needs listen, an address and a port")),
            };
        };
        let tls = tls.unwrap_or(false);
        if token_file.is_some() && !tls && !listen.ip().is_loopback() {
            return Err(ConfigError::Metrics(
                "a token beyond this machine goes over TLS alone: add `tls = true`",
            ));
        }
        let token = token_file.as_deref().map(read_password).transpose()?;
        if token.as_ref().is_some_and(|token| token.0.is_empty()) {
            return Err(ConfigError::Metrics("the file of the token is empty"));
        }
        Ok(Some(MetricsSettings { listen, tls, token, token_file }))
    }

    /// Returns the URL of the metrics for a listener that is bound to this address.
    pub(crate) fn url(&self, address: SocketAddr) -> String {
        format!("{}://{address}/metrics", if self.tls { "https" } else { "http" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metrics_token_requires_tls_except_on_loopback() {
        let settings = |text: &str| MetricsSettings::of(toml::from_str(text).unwrap());
        assert_eq!(settings("").unwrap(), None);
        let open = settings("listen = \"0.0.0.0:9389\"").unwrap().unwrap();
        assert_eq!((open.tls, open.token.is_some()), (false, false));
        assert_eq!(open.url(open.listen), "http://0.0.0.0:9389/metrics");
        let file = std::env::temp_dir().join(format!("pando-metrics-token-{}", std::process::id()));
        std::fs::write(&file, "secret\n").unwrap();
        let with_token = |rest: &str| settings(&format!("token_file = {file:?}\n{rest}"));
        assert!(with_token("").unwrap_err().to_string().contains("needs listen"));
        assert!(with_token("listen = \"192.0.2.1:1\"").unwrap_err().to_string().contains("tls = true"));
        assert!(with_token("listen = \"192.0.2.1:1\"\ntls = true").is_ok());
        let here = with_token("listen = \"[::1]:1\"").unwrap().unwrap();
        assert_eq!(here.token, Some(Secret(b"secret".to_vec())));
        std::fs::write(&file, "\n").unwrap();
        assert!(with_token("listen = \"[::1]:1\"").unwrap_err().to_string().contains("is empty"));
        std::fs::remove_file(&file).unwrap();
        assert!(with_token("listen = \"[::1]:1\"").unwrap_err().to_string().contains("cannot read"));
        assert!(toml::from_str::<MetricsKeys>("listen = \"localhost\"").is_err());
    }
}
