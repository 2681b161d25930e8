//! The answer to the Password Modify extended operation (RFC 3062 section 2).

use directory::Outcome;
use ldap::{ResultCode, encode_generated_password};

/// Content of the response to a request that may generate a password.
#[derive(Debug)]
pub(super) struct PasswordAnswer {
    /// Password that the server generated, if it did.
    generated: Option<String>,
    /// Whether the request contained the old password.
    has_old: bool,
}

impl PasswordAnswer {
    pub(super) fn new(generated: Option<String>, has_old: bool) -> PasswordAnswer {
        PasswordAnswer { generated, has_old }
    }

    /// Returns the outcome and the value of the response for the writer's `outcome`.
    pub(super) fn finish(&self, outcome: &Outcome) -> (Outcome, Option<Vec<u8>>) {
        let is_success = outcome.code == ResultCode::SUCCESS;
        if self.has_old && outcome.code == ResultCode::NO_SUCH_ATTRIBUTE {
            return (Outcome::new(ResultCode::INVALID_CREDENTIALS, "the old password is wrong"), None);
        }
        let generated = self.generated.as_deref().filter(|_| is_success);
        (outcome.clone(), generated.map(|password| encode_generated_password(password.as_bytes())))
    }
}
