//! The interface between a comparison and the load that it puts on servers.

use std::time::Duration;

use super::{Data, Server, Setup};
use crate::result::{ServerDescription, WorkloadResult};
use crate::workload::Workload;

/// Name of the rows of bulk loads in a result.
pub const BULK_LOAD: &str = "bulk-load";

/// A load that a comparison puts on servers.
pub trait Measure {
    /// Returns the workloads to measure. If there are none, servers are loaded and queried one after the other.
    fn workloads(&self) -> &[Workload];

    /// Runs one workload once. Failures are part of the result.
    fn measure(&mut self, workload: usize, round: u32, target: &Target<'_>) -> WorkloadResult;

    /// Runs a mixture of all workloads and discards the results.
    fn warm_up(&mut self, time: Duration, target: &Target<'_>);
}

/// A server that is ready for load.
pub struct Target<'t> {
    /// Its process.
    pub server: &'t Server,
    /// Its description for the result.
    pub description: &'t ServerDescription,
    /// The identity to bind as, and the root of the data.
    pub setup: &'t Setup,
    /// The entries that it holds.
    pub data: &'t Data,
}
