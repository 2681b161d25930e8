//! Searches on a small directory in a temporary folder. Every search runs twice, with indexes and without: the results
//! must be the same.

mod assertion;
mod bounds;
mod chains;
mod collective;
mod collective_model;
mod deleted;
mod dereference;
mod dynamic_groups;
mod explained;
mod feed;
mod filters;
mod large;
mod list_view;
mod matched;
mod monitor;
mod ordered;
mod pages;
mod parts;
mod persistent;
mod plans;
mod remembered;
mod results;
mod rows;
mod scopes;
mod secrets;
mod slices;
mod sorted;
mod sync;
mod sync_rules;
mod value_ranges;

use ldap::{DerefAliases, FilterBuf, MessageId, ResultCode, Scope, SearchRequest, SelectionBuf};

use super::{Budget, Search, Step};
use crate::model::outcome::Outcome;
use crate::read::controls::RequestControls;
use crate::testing::{Found, SUFFIX, TestDirectory, received, without_index};

/// A search to test.
struct Question<'a> {
    base: &'a str,
    scope: Scope,
    filter: &'a str,
    attributes: &'a [&'a str],
    deref_aliases: DerefAliases,
    size_limit: u32,
    types_only: bool,
    controls: RequestControls,
}

impl<'a> Question<'a> {
    fn new(base: &'a str, scope: Scope, filter: &'a str) -> Question<'a> {
        Question {
            base,
            scope,
            filter,
            attributes: &["1.1"],
            deref_aliases: DerefAliases::Never,
            size_limit: 0,
            types_only: false,
            controls: RequestControls::default(),
        }
    }

    /// Returns a search of the subtree of the test suffix.
    fn everywhere(filter: &'a str) -> Question<'a> {
        Question::new(SUFFIX, Scope::WholeSubtree, filter)
    }

    fn attributes(self, attributes: &'a [&'a str]) -> Question<'a> {
        Question { attributes, ..self }
    }

    /// Runs the search with and without indexes.
    fn run(&self, directory: &TestDirectory) -> Found {
        let indexed = self.run_once(directory, false);
        let scanned = self.run_once(directory, true);
        assert_eq!(indexed, scanned, "{} below {:?}", self.filter, self.base);
        indexed
    }

    fn run_once(&self, directory: &TestDirectory, ignores_indexes: bool) -> Found {
        match self.answer(directory, ignores_indexes) {
            Ok(messages) => received(&messages),
            Err(outcome) => outcome.into(),
        }
    }

    /// Returns the messages with which the search answers, or the refusal.
    fn answer(&self, directory: &TestDirectory, ignores_indexes: bool) -> Result<Vec<u8>, Outcome> {
        let mut search = self.try_start(directory, ignores_indexes)?;
        let mut out = Vec::new();
        let budget = Budget { entries_examined_max: 3, out_bytes_max: 500 };
        while search.run(&directory.snapshot, &mut out, &budget) == Step::More {}
        Ok(out)
    }

    /// Starts the search. The test runs it.
    fn start(&self, directory: &TestDirectory) -> Search {
        self.try_start(directory, false).unwrap()
    }

    fn try_start(&self, directory: &TestDirectory, ignores_indexes: bool) -> Result<Search, Outcome> {
        let (filter, mut scanned) = (FilterBuf::parse(self.filter).unwrap(), Vec::new());
        let filter = filter.as_filter();
        let filter = if ignores_indexes { without_index(filter, &mut scanned) } else { filter };
        let mut selection = SelectionBuf::new();
        self.attributes.iter().for_each(|attribute| selection.push(attribute));
        let request = SearchRequest {
            base_object: self.base,
            scope: self.scope,
            deref_aliases: self.deref_aliases,
            size_limit: self.size_limit,
            time_limit_seconds: 0,
            types_only: self.types_only,
            filter,
            attributes: selection.as_selection(),
        };
        let (snapshot, requester) = (&directory.snapshot, &directory.requester);
        Search::start(snapshot, &requester.context(), MessageId(3), &request, &self.controls)
    }
}

