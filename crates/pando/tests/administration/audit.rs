//! The audit trail, as its readers see it. It contains every operation with its identity, and no passwords. After a
//! failure, no acknowledged change is missing. A full disk has the configured effect.

mod faults;

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use client::Connection;
use ldap::{ChangeOperation, Control, ControlsBuf, ResultCode, Scope};
use serde_json::Value;
use test_support::clients::ldap_utility;
use test_support::cluster::until;
use test_support::pando::{Start, command};
use test_support::transactions;
use test_support::tree::{add, person_dn, plant, replace};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, DEADLINE, Pando, SUFFIX, Scratch};

/// Starts a server whose node file has this `[audit]` table, with the trail in the folder `trail` next to the data.
fn start(scratch: &Scratch, table: &str) -> Start {
    let text = format!("[audit]\nfolder = \"{}\"\n{table}", folder(scratch).display());
    Start::with_node(scratch, text)
}

fn folder(scratch: &Scratch) -> PathBuf {
    scratch.join("trail")
}

fn audit(scratch: &Scratch, arguments: &[&str]) -> test_support::clients::Run {
    let folder = folder(scratch);
    let mut all = vec!["audit"];
    all.extend(arguments);
    all.extend(["--folder", folder.to_str().unwrap()]);
    command(&all, None)
}

/// Returns the events that `pando audit` prints with these arguments.
fn events(scratch: &Scratch, arguments: &[&str]) -> Vec<Value> {
    let mut all = vec!["--json"];
    all.extend(arguments);
    let run = audit(scratch, &all).expect_code(0);
    run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the only event that matches `wanted`.
#[track_caller]
fn only_event<'e>(events: &'e [Value], wanted: &[(&str, &str)]) -> &'e Value {
    let fits = |event: &&Value| wanted.iter().all(|(name, value)| event[name] == *value);
    let found: Vec<_> = events.iter().filter(fits).collect();
    assert_eq!(found.len(), 1, "{wanted:?} in {events:#?}");
    found[0]
}
fn plant_suffix(connection: &mut Connection) {
    let suffix =
        [("objectClass", "dcObject"), ("objectClass", "organization"), ("dc", "example"), ("o", "Example")];
    add(connection, SUFFIX, &suffix);
}

fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_file()).map(|path| (path.clone(), std::fs::read(&path).unwrap())).collect()
}

