//! Options shared by commands: `--data` and `--node` for a data directory, `--identity` for an encrypted backup.

use std::path::{Path, PathBuf};

use clap::Args;
use server::{Arguments, BackupIdentities, ServeError};

/// The data directory that an administration command works on.
#[derive(Debug, Args)]
pub(crate) struct DataArguments {
    /// The data directory
    #[arg(long, value_name = "DIR", env = "PANDO_DATA")]
    data: Option<PathBuf>,
    /// The node file, if it names the data directory
    #[arg(long, value_name = "FILE", env = "PANDO_NODE")]
    node: Option<PathBuf>,
}

impl DataArguments {
    /// Returns server options that contain only the data directory and the node file.
    pub(crate) fn to_server(&self) -> Arguments {
        Arguments { node_file: self.node.clone(), data: self.data.clone(), ..Arguments::default() }
    }

    /// Returns the node file that the options name.
    pub(crate) fn node_file(&self) -> Option<&Path> {
        self.node.as_deref()
    }

    /// Returns the data directory, or `None` if the options and the node file name none.
    pub(crate) fn directory(&self) -> Option<PathBuf> {
        server::Config::load(&self.to_server()).ok().map(|config| config.data)
    }
}

/// The option that names a file with private keys.
#[derive(Debug, Args)]
pub(crate) struct IdentityArguments {
    /// File with an identity (private key) of age that decrypts the backup, if it is encrypted
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
}

impl IdentityArguments {
    /// Reads the identities from the file.
    pub(crate) fn read(&self) -> Result<BackupIdentities, ServeError> {
        Ok(self
            .identity
            .as_deref()
            .map_or_else(|| Ok(BackupIdentities::default()), BackupIdentities::read)?)
    }
}
