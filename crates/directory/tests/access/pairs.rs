//! Pairs of trees that differ only in data that a requester may not see, and that have the same times and UUIDs. All
//! responses from both trees must be equal.

use std::collections::BTreeMap;

use crate::testing::{Found, TestDirectory};
use directory::controls::RequestControls;
use directory::{ClientLink, RequestContext};
use fastrand::Rng;
use ldap::{ChangeOperation, DerefAliases, MessageId, ResultCode};

use crate::filters::Filter;
use crate::rules::{Rights, Rule, TYPES};
use crate::tree::{Attributes, GROUPS, HIDDEN, PEOPLE, STAFF, SUFFIX, Tree, parent, sample, user};
use crate::{
    SCOPES, SORTED_BY, SearchCase, act_as, compared, directory_of, for_seeds, page, search, set_rules, sort,
    testing,
};

type Numbered = Vec<(u64, String, Attributes)>;

/// Result of one page of a search.
#[derive(Debug, PartialEq)]
pub(crate) struct Page {
    pub(crate) found: Found,
    /// Size field of the paged results response control; `None` without the control.
    size: Option<u32>,
}

/// Runs a search page by page with the returned cookies.
pub(crate) fn pages(
    directory: &mut TestDirectory,
    case: &SearchCase,
    size: u32,
    link: Option<ClientLink>,
) -> Vec<Page> {
    use directory::search::{Budget, Search, Step};
    use ldap::{DecodeLimits, FilterBuf, PagedResults, ResponseMessage, SearchRequest, SelectionBuf};
    let filter = FilterBuf::parse(&case.filter).unwrap();
    let mut selection = SelectionBuf::new();
    case.attributes.iter().for_each(|attribute| selection.push(attribute));
    let mut request =
        SearchRequest::new(&case.base, case.scope, filter.as_filter(), selection.as_selection());
    request.deref_aliases = case.deref;
    let (mut pages, mut cookie) = (Vec::new(), Vec::new());
    loop {
        let mut controls = page(size, &cookie);
        controls.seldom.get_or_insert_default().sort.clone_from(&case.sort);
        let mut out = Vec::new();
        let started = Search::start(
            &directory.snapshot,
            &RequestContext::new(&directory.requester, link),
            MessageId(7),
            &request,
            &controls,
        );
        let mut search = match started {
            Ok(search) => search,
            Err(outcome) => {
                pages.push(Page { found: outcome.into(), size: None });
                return pages;
            }
        };
        let budget = Budget { entries_examined_max: 5, out_bytes_max: 1_000 };
        while matches!(search.run(&directory.snapshot, &mut out, &budget), Step::More) {}
        let mut size = None;
        cookie.clear();
        let mut rest = &out[..];
        while let Some(length) = ldap::frame_len(rest).unwrap() {
            let message = ResponseMessage::decode(&rest[..length], &DecodeLimits::default()).unwrap();
            for control in message.controls.iter().filter(|of| of.oid == ldap::oids::PAGED_RESULTS) {
                let of = PagedResults::decode(control.value.unwrap()).unwrap();
                (cookie, size) = (of.cookie.to_vec(), Some(of.size));
            }
            rest = &rest[length..];
        }
        pages.push(Page { found: testing::received(&out), size });
        if cookie.is_empty() {
            return pages;
        }
    }
}

#[test]
fn hidden_data_is_indistinguishable_from_absent_data() {
    for_seeds(40, |seed| {
        let mut rng = Rng::with_seed(seed);
        let requester = if rng.u8(0..4) == 0 { String::new() } else { user(rng.usize(..2)) };
        let mut pair_count = 0;
        for _ in 0..12 {
            pair_count += usize::from(check_pair(&mut rng, &requester));
            if pair_count == 2 {
                return;
            }
        }
    });
}

/// Returns the sample with additional entries to hide, such as an alias and a referral.
fn sample_with_hidden_entries(rng: &mut Rng) -> Numbered {
    let mut entries = sample();
    let of = |pairs: &[(&str, &str)]| -> Attributes {
        let mut all = Attributes::new();
        for (name, value) in pairs {
            all.entry((*name).to_owned()).or_default().push((*value).to_owned());
        }
        all
    };
    for (number, place) in [PEOPLE, STAFF, HIDDEN].into_iter().enumerate() {
        let to = [user(0), user(1), STAFF.to_owned(), user(3), format!("cn=alias1,{HIDDEN}")];
        let alias = of(&[
            ("objectClass", "alias"),
            ("objectClass", "extensibleObject"),
            ("cn", &format!("alias{number}")),
            ("aliasedObjectName", &to[rng.usize(..to.len())]),
        ]);
        entries.push((format!("cn=alias{number},{place}"), alias));
        let referral = of(&[
            ("objectClass", "referral"),
            ("objectClass", "extensibleObject"),
            ("ou", &format!("elsewhere{number}")),
            ("ref", "ldap://127.0.0.1:1/dc=elsewhere"),
        ]);
        entries.push((format!("ou=elsewhere{number},{place}"), referral));
    }
    entries.into_iter().zip(0..).map(|((dn, entry), number)| (number, dn, entry)).collect()
}

