//! A server in the process of the test, with its own data folder.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use client::Connection;
use directory::DirectorySettings;
use directory::password::StorageScheme;
use directory::settings::GeneralSettings;
use server::config::Secret;
use server::{Config, Handle, Opened, Server};

pub(crate) const SUFFIX: &str = "dc=example,dc=com";
pub(crate) const PASSWORD: &str = "secret";

/// A folder for one test. It is removed when the test ends.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("pando-server-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns settings for tests: two event loops, a free port, and fast hashes.
pub(crate) fn config(folder: &Folder) -> Config {
    config_with(folder, GeneralSettings::default())
}

/// The same as [`config`] with other general settings of the directory.
#[allow(dead_code, reason = "each test binary uses its own part")]
pub(crate) fn config_with(folder: &Folder, general: GeneralSettings) -> Config {
    let general = GeneralSettings { password_scheme: StorageScheme::Ssha256, ..general };
    Config {
        listen: vec!["ldap://127.0.0.1:0".parse().unwrap()],
        threads: 2,
        admin_password: Some(Secret(PASSWORD.as_bytes().to_vec())),
        initial: Some(DirectorySettings { general, ..DirectorySettings::default() }),
        ..Config::new(folder.path())
    }
}

/// A running server that contains the suffix entry.
pub(crate) struct Running {
    server: Option<Server>,
    pub(crate) handle: Handle,
    pub(crate) address: SocketAddr,
}

impl Running {
    pub(crate) fn start(config: Config) -> Running {
        let mut opened = Opened::open(config).unwrap();
        if opened.directory().is_empty().unwrap() {
            let classes = vec![b"domain".to_vec()];
            let attributes =
                vec![("objectClass".to_owned(), classes), ("dc".to_owned(), vec![b"example".to_vec()])];
            opened.load([(SUFFIX.to_owned(), attributes)]).unwrap();
        }
        Running::serve(opened)
    }

    pub(crate) fn serve(opened: Opened) -> Running {
        let server = opened.start().unwrap();
        let (handle, address) = (server.handle(), server.addresses()[0]);
        Running { server: Some(server), handle, address }
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address).unwrap()
    }

    pub(crate) fn administrator(&self) -> Connection {
        let mut connection = self.connect();
        assert!(connection.bind("cn=admin", PASSWORD).unwrap().is_success());
        connection
    }

    #[allow(dead_code, reason = "each test binary uses its own part")]
    pub(crate) fn stop(&mut self) {
        self.handle.stop();
        self.server.take().unwrap().wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(server) = self.server.take() {
            let _ = server.wait();
        }
    }
}
