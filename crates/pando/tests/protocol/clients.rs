//! Common client programs against the real server. If a program is missing, its test fails: `./dev test` installs all
//! of them.

use ldap::Scope;
use test_support::clients::{ldap_utility, python_script, repository, run, unboundid_tool};
use test_support::pando::Start;
use test_support::tree::{person_dn, plant};
use test_support::{ADMIN_DN, Pando, SUFFIX, Scratch};

fn start_with_tree(name: &str) -> (Scratch, Pando) {
    let scratch = Scratch::new(name);
    let pando = Pando::start(&scratch);
    plant(&mut pando.administrator());
    (scratch, pando)
}

#[test]
fn openldap_clients_search_and_change() {
    let (_scratch, pando) = start_with_tree("ldap-utils");
    let server = pando.address();
    ldap_utility("ldapwhoami", server, &[], "").expect_code(0).expect_output(&format!("dn:{ADMIN_DN}"));

    let new = format!(
        "dn: {}\nobjectClass: inetOrgPerson\nuid: new\ncn: New\ncn:: w4lsb2RpZQ==\nsn: New\nmail: new@example.com\n",
        person_dn("new")
    );
    ldap_utility("ldapadd", server, &[], &new).expect_code(0);
    ldap_utility("ldapadd", server, &[], &new).expect_code(68).expect_error("Already exists");

    let found =
        ldap_utility("ldapsearch", server, &["-b", SUFFIX, "(uid=new)", "cn", "mail"], "").expect_code(0);
    assert_eq!(
        found.stdout,
        format!("dn: {}\ncn: New\ncn:: w4lsb2RpZQ==\nmail: new@example.com\n\n", person_dn("new"))
    );
    ldap_utility("ldapsearch", server, &["-b", "ou=nowhere,dc=example,dc=com"], "")
        .expect_code(32)
        .expect_error(&format!("Matched DN: {SUFFIX}"));
    // Extensions of search: `@person` selects all attributes of a class, and `+` all operational ones.
    ldap_utility("ldapsearch", server, &["-b", &person_dn("new"), "-s", "base", "@person", "+"], "")
        .expect_code(0)
        .expect_output("sn: New")
        .expect_output("entryUUID: ");

    let change = format!(
        "dn: {}\nchangetype: modify\nadd: title\ntitle: Boss\n-\ndelete: mail\n-\n",
        person_dn("new")
    );
    ldap_utility("ldapmodify", server, &[], &change).expect_code(0);
    let compare = |assertion: &str| ldap_utility("ldapcompare", server, &[&person_dn("new"), assertion], "");
    compare("title:boss").expect_code(6).expect_output("TRUE");
    compare("title:clerk").expect_code(5).expect_output("FALSE");
    compare("mail:new@example.com").expect_code(16);

    ldap_utility("ldapmodrdn", server, &["-r", &person_dn("new"), "uid=newer"], "").expect_code(0);
    ldap_utility("ldapmodrdn", server, &["-r", "-s", SUFFIX, &person_dn("newer"), "uid=newest"], "")
        .expect_code(0);
    ldap_utility("ldapdelete", server, &[&format!("uid=newest,{SUFFIX}")], "").expect_code(0);
    ldap_utility("ldapdelete", server, &[&format!("ou=people,{SUFFIX}")], "")
        .expect_code(66)
        .expect_error("Operation not allowed on non-leaf");
}

#[test]
fn openldap_clients_receive_errors_and_limits() {
    let (_scratch, pando) = start_with_tree("ldap-utils-more");
    let server = pando.address();
    let url = format!("ldap://{server}");
    // Anonymous clients can read the root DSE, with all features of the server.
    run("ldapsearch", &["-x", "-LLL", "-H", &url, "-s", "base", "-b", "", "+"], "")
        .expect_code(0)
        .expect_output("supportedLDAPVersion: 3")
        .expect_output("namingContexts: dc=example,dc=com");
    // A wrong password and a SASL mechanism that is not offered are refused.
    run("ldapwhoami", &["-x", "-H", &url, "-D", ADMIN_DN, "-w", "wrong"], "").expect_code(49);
    // Tests a size limit, ManageDsaIT, and an unknown control, which is refused only if it is critical.
    let all = ["-b", SUFFIX, "-z", "2", "(objectClass=*)", "1.1"];
    ldap_utility("ldapsearch", server, &all, "").expect_code(4).expect_error("Size limit exceeded");
    ldap_utility("ldapsearch", server, &["-M", "-b", SUFFIX, "-s", "base", "1.1"], "").expect_code(0);
    ldap_utility("ldapsearch", server, &["-e", "!1.2.3.4=", "-b", SUFFIX, "-s", "base", "1.1"], "")
        .expect_code(12);
    ldap_utility("ldapsearch", server, &["-e", "1.2.3.4=", "-b", SUFFIX, "-s", "base", "1.1"], "")
        .expect_code(0);
}

