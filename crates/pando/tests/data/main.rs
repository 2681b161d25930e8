//! Commands that load and maintain data.
//!
//! These tests are one binary, so that it is linked once and tests that wait can run at the same time.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod backup;
mod bucket;
mod dynamic;
mod encrypted;
mod ends;
mod follow;
mod foreign;
mod formats;
mod generate;
mod groups;
mod import;
mod indexes;
mod links;
mod migrate;
mod online;
mod replica;
mod replica_compare;
mod replica_doubt;
mod replica_faults;
mod replicas;
mod round_trip;
mod schema_from;
mod search_and_change;
mod tools;
mod twin;
mod undelete;
mod users_and_groups;
