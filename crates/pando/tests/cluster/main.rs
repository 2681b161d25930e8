//! Clusters of real nodes on a real broker.
//!
//! All these tests are in one binary, so that they run at the same time. They spend most of their time waiting until
//! brokers start and nodes time out.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod changes;
mod compose;
mod keys;
mod members;
mod nodes;
mod rules;
mod slices;
mod strangers;
mod trim;
