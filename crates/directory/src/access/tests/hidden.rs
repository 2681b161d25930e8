//! Errors reveal only entries that the requester may see. `crates/pando/tests/access/hidden.rs` looks for information
//! leaks with random requests; these tests cover the known leaks.

use ldap::{
    AccessQuestion, ChangeOperation, DeleteRequest, FilterBuf, MessageId, PersistentSearch, Request,
    ResultCode, Scope, SearchRequest, SelectionBuf,
};

use super::{PEOPLE, act_as, ok, person, set_rules};
use crate::controls::{
    ListViewOptions, RareControls, RequestControls, RequestedSortKey, SortOptions, WindowTarget,
};
use crate::read::access_question;
use crate::search::Search;
use crate::testing::TestDirectory;

const HIDDEN: &str = "ou=hidden,dc=example,dc=com";
const AWAY: &str = "ou=away,ou=people,dc=example,dc=com";
const MIXED: &str = "ou=mixed,dc=example,dc=com";

/// Returns the directory as anna sees it. She does not see entries with the description "secret"; `has_hidden` adds
/// such entries.
fn directory(has_hidden: bool) -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    let unit: &[(&str, &[&str])] = &[("objectClass", &["organizationalUnit"])];
    let secret: &[(&str, &[&str])] =
        &[("objectClass", &["organizationalUnit"]), ("description", &["secret"])];
    let away: &[(&str, &[&str])] = &[
        ("objectClass", &["referral", "extensibleObject"]),
        ("ref", &["ldap://127.0.0.1:1/dc=x"]),
        ("description", &["secret"]),
    ];
    let alias: &[(&str, &[&str])] =
        &[("objectClass", &["alias", "extensibleObject"]), ("aliasedObjectName", &[AWAY])];
    let hidden_alias: &[(&str, &[&str])] = &[
        ("objectClass", &["alias", "extensibleObject"]),
        ("aliasedObjectName", &[PEOPLE]),
        ("description", &["secret"]),
    ];
    for (dn, entry) in [(PEOPLE, unit), (MIXED, unit), ("ou=top,ou=mixed,dc=example,dc=com", unit)] {
        ok(&mut directory, |of| of.add(dn, entry));
    }
    for name in ["anna", "bert"] {
        let user: &[(&str, &[&str])] =
            &[("objectClass", &["inetOrgPerson"]), ("cn", &[name]), ("sn", &["x"])];
        ok(&mut directory, |of| of.add(&person(name, PEOPLE), user));
    }
    ok(&mut directory, |of| of.add("cn=to,ou=people,dc=example,dc=com", alias));
    if has_hidden {
        let user: &[(&str, &[&str])] = &[
            ("objectClass", &["inetOrgPerson"]),
            ("cn", &["x"]),
            ("sn", &["x"]),
            ("description", &["secret"]),
        ];
        for (dn, entry) in [
            (HIDDEN, secret),
            (AWAY, away),
            ("cn=hidden alias,ou=people,dc=example,dc=com", hidden_alias),
            ("uid=ghost,ou=people,dc=example,dc=com", user),
        ] {
            ok(&mut directory, |of| of.add(dn, entry));
        }
    }
    set_rules(
        &mut directory,
        &[
            "all: allow read, write, add, delete, rename, explain to authenticated",
            "hidden: deny browse matching '(description=secret)' to authenticated",
        ],
    );
    act_as(&mut directory, &person("anna", PEOPLE));
    directory
}

/// Returns the answer, which must be the same with and without hidden entries.
#[track_caller]
fn check_same_outcome(
    what: &str,
    run: impl Fn(&mut TestDirectory) -> crate::Outcome,
) -> (ResultCode, String) {
    let [one, other] = [true, false].map(|has_hidden| run(&mut directory(has_hidden)));
    assert_eq!(one, other, "{what}");
    (one.code, one.diagnostic)
}

fn rare_controls(seldom: RareControls) -> RequestControls {
    RequestControls { seldom: Some(Box::new(seldom)), ..RequestControls::default() }
}

fn search(directory: &mut TestDirectory, base: &str, controls: &RequestControls) -> crate::Outcome {
    let (filter, selection) = (FilterBuf::parse("(objectClass=*)").unwrap(), SelectionBuf::new());
    let mut request =
        SearchRequest::new(base, Scope::WholeSubtree, filter.as_filter(), selection.as_selection());
    request.deref_aliases = ldap::DerefAliases::Always;
    match Search::start(&directory.snapshot, &directory.requester.context(), MessageId(1), &request, controls)
    {
        Err(outcome) => outcome,
        Ok(_) => {
            let found = directory.search_request(&request, controls);
            let outcome = crate::Outcome::new(found.code, found.diagnostic);
            crate::Outcome { matched_dn: found.matched_dn, ..outcome }
        }
    }
}

