//! `pando plan` and `pando apply`: apply directory-wide settings from a file.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use client::Connection;
use directory::virtual_entries::APPLY_SETTINGS;
use ldap::ServerUrl;
use server::settings::{self, SettingsChanges, SettingsFile, online};
use server::{Arguments, Config, Fault, ServeError};

use crate::exit;
use crate::online::{ServerArguments, socket_in};

/// The options of `pando plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    /// The data directory
    #[arg(long, value_name = "DIR", env = "PANDO_DATA")]
    data: Option<PathBuf>,
    /// The settings file (TOML)
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// The options of `pando apply`.
#[derive(Debug, Args)]
pub(crate) struct ApplyArguments {
    #[command(flatten)]
    plan: PlanArguments,
    #[command(flatten)]
    server: ServerArguments,
}

impl PlanArguments {
    fn config(&self) -> Result<Config, ServeError> {
        Ok(Config::load(&Arguments { data: self.data.clone(), ..Arguments::default() })?)
    }
}

pub(crate) fn plan(arguments: &PlanArguments) -> ExitCode {
    let planned = arguments.config().and_then(|config| {
        let file = settings::read(&arguments.file)?;
        say_notices(&file);
        Ok((settings::plan(&config, &file)?, config))
    });
    match planned {
        Ok((changes, config)) => {
            say(&changes, &config);
            ExitCode::SUCCESS
        }
        Err(error) => exit::failed(&error),
    }
}

/// Prints the parts of a file that are without effect.
fn say_notices(file: &SettingsFile) {
    file.notices().iter().for_each(|notice| eprintln!("pando: {notice}"));
}

pub(crate) fn apply(arguments: &ApplyArguments) -> ExitCode {
    let file = match settings::read(&arguments.plan.file) {
        Ok(file) => file,
        Err(error) => return exit::failed(&error),
    };
    say_notices(&file);
    if let Some(url) = arguments.server.server(arguments.plan.data.as_deref()) {
        return apply_online(&arguments.server, &file, &url);
    }
    apply_file(arguments.plan.config(), &arguments.server, &file)
}

/// Applies the settings of a file, through the running server if there is one.
pub(crate) fn apply_file(
    config: Result<Config, ServeError>,
    server: &ServerArguments,
    file: &SettingsFile,
) -> ExitCode {
    let applied = config.map(|config| {
        let changes = settings::apply(config.clone(), file, |part| {
            eprintln!("{}", server::progress_text(part));
        });
        (changes, config)
    });
    match applied {
        Ok((Ok(changes), config)) => {
            say(&changes, &config);
            say_applied(&changes)
        }
        // The process that uses the directory may be a server, which can apply them.
        Ok((Err(error), config)) if error.fault() == Fault::InUse => {
            let url = socket_in(&config.data);
            match server.connect(&url) {
                Ok(connection) => send(connection, file, &url),
                Err(_) => exit::failed(&error),
            }
        }
        Ok((Err(error), _)) | Err(error) => exit::failed(&error),
    }
}

fn apply_online(server: &ServerArguments, file: &SettingsFile, url: &ServerUrl) -> ExitCode {
    match server.connect(url) {
        Ok(connection) => send(connection, file, url),
        Err(error) => exit::failure(&error.to_string()),
    }
}

/// Sends the settings to a running server.
fn send(mut connection: Connection, file: &SettingsFile, url: &ServerUrl) -> ExitCode {
    let reply = match connection.extended(APPLY_SETTINGS, Some(&online::request(file))) {
        Ok(reply) => reply,
        Err(error) => return exit::failure(&format!("{url}: {error}")),
    };
    let value = reply.extended.value.as_deref();
    match online::answer(file, reply.outcome.code, &reply.outcome.diagnostic, value) {
        Ok(changes) => {
            say_lines(&changes);
            if changes.lines.iter().any(|line| line.starts_with("builds")) {
                println!("the server builds while it serves; cn=Indexes,cn=monitor says how far it is");
            }
            say_applied(&changes)
        }
        Err(error) => exit::failed(&error),
    }
}

fn say(changes: &SettingsChanges, config: &Config) {
    if changes.is_new {
        println!("makes a new directory in {}", config.data.display());
    }
    say_lines(changes);
}

fn say_lines(changes: &SettingsChanges) {
    if !changes.is_new && changes.lines.is_empty() {
        println!("no change: these settings are in force");
    }
    changes.lines.iter().for_each(|line| println!("{line}"));
    changes.notes.iter().for_each(|note| println!("note: {note}"));
}

fn say_applied(changes: &SettingsChanges) -> ExitCode {
    if changes.is_new || !changes.lines.is_empty() {
        println!("applied");
    }
    ExitCode::SUCCESS
}

pub(crate) const PLAN_HELP: &str = "\
Changes nothing. Prints each difference between the file and the directory, and its cost. A missing directory counts as
empty. Works whether or not a server is running.

Examples:
  pando export --settings-only --data /var/lib/pando -o settings.toml
  pando plan --data /var/lib/pando settings.toml

Exit codes:
  0  the settings can be applied, or are in force already
  2  the file, or a schema file that it names, is wrong: each error names its line
  4  the data directory cannot be read";

pub(crate) const APPLY_HELP: &str = "\
A settings file contains everything that is the same on all nodes of a directory: suffixes, indexes, schema, limits,
access. A missing setting gets its default, and a missing index is dropped; `pando export --settings-only` writes a file
to start from. Either all settings are applied or none. A directory that does not exist is created, so that indexes can
be chosen before the first import. A running server applies the settings itself, through the socket in its directory,
and keeps serving. If the command is interrupted, index building continues when it or the server is started again.
docs/how-to/configure.md describes every key.

Examples:
  pando apply --data /var/lib/pando settings.toml
  pando apply --url ldap://ldap.example.com --bind-dn cn=admin --password-file secret settings.toml

Exit codes:
  0  the settings are in force
  1  failed, or the server refused; nothing is changed
  2  the file, or a schema file that it names, is wrong: each error names its line; nothing is changed
  3  another process uses the directory, and it is not a server that accepts settings
  4  the data directory cannot be used as it is";
