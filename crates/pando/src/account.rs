//! `pando account`: shows and changes the password state of accounts. The commands ask the running server.

mod apps;

pub(crate) use apps::random_password;

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use client::{ClientError, Connection, Entry};
use directory::password::totp::secret_text;
use directory::password::unverifiable_form;
use ldap::oids::{MODIFY_PASSWORD, PASSWORD_STATE};
use ldap::state_operation::{CLEAR_DISABLED, CLEAR_FAILURES, CLEAR_TOTP, SET_DISABLED, SET_TOTP};
use ldap::{
    Controls, FilterBuf, PasswordModify, Response, ResultCode, Scope, SearchRequest, SelectionBuf,
    StateOperation, decode_generated_password, encode_password_state,
};
use serde_json::{Map, Value, json};

use crate::exit;
use crate::named::{Named, USER, scheme};
use crate::online::{TargetArguments, refusal};
use crate::print::Report;

pub(crate) const HELP: &str = "\
Asks the running server as the administrator, through the socket in the data directory or at --url.

Examples:
  pando account show --data /var/lib/pando anna
  pando account unlock --data /var/lib/pando cn=wiki,ou=services,dc=example,dc=com
  pando account report --url ldap://localhost:1389 --bind-dn cn=admin --password-file secret

Exit codes: as `pando verify`.";

/// The options of `pando account`.
#[derive(Debug, Args)]
pub(crate) struct AccountArguments {
    #[command(subcommand)]
    what: AccountVerb,
}

#[derive(Debug, Subcommand)]
enum AccountVerb {
    /// Show the password state of an entry: locks, failures, ages
    Show(OneAccount),
    /// Lock an account until it is unlocked
    Lock(OneAccount),
    /// Unlock an account and reset its failure count
    Unlock(OneAccount),
    /// Set a new random password and print it
    Reset(OneAccount),
    /// Set a new secret for time-based one-time passwords (TOTP) and print it
    Totp(Totp),
    /// Add a random password with which one application binds as an entry, and print it
    AppAdd(AppAdd),
    /// Remove the password of an application
    AppRemove(App),
    /// List the applications that have passwords, with expiry and last use
    AppList(OneAccount),
    /// Count the passwords of each storage scheme
    Report(TargetArguments),
}

#[derive(Debug, Args)]
struct OneAccount {
    #[command(flatten)]
    server: TargetArguments,
    /// User, by uid, or the entry's DN
    #[arg(value_name = "NAME")]
    name: String,
}

impl OneAccount {
    /// Calls `act` with a connection and the DN of the entry.
    fn with(
        &self,
        act: impl FnOnce(&mut Connection, &str) -> Result<Report, String>,
    ) -> Result<Report, String> {
        let mut named = Named::connect(&self.server)?;
        let dn = named.dn(&USER, &self.name)?;
        act(&mut named.connection, &dn)
    }
}

#[derive(Debug, Args)]
struct App {
    #[command(flatten)]
    account: OneAccount,
    /// The application's name
    application: String,
}

#[derive(Debug, Args)]
struct AppAdd {
    #[command(flatten)]
    app: App,
    /// Days until the password expires [default: never]
    #[arg(long)]
    days: Option<u32>,
}

#[derive(Debug, Args)]
struct Totp {
    #[command(flatten)]
    account: OneAccount,
    /// Remove the secret: the password alone suffices again
    #[arg(long)]
    remove: bool,
}

/// Attributes to print, each with its label.
const PRINTED: [(&str, &str); 11] = [
    ("pwdPolicySubentry", "policy that the entry names"),
    ("pwdAccountLockedTime", "locked since"),
    ("pwdFailureTime", "wrong passwords"),
    ("pwdChangedTime", "password changed"),
    ("pwdReset", "has to be changed"),
    ("pwdGraceUseTime", "used after it had expired"),
    ("pwdLastSuccess", "last bind"),
    ("pwdStartTime", "good from"),
    ("pwdEndTime", "good until"),
    ("pwdHistory", "former passwords"),
    ("pandoScramKeys", "keys for SCRAM"),
];

