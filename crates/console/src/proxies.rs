//! Reverse proxies, and the clients whose requests they forward.
//!
//! A trusted proxy reports the address of the browser in the header `X-Forwarded-For`. The header `X-Forwarded-Proto`
//! reports whether the browser used TLS. If other clients send these headers, they are ignored.

use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;
use ipnet::IpNet;

use crate::host::Client;

/// The networks of the trusted proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies(pub Vec<IpNet>);

impl Proxies {
    /// Returns true if a trusted proxy has this address.
    pub(crate) fn include(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Returns the sender of a request. `peer` is the client of the connection.
    ///
    /// Each proxy appends to the header `X-Forwarded-For` the address from which it received the request. Therefore the
    /// sender is the last address in the header that is not a trusted proxy. The addresses before the sender's address
    /// may be forged. If an address cannot be parsed, the sender is the proxy that reported this address.
    pub(crate) fn sender(&self, peer: Client, headers: &HeaderMap) -> Client {
        if !self.include(peer.address.ip()) {
            return peer;
        }
        let lines =
            |name: &'static str| headers.get_all(name).iter().map(|line| line.to_str().unwrap_or("?"));
        let list: Vec<&str> = lines("x-forwarded-for").flat_map(|line| line.split(',')).collect();
        let mut address = peer.address;
        for text in list.iter().rev() {
            let Some(found) = address_of(text.trim()) else { break };
            address = found;
            if !self.include(found.ip()) {
                break;
            }
        }
        let scheme = lines("x-forwarded-proto").next_back().and_then(|line| line.rsplit(',').next());
        let is_secured = scheme.map_or(peer.is_secured, |scheme| scheme.trim().eq_ignore_ascii_case("https"));
        // The certificate of this connection belongs to the proxy and not to the sender.
        Client { address, is_secured, certificate_subject: None }
    }
}

/// Parses an address with an optional port. An IPv6 address may be in brackets. The port is 0 if the text contains
/// none.
fn address_of(text: &str) -> Option<SocketAddr> {
    let alone = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let found = alone.parse().map(|ip: IpAddr| SocketAddr::new(ip, 0)).or_else(|_| text.parse()).ok()?;
    Some(SocketAddr::new(found.ip().to_canonical(), found.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(peer: &str, headers: &[(&'static str, &str)]) -> (String, bool) {
        let proxies = Proxies(["10.0.0.0/8", "2001:db8::/32"].map(|net| net.parse().unwrap()).to_vec());
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let peer = Client {
            address: SocketAddr::new(peer.parse().unwrap(), 7),
            is_secured: false,
            certificate_subject: Some("cn=proxy".into()),
        };
        let found = proxies.sender(peer.clone(), &map);
        let is_proxy = proxies.include(peer.address.ip());
        assert_eq!(
            found.certificate_subject.is_none(),
            is_proxy,
            "the certificate of a proxy is not that of the sender"
        );
        (found.address.to_string(), found.is_secured)
    }

    #[test]
    fn only_trusted_proxies_determine_the_sender() {
        let forged = [("x-forwarded-for", "192.0.2.9"), ("x-forwarded-proto", "https")];
        assert_eq!(sender("198.51.100.1", &forged), ("198.51.100.1:7".to_owned(), false));
        assert_eq!(sender("10.1.1.1", &forged), ("192.0.2.9:0".to_owned(), true));
        assert_eq!(sender("::ffff:10.1.1.1", &forged), ("192.0.2.9:0".to_owned(), true));
        assert_eq!(sender("10.1.1.1", &[]), ("10.1.1.1:7".to_owned(), false));
    }

    #[test]
    fn the_last_address_that_is_not_a_proxy_is_the_sender() {
        let of = |value: &str| sender("10.1.1.1", &[("x-forwarded-for", value)]).0;
        assert_eq!(of("203.0.113.5, 192.0.2.9"), "192.0.2.9:0", "the first is the sender's invention");
        assert_eq!(of("192.0.2.9, 10.2.2.2,10.3.3.3"), "192.0.2.9:0");
        assert_eq!(of("192.0.2.9:4711"), "192.0.2.9:4711");
        assert_eq!(of("[2001:db9::1]:80"), "[2001:db9::1]:80");
        assert_eq!(of("[2001:db9::1]"), "[2001:db9::1]:0");
        assert_eq!(of("2001:db9::1"), "[2001:db9::1]:0");
        assert_eq!(of("10.4.4.4"), "10.4.4.4:0", "only proxies");
        assert_eq!(of("192.0.2.9, unknown"), "10.1.1.1:7");
        assert_eq!(of("192.0.2.9, junk, 10.2.2.2"), "10.2.2.2:0");
        let two = [("x-forwarded-for", "203.0.113.5"), ("x-forwarded-for", "192.0.2.9")];
        assert_eq!(sender("10.1.1.1", &two).0, "192.0.2.9:0", "lines in their order");
    }
}
