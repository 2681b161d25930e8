//! Paths of attributes (RFC 7644 section 3.10). Examples: `userName`, `name.familyName`,
//! `urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:manager.value`.

use std::fmt;

/// The path of an attribute, or of a part of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttributePath {
    /// URN of the schema; `None` if the path contains none.
    pub(crate) schema: Option<String>,
    pub(crate) name: String,
    pub(crate) part: Option<String>,
}

impl AttributePath {
    /// Parses a path. Returns `None` if the text is not a path.
    pub(crate) fn parse(text: &str) -> Option<AttributePath> {
        let (schema, rest) = match text.rfind(':') {
            Some(colon) => (Some(text.get(..colon)?), text.get(colon + 1..)?),
            None => (None, text),
        };
        if schema.is_some_and(|schema| !is_urn(schema)) {
            return None;
        }
        let (name, part) = match rest.split_once('.') {
            Some((name, part)) => (name, Some(part)),
            None => (rest, None),
        };
        if !is_name(name) || !part.is_none_or(is_name) {
            return None;
        }
        Some(AttributePath {
            schema: schema.map(str::to_owned),
            name: name.to_owned(),
            part: part.map(str::to_owned),
        })
    }

    /// Returns true if the path contains the attribute name `name` and no part. The schema in the path is not checked.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.part.is_none() && self.name.eq_ignore_ascii_case(name)
    }
}

impl fmt::Display for AttributePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(schema) = &self.schema {
            write!(formatter, "{schema}:")?;
        }
        formatter.write_str(&self.name)?;
        self.part.as_ref().map_or(Ok(()), |part| write!(formatter, ".{part}"))
    }
}

/// Returns true if the text is the name of an attribute (RFC 7643 section 2.1) or `$ref`.
fn is_name(text: &str) -> bool {
    let text = text.strip_prefix('$').unwrap_or(text);
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|char| char.is_ascii_alphanumeric() || "-_$".contains(char))
}

fn is_urn(text: &str) -> bool {
    text.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("urn:"))
        && text.chars().all(|char| char.is_ascii_alphanumeric() || ":.-_".contains(char))
}

/// Returns true if a path may contain this character.
pub(crate) fn is_path_char(char: char) -> bool {
    char.is_ascii_alphanumeric() || ":.-_$".contains(char)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_of_paths_are_parsed() {
        let path = |schema: Option<&str>, name: &str, part: Option<&str>| AttributePath {
            schema: schema.map(str::to_owned),
            name: name.to_owned(),
            part: part.map(str::to_owned),
        };
        let enterprise = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
        for (text, expected) in [
            ("userName", Some(path(None, "userName", None))),
            ("name.familyName", Some(path(None, "name", Some("familyName")))),
            ("members.$ref", Some(path(None, "members", Some("$ref")))),
            (
                "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:manager.value",
                Some(path(Some(enterprise), "manager", Some("value"))),
            ),
            ("", None),
            (".", None),
            ("a.", None),
            ("a.b.c", None),
            ("user:name", None),
            ("urn:", None),
            ("ü", None),
            ("a b", None),
        ] {
            assert_eq!(AttributePath::parse(text), expected, "{text}");
        }
    }
}
