//! Cost of the server in each second: CPU time and memory of its processes, and the traffic of the disk that contains
//! their files.

use std::fs;

use super::worker::Schedule;
use crate::cpu;
use crate::disk::{Disk, Traffic};
use crate::result::{Second, ServerCost};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A sample at one time: CPU time and memory of processes, disk traffic, and stolen time.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    cpu_micros: u64,
    rss_anon_bytes: u64,
    rss_file_bytes: u64,
    disk: Traffic,
    stolen_cpu_micros: u64,
}

/// Observer of the server's processes and of the machine on which they run.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    processes: Vec<u32>,
    /// `None` if the disk is unknown or has no statistics.
    disk: Option<Disk>,
    first: Option<Sample>,
    last: Sample,
    peak: Sample,
    next_second: u64,
    is_over: bool,
    seconds: Vec<Second>,
    failure: Option<String>,
}

impl Observer {
    pub(crate) fn new(processes: &[u32]) -> Observer {
        let disk = Disk::of_processes(processes);
        Observer { processes: processes.to_vec(), disk, ..Observer::default() }
    }

    fn has_nothing_to_see(&self) -> bool {
        self.processes.is_empty() || self.is_over || self.failure.is_some()
    }

    /// Returns the time of the next sample.
    pub(crate) fn next_due(&self, schedule: &Schedule) -> u64 {
        if self.has_nothing_to_see() {
            return u64::MAX;
        }
        schedule.from.saturating_add(self.next_second * NANOS_PER_SECOND).min(schedule.to)
    }

    /// Takes the samples that are due.
    pub(crate) fn observe(&mut self, now: u64, schedule: &Schedule) {
        let is_end = now >= schedule.to;
        if now >= self.next_due(schedule) {
            self.take(now, schedule, is_end);
        }
    }

    /// Takes the last sample of a run that has ended, possibly early.
    pub(crate) fn observe_end(&mut self, now: u64, schedule: &Schedule) {
        self.take(now, schedule, true);
    }

    fn take(&mut self, now: u64, schedule: &Schedule, is_end: bool) {
        if self.has_nothing_to_see() || now < schedule.from {
            return;
        }
        let sample = match self.sample() {
            Ok(sample) => sample,
            Err(error) => {
                self.failure = Some(format!("the server's process: {error}"));
                return;
            }
        };
        self.peak.rss_anon_bytes = self.peak.rss_anon_bytes.max(sample.rss_anon_bytes);
        self.peak.rss_file_bytes = self.peak.rss_file_bytes.max(sample.rss_file_bytes);
        if self.first.is_none() {
            self.first = Some(sample);
        } else {
            let traffic = self.traffic_since(&self.last, &sample);
            self.seconds.push(Second {
                second: self.next_second.saturating_sub(1),
                server_cpu_micros: Some(sample.cpu_micros.saturating_sub(self.last.cpu_micros)),
                rss_anon_bytes: Some(sample.rss_anon_bytes),
                rss_file_bytes: Some(sample.rss_file_bytes),
                disk_read_bytes: traffic.map(|traffic| traffic.read_bytes),
                disk_written_bytes: traffic.map(|traffic| traffic.written_bytes),
                stolen_cpu_micros: Some(sample.stolen_cpu_micros.saturating_sub(self.last.stolen_cpu_micros)),
                ..Second::default()
            });
        }
        self.last = sample;
        self.next_second = (now.saturating_sub(schedule.from)) / NANOS_PER_SECOND + 1;
        self.is_over = is_end;
    }

    /// Returns the disk traffic between two samples.
    fn traffic_since(&self, before: &Sample, after: &Sample) -> Option<Traffic> {
        self.disk.as_ref().map(|_| Traffic {
            read_bytes: after.disk.read_bytes.saturating_sub(before.disk.read_bytes),
            written_bytes: after.disk.written_bytes.saturating_sub(before.disk.written_bytes),
        })
    }

    fn sample(&self) -> std::io::Result<Sample> {
        let stolen = cpu::stolen_time()?.as_micros() as u64;
        let mut sum = Sample { stolen_cpu_micros: stolen, ..Sample::default() };
        for process in &self.processes {
            sum.cpu_micros += cpu::process_time(*process)?.as_micros() as u64;
            let status = fs::read_to_string(format!("/proc/{process}/status"))?;
            sum.rss_anon_bytes += field(&status, "RssAnon:") * 1024;
            sum.rss_file_bytes += field(&status, "RssFile:") * 1024;
        }
        if let Some(disk) = &self.disk {
            sum.disk = disk.traffic()?;
        }
        Ok(sum)
    }

    /// Returns three results: the cost of the server over the measured time, its cost in each second, and the first
    /// failure.
    pub(crate) fn finish(self) -> (Option<ServerCost>, Vec<Second>, Option<String>) {
        let cost = self.first.as_ref().filter(|_| self.failure.is_none()).map(|first| ServerCost {
            cpu_micros: self.last.cpu_micros.saturating_sub(first.cpu_micros),
            cpu_micros_per_operation: 0.0,
            rss_anon_peak_bytes: Some(self.peak.rss_anon_bytes),
            rss_file_peak_bytes: Some(self.peak.rss_file_bytes),
            disk: self.disk.as_ref().map(|disk| disk.description.clone()),
            disk_read_bytes: self.traffic_since(first, &self.last).map(|traffic| traffic.read_bytes),
            disk_written_bytes: self.traffic_since(first, &self.last).map(|traffic| traffic.written_bytes),
            disk_written_bytes_per_operation: None,
        });
        (cost, self.seconds, self.failure)
    }
}

/// Returns the first number of the line that begins with this name.
fn field(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_a_process_is_observed_every_second() {
        let schedule = Schedule { start: 0, warm_up_end: 0, from: 0, to: 3 * NANOS_PER_SECOND };
        let mut observer = Observer::new(&[std::process::id()]);
        for now in 0..=3 {
            observer.observe(now * NANOS_PER_SECOND, &schedule);
        }
        let (cost, seconds, failure) = observer.finish();
        assert_eq!(failure, None);
        assert!(cost.unwrap().rss_anon_peak_bytes.unwrap() > 0);
        assert_eq!(seconds.iter().map(|second| second.second).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn a_process_that_has_ended_is_a_failure() {
        let schedule = Schedule { start: 0, warm_up_end: 0, from: 0, to: 1 };
        let mut observer = Observer::new(&[u32::MAX]);
        observer.observe(0, &schedule);
        assert!(observer.finish().2.is_some());
    }
}
