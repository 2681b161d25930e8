//! Random changes on a small tree, as lines of the corpus. Names and values are few, so that changes affect each other.

use super::SUFFIX;

const UIDS: &[&str] = &["a", "A", "b", "c c", "d\\,d"];
/// Superiors of the changed entries. The superiors are never renamed, because slapd 2.5 fails with `other` if an entry
/// gets the name of its own child.
const PARENTS: &[&str] = &["ou=people,%", "ou=sales,ou=people,%", "ou=none,%"];
/// Attributes and their values.
const VALUES: &[(&str, &[&str])] = &[
    ("cn", &["one", "ONE", "two  two", "two two"]),
    ("sn", &["one", "Two"]),
    ("title", &["x", "X", "y"]),
    ("displayName", &["x", "y"]),
    ("description;lang-en", &["x", "y"]),
    ("mail", &["x@y", "X@Y", "\\c3\\a9"]),
    ("uidNumber", &["1", "01", "2", "two"]),
    ("gidNumber", &["1"]),
    ("homeDirectory", &["/h", "/H"]),
    ("uid", &["a", "b", "other"]),
    ("objectClass", &["posixAccount", "inetOrgPerson", "device", "extensibleObject", "noSuchClass"]),
    ("telephoneNumber", &["1 2", "12", "3"]),
    ("noSuchAttribute", &["x"]),
    ("createTimestamp", &["20200101000000Z"]),
];

const SINGLE_VALUED: &[&str] = &["displayName", "uidNumber", "gidNumber", "homeDirectory"];

/// Generator of random changes.
pub struct ChangeMaker {
    random: fastrand::Rng,
}

impl ChangeMaker {
    /// Returns a generator. The same seed gives the same changes.
    pub fn new(seed: u64) -> ChangeMaker {
        ChangeMaker { random: fastrand::Rng::with_seed(seed) }
    }

    /// Returns a random change as a line of the corpus.
    pub fn make(&mut self) -> String {
        let line = match self.random.u8(..10) {
            0 | 1 => self.add(),
            2 => format!("delete | {}", self.dn()),
            3 => self.rename(),
            _ => self.modify(),
        };
        line.replace('%', SUFFIX)
    }

    fn choose<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.random.usize(..choices.len())]
    }

    fn dn(&mut self) -> String {
        // Prefer the superior that has entries.
        let parent = if self.random.u8(..4) > 0 { PARENTS[0] } else { self.choose(PARENTS) };
        format!("uid={},{parent}", self.choose(UIDS))
    }

    fn add(&mut self) -> String {
        let mut line = format!("add | {} | objectClass: inetOrgPerson", self.dn());
        for needed in ["cn: one", "sn: one"] {
            if self.random.u8(..16) > 0 {
                line += &format!(" | {needed}");
            }
        }
        if self.random.u8(..4) == 0 {
            let (name, values) = VALUES[self.random.usize(2..9)];
            line += &format!(" | {name}: {}", self.values(name, values));
        }
        line
    }

    /// Returns one value, or sometimes two if the attribute may have several. Never returns two values of a
    /// single-valued attribute, because slapd counts values after each modification, whereas Pando counts them after
    /// all modifications.
    fn values(&mut self, name: &str, values: &[&'static str]) -> String {
        let several = !SINGLE_VALUED.contains(&name) && self.random.u8(..3) == 0;
        let count = if several { 2 } else { 1 };
        (0..count).map(|_| self.choose(values)).collect::<Vec<_>>().join(" ; ")
    }

    fn modify(&mut self) -> String {
        let mut line = format!("modify | {}", self.dn());
        for _ in 0..self.random.u8(1..4) {
            let (name, values) = VALUES[self.random.usize(..VALUES.len())];
            line += &match self.random.u8(..8) {
                0..=2 => format!(" | +{name}: {}", self.values(name, values)),
                3 => format!(" | -{name}:"),
                4 => format!(" | -{name}: {}", self.values(name, values)),
                5 if name.starts_with("uidN") => format!(" | #{name}: 7"),
                5 => format!(" | ={name}:"),
                _ => format!(" | ={name}: {}", self.values(name, values)),
            };
        }
        line
    }

    fn rename(&mut self) -> String {
        let new_rdn = match self.random.u8(..6) {
            0 => "cn=one".to_owned(),
            1 => "displayName=x".to_owned(),
            2 => format!("uid={}+cn=two two", self.choose(UIDS)),
            _ => format!("uid={}", self.choose(UIDS)),
        };
        let old = self.choose(&["keep", "drop"]);
        let superior =
            if self.random.bool() { String::new() } else { format!(" | {}", self.choose(PARENTS)) };
        format!("rename | {} | {new_rdn} | {old}{superior}", self.dn())
    }
}
