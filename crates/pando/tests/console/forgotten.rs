//! Forgotten passwords, which users can replace with a link in a mail.

use client::Connection;

use crate::smtp::{Mail, MailServer, MailServerSettings};
use crate::{plant_people, start};
use ldap::ResultCode as Code;
use test_support::http::Browser;
use test_support::tree::{add, add_person, bind, person_dn, plant_policy, replace};
use test_support::{ADMIN_DN, DEADLINE, Pando, SUFFIX, Scratch};

/// Starts a server that sends mail to `server`, with further keys in its `[mail]` table. The people in the directory
/// have mail addresses, and a policy with these attributes.
fn start_with_mail_server(
    scratch: &Scratch,
    mail_server: &MailServer,
    more: &str,
    rules: &[(&str, &str)],
    people: &[&str],
) -> (Pando, Connection) {
    let port = mail_server.address.port();
    let authorities = scratch.write("mail-authorities.pem", mail_server.certificate.clone());
    let pando = start(
        scratch,
        &format!(
            "[mail]\nserver = \"localhost:{port}\"\nsender = \"Directory <directory@example.com>\"\n\
             console_url = \"https://directory.example.com\"\nauthorities = {authorities:?}\n{more}"
        ),
    );
    let mut administrator = plant_people(&pando);
    let class = ("objectClass", "pandoPwdPolicy");
    plant_policy(&mut administrator, &[&[class, ("pandoPwdResetByMail", "TRUE")], rules].concat());
    for uid in people {
        add_person(&mut administrator, uid);
        replace(&mut administrator, &person_dn(uid), "mail", &[&format!("{uid}@example.com")]);
    }
    (pando, administrator)
}

/// Requests a link. Returns the status and text of the answer.
#[track_caller]
fn ask(pando: &Pando, name: &str) -> (u16, String) {
    let answer = Browser::new(pando).post_json("/forgotten-password", &[("name", name)]);
    (answer.status, answer.text())
}

/// Returns the token of the link in a mail.
#[track_caller]
fn token_of(mail: &Mail) -> String {
    let (_, rest) = mail.text.split_once("https://directory.example.com/new-password?token=").unwrap();
    let token = rest.split_whitespace().next().unwrap();
    assert_eq!(token.len(), 43, "256 bits: {token}");
    token.to_owned()
}

/// Opens a link. Returns the browser with its new session, or the status of a refusal.
fn open(pando: &Pando, token: &str) -> Result<Browser, u16> {
    let mut browser = Browser::new(pando);
    let answer = browser.post_json("/new-password", &[("token", token)]);
    if answer.status != 200 {
        assert!(answer.headers("set-cookie").is_empty());
        return Err(answer.status);
    }
    let model: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(model["must_change"], true);
    browser.cookie = answer.headers("set-cookie")[0].split(';').next().unwrap().to_owned();
    browser.token = model["token"].as_str().unwrap().to_owned();
    Ok(browser)
}

/// Sets a new password in a session that a link has opened. Returns the status and text of the answer.
fn set(browser: &Browser, new: &str) -> (u16, String) {
    let answer = browser.post_json("/password", &[("new", new), ("again", new)]);
    (answer.status, answer.text())
}

/// Waits until the log contains a text.
#[track_caller]
fn wait_for_log(pando: &Pando, text: &str) {
    let started = std::time::Instant::now();
    while !pando.log().contains(text) {
        assert!(started.elapsed() < DEADLINE, "no {text:?} in {}", pando.log());
        std::thread::yield_now();
    }
}

