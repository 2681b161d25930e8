//! Password policies, the entries that they apply to, and the recorded state of passwords
//! (draft-behera-ldap-password-policy sections 5.3 and 10).
//!
//! The policy of an entry is the policy that its pwdPolicySubentry names. Otherwise it is the policy of the nearest
//! subentry whose subtree contains the entry. Otherwise it is the policy in the setting `password_policy`. The
//! administrator has no entry and no policy.

pub(crate) mod managed;

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

use schema::{AttributeDescription, Schema, SubtreeSpecification};
use store::Read;

use crate::catalog::{Catalog, USER_PASSWORD};
use crate::model::account_attribute::AccountAttribute;
use crate::model::csn::generalized_time;
use crate::model::entry::{AttributeRow, Content, EntryRow, InlineValue, InlineValues};
use crate::model::limits::{PASSWORD_POLICIES_MAX, POLICY_NOTICES_MAX, TREE_DEPTH_MAX};
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::password_kind::names_application;
use crate::model::password_policy::{
    PASSWORD_ATTRIBUTE, PasswordPolicy, PolicyArea, PolicyEntry, PolicyTable, WITHOUT_EFFECT,
};
use crate::model::quoted::Quoted;
use crate::model::rows::{CLASSES, EntryId, class_key};
use crate::model::sasl_keys::{DigestNames, SaslKeyRules};
use crate::model::sasl_mechanisms::DIGEST_MD5;
use crate::password::app_password::AppPassword;
pub(crate) use crate::password::policy::Account;
use crate::password::policy::Lock;
use crate::password::totp::Totp;
use crate::tree::stored_values::for_each_value;
use crate::tree::{Found, TreeState, dn_of, entry_row, find, node};

type Result<T> = std::result::Result<T, OperationError>;

/// Microseconds per second.
const SECOND: i64 = 1_000_000;

/// Name of the object class of policies.
const PASSWORD_POLICY: &str = "pwdPolicy";

/// Attributes of the state of a password.
pub(crate) const CHANGED_TIME: &str = AccountAttribute::ChangedTime.name();
pub(crate) const LOCKED_TIME: &str = AccountAttribute::LockedTime.name();
pub(crate) const FAILURE_TIME: &str = AccountAttribute::FailureTime.name();
pub(crate) const HISTORY: &str = "pwdHistory";
/// Password state that the copy of an entry takes over from another server. Each server counts failed and successful
/// binds itself.
pub(crate) const COPIED_STATE: [&str; 7] =
    [CHANGED_TIME, HISTORY, RESET, LOCKED_TIME, SCRAM_KEYS, AUTH_PASSWORD, TOTP_SECRET];
pub(crate) const GRACE_USE_TIME: &str = AccountAttribute::GraceUseTime.name();
pub(crate) const RESET: &str = AccountAttribute::Reset.name();
pub(crate) const POLICY_SUBENTRY: &str = AccountAttribute::PolicySubentry.name();
pub(crate) const START_TIME: &str = AccountAttribute::StartTime.name();
pub(crate) const END_TIME: &str = AccountAttribute::EndTime.name();
pub(crate) const LAST_SUCCESS: &str = AccountAttribute::LastSuccess.name();

/// SCRAM keys that the server derived from the password.
pub(crate) const SCRAM_KEYS: &str = AccountAttribute::ScramKeys.name();
/// Secret of a user's time-based codes. `TOTP_LAST_STEP` is the time step of the last code used.
pub(crate) const TOTP_SECRET: &str = AccountAttribute::TotpSecret.name();
pub(crate) const TOTP_LAST_STEP: &str = AccountAttribute::TotpLastStep.name();

pub(crate) const AUTH_PASSWORD: &str = AccountAttribute::AuthPassword.name();

/// Returns the attribute description with this name.
pub(crate) fn description(catalog: &Catalog, name: &str) -> Result<AttributeDescription> {
    let known = catalog.schema.attribute_type(name).map(|known| AttributeDescription::of(known.id));
    known.ok_or_else(|| OperationError::Damaged(format!("the schema does not define {name}")))
}