/// Size of a TOTP secret in octets: the output size of its hash, SHA-1 (RFC 4226 section 4, R6).
const TOTP_SECRET_SIZE: usize = 20;

/// Value of pwdAccountLockedTime for a lock that lasts until it is removed (draft-behera-ldap-password-policy section
/// 5.3.3).
const LOCKED_FOR_GOOD: &str = "000001010000Z";

pub(crate) fn run(arguments: &AccountArguments) -> ExitCode {
    let done = match &arguments.what {
        AccountVerb::Show(one) => one.with(show),
        AccountVerb::Lock(one) => one.with(|connection, dn| set_lock(connection, dn, true)),
        AccountVerb::Unlock(one) => one.with(|connection, dn| set_lock(connection, dn, false)),
        AccountVerb::Reset(one) => one.with(|connection, dn| reset(connection, dn, None)),
        AccountVerb::Totp(Totp { account, remove }) => {
            account.with(|connection, dn| totp(connection, dn, *remove))
        }
        AccountVerb::AppAdd(AppAdd { app: App { account, application }, days }) => {
            account.with(|connection, dn| apps::add(connection, dn, application, *days))
        }
        AccountVerb::AppRemove(App { account, application }) => {
            account.with(|connection, dn| apps::remove(connection, dn, application))
        }
        AccountVerb::AppList(one) => one.with(apps::list),
        AccountVerb::Report(server) => server.connect().and_then(report),
    };
    exit::finish(done)
}

fn show(connection: &mut Connection, dn: &str) -> Result<Report, String> {
    let wanted: Vec<&str> = PRINTED.iter().map(|(name, _)| *name).chain(["userPassword"]).collect();
    let entry = connection.entry(dn, &wanted).map_err(|error| error.to_string())?;
    let entry = entry.ok_or_else(|| format!("there is no entry {dn}"))?;
    let schemes: Vec<String> = entry.values("userPassword").iter().map(|value| scheme(value)).collect();
    let stored =
        if schemes.is_empty() { "none that the administrator sees".to_owned() } else { schemes.join(", ") };
    let mut text = format!("{dn}\n  {:<28} {stored}\n", "password");
    let (mut state, mut applications) = (Map::new(), Vec::new());
    for attribute in &entry.attributes {
        text += &other_passwords(&attribute.description, &attribute.values);
        applications.extend(apps::name_of(&attribute.description));
    }
    for (name, meaning) in PRINTED {
        if let Some(value) = value_text(&entry, name) {
            text += &format!("  {meaning:<28} {value}\n");
            state.insert(name.to_owned(), Value::String(value));
        }
    }
    for policy in entry.texts("pwdPolicySubentry") {
        let named = connection.entry(&policy, &["pwdAttribute"]).map_err(|error| error.to_string())?;
        if named.is_none_or(|named| named.values("pwdAttribute").is_empty()) {
            text += &format!("  {policy} is no password policy, so the entry goes by another, or by none\n");
        }
    }
    let object = json!({ "dn": dn, "passwords": schemes, "applications": applications, "state": state });
    Ok(Report::result(object, text))
}

/// Returns a line about a password attribute that is not in [`PRINTED`]: the password of an application, or values that
/// no bind accepts. Older data may contain such values in attributes with other options, or in subtypes of
/// userPassword.
fn other_passwords(description: &str, values: &[Vec<u8>]) -> String {
    let is = |name: &str| description.eq_ignore_ascii_case(name);
    if is("userPassword") || PRINTED.iter().any(|(name, _)| is(name)) {
        return String::new();
    }
    if let Some(name) = apps::name_of(description) {
        let schemes: Vec<String> = values.iter().map(|value| scheme(value)).collect();
        return format!("  {:<28} {name}: {}\n", "password of application", schemes.join(", "));
    }
    // These attributes are skipped, because `app-list` prints the expiry and the last use of application passwords.
    if apps::is_time(description) {
        return String::new();
    }
    format!("  {:<28} {description}: {} values\n", "not used for binds", values.len())
}

