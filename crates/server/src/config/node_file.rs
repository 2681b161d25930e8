//! The node file: its keys, and errors with their lines.

use std::fmt::Display;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use directory::ListenerName;
use directory::bind::RequesterLimits;
use directory::settings::GENERAL;
use ipnet::IpNet;
use ldap::ServerUrl;
use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::audit::AuditKeys;
use crate::config::backup::BackupKeys;
use crate::config::cluster::ClusterKeys;
use crate::config::console::ConsoleKeys;
use crate::config::follow::FollowKeys;
use crate::config::kerberos::KerberosKeys;
use crate::config::limit_tables::{ConnectionsLimit, LimitTable, LimitedWho, StatedLimits};
use crate::config::mail::MailKeys;
use crate::config::metrics::MetricsKeys;
use crate::config::mistakes::explained;
use crate::config::pass_through::PassThroughKeys;
use crate::config::replica::ReplicaKeys;
use crate::config::scim::ScimKeys;
use crate::config::traces::TraceKeys;
use crate::config::values::{
    DnText, FromText, LogFormat, LogLevel, OneOrMore, Percent, TlsNeed, TlsVersion, WeakestBind,
};
use crate::config::{BadPasswordFiles, ConfigError};

/// Content of a node file. The names of the fields are the keys of the file. `docs/how-to/configure.md` explains them.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NodeFile {
    pub(crate) data: Option<PathBuf>,
    #[serde(rename = "listen")]
    listen_texts: Option<Vec<Spanned<String>>>,
    #[serde(skip)]
    pub(crate) listen: Vec<ServerUrl>,
    #[serde(rename = "listener")]
    pub(crate) listeners: Vec<ListenerKeys>,
    pub(crate) weakest_bind: Option<FromText<WeakestBind>>,
    #[serde(rename = "limit")]
    pub(crate) limit_tables: Vec<LimitTableKeys>,
    pub(crate) threads: Option<NonZeroUsize>,
    pub(crate) hash_threads: Option<NonZeroUsize>,
    pub(crate) scan_threads: Option<usize>,
    pub(crate) read_ahead_threads: Option<usize>,
    pub(crate) row_cache_bytes: Option<usize>,
    pub(crate) warm_up_bytes: Option<u64>,
    pub(crate) request_memory_bytes: Option<usize>,
    pub(crate) admin_dn: Option<FromText<DnText>>,
    pub(crate) admin_password_file: Option<PathBuf>,
    pub(crate) user: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) idle_timeout_seconds: Option<u64>,
    pub(crate) transaction_timeout_seconds: Option<u64>,
    pub(crate) first_request_seconds: Option<u64>,
    pub(crate) bind_cache_seconds: Option<u64>,
    pub(crate) trusted_networks: Option<Vec<IpNet>>,
    pub(crate) proxy_networks: Option<Vec<IpNet>>,
    pub(crate) limits: LimitKeys,
    pub(crate) log: LogKeys,
    pub(crate) tls: TlsKeys,
    pub(crate) bad_passwords: BadPasswordFiles,
    pub(crate) audit: AuditKeys,
    pub(crate) backup: BackupKeys,
    pub(crate) metrics: MetricsKeys,
    pub(crate) traces: TraceKeys,
    pub(crate) console: ConsoleKeys,
    pub(crate) scim: Option<ScimKeys>,
    pub(crate) mail: Option<MailKeys>,
    pub(crate) oauth: OauthKeys,
    pub(crate) kerberos: KerberosKeys,
    pub(crate) pass_through: PassThroughKeys,
    pub(crate) follow: OneOrMore<FollowKeys>,
    pub(crate) replica: Option<ReplicaKeys>,
    pub(crate) cluster: Option<ClusterKeys>,
}

/// The table `[oauth]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OauthKeys {
    pub(crate) issuer: Option<String>,
    pub(crate) audience: Option<String>,
    pub(crate) keys: Option<PathBuf>,
    pub(crate) claim: Option<String>,
    pub(crate) clock_skew_seconds: Option<u32>,
}