#[test]
fn python_ldap3_searches_and_changes() {
    let (_scratch, pando) = start_with_tree("ldap3");
    python_script("with_ldap3.py", pando.address(), &[]).expect_code(0).expect_output("content");
}

#[test]
fn python_ldap_searches_and_changes() {
    let (_scratch, pando) = start_with_tree("python-ldap");
    python_script("with_python_ldap.py", pando.address(), &[]).expect_code(0).expect_output("content");
}

#[test]
fn unboundid_tools_search_and_change() {
    let (scratch, pando) = start_with_tree("unboundid");
    let server = pando.address();
    unboundid_tool(
        "unboundidds.tools.LDAPSearch",
        server,
        &["--baseDN", SUFFIX, "(&(uid=anna)(memberOf=*))", "uid", "memberOf"],
        "",
    )
    .expect_code(0)
    .expect_output("uid: anna")
    .expect_output("memberOf: cn=staff,ou=groups");
    let change = scratch.write(
        "change.ldif",
        format!(
            "dn: {0}\nchangetype: modify\nreplace: title\ntitle: Boss\n-\n\n\
             dn: {1}\nchangetype: add\nobjectClass: inetOrgPerson\nuid: new\ncn: New\nsn: New\n\n\
             dn: {1}\nchangetype: moddn\nnewrdn: uid=newer\ndeleteoldrdn: 1\n\n",
            person_dn("anna"),
            person_dn("new")
        ),
    );
    unboundid_tool("unboundidds.tools.LDAPModify", server, &["--ldifFile", change.to_str().unwrap()], "")
        .expect_code(0);
    unboundid_tool("unboundidds.tools.LDAPCompare", server, &["title:boss", &person_dn("anna")], "")
        .expect_code(0)
        .expect_output("compare true");
    unboundid_tool("unboundidds.tools.LDAPDelete", server, &[&person_dn("newer")], "").expect_code(0);
    unboundid_tool(
        "unboundidds.tools.LDAPSearch",
        server,
        &["--baseDN", &person_dn("newer"), "--scope", "base", "(objectClass=*)"],
        "",
    )
    .expect_code(32);
}

#[test]
fn unboundid_tools_use_controls() {
    let (scratch, pando) = start_with_tree("unboundid-controls");
    let server = pando.address();
    let people = format!("ou=people,{SUFFIX}");
    let search = |options: &[&str]| {
        unboundid_tool("unboundidds.tools.LDAPSearch", server, options, "").expect_code(0).stdout
    };
    let list = ["--baseDN", &people, "--sortOrder", "-uid", "--virtualListView", "0:0:1:0", "(uid=*)", "uid"];
    let last = search(&list);
    let uids = search(&["--baseDN", &people, "(uid=*)", "uid"]);
    let greatest = uids.lines().filter(|line| line.starts_with("uid: ")).max().unwrap();
    assert!(last.contains(greatest) && last.matches("uid: ").count() == 1, "{last}");
    let item = format!("(member={})", person_dn("anna"));
    let matched = ["--baseDN", SUFFIX, "--matchedValuesFilter", &item, "(cn=staff)"];
    let found = search(&matched);
    assert!(found.matches("member: ").count() == 1 && !found.contains("cn: "), "{found}");

    let change = |options: &[&str], title: &str| {
        let ldif = format!("dn: {}\nchangetype: modify\nreplace: title\ntitle: {title}\n", person_dn("anna"));
        let file = scratch.write("change.ldif", ldif);
        let options = [&["--ldifFile", file.to_str().unwrap()], options].concat();
        unboundid_tool("unboundidds.tools.LDAPModify", server, &options, "")
    };
    change(&[], "First").expect_code(0);
    let both = ["--preReadAttribute", "title", "--postReadAttribute", "title"];
    let changed = change(&both, "Second").expect_code(0).stdout;
    assert!(changed.contains("title: First") && changed.contains("title: Second"), "{changed}");
    let asked = change(&["--noOperation"], "Third");
    assert!(asked.to_string().contains("16654"), "{asked}");
    let title = pando.administrator().entry(&person_dn("anna"), &["title"]).unwrap().unwrap();
    assert_eq!(title.text("title").as_deref(), Some("Second"));

    // All changes of a file are sent in one transaction. The second change fails.
    let person = |uid: &str| {
        let dn = person_dn(uid);
        format!("dn: {dn}\nchangetype: add\nobjectClass: inetOrgPerson\nuid: {uid}\ncn: New\nsn: New\n\n")
    };
    let together = |name: &str, ldif: &str| {
        let file = scratch.write(name, ldif);
        let options = ["--useTransaction", "--ldifFile", file.to_str().unwrap()];
        unboundid_tool("unboundidds.tools.LDAPModify", server, &options, "")
    };
    let failed = together("failing.ldif", &format!("{}{}", person("one"), person("anna")));
    assert_eq!(failed.code, Some(68), "{failed}");
    assert!(pando.administrator().entry(&person_dn("one"), &[]).unwrap().is_none());
    together("made.ldif", &format!("{}{}", person("one"), person("two"))).expect_code(0);
    assert!(pando.administrator().entry(&person_dn("two"), &[]).unwrap().is_some());

    unboundid_tool("unboundidds.tools.LDAPDelete", server, &[&people], "").expect_code(66);
    unboundid_tool("unboundidds.tools.LDAPDelete", server, &["--serverSideSubtreeDelete", &people], "")
        .expect_code(0);
    assert!(pando.administrator().entry(&people, &[]).unwrap().is_none());
}

