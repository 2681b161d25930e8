//! Access rules in the settings, with OpenLDAP's clients. `crates/directory/src/access/tests.rs` tests each right.

use std::fmt::Write as _;

use std::net::SocketAddr;

use client::Connection;
use ldap::{ChangeOperation, ResultCode, Scope};
use test_support::clients::{Run, run};
use test_support::pando::{Start, command};
use test_support::tree::{add, person_dn, plant, plant_policy, replace};
use test_support::{Pando, SUFFIX, Scratch};

/// The first rules of the how-to page.
const RULES: &str = "access_rules = [\n  \
                     \"users: allow read to authenticated\",\n  \
                     \"phones: deny read of homePhone, employeeNumber to authenticated\",\n  \
                     \"own entry: allow write of userPassword, description to self\",\n  \
                     \"staff: allow write of telephoneNumber in 'ou=people,dc=example,dc=com' to \
                     group 'cn=staff,ou=groups,dc=example,dc=com'\",\n]\n";

fn as_person(pando: &Pando, name: &str, program: &str, arguments: &[&str], input: &str) -> Run {
    let (url, password) = (format!("ldap://{}", pando.address()), format!("{name}-secret"));
    let bound = ["-x", "-H", &url, "-D", &person_dn(name), "-w", &password];
    run(program, &[&bound[..], arguments].concat(), input)
}

#[test]
fn rules_of_a_settings_file_apply_to_openldap_clients() {
    let scratch = Scratch::new("access-rules");
    let pando = Pando::start(&scratch);
    plant(&mut pando.administrator());
    let secret: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "employeeNumber", &["4711"])];
    assert!(pando.administrator().modify(&person_dn("bert"), secret).unwrap().is_success());
    assert!(pando.stop().success());

    let data = Pando::data(&scratch);
    let text = command(&["export", "--settings-only"], Some(&data)).expect_code(0).stdout;
    let start = text.lines().find(|line| line.starts_with("access_rules")).unwrap().to_owned() + "\n";
    let file = scratch.write("settings.toml", text.replace(&start, RULES));
    let file = file.to_str().unwrap();
    let wrong =
        scratch.write("wrong.toml", text.replace(&start, "access_rules = [\"x: allow reed to self\"]\n"));
    let wrong = command(&["plan", wrong.to_str().unwrap()], Some(&data));
    assert!(wrong.stderr.contains("\"reed\" is not a right: choose from browse, "), "{wrong}");
    command(&["plan", file], Some(&data)).expect_code(0).expect_output("access_rules");
    command(&["apply", file], Some(&data)).expect_code(0);
    command(&["apply", file], Some(&data)).expect_code(0).expect_output("no change");

    let pando = Pando::start(&scratch);
    let read = ["-LLL", "-b", SUFFIX];
    let found = as_person(&pando, "anna", "ldapsearch", &[&read[..], &["(uid=bert)", "*", "+"]].concat(), "");
    let found = found.expect_code(0).expect_output("uid: bert").stdout;
    assert!(!found.contains("employeeNumber") && !found.contains("userPassword"), "{found}");
    let by_number = [&read[..], &["(employeeNumber=4711)"]].concat();
    assert_eq!(as_person(&pando, "anna", "ldapsearch", &by_number, "").expect_code(0).stdout, "");
    let compare = [person_dn("bert"), "employeeNumber:4711".to_owned()];
    as_person(&pando, "anna", "ldapcompare", &[&compare[0], &compare[1]], "").expect_code(50);
    let change = |name: &str, attribute: &str| {
        format!("dn: {}\nchangetype: modify\nreplace: {attribute}\n{attribute}: +49 1\n", person_dn(name))
    };
    as_person(&pando, "anna", "ldapmodify", &[], &change("bert", "telephoneNumber")).expect_code(0);
    as_person(&pando, "anna", "ldapmodify", &[], &change("anna", "description")).expect_code(0);
    let refused =
        as_person(&pando, "anna", "ldapmodify", &[], &change("bert", "description")).expect_code(50);
    refused.expect_error("no access rule lets you change description of this entry");
    as_person(&pando, "anna", "ldapdelete", &[&person_dn("bert")], "").expect_code(50);
    as_person(&pando, "anna", "ldappasswd", &["-s", "another-s3cret"], "").expect_code(0);
    let url = format!("ldap://{}", pando.address());
    run("ldapsearch", &["-x", "-H", &url, "-b", SUFFIX], "").expect_code(32);

    // A change of the rules applies to the next request of open connections.
    let mut anna = pando.connect();
    assert!(anna.bind(&person_dn("anna"), "another-s3cret").unwrap().is_success());
    assert!(anna.entry(&person_dn("bert"), &[]).unwrap().is_some());
    let nothing: &[(_, &str, &[&str])] =
        &[(ChangeOperation::Replace, "pandoAccessRule", &["none: allow read to anonymous"])];
    assert!(pando.administrator().modify("cn=config", nothing).unwrap().is_success());
    assert!(anna.entry(&person_dn("bert"), &[]).unwrap().is_none());
    assert!(pando.connect().entry(&person_dn("bert"), &[]).unwrap().is_some());
}

