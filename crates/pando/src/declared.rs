//! `pando plan` and `pando apply` for declaration files. A declaration file declares some entries of a directory.
//!
//! Each declaration file names the owner of its entries. An entry that a file adds is marked with the owner. A marked
//! entry is deleted if no file of its owner declares it any more. All other entries stay. Each entry is changed by one
//! request, which is applied as a whole or not at all. The request asserts that the entry has not changed since the
//! plan was computed.

mod change;
mod difference;
mod file;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::process::ExitCode;

use client::{ClientError, Connection};
use data_encoding::HEXLOWER;
use ldap::{Dn, Excerpt, ResultCode};
use serde_json::{Map, Value, json};
use server::ServeError;
use sha2::{Digest, Sha256};

use crate::color::{self, Color, paint};
use crate::exit;
use crate::named::Named;
use crate::online::{TargetArguments, refusal};
use crate::print;
use crate::search::results::{json_value, text_of};
use crate::table::printable;
use change::{AttributeChange, EntryChange, Kind};
use difference::Planner;
use file::{Declarations, DeclaredEntry, DeclaredValue};

/// Maximum number of values that are printed for an attribute.
const VALUES_MAX: usize = 20;

/// Size of the fingerprint of a plan, in octets.
const FINGERPRINT_LENGTH: usize = 8;

/// Returns true if the file declares entries rather than settings.
pub(crate) fn is_declaration(path: &Path) -> bool {
    Declarations::are_in(path)
}

/// Declared entries, grouped by owner.
#[derive(Debug, Default)]
pub(crate) struct Declared(BTreeMap<String, Vec<DeclaredEntry>>);

impl Declared {
    /// Reads declaration files. Merges the entries of files with the same owner.
    pub(crate) fn read<'p>(files: impl IntoIterator<Item = &'p Path>) -> Result<Declared, ServeError> {
        let mut all = Declared::default();
        for path in files {
            let Declarations { owner, entries } = Declarations::read(path)?;
            all.0.entry(owner).or_default().extend(entries);
        }
        Ok(all)
    }

    /// Returns the changes that bring the entries of a server to the declared state.
    fn changes(&self, named: &mut Named, prunes: bool) -> Result<Vec<EntryChange>, String> {
        let mut changes = Vec::new();
        for (owner, entries) in &self.0 {
            changes.extend(Planner::new(named, owner)?.changes(entries, prunes)?);
        }
        Ok(changes)
    }
}

/// Options of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunOptions<'a> {
    /// Whether to delete entries that are no longer declared.
    pub(crate) prunes: bool,
    /// Fingerprint that the plan must have.
    pub(crate) expected: Option<&'a str>,
    /// Whether the run begins with a change of settings. Before that change is applied, the server cannot decide
    /// changes of entries.
    pub(crate) follows_settings: bool,
}

/// Result of a change.
enum Decision {
    Planned,
    /// The server can decide the change only after an earlier change is made.
    Unchecked,
    Made,
    Refused(String),
}

/// Counts of a run.
#[derive(Default)]
struct Counts {
    added: u64,
    changed: u64,
    deleted: u64,
    refused: u64,
}

/// Prints the changes that [`apply`] would make.
pub(crate) fn plan(declared: &Declared, server: &TargetArguments, manner: RunOptions<'_>) -> ExitCode {
    let (mut named, changes) = match connected(declared, server, manner) {
        Ok(connected) => connected,
        Err(message) => return exit::failure(&message),
    };
    let (mut counts, mut earlier) = (Counts::default(), Earlier::default());
    for change in &changes {
        let decision = match &change.refusal {
            Some(reason) => Decision::Refused(reason.clone()),
            None if manner.follows_settings || earlier.decides(change) => Decision::Unchecked,
            None => match decided(&mut named.connection, change, true) {
                Ok(decision) => decision,
                Err(error) => return exit::failure(&error.to_string()),
            },
        };
        earlier.note(change);
        report(change, &decision, &mut counts);
    }
    let fingerprint = fingerprint(&changes);
    let Counts { added, changed, deleted, refused } = counts;
    if print::form().is_json {
        let object = json!({
            "plan": fingerprint, "add": added, "change": changed, "delete": deleted, "refused": refused,
        });
        println!("{object}");
    } else if !print::form().is_quiet && changes.is_empty() {
        println!("no change: the entries are as declared");
    } else if !print::form().is_quiet {
        println!("{added} to add, {changed} to change, {deleted} to delete; refused: {refused}");
        println!("to make exactly these changes: pando apply --expect {fingerprint}");
    }
    end(&counts)
}

