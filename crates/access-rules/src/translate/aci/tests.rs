//! Tests of `aci` values. Some values are in the style of servers' default rules. Other values are made to mislead the
//! parser.

use directory::access::{AccessRule, RequesterSpec};

use super::super::{Translation, translate};

fn translate_values(values: &[&str]) -> Translation {
    let lines: String = values.iter().map(|value| format!("aci: {value}\n")).collect();
    translate(&format!("dn: dc=x\n{lines}"))
}

/// Checks values of the entry `dc=x`. Each pair has a value, and either the expected rules or a part of the expected
/// reason for the omission.
fn check(pairs: &[(&str, Result<&[&str], &str>)]) {
    for (value, expected) in pairs {
        let found = translate_values(&[value]);
        match expected {
            Ok(rules) => {
                assert_eq!(found.rules, *rules, "{value}: {:?}", found.left_out);
                assert_eq!(found.left_out, [], "{value}");
            }
            Err(why) => {
                assert_eq!(found.rules, [""; 0], "{value}");
                let reasons: Vec<_> = found.left_out.iter().map(ToString::to_string).collect();
                assert!(reasons.len() == 1 && reasons[0].contains(why), "{value}: {reasons:?}");
            }
        }
    }
}

/// Values in the style of the default `aci` values of 389 DS.
#[test]
fn aci_values_of_389_ds_are_translated() {
    check(&[
        (
            "(targetattr=\"dc || description || objectClass\")(targetfilter=\"(objectClass=domain)\")(version 3.0; \
             acl \"Domains to all\"; allow (read, search, compare)(userdn=\"ldap:///anyone\");)",
            Ok(&["Domains to all: allow read of dc, description, objectClass in 'dc=x' \
                  matching '(objectClass=domain)' to anyone"]),
        ),
        (
            "(targetattr=\"carLicense || mobile || userPassword\")(version 3.0; acl \"Own entry\"; \
             allow (write) userdn = \"ldap:///self\";)",
            Ok(&[
                "Own entry: allow write of carLicense, mobile, userPassword in 'dc=x' to self",
                "Own entry 2: allow rename in 'dc=x' to self",
            ]),
        ),
        (
            "(targetattr != \"userPassword || aci\")(version 3.0;acl \"Group of administrators\";\
             allow (all) (groupdn = \"ldap:///cn=Directory Administrators, dc=x\");)",
            Ok(&[
                "Group of administrators: allow read, write of * but not of userPassword, aci in 'dc=x' \
                 to group 'cn=Directory Administrators, dc=x'",
                "Group of administrators 2: allow add, delete, rename in 'dc=x' \
                 to group 'cn=Directory Administrators, dc=x'",
            ]),
        ),
        (
            "(target=\"ldap:///ou=groups,dc=x\")(targetattr = \"cn || member\")(targetscope = \"onelevel\")\
             (version 3.0; acl \"Groups\"; allow (search, compare) userdn=\"ldap:///all\" and ip=\"10.1.*\";)",
            Ok(&[
                "Groups: allow search, compare of cn, member children of 'ou=groups,dc=x' to authenticated \
                  from '10.1.0.0/16'",
            ]),
        ),
        (
            "(target=\"ldap:///cn=monitor*\")(targetattr=\"*\")(version 3.0; acl \"Monitor\"; \
             allow (read, search, compare) userdn=\"ldap:///anyone\";)",
            Err("is a pattern, a search, or a macro"),
        ),
        (
            "(target=\"ldap:///ou=other,dc=y\")(targetattr=\"*\")(version 3.0; acl \"Elsewhere\"; \
             allow (read, search, compare) userdn=\"ldap:///anyone\";)",
            Err("its target is not at or below the entry"),
        ),
        (
            "(targetattr=\"*\")(version 3.0; acl \"Roles\"; allow (read) roledn=\"ldap:///cn=r,dc=x\";)",
            Err("roledn = \"ldap:///cn=r,dc=x\" cannot be expressed here"),
        ),
        (
            "(targetattr=\"*\")(version 3.0; acl \"Not\"; deny (write) userdn!=\"ldap:///cn=a,dc=x\";)",
            Err("a negation; what it denies stays open where another rule allows it"),
        ),
        (
            "(targetattr=\"*\")(version 3.0; acl \"Two\"; allow (read, search, compare) userdn=\"ldap:///all\"; \
             deny (write) groupdn=\"ldap:///cn=g,dc=x\" and userdn=\"ldap:///all\";)",
            Err("that hold together; the whole aci is left out; what it denies stays open"),
        ),
    ]);
}

