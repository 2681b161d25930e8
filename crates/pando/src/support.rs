//! `pando support`: writes one file with the information that is needed to diagnose a problem, without secrets.

mod masked;

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use client::Connection;
use ldap::Scope;
use ldap::ldif::put_ldif_line;
use server::{Config, ServeError};

use crate::data_arguments::DataArguments;
use crate::online::{Identity, socket_in};
use crate::output::Output;
use crate::print;
use crate::{doctor, exit, version};
use masked::masked;
use serde_json::json;

/// Maximum number of bytes to include from the end of the log.
const LOG_BYTES_MAX: u64 = 1 << 20;

pub(crate) const HELP: &str = "\
Writes a tar file with the version, the node file and the settings, cn=monitor, the findings of `pando doctor`, the
names and sizes of the files of the data, and the end of the log file. Passwords, keys and tokens of the node file are
masked, and its comments are left out. Entries are not included; the settings, the log and the monitor contain DNs and
addresses. Look at it before you send it.

Example:
  pando support --node /etc/pando/node.toml -o pando-support.tar

Exit codes: as `pando verify`.";

/// The options of `pando support`.
#[derive(Debug, Args)]
pub(crate) struct SupportArguments {
    #[command(flatten)]
    data: DataArguments,
    /// The file to write; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "pando-support.tar")]
    output: PathBuf,
}

pub(crate) fn run(arguments: &SupportArguments) -> ExitCode {
    let config = match Config::load(&arguments.data.to_server()).map_err(ServeError::from) {
        Ok(config) => config,
        Err(error) => return exit::failed(&error),
    };
    let parts = parts(&config, &arguments.data);
    match write(&arguments.output, &parts) {
        Ok(()) => {
            let names: Vec<&str> = parts.iter().map(|(name, _)| *name).collect();
            match print::form().is_json && arguments.output.as_os_str() != "-" {
                true => println!("{}", json!({ "file": arguments.output.to_string_lossy(), "parts": names })),
                false => remark!("pando: {} has {} parts", arguments.output.display(), parts.len()),
            }
            ExitCode::SUCCESS
        }
        Err(error) => exit::not_written(arguments.output.display(), &error),
    }
}

fn write(output: &Path, parts: &[(&str, Vec<u8>)]) -> io::Result<()> {
    let mut archive = tar::Builder::new(Output::create(Some(output), None)?);
    for (name, content) in parts {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0o600);
        archive.append_data(&mut header, format!("pando-support/{name}"), content.as_slice())?;
    }
    archive.into_inner()?.finish()
}

/// Returns all parts of the file. If a part cannot be made, its content is the reason.
fn parts(config: &Config, data: &DataArguments) -> Vec<(&'static str, Vec<u8>)> {
    let or_reason = |outcome: Result<Vec<u8>, String>| outcome.unwrap_or_else(|reason| reason.into_bytes());
    let node = match data.node_file() {
        Some(file) => {
            fs::read_to_string(file).map_err(|error| error.to_string()).and_then(|text| masked(&text))
        }
        None => Err("no node file was named".to_owned()),
    };
    let settings = server::settings::export(config).map_err(|error| error.to_string());
    let settings = settings.and_then(|text| masked(&text));
    let findings = doctor::examine(config, data);
    let findings: String = findings.iter().map(doctor::Finding::line).collect();
    vec![
        ("version.json", format!("{:#}", version::json()).into_bytes()),
        ("node.toml", or_reason(node.map(String::into_bytes))),
        ("settings.toml", or_reason(settings.map(String::into_bytes))),
        ("doctor.txt", findings.into_bytes()),
        ("monitor.ldif", or_reason(monitor(config))),
        ("files.txt", or_reason(files(&config.data).map_err(|error| error.to_string()))),
        ("log.txt", or_reason(log(config))),
    ]
}

fn monitor(config: &Config) -> Result<Vec<u8>, String> {
    let identity = Identity { bind_dn: None, password_file: None, tls_ca: None };
    let mut connection: Connection =
        identity.connect(&socket_in(&config.data)).map_err(|error| error.to_string())?;
    let found = connection.search("cn=monitor", Scope::WholeSubtree, "(objectClass=*)", &["*"]);
    let mut text = Vec::new();
    for entry in found.map_err(|error| error.to_string())?.entries {
        put_ldif_line(&mut text, "dn", entry.dn.as_bytes());
        for attribute in &entry.attributes {
            attribute.values.iter().for_each(|value| put_ldif_line(&mut text, &attribute.description, value));
        }
        text.push(b'\n');
    }
    Ok(text)
}

/// Lists the files of the data directory with their sizes.
fn files(data: &Path) -> io::Result<Vec<u8>> {
    let mut lines = Vec::new();
    let mut folders = vec![data.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                folders.push(entry.path());
            }
            let path = entry.path();
            let name = path.strip_prefix(data).unwrap_or(&path).display().to_string();
            lines.push(format!("{:>14} {name}\n", metadata.len()));
        }
    }
    lines.sort();
    Ok(lines.concat().into_bytes())
}

/// Returns the end of the log file, at most [`LOG_BYTES_MAX`].
fn log(config: &Config) -> Result<Vec<u8>, String> {
    let Some(path) = &config.log.file else {
        return Err(
            "the log goes to standard error: see the service manager, as by `journalctl -u pando`".to_owned()
        );
    };
    let read = || {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES_MAX)))?;
        let mut text = Vec::new();
        file.take(LOG_BYTES_MAX).read_to_end(&mut text)?;
        Ok(text)
    };
    read().map_err(|error: io::Error| format!("{}: {error}", path.display()))
}
