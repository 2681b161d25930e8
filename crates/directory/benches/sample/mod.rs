//! People that the benches search for.

use ldap::AttributesBuf;

use crate::testing::TestDirectory;

/// Superior of the people.
pub(crate) const PEOPLE: &str = "ou=people,dc=example,dc=com";

const ADDS_PER_BATCH: u32 = 1_000;

/// Returns a directory with this many people in one subtree below the suffix entry.
pub(crate) fn sample(person_count: u32) -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    directory.add(PEOPLE, &[("objectClass", &["organizationalUnit"]), ("ou", &["people"])]);
    for first in (0..person_count).step_by(ADDS_PER_BATCH as usize) {
        let numbers = first..person_count.min(first + ADDS_PER_BATCH);
        directory.add_all(numbers, |number| (person_dn(number), person(number)));
    }
    directory.directory.checkpoint().unwrap();
    directory.snapshot.renew().unwrap();
    directory
}

/// Returns the DN of a person.
pub(crate) fn person_dn(number: u32) -> String {
    format!("uid=user.{number},{PEOPLE}")
}

/// Returns the 16 attributes of a person, except the naming attribute.
pub(crate) fn person(number: u32) -> AttributesBuf {
    let uid = format!("user.{number}");
    let mut attributes = AttributesBuf::new();
    attributes.push("objectClass", ["inetOrgPerson"]);
    attributes.push("cn", [&uid]);
    attributes.push("sn", [format!("Person {}", number % 1_000)]);
    attributes.push("givenName", [format!("Given {}", number % 500)]);
    attributes.push("mail", [format!("{uid}@example.com")]);
    attributes.push("employeeNumber", [number.to_string()]);
    for name in
        ["title", "street", "l", "st", "postalCode", "homePhone", "mobile", "telephoneNumber", "initials"]
    {
        attributes.push(name, [format!("0{number}")]);
    }
    attributes.push("description", [format!("This is the description of number {number}, some words long.")]);
    attributes
}
