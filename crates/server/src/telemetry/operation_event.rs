//! The description of an operation as the fields of an event. The audit trail stores the event, and the operation log
//! converts it to a line.
//!
//! The fields are written when the request arrives, because the request is not kept until its operation ends. Values
//! that may be secret are already omitted here. Therefore no later step can reveal them.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

use audit::{Event, EventWriter, Field, Kind};
use directory::Requester;
use ldap::oids::VERIFY_CREDENTIALS;
use ldap::{
    Authentication, Controls, DecodeLimits, Dn, Filter, FilterKind, Request, Scope, VerifyCredentials,
};

use replication::OperationId;

use crate::limits::{AUDIT_ATTRIBUTES_MAX, AUDIT_TEXT_SIZE_MAX, TRACKING_MAX, TRACKING_SIZE_MAX};
use crate::telemetry::counters::Operation;
use crate::telemetry::traces::Stage;

/// Maximum length of an OID in an event.
const OID_SIZE_MAX: usize = 128;

/// The fields of an event for one session tracking control, in the order of the control's own fields.
const TRACKING: [Field; 4] =
    [Field::TrackingAddress, Field::TrackingName, Field::TrackingFormat, Field::TrackingIdentifier];

/// The event of an operation that has begun and not finished.
#[derive(Debug)]
pub(crate) struct OperationEvent {
    pub(crate) started: Instant,
    pub(crate) kind: Kind,
    /// The requester under whose identity the operation runs, which may come from a proxied authorization control.
    pub(crate) requester: Arc<Requester>,
    /// The fields that are known from the request, encoded.
    pub(crate) fields: Vec<u8>,
    /// Whether the operation is audited.
    pub(crate) is_audited: bool,
    /// Whether the operation was sampled. A sampled operation is traced, whatever its duration.
    pub(crate) is_sampled: bool,
    /// Time at which the plan of the search was ready. Only set for a search that may be traced.
    pub(crate) planned: Option<Instant>,
    /// The completed stages of the operation in other threads, and the delays of the operation.
    pub(crate) stages: Vec<Stage>,
    /// The id under which another server forwarded this operation to this server.
    pub(crate) received: Option<OperationId>,
    /// The id under which this server forwarded the operation to another server.
    pub(crate) forwarded: Option<OperationId>,
    /// The reason why the operation failed. Only set if it is more precise than the result.
    pub(crate) reason: Option<String>,
}

/// Returns the event kind of an operation.
pub(crate) fn kind_of(operation: Operation) -> Kind {
    match operation {
        Operation::BIND => Kind::Bind,
        Operation::UNBIND => Kind::Unbind,
        Operation::SEARCH => Kind::Search,
        Operation::MODIFY => Kind::Modify,
        Operation::ADD => Kind::Add,
        Operation::DELETE => Kind::Delete,
        Operation::MODIFY_DN => Kind::ModifyDn,
        Operation::COMPARE => Kind::Compare,
        Operation::ABANDON => Kind::Abandon,
        _ => Kind::Extended,
    }
}

/// Returns the DN that the request applies to, as the client sent it.
pub(crate) fn target_of<'a>(request: &Request<'a>) -> &'a str {
    match request {
        Request::Bind(bind) => bind.name,
        Request::Search(search) => search.base_object,
        Request::Modify(modify) => modify.object,
        Request::Add(add) => add.entry,
        Request::Delete(delete) => delete.entry,
        Request::ModifyDn(modify_dn) => modify_dn.entry,
        Request::Compare(compare) => compare.entry,
        Request::Unbind | Request::Abandon(_) | Request::Extended(_) => "",
    }
}

/// Whether an attribute type in a request is known, and whether its values are secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TypeNamed {
    /// The schema does not contain the type. The text may be a value that the client sent in the wrong field.
    Unknown,
    /// Values of the type may be shown.
    Open,
    /// Values of the type are secrets.
    Secret,
}

/// Decides which names and filters an event may contain.
pub(crate) struct Disclosure<'a> {
    /// Classifies an attribute type by its name.
    pub(crate) type_named: &'a dyn Fn(&str) -> TypeNamed,
    /// The last search base that an event was allowed to contain. It is cached because clients often use the same base
    /// again.
    pub(crate) last_base: &'a RefCell<String>,
}

