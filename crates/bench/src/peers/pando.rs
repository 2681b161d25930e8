//! Pando as an external program, like the other servers. It is controlled only by its command line and its files.
//!
//! Pando runs with its defaults, which sync every change before the answer. `pando apply` changes only settings that
//! are also changed for the other servers:
//! - `password_scheme` ssha, so that no server spends more time on hashing than another.
//! - The indexes of the comparison, in place of the default indexes. objectClass and links, such as member, are always
//!   indexed, so indexes on them are not set.
//! - Anonymous clients may read all attributes except userPassword. There are no limits on searches.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use ldap::ResultCode;

use super::{
    BulkLoad, Data, Passwords, Peer, PeerError, Server, Setup, make_folder, must_exist, process, write_file,
};
use crate::workload::{RunSettings, Workload};

const ADMIN_PASSWORD_VARIABLE: &str = "PANDO_ADMIN_PASSWORD";

/// Pando in a folder.
pub struct Pando {
    program: PathBuf,
    folder: PathBuf,
    setup: Setup,
    product: String,
    /// Settings of the node. They take effect at the next start.
    node: toml::Table,
    /// Settings that the current workload needs in addition to the setup.
    circumstances: Option<Arc<RunSettings>>,
    /// Attributes that always have an index, so the settings must not define one for them.
    always_indexed: Vec<String>,
}

impl Pando {
    /// Creates the directory with its settings.
    ///
    /// # Errors
    /// The program is missing or fails.
    pub fn configure(program: &Path, folder: &Path, setup: &Setup) -> Result<Pando, PeerError> {
        must_exist(program)?;
        make_folder(folder)?;
        if let Some(schema) = &setup.schema {
            write_file(&folder.join("data.schema"), schema)?;
        }
        let (_, output) = process::output(Command::new(program).arg("--version"))?;
        let product = format!("Pando {}", output.trim().trim_start_matches("pando ").trim());
        let mut peer = Pando {
            program: program.to_owned(),
            folder: folder.to_owned(),
            setup: setup.clone(),
            product,
            node: if setup.audit { RunSettings::audit() } else { toml::Table::new() },
            circumstances: None,
            always_indexed: Vec::new(),
        };
        peer.find_always_indexed()?;
        peer.apply(&settings(&peer.setup, &peer.always_indexed))?;
        Ok(peer)
    }

    fn log(&self) -> PathBuf {
        self.folder.join("pando.log")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        // The driver reads the process's open files and memory from /proc. Linux lets only root read these of a process
        // that cannot dump core, so this variable allows core dumps.
        command.env("PANDO_CORE_DUMPS", "1");
        command.args(words).arg("--data").arg(self.folder.join("data"));
        command
    }

    fn settings_file(&self) -> PathBuf {
        self.folder.join("settings.toml")
    }

    /// Finds the attributes that are always indexed, for which the settings must not define an index. Only Pando knows
    /// these attributes, because the setup does not state which attributes are links. Therefore the method runs `plan`
    /// first, and notes the attributes that `plan` rejects.
    fn find_always_indexed(&mut self) -> Result<(), PeerError> {
        let all = settings(&self.setup, &[]);
        write_file(&self.settings_file(), &all)?;
        let (_, output) = process::output(self.command(&["plan"]).arg(self.settings_file()))?;
        self.always_indexed = always_indexed(&output, &all);
        Ok(())
    }

    /// Applies settings. If the server is running, uses the socket in the data directory.
    fn apply(&self, settings: &str) -> Result<(), PeerError> {
        write_file(&self.settings_file(), settings)?;
        process::run(self.command(&["apply"]).arg(self.settings_file()), &self.log(), process::SETUP_MAX)?;
        Ok(())
    }

    /// Adds the entries that settings name. The entries may already exist.
    fn add(&self, entries: &[String], server: &Server) -> Result<(), PeerError> {
        let failed = |what: String| PeerError::Answer(format!("{}: {what}", self.product));
        let mut connection = server.bound(&self.setup.admin_dn, &self.setup.admin_password)?;
        for entry in entries {
            let mut lines = entry.lines().filter_map(|line| line.split_once(": "));
            let Some(("dn", dn)) = lines.next() else {
                return Err(failed(format!("an entry begins with its dn, not with {entry:?}")));
            };
            let attributes: Vec<_> = lines.collect();
            let added = connection.add(dn, &attributes).map_err(|error| failed(format!("{dn}: {error}")))?;
            if !added.is_success() && added.code != ResultCode::ENTRY_ALREADY_EXISTS {
                return Err(failed(format!("{dn}: {}: {}", added.code, added.diagnostic)));
            }
        }
        Ok(())
    }
}

impl Peer for Pando {
    fn product(&self) -> &str {
        &self.product
    }

    fn settings(&self) -> Vec<(String, String)> {
        let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        vec![
            text("threads", "one event loop a core that it may use, one writer"),
            text("durability", "every change synced before it is answered (there is no other mode)"),
            text("password scheme", self.setup.password_scheme()),
            text("operation log", if self.setup.audit { "off" } else { self.setup.on_or_off() }),
            text("audit trail", if self.setup.audit { "of every operation" } else { "off" }),
            text("access control", "anonymous reads, userPassword excepted"),
            text("limits", "none"),
        ]
    }

