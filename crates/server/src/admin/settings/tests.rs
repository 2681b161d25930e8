//! Tests of reading settings files, and of the problems reported for invalid ones.

use std::path::Path;

use directory::index::IndexKinds;
use directory::password::StorageScheme;
use directory::{DirectorySettings, settings};

use super::SettingsFile;
use crate::config::settings_text::{self as text, parse};

/// Returns all problems that `pando plan` reports for the text of a settings file, as `LINE: PROBLEM`.
fn problems(text: &str) -> Vec<String> {
    let read = |text: &str| {
        let mut none = |path: &str| match path {
            "good.schema" => Ok(vec![("good".to_owned(), COLOUR.to_owned())]),
            "bad.schema" => Ok(vec![("bad".to_owned(), "# comment\nattributetype ( 1.2.3 )\n".to_owned())]),
            _ => Err(format!("cannot read {path}: there is none")),
        };
        parse(text, &mut none)
    };
    match read(text) {
        Err(problems) => {
            problems.iter().map(|problem| format!("{}: {}", problem.line, problem.what)).collect()
        }
        Ok(read) => match settings::check(&read.settings) {
            Ok(_) => Vec::new(),
            Err(problems) => problems
                .iter()
                .map(|problem| format!("{}: {}", read.line(&problem.place), problem.what))
                .collect(),
        },
    }
}

const COLOUR: &str = "attributetype ( 1.3.6.1.4.1.32473.1 NAME 'colour' EQUALITY caseIgnoreMatch SYNTAX \
                      1.3.6.1.4.1.1466.115.121.1.15 )";

#[test]
fn reports_each_kind_of_bad_setting_with_its_line() {
    let cases: &[(&str, &[&str])] = &[
        // Errors in the syntax of the text.
        ("suffixes = [\n", &["1: unclosed array"]),
        (
            "\nsufixes = []\n",
            &["2: unknown key sufixes: the nearest is suffixes; there are suffixes, schema_files, "],
        ),
        ("[limits]\nsize = 5\n", &["2: unknown key limits.size: "]),
        ("threads = 2\n", &["1: threads belongs to one machine"]),
        ("[limits]\nconnections = 2\n", &["2: limits.connections belongs to one machine"]),
        ("suffixes = [\"o=x\"]\nsuffixes = []\n", &["2: "]),
        // Values of the wrong type.
        (
            "suffixes = \"o=x\"\n",
            &["1: suffixes is a list of texts such as [\"dc=example,dc=com\"], not a text"],
        ),
        ("suffixes = [\n \"o=x\",\n 3,\n]\n", &["3: suffixes is a list of texts", "with no integer in it"]),
        (
            "anonymous_read = \"yes\"\n",
            &["1: anonymous_read: \"yes\" is not valid here: write true or false"],
        ),
        (
            "password_scheme = \"rot13\"\n",
            &["1: password_scheme: unknown password storage scheme \"rot13\": choose argon2id"],
        ),
        (
            "password_scheme = 3\n",
            &["1: password_scheme: 3 is not valid here: write a text such as \"argon2id\""],
        ),
        ("integrity_attributes = \"member\"\n", &["1: ", "write a list of texts such as [\"member\"]"]),
        (
            "[limits]\n\nsize_limit = -1\n",
            &["3: limits.size_limit: \"-1\" is not valid here: write a whole number from 0 to 4294967295"],
        ),
        ("[limits]\nsize_limit = 4294967296\n", &["2: limits.size_limit: 4294967296 is not valid here"]),
        (
            "[limits]\ntime_limit_seconds = 1.5\n",
            &["2: limits.time_limit_seconds: a fraction does not fit here"],
        ),
        (
            "[limits]\nlog_records = 0\n",
            &["2: limits.log_records: 0 is not valid here: write a whole number from 1"],
        ),
        ("limits = 3\n", &["1: limits is a table: write [limits], not an integer"]),
        (
            "[indexes]\nmail = \"exact\"\n",
            &["2: \"exact\" is not a kind of index: choose from equality, ordering"],
        ),
        (
            "[indexes]\nmail = [\n \"equality\",\n 4\n]\n",
            &["4: an integer is no kind of index: write [\"equality\"]"],
        ),
        ("[schema]\nlocal = 3\n", &["2: an integer is no text of definitions: write local = '''...'''"]),
        ("schema_files = [\n\"none.schema\"]\n", &["2: cannot read none.schema"]),
        (
            "schema_files = [\"good.schema\"]\n[schema]\ngood = ''\n",
            &["1: there is a schema text good already"],
        ),
        // Values that the schema rejects.
        ("suffixes = [\n\"o=x\",\n\"x\"]\n", &["3: suffix \"x\": "]),
        (
            "suffixes = [\"o=x\",\n\"noSuchType=x\"]\n",
            &["2: suffix \"noSuchType=x\": attribute type \"noSuchType\""],
        ),
        ("suffixes = [\"o=x\",\n\"ou=a,O=X\"]\n", &["2: ", "it lies above or below the suffix o=x"]),
        ("suffixes = [\"o=x\",\n\"O=X\"]\n", &["2: suffix \"O=X\" occurs twice"]),
        ("suffixes = [\"\"]\n", &["1: ", "the empty DN is the root DSE"]),
        ("suffixes = [\"cn=a,cn=config\"]\n", &["1: ", "cn=config is reserved for the server"]),
        (
            "[indexes]\ncn = [\"equality\"]\nmial = [\"equality\"]\n",
            &["3: attribute type \"mial\" is not defined"],
        ),
        (
            "[indexes]\ncn = [\"equality\"]\ncommonName = [\"presence\"]\n",
            &["3: commonName is another name of cn"],
        ),
        (
            "[indexes]\nmember = [\"equality\"]\n",
            &["2: values of member are links to entries, which are always indexed"],
        ),
        ("[indexes]\njpegPhoto = [\"substring\"]\n", &["2: jpegPhoto has no substring rule"]),
        (
            "integrity_attributes = [\"member\",\n\"cn\"]\n",
            &["2: values of cn are not links to entries: it takes member"],
        ),
        ("integrity_attributes = [\"nope\"]\n", &["1: attribute type \"nope\" is not defined"]),
        ("[schema]\n\"a b\" = ''\n", &["1: \"a b\" cannot name a schema text"]),
        ("[schema]\na = ''\nA = ''\n", &["1: \"a\" occurs twice, in different case"]),
        (
            "[schema]\nlocal = '''\n# a comment\n\nattributetype ( 1.2.3 )\n'''\n",
            &["5: SUP or SYNTAX is missing"],
        ),
        ("[schema]\nlocal = \"hello\"\n", &["2: \"hello\" is not the beginning of a schema definition"]),
    ];
    for (text, parts) in cases {
        let found = problems(text);
        for part in *parts {
            // If the expected text begins with a digit, the reported problem must begin with that text.
            let is_there = |problem: &String| match part.starts_with(|letter: char| letter.is_ascii_digit()) {
                true => problem.starts_with(part),
                false => problem.contains(part),
            };
            assert!(found.iter().any(is_there), "{text:?}: {part:?} expected, {found:#?} found");
        }
    }
}

