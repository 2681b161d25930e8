//! Changes of directory-wide settings with `pando plan`, `apply` and `export --settings-only`.

use std::time::Instant;

use ldap::Scope;
use test_support::clients::{Run, ldap_utility};
use test_support::pando::{Start, command};
use test_support::tree::{add_person, person_dn, plant};
use test_support::{DEADLINE, Pando, SUFFIX, Scratch};

/// An attribute type that the shipped schema lacks.
const COLOUR: &str = "attributetype ( 1.3.6.1.4.1.32473.1 NAME 'colour' EQUALITY caseIgnoreMatch\n  \
                      SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )\n";

/// Runs `pando VERB` with a settings file that contains this text.
fn with_file(scratch: &Scratch, verb: &str, text: &str) -> Run {
    let file = scratch.write("settings.toml", text);
    command(&[verb, file.to_str().unwrap()], Some(&Pando::data(scratch)))
}

fn exported(scratch: &Scratch) -> String {
    command(&["export", "--settings-only"], Some(&Pando::data(scratch))).expect_code(0).stdout
}

#[test]
fn a_directory_begins_with_the_settings_of_a_file() {
    let scratch = Scratch::new("settings-first");
    scratch.write("own.schema", COLOUR);
    let text = "suffixes = [\"o=partners\"]\nschema_files = [\"own.schema\"]\n[indexes]\nmail = [\"equality\"]\n\
                colour = \"equality\"\n";
    let planned = with_file(&scratch, "plan", text).expect_code(0);
    assert!(planned.stdout.contains("makes a new directory") && !Pando::data(&scratch).exists(), "{planned}");
    let applied = with_file(&scratch, "apply", text).expect_code(0);
    assert_eq!(applied.stdout, planned.stdout + "applied\n", "apply makes the planned changes");
    with_file(&scratch, "apply", text).expect_code(0).expect_output("no change");
    let list = command(&["index", "list"], Some(&Pando::data(&scratch))).stdout;
    assert_eq!(list, "colour equality\nmail equality\n", "an index that is not defined is not kept");

    // The first start of a server stores the settings. Exported settings create a second directory with equal settings.
    let pando = Start::bare(&scratch, "data").ready();
    let contexts = pando.connect().entry("", &["namingContexts"]).unwrap().unwrap();
    assert_eq!(contexts.texts("namingContexts"), ["o=partners"]);
    assert!(pando.stop().success());
    let file = scratch.write("exported.toml", exported(&scratch));
    let other = scratch.join("other");
    command(&["apply", file.to_str().unwrap()], Some(&other)).expect_code(0);
    let again = command(&["export", "--settings-only"], Some(&other)).stdout;
    assert_eq!(again, exported(&scratch));
    command(&["apply", file.to_str().unwrap()], Some(&Pando::data(&scratch))).expect_output("no change");
}

#[test]
fn a_plan_marks_added_and_removed_list_members() {
    let scratch = Scratch::new("settings-signs");
    let rules = |rules: &str| format!("suffixes = [\"o=a\"]\naccess_rules = [{rules}]\n");
    let (all, mail) = ("'all: allow read to authenticated'", "'mail: allow write of mail to self'");
    with_file(&scratch, "apply", &rules(&format!("{all}, {mail}"))).expect_code(0);
    let planned = with_file(&scratch, "plan", &rules(&format!("{all}, 'hr: allow write to anyone'")));
    let lines: Vec<&str> = planned.stdout.lines().collect();
    let expected = [
        "changes access_rules: removes 1, adds 1",
        "  - \"mail: allow write of mail to self\"",
        "  + \"hr: allow write to anyone\"",
    ];
    assert_eq!(lines, expected, "{planned}");
    with_file(&scratch, "plan", &rules(&format!("{mail}, {all}")))
        .expect_code(0)
        .expect_output("changes the order of access_rules");
}

#[test]
fn definitions_without_effect_are_reported() {
    let scratch = Scratch::new("settings-idle");
    let text = "suffixes = [\"o=partners\"]\nschema_files = [\"own.schema\"]\n";
    let linked =
        "attributetype ( 1.3.6.1.4.1.32473.4 NAME 'boss' SUP manager X-ORIGIN 'me' X-ORDERED 'VALUES' )\n";
    scratch.write("own.schema", format!("{COLOUR}{linked}"));
    for verb in ["plan", "apply", "apply"] {
        let run = with_file(&scratch, verb, text).expect_code(0);
        assert!(!run.stderr.contains("X-ORIGIN"), "{run}");
        run.expect_error("own.schema:3: \"boss\": X-ORDERED has no effect here");
    }
}