#[test]
fn a_help_desk_resets_passwords_and_does_nothing_else() {
    let scratch = Scratch::new("access-reset");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    plant_policy(&mut admin, &[("objectClass", "pandoPwdPolicy"), ("pwdMustChange", "TRUE")]);
    let (anna, bert) = (person_dn("anna"), person_dn("bert"));
    let rules = [
        "all: allow read to authenticated",
        "own: allow write of userPassword to self",
        &format!("desk: allow reset, explain below 'ou=people,dc=example,dc=com' to user '{anna}'"),
    ];
    replace(&mut admin, "cn=config", "pandoAccessRule", &rules);

    as_person(&pando, "bert", "ldappasswd", &["-s", "taken-s3cret", &anna], "")
        .expect_code(1)
        .expect_output("(50)");
    let other = format!("dn: {bert}\nchangetype: modify\nreplace: description\ndescription: x\n");
    as_person(&pando, "anna", "ldapmodify", &[], &other).expect_code(50);
    let app = format!(
        "dn: {bert}\nchangetype: modify\nadd: userPassword;x-app-mail\nuserPassword;x-app-mail: {{SSHA512}}x\n"
    );
    as_person(&pando, "anna", "ldapmodify", &[], &app)
        .expect_code(50)
        .expect_error("no access rule lets you change userPassword");
    as_person(&pando, "anna", "ldappasswd", &["-s", "given-s3cret", &bert], "").expect_code(0);
    assert_eq!(admin.entry(&bert, &["pwdReset"]).unwrap().unwrap().text("pwdReset").as_deref(), Some("TRUE"));
    // The user must change a password that another user has set before doing anything else.
    let mut own = pando.connect();
    assert!(own.bind(&bert, "given-s3cret").unwrap().is_success());
    assert_eq!(own.compare(&bert, "cn", "bert").unwrap().code, ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
    let chosen: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "userPassword", &["bert-secret"])];
    assert!(own.modify(&bert, chosen).unwrap().is_success());
    assert_eq!(own.compare(&bert, "cn", "bert").unwrap().code, ResultCode::COMPARE_TRUE);
    let again =
        format!("dn: {bert}\nchangetype: modify\nreplace: userPassword\nuserPassword: again-s3cret\n");
    as_person(&pando, "anna", "ldapmodify", &[], &again).expect_code(0);
    assert!(!pando.connect().bind(&bert, "bert-secret").unwrap().is_success());

    let ask = |requester: &str, operation: &[&str]| {
        let fixed = ["access", "explain", "--as", requester, "--operation"];
        command(&[&fixed[..], operation].concat(), Some(&Pando::data(&scratch)))
    };
    ask(&anna, &["reset", &bert]).expect_code(0).expect_output("rule 3: desk: ");
    ask(&anna, &["write", &bert, "userPassword"]).expect_code(0).expect_output("rule 3: desk: ");
    ask(&anna, &["write", &anna, "userPassword"]).expect_code(0).expect_output("rule 2: own: ");
    ask(&bert, &["reset", &anna]).expect_code(8).expect_output("no rule allows it");
    let letters = |of: &str| {
        let control = format!("!1.3.6.1.4.1.42.2.27.9.5.2=:dn:{anna}");
        let search = ["-LLL", "-o", "ldif-wrap=no", "-E", &control, "-b", of, "-s", "base", "userPassword"];
        as_person(&pando, "anna", "ldapsearch", &search, "").expect_code(0).stdout
    };
    let counts = letters(&bert);
    assert!(counts.contains("attributeLevelRights: userPassword:wo\n"), "{counts}");
    // Rule changes that would leave no one able to read the rules are refused.
    let fewer: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "pandoAccessRule", &rules[..2])];
    let outcome = admin.modify("cn=config", fewer).unwrap();
    assert!(!outcome.is_success(), "{outcome:?}");
    assert!(outcome.diagnostic.contains("deny explain to anyone"), "{outcome:?}");
    let meant = [&rules[..2], &["closed: deny explain to anyone"]].concat();
    replace(&mut admin, "cn=config", "pandoAccessRule", &meant);
    as_person(&pando, "anna", "ldappasswd", &["-s", "other-s3cret", &bert], "")
        .expect_code(1)
        .expect_output("(50)");
}

