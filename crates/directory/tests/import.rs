//! Tests of the import: whatever the order of the records, the result equals the result of adding the entries one by
//! one. Other tests are about rejected records and the reasons for their rejection.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../src/testing.rs"]
#[allow(dead_code, reason = "the test bed has more than this test needs")]
mod testing;

use std::collections::BTreeMap;
use std::sync::Arc;

use directory::Settings;
use directory::check::check;
use directory::import::{
    Builder, ImportError, ImportOptions, Job, LargeText, Preparer, Refusal, RejectedRecord, RowBlock, Rows,
    SortedRows, Sorters, Statistics, Text, resolve,
};
use ldap::{ResultCode, Scope};
use testing::{SUFFIX, TemporaryFolder, TestDirectory};

/// Memory for sorting. The size is so small that the sorters must use files.
const MEMORY: usize = 1 << 16;

const OTHER_SUFFIX: &str = "o=other";

/// Result of an import.
#[derive(Debug, Default)]
struct Done {
    entries: u64,
    carried_over: u64,
    virtual_values: u64,
    unusable_passwords: u64,
    hashed_passwords: u64,
    statistics: Statistics,
    left_out: BTreeMap<String, u64>,
    rejected: Vec<RejectedRecord>,
}

impl Done {
    fn reasons(&self) -> Vec<(u64, Refusal, &str)> {
        let reason = |rejected: &RejectedRecord| (rejected.place.line, rejected.refusal);
        let mut reasons: Vec<_> = self.rejected.iter().map(|r| (reason(r), r.reason.as_str())).collect();
        reasons.sort();
        reasons.into_iter().map(|((line, refusal), reason)| (line, refusal, reason)).collect()
    }
}

fn options() -> ImportOptions {
    ImportOptions { creator: "cn=admin".to_owned(), now_micros: 1_700_000_100_000_000, ..Default::default() }
}

/// Imports texts as separate chunks. Two preparers take the chunks in turn.
fn import(folder: &TemporaryFolder, options: ImportOptions, texts: &[&[u8]]) -> Result<Done, ImportError> {
    let mut builder = Builder::create(folder.path(), &store_options())?;
    let now = options.now_micros;
    let job = Job::begin(builder.old(), options)?;
    let mut sorters = Sorters::new(folder.path(), MEMORY);
    let mut done = Done { carried_over: builder.carry_over(&job, &mut sorters)?, ..Done::default() };
    let mut counter = 0u64;
    let mut preparers = Vec::new();
    for thread in 0..2u8 {
        let random = Box::new(move || {
            counter += 1;
            let mut bytes = [thread; 16];
            bytes[..8].copy_from_slice(&counter.to_be_bytes());
            Ok(bytes)
        });
        preparers.push(Preparer::new(&job, folder.path(), MEMORY, random)?);
    }
    let (mut first_id, mut line) = (job.first_id(), 0);
    for (number, bytes) in texts.iter().enumerate() {
        let text = Text { source: number as u32, offset: 0, line, first_id, bytes };
        let prepared = preparers[number % 2].prepare(&text)?;
        builder.take(&prepared)?;
        line += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        first_id += prepared.statistics.records;
        done.virtual_values += prepared.statistics.virtual_values;
        done.unusable_passwords += prepared.statistics.unusable_passwords;
        done.hashed_passwords += prepared.statistics.hashed_passwords;
        done.statistics.add(&prepared.statistics);
        for (place, count) in &prepared.left_out {
            *done.left_out.entry(job.left_out_name(*place).to_owned()).or_default() += count;
        }
        done.rejected.extend(prepared.rejected);
    }
    let mut all = preparers.into_iter().map(Preparer::into_sorters).collect::<Result<Vec<_>, _>>()?;
    all.push(sorters);
    let (mut rows, names): (Vec<_>, Vec<_>) =
        all.into_iter().map(|sorters| (sorters.rows, sorters.names)).unzip();
    let mut resolved_rows = Rows::new(folder.path(), MEMORY);
    let outcomes = store::Sorter::new(folder.path(), MEMORY);
    let resolved =
        resolve(&job, blocks(SortedRows::merge_names(names)?), &mut resolved_rows, outcomes, |_| {})?;
    let refused = builder.place(resolved, |rejected| {
        done.rejected.push(rejected);
        Ok(())
    })?;
    rows.push(resolved_rows);
    builder.write_rows(blocks(SortedRows::merge(rows)?), &refused, |_| {})?;
    done.entries = builder.count() - refused.count();
    builder.finish(&job, [7; 16], now)?;
    Ok(done)
}

fn blocks(mut sorted: SortedRows) -> impl Iterator<Item = Result<RowBlock, ImportError>> {
    std::iter::from_fn(move || sorted.next_block().map_err(ImportError::from).transpose())
}

fn store_options() -> store::Options {
    store::Options { reserve_bytes: 0, map_bytes: Some(1 << 30), ..store::Options::default() }
}

fn open(folder: Arc<TemporaryFolder>, suffixes: &[&str]) -> TestDirectory {
    TestDirectory::open(folder, Settings::default(), suffixes, 1_000_000).unwrap()
}

/// Creates a data directory without entries.
fn empty(suffixes: &[&str]) -> Arc<TemporaryFolder> {
    let folder = Arc::new(TemporaryFolder::new());
    drop(open(folder.clone(), suffixes));
    folder
}

