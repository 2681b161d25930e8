//! The pages in Chromium, as each role sees them, on a wide and a narrow screen: nothing is wider than the screen, and
//! each control has a name.

use std::fmt::Write as _;
use std::process::Command;

use serde_json::Value;

use crate::filled;
use crate::support::http::{Browser, get, quoted};
use crate::support::tree::{add_person, person_dn, replace};
use crate::support::{ADMIN_DN, ADMIN_PASSWORD, Scratch};

/// Widths of the screens.
const WIDTHS: [u64; 2] = [1280, 400];

/// Shows each page that a text field holds in a frame, and reports what is wrong with it.
const LOOK: &str = r#"
const found = [];
async function look(held, width) {
  const frame = document.createElement('iframe');
  frame.style = `border:0;height:1500px;width:${width}px`;
  const loaded = new Promise(done => { frame.onload = done; });
  frame.srcdoc = held.value;
  document.body.append(frame);
  await loaded;
  const page = frame.contentDocument;
  const hasName = one => one.getAttribute('aria-label') || one.labels?.length;
  const fields = [...page.querySelectorAll('input:not([type=hidden]), select, textarea:not([hidden])')];
  const links = [...page.querySelectorAll('a, button, summary')];
  const ids = [...page.querySelectorAll('[id]')].map(one => one.id);
  found.push({
    page: held.title, width,
    scroll_width: page.documentElement.scrollWidth,
    unnamed: fields.filter(one => !hasName(one))
      .concat(links.filter(one => !hasName(one) && !one.textContent.trim())).map(one => one.outerHTML),
    titles: page.querySelectorAll('h1').length,
    twice: ids.filter((id, place) => ids.indexOf(id) != place),
  });
  frame.remove();
}
async function all() {
  for (const held of document.querySelectorAll('textarea')) {
    for (const width of WIDTHS) await look(held, width);
  }
  document.getElementById('found').textContent = JSON.stringify(found);
}
all();
"#;

/// Runs Chromium on a page and returns what its script found; a missing Chromium fails the test.
fn look(scratch: &Scratch, pages: &[(String, String)]) -> Value {
    let mut holder = "<!doctype html><body style=\"margin:0\"><pre id=\"found\"></pre>".to_owned();
    for (name, html) in pages {
        let html = html.replace('&', "&amp;").replace('<', "&lt;");
        write!(holder, "<textarea hidden title=\"{name}\">{html}</textarea>").unwrap();
    }
    write!(holder, "<script>{}</script>", LOOK.replace("WIDTHS", &format!("{WIDTHS:?}"))).unwrap();
    let file = scratch.write("holder.html", holder);
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = names.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok());
    let program = found.expect("no Chromium here: `./dev test` installs it, or `apt-get install chromium`");
    // It is ended after five minutes, should it hang.
    let output = Command::new("timeout")
        .args(["300", program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--no-first-run", "--hide-scrollbars", "--dump-dom", "--virtual-time-budget=60000"])
        .arg("--window-size=1400,2000")
        .arg(format!("--user-data-dir={}", scratch.join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("timeout(1) is part of coreutils");
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    let dom = String::from_utf8(output.stdout).unwrap();
    let found = dom.split("<pre id=\"found\">").nth(1).and_then(|rest| rest.split("</pre>").next()).unwrap();
    let found = found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&found).unwrap_or_else(|error| panic!("{error}: {found}"))
}

#[test]
fn pages_fit_screens_and_name_their_controls_for_every_role() {
    let scratch = Scratch::new("console-chromium");
    let (pando, mut administrator) = filled(&scratch);
    for name in ["anna", "bert", "carl"] {
        add_person(&mut administrator, name);
    }
    let to = |name: &str| format!("to user '{}'", person_dn(name));
    let rules = [
        "all: allow read, search, browse to authenticated",
        "own: allow write of userPassword, description to self",
        &format!("audit: allow use of read-audit {}", to("bert")),
        &format!("help desk: allow reset {}", to("carl")),
    ];
    replace(&mut administrator, "cn=config", "pandoAccessRule", &rules);
    let style = |browser: &Browser| get(browser.address, "/style.css", "").text();
    let mut pages = Vec::new();
    let anna = quoted(&person_dn("anna"));
    for (role, name, password, paths) in [
        (
            "administrator",
            ADMIN_DN,
            ADMIN_PASSWORD,
            vec!["/", "/settings", "/access", "/access/rehearse", "/nodes", "/indexes", "/manage"],
        ),
        ("auditor", "bert", "bert-secret", vec!["/", "/audit", "/settings"]),
        ("help desk", "carl", "carl-secret", vec!["/", "/settings"]),
        ("user", "anna", "anna-secret", vec!["/", "/account", "/settings"]),
    ] {
        let browser = Browser::signed_in(&pando, name, password);
        let style = format!("<style>{}</style>", style(&browser));
        let mut keep = |name: &str, html: &str| {
            assert!(html.contains("<link rel=\"stylesheet\" href=\"/style.css\">"), "{name}: {html}");
            let html = html.replace("<link rel=\"stylesheet\" href=\"/style.css\">", &style);
            pages.push((format!("{name} as {role}"), html));
        };
        for path in paths {
            keep(path, &browser.get(path).text());
        }
        match role {
            "administrator" => {
                let model = browser.json("/settings");
                let text = model["text"].as_str().unwrap().replace("size_limit = 1000", "size_limit = 77");
                let text = text.replace("\"all: allow read, ", "\"all: allow read of cn, ");
                let version = model["version"].to_string();
                let fields = [("text", text.as_str()), ("version", &version)];
                keep("a plan", &browser.post("/settings", &fields).text());
                keep("a rehearsal", &browser.post("/access/rehearse", &fields).text());
                keep("a conflict", &browser.post("/settings", &[("text", "x"), ("step", "apply")]).text());
            }
            "auditor" => keep("a history", &browser.get(&format!("/history?dn={anna}")).text()),
            _ => keep("an entry", &browser.get(&format!("/entry?dn={anna}")).text()),
        }
    }
    let found = look(&scratch, &pages);
    let found = found.as_array().unwrap();
    assert_eq!(found.len(), pages.len() * WIDTHS.len());
    for one in found {
        assert_eq!(one["scroll_width"], one["width"], "wider than the screen: {one}");
        assert_eq!((&one["titles"], one["unnamed"].as_array().map(Vec::len)), (&1.into(), Some(0)), "{one}");
        assert_eq!(one["twice"].as_array().map(Vec::len), Some(0), "{one}");
    }
    assert!(pando.stop().success());
}
