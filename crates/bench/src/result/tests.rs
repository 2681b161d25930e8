use super::*;
use crate::seeded::Seeded;
use std::time::Duration;

fn latency(micros: &[u64]) -> Latency {
    let mut latency = Latency::new();
    micros.iter().for_each(|&micros| latency.record_micros(micros));
    latency
}

/// Returns the result of one load machine. Results with different `base` differ.
fn part(base: u64) -> WorkloadResult {
    let micros: Vec<u64> = (1..=100).map(|step| base * step).collect();
    let totals = OperationTotals {
        operations: 100,
        entries: 100,
        result_codes: [(0, 99), (32, 1)].into(),
        errors: 1,
        latency: latency(&micros),
        ..OperationTotals::default()
    };
    let second = |second, micros: &[u64]| Second {
        second,
        operations: [(OperationKind::Search, micros.len() as u64)].into(),
        latency: Some(latency(micros)),
        ..Second::default()
    };
    WorkloadResult {
        workload: "search".to_owned(),
        operations: [(OperationKind::Search, totals)].into(),
        seconds: vec![second(0, &micros[..40]), second(1, &micros[40..])],
        measured_seconds: 2.0,
        parameters: Parameters {
            connections: 8,
            load: Load::Open { per_second: 50.0 },
            ..Parameters::default()
        },
        complete: true,
        ..WorkloadResult::default()
    }
}

fn run(workloads: Vec<WorkloadResult>) -> RunResult {
    RunResult { workloads, ..RunResult::begin("pando bench run search".to_owned(), Environment::default()) }
}

#[test]
fn latencies_parse_as_written() {
    let cases: [&[u64]; 4] = [&[], &[1], &[0, 999_999_999_999], &[120, 130, 5_000, 1_000_000]];
    for micros in cases {
        let before = latency(micros);
        let after = Latency::from_text(&before.to_text()).unwrap();
        assert_eq!(before, after, "{micros:?}");
        let json = serde_json::to_string(&before).unwrap();
        assert_eq!(serde_json::from_str::<Latency>(&json).unwrap(), before, "{json}");
    }
    assert!(latency(&[5]).to_text().starts_with("HIST"), "the form that other tools read");
    assert_eq!(latency(&[]).percentile_micros(50.0), None);
    assert_eq!(latency(&[0, 999_999_999_999]).percentile_micros(0.0), Some(1));
    let mut recorded = Latency::new();
    recorded.record(Duration::from_millis(2));
    assert_eq!(recorded.percentile_micros(50.0), Some(2_000), "no more than the longest");
}

#[test]
fn invalid_histogram_texts_are_refused() {
    let other_bounds = {
        use base64::Engine;
        use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
        let histogram = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 1000, 2).unwrap();
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&histogram, &mut bytes).unwrap();
        base64::engine::general_purpose::STANDARD.encode(bytes)
    };
    let check = |text: &str, part: &str| {
        let error = Latency::from_text(text).unwrap_err();
        assert!(error.contains(part), "{error}");
    };
    check("???", "histogram");
    check("", "histogram");
    check("AAAA", "histogram");
    check(&latency(&[5]).to_text()[..20], "histogram");
    check(&other_bounds, "1 to 1000 with 2 digits");
    check(&"A".repeat(2 << 20), "histogram");
    // The text is correctly compressed, but its header announces 4 GiB.
    let mut head = vec![0x1c, 0x84, 0x93, 0x13, 0xff, 0xff, 0xff, 0xff];
    head.resize(40, 0);
    let mut bytes = vec![0x1c, 0x84, 0x93, 0x14, 0, 0, 0, 40];
    let mut encoder = flate2::write::ZlibEncoder::new(&mut bytes, flate2::Compression::default());
    std::io::Write::write_all(&mut encoder, &head).unwrap();
    encoder.finish().unwrap();
    check(&base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes), "version 2");
}