/// Formats a time given in microseconds, to the microsecond if `is_exact` is true, otherwise to the second.
pub(crate) fn time_text(micros: i64, is_exact: bool) -> String {
    let micros = u64::try_from(micros).unwrap_or(0);
    let text = generalized_time(micros / 1_000_000);
    if is_exact { text.replace('Z', &format!(".{:06}Z", micros % 1_000_000)) } else { text }
}

/// Returns the last microsecond since 1970 that a stored time can mean. Most times of passwords are stored in whole
/// seconds, and such a text means the whole second.
pub(crate) fn moment(value: &[u8]) -> Option<i64> {
    let written = schema::generalized_micros(value)?;
    Some(if has_fraction(value) { written } else { written + SECOND - 1 })
}

fn has_fraction(value: &[u8]) -> bool {
    value.iter().any(|byte| matches!(byte, b'.' | b','))
}

/// Returns the start of the lock recorded in pwdAccountLockedTime. If this time is stored in whole seconds, the failure
/// that locked the account provides the microsecond.
fn locked_since(value: &[u8], failures: &[i64]) -> Option<i64> {
    let last = moment(value)?;
    let in_its_second = failures.iter().copied().filter(|time| *time > last - SECOND && *time <= last);
    Some(in_its_second.max().filter(|_| !has_fraction(value)).unwrap_or(last))
}

/// Returns true if a value of pwdAccountLockedTime is a permanent lock.
fn is_permanent(value: &[u8]) -> bool {
    value.starts_with(b"0000")
}

/// Returns the first time at or after `time` that is not taken. Times of failures and grace logins must be distinct,
/// because equal values count once (draft section 8.1.3.1).
pub(crate) fn distinct_time(mut time: i64, is_taken: impl Fn(i64) -> bool) -> i64 {
    while is_taken(time) {
        time = time.saturating_add(1);
    }
    time
}

/// Returns true if a set of classes makes an entry a policy.
pub(crate) fn is_policy(catalog: &Catalog, closure: &[schema::ClassId]) -> bool {
    catalog.schema.object_class(PASSWORD_POLICY).is_some_and(|class| closure.contains(&class.id))
}

/// Returns true if any entry is, or was, a policy.
pub(crate) fn has_policies(catalog: &Catalog) -> bool {
    catalog.class_sets().iter().any(|class_set| is_policy(catalog, &class_set.closure))
}

/// Reads all policies. An import can store invalid values in a policy. A policy applies as far as its values are
/// valid. Each fault becomes a notice.
///
/// # Errors
/// The store failed, or rows contradict each other.
pub(crate) fn read_policies(read: &Read, catalog: &Catalog) -> Result<PolicyTable> {
    let mut table = PolicyTable::default();
    let class_sets = catalog.numbered_class_sets();
    for (number, _) in class_sets.filter(|(_, class_set)| is_policy(catalog, &class_set.closure)) {
        let mut ids = read.ids(CLASSES, &class_key(number))?;
        let mut block = Vec::new();
        while ids.next_block(&mut block, 256)? > 0 {
            for id in block.drain(..).map(EntryId) {
                let mut faults = Vec::new();
                if table.entries.len() >= PASSWORD_POLICIES_MAX {
                    faults.push(format!(
                        "there are more than {PASSWORD_POLICIES_MAX} policies: none of them applies"
                    ));
                } else if let Some(policy) = read_policy(read, catalog, id, &mut faults)? {
                    let area = read_area(read, catalog, id, &mut faults)?;
                    table.entries.push(PolicyEntry { id, area, policy: Arc::new(policy) });
                }
                for fault in faults {
                    if table.notices.len() < POLICY_NOTICES_MAX {
                        let dn = dn_of(read, id)?.unwrap_or_default();
                        table.notices.push(format!("password policy {}: {fault}", Quoted(&dn)));
                    }
                }
            }
        }
    }
    let name = &catalog.settings.general.password_policy;
    if !name.is_empty() {
        match find(read, catalog, &NormalName::of(&parse_dn(name)?, &catalog.schema))? {
            Found::Entry(id, _) if table.of(id).is_some() => table.default = Some(id),
            found => table.default_fault = Some(unusable_default(name, matches!(found, Found::Entry(..)))),
        }
    }
    Ok(table)
}

