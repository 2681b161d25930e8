//! Conversion of the passwords in changes that are sent to another server.

use directory::HistoryChecks;
use replication::forward::Prepared;

use crate::net::mailbox::PreparedPasswords;

/// Converts passwords to the form in messages between servers.
pub(crate) fn forwarded_passwords(passwords: PreparedPasswords) -> Prepared {
    let PreparedPasswords { hashed, matched, history, scram, listed } = passwords;
    Prepared { hashed, matched, former: history.forms, former_matching: history.matching, scram, listed }
}

/// Converts passwords from the form in messages between servers.
pub(crate) fn prepared_passwords(passwords: Prepared) -> PreparedPasswords {
    let Prepared { hashed, matched, former, former_matching, scram, listed } = passwords;
    let history = HistoryChecks { forms: former, matching: former_matching };
    PreparedPasswords { hashed, matched, history, scram, listed }
}
