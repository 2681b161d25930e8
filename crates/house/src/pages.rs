//! The list of pages: docs/README.md and docs/SUMMARY.md have a link to every page below docs/, decisions aside, which
//! docs/decisions/README.md lists.

use crate::files::Files;

/// Returns the pages that no list has.
pub(crate) fn check(files: &Files) -> Result<Vec<String>, String> {
    let mut offences = Vec::new();
    let pages: Vec<&str> = files.names.iter().filter_map(|name| page(name)).collect();
    for (list, prefix) in [("README.md", ""), ("SUMMARY.md", ""), ("decisions/README.md", "decisions/")] {
        let text = files.text(&format!("docs/{list}"))?;
        let is_listed_here = |page: &&&str| match (list, page.starts_with("decisions/")) {
            ("README.md", is_decision) => !is_decision,
            (_, is_decision) => prefix.is_empty() || is_decision,
        };
        for page in pages.iter().filter(is_listed_here) {
            let link = page.strip_prefix(prefix).unwrap_or(page);
            if !has_link(&text, link) {
                offences.push(format!("docs/{list}: there is no link to {link}"));
            }
        }
    }
    Ok(offences)
}

/// Returns the path below docs/ of a page that must be listed.
fn page(name: &str) -> Option<&str> {
    let page = name.strip_prefix("docs/").filter(|page| page.ends_with(".md"))?;
    (!page.ends_with("README.md") && page != "SUMMARY.md").then_some(page)
}

fn has_link(text: &str, page: &str) -> bool {
    text.contains(&format!("]({page})")) || text.contains(&format!("]({page}#"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_those_that_no_list_is() {
        let names = [
            "docs/how-to/load.md",
            "docs/README.md",
            "docs/decisions/README.md",
            "docs/SUMMARY.md",
            "README.md",
        ];
        assert_eq!(names.map(page), [Some("how-to/load.md"), None, None, None, None]);
        assert!(has_link("[A](how-to/load.md)", "how-to/load.md") && has_link("[A](a.md#x)", "a.md"));
        assert!(!has_link("how-to/load.md", "how-to/load.md"));
    }
}
