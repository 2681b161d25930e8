//! The user's own account: one-time codes, application passwords, and what other users see.

use std::time::{SystemTime, UNIX_EPOCH};

use client::Connection;
use data_encoding::BASE64;
use directory::password::totp::secret_of;
use hmac::{Hmac, KeyInit as _, Mac as _};
use ldap::ResultCode;
use sha1::Sha1;

use crate::start_with_people;
use test_support::http::Browser;
use test_support::tree::{add_person, bind, person_dn, plant_policy, replace};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, Scratch};

/// Returns the one-time code that a device computes for a time step (RFC 4226 section 5.3). The step is relative to the
/// present one, and lasts 30 seconds.
fn code(secret: &str, from_now: u64) -> String {
    let step = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 30 + from_now;
    let secret = secret_of(secret.as_bytes()).unwrap();
    let mac = Hmac::<Sha1>::new_from_slice(&secret).unwrap().chain_update(step.to_be_bytes());
    let digest = mac.finalize().into_bytes();
    let start = usize::from(digest[19] & 0xf);
    let number = u32::from_be_bytes(digest[start..start + 4].try_into().unwrap()) & 0x7fff_ffff;
    format!("{:06}", number % 1_000_000)
}

fn start(scratch: &Scratch) -> (Pando, Connection) {
    let (pando, mut administrator) = start_with_people(scratch);
    add_person(&mut administrator, "anna");
    let policy = [
        ("objectClass", "pandoPwdPolicy"),
        ("pandoPwdSelfService", "TRUE"),
        ("pandoPwdTotp", "TRUE"),
        ("pandoPwdTotpWindow", "3"),
        ("pandoPwdAppPasswords", "2"),
        ("pwdMinLength", "8"),
        ("pwdInHistory", "3"),
        ("pwdCheckQuality", "2"),
    ];
    plant_policy(&mut administrator, &policy);
    (pando, administrator)
}

#[test]
fn users_give_applications_their_own_passwords() {
    let scratch = Scratch::new("console-applications");
    let (pando, _) = start(&scratch);
    let browser = Browser::signed_in(&pando, "anna", "anna-secret");
    let add = |name: &str, password: &str, days: &str| {
        browser.post_json("/account/applications", &[("name", name), ("password", password), ("days", days)])
    };
    assert_eq!(add("mail", "wrong", "").status, 401);
    assert_eq!(browser.get("/account").status, 200, "a wrong password ends no session");
    assert_eq!(add("mail", "", "").status, 422);
    assert_eq!(add("mail", "anna-secret", "many").status, 422);
    assert_eq!(add("no name", "anna-secret", "").status, 422);
    let made = add("mail", "anna-secret", "30");
    assert_eq!(made.status, 200, "{}", made.text());
    let model: serde_json::Value = serde_json::from_slice(&made.body).unwrap();
    let password = model["made"]["password"].as_str().unwrap();
    assert_eq!(bind(&pando, "anna", password), ResultCode::SUCCESS);
    let page = browser.get("/account").text();
    assert!(page.contains("<strong>mail</strong>") && !page.contains(password), "{page}");
    let listed = browser.json("/account");
    assert_eq!(listed["own"]["applications"][0]["name"], "mail");
    assert!(listed["own"]["applications"][0]["ends"].is_string());
    let remove = [("name", "mail"), ("password", "anna-secret"), ("action", "remove")];
    assert_eq!(browser.post("/account/applications", &remove).status, 303);
    assert_eq!(bind(&pando, "anna", password), ResultCode::INVALID_CREDENTIALS);
    // Without the session's token, nothing is changed.
    let forged = [("name", "x"), ("password", "anna-secret"), ("token", "forged")];
    assert_eq!(browser.post("/account/applications", &forged).status, 403);
    // The administrator has no entry.
    let administrator = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    assert!(administrator.json("/account")["own"].is_null());
    assert_eq!(administrator.get("/account").status, 200);
    assert!(pando.stop().success());
}

#[test]
fn users_turn_codes_on_with_a_qr_code() {
    let scratch = Scratch::new("console-codes");
    let (pando, _) = start(&scratch);
    let browser = Browser::signed_in(&pando, "anna", "anna-secret");
    let form = browser.json("/account/codes");
    let secret = form["secret"].as_str().unwrap();
    assert_ne!(browser.json("/account/codes")["secret"], form["secret"], "a new one each time");
    assert!(form["address"].as_str().unwrap().contains(&format!("secret={secret}")));
    let picture = BASE64.decode(form["qr"].as_str().unwrap().as_bytes()).unwrap();
    assert!(String::from_utf8(picture).unwrap().contains("<svg"));
    let set = |secret: &str, code: &str, password: &str| {
        browser.post("/account/codes", &[("secret", secret), ("code", code), ("password", password)])
    };
    let wrong = set(secret, "000", "anna-secret");
    assert_eq!(wrong.status, 422);
    assert!(wrong.text().contains(secret), "the form keeps the secret: {}", wrong.text());
    assert_eq!(set("AAAA", &code(secret, 0), "anna-secret").status, 422);
    assert_eq!(set(secret, &code(secret, 0), "anna-secret").status, 303);
    assert_eq!(bind(&pando, "anna", "anna-secret"), ResultCode::INVALID_CREDENTIALS);
    assert_eq!(browser.json("/account")["own"]["codes_used"], true);
    let with_code = format!("anna-secret{}", code(secret, 1));
    let other = Browser::signed_in(&pando, "anna", &with_code);
    assert_eq!(other.get("/account/codes/remove").status, 200);
    let remove =
        |password: &str| other.post("/account/codes", &[("action", "remove"), ("password", password)]);
    assert_eq!(remove("anna-secret").status, 401, "the code is needed");
    assert_eq!(remove(&format!("anna-secret{}", code(secret, 2))).status, 303);
    assert_eq!(bind(&pando, "anna", "anna-secret"), ResultCode::SUCCESS);
    assert!(pando.stop().success());
}

/// The password page lists the rules of the policy, even for a user who must first change the password.
#[test]
fn a_page_lists_the_rules_of_a_new_password() {
    let scratch = Scratch::new("console-rules");
    let (pando, mut administrator) = start(&scratch);
    let browser = Browser::signed_in(&pando, "anna", "anna-secret");
    let page = browser.get("/password").text();
    assert!(page.contains("minlength=\"8\"") && page.contains("at least: 8"), "{page}");
    replace(&mut administrator, &person_dn("anna"), "pwdReset", &["TRUE"]);
    let policy = format!("cn=policy,{}", crate::SUFFIX);
    replace(&mut administrator, &policy, "pwdMustChange", &["TRUE"]);
    let browser = Browser::signed_in(&pando, "anna", "anna-secret");
    assert_eq!(browser.get("/account").headers("location"), ["/password"]);
    assert!(browser.get("/password").text().contains("minlength=\"8\""));
    assert!(pando.stop().success());
}

#[test]
fn users_see_which_attributes_others_can_read() {
    let scratch = Scratch::new("console-seen");
    let (pando, _) = start(&scratch);
    let browser = Browser::signed_in(&pando, "anna", "anna-secret");
    let seen = browser.json("/account/seen");
    let rows = seen["rows"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["name"] == "cn"), "{seen}");
    assert!(rows.iter().all(|row| row["anonymous"] == false), "{seen}");
    let other = browser.json("/account/seen?as=cn%3Dx,dc%3Dexample");
    assert_eq!(other["as"], "cn=x,dc=example");
    assert_eq!(browser.get("/account/seen?as=%3Cscript%3E").status, 200);
    assert!(pando.stop().success());
}
