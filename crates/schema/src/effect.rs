//! Definitions that load and do not do what they say.
//!
//! A restriction that is not enforced is worse than none, since administrators rely on it: those are for the directory
//! to refuse. An extension that another server acts on restricts nothing, and its files need it to load: that is
//! reported.

use crate::definition::Kind;
use crate::schema_file::Located;

/// Descriptive extensions: the origin of a definition, the transfer of its values.
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

/// A definition, or a part of one, that is without effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithoutEffect {
    /// The name given to [`add_text`](crate::SchemaBuilder::add_text).
    pub file: String,
    /// The line on which the definition begins, counting from 1.
    pub line: usize,
    /// A sentence for a person.
    pub text: String,
    /// Whether it would restrict entries, so that it is not to be taken.
    pub restricts: bool,
}

impl WithoutEffect {
    /// A fact about a definition that restricts nothing.
    pub(crate) fn notice(located: &Located, text: &str) -> WithoutEffect {
        let text = format!("{:?}: {text}", located.definition.label());
        WithoutEffect { file: located.file.clone(), line: located.line, text, restricts: false }
    }
}

/// Returns the parts of a definition that have no effect.
pub(crate) fn of(located: &Located) -> Vec<WithoutEffect> {
    let definition = &located.definition;
    let without_effect = |text: String, restricts| WithoutEffect {
        file: located.file.clone(),
        line: located.line,
        text,
        restricts,
    };
    if let Kind::ContentRule | Kind::StructureRule | Kind::NameForm = definition.kind {
        let text = format!(
            "{:?} is {}, and these are not enforced here: remove it, so that no administrator relies on it",
            definition.label(),
            definition.kind.noun()
        );
        return vec![without_effect(text, true)];
    }
    let is_followed = |keyword: &str| match definition.kind {
        Kind::Syntax => keyword == "X-SUBST",
        Kind::ObjectClass => matches!(keyword, "X-PANDO-STANDALONE" | "X-PANDO-REPLACES"),
        _ => false,
    };
    let names = definition.extensions.iter().map(|(name, _)| name.to_ascii_uppercase());
    let idle = names.filter(|name| !DESCRIPTIVE.contains(&name.as_str()) && !is_followed(name));
    let text = |name: String| format!("{:?}: {name} has no effect here", definition.label());
    idle.map(|name| without_effect(text(name), false)).collect()
}
