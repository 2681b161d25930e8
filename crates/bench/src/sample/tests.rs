//! Tests that the sample agrees with its documentation, and that references between its entries are valid.

use std::collections::{HashMap, HashSet};

use data_encoding::HEXLOWER;
use ldap::ldif::{LdifBody, LdifReader};

use super::*;

const SUFFIX: &str = "dc=example,dc=com";

fn sample(suffix: &str) -> Vec<SampleEntry> {
    organisation(suffix).unwrap().collect()
}

fn values<'a>(entry: &'a SampleEntry, description: &str) -> Vec<&'a str> {
    let found = entry.attributes.iter().filter(|(name, _)| name == description);
    found.flat_map(|(_, values)| values).map(|value| std::str::from_utf8(value).unwrap()).collect()
}

fn has_class(entry: &SampleEntry, class: &str) -> bool {
    values(entry, "objectClass").contains(&class)
}

/// Returns everything after the first RDN, taking escaped commas into account.
fn parent(dn: &str) -> Option<&str> {
    let mut escaped = false;
    let comma = dn.find(|letter| {
        let found = letter == ',' && !escaped;
        escaped = letter == '\\' && !escaped;
        found
    });
    comma.map(|comma| &dn[comma + 1..])
}

fn ldif(suffix: &str) -> Vec<u8> {
    let mut ldif = Vec::new();
    write_ldif(&mut ldif, suffix).unwrap();
    ldif
}

#[test]
fn the_sample_has_a_constant_digest() {
    assert_eq!(
        HEXLOWER.encode(&Sha1::digest(ldif(SUFFIX))),
        "706323aad154d94e55dc6e558d77218da9885990",
        "a change of the sample breaks expectations of other tests"
    );
}

#[test]
fn the_ldif_reads_back_as_the_sample() {
    for suffix in [SUFFIX, "ou=Größe,o=foo"] {
        let text = ldif(suffix);
        let mut reader = LdifReader::new(text.as_slice());
        for entry in sample(suffix) {
            let record = reader.next_record().unwrap().unwrap();
            assert_eq!(record.dn, entry.dn);
            let LdifBody::Entry(values) = record.body else { panic!("{}: not an entry", entry.dn) };
            let read: Vec<_> = values.iter().map(|value| (value.description, value.value)).collect();
            let written = entry
                .attributes
                .iter()
                .flat_map(|(name, values)| values.iter().map(move |value| (name.as_str(), value.as_slice())));
            assert!(written.eq(read), "{}", entry.dn);
        }
        assert!(reader.next_record().unwrap().is_none());
    }
    assert!(write_ldif(Vec::new(), "cn=x").is_err());
}

#[test]
fn parents_precede_children_and_each_dn_occurs_once() {
    for suffix in [SUFFIX, "o=foo", "ou=Größe,o=foo", "c=CH"] {
        let entries = sample(suffix);
        assert_eq!(entries[0].dn, suffix);
        let mut seen = HashSet::from([suffix.to_owned()]);
        for entry in &entries[1..] {
            assert!(seen.contains(parent(&entry.dn).unwrap()), "{} without a parent", entry.dn);
            assert!(seen.insert(entry.dn.clone()), "{} twice", entry.dn);
        }
    }
}

#[test]
fn attributes_have_values_and_descriptions_occur_once() {
    for entry in sample(SUFFIX) {
        let descriptions: HashSet<&str> = entry.attributes.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(descriptions.len(), entry.attributes.len(), "{}", entry.dn);
        assert_eq!(entry.attributes[0].0, "objectClass", "{}", entry.dn);
        for (description, values) in &entry.attributes {
            assert!(!values.is_empty(), "{}: {description}", entry.dn);
            assert!(values.iter().all(|value| !value.is_empty()), "{}: {description}", entry.dn);
            let distinct: HashSet<_> = values.iter().collect();
            assert_eq!(distinct.len(), values.len(), "{}: {description}", entry.dn);
        }
    }
}

