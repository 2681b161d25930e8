//! The pages in Chromium, as each role sees them. On wide and narrow screens, nothing may be wider than the screen.
//! Each control must have a name. In the light and in the dark style, axe-core must find nothing serious or critical.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::compare::{NEWEST, back_up, backup_table, compared};
use crate::large;
use crate::people;
use test_support::clients::repository;
use test_support::http::{Answer, Browser, get, quoted};
use test_support::tree::{add_person, person_dn, plant, plant_policy, replace};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

/// Widths of the screens, in pixels.
const WIDTHS: [u64; 2] = [1280, 400];

/// Script that shows each page in a frame, and reports its defects.
const INSPECTION_SCRIPT: &str = include_str!("look.js");

/// Link to the style sheet in each page. The test replaces the link with the style itself.
const STYLE_LINK: &str = "<link rel=\"stylesheet\" href=\"/style.css\">";

/// Paths that answer GET without a page: `/photo` returns a picture.
const NO_PAGES: [&str; 1] = ["/photo"];

/// A finding that is accepted: the user has requested the automatic reload of this page, and can stop it with a link.
const REFRESHED: (&str, &str) = ("/?live=1 as administrator", "meta-refresh");

/// Runs Chromium on a page, and returns the findings of its script. If Chromium or axe-core is missing, the test fails.
fn inspect(scratch: &Scratch, pages: &[(String, String)]) -> Value {
    let axe = repository().join(".dev/axe-core/axe.min.js");
    let axe = fs::read_to_string(&axe)
        .unwrap_or_else(|error| panic!("{}: {error}: `./dev test` installs it", axe.display()));
    let mut holder = "<!doctype html><body style=\"margin:0\"><pre id=\"found\"></pre>".to_owned();
    for (name, html) in pages {
        let html = html.replace('&', "&amp;").replace('<', "&lt;");
        write!(holder, "<textarea hidden title=\"{name}\">{html}</textarea>").unwrap();
    }
    assert!(!axe.contains("</script"), "the script would end its element");
    write!(holder, "<script id=\"axe\" type=\"text/plain\">{axe}</script>").unwrap();
    write!(holder, "<script>{}</script>", INSPECTION_SCRIPT.replace("WIDTHS", &format!("{WIDTHS:?}")))
        .unwrap();
    let file = scratch.write("holder.html", holder);
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = names.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok());
    let program = found.expect("no Chromium here: `./dev test` installs it, or `apt-get install chromium`");
    // Chromium is ended after 15 minutes, in case it hangs.
    let output = Command::new("timeout")
        .args(["900", program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--no-first-run", "--hide-scrollbars", "--dump-dom", "--virtual-time-budget=600000"])
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

/// Starts a server with people, a group, rules, a policy that allows codes, an audit trail, and a backup. Anna's entry
/// is changed after the backup.
pub(crate) fn sample(scratch: &Scratch) -> Pando {
    sample_among(scratch, 0)
}

/// Starts the server of [`sample`] with this number of people in addition, and a group of all of them.
pub(crate) fn sample_among(scratch: &Scratch, others: u64) -> Pando {
    if others > 0 {
        large::import(scratch, others);
    }
    let trail = format!("[audit]\nfolder = {:?}\n", scratch.join("trail").to_str().unwrap());
    // The mail server is never used, because no page sends a mail.
    let mail = "[mail]\nserver = \"127.0.0.1:1\"\ntls = \"none\"\nsender = \"directory@example.com\"\n\
                console_url = \"https://directory.example.com\"\n";
    let pando = crate::start(scratch, &[&trail, mail, &backup_table(scratch)].concat());
    let mut administrator = pando.administrator();
    match others {
        0 => plant(&mut administrator),
        _ => large::limit_scans(&mut administrator, others),
    }
    for name in ["carl", "dora"] {
        add_person(&mut administrator, name);
    }
    let policy = [
        ("objectClass", "pandoPwdPolicy"),
        ("pandoPwdSelfService", "TRUE"),
        ("pandoPwdTotp", "TRUE"),
        ("pandoPwdAppPasswords", "2"),
        ("pwdMinLength", "8"),
    ];
    plant_policy(&mut administrator, &policy);
    let to = |name: &str| format!("to user '{}'", person_dn(name));
    let rules = [
        "all: allow read, search, browse to authenticated",
        "own: allow write of userPassword, description to self",
        &format!("audit: allow use of read-audit {}", to("bert")),
        &format!("help desk: allow reset {}", to("carl")),
        &format!("locks: allow write of pwdAccountLockedTime, pwdFailureTime {}", to("carl")),
    ];
    replace(&mut administrator, "cn=config", "pandoAccessRule", &rules);
    back_up(scratch);
    replace(&mut administrator, &person_dn("anna"), "title", &["Engineer"]);
    assert!(administrator.delete(&person_dn("dora")).unwrap().is_success());
    pando
}

/// A page that a person opened.
pub(crate) struct OpenedPage {
    /// Path and person.
    pub(crate) name: String,
    /// Time from the request to the last octet.
    pub(crate) time: Duration,
    /// Size of the HTML.
    pub(crate) octets: usize,
}

/// Pages of all roles, with their style sheets included.
pub(crate) struct Pages {
    style: String,
    all: Vec<(String, String)>,
    paths: BTreeSet<String>,
    opened: Vec<OpenedPage>,
}

impl Pages {
    fn keep(&mut self, path: &str, role: &str, answer: &Answer) {
        let html = answer.text();
        assert!(html.contains(STYLE_LINK), "{path} as {role}: {html}");
        self.paths.insert(path.split('?').next().unwrap().to_owned());
        self.all.push((format!("{path} as {role}"), html.replace(STYLE_LINK, &self.style)));
    }

    /// Requests a page, expects this status, and measures the time.
    pub(crate) fn open(&mut self, role: &str, browser: &Browser, path: &str, status: u16) -> Answer {
        self.time(format!("{path} as {role}"), status, || browser.get(path))
    }

    /// Makes a request, and measures the time. The answer must have this status.
    fn time(&mut self, name: String, status: u16, request: impl FnOnce() -> Answer) -> Answer {
        let start = Instant::now();
        let answer = request();
        let time = start.elapsed();
        assert_eq!(answer.status, status, "{name}: {}", answer.text());
        self.opened.push(OpenedPage { name, time, octets: answer.body.len() });
        answer
    }

    /// Adds the page with this path and status.
    pub(crate) fn see(&mut self, role: &str, browser: &Browser, path: &str, status: u16) {
        let answer = self.open(role, browser, path, status);
        self.keep(path, role, &answer);
    }

    /// Adds the pages with these paths. All requests must succeed.
    fn visit(&mut self, role: &str, browser: &Browser, paths: &[&str]) {
        for path in paths {
            self.see(role, browser, path, 200);
        }
    }

    /// Opens all these pages, and adds those that differ from what the administrator sees.
    fn see_all(&mut self, role: &str, browser: &Browser, paths: &BTreeSet<String>) {
        for path in paths {
            let expected = people::status(role, path);
            let answer = self.open(role, browser, &people::with_query(path), expected);
            let is_kept = [200, 403].contains(&expected) && !people::OPEN.contains(&path.as_str());
            if is_kept && role != "administrator" {
                self.keep(path, role, &answer);
            }
        }
    }

    /// Adds the pages that answer an administrator's forms.
    fn send(&mut self, browser: &Browser, anna: &str) {
        let model = browser.json("/settings");
        let text = model["text"].as_str().unwrap().replace("size_limit = 1000", "size_limit = 77");
        let text = text.replace("\"all: allow read, search,", "\"all: allow search,");
        let version = model["version"].to_string();
        let fields = [("text", text.as_str()), ("version", &version)];
        let form = browser.json(&format!("/edit?dn={}", quoted(anna)));
        let edit = [("dn", anna), ("csn", form["csn"].as_str().unwrap()), ("v:title", "<b>")];
        for (path, fields, status) in [
            ("/settings", &fields[..], 200),
            ("/access/rehearse", &fields, 200),
            ("/settings", &[("text", "x"), ("step", "apply")], 409),
            ("/edit", &edit, 200),
            ("/indexes", &[("attribute", "no-such"), ("kind", "equality")], 422),
        ] {
            let answer = self.time(format!("{path}, sent"), status, || browser.post(path, fields));
            self.keep(path, "administrator, sent", &answer);
        }
    }
}

/// Returns the paths of all pages, from the OpenAPI description of the console.
fn described(browser: &Browser) -> BTreeSet<String> {
    let description = browser.json("/openapi.json");
    let paths = description["paths"].as_object().unwrap().iter();
    let pages =
        paths.filter(|(path, methods)| methods.get("get").is_some() && !NO_PAGES.contains(&path.as_str()));
    pages.map(|(path, _)| path.clone()).collect()
}

#[test]
fn pages_fit_screens_and_axe_finds_nothing_serious_for_every_role() {
    open_and_inspect_pages(1_000);
}

/// Opens every page as each person, in a directory with this number of people in addition to the [`sample`], and
/// examines the pages in Chromium. Returns the times and sizes of the pages.
pub(crate) fn open_and_inspect_pages(others: u64) -> Vec<OpenedPage> {
    let scratch = Scratch::new("console-chromium");
    let pando = sample_among(&scratch, others);
    let (anna, group) = (person_dn("anna"), format!("cn=staff,ou=groups,{SUFFIX}"));
    let (of_anna, of_group) = (format!("dn={}", quoted(&anna)), format!("dn={}", quoted(&group)));
    let at_anna = |path: &str| format!("{path}?{of_anna}");
    let anonymous = Browser::new(&pando);
    let style = get(anonymous.address, "/style.css", "").text();
    let mut pages = Pages {
        style: format!("<style>{style}</style>"),
        all: Vec::new(),
        paths: BTreeSet::new(),
        opened: Vec::new(),
    };
    pages.visit(
        "anonymous",
        &anonymous,
        &["/sign-in?notice=out", "/health", "/forgotten-password", "/new-password?token=x"],
    );
    pages.keep(
        "/sign-in",
        "anonymous, refused",
        &anonymous.post("/sign-in", &[("name", "anna"), ("password", "x")]),
    );

    let administrator = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let own =
        ["/edit", "/rename", "/delete", "/reset-password", "/photo/change", "/account-state", "/history"]
            .map(at_anna);
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    pages.visit("administrator", &administrator, &own);
    assert_eq!(compared(&administrator, &anna, NEWEST)["exists"], true);
    let paths = [
        "/",
        &format!("/compare?{of_anna}&at={NEWEST}"),
        &format!("/compare/tree?dn={}&at={NEWEST}", quoted(&person_dn("dora"))),
        "/?live=1",
        "/manage",
        "/me",
        "/settings",
        "/indexes",
        "/nodes",
        "/audit",
        "/policies",
        "/deleted",
        "/access/rehearse",
        "/schema?q=mail",
        "/search?q=a&columns=cn%20mail",
        "/add?kind=person",
        "/history?dn=cn%3Dconfig",
        &format!("/tree?dn={SUFFIX}"),
        &format!("/access?{of_anna}&right=read&attribute=mail&who=carl"),
        &format!("/access?{of_anna}&right=read&attribute=mail"),
        &format!("/access?dn={}&right=reset", quoted(SUFFIX)),
        &format!("/entry?{of_anna}&operational=1"),
        &format!("/members?{of_group}"),
    ];
    pages.visit("administrator", &administrator, &paths);
    pages.send(&administrator, &anna);
    let described = described(&administrator);
    for (role, name) in people::SIGNED_IN {
        let browser = people::signed_in(&pando, (role, name));
        pages.see_all(role, &browser, &described);
        large::see_lists(&mut pages, role, &browser, others);
    }
    pages.see_all("anonymous", &anonymous, &described);
    assert_eq!(pages.paths, described);
    let found = inspect(&scratch, &pages.all);
    let found = found.as_array().unwrap_or_else(|| panic!("{found}"));
    assert_eq!(found.len(), pages.all.len());
    let wrong: Vec<String> = found.iter().flat_map(defects).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(pando.stop().success());
    pages.opened
}

/// Returns the defects of a page, from the findings about it.
fn defects(one: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let layouts = one["layouts"].as_array().unwrap();
    assert_eq!(layouts.len(), WIDTHS.len());
    let is_empty = |list: &Value| list.as_array().is_some_and(Vec::is_empty);
    for layout in layouts {
        let fits = layout["scroll_width"] == layout["width"] && layout["titles"] == 1;
        if !fits
            || !is_empty(&layout["unnamed"])
            || !is_empty(&layout["twice"])
            || !is_empty(&layout["foreign"])
        {
            wrong.push(format!("{}: {layout}", one["page"]));
        }
    }
    for (colours, rules_min) in [("light", 10), ("dark", 1)] {
        let of = &one[colours];
        assert!(of["rules"].as_u64() >= Some(rules_min), "axe-core examined nothing: {one}");
        let violations = of["violations"].as_array().unwrap();
        let counts = |violation: &&Value| {
            (&one["page"], &violation["rule"]) != (&REFRESHED.0.into(), &REFRESHED.1.into())
        };
        wrong
            .extend(violations.iter().filter(counts).map(|of| format!("{} in {colours}: {of}", one["page"])));
    }
    wrong
}
