//! Helpers of the black-box tests, which start a server and write to it.
#![allow(dead_code, unreachable_pub, reason = "the tests use the rest")]

#[path = "../../pando/tests/support/clients.rs"]
pub mod clients;
#[path = "../../pando/tests/support/givens.rs"]
mod givens;
#[path = "../../pando/tests/support/hidden_data/mod.rs"]
pub mod hidden_data;
#[path = "../../pando/tests/support/http.rs"]
pub mod http;
#[path = "../../pando/tests/support/pando.rs"]
pub mod pando;
#[path = "../../pando/tests/support/scratch.rs"]
pub mod scratch;
#[path = "../../pando/tests/support/tree.rs"]
pub mod tree;
#[path = "../../pando/tests/support/writers.rs"]
pub mod writers;

pub use givens::{ADMIN_DN, ADMIN_PASSWORD, DEADLINE, SUFFIX};
pub use pando::Pando;
pub use scratch::Scratch;
