//! Checks that an entry conforms to its object classes (RFC 4512 sections 2.4 and 3.3).
//!
//! Every operation that changes an entry checks the entry's final state by these rules:
//!
//! - Every class is defined. An undefined class causes invalidAttributeSyntax, as in slapd, because
//!   objectIdentifierMatch cannot compare such a class.
//! - An entry has at least one structural class, and its structural classes form one chain of superclasses. An
//!   auxiliary class that the schema marks as able to stand alone may replace the structural class. An abstract class
//!   counts only as the superclass of another class.
//! - All attributes that the classes require are present, and the classes allow all present attributes. Options do not
//!   matter. A class that requires or allows a type does not thereby require or allow its subtypes. `extensibleObject`
//!   allows every user attribute (section 4.3). Operational attributes need no permission.
//! - A single-valued attribute has one value for each set of options.
//! - The entry obeys the active DIT content rule of its structural class (RFC 4512 section 4.1.6). The rule lists the
//!   auxiliary classes that an entry may have, and requires, allows and precludes attributes.
//! - Collective attributes are stored only in collective attribute subentries (RFC 3671 section 2.1). Readers merge
//!   these attributes into other entries: see `tree/collective.rs`.
//!
//! Clients need not send superclasses. Superclasses count as present, match filters, and are not stored (RFC 4512
//! section 3.3 allows this as long as clients cannot notice). Obsolete definitions have the same effect as other
//! definitions: OBSOLETE is only a note for administrators.

use std::borrow::Cow;

use ldap::ResultCode;
use schema::{
    AttributeDescription, AttributeType, ClassId, ClassKind, ContentRule, ObjectClassDef, Schema, TypeId,
};

use crate::catalog::ClassSet;
use crate::model::outcome::OperationError;

type Result<T> = std::result::Result<T, OperationError>;

const OBJECT_CLASS: &str = "2.5.4.0";
const EXTENSIBLE_OBJECT: &str = "1.3.6.1.4.1.1466.101.120.111";

/// Maximum number of classes that a diagnostic text suggests for an attribute.
const SUGGESTION_COUNT_MAX: usize = 4;

/// An attribute that an entry has.
pub(crate) struct Present<'e> {
    /// Type and options of the attribute.
    pub(crate) description: Cow<'e, AttributeDescription>,
    /// Number of values, at least 1.
    pub(crate) value_count: usize,
}

/// Returns true if the classes of an entry allow an attribute.
pub(crate) fn is_allowed(schema: &Schema, class_set: &ClassSet, attribute_type: &AttributeType) -> bool {
    let has = |oid: &str| class_set.closure.iter().any(|class| schema.class_by_id(*class).oid == oid);
    let is_named = |class: &ObjectClassDef| {
        class.all_must.binary_search(&attribute_type.id).is_ok()
            || class.all_may.binary_search(&attribute_type.id).is_ok()
    };
    if attribute_type.collective {
        return class_set.is_collective;
    }
    attribute_type.is_operational()
        || class_set.classes.iter().any(|class| is_named(schema.class_by_id(*class)))
        || has(EXTENSIBLE_OBJECT)
        || (class_set.structural.and_then(|class| schema.content_rule_of(class)))
            .is_some_and(|rule| allows(rule, attribute_type.id))
}

/// Returns the type id of objectClass.
///
/// # Errors
/// The schema does not define objectClass.
pub(crate) fn object_class_type(schema: &Schema) -> Result<TypeId> {
    let found = schema.attribute_type(OBJECT_CLASS).map(|attribute_type| attribute_type.id);
    found.ok_or_else(|| OperationError::Damaged("the schema does not define objectClass".to_owned()))
}

