//! The `pando` binary: argument parsing and wiring. The crates `server` and `bench` implement the commands.

#![forbid(unsafe_code)]

// This module is declared first, because its macros are available only in the modules after it.
#[macro_use]
mod print;
mod replica;

mod access;
mod account;
mod arguments;
mod audit;
mod backup;
mod bench;
mod change;
#[cfg(feature = "kafka")]
mod cluster;
mod color;
mod compact;
mod compare;
mod comparison;
mod data_arguments;
mod declared;
mod doctor;
mod exit;
mod explain;
mod export;
mod follow;
mod generate;
mod group;
mod import;
mod index;
mod init;
mod ldif;
mod manual;
mod migrate;
mod named;
mod online;
mod output;
mod passwd;
mod progress;
mod recover;
mod salvage;
mod sample;
mod search;
mod serve;
mod settings;
mod support;
mod table;
mod time;
mod top;
mod twin;
mod undelete;
mod user;
mod verify;
mod version;

use std::process::ExitCode;

use arguments::{CommandLine, Verb};

/// Allocator of the process. Its speed matters, because a search makes a dozen small allocations, and an import
/// millions.
#[global_allocator]
static ALLOCATOR: system::Allocator = system::Allocator;

fn main() -> ExitCode {
    // Core dumps must be forbidden before any password is read. Every command may have passwords in memory.
    if let Err(error) = server::forbid_core_dumps() {
        eprintln!("pando: core dumps cannot be forbidden: {error}");
    }
    let CommandLine { verb, form } = CommandLine::read();
    print::choose(form);
    // The server handles signals itself and shuts down gracefully. A signal to another command only removes its
    // unfinished files.
    if !matches!(verb, Verb::Serve(_) | Verb::Follow(_))
        && let Err(error) = server::unfinished::remove_when_interrupted()
    {
        eprintln!("pando: unfinished files will stay if this command is interrupted: {error}");
    }
    match verb {
        Verb::Serve(arguments) => serve::run(arguments),
        Verb::Init(arguments) => init::run(&arguments),
        Verb::Doctor(arguments) => doctor::run(&arguments),
        Verb::Support(arguments) => support::run(&arguments),
        Verb::Verify(arguments) => verify::run(&arguments),
        #[cfg(feature = "kafka")]
        Verb::Cluster(arguments) => cluster::run(&arguments),
        #[cfg(not(feature = "kafka"))]
        Verb::Cluster { .. } => exit::refused(
            "this build has no clusters: build with `--features kafka`, as the packages are built",
        ),
        Verb::Replica(arguments) => replica::run(&arguments),
        Verb::Compact(arguments) => compact::run(&arguments),
        Verb::Top(arguments) => top::run(&arguments),
        Verb::Twin(arguments) => twin::run(*arguments),
        Verb::Compare(arguments) => compare::run(&arguments),
        Verb::Backup(arguments) => backup::run(&arguments),
        Verb::Restore(arguments) => backup::restore(&arguments),
        Verb::Ldif(arguments) => ldif::run(&arguments),
        Verb::Access(arguments) => access::run(&arguments),
        Verb::Audit(arguments) => audit::run(&arguments),
        Verb::Account(arguments) => account::run(&arguments),
        Verb::Search(arguments) => search::run(&arguments),
        Verb::Change(arguments) => change::run(&arguments),
        Verb::User(arguments) => user::run(&arguments),
        Verb::Group(arguments) => group::run(&arguments),
        Verb::Undelete(arguments) => undelete::run(&arguments),
        Verb::Follow(arguments) => follow::run(&arguments),
        Verb::Passwd(arguments) => passwd::run(&arguments),
        Verb::Import(arguments) => import::run(arguments),
        Verb::Migrate(arguments) => migrate::run(&arguments),
        Verb::Export(arguments) => export::run(&arguments),
        Verb::Generate(arguments) => generate::run(&arguments),
        Verb::Plan(arguments) => settings::plan(&arguments),
        Verb::Apply(arguments) => settings::apply(&arguments),
        Verb::Index(arguments) => index::run(&arguments),
        Verb::Explain(arguments) => explain::run(&arguments),
        Verb::Bench(arguments) => bench::run(arguments),
        Verb::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut CommandLine::with_all_options(), "pando", &mut script);
            print!("{}", String::from_utf8_lossy(&script));
            ExitCode::SUCCESS
        }
        Verb::Version => version::run(),
        Verb::Man { folder } => manual::run(&folder),
    }
}
