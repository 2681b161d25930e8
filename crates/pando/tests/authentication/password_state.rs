//! The state of accounts, for their administrators: the Password Policy State operation and the account usability
//! control, with UnboundID's clients and our own.

use client::Connection;
use ldap::oids::{ACCOUNT_USABILITY, PASSWORD_STATE};
use ldap::state_operation::{ADD_FAILURE, CLEAR_FAILURES, SET_DISABLED, SET_LAST_LOGIN, SET_RESET};
use ldap::{
    AccountUsability, ChangeOperation, Control, ControlsBuf, FilterBuf, Request, Response, ResultCode, Scope,
    SearchRequest, SelectionBuf, StateOperation, Unusable, encode_password_state,
};
use test_support::clients::{Run, unboundid_jar_tool, unboundid_tool};
use test_support::tree::{bind, person_dn, plant, plant_policy, replace};
use test_support::{Pando, SUFFIX, Scratch};

/// Starts a server with anna and bert under this policy.
fn start(scratch: &Scratch, policy: &[(&str, &str)]) -> Pando {
    let pando = Pando::start(scratch);
    let mut administrator = pando.administrator();
    plant(&mut administrator);
    plant_policy(&mut administrator, &[&[("objectClass", "pandoPwdPolicy")], policy].concat());
    replace(&mut administrator, "cn=config", "pandoPasswordScheme", &["ssha512"]);
    pando
}

/// Runs UnboundID's manage-account for a person.
fn manage(pando: &Pando, name: &str, what: &[&str]) -> Run {
    let (command, rest) = what.split_first().unwrap();
    let dn = person_dn(name);
    let arguments = [&["--targetDN", &dn][..], rest].concat();
    let port = pando.address().port().to_string();
    let bound = ["--hostname", "127.0.0.1", "--port", &port, "--bindDN", test_support::ADMIN_DN];
    let all =
        [&[*command][..], &bound, &["--bindPassword", test_support::ADMIN_PASSWORD], &arguments].concat();
    unboundid_jar_tool("unboundidds.tools.ManageAccount", &all, "")
}

#[test]
fn unboundid_manages_accounts() {
    let scratch = Scratch::new("state-unboundid");
    let policy =
        [("pwdLockout", "TRUE"), ("pwdMaxFailure", "2"), ("pwdMaxAge", "1000000"), ("pwdInHistory", "3")];
    let pando = start(&scratch, &policy);
    assert_eq!(bind(&pando, "anna", "anna-secret"), ResultCode::SUCCESS);
    manage(&pando, "anna", &["set-account-is-disabled", "--operationValue", "true"]).expect_code(0);
    assert_eq!(bind(&pando, "anna", "anna-secret"), ResultCode::INVALID_CREDENTIALS);
    let all = manage(&pando, "anna", &["get-all"]).expect_code(0).stdout.to_lowercase();
    for part in [&format!("cn=policy,{SUFFIX}")[..], "account-is-disabled: true", "account-is-usable: false"]
    {
        assert!(all.contains(part), "{part} is not in {all}");
    }
    manage(&pando, "anna", &["clear-account-is-disabled"]).expect_code(0);
    assert_eq!(bind(&pando, "anna", "anna-secret"), ResultCode::SUCCESS);
    // Failures lock the account, and can be cleared.
    for _ in 0..2 {
        assert_eq!(bind(&pando, "bert", "wrong"), ResultCode::INVALID_CREDENTIALS);
    }
    manage(&pando, "bert", &["get-account-is-failure-locked"]).expect_code(0).expect_output("true");
    manage(&pando, "bert", &["clear-authentication-failure-times"]).expect_code(0);
    assert_eq!(bind(&pando, "bert", "bert-secret"), ResultCode::SUCCESS);
    let long_ago = "20010203040506.000Z";
    manage(&pando, "bert", &["set-password-changed-time", "--operationValue", long_ago]).expect_code(0);
    manage(&pando, "bert", &["get-password-is-expired"]).expect_code(0).expect_output("true");
    assert_eq!(bind(&pando, "bert", "bert-secret"), ResultCode::INVALID_CREDENTIALS);
}

/// Sends operations on the state of an account. Returns the operations in the answer.
fn state(
    connection: &mut Connection,
    user: &str,
    operations: &[StateOperation<&[u8]>],
) -> Result<Vec<(u32, Vec<String>)>, ResultCode> {
    let value = encode_password_state(user, operations);
    let reply = connection.extended(PASSWORD_STATE, Some(&value)).unwrap();
    if !reply.outcome.is_success() {
        return Err(reply.outcome.code);
    }
    let answer = ldap::StateRequest::decode(reply.extended.value.as_deref()).unwrap();
    assert_eq!(answer.user, user);
    let text = |value: &&[u8]| String::from_utf8(value.to_vec()).unwrap();
    Ok(answer.operations.iter().map(|of| (of.kind, of.values.iter().map(text).collect())).collect())
}

