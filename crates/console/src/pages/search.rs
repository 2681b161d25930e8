//! Search by the beginning of a name or by a filter. The result is shown page by page, or returned as a CSV or LDIF
//! file.

mod builder;
mod export;
pub(super) mod saved;

use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use client::{Connection, Entry};
use data_encoding::BASE64URL_NOPAD;
use ldap::{FilterBuf, Scope, filter_value};
use serde_json::{Value, json};

use self::builder::Rows;
use self::saved::Saved;
use crate::download::Download;
use crate::fields::Fields;
use crate::limits::{PAGE_BYTES_MAX, PAGE_ENTRIES};
use crate::page::{Page, SignedInRequest};
use crate::page_error::PageError;
use crate::requests::{Search, SearchPage, contexts, page, range, without_range};
use crate::texts::url;

/// The default columns of a result.
const COLUMNS: [&str; 3] = ["cn", "uid", "mail"];

/// Maximum number of columns of a result. The server accepts the same number of value ranges in one request.
const COLUMNS_MAX: usize = 16;

/// Maximum number of values that one cell shows.
const VALUES_PER_CELL: usize = 5;

/// Attributes in which the search by the beginning of a name searches.
const NAMES: [&str; 4] = ["cn", "sn", "uid", "mail"];

/// Attributes that the form suggests for filters and columns.
const SUGGESTED: [&str; 15] = [
    "cn",
    "sn",
    "givenName",
    "uid",
    "mail",
    "telephoneNumber",
    "title",
    "ou",
    "l",
    "manager",
    "member",
    "memberOf",
    "objectClass",
    "description",
    "modifyTimestamp",
];

/// The response to a query: a page or a file.
enum Answer {
    Page(Value),
    File(Download),
}

pub(crate) async fn show(signed: SignedInRequest, headers: HeaderMap, fields: Fields) -> Response {
    let app = std::sync::Arc::clone(&signed.app);
    let saved = Saved::of(&headers, signed.client.is_secured, &signed.session.who);
    let answered = signed
        .talk(move |connection| match fields.text("as") {
            "csv" | "ldif" => export::make(&app.exports, connection, &fields).map(Answer::File),
            _ => model(connection, &fields).map(Answer::Page),
        })
        .await;
    match answered {
        Err(error) => signed.fail(&error),
        Ok(Answer::Page(mut model)) => {
            model["saved"] = json!(saved.model());
            signed.show(Page::new("search.html", "search.title", model))
        }
        Ok(Answer::File(export)) => export.into_response(),
    }
}

/// A parsed query. Missing parts have their default.
struct Query {
    search: Option<Search>,
    base: String,
    scope: &'static str,
    columns: Vec<String>,
    contexts: Vec<String>,
    rows: Rows,
}

fn query(connection: &mut Connection, fields: &Fields) -> Result<Query, PageError> {
    let contexts = contexts(connection)?;
    let first = contexts.first().cloned().unwrap_or_default();
    let base = fields.given("base").map_or(first, str::to_owned);
    let (scope, scope_name) = match fields.text("scope") {
        "one" => (Scope::SingleLevel, "one"),
        "base" => (Scope::BaseObject, "base"),
        _ => (Scope::WholeSubtree, "sub"),
    };
    let columns = columns(fields);
    let rows = Rows::of(fields);
    let filter = filter_of(fields, &rows);
    if let Some(filter) = &filter {
        FilterBuf::parse(filter).map_err(client::ClientError::Filter)?;
    }
    let search =
        filter.map(|filter| Search { base: base.clone(), scope, filter, attributes: columns.clone() });
    Ok(Query { search, base, scope: scope_name, columns, contexts, rows })
}

/// Returns the filter of a query: the text of a filter, or a filter that is built from the rows of the form. If the
/// query contains the beginning of a name, the result also requires this beginning.
fn filter_of(fields: &Fields, rows: &Rows) -> Option<String> {
    let filter = fields.given("filter").map(str::to_owned).or_else(|| rows.filter());
    let words = fields.given("q").map(filter_of_words);
    match (filter, words) {
        (Some(filter), Some(words)) => Some(format!("(&{words}{filter})")),
        (filter, words) => filter.or(words),
    }
}

/// Returns the columns in a query. They are separated by spaces or commas.
fn columns(fields: &Fields) -> Vec<String> {
    let is_name = |name: &&str| builder::is_description(name);
    let named = fields.text("columns").split([' ', ',']).filter(is_name).take(COLUMNS_MAX);
    let named: Vec<String> = named.map(str::to_owned).collect();
    if named.is_empty() { COLUMNS.map(str::to_owned).to_vec() } else { named }
}

fn filter_of_words(words: &str) -> String {
    let value = filter_value(words);
    let tests: String = NAMES.iter().map(|name| format!("({name}={value}*)")).collect();
    format!("(|{tests})")
}

fn model(connection: &mut Connection, fields: &Fields) -> Result<Value, PageError> {
    let Query { search, base, scope, columns, contexts, rows: filter_rows } = query(connection, fields)?;
    let (mut rows, mut found) = (Vec::new(), SearchPage::default());
    if let Some(mut search) = search.clone() {
        search.attributes = columns.iter().map(|column| range(column, 0, VALUES_PER_CELL)).collect();
        let cookie = BASE64URL_NOPAD.decode(fields.text("page").as_bytes());
        let cookie = cookie.map_err(|_| PageError::Request(StatusCode::BAD_REQUEST, "search.bad_page"))?;
        found = page(connection, &search, PAGE_ENTRIES, &cookie, PAGE_BYTES_MAX)?;
        rows = found.entries.drain(..).map(|entry| row(entry, &columns)).collect();
    }
    Ok(json!({
        "q": fields.text("q"),
        "filter": fields.text("filter"),
        "asked": search.map(|search| search.filter),
        "base": base,
        "scope": scope,
        "columns": columns,
        "contexts": contexts,
        "builder": filter_rows.model(),
        "query": url("", &filter_rows.pairs()).trim_start_matches('?'),
        "suggested": SUGGESTED,
        "rows": rows,
        "estimate": found.estimate,
        "next": found.next.map(|cookie| BASE64URL_NOPAD.encode(&cookie)),
        "is_cut": found.is_cut,
        "limit": found.limit,
    }))
}

/// Returns the row of an entry. The row has one cell for each column. A cell contains the first values of the attribute
/// as text.
fn row(entry: Entry, columns: &[String]) -> Value {
    let values: Vec<_> = entry.attributes.into_iter().map(without_range).collect();
    let cells = columns.iter().map(|column| {
        let found = values.iter().find(|values| values.description.eq_ignore_ascii_case(column));
        let texts = found.map(|found| found.values.iter().map(|value| cell(value)).collect::<Vec<_>>());
        json!({ "values": texts.unwrap_or_default(), "more": found.is_some_and(|found| found.next.is_some()) })
    });
    json!({ "dn": entry.dn, "cells": cells.collect::<Vec<_>>() })
}

fn cell(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) if text.chars().count() <= 200 => text.to_owned(),
        Ok(text) => text.chars().take(200).chain(['…']).collect(),
        Err(_) => format!("[{} bytes]", value.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_one_filter() {
        assert_eq!(
            filter_of_words("An(a)*"),
            "(|(cn=An\\28a\\29\\2a*)(sn=An\\28a\\29\\2a*)(uid=An\\28a\\29\\2a*)(mail=An\\28a\\29\\2a*))"
        );
        assert!(FilterBuf::parse(&filter_of_words("\\*()\0ü")).is_ok());
    }
}
