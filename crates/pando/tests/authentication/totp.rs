//! Time-based one-time codes after passwords (RFC 6238), with clients that do not support codes.

use std::time::{SystemTime, UNIX_EPOCH};

use directory::password::totp::{secret_of, secret_text};
use hmac::{Hmac, KeyInit as _, Mac as _};
use ldap::{Authentication, BindRequest, ChangeOperation, Controls, Request, ResultCode, Scope};
use sha1::Sha1;
use test_support::clients::{run, unboundid_jar_tool};
use test_support::pando::{Start, command};
use test_support::tree::{bind, person_dn, plant, plant_policy, replace, set_password};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

const WRONG: ResultCode = ResultCode::INVALID_CREDENTIALS;

/// Returns the present time step. A test reads it once, at its beginning.
pub(crate) fn present() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 30
}

/// Returns the code of a time step, as a device computes it (RFC 4226 section 5.3).
pub(crate) fn code(secret: &[u8], step: u64) -> String {
    let mac = Hmac::<Sha1>::new_from_slice(secret).unwrap().chain_update(step.to_be_bytes());
    let digest = mac.finalize().into_bytes();
    let start = usize::from(digest[19] & 0xf);
    let number = u32::from_be_bytes(digest[start..start + 4].try_into().unwrap()) & 0x7fff_ffff;
    format!("{:06}", number % 1_000_000)
}

/// Starts a server with anna and bert, and a policy that requires codes.
fn start(scratch: &Scratch) -> Pando {
    let pando = Pando::start(scratch);
    let mut administrator = pando.administrator();
    plant(&mut administrator);
    let policy = [
        ("objectClass", "pandoPwdPolicy"),
        ("pandoPwdTotp", "TRUE"),
        ("pandoPwdAppPasswords", "2"),
        ("pandoPwdScramMechanism", "CRAM-MD5"),
        ("pwdLockout", "TRUE"),
        ("pwdMaxFailure", "5"),
    ];
    plant_policy(&mut administrator, &policy);
    replace(&mut administrator, "cn=config", "pandoSaslMechanism", &["PLAIN", "CRAM-MD5"]);
    for name in ["anna", "bert"] {
        let secret = format!("{name}-secret");
        set_password(&mut administrator, name, &secret);
    }
    pando
}

#[test]
fn a_code_is_valid_after_the_password_and_once() {
    let scratch = Scratch::new("totp");
    let pando = start(&scratch);
    let (anna, data) = (person_dn("anna"), Pando::data(&scratch));
    assert_eq!(bind(&pando, "anna", "anna-secret"), ResultCode::SUCCESS, "without a secret");
    let said = command(&["account", "totp", &anna], Some(&data)).expect_code(0);
    let text = said.stdout.lines().next().unwrap().to_owned();
    said.expect_output(&format!(
        "otpauth://totp/Pando:uid%3Danna%2Cou%3Dpeople%2Cdc%3Dexample%2Cdc%3Dcom?secret={text}"
    ));
    let secret = secret_of(text.as_bytes()).unwrap();
    let step = present();
    let with = |step| format!("anna-secret{}", code(&secret, step));
    assert_eq!(bind(&pando, "anna", "anna-secret"), WRONG);
    assert_eq!(bind(&pando, "anna", &code(&secret, step)), WRONG);
    assert_eq!(bind(&pando, "anna", &with(step - 10)), WRONG);
    assert_eq!(bind(&pando, "anna", &with(step)), ResultCode::SUCCESS);
    // A used code is refused, even if the server is killed directly after the answer.
    assert_eq!(bind(&pando, "anna", &with(step)), WRONG);
    pando.kill();
    let pando = Start::bare(&scratch, "data").arguments(&["--admin-dn", ADMIN_DN]).ready();
    assert_eq!(bind(&pando, "anna", &with(step)), WRONG);
    assert_eq!(bind(&pando, "anna", &with(step - 1)), WRONG, "older than the last");
    // If several connections, and other programs, use the same code at the same time, only one succeeds.
    let url = format!("ldap://{}", pando.address());
    let next = with(step + 1);
    let mut connections: Vec<_> = (0..4).map(|_| pando.connect()).collect();
    let asked: Vec<_> = connections
        .iter_mut()
        .map(|connection| {
            let authentication = Authentication::Simple(next.as_bytes());
            let request = Request::Bind(BindRequest { version: 3, name: &anna, authentication });
            connection.send(request, Controls::NONE).unwrap()
        })
        .collect();
    let answers = connections.iter_mut().zip(asked);
    let binds: Vec<ResultCode> =
        answers.map(|(connection, id)| connection.reply(id).unwrap().outcome.code).collect();
    assert_eq!(binds.iter().filter(|code| **code == ResultCode::SUCCESS).count(), 1, "{binds:?}");
    command(&["account", "unlock", &anna], Some(&data)).expect_code(0);
    // A mechanism that proves only the password is not enough.
    let cram = ["-Q", "-O", "none", "-H", &url, "-Y", "CRAM-MD5", "-U", "anna", "-w", "anna-secret"];
    run("ldapwhoami", &cram, "").expect_code(49);
    let cram = ["-Q", "-O", "none", "-H", &url, "-Y", "CRAM-MD5", "-U", "bert", "-w", "bert-secret"];
    run("ldapwhoami", &cram, "").expect_code(0);
    assert_eq!(bind(&pando, "bert", "bert-secret"), ResultCode::SUCCESS);
    command(&["account", "totp", "--remove", &anna], Some(&data)).expect_code(0);
    assert_eq!(bind(&pando, "anna", "anna-secret"), ResultCode::SUCCESS);
}

