//! Protocol for one directory on several machines.
//!
//! The log of the directory is one partition of a topic that all machines share. Every node ([`Follower`]) reads it in
//! order and accepts the same messages as every other node, because acceptance depends only on earlier messages. One
//! node at a time writes: a [`Member`] is a follower that may become the writer. `docs/reference/cluster-protocol.md`
//! defines the messages and gives the reason for each rule.
//!
//! Everything here is a function of its arguments: no I/O, no thread, no clock, no randomness, and no knowledge of
//! LDAP. Records are bytes. State that must survive a restart is returned as [`RowChange`]s, which the caller commits
//! with the records they belong to. The tests run whole clusters under a seed: see the module `simulation`.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::indexing_slicing, clippy::expect_used))]
#![forbid(unsafe_code)]

mod codec;
pub mod comparison;
pub mod digest;
mod follower;
pub mod forward;
mod key;
pub mod limits;
mod lineage;
mod member;
mod members;
pub mod message;
mod operation;
mod replica;
#[cfg(test)]
mod replica_simulation;
pub mod retention;
mod rotation;
mod round;
mod rows;
mod shared_log;
#[cfg(test)]
mod simulation;
mod window;

pub use follower::{
    Accepted, Alarm, Follower, IgnoreReason, KeyUpdate, Mark, MemberUpdate, NewEpoch, OperationStatus,
    Reseed, Rotated, Verdict,
};
pub use key::{ClusterKey, FIRST_KEY, Fingerprint, KeyRing, Tag};
pub use lineage::{EPOCHS_MAX, Lineage, Relation, WriterEpoch};
pub use member::{CannotClaim, CannotPropose, Fit, GroupBuilder, GroupOutcome, Member, Role, Step};
pub use operation::{NodeId, OperationId};
pub use replica::{EpochName, FenceAnswer, ForwardBasis, Progress, Reach, Refusal, RetainedLog, Visibility};
pub use round::{PlannedSlice, Round, Slice};
pub use rows::{Cursor, Epoch, MemberRow, OfferedKey, RowChange, StateError};
pub use shared_log::{AppendError, LogEvent, SharedLog};
