//! Binds by DIGEST-MD5 (RFC 2831), in which the server sends the first message. The challenge does not depend on the
//! user. Therefore an unknown name fails at the end of the exchange, like a wrong password and after the same time.

use directory::Outcome;
use directory::identity::identify;
use ldap::ResultCode;
use sasl::digest::{DigestKey, Exchange, LDAP_SERVICE, Response};

use super::Session;
use super::responder::Responder;
use super::sasl::{SaslExchange, authorized, refusal};
use crate::stamp::{no_random_numbers, readable_password};

impl Session {
    /// Begins an exchange.
    pub(super) fn digest_challenge(&mut self, mut to: Responder<'_>) {
        let nonce = match to.context.random.bytes() {
            Ok(bytes) => readable_password(&bytes),
            Err(error) => return self.answer(to, &no_random_numbers(error)),
        };
        let realm = &to.context.snapshot.state().settings.general.sasl_realm;
        let (exchange, challenge) = Exchange::begin(realm, &nonce);
        to.head.sasl_credentials = Some(challenge.into_bytes());
        self.sasl = Some(Box::new(SaslExchange::Digest(exchange)));
        self.answer(to, &Outcome::code(ResultCode::SASL_BIND_IN_PROGRESS));
    }

    /// Handles the client's response. After a valid proof the session takes the authorization identity in the response.
    pub(super) fn digest_response(&mut self, mut to: Responder<'_>, exchange: &Exchange, credentials: &[u8]) {
        let response = match Response::parse(credentials, LDAP_SERVICE) {
            Ok(response) => response,
            Err(error) => return self.answer(to, &refusal(error)),
        };
        let identified = match identify(&to.context.snapshot, &response.name) {
            Ok(identified) => identified,
            Err(outcome) => return self.answer(to, &outcome),
        };
        let own = identified.as_ref().map(|of| &of.requester);
        let acts_as = own.and_then(|own| authorized(to.context, own, &response.authorization));
        let mut keys = identified.iter().flat_map(|of| &of.sasl_keys).filter_map(|key| DigestKey::parse(key));
        let key = keys.find(|key| key.is_for(&response.name, exchange.realm()));
        let proved = exchange.finish(&response, key.as_ref());
        let identified = identified.filter(|_| key.is_some() && acts_as.is_some());
        let is_right = proved.is_ok() && identified.is_some();
        // The response value would confirm the proof to a client that may not assume the identity. Therefore such a
        // client does not receive it.
        to.head.sasl_credentials = proved.ok().filter(|_| is_right).map(String::into_bytes);
        self.proved(to, (&response.name, identified, acts_as), is_right);
    }
}
