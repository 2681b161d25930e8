//! From schema texts to a [`Schema`]: duplicates, then names to ids, then inheritance.

mod structure;

use std::sync::{Arc, OnceLock};

use crate::definition::{Definition, Kind, Macros};
use crate::effect::{self, WithoutEffect};
use crate::names::NameTable;
use crate::schema_file::{self, Located};
use crate::structure::Structure;
use crate::syntax::{self, Syntax};
use crate::{
    AttributeType, AttributeUsage, ClassId, ClassKind, MatchingRule, ObjectClassDef, RuleUse, Schema,
    SchemaError, SchemaErrorKind, SyntaxId, TypeId, oid, type_key,
};

/// The shipped files, in the order of dependence (which only people care about).
const SHIPPED: &[(&str, &str)] = &[
    ("system.schema", include_str!("../files/system.schema")),
    ("core.schema", include_str!("../files/core.schema")),
    ("cosine.schema", include_str!("../files/cosine.schema")),
    ("inetorgperson.schema", include_str!("../files/inetorgperson.schema")),
    ("certificate.schema", include_str!("../files/certificate.schema")),
    ("nis.schema", include_str!("../files/nis.schema")),
    ("authpassword.schema", include_str!("../files/authpassword.schema")),
    ("passwordpolicy.schema", include_str!("../files/passwordpolicy.schema")),
    ("dynamicgroup.schema", include_str!("../files/dynamicgroup.schema")),
    ("openssh.schema", include_str!("../files/openssh.schema")),
    ("mail.schema", include_str!("../files/mail.schema")),
    ("collective.schema", include_str!("../files/collective.schema")),
    ("pando.schema", include_str!("../files/pando.schema")),
];

/// Collects schema texts and resolves them into a [`Schema`].
///
/// ```
/// let mut builder = schema::SchemaBuilder::shipped();
/// builder.add_text("mine.schema", "attributetype ( 1.3.6.1.4.1.99999.7 NAME 'shoeSize' SUP name )").unwrap();
/// let schema = builder.build().unwrap();
/// assert_eq!(schema.attribute_type("SHOESIZE").unwrap().name(), "shoeSize");
/// ```
#[derive(Debug, Default, Clone)]
pub struct SchemaBuilder {
    definitions: Vec<Located>,
    macros: Macros,
}

impl Schema {
    /// The shipped schema: every file in `crates/schema/files`. Built once a process.
    ///
    /// # Panics
    /// When the shipped files contradict each other, which a test excludes.
    pub fn shipped() -> Arc<Schema> {
        static SHIPPED: OnceLock<Arc<Schema>> = OnceLock::new();
        let build =
            || SchemaBuilder::shipped().build().unwrap_or_else(|error| panic!("shipped schema: {error}"));
        Arc::clone(SHIPPED.get_or_init(build))
    }
}

impl SchemaBuilder {
    /// An empty builder: not even `top`.
    pub fn new() -> SchemaBuilder {
        SchemaBuilder::default()
    }

    /// A builder that holds the shipped files.
    ///
    /// # Panics
    /// When a shipped file does not parse, which a test excludes.
    pub fn shipped() -> SchemaBuilder {
        let mut builder = SchemaBuilder::new();
        for (file, text) in SHIPPED {
            if let Err(error) = builder.add_text(file, text) {
                panic!("shipped schema: {error}");
            }
        }
        builder
    }

    /// Adds one file's text. `file` is used in errors only. Definitions may refer to later ones and to later files.
    /// OID macros hold for the rest of this and for all later texts.
    ///
    /// # Errors
    /// The text does not follow the grammar; nothing of it is added. Names are resolved in [`Self::build`].
    pub fn add_text(&mut self, file: &str, text: &str) -> Result<&mut SchemaBuilder, SchemaError> {
        let mut macros = self.macros.clone();
        self.definitions.extend(schema_file::read(file, text, &mut macros)?);
        self.macros = macros;
        Ok(self)
    }

