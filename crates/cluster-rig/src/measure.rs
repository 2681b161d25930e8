//! `./dev cluster --measure DIR`: costs and rates of a cluster, compared with a single server on the same machine.
//!
//! `pando bench run` measures searches and rates of changes, and its results are kept. This module measures the
//! communication between nodes. Afterwards it measures other replicating servers, one group at a time. All processes
//! share one machine: see the page that this module writes.

mod clients;
mod driver;
mod page;
mod processes;
mod replicas;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kafka_broker::Brokers;
use serde_json::{Value, json};

use crate::nodes::{ADMIN_DN, Alone, Nodes, PASSWORD, figure, position, run as run_command};
use crate::{Result, until};
use clients::{AddClients, Times, see_everywhere};
use driver::Driver;
use processes::{Processes, disk_bytes};
use replicas::{Measured, Peers};

/// Parameters of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Folder of the results, which is created.
    pub to: PathBuf,
    /// Number of entries of people in the directory.
    pub entries: u64,
    /// Duration of each step, in seconds.
    pub seconds: u64,
}

/// Number of clients that search. The next constant is the number of clients that make changes at the same time.
const SEARCHING: u64 = 16;
const CHANGING: u64 = 256;
/// Rate of changes per second during searches.
const CHANGES: u64 = 2_000;
/// Numbers of clients in the steps that measure the highest rate of changes.
const CLIENTS: [u64; 3] = [10, 50, 500];
/// Number of repetitions of searches at the node and at the single server, and of kills of the writer.
const ROUNDS: usize = 3;
/// Step from whose result the description of the machine and the program is taken. The description applies to all
/// steps.
const FIRST_KEPT: &str = "search-alone-round-1";
/// Load during a join and during lookups on other nodes: changes per second, connections, and lookups per second.
const LOAD: u64 = 200;
const LOADING: usize = 16;
const LOOKUPS_PER_SECOND: u64 = 20;
/// Processor time in seconds above which a node without clients counts as busy.
const BEGUN: f64 = 0.3;
/// Number of records that a node may lack and still count as up to date, because they are in flight.
const IN_FLIGHT: u64 = 50;

/// Servers and results of a measurement.
struct TestBed<'m> {
    what: &'m Measure,
    driver: Driver<'m>,
    brokers: Brokers,
    nodes: Nodes,
    alone: Alone,
    steps: Vec<Value>,
}

/// Makes all measurements.
pub(crate) fn run(program: PathBuf, folder: &Path, what: &Measure) -> Result<()> {
    let peers = Peers::find()?;
    std::fs::create_dir_all(&what.to)?;
    let started = Instant::now();
    let mut stand = TestBed::start(program.clone(), folder, what)?;
    stand.join()?;
    stand.settle()?;
    stand.searches()?;
    stand.measure_searches_with_changes()?;
    stand.comparison()?;
    stand.changes()?;
    stand.visible()?;
    stand.failover()?;
    let mut steps = std::mem::take(&mut stand.steps);
    drop(stand);
    let mut replicated = Measured::default();
    // The results are written even after a failure.
    let replicated_all = peers.measure(&program, folder, what, &mut replicated);
    steps.extend(replicated.steps);
    let seconds = started.elapsed().as_secs();
    let mut all = clients::read_circumstances(&what.to.join(format!("{FIRST_KEPT}.json.zst")))?;
    all["entries"] = json!(what.entries);
    all["seconds"] = json!(what.seconds);
    all["took_seconds"] = json!(seconds);
    all["steps"] = Value::Array(steps);
    all["replicated_peers"] = Value::Array(replicated.groups);
    std::fs::write(what.to.join("cluster.json"), serde_json::to_string_pretty(&all)? + "\n")?;
    std::fs::write(what.to.join("README.md"), page::of(&all))?;
    println!("measured in {seconds} s: {}", what.to.join("README.md").display());
    replicated_all
}

