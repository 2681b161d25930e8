//! `pando user` and `pando group`.

use client::Connection;
use ldap::ResultCode;
use test_support::clients::{Run, run};
use test_support::pando::{command, program};
use test_support::tree::{bind, person_dn, plant, plant_policy, replace};
use test_support::{Pando, SUFFIX, Scratch};

fn pando(scratch: &Scratch, line: &str) -> Run {
    command(&line.split(' ').collect::<Vec<_>>(), Some(&Pando::data(scratch)))
}

fn start_with_tree(scratch: &Scratch) -> (Pando, Connection) {
    let server = Pando::start(scratch);
    let mut admin = server.administrator();
    plant(&mut admin);
    (server, admin)
}

#[test]
fn a_user_is_added_changed_and_deleted() {
    let scratch = Scratch::new("users");
    let (server, mut admin) = start_with_tree(&scratch);
    let data = Pando::data(&scratch);
    let add = ["user", "add", "carla", "--full-name", "Carla Maria Huber", "--set", "mail=c@example.com"];
    let added = command(&add, Some(&data)).expect_code(0).stdout;
    let carla = person_dn("carla");
    let (dn, password) = added.trim_end().split_once('\n').unwrap();
    assert_eq!(dn, carla);
    assert_eq!(bind(&server, "carla", password), ResultCode::SUCCESS, "the password that is printed");
    let entry = admin.entry(&carla, &["*"]).unwrap().unwrap();
    assert_eq!(entry.texts("sn"), ["Huber"]);
    assert_eq!(entry.texts("mail"), ["c@example.com"]);
    assert!(!entry.texts("objectClass").contains(&"posixAccount".to_owned()), "no range is configured");
    command(&add, Some(&data)).expect_code(1).expect_error("entryAlreadyExists");
    pando(&scratch, "user set carla title=Engineer mail= ou=A ou=B").expect_code(0);
    let entry = admin.entry(&carla, &["*"]).unwrap().unwrap();
    assert_eq!((entry.texts("ou").len(), entry.texts("mail").len()), (2, 0));
    pando(&scratch, "user set carla userPassword=x").expect_code(2).expect_error("pando user reset");
    let shown = pando(&scratch, "user show carla").expect_code(0).expect_output("title: Engineer").stdout;
    let json = pando(&scratch, "user show carla --json").expect_code(0).stdout;
    let stored = entry.text("userPassword").unwrap();
    let (scheme, hash) = stored.split_once('}').unwrap();
    assert!(shown.contains(&format!("\nuserPassword: {scheme}}}\n")) && !shown.contains(hash), "{shown}");
    assert!(json.contains(&format!("[\"{scheme}}}\"]")) && !json.contains(hash), "{json}");
    let list = pando(&scratch, "user list --filter (sn=huber)").expect_code(0).stdout;
    assert_eq!(list.lines().count(), 2, "{list}");
    assert!(list.starts_with("UID") && list.contains(&carla), "{list}");
    let json = pando(&scratch, "user list --json").expect_code(0).stdout;
    assert_eq!(json.lines().count(), 3, "{json}");
    pando(&scratch, "user delete carla").expect_code(0);
    pando(&scratch, "user delete carla").expect_code(1).expect_error("there is no user carla");
    pando(&scratch, "user show *").expect_code(1).expect_error("there is no user *");
}

#[test]
fn a_template_sets_attributes_and_the_parent() {
    let scratch = Scratch::new("users-template");
    let (_server, mut admin) = start_with_tree(&scratch);
    let missing = pando(&scratch, "user add dora --template staff");
    missing.expect_code(1).expect_error("user_templates has no template");
    let staff = "staff: mail={uid}@example.com, title='Clerk, first', employeeNumber=7 \
                 in 'ou=groups,dc=example,dc=com'";
    let bad = [(ldap::ChangeOperation::Replace, "pandoUserTemplate", &["bad"][..])];
    assert!(!admin.modify("cn=config", &bad).unwrap().is_success(), "a template is checked");
    replace(&mut admin, "cn=config", "pandoUserTemplate", &[staff]);
    pando(&scratch, "user add dora --template stuff")
        .expect_code(1)
        .expect_error("there is no template stuff");
    let line = "user add dora --template STAFF --no-password --set title=Director";
    let dora = pando(&scratch, line).expect_code(0).stdout;
    assert_eq!(dora.trim_end(), format!("uid=dora,ou=groups,{SUFFIX}"));
    let entry = admin.entry(dora.trim_end(), &["*"]).unwrap().unwrap();
    let values = ["mail", "title", "employeeNumber", "sn"].map(|name| entry.texts(name).join(";"));
    assert_eq!(values, ["dora@example.com", "Director", "7", "dora"]);
    let line = format!("user add emil --template staff --no-password --parent ou=people,{SUFFIX}");
    let emil = pando(&scratch, &line).expect_code(0).stdout;
    assert_eq!(emil.trim_end(), person_dn("emil"));
}