#[test]
fn rules_match_bind_method_and_time() {
    let scratch = Scratch::new("access-bind");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let (anna, bert) = (person_dn("anna"), person_dn("bert"));
    let rules = [
        "all: allow browse, read of uid to authenticated",
        "simple: allow read of cn to authenticated bound by simple",
        "other: allow read of sn to authenticated bound by plain, EXTERNAL",
        "few: allow read of objectClass to anyone bound by simple, sasl",
        "days: allow read of employeeType to authenticated \
         on monday, tuesday, wednesday, thursday, friday, saturday, sunday",
        "nights: deny read of employeeType to authenticated bound by simple between 00:00 and 24:00",
    ];
    let change: &[(_, &str, &[&str])] = &[
        (ChangeOperation::Replace, "pandoAccessRule", &rules),
        (ChangeOperation::Replace, "pandoIdentityAttribute", &["uid"]),
        (ChangeOperation::Replace, "pandoSaslMechanism", &["PLAIN", "EXTERNAL"]),
    ];
    assert!(admin.modify("cn=config", change).unwrap().is_success());
    let says: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "employeeType", &["clerk"])];
    assert!(admin.modify(&bert, says).unwrap().is_success());
    let read = ["-LLL", "-o", "ldif-wrap=no", "-b", &bert, "-s", "base"];
    let url = format!("ldap://{}", pando.address());
    let names = |run: Run| {
        let found = run.expect_code(0).stdout;
        ["uid", "cn", "sn", "employeeType"].map(|name| found.contains(&format!("\n{name}: ")))
    };
    assert_eq!(names(as_person(&pando, "anna", "ldapsearch", &read, "")), [true, true, false, false]);
    let plain = ["-Q", "-O", "none", "-H", &url, "-Y", "PLAIN", "-U", "anna", "-w", "anna-secret"];
    assert_eq!(names(run("ldapsearch", &[&plain[..], &read].concat(), "")), [true, false, true, true]);
    // A failed bind leaves the connection anonymous, as does an anonymous bind.
    let mut connection = pando.connect();
    assert!(!connection.bind(&anna, "wrong").unwrap().is_success());
    assert!(connection.entry(&bert, &["*"]).unwrap().is_none());
    assert!(connection.bind("", "").unwrap().is_success());
    assert!(connection.entry(&bert, &["*"]).unwrap().is_none());

    let ask = |by: &[&str], attribute: &str| {
        let fixed = ["access", "explain", "--as", &anna, "--operation", "read", &bert, attribute];
        command(&[&fixed[..], by].concat(), Some(&Pando::data(&scratch)))
    };
    ask(&["--bound-by", "simple"], "cn").expect_code(0).expect_output("rule 2: simple: ");
    ask(&["--bound-by", "PLAIN"], "cn").expect_code(8).expect_output("authenticated, bound by simple");
    ask(&["--bound-by", "external", "--time", "monday 08:00"], "employeeType").expect_code(0);
    ask(&["--bound-by", "external"], "employeeType").expect_code(8).expect_output("on monday, tuesday");
    ask(&["--time", "monday 08:00"], "employeeType").expect_code(8).expect_output("rule 6: nights: ");
    ask(&["--bound-by", "fax"], "cn").expect_code(1).expect_error("neither simple nor a mechanism");
    ask(&["--time", "noon"], "cn").expect_code(1).expect_error("is no time");
}