/// Values in the style of FreeIPA: permissions for groups below `cn=pbac`, and rules for hosts and users on their own
/// entries.
#[test]
fn aci_values_of_freeipa_are_translated() {
    check(&[
        (
            "(targetattr = \"cn || objectclass\")(targetfilter = \"(objectclass=nscontainer)\")(version 3.0; \
             acl \"Containers for all\"; allow(read, search, compare) userdn = \"ldap:///anyone\";)",
            Ok(&["Containers for all: allow read of cn, objectclass in 'dc=x' \
                  matching '(objectclass=nscontainer)' to anyone"]),
        ),
        (
            "(targetattr != \"userPassword || krbPrincipalKey || ipaNTHash\")(version 3.0; acl \"Admins: all else\"; \
             allow (delete, add, read, search, compare, write) groupdn = \"ldap:///cn=admins,cn=groups,dc=x\";)",
            Ok(&[
                "Admins  all else: allow read, write of * but not of userPassword, krbPrincipalKey, ipaNTHash \
                 in 'dc=x' to group 'cn=admins,cn=groups,dc=x'",
                "Admins  all else 2: allow add, delete, rename in 'dc=x' to group 'cn=admins,cn=groups,dc=x'",
            ]),
        ),
        (
            "(target = \"ldap:///cn=users,cn=accounts,dc=x\")(targetfilter = \"(objectclass=posixaccount)\")\
             (targetattr = \"displayname || gecos\")(version 3.0;acl \"permission:System: Change Users\";\
             allow (write) groupdn = \"ldap:///cn=System: Change Users,cn=permissions,cn=pbac,dc=x\";)",
            Ok(&[
                "permission System  Change Users: allow write of displayname, gecos \
                 in 'cn=users,cn=accounts,dc=x' matching '(objectclass=posixaccount)' \
                 to group 'cn=System: Change Users,cn=permissions,cn=pbac,dc=x'",
                "permission System  Change Users 2: allow rename in 'cn=users,cn=accounts,dc=x' \
                 matching '(objectclass=posixaccount)' \
                 to group 'cn=System: Change Users,cn=permissions,cn=pbac,dc=x'",
            ]),
        ),
        (
            "(targetattr = \"usercertificate\")(version 3.0;acl \"Managers\";allow(write) \
             userattr = \"parent[0,1].managedby#USERDN\";)",
            Err("names whom no rule can name here"),
        ),
        (
            "(targetattr = \"member\")(version 3.0;acl \"Member managers\";allow(write) \
             userattr = \"memberManager#USERDN\" or userattr = \"memberManager#GROUPDN\";)",
            Err("names whom no rule can name here"),
        ),
        (
            "(targetattr = \"mail\")(version 3.0;acl \"Managed by\";allow(read,search,compare) \
             userattr = \"managedby#USERDN\" or userdn = \"ldap:///self\";)",
            Ok(&["Managed by: allow read of mail in 'dc=x' to named by managedby, self"]),
        ),
        (
            "(targetattr=\"ipaProtectedOperation;read_keys\")(version 3.0; acl \"Keys\"; \
             allow(read) userattr=\"managedby#USERDN\";)",
            Err("is no name of an attribute type"),
        ),
        (
            "(target_to=\"ldap:///cn=a,dc=x\")(target_from=\"ldap:///cn=b,dc=x\")(version 3.0; acl \"Moves\"; \
             allow (moddn) groupdn=\"ldap:///cn=g,dc=x\";)",
            Err("cannot be chosen in this way here"),
        ),
        (
            "(targetattr=\"*\")(version 3.0; acl \"Moves\"; allow (moddn) groupdn=\"ldap:///cn=g,dc=x\";)",
            Err("\"moddn\" is no right here"),
        ),
        (
            "(targattrfilters=\"add=objectclass:(objectclass=ipahost)\")(version 3.0; acl \"Class\"; \
             allow (write) userdn=\"ldap:///all\";)",
            Err("other values may be added than deleted"),
        ),
        (
            "(targetattr = \"cn\")(version 3.0; acl \"Macro\"; allow(read,search,compare) \
             userdn = \"ldap:///fqdn=($dn),dc=x\";)",
            Err("is a pattern, a search, or a macro"),
        ),
        (
            "(targetattr = \"cn\")(version 3.0; acl \"Host\"; allow(read,search,compare) \
             userdn = \"ldap:///fqdn=a.x,cn=computers,dc=x\";)",
            Ok(&["Host: allow read of cn in 'dc=x' to user 'fqdn=a.x,cn=computers,dc=x'"]),
        ),
        (
            "(targetattr = \"*\")(version 3.0; acl \"No anonymous\"; deny (read,search,compare) \
             userdn != \"ldap:///all\";)",
            Err("a negation"),
        ),
    ]);
}