/// Returns a notice that explains why the setting `password_policy` has no effect.
fn unusable_default(name: &str, is_entry: bool) -> String {
    let why = if is_entry { "which is not a password policy" } else { "and there is no such entry" };
    format!("the setting password_policy names {}, {why}: no policy applies by default", Quoted(name))
}

/// State of the policy that the settings name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NamedPolicy {
    /// The policy is valid, or none is named.
    Valid,
    /// The suffix of the policy has no entry yet.
    NoTree(String),
    /// The entry does not exist, or is not a policy.
    Unusable(String),
}

/// Returns the state of the policy `name` of the settings, in a directory with these suffixes.
///
/// # Errors
/// The store failed, or rows contradict each other.
pub(crate) fn named_policy(state: TreeState<'_>, name: &str, suffixes: &[String]) -> Result<NamedPolicy> {
    if name.is_empty() {
        return Ok(NamedPolicy::Valid);
    }
    let schema = &state.catalog.schema;
    let normal = NormalName::of(&parse_dn(name)?, schema);
    Ok(match state.find(&normal)? {
        Found::Entry(id, _) if read_policies(state.read, state.catalog)?.of(id).is_some() => {
            NamedPolicy::Valid
        }
        Found::Entry(..) => NamedPolicy::Unusable(unusable_default(name, true)),
        Found::Missing { nearest: Some(_) } => NamedPolicy::Unusable(unusable_default(name, false)),
        Found::Missing { nearest: None } => named_policy_of_new(schema, name, suffixes)?,
    })
}

/// Like [`named_policy`], for a directory without entries.
///
/// # Errors
/// The name is invalid.
pub(crate) fn named_policy_of_new(schema: &Schema, name: &str, suffixes: &[String]) -> Result<NamedPolicy> {
    if name.is_empty() {
        return Ok(NamedPolicy::Valid);
    }
    let key = |dn: &str| Ok::<_, OperationError>(NormalName::of(&parse_dn(dn)?, schema).key);
    let name_key = key(name)?;
    for suffix in suffixes {
        if name_key.starts_with(&key(suffix)?) {
            let text = "no policy applies by default until that entry is added or imported";
            return Ok(NamedPolicy::NoTree(format!(
                "password_policy: {} does not exist yet: {text}",
                Quoted(name)
            )));
        }
    }
    let text = format!("the setting password_policy names {}, which is below no suffix", Quoted(name));
    Ok(NamedPolicy::Unusable(text))
}

fn read_policy(
    read: &Read,
    catalog: &Catalog,
    id: EntryId,
    faults: &mut Vec<String>,
) -> Result<Option<PasswordPolicy>> {
    let row = entry_row(read, id)?;
    let mut policy = PasswordPolicy::default();
    let mut is_of_passwords = true;
    for name in PasswordPolicy::attributes() {
        for value in small_values(catalog, &row, name) {
            if let Err(fault) = policy.set(name, &value) {
                faults.push(fault);
                is_of_passwords &= name != PASSWORD_ATTRIBUTE;
            }
        }
    }
    for name in WITHOUT_EFFECT {
        if small_values(catalog, &row, name).next().is_some() {
            faults.push(format!(
                "{name} has no effect here: the server loads no library that checks passwords"
            ));
        }
    }
    faults.extend(policy.mend());
    Ok(is_of_passwords.then_some(policy))
}

