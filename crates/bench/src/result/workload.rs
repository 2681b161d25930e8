//! The result of one workload on one server.

use super::{Environment, Latency};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use strum::{Display, IntoStaticStr};

/// Result of one workload on one server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WorkloadResult {
    /// The workload's name, as in `pando bench run NAME`.
    pub workload: String,
    /// Title of the workload.
    pub title: String,
    /// The row of a published document that the workload repeats, with the document's figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<DocumentRow>,
    /// Start of the measurement (RFC 3339, UTC).
    #[serde(default)]
    pub started: String,
    /// Number of the repetition of the same workload on the same server, from 1.
    #[serde(default = "first_round")]
    pub round: u32,
    /// The quantity that the sweep varies, if this is one step of a sweep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepAxis>,
    /// The server, as it was set up.
    pub server: ServerDescription,
    /// The load.
    pub parameters: Parameters,
    /// Measured time, after the warm-up.
    pub measured_seconds: f64,
    /// Correct answers per second in the measured time, for all kinds of operations in total.
    pub per_second: f64,
    /// Time that the driver waited for answers after the end of the measurement. These answers are not part of any
    /// rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_seconds: Option<f64>,
    /// Warm-up of the server until the cost of its operations was steady, if this is the first round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<WarmUp>,
    /// Totals by kind of operation.
    #[serde(default)]
    pub operations: BTreeMap<OperationKind, OperationTotals>,
    /// The seconds of the run, without gaps.
    #[serde(default)]
    pub seconds: Vec<Second>,
    /// Cost of the server; absent if its process is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<ServerCost>,
    /// Connections that broke, or that the server closed, while they were in use.
    #[serde(default)]
    pub connections_closed: u64,
    /// Requests without an answer at the end, including requests on closed connections.
    #[serde(default)]
    pub unanswered: u64,
    /// The load machines, if there were several.
    #[serde(default)]
    pub agents: Vec<AgentState>,
    /// Reason why the result has no figures, such as an operation that the server does not support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsupported: Option<String>,
    /// Failures as text, such as closed connections, dead agents, and a failed preparation.
    #[serde(default)]
    pub failures: Vec<String>,
    /// Remarks that a reader needs to judge the figures: differences from the document, corrections.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Whether the workload ran to its planned end on every load machine.
    pub complete: bool,
}

/// Warm-up: windows in which the same workload ran before it was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WarmUp {
    /// Total duration of the windows.
    pub seconds: f64,
    /// CPU time of the server per operation in each window, in microseconds.
    pub cpu_micros: Vec<f64>,
    /// Whether the cost was steady in the last windows.
    pub is_steady: bool,
}

fn first_round() -> u32 {
    1
}

/// Kind of operation.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, IntoStaticStr, Display,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum OperationKind {
    /// A search. Its latency is the time until the final response.
    Search,
    /// A search, and then a bind as the found entry. Both together count as one operation, as in the published
    /// documents.
    Authentication,
    /// A bind on a persistent connection.
    Bind,
    /// A connection that is opened for a bind and then closed.
    ConnectBind,
    /// A compare.
    Compare,
    /// An add.
    Add,
    /// A delete.
    Delete,
    /// A modify.
    Modify,
    /// A modifyDN.
    ModifyDn,
}

impl OperationKind {
    /// Returns the name of the kind in results.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// All operations of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationTotals {
    /// Number of correct answers.
    pub operations: u64,
    /// Number of entries in the answers.
    #[serde(default)]
    pub entries: u64,
    /// Number of answers by LDAP result code, including the expected codes.
    #[serde(default)]
    pub result_codes: BTreeMap<u32, u64>,
    /// Answers with a result code that the workload does not expect.
    #[serde(default)]
    pub errors: u64,
    /// Answers with the expected result code but the wrong content, such as another number of entries or another entry.
    #[serde(default)]
    pub wrong_answers: u64,
    /// Some of the errors and wrong answers, in words.
    #[serde(default)]
    pub examples: Vec<String>,
    /// Latency of correct answers. In a closed loop, the latency counts from sending the request, and operations are
    /// included that were answered during the measurement. In an open loop, the latency counts from the intended start,
    /// and operations are included that were due during the measurement.
    pub latency: Latency,
}

