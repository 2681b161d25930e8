//! `pando plan` and `pando apply`: directory-wide settings from a file.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use server::settings::{self, Changes};
use server::{Arguments, Config, ServeError};

use crate::exit;

/// The options of both.
#[derive(Debug, Args)]
pub(crate) struct SettingsArguments {
    /// The data directory
    #[arg(long, value_name = "DIR", env = "PANDO_DATA")]
    data: Option<PathBuf>,
    /// The settings file (TOML)
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl SettingsArguments {
    fn config(&self) -> Result<Config, ServeError> {
        Ok(Config::load(&Arguments { data: self.data.clone(), ..Arguments::default() })?)
    }
}

pub(crate) fn plan(arguments: &SettingsArguments) -> ExitCode {
    let planned = arguments.config().and_then(|config| {
        let file = settings::read(&arguments.file)?;
        Ok((settings::plan(&config, &file)?, config))
    });
    match planned {
        Ok((changes, config)) => say(&changes, &config),
        Err(error) => exit::failed(&error),
    }
}

pub(crate) fn apply(arguments: &SettingsArguments) -> ExitCode {
    let applied = arguments.config().and_then(|config| {
        let file = settings::read(&arguments.file)?;
        let changes = settings::apply(config.clone(), &file, |part| {
            eprintln!("{}", server::progress_text(part));
        })?;
        Ok((changes, config))
    });
    match applied {
        Ok((changes, config)) => {
            let code = say(&changes, &config);
            if changes.is_new || !changes.lines.is_empty() {
                println!("applied");
            }
            code
        }
        Err(error) => exit::failed(&error),
    }
}

fn say(changes: &Changes, config: &Config) -> ExitCode {
    if changes.is_new {
        println!("makes a new directory in {}", config.data.display());
    } else if changes.lines.is_empty() {
        println!("no change: these settings are in force");
    }
    changes.lines.iter().for_each(|line| println!("{line}"));
    ExitCode::SUCCESS
}

pub(crate) const PLAN_HELP: &str = "\
Changes nothing. Says each difference between the file and the directory, and what it costs. A directory that is not there
yet is one to be made. Works beside a running server.

Examples:
  pando export --config --data /var/lib/pando -o settings.toml
  pando plan --data /var/lib/pando settings.toml

Exit codes:
  0  the settings can be put in force, or are
  2  the file, or a schema file that it names, is wrong: each error has its line
  4  the data directory cannot be read";

pub(crate) const APPLY_HELP: &str = "\
A settings file states everything that is the same on all nodes of a directory: suffixes, indexes, schema, limits, access.
What it leaves out has its default, and an index that it does not name is not kept; `pando export --config` writes one to
start from. All of it is put in force, or nothing is. A directory that is not there is made, so indexes are chosen before
the first import. A command that is interrupted goes on making indexes where it was when it, or the server, is started
again. docs/configure.md has every key.

Examples:
  pando apply --data /var/lib/pando settings.toml

Exit codes:
  0  the settings are in force
  1  it failed; nothing is changed
  2  the file, or a schema file that it names, is wrong: each error has its line; nothing is changed
  3  another process has the directory
  4  the data directory cannot be used as it is";
