//! Tests of the virtual list view control (draft-ietf-ldapext-ldapv3-vlv): parts of sorted lists.

use ldap::{DecodeLimits, ListViewResult, PagedResults, ResponseMessage, ResultCode, oids};

use super::sorted::{least, mixed, sort};
use super::{Question, sample};
use crate::model::settings::GeneralSettings;
use crate::read::controls::{ListViewOptions, RequestControls, WindowTarget};
use crate::read::page_request::PageRequest;
use crate::testing::{Found, TestDirectory, received};

pub(super) fn offset(before: u32, after: u32, offset: u32, count: u32) -> ListViewOptions {
    ListViewOptions { before, after, target: WindowTarget::Offset(offset, count), has_context: false }
}

pub(super) fn value(before: u32, after: u32, text: &str) -> ListViewOptions {
    ListViewOptions { before, after, target: WindowTarget::Value(text.into()), has_context: false }
}

pub(super) fn with_window(keys: &[&str], window: ListViewOptions) -> RequestControls {
    let mut controls = sort(keys);
    controls.seldom.get_or_insert_default().window = Some(window);
    controls
}

/// Returns the results of a search, and its list view response.
pub(super) fn run(
    directory: &TestDirectory,
    filter: &str,
    controls: RequestControls,
) -> (Found, Option<ListViewResult>) {
    let question = Question { controls, ..Question::everywhere(filter) };
    let messages = question.answer(directory, false).unwrap();
    (received(&messages), response(&messages))
}

/// Returns the list view response of the last message.
pub(super) fn response(messages: &[u8]) -> Option<ListViewResult> {
    let (mut last, mut rest) = (messages, messages);
    while let Some(length) = ldap::frame_len(rest).unwrap() {
        (last, rest) = rest.split_at(length);
    }
    let done = ResponseMessage::decode(last, &DecodeLimits::default()).unwrap();
    let view = done.controls.find(oids::VLV_RESPONSE);
    view.map(|control| ListViewResult::decode(control.value.unwrap()).unwrap())
}

/// Every part of a list has the expected entries, however it is requested.
#[test]
fn a_list_view_returns_the_requested_part_of_the_list() {
    const KEYS: [&[&str]; 5] =
        [&["uidNumber"], &["-uidNumber"], &["description"], &["-title", "uidNumber"], &["gidNumber"]];
    for seed in 0..3 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let directory = mixed(&mut rng, 60);
        for (round, keys) in KEYS.iter().cycle().take(100).enumerate() {
            let filter = ["(objectClass=person)", "(uidNumber>=0)", "(uid=nobody)"][round % 3];
            let question =
                Question { controls: sort(keys), ..Question::everywhere(filter).attributes(&["*"]) };
            let list = question.run(&directory).entries;
            let count = list.len() as u32;
            let (before, after) = (rng.u32(0..8), rng.u32(0..8));
            let (window, position) = match rng.u32(0..4) {
                0 => {
                    let place = rng.u32(1..=count.max(1));
                    (offset(before, after, place, count.max(2)), place)
                }
                // The client assumes a wrong length of the list.
                1 => {
                    let of = rng.u32(2..500);
                    let place = rng.u32(1..=of);
                    let position = (f64::from(place) * f64::from(count) / f64::from(of)).round() as u32;
                    let position = if place == 1 { 1 } else { position.max(1) };
                    (offset(before, after, place, of), if place == of { count } else { position })
                }
                2 => {
                    let place = rng.u32(1..80);
                    (offset(before, after, place, 0), place)
                }
                _ => {
                    let name = keys[0].trim_start_matches('-');
                    let text = match name.ends_with("Number") {
                        true => rng.i32(-400..400).to_string(),
                        false => (*rng.choice(&["", "B", "b c", "Zz", "0", "a"]).unwrap()).to_owned(),
                    };
                    let text = if text.is_empty() { "a longer".to_owned() } else { text };
                    let asserted = match text.parse() {
                        Ok(number) if name.ends_with("Number") => (false, number, String::new()),
                        _ => (false, 0, text.to_lowercase()),
                    };
                    let is_before = |entry: &&crate::testing::Entry| match keys[0].starts_with('-') {
                        true => least(entry, name) > asserted,
                        false => least(entry, name) < asserted,
                    };
                    let position = list.iter().filter(is_before).count() as u32 + 1;
                    (value(before, after, &text), position)
                }
            };
            let is_by_value = matches!(window.target, WindowTarget::Value(_));
            let position = if is_by_value { position } else { position.min(count) };
            let about = format!("{window:?} of {count} by {keys:?}, seed {seed}");
            let (found, view) = run(&directory, filter, with_window(keys, window));
            assert_eq!(found.code, ResultCode::SUCCESS, "{about}: {}", found.diagnostic);
            assert_eq!(view, Some(ListViewResult { position, count, code: ResultCode::SUCCESS }), "{about}");
            let start = position.saturating_sub(1).saturating_sub(before) as usize;
            let end = ((position + after).min(count) as usize).max(start);
            let expected: Vec<&str> =
                list[start.min(list.len())..end].iter().map(|entry| entry.dn.as_str()).collect();
            assert_eq!(found.dns(), expected, "{about}");
        }
    }
}

