//! Tests of settings as a whole, and as entries of `cn=config`.

use ldap::{ChangeOperation, ResultCode as Code, Scope};

use super::check::check;
use super::{DirectorySettings, GeneralSettings, SettingPath};
use crate::access::Requester;
use crate::read::search::{Budget, Search, Step};
use crate::testing::{SUFFIX, TestDirectory, received};

const ROOT: &str = "cn=config";

const COLOUR: &str = "attributetype ( 1.3.6.1.4.1.32473.1 NAME 'colour' EQUALITY caseIgnoreMatch \
                      SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )\n\
                      objectclass ( 1.3.6.1.4.1.32473.2 NAME 'coloured' AUXILIARY MAY colour )";

fn all(directory: &mut TestDirectory) -> crate::testing::Found {
    directory.search("cn=config", Scope::WholeSubtree, "(objectClass=*)", &["*"])
}

#[test]
fn only_the_administrator_sees_settings_as_entries() {
    let mut directory = TestDirectory::with_suffix_entry();
    let found = all(&mut directory);
    assert_eq!(found.code, Code::SUCCESS);
    let root = &found.entries[0];
    assert_eq!(root.texts("pandoSuffix"), [SUFFIX]);
    assert_eq!(root.texts("pandoAnonymousRead"), ["FALSE"]);
    assert_eq!(root.texts("pandoSizeLimit"), ["1000"]);
    assert_eq!(root.texts("objectClass"), ["top", "pandoConfig"]);
    let sn = directory.read("cn=SN,cn=indexes,cn=config").unwrap();
    assert_eq!(sn.texts("pandoIndexKind"), ["equality", "ordering"]);
    let below =
        directory.search("cn=indexes,cn=config", Scope::SingleLevel, "(pandoIndexKind=equality)", &["cn"]);
    assert_eq!(below.entries.len(), DirectorySettings::default().indexes.len());
    assert_eq!(
        directory.search("cn=nope,cn=config", Scope::BaseObject, "(objectClass=*)", &[]).code,
        Code::NO_SUCH_OBJECT
    );
    // Every entry conforms to its object class, as clients may expect.
    for entry in &found.entries {
        for name in entry.attributes.keys() {
            assert!(directory.directory.attribute_name(name).is_some(), "{name} of {}", entry.dn);
        }
    }

    directory.requester = Requester::Anonymous;
    assert_eq!(all(&mut directory).code, Code::INSUFFICIENT_ACCESS_RIGHTS, "as for any name");
    let id = crate::model::rows::EntryId(1);
    directory.requester = Requester::User { id, dn: SUFFIX.to_owned() };
    assert_eq!(all(&mut directory).code, Code::NO_SUCH_OBJECT);
    let change: &[(ChangeOperation, &str, &[&str])] = &[(ChangeOperation::Replace, "pandoSizeLimit", &["1"])];
    assert_eq!(directory.modify("cn=config", change).code, Code::NO_SUCH_OBJECT);
    assert_eq!(directory.delete("cn=sn,cn=indexes,cn=config").code, Code::INSUFFICIENT_ACCESS_RIGHTS);
}

