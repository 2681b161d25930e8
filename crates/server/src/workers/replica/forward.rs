//! The thread that sends the changes of clients to the supplier in batches and receives the answers.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use client::{ClientError, Connection};
use ldap::{MessageId, ResultCode, oids};
use replication::OperationId;
use replication::forward::{self, Reply, Request};

use crate::config::ReplicaSettings;
use crate::limits::{FORWARD_IDLE, FORWARD_PATIENCE, REPLICA_CONNECT};
use crate::workers::source_connection;
use crate::workers::writer::WriteQueue;

/// The supplier's answers to a batch of changes.
pub(super) struct Answers {
    pub(super) replies: HashMap<OperationId, Reply>,
    /// If replies are missing: the reason, and whether the changes without a reply may have been made.
    pub(super) failed: Option<(String, bool)>,
}

/// The thread. Dropping this struct ends the thread after its current batch.
pub(super) struct Forwarder {
    batches: Option<Sender<Vec<Request>>>,
    thread: Option<JoinHandle<()>>,
}

impl Forwarder {
    pub(super) fn start(
        settings: ReplicaSettings,
        queue: Arc<WriteQueue>,
        answers: Sender<Answers>,
    ) -> io::Result<Forwarder> {
        let (batches, incoming) = channel();
        let run = move || Link { settings, open: None }.run(&incoming, &queue, &answers);
        let thread = std::thread::Builder::new().name("pando-forward".to_owned()).spawn(run)?;
        Ok(Forwarder { batches: Some(batches), thread: Some(thread) })
    }

    /// Sends a batch to the thread. The thread later sends [`Answers`] with the replies to the batch.
    pub(super) fn send(&self, requests: Vec<Request>) {
        if let Some(batches) = &self.batches {
            // Sending cannot fail, because the thread ends only when the forwarder is dropped.
            let _ = batches.send(requests);
        }
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The connection to the supplier.
struct Link {
    settings: ReplicaSettings,
    open: Option<(Connection, Instant)>,
}

impl Link {
    fn run(mut self, batches: &Receiver<Vec<Request>>, queue: &WriteQueue, answers: &Sender<Answers>) {
        while let Ok(requests) = batches.recv() {
            let answered = self.exchange(&requests);
            if answered.failed.is_some() {
                self.open = None;
            }
            if answers.send(answered).is_err() {
                return;
            }
            queue.poke();
        }
    }

    fn exchange(&mut self, requests: &[Request]) -> Answers {
        let mut replies = HashMap::new();
        let connection = match self.connected() {
            Ok(connection) => connection,
            Err(error) => return Answers { replies, failed: Some((error, false)) },
        };
        let mut sent = HashMap::new();
        let mut exchanged = requests.iter().try_for_each(|request| -> Result<(), ClientError> {
            let value = forward::encode_requests(std::slice::from_ref(request));
            let operation = ldap::ExtendedRequest { name: oids::FORWARD, value: Some(&value) };
            let id = connection.send(ldap::Request::Extended(operation), ldap::Controls::NONE)?;
            sent.insert(id, request.operation);
            Ok(())
        });
        if exchanged.is_ok() {
            exchanged = sent.iter().try_for_each(|(id, operation)| {
                let reply = answer(connection, *id, *operation)?;
                replies.insert(*operation, reply);
                Ok(())
            });
        }
        let failed = exchanged.err().map(|error: ClientError| (error.to_string(), true));
        Answers { replies, failed }
    }

    /// Returns a working connection. An idle connection is probed first. If a change were sent over a broken
    /// connection, it would be unknown whether the change was made.
    fn connected(&mut self) -> Result<&mut Connection, String> {
        let open = self.open.take().and_then(|(mut connection, used)| {
            let mut answers = || {
                connection.set_timeout(REPLICA_CONNECT)?;
                connection.extended(oids::WHO_AM_I, None)
            };
            let works = used.elapsed() < FORWARD_IDLE || answers().is_ok();
            works.then_some(connection)
        });
        let mut connection = match open {
            Some(connection) => connection,
            None => {
                let ReplicaSettings { supplier, authorities, identity, .. } = &self.settings;
                let patience = REPLICA_CONNECT;
                source_connection::connect("replica", supplier, authorities.as_ref(), identity, patience)
                    .map_err(|error| error.to_string())?
            }
        };
        connection.set_timeout(FORWARD_PATIENCE).map_err(|error| error.to_string())?;
        Ok(&mut self.open.insert((connection, Instant::now())).0)
    }
}

/// Waits for the reply to a change.
fn answer(connection: &mut Connection, id: MessageId, operation: OperationId) -> Result<Reply, ClientError> {
    let reply = connection.reply(id)?;
    if reply.outcome.code != ResultCode::SUCCESS {
        // The supplier has refused the forwarded request itself.
        let result = forward::LdapResult {
            code: reply.outcome.code.0,
            diagnostic: reply.outcome.diagnostic,
            ..forward::LdapResult::default()
        };
        return Ok(Reply::Decided { position: 0, result });
    }
    let answers = reply.extended.value.as_deref().and_then(forward::decode_answers);
    let found = answers.into_iter().flatten().find(|answer| answer.operation == operation);
    found
        .map(|answer| answer.reply)
        .ok_or_else(|| ClientError::Unexpected("an answer without the change".to_owned()))
}
