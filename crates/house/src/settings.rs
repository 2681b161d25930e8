//! Check of the names of settings. Messages, help texts and pages name a setting together with its table, such as
//! `limits.size_limit`. docs/reference/settings.md must explain each of them.
//!
//! The server's own tests compare that page with the settings that the program accepts, so every name that passes both
//! checks exists. This check reads string literals of sources, text in backquotes of pages, and the tables in examples
//! of pages.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};

use crate::files::Files;

/// The page that explains every setting.
const PAGE: &str = "docs/reference/settings.md";

/// Pages that are not checked: they are about files other than settings files, or about former settings.
const OTHERS: [&str; 3] = ["docs/decisions/", "docs/how-to/benchmark.md", "docs/how-to/declare.md"];

/// Endings of file names, by which names of files are distinguished from names of settings.
const ENDINGS: [&str; 8] = ["json", "key", "ldif", "md", "pem", "rs", "toml", "txt"];

/// Returns the names that are not settings.
pub(crate) fn check(files: &Files) -> Result<Vec<String>, String> {
    let known = keys(&files.text(PAGE)?);
    let tables: BTreeSet<&str> = known.iter().filter_map(|key| Some(key.split_once('.')?.0)).collect();
    let mut offences = Vec::new();
    for name in &files.names {
        let is_other = OTHERS.iter().any(|other| name.starts_with(other));
        let texts = if name.ends_with(".md") && !is_other && !name.starts_with("bench-runs/") {
            let page = files.text(name)?;
            [spans(&page), examples(&page, &tables)].concat()
        } else if is_program(name) {
            literals(&files.text(name)?).map_err(|error| format!("{name}: {error}"))?
        } else {
            continue;
        };
        for (line, text) in &texts {
            for key in names(text, &tables).into_iter().filter(|key| !known.contains(*key)) {
                offences.push(format!("{name}:{line}: there is no setting {key} in {PAGE}"));
            }
        }
    }
    Ok(offences)
}

/// Returns true if the file is a source of a program for operators. The translation of other servers' rules is
/// excluded, because it contains names of their settings.
fn is_program(name: &str) -> bool {
    let crates =
        ["crates/access-rules/src/", "crates/directory/src/", "crates/server/src/", "crates/pando/src/"];
    let is_in = crates.iter().any(|folder| name.starts_with(folder));
    is_in && name.ends_with(".rs") && !name.contains("/tests") && !name.contains("/translate")
}

/// Returns the keys that the page explains: everything in backquotes.
fn keys(page: &str) -> BTreeSet<String> {
    let words = page.split('`').skip(1).step_by(2);
    words.filter(|word| is_key(word)).map(str::to_owned).collect()
}

fn is_key(word: &str) -> bool {
    !word.is_empty() && word.split('.').all(|part| !part.is_empty() && part.chars().all(is_letter))
}

fn is_letter(letter: char) -> bool {
    letter.is_ascii_lowercase() || letter == '_'
}

/// Returns the texts in backquotes with their lines.
fn spans(page: &str) -> Vec<(usize, String)> {
    let lines = (1..).zip(page.lines());
    let of_line = |(line, text): (usize, &str)| {
        let spans = text.split('`').skip(1).step_by(2);
        spans.map(move |span| (line, span.to_owned())).collect::<Vec<_>>()
    };
    lines.flat_map(of_line).collect()
}

/// Returns the keys of tables in the examples of a page, as `TABLE.KEY`. Examples are indented lines.
fn examples(page: &str, tables: &BTreeSet<&str>) -> Vec<(usize, String)> {
    let (mut table, mut found) = (None, Vec::new());
    for (line, text) in (1..).zip(page.lines()) {
        let Some(code) = text.strip_prefix("    ") else {
            table = None;
            continue;
        };
        if let Some(name) = code.trim_end().strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            table = Some(name.trim_matches(['[', ']'])).filter(|name| tables.contains(name));
        } else if let (Some(table), Some((key, _))) = (table, code.split_once(" = "))
            && is_key(key)
        {
            found.push((line, format!("{table}.{key}")));
        }
    }
    found
}

/// Returns the string literals of a source with their lines, except in tests.
fn literals(source: &str) -> Result<Vec<(usize, String)>, String> {
    let program = source.split("\n#[cfg(test)]").next().unwrap_or(source);
    let stream: TokenStream = program.parse().map_err(|error| format!("{error}"))?;
    let mut found = Vec::new();
    gather(stream, &mut found);
    Ok(found)
}

fn gather(stream: TokenStream, found: &mut Vec<(usize, String)>) {
    for tree in stream {
        match tree {
            TokenTree::Group(group) => gather(group.stream(), found),
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                if text.contains('"') {
                    found.push((literal.span().start().line, text));
                }
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

/// Returns the words of a text with the form `TABLE.KEY` for one of the tables.
fn names<'t>(text: &'t str, tables: &BTreeSet<&str>) -> Vec<&'t str> {
    let words = text.split(|letter: char| !is_letter(letter) && letter != '.');
    // Check that the word is a table and a key, and not the name of a file or a host.
    let is_name = |word: &&str| {
        let word = word.trim_end_matches('.');
        let key = word.split_once('.').filter(|(table, key)| tables.contains(table) && is_key(key));
        key.is_some_and(|(_, key)| !key.contains('.') && !ENDINGS.contains(&key))
    };
    words.filter(is_name).map(|word| word.trim_end_matches('.')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &str = "- `limits.size_limit`: entries. `[[limit]]` has `limit.size`. Default: `none`.\n";

    #[test]
    fn keys_are_names_in_backquotes() {
        let expected = ["limit.size", "limits.size_limit", "none"];
        assert_eq!(keys(KNOWN).iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn messages_and_pages_are_checked_and_tests_are_not() {
        let tables = BTreeSet::from(["limits", "limit", "log"]);
        let of = |text: &str| names(text, &tables).join(" ");
        assert_eq!(
            of("(limits.unindexed_examined_max): ask for limit.size."),
            "limits.unindexed_examined_max limit.size"
        );
        assert_eq!(of("see log.txt, limits, and limits..size or my_limits.size"), "");
        let tests = "#[cfg(test)]\nmod tests { const E: &str = \"limits.f\"; }\n";
        let source = format!("fn a() {{ b(\"limits.c\") }}\n// limits.d\n{tests}");
        assert_eq!(literals(&source).unwrap(), [(1, "\"limits.c\"".to_owned())]);
        let tables_of = "\n    [limits]\n    i = 1\n\n    [other]\n    j = 2\n    [[limit]]\n    k = 3\n";
        let page = &format!("`limits.g` limits.h\n{tables_of}");
        let found = [spans(page), examples(page, &tables)].concat();
        let expected = [(1, "limits.g"), (4, "limits.i"), (9, "limit.k")];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    }
}
