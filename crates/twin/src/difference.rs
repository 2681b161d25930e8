//! Differences between the answers of two servers to one request.

use std::collections::{BTreeMap, BTreeSet};

use ldap::{Message, Request, ResultCode, Scope, SortKey, oids};

use crate::answer::{Answer, AnswerEntry, normal_dn, normal_text};
use crate::exchange::Kind;

/// Part of the answer that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Category {
    /// The result codes.
    Code,
    /// The entries that a search returns.
    Entries,
    /// The attributes or values of an entry.
    Attributes,
    /// The order of sorted entries.
    Order,
    /// Continuation references.
    References,
    /// The value of an extended response.
    Value,
}

impl Category {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Category::Code => "result code",
            Category::Entries => "entries",
            Category::Attributes => "attributes",
            Category::Order => "order",
            Category::References => "references",
            Category::Value => "value",
        }
    }
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) category: Category,
    /// Description of the cause. Differences with the same cause have the same text.
    pub(crate) cause: String,
    /// Entry or request that shows the difference. Contains no attribute values, except in DNs.
    pub(crate) example: String,
}

/// The answers of the old and of the new server.
pub(crate) struct Pair<'a> {
    pub(crate) old: &'a Answer,
    pub(crate) new: &'a Answer,
}

/// Returns the differences between two answers. `ignored` contains attribute names in lower case.
pub(crate) fn differences(
    kind: Kind,
    request: &Message<'_>,
    pair: &Pair<'_>,
    ignored: &BTreeSet<String>,
) -> Vec<Difference> {
    let Pair { old, new } = pair;
    let mut found = Vec::new();
    if old.code != new.code {
        let code = |answer: &Answer| answer.code.map_or_else(|| "none".to_owned(), |code| code.to_string());
        let cause = format!("{}: {} became {}", describe(kind, request), code(old), code(new));
        found.push(Difference { category: Category::Code, cause, example: target(request) });
        return found;
    }
    match request.request {
        // Compare the entries only if both searches are complete, because searches that ended early may have returned
        // different entries.
        Request::Search(_) if old.code == Some(ResultCode::SUCCESS) => {
            entries(kind, request, pair, ignored, &mut found);
            references(kind, request, pair, &mut found);
            order(request, pair, &mut found);
        }
        Request::Extended(extended) if extended.name == oids::WHO_AM_I => {
            let text = |answer: &Answer| {
                let value = answer.value.as_deref().unwrap_or_default();
                let text = String::from_utf8_lossy(value);
                text.strip_prefix("dn:").map_or_else(|| normal_text(&text), normal_dn)
            };
            if text(old) != text(new) {
                let cause = "who am I".to_owned();
                found.push(Difference { category: Category::Value, cause, example: text(old) });
            }
        }
        _ => {}
    }
    found
}

fn entries(
    kind: Kind,
    request: &Message<'_>,
    pair: &Pair<'_>,
    ignored: &BTreeSet<String>,
    found: &mut Vec<Difference>,
) {
    let by_name = |answer: &'_ Answer| -> BTreeMap<String, usize> {
        answer.entries.iter().enumerate().map(|(place, entry)| (entry.normal.clone(), place)).collect()
    };
    let (old, new) = (by_name(pair.old), by_name(pair.new));
    let mut missing = |names: Vec<&String>, whose: &str| {
        if let Some(first) = names.first() {
            let cause = format!("{}: only the {whose} server returns some", describe(kind, request));
            let example = format!("{} entries, such as {first}", names.len());
            found.push(Difference { category: Category::Entries, cause, example });
        }
    };
    missing(old.keys().filter(|name| !new.contains_key(*name)).collect(), "old");
    missing(new.keys().filter(|name| !old.contains_key(*name)).collect(), "new");
    for (name, place) in &old {
        let both =
            new.get(name).and_then(|other| pair.new.entries.get(*other)).zip(pair.old.entries.get(*place));
        if let Some((new, old)) = both {
            attributes(old, new, ignored, found);
        }
    }
}