/// A table `[[listener]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListenerKeys {
    /// Required. The value is `None` only if the file has problems. These problems are reported.
    pub(crate) url: Option<FromText<ServerUrl>>,
    pub(crate) name: Option<FromText<ListenerName>>,
    pub(crate) tls_needed_for: Option<FromText<TlsNeed>>,
    pub(crate) clear_networks: Option<Vec<IpNet>>,
    pub(crate) weakest_bind: Option<FromText<WeakestBind>>,
}

/// A table `[[limit]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitTableKeys {
    /// Required. The value is `None` only if the file has problems. These problems are reported.
    #[serde(rename = "for")]
    who: Option<Vec<FromText<LimitedWho>>>,
    size: Option<u32>,
    time_seconds: Option<u32>,
    examined: Option<u64>,
    scan_share: Option<Percent>,
    outstanding: Option<NonZeroUsize>,
    message_size: Option<NonZeroUsize>,
    idle_seconds: Option<u64>,
    connections: Option<NonZeroUsize>,
    slow_reader_bytes: Option<NonZeroUsize>,
}

impl From<LimitTableKeys> for LimitTable {
    fn from(keys: LimitTableKeys) -> LimitTable {
        let LimitTableKeys { who, size, time_seconds, examined, scan_share, .. } = keys;
        let who: Arc<[LimitedWho]> = who.unwrap_or_default().into_iter().map(|who| who.0).collect();
        let connections = keys.connections.map(NonZeroUsize::get);
        let limits = StatedLimits {
            search: RequesterLimits {
                size,
                time_seconds,
                examined,
                scan_share: scan_share.map(|share| share.0),
            },
            outstanding: keys.outstanding.map(NonZeroUsize::get),
            message_size: keys.message_size.map(NonZeroUsize::get),
            idle: keys.idle_seconds.map(Duration::from_secs),
            slow_reader_bytes: keys.slow_reader_bytes.map(NonZeroUsize::get),
            connections: connections
                .map(|connections_max| ConnectionsLimit { connections_max, who: Arc::clone(&who) }),
        };
        LimitTable { who, limits }
    }
}

/// The table `[limits]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitKeys {
    pub(crate) connections: Option<NonZeroUsize>,
    pub(crate) connections_per_address: Option<NonZeroUsize>,
    pub(crate) connects_per_second: Option<NonZeroUsize>,
    pub(crate) outstanding: Option<NonZeroUsize>,
    pub(crate) persistent_searches: Option<NonZeroUsize>,
    pub(crate) persistent_searches_share: Option<NonZeroUsize>,
    pub(crate) message_size: Option<NonZeroUsize>,
    pub(crate) message_size_unauthenticated: Option<NonZeroUsize>,
}

/// The table `[log]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogKeys {
    pub(crate) level: Option<FromText<LogLevel>>,
    pub(crate) format: Option<FromText<LogFormat>>,
    pub(crate) file: Option<PathBuf>,
    pub(crate) operations: Option<bool>,
    pub(crate) slow_milliseconds: Option<u32>,
    pub(crate) slow_values: Option<bool>,
}

/// The table `[tls]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TlsKeys {
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) client_authorities: Option<PathBuf>,
    pub(crate) client_certificates_required: Option<bool>,
    pub(crate) minimum_version: Option<FromText<TlsVersion>>,
    pub(crate) clear_networks: Option<Vec<IpNet>>,
    pub(crate) needed_for: Option<FromText<TlsNeed>>,
}

/// Returns true if `name` is a key of the node file. A key of the table `[limits]` must have the prefix `limits.`.
pub(crate) fn is_node_key(name: &str) -> bool {
    match name.strip_prefix("limits.") {
        Some(key) => keys_of::<LimitKeys>().contains(&key),
        None => keys_of::<NodeFile>().contains(&name),
    }
}

/// Returns the keys of a table. serde passes them to the deserializer as the names of the expected fields.
fn keys_of<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    let mut keys: &[&str] = &[];
    // The result is ignored, because this deserializer always fails. It has stored the names.
    let _ = T::deserialize(FieldNames(&mut keys));
    keys
}