    /// Resolves all names. A definition that repeats an earlier one, but for its description, is dropped.
    ///
    /// # Errors
    /// The first definition, in the order given, that clashes with another or refers to something unknown.
    pub fn build(&self) -> Result<Arc<Schema>, SchemaError> {
        let mut oids = Oids::default();
        let mut syntaxes = Syntaxes::built_in();
        for located in self.of_kind(Kind::Syntax) {
            syntaxes.add(located)?;
        }
        for kind in [Kind::MatchingRule, Kind::MatchingRuleUse] {
            self.of_kind(kind).try_for_each(known_rule)?;
        }
        let types = Table::collect(self.of_kind(Kind::AttributeType), &mut oids)?;
        let classes = Table::collect(self.of_kind(Kind::ObjectClass), &mut oids)?;
        let attribute_types = resolve_types(&types, &syntaxes)?;
        let object_classes = resolve_classes(&classes, &types)?;
        let mut schema =
            Schema::assemble(attribute_types, types.names, object_classes, classes.names, syntaxes.list);
        let structure = Structure::resolve(
            &schema,
            self.of_kind(Kind::ContentRule),
            self.of_kind(Kind::NameForm),
            self.of_kind(Kind::StructureRule),
        )?;
        schema.structure = structure;
        Ok(Arc::new(schema))
    }

    /// Returns the parts of all texts that load and have no effect, in their order.
    pub fn without_effect(&self) -> Vec<WithoutEffect> {
        self.definitions.iter().flat_map(effect::of).collect()
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Located> {
        self.definitions.iter().filter(move |located| located.definition.kind == kind)
    }
}

/// A matching rule cannot be defined in text, but files list those they use.
fn known_rule(located: &Located) -> Result<(), SchemaError> {
    let oid = &located.definition.oid;
    match MatchingRule::find(oid) {
        Some(_) => Ok(()),
        None => {
            let name = located.definition.label().to_owned();
            Err(located.error(SchemaErrorKind::UnknownRule { term: "the definition", name }))
        }
    }
}

/// Place of the first definition of each OID of an attribute type or object class.
type Oids = std::collections::HashMap<String, String>;

/// Definitions of one kind without repetitions; an index is an id.
struct Table<'a> {
    list: Vec<&'a Located>,
    /// Names and OIDs.
    names: NameTable,
}

impl<'a> Table<'a> {
    fn collect(
        definitions: impl Iterator<Item = &'a Located>,
        oids: &mut Oids,
    ) -> Result<Table<'a>, SchemaError> {
        let mut table = Table { list: Vec::new(), names: NameTable::default() };
        for located in definitions {
            table.add(located, oids)?;
        }
        Ok(table)
    }

    fn add(&mut self, located: &'a Located, oids: &mut Oids) -> Result<(), SchemaError> {
        let definition = &located.definition;
        let earlier = self.names.find(&definition.oid).and_then(|index| self.list.get(index));
        if earlier.is_some_and(|earlier| earlier.definition.is_repeated_by(definition)) {
            return Ok(());
        }
        if let Some(other) = oids.insert(definition.oid.to_ascii_lowercase(), located.place()) {
            return Err(located.error(SchemaErrorKind::DuplicateOid { oid: definition.oid.clone(), other }));
        }
        let index = self.list.len();
        self.names.insert(&definition.oid, index);
        for name in definition.many("NAME") {
            match self.names.insert(name, index) {
                Some(other) if other != index => {
                    let other = self.list.get(other).map_or_else(String::new, |other| {
                        format!("{} {}", other.definition.oid, other.place())
                    });
                    return Err(located.error(SchemaErrorKind::DuplicateName { name: name.clone(), other }));
                }
                _ => {}
            }
        }
        self.list.push(located);
        Ok(())
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.names.find(name)
    }

    /// Indexes ordered so that superiors come before what derives from them.
    ///
    /// # Errors
    /// A definition that derives from itself.
    #[expect(
        clippy::indexing_slicing,
        reason = "each definition has its place in all lists, and superiors are places"
    )]
    fn by_inheritance(&self, superiors: &[Vec<usize>]) -> Result<Vec<usize>, SchemaError> {
        let mut done = vec![false; self.list.len()];
        let mut order = Vec::with_capacity(self.list.len());
        while order.len() < self.list.len() {
            let before = order.len();
            for index in 0..self.list.len() {
                if !done[index] && superiors[index].iter().all(|&superior| done[superior]) {
                    done[index] = true;
                    order.push(index);
                }
            }
            if order.len() == before {
                return Err(self.cycle(superiors, &done));
            }
        }
        Ok(order)
    }

    /// Follows superiors that are not done until one comes round again.
    #[expect(
        clippy::indexing_slicing,
        reason = "each definition has its place in all lists, and superiors are places"
    )]
    fn cycle(&self, superiors: &[Vec<usize>], done: &[bool]) -> SchemaError {
        let mut at = done.iter().position(|done| !done).unwrap_or(0);
        let mut seen = Vec::new();
        while !seen.contains(&at) {
            seen.push(at);
            at = superiors[at].iter().copied().find(|&superior| !done[superior]).unwrap_or(at);
        }
        let located = self.list[at];
        located.error(SchemaErrorKind::Cycle(located.definition.label().to_owned()))
    }
}

