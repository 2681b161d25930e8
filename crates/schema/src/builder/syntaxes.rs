//! Built-in syntaxes, and the aliases that schema texts define for them.

use super::Mistakes;
use crate::SchemaErrorKind;
use crate::effect::WithoutEffect;
use crate::names::NameTable;
use crate::schema_file::Located;
use crate::syntax::{self, Syntax};

/// OID of Directory String (RFC 4517 section 3.3.6).
const DIRECTORY_STRING: &str = "1.3.6.1.4.1.1466.115.121.1.15";

/// Extensions by which OpenDJ restricts the values of a syntax. Pando ignores these extensions and accepts any text.
const LIMITS: [&str; 2] = ["X-ENUM", "X-PATTERN"];

pub(super) struct Syntaxes {
    pub(super) list: Vec<Syntax>,
    pub(super) names: NameTable,
}

impl Syntaxes {
    pub(super) fn built_in() -> Syntaxes {
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

    /// Adds a definition, which may repeat a built-in syntax. A new syntax uses X-SUBST to name the known syntax that
    /// it equals. Without X-SUBST, a syntax with one of [`LIMITS`] equals Directory String; any other new syntax is
    /// reported, and types that use it are refused.
    pub(super) fn add(
        &mut self,
        located: &Located,
        mistakes: &mut Mistakes,
        notices: &mut Vec<WithoutEffect>,
    ) {
        let definition = &located.definition;
        if self.names.find(&definition.oid).is_some() {
            return;
        }
        let original = definition.extension("X-SUBST").and_then(|values| values.first()).map(String::as_str);
        // OpenDJ restricts the texts allowed in these syntaxes.
        let is_limited = || LIMITS.iter().any(|limit| definition.extension(limit).is_some());
        let Some(original) = original.or_else(|| is_limited().then_some(DIRECTORY_STRING)) else {
            let text = "the syntax is not known here; X-SUBST can name a known one";
            return notices.push(WithoutEffect::notice(located, text));
        };
        let Some(known) = self.names.find(original).and_then(|index| self.list.get(index)) else {
            return mistakes.add(located.error(SchemaErrorKind::UnknownSyntax(original.to_owned())));
        };
        let description = definition.one("DESC").unwrap_or(&definition.oid);
        let syntax = Syntax::substitute(&definition.oid, description, known, definition.render());
        self.push(syntax);
    }
}
