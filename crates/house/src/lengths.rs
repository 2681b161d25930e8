//! Check of the lengths of functions: no body may have more than [`LINES_MAX`] lines. Existing longer functions are
//! listed in `lengths.toml`, whose numbers may only decrease.

use std::collections::BTreeMap;

use syn::spanned::Spanned as _;
use syn::visit::Visit;
use syn::{Attribute, Block, ImplItemFn, ItemFn, ItemMod, TraitItemFn};

use crate::files::Files;
use crate::test_items::is_test;

/// Maximum number of lines between the braces of a function.
const LINES_MAX: usize = 79;

const LONGER: &str = "crates/house/lengths.toml";

/// Returns the functions that are too long, and the entries of `lengths.toml` that allow more lines than needed.
pub(crate) fn check(files: &Files) -> Result<Vec<String>, String> {
    let allowed: BTreeMap<String, usize> = match files.names.iter().any(|name| name == LONGER) {
        true => toml::from_str(&files.text(LONGER)?).map_err(|error| format!("{LONGER}: {error}"))?,
        false => BTreeMap::new(),
    };
    let mut longest: BTreeMap<String, usize> = BTreeMap::new();
    let is_source = |name: &&String| name.starts_with("crates/") && name.ends_with(".rs");
    for name in files.names.iter().filter(is_source) {
        let syntax = syn::parse_file(&files.text(name)?).map_err(|error| format!("{name}: {error}"))?;
        for (function, lines) in lengths(&syntax) {
            let longest = longest.entry(format!("{name}::{function}")).or_default();
            *longest = (*longest).max(lines);
        }
    }
    longest.retain(|_, lines| *lines > LINES_MAX);
    Ok(offences(&longest, &allowed))
}

fn offences(longest: &BTreeMap<String, usize>, allowed: &BTreeMap<String, usize>) -> Vec<String> {
    let mut offences = Vec::new();
    for (function, lines) in longest {
        let most = allowed.get(function).copied().unwrap_or(LINES_MAX);
        if *lines > most {
            offences.push(format!("{function}: {lines} lines, {most} are allowed"));
        }
    }
    for (function, most) in allowed {
        let lines = longest.get(function).copied();
        if lines.is_none_or(|lines| lines < *most) {
            let now = lines.map_or("remove the line".to_owned(), |lines| format!("write {lines}"));
            offences.push(format!("{LONGER}: {function} is shorter than {most} lines: {now}"));
        }
    }
    offences
}

/// Returns the name of each function and the number of lines of its body, except for tests.
fn lengths(syntax: &syn::File) -> Vec<(String, usize)> {
    let mut functions = Functions::default();
    functions.visit_file(syntax);
    functions.lengths
}

#[derive(Default)]
struct Functions {
    lengths: Vec<(String, usize)>,
}

impl Functions {
    fn add(&mut self, attributes: &[Attribute], name: &syn::Ident, block: &Block) {
        if !is_test(attributes) {
            let braces = block.brace_token.span;
            let lines = braces.close().span().start().line - braces.open().span().start().line;
            self.lengths.push((name.to_string(), lines.saturating_sub(1)));
        }
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.add(&item.attrs, &item.sig.ident, &item.block);
        syn::visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.add(&item.attrs, &item.sig.ident, &item.block);
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(block) = &item.default {
            self.add(&item.attrs, &item.sig.ident, block);
        }
        syn::visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_lines_between_braces_outside_of_tests() {
        let source = "fn a() {\n}\nimpl T {\n    fn b(\n        &self,\n    ) {\n        1;\n        2;\n    }\n}\n\
                      #[test]\nfn t() {\n    1;\n}\n#[cfg(test)]\nmod tests {\n    fn u() {\n        1;\n    }\n}\n";
        let syntax = syn::parse_file(source).unwrap();
        assert_eq!(lengths(&syntax), [("a".to_owned(), 0), ("b".to_owned(), 2)]);
    }

    #[test]
    fn a_listed_function_may_only_shrink() {
        let table =
            |rows: &[(&str, usize)]| rows.iter().map(|(name, lines)| ((*name).to_owned(), *lines)).collect();
        let allowed = table(&[("a.rs::f", 100)]);
        let check = |longest: &[(&str, usize)], count| {
            assert_eq!(offences(&table(longest), &allowed).len(), count, "{longest:?}");
        };
        check(&[("a.rs::f", 100)], 0);
        check(&[("a.rs::f", 101)], 1);
        check(&[("a.rs::f", 99)], 1);
        check(&[("a.rs::f", 100), ("a.rs::g", 80)], 1);
        check(&[], 1);
    }
}