impl<'m> TestBed<'m> {
    /// Starts two nodes and one single server with the same data.
    fn start(program: PathBuf, folder: &Path, what: &'m Measure) -> Result<TestBed<'m>> {
        let alone = folder.join("alone");
        std::fs::create_dir_all(&alone)?;
        let password = folder.join("password");
        std::fs::write(&password, PASSWORD)?;
        let data = make_data(&program, folder, &alone, what.entries)?;
        let brokers = Brokers::start(3, folder)?;
        let mut nodes = Nodes::new(program.clone(), folder, brokers.bootstrap(), None);
        let first = nodes.data(1);
        std::fs::create_dir_all(nodes.disk(1))?;
        copy(&data, &first)?;
        nodes.found()?;
        nodes.join()?;
        let alone = Alone::start(&program, &data, &folder.join("alone.log"))?;
        let driver = Driver { what, program, user: ADMIN_DN.to_owned(), password };
        Ok(TestBed { what, driver, brokers, nodes, alone, steps: Vec::new() })
    }

    /// Returns all processes whose processor time is measured.
    fn processes(&self) -> Processes {
        let nodes = self.nodes.processes().into_iter().map(|(node, id)| (format!("node {node}"), id));
        let brokers = (0..self.brokers.count())
            .filter_map(|index| Some((format!("broker {}", index + 1), self.brokers.process(index)?)));
        let alone = [("alone".to_owned(), self.alone.process())];
        Processes::begin(nodes.chain(brokers).chain(alone).collect())
    }

    /// Records the figures of a step, and the processor time that each process used during it.
    fn note(&mut self, name: &str, cost: &Processes, figures: Value) {
        println!("{name}: {figures}");
        self.steps.push(json!({ "step": name, "figures": figures, "cores": cost.cores() }));
    }

    /// Waits until the nodes have no background work left, such as a comparison after a start.
    fn settle(&self) -> Result<()> {
        until("nodes that have nothing to do", || {
            let cost = self.processes();
            std::thread::sleep(Duration::from_secs(1));
            let busy = cost
                .cores()
                .as_object()
                .map_or(0.0, |all| all.values().filter_map(Value::as_f64).fold(0.0, f64::max));
            (busy < 0.15).then_some(())
        })
    }

    /// Lets a third node join under load, by a copy over the network.
    fn join(&mut self) -> Result<()> {
        let writer = self.nodes.writer()?;
        let loaded = AddClients::start("join", &[self.nodes.address(writer)?; LOADING], LOAD);
        let cost = self.processes();
        let started = Instant::now();
        std::thread::sleep(Duration::from_secs(self.what.seconds));
        let joins = Instant::now();
        let (node, invitation) = self.nodes.invite()?;
        let from = self.nodes.address_for_nodes(1)?.to_string();
        self.nodes.command(node, &["cluster", "join", "--invitation", &invitation, "--copy-from", &from])?;
        let copied = joins.elapsed();
        self.nodes.start(node)?;
        let (there, here) = (self.nodes.address(writer)?, self.nodes.address(node)?);
        until("the new node is with the others", || {
            (position(here)? + IN_FLIGHT >= position(there)?).then_some(())
        })?;
        let joined = joins.elapsed();
        let ended = Instant::now();
        std::thread::sleep(Duration::from_secs(2));
        let lag = figure(here, "Lag Seconds");
        let all = loaded.stop()?;
        let (before, meanwhile) = (all.between(started, joins), all.between(joins, ended));
        let figures = json!({
            "load_per_second": LOAD,
            "copied_seconds": copied.as_secs_f64(),
            "joined_seconds": joined.as_secs_f64(),
            "lag_seconds_afterwards": lag,
            "data_bytes": disk_bytes(&self.nodes.data(node)),
            "changes_before": before.figures(),
            "changes_meanwhile": meanwhile.figures(),
        });
        self.note("a node joins", &cost, figures);
        Ok(())
    }

    /// Measures searches at a following node and at the single server alternately, without changes.
    fn searches(&mut self) -> Result<()> {
        let node = self.follower()?;
        for round in 1..=ROUNDS {
            for (name, target, process) in [self.server_alone(), node.clone()] {
                let step = format!("search, {name}, round {round}");
                self.bench(&step, "people-search", &target, process, &["--clients", &SEARCHING.to_string()])?;
            }
        }
        Ok(())
    }

    /// Measures the cost of a following node, and searches during changes at that node and at the single server.
    fn measure_searches_with_changes(&mut self) -> Result<()> {
        let writer = self.writing()?;
        let (rate, changing) = (CHANGES.to_string(), CHANGING.to_string());
        let paced = ["--clients", &changing, "--rate", &rate];
        self.bench("changes at a rate, cluster", "people-modify", &writer.1, writer.2, &paced)?;
        let alone = self.server_alone();
        self.bench("changes at a rate, alone", "people-modify", &alone.1, alone.2, &paced)?;
        for (at, searched) in [(&writer, self.follower()?), (&alone, alone.clone())] {
            let name = format!("search during changes, {}", searched.0);
            let result_path = self.driver.result_path(&format!("{name}, changes"));
            let mut more = self.driver.command("people-modify", &at.1, at.2, &result_path);
            more.args(paced).args(["--duration", &format!("{}s", self.what.seconds + 6)]);
            let mut meanwhile = more.spawn()?;
            std::thread::sleep(Duration::from_secs(3));
            let clients = SEARCHING.to_string();
            let done = self.bench(&name, "people-search", &searched.1, searched.2, &["--clients", &clients]);
            meanwhile.wait()?;
            done?;
            let changes = clients::read_result(&result_path)?;
            if let Some(Value::Object(figures)) = self.steps.last_mut().map(|step| &mut step["figures"]) {
                for (name, figure) in [("changes_per_second", "per_second"), ("changes_p99_ms", "p99_ms")] {
                    figures.insert(name.to_owned(), changes[figure].clone());
                }
            }
        }
        Ok(())
    }

    /// Measures the comparison of the nodes' data that follows the start of a node: its processor time, and searches
    /// during the comparison.
    fn comparison(&mut self) -> Result<()> {
        self.settle()?;
        let (writer, (_, url, searched)) = (self.nodes.writer()?, self.follower()?);
        let mut following = self.nodes.processes().into_iter().filter(|(node, _)| *node != writer);
        let (third, _) = following.nth(1).ok_or("no third node runs")?;
        let at = self.nodes.address(writer)?;
        let before = figure(at, "Digest");
        self.nodes.kill(third)?;
        self.nodes.start(third)?;
        // Nothing else runs on the writer, so its load is the comparison.
        let cost = self.processes();
        let own = format!("node {writer}");
        let is_done = || figure(at, "Digest") != before;
        until("a comparison begins", || (cost.seconds(&own) > BEGUN || is_done()).then_some(()))?;
        let started = Instant::now();
        let clients = SEARCHING.to_string();
        self.bench(
            "search during a comparison, at another node",
            "people-search",
            &url,
            searched,
            &["--clients", &clients],
        )?;
        until("a comparison of all nodes", || {
            let mut found = self.nodes.addresses().into_iter().map(|node| figure(node, "Digest"));
            let first = found.next().flatten();
            (first.is_some() && first != before && found.all(|other| other == first)).then_some(())
        })?;
        let cpu_seconds = cost.seconds(&own);
        let figures = json!({
            "cpu_seconds": cpu_seconds,
            "cpu_micros_per_entry": cpu_seconds * 1e6 / self.what.entries.max(1) as f64,
            "seconds": started.elapsed().as_secs_f64(),
        });
        self.note("nodes compare their data", &cost, figures);
        Ok(())
    }

    /// Measures the highest rate of changes at the single server, at the writer, and at another node.
    fn changes(&mut self) -> Result<()> {
        let places = [self.server_alone(), self.writing()?, self.follower()?];
        let sizes = |stand: &TestBed<'_>| -> Result<[u64; 3]> {
            let log = disk_bytes(&stand.brokers.data(0).join("pando-0"));
            let at = position(stand.nodes.address(1)?).ok_or("node 1 does not say its position")?;
            Ok([log, disk_bytes(&stand.nodes.data(1)), at])
        };
        let [log, data, first] = sizes(self)?;
        let whole = self.processes();
        for clients in CLIENTS {
            for (name, target, process) in &places {
                let step = format!("changes of {clients} clients, {name}");
                self.bench(&step, "people-modify", target, *process, &["--clients", &clients.to_string()])?;
            }
        }
        // Gives the server time to checkpoint pending changes.
        std::thread::sleep(Duration::from_secs(2));
        let [log_now, data_now, last] = sizes(self)?;
        let each = (last - first).max(1) as f64;
        let figures = json!({
            "changes": last - first,
            "log_bytes_per_change": log_now.saturating_sub(log) as f64 / each,
            "data_bytes_per_change": data_now.saturating_sub(data) as f64 / each,
        });
        self.note("bytes of a change", &whole, figures);
        Ok(())
    }

