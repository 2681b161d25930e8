//! Types of the setting `secret_attributes`: no response depends on values of these types, except for the administrator
//! and for requesters to whom a rule that names the type applies.

use ldap::{CompareRequest, FilterBuf, ResultCode};

use super::list_view::value;
use super::sorted::sort;
use super::{Question, add};
use crate::access::Requester;
use crate::model::name::{NormalName, parse_dn};
use crate::read::compare::{CompareOutcome, compare};
use crate::read::controls::{
    DereferenceOptions, EffectiveRightsOptions, RareControls, RequestControls, SyncOptions,
};
use crate::testing::{SUFFIX, TestDirectory};

const SCHEMA: &str = "attributetype ( 1.2.3.1 NAME ( 'ntHash' 'otherHash' ) EQUALITY caseIgnoreIA5Match \
                      SUBSTR caseIgnoreIA5SubstringsMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.26 )\n\
                      attributetype ( 1.2.3.2 NAME 'ownHash' SUP ntHash )\n\
                      objectclass ( 1.2.3.3 NAME 'hashed' AUXILIARY MAY ( ntHash $ ownHash ) )\n";
const ADA: &str = "uid=ada,dc=example,dc=com";
const BOB: &str = "uid=bob,dc=example,dc=com";
const HEADS: &str = "cn=heads,dc=example,dc=com";

/// Returns a directory with these rules, in which ada and bob have these hashes; `None` for no hash.
fn directory(rules: &[&str], hashes: [Option<&str>; 2]) -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    directory.change_settings(|settings| {
        settings.schema.insert("hashes".to_owned(), SCHEMA.to_owned());
        settings.general.secret_attributes = ["unknown", "OTHERHASH"].map(str::to_owned).to_vec();
        settings.indexes.insert("ntHash".to_owned(), "equality,substring".parse().unwrap());
    });
    directory.change_settings(|settings| {
        settings.general.access_rules = rules.iter().map(|rule| (*rule).to_owned()).collect();
    });
    for (uid, hash) in ["ada", "bob"].into_iter().zip(hashes) {
        let hash: Vec<&str> = hash.into_iter().collect();
        let mut person: Vec<(&str, &[&str])> =
            vec![("objectClass", &["inetOrgPerson", "hashed"]), ("cn", &["x"]), ("sn", &["x"])];
        let hashes =
            ["ntHash", "otherHash;x-new", "ownHash", "1.2.3.2;lang-de"].map(|name| (name, &hash[..]));
        person.extend(hashes.iter().filter(|(_, hash)| !hash.is_empty()));
        add(&mut directory, &format!("uid={uid},{SUFFIX}"), &person);
    }
    add(&mut directory, HEADS, &[("objectClass", &["groupOfNames"]), ("member", &[ADA, BOB])]);
    directory
}

fn user(directory: &TestDirectory, dn: &str) -> Requester {
    let state = directory.snapshot.state();
    let name = NormalName::of(&parse_dn(dn).unwrap(), &state.catalog.schema);
    Requester::User { id: state.entry_of(&name).unwrap().unwrap(), dn: dn.to_owned() }
}

fn rare_controls(seldom: RareControls) -> RequestControls {
    RequestControls { seldom: Some(Box::new(seldom)), ..RequestControls::default() }
}

