//! Access rules rehearsed on the operations of an audit trail. The predictions are compared with the rights that
//! clients have once the rules are in force.

use std::collections::BTreeSet;
use std::path::PathBuf;

use client::Connection;
use ldap::{ChangeOperation, Control, ControlsBuf, Scope};
use serde_json::Value;
use test_support::clients::Run;
use test_support::pando::command;
use test_support::tree::{add_person, person_dn, plant, set_password};
use test_support::{ADMIN_DN, Pando, SUFFIX, Scratch};

/// Starts a server that keeps an audit trail.
fn start(scratch: &Scratch) -> Pando {
    let folder = scratch.join("trail");
    let text = format!("admin_dn = \"{ADMIN_DN}\"\n[audit]\nfolder = \"{}\"\n", folder.display());
    test_support::pando::Start::with_node(scratch, text).ready()
}

fn rules_file(scratch: &Scratch, rules: &[&str]) -> PathBuf {
    scratch.write("rules.toml", format!("suffixes = [\"{SUFFIX}\"]\naccess_rules = {rules:?}\n"))
}

fn apply(scratch: &Scratch, rules: &[&str]) {
    let file = rules_file(scratch, rules);
    command(&["apply", file.to_str().unwrap()], Some(&Pando::data(scratch))).expect_code(0);
}

fn rehearse(scratch: &Scratch, rules: &[&str], more: &[&str]) -> Run {
    let (file, node) = (rules_file(scratch, rules), scratch.join("node.toml"));
    let arguments = ["access", "rehearse", "--node", node.to_str().unwrap()];
    let all = [&arguments[..], more, &[file.to_str().unwrap()]].concat();
    command(&all, Some(&Pando::data(scratch)))
}

fn connect(pando: &Pando, requester: &str) -> Connection {
    let mut connection = pando.connect();
    if !requester.is_empty() {
        assert!(connection.bind(&person_dn(requester), &format!("{requester}-secret")).unwrap().is_success());
    }
    connection
}

/// Rights of clients, each as requester, entry and right.
type Rights = BTreeSet<(String, String, String)>;

const FILTERS: [&str; 8] = [
    "(objectClass=*)",
    "(uid=bert)",
    "(sn=a*)",
    "(!(sn=anna))",
    "(|(mail=*)(cn=carl))",
    "(&(objectClass=person)(!(title=x)))",
    "(manager=uid=anna,ou=people,dc=example,dc=com)",
    "(description>=a)",
];

/// Sends searches, compares and changes, and returns the rights that each request showed.
fn ask(pando: &Pando) -> Vec<Rights> {
    let mut all = Vec::new();
    for requester in ["", "anna", "bert", "carl"] {
        let mut connection = connect(pando, requester);
        let name = if requester.is_empty() { "anonymous".to_owned() } else { person_dn(requester) };
        let people = format!("ou=people,{SUFFIX}");
        for (base, scope) in [
            (SUFFIX, Scope::WholeSubtree),
            (people.as_str(), Scope::SingleLevel),
            (&person_dn("bert"), Scope::BaseObject),
        ] {
            for filter in FILTERS {
                for attributes in [&["*"][..], &["mail", "sn"], &["1.1"]] {
                    let found = connection.search(base, scope, filter, attributes).unwrap();
                    let mut seen = Rights::new();
                    for entry in found.entries {
                        seen.insert((name.clone(), entry.dn.clone(), String::new()));
                        let attributes = entry.attributes.iter().map(|attribute| &attribute.description);
                        seen.extend(
                            attributes.map(|it| (name.clone(), entry.dn.clone(), format!("read {it}"))),
                        );
                    }
                    all.push(seen);
                }
            }
        }
        for target in ["anna", "bert"] {
            let dn = person_dn(target);
            let predicted = connection.compare(&dn, "sn", target).unwrap().code;
            let entry = (name.clone(), dn.clone(), "compare sn".to_owned());
            all.push([5, 6].contains(&predicted.0).then_some(entry).into_iter().collect());
            let changes: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "description", &["same"])];
            let done = connection.modify(&dn, changes).unwrap();
            let entry = (name.clone(), dn.clone(), "write description".to_owned());
            all.push(done.is_success().then_some(entry).into_iter().collect());
            // Keep the password, so that later binds succeed.
            let password = format!("{target}-secret");
            let changes: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "userPassword", &[&password])];
            let done = connection.modify(&dn, changes).unwrap();
            let what = if requester == target { "write userPassword" } else { "reset" };
            let entry = (name.clone(), dn, what.to_owned());
            all.push(done.is_success().then_some(entry).into_iter().collect());
        }
    }
    all
}

