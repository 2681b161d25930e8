//! Tests of the conversion of plain values to links.

use std::collections::{BTreeMap, BTreeSet};

use ldap::ChangeOperation::{Add, Delete, Replace};
use ldap::{ModifyDnRequest, Request, ResultCode, Scope};

use crate::RecordRoom;
use crate::read::controls::RequestControls;
use crate::testing::{SUFFIX, TestDirectory, no_operation, ok, refused};
use crate::write::linking::{is_pending, notes, progress};

const CLASS: &str = "objectclass ( 1.3.6.1.4.1.32473.2 NAME 'led' AUXILIARY MAY ( boss $ deputy ) )\n";

/// Returns the definition of `boss` with this extension, and the definition of its subtype `deputy`.
fn schema(extension: &str) -> String {
    format!(
        "attributetype ( 1.3.6.1.4.1.32473.1 NAME 'boss' EQUALITY distinguishedNameMatch SYNTAX \
         1.3.6.1.4.1.1466.115.121.1.12 {extension} )\n\
         attributetype ( 1.3.6.1.4.1.32473.3 NAME 'deputy' SUP boss )\n{CLASS}"
    )
}

const LINKED: &str = "X-LINK 'TRUE'";

fn name(cn: &str) -> String {
    format!("cn={cn},{SUFFIX}")
}

fn set(directory: &mut TestDirectory, text: &str) -> Result<(), String> {
    let changed = directory
        .try_change_settings(|settings| drop(settings.schema.insert("own".to_owned(), text.to_owned())));
    changed.map(drop).map_err(|error| error.to_string())
}

fn directory(extension: &str) -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    set(&mut directory, &schema(extension)).unwrap();
    directory
}

fn add(directory: &mut TestDirectory, cn: &str, bosses: &[&str]) {
    let bosses: Vec<String> = bosses.iter().map(|boss| name(boss)).collect();
    let bosses: Vec<&str> = bosses.iter().map(String::as_str).collect();
    let mut attributes: Vec<(&str, &[&str])> = vec![("objectClass", &["device", "led"])];
    if !bosses.is_empty() {
        attributes.push(("boss", &bosses));
    }
    ok(directory.add(&name(cn), &attributes));
}

fn bosses(directory: &mut TestDirectory, cn: &str) -> BTreeSet<String> {
    directory.read(&name(cn)).unwrap().texts("boss").into_iter().collect()
}

fn find_dns(directory: &mut TestDirectory, filter: &str) -> Vec<String> {
    let found = directory.search(SUFFIX, Scope::WholeSubtree, filter, &["1.1"]);
    assert_eq!(found.code, ResultCode::SUCCESS, "{}", found.diagnostic);
    let mut names: Vec<String> = found.dns().iter().map(|dn| (*dn).to_owned()).collect();
    names.sort();
    names
}

fn check(directory: &TestDirectory) {
    assert_eq!(crate::maintenance::check::check(&directory.snapshot).unwrap(), Vec::<String>::new());
}

fn pending(directory: &TestDirectory) -> bool {
    is_pending(directory.snapshot.state())
}

fn finish(directory: &mut TestDirectory) {
    while directory.make_due_changes(0) {}
    assert!(!pending(directory));
}

