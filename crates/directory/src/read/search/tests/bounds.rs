//! Behavior of each control at its bounds. A table has a row for every supported control. For each bound, the row has
//! a request that exceeds the bound and in which the control is critical. No such request is answered with success.
//!
//! A new control without a row here and in the table of docs/reference/protocol.md fails this test.

use ldap::{
    AddRequest, AttributesBuf, ChangeOperation, ChangesBuf, Control, ControlsBuf, DeleteRequest,
    DereferenceSpec, FilterBuf, ListViewRequest, ListViewTarget, ModifyRequest, PersistentSearch, Request,
    ResultCode, SortKey, SyncRequest, encode_matched_values, oids,
};

use super::{Question, add};
use crate::model::limits::{
    COPY_BYTES_MAX, MESSAGE_BYTES_MAX, RIGHTS_ATTRIBUTES_MAX, SORT_BYTES_MAX, SORT_VALUES_MAX,
    SYNC_COOKIE_MAX, TREE_DELETED_MAX,
};
use crate::read::controls::{
    ControlContext, EXPLAIN, MANAGE_DSA_IT, RequestControls, SUBENTRIES, SUPPORTED_CONTROLS,
};
use crate::testing::{SUFFIX, TestDirectory};

/// Sends a request that exceeds a bound. Returns the result code of the answer.
type Exceeds = fn(&mut TestDirectory) -> ResultCode;

/// All controls. Each has a list of requests that exceed its bounds, with the expected result codes. The list is empty
/// for a control without bounds.
const BOUNDS: &[(&str, &[(Exceeds, ResultCode)])] = &[
    (MANAGE_DSA_IT, &[]),
    (oids::ASSERTION, &[]),
    (oids::PERMISSIVE_MODIFY, &[]),
    (oids::TREE_DELETE, &[(delete_a_large_tree, ResultCode::ADMIN_LIMIT_EXCEEDED)]),
    (oids::PRE_READ, &[(delete_a_large_entry, ResultCode::ADMIN_LIMIT_EXCEEDED)]),
    (
        oids::POST_READ,
        &[
            (add_a_large_entry, ResultCode::ADMIN_LIMIT_EXCEEDED),
            (change_a_setting, ResultCode::UNAVAILABLE_CRITICAL_EXTENSION),
        ],
    ),
    (oids::NO_OPERATION, &[]),
    (oids::NO_OPERATION_UNBOUNDID, &[]),
    // The session limits the number of changes: `tests/protocol/transactions.rs` of `pando` tests that.
    (oids::TRANSACTION_SPECIFICATION, &[]),
    (oids::RELAX_RULES, &[]),
    (oids::DOMAIN_SCOPE, &[]),
    // `deleted.rs` tests the bounds of this control.
    (oids::SHOW_DELETED, &[]),
    (SUBENTRIES, &[]),
    (oids::SUBENTRIES_DRAFT, &[]),
    (oids::REAL_ATTRIBUTES_ONLY, &[]),
    (oids::VIRTUAL_ATTRIBUTES_ONLY, &[]),
    (oids::DONT_USE_COPY, &[]),
    (oids::SEARCH_NO_OP, &[]),
    (oids::ENTRY_COUNT_REQUEST, &[]),
    (oids::LAZY_COMMIT, &[]),
    (oids::WHAT_FAILED, &[]),
    (oids::SEARCH_OPTIONS, &[]),
    (oids::PAGED_RESULTS, &[]),
    (
        oids::SORT_REQUEST,
        &[
            (|directory| sort(directory, "cn", SUFFIX), ResultCode::UNAVAILABLE_CRITICAL_EXTENSION),
            (sort_many_values, ResultCode::UNAVAILABLE_CRITICAL_EXTENSION),
            (|directory| sort(directory, "cn", ""), ResultCode::UNAVAILABLE_CRITICAL_EXTENSION),
        ],
    ),
    (oids::VLV_REQUEST, &[(show_the_middle, ResultCode::VIRTUAL_LIST_VIEW_ERROR)]),
    (oids::MATCHED_VALUES, &[(match_many_values, ResultCode::PROTOCOL_ERROR)]),
    (
        oids::SYNC_REQUEST,
        &[
            (|directory| synchronize(directory, SYNC_COOKIE_MAX + 1, SUFFIX), ResultCode::PROTOCOL_ERROR),
            (|directory| synchronize(directory, 0, ""), ResultCode::UNWILLING_TO_PERFORM),
        ],
    ),
    (oids::PERSISTENT_SEARCH, &[(follow_the_schema, ResultCode::UNWILLING_TO_PERFORM)]),
    (oids::PASSWORD_POLICY, &[]),
    (oids::ACCOUNT_USABILITY, &[]),
    (
        oids::DEREFERENCE,
        &[
            (dereference_much, ResultCode::ADMIN_LIMIT_EXCEEDED),
            (
                |directory| dereference(directory, "(objectClass=*)", ""),
                ResultCode::UNAVAILABLE_CRITICAL_EXTENSION,
            ),
        ],
    ),
    (oids::SESSION_TRACKING, &[]),
    (oids::PROXIED_AUTHORIZATION, &[]),
    (oids::PROXIED_AUTHORIZATION_V1, &[]),
    (oids::AUTHORIZATION_IDENTITY_REQUEST, &[]),
    (
        oids::EFFECTIVE_RIGHTS,
        &[
            (|directory| rights(directory, RIGHTS_ATTRIBUTES_MAX + 1, SUFFIX), ResultCode::PROTOCOL_ERROR),
            (|directory| rights(directory, 1, "cn=subschema"), ResultCode::UNAVAILABLE_CRITICAL_EXTENSION),
        ],
    ),
    (oids::POSITION, &[]),
    // The server, not this crate, waits for the position. It answers busy after 30 seconds.
    (oids::AT_LEAST, &[]),
    (EXPLAIN, &[(explain_the_root_dse, ResultCode::UNAVAILABLE_CRITICAL_EXTENSION)]),
];

