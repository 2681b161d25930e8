//! Password policies (draft-behera-ldap-password-policy), as clients see them.
//!
//! The clock is not changed. Instead, events in the past are imported with their times.

use client::{Connection, Entry};
use ldap::oids::{
    MODIFY_PASSWORD, PASSWORD_EXPIRED, PASSWORD_EXPIRING, PASSWORD_POLICY, PROXIED_AUTHORIZATION,
};
use ldap::{
    Authentication, BindRequest, ChangeOperation, ChangesBuf, CompareRequest, Control, ControlsBuf,
    ExtendedRequest, ModifyRequest, PasswordModify, PolicyError, PolicyResponse, PolicyWarning, Request,
    ResultCode, Scope,
};
use test_support::clients::{run, unboundid_jar_tool};
use test_support::pando::{Start, command};
use test_support::tree::person_dn;
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

const POLICY: &str = "cn=default,ou=policies,dc=example,dc=com";
const LONG_AGO: &str = "20200101000000Z";

/// Returns LDIF of a tree with this default policy and these people. Each person has the password `NAME-secret` and the
/// given further attributes.
fn ldif(policy: &str, people: &[(&str, &str)]) -> String {
    let mut text = format!(
        "dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n\
         dn: ou=people,{SUFFIX}\nobjectClass: organizationalUnit\nou: people\n\n\
         dn: ou=policies,{SUFFIX}\nobjectClass: organizationalUnit\nou: policies\n\n\
         dn: {POLICY}\nobjectClass: device\nobjectClass: pandoPwdPolicy\ncn: default\npwdAttribute: userPassword\n\
         {policy}\n\n"
    );
    for (name, more) in people {
        text += &format!(
            "dn: {}\nobjectClass: inetOrgPerson\nuid: {name}\ncn: {name}\nsn: {name}\n\
             userPassword: {name}-secret\n{more}\n\n",
            person_dn(name)
        );
    }
    text
}

/// Starts a server with the tree that [`ldif`] returns. The policy is the default policy, and the hashes are quick to
/// verify.
fn start(scratch: &Scratch, policy: &str, people: &[(&str, &str)]) -> Pando {
    let settings =
        format!("suffixes = [\"{SUFFIX}\"]\npassword_scheme = \"ssha\"\npassword_policy = \"{POLICY}\"\n");
    let settings = scratch.write("settings.toml", settings);
    let file = scratch.write("tree.ldif", ldif(policy, people));
    let data = Pando::data(scratch);
    command(&["apply", settings.to_str().unwrap()], Some(&data)).expect_code(0);
    command(&["import", file.to_str().unwrap()], Some(&data)).expect_code(0);
    restart(scratch)
}

fn restart(scratch: &Scratch) -> Pando {
    Start::bare(scratch, "data").arguments(&["--admin-dn", ADMIN_DN]).ready()
}

fn policy_control() -> ControlsBuf {
    [Control { oid: PASSWORD_POLICY, critical: false, value: None }].into_iter().collect()
}

/// Sends a request with the password policy control. Returns the result and the response control.
fn ask(connection: &mut Connection, request: Request<'_>) -> (ResultCode, PolicyResponse) {
    let reply = connection.request(request, policy_control().as_controls()).unwrap();
    let message = reply.last.as_ref().unwrap().message();
    let control = message.controls.find(PASSWORD_POLICY);
    let response = control.map(|control| PolicyResponse::decode(control.value.unwrap()).unwrap());
    (reply.outcome.code, response.unwrap_or_default())
}

fn bind_request<'a>(dn: &'a str, password: &'a str) -> Request<'a> {
    let authentication = Authentication::Simple(password.as_bytes());
    Request::Bind(BindRequest { version: 3, name: dn, authentication })
}

fn bind(pando: &Pando, name: &str, password: &str) -> (ResultCode, PolicyResponse) {
    ask(&mut pando.connect(), bind_request(&person_dn(name), password))
}

fn plain_result(code: ResultCode) -> (ResultCode, PolicyResponse) {
    (code, PolicyResponse::default())
}

fn result_with_warning(warning: PolicyWarning) -> (ResultCode, PolicyResponse) {
    (ResultCode::SUCCESS, PolicyResponse { warning: Some(warning), error: None })
}

fn result_with_error(code: ResultCode, error: PolicyError) -> (ResultCode, PolicyResponse) {
    (code, PolicyResponse::error(error))
}

fn state(pando: &Pando, name: &str) -> Entry {
    pando.administrator().entry(&person_dn(name), &["*", "+"]).unwrap().unwrap()
}

/// Sets a password by replacing it.
fn replace(connection: &mut Connection, name: &str, new: &str) -> (ResultCode, PolicyResponse) {
    let mut changes = ChangesBuf::new();
    changes.push(ChangeOperation::Replace, "userPassword", [new]);
    let dn = person_dn(name);
    ask(connection, Request::Modify(ModifyRequest { object: &dn, changes: changes.as_changes() }))
}

const OK: ResultCode = ResultCode::SUCCESS;
const WRONG: ResultCode = ResultCode::INVALID_CREDENTIALS;

