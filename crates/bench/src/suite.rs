//! A suite is a file with measurements and with goals for their figures.
//!
//! Each step is a command of `pando bench` without its result file, such as
//! `peers --peers openldap --workloads people-search`, so a suite can measure everything that the command can. A goal
//! is about one figure of one server in one workload of one step, or about the ratio of this figure to the figure of
//! another server. All figures come from the results, so a suite can be evaluated again from its folder.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;
use strum::Display;

use crate::peers::Product;
use crate::peers::ratios::median;
use crate::result::{OperationKind, RunResult, Second, WorkloadResult};

/// Name by which goals refer to the null responder.
const NULL: &str = "null";

/// The subcommands of `pando bench` that a step may use. Each of them writes one result file.
const VERBS: [&str; 3] = ["peers", "run", "sweep"];

/// A suite, in the form of its file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// Title of the suite on the page.
    pub title: String,
    /// Text for the reader.
    #[serde(default)]
    pub about: String,
    /// Variables that steps use as `{name}`, and that the command line may set.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    /// The measurements, in this order.
    #[serde(rename = "step")]
    pub steps: Vec<Step>,
    /// Goals of the figures.
    #[serde(default, rename = "goal")]
    pub goals: Vec<Goal>,
}

/// A step of a suite: one command.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Name of the step in goals: lower-case letters, digits and hyphens. The result of the step is `NAME.json.zst`.
    pub name: String,
    /// The subcommand of `pando bench` and its options, separated by spaces. File names are relative to the suite's
    /// folder.
    pub run: String,
}

/// Wanted limit of a figure: exactly one of `at_least` and `at_most` is set.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Goal {
    /// Subject of the goal in the table; empty if the goal has the same subject as the previous goal.
    #[serde(default)]
    pub title: String,
    /// The figure that the goal limits.
    pub figure: Figure,
    /// Kind of operation; `None` for all kinds in total.
    #[serde(default)]
    pub kind: Option<OperationKind>,
    /// Server to which the figure belongs.
    pub of: Source,
    /// Servers whose figure is the divisor; empty for no division. If there are several, the figure that makes the goal
    /// hardest to reach is used.
    #[serde(default)]
    pub over: Vec<Source>,
    /// Lower limit.
    #[serde(default)]
    pub at_least: Option<f64>,
    /// Upper limit.
    #[serde(default)]
    pub at_most: Option<f64>,
}

/// A figure of a result. If there are several rounds, the figure is the median over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Display)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Right answers a second.
    #[strum(serialize = "operations a second")]
    PerSecond,
    /// CPU time of the server for an operation, in microseconds.
    #[strum(serialize = "server CPU an operation, us")]
    CpuMicros,
    /// The latency, in microseconds, that half of the operations did not exceed.
    #[strum(serialize = "p50, us")]
    P50Micros,
    /// Latency that 99% of the operations did not exceed.
    #[strum(serialize = "p99, us")]
    P99Micros,
    /// Latency that 99.9% of the operations did not exceed.
    #[strum(serialize = "p99.9, us")]
    P999Micros,
    /// Share of the seconds whose rate is within 15% of the median rate.
    #[strum(serialize = "share of the seconds within 15% of the median rate")]
    SteadySeconds,
    /// Rise of the linear trend of the rates from the first second to the last, as a share of the mean rate.
    #[strum(serialize = "rise of the rate from begin to end")]
    RateTrend,
    /// Maximum private memory of the server in the last quarter of the time, as a multiple of the maximum in the second
    /// quarter.
    #[strum(serialize = "private memory of the last quarter / the second")]
    MemoryGrowth,
    /// Private memory of the server at its peak, in MiB.
    #[strum(serialize = "private memory, MiB")]
    PrivateMib,
    /// Entries a second of the server's own loader.
    #[strum(serialize = "entries loaded a second")]
    LoadedPerSecond,
    /// Private memory of the loader at its peak, in MiB.
    #[strum(serialize = "private memory of the loader, MiB")]
    LoaderMib,
    /// Octets on the disk after loading, per octet of LDIF.
    #[strum(serialize = "disk / LDIF")]
    DiskPerLdif,
    /// Megabytes of LDIF that the server's own export writes per second.
    #[strum(serialize = "MB exported a second")]
    ExportedMbPerSecond,
}

/// A server in a workload of a step, written as `STEP/WORKLOAD/SERVER`, or as `STEP/WORKLOAD/SERVER/VALUE` in a sweep.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Source {
    step: String,
    workload: String,
    server: String,
    value: Option<u64>,
}

