//! Binds with a Kerberos ticket (GSSAPI, RFC 4752; GSS-SPNEGO, RFC 4178).
//!
//! The hash pool handles the client's messages, because the Kerberos library may wait for the disk. Between messages
//! the session stores the exchange. If authentication fails, the client receives only invalidCredentials. The log and
//! the audit trail contain the reason.

use directory::identity::{identify, identify_by};
use directory::{Outcome, Requester, ServerFault};
use ldap::ResultCode;
use sasl::limits::KERBEROS_TOKEN_SIZE_MAX;
use system::gss::GssMechanism;

use super::passwords::hash_pool_busy;
use super::responder::Responder;
use super::sasl::{SaslExchange, authorized, refusal};
use super::{Session, Work};
use crate::config::kerberos::{KerberosRules, Mapped};
use crate::kerberos::{Authenticated, KerberosExchange, KerberosJob, KerberosTurn};
use crate::limits::KERBEROS_REASON_MAX;
use crate::net::mailbox::HashResult;
use crate::session::context::Context;
use crate::stamp::password_time;
use crate::workers::hash_pool::HashWork;

/// Name under which `ChannelBindings::data` returns the tls-server-end-point binding in the form that Kerberos clients
/// use: the type, a colon, and the data (RFC 5056 section 2.1). Active Directory uses the same type.
const GSS_BINDING: &str = "ldap";

impl Session {
    /// Returns the Kerberos rules for this connection; `None` if the connection does not offer Kerberos.
    pub(super) fn kerberos_rules<'a>(&self, context: &'a Context) -> Option<&'a KerberosRules> {
        let listener = context.settings.listen.get(usize::from(self.listener.0));
        context.settings.kerberos.as_deref().filter(|rules| rules.are_for(listener))
    }

    /// Handles a message of the client. It continues the exchange `pending`, or begins an exchange if there is none.
    pub(super) fn kerberos(
        &mut self,
        to: Responder<'_>,
        (mechanism, pending): (GssMechanism, Option<KerberosExchange>),
        message: &[u8],
    ) {
        if message.len() > KERBEROS_TOKEN_SIZE_MAX {
            let text = "the token is too long";
            return self.answer(to, &Outcome::new(ResultCode::PROTOCOL_ERROR, text));
        }
        let exchange = pending.or_else(|| {
            let acceptor = self.kerberos_rules(to.context)?.acceptor(mechanism);
            to.context.shared.kerberos.begin(mechanism, acceptor)
        });
        let Some(exchange) = exchange else {
            let text = "too many clients bind by Kerberos now; try again later";
            return self.answer(to, &Outcome::new(ResultCode::BUSY, text));
        };
        let channel = self.channel_bindings().and_then(|bindings| bindings.data(GSS_BINDING));
        let job = KerberosJob { exchange, message: message.to_vec(), channel };
        let job = HashWork::Kerberos(Box::new(job));
        let (address, submitter) = (self.address(to.context), self.submitter(to.context, 0));
        match to.context.shared.hash_pool.submit(address, job, None, submitter) {
            Some(claim) => self.keep(to.head, Work::Kerberos, message.len(), Some(claim)),
            None => self.answer(to, &hash_pool_busy()),
        }
    }

    /// Continues the bind after the hash pool has handled the client's message.
    pub(super) fn continue_kerberos(&mut self, mut to: Responder<'_>, result: HashResult) {
        let turn = match result {
            HashResult::Kerberos(turn) => *turn,
            HashResult::Busy => return self.answer(to, &hash_pool_busy()),
            _ => {
                let outcome = Outcome::new(ResultCode::OTHER, "the ticket could not be looked at");
                return self.answer(to, &outcome.by_fault(ServerFault::Defect));
            }
        };
        match turn {
            KerberosTurn::Say(exchange, message) => {
                self.sasl = Some(Box::new(SaslExchange::Kerberos(exchange)));
                to.head.sasl_credentials = Some(message);
                self.answer(to, &Outcome::code(ResultCode::SASL_BIND_IN_PROGRESS));
            }
            KerberosTurn::Unfit(error) => self.answer(to, &refusal(error)),
            KerberosTurn::Refused(error) => self.kerberos_refused(to, "", &error.to_string()),
            KerberosTurn::Authenticated(authenticated) => {
                match self.ticket_requester(to.context, &authenticated) {
                    Ok(requester) => {
                        to.head.sasl_credentials = authenticated.last;
                        self.bound(to, &Outcome::success(), requester);
                    }
                    Err(why) => self.kerberos_refused(to, &authenticated.peers.client, &why),
                }
            }
        }
    }

    /// Returns the requester that the ticket identifies.
    fn ticket_requester(
        &self,
        context: &Context,
        authenticated: &Authenticated,
    ) -> Result<Requester, String> {
        let Authenticated { peers, authorization, .. } = authenticated;
        let rules = self.kerberos_rules(context).ok_or("Kerberos is not offered any more")?;
        let identified = match rules.mapped(&peers.client, &peers.service)? {
            Mapped::Attribute(attribute) => identify_by(&context.snapshot, attribute, &peers.client),
            // The principal is always a user name. Even if it begins with "dn:", it is not read as a DN.
            Mapped::Name(name) => identify(&context.snapshot, &format!("u:{name}")),
        };
        let identified = identified.map_err(|outcome| outcome.diagnostic)?;
        let identified = identified.ok_or("no entry, or several, are this principal's")?;
        if identified.account.is_some_and(|account| account.is_unavailable(password_time())) {
            return Err("the account is locked by an administrator, or it is not its time".to_owned());
        }
        authorized(context, &identified.requester, authorization)
            .ok_or_else(|| "the user may not act as who is asked for".to_owned())
    }

    /// Refuses the client, and logs the reason for the administrator.
    fn kerberos_refused(&self, mut to: Responder<'_>, principal: &str, why: &str) {
        // Error texts of the library may quote the client's token, so they are shortened.
        let why = why.chars().take(KERBEROS_REASON_MAX).collect::<String>();
        let principal = ldap::Excerpt(principal);
        tracing::info!(conn = self.number(), "a bind by Kerberos of {principal:?} is refused: {why:?}");
        if let Some(event) = &mut to.head.event {
            event.reason = Some(format!("{principal:?}: {why}"));
        }
        let text = "the ticket is no good here; the server's log says why";
        self.answer(to, &Outcome::new(ResultCode::INVALID_CREDENTIALS, text));
    }
}
