//! The web console, over HTTP with the real server.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../support/mod.rs"]
mod support;

mod listener;

use support::pando::Start;
use support::{Pando, Scratch};

/// Starts a server with the console in the clear, and this in its node file.
fn start(scratch: &Scratch, more: &str) -> Pando {
    let node = format!("{more}\n[console]\nlisten = [\"127.0.0.1:0\"]\ntls = false\n");
    let node = scratch.write("node.toml", node);
    Start::new(scratch).arguments(&["--node", node.to_str().unwrap()]).ready()
}
