//! Differences between two schemas that affect stored values.

use crate::{AttributeType, MatchingRule, Schema};

/// A difference of an attribute type between two schemas that affects stored values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeChange {
    /// Numeric OID of the type.
    pub oid: String,
    /// Canonical name in the old schema.
    pub name: String,
    /// Description of the change, for the operator: `removed`, or `syntax A -> B, now single-valued`.
    pub what: String,
}

/// Returns the attribute types whose stored values or keys would not be valid under `new`: the syntax or the equality,
/// ordering or substring rule changed, multi-valued became single-valued, or the type was removed. The directory
/// refuses such a change while values exist. The result omits changes without effect on stored data: new types, other
/// names and descriptions, and a change from single-valued to multi-valued.
///
/// One case is not detected. A value (of `member` or `objectClass`) may contain a name or OID that the old schema does
/// not define. The key of such a value is made from the text, and changes when the name is defined.
pub fn changed_types(old: &Schema, new: &Schema) -> Vec<TypeChange> {
    let change = |before: &AttributeType| {
        let what = match new.attribute_type(&before.oid) {
            None => "removed".to_owned(),
            Some(after) => difference(old, before, new, after)?,
        };
        Some(TypeChange { oid: before.oid.clone(), name: before.name().to_owned(), what })
    };
    old.attribute_types().iter().filter_map(change).collect()
}

fn difference(old: &Schema, before: &AttributeType, new: &Schema, after: &AttributeType) -> Option<String> {
    let mut differences = Vec::new();
    let syntaxes = (old.syntax_by_id(before.syntax), new.syntax_by_id(after.syntax));
    if syntaxes.0.oid != syntaxes.1.oid {
        differences.push(format!("syntax {} -> {}", syntaxes.0.oid, syntaxes.1.oid));
    }
    let name = |rule: Option<MatchingRule>| rule.map_or("none", MatchingRule::name);
    for (what, one, other) in [
        ("equality", before.equality, after.equality),
        ("ordering", before.ordering, after.ordering),
        ("substring", before.substring, after.substring),
    ] {
        if one != other {
            differences.push(format!("{what} {} -> {}", name(one), name(other)));
        }
    }
    if after.single_value && !before.single_value {
        differences.push("now single-valued".to_owned());
    }
    (!differences.is_empty()).then(|| differences.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SchemaBuilder;

    #[test]
    fn changes_that_affect_stored_values_are_reported() {
        let schema = |text: &str| SchemaBuilder::new().add_text("a", text).build().unwrap();
        const STRING: &str = "SYNTAX 1.3.6.1.4.1.1466.115.121.1.15";
        let base = schema(&format!("attributetype ( 1.1.1 NAME 'a' EQUALITY caseIgnoreMatch {STRING} )"));
        for (text, expected) in [
            ("", Some("removed")),
            (
                "attributetype ( 1.1.1 NAME 'b' EQUALITY caseExactMatch SYN )",
                Some("equality caseIgnoreMatch -> caseExactMatch"),
            ),
            (
                "attributetype ( 1.1.1 NAME 'a' SYN SINGLE-VALUE )",
                Some("equality caseIgnoreMatch -> none, now single-valued"),
            ),
            (
                "attributetype ( 1.1.1 NAME 'a' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.26 )",
                Some("syntax 1.3.6.1.4.1.1466.115.121.1.15 -> 1.3.6.1.4.1.1466.115.121.1.26"),
            ),
            ("attributetype ( 1.1.1 NAME 'b' DESC 'new' EQUALITY caseIgnoreMatch SYN )", None),
            (
                "attributetype ( 1.1.1 NAME 'a' EQUALITY caseIgnoreMatch SYN )\nattributetype ( 1.1.2 SUP a )",
                None,
            ),
        ] {
            let changes = changed_types(&base, &schema(&text.replace("SYN ", &format!("{STRING} "))));
            assert_eq!(changes.first().map(|change| change.what.as_str()), expected, "{text}");
        }
    }
}
