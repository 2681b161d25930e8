//! Signing in and out, cookies, and requests from other sites.

use crate::{start, start_with_people};
use test_support::http::{Browser, get, quoted, send};
use test_support::pando::{Start, command};
use test_support::tree::{add_person, person_dn, replace, set_password};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, SUFFIX, Scratch};

#[test]
fn users_sign_in_by_dn_or_name_and_see_permitted_entries() {
    let scratch = Scratch::new("console-sign-in");
    let (pando, mut administrator) = start_with_people(&scratch);
    add_person(&mut administrator, "anna");
    set_password(&mut administrator, "anna", "secret of anna");
    let dn = person_dn("anna");
    for name in [dn.as_str(), "anna"] {
        let mut browser = Browser::new(&pando);
        assert!(browser.get("/search?q=anna").status == 303, "a page without a session");
        let answer = browser.sign_in(name, "secret of anna");
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        let cookie = answer.headers("set-cookie").concat();
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
        let entry = browser.json(&format!("/entry?dn={}", quoted(&dn)));
        assert_eq!(entry["dn"], dn);
        let found = browser.json("/search?q=ann");
        assert_eq!(found["rows"][0]["dn"], dn, "{found}");
        assert!(browser.get("/me").headers("location")[0].contains("uid%3Danna"));
    }
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    // The administrator of the node file has no entry.
    assert_eq!(browser.json("/me"), serde_json::json!({ "who": ADMIN_DN, "entry": null }));
    assert!(browser.get("/me").text().contains("the directory shows no entry with this name"));
    assert_eq!(browser.json("/search?q=anna&base=&scope=sub")["rows"].as_array().unwrap().len(), 1);
    assert!(pando.stop().success());
}

/// The answers to an unknown name and to a wrong password are the same, whatever anonymous clients may read.
#[test]
fn unknown_names_and_wrong_passwords_are_answered_alike() {
    let scratch = Scratch::new("console-wrong");
    let (pando, mut administrator) = start_with_people(&scratch);
    add_person(&mut administrator, "anna");
    set_password(&mut administrator, "anna", "secret of anna");
    let answer = |name: &str| {
        let answer = Browser::new(&pando).sign_in(name, "wrong");
        (answer.status, answer.text().replace(name, "NAME"))
    };
    let expected = answer("anna");
    assert_eq!(expected.0, 401);
    assert!(expected.1.contains("The name or the password is wrong."), "{}", expected.1);
    let unknown = format!("uid=nobody,{SUFFIX}");
    for name in ["nobody", "*", "a)(uid=*", unknown.as_str(), "cn=x,dc=elsewhere"] {
        let other = answer(name);
        assert_eq!((other.0, other.1.contains("The name or the password is wrong.")), (401, true), "{name}");
    }
    // An empty password is refused, because it would be an anonymous bind.
    assert_eq!(Browser::new(&pando).sign_in("anna", "").status, 422);
    assert!(pando.stop().success());
}

#[test]
fn signing_out_ends_the_session_and_each_sign_in_has_a_new_cookie() {
    let scratch = Scratch::new("console-cookies");
    let pando = start(&scratch, "");
    let mut browser = Browser::new(&pando);
    browser.cookie = "pando=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".to_owned();
    let planted = browser.cookie.clone();
    assert_eq!(browser.sign_in(ADMIN_DN, ADMIN_PASSWORD).status, 200);
    assert_ne!(browser.cookie, planted, "session fixation");
    let first = Browser { cookie: browser.cookie.clone(), token: browser.token.clone(), ..browser };
    assert_eq!(first.get("/search").status, 200);

    // A new sign-in ends the previous session of the browser.
    let mut again = Browser { cookie: first.cookie.clone(), token: String::new(), address: first.address };
    assert_eq!(again.sign_in(ADMIN_DN, ADMIN_PASSWORD).status, 200);
    assert_eq!(first.get("/search").status, 303);

    let stolen = Browser { cookie: again.cookie.clone(), token: again.token.clone(), address: again.address };
    assert_eq!(stolen.get("/search").status, 200);
    let out = again.post("/sign-out", &[]);
    assert_eq!(out.status, 303);
    assert!(out.headers("set-cookie").concat().contains("Max-Age=0"));
    assert_eq!(stolen.get("/search").status, 303, "a cookie that was stolen before");
    assert_eq!(stolen.post("/sign-out", &[]).status, 303);
    assert!(pando.stop().success());
}

