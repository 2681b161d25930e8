//! LDAP URLs (RFC 4516), as used in referrals, in `memberURL`, and as addresses of servers.
//!
//! In addition to the RFC, the parser accepts the schemes `ldaps` and `ldapi` (draft-chu-ldap-ldapi), and the scope
//! `subord` of draft-sermersheim-ldap-subordinate-scope.

use std::fmt;

use crate::dn_text::hex_pair;
use crate::{Dn, FilterBuf, Scope};

/// An LDAP URL, percent-decoded, with a valid DN and a valid filter. `Display` writes the URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LdapUrl {
    /// Transport of the connection.
    pub scheme: UrlScheme,
    /// The host, or for ldapi the path of the socket; `None` if absent. An IPv6 address has no brackets.
    pub host: Option<String>,
    /// The port; `None` if the URL has none. [`port_or_default`](Self::port_or_default) returns a port in any case.
    pub port: Option<u16>,
    /// The DN; empty if absent.
    pub dn: String,
    /// The requested attributes; empty if absent, which means all user attributes.
    pub attributes: Vec<String>,
    /// The scope; `None` if absent, which means the base object.
    pub scope: Option<Scope>,
    /// The text of the filter; `None` if absent, which means `(objectClass=*)`.
    pub filter: Option<String>,
    /// The extensions in the order written.
    pub extensions: Vec<UrlExtension>,
}

/// Transport of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UrlScheme {
    /// Plain TCP, by default port 389.
    Ldap,
    /// TLS from the first octet, by default port 636.
    Ldaps,
    /// A Unix domain socket.
    Ldapi,
}

/// An extension of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlExtension {
    /// Whether a client that does not support the extension must not use the URL.
    pub critical: bool,
    /// Name or OID of the extension.
    pub name: String,
    /// Value of the extension.
    pub value: Option<String>,
}

/// Error of parsing an LDAP URL, with its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LdapUrlError {
    /// Number of octets before the error, or before the invalid component.
    pub offset: usize,
    /// Kind of error.
    pub kind: LdapUrlErrorKind,
}

/// Kind of error in the text of an LDAP URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LdapUrlErrorKind {
    /// Neither `ldap://`, `ldaps://` nor `ldapi://`.
    BadScheme,
    /// A host with an invalid character, or an IPv6 address without its closing bracket.
    BadHost,
    /// A port that is not a number from 1 to 65535.
    BadPort,
    /// `%` without two hexadecimal digits, or a decoded component that is not UTF-8.
    BadPercentEncoding,
    /// An invalid DN.
    BadDn,
    /// An empty attribute between commas.
    BadAttribute,
    /// None of `base`, `one`, `sub` and `subord`.
    BadScope,
    /// An invalid filter.
    BadFilter,
    /// An extension without a name.
    BadExtension,
    /// The URL has too many components. A `?` in the last component must be percent-encoded.
    TrailingText,
}

impl UrlScheme {
    /// Returns the name of the scheme, as in a URL.
    pub const fn name(self) -> &'static str {
        match self {
            UrlScheme::Ldap => "ldap",
            UrlScheme::Ldaps => "ldaps",
            UrlScheme::Ldapi => "ldapi",
        }
    }
}

impl LdapUrl {
    /// Creates a URL that has only a scheme.
    pub const fn new(scheme: UrlScheme) -> LdapUrl {
        LdapUrl {
            scheme,
            host: None,
            port: None,
            dn: String::new(),
            attributes: Vec::new(),
            scope: None,
            filter: None,
            extensions: Vec::new(),
        }
    }

    /// Returns the port to connect to; `None` for ldapi.
    pub fn port_or_default(&self) -> Option<u16> {
        match self.scheme {
            UrlScheme::Ldap => Some(self.port.unwrap_or(389)),
            UrlScheme::Ldaps => Some(self.port.unwrap_or(636)),
            UrlScheme::Ldapi => None,
        }
    }

