//! SASL binds (RFC 4422, RFC 4513 section 5.2): PLAIN, SCRAM with and without channel binding, ANONYMOUS, EXTERNAL,
//! CRAM-MD5. See `bearer.rs` for tokens, `kerberos.rs` for Kerberos tickets, `digest.rs` for DIGEST-MD5.
//!
//! PLAIN works like a simple bind with the DN of the named user, with the same verification, time and answer. A SCRAM
//! exchange stores its keys, a few hundred bytes, in the session until the client's next request. A bind with another
//! mechanism, or any other request, ends the exchange (RFC 4513 section 5.2.1.2). An unknown name gets a salt that is
//! always the same for that name. The exchange for an unknown name fails at the end, like an exchange with a wrong
//! password (RFC 5802 section 9).

use directory::Requester;
use directory::bind::{
    ANONYMOUS, BindOutcome, CRAM_MD5, DIGEST_MD5, GSS_SPNEGO, GSSAPI, MAIL_TOKEN, OAUTHBEARER, OfferedBinds,
    PLAIN, bind, bind_without_entry, bind_without_password,
};
use directory::identity::{self, Identified, identify, name_key, usual_scram_iterations};
use directory::{Outcome, bind::ExternalIdentity};
use ldap::{Authentication, BindRequest, ResultCode};
use sasl::cram::{self, CramKey};
use sasl::digest;
use sasl::scram::{Binding, ClientFirst, Exchange};
use sasl::{Hash, Plain, SaslError, ScramKeys};
use system::gss::GssMechanism;

use super::passwords::{PasswordHolder, too_many_guesses};
use super::proof::Proof;
use super::responder::Responder;
use super::{RequestHead, Session, attempts};
use crate::config::ListenerIndex;
use crate::kerberos::KerberosExchange;
use crate::limits::SASL_TRACE_MAX;
use crate::session::context::Context;
use crate::stamp::{no_random_numbers, password_time, readable_password};

/// State of a SASL exchange between two messages of the client.
#[expect(clippy::large_enum_variant, reason = "it is boxed, and gone with the next message")]
pub(super) enum SaslExchange {
    /// SCRAM, between the client's two messages.
    Scram(ScramBind),
    /// CRAM-MD5, after the server sent this challenge.
    Cram(String),
    /// DIGEST-MD5, after the server sent its challenge.
    Digest(digest::Exchange),
    /// OAUTHBEARER, after the server refused the token. The client's next message is answered with the result (RFC 7628
    /// section 3.2.3).
    RefusedToken,
    /// GSSAPI or GSS-SPNEGO, waiting for the client's next message.
    Kerberos(KerberosExchange),
}

/// A SCRAM exchange between the client's two messages.
pub(super) struct ScramBind {
    hash: Hash,
    has_binding: bool,
    /// Channel binding data that the proof covers; empty without channel binding.
    channel: Vec<u8>,
    exchange: Exchange,
    /// User name that the client sent.
    name: String,
    /// User with this name, if there is one.
    identified: Option<Identified>,
}

impl Session {
    /// Returns the bind methods that this connection offers.
    pub(super) fn offered(&self, context: &Context) -> OfferedBinds {
        OfferedBinds {
            external: self.external,
            clear_passwords: self.allows_clear(context),
            channel_binding: self.channel_bindings().is_some(),
            bearer_tokens: self.has_tls() && context.settings.token_rules.is_some(),
            kerberos: self.kerberos_rules(context).is_some(),
            weakest_bind: self.rules(context).weakest_bind,
        }
    }