struct Syntaxes {
    list: Vec<Syntax>,
    names: NameTable,
}

impl Syntaxes {
    fn built_in() -> Syntaxes {
        let mut syntaxes = Syntaxes { list: Vec::new(), names: NameTable::default() };
        for syntax in syntax::built_in() {
            syntaxes.push(syntax);
        }
        syntaxes
    }

    fn push(&mut self, syntax: Syntax) {
        self.names.insert(&syntax.oid, self.list.len());
        self.list.push(syntax);
    }

    /// A built-in syntax may be repeated; a new one names, with X-SUBST, the known one that it is.
    fn add(&mut self, located: &Located) -> Result<(), SchemaError> {
        let definition = &located.definition;
        if self.names.find(&definition.oid).is_some() {
            return Ok(());
        }
        let original = definition.extension("X-SUBST").and_then(|values| values.first());
        let Some(original) = original else {
            return Err(located.error(SchemaErrorKind::UnknownSyntax(definition.oid.clone())));
        };
        let Some(known) = self.names.find(original).and_then(|index| self.list.get(index)) else {
            return Err(located.error(SchemaErrorKind::UnknownSyntax(original.clone())));
        };
        let description = definition.one("DESC").unwrap_or(&definition.oid);
        let syntax = Syntax::substitute(&definition.oid, description, known, definition.render());
        self.push(syntax);
        Ok(())
    }
}

#[expect(
    clippy::indexing_slicing,
    reason = "each definition has its place in all lists, and superiors are places"
)]
fn resolve_types(table: &Table<'_>, syntaxes: &Syntaxes) -> Result<Vec<AttributeType>, SchemaError> {
    let mut superiors = Vec::with_capacity(table.list.len());
    for located in &table.list {
        let superior = located.definition.one("SUP").map(|name| {
            table.find(name).ok_or_else(|| located.error(SchemaErrorKind::UnknownSuperior(name.to_owned())))
        });
        superiors.push(superior.transpose()?.into_iter().collect::<Vec<_>>());
    }
    let mut resolved: Vec<Option<AttributeType>> = vec![None; table.list.len()];
    for index in table.by_inheritance(&superiors)? {
        let superior = superiors[index].first().and_then(|&superior| resolved[superior].as_ref());
        let located = table.list[index];
        let attribute_type = resolve_type(TypeId(number(index)), &located.definition, superior, syntaxes);
        resolved[index] = Some(attribute_type.map_err(|kind| located.error(kind))?);
    }
    Ok(resolved.into_iter().flatten().collect())
}

/// A place in a list of definitions as a number.
#[expect(clippy::cast_possible_truncation, reason = "memory ends before 2^32 definitions")]
fn number(place: usize) -> u32 {
    place as u32
}

