//! Vulnerabilities of other servers, tried on Pando. `docs/explanation/known-holes.md` lists each with the test that
//! shows its absence. This file has the tests that fit into no other file.

use std::fs;
use std::path::Path;

use client::Connection;
use ldap::{
    Authentication, BindRequest, ChangeOperation, Control, Controls, ControlsBuf, DerefAliases,
    ExtendedRequest, FilterBuf, ModifyDnRequest, Request, ResultCode, Scope, SearchRequest, SelectionBuf,
    oids,
};
use test_support::pando::Start;
use test_support::tree::{person_dn, plant, plant_policy, set_password};
use test_support::{ADMIN_DN, Pando, SUFFIX, Scratch};

/// Modifies one attribute, and returns the result code.
fn change(
    connection: &mut Connection,
    dn: &str,
    operation: ChangeOperation,
    name: &str,
    values: &[&str],
) -> ResultCode {
    connection.modify(dn, &[(operation, name, values)]).unwrap().code
}

/// Starts a server with anna and bert. Their passwords are stored in clear, so that the tests detect any leak of a
/// password.
fn start(scratch: &Scratch) -> Pando {
    let pando = Pando::start(scratch);
    let mut administrator = pando.administrator();
    let scheme =
        change(&mut administrator, "cn=config", ChangeOperation::Replace, "pandoPasswordScheme", &["clear"]);
    assert_eq!(scheme, ResultCode::SUCCESS);
    plant(&mut administrator);
    pando
}

fn user(pando: &Pando, name: &str) -> Connection {
    let mut connection = pando.connect();
    assert!(connection.bind(&person_dn(name), &format!("{name}-secret")).unwrap().is_success());
    connection
}

/// Checks that the server still serves a new client.
#[track_caller]
fn expect_service(pando: &Pando) {
    let found = user(pando, "bert").entry(&person_dn("anna"), &["cn"]).unwrap();
    assert_eq!(found.unwrap().texts("cn"), ["anna"]);
}

/// Filters that refer to a hidden attribute without its name: by a rule that applies to any attribute, by OID, by a
/// subtype or an option, or by ordering (CVE-2013-2219, CVE-2022-1949 of 389 DS).
#[test]
fn indirect_filters_do_not_reveal_passwords() {
    let scratch = Scratch::new("detours");
    let pando = start(&scratch);
    let bert = person_dn("bert");
    let mut administrator = pando.administrator();
    let policy = [
        ("objectClass", "pandoPwdPolicy"),
        ("pwdInHistory", "3"),
        ("pandoPwdScramMechanism", "SCRAM-SHA-256"),
    ];
    plant_policy(&mut administrator, &policy);
    for password in ["bert-other", "bert-third"] {
        set_password(&mut administrator, "bert", password);
    }
    let secrets = ["userPassword", "pwdHistory", "pandoScramKeys"];
    let entry = administrator.entry(&bert, &secrets).unwrap().unwrap();
    for name in secrets {
        assert!(!entry.values(name).is_empty(), "{name} is there to be found");
    }
    let mut own = pando.connect();
    assert!(own.bind(&bert, "bert-third").unwrap().is_success());
    for mut connection in [user(&pando, "anna"), own] {
        for filter in [
            "(userPassword=bert-third)",
            "(2.5.4.35=bert-third)",
            "(userPassword=*)",
            "(userPassword=bert*)",
            "(userPassword>=a)",
            "(userPassword<=z)",
            "(userPassword~=bert-third)",
            "(userPassword;lang-de=bert-third)",
            "(userPassword:octetStringMatch:=bert-third)",
            "(userPassword:caseIgnoreMatch:=bert-third)",
            "(:octetStringMatch:=bert-third)",
            "(:caseExactMatch:=bert-third)",
            "(:caseIgnoreMatch:=bert-third)",
            "(:caseIgnoreSubstringsMatch:=bert-third)",
            "(:dn:octetStringMatch:=bert-third)",
            "(:2.5.13.17:=bert-third)",
            "(pwdHistory=*)",
            "(1.3.6.1.4.1.42.2.27.8.1.20=*)",
            "(pandoScramKeys=*)",
            "(!(userPassword=bert-third))",
            "(!(userPassword=*))",
        ] {
            let found = connection.search(&bert, Scope::BaseObject, filter, &["1.1"]).unwrap();
            assert!(found.entries.is_empty(), "{filter}");
        }
        let selection =
            ["*", "+", "userPassword", "2.5.4.35", "userPassword;lang-de", "pwdHistory", "pandoScramKeys"];
        let shown = connection.entry(&bert, &selection).unwrap().unwrap();
        for attribute in &shown.attributes {
            let holds = |part: &str| {
                attribute.values.iter().any(|value| String::from_utf8_lossy(value).contains(part))
            };
            assert!(
                !holds("bert-third") && !holds("bert-other") && !holds("bert-secret"),
                "{}",
                attribute.description
            );
            assert!(!attribute.description.starts_with("pandoScram"), "{}", attribute.description);
        }
        for name in ["pwdHistory", "pandoScramKeys", "userPassword;lang-de"] {
            let code = connection.compare(&bert, name, "bert-other").unwrap().code;
            assert!(![ResultCode::COMPARE_TRUE, ResultCode::COMPARE_FALSE].contains(&code), "{name}: {code}");
        }
    }
}

