//! Pando, as an external program like the others: everything goes through its command line and its files.
//!
//! Its settings are its defaults, which sync every change before it is answered; what is set is what the others are given too:
//! - `password_scheme` {SSHA}, so that no server hashes longer than another.
//! - The indexes of the comparison, in place of the default ones.
//! - Anonymous may read, userPassword excepted; no limits.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{
    BulkLoad, Data, Peer, PeerError, Server, Setup, free_address, make_folder, must_exist, process,
    write_file,
};

const ADMIN_PASSWORD_VARIABLE: &str = "PANDO_ADMIN_PASSWORD";

/// Pando in a folder.
pub struct Pando {
    program: PathBuf,
    folder: PathBuf,
    setup: Setup,
    product: String,
}

impl Pando {
    /// Writes its node file and sets its indexes.
    ///
    /// # Errors
    /// When the program is not there or refuses.
    pub fn configure(program: &Path, folder: &Path, setup: &Setup) -> Result<Pando, PeerError> {
        must_exist(program)?;
        make_folder(folder)?;
        if let Some(schema) = &setup.schema {
            write_file(&folder.join("data.schema"), schema)?;
        }
        write_file(&folder.join("node.toml"), &node_file(setup))?;
        let (_, said) = process::output(Command::new(program).arg("--version"))?;
        let product = format!("Pando {}", said.trim().trim_start_matches("pando ").trim());
        let peer =
            Pando { program: program.to_owned(), folder: folder.to_owned(), setup: setup.clone(), product };
        peer.set_indexes()?;
        Ok(peer)
    }

    fn log(&self) -> PathBuf {
        self.folder.join("pando.log")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).arg("--config").arg(self.folder.join("node.toml"));
        command
    }

    /// Drops what the comparison does not have and adds what it has, while the directory is empty and nothing has to be built.
    fn set_indexes(&self) -> Result<(), PeerError> {
        // The directory is made by its first start.
        self.serve()?.stop()?;
        let (status, said) = process::output(&mut self.command(&["index", "list"]))?;
        if !status.success() {
            return Err(PeerError::Failed { command: "pando index list".to_owned(), status, said });
        }
        for attribute in said.lines().filter_map(|line| line.split_whitespace().next()) {
            process::run(&self.command(&["index", "drop", attribute]), &self.log())?;
        }
        for index in &self.setup.indexes {
            let kinds: Vec<_> = index.kinds.iter().map(|kind| kind.name()).collect();
            let words = ["index", "add", &index.attribute, "--kinds", &kinds.join(",")];
            match process::run(&self.command(&words), &self.log()) {
                // objectClass, and links such as member.
                Err(PeerError::Failed { said, .. }) if said.contains("always indexed") => {}
                done => drop(done?),
            }
        }
        Ok(())
    }

    fn serve(&self) -> Result<Server, PeerError> {
        let address = free_address()?;
        let listen = format!("ldap://{address}");
        let mut command = self.command(&["serve", "--listen", &listen]);
        command.env(ADMIN_PASSWORD_VARIABLE, &self.setup.admin_password);
        Server::start(&self.product, &command, &self.log(), address, &self.setup.server_cores)
    }
}

impl Peer for Pando {
    fn name(&self) -> &'static str {
        "pando"
    }

    fn product(&self) -> &str {
        &self.product
    }

    fn settings(&self) -> Vec<(String, String)> {
        let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        vec![
            text("threads", "one event loop a core that it may use, one writer"),
            text("durability", "every change synced before it is answered (there is no other mode)"),
            text("password scheme", "{SSHA}"),
            text("operation log", "off (default)"),
            text("access control", "anonymous reads, userPassword excepted"),
            text("limits", "none"),
        ]
    }

    fn bulk_load(&mut self, data: &Data) -> Result<BulkLoad, PeerError> {
        let mut command = self.command(&["import", "--suffix", &self.setup.suffix]);
        command.arg(&data.path);
        let cost = process::run(&command, &self.log())?;
        let disk_bytes = process::disk_bytes(&self.folder.join("data"));
        Ok(BulkLoad { command: "pando import".to_owned(), cost, disk_bytes })
    }

    fn start(&mut self) -> Result<Server, PeerError> {
        self.serve()
    }

    fn export(&mut self, ldif: &Path) -> Result<Option<process::Cost>, PeerError> {
        let mut command = self.command(&["export"]);
        command.arg("--output").arg(ldif);
        process::run(&command, &self.log()).map(Some)
    }

    fn folder(&self) -> &Path {
        &self.folder
    }
}

fn node_file(setup: &Setup) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let schema = if setup.schema.is_some() { "schema_files = [\"data.schema\"]\n" } else { "" };
    format!(
        "data = \"data\"\nsuffixes = [{}]\nadmin_dn = {}\nanonymous_read = true\npassword_scheme = \"SSHA\"\n{schema}\n\
         [limits]\nsize_limit = 0\ntime_limit_seconds = 0\nunindexed_examined = 0\n",
        quoted(&setup.suffix),
        quoted(&setup.admin_dn),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_file_has_what_the_setup_says() {
        let mut setup = Setup::new("o=a \"b\",c=GB", Vec::new(), 0);
        setup.schema = Some(String::new());
        let text = node_file(&setup);
        assert!(text.contains("suffixes = [\"o=a \\\"b\\\",c=GB\"]\n"), "{text}");
        assert!(text.contains("schema_files = [\"data.schema\"]\n") && text.contains("\"SSHA\""), "{text}");
    }
}
