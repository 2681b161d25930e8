//! The tables `[follow]`: servers whose trees this server copies.

use std::path::{Path, PathBuf};

use directory::{FollowedTree, NameMapping};
use ldap::{FilterBuf, ServerUrl};

use crate::config::ConfigError;
use crate::config::source_keys::source_table;
use crate::config::values::{DnText, FromText};

source_table! {
    /// Keys of a table `[follow]`, or the equivalent arguments of the command line.
    pub struct FollowKeys {
        /// URL of the other server.
        url: Option<FromText<ServerUrl>>,
        /// Base DN of the tree at the other server.
        base: Option<FromText<DnText>>,
        /// Base DN of the copy in this server, if it differs from `base`.
        to: Option<FromText<DnText>>,
        /// Filter that copied entries must match.
        filter: Option<String>,
        /// Attributes and object classes that are not copied.
        #[serde(default)]
        leave_out: Vec<String>,
        /// Attributes and object classes that have another name in this server, as `OLD=NEW`.
        #[serde(default)]
        map: Vec<String>,
    }
}

/// A server to follow, and the content to copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowSettings {
    /// URL of the other server.
    pub url: ServerUrl,
    /// Mapping of names: the base DN of the tree at the other server and in this server, and the attributes and object
    /// classes that have another name in this server.
    pub mapping: NameMapping,
    /// Filter that copied entries must match.
    pub filter: String,
    /// Identity with which this server binds.
    pub identity: FollowIdentity,
    /// File with the authorities that sign the other server's certificate, in PEM form. With them, `ldap://` uses
    /// StartTLS. `None` only if the other server is on this machine.
    pub authorities: Option<PathBuf>,
    /// Attributes and object classes that are not copied, by their names at the other server.
    pub leave_out: Vec<String>,
}

/// Identity with which this server binds at another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowIdentity {
    /// A simple bind.
    Password {
        /// DN for the bind.
        dn: DnText,
        /// File with the password. One newline at its end is ignored.
        file: PathBuf,
    },
    /// SASL EXTERNAL with a certificate.
    Certificate {
        /// File with the certificate, in PEM form.
        certificate: PathBuf,
        /// File with the private key of the certificate, in PEM form.
        key: PathBuf,
    },
    /// SASL EXTERNAL over a Unix socket, as the user of this process.
    Socket,
}

impl FollowIdentity {
    /// Returns the identity for the keys of a table. `files` are the files of the password, the certificate and the
    /// key.
    pub(super) fn of(
        url: &ServerUrl,
        bind_dn: Option<FromText<DnText>>,
        files: (Option<PathBuf>, Option<PathBuf>, Option<PathBuf>),
        has_authorities: bool,
    ) -> Result<FollowIdentity, &'static str> {
        let identity = match (bind_dn, files) {
            (Some(FromText(dn)), (Some(file), None, None)) => FollowIdentity::Password { dn, file },
            (None, (None, Some(certificate), Some(key))) if has_authorities => {
                FollowIdentity::Certificate { certificate, key }
            }
            (None, (None, None, None)) if matches!(url, ServerUrl::Local(_)) => FollowIdentity::Socket,
            _ => {
                return Err(
                    "it needs bind_dn and password_file, or certificate, key and authorities, unless url is ldapi://",
                );
            }
        };
        match has_authorities || is_local(url) {
            true => Ok(identity),
            false => Err("it needs authorities, because passwords go over TLS alone, except to this machine"),
        }
    }

    /// Returns the file with the password or the private key.
    pub(crate) fn secret_file(&self) -> Option<&Path> {
        match self {
            FollowIdentity::Password { file, .. } => Some(file),
            FollowIdentity::Certificate { key, .. } => Some(key),
            FollowIdentity::Socket => None,
        }
    }
}

