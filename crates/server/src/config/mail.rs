//! Mail to users who forgot their password, with a link for setting a new one. This is the table `[mail]` of the node
//! file.

use std::path::PathBuf;

use lettre::message::Mailbox;
use serde::Deserialize;

use super::{ConfigError, Secret, is_this_machine, read_password};
use crate::limits::mail::{LINK_MINUTES, LINK_MINUTES_MAX, LINK_MINUTES_MIN};

/// Settings for mails with links, and for the mail server.
#[derive(Clone, Debug, PartialEq)]
pub struct MailSettings {
    /// Host of the SMTP server.
    pub host: String,
    /// Port of the SMTP server.
    pub port: u16,
    /// Protection of the connection to the SMTP server.
    pub tls: MailTls,
    /// File with the authorities that sign the server's certificate, in PEM form; `None` for the system's authorities.
    pub authorities: Option<PathBuf>,
    /// Sender address of the mails.
    pub sender: Mailbox,
    /// User name and password for the SMTP server.
    pub credentials: Option<(String, Secret)>,
    /// File that contains the user name and password.
    pub credentials_file: Option<PathBuf>,
    /// Public URL of the console. It ends with a slash.
    pub console_url: String,
    /// Time for which a link is valid, in minutes.
    pub link_minutes: u32,
}

/// Protection of the connection to a mail server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MailTls {
    /// STARTTLS (RFC 3207). It must succeed before any other command is sent.
    #[default]
    StartTls,
    /// TLS from the first octet (RFC 8314).
    Implicit,
    /// No protection, which is permitted only for a server on this machine.
    None,
}

/// The table `[mail]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MailKeys {
    server: Option<String>,
    tls: Option<MailTls>,
    pub(crate) authorities: Option<PathBuf>,
    sender: Option<String>,
    pub(crate) credentials_file: Option<PathBuf>,
    console_url: Option<String>,
    link_minutes: Option<u32>,
}

impl MailKeys {
    /// Returns the keys of the table that are paths.
    pub(crate) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        [&mut self.authorities, &mut self.credentials_file].into_iter().flatten()
    }

    /// Returns the settings. Requires the console, because the links lead to it.
    pub(super) fn settings(self, has_console: bool) -> Result<MailSettings, ConfigError> {
        let idle = |needs| ConfigError::Idle { table: "mail", needs };
        let wrong = |text: String| Err(ConfigError::Mail(text));
        let server = self.server.ok_or_else(|| idle("server"))?;
        let sender = self.sender.ok_or_else(|| idle("sender"))?;
        let mut console_url = self.console_url.ok_or_else(|| idle("console_url"))?;
        if !has_console {
            return wrong("its links lead to the console, and there is no console.listen".to_owned());
        }
        let parsed = server.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let Some((host, port)) = parsed.filter(|(host, _)| !host.is_empty()) else {
            return wrong(format!("server: {server:?} is not HOST:PORT"));
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = self.tls.unwrap_or_default();
        if tls == MailTls::None && !is_this_machine(&host) {
            return wrong("links and passwords go beyond this machine over TLS alone".to_owned());
        }
        if tls == MailTls::None && self.authorities.is_some() {
            return wrong("authorities have no effect without TLS".to_owned());
        }
        let sender = match sender.parse() {
            Ok(sender) => sender,
            Err(error) => return wrong(format!("sender: {sender:?}: {error}")),
        };
        let rest = console_url.strip_prefix("https://");
        let rest = rest.or_else(|| console_url.strip_prefix("http://").filter(|rest| is_local_url(rest)));
        let is_plain = |octet: u8| octet.is_ascii_graphic() && !b"?#<>\"\\".contains(&octet);
        if !rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(is_plain)) {
            return wrong(format!(
                "console_url: {console_url:?} is not https://HOST/, the address at which browsers reach the console"
            ));
        }
        if !console_url.ends_with('/') {
            console_url.push('/');
        }
        let link_minutes = self.link_minutes.unwrap_or(LINK_MINUTES);
        if !(LINK_MINUTES_MIN..=LINK_MINUTES_MAX).contains(&link_minutes) {
            return wrong(format!("link_minutes is from {LINK_MINUTES_MIN} to {LINK_MINUTES_MAX}"));
        }
        let credentials = match &self.credentials_file {
            None => None,
            Some(file) => Some(credentials(&read_password(file)?)?),
        };
        let (authorities, credentials_file) = (self.authorities, self.credentials_file);
        Ok(MailSettings {
            host,
            port,
            tls,
            authorities,
            sender,
            credentials,
            credentials_file,
            console_url,
            link_minutes,
        })
    }
}

