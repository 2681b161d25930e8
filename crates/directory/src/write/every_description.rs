//! Tests that rules apply to attribute descriptions of every form.
//!
//! Regression tests: rules looked up the descriptions of a type in the catalog, but the catalog lacks the descriptions
//! that a change is about to add. For example, a password with a new option bypassed the password policy. These tests
//! give each rule random descriptions: new and known options, several options in any order and case, other names,
//! OIDs, and subtypes.

use ldap::ChangeOperation::{Add, Replace};
use ldap::{ChangeOperation, CompareRequest, ResultCode as Code, Scope};
use schema::AttributeDescription;

use crate::access::Requester;
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::Outcome;
use crate::model::rows::EntryId;
use crate::model::settings::GeneralSettings;
use crate::model::storage_scheme::StorageScheme;
use crate::read::bind::stored_passwords;
use crate::read::compare::{CompareOutcome, compare};
use crate::read::controls::RequestControls;
use crate::testing::{SUFFIX, TestDirectory};

/// Subtypes of the types in the rules, and a class that allows all of them.
const SCHEMA: &str = "attributetype ( 1.2.3.1 NAME ( 'lesserText' 'smallText' ) SUP description )\n\
                      attributetype ( 1.2.3.2 NAME 'lesserType' SUP employeeType )\n\
                      attributetype ( 1.2.3.3 NAME 'ntHash' EQUALITY caseIgnoreIA5Match SYNTAX \
                      1.3.6.1.4.1.1466.115.121.1.26 )\n\
                      attributetype ( 1.2.3.4 NAME 'lesserHash' SUP ntHash )\n";
const POLICY: &str = "cn=policy,dc=example,dc=com";
const RULES: [&str; 6] = [
    "all: allow read, write to authenticated",
    "own: allow write of userPassword to self",
    "hidden: deny read, write of description to authenticated",
    "former: deny browse matching '(employeeType=former)' to authenticated",
    "led: allow read of ntHash to named by manager",
    "not led: deny read of roomNumber to named by manager",
];
/// Number of random descriptions for each rule.
const ROUNDS: usize = 40;

struct Random(fastrand::Rng);

