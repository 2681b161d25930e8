//! Results with invented figures, for tests of the page. The unit tests of the report and the browser test in
//! `crates/bench/tests/report_page.rs` use these results.

use super::Seeded;
use super::result::{
    AgentState, BulkLoad, Comparison, DataSet, Environment, Latency, OperationKind, OperationTotals,
    Parameters, RunResult, Second, ServerCost, ServerDescription, SweepAxis, WorkloadResult, setting,
};
use std::sync::OnceLock;

/// Figures of an invented server.
struct Sample {
    product: &'static str,
    /// Operations a second. The next field is the median latency in microseconds.
    rate: f64,
    micros: f64,
    cpu_micros: f64,
}

const PANDO: Sample = Sample { product: "Pando 0.1.0", rate: 96_000.0, micros: 620.0, cpu_micros: 9.8 };
const SLAPD: Sample = Sample { product: "OpenLDAP 2.5.13", rate: 52_500.0, micros: 1150.0, cpu_micros: 18.1 };
const DS389: Sample =
    Sample { product: "389 Directory Server 2.3.1", rate: 21_400.0, micros: 2900.0, cpu_micros: 45.0 };
const OPENDJ: Sample = Sample { product: "OpenDJ 4.9.2", rate: 30_100.0, micros: 1900.0, cpu_micros: 33.0 };

pub(crate) const SECONDS: u64 = 60;

impl Sample {
    fn description(&self, entries: u64) -> ServerDescription {
        let mut server = ServerDescription {
            product: self.product.to_owned(),
            uris: vec!["ldap://127.0.0.1:3890".to_owned()],
            entries: Some(entries),
            data: Some(DataSet { template: "oid".to_owned(), seed: 1, entry_bytes: Some(3400) }),
            bind_identity: "cn=admin".to_owned(),
            bulk_load: Some(BulkLoad {
                loader: "its own".to_owned(),
                seconds: 4.2,
                entries,
                ldif_bytes: Some(340_000_000),
                ..BulkLoad::default()
            }),
            ..ServerDescription::default()
        };
        server.set(setting::DURABILITY, "every commit synced");
        server.set(setting::INDEXES, "uid, cn: equality");
        server
    }

    fn result(&self, workload: &str, title: &str, factor: f64, seed: u64) -> WorkloadResult {
        let mut random = Seeded::new(seed);
        let rate = self.rate * factor;
        let mut all = Latency::new();
        let seconds = (0..SECONDS).map(|second| {
            let stall = self.product.starts_with("OpenDJ") && second % 17 == 11;
            let wave = 1.0 + 0.03 * (random.below(200) as f64 / 100.0 - 1.0);
            let operations = (rate * wave * if stall { 0.45 } else { 1.0 }) as u64;
            let mut latencies = Vec::new();
            for _ in 0..500 {
                let u = (random.below(1_000_000) as f64 + 1.0) / 1e6;
                let tail = if stall { 40.0 } else { 1.0 };
                let micros =
                    self.micros / factor * (0.6 + 0.4 * (-u.ln())) * if u < 0.004 { 4.0 * tail } else { 1.0 };
                all.record_micros(micros as u64);
                latencies.push(micros as u64);
            }
            latencies.sort_unstable();
            Second {
                second,
                operations: [(OperationKind::Search, operations)].into(),
                server_cpu_micros: Some((self.cpu_micros * operations as f64) as u64),
                rss_anon_bytes: Some((self.cpu_micros * 12e6) as u64 + second * 40_000),
                rss_file_bytes: Some(420_000_000),
                disk_read_bytes: Some(0),
                disk_written_bytes: Some(if factor < 0.2 { operations * 900 } else { 0 }),
                p50_micros: latencies.get(250).copied(),
                p99_micros: latencies.get(495).copied(),
                max_micros: latencies.last().copied(),
                ..Second::default()
            }
        });
        let seconds: Vec<Second> = seconds.collect();
        let operations = seconds.iter().map(Second::operations_total).sum();
        let totals = OperationTotals {
            operations,
            entries: operations,
            result_codes: [(0, operations)].into(),
            latency: all,
            ..OperationTotals::default()
        };
        let mut result = WorkloadResult {
            workload: workload.to_owned(),
            title: title.to_owned(),
            round: 1,
            server: self.description(100_000),
            parameters: Parameters {
                connections: 64,
                outstanding: 1,
                duration_seconds: Some(SECONDS as f64),
                warm_up_seconds: 10.0,
                key_order: "random".to_owned(),
                seed: 1,
                request: "search ou=oracle,dc=com, subtree, (uid=user.N), the DN only".to_owned(),
                ..Parameters::default()
            },
            measured_seconds: SECONDS as f64,
            operations: [(OperationKind::Search, totals)].into(),
            seconds,
            cost: Some(ServerCost {
                cpu_micros: (self.cpu_micros * operations as f64) as u64,
                rss_anon_peak_bytes: Some((self.cpu_micros * 12e6) as u64),
                disk_written_bytes: Some(0),
                ..ServerCost::default()
            }),
            complete: true,
            ..WorkloadResult::default()
        };
        result.set_rates();
        result
    }
}