/// Returns the subtree to which a policy applies, if the policy is a subentry.
fn read_area(
    read: &Read,
    catalog: &Catalog,
    id: EntryId,
    faults: &mut Vec<String>,
) -> Result<Option<PolicyArea>> {
    let Some(node) = node(read, id)?.filter(|node| node.flags.is_subentry()) else { return Ok(None) };
    let row = entry_row(read, id)?;
    let specification = small_values(catalog, &row, "subtreeSpecification").next();
    let Some(specification) = specification
        .and_then(|text| SubtreeSpecification::parse(&text))
        .filter(SubtreeSpecification::is_plain)
    else {
        faults.push(
            "its subtreeSpecification has more than base, minimum and maximum: it applies to no entry"
                .to_owned(),
        );
        return Ok(None);
    };
    let mut base = node.parent;
    let relative = parse_dn(&specification.base)?;
    if !relative.is_empty() {
        let name = NormalName::of(&relative, &catalog.schema);
        for place in 0..name.depth() {
            match crate::tree::child(read, base, name.rdn(place))? {
                Some((child, _)) => base = child,
                None => {
                    faults.push("the base of its subtreeSpecification does not exist".to_owned());
                    return Ok(None);
                }
            }
        }
    }
    let SubtreeSpecification { minimum, maximum, .. } = specification;
    Ok(Some(PolicyArea { base, minimum, maximum }))
}

/// Returns the small values of an attribute. Small values are in the entry row.
fn small_values<'r>(
    catalog: &Catalog,
    row: &EntryRow<'r>,
    name: &str,
) -> impl Iterator<Item = Cow<'r, [u8]>> + use<'r> {
    small(attribute_row(catalog, row, name).and_then(inline))
}

fn inline(row: AttributeRow<'_>) -> Option<InlineValues<'_>> {
    match row.content {
        Content::Inline(values) => Some(values),
        Content::Table | Content::Links => None,
    }
}

fn small(values: Option<InlineValues<'_>>) -> impl Iterator<Item = Cow<'_, [u8]>> {
    values.into_iter().flat_map(|values| values.iter()).filter_map(InlineValue::into_here)
}

/// The recorded state of an entry's password, found in one pass.
struct RecordedState<'r>([Option<InlineValues<'r>>; AccountAttribute::ALL.len()]);

impl<'r> RecordedState<'r> {
    fn of(catalog: &Catalog, row: &EntryRow<'r>) -> RecordedState<'r> {
        let mut found = [None; AccountAttribute::ALL.len()];
        for row in row.attributes() {
            let attribute = catalog.attribute(row.id).of_account;
            if let Some(place) = attribute.and_then(|attribute| found.get_mut(attribute as usize)) {
                *place = inline(row);
            }
        }
        RecordedState(found)
    }

    fn values(&self, attribute: AccountAttribute) -> impl Iterator<Item = Cow<'r, [u8]>> + use<'r> {
        small(self.0.get(attribute as usize).copied().flatten())
    }

    /// Returns true if an administrator has locked the account, or has set the start time or end time of the account.
    fn is_restricted(&self) -> bool {
        let has = |attribute| self.values(attribute).next().is_some();
        self.values(AccountAttribute::LockedTime).any(|value| is_permanent(&value))
            || has(AccountAttribute::StartTime)
            || has(AccountAttribute::EndTime)
    }
}

fn attribute_row<'r>(catalog: &Catalog, row: &EntryRow<'r>, name: &str) -> Option<AttributeRow<'r>> {
    let id = catalog.attribute_id(catalog.schema.attribute_type(name)?.id, "")?;
    row.find(id)
}

/// Returns the recorded state of an entry's password, and its policy, for the decision on a bind. If no policy applies,
/// returns `None`, unless an administrator has restricted binds.
///
/// # Errors
/// The store failed, or rows contradict each other.
pub(crate) fn account(state: TreeState<'_>, id: EntryId) -> Result<Option<Account>> {
    let catalog = state.catalog;
    if catalog.policies.entries.is_empty() && !catalog.restricts_binds {
        return Ok(None);
    }
    let row = entry_row(state.read, id)?;
    let recorded = RecordedState::of(catalog, &row);
    let policy = policy_of(state, id, &recorded)?;
    if policy.is_none() && !recorded.is_restricted() {
        return Ok(None);
    }
    read_account(state, id, (&row, &recorded), policy).map(Some)
}