/// Returns all entries with their values, except values that differ between runs. Values are sorted if their order is
/// not guaranteed.
fn content(
    directory: &mut TestDirectory,
    bases: &[&str],
) -> BTreeMap<String, BTreeMap<String, Vec<Vec<u8>>>> {
    const OF_THE_RUN: [&str; 5] =
        ["entryuuid", "entrycsn", "createtimestamp", "modifytimestamp", "contextcsn"];
    let mut all = BTreeMap::new();
    for base in bases {
        let found = directory.search(base, Scope::WholeSubtree, "(objectClass=*)", &["*", "+"]);
        assert_eq!(found.code, ResultCode::SUCCESS, "{base}: {}", found.diagnostic);
        for entry in found.entries {
            let attributes = entry.attributes.into_iter().filter_map(|(name, mut values)| {
                let is_of_the_run = OF_THE_RUN.contains(&name.to_ascii_lowercase().as_str());
                values.sort();
                (!is_of_the_run).then_some((name, values))
            });
            assert!(all.insert(entry.dn.clone(), attributes.collect()).is_none(), "{} twice", entry.dn);
        }
    }
    all
}

fn assert_sound(directory: &TestDirectory) {
    assert_eq!(check(&directory.directory.snapshot().unwrap()).unwrap(), Vec::<String>::new());
}

const BASE: &str = "dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n\n\
    dn: ou=people,dc=example,dc=com\nobjectClass: organizationalUnit\n\n";

fn person(uid: &str, more: &str) -> String {
    format!("dn: uid={uid},ou=people,{SUFFIX}\nobjectClass: inetOrgPerson\ncn: {uid}\nsn: {uid}\n{more}\n")
}

#[test]
fn an_import_continues_the_log_and_the_csns() {
    let folder = empty(&[SUFFIX]);
    let before = {
        let directory = open(folder.clone(), &[SUFFIX]);
        directory.snapshot.position().unwrap()
    };
    let future = "entryCSN: 20301231235959.000001Z#000000#000#000000\n";
    let done = import(&folder, options(), &[BASE.as_bytes(), person("a", future).as_bytes()]).unwrap();
    assert_eq!((done.entries, done.rejected.len()), (3, 0));
    let mut directory = open(folder, &[SUFFIX]);
    assert_eq!(directory.snapshot.position().unwrap(), before + 1);
    assert_eq!(directory.directory.facts().unwrap().position, before + 1);
    assert_sound(&directory);
    let outcome = directory
        .modify("uid=a,ou=people,dc=example,dc=com", &[(ldap::ChangeOperation::Replace, "sn", &["b"])]);
    assert_eq!(outcome.code, ResultCode::SUCCESS);
    let entry = directory.read("uid=a,ou=people,dc=example,dc=com").unwrap();
    let csn = &entry.attributes["entryCSN"][0];
    assert!(csn.as_slice() > b"20301231235959.000001Z#000000#000#000000".as_slice(), "{csn:?}");
    assert_sound(&directory);
}

#[test]
fn keeps_and_adds_operational_attributes() {
    let folder = empty(&[SUFFIX]);
    let more = "entryUUID: 11111111-2222-3333-4444-555555555555\ncreateTimestamp: 20200101000000Z\n\
        creatorsName: cn=creator\nmemberOf: cn=x\nentryDN: cn=y\nuserPassword: secret\nuserPassword: {SSHA}abc\n";
    let done = import(&folder, options(), &[BASE.as_bytes(), person("a", more).as_bytes()]).unwrap();
    assert_eq!((done.virtual_values, done.hashed_passwords), (2, 1));
    let mut directory = open(folder, &[SUFFIX]);
    let entry = directory.read("uid=a,ou=people,dc=example,dc=com").unwrap();
    let first = |name: &str| String::from_utf8(entry.attributes[name][0].clone()).unwrap();
    assert_eq!(first("entryUUID"), "11111111-2222-3333-4444-555555555555");
    assert_eq!(first("createTimestamp"), "20200101000000Z");
    assert_eq!(first("creatorsName"), "cn=creator");
    assert_eq!(first("modifiersName"), "cn=admin");
    assert_eq!(first("modifyTimestamp"), "20231114221500Z");
    assert!(first("userPassword").starts_with("{SSHA512}"));
    assert!(!entry.attributes.contains_key("memberOf"));
    assert!(directory::password::verify(first("userPassword").as_bytes(), b"secret"));
}

