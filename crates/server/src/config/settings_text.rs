//! The text of a settings file: TOML with the keys of [`GENERAL`], `suffixes`, `schema_files`, and the tables
//! `[indexes]` and `[schema]`.
//!
//! The text is parsed to a tree in which each item has its position. Therefore problems that are found later, in the
//! schema or in the directory, are also reported with line numbers. All problems are reported, not only the first one.
//! No text causes a panic.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use directory::DirectorySettings;
use directory::index::IndexKinds;
use directory::settings::{GENERAL, GeneralSetting, SettingPath, SettingValue};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::mistakes::nearest;
use crate::config::node_file::{is_node_key, line_of};

/// Maximum size of an accepted text, in octets.
pub const TEXT_SIZE_MAX: usize = 8 << 20;

/// Settings read from a text, with their line numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsText {
    /// The settings that the text states.
    pub settings: DirectorySettings,
    lines: BTreeMap<SettingPath, usize>,
}

/// Problem in the text of a settings file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct TextProblem {
    /// The line, counted from 1.
    pub line: usize,
    /// Description of the problem, and of valid input.
    pub what: String,
    /// Name of the schema file in which the problem is, and the line in that file.
    pub in_schema: Option<(String, usize)>,
}

/// Function that reads the schema texts at a path. It returns each text with its name in the settings, or the reason
/// why the path cannot be read.
pub type ReadSchema<'r> = dyn FnMut(&str) -> Result<Vec<(String, String)>, String> + 'r;

impl SettingsText {
    /// Returns true if the text states the suffixes. Otherwise the default suffix is used.
    pub fn names_suffixes(&self) -> bool {
        self.lines.contains_key(&SettingPath::Key("suffixes".to_owned()))
    }

    /// Returns the name of the schema file that contains a place, and the line number in that file. Returns `None` if
    /// the schema text is part of the settings file.
    fn schema_file(&self, place: &SettingPath) -> Option<(String, usize)> {
        let SettingPath::Line(key, line) = place else { return None };
        let is_inline = self.lines.contains_key(&SettingPath::Line(key.clone(), 1));
        key.strip_prefix("schema.").filter(|_| !is_inline).map(|name| (name.to_owned(), *line))
    }

    /// Returns the line of a setting. If the text does not contain the setting, returns the line of its table, or line
    /// 1 if there is no table.
    pub fn line(&self, place: &SettingPath) -> usize {
        let line = |place: &SettingPath| self.lines.get(place).copied();
        if let Some(line) = line(place) {
            return line;
        }
        match place {
            SettingPath::Key(key) => {
                let table = key.split_once('.').map(|(table, _)| SettingPath::Key(table.to_owned()));
                table.and_then(|table| line(&table)).unwrap_or(1)
            }
            SettingPath::Member(key, _) => self.line(&SettingPath::Key(key.clone())),
            // For a schema text in the settings file, only the line on which the text begins is recorded.
            SettingPath::Line(key, number) => match line(&SettingPath::Line(key.clone(), 1)) {
                Some(first) => first + number.saturating_sub(1),
                None => self.line(&SettingPath::Key(key.clone())),
            },
        }
    }
}

/// Parses the text of a settings file.
///
/// # Errors
/// The text has problems. The error lists them together with contradictory settings. If the text has no other problems,
/// contradictory settings are not an error here, and the caller must check for them with
/// [`directory::settings::check()`].
pub fn parse(text: &str, read_schema: &mut ReadSchema<'_>) -> Result<SettingsText, Vec<TextProblem>> {
    if text.len() > TEXT_SIZE_MAX {
        let what =
            format!("{} octets are more than the {TEXT_SIZE_MAX} that a settings file may have", text.len());
        return Err(vec![TextProblem { line: 1, what, in_schema: None }]);
    }
    let document = DeTable::parse(text).map_err(|error| {
        let line = line_of(text, error.span().map_or(0, |span| span.start));
        vec![TextProblem { line, what: error.message().to_owned(), in_schema: None }]
    })?;
    let mut reading = Reading {
        text,
        read: SettingsText { settings: DirectorySettings::default(), lines: BTreeMap::new() },
        problems: Vec::new(),
        has_schema: true,
        read_schema,
    };
    reading.document(document.get_ref());
    reading.check_rest();
    let Reading { read, mut problems, .. } = reading;
    problems.sort_by_key(|problem| problem.line);
    if problems.is_empty() { Ok(read) } else { Err(problems) }
}