impl Disclosure<'_> {
    /// Returns true if the schema contains the attribute type in `description`.
    fn knows(&self, description: &str) -> bool {
        (self.type_named)(base_of(description)) != TypeNamed::Unknown
    }

    /// Returns true if an event may contain values of `description`.
    fn shows(&self, description: &str) -> bool {
        (self.type_named)(base_of(description)) == TypeNamed::Open
    }
}

/// Appends the fields that describe a request to `event`. Omits values that may be secret.
pub(crate) fn describe(
    request: &Request<'_>,
    controls: &Controls<'_>,
    disclosure: &Disclosure<'_>,
    event: &mut EventWriter<'_>,
) {
    describe_request(request, disclosure, event);
    if !controls.is_empty() {
        if let Ok(Some(identity)) = directory::identity::proxied_identity(controls) {
            event.text(Field::ActsAs, &cut(identity.to_owned()));
        }
        put_tracking(&session_tracking(controls), event);
    }
}

/// Appends the fields of session tracking controls to `event`. Every control has all of its fields, in order. Therefore
/// a reader can separate the controls.
pub(crate) fn put_tracking(tracking: &[[String; 4]], event: &mut EventWriter<'_>) {
    for parts in tracking {
        for (field, text) in TRACKING.iter().zip(parts) {
            event.text(*field, text);
        }
    }
}

fn describe_request(request: &Request<'_>, disclosure: &Disclosure<'_>, event: &mut EventWriter<'_>) {
    let mut count = 0;
    let mut attribute = |event: &mut EventWriter<'_>, description: &str| {
        count += 1;
        if count <= AUDIT_ATTRIBUTES_MAX && description.len() <= OID_SIZE_MAX {
            let is_shown = matches!(description, "*" | "+" | "1.1") || disclosure.knows(description);
            event.text(Field::Attribute, if is_shown { description } else { WITHHELD_ATTRIBUTE });
        }
    };
    match request {
        Request::Bind(bind) => {
            // The target is recorded here only if a simple bind contains a DN, or a SASL bind contains a name.
            // Otherwise the user is known only after the bind.
            let is_sasl = matches!(bind.authentication, Authentication::Sasl { .. });
            if if is_sasl { !bind.name.is_empty() } else { is_dn(bind.name) } {
                event.text(Field::Target, &name_text(bind.name, disclosure));
            }
            event.text(Field::Method, method(&bind.authentication));
        }
        Request::Unbind => {}
        Request::Search(search) => {
            let scope = match search.scope {
                Scope::BaseObject => 0,
                Scope::SingleLevel => 1,
                Scope::WholeSubtree => 2,
                Scope::Subordinate => 3,
            };
            let base = search.base_object;
            if *disclosure.last_base.borrow() == base {
                event.text(Field::Target, base);
            } else {
                let text = name_text(base, disclosure);
                event.text(Field::Target, &text);
                if text == base {
                    *disclosure.last_base.borrow_mut() = text.into_owned();
                }
            }
            event.number(Field::Scope, scope);
            describe_filter(&search.filter, disclosure, event);
            search.attributes.iter().for_each(|description| attribute(event, description));
        }
        Request::Modify(modify) => {
            event.text(Field::Target, &name_text(modify.object, disclosure));
            modify.changes.iter().for_each(|change| attribute(event, change.attribute.description));
        }
        Request::Add(add) => {
            event.text(Field::Target, &name_text(add.entry, disclosure));
            add.attributes.iter().for_each(|given| attribute(event, given.description));
        }
        Request::Delete(delete) => {
            event.text(Field::Target, &name_text(delete.entry, disclosure));
        }
        Request::ModifyDn(modify_dn) => {
            event
                .text(Field::Target, &name_text(modify_dn.entry, disclosure))
                .text(Field::Name, &name_text(modify_dn.new_rdn, disclosure));
            if let Some(superior) = modify_dn.new_superior {
                event.text(Field::Superior, &name_text(superior, disclosure));
            }
        }
        Request::Compare(compare) => {
            event.text(Field::Target, &name_text(compare.entry, disclosure));
            attribute(event, compare.description);
        }
        Request::Abandon(id) => {
            event.number(Field::Count, u64::try_from(id.0).unwrap_or(0));
        }
        Request::Extended(extended) => {
            event.text(Field::Name, oid_text(extended.name));
            if extended.name == VERIFY_CREDENTIALS
                && let Some(decoded) = VerifyCredentials::decode(extended.value)
                && is_dn(decoded.bind.name)
            {
                event.text(Field::Target, &name_text(decoded.bind.name, disclosure));
            }
        }
    }
}