#[test]
fn reports_all_problems_in_the_order_of_their_lines() {
    let found = problems("anonymous_read = 3\n[limits]\nsize_limit = \"x\"\nnope = 3\n");
    let lines: Vec<&str> = found.iter().filter_map(|problem| problem.split(':').next()).collect();
    assert_eq!(lines, ["1", "3", "4"], "{found:#?}");
}

#[test]
fn missing_settings_have_defaults() {
    let mut none = |_: &str| Err(String::new());
    let read = |text: &str| parse(text, &mut none).unwrap().settings;
    let mut read = read;
    assert_eq!(read(""), DirectorySettings::default());
    assert!(read("[indexes]\n").indexes.is_empty(), "an empty table means that there are no indexes");
    let some = read(
        "suffixes = []\npassword_scheme = \"SSHA\"\n[limits]\nsize_limit = 0x10\n[indexes]\nsn = \
         \"equality,substring\"\ncn = []\n",
    );
    assert!(some.suffixes.is_empty());
    assert_eq!((some.general.password_scheme, some.general.size_limit), (StorageScheme::Ssha, 16));
    assert_eq!(some.general.time_limit_seconds, 60);
    assert_eq!(some.indexes["sn"], IndexKinds::EQUALITY.with(IndexKinds::SUBSTRING));
}