fn operation<'a>(kind: u32, values: &[&'a str]) -> StateOperation<&'a [u8]> {
    StateOperation { kind, values: values.iter().map(|value| value.as_bytes()).collect() }
}

/// The time of the last bind is written minutes later, or when the server stops. Until it is written, the time in
/// memory applies, unless an administrator sets another time.
#[test]
fn the_last_bind_time_applies_before_it_is_written() {
    let scratch = Scratch::new("state-waits");
    let pando = start(&scratch, &[("pandoPwdLastSuccess", "TRUE"), ("pandoPwdLastSuccessPrecision", "3600")]);
    let mut administrator = pando.administrator();
    let (anna, bert) = (person_dn("anna"), person_dn("bert"));
    let long_ago = "20010101000000Z";
    let idle = [operation(SET_LAST_LOGIN, &[long_ago])];
    for (name, dn) in [("anna", &anna), ("bert", &bert)] {
        state(&mut administrator, dn, &idle).unwrap();
        assert_eq!(bind(&pando, name, &format!("{name}-secret")), ResultCode::SUCCESS);
    }
    // A user who has just bound is not idle, although the time is not recorded yet.
    let policy = format!("cn=policy,{SUFFIX}");
    let max: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "pwdMaxIdle", &["1000000"])];
    assert!(administrator.modify(&policy, max).unwrap().is_success());
    let last = |connection: &mut Connection, dn: &str| {
        connection.entry(dn, &["pwdLastSuccess"]).unwrap().unwrap().text("pwdLastSuccess").unwrap()
    };
    assert_eq!(last(&mut administrator, &anna), long_ago);
    assert_eq!(bind(&pando, "anna", "anna-secret"), ResultCode::SUCCESS);
    assert_eq!(bind(&pando, "bert", "bert-secret"), ResultCode::SUCCESS);
    // A time that an administrator sets replaces the time that waits to be written.
    let other = "20010101000001Z";
    state(&mut administrator, &bert, &[operation(SET_LAST_LOGIN, &[other])]).unwrap();
    assert_eq!(bind(&pando, "bert", "bert-secret"), ResultCode::INVALID_CREDENTIALS);
    pando.stop();
    let pando = Pando::start(&scratch);
    let mut administrator = pando.administrator();
    assert!(last(&mut administrator, &anna).as_str() > "2010");
    assert_eq!(last(&mut administrator, &bert), other);
    assert_eq!(bind(&pando, "anna", "anna-secret"), ResultCode::SUCCESS);
    assert_eq!(bind(&pando, "bert", "bert-secret"), ResultCode::INVALID_CREDENTIALS);
}

#[test]
fn the_administrator_sets_recorded_account_state() {
    let scratch = Scratch::new("state-set");
    let pando = start(&scratch, &[("pwdLockout", "TRUE"), ("pwdMaxFailure", "3"), ("pwdMaxIdle", "1000000")]);
    let mut administrator = pando.administrator();
    let anna = person_dn("anna");
    let times = ["20260101000000Z", "20260101000001Z", "20260101000002Z"];
    // The third failure locks the account. The answer contains the new values.
    let set = [operation(ADD_FAILURE, &times[..2]), operation(ADD_FAILURE, &times[2..]), operation(61, &[])];
    let answer = state(&mut administrator, &anna, &set).unwrap();
    let exact = times.map(|time| time.replace('Z', ".000000Z")).to_vec();
    assert_eq!(answer, [(16, exact), (61, vec![times[2].to_owned()])]);
    assert_eq!(bind(&pando, "anna", "anna-secret"), ResultCode::INVALID_CREDENTIALS);
    let entry = administrator.entry(&anna, &["pwdAccountLockedTime", "modifiersName"]).unwrap().unwrap();
    assert_eq!(entry.text("pwdAccountLockedTime").as_deref(), Some(times[2]));
    let cleared = state(&mut administrator, &anna, &[operation(CLEAR_FAILURES, &[])]).unwrap();
    assert_eq!(cleared, [(16, Vec::new())]);
    assert_eq!(bind(&pando, "anna", "anna-secret"), ResultCode::SUCCESS);
    // A bind is answered before its time is recorded, so wait for the time.
    while administrator.entry(&anna, &["pwdLastSuccess"]).unwrap().unwrap().text("pwdLastSuccess").is_none() {
    }
    // An idle account cannot bind. If one operation of a request is refused, no operation of the request has an effect.
    let idle = [operation(SET_LAST_LOGIN, &["20010101000000Z"]), operation(55, &[])];
    let answer = state(&mut administrator, &anna, &idle).unwrap();
    assert_eq!(answer[1], (55, vec!["false".to_owned()]));
    assert_eq!(bind(&pando, "anna", "anna-secret"), ResultCode::INVALID_CREDENTIALS);
    let wrong = [operation(SET_LAST_LOGIN, &[]), operation(SET_DISABLED, &["perhaps"])];
    assert_eq!(state(&mut administrator, &anna, &wrong), Err(ResultCode::CONSTRAINT_VIOLATION));
    assert_eq!(bind(&pando, "anna", "anna-secret"), ResultCode::INVALID_CREDENTIALS);
    let unknown = [operation(SET_LAST_LOGIN, &[]), operation(72, &["x"])];
    assert_eq!(state(&mut administrator, &anna, &unknown), Err(ResultCode::UNWILLING_TO_PERFORM));
    assert_eq!(state(&mut administrator, "cn=ghost", &[]), Err(ResultCode::NO_SUCH_OBJECT));
    let reply = administrator.extended(PASSWORD_STATE, Some(b"nonsense")).unwrap();
    assert_eq!(reply.outcome.code, ResultCode::PROTOCOL_ERROR);
    // Without a policy, an operation that would have no effect is refused.
    let none: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "pandoPasswordPolicy", &[])];
    assert!(administrator.modify("cn=config", none).unwrap().is_success());
    let reset = [operation(SET_RESET, &["true"])];
    assert_eq!(state(&mut administrator, &anna, &reset), Err(ResultCode::UNWILLING_TO_PERFORM));
    assert!(state(&mut administrator, &anna, &[]).is_ok());
}