/// The clocks of the server and of a device may differ by as much as the policy permits.
#[test]
fn the_policy_says_how_far_clocks_may_differ() {
    let scratch = Scratch::new("totp-window");
    let pando = start(&scratch);
    let (anna, data, policy) = (person_dn("anna"), Pando::data(&scratch), format!("cn=policy,{SUFFIX}"));
    let text = command(&["account", "totp", &anna], Some(&data)).expect_code(0).stdout;
    let secret = secret_of(text.lines().next().unwrap().as_bytes()).unwrap();
    let mut administrator = pando.administrator();
    let mut window = |value: &str| {
        let set: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "pandoPwdTotpWindow", &[value])];
        administrator.modify(&policy, set).unwrap().code
    };
    assert_eq!(window("11"), ResultCode::CONSTRAINT_VIOLATION);
    let with = |step| format!("anna-secret{}", code(&secret, step));
    let step = present();
    assert_eq!(bind(&pando, "anna", &with(step - 5)), WRONG);
    assert_eq!(window("6"), ResultCode::SUCCESS);
    assert_eq!(bind(&pando, "anna", &with(step - 5)), ResultCode::SUCCESS);
    assert_eq!(bind(&pando, "anna", &with(step - 5)), WRONG, "used");
    assert_eq!(bind(&pando, "anna", &with(step + 5)), ResultCode::SUCCESS);
    assert_eq!(bind(&pando, "anna", &with(step)), WRONG, "older than one that was used");
}

