//! Check of words: prose is easier to understand at the first reading if it avoids the openings and words in
//! [`PATTERNS`]. Each pattern is counted in comments, names, messages, pages and scripts. `words.toml` has a maximum
//! for each count, which may only decrease.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use regex_lite::Regex;
use serde::{Deserialize, Serialize};

use crate::files::Files;
use crate::prose::{Kind, Piece, pieces};

/// A kind of wording, and the wording to use instead.
struct Pattern {
    name: &'static str,
    kinds: &'static [Kind],
    expression: &'static str,
    instead: &'static str,
}

const PROSE: &[Kind] = &[Kind::DocOpening, Kind::Doc, Kind::Comment, Kind::Message, Kind::Page];

const PATTERNS: [Pattern; 9] = [
    Pattern {
        name: "opening",
        kinds: &[Kind::DocOpening],
        expression: r"^(What|How|Where|When|Who|Whom|Whose|Whoever|Which|Why)\b",
        instead: "a noun phrase for a type, a verb for a function, Whether for a boolean",
    },
    Pattern {
        name: "somebody",
        kinds: PROSE,
        expression: r"(?i)\b(somebody|nobody|anybody|everybody)\b",
        instead: "the actor: the client, the writer, an administrator",
    },
    Pattern { name: "whoever", kinds: PROSE, expression: r"(?i)\bwho(m|so)?ever\b", instead: "the actor" },
    Pattern {
        name: "behind",
        kinds: PROSE,
        expression: r"(?i)\bbehind\b",
        instead: "after, for time and order",
    },
    Pattern { name: "beside", kinds: PROSE, expression: r"(?i)\bbeside\b", instead: "with, in addition to" },
    Pattern {
        name: "tell",
        kinds: PROSE,
        expression: r"(?i)\b(is|are|was|were|be|been|being) told\b|\b(tells?|telling|hears?)\b",
        instead: "returns, reports, receives, notifies",
    },
    Pattern {
        name: "where",
        kinds: PROSE,
        expression: concat!(
            r"(^|[.,;:(] )[Ww]here\b|\b(only|even|also|except|but|and|or) where\b|",
            r"\bwhere (there|it|they|none|no)\b"
        ),
        instead: "if, when",
    },
    Pattern {
        name: "riddle",
        kinds: &[Kind::Name],
        expression: concat!(
            r"(?i)(^|_)(told|asked|asker|gone|looked|held|shown|fitted|made|errands?|breathes?|ways?|standings?|news|",
            r"tells?|telling|hears?|behind|beside|whoever|somebody|nobody|anybody|everybody)(_|$)"
        ),
        instead: "a noun or a verb of the domain",
    },
    Pattern {
        name: "name-opening",
        kinds: &[Kind::Name],
        expression: r"^((what|whoever|whom|whose|where|how|which|why)_|who_([^a]|a[^m]))",
        instead: "the behaviour that the test holds",
    },
];

/// The counts of one pattern.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
struct Count {
    /// Count at the commit that `words.toml` names.
    first: usize,
    /// Maximum count that is accepted.
    ceiling: usize,
}

type Counts = BTreeMap<String, Count>;

/// Returns the patterns that occur more often than permitted.
pub(crate) fn check(files: &Files) -> Result<Vec<String>, String> {
    let found = find(files)?;
    let counts = read(files)?;
    let mut offences = Vec::new();
    for pattern in &PATTERNS {
        let count = found.get(pattern.name).map_or(0, Vec::len);
        let ceiling = counts.get(pattern.name).map_or(0, |count| count.ceiling);
        if count > ceiling {
            offences.push(format!(
                "words: \"{name}\" occurs {count} times, {ceiling} are allowed; write {instead} (list them: \
                 cargo run -p house -- words {name})",
                name = pattern.name,
                instead = pattern.instead,
            ));
        }
    }
    Ok(offences)
}

/// Returns the occurrences of one pattern, or all counts if `name` is `counts`.
pub(crate) fn list(files: &Files, name: &str) -> Result<Vec<String>, String> {
    let found = find(files)?;
    if name == "counts" {
        let counts = read(files)?;
        let line = |pattern: &Pattern| {
            let count = found.get(pattern.name).map_or(0, Vec::len);
            let first = counts.get(pattern.name).map_or(0, |count| count.first);
            format!("{}: {count} of {first} at first", pattern.name)
        };
        return Ok(PATTERNS.iter().map(line).collect());
    }
    if !PATTERNS.iter().any(|pattern| pattern.name == name) {
        let names: Vec<&str> = PATTERNS.iter().map(|pattern| pattern.name).collect();
        return Err(format!("there is no pattern {name}: counts, {}", names.join(", ")));
    }
    Ok(found.get(name).cloned().unwrap_or_default())
}