/// An end time of a value is refused if the end time is malformed, or if the attribute has no links.
#[test]
fn keeps_ends_of_values() {
    let folder = empty(&[SUFFIX]);
    let group = |cn: &str, member: &str| {
        format!("dn: cn={cn},{SUFFIX}\nobjectClass: device\nobjectClass: extensibleObject\n{member}\n")
    };
    let a = format!("uid=a,ou=people,{SUFFIX}");
    let texts = [
        BASE.to_owned(),
        group(
            "one",
            &format!("member;X-Until-20970101000000z: {a}\nmember: cn=x\nmember;x-until-never: cn=y\n"),
        ),
        group("two", &format!("uniqueMember;x-until-20970101000000Z: {a}#'0'B\nuniqueMember: {a}\n")),
        group("three", "member;x-until-2097: cn=x\n"),
        group("four", "description;x-until-20970101000000Z: x\n"),
        person("a", ""),
    ];
    let texts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
    let done = import(&folder, options(), &texts).unwrap();
    let reasons: Vec<_> = done.reasons().iter().map(|(.., reason)| (*reason).to_owned()).collect();
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert!(reasons[0].contains("a time in UTC") && reasons[1].contains("name entries"), "{reasons:?}");
    let mut directory = open(folder, &[SUFFIX]);
    assert_sound(&directory);
    let ends = |directory: &mut TestDirectory, cn: &str| {
        directory.read(&format!("cn={cn},{SUFFIX}")).unwrap().texts("valueEnd")
    };
    assert_eq!(ends(&mut directory, "one"), [format!("20970101000000Z member {a}")]);
    assert_eq!(ends(&mut directory, "two"), [format!("20970101000000Z uniqueMember {a}#'0'B")]);
    assert!(directory.make_due_changes(3_000_000_000));
    assert_eq!(ends(&mut directory, "two"), Vec::<String>::new());
    assert_eq!(directory.read(&format!("cn=one,{SUFFIX}")).unwrap().texts("member"), ["cn=x", "cn=y"]);
    assert_eq!(directory.read(&format!("cn=two,{SUFFIX}")).unwrap().texts("uniqueMember"), [a]);
    assert_sound(&directory);
}

/// Regression test: `userPassword;x-anything` permitted binds, and remained when the password was reset.
#[test]
fn drops_and_counts_passwords_with_meaningless_options() {
    let folder = empty(&[SUFFIX]);
    let more = "userPassword: {SSHA}abc\nuserPassword;x-anything: {SSHA}abc\n2.5.4.35;Lang-de: clear\n\
        userPassword;x-app-mail: {SSHA512}abc\npwdEndTime;x-app-mail: 20400101000000Z\n\
        authPassword;x-a: SHA1$YQ==$YQ==\n";
    let done = import(&folder, options(), &[BASE.as_bytes(), person("a", more).as_bytes()]).unwrap();
    assert_eq!((done.unusable_passwords, done.hashed_passwords, done.rejected.len()), (3, 0, 0));
    let mut directory = open(folder, &[SUFFIX]);
    let entry = directory.read("uid=a,ou=people,dc=example,dc=com").unwrap();
    let has = |part: &str| entry.attributes.keys().filter(|name| name.contains(part)).collect::<Vec<_>>();
    assert_eq!(has("assword"), ["userPassword", "userPassword;x-app-mail"]);
    assert_eq!(has("pwdEndTime"), ["pwdEndTime;x-app-mail"]);
}

/// Regression test: two entries with the same entryUUID were imported, and every copy of the directory lost one of the
/// two entries.
#[test]
fn loads_only_the_first_of_two_entries_with_one_uuid() {
    let uuid = |last: &str| format!("entryUUID: 5f6d5b5a-0000-103f-8000-0000000000{last}\n");
    let folder = empty(&[SUFFIX, OTHER_SUFFIX]);
    let other = format!("dn: o=other\nobjectClass: organization\n{}\n", uuid("01"));
    let asked = |suffix: &str| ImportOptions { suffixes: vec![suffix.to_owned()], ..options() };
    import(&folder, asked(OTHER_SUFFIX), &[other.as_bytes()]).unwrap();
    let texts = [
        BASE.to_owned(),
        person("first", &uuid("0a")),
        person("alone", &uuid("0b")),
        person("second", &uuid("0A")),
        person("third", &uuid("0a")),
        person("fourth", &uuid("01")),
        person("first", &uuid("0a")),
        "dn: cn=below,uid=second,ou=people,dc=example,dc=com\nobjectClass: device\n\n".to_owned(),
    ];
    let texts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
    let done = import(&folder, asked(SUFFIX), &texts).unwrap();
    let same = |line, of: &str| {
        (line, Refusal::SameUuid, format!("its entryUUID is that of the entry {of}, by which copies"))
    };
    let expected = [
        same(20, "\"uid=first\" in line 8"),
        same(26, "\"uid=first\" in line 8"),
        same(32, "\"o=other\" of another suffix"),
        (38, Refusal::Duplicate, "an earlier entry has the same name".to_owned()),
        (44, Refusal::Orphan, "its superior".to_owned()),
    ];
    let reasons = done.reasons();
    assert_eq!(reasons.len(), expected.len(), "{reasons:?}");
    for ((line, refusal, reason), (at, kind, part)) in reasons.iter().zip(&expected) {
        assert!((line, refusal) == (at, kind) && reason.starts_with(part), "{reasons:?}");
    }
    let mut directory = open(folder, &[]);
    assert_sound(&directory);
    assert_eq!(content(&mut directory, &[SUFFIX, OTHER_SUFFIX]).len(), 5);
}