const WITHHELD_ATTRIBUTE: &str = "withheld, the schema does not know it";

/// Appends a filter to `event`. It is copied as BER, which is fast. If it must be shortened or withheld, it is appended
/// as text.
fn describe_filter(filter: &Filter<'_>, disclosure: &Disclosure<'_>, event: &mut EventWriter<'_>) {
    if filter.encoded_len() > AUDIT_TEXT_SIZE_MAX || may_assert_password(filter, disclosure) {
        event.text(Field::FilterText, &filter_text(filter, disclosure));
        return;
    }
    event.put(Field::Filter, filter.encoded_len(), |out| filter.encode(out));
}

/// Returns the fields of the first [`TRACKING_MAX`] session tracking controls in a request (draft-wahl-ldap-session
/// section 2.1): source address, source name, OID of the format, and identifier. Malformed controls are omitted, as
/// section 2.3 requires. Long fields are shortened.
pub(crate) fn session_tracking(controls: &Controls<'_>) -> Vec<[String; 4]> {
    let tracking = controls.iter().filter(|control| control.oid == ldap::oids::SESSION_TRACKING);
    tracking.take(TRACKING_MAX).filter_map(|control| tracking_parts(control.value?)).collect()
}

fn tracking_parts(value: &[u8]) -> Option<[String; 4]> {
    let mut sequence = ber::Reader::new(value).sequence(ber::Tag::SEQUENCE).ok()?;
    let mut parts = <[String; 4]>::default();
    for part in &mut parts {
        let octets = sequence.octet_string().ok()?;
        let octets = octets.get(..TRACKING_SIZE_MAX).unwrap_or(octets);
        *part = String::from_utf8_lossy(octets).into_owned();
    }
    Some(parts)
}

/// Returns the line of the operation log about an event.
pub(crate) fn operation_line(event: Event<'_>) -> String {
    operation_line_with(event, None)
}

/// Returns the line of the operation log about an event. If `filter` is set, the line contains it in place of the
/// event's filter.
pub(crate) fn operation_line_with(event: Event<'_>, filter: Option<&str>) -> String {
    let mut line = String::new();
    let number = |field| event.number(field).unwrap_or(0);
    let (connection, id) = (number(Field::Connection), number(Field::MessageId));
    let name = event.kind().map_or("unknown", Kind::name).to_ascii_lowercase();
    // Writing to a `String` cannot fail.
    let _ = write!(line, "conn={connection} op={id} {name}");
    operation_text(event, filter, &mut line);
    let code = u32::try_from(number(Field::Result)).unwrap_or(u32::MAX);
    let _ = write!(line, " result={}", ldap::ResultCode(code));
    if let Some(entries) = event.number(Field::Entries) {
        let _ = write!(line, " entries={entries}");
    }
    let _ = write!(line, " micros={}", number(Field::Took));
    line
}

/// Appends the description of the request to `line`. Text from the client is quoted and its control characters are
/// escaped. Otherwise a client could forge a line of the log.
fn operation_text(event: Event<'_>, filter: Option<&str>, line: &mut String) {
    let mut put = |name: &str, field| {
        if let Some(text) = event.text(field) {
            let _ = write!(line, " {name}={text:?}");
        }
    };
    put("dn", Field::Target);
    match event.kind() {
        Some(Kind::Bind) => {
            let method = event.text(Field::Method).unwrap_or_default();
            let _ = write!(line, " method={method}");
        }
        Some(Kind::Search) => {
            let scope = scope_name(event.number(Field::Scope).unwrap_or(0));
            let filter = filter.map_or_else(|| logged_filter(event), str::to_owned);
            let _ = write!(line, " scope={scope} filter={filter:?}");
        }
        Some(Kind::ModifyDn) => {
            let superior = event.text(Field::Superior);
            put("rdn", Field::Name);
            let _ = write!(line, " superior={:?}", superior.as_deref().unwrap_or("-"));
        }
        Some(Kind::Compare) => put("attribute", Field::Attribute),
        Some(Kind::Abandon) => {
            let _ = write!(line, " abandoned={}", event.number(Field::Count).unwrap_or(0));
        }
        Some(Kind::Extended) => put("oid", Field::Name),
        _ => {}
    }
    if let Some(identity) = event.text(Field::ActsAs) {
        let _ = write!(line, " authzid={identity:?}");
    }
}

