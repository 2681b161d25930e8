//! Comparison of an entry with the server's backup. The page shows which values were removed and added since the time
//! of the backup, and can restore the old values.

pub(super) mod tree;

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use client::{ClientError, Connection};
use ldap::ldif::{LdifBody, LdifReader, LdifRecord, LdifWriter};
use ldap::{
    AddRequest, AttributesBuf, BackupAnswer, BackupRequest, Control, ModifyRequest, Request, ResultCode, oids,
};
use schema::{Comparison, Correction, EntryValues, Schema, Secrets};
use serde_json::{Value, json};

use crate::describe;
use crate::fields::Fields;
use crate::form::{Change, ldif, request_changes, unchanged_since};
use crate::limits::VALUES_PER_PAGE;
use crate::monitor;
use crate::page::{Page, SignedInRequest, Submission};
use crate::page_error::PageError;
use crate::pages::manage;
use crate::requests::{self, Values};
use crate::texts::url;
use crate::times;

/// Operational attributes that an Add request with the Relax Rules control (draft-zeilenga-ldap-relax) may contain.
const GIVEN: [&str; 5] = ["entryUUID", "creatorsName", "createTimestamp", "modifiersName", "modifyTimestamp"];

/// Setting that contains the additional attribute types with secret values.
const SECRET: &str = "pandoSecretAttribute";

/// An entry in two states: its present state, and its state at a past time that the backup contains.
struct EntryComparison {
    dn: String,
    csn: Option<String>,
    now: Option<EntryValues>,
    then: Option<EntryValues>,
    /// The requested past time, in microseconds since 1970.
    at: u64,
    /// Position and time of the last change before the requested time.
    position: u64,
    micros: u64,
    comparison: Comparison,
    secrets: Secrets,
}

pub(crate) async fn show(signed: SignedInRequest, fields: Fields) -> Response {
    let app = Arc::clone(&signed.app);
    let model = signed.talk(move |connection| {
        let schema = app.schema.get(connection);
        model(connection, &schema, &fields)
    });
    let model = model.await;
    signed.answer(model.map(|model| Page::new("compare.html", "compare.title", model)))
}

/// Returns the model of the page without a comparison: the DN and time in the query, and the periods that the backup
/// contains.
fn question(connection: &mut Connection, fields: &Fields) -> Result<Value, PageError> {
    let moments = monitor::group(connection, "Backup Moments").map_err(manage::only_for_administrators)?;
    let newest = moments.last().and_then(|figure| figure.value.strip_prefix("until ")?.split(';').next());
    let place = monitor::group(connection, "Backup")?.into_iter().find(|figure| figure.name == "Place");
    let mut model = json!({
        "place": place.map_or_else(|| "PLACE".to_owned(), |figure| figure.value),
        "dn": fields.text("dn").trim(),
        "at": fields.given("at").or(newest).unwrap_or_default(),
        "moments": moments.iter().map(|figure| covered(&figure.name, &figure.value)).collect::<Vec<_>>(),
        "is_asked": fields.given("at").is_some() && fields.given("dn").is_some(),
        "waits": null,
    });
    // Make a relative time absolute, because a relative time in the next request would mean another time.
    if let Some(micros) = times::micros(fields.text("at"), times::now_micros()) {
        model["at"] = json!(times::text_of(micros));
    }
    Ok(model)
}

fn model(connection: &mut Connection, schema: &Arc<Schema>, fields: &Fields) -> Result<Value, PageError> {
    let mut model = question(connection, fields)?;
    model["compared"] = Value::Null;
    if model["is_asked"] != true {
        return Ok(model);
    }
    match read(connection, schema, (fields.text("dn"), model["at"].as_str().unwrap_or_default())) {
        Ok(both) => model["compared"] = compared(&both),
        Err(error) => model["waits"] = waits(error)?,
    }
    Ok(model)
}

