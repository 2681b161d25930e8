//! Tests of bases, scopes, aliases and referrals, and of their visibility.

use ldap::{AttributesBuf, DerefAliases, ResultCode, Scope};

use super::{Question, add, leaves, sample};
use crate::access::Requester;
use crate::model::settings::GeneralSettings;
use crate::read::controls::{RareControls, RequestControls};
use crate::testing::{SUFFIX, TestDirectory};

const PEOPLE: &str = "ou=people,dc=example,dc=com";

#[test]
fn each_scope_selects_its_entries() {
    let directory = sample();
    let check = |base, scope, filter, expected: &[&str]| {
        let found = Question::new(base, scope, filter).run(&directory);
        assert_eq!(leaves(&found), expected, "{scope:?} {base:?} {filter}");
    };
    let people: &[&str] = &["cn=Dora+sn=Lang", "uid=ada", "uid=bob", "uid=carl"];
    check(PEOPLE, Scope::BaseObject, "(objectClass=*)", &["ou=people"]);
    check(PEOPLE, Scope::BaseObject, "(uid=ada)", &[]);
    check(PEOPLE, Scope::SingleLevel, "(objectClass=*)", people);
    check(PEOPLE, Scope::SingleLevel, "(uid=ada)", &["uid=ada"]);
    check(PEOPLE, Scope::Subordinate, "(objectClass=*)", people);
    check(SUFFIX, Scope::SingleLevel, "(objectClass=*)", &["ou=groups", "ou=people"]);
    check(SUFFIX, Scope::SingleLevel, "(uid=ada)", &[]);
    check("ou=groups,dc=example,dc=com", Scope::WholeSubtree, "(uid=ada)", &[]);
    check("ou=groups,dc=example,dc=com", Scope::WholeSubtree, "(cn=all)", &["cn=all"]);
    check("", Scope::SingleLevel, "(objectClass=*)", &["dc=example"]);
    check("", Scope::WholeSubtree, "(uid=ada)", &["uid=ada"]);
    check("", Scope::Subordinate, "(ou=*)", &["ou=groups", "ou=people"]);
}

#[test]
fn missing_bases_report_the_matched_dn() {
    let directory = sample();
    let check = |base, code, matched| {
        let found = Question::new(base, Scope::BaseObject, "(objectClass=*)").run(&directory);
        assert_eq!(
            (found.code, found.matched_dn.as_str()),
            (code, matched),
            "{base:?}: {}",
            found.diagnostic
        );
        assert_ne!(found.diagnostic, "");
    };
    check("uid=nobody,ou=people,dc=example,dc=com", ResultCode::NO_SUCH_OBJECT, PEOPLE);
    check("cn=x,uid=nobody,OU=People,dc=example,dc=com", ResultCode::NO_SUCH_OBJECT, PEOPLE);
    check("dc=elsewhere", ResultCode::NO_SUCH_OBJECT, "");
    check("no dn", ResultCode::INVALID_DN_SYNTAX, "");
    // No entry can have such a name.
    check("nonsense=x,dc=example,dc=com", ResultCode::INVALID_DN_SYNTAX, "");
}

fn with_aliases() -> TestDirectory {
    let mut directory = sample();
    let alias = |target| [("objectClass", &["alias", "extensibleObject"][..]), ("aliasedObjectName", target)];
    let groups = "ou=groups,dc=example,dc=com";
    add(&mut directory, &format!("cn=to people,{groups}"), &alias(&[PEOPLE]));
    add(&mut directory, &format!("cn=to ada,{groups}"), &alias(&["uid=ada,ou=people,dc=example,dc=com"]));
    add(&mut directory, &format!("cn=broken,{groups}"), &alias(&["cn=ghost,dc=example,dc=com"]));
    add(&mut directory, &format!("cn=a,{groups}"), &alias(&["cn=b,ou=groups,dc=example,dc=com"]));
    add(&mut directory, &format!("cn=b,{groups}"), &alias(&["cn=a,ou=groups,dc=example,dc=com"]));
    directory
}