#[test]
fn answers_stay_the_same_while_values_become_links() {
    let mut directory = directory("");
    for number in 0..9 {
        add(&mut directory, &format!("p{number}"), &[&format!("p{}", number / 2), "none"]);
    }
    ok(directory.modify(&name("p8"), &[(Add, "deputy", &[&name("p1")])]));
    let mut proposal = directory.directory.directory_settings();
    proposal.schema.insert("own".to_owned(), schema(LINKED));
    let notes = notes(directory.snapshot.state(), &proposal).unwrap();
    assert_eq!(notes.len(), 1, "{notes:?}");
    // The value of p0 that names p0 itself is not dangling, because p0 exists now.
    assert!(notes[0].starts_with("boss: 18 values of 9 entries become links in the background; 9 of them"));

    let filters = [
        format!("(boss={})", name("p1")),
        format!("(boss={})", name("none")),
        format!("(!(boss={}))", name("p1")),
        "(boss=*)".to_owned(),
    ];
    let answers = |directory: &mut TestDirectory| {
        let found: Vec<_> = filters.iter().map(|filter| find_dns(directory, filter)).collect();
        let values: Vec<_> = (0..9).map(|number| bosses(directory, &format!("p{number}"))).collect();
        (found, values)
    };
    let before = answers(&mut directory);
    let chain = format!("(boss:1.2.840.113556.1.4.1941:={})", name("p0"));
    assert!(find_dns(&mut directory, &chain).is_empty());
    set(&mut directory, &schema(LINKED)).unwrap();
    let mut steps = 0;
    while pending(&directory) {
        assert_eq!(answers(&mut directory), before);
        assert!(find_dns(&mut directory, &chain).is_empty());
        check(&directory);
        assert!(directory.make_due_changes(0));
        directory = directory.reopen();
        steps += 1;
    }
    assert!(steps > 3, "{steps}");
    assert_eq!(answers(&mut directory), before);
    assert_eq!(find_dns(&mut directory, &chain).len(), 9, "all are led by p0, which leads itself");
    let progress = progress(directory.snapshot.state()).unwrap();
    assert_eq!((progress.values, progress.dangling), (18, 9));
    check(&directory);
    // Links follow renames of their entries; text becomes a link.
    ok(directory.modify_dn(&name("p1"), "cn=one", true, None));
    add(&mut directory, "none", &[]);
    ok(directory.modify_dn(&name("none"), "cn=some", true, None));
    assert_eq!(bosses(&mut directory, "p3"), BTreeSet::from([name("one"), name("some")]));
    assert_eq!(directory.read(&name("p8")).unwrap().texts("deputy"), [name("p1")], "a subtype is not a link");
    check(&directory);
}

/// Regression test: an entry is converted before its change, by a record in the same batch. If the record of the
/// change did not fit into the record group, the conversion stayed in the writer's batch, but other nodes of the
/// cluster never received the conversion.
#[test]
fn a_conversion_and_its_change_are_logged_together_or_rejected() {
    let mut directory = directory("");
    add(&mut directory, "a", &["a", "none"]);
    set(&mut directory, &schema(LINKED)).unwrap();
    let (stamp, requester, dn) = (directory.stamp(), directory.requester.clone(), name("a"));
    let mut batch = directory.writer.begin().unwrap();
    let before = batch.position().unwrap();
    let mut rename = |room: RecordRoom, overhead: usize| {
        batch.limit_records(room, overhead);
        let request = Request::ModifyDn(ModifyDnRequest {
            entry: &dn,
            new_rdn: "cn=b",
            delete_old_rdn: true,
            new_superior: None,
        });
        let code = batch.execute(&requester.context(), &request, &RequestControls::default(), &stamp).code;
        (code, batch.take_rejected_room(), batch.position().unwrap() - before)
    };
    let (busy, conversion, row_count) = rename(RecordRoom::of_bytes(0), 0);
    assert_eq!((busy, row_count), (ResultCode::BUSY, 0));
    let conversion = conversion.unwrap();
    let (busy, both, row_count) = rename(RecordRoom::of_bytes(conversion.bytes), 0);
    assert_eq!((busy, row_count), (ResultCode::BUSY, 0));
    let both = both.unwrap();
    assert!(both.bytes > conversion.bytes, "{both:?} {conversion:?}");
    assert_eq!((conversion.count, both.count), (1, 2));
    // Each record has an overhead of 8 bytes here, and the number of records is limited, too.
    let room = |bytes: usize, count: usize| RecordRoom { bytes: both.bytes + bytes, count };
    assert_eq!(rename(room(15, 2), 8), (ResultCode::BUSY, Some(room(16, 2)), 0));
    assert_eq!(rename(room(16, 1), 8), (ResultCode::BUSY, Some(room(16, 2)), 0));
    assert_eq!(rename(room(16, 2), 8), (ResultCode::SUCCESS, None, 2));
    batch.commit().unwrap();
    directory.snapshot.renew().unwrap();
    finish(&mut directory);
    check(&directory);
}

