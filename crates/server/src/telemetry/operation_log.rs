//! The optional log line for each operation: the request, its connection, and the result.
//!
//! The text about a request is made when it arrives, because the request is gone when its operation ends. Without the
//! setting, no text is made and no clock is read.

use std::fmt::Write;
use std::time::Instant;

use directory::identity::proxied_identity;
use ldap::{Authentication, Dn, Filter, FilterKind, Message, MessageId, Request, ResultCode, Scope};

use crate::telemetry::counters::Operation;

/// Longest text of a filter or a name in a line. The rest is cut off.
const TEXT_SIZE_MAX: usize = 1_024;

/// Longest OID in a line.
const OID_SIZE_MAX: usize = 128;

/// Attributes whose asserted values are credentials, by name and OID.
const PASSWORD_ATTRIBUTES: [&str; 7] = [
    "userPassword",
    "2.5.4.35",
    "authPassword",
    "1.3.6.1.4.1.4203.1.3.4",
    "pwdHistory",
    "1.3.6.1.4.1.42.2.27.8.1.20",
    "unicodePwd",
];

/// The first part of a line, kept until the operation ends.
#[derive(Debug)]
pub(crate) struct OperationLine {
    started: Instant,
    request: String,
}

impl OperationLine {
    /// `is_known` says which attribute types the schema knows. An unknown one may be a value in the wrong place.
    pub(crate) fn begin(message: &Message<'_>, is_known: &dyn Fn(&str) -> bool) -> Box<OperationLine> {
        let mut request = describe(&message.request, is_known);
        if let Ok(Some(identity)) = proxied_identity(&message.controls) {
            let _ = write!(request, " authzid={:?}", cut(identity));
        }
        Box::new(OperationLine { started: Instant::now(), request })
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

/// The request without values that may be secret. Text of the peer is quoted, with control characters escaped, so that
/// it cannot forge a line.
fn describe(request: &Request<'_>, is_known: &dyn Fn(&str) -> bool) -> String {
    let mut text = String::new();
    let name = |text| name_text(text, is_known);
    // Writing to a String cannot fail.
    let _ = match request {
        Request::Bind(bind) => {
            write!(text, " dn={:?} method={}", name(bind.name), method(&bind.authentication))
        }
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
                name(search.base_object),
                filter_text(&search.filter, is_known)
            )
        }
        Request::Modify(modify) => write!(text, " dn={:?}", name(modify.object)),
        Request::Add(add) => write!(text, " dn={:?}", name(add.entry)),
        Request::Delete(delete) => write!(text, " dn={:?}", name(delete.entry)),
        Request::ModifyDn(modify_dn) => {
            let superior = modify_dn.new_superior.map_or_else(|| "-".to_owned(), name);
            let (entry, rdn) = (name(modify_dn.entry), name(modify_dn.new_rdn));
            write!(text, " dn={entry:?} rdn={rdn:?} superior={superior:?}")
        }
        Request::Compare(compare) => {
            let attribute = match is_known(base_of(compare.description)) {
                true => compare.description,
                false => "withheld, the schema does not know it",
            };
            write!(text, " dn={:?} attribute={attribute:?}", name(compare.entry))
        }
        Request::Abandon(id) => write!(text, " abandoned={id}"),
        Request::Extended(extended) => write!(text, " oid={:?}", oid_text(extended.name)),
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

fn filter_text(filter: &Filter<'_>, is_known: &dyn Fn(&str) -> bool) -> String {
    if may_assert_password(filter, is_known) {
        return "withheld, it may assert a password".to_owned();
    }
    cut(filter.to_string())
}

/// A DN or RDN, or a note if it may contain a password: if it is no name (people type their password where the name
/// belongs), or has a password attribute or a type that the schema does not know.
fn name_text(text: &str, is_known: &dyn Fn(&str) -> bool) -> String {
    let Ok(dn) = Dn::parse(text) else { return "withheld, it is no name".to_owned() };
    let mut types = dn.rdns().flat_map(|rdn| rdn.avas).map(|ava| ava.attribute);
    if types.any(|attribute| is_password(attribute) || !is_known(attribute)) {
        return "withheld, it may contain a password".to_owned();
    }
    cut(text.to_owned())
}

/// The name of an extended operation, or a note if it is no numeric OID.
fn oid_text(name: &str) -> &str {
    let is_oid = name.len() <= OID_SIZE_MAX && name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_oid { name } else { "withheld, it is no OID" }
}

fn cut(mut text: String) -> String {
    if text.len() > TEXT_SIZE_MAX {
        let end = (0..=TEXT_SIZE_MAX).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
    text
}

/// Whether a filter may assert a value of a password attribute. A matching rule without an attribute applies to all
/// attributes (RFC 4511 section 4.5.1.7.7), and a type that the schema does not know may be misspelt. Recurses as deep
/// as the decoder lets a filter nest.
fn may_assert_password(filter: &Filter<'_>, is_known: &dyn Fn(&str) -> bool) -> bool {
    let is_password = |description: &str| is_password(description) || !is_known(base_of(description));
    match filter.kind() {
        FilterKind::And(list) | FilterKind::Or(list) => {
            list.iter().any(|filter| may_assert_password(&filter, is_known))
        }
        FilterKind::Not(filter) => may_assert_password(&filter, is_known),
        FilterKind::EqualityMatch(assertion)
        | FilterKind::GreaterOrEqual(assertion)
        | FilterKind::LessOrEqual(assertion)
        | FilterKind::ApproxMatch(assertion) => is_password(assertion.description),
        FilterKind::Substrings(substrings) => is_password(substrings.description),
        FilterKind::ExtensibleMatch(extensible) => extensible.description.is_none_or(is_password),
        FilterKind::Present(description) => !is_known(base_of(description)),
        FilterKind::Unrecognized(_) => false,
    }
}

fn is_password(description: &str) -> bool {
    let name = base_of(description);
    PASSWORD_ATTRIBUTES.iter().any(|password| password.eq_ignore_ascii_case(name))
}

/// An attribute description without its options.
fn base_of(description: &str) -> &str {
    description.split(';').next().unwrap_or(description)
}

#[cfg(test)]
mod tests {
    use ldap::FilterBuf;

    use super::*;

    fn is_known(name: &str) -> bool {
        schema::Schema::shipped().attribute_type(name).is_some()
    }

    /// The story: names with a password in them, and passwords where a name belongs, were logged.
    #[test]
    fn names_that_may_hold_passwords_are_withheld() {
        let bind =
            |name| ldap::BindRequest { version: 3, name, authentication: Authentication::Simple(b"secret") };
        let rename = |entry, new_rdn, new_superior| {
            Request::ModifyDn(ldap::ModifyDnRequest { entry, new_rdn, delete_old_rdn: true, new_superior })
        };
        let compare = |description| {
            Request::Compare(ldap::CompareRequest { entry: "cn=a", description, value: b"secret" })
        };
        for request in [
            Request::Bind(bind("cn=a")),
            Request::Bind(bind("secret")),
            Request::Bind(bind("userPassword=secret,dc=example")),
            Request::Bind(bind("cn=a+2.5.4.35=secret,dc=example")),
            Request::Delete(ldap::DeleteRequest { entry: "userPasword=secret" }),
            rename("cn=a", "userPassword=secret", None),
            rename("cn=a", "cn=b", Some("authPassword=secret")),
            rename("pwdHistory=secret", "cn=b", None),
            compare("secret"),
            Request::Extended(ldap::ExtendedRequest { name: "secret", value: Some(b"secret") }),
        ] {
            let line = describe(&request, &is_known);
            assert!(!line.contains("secret"), "{line}");
        }
        assert_eq!(describe(&compare("cn;lang-de"), &is_known), " dn=\"cn=a\" attribute=\"cn;lang-de\"");
        let long = format!("cn={}", "x".repeat(100_000));
        assert!(describe(&Request::Delete(ldap::DeleteRequest { entry: &long }), &is_known).len() < 1_100);
    }

    #[test]
    fn filters_on_passwords_are_withheld() {
        let check = |text: &str, withheld: bool| {
            let filter = FilterBuf::parse(text).unwrap();
            let shown = filter_text(&filter.as_filter(), &is_known);
            assert_eq!(shown.contains("withheld"), withheld, "{shown}");
            assert_eq!(shown.contains("secret"), !withheld && text.contains("secret"), "{shown}");
        };
        check("(cn=secret)", false);
        check("(:octetStringMatch:=secret)", true);
        check("(userPasword=secret)", true);
        check("(!(secret=*))", true);
        check("(userPassword=*)", false);
        check("(userPassword=secret)", true);
        check("(USERPASSWORD;x-a=secret)", true);
        check("(&(cn=a)(|(sn=c)(!(2.5.4.35=secret))))", true);
        check("(userPassword=sec*ret)", true);
        check("(userPassword:octetStringMatch:=secret)", true);
        check("(authPassword>=secret)", true);
    }

    #[test]
    fn long_filters_are_cut_and_control_characters_escaped() {
        let long = format!("(cn={})", "é".repeat(2_000));
        let filter = FilterBuf::parse(&long).unwrap();
        assert!(filter_text(&filter.as_filter(), &is_known).len() <= TEXT_SIZE_MAX + 3);
        let delete = Request::Delete(ldap::DeleteRequest { entry: "cn=a\nconn=1 result=success" });
        assert_eq!(describe(&delete, &is_known), " dn=\"cn=a\\nconn=1 result=success\"");
    }
}
