//! Place and interval of a server's own backups: the table `[backup]` of the node file.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::ConfigError;

const MINUTE: u64 = 60;
const DAY: u64 = 86_400;

/// Settings of the backup that a server keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupSettings {
    /// Its folder.
    pub folder: PathBuf,
    /// Interval at which new changes are added.
    pub interval: Duration,
    /// Time after which all entries are written again.
    pub full_after: Duration,
    /// Time for which points in time stay restorable; `None` for ever.
    pub keep: Option<Duration>,
}

/// The table `[backup]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackupKeys {
    pub(crate) folder: Option<PathBuf>,
    minutes: Option<u64>,
    full_days: Option<u64>,
    keep_days: Option<u64>,
}

impl BackupKeys {
    /// Returns the settings; without a folder there is no backup.
    ///
    /// # Errors
    /// There are other keys but no folder.
    pub(crate) fn settings(self) -> Result<Option<BackupSettings>, ConfigError> {
        let Some(folder) = self.folder else {
            return match (self.minutes, self.full_days, self.keep_days) {
                (None, None, None) => Ok(None),
                _ => Err(ConfigError::Idle { table: "backup", needs: "folder" }),
            };
        };
        let time = |value: Option<u64>, default: u64, unit| {
            Duration::from_secs(value.unwrap_or(default).max(1).saturating_mul(unit))
        };
        Ok(Some(BackupSettings {
            folder,
            interval: time(self.minutes, 15, MINUTE),
            full_after: time(self.full_days, 7, DAY),
            keep: self.keep_days.filter(|days| *days > 0).map(|days| time(Some(days), 0, DAY)),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_where_and_how_often() {
        let settings = |text: &str| toml::from_str::<BackupKeys>(text).unwrap().settings();
        assert_eq!(settings("").unwrap(), None);
        for alone in ["minutes = 5", "full_days = 5", "keep_days = 0"] {
            assert!(
                settings(alone).unwrap_err().to_string().contains("[backup] of the node file has no folder")
            );
        }
        let usual = settings("folder = \"b\"").unwrap().unwrap();
        assert_eq!(
            (usual.interval, usual.full_after),
            (Duration::from_secs(900), Duration::from_secs(7 * DAY))
        );
        assert_eq!((usual.folder, usual.keep), (PathBuf::from("b"), None));
        let stated = settings("folder = \"b\"\nminutes = 0\nfull_days = 1\nkeep_days = 2").unwrap().unwrap();
        assert_eq!((stated.interval, stated.full_after), (Duration::from_secs(60), Duration::from_secs(DAY)));
        assert_eq!(stated.keep, Some(Duration::from_secs(2 * DAY)));
        assert_eq!(settings("folder = \"b\"\nkeep_days = 0").unwrap().unwrap().keep, None);
        assert!(toml::from_str::<BackupKeys>("folders = \"b\"").is_err());
    }
}