/// Error of a suite.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// The file is not TOML, or does not have the form of a suite.
    #[error("{file}: {error}")]
    Form {
        /// The file.
        file: String,
        /// The error, with its line.
        error: Box<toml::de::Error>,
    },
    /// The file has the form of a suite, but contradicts itself.
    #[error("{file}: {message}")]
    Content {
        /// The file.
        file: String,
        /// Description of the error and of the correct form.
        message: String,
    },
}

/// Outcome of a goal.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The figure meets the goal.
    Reached(f64),
    /// The figure does not meet the goal.
    Missed(f64),
    /// There is no reliable figure. Contains the reason.
    NotMeasured(String),
}

/// A goal with its outcome.
#[derive(Clone, Debug)]
pub struct Verdict<'s> {
    /// The goal.
    pub goal: &'s Goal,
    /// The outcome.
    pub outcome: Outcome,
    /// The figures from which the outcome was computed, each with its source.
    pub figures: Vec<(&'s Source, f64)>,
}

impl TryFrom<String> for Source {
    type Error = String;

    fn try_from(text: String) -> Result<Source, String> {
        let wrong =
            || format!("'{text}' is no source: write STEP/WORKLOAD/SERVER, for a sweep followed by /VALUE");
        let parts: Vec<&str> = text.split('/').collect();
        let (names, value) = match parts.as_slice() {
            [names @ .., value] if names.len() == 3 => (names, Some(value.parse().map_err(|_| wrong())?)),
            names => (names, None),
        };
        let [step, workload, server] = names else { return Err(wrong()) };
        if server != &NULL && !Product::ALL.iter().any(|product| product.name() == *server) {
            return Err(format!(
                "'{server}' is no server: pando, openldap, ds389, opendj, or null for the null responder"
            ));
        }
        let own = |text: &&str| (*text).to_owned();
        Ok(Source { step: own(step), workload: own(workload), server: own(server), value })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}/{}", self.step, self.workload, self.server)?;
        self.value.map_or(Ok(()), |value| write!(formatter, "/{value}"))
    }
}

impl Suite {
    /// Reads a suite, and replaces the values of some of its variables.
    ///
    /// # Errors
    /// The text is not a suite, a step or a goal refers to something unknown, or `set` names an unknown variable.
    pub fn parse(file: &str, text: &str, set: &[(String, String)]) -> Result<Suite, SuiteError> {
        let mut suite: Suite = toml::from_str(text)
            .map_err(|error| SuiteError::Form { file: file.to_owned(), error: Box::new(error) })?;
        let content = |message| SuiteError::Content { file: file.to_owned(), message };
        for (name, value) in set {
            let Some(variable) = suite.variables.get_mut(name) else {
                let known: Vec<_> = suite.variables.keys().map(String::as_str).collect();
                return Err(content(format!("there is no variable {name}; there are: {}", known.join(", "))));
            };
            variable.clone_from(value);
        }
        suite.expand().map_err(content)?;
        suite.check().map_err(content)?;
        Ok(suite)
    }

    /// Replaces variables in the steps by their values.
    fn expand(&mut self) -> Result<(), String> {
        for step in &mut self.steps {
            for (name, value) in &self.variables {
                step.run = step.run.replace(&format!("{{{name}}}"), value);
            }
            if let Some(at) = step.run.find('{') {
                let rest = step.run.get(at..).unwrap_or_default();
                return Err(format!("step {}: there is no variable for {rest}", step.name));
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let mut names = BTreeSet::new();
        for Step { name, run } in &self.steps {
            let is_good = |octet: u8| matches!(octet, b'a'..=b'z' | b'0'..=b'9' | b'-');
            if name.is_empty() || !name.bytes().all(is_good) {
                return Err(format!("step '{name}': a name has lower-case letters, digits and hyphens"));
            }
            if !names.insert(name.as_str()) {
                return Err(format!("there are two steps {name}"));
            }
            let verb = run.split_whitespace().next().unwrap_or_default();
            if !VERBS.contains(&verb) {
                return Err(format!("step {name}: '{verb}' is none of {}", VERBS.join(", ")));
            }
        }
        let mut title = "";
        for goal in &self.goals {
            title = if goal.title.is_empty() { title } else { &goal.title };
            if goal.at_least.is_some() == goal.at_most.is_some() {
                return Err(format!("goal '{title}': one of at_least and at_most is to be there"));
            }
            if let Some(source) = goal.sources().find(|source| !names.contains(source.step.as_str())) {
                return Err(format!("goal '{title}': there is no step {}", source.step));
            }
        }
        Ok(())
    }

    /// Compares the goals with the results of the steps. The keys of `results` are the names of the steps.
    pub fn verdicts(&self, results: &BTreeMap<String, RunResult>) -> Vec<Verdict<'_>> {
        self.goals.iter().map(|goal| goal.verdict(results)).collect()
    }
}

impl Goal {
    fn sources(&self) -> impl Iterator<Item = &Source> {
        std::iter::once(&self.of).chain(&self.over)
    }