#[test]
fn a_mailed_link_sets_a_password_under_the_policy() {
    let (scratch, mail_server) = (Scratch::new("forgotten"), MailServer::start());
    let credentials = scratch.write("mail-credentials", "directory\nsecret of mail\n");
    let rules =
        [("pwdSafeModify", "TRUE"), ("pwdInHistory", "3"), ("pwdMinLength", "8"), ("pwdCheckQuality", "2")];
    let more = format!("credentials_file = {credentials:?}\n");
    let (pando, mut administrator) = start_with_mail_server(&scratch, &mail_server, &more, &rules, &["anna"]);
    let earlier = Browser::signed_in(&pando, "anna", "anna-secret");
    let sign_in = Browser::new(&pando).get("/sign-in").text();
    assert!(sign_in.contains("href=\"/forgotten-password\""), "{sign_in}");
    assert!(Browser::new(&pando).get("/forgotten-password").text().contains("name=\"name\""));

    assert_eq!(ask(&pando, "Anna@Example.com").0, 202);
    let mail = mail_server.next();
    assert!(mail.to.contains("anna@example.com") && mail.over_tls, "{mail:?}");
    assert_eq!(mail.credentials, "\0directory\0secret of mail");
    for part in ["From: Directory <directory@example.com>", "Auto-Submitted: auto-generated", "127.0.0.1"] {
        assert!(mail.text.contains(part), "{part}: {}", mail.text);
    }
    let token = token_of(&mail);
    // A program may inspect mails and open the link. That does not use up the link.
    for _ in 0..2 {
        let page = Browser::new(&pando).get(&format!("/new-password?token={token}"));
        assert!(page.status == 200 && page.text().contains(&token), "{}", page.text());
    }
    let browser = open(&pando, &token).unwrap();
    assert_eq!(open(&pando, &token).err(), Some(401), "a link is used once");
    assert_eq!(browser.get("/me").headers("location"), ["/password"]);
    assert!(!browser.get("/password").text().contains("id=\"old\""));
    let (status, text) = set(&browser, "short");
    assert!(status == 422 && text.contains("too short"), "{text}");
    let (_, text) = set(&browser, "anna-secret");
    assert!(text.contains("used before"), "{text}");
    assert_eq!(set(&browser, "another secret").0, 200);
    for ended in [&browser, &earlier] {
        assert_eq!(ended.get("/me").headers("location").len(), 1, "sessions end");
        assert!(ended.get("/me").headers("location")[0].starts_with("/sign-in"));
    }
    assert_eq!(bind(&pando, "anna", "another secret"), Code::SUCCESS);
    assert_eq!(bind(&pando, "anna", "anna-secret"), Code::INVALID_CREDENTIALS);
    let modifier = administrator.entry(&person_dn("anna"), &["modifiersName"]).unwrap().unwrap();
    assert_eq!(modifier.text("modifiersName").unwrap(), person_dn("anna"));
    wait_for_log(&pando, &format!("was sent to {}", person_dn("anna")));
    let log = pando.log();
    assert!(!log.contains(&token) && !log.contains("secret of mail"));
    assert!(pando.stop().success());
}

#[test]
fn answers_do_not_reveal_accounts() {
    let (scratch, mail_server) = (Scratch::new("forgotten-alike"), MailServer::start());
    let (pando, mut administrator) =
        start_with_mail_server(&scratch, &mail_server, "", &[], &["anna", "bert", "cleo", "dora"]);
    let strict = format!("cn=strict,{SUFFIX}");
    let attributes = [("objectClass", "device"), ("objectClass", "pwdPolicy"), ("cn", "strict")];
    add(&mut administrator, &strict, &[&attributes[..], &[("pwdAttribute", "userPassword")]].concat());
    replace(&mut administrator, &person_dn("bert"), "pwdPolicySubentry", &[&strict]);
    replace(&mut administrator, &person_dn("cleo"), "pwdAccountLockedTime", &["000001010000Z"]);
    replace(&mut administrator, "cn=config", "pandoMonitorReader", &[&person_dn("dora")]);
    let expected = ask(&pando, "no-such-user");
    assert_eq!(expected.0, 202);
    let too_long = "x".repeat(1_000);
    for name in ["bert", "bert@example.com", "cleo", "dora", ADMIN_DN, "*", "a)(uid=*", &too_long, "anna"] {
        assert_eq!(ask(&pando, name), expected, "{name}");
    }
    assert!(mail_server.next().to.contains("anna@example.com"));
    assert!(mail_server.is_empty(), "no other mail was sent before that one");
    assert_eq!(ask(&pando, "").0, 422);
    assert!(pando.stop().success());
}

