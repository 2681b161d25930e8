//! Paged searches: the pages together equal the results of the unpaged search, whatever happens between them, and a
//! cookie is valid only for its own search.

use ldap::{DecodeLimits, DerefAliases, MessageId, PagedResults, ResponseMessage, ResultCode, Scope, oids};

use super::large::with_large_group;
use super::{Attributes, Question, add, leaves, sample};
use crate::access::Requester;
use crate::model::outcome::OperationError;
use crate::model::rows::EntryId;
use crate::model::settings::GeneralSettings;
use crate::read::controls::RequestControls;
use crate::read::page_request::PageRequest;
use crate::read::search::SearchInputs;
use crate::read::search::paging::{NextPage, Paging};
use crate::snapshot::page_key::PageKey;
use crate::testing::{Found, SUFFIX, TestDirectory, received};

/// A page and its response control.
#[derive(Debug, PartialEq)]
pub(super) struct Page {
    pub(super) found: Found,
    size: u32,
    pub(super) cookie: Vec<u8>,
}

impl Question<'_> {
    /// Asks for a page. A refusal has no response control, so the returned page has no size and no cookie.
    pub(super) fn page(
        &self,
        directory: &TestDirectory,
        size: u32,
        cookie: &[u8],
        ignores_indexes: bool,
    ) -> Page {
        let mut controls = self.controls.clone();
        controls.seldom.get_or_insert_default().page = Some(PageRequest::of(PagedResults { size, cookie }));
        let question = Question { controls, ..*self };
        let Ok(messages) = question.answer(directory, ignores_indexes) else {
            let found = question.run_once(directory, ignores_indexes);
            return Page { found, size: 0, cookie: Vec::new() };
        };
        let mut rest = messages.as_slice();
        let mut last = rest;
        while let Some(length) = ldap::frame_len(rest).unwrap() {
            (last, rest) = rest.split_at(length);
        }
        let done = ResponseMessage::decode(last, &DecodeLimits::default()).unwrap();
        let control = done.controls.find(oids::PAGED_RESULTS).expect("a response control on every page");
        assert!(!control.critical);
        let PagedResults { size, cookie } = PagedResults::decode(control.value.unwrap()).unwrap();
        Page { found: received(&messages), size, cookie: cookie.to_vec() }
    }

    /// Returns all pages. Calls `between` after each page except the last.
    pub(super) fn pages_with(
        &self,
        directory: &mut TestDirectory,
        (size, ignores_indexes): (u32, bool),
        mut between: impl FnMut(&mut TestDirectory),
    ) -> Vec<Page> {
        let mut pages: Vec<Page> = Vec::new();
        loop {
            let cookie = pages.last().map_or(&[][..], |page| page.cookie.as_slice());
            let page = self.page(directory, size, cookie, ignores_indexes);
            let is_last = page.cookie.is_empty();
            pages.push(page);
            if is_last {
                return pages;
            }
            between(directory);
        }
    }

    pub(super) fn pages(&self, directory: &mut TestDirectory, size: u32, ignores_indexes: bool) -> Vec<Page> {
        self.pages_with(directory, (size, ignores_indexes), |_| {})
    }
}

/// Returns the entries of all pages, which must succeed.
pub(super) fn dns(pages: &[Page]) -> Vec<&str> {
    for page in pages {
        assert_eq!(page.found.code, ResultCode::SUCCESS, "{}", page.found.diagnostic);
    }
    pages.iter().flat_map(|page| page.found.dns()).collect()
}

/// Returns a user to whom limits apply.
pub(super) fn user() -> Requester {
    Requester::User { id: EntryId(1), dn: SUFFIX.to_owned() }
}

