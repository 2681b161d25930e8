//! Telemetry of the server: counters, faults, events of operations, traces, and the resources of the process.

pub(crate) mod client_use;
pub(crate) mod counter;
pub(crate) mod counters;
pub(crate) mod health;
pub(crate) mod index_advice;
pub(crate) mod latency;
pub(crate) mod limited_warning;
pub(crate) mod operation_event;
pub(crate) mod otlp;
pub(crate) mod process;
pub(crate) mod readiness;
pub(crate) mod refusals;
pub(crate) mod slow;
pub(crate) mod traces;
