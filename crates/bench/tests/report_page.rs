//! Tests of the report in a real browser. All content must be visible and fit on the screen and on paper, and the
//! browser must report no errors.
//!
//! The page has no scripts, so another page shows it in a frame, examines it, and prints the findings.

#![allow(clippy::unwrap_used)]

use bench::report::Report;
use bench::result::RunResult;
use bench::{Seeded, result};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[path = "../src/report/tests/sample.rs"]
#[allow(dead_code)]
mod sample;

/// Script that examines the report in its frame, at one width.
const LOOK: &str = r#"
const frame = document.querySelector("iframe");
frame.onload = () => {
  const page = frame.contentDocument, root = page.documentElement, view = frame.contentWindow;
  const shown = (element) => { const box = element.getBoundingClientRect(); return box.width > 20 && box.height > 5; };
  const wide = [...page.querySelectorAll("body *")].filter((element) =>
    !element.closest(".scroll, svg") && element.getBoundingClientRect().right > root.clientWidth + 1);
  const lines = [...page.querySelectorAll("svg polyline")];
  const hidden = [...page.querySelectorAll("h1, h2, h3, figure, svg, caption, .banner li, .assurance, .verdict, pre")]
    .filter((element) => !shown(element));
  const tables = [...page.querySelectorAll("table")];
  document.getElementById("found").textContent = JSON.stringify({
    width: root.clientWidth,
    scroll_width: root.scrollWidth,
    overflowing: wide.slice(0, 5).map((element) => element.outerHTML.slice(0, 120)),
    hidden: hidden.slice(0, 5).map((element) => element.outerHTML.slice(0, 120)),
    plots: page.querySelectorAll("svg").length,
    plots_without_name: page.querySelectorAll("svg:not([aria-label])").length,
    uncoloured_lines: lines.filter((line) => !/^rgb/.test(view.getComputedStyle(line).stroke)).length,
    lines: lines.length,
    tables_without_heads: tables.filter((table) => !table.querySelector("th[scope=col]")).length,
    background: view.getComputedStyle(page.body).backgroundColor,
    banner: page.querySelectorAll("[role=alert] li").length,
    banner_top: page.querySelector("[role=alert]")?.getBoundingClientRect().top ?? -1,
  });
};
"#;

/// A separate folder that is removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("pando-report-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs the browser without a window. The test fails if no browser is installed.
fn browser(folder: &Path, arguments: &[&str], page: &Path) -> Output {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = names.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok());
    let Some(program) = found else {
        panic!(
            "no Chromium here to look at the report with: `./dev test` installs it, or `apt-get install chromium`"
        );
    };
    // The browser is ended after two minutes, in case it hangs.
    let output = Command::new("timeout")
        .args([
            "120",
            program,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ])
        .args(["--enable-logging=stderr", "--hide-scrollbars"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .args(arguments)
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("timeout(1) is part of coreutils");
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    let log = String::from_utf8_lossy(&output.stderr);
    let complaints: Vec<_> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(complaints.is_empty(), "the console says {complaints:?}");
    output
}

/// Returns the layout of a page in a browser frame of this width.
fn layout_of(name: &str, html: &str, width: u32, arguments: &[&str]) -> Value {
    let folder = Folder::new(&format!("{name}-{width}"));
    let framed = html.replace('&', "&amp;").replace('<', "&lt;");
    let holder = format!(
        "<!doctype html><body style=\"margin:0\"><pre id=\"found\"></pre>\
         <iframe style=\"border:0;width:{width}px;height:2000px\"></iframe><script>{LOOK}</script>\
         <script>frame.srcdoc = document.getElementById('held').value</script>"
    );
    let holder =
        holder.replace("<pre id", &format!("<textarea id=\"held\" hidden>{framed}</textarea><pre id"));
    let page = folder.0.join("holder.html");
    fs::write(&page, holder).unwrap();
    let all = [&["--dump-dom", "--virtual-time-budget=10000", "--window-size=1400,2000"], arguments].concat();
    let output = browser(&folder.0, &all, &page);
    let dom = String::from_utf8(output.stdout).unwrap();
    let found = dom.split("<pre id=\"found\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let found = found.unwrap_or_else(|| panic!("nothing found in {dom}"));
    let found = found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&found).unwrap_or_else(|error| panic!("{error}: {found}"))
}

fn html(run: RunResult) -> String {
    Report::new(vec![run]).html().unwrap()
}

fn check(name: &str, html: &str, width: u32, arguments: &[&str]) -> Value {
    let found = layout_of(name, html, width, arguments);
    assert_eq!(found["width"], width, "{found}");
    assert_eq!(found["scroll_width"], width, "the page is wider than the screen: {found}");
    for nothing in ["overflowing", "hidden"] {
        assert_eq!(found[nothing].as_array().map(Vec::len), Some(0), "{nothing} at {width}: {found}");
    }
    for none in ["plots_without_name", "uncoloured_lines", "tables_without_heads"] {
        assert_eq!(found[none], 0, "{none} at {width}: {found}");
    }
    found
}

#[test]
fn pages_fit_on_wide_and_narrow_screens() {
    let page = html(sample::comparison());
    for width in [1280, 400] {
        let found = check("clean", &page, width, &[]);
        assert!(found["plots"].as_u64().unwrap() >= 5 * 5, "{found}");
        assert!(found["lines"].as_u64().unwrap() >= 100, "{found}");
        assert_eq!(found["banner"], 0);
    }
    check("sweep", &html(sample::sweep()), 400, &[]);
}

#[test]
fn failures_are_on_the_first_screen() {
    let page = html(sample::faulty_comparison());
    for width in [1280, 400] {
        let found = check("broken", &page, width, &[]);
        assert!(found["banner"].as_u64().unwrap() >= 5, "{found}");
        assert!((1.0..400.0).contains(&found["banner_top"].as_f64().unwrap()), "{found}");
    }
}

#[test]
fn the_page_follows_the_preferred_colour_scheme() {
    let page = html(sample::sweep());
    let light = check("light", &page, 1280, &["--blink-settings=preferredColorScheme=1"]);
    let dark = check("dark", &page, 1280, &["--blink-settings=preferredColorScheme=0"]);
    assert_eq!(light["background"], "rgb(255, 255, 255)");
    assert_eq!(dark["background"], "rgb(18, 21, 26)");
}

#[test]
fn the_report_prints_on_several_pages() {
    let folder = Folder::new("print");
    let page = folder.0.join("report.html");
    let pdf = folder.0.join("report.pdf");
    fs::write(&page, html(sample::comparison())).unwrap();
    let print = format!("--print-to-pdf={}", pdf.display());
    browser(&folder.0, &["--no-pdf-header-footer", &print], &page);
    let bytes = fs::read(&pdf).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    let pages = text.matches("/Type /Page\n").count();
    assert!((4..40).contains(&pages), "{pages} pages");
}

/// Writes the sample pages, with invented figures, into the folder that PANDO_REPORT_SAMPLES names. The pages are for
/// people who work on the report.
#[test]
fn sample_pages() {
    let Ok(folder) = std::env::var("PANDO_REPORT_SAMPLES") else { return };
    let folder = Path::new(&folder);
    fs::create_dir_all(folder).unwrap();
    for (name, run) in
        [("clean", sample::comparison()), ("broken", sample::faulty_comparison()), ("sweep", sample::sweep())]
    {
        fs::write(folder.join(name).with_extension("html"), html(run.clone())).unwrap();
        run.write(&folder.join(name).with_extension("json")).unwrap();
    }
}
