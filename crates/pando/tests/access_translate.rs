//! Access rules of other servers: what `pando access translate` makes of them, and that Debian's slapd under the
//! clauses and Pando under the rules show the same.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod support;

use std::collections::{BTreeMap, BTreeSet};

use bench::peers::Amendments;
use client::Connection;
use ldap::{ChangeOperation, Scope};
use support::clients::Run;
use support::pando::command;
use support::slapd::Slapd;
use support::tree::{add, add_person, person_dn, plant};
use support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

fn translate(scratch: &Scratch, text: &str) -> Run {
    let file = scratch.write("rules.txt", text);
    command(&["access", "translate", file.to_str().unwrap()], None)
}

/// The rules that a translation printed.
fn rules_of(run: &Run) -> Vec<String> {
    let lines = run.stdout.lines().filter_map(|line| line.strip_prefix("  \"")?.strip_suffix("\","));
    lines.map(|line| line.replace("\\\"", "\"")).collect()
}

#[test]
fn clauses_of_openldap_become_rules_or_are_named() {
    let scratch = Scratch::new("translate-openldap");
    let text = "# as Debian has it, and more\n\
        dn: olcDatabase={1}mdb,cn=config\n\
        olcAccess: {0}to attrs=userPassword by self write by anonymous auth by * none\n\
        olcAccess: {1}to dn.base=\"ou=people,dc=x\" attrs=description by group.exact=\"cn=hr,\n \
        dc=x\" write by * read\n\
        olcAccess: {2}to dn.subtree=\"ou=closed,dc=x\" by dn.exact=\"uid=a,dc=x\" none by users ssf=128 read\n\
        olcAccess: {3}to dn.regex=\"^uid=([^,]+),dc=x$\" by dn.regex=\"^$1$\" write\n\
        olcAccess: {4}to attrs=member by dnattr=owner write by users selfwrite by set=\"[x]\" read\n\
        olcAccess: {5}to * by peername.ip=10.0.0.0%255.0.0.0 read by * break\n\
        olcAccess: {6}to * by * read\n";
    let run = translate(&scratch, text);
    assert_eq!(
        rules_of(&run),
        [
            "to 1 by 1: allow read, write of userPassword where seen to self",
            "to 2 by 1: allow read, write of description at 'ou=people,dc=x' where seen to group 'cn=hr,dc=x'",
            "to 2 by 2: allow read of description at 'ou=people,dc=x' where seen to anyone",
            "to 3 by 1 no more: deny browse but not of userPassword in 'ou=closed,dc=x' to user 'uid=a,dc=x'",
            "to 3 by 2: allow read but not of userPassword in 'ou=closed,dc=x' to authenticated over tls",
            "to 5 by 1: allow read, write of member but not in 'ou=closed,dc=x' where seen to named by owner",
            "to 5 by 2: allow read, join, leave of member but not in 'ou=closed,dc=x' where seen to authenticated",
            "to 6 by 1: allow read but not of userPassword, member but not at 'ou=people,dc=x' \
             but not in 'ou=closed,dc=x' to anyone from '10.0.0.0/8'",
            "to 6 by 1 2: allow read but not of userPassword, description, member at 'ou=people,dc=x' \
             to anyone from '10.0.0.0/8'",
            "to 7 by 1: allow read but not of userPassword, member but not at 'ou=people,dc=x' \
             but not in 'ou=closed,dc=x' to anyone",
            "to 7 by 1 2: allow read but not of userPassword, description, member at 'ou=people,dc=x' to anyone",
        ]
    );
    run.expect_code(6)
        .expect_error(
            "left out: line 7: {3}to dn.regex=\"^uid=([^,]+),dc=x$\" by dn.regex=\"^$1$\" write: a place by",
        )
        .expect_error("left out: line 8: by set=[x] read: \"set=[x]\" names whom no rule can name here");
}

