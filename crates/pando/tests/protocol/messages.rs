//! Every error has a message with its cause and place. Errors in settings and schema end the start with an exit code.
//! Errors in names, filters and requests are answered with a result code and a diagnostic message.

use client::{ClientError, Connection};
use ldap::{ChangeOperation, MessageId, ResultCode, Scope};
use std::net::TcpListener;
use test_support::pando::{Start, command};
use test_support::tree::{add_person, person_dn, plant};
use test_support::{Pando, SUFFIX, Scratch};

/// Exit codes, as listed in docs/reference/errors.md.
const SETTINGS: i32 = 2;
const IN_USE: i32 = 3;
const DATA: i32 = 4;
const LISTEN: i32 = 5;

/// Checks that a start with these arguments ends with this exit code, and that its message contains these parts.
#[track_caller]
fn expect_refusal(scratch: &Scratch, arguments: &[&str], code: i32, parts: &[&str]) {
    let (status, errors) = Start::bare(scratch, "data").arguments(arguments).refused();
    assert_eq!(status.code(), Some(code), "{arguments:?}: {errors}");
    for part in parts {
        assert!(errors.contains(part), "{part:?} is missing for {arguments:?}: {errors}");
    }
}

#[test]
fn invalid_command_lines_are_refused_with_a_reason() {
    let scratch = Scratch::new("command-line");
    let cases: &[(&[&str], &[&str])] = &[
        (&["--listen", "http://127.0.0.1"], &["http://127.0.0.1", "write ldap://HOST:PORT"]),
        (&["--listen", "ldap://127.0.0.1:many"], &["\"many\" is no port"]),
        (&["--listen", "ldap://127.0.0.1:1/o=x"], &["ends with the port"]),
        (&["--suffix", "nonsense"], &["\"nonsense\" is no DN", "octet 8"]),
        (&["--suffix", ""], &["is empty"]),
        (&["--suffix", "o=a", "--suffix", "ou=b,o=a"], &["ou=b,o=a", "above or below the suffix o=a"]),
        (&["--admin-dn", "cn=admin,"], &["is no DN"]),
        (&["--admin-dn", "noSuchAttribute=x"], &["admin_dn", "noSuchAttribute"]),
        (&["--admin-password-file", "/nonexistent/file"], &["cannot read /nonexistent/file"]),
        (&["--node", "/nonexistent/file"], &["cannot read /nonexistent/file"]),
        (&["--log-level", "loud"], &["loud", "info"]),
        (&["--smaple"], &["--smaple", "--sample"]),
    ];
    cases.iter().for_each(|(arguments, parts)| expect_refusal(&scratch, arguments, SETTINGS, parts));

    let empty = scratch.write("empty-password", "\n");
    let arguments = ["--admin-password-file", empty.to_str().unwrap()];
    expect_refusal(&scratch, &arguments, SETTINGS, &["empty-password", "is empty"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ldap://{}", taken.local_addr().unwrap());
    expect_refusal(&scratch, &["--listen", &url], LISTEN, &[&url, "in use"]);
}

#[test]
fn invalid_node_files_are_refused_with_a_reason() {
    let scratch = Scratch::new("node-file");
    let cases: &[(&str, &str)] = &[
        ("data = \"x\"\nlisen = []\n", "node.toml:2: unknown field `lisen`"),
        ("[limits]\nsize = 5\n", "node.toml:2: unknown field `size`"),
        ("\n\ndata = \n", "node.toml:3:"),
        ("threads = 0\n", "node.toml:1:"),
        ("threads = \"two\"\n", "node.toml:1: invalid type"),
        ("listen = [\"127.0.0.1:389\"]\n", "write ldap://HOST:PORT"),
        ("admin_dn = \"o\"\n", "node.toml:1: \"o\" is no DN"),
        ("admin_password_file = \"none\"\n", "cannot read"),
        ("\nsuffixes = [\"o=x\"]\n", "node.toml:2: suffixes is a setting of the directory"),
        ("[limits]\nsize_limit = 5\n", "node.toml:2: limits.size_limit is a setting of the directory"),
        ("schema_files = []\n", "put that in force with `pando apply FILE`"),
        ("[log]\nlevel = \"loud\"\n", "node.toml:2: unknown log level \"loud\""),
    ];
    for (text, part) in cases {
        let file = scratch.write("node.toml", text);
        let start = Start::bare(&scratch, "data").without_environment("PANDO_ADMIN_PASSWORD");
        let (status, errors) = start.arguments(&["--node", file.to_str().unwrap()]).refused();
        assert_eq!(status.code(), Some(SETTINGS), "{text:?}: {errors}");
        assert!(errors.contains(part), "{part:?} is missing for {text:?}: {errors}");
    }
}

#[test]
fn invalid_schema_files_are_refused_with_a_reason() {
    let scratch = Scratch::new("schema");
    let settings = scratch.write("settings.toml", "schema_files = [\"own.schema\"]\n");
    let cases: &[(&str, &str)] = &[
        ("hello", "own.schema:1: \"hello\" is not the beginning of a schema definition"),
        ("# comment\n\nattributetype ( 1.3.6.1.4.1.32473.1 NAME 'x'", "own.schema:3: expected a term or ')'"),
        ("attributetype ( nonsense NAME 'x' SUP name )", "\"nonsense\" is not a numeric OID"),
        ("attributetype ( 1.3.6.1.4.1.32473.1 NAME 'x' )", "SUP or SYNTAX is missing"),
        ("attributetype ( 1.3.6.1.4.1.32473.1 NAME 'x' SUP y )", "superior \"y\" is not defined"),
        ("attributetype ( 1.3.6.1.4.1.32473.1 NAME 'x' SYNTAX 1.2.3 )", "syntax \"1.2.3\" is not known"),
        (
            "attributetype ( 1.3.6.1.4.1.32473.1 NAME 'x' EQUALITY noMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )",
            "matching rule \"noMatch\" in EQUALITY is not known",
        ),
        (
            "attributetype ( 1.3.6.1.4.1.32473.1 NAME 'x' SINTAX 1 )",
            "SINTAX is not a term of an attribute type",
        ),
        ("attributetype ( 1.3.6.1.4.1.32473.1 NAME '1x' SUP name )", "is not a name"),
        ("attributetype ( 2.5.4.3 NAME 'x' SUP name )", "OID 2.5.4.3 is already defined as cn"),
        (
            "objectclass ( 1.3.6.1.4.1.32473.2 NAME 'x' AUXILIARY MUST y )",
            "attribute type \"y\" in MUST is not defined",
        ),
        ("objectclass ( 1.3.6.1.4.1.32473.2 NAME 'x' SUP y AUXILIARY )", "superior \"y\" is not defined"),
        (
            "objectclass ( 1.3.6.1.4.1.32473.2 NAME 'x' SUP person AUXILIARY )",
            "auxiliary class cannot be derived from structural class person",
        ),
    ];
    for (text, part) in cases {
        scratch.write("own.schema", text);
        let run = command(&["plan", settings.to_str().unwrap()], Some(&scratch.join("none")));
        run.expect_code(SETTINGS).expect_error("own.schema:").expect_error(part);
    }
}

#[test]
fn a_definition_cannot_change_while_values_use_it() {
    let scratch = Scratch::new("changed-definition");
    let settings = scratch.write("settings.toml", "schema_files = [\"own.schema\"]\n");
    let apply = || command(&["apply", settings.to_str().unwrap()], Some(&Pando::data(&scratch)));
    let definition = |equality: &str, syntax: u8| {
        format!(
            "attributetype ( 1.3.6.1.4.1.32473.1 NAME 'badge' EQUALITY {equality} \
             SYNTAX 1.3.6.1.4.1.1466.115.121.1.{syntax} )\n\
             objectclass ( 1.3.6.1.4.1.32473.2 NAME 'badgeHolder' AUXILIARY MAY badge )\n"
        )
    };
    scratch.write("own.schema", definition("caseIgnoreMatch", 15));
    apply().expect_code(0);
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let changes = [
        (ChangeOperation::Add, "objectClass", &["badgeHolder"][..]),
        (ChangeOperation::Add, "badge", &["Red Seven"][..]),
    ];
    assert!(admin.modify(&person_dn("anna"), &changes).unwrap().is_success());
    let found = admin.search(SUFFIX, Scope::WholeSubtree, "(badge=red seven)", &["badge"]).unwrap();
    assert_eq!(found.entries[0].texts("badge"), ["Red Seven"]);
    drop(admin);
    assert!(pando.stop().success());

    scratch.write("own.schema", definition("integerMatch", 27));
    apply()
        .expect_code(SETTINGS)
        .expect_error("settings.toml:1: attribute type badge is used by an entry (\"uid=anna,");
    scratch.write("own.schema", "");
    apply().expect_code(SETTINGS).expect_error("settings.toml:1: attribute type badge is used by an entry");
    scratch.write("own.schema", definition("caseIgnoreMatch", 15));
    assert!(apply().expect_code(0).stdout.starts_with("no change"), "nothing was spoilt by asking");
    assert!(Pando::start(&scratch).stop().success());
}

#[test]
fn unusable_data_folders_are_refused_with_a_reason() {
    let scratch = Scratch::new("data-folder");
    scratch.write("file", "");
    let (status, errors) = Start::bare(&scratch, "file").refused();
    assert_eq!(status.code(), Some(DATA), "{errors}");
    assert!(errors.contains("file"), "{errors}");

    let pando = Pando::start(&scratch);
    let (status, errors) = Start::new(&scratch).refused();
    assert_eq!(status.code(), Some(IN_USE), "{errors}");
    assert!(errors.contains("is in use by") && errors.contains(&pando.id().to_string()), "{errors}");
    let data = Pando::data(&scratch);
    // Verifying does not need the lock of the directory.
    test_support::pando::command(&["verify"], Some(&data)).expect_code(0).expect_output("nothing found");
    assert!(pando.stop().success());
    test_support::pando::command(&["verify"], Some(&data)).expect_code(0).expect_output("nothing found");

    let nothing = scratch.join("nothing");
    test_support::pando::command(&["verify"], Some(&nothing))
        .expect_code(DATA)
        .expect_error("contains no Pando database");
    assert!(!nothing.exists(), "verify creates no directory");
}

#[test]
fn invalid_names_are_refused_with_a_reason() {
    let scratch = Scratch::new("names");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    // Names, and parts of the diagnostic message. The code is always invalidDNSyntax.
    let cases: &[(&str, &str)] = &[
        ("nonsense", "octet 8"),
        ("uid=a,,dc=com", "octet 6"),
        ("uid=a,dc", "octet 8"),
        ("=a,dc=com", "octet 0"),
        ("uid=a\\", "octet 5"),
        ("uid=a\\zz", "octet"),
        ("uid=#zz,dc=com", "octet"),
        ("uid=a\"b,dc=com", "octet"),
        ("1.2.=a", "octet"),
        ("noSuchAttribute=x,dc=example,dc=com", "noSuchAttribute"),
        ("jpegPhoto=x,dc=example,dc=com", "jpegPhoto"),
    ];
    for (name, part) in cases {
        for outcome in [
            admin.search(name, Scope::BaseObject, "(objectClass=*)", &[]).unwrap().outcome,
            admin.delete(name).unwrap(),
            admin.compare(name, "cn", "x").unwrap(),
        ] {
            assert_eq!(outcome.code, ResultCode::INVALID_DN_SYNTAX, "{name}: {outcome:?}");
            assert!(outcome.diagnostic.contains(part), "{part:?} is missing for {name}: {outcome:?}");
        }
    }
}

#[test]
fn invalid_filters_are_refused_with_a_reason() {
    let scratch = Scratch::new("filters");
    let pando = Pando::start(&scratch);
    // Encoded filters, and parts of the answer to each. The connection stays usable after each answer.
    let cases: &[(&str, &[u8], &str)] = &[
        ("no substrings at all", &[0xa4, 6, 4, 2, b'c', b'n', 0x30, 0], "substrings"),
        (
            "an initial that is not first",
            &[0xa4, 12, 4, 2, b'c', b'n', 0x30, 6, 0x81, 1, b'a', 0x80, 1, b'b'],
            "substrings",
        ),
        ("an extensible match of nothing", &[0xa9, 3, 0x83, 1, b'x'], "MatchingRuleAssertion"),
        ("a description that is not UTF-8", &[0xa3, 6, 4, 1, 0xff, 4, 1, b'x'], "UTF-8"),
    ];
    let mut connection = pando.administrator();
    for (index, (what, filter, part)) in cases.iter().enumerate() {
        let id = 100 + index as u8;
        connection.send_bytes(&search_around(id, filter)).unwrap();
        let outcome = connection
            .reply(MessageId(i32::from(id)))
            .unwrap_or_else(|error| panic!("{what}: {error}"))
            .outcome;
        assert_eq!(outcome.code, ResultCode::PROTOCOL_ERROR, "{what}: {outcome:?}");
        assert!(outcome.diagnostic.contains(part), "{part:?} is missing for {what}: {outcome:?}");
    }
    // The client parses the text form of a filter, and its error contains the offset of the mistake.
    for (text, offset) in
        [("(cn=x", 5), ("cn=x)", 0), ("(&(cn=x)", 8), ("(cn~x)", 3), ("(cn=\\zz)", 4), ("", 0)]
    {
        let error = connection.search(SUFFIX, Scope::BaseObject, text, &[]).unwrap_err();
        let ClientError::Filter(error) = error else { panic!("{text}: {error}") };
        assert_eq!(error.offset, offset, "{text}: {error:?}");
    }
}

/// Encodes a search request with an encoded filter. All lengths are in the short form.
fn search_around(id: u8, filter: &[u8]) -> Vec<u8> {
    let mut request = vec![4, 0, 10, 1, 2, 10, 1, 0, 2, 1, 0, 2, 1, 0, 1, 1, 0];
    request.extend_from_slice(filter);
    request.extend([0x30, 0]);
    let mut bytes = vec![0x30, request.len() as u8 + 5, 2, 1, id, 0x63, request.len() as u8];
    bytes.append(&mut request);
    bytes
}

#[test]
fn invalid_requests_are_refused_with_a_reason() {
    let scratch = Scratch::new("requests");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    add_person(&mut admin, "carl");
    let anna = person_dn("anna");
    let person = |extra: &[(&'static str, &'static str)]| {
        let mut attributes = vec![("objectClass", "inetOrgPerson"), ("cn", "X"), ("sn", "X")];
        attributes.extend(extra);
        attributes
    };
    let add = |connection: &mut Connection, dn: &str, attributes: &[(&str, &str)]| {
        connection.add(dn, attributes).unwrap()
    };
    let new = person_dn("x");
    let modify = |connection: &mut Connection, change: (ChangeOperation, &str, &[&str])| {
        connection.modify(&person_dn("anna"), &[change]).unwrap()
    };
    use ChangeOperation::{Add, Delete, Increment, Replace};

    let cases = [
        (add(&mut admin, &anna, &person(&[])), ResultCode::ENTRY_ALREADY_EXISTS, "uid=anna"),
        (
            add(&mut admin, "uid=x,ou=none,dc=example,dc=com", &person(&[])),
            ResultCode::NO_SUCH_OBJECT,
            "ou=none",
        ),
        (add(&mut admin, "uid=x,o=else", &person(&[])), ResultCode::NO_SUCH_OBJECT, "suffix"),
        (add(&mut admin, &new, &person(&[("color", "red")])), ResultCode::UNDEFINED_ATTRIBUTE_TYPE, "color"),
        (
            add(&mut admin, &new, &person(&[("uidNumber", "1")])),
            ResultCode::OBJECT_CLASS_VIOLATION,
            "uidNumber",
        ),
        (
            add(&mut admin, &new, &[("objectClass", "person"), ("cn", "X")]),
            ResultCode::OBJECT_CLASS_VIOLATION,
            "sn",
        ),
        (add(&mut admin, &new, &[("objectClass", "top")]), ResultCode::OBJECT_CLASS_VIOLATION, "structural"),
        (
            add(&mut admin, &new, &person(&[("objectClass", "device")])),
            ResultCode::OBJECT_CLASS_VIOLATION,
            "device",
        ),
        (
            add(&mut admin, &new, &[("objectClass", "starship")]),
            ResultCode::INVALID_ATTRIBUTE_SYNTAX,
            "starship",
        ),
        (
            add(&mut admin, &new, &person(&[("manager", "bob")])),
            ResultCode::INVALID_ATTRIBUTE_SYNTAX,
            "manager",
        ),
        (add(&mut admin, &new, &person(&[("mail", "é")])), ResultCode::INVALID_ATTRIBUTE_SYNTAX, "mail"),
        (
            add(&mut admin, &new, &person(&[("entryUUID", "x")])),
            ResultCode::CONSTRAINT_VIOLATION,
            "entryUUID",
        ),
        (
            add(&mut admin, &new, &person(&[("displayName", "a"), ("displayName", "b")])),
            ResultCode::CONSTRAINT_VIOLATION,
            "displayName",
        ),
        (
            add(&mut admin, &new, &person(&[("title", "a"), ("title", "A")])),
            ResultCode::ATTRIBUTE_OR_VALUE_EXISTS,
            "title",
        ),
        (modify(&mut admin, (Add, "cn", &["ANNA"])), ResultCode::ATTRIBUTE_OR_VALUE_EXISTS, "cn"),
        (modify(&mut admin, (Delete, "pager", &[])), ResultCode::NO_SUCH_ATTRIBUTE, "pager"),
        (modify(&mut admin, (Delete, "cn", &["bob"])), ResultCode::NO_SUCH_ATTRIBUTE, "cn"),
        (modify(&mut admin, (Delete, "sn", &[])), ResultCode::OBJECT_CLASS_VIOLATION, "sn"),
        (modify(&mut admin, (Add, "title", &[])), ResultCode::PROTOCOL_ERROR, "title"),
        (modify(&mut admin, (Replace, "uid", &["x"])), ResultCode::NOT_ALLOWED_ON_RDN, "uid"),
        (modify(&mut admin, (Increment, "cn", &["1"])), ResultCode::CONSTRAINT_VIOLATION, "cn"),
        (
            modify(&mut admin, (Replace, "createTimestamp", &["x"])),
            ResultCode::CONSTRAINT_VIOLATION,
            "createTimestamp",
        ),
        (
            admin.delete("ou=people,dc=example,dc=com").unwrap(),
            ResultCode::NOT_ALLOWED_ON_NON_LEAF,
            "3 entries",
        ),
        (
            admin.delete("uid=none,ou=people,dc=example,dc=com").unwrap(),
            ResultCode::NO_SUCH_OBJECT,
            "uid=none",
        ),
        (admin.modify_dn(&anna, "uid=bert", None).unwrap(), ResultCode::ENTRY_ALREADY_EXISTS, "uid=bert"),
        (admin.modify_dn(&anna, "uid=a,ou=b", None).unwrap(), ResultCode::INVALID_DN_SYNTAX, "uid=a,ou=b"),
        (
            admin.modify_dn(&anna, "uidNumber=5", None).unwrap(),
            ResultCode::OBJECT_CLASS_VIOLATION,
            "uidNumber",
        ),
        (
            admin.modify_dn("ou=people,dc=example,dc=com", "ou=people", Some(&anna)).unwrap(),
            ResultCode::UNWILLING_TO_PERFORM,
            "below",
        ),
        (admin.compare(&anna, "color", "red").unwrap(), ResultCode::UNDEFINED_ATTRIBUTE_TYPE, "color"),
        (admin.compare(&anna, "pager", "1").unwrap(), ResultCode::NO_SUCH_ATTRIBUTE, "pager"),
        (
            admin.compare("cn=staff,ou=groups,dc=example,dc=com", "member", "bob").unwrap(),
            ResultCode::INVALID_ATTRIBUTE_SYNTAX,
            "member",
        ),
        (admin.extended("1.2.3", None).unwrap().outcome, ResultCode::PROTOCOL_ERROR, "1.2.3"),
    ];
    for (index, (outcome, code, part)) in cases.iter().enumerate() {
        assert_eq!(outcome.code, *code, "case {index}, {part}: {outcome:?}");
        assert!(outcome.diagnostic.contains(part), "case {index}: {part:?} is missing in {outcome:?}");
    }
}