#[test]
fn rules_match_the_listener_of_a_request() {
    let scratch = Scratch::new("access-listener");
    let node = "[[listener]]\nurl = \"ldap://127.0.0.2:0\"\nname = \"internal\"\n";
    let pando = Start::with_node(&scratch, node).ready();
    let mut admin = pando.administrator();
    plant(&mut admin);
    let anna = person_dn("anna");
    let rules = [
        "all: allow browse, read of uid to anyone",
        "inside: allow read of cn to authenticated at listener internal",
        "usual: allow read of sn to anyone at listener ldap, ldaps",
        "socket: allow read of mail to anyone at listener ldapi",
        "not here: deny read of uid to anonymous at listener internal, ldapi",
        "own: allow write of description to self at listener internal",
    ];
    replace(&mut admin, "cn=config", "pandoAccessRule", &rules);
    replace(&mut admin, &anna, "mail", &["anna@example.com"]);
    let rest = pando.ready_line.split_once("ldap://127.0.0.2:").unwrap().1;
    let port: u16 = rest.split_whitespace().next().unwrap().parse().unwrap();
    let inside = || Connection::open(SocketAddr::from(([127, 0, 0, 2], port))).unwrap();
    let socket = ldap::ServerUrl::local(Pando::data(&scratch).join("pando.sock")).to_string();
    let names = ["uid", "cn", "sn", "mail"];
    let counts = |connection: &mut Connection| {
        let entry = connection.entry(&anna, &names).unwrap().unwrap();
        names.map(|name| !entry.texts(name).is_empty())
    };
    let bound = |mut connection: Connection| {
        assert!(connection.bind(&anna, "anna-secret").unwrap().is_success());
        connection
    };
    assert_eq!(counts(&mut bound(pando.connect())), [true, false, true, false]);
    assert_eq!(counts(&mut bound(inside())), [true, true, false, false]);
    assert_eq!(counts(&mut pando.connect()), [true, false, true, false]);
    assert_eq!(counts(&mut inside()), [false; 4]);
    let local = ["-x", "-H", &socket, "-LLL", "-b", &anna, "-s", "base"];
    let local = run("ldapsearch", &[&local[..], &names].concat(), "").expect_code(0).stdout;
    assert_eq!(names.map(|name| local.contains(&format!("\n{name}: "))), [false, false, false, true]);
    let change: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "description", &["new"])];
    let code = |mut connection: Connection| connection.modify(&anna, change).unwrap().code;
    assert_eq!(code(bound(pando.connect())), ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
    assert_eq!(code(bound(inside())), ResultCode::SUCCESS);

    let ask = |requester: &str, attribute: &str, by: &[&str]| {
        let fixed = ["access", "explain", "--as", requester, "--operation", "read", &anna, attribute];
        command(&[&fixed[..], by].concat(), Some(&Pando::data(&scratch)))
    };
    ask(&anna, "cn", &["--at-listener", "internal"]).expect_code(0).expect_output("rule 2: inside: ");
    ask(&anna, "cn", &["--at-listener", "ldap"]).expect_code(8).expect_output(", at listener internal");
    ask(&anna, "cn", &["--at-listener", "LDAP"]).expect_code(1).expect_error("is not a listener name");
    // If no listener is given, a denial at any listener applies.
    ask("anonymous", "uid", &["--from", "10.0.0.1"]).expect_code(8).expect_output("rule 5: not here: ");
    ask("anonymous", "uid", &["--at-listener", "ldap"]).expect_code(0);
}

