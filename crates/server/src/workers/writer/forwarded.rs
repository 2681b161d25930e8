//! Passwords of changes that are decided on another server.

use directory::HistoryChecks;
use replication::forward::Prepared;

use crate::net::mailbox::PreparedPasswords;

/// Returns the passwords as messages to the other server have them.
pub(crate) fn forwarded_passwords(passwords: PreparedPasswords) -> Prepared {
    let PreparedPasswords { hashed, matched, history, scram, listed } = passwords;
    Prepared { hashed, matched, former: history.forms, former_matching: history.matching, scram, listed }
}

/// Returns the passwords of a message.
pub(crate) fn prepared_passwords(passwords: Prepared) -> PreparedPasswords {
    let Prepared { hashed, matched, former, former_matching, scram, listed } = passwords;
    let history = HistoryChecks { forms: former, matching: former_matching };
    PreparedPasswords { hashed, matched, history, scram, listed }
}