#[test]
fn plan_counts_the_values_that_become_links() {
    let scratch = Scratch::new("settings-links");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let document = [("objectClass", "document"), ("documentIdentifier", "1")];
    let authors = [("documentAuthor", SUFFIX), ("documentAuthor", "cn=none,o=elsewhere")];
    let outcome =
        admin.add(&format!("documentIdentifier=1,{SUFFIX}"), &[document, authors].concat()).unwrap();
    assert!(outcome.is_success(), "{outcome:?}");
    assert!(pando.stop().success());
    let (syntax, rule) = ("SYNTAX 1.3.6.1.4.1.1466.115.121.1.12", "EQUALITY distinguishedNameMatch");
    let author = |link: &str| {
        format!("attributetype ( 0.9.2342.19200300.100.1.14 NAME 'documentAuthor' {rule} {syntax} {link} )\n")
    };
    let text = format!("schema_files = [\"own.schema\"]\n{}", exported(&scratch));
    scratch.write("own.schema", author("X-LINK 'maybe'"));
    with_file(&scratch, "plan", &text)
        .expect_error("own.schema:1: \"documentAuthor\": X-LINK cannot be followed");
    scratch.write("own.schema", author("X-LINK 'TRUE'"));
    let planned = with_file(&scratch, "plan", &text).expect_code(0);
    let note =
        "documentAuthor: 2 values of 1 entries become links in the background; 1 of them name no entry";
    assert!(planned.stdout.contains(note) || planned.stderr.contains(note), "{planned}");
    with_file(&scratch, "apply", &text).expect_code(0);
    command(&["verify"], Some(&Pando::data(&scratch))).expect_code(0);
}

#[test]
fn plan_shows_the_cost_of_a_change_and_apply_makes_it() {
    let scratch = Scratch::new("settings-change");
    let pando = Pando::start(&scratch);
    plant(&mut pando.administrator());
    assert!(pando.stop().success());
    let text = exported(&scratch);
    let changed = text
        .replace("sn = [\"equality\", \"ordering\"]\n", "")
        .replace("cn = [\"equality\", \"ordering\"]", "cn = [\"equality\", \"ordering\", \"substring\"]")
        .replace("[indexes]", "[indexes]\ndescription = [\"presence\"]")
        .replace("size_limit = 1000", "size_limit = 1")
        .replace(&format!("suffixes = [\"{SUFFIX}\"]"), &format!("suffixes = [\"{SUFFIX}\", \"o=x\"]"));
    let planned = with_file(&scratch, "plan", &changed).expect_code(0);
    let entries = command(&["verify"], Some(&Pando::data(&scratch))).stdout;
    let entries = entries.split(" entries").next().unwrap().rsplit(' ').next().unwrap().to_owned();
    for line in [
        "adds the suffix o=x".to_owned(),
        "changes limits.size_limit from 1000 to 1".to_owned(),
        format!("builds a substring index on cn over {entries} entries"),
        format!("builds a presence index on description over {entries} entries"),
        "drops the index on sn: ".to_owned(),
    ] {
        assert!(planned.stdout.lines().any(|found| found.starts_with(&line)), "no {line:?} in {planned}");
    }
    assert!(!planned.stdout.contains("drops the index on sn: 0 rows"), "{planned}");
    with_file(&scratch, "apply", &changed).expect_code(0).expect_output("applied");
    with_file(&scratch, "plan", &changed).expect_code(0).expect_output("no change");
    command(&["verify"], Some(&Pando::data(&scratch))).expect_code(0);
    let explained = command(&["explain", "--base", SUFFIX, "(cn=*nna*)"], Some(&Pando::data(&scratch)));
    explained.expect_code(0).expect_output("substring of cn");

    let gone = changed.replace(&format!("\"{SUFFIX}\", "), "");
    let refused = with_file(&scratch, "apply", &gone).expect_code(2);
    assert!(
        refused.stderr.contains("settings.toml:5: suffix") && refused.stderr.contains("cannot be removed"),
        "{refused}"
    );
    with_file(&scratch, "plan", &changed).expect_output("no change");
    with_file(&scratch, "apply", &changed.replace(", \"o=x\"", "")).expect_output("removes the suffix o=x");
}