    /// Parses a URL. Scheme and scope may be in any case.
    ///
    /// # Errors
    /// The text is not an LDAP URL; the error has position and kind.
    pub fn parse(text: &str) -> Result<LdapUrl, LdapUrlError> {
        let (scheme, rest) =
            text.split_once("://").ok_or(LdapUrlError { offset: 0, kind: LdapUrlErrorKind::BadScheme })?;
        let scheme = [UrlScheme::Ldap, UrlScheme::Ldaps, UrlScheme::Ldapi]
            .into_iter()
            .find(|known| known.name().eq_ignore_ascii_case(scheme))
            .ok_or(LdapUrlError { offset: 0, kind: LdapUrlErrorKind::BadScheme })?;
        let mut url = LdapUrl::new(scheme);

        let authority_len = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(authority_len);
        url.parse_authority(Component { url: text, text: authority })?;
        let Some(rest) = rest.strip_prefix('/') else {
            return if rest.is_empty() {
                Ok(url)
            } else {
                Component { url: text, text: rest }.error(LdapUrlErrorKind::TrailingText)
            };
        };
        let mut components = rest.split('?').map(|component| Component { url: text, text: component });
        if let Some(dn) = components.next() {
            url.dn = dn.checked(LdapUrlErrorKind::BadDn, |dn| Dn::parse(dn).is_ok())?;
        }
        if let Some(attributes) = components.next().filter(|component| !component.text.is_empty()) {
            url.attributes = attributes
                .list()
                .map(|name| name.checked(LdapUrlErrorKind::BadAttribute, |name| !name.is_empty()))
                .collect::<Result<_, _>>()?;
        }
        if let Some(scope) = components.next().filter(|component| !component.text.is_empty()) {
            url.scope = Some(scope.scope()?);
        }
        if let Some(filter) = components.next().filter(|component| !component.text.is_empty()) {
            let is_filter = |filter: &str| FilterBuf::parse(filter).is_ok();
            url.filter = Some(filter.checked(LdapUrlErrorKind::BadFilter, is_filter)?);
        }
        if let Some(extensions) = components.next().filter(|component| !component.text.is_empty()) {
            url.extensions =
                extensions.list().map(|extension| extension.extension()).collect::<Result<_, _>>()?;
        }
        match components.next() {
            Some(extra) => extra.error(LdapUrlErrorKind::TrailingText),
            None => Ok(url),
        }
    }

    fn parse_authority(&mut self, authority: Component<'_>) -> Result<(), LdapUrlError> {
        if self.scheme == UrlScheme::Ldapi {
            self.host = Some(authority.decoded()?).filter(|path| !path.is_empty());
            return Ok(());
        }
        let (host, port) = match authority.text.strip_prefix('[') {
            Some(address) => match address.split_once(']') {
                Some((address, port)) if is_ipv6(address) => (address, port),
                _ => return authority.error(LdapUrlErrorKind::BadHost),
            },
            None => {
                let host_len = authority.text.find(':').unwrap_or(authority.text.len());
                authority.text.split_at(host_len)
            }
        };
        let host = Component { text: host, ..authority };
        let no_host_has =
            |character: char| character.is_whitespace() || "<>\"@[]\\^`{|}#".contains(character);
        let host = host.checked(LdapUrlErrorKind::BadHost, |host| !host.contains(no_host_has))?;
        self.host = Some(host).filter(|host| !host.is_empty());
        // A colon without digits is valid and means the default port (RFC 3986 section 3.2.3).
        if port.is_empty() || port == ":" {
            return Ok(());
        }
        let is_number = |digits: &&str| digits.bytes().all(|octet| octet.is_ascii_digit());
        let number = port.strip_prefix(':').filter(is_number).and_then(|digits| digits.parse().ok());
        match number {
            Some(number) if number != 0 => self.port = Some(number),
            _ => return Component { text: port, ..authority }.error(LdapUrlErrorKind::BadPort),
        }
        Ok(())
    }
}

fn is_ipv6(address: &str) -> bool {
    address.parse::<std::net::Ipv6Addr>().is_ok()
}

/// A part of a URL, still percent-encoded.
#[derive(Clone, Copy)]
struct Component<'a> {
    url: &'a str,
    /// A slice of `url`.
    text: &'a str,
}

impl<'a> Component<'a> {
    fn error<T>(self, kind: LdapUrlErrorKind) -> Result<T, LdapUrlError> {
        let offset = self.text.as_ptr() as usize - self.url.as_ptr() as usize;
        Err(LdapUrlError { offset, kind })
    }

    /// Decodes the percent-encoding of the component.
    fn decoded(self) -> Result<String, LdapUrlError> {
        let mut octets = Vec::with_capacity(self.text.len());
        let mut rest = self.text.as_bytes();
        while let Some((&octet, after)) = rest.split_first() {
            if octet != b'%' {
                octets.push(octet);
                rest = after;
                continue;
            }
            match hex_pair(after) {
                Some(octet) => octets.push(octet),
                None => return self.error(LdapUrlErrorKind::BadPercentEncoding),
            }
            rest = after.get(2..).unwrap_or_default();
        }
        String::from_utf8(octets).or_else(|_| self.error(LdapUrlErrorKind::BadPercentEncoding))
    }

    /// Decodes the percent-encoding of the component and validates the result.
    fn checked(
        self,
        kind: LdapUrlErrorKind,
        is_valid: impl Fn(&str) -> bool,
    ) -> Result<String, LdapUrlError> {
        let decoded = self.decoded()?;
        if is_valid(&decoded) { Ok(decoded) } else { self.error(kind) }
    }

