//! The conditions under which a run measured, and how to measure again.

use super::groups::{Groups, Server};
use super::text::{self, NOTHING};
use crate::result::{Environment, Load, RunResult, WorkloadResult, setting};
use serde::Serialize;

/// All that is needed to judge and to rerun.
#[derive(Debug, Serialize)]
pub(crate) struct EnvironmentView {
    /// One for each machine.
    machines: Vec<Machine>,
    servers: Vec<String>,
    /// Name, and the value for each server.
    settings: Vec<(String, Vec<String>)>,
    loads: Vec<LoadRow>,
    comparisons: Vec<ComparisonRow>,
    runs: Vec<RunRow>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Machine {
    title: String,
    rows: Vec<(&'static str, String)>,
}

#[derive(Debug, PartialEq, Serialize)]
struct LoadRow {
    server: String,
    cells: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ComparisonRow {
    workload: String,
    servers: String,
    requests: String,
    differing: String,
    is_flagged: bool,
    examples: Vec<String>,
}

#[derive(Debug, Serialize)]
struct RunRow {
    started: String,
    command: String,
    tool: String,
}

/// The machine and the day, for the head of the page.
pub(crate) fn subtitle(runs: &[RunResult]) -> String {
    let Some(run) = runs.first() else { return String::new() };
    let environment = &run.environment;
    let mut parts = vec![run.started.chars().take(10).collect::<String>()];
    let cpus = environment.cpus.map(|cpus| format!("{cpus} × ")).unwrap_or_default();
    parts.extend(environment.cpu_model.as_ref().map(|model| format!("{cpus}{model}")));
    parts.extend(environment.memory_bytes.map(|bytes| text::bytes(bytes as f64)));
    parts.extend(environment.kernel.clone());
    parts.join(" · ")
}

/// The load, one line each.
pub(crate) fn parameters(result: &WorkloadResult) -> Vec<(String, String)> {
    let parameters = &result.parameters;
    let mut rows = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        rows.extend(value.filter(|value| !value.is_empty()).map(|value| (name.to_owned(), value)));
    };
    let load = match parameters.load {
        Load::Closed => "closed loop: the next request is sent when an answer is there".to_owned(),
        Load::Open { per_second } => {
            format!("open loop at {}/s: latency counts from the intended start", text::rate(per_second))
        }
    };
    add("Load", Some(load));
    add("Connections", Some(text::count(parameters.connections)));
    add("Connections a server process", parameters.connections_per_server_process.map(text::count));
    add("Outstanding on each", Some(text::count(parameters.outstanding)));
    add("Threads of the load generator", parameters.load_threads.map(text::count));
    let planned = parameters.duration_seconds.map_or("until done".to_owned(), text::duration);
    add(
        "Measured",
        Some(format!("{planned}, after {} of warm-up", text::duration(parameters.warm_up_seconds))),
    );
    add(
        "Keys",
        Some(parameters.key_order.clone())
            .filter(|order| !order.is_empty())
            .map(|order| format!("{order}, seed {}", parameters.seed)),
    );
    add("Load machines", (!result.agents.is_empty()).then(|| agents(result)));
    rows
}

fn agents(result: &WorkloadResult) -> String {
    let agents = result.agents.iter().map(|agent| {
        let state = if agent.complete { "complete" } else { "failed" };
        let clock = agent.clock_offset_micros.map(|offset| {
            format!(", clock {offset:+} µs ± {}", agent.clock_error_micros.unwrap_or_default())
        });
        format!(
            "{} ({state}, {} operations{})",
            agent.address,
            text::count(agent.operations),
            clock.unwrap_or_default()
        )
    });
    agents.collect::<Vec<_>>().join("; ")
}

pub(crate) fn view(runs: &[RunResult], groups: &Groups<'_>) -> EnvironmentView {
    let mut machines: Vec<Machine> = Vec::new();
    let mut add = |title: String, environment: &Environment| {
        let rows = machine_rows(environment);
        if !machines.iter().any(|machine| machine.rows == rows) {
            machines.push(Machine { title, rows });
        }
    };
    for run in runs {
        add("Load generator".to_owned(), &run.environment);
        for agent in run.workloads.iter().flat_map(|workload| &workload.agents) {
            if let Some(environment) = &agent.environment {
                add(format!("Load machine {}", agent.address), environment);
            }
        }
    }
    EnvironmentView {
        machines,
        servers: groups.servers.iter().map(|server| server.label.clone()).collect(),
        settings: settings(&groups.servers),
        loads: loads(&groups.servers),
        comparisons: comparisons(runs),
        runs: runs.iter().map(run_row).collect(),
    }
}

fn machine_rows(environment: &Environment) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    let mut add = |name: &'static str, value: Option<String>| rows.extend(value.map(|value| (name, value)));
    add("Processor", environment.cpu_model.clone());
    let cpus = environment.cpus.map(|cpus| match environment.cores {
        Some(cores) if cores != cpus => format!("{cpus} processors on {cores} cores"),
        _ => text::count(cpus),
    });
    add("Processors", cpus);
    add("Clock governor", environment.frequency_governor.clone());
    add("Memory", environment.memory_bytes.map(|bytes| text::bytes(bytes as f64)));
    add("Kernel", environment.kernel.clone());
    add("System", environment.system.clone());
    let machine = environment.is_virtual.map(|is_virtual| if is_virtual { "virtual" } else { "not virtual" });
    add("Machine", machine.map(str::to_owned));
    let pinned = |cpus: &Option<String>| match cpus {
        Some(cpus) => format!("on processors {cpus}"),
        None => "not pinned".to_owned(),
    };
    add("Load generator", Some(pinned(&environment.load_generator_cpus)));
    let shared = environment.is_shared_with_server.unwrap_or_default() || environment.server_cpus.is_some();
    let server = if shared {
        format!("on this machine, {}", pinned(&environment.server_cpus))
    } else {
        "its machine is not known".to_owned()
    };
    add("Server", Some(server));
    rows
}

/// What every result should state first, then whatever else is stated, then data and identity.
fn settings(servers: &[Server<'_>]) -> Vec<(String, Vec<String>)> {
    let mut names: Vec<&str> = setting::ALL.to_vec();
    for server in servers {
        for name in server
            .results
            .iter()
            .flat_map(|result| &result.server.settings)
            .map(|setting| setting.name.as_str())
        {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    let mut row = |name: &str, value: &dyn Fn(&WorkloadResult) -> Option<String>| {
        let values =
            servers.iter().map(|server| distinct(server.results.iter().filter_map(|result| value(result))));
        rows.push((name.to_owned(), values.collect()));
    };
    for name in names {
        row(name, &|result| result.server.setting(name).map(str::to_owned));
    }
    row("bind identity", &|result| Some(result.server.bind_identity.clone()).filter(|name| !name.is_empty()));
    row("entries", &|result| result.server.entries.map(text::count));
    row("data", &|result| {
        let data = result.server.data.as_ref()?;
        let each =
            data.entry_bytes.map(|bytes| format!(", {bytes} octets of LDIF an entry")).unwrap_or_default();
        Some(format!("template {}, seed {}{each}", data.template, data.seed))
    });
    row("memory limit", &|result| result.server.memory_limit_bytes.map(|bytes| text::bytes(bytes as f64)));
    row("address", &|result| Some(result.server.uris.join(" ")).filter(|uris| !uris.is_empty()));
    rows.retain(|(name, values)| {
        setting::ALL.contains(&name.as_str()) || values.iter().any(|value| value != NOT_STATED)
    });
    rows
}

const NOT_STATED: &str = "not stated";
/// Values of one setting that are shown: it may change with the workload.
const VALUES_SHOWN_MAX: usize = 6;

fn distinct(values: impl Iterator<Item = String>) -> String {
    let mut kept: Vec<String> = Vec::new();
    for value in values {
        if !kept.contains(&value) {
            kept.push(value);
        }
    }
    let more = kept.len().saturating_sub(VALUES_SHOWN_MAX);
    kept.truncate(VALUES_SHOWN_MAX);
    match (kept.is_empty(), more) {
        (true, _) => NOT_STATED.to_owned(),
        (false, 0) => kept.join(" · "),
        (false, more) => format!("{} and {more} more, by workload", kept.join(" · ")),
    }
}

fn loads(servers: &[Server<'_>]) -> Vec<LoadRow> {
    let mut rows = Vec::new();
    for server in servers {
        for result in &server.results {
            let Some(load) = &result.server.bulk_load else { continue };
            let or_nothing = |value: Option<String>| value.unwrap_or(NOTHING.to_owned());
            let bytes = |bytes: Option<u64>| or_nothing(bytes.map(|bytes| text::bytes(bytes as f64)));
            let cells = vec![
                load.loader.clone(),
                or_nothing(result.server.data.as_ref().map(|data| data.template.clone())),
                text::count(load.entries),
                bytes(load.ldif_bytes),
                text::duration(load.seconds),
                text::rate(load.entries as f64 / load.seconds.max(0.001)),
                or_nothing(load.cpu_seconds.map(text::duration)),
                bytes(load.rss_anon_peak_bytes.or(load.rss_peak_bytes)),
                bytes(load.disk_bytes),
                or_nothing(load.export_seconds.map(text::duration)),
            ];
            let row = LoadRow { server: server.label.clone(), cells };
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
    }
    rows
}

fn comparisons(runs: &[RunResult]) -> Vec<ComparisonRow> {
    let rows = runs.iter().flat_map(|run| &run.comparisons).map(|comparison| ComparisonRow {
        workload: comparison.workload.clone(),
        servers: comparison.servers.join(", "),
        requests: text::count(comparison.requests),
        differing: text::count(comparison.differing),
        is_flagged: comparison.differing > 0,
        examples: comparison.examples.clone(),
    });
    rows.collect()
}

fn run_row(run: &RunResult) -> RunRow {
    let commit = run.tool.commit.as_ref().map(|commit| format!(", commit {commit}")).unwrap_or_default();
    let build = if run.tool.is_debug_build { ", debug build" } else { "" };
    RunRow {
        started: run.started.clone(),
        command: run.command.clone(),
        tool: format!("pando {}{commit}{build}", run.tool.version),
    }
}
