//! The PROXY protocol, versions 1 and 2, as in HAProxy's `proxy-protocol.txt`. Before the first octet of a connection,
//! a proxy sends a header with the address of its client.
//!
//! The decoder works on the octets that have been received so far. A header has a maximum size, and is refused at the
//! first octet that cannot belong to a header.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// Maximum size of a header in octets. A header may also contain data about the proxy's TLS.
pub const SIZE_MAX: usize = 4 << 10;

/// Maximum size of a version 1 line, including its end (section 2.1).
const LINE_SIZE_MAX: usize = 107;

const LINE_START: &[u8] = b"PROXY ";

/// First octets of a version 2 header (section 2.2).
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Size in octets of the first part of a version 2 header: the signature, version and command, family, and the size of
/// the rest.
const BINARY_START_SIZE: usize = 16;

/// Client in a proxy header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// A client with this address.
    Client(SocketAddr),
    /// The proxy itself, as in a health check, or a client without an address. The address of the connection is used.
    Own,
}

/// Error in a proxy header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyHeaderError {
    /// The octets do not begin like a header.
    #[error("no header of the PROXY protocol")]
    Absent,
    /// The header exceeds the maximum size.
    #[error("a PROXY header that is too long")]
    TooLong,
    /// The header violates the protocol.
    #[error("a broken PROXY header: {0}")]
    Broken(&'static str),
}

use ProxyHeaderError::{Absent, Broken, TooLong};

impl ProxyHeader {
    /// Decodes the header at the start of `bytes`. Returns the header and its size in octets; `None` if the header is
    /// incomplete.
    ///
    /// # Errors
    /// `bytes` cannot be the start of a header.
    pub fn decode(bytes: &[u8]) -> Result<Option<(ProxyHeader, usize)>, ProxyHeaderError> {
        if is_start(bytes, SIGNATURE) {
            decode_binary(bytes)
        } else if is_start(bytes, LINE_START) {
            decode_line(bytes)
        } else {
            Err(Absent)
        }
    }

    /// Returns true if `bytes` begin like a header. An LDAP message or a TLS record does not.
    pub fn is_at_start_of(bytes: &[u8]) -> bool {
        bytes.starts_with(LINE_START) || bytes.starts_with(SIGNATURE)
    }
}

/// Returns true if the shorter of the two slices is the start of the longer one.
fn is_start(bytes: &[u8], start: &[u8]) -> bool {
    bytes.iter().zip(start).all(|(found, expected)| found == expected)
}

/// Decodes a version 1 header, a line of text (section 2.1). Returns `None` if it is incomplete.
fn decode_line(bytes: &[u8]) -> Result<Option<(ProxyHeader, usize)>, ProxyHeaderError> {
    let within = bytes.get(..LINE_SIZE_MAX).unwrap_or(bytes);
    let Some(end) = within.windows(2).position(|pair| pair == b"\r\n") else {
        return if bytes.len() >= LINE_SIZE_MAX { Err(TooLong) } else { Ok(None) };
    };
    let line = within.get(..end).and_then(|line| std::str::from_utf8(line).ok());
    let line = line.ok_or(Broken("the line is no text"))?;
    let mut words = line.split(' ').skip(1);
    let header = match words.next() {
        // With UNKNOWN, the rest of the line must be ignored (section 2.1).
        Some("UNKNOWN") => ProxyHeader::Own,
        Some("TCP4") => ProxyHeader::Client(client_of_line::<Ipv4Addr>(words)?),
        Some("TCP6") => ProxyHeader::Client(client_of_line::<Ipv6Addr>(words)?),
        _ => return Err(Broken("it is neither of TCP4, TCP6 nor UNKNOWN")),
    };
    Ok(Some((header, end + 2)))
}

/// Returns the client's address from the rest of the line, which has the addresses and ports of both ends.
fn client_of_line<'a, A: FromStr + Into<IpAddr>>(
    mut words: impl Iterator<Item = &'a str>,
) -> Result<SocketAddr, ProxyHeaderError> {
    let mut address = || words.next().and_then(|word| A::from_str(word).ok());
    let (Some(client), Some(_)) = (address(), address()) else {
        return Err(Broken("an address is none of its family"));
    };
    let mut port = || words.next().and_then(port_of);
    let (Some(client_port), Some(_), None) = (port(), port(), words.next()) else {
        return Err(Broken("a port is none"));
    };
    Ok(SocketAddr::new(client.into(), client_port))
}