/// Regression test: Password Policy State reported an account without a policy as locked, although its binds succeeded.
#[test]
fn restrictions_of_an_administrator_hold_without_a_policy() {
    let scratch = Scratch::new("state-restrictions");
    let pando = start(&scratch, &[]);
    let mut administrator = pando.administrator();
    let none: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "pandoPasswordPolicy", &[])];
    assert!(administrator.modify("cn=config", none).unwrap().is_success());
    let anna = person_dn("anna");
    let (past, future) = ("20010101000000Z", "29990101000000Z");
    for (attribute, value, is_usable) in [
        ("pwdAccountLockedTime", "000001010000Z", false),
        // The policy determines how long a lock by wrong passwords lasts. Without a policy, the lock has no effect.
        ("pwdAccountLockedTime", past, true),
        ("pwdStartTime", future, false),
        ("pwdStartTime", past, true),
        ("pwdEndTime", past, false),
        ("pwdEndTime", future, true),
    ] {
        let set: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, attribute, &[value])];
        assert!(administrator.modify(&anna, set).unwrap().is_success(), "{attribute} {value}");
        let usable = state(&mut administrator, &anna, &[operation(55, &[])]).unwrap();
        assert_eq!(usable, [(55, vec![is_usable.to_string()])], "{attribute} {value}");
        let code = if is_usable { ResultCode::SUCCESS } else { ResultCode::INVALID_CREDENTIALS };
        assert_eq!(bind(&pando, "anna", "anna-secret"), code, "{attribute} {value}");
        let clear: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, attribute, &[])];
        assert!(administrator.modify(&anna, clear).unwrap().is_success());
    }
    for (what, code) in [("lock", ResultCode::INVALID_CREDENTIALS), ("unlock", ResultCode::SUCCESS)] {
        test_support::pando::command(&["account", what, &anna], Some(&Pando::data(&scratch))).expect_code(0);
        assert_eq!(bind(&pando, "anna", "anna-secret"), code);
    }
}