#[test]
fn a_hidden_base_is_reported_as_missing_before_any_other_error() {
    let key = RequestedSortKey { attribute: "nonsense".to_owned(), rule: None, reverse: false };
    let sort = || Some(SortOptions { is_critical: true, keys: vec![key.clone()] });
    let window =
        ListViewOptions { before: 0, after: 0, target: WindowTarget::Offset(0, 0), has_context: false };
    let persistent = PersistentSearch { change_types: 1, changes_only: false, returns_entry_changes: false };
    let assertion = |text: &str| Some(FilterBuf::parse(text).unwrap());
    for seldom in [
        RareControls { assertion: assertion("(objectClass=organizationalUnit)"), ..RareControls::default() },
        RareControls { assertion: assertion("(objectClass=device)"), ..RareControls::default() },
        RareControls { assertion: assertion("(!(objectClass=device))"), ..RareControls::default() },
        RareControls { sort: sort(), ..RareControls::default() },
        RareControls { window: Some(window), ..RareControls::default() },
        RareControls { persistent: Some(persistent), sort: sort(), ..RareControls::default() },
    ] {
        let what = format!("{seldom:?}");
        let (code, text) = check_same_outcome(&what, |of| search(of, HIDDEN, &rare_controls(seldom.clone())));
        assert_eq!(code, ResultCode::NO_SUCH_OBJECT, "{what}: {text}");
    }
}

/// The limit on examined entries counts entries below a hidden base. Exceeding the limit does not reveal that the base
/// exists.
#[test]
fn limits_do_not_reveal_a_hidden_base() {
    for filter in ["(sn=*x*)", "(!(cn=x))"] {
        let (code, text) = check_same_outcome(filter, |of| {
            act_as(of, "cn=admin");
            let is_there = of.read(HIDDEN).is_some();
            for number in (0..5).filter(|_| is_there) {
                let user: &[(&str, &[&str])] =
                    &[("objectClass", &["person"]), ("sn", &["y"]), ("description", &["secret"])];
                ok(of, |of| of.add(&format!("cn={number},{HIDDEN}"), user));
            }
            of.change_settings(|settings| settings.general.unindexed_examined_max = 2);
            act_as(of, &person("anna", PEOPLE));
            let found = of.search(HIDDEN, Scope::WholeSubtree, filter, &[]);
            let outcome = crate::Outcome::new(found.code, found.diagnostic);
            crate::Outcome { matched_dn: found.matched_dn, ..outcome }
        });
        assert_eq!(code, ResultCode::NO_SUCH_OBJECT, "{filter}: {text}");
    }
}

#[test]
fn a_hidden_superior_gives_the_error_of_a_missing_one() {
    let bert = person("bert", PEOPLE);
    for superior in [
        HIDDEN,
        AWAY,
        "cn=x,ou=away,ou=people,dc=example,dc=com",
        "cn=hidden alias,ou=people,dc=example,dc=com",
        "uid=ghost,ou=people,dc=example,dc=com",
    ] {
        // Only a requester who may add entries below a superior learns that the superior exists.
        let (code, text) = check_same_outcome(superior, |of| {
            act_as(of, "cn=admin");
            let hidden = "hidden: deny browse matching '(description=secret)' to authenticated";
            set_rules(
                of,
                &["closed: deny explain to anyone", "all: allow read, rename to authenticated", hidden],
            );
            act_as(of, &person("anna", PEOPLE));
            of.modify_dn(&bert, "uid=bert", true, Some(superior))
        });
        assert_eq!(code, ResultCode::NO_SUCH_OBJECT, "{superior}: {text}");
        assert!(text.contains(superior), "{text}");
    }
}

#[test]
fn invalid_names_give_the_same_error_everywhere() {
    for dn in [
        "nonsense=x,ou=hidden,dc=example,dc=com",
        "nonsense=x,ou=away,ou=people,dc=example,dc=com",
        "cn=y,nonsense=x,ou=away,ou=people,dc=example,dc=com",
    ] {
        let none = RequestControls::default();
        let unit: &[(&str, &[&str])] = &[("objectClass", &["organizationalUnit"])];
        let change: &[(ChangeOperation, &str, &[&str])] =
            &[(ChangeOperation::Replace, "description", &["x"])];
        for (code, text) in [
            check_same_outcome(dn, |of| search(of, dn, &none)),
            check_same_outcome(dn, |of| of.add(dn, unit)),
            check_same_outcome(dn, |of| of.delete(dn)),
            check_same_outcome(dn, |of| of.modify(dn, change)),
            check_same_outcome(dn, |of| explain(of, "", "add", dn)),
        ] {
            assert_eq!(code, ResultCode::INVALID_DN_SYNTAX, "{dn}: {text}");
        }
    }
}