/// Splits the content of the credentials file. Its lines are the user name and the password.
fn credentials(content: &Secret) -> Result<(String, Secret), ConfigError> {
    let wrong = || {
        ConfigError::Mail("credentials_file: a line with the user name, then one with the password".into())
    };
    let text = std::str::from_utf8(&content.0).map_err(|_| wrong())?;
    let (user, password) = text.split_once('\n').ok_or_else(wrong)?;
    if user.is_empty() || password.is_empty() || password.contains('\n') {
        return Err(wrong());
    }
    Ok((user.to_owned(), Secret(password.as_bytes().to_vec())))
}

/// Returns true if the host in a URL is this machine. `rest` is the URL without its scheme.
fn is_local_url(rest: &str) -> bool {
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|octet| octet.is_ascii_digit()) => host,
        _ => authority,
    };
    is_this_machine(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_mail_settings_are_reported_with_their_key() {
        let read = |text: &str| toml::from_str::<MailKeys>(text).unwrap().settings(true);
        let usual = "server = \"mail.example.org:587\"\nsender = \"Directory <d@example.org>\"\n";
        let usual = format!("{usual}console_url = \"https://d.example.org\"\n");
        let settings = read(&usual).unwrap();
        assert_eq!((settings.host.as_str(), settings.port), ("mail.example.org", 587));
        assert_eq!((settings.tls, settings.link_minutes), (MailTls::StartTls, LINK_MINUTES));
        assert_eq!(settings.console_url, "https://d.example.org/");
        let failed = |text: &str| read(text).unwrap_err().to_string();
        let instead = |key: &str, value: &str| {
            let others = usual.lines().filter(|line| !line.starts_with(key)).collect::<Vec<_>>().join("\n");
            format!("{others}\n{key} = {value}")
        };
        for (key, value, expected) in [
            ("server", "\"mail\"", "not HOST:PORT"),
            ("server", "\":25\"", "not HOST:PORT"),
            ("server", "\"mail:70000\"", "not HOST:PORT"),
            ("sender", "\"directory\"", "sender"),
            ("sender", "\"a@b\\nBcc: c@d\"", "sender"),
            ("tls", "\"none\"", "over TLS alone"),
            ("console_url", "\"http://d.example.org/\"", "console_url"),
            ("console_url", "\"https://d.example.org/?x\"", "console_url"),
            ("console_url", "\"https://\"", "console_url"),
            ("console_url", "\"http://127.0.0.1.example.org/\"", "console_url"),
            ("link_minutes", "0", "link_minutes is from"),
            ("link_minutes", "100000", "link_minutes is from"),
        ] {
            let error = failed(&instead(key, value));
            assert!(error.contains(expected), "{key} = {value}: {error}");
        }
        assert!(read(&instead("console_url", "\"http://127.0.0.1:8389\"")).is_ok());
        assert!(
            read(&instead("server", "\"127.0.0.1:25\"").replace("server", "tls = \"none\"\nserver")).is_ok()
        );
        for key in ["server", "sender", "console_url"] {
            let others: Vec<_> = usual.lines().filter(|line| !line.starts_with(key)).collect();
            assert!(failed(&others.join("\n")).contains(&format!("has no {key}")), "{key}");
        }
        let without = toml::from_str::<MailKeys>(&usual).unwrap().settings(false).unwrap_err();
        assert!(without.to_string().contains("console.listen"));
    }

    #[test]
    fn a_credentials_file_has_two_lines() {
        let of = |text: &str| credentials(&Secret(text.as_bytes().to_vec()));
        assert_eq!(of("user\np w").unwrap(), ("user".to_owned(), Secret(b"p w".to_vec())));
        for text in ["", "user", "user\n", "\npassword", "user\npassword\nmore"] {
            assert!(of(text).unwrap_err().to_string().contains("credentials_file"), "{text:?}");
        }
    }
}