/// ACIs in the style of OpenDJ. Such ACIs are in OpenDJ's configuration and apply to all entries.
#[test]
fn aci_values_of_opendj_are_translated() {
    let global = |value: &str| translate(&format!("dn: cn=Handler,cn=config\nds-cfg-global-aci: {value}\n"));
    let who = "userdn=\"ldap:///anyone\"";
    for (value, expected) in [
        (
            format!("(extop=\"1.3.6.1.4.1.4203.1.11.1 || 1.3.6.1.4.1.4203.1.11.3\")(version 3.0; acl \"Anonymous \
                     operations\"; allow(read) {who};)"),
            Ok(vec!["Anonymous operations: allow use of 1.3.6.1.4.1.4203.1.11.1, 1.3.6.1.4.1.4203.1.11.3 to anyone"]),
        ),
        (
            format!("(targetattr!=\"userPassword||authPassword\")(version 3.0; acl \"Reading\"; \
                     allow (read,search,compare) {who};)"),
            Ok(vec!["Reading: allow read of * but not of userPassword, authPassword to anyone"]),
        ),
        (
            "(targetattr=\"audio||userPassword\")(version 3.0; acl \"Self\"; allow (write) userdn=\"ldap:///self\";)"
                .to_owned(),
            Ok(vec!["Self: allow write of audio, userPassword to self", "Self 2: allow rename to self"]),
        ),
        (
            format!("(target=\"ldap:///cn=schema\")(targetscope=\"base\")(targetattr=\"attributeTypes||objectClasses\")\
                     (version 3.0; acl \"Schema\"; allow (read,search,compare) {who};)"),
            Ok(vec!["Schema: allow read of attributeTypes, objectClasses at 'cn=schema' to anyone"]),
        ),
        (
            format!("(target=\"ldap:///\")(targetscope=\"base\")(targetattr=\"namingContexts||supportedControl\")\
                     (version 3.0; acl \"Root\"; allow (read,search,compare) {who};)"),
            Err("it is about the root DSE"),
        ),
        (
            format!("(targetcontrol=\"1.2.3\")(targetattr=\"cn\")(version 3.0; acl \"Both\"; allow (read) {who};)"),
            Err("about controls or operations, and about entries as well"),
        ),
        (
            format!("(targetattr=\"+\")(version 3.0; acl \"Operational\"; allow (read,search,compare) {who};)"),
            Ok(vec!["Operational: allow read of + to anyone"]),
        ),
    ] {
        let found = global(&value);
        match expected {
            Ok(rules) => assert_eq!(found.rules, rules, "{value}: {:?}", found.left_out),
            Err(why) => {
                assert!(found.rules.is_empty(), "{value}");
                assert!(found.left_out.iter().any(|left_out| left_out.why.contains(why)), "{value}: {found:?}");
            }
        }
    }
}