/// In other servers, a replace or delete without values needed no right (CVE-2002-0045 of OpenLDAP).
#[test]
fn a_change_without_values_needs_the_same_right() {
    let scratch = Scratch::new("no-values");
    let pando = start(&scratch);
    let bert = person_dn("bert");
    let mut administrator = pando.administrator();
    let set = change(&mut administrator, &bert, ChangeOperation::Add, "description", &["kept"]);
    assert_eq!(set, ResultCode::SUCCESS);
    for mut connection in [user(&pando, "anna"), user(&pando, "bert"), pando.connect()] {
        for name in ["description", "telephoneNumber", "cn"] {
            for operation in [ChangeOperation::Replace, ChangeOperation::Delete] {
                let code = change(&mut connection, &bert, operation, name, &[]);
                let refused = [ResultCode::INSUFFICIENT_ACCESS_RIGHTS, ResultCode::STRONGER_AUTH_REQUIRED];
                assert!(refused.contains(&code), "{name}: {code}");
            }
        }
    }
    // An anonymous modify without changes does not reveal whether the entry exists.
    let mut anonymous = pando.connect();
    let [there, not] =
        [bert.as_str(), "uid=nobody,dc=example,dc=com"].map(|dn| anonymous.modify(dn, &[]).unwrap());
    assert!(!there.is_success() && there == not, "{there:?} {not:?}");
    let kept = administrator.entry(&bert, &["description"]).unwrap().unwrap();
    assert_eq!(kept.texts("description"), ["kept"]);
}

/// Renames to invalid names, and renames of entries whose names have values that do not match their syntax
/// (CVE-2010-0211, CVE-2010-0212, CVE-2011-1081, CVE-2020-25692 of OpenLDAP; CVE-2025-2487 of 389 DS).
#[test]
fn renames_to_invalid_names_are_refused() {
    let scratch = Scratch::new("renames");
    let pando = start(&scratch);
    let anna = person_dn("anna");
    let mut administrator = pando.administrator();
    let mut taken = Vec::new();
    for new_rdn in [
        "",
        " ",
        "=",
        "uid",
        "uid=",
        "=anna",
        "uid=\\",
        "uid=\\0",
        "uid=#",
        "uid=#0",
        "uid=#04",
        "uid=#0400",
        "uid=#0480",
        "uid=#04ff61",
        "uid=a,ou=people",
        "uid=a+",
        "+uid=a",
        "uid=a+uid=b+",
        "uid=\\c3",
        "uid=\\ff",
        "uid=a\0",
        "noSuchType=a",
        "1.2.3=a",
        "dc=\u{fc}",
        "c=",
        "userPassword=a",
        "createTimestamp=20260101000000Z",
        "optionals;x=\u{0}",
    ] {
        for (delete_old_rdn, new_superior) in
            [(true, None), (false, None), (true, Some("")), (false, Some("x"))]
        {
            let request = ModifyDnRequest { entry: &anna, new_rdn, delete_old_rdn, new_superior };
            let reply = administrator.request(Request::ModifyDn(request), Controls::NONE).unwrap();
            if reply.outcome.is_success() {
                taken.push((new_rdn, new_superior));
            }
        }
    }
    assert_eq!(taken, []);
    let people = "ou=people,dc=example,dc=com";
    for below in [anna.as_str(), people, "cn=config", "cn=monitor", "cn=subschema"] {
        assert!(
            !administrator.modify_dn(people, "ou=people", Some(below)).unwrap().is_success(),
            "below {below}"
        );
    }
    expect_service(&pando);
}

