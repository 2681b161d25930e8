//! Check of columns: no line of code, scripts, settings or text may be longer than [`COLUMNS_MAX`].

use crate::files::Files;

/// Maximum length of a line in characters. Two windows of this width fit next to each other, and a diff does not fold
/// lines.
const COLUMNS_MAX: usize = 120;

/// Endings of the checked files; scripts without an ending are checked too.
const ENDINGS: [&str; 5] = [".md", ".py", ".rs", ".sh", ".toml"];
const SCRIPTS: [&str; 2] = [".ci/run", "dev"];

/// Folders of files that are not checked: results of measurements, fuzzing corpora, and published tables.
const DATA: [&str; 3] = ["bench-runs/", "crates/bench/documents/", "fuzz/corpus/"];

/// Returns the lines that are too long.
pub(crate) fn check(files: &Files) -> Result<Vec<String>, String> {
    let mut offences = Vec::new();
    for name in files.names.iter().filter(|name| is_checked(name)) {
        offences.extend(wide_lines(name, &files.text(name)?));
    }
    Ok(offences)
}

fn is_checked(name: &str) -> bool {
    let is_text = SCRIPTS.contains(&name) || ENDINGS.iter().any(|ending| name.ends_with(ending));
    is_text && !DATA.iter().any(|folder| name.starts_with(folder))
}

fn wide_lines(name: &str, text: &str) -> Vec<String> {
    let wide = |line: &str| line.chars().count() > COLUMNS_MAX && !is_unbreakable(line);
    let lines = text.lines().enumerate().filter(|(_, line)| wide(line));
    lines
        .map(|(index, line)| {
            format!("{name}:{}: {} columns, {COLUMNS_MAX} are allowed", index + 1, line.chars().count())
        })
        .collect()
}

/// Returns true if a line has no space to break at, as a hash or a link, or if it is the definition of a link.
fn is_unbreakable(line: &str) -> bool {
    let content = line.trim_start().trim_start_matches(['/', '!', '#']).trim_start();
    let mut words = content.split_whitespace();
    let (first, second, third) = (words.next().unwrap_or_default(), words.next(), words.next());
    let is_link_definition = first.starts_with('[') && first.ends_with("]:") && third.is_none();
    second.is_none() || is_link_definition
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: bool) {
        assert_eq!(wide_lines("a.rs", &format!("short\n{line}\n")).len(), usize::from(expected), "{line}");
    }

    #[test]
    fn a_line_of_121_columns_is_an_offence() {
        let words = "ab ".repeat(40);
        check(&words, false);
        check(&format!("{words}c"), true);
        check(&format!("{}ü", &words[1..]), false);
        assert_eq!(wide_lines("a.rs", &format!("\n{words}c")), ["a.rs:2: 121 columns, 120 are allowed"]);
    }

    #[test]
    fn unbreakable_lines_may_be_longer() {
        let word = "x".repeat(130);
        for line in [word.clone(), format!("    \"{word}\","), format!("[1]: https://example.com/{word}")] {
            check(&line, false);
        }
        check(&format!("see {word}"), true);
        check(&format!("// see {word}"), true);
        check(&format!("| a | {word} |"), true);
    }

    #[test]
    fn data_files_are_not_checked() {
        for (name, expected) in [
            ("crates/ber/src/lib.rs", true),
            ("dev", true),
            ("README.md", true),
            ("bench-runs/2026-11-22-full/README.md", false),
            ("crates/bench/documents/sun.toml", false),
            ("Cargo.lock", false),
            ("crates/schema/files/core.schema", false),
        ] {
            assert_eq!(is_checked(name), expected, "{name}");
        }
    }
}