/// One second of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Seconds since measuring began.
    pub second: u64,
    /// Number of correct answers, by kind of operation.
    #[serde(default)]
    pub operations: BTreeMap<OperationKind, u64>,
    /// Unexpected result codes, wrong answers and closed connections.
    #[serde(default)]
    pub errors: u64,
    /// The latency that half of this second's operations did not exceed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_micros: Option<u64>,
    /// The latency that 99% of this second's operations did not exceed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_micros: Option<u64>,
    /// The longest latency of this second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_micros: Option<u64>,
    /// CPU time that the server used in this second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_cpu_micros: Option<u64>,
    /// CPU time that the load driver used in this second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_cpu_micros: Option<u64>,
    /// Private memory of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_anon_bytes: Option<u64>,
    /// Mapped file pages of the server, which the kernel may reclaim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_file_bytes: Option<u64>,
    /// Octets read from the server's disk in this second, by any process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_read_bytes: Option<u64>,
    /// Octets written to the server's disk in this second, by any process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_written_bytes: Option<u64>,
    /// Stolen time in this second, in total for all processors. In stolen time the server's machine was ready to run,
    /// but its hypervisor ran other machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen_cpu_micros: Option<u64>,
    /// Latencies of this second. They are present if a caller requests them, and in messages from an agent to its
    /// coordinator, which merges the latencies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
}

impl Second {
    /// Returns the number of correct answers to operations of all kinds.
    pub fn operations_total(&self) -> u64 {
        self.operations.values().sum()
    }

    /// Copies the figures of the server and its machine from `seen`, which contains the observations of the same
    /// second.
    pub(crate) fn set_cost(&mut self, seen: &Second) {
        self.server_cpu_micros = seen.server_cpu_micros;
        self.rss_anon_bytes = seen.rss_anon_bytes;
        self.rss_file_bytes = seen.rss_file_bytes;
        self.disk_read_bytes = seen.disk_read_bytes;
        self.disk_written_bytes = seen.disk_written_bytes;
        self.stolen_cpu_micros = seen.stolen_cpu_micros;
    }

    /// Sets the percentiles from this second's latencies, if it has them.
    pub fn set_percentiles(&mut self) {
        if let Some(latency) = &self.latency {
            self.p50_micros = latency.percentile_micros(50.0);
            self.p99_micros = latency.percentile_micros(99.0);
            self.max_micros = latency.max_micros();
        }
    }
}

/// Cost of a workload for the server, over the measured time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerCost {
    /// CPU time, user and system.
    pub cpu_micros: u64,
    /// CPU time per operation.
    pub cpu_micros_per_operation: f64,
    /// Maximum private memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_anon_peak_bytes: Option<u64>,
    /// Maximum mapped file pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_file_peak_bytes: Option<u64>,
    /// The block device with the server's files, and the file system on it: "vda, which holds /".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// Octets read from that disk, by any process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_read_bytes: Option<u64>,
    /// Octets written to that disk, by any process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_written_bytes: Option<u64>,
    /// Octets written to that disk per operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_written_bytes_per_operation: Option<f64>,
}

/// A server and its configuration.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ServerDescription {
    /// Product and version: "OpenLDAP 2.5.13".
    pub product: String,
    /// Addresses of the server.
    #[serde(default)]
    pub uris: Vec<String>,
    /// Settings that matter to the figures. [`setting`] has the names of the settings that every result should state.
    #[serde(default)]
    pub settings: Vec<Setting>,
    /// Number of entries that the server held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<u64>,
    /// Template and seed of the entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<DataSet>,
    /// Identity of the clients: a DN, or "anonymous".
    #[serde(default)]
    pub bind_identity: String,
    /// Memory limit of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    /// Bulk load of the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bulk_load: Option<BulkLoad>,
}

