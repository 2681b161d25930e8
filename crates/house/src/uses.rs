//! The paths that a file uses: in `use` items, in code, and in macro arguments.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;
use syn::{File, ImplItemFn, Item, ItemUse, Macro, Path, UseTree};

use crate::test_items::is_test;

/// A path as written, and its line.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    pub(crate) name: Vec<String>,
    pub(crate) line: usize,
}

/// Returns every path of two or more parts that a file uses outside of its tests, and all its imports.
pub(crate) fn uses_of(file: &File) -> Vec<Use> {
    let mut collector = Collector::default();
    collector.visit_file(file);
    collector.uses
}

#[derive(Default)]
struct Collector {
    uses: Vec<Use>,
}

impl Collector {
    fn add(&mut self, name: Vec<String>, line: usize) {
        self.uses.push(Use { name, line });
    }

    fn add_use(&mut self, tree: &UseTree, prefix: &mut Vec<String>, line: usize) {
        match tree {
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.add_use(&path.tree, prefix, line);
                prefix.pop();
            }
            UseTree::Name(name) if name.ident == "self" => self.add(prefix.clone(), line),
            UseTree::Name(name) => self.add([&prefix[..], &[name.ident.to_string()]].concat(), line),
            UseTree::Rename(name) => self.add([&prefix[..], &[name.ident.to_string()]].concat(), line),
            UseTree::Glob(_) => self.add(prefix.clone(), line),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_use(tree, prefix, line);
                }
            }
        }
    }

    /// Adds each `a::b::c` in the tokens.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut name: Vec<String> = Vec::new();
        let mut line = 0;
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(word) if name.is_empty() || colons == 2 => {
                    if name.is_empty() {
                        line = word.span().start().line;
                    }
                    name.push(word.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' && !name.is_empty() && colons < 2 => {
                    colons += 1
                }
                other => {
                    self.add_path(std::mem::take(&mut name), line);
                    colons = 0;
                    match other {
                        TokenTree::Group(group) => self.add_tokens(group.stream()),
                        TokenTree::Ident(word) => {
                            line = word.span().start().line;
                            name.push(word.to_string());
                        }
                        _ => {}
                    }
                }
            }
        }
        self.add_path(name, line);
    }

    fn add_path(&mut self, name: Vec<String>, line: usize) {
        if name.len() > 1 {
            self.add(name, line);
        }
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Const(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => return syn::visit::visit_item(self, item),
        };
        if !is_test(attributes) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        if !is_test(&item.attrs) {
            syn::visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let line = item.use_token.span.start().line;
        self.add_use(&item.tree, &mut Vec::new(), line);
    }

    fn visit_path(&mut self, path: &'ast Path) {
        let name: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let line = path.segments.first().map_or(0, |segment| segment.ident.span().start().line);
        self.add_path(name, line);
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast Macro) {
        self.add_tokens(item.tokens.clone());
    }
}
