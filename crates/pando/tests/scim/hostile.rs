//! Requests that no well-behaved client sends.

use serde_json::{Value, json};

use test_support::http::send;

use crate::{GROUP, Scim, USER, basic, encoded, exchange, id};

#[test]
fn malformed_bodies_are_refused() {
    let scim = Scim::start("scim-hostile-bodies");
    let post = |body: &[u8]| {
        scim.ask_with("POST", "/Users", &format!("Authorization: {}\r\n", scim.authorization), body)
    };
    let user = |name: &str, value: Value| {
        let mut user = json!({ "schemas": [USER], "userName": "a" });
        user[name] = value;
        user.to_string()
    };
    let deep =
        format!("{{\"schemas\":[\"{USER}\"],\"userName\":{}1{}}}", "[".repeat(50_000), "]".repeat(50_000));
    for (body, scim_type) in [
        (String::new(), "invalidSyntax"),
        ("[]".to_owned(), "invalidSyntax"),
        (deep, "invalidSyntax"),
        (format!("{{\"schemas\":[\"{USER}\"],\"userName\":\"a\",\"USERNAME\":\"b\"}}"), "invalidSyntax"),
        (format!("{{\"schemas\":[\"{USER}\"],\"userName\":1e999}}"), "invalidSyntax"),
        (json!({ "userName": "a" }).to_string(), "invalidSyntax"),
        (json!({ "schemas": ["urn:x"], "userName": "a" }).to_string(), "invalidSyntax"),
        (json!({ "schemas": [USER] }).to_string(), "invalidValue"),
        (user("userName", json!("")), "invalidValue"),
        (user("userName", json!(["a"])), "invalidValue"),
        (user("userName", json!({ "value": "a" })), "invalidValue"),
        (user("active", json!(1)), "invalidValue"),
        (user("active", json!("perhaps")), "invalidValue"),
        (user("name", json!("Anna")), "invalidValue"),
        (user("name", json!({ "shoe": "x" })), "invalidSyntax"),
        (user("shoeSize", json!(43)), "invalidSyntax"),
        (user("emails", json!([1])), "invalidValue"),
        (user("emails", json!([{ "type": "work" }])), "invalidValue"),
        (
            user("emails", json!([{ "value": "a", "primary": true }, { "value": "b", "primary": true }])),
            "invalidValue",
        ),
        (user("emails", json!("ümlaut@example.com")), "invalidValue"),
        (user("title", json!("x".repeat(900_000))), "invalidValue"),
    ] {
        let answer = post(body.as_bytes());
        let shown: String = body.chars().take(200).collect();
        if scim_type == "invalidValue" && shown.contains("xxxxx") {
            // The directory does not limit the size of a title, so the request may succeed.
            assert!(matches!(answer.status, 201 | 400), "{}", answer.status);
            continue;
        }
        assert_eq!(
            (answer.status, answer.body["scimType"].as_str()),
            (400, Some(scim_type)),
            "{shown}: {answer:?}"
        );
        assert!(answer.http.body.len() < 2000);
    }
    assert_eq!(post(&vec![b' '; 10 << 20]).status, 413);
    let head = format!("Authorization: {}\r\nContent-Type: text/plain\r\n", scim.authorization);
    let other = scim.ask_with("POST", "/Users", &head, b"{}");
    assert!(matches!(other.status, 400 | 415), "{other:?}");
    assert_eq!(scim.get("/Users?count=0").status, 200);
}

/// Regression test: browsers add stored Basic credentials to the requests of other sites. Such a request needs no CORS
/// preflight if its body has no type.
#[test]
fn requests_of_other_sites_are_refused() {
    let scim = Scim::start("scim-csrf");
    let body = json!({ "schemas": [USER], "userName": "anna" }).to_string();
    let post = |head: &str| {
        let start = format!(
            "POST /scim/v2/Users HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n\
             Authorization: {}\r\n{head}\r\n",
            scim.at,
            body.len(),
            scim.authorization
        );
        send(scim.at, format!("{start}{body}").as_bytes()).status
    };
    let json = "Content-Type: application/scim+json\r\n";
    for site in ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: https://evil"] {
        assert_eq!(post(&format!("{json}{site}\r\n")), 403, "{site}");
    }
    assert_eq!(post(""), 415);
    assert_eq!(post("Content-Type: text/plain\r\n"), 415);
    assert_eq!(post(json), 201);
}

