//! Sorted results (RFC 2891): the results are in the order of the sort keys, in pages and as a whole, with every plan.

use ldap::{DecodeLimits, FilterBuf, MessageId, ResponseMessage, ResultCode, SortResult, oids};

use super::list_view::{offset, run, value, with_window};
use super::pages::{Page, crowd, dns, refused, user};
use super::{Attributes, Question, add, sample};
use crate::model::limits::{NAME_KEY_MAX, SORT_BYTES_MAX, SORT_VALUES_MAX};
use crate::model::settings::GeneralSettings;
use crate::read::controls::{RareControls, RequestControls, RequestedSortKey, SortOptions};
use crate::read::search::{Budget, Search, Step};
use crate::testing::{Found, SUFFIX, TestDirectory, received};

/// Returns controls with a sort request. Each key is a description with an optional prefix `-` for descending order,
/// and an optional rule after a colon.
pub(super) fn sort(keys: &[&str]) -> RequestControls {
    let keys = keys.iter().map(|key| {
        let (reverse, key) = key.strip_prefix('-').map_or((false, *key), |key| (true, key));
        let (attribute, rule) = key.split_once(':').map_or((key, None), |(key, rule)| (key, Some(rule)));
        RequestedSortKey { attribute: attribute.to_owned(), rule: rule.map(str::to_owned), reverse }
    });
    let sort = Some(SortOptions { is_critical: false, keys: keys.collect() });
    let seldom = Some(Box::new(RareControls { sort, ..RareControls::default() }));
    RequestControls { seldom, ..RequestControls::default() }
}

fn sorted<'a>(filter: &'a str, keys: &[&str]) -> Question<'a> {
    Question { controls: sort(keys), ..Question::everywhere(filter) }
}

fn make_critical(question: &mut Question<'_>) {
    question.controls.seldom.as_mut().and_then(|seldom| seldom.sort.as_mut()).unwrap().is_critical = true;
}

/// Returns the sort response of the last message.
fn sort_result(messages: &[u8]) -> Option<(ResultCode, Option<String>)> {
    let (mut last, mut rest) = (messages, messages);
    while let Some(length) = ldap::frame_len(rest).unwrap() {
        (last, rest) = rest.split_at(length);
    }
    let done = ResponseMessage::decode(last, &DecodeLimits::default()).unwrap();
    let control = done.controls.find(oids::SORT_RESPONSE)?;
    assert!(!control.critical);
    let result = SortResult::decode(control.value.unwrap()).unwrap();
    Some((result.code, result.attribute.map(str::to_owned)))
}

/// Returns a directory of people with values of many kinds. Some people have several values, some have none.
pub(super) fn mixed(rng: &mut fastrand::Rng, count: usize) -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    const WORDS: [&str; 8] = ["a", "B", "b c", "bc", "\u{e9}t\u{e9}", "A longer text", "z", "1"];
    for number in 0..count {
        let uid = format!("p{number}");
        let mut texts: Vec<(&str, Vec<String>)> = Vec::new();
        for name in ["description", "title", "givenName", "cn;lang-fr"] {
            let mut values: Vec<String> =
                (0..rng.usize(0..4)).map(|_| rng.choice(WORDS).unwrap().to_owned()).collect();
            values.sort_by_key(|value| value.to_lowercase());
            values.dedup_by_key(|value| value.to_lowercase());
            texts.push((name, values));
        }
        texts.push(("uidNumber", vec![rng.i32(-300..300).to_string()]));
        texts.push(("gidNumber", vec![rng.i32(0..3).to_string()]));
        let texts: Vec<(&str, Vec<&str>)> = texts
            .iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(name, values)| (*name, values.iter().map(String::as_str).collect()))
            .collect();
        let mut attributes: Vec<(&str, &[&str])> = vec![
            ("objectClass", &["inetOrgPerson", "posixAccount"]),
            ("cn", &["x"]),
            ("sn", &["x"]),
            ("homeDirectory", &["/"]),
        ];
        attributes.extend(texts.iter().map(|(name, values)| (*name, values.as_slice())));
        add(&mut directory, &format!("uid={uid},{SUFFIX}"), &attributes);
    }
    directory
}

