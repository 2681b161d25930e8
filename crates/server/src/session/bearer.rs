//! Binds with a token (OAUTHBEARER, RFC 7628).
//!
//! A token is accepted over TLS only (section 5). For an invalid token the server first sends an error status. The bind
//! fails after the client has acknowledged the status (section 3.2.3). The reason goes to the log, without the token,
//! and not to the client.

use directory::identity::identify;
use directory::{Outcome, Requester};
use ldap::ResultCode;
use sasl::oauth::{self, Bearer};

use super::Session;
use super::responder::Responder;
use super::sasl::{SaslExchange, authorized, refusal};
use crate::session::context::Context;
use crate::stamp::password_time;

impl Session {
    /// Handles a message of the client.
    pub(super) fn bearer(
        &mut self,
        mut to: Responder<'_>,
        pending: Option<Box<SaslExchange>>,
        credentials: &[u8],
    ) {
        if let Some(SaslExchange::RefusedToken) = pending.as_deref()
            && oauth::is_acknowledgement(credentials)
        {
            let text = "the token is no good here; the server's log says why";
            return self.answer(to, &Outcome::new(ResultCode::INVALID_CREDENTIALS, text));
        }
        let bearer = match Bearer::parse(credentials) {
            Ok(bearer) => bearer,
            Err(error) => return self.answer(to, &refusal(error)),
        };
        match self.bearer_of(to.context, &bearer) {
            Ok(requester) => self.bound(to, &Outcome::success(), requester),
            Err(why) => {
                tracing::info!(conn = self.number(), "a bind with a token is refused: {why}");
                let issuer = to.context.settings.token_rules.as_ref().map_or("", |rules| &rules.issuer);
                to.head.sasl_credentials = Some(oauth::failure("invalid_token", issuer).into_bytes());
                self.sasl = Some(Box::new(SaslExchange::RefusedToken));
                self.answer(to, &Outcome::code(ResultCode::SASL_BIND_IN_PROGRESS));
            }
        }
    }

    /// Returns the requester that the token identifies.
    fn bearer_of(&self, context: &Context, bearer: &Bearer<'_>) -> Result<Requester, String> {
        let rules = context.settings.token_rules.as_ref().ok_or("no issuer is named in [oauth]")?;
        if bearer.token.is_empty() {
            return Err("the client sent none and asks what is wanted".to_owned());
        }
        let now = password_time();
        let seconds = u64::try_from(now / 1_000_000).unwrap_or(0);
        let user = rules.user(bearer.token, seconds).map_err(|error| error.to_string())?;
        // The claim is always a user name. Even if it begins with "dn:", it is not read as a DN.
        let identified = identify(&context.snapshot, &format!("u:{user}"));
        let identified = identified.map_err(|outcome| outcome.diagnostic)?;
        let shown = ldap::Excerpt(&user);
        let identified = identified.ok_or_else(|| format!("no entry, or several, are {shown:?}"))?;
        if identified.account.is_some_and(|account| account.is_unavailable(now)) {
            return Err(format!(
                "the account of {shown:?} is locked by an administrator, or it is not its time"
            ));
        }
        authorized(context, &identified.requester, &bearer.authorization)
            .ok_or_else(|| format!("{shown:?} may not act as who is asked for"))
    }
}
