//! The modules of a crate, by its `mod` items, without tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::{Expr, ExprLit, Item, ItemMod, Lit, Meta, UseTree};

use crate::test_items::is_test;
use crate::uses::{Use, uses_of};

/// Path of a module from the crate's root. The path of the root is empty.
pub(crate) type ModulePath = Vec<String>;

/// A file of a module, with the names that it uses.
#[derive(Debug, Default)]
pub(crate) struct Module {
    pub(crate) file: PathBuf,
    pub(crate) children: BTreeSet<String>,
    /// Names that `use` imports, with their paths.
    aliases: BTreeMap<String, Vec<String>>,
    /// Modules from which `use ...::*` imports everything.
    globs: Vec<Vec<String>>,
    items: BTreeSet<String>,
    /// Files of child modules that have a `path` attribute, by the names of the modules.
    files: BTreeMap<String, String>,
    pub(crate) uses: Vec<Use>,
}

/// All modules of a crate.
#[derive(Debug, Default)]
pub(crate) struct Modules(pub(crate) BTreeMap<ModulePath, Module>);

/// Maximum number of steps from a name to its definition. A name is re-exported at most two or three times.
const ALIAS_DEPTH_MAX: usize = 16;

impl Modules {
    /// Reads the crate whose root is `source/lib.rs`, or `source/main.rs` if it has no library.
    pub(crate) fn read(source: &Path) -> Result<Self, String> {
        let mut modules = Self::default();
        let library = source.join("lib.rs");
        let root = if library.exists() { library } else { source.join("main.rs") };
        modules.read_file(Vec::new(), &root, source)?;
        Ok(modules)
    }

    fn read_file(&mut self, path: ModulePath, file: &Path, folder: &Path) -> Result<(), String> {
        let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let syntax = syn::parse_file(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        let mut module = Module { file: file.to_owned(), uses: uses_of(&syntax), ..Module::default() };
        for item in &syntax.items {
            module.add(item);
        }
        let children: Vec<String> = module.children.iter().cloned().collect();
        let named = std::mem::take(&mut module.files);
        self.0.insert(path.clone(), module);
        for child in children {
            let mut child_path = path.clone();
            child_path.push(child.clone());
            let flat = folder.join(format!("{child}.rs"));
            match named.get(&child) {
                // The child modules of this module are in the folder of the named file (Rust reference, path
                // attributes).
                Some(named) => {
                    let file = file.parent().unwrap_or(folder).join(named);
                    let below = file.parent().unwrap_or(folder).to_owned();
                    self.read_file(child_path, &file, &below)?;
                }
                None if flat.exists() => self.read_file(child_path, &flat, &folder.join(&child))?,
                None => {
                    let below = folder.join(&child);
                    self.read_file(child_path, &below.join("mod.rs"), &below)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the module that defines `name`, as used in the module `from`; `None` if it is in another crate.
    pub(crate) fn resolve(&self, from: &[String], name: &[String]) -> Option<ModulePath> {
        self.resolve_within(from, name, ALIAS_DEPTH_MAX)
    }

    fn resolve_within(&self, from: &[String], name: &[String], depth: usize) -> Option<ModulePath> {
        let (first, rest) = name.split_first()?;
        match first.as_str() {
            "crate" => self.resolve_in(&[], rest, depth),
            "self" => self.resolve_in(from, rest, depth),
            "super" => self.resolve_super(from, rest, depth),
            _ => {
                let module = self.0.get(from)?;
                let known = module.children.contains(first) || module.aliases.contains_key(first);
                if known { self.resolve_in(from, name, depth) } else { None }
            }
        }
    }

    fn resolve_super(&self, from: &[String], rest: &[String], depth: usize) -> Option<ModulePath> {
        let (_, parent) = from.split_last()?;
        if rest.first().is_some_and(|next| next == "super") {
            return self.resolve_super(parent, &rest[1..], depth);
        }
        self.resolve_in(parent, rest, depth)
    }

    fn resolve_in(&self, from: &[String], rest: &[String], depth: usize) -> Option<ModulePath> {
        let depth = depth.checked_sub(1)?;
        let module = self.0.get(from)?;
        let Some((next, rest)) = rest.split_first() else { return Some(from.to_vec()) };
        if module.children.contains(next) {
            let mut child = from.to_vec();
            child.push(next.clone());
            return self.resolve_in(&child, rest, depth);
        }
        if module.items.contains(next) {
            return Some(from.to_vec());
        }
        if let Some(alias) = module.aliases.get(next) {
            let whole: Vec<String> = alias.iter().chain(rest).cloned().collect();
            return self.resolve_within(from, &whole, depth);
        }
        for glob in &module.globs {
            if let Some(target) = self.resolve_within(from, glob, depth)
                && self.0.get(&target).is_some_and(|module| module.items.contains(next))
            {
                return Some(target);
            }
        }
        // The name is generated by a macro, or imported by a glob through another glob. It counts as defined in this
        // module.
        Some(from.to_vec())
    }
}

impl Module {
    fn add(&mut self, item: &Item) {
        match item {
            Item::Mod(item) if !is_test(&item.attrs) && item.content.is_none() => {
                self.children.insert(item.ident.to_string());
                self.files.extend(path_attribute(item).map(|file| (item.ident.to_string(), file)));
            }
            Item::Use(item) if !is_test(&item.attrs) => self.add_use(&item.tree, &mut Vec::new()),
            Item::Const(item) => self.add_item(&item.ident),
            Item::Enum(item) => self.add_item(&item.ident),
            Item::Fn(item) => self.add_item(&item.sig.ident),
            Item::Static(item) => self.add_item(&item.ident),
            Item::Struct(item) => self.add_item(&item.ident),
            Item::Trait(item) => self.add_item(&item.ident),
            Item::Type(item) => self.add_item(&item.ident),
            Item::Union(item) => self.add_item(&item.ident),
            _ => {}
        }
    }

    fn add_item(&mut self, name: &syn::Ident) {
        self.items.insert(name.to_string());
    }

    fn add_use(&mut self, tree: &UseTree, prefix: &mut Vec<String>) {
        match tree {
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.add_use(&path.tree, prefix);
                prefix.pop();
            }
            UseTree::Name(name) if name.ident == "self" => {
                if let Some(last) = prefix.last().cloned() {
                    self.aliases.insert(last, prefix.clone());
                }
            }
            UseTree::Name(name) => self.add_alias(name.ident.to_string(), prefix, &name.ident),
            UseTree::Rename(rename) => self.add_alias(rename.rename.to_string(), prefix, &rename.ident),
            UseTree::Glob(_) => self.globs.push(prefix.clone()),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_use(tree, prefix);
                }
            }
        }
    }

    fn add_alias(&mut self, alias: String, prefix: &[String], name: &syn::Ident) {
        let mut whole = prefix.to_vec();
        whole.push(name.to_string());
        // `use serde;` names a crate by its own name. Following it would never end.
        if whole.len() > 1 {
            self.aliases.insert(alias, whole);
        }
    }
}

/// Returns the file that the `path` attribute of a module names.
fn path_attribute(item: &ItemMod) -> Option<String> {
    item.attrs.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(meta) if meta.path.is_ident("path") => match &meta.value {
            Expr::Lit(ExprLit { lit: Lit::Str(file), .. }) => Some(file.value()),
            _ => None,
        },
        _ => None,
    })
}
