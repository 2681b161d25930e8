//! Resolves DIT content rules, name forms and structure rules.

use crate::schema_file::Located;
use crate::structure::{ContentRule, NameForm, Structure, StructureRule};
use crate::{ClassId, ClassKind, Schema, SchemaError, SchemaErrorKind, TypeId};

impl Structure {
    pub(crate) fn resolve<'a>(
        schema: &Schema,
        content_rules: impl Iterator<Item = &'a Located>,
        name_forms: impl Iterator<Item = &'a Located>,
        structure_rules: impl Iterator<Item = &'a Located>,
    ) -> Result<Structure, SchemaError> {
        let mut structure = Structure::default();
        for located in content_rules {
            let rule = content_rule(schema, located).map_err(|kind| located.error(kind))?;
            if structure.content_rules.iter().any(|other| other.class == rule.class) {
                let other = schema.class_by_id(rule.class).name().to_owned();
                let oid = located.definition.oid.clone();
                return Err(located.error(SchemaErrorKind::DuplicateOid { oid, other }));
            }
            structure.content_rules.push(rule);
        }
        for located in name_forms {
            let form = name_form(schema, located).map_err(|kind| located.error(kind))?;
            if structure.name_forms.iter().any(|other| other.oid == form.oid) {
                let (oid, other) = (form.oid, located.definition.label().to_owned());
                return Err(located.error(SchemaErrorKind::DuplicateOid { oid, other }));
            }
            structure.name_forms.push(form);
        }
        let located: Vec<&Located> = structure_rules.collect();
        for located in &located {
            let rule = structure.structure_rule(located).map_err(|kind| located.error(kind))?;
            structure.structure_rules.push(rule);
        }
        // Superior rules may come later, so they are looked for when all are there.
        for (rule, located) in structure.structure_rules.iter().zip(&located) {
            let known = |id: &&u32| structure.structure_rules.iter().any(|other| other.id == **id);
            if let Some(unknown) = rule.superiors.iter().find(|id| !known(id)) {
                return Err(located.error(SchemaErrorKind::UnknownSuperior(unknown.to_string())));
            }
        }
        Ok(structure)
    }

    fn structure_rule(&self, located: &Located) -> Result<StructureRule, SchemaErrorKind> {
        let definition = &located.definition;
        let number = |text: &String| text.parse().map_err(|_| SchemaErrorKind::BadNumber(text.clone()));
        let id = number(&definition.oid)?;
        if self.structure_rules.iter().any(|other| other.id == id) {
            let other = definition.label().to_owned();
            return Err(SchemaErrorKind::DuplicateOid { oid: definition.oid.clone(), other });
        }
        let form_name = definition.one("FORM").unwrap_or_default();
        let named = |form: &NameForm| {
            form.oid == form_name || form.names.iter().any(|name| name.eq_ignore_ascii_case(form_name))
        };
        let form = self.name_forms.iter().position(named);
        Ok(StructureRule {
            id,
            form: form.ok_or_else(|| SchemaErrorKind::UnknownNameForm(form_name.to_owned()))?,
            obsolete: definition.flag("OBSOLETE"),
            superiors: definition.many("SUP").iter().map(number).collect::<Result<_, _>>()?,
            definition: definition.render(),
        })
    }
}

fn content_rule(schema: &Schema, located: &Located) -> Result<ContentRule, SchemaErrorKind> {
    let definition = &located.definition;
    let class = structural_class(schema, "the rule's OID", &definition.oid)?;
    let find_class = |name: &String| class_of(schema, "AUX", name);
    let rule = ContentRule {
        class,
        obsolete: definition.flag("OBSOLETE"),
        auxiliary: definition.many("AUX").iter().map(find_class).collect::<Result<_, _>>()?,
        must: types_of(schema, located, "MUST")?,
        may: types_of(schema, located, "MAY")?,
        not: types_of(schema, located, "NOT")?,
        definition: definition.render(),
    };
    let required = rule.must.iter().chain(&schema.class_by_id(class).all_must);
    let required = required.chain(rule.auxiliary.iter().flat_map(|&id| &schema.class_by_id(id).all_must));
    exclude(schema, required, "MUST", &rule.not, "NOT")?;
    Ok(rule)
}

fn name_form(schema: &Schema, located: &Located) -> Result<NameForm, SchemaErrorKind> {
    let definition = &located.definition;
    let form = NameForm {
        oid: definition.oid.clone(),
        names: definition.many("NAME").to_vec(),
        class: structural_class(schema, "OC", definition.one("OC").unwrap_or_default())?,
        obsolete: definition.flag("OBSOLETE"),
        must: types_of(schema, located, "MUST")?,
        may: types_of(schema, located, "MAY")?,
        definition: definition.render(),
    };
    exclude(schema, form.must.iter(), "MUST", &form.may, "MAY")?;
    Ok(form)
}

fn exclude<'a>(
    schema: &Schema,
    mut some: impl Iterator<Item = &'a TypeId>,
    one: &'static str,
    others: &[TypeId],
    other: &'static str,
) -> Result<(), SchemaErrorKind> {
    match some.find(|id| others.contains(id)) {
        None => Ok(()),
        Some(&id) => {
            let name = schema.type_by_id(id).name().to_owned();
            Err(SchemaErrorKind::ContradictoryAttribute { name, one, other })
        }
    }
}

fn class_of(schema: &Schema, term: &'static str, name: &str) -> Result<ClassId, SchemaErrorKind> {
    let unknown = || SchemaErrorKind::UnknownClass { term, name: name.to_owned() };
    schema.object_class(name).map(|class| class.id).ok_or_else(unknown)
}

fn structural_class(schema: &Schema, term: &'static str, name: &str) -> Result<ClassId, SchemaErrorKind> {
    let id = class_of(schema, term, name)?;
    match schema.class_by_id(id).kind {
        ClassKind::Structural => Ok(id),
        _ => Err(SchemaErrorKind::NotStructural(name.to_owned())),
    }
}

fn types_of(schema: &Schema, located: &Located, term: &'static str) -> Result<Vec<TypeId>, SchemaErrorKind> {
    let find = |name: &String| match schema.attribute_type(name) {
        Some(attribute_type) => Ok(attribute_type.id),
        None => Err(SchemaErrorKind::UnknownAttribute { term, name: name.clone() }),
    };
    located.definition.many(term).iter().map(find).collect()
}
