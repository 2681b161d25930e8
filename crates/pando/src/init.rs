//! `pando init`: sets up a server with a node file, settings, the administrator's password, and data.

mod answers;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use ldap::ServerUrl;
use server::values::DnText;
use server::{Arguments, Config, Opened, ServeError};

use crate::account::random_password;
use crate::output::Output;
use crate::print::Report;
use crate::{exit, sample};
use answers::{Answers, Readers};
use serde_json::json;

pub(crate) const HELP: &str = "\
Asks for the suffix, the administrator, TLS, who may read, and a sample, or takes them from options; --yes takes the
defaults of the rest. Writes into the folder:

  node.toml       settings of this machine
  settings.toml   settings of the directory, for `pando apply`
  admin-password  the administrator's password, a random one
  data            the data directory, with ou=people and ou=groups

Files and data that exist stay as they are: the command refuses if the files, or the settings in the data, differ from
what it would write. If it fails, it removes what it has written.

Examples:
  pando init
  pando init /srv/pando --yes --suffix dc=example,dc=org --listen ldap:// --listen ldaps://
  pando init trial --yes --sample && pando serve --node trial/node.toml

Exit codes:
  0  set up, or set up before in the same way
  1  failed
  2  the command line is wrong, or a file or the settings in the data differ
  3  another process uses the data directory";

/// The options of `pando init`.
#[derive(Debug, Args)]
pub(crate) struct InitArguments {
    /// Folder for all files; created if it does not exist
    #[arg(value_name = "FOLDER", default_value = "pando")]
    folder: PathBuf,
    /// Suffix of the directory [default: dc=example,dc=com]
    #[arg(long, value_name = "DN")]
    suffix: Option<DnText>,
    /// DN of the administrator, who needs no entry [default: cn=admin]
    #[arg(long, value_name = "DN")]
    admin_dn: Option<DnText>,
    /// File with the certificate of the server and its chain, in PEM form [default: the server makes one]
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
    /// File with the private key of the certificate, in PEM form
    #[arg(long = "private-key", value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// Readers of the directory [default: users]
    #[arg(long, value_enum, value_name = "WHO")]
    readers: Option<Readers>,
    /// Load a sample organisation of about 1,000 people
    #[arg(long)]
    sample: bool,
    /// URL to listen on, ldap://HOST:PORT or ldaps://HOST:PORT; may be given several times [default:
    /// ldap://127.0.0.1:1389 and ldaps://127.0.0.1:1636]
    #[arg(long, value_name = "URL", value_delimiter = ' ')]
    listen: Vec<ServerUrl>,
    /// Ask nothing: use the defaults for values without an option
    #[arg(long)]
    yes: bool,
}

/// Reason why the setup stopped.
enum InitError {
    /// The command line, an answer or a file is wrong.
    Refused(String),
    /// A file cannot be read or written.
    File(PathBuf, io::Error),
    Serve(ServeError),
}

impl From<ServeError> for InitError {
    fn from(error: ServeError) -> InitError {
        InitError::Serve(error)
    }
}

pub(crate) fn run(arguments: &InitArguments) -> ExitCode {
    let done =
        arguments.answers().map_err(InitError::Refused).and_then(|answers| set_up(arguments, &answers));
    match done {
        Ok(report) => {
            report.print();
            ExitCode::SUCCESS
        }
        Err(InitError::Refused(message)) => exit::refused(&message),
        Err(InitError::File(path, error)) => exit::failure(&format!("{}: {error}", path.display())),
        Err(InitError::Serve(error)) => exit::failed(&error),
    }
}

/// Paths of files and directories that the setup creates, because they did not exist before.
#[derive(Default)]
struct Created(Vec<PathBuf>);

impl Created {
    /// Adds a path if it does not exist.
    fn note(&mut self, path: &Path) {
        if !path.as_os_str().is_empty() && !path.exists() {
            self.0.push(path.to_owned());
        }
    }

    /// Removes the created files and directories after a failed setup, in reverse order. Directories with other files
    /// stay. `data` is removed with its content.
    fn remove(self, data: &Path) {
        for path in self.0.iter().rev() {
            let removed = match path {
                path if path == data => std::fs::remove_dir_all(path),
                path if path.is_dir() => std::fs::remove_dir(path),
                path => std::fs::remove_file(path),
            };
            if let Err(error) = removed
                && error.kind() != io::ErrorKind::NotFound
            {
                remark!("pando: {} stays: {error}", path.display());
            }
        }
    }
}

/// Sets up a server. A failed setup leaves no files that it has created.
fn set_up(arguments: &InitArguments, answers: &Answers) -> Result<Report, InitError> {
    let (folder, mut created) = (&arguments.folder, Created::default());
    let outer: Vec<&Path> = folder.ancestors().collect();
    outer.into_iter().rev().for_each(|folder| created.note(folder));
    let data = folder.join("data");
    [folder.join("admin-password"), folder.join("settings.toml"), folder.join("node.toml"), data.clone()]
        .iter()
        .for_each(|path| created.note(path));
    let done = write_all(arguments, answers);
    if done.is_err() {
        created.remove(&data);
    }
    done
}