    /// Carries out a SASL bind.
    pub(super) fn sasl_bind(&mut self, mut to: Responder<'_>, request: &BindRequest<'_>) {
        let pending = self.sasl.take();
        let Authentication::Sasl { mechanism, credentials } = request.authentication else {
            return self.without_password(to, request);
        };
        if mechanism == MAIL_TOKEN && self.listener == ListenerIndex::CONSOLE {
            return self.mail_token(to, credentials.unwrap_or_default());
        }
        let offered = self.offered(to.context).mechanisms(&to.context.snapshot.state().settings.general);
        let is_external = mechanism.eq_ignore_ascii_case("EXTERNAL");
        if is_external && self.external != ExternalIdentity::NotOffered {
            return self.without_password(to, request);
        }
        let Some(mechanism) = offered.iter().find(|known| known.eq_ignore_ascii_case(mechanism)) else {
            return self.answer(to, &not_offered(mechanism, &offered));
        };
        if *mechanism == CRAM_MD5 {
            return match (credentials.filter(|octets| !octets.is_empty()), pending.as_deref()) {
                (Some(answer), Some(SaslExchange::Cram(challenge))) => {
                    self.cram_answer(to, challenge, answer);
                }
                (Some(_), _) => {
                    let text = "CRAM-MD5 begins with the server's challenge (RFC 2195 section 2)";
                    self.answer(to, &Outcome::new(ResultCode::PROTOCOL_ERROR, text));
                }
                (None, _) => self.cram_challenge(to),
            };
        }
        if *mechanism == DIGEST_MD5 {
            return match (credentials.filter(|octets| !octets.is_empty()), pending.as_deref()) {
                (Some(response), Some(SaslExchange::Digest(exchange))) => {
                    self.digest_response(to, exchange, response);
                }
                // If the client wants to reuse a nonce (RFC 2831 section 2.2), it gets a new challenge.
                _ => self.digest_challenge(to),
            };
        }
        if let Some(gss) = gss_mechanism(mechanism) {
            let exchange_before = match pending.map(|pending| *pending) {
                Some(SaslExchange::Kerberos(exchange)) if exchange.mechanism() == gss => Some(exchange),
                _ => None,
            };
            let message = credentials.unwrap_or_default();
            // An empty message may continue an exchange, but cannot begin one.
            return match exchange_before.is_none() && message.is_empty() {
                true => self.answer_empty_response(to),
                false => self.kerberos(to, (gss, exchange_before), message),
            };
        }
        let Some(credentials) = credentials else { return self.answer_empty_response(to) };
        if *mechanism == OAUTHBEARER {
            return self.bearer(to, pending, credentials);
        }
        let outcome = match (*mechanism, Hash::of_mechanism(mechanism), pending.map(|pending| *pending)) {
            (PLAIN, ..) => return self.plain(to, credentials),
            (ANONYMOUS, ..) => {
                let trace = String::from_utf8_lossy(credentials.get(..SASL_TRACE_MAX).unwrap_or(credentials));
                tracing::info!(conn = self.number(), "an anonymous bind with the trace {trace:?}");
                Outcome::success()
            }
            (_, Some(wanted), Some(SaslExchange::Scram(pending)))
                if (pending.hash, pending.has_binding) == wanted =>
            {
                return self.scram_final(to, pending, credentials);
            }
            (_, Some(wanted), _) => match self.scram_first(to.context, &mut to.head, wanted, credentials) {
                Ok(challenge) => {
                    to.head.sasl_credentials = Some(challenge);
                    Outcome::code(ResultCode::SASL_BIND_IN_PROGRESS)
                }
                Err(outcome) => outcome,
            },
            _ => Outcome::code(ResultCode::AUTH_METHOD_NOT_SUPPORTED),
        };
        self.answer(to, &outcome);
    }

    /// Answers with an empty challenge, because the client sent no initial response (RFC 4422 section 5).
    fn answer_empty_response(&self, mut to: Responder<'_>) {
        to.head.sasl_credentials = Some(Vec::new());
        self.answer(to, &Outcome::code(ResultCode::SASL_BIND_IN_PROGRESS));
    }

    fn without_password(&mut self, to: Responder<'_>, request: &BindRequest<'_>) {
        let subject = self.certificate_subject();
        let (mut outcome, mut requester) =
            bind_without_password(&to.context.snapshot, request, self.external, subject);
        if let Authentication::Sasl { credentials: Some(wanted), .. } = request.authentication
            && outcome.code == ResultCode::SUCCESS
        {
            let wanted =
                std::str::from_utf8(wanted).ok().map(|wanted| authorized(to.context, &requester, wanted));
            (outcome, requester) = match wanted.flatten() {
                Some(requester) => (outcome, requester),
                None => (
                    Outcome::new(
                        ResultCode::INVALID_CREDENTIALS,
                        "EXTERNAL does not give you that identity: send none for your own",
                    ),
                    Requester::Anonymous,
                ),
            };
        }
        if outcome.code == ResultCode::SUCCESS && is_unavailable(to.context, &requester) {
            let text = "the account is locked by an administrator, or it is not its time";
            outcome = Outcome::new(ResultCode::INVALID_CREDENTIALS, text);
            requester = Requester::Anonymous;
        }
        self.bound(to, &outcome, requester);
    }

    fn plain(&mut self, mut to: Responder<'_>, credentials: &[u8]) {
        let (plain, identified) = match Plain::parse(credentials) {
            Ok(plain) => match identify(&to.context.snapshot, plain.authentication) {
                Ok(identified) => (plain, identified),
                Err(outcome) => return self.answer(to, &outcome),
            },
            Err(error) => return self.answer(to, &refusal(error)),
        };
        Session::name_tried(to.context, &mut to.head, plain.authentication);
        let own = identified.as_ref().map(|of| &of.requester);
        let acts_as = own.and_then(|own| authorized(to.context, own, plain.authorization));
        let identified = identified.filter(|_| acts_as.is_some());
        let decided = match &identified {
            None => bind_without_entry(&to.context.snapshot),
            Some(identified) => {
                let authentication = Authentication::Simple(plain.password);
                let name = identified.requester.dn();
                bind(&to.context.snapshot, &BindRequest { version: 3, name, authentication })
            }
        };
        match decided {
            BindOutcome::Done(outcome, requester) => self.bound(to, &outcome, requester),
            BindOutcome::Verify { verification, requester, account } => {
                let whose =
                    PasswordHolder { requester: Some(requester), acts_as, name: plain.authentication };
                self.verify(to, (verification, account), plain.password, whose);
            }
        }
    }

