//! The settings as a text: the differences, the change, and changes that others have made meanwhile.

use ldap::{ResultCode, SettingsInForce, SettingsRequest, oids};
use serde_json::Value;

use crate::start_with_people;
use test_support::http::Browser;
use test_support::pando::command;
use test_support::tree::{add_person, replace};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, Scratch};

fn lines(model: &Value) -> Vec<&str> {
    model["plan"]["lines"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect()
}

#[test]
fn a_plan_precedes_the_change() {
    let scratch = Scratch::new("console-settings");
    let (pando, mut administrator) = start_with_people(&scratch);
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let present = browser.json("/settings");
    let (text, version) = (present["text"].as_str().unwrap(), present["version"].to_string());
    let exported = command(&["export", "--settings-only"], Some(&Pando::data(&scratch))).expect_code(0);
    assert_eq!(text, exported.stdout);
    let page = browser.get("/settings").text();
    assert!(page.contains("name=\"token\"") && page.contains("suffixes = "), "{page}");

    // Browsers send CR LF at the ends of lines.
    let proposed = text.replace("access_rules = []", "access_rules = [\"all: allow read to authenticated\"]");
    let sent = proposed.replace('\n', "\r\n");
    let fields = [("text", sent.as_str()), ("version", &version)];
    let model: Value = serde_json::from_slice(&browser.post_json("/settings", &fields).body).unwrap();
    let file = scratch.write("proposed.toml", &proposed);
    let planned = command(&["plan", file.to_str().unwrap()], Some(&Pando::data(&scratch))).expect_code(0);
    let shown = lines(&model);
    assert!(
        !shown.is_empty() && shown.iter().all(|line| planned.stdout.contains(line)),
        "{shown:?} {planned}"
    );
    assert_eq!(
        (&model["text"], &model["changed_meanwhile"]),
        (&Value::from(proposed.as_str()), &false.into())
    );
    assert_eq!(browser.json("/settings")["version"].to_string(), version, "nothing is changed yet");
    let page = browser.post("/settings", &fields).text();
    assert!(page.contains("Put these settings in force"), "{page}");

    let apply = [("text", sent.as_str()), ("version", &version), ("step", "apply")];
    let made = browser.post("/settings", &apply);
    assert_eq!((made.status, made.headers("location")), (303, vec!["/settings?notice=settings_applied"]));
    let rules = administrator.entry("cn=config", &["pandoAccessRule"]).unwrap().unwrap();
    assert_eq!(rules.texts("pandoAccessRule"), ["all: allow read to authenticated"]);

    // This form was made for older settings.
    let late = browser.post("/settings", &apply);
    assert_eq!(late.status, 409, "{}", late.text());
    assert!(late.text().contains("have changed since you read them"), "{}", late.text());
    replace(&mut administrator, "cn=config", "pandoSizeLimit", &["77"]);
    let model: Value = serde_json::from_slice(&browser.post_json("/settings", &fields).body).unwrap();
    assert_eq!(model["changed_meanwhile"], true);
    assert!(lines(&model).iter().any(|line| line.contains("size_limit")), "{model}");
    let version = model["version"].to_string();
    assert_eq!(
        browser.post("/settings", &[("text", &proposed), ("version", &version), ("step", "apply")]).status,
        303
    );
    assert!(pando.stop().success());
}

#[test]
fn errors_name_lines_and_only_the_administrator_sees_settings() {
    let scratch = Scratch::new("console-settings-refused");
    let (pando, mut administrator) = start_with_people(&scratch);
    add_person(&mut administrator, "anna");
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let present = browser.json("/settings");
    let (text, version) = (present["text"].as_str().unwrap(), present["version"].to_string());
    let wrong_rule = text.replace("access_rules = []", "access_rules = [\"x: allow write of mial to self\"]");
    let place = text.lines().position(|line| line == "access_rules = []").unwrap() + 1;
    for (proposed, line) in [
        (format!("<b>= 1\n{text}"), "line 1:".to_owned()),
        (format!("\nno_such_key = 1\n{text}"), "line 2:".to_owned()),
        (wrong_rule, format!("line {place}:")),
    ] {
        for step in ["plan", "apply"] {
            let answer =
                browser.post("/settings", &[("text", &proposed), ("version", &version), ("step", step)]);
            let page = answer.text();
            assert_eq!(answer.status, 422, "{page}");
            let carried = format!("name=\"version\" value=\"{version}\"");
            assert!(page.contains(&carried), "{page}");
            assert!(
                page.contains(&line) && page.contains("role=\"alert\"") && !page.contains("<b>"),
                "{page}"
            );
        }
    }
    // Regression test: after a refusal, the form got the newest version number, so that the next attempt silently undid
    // the change of another administrator.
    replace(&mut administrator, "cn=config", "pandoSizeLimit", &["77"]);
    let bad = format!("no_such_key = 1\n{text}");
    let answer = browser.post_json("/settings", &[("text", &bad), ("version", &version)]);
    let refused: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(refused["version"].to_string(), version);
    let answer = browser.post_json("/settings", &[("text", text), ("version", &version)]);
    let model: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(model["changed_meanwhile"], true);
    replace(&mut administrator, "cn=config", "pandoSizeLimit", &[]);
    let version = browser.json("/settings")["version"].to_string();
    // The server does not read a schema file that a client names.
    let answer = browser.post("/settings", &[("text", "schema_files = [\"/etc/passwd\"]")]);
    assert!(answer.status == 422 && !answer.text().contains("root:"), "{}", answer.text());

    let own = Browser::signed_in(&pando, "anna", "anna-secret");
    assert_eq!(own.get("/settings").status, 403);
    for step in ["plan", "apply"] {
        assert_eq!(
            own.post("/settings", &[("text", text), ("version", &version), ("step", step)]).status,
            403
        );
    }
    let mut ask = |value: &[u8]| administrator.extended(oids::SETTINGS, Some(value)).unwrap();
    let reply = ask(&SettingsRequest::Read.encode());
    let read = SettingsInForce::decode(&reply.extended.value.unwrap()).unwrap();
    assert_eq!((read.text.as_str(), read.version.to_string()), (text, version));
    for malformed in [&[0xa1, 0][..], &[0xa7, 0], &[0xff]] {
        assert_eq!(ask(malformed).outcome.code, ResultCode::PROTOCOL_ERROR);
    }
    let late = SettingsRequest::Apply { text, version: Some(read.version + 1) };
    assert_eq!(ask(&late.encode()).outcome.code, ResultCode::ASSERTION_FAILED);
    assert!(pando.stop().success());
}

#[test]
fn access_rules_are_rehearsed_before_they_are_in_force() {
    let scratch = Scratch::new("console-rehearse");
    let (pando, mut administrator) = start_with_people(&scratch);
    add_person(&mut administrator, "anna");
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let present = browser.json("/access/rehearse");
    let text = present["text"].as_str().unwrap();
    assert!(browser.get("/access").text().contains("href=\"/access/rehearse\""));
    let rehearsed = |text: &str, who: &str| {
        let answer = browser.post_json("/access/rehearse", &[("text", text), ("who", who)]);
        serde_json::from_slice::<Value>(&answer.body).unwrap()["result"].clone()
    };
    let same = rehearsed(text, "");
    assert_eq!(
        (&same["examined"], &same["not_examined"], &same["changes"]),
        (&2.into(), &0.into(), &0.into())
    );
    let proposed = text.replace("access_rules = []", "access_rules = [\"all: allow read of cn to anyone\"]");
    let all = rehearsed(&proposed, "");
    assert!(all["changes"].as_u64() > Some(0) && all["lines"].to_string().contains("may no longer"), "{all}");
    assert!(all["lines"].to_string().contains("anonymous at"), "{all}");
    let one = rehearsed(&proposed, "anna\r\n\r\n");
    assert_eq!(one["examined"], 1);
    assert!(!one["lines"].to_string().contains("anonymous at"), "{one}");
    let version = present["version"].to_string();
    assert_eq!(version, browser.json("/settings")["version"].to_string());
    let page = browser.post("/access/rehearse", &[("text", &proposed), ("version", &version)]).text();
    let carried = format!("name=\"version\" value=\"{version}\"");
    assert_eq!(page.matches(&carried).count(), 2, "both forms know the version: {page}");
    let summary = page.find("would change").unwrap();
    assert!(summary < page.find("may no longer").unwrap(), "the summary is first: {page}");
    assert_eq!(browser.json("/access/rehearse")["text"], text, "nothing is changed");

    let wrong = text.replace("access_rules = []", "access_rules = [\"<b>\"]");
    let many = "anna\n".repeat(21);
    for (text, who, status) in
        [(wrong.as_str(), "", 422), (text, "<b>no-such", 404), (text, many.as_str(), 422), ("<b>", "", 422)]
    {
        let answer = browser.post("/access/rehearse", &[("text", text), ("who", who)]);
        assert_eq!(answer.status, status, "{}", answer.text());
        assert!(
            answer.text().contains("role=\"alert\"") && !answer.text().contains("<b>"),
            "{}",
            answer.text()
        );
    }
    let own = Browser::signed_in(&pando, "anna", "anna-secret");
    assert_eq!(own.get("/access/rehearse").status, 403);
    assert_eq!(own.post("/access/rehearse", &[("text", text)]).status, 403);
    assert!(pando.stop().success());
}
