//! LDAP URLs (RFC 4516).

use std::fmt;

use crate::Scope;

/// An LDAP URL, percent-decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LdapUrl {
    /// ldap, ldaps or ldapi.
    pub scheme: UrlScheme,
    /// The host without the brackets of an IPv6 address; for ldapi the socket's path. `None` when absent.
    pub host: Option<String>,
    /// The port; `None` when absent.
    pub port: Option<u16>,
    /// The DN; empty when absent.
    pub dn: String,
    /// The attributes to ask for; empty when absent.
    pub attributes: Vec<String>,
    /// The scope; `None` when absent, which means base.
    pub scope: Option<Scope>,
    /// The filter's text; `None` when absent, which means `(objectClass=*)`.
    pub filter: Option<String>,
    /// The extensions in the order written.
    pub extensions: Vec<UrlExtension>,
}

/// How to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UrlScheme {
    /// Plain TCP, port 389.
    Ldap,
    /// TLS, port 636.
    Ldaps,
    /// A Unix domain socket (draft-chu-ldap-ldapi).
    Ldapi,
}

/// An extension of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlExtension {
    /// Whether the URL must not be used by who does not know it.
    pub critical: bool,
    /// Its name or OID.
    pub name: String,
    /// Its value.
    pub value: Option<String>,
}

/// Where and why a text is not an LDAP URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LdapUrlError {
    /// Octets before the place.
    pub offset: usize,
    /// What is wrong there.
    pub kind: LdapUrlErrorKind,
}

/// What is wrong with the text of an LDAP URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LdapUrlErrorKind {
    /// Neither ldap, ldaps nor ldapi.
    BadScheme,
}

impl LdapUrl {
    /// Parses a URL.
    ///
    /// # Errors
    /// Where and why it is none.
    pub fn parse(text: &str) -> Result<LdapUrl, LdapUrlError> {
        todo!("{text}")
    }
}

impl fmt::Display for LdapUrl {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        todo!()
    }
}

impl fmt::Display for LdapUrlError {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        todo!()
    }
}

impl std::error::Error for LdapUrlError {}