/// One run reports all unknown keys, unsuitable values and contradictory settings.
#[test]
fn reports_all_problems_at_once() {
    let mut none = |_: &str| Err("no such file".to_owned());
    let text = "sufixes = []\nsuffixes = [\"o=a\", \"ou=b,o=a\"]\npassword_scheme = \"ROT13\"\n\
                [indexes]\nnonsense = \"equality\"\ncn = \"sideways\"\n";
    let problems = parse(text, &mut none).unwrap_err();
    let lines: Vec<_> = problems.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [1, 2, 3, 5, 6], "{problems:?}");
    // If a schema file cannot be read, unknown names are not reported, because the file might define them.
    let text = "schema_files = [\"gone.schema\"]\n[indexes]\nown = \"equality\"\n";
    let problems = parse(text, &mut none).unwrap_err();
    assert_eq!(problems.iter().map(|problem| problem.line).collect::<Vec<_>>(), [1], "{problems:?}");
}

#[test]
fn errors_of_schema_files_name_the_file() {
    let folder = std::env::temp_dir().join(format!("pando-settings-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("own.schema"), "# comment\nattributetype ( 1.2.3 )\n").unwrap();
    let path = folder.join("settings.toml");
    let file = SettingsFile::parse(&path, "\nschema_files = [\"own.schema\"]\n").unwrap();
    let problem = &settings::check(file.settings()).unwrap_err()[0];
    let text = file.error(problem).to_string();
    assert!(text.starts_with(&format!("{}:2: SUP or SYNTAX", folder.join("own.schema").display())), "{text}");
    // If the settings file has a problem, too, each problem names its own file.
    let errors = SettingsFile::parse(&path, "schema_files = [\"own.schema\"]\n[limits]\nsize_limit = -1\n");
    let errors = errors.unwrap_err().to_string();
    assert!(
        errors.contains("own.schema:2: SUP or SYNTAX") && errors.contains("settings.toml:3: "),
        "{errors}"
    );
    std::fs::remove_dir_all(&folder).unwrap();
    let missing = SettingsFile::read(Path::new("/nonexistent/file")).unwrap_err();
    assert!(missing.to_string().contains("cannot read /nonexistent/file"), "{missing}");
}

#[test]
fn settings_with_any_schema_text_parse_as_written() {
    for definitions in [COLOUR, "a\nb\n", "\n", "a\r\nb", "'''\n", "x\ny'", "# \u{1}\n", "\"\"\"\n\\n", ""] {
        let stated = DirectorySettings {
            schema: [("local".to_owned(), definitions.to_owned())].into(),
            suffixes: vec!["o=\"a\\\\\",c=DE".to_owned()],
            ..DirectorySettings::default()
        };
        let written = text::write(&stated);
        let read = parse(&written, &mut |_| Err(String::new()));
        assert_eq!(read.unwrap().settings, stated, "{written}");
    }
}

#[test]
fn schema_files_are_read_unchanged() {
    let folder = std::env::temp_dir().join(format!("pando-schema-files-{}", std::process::id()));
    let nested = folder.join("slapd.d/cn=config/cn=schema");
    std::fs::create_dir_all(&nested).unwrap();
    let define = |number: u32, text: &str| format!("( 1.3.6.1.4.1.32473.{number} NAME '{text}' SUP name )\n");
    let ldif = |number, name| format!("dn: cn={name}\nolcAttributeTypes: {{0}}{}", define(number, name));
    std::fs::write(nested.join("cn={0}one.ldif"), ldif(1, "one")).unwrap();
    std::fs::write(nested.join("cn={1}two and.more.ldif"), ldif(2, "two")).unwrap();
    std::fs::write(nested.join("notes.txt"), "no schema").unwrap();
    let latin_1 =
        b"# Stra\xdfe\nattributetype ( 1.3.6.1.4.1.32473.3 NAME 'three' DESC 'Stra\xdfe' SUP name )\n";
    std::fs::write(folder.join("one.schema"), latin_1).unwrap();
    let text = "schema_files = [\"slapd.d\", \"one.schema\"]\n";
    let file = SettingsFile::parse(&folder.join("settings.toml"), text).unwrap();
    let names: Vec<_> = file.settings().schema.keys().map(String::as_str).collect();
    assert_eq!(names, ["one", "one-2", "two-and-more"]);
    let schema = settings::check(file.settings()).unwrap().schema;
    assert!(schema.attribute_type("one").is_some() && schema.attribute_type("two").is_some());
    assert_eq!(schema.attribute_type("three").unwrap().description.as_deref(), Some("Straße"));
    let notices = file.notices();
    assert!(
        notices.len() == 1 && notices[0].ends_with("one.schema: not UTF-8, read as ISO 8859-1"),
        "{notices:?}"
    );
    std::fs::remove_dir_all(&folder).unwrap();
}