#[test]
fn events_have_identities_and_no_secrets() {
    let scratch = Scratch::new("audit");
    let mut pando = start(&scratch, "values = \"all\"\n").ready();
    let mut admin = pando.administrator();
    plant(&mut admin);
    let (anna, bert) = (person_dn("anna"), person_dn("bert"));
    let address = pando.address();
    // Requests of common client programs.
    let search = ["-b", SUFFIX, "(&(uid=anna)(sn=a*))", "cn", "mail"];
    ldap_utility("ldapsearch", address, &search, "").expect_code(0);
    let change = format!("dn: {anna}\nchangetype: modify\nreplace: sn\nsn: Ames\n");
    ldap_utility("ldapmodify", address, &[], &change).expect_code(0);
    ldap_utility("ldapsearch", address, &["-b", SUFFIX, "(userPassword=filtered-secret)"], "").expect_code(0);
    let mut user = pando.connect();
    for (name, password, code) in [
        (anna.as_str(), "typed-secret", ResultCode::INVALID_CREDENTIALS),
        ("uid=nobody,dc=example,dc=com", "typed-secret", ResultCode::INVALID_CREDENTIALS),
        ("cn=staff,ou=groups,dc=example,dc=com", "typed-secret", ResultCode::INVALID_CREDENTIALS),
        ("typed-secret", "x", ResultCode::INVALID_DN_SYNTAX),
        (&anna, "anna-secret", ResultCode::SUCCESS),
    ] {
        assert_eq!(user.bind(name, password).unwrap().code, code, "{name}");
    }
    let changes = [(ChangeOperation::Replace, "userPassword", &["changed-secret"][..])];
    assert!(user.modify(&anna, &changes).unwrap().is_success());
    let refused = user.modify(&bert, &[(ChangeOperation::Add, "description", &["x"][..])]).unwrap();
    assert_eq!(refused.code, ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
    let mut tracked = ControlsBuf::new();
    let mut value = Vec::new();
    let mut parts = Vec::new();
    for part in ["192.0.2.1", "app.example.com", "1.3.6.1.4.1.21008.108.63.1.3", "bloggs"] {
        ber::put_element(&mut parts, ber::Tag::OCTET_STRING, part.as_bytes());
    }
    ber::put_element(&mut value, ber::Tag::SEQUENCE, &parts);
    let oid = ldap::oids::SESSION_TRACKING;
    tracked.push(Control { oid, critical: true, value: Some(&value) });
    // Malformed session tracking controls have no effect.
    tracked.push(Control { oid, critical: false, value: Some(b"broken") });
    tracked.push(Control { oid, critical: false, value: None });
    let delete = ldap::Request::Delete(ldap::DeleteRequest { entry: &bert });
    assert!(admin.request(delete, tracked.as_controls()).unwrap().outcome.is_success());
    // A tree delete is one event.
    let tree = format!("ou=groups,{SUFFIX}");
    let whole = Control { oid: ldap::oids::TREE_DELETE, critical: true, value: None };
    let delete = ldap::Request::Delete(ldap::DeleteRequest { entry: &tree });
    assert!(
        admin.request(delete, ControlsBuf::from_iter([whole]).as_controls()).unwrap().outcome.is_success()
    );
    // An operation with a proxied authorization control.
    let mut proxied = ControlsBuf::new();
    let oid = ldap::oids::PROXIED_AUTHORIZATION;
    let identity = format!("dn:{anna}");
    proxied.push(Control { oid, critical: true, value: Some(identity.as_bytes()) });
    let compare = ldap::CompareRequest { entry: &anna, description: "sn", value: b"Ames" };
    admin.request(ldap::Request::Compare(compare), proxied.as_controls()).unwrap();
    user.unbind().unwrap();
    pando.signal(rustix::process::Signal::TERM);
    assert!(pando.exit().success());

    audit(&scratch, &["verify"]).expect_code(0).expect_output("signed by the key");
    let all = events(&scratch, &[]);
    let search = only_event(&all, &[("filter", "(&(uid=anna)(sn=a*))")]);
    assert_eq!((&search["who"], &search["result"]), (&ADMIN_DN.into(), &"success".into()));
    assert_eq!((&search["scope"], &search["entries"]), (&"sub".into(), &1.into()));
    assert_eq!(search["attributes"], serde_json::json!(["cn", "mail"]));
    assert!(search["network"].as_str().unwrap().starts_with("127.0.0.1:"), "{search}");
    let modify = only_event(&all, &[("operation", "modify"), ("target", &anna), ("who", ADMIN_DN)]);
    assert_eq!(modify["attributes"], serde_json::json!(["sn"]));
    let values = serde_json::json!([
        {"attribute": "sn", "fate": "removed", "values": ["anna"]},
        {"attribute": "sn", "fate": "added", "values": ["Ames"]},
    ]);
    assert_eq!(modify["values"], values);
    assert!(modify["position"].as_u64().is_some() && modify["csn"].is_string(), "{modify}");
    for (target, reason) in [
        (anna.as_str(), "wrong password"),
        ("uid=nobody,dc=example,dc=com", "no entry has this name"),
        ("cn=staff,ou=groups,dc=example,dc=com", "the entry has no password"),
        ("withheld, not a valid name", "the name is no DN"),
    ] {
        only_event(&all, &[("operation", "bind"), ("target", target), ("reason", reason)]);
    }
    only_event(&all, &[("operation", "bind"), ("who", &anna), ("result", "success")]);
    let own = only_event(&all, &[("operation", "modify"), ("who", &anna), ("target", &anna)]);
    assert_eq!((&own["attributes"], &own["values"]), (&serde_json::json!(["userPassword"]), &Value::Null));
    let denied = only_event(&all, &[("operation", "modify"), ("target", &bert)]);
    assert_eq!(denied["result"], "insufficientAccessRights");
    let delete = only_event(&all, &[("operation", "delete"), ("target", &bert)]);
    let tracking = serde_json::json!([{
        "address": "192.0.2.1",
        "name": "app.example.com",
        "format": "1.3.6.1.4.1.21008.108.63.1.3",
        "identifier": "bloggs",
    }]);
    assert_eq!(delete["tracking"], tracking);
    let gone = delete["values"].as_array().unwrap();
    let sn = serde_json::json!({"attribute": "sn", "fate": "before", "values": ["bert"]});
    assert!(gone.contains(&sn) && !gone.iter().any(|of| of["attribute"] == "userPassword"), "{gone:?}");
    let of_tree = only_event(&all, &[("operation", "delete"), ("target", &tree), ("name", "tree")]);
    assert_eq!(of_tree["entries"], 1);
    let compare = only_event(&all, &[("operation", "compare"), ("acts_as", &identity)]);
    assert_eq!(compare["who"], ADMIN_DN);
    for kind in ["opened", "closed", "unbind", "started", "stopped"] {
        assert!(all.iter().any(|event| event["operation"] == kind), "{kind}");
    }
    // Each operation has one event. The log record of a change causes no second event.
    let adds = all.iter().filter(|event| event["operation"] == "add");
    assert_eq!(adds.count(), 6);

    for (path, bytes) in files(&folder(&scratch)) {
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("secret"), "{}", path.display());
    }
    // The trail is compressed, so its printed form is searched.
    let printed = audit(&scratch, &["--json"]).stdout;
    assert!(!printed.contains("-secret") && !printed.contains(ADMIN_PASSWORD), "{printed}");
    assert!(printed.contains("withheld, it may assert a password"), "{printed}");

    // Selection of events.
    let count = |arguments: &[&str]| events(&scratch, arguments).len();
    assert_eq!(count(&["--operation", "bind", "--result", "failed"]), 4);
    assert_eq!(count(&["--result", "49", "--target", &anna]), 1);
    assert_eq!(count(&["--target", "OU=Groups, dc=example,dc=com", "--operation", "add"]), 2);
    assert_eq!(count(&["--attribute", "userpassword", "--operation", "modify"]), 1);
    assert_eq!(count(&["--until", "2000-01-01"]), 0);
    assert_eq!(count(&["--since", "1h"]), all.len());
    let csv = audit(&scratch, &["--csv", "--operation", "delete"]).expect_code(0).stdout;
    assert_eq!(csv.lines().count(), 3, "{csv}");
    audit(&scratch, &["--operation", "nonsense"]).expect_code(2);
}