/// Regression test: deleted values reappeared as values with options.
#[test]
fn removes_the_state_of_389_ds_and_drops_deleted_content() {
    const ADDED: &str = "vucsn-5b0f8a5d000000010000";
    const DELETED: &str = "vdcsn-5b0f8a5e000000010000;deleted";
    let folder = empty(&[SUFFIX]);
    let lea = format!(
        "dn: uid=lea,ou=people,{SUFFIX}\nobjectClass;{ADDED}: inetOrgPerson\n\
         uid;{ADDED};mdcsn-5b0f8a5d000000010001: lea\n\
         cn;{ADDED}: lea\nsn;{ADDED}: lea\ncn;lang-fr;{ADDED}: Léa\ntitle;{ADDED}: present\n\
         title;{ADDED};{DELETED}: former\nnoSuchType;{DELETED}: gone\n\
         telephoneNumber;adcsn-5b0f8a5f000000010000;vdcsn-5b0f8a5f000000010000;deletedattribute;deleted: +1 555\n\
         nsUniqueId: 00000002-11112222-33334444-55556666\nnsParentUniqueId: 00000001-11112222-33334444-55556666\n\
         parentid: 1\nentryid: 2\n\n"
    );
    let gone = format!(
        "dn: nsuniqueid=00000003-11112222-33334444-55556666,uid=max,ou=people,{SUFFIX}\nnoSuchType: x\n\
         nscpEntryDN: uid=max,ou=people,{SUFFIX}\nuid: max\nobjectClass;{ADDED}: inetOrgPerson\n\
         objectClass;{ADDED}: nsTombstone\n\n"
    );
    let done = import(&folder, options(), &[BASE.as_bytes(), lea.as_bytes(), gone.as_bytes()]).unwrap();
    assert_eq!(done.reasons(), []);
    let counted = done.statistics;
    assert_eq!((counted.state_options, counted.deleted_values, counted.deleted_entries), (6, 3, 1));
    assert_eq!((counted.unique_ids, counted.foreign_values), (1, 0));
    let left_out = ["entryid", "nsParentUniqueId", "parentid"].map(|name| (name.to_owned(), 1));
    assert_eq!(
        done.left_out.iter().map(|(name, count)| (name.clone(), *count)).collect::<Vec<_>>(),
        left_out
    );
    let mut directory = open(folder, &[SUFFIX]);
    assert_sound(&directory);
    let entry = directory.read(&format!("uid=lea,ou=people,{SUFFIX}")).unwrap();
    assert_eq!([entry.texts("title"), entry.texts("cn;lang-fr")].concat(), ["present", "Léa"]);
    assert_eq!(entry.texts("entryUUID"), ["00000002-1111-2222-3333-444455556666"]);
    assert!(entry.attributes.keys().all(|name| !name.contains("csn-") && name != "telephoneNumber"));
    assert_eq!(content(&mut directory, &[SUFFIX]).len(), 3);
}

/// From dumps of other servers, identifiers and times are imported. Other operational attributes are left out and
/// counted by name.
#[test]
fn converts_attributes_of_other_servers() {
    let folder = empty(&[SUFFIX]);
    let texts = [
        person("a", "objectGUID:: AQAAABERIiIzM0REVVVmZg==\nwhenCreated: 20240102030405.0Z\nuSNChanged: 7\n"),
        person("b", "ds-entry-unique-id: 00000002-1111-2222-3333-444455556666\naci: (x)\naci: (y)\n"),
        person("c", "userAccountControl: 514\npwdLastSet: 133485408000000000\naccountExpires: 0\n"),
        person(
            "d",
            "userAccountControl: 512\nlastLoginTime: 20240102030405Z\npasswordHistory: 20240102030405Z{SSHA}x\n",
        ),
        // Values of a rejected entry are not counted.
        person("e", "aci: (z)\nshoeSize: 4\n"),
        format!(
            "dn: uid=f,ou=people,{SUFFIX}\nchangetype: add\nobjectClass: account\nobjectClass: odd\n\
             boss: cn=x\ncolour: red\n\n"
        ),
    ];
    let text = format!("{BASE}{}", texts.concat());
    let renamed = vec![("boss".to_owned(), "seeAlso".to_owned())];
    let how = ImportOptions { leave_out: vec!["Odd".into(), "colour".into()], renamed, ..options() };
    let done = import(&folder, how, &[text.as_bytes()]).unwrap();
    assert_eq!(done.rejected.len(), 1, "{:?}", done.rejected);
    let counted =
        (done.statistics.unique_ids, done.statistics.converted_times, done.statistics.disabled_accounts);
    assert_eq!((counted, done.statistics.foreign_values), ((2, 3, 1), 2));
    let left_out: Vec<_> = done.left_out.iter().map(|(name, count)| format!("{name} {count}")).collect();
    assert_eq!(left_out, ["Odd 1", "aci 2", "colour 1", "passwordHistory 1", "uSNChanged 1"]);
    let mut directory = open(folder, &[SUFFIX]);
    assert_sound(&directory);
    for (uid, attribute, value) in [
        ("a", "entryUUID", "00000001-1111-2222-3333-444455556666"),
        ("a", "createTimestamp", "20240102030405.0Z"),
        ("b", "entryUUID", "00000002-1111-2222-3333-444455556666"),
        ("c", "pwdChangedTime", "20240101000000Z"),
        ("d", "pwdLastSuccess", "20240102030405Z"),
        ("f", "seeAlso", "cn=x"),
    ] {
        let entry = directory.read(&format!("uid={uid},ou=people,{SUFFIX}")).unwrap();
        assert_eq!(entry.texts(attribute), [value], "{uid}");
    }
    let unknown = ImportOptions { renamed: vec![("a".into(), "shoeSize".into())], ..options() };
    let error = import(&empty(&[SUFFIX]), unknown, &[]).unwrap_err();
    assert!(matches!(&error, ImportError::UnknownAttribute { name } if name == "shoeSize"), "{error}");
}

