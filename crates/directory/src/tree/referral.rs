//! Referral entries, which represent subtrees on other servers (RFC 3296).
//!
//! Without ManageDsaIT, a referral entry refers to another server. An operation on the referral entry or on a name
//! below it returns `referral`, and a search with the entry in its scope returns a continuation reference. Both
//! responses contain the URLs of the entry's `ref` values, with the name and the scope for the client's next request.

use std::ops::ControlFlow;

use ldap::{LdapUrl, Scope};

use crate::model::outcome::OperationError;
use crate::model::rows::EntryId;
use crate::tree::stored_values::for_each_value;
use crate::tree::{TreeState, damaged_row, entry_row};

/// OID of `ref`.
const REF: &str = "2.16.840.1.113730.3.1.34";

/// Returns the result of an operation on a name at or below a referral entry (RFC 3296 sections 5.2 and 5.3).
///
/// `below` is the text of the RDNs below the referral entry; empty for the entry itself. `scope` is the scope of a
/// search; `None` for other operations.
pub(crate) fn referral(
    state: TreeState<'_>,
    referral: EntryId,
    below: &str,
    scope: Option<Scope>,
) -> Result<OperationError, OperationError> {
    let matched_dn = state.dn(referral)?.ok_or_else(|| damaged_row("nodes", referral))?;
    let change = |url: &mut LdapUrl| {
        let there = if url.dn.is_empty() { matched_dn.as_str() } else { url.dn.as_str() };
        url.dn = if below.is_empty() { there.to_owned() } else { format!("{below},{there}") };
        // By section 5.2, the parameters of the request replace the parameters of the URL, except extensions.
        url.attributes.clear();
        url.filter = None;
        url.scope = scope;
    };
    let referrals = urls(state, referral, change)?;
    Ok(OperationError::Referral { matched_dn, referrals })
}

/// Returns the URLs of the continuation reference for a referral entry in the scope of a search (RFC 3296 section
/// 5.4). `dn` is the entry's DN.
pub(crate) fn continuation(
    state: TreeState<'_>,
    referral: EntryId,
    dn: &str,
    scope: Scope,
) -> Result<Vec<String>, OperationError> {
    // In a search one level below the base, only the referral entry itself is in scope (RFC 4511 section 4.5.3).
    let scope = if scope == Scope::SingleLevel { Scope::BaseObject } else { Scope::WholeSubtree };
    urls(state, referral, |url| {
        if url.dn.is_empty() {
            url.dn = dn.to_owned();
        }
        url.scope = Some(scope);
    })
}

/// Returns the URLs of the `ref` values without labels. `change` is applied to LDAP URLs; other URLs stay unchanged.
fn urls(
    state: TreeState<'_>,
    id: EntryId,
    change: impl Fn(&mut LdapUrl),
) -> Result<Vec<String>, OperationError> {
    let mut urls = Vec::new();
    let Some(type_id) = state.catalog.schema.attribute_type(REF).map(|attribute_type| attribute_type.id)
    else {
        return Ok(urls);
    };
    let entry = entry_row(state.read, id)?;
    let refs = state.catalog.stored_attributes_of_type(type_id);
    for row in entry.attributes().filter(|row| refs.contains(&row.id)) {
        for_each_value(state, id, &row, &mut |value| {
            let text = String::from_utf8_lossy(value);
            // In a labeledURI the URI ends at the first space (RFC 2079).
            let uri = text.split_ascii_whitespace().next().unwrap_or_default();
            match LdapUrl::parse(uri) {
                Ok(mut url) => {
                    change(&mut url);
                    urls.push(url.to_string());
                }
                Err(_) => urls.push(uri.to_owned()),
            }
            ControlFlow::Continue(())
        })?;
    }
    Ok(urls)
}
