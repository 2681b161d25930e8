//! Environment of a simulated node. It implements the traits of `environment` and `host`; each call becomes an
//! [`Action`].

use std::io;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use directory::account_update::AccountUpdate;
use directory::controls::{ControlContext, RequestControls};
use directory::rows::EntryId;
use directory::{ClientLink, Outcome, Requester, Stamp, WriteBatch, Writer};
use kafka_log::LogError;
use ldap::{DecodeLimits, Message, Request, ResultCode};
use replication::NodeId;
use replication::forward::Request as ForwardRequest;

use crate::environment::{Log, Peers, Runtime, Work};
use crate::event::NodeEvent;
use crate::host::{Answer, DecidedForOther, Host, MessageContext, TransactionChange};

/// Microseconds since 1970 at the start of a run.
const EPOCH_MICROS: u64 = 1_700_000_000_000_000;

/// Time of a run, and the requests of nodes that the simulated world has not handled yet.
pub(super) struct Shared {
    start: Instant,
    state: Mutex<(Duration, Vec<(usize, Action)>)>,
}

/// Request of a node to the simulated world.
pub(super) enum Action {
    Find { number: u64, offset: u64, delay: Duration },
    FindAddress { epoch: u64 },
    Open { reading: u64, next: u64 },
    Close,
    Append { ticket: usize, key: Vec<u8>, bytes: Vec<u8> },
    Send { number: u64, to: NodeId, requests: Vec<ForwardRequest> },
    FetchKeys { sources: Vec<NodeId>, number: u32 },
}

impl Shared {
    pub(super) fn new() -> Arc<Shared> {
        Arc::new(Shared { start: Instant::now(), state: Mutex::default() })
    }

    /// Returns the time since the start of the run.
    pub(super) fn time(&self) -> Duration {
        self.state.lock().unwrap().0
    }

    pub(super) fn set_time(&self, time: Duration) {
        self.state.lock().unwrap().0 = time;
    }

    pub(super) fn now(&self) -> Instant {
        self.start + self.time()
    }

    pub(super) fn now_micros(&self) -> u64 {
        EPOCH_MICROS + self.time().as_micros() as u64
    }

    /// Takes the requests of nodes, in order.
    pub(super) fn actions(&self) -> Vec<(usize, Action)> {
        std::mem::take(&mut self.state.lock().unwrap().1)
    }
}

/// Message from a node's thread to the simulated world: the thread waits until this time or until the next event.
pub(super) struct WaitUntil(pub(super) Duration);

/// Panic payload that ends a node's thread, as if its process were killed.
pub(super) struct Killed;

/// Access of one process of a node to the simulated world: clock and requests.
#[derive(Clone)]
pub(super) struct ProcessEnvironment {
    pub(super) shared: Arc<Shared>,
    pub(super) node: usize,
}

impl ProcessEnvironment {
    fn record(&self, action: Action) {
        self.shared.state.lock().unwrap().1.push((self.node, action));
    }
}

/// Time and events of a node.
pub(super) struct SimulatedRuntime {
    pub(super) outside: ProcessEnvironment,
    pub(super) events: Receiver<NodeEvent>,
    pub(super) sender: Sender<NodeEvent>,
    /// Receives a message from the simulated world when the thread may run. If the sender is dropped, the thread ends
    /// as if its process were killed.
    pub(super) control: Receiver<()>,
    pub(super) waits: Sender<WaitUntil>,
}

impl Runtime for SimulatedRuntime {
    fn now(&self) -> Instant {
        self.outside.shared.now()
    }

    fn now_micros(&self) -> u64 {
        self.outside.shared.now_micros()
    }

    fn next_event(&mut self, patience: Duration) -> Option<NodeEvent> {
        if let Ok(event) = self.events.try_recv() {
            return Some(event);
        }
        let _ = self.waits.send(WaitUntil(self.outside.shared.time() + patience));
        if self.control.recv().is_err() {
            std::panic::resume_unwind(Box::new(Killed));
        }
        self.events.try_recv().ok()
    }

    fn ready_event(&mut self) -> Option<NodeEvent> {
        self.events.try_recv().ok()
    }

    fn sender(&self) -> Sender<NodeEvent> {
        self.sender.clone()
    }

    /// Runs the work immediately. The resulting event waits in the channel.
    fn spawn(&mut self, _: &str, work: Work) -> io::Result<()> {
        std::thread::scope(|scope| scope.spawn(work).join()).map_err(|_| io::Error::other("a defect"))
    }
}