#[test]
fn separators_in_quotes_do_not_separate() {
    let all = "allow (read, search, compare)";
    check(&[
        // A semicolon in the DN must not end the DN. Otherwise the rule would apply to another DN.
        (
            "(targetattr=\"title\")(version 3.0; acl \"no title\"; deny (read) \
                 userdn = \"ldap:///cn=Ito\\; Ken,ou=people,dc=x\";)",
            Ok(&["no title: deny read of title in 'dc=x' to user 'cn=Ito\\; Ken,ou=people,dc=x'"][..]),
        ),
        (
            &format!(
                "(targetattr=\"cn\")(version 3.0; acl \"a; deny (all) b\"; {all} userdn=\"ldap:///all\";)"
            ),
            Ok(&["a; deny (all) b: allow read of cn in 'dc=x' to authenticated"]),
        ),
        (
            &format!(
                "(targetattr=\"cn\")(version 3.0; acl \"a\"; {all} userdn=\"ldap:///uid=b;ou=c;dc=x\";)"
            ),
            Ok(&["a: allow read of cn in 'dc=x' to user 'uid=b;ou=c;dc=x'"]),
        ),
        (
            &format!("(targetattr=\"cn\")(version 3.0; acl \"a\"; {all} userdn=\"ldap:///cn=a||b,dc=x\";)"),
            Err("does not begin with ldap:///"),
        ),
        (
            &format!(
                "(targetattr=\"cn\")(version 3.0; acl \"a\"; {all} userdn=\"ldap:///cn=a) or (b,dc=x\";)"
            ),
            Ok(&["a: allow read of cn in 'dc=x' to user 'cn=a) or (b,dc=x'"]),
        ),
        (
            &format!("(targetattr=\"cn\")(version 3.0; acl \"a\"; {all} userdn=\"ldap:///cn=o'neil,dc=x\";)"),
            Ok(&["a: allow read of cn in 'dc=x' to user \"cn=o'neil,dc=x\""]),
        ),
        (
            &format!("(targetattr=\"cn\")(version 3.0; acl \"a\"; {all} userdn=\"ldap:///cn=a%2Cb,dc=x\";)"),
            Err("has a %, which some servers decode"),
        ),
        (
            &format!(
                "(targetattr=\"cn\")(version 3.0; acl \"a\"; {all} \
                     (userdn=\"ldap:///cn=a,dc=x\" and ip=\"10.0.0.1\") or userdn=\"ldap:///cn=b,dc=x\";)"
            ),
            Ok(&[
                "a: allow read of cn in 'dc=x' to user 'cn=a,dc=x' from '10.0.0.1'",
                "a 2: allow read of cn in 'dc=x' to user 'cn=b,dc=x'",
            ]),
        ),
        (
            &format!("(targetattr=\"cn\")(version 3.0; acl \"a\"; {all} ip=\"10.*.1.2\";)"),
            Err("is no network"),
        ),
        (
            &format!("(targetattr=\"cn\")(version 3.0; acl \"a\"; {all} ip=\"10.0.0.0+255.0.0.0\";)"),
            Ok(&["a: allow read of cn in 'dc=x' to anyone from '10.0.0.0/8'"]),
        ),
        (
            &format!(
                "(targetattr=\"cn\")(version 3.0; acl \"a\"; {all} userdn=\"ldap:///all\" and ssf<\"56\";)"
            ),
            Err("a strength by <"),
        ),
        (
            &format!(
                "(targetattr=\"cn\")(version 3.0; acl \"a\"; {all} userdn=\"ldap:///all\" and ssf>=\"56\";)"
            ),
            Ok(&["a: allow read of cn in 'dc=x' to authenticated over tls"]),
        ),
        (
            &format!(
                "(targetattr=\"cn\")(targetattr=\"sn\")(version 3.0; acl \"a\"; {all} userdn=\"ldap:///all\";)"
            ),
            Err("it is there twice"),
        ),
        (
            &format!("(targetattr=\"cn\")(targetscope=\"near\")(version 3.0; acl \"a\"; {all} ip=\"::1\";)"),
            Err("\"near\" is no scope"),
        ),
        (
            "(targattrfilters=\"add=title:(title=add=a,b&&c),del=title:(title=add=a,b&&c)\")(version 3.0; \
                 acl \"a\"; allow (write) userdn=\"ldap:///all\";)",
            Ok(&["a: allow write of title values matching '(title=add=a,b&&c)' in 'dc=x' to authenticated"]),
        ),
    ]);
}

