//! Changes that time makes due: values and dynamic entries whose end has come, deleted entries that were kept for long
//! enough.
//!
//! Each node looks whether any are due, and then asks the writer, in a cluster the cluster's, to make them. Only the
//! writer's clock decides.

use std::sync::Arc;

use directory::virtual_entries::MAKE_DUE_CHANGES;
use directory::{Directory, OperationError, Requester, deleted, dynamic_entries, value_ends};
use ldap::{Controls, ExtendedRequest, Message, MessageId, Request};

use crate::stamp::now_micros;
use crate::workers::writer::{ToWrite, WriteQueue};

/// Asks the writer for the changes that are due, if there are any.
pub(crate) fn look(queue: &Arc<WriteQueue>, directory: &Arc<Directory>, anonymous: &Arc<Requester>) {
    match is_any_due(directory) {
        Ok(false) => {}
        Ok(true) => {
            let request = ExtendedRequest { name: MAKE_DUE_CHANGES, value: None };
            let mut message = Vec::new();
            let request = Request::Extended(request);
            Message { id: MessageId(1), request, controls: Controls::default() }.encode(&mut message);
            // A full queue has room later.
            let change = ToWrite::Message(message.into());
            queue.submit(&mut queue.own_request(change, anonymous).into_iter().collect());
        }
        Err(error) => tracing::error!(%error, "changes that are due are not made"),
    }
}

fn is_any_due(directory: &Arc<Directory>) -> Result<bool, OperationError> {
    let (snapshot, now) = (directory.snapshot()?, now_micros());
    Ok(value_ends::is_one_ended(snapshot.state(), now)?
        || dynamic_entries::is_one_expired(snapshot.state(), now)?
        || deleted::is_one_expired(snapshot.state(), now)?)
}
