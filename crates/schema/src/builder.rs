//! Builds a [`Schema`] from texts: removes duplicates, then resolves names to ids, and then resolves inheritance.
//!
//! All mistakes are reported, not only the first. If a name is unknown only because its own definition has a mistake,
//! the unknown name is not reported ([`Mistakes`]).

mod classes;
mod copies;
mod links;
mod structure;
mod syntaxes;
mod table;
mod types;

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use crate::definition::{Kind, Macros};
use crate::effect::{self, WithoutEffect};
use crate::schema_file::{self, Located};
use crate::structure::Structure;
use crate::{MatchingRule, Schema, SchemaError, SchemaErrorKind, SchemaErrors};
use classes::resolve_classes;
use copies::{compare_classes, compare_types};
use links::mark_links;
use syntaxes::Syntaxes;
use table::{Oids, Table};
use types::resolve_types;

/// The shipped files. Each file comes after the files on which it depends. This order is only for readers.
const SHIPPED: &[(&str, &str)] = &[
    ("system.schema", include_str!("../files/system.schema")),
    ("core.schema", include_str!("../files/core.schema")),
    ("cosine.schema", include_str!("../files/cosine.schema")),
    ("inetorgperson.schema", include_str!("../files/inetorgperson.schema")),
    ("certificate.schema", include_str!("../files/certificate.schema")),
    ("nis.schema", include_str!("../files/nis.schema")),
    ("authpassword.schema", include_str!("../files/authpassword.schema")),
    ("passwordpolicy.schema", include_str!("../files/passwordpolicy.schema")),
    ("scim.schema", include_str!("../files/scim.schema")),
    ("dynamicgroup.schema", include_str!("../files/dynamicgroup.schema")),
    ("openssh.schema", include_str!("../files/openssh.schema")),
    ("mail.schema", include_str!("../files/mail.schema")),
    ("collective.schema", include_str!("../files/collective.schema")),
    ("pando.schema", include_str!("../files/pando.schema")),
];

/// Compiled-in files that are loaded only by name.
const NAMED: &[(&str, &str)] = &[
    ("active-directory", include_str!("../files/named/active-directory.schema")),
    ("eduperson", include_str!("../files/named/eduperson.schema")),
    ("empty-groups", include_str!("../files/named/empty-groups.schema")),
    ("kerberos", include_str!("../files/named/kerberos.schema")),
    ("samba", include_str!("../files/named/samba.schema")),
    ("schac", include_str!("../files/named/schac.schema")),
    ("sudo", include_str!("../files/named/sudo.schema")),
];

/// Returns the names and texts of the files that are loaded only by name, for [`add_text`](SchemaBuilder::add_text).
pub fn named_files() -> impl Iterator<Item = (&'static str, &'static str)> {
    NAMED.iter().copied()
}

/// Builder that collects schema texts and resolves them into a [`Schema`].
///
/// ```
/// let mut builder = schema::SchemaBuilder::shipped();
/// builder.add_text("mine.schema", "attributetype ( 1.3.6.1.4.1.99999.7 NAME 'shoeSize' SUP name )");
/// let schema = builder.build().unwrap();
/// assert_eq!(schema.attribute_type("SHOESIZE").unwrap().name(), "shoeSize");
/// ```
#[derive(Debug, Default, Clone)]
pub struct SchemaBuilder {
    definitions: Vec<Located>,
    macros: Macros,
    mistakes: Mistakes,
}

/// Mistakes found so far.
#[derive(Debug, Default, Clone)]
struct Mistakes {
    errors: Vec<SchemaError>,
    /// Names and OIDs, in lower case, of definitions with a mistake.
    unread: HashSet<String>,
}

impl Mistakes {
    /// Adds a mistake, unless it is only a consequence of another mistake.
    fn add(&mut self, error: SchemaError) {
        let is_unread = error.kind.unknown_name().is_some_and(|name| self.is_unread(name));
        if !is_unread {
            self.errors.push(error);
        }
    }

    fn is_unread(&self, name: &str) -> bool {
        self.unread.contains(&name.to_ascii_lowercase())
    }

    /// Returns the value of a result, or adds its mistake.
    fn take<T>(&mut self, located: &Located, result: Result<T, SchemaErrorKind>) -> Option<T> {
        result.map_err(|kind| self.add(located.error(kind))).ok()
    }
}

impl Schema {
    /// Returns the shipped schema: every file in `crates/schema/files`. Built once per process.
    ///
    /// # Panics
    /// The shipped files contain mistakes. A test excludes this.
    pub fn shipped() -> Arc<Schema> {
        static SHIPPED: OnceLock<Arc<Schema>> = OnceLock::new();
        let build =
            || SchemaBuilder::shipped().build().unwrap_or_else(|error| panic!("shipped schema: {error}"));
        Arc::clone(SHIPPED.get_or_init(build))
    }
}

