//! Bind (RFC 4511 section 4.2, RFC 4513 section 5): establishes the identity of a client.
//!
//! The directory returns the stored passwords, one of which the asserted password must match. The caller verifies
//! them on a thread pool, because verification is slow by design. Every failed simple bind with a name and a password
//! results in invalidCredentials and takes as long as one verification with the scheme of the settings. Thus neither
//! the response nor its time reveals whether a name exists or how its password is stored. See [`Verification`] for
//! the remaining differences.
//!
//! A bind does not follow aliases (RFC 4511 section 4.2) and returns no referrals (RFC 3296 section 5.6.1).

use ldap::{Authentication, BindRequest, ResultCode};

pub use crate::access::{
    ANONYMOUS, BindStrength, CRAM_MD5, DIGEST_MD5, ExternalIdentity, GSS_SPNEGO, GSSAPI, MAIL_TOKEN,
    OAUTHBEARER, OfferedBinds, PLAIN, RequesterLimits,
};
use crate::access::{EXTERNAL, Requester};
use crate::accounts;
use crate::catalog::USER_PASSWORD;
use crate::model::name::{NormalName, parse_dn, render_dn};
use crate::model::outcome::{OperationError, Outcome};
use crate::model::rows::{EntryId, NodeFlags};
use crate::password::Verification;
use crate::password::policy::Account;
use crate::snapshot::Snapshot;
use crate::tree::stored_values::values_of_type;
use crate::tree::{Found, TreeState, damaged_row};

/// Outcome of a bind request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindOutcome {
    /// The bind is decided. The connection takes the identity of this requester. After a failure, this requester is
    /// anonymous.
    Done(Outcome, Requester),
    /// [`bind_result`] decides the bind after the stored passwords are verified.
    Verify {
        /// Verification with the stored forms of the password. The verification has no stored forms if the name cannot
        /// bind.
        verification: Verification,
        /// The requester if the verification succeeds; anonymous if it cannot succeed.
        requester: Requester,
        /// The account state, if a password policy governs the entry.
        account: Option<Box<Account>>,
    },
}

/// Returns the outcome of a bind that fails. The bind takes as long as any other failed bind.
pub fn bind_without_entry(snapshot: &Snapshot) -> BindOutcome {
    to_verify(snapshot.state(), Vec::new(), Requester::Anonymous, None)
}

/// Returns the outcome of a simple bind with a name that denotes no entry. The bind fails in the same way as a bind
/// with a DN that no entry has.
pub fn bind_unknown(snapshot: &Snapshot, password: &[u8]) -> BindOutcome {
    match password.is_empty() {
        true => BindOutcome::Done(without_password().into(), Requester::Anonymous),
        false => bind_without_entry(snapshot),
    }
}

/// Returns the error for a bind with a name but no password. Such a bind must not succeed (RFC 4513 section 5.1.2).
fn without_password() -> OperationError {
    let diagnostic = "a name without a password proves nothing: send a password, or neither to be anonymous";
    OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, diagnostic)
}

/// Decides a bind request, or returns the verification that decides it.
pub fn bind(snapshot: &Snapshot, request: &BindRequest<'_>) -> BindOutcome {
    match try_bind(snapshot, request) {
        Ok(outcome) => outcome,
        Err(error) => BindOutcome::Done(error.into(), Requester::Anonymous),
    }
}

/// Decides a bind without a password.
///
/// EXTERNAL (RFC 4513 section 5.2.3) authenticates the administrator, if the connection permits it, or the entry whose
/// DN is the subject of the client certificate, `certificate_subject`. The credentials contain the requested
/// authorization identity. The caller evaluates it with [`authorized`](crate::identity::authorized).
pub fn bind_without_password(
    snapshot: &Snapshot,
    request: &BindRequest<'_>,
    external: ExternalIdentity,
    certificate_subject: Option<&str>,
) -> (Outcome, Requester) {
    match try_bind_without_password(snapshot.state(), request, external, certificate_subject) {
        Ok(requester) => (Outcome::success(), requester),
        Err(error) => (error.into(), Requester::Anonymous),
    }
}

