//! Compares access rules with a simple evaluator, and checks that hidden data looks like absent data.
//!
//! A failure prints its seed; `PANDO_TEST_SEED=n cargo test -p directory --test access` replays that run alone.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../../src/testing.rs"]
#[allow(dead_code)]
mod testing;

mod filters;
mod pairs;
mod rules;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use directory::compare::{CompareOutcome, compare};
use directory::controls::{RareControls, RequestControls, RequestedSortKey, SortOptions};
use directory::identity::identify;
use directory::{BindMethod, ClientLink, ListenerName, RequestContext, Requester, WeekTime};
use fastrand::Rng;
use filters::Filter;
use ldap::{
    AddRequest, AttributesBuf, ChangeOperation, ChangesBuf, CompareRequest, Control, ControlsBuf, FilterBuf,
    ModifyRequest, PagedResults, Request, ResultCode, Scope, SearchRequest, SelectionBuf,
};
use rules::{Extent, Rights, Rule, USES, UseRule};
use testing::{Found, TestDirectory, for_seeds};
use tree::{Attributes, Tree, user};

/// Creates a directory with these entries. The number of an entry determines its time and its UUID.
fn directory_of(entries: &[(u64, String, Attributes)]) -> TestDirectory {
    let mut directory = TestDirectory::new();
    let stamps: Vec<_> = (0..entries.iter().map(|(number, ..)| number + 1).max().unwrap_or(0))
        .map(|_| directory.stamp())
        .collect();
    let mut batch = directory.writer.begin().unwrap();
    for (number, dn, attributes) in entries {
        let mut buffer = AttributesBuf::new();
        attributes.iter().for_each(|(name, values)| buffer.push(name, values.iter()));
        let request = Request::Add(AddRequest { entry: dn, attributes: buffer.as_attributes() });
        let stamp = &stamps[usize::try_from(*number).unwrap()];
        let outcome =
            batch.execute(&directory.requester.context(), &request, &RequestControls::default(), stamp);
        assert_eq!(outcome.code, ResultCode::SUCCESS, "{dn}: {}", outcome.diagnostic);
    }
    batch.commit().unwrap();
    directory.snapshot.renew().unwrap();
    directory
}

/// Returns the sample both as maps and as a directory.
fn sample() -> (Tree, TestDirectory) {
    let entries: Vec<_> =
        tree::sample().into_iter().zip(0..).map(|((dn, entry), number)| (number, dn, entry)).collect();
    let tree = entries.iter().map(|(_, dn, entry)| (dn.clone(), entry.clone())).collect();
    (tree, directory_of(&entries))
}

fn set_rules(directory: &mut TestDirectory, rules: &[Rule]) -> Vec<String> {
    let texts: Vec<String> =
        rules.iter().enumerate().map(|(number, rule)| rule.text(&format!("rule {number}"))).collect();
    directory.change_settings(|settings| settings.general.access_rules = texts.clone());
    texts
}

fn act_as(directory: &mut TestDirectory, dn: &str) {
    directory.requester = match dn {
        "" => Requester::Anonymous,
        _ => identify(&directory.snapshot, &format!("dn:{dn}")).unwrap().unwrap().requester,
    };
}

/// A search with a size limit. The search uses pages if a page size is given.
#[derive(Clone, Debug)]
struct SearchCase {
    base: String,
    scope: Scope,
    filter: String,
    attributes: Vec<&'static str>,
    deref: ldap::DerefAliases,
    size_limit: u32,
    sort: Option<SortOptions>,
}

impl SearchCase {
    fn rare_controls(&self) -> Option<Box<RareControls>> {
        let sort = Some(self.sort.clone()?);
        Some(Box::new(RareControls { sort, ..RareControls::default() }))
    }
}

fn search(directory: &mut TestDirectory, case: &SearchCase, controls: &RequestControls) -> Found {
    let filter = FilterBuf::parse(&case.filter).unwrap();
    let mut selection = SelectionBuf::new();
    case.attributes.iter().for_each(|attribute| selection.push(attribute));
    let mut request =
        SearchRequest::new(&case.base, case.scope, filter.as_filter(), selection.as_selection());
    request.size_limit = case.size_limit;
    request.deref_aliases = case.deref;
    directory.search_request(&request, &RequestControls { seldom: case.rare_controls(), ..controls.clone() })
}

