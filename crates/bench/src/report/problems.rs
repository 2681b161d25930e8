//! Problems that a reader must know before relying on a figure. They are listed at the top of the page, and again with
//! the figure.

use super::groups::Groups;
use super::text;
use crate::result::{RunResult, WorkloadResult};
use serde::Serialize;
use std::collections::BTreeSet;

/// A problem of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    /// Server and workload.
    pub(crate) subject: String,
    /// Anchor of the section of the page that shows the problem.
    pub(crate) anchor: Option<String>,
    pub(crate) text: String,
}

/// Returns the problems of one result as text, the most serious first.
pub(crate) fn problems_of(result: &WorkloadResult) -> Vec<String> {
    let mut problems = Vec::new();
    if result.unsupported.is_some() && result.complete {
        // The page shows why the workload is unsupported. The errors that follow from this reason are not reported in
        // addition.
        return result.failures.clone();
    }
    let operations = result.operations_total();
    let share = |count: u64| {
        let percent = 100.0 * count as f64 / operations.max(1) as f64;
        let percent = if percent < 0.01 { "less than 0.01".to_owned() } else { format!("{percent:.2}") };
        format!("{} of {} ({percent}%)", text::count(count), text::count(operations))
    };
    let wrong = result.wrong_answers_total();
    if wrong > 0 {
        problems.push(format!("wrong answers: {}{}", share(wrong), examples(result)));
    }
    if let Some(reason) = result.unsupported.as_ref().filter(|_| !result.complete) {
        problems.push(format!("could not be measured: {reason}"));
    } else if !result.complete {
        let planned =
            result.parameters.duration_seconds.map(|planned| format!(" of {}", text::duration(planned)));
        let measured = text::duration(result.measured_seconds);
        problems
            .push(format!("did not run to its end: measured for {measured}{}", planned.unwrap_or_default()));
    }
    for agent in result.agents.iter().filter(|agent| !agent.complete) {
        let failure = agent.failure.as_deref().unwrap_or("no reason given");
        problems.push(format!("load machine {} failed: {failure}", agent.address));
    }
    if result.connections_closed > 0 {
        let connections = text::count(result.parameters.connections);
        problems.push(format!(
            "connections closed under load: {} (there were {connections})",
            text::count(result.connections_closed)
        ));
    }
    let errors = result.errors_total();
    if errors > 0 {
        let codes = unexpected_codes(result);
        let shown = if wrong > 0 { String::new() } else { examples(result) };
        problems.push(format!("unexpected result codes: {}{codes}{shown}", share(errors)));
    }
    if result.unanswered > 0 {
        problems.push(format!("requests without an answer: {}", text::count(result.unanswered)));
    }
    problems.extend(result.failures.iter().cloned());
    problems
}

fn examples(result: &WorkloadResult) -> String {
    let example = result.operations.values().flat_map(|totals| &totals.examples).next();
    example.map(|example| format!(", such as: {example}")).unwrap_or_default()
}

fn unexpected_codes(result: &WorkloadResult) -> String {
    let codes: BTreeSet<u32> = result
        .operations
        .values()
        .filter(|totals| totals.errors > 0)
        .flat_map(|totals| totals.result_codes.keys().copied().filter(|code| *code != 0))
        .collect();
    let names: Vec<_> = codes.iter().map(|code| format!("{}", ldap::ResultCode(*code))).collect();
    if names.is_empty() { String::new() } else { format!(", codes: {}", names.join(", ")) }
}

/// Returns the problems of all runs.
pub(crate) fn all(
    runs: &[RunResult],
    groups: &Groups<'_>,
    anchor_of: impl Fn(usize) -> String,
) -> Vec<Problem> {
    let mut problems = of_runs(runs);
    let mut add = |subject: String, anchor: String, result: &WorkloadResult| {
        problems.extend(problems_of(result).into_iter().map(|text| {
            let anchor = Some(anchor.clone());
            Problem { subject: subject.clone(), anchor, text }
        }));
    };
    for (index, group) in groups.groups.iter().enumerate() {
        for row in &group.rows {
            for round in &row.rounds {
                let of_round =
                    if row.rounds.len() > 1 { format!(", round {}", round.round) } else { String::new() };
                let subject = format!("{}, {}{of_round}", groups.servers[row.server].label, group.title);
                add(subject, anchor_of(index), round);
            }
        }
    }
    for (_, server, result) in &groups.sweeps {
        let subject = format!("{}, sweep of {}", groups.servers[*server].label, result.title);
        add(subject, "sweeps".to_owned(), result);
    }
    without_repetition(problems)
}

/// Merges equal problems, such as the same problem with several data sets.
fn without_repetition(problems: Vec<Problem>) -> Vec<Problem> {
    let mut counted: Vec<(Problem, usize)> = Vec::new();
    for problem in problems {
        match counted.iter_mut().find(|(other, _)| *other == problem) {
            Some((_, count)) => *count += 1,
            None => counted.push((problem, 1)),
        }
    }
    let texts = counted.into_iter().map(|(problem, count)| match count {
        1 => problem,
        _ => Problem { text: format!("{} ({count} times)", problem.text), ..problem },
    });
    texts.collect()
}

fn of_runs(runs: &[RunResult]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut add = |subject: &str, anchor: &str, text: String| {
        let anchor = Some(anchor.to_owned());
        problems.push(Problem { subject: subject.to_owned(), anchor, text });
    };
    if runs.iter().any(|run| run.tool.is_debug_build) {
        let text = "a debug build of the load generator measured; its figures mean little".to_owned();
        add("Load generator", "environment", text);
    }
    let machines: BTreeSet<_> = runs
        .iter()
        .map(|run| (&run.environment.cpu_model, run.environment.cpus, run.environment.memory_bytes))
        .collect();
    if machines.len() > 1 {
        let text = format!(
            "these results come from {} different machines; ratios between them mean little",
            machines.len()
        );
        add("Machines", "environment", text);
    }
    for comparison in
        runs.iter().flat_map(|run| &run.comparisons).filter(|comparison| comparison.differing > 0)
    {
        let text = format!(
            "{} of {} requests got different answers",
            text::count(comparison.differing),
            text::count(comparison.requests)
        );
        add(&format!("{}, {}", comparison.servers.join(" and "), comparison.workload), "answers", text);
    }
    for limit in runs.iter().flat_map(|run| &run.limits) {
        for text in problems_of(limit) {
            add("Null responder", "environment", text);
        }
    }
    if runs.iter().all(|run| run.workloads.is_empty()) {
        add("Results", "environment", "nothing was measured".to_owned());
    }
    problems
}