#[test]
fn operations_change_settings_with_immediate_effect() {
    let mut directory = TestDirectory::with_suffix_entry();
    let ok = |outcome: crate::model::outcome::Outcome| {
        assert_eq!(outcome.code, Code::SUCCESS, "{}", outcome.diagnostic)
    };
    ok(directory.modify(
        "CN=Config",
        &[
            (ChangeOperation::Replace, "pandoSizeLimit", &["7"]),
            (ChangeOperation::Replace, "pandoAnonymousRead", &["TRUE"]),
            (ChangeOperation::Add, "pandoSuffix", &["o=partners", "o=more"]),
            (ChangeOperation::Delete, "pandoSuffix", &["O=More"]),
            (ChangeOperation::Replace, "pandoIntegrityAttribute", &["owner", "member"]),
            (ChangeOperation::Delete, "pandoTimeLimitSeconds", &[]),
        ],
    ));
    let settings = directory.directory.settings();
    let general = &settings.general;
    assert_eq!((general.size_limit, general.time_limit_seconds, settings.anonymous_read()), (7, 60, true));
    assert_eq!(general.integrity_attributes, ["member", "owner"]);
    assert_eq!(directory.directory.suffixes(), [SUFFIX, "o=partners"]);
    ok(directory.add("o=partners", &[("objectClass", &["organization"])]));

    let index: &[(&str, &[&str])] =
        &[("objectClass", &["pandoIndex"]), ("pandoIndexKind", &["presence", "equality"])];
    ok(directory.add("cn=description,cn=indexes,cn=config", index));
    ok(directory.modify(
        "cn=description,cn=indexes,cn=config",
        &[
            (ChangeOperation::Add, "pandoIndexKind", &["substring"]),
            (ChangeOperation::Delete, "pandoIndexKind", &["presence"]),
        ],
    ));
    ok(directory.delete("cn=sn,cn=indexes,cn=config"));
    let indexes = directory.directory.directory_settings().indexes;
    assert_eq!(indexes["description"].to_string(), "equality,substring");
    assert!(!indexes.contains_key("sn"));

    let schema: &[(&str, &[&str])] =
        &[("objectClass", &["pandoSchema"]), ("cn", &["own"]), ("pandoSchemaText", &[COLOUR])];
    ok(directory.add("cn=own,cn=schema,cn=config", schema));
    ok(directory.modify(
        "o=partners",
        &[(ChangeOperation::Add, "objectClass", &["coloured"]), (ChangeOperation::Add, "colour", &["Red"])],
    ));
    let found = directory.search("o=partners", Scope::BaseObject, "(colour=RED)", &["colour"]);
    assert_eq!(found.entries[0].texts("colour"), ["Red"]);
    let published =
        directory.search("cn=subschema", Scope::BaseObject, "(objectClass=*)", &["attributeTypes"]);
    assert!(published.entries[0].texts("attributeTypes").iter().any(|text| text.contains("'colour'")));

    // All settings stay the same after a restart.
    let before = directory.directory.directory_settings();
    let mut directory = directory.reopen();
    assert_eq!(directory.directory.directory_settings(), before);
    assert_eq!(directory.search("o=partners", Scope::BaseObject, "(colour=red)", &[]).entries.len(), 1);
    directory.finish_indexes();
    assert_eq!(crate::maintenance::check::check(&directory.snapshot).unwrap(), Vec::<String>::new());
}