impl SchemaBuilder {
    /// Creates an empty builder, without even `top`.
    pub fn new() -> SchemaBuilder {
        SchemaBuilder::default()
    }

    /// Creates a builder with the shipped files.
    pub fn shipped() -> SchemaBuilder {
        let mut builder = SchemaBuilder::new();
        for (file, text) in SHIPPED {
            builder.add_text(file, text);
        }
        builder.definitions.iter_mut().for_each(|located| located.shipped = true);
        builder
    }

    /// Adds the text of a file. `file` is only used in errors. Definitions may refer to later definitions, also in
    /// later files. OID macros apply to the rest of this text and to all later texts. [`Self::build`] reports mistakes
    /// in the text.
    pub fn add_text(&mut self, file: &str, text: &str) -> &mut SchemaBuilder {
        let read = schema_file::read(file, text, &mut self.macros);
        self.definitions.extend(read.definitions);
        self.mistakes.errors.extend(read.errors);
        self.mistakes.unread.extend(read.unread);
        self
    }

    /// Resolves all names. A definition with the same meaning as an earlier one is dropped. A definition that differs
    /// from a shipped definition is dropped too, and [`Self::without_effect`] reports the difference.
    ///
    /// # Errors
    /// All mistakes in the texts, and all definitions that contradict another or refer to something unknown.
    pub fn build(&self) -> Result<Arc<Schema>, SchemaErrors> {
        self.resolve().0
    }

    /// Returns the parts of the texts that have no effect although they contain no mistake, in the order of texts and
    /// lines.
    pub fn without_effect(&self) -> Vec<WithoutEffect> {
        let mut all: Vec<WithoutEffect> = self.definitions.iter().flat_map(effect::of).collect();
        all.extend(self.resolve().1);
        let place = |file: &str| self.definitions.iter().position(|located| located.file == file);
        all.sort_by_key(|one| (place(&one.file), one.line));
        all
    }

    /// Returns the schema, and notices: definitions that differ from shipped definitions and are dropped, and harmless
    /// faults.
    fn resolve(&self) -> (Result<Arc<Schema>, SchemaErrors>, Vec<WithoutEffect>) {
        let mut mistakes = self.mistakes.clone();
        let mut notices = Vec::new();
        let mut oids = Oids::default();
        let mut syntaxes = Syntaxes::built_in();
        for located in self.of_kind(Kind::Syntax) {
            syntaxes.add(located, &mut mistakes, &mut notices);
        }
        // Matching rules are built in, and a text cannot define a matching rule. But some files list the rules that
        // they use.
        for located in self.of_kind(Kind::MatchingRule).chain(self.of_kind(Kind::MatchingRuleUse)) {
            if MatchingRule::find(&located.definition.oid).is_none() {
                notices.push(WithoutEffect::notice(located, "the matching rule is not known here"));
            }
        }
        let types = Table::collect(self.of_kind(Kind::AttributeType), &mut oids, &mut mistakes);
        let classes = Table::collect(self.of_kind(Kind::ObjectClass), &mut oids, &mut mistakes);
        let mut attribute_types = resolve_types(&types, &syntaxes, &mut mistakes, &mut notices);
        let unusable_links = mark_links(&types, &mut attribute_types, &syntaxes);
        let object_classes = resolve_classes(&classes, &types, &mut mistakes);
        notices.extend(compare_types(&types, &attribute_types, &syntaxes, &mut mistakes));
        notices.extend(compare_classes(&classes, &types, &object_classes, &mut mistakes));
        let complete = |count| count == (types.list.len(), classes.list.len());
        let attribute_types: Vec<_> = attribute_types.into_iter().flatten().collect();
        let object_classes: Vec<_> = object_classes.into_iter().flatten().collect();
        if !complete((attribute_types.len(), object_classes.len())) {
            return (Err(SchemaErrors::of(mistakes.errors)), notices);
        }
        let mut schema =
            Schema::assemble(attribute_types, types.names, object_classes, classes.names, syntaxes.list);
        schema.unusable_links = unusable_links;
        schema.structure = Structure::resolve(
            &schema,
            self.of_kind(Kind::ContentRule),
            self.of_kind(Kind::NameForm),
            self.of_kind(Kind::StructureRule),
            (&mut mistakes, &mut notices),
        );
        if !mistakes.errors.is_empty() {
            return (Err(SchemaErrors::of(mistakes.errors)), notices);
        }
        (Ok(Arc::new(schema)), notices)
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Located> {
        self.definitions.iter().filter(move |located| located.definition.kind == kind)
    }
}