/// Returns the server's message if the server is still restoring the data. Otherwise returns the error.
fn waits(error: PageError) -> Result<Value, PageError> {
    match error {
        PageError::Refused(outcome, None) if outcome.code == ResultCode::BUSY => {
            Ok(json!(outcome.diagnostic))
        }
        error => Err(error),
    }
}

/// Returns the first and the last time to which a chain of backup files can restore the directory.
fn covered(name: &str, text: &str) -> Value {
    let until = text.strip_prefix("until ").and_then(|rest| rest.split(';').next());
    json!({ "from": name.split(' ').next(), "until": until })
}

/// Reads an entry or a tree from the backup. Also returns the requested time.
fn backup(
    connection: &mut Connection,
    (dn, at): (&str, &str),
    is_tree: bool,
) -> Result<(u64, BackupAnswer), PageError> {
    let micros = times::micros(at, times::now_micros());
    let micros = micros.ok_or(PageError::Request(StatusCode::BAD_REQUEST, "compare.bad_time"))?;
    let value = BackupRequest { entry: dn.trim(), micros, is_tree }.encode();
    let reply = connection.extended(oids::READ_BACKUP, Some(&value))?;
    PageError::unless_success(reply.outcome, None)?;
    let answer = BackupAnswer::decode(&reply.extended.value.unwrap_or_default()).ok_or_else(unexpected)?;
    Ok((micros, answer))
}

fn unexpected() -> PageError {
    PageError::Client(ClientError::Unexpected("an entry of the backup".to_owned()))
}

fn read(
    connection: &mut Connection,
    schema: &Arc<Schema>,
    (dn, at): (&str, &str),
) -> Result<EntryComparison, PageError> {
    let dn = dn.trim();
    let (micros, answer) = backup(connection, (dn, at), false)?;
    let comparison = Comparison::new(Arc::clone(schema));
    let then = then(&comparison, &answer.ldif).ok_or_else(unexpected)?;
    let found = now(connection, &comparison, dn, then.as_ref())?;
    let (dn, csn, now) = match found {
        Some((dn, csn, values)) => (dn, csn, Some(values)),
        None => (dn.to_owned(), None, None),
    };
    if now.is_none() && then.is_none() {
        return Err(PageError::Request(StatusCode::NOT_FOUND, "compare.no_entry"));
    }
    let listed = connection.entry("cn=config", &[SECRET])?.ok_or_else(unexpected)?.texts(SECRET);
    let secrets = Secrets::of(schema, &listed);
    let (position, last) = (answer.position, answer.micros);
    Ok(EntryComparison { dn, csn, now, then, at: micros, position, micros: last, comparison, secrets })
}

/// Returns the values of the entry in the backup. The outer `None` means that the text is malformed. The inner `None`
/// means that the entry did not exist.
fn then(comparison: &Comparison, ldif: &[u8]) -> Option<Option<EntryValues>> {
    if ldif.is_empty() {
        return Some(None);
    }
    let mut reader = LdifReader::with_record_size_max(ldif, ldif.len().saturating_add(1));
    let record = reader.next_record().ok()??;
    Some(Some(values_of(comparison, &record)?))
}

/// Returns two kinds of values of a record: those that are compared, and those that an Add request may contain with the
/// Relax Rules control. Returns `None` if the record is not an entry.
fn values_of(comparison: &Comparison, record: &LdifRecord<'_>) -> Option<EntryValues> {
    let LdifBody::Entry(lines) = record.body else { return None };
    let mut values = EntryValues::new();
    for line in lines.iter() {
        let name = comparison.canonical(line.description);
        if is_compared(comparison, &name) || GIVEN.contains(&name.as_str()) {
            values.entry(name).or_default().push(line.value.to_vec());
        }
    }
    Some(values)
}

/// Returns true if clients can read and write the attribute and it is not a collective attribute.
fn is_compared(comparison: &Comparison, name: &str) -> bool {
    let is_collective = describe::type_of(comparison.schema(), name).is_some_and(|found| found.collective);
    comparison.is_writable(name) && comparison.is_readable(name) && !is_collective
}