/// The report on a rejected entry with five faults lists all five.
#[test]
fn a_rejected_record_has_all_its_reasons() {
    let folder = empty(&[SUFFIX]);
    let record = format!(
        "dn: uid=a,ou=people,{SUFFIX}\nobjectClass: person\nshoeSize: 4\nseeAlso: x\nuidNumber: 1\n\n"
    );
    let text = format!("{BASE}{record}");
    let done = import(&folder, options(), &[text.as_bytes()]).unwrap();
    let line = text.lines().position(|line| line.starts_with("shoeSize")).unwrap() as u64 + 1;
    let reasons = done.reasons();
    assert_eq!((reasons.len(), reasons[0].0), (1, line));
    let next = format!("line {}: ", line + 1);
    for part in ["\"shoeSize\"", &next, "requires cn, sn", "uid is not allowed", "uidNumber is not allowed"] {
        assert!(reasons[0].2.contains(part), "no {part} in {}", reasons[0].2);
    }
}

#[test]
fn locks_accounts_that_another_server_disabled() {
    let folder = empty(&[SUFFIX]);
    let texts = [
        person("a", "nsAccountLock: true\n"),
        person("b", "ds-pwp-account-disabled: TRUE\npwdAccountLockedTime: 20240101000000Z\n"),
        person("c", "nsAccountLock: false\n"),
        person("d", "nsaccountlock;vucsn-5b0f8a5d000000010000: true\n"),
        person("e", "nsAccountLock;vucsn-5b0f8a5d000000010000;vdcsn-5b0f8a5e000000010000;deleted: true\n"),
    ];
    let text = format!("{BASE}{}", texts.concat());
    let done = import(&folder, options(), &[text.as_bytes()]).unwrap();
    assert_eq!((done.reasons(), done.statistics.disabled_accounts), (vec![], 3));
    let mut directory = open(folder, &[SUFFIX]);
    for (uid, locked) in [("a", true), ("b", true), ("c", false), ("d", true), ("e", false)] {
        let entry = directory.read(&format!("uid={uid},ou=people,{SUFFIX}")).unwrap();
        let found = entry.attributes.get("pwdAccountLockedTime").map(|values| values[0].as_slice());
        assert_eq!(found, locked.then_some(&b"000001010000Z"[..]), "{uid}");
    }
}

#[test]
fn rejects_records_with_a_reason_and_loads_the_rest() {
    let folder = empty(&[SUFFIX]);
    let records = [
        (Refusal::Bad, "attribute type \"shoeSize\"", person("b1", "shoeSize: 4\n")),
        (Refusal::Bad, "is a change", format!("dn: uid=b2,{SUFFIX}\nchangetype: delete\n\n")),
        (
            Refusal::Bad,
            "is a change",
            format!("dn: uid=b3,{SUFFIX}\nchangetype: modrdn\nnewrdn: uid=b4\ndeleteoldrdn: 1\n\n"),
        ),
        (Refusal::Bad, "URLs", person("b4", "jpegPhoto:< file:///etc/passwd\n")),
        (Refusal::Bad, "is not a distinguished name", "dn: nonsense\nobjectClass: domain\n\n".to_owned()),
        (Refusal::Bad, "not an object class", person("b5", "objectClass: nothing\n")),
        (
            Refusal::Bad,
            "requires sn",
            format!("dn: uid=b6,ou=people,{SUFFIX}\nobjectClass: person\ncn: x\n\n"),
        ),
        (Refusal::Bad, "is given more than once", person("b7", "description: x\ndescription:  X \n")),
        (Refusal::Bad, "value 1 is", person("b8", "telephoneNumber::\n")),
        (Refusal::Bad, "single-valued", person("b9", "preferredLanguage: de\npreferredLanguage: en\n")),
        (Refusal::Bad, "not allowed by the classes", person("b10", "uidNumber: 7\n")),
        (Refusal::Bad, "value 1 is", person("b11", "mail:: w7w=\n")),
        (Refusal::Outside, "it is not below", "dn: dc=example,dc=org\nobjectClass: domain\n\n".to_owned()),
        (Refusal::Malformed, "':' expected", "this is nothing\n\n".to_owned()),
        (Refusal::Malformed, "base64", person("b12", "description:: !!!\n")),
        (Refusal::Malformed, "must start with 'dn:'", "cn: x\nsn: y\n\n".to_owned()),
        (Refusal::Malformed, "second 'dn:'", "dn: cn=x\nsn: y\ndn: cn=z\n\n".to_owned()),
        (Refusal::Malformed, "continuation of no line", " x\ndn: cn=x\n\n".to_owned()),
        (Refusal::Malformed, "not UTF-8", "dn:: Y249/w==\nsn: y\n\n".to_owned()),
        (Refusal::Duplicate, "an earlier entry has the same name", person("GOOD", "")),
        (
            Refusal::Orphan,
            "superior does not exist, or was rejected",
            format!("dn: cn=x,ou=none,{SUFFIX}\nobjectClass: device\n\n"),
        ),
        (
            Refusal::Orphan,
            "superior does not exist, or was rejected",
            format!("dn: cn=y,cn=x,ou=none,{SUFFIX}\nobjectClass: device\n\n"),
        ),
        (Refusal::Bad, "an alias", format!("dn: cn=c,cn=alias,{SUFFIX}\nobjectClass: device\n\n")),
        (Refusal::Bad, "a referral", format!("dn: cn=c,cn=away,{SUFFIX}\nobjectClass: device\n\n")),
        (Refusal::Bad, "a subentry", format!("dn: cn=c,cn=sub,{SUFFIX}\nobjectClass: device\n\n")),
        (
            Refusal::Bad,
            "none of these classes is structural",
            format!("dn: cn=b13,{SUFFIX}\nobjectClass: extensibleObject\n\n"),
        ),
        (Refusal::Bad, "objectClass", format!("dn: cn=b14,{SUFFIX}\ndescription: no class at all\n\n")),
        (Refusal::Bad, "\"shoe=b15", format!("dn: shoe=b15,{SUFFIX}\nobjectClass: device\n\n")),
        (
            Refusal::Bad,
            "value of uidNumber in the name",
            format!("dn: uidNumber=one,{SUFFIX}\nobjectClass: device\n\n"),
        ),
        (Refusal::Bad, "entryUUID", person("b16", "entryUUID: 1\n")),
        (Refusal::Bad, "are not imported", person("b19", "objectClass: dynamicObject\nentryTtl: 5\n")),
        (Refusal::Malformed, "only LDIF version 1", "version: 2\ndn: cn=x\n\n".to_owned()),
        (Refusal::Malformed, "description expected", person("b17", "de scription: x\n")),
        (Refusal::Malformed, "changetype must be", person("b18", "changetype: add\n")),
        (Refusal::Malformed, "'control:'", "dn: cn=x\ncontrol: x\nchangetype: delete\n\n".to_owned()),
        (Refusal::Malformed, "'newrdn:' expected", "dn: cn=x\nchangetype: modrdn\n\n".to_owned()),
    ];
    let alias = format!(
        "dn: cn=alias,{SUFFIX}\nobjectClass: alias\nobjectClass: extensibleObject\naliasedObjectName: {SUFFIX}\n\n"
    );
    let others = format!(
        "dn: cn=away,{SUFFIX}\nobjectClass: referral\nobjectClass: extensibleObject\nref: ldap://elsewhere/\n\n\
         dn: cn=sub,{SUFFIX}\nobjectClass: subentry\nobjectClass: extensibleObject\nsubtreeSpecification: {{}}\n\n"
    );
    let head = format!("version: 1\n\n{BASE}{alias}{others}{}", person("good", "mail: good@example.com\n"));
    let mut texts = vec![head.as_bytes()];
    texts.extend(records.iter().map(|(_, _, record)| record.as_bytes()));
    let done = import(&folder, options(), &texts).unwrap();
    assert_eq!(done.entries, 6);
    for (number, (refusal, part, record)) in records.iter().enumerate() {
        let rejected = done.rejected.iter().find(|r| r.place.source as usize == number + 1);
        let rejected = rejected.unwrap_or_else(|| panic!("taken: {record}"));
        assert!(rejected.refusal == *refusal && rejected.reason.contains(part), "{record}{rejected:?}");
        assert_eq!(rejected.place.length, record.len() as u64, "{record}");
    }
    assert_eq!(done.rejected.len(), records.len());
    let mut directory = open(folder, &[SUFFIX]);
    assert_sound(&directory);
    let found = directory.search(SUFFIX, Scope::WholeSubtree, "(sn=*)", &["1.1"]);
    assert_eq!(found.entries.len(), 1, "rows of refused entries are left");
}

