//! External identity of a client, as TLS or the operating system establishes it. Also the SASL mechanisms that a
//! connection offers.

use crate::model::sasl_mechanisms::{GSS_SPNEGO, GSSAPI, MECHANISMS, OAUTHBEARER, PLAIN};
use crate::model::settings::GeneralSettings;

/// The SASL mechanism by which a client assumes its external identity (RFC 4422 appendix A).
pub(crate) const EXTERNAL: &str = "EXTERNAL";

/// Bind methods that a connection offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfferedBinds {
    /// Identity established by the layers below LDAP.
    pub external: ExternalIdentity,
    /// Whether plaintext passwords are accepted, because the connection is protected or the settings permit them.
    pub clear_passwords: bool,
    /// Whether the connection supports channel binding.
    pub channel_binding: bool,
    /// Whether bearer tokens are accepted, because TLS protects the connection and the server knows their issuer.
    pub bearer_tokens: bool,
    /// Whether Kerberos tickets are accepted, because the server has a key.
    pub kerberos: bool,
    /// The weakest kind of bind that the connection accepts.
    pub weakest_bind: BindStrength,
}

/// Strength of a bind, the weakest first (RFC 4513 section 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum BindStrength {
    /// No authentication.
    #[default]
    Anonymous,
    /// A password, or an equivalent token, that is sent to the server.
    Password,
    /// A proof of knowing a password. The proof cannot be replayed.
    Proof,
    /// A certificate, or an identity that the operating system reports.
    Certificate,
}

impl BindStrength {
    /// Returns the strength of a SASL mechanism.
    pub fn of_mechanism(name: &str) -> BindStrength {
        let proofs = ["SCRAM-", "GSS", "CRAM-MD5", "DIGEST-MD5"];
        let name = name.to_ascii_uppercase();
        match name.as_str() {
            crate::model::sasl_mechanisms::ANONYMOUS => BindStrength::Anonymous,
            EXTERNAL => BindStrength::Certificate,
            name if proofs.iter().any(|proof| name.starts_with(proof)) => BindStrength::Proof,
            _ => BindStrength::Password,
        }
    }
}

impl OfferedBinds {
    /// Returns the mechanisms of the settings that can work on this connection and are strong enough for it. The root
    /// DSE lists these mechanisms.
    pub fn mechanisms(self, settings: &GeneralSettings) -> Vec<&'static str> {
        let works = |mechanism: &&str| match *mechanism {
            EXTERNAL => self.external.mechanism().is_some(),
            PLAIN => self.clear_passwords,
            OAUTHBEARER => self.bearer_tokens,
            GSSAPI | GSS_SPNEGO => self.kerberos,
            other => self.channel_binding || !other.ends_with("-PLUS"),
        };
        let named = |mechanism: &&str| settings.sasl_mechanisms.iter().any(|named| named == mechanism);
        let suffices = |mechanism: &&str| BindStrength::of_mechanism(mechanism) >= self.weakest_bind;
        MECHANISMS.into_iter().filter(works).filter(named).filter(suffices).collect()
    }
}

/// Identity of a client that the layers below LDAP establish (RFC 4513 section 5.2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExternalIdentity {
    /// Connections of this kind never establish an identity, so EXTERNAL is not offered.
    #[default]
    NotOffered,
    /// The client could have presented an identity, such as a certificate, but did not do so.
    Unknown,
    /// The client presented an identity that has no entry.
    Stranger,
    /// The client presented an identity that may act as the administrator.
    Administrator,
    /// The client presented a certificate. The certificate determines the identity.
    Certificate,
}

impl ExternalIdentity {
    /// Returns EXTERNAL if a bind with this mechanism may succeed, so that the root DSE lists it.
    pub(crate) fn mechanism(self) -> Option<&'static str> {
        matches!(self, ExternalIdentity::Administrator | ExternalIdentity::Certificate).then_some(EXTERNAL)
    }
}