fn compared(
    directory: &TestDirectory,
    dn: &str,
    description: &str,
    value: &str,
    link: Option<ClientLink>,
) -> (ResultCode, String, String) {
    let request = CompareRequest { entry: dn, description, value: value.as_bytes() };
    let context = RequestContext::new(&directory.requester, link);
    match compare(&directory.snapshot, &context, &request, &RequestControls::default()) {
        CompareOutcome::Done(outcome) => (outcome.code, outcome.matched_dn, outcome.diagnostic),
        CompareOutcome::Verify { .. } => panic!("a verification of {description}"),
    }
}

/// Returns the controls of a request for one page.
fn page(size: u32, cookie: &[u8]) -> RequestControls {
    let value = PagedResults { size, cookie }.encode();
    let controls = ControlsBuf::from_iter([Control {
        oid: ldap::oids::PAGED_RESULTS,
        critical: true,
        value: Some(&value),
    }]);
    RequestControls::read(&controls.as_controls(), directory::controls::ControlContext::Search).unwrap()
}

const SCOPES: [Scope; 4] = [Scope::BaseObject, Scope::SingleLevel, Scope::WholeSubtree, Scope::Subordinate];
const HIDDEN_TEXT: &str = "does not exist, or you may not see it";

#[test]
fn answers_agree_with_a_model_of_the_access_rules() {
    for_seeds(8, |seed| {
        let mut rng = Rng::with_seed(seed);
        let (tree, mut directory) = sample();
        if seed % 2 == 0 {
            // Sorted results come from sort orders if the rules permit that.
            let orders = SORTED_BY.map(|by| format!("{by}: {by}")).to_vec();
            directory.change_settings(|settings| settings.general.sort_orders = orders);
        }
        directory.finish_indexes();
        let (mut shown, mut changed) = (0, 0);
        let links = [
            None,
            of_link(10, true, None, None),
            of_link(127, false, Some(BindMethod::Simple), Some("monday 07:59")),
            of_link(1, true, Some(BindMethod::of_mechanism("EXTERNAL")), Some("sunday 12:00"))
                .map(|link| ClientLink { listener: Some(ListenerName::LDAPI), ..link }),
            of_link(10, true, Some(BindMethod::None), Some("monday 18:00"))
                .map(|link| ClientLink { listener: Some(ListenerName::LDAPS), ..link }),
        ];
        for round in 0..400 {
            // Rounds continue until some password was changed, because few rules let a user change a password.
            if round >= 40 && changed > 0 {
                break;
            }
            directory.use_indexes = rng.bool();
            let rules: Vec<Rule> =
                (0..rng.usize(1..7)).map(|place| Rule::random(&mut rng, place < 3)).collect();
            let texts = set_rules(&mut directory, &rules);
            for requester in [String::new(), user(0), user(1), user(2)] {
                act_as(&mut directory, &requester);
                let link = links[rng.usize(..links.len())];
                let rights = Rights { rules: &rules, requester: &requester, tree: &tree, link };
                for _ in 0..6 {
                    shown += check_search(&mut directory, &mut rng, &rights, &texts);
                    check_compare(&directory, &mut rng, &rights, &texts);
                    changed += usize::from(check_password(&mut directory, &mut rng, &rights, &texts));
                }
            }
        }
        assert!(shown > 20, "too little was to be seen: {shown}");
        assert!(changed > 0, "no password was changed");
    });
}

#[test]
fn changes_of_single_values_agree_with_the_rule_model() {
    for_seeds(4, |seed| {
        let mut rng = Rng::with_seed(seed);
        let (tree, mut directory) = sample();
        let (mut refused, mut changed) = (0, 0);
        for _ in 0..40 {
            // Random access rules are drawn until a user may write some, but not all, values of an attribute.
            let (rules, requester, dn, attribute) = loop {
                let rules: Vec<Rule> =
                    (0..rng.usize(1..6)).map(|place| Rule::random(&mut rng, place < 3)).collect();
                let (requester, dn) = (user(rng.usize(..4)), user(rng.usize(..4)));
                let attribute = ["mail", "description", "telephoneNumber"][rng.usize(..3)];
                let rights = Rights { rules: &rules, requester: &requester, tree: &tree, link: None };
                if rights.extent("write", &dn, attribute) == Extent::Some {
                    break (rules, requester, dn, attribute);
                }
            };
            directory.requester = Requester::Administrator { dn: "cn=admin".to_owned() };
            let texts = set_rules(&mut directory, &rules);
            let rights = Rights { rules: &rules, requester: &requester, tree: &tree, link: None };
            for _ in 0..12 {
                act_as(&mut directory, &requester);
                match check_values(&mut directory, &mut rng, &rights, (&dn, attribute), &texts) {
                    ResultCode::INSUFFICIENT_ACCESS_RIGHTS => refused += 1,
                    ResultCode::SUCCESS => changed += 1,
                    _ => {}
                }
            }
        }
        assert!(refused > 20 && changed > 20, "{refused} refused, {changed} changed");
    });
}