#[test]
fn rejected_records_have_the_line_of_the_fault() {
    let folder = empty(&[SUFFIX]);
    let text = format!("{BASE}# a comment\r\n{}", person("a", "description: x\nmail: \u{fc}\n"));
    let done = import(&folder, options(), &[text.as_bytes(), b"nonsense\n"]).unwrap();
    let lines: Vec<_> = done.reasons().into_iter().map(|(line, refusal, _)| (line, refusal)).collect();
    assert_eq!(lines, [(14, Refusal::Bad), (16, Refusal::Malformed)]);
}

/// Generator of random entry names, links with and without targets, and values of many kinds.
struct Random(fastrand::Rng);

impl Random {
    fn entry(&mut self, dn: &str, links: &[String]) -> Vec<(&'static str, Vec<String>)> {
        let pick = |rng: &mut fastrand::Rng, all: &[String]| all[rng.usize(..all.len())].clone();
        let rng = &mut self.0;
        let mut attributes = vec![
            ("objectClass", vec!["extensibleObject".to_owned(), "organizationalRole".to_owned()]),
            ("description;lang-de", vec![format!("Wert {}", rng.u8(..))]),
            ("displayName", vec![format!("Name {}", rng.u16(..))]),
        ];
        for name in ["member", "seeAlso", "owner", "uniqueMember"] {
            let mut values: Vec<_> = (0..rng.usize(..4)).map(|_| pick(rng, links)).collect();
            values.sort();
            values.dedup();
            if !values.is_empty() {
                attributes.push((name, values));
            }
        }
        for (name, count) in [("mail", rng.usize(..3)), ("memberUid", [0, 1, 63, 64, 65, 90][rng.usize(..6)])]
        {
            if count > 0 {
                attributes.push((name, (0..count).map(|number| format!("v{number}@{}", dn.len())).collect()));
            }
        }
        if rng.bool() {
            let sizes = [1_023, 1_024, 1_025, 5_000];
            attributes.push(("description", vec!["x".repeat(sizes[rng.usize(..4)]), "é: ".to_owned()]));
        }
        if rng.bool() {
            attributes.push(("uidNumber", vec![rng.i32(..).to_string()]));
        }
        attributes
    }
}

