//! The audit trail: its contents, place and retention. They form the table `[audit]` of the node file.

use std::path::PathBuf;
use std::str::FromStr;

use audit::Kind;
use serde::Deserialize;

use crate::config::ConfigError;
use crate::config::values::{ChoiceError, DnText, FromText, choose};

const MIB: u64 = 1 << 20;

/// Settings of a node's audit trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditSettings {
    /// Folder of the audit trail; `None` if there is no audit trail.
    pub folder: Option<PathBuf>,
    /// Kinds of events to record.
    pub what: Kinds,
    /// Operations that are not recorded.
    pub except: Vec<AuditRule>,
    /// Values to record for a change.
    pub values: AuditValues,
    /// Behavior if the audit trail cannot keep up with the events, or if its disk is full.
    pub overload: Overload,
    /// Size in bytes at which a new segment begins.
    pub segment_bytes: u64,
    /// Age in hours at which a new segment begins.
    pub segment_hours: u64,
    /// Maximum total size of all segments in octets; 0 for no maximum. Above this size, the oldest complete segments
    /// are removed.
    pub keep_bytes: u64,
    /// Maximum age of old segments to retain, in days; 0 for any age.
    pub keep_days: u64,
}

impl Default for AuditSettings {
    fn default() -> AuditSettings {
        AuditSettings {
            folder: None,
            what: Kinds::all(),
            except: Vec::new(),
            values: AuditValues::None,
            overload: Overload::Hold,
            segment_bytes: 256 * MIB,
            segment_hours: 24,
            keep_bytes: 0,
            keep_days: 0,
        }
    }
}

/// A set of kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(u64);

impl Kinds {
    /// Returns the set of all kinds.
    pub fn all() -> Kinds {
        Kinds(u64::MAX)
    }

    fn of(kinds: &[Kind]) -> Kinds {
        Kinds(kinds.iter().fold(0, |all, &kind| all | 1 << kind as u8))
    }

    /// Returns true if the set contains a kind.
    pub fn contains(self, kind: Kind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    fn with(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }
}

/// The groups of kinds that [`AuditSettings::what`] may name.
const GROUPS: [(&str, &[Kind]); 6] = [
    ("binds", &[Kind::Bind, Kind::Unbind]),
    ("reads", &[Kind::Search, Kind::Compare, Kind::Abandon]),
    ("changes", &[Kind::Modify, Kind::Add, Kind::Delete, Kind::ModifyDn]),
    ("extended", &[Kind::Extended]),
    ("connections", &[Kind::Opened, Kind::Closed, Kind::Tls]),
    ("administration", &[Kind::Administration]),
];

/// Kinds of events, parsed from the name of a group in [`GROUPS`] or from the name of one kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KindGroup(Kinds);

impl FromStr for KindGroup {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<KindGroup, ChoiceError> {
        let group = GROUPS.iter().find(|(name, _)| *name == text).map(|(_, kinds)| Kinds::of(kinds));
        let kind = Kind::named(text).map(|kind| Kinds::of(&[kind]));
        group.or(kind).map(KindGroup).ok_or_else(|| {
            let choices = "binds, reads, changes, extended, connections, administration, or one operation";
            ChoiceError::new(text, choices)
        })
    }
}

/// Exception for operations. An operation that meets all conditions is not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRule {
    /// Kinds of the operations.
    pub what: Kinds,
    /// Bases of subtrees. The requester's entry must be in one of these subtrees. If the list is empty, the rule
    /// applies to any requester.
    pub who: Vec<DnText>,
    /// Bases of subtrees. The target entry must be in one of these subtrees. If the list is empty, the rule applies to
    /// any target.
    pub targets: Vec<DnText>,
}

/// Values that the audit trail records for a change. Secret values are never recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditValues {
    /// Names of the attributes only.
    #[default]
    None,
    /// New values.
    New,
    /// New and removed values.
    All,
}

impl FromStr for AuditValues {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<AuditValues, ChoiceError> {
        let values = [("none", AuditValues::None), ("new", AuditValues::New), ("all", AuditValues::All)];
        choose(text, "none, new or all", &values)
    }
}

/// Behavior if the audit trail cannot keep up with the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overload {
    /// Requests wait.
    #[default]
    Hold,
    /// Requests continue. The audit trail records how many events are missing.
    Count,
}