/// Names of settings that readers expect. A report shows a missing setting as not stated.
pub mod setting {
    /// Durability of answered changes: "every commit synced", "none".
    pub const DURABILITY: &str = "durability";
    /// Storage form of passwords: "Argon2id", "SSHA", "clear".
    pub const PASSWORD_SCHEME: &str = "password scheme";
    /// Protocol and cipher of TLS, or "none".
    pub const TLS: &str = "TLS";
    /// Access rules for reading entries.
    pub const ACCESS_CONTROL: &str = "access control";
    /// Attributes and kinds of index.
    pub const INDEXES: &str = "indexes";
    /// Number of threads that the server was configured to use.
    pub const THREADS: &str = "threads";
    /// All these names, in the order of display.
    pub const ALL: [&str; 6] = [DURABILITY, PASSWORD_SCHEME, TLS, ACCESS_CONTROL, INDEXES, THREADS];
}

/// One setting of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// A name from [`setting`], or the vendor's own name of the setting.
    pub name: String,
    /// Value of the setting.
    pub value: String,
}

impl ServerDescription {
    /// Returns the value of a setting.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.iter().find(|setting| setting.name == name).map(|setting| setting.value.as_str())
    }

    /// Sets a setting, and replaces its earlier value.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.settings.retain(|setting| setting.name != name);
        self.settings.push(Setting { name: name.to_owned(), value: value.into() });
    }
}

/// Origin of the entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataSet {
    /// Name of a built-in template, or of a template file.
    pub template: String,
    /// Seed of the random values.
    pub seed: u64,
    /// Octets of an entry's LDIF on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry_bytes: Option<u64>,
}

/// Bulk load of the data by the server's own loader.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BulkLoad {
    /// The loader: "slapadd -q".
    pub loader: String,
    /// Wall time.
    pub seconds: f64,
    /// Entries loaded.
    pub entries: u64,
    /// Octets of LDIF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ldif_bytes: Option<u64>,
    /// CPU time of the loader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// Maximum memory of the loader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_peak_bytes: Option<u64>,
    /// Maximum private memory of the loader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_anon_peak_bytes: Option<u64>,
    /// Size of the loaded data on the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
    /// Time of the export of all data as LDIF with the server's own tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export_seconds: Option<f64>,
    /// Size of the exported LDIF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export_bytes: Option<u64>,
}

/// Parameters of the load on the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Parameters {
    /// Number of connections of all load machines in total.
    pub connections: u64,
    /// Number of outstanding requests on each connection.
    pub outstanding: u64,
    /// Closed or open loop.
    pub load: Load,
    /// Planned duration; absent if the run lasts until its entries are used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_seconds: Option<f64>,
    /// Duration of the warm-up.
    #[serde(default)]
    pub warm_up_seconds: f64,
    /// Order of the keys: "sequential", "random", "sparse 10%", "exhaustive".
    #[serde(default)]
    pub key_order: String,
    /// Seed of the keys.
    #[serde(default)]
    pub seed: u64,
    /// Number of connections to each server process, if a server has several processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections_per_server_process: Option<u64>,
    /// Number of threads of the load driver, on all load machines in total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_threads: Option<u64>,
    /// Description of the requests: base, scope, filter, attributes; the shares of a mix.
    #[serde(default)]
    pub request: String,
}

/// Rule by which requests are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// A client sends a request after the answer to its previous request.
    #[default]
    Closed,
    /// Requests are sent at a fixed rate, independent of the answers to earlier requests. Latency counts from the
    /// intended start.
    Open {
        /// Requests per second of all load machines in total.
        per_second: f64,
    },
}

/// A row of a document's table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DocumentRow {
    /// The document: "OID", "Salford", "M-Vault", "Sun", "eDirectory".
    pub document: String,
    /// The table in the document.
    #[serde(default)]
    pub table: String,
    /// The row's label in the document.
    #[serde(default)]
    pub row: String,
    /// Figures of the row, which were measured on the document's hardware.
    #[serde(default)]
    pub figures: Vec<DocumentFigure>,
}

/// One figure of a document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DocumentFigure {
    /// The column's label, such as a product, a size or a setting.
    #[serde(default)]
    pub label: String,
    /// Number of clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<u64>,
    /// Operations a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
    /// Mean latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f64>,
    /// A remark.
    #[serde(default)]
    pub note: String,
}