#[test]
fn aci_values_apply_only_to_the_entry_that_contains_them() {
    let aci = "aci: (targetattr=\"cn\")(version 3.0; acl \"a\"; allow (read, search, compare) userdn=\"ldap:///all\";)";
    let rule = |dn: &str| vec![format!("a: allow read of cn in '{dn}' to authenticated")];
    let none: Vec<String> = Vec::new();
    for (text, rules) in [
        (format!("\u{feff}dn: dc=x\n{aci}\n"), rule("dc=x")),
        (format!("dn:: ZGM9eA==\n{aci}\n"), rule("dc=x")),
        (format!("dn: dc=x\n\n{aci}\n"), none.clone()),
        (format!("dn: dc=x\n\ndn:: ?\n{aci}\n"), none.clone()),
        ("dn: dc=x\naci:: ?\n".to_owned(), none.clone()),
        ("dn: dc=x\naci:< file:///a\n".to_owned(), none.clone()),
        (format!("dn: dc=x\nchangetype: modify\ndelete: aci\n{aci}\n-\n"), none.clone()),
        (format!("dn: dc=x\nchangetype: modify\nadd: aci\n{aci}\n-\n"), rule("dc=x")),
        (format!("dn: dc=x;dc=y\n{aci}\n"), rule("dc=x;dc=y")),
        (format!("dn: dc=x,y\n{aci}\n"), none.clone()),
        (format!("# dn: dc=y\n  , more\ndn: dc=x\n{aci}\n"), rule("dc=x")),
    ] {
        let found = translate(&text);
        assert_eq!(found.rules, rules, "{text}");
        assert_eq!(found.left_out.len(), usize::from(rules.is_empty()), "{text}");
    }
}

/// Inserts characters that can end an element, at every position of the names in a value.
#[test]
fn translation_keeps_the_named_entry_or_refuses_the_rule() {
    const PIECES: [&str; 16] = [
        ";",
        "\\;",
        "\"",
        "\\\"",
        "'",
        "(",
        ")",
        "||",
        "\\",
        "\\,",
        ",",
        " and ",
        " or ",
        "*",
        "\\2a",
        "; deny (all) ",
    ];
    let seed = std::env::var("PANDO_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x5eed);
    println!("PANDO_TEST_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut kept = 0;
    for _ in 0..20_000 {
        let name = |random: &mut fastrand::Rng| {
            let mut text = String::new();
            for _ in 0..random.usize(..4) {
                text += PIECES[random.usize(..PIECES.len())];
                text.extend(std::iter::repeat_n('a', random.usize(..2)));
            }
            text
        };
        let (acl, user, more, group) =
            (name(&mut random), name(&mut random), name(&mut random), name(&mut random));
        let (user, more, group) =
            (format!("cn=u{user},dc=x"), format!("cn=m{more},dc=x"), format!("cn=g{group},dc=x"));
        let value = format!(
            "(targetattr=\"cn\")(version 3.0; acl \"n{acl}\"; allow (read, search, compare) \
             (userdn=\"ldap:///{user} || ldap:///{more}\") or groupdn = \"ldap:///{group}\";)"
        );
        let found = translate_values(&[&value]);
        let meant = [RequesterSpec::User(user), RequesterSpec::User(more), RequesterSpec::Group(group)];
        match &found.rules[..] {
            [] => assert!(!found.left_out.is_empty(), "{value}: PANDO_TEST_SEED={seed}"),
            [rule] => {
                kept += 1;
                let rule = AccessRule::parse(rule).unwrap();
                assert_eq!(rule.requesters, meant, "{value}: PANDO_TEST_SEED={seed}");
                assert!(rule.is_allow && rule.attributes == ["cn"], "{value}: PANDO_TEST_SEED={seed}");
            }
            more => panic!("{value} became {more:?}: PANDO_TEST_SEED={seed}"),
        }
    }
    assert!(kept > 500, "{kept} values were carried over");
}
