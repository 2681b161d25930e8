//! LDAP as clients use it, and requests that no well-behaved client sends.
//!
//! These tests are one binary, so that it is linked once and tests that wait can run at the same time.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod certificates;
mod clients;
mod collective;
mod conformance;
mod connect;
mod copies;
mod dereference;
mod differential;
mod known_holes;
mod matched;
mod messages;
mod pages;
mod persistent;
mod positions;
mod proxy;
mod relax;
mod rfc4511;
mod small_controls;
mod smoke;
mod sorting;
mod sssd;
mod sync;
mod transactions;
