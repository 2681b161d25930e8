//! Reading the definitions of a schema file.
//!
//! The reader accepts two layouts, which may be mixed in one file:
//!
//! - **slapd.conf**: `attributetype ( ... )`, continued by lines that begin with white space; also
//!   `objectidentifier name oid`, which defines a macro;
//! - **LDIF**: `attributeTypes: ( ... )` of a subschema entry as in 389 DS, `olcAttributeTypes: {0}( ... )` of
//!   `cn=config`, possibly folded or in base64. Other attributes of the entry (`dn:`, `cn:`, `add:`) are skipped.
//!
//! Lines that begin with `#` are comments. A folded line of LDIF is continued after the first space of the next line,
//! so a line may end inside a word. In slapd.conf, the line break before a continuation line counts as white space.

use std::collections::{HashMap, HashSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::definition::{Definition, Kind, Macros, Mistake};
use crate::oid::is_numeric_oid;
use crate::{SchemaError, SchemaErrorKind};

/// A definition and its position.
#[derive(Debug, Clone)]
pub(crate) struct Located {
    pub(crate) definition: Definition,
    pub(crate) file: String,
    pub(crate) line: usize,
    /// Whether the definition is shipped. A definition from another file does not replace a shipped definition.
    pub(crate) shipped: bool,
}

/// Content of a file.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) definitions: Vec<Located>,
    pub(crate) errors: Vec<SchemaError>,
    /// Names and OIDs, in lower case, of definitions with a mistake.
    pub(crate) unread: Vec<String>,
}

impl Located {
    /// Returns a mistake at the first line of this definition.
    pub(crate) fn error(&self, kind: SchemaErrorKind) -> SchemaError {
        SchemaError { file: self.file.clone(), line: self.line, kind }
    }

    /// Returns `cn (core.schema:12)`, for messages about another definition.
    pub(crate) fn place(&self) -> String {
        format!("{} ({}:{})", self.definition.label(), self.file, self.line)
    }
}

/// Reads a file's text. Adds its macros to `macros`.
pub(crate) fn read(file: &str, text: &str, macros: &mut Macros) -> Read {
    let mut read = Read::default();
    for statement in statements(text) {
        match statement.definition(macros) {
            Ok(None) => {}
            Ok(Some(definition)) => {
                let line = statement.line_at(0);
                let located = Located { definition, file: file.to_owned(), line, shipped: false };
                read.definitions.push(located);
            }
            Err(mistake) => {
                let line = statement.line_at(mistake.offset);
                read.errors.push(SchemaError { file: file.to_owned(), line, kind: mistake.kind });
                read.unread.extend(statement.words());
            }
        }
    }
    read
}

/// A parsed definition. It is used to find copies of the definition in schema texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionRef {
    kind: Kind,
    oid: String,
    names: Vec<String>,
    /// The definition on one line, in the notation of RFC 4512.
    rendered: String,
}

impl DefinitionRef {
    /// Parses a value of an attribute of the subschema subentry; `None` if the attribute has no definitions.
    ///
    /// # Errors
    /// The value is not a definition.
    pub fn parse(attribute: &str, value: &str) -> Option<Result<DefinitionRef, SchemaErrorKind>> {
        let kind = kind_of(attribute)?;
        let parsed = Definition::parse(kind, value, &Macros::new()).map_err(|mistake| mistake.kind);
        Some(parsed.map(|definition| DefinitionRef {
            kind,
            oid: definition.oid.clone(),
            names: definition.many("NAME").to_vec(),
            rendered: definition.render(),
        }))
    }

    /// Returns the definition as a line of a schema text.
    pub fn line(&self, attribute: &str) -> String {
        format!("{attribute}: {}\n", self.rendered)
    }

    /// Returns the OID, or the number of a structure rule.
    pub fn oid(&self) -> &str {
        &self.oid
    }

    /// Returns true if both definitions have the same kind and OID.
    pub fn is_of(&self, other: &DefinitionRef) -> bool {
        self.key() == other.key()
    }

    /// Returns the key of the definition.
    fn key(&self) -> (Kind, String) {
        (self.kind, self.oid.to_ascii_lowercase())
    }
}