/// Returns the least value of an entry as a comparable key. The key of an entry without a value is greater than all
/// others.
pub(super) fn least(entry: &crate::testing::Entry, attribute: &str) -> (bool, i64, String) {
    let values = entry.texts(attribute).into_iter().map(|value| match value.parse() {
        Ok(number) if attribute.ends_with("Number") => (false, number, String::new()),
        _ => (false, 0, value.to_lowercase()),
    });
    values.min().unwrap_or((true, 0, String::new()))
}

/// Returns the expected results: the results of the plain search, sorted.
pub(super) fn expected(plain: &Found, keys: &[&str]) -> Vec<String> {
    let mut entries: Vec<_> = plain.entries.iter().collect();
    if keys[0].starts_with('-') {
        entries.reverse();
    }
    entries.sort_by(|a, b| {
        let by = keys.iter().map(|key| {
            let name = key.trim_start_matches('-');
            let order = least(a, name).cmp(&least(b, name));
            if key.starts_with('-') { order.reverse() } else { order }
        });
        by.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    });
    entries.into_iter().map(|entry| entry.dn.clone()).collect()
}

#[test]
fn results_are_in_the_order_of_the_sort_keys() {
    const KEYS: [&[&str]; 9] = [
        &["uidNumber"],
        &["-uidNumber"],
        &["description"],
        &["-description"],
        &["gidNumber", "uidNumber"],
        &["-gidNumber", "title", "-givenName"],
        &["cn;lang-fr", "-title"],
        &["gidNumber"],
        &["entryUUID"],
    ];
    const FILTERS: [&str; 4] =
        ["(objectClass=person)", "(uidNumber>=0)", "(description=*)", "(&(uid=p*)(!(title=z)))"];
    for seed in 0..4 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut directory = mixed(&mut rng, 50);
        for keys in KEYS {
            for filter in FILTERS {
                let about = format!("{filter} by {keys:?}, seed {seed}");
                let plain = Question::everywhere(filter).attributes(&["*", "+"]).run(&directory);
                let question = sorted(filter, keys);
                let whole = expected(&plain, keys);
                assert_eq!(question.run(&directory).dns(), whole, "{about}");
                assert_eq!(
                    sort_result(&question.answer(&directory, false).unwrap()),
                    (!whole.is_empty()).then_some((ResultCode::SUCCESS, None)),
                    "{about}"
                );
                let size = rng.u32(1..12);
                let pages = question.pages(&mut directory, size, rng.bool());
                assert_eq!(dns(&pages), whole, "{about} in pages of {size}");
                let full = &pages[..pages.len() - 1];
                assert!(full.iter().all(|page| page.found.entries.len() == size as usize), "{about}");
                // With a size limit, the search returns the first of all results.
                let size_limit = rng.u32(1..20);
                let limited = Question { size_limit, ..sorted(filter, keys) }.run(&directory);
                let count = whole.len().min(size_limit as usize);
                assert_eq!(limited.dns(), whole[..count], "{about}, limit {size_limit}");
                let is_cut = whole.len() > count;
                assert_eq!(limited.code == ResultCode::SIZE_LIMIT_EXCEEDED, is_cut, "{about}");
                if size_limit > size {
                    let limited = Question { size_limit, ..sorted(filter, keys) };
                    let pages = limited.pages(&mut directory, size, false);
                    let found: Vec<_> = pages.iter().flat_map(|page| page.found.dns()).collect();
                    assert_eq!(found, whole[..count], "{about}, limit {size_limit} in pages of {size}");
                }
            }
        }
    }
}

#[test]
fn the_matching_rule_of_the_request_determines_the_order() {
    let mut directory = TestDirectory::with_suffix_entry();
    for (uid, name) in [("1", "b"), ("2", "A"), ("3", "a"), ("4", "B")] {
        let attributes: Attributes<'_> =
            &[("objectClass", &["inetOrgPerson"]), ("cn", &["x"]), ("sn", &["x"]), ("title", &[name])];
        add(&mut directory, &format!("uid={uid},{SUFFIX}"), attributes);
    }
    let order = |key: &str| {
        let found = sorted("(uid=*)", &[key]).run(&directory);
        found.dns().iter().map(|dn| dn[4..5].to_owned()).collect::<String>()
    };
    assert_eq!(order("title"), "2314");
    for rule in ["caseExactOrderingMatch", "2.5.13.6", "caseExactMatch", "caseexactorderingmatch"] {
        assert_eq!(order(&format!("title:{rule}")), "2431", "{rule}");
        assert_eq!(order(&format!("-title:{rule}")), "1342", "{rule}");
    }
}