#[test]
fn each_refusal_has_its_code_and_changes_nothing() {
    use ChangeOperation::{Add, Delete, Increment, Replace};
    let mut directory = TestDirectory::with_suffix_entry();
    directory.change_settings(|settings| drop(settings.schema.insert("own".to_owned(), COLOUR.to_owned())));
    let painted: &[(&str, &[&str])] =
        &[("objectClass", &["organizationalUnit", "coloured"]), ("colour", &["red"])];
    assert_eq!(directory.add(&format!("ou=a,{SUFFIX}"), painted).code, Code::SUCCESS);
    let before = directory.directory.directory_settings();
    let number = COLOUR.replace("caseIgnoreMatch", "integerMatch").replace("121.1.15", "121.1.27");
    type Change<'a> = (ChangeOperation, &'a str, &'a [&'a str]);
    let modifications: &[(&str, Change<'_>, Code, &str)] = &[
        (ROOT, (Replace, "pandoSizeLimit", &["many"]), Code::INVALID_ATTRIBUTE_SYNTAX, "pandoSizeLimit"),
        (ROOT, (Replace, "pandoSizeLimit", &["-1"]), Code::CONSTRAINT_VIOLATION, "a whole number from 0"),
        (ROOT, (Replace, "pandoSizeLimit", &["1", "2"]), Code::CONSTRAINT_VIOLATION, "is single-valued"),
        (ROOT, (Replace, "pandoLogRecords", &["0"]), Code::CONSTRAINT_VIOLATION, "from 1"),
        (ROOT, (Replace, "pandoPasswordScheme", &["rot13"]), Code::CONSTRAINT_VIOLATION, "choose argon2id"),
        (ROOT, (Add, "pandoSuffix", &["x"]), Code::INVALID_ATTRIBUTE_SYNTAX, "pandoSuffix"),
        (
            ROOT,
            (Add, "pandoSuffix", &["ou=x,dc=example,dc=com"]),
            Code::CONSTRAINT_VIOLATION,
            "above or below",
        ),
        (ROOT, (Add, "pandoSuffix", &["DC=Example,dc=com"]), Code::ATTRIBUTE_OR_VALUE_EXISTS, "already"),
        (
            ROOT,
            (Add, "pandoSuffix", &["cn=a,cn=config"]),
            Code::CONSTRAINT_VIOLATION,
            "cn=config is reserved for the server",
        ),
        (ROOT, (Delete, "pandoSuffix", &[SUFFIX]), Code::UNWILLING_TO_PERFORM, "has 2 entries"),
        (ROOT, (Delete, "pandoSuffix", &["o=none"]), Code::NO_SUCH_ATTRIBUTE, "no value equal"),
        (
            ROOT,
            (Delete, "pandoMonitorReader", &[]),
            Code::NO_SUCH_ATTRIBUTE,
            "does not have pandoMonitorReader",
        ),
        (ROOT, (Add, "pandoIntegrityAttribute", &["cn"]), Code::CONSTRAINT_VIOLATION, "not links"),
        (ROOT, (Add, "description", &["x"]), Code::OBJECT_CLASS_VIOLATION, "not allowed by pandoConfig"),
        (ROOT, (Add, "nonsense", &["x"]), Code::UNDEFINED_ATTRIBUTE_TYPE, "nonsense"),
        (ROOT, (Replace, "entryDN", &["cn=x"]), Code::CONSTRAINT_VIOLATION, "set by the server only"),
        (ROOT, (Replace, "cn", &["other"]), Code::NOT_ALLOWED_ON_RDN, "cannot change"),
        (
            ROOT,
            (Add, "objectClass", &["extensibleObject"]),
            Code::OBJECT_CLASS_VIOLATION,
            "must be pandoConfig",
        ),
        (ROOT, (Increment, "pandoSizeLimit", &["1"]), Code::UNWILLING_TO_PERFORM, "replace"),
        (
            "cn=indexes,cn=config",
            (Add, "pandoIndexKind", &["equality"]),
            Code::OBJECT_CLASS_VIOLATION,
            "not allowed",
        ),
        (
            "cn=nope,cn=indexes,cn=config",
            (Add, "pandoIndexKind", &["equality"]),
            Code::NO_SUCH_OBJECT,
            "no entry",
        ),
        (
            "cn=sn,cn=indexes,cn=config",
            (Add, "pandoIndexKind", &["exact"]),
            Code::CONSTRAINT_VIOLATION,
            "not a kind of index",
        ),
        (
            "cn=sn,cn=indexes,cn=config",
            (Delete, "pandoIndexKind", &[]),
            Code::OBJECT_CLASS_VIOLATION,
            "needed",
        ),
        (
            "cn=uidNumber,cn=indexes,cn=config",
            (Add, "pandoIndexKind", &["substring"]),
            Code::CONSTRAINT_VIOLATION,
            "no substring rule",
        ),
        (
            "cn=own,cn=schema,cn=config",
            (Replace, "pandoSchemaText", &["nonsense"]),
            Code::CONSTRAINT_VIOLATION,
            "not the beginning",
        ),
        (
            "cn=own,cn=schema,cn=config",
            (Replace, "pandoSchemaText", &["# nothing"]),
            Code::CONSTRAINT_VIOLATION,
            "attribute type colour is used by an entry (\"o",
        ),
        (
            "cn=own,cn=schema,cn=config",
            (Replace, "pandoSchemaText", &[&number]),
            Code::CONSTRAINT_VIOLATION,
            "whose values do not fit the new definition",
        ),
    ];
    for (dn, change, code, part) in modifications {
        let outcome = directory.modify(dn, &[*change]);
        assert_eq!(outcome.code, *code, "{dn} {change:?}: {}", outcome.diagnostic);
        assert!(outcome.diagnostic.contains(part), "{dn} {change:?}: {}", outcome.diagnostic);
    }
    let kind: (&str, &[&str]) = ("pandoIndexKind", &["equality"]);
    let index: (&str, &[&str]) = ("objectClass", &["pandoIndex", "top"]);
    type Attributes<'a> = &'a [(&'a str, &'a [&'a str])];
    let additions: &[(&str, Attributes<'_>, Code, &str)] = &[
        ("cn=sn,cn=indexes,cn=config", &[index, kind], Code::ENTRY_ALREADY_EXISTS, "there is an entry"),
        ("cn=surname,cn=indexes,cn=config", &[index, kind], Code::NAMING_VIOLATION, "cn=sn"),
        ("cn=nonsense,cn=indexes,cn=config", &[index, kind], Code::CONSTRAINT_VIOLATION, "not defined"),
        ("cn=member,cn=indexes,cn=config", &[index, kind], Code::CONSTRAINT_VIOLATION, "always indexed"),
        ("cn=title,cn=indexes,cn=config", &[index], Code::OBJECT_CLASS_VIOLATION, "pandoIndexKind is needed"),
        ("cn=title,cn=indexes,cn=config", &[kind], Code::OBJECT_CLASS_VIOLATION, "must be pandoIndex"),
        (
            "cn=title,cn=indexes,cn=config",
            &[index, kind, ("cn", &["other"])],
            Code::NAMING_VIOLATION,
            "cn must be",
        ),
        ("cn=title,cn=config", &[index, kind], Code::UNWILLING_TO_PERFORM, "below cn=indexes"),
        (
            "cn=a b,cn=schema,cn=config",
            &[("objectClass", &["pandoSchema"]), ("pandoSchemaText", &["# x"])],
            Code::CONSTRAINT_VIOLATION,
            "cannot name a schema text",
        ),
    ];
    for (dn, attributes, code, part) in additions {
        let outcome = directory.add(dn, attributes);
        assert_eq!(outcome.code, *code, "{dn} {attributes:?}: {}", outcome.diagnostic);
        assert!(outcome.diagnostic.contains(part), "{dn} {attributes:?}: {}", outcome.diagnostic);
    }
    for (dn, code) in [
        ("cn=config", Code::UNWILLING_TO_PERFORM),
        ("cn=schema,cn=config", Code::UNWILLING_TO_PERFORM),
        ("cn=own,cn=schema,cn=config", Code::CONSTRAINT_VIOLATION),
        ("cn=title,cn=indexes,cn=config", Code::NO_SUCH_OBJECT),
    ] {
        assert_eq!(directory.delete(dn).code, code, "{dn}");
    }
    let moved = directory.modify_dn("cn=sn,cn=indexes,cn=config", "cn=title", true, None);
    assert_eq!(moved.code, Code::UNWILLING_TO_PERFORM);
    assert_eq!(directory.directory.directory_settings(), before);
}

#[test]
fn a_change_without_effect_writes_no_record() {
    let mut directory = TestDirectory::new();
    let position = directory.snapshot.position().unwrap();
    assert!(directory.try_change_settings(|_| ()).unwrap().is_empty());
    let other_spelling =
        |settings: &mut DirectorySettings| settings.suffixes = vec!["DC=Example, DC=Com".to_owned()];
    assert!(directory.try_change_settings(other_spelling).unwrap().is_empty());
    assert_eq!(directory.snapshot.position().unwrap(), position);
}

#[test]
fn several_changes_are_one_record_and_one_wrong_change_refuses_all() {
    let mut directory = TestDirectory::new();
    let position = directory.snapshot.position().unwrap();
    let change = |settings: &mut DirectorySettings| {
        settings.suffixes.push("o=x".to_owned());
        settings.general.size_limit = 3;
        settings.indexes.clear();
        settings.schema.insert("own".to_owned(), COLOUR.to_owned());
    };
    let refused = directory.try_change_settings(|settings| {
        change(settings);
        settings.general.integrity_attributes = vec!["cn".to_owned()];
    });
    assert!(refused.unwrap_err().to_string().starts_with("integrity_attributes[0]: "));
    assert_eq!(directory.directory.directory_settings(), DirectorySettings::default());
    let default_count = DirectorySettings::default().indexes.len();
    assert_eq!(directory.try_change_settings(change).unwrap().len(), 3 + default_count);
    assert_eq!(directory.snapshot.position().unwrap(), position + 1);
}

#[test]
fn a_search_reports_that_the_schema_has_changed() {
    let mut directory = TestDirectory::with_suffix_entry();
    for number in 0..20 {
        let unit: &[(&str, &[&str])] = &[("objectClass", &["organizationalUnit"]), ("description", &["x"])];
        assert_eq!(directory.add(&format!("ou={number},{SUFFIX}"), unit).code, Code::SUCCESS);
    }
    let filter = ldap::FilterBuf::parse("(description=x)").unwrap();
    let selection = ldap::SelectionBuf::new();
    let request =
        ldap::SearchRequest::new(SUFFIX, Scope::WholeSubtree, filter.as_filter(), selection.as_selection());
    let controls = crate::read::controls::RequestControls::default();
    let mut search = Search::start(
        &directory.snapshot,
        &directory.requester.context(),
        ldap::MessageId(1),
        &request,
        &controls,
    )
    .unwrap();
    let budget = Budget { entries_examined_max: 3, out_bytes_max: 10_000 };
    let mut out = Vec::new();
    assert_eq!(search.run(&directory.snapshot, &mut out, &budget), Step::More);
    directory.change_settings(|settings| drop(settings.schema.insert("own".to_owned(), COLOUR.to_owned())));
    assert_eq!(search.run(&directory.snapshot, &mut out, &budget), Step::Done);
    let found = received(&out);
    assert_eq!(found.code, Code::BUSY);
    assert!(!found.entries.is_empty() && found.diagnostic.contains("ask again"), "{}", found.diagnostic);
}

#[test]
fn setting_paths_round_trip_as_text() {
    for place in [
        SettingPath::Key("limits.size_limit".to_owned()),
        SettingPath::Key("indexes.a[0]".to_owned()),
        SettingPath::Key("indexes.b:3".to_owned()),
        SettingPath::Member("suffixes".to_owned(), 3),
        SettingPath::Line("schema.local".to_owned(), 12),
    ] {
        assert_eq!(place.to_string().parse(), Ok(place));
    }
}

#[test]
fn invalid_clients_and_capabilities_are_refused() {
    let of = |clients: &[&str], capabilities: &[&str]| {
        let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let general = GeneralSettings {
            member_of_clients: own(clients),
            supported_capabilities: own(capabilities),
            ..GeneralSettings::default()
        };
        check(&DirectorySettings { general, ..DirectorySettings::default() }).is_ok()
    };
    assert!(of(
        &["users", "members of cn=a,dc=b", "cn=a", "listener ldap"],
        &["1.2.840.113556.1.4.800", "0.1"]
    ));
    for client in ["", "members of ", "members of nothing", "listener LDAP", "listener ", "everyone"] {
        assert!(!of(&[client], &[]), "{client}");
    }
    for oid in ["", "1", "1.", "1..2", "01.2", "1.02", "cn", "1.2 "] {
        assert!(!of(&[], &[oid]), "{oid}");
    }
}

#[test]
fn the_root_dse_shows_the_capabilities_of_the_settings() {
    let mut directory = TestDirectory::with_suffix_entry();
    let shown = |directory: &mut TestDirectory| {
        let found = directory.search("", Scope::BaseObject, "(objectClass=*)", &["supportedCapabilities"]);
        found.entries[0].texts("supportedCapabilities")
    };
    assert_eq!(shown(&mut directory), [] as [&str; 0]);
    let oids = ["1.2.840.113556.1.4.800", "1.2.840.113556.1.4.1670"];
    let change: &[(ChangeOperation, &str, &[&str])] =
        &[(ChangeOperation::Replace, "pandoSupportedCapability", &oids)];
    let outcome = directory.modify("cn=config", change);
    assert_eq!(outcome.code, Code::SUCCESS, "{}", outcome.diagnostic);
    assert_eq!(shown(&mut directory), oids);
}

#[test]
fn definitions_are_added_and_deleted_through_the_subschema() {
    use ChangeOperation::{Add, Delete, Replace};
    let mut directory = TestDirectory::with_suffix_entry();
    let colour =
        "( 1.3.6.1.4.1.32473.1 NAME 'colour' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 EQUALITY caseIgnoreMatch )";
    let painted = "( 1.3.6.1.4.1.32473.2 NAME 'painted' AUXILIARY MAY colour )";
    let both: &[(_, &str, &[&str])] =
        &[(Add, "objectClasses", &[painted]), (Add, "attributeTypes", &[colour])];
    assert_eq!(directory.modify("CN=Subschema", both).code, Code::SUCCESS);
    let shown = |directory: &mut TestDirectory| {
        let found =
            directory.search("cn=subschema", Scope::BaseObject, "(objectClass=*)", &["attributeTypes"]);
        found.entries[0].texts("attributeTypes").iter().any(|text| text.contains("'colour'"))
    };
    assert!(shown(&mut directory));
    let online = |directory: &TestDirectory| DirectorySettings::of(directory.snapshot.state().catalog).schema;
    assert_eq!(
        online(&directory)["online"],
        "objectClasses: ( 1.3.6.1.4.1.32473.2 NAME 'painted' AUXILIARY MAY colour )\n\
         attributeTypes: ( 1.3.6.1.4.1.32473.1 NAME 'colour' EQUALITY caseIgnoreMatch SYNTAX \
         1.3.6.1.4.1.1466.115.121.1.15 )\n"
    );
    let entry = [("objectClass", &["device", "painted"][..]), ("colour", &["red"])];
    assert_eq!(directory.add(&format!("cn=x,{SUFFIX}"), &entry).code, Code::SUCCESS);
    let shipped = "( 2.5.4.3 NAME 'cn' SUP name )";
    let refusals: &[(ChangeOperation, &str, &str, Code, &str)] = &[
        (
            Add,
            "attributeTypes",
            colour,
            Code::ATTRIBUTE_OR_VALUE_EXISTS,
            "there is a definition of 1.3.6.1.4.1.3",
        ),
        (Add, "attributeTypes", shipped, Code::ATTRIBUTE_OR_VALUE_EXISTS, "2.5.4.3"),
        (Delete, "attributeTypes", shipped, Code::UNWILLING_TO_PERFORM, "what is shipped"),
        (
            Delete,
            "attributeTypes",
            "( 1.2.3 SUP name )",
            Code::NO_SUCH_ATTRIBUTE,
            "to delete of attributeTypes 1.2.3",
        ),
        (Delete, "attributeTypes", "CN", Code::UNWILLING_TO_PERFORM, "what is shipped"),
        (Delete, "attributeTypes", "1.2.3", Code::NO_SUCH_ATTRIBUTE, "to delete of attributeTypes 1.2.3"),
        (Delete, "objectClasses", "colour", Code::NO_SUCH_ATTRIBUTE, "to delete of objectClasses colour"),
        (Delete, "attributeTypes", "colour (", Code::INVALID_ATTRIBUTE_SYNTAX, "value 1"),
        (Add, "attributeTypes", "1.2.3", Code::INVALID_ATTRIBUTE_SYNTAX, "value 1"),
        (Delete, "attributeTypes", "Colour", Code::CONSTRAINT_VIOLATION, "\"colour\" in MAY is not defined"),
        (Add, "attributeTypes", "( 1.2.3 SUP", Code::INVALID_ATTRIBUTE_SYNTAX, "value 1"),
        (
            Add,
            "attributeTypes",
            "( 1.2.3 SUP nothing )",
            Code::CONSTRAINT_VIOLATION,
            "\"nothing\" is not defined",
        ),
        (Replace, "attributeTypes", colour, Code::UNWILLING_TO_PERFORM, "add and delete single values"),
        (Add, "matchingRules", "( 1.2.3 SYNTAX 1.2 )", Code::UNWILLING_TO_PERFORM, "can be changed, not"),
        (Add, "cn", "x", Code::UNWILLING_TO_PERFORM, "can be changed, not"),
        (Delete, "attributeTypes", colour, Code::CONSTRAINT_VIOLATION, "\"colour\" in MAY is not defined"),
        (
            Delete,
            "objectClasses",
            painted,
            Code::CONSTRAINT_VIOLATION,
            "object class painted is used by an entry (\"cn=x,",
        ),
    ];
    for (operation, attribute, value, code, text) in refusals {
        let outcome = directory.modify("cn=subschema", &[(*operation, attribute, &[*value])]);
        assert_eq!(outcome.code, *code, "{attribute} {value}: {}", outcome.diagnostic);
        assert!(outcome.diagnostic.contains(text), "{attribute} {value}: {}", outcome.diagnostic);
    }
    // A request changes a definition by a delete and an add. The definition is deleted from the schema text that
    // contains it.
    let own = "# kept\nattributetype ( 1.3.6.1.4.1.32473.3 NAME 'size'\n  SUP name )\n# kept too\n";
    directory.change_settings(|settings| drop(settings.schema.insert("own".to_owned(), own.to_owned())));
    let (before, after) =
        ("( 1.3.6.1.4.1.32473.3 SUP cn )", "( 1.3.6.1.4.1.32473.3 NAME 'shoeSize' SUP name )");
    let change: &[(_, &str, &[&str])] =
        &[(Delete, "attributeTypes", &[before]), (Add, "attributeTypes", &[after])];
    assert_eq!(directory.modify("cn=subschema", change).code, Code::SUCCESS);
    assert_eq!(online(&directory)["own"], "# kept\n# kept too\n");
    let rules: &[(_, &str, &[&str])] = &[(Add, "dITContentRules", &["( 2.5.6.14 NOT l )"])];
    assert_eq!(directory.modify("cn=subschema", rules).code, Code::SUCCESS);
    let entry = [("objectClass", &["device"][..]), ("l", &["here"])];
    assert_eq!(directory.add(&format!("cn=y,{SUFFIX}"), &entry).code, Code::OBJECT_CLASS_VIOLATION);
    directory = directory.reopen();
    let undo: &[(_, &str, &[&str])] =
        &[(Delete, "dITContentRules", &["( 2.5.6.14 )"]), (Delete, "attributeTypes", &[after])];
    assert_eq!(directory.modify("cn=subschema", undo).code, Code::SUCCESS);
    directory.requester = crate::access::Requester::Anonymous;
    assert_ne!(directory.modify("cn=subschema", both).code, Code::SUCCESS);
}

/// Regression test: to delete a definition, clients had to repeat the whole definition.
#[test]
fn definitions_are_deleted_by_oid_or_name() {
    use ChangeOperation::{Add, Delete};
    let mut directory = TestDirectory::with_suffix_entry();
    let own = "objectidentifier own 1.3.6.1.4.1.32473\nattributetype ( own:1 NAME ( 'size' 'shoeSize' ) SUP name )\n";
    let colour = "( 1.3.6.1.4.1.32473.2 NAME 'colour' SUP name )";
    let painted = "( 1.3.6.1.4.1.32473.3 NAME 'painted' AUXILIARY MAY cn )";
    let form = "( 1.3.6.1.4.1.32473.4 NAME 'deviceForm' OC device MUST cn )";
    directory.change_settings(|settings| drop(settings.schema.insert("own".to_owned(), own.to_owned())));
    let schema = |directory: &TestDirectory| DirectorySettings::of(directory.snapshot.state().catalog).schema;
    let add: &[(_, &str, &[&str])] = &[
        (Add, "attributeTypes", &[colour]),
        (Add, "objectClasses", &[painted]),
        (Add, "nameForms", &[form]),
        (Add, "dITStructureRules", &["( 7 NAME 'devices' FORM deviceForm )"]),
    ];
    assert_eq!(directory.modify("cn=subschema", add).code, Code::SUCCESS);
    let delete: &[(_, &str, &[&str])] = &[
        (Delete, "dITStructureRules", &["7"]),
        (Delete, "nameForms", &["deviceForm"]),
        (Delete, "attributeTypes", &["SHOESIZE", " 1.3.6.1.4.1.32473.2 "]),
        (Delete, "objectClasses", &["( 1.3.6.1.4.1.32473.3 NAME 'other' DESC 'other' )"]),
        (Add, "attributeTypes", &["( 1.3.6.1.4.1.32473.9 NAME 'brief' SUP name )"]),
        (Delete, "attributeTypes", &["brief"]),
    ];
    let outcome = directory.modify("cn=subschema", delete);
    assert_eq!(outcome.code, Code::SUCCESS, "{}", outcome.diagnostic);
    let left = schema(&directory);
    assert_eq!(left["own"], "objectidentifier own 1.3.6.1.4.1.32473\n");
    assert!(!left.contains_key("online"), "{left:?}");
}

#[test]
fn schema_entries_of_openldap_are_added_as_they_are() {
    let mut directory = TestDirectory::with_suffix_entry();
    let types = ["{0}( own:1 NAME 'colour' SUP name )", "{1}( own:2 NAME 'shape' SUP name )"];
    let entry: &[(&str, &[&str])] = &[
        ("objectClass", &["olcSchemaConfig"]),
        ("cn", &["{4}own"]),
        ("olcAttributeTypes", &types),
        ("olcObjectClasses", &["{0}( own:3 NAME 'painted' AUXILIARY MAY ( colour $ shape ) )"]),
        ("olcObjectIdentifier", &["{0}own 1.3.6.1.4.1.32473"]),
    ];
    let outcome = directory.add("cn={4}own,cn=schema,cn=config", entry);
    assert_eq!(outcome.code, Code::SUCCESS, "{}", outcome.diagnostic);
    let painted = [("objectClass", &["device", "painted"][..]), ("shape", &["round"])];
    assert_eq!(directory.add(&format!("cn=x,{SUFFIX}"), &painted).code, Code::SUCCESS);
    assert_eq!(directory.add("cn={7}OWN,cn=schema,cn=config", entry).code, Code::ENTRY_ALREADY_EXISTS);
    assert_eq!(
        directory.delete("cn=own,cn=schema,cn=config").code,
        Code::CONSTRAINT_VIOLATION,
        "it is in use"
    );
    type Attributes<'a> = &'a [(&'a str, &'a [&'a str])];
    let wrong: &[(Attributes<'_>, Code, &str)] = &[
        (
            &[("olcAttributeTypes", &["( 1.2.3 NAME 'a' )"])],
            Code::CONSTRAINT_VIOLATION,
            "SUP or SYNTAX is missing",
        ),
        (&[("olcAttributeTypes", &["( 1.2.3\nNAME 'a' )"])], Code::INVALID_ATTRIBUTE_SYNTAX, "is one line"),
        (&[("description", &["x"])], Code::OBJECT_CLASS_VIOLATION, "is not an attribute of olcSchemaConfig"),
        (&[("olcSuffix", &["o=x"])], Code::OBJECT_CLASS_VIOLATION, "is not an attribute of olcSchemaConfig"),
    ];
    for (more, code, text) in wrong {
        let entry = [&[("objectClass", &["olcSchemaConfig"][..])], *more].concat();
        let outcome = directory.add("cn=more,cn=schema,cn=config", &entry);
        assert_eq!(outcome.code, *code, "{}", outcome.diagnostic);
        assert!(outcome.diagnostic.contains(text), "{}", outcome.diagnostic);
    }
}