    fn bulk_load(&mut self, data: &Data) -> Result<BulkLoad, PeerError> {
        let mut command = self.command(&["import", "--suffix", &self.setup.suffix]);
        if self.setup.passwords == Passwords::Clear {
            command.arg("--keep-clear-passwords");
        }
        command.arg(&data.path);
        let cost = process::run(&command, &self.log(), process::data_time_max(data.bytes))?;
        let disk_bytes = process::disk_bytes(&self.folder.join("data"));
        Ok(BulkLoad { command: "pando import".to_owned(), cost, disk_bytes })
    }

    fn start_at(&mut self, address: SocketAddr) -> Result<Server, PeerError> {
        let listen = format!("ldap://{address}");
        let mut command = self.command(&["serve", "--admin-dn", &self.setup.admin_dn, "--listen", &listen]);
        if !self.node.is_empty() {
            let node = self.folder.join("node.toml");
            write_file(&node, &self.node.to_string())?;
            command.arg("--node").arg(node);
        } else if self.setup.operation_log {
            command.arg("--log-operations");
        }
        command.env(ADMIN_PASSWORD_VARIABLE, &self.setup.admin_password);
        Server::start(&self.product, &command, &self.log(), address, &self.setup.server_cores)
    }

    fn wants_start(&mut self, workload: &Workload) -> bool {
        let mut node = if self.setup.audit { RunSettings::audit() } else { toml::Table::new() };
        node.extend(workload.circumstances.iter().flat_map(|of| of.node.clone()));
        std::mem::replace(&mut self.node, node.clone()) != node
    }

    fn set_for(&mut self, workload: &Workload, server: &Server) -> Result<(), PeerError> {
        if self.circumstances == workload.circumstances {
            return Ok(());
        }
        // The settings are recorded before they are applied, so that the next workload applies its own settings even
        // after a failure here.
        self.circumstances.clone_from(&workload.circumstances);
        let mut text = settings(&self.setup, &self.always_indexed);
        if let Some(circumstances) = &workload.circumstances {
            self.add(&circumstances.entries, server)?;
            let base = toml::from_str(&text).map_err(|error| PeerError::Answer(error.to_string()))?;
            text = circumstances.over(base).to_string();
        }
        self.apply(&text)
    }

    fn export(&mut self, ldif: &Path) -> Result<Option<process::Cost>, PeerError> {
        let mut command = self.command(&["export"]);
        command.arg("--output").arg(ldif);
        process::run(&command, &self.log(), process::data_time_max(self.setup.ldif_bytes)).map(Some)
    }

    fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Returns the settings file, without indexes on the attributes in `without`.
fn settings(setup: &Setup, without: &[String]) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let schema = if setup.schema.is_some() { "schema_files = [\"data.schema\"]\n" } else { "" };
    let mut text = format!(
        "suffixes = [{}]\nanonymous_read = true\npassword_scheme = \"{}\"\n{schema}\n\
         [limits]\nsize_limit = 0\ntime_limit_seconds = 0\nunindexed_examined = 0\n\n[indexes]\n",
        quoted(&setup.suffix),
        if setup.passwords == Passwords::Clear { "clear" } else { "ssha" },
    );
    for index in setup.indexes.iter().filter(|index| !without.contains(&index.attribute)) {
        let kinds: Vec<_> = index.kinds.iter().map(|kind| quoted(kind.name())).collect();
        text.push_str(&format!("{} = [{}]\n", index.attribute, kinds.join(", ")));
    }
    text
}

/// Parses the attributes from lines of the output of `plan`, such as `settings.toml:12: objectClass is always indexed`.
fn always_indexed(output: &str, file: &str) -> Vec<String> {
    let complaints = output.lines().filter(|line| line.contains("always indexed"));
    let lines = complaints.filter_map(|line| line.split(':').find_map(|part| part.parse::<usize>().ok()));
    let attribute = |line: usize| file.lines().nth(line.checked_sub(1)?)?.split(' ').next();
    lines.filter_map(attribute).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_file_contains_the_setup() {
        let indexes = vec!["cn:equality,presence".parse().unwrap(), "member".parse().unwrap()];
        let mut setup = Setup::new("o=a \"b\",c=GB", indexes, 0);
        setup.schema = Some(String::new());
        let text = settings(&setup, &[]);
        assert!(text.contains("suffixes = [\"o=a \\\"b\\\",c=GB\"]\n"), "{text}");
        assert!(text.contains("schema_files = [\"data.schema\"]\n") && text.contains("\"ssha\""), "{text}");
        assert!(text.contains("cn = [\"equality\", \"presence\"]\n"), "{text}");
        let line = text.lines().position(|line| line.starts_with("member")).unwrap() + 1;
        let output =
            format!("pando: /f/settings.toml:{line}: values of member are links, which are always indexed\n");
        let without = always_indexed(&output, &text);
        assert_eq!(without, ["member"]);
        assert!(!settings(&setup, &without).contains("member"));
        assert!(always_indexed("builds an equality index on cn\n", &text).is_empty());
    }
}
