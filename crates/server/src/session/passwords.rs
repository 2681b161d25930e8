//! Bind and compare operations, and the verification of their passwords.

use std::sync::Arc;

use directory::bind_names::{BindName, bind_name};
use directory::controls::RequestControls;
use directory::identity::{is_named, proxied_identity};
use directory::password::Verification;
use directory::password::policy::Account;
use directory::passwords::sets_password;
use directory::{BindMethod, OperationError, Outcome, Requester, ServerFault};
use ldap::oids::MODIFY_PASSWORD;
use ldap::{BindRequest, Message, PasswordModify, PolicyError, Request, ResultCode};

use super::own_credentials::reads_own_credentials;
use super::proof::{DecidedAttempt, PasswordUse};
use super::responder::Responder;
use super::start_tls::is_start_tls;
use super::{Proof, Session, Work, attempts};
use crate::net::mailbox::{Address, HashDone, HashResult, VerifiedPassword};
use crate::session::context::Context;
use crate::workers::guesses::{GuessKey, account_number};
use crate::workers::hash_pool::{DerivedValues, HashWork, Submitter};
use crate::workers::pass_through::PassedPassword;

/// User whose password is verified.
pub(super) struct PasswordHolder<'a> {
    /// Requester of the session after a bind with the right password; `None` for a compare.
    pub(super) requester: Option<Requester>,
    /// Authorization identity, see [`Proof`].
    pub(super) acts_as: Option<Requester>,
    /// Name that the client sent.
    pub(super) name: &'a str,
}

impl PasswordHolder<'_> {
    /// Returns the value for a compare. It has no requester, because a compare does not change the session's requester.
    fn holder_of_no_entry() -> PasswordHolder<'static> {
        PasswordHolder { requester: None, acts_as: None, name: "" }
    }
}

impl Session {
    pub(super) fn compare(
        &mut self,
        to: Responder<'_>,
        request: &ldap::CompareRequest<'_>,
        controls: &RequestControls,
    ) {
        use directory::compare::{CompareOutcome, compare};
        let request_context = self.read_context(to.context, request.entry, controls);
        match compare(&to.context.snapshot, &request_context, request, controls) {
            CompareOutcome::Done(outcome) => self.answer(to, &outcome),
            CompareOutcome::Verify { verification, account } => {
                self.verify(to, (verification, account), request.value, PasswordHolder::holder_of_no_entry());
            }
        }
    }

    pub(super) fn bind(&mut self, to: Responder<'_>, request: &ldap::BindRequest<'_>) {
        self.set_requester(to.context, Arc::clone(&to.context.anonymous));
        self.bind_method = match request.authentication {
            ldap::Authentication::Simple(_) => BindMethod::Simple,
            ldap::Authentication::Sasl { mechanism, .. } => BindMethod::of_mechanism(mechanism),
            ldap::Authentication::Unrecognized(_) => BindMethod::None,
        };
        if request.version != 3 {
            let text = format!("LDAP version {} is not supported, only 3", request.version);
            return self.answer(to, &Outcome::new(ResultCode::PROTOCOL_ERROR, text));
        }
        let asserted = match request.authentication {
            ldap::Authentication::Simple(password) => password,
            ldap::Authentication::Sasl { .. } | ldap::Authentication::Unrecognized(_) => {
                return self.sasl_bind(to, request);
            }
        };
        self.sasl = None;
        self.simple_bind(to, request, asserted);
    }

    /// Finds the user of a simple bind, and verifies the password.
    pub(super) fn simple_bind(
        &mut self,
        mut to: Responder<'_>,
        request: &ldap::BindRequest<'_>,
        asserted: &[u8],
    ) {
        use directory::bind::{BindOutcome, bind, bind_unknown};
        let listener = || to.context.settings.listener_name(self.listener);
        let found = match bind_name(&to.context.snapshot, request.name, listener) {
            Ok(found) => found,
            Err(outcome) => return self.answer(to, &outcome),
        };
        Session::name_found(&mut to.head, &found, request.name);
        let (decided, name) = match &found {
            BindName::AsGiven => (bind(&to.context.snapshot, request), request.name),
            BindName::Entry(name) => (bind(&to.context.snapshot, &BindRequest { name, ..*request }), &**name),
            BindName::Nobody => (bind_unknown(&to.context.snapshot, asserted), request.name),
        };
        match decided {
            BindOutcome::Done(outcome, requester) => self.bound(to, &outcome, requester),
            BindOutcome::Verify { verification, requester, account } => {
                let whose = PasswordHolder { requester: Some(requester), acts_as: None, name };
                self.verify(to, (verification, account), asserted, whose);
            }
        }
    }

