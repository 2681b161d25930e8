//! Reads files into logical lines. Handles includes, comments, continued lines and constants.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::INCLUDE_DEPTH_MAX;
use super::error::{TemplateError, TemplateFault, TemplateLine};

/// A line with its constants replaced. Backslashes are unchanged. Empty lines are kept, because they end a block.
pub(super) struct SourceLine {
    pub(super) place: TemplateLine,
    /// Folder to which file names are relative; `None` in a shipped template.
    pub(super) folder: Option<Arc<Path>>,
    pub(super) text: String,
}

/// A reader of a template and the files that it includes.
pub(super) struct Source {
    pub(super) lines: Vec<SourceLine>,
    constants: BTreeMap<String, String>,
    given: BTreeMap<String, String>,
    used: Vec<String>,
}

impl Source {
    /// Reads a template completely. Constants in `given` replace constants of the template. The template must define
    /// these constants.
    pub(super) fn read(
        name: &str,
        text: &str,
        folder: Option<Arc<Path>>,
        given: &BTreeMap<String, String>,
        entries: Option<u64>,
    ) -> Result<Source, TemplateError> {
        let mut source =
            Source { lines: Vec::new(), constants: BTreeMap::new(), given: given.clone(), used: Vec::new() };
        let whole = TemplateLine { file: name.into(), line: 0 };
        source.count(text, entries, &whole)?;
        source.add_text(text, &whole.file, folder, 0)?;
        match source.given.keys().find(|name| !source.used.contains(name)) {
            Some(name) => Err(whole.fault(TemplateFault::UnusedConstant(name.clone()))),
            None => Ok(source),
        }
    }

    /// Sets the number of entries, if it is given. The number replaces the constant `entries` or, in OpenDJ's
    /// templates, `numusers`.
    fn count(&mut self, text: &str, entries: Option<u64>, whole: &TemplateLine) -> Result<(), TemplateError> {
        let Some(entries) = entries else { return Ok(()) };
        let names = ["entries", "numusers"];
        let defines = |name: &&str| {
            text.lines().filter_map(|line| line.strip_prefix("define ")).any(|rest| {
                rest.split_once('=').is_some_and(|(defined, _)| defined.trim().eq_ignore_ascii_case(name))
            })
        };
        let Some(name) = names.into_iter().find(defines) else {
            return Err(whole.fault(TemplateFault::UnusedConstant("entries (or numusers)".to_owned())));
        };
        self.given.insert(name.to_owned(), entries.to_string());
        Ok(())
    }

    fn add_text(
        &mut self,
        text: &str,
        file: &Arc<str>,
        folder: Option<Arc<Path>>,
        depth: u32,
    ) -> Result<(), TemplateError> {
        for (place, line) in logical_lines(text, file) {
            if line.starts_with('#') {
                continue;
            }
            let line = self.replace_constants(&line, &place)?;
            match keyword(&line) {
                Some(("define", rest)) => self.define(rest, &place)?,
                Some(("include", rest)) => self.include(rest, folder.as_deref(), depth, &place)?,
                _ => self.lines.push(SourceLine { place, folder: folder.clone(), text: line }),
            }
        }
        Ok(())
    }

    fn define(&mut self, rest: &str, place: &TemplateLine) -> Result<(), TemplateError> {
        let (name, value) = rest.split_once('=').ok_or_else(|| place.fault(TemplateFault::Define))?;
        let name = name.trim().to_ascii_lowercase();
        if name.is_empty() {
            return Err(place.fault(TemplateFault::Define));
        }
        let value = match self.given.get(&name) {
            Some(given) => given.clone(),
            None => value.trim().to_owned(),
        };
        self.used.push(name.clone());
        self.constants.insert(name, value);
        Ok(())
    }

    fn include(
        &mut self,
        name: &str,
        folder: Option<&Path>,
        depth: u32,
        place: &TemplateLine,
    ) -> Result<(), TemplateError> {
        if depth == INCLUDE_DEPTH_MAX {
            return Err(place.fault(TemplateFault::IncludeDepth));
        }
        let path = folder.map_or_else(|| PathBuf::from(name), |folder| folder.join(name));
        let text = match read_file(&path, place) {
            Err(_) if looks_like_a_class(name) => {
                return Err(place.fault(TemplateFault::JavaClass(name.to_owned())));
            }
            text => text?,
        };
        let file = path.display().to_string().into();
        self.add_text(&text, &file, Some(folder_of(&path)), depth + 1)
    }

    /// Replaces `[NAME]` by its value. A character after a backslash stays unchanged, together with the backslash.
    fn replace_constants(&self, line: &str, place: &TemplateLine) -> Result<String, TemplateError> {
        let mut out = String::with_capacity(line.len());
        let mut rest = line;
        while let Some(at) = rest.find(['[', '\\']) {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(escaped) = rest.strip_prefix('\\') {
                let len = escaped.chars().next().map_or(0, char::len_utf8);
                out.push_str(&rest[..1 + len]);
                rest = &rest[1 + len..];
                continue;
            }
            let end = rest.find(']').ok_or_else(|| place.fault(TemplateFault::Unclosed('[')))?;
            let name = &rest[1..end];
            let value = self.constants.get(&name.trim().to_ascii_lowercase());
            let value = value.ok_or_else(|| place.fault(TemplateFault::UnknownConstant(name.to_owned())))?;
            out.push_str(value);
            rest = &rest[end + 1..];
        }
        out.push_str(rest);
        Ok(out)
    }
}

/// Returns logical lines: as in LDIF, a line that begins with a space continues the previous line.
fn logical_lines(text: &str, file: &Arc<str>) -> Vec<(TemplateLine, String)> {
    let mut lines: Vec<(TemplateLine, String)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        match (line.strip_prefix(' '), lines.last_mut()) {
            (Some(more), Some((_, last))) if !line.trim().is_empty() && !last.is_empty() => {
                last.push_str(more);
            }
            _ if line.trim().is_empty() => {
                lines.push((TemplateLine { file: file.clone(), line: number }, String::new()));
            }
            _ => lines.push((TemplateLine { file: file.clone(), line: number }, line.to_owned())),
        }
    }
    lines
}

/// Returns the keyword of a line, if it has one, and the text after it. A space follows the keywords `define` and
/// `include`, so that attribute lines with these names are not keywords.
fn keyword(line: &str) -> Option<(&'static str, &str)> {
    ["define", "include"].into_iter().find_map(|word| {
        let (head, rest) = line.split_at_checked(word.len())?;
        (head.eq_ignore_ascii_case(word) && rest.starts_with([' ', '\t'])).then(|| (word, rest.trim()))
    })
}

/// Returns true if a name looks like a Java class, as in `include com.example.SpecialTag`.
fn looks_like_a_class(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    name.contains('.') && !name.contains('/') && last.starts_with(|first: char| first.is_ascii_uppercase())
}

pub(super) fn read_file(path: &Path, place: &TemplateLine) -> Result<String, TemplateError> {
    std::fs::read_to_string(path)
        .map_err(|error| place.fault(TemplateFault::Read { path: path.to_owned(), error }))
}

/// Returns the folder to which names in a file are relative.
pub(super) fn folder_of(path: &Path) -> Arc<Path> {
    path.parent().unwrap_or(Path::new("")).into()
}
