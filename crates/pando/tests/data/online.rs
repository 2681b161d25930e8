//! Commands that ask a running server: export over LDAP, from Pando and from another server, and explain.

use ldap::{ChangeOperation, ServerUrl};
use test_support::clients::{self, Run, ldap_utility};
use test_support::pando::{Start, command, program};
use test_support::slapd::Slapd;
use test_support::tree::{add, add_person, person_dn, plant, replace};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

fn export(scratch: &Scratch, arguments: &[&str]) -> Run {
    command(&[&["export"], arguments].concat(), Some(&Pando::data(scratch)))
}

/// Returns the LDIF text without the comments that name its source.
fn without_comments(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with('#')).flat_map(|line| [line, "\n"]).collect()
}

fn socket_url(scratch: &Scratch) -> String {
    ServerUrl::local(Pando::data(scratch).join("pando.sock")).to_string()
}

#[test]
fn an_export_over_ldap_equals_one_from_the_files() {
    let scratch = Scratch::new("online-export");
    let pando = Start::new(&scratch).arguments(&["--suffix", "o=other", "--suffix", "o=empty"]).ready();
    let mut admin = pando.administrator();
    plant(&mut admin);
    add(&mut admin, "o=other", &[("objectClass", "organization"), ("o", "other")]);
    let device = [("objectClass", "device"), ("cn", "x"), ("cn;lang-de", "ö"), ("description", " a\nb ")];
    add(&mut admin, "cn=x,o=other", &device);
    let referral =
        [("objectClass", "referral"), ("objectClass", "extensibleObject"), ("ref", "ldap://elsewhere/")];
    add(&mut admin, &format!("ou=away,{SUFFIX}"), &referral);
    // Some entries, at two levels of the tree, are older than their superiors. One entry is younger than its superior.
    let unit = |name| [("objectClass", "organizationalUnit"), ("ou", name)];
    add(&mut admin, &format!("ou=b,{SUFFIX}"), &unit("b"));
    add(&mut admin, &format!("ou=c,{SUFFIX}"), &unit("c"));
    let moves = [("uid=anna,ou=people", "uid=anna", "ou=b"), ("cn=staff,ou=groups", "cn=staff", "ou=b")];
    for (entry, rdn, above) in
        moves.into_iter().chain([("ou=b", "ou=b", "ou=c"), ("ou=people", "ou=people", "ou=b,ou=c")])
    {
        let (entry, above) = (format!("{entry},{SUFFIX}"), format!("{above},{SUFFIX}"));
        assert!(admin.modify_dn(&entry, rdn, Some(&above)).unwrap().is_success(), "{entry}");
    }
    add(&mut admin, &format!("ou=d,ou=people,ou=b,ou=c,{SUFFIX}"), &unit("d"));
    let large = "x".repeat(70_000);
    let many: Vec<String> = (0..500).map(|number| format!("value {number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).chain([large.as_str()]).collect();
    let change = (ChangeOperation::Add, "description", &many[..]);
    assert!(admin.modify("cn=x,o=other", &[change]).unwrap().is_success());

    let url = socket_url(&scratch);
    let base = format!("OU = b , ou=C,{SUFFIX}");
    let wishes: [&[&str]; 7] = [
        &[],
        &["--operational"],
        &["--attributes", "cn,member"],
        &["--attributes", "cn,+"],
        &["--attributes", "memberOf,hasSubordinates"],
        &["--base", &base],
        &["--filter", "(|(cn=*)(ou=d))", "--operational"],
    ];
    for wish in wishes {
        let from_files = export(&scratch, wish).expect_code(0).stdout;
        assert!(from_files.matches("\ndn: ").count() >= 4, "{wish:?}: {from_files}");
        for (way, data) in [(&["--online"][..], Some(Pando::data(&scratch))), (&["--url", &url], None)] {
            let online = command(&[&["export"], wish, way].concat(), data.as_deref());
            let online = online.expect_code(0).expect_error("pando: exported");
            if wish.contains(&"--filter") {
                // With a filter, superiors are not exported, so entries come in the order in which they were added.
                let sorted = |text: &str| {
                    let text = without_comments(text);
                    let mut entries: Vec<String> = text.split("\n\n").map(str::to_owned).collect();
                    entries.sort_unstable();
                    entries
                };
                assert_eq!(sorted(&online.stdout), sorted(&from_files), "{wish:?}");
            } else {
                assert_eq!(without_comments(&online.stdout), without_comments(&from_files), "{wish:?}");
            }
        }
    }
    let other = scratch.join("other");
    let copy = scratch.join("copy.ldif.zst");
    let copy = copy.to_str().unwrap();
    let whole = ["--base", SUFFIX, "--operational"];
    export(&scratch, &[&whole[..], &["--online", "-o", copy]].concat()).expect_code(0);
    command(&["import", "--suffix", SUFFIX, copy], Some(&other)).expect_code(0);
    // The texts differ, because members come in the order of their entries, and some entries were moved.
    let again = scratch.write("again.ldif", command(&["export"], Some(&other)).expect_code(0).stdout);
    command(&["ldif", "diff", copy, again.to_str().unwrap()], None).expect_code(0);
}

#[test]
fn commands_over_the_network_bind() {
    let scratch = Scratch::new("online-bind");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let url = format!("ldap://{}", pando.address());
    let right = scratch.write("right", format!("{ADMIN_PASSWORD}\n"));
    let wrong = scratch.write("wrong", "wrong");
    let bound = |file: &std::path::Path, arguments: &[&str]| {
        let bind =
            ["export", "--url", &url, "--bind-dn", ADMIN_DN, "--password-file", file.to_str().unwrap()];
        command(&[&bind, arguments].concat(), None)
    };
    let all = bound(&right, &[]).expect_code(0).stdout;
    let from_files = export(&scratch, &[]).stdout;
    assert_eq!(without_comments(&all), without_comments(&from_files));
    bound(&wrong, &[]).expect_code(1).expect_error("refuses the bind: invalidCredentials");
    bound(&scratch.join("none"), &[]).expect_code(1).expect_error("cannot read");
    bound(&right, &["--base", "ou=nowhere,dc=example,dc=com"])
        .expect_code(2)
        .expect_error("or none that this client may see");
    bound(&right, &["--attributes", "nonsense"]).expect_code(2).expect_error("is not in the schema");
    // Anonymous clients may not read the tree, and an incomplete export is a failure.
    let file = scratch.join("out.ldif");
    let refused = ["export", "--url", &url, "-o", file.to_str().unwrap()];
    command(&refused, None).expect_code(1).expect_error("insufficientAccessRights");
    for base in ["ou=people,dc=example,dc=com", "ou=nowhere,dc=example,dc=com"] {
        let refused = ["export", "--url", &url, "--base", base];
        command(&refused, None).expect_code(1).expect_error("insufficientAccessRights");
    }
    assert!(!file.exists());
    command(&["export", "--url", "ldap://127.0.0.1:1"], None).expect_code(1).expect_error("cannot connect");
    command(&["export", "--url", "nonsense"], None).expect_code(2).expect_error("write ldap://HOST:PORT");
    command(&["export", "--url", &url, "--bind-dn", "cn=x"], None)
        .expect_code(2)
        .expect_error("--password-file");
    // If a data directory is given together with a server, the command is refused, because the directory would be
    // ignored. A directory in the environment is only a default, and is ignored.
    for verb in [&["export"][..], &["apply", "settings.toml"], &["explain", "(cn=*)"]] {
        command(&[verb, &["--url", &url]].concat(), Some(&Pando::data(&scratch)))
            .expect_code(2)
            .expect_error("--url names a server, --data a directory of this machine");
    }
    let environment = ["PANDO_DATA=/nonexistent", program(), "export", "--url", &url, "--bind-dn", ADMIN_DN];
    let password = ["--password-file", right.to_str().unwrap()];
    clients::run("env", &[&environment[..], &password].concat(), "").expect_code(0);
    drop(admin);
    assert!(pando.stop().success());
    export(&scratch, &["--online"]).expect_code(1).expect_error("is the directory being served?");
}

#[test]
fn an_export_fails_if_its_search_ends_early() {
    let scratch = Scratch::new("online-early");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let limit = (ChangeOperation::Replace, "pandoSizeLimit", &["3"][..]);
    assert!(admin.modify("cn=config", &[limit]).unwrap().is_success());
    let file = scratch.write("password", "anna-secret");
    let url = format!("ldap://{}", pando.address());
    let arguments =
        ["--url", &url, "--bind-dn", &person_dn("anna"), "--password-file", file.to_str().unwrap(), "-o"];
    let out = scratch.join("out.ldif");
    let arguments = [&["export"], &arguments[..], &[out.to_str().unwrap()]].concat();
    command(&arguments, None).expect_code(1).expect_error("after 3 entries: sizeLimitExceeded");
    assert!(!out.exists());
}

#[test]
fn entries_of_another_server_are_exported() {
    let scratch = Scratch::new("online-slapd");
    let slapd = Slapd::start(&scratch, &[]);
    let mut admin = client::Connection::open(slapd.address()).unwrap();
    assert!(admin.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
    plant(&mut admin);
    let password = scratch.write("password", ADMIN_PASSWORD);
    let file = scratch.join("slapd.ldif");
    let file = file.to_str().unwrap();
    let url = format!("ldap://{}", slapd.address());
    let bind = ["--bind-dn", ADMIN_DN, "--password-file", password.to_str().unwrap()];
    command(&[&["export", "--url", &url, "--operational", "-o", file], &bind[..]].concat(), None)
        .expect_code(0)
        .expect_error("exported 6 entries");
    let data = Pando::data(&scratch);
    command(&["import", "--suffix", SUFFIX, file], Some(&data)).expect_code(0);
    let there = ldap_utility("ldapsearch", slapd.address(), &["-b", SUFFIX, "entryUUID"], "").stdout;
    let pando = Pando::start(&scratch);
    let here = ldap_utility("ldapsearch", pando.address(), &["-b", SUFFIX, "entryUUID"], "").stdout;
    assert_eq!(here, there, "the same entries under the same names");
}

#[test]
fn two_servers_are_compared() {
    let scratch = Scratch::new("online-compare");
    let slapd = Slapd::start(&scratch, &[]);
    let mut theirs = client::Connection::open(slapd.address()).unwrap();
    assert!(theirs.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
    let pando = Pando::start(&scratch);
    let mut ours = pando.administrator();
    plant(&mut theirs);
    plant(&mut ours);
    let password = scratch.write("password", ADMIN_PASSWORD);
    let urls = [slapd.address(), pando.address()].map(|address| format!("ldap://{address}"));
    let bind = ["--bind-dn", ADMIN_DN, "--password-file", password.to_str().unwrap()];
    let compare =
        |more: &[&str]| command(&[&["compare", &urls[0], &urls[1]], &bind[..], more].concat(), None);
    // Hashes have random salts, so passwords are not compared.
    let same = ["--leave-out", "userPassword", "--base", SUFFIX];
    compare(&same).expect_code(0).expect_error("6 and 6 entries").expect_error("6 the same");
    replace(&mut ours, &person_dn("anna"), "title", &["x", "y"]);
    replace(&mut theirs, &person_dn("anna"), "title", &["X", "z"]);
    assert!(ours.delete(&person_dn("bert")).unwrap().is_success());
    add_person(&mut ours, "clara");
    let line = format!("{}: 1 values only in the first, 1 only in the second", person_dn("anna"));
    compare(&same)
        .expect_code(1)
        .expect_output("1 entries are only in ldap:")
        .expect_output("1 entries differ in title")
        .expect_output(&line);
    let json = compare(&[&same[..], &["--json"]].concat()).expect_code(1).stdout;
    assert!(json.contains(r#""difference":"only_second","dn":"uid=clara,"#), "{json}");
    assert!(json.contains(r#""values":2"#), "{json}");
    compare(&["--base", SUFFIX, "--filter", "(ou=*)"]).expect_code(0);
    compare(&["--base", SUFFIX, "--operational", "--filter", "(ou=people)"])
        .expect_code(1)
        .expect_output("differ in entryUUID");
    compare(&["--base", "ou=nowhere,o=x"]).expect_code(2).expect_error("nowhere");
}

#[test]
fn explain_asks_the_server_that_has_the_directory() {
    let scratch = Scratch::new("online-explain");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    for number in 0..20 {
        add_person(&mut admin, &format!("person{number}"));
    }
    let data = Pando::data(&scratch);
    let url = socket_url(&scratch);
    let without_times = |text: &str| -> String {
        text.lines().filter(|line| !line.starts_with("microseconds")).flat_map(|line| [line, "\n"]).collect()
    };
    let filter = "(&(objectClass=person)(uid=person1*))";
    let asked = ["explain", "--base", SUFFIX, filter];
    let itself = command(&asked, Some(&data)).expect_code(0).expect_output("by indexes:").stdout;
    for (way, data) in [(&["--online"][..], Some(data.as_path())), (&["--url", &url], None)] {
        let online = command(&[&asked, way].concat(), data).expect_code(0).stdout;
        assert_eq!(without_times(&online), without_times(&itself));
    }
    command(&["explain", "--base", "", "--scope", "base", "(cn=*)"], Some(&data))
        .expect_code(1)
        .expect_error("unavailableCriticalExtension: critical control explain is about entries of the tree");
    command(&["explain", "--base", "ou=nowhere,o=x", "(cn=*)"], Some(&data))
        .expect_code(1)
        .expect_error("noSuch");
    let anonymous = format!("ldap://{}", pando.address());
    command(&["explain", "--url", &anonymous, "(cn=*)"], None).expect_code(1).expect_error("administrator");
    let listed = command(&["index", "list"], Some(&data)).expect_code(0).stdout;
    drop(admin);
    assert!(pando.stop().success());
    let offline = command(&asked, Some(&data)).expect_code(0).stdout;
    assert_eq!(without_times(&offline), without_times(&itself));
    assert_eq!(command(&["index", "list"], Some(&data)).expect_code(0).stdout, listed);
    assert!(listed.contains("uid equality"), "{listed}");
}

#[test]
fn indexes_are_built_and_removed_while_a_server_runs() {
    let scratch = Scratch::new("online-index");
    let pando = Start::new(&scratch).arguments(&["--sample"]).ready();
    let data = Pando::data(&scratch);
    let index = |arguments: &[&str]| command(&[&["index"], arguments].concat(), Some(&data));
    let explain =
        |filter: &str| command(&["explain", "--base", SUFFIX, filter], Some(&data)).expect_code(0).stdout;
    assert!(explain("(cn=*ber*)").contains("missing: a substring index on cn"));
    let added = index(&["add", "commonName", "--kinds", "substring"]).expect_code(0);
    assert_eq!(added.stdout, "commonName equality,ordering,substring\n");
    assert!(explain("(cn=*ber*)").starts_with("by indexes:"), "the rows are there when it returns");
    index(&["add", "description"]).expect_code(0);
    index(&["drop", "cn", "--kinds", "substring"]).expect_code(0);
    index(&["drop", "givenName"]).expect_code(0);
    index(&["drop", "givenName"]).expect_code(0);
    let list = index(&["list"]).stdout;
    assert!(list.contains("cn equality,ordering\n") && list.contains("description equality"), "{list}");
    assert!(!list.contains("givenName"), "{list}");
    index(&["add", "member"]).expect_code(1).expect_error("always indexed");
    index(&["add", "nonsense"]).expect_code(1).expect_error("not defined");
    assert!(pando.stop().success());
    assert_eq!(index(&["list"]).stdout, list);
    command(&["verify"], Some(&data)).expect_code(0);
}
