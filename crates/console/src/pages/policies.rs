//! Password policies: their rules, and the entries to which they apply.

use axum::response::Response;
use client::{Connection, Entry};
use ldap::{Control, ControlsBuf, Scope, filter_value, oids};
use serde_json::{Value, json};

use crate::page::{Page, SignedInRequest};
use crate::page_error::PageError;
use crate::requests;
use crate::times;

/// Maximum number of policies that the page shows.
const POLICIES_MAX: usize = 100;

/// Rules of a policy in the order of the page. There is a text for each rule.
const RULES: [&str; 29] = [
    "pwdMinLength",
    "pwdMaxLength",
    "pandoPwdMinClasses",
    "pwdCheckQuality",
    "pandoPwdCheckLists",
    "pwdInHistory",
    "pwdMaxAge",
    "pwdExpireWarning",
    "pwdGraceAuthNLimit",
    "pwdGraceExpire",
    "pwdMinAge",
    "pwdLockout",
    "pwdMaxFailure",
    "pwdLockoutDuration",
    "pwdFailureCountInterval",
    "pwdMinDelay",
    "pwdMaxDelay",
    "pwdMaxIdle",
    "pwdMustChange",
    "pwdAllowUserChange",
    "pwdSafeModify",
    "pandoPwdTellLock",
    "pandoPwdLastSuccess",
    "pandoPwdScheme",
    "pandoPwdScramMechanism",
    "pandoPwdTotp",
    "pandoPwdAppPasswords",
    "pandoPwdSelfService",
    "pandoPwdResetByMail",
];

/// Rules whose value is a number of seconds.
const SECONDS: [&str; 9] = [
    "pwdMaxAge",
    "pwdExpireWarning",
    "pwdGraceExpire",
    "pwdMinAge",
    "pwdLockoutDuration",
    "pwdFailureCountInterval",
    "pwdMinDelay",
    "pwdMaxDelay",
    "pwdMaxIdle",
];

pub(crate) async fn show(signed: SignedInRequest) -> Response {
    let model = signed.talk(model).await;
    signed.answer(model.map(|model| Page::new("policies.html", "policies.title", model)))
}

fn model(connection: &mut Connection) -> Result<Value, PageError> {
    // Only the administrator can read the settings. For other users, the page does not show which policy is the
    // default.
    let settings = connection.entry("cn=config", &["pandoPasswordPolicy"])?;
    let default = settings.and_then(|settings| settings.text("pandoPasswordPolicy"));
    let mut policies = Vec::new();
    for context in requests::contexts(connection)? {
        for is_subentry in [false, true] {
            policies.extend(
                find(connection, &context, is_subentry)?.into_iter().map(|entry| (entry, is_subentry)),
            );
        }
    }
    let is_default = |dn: &str| default.as_ref().is_some_and(|default| default.eq_ignore_ascii_case(dn));
    let shown = policies.iter().take(POLICIES_MAX).map(|(entry, is_subentry)| {
        json!({
            "dn": entry.dn,
            "name": entry.text("cn").unwrap_or_else(|| entry.dn.clone()),
            "is_default": is_default(&entry.dn),
            "subtree": entry.text("subtreeSpecification").filter(|_| *is_subentry),
            "named_by": format!("(pwdPolicySubentry={})", filter_value(&entry.dn)),
            "rules": rules(entry),
        })
    });
    Ok(json!({
        "policies": shown.collect::<Vec<_>>(),
        "default": default.filter(|default| !policies.iter().any(|(entry, _)| entry.dn.eq_ignore_ascii_case(default))),
    }))
}

/// Returns the policies below a suffix: only subentries if `is_subentry` is true, otherwise only ordinary entries.
fn find(connection: &mut Connection, base: &str, is_subentry: bool) -> Result<Vec<Entry>, PageError> {
    // Value of the subentries control (RFC 3672): the BER boolean TRUE.
    let value: Option<&[u8]> = Some(&[0x01, 0x01, 0xff]);
    let visible = Control { oid: oids::SUBENTRIES, critical: true, value };
    let controls = ControlsBuf::from_iter([visible].into_iter().filter(|_| is_subentry));
    let attributes: Vec<&str> = RULES.into_iter().chain(["cn", "subtreeSpecification"]).collect();
    let filter = "(objectClass=pwdPolicy)";
    let reply =
        connection.search_with(base, Scope::WholeSubtree, filter, &attributes, controls.as_controls())?;
    PageError::unless_success(reply.outcome, None)?;
    Ok(reply.entries)
}

/// Returns the rules of a policy. Durations are formatted for people.
pub(crate) fn rules(entry: &Entry) -> Vec<Value> {
    let rule = |name: &&str| {
        let value = entry.texts(name).join(", ");
        if value.is_empty() {
            return None;
        }
        let readable = match value.parse::<u64>() {
            Ok(0) if SECONDS.contains(name) => return None,
            Ok(seconds) if SECONDS.contains(name) => times::span(seconds),
            _ => value.clone(),
        };
        Some(json!({ "name": name, "value": value, "text": readable }))
    };
    RULES.iter().filter_map(rule).collect()
}

#[cfg(test)]
mod tests {
    use client::Attribute;

    use super::*;

    #[test]
    fn durations_have_units() {
        let attribute = |description: &str, value: &str| Attribute {
            description: description.to_owned(),
            values: vec![value.as_bytes().to_vec()],
        };
        let attributes = vec![
            attribute("pwdMaxAge", "31536000"),
            attribute("pwdMinAge", "0"),
            attribute("pwdMinLength", "12"),
        ];
        let found = rules(&Entry { dn: String::new(), attributes });
        let texts: Vec<_> = found.iter().map(|rule| rule["text"].as_str().unwrap()).collect();
        assert_eq!(texts, ["12", "365 d"]);
    }
}
