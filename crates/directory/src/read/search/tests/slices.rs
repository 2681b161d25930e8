//! Tests of slices, limits, and changes of the directory between slices.

use ldap::{FilterBuf, MessageId, ResultCode, Scope, SearchRequest, SelectionBuf};

use super::{Question, add, leaves, sample};
use crate::model::settings::GeneralSettings;
use crate::read::controls::RequestControls;
use crate::read::search::{Budget, Search, Step};
use crate::testing::{Found, SUFFIX, TestDirectory, received};

#[test]
fn size_limits_report_an_error_only_if_more_entries_match() {
    let directory = sample();
    let run = |filter, size_limit| Question { size_limit, ..Question::everywhere(filter) }.run(&directory);
    for (limit, code, count) in
        [(0, ResultCode::SUCCESS, 4), (4, ResultCode::SUCCESS, 4), (3, ResultCode::SIZE_LIMIT_EXCEEDED, 3)]
    {
        let found = run("(objectClass=person)", limit);
        assert_eq!((found.code, found.entries.len()), (code, count), "limit {limit}");
        let text = "the request's size limit of 3 is reached, and more entries match: ask for more";
        assert_eq!(found.diagnostic, if code == ResultCode::SUCCESS { "" } else { text });
    }
    assert_eq!(run("(uid=ada)", 1).code, ResultCode::SUCCESS);
}

#[test]
fn settings_limit_all_but_the_administrator() {
    let settings = GeneralSettings { size_limit: 1, time_limit_seconds: 5, ..GeneralSettings::default() };
    let mut directory = TestDirectory::with_settings(settings);
    add(&mut directory, SUFFIX, &[("objectClass", &["domain"]), ("dc", &["example"])]);
    add(
        &mut directory,
        "ou=a,dc=example,dc=com",
        &[("objectClass", &["organizationalUnit"]), ("ou", &["a"])],
    );
    let run = |directory: &TestDirectory, size_limit| {
        Question { size_limit, ..Question::everywhere("(objectClass=*)") }.run(directory)
    };
    assert_eq!(run(&directory, 0).entries.len(), 2);
    directory.requester =
        crate::access::Requester::User { id: crate::model::rows::EntryId(1), dn: SUFFIX.to_owned() };
    for asked in [0, 1, 7] {
        let found = run(&directory, asked);
        assert_eq!(
            (found.code, found.entries.len()),
            (ResultCode::SIZE_LIMIT_EXCEEDED, 1),
            "asked for {asked}"
        );
        let whose = if asked == 1 {
            "request's size limit of 1"
        } else {
            "server's size limit of 1 (limits.size_limit)"
        };
        assert!(found.diagnostic.contains(whose), "asked for {asked}: {}", found.diagnostic);
    }
}

fn start(directory: &TestDirectory, filter: &str) -> Search {
    let filter = FilterBuf::parse(filter).unwrap();
    let mut selection = SelectionBuf::new();
    selection.push("1.1");
    let request = SearchRequest {
        time_limit_seconds: 9,
        ..SearchRequest::new(SUFFIX, Scope::WholeSubtree, filter.as_filter(), selection.as_selection())
    };
    let controls = RequestControls::default();
    Search::start(&directory.snapshot, &directory.requester.context(), MessageId(1), &request, &controls)
        .unwrap()
}

const ONE: Budget = Budget { entries_examined_max: 1, out_bytes_max: 1 << 20 };

/// Runs `slices` slices, then `change`, then the rest of the search.
fn with_change(filter: &str, slices: usize, change: impl FnOnce(&mut TestDirectory)) -> Found {
    let mut directory = sample();
    let mut search = start(&directory, filter);
    assert_eq!(search.time_limit_seconds(), 9);
    let mut out = Vec::new();
    for _ in 0..slices {
        assert_eq!(search.run(&directory.snapshot, &mut out, &ONE), Step::More);
    }
    change(&mut directory);
    while search.run(&directory.snapshot, &mut out, &ONE) == Step::More {}
    let found = received(&out);
    assert_eq!(search.entries_sent(), found.entries.len() as u64);
    assert_eq!(search.result_code(), Some(found.code));
    found
}

#[test]
fn an_entry_changed_between_slices_is_returned_at_most_once() {
    for filter in ["(objectClass=person)", "(|(uid=*)(sn=lang))", "(|(uid=ada)(uid=bob)(uid=carl)(cn=dora))"]
    {
        for slices in 0..3 {
            let rename = |directory: &mut TestDirectory| {
                directory.modify_dn("uid=ada,ou=people,dc=example,dc=com", "uid=ada", true, Some(SUFFIX));
            };
            let found = with_change(filter, slices, rename);
            assert_eq!(leaves(&found), ["cn=Dora+sn=Lang", "uid=ada", "uid=bob", "uid=carl"], "{filter}");
            let delete = |directory: &mut TestDirectory| {
                directory.delete("uid=carl,ou=people,dc=example,dc=com");
            };
            let found = with_change(filter, slices, delete);
            assert_eq!(leaves(&found), ["cn=Dora+sn=Lang", "uid=ada", "uid=bob"], "{filter}");
        }
    }
}

#[test]
fn entries_that_no_longer_match_are_not_returned() {
    let found = with_change("(uid=carl)", 0, |directory| {
        directory.modify_dn("uid=carl,ou=people,dc=example,dc=com", "uid=charles", true, None);
    });
    assert_eq!(leaves(&found), [""; 0]);
    let found = with_change("(member=uid=ada,ou=people,dc=example,dc=com)", 0, |directory| {
        directory.modify_dn("uid=ada,ou=people,dc=example,dc=com", "uid=countess", true, None);
    });
    assert_eq!(leaves(&found), [""; 0]);
}

#[test]
fn a_search_can_be_stopped() {
    let directory = sample();
    let mut search = start(&directory, "(objectClass=*)");
    let mut out = Vec::new();
    assert_eq!(search.run(&directory.snapshot, &mut out, &ONE), Step::More);
    search.stop(&directory.snapshot, &mut out, ResultCode::TIME_LIMIT_EXCEEDED);
    let found = received(&out);
    assert_eq!((found.code, found.entries.len()), (ResultCode::TIME_LIMIT_EXCEEDED, 1));
    assert_eq!(
        found.diagnostic,
        "the request's time limit of 9 s is over: ask for less, or with a longer limit"
    );
    let mut out = Vec::new();
    start(&directory, "(objectClass=*)").stop(&directory.snapshot, &mut out, ResultCode::BUSY);
    let found = received(&out);
    assert_eq!((found.code, found.diagnostic.is_empty()), (ResultCode::BUSY, false));
}

/// Regression test: timeLimitExceeded had no diagnostic message, so the client did not know whether its own limit or
/// the server's was exceeded.
#[test]
fn a_search_that_a_limit_stops_names_the_limit() {
    let settings = GeneralSettings { time_limit_seconds: 5, ..GeneralSettings::default() };
    let mut directory = TestDirectory::with_settings(settings);
    add(&mut directory, SUFFIX, &[("objectClass", &["domain"]), ("dc", &["example"])]);
    directory.requester =
        crate::access::Requester::User { id: crate::model::rows::EntryId(1), dn: SUFFIX.to_owned() };
    let mut out = Vec::new();
    start(&directory, "(objectClass=*)").stop(&directory.snapshot, &mut out, ResultCode::TIME_LIMIT_EXCEEDED);
    let text = received(&out).diagnostic;
    assert!(text.starts_with("the server's time limit of 5 s (limits.time_limit_seconds) is over"), "{text}");
}