/// Returns the rights in the list `from` that the list `to` lacks. Omits read rights on entries that are no longer
/// visible.
fn missing_rights(from: &[Rights], to: &[Rights]) -> Rights {
    let mut missing = Rights::new();
    for (from, to) in from.iter().zip(to) {
        for (name, dn, what) in from.difference(to) {
            let is_there = |seen: &Rights| seen.contains(&(name.clone(), dn.clone(), String::new()));
            if !what.starts_with("read") || is_there(to) {
                missing.insert((name.clone(), dn.clone(), what.clone()));
            }
        }
    }
    missing
}

/// Returns the rights that a rehearsal predicts to be lost or gained. A change of the right to browse an entry affects
/// all operations on the entry. So does a change of the result of a filter on the entry.
fn predicted_rights(run: &Run, says: &str, hidden: &Rights) -> Rights {
    let mut rights = Rights::new();
    for line in run.stdout.lines().filter(|line| !line.starts_with(' ')) {
        let Some((place, right)) = line.split_once(&format!(": {says} ")) else { continue };
        let (name, dn) = place.split_once(" at ").unwrap();
        let right = right.split(" (").next().unwrap();
        let keep = |what: &str| (name.to_owned(), dn.to_owned(), what.to_owned());
        match right.split_once(' ') {
            None if right == "reset" => _ = rights.insert(keep("reset")),
            None => {
                assert_eq!(right, "browse");
                let all = ["", "compare sn", "write description", "write userPassword", "reset"].map(keep);
                rights.extend(all.into_iter().filter(|what| what.2.is_empty() || hidden.contains(what)));
            }
            Some(("search", _)) => _ = rights.insert(keep("")),
            Some(_) => _ = rights.insert(keep(right)),
        }
    }
    rights
}

const SETS: [&[&str]; 6] = [
    &[
        "all: allow read to authenticated",
        "own: allow write of description, userPassword to self",
        "public: allow read of cn, sn, objectClass to anonymous",
    ],
    &["all: allow read to anyone", "names: deny read of sn to user 'uid=bert,ou=people,dc=example,dc=com'"],
    &[
        "all: allow read to authenticated",
        "mail: deny search of mail to authenticated",
        "closed: deny browse at 'uid=carl,ou=people,dc=example,dc=com' to user 'uid=anna,ou=people,dc=example,dc=com'",
        "boss: allow write of description to named by manager",
        "desk: allow reset to user 'uid=carl,ou=people,dc=example,dc=com'",
    ],
    &[
        "staff: allow read to group 'cn=staff,ou=groups,dc=example,dc=com'",
        "some: allow read of uid, mail to authenticated",
        "former: deny browse matching '(title=former)' to anyone",
    ],
    &["few: allow compare, browse of sn to anyone", "staff: allow write of * to authenticated"],
    &[],
];

#[test]
fn a_rehearsal_predicts_what_clients_see_afterwards() {
    let scratch = Scratch::new("rehearse-seen");
    let pando = start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    add_person(&mut admin, "carl");
    for (name, manager) in [("bert", "anna"), ("carl", "bert")] {
        let mail = format!("{name}@example.com");
        let changes: &[(_, &str, &[&str])] = &[
            (ChangeOperation::Add, "mail", &[&mail]),
            (ChangeOperation::Add, "manager", &[&person_dn(manager)]),
            (ChangeOperation::Add, "title", &[if name == "carl" { "former" } else { "x" }]),
        ];
        assert!(admin.modify(&person_dn(name), changes).unwrap().is_success());
    }
    // Set the values that the requests write, so that no set of rules changes the content of entries.
    for name in ["anna", "bert"] {
        let changes: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "description", &["same"])];
        assert!(admin.modify(&person_dn(name), changes).unwrap().is_success());
    }
    let mut differences = 0;
    apply(&scratch, SETS[0]);
    let mut before = ask(&pando);
    assert!(pando.stop().success());
    for rules in SETS.iter().skip(1) {
        // The trail contains the same requests several times. Each occurrence is counted.
        let said = rehearse(&scratch, rules, &["--lines-max", "10000"]).expect_code(0);
        apply(&scratch, rules);
        let pando = start(&scratch);
        let after = ask(&pando);
        assert!(pando.stop().success());
        let (lost, gained) = (missing_rights(&before, &after), missing_rights(&after, &before));
        assert_eq!(predicted_rights(&said, "may no longer", &lost), lost, "{rules:#?}\n{}", said.stdout);
        assert_eq!(predicted_rights(&said, "may now", &gained), gained, "{rules:#?}\n{}", said.stdout);
        differences += lost.len() + gained.len();
        rehearse(&scratch, rules, &[]).expect_code(0).expect_output(": 0 would change, in 0 kinds");
        before = after;
    }
    assert!(differences > 100, "{differences}");
}

