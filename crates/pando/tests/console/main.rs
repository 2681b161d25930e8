//! The web console of the real server, over HTTP.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod account;
mod administration;
mod browser;
mod certificates;
mod changes;
mod compare;
mod forgotten;
mod large;
mod listener;
mod people;
mod photos;
mod searches;
mod sessions;
mod settings;
mod smtp;
mod tasks;
mod values;
mod visitor;

use client::Connection;
use test_support::pando::Start;
use test_support::{Pando, SUFFIX, Scratch};

/// Starts a server with the console without TLS, and these additional lines in its node file.
fn start(scratch: &Scratch, more: &str) -> Pando {
    let node = format!("{more}\n[console]\nlisten = [\"127.0.0.1:0\"]\ntls = false\n");
    Start::with_node(scratch, node).ready()
}

/// Starts a server with the console, and with `ou=people` below its suffix.
fn start_with_people(scratch: &Scratch) -> (Pando, Connection) {
    let pando = start(scratch, "");
    let administrator = plant_people(&pando);
    (pando, administrator)
}

/// Adds the suffix entry and `ou=people`. Returns the administrator's connection.
fn plant_people(pando: &Pando) -> Connection {
    let mut administrator = pando.administrator();
    test_support::tree::add(&mut administrator, SUFFIX, &[("objectClass", "domain"), ("dc", "example")]);
    let people = format!("ou=people,{SUFFIX}");
    test_support::tree::add(
        &mut administrator,
        &people,
        &[("objectClass", "organizationalUnit"), ("ou", "people")],
    );
    administrator
}
