//! The thread that sends traces to their receiver with the OpenTelemetry protocol over HTTP.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::CONTENT_TYPE;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::config::traces::TraceSettings;
use crate::limits::traces::{
    TRACE_ANSWER_BYTES_MAX, TRACE_LAST_REQUEST, TRACE_REQUEST, TRACE_RETRY_MAX, TRACE_RETRY_MIN,
    TRACE_WARNING_INTERVAL,
};
use crate::stamp::Random;
use crate::telemetry::otlp::{self, Resource};
use crate::telemetry::traces::{TraceFeed, TracedOperation};
use crate::web_client::{WebClient, web_client, with_causes};
use crate::workers::service::Service;

/// Maximum length of the receiver's text in a message, in characters.
const REASON_CHARS: usize = 300;

/// Sender of batches of traces, one batch at a time.
struct Sender {
    settings: TraceSettings,
    resource: Resource,
    random: Random,
    client: WebClient<Full<Bytes>>,
    /// Runtime that runs the requests on the calling thread.
    runtime: Runtime,
}

/// Starts the thread. Before it stops, it sends the waiting traces once, without retries.
///
/// # Errors
/// The system cannot start a thread, or has no random numbers.
pub(crate) fn start(settings: &TraceSettings, feed: &Arc<TraceFeed>) -> io::Result<Service> {
    let mut random = Random::default();
    let instance = random.uuid().map_err(|error| io::Error::other(error.to_string()))?;
    let sender = Sender {
        settings: settings.clone(),
        resource: Resource { service: settings.service.clone(), instance },
        random,
        client: web_client().map_err(io::Error::other)?,
        runtime: Builder::new_current_thread().enable_all().build()?,
    };
    tracing::info!("traces go to {}", settings.receiver());
    let (own, feed) = (Arc::clone(feed), Arc::clone(feed));
    Service::start("pando-traces", move || run(sender, &own), move || feed.close())
}

/// Sends traces until the feed is closed. A batch that cannot be sent is lost. After each failure in a row, the pause
/// before the next request doubles.
fn run(mut sender: Sender, feed: &TraceFeed) {
    let mut pause = TRACE_RETRY_MIN;
    let mut warned: Option<Instant> = None;
    loop {
        let (batch, is_closed) = feed.fetch();
        let is_failing = feed.figures.is_failing.load(Ordering::Relaxed);
        if is_closed && (batch.is_empty() || is_failing) {
            return feed.lost(batch.len());
        }
        let sent = sender.send(&batch, if is_closed { TRACE_LAST_REQUEST } else { TRACE_REQUEST });
        feed.figures.is_failing.store(sent.is_err(), Ordering::Relaxed);
        match sent {
            Ok(refused) => {
                feed.sent(batch.len().saturating_sub(refused));
                feed.lost(refused);
                pause = TRACE_RETRY_MIN;
                if is_failing {
                    tracing::info!("traces are accepted again by {}", sender.settings.receiver());
                }
            }
            Err(reason) => {
                feed.lost(batch.len());
                if warned.is_none_or(|last| last.elapsed() >= TRACE_WARNING_INTERVAL) {
                    warned = Some(Instant::now());
                    let lost = feed.figures.dropped.load(Ordering::Relaxed);
                    tracing::warn!(
                        "traces cannot be sent to {}: {reason}; {lost} are lost",
                        sender.settings.receiver()
                    );
                }
                feed.pause(pause);
                pause = (pause * 2).min(TRACE_RETRY_MAX);
            }
        }
    }
}

impl Sender {
    /// Sends the spans of operations. Returns the number of spans that the receiver rejected, but at most the number of
    /// operations.
    fn send(&mut self, batch: &[TracedOperation], limit: Duration) -> Result<usize, String> {
        let random = &mut self.random;
        let body = otlp::request(&self.resource, batch, || random.bytes());
        let body = body.map_err(|error| format!("no random numbers: {error}"))?;
        let mut request =
            Request::post(self.settings.endpoint.clone()).header(CONTENT_TYPE, "application/json");
        for (name, value) in &self.settings.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| error.to_string())?;
        let exchange = async {
            let response = self.client.request(request).await.map_err(|error| with_causes(&error))?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, TRACE_ANSWER_BYTES_MAX).collect().await;
            match head.status.is_success() {
                true => Ok(body.map(|body| body.to_bytes()).unwrap_or_default()),
                false => Err(format!("it answers {}", head.status)),
            }
        };
        let answer = self.runtime.block_on(async { timeout(limit, exchange).await });
        let answer = answer.map_err(|_| "it does not answer in time".to_owned())??;
        let Some((refused, reason)) = otlp::refused(&answer) else { return Ok(0) };
        let reason: String = reason.chars().take(REASON_CHARS).collect();
        tracing::warn!("{refused} spans of traces were refused: {reason:?}");
        Ok(usize::try_from(refused).unwrap_or(usize::MAX).min(batch.len()))
    }
}
