//! Conversion of forwarded changes between the types of the directory and those of messages (`replication::forward`).
//! Changes are forwarded between the nodes of a cluster, and from a replica to its supplier. [`row_digests`] computes
//! digests with which these servers compare their data.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::indexing_slicing, clippy::expect_used))]
#![forbid(unsafe_code)]

pub mod row_digests;

use directory::account_update::AccountUpdate;
use directory::rows::EntryId;
use directory::{ClientLink, Outcome, Requester, WeekTime};
use ldap::{PolicyError, ResultCode};
use replication::forward::{self, BindMethod, ForwardedRequester, LdapResult};

/// Security strength of an encrypted connection in bits: the lowest strength of the TLS 1.3 cipher suites.
const PROTECTED: u32 = 128;

/// Converts a requester to its form in messages.
pub fn forwarded_requester(requester: &Requester) -> ForwardedRequester {
    match requester {
        Requester::Anonymous => ForwardedRequester::Anonymous,
        Requester::Administrator { dn } => ForwardedRequester::Administrator { dn: dn.clone() },
        Requester::User { id, dn } => ForwardedRequester::Entry { id: id.0, dn: dn.clone() },
    }
}

/// Converts a requester from its form in messages.
pub fn requester_of(requester: &ForwardedRequester) -> Requester {
    match requester {
        ForwardedRequester::Anonymous => Requester::Anonymous,
        ForwardedRequester::Administrator { dn } => Requester::Administrator { dn: dn.clone() },
        ForwardedRequester::Entry { id, dn } => Requester::User { id: EntryId(*id), dn: dn.clone() },
    }
}

/// Connection of a client, in the form used in messages.
pub struct ForwardedLink {
    /// Authentication method.
    pub method: BindMethod,
    /// Security strength in bits; 0 if the connection is not encrypted.
    pub strength: u32,
    /// Address of the client.
    pub network: Option<std::net::IpAddr>,
    /// Name of the listener.
    pub listener: Option<String>,
}

/// Converts a client's connection to the form used in messages.
pub fn forwarded_link(link: Option<ClientLink>) -> ForwardedLink {
    let link = link.unwrap_or_default();
    let method = match link.method {
        Some(directory::BindMethod::Simple) => BindMethod::Simple,
        Some(directory::BindMethod::Sasl(mechanism)) => BindMethod::Sasl(mechanism.name().to_owned()),
        Some(directory::BindMethod::MailToken) => BindMethod::Sasl(directory::bind::MAIL_TOKEN.to_owned()),
        Some(directory::BindMethod::None) | None => BindMethod::None,
    };
    ForwardedLink {
        method,
        strength: if link.is_protected { PROTECTED } else { 0 },
        network: link.address,
        listener: link.listener.map(|listener| listener.to_string()),
    }
}

/// Returns the connection of the client in a request. `now_micros` is the present time, in microseconds since 1970.
pub fn link_of(request: &forward::Request, now_micros: u64) -> ClientLink {
    ClientLink {
        address: request.network,
        is_protected: request.strength > 0,
        // A server sends no method if its access rules do not use the method.
        method: match &request.method {
            BindMethod::None => None,
            BindMethod::Simple => Some(directory::BindMethod::Simple),
            BindMethod::Sasl(mechanism) => Some(directory::BindMethod::of_mechanism(mechanism)),
        },
        at: Some(WeekTime::of_micros(now_micros)),
        listener: request.listener.as_deref().and_then(|name| name.parse().ok()),
    }
}

/// Converts an update of an account to the form used in messages.
pub fn forwarded_update(update: AccountUpdate) -> forward::AccountUpdate {
    let AccountUpdate { failures, success, clears_failures, grace, rehashed, keys, totp_step, app_uses } =
        update;
    forward::AccountUpdate { failures, success, clears_failures, grace, rehashed, keys, totp_step, app_uses }
}

/// Converts an update of an account from the form used in messages.
pub fn update_of(update: forward::AccountUpdate) -> AccountUpdate {
    let forward::AccountUpdate {
        failures,
        success,
        clears_failures,
        grace,
        rehashed,
        keys,
        totp_step,
        app_uses,
    } = update;
    AccountUpdate { failures, success, clears_failures, grace, rehashed, keys, totp_step, app_uses }
}

/// Returns the result of a change for the server that forwarded it. `value` becomes [`LdapResult::value`].
pub fn forwarded_result(outcome: Outcome, value: Option<Vec<u8>>) -> LdapResult {
    LdapResult {
        code: outcome.code.0,
        matched_dn: outcome.matched_dn,
        diagnostic: outcome.diagnostic,
        referrals: outcome.referrals,
        policy: outcome.policy.map(PolicyError::number),
        value,
    }
}

/// Returns the outcome of a forwarded change, with the value or the controls of its response.
pub fn outcome_of(result: LdapResult) -> (Outcome, Option<Vec<u8>>) {
    let outcome = Outcome {
        matched_dn: result.matched_dn,
        referrals: result.referrals,
        policy: result.policy.and_then(PolicyError::of_number),
        ..Outcome::new(ResultCode(result.code), result.diagnostic)
    };
    (outcome, result.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requesters_and_results_decode_as_encoded() {
        for requester in [
            Requester::Anonymous,
            Requester::Administrator { dn: "cn=admin".to_owned() },
            Requester::User { id: EntryId(7), dn: "uid=anna".to_owned() },
        ] {
            assert_eq!(requester_of(&forwarded_requester(&requester)), requester);
        }
        let outcome = Outcome {
            matched_dn: "dc=example".to_owned(),
            referrals: vec!["ldap://other".to_owned()],
            ..Outcome::new(ResultCode::NO_SUCH_OBJECT, "nothing")
        };
        let (read, value) = outcome_of(forwarded_result(outcome.clone(), Some(b"value".to_vec())));
        assert_eq!((read.code, read.diagnostic), (outcome.code, outcome.diagnostic));
        assert_eq!((read.matched_dn, read.referrals), (outcome.matched_dn, outcome.referrals));
        assert_eq!(value.as_deref(), Some(&b"value"[..]));
    }
}