/// Returns a directory with the units `ou=0` to `ou=3`. `count` people are added in one batch and are distributed
/// among the units in turn.
pub(super) fn crowd(settings: GeneralSettings, count: u32) -> TestDirectory {
    let mut directory = TestDirectory::with_settings(settings);
    add(&mut directory, SUFFIX, &[("objectClass", &["domain"]), ("dc", &["example"])]);
    for unit in ["0", "1", "2", "3"] {
        let attributes: Attributes<'_> = &[("objectClass", &["organizationalUnit"]), ("ou", &[unit])];
        add(&mut directory, &format!("ou={unit},{SUFFIX}"), attributes);
    }
    directory.add_all(0..count, |number| {
        let mut attributes = ldap::AttributesBuf::new();
        attributes.push("objectClass", ["inetOrgPerson"]);
        attributes.push("cn", [format!("Person {number:04}")]);
        attributes.push("sn", [if number % 3 == 0 { "third" } else { "other" }]);
        attributes.push("description", [format!("number {number}, {}", number % 7)]);
        (format!("uid=p{number},ou={},{SUFFIX}", number % 4), attributes)
    });
    directory
}

/// Filters for every kind of plan: scans, postings, ranges of keys, presence, several postings, nothing.
const FILTERS: [&str; 10] = [
    "(objectClass=*)",
    "(objectClass=person)",
    "(sn=third)",
    "(|(sn=third)(sn=other)(cn=Person 0007))",
    "(cn=person 00*)",
    "(&(sn=third)(cn>=person 0020))",
    "(modifyTimestamp>=20000101000000Z)",
    "(description=*, 3)",
    "(!(sn=other))",
    "(sn=nobody)",
];

#[test]
fn pages_together_are_the_whole_answer() {
    let mut directory = crowd(GeneralSettings::default(), 60);
    let unit = format!("ou=1,{SUFFIX}");
    let places = [
        (SUFFIX, Scope::WholeSubtree),
        (SUFFIX, Scope::SingleLevel),
        (SUFFIX, Scope::BaseObject),
        ("", Scope::Subordinate),
        (&unit, Scope::SingleLevel),
        (&unit, Scope::WholeSubtree),
    ];
    for filter in FILTERS {
        for (base, scope) in places {
            let question = Question::new(base, scope, filter);
            let whole = question.run(&directory);
            for (size, ignores_indexes) in
                [1, 3, 7, 20, 1_000].into_iter().flat_map(|size| [(size, false), (size, true)])
            {
                let pages = question.pages(&mut directory, size, ignores_indexes);
                let about = format!("{filter} {scope:?} {base:?} in pages of {size}");
                assert_eq!(dns(&pages), whole.dns(), "{about}");
                // Only the last page may have fewer entries. It is empty only if nothing is found.
                let count = whole.entries.len();
                assert_eq!(pages.len(), count.div_ceil(size as usize).max(1), "{about}");
                let full = pages[..pages.len() - 1].iter();
                assert!(full.clone().all(|page| page.found.entries.len() == size as usize), "{about}");
                // The last page reports the exact count. An earlier page reports 0, or at least the exact count.
                assert_eq!(pages.last().map(|page| page.size), Some(count as u32), "{about}");
                assert!(full.clone().all(|page| page.size == 0 || page.size >= count as u32), "{about}");
            }
        }
    }
}

#[test]
fn a_page_has_an_estimate_if_it_is_cheap() {
    let directory = crowd(GeneralSettings::default(), 60);
    let unit = format!("ou=1,{SUFFIX}");
    for (base, scope, filter, size) in [
        (&*unit, Scope::SingleLevel, "(objectClass=*)", 15),
        (&unit, Scope::WholeSubtree, "(objectClass=*)", 16),
        (SUFFIX, Scope::WholeSubtree, "(sn=third)", 20),
        (SUFFIX, Scope::WholeSubtree, "(cn=person 001*)", 10),
        (SUFFIX, Scope::WholeSubtree, "(description=*, 3)", 0),
        (SUFFIX, Scope::WholeSubtree, "(!(sn=other))", 0),
    ] {
        let page = Question::new(base, scope, filter).page(&directory, 2, b"", false);
        assert_eq!(page.size, size, "{filter} {scope:?} {base}");
    }
}

pub(super) fn refused(page: &Page, about: &str) {
    assert_eq!(page.found.code, ResultCode::UNWILLING_TO_PERFORM, "{about}: {page:?}");
    assert!(page.found.entries.is_empty() && page.found.diagnostic.contains("cookie"), "{about}: {page:?}");
}

