//! `./dev cluster`: see the library.

use std::path::PathBuf;
use std::process::ExitCode;

use cluster_rig::{Measure, Run};

const USAGE: &str = "\
usage: cluster [--pando PROGRAM] [--smoke | --rounds COUNT [--seed NUMBER] |
                --measure FOLDER [--entries NUMBER] [--seconds NUMBER]]";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (mut what, mut program) = (Run::Menu, None);
    let (mut entries, mut seconds, mut to) = (1_000_000, 5, None);
    let (mut rounds, mut seed) = (None, fastrand::u64(..));
    while let Some(argument) = arguments.next() {
        if argument == "--smoke" {
            what = Run::Smoke;
            continue;
        }
        let value = arguments.next();
        let number = value.as_ref().and_then(|value| value.parse().ok());
        match (argument.as_str(), value, number) {
            ("--pando", Some(path), _) => program = Some(PathBuf::from(path)),
            ("--measure", Some(path), _) => to = Some(PathBuf::from(path)),
            ("--entries", _, Some(number)) => entries = number,
            ("--seconds", _, Some(number)) => seconds = number,
            ("--rounds", _, Some(count)) => rounds = Some(count),
            ("--seed", _, Some(number)) => seed = number,
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    if let Some(count) = rounds {
        what = Run::Rounds(count, seed);
    }
    let build = if to.is_some() { "release" } else { "debug" };
    if let Some(to) = to {
        what = Run::Measure(Measure { to, entries, seconds });
    }
    let program = program.unwrap_or_else(|| PathBuf::from(format!("target/{build}/pando")));
    match cluster_rig::run(program, what) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cluster: {error}");
            ExitCode::FAILURE
        }
    }
}
