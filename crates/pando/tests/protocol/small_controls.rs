//! Various controls, sent by the clients of the products that define them.

use ldap::{CompareRequest, Control, ControlsBuf, DeleteRequest, Request, ResultCode, oids};
use test_support::clients::{Run, ldap_utility, python_script, unboundid_program, unboundid_tool};
use test_support::cluster::until;
use test_support::tree::{add, person_dn, plant, replace};
use test_support::{Pando, SUFFIX, Scratch};

#[test]
fn controls_select_stored_or_computed_attributes() {
    let scratch = Scratch::new("origin");
    let pando = Pando::start(&scratch);
    plant(&mut pando.administrator());
    let search = |options: &[&str]| {
        let all = ["--baseDN", SUFFIX, "(uid=anna)", "*", "+"];
        let words = [options, &all].concat();
        unboundid_tool("unboundidds.tools.LDAPSearch", pando.address(), &words, "")
    };
    let has = |options: &[&str], stored: bool, computed: bool| {
        let found = search(options).expect_code(0).stdout;
        let names = ["uid: ", "entryUUID: ", "memberOf: ", "entryDN: "].map(|name| found.contains(name));
        assert_eq!(names, [stored, stored, computed, computed], "{options:?}: {found}");
    };
    has(&[], true, true);
    has(&["--realAttributesOnly"], true, false);
    has(&["--virtualAttributesOnly"], false, true);
    let oid = |oid: &str| format!("{oid}:true");
    let both = [oid(oids::REAL_ATTRIBUTES_ONLY), oid(oids::VIRTUAL_ATTRIBUTES_ONLY)];
    search(&["--control", &both[0], "--control", &both[1]]).expect_code(2);
    // For virtual entries, the server ignores a control that is not critical, and refuses a critical control.
    let root = |critical: &str| {
        let control = format!("{critical}{}", oids::REAL_ATTRIBUTES_ONLY);
        ldap_utility("ldapsearch", pando.address(), &["-e", &control, "-s", "base", "-b", "", "+"], "")
    };
    root("").expect_code(0).expect_output("namingContexts");
    root("!").expect_code(12);
}

#[test]
fn controls_of_drafts_and_other_vendors_are_accepted() {
    let scratch = Scratch::new("small-controls");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let subentry = format!("cn=sub,{SUFFIX}");
    let classes = [("objectClass", "subentry"), ("objectClass", "collectiveAttributeSubentry")];
    add(&mut admin, &subentry, &[classes[0], classes[1], ("cn", "sub"), ("subtreeSpecification", "{}")]);
    let search = |options: &[&str]| {
        let words = [options, &["-b", SUFFIX, "1.1"]].concat();
        ldap_utility("ldapsearch", pando.address(), &words, "")
    };
    let draft = format!("!{}", oids::SUBENTRIES_DRAFT);
    let found = search(&["-e", &draft]).expect_code(0).stdout;
    assert_eq!(found.trim(), format!("dn: {subentry}"));
    search(&["-e", &draft, "-E", "!subentries=true"]).expect_code(2);
    search(&["-E", "!dontUseCopy"]).expect_code(0).expect_output(&person_dn("anna"));
    let options = |value: &str| {
        let control = format!("{}:true::{value}", oids::SEARCH_OPTIONS);
        let words = ["--control", &control, "--baseDN", SUFFIX, "(uid=anna)", "1.1"];
        unboundid_tool("unboundidds.tools.LDAPSearch", pando.address(), &words, "")
    };
    options("MAMCAQM=").expect_code(0).expect_output(&person_dn("anna"));
    options("MAMCAQQ=").expect_code(2);
    let change = format!("dn: {}\nchangetype: modify\nreplace: title\ntitle: Lazy\n", person_dn("anna"));
    let lazy = format!("!{}", oids::LAZY_COMMIT);
    ldap_utility("ldapmodify", pando.address(), &["-e", &lazy], &change).expect_code(0);
    assert_eq!(admin.entry(&person_dn("anna"), &["title"]).unwrap().unwrap().text("title").unwrap(), "Lazy");

    let number = admin.extended(oids::CONNECTION_ID, None).unwrap().extended.value.unwrap();
    let other = pando.connect().extended(oids::CONNECTION_ID, None).unwrap().extended.value.unwrap();
    let [number, other] = [number, other].map(|value| ber::integer_content(&value[2..]).unwrap());
    assert!(number > 0 && other > number, "{number} {other}");
    let with_value = admin.extended(oids::CONNECTION_ID, Some(b"x")).unwrap();
    assert_eq!(with_value.outcome.code, ldap::ResultCode::PROTOCOL_ERROR);
}