impl FollowSettings {
    /// Returns the settings of the table.
    pub(super) fn of(table: FollowKeys) -> Result<FollowSettings, ConfigError> {
        let wrong = |text| Err(ConfigError::Follow(text));
        let (Some(FromText(url)), Some(FromText(base))) = (&table.url, &table.base) else {
            return wrong("it needs url and base");
        };
        let filter = table.filter.clone().unwrap_or_else(|| "(objectClass=*)".to_owned());
        if FilterBuf::parse(&filter).is_err() {
            return wrong("filter is not an LDAP filter");
        }
        let identity = table.identity(url).map_err(ConfigError::Follow)?;
        let pairs = table.map.iter().map(|pair| pair.split_once('='));
        let pairs = pairs.map(|pair| pair.filter(|(old, new)| !old.is_empty() && !new.is_empty()));
        let Some(names) = pairs.collect::<Option<Vec<_>>>() else {
            return wrong("map is a list of OLD=NEW, names of attributes or classes there and here");
        };
        let names = names.into_iter().map(|(old, new)| (old.trim().to_owned(), new.trim().to_owned()));
        let here = table.to.as_ref().map_or(base, |FromText(to)| to).as_str().to_owned();
        let mapping = NameMapping { bases: (base.as_str().to_owned(), here), names: names.collect() };
        let (url, authorities) = (url.clone(), table.authorities);
        Ok(FollowSettings { url, mapping, filter, identity, authorities, leave_out: table.leave_out })
    }

    /// Returns the copied tree, which clients cannot change.
    pub(crate) fn tree(&self) -> FollowedTree {
        let referral = match &self.url {
            ServerUrl::Local(_) => None,
            ServerUrl::Internet { .. } => Some(self.url.to_string()),
        };
        FollowedTree { mapping: self.mapping.clone(), referral }
    }

    /// Returns the name of the copy in metrics and messages.
    pub(crate) fn name(&self) -> String {
        format!("{} to {}", self.url, self.base())
    }

    /// Returns the base DN of the tree at the other server.
    pub(crate) fn source_base(&self) -> &str {
        &self.mapping.bases.0
    }

    /// Returns the base DN of the copy in this server.
    pub(crate) fn base(&self) -> &str {
        &self.mapping.bases.1
    }
}

fn is_local(url: &ServerUrl) -> bool {
    match url {
        ServerUrl::Local(_) => true,
        ServerUrl::Internet { host, .. } => super::is_this_machine(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Result<FollowSettings, String> {
        FollowSettings::of(toml::from_str(text).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn passwords_to_other_machines_require_tls() {
        let with = |url: &str, more: &str| {
            settings(&format!(
                "url = \"{url}\"\nbase = \"o=a\"\nbind_dn = \"cn=b\"\npassword_file = \"p\"\n{more}"
            ))
        };
        for url in ["ldap://localhost", "ldap://127.0.0.1:1389", "ldap://[::1]:1389", "ldapi://%2Fs"] {
            assert!(with(url, "").is_ok(), "{url}");
        }
        assert!(with("ldap://old.example.com", "").unwrap_err().contains("authorities"));
        assert!(with("ldap://old.example.com", "authorities = \"ca.pem\"").is_ok());
        assert!(with("ldap://localhost", "filter = \"(cn=\"").unwrap_err().contains("filter"));
        assert!(
            with("ldap://localhost", "certificate = \"c\"\nkey = \"k\"").unwrap_err().contains("bind_dn")
        );
    }

    #[test]
    fn the_follow_table_requires_a_source_and_an_identity() {
        assert!(settings("base = \"o=a\"").unwrap_err().contains("url and base"));
        assert!(settings("url = \"ldap://localhost\"\nbase = \"o=a\"").unwrap_err().contains("bind_dn"));
        let socket = settings("url = \"ldapi://%2Fs\"\nbase = \"o=a\"").unwrap();
        assert_eq!((socket.tree().referral, &socket.identity), (None, &FollowIdentity::Socket));
        assert_eq!((socket.source_base(), socket.base()), ("o=a", "o=a"));
        let local = "url = \"ldapi://%2Fs\"\nbase = \"o=a\"\nto = \"o=b\"\n";
        let mapped = settings(&format!("{local}map = [\"userid=uid\", \"user=inetOrgPerson\"]")).unwrap();
        assert_eq!((mapped.source_base(), mapped.base()), ("o=a", "o=b"));
        assert_eq!(mapped.mapping.name("USER"), "inetOrgPerson");
        assert!(settings(&format!("{local}map = [\"uid\"]")).unwrap_err().contains("OLD=NEW"));
    }
}
