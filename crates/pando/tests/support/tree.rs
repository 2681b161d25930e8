//! A small tree for tests that need something to look at.

use super::SUFFIX;
use client::Connection;

/// Adds an entry and wants success.
#[track_caller]
pub fn add(connection: &mut Connection, dn: &str, attributes: &[(&str, &str)]) {
    let outcome = connection.add(dn, attributes).unwrap();
    assert!(outcome.is_success(), "add {dn}: {outcome:?}");
}

/// The DN of a person of [`plant`].
pub fn person_dn(uid: &str) -> String {
    format!("uid={uid},ou=people,{SUFFIX}")
}

/// Adds a person; the password is the uid and `-secret`.
#[track_caller]
pub fn add_person(connection: &mut Connection, uid: &str) {
    let password = format!("{uid}-secret");
    let attributes = [
        ("objectClass", "inetOrgPerson"),
        ("uid", uid),
        ("cn", uid),
        ("sn", uid),
        ("userPassword", password.as_str()),
    ];
    add(connection, &person_dn(uid), &attributes);
}

/// Adds the suffix, ou=people with anna and bert, ou=groups with cn=staff that has both.
#[track_caller]
pub fn plant(connection: &mut Connection) {
    let suffix =
        [("objectClass", "dcObject"), ("objectClass", "organization"), ("dc", "example"), ("o", "Example")];
    add(connection, SUFFIX, &suffix);
    for unit in ["people", "groups"] {
        let attributes = [("objectClass", "organizationalUnit"), ("ou", unit)];
        add(connection, &format!("ou={unit},{SUFFIX}"), &attributes);
    }
    add_person(connection, "anna");
    add_person(connection, "bert");
    let (anna, bert) = (person_dn("anna"), person_dn("bert"));
    let group = [
        ("objectClass", "groupOfNames"),
        ("cn", "staff"),
        ("member", anna.as_str()),
        ("member", bert.as_str()),
    ];
    add(connection, &format!("cn=staff,ou=groups,{SUFFIX}"), &group);
}