#[test]
fn passwords_expire_with_warnings_and_grace_logins() {
    let scratch = Scratch::new("policy-age");
    let policy = "pwdMaxAge: 2000000000\npwdExpireWarning: 1999999999\npwdGraceAuthNLimit: 2";
    let old = "pwdChangedTime: 19000101000000Z";
    let recent = format!("pwdChangedTime: {LONG_AGO}");
    let people = [("anna", old), ("bert", recent.as_str()), ("cora", "")];
    let pando = start(&scratch, policy, &people);
    // A password that was never changed under a policy does not expire (section 5.3.2).
    assert_eq!(bind(&pando, "cora", "cora-secret"), plain_result(OK));
    let (code, response) = bind(&pando, "bert", "bert-secret");
    let Some(PolicyWarning::TimeBeforeExpiration(seconds)) = response.warning else { panic!("{response:?}") };
    assert!(code == OK && seconds > 1_000_000_000, "{seconds}");
    // The policy permits two grace logins. The second comes after a kill, so the first must have been durable before it
    // was answered.
    assert_eq!(bind(&pando, "anna", "wrong"), plain_result(WRONG));
    assert_eq!(bind(&pando, "anna", "anna-secret"), result_with_warning(PolicyWarning::GraceLeft(1)));
    pando.kill();
    let pando = restart(&scratch);
    assert_eq!(bind(&pando, "anna", "anna-secret"), result_with_warning(PolicyWarning::GraceLeft(0)));
    let expired = result_with_error(WRONG, PolicyError::PasswordExpired);
    assert_eq!(bind(&pando, "anna", "anna-secret"), expired);
    assert_eq!(state(&pando, "anna").values("pwdGraceUseTime").len(), 2);
    // A client without the control gets only the controls of draft-vchu-ldap-pwd-policy.
    let mut plain = pando.connect();
    let reply = plain.request(bind_request(&person_dn("anna"), "anna-secret"), ldap::Controls::NONE).unwrap();
    let message = reply.last.as_ref().unwrap().message();
    assert!(message.controls.find(PASSWORD_POLICY).is_none());
    assert_eq!(message.controls.find(PASSWORD_EXPIRED).unwrap().value, Some(&b"0"[..]));
    let reply = plain.request(bind_request(&person_dn("bert"), "bert-secret"), ldap::Controls::NONE).unwrap();
    let expiring = reply.last.as_ref().unwrap().message().controls.find(PASSWORD_EXPIRING);
    assert!(expiring.unwrap().value.unwrap().iter().all(u8::is_ascii_digit));
    // A new password has not expired, and its change removes the recorded grace logins.
    assert_eq!(replace(&mut pando.administrator(), "anna", "another"), plain_result(OK));
    assert_eq!(bind(&pando, "anna", "another"), plain_result(OK));
    assert!(state(&pando, "anna").values("pwdGraceUseTime").is_empty());
}

#[test]
fn failures_lock_the_account_durably() {
    let scratch = Scratch::new("policy-lock");
    let policy = "pwdLockout: TRUE\npwdMaxFailure: 3\npandoPwdTellLock: TRUE";
    let permanent = "pwdAccountLockedTime: 000001010000Z";
    let ended = format!("pwdEndTime: {LONG_AGO}");
    let people = [("anna", ""), ("bert", ""), ("cora", permanent), ("dora", ended.as_str())];
    let pando = start(&scratch, policy, &people);
    let locked = result_with_error(WRONG, PolicyError::AccountLocked);
    // A successful bind in between resets the failures.
    for _ in 0..2 {
        assert_eq!(bind(&pando, "anna", "wrong"), plain_result(WRONG));
        assert_eq!(bind(&pando, "anna", "wrong"), plain_result(WRONG));
        assert_eq!(bind(&pando, "anna", "anna-secret"), plain_result(OK));
    }
    // A compare counts as an attempt too (section 8.1).
    let mut administrator = pando.administrator();
    let dn = person_dn("anna");
    for _ in 0..3 {
        let compare = CompareRequest { entry: &dn, description: "userPassword", value: b"wrong" };
        let (code, _) = ask(&mut administrator, Request::Compare(compare));
        assert_eq!(code, ResultCode::COMPARE_FALSE);
    }
    assert_eq!(bind(&pando, "anna", "anna-secret"), locked);
    let compare = CompareRequest { entry: &dn, description: "userPassword", value: b"anna-secret" };
    let told = ask(&mut administrator, Request::Compare(compare));
    assert_eq!(told, result_with_error(ResultCode::COMPARE_FALSE, PolicyError::AccountLocked));
    // The lock was durable before the third answer.
    pando.kill();
    let pando = restart(&scratch);
    assert_eq!(bind(&pando, "anna", "anna-secret"), locked);
    assert!(state(&pando, "anna").text("pwdAccountLockedTime").unwrap().ends_with('Z'));
    // The administrator unlocks the account in the same way as with OpenLDAP, or by setting a new password.
    let unlock: &[(_, &str, &[&str])] = &[(ChangeOperation::Delete, "pwdAccountLockedTime", &[])];
    assert!(pando.administrator().modify(&person_dn("anna"), unlock).unwrap().is_success());
    assert_eq!(bind(&pando, "anna", "anna-secret"), plain_result(OK));
    assert_eq!(replace(&mut pando.administrator(), "anna", "new"), plain_result(OK));
    assert_eq!(bind(&pando, "anna", "new"), plain_result(OK));
    assert!(state(&pando, "anna").values("pwdFailureTime").is_empty());
    // Cora is locked permanently, and the end time of dora's account has passed.
    assert_eq!(bind(&pando, "cora", "cora-secret"), locked);
    assert_eq!(bind(&pando, "dora", "dora-secret"), locked);
    assert_eq!(bind(&pando, "bert", "bert-secret"), plain_result(OK), "others are not touched");
    let logged = format!("the account of {:?} is locked: ", person_dn("anna"));
    assert!(pando.log().contains(&logged), "{}", pando.log());
}

