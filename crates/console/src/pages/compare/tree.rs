//! Restore of a tree from the backup. One transaction restores the values that an entry and all entries below it had at
//! a past time.
//!
//! Missing entries are added with their entryUUID and times. Entries outside the tree receive the references to these
//! entries again. Entries that were added to the tree after the past time are kept.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Instant;

use axum::http::StatusCode;
use axum::response::Response;
use client::Connection;
use ldap::ldif::{LdifBody, LdifReader, LdifRecord};
use ldap::{
    AddRequest, AttributesBuf, ChangeOperation, Control, ControlsBuf, Dn, EndTransaction,
    EndTransactionResult, MessageId, ModifyRequest, Request, Scope, filter_value, oids,
};
use schema::{Comparison, EntryValues, Schema};
use serde_json::{Value, json};

use super::{backup, now, question, unexpected, values_of, waits};
use crate::app::App;
use crate::fields::Fields;
use crate::form::{Change, request_changes, unchanged_since};
use crate::limits::{TREE_CHANGES_MAX, TREE_LINES_MAX, TREE_TIME};
use crate::page::{Page, SignedInRequest, Submission};
use crate::page_error::PageError;
use crate::texts::url;
use crate::times;

/// The change of one entry.
#[derive(Hash)]
struct Step {
    dn: String,
    change: StepChange,
}

#[derive(Hash)]
enum StepChange {
    /// Adds the missing entry.
    Add(EntryValues),
    /// Changes attributes of the entry if it still has this CSN.
    Modify(Option<String>, Vec<Change>),
    /// Adds values to an entry outside the tree. The values refer to entries that the plan adds.
    Name(BTreeMap<String, Vec<Vec<u8>>>),
}

/// An entry that cannot be restored: its DN, the path of the text with the reason, and the DN of another entry if the
/// reason refers to one.
#[derive(Hash)]
struct Unrestorable {
    dn: String,
    reason: &'static str,
    other: Option<String>,
}

/// The changes that restore a tree.
struct Plan {
    /// Position and time of the last change before the requested time.
    position: u64,
    micros: u64,
    steps: Vec<Step>,
    left: Vec<Unrestorable>,
    /// Number of entries that are the same as in the backup.
    same: usize,
}

impl Plan {
    /// Returns a hash of the plan. The form with the confirmation contains it.
    fn version(&self) -> String {
        let mut hasher = DefaultHasher::new();
        (self.position, &self.steps, &self.left).hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }
}

pub(crate) async fn show(signed: SignedInRequest, fields: Fields) -> Response {
    let app = Arc::clone(&signed.app);
    let model = signed.talk(move |connection| model(&app, connection, &fields));
    let model = model.await;
    signed.answer(model.map(|model| Page::new("compare_tree.html", "compare_tree.title", model)))
}

fn model(app: &App, connection: &mut Connection, fields: &Fields) -> Result<Value, PageError> {
    let mut model = question(connection, fields)?;
    model["tree"] = Value::Null;
    if model["is_asked"] != true {
        return Ok(model);
    }
    match planned(app, connection, (fields.text("dn"), model["at"].as_str().unwrap_or_default())) {
        Ok(plan) => model["tree"] = described(app, &plan),
        Err(error) => model["waits"] = waits(error)?,
    }
    Ok(model)
}

fn described(app: &App, plan: &Plan) -> Value {
    let of = |step: &Step| {
        let (change, names): (_, Vec<String>) = match &step.change {
            StepChange::Add(_) => ("add", Vec::new()),
            StepChange::Modify(_, changes) => {
                ("modify", changes.iter().map(|change| change.description.clone()).collect())
            }
            StepChange::Name(names) => ("name", names.keys().cloned().collect()),
        };
        let names: BTreeSet<String> = names.into_iter().collect();
        json!({ "change": change, "dn": step.dn, "attributes": names })
    };
    let left = |left: &Unrestorable| json!({ "dn": left.dn, "text": app.texts.text(left.reason), "other": left.other });
    let count = |is: fn(&StepChange) -> bool| plan.steps.iter().filter(|step| is(&step.change)).count();
    json!({
        "shown": times::readable(plan.micros),
        "position": plan.position,
        "changes": plan.steps.iter().take(TREE_LINES_MAX).map(of).collect::<Vec<_>>(),
        "more": plan.steps.len().saturating_sub(TREE_LINES_MAX),
        "added": count(|change| matches!(change, StepChange::Add(_))),
        "modified": count(|change| matches!(change, StepChange::Modify(..))),
        "named": count(|change| matches!(change, StepChange::Name(_))),
        "left": plan.left.iter().take(TREE_LINES_MAX).map(left).collect::<Vec<_>>(),
        "same": plan.same,
        "version": plan.version(),
    })
}

