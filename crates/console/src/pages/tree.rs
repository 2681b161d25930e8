//! The tree: the entries directly below an entry, page by page.

use axum::response::Response;
use client::Connection;
use data_encoding::BASE64URL_NOPAD;
use ldap::{Dn, Scope};
use serde_json::{Value, json};

use crate::fields::Fields;
use crate::limits::{PAGE_BYTES_MAX, PAGE_ENTRIES};
use crate::page::{Page, SignedInRequest};
use crate::page_error::PageError;
use crate::pages::entry::parents;
use crate::requests::{self, Search, range};

pub(crate) async fn show(signed: SignedInRequest, fields: Fields) -> Response {
    let notice = signed.notice(&fields);
    let model = signed.talk(move |connection| model(connection, &fields, notice)).await;
    signed.answer(model.map(|model| Page::new("tree.html", "tree.title", model)))
}

fn model(connection: &mut Connection, fields: &Fields, notice: Value) -> Result<Value, PageError> {
    let contexts = requests::contexts(connection)?;
    let Some(dn) = fields.given("dn") else {
        let children =
            contexts.iter().map(|dn| json!({ "dn": dn, "name": dn, "label": null, "below": null }));
        let children: Vec<_> = children.collect();
        return Ok(json!({
            "dn": null, "parents": [], "children": children, "next": null, "is_first": true, "notice": notice,
            "limit": null,
        }));
    };
    let attributes = [range("cn", 0, 1), range("displayName", 0, 1), "numSubordinates".to_owned()].to_vec();
    let search = Search {
        base: dn.to_owned(),
        scope: Scope::SingleLevel,
        filter: "(objectClass=*)".to_owned(),
        attributes,
    };
    let cookie = BASE64URL_NOPAD.decode(fields.text("page").as_bytes());
    let bad = |_| PageError::Request(axum::http::StatusCode::BAD_REQUEST, "search.bad_page");
    let found = requests::page(connection, &search, PAGE_ENTRIES, &cookie.map_err(bad)?, PAGE_BYTES_MAX)?;
    let children = found.entries.into_iter().map(|entry| {
        let text = |name: &str| {
            let mut all = entry.attributes.iter();
            let value = all
                .find(|attribute| attribute.description.split(';').next() == Some(name))?
                .values
                .first()?;
            Some(String::from_utf8_lossy(value).into_owned())
        };
        let name = Dn::parse(&entry.dn).ok().map(|parsed| parsed.text_from(1).len()).unwrap_or(0);
        let name = entry
            .dn
            .get(..entry.dn.len() - name)
            .unwrap_or(&entry.dn)
            .trim_end_matches([',', ' '])
            .to_owned();
        let below = text("numSubordinates").and_then(|count| count.parse::<u64>().ok());
        json!({ "dn": entry.dn, "name": name, "label": text("displayName").or(text("cn")), "below": below })
    });
    let children: Vec<_> = children.collect();
    Ok(json!({
        "dn": dn,
        "parents": parents(dn, &contexts),
        "children": children,
        "next": found.next.map(|cookie| BASE64URL_NOPAD.encode(&cookie)),
        "is_first": fields.text("page").is_empty(),
        "notice": notice,
        "limit": found.limit,
    }))
}
