//! The table `[follow]`: the server whose tree this one copies.

use std::path::{Path, PathBuf};

use directory::FollowedTree;
use ldap::{FilterBuf, ServerUrl};
use serde::Deserialize;

use crate::config::ConfigError;
use crate::config::values::{DnText, FromText};

/// The table `[follow]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FollowKeys {
    url: Option<FromText<ServerUrl>>,
    base: Option<FromText<DnText>>,
    filter: Option<String>,
    bind_dn: Option<FromText<DnText>>,
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) authorities: Option<PathBuf>,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    #[serde(default)]
    leave_out: Vec<String>,
}

/// The server to follow, as the command line names it: the same fields as in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowArguments {
    /// URL of the server.
    pub url: ServerUrl,
    /// The entry at and below which entries are copied.
    pub base: DnText,
    /// Filter that they match; `None` copies all.
    pub filter: Option<String>,
    /// Name to bind with.
    pub bind_dn: Option<DnText>,
    /// File with the password.
    pub password_file: Option<PathBuf>,
    /// Authorities that sign the server's certificate.
    pub authorities: Option<PathBuf>,
    /// A certificate to bind with.
    pub certificate: Option<PathBuf>,
    /// The key of the certificate.
    pub key: Option<PathBuf>,
    /// Attributes not to copy.
    pub leave_out: Vec<String>,
}

impl From<FollowArguments> for FollowKeys {
    fn from(given: FollowArguments) -> FollowKeys {
        let FollowArguments {
            url,
            base,
            filter,
            bind_dn,
            password_file,
            authorities,
            certificate,
            key,
            leave_out,
        } = given;
        let (url, base, bind_dn) = (Some(FromText(url)), Some(FromText(base)), bind_dn.map(FromText));
        FollowKeys { url, base, filter, bind_dn, password_file, authorities, certificate, key, leave_out }
    }
}

/// The server to follow, and what to copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowSettings {
    /// URL of the server.
    pub url: ServerUrl,
    /// The entry at and below which entries are copied.
    pub base: DnText,
    /// Filter that they match.
    pub filter: String,
    /// Identity to bind as.
    pub identity: FollowIdentity,
    /// Authorities that sign the server's certificate, in PEM form; with `ldap://`, StartTLS is used. `None` only for
    /// this machine.
    pub authorities: Option<PathBuf>,
    /// Attributes not to copy.
    pub leave_out: Vec<String>,
}

/// Identity to bind as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowIdentity {
    /// A simple bind.
    Password {
        /// Name to bind with.
        dn: DnText,
        /// File with the password; one newline at its end is ignored.
        file: PathBuf,
    },
    /// SASL EXTERNAL with a certificate.
    Certificate {
        /// The certificate, in PEM form.
        certificate: PathBuf,
        /// Its key, in PEM form.
        key: PathBuf,
    },
    /// SASL EXTERNAL as the user of this process.
    Socket,
}

impl FollowIdentity {
    /// Returns the identity of a table with these keys, of which the files are those of password, certificate and key.
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
        match has_authorities || is_this_machine(url) {
            true => Ok(identity),
            false => Err("it needs authorities, because passwords go over TLS alone, except to this machine"),
        }
    }

    /// Returns the file with the secret.
    pub(crate) fn secret_file(&self) -> Option<&Path> {
        match self {
            FollowIdentity::Password { file, .. } => Some(file),
            FollowIdentity::Certificate { key, .. } => Some(key),
            FollowIdentity::Socket => None,
        }
    }
}

impl FollowKeys {
    /// Returns the paths of the table.
    pub(crate) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        [&mut self.password_file, &mut self.authorities, &mut self.certificate, &mut self.key]
            .into_iter()
            .flatten()
    }
}

impl FollowSettings {
    /// Returns the settings of the table.
    pub(super) fn of(table: FollowKeys) -> Result<FollowSettings, ConfigError> {
        let FollowKeys {
            url,
            base,
            filter,
            bind_dn,
            password_file,
            authorities,
            certificate,
            key,
            leave_out,
        } = table;
        let wrong = |text| Err(ConfigError::Follow(text));
        let (Some(FromText(url)), Some(FromText(base))) = (url, base) else {
            return wrong("it needs url and base");
        };
        let filter = filter.unwrap_or_else(|| "(objectClass=*)".to_owned());
        if FilterBuf::parse(&filter).is_err() {
            return wrong("filter is not an LDAP filter");
        }
        let files = (password_file, certificate, key);
        let identity =
            FollowIdentity::of(&url, bind_dn, files, authorities.is_some()).map_err(ConfigError::Follow)?;
        Ok(FollowSettings { url, base, filter, identity, authorities, leave_out })
    }

    /// Returns the tree that clients cannot change.
    pub(crate) fn tree(&self) -> FollowedTree {
        let referral = match &self.url {
            ServerUrl::Local(_) => None,
            ServerUrl::Internet { .. } => Some(self.url.to_string()),
        };
        FollowedTree { base: self.base.as_str().to_owned(), referral }
    }

    /// Returns the files with secrets.
    pub(crate) fn secret_file(&self) -> Option<&Path> {
        self.identity.secret_file()
    }
}

fn is_this_machine(url: &ServerUrl) -> bool {
    match url {
        ServerUrl::Local(_) => true,
        ServerUrl::Internet { host, .. } => {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Result<FollowSettings, String> {
        FollowSettings::of(toml::from_str(text).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn passwords_stay_on_this_machine_without_tls() {
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
    fn a_table_names_source_and_identity() {
        assert!(settings("base = \"o=a\"").unwrap_err().contains("url and base"));
        assert!(settings("url = \"ldap://localhost\"\nbase = \"o=a\"").unwrap_err().contains("bind_dn"));
        let socket = settings("url = \"ldapi://%2Fs\"\nbase = \"o=a\"").unwrap();
        assert_eq!((socket.tree().referral, socket.identity), (None, FollowIdentity::Socket));
    }
}
