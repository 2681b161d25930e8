//! `./dev cluster`: see the library.

use std::path::PathBuf;
use std::process::ExitCode;

use cluster_rig::Run;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (mut what, mut program) = (Run::Menu, PathBuf::from("target/debug/pando"));
    let (mut rounds, mut seed) = (None, fastrand::u64(..));
    while let Some(argument) = arguments.next() {
        if argument == "--smoke" {
            what = Run::Smoke;
            continue;
        }
        let value = arguments.next();
        let number = value.as_ref().and_then(|value| value.parse().ok());
        match (argument.as_str(), value, number) {
            ("--pando", Some(path), _) => program = path.into(),
            ("--rounds", _, Some(count)) => rounds = Some(count),
            ("--seed", _, Some(number)) => seed = number,
            _ => {
                eprintln!("usage: cluster [--pando PROGRAM] [--smoke | --rounds COUNT [--seed NUMBER]]");
                return ExitCode::from(2);
            }
        }
    }
    if let Some(count) = rounds {
        what = Run::Rounds(count, seed);
    }
    match cluster_rig::run(program, what) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cluster: {error}");
            ExitCode::FAILURE
        }
    }
}
