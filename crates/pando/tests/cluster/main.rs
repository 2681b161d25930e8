//! Clusters of real nodes on a real broker. Most of their time goes by waiting for brokers to start and for nodes to
//! miss one another, so they are one binary, whose tests wait at the same time.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../support/mod.rs"]
mod support;

mod changes;
mod compose;
mod keys;
mod members;
mod nodes;
mod slices;
mod strangers;
mod trim;