fn write_all(arguments: &InitArguments, answers: &Answers) -> Result<Report, InitError> {
    let at = |name: &str| arguments.folder.join(name);
    let (node, settings, password) = (at("node.toml"), at("settings.toml"), at("admin-password"));
    let (node_text, settings_text) = (answers.node_file(), answers.settings_file());
    // Check all files before any is written.
    differs(&node, &node_text)?;
    differs(&settings, &settings_text)?;
    make_folder(&arguments.folder)?;
    if !password.exists() {
        let random = random_password().map_err(InitError::Refused)?;
        // The file has no newline at its end, because `ldapsearch -y` would send it as a part of the password.
        write(&password, &random)?;
    }
    write(&settings, &settings_text)?;
    write(&node, &node_text)?;
    let notes = fill(&node, &settings, answers)?;
    let object = json!({
        "node_file": node.to_string_lossy(), "settings_file": settings.to_string_lossy(),
        "data": at("data").to_string_lossy(), "admin_dn": answers.admin_dn,
        "password_file": password.to_string_lossy(), "suffix": answers.suffix,
        "notes": notes.lines().collect::<Vec<_>>(),
    });
    let (node, data) = (node.display(), at("data"));
    let mut text = format!("{notes}{node} and {} are written. Next:\n\n", settings.display());
    text += &format!("  pando import --node {node} --replace people.ldif    if you have entries\n");
    text += &format!("  pando serve --node {node}\n  pando search --node {node} '(objectClass=*)' 1.1\n");
    text += &format!("  pando user add --node {node} anna --full-name 'Anna Huber'\n\n");
    text +=
        &format!("The administrator is {}; the password is in {}.\n", answers.admin_dn, password.display());
    if answers.tls.is_none() {
        let authority = data.join("tls/authority.pem");
        text += &format!("Clients trust {}, which the first start makes.\n", authority.display());
    }
    Ok(Report::done(object, text))
}

/// Refuses a file that exists with content other than `text`.
fn differs(path: &Path, text: &str) -> Result<(), InitError> {
    match std::fs::read(path) {
        Ok(found) if found == text.as_bytes() => Ok(()),
        Ok(_) => Err(InitError::Refused(format!(
            "{} exists and differs from what would be written; it stays as it is. Name another folder, or remove it",
            path.display()
        ))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(InitError::File(path.to_owned(), error)),
    }
}

/// Creates a directory that only its owner can read, because it will contain the password.
fn make_folder(folder: &Path) -> Result<(), InitError> {
    use std::os::unix::fs::DirBuilderExt;
    let created = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    created.map_err(|error| InitError::File(folder.to_owned(), error))
}

fn write(path: &Path, text: &str) -> Result<(), InitError> {
    if path.exists() {
        return Ok(());
    }
    let written = Output::create(Some(path), None).and_then(|mut output| {
        output.write_all(text.as_bytes())?;
        output.finish()
    });
    written.map_err(|error| InitError::File(path.to_owned(), error))
}

/// Creates the data directory with the settings, and adds its first entries. Refuses an existing directory with other
/// settings. Returns notes for the administrator.
fn fill(node: &Path, settings: &Path, answers: &Answers) -> Result<String, InitError> {
    let config = || Config::load(&Arguments { node_file: Some(node.to_owned()), ..Arguments::default() });
    let config = || config().map_err(ServeError::from);
    let file = server::settings::read(settings)?;
    let planned = server::settings::plan(&config()?, &file)?;
    // Settings that were changed since the first setup stay.
    if planned.is_new {
        server::settings::apply(config()?, &file, |_| {})?;
    } else if !planned.lines.is_empty() {
        return Err(InitError::Refused(format!(
            "the directory has other settings, and stays as it is: `pando plan --node {} {}` shows the differences",
            node.display(),
            settings.display()
        )));
    }
    let mut opened = Opened::open(config()?)?;
    if !opened.directory().is_empty().map_err(ServeError::from)? {
        return Ok("the directory has entries, and stays as it is\n".to_owned());
    }
    if answers.sample {
        return Ok(format!("{}\n", sample::load(&mut opened)?));
    }
    let suffix = answers.suffix.as_str();
    let Ok(top) = bench::sample::suffix_entry(suffix) else {
        return Ok(format!("add the entry {suffix} with `pando change`: its classes are not known\n"));
    };
    let units = ["people", "groups"].map(|unit| {
        let attribute = |name: &str, value: &str| (name.to_owned(), vec![value.as_bytes().to_vec()]);
        let attributes = vec![attribute("objectClass", "organizationalUnit"), attribute("ou", unit)];
        (format!("ou={unit},{suffix}"), attributes)
    });
    opened.load(std::iter::once((top.dn, top.attributes)).chain(units))?;
    Ok(String::new())
}