#[test]
fn malformed_filters_are_refused() {
    let scim = Scim::start("scim-hostile-filters");
    scim.user("anna");
    let nested = |levels: usize| format!("{}userName pr{}", "not (".repeat(levels), ")".repeat(levels));
    let many = |count: usize| vec!["userName pr"; count].join(" or ");
    for filter in [
        "userName",
        "userName eq",
        "shoeSize eq 4",
        "userName eq 4",
        "userName eq true",
        "password eq \"x\"",
        "nickName pr",
        "active gt true",
        "active eq \"true\"",
        "meta.version eq \"x\"",
        "meta.created eq \"yesterday\"",
        "meta.created co \"2026\"",
        "name eq \"x\"",
        "emails[value co \"a\" and value co \"b\"]",
        "emails[not (value eq \"a\")]",
        "emails[value ne \"a\"]",
        "emails[shoe pr]",
        "emails[emails[value pr]]",
        "members.value eq \"x\"",
        "urn:x:userName eq \"x\"",
        &nested(60),
        &nested(2000),
        &many(101),
        &"(".repeat(5000),
    ] {
        let answer = scim.get(&format!("/Users?count=1&filter={}", encoded(filter)));
        if filter.len() > 5000 {
            // The size of the request header is limited too.
            assert!(matches!(answer.status, 400 | 431), "{}", answer.status);
            continue;
        }
        answer.expect(400, Some("invalidFilter"));
    }
    for filter in [nested(14), many(100)] {
        assert_eq!(scim.get(&format!("/Users?filter={}", encoded(&filter))).status, 200, "{filter}");
    }
    for query in ["count=x", "startIndex=99999999999999999999", "count=1&count=2", "sortOrder=up"] {
        scim.get(&format!("/Users?{query}")).expect(400, Some("invalidValue"));
    }
    assert_eq!(scim.get("/Users?startIndex=9223372036854775807").status, 400);
}

/// Regression test: a body of 1 MiB can name hundreds of thousands of values. They were compared with each other, for
/// minutes, before the directory received anything.
#[test]
fn many_values_cost_little() {
    let scim = Scim::start("scim-hostile-values");
    let user = scim.user("anna");
    let mails: Vec<Value> = (0..100_000).map(|number| json!(format!("{number}"))).collect();
    let refused = scim.patch(
        &format!("/Users/{}", id(&user)),
        &json!([{ "op": "add", "path": "emails", "value": &mails[..60_000] },
                { "op": "remove", "path": "emails", "value": &mails[..30_000] }]),
    );
    refused.expect(400, Some("tooMany"));
    let group = json!({ "schemas": [GROUP], "displayName": "staff", "members": mails });
    scim.ask("POST", "/Groups", &group).expect(400, Some("invalidValue"));
    let names = vec!["title"; 101].join(",");
    scim.get(&format!("/Users?attributes={names}")).expect(400, Some("invalidValue"));
    assert_eq!(scim.get(&format!("/Users?attributes={}", vec!["title"; 100].join(","))).status, 200);
}

/// Regression test: the directory delays the answers to wrong passwords. Requests that waited for them occupied all
/// threads of the console.
#[test]
fn wrong_passwords_do_not_occupy_all_threads() {
    let scim = Scim::start("scim-hostile-passwords");
    let at = scim.at;
    let wrong = || {
        let head = format!("Authorization: {}\r\n", basic("nobody", "wrong"));
        exchange(at, "GET", "/Users", &head, b"").status
    };
    // The next answer to this name takes four seconds.
    (0..7).for_each(|_| assert_eq!(wrong(), 401));
    let mut answers: Vec<u16> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..5).map(|_| scope.spawn(wrong)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    answers.sort_unstable();
    assert_eq!(answers, [401, 401, 401, 401, 503]);
    assert_eq!(scim.get("/Users?count=0").status, 200);
}