#[test]
fn requests_of_other_sites_are_refused() {
    let scratch = Scratch::new("console-csrf");
    let pando = start(&scratch, "");
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let fields = [("old", ADMIN_PASSWORD), ("new", "other password"), ("again", "other password")];
    for token in ["", "AAAA", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"] {
        let mut with_token = fields.to_vec();
        with_token.push(("token", token));
        assert_eq!(browser.post("/password", &with_token).status, 403, "{token}");
        assert_eq!(browser.post("/sign-out", &[("token", token)]).status, 403);
    }
    for head in [
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
        "Origin: https://evil\r\n",
        "Origin: null\r\n",
    ] {
        assert_eq!(browser.send_form("/sign-out", &[], head).status, 403, "{head}");
        assert_eq!(browser.send_form("/sign-in", &[("name", "a"), ("password", "b")], head).status, 403);
    }
    let own = format!("Origin: http://{}\r\nSec-Fetch-Site: same-origin\r\n", browser.address);
    assert_eq!(browser.send_form("/sign-out", &[], &own).status, 303);
    assert!(pando.stop().success());
}

#[test]
fn too_large_bodies_and_links_to_other_sites_are_refused() {
    let scratch = Scratch::new("console-large");
    let pando = start(&scratch, "");
    let browser = Browser::new(&pando);
    let large = "x".repeat(2 << 20);
    assert_eq!(browser.post("/sign-in", &[("name", &large), ("password", "x")]).status, 413);
    let announced = format!(
        "POST /sign-in HTTP/1.1\r\nHost: pando\r\nConnection: close\r\nContent-Type: \
         application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n",
        u64::MAX / 2
    );
    assert_eq!(send(browser.address, announced.as_bytes()).status, 413);
    let page = get(browser.address, "/sign-in?to=https%3A%2F%2Fevil", "").text();
    assert!(!page.contains("evil"), "{page}");
    assert!(pando.stop().success());
}

#[test]
fn a_password_change_obeys_the_policy_and_ends_the_session() {
    let scratch = Scratch::new("console-password");
    let (pando, mut administrator) = start_with_people(&scratch);
    add_person(&mut administrator, "anna");
    set_password(&mut administrator, "anna", "secret of anna");
    let browser = Browser::signed_in(&pando, "anna", "secret of anna");
    let change = |old: &str, new: &str, again: &str| {
        browser.post_json("/password", &[("old", old), ("new", new), ("again", again)])
    };
    assert!(change("secret of anna", "one", "two").text().contains("differ"));
    let wrong = change("wrong", "another secret", "another secret");
    assert!(wrong.status >= 400, "{}", wrong.text());
    let changed = change("secret of anna", "another secret", "another secret");
    assert_eq!(changed.status, 200, "{}", changed.text());
    assert_eq!(browser.get("/search").status, 303, "the session has ended");
    Browser::signed_in(&pando, "anna", "another secret");
    assert_eq!(Browser::new(&pando).sign_in("anna", "secret of anna").status, 401);
    assert!(pando.stop().success());
}