#[test]
fn a_change_converts_its_entry_first() {
    let mut directory = directory("");
    for cn in ["a", "b", "c", "d"] {
        add(&mut directory, cn, &["a", "none"]);
    }
    set(&mut directory, &schema(LINKED)).unwrap();
    refused(
        directory.modify(&name("d"), &[(Add, "boss", &[&name("A")])]),
        ResultCode::ATTRIBUTE_OR_VALUE_EXISTS,
        "boss",
    );
    ok(directory.modify(&name("d"), &[(Delete, "boss", &[&name("NONE")]), (Add, "boss", &[&name("b")])]));
    assert_eq!(bosses(&mut directory, "d"), BTreeSet::from([name("a"), name("b")]));
    ok(directory.modify_dn(&name("c"), "cn=e", true, None));
    ok(directory.modify_dn(&name("a"), "cn=first", true, None));
    // Links of converted entries follow the rename. The text of other entries becomes a dangling link, because the
    // entry that it names was renamed before the conversion.
    assert!(bosses(&mut directory, "d").contains(&name("first")));
    assert!(bosses(&mut directory, "b").contains(&name("a")));
    check(&directory);
    finish(&mut directory);
    assert!(bosses(&mut directory, "b").contains(&name("a")));
    check(&directory);
}

#[test]
fn many_and_large_values_become_links() {
    let mut directory = directory("");
    let many: Vec<String> = (0..60).map(|number| format!("m{number}")).collect();
    add(&mut directory, "m7", &[]);
    add(&mut directory, "many", &many.iter().map(String::as_str).collect::<Vec<_>>());
    let long = "x".repeat(4_000);
    add(&mut directory, "long", &[&long]);
    set(&mut directory, &schema(LINKED)).unwrap();
    finish(&mut directory);
    check(&directory);
    assert_eq!(bosses(&mut directory, "many").len(), 60);
    assert_eq!(find_dns(&mut directory, &format!("(boss={})", name(&long))), [name("long")]);
    ok(directory.modify_dn(&name("m7"), "cn=seven", true, None));
    assert!(bosses(&mut directory, "many").contains(&name("seven")));
    ok(directory.modify(&name("long"), &[(Delete, "boss", &[&name(&long)])]));
    ok(directory.delete(&name("many")));
    check(&directory);
}

#[test]
fn undelete_restores_converted_values_as_links() {
    let mut directory = directory("");
    directory.change_settings(|settings| settings.general.keep_deleted_seconds = 3_600);
    add(&mut directory, "a", &[]);
    add(&mut directory, "b", &["a", "none"]);
    ok(directory.delete(&name("b")));
    set(&mut directory, &schema(LINKED)).unwrap();
    finish(&mut directory);
    directory.undelete(&name("b"), None).unwrap();
    ok(directory.modify_dn(&name("a"), "cn=c", true, None));
    assert_eq!(bosses(&mut directory, "b"), BTreeSet::from([name("c"), name("none")]));
    check(&directory);
}

#[test]
fn x_link_cannot_be_removed_while_entries_have_values() {
    let mut directory = directory(LINKED);
    assert!(!pending(&directory), "no entry ever had the attribute");
    add(&mut directory, "a", &["a"]);
    let error = set(&mut directory, &schema("")).unwrap_err();
    assert!(error.contains("boss is used by an entry (\"cn=a,") && error.contains("X-LINK"), "{error}");
    ok(directory.modify(&name("a"), &[(Replace, "boss", &[])]));
    set(&mut directory, &schema("")).unwrap();
    ok(directory.modify(&name("a"), &[(Replace, "boss", &[&name("a")])]));
    ok(directory.modify_dn(&name("a"), "cn=b", true, None));
    assert_eq!(bosses(&mut directory, "b"), BTreeSet::from([name("a")]));
    // The conversion starts again after X-LINK is added again.
    set(&mut directory, &schema(LINKED)).unwrap();
    finish(&mut directory);
    ok(directory.modify(&name("b"), &[(Replace, "boss", &[&name("b")])]));
    let mut directory = directory.reopen();
    ok(directory.modify_dn(&name("b"), "cn=c", true, None));
    assert_eq!(bosses(&mut directory, "c"), BTreeSet::from([name("c")]));
    check(&directory);
}