#[test]
fn allowed_controls_agree_with_the_rule_model() {
    for_seeds(4, |seed| {
        let mut rng = Rng::with_seed(seed);
        let (tree, mut directory) = sample();
        let links = [None, of_link(10, true, None, None), of_link(127, false, None, None)];
        let mut both = BTreeSet::new();
        for _ in 0..25 {
            let rules: Vec<UseRule> = (0..rng.usize(1..5)).map(|_| UseRule::random(&mut rng)).collect();
            let texts: Vec<_> =
                rules.iter().zip(0..).map(|(rule, at)| rule.text(&format!("r{at}"))).collect();
            directory.change_settings(|settings| settings.general.access_rules = texts.clone());
            for requester in [String::new(), user(0), user(1), user(3)] {
                act_as(&mut directory, &requester);
                let link = links[rng.usize(..links.len())];
                for (word, oid) in USES {
                    let expected = rules::may_use(&rules, (&requester, &tree), link, (word, oid));
                    let may = directory
                        .snapshot
                        .may_use(&RequestContext::new(&directory.requester, link), oid)
                        .unwrap();
                    assert_eq!(may, expected, "{word} as {requester:?} from {link:?} under {texts:#?}");
                    both.insert(may);
                }
            }
        }
        assert_eq!(both.len(), 2);
    });
}

fn of_link(
    network: u8,
    is_protected: bool,
    method: Option<BindMethod>,
    at: Option<&str>,
) -> Option<ClientLink> {
    let address = Some(IpAddr::from([network, 0, 0, 1]));
    let at = at.map(|text| WeekTime::parse(text).unwrap());
    Some(ClientLink { address, is_protected, method, at, listener: None })
}

fn in_scope(dn: &str, base: &str, scope: Scope) -> bool {
    let below = base.is_empty() || tree::is_at_or_below(dn, base);
    match scope {
        Scope::BaseObject => dn == base,
        Scope::SingleLevel => {
            let is_suffix = dn == tree::SUFFIX;
            if base.is_empty() { is_suffix } else { !is_suffix && tree::parent(dn) == base }
        }
        Scope::WholeSubtree => below,
        Scope::Subordinate => below && dn != base,
    }
}

/// Values by DN and attribute.
type FoundValues = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Returns the entries and values that a search should find.
fn expected_entries(rights: &Rights<'_>, base: &str, scope: Scope, filter: &Filter) -> FoundValues {
    let tree = rights.tree;
    let mut expected = FoundValues::new();
    for dn in tree.keys() {
        if in_scope(dn, base, scope) && rights.sees(dn) && filter.truth(rights, dn) == Some(true) {
            let made = ["memberOf", "isMemberOf", "entryDN"].map(str::to_owned);
            let read = tree[dn].keys().chain(&made).filter(|name| rights.may("read", dn, name));
            let values = read.map(|name| {
                (name.clone(), rights.values(dn, name, "read").into_iter().collect::<BTreeSet<_>>())
            });
            let mut values: BTreeMap<_, _> = values.filter(|(_, values)| !values.is_empty()).collect();
            if rights.may("read", dn, "numSubordinates") {
                let count = tree.keys().filter(|other| tree::parent(other) == dn).count();
                values.insert("numSubordinates".to_owned(), BTreeSet::from([count.to_string()]));
            }
            expected.insert(dn.clone(), values);
        }
    }
    expected
}