/// Returns the first RDNs of the entries found, sorted.
fn leaves(found: &Found) -> Vec<String> {
    assert_eq!(found.code, ResultCode::SUCCESS, "{}", found.diagnostic);
    let leaf = |dn: &str| dn.split(',').next().unwrap_or_default().to_owned();
    let mut leaves: Vec<String> = found.dns().into_iter().map(leaf).collect();
    leaves.sort();
    leaves
}

type Attributes<'a> = &'a [(&'a str, &'a [&'a str])];

fn add(directory: &mut TestDirectory, dn: &str, attributes: Attributes<'_>) {
    let outcome = directory.add(dn, attributes);
    assert_eq!(outcome.code, ResultCode::SUCCESS, "{dn}: {}", outcome.diagnostic);
}

/// Returns a directory with a suffix entry, people and groups:
///
/// ```text
/// dc=example,dc=com
///   ou=people      uid=ada, uid=bob, uid=carl, cn=Dora+sn=Lang
///   ou=groups      cn=all, cn=few, cn=odd
/// ```
fn sample() -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    let unit = |name| [("objectClass", &["organizationalUnit"][..]), ("ou", name)];
    add(&mut directory, "ou=people,dc=example,dc=com", &unit(&["people"]));
    add(&mut directory, "ou=groups,dc=example,dc=com", &unit(&["groups"]));
    let person = |uid: &str, attributes: Attributes<'_>, directory: &mut TestDirectory| {
        let mut all = attributes.to_vec();
        if all.iter().all(|(name, _)| *name != "objectClass") {
            all.push(("objectClass", &["inetOrgPerson"]));
        }
        add(directory, &format!("{uid},ou=people,dc=example,dc=com"), &all);
    };
    person(
        "uid=ada",
        &[
            ("cn", &["Ada Lovelace"]),
            ("cn;lang-fr", &["Ada de Lovelace"]),
            ("sn", &["Lovelace"]),
            ("givenName", &["Ada", "Augusta"]),
            ("employeeNumber", &["7"]),
            ("description", &["mathematician", "poet's daughter"]),
            ("userPassword", &["{SSHA}AAAA"]),
        ],
        &mut directory,
    );
    person(
        "uid=bob",
        &[
            ("cn", &["Bob  Baker"]),
            ("sn", &["Baker"]),
            ("objectClass", &["inetOrgPerson", "posixAccount"]),
            ("uidNumber", &["1000"]),
            ("gidNumber", &["-5"]),
            ("homeDirectory", &["/home/bob"]),
            ("manager", &["uid=ada,ou=people,dc=example,dc=com"]),
            ("telephoneNumber", &["+49 30 1234-5"]),
        ],
        &mut directory,
    );
    person(
        "uid=carl",
        &[
            ("cn", &["Carl"]),
            ("sn", &["Baker"]),
            ("objectClass", &["inetOrgPerson", "posixAccount"]),
            ("uidNumber", &["20"]),
            ("gidNumber", &["7"]),
            ("homeDirectory", &["/home/carl"]),
            ("manager", &["uid=nobody,ou=people,dc=example,dc=com"]),
            ("mail", &["carl@example.com"]),
        ],
        &mut directory,
    );
    person("cn=Dora+sn=Lang", &[("description", &["many (all) *"])], &mut directory);
    let group = |name: &str, members: &[&str], directory: &mut TestDirectory| {
        let attributes = [("objectClass", &["groupOfNames"][..]), ("member", members)];
        add(directory, &format!("{name},ou=groups,dc=example,dc=com"), &attributes);
    };
    group(
        "cn=all",
        &["uid=ada,ou=people,dc=example,dc=com", "UID=Bob,OU=People,dc=example,dc=com"],
        &mut directory,
    );
    group("cn=few", &["uid=ada,ou=people,dc=example,dc=com"], &mut directory);
    group("cn=odd", &["cn=all,ou=groups,dc=example,dc=com", "cn=ghost,dc=example,dc=com"], &mut directory);
    directory
}