#[test]
fn an_account_has_one_link_and_few_mails_an_hour() {
    let (scratch, mail_server) = (Scratch::new("forgotten-often"), MailServer::start());
    let (pando, _) = start_with_mail_server(&scratch, &mail_server, "", &[], &["anna", "bert"]);
    for name in ["anna", "anna", "anna@example.com", "anna", "bert"] {
        assert_eq!(ask(&pando, name).0, 202);
    }
    let mails: Vec<Mail> = (0..4).map(|_| mail_server.next()).collect();
    let receivers: Vec<bool> = mails.iter().map(|mail| mail.to.contains("anna@")).collect();
    assert_eq!(receivers, [true, true, true, false]);
    for earlier in &mails[..2] {
        assert_eq!(open(&pando, &token_of(earlier)).err(), Some(401));
    }
    open(&pando, &token_of(&mails[2])).unwrap();
    assert!(pando.log().contains("too many mails in an hour"));
    for _ in 5..20 {
        assert_eq!(ask(&pando, "no-such-user").0, 202);
    }
    for name in ["no-such-user", "bert"] {
        assert_eq!(ask(&pando, name).0, 429, "{name}");
    }
    assert!(pando.stop().success());
}

/// The reset ends a lock caused by wrong passwords, because anyone can cause such a lock. A lock by an administrator
/// prevents the reset.
#[test]
fn a_reset_does_not_end_a_lock_by_an_administrator() {
    let (scratch, mail_server) = (Scratch::new("forgotten-locked"), MailServer::start());
    let rules = [("pwdLockout", "TRUE"), ("pwdMaxFailure", "2")];
    let (pando, mut administrator) =
        start_with_mail_server(&scratch, &mail_server, "", &rules, &["anna", "bert"]);
    for uid in ["anna", "bert"] {
        for _ in 0..2 {
            assert_eq!(bind(&pando, uid, "wrong"), Code::INVALID_CREDENTIALS);
        }
        assert_eq!(bind(&pando, uid, &format!("{uid}-secret")), Code::INVALID_CREDENTIALS, "locked");
    }
    assert_eq!(ask(&pando, "anna").0, 202);
    let browser = open(&pando, &token_of(&mail_server.next())).unwrap();
    assert_eq!(set(&browser, "another secret").0, 200);
    assert_eq!(bind(&pando, "anna", "another secret"), Code::SUCCESS);

    let lock = ["000001010000Z"];
    assert_eq!(ask(&pando, "bert").0, 202);
    let token = token_of(&mail_server.next());
    replace(&mut administrator, &person_dn("bert"), "pwdAccountLockedTime", &lock);
    assert_eq!(open(&pando, &token).err(), Some(401), "locked after the mail was sent");

    assert_eq!(ask(&pando, "anna").0, 202);
    let browser = open(&pando, &token_of(&mail_server.next())).unwrap();
    replace(&mut administrator, &person_dn("anna"), "pwdAccountLockedTime", &lock);
    let (status, text) = set(&browser, "a third secret");
    assert!(status == 403 && text.contains("may not change"), "locked after the link was used: {text}");
    assert!(pando.stop().success());
}

#[test]
fn a_link_is_void_when_the_password_or_an_address_changes() {
    let (scratch, mail_server) = (Scratch::new("forgotten-void"), MailServer::start());
    let (pando, mut administrator) = start_with_mail_server(&scratch, &mail_server, "", &[], &["anna"]);
    for (attribute, value) in [("userPassword", "set by the help desk"), ("mail", "a.huber@example.com")] {
        assert_eq!(ask(&pando, "anna").0, 202);
        let token = token_of(&mail_server.next());
        replace(&mut administrator, &person_dn("anna"), attribute, &[value]);
        assert_eq!(open(&pando, &token).err(), Some(401), "{attribute}");
    }
    assert_eq!(ask(&pando, "anna").0, 202);
    open(&pando, &token_of(&mail_server.next())).unwrap();
    assert!(pando.stop().success());
}

#[test]
fn a_mail_is_sent_again_unless_the_server_refuses_it_for_good() {
    let (scratch, mail_server) = (Scratch::new("forgotten-again"), MailServer::start());
    let (pando, mut administrator) =
        start_with_mail_server(&scratch, &mail_server, "", &[], &["anna", "bert"]);
    mail_server.refusals.lock().unwrap().push_back("451 try later");
    assert_eq!(ask(&pando, "anna").0, 202);
    open(&pando, &token_of(&mail_server.next())).unwrap();
    assert!(pando.log().contains("is sent again later"));
    mail_server.refusals.lock().unwrap().push_back("550 no such mailbox");
    assert_eq!(ask(&pando, "bert").0, 202);
    wait_for_log(&pando, "could not be sent");
    for (name, count) in [("Requests", "2"), ("Sent", "1"), ("Failed", "1"), ("Links Used", "1")] {
        let figure = administrator.entry(&format!("cn={name},cn=Mail,cn=monitor"), &["monitorCounter"]);
        assert_eq!(figure.unwrap().unwrap().text("monitorCounter").unwrap(), count, "{name}");
    }
    let mut failing = || {
        let figure = administrator.entry("cn=Failing,cn=Mail,cn=monitor", &["monitoredInfo"]);
        figure.unwrap().unwrap().text("monitoredInfo").unwrap()
    };
    assert_eq!(failing(), "false", "the refusal was that of one mail");
    mail_server.refusals.lock().unwrap().push_back("535 wrong password");
    assert_eq!(ask(&pando, "bert").0, 202);
    wait_for_log(&pando, "535");
    assert_eq!(failing(), "true");
    assert!(pando.stop().success());
}

