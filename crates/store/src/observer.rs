//! [`Observer`]: what the store says unasked.
//!
//! A fold runs on the store's own thread, and nobody waits for it who could be given its error. A program that serves
//! others wants to know at once all the same, because its operator has to do something.

use std::fmt::Debug;

use crate::StoreError;

/// Something that happened in an open store.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// No batch begins until the store is opened anew. Said once.
    WritesStopped {
        /// What failed.
        cause: &'a str,
    },
    /// What is committed cannot be brought into the data file for now; it stays durable and visible, and is tried
    /// again. Said when it begins.
    FoldFailed {
        /// Why.
        error: &'a StoreError,
    },
    /// It is brought there again.
    FoldRecovered,
    /// A segment of the redo log could not be given up or made beforehand. The log goes on without.
    SegmentFailed {
        /// Why.
        error: &'a StoreError,
    },
}

/// Who is told. Called from whatever thread it happens on, with no lock of the store held; has to return soon.
pub trait Observer: Debug + Send + Sync {
    /// Something happened.
    fn notice(&self, event: &Event<'_>);
}