#[test]
fn rules_match_entries_and_requesters_by_filters() {
    let scratch = Scratch::new("access-filters");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let (anna, bert) = (person_dn("anna"), person_dn("bert"));
    let says: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "employeeType", &["clerk"])];
    assert!(admin.modify(&bert, says).unwrap().is_success());
    let rules = [
        "clerks: allow read of * matching '(employeeType=clerk)' to authenticated",
        "nearby: allow read of cn, uid matching '(objectClass=person)' to users matching '(employeeType=clerk)'",
    ];
    let change: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "pandoAccessRule", &rules)];
    assert!(admin.modify("cn=config", change).unwrap().is_success());
    let read = |name: &str| {
        let read = ["-LLL", "-o", "ldif-wrap=no", "-b", SUFFIX, "(uid=*)", "uid", "sn"];
        as_person(&pando, name, "ldapsearch", &read, "")
    };
    let shows = |found: &str| {
        ["uid: anna\n", "sn: anna\n", "uid: bert\n", "sn: bert\n"].map(|line| found.contains(line))
    };
    assert_eq!(shows(&read("anna").expect_code(0).stdout), [false, false, true, true]);
    assert_eq!(shows(&read("bert").expect_code(0).stdout), [true, false, true, true]);
    let ask = |requester: &str, entry: &str, attribute: &str| {
        let fixed = ["access", "explain", "--as", requester, "--operation", "read", entry, attribute];
        command(&fixed, Some(&Pando::data(&scratch)))
    };
    ask(&bert, &anna, "sn")
        .expect_code(8)
        .expect_output("and that the entry matches \"(employeeType=clerk)\"");
    ask(&bert, &anna, "uid").expect_code(0).expect_output("rule 2: nearby: ");
    ask(&anna, &bert, "sn").expect_code(0).expect_output("rule 1: clerks: ");
    // Invalid rules are refused when they are written.
    let wrong: &[(_, &str, &[&str])] = &[(
        ChangeOperation::Replace,
        "pandoAccessRule",
        &["x: allow read matching '(shoeSize=4)' to authenticated"],
    )];
    let outcome = admin.modify("cn=config", wrong).unwrap();
    assert!(!outcome.is_success() && outcome.diagnostic.contains("shoeSize"), "{outcome:?}");
    // If a change makes an entry no longer match a rule, the entry is hidden.
    let gone: &[(_, &str, &[&str])] = &[(ChangeOperation::Delete, "employeeType", &[])];
    assert!(admin.modify(&bert, gone).unwrap().is_success());
    read("anna").expect_code(32);
}

#[test]
fn rules_distinguish_single_values() {
    let scratch = Scratch::new("access-values");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let (anna, bert) = (person_dn("anna"), person_dn("bert"));
    replace(&mut admin, &bert, "mail", &["bert@example.com", "bert@home.example"]);
    let rules = [
        "all: allow read of uid, cn, objectClass to authenticated",
        "work: allow read, write of mail values matching '(mail=*@example.com)' to authenticated",
    ];
    replace(&mut admin, "cn=config", "pandoAccessRule", &rules);
    let found = |filter: &str| {
        let read = ["-LLL", "-o", "ldif-wrap=no", "-b", SUFFIX, filter, "mail"];
        as_person(&pando, "anna", "ldapsearch", &read, "").expect_code(0).stdout
    };
    let counts = format!("dn: {bert}\nmail: bert@example.com\n\n");
    assert_eq!(found("(uid=bert)"), counts);
    assert_eq!(found("(&(uid=bert)(mail=BERT@Example.com))"), counts);
    assert_eq!(found("(mail=bert@home.example)"), "");
    let compare =
        |value: &str| as_person(&pando, "anna", "ldapcompare", &[&bert, &format!("mail:{value}")], "");
    compare("bert@example.com").expect_code(6);
    compare("bert@home.example").expect_code(5);
    let change = |what: &str, value: &str| {
        let ldif = format!("dn: {bert}\nchangetype: modify\n{what}: mail\nmail: {value}\n");
        as_person(&pando, "anna", "ldapmodify", &[], &ldif)
    };
    change("add", "b@example.com").expect_code(0);
    change("delete", "bert@example.com").expect_code(0);
    for (what, value) in [("add", "b@home.example"), ("delete", "bert@home.example")] {
        change(what, value).expect_code(50).expect_error("no access rule lets you change mail of this entry");
    }
    change("replace", "b@example.com").expect_code(50).expect_error("you may write only some of its values");
    let mut mail = admin.entry(&bert, &["mail"]).unwrap().unwrap().texts("mail");
    mail.sort();
    assert_eq!(mail, ["b@example.com", "bert@home.example"]);

    let ask = |attribute: &str| {
        let fixed = ["access", "explain", "--as", &anna, "--operation", "read", &bert, attribute];
        command(&fixed, Some(&Pando::data(&scratch)))
    };
    ask("uid").expect_code(0).expect_output("allowed: ");
    ask("mail")
        .expect_code(8)
        .expect_output("partly: \"uid=anna,ou=people,dc=example,dc=com\" may read some values of mail of")
        .expect_output("rule 2: work: ")
        .expect_output("needed: that the value matches \"(mail=*@example.com)\"");
    // A right to only some values fulfills neither expectation, because an expectation covers all values.
    for says in ["may", "may not"] {
        let expected = format!("'{anna}' {says} read mail of '{bert}'");
        let refused = admin
            .modify(
                "cn=config",
                &[(ChangeOperation::Replace, "pandoAccessExpectation", &[expected.as_str()])],
            )
            .unwrap();
        assert!(refused.diagnostic.contains("may read some values of mail of"), "{refused:?}");
    }
    // Compare proposed rules that show more, other and fewer values.
    let general = "all: allow read of uid, cn, objectClass to authenticated";
    for (rule, says) in [
        ("work: allow read of mail to authenticated", "may now read all values of mail"),
        (
            "work: allow read of mail values matching '(mail=*@home.example)' to authenticated",
            "may now read other values of mail",
        ),
        ("work: allow write of mail to authenticated", "may no longer read some values of mail"),
    ] {
        let file =
            scratch.write("proposal.toml", format!("access_rules = [\n  \"{general}\",\n  \"{rule}\",\n]\n"));
        let file = file.to_str().unwrap();
        command(&["access", "rehearse", file, "--as", &anna], Some(&Pando::data(&scratch)))
            .expect_code(0)
            .expect_output(says);
    }
}