/// Guesses that are sent at the same time lock the account as consecutive guesses do.
#[test]
fn concurrent_guesses_do_not_evade_the_lock() {
    let scratch = Scratch::new("policy-parallel");
    // Slow hashes make sure that the guesses are verified at the same time.
    let policy = "pwdLockout: TRUE\npwdMaxFailure: 3\npandoPwdScheme: argon2id";
    let pando = start(&scratch, policy, &[("anna", "")]);
    assert_eq!(replace(&mut pando.administrator(), "anna", "right"), plain_result(OK));
    let dn = person_dn("anna");
    let mut guessers: Vec<(Connection, ldap::MessageId)> = Vec::new();
    for guess in (0..12).map(|number| format!("guess{number}")).chain(["right".to_owned()]) {
        let mut connection = pando.connect();
        let id = connection.send(bind_request(&dn, &guess), ldap::Controls::NONE).unwrap();
        guessers.push((connection, id));
    }
    for (mut connection, id) in guessers {
        assert_eq!(connection.reply(id).unwrap().outcome.code, WRONG);
    }
    assert_eq!(bind(&pando, "anna", "right"), plain_result(WRONG));
    assert!(state(&pando, "anna").text("pwdAccountLockedTime").is_some());
}

#[test]
fn a_reset_password_must_be_changed_before_other_requests() {
    let scratch = Scratch::new("policy-reset");
    let pando = start(&scratch, "pwdMustChange: TRUE\npwdMinAge: 3600", &[("anna", "")]);
    assert_eq!(replace(&mut pando.administrator(), "anna", "given"), plain_result(OK));
    assert_eq!(state(&pando, "anna").text("pwdReset").as_deref(), Some("TRUE"));
    let mut own = pando.connect();
    let must_change = result_with_error(OK, PolicyError::ChangeAfterReset);
    assert_eq!(ask(&mut own, bind_request(&person_dn("anna"), "given")), must_change);
    let stopped = result_with_error(ResultCode::INSUFFICIENT_ACCESS_RIGHTS, PolicyError::ChangeAfterReset);
    let dn = person_dn("anna");
    let compare = CompareRequest { entry: &dn, description: "cn", value: b"anna" };
    assert_eq!(ask(&mut own, Request::Compare(compare)), stopped);
    let search = own.search(SUFFIX, Scope::WholeSubtree, "(uid=anna)", &[]).unwrap();
    assert_eq!(search.outcome.code, ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
    assert_eq!(own.extended("1.3.6.1.4.1.4203.1.11.3", None).unwrap().outcome.code, stopped.0);
    // A password that must be changed can be changed at any age.
    let change = PasswordModify {
        old_password: Some(b"given"),
        new_password: Some(b"chosen"),
        ..PasswordModify::default()
    };
    assert!(own.extended(MODIFY_PASSWORD, Some(&change.encode())).unwrap().outcome.is_success());
    assert!(own.compare(&dn, "cn", "anna").unwrap().code == ResultCode::COMPARE_TRUE);
    assert_eq!(state(&pando, "anna").text("pwdReset"), None);
    assert_eq!(bind(&pando, "anna", "chosen"), plain_result(OK));
    // From now on, the minimum age applies.
    let young = result_with_error(ResultCode::CONSTRAINT_VIOLATION, PolicyError::TooYoung);
    assert_eq!(replace(&mut own, "anna", "again"), young);
}

/// After a reset, a user could set the password of another user, and was then permitted all requests.
#[test]
fn only_the_change_of_the_own_password_ends_the_duty_to_change_it() {
    let scratch = Scratch::new("policy-reset-other");
    let pando = start(&scratch, "pwdMustChange: TRUE", &[("anna", ""), ("bert", "")]);
    let mut administrator = pando.administrator();
    let (anna, bert) = (person_dn("anna"), person_dn("bert"));
    let rules: &[&str] = &[
        "all: allow read to authenticated",
        "own: allow write of userPassword to self",
        &format!("desk: allow reset, proxy below 'ou=people,{SUFFIX}' to user '{anna}'"),
    ];
    let change: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "pandoAccessRule", rules)];
    assert!(administrator.modify("cn=config", change).unwrap().is_success());
    assert_eq!(replace(&mut administrator, "anna", "given"), plain_result(OK));
    let mut own = pando.connect();
    let must_change = result_with_error(OK, PolicyError::ChangeAfterReset);
    assert_eq!(ask(&mut own, bind_request(&anna, "given")), must_change);
    let stopped = result_with_error(ResultCode::INSUFFICIENT_ACCESS_RIGHTS, PolicyError::ChangeAfterReset);
    assert_eq!(replace(&mut own, "bert", "taken"), stopped);
    for identity in [bert.as_bytes(), b"u:bert"] {
        let (user_identity, new_password) = (Some(identity), Some(&b"taken"[..]));
        let change = PasswordModify { user_identity, new_password, ..PasswordModify::default() };
        let code = own.extended(MODIFY_PASSWORD, Some(&change.encode())).unwrap().outcome.code;
        assert_eq!(code, stopped.0);
    }
    // With the identity of another user, the request would set that user's password.
    let identity = format!("dn:{bert}");
    let proxied = Control { oid: PROXIED_AUTHORIZATION, critical: true, value: Some(identity.as_bytes()) };
    let change = PasswordModify { new_password: Some(b"taken"), ..PasswordModify::default() }.encode();
    let request = Request::Extended(ExtendedRequest { name: MODIFY_PASSWORD, value: Some(&change) });
    let reply = own.request(request, ControlsBuf::from_iter([proxied]).as_controls()).unwrap();
    assert_eq!(reply.outcome.code, stopped.0);
    assert_eq!(bind(&pando, "bert", "bert-secret"), plain_result(OK));
    let compare = CompareRequest { entry: &anna, description: "cn", value: b"anna" };
    assert_eq!(ask(&mut own, Request::Compare(compare)), stopped);
    let identity = Some(anna.as_bytes());
    let change = PasswordModify {
        user_identity: identity,
        new_password: Some(b"chosen"),
        ..PasswordModify::default()
    };
    assert!(own.extended(MODIFY_PASSWORD, Some(&change.encode())).unwrap().outcome.is_success());
    assert_eq!(ask(&mut own, Request::Compare(compare)), plain_result(ResultCode::COMPARE_TRUE));
    assert_eq!(replace(&mut own, "bert", "given"), plain_result(OK));
}