impl Random {
    /// Uses the seed in the environment variable, or a random seed.
    fn new() -> Random {
        let seed = std::env::var("PANDO_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| fastrand::u64(..));
        println!("PANDO_TEST_SEED={seed}");
        Random(fastrand::Rng::with_seed(seed))
    }

    fn below(&mut self, end: usize) -> usize {
        self.0.usize(..end)
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    /// Returns the text with each letter in random case.
    fn in_any_case(&mut self, text: &str) -> String {
        let any = |letter: char| match self.below(2) {
            0 => letter.to_ascii_uppercase(),
            _ => letter.to_ascii_lowercase(),
        };
        text.chars().map(any).collect()
    }

    /// Returns one of these names of a type with up to three options. Most of the options are new.
    fn description(&mut self, names: &[&str], options_min: usize) -> String {
        let name = self.of(names).to_owned();
        let mut text = self.in_any_case(&name);
        for _ in 0..options_min + self.below(4 - options_min) {
            let option = match self.below(5) {
                0 => self.of(&["lang-de", "lang-en-GB", "x-old", "x-app-mail"]).to_owned(),
                _ => format!("{}{}", self.of(&["x-", "x-app-", "lang-"]), self.letters()),
            };
            text += ";";
            text += &self.in_any_case(&option);
        }
        text
    }

    fn letters(&mut self) -> String {
        (0..1 + self.below(6)).map(|_| char::from(b'a' + u8::try_from(self.below(26)).unwrap())).collect()
    }
}

struct World {
    directory: TestDirectory,
    random: Random,
    count: usize,
}

fn ok(outcome: &Outcome, what: &str) {
    assert_eq!(outcome.code, Code::SUCCESS, "{what}: {}", outcome.diagnostic);
}

impl World {
    fn new() -> World {
        let general = GeneralSettings {
            password_scheme: StorageScheme::Clear,
            integrity_attributes: vec!["member".to_owned()],
            secret_attributes: vec!["ntHash".to_owned()],
            ..GeneralSettings::default()
        };
        let mut directory = TestDirectory::with_settings(general);
        directory.add(SUFFIX, &[("objectClass", &["domain"]), ("dc", &["example"])]);
        let policy: &[(&str, &[&str])] = &[
            ("objectClass", &["device", "pandoPwdPolicy"]),
            ("pwdAttribute", &["userPassword"]),
            ("pwdCheckQuality", &["2"]),
            ("pwdMinLength", &["8"]),
            ("pandoPwdAppPasswords", &["64"]),
        ];
        ok(&directory.add(POLICY, policy), "policy");
        directory.change_settings(|settings| {
            settings.schema.insert("lesser".to_owned(), SCHEMA.to_owned());
            settings.general.password_policy = POLICY.to_owned();
            settings.indexes.insert("street".to_owned(), "equality,substring".parse().unwrap());
        });
        directory.finish_indexes();
        World { directory, random: Random::new(), count: 0 }
    }

    /// Adds an entry. Returns its DN and id.
    fn entry(&mut self, more: &[(&str, &[&str])]) -> (String, EntryId) {
        self.count += 1;
        let dn = format!("uid=p{},{SUFFIX}", self.count);
        let person: &[(&str, &[&str])] = &[
            ("objectClass", &["inetOrgPerson", "extensibleObject"]),
            ("cn", &["x"]),
            ("sn", &["x"]),
            ("userPassword", &["long enough"]),
        ];
        let outcome = self.directory.add(&dn, &[person, more].concat());
        ok(&outcome, &format!("{dn} {more:?}"));
        let id = self.id(&dn);
        (dn, id)
    }

    fn id(&self, dn: &str) -> EntryId {
        let state = self.directory.snapshot.state();
        let name = NormalName::of(&parse_dn(dn).unwrap(), &state.catalog.schema);
        state.entry_of(&name).unwrap().unwrap()
    }

    /// Tries to add a new entry with these values, and to modify an existing entry. Each change has its own batch.
    /// Returns the outcomes.
    fn tries(&mut self, description: &str, values: &[&str]) -> Vec<(String, Outcome)> {
        self.count += 1;
        let new = format!("uid=n{},{SUFFIX}", self.count);
        let person: &[(&str, &[&str])] =
            &[("objectClass", &["inetOrgPerson", "extensibleObject"]), ("cn", &["x"]), ("sn", &["x"])];
        let added = self.directory.add(&new, &[person, &[(description, values)]].concat());
        let mut outcomes = vec![(new, added)];
        for operation in [Add, Replace] {
            let (dn, _) = self.entry(&[]);
            let outcome = self.directory.modify(&dn, &[(operation, description, values)]);
            outcomes.push((dn, outcome));
        }
        outcomes
    }

    /// Makes a user the requester.
    fn become_user(&mut self, dn: &str) {
        self.directory.requester = Requester::User { id: self.id(dn), dn: dn.to_owned() };
    }

    fn become_administrator(&mut self) {
        self.directory.requester = Requester::Administrator { dn: "cn=admin".to_owned() };
    }

    fn set_rules(&mut self, rules: &[&str]) {
        let rules = rules.iter().map(|rule| (*rule).to_owned()).collect();
        self.directory.change_settings(|settings| settings.general.access_rules = rules);
    }

    /// Returns the descriptions in the search result for an entry; empty if the search does not find the entry.
    fn visible_descriptions(&mut self, dn: &str, filter: &str, more: &str) -> Vec<String> {
        let found = self.directory.search(dn, Scope::BaseObject, filter, &["*", "+", more]);
        found.entries.into_iter().flat_map(|entry| entry.attributes.into_keys()).collect()
    }

    fn parsed(&self, description: &str) -> AttributeDescription {
        self.directory.snapshot.state().catalog.schema.parse_description(description).unwrap()
    }
}

fn modify(
    world: &mut World,
    dn: &str,
    operation: ChangeOperation,
    description: &str,
    value: &str,
) -> Outcome {
    world.directory.modify(dn, &[(operation, description, &[value])])
}

/// Password policy: a value that the policy forbids is refused, and a new password removes values under other
/// descriptions.
#[test]
fn the_password_policy_applies_to_every_description() {
    let mut world = World::new();
    for _ in 0..ROUNDS {
        let description = world.random.description(&["userPassword", "2.5.4.35"], 0);
        let application = world.parsed(&description).options.starts_with("x-app-");
        for value in ["short", "{CLEARTEXT}x", "{SSHA}AAAA"] {
            for (dn, outcome) in world.tries(&description, &[value]) {
                let what = format!("{description}: {value}");
                assert!(outcome.code != Code::SUCCESS || application, "{what}");
                if outcome.code != Code::SUCCESS && outcome.code != Code::CONSTRAINT_VIOLATION {
                    panic!("{what}: {outcome:?}");
                }
                if let Some(id) = outcome.code.eq(&Code::SUCCESS).then(|| world.id(&dn)) {
                    let stored = stored_passwords(world.directory.snapshot.state(), id).unwrap();
                    assert!(!stored.iter().any(|stored| stored == value.as_bytes()), "{what}");
                    ok(&modify(&mut world, &dn, Replace, "userPassword", "long enough too"), &what);
                    let left = world.visible_descriptions(&dn, "(objectClass=*)", "userPassword");
                    let left: Vec<_> = left.iter().filter(|name| name.starts_with("userPassword")).collect();
                    assert_eq!(left, ["userPassword"], "{what}");
                }
            }
        }
        let (dn, _) = world.entry(&[]);
        world.become_user(&dn);
        let outcome = modify(&mut world, &dn, Add, &description, "{SSHA512}AAAA");
        world.become_administrator();
        assert!(outcome.code != Code::SUCCESS, "{description} to oneself");
    }
}

/// Schema: single-valued, no-user-modification, collective and structural attributes.
#[test]
fn the_schema_applies_to_every_description() {
    let mut world = World::new();
    for _ in 0..ROUNDS {
        let single = world.random.description(&["preferredLanguage", "2.16.840.1.113730.3.1.39"], 0);
        let again = world.random.in_any_case(&single);
        for (_, outcome) in world.tries(&single, &["de", "en"]) {
            assert_eq!(outcome.code, Code::CONSTRAINT_VIOLATION, "{single}");
        }
        let (dn, _) = world.entry(&[(&single, &["de"])]);
        let second = modify(&mut world, &dn, Add, &again, "en");
        assert_eq!(second.code, Code::CONSTRAINT_VIOLATION, "{single} and {again}");
        for (names, value, codes) in [
            (&["createTimestamp", "2.5.18.1"][..], "20200101000000Z", &[Code::CONSTRAINT_VIOLATION][..]),
            (
                &["entryCSN", "pwdHistory", "memberOf"],
                "x",
                &[Code::CONSTRAINT_VIOLATION, Code::INVALID_ATTRIBUTE_SYNTAX],
            ),
            (&["c-l", "2.5.4.7.1"], "x", &[Code::OBJECT_CLASS_VIOLATION]),
        ] {
            let description = world.random.description(names, 0);
            for (_, outcome) in world.tries(&description, &[value]) {
                assert!(codes.contains(&outcome.code), "{description}: {outcome:?}");
            }
        }
        let names =
            ["objectClass", "2.5.4.0", "aliasedObjectName", "pwdAttribute", "pandoTotpSecret", "pwdReset"];
        let description = world.random.description(&names, 1);
        for (_, outcome) in world.tries(&description, &["person"]) {
            assert!(outcome.code != Code::SUCCESS, "{description}");
        }
    }
}

/// Access rules: denied attributes can be neither written nor read, and no description evades the filter of a rule.
#[test]
fn access_rules_apply_to_every_description() {
    let mut world = World::new();
    world.set_rules(&RULES);
    let (requester, _) = world.entry(&[]);
    for round in 0..ROUNDS {
        let (dn, _) = world.entry(&[]);
        world.become_user(&requester);
        // This search caches the requester's rights before the description exists.
        assert!(!world.visible_descriptions(&dn, "(objectClass=*)", "*").is_empty());
        let hidden =
            world.random.description(&["description", "2.5.4.13", "lesserText", "smallText", "1.2.3.1"], 0);
        let secret = world.random.description(&["ntHash", "1.2.3.3", "lesserHash"], 0);
        for (description, operation) in [(&hidden, Add), (&hidden, Replace), (&secret, Add)] {
            let outcome = modify(&mut world, &dn, operation, description, "text");
            assert_eq!(outcome.code, Code::INSUFFICIENT_ACCESS_RIGHTS, "{description}: {outcome:?}");
        }
        world.become_administrator();
        for description in [&hidden, &secret] {
            ok(&modify(&mut world, &dn, Add, description, "text"), description);
        }
        world.become_user(&requester);
        for description in [&hidden, &secret] {
            let base = description.split(';').next().unwrap();
            for filter in
                [format!("({description}=text)"), format!("({base}=*)"), format!("(!({description}=other))")]
            {
                assert!(world.visible_descriptions(&dn, &filter, description).is_empty(), "{filter}");
            }
            let visible_descriptions = world.visible_descriptions(&dn, "(objectClass=*)", description);
            let type_id = world.parsed(description).type_id;
            assert!(
                visible_descriptions.iter().all(|name| world.parsed(name).type_id != type_id),
                "{description} in {visible_descriptions:?}"
            );
            let request = CompareRequest { entry: &dn, description, value: b"text" };
            let compared = compare(
                &world.directory.snapshot,
                &world.directory.requester.context(),
                &request,
                &RequestControls::default(),
            );
            let CompareOutcome::Done(outcome) = compared else { panic!("{description}") };
            assert_eq!(outcome.code, Code::INSUFFICIENT_ACCESS_RIGHTS, "{description}");
        }
        // If the entry names the requester, the requester may read the secret, but no longer roomNumber.
        world.become_administrator();
        let named = world.random.description(&["manager", "0.9.2342.19200300.100.1.10"], 0);
        ok(
            &world.directory.modify(&dn, &[(Add, &named, &[&requester]), (Add, "roomNumber", &["7"])]),
            &named,
        );
        world.become_user(&requester);
        let visible_descriptions = world.visible_descriptions(&dn, "(objectClass=*)", "*");
        let type_id = world.parsed(&secret).type_id;
        assert!(
            visible_descriptions.iter().any(|name| world.parsed(name).type_id == type_id),
            "{named}: {secret} in {visible_descriptions:?}"
        );
        assert!(!visible_descriptions.iter().any(|name| name == "roomNumber"), "{named}");
        // The filter of a rule matches a value under the new description.
        world.become_administrator();
        let former = world.random.description(&["employeeType", "2.16.840.1.113730.3.1.4", "lesserType"], 0);
        ok(&modify(&mut world, &dn, Add, &former, "former"), &former);
        world.become_user(&requester);
        assert!(
            world.visible_descriptions(&dn, "(objectClass=*)", "*").is_empty(),
            "{former} in round {round}"
        );
        world.become_administrator();
    }
}

/// Referential integrity: every value that names a deleted entry is removed.
#[test]
fn integrity_applies_to_every_description() {
    let mut world = World::new();
    for _ in 0..ROUNDS {
        let (target, _) = world.entry(&[]);
        let (other, _) = world.entry(&[]);
        let first = world.random.description(&["member", "2.5.4.31"], 0);
        let second = world.random.description(&["member", "2.5.4.31"], 0) + ";x-second";
        let (group, _) = world.entry(&[(&first, &[&target])]);
        ok(&modify(&mut world, &group, Add, &second, &target), &second);
        ok(&modify(&mut world, &group, Add, "member;x-kept", &other), "other");
        ok(&world.directory.delete(&target), &target);
        let entry = world.directory.read(&group).unwrap();
        let members = entry.attributes.iter().filter(|(name, _)| name.starts_with("member"));
        let left: Vec<_> = members.flat_map(|(_, values)| values).collect();
        assert_eq!(left, [other.as_bytes()], "{first} and {second}");
    }
}

/// Indexes: a search finds the same entries with and without an index.
#[test]
fn indexes_cover_every_description() {
    let mut world = World::new();
    for round in 0..ROUNDS {
        let given = world.random.description(&["street", "streetAddress", "2.5.4.9"], 0);
        let value = format!("lane {round}");
        let (dn, _) = world.entry(&[(&given, &[&value])]);
        let (by_modify, _) = world.entry(&[]);
        ok(&modify(&mut world, &by_modify, Add, &given, &value), &given);
        let options: Vec<String> = given.split(';').skip(1).map(str::to_owned).collect();
        let asked =
            ["street".to_owned(), world.random.in_any_case(&given), format!("2.5.4.9;{}", options.join(";"))];
        let asked: Vec<&str> = asked.iter().map(|asked| asked.trim_end_matches(';')).collect();
        for asked in asked {
            for filter in
                [format!("({asked}={value})"), format!("({asked}=*{round})"), format!("({asked};x-none=*)")]
            {
                let mut found = [true, false].map(|use_indexes| {
                    world.directory.use_indexes = use_indexes;
                    let found = world.directory.search(SUFFIX, Scope::WholeSubtree, &filter, &["1.1"]);
                    found.dns().into_iter().map(str::to_owned).collect::<Vec<_>>()
                });
                found.iter_mut().for_each(|found| found.sort_unstable());
                assert_eq!(found[0], found[1], "{filter} after {given}");
                let is_there = found[0].contains(&dn) && found[0].contains(&by_modify);
                assert_eq!(is_there, !filter.contains("x-none"), "{filter} after {given}: {found:?}");
            }
        }
    }
}