/// Deserializer that stores the names of the requested fields and then fails.
struct FieldNames<'n>(&'n mut &'static [&'static str]);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(Self::Error::custom("there are only names"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl NodeFile {
    /// Reads a node file.
    ///
    /// # Errors
    /// The file cannot be read, or is not a valid node file.
    pub(crate) fn read(path: &Path) -> Result<NodeFile, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::Read { file: path.to_owned(), error })?;
        NodeFile::parse(&text, path)
    }

    /// Parses the text of a node file. Relative paths in it are relative to the folder of the file, not to the working
    /// directory.
    pub(crate) fn parse(text: &str, path: &Path) -> Result<NodeFile, ConfigError> {
        let error_at =
            |offset, what| ConfigError::File { file: path.to_owned(), line: line_of(text, offset), what };
        let mut problems = problems(text);
        let parsed: Result<NodeFile, _> = toml::from_str(text);
        let mut file = match parsed {
            Ok(file) if problems.is_empty() => file,
            Ok(_) => NodeFile::default(),
            Err(error) => {
                // For a text that is not TOML, `problems` returns nothing. In that case the error of the TOML library
                // is reported.
                if problems.is_empty() {
                    problems.push((error.span().map_or(0, |span| span.start), error.message().to_owned()));
                }
                NodeFile::default()
            }
        };
        file.listen = parse_list(file.listen_texts.as_deref(), |_, _| {});
        problems.sort();
        let mut errors: Vec<_> = problems.into_iter().map(|(offset, what)| error_at(offset, what)).collect();
        match errors.len() {
            0 => {}
            1 => return Err(errors.remove(0)),
            _ => return Err(ConfigError::Several(errors)),
        }
        let directory = path.parent().unwrap_or(Path::new(""));
        let tls = &mut file.tls;
        let own = [&mut file.data, &mut file.admin_password_file, &mut file.log.file];
        let paths = own.into_iter().chain([&mut tls.certificate, &mut tls.key, &mut tls.client_authorities]);
        let lists = &mut file.bad_passwords;
        let paths = paths.chain([
            &mut lists.words,
            &mut lists.breached,
            &mut file.audit.folder,
            &mut file.metrics.token_file,
            &mut file.traces.header_file,
        ]);
        let paths = paths.chain([
            &mut file.oauth.keys,
            &mut file.pass_through.authorities,
            &mut file.pass_through.saslauthd,
            &mut file.kerberos.keytab,
        ]);
        let paths = paths.flatten().chain(file.cluster.iter_mut().flat_map(ClusterKeys::paths));
        let paths = paths.chain(file.follow.0.iter_mut().flat_map(FollowKeys::paths));
        let paths = paths.chain(file.replica.iter_mut().flat_map(ReplicaKeys::paths));
        let paths = paths.chain(file.mail.iter_mut().flat_map(MailKeys::paths));
        for path in paths.chain(file.backup.paths()) {
            *path = directory.join(&*path);
        }
        Ok(file)
    }
}

/// Returns all problems with the keys in a text, each with its offset in octets. Returns none for a text that is not
/// TOML, because reading the file reports that error.
fn problems(text: &str) -> Vec<(usize, String)> {
    let Ok(document) = DeTable::parse(text) else { return Vec::new() };
    let mut problems = Vec::new();
    for (key, value) in document.get_ref() {
        let name = key.get_ref().as_ref();
        match (name, value.get_ref()) {
            (
                "limits" | "log" | "tls" | "bad_passwords" | "audit" | "backup" | "metrics" | "traces"
                | "console" | "scim" | "mail" | "oauth" | "kerberos" | "cluster" | "pass_through" | "follow"
                | "replica",
                DeValue::Table(inner),
            ) => {
                problems.extend(problems_within(text, name, &format!("[{name}]\n"), inner));
            }
            ("listener" | "limit" | "follow", DeValue::Array(tables)) => {
                let (needed, what) = match name {
                    "listener" => ("url", "a listener needs its url"),
                    "follow" => ("url", "a source to follow needs its url"),
                    _ => ("for", "a limit needs to say whom it is for"),
                };
                for table in tables {
                    let DeValue::Table(inner) = table.get_ref() else { continue };
                    problems.extend(problems_within(text, name, &format!("[[{name}]]\n"), inner));
                    if !inner.iter().any(|(key, _)| key.get_ref() == needed) {
                        problems.push((table.span().start, what.to_owned()));
                    }
                }
            }
            _ => problems.extend(problem(text, name, "", key.span(), value.span())),
        }
    }
    problems
}