/// Every change of a transaction has one event, whether the transaction is committed or not.
#[test]
fn each_change_of_a_transaction_is_an_event() {
    let scratch = Scratch::new("audit-transaction");
    let mut pando = start(&scratch, "").ready();
    let mut admin = pando.administrator();
    plant(&mut admin);
    let (anna, bert) = (person_dn("anna"), person_dn("bert"));
    let mut run = |title: &str, last: &str, commits: bool| {
        let identifier = transactions::start(&mut admin);
        let mut change = |dn: &str, name: &str| {
            transactions::with_replace(dn, name, title, |replace| {
                transactions::change(&mut admin, &identifier, replace)
            })
        };
        let ids = [change(&anna, "title").0, change(&bert, last).0].map(|id| u64::try_from(id.0).unwrap());
        (ids, transactions::end(&mut admin, &identifier, commits).outcome.code)
    };
    let made = run("made", "title", true);
    let failed = run("failed", "entryUUID", true);
    let dropped = run("dropped", "title", false);
    assert_eq!((made.1, dropped.1), (ResultCode::SUCCESS, ResultCode::SUCCESS));
    assert_eq!(failed.1, ResultCode::CONSTRAINT_VIOLATION);
    pando.signal(rustix::process::Signal::TERM);
    assert!(pando.exit().success());
    let all = events(&scratch, &["--operation", "modify"]);
    let results = [
        (made.0, ["success"; 2]),
        (failed.0, ["canceled", "constraintViolation"]),
        (dropped.0, ["canceled"; 2]),
    ];
    for (ids, results) in results {
        for (id, result) in ids.into_iter().zip(results) {
            let of_id: Vec<_> = all.iter().filter(|event| event["message_id"] == id).collect();
            let [event] = of_id[..] else { panic!("message {id}: {all:#?}") };
            assert_eq!(event["result"], result, "{event}");
            assert_eq!(event["position"].is_u64(), result == "success", "{event}");
        }
    }
}

