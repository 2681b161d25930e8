//! Appending of messages to the log.

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message as _;
use rdkafka::producer::{BaseRecord, DeliveryResult, ProducerContext, ThreadedProducer};
use rdkafka::{ClientContext, Statistics};
use replication::AppendError;

use crate::settings::Settings;
use crate::{Event, LogError, Sink, failed};

/// Appends messages, and reports the result of each. A message counts as appended once all required brokers have it.
pub struct Appender {
    producer: ThreadedProducer<Deliveries>,
    topic: String,
    sink: Sink,
}

impl Appender {
    /// Starts an appender whose results go to `sink`.
    ///
    /// # Errors
    /// The settings are invalid.
    pub fn start(settings: &Settings, sink: Sink) -> Result<Appender, LogError> {
        let mut config = settings.client();
        config
            .set("acks", "all")
            .set("enable.idempotence", "true")
            .set("linger.ms", "0")
            .set("retry.backoff.ms", "50")
            .set("retry.backoff.max.ms", "500")
            .set("message.max.bytes", "1000000000")
            .set("message.timeout.ms", settings.append_timeout_ms.to_string());
        let context = Deliveries(sink.clone());
        let config = settings.finish(config);
        let producer = config.create_with_context(context).map_err(failed("making a producer"))?;
        Ok(Appender { producer, topic: settings.topic.clone(), sink })
    }

    /// Starts appending. One [`Event::Appended`] or [`Event::Failed`] with this ticket follows.
    pub fn append(&self, ticket: usize, key: &[u8], bytes: &[u8]) {
        let record =
            BaseRecord::with_opaque_to(&self.topic, Box::new(ticket)).partition(0).key(key).payload(bytes);
        if let Err((error, _)) = self.producer.send(record) {
            // The message certainly never left this process.
            let (error, reason) = (AppendError::NotAppended, error.to_string());
            (self.sink)(Event::Failed { ticket, error, reason });
        }
    }
}

/// Reports the results of appends.
struct Deliveries(Sink);

impl ClientContext for Deliveries {
    fn stats(&self, _: Statistics) {}

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::warn!(%error, "Kafka, appending: {reason}");
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = Box<usize>;

    fn delivery(&self, result: &DeliveryResult<'_>, ticket: Box<usize>) {
        let ticket = *ticket;
        (self.0)(match result {
            Ok(message) => match u64::try_from(message.offset()) {
                Ok(offset) => Event::Appended { ticket, offset },
                // With `acks=all`, Kafka always returns a valid offset. If it did not, the reader would still deliver
                // the message.
                Err(_) => Event::Failed {
                    ticket,
                    error: AppendError::Unknown,
                    reason: "Kafka did not say where the message stands".to_owned(),
                },
            },
            Err((error, _)) => Event::Failed { ticket, error: known(error), reason: error.to_string() },
        });
    }
}

/// Returns whether the message may be in the log although Kafka reported this error. It may be, unless the error proves
/// the opposite: a message that timed out may be in the log already, or arrive later.
fn known(error: &KafkaError) -> AppendError {
    use RDKafkaErrorCode::{
        InvalidMessage, InvalidMessageSize, InvalidRecord, MessageSizeTooLarge, QueueFull,
        TopicAuthorizationFailed, UnknownPartition, UnknownTopic, UnknownTopicOrPartition,
    };
    match error.rdkafka_error_code() {
        Some(
            InvalidMessage
            | InvalidMessageSize
            | InvalidRecord
            | MessageSizeTooLarge
            | QueueFull
            | TopicAuthorizationFailed
            | UnknownPartition
            | UnknownTopic
            | UnknownTopicOrPartition,
        ) => AppendError::NotAppended,
        _ => AppendError::Unknown,
    }
}