#[test]
fn every_link_refers_to_another_entry() {
    let entries = sample(SUFFIX);
    let dns: HashSet<&str> = entries.iter().map(|entry| entry.dn.as_str()).collect();
    let links = ["member", "uniqueMember", "manager", "secretary", "owner", "seeAlso", "aliasedObjectName"];
    let mut count = HashMap::new();
    for entry in &entries {
        for link in links {
            for target in values(entry, link) {
                assert!(dns.contains(target), "{}: {link}: {target}", entry.dn);
                assert_ne!(target, entry.dn, "{link}");
                *count.entry(link).or_insert(0) += 1;
            }
        }
    }
    assert!(links.iter().all(|link| count.contains_key(link)), "{count:?}");
    assert_eq!(count["manager"], 999 + 5);
}

#[test]
fn some_groups_precede_and_some_follow_their_members() {
    let entries = sample(SUFFIX);
    let position: HashMap<&str, usize> = entries.iter().map(|entry| entry.dn.as_str()).zip(0..).collect();
    let forward = |group: &SampleEntry| position[values(group, "member")[0]] > position[group.dn.as_str()];
    let groups: Vec<_> = entries.iter().filter(|entry| has_class(entry, "groupOfNames")).collect();
    assert!(groups.iter().any(|group| forward(group)) && groups.iter().any(|group| !forward(group)));
}

#[test]
fn the_sample_has_a_thousand_people_with_the_documented_values() {
    let entries = sample(SUFFIX);
    let people: Vec<_> =
        entries.iter().filter(|entry| entry.dn.ends_with(",ou=people,dc=example,dc=com")).collect();
    assert_eq!(people.len(), 1000);
    for unique in ["uid", "uidNumber", "employeeNumber", "mail"] {
        let all: Vec<&str> = people.iter().flat_map(|person| values(person, unique)).collect();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len(), "{unique}");
    }
    // Values of these attributes are IA5 strings (RFC 2307, RFC 4524).
    for ascii in ["uid", "mail", "gecos", "homeDirectory", "loginShell", "labeledURI"] {
        assert!(people.iter().flat_map(|person| values(person, ascii)).all(str::is_ascii), "{ascii}");
    }
    let having = |description: &str| {
        people.iter().filter(|person| person.attributes.iter().any(|(name, _)| name == description)).count()
    };
    assert_eq!(having("jpegPhoto"), 20);
    assert_eq!(having("userCertificate;binary"), 4);
    assert_eq!(having("sshPublicKey"), 200);
    assert_eq!(having("cn;lang-zh"), 2);
    assert!(people.iter().any(|person| values(person, "cn;lang-el") == ["Γιώργος Παπαδόπουλος"]));
}

#[test]
fn all_people_have_the_documented_password_with_their_own_salts() {
    let mut seen = HashSet::new();
    for entry in sample(SUFFIX) {
        for stored in values(&entry, "userPassword") {
            let raw = STANDARD.decode(stored.strip_prefix("{SSHA}").unwrap()).unwrap();
            let (digest, salt) = raw.split_at(20);
            assert_eq!(Sha1::new().chain_update(PASSWORD).chain_update(salt).finalize()[..], *digest);
            assert!(seen.insert(stored.to_owned()), "{}", entry.dn);
        }
    }
    assert_eq!(seen.len(), 1009);
}

#[test]
fn the_suffix_entry_is_valid_for_every_naming_attribute() {
    for (suffix, class, naming, mail) in [
        ("dc=example,dc=com", "dcObject", ("dc", "example"), "@example.com"),
        ("DC=sub,DC=example,DC=org", "dcObject", ("DC", "sub"), "@sub.example.org"),
        ("o=foo", "organization", ("o", "foo"), "@example.com"),
        ("ou=Größe,dc=foo", "organizationalUnit", ("ou", "Größe"), "@example.com"),
        ("c=CH", "country", ("c", "CH"), "@example.com"),
        ("l=Bern,c=CH", "locality", ("l", "Bern"), "@example.com"),
    ] {
        let entries = sample(suffix);
        assert!(has_class(&entries[0], class), "{suffix}");
        assert_eq!(values(&entries[0], naming.0), [naming.1], "{suffix}");
        let person = entries.iter().find(|entry| has_class(entry, "inetOrgPerson")).unwrap();
        assert!(values(person, "mail")[0].ends_with(mail), "{suffix}");
        assert!(person.dn.ends_with(suffix));
    }
    for (suffix, message) in [("", "not a DN"), ("example", "not a DN"), ("cn=admin,o=foo", "named by cn")] {
        let error = organisation(suffix).err().unwrap().to_string();
        assert!(error.contains(message), "{suffix}: {error}");
    }
}