/// The search no-op control returns the number of results that the search would return to this requester, whatever the
/// plan.
#[test]
fn searches_count_their_results() {
    let scratch = Scratch::new("counts");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    for number in 0..300 {
        let dn = format!("cn=device-{number},{SUFFIX}");
        add(&mut admin, &dn, &[("objectClass", "device"), ("description", "counted")]);
    }
    let mut no_op = |filter: &str, size_limit: u32| {
        let filter = ldap::FilterBuf::parse(filter).unwrap();
        let names = ldap::SelectionBuf::from_iter(["*"]);
        let mut request = ldap::SearchRequest::new(
            SUFFIX,
            ldap::Scope::WholeSubtree,
            filter.as_filter(),
            names.as_selection(),
        );
        request.size_limit = size_limit;
        let control = ldap::Control { oid: oids::SEARCH_NO_OP, critical: true, value: None };
        let controls = ldap::ControlsBuf::from_iter([control]);
        let reply = admin.request(ldap::Request::Search(request), controls.as_controls()).unwrap();
        assert_eq!((reply.entries.len(), reply.references.len()), (0, 0));
        let last = reply.last.unwrap();
        let value = last.message().controls.find(oids::SEARCH_NO_OP).unwrap().value.unwrap();
        let mut fields = ber::Reader::new(value).sequence(ber::Tag::SEQUENCE).unwrap();
        [(); 3].map(|()| fields.integer().unwrap())
    };
    assert_eq!(no_op("(objectClass=device)", 0), [0, 300, 0]);
    assert_eq!(no_op("(description=counted)", 0), [0, 300, 0]);
    assert_eq!(no_op("(cn=nobody)", 0), [0, 0, 0]);
    assert_eq!(no_op("(objectClass=device)", 7), [4, 7, 0]);
    let count = ["--matchingEntryCountControl", "examineCount=0", "--baseDN", SUFFIX, "(objectClass=device)"];
    let found = unboundid_tool("unboundidds.tools.LDAPSearch", pando.address(), &count, "").expect_code(0);
    assert!(found.stdout.contains("300") && !found.stdout.contains("dn: "), "{found}");
    let paged = ["--simplePageSize", "5"];
    let words = [&paged[..], &count].concat();
    unboundid_tool("unboundidds.tools.LDAPSearch", pando.address(), &words, "").expect_code(53);
}

/// With the What Failed control, the answer to any operation names the critical controls that caused a refusal.
#[test]
fn refusals_name_the_controls_that_failed() {
    let scratch = Scratch::new("what-failed");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let anna = person_dn("anna");
    let delete = Request::Delete(DeleteRequest { entry: &anna });
    let compare = Request::Compare(CompareRequest { entry: &anna, description: "uid", value: b"anna" });
    let mut ask = |request: Request<'_>, asks: bool, others: &[(&str, bool)]| {
        let mut controls = ControlsBuf::new();
        for (oid, critical) in others {
            controls.push(Control { oid, critical: *critical, value: None });
        }
        if asks {
            controls.push(Control { oid: oids::WHAT_FAILED, critical: true, value: None });
        }
        let reply = admin.request(request, controls.as_controls()).unwrap();
        let last = reply.last.unwrap();
        let found = last.message().controls.find(oids::WHAT_FAILED).and_then(|found| found.value);
        (reply.outcome.code, found.map(<[u8]>::to_vec))
    };
    let refused = ResultCode::UNAVAILABLE_CRITICAL_EXTENSION;
    let others = [("1.2.3", true), (oids::SORT_REQUEST, true), ("1.2.4", false), (oids::ASSERTION, false)];
    let value = b"\x31\x1f\x04\x051.2.3\x04\x161.2.840.113556.1.4.473".to_vec();
    for request in [delete, compare] {
        assert_eq!(ask(request, true, &others), (refused, Some(value.clone())));
        assert_eq!(ask(request, false, &others), (refused, None));
    }
    assert_eq!(ask(compare, true, &[("1.2.4", false)]), (ResultCode::COMPARE_TRUE, None));
}

/// Starts a server that keeps deleted entries and permits dynamic entries.
fn lenient(name: &str) -> (Scratch, Pando) {
    let scratch = Scratch::new(name);
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let index = [("objectClass", "pandoIndex"), ("pandoIndexKind", "equality")];
    add(&mut admin, "cn=entryExpireTimestamp,cn=indexes,cn=config", &index);
    replace(&mut admin, "cn=config", "pandoKeepDeletedSeconds", &["3600"]);
    replace(&mut admin, "cn=config", "pandoDynamicSubtree", &[SUFFIX]);
    let probe = format!("cn=probe,{SUFFIX}");
    let dynamic = [("objectClass", "device"), ("objectClass", "dynamicObject")];
    until("the index", || admin.add(&probe, &dynamic).unwrap().is_success().then_some(()));
    (scratch, pando)
}

fn expect_everything(run: Run) {
    run.expect_code(0).expect_output("everything as expected");
}

/// Uses the classes of UnboundID's SDK for controls and extended operations, and for changes of the schema.
#[test]
fn unboundid_classes_send_every_control() {
    let (_scratch, pando) = lenient("unboundid-controls");
    expect_everything(unboundid_program("Controls.java", pando.address()));
}

/// Uses the classes of python-ldap and ldap3.
#[test]
fn python_classes_send_their_controls() {
    let (_scratch, pando) = lenient("python-controls");
    expect_everything(python_script("with_controls.py", pando.address(), &[]));
}

/// Sends every control by ldap3, which has functions for some controls.
#[test]
fn ldap3_sends_every_control() {
    let (_scratch, pando) = lenient("ldap3-controls");
    expect_everything(python_script("with_ldap3_controls.py", pando.address(), &[]));
}
