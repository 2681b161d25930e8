//! The figures as metrics in version 0.0.4 of Prometheus' text format. All common collectors can read that version.
//!
//! The name of a metric is derived from the name of the figure's entry: `cn=Jobs Dropped,cn=Passwords,cn=monitor`
//! becomes `pando_passwords_jobs_dropped_total`. Times are in seconds. Texts are not metrics, with the exception of
//! states and faults.

use std::borrow::Cow;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::prometheus_text;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::figure::{Figure, Group, Value};
use crate::telemetry::counters::OperationTotal;
use crate::telemetry::latency::Latency;

/// Media type of the text that [`metrics`] returns.
pub(super) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns all metrics as text.
///
/// # Errors
/// The metrics library cannot write the text.
pub(super) fn metrics(groups: Vec<Group>, operations: Vec<OperationTotal>) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("pando");
    registry.register_collector(Box::new(Figures { groups, operations }));
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry)?;
    Ok(text)
}

/// All figures, read at one moment.
struct Figures {
    groups: Vec<Group>,
    operations: Vec<OperationTotal>,
}

impl fmt::Debug for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Figures of {} groups", self.groups.len())
    }
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "The version that runs";
        let version = [("version", super::RELEASE)];
        encoder.encode_descriptor("build", help, None, MetricType::Info)?.encode_info(&version)?;
        encode_operations(&mut encoder, &self.operations)?;
        for group in &self.groups {
            for figure in &group.figures {
                encode_figure(&mut encoder, group, figure)?;
            }
            encode_progress(&mut encoder, group)?;
        }
        Ok(())
    }
}

/// Encodes the figures of operations. The kind of the operation is a label.
fn encode_operations(encoder: &mut DescriptorEncoder<'_>, operations: &[OperationTotal]) -> fmt::Result {
    let help = "Requests received, by operation";
    let mut metric = encoder.encode_descriptor("operations_received", help, None, MetricType::Counter)?;
    for of_kind in operations {
        count(&mut metric.encode_family(&[("operation", of_kind.name)])?, of_kind.received)?;
    }
    let help = "Operations finished, by operation and result code";
    let mut metric = encoder.encode_descriptor("operations_finished", help, None, MetricType::Counter)?;
    for of_kind in operations {
        for (code, number) in &of_kind.results {
            let code = code.map_or_else(|| "other codes".to_owned(), |code| code.to_string());
            let labels = [("operation", Cow::from(of_kind.name)), ("result", Cow::from(code))];
            count(&mut metric.encode_family(&labels)?, *number)?;
        }
    }
    let help = "Seconds from when a request was taken up to its answer, by operation";
    let mut metric = encoder.encode_descriptor("operation_seconds", help, None, MetricType::Histogram)?;
    for of_kind in operations.iter().filter(|of_kind| of_kind.latency.count() > 0) {
        encode_latency(&mut metric, &[("operation", of_kind.name)], &of_kind.latency)?;
    }
    Ok(())
}

fn encode_latency(
    metric: &mut MetricEncoder<'_>,
    labels: &impl EncodeLabelSet,
    latency: &Latency,
) -> fmt::Result {
    let buckets: Vec<_> = latency.buckets().collect();
    metric.encode_family(labels)?.encode_histogram::<NoLabelSet>(
        latency.seconds(),
        latency.count(),
        &buckets,
        None,
    )
}

fn encode_figure(encoder: &mut DescriptorEncoder<'_>, group: &Group, figure: &Figure) -> fmt::Result {
    let Figure { name, help, value } = figure;
    let name = format!("{}_{}", snake_case(group.name), snake_case(name));
    // The library appends `_total` to the name of every counter.
    let counter_name = || name.replace("_total", "");
    match value {
        Value::Count(number) => {
            let name = counter_name();
            match name.strip_suffix("_milliseconds") {
                Some(name) => {
                    let name = format!("{name}_seconds");
                    let mut metric = counter(encoder, &name, help)?;
                    metric.encode_counter::<NoLabelSet, _, u64>(&seconds(*number), None)
                }
                None => count(&mut counter(encoder, &name, help)?, *number),
            }
        }
        Value::Level(number) => gauge(encoder, &name, help)?.encode_gauge(number),
        Value::By(label, is_count, values) => {
            let name = if *is_count { counter_name() } else { name.clone() };
            let mut metric = match is_count {
                true => counter(encoder, &name, help)?,
                false => gauge(encoder, &name, help)?,
            };
            for (value, number) in values {
                let labels = [(*label, value.as_str())];
                let mut family = metric.encode_family(&labels)?;
                match is_count {
                    true => count(&mut family, *number)?,
                    false => family.encode_gauge(number)?,
                }
            }
            Ok(())
        }
        Value::Time(time) => gauge(encoder, &format!("{name}_timestamp_seconds"), help)?.encode_gauge(time),
        Value::Flag(flag) => gauge(encoder, &name, help)?.encode_gauge(&u32::from(*flag)),
        Value::Fault(state) => {
            let name = name.strip_suffix("_failing").unwrap_or(&name);
            gauge(encoder, &format!("{name}_failing"), help)?.encode_gauge(&u32::from(state.is_err()))
        }
        Value::State(word, _) => {
            let mut metric = gauge(encoder, &name, help)?;
            metric.encode_family(&[("state", *word)])?.encode_gauge(&1_u32)
        }
        Value::Progress(..) | Value::Text(_) => Ok(()),
    }
}

