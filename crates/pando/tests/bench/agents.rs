//! A load from several machines: agents are processes of the real binary, and one is killed while it measures.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bench::agents::{Machines, Token};
use bench::driver::{Options, Phase};
use bench::report::Report;
use bench::result::{Environment, Load, RunResult};
use bench::workload::Workload;
use test_support::pando::{Start, program};
use test_support::{ADMIN_PASSWORD, Pando, Scratch};

const TOKEN: &str = "a secret that both sides know";
/// Workload that searches for a random person by uid, and checks each answer.
const SEARCH: &str = r#"
title = "Search"
[data]
template = "oid"
rdn = "uid"
dn = "uid=user.{n},ou=oracle,dc=com"
[[job]]
clients = 5
[[job.operation]]
kind = "search"
base = "dc=com"
scope = "sub"
filter = "(uid=user.{n})"
attributes = ["1.1"]
order = "random"
dn = "uid=user.{n},ou=oracle,dc=com"
"#;
const ENTRIES: &str = "500";

/// The process of an agent. Dropping this value kills the process.
struct AgentProcess {
    child: Child,
    address: String,
}

impl AgentProcess {
    fn start(scratch: &Scratch) -> AgentProcess {
        let token = scratch.write("token", format!("{TOKEN}\n"));
        let mut child = Command::new(program())
            .args(["bench", "agent", "--listen", "127.0.0.1:0", "--token-file"])
            .arg(token)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit(' ').next().unwrap().to_owned();
        assert!(line.contains("load agent waits on 127.0.0.1:"), "{line:?}");
        AgentProcess { child, address }
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts a server with the people of the template that the workload names.
fn server(scratch: &Scratch) -> Pando {
    let ldif = scratch.join("people.ldif");
    let data = scratch.join("data");
    let run = |command: &mut Command| {
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(Command::new(program()).args(["generate", "oid", "--entries", ENTRIES, "-o"]).arg(&ldif));
    run(Command::new(program()).args(["import", "--suffix", "dc=com", "--data"]).arg(&data).arg(&ldif));
    Start::bare(scratch, "data").arguments(&["--suffix", "dc=com", "--anonymous-read"]).ready()
}

fn options(seconds: u64) -> Options {
    Options {
        entries: Some(ENTRIES.parse().unwrap()),
        duration: Some(Duration::from_secs(seconds)),
        warm_up: Some(Duration::ZERO),
        ..Options::default()
    }
}

#[test]
fn two_load_machines_measure_as_one() {
    let scratch = Scratch::new("agents-two");
    let pando = server(&scratch);
    let agents = [AgentProcess::start(&scratch), AgentProcess::start(&scratch)];
    let workload = scratch.write("search.toml", SEARCH);
    let result = scratch.join("result.json");
    let output = Command::new(program())
        .args(["bench", "run", "--duration", "2s", "--warmup", "0s", "--entries", ENTRIES, "--workload"])
        .arg(&workload)
        .args(["--target", &format!("ldap://{}", pando.address())])
        .args(["--agents", &format!("{},{}", agents[0].address, agents[1].address), "--token-file"])
        .arg(scratch.join("token"))
        .args(["--server-pid", &pando.id().to_string(), "-o"])
        .arg(&result)
        .env("PANDO_ADMIN_PASSWORD", ADMIN_PASSWORD)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let run = RunResult::read(&result).unwrap();
    let [search] = run.workloads.as_slice() else { panic!("{said}") };
    assert!(search.is_clean(), "{:?}", search.failures);
    assert!(search.server.product.starts_with("Pando"), "{:?}", search.server.product);
    assert_eq!((search.parameters.connections, search.parameters.load), (5, Load::Closed));
    let [one, other] = search.agents.as_slice() else { panic!("{:?}", search.agents) };
    assert!(one.complete && other.complete && one.operations > 0 && other.operations > 0);
    assert_eq!(one.operations + other.operations, search.operations_total());
    assert_eq!(search.latency().count(), search.operations_total(), "histograms add up exactly");
    let of_seconds: u64 = search.seconds.iter().map(|second| second.operations_total()).sum();
    assert_eq!(of_seconds, search.operations_total(), "so do seconds");
    assert!(
        search.seconds.iter().all(|second| second.latency.is_none()),
        "which are not saved with histograms"
    );
    // All processes run on one machine, so their clocks must be measured as equal.
    for agent in &search.agents {
        let (offset, error) = (agent.clock_offset_micros.unwrap(), agent.clock_error_micros.unwrap());
        assert!(offset.unsigned_abs() <= error + 1000, "{offset} ± {error}");
        assert!(agent.environment.as_ref().is_some_and(|environment| environment.cpus.is_some()));
    }
    assert!(
        search.cost.as_ref().is_some_and(|cost| cost.cpu_micros > 0),
        "the server is on the coordinator's machine"
    );
}

#[test]
fn a_run_reports_a_load_machine_that_died() {
    let scratch = Scratch::new("agents-dead");
    let pando = server(&scratch);
    let survivor = AgentProcess::start(&scratch);
    let mut victim = AgentProcess::start(&scratch);
    let dead = victim.address.clone();
    let addresses = [survivor.address.clone(), dead.clone()];
    let mut machines = Machines::connect(&addresses, &Token::new(TOKEN).unwrap()).unwrap();
    let workload = Workload::parse("search.toml", SEARCH).unwrap();
    let targets = [format!("ldap://{}", pando.address())];
    let result = machines.run(&workload, &targets, &options(4), &mut |progress| {
        // Kill the agent after both agents have measured for a second.
        if progress.phase == Phase::Measure && progress.second.is_some() {
            victim.kill();
        }
    });
    let result = result.unwrap();
    assert!(!result.complete && !result.is_clean());
    assert!(result.agents[0].complete && result.agents[0].operations > 0);
    assert!(!result.agents[1].complete);
    assert!(
        result.agents[1].failure.as_ref().unwrap().contains("connection is closed"),
        "{:?}",
        result.agents[1]
    );
    assert!(result.failures.iter().any(|failure| failure.contains(&dead)), "{:?}", result.failures);
    assert_eq!(result.operations_total(), result.agents[0].operations, "what is lost is not guessed");
    let mut run = RunResult::begin("pando bench run".to_owned(), Environment::default());
    run.workloads.push(result);
    let page = Report::new(vec![run]).html().unwrap();
    let banner = &page[page.find("role=\"alert\"").expect("a banner")..];
    assert!(banner.contains(&format!("load machine {dead} failed")), "in the report as well");

    // If an agent is lost, a further run is refused, because its results would not cover all machines.
    let error = machines.run(&workload, &targets, &options(1), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains(&dead), "{error}");
}

#[test]
fn a_coordinator_without_the_token_gets_nothing() {
    let scratch = Scratch::new("agents-token");
    let agent = AgentProcess::start(&scratch);
    let addresses = [agent.address.clone()];
    // A silent client does not prevent others from connecting.
    let _silent = TcpStream::connect(&agent.address).unwrap();
    let wrong = Machines::connect(&addresses, &Token::new("another secret, long enough").unwrap());
    assert!(wrong.err().unwrap().to_string().contains("the token is not this agent's"));
    let first = Machines::connect(&addresses, &Token::new(TOKEN).unwrap()).unwrap();
    let busy = Machines::connect(&addresses, &Token::new(TOKEN).unwrap());
    assert!(busy.err().unwrap().to_string().contains("works for another coordinator"));
    drop(first);
    let short = scratch.write("short", "abc");
    let output =
        Command::new(program()).args(["bench", "agent", "--token-file"]).arg(short).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(fs::read_to_string(scratch.join("token")).is_ok());
}

#[test]
fn a_workload_that_fails_on_one_machine_fails_before_it_measures() {
    let scratch = Scratch::new("agents-fail");
    let agents = [AgentProcess::start(&scratch), AgentProcess::start(&scratch)];
    let addresses = agents.each_ref().map(|agent| agent.address.clone());
    let mut machines = Machines::connect(&addresses, &Token::new(TOKEN).unwrap()).unwrap();
    let workload = Workload::parse("search.toml", SEARCH).unwrap();
    // No server listens at this address.
    let targets = ["ldap://127.0.0.1:1".to_owned()];
    let error = machines.run(&workload, &targets, &options(1), &mut |_| {}).unwrap_err();
    assert!(addresses.iter().any(|address| error.to_string().contains(address)), "{error}");
}