#[test]
fn rules_match_the_client_network_tls_and_the_value_that_is_written() {
    const GROUP: &str = "cn=staff,ou=groups,dc=example,dc=com";
    let scratch = Scratch::new("access-link");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let (anna, bert) = (person_dn("anna"), person_dn("bert"));
    let rules = [
        "here: allow read of uid, objectClass, member to authenticated from '127.0.0.0/8'",
        "elsewhere: allow read of description to authenticated from '10.0.0.0/8', '::/0'",
        "protected: allow read of * to authenticated over tls",
        "staff: allow join, leave of member in 'ou=groups,dc=example,dc=com' to authenticated",
        &format!("agents: allow proxy at '{bert}' to user '{anna}'"),
    ];
    let change: &[(_, &str, &[&str])] = &[
        (ChangeOperation::Replace, "pandoAccessRule", &rules),
        (ChangeOperation::Replace, "pandoIdentityAttribute", &["uid"]),
    ];
    assert!(admin.modify("cn=config", change).unwrap().is_success());
    let says: &[(_, &str, &[&str])] = &[(ChangeOperation::Add, "description", &["Somebody"])];
    assert!(admin.modify(&bert, says).unwrap().is_success());
    let seen = |mut connection: Connection| {
        assert!(connection.bind(&anna, "anna-secret").unwrap().is_success());
        let entry = connection.entry(&bert, &["*"]).unwrap().unwrap();
        ["uid", "sn", "description"].map(|name| entry.text(name).is_some())
    };
    assert_eq!(seen(pando.connect()), [true, false, false]);
    let socket = Pando::data(&scratch).join("pando.sock");
    assert_eq!(seen(Connection::open_local(&socket).unwrap()), [true, true, true]);

    let ask = |from: &[&str], attribute: &str| {
        let fixed = ["access", "explain", "--as", &anna, "--operation", "read", &bert, attribute];
        command(&[&fixed[..], from].concat(), Some(&Pando::data(&scratch)))
    };
    ask(&["--from", "10.1.2.3"], "description").expect_code(0).expect_output("rule 2: elsewhere: ");
    ask(&["--from", "127.0.0.1"], "description").expect_code(8).expect_output("from 10.0.0.0/8, ::/0");
    ask(&["--from", "127.0.0.1", "--over-tls"], "description")
        .expect_code(0)
        .expect_output("rule 3: protected: ");

    // The requester may add and delete only its own name as a member.
    let member = |operation: &str, dn: &str| {
        format!("dn: {GROUP}\nchangetype: modify\n{operation}: member\nmember: {dn}\n")
    };
    as_person(&pando, "anna", "ldapmodify", &[], &member("delete", &bert)).expect_code(50);
    as_person(&pando, "anna", "ldapmodify", &[], &member("replace", &anna)).expect_code(50);
    as_person(&pando, "anna", "ldapmodify", &[], &member("delete", &anna)).expect_code(0);
    as_person(&pando, "bert", "ldapmodify", &[], &member("add", &anna)).expect_code(50);
    as_person(&pando, "anna", "ldapmodify", &[], &member("add", &anna)).expect_code(0);

    // Anna may use bert's identity, but bert may not use hers.
    let who = |name: &str, identity: &str| {
        let control = format!("!authzid={identity}");
        as_person(&pando, name, "ldapwhoami", &["-e", &control], "")
    };
    who("anna", "u:bert").expect_code(0).expect_output(&bert);
    who("bert", "u:anna").expect_code(1).expect_output("(123)");
    who("anna", "dn:cn=admin").expect_code(1).expect_output("(123)");
    who("anna", "dn:").expect_code(1).expect_output("(123)");
}

