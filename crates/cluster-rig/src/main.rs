//! `./dev cluster`: see the library.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (mut is_smoke, mut program) = (false, PathBuf::from("target/debug/pando"));
    while let Some(argument) = arguments.next() {
        match (argument.as_str(), arguments.next()) {
            ("--pando", Some(path)) => program = path.into(),
            ("--smoke", None) => is_smoke = true,
            _ => {
                eprintln!("usage: cluster [--pando PROGRAM] [--smoke]");
                return ExitCode::from(2);
            }
        }
    }
    match cluster_rig::run(program, is_smoke) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cluster: {error}");
            ExitCode::FAILURE
        }
    }
}
