//! Detects files with permissions that are too wide. Such files are passwords and keys that other users can read, and
//! certificates and keys of trusted authorities that other users can change.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::config::Config;

/// Mode bits that let users other than the owner read or write. Search permission on a folder is not included, because
/// it reveals no content.
const READ_OR_WRITTEN: u32 = 0o066;
/// Mode bits that let users other than the owner write.
const WRITTEN: u32 = 0o022;
/// Mode bits that the process's own group may have. They allow reading a file, and searching a folder.
const OF_OWN_GROUP: u32 = 0o050;

impl Config {
    /// Returns the problems with the modes of the data directory and of the files that the settings name. Each message
    /// contains the mode and the command that corrects it. The permission of a group to read a secret is a problem
    /// unless the process or the data directory belongs to the group.
    pub fn exposed_files(&self, node_file: Option<&Path>) -> Vec<String> {
        let tls = &self.tls;
        let key = tls.key.clone().or_else(|| tls.certificate.clone());
        let has_secrets = self.cluster.as_ref().is_some_and(|cluster| cluster.is_kafka_given);
        let node_file_harm = if has_secrets { READ_OR_WRITTEN } else { WRITTEN };
        let pass_through =
            self.pass_through.as_ref().and_then(|to| to.verifier.authorities()).map(Path::to_owned);
        let kerberos = self.online.kerberos.as_deref();
        let secret = [
            ("the administrator's password", self.admin_password_file.clone()),
            ("the private key of TLS", Some(key.unwrap_or_else(|| self.data.join("tls/key.pem")))),
            ("the key of TLS's authority", Some(self.data.join("tls/authority-key.pem"))),
            ("the audit trail", self.audit.folder.clone()),
            ("the backup", self.backup.as_ref().and_then(|backup| backup.place.folder()).map(Path::to_owned)),
            (
                "the credentials of the backup",
                self.backup.as_ref().and_then(|backup| backup.place.credentials()).map(Path::to_owned),
            ),
            (
                "the token of the metrics",
                self.metrics.as_ref().and_then(|metrics| metrics.token_file.clone()),
            ),
            ("the headers of traces", self.traces.as_ref().and_then(|traces| traces.header_file.clone())),
            ("the credentials of mail", self.mail.as_ref().and_then(|mail| mail.credentials_file.clone())),
            ("the key of Kerberos", kerberos.map(|kerberos| kerberos.keytab().to_owned())),
            (
                "the secret of replica",
                self.replica.as_ref().and_then(|of| of.identity.secret_file()).map(Path::to_owned),
            ),
            ("the keys of this node", self.cluster.as_ref().map(|cluster| cluster.keys.clone())),
            ("the data", Some(self.data.clone())),
        ];
        let trusted = [
            ("the authorities of clients", tls.client_authorities.clone()),
            ("the authorities of pass_through", pass_through),
            ("the authorities of mail", self.mail.as_ref().and_then(|mail| mail.authorities.clone())),
            ("the authorities of replica", self.replica.as_ref().and_then(|of| of.authorities.clone())),
            ("the keys of oauth", self.online.token_key_file.clone()),
        ];
        let brokers = self.cluster.iter().flat_map(|cluster| &cluster.secret_files);
        let brokers = brokers.map(|file| ("a secret for the brokers", Some(file.clone())));
        let secrets = self.follow.iter().map(|of| of.identity.secret_file().map(Path::to_owned));
        let secrets = secrets.map(|file| ("the secret of follow", file));
        let authorities = self.follow.iter().map(|of| ("the authorities of follow", of.authorities.clone()));
        let secret = secret.into_iter().chain(brokers).chain(secrets);
        let trusted = trusted.into_iter().chain(authorities);
        let secret = secret.map(|(what, file)| (what, file, READ_OR_WRITTEN));
        let trusted = trusted.map(|(what, file)| (what, file, WRITTEN));
        let servers = std::fs::metadata(&self.data).ok().map(|data| data.gid());
        let node_file = ("the node file", node_file.map(Path::to_owned), node_file_harm);
        secret
            .chain(trusted)
            .chain([node_file])
            .filter_map(|(what, file, harm)| exposure(what, &file?, harm, servers))
            .collect()
    }
}

