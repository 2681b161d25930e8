//! The requests that make a server use most memory.

use std::fmt::Write as _;

use ldap::{
    AddRequest, AttributesBuf, Authentication, BindRequest, ChangeOperation, ChangesBuf, CompareRequest,
    Control, Controls, ControlsBuf, FilterBuf, Message, MessageId, ModifyDnRequest, ModifyRequest,
    PagedResults, Request, Scope, SearchRequest, SelectionBuf, SortKey, oids,
};

use crate::data::{MANY, PERSON, PERSON_PASSWORD};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, SUFFIX};

/// Function that returns the message with a number, counted from 0, or `None` after the last message.
pub(super) type Messages = Box<dyn Fn(usize) -> Option<Vec<u8>>>;

/// A kind of request, and parameters of the connections that send it.
pub(super) struct Shape {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) connections: usize,
    /// Whether all connections come from one address. If false, each connection has its own address.
    pub(super) one_source: bool,
    /// Name and password of the bind; `None` for anonymous.
    pub(super) bind: Option<(&'static str, &'static str)>,
    /// Whether a quick run includes this shape.
    pub(super) in_quick: bool,
    pub(super) messages: fn() -> Messages,
}

/// Default maximum number of outstanding requests of a connection.
const OUTSTANDING: usize = 1_024;

/// Slightly less than the maximum size of a message before a bind.
const LARGE: usize = 1_900_000;

/// Slightly less than the maximum size of a message after a bind.
const HUGE: usize = 15 << 20;

const PERSON_BIND: Option<(&str, &str)> = Some((PERSON, PERSON_PASSWORD));
const ADMIN_BIND: Option<(&str, &str)> = Some((ADMIN_DN, ADMIN_PASSWORD));

