//! Tasks of administrators and users in the sample organization, done with the pages alone. A visitor follows links and
//! completes forms by the texts on the pages.

use ldap::ResultCode;

use crate::visitor::Visitor;
use test_support::pando::Start;
use test_support::tree::{bind, plant_policy, replace};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

const SEARCHED: &str = "Beginning of a name, user name or mail address";

/// Starts a server with the sample, rules, a password policy, and deleted entries that can come back.
fn sample(scratch: &Scratch) -> Pando {
    let node = scratch.write("node.toml", "[console]\nlisten = [\"127.0.0.1:0\"]\ntls = false\n");
    let pando = Start::new(scratch).arguments(&["--sample", "--node", node.to_str().unwrap()]).ready();
    let mut administrator = pando.administrator();
    let finance = format!("pay: allow read of employeeNumber to group 'cn=finance,ou=groups,{SUFFIX}', self");
    let rules = [
        "names: allow read of * but not of employeeNumber to authenticated",
        &finance,
        "own: allow write of userPassword, telephoneNumber to self",
    ];
    replace(&mut administrator, "cn=config", "pandoAccessRule", &rules);
    replace(&mut administrator, "cn=config", "pandoKeepDeletedSeconds", &["3600"]);
    plant_policy(&mut administrator, &[("objectClass", "pwdPolicy"), ("pwdLockout", "TRUE")]);
    pando
}

fn person(uid: &str) -> String {
    format!("uid={uid},ou=people,{SUFFIX}")
}

/// Finds an entry by a part of its name, and opens it.
#[track_caller]
fn find(visitor: &mut Visitor, name: &str, dn: &str) {
    visitor.follow("Search");
    visitor.send("Search", &[(SEARCHED, name)]);
    visitor.follow(dn);
}

#[test]
fn people_and_groups_are_managed_from_the_pages_alone() {
    let scratch = Scratch::new("console-tasks");
    let pando = sample(&scratch);
    let mut visitor = Visitor::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    // What is Huber's telephone number?
    find(&mut visitor, "huber", &person("ahuber"));
    visitor.sees("telephoneNumber");

    // A new colleague begins today.
    visitor.follow("Overview");
    visitor.follow("Add a person");
    let people = format!("ou=people,{SUFFIX}");
    visitor.send("Show the entry", &[("Below", &people), ("uid", "jnew"), ("cn", "Jo New"), ("sn", "New")]);
    visitor.sees("dn: uid=jnew");
    visitor.send("Make this change", &[]);
    visitor.send("Set the password", &[]);
    let text = visitor.text();
    let password = text.split("It is shown once: ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert_eq!(bind(&pando, "jnew", password), ResultCode::SUCCESS);

    // The colleague is the first member of a new group, and joins the sales group.
    visitor.follow("Overview");
    visitor.follow("Add a group");
    let groups = format!("ou=groups,{SUFFIX}");
    visitor.send("Show the entry", &[("Below", &groups), ("cn", "newcomers"), ("member", "jnew")]);
    visitor.send("Make this change", &[]);
    visitor.sees(&person("jnew"));
    let sales = format!("cn=sales,{groups}");
    find(&mut visitor, "sales", &sales);
    visitor.follow("Members");
    visitor.send("Add", &[("Add by user name, mail address, full name or DN", "jnew")]);
    visitor.sees("The member was added.");

    // Undo the change of the sales group.
    find(&mut visitor, "sales", &sales);
    visitor.follow("History");
    visitor.sees("changed");
    visitor.send("Undo this change", &[]);
    visitor.sees(&format!("delete: member member: {}", person("jnew")));
    visitor.send("Make this change", &[]);
    visitor.sees("The change was undone.");
    visitor.send("Undo this change", &[]);
    visitor.sees(&format!("add: member member: {}", person("jnew")));

    // The colleague was deleted by mistake.
    find(&mut visitor, "jnew", &person("jnew"));
    visitor.follow("Delete");
    visitor.send("Delete", &[]);
    visitor.follow("Administration");
    visitor.follow("Deleted entries");
    visitor.send("Bring back", &[]);
    visitor.sees("The entry is back.");
    visitor.sees("Jo New");
    assert!(pando.stop().success());
}

#[test]
fn access_and_passwords_are_explained_and_changed_from_the_pages_alone() {
    let scratch = Scratch::new("console-tasks-access");
    let pando = sample(&scratch);
    let mut visitor = Visitor::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    // Who may read salaries?
    visitor.follow("Administration");
    visitor.follow("Access");
    let question = [("Right", "read"), ("Attribute, for rights of attributes", "employeeNumber")];
    visitor.send("Explain", &question);
    visitor.sees("Who may read employeeNumber of \"dc=example,dc=com\"");
    visitor.sees(
        "members of cn=finance,ou=groups,dc=example,dc=com, the user of the entry rule 2: pay: allow read",
    );
    // Why may Huber not read salaries?
    visitor.send("Explain", &[("Who", "ahuber")]);
    visitor.sees("Denied.");
    visitor.sees("cn=finance");

    // Huber forgot the password.
    find(&mut visitor, "huber", &person("ahuber"));
    visitor.follow("Set the password");
    let new = "a-new-secret";
    visitor.send("Set the password", &[("New password", new), ("New password, again", new)]);
    visitor.sees("The password was set.");
    assert_eq!(bind(&pando, "ahuber", new), ResultCode::SUCCESS);

    // Why can Huber not sign in?
    replace(&mut pando.administrator(), &person("ahuber"), "pwdAccountLockedTime", &["000001010000Z"]);
    find(&mut visitor, "huber", &person("ahuber"));
    visitor.follow("Sign-in and locks");
    visitor.sees("The user cannot sign in.");
    visitor.sees("Locked by an administrator");
    visitor.send("Unlock", &[]);
    visitor.sees("The account is unlocked.");

    // The addresses of a town, for a letter.
    visitor.follow("Search");
    let town = [("Condition 1: Attribute", "l"), ("Condition 1: Value", "Kraków"), ("Columns", "cn mail")];
    visitor.send("Search", &town);
    visitor.follow("All as CSV");
    assert!(visitor.html.starts_with("\"dn\",\"cn\",\"mail\""), "{}", visitor.html);
    assert!(visitor.html.lines().count() > 5, "{}", visitor.html);

    // Users change their own telephone number and password.
    let mut own = Visitor::signed_in(&pando, "ahuber", new);
    own.follow("My entry");
    own.follow("Edit");
    own.send("Show the change", &[("telephoneNumber", "+49 30 123456")]);
    own.sees("telephoneNumber: +49 30 123456");
    own.send("Make this change", &[]);
    own.sees("+49 30 123456");
    own.follow("My entry");
    own.follow("Password");
    let newer = "a-newer-secret";
    let passwords = [("Current password", new), ("New password", newer), ("New password, again", newer)];
    own.send("Change the password", &passwords);
    own.sees("The password was changed.");
    assert_eq!(bind(&pando, "ahuber", newer), ResultCode::SUCCESS);
    assert!(pando.stop().success());
}
