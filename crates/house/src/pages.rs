//! Check of lists of pages: docs/README.md must have a link to every page below docs/. Exceptions are decisions, which
//! docs/decisions/README.md lists by their titles. `./dev docs` generates the book's table of contents from both lists.

use crate::files::Files;

/// Returns the pages that are missing from the list in which they belong, and the listed titles that differ from the
/// titles of the pages.
pub(crate) fn check(files: &Files) -> Result<Vec<String>, String> {
    let mut offences = Vec::new();
    let pages: Vec<&str> = files.names.iter().filter_map(|name| page(name)).collect();
    for (list, prefix) in [("README.md", ""), ("decisions/README.md", "decisions/")] {
        let text = files.text(&format!("docs/{list}"))?;
        let has_decisions = !prefix.is_empty();
        for page in pages.iter().filter(|page| page.starts_with("decisions/") == has_decisions) {
            let link = page.strip_prefix(prefix).unwrap_or(page);
            if !has_link(&text, link) {
                offences.push(format!("docs/{list}: there is no link to {link}"));
            }
            let title = title(&files.text(&format!("docs/{page}"))?);
            if has_decisions && !has_title(&text, link, &title) {
                offences.push(format!("docs/{list}: the title of {link} is \"{title}\""));
            }
        }
    }
    Ok(offences)
}

/// Returns the path below docs/ of a page that must be listed.
fn page(name: &str) -> Option<&str> {
    let page = name.strip_prefix("docs/").filter(|page| page.ends_with(".md"))?;
    (!page.ends_with("README.md")).then_some(page)
}

fn has_link(text: &str, page: &str) -> bool {
    text.contains(&format!("]({page})")) || text.contains(&format!("]({page}#"))
}

/// Returns the heading of a page, without the number of a decision.
fn title(text: &str) -> String {
    let heading = text.lines().next().unwrap_or("").trim_start_matches("# ");
    heading.trim_start_matches(|octet: char| octet.is_ascii_digit()).trim().to_owned()
}

/// Returns true if the list contains the page's title as the text of the link to the page, or after the link. Titles
/// may contain line breaks.
fn has_title(text: &str, page: &str, title: &str) -> bool {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.contains(&format!("[{title}]({page})")) || text.contains(&format!("]({page}): {title}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_pages_do_not_count_as_pages() {
        let names = ["docs/how-to/load.md", "docs/README.md", "docs/decisions/README.md", "README.md"];
        assert_eq!(names.map(page), [Some("how-to/load.md"), None, None, None]);
        assert!(has_link("[A](how-to/load.md)", "how-to/load.md") && has_link("[A](a.md#x)", "a.md"));
        assert!(!has_link("how-to/load.md", "how-to/load.md"));
        assert_eq!(title("# 0001 Decide once\n\ntext"), "Decide once");
        assert!(has_title("- [0001](0001-x.md): Decide\n  once\n", "0001-x.md", "Decide once"));
        assert!(!has_title("- [Load](load.md)", "load.md", "Load data"));
    }
}
