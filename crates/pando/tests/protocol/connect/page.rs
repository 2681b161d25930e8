//! The sections of a page of the documentation: what they show in code blocks and tables.

use crate::support;

use support::clients::repository;

/// A page.
pub(super) struct Page(String);

/// A section of it, from its heading to the next.
pub(super) struct Section {
    /// The indented blocks, in order, without their indentation.
    pub(super) blocks: Vec<String>,
    /// The rows of all its tables: setting and value, without the marks of code.
    pub(super) rows: Vec<(String, String)>,
}

impl Page {
    /// Reads `docs/how-to/NAME`, with the names and addresses of examples replaced.
    pub(super) fn read(name: &str, replaced: &[(&str, &str)]) -> Page {
        let path = repository().join("docs/how-to").join(name);
        let mut text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        for (example, real) in replaced {
            assert!(text.contains(example), "{name} shows no {example:?}");
            text = text.replace(example, real);
        }
        Page(text)
    }

    /// The headings of the second level, in order.
    pub(super) fn headings(&self) -> Vec<&str> {
        self.0.lines().filter_map(|line| line.strip_prefix("## ")).collect()
    }

    /// The section below a heading.
    pub(super) fn section(&self, heading: &str) -> Section {
        let start = format!("\n## {heading}\n");
        let (_, rest) = self.0.split_once(&start).unwrap_or_else(|| panic!("no section {heading:?}"));
        let text = rest.split("\n## ").next().unwrap();
        Section { blocks: blocks(text), rows: rows(text) }
    }
}

fn blocks(text: &str) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    let mut is_within = false;
    for line in text.lines() {
        match (line.strip_prefix("    "), line.is_empty()) {
            (Some(code), _) if is_within => *blocks.last_mut().unwrap() += &format!("{code}\n"),
            (Some(code), _) => {
                is_within = true;
                blocks.push(format!("{code}\n"));
            }
            // An empty line is within a block if the block goes on.
            (None, true) if is_within => *blocks.last_mut().unwrap() += "\n",
            (None, true) => {}
            (None, false) => is_within = false,
        }
    }
    blocks.iter().map(|block| format!("{}\n", block.trim_end())).collect()
}

fn rows(text: &str) -> Vec<(String, String)> {
    let cells = |line: &str| {
        let (setting, value) = line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")?;
        Some((setting.to_owned(), value.trim_matches('`').to_owned()))
    };
    text.lines().filter_map(cells).filter(|(setting, _)| setting != "setting").collect()
}

#[test]
fn blocks_and_tables_are_found() {
    let text = "# T\n\n## A\n\ntext\n\n    one\n\n      two\n\ntext\n\n    three\n\n## B\n\n\
                | setting | value |\n|---|---|\n| x y | `z` |\n";
    let page = Page(text.to_owned());
    assert_eq!(page.headings(), ["A", "B"]);
    assert_eq!(page.section("A").blocks, ["one\n\n  two\n", "three\n"]);
    assert_eq!(page.section("B").rows, [("x y".to_owned(), "z".to_owned())]);
    assert!(page.section("A").rows.is_empty() && page.section("B").blocks.is_empty());
}
