//! Indexes: their kinds, the progress of building them, and proposals for searches that lacked an index. Each index is
//! an entry below `cn=config`.

use axum::http::StatusCode;
use axum::response::Response;
use client::Connection;
use ldap::{ChangeOperation, Scope};
use serde_json::{Value, json};

use crate::fields::Fields;
use crate::limits::PAGE_BYTES_MAX;
use crate::monitor;
use crate::page::{Page, SignedInRequest, Submission};
use crate::page_error::PageError;
use crate::pages::manage;
use crate::requests::{self, Search};
use crate::times;

/// Superior of the entries of all indexes.
const CONFIGURED: &str = "cn=indexes,cn=config";

/// Attribute that contains the kinds of an index.
const KIND: &str = "pandoIndexKind";

/// All kinds of indexes, named after the types of filters that they serve.
const KINDS: [&str; 5] = ["equality", "ordering", "presence", "substring", "approximate"];

/// Maximum number of indexes that the page shows.
const INDEXES_MAX: u32 = 1_000;

pub(crate) async fn show(signed: SignedInRequest, fields: Fields) -> Response {
    let notice = signed.notice(&fields);
    let model = signed.talk(move |connection| model(connection, &fields)).await;
    let with_notice = |mut model: Value| {
        model["notice"] = notice;
        Page::new("indexes.html", "indexes.title", model)
    };
    signed.answer(model.map(with_notice))
}

fn model(connection: &mut Connection, fields: &Fields) -> Result<Value, PageError> {
    let indexes = indexes(connection)?;
    let work = monitor::group(connection, "Indexes")?;
    let advice = monitor::group(connection, "Index Advice")?;
    let uses = monitor::group(connection, "Index Use")?;
    let sizes = monitor::group(connection, "Index Sizes").unwrap_or_default();
    let searches = uses.iter().find(|figure| figure.name == "Searches").map_or("", |figure| &figure.value);
    let attribute = fields.text("attribute").trim();
    let chosen: Vec<&str> = match fields.all("kind").collect::<Vec<_>>().as_slice() {
        [] => indexes.iter().find(|(name, _)| name.eq_ignore_ascii_case(attribute)).map_or_else(
            || vec!["equality"],
            |(_, kinds)| KINDS.into_iter().filter(|kind| kinds.iter().any(|known| known == kind)).collect(),
        ),
        kinds => KINDS.into_iter().filter(|kind| kinds.contains(kind)).collect(),
    };
    let row = |(name, kinds): &(String, Vec<String>)| {
        let own = |part: &&monitor::Figure| part.name.split(' ').next() == Some(name);
        let parts: Vec<Value> =
            work.iter().filter(own).map(|part| progress(&part.name, &part.value)).collect();
        let size = sizes.iter().find(|figure| figure.name == *name).and_then(|figure| size(&figure.value));
        json!({
            "attribute": name, "kinds": kinds, "work": parts, "searches": use_of(searches, name), "size": size,
        })
    };
    Ok(json!({
        "indexes": indexes.iter().map(row).collect::<Vec<_>>(),
        "removed": work.iter()
            .filter(|part| !indexes.iter().any(|(name, _)| part.name.split(' ').next() == Some(name)))
            .map(|part| progress(&part.name, &part.value)).collect::<Vec<_>>(),
        "advice": advice.iter().filter_map(|advice| proposal(&advice.name, &advice.value)).collect::<Vec<_>>(),
        "kinds": KINDS,
        "attribute": attribute,
        "is_known": indexes.iter().any(|(name, _)| name.eq_ignore_ascii_case(attribute)),
        "chosen": chosen,
        "notice": null,
        "error": null,
    }))
}

/// Returns the number after the name of an attribute in a text such as `cn 5, mail 17`.
fn use_of(text: &str, attribute: &str) -> u64 {
    let mut parts = text.split(", ").filter_map(|part| part.rsplit_once(' '));
    let found = parts.find(|(name, _)| name.eq_ignore_ascii_case(attribute));
    found.and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
}

/// Parses the size of an index, for example `rows 5; keys 4; bytes 300; sampled 1000 of 2000`.
fn size(text: &str) -> Option<Value> {
    let mut parts = text.split("; ");
    let mut number = |name: &str| parts.next()?.strip_prefix(name)?.trim().parse::<u64>().ok();
    let (rows, keys, bytes) = (number("rows")?, number("keys")?, number("bytes")?);
    let (sampled, entries) = parts.next()?.strip_prefix("sampled ")?.split_once(" of ")?;
    Some(json!({
        "rows": rows, "keys": keys, "bytes": bytes, "shown": times::size(bytes), "is_estimate": sampled != entries,
    }))
}

/// Returns the attributes that have an index, and the kinds of the index. The attributes are sorted by name.
fn indexes(connection: &mut Connection) -> Result<Vec<(String, Vec<String>)>, PageError> {
    let search = Search {
        base: CONFIGURED.to_owned(),
        scope: Scope::SingleLevel,
        filter: "(objectClass=*)".to_owned(),
        attributes: vec!["cn".to_owned(), KIND.to_owned()],
    };
    let found = requests::page(connection, &search, INDEXES_MAX, &[], PAGE_BYTES_MAX);
    let entries = found.map_err(manage::only_for_administrators)?.entries;
    let mut all: Vec<_> =
        entries.iter().filter_map(|entry| Some((entry.text("cn")?, entry.texts(KIND)))).collect();
    all.sort_by_key(|(name, _)| name.to_ascii_lowercase());
    Ok(all)
}