fn attributes(old: &AnswerEntry, new: &AnswerEntry, ignored: &BTreeSet<String>, found: &mut Vec<Difference>) {
    let names: BTreeSet<&String> = old.attributes.keys().chain(new.attributes.keys()).collect();
    for name in names {
        let type_name = name.split(';').next().unwrap_or_default();
        if ignored.contains(type_name) {
            continue;
        }
        let cause = match (old.attributes.get(name), new.attributes.get(name)) {
            (Some(_), None) => Some("only the old server returns it"),
            (None, Some(_)) => Some("only the new server returns it"),
            (Some(old), Some(new)) => values(old, new),
            (None, None) => None,
        };
        if let Some(cause) = cause {
            let cause = format!("{name}: {cause}");
            found.push(Difference { category: Category::Attributes, cause, example: old.dn.clone() });
        }
    }
}

/// Describes how the values of an attribute differ.
fn values(old: &[Vec<u8>], new: &[Vec<u8>]) -> Option<&'static str> {
    let sorted = |values: &[Vec<u8>]| {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        sorted
    };
    let (old, new) = (sorted(old), sorted(new));
    if old == new {
        return None;
    }
    let spelled = |values: &[Vec<u8>]| {
        let mut spelled: Vec<String> =
            values.iter().map(|value| normal_dn(&String::from_utf8_lossy(value))).collect();
        spelled.sort_unstable();
        spelled
    };
    let is_utf8 = old.iter().chain(&new).all(|value| std::str::from_utf8(value).is_ok());
    if is_utf8 && spelled(&old) == spelled(&new) {
        return Some("other spelling of values");
    }
    let lacks = |some: &[Vec<u8>], others: &[Vec<u8>]| some.iter().any(|value| !others.contains(value));
    Some(match (lacks(&old, &new), lacks(&new, &old)) {
        (true, false) => "the new server lacks values",
        (false, true) => "the new server has more values",
        _ => "other values",
    })
}

fn references(kind: Kind, request: &Message<'_>, pair: &Pair<'_>, found: &mut Vec<Difference>) {
    let set = |answer: &Answer| answer.references.iter().map(|uri| normal_text(uri)).collect::<BTreeSet<_>>();
    if set(pair.old) != set(pair.new) {
        let cause = format!("{}: other continuation references", describe(kind, request));
        found.push(Difference { category: Category::References, cause, example: target(request) });
    }
}

/// Compares the order of the sort keys, if the client requested sorting and the keys are returned. Entries with equal
/// keys may have any order.
fn order(request: &Message<'_>, pair: &Pair<'_>, found: &mut Vec<Difference>) {
    let control = request.controls.find(oids::SORT_REQUEST).and_then(|control| control.value);
    let Some(keys) = control.and_then(SortKey::decode_list) else { return };
    let names: Vec<String> = keys.iter().map(|key| key.attribute.to_ascii_lowercase()).collect();
    let key_of = |entry: &AnswerEntry| -> Vec<Option<String>> {
        let first = |name: &String| {
            let values = entry.attributes.get(name)?;
            values.iter().map(|value| normal_text(&String::from_utf8_lossy(value))).min()
        };
        names.iter().map(first).collect()
    };
    let sequence = |answer: &Answer| answer.entries.iter().map(key_of).collect::<Vec<_>>();
    let (mut old, mut new) = (sequence(pair.old), sequence(pair.new));
    if old == new {
        return;
    }
    old.sort_unstable();
    new.sort_unstable();
    // Compare the order only if the entries and their values are equal. Otherwise the order differs as a consequence.
    if old == new {
        let cause = format!("sorted by {}", names.join(", "));
        found.push(Difference { category: Category::Order, cause, example: target(request) });
    }
}