#[test]
fn unsortable_results_are_returned_unsorted_or_refused() {
    let directory = sample();
    let filter = "(objectClass=person)";
    let plain = Question::everywhere(filter).run(&directory);
    let nine: Vec<String> = (0..9).map(|number| format!("cn;x-{number}")).collect();
    let nine: Vec<&str> = nine.iter().map(String::as_str).collect();
    let cases: [(&[&str], ResultCode, Option<&str>); 9] = [
        (&["nonsense"], ResultCode::NO_SUCH_ATTRIBUTE, Some("nonsense")),
        (&["cn", "-nonsense", "more"], ResultCode::NO_SUCH_ATTRIBUTE, Some("nonsense")),
        (&["no good name"], ResultCode::NO_SUCH_ATTRIBUTE, Some("no good name")),
        (&["cn:integerOrderingMatch"], ResultCode::INAPPROPRIATE_MATCHING, Some("cn")),
        (&["cn:nonsense"], ResultCode::INAPPROPRIATE_MATCHING, Some("cn")),
        (&["cn:caseIgnoreSubstringsMatch"], ResultCode::INAPPROPRIATE_MATCHING, Some("cn")),
        // DNs have no ordering rule.
        (&["manager"], ResultCode::INAPPROPRIATE_MATCHING, Some("manager")),
        (&["cn", "-2.5.4.3"], ResultCode::UNWILLING_TO_PERFORM, Some("2.5.4.3")),
        (&nine, ResultCode::UNWILLING_TO_PERFORM, None),
    ];
    for (keys, code, attribute) in cases {
        let mut question = sorted(filter, keys);
        let expected_response = Some((code, attribute.map(str::to_owned)));
        let messages = question.answer(&directory, false).unwrap();
        assert_eq!(sort_result(&messages), expected_response, "{keys:?}");
        assert_eq!(received(&messages).dns(), plain.dns(), "{keys:?}");
        // With a critical control, the search fails (RFC 2891 section 2, scenario 3).
        make_critical(&mut question);
        let messages = question.answer(&directory, false).unwrap();
        assert_eq!(sort_result(&messages), expected_response, "{keys:?}");
        let found = received(&messages);
        assert_eq!((found.code, found.entries.len()), (ResultCode::UNAVAILABLE_CRITICAL_EXTENSION, 0));
        assert!(found.diagnostic.contains("server-side sorting"), "{}", found.diagnostic);
    }
    // Virtual entries are few, and are returned unsorted.
    let outside = Question { base: "cn=config", ..sorted("(objectClass=*)", &["cn"]) };
    let messages = outside.answer(&directory, false).unwrap();
    assert_eq!(sort_result(&messages), Some((ResultCode::UNWILLING_TO_PERFORM, None)));
    assert!(received(&messages).entries.len() > 5);
    // A search without results, or a search that fails, has no sort response.
    assert_eq!(sort_result(&sorted("(sn=nobody)", &["cn"]).answer(&directory, false).unwrap()), None);
    let nowhere = Question { base: "ou=nowhere,dc=example,dc=com", ..sorted(filter, &["cn"]) };
    assert_eq!(nowhere.run(&directory).code, ResultCode::NO_SUCH_OBJECT);
}

#[test]
fn only_the_administrator_sorts_by_a_password() {
    let mut directory = sample();
    directory.requester = user();
    let question = sorted("(objectClass=person)", &["userPassword"]);
    let response = sort_result(&question.answer(&directory, false).unwrap());
    assert_eq!(response, Some((ResultCode::NO_SUCH_ATTRIBUTE, Some("userPassword".to_owned()))));
}