    /// Ends a bind. The session takes `requester`. However, the session becomes anonymous if the connection limit of
    /// the `[[limit]]` table for the requester is reached.
    pub(super) fn bound(&mut self, to: Responder<'_>, outcome: &Outcome, requester: Requester) {
        if to.head.verifies_credentials {
            return self.credentials_verified(to, outcome);
        }
        let requester = match requester {
            Requester::Anonymous => Arc::clone(&to.context.anonymous),
            other => Arc::new(other),
        };
        self.set_requester(to.context, requester);
        match self.take_place(to.context) {
            Err(why) if outcome.code == ResultCode::SUCCESS => {
                self.set_requester(to.context, Arc::clone(&to.context.anonymous));
                let outcome = Outcome::new(ResultCode::ADMIN_LIMIT_EXCEEDED, why);
                self.answer(to, &outcome);
            }
            // After a failed bind the connection keeps its place under the connection limit.
            Ok(()) | Err(_) => self.answer(to, outcome),
        }
    }

    /// Verifies a password, at once if that is quick, otherwise on the hash pool. Answers busy if the pool is full. A
    /// wrong password always goes to the pool, whatever hash is stored. Therefore neither the time nor a busy answer
    /// reveals whether a name exists (RFC 4513 section 6.3).
    pub(super) fn verify(
        &mut self,
        to: Responder<'_>,
        (mut verification, account): (Verification, Option<Box<Account>>),
        asserted: &[u8],
        PasswordHolder { requester, acts_as, name }: PasswordHolder<'_>,
    ) {
        let account_number = match &requester {
            Some(proven) => account_number(proven, name),
            None => account_number(&self.requester, self.requester.dn()),
        };
        let guess = requester.as_ref().and_then(|requester| self.guess_key(requester, name));
        if guess.is_some_and(|key| to.context.shared.guesses.are_too_many(&key, to.context.now)) {
            return self.answer(to, &too_many_guesses());
        }
        let app = account.as_deref().and_then(|account| attempts::begin_app(to.context, account, asserted));
        if app.is_some() {
            let proof = Proof { requester, acts_as, attempt: app, guess };
            return self.verified(to, proof, true.into());
        }
        let (asserted, second) = attempts::without_code(account.as_deref(), asserted);
        let attempt = attempts::begin(to.context, account, &mut verification, second);
        let stronger = attempt.as_ref().and_then(|attempt| attempt.rehash());
        let stronger = stronger.filter(|scheme| verification.has_weaker(*scheme));
        let keys = attempt.as_ref().map(|attempt| attempt.missing_keys()).unwrap_or_default();
        let wanted = DerivedValues { stronger, keys };
        let proof = Proof { requester, acts_as, attempt, guess };
        if let (Some(pool), Some((stored, name))) =
            (&to.context.shared.pass_through, verification.delegation())
        {
            let job = PassedPassword {
                address: self.address(to.context),
                stored: stored.to_vec(),
                name: name.to_owned(),
                asserted: asserted.to_vec().into(),
                kept_as: proof.attempt.as_ref().and_then(|attempt| attempt.rehash()),
            };
            if !pool.submit(job) {
                return self.answer(to, &hash_pool_busy());
            }
            return self.keep(to.head, Work::Verify(proof), asserted.len(), None);
        }
        if wanted.is_nothing()
            && let Some(is_right) = verification.run_quick(asserted)
        {
            return self.verified(to, proof, is_right.into());
        }
        let arrival = (self.source, to.context.now);
        let mut verified_key = None;
        // The cache cannot be used if a right password must be hashed again, because that requires the clear password.
        if let Some(lifetime) = to.context.settings.bind_cache.filter(|_| wanted.is_nothing()) {
            match to.context.shared.hash_pool.is_verified(&verification, asserted, lifetime, arrival) {
                Ok(()) => return self.verified(to, proof, true.into()),
                Err(key) => verified_key = key.map(|key| (key, lifetime)),
            }
        }
        let bytes = asserted.len() + verification.stored_bytes();
        let (address, submitter) = (self.address(to.context), self.submitter(to.context, account_number));
        let job = HashWork::Verify { verification, asserted: asserted.to_vec().into(), wanted };
        match to.context.shared.hash_pool.submit(address, job, verified_key, submitter) {
            Some(claim) => self.keep(to.head, Work::Verify(proof), bytes, Some(claim)),
            None => self.answer(to, &hash_pool_busy()),
        }
    }

    /// Answers a bind or compare after the verification of its password.
    pub(super) fn verified(
        &mut self,
        to: Responder<'_>,
        Proof { requester, acts_as, attempt, guess }: Proof,
        verified: VerifiedPassword,
    ) {
        let is_right = verified.is_right;
        let decided = match (attempt, requester) {
            (Some(attempt), requester) => {
                let password_use = match requester {
                    Some(own) => PasswordUse::Bind(acts_as.unwrap_or(own)),
                    None => PasswordUse::Compare,
                };
                return self.end_attempt(to, *attempt, verified, (password_use, guess));
            }
            (None, Some(requester)) => {
                let (outcome, requester) = directory::bind::bind_result(is_right, requester);
                let requester = match acts_as {
                    Some(other) if outcome.code == ResultCode::SUCCESS => other,
                    _ => requester,
                };
                DecidedAttempt { outcome, requester: Some(requester), guess, ..DecidedAttempt::default() }
            }
            (None, None) => {
                let outcome = directory::compare::compare_result(is_right);
                DecidedAttempt { outcome, ..DecidedAttempt::default() }
            }
        };
        self.conclude(to, decided);
    }