#[test]
fn a_cookie_is_valid_only_for_its_request_and_identity() {
    let mut directory = sample();
    let question = Question { size_limit: 9, ..Question::everywhere("(objectClass=*)") };
    let first = question.page(&directory, 2, b"", false);
    let second = question.page(&directory, 2, &first.cookie, false);
    assert_eq!(second.found.entries.len(), 2);
    let check = |directory: &TestDirectory, question: &Question<'_>, about: &str| {
        refused(&question.page(directory, 2, &first.cookie, false), about);
    };
    let other = |change: fn(&mut Question<'_>), about| {
        let mut other = Question { size_limit: 9, ..Question::everywhere("(objectClass=*)") };
        change(&mut other);
        check(&directory, &other, about);
    };
    other(|other| other.base = "ou=people,dc=example,dc=com", "base");
    other(|other| other.scope = Scope::Subordinate, "scope");
    other(|other| other.filter = "(cn=*)", "filter");
    other(|other| other.attributes = &["cn"], "attributes");
    other(|other| other.attributes = &[], "all attributes");
    other(|other| other.deref_aliases = DerefAliases::Always, "aliases");
    other(|other| other.size_limit = 0, "size limit");
    other(|other| other.types_only = true, "types only");
    other(|other| other.controls.manage_dsa_it = true, "ManageDsaIT");
    other(|other| other.controls.subentries = Some(false), "subentries");
    other(|other| other.controls.subentries = Some(true), "nothing but subentries");
    // A cookie is refused if its length differs or any bit is changed.
    let longer = [first.cookie.as_slice(), &[0]].concat();
    for cookie in [first.cookie[1..].to_vec(), longer, vec![0], vec![7; 1 << 20]] {
        refused(&question.page(&directory, 2, &cookie, false), "size of the cookie");
    }
    for bit in 0..first.cookie.len() * 8 {
        let mut cookie = first.cookie.clone();
        cookie[bit / 8] ^= 1 << (bit % 8);
        refused(&question.page(&directory, 2, &cookie, false), "bit of the cookie");
    }
    let administrator = std::mem::replace(&mut directory.requester, user());
    check(&directory, &question, "another identity");
    directory.requester = administrator;
    // A cookie may be used more than once, with another page size, and after a restart.
    assert_eq!(question.page(&directory, 2, &first.cookie, false), second);
    assert_eq!(question.page(&directory, 3, &first.cookie, false).found.entries.len(), 3);
    let directory = directory.reopen();
    assert_eq!(question.page(&directory, 2, &first.cookie, false), second);
}

#[test]
fn a_user_cannot_continue_the_pages_of_another_user() {
    let mut directory = sample();
    directory.requester = user();
    let question = Question::everywhere("(objectClass=*)");
    let cookie = question.page(&directory, 2, b"", false).cookie;
    // The requester is identified by its entry, not by the current DN of the entry.
    directory.requester = Requester::User { id: EntryId(1), dn: "cn=renamed".to_owned() };
    assert_eq!(question.page(&directory, 2, &cookie, false).found.entries.len(), 2);
    directory.requester = Requester::User { id: EntryId(2), dn: SUFFIX.to_owned() };
    refused(&question.page(&directory, 2, &cookie, false), "another user");
}

#[test]
fn a_new_directory_rejects_old_cookies() {
    let filter = ldap::FilterBuf::parse("(cn=a)").unwrap();
    let selection = ldap::SelectionBuf::new();
    let request =
        ldap::SearchRequest::new(SUFFIX, Scope::WholeSubtree, filter.as_filter(), selection.as_selection());
    let TestDirectory { snapshot, requester, .. } = &sample();
    let (context, controls) = (&requester.context(), &RequestControls::default());
    let rights = &snapshot.rights(context).unwrap();
    let inputs = SearchInputs { snapshot, context, rights, id: MessageId(1), request: &request, controls };
    let begin = |generation, cookie: &[u8]| {
        let page = PageRequest::of(PagedResults { size: 2, cookie });
        Paging::begin(&PageKey::new([generation; 16]), &inputs, &page)
    };
    let first = begin(1, b"").unwrap();
    let (code, value) = first.end(ResultCode::SIZE_LIMIT_EXCEEDED, NextPage::From(17, false), 2, 5);
    let value = PagedResults::decode(&value).unwrap();
    assert_eq!((code, value.size), (ResultCode::SUCCESS, 5));
    assert_eq!(begin(1, value.cookie).map(|page| page.from).ok(), Some(17));
    let refused = begin(2, value.cookie).err();
    assert!(
        matches!(refused, Some(OperationError::Refused { code: ResultCode::UNWILLING_TO_PERFORM, .. })),
        "{refused:?}"
    );
}

