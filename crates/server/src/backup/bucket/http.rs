//! HTTP for the requests of `object_store`.

use std::io;
use std::pin::Pin;
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

use crate::limits::{BUCKET_REQUEST, BUCKET_STALL};
use crate::web_client::{WebClient, web_client, with_causes};

/// Creates HTTP clients.
#[derive(Debug)]
pub(super) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = web_client()
            .map_err(|error| object_store::Error::Generic { store: "S3", source: Box::new(error) })?;
        Ok(HttpClient::new(Service(client)))
    }
}

/// An HTTP client.
#[derive(Debug)]
struct Service(WebClient<HttpRequestBody>);

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let response = match timeout(BUCKET_REQUEST, self.0.request(request)).await {
            Ok(response) => response.map_err(|error| {
                let is_connect = error.is_connect();
                let kind = if is_connect { HttpErrorKind::Connect } else { HttpErrorKind::Interrupted };
                HttpError::new(kind, io::Error::other(with_causes(&error)))
            })?,
            Err(elapsed) => return Err(HttpError::new(HttpErrorKind::Timeout, elapsed)),
        };
        let (head, body) = response.into_parts();
        let body = body.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error));
        let body = Watched { body, limit: Box::pin(sleep(BUCKET_STALL)) };
        Ok(HttpResponse::from_parts(head, HttpResponseBody::new(body)))
    }
}

/// A body that fails if no byte of it arrives for a time.
struct Watched<B> {
    body: B,
    limit: Pin<Box<Sleep>>,
}

impl<B: Body<Data = Bytes, Error = HttpError> + Unpin> Body for Watched<B> {
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
        polled
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
