//! Check of the tests that documents name. In a page below `docs/`, `CRATE/PATH.rs::NAME` is the test with that name in
//! that file below `crates/`. A name alone after "Test:" is a test in any file. If a named test is removed, the page
//! must change too.

use crate::files::Files;

/// A test that a page names.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    line: usize,
    /// The test's file below `crates/`; `None` if the test may be in any file.
    file: Option<String>,
    test: String,
}

/// Returns the tests that a page names but no file has.
pub(crate) fn check(files: &Files) -> Result<Vec<String>, String> {
    let mut offences = Vec::new();
    let is_source = |name: &&String| name.starts_with("crates/") && name.ends_with(".rs");
    let sources: Vec<(&String, String)> = files
        .names
        .iter()
        .filter(is_source)
        .map(|name| Ok((name, files.text(name)?)))
        .collect::<Result<_, String>>()?;
    let is_page = |name: &&String| name.starts_with("docs/") && name.ends_with(".md");
    for page in files.names.iter().filter(is_page) {
        for Named { line, file, test } in tests_named_in(&files.text(page)?) {
            let is_in = |name: &str| {
                file.as_ref().is_none_or(|file| name.strip_prefix("crates/") == Some(file.as_str()))
            };
            if !sources.iter().any(|(name, text)| is_in(name) && has_test(text, &test)) {
                let place = file.map(|file| format!("crates/{file}")).unwrap_or_else(|| "crates".to_owned());
                offences.push(format!("{page}:{line}: there is no test {test} in {place}"));
            }
        }
    }
    Ok(offences)
}

/// Returns the tests that a page names.
fn tests_named_in(page: &str) -> Vec<Named> {
    let (mut line, mut before, mut found) = (1, "", Vec::new());
    for (index, part) in page.split('`').enumerate() {
        let is_span = index % 2 == 1;
        let is_name = part
            .chars()
            .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_');
        if is_span && let Some((file, test)) = part.split_once(".rs::") {
            found.push(Named { line, file: Some(format!("{file}.rs")), test: test.to_owned() });
        } else if is_span && is_name && before.trim_end().ends_with("Test:") {
            found.push(Named { line, file: None, test: part.to_owned() });
        }
        line += part.matches('\n').count();
        before = part;
    }
    found
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
        let page = "By `a/tests/b.rs::c`\nand `x.rs`, `d/src/e.rs::f`. `g_h` is none. Test:\n  `i_j`.\n";
        let of = |line, file: Option<&str>, test: &str| Named {
            line,
            file: file.map(str::to_owned),
            test: test.to_owned(),
        };
        let expected = [of(1, Some("a/tests/b.rs"), "c"), of(2, Some("d/src/e.rs"), "f"), of(3, None, "i_j")];
        assert_eq!(tests_named_in(page), expected);
    }
}
