//! Declaration files: TOML with the key `owner` and the tables `[[entry]]` and `[[group]]`.

use std::path::{Path, PathBuf};

use data_encoding::BASE64;
use directory::password;
use ldap::Dn;
use server::config::nearest;
use server::{ConfigError, ServeError};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Maximum length of the name of an owner, in characters.
const OWNER_LENGTH_MAX: usize = 64;

/// Keys at the top level of a file.
const FILE_KEYS: [&str; 3] = ["owner", "entry", "group"];

type Value<'t> = Spanned<DeValue<'t>>;

/// Content of a declaration file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Declarations {
    pub(super) owner: String,
    pub(super) entries: Vec<DeclaredEntry>,
}

/// A declared entry. Attributes that the declaration does not contain stay as they are.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DeclaredEntry {
    pub(super) file: PathBuf,
    pub(super) line: usize,
    pub(super) dn: String,
    /// Whether to take over an existing entry without an owner.
    pub(super) adopt: bool,
    pub(super) attributes: Vec<DeclaredAttribute>,
    /// Members of a group, by DN or short name; `None` if the declaration does not contain members.
    pub(super) members: Option<Vec<String>>,
    pub(super) is_group: bool,
}

/// A declared attribute with all its values.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DeclaredAttribute {
    pub(super) name: String,
    pub(super) values: Vec<DeclaredValue>,
}

/// A value that the declaration contains, or that is in another file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeclaredValue {
    pub(super) bytes: Vec<u8>,
    /// Path of the file that contains the value, as in the declaration; `None` if the declaration contains the value.
    /// Values of files are never printed.
    pub(super) source: Option<String>,
}

impl DeclaredValue {
    pub(super) fn text(text: &str) -> DeclaredValue {
        DeclaredValue { bytes: text.as_bytes().to_vec(), source: None }
    }
}

impl Declarations {
    /// Returns true if the file declares entries. Any other file is treated as a settings file.
    pub(super) fn are_in(path: &Path) -> bool {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        DeTable::parse(&text)
            .is_ok_and(|table| FILE_KEYS.iter().any(|key| table.get_ref().contains_key(*key)))
    }

    /// Reads a declaration file. Paths in the file are relative to the directory that contains the file.
    pub(super) fn read(path: &Path) -> Result<Declarations, ServeError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::Read { file: path.to_owned(), error })?;
        let mut reading = Reading { path, text: &text, problems: Vec::new() };
        let declarations = match DeTable::parse(&text) {
            Ok(document) => reading.document(document.get_ref()),
            Err(error) => {
                reading.problem(error.span().map_or(0, |span| span.start), error.message().to_owned());
                Declarations { owner: String::new(), entries: Vec::new() }
            }
        };
        match reading.problems.is_empty() {
            true => Ok(declarations),
            false => Err(ServeError::Settings(reading.problems)),
        }
    }
}

/// Returns the name of an attribute without options, in lower case.
pub(super) fn bare_name(description: &str) -> String {
    description.split(';').next().unwrap_or_default().to_ascii_lowercase()
}

struct Reading<'t> {
    path: &'t Path,
    text: &'t str,
    problems: Vec<ConfigError>,
}

