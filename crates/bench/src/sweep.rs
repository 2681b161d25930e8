//! Repeats one workload while one quantity grows: entries, the server's memory, or connections. Each step has a
//! separate result. Servers are loaded again for each number of entries, and started again for each limit of memory.

use crate::cgroup::{MemoryLimit, forget_pages};
use crate::peers::measure::{Measure, Target};
use crate::peers::under_load::{self, Group, GroupDriver};
use crate::peers::{self, Data, Peer, PeerError, Product, Programs};
use crate::result::{RunResult, ServerDescription, SweepAxis, WorkloadResult};
use crate::workload::Workload;
use std::path::{Path, PathBuf};

/// Quantities to vary. A quantity without values is taken from the workload, or is unlimited.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    /// Entries.
    pub entries: Vec<u64>,
    /// Limits of the server's memory, in octets.
    pub memory_bytes: Vec<u64>,
    /// Connections.
    pub connections: Vec<usize>,
}

/// Settings of a sweep.
pub struct Sweep<'s> {
    /// The servers, one after the other.
    pub products: &'s [Product],
    /// Paths of the servers' programs.
    pub programs: &'s Programs,
    /// Folder for the data. No other program may use the folder.
    pub folder: PathBuf,
    /// The processors that servers run on.
    pub server_cores: Vec<usize>,
    /// Seed of the data.
    pub seed: u64,
    /// The steps.
    pub steps: Steps,
}

/// Reason why a sweep cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// The number of quantities with several values is not one.
    #[error("give several values to exactly one of entries, memory and connections: a curve has one axis")]
    Axes,
    /// The workload needs a setting that not all servers have.
    #[error("{workload}: {reason}")]
    Workload {
        /// Name of the workload.
        workload: String,
        /// Reason.
        reason: String,
    },
    /// The data cannot be generated.
    #[error(transparent)]
    Data(#[from] peers::DataError),
    /// A folder cannot be created.
    #[error("{path}: {error}")]
    Io {
        /// Path.
        path: PathBuf,
        /// Error of the system.
        error: std::io::Error,
    },
}

impl Steps {
    /// Returns the quantity that grows.
    ///
    /// # Errors
    /// The number of quantities with several values is not one.
    pub fn axis(&self) -> Result<SweepAxis, SweepError> {
        let lengths = [
            (self.entries.len(), SweepAxis::Entries),
            (self.memory_bytes.len(), SweepAxis::Memory),
            (self.connections.len(), SweepAxis::Connections),
        ];
        let mut several = lengths.into_iter().filter(|(length, _)| *length > 1);
        match (several.next(), several.next()) {
            (Some((_, axis)), None) => Ok(axis),
            _ => Err(SweepError::Axes),
        }
    }

    /// Returns the values, or a single `None` if the list is empty.
    fn of<T: Copy>(values: &[T]) -> Vec<Option<T>> {
        if values.is_empty() { vec![None] } else { values.iter().copied().map(Some).collect() }
    }
}

/// Runs a sweep, and appends a result for every step. A failure is recorded in the result of its step, and the other
/// steps continue. `driven` has the parameters of the load; the workloads in it are ignored.
///
/// # Errors
/// The quantities do not define one axis, the workload needs a setting that not all servers have, or the data cannot be
/// generated.
pub fn sweep(
    sweep: &Sweep<'_>,
    workload: &Workload,
    driven: &mut GroupDriver<'_>,
    result: &mut RunResult,
    say: &mut dyn FnMut(&str),
) -> Result<(), SweepError> {
    let axis = sweep.steps.axis()?;
    for entries in Steps::of(&sweep.steps.entries) {
        let mut grouped = under_load::groups(vec![workload.clone()], entries, &[]);
        if let Some((workload, reason)) = grouped.left_out.pop() {
            return Err(SweepError::Workload { workload: workload.name, reason });
        }
        let Some(group) = grouped.groups.pop() else { continue };
        let created = std::fs::create_dir_all(&sweep.folder);
        created.map_err(|error| SweepError::Io { path: sweep.folder.clone(), error })?;
        let data = group.generate(sweep.seed, &sweep.folder.join("data.ldif"))?;
        say(&format!("{} entries, {:.1} MB of LDIF", data.entries, data.bytes as f64 / 1e6));
        for product in sweep.products {
            let folder = sweep.folder.join(product.name());
            let mut run = Run { sweep, axis, group: &group, data: &data, driven, result, say };
            if let Err(error) = run.server(*product, &folder) {
                run.failed(*product, workload, error.to_string());
            }
            // Remove the data now, because the data of the next server may need the space.
            let _ = std::fs::remove_dir_all(&folder);
        }
        let _ = std::fs::remove_dir_all(&sweep.folder);
    }
    Ok(())
}