/// Malformed assertion values of the matching rules for certificates and revocation lists (CVE-2020-25709,
/// CVE-2020-25710, CVE-2020-36221, CVE-2020-36228, CVE-2020-36229, CVE-2020-36230, CVE-2021-27212 of OpenLDAP).
#[test]
fn malformed_assertion_values_match_no_entry() {
    let scratch = Scratch::new("assertions");
    let pando = start(&scratch);
    let mut connection = user(&pando, "anna");
    let whole = "{ serialNumber 1, issuer rdnSequence:\"cn=a\" }";
    let list = "{ issuer rdnSequence:\"cn=a\", thisUpdate utcTime:\"200101000000Z\" }";
    let mut texts: Vec<String> =
        ["", "{", "}", "{}", "$", "1$", "$cn=a", "1$cn=", "{ serialNumber -, issuer \"\" }"]
            .map(str::to_owned)
            .to_vec();
    for text in [whole, list, "{ issuer rdnSequence:\"\", thisUpdate utcTime:\"0\" }"] {
        texts.extend((0..text.len()).map(|end| text[..end].to_owned()));
        texts.extend((0..text.len()).map(|at| format!("{}{}", &text[..at], &text[at + 1..])));
    }
    for (name, rule) in [
        ("userCertificate", "certificateExactMatch"),
        ("userCertificate", "certificateMatch"),
        ("certificateRevocationList", "certificateListExactMatch"),
        ("supportedAlgorithms", "algorithmIdentifierMatch"),
        ("entryCSN", "CSNMatch"),
        ("cn", "caseIgnoreMatch"),
        ("dc", "caseIgnoreIA5Match"),
        ("homePostalAddress", "caseIgnoreListMatch"),
    ] {
        for text in &texts {
            let text = text.replace('(', "\\28").replace(')', "\\29").replace('*', "\\2a");
            for filter in [format!("({name}={text})"), format!("({name}:{rule}:={text})")] {
                let Ok(filter) = FilterBuf::parse(&filter) else { continue };
                let selection = SelectionBuf::from_iter(["1.1"]);
                let request = SearchRequest::new(
                    SUFFIX,
                    Scope::WholeSubtree,
                    filter.as_filter(),
                    selection.as_selection(),
                );
                let reply = connection.request(Request::Search(request), Controls::NONE).unwrap();
                assert!(reply.entries.is_empty(), "{name} {text}");
            }
        }
    }
    expect_service(&pando);
}