/// Makes the changes if they are still the same as those that the page showed.
pub(crate) async fn restore(Submission { signed, fields }: Submission) -> Response {
    let app = Arc::clone(&signed.app);
    let result = signed.talk(move |connection| {
        let (dn, at) = (fields.text("dn").trim(), fields.text("at"));
        let plan = planned(&app, connection, (dn, at))?;
        if plan.version() != fields.text("version") {
            return Err(PageError::Request(StatusCode::CONFLICT, "compare_tree.changed"));
        }
        make(connection, &plan)?;
        Ok(dn.to_owned())
    });
    match result.await {
        Ok(dn) => signed.go(&url("/entry", &[("dn", &dn), ("notice", "tree_restored")])),
        Err(error) => signed.fail(&error),
    }
}

/// Reads the tree from the backup, compares it with the present entries, and returns the plan.
fn planned(app: &App, connection: &mut Connection, of: (&str, &str)) -> Result<Plan, PageError> {
    let busy = |_| PageError::Request(StatusCode::SERVICE_UNAVAILABLE, "search.exports_busy");
    let _place = app.exports.try_acquire().map_err(busy)?;
    let schema = app.schema.get(connection);
    let (_, answer) = backup(connection, of, true)?;
    if answer.ldif.is_empty() {
        return Err(PageError::Request(StatusCode::NOT_FOUND, "compare_tree.not_then"));
    }
    let mut planner = Planner::new(connection, &schema);
    each_record(&answer.ldif, |record| planner.entry(record))?;
    each_record(&answer.referrers, |record| planner.referrer(record))?;
    let Planner { steps, left, same, .. } = planner;
    Ok(Plan { position: answer.position, micros: answer.micros, steps, left, same })
}

fn each_record(
    ldif: &[u8],
    mut each: impl FnMut(&LdifRecord<'_>) -> Result<(), PageError>,
) -> Result<(), PageError> {
    let mut reader = LdifReader::with_record_size_max(ldif, ldif.len().saturating_add(1));
    while let Some(record) = reader.next_record().map_err(|_| unexpected())? {
        each(&record)?;
    }
    Ok(())
}

struct Planner<'c> {
    connection: &'c mut Connection,
    comparison: Comparison,
    started: Instant,
    /// Keys of the DNs of two groups of entries: the entries that the plan adds, and the entries that are missing but
    /// cannot be added.
    added: HashSet<Vec<u8>>,
    missing: HashSet<Vec<u8>>,
    steps: Vec<Step>,
    left: Vec<Unrestorable>,
    same: usize,
}