#[test]
fn acis_become_rules_or_are_named() {
    let scratch = Scratch::new("translate-aci");
    let text = "dn: dc=example,dc=com\n\
        aci: (targetattr=\"dc || description || objectClass\")(targetfilter=\"(objectClass=domain)\")\n \
        (version 3.0; acl \"Enable anyone domain read\"; allow (read, search, compare)(userdn=\"ldap:///anyone\");)\n\
        \n\
        dn: ou=people,dc=example,dc=com\n\
        aci: (targetattr=\"objectClass || uid || cn\")(version 3.0; acl \"Users: read\"; \
        allow (read, search, compare)(userdn=\"ldap:///all\");)\n\
        aci: (targetattr=\"displayName || userPassword\")(version 3.0; acl \"Self\"; \
        allow (write)(userdn=\"ldap:///self\");)\n\
        aci: (targetattr != \"userPassword\")(version 3.0; acl \"Admins\"; \
        allow (all)(groupdn=\"ldap:///cn=admins,dc=example,dc=com\");)\n\
        aci: (target=\"ldap:///ou=closed,ou=people,dc=example,dc=com\")(targetattr=\"*\")(version 3.0; acl \"Closed\"; \
        deny (read, search) (userdn=\"ldap:///anyone\") and (ip=\"10.*\");)\n\
        aci: (targetattr=\"member\")(version 3.0; acl \"Join\"; allow (selfwrite)(userdn=\"ldap:///all\");)\n\
        aci: (version 3.0; acl \"Nights\"; allow (add)(userdn=\"ldap:///all\" and timeofday > \"1800\");)\n\
        aci: (version 3.0; acl \"Agents\"; allow (proxy)(userdn=\"ldap:///uid=app,dc=example,dc=com\");)\n";
    let run = translate(&scratch, text);
    let people = "in 'ou=people,dc=example,dc=com'";
    assert_eq!(
        rules_of(&run),
        [
            "Enable anyone domain read: allow read of dc, description, objectClass in 'dc=example,dc=com' \
             matching '(objectClass=domain)' to anyone"
                .to_owned(),
            format!("Users  read: allow read of objectClass, uid, cn {people} to authenticated"),
            format!("Self: allow write of displayName, userPassword {people} to self"),
            format!("Self 2: allow rename {people} to self"),
            format!(
                "Admins: allow read, write of * but not of userPassword {people} to group 'cn=admins,dc=example,dc=com'"
            ),
            format!("Admins 2: allow add, delete, rename {people} to group 'cn=admins,dc=example,dc=com'"),
            "Closed: deny read of * in 'ou=closed,ou=people,dc=example,dc=com' to anyone from '10.0.0.0/8'"
                .to_owned(),
            format!("Join: allow join, leave of member {people} to authenticated"),
            format!("Nights: allow add {people} to authenticated between 18:01 and 24:00"),
            format!("Agents: allow proxy {people} to user 'uid=app,dc=example,dc=com'"),
        ]
    );
    run.expect_code(6)
        .expect_error("left out: line 11: Nights: allow (add)")
        .expect_error("times are in UTC here");
}

