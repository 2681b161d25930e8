//! `pando verify`.

use std::process::ExitCode;

use server::{Config, ServeError};

use crate::arguments::DataArguments;
use crate::exit;

pub(crate) fn run(arguments: DataArguments) -> ExitCode {
    let config = Config::load(&arguments.to_server()).map_err(ServeError::from);
    match config.and_then(server::verify) {
        Err(error) => exit::failed(&error),
        Ok(findings) if findings.is_empty() => {
            println!("nothing found");
            ExitCode::SUCCESS
        }
        Ok(findings) => {
            for finding in &findings {
                println!("{finding}");
            }
            eprintln!("pando: {} findings", findings.len());
            ExitCode::FAILURE
        }
    }
}
