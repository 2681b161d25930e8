//! Subtree specifications (RFC 3672 section 2.1): which part of a tree a subentry is about.

use crate::gser;

/// A subtree specification of a base and depths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubtreeSpecification {
    /// The root of the subtree, relative to the subentry's superior; empty for that one.
    pub base: String,
    /// Levels below the root at which it begins.
    pub minimum: usize,
    /// Levels below the root at which it ends.
    pub maximum: Option<usize>,
}

impl SubtreeSpecification {
    /// Parses a value; returns `None` if it is malformed, or cuts out or filters entries, which is not supported here.
    pub fn parse(value: &[u8]) -> Option<SubtreeSpecification> {
        let text = std::str::from_utf8(value).ok()?.trim();
        let mut specification = SubtreeSpecification::default();
        if text.strip_prefix('{')?.strip_suffix('}')?.trim().is_empty() {
            return Some(specification);
        }
        for (name, value) in gser::sequence(text).ok()? {
            match name {
                "base" => specification.base = gser::quoted(value).ok()?,
                "minimum" => specification.minimum = value.parse().ok()?,
                "maximum" => specification.maximum = Some(value.parse().ok()?),
                _ => return None,
            }
        }
        Some(specification)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_and_depths_are_read() {
        let read = |text: &str| SubtreeSpecification::parse(text.as_bytes());
        let all = SubtreeSpecification::default();
        assert_eq!(read("{}"), Some(all.clone()));
        assert_eq!(read(" { } "), Some(all.clone()));
        let people = SubtreeSpecification { base: "ou=people, o=x".to_owned(), ..all.clone() };
        assert_eq!(read("{ base \"ou=people, o=x\" }"), Some(people.clone()));
        let deep = SubtreeSpecification { minimum: 1, maximum: Some(3), ..people };
        assert_eq!(read("{ base \"ou=people, o=x\", minimum 1, maximum 3 }"), Some(deep));
        for other in ["", "{", "base", "{ minimum -1 }", "{ specificationFilter item:person }"] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
