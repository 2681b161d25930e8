//! Causes of unwillingToPerform. Every place in the program that creates an outcome with this code has a text. Either
//! the text contains advice after a colon, or docs/reference/errors.md quotes the beginning of the text and gives
//! advice. A quote that matches no place is an offence. The metrics count refusals by these quotes, so the list in
//! [`COUNTED`] must contain the same quotes.
//!
//! The text of a place is the literal next to the code, or the literal in the `let` or `const` that is named next to
//! it. If a function or closure receives the text, each call is a place. [`OTHERS`] lists the places that this search
//! does not find.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::Lit;

use crate::files::Files;

const CODE: &str = "UNWILLING_TO_PERFORM";

const PAGE: &str = "docs/reference/errors.md";

/// File whose list `CAUSES` contains the causes that the metrics count.
const COUNTED: &str = "crates/server/src/telemetry/refusals.rs";

/// Heading of the section of the page that quotes the texts.
const HEADING: &str = "## Causes of unwillingToPerform";

/// File that defines the result codes.
const DEFINITION: &str = "crates/ldap/src/result_code.rs";

/// Minimum number of words of a text that the page must quote.
const QUOTED_WORDS: usize = 4;

/// Places whose text is in another file: the file below `crates/`, the function, and the text. Each entry is one place.
const OTHERS: [(&str, &str, &str); 6] = [
    ("directory/src/model/outcome.rs", "from", "writes are stopped until restart: {cause}"),
    (
        "directory/src/settings/decide.rs",
        "change_suffixes",
        "suffix {:?} has {entries} and cannot be removed: list it among the suffixes",
    ),
    (
        "directory/src/settings/value_rules.rs",
        "check_indexes",
        "the index of {name} is not built yet: apply it first",
    ),
    ("directory/src/write/delete.rs", "decide", "{what} is made by the server"),
    ("directory/src/write/modify.rs", "decide", "{what} is made by the server"),
    ("directory/src/write/modify_dn.rs", "decide", "{what} is made by the server"),
];

/// A token. If it is a group, `inner` has the tokens inside the group.
#[derive(Debug)]
struct Tree {
    token: TokenTree,
    inner: Vec<Tree>,
}

/// The groups around a token, the outermost first, and its position in each.
type Place<'t> = Vec<(&'t [Tree], usize)>;

#[derive(Debug)]
struct Source {
    name: String,
    trees: Vec<Tree>,
}

/// A function or closure that creates an outcome and receives its text as an argument.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Helper {
    name: String,
    /// File of the function.
    file: String,
    is_method: bool,
    is_public: bool,
}

/// Text next to the code, or the name of a variable or constant that contains it.
enum Neighbor {
    Texts(Vec<String>),
    Helper(Helper),
    Nothing,
}

/// A place, with its text if it was found.
#[derive(Clone, Debug)]
struct Cause {
    file: String,
    line: usize,
    function: String,
    texts: Vec<String>,
}

/// Returns the causes that the page lacks, and the quotes of the page that match no cause.
pub(crate) fn check(files: &Files) -> Result<Vec<String>, String> {
    let mut sources = Vec::new();
    for name in files.names.iter().filter(|name| is_program(name)) {
        sources.push((name.clone(), files.text(name)?));
    }
    let (causes, mut offences) = causes(&sources)?;
    let page = files.text(PAGE)?;
    offences.extend(compare(causes, &page, &OTHERS));
    offences.extend(compare_counted(&files.text(COUNTED)?, &quotes(&page))?);
    Ok(offences)
}

fn is_program(name: &str) -> bool {
    let is_source = name.starts_with("crates/") && name.contains("/src/") && name.ends_with(".rs");
    is_source && !name.contains("/tests") && name != DEFINITION
}