/// Returns the policy of an entry's password and the recorded state; `None` if no policy applies.
///
/// # Errors
/// The store failed, or rows contradict each other.
pub(crate) fn governed_account(state: TreeState<'_>, id: EntryId) -> Result<Option<Account>> {
    if state.catalog.policies.entries.is_empty() {
        return Ok(None);
    }
    let row = entry_row(state.read, id)?;
    let recorded = RecordedState::of(state.catalog, &row);
    let Some(policy) = policy_of(state, id, &recorded)? else { return Ok(None) };
    read_account(state, id, (&row, &recorded), Some(policy)).map(Some)
}

/// Returns the recorded state of an entry's password, with an empty policy if none applies.
///
/// # Errors
/// The store failed, or rows contradict each other.
pub(crate) fn account_or_default(state: TreeState<'_>, id: EntryId) -> Result<Account> {
    let row = entry_row(state.read, id)?;
    let recorded = RecordedState::of(state.catalog, &row);
    let policy = policy_of(state, id, &recorded)?;
    read_account(state, id, (&row, &recorded), policy)
}

/// Returns true if an entry has an attribute without options.
///
/// # Errors
/// The store failed, or rows contradict each other.
pub(crate) fn has_attribute(state: TreeState<'_>, id: EntryId, name: &str) -> Result<bool> {
    Ok(attribute_row(state.catalog, &entry_row(state.read, id)?, name).is_some())
}

/// Returns the policy of a future entry below `parent`.
pub(crate) fn policy_of_new(
    state: TreeState<'_>,
    parent: EntryId,
    named: Option<&[u8]>,
) -> Result<Option<Arc<PasswordPolicy>>> {
    if state.catalog.policies.entries.is_empty() {
        return Ok(None);
    }
    policy_at(state, parent, 1, named)
}

fn policy_of(
    state: TreeState<'_>,
    id: EntryId,
    recorded: &RecordedState<'_>,
) -> Result<Option<Arc<PasswordPolicy>>> {
    policy_at(state, id, 0, recorded.values(AccountAttribute::PolicySubentry).next().as_deref())
}

/// Returns the policy for entries `below` levels below the entry `at`. `named` is the DN of the policy that such an
/// entry names.
fn policy_at(
    state: TreeState<'_>,
    at: EntryId,
    below: usize,
    named: Option<&[u8]>,
) -> Result<Option<Arc<PasswordPolicy>>> {
    let table = &state.catalog.policies;
    if let Some(text) = named.and_then(|name| std::str::from_utf8(name).ok())
        && let Ok(dn) = parse_dn(text)
        && let Found::Entry(policy, _) = state.find(&NormalName::of(&dn, &state.catalog.schema))?
        && let Some(policy) = table.of(policy)
    {
        return Ok(Some(Arc::clone(policy)));
    }
    if table.has_areas() {
        let mut at = at;
        for level in below..below + TREE_DEPTH_MAX {
            let holds = |area: PolicyArea| {
                area.base == at
                    && level >= area.minimum
                    && area.maximum.is_none_or(|maximum| level <= maximum)
            };
            if let Some(entry) = table.entries.iter().find(|entry| entry.area.is_some_and(holds)) {
                return Ok(Some(Arc::clone(&entry.policy)));
            }
            let Some(node) = state.node(at)? else { break };
            at = node.parent;
        }
    }
    Ok(table.default.and_then(|id| table.of(id)).map(Arc::clone))
}