/// Controls and extended operations that crashed other servers, whether or not Pando supports them. They are sent
/// without a value and with many values, most of them malformed. Each control is sent as critical and as not critical.
#[test]
fn malformed_controls_and_operations_do_not_harm_the_server() {
    const CONTROLS: &[&str] = &[
        oids::MATCHED_VALUES,
        oids::DEREFERENCE,
        oids::SYNC_REQUEST,
        oids::PERSISTENT_SEARCH,
        oids::NO_OPERATION,
        oids::SORT_REQUEST,
        oids::VLV_REQUEST,
        oids::PAGED_RESULTS,
        oids::PROXIED_AUTHORIZATION,
        oids::PROXIED_AUTHORIZATION_V1,
        oids::EFFECTIVE_RIGHTS,
        oids::ASSERTION,
        oids::PRE_READ,
        oids::POST_READ,
        oids::SUBENTRIES,
        oids::SESSION_TRACKING,
        oids::ACCOUNT_USABILITY,
        oids::RELAX_RULES,
        oids::TREE_DELETE,
        oids::DOMAIN_SCOPE,
        "",
        "1.2.3",
    ];
    const OPERATIONS: &[&str] = &[
        oids::CANCEL,
        oids::TURN,
        oids::REFRESH,
        oids::MODIFY_PASSWORD,
        oids::PASSWORD_STATE,
        oids::WHO_AM_I,
        oids::START_TRANSACTION,
        oids::END_TRANSACTION,
        oids::START_LBURP,
        oids::VERIFY_CREDENTIALS,
        oids::FAST_BIND,
        "",
        "1.2.3",
    ];
    const VALUES: &[Option<&[u8]>] = &[
        None,
        Some(b""),
        Some(b"\0"),
        Some(b"0"),
        Some(b"0\0"),
        Some(b"0\x80\0\0"),
        Some(b"0\x03\x02\x01\xff"),
        Some(b"0\x02\x04\0"),
        Some(b"0\x06\x02\x01\0\x04\x01\0"),
        Some(b"0\x84\xff\xff\xff\xff\x04"),
        Some(b"dn:"),
        Some(b"dn:*"),
        Some(b"u:"),
        Some(b"dn.regex:.*"),
        Some(b"ldap:///??sub?(objectClass=*)"),
        Some(b"group/groupOfNames/member:cn=staff"),
        Some(&[0x30; 4096]),
    ];
    let scratch = Scratch::new("any-value");
    let pando = start(&scratch);
    for mut connection in [user(&pando, "anna"), pando.administrator()] {
        let mut ask =
            |request: Request<'_>, controls: Controls<'_>| connection.request(request, controls).unwrap();
        let filter = FilterBuf::parse("(objectClass=*)").unwrap();
        let selection = SelectionBuf::from_iter(["cn"]);
        for (oid, value) in CONTROLS.iter().flat_map(|oid| VALUES.iter().map(move |value| (oid, value))) {
            for critical in [false, true] {
                let control = Control { oid, critical, value: *value };
                let controls = ControlsBuf::from_iter([control]);
                let search = SearchRequest::new(
                    SUFFIX,
                    Scope::WholeSubtree,
                    filter.as_filter(),
                    selection.as_selection(),
                );
                ask(Request::Search(search), controls.as_controls());
                let delete = ldap::DeleteRequest { entry: "cn=nobody,dc=example,dc=com" };
                ask(Request::Delete(delete), controls.as_controls());
                // The same control twice: some servers allocated space for only one.
                let controls = ControlsBuf::from_iter([control, control]);
                ask(Request::Search(search), controls.as_controls());
            }
        }
        for (name, value) in OPERATIONS.iter().flat_map(|name| VALUES.iter().map(move |value| (name, value)))
        {
            ask(Request::Extended(ExtendedRequest { name, value: *value }), Controls::NONE);
        }
    }
    expect_service(&pando);
}

