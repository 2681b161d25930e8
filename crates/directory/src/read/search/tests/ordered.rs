//! Results from sort orders equal sorted results, in pages and in parts of lists, whatever changes in between.

use fastrand::Rng;
use ldap::{ChangeOperation, ListViewResult, ResultCode, Scope};

use super::list_view::{offset, run, value, with_window};
use super::pages::dns;
use super::sorted::{expected, sort};
use super::{Question, add};
use crate::access::Requester;
use crate::maintenance::check::check;
use crate::model::settings::GeneralSettings;
use crate::read::controls::RequestControls;
use crate::read::search::{CandidateSource, Step};
use crate::testing::{Found, SUFFIX, TestDirectory, ok};

const PEOPLE: &str = "ou=people,dc=example,dc=com";
const WORDS: [&str; 7] = ["a", "B", "b c", "bc", "\u{e9}t\u{e9}", "z", "1"];

const ORDERS: [&str; 4] = [
    "names: sn, givenName in 'ou=people,dc=example,dc=com' matching '(objectClass=person)'",
    "all names: sn, givenName",
    "descriptions: description matching '(&(objectClass=person)(description=*))'",
    "initials: initials in 'ou=people,dc=example,dc=com'",
];

fn settings() -> GeneralSettings {
    let sort_orders = ORDERS.map(str::to_owned).to_vec();
    GeneralSettings { sort_orders, keep_deleted_seconds: 1_000_000_000, ..GeneralSettings::default() }
}

fn directory() -> TestDirectory {
    let mut directory = TestDirectory::with_settings(settings());
    add(&mut directory, SUFFIX, &[("objectClass", &["domain"]), ("dc", &["example"])]);
    for unit in ["people", "others"] {
        let attributes: &[(&str, &[&str])] = &[("objectClass", &["organizationalUnit"]), ("ou", &[unit])];
        add(&mut directory, &format!("ou={unit},{SUFFIX}"), attributes);
    }
    directory
}

fn word(rng: &mut Rng) -> &'static str {
    WORDS[rng.usize(0..WORDS.len())]
}

fn add_person(directory: &mut TestDirectory, rng: &mut Rng, number: u32, parent: &str) {
    let (sn, given, description) = (word(rng), word(rng), [word(rng), "another text"]);
    let number_text = rng.u32(0..50).to_string();
    let mut attributes: Vec<(&str, &[&str])> = vec![("objectClass", &["inetOrgPerson"]), ("cn", &["x"])];
    let (sn, given, number_text) = ([sn], [given], [number_text.as_str()]);
    attributes.push(("sn", &sn));
    if rng.bool() {
        attributes.push(("givenName", &given));
    }
    if rng.bool() {
        attributes.push(("description", &description[..rng.usize(1..=2)]));
    }
    if rng.bool() {
        attributes.push(("initials", &number_text));
    }
    ok(directory.add(&format!("uid=p{number},{parent}"), &attributes));
}

/// Returns the DN of a random entry that matches a filter.
fn any(directory: &mut TestDirectory, rng: &mut Rng, filter: &str) -> Option<String> {
    let found = directory.search(SUFFIX, Scope::WholeSubtree, filter, &["1.1"]).entries;
    (!found.is_empty()).then(|| found[rng.usize(0..found.len())].dn.clone())
}

