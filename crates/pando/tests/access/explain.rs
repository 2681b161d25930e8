//! Explanations of access: `pando access explain`, the Get Effective Rights control, and refusals that name the rule.

use ldap::ChangeOperation;
use test_support::clients::{Run, run};
use test_support::pando::command;
use test_support::tree::{person_dn, plant};
use test_support::{ADMIN_DN, Pando, SUFFIX, Scratch};

const GROUP: &str = "cn=staff,ou=groups,dc=example,dc=com";

/// Under these rules, anna may ask for explanations, and bert may not. Only members of the staff may write mail
/// addresses. Anna belongs to the staff, and bert does not.
fn rules() -> [String; 5] {
    [
        "all: allow read to authenticated".to_owned(),
        "names: deny read of sn to authenticated".to_owned(),
        format!("staff: allow write of mail in 'ou=people,{SUFFIX}' to group '{GROUP}'"),
        format!(
            "new people: allow add, delete below 'ou=people,{SUFFIX}' to user 'uid=hr,ou=people,{SUFFIX}'"
        ),
        format!("helpers: allow explain to user '{}'", person_dn("anna")),
    ]
}

fn start(scratch: &Scratch) -> Pando {
    let pando = Pando::start(scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let rules = rules();
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let change: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "pandoAccessRule", &rules)];
    assert!(admin.modify("cn=config", change).unwrap().is_success());
    let leave: &[(_, &str, &[&str])] = &[(ChangeOperation::Delete, "member", &[&person_dn("bert")])];
    assert!(admin.modify(GROUP, leave).unwrap().is_success());
    pando
}

fn as_person(pando: &Pando, name: &str, program: &str, arguments: &[&str], input: &str) -> Run {
    let (url, password) = (format!("ldap://{}", pando.address()), format!("{name}-secret"));
    let bound = ["-x", "-H", &url, "-D", &person_dn(name), "-w", &password];
    run(program, &[&bound[..], arguments].concat(), input)
}

#[test]
fn an_explanation_names_the_rule_its_line_and_what_is_needed() {
    let scratch = Scratch::new("access-explain");
    let pando = start(&scratch);
    let data = Pando::data(&scratch);
    let (anna, bert) = (person_dn("anna"), person_dn("bert"));
    let explain = |arguments: &[&str]| {
        let all = [&["access", "explain"], arguments].concat();
        command(&all, Some(&data))
    };
    let settings = command(&["export", "--settings-only"], Some(&data)).expect_code(0).stdout;
    let line = 1 + settings.lines().position(|line| line.contains("names: deny read of sn")).unwrap();
    let file = scratch.write("settings.toml", settings);
    let file = file.to_str().unwrap();

    // The answers from the data file and from the server are the same.
    for online in [&[][..], &["--online"]] {
        let ask = |who: &str, operation: &str, rest: &[&str]| {
            explain(&[online, &["--as", who, "--operation", operation], rest].concat())
        };
        ask(&anna, "read", &[&bert, "sn", "--settings", file])
            .expect_code(8)
            .expect_output(&format!("denied: \"{anna}\" may not read sn of \"{bert}\"\n"))
            .expect_output(&format!(
                "{file}:{line}: denies it, rule 2: names: deny read of sn to authenticated\n"
            ))
            .expect_output("needed: that rule \"names\" leaves out sn, or is not for authenticated\n");
        ask(&anna, "write", &[&bert, "mail"]).expect_code(0).expect_output("allows it, rule 3: staff: ");
        ask(&bert, "write", &[&bert, "mail"])
            .expect_code(8)
            .expect_output("no rule allows it")
            .expect_output(&format!(
                "needed: that \"{bert}\" is what rule \"staff\" is for: group \"{GROUP}\"\n"
            ));
        ask("u:bert", "add", &[&person_dn("carl")])
            .expect_code(8)
            .expect_output("rule \"new people\" is for");
        ask("anonymous", "browse", &[SUFFIX])
            .expect_code(8)
            .expect_output("rule \"all\" is for: authenticated");
        ask("anonymous", "read", &[SUFFIX, "dc"]).expect_code(8).expect_output("the entry cannot be seen");
        ask(&anna, "read", &[&bert, "userPassword"]).expect_code(8).expect_output("is a secret");
        ask(&anna, "search", &[&bert, "objectClass"]).expect_code(0);
        ask("nobody", "browse", &[&bert]).expect_code(1).expect_error("is not a user of this directory");
        ask(&anna, "see", &[&bert])
            .expect_code(1)
            .expect_error("\"see\" is not a right: choose from browse, ");
        ask(&anna, "read", &[&bert]).expect_code(1).expect_error("name one");
        ask(&anna, "read", &[&person_dn("x"), "sn"]).expect_code(1).expect_error("does not exist");
    }
    explain(&["--online", "--as", ADMIN_DN, "--operation", "delete", &bert])
        .expect_code(0)
        .expect_output("above all rules");
    // Without rules, the default rights apply.
    let none: &[(_, &str, &[&str])] = &[(ChangeOperation::Delete, "pandoAccessRule", &[])];
    assert!(pando.administrator().modify("cn=config", none).unwrap().is_success());
    explain(&["--as", &anna, "--operation", "write", &bert, "mail"])
        .expect_code(8)
        .expect_output("no rule allows it");
    explain(&["--as", &anna, "--operation", "write", &anna, "userPassword"])
        .expect_code(0)
        .expect_output("allows it by default: own password: allow write of userPassword to self");
}

