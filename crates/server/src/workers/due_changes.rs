//! Changes that become due with time: the removal of expired values, dynamic entries and deleted entries, and the next
//! steps of automatic memberships and of converting values to links.
//!
//! Each node checks whether a change is due, and then requests due changes from the writer. In a cluster the writer may
//! be another node. Only the writer's clock decides which changes are due.

use std::sync::Arc;

use directory::joins::{self, PendingJoin};
use directory::linking::{self, LinkProgress};
use directory::virtual_entries::MAKE_DUE_CHANGES;
use directory::{Directory, OperationError, Requester, deleted, dynamic_entries, value_ends};
use ldap::{Controls, ExtendedRequest, Message, MessageId, Request};

use crate::stamp::now_micros;
use crate::workers::writer::{WriteQueue, WriterWork};

/// Requests the due changes from the writer, if there are any.
pub(crate) fn request_due(queue: &Arc<WriteQueue>, directory: &Arc<Directory>, anonymous: &Arc<Requester>) {
    match is_any_due(directory) {
        Ok(false) => {}
        Ok(true) => {
            let request = ExtendedRequest { name: MAKE_DUE_CHANGES, value: None };
            let mut message = Vec::new();
            let request = Request::Extended(request);
            Message { id: MessageId(1), request, controls: Controls::default() }.encode(&mut message);
            // If the queue is full, the request is dropped. The next check repeats it.
            let change = WriterWork::Message(message.into());
            queue.submit(&mut queue.own_request(change, anonymous).into_iter().collect());
        }
        Err(error) => tracing::error!(%error, "changes that are due are not made"),
    }
}

fn is_any_due(directory: &Arc<Directory>) -> Result<bool, OperationError> {
    let (snapshot, now) = (directory.snapshot()?, now_micros());
    Ok(value_ends::is_one_ended(snapshot.state(), now)?
        || dynamic_entries::is_one_expired(snapshot.state(), now)?
        || joins::is_one_due(snapshot.state())?
        || linking::is_pending(snapshot.state())
        || deleted::is_one_expired(snapshot.state(), now)?)
}

/// Logger of the progress of `auto_members` rules whose existing entries are joining their group.
#[derive(Debug, Default)]
pub(crate) struct JoinWatch {
    logged: Vec<PendingJoin>,
}

impl JoinWatch {
    /// Logs the rules that have begun, continued, ended or been refused since the last call.
    pub(crate) fn log_changes(&mut self, directory: &Arc<Directory>) {
        match directory.snapshot().map_err(OperationError::from).and_then(|now| joins::pending(now.state())) {
            Ok(pending) => self.changed(pending).iter().for_each(|line| tracing::info!("{line}")),
            Err(error) => tracing::error!(%error, "the progress of automatic memberships cannot be read"),
        }
    }

    fn changed(&mut self, pending: Vec<PendingJoin>) -> Vec<String> {
        let mut lines = Vec::new();
        for join in pending.iter().filter(|join| !self.logged.contains(join)) {
            let PendingJoin { rule, after, joined, refusal } = join;
            lines.push(match refusal.is_empty() {
                true => format!("auto_members {rule:?}: {joined} entries joined, up to entry {}", after.0),
                false => format!("auto_members {rule:?}: no more entries join: {refusal}"),
            });
        }
        let is_left = |rule: &str| pending.iter().any(|join| join.rule == rule);
        let ended = self.logged.iter().filter(|join| !is_left(&join.rule));
        lines.extend(
            ended.map(|join| format!("auto_members {:?}: all existing entries are examined", join.rule)),
        );
        self.logged = pending;
        lines
    }
}

/// Logger of the progress of converting values to links.
#[derive(Debug, Default)]
pub(crate) struct LinkWatch {
    logged: LinkProgress,
}

impl LinkWatch {
    /// Logs the progress since the last call, or the end of the conversion.
    pub(crate) fn log_changes(&mut self, directory: &Arc<Directory>) {
        match directory
            .snapshot()
            .map_err(OperationError::from)
            .and_then(|now| linking::progress(now.state()))
        {
            Ok(progress) => self.changed(progress).iter().for_each(|line| tracing::info!("{line}")),
            Err(error) => tracing::error!(%error, "the progress of values that become links cannot be read"),
        }
    }

    fn changed(&mut self, progress: LinkProgress) -> Option<String> {
        let LinkProgress { after, values, dangling, .. } = progress;
        let counts = format!("{values} values have become links, {dangling} of them name no entry");
        let line = match (self.logged.is_pending(), progress.is_pending()) {
            _ if self.logged == progress => None,
            (_, true) => Some(format!("X-LINK: {counts}, up to entry {}", after.0)),
            (true, false) => Some(format!("X-LINK: {counts}; no plain values are left")),
            (false, false) => None,
        };
        self.logged = progress;
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finished_conversion_is_not_logged_at_a_start() {
        let (mut watch, mut ended) = (LinkWatch::default(), LinkProgress::default());
        ended.values = 3;
        assert_eq!(watch.changed(ended), None);
    }

    #[test]
    fn each_step_is_logged_once() {
        let mut watch = JoinWatch::default();
        let waiting = PendingJoin::new("a: x".to_owned());
        let refused = PendingJoin { refusal: "no".to_owned(), ..waiting.clone() };
        assert_eq!(
            watch.changed(vec![waiting.clone()]),
            ["auto_members \"a: x\": 0 entries joined, up to entry 0"]
        );
        assert!(watch.changed(vec![waiting]).is_empty());
        assert_eq!(watch.changed(vec![refused]), ["auto_members \"a: x\": no more entries join: no"]);
        assert_eq!(watch.changed(Vec::new()), ["auto_members \"a: x\": all existing entries are examined"]);
    }
}
