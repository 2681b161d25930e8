//! Whom the layers below LDAP find at the other end of a connection, and the SASL mechanisms that it offers.

use crate::model::sasl_mechanisms::{GSS_SPNEGO, GSSAPI, MECHANISMS, OAUTHBEARER, PLAIN};
use crate::model::settings::GeneralSettings;

/// The SASL mechanism of whoever the layers below know (RFC 4422 appendix A).
pub(crate) const EXTERNAL: &str = "EXTERNAL";

/// What a connection offers to whoever binds on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offered {
    /// The identity that the layers below know.
    pub external: ExternalIdentity,
    /// Passwords may come in clear, because something protects the connection, or the settings say so.
    pub clear_passwords: bool,
    /// There is a channel to bind a proof to.
    pub channel_binding: bool,
    /// Tokens may come, because TLS protects the connection, and the server knows whose.
    pub bearer_tokens: bool,
    /// Tickets of Kerberos may come, because the server has a key.
    pub kerberos: bool,
    /// The weakest bind that is good enough here.
    pub weakest_bind: BindStrength,
}

/// How well a bind shows who somebody is, the weakest first (RFC 4513 section 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum BindStrength {
    /// Not at all.
    #[default]
    Anonymous,
    /// By a password, or a token that is as good, that the server gets to see.
    Password,
    /// By a proof of a password, which nobody can use again.
    Proof,
    /// By a certificate, or by the system below.
    Certificate,
}

impl BindStrength {
    /// That of a SASL mechanism.
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

impl Offered {
    /// The mechanisms of the settings that can work here: what the root DSE names.
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
