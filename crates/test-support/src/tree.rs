//! A small tree for tests.

use super::SUFFIX;
use super::pando::Pando;
use client::Connection;
use ldap::{ChangeOperation, ResultCode};

/// Adds an entry, and panics if that fails.
#[track_caller]
pub fn add(connection: &mut Connection, dn: &str, attributes: &[(&str, &str)]) {
    let outcome = connection.add(dn, attributes).unwrap();
    assert!(outcome.is_success(), "add {dn}: {outcome:?}");
}

/// Returns the DN of a person that [`plant`] adds.
pub fn person_dn(uid: &str) -> String {
    format!("uid={uid},ou=people,{SUFFIX}")
}

/// Adds a person, whose password is the uid and `-secret`.
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

/// Replaces the values of an attribute, and panics if that fails.
#[track_caller]
pub fn replace(connection: &mut Connection, dn: &str, attribute: &str, values: &[&str]) {
    let outcome = connection.modify(dn, &[(ChangeOperation::Replace, attribute, values)]).unwrap();
    assert!(outcome.is_success(), "replace {attribute} of {dn}: {outcome:?}");
}

/// Sets the password of a person that [`plant`] adds.
#[track_caller]
pub fn set_password(connection: &mut Connection, uid: &str, password: &str) {
    replace(connection, &person_dn(uid), "userPassword", &[password]);
}

/// Returns the result of a bind as a person, on a new connection.
pub fn bind(pando: &Pando, uid: &str, password: &str) -> ResultCode {
    pando.connect().bind(&person_dn(uid), password).unwrap().code
}

/// Adds cn=policy, a password policy with `attributes`, which must include its class. The policy governs all users.
#[track_caller]
pub fn plant_policy(administrator: &mut Connection, attributes: &[(&str, &str)]) {
    let dn = format!("cn=policy,{SUFFIX}");
    let common = [("objectClass", "device"), ("cn", "policy"), ("pwdAttribute", "userPassword")];
    add(administrator, &dn, &[&common[..], attributes].concat());
    replace(administrator, "cn=config", "pandoPasswordPolicy", &[&dn]);
}

/// Adds the suffix entry, ou=people with anna and bert, and ou=groups with cn=staff, which has both as members.
#[track_caller]
pub fn plant(connection: &mut Connection) {
    let suffix =
        [("objectClass", "dcObject"), ("objectClass", "organization"), ("dc", "example"), ("o", "Example")];
    add(connection, SUFFIX, &suffix);
    add_unit(connection, "people");
    plant_staff(connection);
}

fn add_unit(connection: &mut Connection, unit: &str) {
    let attributes = [("objectClass", "organizationalUnit"), ("ou", unit)];
    add(connection, &format!("ou={unit},{SUFFIX}"), &attributes);
}

/// Adds anna and bert to ou=people, and ou=groups with cn=staff, which has both as members.
#[track_caller]
pub fn plant_staff(connection: &mut Connection) {
    add_unit(connection, "groups");
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
