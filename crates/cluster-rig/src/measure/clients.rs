//! Measurements by clients: changes at a given rate, lookups of changes on other nodes, and results of `pando bench`.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use client::{Connection, Reply};
use ldap::{
    AddRequest, AtLeast, AttributesBuf, Control, ControlsBuf, FilterBuf, Request, Scope, SearchRequest,
    SelectionBuf, oids,
};
use serde_json::{Value, json};

use crate::Result;
use crate::nodes::{SUFFIX, connect};

/// Time limit for a node to show a change, in milliseconds.
const PATIENCE_MS: u32 = 30_000;

/// Start and duration of each operation.
#[derive(Default)]
pub(super) struct Times(Vec<(Instant, Duration)>);

impl Times {
    pub(super) fn add(&mut self, started: Instant, took: Duration) {
        self.0.push((started, took));
    }

    /// Returns the operations that ended in a time range.
    pub(super) fn between(&self, from: Instant, to: Instant) -> Times {
        let is_in = |(started, took): &&(Instant, Duration)| (from..to).contains(&(*started + *took));
        Times(self.0.iter().filter(is_in).copied().collect())
    }

    /// Returns the longest time after `from` in which no operation ended.
    pub(super) fn longest_gap(&self, from: Instant) -> Duration {
        let mut ends: Vec<Instant> = self.0.iter().map(|(started, took)| *started + *took).collect();
        ends.retain(|end| *end >= from);
        ends.sort();
        let starts = std::iter::once(&from).chain(&ends);
        starts.zip(&ends).map(|(start, end)| *end - *start).max().unwrap_or_default()
    }

    /// Returns the count, and the median, 99th percentile and maximum in milliseconds.
    pub(super) fn figures(&self) -> Value {
        let mut millis: Vec<f64> = self.0.iter().map(|(_, took)| took.as_secs_f64() * 1_000.0).collect();
        millis.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = ((millis.len() as f64 * share).ceil() as usize).saturating_sub(1);
            millis.get(place).map(|millis| (millis * 1_000.0).round() / 1_000.0)
        };
        json!({ "count": millis.len(), "p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": at(1.0) })
    }
}

/// Clients that add entries, each on a separate connection.
pub(super) struct AddClients {
    is_stopping: Arc<AtomicBool>,
    clients: Vec<JoinHandle<std::result::Result<Times, String>>>,
}

impl AddClients {
    /// Starts one client for each address. `rate` is the total number of additions per second; 0 means the highest
    /// possible rate. The rate determines the intended start time of each addition.
    pub(super) fn start(name: &str, addresses: &[SocketAddr], rate: u64) -> AddClients {
        let is_stopping = Arc::<AtomicBool>::default();
        let pause = (rate > 0).then(|| Duration::from_secs_f64(addresses.len() as f64 / rate as f64));
        let client = |(number, address): (usize, &SocketAddr)| {
            let (name, address) = (format!("{name}-{number}"), *address);
            let stop = Arc::clone(&is_stopping);
            std::thread::spawn(move || {
                add_all(&name, address, pause, &stop).map_err(|error| format!("{name} at {address}: {error}"))
            })
        };
        let clients = addresses.iter().enumerate().map(client).collect();
        AddClients { is_stopping, clients }
    }

    /// Stops the clients. Returns the changes, each with its intended start time.
    pub(super) fn stop(self) -> Result<Times> {
        self.is_stopping.store(true, Ordering::Relaxed);
        let mut all = Times::default();
        for client in self.clients {
            all.0.append(&mut client.join().map_err(|_| "a client met a defect")??.0);
        }
        Ok(all)
    }
}

fn add_all(name: &str, address: SocketAddr, pause: Option<Duration>, stop: &AtomicBool) -> Result<Times> {
    let mut connection = connect(address)?;
    let (mut times, mut due) = (Times::default(), Instant::now());
    for number in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        match pause {
            Some(pause) => {
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                due += pause;
            }
            None => due = Instant::now(),
        }
        let started = pause.map_or(due, |pause| due.checked_sub(pause).unwrap_or(due));
        let entry = format!("ou={name}-{number},{SUFFIX}");
        let outcome = connection.add(&entry, &[("objectClass", "organizationalUnit")])?;
        if !outcome.is_success() {
            return Err(format!("{entry}: {outcome:?}").into());
        }
        times.add(started, started.elapsed());
    }
    Ok(times)
}