/// Parses the progress of an index: `building: entry 5 of 10` or `removing`.
fn progress(name: &str, text: &str) -> Value {
    let part = name.split_once(' ').map_or("", |(_, part)| part);
    let numbers = text.strip_prefix("building: entry ").and_then(|rest| {
        let (done, all) = rest.split_once(" of ")?;
        Some((done.parse::<u64>().ok()?, all.parse::<u64>().ok()?))
    });
    let attribute = name.split(' ').next();
    json!({
        "attribute": attribute, "part": part, "text": text, "done": numbers.map(|(done, _)| done),
        "all": numbers.map(|(_, all)| all),
    })
}

/// Parses a proposal of the server. The proposal contains the kinds of an index, and the costs and the filters of the
/// searches that lacked the index.
fn proposal(attribute: &str, text: &str) -> Option<Value> {
    let mut parts = text.split("; ");
    let setting = parts.next()?;
    let kinds: Vec<&str> =
        KINDS.into_iter().filter(|kind| setting.contains(&format!("\"{kind}\""))).collect();
    let mut number = |name: &str| parts.next()?.strip_prefix(name)?.trim().parse::<u64>().ok();
    Some(json!({
        "attribute": attribute,
        "kinds": kinds,
        "searches": number("searches")?,
        "refused": number("refused")?,
        "examined": number("examined")?,
        "returned": number("returned")?,
        "milliseconds": number("microseconds")? / 1_000,
        "candidates": number("candidates")?,
        "filters": parts.collect::<Vec<_>>(),
    }))
}

/// Defines, changes or removes an index.
pub(crate) async fn change(Submission { signed, fields }: Submission) -> Response {
    let fields = std::sync::Arc::new(fields);
    let own = std::sync::Arc::clone(&fields);
    let changed = signed.talk(move |connection| set(connection, &own)).await;
    let error = match changed {
        Ok(notice) => return signed.go(&crate::texts::url("/indexes", &[("notice", notice)])),
        Err(error @ (PageError::Refused(..) | PageError::Request(..))) => error,
        Err(error) => return signed.fail(&error),
    };
    match signed.talk(move |connection| model(connection, &fields)).await {
        Ok(mut model) => {
            model["error"] = signed.error_model(&error);
            let page = Page::new("indexes.html", "indexes.title", model);
            signed.show(Page { status: error.status(), ..page })
        }
        Err(error) => signed.fail(&error),
    }
}

fn set(connection: &mut Connection, fields: &Fields) -> Result<&'static str, PageError> {
    let unusable = |text| PageError::Request(StatusCode::UNPROCESSABLE_ENTITY, text);
    let attribute = fields.given("attribute").ok_or(unusable("indexes.no_attribute"))?;
    let dn = format!("cn={},{CONFIGURED}", ldap::escaped_value(attribute.as_bytes()));
    let kinds: Vec<&str> = fields.all("kind").filter(|kind| KINDS.contains(kind)).collect();
    let existing = indexes(connection)?;
    let is_known = existing.iter().any(|(name, _)| name.eq_ignore_ascii_case(attribute));
    let outcome = match (fields.text("action"), is_known) {
        ("remove", _) => connection.delete(&dn)?,
        _ if kinds.is_empty() => return Err(unusable("indexes.no_kind")),
        (_, true) => connection.modify(&dn, &[(ChangeOperation::Replace, KIND, kinds.as_slice())])?,
        (_, false) => {
            let values = kinds.iter().map(|kind| (KIND, *kind));
            let attributes: Vec<_> = [("objectClass", "pandoIndex")].into_iter().chain(values).collect();
            connection.add(&dn, &attributes)?
        }
    };
    PageError::unless_success(outcome, None)?;
    Ok(if fields.text("action") == "remove" { "index_removed" } else { "index_set" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_and_advice_are_parsed() {
        let part = progress("description equality", "building: entry 5 of 10");
        assert_eq!((&part["done"], &part["all"], &part["part"]), (&json!(5), &json!(10), &json!("equality")));
        assert_eq!(progress("cn substring", "removing")["done"], Value::Null);
        assert_eq!((use_of("cn 5, mail 17", "Mail"), use_of("cn 5", "c"), use_of("", "cn")), (17, 0, 0));
        let expected = json!({ "rows": 5, "keys": 4, "bytes": 300, "shown": "300 B", "is_estimate": true });
        assert_eq!(size("rows 5; keys 4; bytes 300; sampled 1000 of 2000"), Some(expected));
        assert_eq!(size("rows many"), None);
        let text = "mail = [\"equality\", \"substring\"]; searches 3; refused 1; examined 9; returned 2; \
                    microseconds 4500; candidates 9; (mail=*); (|(cn=*)(mail=*))";
        let found = proposal("mail", text).unwrap();
        assert_eq!(found["kinds"], json!(["equality", "substring"]));
        assert_eq!((&found["refused"], &found["milliseconds"]), (&json!(1), &json!(4)));
        assert_eq!(found["filters"], json!(["(mail=*)", "(|(cn=*)(mail=*))"]));
        assert_eq!(proposal("mail", "anything"), None);
    }
}