/// Set of the definitions in texts, by kind and OID.
#[derive(Debug, Default)]
pub struct DefinitionSet {
    keys: HashSet<(Kind, String)>,
    /// OIDs in lower case by names in lower case. May contain names of removed definitions.
    oids: HashMap<(Kind, String), String>,
}

impl DefinitionSet {
    /// Returns the definitions in these texts, which are read in order.
    pub fn of<'t>(texts: impl Iterator<Item = &'t String>) -> DefinitionSet {
        let (mut macros, mut set) = (Macros::new(), DefinitionSet::default());
        for statement in texts.flat_map(|text| statements(text)) {
            if let Ok(Some(definition)) = statement.definition(&mut macros) {
                set.add(definition.kind, &definition.oid, definition.many("NAME"));
            }
        }
        set
    }

    fn add(&mut self, kind: Kind, oid: &str, names: &[String]) -> bool {
        let oid = oid.to_ascii_lowercase();
        for name in names {
            self.oids.insert((kind, name.to_ascii_lowercase()), oid.clone());
        }
        self.keys.insert((kind, oid))
    }

    /// Returns a reference to the definition whose OID or name is the assertion value `value`
    /// (objectIdentifierFirstComponentMatch, RFC 4517 section 4.2.26; a structure rule is named by its number, section
    /// 4.2.14). If no definition matches, returns a reference with the value as its OID. Returns `None` if the value
    /// can be neither an OID nor a name, or the attribute has no definitions.
    pub fn named(&self, attribute: &str, value: &str) -> Option<DefinitionRef> {
        let (kind, word) = (kind_of(attribute)?, value.trim_ascii());
        let is_of_word =
            |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'.' | b'-' | b'_' | b';');
        if word.is_empty() || !word.bytes().all(is_of_word) {
            return None;
        }
        let key = (kind, word.to_ascii_lowercase());
        let oid = if self.keys.contains(&key) { None } else { self.oids.get(&key).cloned() };
        let oid = oid.unwrap_or_else(|| word.to_owned());
        Some(DefinitionRef { kind, oid, names: Vec::new(), rendered: String::new() })
    }

    /// Returns true if there are no definitions.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Adds a definition. Returns false if there is one of the same kind and OID.
    pub fn insert(&mut self, definition: &DefinitionRef) -> bool {
        self.add(definition.kind, &definition.oid, &definition.names)
    }

    /// Removes a definition. Returns true if it was present.
    pub fn remove(&mut self, definition: &DefinitionRef) -> bool {
        self.keys.remove(&definition.key())
    }

    /// Removes these definitions and their copies from texts, which are read in order.
    pub fn remove_from<'t>(&self, texts: impl Iterator<Item = &'t mut String>) {
        let mut macros = Macros::new();
        for text in texts {
            let mut lines = HashSet::new();
            for statement in statements(text) {
                let Ok(Some(definition)) = statement.definition(&mut macros) else { continue };
                if self.keys.contains(&(definition.kind, definition.oid.to_ascii_lowercase())) {
                    lines.extend(statement.lines.iter().map(|(_, line)| *line));
                }
            }
            if !lines.is_empty() {
                let kept = (1..).zip(text.split_inclusive('\n')).filter(|(line, _)| !lines.contains(line));
                *text = kept.map(|(_, line)| line).collect();
            }
        }
    }
}

/// Removes the definitions for which `is_left_out` returns true for their OID or a name. The texts are read in order.
/// Removed lines become empty, so that the numbers of other lines do not change.
pub fn leave_out<'t>(texts: impl Iterator<Item = &'t mut String>, is_left_out: &dyn Fn(&str) -> bool) {
    let mut macros = Macros::new();
    for text in texts {
        let mut lines = HashSet::new();
        for statement in statements(text) {
            let is_left = match statement.definition(&mut macros) {
                Ok(None) => continue,
                Ok(Some(definition)) => {
                    let names = definition.many("NAME").iter().chain([&definition.oid]);
                    names.map(String::as_str).any(is_left_out)
                }
                Err(_) => statement.words().any(|word| is_left_out(&word)),
            };
            if is_left {
                lines.extend(statement.lines.iter().map(|(_, line)| *line));
            }
        }
        if !lines.is_empty() {
            let kept =
                (1..).zip(text.lines()).map(|(line, kept)| if lines.contains(&line) { "" } else { kept });
            *text = kept.flat_map(|line| [line, "\n"]).collect();
        }
    }
}