#[test]
fn unboundid_reads_the_schema() {
    let (scratch, pando) = start_with_tree("unboundid-schema");
    // validate-ldif reads the schema from the server, so every definition must be valid for it.
    let person = "objectClass: top\nobjectClass: person\nobjectClass: organizationalPerson\nobjectClass: inetOrgPerson";
    let good = format!("dn: {}\n{person}\nuid: x\ncn: X\nsn: X\n", person_dn("x"));
    let bad = format!("dn: {}\n{person}\nuid: y\ncn: Y\nsn: Y\nuidNumber: one\n", person_dn("y"));
    let ldif = scratch.write("check.ldif", format!("{good}\n{bad}"));
    unboundid_tool("examples.ValidateLDIF", pando.address(), &["--ldifFile", ldif.to_str().unwrap()], "")
        .expect_code(65)
        .expect_output("1 of 2 entries (50 percent) were found to be invalid")
        .expect_output("Prohibited attribute uidnumber was encountered 1 times");
}

#[test]
fn unboundid_load_tools_complete() {
    let (_scratch, pando) = start_with_tree("unboundid-load");
    let server = pando.address();
    let bounded = ["--numThreads", "4", "--numIntervals", "1", "--intervalDuration", "2"];
    let mut search =
        vec!["--baseDN", SUFFIX, "--scope", "sub", "--filter", "(uid=anna)", "--attribute", "cn"];
    search.extend(bounded);
    unboundid_tool("examples.SearchRate", server, &search, "").expect_code(0);
    let anna = person_dn("anna");
    let mut modify = vec!["--entryDN", anna.as_str(), "--attribute", "description", "--valueLength", "10"];
    modify.extend(bounded);
    unboundid_tool("examples.ModRate", server, &modify, "").expect_code(0);
    let mut authenticate = vec!["--baseDN", SUFFIX, "--filter", "(uid=bert)", "--credentials", "bert-secret"];
    authenticate.extend(bounded);
    unboundid_tool("examples.AuthRate", server, &authenticate, "").expect_code(0);
    let title = pando.administrator().entry(&anna, &["description"]).unwrap().unwrap();
    assert_eq!(title.texts("description").len(), 1, "ModRate changed the entry");
}

/// The README shows the output of `./dev run`, except for the port and the password, and its filters find entries.
#[test]
fn the_example_search_of_the_readme_finds_entries() {
    let scratch = Scratch::new("readme");
    let start = Start::bare(&scratch, "data").arguments(&["--sample"]);
    let pando = start.environment("PANDO_ADMIN_PASSWORD", "PASSWORD").ready();
    let url = format!("ldap://{}", pando.address());
    let password = scratch.write("password", "PASSWORD\n");
    let dev = repository().join("dev");
    let show = "source <(sed -n '/^show_search()/,/^}/p' \"$0\"); show_search \"$1\" \"$2\"";
    let arguments = ["-e", "-c", show, dev.to_str().unwrap(), &url, password.to_str().unwrap()];
    let shown = run("bash", &arguments, "").expect_code(0);
    let readme = std::fs::read_to_string(repository().join("README.md")).unwrap();
    let block = readme.split("\n\n").find(|block| block.contains("$ ldapsearch")).unwrap();
    let lines = block.replace(" \\\n        ", " ").replace("ldap://127.0.0.1:1389", &url);
    let lines = lines.lines().map(|line| line.trim_start_matches(' ')).collect::<Vec<_>>().join("\n");
    assert!(shown.stdout.trim_start().starts_with(&format!("{lines}\n\n")), "{lines}\n---\n{shown}");
    let mut search = pando.connect();
    assert!(search.bind("cn=admin", "PASSWORD").unwrap().is_success());
    for (base, filter) in [
        (SUFFIX, "(&(objectClass=posixAccount)(l=M*))"),
        ("ou=departments,dc=example,dc=com", "(ou=*)"),
        (SUFFIX, "(memberOf=cn=on-call,ou=groups,dc=example,dc=com)"),
    ] {
        assert!(shown.stdout.contains(filter), "{shown}");
        let found = search.search(base, Scope::WholeSubtree, filter, &["1.1"]).unwrap();
        assert!(!found.entries.is_empty(), "{filter}");
    }
}