#[test]
fn aliases_are_followed_to_find_the_base() {
    let directory = with_aliases();
    let run = |base: &str, deref_aliases| {
        Question { deref_aliases, ..Question::new(base, Scope::BaseObject, "(objectClass=*)") }
            .run(&directory)
    };
    let check =
        |base, mode, expected: &[&str]| assert_eq!(leaves(&run(base, mode)), expected, "{base} {mode:?}");
    let fails = |base: &str, mode, code, matched| {
        let found = run(base, mode);
        assert_eq!(
            (found.code, found.matched_dn.as_str()),
            (code, matched),
            "{base} {mode:?}: {}",
            found.diagnostic
        );
    };
    use DerefAliases::{Always, FindingBase, InSearching, Never};
    let to_ada = "cn=to ada,ou=groups,dc=example,dc=com";
    check(to_ada, Never, &["cn=to ada"]);
    check(to_ada, InSearching, &["cn=to ada"]);
    check(to_ada, FindingBase, &["uid=ada"]);
    check(to_ada, Always, &["uid=ada"]);
    check("uid=bob,cn=to people,ou=groups,dc=example,dc=com", Always, &["uid=bob"]);
    let to_people = "cn=to people,ou=groups,dc=example,dc=com";
    fails(&format!("uid=bob,{to_people}"), Never, ResultCode::NO_SUCH_OBJECT, to_people);
    let broken = "cn=broken,ou=groups,dc=example,dc=com";
    fails(broken, Always, ResultCode::ALIAS_PROBLEM, broken);
    let circle = "cn=a,ou=groups,dc=example,dc=com";
    fails(circle, Always, ResultCode::ALIAS_DEREFERENCING_PROBLEM, circle);
}

#[test]
fn aliases_are_followed_while_searching() {
    let directory = with_aliases();
    let groups = "ou=groups,dc=example,dc=com";
    let check = |scope, deref_aliases, filter, expected: &[&str]| {
        let found = Question { deref_aliases, ..Question::new(groups, scope, filter) }.run(&directory);
        assert_eq!(leaves(&found), expected, "{scope:?} {deref_aliases:?} {filter}");
    };
    use DerefAliases::{Always, FindingBase, InSearching};
    use Scope::{SingleLevel, Subordinate, WholeSubtree};
    let person = "(objectClass=person)";
    check(WholeSubtree, InSearching, person, &["cn=Dora+sn=Lang", "uid=ada", "uid=bob", "uid=carl"]);
    check(Subordinate, Always, person, &["cn=Dora+sn=Lang", "uid=ada", "uid=bob", "uid=carl"]);
    check(WholeSubtree, FindingBase, person, &[]);
    check(SingleLevel, InSearching, person, &["uid=ada"]);
    check(SingleLevel, Always, "(objectClass=*)", &["cn=all", "cn=few", "cn=odd", "ou=people", "uid=ada"]);
    check(WholeSubtree, InSearching, "(uid=ada)", &["uid=ada"]);
    check(WholeSubtree, InSearching, "(objectClass=alias)", &[]);
    check(WholeSubtree, FindingBase, "(cn=to*)", &["cn=to ada", "cn=to people"]);
}

/// Regression test: a search tested every alias again after each alias that it followed, with cubic work for aliases
/// that lead from container to container. This test took minutes.
#[test]
fn a_long_way_of_aliases_is_followed_in_proportion_to_its_length() {
    const COUNT: u32 = 2_000;
    let mut directory = sample();
    let unit = |number: u32| format!("ou=u{number},{SUFFIX}");
    directory.add_all(0..COUNT, |number| {
        let mut attributes = AttributesBuf::new();
        attributes.push("objectClass", ["organizationalUnit"]);
        (unit(number), attributes)
    });
    directory.add_all(0..COUNT, |number| {
        let mut attributes = AttributesBuf::new();
        attributes.push("objectClass", ["alias", "extensibleObject"]);
        // The last alias leads back to the base.
        attributes.push("aliasedObjectName", [unit((number + 1) % COUNT)]);
        (format!("cn=next,{}", unit(number)), attributes)
    });
    for (scope, expected) in
        [(Scope::WholeSubtree, COUNT), (Scope::Subordinate, COUNT), (Scope::SingleLevel, 1)]
    {
        let base = unit(0);
        let question = Question::new(&base, scope, "(objectClass=*)");
        let found = Question { deref_aliases: DerefAliases::InSearching, ..question }.run(&directory);
        assert_eq!((found.code, found.entries.len()), (ResultCode::SUCCESS, expected as usize), "{scope:?}");
    }
}