/// The steps of a sweep that use the same data.
struct Run<'r, 'd> {
    sweep: &'r Sweep<'r>,
    axis: SweepAxis,
    group: &'r Group,
    data: &'r Data,
    driven: &'r mut GroupDriver<'d>,
    result: &'r mut RunResult,
    say: &'r mut dyn FnMut(&str),
}

impl Run<'_, '_> {
    /// Loads one server, and measures its steps.
    fn server(&mut self, product: Product, folder: &Path) -> Result<(), PeerError> {
        let mut setup = self.group.setup(self.data);
        setup.server_cores.clone_from(&self.sweep.server_cores);
        let mut peer = peers::configure(product, self.sweep.programs, folder, &setup)?;
        (self.say)(&format!("{}: loading", peer.product()));
        let load = peer.bulk_load(self.data)?;
        let mut description = peers::description(peer.as_ref(), &setup, self.data);
        description.entries = self.group.entries.or(description.entries);
        description.bulk_load = Some(peers::load_result(&load, None, self.data));
        for memory_bytes in Steps::of(&self.sweep.steps.memory_bytes) {
            description.memory_limit_bytes = memory_bytes;
            self.memory(peer.as_mut(), &setup, &description)?;
        }
        Ok(())
    }

    /// Starts the server with one limit of memory, and measures with each number of connections.
    fn memory(
        &mut self,
        peer: &mut dyn Peer,
        setup: &peers::Setup,
        description: &ServerDescription,
    ) -> Result<(), PeerError> {
        // The limit is declared before the server, so that it is dropped after the server has ended.
        let limit = description.memory_limit_bytes.map(MemoryLimit::new).transpose();
        let limit = limit.map_err(|error| PeerError::Answer(error.to_string()))?;
        if limit.is_some() {
            let folder = peer.folder().to_owned();
            forget_pages(&folder)
                .map_err(|error| PeerError::Io { what: "the page cache".to_owned(), error })?;
        }
        let server = peer.start()?;
        if let Some(limit) = &limit {
            limit.take(server.id()).map_err(|error| PeerError::Answer(error.to_string()))?;
        }
        for connections in Steps::of(&self.sweep.steps.connections) {
            self.driven.options.entries = self.group.entries;
            self.driven.options.clients = connections.or(self.driven.options.clients);
            let mut driven = GroupDriver {
                workloads: &self.group.workloads,
                options: self.driven.options.clone(),
                cores: self.driven.cores.clone(),
                watch: &mut *self.driven.watch,
                warm: std::mem::take(&mut self.driven.warm),
            };
            let target = Target { server: &server, description, setup, data: self.data };
            let mut step = driven.measure(0, 1, &target);
            self.driven.warm = driven.warm;
            if let Some(connections) = connections {
                step.parameters.connections = connections as u64;
            }
            self.add(step);
        }
        server.stop()
    }

    fn add(&mut self, mut step: WorkloadResult) {
        step.sweep = Some(self.axis);
        (self.say)(&line(&step));
        self.result.workloads.push(step);
    }

    /// Records the failure to set up, load or limit a server.
    fn failed(&mut self, product: Product, workload: &Workload, failure: String) {
        (self.say)(&format!("{}: {failure}", product.name()));
        let server = ServerDescription {
            product: product.name().to_owned(),
            entries: self.group.entries,
            ..ServerDescription::default()
        };
        let step = WorkloadResult { server, failures: vec![failure], ..workload.result() };
        self.result.workloads.push(WorkloadResult { sweep: Some(self.axis), ..step });
    }
}

/// Describes a step in one line.
fn line(step: &WorkloadResult) -> String {
    let limit = step.server.memory_limit_bytes.map(|bytes| format!(", {} MB", bytes / 1_000_000));
    let entries = step.server.entries.unwrap_or_default();
    let cost = step.cost.as_ref().map(|cost| format!(", {:.2} us CPU each", cost.cpu_micros_per_operation));
    format!(
        "{}: {entries} entries, {} connections{}: {:.0}/s, p99 {} us{}",
        step.server.product,
        step.parameters.connections,
        limit.unwrap_or_default(),
        step.per_second,
        step.latency().percentile_micros(99.0).unwrap_or_default(),
        cost.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_varies_exactly_one_parameter() {
        let steps = |entries: &[u64], memory_bytes: &[u64], connections: &[usize]| Steps {
            entries: entries.to_vec(),
            memory_bytes: memory_bytes.to_vec(),
            connections: connections.to_vec(),
        };
        for (steps, axis) in [
            (steps(&[1, 2], &[], &[]), Some(SweepAxis::Entries)),
            (steps(&[5], &[1, 2], &[7]), Some(SweepAxis::Memory)),
            (steps(&[], &[], &[1, 2, 3]), Some(SweepAxis::Connections)),
            (steps(&[1, 2], &[1, 2], &[]), None),
            (steps(&[1], &[1], &[1]), None),
            (steps(&[], &[], &[]), None),
        ] {
            assert_eq!(steps.axis().ok(), axis, "{steps:?}");
        }
    }
}
