//! Resolves DIT content rules, name forms and structure rules.

use std::collections::{HashMap, HashSet};

use super::Mistakes;
use crate::effect::WithoutEffect;
use crate::schema_file::Located;
use crate::structure::{ContentRule, NameForm, Structure, StructureRule};
use crate::{AttributeType, ClassId, ClassKind, Schema, SchemaErrorKind, TypeId};

type Result<T> = std::result::Result<T, SchemaErrorKind>;

impl Structure {
    /// Resolves all definitions of the three kinds. A definition that repeats an earlier one is dropped.
    pub(super) fn resolve<'a>(
        schema: &Schema,
        content_rules: impl Iterator<Item = &'a Located>,
        name_forms: impl Iterator<Item = &'a Located>,
        structure_rules: impl Iterator<Item = &'a Located>,
        (mistakes, notices): (&mut Mistakes, &mut Vec<WithoutEffect>),
    ) -> Structure {
        let mut structure = Structure::default();
        for located in without_copies(content_rules) {
            let rule = content_rule(schema, located, mistakes);
            let rule = rule.and_then(|rule| match structure.has_content_rule(rule.class) {
                true => {
                    let other = schema.class_by_id(rule.class).name().to_owned();
                    Err(SchemaErrorKind::DuplicateOid { oid: located.definition.oid.clone(), other })
                }
                false => Ok(rule),
            });
            structure.content_rules.extend(mistakes.take(located, rule));
        }
        for located in without_copies(name_forms) {
            let form = name_form(schema, located, mistakes);
            let check =
                |form: Option<NameForm>| form.map(|form| structure.check_new_form(schema, form)).transpose();
            let form = mistakes.take(located, form.and_then(check)).flatten();
            if form.is_none() {
                let names = located.definition.many("NAME").iter().chain([&located.definition.oid]);
                mistakes.unread.extend(names.map(|name| name.to_ascii_lowercase()));
            }
            structure.name_forms.extend(form);
        }
        let located = without_copies(structure_rules);
        // All rule numbers are collected first, because a superior rule may be defined later.
        let known = located.iter().filter_map(|located| number(&located.definition.oid).ok());
        let known: HashSet<u32> = known.collect();
        for located in &located {
            let rule = structure.structure_rule(located, &known);
            structure.structure_rules.extend(mistakes.take(located, rule));
        }
        if mistakes.errors.is_empty() {
            structure.report_unreachable(&located, notices);
        }
        structure
    }

    fn has_content_rule(&self, class: ClassId) -> bool {
        self.content_rules.iter().any(|other| other.class == class)
    }

    fn form_named(&self, name: &str) -> Option<usize> {
        let is_named = |form: &NameForm| {
            form.oid.eq_ignore_ascii_case(name) || form.names.iter().any(|one| one.eq_ignore_ascii_case(name))
        };
        self.name_forms.iter().position(is_named)
    }

    /// Refuses a name form with the OID of another definition, or with a name of another form.
    fn check_new_form(&self, schema: &Schema, form: NameForm) -> Result<NameForm> {
        let other_form = |name: &String| {
            self.form_named(name).and_then(|place| Some(self.name_forms.get(place)?.name().to_owned()))
        };
        let of_type = schema.attribute_type(&form.oid).map(|known| known.name().to_owned());
        let of_class = || schema.object_class(&form.oid).map(|known| known.name().to_owned());
        if let Some(other) = other_form(&form.oid).or(of_type).or_else(of_class) {
            return Err(SchemaErrorKind::DuplicateOid { oid: form.oid, other });
        }
        let taken = form.names.iter().find_map(|name| Some((name.clone(), other_form(name)?)));
        match taken {
            Some((name, other)) => Err(SchemaErrorKind::DuplicateName { name, other }),
            None => Ok(form),
        }
    }

    fn structure_rule(&self, located: &Located, known: &HashSet<u32>) -> Result<StructureRule> {
        let definition = &located.definition;
        let id = number(&definition.oid)?;
        if self.structure_rules.iter().any(|other| other.id == id) {
            let other = "another structure rule".to_owned();
            return Err(SchemaErrorKind::DuplicateOid { oid: definition.oid.clone(), other });
        }
        let form_name = definition.one("FORM").unwrap_or_default();
        let form = self.form_named(form_name);
        let superiors = definition.many("SUP").iter().map(|text| number(text)).collect::<Result<Vec<_>>>()?;
        if let Some(unknown) = superiors.iter().find(|superior| !known.contains(superior)) {
            return Err(SchemaErrorKind::UnknownSuperior(unknown.to_string()));
        }
        Ok(StructureRule {
            id,
            form: form.ok_or_else(|| SchemaErrorKind::UnknownNameForm(form_name.to_owned()))?,
            obsolete: definition.flag("OBSOLETE"),
            superiors,
            definition: definition.render(),
        })
    }

    /// Reports rules that cannot apply to any entry, because no chain of superior rules leads to an administrative
    /// point.
    fn report_unreachable(&self, located: &[&Located], notices: &mut Vec<WithoutEffect>) {
        let mut reached: HashSet<u32> = HashSet::new();
        loop {
            let is_next = |rule: &&StructureRule| {
                let is_below = || rule.superiors.iter().any(|superior| reached.contains(superior));
                !rule.obsolete && !reached.contains(&rule.id) && (rule.is_of_points() || is_below())
            };
            let next: Vec<u32> = self.structure_rules.iter().filter(is_next).map(|rule| rule.id).collect();
            if next.is_empty() {
                break;
            }
            reached.extend(next);
        }
        for (rule, located) in self.structure_rules.iter().zip(located) {
            if !rule.obsolete && !reached.contains(&rule.id) {
                let what = "no entry can be governed by the rule: its superior rules do not lead to an active rule \
                            without SUP";
                notices.push(WithoutEffect::notice(located, what));
            }
        }
    }
}

