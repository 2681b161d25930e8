//! Data to serve and to measure with: the sample organisation ([`sample`]), anything from a template ([`template`]);
//! and what it takes to measure a directory server: workloads ([`workload`]), the load driver ([`driver`]), a server
//! that does nothing ([`responder`]), results ([`result`]), CPU time ([`cpu`]); other servers to measure beside
//! ([`peers`]), and files of what to measure in one go with its goals ([`suite`]).
//!
//! Measuring speaks LDAP over the wire, so it measures any server: Pando, and those it is compared with. Data and keys
//! come from seeds ([`Seeded`]), never from the clock.
#![forbid(unsafe_code)]

pub mod agents;
pub mod cgroup;
pub mod cpu;
pub mod disk;
pub mod driver;
pub mod peers;
pub mod report;
pub mod responder;
pub mod result;
pub mod sample;
mod seeded;
pub mod suite;
pub mod sweep;
pub mod template;
pub mod workload;

pub use seeded::Seeded;
