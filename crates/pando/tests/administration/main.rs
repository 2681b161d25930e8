//! The server as its operator sees it: settings, listeners, signals, the log, the audit trail.
//!
//! These tests are one binary, so that it is linked once and tests that wait can run at the same time.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod audit;
mod closed_pipe;
mod container;
mod declared;
mod doctor;
mod init;
mod listeners;
mod local;
mod manual;
mod metrics;
mod output;
mod privileges;
mod process;
mod secrets;
mod settings;
mod structure;
mod traces;
mod unique;
