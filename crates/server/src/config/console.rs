//! Addresses of the web console: the table `[console]` of the node file.

use std::net::SocketAddr;

use ipnet::IpNet;
use serde::Deserialize;

use super::ConfigError;

/// Settings of the console's listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleSettings {
    /// Addresses to listen on; at least one.
    pub listen: Vec<SocketAddr>,
    /// Whether the listener uses TLS, with the server's certificate.
    pub tls: bool,
    /// Networks of reverse proxies. Their requests contain the client's address in a header.
    pub trusted_proxies: Vec<IpNet>,
}

/// The table `[console]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConsoleKeys {
    listen: Option<Vec<SocketAddr>>,
    tls: Option<bool>,
    trusted_proxies: Option<Vec<IpNet>>,
}

impl ConsoleSettings {
    /// Returns the settings. Without an address, there is no console.
    pub(super) fn of(table: ConsoleKeys) -> Result<Option<ConsoleSettings>, ConfigError> {
        let ConsoleKeys { listen, tls, trusted_proxies } = table;
        let listen = listen.unwrap_or_default();
        if listen.is_empty() {
            return match (tls, trusted_proxies) {
                (None, None) => Ok(None),
                _ => Err(ConfigError::Idle { table: "console", needs: "listen" }),
            };
        }
        let tls = tls.unwrap_or(true);
        if !tls && !listen.iter().all(|address| address.ip().is_loopback()) {
            return Err(ConfigError::Console(
                "passwords go beyond this machine over TLS alone: remove `tls = false`",
            ));
        }
        let trusted_proxies = trusted_proxies.unwrap_or_default();
        Ok(Some(ConsoleSettings { listen, tls, trusted_proxies }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_console_without_tls_listens_only_on_loopback() {
        let settings = |text: &str| ConsoleSettings::of(toml::from_str(text).unwrap());
        assert_eq!(settings("").unwrap(), None);
        assert_eq!(settings("listen = []").unwrap(), None);
        assert!(settings("listen = [\"0.0.0.0:8443\"]").unwrap().unwrap().tls);
        let clear = |listen: &str| settings(&format!("tls = false\nlisten = [{listen}]"));
        assert!(!clear("\"127.0.0.1:1\", \"[::1]:1\"").unwrap().unwrap().tls);
        assert!(clear("\"127.0.0.1:1\", \"192.0.2.1:1\"").unwrap_err().to_string().contains("tls = false"));
        assert!(clear("").unwrap_err().to_string().contains("has no listen"));
        let proxies = "listen = [\"127.0.0.1:1\"]\ntrusted_proxies = [\"127.0.0.0/8\"]";
        assert_eq!(settings(proxies).unwrap().unwrap().trusted_proxies.len(), 1);
        assert!(settings("trusted_proxies = [\"10.0.0.0/8\"]").is_err(), "no listener");
        assert!(toml::from_str::<ConsoleKeys>("listen = [\"localhost\"]").is_err());
    }
}
