//! The table `[replica]`: the server whose log this server applies.

use std::path::PathBuf;
use std::time::Duration;

use ldap::ServerUrl;

use crate::config::ConfigError;
use crate::config::follow::FollowIdentity;
use crate::config::source_keys::source_table;
use crate::config::values::{DnText, FromText};

/// Maximum length of a replica's name, in octets.
const NAME_BYTES_MAX: usize = 64;

source_table! {
    /// The table `[replica]`.
    pub(crate) struct ReplicaKeys {
        supplier: Option<FromText<ServerUrl>>,
        name: Option<String>,
        read_age_seconds: Option<u32>,
    }
}

/// Settings of this server as a replica. A replica applies the log of its supplier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaSettings {
    /// URL of the supplier.
    pub supplier: ServerUrl,
    /// Name of this replica in the supplier's metrics.
    pub name: String,
    /// Identity with which this server binds.
    pub identity: FollowIdentity,
    /// File with the authorities that sign the supplier's certificate, in PEM form; `None` only if the supplier is on
    /// this machine.
    pub authorities: Option<PathBuf>,
    /// Age of the data above which reads are refused; `None` for no limit.
    pub read_age: Option<Duration>,
}

impl ReplicaSettings {
    /// Returns the settings of the table.
    pub(super) fn of(table: ReplicaKeys) -> Result<ReplicaSettings, ConfigError> {
        let wrong = ConfigError::Replica;
        let Some(FromText(supplier)) = table.supplier.clone() else {
            return Err(wrong("it needs supplier"));
        };
        let identity = table.identity(&supplier).map_err(wrong)?;
        let ReplicaKeys { name, read_age_seconds, authorities, .. } = table;
        let name = name.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned());
        if name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
            return Err(wrong("name has at most 64 bytes and no control characters"));
        }
        if read_age_seconds == Some(0) {
            return Err(wrong("read_age_seconds is at least 1"));
        }
        let read_age = read_age_seconds.map(|seconds| Duration::from_secs(seconds.into()));
        Ok(ReplicaSettings { supplier, name, identity, authorities, read_age })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Result<ReplicaSettings, String> {
        ReplicaSettings::of(toml::from_str(text).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_replica_table_requires_a_supplier_and_an_identity() {
        assert!(settings("").unwrap_err().contains("supplier"));
        assert!(settings("supplier = \"ldap://localhost\"").unwrap_err().contains("bind_dn"));
        let socket = settings("supplier = \"ldapi://%2Fs\"\nname = \"west\"\nread_age_seconds = 5").unwrap();
        assert_eq!((socket.identity, &*socket.name), (FollowIdentity::Socket, "west"));
        assert_eq!(socket.read_age, Some(Duration::from_secs(5)));
        let bare = "supplier = \"ldap://one.example.com\"\nbind_dn = \"cn=b\"\npassword_file = \"p\"";
        assert!(settings(bare).unwrap_err().contains("authorities"));
        assert!(settings(&format!("{bare}\nauthorities = \"ca.pem\"")).is_ok());
        let local = "supplier = \"ldapi://%2Fs\"";
        assert!(settings(&format!("{local}\nread_age_seconds = 0")).unwrap_err().contains("at least 1"));
        assert!(settings(&format!("{local}\nname = \"{}\"", "x".repeat(65))).unwrap_err().contains("64"));
    }
}
