//! Binds with a token that the server sent by mail (`workers/reset_mails.rs`). Only the console sends such binds, over
//! its own connections. The session can set a new password of its user. After that it becomes anonymous.

use directory::bind::MAIL_TOKEN;
use directory::reset_by_mail::resettable;
use directory::{Outcome, Requester};
use ldap::{PolicyError, ResultCode};

use super::Session;
use super::passwords::too_many_guesses;
use super::proof::DecidedAttempt;
use super::responder::Responder;
use crate::stamp::password_time;

impl Session {
    /// Carries out a bind with a token. The bind uses up the token. The account must still permit a reset by mail. The
    /// account's password and mail addresses must be unchanged since the mail was sent.
    pub(super) fn mail_token(&mut self, to: Responder<'_>, token: &[u8]) {
        let guess = self.guess_key(&Requester::Anonymous, MAIL_TOKEN);
        if guess.is_some_and(|key| to.context.shared.guesses.are_too_many(&key, to.context.now)) {
            return self.answer(to, &too_many_guesses());
        }
        let now = to.context.now;
        let mails = to.context.shared.reset_mails.as_ref();
        let redeemed = mails.and_then(|mails| mails.redeem(token, now));
        // A read error is logged. In that case the older snapshot is used, and the later change of the password is
        // checked again.
        let _ = to.context.catch_up();
        let found = redeemed.map(|(id, sent)| {
            let found = resettable(&to.context.snapshot, id, password_time())?;
            Ok(found.and_then(|(requester, fingerprint)| (fingerprint == sent).then_some(requester)))
        });
        let requester = match found {
            Some(Err(outcome)) => return self.answer(to, &outcome),
            Some(Ok(requester)) => requester,
            None => None,
        };
        let decided = match requester {
            Some(requester) => DecidedAttempt {
                outcome: Outcome { policy: Some(PolicyError::ChangeAfterReset), ..Outcome::success() },
                requester: Some(requester),
                must_change: true,
                guess,
                ..DecidedAttempt::default()
            },
            None => DecidedAttempt {
                outcome: Outcome::code(ResultCode::INVALID_CREDENTIALS),
                requester: Some(Requester::Anonymous),
                guess,
                ..DecidedAttempt::default()
            },
        };
        self.conclude(to, decided);
    }
}
