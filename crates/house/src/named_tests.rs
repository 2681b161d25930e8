//! Tests that documents name: `CRATE/PATH.rs::NAME` in a page below `docs/` is a test of that name in that file below
//! `crates/`. So a page that proves something by tests cannot outlive them.

use crate::files::Files;

/// Returns the tests that a page names and no file has.
pub(crate) fn check(files: &Files) -> Result<Vec<String>, String> {
    let mut offences = Vec::new();
    let is_page = |name: &&String| name.starts_with("docs/") && name.ends_with(".md");
    for page in files.names.iter().filter(is_page) {
        for (line, file, test) in named(&files.text(page)?) {
            let path = format!("crates/{file}");
            let text = if files.names.contains(&path) { files.text(&path)? } else { String::new() };
            if !has_test(&text, &test) {
                offences.push(format!("{page}:{line}: there is no test {test} in {path}"));
            }
        }
    }
    Ok(offences)
}

/// Returns the tests that a page names: the line, the file and the name of each.
fn named(page: &str) -> Vec<(usize, String, String)> {
    let spans = (1..).zip(page.lines()).flat_map(|(line, text)| {
        let spans = text.split('`').skip(1).step_by(2);
        spans.filter_map(move |span| Some((line, span.split_once(".rs::")?)))
    });
    spans.map(|(line, (file, test))| (line, format!("{file}.rs"), test.to_owned())).collect()
}

/// Returns true if a source has a test of that name.
fn has_test(source: &str, name: &str) -> bool {
    let head = format!("fn {name}(");
    let lines: Vec<&str> = source.lines().map(str::trim_start).collect();
    let is_it = |index: usize| {
        let before = lines.get(..index).unwrap_or_default().iter().rev();
        before.take_while(|line| line.starts_with("#[")).any(|line| *line == "#[test]")
    };
    (0..lines.len()).filter(|index| lines.get(*index).is_some_and(|line| line.starts_with(&head))).any(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_a_function_with_its_attribute() {
        let source = "#[test]\nfn one() {}\n\n    #[test]\n    #[ignore]\n    fn two() {}\nfn three() {}\n";
        let found = ["one", "two", "three", "four", "on"].map(|name| has_test(source, name));
        assert_eq!(found, [true, true, false, false, false]);
    }

    #[test]
    fn spans_that_name_tests_are_found_with_their_lines() {
        let page = "By `a/tests/b.rs::c`\nand `x.rs`, `d/src/e.rs::f`.\n";
        let expected = [(1, "a/tests/b.rs", "c"), (2, "d/src/e.rs", "f")];
        let expected = expected.map(|(line, file, test)| (line, file.to_owned(), test.to_owned()));
        assert_eq!(named(page), expected);
    }
}
