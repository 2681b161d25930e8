//! Rounds of faults: each round causes a fault under load and repairs it. Then it compares every node with the other
//! nodes and with every answer that a client received.

use std::fmt;
use std::time::{Duration, Instant};

use crate::load::Load;
use crate::net::{Cut, Party};
use crate::rig::{BROKERS, NODES, Rig};
use crate::{Result, verify};

/// Number of changes that must be acknowledged before a fault, and after its repair.
const CHANGES: u64 = 60;
/// Number of records that a node must lack before its cut is repaired.
const LAG: u64 = 20;
/// Duration of each fault of the smoke test. A fault that waits for an event takes longer.
const SMOKE: Duration = Duration::from_millis(2_500);

/// Kind of fault.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// Kills a node (SIGKILL).
    KillNode(usize),
    /// Halts a node (SIGSTOP) for longer than the session timeout.
    HaltNode(usize),
    /// Cuts a node off from the other nodes. Clients and brokers still reach the node.
    CutNode(usize),
    /// Cuts a node off from the brokers.
    CutNodeFromBrokers(usize),
    /// Fills the disk of a node.
    FillNode(usize),
    KillWriter,
    HaltWriter,
    CutWriter,
    CutWriterFromBrokers,
    FillWriter,
    KillBroker(usize),
    HaltBroker(usize),
    /// Cuts a broker off from the other brokers. Nodes still reach the broker.
    CutBroker(usize),
    /// Fills the disk of a broker. The broker ends, and is restarted once there is room.
    FillBroker(usize),
    /// Halts two brokers. Changes are refused until both continue.
    HaltTwoBrokers(usize),
    KillWriterAndBroker(usize),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Fault {
    fn needs_disks(self) -> bool {
        matches!(self, Fault::FillNode(_) | Fault::FillWriter | Fault::FillBroker(_))
    }
}

/// Returns each kind of fault once, in random order.
fn all(rng: &mut fastrand::Rng) -> Vec<Fault> {
    let (node, broker) = (rng.usize(1..=NODES), rng.usize(..BROKERS));
    let mut all = vec![
        Fault::KillNode(node),
        Fault::HaltNode(node),
        Fault::CutNode(node),
        Fault::CutNodeFromBrokers(node),
        Fault::FillNode(node),
        Fault::KillWriter,
        Fault::HaltWriter,
        Fault::CutWriter,
        Fault::CutWriterFromBrokers,
        Fault::FillWriter,
        Fault::KillBroker(broker),
        Fault::HaltBroker(broker),
        Fault::CutBroker(broker),
        Fault::FillBroker(broker),
        Fault::HaltTwoBrokers(broker),
        Fault::KillWriterAndBroker(broker),
    ];
    rng.shuffle(&mut all);
    all
}

