//! Topic of the log: check of its settings, and creation.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::metadata::Metadata;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientContext, Offset, Statistics, TopicPartitionList};

use crate::settings::Settings;
use crate::wait::wait;
use crate::{LogError, failed};

/// Time limit of a call.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time limit of each call if several calls are made in a row.
const ONE_CALL: Duration = Duration::from_secs(2);

/// Maximum number of polls that look for errors of a client's connections.
const SAID_POLLS: usize = 20;

/// Settings of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicFacts {
    /// Number of partitions.
    pub partitions: usize,
    /// Number of brokers that store each message.
    pub replicas: usize,
    /// Number of brokers that must have a message before it is acknowledged.
    pub replicas_min: usize,
    /// `retention.ms`; -1 for unlimited.
    pub retention_ms: i64,
    /// `retention.bytes`; -1 for unlimited.
    pub retention_bytes: i64,
    /// `cleanup.policy`.
    pub cleanup: String,
    /// Maximum size of a message, in octets.
    pub message_bytes_max: usize,
}

impl TopicFacts {
    /// Returns the reasons why the topic is unsuitable as a log. Empty if it is suitable.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.partitions != 1 {
            problems.push(format!("it has {} partitions, and a log has one order: 1", self.partitions));
        }
        if self.retention_ms != -1 {
            problems
                .push(format!("retention.ms is {}: messages would go by themselves; -1", self.retention_ms));
        }
        if self.retention_bytes != -1 {
            let bytes = self.retention_bytes;
            problems.push(format!("retention.bytes is {bytes}: messages would go by themselves; -1"));
        }
        if self.cleanup != "delete" {
            problems
                .push(format!("cleanup.policy is {}: messages would be thinned out; delete", self.cleanup));
        }
        problems
    }
}

/// Context that stores the last error of a client's connections, because a failed call itself reports no cause.
#[derive(Clone, Default)]
struct LastError(Arc<Mutex<Option<Failure>>>);

/// Error of a connection: its code, if any, and its text.
type Failure = (Option<RDKafkaErrorCode>, String);

impl LastError {
    fn last(&self) -> Option<Failure> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns true if a retry cannot succeed.
    fn is_refused(&self) -> bool {
        matches!(self.last(), Some((Some(RDKafkaErrorCode::SSL | RDKafkaErrorCode::Authentication), _)))
    }
}

impl ClientContext for LastError {
    fn stats(&self, _: Statistics) {}

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, "Kafka: {reason}");
        // "All brokers down" is less informative than the error of one of them.
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::AllBrokersDown) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
                Some((error.rdkafka_error_code(), reason.to_owned()));
        }
    }
}

impl ConsumerContext for LastError {}

/// Queries the topic until there is an answer. Returns the error if a retry cannot succeed, or if there is no answer
/// within [`PATIENCE`].
fn metadata(consumer: &BaseConsumer<LastError>, topic: &str) -> Result<Metadata, KafkaError> {
    let started = Instant::now();
    loop {
        let error = match consumer.fetch_metadata(Some(topic), ONE_CALL) {
            Ok(metadata) => return Ok(metadata),
            Err(error) => error,
        };
        // Errors of connections are queued after other events.
        (0..SAID_POLLS).for_each(|_| drop(consumer.poll(Duration::from_millis(10))));
        if consumer.context().is_refused() || started.elapsed() >= PATIENCE {
            return Err(error);
        }
    }
}