const NOW: [&str; 4] = [
    "all: allow read to authenticated",
    "hr: allow add, delete, rename below 'ou=people,dc=example,dc=com' to user 'uid=carl,ou=people,dc=example,dc=com'",
    "agents: allow proxy to user 'uid=anna,ou=people,dc=example,dc=com'",
    "night: deny read of title to anyone between 00:00 and 24:00",
];

const THEN: [&str; 4] = [
    "all: allow read to authenticated",
    "simple: deny read of mail to anyone bound by simple",
    "hr: allow add below 'ou=people,dc=example,dc=com' to user 'uid=carl,ou=people,dc=example,dc=com'",
    "groups: deny read of member to user 'uid=anna,ou=people,dc=example,dc=com'",
];

/// Records operations of many kinds, under the rules [`NOW`].
fn record(scratch: &Scratch) {
    let pando = start(scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    for name in ["carl", "dora"] {
        add_person(&mut admin, name);
    }
    // The default rules still apply here.
    set_password(&mut connect(&pando, "anna"), "anna", "anna-secret");
    apply(scratch, &NOW);
    let (anna, bert) = (person_dn("anna"), person_dn("bert"));
    for dn in [&anna, &bert] {
        let changes: &[(_, &str, &[&str])] =
            &[(ChangeOperation::Add, "mail", &["x@y"]), (ChangeOperation::Add, "title", &["x"])];
        assert!(admin.modify(dn, changes).unwrap().is_success());
    }
    let mut user = connect(&pando, "anna");
    for _ in 0..3 {
        assert!(user.entry(&bert, &["mail", "sn", "title"]).unwrap().unwrap().text("mail").is_some());
    }
    assert!(user.entry(&bert, &["memberOf"]).unwrap().is_some());
    assert_eq!(user.search(SUFFIX, Scope::WholeSubtree, "(userPassword=x)", &[]).unwrap().entries.len(), 0);
    assert_eq!(
        user.search(SUFFIX, Scope::WholeSubtree, "(objectClass=*)", &["1.1"]).unwrap().entries.len(),
        8
    );
    let mut controls = ControlsBuf::new();
    let value = format!("dn:{bert}");
    let control =
        Control { oid: ldap::oids::PROXIED_AUTHORIZATION, critical: true, value: Some(value.as_bytes()) };
    controls.push(control);
    let request =
        ldap::Request::Compare(ldap::CompareRequest { entry: &anna, description: "sn", value: b"anna" });
    assert_eq!(user.request(request, controls.as_controls()).unwrap().outcome.code.0, 6);

    let mut user = pando.connect();
    let authentication =
        ldap::Authentication::Sasl { mechanism: "PLAIN", credentials: Some(b"\0bert\0bert-secret") };
    let bind = ldap::BindRequest { version: 3, name: "", authentication };
    assert!(user.request(ldap::Request::Bind(bind), ldap::Controls::NONE).unwrap().outcome.is_success());
    assert!(user.entry(&anna, &["mail"]).unwrap().unwrap().text("mail").is_some());

    let mut user = connect(&pando, "carl");
    add_person(&mut user, "temp");
    assert!(user.modify_dn(&person_dn("temp"), "uid=other", None).unwrap().is_success());
    assert!(user.delete(&person_dn("other")).unwrap().is_success());
    assert!(connect(&pando, "dora").entry(&anna, &["mail"]).unwrap().is_some());
    assert!(admin.delete(&person_dn("dora")).unwrap().is_success());
    assert!(pando.stop().success());
}

/// Each requester, entry and right is listed once, with its count and the rules. Requests that cannot be decided are
/// counted.
#[test]
fn a_rehearsal_counts_losses_by_requester_and_rule() {
    let scratch = Scratch::new("rehearse-counts");
    record(&scratch);
    let (anna, bert, carl) = (person_dn("anna"), person_dn("bert"), person_dn("carl"));
    let said = rehearse(&scratch, &THEN, &[]).expect_code(0);
    let lines: Vec<&str> = said.stdout.lines().collect();
    let block = |start: &str| {
        let found: Vec<_> = (0..lines.len()).filter(|at| lines[*at].starts_with(start)).collect();
        assert_eq!(found.len(), 1, "{start}\n{}", said.stdout);
        [lines[found[0] + 1], lines[found[0] + 2]]
    };
    assert_eq!(
        block(&format!("{anna} at {bert}: may no longer read mail (3 times, last 20")),
        [
            "  before: allows it, rule 1: all: allow read to authenticated",
            "  after: denies it, rule 2: simple: deny read of mail to anyone bound by simple",
        ]
    );
    let before = block(&format!("{anna} at {bert}: may now read title (3 times, last 20"))[0];
    assert_eq!(before, format!("  before: denies it, rule 4: {}", NOW[3]));
    // Bert bound with the mechanism PLAIN, and the new rule does not apply to such binds.
    assert!(!said.stdout.contains(&format!("{bert} at ")), "{}", said.stdout);
    block(&format!("{anna} at {bert}: may no longer proxy (once 20"));
    let group = format!("cn=staff,ou=groups,{SUFFIX}");
    let after = block(&format!("{anna} at {group}: may no longer read member (once 20"))[1];
    assert_eq!(after, format!("  after: denies it, rule 4: {}", THEN[3]));
    block(&format!("{carl} at {}: may no longer rename (once 20", person_dn("temp")));
    block(&format!("{carl} at {}: may no longer delete (once 20", person_dn("other")));
    assert!(!said.stdout.contains("add ("), "{}", said.stdout);
    let said = said
        .expect_output(", with the present entries: 7 would change, in 6 kinds\n")
        .expect_output("left out, the trail withholds a name or filter: 1\n")
        .expect_output("changes decided by their place, the entry is not there now: 2\n")
        .expect_output("left out, the requester no longer exists: 1\n")
        .expect_output("left out, of the administrator, whom no rule binds: ");
    assert!(!said.stdout.contains("(--"), "all is listed: {}", said.stdout);

    rehearse(&scratch, &THEN, &["--lines-max", "2"])
        .expect_code(0)
        .expect_output("7 would change, in 2 kinds\nkinds that are not listed (--lines-max): 4\n");
    let sampled = rehearse(&scratch, &THEN, &["--sample", "--lines-max", "1"]).expect_code(0).stdout;
    let lines: Vec<&str> = sampled.lines().collect();
    assert!(lines[0].contains(" would change") && lines.len() == 3, "the summary is first: {sampled}");
    assert!(lines[2].starts_with("not listed (--lines-max): "), "{sampled}");
    rehearse(&scratch, &THEN, &["--entries-max", "1"])
        .expect_code(0)
        .expect_output("searches of which not all entries were looked at (--entries-max): 1\n");
    rehearse(&scratch, &THEN, &["--who", &carl])
        .expect_code(0)
        .expect_output("3 operations from 20")
        .expect_output(": 2 would change, in 2 kinds\n");
    // A rename below the same superior does not need the right to add, so that right was used only once.
    let rename = format!("hr: allow delete, rename below 'ou=people,{SUFFIX}' to user '{carl}'");
    let said = rehearse(&scratch, &[THEN[0], &rename], &["--who", &carl]).expect_code(0);
    let said = said.expect_output(": 1 would change, in 1 kinds\n");
    said.expect_output(&format!("{carl} at {}: may no longer add (once 20", person_dn("temp")));
    // With `--sample` or `--as`, the rights on sampled entries are compared.
    rehearse(&scratch, &THEN, &["--sample"]).expect_code(0).expect_output(" requesters at 7 entries: ");
    rehearse(&scratch, &THEN, &["--as", &carl]).expect_code(0).expect_output("1 requesters at 7 entries: ");
}

#[test]
fn a_missing_or_damaged_trail_is_reported() {
    let scratch = Scratch::new("rehearse-refused");
    record(&scratch);
    rehearse(&scratch, &THEN, &["--sample", "--since", "1h"])
        .expect_code(2)
        .expect_error("no audit trail to choose operations of");
    rehearse(&scratch, &THEN, &["--trail", "/nowhere"]).expect_code(4).expect_error("/nowhere");
    rehearse(&scratch, &["all: allow everything to anyone"], &[]).expect_code(2).expect_error("everything");
    let segment = scratch.join("trail/audit-0000000000000001");
    let mut bytes = std::fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    rehearse(&scratch, &THEN, &[])
        .expect_code(1)
        .expect_output(" operations")
        .expect_error("the trail is damaged: `pando audit verify` reports all damage");
}

/// Returns the events that `pando audit --explain` prints.
fn explained_events(scratch: &Scratch, choice: &[&str]) -> Vec<Value> {
    let node = scratch.join("node.toml");
    let arguments = ["audit", "--explain", "--json", "--node", node.to_str().unwrap()];
    let run = command(&[&arguments[..], choice].concat(), Some(&Pando::data(scratch))).expect_code(0);
    run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn allowed_operations_are_explained_by_the_rules_of_their_time() {
    let scratch = Scratch::new("audit-explain");
    record(&scratch);
    apply(&scratch, &THEN);
    let (anna, bert, carl) = (person_dn("anna"), person_dn("bert"), person_dn("carl"));
    let pando = start(&scratch);
    let mut user = connect(&pando, "anna");
    assert!(user.entry(&bert, &["mail"]).unwrap().unwrap().text("mail").is_none());
    assert_eq!(user.delete(&bert).unwrap().code, ldap::ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
    assert!(pando.stop().success());

    let of = |choice: &[&str]| {
        let events = explained_events(&scratch, choice);
        let texts = |event: &Value| {
            let list = event["explained"].as_array().cloned().unwrap_or_default();
            list.iter().map(|text| text.as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        events.iter().map(texts).collect::<Vec<_>>()
    };
    let password = of(&["--who", &anna, "--operation", "modify"]);
    assert_eq!(password, [["write userPassword: allowed by own password"]]);
    let changes =
        of(&["--who", &carl, "--operation", "add", "--operation", "delete", "--operation", "modifyDN"]);
    assert_eq!(changes, [["add: allowed by hr"], ["rename: allowed by hr"], ["delete: allowed by hr"]]);
    let compares = of(&["--operation", "compare"]);
    assert_eq!(compares, [["compare sn: allowed by all", "proxy: allowed by agents"]]);
    let reads = of(&["--who", &anna, "--target", &bert, "--operation", "search"]);
    let attributes = |texts: &[String]| {
        let read = texts.iter().filter(|text| text.starts_with("read"));
        read.cloned().collect::<Vec<_>>()
    };
    let reads: Vec<_> = reads.iter().map(|texts| attributes(texts)).collect();
    assert_eq!(reads[0], ["read mail, sn: allowed by all", "read title: denied by night"]);
    assert_eq!(reads[1..3], [reads[0].clone(), reads[0].clone()]);
    assert_eq!(reads.last().unwrap(), &["read mail: denied by simple"]);
    let refused = explained_events(&scratch, &["--who", &anna, "--operation", "delete"]);
    assert_eq!(refused[0]["rule"], "none allows it");
    assert_eq!(refused[0]["explained"][0], "delete: no rule allows it, and what none allows is denied");
    let unknown = of(&["--who", &person_dn("dora"), "--operation", "search"]);
    assert_eq!(unknown, [["the requester no longer exists"]]);
    let admin = of(&["--who", ADMIN_DN, "--operation", "delete"]);
    assert_eq!(admin, [["the administrator is above all rules"]]);
    assert_eq!(of(&["--operation", "bind", "--who", &carl]), [[""; 0]]);

    let node = scratch.join("node.toml");
    command(&["audit", "--explain", "--follow", "--node", node.to_str().unwrap()], None).expect_code(2);
    let trail = scratch.join("trail");
    let arguments = ["audit", "--explain", "--folder", trail.to_str().unwrap()];
    command(&arguments, Some(&scratch.join("nothing"))).expect_code(4);
}