/// Runs a number of rounds. The seed chooses the faults, not their exact times.
pub(crate) fn run(rig: &mut Rig, count: u64, seed: u64) -> Result<()> {
    println!("{count} rounds, seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut left = Vec::new();
    let started = Instant::now();
    for round in 1..=count {
        if left.is_empty() {
            left = all(&mut rng);
        }
        let Some(fault) = left.pop() else { break };
        let long = Duration::from_millis(rng.u64(2_500..5_000));
        run_round(rig, &format!("round {round} of seed {seed}"), fault, long)?;
    }
    println!(
        "{count} rounds in {:.0} s: nothing lost, nothing doubled, nothing stale",
        started.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Runs five rounds, one for each group of faults.
pub(crate) fn smoke(rig: &mut Rig) -> Result<()> {
    let all = [
        Fault::KillWriter,
        Fault::CutWriterFromBrokers,
        Fault::KillBroker(0),
        Fault::CutBroker(1),
        Fault::FillWriter,
    ];
    for (round, fault) in (1..).zip(all) {
        run_round(rig, &format!("round {round}"), fault, SMOKE)?;
    }
    Ok(())
}

fn run_round(rig: &mut Rig, name: &str, fault: Fault, long: Duration) -> Result<()> {
    if fault.needs_disks() && !rig.has_disks() {
        println!("{name}: {fault} is left out: only root may mount small disks");
        return Ok(());
    }
    let since = Instant::now();
    println!("{name}: {fault}");
    let load = Load::start(&rig.nodes.addresses());
    let failed = |error| format!("{name}, {fault}: {error}");
    load.wait_for(CHANGES)?;
    cause_fault(fault, rig, long).map_err(failed)?;
    let ended = load.acknowledged();
    load.wait_for(ended + CHANGES).map_err(failed)?;
    verify(&rig.nodes, load).map_err(failed)?;
    println!("{name}: {:.1} s", since.elapsed().as_secs_f64());
    Ok(())
}

/// Causes a fault for a duration, and then repairs it.
fn cause_fault(fault: Fault, rig: &mut Rig, long: Duration) -> Result<()> {
    let last = || std::thread::sleep(long);
    let nodes = &mut rig.nodes;
    match fault {
        Fault::KillNode(node) => {
            nodes.kill(node)?;
            last();
            nodes.start(node)
        }
        Fault::HaltNode(node) => {
            nodes.halt(node, true)?;
            last();
            nodes.halt(node, false)
        }
        Fault::CutNode(node) => rig.cut_while(Cut::NodeAndNodes(node), || {
            last();
            Ok(())
        }),
        Fault::CutNodeFromBrokers(node) => rig.cut_while(Cut::NodeAndBrokers(node), || {
            last();
            rig.nodes.wait_for_lag(node, LAG)
        }),
        Fault::FillNode(node) => rig.fill_while(Party::Node(node), || {
            last();
            rig.nodes.wait_for_lag(node, LAG)
        }),
        Fault::KillWriter => cause_fault(Fault::KillNode(nodes.writer()?), rig, long),
        Fault::HaltWriter => cause_fault(Fault::HaltNode(nodes.writer()?), rig, long),
        Fault::CutWriter => cause_fault(Fault::CutNode(nodes.writer()?), rig, long),
        Fault::CutWriterFromBrokers => {
            let writer = nodes.writer()?;
            rig.cut_while(Cut::NodeAndBrokers(writer), || {
                last();
                rig.nodes.writer_after(writer).map(drop)
            })
        }
        Fault::FillWriter => {
            let writer = nodes.writer()?;
            rig.fill_while(Party::Node(writer), || {
                last();
                rig.nodes.writer_after(writer).map(drop)
            })
        }
        Fault::KillBroker(broker) => {
            rig.brokers.kill(broker)?;
            last();
            rig.restart_broker(broker)
        }
        Fault::HaltBroker(broker) => {
            rig.brokers.halt(broker, true)?;
            last();
            Ok(rig.brokers.halt(broker, false)?)
        }
        Fault::CutBroker(broker) => rig.cut_while(Cut::BrokerAndBrokers(broker), || {
            last();
            Ok(())
        }),
        Fault::FillBroker(broker) => {
            rig.fill_while(Party::Broker(broker), || {
                last();
                Ok(())
            })?;
            rig.brokers.kill(broker)?;
            rig.restart_broker(broker)
        }
        Fault::HaltTwoBrokers(running) => {
            let halted: Vec<usize> = (0..BROKERS).filter(|broker| *broker != running).collect();
            halted.iter().try_for_each(|broker| rig.brokers.halt(*broker, true))?;
            last();
            Ok(halted.iter().try_for_each(|broker| rig.brokers.halt(*broker, false))?)
        }
        Fault::KillWriterAndBroker(broker) => {
            let writer = nodes.writer()?;
            nodes.kill(writer)?;
            cause_fault(Fault::KillBroker(broker), rig, long)?;
            rig.nodes.start(writer)
        }
    }
}