#[test]
fn filters_binds_and_times_are_carried_over() {
    let scratch = Scratch::new("translate-filters");
    let clauses = "access to filter=(title=*) attrs=title by users read by * none\n\
        access to dn.subtree=\"ou=a,dc=x\" attrs=title,sn by * read\n\
        access to * by * read\n";
    assert_eq!(
        rules_of(&translate(&scratch, clauses).expect_code(0)),
        [
            "to 1 by 1: allow read of title matching '(title=*)' where seen to authenticated",
            "to 2 by 1: allow read of sn in 'ou=a,dc=x' where seen to anyone",
            "to 2 by 1 2: allow read of title in 'ou=a,dc=x' matching '(!(title=*))' where seen to anyone",
            "to 3 by 1: allow read but not of title but not in 'ou=a,dc=x' to anyone",
            "to 3 by 1 2: allow read but not of title, sn in 'ou=a,dc=x' to anyone",
            "to 3 by 1 3: allow read of title but not in 'ou=a,dc=x' matching '(!(title=*))' where seen to anyone",
        ]
    );
    let acis = "dn: dc=x\n\
        aci: (targetfilter!=\"(employeeType=former)\")(version 3.0; acl \"Nights\"; \
        allow (add)(userdn=\"ldap:///all\" and timeofday >= \"1800\" and dayofweek=\"Mon,tue\");)\n\
        aci: (targetattr=\"*\")(version 3.0; acl \"Strong\"; allow (read,search,compare)\
        (userdn=\"ldap:///ou=people,dc=x??sub?(employeeType=hr)\" and authmethod=\"sasl scram-sha-256\");)\n\
        aci: (targetattr=\"*\")(version 3.0; acl \"Certificate\"; allow (read,search,compare)\
        (userdn=\"ldap:///ou=people,dc=x??sub\" and authmethod=\"ssl\");)\n\
        aci: (targattrfilters=\"add=title:(title=x)\")(version 3.0; acl \"Values\"; allow (write)\
        (userdn=\"ldap:///all\");)\n\
        aci: (targetattr=\"*\")(version 3.0; acl \"Fax\"; allow (read,search,compare)\
        (userdn=\"ldap:///all\" and authmethod=\"sasl fax\");)\n";
    let run = translate(&scratch, acis);
    assert_eq!(
        rules_of(&run),
        [
            "Nights: allow add in 'dc=x' matching '(!(employeeType=former))' to authenticated \
             on monday, tuesday between 18:00 and 24:00",
            "Strong: allow read of * in 'dc=x' to users in 'ou=people,dc=x' matching '(employeeType=hr)' \
             bound by SCRAM-SHA-256",
            "Certificate: allow read of * in 'dc=x' to users in 'ou=people,dc=x' bound by EXTERNAL",
        ]
    );
    run.expect_code(6)
        .expect_error("left out: line 2: Nights: allow (add)")
        .expect_error("left out: line 5: (targattrfilters=")
        .expect_error("\"fax\" is no mechanism here");
}

/// Rule sets of slapd.conf, in the style of OpenLDAP's guide.
fn sets() -> [String; 4] {
    let (people, closed, groups) =
        (format!("ou=people,{SUFFIX}"), format!("ou=closed,{SUFFIX}"), format!("ou=groups,{SUFFIX}"));
    let (anna, bert) = (person_dn("anna"), person_dn("bert"));
    [
        "access to attrs=userPassword by self write by anonymous auth by * none\n\
         access to * by self write by users read by anonymous auth\n"
            .to_owned(),
        format!(
            "access to attrs=userPassword by anonymous auth by * none\n\
             access to attrs=telephoneNumber,title\n  by self write\n\
             \x20 by group.exact=\"cn=staff,{groups}\" read by * none\n\
             access to dn.subtree=\"{closed}\" by dn.exact=\"{bert}\" write by * none\n\
             access to * by * read\n"
        ),
        format!(
            "access to attrs=userPassword by anonymous auth by * none\n\
             access to dn.children=\"{people}\" attrs=sn,mail\n   by dnattr=manager write\n  \n\
             \x20 by self read\n   by * none\n\
             access to dn.one=\"{SUFFIX}\" by dn.subtree=\"{people}\" read by anonymous read\n\
             access to dn.base=\"{anna}\" by dn.exact=\"{bert}\" none by users read by * none\n\
             access to dn.subtree=\"{SUFFIX}\" by * read\n"
        ),
        format!(
            "access to * by dn.exact=\"{anna}\" manage by * break\n\
             access to attrs=userPassword by anonymous auth by * none\n\
             access to dn.subtree=\"{people}\" attrs=sn,manager by users read by * none\n\
             access to dn.children=\"{groups}\" by group.exact=\"cn=staff,{groups}\" read by * none\n\
             access to * by peername.ip=127.0.0.0%255.0.0.0 read\n"
        ),
    ]
}

fn fill(admin: &mut Connection) {
    plant(admin);
    add_person(admin, "carl");
    add(admin, &format!("ou=closed,{SUFFIX}"), &[("objectClass", "organizationalUnit"), ("ou", "closed")]);
    let secret = [("objectClass", "organizationalRole"), ("cn", "secret"), ("description", "closed")];
    add(admin, &format!("cn=secret,ou=closed,{SUFFIX}"), &secret);
    for (name, manager) in [("bert", "anna"), ("carl", "bert"), ("anna", "anna")] {
        let mail = format!("{name}@example.com");
        let changes: &[(_, &str, &[&str])] = &[
            (ChangeOperation::Add, "mail", &[&mail]),
            (ChangeOperation::Add, "telephoneNumber", &["+1 555"]),
            (ChangeOperation::Add, "title", &["Somebody"]),
            (ChangeOperation::Add, "manager", &[&person_dn(manager)]),
        ];
        assert!(admin.modify(&person_dn(name), changes).unwrap().is_success());
    }
}