/// Adds entries at a node, and searches for each entry on all other nodes. Returns the times until all nodes return an
/// entry, counted once from the request and once from its answer.
pub(super) fn see_everywhere(
    at: SocketAddr,
    others: &[SocketAddr],
    count: u64,
    rate: u64,
    run: u64,
) -> Result<(Times, Times)> {
    let mut writing = connect(at)?;
    let mut reading = others.iter().map(|other| connect(*other)).collect::<Result<Vec<_>>>()?;
    let (mut from_request, mut from_answer) = (Times::default(), Times::default());
    for number in 0..count {
        std::thread::sleep(Duration::from_secs_f64(1.0 / rate as f64));
        let entry = format!("ou=look-{run}-{number},{SUFFIX}");
        let started = Instant::now();
        let reply = add_with_position(&mut writing, &entry)?;
        let answered = Instant::now();
        let token = reply.position().ok_or("an answer without its position")?;
        let at_least = AtLeast { token, wait_ms: PATIENCE_MS };
        let sent = reading.iter_mut().map(|connection| send_read(connection, &entry, at_least));
        let sent = sent.collect::<Result<Vec<_>>>()?;
        for (connection, id) in reading.iter_mut().zip(sent) {
            let found = connection.reply(id)?;
            if found.entries.len() != 1 {
                return Err(format!("{entry} is not there: {:?}", found.outcome).into());
            }
        }
        from_request.add(started, started.elapsed());
        from_answer.add(answered, answered.elapsed());
    }
    Ok((from_request, from_answer))
}

fn add_with_position(connection: &mut Connection, entry: &str) -> Result<Reply> {
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: oids::POSITION, critical: true, value: None });
    let mut attributes = AttributesBuf::new();
    attributes.push("objectClass", ["organizationalUnit"]);
    let request = Request::Add(AddRequest { entry, attributes: attributes.as_attributes() });
    Ok(connection.request(request, controls.as_controls())?)
}

fn send_read(connection: &mut Connection, entry: &str, at_least: AtLeast) -> Result<ldap::MessageId> {
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: oids::AT_LEAST, critical: true, value: Some(&at_least.encode()) });
    let filter = FilterBuf::parse("(objectClass=*)").map_err(|error| format!("{error:?}"))?;
    let selection = SelectionBuf::from_iter(["1.1"]);
    let search = SearchRequest::new(entry, Scope::BaseObject, filter.as_filter(), selection.as_selection());
    Ok(connection.send(Request::Search(search), controls.as_controls())?)
}

fn read_result_file(file: &Path) -> Result<Value> {
    Ok(serde_json::from_reader(zstd::Decoder::new(std::fs::File::open(file)?)?)?)
}

/// Reads machine, program and date from a result of `pando bench run`.
pub(super) fn read_circumstances(file: &Path) -> Result<Value> {
    let result = read_result_file(file)?;
    Ok(json!({ "environment": result["environment"], "tool": result["tool"], "started": result["started"] }))
}

/// Reads the main figures from a result of `pando bench run` for one kind of operation.
pub(super) fn read_result(file: &Path) -> Result<Value> {
    let result = read_result_file(file)?;
    let of = |path: &str| result.pointer(path).cloned().unwrap_or(Value::Null);
    let workload = of("/workloads/0");
    let kinds = workload.get("operations").and_then(Value::as_object);
    let (kind, operations) =
        kinds.and_then(|kinds| kinds.iter().next()).ok_or("a result without operations")?;
    let number = |value: &Value, path: &str| value.pointer(path).and_then(Value::as_f64);
    let millis = |path: &str| number(operations, path).map(|micros| micros / 1_000.0);
    let wrong = ["/errors", "/wrong_answers"].iter().filter_map(|path| number(operations, path)).sum::<f64>();
    Ok(json!({
        "kind": kind,
        "per_second": number(&workload, "/per_second").map(f64::round),
        "p50_ms": millis("/latency/p50_micros"),
        "p99_ms": millis("/latency/p99_micros"),
        "cpu_micros": number(&workload, "/cost/cpu_micros_per_operation"),
        "wrong": wrong,
        "unanswered": number(&workload, "/unanswered"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_lie_between_ends_and_percentiles_cover_the_time_range() {
        let started = Instant::now();
        let millis = Duration::from_millis;
        let mut times = Times::default();
        for number in 1..=100 {
            times.add(started, millis(number));
        }
        times.add(started + millis(200), millis(700));
        assert_eq!(times.longest_gap(started), millis(800));
        assert_eq!(times.longest_gap(started + millis(899)), millis(1));
        assert_eq!(times.longest_gap(started + millis(1_000)), Duration::ZERO);
        let figures = times.between(started, started + millis(101)).figures();
        assert_eq!(figures, json!({ "count": 100, "p50_ms": 50.0, "p99_ms": 99.0, "max_ms": 100.0 }));
    }
}