#[test]
fn load_machines_add_up_exactly() {
    let mut merged = part(10);
    merged.merge(&part(1000)).unwrap();
    let mut expected: Vec<u64> = (1..=100).flat_map(|step| [10 * step, 1000 * step]).collect();
    assert_eq!(merged.latency(), latency(&expected));
    let totals = &merged.operations[&OperationKind::Search];
    assert_eq!((totals.operations, totals.errors, totals.result_codes[&32]), (200, 2, 2));
    assert_eq!((merged.parameters.connections, merged.per_second), (16, 100.0));
    assert_eq!(merged.parameters.load, Load::Open { per_second: 100.0 });
    // Second number 1 has the latencies of steps 41 to 100 of both machines.
    expected.retain(|micros| {
        [10, 1000].iter().any(|base| micros % base == 0 && (41..=100).contains(&(micros / base)))
    });
    let last = &merged.seconds[1];
    assert_eq!(last.operations_total(), 120);
    assert_eq!(last.p50_micros, latency(&expected).percentile_micros(50.0));
    assert_eq!(last.max_micros, latency(&expected).max_micros());
}

#[test]
fn a_second_that_only_one_machine_has_is_kept() {
    let mut merged = part(10);
    merged.seconds.remove(0);
    merged.merge(&part(1000)).unwrap();
    let counts: Vec<_> =
        merged.seconds.iter().map(|second| (second.second, second.operations_total())).collect();
    assert_eq!(counts, [(0, 40), (1, 120)]);
}

#[test]
fn results_that_cannot_be_merged_exactly_are_refused() {
    let other = WorkloadResult { workload: "add".to_owned(), ..part(1) };
    assert!(matches!(part(1).merge(&other), Err(MergeError::Workload { .. })));
    let mut saved = part(1);
    saved.drop_histograms_of_seconds();
    assert_eq!(part(1).merge(&saved), Err(MergeError::NoHistogram { second: 0 }));
}

#[test]
fn an_incomplete_part_makes_the_whole_incomplete() {
    let mut merged = part(1);
    merged.merge(&WorkloadResult { complete: false, ..part(2) }).unwrap();
    assert!(!merged.complete && !merged.is_clean());
}