/// An imported membership has already ended. The server removes it when it starts, and records the change.
#[test]
fn changes_of_the_server_itself_are_events() {
    let scratch = Scratch::new("audit-own");
    let (group, anna) = (format!("cn=bosses,{SUFFIX}"), person_dn("anna"));
    let text = format!(
        "dn: {SUFFIX}\nobjectClass: domain\n\ndn: {group}\nobjectClass: groupOfNames\nmember: {SUFFIX}\n\
         member;x-until-20200101000000Z: cn=past\n\n"
    );
    let text = scratch.write("group.ldif", text);
    command(&["import", text.to_str().unwrap()], Some(&Pando::data(&scratch))).expect_code(0);
    let mut pando = start(&scratch, "values = \"new\"\n").ready();
    let mut admin = pando.administrator();
    let members = |admin: &mut Connection| admin.entry(&group, &["member"]).unwrap().unwrap().texts("member");
    until("the end of the membership", || (members(&mut admin) == [SUFFIX]).then_some(()));
    let rule = format!("bosses: into '{group}' matching '(title=boss)'");
    replace(&mut admin, "cn=config", "pandoAutoMember", &[&rule]);
    add(&mut admin, &format!("ou=people,{SUFFIX}"), &[("objectClass", "organizationalUnit")]);
    let person = [("objectClass", "inetOrgPerson"), ("cn", "a"), ("sn", "a"), ("title", "boss")];
    add(&mut admin, &anna, &person);
    let change = (ChangeOperation::Add, "member;x-until-20970101000000Z", &[anna.as_str()][..]);
    assert!(admin.modify(&group, &[change]).unwrap().is_success());
    pando.signal(rustix::process::Signal::TERM);
    assert!(pando.exit().success());
    let all = events(&scratch, &[]);
    let ended = only_event(&all, &[("name", "end of a value"), ("target", &group)]);
    assert_eq!((&ended["operation"], &ended["who"]), (&"modify".into(), &"cn=ended values,cn=config".into()));
    let joined = only_event(&all, &[("name", "automatic membership"), ("target", &group)]);
    assert_eq!(joined["who"], "cn=auto members,cn=config");
    let added = only_event(&all, &[("operation", "add"), ("target", &anna)]);
    assert_eq!(joined["message_id"], added["message_id"]);
    let given = only_event(&all, &[("operation", "modify"), ("target", &group), ("who", ADMIN_DN)]);
    assert!(given.to_string().contains("member;x-until-20970101000000Z"), "{given}");
}