pub(super) const SHAPES: &[Shape] = &[
    Shape {
        name: "filters-1",
        what: "1,024 searches, each a filter of 2,040 substring terms (29.5 kB)",
        connections: 1,
        one_source: false,
        bind: None,
        in_quick: false,
        messages: || searches(OUTSTANDING, &substrings_filter(2_040), &[]),
    },
    Shape {
        name: "filters-8",
        what: "1,024 searches, each a filter of 2,040 substring terms (29.5 kB)",
        connections: 8,
        one_source: false,
        bind: None,
        in_quick: true,
        messages: || searches(OUTSTANDING, &substrings_filter(2_040), &[]),
    },
    Shape {
        name: "filters-1000",
        what: "40 searches, each a filter of 2,040 substring terms (29.5 kB)",
        connections: 1_000,
        one_source: false,
        bind: None,
        in_quick: false,
        messages: || searches(40, &substrings_filter(2_040), &[]),
    },
    Shape {
        name: "nested-filters-8",
        what: "1,024 searches, each a filter 60 deep and 1,000 wide with 2,000 names of attributes",
        connections: 8,
        one_source: false,
        bind: None,
        in_quick: false,
        messages: || searches(OUTSTANDING, &nested_filter(), &names(2_000, 10)),
    },
    Shape {
        name: "attribute-lists-8",
        what: "200 searches, each with 4,000 or 60,000 names of attributes (1.9 MB)",
        connections: 8,
        one_source: false,
        bind: None,
        in_quick: true,
        messages: || {
            let few = searches(200, &substrings_filter(1_000), &names(4_000, 460));
            let many = searches(200, &substrings_filter(1_000), &names(60_000, 10));
            Box::new(move |number| if number % 2 == 0 { few(number) } else { many(number) })
        },
    },
    Shape {
        name: "big-assertions-8",
        what: "100 searches for a value of 1.9 MB",
        connections: 8,
        one_source: false,
        bind: None,
        in_quick: true,
        messages: || {
            searches(
                100,
                &format!("(|(description=*{}*){})", "x".repeat(LARGE - 40_000), substrings_filter(1_500)),
                &[],
            )
        },
    },
    Shape {
        name: "big-names-8",
        what: "100 searches, compares and renames with names of 1.9 MB",
        connections: 8,
        one_source: false,
        bind: PERSON_BIND,
        in_quick: false,
        messages: big_names,
    },
    Shape {
        name: "unread-8",
        what: "1,000 searches for all entries and read no answer",
        connections: 8,
        one_source: false,
        bind: None,
        in_quick: false,
        messages: || searches(1_000, "(objectClass=*)", &[]),
    },
    Shape {
        name: "unread-1000",
        what: "1,000 searches for all entries and read no answer",
        connections: 1_000,
        one_source: false,
        bind: None,
        in_quick: true,
        messages: || searches(1_000, "(objectClass=*)", &[]),
    },
    Shape {
        name: "unread-1000-one-source",
        what: "1,000 searches for all entries and read no answer",
        connections: 1_000,
        one_source: true,
        bind: None,
        in_quick: false,
        messages: || searches(1_000, "(objectClass=*)", &[]),
    },
    Shape {
        name: "unfinished-200",
        what: "a message of 1.9 MB but for its last octet",
        connections: 200,
        one_source: false,
        bind: None,
        in_quick: true,
        messages: unfinished,
    },
    Shape {
        name: "unfinished-1000",
        what: "a message of 1.9 MB but for its last octet",
        connections: 1_000,
        one_source: false,
        bind: None,
        in_quick: false,
        messages: unfinished,
    },
    Shape {
        name: "unfinished-1000-one-source",
        what: "a message of 1.9 MB but for its last octet",
        connections: 1_000,
        one_source: true,
        bind: None,
        in_quick: false,
        messages: unfinished,
    },
    Shape {
        name: "candidates-8",
        what: "1,024 one-level and subtree searches with many candidates, every second one paged",
        connections: 8,
        one_source: false,
        bind: PERSON_BIND,
        in_quick: true,
        messages: candidates,
    },
    Shape {
        name: "sorted-8",
        what: "1,024 searches that sort all entries, as the administrator",
        connections: 8,
        one_source: false,
        bind: ADMIN_BIND,
        in_quick: true,
        messages: sorted,
    },
    Shape {
        name: "matched-8",
        what: "1,024 searches for all entries that hold each value against 100 items, as the administrator",
        connections: 8,
        one_source: false,
        bind: ADMIN_BIND,
        in_quick: true,
        messages: matched,
    },
    Shape {
        name: "copies-8",
        what: "1,023 changes of an entry of 240 KiB that want it back twice, as the administrator",
        connections: 8,
        one_source: false,
        bind: ADMIN_BIND,
        in_quick: true,
        messages: copies,
    },
    Shape {
        name: "followers-8",
        what: "500 persistent searches, and 500 changes, as the administrator",
        connections: 8,
        one_source: false,
        bind: ADMIN_BIND,
        in_quick: true,
        messages: followers,
    },
    Shape {
        name: "changes-8",
        what: "20 changes of 15 MiB that they may not make",
        connections: 8,
        one_source: false,
        bind: PERSON_BIND,
        in_quick: true,
        messages: || changes("description"),
    },
    Shape {
        name: "password-changes-8",
        what: "20 changes of 15 MiB with a password to be hashed",
        connections: 8,
        one_source: false,
        bind: PERSON_BIND,
        in_quick: false,
        messages: || changes("userPassword"),
    },
    Shape {
        name: "adds-8",
        what: "20 adds of 15 MiB that break the schema, as the administrator",
        connections: 8,
        one_source: false,
        bind: ADMIN_BIND,
        in_quick: false,
        messages: adds,
    },
    Shape {
        name: "binds-8",
        what: "100 binds with passwords of 4 kB and 1.9 MB",
        connections: 8,
        one_source: false,
        bind: None,
        in_quick: false,
        messages: || binds(100),
    },
    Shape {
        name: "binds-1000",
        what: "two binds with passwords of 4 kB and 1.9 MB",
        connections: 1_000,
        one_source: false,
        bind: None,
        in_quick: true,
        messages: || binds(2),
    },
];

/// Returns `(|(cn=*q0*)(cn=*q1*)...)`.
pub(super) fn substrings_filter(terms: usize) -> String {
    let mut text = "(|".to_owned();
    (0..terms).for_each(|number| write!(text, "(cn=*q{number}*)").unwrap());
    text + ")"
}

/// Returns a filter of the maximum depth, with many items at the bottom and without any indexed item.
fn nested_filter() -> String {
    let depth = 60;
    let (mut text, mut end) = (String::new(), String::new());
    for level in 0..depth {
        let (operator, not, close) = if level % 2 == 0 { ('&', "(!", ")") } else { ('|', "", "") };
        write!(text, "({operator}{not}(description=*zz{level}*){close}").unwrap();
        end.push(')');
    }
    text + &substrings_filter(1_000) + &end
}

/// Returns names of attributes with options, each slightly longer than `length`.
fn names(count: usize, length: usize) -> Vec<String> {
    (0..count).map(|number| format!("cn;lang-x{number}-{}", "a".repeat(length))).collect()
}

fn encode(number: usize, request: Request<'_>, controls: Controls<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    Message { id: MessageId(number as i32 + 1), request, controls }.encode(&mut bytes);
    bytes
}