#[test]
fn every_control_has_documented_bounds() {
    let documented = documented_controls();
    for control in SUPPORTED_CONTROLS {
        let rows = BOUNDS.iter().filter(|(oid, _)| *oid == control.oid).count();
        assert_eq!(rows, 1, "control {} ({}) has no row here", control.name, control.oid);
        assert!(
            documented.contains(&control.name.to_owned()),
            "control {} has no row in docs/reference/protocol.md, \"What an answer leaves out\"",
            control.name
        );
    }
    assert_eq!(BOUNDS.len(), SUPPORTED_CONTROLS.len());
}

#[test]
fn a_critical_control_beyond_its_bounds_never_succeeds() {
    for (oid, bounds) in BOUNDS {
        for (place, (exceed, code)) in bounds.iter().enumerate() {
            let mut directory = TestDirectory::with_suffix_entry();
            let found = exceed(&mut directory);
            assert_eq!(found, *code, "bound {place} of control {oid}");
            assert!(![ResultCode::SUCCESS, ResultCode::NO_OPERATION].contains(&found), "{oid}");
        }
    }
}

/// Returns the names in the first column of the table of controls. A cell may contain several names.
fn documented_controls() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/protocol.md");
    let page = std::fs::read_to_string(path).unwrap();
    let section = page.split("\n## What an answer leaves out\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    cells.flat_map(|cell| cell.split("; ")).map(str::to_owned).collect()
}

fn critical(oid: &str, value: Option<&[u8]>, context: ControlContext) -> Result<RequestControls, ResultCode> {
    let controls: ControlsBuf = [Control { oid, critical: true, value }].into_iter().collect();
    RequestControls::read(&controls.as_controls(), context).map_err(|outcome| outcome.code)
}