#[test]
fn a_mail_server_may_require_authentication() {
    let account = Some("\0directory\0secret of mail");
    for (tls, mechanism) in
        [("starttls", "PLAIN"), ("starttls", "LOGIN"), ("implicit", "PLAIN"), ("implicit", "LOGIN")]
    {
        let scratch = Scratch::new("forgotten-authenticated");
        let settings = MailServerSettings { implicit_tls: tls == "implicit", mechanism, account };
        let mail_server = MailServer::with(settings);
        let credentials = scratch.write("mail-credentials", "directory\nsecret of mail\n");
        let more = format!("tls = \"{tls}\"\ncredentials_file = {credentials:?}\n");
        let (pando, _) = start_with_mail_server(&scratch, &mail_server, &more, &[], &["anna"]);
        assert_eq!(ask(&pando, "anna").0, 202);
        let mail = mail_server.next();
        assert!(mail.over_tls && Some(mail.credentials.as_str()) == account, "{tls} {mechanism}: {mail:?}");
        open(&pando, &token_of(&mail)).unwrap();
        assert!(!pando.log().contains("secret of mail"));
        assert!(pando.stop().success());
    }
}

/// A mail server that refuses the mail does not change the answer to the user. The log has the reason, and the monitor
/// shows that mail fails.
#[test]
fn the_log_has_the_reason_why_a_mail_server_refuses_to_authenticate() {
    let account = Some("\0directory\0secret of mail");
    for (mechanism, content, reason) in [
        ("PLAIN", Some("directory\nsecret of old\n"), "535"),
        ("LOGIN", Some("directory\nsecret of old\n"), "user name or password is wrong"),
        ("PLAIN", None, "authentication is required"),
        ("GSSAPI", Some("directory\nsecret of mail\n"), "No compatible authentication mechanism"),
    ] {
        let scratch = Scratch::new("forgotten-unauthenticated");
        let mail_server = MailServer::with(MailServerSettings { implicit_tls: false, mechanism, account });
        let file = content.map(|content| scratch.write("mail-credentials", content));
        let more = file.map(|file| format!("credentials_file = {file:?}\n")).unwrap_or_default();
        let (pando, mut administrator) =
            start_with_mail_server(&scratch, &mail_server, &more, &[], &["anna"]);
        assert_eq!(ask(&pando, "anna").0, 202);
        wait_for_log(&pando, reason);
        let log = pando.log();
        let line = log.lines().find(|line| line.contains(reason)).unwrap();
        assert!(line.contains(&person_dn("anna")) && line.contains("the mail with a link"), "{line}");
        assert!(!log.contains("secret of"), "{log}");
        let figure = administrator.entry("cn=Failing,cn=Mail,cn=monitor", &["monitoredInfo"]);
        assert_eq!(figure.unwrap().unwrap().text("monitoredInfo").unwrap(), "true", "{mechanism}");
        assert!(mail_server.is_empty());
        assert!(pando.stop().success());
    }
}

#[test]
fn without_a_mail_server_there_is_no_page() {
    let scratch = Scratch::new("forgotten-off");
    let pando = start(&scratch, "");
    for path in ["/forgotten-password", "/new-password"] {
        assert_eq!(Browser::new(&pando).get(path).status, 404);
        assert_eq!(Browser::new(&pando).post(path, &[("name", "x"), ("token", "x")]).status, 404);
    }
    assert!(!Browser::new(&pando).get("/sign-in").text().contains("forgotten"));
    assert!(pando.stop().success());
}