/// Returns the settings of the topic.
///
/// # Errors
/// Kafka cannot be reached, does not have the topic, or does not permit this client to read its settings.
pub fn topic_facts(settings: &Settings) -> Result<TopicFacts, LogError> {
    let last_error = LastError::default();
    let consumer: BaseConsumer<LastError> = settings
        .finish(settings.client())
        .create_with_context(last_error.clone())
        .map_err(failed("making a client"))?;
    let doing = "asking for the topic";
    let metadata = metadata(&consumer, &settings.topic).map_err(|error| match last_error.last() {
        Some((_, last_error)) => LogError::NoTalk { doing, error, last_error },
        None => failed(doing)(error),
    })?;
    let found = metadata.topics().first().filter(|topic| topic.error().is_none());
    let topic = found.ok_or_else(|| LogError::NoTopic(settings.topic.clone()))?;
    let partitions = topic.partitions();
    let admin = admin(settings)?;
    let resource = [ResourceSpecifier::Topic(&settings.topic)];
    let doing = "asking how the topic is set";
    let answer = wait(admin.describe_configs(&resource, &options())).map_err(failed(doing))?;
    let resource = answer.into_iter().next().unwrap_or(Err(RDKafkaErrorCode::Unknown));
    let resource = resource.map_err(KafkaError::AdminOp).map_err(failed(doing))?;
    let text = |name: &str| resource.get(name).and_then(|entry| entry.value.clone()).unwrap_or_default();
    let number = |name: &str| text(name).parse::<i64>().unwrap_or_default();
    Ok(TopicFacts {
        partitions: partitions.len(),
        replicas: partitions.first().map_or(0, |partition| partition.replicas().len()),
        replicas_min: usize::try_from(number("min.insync.replicas")).unwrap_or_default(),
        retention_ms: number("retention.ms"),
        retention_bytes: number("retention.bytes"),
        cleanup: text("cleanup.policy"),
        message_bytes_max: usize::try_from(number("max.message.bytes")).unwrap_or_default(),
    })
}

/// Creates the topic with the settings of a log, on `replicas` brokers: messages are synced, retained without limit,
/// and stay in the order of their appends.
///
/// # Errors
/// Kafka cannot be reached, has the topic already, has fewer brokers, or does not permit this client to create it.
pub fn create_topic(settings: &Settings, replicas: usize) -> Result<(), LogError> {
    let admin = admin(settings)?;
    let in_sync = replicas.saturating_sub(1).max(1).to_string();
    let count = i32::try_from(replicas).unwrap_or(i32::MAX);
    let topic = NewTopic::new(&settings.topic, 1, TopicReplication::Fixed(count))
        .set("retention.ms", "-1")
        .set("retention.bytes", "-1")
        .set("cleanup.policy", "delete")
        .set("flush.messages", "1")
        .set("min.insync.replicas", &in_sync)
        .set("unclean.leader.election.enable", "false");
    let doing = "creating the topic";
    let answer = wait(admin.create_topics([&topic], &options())).map_err(failed(doing))?;
    match answer.into_iter().next() {
        Some(Err((_, code))) => Err(failed(doing)(KafkaError::AdminOp(code))),
        _ => Ok(()),
    }
}

/// Deletes all messages before an offset permanently. Returns the offset of the first remaining message.
///
/// # Errors
/// Kafka cannot be reached, or does not permit this client to delete.
pub fn delete_before(settings: &Settings, offset: u64) -> Result<u64, LogError> {
    let doing = "deleting from the log";
    let mut until = TopicPartitionList::new();
    let offset = i64::try_from(offset).unwrap_or(i64::MAX);
    let placed = until.add_partition_offset(&settings.topic, 0, Offset::Offset(offset));
    placed.map_err(failed(doing))?;
    let answer = wait(admin(settings)?.delete_records(&until, &options())).map_err(failed(doing))?;
    let partition = answer.find_partition(&settings.topic, 0);
    partition.as_ref().map_or(Ok(()), |partition| partition.error()).map_err(failed(doing))?;
    match partition.map(|partition| partition.offset()) {
        Some(Offset::Offset(start)) => Ok(u64::try_from(start).unwrap_or(0)),
        _ => Err(failed(doing)(KafkaError::AdminOp(RDKafkaErrorCode::UnknownPartition))),
    }
}

fn admin(settings: &Settings) -> Result<AdminClient<DefaultClientContext>, LogError> {
    settings.finish(settings.client()).create().map_err(failed("making a client"))
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(PATIENCE)).operation_timeout(Some(PATIENCE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_topic_that_can_lose_messages_are_reported() {
        let fit = TopicFacts {
            partitions: 1,
            replicas: 3,
            replicas_min: 2,
            retention_ms: -1,
            retention_bytes: -1,
            cleanup: "delete".to_owned(),
            message_bytes_max: 1 << 20,
        };
        assert_eq!(fit.problems(), Vec::<String>::new());
        let unfit = TopicFacts {
            partitions: 2,
            retention_ms: 604_800_000,
            retention_bytes: 1,
            cleanup: "compact".to_owned(),
            ..fit
        };
        let problems = unfit.problems();
        for part in ["2 partitions", "retention.ms is 604800000", "retention.bytes is 1", "compact"] {
            assert!(problems.iter().any(|problem| problem.contains(part)), "{part}: {problems:?}");
        }
    }
}