/// After an administrator has reset the password, only the change of the password is possible (pwdMustChange).
#[test]
fn a_reset_password_must_be_changed_first() {
    let scratch = Scratch::new("console-must-change");
    let (pando, mut administrator) = start_with_people(&scratch);
    add_person(&mut administrator, "anna");
    let policy = format!("cn=policy,{SUFFIX}");
    let added = administrator.add(
        &policy,
        &[
            ("objectClass", "device"),
            ("objectClass", "pwdPolicy"),
            ("cn", "policy"),
            ("pwdAttribute", "userPassword"),
            ("pwdMustChange", "TRUE"),
            ("pwdMinLength", "8"),
            ("pwdCheckQuality", "2"),
        ],
    );
    assert!(added.unwrap().is_success());
    replace(&mut administrator, &person_dn("anna"), "pwdPolicySubentry", &[&policy]);
    set_password(&mut administrator, "anna", "first secret");
    let browser = Browser::signed_in(&pando, "anna", "first secret");
    assert_eq!(browser.get("/search").headers("location"), ["/password"]);
    let short =
        browser.post_json("/password", &[("old", "first secret"), ("new", "short"), ("again", "short")]);
    assert!(short.text().contains("too short"), "{}", short.text());
    let fields = [("old", "first secret"), ("new", "second secret"), ("again", "second secret")];
    assert_eq!(browser.post("/password", &fields).headers("location"), ["/sign-in?notice=changed"]);
    let browser = Browser::signed_in(&pando, "anna", "second secret");
    assert_eq!(browser.get("/search").status, 200);
    assert!(pando.stop().success());
}

/// The number of sessions of one source is limited. If a user has too many sessions, a new session ends the oldest one.
#[test]
fn sign_ins_beyond_the_bound_are_refused() {
    let scratch = Scratch::new("console-flood");
    let (pando, mut administrator) = start_with_people(&scratch);
    // Open eight sessions for each user.
    let users: Vec<String> = (0..9).map(|number| format!("user{number}")).collect();
    users.iter().for_each(|uid| add_person(&mut administrator, uid));
    let mut browsers = Vec::new();
    for uid in &users[..8] {
        browsers.extend((0..8).map(|_| Browser::signed_in(&pando, uid, &format!("{uid}-secret"))));
    }
    assert_eq!(Browser::new(&pando).sign_in("user8", "user8-secret").status, 503);
    assert_eq!(browsers[0].post("/sign-out", &[]).status, 303);
    assert_eq!(Browser::new(&pando).sign_in("user1", "user1-secret").status, 200);
    assert_eq!(browsers[8].get("/search").status, 303, "the oldest of the user");
    assert_eq!(browsers[9].get("/search").status, 200);
    // A wrong password is reported as wrong only if another session would be possible.
    assert!(matches!(Browser::new(&pando).sign_in("user8", "wrong").status, 401 | 503));
    assert!(pando.stop().success());
}

/// Users see their own sessions, and can end one that they do not recognize.
#[test]
fn users_list_and_end_their_sessions() {
    let scratch = Scratch::new("console-list");
    let (pando, mut administrator) = start_with_people(&scratch);
    for name in ["anna", "bert"] {
        add_person(&mut administrator, name);
    }
    let sign_in = |name: &str| Browser::signed_in(&pando, name, &format!("{name}-secret"));
    let (own, other, bert) = (sign_in("anna"), sign_in("anna"), sign_in("bert"));
    let list = |browser: &Browser| browser.json("/sessions")["sessions"].as_array().unwrap().clone();
    let found = list(&own);
    assert_eq!((found.len(), list(&bert).len()), (2, 1));
    assert!(found.iter().all(|session| session["from"] == "127.0.0.1"), "{found:?}");
    let is_this = |session: &serde_json::Value| session["is_this"] == true;
    let id = found.iter().find(|session| !is_this(session)).unwrap()["id"].as_str().unwrap();
    assert!(!own.cookie.contains(id) && !other.cookie.contains(id), "the id is no cookie");
    assert_eq!(bert.post("/sessions", &[("id", id)]).status, 404, "the session of another user");
    assert_eq!(other.get("/search").status, 200);
    assert_eq!(own.post("/sessions", &[("id", id)]).status, 303);
    assert_eq!(other.get("/search").status, 303, "ended");
    let third = sign_in("anna");
    assert_eq!(own.post("/sessions", &[("action", "others")]).status, 303);
    assert_eq!((third.get("/search").status, own.get("/search").status), (303, 200));
    // A new password ends all sessions of the user, because one may have begun with the old password.
    let fourth = sign_in("anna");
    let fields = [("old", "anna-secret"), ("new", "another secret"), ("again", "another secret")];
    assert_eq!(own.post("/password", &fields).status, 303);
    assert_eq!((own.get("/search").status, fourth.get("/search").status), (303, 303));
    assert_eq!(bert.get("/search").status, 200);
    assert!(pando.stop().success());
}