    fn verdict(&self, results: &BTreeMap<String, RunResult>) -> Verdict<'_> {
        let mut figures = Vec::new();
        for source in self.sources() {
            match source.figure(self, results) {
                Ok(figure) => figures.push((source, figure)),
                Err(why) => {
                    let outcome = Outcome::NotMeasured(format!("{source}: {why}"));
                    return Verdict { goal: self, outcome, figures };
                }
            }
        }
        let mut values = figures.iter().map(|(_, figure)| *figure);
        let own = values.next().unwrap_or_default();
        // If there are several divisors, the figure that makes the goal hardest to reach is used: the greatest with
        // `at_least`, the least with `at_most`.
        let others = if self.at_least.is_some() { values.reduce(f64::max) } else { values.reduce(f64::min) };
        let value = others.map_or(own, |others| own / others);
        let is_reached = self.at_least.is_none_or(|wanted| value >= wanted)
            && self.at_most.is_none_or(|wanted| value <= wanted);
        let outcome = match value.is_finite() {
            true if is_reached => Outcome::Reached(value),
            true => Outcome::Missed(value),
            false => Outcome::NotMeasured("what it is divided by is 0".to_owned()),
        };
        Verdict { goal: self, outcome, figures }
    }

    /// Describes the goal in words.
    pub fn wanted(&self) -> String {
        let mut text = self.figure.to_string();
        if let Some(kind) = self.kind {
            text = format!("{text} of {kind}");
        }
        let others: Vec<_> = self.over.iter().map(Source::to_string).collect();
        if !others.is_empty() {
            text = format!("{text} / that of {}", others.join(", "));
        }
        match (self.at_least, self.at_most) {
            (Some(wanted), _) => format!("{text}, at least {wanted}"),
            (_, Some(wanted)) => format!("{text}, at most {wanted}"),
            (None, None) => text,
        }
    }
}

impl Figure {
    /// Returns the figure of one round; `None` if the round's result does not contain it.
    fn of(self, result: &WorkloadResult, kind: Option<OperationKind>) -> Option<f64> {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let percentile = |percent| {
            let latency = match kind {
                Some(kind) => result.operations.get(&kind)?.latency.clone(),
                None => result.latency(),
            };
            latency.percentile_micros(percent).map(|micros| micros as f64)
        };
        let load = result.server.bulk_load.as_ref();
        match self {
            Figure::PerSecond => match kind {
                Some(kind) => Some(result.operations.get(&kind)?.operations as f64 / result.measured_seconds),
                None => Some(result.per_second),
            },
            Figure::CpuMicros => Some(result.cost.as_ref()?.cpu_micros_per_operation),
            Figure::P50Micros => percentile(50.0),
            Figure::P99Micros => percentile(99.0),
            Figure::P999Micros => percentile(99.9),
            Figure::SteadySeconds => steady_share(&rates(result, kind)),
            Figure::RateTrend => trend(&rates(result, kind)),
            Figure::MemoryGrowth => memory_growth(result),
            Figure::PrivateMib => result.cost.as_ref()?.rss_anon_peak_bytes.map(mib),
            Figure::LoadedPerSecond => load.map(|load| load.entries as f64 / load.seconds),
            Figure::LoaderMib => load?.rss_anon_peak_bytes.map(mib),
            Figure::DiskPerLdif => Some(load?.disk_bytes? as f64 / load?.ldif_bytes? as f64),
            Figure::ExportedMbPerSecond => Some(load?.export_bytes? as f64 / 1e6 / load?.export_seconds?),
        }
    }
}

/// Returns the number of right answers in each second.
fn rates(result: &WorkloadResult, kind: Option<OperationKind>) -> Vec<f64> {
    let of = |second: &Second| match kind {
        Some(kind) => second.operations.get(&kind).copied().unwrap_or_default(),
        None => second.operations_total(),
    };
    result.seconds.iter().map(|second| of(second) as f64).collect()
}

/// Maximum distance of a steady second's rate from the median rate, as a share of the median.
const STEADY: f64 = 0.15;