/// Returns the result code of a search with critical controls. The search may refuse the first of these controls.
fn search(
    directory: &TestDirectory,
    (base, filter): (&str, &str),
    controls: &[(&str, Option<&[u8]>)],
) -> ResultCode {
    let all = controls.iter().map(|(oid, value)| Control { oid, critical: true, value: *value });
    let all: ControlsBuf = all.collect();
    let controls = match RequestControls::read(&all.as_controls(), ControlContext::Search) {
        Ok(controls) => controls,
        Err(outcome) => return outcome.code,
    };
    let scope = if base == SUFFIX { ldap::Scope::WholeSubtree } else { ldap::Scope::BaseObject };
    Question { controls, ..Question::new(base, scope, filter) }.attributes(&["*"]).run(directory).code
}

fn change(
    directory: &mut TestDirectory,
    request: &Request<'_>,
    oid: &str,
    value: Option<&[u8]>,
) -> ResultCode {
    let controls = match critical(oid, value, ControlContext::of(request)) {
        Ok(controls) => controls,
        Err(code) => return code,
    };
    let stamp = directory.stamp();
    directory.execute_with(request, &controls, &stamp).code
}

/// Value of a pre-read or post-read control that selects all user attributes.
const ALL: Option<&[u8]> = Some(&[0x30, 3, 4, 1, b'*']);

fn delete_a_large_tree(directory: &mut TestDirectory) -> ResultCode {
    let top = format!("ou=top,{SUFFIX}");
    add(directory, &top, &[("objectClass", &["organizationalUnit"])]);
    for number in 0..=TREE_DELETED_MAX {
        add(directory, &format!("ou={number},{top}"), &[("objectClass", &["organizationalUnit"])]);
    }
    let code = change(directory, &Request::Delete(DeleteRequest { entry: &top }), oids::TREE_DELETE, None);
    assert!(directory.read(&top).is_some());
    code
}

const LARGE: &str = "cn=large,dc=example,dc=com";

fn large_device(directory: &mut TestDirectory, control: Option<&str>) -> ResultCode {
    let description = "x".repeat(COPY_BYTES_MAX);
    let mut attributes = AttributesBuf::new();
    attributes.push("objectClass", ["device"]);
    attributes.push("description", [&description]);
    let request = Request::Add(AddRequest { entry: LARGE, attributes: attributes.as_attributes() });
    match control {
        Some(oid) => change(directory, &request, oid, ALL),
        None => directory.execute(&request).code,
    }
}

fn delete_a_large_entry(directory: &mut TestDirectory) -> ResultCode {
    assert_eq!(large_device(directory, None), ResultCode::SUCCESS);
    let code = change(directory, &Request::Delete(DeleteRequest { entry: LARGE }), oids::PRE_READ, ALL);
    assert!(directory.read(LARGE).is_some());
    code
}

fn add_a_large_entry(directory: &mut TestDirectory) -> ResultCode {
    let code = large_device(directory, Some(oids::POST_READ));
    assert_eq!(directory.read(LARGE), None);
    code
}

fn change_a_setting(directory: &mut TestDirectory) -> ResultCode {
    let mut changes = ChangesBuf::new();
    changes.push(ChangeOperation::Replace, "pandoAccessRule", ["all: allow read to anyone"]);
    let request = Request::Modify(ModifyRequest { object: "cn=config", changes: changes.as_changes() });
    change(directory, &request, oids::POST_READ, ALL)
}

/// Adds people whose names together exceed the memory that a search may use to sort.
fn add_long_names(directory: &mut TestDirectory) {
    let long = "x".repeat(400);
    for number in 0..SORT_BYTES_MAX / 400 + 20 {
        let (dn, name) = (format!("uid={number},{SUFFIX}"), format!("{long} {number}"));
        add(directory, &dn, &[("objectClass", &["inetOrgPerson"]), ("cn", &[&name]), ("sn", &["x"])]);
    }
}

fn sort_by(key: SortKey<'_>) -> Vec<u8> {
    SortKey::encode_list(&[key])
}

fn sort(directory: &mut TestDirectory, attribute: &str, base: &str) -> ResultCode {
    add_long_names(directory);
    let keys = sort_by(SortKey { attribute, rule: None, reverse: false });
    search(directory, (base, "(objectClass=*)"), &[(oids::SORT_REQUEST, Some(&keys))])
}