#[test]
fn new_passwords_are_checked_against_the_policy() {
    let scratch = Scratch::new("policy-quality");
    let policy = "pwdCheckQuality: 2\npwdMinLength: 5\npwdMaxLength: 12\npandoPwdMinClasses: 2\n\
                  pwdInHistory: 2\npwdSafeModify: TRUE";
    let pando = start(&scratch, policy, &[("anna", "")]);
    let mut administrator = pando.administrator();
    let mut check = |new: &str, error| {
        assert_eq!(
            replace(&mut administrator, "anna", new),
            result_with_error(ResultCode::CONSTRAINT_VIOLATION, error),
            "{new}"
        );
    };
    check("ab1", PolicyError::TooShort);
    check("ab1ab1ab1ab1ab1", PolicyError::TooLong);
    check("abcdefg", PolicyError::InsufficientQuality);
    check("{SSHA}AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", PolicyError::InsufficientQuality);
    check("anna-secret", PolicyError::InHistory);
    for new in ["first1", "second2", "third3"] {
        assert_eq!(replace(&mut administrator, "anna", new), plain_result(OK));
    }
    let mut check = |new: &str, error| {
        let found = replace(&mut administrator, "anna", new);
        assert_eq!(found, result_with_error(ResultCode::CONSTRAINT_VIOLATION, error), "{new}");
    };
    check("third3", PolicyError::InHistory);
    check("first1", PolicyError::InHistory);
    assert_eq!(replace(&mut administrator, "anna", "anna-secret"), plain_result(OK), "only two are kept");
    let entry = state(&pando, "anna");
    assert_eq!(entry.values("pwdHistory").len(), 2);
    assert!(!entry.texts("pwdHistory").iter().any(|value| value.contains("third3")), "hashed");
    // The password of an added entry is checked too.
    let mut add = |password: &str| {
        let attributes =
            [("objectClass", "person"), ("cn", "new"), ("sn", "new"), ("userPassword", password)];
        administrator.add(&format!("cn=new,{SUFFIX}"), &attributes).unwrap().code
    };
    assert_eq!(add("x"), ResultCode::CONSTRAINT_VIOLATION);
    assert_eq!(add("good1"), OK);
    // The user must send the old password.
    let mut own = pando.connect();
    assert!(own.bind(&person_dn("anna"), "anna-secret").unwrap().is_success());
    let without =
        result_with_error(ResultCode::INSUFFICIENT_ACCESS_RIGHTS, PolicyError::MustSupplyOldPassword);
    assert_eq!(replace(&mut own, "anna", "fourth4"), without);
    let with: &[(_, &str, &[&str])] = &[
        (ChangeOperation::Delete, "userPassword", &["anna-secret"]),
        (ChangeOperation::Add, "userPassword", &["fourth4"]),
    ];
    assert!(own.modify(&person_dn("anna"), with).unwrap().is_success());
    // Under a policy, an entry has only one password.
    let second: &[(_, &str, &[&str])] = &[(ChangeOperation::Add, "userPassword", &["fifth5"])];
    let outcome = administrator.modify(&person_dn("anna"), second).unwrap();
    assert_eq!(outcome.code, ResultCode::CONSTRAINT_VIOLATION);
}