#[test]
fn an_import_can_bring_the_settings_of_a_new_directory() {
    let scratch = Scratch::new("settings-import");
    let ldif = scratch.write("data.ldif", "dn: o=x\nobjectClass: organization\no: x\n");
    let settings = scratch.write("settings.toml", "suffixes = [\"o=x\"]\n[indexes]\no = [\"equality\"]\n");
    let import = |settings: &str| {
        let arguments = ["import", "--settings", settings, "--replace", ldif.to_str().unwrap()];
        command(&arguments, Some(&Pando::data(&scratch)))
    };
    import(settings.to_str().unwrap()).expect_code(0);
    assert_eq!(command(&["index", "list"], Some(&Pando::data(&scratch))).stdout, "o equality\n");
    import(settings.to_str().unwrap()).expect_code(0);
    let other = scratch.write("other.toml", "suffixes = [\"o=x\"]\n");
    import(other.to_str().unwrap()).expect_code(2).expect_error("has other settings");
}

/// Regression test: `--suffix` was refused with a settings file without suffixes. Such a file implies the default
/// suffix, which cannot coexist with `dc=com`.
#[test]
fn an_import_uses_its_suffix_if_the_settings_name_none() {
    let scratch = Scratch::new("settings-import-suffix");
    let ldif = scratch.write("data.ldif", "dn: dc=com\nobjectClass: domain\ndc: com\n");
    let settings = scratch.write("settings.toml", "[indexes]\ndc = [\"equality\"]\n");
    let (settings, ldif) = (settings.to_str().unwrap(), ldif.to_str().unwrap());
    for _ in 0..2 {
        let arguments = ["import", "--settings", settings, "--suffix", "dc=com", "--replace", ldif];
        command(&arguments, Some(&Pando::data(&scratch))).expect_code(0);
        let exported = command(&["export", "--settings-only"], Some(&Pando::data(&scratch))).stdout;
        assert!(exported.contains("suffixes = [\"dc=com\"]"), "{exported}");
    }
}

#[test]
fn a_server_enforces_its_settings() {
    let scratch = Scratch::new("settings-served");
    let text = format!("suffixes = [\"{SUFFIX}\"]\nanonymous_read = true\n[limits]\nsize_limit = 2\n");
    with_file(&scratch, "apply", &text).expect_code(0);
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    (0..3).for_each(|number| add_person(&mut admin, &format!("many{number}")));
    let found =
        pando.connect().search(SUFFIX, Scope::WholeSubtree, "(objectClass=person)", &["1.1"]).unwrap();
    assert_eq!((found.outcome.code, found.entries.len()), (ldap::ResultCode::SIZE_LIMIT_EXCEEDED, 2));
}