/// A load machine at the end of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AgentState {
    /// Address to which the coordinator connected.
    pub address: String,
    /// Whether the machine measured to the end.
    pub complete: bool,
    /// Number of correct answers that the machine received.
    pub operations: u64,
    /// Failure as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Difference between the machine's clock and the coordinator's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_offset_micros: Option<i64>,
    /// Maximum error of the difference: half of the shortest round trip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_error_micros: Option<u64>,
    /// Description of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
}

/// Quantity that a sweep varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum SweepAxis {
    /// Number of entries ([`ServerDescription::entries`]).
    Entries,
    /// Memory limit of the server ([`ServerDescription::memory_limit_bytes`]).
    Memory,
    /// Number of connections ([`Parameters::connections`]).
    Connections,
}

impl SweepAxis {
    /// Returns the value of a result on this axis.
    pub fn value(self, result: &WorkloadResult) -> Option<u64> {
        match self {
            SweepAxis::Entries => result.server.entries,
            SweepAxis::Memory => result.server.memory_limit_bytes,
            SweepAxis::Connections => Some(result.parameters.connections),
        }
    }
}

impl WorkloadResult {
    /// Returns a result without figures, for a server that does not support the workload.
    pub fn unsupported(
        workload: &str,
        title: &str,
        server: ServerDescription,
        reason: String,
    ) -> WorkloadResult {
        WorkloadResult {
            workload: workload.to_owned(),
            title: title.to_owned(),
            started: super::now_text(),
            round: 1,
            server,
            unsupported: Some(reason),
            complete: true,
            ..WorkloadResult::default()
        }
    }

    /// Returns the number of correct answers to operations of all kinds.
    pub fn operations_total(&self) -> u64 {
        self.operations.values().map(|totals| totals.operations).sum()
    }

    /// Returns the number of answers with unexpected result codes.
    pub fn errors_total(&self) -> u64 {
        self.operations.values().map(|totals| totals.errors).sum()
    }

    /// Returns the number of answers with the wrong content.
    pub fn wrong_answers_total(&self) -> u64 {
        self.operations.values().map(|totals| totals.wrong_answers).sum()
    }

    /// Returns the latencies of all kinds of operations together.
    pub fn latency(&self) -> Latency {
        let mut all = Latency::new();
        self.operations.values().for_each(|totals| all.add(&totals.latency));
        all
    }

    /// Returns true if the report need not warn about the figures, because the run is complete and every request was
    /// answered correctly.
    pub fn is_clean(&self) -> bool {
        self.complete
            && self.failures.is_empty()
            && self.errors_total() == 0
            && self.wrong_answers_total() == 0
            && self.connections_closed == 0
            && self.unanswered == 0
            && self.agents.iter().all(|agent| agent.complete)
    }

    /// Computes the fields that follow from other fields: the rate, and the costs per operation.
    pub fn set_rates(&mut self) {
        let operations = self.operations_total();
        self.per_second =
            if self.measured_seconds > 0.0 { operations as f64 / self.measured_seconds } else { 0.0 };
        if let Some(cost) = &mut self.cost {
            let operations = operations.max(1) as f64;
            cost.cpu_micros_per_operation = cost.cpu_micros as f64 / operations;
            cost.disk_written_bytes_per_operation =
                cost.disk_written_bytes.map(|bytes| bytes as f64 / operations);
        }
    }

    /// Removes the disk figures. Before format 2, these figures counted pages that processes had made dirty. Such a
    /// count may be hundreds of times the number of octets that reached the disk.
    pub(crate) fn withdraw_disk(&mut self) {
        if let Some(cost) = &mut self.cost {
            (cost.disk_read_bytes, cost.disk_written_bytes) = (None, None);
            cost.disk_written_bytes_per_operation = None;
        }
        for second in &mut self.seconds {
            (second.disk_read_bytes, second.disk_written_bytes) = (None, None);
        }
    }

    /// Reduces the histograms without changing the values that reports show.
    pub(super) fn thin_histograms(&mut self) {
        let latencies = self.operations.values_mut().map(|totals| &mut totals.latency);
        Latency::thin(&mut latencies.collect::<Vec<_>>());
    }

    /// Sets the percentiles of each second from its histogram, and drops the histogram.
    pub fn drop_histograms_of_seconds(&mut self) {
        for second in &mut self.seconds {
            second.set_percentiles();
            second.latency = None;
        }
    }
}
