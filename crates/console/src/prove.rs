//! Binds with which a user signs in: by a password, by the certificate of the browser, or by a token from a mail.
//!
//! If the name is a DN, a simple bind is used. Otherwise a bind with SASL PLAIN is used, and the server finds the user
//! by its setting `identity_attributes`. An unknown name receives the same answer as a wrong password, after the same
//! time.

use axum::http::StatusCode;
use client::{Connection, Reply};
use ldap::{
    Authentication, BindRequest, Control, ControlsBuf, Dn, OwnCredentials, PolicyError, PolicyWarning,
    Request, ResultCode, oids,
};
use zeroize::Zeroizing;

use crate::page_error::PageError;
use crate::requests::policy_of;

/// Key of the lines in an answer that contain privileges of the user.
pub(crate) const USE: &str = "use";

/// SASL mechanism of a bind with a token that was sent by mail. The server accepts this mechanism only from the
/// console.
const MAIL_TOKEN: &str = "PANDO-MAIL-TOKEN";

/// The result of a successful bind.
pub(crate) struct SuccessfulBind {
    /// The connection on which the bind was made.
    pub(crate) connection: Connection,
    /// DN of the user.
    pub(crate) who: String,
    /// entryUUID of the user. `None` if the user has no entry, cannot read it, or must change the password first.
    pub(crate) entry_uuid: Option<String>,
    /// Whether the user must change the password before any other operation.
    pub(crate) must_change: bool,
    /// Whether the user can read `cn=monitor`.
    pub(crate) manages: bool,
    /// Whether the user can read the audit trail but not `cn=monitor`.
    pub(crate) audits: bool,
    /// Warning of the password policy, if there is one.
    pub(crate) warning: Option<PolicyWarning>,
}

/// Binds with a password, and reads the identity and the privileges of the user. Blocks.
pub(crate) fn bind(
    mut connection: Connection,
    name: &str,
    password: &str,
) -> Result<SuccessfulBind, PageError> {
    let plain = Zeroizing::new(format!("\0{name}\0{password}"));
    let is_dn = name.contains('=') && Dn::parse(name).is_ok();
    let (dn, authentication) = if is_dn {
        (name, Authentication::Simple(password.as_bytes()))
    } else {
        ("", Authentication::Sasl { mechanism: "PLAIN", credentials: Some(plain.as_bytes()) })
    };
    let reply = sent(&mut connection, BindRequest { version: 3, name: dn, authentication })?;
    if reply.outcome.code == ResultCode::INVALID_CREDENTIALS {
        // Details are shown only if a password policy returned them.
        let error = policy_of(&reply).and_then(|policy| policy.error);
        return Err(match error {
            Some(_) => PageError::Refused(reply.outcome, error),
            None => PageError::Request(StatusCode::UNAUTHORIZED, "sign_in.wrong"),
        });
    }
    proven(connection, &reply, name)
}

/// Binds with SASL EXTERNAL as the entry to which the subject of the browser's certificate belongs. Blocks.
pub(crate) fn bind_with_certificate(
    mut connection: Connection,
    subject: &str,
) -> Result<SuccessfulBind, PageError> {
    let authentication = Authentication::Sasl { mechanism: "EXTERNAL", credentials: None };
    let reply = sent(&mut connection, BindRequest { version: 3, name: "", authentication })?;
    proven(connection, &reply, subject)
}

fn sent(connection: &mut Connection, request: BindRequest<'_>) -> Result<Reply, PageError> {
    let requested = [oids::PASSWORD_POLICY, oids::AUTHORIZATION_IDENTITY_REQUEST];
    let controls = ControlsBuf::from_iter(requested.map(|oid| Control { oid, critical: false, value: None }));
    Ok(connection.request(Request::Bind(request), controls.as_controls())?)
}

/// Returns the result of a successful bind. If the server does not report the identity, the user is `name`.
fn proven(mut connection: Connection, reply: &Reply, name: &str) -> Result<SuccessfulBind, PageError> {
    let policy = policy_of(reply);
    PageError::unless_success(reply.outcome.clone(), policy)?;
    let who = identity_of(reply).unwrap_or_else(|| name.to_owned());
    let policy = policy.unwrap_or_default();
    let must_change = policy.error == Some(PolicyError::ChangeAfterReset);
    let uses = if must_change { Vec::new() } else { uses(&mut connection)? };
    let own = if must_change { None } else { connection.entry(&who, &["entryUUID"])? };
    let entry_uuid = own.and_then(|own| own.text("entryUUID"));
    let may_use = |name: &str| uses.iter().any(|allowed| allowed == name);
    let (manages, audits) = (may_use("monitor"), may_use("read-audit") && !may_use("monitor"));
    let warning = policy.warning;
    Ok(SuccessfulBind { connection, who, entry_uuid, must_change, manages, audits, warning })
}

/// Binds with the token from a link that the server sent by mail. Blocks.
pub(crate) fn bind_by_token(mut connection: Connection, token: &str) -> Result<SuccessfulBind, PageError> {
    let authentication = Authentication::Sasl { mechanism: MAIL_TOKEN, credentials: Some(token.as_bytes()) };
    let oid = oids::AUTHORIZATION_IDENTITY_REQUEST;
    let controls = ControlsBuf::from_iter([Control { oid, critical: false, value: None }]);
    let request = Request::Bind(BindRequest { version: 3, name: "", authentication });
    let reply = connection.request(request, controls.as_controls())?;
    if reply.outcome.code == ResultCode::INVALID_CREDENTIALS {
        return Err(PageError::Request(StatusCode::UNAUTHORIZED, "new_password.wrong"));
    }
    PageError::unless_success(reply.outcome.clone(), None)?;
    let who = identity_of(&reply).unwrap_or_default();
    Ok(SuccessfulBind {
        connection,
        who,
        entry_uuid: None,
        must_change: true,
        manages: false,
        audits: false,
        warning: None,
    })
}

/// Returns the privileges of the user. The privileges are read from the server and not determined by attempts, because
/// each refused attempt would appear in the audit trail. Blocks.
///
/// # Errors
/// The directory does not answer.
fn uses(connection: &mut Connection) -> Result<Vec<String>, PageError> {
    let value = OwnCredentials::Read.encode();
    let value = connection.extended(oids::OWN_CREDENTIALS, Some(&value))?.extended.value.unwrap_or_default();
    let lines = String::from_utf8_lossy(&value);
    let pairs = lines.lines().filter_map(|line| line.split_once('\t'));
    Ok(pairs.filter(|(key, _)| *key == USE).map(|(_, name)| name.to_owned()).collect())
}

/// Returns the DN in the authorization identity that the answer to a bind contains (RFC 3829).
fn identity_of(reply: &Reply) -> Option<String> {
    let control = reply.last.as_ref()?.message().controls.find(oids::AUTHORIZATION_IDENTITY_RESPONSE)?;
    let identity = std::str::from_utf8(control.value?).ok()?;
    Some(identity.strip_prefix("dn:").unwrap_or(identity).to_owned()).filter(|dn| !dn.is_empty())
}