/// Encodes all progress values of a group as one metric.
fn encode_progress(encoder: &mut DescriptorEncoder<'_>, group: &Group) -> fmt::Result {
    let progress = |figure: &Figure| match figure.value {
        Value::Progress(done, of) => Some((figure.name.to_string(), figure.help, ratio(done, of))),
        _ => None,
    };
    let mut all = group.figures.iter().filter_map(progress).peekable();
    let Some((_, help, _)) = all.peek() else { return Ok(()) };
    let name = format!("{}_done_ratio", snake_case(group.name));
    let mut metric = gauge(encoder, &name, help)?;
    for (name, _, done) in all {
        metric.encode_family(&[("part", name)])?.encode_gauge(&done)?;
    }
    Ok(())
}

fn counter<'s>(
    encoder: &'s mut DescriptorEncoder<'_>,
    name: &'s str,
    help: &str,
) -> Result<MetricEncoder<'s>, fmt::Error> {
    encoder.encode_descriptor(name, help, None, MetricType::Counter)
}

fn gauge<'s>(
    encoder: &'s mut DescriptorEncoder<'_>,
    name: &'s str,
    help: &str,
) -> Result<MetricEncoder<'s>, fmt::Error> {
    encoder.encode_descriptor(name, help, None, MetricType::Gauge)
}

fn count(metric: &mut MetricEncoder<'_>, number: u64) -> fmt::Result {
    metric.encode_counter::<NoLabelSet, _, u64>(&number, None)
}

/// Converts a part of the name of a figure's entry to a part of the name of a metric.
fn snake_case(name: &str) -> String {
    name.to_ascii_lowercase().replace(|other: char| !other.is_ascii_alphanumeric(), "_")
}

#[expect(clippy::cast_precision_loss, reason = "a metric is a float")]
fn seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1_000.0
}

#[expect(clippy::cast_precision_loss, reason = "a metric is a float")]
fn ratio(done: u64, of: u64) -> f64 {
    done.min(of) as f64 / of.max(1) as f64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use ldap::ResultCode;

    use super::*;
    use crate::telemetry::counters::{Counters, Operation, operation_totals};

    #[test]
    fn each_kind_of_figure_is_a_metric() {
        let mut group = Group::new("Read Ahead");
        group.count("Jobs Dropped", "Jobs without a request", 3);
        group.count("CPU User Milliseconds", "Time", 1_500);
        group.count("Total", "All", 4);
        group.count("Total Local", "Of them", 5);
        group.level("Bytes", "Held", 7);
        group.time("Last Backup", "When", 1_800_000_000);
        group.add("Writes Stopped", "Whether", Value::Flag(true));
        group.add("Failing", "What", Value::Fault(Err("disk \"a\"".to_owned())));
        group.add("Log", "What", Value::Fault(Ok("reachable")));
        group.add(
            "Role",
            "What it does",
            Value::State("stopped", "stopped: the log lost messages".to_owned()),
        );
        group.add("mail equality", "How far", Value::Progress(1, 4));
        group.add("cn substring", "How far", Value::Progress(0, 0));
        group.text("Address", "Where", "127.0.0.1");
        let of = || vec![("ldap".to_owned(), 1), ("ldaps".to_owned(), 2)];
        group.add("Operations", "How many", Value::By("listener", true, of()));
        group.add("Open", "How many", Value::By("listener", false, of()));
        let counters = Counters::default();
        counters.received(Operation::BIND);
        counters.completed(Operation::BIND, ResultCode::INVALID_CREDENTIALS, Duration::from_micros(20));
        let text = metrics(vec![group], operation_totals(&[Arc::new(counters)])).unwrap();
        let lines: Vec<_> = text.lines().collect();
        for expected in [
            "# TYPE pando_read_ahead_jobs_dropped_total counter",
            "# HELP pando_read_ahead_jobs_dropped_total Jobs without a request",
            "pando_read_ahead_jobs_dropped_total 3",
            "pando_read_ahead_cpu_user_seconds_total 1.5",
            "pando_read_ahead_total 4",
            "pando_read_ahead_local_total 5",
            "pando_read_ahead_bytes 7",
            "pando_read_ahead_last_backup_timestamp_seconds 1800000000",
            "pando_read_ahead_writes_stopped 1",
            "pando_read_ahead_failing 1",
            "pando_read_ahead_log_failing 0",
            "pando_read_ahead_role{state=\"stopped\"} 1",
            "pando_read_ahead_operations_total{listener=\"ldaps\"} 2",
            "pando_read_ahead_open{listener=\"ldap\"} 1",
            "pando_read_ahead_done_ratio{part=\"mail equality\"} 0.25",
            "pando_read_ahead_done_ratio{part=\"cn substring\"} 0.0",
            "pando_operations_received_total{operation=\"bind\"} 1",
            "pando_operations_finished_total{operation=\"bind\",result=\"invalidCredentials\"} 1",
            "pando_operation_seconds_count{operation=\"bind\"} 1",
        ] {
            assert!(lines.contains(&expected), "{expected}\n{text}");
        }
        assert!(!text.contains("127.0.0.1"), "{text}");
    }
}