/// Returns the DN, the CSN and the values of the entry in its present state. The values include all user attributes,
/// and all other attributes that the entry has in the backup.
fn now(
    connection: &mut Connection,
    comparison: &Comparison,
    dn: &str,
    then: Option<&EntryValues>,
) -> Result<Option<(String, Option<String>, EntryValues)>, PageError> {
    let had = then.into_iter().flat_map(|values| values.keys().map(String::as_str));
    let selection: Vec<&str> = ["*", "entryCSN"].into_iter().chain(had).collect();
    let entry = match requests::whole_entry(connection, dn, &selection) {
        Ok(entry) => entry,
        Err(PageError::Request(StatusCode::NOT_FOUND, _)) => return Ok(None),
        Err(PageError::Refused(outcome, _)) if outcome.code == ResultCode::NO_SUCH_OBJECT => return Ok(None),
        Err(error) => return Err(error),
    };
    let csn = entry.texts("entryCSN").into_iter().next();
    let values = entry.attributes.into_iter().filter_map(|Values { description, values, .. }| {
        let name = comparison.canonical(&description);
        (is_compared(comparison, &name) || GIVEN.contains(&name.as_str())).then_some((name, values))
    });
    Ok(Some((entry.dn, csn, values.collect())))
}

impl EntryComparison {
    /// Returns true if another entry has the DN now.
    fn is_another(&self) -> bool {
        let uuid = |values: &Option<EntryValues>| values.as_ref().and_then(|of| of.get("entryUUID").cloned());
        self.now.is_some() && self.then.is_some() && uuid(&self.now) != uuid(&self.then)
    }

    /// Returns true if the page must not show the values of the attribute.
    fn is_secret(&self, name: &str) -> bool {
        let known = self.comparison.schema().parse_description(name);
        known.map_or(true, |known| self.secrets.has(known.type_id))
    }

    fn can_restore(&self) -> bool {
        let is_different = self.now.is_none() || !self.corrections().is_empty();
        !self.is_another() && self.then.is_some() && is_different
    }

    /// Returns the changes that restore the entry. Returns no changes if the entry exists only in one of the two
    /// states.
    fn corrections(&self) -> Vec<Correction> {
        match (&self.then, &self.now) {
            (Some(then), Some(now)) => self.comparison.corrections(then, now),
            _ => Vec::new(),
        }
    }
}

fn compared(both: &EntryComparison) -> Value {
    let empty = EntryValues::new();
    let (then, now) = (both.then.as_ref().unwrap_or(&empty), both.now.as_ref().unwrap_or(&empty));
    let names: std::collections::BTreeSet<&String> = then.keys().chain(now.keys()).collect();
    let (mut differences, mut same) = (Vec::new(), 0);
    for name in names.into_iter().filter(|name| is_compared(&both.comparison, name)) {
        let of = |values: &EntryValues| values.get(name).cloned().unwrap_or_default();
        let (old, new) = (of(then), of(now));
        let (removed, added) = both.comparison.difference(name, &old, &new);
        if removed.is_empty() && added.is_empty() {
            same += 1;
            continue;
        }
        let (then, now) = (values_model(both, name, &old, &removed), values_model(both, name, &new, &added));
        differences.push(json!({ "attribute": name, "then": then, "now": now }));
    }
    json!({
        "shown": times::readable(both.micros),
        "position": both.position,
        "existed": both.then.is_some(),
        "exists": both.now.is_some(),
        "is_another": both.is_another(),
        "same": same,
        "differences": differences,
        "can_restore": both.can_restore(),
    })
}

/// Returns the model of the values whose indexes are in `places`.
fn values_model(both: &EntryComparison, name: &str, values: &[Vec<u8>], places: &[usize]) -> Value {
    let is_secret = both.is_secret(name);
    let model = |octets: &Vec<u8>| match is_secret {
        true => json!({ "kind": "secret" }),
        false => describe::value(both.comparison.schema(), name, octets),
    };
    let some = places.iter().take(VALUES_PER_PAGE).filter_map(|place| values.get(*place));
    json!({
        "values": some.map(model).collect::<Vec<_>>(), "more": places.len().saturating_sub(VALUES_PER_PAGE),
    })
}

