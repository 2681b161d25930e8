//! The coordinator, which runs a workload on several agents and adds up their results.

use super::Token;
use super::protocol::{
    AgentMessage, Challenge, GREETING_BYTES_MAX, GREETING_MAX, Greeting, MESSAGE_BYTES_MAX, Order, PROTOCOL,
    Proof, RunOrder, SILENCE_MAX, now_micros, prove, receive, send,
};
use crate::driver::observe::Observer;
use crate::driver::{self, Options, Phase, Progress};
use crate::result::{AgentState, Environment, MergeError, Second, WorkloadResult};
use crate::workload::Workload;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// Number of round trips from which the offset of an agent's clock is estimated.
const CLOCK_ROUND_TRIPS: usize = 9;
/// Time between the order to start and the start itself. The order must arrive within this time.
const LEAD: Duration = Duration::from_millis(300);
/// Maximum time to connect to one agent.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Interval between samples of the server's processes.
const TICK: Duration = Duration::from_millis(20);

/// Reason why load machines could not measure together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// An agent cannot be reached, rejects the coordinator, or failed before the measurement.
    #[error("load machine {address}: {reason}")]
    Agent {
        /// Address, as given.
        address: String,
        /// Description of the failure.
        reason: String,
    },
    /// The results of the load machines cannot be merged.
    #[error("results of the load machines: {0}")]
    Merge(#[from] MergeError),
    /// Several load machines cannot run this workload together.
    #[error("workload {workload}: {reason}")]
    Workload {
        /// Name of the workload.
        workload: String,
        /// Reason.
        reason: String,
    },
}

/// Connected load machines.
pub struct Machines {
    machines: Vec<Machine>,
}

struct Machine {
    address: String,
    stream: TcpStream,
    environment: Environment,
    clock: Clock,
}

/// Difference between the clocks of an agent and the coordinator.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Clock {
    offset_micros: i64,
    error_micros: u64,
}

impl Machines {
    /// Connects to an agent at each address (`HOST:PORT`).
    ///
    /// # Errors
    /// An agent cannot be reached, has another token or version, or is busy.
    pub fn connect(addresses: &[String], token: &Token) -> Result<Machines, AgentError> {
        let connect = |address: &String| Machine::connect(address, token);
        Ok(Machines { machines: addresses.iter().map(connect).collect::<Result<_, _>>()? })
    }

    /// Runs a workload on all agents at the same time. The coordinator divides clients, rate and keys among the agents.
    /// The ids of the server's processes in `options` belong to the coordinator's machine. `watch` receives progress
    /// every second.
    ///
    /// # Errors
    /// Several machines cannot run the workload, an agent fails before the measurement begins, or the results cannot be
    /// merged. A failure of one agent during the measurement makes the result incomplete.
    pub fn run(
        &mut self,
        workload: &Workload,
        targets: &[String],
        options: &Options,
        watch: &mut dyn FnMut(&Progress),
    ) -> Result<WorkloadResult, AgentError> {
        if workload.text.is_empty() {
            let reason = "a list is on this machine only: load machines need a workload file".to_owned();
            return Err(AgentError::Workload { workload: workload.name.clone(), reason });
        }
        for machine in &mut self.machines {
            machine.read_clock()?;
        }
        let orders = orders(workload, targets, options, self.machines.len());
        let orders =
            orders.map_err(|reason| AgentError::Workload { workload: workload.name.clone(), reason })?;
        let (sender, words) = mpsc::channel();
        for (index, (machine, order)) in self.machines.iter_mut().zip(orders).enumerate() {
            machine.begin(index, order, sender.clone())?;
        }
        drop(sender);
        watch(&Progress { phase: Phase::Prepare, left: Duration::ZERO, second: None });
        let run = Run::new(&self.machines, workload, options);
        let ended = run.follow(words, watch);
        if ended.is_err() {
            // The run has failed, so the other agents must not wait for an order to start.
            self.machines.iter().for_each(|machine| drop(machine.stream.shutdown(Shutdown::Both)));
        }
        ended.map(|mut result| {
            // The histograms were only needed for merging.
            if !options.keep_histograms {
                result.drop_histograms_of_seconds();
            }
            result
        })
    }
}

