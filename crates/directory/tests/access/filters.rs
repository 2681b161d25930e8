//! Random filters, their text, and their evaluation (RFC 4511 section 4.5.1.7) on the attributes that a requester may
//! search.

use fastrand::Rng;

use crate::rules::{Extent, Rights, TYPES};
use crate::tree::{Attributes, GROUPS, Tree, describes, user};

#[derive(Clone, Debug)]
pub(crate) enum Filter {
    And(Vec<Filter>),
    Or(Vec<Filter>),
    Not(Box<Filter>),
    /// A test of an attribute: the attribute, the kind of test, and the value.
    Item(&'static str, Sign, String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    Equal,
    Present,
    /// The value contains this text.
    Has,
    /// Extensible match by a named rule.
    ByRule,
    /// A chain of links leads to the named entry.
    Chain,
}

impl Sign {
    fn passes(self, have: &str, wanted: &str) -> bool {
        let (have, wanted) = (have.to_lowercase(), wanted.to_lowercase());
        match self {
            Sign::Present => true,
            Sign::Equal | Sign::ByRule | Sign::Chain => have == wanted,
            Sign::Has => have.contains(&wanted),
        }
    }
}

/// Values of an attribute that may be searched, and a flag that is true if these values are all values of the
/// attribute. `None` if the attribute may not be searched at all.
type SearchableValues = Option<(Vec<String>, bool)>;

impl Filter {
    pub(crate) fn random(rng: &mut Rng, depth: usize) -> Filter {
        match rng.u8(0..if depth == 0 { 1 } else { 6 }) {
            1 => Filter::And((0..rng.usize(1..4)).map(|_| Filter::random(rng, depth - 1)).collect()),
            2 => Filter::Or((0..rng.usize(1..4)).map(|_| Filter::random(rng, depth - 1)).collect()),
            3 => Filter::Not(Box::new(Filter::random(rng, depth - 1))),
            _ => Filter::item(rng),
        }
    }

    /// Returns the filter in the URL of the sample's dynamic group.
    pub(crate) fn described() -> Filter {
        let mails = ["anna@example.com", "bert@example.com"];
        let by_mail = mails.map(|mail| Filter::Item("mail", Sign::Equal, mail.to_owned()));
        let by_phone = Filter::Item("telephoneNumber", Sign::Equal, "+99".to_owned());
        Filter::Or(by_mail.into_iter().chain([by_phone]).collect())
    }

    /// Returns a random filter for the values of an attribute.
    pub(crate) fn of_values(rng: &mut Rng, attribute: &'static str, depth: usize) -> Filter {
        let values =
            ["anna", "common", "Person", "anna@example.com", "bert@example.com", "same for all", "+1", "+99"];
        match rng.u8(0..if depth == 0 { 1 } else { 5 }) {
            1 => Filter::Not(Box::new(Filter::of_values(rng, attribute, depth - 1))),
            2 => Filter::Or((0..2).map(|_| Filter::of_values(rng, attribute, depth - 1)).collect()),
            3 => Filter::And((0..2).map(|_| Filter::of_values(rng, attribute, depth - 1)).collect()),
            _ if rng.bool() => {
                let part = ["a", "o", "9", "ex", "1"][rng.usize(..5)];
                Filter::Item(attribute, Sign::Has, part.to_owned())
            }
            _ => Filter::Item(attribute, Sign::Equal, values[rng.usize(..values.len())].to_owned()),
        }
    }

    /// Returns true if the filter matches a value. The attributes in the filter are ignored.
    pub(crate) fn matches_value(&self, value: &str) -> bool {
        match self {
            Filter::And(filters) => filters.iter().all(|filter| filter.matches_value(value)),
            Filter::Or(filters) => filters.iter().any(|filter| filter.matches_value(value)),
            Filter::Not(filter) => !filter.matches_value(value),
            Filter::Item(_, sign, wanted) => sign.passes(value, wanted),
        }
    }

