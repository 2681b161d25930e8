//! The HTTP client that `object_store` uses.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use async_trait::async_trait;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::limits::bucket::{BUCKET_ANSWER_BYTES, BUCKET_LIST_BYTES, BUCKET_REQUEST, BUCKET_STALL};
use crate::web_client::{WebClient, web_client, with_causes};

/// Marks a request for the content of an object. The response to such a request is read as a stream. All other
/// responses are held in memory, and therefore their size is limited.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectContentRequest;

/// Total size in bytes of the responses that were held in memory since the last listing began.
pub(super) type BufferedBytes = Arc<AtomicU64>;

/// Creates the HTTP clients for `object_store`.
#[derive(Debug)]
pub(super) struct Connector(pub(super) BufferedBytes);

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = web_client()
            .map_err(|error| object_store::Error::Generic { store: "S3", source: Box::new(error) })?;
        Ok(HttpClient::new(Service { client, buffered_bytes: Arc::clone(&self.0) }))
    }
}

/// An HTTP client for `object_store`.
#[derive(Debug)]
struct Service {
    client: WebClient<HttpRequestBody>,
    buffered_bytes: BufferedBytes,
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let is_object = request.extensions().get::<ObjectContentRequest>().is_some();
        let response = match timeout(BUCKET_REQUEST, self.client.request(request)).await {
            Ok(response) => response.map_err(|error| {
                let is_connect = error.is_connect();
                let kind = if is_connect { HttpErrorKind::Connect } else { HttpErrorKind::Interrupted };
                HttpError::new(kind, io::Error::other(with_causes(&error)))
            })?,
            Err(elapsed) => return Err(HttpError::new(HttpErrorKind::Timeout, elapsed)),
        };
        let (head, body) = response.into_parts();
        let body = body.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error));
        // If the request for an object fails, the error response is held in memory too.
        let buffered_bytes =
            (!is_object || !head.status.is_success()).then(|| Arc::clone(&self.buffered_bytes));
        let body = WatchedBody { body, limit: Box::pin(sleep(BUCKET_STALL)), buffered_bytes, bytes: 0 };
        Ok(HttpResponse::from_parts(head, HttpResponseBody::new(body)))
    }
}

/// The body of a response. Reading it fails if no byte arrives for some time, or if it is held in memory and is too
/// long.
struct WatchedBody<B> {
    body: B,
    limit: Pin<Box<Sleep>>,
    /// The total size of the responses held in memory. Only set if this response is one of them.
    buffered_bytes: Option<BufferedBytes>,
    bytes: u64,
}

impl<B> WatchedBody<B> {
    /// Counts received bytes. Fails if a limit is exceeded.
    fn count(&mut self, bytes: u64) -> Result<(), HttpError> {
        self.bytes = self.bytes.saturating_add(bytes);
        let Some(buffered_bytes) = &self.buffered_bytes else { return Ok(()) };
        let total = buffered_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let text = match (self.bytes > BUCKET_ANSWER_BYTES, total > BUCKET_LIST_BYTES) {
            (true, _) => format!("an answer is longer than {BUCKET_ANSWER_BYTES} bytes"),
            (_, true) => format!("the list is longer than {BUCKET_LIST_BYTES} bytes: keep fewer files there"),
            _ => return Ok(()),
        };
        Err(HttpError::new(HttpErrorKind::Decode, io::Error::other(text)))
    }
}

impl<B: Body<Data = Bytes, Error = HttpError> + Unpin> Body for WatchedBody<B> {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if polled.is_pending() {
            ready!(self.limit.as_mut().poll(context));
            let error = io::Error::from(io::ErrorKind::TimedOut);
            return Poll::Ready(Some(Err(HttpError::new(HttpErrorKind::Timeout, error))));
        }
        self.limit.as_mut().reset(Instant::now() + BUCKET_STALL);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
            if let Err(error) = self.count(bytes) {
                return Poll::Ready(Some(Err(error)));
            }
        }
        polled
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