fn try_bind_without_password(
    state: TreeState<'_>,
    request: &BindRequest<'_>,
    external: ExternalIdentity,
    certificate_subject: Option<&str>,
) -> Result<Requester, OperationError> {
    let refused = |code, text: &str| Err(OperationError::refused(code, text.to_owned()));
    match request.authentication {
        Authentication::Sasl { mechanism: EXTERNAL, .. } if external != ExternalIdentity::NotOffered => {}
        Authentication::Sasl { mechanism, .. } => {
            let text = format!(
                "SASL mechanism {:?} is not offered here; simple binds are",
                ldap::Excerpt(mechanism)
            );
            return refused(ResultCode::AUTH_METHOD_NOT_SUPPORTED, &text);
        }
        _ => return refused(ResultCode::AUTH_METHOD_NOT_SUPPORTED, "only simple binds and SASL are known"),
    }
    match external {
        ExternalIdentity::Administrator => {
            Ok(Requester::Administrator { dn: state.settings.node.admin_dn.clone() })
        }
        ExternalIdentity::Certificate => {
            bind_with_certificate(state, certificate_subject.unwrap_or_default())
        }
        ExternalIdentity::Stranger => {
            let text = "EXTERNAL is for the user that the server runs as, and for root";
            refused(ResultCode::INVALID_CREDENTIALS, text)
        }
        _ => {
            let text = "the system does not say who is connected";
            refused(ResultCode::INAPPROPRIATE_AUTHENTICATION, text)
        }
    }
}

/// Returns the identity for the subject of a certificate: the entry with that DN.
fn bind_with_certificate(state: TreeState<'_>, subject: &str) -> Result<Requester, OperationError> {
    let refused = |text: String| Err(OperationError::refused(ResultCode::INVALID_CREDENTIALS, text));
    let dn = parse_dn(subject)?;
    let name = NormalName::of(&dn, &state.catalog.schema);
    // A certificate never authenticates the administrator, because certificate authorities may issue a DN as short as
    // cn=admin to several clients.
    if is_administrator(state, &name)? {
        return refused("a certificate cannot bind as the administrator".to_owned());
    }
    match state.find(&name)? {
        Found::Entry(id, flags) if !dn.is_empty() && !flags.is_alias() && !flags.is_referral() => {
            Ok(Requester::User { id, dn: state.dn(id)?.ok_or_else(|| damaged_row("nodes", id))? })
        }
        _ => refused(format!(
            "no entry has the name in your certificate, {}",
            render_dn(&state.catalog.schema, &dn)
        )),
    }
}

/// Returns the account state of an entry. Returns `None` if no password policy governs the entry and no administrator
/// has restricted its binds.
///
/// # Errors
/// The store failed.
pub fn account(snapshot: &Snapshot, id: EntryId) -> Result<Option<Account>, Outcome> {
    match snapshot.state().node(id) {
        Ok(None) => Ok(None),
        Ok(Some(_)) => accounts::account(snapshot.state(), id).map_err(Outcome::from),
        Err(error) => Err(error.into()),
    }
}

/// Reason for a failed simple bind. Operators see the reason, clients never do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindFailure {
    /// No entry has the name.
    NoEntry,
    /// The entry is an alias or a referral.
    NoPerson,
    /// The entry has no userPassword.
    NoPassword,
    /// The account is locked, so no password is accepted.
    Locked,
    /// The password is wrong.
    WrongPassword,
}

impl BindFailure {
    /// Returns the reason as text.
    pub fn text(self) -> &'static str {
        match self {
            BindFailure::NoEntry => "no entry has this name",
            BindFailure::NoPerson => "the entry is an alias or a referral",
            BindFailure::NoPassword => "the entry has no password",
            BindFailure::Locked => "the account is locked",
            BindFailure::WrongPassword => "wrong password",
        }
    }
}

/// Returns the reason why a simple bind as `name` failed at `now_micros`. Verifies no password.
pub fn bind_failure(snapshot: &Snapshot, name: &str, now_micros: i64) -> BindFailure {
    let state = snapshot.state();
    let why = || -> Result<BindFailure, OperationError> {
        let name = NormalName::of(&parse_dn(name)?, &state.catalog.schema);
        if is_administrator(state, &name)? {
            return Ok(BindFailure::WrongPassword);
        }
        Ok(match state.find(&name)? {
            Found::Missing { .. } => BindFailure::NoEntry,
            Found::Entry(_, flags) if flags.is_alias() || flags.is_referral() => BindFailure::NoPerson,
            Found::Entry(id, _) => {
                let account = accounts::account(state, id)?;
                let has_application_password =
                    account.as_ref().is_some_and(|account| !account.apps.is_empty());
                if !has_application_password && stored_passwords(state, id)?.is_empty() {
                    BindFailure::NoPassword
                } else if account.is_some_and(|account| account.is_locked(now_micros)) {
                    BindFailure::Locked
                } else {
                    BindFailure::WrongPassword
                }
            }
        })
    };
    why().unwrap_or(BindFailure::NoEntry)
}

/// Returns the result of a bind after verification.
pub fn bind_result(verified: bool, requester: Requester) -> (Outcome, Requester) {
    if verified && requester != Requester::Anonymous {
        return (Outcome::success(), requester);
    }
    (Outcome::code(ResultCode::INVALID_CREDENTIALS), Requester::Anonymous)
}