/// Returns the problems with the keys inside a table.
fn problems_within(text: &str, name: &str, table: &str, inner: &DeTable<'_>) -> Vec<(usize, String)> {
    let problem = |(key, value): (&Spanned<_>, &Spanned<_>)| {
        let full = format!("{name}.{}", key.get_ref());
        problem(text, &full, table, key.span(), value.span())
    };
    inner.iter().flat_map(problem).collect()
}

/// Returns the problems with the value of one key. Finds them by reading a node file with only this key.
fn problem(
    text: &str,
    name: &str,
    table: &str,
    key: Range<usize>,
    value: Range<usize>,
) -> Vec<(usize, String)> {
    let is_general = GENERAL.iter().any(|setting| setting.key == name);
    if is_general || matches!(name, "suffixes" | "schema_files") {
        let what = format!(
            "{name} is a setting of the directory, the same on all its nodes: say it in a settings file and put that \
             in force with `pando apply FILE` (docs/how-to/configure.md)"
        );
        return vec![(key.start, what)];
    }
    let text = text.get(key.start..value.end.max(key.end)).unwrap_or_default();
    let mut problems = Vec::new();
    let mut report = |offset: usize, what| {
        problems.push((key.start + offset.saturating_sub(table.len()), what));
    };
    match toml::from_str::<NodeFile>(&format!("{table}{text}")) {
        Ok(file) => {
            parse_list::<ServerUrl>(file.listen_texts.as_deref(), report);
        }
        Err(error) => report(error.span().map_or(0, |span| span.start), explained(name, error.message())),
    }
    problems
}

/// Returns the line of an offset in a text, counted from 1.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
}

/// Returns the valid values of a list. Reports a problem for each other value, with its offset in octets.
fn parse_list<T: FromStr<Err: Display>>(
    list: Option<&[Spanned<String>]>,
    mut report: impl FnMut(usize, String),
) -> Vec<T> {
    let mut parse = |member: &Spanned<String>| {
        let parsed = member.as_ref().parse();
        parsed.map_err(|error: T::Err| report(member.span().start, error.to_string())).ok()
    };
    list.unwrap_or_default().iter().filter_map(&mut parse).collect()
}

#[cfg(test)]
mod tests {
    use directory::settings::GENERAL;

    use super::*;