#[test]
fn the_nearest_policy_governs() {
    let scratch = Scratch::new("policy-which");
    let pando = start(&scratch, "pwdMinLength: 3\npwdCheckQuality: 1", &[("anna", ""), ("bert", "")]);
    let mut administrator = pando.administrator();
    let too_short = result_with_error(ResultCode::CONSTRAINT_VIOLATION, PolicyError::TooShort);
    assert_eq!(replace(&mut administrator, "anna", "ab"), too_short);
    assert_eq!(replace(&mut administrator, "anna", "abc"), plain_result(OK));
    // A policy in a subentry governs the people below it.
    let subentry = [
        ("objectClass", "subentry"),
        ("objectClass", "pwdPolicy"),
        ("cn", "people"),
        ("pwdAttribute", "userPassword"),
        ("pwdCheckQuality", "1"),
        ("pwdMinLength", "6"),
        ("subtreeSpecification", "{ minimum 1 }"),
    ];
    let dn = format!("cn=people,ou=people,{SUFFIX}");
    assert!(administrator.add(&dn, &subentry).unwrap().is_success());
    assert_eq!(replace(&mut administrator, "anna", "abcd"), too_short);
    assert_eq!(replace(&mut administrator, "anna", "abcdef"), plain_result(OK));
    // A policy that an entry names governs that entry.
    let named = [
        ("objectClass", "device"),
        ("objectClass", "pwdPolicy"),
        ("cn", "strict"),
        ("pwdAttribute", "userPassword"),
        ("pwdCheckQuality", "1"),
        ("pwdMinLength", "9"),
    ];
    let strict = format!("cn=strict,ou=policies,{SUFFIX}");
    assert!(administrator.add(&strict, &named).unwrap().is_success());
    let name: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "pwdPolicySubentry", &[&strict])];
    assert!(administrator.modify(&person_dn("bert"), name).unwrap().is_success());
    assert_eq!(replace(&mut administrator, "bert", "abcdefg"), too_short);
    assert_eq!(replace(&mut administrator, "bert", "abcdefghi"), plain_result(OK));
    // A changed policy applies immediately, and a deleted policy no longer applies.
    let shorter: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "pwdMinLength", &["8"])];
    assert!(administrator.modify(&strict, shorter).unwrap().is_success());
    assert_eq!(replace(&mut administrator, "bert", "abcdefgh"), plain_result(OK));
    assert!(administrator.delete(&strict).unwrap().is_success());
    assert_eq!(replace(&mut administrator, "bert", "abcdeg"), plain_result(OK));
    assert!(administrator.delete(&dn).unwrap().is_success());
    assert_eq!(replace(&mut administrator, "bert", "abc"), plain_result(OK));
    // A policy that contradicts itself is refused.
    let wrong: &[(_, &str, &[&str])] = &[(ChangeOperation::Add, "pwdMaxLength", &["1"])];
    let outcome = administrator.modify(POLICY, wrong).unwrap();
    assert_eq!(outcome.code, ResultCode::CONSTRAINT_VIOLATION);
    assert!(outcome.diagnostic.contains("pwdMaxLength is less than pwdMinLength"), "{outcome:?}");
    // After a restart, the policies have the same effect.
    pando.stop();
    let pando = restart(&scratch);
    assert_eq!(replace(&mut pando.administrator(), "anna", "ab"), too_short);
}

#[test]
fn the_last_bind_is_recorded_and_idle_accounts_are_locked() {
    let scratch = Scratch::new("policy-last");
    let idle = format!("pwdLastSuccess: {LONG_AGO}");
    let people = [("anna", ""), ("bert", idle.as_str())];
    let pando = start(&scratch, "pandoPwdLastSuccess: TRUE\npandoPwdLastSuccessPrecision: 3600", &people);
    let before = state(&pando, "anna");
    assert_eq!(bind(&pando, "anna", "anna-secret"), plain_result(OK));
    assert_eq!(bind(&pando, "bert", "bert-secret"), plain_result(OK));
    pando.stop();
    let pando = restart(&scratch);
    let after = state(&pando, "anna");
    let last = after.text("pwdLastSuccess").unwrap();
    assert!(last.as_str() > LONG_AGO && state(&pando, "bert").text("pwdLastSuccess").unwrap() >= last);
    for kept in ["modifyTimestamp", "entryCSN", "modifiersName"] {
        assert_eq!(before.texts(kept), after.texts(kept), "{kept}");
    }
    // Within the configured precision, the time is recorded only once.
    for _ in 0..5 {
        assert_eq!(bind(&pando, "anna", "anna-secret"), plain_result(OK));
    }
    pando.stop();
    let pando = restart(&scratch);
    assert_eq!(state(&pando, "anna").text("pwdLastSuccess").unwrap(), last);
    let idle: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "pwdMaxIdle", &["1000000"])];
    assert!(pando.administrator().modify(POLICY, idle).unwrap().is_success());
    assert_eq!(bind(&pando, "anna", "anna-secret"), plain_result(OK));
    // Start with a last bind in the past, which only an import can set.
    drop(pando);
    let scratch = Scratch::new("policy-idle");
    let pando = start(&scratch, "pwdMaxIdle: 1000000", &[("anna", &format!("pwdLastSuccess: {LONG_AGO}"))]);
    assert_eq!(bind(&pando, "anna", "anna-secret"), plain_result(WRONG));
}