fn check_search(
    directory: &mut TestDirectory,
    rng: &mut Rng,
    rights: &Rights<'_>,
    texts: &[String],
) -> usize {
    let (requester, tree) = (rights.requester, rights.tree);
    let names: Vec<&String> = tree.keys().collect();
    let nobody = format!("uid=nobody,{}", names[rng.usize(..names.len())]);
    let base = match rng.u8(0..6) {
        0 => "",
        1 => &nobody,
        2 => names[rng.usize(..names.len())],
        _ => tree::SUFFIX,
    };
    let scope = SCOPES[if base.is_empty() { rng.usize(1..4) } else { rng.usize(..4) }];
    let filter = Filter::random(rng, 3);
    let case = SearchCase {
        base: base.to_owned(),
        scope,
        filter: filter.text(),
        attributes: vec!["*", "memberOf", "isMemberOf", "entryDN", "numSubordinates"],
        deref: ldap::DerefAliases::Never,
        size_limit: 0,
        sort: None,
    };
    directory.link = rights.link;
    let found = search(directory, &case, &RequestControls::default());
    let what = || format!("{case:?} as {requester:?} from {:?} under {texts:#?}", rights.link);
    let expected = expected_entries(rights, base, scope, &filter);
    // A search whose base is hidden succeeds only if it finds an entry below the base.
    let begins = base.is_empty() || (tree.contains_key(base) && (rights.sees(base) || !expected.is_empty()));
    if !begins {
        assert_eq!(found.code, ResultCode::NO_SUCH_OBJECT, "{}", what());
        assert_eq!(found.matched_dn, rights.nearest(base), "{}", what());
        assert_eq!(found.diagnostic, format!("{base:?} {HIDDEN_TEXT}"), "{}", what());
        return 0;
    }
    assert_eq!(found.code, ResultCode::SUCCESS, "{}: {}", found.diagnostic, what());
    let got: FoundValues = found
        .entries
        .iter()
        .map(|entry| {
            let values =
                entry.attributes.keys().map(|name| (name.clone(), entry.texts(name).into_iter().collect()));
            (entry.dn.clone(), values.collect())
        })
        .collect();
    assert_eq!(got, expected, "{}", what());
    let by = SORTED_BY[rng.usize(..SORTED_BY.len())];
    let in_order = SearchCase { sort: sort(by, rng.bool()), ..case.clone() };
    let sorted = search(directory, &in_order, &RequestControls::default());
    let dns = |found: &Found| found.entries.iter().map(|entry| entry.dn.clone()).collect::<Vec<_>>();
    assert_eq!(dns(&sorted), expected_order(&in_order, rights, dns(&found)), "{in_order:?}: {}", what());
    // A size limit counts only visible entries.
    let count = u32::try_from(expected.len()).unwrap();
    if count > 0 {
        let limited = SearchCase { size_limit: rng.u32(1..=count), ..case.clone() };
        let found = search(directory, &limited, &RequestControls::default());
        let code =
            if limited.size_limit < count { ResultCode::SIZE_LIMIT_EXCEEDED } else { ResultCode::SUCCESS };
        assert_eq!((found.code, found.entries.len()), (code, limited.size_limit as usize), "{}", what());
    }
    let paged = pairs::pages(directory, &case, rng.u32(1..4), rights.link);
    assert_eq!(
        paged.iter().map(|page| page.found.entries.len()).sum::<usize>(),
        expected.len(),
        "{}",
        what()
    );
    let paged = pairs::pages(directory, &in_order, rng.u32(1..4), rights.link);
    let paged: Vec<_> = paged.iter().flat_map(|page| dns(&page.found)).collect();
    assert_eq!(paged, dns(&sorted), "{in_order:?}: {}", what());
    expected.len()
}

/// Attributes that searches are sorted by.
const SORTED_BY: [&str; 6] = ["cn", "mail", "description", "uid", "telephoneNumber", "ou"];

fn sort(by: &str, reverse: bool) -> Option<SortOptions> {
    let key = RequestedSortKey { attribute: by.to_owned(), rule: None, reverse };
    Some(SortOptions { is_critical: true, keys: vec![key] })
}

