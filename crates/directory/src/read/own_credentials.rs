//! The read form of the extended operation on the requester's own credentials: it reports the credentials and the rules
//! of the password policy. [`write::own_credentials`](crate::write::own_credentials) handles changes.

use ldap::ResultCode;

use crate::access::{RequestContext, Requester};
use crate::accounts::{self, time_text};
use crate::model::outcome::{OperationError, Outcome};
use crate::model::password_kind::application_name;
use crate::model::rows::EntryId;
use crate::model::usable::Uses;
use crate::model::virtual_entries::READ_AUDIT;
use crate::password::policy::Account;
use crate::snapshot::Snapshot;

/// Returns the value of the response. Each line is a key and its values, separated by tabs. If no password policy
/// applies to the requester, the lines report only the credentials that the requester may use. `now` is in microseconds
/// since 1970.
///
/// # Errors
/// The requester has no entry and is not the administrator; the store failed.
pub fn own_credentials(
    snapshot: &Snapshot,
    context: &RequestContext<'_>,
    now: i64,
) -> Result<Vec<u8>, Outcome> {
    let mut text = match context.requester.is_administrator() {
        true => "administrator\ttrue\n".to_owned(),
        false => {
            let account = accounts::account(snapshot.state(), own_entry(context.requester)?)?;
            account.map(|account| lines(&account, now)).unwrap_or_default()
        }
    };
    let rights = snapshot.rights(context)?;
    for (is_allowed, name) in [
        (rights.check_read_monitor(snapshot.state()).is_ok(), "monitor"),
        (rights.may_use(Uses::of_oid(READ_AUDIT)), "read-audit"),
    ] {
        if is_allowed {
            text.extend(["use\t", name, "\n"]);
        }
    }
    Ok(text.into_bytes())
}

/// Returns the entry of the requester.
///
/// # Errors
/// The requester has no entry.
pub(crate) fn own_entry(requester: &Requester) -> Result<EntryId, OperationError> {
    match requester {
        Requester::User { id, .. } => Ok(*id),
        Requester::Anonymous | Requester::Administrator { .. } => {
            let text = "only a user with an entry has own credentials";
            Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, text))
        }
    }
}

fn lines(account: &Account, now: i64) -> String {
    let policy = &*account.policy;
    let mut text = String::new();
    let mut put = |key: &str, values: &[String]| {
        text.push_str(key);
        values.iter().for_each(|value| text.extend(["\t", value]));
        text.push('\n');
    };
    let mut switch = |key: &str, is_on: bool| put(key, &[is_on.to_string()]);
    switch("self-service", policy.self_service);
    switch("codes-allowed", policy.totp);
    switch("codes-used", account.totp.is_some());
    switch("change-allowed", !policy.forbids_user_change);
    switch("old-password-needed", policy.safe_modify);
    switch("lists-checked", policy.check_lists);
    for (key, number) in [
        ("applications-max", policy.app_passwords),
        ("length-min", policy.min_length),
        ("length-max", policy.max_length),
        ("classes-min", policy.min_classes),
        ("history", policy.in_history),
        ("age-min", policy.min_age),
        ("quality-checked", policy.check_quality),
    ] {
        put(key, &[number.to_string()]);
    }
    let time = |time: Option<i64>| time.map(|time| time_text(time, false)).unwrap_or_default();
    put("changed", &[time(account.changed)]);
    put("expires", &[time(account.expires_at())]);
    put("time", &[time(Some(now))]);
    for app in &account.apps {
        let name = application_name(&app.options).unwrap_or_default();
        put("application", &[name.to_owned(), time(app.end), time(app.last_used)]);
    }
    text
}
