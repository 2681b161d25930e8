//! Deletion of an entry or a subtree, and renaming or moving of an entry.

use axum::http::StatusCode;
use axum::response::Response;
use ldap::{Control, DeleteRequest, Dn, ModifyDnRequest, Request, oids};
use serde_json::json;

use crate::fields::Fields;
use crate::page::{Page, SignedInRequest, Submission};
use crate::page_error::PageError;
use crate::requests;
use crate::rights::Rights;
use crate::texts::url;

pub(crate) async fn delete_form(signed: SignedInRequest, fields: Fields) -> Response {
    let model = signed.talk(move |connection| {
        let entry = requests::entry(connection, fields.text("dn"), &["numSubordinates", "hasSubordinates"])?;
        Rights::require(connection, &entry.dn, 'd')?;
        let below = entry.texts("numSubordinates").first().and_then(|count| count.parse::<u64>().ok());
        let has_some = below.is_some_and(|count| count > 0) || entry.texts("hasSubordinates") == ["TRUE"];
        Ok(json!({ "dn": entry.dn, "below": below, "has_subordinates": has_some }))
    });
    let model = model.await;
    signed.answer(model.map(|model| Page::new("delete.html", "delete.title", model)))
}

pub(crate) async fn delete(Submission { signed, fields }: Submission) -> Response {
    let (_, parent) = split(fields.text("dn"));
    let deleted = signed.talk(move |connection| {
        let tree = Control { oid: oids::TREE_DELETE, critical: true, value: None };
        let controls: &[Control<'_>] = if fields.text("tree") == "1" { &[tree] } else { &[] };
        requests::change(connection, Request::Delete(DeleteRequest { entry: fields.text("dn") }), controls)
    });
    match deleted.await {
        Ok(()) => signed.go(&url("/tree", &[("dn", &parent), ("notice", "deleted")])),
        Err(error) => signed.fail(&error),
    }
}

pub(crate) async fn rename_form(signed: SignedInRequest, fields: Fields) -> Response {
    let model = signed.talk(move |connection| {
        let entry = requests::entry(connection, fields.text("dn"), &["objectClass"])?;
        Rights::require(connection, &entry.dn, 'n')?;
        let (rdn, parent) = split(&entry.dn);
        Ok(json!({ "dn": entry.dn, "rdn": rdn, "parent": parent, "error": null }))
    });
    let model = model.await;
    signed.answer(model.map(|model| Page::new("rename.html", "rename.title", model)))
}

pub(crate) async fn rename(Submission { signed, fields }: Submission) -> Response {
    let text = |name: &str| fields.text(name).trim().to_owned();
    let (dn, rdn, parent) = (text("dn"), text("rdn"), text("parent"));
    let (_, old_parent) = split(&dn);
    let mut model = json!({ "dn": dn, "rdn": rdn, "parent": parent, "error": null });
    let new_dn = if parent.is_empty() { rdn.clone() } else { format!("{rdn},{parent}") };
    let keeps_old = fields.text("keep") == "1";
    let renamed = if Dn::parse_rdn(&rdn).is_err() {
        Err(PageError::Request(StatusCode::UNPROCESSABLE_ENTITY, "rename.bad_name"))
    } else {
        let rename = move |connection: &mut client::Connection| {
            let new_superior = (parent != old_parent).then_some(parent.as_str());
            let request =
                ModifyDnRequest { entry: &dn, new_rdn: &rdn, delete_old_rdn: !keeps_old, new_superior };
            requests::change(connection, Request::ModifyDn(request), &[])
        };
        signed.talk(rename).await
    };
    match renamed {
        Ok(()) => signed.go(&url("/entry", &[("dn", &new_dn), ("notice", "renamed")])),
        Err(error) => {
            model["error"] = signed.error_model(&error);
            let page = Page::new("rename.html", "rename.title", model);
            signed.show(Page { status: error.status(), ..page })
        }
    }
}

/// Returns the RDN of an entry and the DN of its superior.
fn split(dn: &str) -> (String, String) {
    let parent = Dn::parse(dn).map(|parsed| parsed.text_from(1).to_owned()).unwrap_or_default();
    let rdn = dn.get(..dn.len() - parent.len()).unwrap_or(dn);
    (rdn.trim_end().trim_end_matches(',').to_owned(), parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_after_the_rdn() {
        let of = |dn: &str| split(dn);
        let own = |rdn: &str, parent: &str| (rdn.to_owned(), parent.to_owned());
        assert_eq!(of("cn=a\\,b+sn=c,ou=d,dc=e"), own("cn=a\\,b+sn=c", "ou=d,dc=e"));
        assert_eq!(of("dc=e"), own("dc=e", ""));
        assert_eq!(of("no name"), own("no name", ""));
    }
}