/// Returns the number of entries that a search below the suffix returns, and how many of them have a description.
fn counts(connection: &mut Connection, filter: &str) -> (usize, usize) {
    let found = connection.search(SUFFIX, Scope::WholeSubtree, filter, &["description"]).unwrap();
    assert_eq!(found.outcome.code, ResultCode::SUCCESS, "{:?}", found.outcome);
    let with = found.entries.iter().filter(|entry| entry.text("description").is_some());
    (found.entries.len(), with.count())
}

#[test]
fn long_searches_and_large_entries_obey_the_rules() {
    const PEOPLE: usize = 6_000;
    let scratch = Scratch::new("access-long");
    let mut ldif = format!("dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n");
    for unit in ["open", "closed"] {
        write!(ldif, "dn: ou={unit},{SUFFIX}\nobjectClass: organizationalUnit\nou: {unit}\n\n").unwrap();
        for number in 0..PEOPLE / 2 {
            let entry = "objectClass: inetOrgPerson\ncn: x\nsn: x\ndescription: A person";
            write!(ldif, "dn: uid={unit}{number},ou={unit},{SUFFIX}\n{entry}\n\n").unwrap();
        }
    }
    for group in ["seen", "unseen"] {
        write!(ldif, "dn: cn={group},ou=open,{SUFFIX}\nobjectClass: groupOfNames\ndescription: Group\n")
            .unwrap();
        for number in 0..PEOPLE / 2 {
            writeln!(ldif, "member: uid=closed{number},ou=closed,{SUFFIX}").unwrap();
        }
        ldif.push('\n');
    }
    ldif_import(&scratch, &ldif);
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    let no_limit: &[(_, &str, &[&str])] = &[
        (ChangeOperation::Replace, "pandoSizeLimit", &["0"]),
        (
            ChangeOperation::Replace,
            "pandoAccessRule",
            &[
                "all: allow read to anyone",
                &format!("closed: deny read of description in 'ou=closed,{SUFFIX}' to anyone"),
                &format!("unseen: deny read of member at 'cn=unseen,ou=open,{SUFFIX}' to anyone"),
            ],
        ),
    ];
    assert!(admin.modify("cn=config", no_limit).unwrap().is_success());
    let mut nobody = pando.connect();
    // All entries are visible, but descriptions are visible only in ou=open. Both searches scan all entries.
    assert_eq!(counts(&mut nobody, "(objectClass=*)"), (PEOPLE + 5, PEOPLE / 2 + 2));
    assert_eq!(counts(&mut nobody, "(description=*erso*)"), (PEOPLE / 2, PEOPLE / 2));
    assert_eq!(counts(&mut nobody, "(!(description=*none*))"), (PEOPLE / 2 + 4, PEOPLE / 2 + 2));
    assert_eq!(counts(&mut admin, "(description=*erso*)"), (PEOPLE, PEOPLE));
    for (group, count) in [("seen", PEOPLE / 2), ("unseen", 0)] {
        let dn = format!("cn={group},ou=open,{SUFFIX}");
        let entry = nobody.entry(&dn, &["*"]).unwrap().unwrap();
        assert_eq!((entry.texts("member").len(), entry.texts("description").len()), (count, 1), "{group}");
        let by_member = format!("(&(cn={group})(member=uid=closed7,ou=closed,{SUFFIX}))");
        assert_eq!(counts(&mut nobody, &by_member).0, usize::from(count > 0), "{group}");
    }
}

fn ldif_import(scratch: &Scratch, ldif: &str) {
    let file = scratch.write("people.ldif", ldif);
    command(&["import", "--suffix", SUFFIX, file.to_str().unwrap()], Some(&Pando::data(scratch)))
        .expect_code(0);
}

