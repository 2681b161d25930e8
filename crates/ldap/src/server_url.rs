//! Addresses of servers: `ldap://HOST:PORT`, `ldaps://HOST:PORT` for TLS, or `ldapi://PATH` for a Unix domain socket.
//! In an ldapi URL, the slashes of the path are percent-encoded (draft-chu-ldap-ldapi). [`crate::url`] handles the
//! other parts of an LDAP URL.

use std::fmt;
use std::net::SocketAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::dn_text::hex_pair;

/// Default port of LDAP (RFC 4516 section 2).
const LDAP_PORT: u16 = 389;

/// Default port of LDAP with TLS from the first octet, as registered by IANA.
const LDAPS_PORT: u16 = 636;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerUrl {
    /// `ldap://HOST:PORT` or `ldaps://HOST:PORT`; without a port, 389 or 636. The host may be empty. An IPv6 address
    /// includes its brackets.
    Internet {
        /// Name or address.
        host: String,
        /// The port.
        port: u16,
        /// Whether TLS begins with the first octet (`ldaps`).
        tls: bool,
    },
    /// `ldapi://PATH`: a Unix domain socket.
    Local(PathBuf),
}

/// Reason why a text is not a [`ServerUrl`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerUrlError {
    /// The text does not start with `ldap://`, `ldaps://` or `ldapi://`.
    Scheme(String),
    /// The port is not a number up to 65535.
    Port {
        /// The whole text.
        url: String,
        /// The part that should be a port.
        port: String,
    },
    /// A DN or a query follows the address.
    Trailing(String),
    /// An `ldapi` URL without a path, or with a path that is not correctly percent-encoded.
    Path {
        /// The whole text.
        url: String,
        /// A valid URL.
        example: String,
    },
}

impl fmt::Display for ServerUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerUrlError::Scheme(url) => write!(
                f,
                "\"{url}\" is no address of a server: write ldap://HOST:PORT, such as ldap://127.0.0.1:1389, \
                 ldaps://HOST:PORT for TLS, or ldapi://%2FPATH for a socket of the file system"
            ),
            ServerUrlError::Port { url, port } => write!(f, "\"{url}\": \"{port}\" is no port"),
            ServerUrlError::Trailing(url) => {
                write!(f, "\"{url}\": the address of a server ends with the port")
            }
            ServerUrlError::Path { url, example } => {
                write!(
                    f,
                    "\"{url}\": the path of a socket is written with %2F for each slash, such as {example}"
                )
            }
        }
    }
}

impl std::error::Error for ServerUrlError {}

impl ServerUrl {
    /// Returns the URL of a Unix domain socket.
    pub fn local(path: impl Into<PathBuf>) -> ServerUrl {
        ServerUrl::Local(path.into())
    }

    /// Returns the URL of a network address.
    pub fn internet(address: SocketAddr, tls: bool) -> ServerUrl {
        let host = match address {
            SocketAddr::V4(address) => address.ip().to_string(),
            SocketAddr::V6(address) => format!("[{}]", address.ip()),
        };
        ServerUrl::Internet { host, port: address.port(), tls }
    }
}

impl From<SocketAddr> for ServerUrl {
    fn from(address: SocketAddr) -> ServerUrl {
        ServerUrl::internet(address, false)
    }
}

impl FromStr for ServerUrl {
    type Err = ServerUrlError;

    fn from_str(text: &str) -> Result<ServerUrl, ServerUrlError> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(ServerUrlError::Scheme(text.to_owned()));
        };
        match scheme.to_ascii_lowercase().as_str() {
            "ldap" => internet(text, rest, false),
            "ldaps" => internet(text, rest, true),
            "ldapi" => local(text, rest),
            _ => Err(ServerUrlError::Scheme(text.to_owned())),
        }
    }
}

fn internet(text: &str, rest: &str, tls: bool) -> Result<ServerUrl, ServerUrlError> {
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains(['/', '?', '#']) {
        return Err(ServerUrlError::Trailing(text.to_owned()));
    }
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (rest, None),
    };
    let port = match port {
        None if tls => LDAPS_PORT,
        None => LDAP_PORT,
        Some(port) => {
            port.parse().map_err(|_| ServerUrlError::Port { url: text.to_owned(), port: port.to_owned() })?
        }
    };
    Ok(ServerUrl::Internet { host: host.to_owned(), port, tls })
}