fn steady_share(rates: &[f64]) -> Option<f64> {
    let middle = median(rates.to_vec())?;
    let near = rates.iter().filter(|rate| (**rate - middle).abs() <= STEADY * middle).count();
    Some(near as f64 / rates.len() as f64)
}

/// Returns the rise of the least squares line: see [`Figure::RateTrend`].
fn trend(rates: &[f64]) -> Option<f64> {
    let last = rates.len().checked_sub(1).filter(|last| *last > 0)? as f64;
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let places = (0..rates.len()).map(|place| place as f64 - last / 2.0);
    let (products, squares) = places.zip(rates).fold((0.0, 0.0), |(products, squares), (place, rate)| {
        (products + place * (rate - mean), squares + place * place)
    });
    Some(products / squares * last / mean)
}

fn memory_growth(result: &WorkloadResult) -> Option<f64> {
    let memory: Vec<u64> = result.seconds.iter().filter_map(|second| second.rss_anon_bytes).collect();
    let quarter = memory.len() / 4;
    let second = memory.get(quarter..2 * quarter)?.iter().max()?;
    let last = memory.get(memory.len() - quarter..)?.iter().max()?;
    Some(*last as f64 / *second as f64)
}

impl Source {
    /// Returns the median of the figure over the rounds, or the reason why there is no reliable figure.
    fn figure(&self, goal: &Goal, results: &BTreeMap<String, RunResult>) -> Result<f64, String> {
        let result = results.get(&self.step).ok_or("the step has no result")?;
        let rounds = self.rounds(result);
        if rounds.is_empty() {
            return Err("it is not in the step's result".to_owned());
        }
        for round in &rounds {
            if let Some(why) = &round.unsupported {
                return Err(why.clone());
            }
            if !round.is_clean() {
                let example = || round.operations.values().find_map(|totals| totals.examples.first());
                let example_text = round
                    .failures
                    .first()
                    .or_else(example)
                    .map_or("not all was answered rightly", |text| text);
                return Err(format!("round {}: {example_text}", round.round));
            }
        }
        let figures: Vec<_> = rounds.iter().filter_map(|round| goal.figure.of(round, goal.kind)).collect();
        median(figures).ok_or_else(|| format!("no {} was measured", goal.figure))
    }

    /// Returns the results of this source, one for each round. For the null responder, returns its results with the
    /// same numbers of connections and outstanding requests.
    fn rounds<'r>(&'r self, result: &'r RunResult) -> Vec<&'r WorkloadResult> {
        let is_of_workload = |round: &&WorkloadResult| {
            round.workload == self.workload
                && self
                    .value
                    .is_none_or(|value| round.sweep.and_then(|axis| axis.value(round)) == Some(value))
        };
        let of_workload = result.workloads.iter().filter(is_of_workload);
        if self.server == NULL {
            let shape = |round: &WorkloadResult| (round.parameters.connections, round.parameters.outstanding);
            let Some(wanted) = of_workload.map(shape).next() else { return Vec::new() };
            return result.limits.iter().filter(|round| shape(round) == wanted).collect();
        }
        let product = Product::ALL.iter().find(|product| product.name() == self.server);
        let label = product.map_or("", |product| product.label());
        of_workload.filter(|round| round.server.product.starts_with(label)).collect()
    }
}

/// Returns the verdicts as a table in Markdown.
pub fn table(verdicts: &[Verdict<'_>]) -> String {
    let mut text = String::from("| work | goal | measured | | figures |\n|---|---|---|---|---|\n");
    for Verdict { goal, outcome, figures } in verdicts {
        let (value, word, why) = match outcome {
            Outcome::Reached(value) => (three_digits(*value), "reached", None),
            Outcome::Missed(value) => (three_digits(*value), "MISSED", None),
            Outcome::NotMeasured(why) => ("-".to_owned(), "NOT MEASURED", Some(why.clone())),
        };
        let figures = why.unwrap_or_else(|| {
            let parts: Vec<_> = figures
                .iter()
                .map(|(source, figure)| format!("{source} {}", three_digits(*figure)))
                .collect();
            parts.join("; ")
        });
        let cell = |text: &str| text.replace('|', "/").replace('\n', " ");
        let (title, wanted, figures) = (cell(&goal.title), cell(&goal.wanted()), cell(&figures));
        text.push_str(&format!("| {title} | {wanted} | {value} | {word} | {figures} |\n"));
    }
    text
}

/// Formats a number with three decimals below 1, two below 10, one below 100, and none above.
fn three_digits(value: f64) -> String {
    let digits = match value.abs() {
        large if large >= 100.0 => 0,
        middle if middle >= 10.0 => 1,
        small if small >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests;