/// Returns the places in the sources `texts`, each given by its name and text. Also returns the helpers that are never
/// called.
fn causes(texts: &[(String, String)]) -> Result<(Vec<Cause>, Vec<String>), String> {
    let (mut found, mut offences) = (Vec::new(), Vec::new());
    let mut helpers: BTreeSet<Helper> = BTreeSet::new();
    let read = |(name, text): &(String, String)| {
        let stream: TokenStream = text.parse().map_err(|error| format!("{name}: {error}"))?;
        Ok::<_, String>(Source { name: name.clone(), trees: trees(stream) })
    };
    for text in texts.iter().filter(|(_, text)| text.contains(CODE)) {
        let source = read(text)?;
        take(&source, |place| is_word(place, CODE) && !is_compared(place), false, &mut found, &mut helpers);
    }
    let mut open: Vec<Helper> = helpers.iter().cloned().collect();
    while let Some(helper) = open.pop() {
        let before = found.len() + helpers.len();
        for text in texts.iter().filter(|(name, text)| helper.may_be_in(name, text)) {
            let mut more = BTreeSet::new();
            take(&read(text)?, |place| helper.is_called(place), true, &mut found, &mut more);
            open.extend(more.iter().filter(|helper| !helpers.contains(helper)).cloned());
            helpers.extend(more);
        }
        if found.len() + helpers.len() == before {
            offences.push(format!("{}: no call of {} with a text was found", helper.file, helper.name));
        }
    }
    Ok((found, offences))
}