fn tree_of(entries: &Numbered) -> Tree {
    entries.iter().map(|(_, dn, entry)| (dn.clone(), entry.clone())).collect()
}

/// Returns all data that a requester can obtain with any right.
fn view(rules: &[Rule], requester: &str, tree: &Tree) -> BTreeMap<String, BTreeMap<String, Vec<String>>> {
    let rights = Rights { rules, requester, tree, link: None };
    let mut view = BTreeMap::new();
    for (dn, entry) in tree {
        if !rights.sees(dn) {
            continue;
        }
        let mut shown = BTreeMap::new();
        for name in entry.keys() {
            for right in ["read", "search", "compare"] {
                if rights.may(right, dn, name) {
                    shown.insert(format!("{name} {right}"), rights.values(dn, name, right));
                }
            }
        }
        for right in ["read", "search", "compare"] {
            for name in ["memberOf", "isMemberOf"] {
                shown.insert(format!("{name} {right}"), rights.values(dn, name, right));
            }
        }
        shown.insert(
            "numSubordinates".to_owned(),
            match rights.may("read", dn, "numSubordinates") {
                true => vec![tree.keys().filter(|other| parent(other) == dn).count().to_string()],
                false => Vec::new(),
            },
        );
        view.insert(dn.clone(), shown);
    }
    view
}

/// Returns another tree that differs only in hidden data.
fn with_other_hidden_data(rng: &mut Rng, rules: &[Rule], requester: &str, first: &Numbered) -> Numbered {
    let mut second = first.clone();
    let whole = tree_of(first);
    let rights = Rights { rules, requester, tree: &whole, link: None };
    // Entries are visited from the leaves up, because an entry can be removed only after its subordinates.
    for (_, dn, _) in first.iter().rev() {
        let has_children = second.iter().any(|(_, other, _)| parent(other) == dn);
        if !rights.sees(dn) && !has_children && dn != requester && rng.bool() {
            second.retain(|(_, other, _)| other != dn);
        }
    }
    for (_, dn, entry) in &mut second {
        let naming = dn.split_once('=').unwrap().0.to_owned();
        for (name, values) in entry.iter_mut() {
            let is_open = |value: &str| {
                ["read", "search", "compare"].iter().any(|right| rights.may_value(right, dn, name, value))
            };
            let is_text =
                !["objectClass", "manager", "member", "aliasedObjectName", "ref"].contains(&name.as_str());
            if is_text && *name != naming && TYPES.iter().any(|(known, ..)| known == name) && rng.bool() {
                // Visible values stay. Hidden values are replaced by other hidden values.
                let mut others: Vec<String> = values.iter().filter(|value| is_open(value)).cloned().collect();
                others.extend(["+99", "hidden too"].map(str::to_owned).into_iter().filter(|of| !is_open(of)));
                if !others.is_empty()
                    && (*name != "telephoneNumber" || !others.iter().any(|of| of == "hidden too"))
                {
                    *values = others;
                }
            }
        }
    }
    for (number, place) in (first.len() as u64..).zip([SUFFIX, PEOPLE, STAFF, HIDDEN, GROUPS]) {
        let dn = format!("ou=new{number},{place}");
        if second.iter().any(|(_, other, _)| other == place) && rng.bool() {
            let mut entry = Attributes::new();
            entry.insert("objectClass".to_owned(), vec!["organizationalUnit".to_owned()]);
            entry.insert("ou".to_owned(), vec![format!("new{number}")]);
            let mut with = tree_of(&second);
            with.insert(dn.clone(), entry.clone());
            if !(Rights { rules, requester, tree: &with, link: None }).sees(&dn) {
                second.push((number, dn, entry));
            }
        }
    }
    second
}

/// Attributes that searches request.
const SELECTIONS: [&[&str]; 4] = [
    &["*", "+"],
    &["1.1"],
    &["*", "memberOf", "hasSubordinates"],
    &["member;range=0-*", "isMemberOf;range=1-1", "mail;range=0-*", "description;range=1-*"],
];