#[test]
fn ldap_clients_change_the_settings_of_a_running_server() {
    let scratch = Scratch::new("settings-ldap");
    let pando = Pando::start(&scratch);
    plant(&mut pando.administrator());
    let server = pando.address();
    let definitions = scratch.write("own.schema", COLOUR);
    let changes = format!(
        "dn: cn=config\nchangetype: modify\nreplace: pandoAnonymousRead\npandoAnonymousRead: TRUE\n-\n\
         replace: pandoSizeLimit\npandoSizeLimit: 1\n-\nadd: pandoSuffix\npandoSuffix: o=partners\n\n\
         dn: cn=title,cn=indexes,cn=config\nchangetype: add\nobjectClass: pandoIndex\npandoIndexKind: equality\n\
         pandoIndexKind: substring\n\n\
         dn: cn=sn,cn=indexes,cn=config\nchangetype: delete\n\n\
         dn: cn=own,cn=schema,cn=config\nchangetype: add\nobjectClass: pandoSchema\npandoSchemaText:< file://{}\n\n\
         dn: {}\nchangetype: modify\nadd: objectClass\nobjectClass: extensibleObject\n-\nadd: colour\ncolour: Red\n",
        definitions.display(),
        person_dn("anna")
    );
    ldap_utility("ldapmodify", server, &[], &changes).expect_code(0);
    let limited = pando.connect().search(SUFFIX, Scope::WholeSubtree, "(objectClass=*)", &["1.1"]).unwrap();
    assert_eq!((limited.outcome.code, limited.entries.len()), (ldap::ResultCode::SIZE_LIMIT_EXCEEDED, 1));
    let coloured = pando.connect().search(SUFFIX, Scope::WholeSubtree, "(colour=RED)", &["1.1"]).unwrap();
    assert_eq!(coloured.entries.len(), 1);
    ldap_utility("ldapadd", server, &[], "dn: o=partners\nobjectClass: organization\n").expect_code(0);
    let contexts = pando.connect().entry("", &["namingContexts"]).unwrap().unwrap();
    assert_eq!(contexts.texts("namingContexts"), [SUFFIX, "o=partners"]);
    let config = ["-b", "cn=indexes,cn=config", "(cn=title)", "pandoIndexKind"];
    let shown = ldap_utility("ldapsearch", server, &config, "").expect_code(0);
    assert!(shown.stdout.contains("pandoIndexKind: equality\npandoIndexKind: substring\n"), "{shown}");
    let definition = "dn: cn=own,cn=schema,cn=config\nchangetype: delete\n";
    ldap_utility("ldapmodify", server, &[], definition)
        .expect_code(19)
        .expect_error("attribute type colour is used by an entry");
    let suffix = "dn: cn=config\nchangetype: modify\ndelete: pandoSuffix\npandoSuffix: o=partners\n";
    ldap_utility("ldapmodify", server, &[], suffix).expect_code(53).expect_error("has an entry");

    // The exported settings are the same while the server runs and after it has stopped.
    let text = exported(&scratch);
    assert!(text.contains("title = [\"equality\", \"substring\"]") && !text.contains("\nsn = "), "{text}");
    assert!(text.contains("anonymous_read = true") && text.contains(COLOUR), "{text}");
    assert!(pando.stop().success());
    with_file(&scratch, "plan", &text).expect_output("no change");
    command(&["verify"], Some(&Pando::data(&scratch))).expect_code(0);
}

#[test]
fn apply_changes_a_served_directory_through_its_server() {
    let scratch = Scratch::new("settings-online");
    let pando = Start::new(&scratch).arguments(&["--sample"]).ready();
    scratch.write("own.schema", COLOUR);
    let text = exported(&scratch)
        .replace("size_limit = 1000", "size_limit = 3")
        .replace("anonymous_read = false", "anonymous_read = true\nschema_files = [\"own.schema\"]")
        .replace("[indexes]", "[indexes]\ndescription = [\"substring\"]\ncolour = \"equality\"");
    let planned = with_file(&scratch, "plan", &text).expect_code(0).stdout;
    let applied = with_file(&scratch, "apply", &text).expect_code(0);
    let said = "the server builds while it serves; cn=Indexes,cn=monitor says how far it is\napplied\n";
    assert_eq!(applied.stdout, planned + said);
    with_file(&scratch, "apply", &text).expect_code(0).expect_output("no change");
    let limited = pando.connect().search(SUFFIX, Scope::WholeSubtree, "(objectClass=*)", &["1.1"]).unwrap();
    assert_eq!((limited.outcome.code, limited.entries.len()), (ldap::ResultCode::SIZE_LIMIT_EXCEEDED, 3));
    let started = Instant::now();
    let explain = ["explain", "--online", "--base", SUFFIX, "(description=*zzz*)"];
    while !command(&explain, Some(&Pando::data(&scratch))).stdout.contains("substring of description") {
        assert!(started.elapsed() < DEADLINE, "the index is not made");
    }

    // Errors that the server finds name the lines of the file.
    let wrong = text.replace("colour = \"equality\"", "color = \"equality\"");
    let line = 1 + wrong.lines().position(|line| line.starts_with("color")).unwrap();
    let refused = with_file(&scratch, "apply", &wrong).expect_code(2);
    refused.expect_error(&format!("settings.toml:{line}: attribute type \"color\" is not defined"));
    scratch.write("own.schema", "# a comment\nnonsense\n");
    with_file(&scratch, "apply", &text).expect_code(2).expect_error("own.schema:2: \"nonsense\"");
    scratch.write("own.schema", "");
    with_file(&scratch, "apply", &text).expect_code(2).expect_error("\"colour\" is not defined");
    scratch.write("own.schema", COLOUR);
    let gone = text.replace(&format!("\"{SUFFIX}\""), "\"o=other\"");
    with_file(&scratch, "apply", &gone).expect_code(2).expect_error("settings.toml:5: suffix");
    with_file(&scratch, "plan", &text).expect_code(0).expect_output("no change");

    // Over the network, only the administrator may apply settings, after a bind.
    let url = format!("ldap://{}", pando.address());
    let password = scratch.write("password", test_support::ADMIN_PASSWORD);
    let file = scratch.write("settings.toml", text.replace("size_limit = 3", "size_limit = 4"));
    let apply =
        |more: &[&str]| command(&[&["apply", "--url", &url, file.to_str().unwrap()], more].concat(), None);
    apply(&[]).expect_code(1).expect_error("insufficientAccessRights");
    let bound = ["--bind-dn", test_support::ADMIN_DN, "--password-file", password.to_str().unwrap()];
    apply(&bound).expect_code(0).expect_output("changes limits.size_limit from 3 to 4\napplied\n");
    let reply = pando.administrator().extended("1.3.6.1.4.1.99999.5.1", None).unwrap();
    assert_eq!(reply.outcome.code, ldap::ResultCode::PROTOCOL_ERROR);
    let files =
        pando.administrator().extended("1.3.6.1.4.1.99999.5.1", Some(b"schema_files = ['x']")).unwrap();
    assert_eq!(files.outcome.code, ldap::ResultCode::CONSTRAINT_VIOLATION);
    assert!(files.outcome.diagnostic.contains("a server reads no files of its clients"), "{files:?}");
    assert!(pando.stop().success());
    command(&["verify"], Some(&Pando::data(&scratch))).expect_code(0);
}

