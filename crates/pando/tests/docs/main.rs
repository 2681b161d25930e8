//! Runs the commands of the pages of docs/ as they are written, each page on a separate host. The tests replace only
//! what depends on the reader, such as a time or a password.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod administration;
mod bench;
#[cfg(feature = "kafka")]
mod cluster;
mod data;
mod host;
mod runbook;

use std::collections::BTreeSet;
use std::path::Path;

use test_support::clients::repository;
use test_support::page::{Blocks, Page, has_commands, without_output};

/// Pages whose commands are run, with the tests that run them.
const PAGES: &[(&str, fn())] = &[
    ("explanation/indexes.md", data::indexes),
    ("how-to/access-rules.md", administration::access_rules),
    ("how-to/audit.md", administration::audit),
    ("how-to/backup.md", data::backup),
    ("how-to/benchmark.md", bench::benchmark),
    #[cfg(feature = "kafka")]
    ("how-to/cluster.md", cluster::cluster),
    ("how-to/configure.md", administration::configure),
    ("how-to/console.md", administration::console),
    ("how-to/container.md", administration::container),
    ("how-to/declare.md", runbook::the_page_about_declared_entries_is_true),
    ("how-to/follow.md", data::follow),
    ("how-to/generate.md", data::generate),
    ("how-to/install.md", administration::install),
    ("how-to/kerberos.md", administration::kerberos),
    ("how-to/load.md", data::load),
    ("how-to/migrate.md", data::migrate),
    ("how-to/password-policies.md", administration::password_policies),
    ("how-to/peers.md", bench::peers),
    ("how-to/runbook.md", runbook::each_section_of_the_runbook_does_what_it_says),
    ("how-to/sasl.md", administration::sasl),
    ("how-to/scim.md", administration::scim),
    ("how-to/tls.md", administration::tls),
    ("how-to/twin.md", data::twin),
    ("how-to/values.md", data::values),
    ("reference/tools.md", data::tools),
    ("tutorial/start.md", administration::tutorial),
];

/// Commands that are not run: the page, the beginning of the command (empty for the whole page), and the reason. A
/// command at the beginning of a block stands for the whole block.
const LEFT_OUT: &[(&str, &str, &str)] = &[
    (
        "how-to/access-rules.md",
        "ldapsearch -o ldif-wrap=no",
        "needs 389 DS or OpenDJ: access::translate has their rules",
    ),
    ("how-to/benchmark.md", "./dev bench", "builds the release and installs the peers"),
    #[cfg(not(feature = "kafka"))]
    ("how-to/cluster.md", "", "needs a build with the feature kafka"),
    ("how-to/connect.md", "", "protocol::connect runs it, section by section"),
    ("how-to/container.md", "kubectl", "needs Kubernetes: ./dev try-packages checks the chart"),
    ("how-to/install.md", "./dev package", "builds the release, and changes the machine: ./dev try-packages"),
    ("how-to/install.md", "systemctl", "needs systemd: ./dev try-packages"),
    ("how-to/migrate.md", "dsctl", "is a program of 389 DS"),
    ("how-to/migrate.md", "export-ldif", "is a program of OpenDJ"),
    ("how-to/peers.md", "./dev peers", "installs the peers"),
    ("how-to/peers.md", "./dev bench", "builds the release, and takes hours"),
    ("reference/store-format.md", "pando backup 1", "the head of a file, which begins like a command"),
    ("tutorial/start.md", "./dev run", "builds the program: `./dev` has checks of its own"),
    ("tutorial/start.md", "cargo build", "the tests have built the program"),
];

/// Asserts that a test has used all blocks of a page that contain commands.
#[track_caller]
fn all_used(blocks: &Blocks, page: &str) {
    let left_out = |block: &&str| {
        !LEFT_OUT
            .iter()
            .any(|(left_out, start, _)| *left_out == page && block.trim_start().starts_with(start))
    };
    let unused: Vec<&str> = blocks.unused_commands().into_iter().filter(left_out).collect();
    assert!(unused.is_empty(), "{page}: no test runs {unused:#?}");
}

/// Returns the pages of docs/ that contain commands, except decision records.
fn pages_with_commands() -> BTreeSet<String> {
    let docs = repository().join("docs");
    let mut pages = BTreeSet::new();
    for folder in ["", "explanation", "how-to", "reference", "tutorial"] {
        for file in std::fs::read_dir(docs.join(folder)).unwrap() {
            let name = Path::new(folder).join(file.unwrap().file_name()).display().to_string();
            if name.ends_with(".md")
                && Page::read(&name, &[]).blocks().iter().any(|block| has_commands(block))
            {
                pages.insert(name);
            }
        }
    }
    pages
}

/// Every page with commands has a test, because otherwise mistakes on the page would not be noticed.
#[test]
fn every_page_with_commands_runs_or_has_a_reason_not_to() {
    for page in pages_with_commands() {
        let blocks = Page::read(&page, &[]).blocks();
        let with_commands = blocks.iter().filter(|block| has_commands(block));
        let left_out = |block: &&String| {
            LEFT_OUT
                .iter()
                .any(|(left_out, start, _)| *left_out == page && block.trim_start().starts_with(start))
        };
        let has_test = PAGES.iter().any(|(with_test, _)| *with_test == page);
        let unknown: Vec<&String> = with_commands.filter(|block| !has_test && !left_out(block)).collect();
        assert!(unknown.is_empty(), "{page}: no test runs {unknown:#?}");
    }
    for (page, start, reason) in LEFT_OUT {
        let blocks = Page::read(page, &[]).blocks();
        let found =
            blocks.iter().flat_map(|block| block.lines()).any(|line| line.trim_start().starts_with(start));
        assert!(found && !reason.is_empty(), "{page} has no {start:?}, or there is no reason");
    }
}

#[test]
fn commands_are_distinguished_from_other_blocks() {
    for commands in
        ["pando export\n", "$ pando x\n", "node1$ pando x\n", "a\n./dev run\n", "A_B=c D=e ldapwhoami\n"]
    {
        assert!(has_commands(commands), "{commands}");
    }
    for other in ["data = 1\n", "dn: cn=pando\n", "[log]\n", "T = pando\n"] {
        assert!(!has_commands(other), "{other}");
    }
    assert_eq!(without_output("$ a \\\n  b\nsaid\n$ c\n"), "a \\\n  b\nc\n");
    assert_eq!(without_output("a\nb\n"), "a\nb\n");
}

#[test]
fn blocks_and_tables_are_found() {
    let text = "# T\n\n## A\n\ntext\n\n    one\n\n      two\n\ntext\n\n    three\n\n## B\n\n\
                | setting | value |\n|---|---|\n| x y | `z` |\n";
    let page = Page::of(text);
    assert_eq!(page.headings(), ["A", "B"]);
    assert_eq!(page.section("A").blocks, ["one\n\n  two\n", "three\n"]);
    assert_eq!(page.section("B").rows, [("x y".to_owned(), "z".to_owned())]);
    assert!(page.section("A").rows.is_empty() && page.section("B").blocks.is_empty());
}
