//! The prose of the repository: comments, messages and names of Rust sources, paragraphs of pages, text of scripts.

/// Kind of a piece of prose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// First line of a doc comment.
    DocOpening,
    /// Another line of a doc comment.
    Doc,
    /// A comment that is not a doc comment.
    Comment,
    /// String literal of several words.
    Message,
    /// Name of an item, in which `_` separates words.
    Name,
    /// Line of a page or a script.
    Page,
}

/// A line of prose, or a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) kind: Kind,
    /// Number of the line in its file, from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// Scripts without an ending.
const SCRIPTS: [&str; 2] = [".ci/run", "dev"];

/// Returns the prose of a file. Calls `text` to read the file only if it has prose.
pub(crate) fn pieces(
    name: &str,
    text: impl FnOnce() -> Result<String, String>,
) -> Result<Vec<Piece>, String> {
    let pieces = match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("rs") => of_source(&text()?),
        Some("md") => of_page(&text()?),
        Some("sh" | "py" | "toml") => of_script(&text()?),
        _ if SCRIPTS.contains(&name) => of_script(&text()?),
        _ => Vec::new(),
    };
    Ok(pieces)
}

/// Returns the lines of a page that are not code. Code is indented by four spaces or in a fence. Spans of code in a
/// line are omitted.
fn of_page(text: &str) -> Vec<Piece> {
    let mut is_fenced = false;
    let mut pieces = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        if text.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced && !text.starts_with("    ") {
            pieces.push(Piece { kind: Kind::Page, line, text: without_code(text) });
        }
    }
    pieces
}

fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// Returns the comments of a script or settings file, from the `#` to the end of the line, and the lines of its usage
/// texts (here-documents).
fn of_script(text: &str) -> Vec<Piece> {
    let mut is_help = false;
    let mut pieces = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let comment = text.split_once("# ").map(|(_, comment)| comment);
        if text == "HELP" {
            is_help = false;
        }
        if let Some(text) = is_help.then_some(text).or(comment) {
            pieces.push(Piece { kind: Kind::Page, line, text: text.to_owned() });
        }
        if text.ends_with("<<'HELP'") {
            is_help = true;
        }
    }
    pieces
}

/// Keywords before the name of an item.
const ITEMS: [&str; 8] = ["fn", "struct", "enum", "trait", "type", "mod", "const", "static"];

fn of_source(text: &str) -> Vec<Piece> {
    let mut source = Source { rest: text, line: 1, pieces: Vec::new(), doc_line: None, keyword: false };
    while source.step() {}
    source.pieces
}

/// A tokenizer of Rust for comments, literals and names.
struct Source<'t> {
    rest: &'t str,
    line: usize,
    pieces: Vec<Piece>,
    /// Line of the last doc comment, by which the first line of a doc comment is recognized.
    doc_line: Option<usize>,
    /// Whether the last word was a keyword before the name of an item.
    keyword: bool,
}

impl<'t> Source<'t> {
    fn step(&mut self) -> bool {
        let Some(first) = self.rest.chars().next() else { return false };
        if self.rest.starts_with("//") {
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            let comment = self.take(end);
            self.comment(comment);
        } else if let Some(hashes) = raw_string(self.rest) {
            let (open, close) = (self.rest.find('"').unwrap_or_default() + 1, format!("\"{hashes}"));
            let length = self.rest[open..].find(&close).unwrap_or(self.rest.len() - open);
            self.take(open);
            self.literal(length);
            self.take(close.len().min(self.rest.len()));
        } else if first == '"' {
            self.take(1);
            self.literal(string_end(self.rest));
            self.take(1.min(self.rest.len()));
        } else if let Some(length) = character(self.rest) {
            self.take(length);
        } else if first.is_alphabetic() || first == '_' {
            let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
            let end = self.rest.find(|letter| !is_word(letter)).unwrap_or(self.rest.len());
            let word = self.take(end);
            if self.keyword {
                self.pieces.push(Piece { kind: Kind::Name, line: self.line, text: snake_case(word) });
            }
            self.keyword = ITEMS.contains(&word);
        } else {
            if !first.is_whitespace() {
                self.keyword = false;
            }
            self.take(first.len_utf8());
        }
        true
    }

