//! A thread that makes the pages that may wait for the disk, so that other pages need not wait.
//!
//! All requests that wait when the thread begins a page receive that page. Therefore a flood of requests costs no more
//! than one request at a time.

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::Page;

/// Handle of the thread, which ends when the last handle is dropped.
#[derive(Clone)]
pub(super) struct Gathering {
    requests: Sender<Arc<Waiting>>,
}

/// A request that waits for its page.
#[derive(Default)]
struct Waiting {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    page: Option<Page>,
    waker: Option<Waker>,
}

/// The page for a request, as a future.
pub(super) struct GatheredPage {
    /// The request that waits; `None` if the thread has ended.
    waiting: Option<Arc<Waiting>>,
}

impl Gathering {
    /// Starts the thread, which makes pages with `make`.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub(super) fn start(make: impl Fn() -> Page + Send + 'static) -> std::io::Result<Gathering> {
        let (requests, waiting) = channel();
        let run = move || run(&waiting, make);
        std::thread::Builder::new().name("pando-gather".to_owned()).spawn(run)?;
        Ok(Gathering { requests })
    }

    /// Requests a page.
    pub(super) fn page(&self) -> GatheredPage {
        let waiting = Arc::<Waiting>::default();
        let sent = self.requests.send(Arc::clone(&waiting));
        GatheredPage { waiting: sent.is_ok().then_some(waiting) }
    }
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn run(requests: &Receiver<Arc<Waiting>>, make: impl Fn() -> Page) {
    while let Ok(first) = requests.recv() {
        let mut waiting: Vec<Arc<Waiting>> = std::iter::once(first).chain(requests.try_iter()).collect();
        // If there is no other reference, the connection of the request was closed or evicted.
        waiting.retain(|waiting| Arc::strong_count(waiting) > 1);
        if waiting.is_empty() {
            continue;
        }
        let page = make();
        for waiting in waiting {
            let mut state = waiting.lock();
            state.page = Some(page.clone());
            if let Some(waker) = state.waker.take() {
                waker.wake();
            }
        }
    }
}

impl Future for GatheredPage {
    type Output = Page;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Page> {
        let Some(waiting) = &self.waiting else {
            return Poll::Ready(Page::Unavailable("the figures are not gathered until a restart".to_owned()));
        };
        let mut state = waiting.lock();
        match state.page.take() {
            Some(page) => Poll::Ready(page),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