/// Circular aliases, as the base of a search and within its scope (CVE-2025-27497 of OpenDJ).
#[test]
fn searches_with_circular_aliases_end() {
    let scratch = Scratch::new("circles");
    let pando = start(&scratch);
    let mut administrator = pando.administrator();
    let alias = |name: &str| format!("cn={name},{SUFFIX}");
    for (name, target) in [
        ("itself", alias("itself")),
        ("first", alias("second")),
        ("second", alias("first")),
        ("below", alias("x,cn=below")),
        ("top", SUFFIX.to_owned()),
    ] {
        let attributes = [
            ("objectClass", "alias"),
            ("objectClass", "extensibleObject"),
            ("cn", name),
            ("aliasedObjectName", target.as_str()),
        ];
        let added = administrator.add(&alias(name), &attributes).unwrap();
        // An alias that names itself may be refused.
        assert!(added.is_success() || name == "itself", "{name}: {added:?}");
    }
    let filter = FilterBuf::parse("(objectClass=*)").unwrap();
    let selection = SelectionBuf::from_iter(["1.1"]);
    for base in ["itself", "first", "second", "below", "top"].map(alias).iter().chain([&SUFFIX.to_owned()]) {
        for deref in
            [DerefAliases::Never, DerefAliases::InSearching, DerefAliases::FindingBase, DerefAliases::Always]
        {
            let mut request =
                SearchRequest::new(base, Scope::WholeSubtree, filter.as_filter(), selection.as_selection());
            request.deref_aliases = deref;
            let reply = administrator.request(Request::Search(request), Controls::NONE).unwrap();
            let mut names: Vec<_> = reply.entries.iter().map(|entry| &entry.dn).collect();
            let count = names.len();
            names.sort();
            names.dedup();
            assert!(names.len() == count && count < 20, "{base} {deref:?}: {names:?}");
        }
    }
    expect_service(&pando);
}

/// Stored values that lock an account on other servers, and malformed values. They match no password, not even their
/// own text (CVE-2004-0823 of OpenLDAP; CVE-2021-3652, CVE-2024-2199, CVE-2024-5953, CVE-2024-8445 of 389 DS).
#[test]
fn malformed_stored_passwords_match_no_password() {
    let scratch = Scratch::new("stored");
    let pando = start(&scratch);
    let (mut administrator, anna) = (pando.administrator(), person_dn("anna"));
    for stored in [
        "{CRYPT}*",
        "{CRYPT}!",
        "{CRYPT}",
        "{CRYPT}x",
        "{SSHA}",
        "{SSHA}=",
        "{SSHA}AAAA",
        "{MD5}",
        "{SHA}!!!!",
        "{PBKDF2_SHA256}",
        "{PBKDF2_SHA256}AAAA",
        "{PBKDF2-SHA256}1$$",
        "{PBKDF2-SHA256}4294967295$AAAA$AAAA",
        "{PBKDF2-SHA512}-1$AAAA$AAAA",
        "{ARGON2}$argon2id$v=19$m=4294967295,t=1,p=1$AAAA$AAAA",
        "{SMD5}\u{0}",
        "{UNKNOWN}x",
    ] {
        let replace = ChangeOperation::Replace;
        assert_eq!(
            change(&mut administrator, &anna, replace, "userPassword", &[stored]),
            ResultCode::SUCCESS,
            "{stored}"
        );
        let text = stored.split_once('}').map_or("", |(_, text)| text);
        for asserted in [stored, text, "*", "!", "x", "\0", "anna-secret"] {
            let code = pando.connect().bind(&anna, asserted).unwrap().code;
            let refused = [ResultCode::INVALID_CREDENTIALS, ResultCode::UNWILLING_TO_PERFORM];
            assert!(refused.contains(&code), "{stored} by {asserted:?}: {code}");
        }
    }
    let bert = user(&pando, "bert").entry(&anna, &["cn"]).unwrap();
    assert!(bert.is_some());
}

