//! `./dev cluster`: three brokers and three nodes on loopback under load, and a menu of faults.
//!
//! Without the menu, rounds are run. Each round kills or halts a process, cuts a connection or fills a disk under load.
//! Then all nodes are compared with each other and with every answer that a client received. The smoke test has five
//! rounds. It is also a test of `pando`, so CI needs no further build for it.

mod disks;
mod load;
mod measure;
mod net;
mod nodes;
mod rig;
mod rounds;

use std::error::Error;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use load::Load;
use nodes::Nodes;
use rig::Rig;

/// Result with an error text for people.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

const MENU: &str = "\
  s          what each node says of itself, and how the load does
  w          kill the node that writes (SIGKILL)
  k N        kill node N          r N   start it again
  h N        halt node N (SIGSTOP)      c N   let it go on
  bk N       kill broker N        br N  start it again
  v          stop the load, compare all nodes, and start it again
  q          stop everything";

pub use measure::Measure;

/// Task of the rig. The rig is the set of brokers and nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Run {
    /// A menu, until the user quits.
    Menu,
    /// Five rounds that are the same in each run.
    Smoke,
    /// A number of rounds with all kinds of faults. The second number is the seed that determines the faults.
    Rounds(u64, u64),
    /// Measurement of costs and rates.
    Measure(Measure),
}

/// Starts brokers and nodes of this program, and runs a task with them.
///
/// # Errors
/// A process does not start, or an acknowledged change is lost or made twice.
pub fn run(program: PathBuf, what: Run) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("pando-cluster-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let started = Instant::now();
    println!("starting brokers and nodes in {}", folder.display());
    if let Run::Measure(what) = &what {
        measure::run(program, &folder, what)?;
        return Ok(std::fs::remove_dir_all(&folder)?);
    }
    let mut rig = Rig::start(program, &folder)?;
    println!("ready after {:.1} s; brokers: {}", started.elapsed().as_secs_f64(), rig.brokers.bootstrap());
    println!("nodes: {}", rig.nodes.urls().join(" "));
    let done = match what {
        Run::Menu => menu(&mut rig),
        Run::Smoke => rounds::smoke(&mut rig),
        Run::Rounds(count, seed) => rounds::run(&mut rig, count, seed),
        Run::Measure(_) => Ok(()),
    };
    // After a failure, all data is kept for inspection.
    if let Err(error) = done {
        rig.keep();
        eprintln!("cluster: logs and data are kept in {}", folder.display());
        return Err(error);
    }
    drop(rig);
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

/// Stops the load, and compares every node with the clients' answers and with the other nodes.
fn verify(nodes: &Nodes, load: Load) -> Result<()> {
    let answers = load.stop();
    println!("{answers}");
    let contents = nodes.contents()?;
    let problems: Vec<String> = contents.iter().flat_map(|content| answers.compare(content)).collect();
    for problem in problems.iter().take(20) {
        eprintln!("cluster: {problem}");
    }
    let are_equal =
        contents.windows(2).all(|pair| matches!(pair, [one, other] if one.export == other.export));
    if !problems.is_empty() || !are_equal {
        let equal = if are_equal { "the nodes are equal" } else { "the nodes are not equal" };
        return Err(format!("{} answers do not hold, {equal}", problems.len()).into());
    }
    let entries = contents.first().map_or(0, |content| content.names.len());
    println!("all nodes are equal, {entries} entries; nothing acknowledged is lost or doubled");
    Ok(())
}

fn menu(rig: &mut Rig) -> Result<()> {
    println!("{MENU}");
    let mut load = Load::start(&rig.nodes.addresses());
    let lines = std::io::stdin().lock().lines();
    print!("> ");
    std::io::stdout().flush()?;
    for line in lines {
        let line = line?;
        let mut words = line.split_whitespace();
        let (verb, number) =
            (words.next().unwrap_or_default(), words.next().and_then(|word| word.parse().ok()));
        let nodes = &mut rig.nodes;
        let done = match (verb, number) {
            ("s", _) => nodes
                .say()
                .map(|()| println!("load: {} acknowledged, {} refused", load.acknowledged(), load.refused())),
            ("w", _) => nodes.writer().and_then(|writer| {
                println!("killing node {writer}");
                nodes.kill(writer)
            }),
            ("k", Some(node)) => nodes.kill(node),
            ("r", Some(node)) => nodes.start(node),
            ("h", Some(node)) => nodes.halt(node, true),
            ("c", Some(node)) => nodes.halt(node, false),
            ("bk", Some(broker)) => Ok(rig.brokers.kill(broker.saturating_sub(1))?),
            ("br", Some(broker)) => rig.restart_broker(broker.saturating_sub(1)),
            ("v", _) => {
                let done = verify(nodes, load);
                load = Load::start(&nodes.addresses());
                done
            }
            ("q", _) => break,
            ("", _) => Ok(()),
            _ => {
                println!("{MENU}");
                Ok(())
            }
        };
        if let Err(error) = done {
            println!("{error}");
        }
        print!("> ");
        std::io::stdout().flush()?;
    }
    println!("{}", load.stop());
    Ok(())
}

/// Repeats `try_once` until it returns a value. Fails after a time limit.
fn until<T>(what: &str, mut try_once: impl FnMut() -> Option<T>) -> Result<T> {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(90) {
        if let Some(answer) = try_once() {
            return Ok(answer);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err(format!("not in time: {what}").into())
}
