//! The questions of `pando init`, the answers to them, and the files that are made from the answers.

use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::ValueEnum;
use migration::in_toml;

use super::InitArguments;

/// Readers of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Readers {
    /// All clients, even without a bind
    Anonymous,
    /// Users who have bound
    Users,
    /// Users read their own entries
    #[value(name = "self")]
    Own,
}

/// Answers to all questions.
pub(super) struct Answers {
    pub(super) suffix: String,
    pub(super) admin_dn: String,
    /// Paths of the certificate and the key.
    pub(super) tls: Option<(PathBuf, PathBuf)>,
    pub(super) readers: Readers,
    pub(super) sample: bool,
    listen: Vec<String>,
}

impl InitArguments {
    /// Returns the values of the options, and asks for missing ones.
    pub(super) fn answers(&self) -> Result<Answers, String> {
        if !self.yes && !io::stdin().is_terminal() {
            return Err("there is no terminal to ask at: give options, and --yes".to_owned());
        }
        let suffix = self.or_prompt(self.suffix.clone(), "Suffix of the directory", "dc=example,dc=com")?;
        let admin_dn = self.or_prompt(self.admin_dn.clone(), "DN of the administrator", "cn=admin")?;
        let pair = self.certificate.clone().zip(self.key.clone());
        let tls = match pair {
            Some((certificate, key)) => Some((absolute(&certificate)?, absolute(&key)?)),
            None => self.prompt_for_tls()?,
        };
        let readers = match self.readers {
            Some(readers) => readers,
            None => {
                self.prompt("Who may read it: anonymous, users or self", "users")?.parse::<ReadersText>()?.0
            }
        };
        let sample = self.sample
            || self.prompt("Load a sample organisation: yes or no", "no")?.starts_with(['y', 'Y']);
        let listen = match self.listen.as_slice() {
            [] => vec!["ldap://127.0.0.1:1389".to_owned(), "ldaps://127.0.0.1:1636".to_owned()],
            given => given.iter().map(ToString::to_string).collect(),
        };
        let (suffix, admin_dn) = (suffix.as_str().to_owned(), admin_dn.as_str().to_owned());
        Ok(Answers { suffix, admin_dn, tls, readers, sample, listen })
    }

    fn or_prompt<T: FromStr<Err: ToString>>(
        &self,
        given: Option<T>,
        question: &str,
        default: &str,
    ) -> Result<T, String> {
        match given {
            Some(given) => Ok(given),
            None => self.prompt(question, default)?.parse().map_err(|error: T::Err| error.to_string()),
        }
    }

    /// Asks a question at the terminal. An empty line means the default answer. With `--yes`, returns the default
    /// answer without asking.
    fn prompt(&self, question: &str, default: &str) -> Result<String, String> {
        if self.yes {
            return Ok(default.to_owned());
        }
        eprint!("{question} [{default}]: ");
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        match read.map_err(|error| format!("cannot read the answer: {error}"))? {
            0 => Err("there are no more answers".to_owned()),
            _ if line.trim().is_empty() => Ok(default.to_owned()),
            _ => Ok(line.trim().to_owned()),
        }
    }

    fn prompt_for_tls(&self) -> Result<Option<(PathBuf, PathBuf)>, String> {
        let certificate = self.prompt("File with a certificate, or `own`: the server makes one", "own")?;
        if certificate == "own" {
            return Ok(None);
        }
        let key = self.prompt("File with its private key", &certificate)?;
        Ok(Some((absolute(Path::new(&certificate))?, absolute(Path::new(&key))?)))
    }
}

/// Text form of [`Readers`], for answers.
struct ReadersText(Readers);

impl FromStr for ReadersText {
    type Err = String;

    fn from_str(text: &str) -> Result<ReadersText, String> {
        Readers::from_str(text, true).map(ReadersText)
    }
}

/// Returns the absolute path of a file. The file must exist.
fn absolute(path: &Path) -> Result<PathBuf, String> {
    path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))
}

impl Answers {
    /// Returns the text of the node file.
    pub(super) fn node_file(&self) -> String {
        let listen: Vec<String> = self.listen.iter().map(|url| in_toml(url)).collect();
        let (listen, admin_dn) = (listen.join(", "), in_toml(&self.admin_dn));
        let tls = match &self.tls {
            None => "\
# Without these, the server makes a certificate, and an authority that signs it: data/tls/authority.pem is for clients.
#[tls]
#certificate = \"certificate.pem\"
#key = \"key.pem\"
"
            .to_owned(),
            Some((certificate, key)) => format!(
                "[tls]\ncertificate = {}\nkey = {}\n",
                in_toml(&certificate.to_string_lossy()),
                in_toml(&key.to_string_lossy())
            ),
        };
        format!(
            "\
# Node file of Pando: settings of this machine. Paths are relative to this file. Settings of the directory are in
# settings.toml. After a change: send SIGHUP, or restart; the log says which.

data = \"data\"

# \"ldap://\" and \"ldaps://\" without a host are for all machines. Passwords from other machines need TLS.
listen = [{listen}]

# The administrator needs no entry. On this machine, the user that runs the server is the administrator without a
# password, through the socket in the data directory.
admin_dn = {admin_dn}
admin_password_file = \"admin-password\"

{tls}
# Pages for monitoring: /metrics, /ready, /live.
#[metrics]
#listen = \"127.0.0.1:9389\"

# Backups while the server runs.
#[backup]
#folder = \"/var/backups/pando\"
#keep_days = 35
"
        )
    }

    /// Returns the text of the settings file.
    pub(super) fn settings_file(&self) -> String {
        let suffix = in_toml(&self.suffix);
        let readers = match self.readers {
            Readers::Anonymous => {
                "# All clients read, also without a bind, and never passwords. Rules in access_rules replace this.\n\
                 anonymous_read = true\n"
            }
            Readers::Users => {
                "# Without rules, users who have bound read everything but passwords, and set their own password:\n\
                 # \"users: allow read to authenticated\", \"own password: allow write of userPassword to self\"\n\
                 access_rules = []\n"
            }
            Readers::Own => {
                "# Users read their own entries, and set their own password. What no rule allows is denied.\n\
                 access_rules = [\n  \"own entry: allow read to self\",\n  \
                 \"own password: allow write of userPassword to self\",\n]\n"
            }
        };
        format!(
            "\
# Settings of the directory, which all its nodes share. To change them: edit, then `pando plan` and `pando apply`.

suffixes = [{suffix}]

{readers}"
        )
    }
}