/// Shows the change that restores the values in the backup. Makes the change if the form contains the confirmation.
pub(crate) async fn restore(Submission { signed, fields }: Submission) -> Response {
    let fields = Arc::new(fields);
    let (own, app) = (Arc::clone(&fields), Arc::clone(&signed.app));
    let is_applied = fields.text("step") == "apply";
    let result = signed.talk(move |connection| {
        let schema = app.schema.get(connection);
        let both = read(connection, &schema, (own.text("dn"), own.text("at")))?;
        if both.is_another() {
            return Err(PageError::Request(StatusCode::CONFLICT, "compare.another"));
        }
        if own.text("step") == "apply" {
            if both.csn.as_deref() != own.given("csn") {
                return Err(PageError::Request(StatusCode::CONFLICT, "trouble.changed_meanwhile"));
            }
            apply(connection, &both)?;
        }
        Ok(both)
    });
    match result.await {
        Err(error) => signed.fail(&error),
        Ok(both) if is_applied => signed.go(&url("/entry", &[("dn", &both.dn), ("notice", "restored")])),
        Ok(both) => {
            let form_fields = [("at", times::text_of(both.at))];
            let text = preview(&both);
            let model = json!({
                "dn": both.dn, "csn": both.csn, "ldif": text, "fields": form_fields, "action": "/compare",
            });
            signed.show(Page::new("preview.html", "compare.preview", model))
        }
    }
}

/// Returns the change as LDIF. Secret values are omitted.
fn preview(both: &EntryComparison) -> String {
    let masked = |name: &str, values: &[Vec<u8>]| -> Vec<Vec<u8>> {
        match both.is_secret(name) {
            true => values.iter().map(|_| b"(not shown)".to_vec()).collect(),
            false => values.to_vec(),
        }
    };
    let Some(then) = both.then.as_ref().filter(|_| both.now.is_none()) else {
        let changes = changes(both)
            .into_iter()
            .map(|change| Change { values: masked(&change.description, &change.values), ..change });
        return ldif(&both.dn, &changes.collect::<Vec<_>>());
    };
    let values: Vec<(&str, Vec<u8>)> = then
        .iter()
        .flat_map(|(name, values)| masked(name, values).into_iter().map(move |value| (name.as_str(), value)))
        .collect();
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ = LdifWriter::new(&mut text).add(
        &both.dn,
        &[],
        values.iter().map(|(name, value)| (*name, value.as_slice())),
    );
    String::from_utf8_lossy(&text).into_owned()
}

fn changes(both: &EntryComparison) -> Vec<Change> {
    both.corrections().into_iter().map(change_of).collect()
}

fn change_of(Correction { operation, name, values }: Correction) -> Change {
    Change { operation, description: name, values }
}

fn apply(connection: &mut Connection, both: &EntryComparison) -> Result<(), PageError> {
    let relaxed = Control { oid: oids::RELAX_RULES, critical: true, value: None };
    let Some(then) = both.then.as_ref() else {
        return Err(PageError::Request(StatusCode::UNPROCESSABLE_ENTITY, "compare.not_then"));
    };
    if both.now.is_none() {
        let mut attributes = AttributesBuf::new();
        then.iter().for_each(|(name, values)| attributes.push(name, values));
        let request = AddRequest { entry: &both.dn, attributes: attributes.as_attributes() };
        return requests::change(connection, Request::Add(request), &[relaxed]);
    }
    let list = request_changes(&changes(both));
    let request = Request::Modify(ModifyRequest { object: &both.dn, changes: list.as_changes() });
    let value = unchanged_since(both.csn.as_deref())?;
    let assertion =
        value.as_deref().map(|value| Control { oid: oids::ASSERTION, critical: true, value: Some(value) });
    let controls: Vec<Control<'_>> = [relaxed].into_iter().chain(assertion).collect();
    requests::change(connection, request, &controls)
}