fn resolve_type(
    id: TypeId,
    definition: &Definition,
    superior: Option<&AttributeType>,
    syntaxes: &Syntaxes,
) -> Result<AttributeType, SchemaErrorKind> {
    let (syntax, length_bound) = match definition.one("SYNTAX") {
        Some(text) => syntax_of(text, syntaxes)?,
        // The grammar gives every type a syntax or a supertype.
        None => superior.map_or((SyntaxId(0), None), |superior| (superior.syntax, superior.length_bound)),
    };
    let rule = |term, rule_use, inherited: fn(&AttributeType) -> Option<MatchingRule>| {
        let own = definition.one(term).map(|name| rule_of(term, name, rule_use)).transpose()?;
        Ok(own.or_else(|| superior.and_then(inherited)))
    };
    let names = definition.many("NAME").to_vec();
    let name = names.first().unwrap_or(&definition.oid);
    let binary_transfer =
        syntaxes.list.get(usize::from(syntax.0)).is_some_and(|syntax| syntax.binary_transfer);
    let returned_name = if binary_transfer { format!("{name};binary") } else { name.clone() };
    let mut type_key = Vec::new();
    type_key::write_type(&definition.oid, &mut type_key);
    let attribute_type = AttributeType {
        id,
        returned_name,
        type_key: type_key.into(),
        oid: definition.oid.clone(),
        names,
        description: definition.one("DESC").map(str::to_owned),
        obsolete: definition.flag("OBSOLETE"),
        sup: superior.map(|superior| superior.id),
        syntax,
        length_bound,
        equality: rule("EQUALITY", RuleUse::Equality, |superior| superior.equality)?,
        ordering: rule("ORDERING", RuleUse::Ordering, |superior| superior.ordering)?,
        substring: rule("SUBSTR", RuleUse::Substring, |superior| superior.substring)?,
        single_value: definition.flag("SINGLE-VALUE"),
        collective: definition.flag("COLLECTIVE"),
        no_user_modification: definition.flag("NO-USER-MODIFICATION"),
        usage: usage_of(definition.one("USAGE"))?,
        binary_transfer,
        definition: definition.render(),
    };
    check_type(&attribute_type, superior)?;
    Ok(attribute_type)
}

fn check_type(
    attribute_type: &AttributeType,
    superior: Option<&AttributeType>,
) -> Result<(), SchemaErrorKind> {
    if attribute_type.no_user_modification && !attribute_type.is_operational() {
        return Err(SchemaErrorKind::UserAttributeNotModifiable);
    }
    if attribute_type.collective && attribute_type.is_operational() {
        return Err(SchemaErrorKind::CollectiveOperational);
    }
    if attribute_type.collective && attribute_type.single_value {
        return Err(SchemaErrorKind::ContradictoryTerms("COLLECTIVE", "SINGLE-VALUE"));
    }
    let Some(superior) = superior else { return Ok(()) };
    if superior.usage != attribute_type.usage {
        return Err(SchemaErrorKind::UsageMismatch(superior.name().to_owned()));
    }
    // A collective type may refine an ordinary one (c-l is an l, RFC 3671 section 3), never the reverse.
    if superior.collective && !attribute_type.collective {
        return Err(SchemaErrorKind::CollectiveMismatch(superior.name().to_owned()));
    }
    Ok(())
}

fn syntax_of(text: &str, syntaxes: &Syntaxes) -> Result<(SyntaxId, Option<u32>), SchemaErrorKind> {
    let (oid, bound) = match text.split_once('{') {
        Some((oid, bound)) => (oid, bound.trim_end_matches('}').parse().ok()),
        None => (text, None),
    };
    // Of more syntaxes than there are ids, the last are unknown.
    match syntaxes.names.find(oid).and_then(|index| u16::try_from(index).ok()) {
        Some(index) => Ok((SyntaxId(index), bound)),
        None => Err(SchemaErrorKind::UnknownSyntax(oid.to_owned())),
    }
}

fn rule_of(term: &'static str, name: &str, rule_use: RuleUse) -> Result<MatchingRule, SchemaErrorKind> {
    match MatchingRule::find(name) {
        None => Err(SchemaErrorKind::UnknownRule { term, name: name.to_owned() }),
        Some(rule) if rule.rule_use() != rule_use => {
            Err(SchemaErrorKind::WrongRule { term, name: rule.name() })
        }
        Some(rule) => Ok(rule),
    }
}

fn usage_of(text: Option<&str>) -> Result<AttributeUsage, SchemaErrorKind> {
    let Some(text) = text else { return Ok(AttributeUsage::UserApplications) };
    [
        ("userApplications", AttributeUsage::UserApplications),
        ("directoryOperation", AttributeUsage::DirectoryOperation),
        ("distributedOperation", AttributeUsage::DistributedOperation),
        ("dSAOperation", AttributeUsage::DsaOperation),
    ]
    .into_iter()
    .find(|(name, _)| name.eq_ignore_ascii_case(text))
    .map(|(_, usage)| usage)
    .ok_or_else(|| SchemaErrorKind::BadUsage(text.to_owned()))
}