/// Programs that do not support codes use separate application passwords.
#[test]
fn applications_have_passwords_of_their_own() {
    let scratch = Scratch::new("totp-apps");
    let pando = start(&scratch);
    let (anna, data) = (person_dn("anna"), Pando::data(&scratch));
    let account = |arguments: &[&str]| command(&[&["account"], arguments].concat(), Some(&data));
    account(&["totp", &anna]).expect_code(0);
    let add = |name: &str, more: &[&str]| {
        let said = account(&[&["app-add"], more, &[&anna[..], name]].concat()).expect_code(0).stdout;
        said.trim().to_owned()
    };
    let before = pando.administrator().entry(&anna, &["pwdChangedTime", "userPassword"]).unwrap().unwrap();
    let mail = add("mail", &[]);
    let scan = add("scanner", &["--days", "30"]);
    account(&["app-add", &anna, "third"]).expect_code(1).expect_error("no more application passwords");
    account(&["app-add", &anna, "Wrong Name"]).expect_code(1).expect_error("a-z");
    assert!(mail.len() == 20 && mail != scan);
    assert_eq!(bind(&pando, "anna", "anna-secret"), WRONG, "that needs a code");
    for password in [&mail, &scan] {
        assert_eq!(bind(&pando, "anna", password), ResultCode::SUCCESS);
    }
    assert_eq!(bind(&pando, "bert", &mail), WRONG);
    // The user's own password and the time of its last change are as before.
    let after = pando.administrator().entry(&anna, &["pwdChangedTime", "userPassword"]).unwrap().unwrap();
    assert_eq!(before.values("userPassword"), after.values("userPassword"));
    assert_eq!(before.values("pwdChangedTime"), after.values("pwdChangedTime"));
    // The recorded times of last use survive a restart.
    assert!(pando.stop().success());
    let pando = Start::bare(&scratch, "data").arguments(&["--admin-dn", ADMIN_DN]).ready();
    let listed = account(&["app-list", &anna]).expect_code(0);
    let used = |name: &str| {
        let line = listed.stdout.lines().find(|line| line.starts_with(name)).unwrap();
        line.contains("used 2") && !line.contains("never")
    };
    assert!(used("mail") && used("scanner"), "{listed}");
    assert!(!listed.stdout.contains("SSHA512"), "{listed}");
    // An expired application password and a removed one are refused.
    let past: &[(_, &str, &[&str])] =
        &[(ChangeOperation::Replace, "pwdEndTime;x-app-scanner", &["20200101000000Z"])];
    assert!(pando.administrator().modify(&anna, past).unwrap().is_success());
    assert_eq!(bind(&pando, "anna", &scan), WRONG);
    // A locked account is locked for all of its passwords.
    account(&["lock", &anna]).expect_code(0);
    assert_eq!(bind(&pando, "anna", &mail), WRONG);
    account(&["unlock", &anna]).expect_code(0);
    assert_eq!(bind(&pando, "anna", &mail), ResultCode::SUCCESS);
    account(&["app-remove", &anna, "mail"]).expect_code(0);
    assert_eq!(bind(&pando, "anna", &mail), WRONG);
    // Users cannot add application passwords directly. The server stores no application password with a slow hash or in
    // clear.
    let set = |connection: &mut client::Connection, dn: &str, value: &str| {
        let add: &[(_, &str, &[&str])] = &[(ChangeOperation::Add, "userPassword;x-app-own", &[value])];
        connection.modify(dn, add).unwrap().code
    };
    let mut bert = pando.connect();
    assert!(bert.bind(&person_dn("bert"), "bert-secret").unwrap().is_success());
    let hashed = "{SSHA}/vUKeMoEpCv9DPX1HjgVWcQpT3BhbHQx";
    assert_eq!(set(&mut bert, &person_dn("bert"), hashed), ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
    let mut administrator = pando.administrator();
    assert_eq!(set(&mut administrator, &anna, "in clear"), ResultCode::CONSTRAINT_VIOLATION);
    assert_eq!(set(&mut administrator, &anna, hashed), ResultCode::SUCCESS);
    account(&["show", &anna]).expect_code(0).expect_output("own: SSHA");
    // If another user resets the password of the account, all application passwords are removed.
    account(&["app-remove", &anna, "own"]).expect_code(0);
    let mail = add("mail", &[]);
    assert_eq!(bind(&pando, "anna", &mail), ResultCode::SUCCESS);
    account(&["reset", &anna]).expect_code(0);
    assert_eq!(bind(&pando, "anna", &mail), WRONG);
    assert!(!account(&["show", &anna]).expect_code(0).stdout.contains("application"));
}

/// Regression test: a userPassword value with an unknown option was accepted by binds, and no reset removed it.
#[test]
fn passwords_with_unknown_options_are_refused() {
    let scratch = Scratch::new("totp-options");
    let pando = start(&scratch);
    let bert = person_dn("bert");
    let mut own = pando.connect();
    assert!(own.bind(&bert, "bert-secret").unwrap().is_success());
    for description in ["userPassword;x-anything", "2.5.4.35;lang-de", "userpassword;X-App-a;x-b"] {
        for operation in [ChangeOperation::Add, ChangeOperation::Replace] {
            let set: &[(_, &str, &[&str])] = &[(operation, description, &["beside"])];
            assert_eq!(
                own.modify(&bert, set).unwrap().code,
                ResultCode::CONSTRAINT_VIOLATION,
                "{description}"
            );
        }
    }
    assert_eq!(bind(&pando, "bert", "beside"), WRONG);
}

#[test]
fn the_secret_is_never_returned() {
    let scratch = Scratch::new("totp-secret");
    let pando = start(&scratch);
    let bert = person_dn("bert");
    let text = secret_text(b"12345678901234567890");
    let port = pando.address().port().to_string();
    let arguments = [
        "add-totp-shared-secret",
        "--hostname",
        "127.0.0.1",
        "--port",
        &port,
        "--bindDN",
        ADMIN_DN,
        "--bindPassword",
        ADMIN_PASSWORD,
        "--targetDN",
        &bert,
        "--operationValue",
        &text,
    ];
    let added = unboundid_jar_tool("unboundidds.tools.ManageAccount", &arguments, "").expect_code(0);
    added.expect_output("result-code: 0");
    assert_eq!(bind(&pando, "bert", "bert-secret"), WRONG, "it holds");
    let mut administrator = pando.administrator();
    let entry = administrator.entry(&bert, &["*", "+", "pandoTotpSecret", "userPassword"]).unwrap().unwrap();
    assert!(entry.values("pandoTotpSecret").is_empty() && !entry.values("userPassword").is_empty());
    for filter in [&format!("(pandoTotpSecret={text})"), "(pandoTotpSecret=*)", "(!(pandoTotpSecret=*))"] {
        let found = administrator.search(SUFFIX, Scope::WholeSubtree, filter, &["cn"]).unwrap();
        assert!(found.entries.is_empty(), "{filter}");
    }
    let compared = administrator.compare(&bert, "pandoTotpSecret", &text).unwrap();
    assert_eq!(compared.code, ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
    assert!(!pando.log().contains(&text));
    // A missing secret and one that is too short are refused.
    let short = secret_text(b"123456789");
    let arguments = arguments.map(|argument| if argument == text { short.as_str() } else { argument });
    let refused = unboundid_jar_tool("unboundidds.tools.ManageAccount", &arguments, "");
    refused.expect_output("result-code: 19");
}