fn try_bind(snapshot: &Snapshot, request: &BindRequest<'_>) -> Result<BindOutcome, OperationError> {
    let state = snapshot.state();
    if request.version != 3 {
        let diagnostic = format!("protocol version {} is not supported; version 3 is", request.version);
        return Err(OperationError::refused(ResultCode::PROTOCOL_ERROR, diagnostic));
    }
    let password = match request.authentication {
        Authentication::Simple(password) => password,
        Authentication::Sasl { .. } | Authentication::Unrecognized(_) => {
            let requester = try_bind_without_password(state, request, ExternalIdentity::NotOffered, None)?;
            return Ok(BindOutcome::Done(Outcome::success(), requester));
        }
    };
    if !password.is_empty()
        && let Some((id, row)) = snapshot.cached_entry(request.name)?
        && snapshot.administrator_entry()? != Some(id)
    {
        return verified_by(state, id, row.flags, || Ok(request.name.to_owned()));
    }
    let dn = parse_dn(request.name)?;
    match (dn.is_empty(), password.is_empty()) {
        (true, true) => return Ok(BindOutcome::Done(Outcome::success(), Requester::Anonymous)),
        // The request has a password but no name.
        (true, false) => return Err(OperationError::refused(ResultCode::INVALID_CREDENTIALS, "")),
        (false, true) => return Err(without_password()),
        (false, false) => {}
    }
    let name = NormalName::of(&dn, &state.catalog.schema);
    if is_administrator(state, &name)? {
        let stored = state.settings.node.admin_password.as_ref().or(state.catalog.administrator.as_ref());
        let requester = Requester::Administrator { dn: state.settings.node.admin_dn.clone() };
        return Ok(to_verify(state, stored.cloned().into_iter().collect(), requester, None));
    }
    match state.find(&name)? {
        Found::Entry(id, flags) => {
            snapshot.keep_entry(&dn, id)?;
            verified_by(state, id, flags, || state.dn(id)?.ok_or_else(|| damaged_row("nodes", id)))
        }
        Found::Missing { .. } => Ok(to_verify(state, Vec::new(), Requester::Anonymous, None)),
    }
}

/// Returns the outcome of a bind as the entry `id`: the password of the entry must be verified. A bind as an alias or a
/// referral fails.
fn verified_by(
    state: TreeState<'_>,
    id: EntryId,
    flags: NodeFlags,
    dn: impl FnOnce() -> Result<String, OperationError>,
) -> Result<BindOutcome, OperationError> {
    if flags.is_alias() || flags.is_referral() {
        return Ok(to_verify(state, Vec::new(), Requester::Anonymous, None));
    }
    let account = accounts::account(state, id)?.map(Box::new);
    Ok(to_verify(state, stored_passwords(state, id)?, Requester::User { id, dn: dn()? }, account))
}

/// Returns the outcome of a bind that succeeds if the asserted password matches one of `stored` or an application
/// password of the account. Without any such password, the bind fails.
fn to_verify(
    state: TreeState<'_>,
    stored: Vec<Vec<u8>>,
    requester: Requester,
    account: Option<Box<Account>>,
) -> BindOutcome {
    let has_apps = account.as_ref().is_some_and(|account| !account.apps.is_empty());
    let requester = if stored.is_empty() && !has_apps { Requester::Anonymous } else { requester };
    let verification = Verification::new(stored, state.settings.general.password_scheme);
    BindOutcome::Verify { verification, requester, account }
}

pub(crate) fn is_administrator(state: TreeState<'_>, name: &NormalName) -> Result<bool, OperationError> {
    let administrator = NormalName::of(&parse_dn(&state.settings.node.admin_dn)?, &state.catalog.schema);
    Ok(name.failure.is_none() && name.key == administrator.key)
}