fn local(text: &str, rest: &str) -> Result<ServerUrl, ServerUrlError> {
    let encoded = rest.strip_suffix('/').unwrap_or(rest);
    match percent_decoded(encoded) {
        Some(path) if !path.is_empty() && !encoded.contains(['/', '?', '#']) && !path.contains(&0) => {
            Ok(ServerUrl::local(std::ffi::OsString::from_vec(path)))
        }
        decoded => {
            // Suggest the intended path if only its percent-encoding is missing; otherwise suggest the usual path.
            let meant = decoded.filter(|path| path.len() > 1 && !path.contains(&0));
            let meant = meant.unwrap_or_else(|| b"/run/pando/ldapi".to_vec());
            let example = ServerUrl::local(std::ffi::OsString::from_vec(meant)).to_string();
            Err(ServerUrlError::Path { url: text.to_owned(), example })
        }
    }
}

/// Decodes a percent-encoded text; returns `None` if an encoding is invalid.
fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut octets = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&octet, after)) = rest.split_first() {
        if octet == b'%' {
            octets.push(hex_pair(after)?);
            rest = after.get(2..)?;
        } else {
            octets.push(octet);
            rest = after;
        }
    }
    Some(octets)
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerUrl::Internet { host, port, tls } => {
                write!(f, "{}://{host}:{port}", if *tls { "ldaps" } else { "ldap" })
            }
            ServerUrl::Local(path) => write!(f, "ldapi://{}", EncodedPath(path)),
        }
    }
}

/// Displays a path with everything percent-encoded except the unreserved characters of RFC 3986.
struct EncodedPath<'a>(&'a Path);

impl fmt::Display for EncodedPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &octet in self.0.as_os_str().as_bytes() {
            let character = char::from(octet);
            if octet.is_ascii_alphanumeric() || "-._~".contains(character) {
                write!(f, "{character}")?;
            } else {
                write!(f, "%{octet:02X}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_parse_and_display() {
        let check = |text: &str, expected: Result<&str, ServerUrlError>| {
            let found = text.parse::<ServerUrl>().map(|url| url.to_string());
            assert_eq!(found, expected.map(str::to_owned), "{text}");
        };
        check("ldap://127.0.0.1:1389", Ok("ldap://127.0.0.1:1389"));
        check("LDAP://host/", Ok("ldap://host:389"));
        check("ldap://[::1]:0", Ok("ldap://[::1]:0"));
        check("ldap://[::1]", Ok("ldap://[::1]:389"));
        check("ldap://:389", Ok("ldap://:389"));
        check("ldapi://%2Frun%2Fpando.sock", Ok("ldapi://%2Frun%2Fpando.sock"));
        check("ldapi://%2frun%2Fa%20b-%C3%A9/", Ok("ldapi://%2Frun%2Fa%20b-%C3%A9"));
        check("ldapi://pando.sock", Ok("ldapi://pando.sock"));
        check("127.0.0.1:389", Err(ServerUrlError::Scheme("127.0.0.1:389".into())));
        check("http://host", Err(ServerUrlError::Scheme("http://host".into())));
        check("ldaps://host", Ok("ldaps://host:636"));
        check("LDAPS://[::1]:1636/", Ok("ldaps://[::1]:1636"));
        check("ldap://h/o=x", Err(ServerUrlError::Trailing("ldap://h/o=x".into())));
        let port = |url: &str, port: &str| Err(ServerUrlError::Port { url: url.into(), port: port.into() });
        check("ldap://h:x", port("ldap://h:x", "x"));
        check("ldap://h:65536", port("ldap://h:65536", "65536"));
        let path =
            |url: &str, example: &str| Err(ServerUrlError::Path { url: url.into(), example: example.into() });
        check("ldapi://", path("ldapi://", "ldapi://%2Frun%2Fpando%2Fldapi"));
        check("ldapi:///", path("ldapi:///", "ldapi://%2Frun%2Fpando%2Fldapi"));
        check("ldapi:///run/x", path("ldapi:///run/x", "ldapi://%2Frun%2Fx"));
        check("ldapi://%2", path("ldapi://%2", "ldapi://%2Frun%2Fpando%2Fldapi"));
        check("ldapi://%2Fa%00", path("ldapi://%2Fa%00", "ldapi://%2Frun%2Fpando%2Fldapi"));
    }

    #[test]
    fn paths_need_not_be_utf8() {
        let url: ServerUrl = "ldapi://%2F%FF".parse().unwrap();
        assert_eq!(url, ServerUrl::local(std::ffi::OsString::from_vec(vec![b'/', 0xff])));
        assert_eq!(url.to_string(), "ldapi://%2F%FF");
    }

    #[test]
    fn addresses_become_urls() {
        let check = |address: &str, expected: &str| {
            assert_eq!(
                ServerUrl::from(address.parse::<std::net::SocketAddr>().unwrap()).to_string(),
                expected
            );
        };
        check("[::1]:77", "ldap://[::1]:77");
        check("127.0.0.1:5", "ldap://127.0.0.1:5");
    }
}