#[test]
fn definitions_that_cannot_be_links_are_refused() {
    let mut directory = directory("");
    let bad =
        |text: &str| format!("attributetype ( 1.3.6.1.4.1.32473.9 NAME 'other' {text} )\n{}", schema(""));
    for (text, why) in [
        ("SUP name X-LINK 'TRUE'", "the syntax DN"),
        ("SUP uniqueMember X-LINK 'TRUE'", "the syntax DN"),
        ("SYNTAX 1.3.6.1.4.1.1466.115.121.1.12 X-LINK 'TRUE'", "EQUALITY distinguishedNameMatch"),
        ("SUP boss X-LINK 'boss'", "it takes the value 'TRUE'"),
        ("SUP boss USAGE directoryOperation X-LINK 'TRUE'", "operational"),
    ] {
        let error = set(&mut directory, &bad(text)).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
    directory.define_index("boss", "equality");
    let error = set(&mut directory, &schema(LINKED)).unwrap_err();
    assert!(error.contains("links to entries, which are always indexed"), "{error}");
    directory.define_index("boss", "none");
    directory.finish_indexes();

    // The rule needs links of the attribute, so the rule is refused until the links exist.
    add(&mut directory, "a", &["a"]);
    let rule = "led: allow read to named by boss";
    let both = |directory: &mut TestDirectory| {
        let changed = directory.try_change_settings(|settings| {
            settings.schema.insert("own".to_owned(), schema(LINKED));
            settings.general.access_rules =
                vec![rule.to_owned(), "all: allow read, write to authenticated".to_owned()];
        });
        changed.map(drop).map_err(|error| error.to_string())
    };
    let error = both(&mut directory).unwrap_err();
    assert!(error.contains("cn=Links,cn=monitor"), "{error}");
    set(&mut directory, &schema(LINKED)).unwrap();
    both(&mut directory).unwrap_err();
    finish(&mut directory);
    both(&mut directory).unwrap();
}

/// A site may copy a shipped definition and add X-LINK. The type then becomes a link type.
#[test]
fn a_shipped_type_becomes_a_link() {
    let mut directory = TestDirectory::with_suffix_entry();
    ok(directory.add(
        &name("a"),
        &[("objectClass", &["document", "extensibleObject"]), ("documentIdentifier", &["1"])],
    ));
    ok(directory.modify(&name("a"), &[(Add, "documentAuthor", &[&name("a")])]));
    let text = "attributetype ( 0.9.2342.19200300.100.1.14 NAME 'documentAuthor' EQUALITY \
                distinguishedNameMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.12 X-LINK 'TRUE' )\n";
    set(&mut directory, text).unwrap();
    finish(&mut directory);
    ok(directory.modify_dn(&name("a"), "cn=b", true, None));
    assert_eq!(directory.read(&name("b")).unwrap().texts("documentAuthor"), [name("b")]);
    check(&directory);
    // The server itself reads values of this type, so it cannot become a link type.
    let alias = "attributetype ( 2.5.4.1 NAME 'aliasedObjectName' EQUALITY distinguishedNameMatch SYNTAX \
                 1.3.6.1.4.1.1466.115.121.1.12 SINGLE-VALUE X-LINK 'TRUE' )\n";
    assert!(set(&mut directory, alias).unwrap_err().contains("the server itself reads"));
}

/// Earlier builds stored the extension, but ignored it. Values of types with the extension stay plain.
#[test]
fn an_extension_that_earlier_builds_ignored_stays_without_effect() {
    let mut directory = directory("");
    add(&mut directory, "a", &["a"]);
    let schema = std::sync::Arc::new(std::collections::BTreeMap::from([("own".to_owned(), schema(LINKED))]));
    let mut settings = directory.snapshot.state().catalog.settings.clone();
    settings.schema = schema;
    let mut batch = directory.writer.begin_repair().unwrap();
    batch.put(crate::model::rows::META, crate::catalog::META_SCHEMA, &settings.encode_schema()).unwrap();
    batch.commit().unwrap();
    let mut directory = directory.reopen();
    ok(directory.modify(&name("a"), &[(Add, "boss", &[&name("b")])]));
    ok(directory.modify_dn(&name("a"), "cn=c", true, None));
    assert_eq!(bosses(&mut directory, "c"), BTreeSet::from([name("a"), name("b")]));
    check(&directory);
    set(&mut directory, &super::tests::schema("X-LINK 'TRUE' X-ORIGIN 'again'")).unwrap();
    assert!(pending(&directory));
    finish(&mut directory);
    check(&directory);
}

/// A value of the model: text, or an entry, whose present name is the value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ModelValue {
    Entry(usize),
    Text(String),
}