#[expect(
    clippy::indexing_slicing,
    reason = "each definition has its place in all lists, and superiors are places"
)]
fn resolve_classes(classes: &Table<'_>, types: &Table<'_>) -> Result<Vec<ObjectClassDef>, SchemaError> {
    let top = classes.find("top");
    let mut superiors = Vec::with_capacity(classes.list.len());
    for (index, located) in classes.list.iter().enumerate() {
        let mut of_class = Vec::new();
        for name in located.definition.many("SUP") {
            let unknown = || located.error(SchemaErrorKind::UnknownSuperior(name.clone()));
            of_class.push(classes.find(name).ok_or_else(unknown)?);
        }
        // Every class but `top` derives from it, written or not (RFC 4512 section 2.4.1).
        if of_class.is_empty() {
            of_class.extend(top.filter(|&top| top != index));
        }
        superiors.push(of_class);
    }
    let mut resolved: Vec<Option<ObjectClassDef>> = vec![None; classes.list.len()];
    for index in classes.by_inheritance(&superiors)? {
        let located = classes.list[index];
        let above: Vec<&ObjectClassDef> =
            superiors[index].iter().filter_map(|&superior| resolved[superior].as_ref()).collect();
        let class = resolve_class(ClassId(number(index)), &located.definition, &above, types);
        resolved[index] = Some(class.map_err(|kind| located.error(kind))?);
    }
    Ok(resolved.into_iter().flatten().collect())
}

fn resolve_class(
    id: ClassId,
    definition: &Definition,
    above: &[&ObjectClassDef],
    types: &Table<'_>,
) -> Result<ObjectClassDef, SchemaErrorKind> {
    let kind = match (definition.flag("ABSTRACT"), definition.flag("AUXILIARY")) {
        (true, _) => ClassKind::Abstract,
        (_, true) => ClassKind::Auxiliary,
        _ => ClassKind::Structural,
    };
    if let Some(wrong) = above.iter().find(|superior| !may_derive(kind, superior.kind)) {
        return Err(SchemaErrorKind::ClassInheritance {
            kind: kind.name(),
            superior: wrong.name().to_owned(),
            superior_kind: wrong.kind.name(),
        });
    }
    let attributes = |term| {
        let find = |name: &String| match types.find(name) {
            Some(index) => Ok(TypeId(number(index))),
            None => Err(SchemaErrorKind::UnknownAttribute { term, name: name.clone() }),
        };
        definition.many(term).iter().map(find).collect::<Result<Vec<_>, _>>()
    };
    let (must, may) = (attributes("MUST")?, attributes("MAY")?);
    let mut closure = vec![id];
    for class in above.iter().flat_map(|superior| &superior.closure) {
        if !closure.contains(class) {
            closure.push(*class);
        }
    }
    let mut oid_key = Vec::new();
    oid::encode_oid(&definition.oid, &mut oid_key);
    let all_must = union(&must, above.iter().map(|superior| &superior.all_must));
    let mut all_may = union(&may, above.iter().map(|superior| &superior.all_may));
    all_may.retain(|id| all_must.binary_search(id).is_err());
    Ok(ObjectClassDef {
        id,
        oid: definition.oid.clone(),
        names: definition.many("NAME").to_vec(),
        description: definition.one("DESC").map(str::to_owned),
        obsolete: definition.flag("OBSOLETE"),
        kind,
        superclasses: above.iter().map(|superior| superior.id).collect(),
        must,
        may,
        closure,
        all_must,
        all_may,
        oid_key: oid_key.into(),
        standalone: kind == ClassKind::Auxiliary
            && definition.extension("X-PANDO-STANDALONE").is_some_and(|values| values == ["TRUE"]),
        definition: definition.render(),
    })
}

/// RFC 4512 section 2.4: abstract from abstract, structural not from auxiliary, auxiliary not from structural.
fn may_derive(kind: ClassKind, superior: ClassKind) -> bool {
    superior == ClassKind::Abstract || kind == superior
}

fn union<'a>(own: &[TypeId], inherited: impl Iterator<Item = &'a Vec<TypeId>>) -> Vec<TypeId> {
    let mut all = own.to_vec();
    all.extend(inherited.flatten());
    all.sort_unstable();
    all.dedup();
    all
}
