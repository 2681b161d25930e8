//! Workloads are small text files that define the requests to a server, their rate, and the number of clients.
//!
//! A [`Workload`] is TOML. The shipped workloads ([`shipped()`]) repeat measurements of published benchmarks, and
//! contain the published figures. `docs/how-to/benchmark.md` describes the format. When a workload is read, everything
//! that needs no server is checked, and errors state the line. The [`driver`](crate::driver) runs workloads.

mod error;
mod file;
mod listed;
mod run_settings;
mod scope;
mod shipped;

pub use error::WorkloadError;
pub use file::{
    BindConnection, BindMechanism, Data, ExpectedEntries, Job, KeyOrder, KeySource, LoadNeed, Operation,
    OperationName, Requirements, Text, Workload,
};
pub use listed::{Listed, ListedSearch};
pub use run_settings::RunSettings;
pub use scope::Scope;
pub use shipped::{find as shipped, names as shipped_names, text as shipped_text};