/// Adds the places in a source.
fn take(
    source: &Source,
    is_place: impl Fn(&Place<'_>) -> bool,
    is_call: bool,
    found: &mut Vec<Cause>,
    helpers: &mut BTreeSet<Helper>,
) {
    let mut places = Vec::new();
    visit(&source.trees, &mut Vec::new(), &is_place, &mut places);
    for mut place in places {
        let line = place.last().map_or(0, |(level, index)| level[*index].token.span().start().line);
        if is_call && let Some((level, index)) = place.last().copied() {
            // The place is within the brackets of the call.
            place = [&place[..place.len() - 1], &[(level, index + 1), (&level[index + 1].inner, usize::MAX)]]
                .concat();
        }
        let texts = match neighbor(source, &place) {
            Neighbor::Texts(texts) => texts,
            Neighbor::Nothing => Vec::new(),
            Neighbor::Helper(helper) => {
                helpers.insert(helper);
                continue;
            }
        };
        let function = place.iter().rev().find_map(|(level, index)| Some(function_of(level, *index)?.0));
        found.push(Cause { file: source.name.clone(), line, function: function.unwrap_or_default(), texts });
    }
}

impl Helper {
    /// Returns true if code in a file may call the function: the function is visible there, and the file defines no
    /// other function with that name.
    fn may_be_in(&self, name: &str, text: &str) -> bool {
        let own = [format!("fn {}(", self.name), format!("let {} =", self.name)];
        let is_below =
            name.strip_prefix(self.file.trim_end_matches(".rs")).is_some_and(|rest| rest.starts_with('/'));
        let may_see = self.is_public || is_below;
        let has_other = !self.is_method && own.iter().any(|own| text.contains(own));
        name == self.file || (may_see && !has_other && text.contains(&self.name))
    }

    fn is_called(&self, place: &Place<'_>) -> bool {
        let Some((level, index)) = place.last() else { return false };
        let before = index.checked_sub(1).map(|index| &level[index]);
        is_word(place, &self.name)
            && level.get(index + 1).is_some_and(|next| is_group(next, Delimiter::Parenthesis))
            && !before.is_some_and(|before| is_ident(before, "fn"))
            && before.is_some_and(|before| is_mark(before, '.')) == self.is_method
    }
}

/// Returns the tokens of a stream, without the tokens of test items.
fn trees(stream: TokenStream) -> Vec<Tree> {
    let (mut all, mut is_test) = (Vec::new(), false);
    for token in stream {
        if is_test {
            is_test = match &token {
                TokenTree::Group(group) => group.delimiter() != Delimiter::Brace,
                TokenTree::Punct(mark) => !matches!(mark.as_char(), ';' | ','),
                _ => true,
            };
            continue;
        }
        let inner = match &token {
            TokenTree::Group(group) => trees(group.stream()),
            _ => Vec::new(),
        };
        let tree = Tree { token, inner };
        is_test = is_test_attribute(&tree) && all.last().is_some_and(|last| is_mark(last, '#'));
        all.push(tree);
    }
    all
}

fn is_test_attribute(tree: &Tree) -> bool {
    match tree.inner.as_slice() {
        [word] => is_ident(word, "test"),
        [word, group] => {
            is_ident(word, "cfg") && matches!(&group.inner[..], [test] if is_ident(test, "test"))
        }
        _ => false,
    }
}

fn visit<'t>(
    level: &'t [Tree],
    above: &mut Place<'t>,
    is_place: &impl Fn(&Place<'_>) -> bool,
    found: &mut Vec<Place<'t>>,
) {
    for (index, tree) in level.iter().enumerate() {
        above.push((level, index));
        if is_place(above) {
            found.push(above.clone());
        }
        visit(&tree.inner, above, is_place, found);
        above.pop();
    }
}

fn is_ident(tree: &Tree, name: &str) -> bool {
    matches!(&tree.token, TokenTree::Ident(word) if word == name)
}

fn is_mark(tree: &Tree, mark: char) -> bool {
    matches!(&tree.token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

fn is_group(tree: &Tree, delimiter: Delimiter) -> bool {
    matches!(&tree.token, TokenTree::Group(group) if group.delimiter() == delimiter)
}

fn is_word(place: &Place<'_>, name: &str) -> bool {
    place.last().is_some_and(|(level, index)| is_ident(&level[*index], name))
}

/// Returns true if the tokens at this position are these punctuation marks.
fn has_marks(level: &[Tree], index: usize, marks: &str) -> bool {
    let mut rest = level.get(index..).unwrap_or_default().iter();
    marks.chars().all(|mark| rest.next().is_some_and(|tree| is_mark(tree, mark)))
}

/// Returns true if an outcome is only compared with the code: in a pattern, or with `==` or `!=`.
fn is_compared(place: &Place<'_>) -> bool {
    let [above @ .., (level, index)] = place.as_slice() else { return false };
    let mut start = *index;
    while start >= 3 && has_marks(level, start - 2, "::") {
        start -= 3;
    }
    let is_equal = start >= 2 && (has_marks(level, start - 2, "==") || has_marks(level, start - 2, "!="));
    let is_pattern = |level: &[Tree], index: usize| {
        let is_or = has_marks(level, index + 1, "|") && !has_marks(level, index + 1, "||");
        is_or || has_marks(level, index + 1, "=>")
    };
    let is_matched = above.last().is_some_and(|(level, index)| {
        is_pattern(level, *index)
            || (*index >= 2 && is_ident(&level[index - 2], "matches") && is_mark(&level[index - 1], '!'))
    });
    is_equal || is_pattern(level, *index) || is_matched
}

/// Returns the text among the tokens in the same brackets as the code.
fn neighbor(source: &Source, place: &Place<'_>) -> Neighbor {
    let [above @ .., (level, index)] = place.as_slice() else { return Neighbor::Nothing };
    let is_block = above.last().is_none_or(|(level, index)| is_group(&level[*index], Delimiter::Brace))
        && (0..level.len()).any(|index| has_marks(level, index, "=>") || has_marks(level, index, ";"));
    if is_block {
        return Neighbor::Nothing;
    }
    let (before, after) = level.split_at((*index).min(level.len()));
    for part in [after, before] {
        let texts = texts(part);
        if !texts.is_empty() {
            return Neighbor::Texts(texts);
        }
    }
    for tree in after.iter().chain(before) {
        if let TokenTree::Ident(name) = &tree.token {
            match named(source, place, &name.to_string()) {
                Neighbor::Nothing => {}
                known => return known,
            }
        }
    }
    Neighbor::Nothing
}

/// Returns the first literal. If the tokens choose between several literals, as `if` and `match` do, returns the
/// literal of each block and arm.
fn texts(trees: &[Tree]) -> Vec<String> {
    for (index, tree) in trees.iter().enumerate() {
        let found = match &tree.token {
            TokenTree::Literal(literal) => match Lit::new(literal.clone()) {
                Lit::Str(text) => vec![text.value()],
                _ => Vec::new(),
            },
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                let blocks = trees[index..].iter().filter(|tree| is_group(tree, Delimiter::Brace));
                blocks.flat_map(|block| arms(&block.inner)).collect()
            }
            _ => texts(&tree.inner),
        };
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

fn arms(block: &[Tree]) -> Vec<String> {
    let starts: Vec<usize> = (0..block.len()).filter(|index| has_marks(block, *index, "=>")).collect();
    if starts.is_empty() {
        return texts(block);
    }
    let ends = starts[1..].iter().copied().chain([block.len()]);
    starts.iter().zip(ends).flat_map(|(start, end)| texts(&block[*start..end])).collect()
}

/// Returns the meaning of a name at a place: a variable or a constant with a text, or the parameter of a helper.
fn named(source: &Source, place: &Place<'_>, name: &str) -> Neighbor {
    let is_given = |parameters: &[Tree]| parameters.iter().any(|tree| is_ident(tree, name));
    let helper = |name: String, is_method, is_public| {
        Neighbor::Helper(Helper { name, file: source.name.clone(), is_method, is_public })
    };
    for (level, index) in place.iter().rev().filter(|(_, index)| *index != usize::MAX) {
        let before = &level[..*index];
        let mut end = before.len();
        for start in (0..before.len()).rev() {
            if is_mark(&before[start], ';') {
                end = start;
            }
            if !is_ident(&before[start], "let") {
                continue;
            }
            let is_mutable = before.get(start + 1).is_some_and(|tree| is_ident(tree, "mut"));
            let called = start + 1 + usize::from(is_mutable);
            if end < before.len() && before.get(called).is_some_and(|tree| is_ident(tree, name)) {
                return Neighbor::Texts(texts(&before[called..end])).or_nothing();
            }
            // Handles a closure around the place.
            let bars: Vec<usize> =
                (start..before.len()).filter(|index| is_mark(&before[*index], '|')).collect();
            if end == before.len()
                && let [first, second, ..] = bars[..]
                && is_given(&before[first..second])
            {
                return helper(before[called].token.to_string(), false, false);
            }
        }
        if let Some((function, parameters, is_public)) = function_of(level, *index)
            && is_given(parameters)
        {
            let is_method = parameters.iter().any(|tree| is_ident(tree, "self"));
            return helper(function, is_method, is_public);
        }
    }
    let mut constants = Vec::new();
    let is_constant = |place: &Place<'_>| {
        let before = place.last().and_then(|(level, index)| level.get(index.checked_sub(1)?));
        is_word(place, name) && before.is_some_and(|tree| is_ident(tree, "const") || is_ident(tree, "static"))
    };
    visit(&source.trees, &mut Vec::new(), &is_constant, &mut constants);
    let constant = constants.first().and_then(|place| place.last());
    constant.map_or(Neighbor::Nothing, |(level, index)| Neighbor::Texts(texts(&level[*index..])).or_nothing())
}

impl Neighbor {
    fn or_nothing(self) -> Neighbor {
        match self {
            Neighbor::Texts(texts) if texts.is_empty() => Neighbor::Nothing,
            other => other,
        }
    }
}

/// Returns the function whose body is the group at `index`: its name, its parameters, and whether it is public.
fn function_of(level: &[Tree], index: usize) -> Option<(String, &[Tree], bool)> {
    level.get(index).filter(|tree| is_group(tree, Delimiter::Brace))?;
    let before = &level[..index];
    let start = before.iter().rposition(|tree| is_group(tree, Delimiter::Brace) || is_mark(tree, ';'));
    let head = &before[start.map_or(0, |start| start + 1)..];
    let at = head.iter().position(|tree| is_ident(tree, "fn"))?;
    let parameters = head[at..].iter().find(|tree| is_group(tree, Delimiter::Parenthesis))?;
    let is_public = head[..at].iter().any(|tree| is_ident(tree, "pub"));
    Some((head.get(at + 1)?.token.to_string(), &parameters.inner, is_public))
}

/// Returns the beginning of a text, with `…` for inserted values.
fn beginning(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        shown = format!("{shown}{before}…");
        rest = after.split_once('}').map_or("", |(_, rest)| rest);
    }
    shown.push_str(rest);
    let (mut words, mut count) = (Vec::new(), 0);
    for word in shown.split_whitespace().skip_while(|word| *word == "…") {
        words.push(word);
        count += usize::from(!word.contains('…'));
        if count == QUOTED_WORDS {
            break;
        }
    }
    words.join(" ").trim_end_matches([':', ',', ';']).to_owned()
}

/// Returns the quotations at the beginning of the items in the section.
fn quotes(page: &str) -> Vec<String> {
    let lines = page.lines().skip_while(|line| *line != HEADING).skip(1);
    let section: Vec<&str> = lines.take_while(|line| !line.starts_with("## ")).collect();
    let items = section.join("\n");
    let heads = items.split("\n- `").skip(1).map(|item| item.split("`:").next().unwrap_or_default());
    let quotes = heads.flat_map(|head| head.split('`').step_by(2));
    quotes.map(|quote| quote.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// Returns true if the text advises what to do after a colon, in the literal text and not in an inserted value.
fn has_advice(text: &str) -> bool {
    text.split_once(": ").is_some_and(|(_, advice)| !advice.starts_with('{'))
}

/// Returns the offences of the causes, of the page, and of the list of other places.
fn compare(causes: Vec<Cause>, page: &str, others: &[(&str, &str, &str)]) -> Vec<String> {
    let quotes = quotes(page);
    let (mut offences, mut used, mut open) = (Vec::new(), BTreeSet::new(), others.to_vec());
    for mut cause in causes {
        if cause.texts.is_empty() {
            let is_it = |(file, function, _): &(&str, &str, &str)| {
                cause.file.strip_prefix("crates/") == Some(*file) && cause.function == *function
            };
            match open.iter().position(is_it) {
                Some(index) => cause.texts.push(open.remove(index).2.to_owned()),
                None => offences.push(format!(
                    "{}:{}: the text of unwillingToPerform in {} is not seen: name it in crates/house/src/causes.rs",
                    cause.file, cause.line, cause.function
                )),
            }
        }
        for text in &cause.texts {
            let has_advice = has_advice(text);
            let text = beginning(text);
            match quotes.iter().position(|quote| quote.trim_start_matches("… ").starts_with(&text)) {
                Some(index) if !text.is_empty() => drop(used.insert(index)),
                _ if has_advice => {}
                _ => offences.push(format!(
                    "{}:{}: {PAGE} does not list this cause of unwillingToPerform: `{text}`",
                    cause.file, cause.line
                )),
            }
        }
    }
    for (file, function, _) in open {
        offences.push(format!("crates/house/src/causes.rs: {function} of {file} has no such place"));
    }
    let unused = quotes.iter().enumerate().filter(|(index, _)| !used.contains(index));
    offences.extend(unused.map(|(_, quote)| format!("{PAGE}: nothing says `{quote}` any more")));
    offences
}

/// Returns the differences between the quotations of the page and the list of causes that the metrics count.
fn compare_counted(source: &str, quotes: &[String]) -> Result<Vec<String>, String> {
    let stream: TokenStream = source.parse().map_err(|error| format!("{COUNTED}: {error}"))?;
    let all = trees(stream);
    let list = all.iter().skip_while(|tree| !is_ident(tree, "CAUSES")).skip_while(|tree| !is_mark(tree, '='));
    let list =
        list.skip(1).find(|tree| is_group(tree, Delimiter::Bracket)).map_or(&[][..], |tree| &tree.inner);
    let counted: Vec<String> = list.iter().flat_map(|tree| texts(std::slice::from_ref(tree))).collect();
    let lacking = quotes.iter().filter(|quote| !counted.contains(quote));
    let lacking = lacking.map(|quote| format!("{COUNTED}: CAUSES lacks `{quote}`, which {PAGE} quotes"));
    let unknown = counted.iter().filter(|cause| !quotes.contains(cause));
    let unknown = unknown.map(|cause| format!("{COUNTED}: {PAGE} does not quote `{cause}`"));
    Ok(lacking.chain(unknown).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the beginnings of the texts of all places in sources. A text that was not found is `?`.
    fn places_in(files: &[(&str, &str)]) -> String {
        let files: Vec<_> =
            files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let (causes, offences) = causes(&files).unwrap();
        let of = |cause: &Cause| match cause.texts.as_slice() {
            [] => "?".to_owned(),
            texts => texts.iter().map(|text| beginning(text)).collect::<Vec<_>>().join("/"),
        };
        causes.iter().map(of).chain(offences).collect::<Vec<_>>().join(", ")
    }

    fn places_in_body(body: &str) -> String {
        places_in(&[(
            "crates/a/src/b.rs",
            &format!("fn f(given: &str, x: X) -> E {{ {body} }} const C: &str = \"c\";"),
        )])
    }

    #[test]
    fn texts_are_found_next_to_the_result_code() {
        for (body, text) in [
            ("refused(R::UNWILLING_TO_PERFORM, \"a\")", "a"),
            ("refused(R::UNWILLING_TO_PERFORM, \"a\") || g()", "a"),
            ("refused(\"a\", UNWILLING_TO_PERFORM)", "a"),
            ("let a = format!(\"a {x} b c d e\", \"z\"); refused(R::UNWILLING_TO_PERFORM, a)", "a … b c d"),
            ("let t = \"a\"; if x { let t = \"b\"; y(t) } else { z(R::UNWILLING_TO_PERFORM, t) }", "a"),
            ("let mut t = if x { \"a\" } else { \"b\" }; z(R::UNWILLING_TO_PERFORM, &t)", "a/b"),
            ("z(R::UNWILLING_TO_PERFORM, match x { A { .. } => \"a\", B => g(\"b\") })", "a/b"),
            ("S { text: \"a\", code: R::UNWILLING_TO_PERFORM, ..s }", "a"),
            ("refused(R::UNWILLING_TO_PERFORM, C)", "c"),
            ("match x { A => (R::UNWILLING_TO_PERFORM, \"a\"), B => (R::BUSY, \"b\") }", "a"),
            ("match x { A => R::UNWILLING_TO_PERFORM, B => g(\"b\") }", "?"),
            ("let t = x.text(); refused(R::UNWILLING_TO_PERFORM, t)", "?"),
            ("{ let t = \"a\"; } refused(R::UNWILLING_TO_PERFORM, t)", "?"),
        ] {
            assert_eq!(places_in_body(body), text, "{body}");
        }
    }

    #[test]
    fn comparisons_and_tests_do_not_count_as_places() {
        for body in [
            "match x { (_, R::UNWILLING_TO_PERFORM) => \"a\", R::BUSY | R::UNWILLING_TO_PERFORM => \"b\" }",
            "x.code == R::UNWILLING_TO_PERFORM || matches!(x, R::UNWILLING_TO_PERFORM)",
            "match x { S { code: R::UNWILLING_TO_PERFORM, .. } => \"a\" }",
        ] {
            assert_eq!(places_in_body(body), "", "{body}");
        }
        let tests = "#[cfg(test)] mod tests { const A: R = R::UNWILLING_TO_PERFORM; }";
        let after = "#[cfg(test)] mod t; fn f() { r(R::UNWILLING_TO_PERFORM, \"a\") }";
        assert_eq!(places_in(&[("crates/a/src/b.rs", &format!("{tests} {after}"))]), "a");
        let is_looked_at = ["crates/a/src/b.rs", "crates/a/src/b/tests.rs", DEFINITION].map(is_program);
        assert_eq!(is_looked_at, [true, false, false]);
    }

    #[test]
    fn calls_of_helpers_count_as_places() {
        assert_eq!(
            places_in_body(
                "let no = |t: &str| S::not(R::UNWILLING_TO_PERFORM, t); no(&format!(\"a {x}\")); no(\"b\")"
            ),
            "a …, b"
        );
        let helper = "fn no(t: &str) -> E { r(R::UNWILLING_TO_PERFORM, t) }";
        let chain = "fn so(t: &str) -> E { no(t) } fn f() { so(\"a\") } fn g() { no(\"b\"); no(x.y()) }";
        assert_eq!(places_in(&[("crates/a/src/b.rs", &format!("{helper} {chain}"))]), "b, ?, a");
        let lonely = "crates/a/src/b.rs: no call of no with a text was found";
        let other = "fn no(t: &str) {} fn f() { no(\"a\") }";
        assert_eq!(
            places_in(&[("crates/a/src/b.rs", helper), ("crates/a/src/c.rs", "fn f() { no(\"a\") }")]),
            lonely
        );
        assert_eq!(
            places_in(&[("crates/a/src/b.rs", helper), ("crates/a/src/b/c.rs", "fn f() { no(\"a\") }")]),
            "a"
        );
        let public = &format!("pub(crate) {helper}");
        assert_eq!(
            places_in(&[("crates/a/src/b.rs", public), ("crates/a/src/c.rs", "fn f() { no(\"a\") }")]),
            "a"
        );
        assert_eq!(places_in(&[("crates/a/src/b.rs", public), ("crates/a/src/c.rs", other)]), lonely);
        let method = "impl P { pub fn no(self) -> P { P { code: R::UNWILLING_TO_PERFORM, ..self } } }";
        let call = "fn f(w: W) { let w = g(w); P::key(w).no() } fn g(w: W) { no(\"a\") }";
        assert_eq!(places_in(&[("crates/a/src/b.rs", method), ("crates/a/src/c.rs", call)]), "?");
    }

    #[test]
    fn the_beginning_of_a_text_has_up_to_four_constant_words() {
        let of = |text: &str| beginning(text);
        assert_eq!(of("{} is a suffix of this server"), "is a suffix of");
        assert_eq!(of("suffix {:?} has {entries} and cannot be"), "suffix … has … and cannot");
        assert_eq!(of("{count} {what}"), "");
        assert_eq!(of("no"), "no");
        assert_eq!(of("not below it: ever"), "not below it: ever");
        assert_eq!(of("not ever below it: no"), "not ever below it");
    }

    #[test]
    fn differences_between_the_page_and_the_code_are_reported() {
        let cause = |function: &str, texts: &[&str]| Cause {
            file: "crates/a.rs".to_owned(),
            line: 1,
            function: function.to_owned(),
            texts: texts.iter().map(|text| (*text).to_owned()).collect(),
        };
        let page = |items: &str| format!("- `a b`: before\n{HEADING}\n\n{items}\n## Next\n\n- `z`: after\n");
        let of = |causes: Vec<Cause>, items: &str| {
            compare(causes, &page(items), &[("a.rs", "f", "a b")]).join("\n")
        };
        let items = "- `a b`: do.\n- `… c d\n  e f g`: do `h`.\n";
        let good = || vec![cause("f", &[]), cause("g", &["{} c d e f {}"])];
        assert_eq!(of(good(), items), "");
        assert_eq!(of(good(), "- `a b`, `… c d\n  e f g`: do `h`.\n"), "");
        let advised = |text: &str| of([good(), vec![cause("g", &[text])]].concat(), items);
        assert_eq!(advised("i {} j: do k"), "");
        assert!(advised("i {} j: {k}").contains("does not list this cause"));
        let missing = "docs/reference/errors.md does not list this cause of unwillingToPerform: ";
        assert_eq!(of(good(), "- `a b`: do.\n"), format!("crates/a.rs:1: {missing}`c d e f`"));
        assert_eq!(
            of([good(), vec![cause("g", &["{} {}"])]].concat(), items),
            format!("crates/a.rs:1: {missing}``")
        );
        let unused = format!("{items}- `h`: do.\n");
        assert_eq!(of(good(), &unused), "docs/reference/errors.md: nothing says `h` any more");
        // Each entry of the list of other places must match exactly one existing place.
        let twice = of([good(), vec![cause("f", &[])]].concat(), items);
        assert!(
            twice.starts_with("crates/a.rs:1: the text of unwillingToPerform in f is not seen"),
            "{twice}"
        );
        let stale = of(good().split_off(1), "- `c d e f`: do.\n");
        assert_eq!(stale, "crates/house/src/causes.rs: f of a.rs has no such place");
    }

    #[test]
    fn the_metrics_must_count_the_causes_that_the_page_quotes() {
        let source =
            "const X: u8 = 1; const CAUSES: [&str; 2] = [\"a b\", \"… c\"]; const OTHER: &str = \"d\";";
        let of = |quotes: &[&str]| {
            let quotes: Vec<String> = quotes.iter().map(|quote| (*quote).to_owned()).collect();
            compare_counted(source, &quotes).unwrap()
        };
        assert_eq!(of(&["a b", "… c"]), Vec::<String>::new());
        assert_eq!(
            of(&["a b", "… c", "d"]).join("\n"),
            format!("{COUNTED}: CAUSES lacks `d`, which {PAGE} quotes")
        );
        assert_eq!(of(&["a b"]).join("\n"), format!("{COUNTED}: {PAGE} does not quote `… c`"));
    }
}
