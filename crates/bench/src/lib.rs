//! Test data and measurements of directory servers. Data comes from the sample organization ([`sample`]) or from a
//! template ([`template`]). For measurements there are workloads ([`workload`]), the load driver ([`driver`]), a server
//! that does nothing ([`responder`]), results ([`result`]), CPU time ([`cpu`]), other servers for comparison
//! ([`peers`]), and suites of measurements with goals ([`suite`]).
//!
//! The driver uses LDAP over the network, so it can measure Pando and any other server. Data and keys are generated
//! from seeds ([`Seeded`]), never from the clock.
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