#[test]
fn a_size_limit_applies_to_all_pages_together() {
    let mut directory = crowd(GeneralSettings::default(), 30);
    let whole = Question::everywhere("(objectClass=person)").run(&directory);
    for (size_limit, size) in [(10, 3), (9, 3), (3, 3), (2, 3), (29, 7), (1, 1)] {
        let question = Question { size_limit, ..Question::everywhere("(objectClass=person)") };
        let pages = question.pages(&mut directory, size, false);
        let about = format!("limit {size_limit}, pages of {size}");
        assert_eq!(pages.len() as u32, size_limit.div_ceil(size), "{about}");
        let found: Vec<&str> = pages.iter().flat_map(|page| page.found.dns()).collect();
        assert_eq!(found, whole.dns()[..size_limit as usize], "{about}");
        let (last, before) = pages.split_last().unwrap();
        assert_eq!(last.found.code, ResultCode::SIZE_LIMIT_EXCEEDED, "{about}");
        let text = format!("the request's size limit of {size_limit} for all pages together is reached");
        assert!(last.found.diagnostic.starts_with(&text), "{about}: {}", last.found.diagnostic);
        assert!(before.iter().all(|page| page.found.code == ResultCode::SUCCESS), "{about}");
    }
    for size_limit in [30, 31] {
        let question = Question { size_limit, ..Question::everywhere("(objectClass=person)") };
        assert_eq!(dns(&question.pages(&mut directory, 10, false)).len(), 30);
    }
}

#[test]
fn the_configured_size_limit_applies_to_each_page() {
    let settings = GeneralSettings { size_limit: 4, ..GeneralSettings::default() };
    let mut directory = crowd(settings, 30);
    directory.requester = user();
    let question = Question::everywhere("(objectClass=person)");
    assert_eq!(question.run(&directory).code, ResultCode::SIZE_LIMIT_EXCEEDED);
    for (size, expected) in [(100, 4), (3, 3)] {
        let pages = question.pages(&mut directory, size, false);
        assert_eq!(dns(&pages).len(), 30);
        assert_eq!(pages[0].found.entries.len(), expected);
    }
    let limited = Question { size_limit: 6, ..Question::everywhere("(objectClass=person)") };
    let pages = limited.pages(&mut directory, 100, false);
    assert_eq!(pages.iter().map(|page| page.found.entries.len()).collect::<Vec<_>>(), [4, 2]);
    assert_eq!(pages[1].found.code, ResultCode::SIZE_LIMIT_EXCEEDED);
}

#[test]
fn a_page_of_no_entries_ends_the_sequence() {
    let directory = sample();
    let question = Question::everywhere("(objectClass=*)");
    let first = question.page(&directory, 2, b"", false);
    let end = question.page(&directory, 0, &first.cookie, false);
    assert_eq!((end.found.code, end.found.entries.len()), (ResultCode::SUCCESS, 0));
    assert!(end.cookie.is_empty());
    refused(&question.page(&directory, 0, b"", false), "no cookie");
    refused(&question.page(&directory, 0, b"x", false), "an invalid cookie");
}

