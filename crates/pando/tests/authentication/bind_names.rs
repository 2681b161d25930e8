//! Simple binds with names that are not DNs, by common client programs.

use std::net::SocketAddr;

use client::Connection;
use ldap::ResultCode;
use test_support::clients::run;
use test_support::pando::{Start, command};
use test_support::tree::{add, person_dn, plant, replace};
use test_support::{SUFFIX, Scratch};

#[test]
fn short_names_bind_by_listener_and_are_audited_by_their_dns() {
    let scratch = Scratch::new("bind-names");
    let trail = scratch.join("trail");
    let text = format!(
        "[audit]\nfolder = {:?}\n[[listener]]\nurl = \"ldap://127.0.0.2:0\"\nname = \"apps\"\n",
        trail.display().to_string()
    );
    let mut pando = Start::with_node(&scratch, text).ready();
    let mut admin = pando.administrator();
    plant(&mut admin);
    let rest = pando.ready_line.split_once("ldap://127.0.0.2:").unwrap().1;
    let port: u16 = rest.split_whitespace().next().unwrap().parse().unwrap();
    let (plain, apps) = (pando.address(), SocketAddr::from(([127, 0, 0, 2], port)));
    let whoami = |address, name: &str, password: &str| {
        let url = format!("ldap://{address}");
        run("ldapwhoami", &["-x", "-H", &url, "-D", name, "-w", password, "-o", "nettimeout=60"], "")
    };
    // By default, a name that is not a DN is a syntax error.
    whoami(apps, "anna", "anna-secret").expect_code(34);
    let rules = [
        "short: uid, mail listener apps in 'ou=people,dc=example,dc=com'",
        "ad: uid domain example.com, EXAMPLE listener apps",
    ];
    replace(&mut admin, "cn=config", "pandoBindName", &rules);
    for name in ["anna", "ANNA", "anna@example.com", "example\\anna", &person_dn("anna")] {
        whoami(apps, name, "anna-secret").expect_code(0).expect_output(&format!("dn:{}", person_dn("anna")));
        whoami(apps, name, "wrong").expect_code(49);
    }
    // A mail address is accepted as a name too. ldapsearch binds with such names as well.
    replace(&mut admin, &person_dn("anna"), "mail", &["a.x@mail.example"]);
    for name in ["a.x@mail.example", "anna", "anna@example.com"] {
        let url = format!("ldap://{apps}");
        let words =
            ["-x", "-LLL", "-H", &url, "-D", name, "-w", "anna-secret", "-b", "", "-s", "base", "1.1"];
        run("ldapsearch", &words, "").expect_code(0).expect_output("dn:");
    }
    for name in ["nobody", "anna@example.org", "x\\anna"] {
        whoami(apps, name, "anna-secret").expect_code(49);
    }
    whoami(plain, "anna", "anna-secret").expect_code(34);
    // If two entries have the name, neither can bind with it.
    let attributes = [("objectClass", "inetOrgPerson"), ("cn", "x"), ("sn", "x"), ("uid", "anna")];
    add(&mut admin, &format!("cn=x,ou=people,{SUFFIX}"), &attributes);
    whoami(apps, "anna", "anna-secret").expect_code(49);
    let mut connection = Connection::open(apps).unwrap();
    let outcome = connection.bind("anna", "").unwrap();
    assert_eq!(outcome.code, ResultCode::UNWILLING_TO_PERFORM);
    pando.signal(rustix::process::Signal::TERM);
    assert!(pando.exit().success());

    let events =
        command(&["audit", "--json", "--folder", trail.to_str().unwrap()], None).expect_code(0).stdout;
    let count =
        |parts: &[&str]| events.lines().filter(|line| parts.iter().all(|part| line.contains(part))).count();
    let target = format!("\"target\":\"{}\"", person_dn("anna"));
    assert_eq!(count(&["\"bind\"", &target, "wrong password"]), 5, "{events}");
    assert_eq!(count(&["\"bind\"", "withheld, not a valid name", "no entry has this name"]), 4, "{events}");
    assert!(!events.contains("\"anna\"") && !events.contains("example.org"), "{events}");
}
