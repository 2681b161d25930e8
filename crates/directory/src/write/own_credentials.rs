//! Changes of the requester's own credentials: the secret for time-based codes, and application passwords.
//!
//! The session has already checked that the user recently authenticated with the password, and with a code if a code
//! is required (`server/src/session/own_credentials.rs`). The password policy must allow the change
//! (`pandoPwdSelfService`).

use ldap::{GeneratedApplication, OwnCredentials, ResultCode};
use schema::AttributeDescription;

use crate::accounts::{self, END_TIME, LAST_SUCCESS, TOTP_LAST_STEP, TOTP_SECRET, description, time_text};
use crate::catalog::{Allocations, Catalog, USER_PASSWORD};
use crate::model::outcome::OperationError;
use crate::model::password_kind::{application_options, names_application};
use crate::model::record::{Change, Modify, Record};
use crate::password::app_password::is_fit;
use crate::password::policy::Account;
use crate::password::totp::{Totp, secret_of};
use crate::read::own_credentials::own_entry;
use crate::tree::damaged_row;
use crate::tree::target::entry_dn;
use crate::write::deciding::Deciding;
use crate::write::working_entry::WorkingEntry;

type Result<T> = std::result::Result<T, OperationError>;

const MICROS_PER_DAY: i64 = 86_400 * 1_000_000;

/// Checks a client's request. Returns the record of its effect. Returns `None` if nothing changes.
pub(crate) fn decide(deciding: Deciding<'_>, request: &OwnCredentials<'_>) -> Result<Option<Record>> {
    change(deciding, |account, entry| {
        let catalog = deciding.state.catalog;
        match request {
            OwnCredentials::SetCodes { secret, code } => {
                set_codes(account, entry, (catalog, deciding.now()), (secret, code))
            }
            OwnCredentials::ClearCodes => {
                entry.clear(&description(catalog, TOTP_SECRET)?)?;
                entry.clear(&description(catalog, TOTP_LAST_STEP)?)
            }
            OwnCredentials::RemoveApplication { name } => {
                let options = options_of(name)?;
                if entry.value_count(&of_application(catalog, USER_PASSWORD, &options)?)? == 0 {
                    let text = format!("no application {name} has a password");
                    return Err(OperationError::refused(ResultCode::NO_SUCH_ATTRIBUTE, text));
                }
                [USER_PASSWORD, END_TIME, LAST_SUCCESS]
                    .into_iter()
                    .try_for_each(|name| entry.clear(&of_application(catalog, name, &options)?))
            }
            OwnCredentials::Read | OwnCredentials::AddApplication { .. } => {
                let text = "this request changes nothing";
                Err(OperationError::refused(ResultCode::OPERATIONS_ERROR, text))
            }
        }
    })
}

/// Checks an application password that the server generated. Returns the record that stores the password.
pub(crate) fn add_application(
    deciding: Deciding<'_>,
    GeneratedApplication { name, stored, days }: &GeneratedApplication<'_>,
) -> Result<Option<Record>> {
    change(deciding, |account, entry| {
        let catalog = deciding.state.catalog;
        let options = options_of(name)?;
        let own = of_application(catalog, USER_PASSWORD, &options)?;
        let mut count = 0;
        for other in entry.attributes_of_type(own.type_id) {
            if names_application(&other.options) {
                count += entry.value_count(&other)?;
            }
        }
        if entry.value_count(&own)? > 0 {
            let text =
                format!("application {name} has a password already: remove it, or choose another name");
            return Err(OperationError::refused(ResultCode::ATTRIBUTE_OR_VALUE_EXISTS, text));
        }
        if u32::try_from(count).unwrap_or(u32::MAX) >= account.policy.app_passwords {
            let text = "the password policy allows no more application passwords: pandoPwdAppPasswords";
            return Err(OperationError::refused(ResultCode::CONSTRAINT_VIOLATION, text));
        }
        if !is_fit(stored) {
            let text = "an application password must be a salted digest";
            return Err(OperationError::refused(ResultCode::CONSTRAINT_VIOLATION, text));
        }
        entry.set_by_server(&own, stored.to_vec())?;
        let end =
            days.map(|days| deciding.now().saturating_add(i64::from(days).saturating_mul(MICROS_PER_DAY)));
        let end = end.map(|end| time_text(end, false).into_bytes());
        entry.set_all_by_server(&of_application(catalog, END_TIME, &options)?, end)
    })
}

/// Changes the requester's entry, if the policy lets users make this change.
fn change(
    deciding: Deciding<'_>,
    make: impl FnOnce(&Account, &mut WorkingEntry<'_>) -> Result<()>,
) -> Result<Option<Record>> {
    let Deciding { state, context, .. } = deciding;
    let id = own_entry(context.requester)?;
    let account = accounts::account(state, id)?.filter(|account| account.policy.self_service);
    let Some(account) = account else {
        let text =
            "no password policy lets you change your codes and application passwords: pandoPwdSelfService";
        return Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, text));
    };
    let mut entry = WorkingEntry::of(state, id)?;
    make(&account, &mut entry)?;
    if !entry.is_changed() {
        return Ok(None);
    }
    entry.stamp_change(&deciding)?;
    let node = state.node(id)?.ok_or_else(|| damaged_row("nodes", id))?;
    let (class_set, flags, dn) = (node.class_set, node.flags, entry_dn(state, id)?);
    let mut allocations = Allocations::new(state.catalog);
    let changes = entry.changes(&mut allocations);
    let modify = Modify { id, dn, class_set, flags, changes };
    Ok(Some(deciding.record(allocations, Change::Modify(modify))))
}

/// Stores the secret for time-based codes. The code proves that the user's device has the secret, and cannot be used
/// again.
fn set_codes(
    account: &Account,
    entry: &mut WorkingEntry<'_>,
    (catalog, now): (&Catalog, i64),
    (secret, code): (&str, &str),
) -> Result<()> {
    let refused = |text: &str| Err(OperationError::refused(ResultCode::CONSTRAINT_VIOLATION, text));
    if !account.policy.totp {
        return refused("no password policy asks for codes here: pandoPwdTotp");
    }
    if secret_of(secret.as_bytes()).is_none() {
        return refused("a secret is 128 bits or more in base32");
    }
    let totp =
        Totp { secret: secret.as_bytes().to_vec(), last_step: None, window: account.policy.totp_window() };
    let Some(step) = totp.step_of(code.as_bytes(), now) else {
        return refused("this is no code of the secret now: check the clock of the device");
    };
    entry.set_by_server(&description(catalog, TOTP_SECRET)?, totp.secret)?;
    entry.set_by_server(&description(catalog, TOTP_LAST_STEP)?, step.to_string().into_bytes())
}

fn options_of(name: &str) -> Result<Box<str>> {
    application_options(name).ok_or_else(|| {
        let text = "the name of an application is up to 40 of a-z, 0-9 and -";
        OperationError::refused(ResultCode::CONSTRAINT_VIOLATION, text)
    })
}

/// Returns the description of an attribute with the `options` that name an application.
fn of_application(catalog: &Catalog, attribute: &str, options: &str) -> Result<AttributeDescription> {
    Ok(AttributeDescription { options: options.into(), ..description(catalog, attribute)? })
}