fn search(
    number: usize,
    base: &str,
    scope: Scope,
    filter: &FilterBuf,
    selection: &SelectionBuf,
    controls: Controls<'_>,
) -> Vec<u8> {
    let request = SearchRequest::new(base, scope, filter.as_filter(), selection.as_selection());
    encode(number, Request::Search(request), controls)
}

fn searches(count: usize, filter: &str, attributes: &[String]) -> Messages {
    let filter = FilterBuf::parse(filter).unwrap();
    let selection: SelectionBuf = attributes.iter().map(String::as_str).collect();
    Box::new(move |number| {
        let whole = || search(number, SUFFIX, Scope::WholeSubtree, &filter, &selection, Controls::NONE);
        (number < count).then(whole)
    })
}

fn big_names() -> Messages {
    let filter = FilterBuf::parse(&substrings_filter(10)).unwrap();
    let selection = SelectionBuf::new();
    let long = format!("cn={},{SUFFIX}", "x".repeat(LARGE));
    // A DN with the maximum number of RDNs, each as long as the size of the message permits.
    let part = format!("cn={},", "x".repeat(LARGE / 1_100));
    let deep = format!("{}{SUFFIX}", part.repeat(1_000));
    Box::new(move |number| {
        let name = if number % 2 == 0 { &long } else { &deep };
        let request = match number % 3 {
            0 => {
                return (number < 100)
                    .then(|| search(number, name, Scope::WholeSubtree, &filter, &selection, Controls::NONE));
            }
            1 => Request::Compare(CompareRequest { entry: name, description: "cn", value: name.as_bytes() }),
            _ => {
                let new_rdn = "cn=new";
                Request::ModifyDn(ModifyDnRequest {
                    entry: name,
                    new_rdn,
                    delete_old_rdn: true,
                    new_superior: None,
                })
            }
        };
        (number < 100).then(|| encode(number, request, Controls::NONE))
    })
}

fn unfinished() -> Messages {
    let mut bytes = encode(
        0,
        Request::Compare(CompareRequest { entry: SUFFIX, description: "cn", value: &vec![b'x'; LARGE] }),
        Controls::NONE,
    );
    bytes.pop();
    Box::new(move |number| (number == 0).then(|| bytes.clone()))
}

/// Returns searches that collect and sort entry ids, with different scopes and filters. Every second search returns a
/// page.
fn candidates() -> Messages {
    let filters = ["(objectClass=device)", "(&(objectClass=*)(description=*number*))", "(cn>=m1)"];
    let filters = filters.map(|text| FilterBuf::parse(text).unwrap());
    let selection = SelectionBuf::from_iter(["description"]);
    let page = PagedResults { size: 500, cookie: &[] }.encode();
    let paged =
        ControlsBuf::from_iter([Control { oid: oids::PAGED_RESULTS, critical: true, value: Some(&page) }]);
    Box::new(move |number| {
        let scope = if number % 4 < 2 { Scope::SingleLevel } else { Scope::WholeSubtree };
        let controls = if number % 2 == 0 { paged.as_controls() } else { Controls::NONE };
        let whole = || search(number, MANY, scope, &filters[number % filters.len()], &selection, controls);
        (number < OUTSTANDING).then(whole)
    })
}

/// Returns searches for which the server holds the sort keys of all results in memory. Every second search returns a
/// page.
fn sorted() -> Messages {
    let filter = FilterBuf::parse("(objectClass=device)").unwrap();
    let selection = SelectionBuf::from_iter(["1.1"]);
    let by = |attribute, reverse| SortKey { attribute, rule: None, reverse };
    let keys = SortKey::encode_list(&[by("description", true), by("cn", false), by("entryUUID", false)]);
    let page = PagedResults { size: i32::MAX.unsigned_abs(), cookie: &[] }.encode();
    let sort = Control { oid: oids::SORT_REQUEST, critical: true, value: Some(&keys) };
    let alone = ControlsBuf::from_iter([sort]);
    let page = Control { oid: oids::PAGED_RESULTS, critical: true, value: Some(&page) };
    let paged = ControlsBuf::from_iter([sort, page]);
    Box::new(move |number| {
        let controls = if number % 2 == 0 { alone.as_controls() } else { paged.as_controls() };
        let whole = || search(number, MANY, Scope::WholeSubtree, &filter, &selection, controls);
        (number < OUTSTANDING).then(whole)
    })
}