/// Without access rules, only the administrator may use the operation. With rules, requesters who may read and write
/// the attributes may use it.
#[test]
fn access_rules_let_users_manage_other_accounts() {
    let scratch = Scratch::new("state-rights");
    let pando = start(&scratch, &[("pwdLockout", "TRUE"), ("pwdMaxFailure", "3")]);
    let (anna, bert) = (person_dn("anna"), person_dn("bert"));
    let as_anna = || {
        let mut connection = pando.connect();
        assert!(connection.bind(&anna, "anna-secret").unwrap().is_success());
        connection
    };
    let disable = [operation(SET_DISABLED, &["true"])];
    for asked in [&[][..], &disable] {
        assert_eq!(state(&mut as_anna(), &bert, asked), Err(ResultCode::INSUFFICIENT_ACCESS_RIGHTS));
        assert_eq!(state(&mut as_anna(), "cn=ghost", asked), Err(ResultCode::INSUFFICIENT_ACCESS_RIGHTS));
        assert_eq!(state(&mut pando.connect(), &bert, asked), Err(ResultCode::STRONGER_AUTH_REQUIRED));
    }
    let rules = [
        "look: allow read of pwdAccountLockedTime to authenticated".to_owned(),
        format!("desk: allow write of pwdAccountLockedTime to user '{anna}'"),
    ];
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let set: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "pandoAccessRule", &rules)];
    let outcome = pando.administrator().modify("cn=config", set).unwrap();
    assert!(outcome.is_success(), "{outcome:?}");
    assert_eq!(state(&mut as_anna(), &bert, &disable).unwrap(), [(1, vec!["true".to_owned()])]);
    let told = state(&mut as_anna(), &bert, &[]).unwrap();
    assert!(told.iter().any(|(kind, _)| *kind == 54) && told.iter().all(|(kind, _)| *kind != 8), "{told:?}");
    assert_eq!(
        state(&mut as_anna(), &bert, &[operation(8, &[])]),
        Err(ResultCode::INSUFFICIENT_ACCESS_RIGHTS)
    );
    let enable = [operation(SET_DISABLED, &["false"])];
    assert!(state(&mut as_anna(), &bert, &enable).is_ok());
    let mut as_bert = pando.connect();
    assert!(as_bert.bind(&bert, "bert-secret").unwrap().is_success());
    assert_eq!(state(&mut as_bert, &anna, &disable), Err(ResultCode::INSUFFICIENT_ACCESS_RIGHTS));
}

/// Returns the account usability control of each entry that a search finds.
fn usability(connection: &mut Connection, filter: &str) -> Vec<(String, Option<AccountUsability>)> {
    let control = Control { oid: ACCOUNT_USABILITY, critical: true, value: None };
    let controls: ControlsBuf = [control].into_iter().collect();
    let (filter, selection) = (FilterBuf::parse(filter).unwrap(), SelectionBuf::from_iter(["cn"]));
    let request =
        SearchRequest::new(SUFFIX, Scope::WholeSubtree, filter.as_filter(), selection.as_selection());
    let id = connection.send(Request::Search(request), controls.as_controls()).unwrap();
    let mut told = Vec::new();
    loop {
        let message = connection.receive_any().unwrap();
        let message = message.message();
        assert_eq!(message.id, id);
        match message.response {
            Response::SearchEntry(entry) => {
                let control = message.controls.find(ACCOUNT_USABILITY);
                let value = control.map(|control| AccountUsability::decode(control.value.unwrap()).unwrap());
                told.push((entry.object_name.to_owned(), value));
            }
            _ => return told,
        }
    }
}

#[test]
fn searches_return_whether_an_account_can_bind() {
    let scratch = Scratch::new("state-usability");
    let pando = start(&scratch, &[("pwdMaxAge", "1000000"), ("pwdLockout", "TRUE"), ("pwdMaxFailure", "3")]);
    let mut administrator = pando.administrator();
    let disable = [operation(SET_DISABLED, &["true"])];
    assert!(state(&mut administrator, &person_dn("bert"), &disable).is_ok());
    let told = usability(&mut administrator, "(|(uid=*)(cn=staff))");
    let inactive = AccountUsability::Unusable(Unusable { is_inactive: true, ..Unusable::default() });
    let expected = [
        // Anna's password was set before there was a policy.
        (person_dn("anna"), Some(AccountUsability::Usable(None))),
        (person_dn("bert"), Some(inactive)),
        (format!("cn=staff,ou=groups,{SUFFIX}"), None),
    ];
    assert_eq!(told, expected);
    let set: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "userPassword", &["another"])];
    assert!(administrator.modify(&person_dn("anna"), set).unwrap().is_success());
    let told = usability(&mut administrator, "(uid=anna)");
    assert!(matches!(told[..], [(_, Some(AccountUsability::Usable(Some(999_000..=1_000_000))))]), "{told:?}");
    let arguments = ["--accountUsable", "--baseDN", SUFFIX, "--scope", "sub", "(uid=bert)", "cn"];
    let found =
        unboundid_tool("unboundidds.tools.LDAPSearch", pando.address(), &arguments, "").expect_code(0);
    let said = format!("{found}").to_lowercase();
    assert!(said.contains("is usable:  false") && said.contains("inactive"), "{said}");
    // A requester who may not read the lock does not get the control.
    let rules: &[(_, &str, &[&str])] =
        &[(ChangeOperation::Replace, "pandoAccessRule", &["names: allow read of cn, uid to authenticated"])];
    assert!(administrator.modify("cn=config", rules).unwrap().is_success());
    let mut anna = pando.connect();
    assert!(anna.bind(&person_dn("anna"), "another").unwrap().is_success());
    assert_eq!(usability(&mut anna, "(uid=bert)"), [(person_dn("bert"), None)]);
}
