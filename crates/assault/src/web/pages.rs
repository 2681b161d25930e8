//! Attacks on the console's pages: stolen or guessed cookies, cross-site requests, and hostile values in every field.

use std::net::Ipv4Addr;

use serde_json::Value;

use super::{get, send_from};
use crate::data::{PERSON, PERSON_PASSWORD};
use crate::hostile_connections::hostile_source;
use crate::report::Finding;
use test_support::http::{Answer, Browser, console_address, quoted};
use test_support::pando::Pando;
use test_support::{ADMIN_DN, ADMIN_PASSWORD};

/// Values that would end a tag, an attribute, a header, a filter, a DN or a path if they were not escaped.
const HOSTILE: [&str; 12] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "x\r\nSet-Cookie: evil=1\r\n\r\n",
    "*)(objectClass=*",
    "cn=a,,+=;<>\\",
    "{{ 7777 * 7 }}{% include 'x' %}",
    "../../../etc/passwd\0",
    "99999999999999999999",
    "-1",
    "\u{202e}\u{0}ü\u{fffd}",
];

/// Texts that no page may contain.
const HARM: [&str; 6] =
    ["<script", "<img src=x", "onmouseover='alert", "54439", "href=\"javascript", "root:x:"];

/// Returns paths and fields of all pages with the method `method` (GET or POST), from the console's own description.
fn described(pando: &Pando, method: &str) -> Vec<(String, Vec<String>)> {
    let answer = send_from(Ipv4Addr::LOCALHOST, console_address(pando), &get("/openapi.json", ""));
    let description: Value = serde_json::from_slice(&answer.body).unwrap();
    let paths = description["paths"].as_object().unwrap().iter();
    let paths = paths.filter_map(|(path, methods)| {
        let page = methods.get(method)?;
        let names = |list: &Value| -> Vec<String> {
            let parameters = list.as_array().into_iter().flatten();
            parameters.filter_map(|parameter| Some(parameter["name"].as_str()?.to_owned())).collect()
        };
        let content = page["requestBody"]["content"].as_object().into_iter().flatten();
        let fields = content.filter_map(|(_, body)| body["schema"]["properties"].as_object());
        let fields = fields.flat_map(|properties| properties.keys().cloned());
        Some((path.clone(), names(&page["parameters"]).into_iter().chain(fields).collect()))
    });
    paths.collect()
}

/// Sends cookies that were guessed, that were set before a sign-in, or that belong to an ended session.
pub(super) fn cookies(pando: &Pando, guesses: &[[u8; 32]]) -> Finding {
    let at = console_address(pando);
    let text = |octets: &[u8; 32]| -> String {
        // The characters of base64url. A cookie consists of 43 of them.
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let letters = octets.iter().chain(octets).take(43);
        letters.map(|octet| char::from(LETTERS[usize::from(octet % 64)])).collect()
    };
    let is_open = |cookie: &str| {
        let answer = send_from(hostile_source(0), at, &get("/search", &format!("Cookie: {cookie}\r\n")));
        answer.status != 303
    };
    let mut open: Vec<&str> = Vec::new();
    if guesses.iter().any(|guess| is_open(&format!("pando={}", text(guess)))) {
        open.push("a guess");
    }
    let mut browser = Browser::new(pando);
    let planted = "pando=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".to_owned();
    browser.cookie.clone_from(&planted);
    assert_eq!(browser.sign_in(PERSON, PERSON_PASSWORD).status, 200);
    if is_open(&planted) {
        open.push("one that was planted");
    }
    let own = browser.cookie.clone();
    assert!(is_open(&own), "the session itself");
    for changed in [own.to_uppercase(), format!("{own}A"), own[..own.len() - 1].to_owned(), format!("x{own}")]
    {
        if is_open(&changed) && changed != own {
            open.push("one that was changed");
        }
    }
    assert_eq!(browser.post("/sign-out", &[]).status, 303);
    if is_open(&own) {
        open.push("one of a session that has ended");
    }
    let done = format!("{} cookies that were guessed, and some planted, changed or ended", guesses.len());
    Finding::of(done).bounded(open.is_empty(), format!("{} open a session: {open:?}", open.len()), "none")
}