/// Regression test: a `password_policy` that named no entry was accepted, and no policy was in force.
#[test]
fn the_settings_must_name_an_existing_policy() {
    let scratch = Scratch::new("settings-policy");
    let data = Pando::data(&scratch);
    let named = |dn: &str| format!("suffixes = [\"{SUFFIX}\"]\npassword_policy = \"{dn}\"\n");
    let policy = format!("cn=policy,{SUFFIX}");
    let wrong = |verb: &str, dn: &str, what: &str| {
        let run = with_file(&scratch, verb, &named(dn)).expect_code(2);
        assert!(run.stderr.contains("settings.toml:2:") && run.stderr.contains(what), "{run}");
    };
    // In an empty directory, the policy entry may be added later, except if no suffix can contain it.
    with_file(&scratch, "plan", &named(&policy)).expect_code(0).expect_output("does not exist yet");
    wrong("plan", "cn=policy,o=elsewhere", "below no suffix");
    with_file(&scratch, "apply", &named(&policy)).expect_code(0).expect_output("note: password_policy");
    with_file(&scratch, "apply", &named(&policy)).expect_code(0).expect_output("no change");
    // If the imported entries lack the policy, the import reports an error, and the entries stay.
    let suffix = format!("dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n");
    let tree = scratch.write("tree.ldif", &suffix);
    let run = command(&["import", tree.to_str().unwrap()], Some(&data)).expect_code(6);
    assert!(run.stderr.contains("imported 1 entries") && run.stderr.contains("no such entry"), "{run}");
    wrong("plan", &policy, "no such entry");
    wrong("apply", &policy, "no such entry");
    wrong("plan", SUFFIX, "which is not a password policy");
    // If the imported entries contain the policy, only its attributes without effect are reported.
    let entry = format!(
        "dn: {policy}\nobjectClass: device\nobjectClass: pwdPolicy\nobjectClass: pwdPolicyChecker\ncn: policy\n\
         pwdAttribute: userPassword\npwdCheckModule: checker.so\npwdMinLength: 5\npwdCheckQuality: 1\n"
    );
    let tree = scratch.write("tree.ldif", suffix + &entry);
    let run = command(&["import", "--replace", tree.to_str().unwrap()], Some(&data)).expect_code(0);
    assert!(run.stderr.contains("pwdCheckModule has no effect"), "{run}");
    with_file(&scratch, "plan", &named(&policy)).expect_code(0).expect_output("no change");
    // A server reports ineffective parts of a policy in its log and in cn=monitor.
    let pando = Start::bare(&scratch, "data").arguments(&["--admin-dn", test_support::ADMIN_DN]).ready();
    let mut administrator = pando.administrator();
    let failing = |administrator: &mut client::Connection| {
        let dn = "cn=Failing,cn=Password Policies,cn=monitor";
        let entry = administrator.entry(dn, &["monitoredInfo"]).unwrap().unwrap();
        entry.text("monitoredInfo").unwrap()
    };
    assert!(failing(&mut administrator).contains("pwdCheckModule has no effect"));
    let wait_for_log = |what: &str| {
        let since = Instant::now();
        while !pando.log().contains(what) {
            assert!(since.elapsed() < DEADLINE, "{what}: {}", pando.log());
        }
    };
    wait_for_log("pwdCheckModule has no effect");
    let strip: &[(_, &str, &[&str])] = &[
        (ldap::ChangeOperation::Delete, "pwdCheckModule", &[]),
        (ldap::ChangeOperation::Delete, "objectClass", &["pwdPolicyChecker"]),
    ];
    assert!(administrator.modify(&policy, strip).unwrap().is_success());
    assert_eq!(failing(&mut administrator), "no");
    wait_for_log("no longer so: password policy");
    // The setting cannot be changed to name an entry that does not exist, neither over LDAP nor in a file sent to the
    // server.
    let other: &[(_, &str, &[&str])] =
        &[(ldap::ChangeOperation::Replace, "pandoPasswordPolicy", &[&format!("cn=ghost,{SUFFIX}")])];
    let outcome = administrator.modify("cn=config", other).unwrap();
    assert!(!outcome.is_success() && outcome.diagnostic.contains("no such entry"), "{outcome:?}");
    wrong("apply", &format!("cn=ghost,{SUFFIX}"), "no such entry");
    assert!(administrator.delete(&policy).unwrap().is_success());
    assert!(failing(&mut administrator).contains("the setting password_policy names"));
    wait_for_log("WARN the setting password_policy names");
    wrong("apply", &policy, "no such entry");
    // The missing policy does not prevent other changes.
    let size: &[(_, &str, &[&str])] = &[(ldap::ChangeOperation::Replace, "pandoSizeLimit", &["77"])];
    assert!(administrator.modify("cn=config", size).unwrap().is_success());
}

