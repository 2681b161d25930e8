//! Subtree specifications (RFC 3672 section 2.1): the part of the tree to which a subentry applies.

use crate::gser;

/// Maximum depth of a specification filter.
const DEPTH_MAX: usize = 32;

/// A subtree specification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubtreeSpecification {
    /// Root of the subtree, relative to the subentry's superior; empty for the superior itself.
    pub base: String,
    /// Excluded parts of the subtree.
    pub exclusions: Vec<SpecificExclusion>,
    /// Number of levels below the root at which the subtree begins.
    pub minimum: usize,
    /// Number of levels below the root at which the subtree ends; `None` if it has no such limit.
    pub maximum: Option<usize>,
    /// Condition on the object classes of an entry.
    pub filter: Option<Refinement>,
}

/// An excluded part of a subtree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecificExclusion {
    /// Name of an entry, relative to the root of the subtree.
    pub name: String,
    /// Whether the entry itself is excluded too (`chopBefore`), and not only its subordinates.
    pub is_before: bool,
}

/// A condition on object classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refinement {
    /// The entry has the class with this name or OID.
    Item(String),
    /// All conditions hold.
    And(Vec<Refinement>),
    /// At least one condition holds.
    Or(Vec<Refinement>),
    /// The condition does not hold.
    Not(Box<Refinement>),
}

impl SubtreeSpecification {
    /// Parses a value; returns `None` if it is malformed.
    pub fn parse(value: &[u8]) -> Option<SubtreeSpecification> {
        let text = std::str::from_utf8(value).ok()?.trim();
        let mut specification = SubtreeSpecification::default();
        if text.strip_prefix('{')?.strip_suffix('}')?.trim().is_empty() {
            return Some(specification);
        }
        for (name, value) in gser::sequence(text).ok()? {
            match name {
                "base" => specification.base = gser::quoted(value).ok()?,
                "specificExclusions" => {
                    let all = gser::list(value).ok()?;
                    specification.exclusions =
                        all.into_iter().map(SpecificExclusion::parse).collect::<Option<_>>()?;
                }
                "minimum" => specification.minimum = value.parse().ok()?,
                "maximum" => specification.maximum = Some(value.parse().ok()?),
                "specificationFilter" => specification.filter = Some(Refinement::parse(value, DEPTH_MAX)?),
                _ => return None,
            }
        }
        Some(specification)
    }

    /// Returns true if the specification has only a base and depths.
    pub fn is_plain(&self) -> bool {
        self.exclusions.is_empty() && self.filter.is_none()
    }
}

impl SpecificExclusion {
    fn parse(text: &str) -> Option<SpecificExclusion> {
        let (kind, name) = text.split_once(':')?;
        let is_before = match kind.trim() {
            "chopBefore" => true,
            "chopAfter" => false,
            _ => return None,
        };
        Some(SpecificExclusion { name: gser::quoted(name).ok()?, is_before })
    }
}

impl Refinement {
    fn parse(text: &str, depth_max: usize) -> Option<Refinement> {
        let (kind, rest) = text.split_once(':')?;
        let below = depth_max.checked_sub(1)?;
        let all = || -> Option<Vec<Refinement>> {
            gser::list(rest).ok()?.into_iter().map(|text| Refinement::parse(text, below)).collect()
        };
        match kind.trim() {
            "item" => Some(Refinement::Item(rest.trim().to_owned())),
            "and" => all().map(Refinement::And),
            "or" => all().map(Refinement::Or),
            "not" => Some(Refinement::Not(Box::new(Refinement::parse(rest, below)?))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<SubtreeSpecification> {
        SubtreeSpecification::parse(text.as_bytes())
    }

    #[test]
    fn base_and_depths_parse() {
        let all = SubtreeSpecification::default();
        assert_eq!(read("{}"), Some(all.clone()));
        assert_eq!(read(" { } "), Some(all.clone()));
        let people = SubtreeSpecification { base: "ou=people, o=x".to_owned(), ..all.clone() };
        assert!(people.is_plain());
        assert_eq!(read("{ base \"ou=people, o=x\" }"), Some(people.clone()));
        let deep = SubtreeSpecification { minimum: 1, maximum: Some(3), ..people };
        assert_eq!(read("{ base \"ou=people, o=x\", minimum 1, maximum 3 }"), Some(deep));
        for other in ["", "{", "base", "{ minimum -1 }", "{ other 1 }", "{ base x }"] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn exclusions_and_filters_parse() {
        let text = "{ specificExclusions { chopBefore:\"ou=a,ou=b\", chopAfter:\"\" }, \
                    specificationFilter and:{ item:person, or:{}, not:item:2.5.6.7 } }";
        let found = read(text).unwrap();
        assert!(!found.is_plain());
        let exclusion = |name: &str, is_before| SpecificExclusion { name: name.to_owned(), is_before };
        assert_eq!(found.exclusions, [exclusion("ou=a,ou=b", true), exclusion("", false)]);
        let item = |name: &str| Refinement::Item(name.to_owned());
        let all =
            vec![item("person"), Refinement::Or(Vec::new()), Refinement::Not(Box::new(item("2.5.6.7")))];
        assert_eq!(found.filter, Some(Refinement::And(all)));
        for other in ["chopBefore:x", "chop:\"ou=a\"", "\"ou=a\""] {
            assert_eq!(read(&format!("{{ specificExclusions {{ {other} }} }}")), None, "{other}");
        }
        for other in ["person", "and:person", "not:", "xor:{ item:a }"] {
            assert_eq!(read(&format!("{{ specificationFilter {other} }}")), None, "{other}");
        }
        let deep = |depth: usize| format!("{{ specificationFilter {}item:a }}", "not:".repeat(depth));
        assert!(read(&deep(DEPTH_MAX - 1)).is_some());
        assert_eq!(read(&deep(DEPTH_MAX)), None);
    }
}
