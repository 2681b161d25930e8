//! Settings of the backups that a server makes itself: the table `[backup]` of the node file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

use super::ConfigError;
use super::values::FromText;
use crate::limits::BACKUP_RECIPIENTS_MAX;

const MINUTE: u64 = 60;
const DAY: u64 = 86_400;

/// Scheme in the address of a bucket.
const BUCKET: &str = "s3://";

/// Place of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupPlace {
    /// A folder of the file system.
    Folder(PathBuf),
    /// A prefix of a bucket in S3-compatible storage.
    Bucket(BucketAddress),
}

/// Address of a bucket. A value that is `None` is taken from the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketAddress {
    /// Name of the bucket.
    pub bucket: String,
    /// Path inside the bucket, without slashes at its start and end. It may be empty.
    pub prefix: String,
    /// URL of the storage.
    pub endpoint: Option<String>,
    /// Region of the storage.
    pub region: Option<String>,
    /// File with the access keys for the bucket.
    pub credentials: Option<PathBuf>,
}

/// Public key of age (`age1...`), to which a backup is encrypted. The identity with its private key decrypts the
/// backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupRecipient(pub(crate) age::x25519::Recipient);

impl FromStr for BackupRecipient {
    type Err = String;

    fn from_str(text: &str) -> Result<BackupRecipient, String> {
        // The error omits the text, because the operator may have entered a private key by mistake.
        text.parse().map(BackupRecipient).map_err(|why| {
            format!(
                "this is no recipient of age, such as age-keygen prints (age1... with 62 characters): {why}"
            )
        })
    }
}

impl fmt::Display for BackupRecipient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl BackupPlace {
    /// Returns the folder; `None` for a bucket.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            BackupPlace::Folder(path) => Some(path),
            BackupPlace::Bucket(_) => None,
        }
    }

    /// Returns the file with the access keys for the bucket, if there is one.
    pub(crate) fn credentials(&self) -> Option<&Path> {
        match self {
            BackupPlace::Folder(_) => None,
            BackupPlace::Bucket(address) => address.credentials.as_deref(),
        }
    }
}

impl FromStr for BackupPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<BackupPlace, String> {
        let Some(address) = text.strip_prefix(BUCKET) else { return Ok(BackupPlace::Folder(text.into())) };
        let (bucket, prefix) = address.split_once('/').unwrap_or((address, ""));
        let prefix = prefix.trim_end_matches('/');
        let is_name = |part: &str, more: &str| {
            !matches!(part, "" | "." | "..")
                && part.chars().all(|letter| letter.is_ascii_alphanumeric() || more.contains(letter))
        };
        let has_prefix = prefix.is_empty() || prefix.split('/').all(|part| is_name(part, "-._=+@"));
        if !is_name(bucket, "-._") || !has_prefix {
            return Err(format!("{text} is no address of a bucket: write s3://BUCKET/PREFIX"));
        }
        Ok(BackupPlace::Bucket(BucketAddress {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
            endpoint: None,
            region: None,
            credentials: None,
        }))
    }
}

impl fmt::Display for BackupPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackupPlace::Folder(path) => path.display().fmt(formatter),
            BackupPlace::Bucket(address) => address.fmt(formatter),
        }
    }
}

impl fmt::Display for BucketAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        write!(formatter, "{BUCKET}{}{slash}{}", self.bucket, self.prefix)
    }
}

/// Settings of the backup that a server keeps up to date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupSettings {
    /// Place of the backup.
    pub place: BackupPlace,
    /// Interval at which new changes are added to the backup.
    pub interval: Duration,
    /// Age of a full backup at which a new full backup, with all entries, is made.
    pub full_after: Duration,
    /// Time for which earlier states can be restored; `None` for no limit.
    pub keep: Option<Duration>,
    /// Public keys to which the backup is encrypted; empty for no encryption.
    pub recipients: Vec<BackupRecipient>,
}

/// The table `[backup]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackupKeys {
    folder: Option<FromText<BackupPlace>>,
    minutes: Option<u64>,
    full_days: Option<u64>,
    keep_days: Option<u64>,
    endpoint: Option<String>,
    region: Option<String>,
    credentials_file: Option<PathBuf>,
    recipients: Option<Vec<FromText<BackupRecipient>>>,
}

