//! Tests of entries that are too large for memory.

use ldap::{
    ChangeOperation, DecodeLimits, FilterBuf, MessageId, ResponseMessage, ResultCode, Scope, SearchRequest,
    SelectionBuf, oids,
};

use super::{Question, add, sample};
use crate::model::limits::{GATHERED_MAX, STREAMS_MAX};
use crate::read::controls::RequestControls;
use crate::read::search::{Budget, Search, Step};
use crate::testing::{SUFFIX, TestDirectory, received};

const GROUP: &str = "cn=large,ou=groups,dc=example,dc=com";

/// Number of members of the large group that have no entries.
pub(super) const GHOSTS: usize = 6_000;

/// Returns the sample with a group whose member values do not fit into one result. Some of these values are links; most
/// are text.
pub(super) fn with_large_group() -> TestDirectory {
    let mut directory = sample();
    let ghosts = (0..GHOSTS).map(|number| match number % 3 {
        // Older clients spell DNs in this form. The server returns these values in the same form as the other values.
        1 => format!("cn=\"ghost number {number:05}\"; ou=nowhere; dc=example; dc=com"),
        _ => format!("cn=ghost number {number:05},ou=nowhere,dc=example,dc=com"),
    });
    let people = ["ada", "bob", "carl"].map(|uid| format!("uid={uid},ou=people,dc=example,dc=com"));
    let members: Vec<String> = ghosts.chain(people).collect();
    assert!(members.iter().map(String::len).sum::<usize>() > GATHERED_MAX);
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    let attributes = [("objectClass", &["groupOfNames"][..]), ("member", &members), ("description", &["d"])];
    add(&mut directory, GROUP, &attributes);
    directory
}

fn start(directory: &TestDirectory, filter: &str, size_limit: u32, types_only: bool) -> Search {
    let filter = FilterBuf::parse(filter).unwrap();
    let selection = SelectionBuf::from_iter(["*", "memberOf", "entryDN"]);
    let plain = SearchRequest::new(SUFFIX, Scope::WholeSubtree, filter.as_filter(), selection.as_selection());
    let request = SearchRequest { size_limit, types_only, ..plain };
    let controls = RequestControls::default();
    Search::start(&directory.snapshot, &directory.requester.context(), MessageId(3), &request, &controls)
        .unwrap()
}

const SLICE: Budget = Budget { entries_examined_max: 50, out_bytes_max: 1_000 };

#[test]
fn a_large_entry_is_streamed_between_other_results() {
    let mut directory = with_large_group();
    let mut search = start(&directory, "(|(cn=*)(ou=*))", 0, false);
    let (mut out, mut slices, mut largest) = (Vec::new(), 0, 0);
    loop {
        let before = out.len();
        let step = search.run(&directory.snapshot, &mut out, &SLICE);
        largest = largest.max(out.len() - before);
        slices += 1;
        if search.is_mid_message() && slices % 10 == 0 {
            // The message has the length in its header, whatever changes during the stream.
            let changes = [(
                ldap::ChangeOperation::Delete,
                "member",
                &["cn=ghost number 05999,ou=nowhere,dc=example,dc=com"][..],
            )];
            directory.modify(GROUP, &changes);
        }
        if step != Step::More {
            assert_eq!(step, Step::Done);
            break;
        }
    }
    assert!(largest < 5_000, "{largest}");
    let found = received(&out);
    assert_eq!((found.code, search.entries_sent()), (ResultCode::SUCCESS, found.entries.len() as u64));
    let group = found.entries.iter().find(|entry| entry.dn == GROUP).unwrap();
    let members = group.texts("member");
    assert_eq!(members.len(), GHOSTS + 3);
    assert_eq!(members[0], "uid=ada,ou=people,dc=example,dc=com");
    assert_eq!(members[4], "cn=ghost number 00001,ou=nowhere,dc=example,dc=com");
    assert_eq!(members[GHOSTS + 2], "cn=ghost number 05999,ou=nowhere,dc=example,dc=com");
    assert_eq!(
        (group.texts("description"), group.texts("entryDN")),
        (vec!["d".to_owned()], vec![GROUP.to_owned()])
    );
    assert!(found.entries.len() > 5);
}