    fn item(rng: &mut Rng) -> Filter {
        let names = ["anna", "bert", "carl", "dora"];
        let name = names[rng.usize(..names.len())];
        let text = |value: &str| value.to_owned();
        let group = ["inner", "outer", "secret", "described"][rng.usize(..4)];
        let (attribute, sign, value) = match rng.u8(0..18) {
            0 => ("cn", Sign::Equal, text(name)),
            1 => ("sn", Sign::Equal, text("person")),
            2 => ("mail", Sign::Equal, format!("{name}@example.com")),
            3 => ("mail", Sign::Has, text(&name[1..])),
            4 => ("description", Sign::Equal, text("same for all")),
            5 => ("name", Sign::Equal, text(if rng.bool() { name } else { "person" })),
            6 => ("name", Sign::Has, text("o")),
            7 => (
                "objectClass",
                Sign::Equal,
                text(["person", "groupOfNames", "organizationalUnit"][rng.usize(..3)]),
            ),
            8 => ("manager", Sign::Equal, user(rng.usize(..4))),
            9 => ("member", Sign::Equal, user(rng.usize(..4))),
            10 => ("memberOf", Sign::Equal, format!("cn={group},{GROUPS}")),
            11 => ("isMemberOf", Sign::Equal, format!("cn={group},{GROUPS}")),
            12 => ("sn", Sign::ByRule, text("person")),
            13 => ("entryDN", Sign::Equal, user(rng.usize(..4))),
            14 => ("memberOf", Sign::Chain, format!("cn={group},{GROUPS}")),
            15 => ("member", Sign::Chain, user(rng.usize(..4))),
            16 => ("manager", Sign::Chain, user(rng.usize(..4))),
            _ => {
                let all =
                    ["cn", "mail", "description", "manager", "telephoneNumber", "memberOf", "name", "title"];
                (all[rng.usize(..all.len())], Sign::Present, String::new())
            }
        };
        Filter::Item(attribute, sign, value)
    }

    pub(crate) fn text(&self) -> String {
        let all = |filters: &[Filter]| filters.iter().map(Filter::text).collect::<String>();
        match self {
            Filter::And(filters) => format!("(&{})", all(filters)),
            Filter::Or(filters) => format!("(|{})", all(filters)),
            Filter::Not(filter) => format!("(!{})", filter.text()),
            Filter::Item(attribute, sign, value) => match sign {
                Sign::Equal => format!("({attribute}={value})"),
                Sign::Present => format!("({attribute}=*)"),
                Sign::Has => format!("({attribute}=*{value}*)"),
                Sign::ByRule => format!("({attribute}:caseIgnoreMatch:={value})"),
                Sign::Chain => format!("({attribute}:1.2.840.113556.1.4.1941:={value})"),
            },
        }
    }

    /// Evaluates the filter on an entry with a requester's rights; `None` is Undefined.
    pub(crate) fn truth(&self, rights: &Rights<'_>, dn: &str) -> Option<bool> {
        let values = |name: &str| match rights.extent("search", dn, name) {
            Extent::Nothing => None,
            extent => {
                let described = if name == "member" { rights.described_members(dn) } else { Vec::new() };
                let values = rights.values(dn, name, "search").into_iter().chain(described);
                Some((values.collect(), extent == Extent::All))
            }
        };
        self.truth_of(&values, &|attribute, target| {
            // At each entry of a chain, only values that the requester may search are followed. A memberOf value may be
            // searched if the requester may search the members of that group.
            let next = |at: &str| match attribute {
                "memberOf" => rights.values(at, attribute, "search"),
                "member" if rights.may("search", at, attribute) => {
                    [rights.values(at, attribute, "search"), rights.described_members(at)].concat()
                }
                _ if rights.may("search", at, attribute) => rights.values(at, attribute, "search"),
                _ => Vec::new(),
            };
            rights.may("search", dn, attribute).then(|| leads(rights.tree, dn, target, &next))
        })
    }

    /// Returns true if the filter matches an entry, without regard to rights.
    pub(crate) fn matches(&self, tree: &Tree, dn: &str) -> bool {
        let values = |name: &str| match name {
            "memberOf" => groups(tree, dn),
            "isMemberOf" => nested(dn, &|at| groups(tree, at)),
            "entryDN" => vec![dn.to_owned()],
            "member" => members(tree, dn),
            _ => tree[dn].get(name).cloned().unwrap_or_default(),
        };
        let next = |attribute: &str, at: &str| match attribute {
            "memberOf" => groups(tree, at),
            "member" => members(tree, at),
            _ => tree[at].get(attribute).cloned().unwrap_or_default(),
        };
        self.truth_of(&|name| Some((values(name), true)), &|attribute, target| {
            Some(leads(tree, dn, target, &|at| next(attribute, at)))
        }) == Some(true)
    }