/// Returns the share of each machine. The number of clients and the rate in a share apply to the first job. The driver
/// scales the other jobs in proportion.
fn orders(
    workload: &Workload,
    targets: &[String],
    options: &Options,
    machines: usize,
) -> Result<Vec<RunOrder>, String> {
    let clients = options.clients.or(workload.jobs.first().map(|job| job.clients)).unwrap_or_default();
    if clients < machines {
        return Err(format!("{clients} clients are too few for {machines} load machines"));
    }
    let rate = options.rate.or(workload.jobs.first().and_then(|job| job.rate));
    let order = |index: usize| RunOrder {
        workload_name: workload.name.clone(),
        workload_text: workload.text.clone(),
        targets: targets.to_vec(),
        options: Options {
            clients: Some(clients / machines + usize::from(index < clients % machines)),
            rate: rate.map(|rate| rate / machines as f64),
            // Each machine gets its own seed, so that it uses different random keys.
            seed: options.seed.wrapping_add((index as u64) << 32),
            shard: (index as u64, machines as u64),
            check_data: options.check_data && index == 0,
            ..options.clone()
        },
    };
    Ok((0..machines).map(order).collect())
}

impl Machine {
    fn connect(address: &str, token: &Token) -> Result<Machine, AgentError> {
        let failed = |reason: String| AgentError::Agent { address: address.to_owned(), reason };
        let io_failed = |error: io::Error| failed(error.to_string());
        let mut found = address.to_socket_addrs().map_err(io_failed)?;
        let socket = found.next().ok_or_else(|| failed("the name has no address".to_owned()))?;
        let mut stream = TcpStream::connect_timeout(&socket, CONNECT_MAX)
            .map_err(|error| failed(format!("{error}; is `pando bench agent` running there?")))?;
        stream.set_nodelay(true).map_err(io_failed)?;
        stream.set_read_timeout(Some(GREETING_MAX)).map_err(io_failed)?;
        stream.set_write_timeout(Some(GREETING_MAX)).map_err(io_failed)?;
        let challenge: Challenge = receive(&mut stream, GREETING_BYTES_MAX).map_err(io_failed)?;
        let version = env!("CARGO_PKG_VERSION");
        if (challenge.protocol, challenge.version.as_str()) != (PROTOCOL, version) {
            let theirs = challenge.version;
            return Err(failed(format!("it is pando {theirs}, this is {version}: use one version")));
        }
        let mac = prove(token, &challenge.nonce);
        let proof = Proof { protocol: PROTOCOL, version: version.to_owned(), mac };
        send(&mut stream, &proof).map_err(io_failed)?;
        match receive(&mut stream, MESSAGE_BYTES_MAX).map_err(io_failed)? {
            Greeting::Refused { reason } => Err(failed(reason)),
            Greeting::Welcome { environment } => {
                stream.set_read_timeout(Some(SILENCE_MAX)).map_err(io_failed)?;
                let clock = Clock { offset_micros: 0, error_micros: u64::MAX };
                Ok(Machine { address: address.to_owned(), stream, environment: *environment, clock })
            }
        }
    }

    fn failed(&self, error: &io::Error) -> AgentError {
        AgentError::Agent { address: self.address.clone(), reason: reason(error) }
    }

    /// Estimates the difference to the agent's clock. The shortest round trip gives the best estimate.
    fn read_clock(&mut self) -> Result<(), AgentError> {
        let mut trips = Vec::new();
        for _ in 0..CLOCK_ROUND_TRIPS {
            let (sent, started) = (now_micros(), Instant::now());
            let word = send(&mut self.stream, &Order::Clock)
                .and_then(|()| receive::<AgentMessage>(&mut self.stream, MESSAGE_BYTES_MAX));
            let round_trip = started.elapsed().as_micros() as u64;
            match word.map_err(|error| self.failed(&error))? {
                AgentMessage::Clock { micros } => trips.push((round_trip, sent, micros)),
                _ => return Err(self.failed(&io::Error::other("no answer to a question for the time"))),
            }
        }
        self.clock = Clock::estimate(&trips);
        Ok(())
    }