/// Returns the class set for values of objectClass.
///
/// # Errors
/// objectClassViolation if there are no values, or if the classes contradict each other; invalidAttributeSyntax for a
/// class that is not defined.
pub(crate) fn read_classes<'v>(schema: &Schema, values: impl Iterator<Item = &'v [u8]>) -> Result<ClassSet> {
    let mut classes = Vec::new();
    for (place, value) in values.enumerate() {
        let class = std::str::from_utf8(value).ok().and_then(|name| schema.object_class(name));
        let Some(class) = class else {
            let name = ldap::Excerpt(String::from_utf8_lossy(value));
            return Err(OperationError::refused(
                ResultCode::INVALID_ATTRIBUTE_SYNTAX,
                format!("objectClass: value {} ({name:?}) is not an object class of the schema", place + 1),
            ));
        };
        classes.push(class.id);
    }
    if classes.is_empty() {
        return Err(violation("an entry needs the attribute objectClass with at least one structural class"));
    }
    let class_set = ClassSet::of(classes, schema);
    check_classes(schema, &class_set)?;
    Ok(class_set)
}

fn check_classes(schema: &Schema, class_set: &ClassSet) -> Result<()> {
    let classes = || class_set.classes.iter().map(|class| schema.class_by_id(*class));
    let Some(structural) = class_set.structural.map(|class| schema.class_by_id(class)) else {
        return Err(violation(format!(
            "{}: none of these classes is structural; an entry needs one structural class, such as person or device",
            names(schema, &class_set.classes)
        )));
    };
    let outside =
        classes().find(|class| class.kind == ClassKind::Structural && !structural.is_subclass_of(class.id));
    if let Some(outside) = outside {
        return Err(violation(format!(
            "{} and {} are both structural and neither is a subclass of the other: an entry has one structural class",
            outside.name(),
            structural.name()
        )));
    }
    let is_base = |class: &ObjectClassDef| {
        classes().any(|other| other.kind != ClassKind::Abstract && other.is_subclass_of(class.id))
    };
    match classes().find(|class| class.kind == ClassKind::Abstract && !is_base(class)) {
        Some(class) => Err(violation(format!("{} is abstract: name one of its subclasses", class.name()))),
        None => Ok(()),
    }
}

/// Checks that an imported entry is not dynamic (RFC 2589). The server would have to choose a new expiry time, and the
/// client that refreshes the entry would not know this time.
///
/// # Errors
/// unwillingToPerform.
pub(crate) fn check_imported(class_set: &ClassSet) -> Result<()> {
    match class_set.is_dynamic {
        false => Ok(()),
        true => Err(OperationError::refused(
            ResultCode::UNWILLING_TO_PERFORM,
            "dynamicObject: entries that expire are not imported: a client adds and refreshes them"
                .to_owned(),
        )),
    }
}

/// Checks that the structural class is unchanged (RFC 4512 section 3.3).
///
/// # Errors
/// objectClassModsProhibited.
pub(crate) fn check_same_structural(schema: &Schema, before: &ClassSet, after: &ClassSet) -> Result<()> {
    if before.structural == after.structural {
        return Ok(());
    }
    let name = |class_set: &ClassSet| {
        class_set.structural.map_or("none", |class| schema.class_by_id(class).name()).to_owned()
    };
    Err(OperationError::refused(
        ResultCode::OBJECT_CLASS_MODS_PROHIBITED,
        format!(
            "the structural class of an entry cannot change, here from {} to {}: delete the entry and add it again",
            name(before),
            name(after)
        ),
    ))
}

