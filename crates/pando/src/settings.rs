//! `pando plan` and `pando apply`: compare files with the settings of a directory and with its declared entries, and
//! apply the files.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use client::Connection;
use directory::virtual_entries::APPLY_SETTINGS;
use ldap::ServerUrl;
use serde_json::json;
use server::settings::{self, SettingsChanges, SettingsFile, online};
use server::{Config, Fault, ServeError};

use crate::color::{self, Color, paint};
use crate::declared::{self, Declared, RunOptions};
use crate::exit;
use crate::online::{ServerArguments, TargetArguments, socket_in};
use crate::print;
use crate::progress::Progress;

/// The options of `pando plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    #[command(flatten)]
    server: TargetArguments,
    /// Keep entries of the owner that the files no longer declare
    #[arg(long)]
    no_prune: bool,
    /// A settings file, files that declare entries, or both (TOML)
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// The options of `pando apply`.
#[derive(Debug, Args)]
pub(crate) struct ApplyArguments {
    #[command(flatten)]
    plan: PlanArguments,
    /// Change entries only if their plan still has this number, which `pando plan` printed
    #[arg(long, value_name = "NUMBER")]
    expect: Option<String>,
}

/// The files on the command line, by kind.
struct Files {
    settings: Option<SettingsFile>,
    declared: Option<Declared>,
}

impl PlanArguments {
    fn config(&self) -> Result<Config, ServeError> {
        Ok(Config::load(&self.server.data().to_server())?)
    }

    fn manner<'a>(&self, expected: Option<&'a str>, follows_settings: bool) -> RunOptions<'a> {
        RunOptions { prunes: !self.no_prune, expected, follows_settings }
    }

    /// Reads all files, so that an unreadable file is found before anything is changed.
    fn read(&self) -> Result<Files, ExitCode> {
        let is_declaration = |path: &&PathBuf| declared::is_declaration(path);
        let (declarations, settings): (Vec<_>, Vec<_>) = self.files.iter().partition(is_declaration);
        let settings = match settings.as_slice() {
            [] => None,
            [file] => {
                let file = settings::read(file).map_err(|error| exit::failed(&error))?;
                say_notices(&file);
                Some(file)
            }
            [first, second, ..] => {
                let (first, second) = (first.display(), second.display());
                return Err(exit::refused(&format!(
                    "{first} and {second} are both settings files: each would state all settings. A file with entries \
                     names an owner"
                )));
            }
        };
        let paths = declarations.iter().map(|path| path.as_path());
        let declared = (!declarations.is_empty()).then(|| Declared::read(paths)).transpose();
        let declared = declared.map_err(|error| exit::failed(&error))?;
        Ok(Files { settings, declared })
    }
}

pub(crate) fn plan(arguments: &PlanArguments) -> ExitCode {
    let files = match arguments.read() {
        Ok(files) => files,
        Err(code) => return code,
    };
    let mut changes_settings = false;
    if let Some(file) = &files.settings {
        let planned = arguments.config().and_then(|config| Ok((settings::plan(&config, file)?, config)));
        match planned {
            Ok((changes, config)) => {
                changes_settings = changes.is_new || !changes.lines.is_empty();
                say(&changes, &config.data, Stage::Planned);
            }
            Err(error) => return exit::failed(&error),
        }
    }
    match &files.declared {
        Some(declared) => {
            declared::plan(declared, &arguments.server, arguments.manner(None, changes_settings))
        }
        None => ExitCode::SUCCESS,
    }
}

/// Prints notices about settings in a file that have no effect.
fn say_notices(file: &SettingsFile) {
    file.notices().iter().for_each(|notice| eprintln!("pando: {notice}"));
}

pub(crate) fn apply(arguments: &ApplyArguments) -> ExitCode {
    let (plan, expected) = (&arguments.plan, arguments.expect.as_deref());
    let files = match plan.read() {
        Ok(files) => files,
        Err(code) => return code,
    };
    if expected.is_some() && files.settings.is_some() {
        return exit::refused("--expect is about entries: apply the settings file by itself");
    }
    if let Some(file) = &files.settings {
        let server = plan.server.server();
        let done = match server.server(plan.server.data().directory().as_deref()) {
            Some(url) => apply_online(server, file, &url),
            None => apply_here(plan.config(), server, file),
        };
        if let Err(code) = done {
            return code;
        }
    }
    match &files.declared {
        Some(declared) => declared::apply(declared, &plan.server, plan.manner(expected, false)),
        None => ExitCode::SUCCESS,
    }
}

/// Applies the settings of a file. If a server is running, sends them to the server.
pub(crate) fn apply_file(
    config: Result<Config, ServeError>,
    server: &ServerArguments,
    file: &SettingsFile,
) -> ExitCode {
    apply_here(config, server, file).err().unwrap_or(ExitCode::SUCCESS)
}