    /// Returns the parts between commas.
    fn list(self) -> impl Iterator<Item = Component<'a>> {
        self.text.split(',').map(move |text| Component { text, ..self })
    }

    fn scope(self) -> Result<Scope, LdapUrlError> {
        let scopes = [Scope::BaseObject, Scope::SingleLevel, Scope::WholeSubtree, Scope::Subordinate];
        match scopes.into_iter().find(|scope| scope_name(*scope).eq_ignore_ascii_case(self.text)) {
            Some(scope) => Ok(scope),
            None => self.error(LdapUrlErrorKind::BadScope),
        }
    }

    fn extension(self) -> Result<UrlExtension, LdapUrlError> {
        let critical = self.text.starts_with('!');
        let text = self.text.trim_start_matches('!');
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(Component { text: value, ..self }.decoded()?)),
            None => (text, None),
        };
        let is_name_octet = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'.');
        let name = Component { text: name, ..self }.checked(LdapUrlErrorKind::BadExtension, |name| {
            !name.is_empty() && name.bytes().all(is_name_octet)
        })?;
        Ok(UrlExtension { critical, name, value })
    }
}

fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::BaseObject => "base",
        Scope::SingleLevel => "one",
        Scope::WholeSubtree => "sub",
        Scope::Subordinate => "subord",
    }
}

impl fmt::Display for LdapUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme.name())?;
        if let Some(host) = &self.host {
            match self.scheme {
                UrlScheme::Ldapi => write!(f, "{}", Encoded(host, "/?,"))?,
                _ if is_ipv6(host) => write!(f, "[{host}]")?,
                _ => write!(f, "{}", Encoded(host, "/?,:[]@"))?,
            }
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        let attributes: Vec<_> = self.attributes.iter().map(|name| Encoded(name, "?,").to_string()).collect();
        let extensions: Vec<_> = self.extensions.iter().map(UrlExtension::to_string).collect();
        let components = [
            Encoded(&self.dn, "?").to_string(),
            attributes.join(","),
            self.scope.map_or("", scope_name).to_string(),
            Encoded(self.filter.as_deref().unwrap_or_default(), "?").to_string(),
            extensions.join(","),
        ];
        let count = components.iter().rposition(|component| !component.is_empty()).map_or(0, |last| last + 1);
        for (index, component) in components.iter().take(count).enumerate() {
            write!(f, "{}{component}", if index == 0 { '/' } else { '?' })?;
        }
        Ok(())
    }
}

impl fmt::Display for UrlExtension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.critical { "!" } else { "" };
        write!(f, "{mark}{}", self.name)?;
        match &self.value {
            Some(value) => write!(f, "={}", Encoded(value, "?,")),
            None => Ok(()),
        }
    }
}

/// Displays a text in percent-encoding. Reserved and unreserved characters of RFC 3986 are not encoded, with two
/// exceptions: `#`, which would start a fragment, and the reserved characters in the second field (RFC 4516 section
/// 2.1).
struct Encoded<'a>(&'a str, &'a str);

impl fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Encoded(text, also) = self;
        for octet in text.bytes() {
            let character = char::from(octet);
            let is_plain = octet.is_ascii_alphanumeric() || "-._~:/?[]@!$&'()*+,;=".contains(character);
            if is_plain && !also.contains(character) {
                write!(f, "{character}")?;
            } else {
                write!(f, "%{octet:02X}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for LdapUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at octet {}", self.kind, self.offset)
    }
}

impl fmt::Display for LdapUrlErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LdapUrlErrorKind::BadScheme => "'ldap://', 'ldaps://' or 'ldapi://' expected",
            LdapUrlErrorKind::BadHost => "invalid host",
            LdapUrlErrorKind::BadPort => "port must be a number from 1 to 65535",
            LdapUrlErrorKind::BadPercentEncoding => "'%' must be followed by hex digits that give UTF-8",
            LdapUrlErrorKind::BadDn => "invalid DN",
            LdapUrlErrorKind::BadAttribute => "attribute expected",
            LdapUrlErrorKind::BadScope => "scope must be base, one, sub or subord",
            LdapUrlErrorKind::BadFilter => "invalid filter",
            LdapUrlErrorKind::BadExtension => "extension name expected",
            LdapUrlErrorKind::TrailingText => "'?' must be percent-encoded here",
        })
    }
}