/// Events contain the identity that a client tried to bind as, and the rule that caused a refusal.
#[test]
fn events_name_the_user_of_a_failed_sasl_bind_and_the_refusing_rule() {
    let scratch = Scratch::new("audit-refused");
    let mut pando = start(&scratch, "").ready();
    plant(&mut pando.administrator());
    let rules = "suffixes = [\"dc=example,dc=com\"]\naccess_rules = [\n\"all: allow read to authenticated\",\n\
                 \"own: allow write of sn, description to self\",\n\"names: deny write of sn to anyone\",\n]\n";
    let file = scratch.write("rules.toml", rules);
    let data = scratch.join("data");
    command(&["apply", "--data", data.to_str().unwrap(), file.to_str().unwrap()], None).expect_code(0);
    let (anna, bert) = (person_dn("anna"), person_dn("bert"));
    let mut user = pando.connect();
    for (name, code) in [
        ("anna", ResultCode::INVALID_CREDENTIALS),
        (&format!("dn:{bert}"), ResultCode::INVALID_CREDENTIALS),
        ("typed-secret", ResultCode::INVALID_CREDENTIALS),
    ] {
        let credentials = format!("\0{name}\0wrong-secret");
        let credentials = Some(credentials.as_bytes());
        let authentication = ldap::Authentication::Sasl { mechanism: "PLAIN", credentials };
        let bind = ldap::BindRequest { version: 3, name: "", authentication };
        let reply = user.request(ldap::Request::Bind(bind), ldap::Controls::NONE).unwrap();
        assert_eq!(reply.outcome.code, code, "{name}");
    }
    assert!(user.bind(&anna, "anna-secret").unwrap().is_success());
    for (dn, attribute) in [(&anna, "sn"), (&bert, "description")] {
        let refused = user.modify(dn, &[(ChangeOperation::Add, attribute, &["x"][..])]).unwrap();
        assert_eq!(refused.code, ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
    }
    assert_eq!(user.delete(&bert).unwrap().code, ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
    // The rule refuses the authorization identity. The administrator could make the change.
    let identity = format!("dn:{bert}");
    let proxied =
        Control { oid: ldap::oids::PROXIED_AUTHORIZATION, critical: true, value: Some(identity.as_bytes()) };
    let mut changes = ldap::ChangesBuf::new();
    changes.push(ChangeOperation::Add, "sn", ["x"]);
    let modify = ldap::Request::Modify(ldap::ModifyRequest { object: &bert, changes: changes.as_changes() });
    let refused = pando.administrator().request(modify, ControlsBuf::from_iter([proxied]).as_controls());
    assert_eq!(refused.unwrap().outcome.code, ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
    pando.signal(rustix::process::Signal::TERM);
    assert!(pando.exit().success());
    let all = events(&scratch, &[]);
    for (target, reason) in [
        (anna.as_str(), "wrong proof or password, or an identity that is not given"),
        (&bert, "wrong proof or password, or an identity that is not given"),
        ("withheld, no entry has this name", "no such name"),
    ] {
        only_event(&all, &[("operation", "bind"), ("target", target), ("reason", reason)]);
    }
    only_event(&all, &[("operation", "modify"), ("target", &anna), ("rule", "names")]);
    only_event(&all, &[("operation", "modify"), ("target", &bert), ("rule", "none allows it")]);
    only_event(&all, &[("operation", "delete"), ("target", &bert), ("rule", "none allows it")]);
    only_event(&all, &[("acts_as", &identity), ("target", &bert), ("rule", "names")]);
    let printed = audit(&scratch, &["--json"]).stdout;
    assert!(!printed.contains("-secret"), "{printed}");
}

/// Returns the octets of a request.
fn encoded(id: i32, request: ldap::Request<'_>) -> Vec<u8> {
    let mut octets = Vec::new();
    ldap::Message { id: ldap::MessageId(id), request, controls: ldap::Controls::NONE }.encode(&mut octets);
    octets
}

/// Operations without an answer had no event: abandoned ones, and those of a closed connection.
#[test]
fn operations_without_an_answer_are_events() {
    let scratch = Scratch::new("audit-unanswered");
    let mut pando = start(&scratch, "").ready();
    plant(&mut pando.administrator());
    let (anna, bert) = (person_dn("anna"), person_dn("bert"));
    let refused_change = |id, attribute| {
        let mut changes = ldap::ChangesBuf::new();
        changes.push(ChangeOperation::Add, attribute, ["x"]);
        encoded(
            id,
            ldap::Request::Modify(ldap::ModifyRequest { object: &bert, changes: changes.as_changes() }),
        )
    };
    let abandon = |id, of| encoded(id, ldap::Request::Abandon(ldap::MessageId(of)));
    let mut user = pando.connect();
    assert!(user.bind(&anna, "anna-secret").unwrap().is_success());
    // The event loop reads both requests before the writer can answer the first.
    user.send_bytes(&[refused_change(100, "description"), abandon(101, 100)].concat()).unwrap();
    assert!(user.compare(&anna, "uid", "anna").is_ok());
    // A persistent search ends by Abandon, and another one by a bind.
    let change_types = ldap::PersistentSearch::ALL_TYPES;
    let asked =
        ldap::PersistentSearch { change_types, changes_only: true, returns_entry_changes: false }.encode();
    let control = Control { oid: ldap::oids::PERSISTENT_SEARCH, critical: true, value: Some(&asked) };
    let listen = |user: &mut Connection, base: &str| {
        let filter = ldap::FilterBuf::parse("(objectClass=*)").unwrap();
        let all = ldap::AttributeSelection::default();
        let search = ldap::SearchRequest::new(base, Scope::WholeSubtree, filter.as_filter(), all);
        user.send(ldap::Request::Search(search), ControlsBuf::from_iter([control]).as_controls()).unwrap()
    };
    let abandoned = listen(&mut user, &anna);
    user.abandon(abandoned).unwrap();
    listen(&mut user, &bert);
    assert!(user.bind(&anna, "anna-secret").unwrap().is_success());
    // A client closes its connection before it receives the answer.
    let unbind = encoded(103, ldap::Request::Unbind);
    user.send_bytes(&[refused_change(102, "title"), unbind].concat()).unwrap();
    assert!(user.closed().is_ok());
    // A bind waits for the hash pool, so that its Abandon is handled before later requests.
    let mut other = pando.connect();
    let authentication = ldap::Authentication::Simple(b"wrong");
    let bind = ldap::Request::Bind(ldap::BindRequest { version: 3, name: &anna, authentication });
    other.send_bytes(&[encoded(104, bind), abandon(105, 104)].concat()).unwrap();
    assert!(other.compare(&anna, "uid", "anna").is_ok());
    drop(other);
    pando.signal(rustix::process::Signal::TERM);
    assert!(pando.exit().success());
    let all = events(&scratch, &[]);
    let event = |id: i32| {
        let found: Vec<_> = all.iter().filter(|event| event["message_id"] == id).collect();
        assert_eq!(found.len(), 1, "{id} in {all:#?}");
        (found[0]["operation"].as_str().unwrap(), found[0]["result"].as_str().unwrap())
    };
    for (id, operation, result) in [
        (100, "modify", "insufficientAccessRights"),
        (101, "abandon", "success"),
        (102, "modify", "insufficientAccessRights"),
        (103, "unbind", "success"),
        (104, "bind", "canceled"),
        (105, "abandon", "success"),
    ] {
        assert_eq!(event(id), (operation, result), "{id}");
    }
    for base in [&anna, &bert] {
        only_event(&all, &[("operation", "search"), ("target", base), ("result", "canceled")]);
    }
}

#[test]
fn a_rule_lets_users_read_the_trail_over_the_network() {
    let scratch = Scratch::new("audit-online");
    let pando = start(&scratch, "").ready();
    let mut admin = pando.administrator();
    plant(&mut admin);
    let (anna, bert) = (person_dn("anna"), person_dn("bert"));
    let ask = |dn: &str, password: &str, more: &[&str]| ask_server(&scratch, &pando, (dn, password), more);
    let set = |rules: &[&str]| {
        let change: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "pandoAccessRule", rules)];
        assert!(pando.administrator().modify("cn=config", change).unwrap().is_success());
    };
    // If no rule names the right `read-audit`, only the administrator may read the trail.
    let adds = ["--json", "--operation", "add"];
    let last = format!("ou=last,{SUFFIX}");
    add(&mut admin, &last, &[("objectClass", "organizationalUnit")]);
    let begun = Instant::now();
    while !audit(&scratch, &adds).stdout.contains(&last) {
        assert!(begun.elapsed() < DEADLINE, "the trail lacks the last add");
    }
    let remote = ask(ADMIN_DN, ADMIN_PASSWORD, &adds).expect_code(0).stdout;
    let local = audit(&scratch, &adds).expect_code(0).stdout;
    assert!(remote.contains(&anna), "{remote}");
    assert_eq!(remote, local);
    ask(&anna, "anna-secret", &[]).expect_code(1).expect_error("whom a rule allows the use of read-audit");
    let all = "all: allow read to authenticated";
    for rules in
        [&[all][..], &[all, "any: allow use to authenticated"], &[all, "b: allow use of paging to anyone"]]
    {
        set(rules);
        ask(&anna, "anna-secret", &[]).expect_code(1).expect_error("insufficientAccessRights");
    }
    let named = format!("auditors: allow use of read-audit to user '{anna}'");
    set(&[all, &named]);
    assert_eq!(ask(&anna, "anna-secret", &adds).expect_code(0).stdout, remote);
    ask(&bert, "bert-secret", &adds).expect_code(1).expect_error("insufficientAccessRights");
    set(&[all, &named, "not: deny use of read-audit to anyone from '127.0.0.0/8'"]);
    ask(&anna, "anna-secret", &adds).expect_code(1);
    let explain = |requester: &str| {
        let fixed = ["access", "explain", "--as", requester, "--operation", "use", "read-audit"];
        command(&fixed, Some(&scratch.join("data")))
    };
    set(&[all, &named]);
    explain(&anna).expect_code(0).expect_output("rule 2: auditors: ");
    explain(&bert).expect_code(8);
    set(&[all]);
    explain(&bert).expect_code(8).expect_output("it is for those alone whom a rule allows it by name");

    // Reads more events than one response can contain, reads past damage, and uses a lower bound of the time.
    let mut filters = 0;
    while files(&folder(&scratch)).iter().map(|(_, bytes)| bytes.len()).sum::<usize>() < 300_000 {
        for number in 0..1_000 {
            let noise = format!("(description={:016x}{:016x})", fastrand::u64(..), number);
            admin.search(&bert, Scope::BaseObject, &noise, &["1.1"]).unwrap();
        }
        filters += 1_000;
    }
    let searches = ["--json", "--operation", "search", "--target", &bert];
    let count = |text: &str| text.lines().count();
    assert!(count(&ask(ADMIN_DN, ADMIN_PASSWORD, &searches).expect_code(0).stdout) > filters / 2);
    let later = [&searches[..], &["--since", "2100-01-01"]].concat();
    assert_eq!(ask(ADMIN_DN, ADMIN_PASSWORD, &later).expect_code(0).stdout, "");
    // Reading the trail is an event too.
    let reads = ask(ADMIN_DN, ADMIN_PASSWORD, &["--json", "--operation", "extended", "--who", &anna]);
    let reads = reads.expect_code(0).stdout;
    assert!(reads.contains("1.3.6.1.4.1.99999.5.3") && reads.contains("insufficientAccessRights"), "{reads}");
    let (path, bytes) =
        files(&folder(&scratch)).into_iter().find(|(_, bytes)| bytes.len() > 100_000).unwrap();
    assert!(pando.stop().success());
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[bytes[50_000] ^ 1], 50_000).unwrap();
    let pando = start(&scratch, "").ready();
    let damaged = ask_server(&scratch, &pando, (ADMIN_DN, ADMIN_PASSWORD), &searches).expect_code(1);
    assert!(count(&damaged.stdout) > 1_000, "what can be read is printed: {}", count(&damaged.stdout));
    damaged.expect_error("the trail is damaged");
    assert!(pando.stop().success());

    // A server without an audit trail reports that it has none.
    let other = Scratch::new("audit-online-none");
    let bare = Pando::start(&other);
    let asked = ask_server(&other, &bare, (ADMIN_DN, ADMIN_PASSWORD), &[]);
    asked.expect_code(1).expect_error("writes no audit trail");
}