/// Returns the LDIF of an entry, with random use of the variations that RFC 2849 allows.
fn record(rng: &mut fastrand::Rng, dn: &str, attributes: &[(&str, Vec<String>)]) -> String {
    let end = if rng.bool() { "\n" } else { "\r\n" };
    let mut text = format!("# {dn}{end}dn: {dn}{end}");
    for (name, values) in attributes {
        for value in values {
            let plain = value.is_ascii() && !value.starts_with([' ', ':', '<']) && !value.ends_with(' ');
            let line = if plain && rng.bool() {
                format!("{name}: {value}")
            } else {
                use base64::Engine;
                format!("{name}:: {}", base64::engine::general_purpose::STANDARD.encode(value))
            };
            let (first, mut rest) = line.split_at(line.len().min(40 + name.len()));
            text.push_str(first);
            while !rest.is_empty() {
                let (part, behind) = rest.split_at(rest.len().min(60));
                text.push_str(&format!("{end} {part}"));
                rest = behind;
            }
            text.push_str(end);
        }
    }
    text + end
}

#[test]
fn the_result_equals_adding_one_by_one_in_any_order() {
    for seed in 0..12 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut names = vec![SUFFIX.to_owned()];
        for number in 0..40 {
            let parent = names[rng.usize(..names.len())].clone();
            names.push(format!("cn=e{number},{parent}"));
        }
        let mut targets = names.clone();
        targets.extend((0..10).map(|number| format!("cn=missing{number},{SUFFIX}")));
        targets.push("o=elsewhere".to_owned());
        let mut random = Random(rng.clone());
        let mut entries = Vec::new();
        for dn in &names {
            let mut attributes = random.entry(dn, &targets);
            if dn == SUFFIX {
                attributes[0].1 = vec!["domain".to_owned(), "extensibleObject".to_owned()];
            }
            entries.push((dn.clone(), attributes));
        }
        let mut added = open(empty(&[SUFFIX]), &[SUFFIX]);
        for (dn, attributes) in &entries {
            let values: Vec<Vec<&str>> =
                attributes.iter().map(|(_, values)| values.iter().map(String::as_str).collect()).collect();
            let given: Vec<(&str, &[&str])> = attributes
                .iter()
                .zip(&values)
                .map(|((name, _), values)| (*name, values.as_slice()))
                .collect();
            let outcome = added.add(dn, &given);
            assert_eq!(outcome.code, ResultCode::SUCCESS, "seed {seed}: {dn}: {}", outcome.diagnostic);
        }
        let expected = content(&mut added, &[SUFFIX]);
        for _ in 0..2 {
            let texts: Vec<String> =
                entries.iter().map(|(dn, attributes)| record(&mut rng, dn, attributes)).collect();
            let folder = empty(&[SUFFIX]);
            let pieces: Vec<Vec<u8>> = texts.chunks(7).map(|records| records.concat().into_bytes()).collect();
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let done = import(&folder, options(), &pieces).unwrap();
            assert_eq!(done.reasons(), [], "seed {seed}");
            let mut imported = open(folder, &[SUFFIX]);
            assert_sound(&imported);
            assert_eq!(content(&mut imported, &[SUFFIX]), expected, "seed {seed}");
            rng.shuffle(&mut entries);
        }
    }
}

#[test]
fn replaces_only_the_requested_suffix() {
    let folder = empty(&[SUFFIX, OTHER_SUFFIX]);
    let other = "dn: o=other\nobjectClass: organization\nobjectClass: extensibleObject\n\
        seeAlso: uid=stays,ou=people,dc=example,dc=com\nseeAlso: uid=goes,ou=people,dc=example,dc=com\n\
        seeAlso: uid=comes,ou=people,dc=example,dc=com\nmail: o@example.com\n\
        manager;x-until-20970101000000Z: uid=stays,ou=people,dc=example,dc=com\n\
        manager;x-until-20970101000000Z: uid=goes,ou=people,dc=example,dc=com\n\
        manager;x-until-20970102000000Z: o=other\nmanager;x-until-20970102000000Z: o=absent\n";
    let mut many = String::new();
    (0..100).for_each(|number| many.push_str(&format!("memberUid: m{number}\n")));
    let other = format!("{other}{many}description: {}\n\n", "y".repeat(3_000));
    let old =
        format!("{BASE}{}{}{other}", person("stays", "seeAlso: o=other\n"), person("goes", "mail: g@x\n"));
    let done = import(&folder, options(), &[old.as_bytes()]).unwrap();
    assert_eq!((done.entries, done.reasons()), (5, vec![]));
    assert_sound(&open(folder.clone(), &[]));

    let new = format!("{}{}{BASE}", person("comes", ""), person("stays", "seeAlso: o=other\n"));
    let refused = |options: ImportOptions| import(&folder, options, &[new.as_bytes()]).unwrap_err();
    assert!(matches!(refused(options()), ImportError::NotEmpty { .. }));
    assert!(matches!(refused(ImportOptions { replace: true, ..options() }), ImportError::WhichSuffix { .. }));
    let unknown = ImportOptions { suffixes: vec!["o=missing".to_owned()], ..options() };
    assert!(matches!(refused(unknown), ImportError::UnknownSuffix { .. }));

    let asked = ImportOptions { suffixes: vec![SUFFIX.to_owned()], replace: true, ..options() };
    let done = import(&folder, asked, &[new.as_bytes()]).unwrap();
    assert_eq!((done.entries, done.carried_over, done.reasons()), (4, 1, vec![]));
    let mut directory = open(folder, &[]);
    assert_sound(&directory);
    let all = content(&mut directory, &[SUFFIX, OTHER_SUFFIX]);
    assert_eq!(all.len(), 5);
    let kept = &all["o=other"];
    let text = |(day, dn): (u32, &str)| format!("2097010{day}000000Z manager {dn}").into_bytes();
    let people = "ou=people,dc=example,dc=com";
    let (goes, stays) = (format!("uid=goes,{people}"), format!("uid=stays,{people}"));
    let ends = [(1, &*goes), (1, &*stays), (2, "o=absent"), (2, "o=other")].map(text);
    assert_eq!(kept["valueEnd"], ends);
    assert_eq!(all[&*stays]["membershipEnd"], [text((1, "o=other"))]);
    assert_eq!(
        (kept["seeAlso"].len(), kept["memberUid"].len(), kept["description"][0].len()),
        (3, 100, 3_000)
    );
    // A link follows renames of the entry that it names. A name without an entry does not change.
    assert_eq!(
        directory.modify_dn("uid=comes,ou=people,dc=example,dc=com", "uid=renamed", true, None).code,
        ResultCode::SUCCESS
    );
    let links = &content(&mut directory, &[OTHER_SUFFIX])["o=other"]["seeAlso"];
    assert!(links.contains(&b"uid=renamed,ou=people,dc=example,dc=com".to_vec()));
    assert!(links.contains(&b"uid=goes,ou=people,dc=example,dc=com".to_vec()));
    let found = directory.search(OTHER_SUFFIX, Scope::WholeSubtree, "(mail=o@example.com)", &["1.1"]);
    assert_eq!(found.entries.len(), 1);
    assert_sound(&directory);
}

