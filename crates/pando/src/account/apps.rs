//! Application passwords: values of userPassword with an option that names an application. This module generates the
//! passwords at random, and sends only their hashes to the server.

use std::time::{SystemTime, UNIX_EPOCH};

use client::Connection;
use directory::csn::generalized_time;
use directory::password::{StorageScheme, hash};
use ldap::{ChangeOperation, ResultCode};
use serde_json::json;

use crate::online::refusal;
use crate::print::Report;

/// Number of random octets in a password. Each octet supplies five bits, so a password has 100 random bits.
const PASSWORD_SIZE: usize = 20;

/// Beginning of the attribute description of an application password.
const PREFIX: &str = "userPassword;x-app-";

const SECONDS_A_DAY: u64 = 86_400;

/// Returns the attribute option that names an application.
fn option(name: &str) -> Result<String, String> {
    let is_fit = |octet: u8| octet.is_ascii_lowercase() || octet.is_ascii_digit() || octet == b'-';
    if name.is_empty() || name.len() > 40 || !name.bytes().all(is_fit) {
        return Err(format!("the name of an application is up to 40 of a-z, 0-9 and -: {name}"));
    }
    Ok(format!("x-app-{name}"))
}

fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut octets = [0; N];
    getrandom::fill(&mut octets).map_err(|error| format!("the system gives no random numbers: {error}"))?;
    Ok(octets)
}

/// Returns a random password of letters and digits. Characters that look alike are not used.
pub(crate) fn random_password() -> Result<String, String> {
    const ALPHABET: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";
    let letters = random::<PASSWORD_SIZE>()?.map(|octet| ALPHABET.get(usize::from(octet % 32)).copied());
    Ok(letters.into_iter().flatten().map(char::from).collect())
}

/// Generates an application password, stores its hash, and prints it.
pub(super) fn add(
    connection: &mut Connection,
    dn: &str,
    name: &str,
    days: Option<u32>,
) -> Result<Report, String> {
    let option = option(name)?;
    let password = random_password()?;
    let stored = hash(StorageScheme::Ssha512, password.as_bytes(), &random()?);
    let stored = String::from_utf8(stored).map_err(|error| error.to_string())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let end = days.map(|days| generalized_time(now + u64::from(days) * SECONDS_A_DAY));
    let (passwords, ends) = (format!("userPassword;{option}"), format!("pwdEndTime;{option}"));
    let end: Vec<&str> = end.as_deref().into_iter().collect();
    let changes: [(_, &str, &[&str]); 2] =
        [(ChangeOperation::Add, &passwords, &[&stored]), (ChangeOperation::Replace, &ends, &end)];
    let outcome = connection.modify(dn, &changes).map_err(|error| error.to_string())?;
    match outcome.code {
        ResultCode::SUCCESS => {
            let object = json!({ "dn": dn, "application": name, "password": password, "end": end.first() });
            Ok(Report::result(object, password))
        }
        code => Err(refusal(code, &outcome.diagnostic)),
    }
}

/// Removes an application password and its expiry. The time of its last use stays in the entry, because only the server
/// may change it.
pub(super) fn remove(connection: &mut Connection, dn: &str, name: &str) -> Result<Report, String> {
    let option = option(name)?;
    let (passwords, ends) = (format!("userPassword;{option}"), format!("pwdEndTime;{option}"));
    let changes: [(_, &str, &[&str]); 2] =
        [(ChangeOperation::Delete, &passwords, &[]), (ChangeOperation::Replace, &ends, &[])];
    let outcome = connection.modify(dn, &changes).map_err(|error| error.to_string())?;
    match outcome.code {
        ResultCode::SUCCESS => Ok(Report::done(
            json!({ "dn": dn, "application": name }),
            format!("{name} binds as {dn} no more"),
        )),
        code => Err(refusal(code, &outcome.diagnostic)),
    }
}

/// Lists the applications that have passwords.
pub(super) fn list(connection: &mut Connection, dn: &str) -> Result<Report, String> {
    let wanted = ["userPassword", "pwdEndTime", "pwdLastSuccess"];
    let entry = connection.entry(dn, &wanted).map_err(|error| error.to_string())?;
    let entry = entry.ok_or_else(|| format!("there is no entry {dn}"))?;
    let names = entry.attributes.iter().filter_map(|attribute| name_of(&attribute.description));
    let (mut text, mut applications) = (String::new(), Vec::new());
    for name in names {
        let of = |attribute: &str| entry.text(&format!("{attribute};x-app-{name}"));
        let (end, used) = (of("pwdEndTime"), of("pwdLastSuccess"));
        applications.push(json!({ "application": name, "end": end, "last_used": used }));
        let (end, used) = (end.as_deref().unwrap_or("for ever"), used.as_deref().unwrap_or("never"));
        text += &format!("{name:<24} good until {end:<18} used {used}\n");
    }
    if text.is_empty() {
        text = "no application has a password that you may see".to_owned();
    }
    Ok(Report::result(json!({ "dn": dn, "applications": applications }), text))
}

/// Returns the name of the application to which a password attribute belongs.
pub(super) fn name_of(description: &str) -> Option<&str> {
    after(description, PREFIX).filter(|name| !name.is_empty() && !name.contains(';'))
}

/// Returns true for the attributes that contain the expiry or the last use of an application password.
pub(super) fn is_time(description: &str) -> bool {
    ["pwdEndTime;x-app-", "pwdLastSuccess;x-app-"].iter().any(|prefix| after(description, prefix).is_some())
}

/// Removes a prefix from an attribute description, ignoring case. Returns `None` if the description lacks the prefix.
fn after<'d>(description: &'d str, prefix: &str) -> Option<&'d str> {
    let start = description.get(..prefix.len())?;
    description.get(prefix.len()..).filter(|_| start.eq_ignore_ascii_case(prefix))
}