fn apply_here(
    config: Result<Config, ServeError>,
    server: &ServerArguments,
    file: &SettingsFile,
) -> Result<(), ExitCode> {
    let mut progress = Progress::start();
    let applied = config.map(|config| {
        let changes = settings::apply(config.clone(), file, |part| {
            progress.show(&server::progress_text(part), Instant::now());
        });
        (changes, config)
    });
    drop(progress);
    match applied {
        Ok((Ok(changes), config)) => {
            say(&changes, &config.data, Stage::Applied);
            Ok(())
        }
        // The process that uses the directory may be a server, which can apply the settings itself.
        Ok((Err(error), config)) if error.fault() == Fault::InUse => {
            let url = socket_in(&config.data);
            match server.connect(&url) {
                Ok(connection) => send(connection, file, &url),
                Err(_) => Err(exit::failed(&error)),
            }
        }
        Ok((Err(error), _)) | Err(error) => Err(exit::failed(&error)),
    }
}

fn apply_online(server: &ServerArguments, file: &SettingsFile, url: &ServerUrl) -> Result<(), ExitCode> {
    match server.connect(url) {
        Ok(connection) => send(connection, file, url),
        Err(error) => Err(exit::failure(&error.to_string())),
    }
}

/// Sends the settings to a running server.
fn send(mut connection: Connection, file: &SettingsFile, url: &ServerUrl) -> Result<(), ExitCode> {
    let reply = connection.extended(APPLY_SETTINGS, Some(&online::request(file)));
    let reply = reply.map_err(|error| exit::failure(&format!("{url}: {error}")))?;
    let value = reply.extended.value.as_deref();
    let changes = online::answer(file, reply.outcome.code, &reply.outcome.diagnostic, value)
        .map_err(|error| exit::failed(&error))?;
    say(&changes, Path::new(""), Stage::AppliedByServer);
    Ok(())
}

/// Stage that the printed changes have reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Planned,
    Applied,
    /// The server has applied the settings. It may still be building indexes.
    AppliedByServer,
}

fn say(changes: &SettingsChanges, data: &Path, stage: Stage) {
    let form = print::form();
    let SettingsChanges { is_new, lines, notes } = changes;
    let is_applied = stage != Stage::Planned && (*is_new || !lines.is_empty());
    if form.is_json {
        let settings = json!({ "new": is_new, "changes": lines, "notes": notes, "applied": is_applied });
        println!("{}", json!({ "settings": settings }));
        return;
    }
    if form.is_quiet {
        return;
    }
    if *is_new {
        println!("makes a new directory in {}", data.display());
    } else if lines.is_empty() {
        println!("no change: these settings are in force");
    }
    lines.iter().for_each(|line| println!("{}", colored(line)));
    notes.iter().for_each(|note| println!("note: {note}"));
    if stage == Stage::AppliedByServer && lines.iter().any(|line| line.starts_with("builds")) {
        println!("the server builds while it serves; cn=Indexes,cn=monitor says how far it is");
    }
    if is_applied {
        println!("applied");
    }
}

/// Returns a line about a change, in the color that its sign determines.
fn colored(line: &str) -> String {
    let is_on = color::is_on();
    match line.trim_start().as_bytes().first() {
        Some(b'+') => paint(is_on, Color::Green, line),
        Some(b'-') => paint(is_on, Color::Red, line),
        _ => line.to_owned(),
    }
}

pub(crate) const PLAN_HELP: &str = "\
Changes nothing. A settings file is compared with the data directory, running or stopped; a missing directory counts as
empty. Each difference is printed with its cost. Files that declare entries, which begin with owner = \"NAME\", are
compared with a running server, which decides whether it would make each change. docs/how-to/declare.md describes them.

Examples:
  pando export --settings-only --data /var/lib/pando -o settings.toml
  pando plan --data /var/lib/pando settings.toml
  pando plan --data /var/lib/pando applications.toml

Exit codes:
  0  the changes can be made, or nothing differs
  1  failed: no server to compare entries with
  2  a file, or one that it names, is wrong: each error names its line
  4  the data directory cannot be read
  6  some entries cannot be made as declared";

pub(crate) const APPLY_HELP: &str = "\
A settings file contains everything that is the same on all nodes of a directory: suffixes, indexes, schema, limits,
access. A missing setting gets its default, and a missing index is dropped; `pando export --settings-only` writes a file
to start from. Either all settings are applied or none. A directory that does not exist is created, so that indexes can
be chosen before the first import. A running server applies the settings itself, through the socket in its directory,
and keeps serving. If the command is interrupted, index building continues when it or the server is started again.
docs/how-to/configure.md describes every key.

A file that begins with owner = \"NAME\" declares entries of a running server. They are added, and changed if they
differ; entries that such files of the same owner declared before are deleted. Each entry is changed whole or not at
all. docs/how-to/declare.md describes these files.

Examples:
  pando apply --data /var/lib/pando settings.toml
  pando apply --data /var/lib/pando settings.toml applications.toml
  pando apply --url ldap://ldap.example.com --bind-dn cn=admin --password-file secret settings.toml

Exit codes:
  0  the settings are in force, and the entries are as declared
  1  failed, or the server refused the settings; or the plan is not the one of --expect, and no entry is changed
  2  a file, or one that it names, is wrong: each error names its line; nothing is changed
  3  another process uses the directory, and it is not a server that accepts settings
  4  the data directory cannot be used as it is
  6  some entries could not be made as declared";
