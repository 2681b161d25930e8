//! Execution of a transaction (RFC 5805): either all of its changes are made in order, or none.

use directory::origin::Origin;
use directory::{ClientLink, Outcome, Requester, WriteBatch};
use ldap::{Controls, DecodeLimits, EndTransactionResult, Message, MessageId, ResultCode};
use zeroize::Zeroizing;

use super::{Answer, ChangeContext, execute_decoded};
use crate::limits::TRANSACTION_COPIES_BYTES_MAX;
use crate::net::mailbox::PreparedPasswords;
use crate::stamp::Random;

/// A change of a transaction. It does not implement `Debug`, because it may contain passwords.
pub(crate) struct TransactionChange {
    /// The complete message, as received.
    pub(crate) message: Zeroizing<Vec<u8>>,
    /// Clear passwords in the change, with their stored values.
    pub(crate) passwords: PreparedPasswords,
    /// Origin of the request, if records contain it.
    pub(crate) origin: Option<Box<Origin>>,
}

/// Results of the changes made so far.
#[derive(Default)]
struct ChangeResults {
    /// Response controls of the changes, each with the message id of its change.
    controls: Vec<(MessageId, Vec<u8>)>,
    control_bytes: usize,
    positions: Vec<Option<u64>>,
}

/// Makes all changes of a transaction, or none of them. The answer contains the value of the End Transaction response.
pub(crate) fn execute_transaction<'c>(
    batch: &mut WriteBatch<'_>,
    requester: &Requester,
    changes: impl Iterator<Item = (&'c [u8], PreparedPasswords, Option<&'c Origin>)>,
    (link, keeps_old_values): (Option<ClientLink>, bool),
    random: &mut Random,
) -> Answer {
    let results = batch.transaction(|batch| {
        let mut results = ChangeResults::default();
        for (message, passwords, origin) in changes {
            let given = ChangeContext { passwords, link, origin, keeps_old_values };
            make(batch, requester, message, given, random, &mut results)?;
        }
        Ok(results)
    });
    match results {
        Ok(ChangeResults { controls, positions, .. }) => {
            let controls =
                controls.iter().filter_map(|(id, bytes)| Some((*id, Controls::from_bytes(bytes)?)));
            let result = EndTransactionResult { failed: None, controls: controls.collect() };
            Answer { positions, ..Answer::new(Outcome::success(), result.encode()) }
        }
        Err((failed, outcome)) => {
            let result = EndTransactionResult { failed, controls: Vec::new() };
            Answer::new(outcome, result.encode())
        }
    }
}

/// Makes one change of a transaction.
///
/// # Errors
/// The change was refused. The error contains the change's message id.
fn make(
    batch: &mut WriteBatch<'_>,
    requester: &Requester,
    message: &[u8],
    given: ChangeContext<'_>,
    random: &mut Random,
    results: &mut ChangeResults,
) -> Result<(), (Option<MessageId>, Outcome)> {
    // The event loop has already decoded these octets with the limits in the settings.
    let limits = DecodeLimits { message_size_max: usize::MAX, ..DecodeLimits::AUTHENTICATED };
    let message = Message::decode(message, &limits)
        .map_err(|error| (error.id, Outcome::new(ResultCode::PROTOCOL_ERROR, error.to_string())))?;
    let before = given.origin.is_some().then(|| batch.position().ok()).flatten();
    let answer = execute_decoded(batch, requester, &message, given, random);
    if answer.outcome.code != ResultCode::SUCCESS {
        return Err((Some(message.id), answer.outcome));
    }
    results
        .positions
        .push(batch.position().ok().filter(|&after| before.is_some_and(|before| before != after)));
    if let Some(controls) = answer.value {
        results.control_bytes += controls.len();
        if results.control_bytes > TRANSACTION_COPIES_BYTES_MAX {
            let text = format!(
                "the copies of entries that the transaction requests have more than {TRANSACTION_COPIES_BYTES_MAX} \
                 octets: request fewer attributes"
            );
            return Err((Some(message.id), Outcome::new(ResultCode::ADMIN_LIMIT_EXCEEDED, text)));
        }
        results.controls.push((message.id, controls));
    }
    Ok(())
}