    #[test]
    fn every_key_is_documented() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/settings.md");
        let page = std::fs::read_to_string(page).unwrap();
        let tables = [
            ("audit", keys_of::<AuditKeys>()),
            ("backup", keys_of::<BackupKeys>()),
            ("bad_passwords", keys_of::<BadPasswordFiles>()),
            ("cluster", keys_of::<ClusterKeys>()),
            ("console", keys_of::<ConsoleKeys>()),
            ("follow", keys_of::<FollowKeys>()),
            ("kerberos", keys_of::<KerberosKeys>()),
            ("limit", keys_of::<LimitTableKeys>()),
            ("limits", keys_of::<LimitKeys>()),
            ("listener", keys_of::<ListenerKeys>()),
            ("log", keys_of::<LogKeys>()),
            ("mail", keys_of::<MailKeys>()),
            ("metrics", keys_of::<MetricsKeys>()),
            ("oauth", keys_of::<OauthKeys>()),
            ("pass_through", keys_of::<PassThroughKeys>()),
            ("replica", keys_of::<ReplicaKeys>()),
            ("scim", keys_of::<ScimKeys>()),
            ("tls", keys_of::<TlsKeys>()),
            ("traces", keys_of::<TraceKeys>()),
        ];
        for key in keys_of::<NodeFile>() {
            // The page `docs/how-to/configure.md` must explain each key of a table.
            let keys = match tables.iter().find(|(table, _)| table == key) {
                Some((_, keys)) => keys.iter().map(|inner| format!("`{key}.{inner}`")).collect(),
                None => vec![format!("`{key}`")],
            };
            assert!(!keys.is_empty(), "{key}");
            for key in keys {
                assert!(page.contains(&key), "{key}");
            }
        }
        // `docs/how-to/configure.md` must not explain a key that does not exist. `house settings` compares messages
        // with that page.
        let heads = page.lines().filter_map(|line| line.strip_prefix("- `")?.split_once("`"));
        for (table, name) in heads.filter_map(|(key, _)| key.split_once('.')) {
            let is_key = tables.iter().any(|(of, keys)| *of == table && keys.contains(&name));
            let is_general = GENERAL.iter().any(|setting| setting.key == format!("{table}.{name}"));
            assert!(is_key || is_general, "{table}.{name}");
        }
    }

    #[test]
    fn relative_paths_are_resolved_from_the_folder_of_the_file() {
        let text = "data = \"data\"\nadmin_password_file = \"/password\"\n[log]\nfile = \"log\"";
        let file = NodeFile::parse(text, Path::new("/etc/pando/node.toml")).unwrap();
        assert_eq!(file.data.unwrap(), Path::new("/etc/pando/data"));
        assert_eq!(file.admin_password_file.unwrap(), Path::new("/password"));
        assert_eq!(file.log.file.unwrap(), Path::new("/etc/pando/log"));
    }

    #[test]
    fn errors_name_the_line_and_the_cause() {
        let check = |text: &str, line: usize, part: &str| match NodeFile::parse(text, Path::new("node.toml"))
        {
            Err(ConfigError::File { line: found, what, .. }) => {
                assert_eq!(found, line, "{text:?}: {what}");
                assert!(what.contains(part), "{text:?}: {what}");
            }
            other => panic!("{text:?}: {other:?}"),
        };
        check("data = \"a\"\nlisen = []\n", 2, "unknown field `lisen`");
        check("\n[limits]\nsize = 3\n", 3, "unknown field `size`");
        check("threads = 0\n", 1, "nonzero");
        check("threads = \"two\"\n", 1, "invalid type");
        check("data = \n", 1, "");
        check("\n\nlisten = [\"http://x\"]\n", 3, "ldap://");
        check("listen = [\n  \"ldap://localhost\",\n  \"nonsense\",\n]\n", 3, "nonsense");
        check("\nadmin_dn = \"x\"\n", 2, "\"x\" is no DN");
        check("[log]\nlevel = \"loud\"\n", 2, "loud");
        let first = "[[listener]]\nurl = \"ldap://:389\"\n[[listener]]\n";
        check(&format!("{first}weakest_bind = \"proof\"\n"), 3, "needs its url");
        check(&format!("{first}url = \"http://x\"\n"), 4, "ldap://");
        check(&format!("{first}url = \"ldap://\"\nweakest = 1\n"), 5, "unknown field `weakest`");
        check(
            &format!("{first}url = \"ldap://\"\nweakest_bind = \"simple\"\n"),
            5,
            "anonymous, password, proof",
        );
        let source = "[[follow]]\nurl = \"ldap://localhost\"\n";
        check(&format!("{source}[[follow]]\nbase = \"o=a\"\n"), 3, "needs its url");
        check(&format!("{source}bases = \"o=a\"\n"), 3, "unknown field `bases`: the nearest is `base`");
        check("[follow]\nurl = \"http://x\"\n", 2, "ldap://");
        check("[[limit]]\nsize = 3\n", 1, "whom it is for");
        check("[[limit]]\nfor = [\"unknown\"]\nsize = 3\n", 2, "write anonymous, users, a DN");
        check("[[limit]]\nfor = [\"users\"]\nsizes = 3\n", 3, "unknown field `sizes`");
        // All problems are reported at once.
        let text = "lisen = []\nthreads = 0\nlisten = [\"nonsense\", \"http://x\"]\nsuffixes = []\n\
                    [tls]\nneeded_for = \"nothing\"\nkey = 1\n[limits]\nsize_limit = 3\n";
        let errors = NodeFile::parse(text, Path::new("node.toml")).unwrap_err().to_string();
        let lines: Vec<_> = errors.split("\npando: ").map(|line| line.split(':').nth(1).unwrap()).collect();
        assert_eq!(lines, ["1", "2", "3", "3", "4", "6", "7", "9"], "{errors}");
        // Earlier releases accepted these keys in the node file. Now they are settings of the directory.
        check("\nsuffixes = [\"o=x\"]\n", 2, "suffixes is a setting of the directory");
        check("threads = 1\nanonymous_read = true\n", 2, "`pando apply FILE`");
        check(
            "[limits]\nconnections = 3\nsize_limit = 3\n",
            3,
            "limits.size_limit is a setting of the directory",
        );
    }
}