fn explain(directory: &mut TestDirectory, requester: &str, right: &str, entry: &str) -> crate::Outcome {
    let question = AccessQuestion {
        requester,
        right,
        entry,
        attribute: None,
        address: None,
        over_tls: false,
        bound_by: None,
        time: None,
        listener: None,
    };
    match access_question::answer(directory.snapshot.state(), &directory.requester, &question) {
        Err(outcome) => outcome,
        Ok(explanation) => crate::Outcome::new(ResultCode::SUCCESS, explanation.to_lines()),
    }
}

#[test]
fn aliases_identities_and_subordinates_do_not_reveal_hidden_entries() {
    let none = RequestControls::default();
    let (code, _) = check_same_outcome("an alias of a hidden referral", |of| {
        search(of, "cn=to,ou=people,dc=example,dc=com", &none)
    });
    assert_eq!(code, ResultCode::ALIAS_PROBLEM);
    let ghost = "dn:uid=ghost,ou=people,dc=example,dc=com";
    let (code, _) =
        check_same_outcome("the rights of a hidden user", |of| explain(of, ghost, "browse", PEOPLE));
    assert_eq!(code, ResultCode::NO_SUCH_OBJECT);
    // A persistent search is not refused because of a hidden alias.
    let persistent = PersistentSearch { change_types: 15, changes_only: true, returns_entry_changes: false };
    let follow = rare_controls(RareControls { persistent: Some(persistent), ..RareControls::default() });
    for has_hidden in [true, false] {
        let of = directory(has_hidden);
        let (filter, selection) = (FilterBuf::parse("(objectClass=*)").unwrap(), SelectionBuf::new());
        let mut request =
            SearchRequest::new(MIXED, Scope::WholeSubtree, filter.as_filter(), selection.as_selection());
        request.deref_aliases = ldap::DerefAliases::Always;
        let started = Search::start(&of.snapshot, &of.requester.context(), MessageId(1), &request, &follow);
        assert!(started.is_ok(), "{:?}", started.err());
    }
}

/// A requester who may delete entries learns that subordinates exist. A requester who may add entries learns that a
/// name is taken. The DNs of hidden entries, their spelling and their number stay hidden.
#[test]
fn a_refused_change_does_not_describe_hidden_entries() {
    let mut of = directory(true);
    act_as(&mut of, "cn=admin");
    let top = "ou=top,ou=mixed,dc=example,dc=com";
    let secret: &[(&str, &[&str])] =
        &[("objectClass", &["organizationalUnit"]), ("description", &["secret"])];
    ok(&mut of, |of| of.add(&format!("ou=Sub Unit,{top}"), secret));
    let deleted = |of: &mut TestDirectory| {
        act_as(of, &person("anna", PEOPLE));
        let plain = of.delete(top);
        let tree = rare_controls(RareControls { tree_delete: true, ..RareControls::default() });
        let stamp = of.stamp();
        let tree = of.execute_with(&Request::Delete(DeleteRequest { entry: top }), &tree, &stamp);
        [plain, tree]
    };
    let one = deleted(&mut of);
    assert_eq!(one.each_ref().map(|of| of.code.0), [66, 50], "{one:?}");
    let added = of.add(&format!("ou=SUB UNIT,{top}"), &[("objectClass", &["organizationalUnit"])]);
    assert_eq!(added.code, ResultCode::ENTRY_ALREADY_EXISTS);
    assert!(added.diagnostic.contains("SUB UNIT"), "{}", added.diagnostic);
    // The answers stay the same with more hidden entries, and with hidden referrals.
    act_as(&mut of, "cn=admin");
    ok(&mut of, |of| of.delete(&format!("ou=Sub Unit,{top}")));
    let referral: &[(&str, &[&str])] = &[
        ("objectClass", &["referral", "extensibleObject"]),
        ("ref", &["ldap://127.0.0.1:1/dc=x"]),
        ("description", &["secret"]),
    ];
    for name in ["sub unit", "other"] {
        ok(&mut of, |of| of.add(&format!("ou={name},{top}"), referral));
    }
    assert_eq!(deleted(&mut of), one);
    assert_eq!(of.add(&format!("ou=SUB UNIT,{top}"), &[("objectClass", &["organizationalUnit"])]), added);
    let renamed = of.modify_dn(&person("bert", PEOPLE), "ou=SUB UNIT", false, Some(top));
    assert_eq!(renamed.code, ResultCode::ENTRY_ALREADY_EXISTS, "{}", renamed.diagnostic);
}