/// Returns the value of an attribute of the password state as text, without secrets.
fn value_text(entry: &Entry, name: &str) -> Option<String> {
    let values = entry.texts(name);
    Some(match (name, values.as_slice()) {
        (_, []) => return None,
        ("pwdHistory", values) => values.len().to_string(),
        ("pandoScramKeys", values) => {
            values.iter().filter_map(|value| value.split('$').next()).collect::<Vec<_>>().join(", ")
        }
        ("pwdAccountLockedTime", [since]) if since == LOCKED_FOR_GOOD => {
            "for good, until an administrator unlocks it".to_owned()
        }
        (_, values) => values.join(", "),
    })
}

/// Sets a new secret for time-based codes. Prints it, and the URI that authenticator apps read, usually as a QR code.
/// If `removes` is true, removes the secret instead.
fn totp(connection: &mut Connection, dn: &str, removes: bool) -> Result<Report, String> {
    if removes {
        change_state(connection, dn, &[StateOperation { kind: CLEAR_TOTP, values: Vec::new() }])?;
        let text = format!("{dn} has no secret for time-based codes");
        return Ok(Report::done(json!({ "dn": dn, "secret": null, "uri": null }), text));
    }
    let mut secret = [0; TOTP_SECRET_SIZE];
    getrandom::fill(&mut secret).map_err(|error| format!("the system gives no random numbers: {error}"))?;
    let secret = secret_text(&secret);
    change_state(connection, dn, &[StateOperation { kind: SET_TOTP, values: vec![&secret] }])?;
    let label: String = dn.bytes().map(uri_text).collect();
    let uri = format!("otpauth://totp/Pando:{label}?secret={secret}&issuer=Pando");
    let text = format!("{secret}\n{uri}");
    Ok(Report::result(json!({ "dn": dn, "secret": secret, "uri": uri }), text))
}

/// Encodes an octet for a URI (RFC 3986 section 2.3).
fn uri_text(octet: u8) -> String {
    match octet {
        b'-' | b'.' | b'_' | b'~' => char::from(octet).to_string(),
        octet if octet.is_ascii_alphanumeric() => char::from(octet).to_string(),
        octet => format!("%{octet:02X}"),
    }
}