/// One logical line.
struct Statement {
    text: String,
    /// Offset in `text` of each physical line, and its line number.
    lines: Vec<(usize, usize)>,
    ldif: bool,
}

fn statements(text: &str) -> Vec<Statement> {
    let mut statements: Vec<Statement> = Vec::new();
    // Whether the last line is a comment. Lines that begin with white space continue the comment.
    let mut is_comment = false;
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.trim_end_matches('\r');
        if line.starts_with('#') || line.trim_ascii().is_empty() {
            is_comment = line.starts_with('#');
            continue;
        }
        match statements.last_mut() {
            Some(statement) if line.starts_with([' ', '\t']) => {
                // Some files have comments inside definitions, so a comment does not end an incomplete definition.
                if is_comment && (statement.ldif || statement.is_whole()) {
                    continue;
                }
                let line = if statement.ldif { line.get(1..).unwrap_or_default() } else { line };
                statement.lines.push((statement.text.len(), index + 1));
                statement.text.push_str(line);
            }
            _ if is_comment && line.starts_with([' ', '\t']) => continue,
            _ => {
                let first_word = line.split_ascii_whitespace().next().unwrap_or_default();
                let ldif = first_word.contains(':') || first_word == "-";
                statements.push(Statement { text: line.to_owned(), lines: vec![(0, index + 1)], ldif });
            }
        }
        is_comment = false;
    }
    statements
}