#[test]
fn files_round_trip() {
    let folder = std::env::temp_dir().join(format!("pando-result-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("run.json");
    run(vec![part(10)]).write(&path).unwrap();
    let read = RunResult::read(&path).unwrap();
    let names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(names, ["run.json"]);
    assert_eq!(read.workloads[0].operations, part(10).operations);
    assert_eq!(read.workloads[0].seconds, part(10).seconds);
    assert_eq!(read.tool.version, env!("CARGO_PKG_VERSION"));
}

#[test]
fn the_distribution_ends_at_the_slowest_operation() {
    let points = latency(&(1..=1000).collect::<Vec<_>>()).distribution();
    assert_eq!((points.first(), points.last()), (Some(&(0.0, 1)), Some(&(3.0, 1000))));
    assert!(points.contains(&(2.0, 990)), "{points:?}");
    assert!(Latency::new().distribution().is_empty());
}

/// Returns random latencies. Most are near one value, some are far above it.
fn random_latency(random: &mut Seeded, count: u64, typical_micros: usize) -> Latency {
    let mut latency = Latency::new();
    for _ in 0..count {
        let reach = typical_micros << (random.below(4) * random.below(4));
        latency.record_micros(typical_micros as u64 / 2 + random.below(reach) as u64);
    }
    latency
}

#[test]
fn a_thinned_histogram_has_the_same_figures() {
    let figures = |latency: &Latency| {
        let table =
            [50.0, 90.0, 99.0, 99.9, 99.99, 100.0].map(|percentile| latency.percentile_micros(percentile));
        (latency.count(), latency.max_micros(), table, latency.distribution())
    };
    let mut random = Seeded::new(7);
    for (count, typical_micros) in
        [(0, 10), (1, 10), (40, 90_000), (3_000, 700), (200_000, 350), (90_000, 40_000)]
    {
        let whole = WorkloadResult {
            operations: [OperationKind::Search, OperationKind::Modify]
                .into_iter()
                .enumerate()
                .map(|(number, kind)| {
                    let latency = random_latency(&mut random, count, typical_micros << (3 * number));
                    (kind, OperationTotals { latency, ..OperationTotals::default() })
                })
                .collect(),
            ..WorkloadResult::default()
        };
        let mut thin = whole.clone();
        thin.thin_histograms();
        let all = |result: &WorkloadResult| -> Vec<Latency> {
            let kinds = result.operations.values().map(|totals| totals.latency.clone());
            kinds.chain([result.latency()]).collect()
        };
        for (whole, thin) in all(&whole).iter().zip(&all(&thin)) {
            assert_eq!(figures(whole), figures(thin));
            let (before, after) = (whole.mean_micros().unwrap_or(1.0), thin.mean_micros().unwrap_or(1.0));
            assert!(
                (after / before - 1.0).abs() < 1e-5,
                "mean {before} became {after} with {count} operations"
            );
        }
        let again = WorkloadResult { operations: thin.operations.clone(), ..WorkloadResult::default() };
        thin.thin_histograms();
        assert_eq!(thin.operations, again.operations, "thinning twice has no further effect");
        if count > 10_000 {
            let lengths = [&whole, &thin].map(|result| result.latency().histogram().iter_recorded().count());
            assert!(lengths[1] * 2 < lengths[0], "{lengths:?} buckets");
        }
    }
}

#[test]
fn compressed_result_files_read_as_written() {
    let folder = std::env::temp_dir().join(format!("pando-result-kept-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("run.json.zst");
    run(vec![part(10)]).write(&path).unwrap();
    let packed = std::fs::read(&path).unwrap();
    // The first octets of a file, not its name, show whether the file is compressed.
    std::fs::rename(&path, folder.join("run.json")).unwrap();
    let path = folder.join("run.json");
    let read = RunResult::read(&path).unwrap();
    let unpacked = read_at_most(&path, FILE_BYTES_MAX).unwrap().unwrap();
    let bounds = [0, 1].map(|less| read_at_most(&path, unpacked.len() as u64 - less).unwrap().is_some());
    std::fs::write(&path, &packed[..packed.len() / 2]).unwrap();
    let broken = RunResult::read(&path).unwrap_err();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(packed.starts_with(&ZSTANDARD_MAGIC) && packed.len() < unpacked.len());
    assert_eq!(read.workloads[0].latency().distribution(), part(10).latency().distribution());
    assert_eq!(read.workloads[0].seconds, part(10).seconds);
    assert_eq!(bounds, [true, false], "the unpacked size is bounded");
    assert!(matches!(broken, ResultError::Io { .. }), "{broken}");
}

#[test]
fn files_that_are_no_results_are_refused_with_the_reason() {
    let check = |text: &str, part: &str| {
        let error = RunResult::parse(text.as_bytes(), Path::new("x.json")).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("x.json"), "{text}: {error}");
    };
    check("", "no result of pando bench");
    check("{}", "missing field `format`");
    check("{\"format\": 3, \"future\": true}", "format 3, this program reads up to 2");
    check("{\"format\": 0}", "format 0");
    check("{\"format\": 1}", "missing field");
}

#[test]
fn disk_figures_of_format_1_are_dropped() {
    let mut measured = part(1);
    measured.cost =
        Some(ServerCost { cpu_micros: 7, disk_written_bytes: Some(26 << 30), ..ServerCost::default() });
    measured.seconds[0].disk_written_bytes = Some(26 << 30);
    measured.set_rates();
    let text = |format| {
        let run = RunResult { format, ..run(vec![measured.clone()]) };
        serde_json::to_vec(&run).unwrap()
    };
    let read = |format| RunResult::parse(&text(format), Path::new("x.json")).unwrap().workloads.remove(0);
    assert_eq!(read(FORMAT).cost, measured.cost);
    let old = read(1);
    let cost = old.cost.unwrap();
    assert_eq!(
        (cost.cpu_micros, cost.disk_written_bytes, cost.disk_written_bytes_per_operation),
        (7, None, None)
    );
    assert_eq!(old.seconds[0].disk_written_bytes, None);
}