#[test]
fn the_right_to_explain_permits_questions_and_explains_refusals() {
    let scratch = Scratch::new("access-hint");
    let pando = start(&scratch);
    let (anna, bert) = (person_dn("anna"), person_dn("bert"));
    let ask = |name: &str, entry: &str| {
        let password = scratch.write("password", format!("{name}-secret"));
        let url = format!("ldap://{}", pando.address());
        let bound = ["access", "explain", "--url", &url, "--bind-dn", &person_dn(name), "--password-file"];
        let rest = [password.to_str().unwrap(), "--as", &bert, "--operation", "write", entry, "mail"];
        command(&[&bound[..], &rest].concat(), None)
    };
    ask("anna", &bert).expect_code(8).expect_output("rule \"staff\" is for: group");
    ask("bert", &bert).expect_code(1).expect_error("no access rule lets you explain the rules here");
    ask("anna", "cn=config").expect_code(1).expect_error("does not exist, or you may not see it");

    let change =
        |attribute: &str| format!("dn: {bert}\nchangetype: modify\nreplace: {attribute}\n{attribute}: x\n");
    as_person(&pando, "anna", "ldapmodify", &[], &change("description"))
        .expect_code(50)
        .expect_error("no access rule lets you change description of this entry: none allows it here");
    as_person(&pando, "anna", "ldapcompare", &[&bert, "sn:bert"], "")
        .expect_code(50)
        .expect_output("lets you compare sn: rule 2 denies it: names: deny read of sn to authenticated");
    let refused = as_person(&pando, "bert", "ldapcompare", &[&anna, "sn:bert"], "").expect_code(50);
    assert!(!refused.stdout.contains("rule 2"), "{refused}");
    as_person(&pando, "anna", "ldapdelete", &[&bert], "")
        .expect_code(50)
        .expect_error("no access rule lets you delete this entry: none allows it here");
}

#[test]
fn effective_rights_have_the_forms_of_389_ds_and_opendj() {
    let scratch = Scratch::new("access-rights");
    let pando = start(&scratch);
    let (anna, bert) = (person_dn("anna"), person_dn("bert"));
    let search = |name: &str, of: &str, entry: &str, attributes: &[&str]| {
        let control = format!("!1.3.6.1.4.1.42.2.27.9.5.2=:{of}");
        let fixed =
            ["-LLL", "-o", "ldif-wrap=no", "-b", entry, "-s", "base", "-E", &control, "(objectClass=*)"];
        as_person(&pando, name, "ldapsearch", &[&fixed[..], attributes].concat(), "")
    };
    let of_anna = format!("dn:{anna}");
    let own = search("anna", &of_anna, &bert, &["mail", "sn", "userPassword", "uid"]).expect_code(0);
    let own = own.expect_output("uid: bert\n").expect_output("entryLevelRights: v\n");
    own.expect_output("attributeLevelRights: mail:rscwo, sn:none, userPassword:none, uid:rsc\n");
    // A requester who may explain rules can request the rights of another user. The administrator has all rights.
    let of_bert = format!("dn:{bert}");
    search("anna", &of_bert, &bert, &["mail"])
        .expect_code(0)
        .expect_output("attributeLevelRights: mail:rsc\n");
    search("anna", "dn:", &bert, &["mail"]).expect_code(0).expect_output("entryLevelRights: none\n");
    search("anna", &format!("dn:{ADMIN_DN}"), &bert, &["mail"])
        .expect_code(0)
        .expect_output("entryLevelRights: vadn\n");
    let refused = search("bert", &of_anna, &bert, &["mail"]).expect_code(50);
    refused.expect_error("you may ask for your own rights, not for those of others");
    search("anna", "dn:uid=nobody", &bert, &["mail"]).expect_code(32);
    // `*` selects all attributes of the entry's classes, including those that the entry does not have.
    let all = search("bert", "", &anna, &["*"]).expect_code(0).stdout;
    assert!(all.contains("sn:none") && all.contains("homePhone:rsc") && all.contains("seeAlso:rsc"), "{all}");
    let acl = search("anna", &of_bert, &bert, &["aclRights", "aclRightsInfo", "mail"]).expect_code(0);
    acl.expect_output("aclRights;entryLevel: add:0,delete:0,read:1,write:0,proxy:0\n")
        .expect_output("aclRights;attributeLevel;mail: search:1,read:1,compare:1,write:0,")
        .expect_output("aclRightsInfo;logs;attributeLevel;write;mail: denied; no rule allows it")
        .expect_output("aclRightsInfo;logs;entryLevel;read: allowed; allows it, rule 1: all: ");
    // `1.1` selects no attributes, so only the rights of the entry are returned.
    let names =
        search("anna", &of_bert, &bert, &["1.1"]).expect_code(0).expect_output("entryLevelRights: v\n");
    assert!(!names.stdout.contains("attributeLevelRights"), "{names}");
}
