//! The sample tree of the tests, as plain maps.

use std::collections::BTreeMap;

use crate::filters::Filter;

pub(crate) const SUFFIX: &str = "dc=example,dc=com";
pub(crate) const PEOPLE: &str = "ou=people,dc=example,dc=com";
pub(crate) const STAFF: &str = "ou=staff,ou=people,dc=example,dc=com";
pub(crate) const GROUPS: &str = "ou=groups,dc=example,dc=com";
pub(crate) const HIDDEN: &str = "ou=hidden,dc=example,dc=com";

/// Values by attribute.
pub(crate) type Attributes = BTreeMap<String, Vec<String>>;
/// Entries by DN.
pub(crate) type Tree = BTreeMap<String, Attributes>;

/// Returns the DN of the user with this number.
pub(crate) fn user(number: usize) -> String {
    let (name, place) = [("anna", PEOPLE), ("bert", STAFF), ("carl", STAFF), ("dora", HIDDEN)][number];
    format!("uid={name},{place}")
}

pub(crate) fn parent(dn: &str) -> &str {
    dn.split_once(',').map_or("", |(_, parent)| parent)
}

pub(crate) fn is_at_or_below(dn: &str, place: &str) -> bool {
    dn == place || dn.strip_suffix(place).is_some_and(|above| above.ends_with(','))
}

fn entry(attributes: &[(&str, &[&str])]) -> Attributes {
    let owned = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
    attributes.iter().map(|(name, values)| ((*name).to_owned(), owned(values))).collect()
}

/// Returns the entries of the sample, superiors first: people who manage each other, and nested groups.
pub(crate) fn sample() -> Vec<(String, Attributes)> {
    let mut all = vec![(SUFFIX.to_owned(), entry(&[("objectClass", &["domain"]), ("dc", &["example"])]))];
    for unit in [PEOPLE, STAFF, GROUPS, HIDDEN] {
        let name = unit[3..].split(',').next().unwrap();
        all.push((unit.to_owned(), entry(&[("objectClass", &["organizationalUnit"]), ("ou", &[name])])));
    }
    for number in 0..4 {
        let dn = user(number);
        let name = &dn[4..8];
        let (mail, phone) = (format!("{name}@example.com"), format!("+{number}"));
        let mut person = entry(&[
            ("objectClass", &["inetOrgPerson"]),
            ("uid", &[name]),
            ("cn", &[name, "common"]),
            ("sn", &["Person"]),
            ("mail", &[&mail]),
            ("telephoneNumber", &[&phone]),
            ("description", &["same for all"]),
        ]);
        if number > 0 {
            person.insert("manager".to_owned(), vec![user((number * 2) % 3)]);
        }
        all.push((dn, person));
    }
    let groups: [(&str, &[String]); 3] = [
        ("inner", &[user(1), format!("cn=described,{GROUPS}")]),
        ("outer", &[format!("cn=inner,{GROUPS}"), user(0)]),
        ("secret", &[user(2), user(0)]),
    ];
    for (name, members) in groups {
        let mut group =
            entry(&[("objectClass", &["groupOfNames"]), ("cn", &[name]), ("description", &["a group"])]);
        group.insert("member".to_owned(), members.to_vec());
        all.push((format!("cn={name},{GROUPS}"), group));
    }
    let url = format!("ldap:///{PEOPLE}??sub?{}", Filter::described().text());
    let described =
        &[("objectClass", &["groupOfURLs"] as &[&str]), ("cn", &["described"]), ("memberURL", &[&url])];
    all.push((format!("cn=described,{GROUPS}"), entry(described)));
    all
}

/// Returns true if a group has a URL whose scope contains the entry.
pub(crate) fn describes(group: &Attributes, dn: &str) -> bool {
    group.contains_key("memberURL") && is_at_or_below(dn, PEOPLE)
}
