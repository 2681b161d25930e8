//! Workloads: the requests to a server, their rate, and the number of clients; small text files.
//!
//! A [`Workload`] is TOML. The shipped ones ([`shipped()`]) repeat the rows of published benchmarks, and contain those
//! documents' figures; `docs/how-to/benchmark.md` describes the format. Reading checks everything that can be checked
//! without a server, and errors state the line. The [`driver`](crate::driver) runs them.

mod circumstances;
mod error;
mod file;
mod listed;
mod scope;
mod shipped;

pub use circumstances::Circumstances;
pub use error::WorkloadError;
pub use file::{
    BindConnection, BindMechanism, Data, ExpectedEntries, Job, KeyOrder, KeySource, LoadNeed, Needs,
    Operation, OperationName, Text, Workload,
};
pub use listed::{Listed, ListedSearch};
pub use scope::Scope;
pub use shipped::{find as shipped, names as shipped_names, text as shipped_text};