/// Regression test: the sessions of a user were compared with the text in the form. Another spelling of the DN left
/// them open after a reset of the password, and so did a rename after the sign-in.
#[test]
fn a_reset_of_the_password_ends_the_sessions_of_the_user() {
    let scratch = Scratch::new("console-reset");
    let (pando, mut administrator) = start_with_people(&scratch);
    add_person(&mut administrator, "anna");
    let operator = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let reset = |dn: &str, new: &str| {
        let answer = operator.post_json("/reset-password", &[("dn", dn), ("new", new), ("again", new)]);
        assert_eq!(answer.status, 200, "{dn}: {}", answer.text());
    };
    let dn = person_dn("anna");
    let anna = Browser::signed_in(&pando, "anna", "anna-secret");
    assert_eq!(anna.get("/search").status, 200);
    reset(&dn.replace(',', " , "), "second secret");
    assert_eq!(anna.get("/search").status, 303, "another spelling");

    let anna = Browser::signed_in(&pando, "anna", "second secret");
    let renamed = administrator.modify_dn(&dn, "uid=anne", None);
    assert!(renamed.unwrap().is_success());
    assert_eq!(anna.get("/search").status, 200);
    reset(&person_dn("anne"), "third secret");
    assert_eq!(anna.get("/search").status, 303, "another name");
    assert_eq!(operator.get("/search").status, 200);
    assert!(pando.stop().success());
}

/// Only a trusted proxy may name the client's address for the session list, the cookie and the audit trail.
#[test]
fn trusted_proxies_name_the_browser() {
    let forwarded = "X-Forwarded-For: 203.0.113.66, 192.0.2.7\r\nX-Forwarded-Proto: https\r\n";
    for (networks, from, is_secured) in
        [("127.0.0.0/8", "192.0.2.7", true), ("10.0.0.0/8", "127.0.0.1", false)]
    {
        let scratch = Scratch::new("console-proxy");
        let trail = scratch.join("trail");
        let node = format!(
            "[audit]\nfolder = {trail:?}\n[console]\nlisten = [\"127.0.0.1:0\"]\ntls = false\n\
             trusted_proxies = [\"{networks}\"]\n"
        );
        let pando = Start::with_node(&scratch, node).ready();
        let browser = Browser::new(&pando);
        let fields = [("name", ADMIN_DN), ("password", ADMIN_PASSWORD)];
        let answer =
            browser.send_form("/sign-in", &fields, &format!("Accept: application/json\r\n{forwarded}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        let cookie = answer.headers("set-cookie").concat();
        assert_eq!(cookie.starts_with("__Host-pando="), is_secured, "{cookie}");
        let cookie = cookie.split(';').next().unwrap();
        let head = format!("Accept: application/json\r\nCookie: {cookie}\r\n{forwarded}");
        let listed = get(browser.address, "/sessions", &head).text();
        assert!(listed.contains(&format!("\"from\":\"{from}\"")), "{listed}");
        assert!(pando.stop().success());
        let read = command(&["audit", "--folder", trail.to_str().unwrap(), "--json"], None).expect_code(0);
        assert!(read.stdout.contains(&format!("{from}:")), "{}", read.stdout);
        assert!(!read.stdout.contains("203.0.113.66"), "an address that the sender invented");
    }
}
