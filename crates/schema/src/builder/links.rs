//! Attribute types whose values become links to entries. The definition of such a type, or a copy of its shipped
//! definition, has `X-LINK 'TRUE'`.

use super::syntaxes::Syntaxes;
use super::table::{Copy, Table};
use crate::definition::X_LINK;
use crate::schema_file::Located;
use crate::{AttributeType, AttributeUsage, SchemaError, SchemaErrorKind};

/// OIDs of the syntax DN and of its equality rule (RFC 4517 sections 3.3.9 and 4.2.15).
const DN_SYNTAX: &str = "1.3.6.1.4.1.1466.115.121.1.12";
const DN_MATCH: &str = "2.5.13.1";

/// Shipped files with attributes that the server itself reads as text, although they contain names.
const READ_BY_SERVER: [&str; 4] =
    ["system.schema", "pando.schema", "passwordpolicy.schema", "dynamicgroup.schema"];

/// Marks the types that become links. Returns the extensions that cannot be followed. If an extension cannot be
/// followed, its type stays unchanged, and the definition still loads.
pub(super) fn mark_links(
    table: &Table<'_>,
    types: &mut [Option<AttributeType>],
    syntaxes: &Syntaxes,
) -> Vec<SchemaError> {
    let mut unusable = Vec::new();
    let own = table.list.iter().copied().enumerate();
    let copies = table.copies.iter().map(|&Copy { located, of }| (of, located));
    for (index, located) in own.chain(copies) {
        let extensions = located.definition.extensions.iter();
        let mut given = extensions.filter(|(name, _)| name.eq_ignore_ascii_case(X_LINK));
        let (Some((_, values)), Some(Some(attribute_type))) = (given.next(), types.get_mut(index)) else {
            continue;
        };
        let original = table.list.get(index).copied();
        match wish(values).and_then(|is_link| fits(attribute_type, original, syntaxes).map(|()| is_link)) {
            Ok(true) => mark(attribute_type),
            Ok(false) => {}
            Err(reason) => {
                unusable
                    .push(located.error(SchemaErrorKind::Link(located.definition.label().into(), reason)));
            }
        }
    }
    unusable
}

fn wish(values: &[String]) -> Result<bool, &'static str> {
    match values {
        [value] if value.eq_ignore_ascii_case("TRUE") => Ok(true),
        [value] if value.eq_ignore_ascii_case("FALSE") => Ok(false),
        _ => Err("it takes the value 'TRUE'"),
    }
}

fn fits(
    attribute_type: &AttributeType,
    original: Option<&Located>,
    syntaxes: &Syntaxes,
) -> Result<(), &'static str> {
    let syntax = syntaxes.list.get(usize::from(attribute_type.syntax.0));
    if syntax.is_none_or(|syntax| syntax.oid != DN_SYNTAX)
        || attribute_type.equality.is_none_or(|rule| rule.oid() != DN_MATCH)
    {
        return Err("its type needs the syntax DN and EQUALITY distinguishedNameMatch");
    }
    if attribute_type.usage != AttributeUsage::UserApplications || attribute_type.collective {
        return Err("its type is operational or COLLECTIVE");
    }
    match original {
        Some(original) if original.shipped && READ_BY_SERVER.contains(&original.file.as_str()) => {
            Err("the server itself reads values of its type")
        }
        _ => Ok(()),
    }
}

/// Marks a type, and publishes the extension.
fn mark(attribute_type: &mut AttributeType) {
    attribute_type.link = true;
    let definition = &mut attribute_type.definition;
    if !definition.contains(X_LINK)
        && let Some(head) = definition.strip_suffix(" )")
    {
        *definition = format!("{head} {X_LINK} 'TRUE' )");
    }
}
