//! Tables that `pando bench peers` prints at the end of a run.

use bench::peers::measure::BULK_LOAD;
use bench::peers::ratios;
use bench::result::{RunResult, setting};

/// Returns a table of workloads. The table has the medians of every server, and the ratios of Pando's figures to those
/// of each peer.
pub(super) fn workloads(result: &RunResult) -> String {
    let medians = ratios::medians(&result.workloads);
    let mut text = String::new();
    let mut workload = "";
    for medians in medians.iter().filter(|medians| medians.workload != BULK_LOAD) {
        if workload != medians.workload {
            workload = &medians.workload;
            text.push_str(&format!(
                "\n{workload:<22}{:>11}{:>10}{:>10}{:>10}   Pando's / theirs: {:>7}{:>7}{:>7}{:>7}\n",
                "a second", "CPU us", "p50 us", "p99 us", "rate", "CPU", "p50", "p99"
            ));
        }
        if let Some(reason) = &medians.unsupported {
            text.push_str(&format!("{:<22} not measured: {reason}\n", medians.server));
            continue;
        }
        text.push_str(&format!(
            "{:<22}{:>11}{:>10}{:>10}{:>10}",
            medians.server,
            number(medians.per_second, 0),
            number(medians.cpu_micros, 2),
            number(medians.p50_micros, 0),
            number(medians.p99_micros, 0)
        ));
        let ratio =
            result.ratios.iter().find(|ratio| ratio.workload == *workload && ratio.by == medians.server);
        if let Some(ratio) = ratio {
            text.push_str(&format!(
                "{:>27}{:>7}{:>7}{:>7}",
                number(ratio.per_second, 2),
                number(ratio.cpu_per_operation, 2),
                number(ratio.p50, 2),
                number(ratio.p99, 2)
            ));
        }
        if medians.errors > 0 {
            text.push_str(&format!("   {} ERRORS", medians.errors));
        }
        text.push('\n');
    }
    text
}

/// Returns a table of load times for each data set. The column `times` has the ratio of each load time to that of the
/// first server, Pando.
pub(super) fn loads(result: &RunResult) -> String {
    let mut text = String::new();
    let mut loaded = String::new();
    let mut first = None;
    for measured in result.workloads.iter().filter(|measured| measured.workload == BULK_LOAD) {
        let server = &measured.server;
        let Some(load) = &server.bulk_load else {
            let reason = measured.unsupported.as_deref().unwrap_or_default();
            text.push_str(&format!("{:<22} not measured: {reason}\n", server.product));
            continue;
        };
        let template = server.data.as_ref().map(|data| data.template.as_str()).unwrap_or_default();
        let name = format!("{template}, indexes {}", server.setting(setting::INDEXES).unwrap_or_default());
        if name != loaded {
            text.push_str(&format!(
                "\nload of {name}\n{:<22}{:>9}{:>8}{:>9}{:>12}{:>10}{:>10}{:>12}\n",
                "", "wall s", "times", "CPU s", "private MB", "disk MB", "x LDIF", "export MB/s"
            ));
            (loaded, first) = (name, None);
        }
        let megabytes = |bytes: Option<u64>| number(bytes.map(|bytes| bytes as f64 / 1e6), 0);
        let export = load.export_bytes.zip(load.export_seconds);
        let share = load.disk_bytes.zip(load.ldif_bytes).map(|(disk, ldif)| disk as f64 / ldif as f64);
        text.push_str(&format!(
            "{:<22}{:>9.2}{:>8.2}{:>9}{:>12}{:>10}{:>10}{:>12}\n",
            server.product,
            load.seconds,
            load.seconds / *first.get_or_insert(load.seconds),
            number(load.cpu_seconds, 1),
            megabytes(load.rss_anon_peak_bytes),
            megabytes(load.disk_bytes),
            number(share, 2),
            number(export.map(|(bytes, seconds)| bytes as f64 / 1e6 / seconds), 0),
        ));
    }
    text
}

/// Rounds a number. Returns a dash if there is no number.
fn number(value: Option<f64>, places: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.places$}"))
}