impl std::error::Error for LdapUrlError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> LdapUrl {
        let url = LdapUrl::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(LdapUrl::parse(&url.to_string()).as_ref(), Ok(&url), "{text} as {url}");
        url
    }

    #[test]
    fn examples_of_rfc_4516_parse() {
        let url = parse("ldap:///o=University%20of%20Michigan,c=US");
        assert_eq!((url.host.as_deref(), url.dn.as_str()), (None, "o=University of Michigan,c=US"));
        let url =
            parse("ldap://ldap1.example.net:6666/o=University%20of%20Michigan,c=US??sub?(cn=Babs%20Jensen)");
        assert_eq!((url.host.as_deref(), url.port), (Some("ldap1.example.net"), Some(6666)));
        assert_eq!((url.scope, url.filter.as_deref()), (Some(Scope::WholeSubtree), Some("(cn=Babs Jensen)")));
        let url = parse("LDAP://ldap1.example.com/c=GB?objectClass?ONE");
        assert_eq!((url.attributes, url.scope), (vec!["objectClass".to_string()], Some(Scope::SingleLevel)));
        assert_eq!(parse("ldap://ldap2.example.com/o=Question%3f,c=US?mail").dn, "o=Question?,c=US");
        let url = parse("ldap://ldap3.example.com/o=Babsco,c=US???(four-octet=%5c00%5c00%5c00%5c04)");
        assert_eq!(url.filter.as_deref(), Some(r"(four-octet=\00\00\00\04)"));
        let url = parse("ldap://ldap.example.com/o=An%20Example%5C2C%20Inc.,c=US");
        assert_eq!(url.dn, r"o=An Example\2C Inc.,c=US");
        for text in ["ldap://ldap.example.net", "ldap://ldap.example.net/", "ldap://ldap.example.net/?"] {
            assert_eq!(parse(text).to_string(), "ldap://ldap.example.net");
        }
        let url = parse("ldap:///??sub??!e-bindname=cn=Manager%2cdc=example%2cdc=com");
        let value = Some("cn=Manager,dc=example,dc=com".to_string());
        assert_eq!(url.extensions, [UrlExtension { critical: true, name: "e-bindname".into(), value }]);
    }

    #[test]
    fn hosts_and_ports_parse() {
        let check = |text: &str, host: Option<&str>, port: Option<u16>| {
            let url = parse(text);
            assert_eq!((url.host.as_deref(), url.port_or_default()), (host, port), "{text}");
        };
        check("ldap://", None, Some(389));
        check("ldaps://h", Some("h"), Some(636));
        check("ldap://:1389/", None, Some(1389));
        check("ldap://a:", Some("a"), Some(389));
        check("ldap://[::1]:1389", Some("::1"), Some(1389));
        check("ldap://127.0.0.1:1", Some("127.0.0.1"), Some(1));
        check("ldapi://%2frun%2fpando.sock/", Some("/run/pando.sock"), None);
        check("ldapi:///", None, None);
    }

    #[test]
    fn display_percent_encodes_reserved_characters() {
        let mut url = parse("ldaps://h:636/dc=x?cn,sn?base?(a=b)?x=1,!y");
        assert_eq!(url.to_string(), "ldaps://h:636/dc=x?cn,sn?base?(a=b)?x=1,!y");
        url.dn = "cn=a#b?c%ä".into();
        url.attributes.clear();
        assert_eq!(url.to_string(), "ldaps://h:636/cn=a%23b%3Fc%25%C3%A4??base?(a=b)?x=1,!y");
    }

    #[test]
    fn errors_have_positions() {
        let check = |text: &str, offset: usize, kind: LdapUrlErrorKind| {
            assert_eq!(LdapUrl::parse(text), Err(LdapUrlError { offset, kind }), "{text}");
        };
        check("", 0, LdapUrlErrorKind::BadScheme);
        check("http://a", 0, LdapUrlErrorKind::BadScheme);
        check("ldap:/a", 0, LdapUrlErrorKind::BadScheme);
        check("ldap://a b", 7, LdapUrlErrorKind::BadHost);
        check("ldap://[::1", 7, LdapUrlErrorKind::BadHost);
        check("ldap://[1.2]", 7, LdapUrlErrorKind::BadHost);
        check("ldap://a:x", 8, LdapUrlErrorKind::BadPort);
        check("ldap://a:+1", 8, LdapUrlErrorKind::BadPort);
        check("ldap://a:0", 8, LdapUrlErrorKind::BadPort);
        check("ldap://a:65536", 8, LdapUrlErrorKind::BadPort);
        check("ldap://[::1]x", 12, LdapUrlErrorKind::BadPort);
        check("ldap://a?x", 8, LdapUrlErrorKind::TrailingText);
        check("ldap:///dc=%4", 8, LdapUrlErrorKind::BadPercentEncoding);
        check("ldap:///dc=%ff", 8, LdapUrlErrorKind::BadPercentEncoding);
        check("ldap:///dc", 8, LdapUrlErrorKind::BadDn);
        check("ldap:///?cn,,sn", 12, LdapUrlErrorKind::BadAttribute);
        check("ldap:///??tree", 10, LdapUrlErrorKind::BadScope);
        check("ldap:///???cn=a", 11, LdapUrlErrorKind::BadFilter);
        check("ldap:///????!", 13, LdapUrlErrorKind::BadExtension);
        check("ldap:///????x?y", 14, LdapUrlErrorKind::TrailingText);
    }
}