#[test]
fn a_good_bind_makes_a_weak_hash_strong() {
    let scratch = Scratch::new("policy-rehash");
    let pando = start(&scratch, "pandoPwdScheme: pbkdf2-sha256", &[("anna", "")]);
    let before = state(&pando, "anna");
    assert!(before.text("userPassword").unwrap().starts_with("{SSHA512}"), "as it was imported: {before:?}");
    assert_eq!(bind(&pando, "anna", "wrong"), plain_result(WRONG));
    assert_eq!(bind(&pando, "anna", "anna-secret"), plain_result(OK));
    pando.stop();
    let pando = restart(&scratch);
    let after = state(&pando, "anna");
    assert!(after.text("userPassword").unwrap().starts_with("{PBKDF2-SHA256}"), "{after:?}");
    for kept in ["modifyTimestamp", "entryCSN", "pwdChangedTime"] {
        assert_eq!(before.texts(kept), after.texts(kept), "{kept}");
    }
    assert_eq!(bind(&pando, "anna", "wrong"), plain_result(WRONG));
    assert_eq!(bind(&pando, "anna", "anna-secret"), plain_result(OK));
}

#[test]
fn other_clients_decode_policy_responses() {
    let scratch = Scratch::new("policy-clients");
    let policy = "pwdMaxAge: 100\npwdGraceAuthNLimit: 5";
    let old = format!("pwdChangedTime: {LONG_AGO}");
    let pando = start(&scratch, policy, &[("anna", &old)]);
    let url = format!("ldap://{}", pando.address());
    let anna = person_dn("anna");
    let arguments = ["-x", "-H", &url, "-D", &anna, "-w", "anna-secret", "-e", "ppolicy"];
    let who = run("ldapwhoami", &arguments, "").expect_code(0);
    assert!(who.stderr.contains("Password expired, 4 grace logins remain"), "{who}");
    let port = pando.address().port().to_string();
    let arguments = [
        "--hostname",
        "127.0.0.1",
        "--port",
        &port,
        "--bindDN",
        &anna,
        "--bindPassword",
        "anna-secret",
        "--usePasswordPolicyControl",
        "--baseDN",
        &anna,
        "--scope",
        "base",
        "(objectClass=*)",
        "cn",
    ];
    let tool = unboundid_jar_tool("unboundidds.tools.LDAPSearch", &arguments, "").expect_code(0);
    assert!(format!("{tool}").to_lowercase().contains("grace"), "{tool}");
    let arguments = ["-x", "-H", &url, "-D", ADMIN_DN, "-w", ADMIN_PASSWORD, "-s", "fresh", &anna];
    run("ldappasswd", &arguments, "").expect_code(0);
    let arguments = ["-x", "-H", &url, "-D", &anna, "-w", "fresh", "-e", "ppolicy"];
    run("ldapwhoami", &arguments, "").expect_code(0);
}

#[test]
fn administrators_look_at_accounts_from_the_command_line() {
    let scratch = Scratch::new("policy-account");
    let policy = "pwdLockout: TRUE\npwdMaxFailure: 2\npwdMustChange: TRUE";
    let pando = start(&scratch, policy, &[("anna", ""), ("bert", "")]);
    let data = Pando::data(&scratch);
    let anna = person_dn("anna");
    let account = |what: &str| command(&["account", what, "anna"], Some(&data)).expect_code(0);
    for _ in 0..2 {
        assert_eq!(bind(&pando, "anna", "wrong"), plain_result(WRONG));
    }
    let shown = account("show").expect_output("locked since").expect_output("wrong passwords");
    assert!(shown.stdout.contains("SSHA512") && !shown.stdout.contains("anna-secret"), "{shown}");
    account("unlock").expect_output("is unlocked");
    assert_eq!(bind(&pando, "anna", "anna-secret"), plain_result(OK));
    account("lock").expect_output("is locked");
    assert_eq!(bind(&pando, "anna", "anna-secret"), plain_result(WRONG));
    account("show").expect_output("for good");
    let made = account("reset").stdout;
    let must_change = result_with_error(OK, PolicyError::ChangeAfterReset);
    assert_eq!(bind(&pando, "anna", made.trim()), must_change);
    account("show").expect_output("has to be changed");
    let named: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "pwdPolicySubentry", &[POLICY])];
    assert!(pando.administrator().modify(&anna, named).unwrap().is_success());
    assert!(!account("show").stdout.contains("is no password policy"));
    let named: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "pwdPolicySubentry", &["cn=typo,o=x"])];
    assert!(pando.administrator().modify(&anna, named).unwrap().is_success());
    account("show").expect_output("cn=typo,o=x is no password policy");
    command(&["account", "report"], Some(&data))
        .expect_code(0)
        .expect_output("SSHA512                     1\n");
    command(&["account", "show", &anna], Some(&data)).expect_code(0);
    command(&["account", "show", "uid=ghost,dc=example,dc=com"], Some(&data)).expect_code(1);
    command(&["account", "show", "ghost"], Some(&data)).expect_code(1).expect_error("there is no user ghost");
}