/// Returns the name of a search scope, as the option `-s` of `ldapsearch` accepts it.
pub fn scope_name(scope: u64) -> &'static str {
    match scope {
        0 => "base",
        1 => "one",
        2 => "sub",
        _ => "children",
    }
}

/// Returns the filter of an event as text (RFC 4515).
pub fn logged_filter(event: Event<'_>) -> String {
    match event.bytes(Field::Filter) {
        Some(bytes) => Filter::from_bytes(bytes, &DecodeLimits::AUTHENTICATED)
            .map_or_else(|_| "unreadable".to_owned(), |filter| filter.to_string()),
        None => event.text(Field::FilterText).unwrap_or_default().into_owned(),
    }
}

/// Returns the method of a bind. Omits the name of an unknown mechanism, because a client may send any text as the
/// name.
fn method(authentication: &Authentication<'_>) -> &'static str {
    match authentication {
        Authentication::Simple(b"") => "none",
        Authentication::Simple(_) => "simple",
        Authentication::Sasl { mechanism, .. } => match directory::BindMethod::of_mechanism(mechanism) {
            directory::BindMethod::Sasl(known) => known.name(),
            directory::BindMethod::MailToken => directory::bind::MAIL_TOKEN,
            _ => "sasl",
        },
        Authentication::Unrecognized(_) => "unknown",
    }
}

fn filter_text(filter: &Filter<'_>, disclosure: &Disclosure<'_>) -> String {
    if may_assert_password(filter, disclosure) {
        return "withheld, it may assert a password".to_owned();
    }
    cut(filter.to_string())
}

/// The text that an event contains in place of a text that is not a DN.
pub(crate) const NO_NAME: &str = "withheld, not a valid name";

/// Returns true if a text is a DN.
pub(crate) fn is_dn(text: &str) -> bool {
    Dn::parse(text).is_ok()
}

/// Returns a DN or RDN, or a note in its place if it may contain a password. A long text is shortened. The text may
/// contain a password in these cases: it is not a DN, because users type passwords into the wrong field; it contains a
/// password attribute; or it contains an attribute type that is not in the schema.
fn name_text<'t>(text: &'t str, disclosure: &Disclosure<'_>) -> Cow<'t, str> {
    let Ok(dn) = Dn::parse(text) else { return NO_NAME.into() };
    let mut types = dn.rdns().flat_map(|rdn| rdn.avas).map(|ava| ava.attribute);
    if types.any(|attribute| !disclosure.shows(attribute)) {
        return "withheld, it may contain a password".into();
    }
    if text.len() > AUDIT_TEXT_SIZE_MAX { cut(text.to_owned()).into() } else { text.into() }
}

/// Returns the OID of an extended operation, or a note in its place if the text is too long or not a numeric OID.
fn oid_text(name: &str) -> &str {
    let is_oid = name.len() <= OID_SIZE_MAX && name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_oid { name } else { "withheld, it is no OID" }
}

fn cut(mut text: String) -> String {
    if text.len() > AUDIT_TEXT_SIZE_MAX {
        let end = (0..=AUDIT_TEXT_SIZE_MAX).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
    text
}

/// Returns true if a filter may contain a value of a password attribute. A matching rule without an attribute type
/// applies to all attributes (RFC 4511 section 4.5.1.7.7), and a type that is not in the schema may be a misspelled
/// type. The decoder bounds the depth of the filter, and therefore also the recursion.
fn may_assert_password(filter: &Filter<'_>, disclosure: &Disclosure<'_>) -> bool {
    let is_password = |description: &str| !disclosure.shows(description);
    match filter.kind() {
        FilterKind::And(list) | FilterKind::Or(list) => {
            list.iter().any(|filter| may_assert_password(&filter, disclosure))
        }
        FilterKind::Not(filter) => may_assert_password(&filter, disclosure),
        FilterKind::EqualityMatch(assertion)
        | FilterKind::GreaterOrEqual(assertion)
        | FilterKind::LessOrEqual(assertion)
        | FilterKind::ApproxMatch(assertion) => is_password(assertion.description),
        FilterKind::Substrings(substrings) => is_password(substrings.description),
        FilterKind::ExtensibleMatch(extensible) => extensible.description.is_none_or(is_password),
        FilterKind::Present(description) => !disclosure.knows(description),
        FilterKind::Unrecognized(_) => false,
    }
}

/// Returns the attribute type of a description, without the options.
fn base_of(description: &str) -> &str {
    description.split(';').next().unwrap_or(description)
}

#[cfg(test)]
mod tests {
    use ldap::FilterBuf;

    use super::*;

    /// Classifies the types in these tests: userPassword, authPassword, pwdHistory and nisSecretKey are secret.
    fn type_named(name: &str) -> TypeNamed {
        const SECRETS: [&str; 4] =
            ["2.5.4.35", "1.3.6.1.4.1.4203.1.3.4", "1.3.6.1.4.1.42.2.27.8.1.20", "1.3.6.1.1.1.1.29"];
        match schema::Schema::shipped().attribute_type(name) {
            None => TypeNamed::Unknown,
            Some(known) if SECRETS.contains(&known.oid.as_str()) => TypeNamed::Secret,
            Some(_) => TypeNamed::Open,
        }
    }

    /// Calls `use_it` with the disclosure of these tests.
    fn disclosure<T>(use_it: impl FnOnce(&Disclosure<'_>) -> T) -> T {
        use_it(&Disclosure { type_named: &type_named, last_base: &RefCell::default() })
    }

    /// Returns the part of the log line that describes the request.
    fn log_text(request: &Request<'_>) -> String {
        let mut fields = Vec::new();
        let mut event = EventWriter::new(&mut fields);
        event.kind(kind_of(Operation::of(request.tag()).unwrap()));
        disclosure(|disclosure| describe(request, &Controls::NONE, disclosure, &mut event));
        let mut line = String::new();
        operation_text(Event::parse(&fields).unwrap(), None, &mut line);
        assert!(!String::from_utf8_lossy(&fields).contains("secret"), "{line}");
        line
    }

    /// Regression test. The log contained names with passwords in them, and passwords that a client sent as a name.
    #[test]
    fn names_that_may_contain_passwords_are_not_logged() {
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
            rename("cn=a", "nisSecretKey=secret", None),
            rename("cn=a", "cn=b", Some("authPassword=secret")),
            rename("pwdHistory=secret", "cn=b", None),
            compare("secret"),
            Request::Extended(ldap::ExtendedRequest { name: "secret", value: Some(b"secret") }),
        ] {
            let line = log_text(&request);
            assert!(!line.contains("secret"), "{line}");
        }
        assert_eq!(log_text(&compare("cn;lang-de")), " dn=\"cn=a\" attribute=\"cn;lang-de\"");
        let long = format!("cn={}", "x".repeat(100_000));
        assert!(log_text(&Request::Delete(ldap::DeleteRequest { entry: &long })).len() < 1_100);
    }

    #[test]
    fn filters_on_passwords_are_not_logged() {
        let check = |text: &str, withheld: bool| {
            let filter = FilterBuf::parse(text).unwrap();
            let disclosure = disclosure(|disclosure| filter_text(&filter.as_filter(), disclosure));
            assert_eq!(disclosure.contains("withheld"), withheld, "{disclosure}");
            assert_eq!(disclosure.contains("secret"), !withheld && text.contains("secret"), "{disclosure}");
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
        check("(NISSECRETKEY;x-a=secret)", true);
    }

    #[test]
    fn long_filters_are_cut_and_control_characters_escaped() {
        let long = format!("(cn={})", "é".repeat(2_000));
        let filter = FilterBuf::parse(&long).unwrap();
        let text = disclosure(|disclosure| filter_text(&filter.as_filter(), disclosure));
        assert!(text.len() <= AUDIT_TEXT_SIZE_MAX + 3);
        let delete = Request::Delete(ldap::DeleteRequest { entry: "cn=a\nconn=1 result=success" });
        assert_eq!(log_text(&delete), " dn=\"cn=a\\nconn=1 result=success\"");
    }
}