/// Returns the file below a folder that contains these octets, if any.
fn is_in_a_file(folder: &Path, octets: &[u8]) -> Option<String> {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let found = match path.is_dir() {
            true => is_in_a_file(&path, octets),
            false => fs::read(&path)
                .is_ok_and(|text| text.windows(octets.len()).any(|window| window == octets))
                .then(|| path.display().to_string()),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Clear passwords in change logs, operation logs and data files (CVE-2012-2678, CVE-2014-8112, CVE-2018-10871 of 389
/// DS).
#[test]
fn a_clear_password_is_in_no_file() {
    let scratch = Scratch::new("no-file");
    scratch.write("node.toml", "[audit]\nfolder = \"trail\"\nvalues = \"all\"\n");
    let node = scratch.join("node.toml");
    let pando =
        Start::new(&scratch).arguments(&["--log-operations", "--node", node.to_str().unwrap()]).ready();
    let mut administrator = pando.administrator();
    plant(&mut administrator);
    let (anna, replace) = (person_dn("anna"), ChangeOperation::Replace);
    let set = change(&mut administrator, &anna, replace, "userPassword", &["Wherever-1-Am"]);
    assert_eq!(set, ResultCode::SUCCESS);
    assert!(pando.connect().bind(&anna, "Wherever-1-Am").unwrap().is_success());
    assert!(!pando.connect().bind(&anna, "Wherever-2-Am").unwrap().is_success());
    change(&mut administrator, "cn=nobody,dc=example,dc=com", replace, "userPassword", &["Wherever-3-Am"]);
    let credentials: &[u8] = b"\0anna\0Wherever-4-Am";
    let sasl = Authentication::Sasl { mechanism: "PLAIN", credentials: Some(credentials) };
    let request = Request::Bind(BindRequest { version: 3, name: "", authentication: sasl });
    pando.connect().request(request, Controls::NONE).unwrap();
    let mut misspelt = pando.connect();
    misspelt.bind("uid=anna, Wherever-5-Am", "x").unwrap();
    assert!(pando.stop().success());
    for octets in [&b"Wherever-1"[..], b"Wherever-2", b"Wherever-3", b"Wherever-4"] {
        assert_eq!(is_in_a_file(scratch.path(), octets), None, "{}", String::from_utf8_lossy(octets));
    }
    assert!(is_in_a_file(scratch.path(), b"uid=anna").is_some(), "the search finds existing entries");
}

/// The server uses only TCP. Answers over UDP could be used to flood others.
#[test]
fn nothing_is_answered_over_udp() {
    let scratch = Scratch::new("udp");
    let pando = start(&scratch);
    let folder = format!("/proc/{}", pando.id());
    let sockets: Vec<String> = fs::read_dir(format!("{folder}/fd"))
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
        .filter_map(|link| {
            let link = link.to_string_lossy().into_owned();
            Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    assert!(!sockets.is_empty());
    let has = |table: &str| {
        let text = fs::read_to_string(format!("{folder}/net/{table}")).unwrap_or_default();
        text.lines().any(|line| line.split_whitespace().any(|word| sockets.iter().any(|inode| inode == word)))
    };
    assert!(has("tcp") && !["udp", "udp6", "raw", "raw6", "packet"].into_iter().any(has));
}

/// A bind with a name and no password is refused, and so is a bind with a password and no name (RFC 4513 section
/// 5.1.2). A bind without a name is answered like a wrong password, so that a client does not take it for a successful
/// bind.
#[test]
fn a_bind_without_a_name_or_without_a_password_is_refused() {
    let scratch = Scratch::new("half");
    let pando = start(&scratch);
    let mut connection = user(&pando, "anna");
    for (name, password, code) in [
        (person_dn("anna").as_str(), "", ResultCode::UNWILLING_TO_PERFORM),
        ("uid=nobody,dc=example,dc=com", "", ResultCode::UNWILLING_TO_PERFORM),
        (ADMIN_DN, "", ResultCode::UNWILLING_TO_PERFORM),
        ("", "anna-secret", ResultCode::INVALID_CREDENTIALS),
        (" ", "anna-secret", ResultCode::INVALID_CREDENTIALS),
    ] {
        let outcome = connection.bind(name, password).unwrap();
        assert_eq!(outcome.code, code, "{name:?} {password:?}: {outcome:?}");
        let who = connection.extended(oids::WHO_AM_I, None).unwrap();
        assert_eq!(who.extended.value.unwrap_or_default(), b"", "the session is anonymous");
    }
}
