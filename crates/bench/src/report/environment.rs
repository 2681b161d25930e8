//! The conditions of a run, and the commands that repeat it.

use super::groups::{Groups, Server};
use super::text;
use crate::result::{BulkLoad, Comparison, Environment, RunResult, Tool, WorkloadResult, setting};
use serde::Serialize;

/// Information that a reader needs to judge a run and to repeat it.
#[derive(Debug, Serialize)]
pub(crate) struct EnvironmentView<'a> {
    /// Each machine, with its role.
    machines: Vec<(String, &'a Environment)>,
    servers: Vec<String>,
    /// Name of each setting, and its value for each server.
    settings: Vec<(String, Vec<String>)>,
    loads: Vec<LoadRow<'a>>,
    comparisons: Vec<&'a Comparison>,
    runs: Vec<RunRow<'a>>,
}

#[derive(Debug, PartialEq, Serialize)]
struct LoadRow<'a> {
    server: String,
    template: Option<&'a str>,
    load: &'a BulkLoad,
}

#[derive(Debug, Serialize)]
struct RunRow<'a> {
    started: &'a str,
    command: &'a str,
    tool: &'a Tool,
}

/// Returns the machine and the day, for the heading of the page.
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

pub(crate) fn view<'a>(runs: &'a [RunResult], groups: &Groups<'a>) -> EnvironmentView<'a> {
    let mut machines: Vec<(String, &Environment)> = Vec::new();
    for run in runs {
        let agents = run.workloads.iter().flat_map(|workload| &workload.agents);
        let agents = agents.filter_map(|agent| {
            Some((format!("Load machine {}", agent.address), agent.environment.as_ref()?))
        });
        for machine in std::iter::once(("Load generator".to_owned(), &run.environment)).chain(agents) {
            if !machines.iter().any(|(_, known)| *known == machine.1) {
                machines.push(machine);
            }
        }
    }
    let run_row =
        |run: &'a RunResult| RunRow { started: &run.started, command: &run.command, tool: &run.tool };
    EnvironmentView {
        machines,
        servers: groups.servers.iter().map(|server| server.label.clone()).collect(),
        settings: settings(&groups.servers),
        loads: loads(&groups.servers),
        comparisons: runs.iter().flat_map(|run| &run.comparisons).collect(),
        runs: runs.iter().map(run_row).collect(),
    }
}

/// Returns the settings of the servers: first those that every result should state, then all other stated settings,
/// then data and identity.
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
/// Maximum number of values of one setting that are shown, because a setting may change with the workload.
const VALUES_PRINTED_MAX: usize = 6;

fn distinct(values: impl Iterator<Item = String>) -> String {
    let mut unique: Vec<String> = Vec::new();
    for value in values {
        if !unique.contains(&value) {
            unique.push(value);
        }
    }
    let more = unique.len().saturating_sub(VALUES_PRINTED_MAX);
    unique.truncate(VALUES_PRINTED_MAX);
    match (unique.is_empty(), more) {
        (true, _) => NOT_STATED.to_owned(),
        (false, 0) => unique.join(" · "),
        (false, more) => format!("{} and {more} more, by workload", unique.join(" · ")),
    }
}

fn loads<'a>(servers: &[Server<'a>]) -> Vec<LoadRow<'a>> {
    let mut rows = Vec::new();
    for server in servers {
        for result in &server.results {
            let Some(load) = &result.server.bulk_load else { continue };
            let template = result.server.data.as_ref().map(|data| data.template.as_str());
            let row = LoadRow { server: server.label.clone(), template, load };
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
    }
    rows
}
