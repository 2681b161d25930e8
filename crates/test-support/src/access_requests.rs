//! Comparison of two servers for several requesters. Both servers have the same tree and get the same requests. The
//! rules of one server are translated from the rules of the other server.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use client::Connection;
use ldap::{ChangeOperation, ResultCode, Scope};

use super::pando::{Pando, command};
use super::tree::{add, add_person, person_dn, plant};
use super::{SUFFIX, Scratch};

const FILTERS: [&str; 14] = [
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

/// Adds people with managers and titles, a group, and hidden entries.
pub fn fill(admin: &mut Connection) {
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

/// Runs `pando access translate` on these clauses.
pub fn translate(scratch: &Scratch, text: &str) -> super::clients::Run {
    let file = scratch.write("rules.txt", text);
    command(&["access", "translate", file.to_str().unwrap()], None)
}

/// Returns the rules that a translation printed.
pub fn rules_of(run: &super::clients::Run) -> Vec<String> {
    let lines = run.stdout.lines().filter_map(|line| line.strip_prefix("  \"")?.strip_suffix("\","));
    lines.map(|line| line.replace("\\\"", "\"")).collect()
}

/// Sets the access rules of a server.
#[track_caller]
pub fn put_in_force(pando: &Pando, rules: &[String]) {
    let values: Vec<&str> = rules.iter().map(String::as_str).collect();
    let change: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "pandoAccessRule", &values)];
    let changed = pando.administrator().modify("cn=config", change).unwrap();
    assert!(changed.is_success(), "{changed:?} {rules:#?}");
}

/// A request whose answers are compared.
#[derive(Debug)]
pub struct AccessRequest<'a> {
    /// DN of the requester.
    pub requester: &'a str,
    /// Filter of the search.
    pub filter: &'a str,
}

/// Names of the attributes that an entry shows, or `None` if the entry is hidden.
pub type VisibleNames<'a> = Option<&'a BTreeSet<String>>;

/// Numbers of requests, and of entries that the answers showed.
#[derive(Debug, Default)]
pub struct Count {
    /// Number of requests.
    pub requests: usize,
    /// Number of entries in all answers.
    pub entries: usize,
}

/// Sends the same requests to both servers as several requesters. If the answers differ at an entry, calls `explains`
/// with the request, the DN of the entry, the peer's answer and Pando's answer. `explains` must return true if the
/// difference is expected.
///
/// # Panics
/// A difference is not expected; the message contains `context`.
pub fn compare_both(
    theirs: SocketAddr,
    pando: &Pando,
    context: &str,
    explains: &mut dyn FnMut(&AccessRequest<'_>, &str, VisibleNames<'_>, VisibleNames<'_>) -> bool,
) -> Count {
    let mut count = Count::default();
    for requester in ["", "anna", "bert", "carl"] {
        let mut both = [Connection::open(theirs).unwrap(), pando.connect()];
        for connection in &mut both {
            if !requester.is_empty() {
                let outcome = connection.bind(&person_dn(requester), &format!("{requester}-secret")).unwrap();
                assert!(outcome.is_success(), "{requester}: {outcome:?}\n{context}");
            }
        }
        let people = format!("ou=people,{SUFFIX}");
        let bert = person_dn("bert");
        for (base, scope) in
            [(SUFFIX, Scope::WholeSubtree), (&people, Scope::SingleLevel), (&bert, Scope::BaseObject)]
        {
            for filter in FILTERS {
                let [theirs, ours] =
                    both.each_mut().map(|connection| visible_names(connection, base, scope, filter));
                count.requests += 1;
                count.entries += ours.len();
                let asked = AccessRequest { requester, filter };
                for dn in theirs.keys().chain(ours.keys()).collect::<BTreeSet<_>>() {
                    let (theirs, ours) = (theirs.get(dn), ours.get(dn));
                    assert!(
                        theirs == ours || explains(&asked, dn, theirs, ours),
                        "{asked:?}, base {base}, {dn}: they show {theirs:?}, we {ours:?}\n{context}"
                    );
                }
            }
        }
        for (dn, attribute, value) in [
            (person_dn("anna"), "mail", "anna@example.com"),
            (person_dn("bert"), "title", "nothing"),
            (format!("cn=secret,ou=closed,{SUFFIX}"), "description", "closed"),
        ] {
            let [theirs, ours] =
                both.each_mut().map(|connection| connection.compare(&dn, attribute, value).unwrap().code);
            count.requests += 1;
            // If one server returns compareFalse or compareTrue, the other server must return the same code.
            let is_told = |code: ResultCode| [5, 6].contains(&code.0);
            assert!(
                ours == theirs || (!is_told(ours) && !is_told(theirs)),
                "{requester:?} compares {attribute} of {dn}: they say {theirs}, we {ours}\n{context}"
            );
        }
    }
    count
}

/// Returns the names of the attributes that each entry shows. Omits userPassword, because Pando shows it only to the
/// administrator.
fn visible_names(
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