    fn take(&mut self, length: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(length);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    fn comment(&mut self, comment: &str) {
        let doc = comment.strip_prefix("///").or_else(|| comment.strip_prefix("//!"));
        let (kind, text) = match doc {
            Some(text) if self.doc_line == Some(self.line - 1) => (Kind::Doc, text),
            Some(text) => (Kind::DocOpening, text),
            None => (Kind::Comment, comment.trim_start_matches('/')),
        };
        if doc.is_some() {
            self.doc_line = Some(self.line);
        }
        self.pieces.push(Piece { kind, line: self.line, text: without_code(text.trim()) });
    }

    fn literal(&mut self, length: usize) {
        let line = self.line;
        let text = self.take(length);
        if text.trim().contains(' ') {
            self.pieces.push(Piece { kind: Kind::Message, line, text: text.to_owned() });
        }
    }
}

/// Returns the `#` signs of a raw string that begins at `text`.
fn raw_string(text: &str) -> Option<&str> {
    let text = text.strip_prefix('b').unwrap_or(text).strip_prefix('r')?;
    let length = text.find(|letter| letter != '#')?;
    text[length..].starts_with('"').then_some(&text[..length])
}

/// Returns the length of the text of a string literal. `text` begins after the first quote. The last quote does not
/// count.
fn string_end(text: &str) -> usize {
    let mut is_escaped = false;
    for (index, letter) in text.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return index,
            _ => {}
        }
    }
    text.len()
}

/// Returns the length of a character literal that begins at `text`. `None` for a lifetime.
fn character(text: &str) -> Option<usize> {
    let mut letters = text.strip_prefix('\'')?.char_indices();
    let (_, first) = letters.next()?;
    if first == '\\' {
        letters.next();
        let (end, _) = letters.find(|(_, letter)| *letter == '\'')?;
        return Some(end + 2);
    }
    let (end, quote) = letters.next()?;
    (quote == '\'').then_some(end + 2)
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    let mut was_lower = false;
    for letter in name.chars() {
        if letter.is_uppercase() && was_lower {
            snake.push('_');
        }
        was_lower = letter.is_lowercase() || letter.is_numeric();
        snake.extend(letter.to_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, text: &str) -> Vec<(Kind, usize, String)> {
        let pieces = pieces(name, || Ok(text.to_owned())).unwrap();
        pieces.into_iter().map(|piece| (piece.kind, piece.line, piece.text)).collect()
    }

    #[test]
    fn reads_comments_messages_and_names_of_sources() {
        let source = concat!(
            "//! Head.\n//! More `code`.\n\n/// Opens.\n/// Goes on.\n",
            "fn is_told<'a>(c: char) -> &'a str {\n    let c = ['\"', '\\'', 'x'];\n    // A remark.\n",
            "    \"two \\\" words\"; r#\"a \"raw\" one\"#; \"one\"\n}\nstruct TwoWords;\n",
        );
        let expected = [
            (Kind::DocOpening, 1, "Head."),
            (Kind::Doc, 2, "More `."),
            (Kind::DocOpening, 4, "Opens."),
            (Kind::Doc, 5, "Goes on."),
            (Kind::Name, 6, "is_told"),
            (Kind::Comment, 8, "A remark."),
            (Kind::Message, 9, "two \\\" words"),
            (Kind::Message, 9, "a \"raw\" one"),
            (Kind::Name, 11, "two_words"),
        ];
        assert_eq!(found("a.rs", source), expected.map(|(kind, line, text)| (kind, line, text.to_owned())));
    }

    #[test]
    fn reads_text_of_pages_and_scripts() {
        let page = "# Title\n\n    code\n\n```\ncode\n```\ntext `code` text\n";
        let texts = |name, text| found(name, text).into_iter().map(|(_, _, text)| text).collect::<Vec<_>>();
        assert_eq!(texts("a.md", page), ["# Title", "", "", "text ` text"]);
        assert_eq!(texts("dev", "a # remark\nb\ncat <<'HELP'\nusage\nHELP\nc\n"), ["remark", "usage"]);
        assert!(texts("a.bin", "text # text").is_empty());
    }
}