#[test]
fn a_page_scans_if_many_entries_match() {
    let settings =
        GeneralSettings { unindexed_examined_max: 10, size_limit: 0, ..GeneralSettings::default() };
    let mut directory = crowd(settings, 400);
    directory.requester = user();
    let unit = format!("ou=3,{SUFFIX}");
    let source = |filter: &str, size: u32| {
        let filter = ldap::FilterBuf::parse(filter).unwrap();
        let selection = ldap::SelectionBuf::new();
        let request =
            ldap::SearchRequest::new(&unit, Scope::SingleLevel, filter.as_filter(), selection.as_selection());
        let mut controls = RequestControls::default();
        if size > 0 {
            controls.seldom.get_or_insert_default().page =
                Some(PageRequest::of(PagedResults { size, cookie: b"" }));
        }
        let (snapshot, id) = (&directory.snapshot, ldap::MessageId(1));
        let search = super::Search::start(snapshot, &directory.requester.context(), id, &request, &controls);
        let search = search.unwrap_or_else(|outcome| panic!("{outcome:?}"));
        search.explanation(snapshot).unwrap().unwrap().source
    };
    use crate::read::search::CandidateSource::{Indexes, Place, Scan};
    assert_eq!(source("(objectClass=*)", 0), Place);
    assert_eq!(source("(objectClass=*)", 5), Scan);
    assert_eq!(source("(objectClass=*)", 50), Place);
    assert_eq!(source("(cn=person 0001)", 5), Indexes);
    // The scan that replaces the plan is not subject to the limit of ten examined entries that do not match.
    for filter in ["(objectClass=*)", "(cn=person 0*)"] {
        let pages = Question::new(&unit, Scope::SingleLevel, filter).pages(&mut directory, 5, false);
        assert_eq!(dns(&pages).len(), 100, "{filter}");
        // The plan of the first page is in the cookie.
        let kinds: Vec<u8> = pages.iter().filter_map(|page| page.cookie.first().copied()).collect();
        assert_eq!(kinds, [2; 19], "{filter}");
    }
}

#[test]
fn references_are_returned_with_the_first_page() {
    let mut directory = sample();
    let stamp = directory.stamp();
    let mut attributes = ldap::AttributesBuf::new();
    attributes.push("objectClass", ["referral", "extensibleObject"]);
    attributes.push("ou", ["away"]);
    attributes.push("ref", ["ldap://hostb/ou=far,dc=example,dc=org"]);
    let entry = "ou=away,ou=people,dc=example,dc=com";
    let request = ldap::Request::Add(ldap::AddRequest { entry, attributes: attributes.as_attributes() });
    let manages = RequestControls { manage_dsa_it: true, ..RequestControls::default() };
    assert_eq!(directory.execute_with(&request, &manages, &stamp).code, ResultCode::SUCCESS);
    let question = Question::everywhere("(objectClass=*)");
    let pages = question.pages(&mut directory, 3, false);
    assert_eq!(dns(&pages).len(), 10);
    let references: Vec<usize> = pages.iter().map(|page| page.found.references.len()).collect();
    assert_eq!(references, [1, 0, 0, 0]);
    // With ManageDsaIT, the referral is an ordinary entry.
    let question = Question { controls: manages, ..Question::everywhere("(objectClass=*)") };
    let pages = question.pages(&mut directory, 3, false);
    assert_eq!(dns(&pages).len(), 11);
    assert!(pages.iter().all(|page| page.found.references.is_empty()));
}