#[test]
fn reads_a_record_too_long_for_memory_in_chunks() {
    let folder = empty(&[SUFFIX]);
    let mut group =
        format!("dn: cn=all,{SUFFIX}\nobjectClass: groupOfNames\nobjectClass: extensibleObject\n");
    for number in 0..30_000 {
        let end = if number % 3_000 == 9 { ";x-until-20970101000000Z" } else { "" };
        group.push_str(&format!("member{end}: uid=u{number},\n {SUFFIX}\nmemberUid: u{number}\n"));
    }
    // A duplicate value does not reject the record, because the duplicate is found only after sorting. The value is
    // stored once.
    group.push_str(&format!("member: UID=u7,{SUFFIX}\nmemberUid: u8\ndescription: last\n\n"));
    let bad = group.replace("cn=all", "cn=bad").replace("description: last", "shoeSize: 4");
    let person = format!("dn: uid=u7,{SUFFIX}\nobjectClass: account\n\n");
    let text = format!("{BASE}{person}");
    let mut builder = Builder::create(folder.path(), &store_options()).unwrap();
    let job = Job::begin(builder.old(), options()).unwrap();
    let mut counter = 0;
    let random = Box::new(move || {
        counter += 1;
        Ok([counter; 16])
    });
    let mut preparer = Preparer::new(&job, folder.path(), MEMORY, random).unwrap();
    let id = job.first_id();
    let piece = Text { source: 0, offset: 0, line: 0, first_id: id, bytes: text.as_bytes() };
    builder.take(&preparer.prepare(&piece).unwrap()).unwrap();
    let mut rejected = Vec::new();
    for (number, record) in [(3, &group), (4, &bad)] {
        let open = || Box::new(record.as_bytes()) as Box<dyn std::io::Read>;
        let length = record.len() as u64;
        let large = LargeText { source: 0, offset: 0, length, line: 100, id: id + number, open: &open };
        let prepared = preparer.prepare_large(&large).unwrap();
        builder.take(&prepared).unwrap();
        rejected.extend(prepared.rejected);
    }
    assert_eq!(rejected.len(), 1);
    assert_eq!((rejected[0].place.line, rejected[0].refusal), (100 + 3 + 90_000 + 3, Refusal::Bad));
    let sorters = preparer.into_sorters().unwrap();
    let mut rows = Rows::new(folder.path(), MEMORY);
    let outcomes = store::Sorter::new(folder.path(), MEMORY);
    let resolved = resolve(
        &job,
        blocks(SortedRows::merge_names(vec![sorters.names]).unwrap()),
        &mut rows,
        outcomes,
        |_| {},
    )
    .unwrap();
    let refused = builder.place(resolved, |late| panic!("{late:?}")).unwrap();
    assert_eq!(
        builder
            .write_rows(blocks(SortedRows::merge(vec![rows, sorters.rows]).unwrap()), &refused, |_| {})
            .unwrap(),
        1
    );
    builder.finish(&job, [7; 16], 0).unwrap();
    let mut directory = open(folder, &[SUFFIX]);
    assert_sound(&directory);
    let entry = directory.read(&format!("cn=all,{SUFFIX}")).unwrap();
    assert_eq!((entry.attributes["member"].len(), entry.attributes["memberUid"].len()), (30_000, 30_000));
    assert_eq!(entry.attributes["valueEnd"].len(), 10);
    assert!(entry.texts("valueEnd").contains(&format!("20970101000000Z member uid=u9,{SUFFIX}")));
    assert!(directory.read(&format!("cn=bad,{SUFFIX}")).is_none());
    let found = directory.search(SUFFIX, Scope::WholeSubtree, "(memberUid=u9)", &["1.1"]);
    assert_eq!(found.entries.len(), 1);
    assert_eq!(directory.read(&format!("uid=u7,{SUFFIX}")).unwrap().attributes["memberOf"].len(), 1);
}
