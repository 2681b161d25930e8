//! Settings of Pando while a workload runs. They come from a settings file, whose table `bench` has additional settings
//! for the run.

use serde::Deserialize;

use super::error::{WorkloadError, line_of};

/// Settings of Pando while a workload runs.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSettings {
    /// Name of the settings: the file's name without `.toml`.
    pub name: String,
    /// Directory-wide settings. They replace the settings of a comparison.
    pub settings: toml::Table,
    /// Entries that the settings need. Each entry has one line for each value.
    pub entries: Vec<String>,
    /// Settings of the node.
    pub node: toml::Table,
    /// Whether the clients of the load bind as a user, not as the administrator.
    pub user: bool,
}

/// The table `bench` of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct BenchTable {
    entries: Vec<String>,
    /// Whether an audit trail records every operation.
    audit: bool,
    node: toml::Table,
    user: bool,
}

impl RunSettings {
    /// Reads a file.
    ///
    /// # Errors
    /// The file is not TOML, or its table `bench` has an unknown key.
    pub fn parse(file: &str, text: &str) -> Result<RunSettings, WorkloadError> {
        let wrong = |error: toml::de::Error| {
            let line = error.span().map_or(0, |span| line_of(text, span.start));
            WorkloadError::new(file, line, error.message())
        };
        let mut settings: toml::Table = toml::from_str(text).map_err(wrong)?;
        let beside = settings.remove("bench").unwrap_or_else(|| toml::Table::new().into());
        let BenchTable { entries, audit, mut node, user } = beside.try_into().map_err(wrong)?;
        if audit {
            node.extend(RunSettings::audit());
        }
        let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
        let name = name.strip_suffix(".toml").unwrap_or(name).to_owned();
        Ok(RunSettings { name, settings, entries, node, user })
    }

    /// Returns the settings of a node for an audit trail of every operation.
    pub(crate) fn audit() -> toml::Table {
        let folder = toml::Table::from_iter([("folder".to_owned(), "audit".into())]);
        toml::Table::from_iter([("audit".to_owned(), folder.into())])
    }

    /// Returns the settings of a comparison, overridden by these settings.
    pub(crate) fn over(&self, mut base: toml::Table) -> toml::Table {
        for (name, value) in &self.settings {
            match (base.get_mut(name), value) {
                (Some(toml::Value::Table(known)), toml::Value::Table(more)) => known.extend(more.clone()),
                _ => drop(base.insert(name.clone(), value.clone())),
            }
        }
        base
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_settings_override_the_base_settings() {
        let text = "access_rules = [\"a: b\"]\n[limits]\nsize_limit = 5\n[bench]\naudit = true\n\
                    user = true\nentries = [\"dn: cn=a\\ncn: a\"]\n[bench.node]\nmetrics.listen = \"x\"\n";
        let read = RunSettings::parse("some/rules-50.toml", text).unwrap();
        assert_eq!((read.name.as_str(), read.user, read.entries.len()), ("rules-50", true, 1));
        let node: toml::Table = toml::from_str("audit.folder = \"audit\"\nmetrics.listen = \"x\"\n").unwrap();
        assert_eq!(read.node, node);
        let base: toml::Table = toml::from_str("a = 1\n[limits]\nsize_limit = 0\nother = 1\n").unwrap();
        let text = read.over(base).to_string();
        for line in ["a = 1", "access_rules", "size_limit = 5", "other = 1"] {
            assert!(text.contains(line), "{text}");
        }
        assert!(!text.contains("bench"), "{text}");
        let error = RunSettings::parse("x.toml", "[bench]\nrules = 5\n").unwrap_err().to_string();
        assert!(error.contains("x.toml") && error.contains("rules"), "{error}");
    }
}