/// Makes a random change, which may be refused.
fn change(directory: &mut TestDirectory, rng: &mut Rng, number: u32) {
    let person = any(directory, rng, "(uid=*)");
    let unit = any(directory, rng, "(ou=*)").unwrap_or_else(|| SUFFIX.to_owned());
    let kind = rng.u32(0..14);
    let Some(person) = person.filter(|_| kind > 3) else {
        return add_person(directory, rng, number, &unit);
    };
    let word = word(rng);
    let outcome = match kind {
        4..=6 => {
            let name = ["sn", "givenName", "description", "initials", "title"][rng.usize(0..5)];
            let values: &[&str] = if name == "sn" || rng.bool() { &[word] } else { &[] };
            directory.modify(&person, &[(ChangeOperation::Replace, name, values)])
        }
        7 => directory.delete(&person),
        8 => directory.modify_dn(&person, &format!("uid=p{number}"), true, Some(&unit)),
        // Moves a tree. If the moved unit is the base of a sort order, it loses or regains the DN that the setting
        // names.
        9 => {
            let name = ["people", "others", "away"][rng.usize(0..3)];
            let units = directory.search(SUFFIX, Scope::WholeSubtree, "(ou=*)", &["1.1"]).entries;
            let below = units[rng.usize(0..units.len())].dn.clone();
            let below = if rng.bool() { SUFFIX.to_owned() } else { below };
            directory.modify_dn(&unit, &format!("ou={name}"), true, Some(&below))
        }
        10 => {
            let name = if rng.bool() { format!("ou=people,{unit}") } else { PEOPLE.to_owned() };
            let leaf = name.split(['=', ',']).nth(1).unwrap().to_owned();
            directory.add(&name, &[("objectClass", &["organizationalUnit"]), ("ou", &[&leaf])])
        }
        11 if rng.u32(0..6) == 0 => directory.delete_tree(&unit),
        12 => {
            let _ = directory.undelete(&unit, None);
            let _ = directory.undelete(&person, None);
            let _ = directory.undelete(PEOPLE, None);
            return;
        }
        _ => directory.modify(&person, &[(ChangeOperation::Add, "description", &[word])]),
    };
    drop(outcome);
}

/// A sorted search. `is_exact` states whether parts of its list come from a sort order.
struct SortedView {
    base: &'static str,
    scope: Scope,
    filter: &'static str,
    keys: &'static [&'static str],
    is_exact: bool,
}

const VIEWS: [SortedView; 9] = [
    SortedView::new(PEOPLE, Scope::WholeSubtree, "(objectClass=person)", &["sn", "givenName"], true),
    SortedView::new(PEOPLE, Scope::Subordinate, "(objectClass=person)", &["-sn", "-givenName"], true),
    SortedView::new(SUFFIX, Scope::WholeSubtree, "(objectClass=*)", &["sn", "givenName"], true),
    SortedView::new(SUFFIX, Scope::WholeSubtree, "(sn=b*)", &["-sn", "-givenName"], false),
    SortedView::new(
        SUFFIX,
        Scope::WholeSubtree,
        "(&(description=*)(objectClass=person))",
        &["description"],
        true,
    ),
    SortedView::new(
        SUFFIX,
        Scope::WholeSubtree,
        "(&(description=*)(objectClass=person))",
        &["-description"],
        true,
    ),
    SortedView::new(PEOPLE, Scope::WholeSubtree, "(objectClass=*)", &["-initials"], true),
    SortedView::new(PEOPLE, Scope::SingleLevel, "(!(sn=a))", &["initials"], false),
    SortedView::new(SUFFIX, Scope::WholeSubtree, "(objectClass=person)", &["sn", "-givenName"], false),
];