#[test]
fn aliases_and_subentries_are_returned_in_pages() {
    let mut directory = sample();
    let alias: Attributes<'_> = &[
        ("objectClass", &["alias", "extensibleObject"]),
        ("aliasedObjectName", &["ou=people,dc=example,dc=com"]),
    ];
    add(&mut directory, "cn=to people,ou=groups,dc=example,dc=com", alias);
    let subentry: Attributes<'_> =
        &[("objectClass", &["subentry", "extensibleObject"]), ("subtreeSpecification", &["{}"])];
    for name in ["a", "b", "c"] {
        add(&mut directory, &format!("cn={name},ou=people,dc=example,dc=com"), subentry);
    }
    let groups = "ou=groups,dc=example,dc=com";
    for scope in [Scope::WholeSubtree, Scope::SingleLevel, Scope::Subordinate] {
        let question = Question {
            deref_aliases: DerefAliases::Always,
            ..Question::new(groups, scope, "(objectClass=*)")
        };
        let whole = question.run(&directory);
        for size in [1, 2, 5] {
            assert_eq!(dns(&question.pages(&mut directory, size, false)), whole.dns(), "{scope:?} {size}");
        }
    }
    let controls = RequestControls { subentries: Some(true), ..RequestControls::default() };
    let question = Question { controls, ..Question::everywhere("(objectClass=*)") };
    let pages = question.pages(&mut directory, 2, false);
    assert_eq!(pages.iter().map(|page| page.found.entries.len()).collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn entries_outside_the_tree_are_returned_in_pages() {
    let mut directory = sample();
    let question = Question::new("cn=config", Scope::WholeSubtree, "(objectClass=*)");
    let whole = question.run(&directory);
    assert!(whole.entries.len() > 5);
    for size in [1, 2, 100] {
        let pages = question.pages(&mut directory, size, false);
        assert_eq!(dns(&pages), whole.dns());
        assert_eq!(pages[0].size as usize, whole.entries.len());
    }
    let page = Question::new("", Scope::BaseObject, "(objectClass=*)").page(&directory, 1, b"", false);
    assert_eq!((leaves(&page.found), page.cookie), (vec![String::new()], Vec::new()));
}

#[test]
fn a_streamed_entry_is_on_exactly_one_page() {
    let mut directory = with_large_group();
    let question = Question::everywhere("(|(cn=*)(ou=*))").attributes(&["cn", "member"]);
    let whole = question.run(&directory);
    for size in [1, 2, 3, 20] {
        let pages = question.pages(&mut directory, size, false);
        let entries: Vec<_> = pages.into_iter().flat_map(|page| page.found.entries).collect();
        assert!(entries == whole.entries, "pages of {size}");
    }
}

/// Changes, between pages, a person with a number of at least 20, or adds a person. People with lower numbers stay
/// unchanged.
fn change(directory: &mut TestDirectory, rng: &mut fastrand::Rng) {
    use ldap::ChangeOperation::Replace;
    let number = rng.usize(20..60);
    let dn = format!("uid=p{number},ou={},{SUFFIX}", number % 4);
    match rng.u32(0..5) {
        0 => drop(directory.delete(&dn)),
        1 => drop(directory.modify(&dn, &[(Replace, "sn", &["other"]), (Replace, "description", &["x"])])),
        2 => drop(directory.modify(&dn, &[(Replace, "sn", &["third"]), (Replace, "description", &["x, 3"])])),
        3 => {
            let superior = format!("ou={},{SUFFIX}", rng.u32(0..4));
            let name = format!("uid=moved{}", rng.u32(..));
            drop(directory.modify_dn(&dn, &name, true, Some(&superior)));
        }
        _ => {
            let new = format!("uid=new{},ou={},{SUFFIX}", rng.u32(..), rng.u32(0..4));
            let attributes: Attributes<'_> =
                &[("objectClass", &["inetOrgPerson"]), ("cn", &["Person 0001"]), ("sn", &["third"])];
            drop(directory.add(&new, attributes));
        }
    }
}

#[test]
fn entries_that_match_throughout_are_on_exactly_one_page() {
    for seed in 0..3 {
        let mut rng = fastrand::Rng::with_seed(seed);
        for filter in FILTERS {
            let mut directory = crowd(GeneralSettings::default(), 60);
            let question = Question::everywhere(filter).attributes(&["entryUUID"]);
            let stays = |dn: &str| {
                let number = dn.strip_prefix("uid=p").and_then(|dn| dn.split(',').next());
                number.is_some_and(|number| number.parse::<usize>().unwrap() < 20)
            };
            let whole = question.run(&directory);
            let expected: Vec<&str> = whole.dns().into_iter().filter(|dn| stays(dn)).collect();
            let (size, ignores_indexes) = (rng.u32(1..8), rng.bool());
            let pages = question.pages_with(&mut directory, (size, ignores_indexes), |directory| {
                (0..rng.usize(0..4)).for_each(|_| change(directory, &mut rng));
            });
            let found = dns(&pages);
            let staying: Vec<&str> = found.iter().copied().filter(|dn| stays(dn)).collect();
            assert_eq!(staying, expected, "{filter}, seed {seed}");
            let entries = pages.iter().flat_map(|page| &page.found.entries);
            let mut ids: Vec<String> = entries.flat_map(|entry| entry.texts("entryUUID")).collect();
            assert_eq!(ids.len(), found.len());
            ids.sort();
            ids.dedup();
            assert_eq!(ids.len(), found.len(), "an entry was returned twice: {filter}, seed {seed}");
        }
    }
}
