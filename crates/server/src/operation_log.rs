//! The optional line per operation: what was asked, by which connection, and how it ended.
//!
//! What a line says of a request is taken when the request arrives, because the request is gone when it ends. Nothing is
//! built, and no clock is read, when the line is not asked for.

use std::fmt::Write;
use std::time::Instant;

use ldap::{Authentication, Filter, FilterKind, Message, MessageId, Request, ResultCode, Scope};

use crate::counters::Operation;

/// Longest text of a filter in a line; the rest is cut off.
const FILTER_TEXT_MAX: usize = 1_024;

/// Attributes whose asserted values are credentials, by name and OID.
const PASSWORD_ATTRIBUTES: [&str; 5] =
    ["userPassword", "2.5.4.35", "authPassword", "1.3.6.1.4.1.4203.1.3.4", "unicodePwd"];

/// The beginning of a line, until the operation ends.
#[derive(Debug)]
pub(crate) struct OperationLine {
    started: Instant,
    request: String,
}

impl OperationLine {
    pub(crate) fn begin(message: &Message<'_>) -> Box<OperationLine> {
        Box::new(OperationLine { started: Instant::now(), request: describe(&message.request) })
    }

    /// Writes the line.
    pub(crate) fn end(
        &self,
        connection: u64,
        id: MessageId,
        operation: Operation,
        code: ResultCode,
        entries: Option<u64>,
    ) {
        let micros = self.started.elapsed().as_micros();
        let (name, request) = (operation.name(), &self.request);
        match entries {
            Some(entries) => tracing::info!(
                "conn={connection} op={id} {name}{request} result={code} entries={entries} micros={micros}"
            ),
            None => tracing::info!("conn={connection} op={id} {name}{request} result={code} micros={micros}"),
        }
    }
}

/// What is asked, without values that could be secret. Text from the peer is quoted with its control characters escaped,
/// so that it cannot forge a line.
fn describe(request: &Request<'_>) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = match request {
        Request::Bind(bind) => write!(text, " dn={:?} method={}", bind.name, method(&bind.authentication)),
        Request::Unbind => Ok(()),
        Request::Search(search) => {
            let scope = match search.scope {
                Scope::BaseObject => "base",
                Scope::SingleLevel => "one",
                Scope::WholeSubtree => "sub",
                Scope::Subordinate => "children",
            };
            write!(
                text,
                " dn={:?} scope={scope} filter={:?}",
                search.base_object,
                filter_text(&search.filter)
            )
        }
        Request::Modify(modify) => write!(text, " dn={:?}", modify.object),
        Request::Add(add) => write!(text, " dn={:?}", add.entry),
        Request::Delete(delete) => write!(text, " dn={:?}", delete.entry),
        Request::ModifyDn(modify_dn) => {
            let superior = modify_dn.new_superior.unwrap_or("-");
            write!(text, " dn={:?} rdn={:?} superior={superior:?}", modify_dn.entry, modify_dn.new_rdn)
        }
        Request::Compare(compare) => {
            write!(text, " dn={:?} attribute={:?}", compare.entry, compare.description)
        }
        Request::Abandon(id) => write!(text, " abandoned={id}"),
        Request::Extended(extended) => write!(text, " oid={:?}", extended.name),
    };
    text
}

fn method(authentication: &Authentication<'_>) -> &'static str {
    match authentication {
        Authentication::Simple(b"") => "none",
        Authentication::Simple(_) => "simple",
        Authentication::Sasl { .. } => "sasl",
        Authentication::Unrecognized(_) => "unknown",
    }
}

fn filter_text(filter: &Filter<'_>) -> String {
    if asserts_password(filter) {
        return "withheld, it asserts a password".to_owned();
    }
    let mut text = filter.to_string();
    if text.len() > FILTER_TEXT_MAX {
        let end = (0..=FILTER_TEXT_MAX).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
    text
}

/// Whether a filter asserts a value of a password attribute. Descends by recursion, as deep as the decoder lets a filter
/// nest.
fn asserts_password(filter: &Filter<'_>) -> bool {
    match filter.kind() {
        FilterKind::And(list) | FilterKind::Or(list) => list.iter().any(|filter| asserts_password(&filter)),
        FilterKind::Not(filter) => asserts_password(&filter),
        FilterKind::EqualityMatch(assertion)
        | FilterKind::GreaterOrEqual(assertion)
        | FilterKind::LessOrEqual(assertion)
        | FilterKind::ApproxMatch(assertion) => is_password(assertion.description),
        FilterKind::Substrings(substrings) => is_password(substrings.description),
        FilterKind::ExtensibleMatch(extensible) => extensible.description.is_some_and(is_password),
        FilterKind::Present(_) | FilterKind::Unrecognized(_) => false,
    }
}

fn is_password(description: &str) -> bool {
    let name = description.split(';').next().unwrap_or(description);
    PASSWORD_ATTRIBUTES.iter().any(|password| password.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use ldap::FilterBuf;

    use super::*;

    #[test]
    fn filters_on_passwords_are_withheld() {
        let check = |text: &str, withheld: bool| {
            let filter = FilterBuf::parse(text).unwrap();
            let shown = filter_text(&filter.as_filter());
            assert_eq!(shown.contains("withheld"), withheld, "{shown}");
            assert_eq!(shown.contains("secret"), !withheld && text.contains("secret"), "{shown}");
        };
        check("(cn=secret)", false);
        check("(userPassword=*)", false);
        check("(userPassword=secret)", true);
        check("(USERPASSWORD;x-a=secret)", true);
        check("(&(cn=a)(|(b=c)(!(2.5.4.35=secret))))", true);
        check("(userPassword=sec*ret)", true);
        check("(userPassword:octetStringMatch:=secret)", true);
        check("(authPassword>=secret)", true);
    }

    #[test]
    fn long_filters_are_cut_and_control_characters_escaped() {
        let long = format!("(cn={})", "é".repeat(2_000));
        let filter = FilterBuf::parse(&long).unwrap();
        assert!(filter_text(&filter.as_filter()).len() <= FILTER_TEXT_MAX + 3);
        let delete = Request::Delete(ldap::DeleteRequest { entry: "cn=a\nconn=1 result=success" });
        assert_eq!(describe(&delete), " dn=\"cn=a\\nconn=1 result=success\"");
    }
}