/// Returns the DNs in the expected order: by the least value that the requester may read. Entries without a readable
/// value are last.
fn expected_order(case: &SearchCase, rights: &Rights<'_>, mut dns: Vec<String>) -> Vec<String> {
    let key = &case.sort.as_ref().unwrap().keys[0];
    let least = |dn: &String| {
        let values = match rights.may("read", dn, &key.attribute) {
            true => rights.values(dn, &key.attribute, "read"),
            false => Vec::new(),
        };
        let least = values.into_iter().map(|value| value.to_lowercase()).min();
        (least.is_none(), least)
    };
    if key.reverse {
        // The order of entries with equal values is reversed too.
        dns.reverse();
    }
    dns.sort_by(|a, b| {
        let order = least(a).cmp(&least(b));
        if key.reverse { order.reverse() } else { order }
    });
    dns
}

/// Changes a user's password with a modify. Returns true if the modify succeeded.
fn check_password(
    directory: &mut TestDirectory,
    rng: &mut Rng,
    rights: &Rights<'_>,
    texts: &[String],
) -> bool {
    let dn = user(rng.usize(..4));
    let mut changes = ChangesBuf::new();
    changes.push(ChangeOperation::Replace, "userPassword", ["{SSHA}x"]);
    let request = Request::Modify(ModifyRequest { object: &dn, changes: changes.as_changes() });
    let controls = RequestControls::default();
    directory.link = rights.link;
    let stamp = directory.stamp();
    let outcome = directory.execute_with(&request, &controls, &stamp);
    let expected = match (rights.requester, rights.sees(&dn), rights.may_change_password(&dn)) {
        ("", ..) => ResultCode::STRONGER_AUTH_REQUIRED,
        (_, false, _) => ResultCode::NO_SUCH_OBJECT,
        (_, _, false) => ResultCode::INSUFFICIENT_ACCESS_RIGHTS,
        (_, _, true) => ResultCode::SUCCESS,
    };
    let what = format!("{dn} as {:?} under {texts:#?}: {}", rights.requester, outcome.diagnostic);
    assert_eq!(outcome.code, expected, "{what}");
    outcome.code == ResultCode::SUCCESS
}

/// Changes values of an attribute, and checks and returns the result code. After a success, restores the values.
fn check_values(
    directory: &mut TestDirectory,
    rng: &mut Rng,
    rights: &Rights<'_>,
    (dn, attribute): (&str, &str),
    texts: &[String],
) -> ResultCode {
    let before: BTreeSet<String> = rights.tree[dn][attribute].iter().cloned().collect();
    let mut given = BTreeSet::new();
    for _ in 0..rng.usize(1..3) {
        let all = ["anna@example.com", "same for all", "+1", "+2", "other"];
        let value = match before.first() {
            Some(value) if rng.bool() => value.clone(),
            _ if attribute == "telephoneNumber" => all[rng.usize(2..4)].to_owned(),
            _ => all[rng.usize(..all.len())].to_owned(),
        };
        given.insert(value);
    }
    let operation = [ChangeOperation::Add, ChangeOperation::Delete, ChangeOperation::Replace][rng.usize(..3)];
    if operation != ChangeOperation::Add && rng.u8(0..4) == 0 {
        given.clear();
    }
    let names_all = operation != ChangeOperation::Replace && !given.is_empty();
    let after: BTreeSet<String> = match operation {
        ChangeOperation::Add => before.union(&given).cloned().collect(),
        ChangeOperation::Delete if given.is_empty() => BTreeSet::new(),
        ChangeOperation::Delete => before.difference(&given).cloned().collect(),
        _ => given.clone(),
    };
    let may = |right, value: &String| rights.may_value(right, dn, attribute, value);
    let stays = |value: &String| before.contains(value) && may("read", value);
    let is_allowed = match names_all {
        true => given.iter().all(|value| may("write", value)),
        // The requester needs the right to write all values that were removed, and all values that are present
        // afterwards. Only values that stay and that the requester may read are exempt.
        false => {
            before.difference(&after).all(|value| may("write", value))
                && after.iter().all(|value| may("write", value) || stays(value))
        }
    };
    let extent = rights.extent("write", dn, attribute);
    let expected = match extent {
        _ if rights.requester.is_empty() => ResultCode::STRONGER_AUTH_REQUIRED,
        _ if !rights.sees(dn) => ResultCode::NO_SUCH_OBJECT,
        Extent::Nothing => ResultCode::INSUFFICIENT_ACCESS_RIGHTS,
        Extent::Some if !is_allowed => ResultCode::INSUFFICIENT_ACCESS_RIGHTS,
        _ if operation == ChangeOperation::Add && !before.is_disjoint(&given) => {
            ResultCode::ATTRIBUTE_OR_VALUE_EXISTS
        }
        _ if operation == ChangeOperation::Delete && !given.is_subset(&before) => {
            ResultCode::NO_SUCH_ATTRIBUTE
        }
        _ => ResultCode::SUCCESS,
    };
    let change = |operation, values: &BTreeSet<String>| {
        let mut changes = ChangesBuf::new();
        changes.push(operation, attribute, values.iter());
        changes
    };
    let changes = change(operation, &given);
    let request = Request::Modify(ModifyRequest { object: dn, changes: changes.as_changes() });
    let controls = RequestControls::default();
    directory.link = rights.link;
    let stamp = directory.stamp();
    let outcome = directory.execute_with(&request, &controls, &stamp);
    assert_eq!(
        outcome.code, expected,
        "{operation:?} {attribute} {given:?} of {dn}, which has {before:?}, as {:?} under {texts:#?}: {}",
        rights.requester, outcome.diagnostic
    );
    if outcome.code == ResultCode::SUCCESS {
        directory.requester = Requester::Administrator { dn: "cn=admin".to_owned() };
        let changes = change(ChangeOperation::Replace, &before);
        let request = Request::Modify(ModifyRequest { object: dn, changes: changes.as_changes() });
        let stamp = directory.stamp();
        let outcome = directory.execute_with(&request, &RequestControls::default(), &stamp);
        assert_eq!(outcome.code, ResultCode::SUCCESS, "{}", outcome.diagnostic);
        directory.snapshot.renew().unwrap();
    }
    outcome.code
}