#[test]
fn a_cookie_is_valid_only_for_its_sort_keys() {
    let mut directory = crowd(GeneralSettings::default(), 30);
    let filter = "(objectClass=person)";
    let question = sorted(filter, &["sn", "-cn"]);
    let first = question.page(&directory, 5, b"", false);
    let second = question.page(&directory, 5, &first.cookie, false);
    assert!(dns(&[second]).len() == 5 && first.cookie.len() > 33);
    for keys in
        [&["sn"][..], &["sn", "cn"], &["-cn", "sn"], &["sn", "-cn", "description"], &["sn", "-cn:2.5.13.3"]]
    {
        refused(&sorted(filter, keys).page(&directory, 5, &first.cookie, false), &format!("{keys:?}"));
    }
    refused(&Question::everywhere(filter).page(&directory, 5, &first.cookie, false), "not sorted");
    let unsorted = Question::everywhere(filter).page(&directory, 5, b"", false);
    refused(&question.page(&directory, 5, &unsorted.cookie, false), "the cookie of another search");
    for bit in 0..first.cookie.len() * 8 {
        let mut cookie = first.cookie.clone();
        cookie[bit / 8] ^= 1 << (bit % 8);
        refused(&question.page(&directory, 5, &cookie, false), "bit of the cookie");
    }
    for length in [1, 16, 24, 34, first.cookie.len() - 1] {
        refused(&question.page(&directory, 5, &first.cookie[..length], false), "length of the cookie");
    }
    let end = question.page(&directory, 0, &first.cookie, false);
    assert_eq!((end.found.code, end.found.entries.len(), end.cookie.len()), (ResultCode::SUCCESS, 0, 0));
    directory.requester = user();
    refused(&question.page(&directory, 5, &first.cookie, false), "another identity");
}

#[test]
fn entries_with_unchanged_keys_are_on_exactly_one_page() {
    use ldap::ChangeOperation::Replace;
    for seed in 0..4 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut directory = crowd(GeneralSettings::default(), 60);
        let question = sorted("(objectClass=person)", &["sn", "-cn"]);
        let stays = |dn: &&str| {
            dn.strip_prefix("uid=p")
                .and_then(|dn| dn.split(',').next()?.parse().ok())
                .is_some_and(|n: usize| n < 20)
        };
        let expected: Vec<String> =
            question.run(&directory).dns().into_iter().filter(stays).map(str::to_owned).collect();
        let pages = question.pages_with(&mut directory, (rng.u32(1..9), rng.bool()), |directory| {
            for _ in 0..rng.usize(0..4) {
                let number = rng.usize(20..60);
                let dn = format!("uid=p{number},ou={},{SUFFIX}", number % 4);
                match rng.u8(0..3) {
                    0 => drop(directory.delete(&dn)),
                    1 => drop(directory.modify(&dn, &[(Replace, "sn", &["zz"])])),
                    _ => drop(directory.modify(&dn, &[(Replace, "cn", &["Person 0000"])])),
                }
            }
        });
        let found: Vec<&str> = dns(&pages).into_iter().filter(stays).collect();
        assert_eq!(found, expected, "seed {seed}");
    }
}

/// Runs slices until results are about to be sent, makes a change, then runs the rest.
fn with_change(size_limit: u32, change: impl FnOnce(&mut TestDirectory)) -> Found {
    let mut directory = sample();
    let filter = FilterBuf::parse("(objectClass=person)").unwrap();
    let selection = ldap::SelectionBuf::from_iter(["1.1"]);
    let request = ldap::SearchRequest {
        size_limit,
        ..ldap::SearchRequest::new(
            SUFFIX,
            ldap::Scope::WholeSubtree,
            filter.as_filter(),
            selection.as_selection(),
        )
    };
    let controls = sort(&["-uid"]);
    let started =
        Search::start(&directory.snapshot, &directory.requester.context(), MessageId(1), &request, &controls);
    let mut search = started.unwrap_or_else(|outcome| panic!("{outcome:?}"));
    let budget = Budget { entries_examined_max: 1, out_bytes_max: 1 << 20 };
    let mut out = Vec::new();
    while out.is_empty() {
        assert_eq!(search.run(&directory.snapshot, &mut out, &budget), Step::More);
        assert!(search.candidates_left().is_none() && search.split().is_none());
        assert!(search.memory_bytes() > 0);
    }
    change(&mut directory);
    while search.run(&directory.snapshot, &mut out, &budget) == Step::More {}
    // Each entry is counted once, however often it was examined.
    assert_eq!(search.entries_examined(), 4);
    received(&out)
}

