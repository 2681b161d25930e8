//! Replays exchanges on the server that did not answer the client, in the order in which the active server answered.
//!
//! One thread takes the exchanges in order, and passes each to the worker of its client's connection. A change waits
//! for all earlier exchanges, and all later exchanges wait for the change. So a request sees the same changes on both
//! servers, unless it overlapped a change.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::exchange::Event;
use crate::limits::WORKERS;
use crate::shared::Shared;
use crate::worker::Worker;

/// Number of exchanges that workers are replaying.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    count: Mutex<usize>,
    is_less: Condvar,
}

impl InFlight {
    fn begin(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    fn end(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.is_less.notify_all();
    }

    fn wait_for_none(&self) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        while *count > 0 {
            count = self.is_less.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Passes events to workers until the sender is dropped.
pub(crate) fn dispatch(events: &Receiver<Event>, shared: &Arc<Shared>, worker: impl Fn() -> Worker) {
    let in_flight = InFlight::default();
    std::thread::scope(|scope| {
        let workers: Vec<Sender<Event>> = (0..WORKERS)
            .map(|_| {
                let (sender, receiver) = channel();
                let (mut worker, in_flight) = (worker(), &in_flight);
                scope.spawn(move || {
                    for event in receiver {
                        let charge = charge(&event);
                        worker.replay(event);
                        shared.release(charge);
                        shared.replayed();
                        in_flight.end();
                    }
                });
                sender
            })
            .collect();
        for event in events {
            let (client, is_change) = match &event {
                Event::Exchange(exchange) => (exchange.client, exchange.kind.is_change()),
                Event::Closed(client) => (*client, false),
            };
            if is_change {
                in_flight.wait_for_none();
            }
            in_flight.begin();
            let place = usize::try_from(client).unwrap_or_default() % WORKERS;
            let sent = workers.get(place).is_some_and(|worker| worker.send(event).is_ok());
            if !sent {
                // The thread of a worker has panicked.
                shared.set_out_of_step("a thread that replays has failed");
                in_flight.end();
            }
            if is_change {
                in_flight.wait_for_none();
            }
        }
    });
}

fn charge(event: &Event) -> usize {
    match event {
        Event::Exchange(exchange) => exchange.charge,
        Event::Closed(_) => 0,
    }
}