/// Lowers each maximum to the present count. A count above its maximum remains an offence.
pub(crate) fn lower(files: &Files, root: &Path) -> Result<Vec<String>, String> {
    let found = find(files)?;
    let mut counts = read(files)?;
    for pattern in &PATTERNS {
        let count = found.get(pattern.name).map_or(0, Vec::len);
        let kept = counts.entry(pattern.name.to_owned()).or_insert(Count { first: count, ceiling: count });
        kept.ceiling = kept.ceiling.min(count);
    }
    let table = toml::to_string(&counts).map_err(|error| error.to_string())?;
    let head = "# Counts of the patterns of src/words.rs: `first` at commit 65c26628, `ceiling` now. They may only \
                fall:\n\
                # cargo run -p house -- words --write\n\n";
    fs::write(root.join(COUNTS), format!("{head}{table}")).map_err(|error| format!("{COUNTS}: {error}"))?;
    check(files)
}

const COUNTS: &str = "crates/house/words.toml";

fn read(files: &Files) -> Result<Counts, String> {
    if !files.names.iter().any(|name| name == COUNTS) {
        return Ok(Counts::new());
    }
    toml::from_str(&files.text(COUNTS)?).map_err(|error| format!("{COUNTS}: {error}"))
}

/// Returns the occurrences of each pattern.
fn find(files: &Files) -> Result<BTreeMap<&'static str, Vec<String>>, String> {
    let compiled: Vec<(&Pattern, Regex)> = PATTERNS
        .iter()
        .map(|pattern| Ok((pattern, Regex::new(pattern.expression).map_err(|error| error.to_string())?)))
        .collect::<Result<_, String>>()?;
    let mut found: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for name in files.names.iter().filter(|name| !is_exempt(name)) {
        for piece in pieces(name, || files.text(name))? {
            for (pattern, expression) in &compiled {
                let places = places(&piece, pattern.kinds, expression);
                found.entry(pattern.name).or_default().extend(places.map(|place| format!("{name}:{place}")));
            }
        }
    }
    Ok(found)
}

fn places<'p>(
    piece: &'p Piece,
    kinds: &[Kind],
    expression: &'p Regex,
) -> impl Iterator<Item = String> + use<'p> {
    let text = if kinds.contains(&piece.kind) { piece.text.as_str() } else { "" };
    expression.find_iter(text).map(|_| format!("{}: {}", piece.line, piece.text.trim()))
}

/// Returns true for results of measurements, corpora and third-party data, and for this file, which contains the
/// patterns.
fn is_exempt(name: &str) -> bool {
    const FOLDERS: [&str; 4] =
        ["bench-runs/", "crates/bench/documents/", "fuzz/corpus/", "crates/schema/files/"];
    FOLDERS.iter().any(|folder| name.starts_with(folder)) || name == "crates/house/src/words.rs"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: Kind, text: &str, expected: &[&str]) {
        let piece = Piece { kind, line: 1, text: text.to_owned() };
        let is_found = |pattern: &&Pattern| {
            let expression = Regex::new(pattern.expression).unwrap();
            places(&piece, pattern.kinds, &expression).next().is_some()
        };
        let found: Vec<&str> = PATTERNS.iter().filter(is_found).map(|pattern| pattern.name).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn finds_each_pattern_in_its_kind_of_text() {
        check(Kind::DocOpening, "What a client sent.", &["opening"]);
        check(Kind::DocOpening, "Whether the entry is a referral.", &[]);
        check(Kind::Doc, "What a client sent.", &[]);
        check(
            Kind::Comment,
            "Nobody is told behind whoever stands beside it.",
            &["somebody", "whoever", "behind", "beside", "tell"],
        );
        check(Kind::Page, "It is refused where there is none.", &["where"]);
        check(Kind::Page, "The folder where files are kept.", &[]);
        check(Kind::Name, "is_told", &["riddle"]);
        check(Kind::Name, "gateway", &[]);
        check(Kind::Name, "what_is_hidden_stays_hidden", &["name-opening"]);
    }
}