#[test]
fn an_entry_that_changes_before_it_is_sent_is_evaluated_again() {
    let (ada, bob) = ("uid=ada,ou=people,dc=example,dc=com", "uid=bob,ou=people,dc=example,dc=com");
    let dora = "cn=Dora+sn=Lang,ou=people,dc=example,dc=com";
    let carl = "uid=carl,ou=people,dc=example,dc=com";
    assert_eq!(with_change(0, |_| {}).dns(), [dora, carl, bob, ada]);
    let deleted = with_change(0, |directory| assert!(directory.delete(bob).code == ResultCode::SUCCESS));
    assert_eq!((deleted.code, deleted.dns()), (ResultCode::SUCCESS, vec![dora, carl, ada]));
    let renamed = with_change(0, |directory| {
        assert!(directory.modify_dn(bob, "uid=robert", false, None).code == ResultCode::SUCCESS);
    });
    assert_eq!(renamed.dns(), [dora, carl, "uid=robert,ou=people,dc=example,dc=com", ada]);
    // No other entry takes the place of a deleted result, although more entries match.
    let cut = with_change(3, |directory| assert!(directory.delete(bob).code == ResultCode::SUCCESS));
    assert_eq!((cut.code, cut.dns()), (ResultCode::SIZE_LIMIT_EXCEEDED, vec![dora, carl]));
}

#[test]
fn a_sort_beyond_its_memory_limit_is_left_unsorted_or_refused() {
    let long = "x".repeat(400);
    let mut directory = TestDirectory::with_suffix_entry();
    let count = SORT_BYTES_MAX / 400 + 20;
    for number in 0..count {
        let name = format!("{long} {:04}", count - number);
        let attributes: Attributes<'_> =
            &[("objectClass", &["inetOrgPerson"]), ("cn", &[&name]), ("sn", &["x"])];
        add(&mut directory, &format!("uid={number},{SUFFIX}"), attributes);
    }
    let filter = "(objectClass=person)";
    let mut question = sorted(filter, &["cn"]);
    let plain = Question::everywhere(filter).run(&directory);
    let messages = question.answer(&directory, false).unwrap();
    assert_eq!(sort_result(&messages), Some((ResultCode::ADMIN_LIMIT_EXCEEDED, None)));
    assert_eq!(received(&messages).dns(), plain.dns());
    // Pages of `count` - 1 entries are not sorted either.
    let pages = question.pages(&mut directory, count as u32 - 1, false);
    assert_eq!(dns(&pages), plain.dns());
    // Smaller pages need less memory, so they are sorted.
    let mut turned = plain.dns();
    turned.reverse();
    let pages: Vec<Page> = question.pages(&mut directory, 50, false);
    assert_eq!(dns(&pages), turned);
    // A list view request for the beginning of the list, its end or a typed prefix keeps only the keys that are sent.
    // A request for an offset in the middle keeps more keys.
    let typed = format!("{long} {:04}", count - 2);
    for (window, position) in
        [(offset(0, 2, 1, 0), 1), (offset(2, 0, 9, 9), count), (value(1, 1, &typed), count - 2)]
    {
        let (found, view) = run(&directory, filter, with_window(&["cn"], window));
        let view = view.unwrap();
        assert_eq!((view.position as usize, view.count as usize), (position, count));
        let start = (position - 1).min(count - 3);
        let start = if position == count - 2 { position - 2 } else { start };
        assert_eq!(found.dns(), turned[start..start + 3]);
    }
    let (found, view) = run(&directory, filter, with_window(&["cn"], offset(0, 2, 5, 9)));
    assert_eq!(
        (found.code, view.unwrap().code),
        (ResultCode::VIRTUAL_LIST_VIEW_ERROR, ResultCode::ADMIN_LIMIT_EXCEEDED)
    );
    make_critical(&mut question);
    let messages = question.answer(&directory, false).unwrap();
    assert_eq!(sort_result(&messages), Some((ResultCode::ADMIN_LIMIT_EXCEEDED, None)));
    let found = received(&messages);
    assert_eq!((found.code, found.entries.len()), (ResultCode::UNAVAILABLE_CRITICAL_EXTENSION, 0));
}