fn check_compare(directory: &TestDirectory, rng: &mut Rng, rights: &Rights<'_>, texts: &[String]) {
    let names: Vec<&String> = rights.tree.keys().collect();
    let dn = names[rng.usize(..names.len())];
    let all = ["cn", "mail", "description", "manager", "member", "memberOf", "isMemberOf", "title", "name"];
    let attribute = all[rng.usize(..all.len())];
    // A supertype covers its subtypes. The requester has separate rights to each subtype.
    let is_asked = |(name, _, above): &&(&str, _, &[&str])| *name == attribute || above.contains(&attribute);
    let names = rules::TYPES.iter().filter(is_asked).map(|(name, ..)| *name);
    let names = names.filter(|name| rights.may("compare", dn, name));
    let mut values: Vec<String> = names.flat_map(|name| rights.values(dn, name, "compare")).collect();
    // The members of a dynamic group are the entries that have this group among their groups.
    let is_dynamic = attribute == "member" && rights.extent("compare", dn, "memberURL") == Extent::All;
    let is_dynamic = is_dynamic && rights.tree[dn].contains_key("memberURL");
    if is_dynamic {
        let is_in = |of: &&String| rights.values(of, "memberOf", "compare").contains(dn);
        values.extend(rights.tree.keys().filter(is_in).cloned());
    }
    let value = match values.first() {
        Some(value) if rng.bool() => value.clone(),
        _ if ["manager", "member", "memberOf", "isMemberOf"].contains(&attribute) => {
            "cn=nobody,dc=example,dc=com".to_owned()
        }
        _ => "nothing".to_owned(),
    };
    let (code, matched_dn, diagnostic) = compared(directory, dn, attribute, &value, rights.link);
    let what =
        format!("{attribute}={value} of {dn} as {:?} under {texts:#?}: {diagnostic}", rights.requester);
    let expected = match (rights.sees(dn), rights.may("compare", dn, attribute)) {
        (false, _) => {
            assert_eq!(matched_dn, rights.nearest(dn), "{what}");
            assert_eq!(diagnostic, format!("{dn:?} {HIDDEN_TEXT}"), "{what}");
            ResultCode::NO_SUCH_OBJECT
        }
        (true, false) => {
            assert_eq!(diagnostic, format!("no access rule lets you compare {attribute}"), "{what}");
            ResultCode::INSUFFICIENT_ACCESS_RIGHTS
        }
        (true, true) if values.is_empty() && !is_dynamic => ResultCode::NO_SUCH_ATTRIBUTE,
        (true, true) if values.contains(&value) => ResultCode::COMPARE_TRUE,
        (true, true) => ResultCode::COMPARE_FALSE,
    };
    assert_eq!(code, expected, "{what}");
}