/// Describes a request without the parts that vary between similar requests.
fn describe(kind: Kind, request: &Message<'_>) -> String {
    match request.request {
        Request::Search(search) => {
            let scope = match search.scope {
                Scope::BaseObject => "base",
                Scope::SingleLevel => "one",
                Scope::WholeSubtree => "sub",
                Scope::Subordinate => "subordinates",
            };
            format!("search {scope} {}", without_values(&search.filter.to_string()))
        }
        Request::Extended(extended) => format!("{} {}", kind.name(), extended.name),
        _ => kind.name().to_owned(),
    }
}

/// Returns the text of a filter without its values.
fn without_values(filter: &str) -> String {
    let mut out = String::with_capacity(filter.len());
    let mut in_value = false;
    let mut value = String::new();
    for letter in filter.chars() {
        match letter {
            ')' if in_value => {
                out.push_str(if value == "*" { "*)" } else { ")" });
                in_value = false;
            }
            _ if in_value => value.push(letter),
            '=' => {
                out.push('=');
                (in_value, value) = (true, String::new());
            }
            _ => out.push(letter),
        }
    }
    out
}

/// Returns the DN of the entry to which a request applies.
pub(crate) fn target(request: &Message<'_>) -> String {
    match request.request {
        Request::Search(search) => search.base_object.to_owned(),
        Request::Bind(bind) => bind.name.to_owned(),
        Request::Add(add) => add.entry.to_owned(),
        Request::Modify(modify) => modify.object.to_owned(),
        Request::ModifyDn(rename) => rename.entry.to_owned(),
        Request::Delete(delete) => delete.entry.to_owned(),
        Request::Compare(compare) => compare.entry.to_owned(),
        Request::Extended(extended) => extended.name.to_owned(),
        Request::Unbind | Request::Abandon(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(dn: &str, attributes: &[(&str, &[&str])]) -> AnswerEntry {
        let values = |values: &[&str]| values.iter().map(|value| value.as_bytes().to_vec()).collect();
        let attributes = attributes.iter().map(|(name, all)| ((*name).to_owned(), values(all))).collect();
        AnswerEntry { dn: dn.to_owned(), normal: normal_dn(dn), attributes }
    }

    #[test]
    fn values_are_removed_from_filters() {
        for (filter, expected) in [
            ("(uid=anna)", "(uid=)"),
            ("(&(uid=*)(!(cn=a*b)))", "(&(uid=*)(!(cn=)))"),
            ("(cn:dn:2.5.13.2:=x\\29)", "(cn:dn:2.5.13.2:=)"),
        ] {
            assert_eq!(without_values(filter), expected);
        }
    }

    #[test]
    fn values_are_compared_as_sets_and_by_spelling() {
        let list = |values: &[&str]| values.iter().map(|value| value.as_bytes().to_vec()).collect::<Vec<_>>();
        let check = |old: &[&str], new: &[&str], expected| {
            assert_eq!(values(&list(old), &list(new)), expected, "{old:?} {new:?}");
        };
        check(&["a", "b"], &["b", "a"], None);
        check(&["cn=A, dc=X"], &["cn=a,dc=x"], Some("other spelling of values"));
        check(&["a", "b"], &["a"], Some("the new server lacks values"));
        check(&["a"], &["a", "b"], Some("the new server has more values"));
        check(&["a"], &["b"], Some("other values"));
        check(&["a", "a"], &["a"], Some("other values"));
    }

    #[test]
    fn attributes_are_compared_unless_ignored() {
        let old = entry("cn=a", &[("cn", &["a"]), ("entrycsn", &["1"]), ("mail", &["x"])]);
        let new = entry("cn=a", &[("cn", &["a"]), ("entrycsn", &["2"]), ("sn", &["y"])]);
        let mut found = Vec::new();
        attributes(&old, &new, &BTreeSet::from(["entrycsn".to_owned()]), &mut found);
        let causes: Vec<&str> = found.iter().map(|one| one.cause.as_str()).collect();
        assert_eq!(causes, ["mail: only the old server returns it", "sn: only the new server returns it"]);
    }
}
