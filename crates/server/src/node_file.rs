//! The node file: its keys, and errors with the line they stand on.

use std::fmt::Display;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use directory::password::StorageScheme;
use ldap::ServerUrl;
use serde::Deserialize;
use toml::Spanned;

use crate::config::ConfigError;
use crate::values::{DnText, FromText, LogLevel};

/// What a node file says. The names of the fields are the keys of the file; `docs/configure.md` explains them.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeFile {
    pub(crate) data: Option<PathBuf>,
    #[serde(rename = "listen")]
    listen_texts: Option<Vec<Spanned<String>>>,
    #[serde(skip)]
    pub(crate) listen: Vec<ServerUrl>,
    pub(crate) threads: Option<NonZeroUsize>,
    pub(crate) hash_threads: Option<NonZeroUsize>,
    pub(crate) scan_threads: Option<usize>,
    pub(crate) row_cache_bytes: Option<usize>,
    #[serde(rename = "suffixes")]
    suffix_texts: Option<Vec<Spanned<String>>>,
    #[serde(skip)]
    pub(crate) suffixes: Vec<DnText>,
    pub(crate) admin_dn: Option<FromText<DnText>>,
    pub(crate) admin_password_file: Option<PathBuf>,
    pub(crate) anonymous_read: Option<bool>,
    pub(crate) schema_files: Option<Vec<PathBuf>>,
    pub(crate) password_scheme: Option<FromText<StorageScheme>>,
    pub(crate) integrity_attributes: Option<Vec<String>>,
    pub(crate) idle_timeout_seconds: Option<u64>,
    #[serde(default)]
    pub(crate) limits: LimitKeys,
    #[serde(default)]
    pub(crate) log: LogKeys,
}

/// The table `[limits]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitKeys {
    pub(crate) connections: Option<NonZeroUsize>,
    pub(crate) outstanding: Option<NonZeroUsize>,
    pub(crate) message_size: Option<NonZeroUsize>,
    pub(crate) message_size_unauthenticated: Option<NonZeroUsize>,
    pub(crate) size_limit: Option<u32>,
    pub(crate) time_limit_seconds: Option<u32>,
    pub(crate) unindexed_examined: Option<u64>,
    pub(crate) log_records: Option<NonZeroU64>,
}

/// The table `[log]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogKeys {
    pub(crate) level: Option<FromText<LogLevel>>,
    pub(crate) file: Option<PathBuf>,
    pub(crate) operations: Option<bool>,
}

impl NodeFile {
    /// Reads a node file.
    ///
    /// # Errors
    /// It cannot be read, or does not say what a node file says.
    pub(crate) fn read(path: &Path) -> Result<NodeFile, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::Read { file: path.to_owned(), error })?;
        NodeFile::parse(&text, path)
    }

    /// Reads the text of a node file. Relative paths in it start at the file's own directory, so that it means the same
    /// wherever the server is started.
    pub(crate) fn parse(text: &str, path: &Path) -> Result<NodeFile, ConfigError> {
        let error_at =
            |offset, what| ConfigError::File { file: path.to_owned(), line: line_of(text, offset), what };
        let mut file: NodeFile = toml::from_str(text).map_err(|error| {
            error_at(error.span().map_or(0, |span| span.start), error.message().to_owned())
        })?;
        file.listen = parse_list(file.listen_texts.as_deref(), error_at)?;
        file.suffixes = parse_list(file.suffix_texts.as_deref(), error_at)?;
        let directory = path.parent().unwrap_or(Path::new(""));
        let paths = [&mut file.data, &mut file.admin_password_file, &mut file.log.file];
        for path in paths.into_iter().flatten().chain(file.schema_files.iter_mut().flatten()) {
            *path = directory.join(&*path);
        }
        Ok(file)
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
}

/// Reads the members of a list of texts. The place of a member in the file survives only this way: what a value's own
/// deserialization refuses is reported at the beginning of the list.
fn parse_list<T: FromStr<Err: Display>>(
    list: Option<&[Spanned<String>]>,
    error_at: impl Fn(usize, String) -> ConfigError,
) -> Result<Vec<T>, ConfigError> {
    let parse = |member: &Spanned<String>| {
        let parsed = member.as_ref().parse();
        parsed.map_err(|error: T::Err| error_at(member.span().start, error.to_string()))
    };
    list.unwrap_or_default().iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_start_at_the_file() {
        let text = "data = \"data\"\nschema_files = [\"a.schema\", \"/b.schema\"]\n[log]\nfile = \"log\"";
        let file = NodeFile::parse(text, Path::new("/etc/pando/node.toml")).unwrap();
        assert_eq!(file.data.unwrap(), Path::new("/etc/pando/data"));
        let schema_files = file.schema_files.unwrap();
        assert_eq!(schema_files, [Path::new("/etc/pando/a.schema"), Path::new("/b.schema")]);
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
        check("suffixes = [\n  \"dc=example,dc=com\",\n  \"nonsense\",\n]\n", 3, "nonsense");
        check("password_scheme = \"rot13\"\n", 1, "rot13");
        check("[log]\nlevel = \"loud\"\n", 2, "loud");
        check("anonymous_read = \"yes\"\n", 1, "boolean");
    }
}
