//! Whom the layers below LDAP find at the other end of a connection.

/// The name of the one SASL mechanism there is (RFC 4422 appendix A).
pub(crate) const EXTERNAL: &str = "EXTERNAL";

/// What lies below LDAP on a connection says of who is at its other end (RFC 4513 section 5.2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExternalIdentity {
    /// Nothing, ever, on connections of this kind: EXTERNAL is no mechanism here.
    #[default]
    NotOffered,
    /// It should, but does not.
    Unknown,
    /// Somebody who is nobody in the directory.
    Stranger,
    /// Somebody who may be the administrator.
    Administrator,
    /// Whoever the client's certificate names.
    Certificate,
}

impl ExternalIdentity {
    /// The mechanism that the root DSE names: only where a bind by it may succeed.
    pub(crate) fn mechanism(self) -> Option<&'static str> {
        matches!(self, ExternalIdentity::Administrator | ExternalIdentity::Certificate).then_some(EXTERNAL)
    }
}