impl Reading<'_> {
    fn document(&mut self, document: &DeTable<'_>) -> Declarations {
        let mut declarations = Declarations { owner: String::new(), entries: Vec::new() };
        for (key, value) in document {
            match key.get_ref().as_ref() {
                "owner" => declarations.owner = self.owner(value),
                "entry" => self.entries("entry", value, &mut declarations.entries),
                "group" => self.entries("group", value, &mut declarations.entries),
                other => {
                    let nearest = nearest(other, FILE_KEYS);
                    let nearest = nearest.map(|key| format!("the nearest is {key}; ")).unwrap_or_default();
                    let what =
                        format!("unknown key {other}: {nearest}there are owner, [[entry]] and [[group]]");
                    self.problem(key.span().start, what);
                }
            }
        }
        if !document.contains_key("owner") {
            self.problem(0, "the file names no owner: write owner = \"NAME\" at its beginning".to_owned());
        }
        declarations.entries.sort_by_key(|entry| entry.is_group);
        declarations
    }

    fn owner(&mut self, value: &Value<'_>) -> String {
        let is_fit = |name: &str| {
            (1..=OWNER_LENGTH_MAX).contains(&name.len())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
        };
        match value.get_ref() {
            DeValue::String(name) if is_fit(name) => name.to_string(),
            _ => {
                let what =
                    format!("owner is a text of 1 to {OWNER_LENGTH_MAX} letters, digits, `-`, `.` and `_`");
                self.problem(value.span().start, what);
                String::new()
            }
        }
    }

    fn entries(&mut self, kind: &str, value: &Value<'_>, entries: &mut Vec<DeclaredEntry>) {
        let DeValue::Array(members) = value.get_ref() else {
            return self
                .problem(value.span().start, format!("write [[{kind}]] before the keys of each {kind}"));
        };
        for member in members {
            match member.get_ref() {
                DeValue::Table(table) => {
                    entries.extend(self.entry(kind == "group", table, member.span().start))
                }
                _ => self
                    .problem(member.span().start, format!("write [[{kind}]] before the keys of each {kind}")),
            }
        }
    }

    fn entry(&mut self, is_group: bool, table: &DeTable<'_>, offset: usize) -> Option<DeclaredEntry> {
        let line = self.line_of(offset);
        let mut entry = DeclaredEntry {
            file: self.path.to_owned(),
            line,
            dn: String::new(),
            adopt: false,
            attributes: Vec::new(),
            members: None,
            is_group,
        };
        for (key, value) in table {
            let place = value.span().start;
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("dn", DeValue::String(dn)) => match Dn::parse(dn) {
                    Ok(parsed) if !parsed.is_empty() => entry.dn = dn.to_string(),
                    Ok(_) => self.problem(place, "the root DSE cannot be declared".to_owned()),
                    Err(error) => self.problem(place, format!("{dn} is no DN: {error}")),
                },
                ("dn", _) => {
                    self.problem(place, "dn is a text such as \"cn=wiki,dc=example,dc=com\"".to_owned())
                }
                ("adopt", DeValue::Boolean(adopt)) => entry.adopt = *adopt,
                ("adopt", _) => self.problem(place, "adopt is true or false".to_owned()),
                ("members", value) if is_group => entry.members = self.members(value, place),
                (name, _) => {
                    let values = self.values(name, value);
                    entry.attributes.push(DeclaredAttribute { name: name.to_owned(), values });
                }
            }
        }
        if !table.contains_key("dn") {
            self.problem(offset, "the entry has no dn".to_owned());
        }
        Some(entry).filter(|entry| !entry.dn.is_empty())
    }

    fn members(&mut self, value: &DeValue<'_>, place: usize) -> Option<Vec<String>> {
        let texts = match value {
            DeValue::Array(list) => {
                list.iter().map(|member| member.get_ref().as_str().map(str::to_owned)).collect()
            }
            _ => None,
        };
        if texts.is_none() {
            self.problem(place, "members is a list of names and DNs such as [\"anna\"]".to_owned());
        }
        texts
    }

    fn values(&mut self, name: &str, value: &Value<'_>) -> Vec<DeclaredValue> {
        let members = match value.get_ref() {
            DeValue::Array(members) => members.iter().collect(),
            _ => vec![value],
        };
        let mut values = Vec::new();
        for member in members {
            match self.value(name, member.get_ref()) {
                Ok(value) => values.push(value),
                Err(what) => self.problem(member.span().start, format!("{name}: {what}")),
            }
        }
        values
    }

    fn value(&self, name: &str, value: &DeValue<'_>) -> Result<DeclaredValue, String> {
        match value {
            DeValue::String(text) => {
                if bare_name(name) == "userpassword" && !password::is_hashed(text.as_bytes()) {
                    return Err("a password comes from a file: write { file = \"NAME\" }".to_owned());
                }
                Ok(DeclaredValue::text(text))
            }
            DeValue::Integer(number) => Ok(DeclaredValue::text(&number.to_string())),
            DeValue::Boolean(on) => Ok(DeclaredValue::text(if *on { "TRUE" } else { "FALSE" })),
            DeValue::Table(table) => self.table_value(table),
            _ => {
                Err("a value is a text, an integer, true, false, { file = \"NAME\" } or { base64 = \"...\" }"
                    .to_owned())
            }
        }
    }

    /// Reads a value from the file that the declaration names, or decodes a value in base64.
    fn table_value(&self, table: &DeTable<'_>) -> Result<DeclaredValue, String> {
        let mut members = table.iter().map(|(key, value)| (key.get_ref().as_ref(), value.get_ref().as_str()));
        match (members.next(), members.next()) {
            (Some(("file", Some(name))), None) => {
                let path = self.path.parent().unwrap_or(Path::new("")).join(name);
                let mut bytes = std::fs::read(&path)
                    .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
                // One newline at the end is removed, as in other files that contain a password.
                bytes.pop_if(|last| *last == b'\n');
                if bytes.is_empty() {
                    return Err(format!("{} is empty", path.display()));
                }
                Ok(DeclaredValue { bytes, source: Some(name.to_owned()) })
            }
            (Some(("base64", Some(text))), None) => {
                let bytes = BASE64.decode(text.as_bytes()).map_err(|error| format!("base64: {error}"))?;
                Ok(DeclaredValue { bytes, source: None })
            }
            _ => Err("write { file = \"NAME\" } or { base64 = \"...\" }".to_owned()),
        }
    }

    fn line_of(&self, offset: usize) -> usize {
        1 + self.text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
    }

    fn problem(&mut self, offset: usize, what: String) {
        let line = self.line_of(offset);
        self.problems.push(ConfigError::File { file: self.path.to_owned(), line, what });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Declarations, String> {
        let mut reading = Reading { path: Path::new("apps.toml"), text, problems: Vec::new() };
        let document = DeTable::parse(text).unwrap();
        let read = reading.document(document.get_ref());
        let problems: Vec<String> = reading.problems.iter().map(ToString::to_string).collect();
        if problems.is_empty() { Ok(read) } else { Err(problems.join("\n")) }
    }

    #[test]
    fn entries_and_groups_are_read() {
        let text = "owner = \"apps\"\n[[group]]\ndn = \"cn=g,o=a\"\nmembers = [\"anna\"]\n[[entry]]\n\
                    dn = \"cn=wiki,o=a\"\nuidNumber = 7\npwdLockout = true\ncn = [\"wiki\", { base64 = \"YQ==\" }]\n";
        let read = read(text).unwrap();
        assert_eq!(read.owner, "apps");
        let [entry, group] = read.entries.as_slice() else { panic!("{read:?}") };
        assert_eq!((entry.line, entry.is_group, group.is_group), (5, false, true), "groups come last");
        assert_eq!(group.members.as_deref(), Some(&["anna".to_owned()][..]));
        let mut values: Vec<(&str, Vec<&[u8]>)> = entry
            .attributes
            .iter()
            .map(|attribute| {
                let values = attribute.values.iter().map(|value| value.bytes.as_slice());
                (attribute.name.as_str(), values.collect())
            })
            .collect();
        values.sort_unstable();
        let expected: Vec<(&str, Vec<&[u8]>)> =
            vec![("cn", vec![b"wiki", b"a"]), ("pwdLockout", vec![b"TRUE"]), ("uidNumber", vec![b"7"])];
        assert_eq!(values, expected);
    }

    #[test]
    fn problems_name_their_line() {
        for (text, problem) in [
            ("[[entry]]\ndn = \"o=a\"", "apps.toml:1: the file names no owner"),
            ("owner = \"a b\"", "apps.toml:1: owner is a text"),
            ("owner = \"a\"\nentri = 1", "apps.toml:2: unknown key entri: the nearest is entry"),
            ("owner = \"a\"\n[entry]\ndn = \"o=a\"", "write [[entry]]"),
            ("owner = \"a\"\n[[entry]]\ncn = \"x\"", "apps.toml:2: the entry has no dn"),
            ("owner = \"a\"\n[[entry]]\ndn = \"x\"", "apps.toml:3: x is no DN"),
            (
                "owner = \"a\"\n[[entry]]\ndn = \"o=a\"\nuserPassword = \"x\"",
                "apps.toml:4: userPassword: a password",
            ),
            ("owner = \"a\"\n[[entry]]\ndn = \"o=a\"\ncn = { file = \"none\" }", "cannot read none"),
            ("owner = \"a\"\n[[entry]]\ndn = \"o=a\"\ncn = 1.5", "a value is a text"),
            ("owner = \"a\"\n[[group]]\ndn = \"o=a\"\nmembers = \"x\"", "members is a list"),
        ] {
            let problems = read(text).unwrap_err();
            assert!(problems.contains(problem), "{text}: {problems}");
        }
    }
}