/// The names of the attributes that each entry shows; passwords never show here.
fn shown(
    connection: &mut Connection,
    base: &str,
    scope: Scope,
    filter: &str,
) -> BTreeMap<String, BTreeSet<String>> {
    let found = connection.search(base, scope, filter, &["*"]).unwrap();
    let entries = found.entries.iter().map(|entry| {
        let names = entry.attributes.iter().map(|attribute| attribute.description.to_ascii_lowercase());
        (entry.dn.to_ascii_lowercase(), names.filter(|name| name != "userpassword").collect())
    });
    entries.collect()
}

#[test]
fn slapd_under_its_clauses_and_pando_under_the_rules_show_the_same() {
    let scratch = Scratch::new("translate-slapd");
    let pando = Pando::start(&scratch);
    fill(&mut pando.administrator());
    let filters = [
        "(objectClass=*)",
        "(uid=*)",
        "(mail=anna@example.com)",
        "(!(mail=anna@example.com))",
        "(sn=bert)",
        "(telephoneNumber=+1 555)",
        "(!(title=nothing))",
        "(manager=uid=bert,ou=people,dc=example,dc=com)",
        "(|(cn=secret)(title=*))",
        "(&(objectClass=person)(!(sn=carl)))",
        "(member=*)",
        "(description=closed)",
        "(ou=*)",
        "(cn=staff)",
    ];
    let (mut requests, mut entries) = (0, 0);
    for (number, clauses) in sets().iter().enumerate() {
        let folder = Scratch::new("translate-set");
        let slapd = Slapd::amended(
            &folder,
            &[],
            Amendments { rules: Some(clauses.to_owned()), ..Amendments::default() },
        );
        let mut admin = Connection::open(slapd.address()).unwrap();
        assert!(admin.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
        fill(&mut admin);
        let translated = translate(&scratch, clauses).expect_code(0);
        let rules = rules_of(&translated);
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let change: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "pandoAccessRule", &rules)];
        let changed = pando.administrator().modify("cn=config", change).unwrap();
        assert!(changed.is_success(), "{changed:?} {rules:#?}");
        for asker in ["", "anna", "bert", "carl"] {
            let mut both = [Connection::open(slapd.address()).unwrap(), pando.connect()];
            for connection in &mut both {
                if !asker.is_empty() {
                    let outcome = connection.bind(&person_dn(asker), &format!("{asker}-secret")).unwrap();
                    assert!(outcome.is_success(), "set {number}, {asker}: {outcome:?}");
                }
            }
            let people = format!("ou=people,{SUFFIX}");
            for (base, scope) in [(SUFFIX, Scope::WholeSubtree), (&people, Scope::SingleLevel)] {
                for filter in filters {
                    let [theirs, ours] =
                        both.each_mut().map(|connection| shown(connection, base, scope, filter));
                    requests += 1;
                    entries += ours.len();
                    assert_eq!(
                        ours, theirs,
                        "set {number}, {asker:?}, {base} {filter}\n{clauses}\n{rules:#?}"
                    );
                }
            }
            for (dn, attribute, value) in [
                (person_dn("anna"), "mail", "anna@example.com"),
                (person_dn("bert"), "title", "nothing"),
                (format!("cn=secret,ou=closed,{SUFFIX}"), "description", "closed"),
            ] {
                let [theirs, ours] =
                    both.each_mut().map(|connection| connection.compare(&dn, attribute, value).unwrap().code);
                requests += 1;
                // Where slapd says that it may not be told, or that nothing is there, we say one of them too.
                let is_told = |code: ldap::ResultCode| [5, 6].contains(&code.0);
                assert!(
                    ours == theirs || (!is_told(ours) && !is_told(theirs)),
                    "{dn} {attribute}: {ours} {theirs}"
                );
            }
        }
    }
    assert!(requests > 400 && entries > 400, "{requests} requests, {entries} entries");
}