#[derive(Default)]
struct Model {
    /// Names of entries; `None` for a deleted entry.
    names: Vec<Option<String>>,
    values: BTreeMap<usize, BTreeSet<ModelValue>>,
    /// Entries whose values are links.
    links: BTreeSet<usize>,
}

impl Model {
    fn existing(&self) -> Vec<usize> {
        (0..self.names.len()).filter(|id| self.names[*id].is_some()).collect()
    }

    fn named(&self, text: &str) -> ModelValue {
        let found = self.names.iter().position(|name| name.as_deref() == Some(text));
        found.map_or_else(|| ModelValue::Text(text.to_owned()), ModelValue::Entry)
    }

    fn text(&self, value: &ModelValue) -> String {
        match value {
            ModelValue::Entry(id) => self.names[*id].clone().unwrap(),
            ModelValue::Text(text) => text.clone(),
        }
    }

    fn convert(&mut self, id: usize) {
        let texts: Vec<String> = self.values[&id].iter().map(|value| self.text(value)).collect();
        let values = texts.iter().map(|text| self.named(text)).collect();
        self.values.insert(id, values);
        self.links.insert(id);
    }

    /// Converts the text values of link attributes again, because entries with these names may exist now.
    fn convert_again(&mut self) {
        for id in self.links.clone() {
            if self.names[id].is_some() {
                self.convert(id);
            }
        }
    }
}