#[test]
fn rules_restrict_controls_and_extended_operations() {
    let scratch = Scratch::new("access-uses");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let anna = person_dn("anna");
    let rules = [
        "all: allow read to anyone",
        "own: allow write of description to self",
        "pages: allow use of paging to authenticated",
        "closed: deny use of 1.3.6.1.4.1.4203.1.11.3 to anonymous",
        &format!("plain: deny use of manage-dsa-it to user '{anna}'"),
    ];
    replace(&mut admin, "cn=config", "pandoAccessRule", &rules);
    let url = format!("ldap://{}", pando.address());
    let pages = |control: &str, bound: &[&str]| {
        let fixed = ["-x", "-H", &url, "-b", SUFFIX, "-E", control, "uid"];
        run("ldapsearch", &[bound, &fixed].concat(), "")
    };
    // The rules deny the requester this control. Unless the control is critical, it is ignored: all entries are sent.
    let whole =
        pages("pr=1/noprompt", &[]).expect_code(0).expect_output("uid: anna\n").expect_output("uid: bert\n");
    assert!(!whole.stdout.contains("pagedresults"), "{whole}");
    pages("!pr=1/noprompt", &[])
        .expect_code(12)
        .expect_output("access rules keep critical control 1.2.840.113556.1.4.319 from you");
    let bound = ["-D", &anna, "-w", "anna-secret"];
    pages("!pr=1/noprompt", &bound).expect_code(0).expect_output("pagedresults: ");
    let root = ["-x", "-H", &url, "-s", "base", "-b", "", "supportedControl"];
    run("ldapsearch", &root, "").expect_code(0).expect_output("1.2.840.113556.1.4.319");

    let nobody = run("ldapwhoami", &["-x", "-H", &url], "").expect_code(1).expect_output("(50)");
    nobody.expect_output("access rules keep extended operation 1.3.6.1.4.1.4203.1.11.3 from you");
    as_person(&pando, "anna", "ldapwhoami", &[], "").expect_code(0).expect_output(&anna);
    // A change also ignores the denied ManageDsaIT control, so it ends with a referral.
    let elsewhere = format!("ou=elsewhere,{SUFFIX}");
    let referral = [
        ("objectClass", "referral"),
        ("objectClass", "extensibleObject"),
        ("ou", "elsewhere"),
        ("ref", "ldap://other.example.com/"),
    ];
    add(&mut admin, &elsewhere, &referral);
    let other = format!("dn: {elsewhere}\nchangetype: modify\nreplace: description\ndescription: x\n");
    as_person(&pando, "anna", "ldapmodify", &["-M"], &other).expect_code(10);
    as_person(&pando, "bert", "ldapmodify", &["-M"], &other).expect_code(50);
    let change = format!("dn: {anna}\nchangetype: modify\nreplace: description\ndescription: mine\n");
    as_person(&pando, "anna", "ldapmodify", &["-M"], &change).expect_code(0);
    as_person(&pando, "anna", "ldapmodify", &["-MM"], &change).expect_code(12);
    let description = admin.entry(&anna, &["description"]).unwrap().unwrap();
    assert_eq!(description.text("description").as_deref(), Some("mine"));

    let ask = |requester: &str, name: &str| {
        let arguments = ["access", "explain", "--as", requester, "--operation", "use", name];
        command(&arguments, Some(&Pando::data(&scratch)))
    };
    ask("anonymous", "paging")
        .expect_code(8)
        .expect_output("anonymous\" may not use paging")
        .expect_output("is what rule \"pages\" is for");
    ask(&anna, "1.2.840.113556.1.4.319").expect_code(0).expect_output("rule 3: pages: ");
    ask(&anna, "manage-dsa-it").expect_code(8).expect_output("rule 5: plain: ");
    ask("anonymous", "subentries").expect_code(0).expect_output("no rule restricts its use");
    ask(&anna, "fax").expect_code(1).expect_error("fax is not a control");
    let of_anna = format!("'{anna}' may use paging");
    replace(&mut admin, "cn=config", "pandoAccessExpectation", &["anonymous may not use paging", &of_anna]);
    for (attribute, value, expected) in [
        ("pandoAccessRule", "x: deny use of start-tls to anonymous", "start-tls is not a control"),
        ("pandoAccessRule", "x: allow use of paging to anyone", "may use paging; allows it, rule 1: x: "),
        (
            "pandoAccessExpectation",
            "anonymous may use paging of 'dc=example,dc=com'",
            "use does not apply to entries",
        ),
        ("pandoAccessExpectation", "anonymous may use fax", "fax is not a control"),
    ] {
        let wrong: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, attribute, &[value])];
        let outcome = admin.modify("cn=config", wrong).unwrap();
        assert!(!outcome.is_success() && outcome.diagnostic.contains(expected), "{value}: {outcome:?}");
    }
}