impl SortedView {
    const fn new(
        base: &'static str,
        scope: Scope,
        filter: &'static str,
        keys: &'static [&'static str],
        is_exact: bool,
    ) -> SortedView {
        SortedView { base, scope, filter, keys, is_exact }
    }

    fn question(&self, controls: RequestControls) -> Question<'static> {
        Question { controls, ..Question::new(self.base, self.scope, self.filter) }
    }

    /// Returns the results in order, by a plain search.
    fn expected(&self, directory: &TestDirectory) -> (Found, Vec<String>) {
        let question = self.question(RequestControls::default()).attributes(&["*", "+"]);
        let plain = question.run_once(directory, true);
        let whole = expected(&plain, self.keys);
        (plain, whole)
    }

    fn compare(&self, directory: &mut TestDirectory, rng: &mut Rng) {
        let (plain, whole) = self.expected(directory);
        let about = format!("{} below {} by {:?}", self.filter, self.base, self.keys);
        let found = self.question(sort(self.keys)).run_once(directory, false);
        assert_eq!(
            (found.code, found.dns()),
            (plain.code, whole.iter().map(String::as_str).collect()),
            "{about}"
        );
        if plain.code != ResultCode::SUCCESS {
            return;
        }
        let size = rng.u32(1..9);
        let pages = self.question(sort(self.keys)).pages(directory, size, false);
        assert_eq!(dns(&pages), whole, "{about} in pages of {size}");
        let limit = rng.u32(1..9);
        let limited = Question { size_limit: limit, ..self.question(sort(self.keys)) };
        let limited = limited.run_once(directory, false);
        assert_eq!(limited.dns(), whole[..whole.len().min(limit as usize)], "{about}, limit {limit}");
        let is_cut = whole.len() > limit as usize;
        assert_eq!(limited.code == ResultCode::SIZE_LIMIT_EXCEEDED, is_cut, "{about}, limit {limit}");
        self.compare_parts(directory, rng, &whole);
    }

    fn compare_parts(&self, directory: &TestDirectory, rng: &mut Rng, whole: &[String]) {
        let count = whole.len() as u32;
        let (before, after) = (rng.u32(0..5), rng.u32(0..5));
        let place = rng.u32(1..=count.max(1));
        let by_value = value(before, after, word(rng));
        for window in
            [offset(before, after, place, 0), offset(before, after, place, count.max(place)), by_value]
        {
            let about = format!("{window:?} of {} by {:?}", self.filter, self.keys);
            let sorted = Question {
                controls: with_window(self.keys, window.clone()),
                ..self.question(sort(self.keys))
            };
            let messages = sorted.answer(directory, false).unwrap();
            let by_order = crate::testing::received(&messages);
            let view = super::list_view::response(&messages);
            // Runs the same search with an equivalent filter for which no sort order can be chosen.
            let other = format!("(&{}(|(objectClass=*)(objectClass=person)(!(sn=nobody))))", self.filter);
            let other = Question { filter: &other, ..sorted };
            let messages = other.answer(directory, true).unwrap();
            let by_sorting = crate::testing::received(&messages);
            assert_eq!(by_order, by_sorting, "{about}");
            assert_eq!(view, super::list_view::response(&messages), "{about}");
            assert_eq!(view.unwrap().count, count, "{about}");
        }
        if self.is_exact {
            let question = self.question(with_window(self.keys, offset(1, 1, 2, 0)));
            assert_eq!(
                source(directory, &question),
                CandidateSource::Order,
                "{} {:?}",
                self.filter,
                self.keys
            );
        }
    }
}

fn source(directory: &TestDirectory, question: &Question<'_>) -> CandidateSource {
    question.start(directory).explanation(&directory.snapshot).unwrap().unwrap().source
}

fn assert_sound(directory: &TestDirectory) {
    assert_eq!(check(&directory.snapshot).unwrap(), Vec::<String>::new());
}

#[test]
fn sort_orders_agree_with_sorting_after_random_changes() {
    for seed in 0..4 {
        let mut rng = Rng::with_seed(seed);
        let mut directory = directory();
        for round in 0..40 {
            for number in 0..rng.u32(1..12) {
                change(&mut directory, &mut rng, round * 100 + number);
                if rng.u32(0..8) == 0 {
                    directory.run_index_slice(3);
                }
            }
            match rng.u32(0..10) {
                0 => directory = directory.reopen(),
                // A sort order is removed from the settings and, after a change of the directory, added again.
                1 => {
                    let lost = rng.usize(0..ORDERS.len());
                    directory.change_settings(|settings| drop(settings.general.sort_orders.remove(lost)));
                    directory.run_index_slice(3);
                    change(&mut directory, &mut rng, round * 100 + 50);
                    directory.change_settings(|settings| settings.general = super::ordered::settings());
                }
                _ => {}
            }
            // While orders are being built, no results come from them.
            let view = &VIEWS[rng.usize(0..VIEWS.len())];
            SortedView { is_exact: false, ..*view }.compare(&mut directory, &mut rng);
            directory.finish_indexes();
            assert_sound(&directory);
            VIEWS.iter().for_each(|view| {
                let is_there = view.expected(&directory).0.code == ResultCode::SUCCESS;
                SortedView { is_exact: view.is_exact && is_there, ..*view }.compare(&mut directory, &mut rng);
            });
        }
    }
}

fn crowd(rules: &[&str]) -> TestDirectory {
    let mut directory = directory();
    let mut rng = Rng::with_seed(9);
    for number in 0..60 {
        let parent = if number % 10 == 9 { format!("ou=others,{SUFFIX}") } else { PEOPLE.to_owned() };
        add_person(&mut directory, &mut rng, number, &parent);
    }
    directory.change_settings(|settings| {
        settings.general.access_rules = rules.iter().map(|rule| (*rule).to_owned()).collect();
    });
    let dn = format!("uid=p7,{PEOPLE}");
    let found = crate::read::identity::identify(&directory.snapshot, &format!("dn:{dn}")).unwrap().unwrap();
    assert!(matches!(found.requester, Requester::User { .. }));
    directory.requester = found.requester;
    directory
}

