//! Parts of definitions that load but have no effect: extensions that another server supports. Files with such
//! extensions must load, so the parts are reported and not refused.

use crate::definition::{Kind, X_LINK};
use crate::schema_file::Located;

/// Extensions that only describe a definition, such as its origin or the transfer of its values.
const DESCRIPTIVE: [&str; 9] = [
    "X-ORIGIN",
    "X-SOURCE",
    "X-SCHEMA-FILE",
    "X-DS-USE",
    "X-PROPERTY",
    "X-DEPRECATED",
    "X-DEPRECATED-BY",
    "X-NOT-HUMAN-READABLE",
    "X-BINARY-TRANSFER-REQUIRED",
];

/// A definition, or a part of one, that has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithoutEffect {
    /// The name given to [`add_text`](crate::SchemaBuilder::add_text).
    pub file: String,
    /// The line on which the definition begins, counting from 1.
    pub line: usize,
    /// A sentence that describes the part.
    pub text: String,
}

impl WithoutEffect {
    /// Creates a notice about a definition that is accepted.
    pub(crate) fn notice(located: &Located, text: &str) -> WithoutEffect {
        let text = format!("{:?}: {text}", located.definition.label());
        WithoutEffect { file: located.file.clone(), line: located.line, text }
    }
}

/// Returns the parts of a definition that have no effect.
pub(crate) fn of(located: &Located) -> Vec<WithoutEffect> {
    let definition = &located.definition;
    let is_followed = |keyword: &str| match definition.kind {
        Kind::AttributeType => keyword == X_LINK,
        Kind::Syntax => keyword == "X-SUBST",
        Kind::ObjectClass => matches!(keyword, "X-PANDO-STANDALONE" | "X-PANDO-REPLACES"),
        _ => false,
    };
    let names = definition.extensions.iter().map(|(name, _)| name.to_ascii_uppercase());
    let idle = names.filter(|name| !DESCRIPTIVE.contains(&name.as_str()) && !is_followed(name));
    let text = |name: String| format!("{:?}: {name} has no effect here", definition.label());
    let without_effect =
        |text: String| WithoutEffect { file: located.file.clone(), line: located.line, text };
    let replaced = definition.replaced_oid().map(|oid| {
        let own = &definition.oid;
        WithoutEffect::notice(
            located,
            &format!("has the OID {own} here, because {oid} is that of another type"),
        )
    });
    idle.map(|name| without_effect(text(name))).chain(replaced).collect()
}
