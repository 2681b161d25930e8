//! Reading of the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message as _;
use rdkafka::{ClientContext, Offset, Statistics, TopicPartitionList};

use crate::settings::Settings;
use crate::{Event, LogError, Message, Sink, failed};

/// Maximum time of one wait for a message. A reader that is stopped ends within this time.
const POLL: Duration = Duration::from_millis(100);

/// Time limit of one query, which cannot be interrupted.
const ONE_CALL: Duration = Duration::from_secs(1);

/// Reads all messages from an offset on, in order, until it is dropped.
pub struct Reader {
    is_stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    /// Starts reading at `offset`.
    ///
    /// # Errors
    /// The settings are invalid, or the system cannot start a thread.
    pub fn start(settings: &Settings, offset: u64, sink: Sink) -> Result<Reader, LogError> {
        let consumer = consumer_at(settings, offset)?;
        let is_stopping = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_stopping);
        let run = move || read(&consumer, &stop, &sink);
        let thread = std::thread::Builder::new().name("pando-log".to_owned()).spawn(run)?;
        Ok(Reader { is_stopping, thread: Some(thread) })
    }
}

impl Drop for Reader {
    /// Waits for the thread, which still has a client of Kafka. If the process ended while that client runs, OpenSSL
    /// would be shut down during its use, and the process would crash.
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the reader's thread has no effect here.
            let _ = thread.join();
        }
    }
}

fn read(consumer: &BaseConsumer<Quiet>, is_stopping: &AtomicBool, sink: &Sink) {
    while !is_stopping.load(Ordering::Relaxed) {
        match consumer.poll(POLL) {
            None => {}
            Some(Ok(message)) => sink(Event::Message(owned(&message))),
            Some(Err(error)) if is_loss(&error) => return sink(Event::Lost(error.to_string())),
            Some(Err(error)) => tracing::warn!(%error, "reading the log"),
        }
    }
}

/// Fetches the message at an offset. Returns it with the offsets of the log's first message and of the next message to
/// be appended. The message is `None` if the log has none at that offset.
///
/// # Errors
/// Kafka cannot be reached within `patience`, or does not have the topic.
pub fn fetch(
    settings: &Settings,
    offset: u64,
    patience: Duration,
) -> Result<(Option<Message>, u64, u64), LogError> {
    fetch_unless(settings, offset, patience, &AtomicBool::new(false))
}

/// Does the same as [`fetch`], for threads that may be stopped: it returns at most about a second after `is_ending` is
/// set.
///
/// # Errors
/// The same as those of [`fetch`], or `is_ending` was set.
pub fn fetch_unless(
    settings: &Settings,
    offset: u64,
    patience: Duration,
    is_ending: &AtomicBool,
) -> Result<(Option<Message>, u64, u64), LogError> {
    let consumer = consumer_at(settings, offset)?;
    let started = Instant::now();
    let is_over = || started.elapsed() > patience || is_ending.load(Ordering::Relaxed);
    let (start, end) = loop {
        match consumer.fetch_watermarks(&settings.topic, 0, ONE_CALL) {
            Ok(ends) => break ends,
            Err(error) if is_timeout(&error) && !is_over() => {}
            Err(error) => return Err(failed("asking where the log begins and ends")(error)),
        }
    };
    let (start, end) = (u64::try_from(start).unwrap_or(0), u64::try_from(end).unwrap_or(0));
    if !(start..end).contains(&offset) {
        return Ok((None, start, end));
    }
    loop {
        match consumer.poll(POLL) {
            Some(Ok(message)) => {
                let message = owned(&message);
                return Ok(((message.offset == offset).then_some(message), start, end));
            }
            Some(Err(error)) if is_loss(&error) => return Ok((None, start, end)),
            Some(Err(error)) if is_over() => return Err(failed("reading the log")(error)),
            None if is_over() => {
                let error = KafkaError::MessageConsumption(RDKafkaErrorCode::OperationTimedOut);
                return Err(failed("reading the log")(error));
            }
            _ => {}
        }
    }
}

fn consumer_at(settings: &Settings, offset: u64) -> Result<BaseConsumer<Quiet>, LogError> {
    let mut config = settings.client();
    config
        // Librdkafka requires the name of a group. Nothing is stored under it.
        .set("group.id", format!("{}-reader", settings.group))
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "error")
        .set("fetch.wait.max.ms", "500")
        .set("fetch.error.backoff.ms", "100")
        .set("fetch.message.max.bytes", "4194304")
        .set("queued.max.messages.kbytes", "16384");
    let consumer: BaseConsumer<Quiet> =
        settings.finish(config).create_with_context(Quiet).map_err(failed("making a consumer"))?;
    let mut place = TopicPartitionList::new();
    let offset = i64::try_from(offset).unwrap_or(i64::MAX);
    let placed = place.add_partition_offset(&settings.topic, 0, Offset::Offset(offset));
    placed.map_err(failed("choosing an offset"))?;
    consumer.assign(&place).map_err(failed("choosing an offset"))?;
    Ok(consumer)
}

fn owned(message: &rdkafka::message::BorrowedMessage<'_>) -> Message {
    Message {
        offset: u64::try_from(message.offset()).unwrap_or(0),
        key: message.key().unwrap_or_default().to_vec(),
        bytes: message.payload().unwrap_or_default().to_vec(),
        millis: message.timestamp().to_millis().unwrap_or(0),
    }
}

fn is_timeout(error: &KafkaError) -> bool {
    error.rdkafka_error_code() == Some(RDKafkaErrorCode::OperationTimedOut)
}

/// Returns true if no message can follow this error, because the log no longer has the offset.
fn is_loss(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange)
    )
}

/// Context of Kafka clients that logs through `tracing`, like the rest of the program.
pub(crate) struct Quiet;

impl ClientContext for Quiet {
    fn stats(&self, _: Statistics) {}

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::warn!(%error, "Kafka, reading: {reason}");
    }
}

impl ConsumerContext for Quiet {}
