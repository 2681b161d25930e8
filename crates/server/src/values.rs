//! Values of settings that are more than text: listen URLs, DNs, log levels. Each is checked where it is read, be that the
//! command line or the node file.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use serde::Deserialize;

use crate::config::DEFAULT_LISTEN;

/// The port of LDAP (RFC 4516 section 2).
const LDAP_PORT: u16 = 389;

/// Where to listen: `ldap://HOST:PORT`. Without a host, on every address; without a port, on 389; port 0 is any free one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenUrl {
    host: String,
    port: u16,
}

/// Why a text is no [`ListenUrl`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListenUrlError {
    /// It does not start with `ldap://`.
    #[error("\"{0}\" is no place to listen: write ldap://HOST:PORT, such as {DEFAULT_LISTEN}")]
    Scheme(String),
    /// TLS and sockets of the file system are not there yet.
    #[error("\"{0}\": only ldap:// is supported in this version")]
    Unsupported(String),
    /// The port is not a number up to 65535.
    #[error("\"{url}\": \"{port}\" is no port")]
    Port {
        /// The whole text.
        url: String,
        /// The part that should be a port.
        port: String,
    },
    /// There is a DN or a query behind the address.
    #[error("\"{0}\": a place to listen ends with the port")]
    Trailing(String),
}

impl Default for ListenUrl {
    fn default() -> ListenUrl {
        ListenUrl { host: Ipv4Addr::LOCALHOST.to_string(), port: 1389 }
    }
}

impl ListenUrl {
    /// The addresses the host name stands for.
    ///
    /// # Errors
    /// The name is not known.
    pub fn resolve(&self) -> std::io::Result<Vec<SocketAddr>> {
        if self.host.is_empty() {
            // One socket for both versions of IP where the system has IPv6; the listener falls back to IPv4.
            return Ok(vec![SocketAddr::from((Ipv6Addr::UNSPECIFIED, self.port))]);
        }
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let mut addresses: Vec<SocketAddr> = (host, self.port).to_socket_addrs()?.collect();
        addresses.sort_unstable();
        addresses.dedup();
        Ok(addresses)
    }

    /// The URL of an address that is listened on.
    pub fn of(address: SocketAddr) -> ListenUrl {
        let host = match address {
            SocketAddr::V4(address) => address.ip().to_string(),
            SocketAddr::V6(address) => format!("[{}]", address.ip()),
        };
        ListenUrl { host, port: address.port() }
    }
}

impl FromStr for ListenUrl {
    type Err = ListenUrlError;

    fn from_str(text: &str) -> Result<ListenUrl, ListenUrlError> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(ListenUrlError::Scheme(text.to_owned()));
        };
        match scheme.to_ascii_lowercase().as_str() {
            "ldap" => {}
            "ldaps" | "ldapi" => return Err(ListenUrlError::Unsupported(text.to_owned())),
            _ => return Err(ListenUrlError::Scheme(text.to_owned())),
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '#']) {
            return Err(ListenUrlError::Trailing(text.to_owned()));
        }
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (rest, None),
        };
        let port = match port {
            None => LDAP_PORT,
            Some(port) => port
                .parse()
                .map_err(|_| ListenUrlError::Port { url: text.to_owned(), port: port.to_owned() })?,
        };
        Ok(ListenUrl { host: host.to_owned(), port })
    }
}

impl fmt::Display for ListenUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ldap://{}:{}", self.host, self.port)
    }
}

/// The text of a DN whose syntax (RFC 4514) was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnText(pub(crate) String);

/// A text that is no DN, or the empty one where an entry must be named.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is no DN: {why}")]
pub struct DnTextError {
    text: String,
    why: String,
}

impl DnText {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DnText {
    type Err = DnTextError;

    fn from_str(text: &str) -> Result<DnText, DnTextError> {
        let error = |why: String| DnTextError { text: text.to_owned(), why };
        let dn = ldap::Dn::parse(text).map_err(|cause| error(cause.to_string()))?;
        if dn.is_empty() {
            return Err(error("it is empty; write such as dc=example,dc=com".to_owned()));
        }
        Ok(DnText(text.to_owned()))
    }
}

impl fmt::Display for DnText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How important something must be to be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// What stops something from working.
    Error,
    /// What an operator should look at.
    Warn,
    /// Starts, stops, reloads, and operations where they are asked for.
    Info,
    /// Each connection.
    Debug,
    /// Everything.
    Trace,
}

/// A text that is no [`LogLevel`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown log level \"{0}\": choose error, warn, info, debug or trace")]
pub struct LogLevelError(String);

impl FromStr for LogLevel {
    type Err = LogLevelError;

    fn from_str(text: &str) -> Result<LogLevel, LogLevelError> {
        match text {
            "error" => Ok(LogLevel::Error),
            "warn" => Ok(LogLevel::Warn),
            "info" => Ok(LogLevel::Info),
            "debug" => Ok(LogLevel::Debug),
            "trace" => Ok(LogLevel::Trace),
            _ => Err(LogLevelError(text.to_owned())),
        }
    }
}

/// A value that a node file writes as text, and any [`FromStr`] reads.
#[derive(Debug)]
pub(crate) struct FromText<T>(pub(crate) T);

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for FromText<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<FromText<T>, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(FromText).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_urls() {
        let check = |text: &str, expected: Result<&str, ListenUrlError>| {
            let found = text.parse::<ListenUrl>().map(|url| url.to_string());
            assert_eq!(found, expected.map(str::to_owned), "{text}");
        };
        check("ldap://127.0.0.1:1389", Ok("ldap://127.0.0.1:1389"));
        check("LDAP://host/", Ok("ldap://host:389"));
        check("ldap://[::1]:0", Ok("ldap://[::1]:0"));
        check("ldap://[::1]", Ok("ldap://[::1]:389"));
        check("ldap://:389", Ok("ldap://:389"));
        check("127.0.0.1:389", Err(ListenUrlError::Scheme("127.0.0.1:389".into())));
        check("http://host", Err(ListenUrlError::Scheme("http://host".into())));
        check("ldaps://host", Err(ListenUrlError::Unsupported("ldaps://host".into())));
        check("ldap://h/o=x", Err(ListenUrlError::Trailing("ldap://h/o=x".into())));
        let port = |url: &str, port: &str| Err(ListenUrlError::Port { url: url.into(), port: port.into() });
        check("ldap://h:x", port("ldap://h:x", "x"));
        check("ldap://h:65536", port("ldap://h:65536", "65536"));
    }

    #[test]
    fn addresses_resolve_and_return() {
        let url: ListenUrl = "ldap://[::1]:77".parse().unwrap();
        let address = url.resolve().unwrap()[0];
        assert_eq!(address, "[::1]:77".parse().unwrap());
        assert_eq!(ListenUrl::of(address), url);
        assert_eq!("ldap://:5".parse::<ListenUrl>().unwrap().resolve().unwrap(), ["[::]:5".parse().unwrap()]);
    }

    #[test]
    fn dns_and_levels_are_checked() {
        assert_eq!("o=a, c=b".parse::<DnText>().unwrap().as_str(), "o=a, c=b");
        assert!("nonsense".parse::<DnText>().unwrap_err().to_string().contains("\"nonsense\" is no DN"));
        assert!("".parse::<DnText>().is_err());
        assert_eq!("warn".parse(), Ok(LogLevel::Warn));
        assert!("WARN".parse::<LogLevel>().is_err());
    }
}
