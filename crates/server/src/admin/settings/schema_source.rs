//! Sources of schemas in the setting `schema_files`: a file, or a folder such as `slapd.d` with files at any depth.

use std::path::{Path, PathBuf};

use directory::limits::SCHEMA_NAME_MAX;

/// Maximum depth to which folders are searched.
const DEPTH_MAX: usize = 8;

/// File in `slapd.d` with slapd's built-in definitions. The reader skips this file.
const SLAPD_OWN: &str = "cn=schema.ldif";

/// First line of the entry with slapd's built-in definitions in a dump of `cn=config`.
const SLAPD_OWN_DN: &str = "dn: cn=schema,cn=config";

/// A schema file and its text.
#[derive(Debug)]
pub(super) struct SchemaSource {
    pub(super) path: PathBuf,
    pub(super) text: String,
    /// Whether the file is not UTF-8 and was read as ISO 8859-1.
    pub(super) is_latin_1: bool,
}

/// Reads a schema file, or all schema files in and below a folder in the order of their paths. If the path does not
/// exist, but a built-in schema file has the same file name, reads the built-in file.
///
/// # Errors
/// A file or folder cannot be read, or a folder has no schema files. The error is a sentence that contains the path.
pub(super) fn read(path: &Path) -> Result<Vec<SchemaSource>, String> {
    let name = path.file_name().and_then(std::ffi::OsStr::to_str);
    let built_in = schema::named_files().find(|(known, _)| Some(*known) == name);
    if let Some((_, text)) = built_in.filter(|_| !path.exists()) {
        return Ok(vec![SchemaSource { path: path.to_owned(), text: text.to_owned(), is_latin_1: false }]);
    }
    if !path.is_dir() {
        return Ok(vec![read_file(path)?]);
    }
    let mut files = Vec::new();
    find(path, 0, &mut files)?;
    if files.is_empty() {
        return Err(format!("{} has no file with the ending .schema or .ldif", path.display()));
    }
    files.iter().map(|file| read_file(file)).collect()
}

fn unreadable(path: &Path, error: &std::io::Error) -> String {
    format!("cannot read {}: {error}", path.display())
}

fn find(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = std::fs::read_dir(folder).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    let entries = entries.map_err(|error| unreadable(folder, &error))?;
    let mut paths: Vec<PathBuf> = entries.iter().map(std::fs::DirEntry::path).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() && depth < DEPTH_MAX {
            find(&path, depth + 1, files)?;
        } else if path.file_name().is_some_and(|name| name == SLAPD_OWN) {
        } else if path.extension().is_some_and(|ending| ending == "schema" || ending == "ldif") {
            files.push(path);
        }
    }
    Ok(())
}

fn read_file(path: &Path) -> Result<SchemaSource, String> {
    let bytes = std::fs::read(path).map_err(|error| unreadable(path, &error))?;
    let path = path.to_owned();
    Ok(match String::from_utf8(bytes) {
        Ok(text) => SchemaSource { path, text: without_own(text), is_latin_1: false },
        // In ISO 8859-1, each octet is the code point of a character.
        Err(error) => {
            let text = error.into_bytes().into_iter().map(char::from).collect();
            SchemaSource { path, text, is_latin_1: true }
        }
    })
}

/// Returns a text without slapd's built-in definitions. Their lines become empty, so that the numbers of other lines do
/// not change.
fn without_own(text: String) -> String {
    let is_own = |line: &str| line.trim_end().eq_ignore_ascii_case(SLAPD_OWN_DN);
    if !text.lines().any(is_own) {
        return text;
    }
    let mut is_inside = false;
    let mut remaining = String::with_capacity(text.len());
    for line in text.lines() {
        is_inside = is_own(line) || (is_inside && !line.trim_end().is_empty());
        if !is_inside {
            remaining.push_str(line);
        }
        remaining.push('\n');
    }
    remaining
}

/// Returns a free name for the text of a file. It is the name of the file without its extension, and without a prefix
/// such as `cn={1}` in `slapd.d`. Characters other than ASCII letters, digits, hyphens and underscores become hyphens.
/// If the name is already used, a number is added.
pub(super) fn name_of(path: &Path, is_free: &dyn Fn(&str) -> bool) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let stem = stem.strip_prefix("cn=").unwrap_or(&stem);
    let numbered = stem.strip_prefix('{').and_then(|rest| rest.split_once('}'));
    let stem = numbered.map_or(stem, |(_, name)| name);
    let is_kept = |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
    let name: String = stem
        .chars()
        .map(|character| if is_kept(character) { character } else { '-' })
        .take(SCHEMA_NAME_MAX - "-9999".len())
        .collect();
    let name = if name.is_empty() { "schema".to_owned() } else { name };
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.clone()).chain(numbered).find(|name| is_free(name)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a dump of `cn=config` in one file was refused, because slapd's own definitions contradict the
    /// definitions of the schema `monitor`.
    #[test]
    fn definitions_of_slapd_itself_are_removed() {
        let dump = "dn: cn=config\ncn: config\n\ndn: cn=schema,cn=config\nolcAttributeTypes: ( 1.2\n  )\n\n\
                    dn: cn={0}core,cn=schema,cn=config\nolcAttributeTypes: {0}( 1.3 )\n";
        let remaining = "dn: cn=config\ncn: config\n\n\n\n\n\ndn: cn={0}core,cn=schema,cn=config\n\
                    olcAttributeTypes: {0}( 1.3 )\n";
        assert_eq!(without_own(dump.to_owned()), remaining);
        assert_eq!(without_own(remaining.to_owned()), remaining);
    }

    #[test]
    fn names_schema_texts_after_their_files() {
        for (path, expected) in [
            ("a/nis.schema", "nis"),
            ("99user.ldif", "99user"),
            ("kerberos.openldap.ldif", "kerberos-openldap"),
            ("slapd.d/cn=config/cn=schema/cn={5}own things.ldif", "own-things"),
            ("cn=schema.ldif", "schema"),
            (".schema", "-schema"),
        ] {
            assert_eq!(name_of(Path::new(path), &|_| true), expected, "{path}");
        }
        assert_eq!(name_of(Path::new("a.ldif"), &|name| name != "a" && name != "a-2"), "a-3");
        assert!(name_of(Path::new(&"x".repeat(99)), &|_| true).len() <= SCHEMA_NAME_MAX);
    }
}