/// Brings the entries of a server to the declared state, and prints the changes.
pub(crate) fn apply(declared: &Declared, server: &TargetArguments, manner: RunOptions<'_>) -> ExitCode {
    let (mut named, changes) = match connected(declared, server, manner) {
        Ok(connected) => connected,
        Err(message) => return exit::failure(&message),
    };
    let fingerprint = fingerprint(&changes);
    if let Some(expected) = manner.expected.filter(|expected| *expected != fingerprint) {
        return exit::failure(&format!(
            "the entries or the files have changed: the plan is {fingerprint}, not {expected}; nothing is changed, run \
             `pando plan` again"
        ));
    }
    let mut counts = Counts::default();
    for change in &changes {
        let decision = match &change.refusal {
            Some(reason) => Decision::Refused(reason.clone()),
            None => match decided(&mut named.connection, change, false) {
                Ok(decision) => decision,
                Err(error) => {
                    let EntryChange { kind, dn, .. } = change;
                    let kind = kind.word();
                    return exit::failure(&format!(
                        "{kind} {dn}: no answer, so this may have been made: {error}"
                    ));
                }
            },
        };
        report(change, &decision, &mut counts);
    }
    let Counts { added, changed, deleted, refused } = counts;
    if print::form().is_json {
        let object = json!({
            "plan": fingerprint, "added": added, "changed": changed, "deleted": deleted, "refused": refused,
        });
        println!("{object}");
    } else if !print::form().is_quiet && changes.is_empty() {
        println!("no change: the entries are as declared");
    } else if !print::form().is_quiet {
        println!("{added} added, {changed} changed, {deleted} deleted; refused: {refused}");
    }
    end(&counts)
}

fn end(counts: &Counts) -> ExitCode {
    if counts.refused > 0 { exit::some_rejected() } else { ExitCode::SUCCESS }
}

fn connected(
    declared: &Declared,
    server: &TargetArguments,
    manner: RunOptions<'_>,
) -> Result<(Named, Vec<EntryChange>), String> {
    let mut named = Named::connect(server)?;
    let changes = declared.changes(&mut named, manner.prunes)?;
    Ok((named, changes))
}

/// Sends a change. If `dry` is true, the server only decides whether it would make the change.
fn decided(connection: &mut Connection, change: &EntryChange, dry: bool) -> Result<Decision, ClientError> {
    let outcome = change.send(connection, dry)?;
    Ok(match outcome.code {
        ResultCode::SUCCESS | ResultCode::NO_OPERATION if dry => Decision::Planned,
        ResultCode::SUCCESS => Decision::Made,
        ResultCode::ASSERTION_FAILED => {
            Decision::Refused("the entry has changed meanwhile: run the command again".to_owned())
        }
        code => Decision::Refused(refusal(code, &outcome.diagnostic)),
    })
}

/// Earlier changes of a plan. The server's decision about a later change may depend on these changes.
#[derive(Default)]
struct Earlier {
    added: HashSet<String>,
    /// Superiors of the entries that are deleted.
    emptied: HashSet<String>,
}

impl Earlier {
    fn decides(&self, change: &EntryChange) -> bool {
        let names = names_above(&change.dn);
        match change.kind {
            Kind::Add => names.iter().any(|name| self.added.contains(name)),
            Kind::Change => false,
            Kind::Delete => self.emptied.contains(&name_key(&change.dn)),
        }
    }

    fn note(&mut self, change: &EntryChange) {
        match change.kind {
            Kind::Add => {
                self.added.insert(name_key(&change.dn));
            }
            Kind::Change => {}
            Kind::Delete => self.emptied.extend(names_above(&change.dn)),
        }
    }
}

/// Returns a DN in lower case and without optional spaces, for comparisons.
fn name_key(dn: &str) -> String {
    Dn::parse(dn).map_or_else(|_| dn.to_lowercase(), |dn| dn.to_string().to_lowercase())
}

fn names_above(dn: &str) -> Vec<String> {
    let Ok(dn) = Dn::parse(dn) else { return Vec::new() };
    (1..dn.len()).map(|count| dn.ancestor(count).to_string().to_lowercase()).collect()
}