impl BackupKeys {
    /// Returns the keys of the table that are paths.
    pub(crate) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let folder = match &mut self.folder {
            Some(FromText(BackupPlace::Folder(path))) => Some(path),
            _ => None,
        };
        folder.into_iter().chain(&mut self.credentials_file)
    }

    /// Returns the settings. Without a folder, there is no backup.
    ///
    /// # Errors
    /// The table has other keys but no folder, or keys of a bucket although the folder is in the file system, or too
    /// many recipients.
    pub(crate) fn settings(self) -> Result<Option<BackupSettings>, ConfigError> {
        let has_others =
            self.minutes.or(self.full_days).or(self.keep_days).is_some() || self.recipients.is_some();
        let is_bucket = self.endpoint.is_some() || self.region.is_some() || self.credentials_file.is_some();
        let place = match self.folder {
            None if has_others || is_bucket => {
                return Err(ConfigError::Idle { table: "backup", needs: "folder" });
            }
            None => return Ok(None),
            Some(FromText(BackupPlace::Folder(_))) if is_bucket => {
                return Err(ConfigError::Idle {
                    table: "backup",
                    needs: "folder of the form s3://BUCKET/PREFIX",
                });
            }
            Some(FromText(BackupPlace::Bucket(address))) => BackupPlace::Bucket(BucketAddress {
                endpoint: self.endpoint,
                region: self.region,
                credentials: self.credentials_file,
                ..address
            }),
            Some(FromText(folder)) => folder,
        };
        let recipients = self.recipients.into_iter().flatten().map(|FromText(recipient)| recipient);
        let recipients = limited(recipients.collect())?;
        let time = |value: Option<u64>, default: u64, unit| {
            Duration::from_secs(value.unwrap_or(default).max(1).saturating_mul(unit))
        };
        Ok(Some(BackupSettings {
            place,
            interval: time(self.minutes, 15, MINUTE),
            full_after: time(self.full_days, 7, DAY),
            keep: self.keep_days.filter(|days| *days > 0).map(|days| time(Some(days), 0, DAY)),
            recipients,
        }))
    }
}

/// Returns the recipients unless there are too many for the header of a file.
///
/// # Errors
/// There are too many recipients.
pub(crate) fn limited(recipients: Vec<BackupRecipient>) -> Result<Vec<BackupRecipient>, ConfigError> {
    match recipients.len() {
        count if count > BACKUP_RECIPIENTS_MAX => Err(ConfigError::TooManyRecipients(count)),
        _ => Ok(recipients),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backup_table_sets_the_place_and_the_interval() {
        let settings = |text: &str| toml::from_str::<BackupKeys>(text).unwrap().settings();
        assert_eq!(settings("").unwrap(), None);
        for alone in ["minutes = 5", "full_days = 5", "keep_days = 0", "region = \"x\""] {
            assert!(
                settings(alone).unwrap_err().to_string().contains("[backup] of the node file has no folder")
            );
        }
        let usual = settings("folder = \"b\"").unwrap().unwrap();
        assert_eq!(
            (usual.interval, usual.full_after),
            (Duration::from_secs(900), Duration::from_secs(7 * DAY))
        );
        assert_eq!((usual.place, usual.keep), (BackupPlace::Folder("b".into()), None));
        let stated = settings("folder = \"b\"\nminutes = 0\nfull_days = 1\nkeep_days = 2").unwrap().unwrap();
        assert_eq!((stated.interval, stated.full_after), (Duration::from_secs(60), Duration::from_secs(DAY)));
        assert_eq!(stated.keep, Some(Duration::from_secs(2 * DAY)));
        assert_eq!(settings("folder = \"b\"\nkeep_days = 0").unwrap().unwrap().keep, None);
        assert!(toml::from_str::<BackupKeys>("folders = \"b\"").is_err());
    }

    #[test]
    fn recipients_are_public_keys_of_age() {
        let key = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";
        let settings =
            |keys: &str| toml::from_str::<BackupKeys>(&format!("folder = \"b\"\nrecipients = {keys}"));
        let read = settings(&format!("[\"{key}\"]")).unwrap().settings().unwrap().unwrap();
        assert_eq!(read.recipients.iter().map(ToString::to_string).collect::<Vec<_>>(), [key]);
        let secret = "AGE-SECRET-KEY-1GQ9778VQXMMJVE8SK7J6VT8UJ4HDQAJUVSFCWCM02D8GEWQ72PVQ2Y5J33";
        for wrong in [&key[1..], &key[..60], "", secret, "ssh-ed25519 AAAA"] {
            let error = wrong.parse::<BackupRecipient>().unwrap_err();
            assert!(error.contains("no recipient of age") && !error.contains("GQ9778"), "{error}");
        }
        let many = vec![format!("\"{key}\""); BACKUP_RECIPIENTS_MAX + 1].join(",");
        let error = settings(&format!("[{many}]")).unwrap().settings().unwrap_err().to_string();
        assert!(error.contains("at most 50"), "{error}");
        assert!(toml::from_str::<BackupKeys>("recipients = []").unwrap().settings().is_err(), "no folder");
    }

    #[test]
    fn bucket_settings_require_a_valid_bucket_address() {
        let settings = |text: &str| toml::from_str::<BackupKeys>(text).unwrap().settings();
        let text =
            "folder = \"s3://b/a/p/\"\nendpoint = \"https://s3\"\nregion = \"r\"\ncredentials_file = \"c\"";
        let place = settings(text).unwrap().unwrap().place;
        assert_eq!((place.to_string(), place.folder()), ("s3://b/a/p".to_owned(), None));
        assert_eq!(place.credentials(), Some(Path::new("c")));
        let text = settings("folder = \"b\"\nendpoint = \"https://s3\"").unwrap_err().to_string();
        assert!(text.contains("s3://BUCKET/PREFIX"), "{text}");
        assert_eq!("s3://b".parse::<BackupPlace>().unwrap().to_string(), "s3://b");
        for wrong in
            ["s3://", "s3:///p", "s3://b//p", "s3://b/../p", "s3://b/a b", "s3://b?x=1", "s3://b/p#x"]
        {
            assert!(
                wrong.parse::<BackupPlace>().unwrap_err().contains("write s3://BUCKET/PREFIX"),
                "{wrong}"
            );
        }
    }
}