    /// Sends the order for a run, and forwards the agent's messages to a channel.
    fn begin(
        &mut self,
        index: usize,
        order: RunOrder,
        words: Sender<(usize, io::Result<AgentMessage>)>,
    ) -> Result<(), AgentError> {
        send(&mut self.stream, &Order::Run(Box::new(order))).map_err(|error| self.failed(&error))?;
        let mut stream = self.stream.try_clone().map_err(|error| self.failed(&error))?;
        let listen = move || {
            loop {
                let word = receive::<AgentMessage>(&mut stream, MESSAGE_BYTES_MAX);
                let is_last =
                    matches!(word, Err(_) | Ok(AgentMessage::Result(_) | AgentMessage::Failed { .. }));
                if words.send((index, word)).is_err() || is_last {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name(format!("bench-agent-{index}")).spawn(listen);
        thread.map(drop).map_err(|error| self.failed(&error))
    }

    fn go(&self, moment_micros: u64) -> io::Result<()> {
        let at_micros = moment_micros.saturating_add_signed(self.clock.offset_micros);
        send(&mut &self.stream, &Order::Go { at_micros })
    }
}

/// Describes the failure of a connection in words.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => format!("no word for {} s", SILENCE_MAX.as_secs()),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            "its connection is closed: the agent has ended, or the way there is broken".to_owned()
        }
        _ => error.to_string(),
    }
}

impl Clock {
    /// Estimates the difference to the agent's clock from round trips. Each round trip is given by its duration, the
    /// coordinator's time at sending, and the agent's time in the answer.
    fn estimate(trips: &[(u64, u64, u64)]) -> Clock {
        let shortest = trips.iter().min_by_key(|(round_trip, ..)| *round_trip);
        let Some(&(round_trip, sent, theirs)) = shortest else {
            return Clock { offset_micros: 0, error_micros: u64::MAX };
        };
        let ours = sent + round_trip / 2;
        Clock { offset_micros: theirs as i64 - ours as i64, error_micros: round_trip.div_ceil(2) }
    }
}

/// Stage of an agent.
enum Stage {
    Preparing,
    /// Ready to begin.
    Ready,
    Running,
    /// Ready to clean up.
    Finished,
    Cleaning,
    Done(Box<WorkloadResult>),
    Dead(String),
}

impl Stage {
    fn is_over(&self) -> bool {
        matches!(self, Stage::Done(_) | Stage::Dead(_))
    }
}

/// State of a run, from the orders to the result.
struct Run<'a> {
    machines: &'a [Machine],
    workload: &'a Workload,
    options: &'a Options,
    stages: Vec<Stage>,
    /// For each agent, the seconds that it has reported, with their numbers of operations.
    seconds: Vec<BTreeMap<u64, u64>>,
    shown: Second,
    observer: Observer,
    started: Option<(Instant, driver::worker::Schedule)>,
}