/// Returns the answers to searches with many filters and controls, to compares, and to requests with assertions. Each
/// answer could reveal hashes.
fn answers(directory: &mut TestDirectory) -> Vec<(String, Vec<u8>)> {
    const FILTERS: [&str; 12] = [
        "(objectClass=*)",
        "(ntHash=*)",
        "(ntHash=AAAA)",
        "(!(1.2.3.1=aaaa))",
        "(otherHash;x-new=AAAA)",
        "(ownHash;lang-de=A*)",
        "(ntHash~=AAAA)",
        "(nthash>=AAAB)",
        "(:caseIgnoreIA5Match:=AAAA)",
        "(ntHash:dn:caseIgnoreIA5Match:=AAAA)",
        "(|(uid=none)(&(uid=ada)(!(ownHash=BBBB))))",
        "(member:dn:=uid=ada,dc=example,dc=com)",
    ];
    let all = ["*", "+", "ntHash", "otherHash;x-new", "1.2.3.2", "@hashed", "OWNHASH;lang-de"];
    let matched = |item| vec![FilterBuf::parse(item).unwrap()];
    let specs = vec![("member".to_owned(), all.map(str::to_owned).to_vec())];
    let mut by_value = sort(&["ntHash"]);
    by_value.seldom.get_or_insert_default().window = Some(value(0, 9, "AAAB"));
    let controls = [
        RequestControls::default(),
        sort(&["ntHash", "uid"]),
        sort(&["-ownHash"]),
        by_value,
        rare_controls(RareControls { matched_values: matched("(ntHash=AAAA)"), ..RareControls::default() }),
        rare_controls(RareControls {
            matched_values: matched("(:caseIgnoreIA5Match:=AAAA)"),
            ..RareControls::default()
        }),
        rare_controls(RareControls {
            dereference: Some(DereferenceOptions { is_critical: true, specs }),
            ..RareControls::default()
        }),
        rare_controls(RareControls {
            effective_rights: Some(EffectiveRightsOptions {
                identity: None,
                attributes: vec!["ntHash".to_owned(), "ownHash".to_owned()],
            }),
            ..RareControls::default()
        }),
        rare_controls(RareControls {
            sync: Some(SyncOptions { persists: false, cookie: None }),
            ..RareControls::default()
        }),
    ];
    let mut answers = Vec::new();
    for (number, controls) in controls.iter().enumerate() {
        for filter in FILTERS {
            let question =
                Question { controls: controls.clone(), ..Question::everywhere(filter).attributes(&all) };
            let answer = question.answer(directory, false);
            let answer = answer.unwrap_or_else(|outcome| format!("{outcome:?}").into_bytes());
            answers.push((format!("{filter} with controls {number}"), answer));
        }
    }
    for (entry, description) in [ADA, BOB, HEADS].into_iter().flat_map(|dn| all.map(|name| (dn, name))) {
        let request = CompareRequest { entry, description, value: b"AAAA" };
        let compared = compare(
            &directory.snapshot,
            &directory.requester.context(),
            &request,
            &RequestControls::default(),
        );
        assert!(!matches!(compared, CompareOutcome::Verify { .. }));
        answers.push((format!("compare {description} of {entry}"), format!("{compared:?}").into_bytes()));
    }
    for assertion in ["(ntHash=AAAA)", "(!(ownHash=AAAA))", "(ntHash=*)"] {
        let controls = rare_controls(RareControls {
            assertion: Some(FilterBuf::parse(assertion).unwrap()),
            ..RareControls::default()
        });
        let question = Question { controls, base: ADA, ..Question::everywhere("(objectClass=*)") };
        let answer = question.answer(directory, false);
        answers.push((format!("asserting {assertion}"), format!("{answer:?}").into_bytes()));
    }
    answers
}

fn holds(answer: &[u8], text: &str) -> bool {
    answer.windows(text.len()).any(|window| window.eq_ignore_ascii_case(text.as_bytes()))
}

/// Regression test: every user could read hashes of Samba and keys of Kerberos.
#[test]
fn secrets_are_hidden_from_requesters_without_a_rule() {
    let mine = format!("mine: allow read, write of ntHash at '{ADA}' to user '{ADA}'");
    let situations: [(&[&str], Option<&str>); 6] = [
        (&[], None),
        (&[], Some(BOB)),
        (&["all: allow read to authenticated"], Some(BOB)),
        (&["all: allow read, write of *, +, @hashed to authenticated"], Some(BOB)),
        (&["all: allow read to authenticated", &mine], Some(BOB)),
        (&["all: allow read, write to authenticated", "no: deny read of ntHash to anyone"], Some(BOB)),
    ];
    // Most of these answers reveal the hashes to the administrator.
    let of_administrator =
        [["AAAA", "BBBB"], ["BBBB", "AAAA"]].map(|hashes| answers(&mut directory(&[], hashes.map(Some))));
    let revealing =
        of_administrator[0].iter().zip(&of_administrator[1]).filter(|(one, other)| one != other).count();
    assert!(revealing * 2 > of_administrator[0].len(), "{revealing} of {}", of_administrator[0].len());
    for (rules, dn) in situations {
        let run = |hashes| {
            let mut directory = directory(rules, hashes);
            directory.requester = dn.map_or(Requester::Anonymous, |dn| user(&directory, dn));
            answers(&mut directory)
        };
        let first = run([Some("AAAA"), Some("BBBB")]);
        assert!(dn.is_none() || first.iter().any(|(_, answer)| holds(answer, "uid=bob")), "{rules:?}");
        for others in [[Some("BBBB"), Some("AAAA")], [None, None], [Some("AAAA"), None]] {
            for ((request, one), (_, other)) in first.iter().zip(&run(others)) {
                let texts = [one, other].map(|answer| String::from_utf8_lossy(answer).into_owned());
                assert_eq!(texts[0], texts[1], "{request} under {rules:?}");
                let reveals = ["AAAA", "BBBB"].into_iter().any(|text| holds(one, text));
                assert!(!reveals, "{request} under {rules:?}: {}", texts[0]);
            }
        }
    }
}

