//! Clusters of real nodes on a real broker.
//!
//! These tests are one binary, because most of their time is spent waiting for brokers to start and for nodes to time
//! out, and they can wait at the same time.
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