    /// Measures the time from the writer's acknowledgement of a change until all nodes return it.
    fn visible(&mut self) -> Result<()> {
        let writer = self.nodes.writer()?;
        let at = self.nodes.address(writer)?;
        let others: Vec<_> = self.nodes.addresses().into_iter().filter(|other| *other != at).collect();
        for load in [0, LOAD] {
            let loaded = (load > 0).then(|| AddClients::start("seen", &[at; LOADING], load));
            let cost = self.processes();
            let count = self.what.seconds * LOOKUPS_PER_SECOND;
            let (from_request, from_answer) = see_everywhere(at, &others, count, LOOKUPS_PER_SECOND, load)?;
            if let Some(loaded) = loaded {
                loaded.stop()?;
            }
            let figures = json!({
                "from_the_answer": from_answer.figures(), "from_the_request": from_request.figures(),
                "load_per_second": load
            });
            self.note(&format!("visible everywhere, {load} other changes a second"), &cost, figures);
        }
        Ok(())
    }

    /// Measures how long the other nodes accept no changes after the writer is killed.
    fn failover(&mut self) -> Result<()> {
        let mut gaps = Times::default();
        let cost = self.processes();
        for round in 0..ROUNDS {
            let writer = self.nodes.writer()?;
            let own = self.nodes.address(writer)?;
            let others: Vec<_> = self.nodes.addresses().into_iter().filter(|other| *other != own).collect();
            let adding = AddClients::start(&format!("killed-{round}"), &others, 0);
            std::thread::sleep(Duration::from_secs(2));
            let killed = Instant::now();
            self.nodes.kill(writer)?;
            let next = self.nodes.writer_after(writer)?;
            std::thread::sleep(Duration::from_secs(2));
            let stood_still = adding.stop()?.longest_gap(killed);
            println!("node {writer} killed, node {next} writes: {:.2} s", stood_still.as_secs_f64());
            gaps.add(killed, stood_still);
            self.nodes.start(writer)?;
            std::thread::sleep(Duration::from_secs(2));
        }
        self.note("the writer is killed", &cost, gaps.figures());
        Ok(())
    }