/// Checks the attributes of an entry against its classes.
///
/// # Errors
/// objectClassViolation; constraintViolation for a second value of a single-valued attribute.
pub(crate) fn check_attributes(schema: &Schema, class_set: &ClassSet, present: &[Present<'_>]) -> Result<()> {
    check_all_attributes(schema, class_set, present, &mut Err)
}

/// Like [`check_attributes`], but passes every error to `refuse`. The check ends if `refuse` returns an error, and
/// continues if it returns `Ok`.
pub(crate) fn check_all_attributes(
    schema: &Schema,
    class_set: &ClassSet,
    present: &[Present<'_>],
    refuse: &mut dyn FnMut(OperationError) -> Result<()>,
) -> Result<()> {
    let classes = || class_set.classes.iter().map(|class| schema.class_by_id(*class));
    for class in classes() {
        let is_missing =
            |required: &&TypeId| !present.iter().any(|attribute| attribute.description.type_id == **required);
        let missing: Vec<_> = class.all_must.iter().filter(is_missing).collect();
        if !missing.is_empty() {
            let missing: Vec<_> = missing.iter().map(|type_id| schema.type_by_id(**type_id).name()).collect();
            refuse(violation(format!("object class {} requires {}", class.name(), missing.join(", "))))?;
        }
    }
    let rule = class_set.structural.and_then(|class| schema.content_rule_of(class));
    if let Some(rule) = rule {
        check_content_rule(schema, rule, class_set, present, refuse)?;
    }
    for attribute in present {
        let attribute_type = schema.type_by_id(attribute.description.type_id);
        if !is_allowed(schema, class_set, attribute_type) {
            refuse(not_allowed(schema, class_set, attribute_type))?;
        }
        if attribute_type.single_value && attribute.value_count > 1 {
            let name = attribute.description.returned_name(schema);
            let what = format!("{name} is single-valued and would have {} values", attribute.value_count);
            refuse(OperationError::refused(ResultCode::CONSTRAINT_VIOLATION, what))?;
        }
    }
    Ok(())
}

fn allows(rule: &ContentRule, type_id: TypeId) -> bool {
    rule.must.contains(&type_id) || rule.may.contains(&type_id)
}

/// Checks an entry against the content rule of its structural class. Superclasses of a listed auxiliary class need not
/// be listed.
#[cold]
fn check_content_rule(
    schema: &Schema,
    rule: &ContentRule,
    class_set: &ClassSet,
    present: &[Present<'_>],
    refuse: &mut dyn FnMut(OperationError) -> Result<()>,
) -> Result<()> {
    let governed = schema.class_by_id(rule.class).name();
    let mut refuse = |what: String| refuse(violation(format!("the DIT content rule of {governed} {what}")));
    let is_listed =
        |id: ClassId| rule.auxiliary.iter().any(|listed| schema.class_by_id(*listed).is_subclass_of(id));
    for class in class_set.classes.iter().map(|id| schema.class_by_id(*id)) {
        if class.kind == ClassKind::Auxiliary && !is_listed(class.id) {
            refuse(format!("does not list the auxiliary class {}", class.name()))?;
        }
    }
    let has = |type_id: TypeId| present.iter().any(|attribute| attribute.description.type_id == type_id);
    for type_id in rule.must.iter().filter(|type_id| !has(**type_id)) {
        refuse(format!("requires {}", schema.type_by_id(*type_id).name()))?;
    }
    for type_id in rule.not.iter().filter(|type_id| has(**type_id)) {
        refuse(format!("precludes {}", schema.type_by_id(*type_id).name()))?;
    }
    Ok(())
}

fn not_allowed(schema: &Schema, class_set: &ClassSet, attribute_type: &AttributeType) -> OperationError {
    let name = attribute_type.name();
    if attribute_type.collective {
        return violation(format!(
            "{name} is collective: change it in a subentry of class collectiveAttributeSubentry"
        ));
    }
    let allows = |class: &&ObjectClassDef| {
        class.kind != ClassKind::Abstract
            && (class.must.contains(&attribute_type.id) || class.may.contains(&attribute_type.id))
    };
    // Suggests auxiliary classes first, because they can still be added to the entry.
    let auxiliary = schema.object_classes().iter().filter(|class| class.kind == ClassKind::Auxiliary);
    let others = schema.object_classes().iter().filter(|class| class.kind != ClassKind::Auxiliary);
    let suggestions: Vec<_> =
        auxiliary.chain(others).filter(allows).map(ObjectClassDef::name).take(SUGGESTION_COUNT_MAX).collect();
    let hint = match suggestions.as_slice() {
        [] => "only extensibleObject would allow it".to_owned(),
        some => format!("classes that allow it are for example {}", some.join(", ")),
    };
    violation(format!("{name} is not allowed by the classes {}; {hint}", names(schema, &class_set.classes)))
}

fn names(schema: &Schema, classes: &[ClassId]) -> String {
    let names: Vec<_> = classes.iter().map(|class| schema.class_by_id(*class).name()).collect();
    names.join(", ")
}

fn violation(diagnostic: impl Into<String>) -> OperationError {
    OperationError::refused(ResultCode::OBJECT_CLASS_VIOLATION, diagnostic)
}