/// Parses a port: decimal digits without leading zeros.
fn port_of(word: &str) -> Option<u16> {
    let is_plain = word.bytes().all(|byte| byte.is_ascii_digit()) && (word == "0" || !word.starts_with('0'));
    if is_plain { word.parse().ok() } else { None }
}

/// Decodes a version 2 header (section 2.2). Returns `None` if it is incomplete.
fn decode_binary(bytes: &[u8]) -> Result<Option<(ProxyHeader, usize)>, ProxyHeaderError> {
    let Some(start) = bytes.first_chunk::<BINARY_START_SIZE>() else { return Ok(None) };
    let [.., command, family, high, low] = *start;
    let size = BINARY_START_SIZE + usize::from(u16::from_be_bytes([high, low]));
    if size > SIZE_MAX {
        return Err(TooLong);
    }
    let is_own = match command {
        0x20 => true,
        0x21 => false,
        _ => return Err(Broken("its version and command are neither LOCAL nor PROXY of version 2")),
    };
    let address_size = match family {
        // With the command LOCAL, the family must be ignored.
        _ if is_own => 0,
        // The client is unspecified, or it used a Unix socket on the proxy's machine.
        0x00 | 0x31 => 0,
        0x11 => 12,
        0x21 => 36,
        _ => return Err(Broken("its clients do not come by TCP")),
    };
    if size - BINARY_START_SIZE < address_size {
        return Err(Broken("it has no room for its addresses"));
    }
    let Some(rest) = bytes.get(BINARY_START_SIZE..size) else { return Ok(None) };
    let header = match address_size {
        12 => rest.first_chunk::<12>().map(|ends| {
            let [a, b, c, d, _, _, _, _, high, low, ..] = *ends;
            (IpAddr::from([a, b, c, d]), [high, low])
        }),
        36 => rest
            .first_chunk::<16>()
            .zip(rest.get(32..34))
            .and_then(|(client, port)| Some((IpAddr::from(*client), <[u8; 2]>::try_from(port).ok()?))),
        _ => None,
    };
    let header = header.map_or(ProxyHeader::Own, |(client, port)| {
        ProxyHeader::Client(SocketAddr::new(client, u16::from_be_bytes(port)))
    });
    Ok(Some((header, size)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: Result<Option<(&str, usize)>, ProxyHeaderError>) {
        let expected = expected.map(|found| {
            found.map(|(client, size)| match client {
                "" => (ProxyHeader::Own, size),
                client => (ProxyHeader::Client(client.parse().unwrap()), size),
            })
        });
        assert_eq!(ProxyHeader::decode(bytes), expected, "{}", bytes.escape_ascii());
    }

    fn binary(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let size = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [SIGNATURE, &[command, family], &size, rest].concat()
    }

    #[test]
    fn version_1_lines_are_decoded() {
        let line = b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 389\r\n";
        check(line, Ok(Some(("192.0.2.7:56324", line.len()))));
        check(&[line, &b"0\x0c"[..]].concat(), Ok(Some(("192.0.2.7:56324", line.len()))));
        check(b"PROXY TCP6 2001:db8::7 ::1 0 65535\r\n", Ok(Some(("[2001:db8::7]:0", 36))));
        check(b"PROXY UNKNOWN\r\n", Ok(Some(("", 15))));
        check(b"PROXY UNKNOWN ffff::1 ffff::1 65535 65535\r\n", Ok(Some(("", 43))));
        for size in 0..line.len() {
            check(&line[..size], Ok(None));
        }
        let address = Err(Broken("an address is none of its family"));
        check(b"PROXY TCP4 2001:db8::7 ::1 5 389\r\n", address);
        check(b"PROXY TCP6 192.0.2.7 10.0.0.1 5 389\r\n", address);
        check(b"PROXY TCP4 192.0.2.07 10.0.0.1 5 389\r\n", address);
        check(b"PROXY TCP4  192.0.2.7 10.0.0.1 5 389\r\n", address);
        check(b"PROXY TCP4 192.0.2.7\r\n", address);
        let port = Err(Broken("a port is none"));
        for ports in ["65536 389", "5", "5 389 7", "05 389", "+5 389", "5 ", " 389", "5 389 "] {
            check(format!("PROXY TCP4 192.0.2.7 10.0.0.1 {ports}\r\n").as_bytes(), port);
        }
        let kind = Err(Broken("it is neither of TCP4, TCP6 nor UNKNOWN"));
        check(b"PROXY tcp4 192.0.2.7 10.0.0.1 5 389\r\n", kind);
        check(b"PROXY \r\n", kind);
        check(b"PROXY UNKNOWN\n", Ok(None));
        check(b"PROXY \xff\r\n", Err(Broken("the line is no text")));
        let longest = [b"PROXY UNKNOWN ", &[b'x'; 91][..], b"\r\n"].concat();
        check(&longest, Ok(Some(("", 107))));
        check(&[&longest[..105], b"x\r\n"].concat(), Err(TooLong));
    }

    #[test]
    fn version_2_headers_are_decoded() {
        let v4 = [192, 0, 2, 7, 10, 0, 0, 1, 0xdc, 0x04, 0x01, 0x85];
        let header = binary(0x21, 0x11, &v4);
        check(&header, Ok(Some(("192.0.2.7:56324", 28))));
        for size in 0..header.len() {
            check(&header[..size], Ok(None));
        }
        // A proxy may add further data after the addresses.
        let added = [&v4[..], &[0x20, 0, 3, 7, 7, 7]].concat();
        check(&[binary(0x21, 0x11, &added), vec![0x30]].concat(), Ok(Some(("192.0.2.7:56324", 34))));
        let mut v6 = [0; 36];
        v6[..2].copy_from_slice(&[0x20, 0x01]);
        v6[15] = 7;
        v6[16..32].fill(9);
        v6[32..].copy_from_slice(&[0, 5, 1, 133]);
        check(&binary(0x21, 0x21, &v6), Ok(Some(("[2001::7]:5", 52))));
        check(&binary(0x20, 0x00, &[]), Ok(Some(("", 16))));
        check(&binary(0x20, 0x11, &v4), Ok(Some(("", 28))));
        check(&binary(0x20, 0x77, &[1]), Ok(Some(("", 17))));
        check(&binary(0x21, 0x00, &[1, 2]), Ok(Some(("", 18))));
        check(&binary(0x21, 0x31, &[7; 216]), Ok(Some(("", 232))));
        let room = Err(Broken("it has no room for its addresses"));
        check(&binary(0x21, 0x11, &v4[..11]), room);
        check(&binary(0x21, 0x21, &v6[..35]), room);
        for family in [0x12, 0x22, 0x32, 0x10, 0x01, 0x41] {
            check(&binary(0x21, family, &v6), Err(Broken("its clients do not come by TCP")));
        }
        for command in [0x11, 0x31, 0x22, 0x2f, 0x00] {
            let error = Err(Broken("its version and command are neither LOCAL nor PROXY of version 2"));
            check(&binary(command, 0x11, &v4), error);
        }
        check(&binary(0x20, 0, &[0; SIZE_MAX - 16]), Ok(Some(("", SIZE_MAX))));
        check(&binary(0x20, 0, &[0; SIZE_MAX - 15])[..16], Err(TooLong));
    }

    #[test]
    fn rejects_invalid_headers() {
        for bytes in [&b"0\x0c\x02\x01\x01"[..], b"\x16\x03\x01", b"PROXX", b"\r\n\r\n\0\r\nQUIX", b"proxy "]
        {
            check(bytes, Err(Absent));
            assert!(!ProxyHeader::is_at_start_of(bytes));
        }
        assert!(ProxyHeader::is_at_start_of(b"PROXY UNKNOWN\r\n"));
        assert!(ProxyHeader::is_at_start_of(&binary(0x20, 0, &[])));
    }
}