/// Runs `pando audit` on the trail of a running server.
fn ask_server(
    scratch: &Scratch,
    server: &Pando,
    (dn, password): (&str, &str),
    more: &[&str],
) -> test_support::clients::Run {
    let (url, file) = (format!("ldap://{}", server.address()), scratch.write("password", password));
    let fixed = ["audit", "--url", &url, "--bind-dn", dn, "--password-file", file.to_str().unwrap()];
    command(&[&fixed[..], more].concat(), None)
}

#[test]
fn events_are_sent_to_a_syslog_server() {
    let scratch = Scratch::new("audit-syslog");
    let mut pando = start(&scratch, "").ready();
    plant(&mut pando.administrator());
    assert!(!pando.connect().bind(&person_dn("anna"), "wrong").unwrap().is_success());
    pando.signal(rustix::process::Signal::TERM);
    assert!(pando.exit().success());
    let all = events(&scratch, &[]);

    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("tcp://{}", server.local_addr().unwrap());
    let received = std::thread::spawn(move || {
        let mut octets = Vec::new();
        std::io::Read::read_to_end(&mut server.accept().unwrap().0, &mut octets).unwrap();
        String::from_utf8(octets).unwrap()
    });
    audit(&scratch, &["--syslog", &url]).expect_code(0);
    let (stream, mut rest, mut messages) = (received.join().unwrap(), 0, Vec::new());
    while let Some((length, _)) = stream[rest..].split_once(' ') {
        let begin = rest + length.len() + 1;
        rest = begin + length.parse::<usize>().unwrap();
        messages.push(&stream[begin..rest]);
    }
    assert_eq!((rest, messages.len()), (stream.len(), all.len()));
    for (message, event) in messages.iter().zip(&all) {
        let [head, time, _, program, _, operation, _, json] =
            message.splitn(8, ' ').collect::<Vec<_>>().try_into().unwrap();
        let failed = event["result"] == "invalidCredentials";
        assert_eq!((head, program), (if failed { "<109>1" } else { "<110>1" }, "pando-audit"), "{message}");
        assert_eq!(
            (time, operation),
            (event["time"].as_str().unwrap(), event["operation"].as_str().unwrap())
        );
        assert_eq!(serde_json::from_str::<Value>(json).unwrap(), *event);
    }

    // A Unix socket receives one datagram for each event.
    let path = scratch.join("log");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let url = format!("unix://{}", path.display());
    audit(&scratch, &["--syslog", &url, "--operation", "bind", "--result", "failed"]).expect_code(0);
    let mut octets = [0; 4_096];
    let length = socket.recv(&mut octets).unwrap();
    assert!(String::from_utf8_lossy(&octets[..length]).starts_with("<109>1 "));
    let nobody = format!("unix://{}", scratch.join("nobody").display());
    audit(&scratch, &["--syslog", &nobody]).expect_code(1);
}

