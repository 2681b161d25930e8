//! [`View`]: a long-lived reader that moves to the newest durable state when told to.

use std::ops::Deref;

use crate::{Read, Result};

/// A [`Read`] at one position that shows nothing that is not durable. One for each thread that reads; it may change threads.
///
/// Renew it once per loop pass, never per request: that costs a few nanoseconds while nothing has changed. A view keeps the pages of
/// its position from being reused: an idle loop's view makes the file grow while others write, so call [`park`](View::park) before
/// a wait without end.
pub struct View {
    read: Read,
}

impl View {
    /// Moves to the newest durable position. Also wakes a parked view.
    ///
    /// # Errors
    /// `Engine`; the view is then parked.
    pub fn renew(&mut self) -> Result<()> {
        todo!()
    }

    /// Lets go of the position, so that its pages can be reused. Reads give `Parked` until [`renew`](View::renew).
    pub fn park(&mut self) {
        todo!()
    }
}

impl Deref for View {
    type Target = Read;

    fn deref(&self) -> &Read {
        &self.read
    }
}