pub(crate) fn run(workloads: Vec<WorkloadResult>) -> RunResult {
    let environment = Environment {
        cpu_model: Some("Sample CPU at 2.0 GHz".to_owned()),
        cpus: Some(2),
        kernel: Some("Linux 6.1.0".to_owned()),
        memory_bytes: Some(24 << 30),
        ..Environment::default()
    };
    let mut run = RunResult::begin("pando bench peers --entries 100000".to_owned(), environment);
    run.tool.is_debug_build = false;
    run.workloads = workloads;
    let floor = Sample { product: "null responder", rate: 118_000.0, micros: 430.0, cpu_micros: 2.0 };
    run.limits = vec![floor.result("search", "Null responder", 1.0, 9)];
    run
}

/// Returns a comparison of four servers in several workloads. Two servers do not support one of the workloads.
pub(crate) fn comparison() -> RunResult {
    static SAMPLE: OnceLock<RunResult> = OnceLock::new();
    SAMPLE.get_or_init(make_comparison).clone()
}

fn make_comparison() -> RunResult {
    let workloads = [
        ("oid-search-random", "OID: search random", 1.0),
        ("oid-compare-random", "OID: compare random", 0.86),
        ("salford-s1", "Salford S.1: base search", 1.1),
        ("oid-modify-random", "OID: modify random", 0.06),
        ("m-vault-bind-scram", "M-Vault: SASL SCRAM bind, connection kept", 0.004),
    ];
    let mut results = Vec::new();
    for (index, (name, title, factor)) in workloads.into_iter().enumerate() {
        for (number, sample) in [PANDO, SLAPD, DS389, OPENDJ].iter().enumerate() {
            if name.ends_with("scram") && number < 2 {
                let reason = "no SCRAM mechanism (supportedSASLMechanisms has none)".to_owned();
                results.push(WorkloadResult::unsupported(name, title, sample.description(100_000), reason));
                continue;
            }
            let leaning = if number == 1 && index == 3 { 1.9 } else { 1.0 };
            for round in 1..=3 {
                let factor = factor * leaning * (1.0 + 0.01 * f64::from(round));
                let seed = (index * 100 + number * 10) as u64 + u64::from(round);
                let mut result = sample.result(name, title, factor, seed);
                result.round = round;
                results.push(result);
            }
        }
    }
    let mut run = run(results);
    run.comparisons.push(Comparison {
        workload: "oid-search-random".to_owned(),
        servers: vec![PANDO.product.to_owned(), SLAPD.product.to_owned()],
        requests: 10_000,
        differing: 0,
        examples: Vec::new(),
    });
    run
}

/// Returns a comparison that has every possible problem.
pub(crate) fn faulty_comparison() -> RunResult {
    let mut run = comparison();
    let totals = run.workloads[0].operations.get_mut(&OperationKind::Search).unwrap();
    totals.wrong_answers = 3;
    totals.examples.push("(uid=user.7) gave 0 entries, not 1".to_owned());
    run.workloads[3].connections_closed = 2;
    run.workloads[3].seconds[20].errors = 2;
    run.workloads[6].agents.push(AgentState {
        address: "192.0.2.7:4389".to_owned(),
        failure: Some("no word for 5 s".to_owned()),
        ..AgentState::default()
    });
    run.workloads[6].complete = false;
    run.comparisons[0].differing = 1;
    run
}

/// Returns a sweep whose rate falls as entries grow.
pub(crate) fn sweep() -> RunResult {
    let mut results = Vec::new();
    for (number, sample) in [PANDO, SLAPD].iter().enumerate() {
        for (step, entries) in [10_000, 100_000, 1_000_000, 10_000_000].into_iter().enumerate() {
            let mut result = sample.result(
                "oid-search-random",
                "OID: search random",
                1.0 - 0.07 * step as f64,
                number as u64,
            );
            result.server = sample.description(entries);
            result.sweep = Some(SweepAxis::Entries);
            results.push(result);
        }
    }
    run(results)
}