fn read_account(
    state: TreeState<'_>,
    id: EntryId,
    (row, recorded): (&EntryRow<'_>, &RecordedState<'_>),
    policy: Option<Arc<PasswordPolicy>>,
) -> Result<Account> {
    use AccountAttribute::{
        ChangedTime, EndTime, FailureTime, GraceUseTime, LastSuccess, LockedTime, Reset, StartTime,
        TotpLastStep, TotpSecret,
    };
    let times = |attribute| recorded.values(attribute).filter_map(|value| moment(&value));
    // Administrators set these times. A time in whole seconds means the beginning of the second.
    let stated = |attribute| recorded.values(attribute).find_map(|value| schema::generalized_micros(&value));
    let failures: Vec<i64> = times(FailureTime).collect();
    let locked = recorded.values(LockedTime).next().and_then(|value| {
        if is_permanent(&value) {
            Some(Lock::Permanent)
        } else {
            // The policy determines how long wrong passwords lock an account. Without a policy, wrong passwords do not
            // lock it.
            policy.as_ref().and_then(|_| locked_since(&value, &failures)).map(Lock::Since)
        }
    });
    let policy = policy.unwrap_or_default();
    let is_reset = recorded.values(Reset).any(|value| value.eq_ignore_ascii_case(b"TRUE"));
    // A user with an unreadable secret has no valid code.
    let secret = if policy.totp { recorded.values(TotpSecret).next() } else { None };
    let totp = secret.map(|secret| {
        let step = recorded.values(TotpLastStep).next();
        let step = step.and_then(|step| std::str::from_utf8(&step).ok()?.parse().ok());
        Box::new(Totp { secret: secret.to_vec(), last_step: step, window: policy.totp_window() })
    });
    let apps = if policy.app_passwords > 0 { app_passwords(state.catalog, row, &policy) } else { Vec::new() };
    let missing_keys = missing_keys(state, id, (row, recorded), &policy)?;
    Ok(Account {
        id,
        policy,
        totp,
        apps,
        missing_keys,
        changed: times(ChangedTime).next(),
        locked,
        failures,
        grace_uses: u32::try_from(times(GraceUseTime).count()).unwrap_or(u32::MAX),
        is_reset,
        start: stated(StartTime),
        end: stated(EndTime),
        last_success: times(LastSuccess).next(),
    })
}

/// Returns the keys that the policy requires and the entry lacks.
fn missing_keys(
    state: TreeState<'_>,
    id: EntryId,
    (row, recorded): (&EntryRow<'_>, &RecordedState<'_>),
    policy: &PasswordPolicy,
) -> Result<SaslKeyRules> {
    use AccountAttribute::{AuthPassword, ScramKeys};
    let has_key = |mechanism: &str| {
        let is_of = |key: &[u8]| {
            let scheme = key.split(|octet| *octet == b'$').next().unwrap_or_default();
            scheme.eq_ignore_ascii_case(mechanism.as_bytes())
        };
        recorded.values(ScramKeys).chain(recorded.values(AuthPassword)).any(|key| is_of(&key))
    };
    let mut rules = key_rules(state, policy, |names| {
        for name in &state.settings.general.identity_attributes {
            if let Some(attribute) = attribute_row(state.catalog, row, name) {
                for_each_value(state, id, &attribute, &mut |value| names.look_at(value))?;
            }
        }
        Ok(())
    })?;
    // `DIGEST-MD5$KEY$REALM$NAME`: one key for each name.
    let has_digest_key = |name: &String| {
        recorded.values(ScramKeys).any(|key| {
            let mut key = key.splitn(4, |octet| *octet == b'$');
            key.next().is_some_and(|scheme| scheme == DIGEST_MD5.as_bytes())
                && key.nth(1) == Some(rules.realm.as_bytes())
                && key.next() == Some(name.as_bytes())
        })
    };
    rules.mechanisms.retain(|mechanism| match mechanism.as_str() {
        DIGEST_MD5 => !rules.names.iter().all(has_digest_key),
        other => !has_key(other),
    });
    Ok(rules)
}

/// Returns the keys that a policy requires for a password. `collect_names` provides the names for DIGEST-MD5.
pub(crate) fn key_rules(
    state: TreeState<'_>,
    policy: &PasswordPolicy,
    collect_names: impl FnOnce(&mut DigestNames) -> Result<()>,
) -> Result<SaslKeyRules> {
    let (mut names, mut realm) = (DigestNames::default(), String::new());
    if policy.scram_mechanisms.iter().any(|mechanism| mechanism == DIGEST_MD5) {
        realm.clone_from(&state.settings.general.sasl_realm);
        if !realm.is_empty() {
            collect_names(&mut names)?;
        }
    }
    Ok(SaslKeyRules {
        mechanisms: policy.scram_mechanisms.clone(),
        iterations: policy.scram_iterations(),
        names: names.finish(),
        realm,
    })
}