#[test]
fn the_settings_select_the_events() {
    let scratch = Scratch::new("audit-choice");
    let table = "what = [\"binds\", \"changes\", \"reads\"]\n\
                 except = [{ what = [\"search\"], who = [\"UID=anna,ou=People, dc=example,dc=com\"] },\n\
                 { targets = [\"ou=groups,dc=example,dc=com\"] }]\n";
    let pando = start(&scratch, table).ready();
    let mut admin = pando.administrator();
    plant(&mut admin);
    let mut anna = pando.connect();
    assert!(anna.bind(&person_dn("anna"), "anna-secret").unwrap().is_success());
    for connection in [&mut anna, &mut admin] {
        connection.search(SUFFIX, Scope::BaseObject, "(objectClass=*)", &["1.1"]).unwrap();
        connection.search("ou=groups,dc=example,dc=com", Scope::BaseObject, "(objectClass=*)", &[]).unwrap();
        connection.compare(&person_dn("anna"), "sn", "x").unwrap();
    }
    assert!(pando.stop().success());
    let all = events(&scratch, &[]);
    let searches: Vec<_> = all.iter().filter(|event| event["operation"] == "search").collect();
    assert_eq!(searches.len(), 1, "{searches:#?}");
    assert_eq!(searches[0]["who"], ADMIN_DN);
    assert_eq!(all.iter().filter(|event| event["operation"] == "compare").count(), 2);
    let adds = all.iter().filter(|event| event["operation"] == "add");
    assert!(adds.clone().all(|event| !event["target"].as_str().unwrap().contains("ou=groups")));
    assert_eq!(adds.count(), 4);
    assert!(!all.iter().any(|event| event["operation"] == "opened"), "{all:#?}");
}

