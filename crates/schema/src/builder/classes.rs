//! Object classes: resolution of names to ids, and of inheritance.

use super::Mistakes;
use super::table::Table;
use super::types::number;
use crate::definition::{Aliases, Definition};
use crate::schema_file::Located;
use crate::{ClassId, ClassKind, ObjectClassDef, SchemaErrorKind, TypeId, oid};

/// Returns the object classes of a table; `None` for a class with a mistake.
#[expect(
    clippy::indexing_slicing,
    reason = "each definition has its place in all lists, and superiors are places"
)]
pub(super) fn resolve_classes(
    classes: &Table<'_>,
    types: &Table<'_>,
    mistakes: &mut Mistakes,
) -> Vec<Option<ObjectClassDef>> {
    let top = classes.find("top");
    let mut superiors = Vec::with_capacity(classes.list.len());
    for (index, located) in classes.list.iter().enumerate() {
        let mut of_class = Vec::new();
        for name in located.definition.many("SUP") {
            let known = classes.find(name).ok_or_else(|| SchemaErrorKind::UnknownSuperior(name.clone()));
            of_class.extend(mistakes.take(located, known));
        }
        // Every class except `top` derives from `top`, even if the definition omits it (RFC 4512 section 2.4.1).
        if !located.definition.flag("SUP") {
            of_class.extend(top.filter(|&top| top != index));
        }
        superiors.push(of_class);
    }
    let mut resolved: Vec<Option<ObjectClassDef>> = vec![None; classes.list.len()];
    for index in classes.by_inheritance(&superiors, mistakes) {
        let located = classes.list[index];
        let above: Vec<&ObjectClassDef> =
            superiors[index].iter().filter_map(|&superior| resolved[superior].as_ref()).collect();
        resolved[index] =
            resolve_class(ClassId(number(index)), located, &above, (types, &classes.aliases), mistakes);
    }
    resolved
}

/// Returns the attributes that a term (MUST or MAY) lists, and reports undefined attributes.
fn attributes(
    term: &'static str,
    located: &Located,
    types: &Table<'_>,
    mistakes: &mut Mistakes,
) -> Vec<TypeId> {
    let mut found = Vec::new();
    for name in located.definition.many(term) {
        let known = types.find(name);
        let known = known.ok_or_else(|| SchemaErrorKind::UnknownAttribute { term, name: name.clone() });
        found.extend(mistakes.take(located, known).map(|index| TypeId(number(index))));
    }
    found
}

/// Returns the kind of a class.
pub(super) fn kind_of(definition: &Definition) -> ClassKind {
    match (definition.flag("ABSTRACT"), definition.flag("AUXILIARY")) {
        (true, _) => ClassKind::Abstract,
        (_, true) => ClassKind::Auxiliary,
        _ => ClassKind::Structural,
    }
}

fn check_superiors(kind: ClassKind, above: &[&ObjectClassDef]) -> Result<(), SchemaErrorKind> {
    match above.iter().find(|superior| !may_derive(kind, superior.kind)) {
        None => Ok(()),
        Some(wrong) => Err(SchemaErrorKind::ClassInheritance {
            kind: kind.name(),
            superior: wrong.name().to_owned(),
            superior_kind: wrong.kind.name(),
        }),
    }
}

fn resolve_class(
    id: ClassId,
    located: &Located,
    above: &[&ObjectClassDef],
    (types, aliases): (&Table<'_>, &Aliases),
    mistakes: &mut Mistakes,
) -> Option<ObjectClassDef> {
    let definition = &located.definition;
    let kind = kind_of(definition);
    mistakes.take(located, check_superiors(kind, above))?;
    let must = attributes("MUST", located, types, mistakes);
    let may = attributes("MAY", located, types, mistakes);
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
    Some(ObjectClassDef {
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
        definition: definition.with_canonical_names(aliases, &types.aliases).render(),
    })
}

/// Returns true if a class of kind `kind` may derive from a class of kind `superior` (RFC 4512 section 2.4): an
/// abstract class only from abstract classes, a structural class not from an auxiliary class, and an auxiliary class
/// not from a structural class.
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