    /// Returns the submitter of a hash pool job. `identity` is the number of the account whose password is hashed.
    pub(super) fn submitter(&self, context: &Context, identity: u64) -> Submitter {
        let is_unshared = matches!(*self.requester, Requester::Administrator { .. });
        Submitter { source: self.source, identity, is_unshared, now: context.now }
    }

    /// Returns the key under which wrong passwords for `name` are counted; `None` if the source is trusted.
    pub(super) fn guess_key(&self, requester: &Requester, name: &str) -> Option<GuessKey> {
        (!self.is_trusted).then(|| GuessKey::of(requester, name, self.source))
    }

    /// Handles the result of a hash pool job.
    pub(crate) fn hashed(&mut self, context: &mut Context, done: HashDone, out: &mut Vec<u8>) {
        let HashDone { address: Address { ticket, .. }, result, stages } = done;
        self.note_stages(ticket, stages.iter().flatten());
        if self.is_deferred(ticket) {
            return self.deferred_hashed(context, ticket, result, out);
        }
        let Some((head, work)) = self.take(context, ticket) else { return };
        let to = Responder { context, head, out };
        let proof = match work {
            Work::Verify(proof) => proof,
            Work::Kerberos => return self.continue_kerberos(to, result),
            _ => return,
        };
        match result {
            HashResult::Verified(verified) => self.verified(to, proof, verified),
            // The answer is not invalidCredentials, because the password was not verified and may be right.
            HashResult::Busy => self.answer(to, &hash_pool_busy()),
            HashResult::Unreachable => self.answer(to, &unreachable()),
            HashResult::Failed(fault) => self.answer(to, &could_not_verify(fault)),
            HashResult::Prepared(_) | HashResult::Kerberos(_) => {
                self.answer(to, &could_not_verify(ServerFault::Defect));
            }
        }
    }

    /// Returns the reason to refuse a request because the user must change the password first
    /// (draft-behera-ldap-password-policy sections 8.1.2.2 and 8.3). The change must be of the password that the bind
    /// has proved. The password of another user would not be a reason to permit other requests.
    pub(super) fn refuse_until_changed(&self, context: &Context, message: &Message<'_>) -> Option<Outcome> {
        if !self.must_change {
            return None;
        }
        let request = &message.request;
        let must_change = || Some(OperationError::from(PolicyError::ChangeAfterReset).into());
        match request {
            Request::Bind(_) | Request::Unbind | Request::Abandon(_) => None,
            _ if !matches!(proxied_identity(&message.controls), Ok(None)) => must_change(),
            Request::Extended(modify) if self.bind_method == BindMethod::MailToken => {
                let is_own_password = modify.name == MODIFY_PASSWORD
                    && PasswordModify::decode(modify.value).is_some_and(|of| of.user_identity.is_none());
                let is_allowed = is_own_password || reads_own_credentials(request);
                if is_allowed { None } else { must_change() }
            }
            Request::Modify(_) if self.bind_method == BindMethod::MailToken => must_change(),
            Request::Modify(modify)
                if sets_password(request, &context.snapshot) && self.has_proved(context, modify.object) =>
            {
                None
            }
            Request::Extended(modify)
                if modify.name == MODIFY_PASSWORD
                    && self
                        .password_to_change(context, modify.value)
                        .is_some_and(|object| self.has_proved(context, &object)) =>
            {
                None
            }
            // The second request reads the rules that the new password must meet.
            request if is_start_tls(request) || reads_own_credentials(request) => None,
            _ => must_change(),
        }
    }

    /// Returns true if the last bind has proved the password of the entry with this name.
    fn has_proved(&self, context: &Context, name: &str) -> bool {
        let Some(proof) = self.proved.as_deref() else { return false };
        let user = Requester::User { id: proof.id, dn: String::new() };
        is_named(&context.snapshot, &user, name, false)
    }
}

fn unreachable() -> Outcome {
    let text = "the server that verifies this password cannot be asked now; try again later";
    Outcome::new(ResultCode::UNAVAILABLE, text)
}

fn could_not_verify(fault: ServerFault) -> Outcome {
    Outcome::new(ResultCode::OTHER, "the password could not be verified").by_fault(fault)
}

pub(super) fn too_many_guesses() -> Outcome {
    Outcome::new(
        ResultCode::BUSY,
        "too many wrong passwords for this name from your network; try again later",
    )
}

pub(super) fn hash_pool_busy() -> Outcome {
    Outcome::new(ResultCode::BUSY, "too many passwords are being hashed; try again later")
}