impl FromStr for Overload {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<Overload, ChoiceError> {
        choose(text, "hold or count", &[("hold", Overload::Hold), ("count", Overload::Count)])
    }
}

/// The table `[audit]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuditKeys {
    pub(crate) folder: Option<PathBuf>,
    what: Option<Vec<FromText<KindGroup>>>,
    except: Option<Vec<RuleKeys>>,
    values: Option<FromText<AuditValues>>,
    overload: Option<FromText<Overload>>,
    segment_bytes: Option<u64>,
    segment_hours: Option<u64>,
    keep_bytes: Option<u64>,
    keep_days: Option<u64>,
}

/// An element of `audit.except`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleKeys {
    what: Option<Vec<FromText<KindGroup>>>,
    who: Option<Vec<FromText<DnText>>>,
    targets: Option<Vec<FromText<DnText>>>,
}

/// Minimum of `segment_bytes`. Smaller segments would consist mostly of headers and anchors.
const SEGMENT_BYTES_MIN: u64 = 65_536;

impl AuditKeys {
    /// Returns the settings. Without a folder, there is no audit trail.
    ///
    /// # Errors
    /// There are other keys, but no folder.
    pub(crate) fn settings(self) -> Result<AuditSettings, ConfigError> {
        let has_more = self.what.is_some()
            || self.except.is_some()
            || self.values.is_some()
            || self.overload.is_some()
            || [self.segment_bytes, self.segment_hours, self.keep_bytes, self.keep_days]
                .iter()
                .any(Option::is_some);
        if self.folder.is_none() && has_more {
            return Err(ConfigError::Idle { table: "audit", needs: "folder" });
        }
        let defaults = AuditSettings::default();
        let kinds = |groups: Option<Vec<FromText<KindGroup>>>| match groups {
            None => Kinds::all(),
            Some(groups) => groups.iter().fold(Kinds(0), |all, group| all.with(group.0.0)),
        };
        let names = |names: Option<Vec<FromText<DnText>>>| {
            names.into_iter().flatten().map(|name| name.0).collect::<Vec<_>>()
        };
        let rule = |rule: RuleKeys| AuditRule {
            what: kinds(rule.what),
            who: names(rule.who),
            targets: names(rule.targets),
        };
        Ok(AuditSettings {
            folder: self.folder,
            what: kinds(self.what),
            except: self.except.into_iter().flatten().map(rule).collect(),
            values: self.values.map(|values| values.0).unwrap_or_default(),
            overload: self.overload.map(|overload| overload.0).unwrap_or_default(),
            segment_bytes: self.segment_bytes.unwrap_or(defaults.segment_bytes).max(SEGMENT_BYTES_MIN),
            segment_hours: self.segment_hours.unwrap_or(defaults.segment_hours).max(1),
            keep_bytes: self.keep_bytes.unwrap_or(0),
            keep_days: self.keep_days.unwrap_or(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_audit_table_selects_the_recorded_operations() {
        let text = "folder = \"trail\"\nwhat = [\"binds\", \"delete\"]\nvalues = \"new\"\noverload = \"count\"\n\
                    except = [{ what = [\"reads\"], who = [\"cn=monitor\"], targets = [\"dc=example\"] }]\n\
                    segment_bytes = 1\n";
        let keys: AuditKeys = toml::from_str(text).unwrap();
        let settings = keys.settings().unwrap();
        assert_eq!(settings.folder, Some(PathBuf::from("trail")));
        for (kind, expected) in [(Kind::Bind, true), (Kind::Delete, true), (Kind::Add, false)] {
            assert_eq!(settings.what.contains(kind), expected, "{kind:?}");
        }
        assert_eq!((settings.values, settings.overload), (AuditValues::New, Overload::Count));
        assert!(settings.except[0].what.contains(Kind::Search));
        assert!(!settings.except[0].what.contains(Kind::Bind));
        assert_eq!(settings.segment_bytes, SEGMENT_BYTES_MIN);
        assert_eq!(AuditKeys::default().settings().unwrap(), AuditSettings::default());
        let alone: AuditKeys = toml::from_str("keep_days = 3").unwrap();
        assert!(alone.settings().unwrap_err().to_string().contains("[audit] of the node file has no folder"));
        for wrong in
            ["what = [\"everything\"]", "overload = \"drop\"", "folders = 1", "except = [{ whom = [] }]"]
        {
            assert!(toml::from_str::<AuditKeys>(wrong).is_err(), "{wrong}");
        }
    }
}