/// The log, as a node uses it.
pub(super) struct SimulatedLog {
    pub(super) outside: ProcessEnvironment,
    pub(super) is_open: bool,
}

impl Log for SimulatedLog {
    fn find(&mut self, number: u64, offset: u64, delay: Duration) -> io::Result<()> {
        self.outside.record(Action::Find { number, offset, delay });
        Ok(())
    }

    fn find_address(&mut self, epoch: u64) -> io::Result<()> {
        self.outside.record(Action::FindAddress { epoch });
        Ok(())
    }

    fn open(&mut self, reading: u64, next: u64) -> Result<(), LogError> {
        self.is_open = true;
        self.outside.record(Action::Open { reading, next });
        Ok(())
    }

    fn is_open(&self) -> bool {
        self.is_open
    }

    fn close(&mut self) {
        self.is_open = false;
        self.outside.record(Action::Close);
    }

    fn append(&mut self, ticket: usize, key: &[u8], message: &[u8]) {
        if self.is_open {
            self.outside.record(Action::Append { ticket, key: key.to_vec(), bytes: message.to_vec() });
        }
    }

    fn release(&mut self, _: usize) {}

    fn delete_before(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }
}

/// Access of a node to other nodes.
pub(super) struct SimulatedPeers(pub(super) ProcessEnvironment);

impl Peers for SimulatedPeers {
    fn send(&mut self, number: u64, to: NodeId, _: &str, requests: Vec<ForwardRequest>) {
        self.0.record(Action::Send { number, to, requests });
    }

    fn forget(&mut self) {}

    fn fetch_keys(&mut self, sources: Vec<(NodeId, String)>, number: u32) -> io::Result<()> {
        let sources = sources.into_iter().map(|(node, _)| node).collect();
        self.0.record(Action::FetchKeys { sources, number });
        Ok(())
    }
}

/// Host of a simulated node, without client connections. The simulated world passes changes directly to the node.
pub(super) struct SimulatedHost {
    pub(super) outside: ProcessEnvironment,
    pub(super) rng: fastrand::Rng,
}

impl Host for SimulatedHost {
    fn execute(
        &mut self,
        batch: &mut WriteBatch<'_>,
        requester: &Requester,
        message: &[u8],
        _: MessageContext<'_>,
    ) -> Answer {
        let message = Message::decode(message, &DecodeLimits::AUTHENTICATED).unwrap();
        let controls =
            RequestControls::read(&message.controls, ControlContext::of(&message.request)).unwrap();
        let now_micros = self.outside.shared.now_micros();
        let stamp = Stamp { now_micros, uuid: self.rng.u128(..).to_be_bytes(), ..Stamp::default() };
        let context = requester.context();
        if let Request::Extended(extended) = &message.request
            && let Some((outcome, value)) = batch.execute_extended(&context, extended, &stamp)
        {
            return Answer { value, ..outcome.into() };
        }
        batch.execute(&context, &message.request, &controls, &stamp).into()
    }

    fn execute_transaction(
        &mut self,
        batch: &mut WriteBatch<'_>,
        requester: &Requester,
        changes: &[TransactionChange],
        link: Option<ClientLink>,
        keeps_old_values: bool,
    ) -> Answer {
        let outcome = batch.transaction(|batch| {
            for change in changes {
                let passwords = change.passwords.clone();
                let context = MessageContext { passwords, link, origin: None, keeps_old_values };
                let answer = self.execute(batch, requester, &change.message, context);
                if answer.outcome.code != ResultCode::SUCCESS {
                    return Err(Box::new(answer));
                }
            }
            Ok(Outcome::success().into())
        });
        outcome.unwrap_or_else(|refused| *refused)
    }

    fn update_account(&mut self, _: &mut WriteBatch<'_>, _: EntryId, _: &AccountUpdate) -> Outcome {
        unreachable!("clients of the simulation have no passwords")
    }

    fn unrecorded_accounts(&mut self) -> Vec<(EntryId, AccountUpdate)> {
        Vec::new()
    }

    fn decided_for_other(&mut self, _: &DecidedForOther<'_>) {}

    fn committed(&mut self) {}

    fn is_complete_as_of(&mut self, _: Instant) {}

    fn maintenance_patience(&self, _: &Writer) -> Option<Duration> {
        None
    }

    fn is_maintenance_due(&mut self, _: &Writer) -> bool {
        false
    }

    fn run_maintenance(&mut self, _: &mut Writer) {}
}