/// Locks or unlocks an account with the password policy state operation. The server refuses a lock if no policy governs
/// the entry, because the lock would have no effect.
pub(crate) fn set_lock(connection: &mut Connection, dn: &str, locks: bool) -> Result<Report, String> {
    let operation = |kind, values: &[&'static str]| StateOperation { kind, values: values.to_vec() };
    let operations = match locks {
        true => vec![operation(SET_DISABLED, &["true"])],
        false => vec![operation(CLEAR_DISABLED, &[]), operation(CLEAR_FAILURES, &[])],
    };
    change_state(connection, dn, &operations)?;
    let text = format!("{dn} is {}", if locks { "locked" } else { "unlocked" });
    Ok(Report::done(json!({ "dn": dn, "locked": locks }), text))
}

fn change_state(
    connection: &mut Connection,
    dn: &str,
    operations: &[StateOperation<&str>],
) -> Result<(), String> {
    let value = encode_password_state(dn, operations);
    let reply = connection.extended(PASSWORD_STATE, Some(&value)).map_err(|error| error.to_string())?;
    match reply.outcome.code {
        ResultCode::SUCCESS => Ok(()),
        code => Err(refusal(code, &reply.outcome.diagnostic)),
    }
}

/// Sets the given password or a random one, and reports the new password.
pub(crate) fn reset(connection: &mut Connection, dn: &str, password: Option<&str>) -> Result<Report, String> {
    let generated = set_password(connection, dn, password)?;
    let object = json!({ "dn": dn, "password": generated });
    Ok(Report::result(object, generated.unwrap_or_default()))
}

/// Sets the given password. Without one, the server chooses a random password, which is returned.
pub(crate) fn set_password(
    connection: &mut Connection,
    dn: &str,
    password: Option<&str>,
) -> Result<Option<String>, String> {
    let (user_identity, new_password) = (Some(dn.as_bytes()), password.map(str::as_bytes));
    let request = PasswordModify { user_identity, new_password, ..PasswordModify::default() };
    let reply = connection.extended(MODIFY_PASSWORD, Some(&request.encode()));
    let reply = reply.map_err(|error| error.to_string())?;
    if reply.outcome.code != ResultCode::SUCCESS {
        return Err(refusal(reply.outcome.code, &reply.outcome.diagnostic));
    }
    if password.is_some() {
        return Ok(None);
    }
    let value = reply.extended.value.unwrap_or_default();
    let generated =
        decode_generated_password(&value).ok_or("the server does not say which password it made")?;
    Ok(Some(String::from_utf8_lossy(generated).into_owned()))
}

fn report(mut connection: Connection) -> Result<Report, String> {
    let filter = FilterBuf::parse("(userPassword=*)").map_err(|error| error.to_string())?;
    let selection = SelectionBuf::from_iter(["userPassword"]);
    let roots = connection.search("", Scope::BaseObject, "(objectClass=*)", &["namingContexts"]);
    let roots = roots.map_err(|error| error.to_string())?;
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut unverifiable: BTreeMap<String, u64> = BTreeMap::new();
    for base in roots.entries.first().map(|root| root.texts("namingContexts")).unwrap_or_default() {
        let request =
            SearchRequest::new(&base, Scope::WholeSubtree, filter.as_filter(), selection.as_selection());
        let ended = connection.search_each::<ClientError>(request, Controls::NONE, |entry| {
            for attribute in entry.attributes.iter() {
                for value in attribute.values.iter() {
                    match unverifiable_form(value) {
                        Some(form) => *unverifiable.entry(form).or_default() += 1,
                        None => *counts.entry(scheme(value)).or_default() += 1,
                    }
                }
            }
            Ok(())
        });
        let ended = ended.map_err(|error| error.to_string())?;
        if let Response::SearchDone(result) = ended.message().response
            && !matches!(result.code, ResultCode::SUCCESS | ResultCode::NO_SUCH_OBJECT)
        {
            return Err(refusal(result.code, result.diagnostic));
        }
    }
    let lines = counts.iter().map(|(scheme, count)| format!("{scheme:<16} {count:>12}\n"));
    let unverifiable_lines = unverifiable
        .iter()
        .map(|(form, count)| format!("{form:<16} {count:>12}  cannot be verified: reset these passwords\n"));
    let text: String = lines.chain(unverifiable_lines).collect();
    let text = if text.is_empty() { "no passwords that you may see".to_owned() } else { text };
    Ok(Report::result(json!({ "schemes": counts, "unverifiable": unverifiable }), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passwords that a bind accepts are always shown.
    #[test]
    fn all_state_of_passwords_is_printed() {
        let values = [b"{SSHA}x".to_vec(), b"sesame".to_vec()];
        let check = |description: &str, part: &str| {
            let line = other_passwords(description, &values);
            assert!(line.contains(part) && line.is_empty() == part.is_empty(), "{line:?}");
            assert!(!line.contains("sesame") && !line.contains("}x"), "{line:?}");
        };
        check("userPassword;x-app-mail", "mail: SSHA, in clear");
        check("USERPASSWORD;x-app-mail", "mail: SSHA, in clear");
        check("userPassword;x-anything", "not used for binds");
        check("userPassword;lang-de;x-app-mail", "userPassword;lang-de;x-app-mail: 2 values");
        check("formerPassword", "formerPassword: 2 values");
        check("pwdReset;x-a", "not used for binds");
        for attribute in ["userPassword", "pwdHistory", "pwdEndTime;x-app-mail", "pwdLastSuccess;x-app-mail"]
        {
            check(attribute, "");
        }
    }
}