/// A requester whose rule names the type has exactly the rights of the rule.
#[test]
fn a_rule_that_names_a_secret_grants_access_to_it() {
    const RULES: [&str; 3] = [
        "all: allow read to authenticated",
        "radius: allow read of ntHash in 'dc=example,dc=com' to user 'uid=bob,dc=example,dc=com'",
        "but: deny read of ownHash to anyone",
    ];
    let mut directory = directory(&RULES, [Some("AAAA"), Some("BBBB")]);
    directory.requester = user(&directory, BOB);
    let found = |directory: &TestDirectory, filter: &str, name: &str| {
        let found = Question::everywhere(filter).attributes(&["*"]).run(directory);
        found.entries.iter().flat_map(|entry| entry.texts(name)).collect::<Vec<_>>()
    };
    assert_eq!(found(&directory, "(ntHash=aaaa)", "ntHash"), ["AAAA"]);
    assert_eq!(found(&directory, "(ntHash=*)", "ntHash;x-new"), ["AAAA", "BBBB"]);
    assert!(found(&directory, "(uid=ada)", "ownHash").is_empty());
    let request = CompareRequest { entry: ADA, description: "otherHash", value: b"aaaa" };
    let run = |directory: &TestDirectory| match compare(
        &directory.snapshot,
        &directory.requester.context(),
        &request,
        &RequestControls::default(),
    ) {
        CompareOutcome::Done(outcome) => outcome.code,
        other => panic!("{other:?}"),
    };
    assert_eq!(run(&directory), ResultCode::COMPARE_TRUE);
    // The type is removed from the secrets, and added again.
    directory.change_settings(|settings| settings.general.secret_attributes.clear());
    directory.requester = user(&directory, ADA);
    assert_eq!(found(&directory, "(uid=bob)", "ntHash"), ["BBBB"]);
    directory.change_settings(|settings| settings.general.secret_attributes = vec!["1.2.3.1".to_owned()]);
    assert!(found(&directory, "(uid=bob)", "ntHash").is_empty());
    assert_eq!(run(&directory), ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
    directory.requester = Requester::Administrator { dn: "cn=admin".to_owned() };
    assert_eq!(found(&directory, "(uid=bob)", "ownHash"), ["BBBB"]);
    // No rule can grant access to the values with which the server verifies passwords.
    let rule = "pw: allow read of userPassword, ntHash to authenticated".to_owned();
    directory.change_settings(|settings| settings.general.access_rules = vec![rule]);
    let set = (ldap::ChangeOperation::Replace, "userPassword", &["{SSHA}x"][..]);
    assert_eq!(directory.modify(ADA, &[set]).code, ResultCode::SUCCESS);
    directory.requester = user(&directory, BOB);
    assert!(found(&directory, "(objectClass=*)", "userPassword").is_empty());
    assert_eq!(found(&directory, "(ntHash=aaaa)", "ntHash"), ["AAAA"]);
}

/// Secrets are allowed neither in DNs nor in filters of rules, because DNs are visible and the effects of the rules
/// would reveal the values.
#[test]
fn secrets_are_refused_in_dns_and_in_filters_of_rules() {
    let mut directory = directory(&[], [Some("AAAA"), None]);
    let refused = |outcome: crate::model::outcome::Outcome, text: &str| {
        assert!(outcome.code != ResultCode::SUCCESS && outcome.diagnostic.contains(text), "{outcome:?}");
    };
    let new: &[(&str, &[&str])] =
        &[("objectClass", &["inetOrgPerson", "hashed"]), ("cn", &["x"]), ("sn", &["x"])];
    refused(directory.add("ownHash=CCCC,dc=example,dc=com", new), "ownHash is a secret");
    refused(directory.modify_dn(ADA, "ntHash=AAAA", false, None), "ntHash is a secret");
    let mut settings = |change: fn(&mut crate::model::settings::GeneralSettings), text: &str| {
        let error = directory.try_change_settings(|settings| change(&mut settings.general)).unwrap_err();
        assert!(format!("{error:?}").contains(text), "{error:?}");
    };
    settings(
        |of| of.access_rules = vec!["x: allow read matching '(ownHash=A)' to authenticated".to_owned()],
        "is a secret",
    );
    settings(|of| of.identity_attributes = vec!["ntHash".to_owned()], "it is a secret");
    settings(|of| of.secret_attributes = vec!["member".to_owned()], "cannot be a secret");
    settings(|of| of.secret_attributes = vec!["objectClass".to_owned()], "cannot be a secret");
    settings(|of| of.secret_attributes = vec!["distinguishedName".to_owned()], "cannot be a secret");
    settings(|of| of.secret_attributes = vec!["memberOf".to_owned()], "cannot be a secret");
    settings(|of| of.secret_attributes = vec!["two words".to_owned()], "is not the name");
}