/// State of parsing a text.
struct Reading<'t, 'r, 's> {
    text: &'t str,
    read: SettingsText,
    problems: Vec<TextProblem>,
    /// Whether all schema texts could be read.
    has_schema: bool,
    read_schema: &'r mut ReadSchema<'s>,
}

type Key<'t> = Spanned<toml::de::DeString<'t>>;
type Value<'t> = Spanned<DeValue<'t>>;

impl Reading<'_, '_, '_> {
    fn document(&mut self, document: &DeTable<'_>) {
        for (key, value) in document {
            let name = key.get_ref().as_ref();
            self.note(SettingPath::Key(name.to_owned()), key.span().start);
            match name {
                "suffixes" => {
                    if let Some(dns) = self.texts("suffixes", value, "[\"dc=example,dc=com\"]") {
                        self.read.settings.suffixes = dns;
                    }
                }
                "schema_files" | "schema" => {
                    let before = self.problems.len();
                    match name {
                        "schema" => self.schema_texts(value),
                        _ => self.schema_files(value),
                    }
                    self.has_schema &= self.problems.len() == before;
                }
                "indexes" => self.indexes(value),
                "limits" => self.limits(value),
                _ => self.general(name, key, value),
            }
        }
    }

    fn general(&mut self, name: &str, key: &Key<'_>, value: &Value<'_>) {
        let Some(setting) = GeneralSetting::of_key(name).filter(|setting| !setting.key.contains('.')) else {
            return self.unknown(name, key);
        };
        self.set(setting, value);
    }

    fn limits(&mut self, value: &Value<'_>) {
        let Some(table) = self.table("limits", value) else { return };
        for (key, value) in table {
            let name = format!("limits.{}", key.get_ref());
            self.note(SettingPath::Key(name.clone()), key.span().start);
            match GeneralSetting::of_key(&name) {
                Some(setting) => self.set(setting, value),
                None => self.unknown(&name, key),
            }
        }
    }

    fn set(&mut self, setting: &GeneralSetting, value: &Value<'_>) {
        let place = value.span().start;
        let result = match value.get_ref() {
            DeValue::Boolean(on) => Ok(SettingValue::Switch(*on)),
            DeValue::Integer(number) => match u64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => Ok(SettingValue::Number(number)),
                // A number that is too large or negative is passed on as a word. The setting refuses the word with its
                // own message.
                Err(_) => Ok(SettingValue::Word(number.to_string())),
            },
            DeValue::String(word) => Ok(SettingValue::Word(word.to_string())),
            DeValue::Array(_) => {
                let Some(words) = self.texts(setting.key, value, "[\"member\"]") else { return };
                Ok(SettingValue::Words(words))
            }
            other => Err(format!("{} does not fit here", kind(other))),
        };
        let set = result.and_then(|value| setting.set(&mut self.read.settings.general, value));
        if let Err(what) = set {
            self.problem(place, format!("{}: {what}", setting.key));
        }
    }

    fn indexes(&mut self, value: &Value<'_>) {
        let Some(table) = self.table("indexes", value) else { return };
        // The table `[indexes]` replaces all indexes.
        self.read.settings.indexes.clear();
        for (key, value) in table {
            let attribute = key.get_ref().to_string();
            self.note(SettingPath::Key(format!("indexes.{attribute}")), key.span().start);
            let members: Vec<&Value<'_>> = match value.get_ref() {
                DeValue::Array(members) => members.iter().collect(),
                _ => vec![value],
            };
            let mut kinds = IndexKinds::NONE;
            for member in members {
                let parsed = match member.get_ref() {
                    DeValue::String(text) => text.parse::<IndexKinds>(),
                    other => Err(format!("{} is no kind of index: write [\"equality\"]", kind(other))),
                };
                match parsed {
                    Ok(more) => kinds = kinds.with(more),
                    Err(what) => self.problem(member.span().start, what),
                }
            }
            self.read.settings.indexes.insert(attribute, kinds);
        }
    }

    fn schema_texts(&mut self, value: &Value<'_>) {
        let Some(table) = self.table("schema", value) else { return };
        for (key, value) in table {
            let name = key.get_ref().to_string();
            self.note(SettingPath::Key(format!("schema.{name}")), key.span().start);
            let DeValue::String(text) = value.get_ref() else {
                let what = format!(
                    "{} is no text of definitions: write {name} = '''...''', or name a file in schema_files",
                    kind(value.get_ref())
                );
                self.problem(value.span().start, what);
                continue;
            };
            self.note(
                SettingPath::Line(format!("schema.{name}"), 1),
                first_line_at(self.text, value.span().start),
            );
            self.add_schema(name, text.to_string(), key.span().start);
        }
    }

    fn schema_files(&mut self, value: &Value<'_>) {
        let Some(paths) = self.texts("schema_files", value, "[\"local.schema\"]") else { return };
        let DeValue::Array(members) = value.get_ref() else { return };
        for (path, member) in paths.iter().zip(members) {
            let place = member.span().start;
            match (self.read_schema)(path) {
                Ok(texts) => {
                    for (name, text) in texts {
                        self.note(SettingPath::Key(format!("schema.{name}")), place);
                        self.add_schema(name, text, place);
                    }
                }
                Err(what) => self.problem(place, what),
            }
        }
    }

    fn add_schema(&mut self, name: String, text: String, place: usize) {
        if self.read.settings.schema.contains_key(&name) {
            let what = format!(
                "there is a schema text {name} already: a file is called by its name without its ending"
            );
            return self.problem(place, what);
        }
        self.read.settings.schema.insert(name, text);
    }

    /// Reads a list of strings.
    fn texts(&mut self, key: &str, value: &Value<'_>, example: &str) -> Option<Vec<String>> {
        let DeValue::Array(members) = value.get_ref() else {
            let what = format!("{key} is a list of texts such as {example}, not {}", kind(value.get_ref()));
            self.problem(value.span().start, what);
            return None;
        };
        let mut texts = Vec::new();
        for (number, member) in members.iter().enumerate() {
            self.note(SettingPath::Member(key.to_owned(), number), member.span().start);
            match member.get_ref() {
                DeValue::String(text) => texts.push(text.to_string()),
                other => {
                    let what = format!(
                        "{key} is a list of texts such as {example}, with no {} in it",
                        bare_kind(other)
                    );
                    self.problem(member.span().start, what);
                }
            }
        }
        (texts.len() == members.len()).then_some(texts)
    }

    fn table<'v, 'd>(&mut self, key: &str, value: &'v Value<'d>) -> Option<&'v DeTable<'d>> {
        match value.get_ref() {
            DeValue::Table(table) => Some(table),
            other => {
                self.problem(
                    value.span().start,
                    format!("{key} is a table: write [{key}], not {}", kind(other)),
                );
                None
            }
        }
    }

    fn unknown(&mut self, name: &str, key: &Key<'_>) {
        let valid_keys: Vec<&str> = ["suffixes", "schema_files"]
            .into_iter()
            .chain(GENERAL.iter().map(|setting| setting.key))
            .chain(["indexes", "schema"])
            .collect();
        let what = if is_node_key(name) {
            format!("{name} belongs to one machine: it is said in the node file of `pando serve --node`")
        } else {
            let nearest = nearest(name, valid_keys.iter().copied());
            let nearest = nearest.map(|key| format!("the nearest is {key}; ")).unwrap_or_default();
            format!("unknown key {name}: {nearest}there are {}", valid_keys.join(", "))
        };
        self.problem(key.span().start, what);
    }

    /// Checks the settings that could be read even if there are problems already, so that one run reports all problems.
    /// A setting that could not be read has its default here, so it causes no contradiction. The check is skipped if
    /// part of the schema is missing, because names that the missing part defines would be reported as unknown.
    fn check_rest(&mut self) {
        if self.problems.is_empty() || !self.has_schema {
            return;
        }
        let found = directory::settings::check(&self.read.settings).err().unwrap_or_default();
        for problem in found {
            let line = self.read.line(&problem.place);
            let in_schema = self.read.schema_file(&problem.place);
            if in_schema.is_some() || self.problems.iter().all(|known| known.line != line) {
                self.problems.push(TextProblem { line, what: problem.what, in_schema });
            }
        }
    }

    fn note(&mut self, place: SettingPath, offset: usize) {
        let line = line_of(self.text, offset);
        self.read.lines.insert(place, line);
    }

    fn problem(&mut self, offset: usize, what: String) {
        let line = line_of(self.text, offset);
        self.problems.push(TextProblem { line, what, in_schema: None });
    }
}