    /// Handles the client's first SCRAM message and sends the challenge.
    fn scram_first(
        &mut self,
        context: &mut Context,
        head: &mut RequestHead,
        (hash, has_binding): (Hash, bool),
        credentials: &[u8],
    ) -> Result<Vec<u8>, Outcome> {
        let first = ClientFirst::parse(credentials).map_err(|error| {
            head.sasl_error = error.server_message();
            refusal(error)
        })?;
        let offered = self.offered(context).mechanisms(&context.snapshot.state().settings.general);
        let channel = match first.binding {
            // In a Verify Credentials request the credentials belong to the user of an application. This connection is
            // the application's channel, not the user's.
            Binding::Type(_) if head.verifies_credentials => {
                let text = "credentials that are verified have no channel binding here";
                return Err(refusal(SaslError::NotOffered(text)));
            }
            // Cyrus SASL omits -PLUS from the mechanism name although it uses channel binding.
            Binding::Type(kind) => {
                let text = "the channel bindings here are tls-exporter and tls-server-end-point, over TLS";
                let data = self.channel_bindings().and_then(|bindings| bindings.data(kind));
                data.ok_or_else(|| refusal(SaslError::NotOffered(text)))?
            }
            // The client saw no -PLUS mechanism, although the server offers one. So an attacker on the path has removed
            // it from the list (RFC 5802 section 6).
            Binding::NotOffered if !head.verifies_credentials && offered.contains(&hash.mechanism_plus()) => {
                return Err(refusal(SaslError::NotOffered("channel binding is offered here")));
            }
            Binding::None | Binding::NotOffered if !has_binding => Vec::new(),
            _ => return Err(refusal(SaslError::Malformed("its channel binding is not the mechanism's"))),
        };
        let identified = identify(&context.snapshot, &first.name)?;
        // The challenge must not depend on the authorization identity. Otherwise a foreign identity would change the
        // salt of an existing name only, and reveal that the name exists.
        let keys = identified.as_ref().and_then(|of| keys_of(of, hash));
        let is_known = keys.is_some();
        let secret = context.snapshot.directory().secret(b"SCRAM");
        // All spellings of an existing name get the same salt, the salt in the entry's keys. Therefore all spellings of
        // an unknown name must get the same salt, too.
        let keys_of_unknown = || {
            let iterations = usual_scram_iterations(&context.snapshot);
            ScramKeys::of_unknown_user(hash, &secret, &name_key(&context.snapshot, &first.name), iterations)
        };
        let keys = keys.unwrap_or_else(keys_of_unknown);
        let nonce = readable_password(&context.random.bytes().map_err(no_random_numbers)?)
            + &readable_password(&context.random.bytes().map_err(no_random_numbers)?);
        let (exchange, challenge) = Exchange::begin(&first, keys, &nonce);
        // A user can authenticate only as itself. With another identity the exchange fails at its end, like an exchange
        // with a wrong password.
        let is_own = |own: &Requester| authorized(context, own, &first.authorization).as_ref() == Some(own);
        let identified = identified.filter(|of| is_known && is_own(&of.requester));
        let scram_bind =
            ScramBind { hash, has_binding, channel, exchange, name: first.name.clone(), identified };
        self.sasl = Some(Box::new(SaslExchange::Scram(scram_bind)));
        Ok(challenge.into_bytes())
    }

    /// Handles the client's last SCRAM message.
    fn scram_final(&mut self, mut to: Responder<'_>, scram: ScramBind, credentials: &[u8]) {
        let ScramBind { channel, exchange, name, identified, .. } = scram;
        let proved = exchange.finish(credentials, &channel);
        if let Err(
            error @ (SaslError::Malformed(_) | SaslError::NotOffered(_) | SaslError::MandatoryExtension),
        ) = proved
        {
            to.head.sasl_error = error.server_message();
            return self.answer(to, &refusal(error));
        }
        let is_right = proved.is_ok() && identified.is_some();
        // The server's signature would confirm the proof to a client that may not assume the identity.
        to.head.sasl_credentials = proved.ok().filter(|_| is_right).map(String::into_bytes);
        self.proved(to, (&name, identified, None), is_right);
    }