#[test]
fn types_and_other_attributes_of_a_large_entry_need_no_stream() {
    let directory = with_large_group();
    let mut search = start(&directory, "(cn=large)", 0, true);
    let mut out = Vec::new();
    while search.run(&directory.snapshot, &mut out, &SLICE) == Step::More {
        assert!(!search.is_streaming());
    }
    let found = received(&out);
    assert!(found.entries[0].attributes.contains_key("member"));
}

#[test]
fn limits_count_a_streamed_entry() {
    let directory = with_large_group();
    for (size_limit, code, count) in [(1, ResultCode::SUCCESS, 1), (0, ResultCode::SUCCESS, 1)] {
        let mut search = start(&directory, "(cn=large)", size_limit, false);
        let mut out = Vec::new();
        while search.run(&directory.snapshot, &mut out, &SLICE) == Step::More {}
        let found = received(&out);
        assert_eq!((found.code, found.entries.len()), (code, count));
    }
    let mut search = start(&directory, "(objectClass=groupOfNames)", 3, false);
    let mut out = Vec::new();
    while search.run(&directory.snapshot, &mut out, &SLICE) == Step::More {}
    let found = received(&out);
    assert_eq!((found.code, found.entries.len()), (ResultCode::SIZE_LIMIT_EXCEEDED, 3));
}

#[test]
fn the_number_of_streams_is_limited() {
    let directory = with_large_group();
    let mut all: Vec<Search> = Vec::new();
    let begin = || {
        let mut search = start(&directory, "(cn=large)", 0, false);
        let mut out = Vec::new();
        let step = search.run(&directory.snapshot, &mut out, &SLICE);
        (search, step, out)
    };
    for _ in 0..STREAMS_MAX {
        let (search, step, _) = begin();
        assert!(search.is_streaming() && step == Step::More);
        all.push(search);
    }
    let (_, step, out) = begin();
    assert_eq!((step, received(&out).code), (Step::Done, ResultCode::BUSY));
    all.pop();
    assert!(begin().0.is_streaming());
}

#[test]
fn the_search_streams_large_entries_that_a_piece_skips() {
    let directory = with_large_group();
    let whole = {
        let mut search = start(&directory, "(|(cn=*)(ou=*))", 0, false);
        let mut out = Vec::new();
        while search.run(&directory.snapshot, &mut out, &SLICE) == Step::More {}
        out
    };
    let mut search = start(&directory, "(|(cn=*)(ou=*))", 0, false);
    while search.candidates_left().is_none() {
        let none = Budget { entries_examined_max: 1, out_bytes_max: 0 };
        assert_eq!(search.run(&directory.snapshot, &mut Vec::new(), &none), Step::More);
    }
    let (mut scanner, mut from) = search.split().unwrap();
    let mut out = Vec::new();
    loop {
        let piece = scanner.examine(&directory.snapshot, from, u64::MAX, &SLICE);
        if let crate::read::search::PieceEnd::Cut(next) = piece.end() {
            from = next;
        }
        let step = search.take(&directory.snapshot, piece, &mut out);
        while search.is_streaming() {
            assert_eq!(search.run(&directory.snapshot, &mut out, &SLICE), Step::More);
        }
        if step == Step::Done {
            break;
        }
    }
    assert!(out == whole);
}

/// Regression test: an entry that was sent as a stream lacked the account usability control.
#[test]
fn a_streamed_entry_is_sent_with_its_controls() {
    let mut directory = with_large_group();
    let password = [(ChangeOperation::Add, "userPassword", &["{SSHA}AAAA"][..])];
    let classes = [(ChangeOperation::Add, "objectClass", &["simpleSecurityObject"][..])];
    directory.modify(GROUP, &[&classes[..], &password].concat());
    let controls = RequestControls { account_usability: true, ..RequestControls::default() };
    for (attributes, is_large) in [(&["cn"][..], false), (&["*"], true)] {
        let question = Question { controls: controls.clone(), ..Question::everywhere("(cn=large)") };
        let messages = question.attributes(attributes).answer(&directory, false).unwrap();
        assert_eq!(messages.len() > GATHERED_MAX, is_large);
        let length = ldap::frame_len(&messages).unwrap().unwrap();
        let message = ResponseMessage::decode(&messages[..length], &DecodeLimits::default()).unwrap();
        assert!(message.controls.find(oids::ACCOUNT_USABILITY).is_some(), "{attributes:?}");
    }
}