#[test]
fn passwords_and_locks_take_effect() {
    let scratch = Scratch::new("users-locks");
    let (server, mut admin) = start_with_tree(&scratch);
    plant_policy(&mut admin, &[("objectClass", "pwdPolicy"), ("pwdLockout", "TRUE")]);
    let password = pando(&scratch, "user reset anna").expect_code(0).stdout;
    assert_eq!(bind(&server, "anna", password.trim_end()), ResultCode::SUCCESS);
    let data = Pando::data(&scratch);
    let ask = ["user", "reset", "anna", "--ask", "--data", data.to_str().unwrap()];
    let asked = run(program(), &ask, "an own choice\n").expect_code(0);
    assert_eq!(asked.stdout, "", "a password that was given is not printed");
    assert_eq!(bind(&server, "anna", "an own choice"), ResultCode::SUCCESS);
    run(program(), &ask, "\n").expect_code(1).expect_error("the password is empty");
    pando(&scratch, "user lock anna").expect_code(0);
    assert_eq!(bind(&server, "anna", "an own choice"), ResultCode::INVALID_CREDENTIALS);
    pando(&scratch, "user list --filter (uid=anna)").expect_code(0).expect_output("0000");
    pando(&scratch, "user unlock anna").expect_code(0);
    assert_eq!(bind(&server, "anna", "an own choice"), ResultCode::SUCCESS);
}

#[test]
fn accounts_get_the_next_numbers() {
    let scratch = Scratch::new("users-numbers");
    let (_server, mut admin) = start_with_tree(&scratch);
    replace(&mut admin, "cn=config", "pandoNextNumber", &["people: uidNumber from 10000 to 10009"]);
    for (name, number) in [("carla", "10000"), ("dora", "10001")] {
        pando(&scratch, &format!("user add {name} --no-password --gid 500")).expect_code(0);
        let entry = admin.entry(&person_dn(name), &["*"]).unwrap().unwrap();
        assert_eq!(entry.text("uidNumber").as_deref(), Some(number));
        assert_eq!(entry.text("gidNumber").as_deref(), Some("500"));
        assert_eq!(entry.text("homeDirectory"), Some(format!("/home/{name}")));
    }
    pando(&scratch, "user add emil --no-password --no-posix").expect_code(0);
    let entry = admin.entry(&person_dn("emil"), &["*"]).unwrap().unwrap();
    assert_eq!(entry.text("uidNumber"), None);
}

#[test]
fn groups_list_direct_and_nested_members() {
    let scratch = Scratch::new("groups");
    let (_server, mut admin) = start_with_tree(&scratch);
    pando(&scratch, "group add empty").expect_code(0);
    pando(&scratch, "group add outer --member anna").expect_code(0);
    let outer = format!("cn=outer,ou=groups,{SUFFIX}");
    let staff = format!("cn=staff,ou=groups,{SUFFIX}");
    pando(&scratch, &format!("group join outer {staff}")).expect_code(0).expect_output("1 added");
    // Groups that contain each other do not loop for ever.
    pando(&scratch, &format!("group join staff {outer}")).expect_code(0);
    let all = pando(&scratch, "group members outer --json").expect_code(0).stdout;
    let through = |name: &str| {
        let all = all.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        all.filter(|member| member["name"] == name)
            .map(|member| member["through"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(through("anna"), [serde_json::Value::Null]);
    assert_eq!(through("bert"), [staff.as_str()]);
    assert_eq!((all.lines().count(), through("staff").len()), (3, 1), "{all}");
    let direct = pando(&scratch, "group members outer --direct").expect_code(0).stdout;
    assert_eq!(direct.lines().count(), 3, "{direct}");
    pando(&scratch, "group leave outer anna").expect_code(0).expect_output("1 removed");
    pando(&scratch, "group leave outer anna").expect_code(1).expect_error("noSuchAttribute");
    pando(&scratch, "group join outer nora").expect_code(1).expect_error("there is no user nora");
    pando(&scratch, "group join empty bert").expect_code(0);
    pando(&scratch, "group leave empty bert").expect_code(0);
    pando(&scratch, "group set empty description=none").expect_code(0);
    pando(&scratch, "group list").expect_code(0).expect_output("none");
    pando(&scratch, "group show outer").expect_code(0).expect_output(&format!("member: {staff}"));
    // A group whose members a URL finds can be used like any other group.
    let url = format!("ldap:///ou=people,{SUFFIX}??sub?(uid=bert)");
    let found = format!("cn=found,ou=groups,{SUFFIX}");
    let attributes = [("objectClass", "groupOfURLs"), ("cn", "found"), ("memberURL", &url)];
    assert!(admin.add(&found, &attributes).unwrap().is_success());
    pando(&scratch, "group list").expect_code(0).expect_output(&found);
    pando(&scratch, "group show found").expect_code(0).expect_output("memberURL: ldap:///");
    pando(&scratch, "group members found").expect_code(0).expect_output(&person_dn("bert"));
    pando(&scratch, &format!("group join outer {found}")).expect_code(0);
    pando(&scratch, "group delete outer").expect_code(0);
    assert!(admin.entry(&outer, &["1.1"]).unwrap().is_none());
}
