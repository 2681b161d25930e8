//! How a client is connected, as far as access rules ask.

use std::net::IpAddr;

/// How the client of a request is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientLink {
    /// The address of the client, behind proxies that are believed; `None` for a process of this machine.
    pub address: Option<IpAddr>,
    /// Whether nobody between the client and the server reads or changes what they say: TLS, or a local socket.
    pub is_protected: bool,
}