/// Sends forms with a user's cookie as another site would, or without the session's token.
pub(super) fn other_sites(pando: &Pando) -> Finding {
    let browser = Browser::signed_in(pando, ADMIN_DN, ADMIN_PASSWORD);
    let pages = described(pando, "post");
    let mut accepted = Vec::new();
    let needs_session = |path: &str| !["/sign-in", "/forgotten-password", "/new-password"].contains(&path);
    for (path, _) in pages.iter().filter(|(path, _)| needs_session(path)) {
        for token in ["", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"] {
            if ![400, 403].contains(&browser.post_json(path, &[("token", token)]).status) {
                accepted.push(format!("{path} with token {token:?}"));
            }
        }
    }
    for (path, _) in &pages {
        for head in [
            "Sec-Fetch-Site: cross-site\r\n",
            "Sec-Fetch-Site: same-site\r\n",
            "Origin: null\r\n",
            "Origin: https://evil\r\n",
        ] {
            if browser.send_form(path, &[], head).status != 403 {
                accepted.push(format!("{path} with {}", head.trim()));
            }
        }
    }
    assert_eq!(browser.get("/search").status, 200, "the session is as it was");
    let done = format!("forms of other sites, and without a token, to {} pages", pages.len());
    Finding::of(done).bounded(
        accepted.is_empty(),
        format!("{} accepted: {accepted:?}", accepted.len()),
        "none",
    )
}

/// Sends hostile values in every field of every page.
pub(super) fn values(pando: &Pando) -> Finding {
    let browser = Browser::signed_in(pando, ADMIN_DN, ADMIN_PASSWORD);
    let mut complaints = Vec::new();
    let mut count = 0;
    let mut look = |answer: &Answer, at: &str| {
        count += 1;
        let text = answer.text();
        let is_page = answer.headers("content-type").concat().starts_with("text/html");
        if let Some(harm) = HARM.iter().find(|harm| is_page && text.contains(*harm)) {
            complaints.push(format!("{at}: {harm}"));
        }
        if answer.headers("set-cookie").iter().any(|cookie| cookie.starts_with("evil")) {
            complaints.push(format!("{at}: a header"));
        }
        let policy = answer.headers("content-security-policy").concat();
        if !policy.contains("default-src 'none'") || policy.contains("unsafe") {
            complaints.push(format!("{at}: the policy {policy}"));
        }
        if answer.status >= 500 {
            complaints.push(format!("{at}: {}", answer.status));
        }
    };
    let person = format!("dn={}", quoted(PERSON));
    for (path, fields) in described(pando, "get") {
        for (field, value) in fields.iter().flat_map(|field| HOSTILE.map(|value| (field, value))) {
            let rest = if field == "dn" { "" } else { &person };
            let at = format!("{path}?{}={}&{rest}", quoted(field), quoted(value));
            look(&browser.get(&at), &at);
        }
    }
    for (path, fields) in described(pando, "post") {
        if ["/sign-out", "/sessions", "/delete"].contains(&path.as_str()) {
            continue;
        }
        for value in HOSTILE {
            let all: Vec<(&str, &str)> = fields
                .iter()
                .map(|field| {
                    let given = if field == "token" { browser.token.as_str() } else { value };
                    (field.as_str(), given)
                })
                .collect();
            look(&browser.post(&path, &all), &format!("{path} with {value:?}"));
        }
    }
    let first: Vec<_> = complaints.iter().take(5).collect();
    Finding::of(format!("{count} requests with hostile values to all pages")).bounded(
        complaints.is_empty() && count > 100,
        format!("{} complaints: {first:?}", complaints.len()),
        "none",
    )
}