#[test]
fn random_changes_while_values_become_links_agree_with_a_model() {
    let seed =
        std::env::var("PANDO_TEST_SEED").map_or_else(|_| fastrand::u64(..), |text| text.parse().unwrap());
    println!("PANDO_TEST_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut directory = directory("");
    let mut model = Model::default();
    let (mut has_begun, labels) = (false, 12);
    for round in 0..160 {
        if round == 50 {
            set(&mut directory, &schema(LINKED)).unwrap();
            has_begun = true;
        }
        let label = |random: &mut fastrand::Rng| format!("e{}", random.usize(0..labels));
        let existing = model.existing();
        let some = (!existing.is_empty()).then(|| existing[random.usize(0..existing.len())]);
        match (random.u8(0..12), some) {
            (0..=3, _) => {
                let (cn, value) = (label(&mut random), label(&mut random));
                if !matches!(model.named(&cn), ModelValue::Text(_)) {
                    continue;
                }
                add(&mut directory, &cn, &[&value]);
                let id = model.names.len();
                model.names.push(Some(cn));
                model.values.insert(id, BTreeSet::from([ModelValue::Text(value)]));
                if has_begun {
                    model.convert(id);
                }
                model.convert_again();
            }
            (4..=6, Some(id)) => {
                let own = name(&model.names[id].clone().unwrap());
                let value = label(&mut random);
                if has_begun && !model.links.contains(&id) {
                    model.convert(id);
                }
                let has = model.values[&id].iter().any(|known| model.text(known) == value);
                let outcome = match has {
                    true => directory.modify(&own, &[(Delete, "boss", &[&name(&value)])]),
                    false => directory.modify(&own, &[(Add, "boss", &[&name(&value)])]),
                };
                ok(outcome);
                let named = if has_begun { model.named(&value) } else { ModelValue::Text(value.clone()) };
                let known = model.values[&id].iter().find(|known| model.text(known) == value).cloned();
                let values = model.values.get_mut(&id).unwrap();
                match known {
                    Some(known) => drop(values.remove(&known)),
                    None => drop(values.insert(named)),
                }
            }
            (7..=8, Some(id)) => {
                let cn = label(&mut random);
                if !matches!(model.named(&cn), ModelValue::Text(_)) {
                    continue;
                }
                if has_begun && !model.links.contains(&id) {
                    model.convert(id);
                }
                let own = name(&model.names[id].clone().unwrap());
                ok(directory.modify_dn(&own, &format!("cn={cn}"), true, None));
                model.names[id] = Some(cn);
                model.convert_again();
            }
            (9, Some(id)) => {
                let own = model.names[id].clone().unwrap();
                ok(directory.delete(&name(&own)));
                for values in model.values.values_mut() {
                    if values.remove(&ModelValue::Entry(id)) {
                        values.insert(ModelValue::Text(own.clone()));
                    }
                }
                model.names[id] = None;
                model.values.remove(&id);
                model.links.remove(&id);
            }
            (10, _) => {
                directory.make_due_changes(0);
                directory = directory.reopen();
            }
            _ => {
                directory.snapshot.renew().unwrap();
            }
        }
        // The writer chooses the order of conversion, so the model asks the directory which entries are converted.
        if has_begun {
            for id in model.existing() {
                if !model.links.contains(&id)
                    && is_converted(&mut directory, &model.names[id].clone().unwrap())
                {
                    model.convert(id);
                }
            }
        }
        compare(&mut directory, &model);
    }
    finish(&mut directory);
    for id in model.existing() {
        model.convert(id);
    }
    compare(&mut directory, &model);
    check(&directory);
}

/// Returns true if an entry has no plain values left.
fn is_converted(directory: &mut TestDirectory, cn: &str) -> bool {
    let dn = name(cn);
    let state = directory.snapshot.state();
    let changes = ldap::ChangesBuf::new();
    let request = ldap::ModifyRequest { object: &dn, changes: changes.as_changes() };
    super::step_of(state, &ldap::Request::Modify(request)).unwrap().is_none()
}

fn compare(directory: &mut TestDirectory, model: &Model) {
    let mut by_boss: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for id in model.existing() {
        let own = model.names[id].clone().unwrap();
        let expected: BTreeSet<String> =
            model.values[&id].iter().map(|value| name(&model.text(value))).collect();
        assert_eq!(bosses(directory, &own), expected, "{own}");
        for boss in expected {
            by_boss.entry(boss).or_default().insert(name(&own));
        }
    }
    for (boss, led) in by_boss {
        let found = find_dns(directory, &format!("(boss={boss})"));
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), led, "{boss}");
    }
}

#[test]
fn a_no_operation_change_converts_no_visible_value() {
    let mut directory = directory("");
    add(&mut directory, "a", &["a"]);
    set(&mut directory, &schema(LINKED)).unwrap();
    let before = directory.read(&name("a"));
    let object = name("a");
    let mut changes = ldap::ChangesBuf::new();
    changes.push(Replace, "boss", [name("b")].iter());
    let request =
        ldap::Request::Modify(ldap::ModifyRequest { object: &object, changes: changes.as_changes() });
    let stamp = directory.stamp();
    let controls = no_operation(&crate::read::controls::RequestControls::default());
    assert_eq!(directory.execute_with(&request, &controls, &stamp).code, ResultCode::NO_OPERATION);
    assert_eq!(directory.read(&name("a")), before);
}