/// If the policy does not report locks to clients, only the trail shows whether the password was wrong or the account
/// was locked.
#[test]
fn the_trail_reports_a_locked_account() {
    let scratch = Scratch::new("audit-lock");
    let policy = format!("cn=default,{SUFFIX}");
    let settings =
        format!("suffixes = [\"{SUFFIX}\"]\npassword_scheme = \"ssha\"\npassword_policy = \"{policy}\"\n");
    let settings = scratch.write("settings.toml", settings);
    let bert = format!("uid=bert,{SUFFIX}");
    let anna = format!("uid=anna,{SUFFIX}");
    let tree = format!(
        "dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n\
         dn: {policy}\nobjectClass: device\nobjectClass: pandoPwdPolicy\ncn: default\n\
         pwdAttribute: userPassword\npwdLockout: TRUE\npwdMaxFailure: 2\npandoPwdAppPasswords: 1\n\n\
         dn: {anna}\nobjectClass: inetOrgPerson\nuid: anna\ncn: anna\nsn: anna\nuserPassword: anna-secret\n\n\
         dn: {bert}\nobjectClass: inetOrgPerson\nuid: bert\ncn: bert\nsn: bert\n\n"
    );
    let tree = scratch.write("tree.ldif", tree);
    let data = Pando::data(&scratch);
    command(&["apply", settings.to_str().unwrap()], Some(&data)).expect_code(0);
    command(&["import", tree.to_str().unwrap()], Some(&data)).expect_code(0);
    let pando = start(&scratch, "").ready();
    let mut user = pando.connect();
    for password in ["wrong", "wrong", "anna-secret"] {
        assert_eq!(user.bind(&anna, password).unwrap().code, ResultCode::INVALID_CREDENTIALS);
    }
    // The only password of an entry may be that of an application.
    command(&["account", "app-add", &bert, "mail"], Some(&data)).expect_code(0);
    assert_eq!(user.bind(&bert, "wrong").unwrap().code, ResultCode::INVALID_CREDENTIALS);
    assert!(pando.stop().success());
    let binds = events(&scratch, &["--operation", "bind", "--target", &anna]);
    assert_eq!(binds.len(), 3);
    assert_eq!(binds[0]["reason"], "wrong password");
    assert_eq!(binds[2]["reason"], "the account is locked");
    let binds = events(&scratch, &["--operation", "bind", "--target", &bert]);
    assert_eq!(binds[0]["reason"], "wrong password");
    let recorded = events(&scratch, &["--operation", "administration", "--target", &anna]);
    assert!(recorded.iter().any(|event| event["name"] == "account"), "{recorded:#?}");
}

/// Regression test: after a restore, positions of the log repeat. The trail left out changes at positions that it had
/// recorded before.
#[test]
fn changes_after_a_restored_backup_are_recorded() {
    let scratch = Scratch::new("audit-restore");
    let pando = start(&scratch, "").ready();
    plant_suffix(&mut pando.administrator());
    assert!(pando.stop().success());
    let (data, backup) = (Pando::data(&scratch), scratch.join("backup"));
    test_support::clients::run("cp", &["-a", data.to_str().unwrap(), backup.to_str().unwrap()], "")
        .expect_code(0);
    let unit = [("objectClass", "organizationalUnit")];
    let pando = start(&scratch, "").ready();
    for number in 0..5 {
        add(&mut pando.administrator(), &format!("ou=lost{number},{SUFFIX}"), &unit);
    }
    assert!(pando.stop().success());
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&backup, &data).unwrap();
    let pando = start(&scratch, "").ready();
    add(&mut pando.administrator(), &format!("ou=again,{SUFFIX}"), &unit);
    assert!(pando.stop().success());
    audit(&scratch, &["verify"]).expect_code(0);
    assert_eq!(events(&scratch, &["--target", &format!("ou=again,{SUFFIX}")]).len(), 1);
    let gap = events(&scratch, &["--operation", "gap"]);
    assert_eq!(gap.len(), 1);
    assert_eq!(gap[0]["reason"], "the data is older than the trail: a backup was restored");
}