#[test]
fn a_sort_obeys_the_limit_on_candidates() {
    let settings =
        GeneralSettings { unindexed_examined_max: 20, size_limit: 5, ..GeneralSettings::default() };
    let mut directory = crowd(settings, 60);
    directory.requester = user();
    for (filter, code) in [
        // The filters find 20 and 30 entries; at most 20 may be examined.
        ("(sn=third)", ResultCode::SUCCESS),
        ("(|(cn=person 003*)(cn=person 004*)(cn=person 005*))", ResultCode::ADMIN_LIMIT_EXCEEDED),
    ] {
        let question = sorted(filter, &["-cn"]);
        let messages = question.answer(&directory, false).unwrap();
        assert_eq!(sort_result(&messages), Some((code, None)), "{filter}");
        let (found, plain) = (received(&messages), Question::everywhere(filter).run_once(&directory, false));
        assert_eq!((found.code, found.entries.len()), (ResultCode::SIZE_LIMIT_EXCEEDED, 5), "{filter}");
        assert_eq!(found.dns() == plain.dns(), code != ResultCode::SUCCESS, "{filter}");
        // Pages of any size give the same result.
        let page = question.page(&directory, 2, b"", false);
        assert_eq!(page.found.dns() == plain.dns()[..2], code != ResultCode::SUCCESS, "{filter}");
    }
}

/// Regression test: an entry with many values was sorted by the least of its first thousand values, and the search
/// reported success. If the rows of the values are in sort order, the least value is found at once. Otherwise the
/// search is not sorted and reports this.
#[test]
fn many_values_sort_by_the_least_value_or_the_search_is_unsorted() {
    let mut directory = TestDirectory::with_suffix_entry();
    let long = "q".repeat(NAME_KEY_MAX);
    let entries =
        [("many", 5, 3 * SORT_VALUES_MAX), ("first", 2, 1), ("last", 9, 2), ("long", 7, SORT_VALUES_MAX)];
    for (name, least, count) in entries {
        let mut values: Vec<String> = (0..count).map(|number| format!("{least} {number:05}")).collect();
        if name == "long" {
            // The rows of long values are ordered by hash, not by value.
            values = (0..count).map(|number| format!("7 {long}{number}")).collect();
        }
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let attributes = [("objectClass", &["device"][..]), ("description", &values)];
        add(&mut directory, &format!("cn={name},{SUFFIX}"), &attributes);
    }
    let question = sorted("(description=*)", &["description"]);
    let messages = question.answer(&directory, false).unwrap();
    assert_eq!(sort_result(&messages), Some((ResultCode::SUCCESS, None)));
    let names = ["first", "many", "long", "last"].map(|name| format!("cn={name},{SUFFIX}"));
    assert_eq!(received(&messages).dns(), names);

    let mut question = sorted("(description=*)", &["description:caseExactOrderingMatch"]);
    let messages = question.answer(&directory, false).unwrap();
    assert_eq!(sort_result(&messages), Some((ResultCode::ADMIN_LIMIT_EXCEEDED, None)));
    assert_eq!(
        received(&messages).dns(),
        ["many", "first", "last", "long"].map(|name| format!("cn={name},{SUFFIX}"))
    );
    make_critical(&mut question);
    let refused = question.run(&directory);
    assert_eq!((refused.code, refused.entries.len()), (ResultCode::UNAVAILABLE_CRITICAL_EXTENSION, 0));
    assert!(refused.diagnostic.contains("more than 100 values"), "{}", refused.diagnostic);
}

#[test]
fn values_with_a_long_common_prefix_sort_by_entry_id() {
    let mut directory = TestDirectory::with_suffix_entry();
    for (uid, end) in [("1", "b"), ("2", "a"), ("3", "c")] {
        let name = format!("{}{end}", "x".repeat(600));
        let attributes: Attributes<'_> =
            &[("objectClass", &["inetOrgPerson"]), ("cn", &["x"]), ("sn", &["x"]), ("title", &[&name])];
        add(&mut directory, &format!("uid={uid},{SUFFIX}"), attributes);
    }
    let found = sorted("(uid=*)", &["title"]).run(&directory);
    assert_eq!(found.dns().iter().map(|dn| &dn[4..5]).collect::<String>(), "123");
}