/// Returns the values of userPassword without options: the user's own password. The only other passwords that can bind
/// are application passwords (decision 0084). The [`Account`] contains them.
pub(crate) fn stored_passwords(state: TreeState<'_>, id: EntryId) -> Result<Vec<Vec<u8>>, OperationError> {
    values_of_type(state, id, USER_PASSWORD)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::settings::NodeSettings;
    use crate::model::settings::Settings;
    use crate::password::StorageScheme;
    use crate::testing::{SUFFIX, TemporaryFolder, TestDirectory};

    const ADA: &str = "cn=ada,dc=example,dc=com";

    fn sample() -> TestDirectory {
        let node = NodeSettings { admin_password: Some(b"{SSHA}admin".to_vec()), ..NodeSettings::default() };
        let settings = Settings { node, ..Settings::default() };
        let folder = Arc::new(TemporaryFolder::new());
        let mut directory = TestDirectory::open(folder, settings, &[SUFFIX], 0).unwrap();
        directory.add(SUFFIX, &[("objectClass", &["domain"]), ("dc", &["example"])]);
        let person: &[(&str, &[&str])] =
            &[("objectClass", &["person"]), ("sn", &["x"]), ("userPassword", &["{SSHA}one", "{SSHA}two"])];
        assert_eq!(directory.add(ADA, person).code, ResultCode::SUCCESS);
        directory
    }

    fn try_bind(
        directory: &TestDirectory,
        version: i32,
        name: &str,
        authentication: Authentication<'_>,
    ) -> BindOutcome {
        bind(&directory.snapshot, &BindRequest { version, name, authentication })
    }

    #[test]
    fn some_binds_are_decided_without_a_password() {
        let directory = sample();
        let check =
            |version, name, authentication, code| match try_bind(&directory, version, name, authentication) {
                BindOutcome::Done(outcome, requester) => {
                    assert_eq!((outcome.code, requester), (code, Requester::Anonymous), "{name:?}");
                }
                other => panic!("{name:?}: {other:?}"),
            };
        let simple = Authentication::Simple;
        check(3, "", simple(b""), ResultCode::SUCCESS);
        check(3, "", simple(b"x"), ResultCode::INVALID_CREDENTIALS);
        check(3, ADA, simple(b""), ResultCode::UNWILLING_TO_PERFORM);
        check(3, "cn=admin", simple(b""), ResultCode::UNWILLING_TO_PERFORM);
        check(3, "no dn", simple(b"x"), ResultCode::INVALID_DN_SYNTAX);
        check(2, "", simple(b""), ResultCode::PROTOCOL_ERROR);
        let sasl = Authentication::Sasl { mechanism: "PLAIN", credentials: None };
        check(3, "", sasl, ResultCode::AUTH_METHOD_NOT_SUPPORTED);
    }

    #[test]
    fn external_binds_as_the_administrator_if_it_is_offered() {
        use ExternalIdentity::{NotOffered, Stranger, Unknown};
        let directory = sample();
        let check = |external, mechanism, code| {
            let authentication = Authentication::Sasl { mechanism, credentials: None };
            let request = BindRequest { version: 3, name: "", authentication };
            let (outcome, requester) = bind_without_password(&directory.snapshot, &request, external, None);
            let expected = match code {
                ResultCode::SUCCESS => Requester::Administrator { dn: "cn=admin".to_owned() },
                _ => Requester::Anonymous,
            };
            assert_eq!((outcome.code, requester), (code, expected), "{external:?} {mechanism:?}");
        };
        let administrator = ExternalIdentity::Administrator;
        check(administrator, "EXTERNAL", ResultCode::SUCCESS);
        check(NotOffered, "EXTERNAL", ResultCode::AUTH_METHOD_NOT_SUPPORTED);
        check(Unknown, "EXTERNAL", ResultCode::INAPPROPRIATE_AUTHENTICATION);
        check(Stranger, "EXTERNAL", ResultCode::INVALID_CREDENTIALS);
        check(administrator, "PLAIN", ResultCode::AUTH_METHOD_NOT_SUPPORTED);
        check(administrator, "", ResultCode::AUTH_METHOD_NOT_SUPPORTED);
    }

    #[test]
    fn other_binds_require_a_matching_stored_password() {
        let directory = sample();
        let check = |name, stored: &[&str], expected: Requester| match try_bind(
            &directory,
            3,
            name,
            Authentication::Simple(b"secret"),
        ) {
            BindOutcome::Verify { verification: found, requester, account: None } => {
                let stored = stored.iter().map(|stored| stored.as_bytes().to_vec()).collect();
                let verification = Verification::new(stored, StorageScheme::Argon2id);
                assert!(found == verification, "{name:?}");
                assert_eq!(requester, expected, "{name:?}");
            }
            other => panic!("{name:?}: {other:?}"),
        };
        check("CN = Admin", &["{SSHA}admin"], Requester::Administrator { dn: "cn=admin".to_owned() });
        let ada = Requester::User { id: EntryId(2), dn: ADA.to_owned() };
        check("CN=Ada, dc=example,dc=com", &["{SSHA}one", "{SSHA}two"], ada);
        // For names that cannot bind, the verification has no stored password. It takes as long as any failed
        // verification.
        for name in ["cn=bob,dc=example,dc=com", SUFFIX, "dc=elsewhere", "nonsense=x", "cn=subschema"] {
            check(name, &[], Requester::Anonymous);
        }
    }

    #[test]
    fn a_bind_succeeds_only_after_a_genuine_verification() {
        let administrator = Requester::Administrator { dn: "cn=admin".to_owned() };
        let result = |verified, requester: &Requester| {
            let (outcome, requester) = bind_result(verified, requester.clone());
            (outcome.code, requester)
        };
        assert_eq!(result(true, &administrator), (ResultCode::SUCCESS, administrator.clone()));
        let refused = (ResultCode::INVALID_CREDENTIALS, Requester::Anonymous);
        assert_eq!(result(false, &administrator), refused);
        assert_eq!(result(true, &Requester::Anonymous), refused);
    }
}