/// Returns a fingerprint of a plan. Two plans have different fingerprints if their changes differ, or if an affected
/// entry has changed in the meantime. Secret values do not affect the fingerprint.
fn fingerprint(changes: &[EntryChange]) -> String {
    let mut digest = Sha256::new();
    for change in changes {
        let object = json!({
            "change": change_json(change), "csn": change.csn, "place": change.place, "refusal": change.refusal,
        });
        digest.update(object.to_string());
    }
    HEXLOWER.encode(digest.finalize().get(..FINGERPRINT_LENGTH).unwrap_or_default())
}

fn report(change: &EntryChange, decision: &Decision, counts: &mut Counts) {
    let (count, result, reason) = match (decision, change.kind) {
        (Decision::Refused(reason), _) => (&mut counts.refused, "refused", Some(reason)),
        (decision, kind) => {
            let result = match decision {
                Decision::Made => "made",
                Decision::Unchecked => "unchecked",
                _ => "planned",
            };
            let count = match kind {
                Kind::Add => &mut counts.added,
                Kind::Change => &mut counts.changed,
                Kind::Delete => &mut counts.deleted,
            };
            (count, result, None)
        }
    };
    *count += 1;
    if print::form().is_json {
        let mut object = change_json(change);
        object.insert("place".to_owned(), json!(change.place));
        object.insert("result".to_owned(), json!(result));
        object.insert("reason".to_owned(), json!(reason));
        println!("{}", Value::Object(object));
        return;
    }
    let (word, dn) = (change.kind.word(), printable(&change.dn));
    if let Some(reason) = reason {
        let place = change.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
        eprintln!("pando: {place}{word} {dn}: {reason}");
    } else if !print::form().is_quiet {
        let note = if matches!(decision, Decision::Unchecked) { " (not checked)" } else { "" };
        print!("{}", text(change, note, color::is_on()));
    }
}

fn text(change: &EntryChange, note: &str, colors: bool) -> String {
    let color = match change.kind {
        Kind::Add => Color::Green,
        Kind::Change => Color::Yellow,
        Kind::Delete => Color::Red,
    };
    let (word, dn) = (paint(colors, color, change.kind.word()), printable(&change.dn));
    let mut text = format!("{word} {dn}{note}\n");
    for attribute in change.attributes.iter().filter(|attribute| !attribute.is_mark()) {
        let AttributeChange { name, added, removed, replacement, hides_removed } = attribute;
        let line = |color, sign: &str, value: &str| {
            paint(colors, color, &format!("  {sign} {name}: {value}")) + "\n"
        };
        if *hides_removed && !removed.is_empty()
            || removed.is_empty() && added.is_empty() && replacement.is_some()
        {
            text += &line(Color::Red, "-", "(values that are not shown)");
        } else {
            let shown = removed.iter().take(VALUES_MAX);
            shown.for_each(|value| text += &line(Color::Red, "-", &excerpt_of(value)));
            text += &more(removed.len(), |count| line(Color::Red, "-", count));
        }
        for value in added.iter().take(VALUES_MAX) {
            let value = match &value.source {
                Some(file) => format!("(from {file})"),
                None => excerpt_of(&value.bytes),
            };
            text += &line(Color::Green, "+", &value);
        }
        text += &more(added.len(), |count| line(Color::Green, "+", count));
    }
    text
}

fn more(count: usize, line: impl Fn(&str) -> String) -> String {
    match count.saturating_sub(VALUES_MAX) {
        0 => String::new(),
        more => line(&format!("({more} more)")),
    }
}

fn excerpt_of(value: &[u8]) -> String {
    printable(&Excerpt(text_of(value)).to_string())
}

fn change_json(change: &EntryChange) -> Map<String, Value> {
    let value = |value: &DeclaredValue| match &value.source {
        Some(file) => json!({ "file": file }),
        None => json_value(&value.bytes),
    };
    let attributes = change.attributes.iter().filter(|attribute| !attribute.is_mark()).map(|attribute| {
        let added: Vec<Value> = attribute.added.iter().map(value).collect();
        let shown = attribute.removed.iter().filter(|_| !attribute.hides_removed);
        let removed: Vec<Value> = shown.map(|value| json_value(value)).collect();
        let object = json!({ "added": added, "removed": removed, "removed_count": attribute.removed.len() });
        (attribute.name.clone(), object)
    });
    let attributes: Map<String, Value> = attributes.collect();
    Map::from_iter([
        ("operation".to_owned(), json!(change.kind.word())),
        ("dn".to_owned(), json!(change.dn)),
        ("attributes".to_owned(), Value::Object(attributes)),
    ])
}
