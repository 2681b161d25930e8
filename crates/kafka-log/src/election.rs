//! Election of the writer: a consumer group in which one member at a time has the only partition of the log.
//!
//! The election only selects the node that should append a claim. Two nodes may consider themselves elected at the same
//! time; only the log decides which of them may write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::KafkaError;
use rdkafka::{ClientContext, Statistics};

use crate::settings::Settings;
use crate::{Event, LogError, Sink, failed};

const POLL: Duration = Duration::from_millis(100);
/// Interval of queries for the end of the log.
const ASK_END: Duration = Duration::from_secs(1);

/// Candidate in the election. When this value is dropped, another candidate is elected immediately.
pub struct Election {
    is_stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Election {
    /// Starts a candidate.
    ///
    /// # Errors
    /// The settings are invalid, or the system cannot start a thread.
    pub fn start(settings: &Settings, sink: Sink) -> Result<Election, LogError> {
        let mut config = settings.client();
        config
            .set("group.id", &settings.group)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "latest")
            // With this strategy the elected member stays elected when others join or leave.
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("session.timeout.ms", settings.session_timeout_ms.to_string())
            .set("heartbeat.interval.ms", (settings.session_timeout_ms / 4).max(100).to_string())
            .set("max.poll.interval.ms", "300000");
        let candidate = Candidate(sink.clone());
        let config = settings.finish(config);
        let consumer: BaseConsumer<Candidate> =
            config.create_with_context(candidate).map_err(failed("making a consumer"))?;
        consumer.subscribe(&[&settings.topic]).map_err(failed("standing for election"))?;
        let is_stopping = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_stopping);
        let topic = settings.topic.clone();
        let run = move || stand(&consumer, &topic, &stop, &sink);
        let thread = std::thread::Builder::new().name("pando-election".to_owned()).spawn(run)?;
        Ok(Election { is_stopping, thread: Some(thread) })
    }
}

impl Drop for Election {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn stand(consumer: &BaseConsumer<Candidate>, topic: &str, is_stopping: &AtomicBool, sink: &Sink) {
    let mut requested: Option<Instant> = None;
    while !is_stopping.load(Ordering::Relaxed) {
        // The partition is paused, so a poll returns only events of the group and errors.
        if let Some(Err(error)) = consumer.poll(POLL) {
            tracing::warn!(%error, "electing the writer");
        }
        if requested.is_none_or(|requested| requested.elapsed() >= ASK_END) {
            let now = Instant::now();
            requested = Some(now);
            let number = |offset| u64::try_from(offset).unwrap_or(0);
            let ends = consumer.fetch_watermarks(topic, 0, ASK_END);
            let ends = ends.map(|(start, end)| (number(start), number(end)));
            sink(Event::Ends { requested: now, ends: ends.map_err(|error| error.to_string()) });
        }
    }
}

struct Candidate(Sink);

impl ClientContext for Candidate {
    fn stats(&self, _: Statistics) {}

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::warn!(%error, "Kafka, electing the writer: {reason}");
    }
}

impl ConsumerContext for Candidate {
    fn post_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(partitions) if partitions.count() > 0 => {
                if let Err(error) = consumer.pause(partitions) {
                    tracing::warn!(%error, "pausing the partition of the election");
                }
                (self.0)(Event::Elected(true));
            }
            Rebalance::Revoke(partitions) if partitions.count() > 0 => (self.0)(Event::Elected(false)),
            Rebalance::Assign(_) | Rebalance::Revoke(_) => {}
            Rebalance::Error(error) => tracing::warn!(%error, "electing the writer"),
        }
    }
}