/// Returns the problem with the mode of a file or directory. `servers` is the group of the data directory. The process
/// may lack this group if root runs `pando doctor`. Ignores a file that cannot be examined, because opening it will
/// report the error.
fn exposure(what: &str, path: &Path, harm: u32, servers: Option<u32>) -> Option<String> {
    let found = std::fs::metadata(path).ok()?;
    let (group, mode) = (found.gid(), found.mode() & 0o777);
    let is_own =
        group == rustix::process::getegid().as_raw() || Some(group) == servers || is_among_groups(group);
    let (harm, mended) = match (harm, is_own) {
        (WRITTEN, _) => (WRITTEN, "go-w"),
        (_, true) => (harm & !OF_OWN_GROUP, "g-w,o="),
        (_, false) => (harm, "go="),
    };
    (mode & harm != 0).then(|| {
        let path = path.display();
        format!("others can use {what} in {path}, mode {mode:04o}: chmod {mended} {path}")
    })
}

fn is_among_groups(group: u32) -> bool {
    rustix::process::getgroups().is_ok_and(|groups| groups.iter().any(|own| own.as_raw() == group))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, chown};
    use std::path::PathBuf;

    use super::*;

    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// Regression: a password file of mode 0644 was accepted without a warning.
    #[test]
    fn names_exposed_files_with_mode_and_remedy() {
        let folder = Folder(std::env::temp_dir().join(format!("pando-exposed-{}", std::process::id())));
        fs::create_dir_all(&folder.0).unwrap();
        let of = |name: &str| folder.0.join(name);
        for name in ["password", "key", "authorities", "node"] {
            fs::write(of(name), "secret\n").unwrap();
            fs::set_permissions(of(name), Permissions::from_mode(0o600)).unwrap();
        }
        let mut config = Config::new(of("data"));
        fs::create_dir_all(of("data")).unwrap();
        fs::set_permissions(of("data"), Permissions::from_mode(0o700)).unwrap();
        config.admin_password_file = Some(of("password"));
        config.tls.certificate = Some(of("certificate"));
        config.tls.key = Some(of("key"));
        config.tls.client_authorities = Some(of("authorities"));
        let describe = |name: &str, mode| {
            fs::set_permissions(of(name), Permissions::from_mode(mode)).unwrap();
            let describe = config.exposed_files(Some(&of("node")));
            fs::set_permissions(of(name), Permissions::from_mode(if name == "data" { 0o700 } else { 0o600 }))
                .unwrap();
            assert!(
                describe.len() < 2 && !describe.iter().any(|line| line.contains("secret")),
                "{describe:?}"
            );
            let is_named = |line: &String| line.contains(&format!("/{name}, mode {mode:04o}: chmod g"));
            assert!(describe.iter().all(is_named), "{describe:?}");
            !describe.is_empty()
        };
        for name in ["password", "key", "data"] {
            let modes = [0o700, 0o500, 0o604, 0o602, 0o620, 0o644].map(|mode| describe(name, mode));
            assert_eq!(modes, [false, false, true, true, true, true], "{name}");
            assert!(!describe(name, 0o640), "{name}: the process's own group");
        }
        assert!(!describe("data", 0o711), "others pass, and read nothing");
        for name in ["authorities", "node"] {
            assert_eq!(
                [0o644, 0o640, 0o664, 0o646].map(|mode| describe(name, mode)),
                [false, false, true, true]
            );
        }
        // Only root can assign a file to a group to which it does not belong.
        if rustix::process::geteuid().is_root() {
            chown(of("key"), None, Some(65_000)).unwrap();
            assert!(describe("key", 0o640), "another group");
            chown(of("data"), None, Some(65_000)).unwrap();
            assert!(!describe("key", 0o640), "the group of the data directory");
        }
    }
}
