//! The interface between a comparison of servers and the code that puts load on them.

use std::time::Duration;

use super::{Data, Server, Setup};
use crate::result::{ServerDescription, WorkloadResult};
use crate::workload::Workload;

/// Name of bulk loads in a result.
pub const BULK_LOAD: &str = "bulk-load";

/// The load that a comparison puts on its servers.
pub trait Measure {
    /// Returns the workloads to measure. If there are none, the servers are only loaded and queried, one at a time.
    fn workloads(&self) -> &[Workload];

    /// Runs one workload once. Failures are part of the result.
    fn measure(&mut self, workload: usize, round: u32, target: &Target<'_>) -> WorkloadResult;

    /// Runs a mixture of all workloads and discards the results.
    fn warm_up(&mut self, time: Duration, target: &Target<'_>);
}

/// A server that is ready for load.
pub struct Target<'t> {
    /// The running server.
    pub server: &'t Server,
    /// The server's description for the result.
    pub description: &'t ServerDescription,
    /// Common setup, with the identity for binds and the suffix of the data.
    pub setup: &'t Setup,
    /// The loaded data.
    pub data: &'t Data,
}
