//! Tests of the check: it finds each kind of damage, and repairs it if the entries determine the correct rows.

use store::Batch;

use super::*;
use crate::model::entry::plain;
use crate::model::rows::*;
use crate::testing::*;

const PEOPLE: &str = "ou=people,dc=example,dc=com";
const ANNA: &str = "cn=anna,ou=people,dc=example,dc=com";
const GROUP: &str = "cn=group,dc=example,dc=com";

/// Creates the suffix entry (1), people (2), anna (3) and a group (4). The group has a member, a dangling link, a large
/// value, and an attribute with many values.
fn sample() -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    let large = "x".repeat(3_000);
    let many: Vec<String> = (0..100).map(|number| format!("value {number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let members = [ANNA, "cn=nobody,dc=example,dc=com"];
    for (dn, attributes) in [
        (PEOPLE, &[("objectClass", &["organizationalUnit"][..]), ("ou", &["people"])][..]),
        (ANNA, &[("objectClass", &["person"]), ("cn", &["anna"]), ("sn", &["a"])]),
        (
            GROUP,
            &[
                ("objectClass", &["groupOfNames"]),
                ("cn", &["group"]),
                ("member", &members),
                ("businessCategory", &[&large]),
                ("description", &many),
            ],
        ),
    ] {
        assert_eq!(directory.add(dn, attributes), crate::model::outcome::Outcome::success(), "{dn}");
    }
    assert_eq!(check(&directory.snapshot).unwrap(), Vec::<String>::new());
    directory
}

fn damage(directory: &mut TestDirectory, change: impl FnOnce(&mut Batch<'_>)) {
    let mut batch = directory.writer.begin_repair().unwrap();
    change(&mut batch);
    batch.commit().unwrap();
    directory.snapshot.renew().unwrap();
}

fn repair_all(directory: &mut TestDirectory) -> RepairSummary {
    let scratch = directory.path().to_owned();
    let options = CheckOptions { scratch: &scratch, memory_bytes: 1 << 20 };
    let opened = directory.directory.clone();
    let repaired = repair(&opened, &mut directory.writer, &options, &mut |_, _| {}).unwrap();
    directory.snapshot.renew().unwrap();
    repaired
}

/// Returns the first row of a map whose key has this prefix.
fn first_row(directory: &TestDirectory, map: MapId, prefix: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let range = (std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded);
    let mut rows = directory.snapshot.state().read.scan(map, range, store::Direction::Forward);
    let (key, value) = rows.next().unwrap().unwrap();
    assert!(key.starts_with(prefix));
    (key.to_vec(), value.to_vec())
}

fn number(directory: &TestDirectory, name: &str) -> AttrId {
    let catalog = directory.snapshot.state().catalog;
    catalog.attribute_id(catalog.schema.attribute_type(name).unwrap().id, "").unwrap()
}

type Damage = fn(&TestDirectory) -> Box<dyn FnOnce(&mut Batch<'_>)>;

#[test]
fn repairs_derived_rows() {
    let cases: [(&str, &str, Damage); 13] = [
        ("name lost", "names below entry 2", |directory| {
            let (key, _) = first_row(directory, NAMES, &id_key(EntryId(2)));
            Box::new(move |batch| drop(batch.delete(NAMES, &key)))
        }),
        ("name wrong", "contradicts entry 3", |directory| {
            let (key, _) = first_row(directory, NAMES, &id_key(EntryId(2)));
            Box::new(move |batch| batch.put(NAMES, &key, &encode_name_row(EntryId(4), NodeFlags(0))).unwrap())
        }),
        ("name of nothing", "row belongs to no entry", |_| {
            let name = encode_name_row(EntryId(1), NodeFlags(0));
            Box::new(move |batch| batch.put(NAMES, &name_key(EntryId(2), b"zz"), &name).unwrap())
        }),
        ("class posting lost", "classes, set", |directory| {
            let class_set = directory.snapshot.state().node(EntryId(3)).unwrap().unwrap().class_set;
            Box::new(move |batch| drop(batch.remove_id(CLASSES, &class_key(class_set), 3)))
        }),
        ("class posting of nothing", "id 77 belongs to no entry", |_| {
            Box::new(|batch| drop(batch.insert_id(CLASSES, &class_key(ClassSetId(0)), 77)))
        }),
        ("index row lost", "index of sn", |directory| {
            let sn = number(directory, "sn");
            Box::new(move |batch| {
                drop(batch.remove_id(INDEX, &index_key(sn, b"a"), 3).map(|found| assert!(found)))
            })
        }),
        ("index row of nothing", "id 3 belongs to no entry", |directory| {
            let sn = number(directory, "sn");
            Box::new(move |batch| drop(batch.insert_id(INDEX, &index_key(sn, b"b"), 3)))
        }),
        ("link backwards lost", "linked to entry 3, member", |directory| {
            let member = number(directory, "member");
            Box::new(move |batch| drop(batch.remove_id(LINKED, &link_key(EntryId(3), member), 4)))
        }),
        ("counters wrong", "entry 1: 9 entries below it are counted, there are 3", |_| {
            Box::new(|batch| drop(batch.bump(&subtree_counter(EntryId(1)), 6)))
        }),
        ("counter of nothing", "entry 50: 1 entries one level below it are counted, there are 0", |_| {
            Box::new(|batch| drop(batch.bump(&children_counter(EntryId(50)), 1)))
        }),
        ("link to nothing", "entry 4: member refers to entry 90, which does not exist", |directory| {
            let member = number(directory, "member");
            Box::new(move |batch| drop(batch.insert_id(LINKS, &link_key(EntryId(4), member), 90)))
        }),
        ("flags wrong", "entry 3: flags contradict its classes", |directory| {
            let mut row = first_row(directory, NODES, &id_key(EntryId(3))).1;
            row[12] = NodeFlags::REFERRAL;
            Box::new(move |batch| batch.put(NODES, &id_key(EntryId(3)), &row).unwrap())
        }),
        ("class set wrong", "entry 3: class set", |directory| {
            let mut row = first_row(directory, NODES, &id_key(EntryId(3))).1;
            let other = directory.snapshot.state().node(EntryId(2)).unwrap().unwrap().class_set;
            row[8..12].copy_from_slice(&other.0.to_be_bytes());
            Box::new(move |batch| batch.put(NODES, &id_key(EntryId(3)), &row).unwrap())
        }),
    ];
    let mut directory = sample();
    for (name, text, make) in cases {
        let change = make(&directory);
        damage(&mut directory, change);
        let found = check(&directory.snapshot).unwrap();
        assert!(found.iter().any(|finding| finding.contains(text)), "{name}: {found:?}");
        let repaired = repair_all(&mut directory);
        assert!(repaired.repaired > 0 && repaired.remaining.findings == 0, "{name}: {repaired:?}");
        assert_eq!(check(&directory.snapshot).unwrap(), Vec::<String>::new(), "{name}");
    }
    assert_eq!(directory.read(ANNA).unwrap().texts("sn"), ["a"]);
    assert_eq!(directory.read(GROUP).unwrap().texts("member"), [ANNA, "cn=nobody,dc=example,dc=com"]);
}

#[test]
fn repairs_a_whole_map() {
    let mut directory = sample();
    for map in [INDEX, CLASSES, LINKED, DANGLING] {
        let read = directory.snapshot.state().read;
        let mut rows = Vec::new();
        let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        for row in read.scan_keys(map, all, store::Direction::Forward) {
            let key = row.unwrap().0;
            let mut ids = Vec::new();
            read.ids(map, key).unwrap().next_block(&mut ids, usize::MAX).unwrap();
            rows.extend(ids.into_iter().map(|id| (key.to_vec(), id)));
        }
        let count = rows.len() as u64;
        damage(&mut directory, |batch| {
            rows.iter().for_each(|(key, id)| drop(batch.remove_id(map, key, *id)));
        });
        let repaired = repair_all(&mut directory);
        assert_eq!((repaired.repaired, repaired.remaining.findings), (count, 0));
        assert_eq!(check(&directory.snapshot).unwrap(), Vec::<String>::new());
    }
}

#[test]
fn text_that_names_an_entry_becomes_a_link() {
    let mut directory = sample();
    let member = number(&directory, "member");
    let links = link_key(EntryId(4), member);
    damage(&mut directory, |batch| {
        batch.remove_id(LINKS, &links, 3).unwrap();
        batch.remove_id(LINKED, &link_key(EntryId(3), member), 4).unwrap();
    });
    // Stores the text of a link under its correct key.
    let schema = directory.snapshot.state().catalog.schema.clone();
    let def = directory.snapshot.state().catalog.attribute(member).clone();
    let key = value_key(EntryId(4), member, &crate::catalog::normal_value(&schema, &def, ANNA.as_bytes()));
    damage(&mut directory, |batch| batch.put(VALUES, &key, ANNA.as_bytes()).unwrap());
    let found = check(&directory.snapshot).unwrap();
    assert!(found.iter().any(|finding| finding.contains("has the name of entry 3 as text")), "{found:?}");
    assert_eq!(repair_all(&mut directory).remaining.findings, 0);
    assert_eq!(check(&directory.snapshot).unwrap(), Vec::<String>::new());
    assert_eq!(directory.read(GROUP).unwrap().texts("member")[0], ANNA);
}

#[test]
fn reports_data_lost_with_an_entry_and_removes_none_of_it() {
    let cases: [(&str, &str, Damage); 4] = [
        ("entry damaged", "entry 4: its attributes are damaged", |directory| {
            let mut row = first_row(directory, ENTRIES, &id_key(EntryId(4))).1;
            *row.last_mut().unwrap() ^= 1;
            Box::new(move |batch| batch.put(ENTRIES, &id_key(EntryId(4)), &row).unwrap())
        }),
        ("entry lost", "entry 4: its attributes are lost", |_| {
            Box::new(|batch| drop(batch.delete(ENTRIES, &id_key(EntryId(4)))))
        }),
        ("node damaged", "entry 4: its node row is damaged", |_| {
            Box::new(|batch| batch.put(NODES, &id_key(EntryId(4)), b"short").unwrap())
        }),
        ("large value damaged", "entry 4: a large value of businessCategory is damaged", |directory| {
            let category = number(directory, "businessCategory");
            let (key, mut value) = first_row(directory, VALUES, &link_key(EntryId(4), category));
            value[7] ^= 1;
            Box::new(move |batch| batch.put(VALUES, &key, &value).unwrap())
        }),
    ];
    for (name, text, make) in cases {
        let mut directory = sample();
        let rows = |directory: &TestDirectory| {
            let read = directory.snapshot.state().read;
            [VALUES, NAMES, LINKS, LINKED, DANGLING, INDEX, CLASSES].map(|map| read.row_count(map).unwrap())
        };
        let before = rows(&directory);
        let change = make(&directory);
        damage(&mut directory, change);
        let found = check(&directory.snapshot).unwrap();
        assert!(found.iter().any(|finding| finding.contains(text)), "{name}: {found:?}");
        let repaired = repair_all(&mut directory);
        assert!(repaired.remaining.findings > 0, "{name}: {repaired:?}");
        assert_eq!(rows(&directory), before, "{name}");
    }
}

/// Regression test: an import accepted two entries with the same entryUUID. Other servers then copied only one of them.
#[test]
fn finds_two_entries_with_one_uuid() {
    let mut directory = sample();
    let uuid = |directory: &mut TestDirectory, dn: &str| {
        directory.read(dn).unwrap().texts("entryUUID")[0].to_owned()
    };
    let (first, second) = (uuid(&mut directory, PEOPLE), uuid(&mut directory, GROUP));
    let mut row = plain(&first_row(&directory, ENTRIES, &id_key(EntryId(4))).1).into_owned();
    let place = row.windows(second.len()).position(|part| part == second.as_bytes()).unwrap();
    row[place..place + first.len()].copy_from_slice(first.as_bytes());
    // An entry row begins with a version and a checksum. The checksum covers all bytes after the checksum.
    let crc = crc32c::crc32c(&row[5..]).to_le_bytes();
    row[1..5].copy_from_slice(&crc);
    damage(&mut directory, |batch| batch.put(ENTRIES, &id_key(EntryId(4)), &row).unwrap());
    let found = check(&directory.snapshot).unwrap();
    let text = format!("entry 4 ({GROUP}): its entryUUID {first} is that of entry 2 ({PEOPLE}) as well");
    assert!(found.iter().any(|finding| finding.starts_with(&text)), "{found:?}");
    // No repair is possible, because the entries do not determine which entry should keep the entryUUID.
    assert_eq!(repair_all(&mut directory).remaining.findings, 1);
}

#[test]
fn a_check_with_little_memory_examines_all_entries() {
    let mut directory = TestDirectory::with_suffix_entry();
    for number in 0..300 {
        let (cn, filler) = (format!("person {number}"), "y".repeat(200));
        let dn = format!("cn={cn},dc=example,dc=com");
        let attributes = [("objectClass", &["person"][..]), ("cn", &[&cn]), ("sn", &[&filler])];
        assert_eq!(directory.add(&dn, &attributes), crate::model::outcome::Outcome::success());
    }
    let scratch = directory.path().to_owned();
    let options = CheckOptions { scratch: &scratch, memory_bytes: 64 << 10 };
    let mut findings = 0;
    let checked = check_all(directory.snapshot.state(), &options, &mut |_| {
        findings += 1;
        Ok(())
    });
    let checked = checked.unwrap();
    assert_eq!((checked.entries, checked.findings, findings), (301, 0, 0));
    assert!(checked.rows > 1_000);
}