/// Regression test: an imported policy with an error was ignored without a message.
#[test]
fn the_valid_part_of_an_imported_policy_is_enforced() {
    let scratch = Scratch::new("settings-fault");
    let data = Pando::data(&scratch);
    let policy = format!("cn=policy,{SUFFIX}");
    let tree = format!(
        "dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n\
         dn: {policy}\nobjectClass: device\nobjectClass: pwdPolicy\ncn: policy\npwdAttribute: userPassword\n\
         pwdCheckQuality: 1\npwdMinLength: 5\npwdExpireWarning: 20\npwdMaxAge: 10\npwdMinAge: -1\n\n\
         dn: cn=mail,{SUFFIX}\nobjectClass: device\nobjectClass: pwdPolicy\ncn: mail\npwdAttribute: mail\n"
    );
    let tree = scratch.write("tree.ldif", tree);
    let text = format!("suffixes = [\"{SUFFIX}\"]\npassword_policy = \"{policy}\"\n");
    with_file(&scratch, "apply", &text).expect_code(0);
    let run = command(&["import", tree.to_str().unwrap()], Some(&data)).expect_code(0);
    for what in
        ["pwdMinAge takes a number", "pwdExpireWarning must be less", "only userPassword can have a policy"]
    {
        assert!(run.stderr.contains(what), "{what}: {run}");
    }
    let pando = Start::bare(&scratch, "data").arguments(&["--admin-dn", test_support::ADMIN_DN]).ready();
    let mut administrator = pando.administrator();
    let mut add = |password: &str| {
        let attributes = [("objectClass", "person"), ("cn", "a"), ("sn", "a"), ("userPassword", password)];
        administrator.add(&format!("cn=a,{SUFFIX}"), &attributes).unwrap().is_success()
    };
    assert!(!add("abc") && add("abcdef"));
}