/// Returns the definitions. Omits each definition that has the same meaning as an earlier definition.
fn without_copies<'a>(definitions: impl Iterator<Item = &'a Located>) -> Vec<&'a Located> {
    let mut earlier: HashMap<String, Vec<&'a Located>> = HashMap::new();
    let mut kept = Vec::new();
    for located in definitions {
        let same = earlier.entry(located.definition.oid.to_ascii_lowercase()).or_default();
        if !same.iter().any(|other| other.definition.is_repeated_by(&located.definition)) {
            same.push(located);
            kept.push(located);
        }
    }
    kept
}

fn number(text: &str) -> Result<u32> {
    text.parse().map_err(|_| SchemaErrorKind::BadNumber(text.to_owned()))
}

fn content_rule(schema: &Schema, located: &Located, mistakes: &mut Mistakes) -> Result<ContentRule> {
    let definition = &located.definition;
    let class = structural_class(schema, "the rule's OID", &definition.oid)?;
    let mut auxiliary = Vec::new();
    for name in definition.many("AUX") {
        let class = class_of(schema, "AUX", name).and_then(|id| match schema.class_by_id(id).kind {
            ClassKind::Auxiliary => Ok(id),
            _ => Err(SchemaErrorKind::NotAuxiliary(name.clone())),
        });
        auxiliary.extend(mistakes.take(located, class));
    }
    let mut types = |term| types_of(schema, located, (term, check_content), mistakes);
    let (must, may, not) = (types("MUST"), types("MAY"), types("NOT"));
    let definition = definition.render();
    let obsolete = located.definition.flag("OBSOLETE");
    let rule = ContentRule { class, obsolete, auxiliary, must, may, not, definition };
    let required = rule.must.iter().chain(&schema.class_by_id(class).all_must);
    let required = required.chain(rule.auxiliary.iter().flat_map(|&id| &schema.class_by_id(id).all_must));
    exclude(schema, required, "MUST", &rule.not, "NOT")?;
    exclude(schema, rule.may.iter(), "MAY", &rule.not, "NOT")?;
    Ok(rule)
}

/// Returns a name form; `None` if it is incomplete because of a mistake that was already reported.
fn name_form(schema: &Schema, located: &Located, mistakes: &mut Mistakes) -> Result<Option<NameForm>> {
    let definition = &located.definition;
    let class = structural_class(schema, "OC", definition.one("OC").unwrap_or_default());
    let class = mistakes.take(located, class);
    let mut types = |term| types_of(schema, located, (term, check_naming), mistakes);
    let (must, may) = (types("MUST"), types("MAY"));
    exclude(schema, must.iter(), "MUST", &may, "MAY")?;
    let form = class.filter(|_| must.len() == definition.many("MUST").len()).map(|class| NameForm {
        oid: definition.oid.clone(),
        names: definition.many("NAME").to_vec(),
        class,
        obsolete: definition.flag("OBSOLETE"),
        must,
        may,
        definition: definition.render(),
    });
    Ok(form)
}

fn exclude<'a>(
    schema: &Schema,
    mut some: impl Iterator<Item = &'a TypeId>,
    one: &'static str,
    others: &[TypeId],
    other: &'static str,
) -> Result<()> {
    match some.find(|id| others.contains(id)) {
        None => Ok(()),
        Some(&id) => {
            let name = schema.type_by_id(id).name().to_owned();
            Err(SchemaErrorKind::ContradictoryAttribute { name, one, other })
        }
    }
}

fn class_of(schema: &Schema, term: &'static str, name: &str) -> Result<ClassId> {
    let unknown = || SchemaErrorKind::UnknownClass { term, name: name.to_owned() };
    schema.object_class(name).map(|class| class.id).ok_or_else(unknown)
}

fn structural_class(schema: &Schema, term: &'static str, name: &str) -> Result<ClassId> {
    let id = class_of(schema, term, name)?;
    match schema.class_by_id(id).kind {
        ClassKind::Structural => Ok(id),
        _ => Err(SchemaErrorKind::NotStructural(name.to_owned())),
    }
}

/// Returns the attribute types of a term that pass a check, and reports the others.
fn types_of(
    schema: &Schema,
    located: &Located,
    (term, check): (&'static str, fn(&AttributeType) -> Result<()>),
    mistakes: &mut Mistakes,
) -> Vec<TypeId> {
    let mut found = Vec::new();
    for name in located.definition.many(term) {
        let known = schema
            .attribute_type(name)
            .ok_or_else(|| SchemaErrorKind::UnknownAttribute { term, name: name.clone() });
        let known = known.and_then(|known| check(known).map(|()| known.id));
        found.extend(mistakes.take(located, known));
    }
    found
}

/// Refuses attributes that content rules do not regulate. The server maintains operational attributes, and collective
/// attributes are in subentries.
fn check_content(known: &AttributeType) -> Result<()> {
    match known.is_operational() || known.collective {
        true => Err(SchemaErrorKind::NotOfEntries(known.name().to_owned())),
        false => Ok(()),
    }
}

/// Refuses attributes that cannot be in an RDN: they need an equality rule (RFC 4512 section 2.3), and clients must be
/// able to write them.
fn check_naming(known: &AttributeType) -> Result<()> {
    match known.equality.is_none() || known.is_operational() || known.collective {
        true => Err(SchemaErrorKind::CannotName(known.name().to_owned())),
        false => Ok(()),
    }
}