fn sort_many_values(directory: &mut TestDirectory) -> ResultCode {
    let values: Vec<String> = (0..=SORT_VALUES_MAX).map(|number| number.to_string()).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    add(directory, LARGE, &[("objectClass", &["device"]), ("description", &values)]);
    let rule = Some("caseExactOrderingMatch");
    let keys = sort_by(SortKey { attribute: "description", rule, reverse: false });
    search(directory, (SUFFIX, "(objectClass=*)"), &[(oids::SORT_REQUEST, Some(&keys))])
}

fn show_the_middle(directory: &mut TestDirectory) -> ResultCode {
    add_long_names(directory);
    let keys = sort_by(SortKey { attribute: "cn", rule: None, reverse: false });
    let target = ListViewTarget::Offset { offset: 5, count: 9 };
    let window = ListViewRequest { before: 0, after: 2, target, context: None }.encode();
    let controls = [(oids::SORT_REQUEST, Some(&*keys)), (oids::VLV_REQUEST, Some(&*window))];
    search(directory, (SUFFIX, "(objectClass=person)"), &controls)
}

fn match_many_values(directory: &mut TestDirectory) -> ResultCode {
    let item = FilterBuf::parse("(cn=x)").unwrap();
    let items = encode_matched_values(std::iter::repeat_n(item.as_filter(), 101));
    search(directory, (SUFFIX, "(objectClass=*)"), &[(oids::MATCHED_VALUES, Some(&items))])
}

fn synchronize(directory: &mut TestDirectory, cookie_size: usize, base: &str) -> ResultCode {
    let cookie = vec![b'x'; cookie_size];
    let cookie = (cookie_size > 0).then_some(&*cookie);
    let value = SyncRequest { persists: false, cookie, reload_hint: false }.encode();
    search(directory, (base, "(objectClass=*)"), &[(oids::SYNC_REQUEST, Some(&value))])
}

fn follow_the_schema(directory: &mut TestDirectory) -> ResultCode {
    let change_types = PersistentSearch::ALL_TYPES;
    let value = PersistentSearch { change_types, changes_only: true, returns_entry_changes: true }.encode();
    search(directory, ("cn=subschema", "(objectClass=*)"), &[(oids::PERSISTENT_SEARCH, Some(&value))])
}

fn dereference(directory: &mut TestDirectory, filter: &str, base: &str) -> ResultCode {
    let specs = [DereferenceSpec { attribute: "member", wanted: vec!["description"] }];
    let value = DereferenceSpec::encode_list(&specs);
    search(directory, (base, filter), &[(oids::DEREFERENCE, Some(&value))])
}

fn dereference_much(directory: &mut TestDirectory) -> ResultCode {
    let long = "x".repeat(200_000);
    let names: Vec<String> =
        (0..=MESSAGE_BYTES_MAX / long.len()).map(|number| format!("cn={number},{SUFFIX}")).collect();
    for name in &names {
        add(directory, name, &[("objectClass", &["device"]), ("description", &[&long])]);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    add(directory, LARGE, &[("objectClass", &["groupOfNames"]), ("member", &names)]);
    dereference(directory, "(cn=large)", SUFFIX)
}

/// Searches with a GetEffectiveRights control for the requester's own rights to `attribute_count` attributes.
fn rights(directory: &mut TestDirectory, attribute_count: usize, base: &str) -> ResultCode {
    let mut value = Vec::new();
    let mut writer = ber::Writer::new(&mut value);
    let fields = writer.begin(ber::Tag::SEQUENCE);
    writer.octet_string(b"dn:");
    let attributes = writer.begin(ber::Tag::SEQUENCE);
    (0..attribute_count).for_each(|_| writer.octet_string(b"cn"));
    writer.end(attributes);
    writer.end(fields);
    search(directory, (base, "(objectClass=*)"), &[(oids::EFFECTIVE_RIGHTS, Some(&value))])
}

fn explain_the_root_dse(directory: &mut TestDirectory) -> ResultCode {
    search(directory, ("", "(objectClass=*)"), &[(EXPLAIN, None)])
}