impl<'a> Run<'a> {
    fn new(machines: &'a [Machine], workload: &'a Workload, options: &'a Options) -> Run<'a> {
        Run {
            machines,
            workload,
            options,
            stages: machines.iter().map(|_| Stage::Preparing).collect(),
            seconds: vec![BTreeMap::new(); machines.len()],
            shown: Second::default(),
            observer: Observer::new(&options.server_processes),
            started: None,
        }
    }

    fn follow(
        mut self,
        words: mpsc::Receiver<(usize, io::Result<AgentMessage>)>,
        watch: &mut dyn FnMut(&Progress),
    ) -> Result<WorkloadResult, AgentError> {
        while !self.stages.iter().all(Stage::is_over) {
            match words.recv_timeout(TICK) {
                Ok((index, word)) => {
                    if let Some(result) = self.handle_message(index, word, watch)? {
                        return Ok(result);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if let Some((base, schedule)) = &self.started {
                self.observer.observe(base.elapsed().as_nanos() as u64, schedule);
            }
            self.go_on();
        }
        self.merged()
    }

    /// Handles an agent's message. A result that arrives before the start ends the run, because it means that the
    /// server does not support the workload.
    fn handle_message(
        &mut self,
        index: usize,
        word: io::Result<AgentMessage>,
        watch: &mut dyn FnMut(&Progress),
    ) -> Result<Option<WorkloadResult>, AgentError> {
        let has_started = self.started.is_some();
        let dead = match word {
            Ok(AgentMessage::Ready) => {
                self.stages[index] = if has_started { Stage::Finished } else { Stage::Ready };
                None
            }
            Ok(AgentMessage::Second { phase, left, second }) => {
                self.report_second(index, phase, left, second.map(|second| *second), watch);
                None
            }
            Ok(AgentMessage::Result(result)) if !has_started => return Ok(Some(*result)),
            Ok(AgentMessage::Result(result)) => {
                self.stages[index] = Stage::Done(result);
                None
            }
            Ok(AgentMessage::Alive | AgentMessage::Clock { .. }) => None,
            Ok(AgentMessage::Failed { reason }) => Some(reason),
            Err(error) => Some(reason(&error)),
        };
        if let Some(reason) = dead {
            if !has_started {
                return Err(AgentError::Agent { address: self.machines[index].address.clone(), reason });
            }
            self.stages[index] = Stage::Dead(reason);
        }
        Ok(None)
    }

    /// Orders all agents to continue, if all of them wait for an order.
    fn go_on(&mut self) {
        if self.started.is_none() && self.stages.iter().all(|stage| matches!(stage, Stage::Ready)) {
            let moment = now_micros() + LEAD.as_micros() as u64;
            self.started = Some((Instant::now(), driver::schedule(self.workload, self.options, LEAD)));
            self.start_stage(moment, |stage| matches!(stage, Stage::Ready), || Stage::Running);
        }
        let is_through = |stage: &Stage| stage.is_over() || matches!(stage, Stage::Finished);
        if self.started.is_some() && self.stages.iter().all(is_through) {
            self.start_stage(now_micros(), |stage| matches!(stage, Stage::Finished), || Stage::Cleaning);
        }
    }

    fn start_stage(&mut self, moment: u64, whom: fn(&Stage) -> bool, next: fn() -> Stage) {
        for (machine, stage) in self.machines.iter().zip(&mut self.stages).filter(|(_, stage)| whom(stage)) {
            *stage = match machine.go(moment) {
                Ok(()) => next(),
                Err(error) => Stage::Dead(reason(&error)),
            };
        }
    }

    /// Adds an agent's counts of a second to the sum for that second. Reports the sum if this is the last agent in the
    /// list that still runs.
    fn report_second(
        &mut self,
        index: usize,
        phase: Phase,
        left: Duration,
        second: Option<Second>,
        watch: &mut dyn FnMut(&Progress),
    ) {
        if let Some(second) = second {
            if self.seconds[index].insert(second.second, second.operations_total()).is_some() {
                return;
            }
            if second.second != self.shown.second {
                self.shown = Second { second: second.second, ..Second::default() };
            }
            for (kind, count) in &second.operations {
                *self.shown.operations.entry(*kind).or_default() += count;
            }
            self.shown.errors += second.errors;
            self.shown.p50_micros = self.shown.p50_micros.max(second.p50_micros);
            self.shown.p99_micros = self.shown.p99_micros.max(second.p99_micros);
            self.shown.max_micros = self.shown.max_micros.max(second.max_micros);
        }
        let is_last = self.stages.iter().rposition(|stage| !stage.is_over()) == Some(index);
        if is_last {
            let shown = (self.shown != Second::default()).then(|| self.shown.clone());
            watch(&Progress { phase, left, second: shown });
        }
    }

    /// Returns the sum of the results, with the state of each machine.
    fn merged(self) -> Result<WorkloadResult, AgentError> {
        let mut sum: Option<WorkloadResult> = None;
        let mut agents = Vec::new();
        let mut failures = Vec::new();
        for ((machine, stage), seconds) in self.machines.iter().zip(self.stages).zip(&self.seconds) {
            let mut state = AgentState {
                address: machine.address.clone(),
                clock_offset_micros: Some(machine.clock.offset_micros),
                clock_error_micros: Some(machine.clock.error_micros),
                environment: Some(machine.environment.clone()),
                ..AgentState::default()
            };
            match stage {
                Stage::Done(result) => {
                    state.complete = result.complete;
                    state.operations = result.operations_total();
                    match &mut sum {
                        Some(sum) => sum.merge(&result)?,
                        None => sum = Some(*result),
                    }
                }
                stage => {
                    let reason = match stage {
                        Stage::Dead(reason) => reason,
                        _ => "it did not finish".to_owned(),
                    };
                    state.operations = seconds.values().sum();
                    failures.push(format!(
                        "load machine {} was lost after {} s, and what it measured with it",
                        machine.address,
                        seconds.len()
                    ));
                    state.failure = Some(reason);
                }
            }
            agents.push(state);
        }
        let Some(mut sum) = sum else {
            let lost = agents.into_iter().next().unwrap_or_default();
            let reason = lost.failure.unwrap_or_default();
            return Err(AgentError::Agent { address: lost.address, reason });
        };
        sum.complete &= failures.is_empty();
        sum.failures.extend(failures);
        sum.agents = agents;
        add_cost(&mut sum, self.observer);
        sum.set_rates();
        Ok(sum)
    }
}

/// Adds to the result the cost of the server's processes on this machine.
fn add_cost(sum: &mut WorkloadResult, observer: Observer) {
    let (cost, seconds, failure) = observer.finish();
    sum.cost = cost.or(sum.cost.take());
    sum.failures.extend(failure);
    for seen in seconds {
        let Ok(index) = sum.seconds.binary_search_by_key(&seen.second, |second| second.second) else {
            continue;
        };
        sum.seconds[index].set_cost(&seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_round_trip_gives_the_clock_offset() {
        // The agent's clock is 5,000 µs ahead. The first round trip was slow in one direction.
        let trips = [(9_000, 1_000_000, 1_014_000), (200, 2_000_000, 2_005_100), (700, 3_000_000, 3_005_600)];
        assert_eq!(Clock::estimate(&trips), Clock { offset_micros: 5_000, error_micros: 100 });
        assert_eq!(Clock::estimate(&[(10, 5_000, 1_005)]).offset_micros, -4_000);
    }

    #[test]
    fn an_agent_of_another_version_is_refused() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let agent = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let challenge =
                Challenge { protocol: PROTOCOL, version: "0.0.1".to_owned(), nonce: String::new() };
            send(&mut stream, &challenge).unwrap();
        });
        let token = Token::new("0123456789abcdef").unwrap();
        let error = Machines::connect(std::slice::from_ref(&address), &token).err().unwrap().to_string();
        agent.join().unwrap();
        assert!(error.contains(&address) && error.contains("it is pando 0.0.1, this is "), "{error}");
    }

    #[test]
    fn clients_and_rates_are_divided_among_the_agents() {
        let workload = crate::workload::shipped("oid-search-sequential").unwrap();
        let options = Options { clients: Some(10), rate: Some(300.0), ..Options::default() };
        let orders = orders(&workload, &[], &options, 3).unwrap();
        let clients: Vec<_> = orders.iter().map(|order| order.options.clients.unwrap()).collect();
        assert_eq!(clients, [4, 3, 3]);
        assert!(orders.iter().all(|order| order.options.rate == Some(100.0)));
        assert_eq!(orders[2].options.shard, (2, 3));
        assert!(super::orders(&workload, &[], &options, 11).unwrap_err().contains("too few"));
    }
}