/// Returns the offset of the first line of the string at `start`. TOML ignores a newline directly after three quotes.
fn first_line_at(text: &str, start: usize) -> usize {
    let value = text.get(start..).unwrap_or_default();
    let rest = value.strip_prefix("'''").or_else(|| value.strip_prefix("\"\"\""));
    match rest {
        Some(rest) if rest.starts_with('\n') => start + 4,
        Some(rest) if rest.starts_with("\r\n") => start + 5,
        _ => start,
    }
}

/// Returns the type of a TOML value, for messages.
fn kind(value: &DeValue<'_>) -> String {
    match bare_kind(value) {
        kind @ "integer" => format!("an {kind}"),
        kind => format!("a {kind}"),
    }
}

fn bare_kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "integer",
        DeValue::Float(_) => "fraction",
        DeValue::Boolean(_) => "switch",
        DeValue::Datetime(_) => "time",
        DeValue::Array(_) => "list",
        DeValue::Table(_) => "table",
    }
}

/// Returns these settings as the text of a settings file.
pub fn write(settings: &DirectorySettings) -> String {
    let mut text = String::from(
        "# Settings of a Pando directory: `pando plan FILE` says what they would change, `pando apply FILE` puts them \
         in\n\
         # force. What is left out has its default.\n\n",
    );
    // Writing to a string cannot fail.
    let _ = write_settings(settings, &mut text);
    text
}