    /// Begins a CRAM-MD5 exchange, in which the server sends the first message.
    fn cram_challenge(&mut self, mut to: Responder<'_>) {
        let random = match to.context.random.bytes() {
            Ok(bytes) => readable_password(&bytes),
            Err(error) => return self.answer(to, &no_random_numbers(error)),
        };
        let seconds = u64::try_from(password_time() / 1_000_000).unwrap_or(0);
        let challenge = cram::challenge(&random, seconds);
        to.head.sasl_credentials = Some(challenge.clone().into_bytes());
        self.sasl = Some(Box::new(SaslExchange::Cram(challenge)));
        self.answer(to, &Outcome::code(ResultCode::SASL_BIND_IN_PROGRESS));
    }

    /// Handles the client's answer to the CRAM-MD5 challenge.
    fn cram_answer(&mut self, to: Responder<'_>, challenge: &str, credentials: &[u8]) {
        let answer = match cram::Answer::parse(credentials) {
            Ok(answer) => answer,
            Err(error) => return self.answer(to, &refusal(error)),
        };
        let identified = match identify(&to.context.snapshot, answer.name) {
            Ok(identified) => identified,
            Err(outcome) => return self.answer(to, &outcome),
        };
        let mut keys = identified.iter().flat_map(|of| &of.sasl_keys);
        let key = keys.find_map(|text| CramKey::parse(text));
        let is_known = key.is_some();
        let is_right = answer.is_right(&key.unwrap_or_else(CramKey::of_unknown_user), challenge) && is_known;
        let identified = identified.filter(|_| is_known);
        self.proved(to, (answer.name, identified, None), is_right);
    }

    /// Ends an exchange that resulted in a proof of the password. `acts_as` is the authorization identity as in
    /// [`Proof`].
    pub(super) fn proved(
        &mut self,
        mut to: Responder<'_>,
        (name, identified, acts_as): (&str, Option<Identified>, Option<Requester>),
        is_right: bool,
    ) {
        Session::name_tried(to.context, &mut to.head, name);
        let (requester, account) = match identified {
            Some(identified) => (identified.requester, identified.account),
            None => (Requester::Anonymous, None),
        };
        let attempt = account.map(|account| attempts::begin_proof(to.context, account));
        let guess = self.guess_key(&requester, name);
        if guess.is_some_and(|key| to.context.shared.guesses.are_too_many(&key, to.context.now)) {
            return self.answer(to, &too_many_guesses());
        }
        let proof = Proof { requester: Some(requester), acts_as, attempt, guess };
        self.verified(to, proof, is_right.into());
    }
}

/// Refuses a mechanism that this connection does not offer.
fn not_offered(mechanism: &str, offered: &[&str]) -> Outcome {
    let text = match offered.is_empty() {
        true => "no SASL mechanism is offered here; simple binds are".to_owned(),
        false => format!(
            "SASL mechanism {:?} is not offered here: there are {}",
            ldap::Excerpt(mechanism),
            offered.join(", ")
        ),
    };
    Outcome::new(ResultCode::AUTH_METHOD_NOT_SUPPORTED, text)
}

/// Returns the GSS-API mechanism for the name of a SASL mechanism; `None` for other mechanisms.
fn gss_mechanism(mechanism: &str) -> Option<GssMechanism> {
    match mechanism {
        GSSAPI => Some(GssMechanism::Kerberos),
        GSS_SPNEGO => Some(GssMechanism::Spnego),
        _ => None,
    }
}

/// Returns true if the user's account is unavailable now, even with a valid proof.
fn is_unavailable(context: &Context, requester: &Requester) -> bool {
    let Requester::User { id, .. } = requester else { return false };
    let account = directory::bind::account(&context.snapshot, *id).ok().flatten();
    account.is_some_and(|account| account.is_unavailable(password_time()))
}

/// Returns the user's SCRAM keys for a hash function.
fn keys_of(identified: &Identified, hash: Hash) -> Option<ScramKeys> {
    let keys = identified.sasl_keys.iter().filter_map(|text| ScramKeys::parse(text));
    keys.into_iter().find(|keys| keys.hash == hash)
}

/// Returns the requester for an authorization identity, if `requester` may assume it.
pub(super) fn authorized(context: &Context, requester: &Requester, identity: &str) -> Option<Requester> {
    identity::authorized(&context.snapshot, requester, identity).ok().flatten()
}

pub(super) fn refusal(error: SaslError) -> Outcome {
    let code = match error {
        SaslError::WrongProof | SaslError::MandatoryExtension => ResultCode::INVALID_CREDENTIALS,
        SaslError::NotOffered(_) => ResultCode::AUTH_METHOD_NOT_SUPPORTED,
        _ => ResultCode::PROTOCOL_ERROR,
    };
    Outcome::new(code, error.to_string())
}
