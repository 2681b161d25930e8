//! The members of a group, page by page. Members can also be added and removed.

use axum::http::StatusCode;
use axum::response::Response;
use client::Connection;
use ldap::{ChangeOperation, ChangesBuf, Dn, ModifyRequest, Request, Scope, filter_value};
use serde_json::{Value, json};

use crate::fields::Fields;
use crate::limits::{PAGE_BYTES_MAX, VALUES_PER_PAGE};
use crate::page::{Page, SignedInRequest, Submission};
use crate::page_error::PageError;
use crate::requests::{self, Search, range, without_range};
use crate::rights::Rights;
use crate::texts::url;

/// Attributes that contain the DNs of members.
pub(crate) const MEMBER: [&str; 2] = ["member", "uniqueMember"];

pub(crate) async fn show(signed: SignedInRequest, fields: Fields) -> Response {
    let notice = signed.notice(&fields);
    let model = signed.talk(move |connection| model(connection, &fields, notice)).await;
    signed.answer(model.map(|model| Page::new("members.html", "members.title", model)))
}

fn model(connection: &mut Connection, fields: &Fields, notice: Value) -> Result<Value, PageError> {
    let first = fields.text("first").parse().unwrap_or(0);
    let attributes = MEMBER.map(|name| range(name, first, VALUES_PER_PAGE));
    let names = ["objectClass", attributes[0].as_str(), attributes[1].as_str()];
    let reply = connection.search(fields.text("dn"), Scope::BaseObject, "(objectClass=*)", &names)?;
    PageError::unless_success(reply.outcome, None)?;
    let missing = || PageError::Request(StatusCode::NOT_FOUND, "trouble.no_such_entry");
    let entry = reply.entries.into_iter().next().ok_or_else(missing)?;
    let is_unique =
        entry.texts("objectClass").iter().any(|class| class.eq_ignore_ascii_case("groupOfUniqueNames"));
    let attribute = MEMBER[usize::from(is_unique)];
    let mut all = entry.attributes.into_iter().map(without_range);
    let found = all.find(|values| values.description.eq_ignore_ascii_case(attribute));
    let rights = Rights::read(connection, &entry.dn, &[attribute])?;
    let texts = |values: &[Vec<u8>]| -> Vec<String> {
        values.iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect()
    };
    Ok(json!({
        "dn": entry.dn,
        "attribute": attribute,
        "can_edit": rights.can_write(attribute),
        "first": first,
        "members": found.as_ref().map(|found| texts(&found.values)).unwrap_or_default(),
        "next": found.and_then(|found| found.next),
        "notice": notice,
        "search": format!("(memberOf={})", filter_value(&entry.dn)),
    }))
}

pub(crate) async fn change(Submission { signed, fields }: Submission) -> Response {
    let dn = fields.text("dn").to_owned();
    let is_leave = fields.text("action") == "leave";
    let changed = signed.talk(move |connection| {
        let attribute = MEMBER.iter().find(|name| **name == fields.text("attribute"));
        let unusable = PageError::Request(StatusCode::UNPROCESSABLE_ENTITY, "members.unknown");
        let (Some(attribute), Some(who)) = (attribute, fields.given("who")) else { return Err(unusable) };
        let member = if is_leave { who.to_owned() } else { resolve(connection, who)? };
        let operation = if is_leave { ChangeOperation::Delete } else { ChangeOperation::Add };
        let mut list = ChangesBuf::new();
        list.push(operation, attribute, [member.as_bytes()]);
        let request =
            Request::Modify(ModifyRequest { object: fields.text("dn"), changes: list.as_changes() });
        requests::change(connection, request, &[])
    });
    match changed.await {
        Ok(()) => {
            let notice = if is_leave { "left" } else { "joined" };
            signed.go(&url("/members", &[("dn", &dn), ("notice", notice)]))
        }
        Err(error) => signed.fail(&error),
    }
}

/// Returns the DN of the entry that the user means. The input is a DN, or the user name, mail address or full name of
/// exactly one entry.
pub(crate) fn resolve(connection: &mut Connection, who: &str) -> Result<String, PageError> {
    if who.contains('=') && Dn::parse(who).is_ok() {
        return Ok(who.to_owned());
    }
    let value = filter_value(who);
    let filter = format!("(|(uid={value})(mail={value})(cn={value}))");
    let mut names = Vec::new();
    for base in requests::contexts(connection)? {
        let search =
            Search { base, scope: Scope::WholeSubtree, filter: filter.clone(), attributes: Vec::new() };
        let found = requests::page(connection, &search, 2, &[], PAGE_BYTES_MAX);
        names.extend(found?.entries.into_iter().map(|entry| entry.dn));
    }
    let unusable = |text| PageError::Request(StatusCode::UNPROCESSABLE_ENTITY, text);
    match names.len() {
        0 => Err(unusable("members.unknown")),
        1 => names.pop().ok_or(unusable("members.unknown")),
        _ => Err(unusable("members.several")),
    }
}