    fn server_alone(&self) -> (&'static str, String, u32) {
        ("alone", format!("ldap://{}", self.alone.address()), self.alone.process())
    }

    fn writing(&self) -> Result<(&'static str, String, u32)> {
        let writer = self.nodes.writer()?;
        self.node("at the writer", |node| node == writer)
    }

    fn follower(&self) -> Result<(&'static str, String, u32)> {
        let writer = self.nodes.writer()?;
        self.node("at another node", |node| node != writer)
    }

    fn node(&self, name: &'static str, is_it: impl Fn(usize) -> bool) -> Result<(&'static str, String, u32)> {
        let found = self.nodes.processes().into_iter().find(|(node, _)| is_it(*node));
        let (node, process) = found.ok_or("no such node runs")?;
        Ok((name, format!("ldap://{}", self.nodes.address(node)?), process))
    }

    fn bench(&mut self, step: &str, workload: &str, target: &str, process: u32, more: &[&str]) -> Result<()> {
        let cost = self.processes();
        let figures = self.driver.run(step, workload, target, process, more)?;
        self.note(step, &cost, figures);
        Ok(())
    }
}

/// Generates data with `entries` people and imports it into `to`.
fn make_data(program: &Path, folder: &Path, to: &Path, entries: u64) -> Result<PathBuf> {
    let (ldif, settings, data) = (folder.join("people.ldif"), folder.join("settings.toml"), to.join("data"));
    let text =
        "suffixes = [\"dc=example,dc=com\"]\npassword_scheme = \"ssha\"\n[indexes]\nuid = [\"equality\"]\n";
    std::fs::write(&settings, text)?;
    let pando = |words: &[&str], files: &[&Path]| {
        let mut command = std::process::Command::new(program);
        command.args(words).args(files);
        run_command(command, words)
    };
    pando(&["generate", "people", "--entries", &entries.to_string(), "-o"], &[&ldif])?;
    pando(&["apply", "--data"], &[&data, &settings])?;
    pando(&["import", "--data"], &[&data, &ldif])?;
    std::fs::remove_file(&ldif)?;
    Ok(data)
}

/// Copies a folder, preserving holes in its files.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut command = std::process::Command::new("cp");
    command.args(["-r", "--sparse=always"]).arg(from).arg(to);
    run_command(command, &["cp"]).map(drop)
}
