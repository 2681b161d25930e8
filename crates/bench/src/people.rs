//! A tree of people of any size, the same for every server and every run.
//!
//! `dc=example,dc=com` with `ou=people` and in it `uid=user.0` to `uid=user.N-1`, inetOrgPerson entries of 19
//! attributes and 0.7 KB like those that directory benchmarks have used for twenty years: names from short
//! lists, numbers from a seed. Passwords come as {SSHA} of [`sample::PASSWORD`], which every server verifies as it is.

use crate::{Seeded, sample};
use std::io::{self, Write};

/// The tree's suffix.
pub const SUFFIX: &str = "dc=example,dc=com";

/// Attributes that are looked up, and that every server measured indexes for equality.
pub const INDEXED: [&str; 4] = ["objectClass", "uid", "cn", "sn"];

const GIVEN_NAMES: [&str; 16] = [
    "Ada", "Bela", "Chiara", "Dario", "Elin", "Farid", "Gesine", "Hugo", "Ines", "Jonas", "Katja", "Liam",
    "Mila", "Nils", "Olga", "Pavel",
];
const SURNAMES: [&str; 16] = [
    "Acker", "Bruun", "Costa", "Dvorak", "Engel", "Fuchs", "Garcia", "Holm", "Ivanov", "Jansen", "Kowal",
    "Lund", "Moreau", "Novak", "Okafor", "Petit",
];
const STATES: [&str; 4] = ["North", "South", "East", "West"];
const TOWNS: [&str; 8] = ["Aarhus", "Bergen", "Cadiz", "Dresden", "Espoo", "Faro", "Gent", "Haarlem"];

/// The DN of a person.
pub fn dn(index: u32) -> String {
    format!("uid=user.{index},ou=people,{SUFFIX}")
}

/// An entry: its DN, and its attributes as pairs of description and value.
pub type Person = (String, Vec<(&'static str, String)>);

/// The entry of a person. Everything in it follows from the index.
pub fn person(index: u32) -> Person {
    let mut seeded = Seeded::new(u64::from(index));
    let mut digits = |count: usize| -> String { (0..count).map(|_| seeded.below(10).to_string()).collect() };
    let given_name = GIVEN_NAMES[index as usize % GIVEN_NAMES.len()];
    let surname = SURNAMES[index as usize / GIVEN_NAMES.len() % SURNAMES.len()];
    let town = TOWNS[index as usize % TOWNS.len()];
    let name = format!("{given_name} {surname} {index}");
    let street = format!("{} Main Street", digits(4));
    let postal_code = digits(5);
    let attributes = vec![
        ("objectClass", "top".to_owned()),
        ("objectClass", "person".to_owned()),
        ("objectClass", "organizationalPerson".to_owned()),
        ("objectClass", "inetOrgPerson".to_owned()),
        ("uid", format!("user.{index}")),
        ("givenName", given_name.to_owned()),
        ("sn", surname.to_owned()),
        ("cn", name.clone()),
        ("initials", format!("{}{}", &given_name[..1], &surname[..1])),
        ("employeeNumber", index.to_string()),
        ("mail", format!("user.{index}@example.com")),
        ("telephoneNumber", format!("+1 {} {} {}", digits(3), digits(3), digits(4))),
        ("homePhone", format!("+1 {} {} {}", digits(3), digits(3), digits(4))),
        ("pager", format!("+1 {} {} {}", digits(3), digits(3), digits(4))),
        ("mobile", format!("+1 {} {} {}", digits(3), digits(3), digits(4))),
        ("street", street.clone()),
        ("l", town.to_owned()),
        ("st", STATES[index as usize / TOWNS.len() % STATES.len()].to_owned()),
        ("postalCode", postal_code.clone()),
        ("postalAddress", format!("{name}${street}${town} {postal_code}")),
        ("description", description(&name, town)),
        ("userPassword", sample::password_value(&mut seeded)),
    ];
    (dn(index), attributes)
}

/// Long enough to bring an entry to its size.
fn description(name: &str, town: &str) -> String {
    format!(
        "This is the description of {name} in {town}, who knows the way around here and is glad to be asked about it."
    )
}

/// The entries above the people.
pub fn parents() -> Vec<Person> {
    let suffix =
        [("objectClass", "dcObject"), ("objectClass", "organization"), ("dc", "example"), ("o", "Example")];
    let people = [("objectClass", "organizationalUnit"), ("ou", "people")];
    let own = |pairs: &[(&'static str, &str)]| {
        pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
    };
    vec![(SUFFIX.to_owned(), own(&suffix)), (format!("ou=people,{SUFFIX}"), own(&people))]
}

/// Writes the whole tree as LDIF (RFC 2849).
pub fn write_ldif(out: &mut impl Write, count: u32) -> io::Result<()> {
    for (dn, attributes) in parents().into_iter().chain((0..count).map(person)) {
        writeln!(out, "dn: {dn}")?;
        for (description, value) in attributes {
            writeln!(out, "{description}: {value}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_index_is_the_same_person() {
        assert_eq!(person(17), person(17));
        assert_ne!(person(17).1, person(18).1);
    }

    #[test]
    fn a_person_has_nineteen_attributes() {
        let (_, attributes) = person(99_999);
        let names: std::collections::HashSet<_> = attributes.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), 19);
    }

    #[test]
    fn the_ldif_has_every_entry() {
        let mut ldif = Vec::new();
        write_ldif(&mut ldif, 10).unwrap();
        let text = String::from_utf8(ldif).unwrap();
        assert_eq!(text.matches("dn: ").count(), 12);
        // No line of this data needs folding or base64.
        assert!(text.is_ascii() && text.lines().all(|line| line.len() < 200));
    }
}
