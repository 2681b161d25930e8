//! Random filters: the simple directory tests every entry, the real directory uses a plan. Results are equal with and
//! without indexes.

use fastrand::Rng;
use ldap::{ResultCode, Scope};

use crate::plain::{Plain, word};
use crate::testing::TestDirectory;

const FILTERS: usize = 30;

enum Filter {
    And(Vec<Filter>),
    Or(Vec<Filter>),
    Not(Box<Filter>),
    Equal(&'static str, String),
    /// A chain of links leads to the named entry.
    Chain(&'static str, String),
    Starts(&'static str, String),
    Contains(&'static str, String),
    Ends(&'static str, String),
    AtLeast(&'static str, i32),
    AtMost(&'static str, i32),
    Present(&'static str),
    Class(&'static str),
}

pub(crate) fn compare(directory: &mut TestDirectory, plain: &Plain, rng: &mut Rng) {
    if plain.entries.is_empty() {
        return;
    }
    for _ in 0..FILTERS {
        let filter = random(plain, rng, 3);
        let text = text(&filter);
        let (scope, base) = (
            [Scope::BaseObject, Scope::SingleLevel, Scope::WholeSubtree, Scope::Subordinate][rng.usize(0..4)],
            {
                let ids: Vec<usize> = plain.entries.keys().copied().collect();
                ids[rng.usize(0..ids.len())]
            },
        );
        let base_dn = plain.dn(base);
        let mut expected: Vec<String> = plain
            .entries
            .keys()
            .filter(|id| in_scope(plain, **id, base, scope) && matches(plain, **id, &filter))
            .map(|id| plain.dn(*id))
            .collect();
        expected.sort();
        for indexed in [true, false] {
            directory.use_indexes = indexed;
            let found = directory.search(&base_dn, scope, &text, &["1.1"]);
            assert_eq!(found.code, ResultCode::SUCCESS, "{text}: {}", found.diagnostic);
            let mut dns: Vec<String> = found.entries.iter().map(|entry| entry.dn.to_lowercase()).collect();
            dns.sort();
            assert_eq!(dns, expected, "{text} at {base_dn} {scope:?}, indexes: {indexed}");
        }
        directory.use_indexes = true;
    }
}

fn in_scope(plain: &Plain, id: usize, base: usize, scope: Scope) -> bool {
    let (dn, base_dn) = (plain.dn(id), plain.dn(base));
    let below = dn.ends_with(&format!(",{base_dn}"));
    match scope {
        Scope::BaseObject => id == base,
        Scope::SingleLevel => below && dn.split_once(',').unwrap().1 == base_dn,
        Scope::WholeSubtree => below || id == base,
        Scope::Subordinate => below,
    }
}

fn matches(plain: &Plain, id: usize, filter: &Filter) -> bool {
    let any =
        |name: &str, test: &dyn Fn(&str) -> bool| plain.values(id, name).iter().any(|value| test(value));
    match filter {
        Filter::And(parts) => parts.iter().all(|part| matches(plain, id, part)),
        Filter::Or(parts) => parts.iter().any(|part| matches(plain, id, part)),
        Filter::Not(part) => !matches(plain, id, part),
        Filter::Equal(name, value) => any(name, &|kept| kept == value.to_lowercase()),
        Filter::Chain(name, value) => plain.leads(id, name, &value.to_lowercase()),
        Filter::Starts(name, value) => any(name, &|kept| kept.starts_with(&value.to_lowercase())),
        Filter::Contains(name, value) => any(name, &|kept| kept.contains(&value.to_lowercase())),
        Filter::Ends(name, value) => any(name, &|kept| kept.ends_with(&value.to_lowercase())),
        Filter::AtLeast(name, bound) => any(name, &|kept| kept.parse::<i32>().unwrap() >= *bound),
        Filter::AtMost(name, bound) => any(name, &|kept| kept.parse::<i32>().unwrap() <= *bound),
        Filter::Present(name) => any(name, &|_| true),
        Filter::Class(class) => match (*class, plain.entries[&id].class) {
            ("top", _) => true,
            ("person" | "posixAccount", own) => own == "inetOrgPerson",
            (class, own) => class == own,
        },
    }
}

fn random(plain: &Plain, rng: &mut Rng, depth: u32) -> Filter {
    let parts = |rng: &mut Rng| (0..rng.usize(0..4)).map(|_| random(plain, rng, depth - 1)).collect();
    let name = ["cn", "sn", "description", "ou", "name"][rng.usize(0..4)];
    match rng.u32(0..if depth == 0 { 10 } else { 14 }) {
        0 | 1 => Filter::Equal(name, word(rng)),
        2 => Filter::Starts(name, word(rng)),
        3 if rng.bool() => Filter::Contains(name, word(rng)),
        3 => Filter::Ends(name, word(rng)),
        4 => Filter::Present(["cn", "sn", "member", "description", "memberof"][rng.usize(0..5)]),
        5 => Filter::Class(["person", "top", "groupOfNames", "posixAccount", "domain"][rng.usize(0..5)]),
        6 | 7 => {
            let name = ["member", "seealso", "manager", "memberof", "ismemberof"][rng.usize(0..5)];
            Filter::Equal(name, plain.random_dn(rng))
        }
        8 if rng.bool() => {
            let name = ["member", "seealso", "manager", "memberof"][rng.usize(0..4)];
            Filter::Chain(name, plain.random_dn(rng))
        }
        8 => Filter::AtLeast("uidnumber", rng.i32(-2..30)),
        9 => Filter::AtMost("uidnumber", rng.i32(-2..30)),
        10 | 11 => Filter::And(parts(rng)),
        12 => Filter::Or(parts(rng)),
        _ => Filter::Not(Box::new(random(plain, rng, depth - 1))),
    }
}

fn text(filter: &Filter) -> String {
    let all = |parts: &[Filter]| parts.iter().map(text).collect::<String>();
    match filter {
        Filter::And(parts) => format!("(&{})", all(parts)),
        Filter::Or(parts) => format!("(|{})", all(parts)),
        Filter::Not(part) => format!("(!{})", text(part)),
        Filter::Equal(name, value) => format!("({name}={value})"),
        Filter::Chain(name, value) => format!("({name}:1.2.840.113556.1.4.1941:={value})"),
        Filter::Starts(name, value) => format!("({name}={value}*)"),
        Filter::Contains(name, value) => format!("({name}=*{value}*)"),
        Filter::Ends(name, value) => format!("({name}=*{value})"),
        Filter::AtLeast(name, bound) => format!("({name}>={bound})"),
        Filter::AtMost(name, bound) => format!("({name}<={bound})"),
        Filter::Present(name) => format!("({name}=*)"),
        Filter::Class(class) => format!("(objectClass={class})"),
    }
}