/// Maximum size of a list that is written on one line, in octets.
const LINE_MAX: usize = 70;

fn write_settings(settings: &DirectorySettings, text: &mut String) -> std::fmt::Result {
    writeln!(text, "# the trees that the directory holds\nsuffixes = {}\n", list(&settings.suffixes))?;
    let (in_table, outside): (Vec<_>, Vec<_>) = GENERAL.iter().partition(|setting| setting.key.contains('.'));
    for setting in outside {
        let value = setting.value(&settings.general);
        writeln!(text, "# {}", setting.help)?;
        if setting.key == "access_rules" && settings.general.access_rules.is_empty() {
            let rules = directory::access::default_rules(settings.general.anonymous_read);
            writeln!(text, "# as if these were written:")?;
            rules.iter().try_for_each(|rule| writeln!(text, "#   {},", quoted(rule)))?;
        }
        writeln!(text, "{} = {}\n", setting.key, value_text(&value))?;
    }
    writeln!(text, "[limits]")?;
    for setting in in_table {
        let value = setting.value(&settings.general);
        let name = setting.key.rsplit('.').next().unwrap_or_default();
        writeln!(text, "# {}\n{name} = {}", setting.help, value_text(&value))?;
    }
    writeln!(text, "\n# exactly these are kept, and what each answers\n[indexes]")?;
    for (attribute, kinds) in &settings.indexes {
        let names = kinds.to_string();
        let names = names.split(',').filter(|_| !kinds.is_none());
        let names: Vec<String> = names.map(str::to_owned).collect();
        writeln!(text, "{} = {}", key_text(attribute), list(&names))?;
    }
    writeln!(text, "\n# definitions besides the shipped ones\n[schema]")?;
    for (name, definitions) in &settings.schema {
        writeln!(text, "{} = {}", key_text(name), long_text(definitions))?;
    }
    Ok(())
}

fn value_text(value: &SettingValue) -> String {
    match value {
        SettingValue::Switch(on) => on.to_string(),
        SettingValue::Number(number) => number.to_string(),
        SettingValue::Word(word) => quoted(word),
        SettingValue::Words(words) => list(words),
    }
}

/// Formats a list as TOML. A long list has one member per line.
fn list(words: &[String]) -> String {
    if words.len() > 1 && words.iter().map(String::len).sum::<usize>() > LINE_MAX {
        let lines: String = words.iter().map(|word| format!("  {},\n", quoted(word))).collect();
        return format!("[\n{lines}]");
    }
    format!("[{}]", words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(", "))
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Formats a key as TOML. In contrast to a value, a key must be on one line.
fn key_text(name: &str) -> String {
    let line = toml::Table::from_iter([(name.to_owned(), toml::Value::Boolean(true))]).to_string();
    line.trim_end().strip_suffix(" = true").unwrap_or_default().to_owned()
}

/// Formats a text of several lines as TOML, without escapes if TOML allows that.
fn long_text(text: &str) -> String {
    let is_plain = |letter: char| letter == '\n' || letter == '\t' || !letter.is_control();
    if text.contains('\n') && !text.contains("'''") && !text.ends_with('\'') && text.chars().all(is_plain) {
        return format!("'''\n{text}'''");
    }
    quoted(text)
}
