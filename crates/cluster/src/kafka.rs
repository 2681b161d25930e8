//! The shared log of a node on Kafka.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use kafka_log::{Appender, Election, Event, LogError, Reader, Settings, Sink};

use crate::budget::Budget;
use crate::environment::Log;
use crate::event::{LogPlace, NodeEvent};
use crate::limits::{CHANGE_PATIENCE, RETRY};
use crate::tasks::Tasks;

/// The shared log of a node. Its events go to the node's channel.
///
/// Dropping the log closes the [`Budget`], so that a reader that waits for room ends. The drop then waits for all
/// threads that have a Kafka client.
pub(crate) struct KafkaLog {
    settings: Settings,
    sender: Sender<NodeEvent>,
    tasks: Tasks,
    /// Limit on the messages that the present reader has read and the node has not applied yet.
    budget: Arc<Budget>,
    clients: Option<Clients>,
}

/// Open clients of Kafka.
struct Clients {
    reader: Reader,
    appender: Appender,
    _election: Election,
}

impl KafkaLog {
    pub(crate) fn new(settings: Settings, sender: Sender<NodeEvent>) -> KafkaLog {
        KafkaLog { settings, sender, tasks: Tasks::default(), budget: Arc::default(), clients: None }
    }
}

impl Log for KafkaLog {
    fn find(&mut self, number: u64, offset: u64, delay: Duration) -> io::Result<()> {
        let (settings, sender) = (self.settings.clone(), self.sender.clone());
        self.tasks.run("pando-place", move |is_ending: &AtomicBool| {
            std::thread::park_timeout(delay);
            while !is_ending.load(Ordering::Relaxed) {
                let found = kafka_log::fetch_unless(&settings, offset, CHANGE_PATIENCE, is_ending);
                let is_found = found.is_ok();
                let found = found.map(|(message, start, end)| LogPlace { message, start, end });
                let event = NodeEvent::LogPlace(number, found.map_err(|error| error.to_string()));
                if sender.send(event).is_err() || is_found {
                    return;
                }
                std::thread::park_timeout(RETRY);
            }
        })
    }

    fn find_address(&mut self, epoch: u64) -> io::Result<()> {
        let (settings, sender) = (self.settings.clone(), self.sender.clone());
        self.tasks.run("pando-address", move |is_ending: &AtomicBool| {
            let found = kafka_log::fetch_unless(&settings, epoch, CHANGE_PATIENCE, is_ending);
            let message = found.ok().and_then(|(message, ..)| message);
            let address = message.and_then(|message| String::from_utf8(message.key).ok());
            let _ = sender.send(NodeEvent::WriterAddress(epoch, address));
        })
    }

    fn open(&mut self, reading: u64, next: u64) -> Result<(), LogError> {
        self.budget.close();
        self.budget = Arc::default();
        let (sender, budget) = (self.sender.clone(), Arc::clone(&self.budget));
        let sink: Sink = Arc::new(move |event| {
            if let Event::Message(message) = &event
                && !budget.take(message.bytes.len())
            {
                return;
            }
            let _ = sender.send(NodeEvent::Log(reading, event));
        });
        let reader = Reader::start(&self.settings, next, Arc::clone(&sink))?;
        match &mut self.clients {
            Some(clients) => clients.reader = reader,
            None => {
                let appender = Appender::start(&self.settings, Arc::clone(&sink))?;
                let election = Election::start(&self.settings, sink)?;
                self.clients = Some(Clients { reader, appender, _election: election });
            }
        }
        Ok(())
    }

    fn is_open(&self) -> bool {
        self.clients.is_some()
    }

    fn close(&mut self) {
        self.budget.close();
        self.clients = None;
    }

    fn append(&mut self, ticket: usize, key: &[u8], message: &[u8]) {
        if let Some(clients) = &self.clients {
            clients.appender.append(ticket, key, message);
        }
    }

    fn release(&mut self, bytes: usize) {
        self.budget.release(bytes);
    }

    fn delete_before(&mut self, offset: u64) -> io::Result<()> {
        let (settings, sender) = (self.settings.clone(), self.sender.clone());
        self.tasks.run("pando-trim", move |_: &AtomicBool| {
            let trimmed = kafka_log::delete_before(&settings, offset).map_err(|error| error.to_string());
            let _ = sender.send(NodeEvent::Trimmed(trimmed));
        })
    }
}

impl Drop for KafkaLog {
    /// Releases a reader that waits for the budget, so that its thread ends.
    fn drop(&mut self) {
        self.budget.close();
    }
}