impl Statement {
    /// Returns true if each opened bracket is closed.
    fn is_whole(&self) -> bool {
        let (mut depth, mut is_quoted) = (0_usize, false);
        for octet in self.text.bytes() {
            match octet {
                b'\'' => is_quoted = !is_quoted,
                b'(' if !is_quoted => depth += 1,
                b')' if !is_quoted => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        depth == 0
    }

    fn line_at(&self, offset: usize) -> usize {
        self.lines.iter().rev().find(|(start, _)| *start <= offset).map_or(1, |(_, line)| *line)
    }

    /// Returns the words that may name the definition, in lower case: its OID or macro, and all words in quotes.
    fn words(&self) -> impl Iterator<Item = String> {
        let inner = self.text.split_once('(').map_or("", |(_, inner)| inner);
        let oid = self
            .text
            .split_ascii_whitespace()
            .nth(1)
            .into_iter()
            .chain(inner.split_ascii_whitespace().next());
        oid.chain(inner.split('\'').skip(1).step_by(2)).map(str::to_ascii_lowercase)
    }

    /// Parses the statement's definition; returns `None` for a macro, or an LDIF line that is not a definition.
    fn definition(&self, macros: &mut Macros) -> Result<Option<Definition>, Mistake> {
        let text = self.text.trim_ascii_start();
        let skipped = self.text.len() - text.len();
        let end = text.find(|character: char| character == ':' || character.is_ascii_whitespace());
        let (keyword, value) = text.split_at(end.unwrap_or(text.len()));
        let offset = skipped + keyword.len();
        if self.ldif {
            return self.ldif_definition(keyword, value, offset, macros);
        }
        if keyword.eq_ignore_ascii_case("objectidentifier") {
            return define_macro(value, macros).map(|()| None).map_err(|kind| Mistake { offset: 0, kind });
        }
        match kind_of(keyword) {
            Some(kind) => parse_at(kind, value, offset, macros).map(Some),
            None => Err(Mistake { offset: 0, kind: SchemaErrorKind::UnknownDirective(keyword.to_owned()) }),
        }
    }

    fn ldif_definition(
        &self,
        keyword: &str,
        value: &str,
        offset: usize,
        macros: &mut Macros,
    ) -> Result<Option<Definition>, Mistake> {
        // `objectClass: top` is an attribute of the LDIF entry, and `objectClasses: (` is a definition.
        let name = keyword.strip_prefix("olc").unwrap_or(keyword);
        let kind = kind_of(name).filter(|_| !keyword.eq_ignore_ascii_case("objectClass"));
        let is_macro = name.eq_ignore_ascii_case("objectIdentifier");
        let decoded;
        let (value, value_offset) = match value.strip_prefix("::") {
            Some(encoded) if kind.is_some() || is_macro => {
                decoded = decode(encoded).ok_or(Mistake { offset, kind: SchemaErrorKind::NotBase64 })?;
                (decoded.as_str(), 0)
            }
            _ => (value.strip_prefix(':').unwrap_or(value), offset + 1),
        };
        let stripped = strip_order(value);
        let offset = value_offset + value.len() - stripped.len();
        if is_macro {
            return define_macro(stripped, macros).map(|()| None).map_err(|kind| Mistake { offset: 0, kind });
        }
        match kind {
            Some(kind) => parse_at(kind, stripped, offset, macros).map(Some),
            None if begins_definition(stripped) => {
                Err(Mistake { offset: 0, kind: SchemaErrorKind::UnknownDirective(keyword.to_owned()) })
            }
            None => Ok(None),
        }
    }
}

/// Returns true if a value begins like a definition. An `aci` has brackets too, but no OID in them.
fn begins_definition(value: &str) -> bool {
    let Some(inner) = value.strip_prefix('(') else { return false };
    let mut words = inner.split_ascii_whitespace();
    let is_named =
        |word: &str| matches!(word.to_ascii_uppercase().as_str(), "NAME" | "DESC" | "SUP" | "SYNTAX");
    words.next().is_some_and(is_numeric_oid) || words.next().is_some_and(is_named)
}

fn parse_at(kind: Kind, text: &str, offset: usize, macros: &Macros) -> Result<Definition, Mistake> {
    Definition::parse(kind, text, macros)
        .map_err(|mistake| Mistake { offset: offset + mistake.offset, kind: mistake.kind })
}

fn decode(encoded: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(encoded.trim_ascii()).ok()?).ok()
}

/// Removes leading white space, and the number in braces, such as `{12}`, with which OpenLDAP's `cn=config` orders
/// values.
fn strip_order(value: &str) -> &str {
    let value = value.trim_ascii_start();
    let rest = value.strip_prefix('{').and_then(|rest| rest.split_once('}'));
    match rest {
        Some((order, rest)) if order.bytes().all(|byte| byte.is_ascii_digit()) => rest.trim_ascii_start(),
        _ => value,
    }
}

/// Returns the kind of definition that a keyword introduces, singular or plural, in any case.
fn kind_of(keyword: &str) -> Option<Kind> {
    let keyword = keyword.to_ascii_lowercase();
    let kind = match keyword.strip_suffix('s').unwrap_or(&keyword) {
        "attributetype" => Kind::AttributeType,
        "objectclas" | "objectclasse" => Kind::ObjectClass,
        "ldapsyntax" | "ldapsyntaxe" => Kind::Syntax,
        "matchingrule" => Kind::MatchingRule,
        "matchingruleuse" => Kind::MatchingRuleUse,
        "ditcontentrule" => Kind::ContentRule,
        "ditstructurerule" => Kind::StructureRule,
        "nameform" => Kind::NameForm,
        _ => return None,
    };
    Some(kind)
}

/// Parses `name oid`; the OID may begin with an earlier macro.
fn define_macro(text: &str, macros: &mut Macros) -> Result<(), SchemaErrorKind> {
    let mut words = text.split_ascii_whitespace();
    let (Some(name), Some(oid), None) = (words.next(), words.next(), words.next()) else {
        let found = text.trim_ascii().chars().take(64).collect();
        return Err(SchemaErrorKind::Unexpected { what: "a macro's name and its OID", found });
    };
    let find = |name: &str| {
        macros.get(&name.to_ascii_lowercase()).ok_or_else(|| SchemaErrorKind::UnknownMacro(name.to_owned()))
    };
    let oid = match oid.split_once(':') {
        Some((base, suffix)) => format!("{}.{suffix}", find(base)?),
        None if is_numeric_oid(oid) => oid.to_owned(),
        None => find(oid)?.clone(),
    };
    if !is_numeric_oid(&oid) {
        return Err(SchemaErrorKind::BadOid(oid));
    }
    match macros.insert(name.to_ascii_lowercase(), oid.clone()) {
        Some(before) if before != oid => Err(SchemaErrorKind::RepeatedMacro(name.to_owned())),
        _ => Ok(()),
    }
}
