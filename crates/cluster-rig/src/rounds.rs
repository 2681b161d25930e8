//! Rounds of trouble: in each something goes wrong under a load and is put right, and then every node is held against
//! the others and against every answer that a client got.

use std::fmt;
use std::time::{Duration, Instant};

use kafka_broker::Brokers;

use crate::load::Load;
use crate::nodes::Nodes;
use crate::{NODES, Result, verify};

/// Changes that are acknowledged before something goes wrong, and after it is put right.
const CHANGES: u64 = 60;

/// What goes wrong.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// SIGKILL.
    KillNode(usize),
    /// SIGSTOP, for longer than others wait for a sign of life.
    HaltNode(usize),
    /// Nobody reaches it but clients and brokers.
    CutNode(usize),
    KillWriter,
    HaltWriter,
    CutWriter,
    KillBroker(usize),
    HaltBroker(usize),
    /// Changes are refused meanwhile.
    HaltTwoBrokers(usize),
    KillWriterAndBroker(usize),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Each kind of trouble once, in an order of chance.
fn all(rng: &mut fastrand::Rng) -> Vec<Trouble> {
    let (node, broker) = (rng.usize(1..=NODES), rng.usize(..crate::BROKERS));
    let mut all = vec![
        Trouble::KillNode(node),
        Trouble::HaltNode(node),
        Trouble::CutNode(node),
        Trouble::KillWriter,
        Trouble::HaltWriter,
        Trouble::CutWriter,
        Trouble::KillBroker(broker),
        Trouble::HaltBroker(broker),
        Trouble::HaltTwoBrokers(broker),
        Trouble::KillWriterAndBroker(broker),
    ];
    rng.shuffle(&mut all);
    all
}

/// So many rounds. The seed chooses what goes wrong, not when exactly.
pub(crate) fn run(brokers: &mut Brokers, nodes: &mut Nodes, count: u64, seed: u64) -> Result<()> {
    println!("{count} rounds, seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut left = Vec::new();
    let begun = Instant::now();
    for round in 1..=count {
        if left.is_empty() {
            left = all(&mut rng);
        }
        let Some(trouble) = left.pop() else { break };
        let since = Instant::now();
        println!("round {round}: {trouble}");
        let load = Load::start(&nodes.addresses());
        load.wait_for(CHANGES)?;
        happen(trouble, brokers, nodes, Duration::from_millis(rng.u64(2_500..5_000)))?;
        load.wait_for(load.acknowledged() + CHANGES)?;
        verify(nodes, load).map_err(|error| format!("round {round}, {trouble}, seed {seed}: {error}"))?;
        println!("round {round}: {:.1} s", since.elapsed().as_secs_f64());
    }
    println!(
        "{count} rounds in {:.0} s: nothing lost, nothing doubled, nothing stale",
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Makes trouble for so long, and puts it right.
fn happen(trouble: Trouble, brokers: &mut Brokers, nodes: &mut Nodes, long: Duration) -> Result<()> {
    let last = || std::thread::sleep(long);
    match trouble {
        Trouble::KillNode(node) => {
            nodes.kill(node)?;
            last();
            nodes.start(node)
        }
        Trouble::HaltNode(node) => {
            nodes.halt(node, true)?;
            last();
            nodes.halt(node, false)
        }
        Trouble::CutNode(node) => {
            nodes.cut(node, true)?;
            last();
            nodes.cut(node, false)
        }
        Trouble::KillWriter => happen(Trouble::KillNode(nodes.writer()?), brokers, nodes, long),
        Trouble::HaltWriter => happen(Trouble::HaltNode(nodes.writer()?), brokers, nodes, long),
        Trouble::CutWriter => happen(Trouble::CutNode(nodes.writer()?), brokers, nodes, long),
        Trouble::KillBroker(broker) => {
            brokers.kill(broker)?;
            last();
            Ok(brokers.restart(broker)?)
        }
        Trouble::HaltBroker(broker) => {
            brokers.halt(broker, true)?;
            last();
            Ok(brokers.halt(broker, false)?)
        }
        Trouble::HaltTwoBrokers(running) => {
            let halted: Vec<usize> = (0..crate::BROKERS).filter(|broker| *broker != running).collect();
            halted.iter().try_for_each(|broker| brokers.halt(*broker, true))?;
            last();
            Ok(halted.iter().try_for_each(|broker| brokers.halt(*broker, false))?)
        }
        Trouble::KillWriterAndBroker(broker) => {
            let writer = nodes.writer()?;
            nodes.kill(writer)?;
            happen(Trouble::KillBroker(broker), brokers, nodes, long)?;
            nodes.start(writer)
        }
    }
}