    /// Evaluates the filter on values; `None` stands for values that may not be searched.
    fn truth_of(
        &self,
        values: &dyn Fn(&str) -> SearchableValues,
        chain: &dyn Fn(&str, &str) -> Option<bool>,
    ) -> Option<bool> {
        match self {
            Filter::And(filters) => {
                let truths: Vec<_> = filters.iter().map(|filter| filter.truth_of(values, chain)).collect();
                if truths.contains(&Some(false)) {
                    return Some(false);
                }
                truths.iter().all(|truth| *truth == Some(true)).then_some(true)
            }
            Filter::Or(filters) => {
                let truths: Vec<_> = filters.iter().map(|filter| filter.truth_of(values, chain)).collect();
                if truths.contains(&Some(true)) {
                    return Some(true);
                }
                truths.iter().all(|truth| *truth == Some(false)).then_some(false)
            }
            Filter::Not(filter) => filter.truth_of(values, chain).map(|truth| !truth),
            Filter::Item(attribute, Sign::Chain, value) => chain(attribute, value),
            Filter::Item(attribute, sign, value) => item(values, attribute, *sign, value),
        }
    }
}

/// Returns the groups of which an entry is a member.
fn groups(tree: &Tree, dn: &str) -> Vec<String> {
    let names = |entry: &Attributes| {
        entry.get("member").is_some_and(|all| all.iter().any(|of| of == dn)) || is_described(tree, entry, dn)
    };
    tree.iter().filter(|(_, entry)| names(entry)).map(|(group, _)| group.clone()).collect()
}

/// Returns the members of a group.
fn members(tree: &Tree, group: &str) -> Vec<String> {
    let stored = tree[group].get("member").into_iter().flatten().cloned();
    let described = tree.keys().filter(|dn| is_described(tree, &tree[group], dn)).cloned();
    stored.chain(described).collect()
}

/// Returns true if the search of a dynamic group describes an entry, without regard to rights.
pub(crate) fn is_described(tree: &Tree, group: &Attributes, dn: &str) -> bool {
    describes(group, dn) && Filter::described().matches(tree, dn)
}

/// Returns true if one or more steps `next` lead from an entry to a target.
fn leads(tree: &Tree, from: &str, target: &str, next: &dyn Fn(&str) -> Vec<String>) -> bool {
    let next = |at: &str| if tree.contains_key(at) { next(at) } else { Vec::new() };
    nested(from, &next).iter().any(|end| end == target)
}

/// Returns all entries to which one or more steps `next` lead.
pub(crate) fn nested(from: &str, next: &dyn Fn(&str) -> Vec<String>) -> Vec<String> {
    let (mut open, mut seen) = (vec![from.to_owned()], Vec::new());
    while let Some(at) = open.pop() {
        for end in next(&at) {
            if !seen.contains(&end) {
                seen.push(end.clone());
                open.push(end);
            }
        }
    }
    seen
}

/// Evaluates an item. A supertype covers its subtypes, some of which may be hidden. If no visible subtype matches, the
/// result is Undefined, because a hidden subtype might match.
fn item(values: &dyn Fn(&str) -> SearchableValues, attribute: &str, sign: Sign, value: &str) -> Option<bool> {
    let is_covered = |(name, _, above): &&(&'static str, &[&str], &[&str])| {
        *name == attribute || above.contains(&attribute)
    };
    let mut types: Vec<&str> = TYPES.iter().filter(is_covered).map(|(name, ..)| *name).collect();
    if !types.contains(&attribute) {
        // This type represents the supertype itself, and its subtypes that no entry has. Rules cover such subtypes only
        // by naming the supertype.
        types.push(if attribute == "name" { "title" } else { attribute });
    }
    let mut is_hidden = false;
    for name in types {
        let Some((mut values, is_all)) = values(name) else {
            is_hidden = true;
            continue;
        };
        is_hidden |= !is_all;
        if name == "objectClass" && values.iter().any(|class| class == "inetOrgPerson") {
            values.push("person".to_owned());
        }
        let passes = values.iter().any(|have| sign.passes(have, value));
        if passes {
            return Some(true);
        }
    }
    (!is_hidden).then_some(false)
}