#[test]
fn targets_outside_the_list_are_errors() {
    let mut directory = sample();
    let people = "(objectClass=person)";
    let refused = |directory: &TestDirectory, controls: RequestControls, code: ResultCode, text: &str| {
        let (found, view) = run(directory, people, controls);
        assert_eq!((found.code, found.entries.len()), (ResultCode::VIRTUAL_LIST_VIEW_ERROR, 0), "{text}");
        assert!(found.diagnostic.contains(text), "{}", found.diagnostic);
        assert_eq!(view, Some(ListViewResult { position: 0, count: 0, code }));
    };
    let by_sn = |window| with_window(&["sn"], window);
    refused(&directory, by_sn(offset(0, 9, 0, 5)), ResultCode::OFFSET_RANGE_ERROR, "begins with 1");
    refused(&directory, by_sn(offset(0, 9, 6, 5)), ResultCode::OFFSET_RANGE_ERROR, "after the end");
    let again = ListViewOptions { has_context: true, ..offset(0, 9, 1, 0) };
    refused(&directory, by_sn(again), ResultCode::PROTOCOL_ERROR, "no context");
    let numbers = with_window(&["uidNumber"], value(0, 9, "seven"));
    refused(&directory, numbers, ResultCode::UNWILLING_TO_PERFORM, "none of the attribute");
    let unsorted = with_window(&["nonsense"], offset(0, 9, 1, 0));
    refused(&directory, unsorted, ResultCode::NO_SUCH_ATTRIBUTE, "cannot be sorted");
    let mut alone = by_sn(offset(0, 9, 1, 0));
    alone.seldom.as_mut().unwrap().sort = None;
    refused(&directory, alone, ResultCode::SORT_CONTROL_MISSING, "server-side sorting");
    let mut paged = by_sn(offset(0, 9, 1, 0));
    paged.seldom.as_mut().unwrap().page = Some(PageRequest::of(PagedResults { size: 5, cookie: b"" }));
    refused(&directory, paged, ResultCode::UNWILLING_TO_PERFORM, "no pages");
    let controls = by_sn(offset(0, 9, 1, 0));
    let root = Question { controls, ..Question::new("", ldap::Scope::BaseObject, "(objectClass=*)") };
    assert_eq!(root.run(&directory).code, ResultCode::VIRTUAL_LIST_VIEW_ERROR);
    // Sorting too many entries is refused, except for the administrator.
    let general = GeneralSettings { unindexed_examined_max: 3, ..GeneralSettings::default() };
    directory.change_settings(|settings| settings.general = general);
    let requester =
        crate::read::identity::identify(&directory.snapshot, "dn:uid=bob,ou=people,dc=example,dc=com");
    directory.requester = requester.unwrap().unwrap().requester;
    refused(&directory, by_sn(offset(0, 1, 1, 0)), ResultCode::ADMIN_LIMIT_EXCEEDED, "too long");
}