/// An alias that leads above a container whose aliases were followed before does not follow them again.
#[test]
fn a_container_of_aliases_is_reached_in_two_ways() {
    let mut directory = sample();
    fn alias<'t>(target: &'t [&str]) -> [(&'static str, &'t [&'t str]); 2] {
        [("objectClass", &["alias", "extensibleObject"]), ("aliasedObjectName", target)]
    }
    let inner = "ou=inner,ou=people,dc=example,dc=com";
    add(&mut directory, inner, &[("objectClass", &["organizationalUnit"])]);
    let base = "ou=base,dc=example,dc=com";
    add(&mut directory, base, &[("objectClass", &["organizationalUnit"])]);
    add(&mut directory, &format!("cn=first,{base}"), &alias(&[inner]));
    add(&mut directory, &format!("cn=second,{inner}"), &alias(&[PEOPLE]));
    add(&mut directory, &format!("cn=third,{PEOPLE}"), &alias(&["ou=groups,dc=example,dc=com"]));
    let question = Question::new(base, Scope::WholeSubtree, "(objectClass=*)");
    let found = Question { deref_aliases: DerefAliases::InSearching, ..question }.run(&directory);
    let all =
        &["cn=Dora+sn=Lang", "cn=all", "cn=few", "cn=odd", "ou=base", "ou=groups", "ou=inner", "ou=people"];
    assert_eq!(leaves(&found), [&all[..], &["uid=ada", "uid=bob", "uid=carl"]].concat());
}

fn with_referrals() -> TestDirectory {
    let mut directory = sample();
    let referral =
        |urls| [("objectClass", &["referral", "extensibleObject"][..]), ("ou", &["away"]), ("ref", urls)];
    let urls: &[&str] =
        &["ldap://hostb/ou=far,dc=example,dc=org the other house", "ldap://hostc", "https://x/y"];
    add_managing(&mut directory, "ou=away,ou=people,dc=example,dc=com", &referral(urls));
    directory
}

/// Adds an entry with ManageDsaIT.
fn add_managing(directory: &mut TestDirectory, dn: &str, attributes: super::Attributes<'_>) {
    let mut buffer = ldap::AttributesBuf::new();
    attributes.iter().for_each(|(name, values)| buffer.push(name, values.iter()));
    let request = ldap::Request::Add(ldap::AddRequest { entry: dn, attributes: buffer.as_attributes() });
    let stamp = directory.stamp();
    let controls = RequestControls { manage_dsa_it: true, ..RequestControls::default() };
    let outcome = directory.execute_with(&request, &controls, &stamp);
    assert_eq!(outcome.code, ResultCode::SUCCESS, "{}", outcome.diagnostic);
}

#[test]
fn a_base_at_or_below_a_referral_results_in_the_referral() {
    let directory = with_referrals();
    let away = "ou=away,ou=people,dc=example,dc=com";
    let check = |base: &str, scope, expected: &[&str]| {
        let found = Question::new(base, scope, "(objectClass=*)").run(&directory);
        assert_eq!((found.code, found.matched_dn.as_str()), (ResultCode::REFERRAL, away), "{base}");
        assert_eq!(found.references, expected, "{base}");
    };
    check(
        away,
        Scope::BaseObject,
        &[
            "ldap://hostb/ou=far,dc=example,dc=org??base",
            "ldap://hostc/ou=away,ou=people,dc=example,dc=com??base",
            "https://x/y",
        ],
    );
    check(
        "cn=a,cn=b,ou=away,ou=people,dc=example,dc=com",
        Scope::WholeSubtree,
        &[
            "ldap://hostb/cn=a,cn=b,ou=far,dc=example,dc=org??sub",
            "ldap://hostc/cn=a,cn=b,ou=away,ou=people,dc=example,dc=com??sub",
            "https://x/y",
        ],
    );
}

#[test]
fn searches_return_references_for_referrals_in_scope() {
    let directory = with_referrals();
    let run = |scope, manages| {
        let controls = RequestControls { manage_dsa_it: manages, ..RequestControls::default() };
        Question { controls, ..Question::new(PEOPLE, scope, "(ou=*)") }.run(&directory)
    };
    let found = run(Scope::WholeSubtree, false);
    assert_eq!(leaves(&found), ["ou=people"]);
    assert_eq!(
        found.references,
        [
            "ldap://hostb/ou=far,dc=example,dc=org??sub",
            "ldap://hostc/ou=away,ou=people,dc=example,dc=com??sub",
            "https://x/y"
        ]
    );
    let found = run(Scope::SingleLevel, false);
    assert_eq!(leaves(&found), [""; 0]);
    assert_eq!(found.references[0], "ldap://hostb/ou=far,dc=example,dc=org??base");
    let found = run(Scope::WholeSubtree, true);
    assert_eq!(leaves(&found), ["ou=away", "ou=people"]);
    assert_eq!(found.references, [""; 0]);
    // With the domain scope control, a search returns only local entries. A referral entry is still not a result.
    let seldom = Some(Box::new(RareControls { domain_scope: true, ..RareControls::default() }));
    let controls = RequestControls { seldom, ..RequestControls::default() };
    let found = Question { controls, ..Question::new(PEOPLE, Scope::WholeSubtree, "(ou=*)") }.run(&directory);
    assert_eq!((leaves(&found), found.references), (vec!["ou=people".to_owned()], Vec::new()));
}

/// Regression test: an alias in scope that leads to another server was skipped as if it had no target, and the search
/// succeeded.
#[test]
fn an_alias_to_another_server_results_in_a_reference() {
    let mut directory = with_referrals();
    let groups = "ou=groups,dc=example,dc=com";
    let away = "ou=away,ou=people,dc=example,dc=com";
    for (name, target) in [("to away", away), ("too", away), ("to one", &format!("cn=one,{away}"))] {
        let classes = &["alias", "extensibleObject"][..];
        let alias = [("objectClass", classes), ("aliasedObjectName", &[target])];
        add(&mut directory, &format!("cn={name},{groups}"), &alias);
    }
    let run = |base, scope, manages, domain_scope| {
        let seldom = Some(Box::new(RareControls { domain_scope, ..RareControls::default() }));
        let controls = RequestControls { manage_dsa_it: manages, seldom, ..RequestControls::default() };
        let question = Question { controls, ..Question::new(base, scope, "(ou=away)") };
        Question { deref_aliases: DerefAliases::InSearching, ..question }.run(&directory)
    };
    let to = |scope| {
        let urls = [
            format!("ldap://hostb/ou=far,dc=example,dc=org??{scope}"),
            format!("ldap://hostc/{away}??{scope}"),
            "https://x/y".to_owned(),
            format!("ldap://hostb/cn=one,ou=far,dc=example,dc=org??{scope}"),
            format!("ldap://hostc/cn=one,{away}??{scope}"),
            "https://x/y".to_owned(),
        ];
        std::collections::BTreeSet::from(urls)
    };
    for (scope, there) in
        [(Scope::SingleLevel, "base"), (Scope::WholeSubtree, "sub"), (Scope::Subordinate, "sub")]
    {
        let found = run(groups, scope, false, false);
        assert_eq!(found.code, ResultCode::SUCCESS);
        assert_eq!(found.references.len(), 6, "{:?}", found.references);
        assert_eq!(found.references.into_iter().collect::<std::collections::BTreeSet<_>>(), to(there));
    }
    // A referral entry that is itself in scope is referenced only once, even if aliases lead to it.
    let found = run(SUFFIX, Scope::WholeSubtree, false, false);
    assert_eq!(found.references.len(), 6, "{:?}", found.references);
    assert_eq!(run(groups, Scope::WholeSubtree, false, true).references, [""; 0]);
    // With ManageDsaIT the alias leads to the entry, and a search sends no references (RFC 3296 section 3).
    let found = run(groups, Scope::WholeSubtree, true, false);
    assert_eq!((found.dns(), found.references.len()), (vec![away], 0));
}

/// Regression test: with ManageDsaIT, an alias to a name below a referral resulted in aliasProblem, although that name
/// itself results in a referral.
#[test]
fn an_alias_to_a_name_below_a_referral_results_in_the_referral() {
    let mut directory = with_referrals();
    let away = "ou=away,ou=people,dc=example,dc=com";
    let (one, alias) = (format!("cn=one,{away}"), "cn=alias,ou=groups,dc=example,dc=com");
    let attributes = [("objectClass", &["alias", "extensibleObject"][..]), ("aliasedObjectName", &[&one])];
    add(&mut directory, alias, &attributes);
    for manages in [false, true] {
        let run = |base: &str| {
            let controls = RequestControls { manage_dsa_it: manages, ..RequestControls::default() };
            let question = Question::new(base, Scope::BaseObject, "(objectClass=*)");
            let question = Question { controls, deref_aliases: DerefAliases::Always, ..question };
            let found = question.run(&directory);
            (found.code, found.matched_dn.clone(), found.references)
        };
        let (code, matched, urls) = run(&one);
        assert_eq!((code, matched.as_str()), (ResultCode::REFERRAL, away));
        assert_eq!(run(alias), (code, matched.clone(), urls));
        let below = run(&format!("cn=two,{alias}"));
        assert_eq!(below.2[0], "ldap://hostb/cn=two,cn=one,ou=far,dc=example,dc=org??base", "{manages}");
    }
}

#[test]
fn anonymous_clients_see_the_root_dse_and_the_schema() {
    let mut directory = sample();
    directory.requester = Requester::Anonymous;
    let check = |base, scope, code| {
        let found = Question::new(base, scope, "(objectClass=*)").run(&directory);
        assert_eq!(found.code, code, "{base:?} {scope:?}");
    };
    check("", Scope::BaseObject, ResultCode::SUCCESS);
    check("cn=subschema", Scope::BaseObject, ResultCode::SUCCESS);
    check("cn=monitor", Scope::BaseObject, ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
    check("", Scope::WholeSubtree, ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
    check(SUFFIX, Scope::BaseObject, ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
    // Anonymous clients receive the same code for an existing and for a missing entry.
    check("cn=nobody,dc=example,dc=com", Scope::BaseObject, ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
    check("no dn", Scope::BaseObject, ResultCode::INVALID_DN_SYNTAX);
}

#[test]
fn a_setting_opens_the_tree_to_anonymous_clients_but_no_passwords() {
    let settings = GeneralSettings { anonymous_read: true, ..GeneralSettings::default() };
    let mut directory = TestDirectory::with_settings(settings);
    add(&mut directory, SUFFIX, &[("objectClass", &["domain"]), ("dc", &["example"])]);
    let person: super::Attributes<'_> =
        &[("objectClass", &["person"]), ("sn", &["x"]), ("userPassword", &["{SSHA}AAAA"])];
    add(&mut directory, "cn=ada,dc=example,dc=com", person);
    directory.requester = Requester::Anonymous;
    let found = Question::everywhere("(cn=ada)").attributes(&["sn", "userPassword"]).run(&directory);
    assert_eq!(found.entries[0].attributes.keys().collect::<Vec<_>>(), ["sn"]);
    assert_eq!(leaves(&Question::everywhere("(userPassword=*)").run(&directory)), [""; 0]);
    let found = Question::new("cn=monitor", Scope::BaseObject, "(&)").run(&directory);
    assert_eq!(found.code, ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
}

#[test]
fn subentries_are_visible_only_with_the_subentries_control() {
    let mut directory = sample();
    let subentry: super::Attributes<'_> =
        &[("objectClass", &["subentry", "extensibleObject"]), ("subtreeSpecification", &["{}"])];
    add(&mut directory, "cn=sub,ou=people,dc=example,dc=com", subentry);
    let run = |base, scope, subentries| {
        let controls = RequestControls { subentries, ..RequestControls::default() };
        leaves(&Question { controls, ..Question::new(base, scope, "(cn=*)") }.run(&directory))
    };
    let people = ["cn=Dora+sn=Lang", "uid=ada", "uid=bob", "uid=carl"];
    assert_eq!(run(PEOPLE, Scope::WholeSubtree, None), people);
    assert_eq!(run(PEOPLE, Scope::SingleLevel, Some(false)), people);
    assert_eq!(run(PEOPLE, Scope::WholeSubtree, Some(true)), ["cn=sub"]);
    assert_eq!(run("cn=sub,ou=people,dc=example,dc=com", Scope::BaseObject, None), ["cn=sub"]);
}