/// Returns the application passwords, up to the number that the policy allows.
fn app_passwords(catalog: &Catalog, row: &EntryRow<'_>, policy: &PasswordPolicy) -> Vec<AppPassword> {
    let schema = &catalog.schema;
    let first = |name: &str, options: &str| {
        let id = catalog.attribute_id(schema.attribute_type(name)?.id, options)?;
        small(row.find(id).and_then(inline)).next()
    };
    let Some(password) = schema.attribute_type(USER_PASSWORD) else { return Vec::new() };
    let has = row.attributes().map(|row| &catalog.attribute(row.id).description);
    let options = has.filter(|has| has.type_id == password.id).map(|has| &*has.options);
    let named = options.filter(|options| names_application(options)).filter_map(|options| {
        let end = first(END_TIME, options).and_then(|time| schema::generalized_micros(&time));
        let last_used = first(LAST_SUCCESS, options).and_then(|time| moment(&time));
        let stored = first(USER_PASSWORD, options)?.into_owned();
        Some(AppPassword { options: options.to_owned(), stored, end, last_used })
    });
    named.take(usize::try_from(policy.app_passwords).unwrap_or(usize::MAX)).collect()
}

/// Returns the text forms of an entry's keys for SCRAM (RFC 5803), CRAM-MD5 and DIGEST-MD5. The result contains the
/// keys that the server derived, and imported keys for SCRAM.
///
/// # Errors
/// The store failed, or rows contradict each other.
pub(crate) fn sasl_keys(state: TreeState<'_>, id: EntryId) -> Result<Vec<String>> {
    let row = entry_row(state.read, id)?;
    let mut keys = Vec::new();
    for name in [SCRAM_KEYS, AUTH_PASSWORD] {
        let values =
            small_values(state.catalog, &row, name).filter(|value| name == SCRAM_KEYS || is_scram(value));
        keys.extend(values.map(|value| String::from_utf8_lossy(&value).into_owned()));
    }
    Ok(keys)
}

/// Returns true if a value of authPassword is a SCRAM key.
pub(crate) fn is_scram(value: &[u8]) -> bool {
    value.get(..6).is_some_and(|start| start.eq_ignore_ascii_case(b"SCRAM-"))
}

/// Returns the stored forms of an entry's former passwords.
///
/// # Errors
/// The store failed, or rows contradict each other.
pub(crate) fn former_passwords(state: TreeState<'_>, id: EntryId) -> Result<Vec<Vec<u8>>> {
    let mut former = Vec::new();
    let row = entry_row(state.read, id)?;
    if let Some(history) = attribute_row(state.catalog, &row, HISTORY) {
        for_each_value(state, id, &history, &mut |value| {
            former.extend(stored_in_history(value).map(<[u8]>::to_vec));
            ControlFlow::Continue(())
        })?;
    }
    Ok(former)
}

/// Formats a value of pwdHistory (draft section 5.3.5): `time#syntax#length#data`. The time is exact, because it orders
/// the values.
pub(crate) fn history_value(time: i64, stored: &[u8]) -> Vec<u8> {
    const OCTET_STRING: &str = "1.3.6.1.4.1.1466.115.121.1.40";
    let mut value = format!("{}#{OCTET_STRING}#{}#", time_text(time, true), stored.len()).into_bytes();
    value.extend_from_slice(stored);
    value
}

/// Returns the time at which a former password was replaced, from a value of pwdHistory.
pub(crate) fn time_in_history(value: &[u8]) -> Option<i64> {
    schema::generalized_micros(value.split(|byte| *byte == b'#').next()?)
}

/// Returns the stored form of a former password, from a value of pwdHistory.
pub(crate) fn stored_in_history(value: &[u8]) -> Option<&[u8]> {
    let mut parts = value.splitn(4, |byte| *byte == b'#');
    let (_, _, length, data) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let length: usize = std::str::from_utf8(length).ok()?.parse().ok()?;
    (length == data.len()).then_some(data)
}
