//! A page of the documentation: its sections, their code blocks and tables, and its commands.

use std::cell::RefCell;

use super::clients::repository;

/// The text of a page.
pub struct Page(String);

/// A section of a page, from its heading to the next.
pub struct Section {
    /// The indented code blocks in order, without their indentation.
    pub blocks: Vec<String>,
    /// The rows of all tables as setting and value, without backquotes.
    pub rows: Vec<(String, String)>,
}

impl Page {
    /// Returns the page with this text.
    pub fn of(text: &str) -> Page {
        Page(text.to_owned())
    }

    /// Reads `docs/NAME`, and replaces names and addresses of examples.
    pub fn read(name: &str, replaced: &[(&str, &str)]) -> Page {
        let path = repository().join("docs").join(name);
        let mut text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        for (example, real) in replaced {
            assert!(text.contains(example), "{name} shows no {example:?}");
            text = text.replace(example, real);
        }
        Page(text)
    }

    /// Returns the headings of the second level, in order.
    pub fn headings(&self) -> Vec<&str> {
        self.0.lines().filter_map(|line| line.strip_prefix("## ")).collect()
    }

    /// Returns the section with a heading.
    pub fn section(&self, heading: &str) -> Section {
        let start = format!("\n## {heading}\n");
        let (_, rest) = self.0.split_once(&start).unwrap_or_else(|| panic!("no section {heading:?}"));
        let text = rest.split("\n## ").next().unwrap();
        Section { blocks: blocks(text), rows: rows(text) }
    }

    /// Returns the indented code blocks of the whole page, in order.
    pub fn blocks(&self) -> Vec<String> {
        blocks(&self.0)
    }
}

/// The code blocks of a page. Each block that contains commands must be used by a test.
pub struct Blocks {
    page: &'static str,
    blocks: Vec<String>,
    is_used: RefCell<Vec<bool>>,
}

impl Blocks {
    /// Reads `docs/PAGE`.
    pub fn of(page: &'static str) -> Blocks {
        let blocks = Page::read(page, &[]).blocks();
        let is_used = RefCell::new(vec![false; blocks.len()]);
        Blocks { page, blocks, is_used }
    }

    /// Returns the only block that begins with `start`.
    #[track_caller]
    pub fn block(&self, start: &str) -> &str {
        let begins = |(_, block): &(usize, &String)| block.trim_start().starts_with(start);
        let mut found = self.blocks.iter().enumerate().filter(begins);
        let Some((number, block)) = found.next() else { panic!("{}: no block {start:?}", self.page) };
        assert!(found.next().is_none(), "{}: several blocks {start:?}", self.page);
        self.is_used.borrow_mut()[number] = true;
        block
    }

    /// Returns the blocks with commands that no test has used so far.
    pub fn unused_commands(&self) -> Vec<&str> {
        let is_used = self.is_used.borrow();
        let unused = self
            .blocks
            .iter()
            .zip(is_used.iter())
            .filter(|(block, is_used)| !**is_used && has_commands(block));
        unused.map(|(block, _)| block.as_str()).collect()
    }
}

/// Words with which a command line begins.
const PROGRAMS: [&str; 31] = [
    "apt",
    "cargo",
    "curl",
    "dsctl",
    "echo",
    "export-ldif",
    "git",
    "helm",
    "kadmin",
    "kinit",
    "kubectl",
    "ldapadd",
    "ldapmodify",
    "ldapsearch",
    "ldapwhoami",
    "mkdir",
    "openssl",
    "pando",
    "podman",
    "python3",
    "runuser",
    "scp",
    "slapadd",
    "slapcat",
    "sudo",
    "systemctl",
    "java",
    "keytool",
    "docker",
    "journalctl",
    "ldappasswd",
];

/// Returns true if a block contains a command, possibly after a prompt or settings of environment variables.
pub fn has_commands(block: &str) -> bool {
    let is_command = |line: &str| {
        let line =
            line.split_once("$ ").filter(|(prompt, _)| !prompt.contains(' ')).map_or(line, |(_, rest)| rest);
        let mut words = line.split_whitespace().skip_while(|word| {
            word.split_once('=').is_some_and(|(name, _)| {
                !name.is_empty() && name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_')
            })
        });
        let first = words.next().unwrap_or_default();
        first.starts_with("./dev") || first.starts_with("target/") || PROGRAMS.contains(&first)
    };
    block.lines().any(is_command)
}

/// Returns the commands of a block with prompts, without the output shown. Other blocks are returned unchanged.
pub fn without_output(block: &str) -> String {
    if !block.trim_start().starts_with("$ ") {
        return block.to_owned();
    }
    let (mut commands, mut is_continued) = (String::new(), false);
    for line in block.lines() {
        let command = match line.trim_start().strip_prefix("$ ") {
            Some(command) => command,
            None if is_continued => line,
            None => continue,
        };
        commands += &format!("{command}\n");
        is_continued = command.ends_with('\\');
    }
    commands
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
            // An empty line belongs to a block if the block continues after it.
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