/// Returns searches that compare each value of their candidates with the maximum number of items. No item matches.
fn matched() -> Messages {
    let filter = FilterBuf::parse("(objectClass=device)").unwrap();
    let selection = SelectionBuf::from_iter(["*", "+"]);
    let items: Vec<FilterBuf> = (0..ldap::MATCHED_ITEMS_MAX)
        .map(|number| FilterBuf::parse(&format!("(description=*n*o*{number}*t*h*i*n*g*)")).unwrap())
        .collect();
    let value = ldap::encode_matched_values(items.iter().map(FilterBuf::as_filter));
    let matched = Control { oid: oids::MATCHED_VALUES, critical: true, value: Some(&value) };
    let controls = ControlsBuf::from_iter([matched]);
    Box::new(move |number| {
        let whole = || search(number, MANY, Scope::WholeSubtree, &filter, &selection, controls.as_controls());
        (number < OUTSTANDING).then(whole)
    })
}

/// Returns searches that wait for changes (RFC 4533), each with a long filter, and changes that these searches receive.
fn followers() -> Messages {
    let filter = FilterBuf::parse(&format!("(|(objectClass=*){})", substrings_filter(500))).unwrap();
    let selection = SelectionBuf::from_iter(["*", "+"]);
    let value = ldap::SyncRequest { persists: true, cookie: None, reload_hint: false }.encode();
    let controls =
        ControlsBuf::from_iter([Control { oid: oids::SYNC_REQUEST, critical: true, value: Some(&value) }]);
    Box::new(move |number| {
        if number < 500 {
            let (base, scope) = (SUFFIX, Scope::SingleLevel);
            return Some(search(number, base, scope, &filter, &selection, controls.as_controls()));
        }
        let mut changes = ChangesBuf::new();
        changes.push(ChangeOperation::Replace, "description", [number.to_string()]);
        let modify = ModifyRequest { object: SUFFIX, changes: changes.as_changes() };
        (number < 1_000).then(|| encode(number, Request::Modify(modify), Controls::NONE))
    })
}

/// Returns changes of a large entry. The answers contain the entry before and after the change (RFC 4527). The first
/// message adds the entry.
fn copies() -> Messages {
    let entry = format!("cn=large,{SUFFIX}");
    let mut attributes = AttributesBuf::new();
    attributes.push("objectClass", ["device"]);
    attributes.push("description", ["d".repeat(240 << 10)]);
    // An empty list requests all attributes.
    let copy = |oid| Control { oid, critical: true, value: Some(&[0x30, 0]) };
    let both = ControlsBuf::from_iter([copy(oids::PRE_READ), copy(oids::POST_READ)]);
    Box::new(move |number| {
        if number == 0 {
            let add = AddRequest { entry: &entry, attributes: attributes.as_attributes() };
            return Some(encode(number, Request::Add(add), Controls::NONE));
        }
        let mut changes = ChangesBuf::new();
        changes.push(ChangeOperation::Replace, "serialNumber", [number.to_string()]);
        let modify = ModifyRequest { object: &entry, changes: changes.as_changes() };
        (number < OUTSTANDING).then(|| encode(number, Request::Modify(modify), both.as_controls()))
    })
}

/// Returns changes of the suffix entry. A new password is first hashed by the hash pool.
fn changes(attribute: &'static str) -> Messages {
    let mut list = ChangesBuf::new();
    list.push(ChangeOperation::Replace, "description", ["x".repeat(HUGE)]);
    if attribute != "description" {
        list.push(ChangeOperation::Replace, attribute, ["a new password in clear"]);
    }
    Box::new(move |number| {
        let request = Request::Modify(ModifyRequest { object: SUFFIX, changes: list.as_changes() });
        (number < 20).then(|| encode(number, request, Controls::NONE))
    })
}

fn adds() -> Messages {
    let mut attributes = AttributesBuf::new();
    attributes.push("objectClass", ["device"]);
    attributes.push("description", ["x".repeat(HUGE)]);
    Box::new(move |number| {
        let entry = format!("uid=a{number},{SUFFIX}");
        let request = Request::Add(AddRequest { entry: &entry, attributes: attributes.as_attributes() });
        (number < 20).then(|| encode(number, request, Controls::NONE))
    })
}

/// Returns binds, alternately with the longest permitted password and with a far longer password.
fn binds(count: usize) -> Messages {
    let passwords = [vec![b'x'; 4_000], vec![b'x'; LARGE]];
    Box::new(move |number| {
        let authentication = Authentication::Simple(&passwords[number % 2]);
        let request = Request::Bind(BindRequest { version: 3, name: ADMIN_DN, authentication });
        (number < count).then(|| encode(number, request, Controls::NONE))
    })
}