/// The answer depends only on the entries that the requester may see, and on the values that it may read.
#[test]
fn orders_reveal_nothing_that_rules_hide() {
    const WHOLE: &str = "all: allow read to authenticated";
    const OWN: &str = "own: allow write of userPassword to self";
    let in_people = "people: allow read in 'ou=people,dc=example,dc=com' to authenticated";
    let cases: [(&[&str], bool, bool); 9] = [
        (&[], true, true),
        (&[WHOLE, OWN], true, true),
        (&[in_people, OWN], true, true),
        (&[WHOLE, "no: deny browse matching '(sn=a)' to authenticated"], true, false),
        (&[WHOLE, "no: deny read of sn matching '(givenName=*)' to authenticated"], false, false),
        (&[WHOLE, "no: deny read of givenName to authenticated"], false, false),
        (&[WHOLE, "no: deny read of sn values matching '(sn=a)' to authenticated"], false, false),
        (&["some: allow read of cn, uid to authenticated", "own: allow read to self"], false, false),
        (&["some: allow read matching '(description=*)' to authenticated"], true, false),
    ];
    let mut rng = Rng::with_seed(3);
    for (rules, walks, is_exact) in cases {
        let mut directory = crowd(rules);
        for view in &VIEWS {
            let view = SortedView { is_exact: false, ..*view };
            view.compare(&mut directory, &mut rng);
        }
        let view = &VIEWS[0];
        let first = Question { size_limit: 2, ..view.question(sort(view.keys)) };
        assert_eq!(source(&directory, &first) == CandidateSource::Order, walks, "{rules:?}");
        let part = view.question(with_window(view.keys, offset(1, 1, 9, 0)));
        assert_eq!(source(&directory, &part) == CandidateSource::Order, is_exact, "{rules:?}");
    }
}

/// The first results of a large order are found without examining the rest. This also holds for users, whose limits do
/// not permit sorting that many entries.
#[test]
fn list_parts_and_pages_examine_few_entries() {
    let mut directory = crowd(&[]);
    directory.change_settings(|settings| settings.general.unindexed_examined_max = 20);
    for (view, controls) in [
        (&VIEWS[0], sort(VIEWS[0].keys)),
        (&VIEWS[1], with_window(VIEWS[1].keys, offset(1, 1, 27, 0))),
        (&VIEWS[0], with_window(VIEWS[0].keys, value(0, 2, "b"))),
    ] {
        let question = Question { size_limit: 3, ..view.question(controls) };
        let mut search = question.start(&directory);
        let mut out = Vec::new();
        let budget = crate::read::search::Budget { entries_examined_max: 1_000, out_bytes_max: 1 << 20 };
        while search.run(&directory.snapshot, &mut out, &budget) == Step::More {}
        assert_eq!(crate::testing::received(&out).entries.len(), 3);
        assert!(search.entries_examined() <= 4, "{} examined", search.entries_examined());
    }
    // These rules have the same normal forms as the attributes' own rules, so the sort order has the requested keys.
    let keys = ["sn:caseIgnoreOrderingMatch", "givenName:2.5.13.3"];
    let question = VIEWS[0].question(with_window(&keys, offset(0, 1, 30, 0)));
    assert_eq!(source(&directory, &question), CandidateSource::Order);
    let keys = ["cn"];
    let (found, _) = run(&directory, "(objectClass=person)", with_window(&keys, offset(0, 1, 30, 0)));
    assert_eq!(found.code, ResultCode::VIRTUAL_LIST_VIEW_ERROR, "no order has this key");
}

#[test]
fn a_list_view_of_an_empty_order_has_position_zero() {
    let mut directory = directory();
    let question = VIEWS[0].question(with_window(VIEWS[0].keys, offset(1, 1, 3, 0)));
    let messages = question.answer(&directory, false).unwrap();
    let view = super::list_view::response(&messages);
    assert_eq!(view, Some(ListViewResult { position: 0, count: 0, code: ResultCode::SUCCESS }));
    let mut rng = Rng::with_seed(1);
    (0..3).for_each(|number| add_person(&mut directory, &mut rng, number, PEOPLE));
    directory.change_settings(|settings| settings.general.sort_orders.clear());
    assert_eq!(source(&directory, &question), CandidateSource::Indexes);
    directory.finish_indexes();
    assert_sound(&directory);
}
