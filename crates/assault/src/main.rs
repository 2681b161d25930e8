//! The assault: attacks a running Pando like a hostile client, a failing disk or a broken machine, measures the
//! effects, and compares them with the limits in `docs/explanation/security.md`.
//!
//! Each family of attacks is a module with a function `run`. An attack starts the real binary on a free loopback port
//! with a temporary folder, ends it by its process id, and reports one line: name, description, measurements with their
//! limits, `pass` or `FAIL`. Random choices follow from one printed seed. The helpers that start a server and write to
//! it are in `crates/test-support`; the black-box tests use them, too.
//!
//! `./dev assault` builds this program and the binary under attack. Both are in the same folder.
#![allow(clippy::unwrap_used, reason = "a panic is how an attack fails")]

mod bind_flood;
mod binds;
mod bystander;
mod damage;
mod data;
mod hash_flood;
mod hidden;
mod hostile_connections;
mod kills;
mod listeners;
mod memory;
mod messages;
mod plan;
mod probes;
mod process;
mod proxy;
mod report;
mod resources;
mod settings_writer;
mod slow;
mod timing;
mod tls;
mod under_attack;
mod web;
mod wire;

use std::process::ExitCode;

use clap::Parser;

use plan::Plan;
use report::Report;

/// Attacks Pando and measures it against the bounds of docs/explanation/security.md.
#[derive(Debug, Parser)]
#[command(name = "assault")]
struct Arguments {
    /// Two and a half minutes in all, with fewer rounds and wider bounds, as in CI
    #[arg(long, conflicts_with = "minutes")]
    quick: bool,
    /// Total minutes of the attacks that continue at random
    #[arg(long, value_name = "N", default_value_t = 10)]
    minutes: u64,
    /// One family (or attack: memory/heavy-filters) instead of all; may be given several times
    #[arg(long, value_name = "FAMILY")]
    only: Vec<String>,
    /// Seed of random choices [default: a new number, printed]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// List the families
    #[arg(long)]
    list: bool,
}

/// Name of a family, its description, and its attacks.
type Family = (&'static str, &'static str, fn(&Plan, &mut Report));

const FAMILIES: &[Family] = &[
    ("kills", "kill -9 at start, under load, in checkpoints, while settings and indexes change", kills::run),
    (
        "damage",
        "each file of a data directory removed, emptied, renamed, cut, flipped, zeroed, exchanged",
        damage::run,
    ),
    ("resources", "no descriptors, no memory, no disk, failing calls", resources::run),
    ("memory", "what hostile connections can make the server hold", memory::run),
    ("slow", "slow senders, slow readers, storms of connections", slow::run),
    (
        "listeners",
        "searches that listen for changes: clients that close, stall, take every place",
        listeners::run,
    ),
    (
        "tls",
        "handshakes that stop, garbage, octets after StartTLS, storms, readers that do not read",
        tls::run,
    ),
    ("proxy", "headers of the PROXY protocol that are broken, slow, or from strangers", proxy::run),
    ("probes", "idle and slow clients of the listener of metrics", probes::run),
    ("web", "the console and SCIM: slow and large requests, floods, cookies, hostile values", web::run),
    ("binds", "floods of wrong binds, exchanges half done, storms of binds", binds::run),
    ("hash-flood", "floods of password changes and binds, and the first binds of others", hash_flood::run),
    ("timing", "what the time of a failing bind reveals, and binds of disconnected clients", timing::run),
    ("messages", "mutated messages", messages::run),
    ("hidden", "what answers reveal of data that access rules hide", hidden::run),
];

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.list {
        FAMILIES.iter().for_each(|(name, what, _)| println!("{name:10} {what}"));
        return ExitCode::SUCCESS;
    }
    let family_of = |only: &String| only.split('/').next().unwrap_or_default().to_owned();
    let wanted: Vec<String> = arguments.only.iter().map(family_of).collect();
    if let Some(unknown) = wanted.iter().find(|wanted| FAMILIES.iter().all(|family| family.0 != **wanted)) {
        eprintln!("assault: there is no family {unknown:?}; --list names them");
        return ExitCode::from(2);
    }
    process::raise_descriptor_limit();
    let plan =
        Plan::new(arguments.quick, arguments.minutes, arguments.seed.unwrap_or_else(|| fastrand::u64(..)));
    println!("assault on {}, --seed {}", test_support::pando::program(), plan.seed());
    let mut report = Report::new(arguments.only);
    for (name, _, run) in FAMILIES {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            run(&plan, &mut report);
        }
    }
    report.end()
}
