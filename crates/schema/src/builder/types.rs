//! Attribute types: resolution of names to ids, and of inheritance.

use super::Mistakes;
use super::syntaxes::Syntaxes;
use super::table::Table;
use crate::definition::Definition;
use crate::effect::WithoutEffect;
use crate::{
    AttributeType, AttributeUsage, MatchingRule, RuleUse, SchemaErrorKind, SyntaxId, TypeId, type_key,
};

/// Returns the attribute types of a table; `None` for a type with a mistake.
#[expect(
    clippy::indexing_slicing,
    reason = "each definition has its place in all lists, and superiors are places"
)]
pub(super) fn resolve_types(
    table: &Table<'_>,
    syntaxes: &Syntaxes,
    mistakes: &mut Mistakes,
    notices: &mut Vec<WithoutEffect>,
) -> Vec<Option<AttributeType>> {
    let mut superiors = Vec::with_capacity(table.list.len());
    for located in &table.list {
        let superior = located.definition.one("SUP").and_then(|name| {
            let known = table.find(name).ok_or_else(|| SchemaErrorKind::UnknownSuperior(name.to_owned()));
            mistakes.take(located, known)
        });
        superiors.push(superior.into_iter().collect::<Vec<_>>());
    }
    let mut resolved: Vec<Option<AttributeType>> = vec![None; table.list.len()];
    for index in table.by_inheritance(&superiors, mistakes) {
        let located = table.list[index];
        let superior = superiors[index].first().and_then(|&superior| resolved[superior].as_ref());
        // The mistake in the supertype is already reported.
        if superior.is_none() && located.definition.flag("SUP") {
            continue;
        }
        let definition = located.definition.with_canonical_names(&table.aliases, &table.aliases);
        let attribute_type = resolve_type(TypeId(number(index)), &definition, superior, syntaxes);
        let attribute_type = mistakes.take(located, attribute_type);
        let irregular = attribute_type.as_ref().and_then(|one| irregular(one, superior));
        notices.extend(irregular.map(|text| WithoutEffect::notice(located, &text)));
        resolved[index] = attribute_type;
    }
    resolved
}

/// Returns an index in a list of definitions as a number.
#[expect(clippy::cast_possible_truncation, reason = "memory ends before 2^32 definitions")]
pub(super) fn number(place: usize) -> u32 {
    place as u32
}

/// Returns the attribute type of a definition.
pub(super) fn resolve_type(
    id: TypeId,
    definition: &Definition,
    superior: Option<&AttributeType>,
    syntaxes: &Syntaxes,
) -> Result<AttributeType, SchemaErrorKind> {
    let (syntax, length_bound) = match definition.one("SYNTAX") {
        Some(text) => syntax_of(text, syntaxes)?,
        // The grammar requires a syntax or a supertype.
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
        link: false,
        binary_transfer,
        definition: definition.render(),
    };
    check_type(&attribute_type, superior)?;
    Ok(attribute_type)
}

/// Returns a description of a harmless fault. Files of other servers contain such faults.
fn irregular(attribute_type: &AttributeType, superior: Option<&AttributeType>) -> Option<String> {
    // RFC 4512 section 4.1.2.
    if attribute_type.no_user_modification && !attribute_type.is_operational() {
        return Some("NO-USER-MODIFICATION has no effect without an operational usage".to_owned());
    }
    // X.501 section 13.4.8.
    let superior = superior.filter(|superior| superior.usage != attribute_type.usage)?;
    Some(format!("the usage differs from that of the supertype {}", superior.name()))
}

fn check_type(
    attribute_type: &AttributeType,
    superior: Option<&AttributeType>,
) -> Result<(), SchemaErrorKind> {
    if attribute_type.collective && attribute_type.is_operational() {
        return Err(SchemaErrorKind::CollectiveOperational);
    }
    if attribute_type.collective && attribute_type.single_value {
        return Err(SchemaErrorKind::ContradictoryTerms("COLLECTIVE", "SINGLE-VALUE"));
    }
    let Some(superior) = superior else { return Ok(()) };
    // A collective type may be a subtype of an ordinary type (c-l is a subtype of l, RFC 3671 section 3), but not the
    // reverse.
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
    // If there are more syntaxes than ids, the last syntaxes are unknown.
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
