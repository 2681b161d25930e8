//! Parses lines into branches and templates. Names by which branches and templates refer to each other are resolved and
//! checked later, by [`super::plan`].

use std::path::Path;
use std::sync::Arc;

use ldap::ldif::put_ldif_line;

use super::error::{TemplateError, TemplateFault, TemplateLine};
use super::source::SourceLine;
use super::tag::{self, Part};

/// A branch or a template.
pub(super) struct Block {
    pub(super) kind: BlockKind,
    pub(super) place: TemplateLine,
    pub(super) extends: Vec<(String, TemplateLine)>,
    /// Naming attributes; empty without `rdnAttr`.
    pub(super) naming: Vec<String>,
    pub(super) subordinates: Vec<Subordinate>,
    pub(super) lines: Vec<Line>,
}

pub(super) enum BlockKind {
    /// A branch, with its DN.
    Branch(String),
    /// A template, with its name.
    Template(String),
}

#[derive(Clone)]
pub(super) struct Subordinate {
    pub(super) template: String,
    pub(super) count: u64,
    pub(super) place: TemplateLine,
}

/// The line of one attribute value.
#[derive(Clone)]
pub(super) struct Line {
    /// The attribute description as written, with options. A colon follows if the value is already base64.
    pub(super) label: String,
    pub(super) is_base64: bool,
    pub(super) parts: Vec<Part>,
    /// The line as it appears in LDIF, if it is the same for all entries.
    pub(super) fixed: Option<Vec<u8>>,
    pub(super) place: TemplateLine,
}

impl Line {
    pub(super) fn new(label: String, is_base64: bool, parts: Vec<Part>, place: TemplateLine) -> Line {
        let fixed = match parts.as_slice() {
            [Part::Text(text)] => {
                let mut line = Vec::new();
                put_ldif_line(&mut line, &label, text);
                Some(line)
            }
            _ => None,
        };
        Line { label, is_base64, parts, fixed, place }
    }

    /// Returns the node whose entries are the members, if the line has a value for each member of a group.
    pub(super) fn members(&self) -> Option<usize> {
        match self.parts.as_slice() {
            [Part::Members(target)] => Some(target.node),
            _ => None,
        }
    }

    /// Returns the attribute description: `label` without the colon for base64.
    pub(super) fn description(&self) -> &str {
        self.label.strip_suffix(':').unwrap_or(&self.label)
    }
}

/// Reads all blocks.
pub(super) fn blocks(lines: &[SourceLine]) -> Result<Vec<Block>, TemplateError> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    for line in lines {
        if line.text.is_empty() {
            is_open = false;
            continue;
        }
        let place = &line.place;
        let (name, value) = line.text.split_once(':').ok_or_else(|| place.fault(TemplateFault::NotALine))?;
        let kind = match name.to_ascii_lowercase().as_str() {
            "branch" => Some(BlockKind::Branch(unescaped_dn(value.trim()))),
            "template" => Some(BlockKind::Template(value.trim().to_owned())),
            _ => None,
        };
        if let Some(kind) = kind {
            blocks.push(Block::new(kind, place.clone()));
            is_open = true;
            continue;
        }
        match blocks.last_mut() {
            Some(block) if is_open => block.add(name, value, line.folder.as_ref(), place)?,
            _ => return Err(place.fault(TemplateFault::Stray)),
        }
    }
    Ok(blocks)
}

impl Block {
    pub(super) fn new(kind: BlockKind, place: TemplateLine) -> Block {
        Block { kind, place, extends: vec![], naming: vec![], subordinates: vec![], lines: vec![] }
    }

    fn add(
        &mut self,
        name: &str,
        value: &str,
        folder: Option<&Arc<Path>>,
        place: &TemplateLine,
    ) -> Result<(), TemplateError> {
        let is_branch = matches!(self.kind, BlockKind::Branch(_));
        match name.to_ascii_lowercase().as_str() {
            "extends" | "rdnattr" if is_branch => {
                let keyword = if name.eq_ignore_ascii_case("extends") { "extends" } else { "rdnAttr" };
                return Err(place.fault(TemplateFault::NotInABranch(keyword)));
            }
            "extends" => self.extends.push((value.trim().to_owned(), place.clone())),
            "rdnattr" => self.naming = value.split('+').map(|name| name.trim().to_owned()).collect(),
            "subordinatetemplate" => self.subordinates.push(subordinate(value, place)?),
            _ => self.lines.push(attribute_line(name, value, folder, place)?),
        }
        Ok(())
    }
}

fn attribute_line(
    name: &str,
    value: &str,
    folder: Option<&Arc<Path>>,
    place: &TemplateLine,
) -> Result<Line, TemplateError> {
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(place.fault(TemplateFault::NotALine));
    }
    let (is_base64, value) = match value.strip_prefix(':') {
        Some(value) => (true, value),
        None => (false, value),
    };
    let parts = tag::parts(value.trim_start(), folder.map(AsRef::as_ref), place)?;
    let label = if is_base64 { format!("{name}:") } else { name.to_owned() };
    Ok(Line::new(label, is_base64, parts, place.clone()))
}

/// Parses `NAME:COUNT`, or `NAME:COUNT/PARTS`, which divides `COUNT` among the number `PARTS` of superiors.
fn subordinate(value: &str, place: &TemplateLine) -> Result<Subordinate, TemplateError> {
    let bad = || place.fault(TemplateFault::Subordinate);
    let (template, count) = value.rsplit_once(':').ok_or_else(bad)?;
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| bad());
    let count = match count.split_once('/') {
        None => number(count)?,
        Some((count, parts)) => {
            let (count, parts) = (number(count)?, number(parts)?);
            if parts == 0 {
                return Err(bad());
            }
            if count % parts != 0 {
                return Err(place.fault(TemplateFault::Uneven { count, parts }));
            }
            count / parts
        }
    };
    Ok(Subordinate { template: template.trim().to_owned(), count, place: place.clone() })
}

/// Removes the backslashes that protect brackets. Other backslashes stay, because they are escapes of the DN.
fn unescaped_dn(text: &str) -> String {
    ["\\[", "\\]", "\\{", "\\}"]
        .iter()
        .fold(text.to_owned(), |text, escaped| text.replace(escaped, &escaped[1..]))
}