/// The answer to a wrong password is delayed. Meanwhile, a right password is answered immediately.
#[test]
fn a_policy_delays_answers_to_wrong_passwords() {
    let scratch = Scratch::new("policy-delay");
    let pando = start(&scratch, "pwdMinDelay: 86400\npwdMaxDelay: 86400", &[("anna", "")]);
    let mut guesser = pando.connect();
    let id = guesser.send(bind_request(&person_dn("anna"), "wrong"), ldap::Controls::NONE).unwrap();
    assert_eq!(bind(&pando, "anna", "anna-secret"), plain_result(OK));
    guesser.set_timeout(std::time::Duration::from_millis(300)).unwrap();
    assert!(guesser.reply(id).is_err(), "a day has not passed");
}

#[test]
fn passwords_that_attackers_try_first_are_refused() {
    let scratch = Scratch::new("policy-lists");
    let policy = "pwdCheckQuality: 1\npandoPwdCheckLists: TRUE";
    drop(start(&scratch, policy, &[("anna", "")]));
    scratch.write("words.txt", "Letmein\nhunter2\n");
    // SHA-1 digests of "password" and "123456", in ascending order.
    let breached = "5BAA61E4C9B93F3F0682250B6CF8331B7EE68FD8:9545824\n\
                    7C4A8D09CA3762AF61E59520943DC26494F8941B:37359195\n";
    scratch.write("breached.txt", breached);
    let node = "[bad_passwords]\nwords = \"words.txt\"\nbreached = \"breached.txt\"\n";
    let node = scratch.write("node.toml", node);
    let pando = Start::bare(&scratch, "data")
        .arguments(&["--admin-dn", ADMIN_DN, "--node", node.to_str().unwrap()])
        .ready();
    let mut administrator = pando.administrator();
    let bad = result_with_error(ResultCode::CONSTRAINT_VIOLATION, PolicyError::InsufficientQuality);
    for password in ["LETMEIN", "hunter2", "123456", "password"] {
        assert_eq!(replace(&mut administrator, "anna", password), bad, "{password}");
    }
    assert_eq!(replace(&mut administrator, "anna", "hunter3"), plain_result(OK));
    drop(pando);
    std::fs::write(scratch.join("breached.txt"), "nonsense\n").unwrap();
    let (_, said) = Start::bare(&scratch, "data").arguments(&["--node", node.to_str().unwrap()]).refused();
    assert!(said.contains("breached.txt") && said.contains("40 hexadecimal digits"), "{said}");
}

/// Regression test: three wrong passwords within one second locked an account permanently. The lock is written in whole
/// seconds, and failures in the same second counted as failures after the lock.
#[test]
fn a_lock_ends_after_failures_within_one_second() {
    let scratch = Scratch::new("policy-lock-ends");
    let policy = "pwdLockout: TRUE\npwdMaxFailure: 3\npwdLockoutDuration: 1";
    let pando = start(&scratch, policy, &[("anna", "")]);
    for _ in 0..3 {
        assert_eq!(bind(&pando, "anna", "wrong"), plain_result(WRONG));
    }
    let since = std::time::Instant::now();
    assert!(state(&pando, "anna").text("pwdAccountLockedTime").is_some());
    while bind(&pando, "anna", "anna-secret") != plain_result(OK) {
        assert!(since.elapsed() < std::time::Duration::from_secs(60), "locked for one second");
    }
    wait_for_failures(&pando, 0);
    assert!(state(&pando, "anna").values("pwdAccountLockedTime").is_empty());
}

/// Regression test: with pwdInHistory, a change to a hashed password was always answered with busy. Now only the octets
/// of the hash are compared with the history, and pwdCheckQuality decides whether a hash is accepted.
#[test]
fn the_quality_check_decides_if_hashed_passwords_are_accepted() {
    const FIRST: &str = "{SSHA}yYfB0fXx0j8l9M4mUVmc2a3SLpVhYmNk";
    const SECOND: &str = "{SSHA}AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let scratch = Scratch::new("policy-hashed");
    let pando = start(&scratch, "pwdInHistory: 2", &[("anna", "")]);
    let mut administrator = pando.administrator();
    let in_history = result_with_error(ResultCode::CONSTRAINT_VIOLATION, PolicyError::InHistory);
    let quality = |value: &str| {
        let change: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "pwdCheckQuality", &[value])];
        assert!(pando.administrator().modify(POLICY, change).unwrap().is_success());
    };
    let mut set = |new: &str| replace(&mut administrator, "anna", new);
    assert_eq!(set(FIRST), plain_result(OK));
    assert_eq!(set(FIRST), plain_result(OK), "it is there already");
    quality("1");
    assert_eq!(set(SECOND), plain_result(OK));
    assert_eq!(set(FIRST), in_history);
    assert_eq!(set("anna-secret"), in_history, "one in clear is verified against hashed ones");
    assert_eq!(set("other"), plain_result(OK));
    quality("2");
    let unchecked = result_with_error(ResultCode::CONSTRAINT_VIOLATION, PolicyError::InsufficientQuality);
    assert_eq!(set("{SSHA}BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"), unchecked);
    assert_eq!(set("another"), plain_result(OK));
}

/// Sends anna's old password in a modify and in a Password Modify. Returns the two result codes.
fn change_with_old(connection: &mut Connection, old: &str, new: &str) -> [ResultCode; 2] {
    let dn = person_dn("anna");
    let mut changes = ChangesBuf::new();
    changes.push(ChangeOperation::Delete, "userPassword", [old]);
    changes.push(ChangeOperation::Add, "userPassword", [new]);
    let modify = Request::Modify(ModifyRequest { object: &dn, changes: changes.as_changes() });
    let (code, _) = ask(connection, modify);
    let change = PasswordModify {
        user_identity: Some(dn.as_bytes()),
        old_password: Some(old.as_bytes()),
        new_password: Some(new.as_bytes()),
    };
    [code, connection.extended(MODIFY_PASSWORD, Some(&change.encode())).unwrap().outcome.code]
}