/// Checks a pair of trees. Returns false if no pair was found.
fn check_pair(rng: &mut Rng, requester: &str) -> bool {
    let one = sample_with_hidden_entries(rng);
    let mut rules: Vec<Rule> = (0..rng.usize(2..7)).map(|place| Rule::random(rng, place < 2)).collect();
    // Rules that allow changes are left out, so that both trees stay unchanged.
    for rule in &mut rules {
        rule.rights.retain(|right| !["write", "reset"].contains(right));
        if rule.rights.is_empty() {
            rule.rights.push("read");
        }
    }
    let other = with_other_hidden_data(rng, &rules, requester, &one);
    if one == other || view(&rules, requester, &tree_of(&one)) != view(&rules, requester, &tree_of(&other)) {
        return false;
    }
    let mut pair = [directory_of(&one), directory_of(&other)];
    let [texts, _] = pair.each_mut().map(|directory| set_rules(directory, &rules));
    let orders: Vec<String> =
        SORTED_BY.iter().filter(|_| rng.bool()).map(|by| format!("{by}: {by}")).collect();
    for directory in &mut pair {
        directory.change_settings(|settings| settings.general.sort_orders.clone_from(&orders));
        directory.finish_indexes();
        act_as(directory, requester);
    }
    let names: Vec<&str> = one.iter().chain(&other).map(|(_, dn, _)| dn.as_str()).collect();
    for _ in 0..40 {
        let name = names[rng.usize(..names.len())];
        let (below, differently) = (format!("cn=x,{name}"), name.to_uppercase());
        let base = match rng.u8(0..6) {
            0 => "",
            1 => &below,
            2 => &differently,
            3 => SUFFIX,
            _ => name,
        };
        let case = SearchCase {
            base: base.to_owned(),
            scope: SCOPES[if base.is_empty() { rng.usize(1..4) } else { rng.usize(..4) }],
            filter: filter(rng),
            attributes: SELECTIONS[rng.usize(..4)].to_vec(),
            deref: [
                DerefAliases::Never,
                DerefAliases::Always,
                DerefAliases::InSearching,
                DerefAliases::FindingBase,
            ][rng.usize(..4)],
            size_limit: if rng.u8(0..4) == 0 { rng.u32(1..4) } else { 0 },
            sort: if rng.bool() { sort(SORTED_BY[rng.usize(..SORTED_BY.len())], rng.bool()) } else { None },
        };
        let what = || {
            let removed = one.iter().filter(|entry| !other.contains(entry)).map(|(_, dn, _)| dn);
            let added = other.iter().filter(|entry| !one.contains(entry)).map(|(_, dn, _)| dn);
            let (removed, added): (Vec<_>, Vec<_>) = (removed.collect(), added.collect());
            format!("{case:?} as {requester} under {texts:#?}\nremoved {removed:#?}\nadded {added:#?}")
        };
        let none = RequestControls { manage_dsa_it: rng.u8(0..4) == 0, ..RequestControls::default() };
        let found = pair.each_mut().map(|directory| comparable(search(directory, &case, &none)));
        assert_eq!(found[0], found[1], "{}", what());
        let size = rng.u32(1..4);
        let paged = pair.each_mut().map(|directory| {
            let all = pages(directory, &case, size, None).into_iter();
            all.map(|page| Page { found: comparable(page.found), ..page }).collect::<Vec<_>>()
        });
        assert_eq!(paged[0], paged[1], "{}", what());
        let attribute = TYPES[rng.usize(1..TYPES.len())].0;
        let value = ["same for all", "anna", "cn=secret,ou=groups,dc=example,dc=com", "+99"][rng.usize(..4)];
        let of = pair.each_ref().map(|directory| compared(directory, base, attribute, value, None));
        assert_eq!(of[0], of[1], "compare {attribute} {value}: {}", what());
        // Without a right to change anything, all changes are refused with the same result.
        let changes = pair.each_mut().map(|directory| {
            let modified = directory.modify(base, &[(ChangeOperation::Replace, "description", &["x"])]);
            let renamed = directory.modify_dn(base, "ou=renamed", false, None);
            let deleted = directory.delete(base);
            let added = directory.add(&below, &[("objectClass", &["organizationalRole"]), ("cn", &["x"])]);
            [modified, renamed, deleted, added].map(|of| (of.code, of.matched_dn, of.diagnostic))
        });
        assert_eq!(changes[0], changes[1], "{}", what());
        assert!(changes[0].iter().all(|(code, ..)| *code != ResultCode::SUCCESS), "{}", what());
    }
    true
}

/// Returns a random filter of any kind.
fn filter(rng: &mut Rng) -> String {
    let name = ["anna", "bert", "dora", "hidden", "new"][rng.usize(..5)];
    match rng.u8(0..14) {
        0 => format!("(ou:dn:={name})"),
        1 => format!("(:caseIgnoreMatch:={name})"),
        2 => format!("(cn~={name})"),
        3 => format!("(:dn:caseIgnoreMatch:={name})"),
        4 => "(!(:caseIgnoreMatch:=+99))".to_owned(),
        5 => "(numSubordinates>=1)".to_owned(),
        6 => "(!(hasSubordinates=TRUE))".to_owned(),
        7 => "(!(description=+99))".to_owned(),
        8 => "(createTimestamp>=20000101000000Z)".to_owned(),
        _ => Filter::random(rng, 3).text(),
    }
}

/// Removes permitted differences: data about the whole directory, and the order of values.
fn comparable(found: Found) -> Found {
    let mut found = found;
    for entry in &mut found.entries {
        entry.attributes.remove("contextCSN");
        entry.attributes.values_mut().for_each(|values| values.sort());
    }
    found
}