impl<'c> Planner<'c> {
    fn new(connection: &'c mut Connection, schema: &Arc<Schema>) -> Planner<'c> {
        Planner {
            connection,
            comparison: Comparison::new(Arc::clone(schema)),
            started: Instant::now(),
            added: HashSet::new(),
            missing: HashSet::new(),
            steps: Vec::new(),
            left: Vec::new(),
            same: 0,
        }
    }

    /// Compares an entry of the backup with its present state. If they differ, adds to the plan either the change that
    /// restores the entry, or the reason why it cannot be restored.
    fn entry(&mut self, record: &LdifRecord<'_>) -> Result<(), PageError> {
        let then = values_of(&self.comparison, record).ok_or_else(unexpected)?;
        let found = now(self.connection, &self.comparison, record.dn, Some(&then))?;
        let uuid = then.get("entryUUID").and_then(|values| values.first());
        let Some((dn, csn, now)) = found else {
            let moved = uuid.map(|uuid| self.entry_of(uuid)).transpose()?.flatten();
            return self.addition(record.dn, then, moved);
        };
        if now.get("entryUUID").and_then(|values| values.first()) != uuid {
            return self.leave(&dn, "compare.another", None);
        }
        let corrections = self.comparison.corrections(&then, &now);
        if corrections.is_empty() {
            self.same += 1;
            return self.check_bounds();
        }
        let changes = corrections.into_iter().map(super::change_of);
        self.step(&dn, StepChange::Modify(csn, changes.collect()))
    }

    fn addition(&mut self, dn: &str, then: EntryValues, moved: Option<String>) -> Result<(), PageError> {
        let key = self.comparison.dn_key(dn);
        let above = Dn::parse(dn).ok().map(|parsed| self.comparison.dn_key(parsed.text_from(1)));
        let has_superior = above.is_none_or(|above| !self.missing.contains(&above));
        if moved.is_some() || !has_superior {
            self.missing.insert(key);
            let reason = if moved.is_some() { "compare_tree.moved" } else { "compare_tree.no_superior" };
            return self.leave(dn, reason, moved);
        }
        self.added.insert(key);
        self.step(dn, StepChange::Add(then))
    }

    /// Adds to the plan a change of an entry outside the tree. The change restores the entry's references to entries
    /// that the plan adds.
    fn referrer(&mut self, record: &LdifRecord<'_>) -> Result<(), PageError> {
        let LdifBody::Entry(lines) = record.body else { return Err(unexpected()) };
        let (mut names, mut uuid) = (BTreeMap::<String, Vec<Vec<u8>>>::new(), None);
        for line in lines.iter() {
            let name = self.comparison.canonical(line.description);
            if name == "entryUUID" {
                uuid = Some(line.value.to_vec());
            } else if self.comparison.is_writable(&name)
                && self.added.contains(&self.comparison.dn_key(&String::from_utf8_lossy(line.value)))
            {
                names.entry(name).or_default().push(line.value.to_vec());
            }
        }
        let Some(uuid) = uuid.filter(|_| !names.is_empty()) else { return Ok(()) };
        match self.entry_of(&uuid)? {
            Some(dn) => self.step(&dn, StepChange::Name(names)),
            None => Ok(()),
        }
    }

    /// Returns the DN that the entry with this entryUUID has now.
    fn entry_of(&mut self, uuid: &[u8]) -> Result<Option<String>, PageError> {
        let filter = format!("(entryUUID={})", filter_value(&String::from_utf8_lossy(uuid)));
        let reply = self.connection.search("", Scope::WholeSubtree, &filter, &["1.1"])?;
        PageError::unless_success(reply.outcome, None)?;
        Ok(reply.entries.into_iter().next().map(|entry| entry.dn))
    }

    fn step(&mut self, dn: &str, change: StepChange) -> Result<(), PageError> {
        self.steps.push(Step { dn: dn.to_owned(), change });
        self.check_bounds()
    }

    fn leave(&mut self, dn: &str, reason: &'static str, other: Option<String>) -> Result<(), PageError> {
        self.left.push(Unrestorable { dn: dn.to_owned(), reason, other });
        self.check_bounds()
    }

    fn check_bounds(&self) -> Result<(), PageError> {
        if self.steps.len() > TREE_CHANGES_MAX {
            return Err(PageError::Request(StatusCode::UNPROCESSABLE_ENTITY, "compare_tree.too_large"));
        }
        if self.started.elapsed() > TREE_TIME {
            return Err(PageError::Request(StatusCode::GATEWAY_TIMEOUT, "compare_tree.too_slow"));
        }
        Ok(())
    }
}

/// Makes all changes in one transaction (RFC 5805).
fn make(connection: &mut Connection, plan: &Plan) -> Result<(), PageError> {
    let started = connection.extended(oids::START_TRANSACTION, None)?;
    PageError::unless_success(started.outcome, None)?;
    let identifier = started.extended.value.ok_or_else(unexpected)?;
    let mut sent: Vec<(MessageId, &str)> = Vec::new();
    for step in &plan.steps {
        let id = send(connection, &identifier, step)?;
        sent.push((id, &step.dn));
        let outcome = connection.reply(id)?.outcome;
        if !outcome.is_success() {
            let value = EndTransaction { commits: false, identifier: &identifier }.encode();
            connection.extended(oids::END_TRANSACTION, Some(&value))?;
            return Err(of_entry(outcome, Some(&step.dn)));
        }
    }
    let value = EndTransaction { commits: true, identifier: &identifier }.encode();
    let ended = connection.extended(oids::END_TRANSACTION, Some(&value))?;
    if ended.outcome.is_success() {
        return Ok(());
    }
    let failed = ended.extended.value.as_deref().and_then(EndTransactionResult::decode);
    let failed = failed.and_then(|result| result.failed);
    let dn = sent.iter().find(|(id, _)| Some(*id) == failed).map(|(_, dn)| *dn);
    Err(of_entry(ended.outcome, dn))
}

/// Returns the error of a change. Adds the DN of its entry to the message.
fn of_entry(mut outcome: client::Outcome, dn: Option<&str>) -> PageError {
    if let Some(dn) = dn {
        outcome.diagnostic = format!("{dn}: {}", outcome.diagnostic);
    }
    PageError::Refused(outcome, None)
}

fn send(connection: &mut Connection, identifier: &[u8], step: &Step) -> Result<MessageId, PageError> {
    let control = |oid, value| Control { oid, critical: true, value };
    let part = control(oids::TRANSACTION_SPECIFICATION, Some(identifier));
    let relaxed = control(oids::RELAX_RULES, None);
    let Step { dn, change } = step;
    let sent = match change {
        StepChange::Add(values) => {
            let mut attributes = AttributesBuf::new();
            values.iter().for_each(|(name, values)| attributes.push(name, values));
            let request = AddRequest { entry: dn, attributes: attributes.as_attributes() };
            let controls = ControlsBuf::from_iter([part, relaxed]);
            connection.send(Request::Add(request), controls.as_controls())
        }
        StepChange::Modify(csn, changes) => {
            let unchanged = unchanged_since(csn.as_deref())?;
            let list = request_changes(changes);
            let assertion = unchanged.as_deref().map(|value| control(oids::ASSERTION, Some(value)));
            let controls = ControlsBuf::from_iter([part, relaxed].into_iter().chain(assertion));
            let request = ModifyRequest { object: dn, changes: list.as_changes() };
            connection.send(Request::Modify(request), controls.as_controls())
        }
        StepChange::Name(names) => {
            let changes = names.iter().map(|(name, values)| Change {
                operation: ChangeOperation::Add,
                description: name.clone(),
                values: values.clone(),
            });
            let list = request_changes(&changes.collect::<Vec<_>>());
            let controls = ControlsBuf::from_iter([part, control(oids::PERMISSIVE_MODIFY, None)]);
            let request = ModifyRequest { object: dn, changes: list.as_changes() };
            connection.send(Request::Modify(request), controls.as_controls())
        }
    };
    Ok(sent?)
}