/// Waits until this number of failures of anna is recorded. Failures that do not lock the account are written after
/// their answers.
fn wait_for_failures(pando: &Pando, count: usize) {
    let since = std::time::Instant::now();
    while state(pando, "anna").values("pwdFailureTime").len() != count {
        assert!(since.elapsed() < std::time::Duration::from_secs(60), "{:?}", state(pando, "anna"));
    }
}

/// Regression test: an unattended connection could be used to guess passwords, because wrong old passwords did not
/// count.
#[test]
fn a_wrong_old_password_counts_as_a_failed_bind() {
    const WRONG_OLD: [ResultCode; 2] = [ResultCode::NO_SUCH_ATTRIBUTE, WRONG];
    let scratch = Scratch::new("policy-old");
    let pando = start(&scratch, "pwdLockout: TRUE\npwdMaxFailure: 4", &[("anna", "")]);
    for scheme in ["ssha", "argon2id"] {
        let slow: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "pandoPwdScheme", &[scheme])];
        let mut administrator = pando.administrator();
        assert!(administrator.modify(POLICY, slow).unwrap().is_success());
        assert_eq!(replace(&mut administrator, "anna", "given"), plain_result(OK));
        let mut own = pando.connect();
        assert!(own.bind(&person_dn("anna"), "given").unwrap().is_success());
        assert_eq!(change_with_old(&mut own, "wrong", "new"), WRONG_OLD);
        wait_for_failures(&pando, 2);
        // The right old password resets the failures.
        let right: &[(_, &str, &[&str])] = &[
            (ChangeOperation::Delete, "userPassword", &["given"]),
            (ChangeOperation::Add, "userPassword", &["next"]),
        ];
        assert!(own.modify(&person_dn("anna"), right).unwrap().is_success());
        assert!(state(&pando, "anna").values("pwdFailureTime").is_empty());
        assert_eq!(change_with_old(&mut own, "wrong", "new"), WRONG_OLD);
        assert_eq!(change_with_old(&mut administrator, "wrong", "new"), WRONG_OLD, "for every client");
        assert!(state(&pando, "anna").text("pwdAccountLockedTime").is_some());
        // While the account is locked, no password is accepted.
        assert_eq!(change_with_old(&mut own, "next", "new"), WRONG_OLD);
        assert_eq!(bind(&pando, "anna", "next"), plain_result(WRONG));
        // An administrator sets another password without the old one.
        assert_eq!(replace(&mut administrator, "anna", "reset"), plain_result(OK));
        assert_eq!(bind(&pando, "anna", "reset"), plain_result(OK));
        // Two wrong passwords in one request count as two failures.
        let two: &[(_, &str, &[&str])] = &[(ChangeOperation::Delete, "userPassword", &["wrong", "wronger"])];
        assert_eq!(own.modify(&person_dn("anna"), two).unwrap().code, ResultCode::NO_SUCH_ATTRIBUTE);
        wait_for_failures(&pando, 2);
        // A wrong old password from a requester who may not change the password is not counted as a failure.
        let anonymous = change_with_old(&mut pando.connect(), "wrong", "new");
        assert_eq!(anonymous, [ResultCode::STRONGER_AUTH_REQUIRED; 2]);
        assert_eq!(state(&pando, "anna").values("pwdFailureTime").len(), 2);
    }
    assert!(pando.log().contains("is locked"), "{}", pando.log());
}

/// Parallel attempts with old passwords do not evade the lock.
#[test]
fn concurrent_tries_of_the_old_password_do_not_evade_the_lock() {
    let scratch = Scratch::new("policy-old-parallel");
    let policy = "pwdLockout: TRUE\npwdMaxFailure: 3\npandoPwdScheme: argon2id";
    let pando = start(&scratch, policy, &[("anna", "")]);
    assert_eq!(replace(&mut pando.administrator(), "anna", "right"), plain_result(OK));
    let mut own = pando.connect();
    assert!(own.bind(&person_dn("anna"), "right").unwrap().is_success());
    let guesses = (0..6).map(|number| format!("guess{number}")).chain(["right".to_owned()]);
    let ids: Vec<ldap::MessageId> = guesses
        .map(|guess| {
            let change = PasswordModify {
                old_password: Some(guess.as_bytes()),
                new_password: Some(b"mine"),
                ..PasswordModify::default()
            };
            let value = change.encode();
            let request = ldap::ExtendedRequest { name: MODIFY_PASSWORD, value: Some(&value) };
            own.send(Request::Extended(request), ldap::Controls::NONE).unwrap()
        })
        .collect();
    for id in ids {
        assert_eq!(own.reply(id).unwrap().outcome.code, WRONG);
    }
    assert_eq!(bind(&pando, "anna", "mine"), plain_result(WRONG));
    assert!(state(&pando, "anna").text("pwdAccountLockedTime").is_some());
}
