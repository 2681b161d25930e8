//! Random directories with values of every syntax. They are imported from LDIF in any of its forms, exported, and
//! imported again. The second import must give the same directory, from the files and over LDAP. Invalid records are
//! rejected with their reasons, and all other records are imported.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ldap::ldif::{LdifBody, LdifReader};
use schema::{Schema, SchemaBuilder};
use test_support::interrupted::must;
use test_support::pando::command;
use test_support::{Pando, SUFFIX, Scratch};

/// Number of directories.
const ROUNDS: u64 = 3;
/// Number of entries in each directory.
const ENTRIES: usize = 80;

/// Values that are used in addition to random ones. For each syntax, some of them are valid.
const SAMPLES: &[&str] = &[
    "TRUE",
    "FALSE",
    "US",
    "de",
    "0",
    "-1",
    "123456789012345678901234567890",
    "1.2.3.4",
    "cn",
    "x",
    "a b",
    " ",
    "é",
    "😀 :",
    "''B",
    "'0101111101'B",
    "cn=a,dc=b",
    "1.3.6.1.4.1.1466.0=#04024869,DC=example",
    "O=Test,C=GB#'0101'B",
    "",
    "telephone $ videotex",
    "person#(sn$EQ)#oneLevel",
    "sn$EQ",
    "+1 512",
    "+1 512$fineResolution$a3Width",
    "199412161032Z",
    "2026112013.5+01",
    "9412161032Z",
    "15 079 672 281",
    "MCIMail$me",
    "1234 Main St.$Anytown, CA 12345$USA",
    "id$graphic:x$private:y",
    "1$2$3",
    "*",
    "a*b*c",
    "{}",
    "(host,user,domain)",
    "root=server:/path",
    "{ serialNumber 1, issuer rdnSequence:\"\" }",
    "597ae2f6-16a6-1027-98f4-d28b5365dc14",
    "MD5$salt$hash",
    "20261120133441.000001Z#000000#000#000000",
    "001",
    "( 1.3.6.1 DESC 'x' )",
    "( 2.5.4.3 NAME 'cn' SUP name )",
    "( 2.5.13.2 NAME 'caseIgnoreMatch' SYNTAX 1.3.6 )",
    "( 2.5.13.16 APPLIES ( givenName $ surname ) )",
    "( 2.5.6.4 DESC 'rule' NOT ( x121Address $ telexNumber ) )",
    "( 2 DESC 'rule' FORM 2.5.15.3 )",
    "( 2.5.15.3 NAME 'orgNameForm' OC organization MUST o )",
    "( 2.5.6.2 NAME 'country' SUP top STRUCTURAL MUST c )",
];

/// Returns minimal X.509 structures that contain a number.
fn structures(number: u8) -> Vec<Vec<u8>> {
    let certificate = vec![0x30, 9, 0x30, 7, 2, 1, number, 0x30, 0, 0x30, 0];
    let list = [&[0x30, 21, 0x30, 19, 0x30, 0, 0x30, 0, 0x17, 13][..], b"261120133441Z"].concat();
    let pair = [&[0x30, 13, 0xa0, 11][..], &certificate].concat();
    let body = [2, 1, 1, 0x30, 0, 0xa0, 0, 0x30, 0, 2, 1, number, 0x30, 0, 0x30, 0];
    let attribute_certificate = [&[0x30, 23, 0x30, 16][..], &body, &[0x30, 0, 3, 1, 0]].concat();
    vec![certificate, list, pair, attribute_certificate]
}

/// Returns definitions of an attribute type for each syntax (`rt0`, `rt1` and so on), and a schema that contains them.
fn types_of_all_syntaxes() -> (String, Arc<Schema>) {
    let mut text = String::new();
    for (number, syntax) in Schema::shipped().syntaxes().iter().enumerate() {
        let oid = format!("1.3.6.1.4.1.32473.7.{number}");
        text += &format!("attributetype ( {oid} NAME 'rt{number}' SYNTAX {} )\n", syntax.oid);
    }
    let mut builder = SchemaBuilder::shipped();
    builder.add_text("types", &text);
    (text, builder.build().unwrap())
}

/// Values by attribute description in lower case, by DN.
type Model = BTreeMap<String, BTreeMap<String, BTreeSet<Vec<u8>>>>;

struct Maker {
    random: fastrand::Rng,
    schema: Arc<Schema>,
    syntax_count: usize,
}

impl Maker {
    fn text(&mut self, length_max: usize) -> String {
        const LETTERS: &[char] = &[
            'a', 'Z', '7', ' ', ':', '<', '-', '#', ',', '+', '=', '\\', '"', ';', 'é', 'ß', '語', '😀',
            '\n', '\r', '\t',
        ];
        let length = self.random.usize(1..=length_max);
        (0..length).map(|_| LETTERS[self.random.usize(..LETTERS.len())]).collect()
    }

    /// Returns a random value that is valid for the type.
    fn value(&mut self, name: &str) -> Vec<u8> {
        let attribute_type = self.schema.attribute_type(name).unwrap().clone();
        for _ in 0..100_000 {
            let candidate = match self.random.u8(..6) {
                0 => self.text(200).into_bytes(),
                1 => (0..self.random.usize(..300)).map(|_| self.random.u8(..)).collect(),
                2 => structures(self.random.u8(1..120)).swap_remove(self.random.usize(..4)),
                // Long values are stored outside the entry's row.
                3 => "long ".repeat(self.random.usize(1..600)).into_bytes(),
                _ => SAMPLES[self.random.usize(..SAMPLES.len())].as_bytes().to_vec(),
            };
            if self.schema.validate_value(&attribute_type, &candidate).is_ok() {
                return candidate;
            }
        }
        let syntax = &self.schema.syntax_by_id(attribute_type.syntax).description;
        panic!("no value of the syntax {syntax} is among the samples");
    }

    fn model(&mut self) -> Model {
        let mut model = Model::new();
        let mut names = vec![SUFFIX.to_owned()];
        let suffix = BTreeMap::from([values("objectclass", &["domain"]), values("dc", &["example"])]);
        model.insert(SUFFIX.to_owned(), suffix);
        for number in 0..ENTRIES {
            let cn = format!("{number}{}", self.text(8)).trim().to_owned();
            let above = names[self.random.usize(..names.len())].clone();
            let dn = format!("cn={},{above}", ldap::escaped_value(cn.as_bytes()));
            let entry = self.entry(number, &cn, &names);
            names.push(dn.clone());
            model.insert(dn, entry);
        }
        model
    }

    fn entry(&mut self, number: usize, cn: &str, names: &[String]) -> BTreeMap<String, BTreeSet<Vec<u8>>> {
        let mut entry =
            BTreeMap::from([values("objectclass", &["device", "extensibleObject"]), values("cn", &[cn])]);
        let mut of_entry: Vec<usize> = (0..6).map(|_| self.random.usize(..self.syntax_count)).collect();
        // Together, the entries use every syntax.
        of_entry.extend((number..self.syntax_count).step_by(ENTRIES));
        for syntax in of_entry {
            let name = format!("rt{syntax}");
            let needs_binary = {
                let attribute_type = self.schema.attribute_type(&name).unwrap();
                self.schema.syntax_by_id(attribute_type.syntax).binary_transfer
            };
            let option = match (needs_binary, self.random.u8(..4)) {
                (true, _) => ";binary",
                (_, 0) => ";lang-de",
                (_, 1) => ";lang-en;x-b",
                _ => "",
            };
            let count = [1, 1, 2, 5, 90][self.random.usize(..5)];
            let made: BTreeSet<Vec<u8>> = (0..count).map(|_| self.value(&name)).collect();
            entry.entry(name + option).or_default().extend(made);
        }
        let mut link = |name: &str| {
            let missing = format!("cn=missing{},{SUFFIX}", self.random.u8(..));
            let there = names[self.random.usize(..names.len())].clone();
            entry.insert(values(name, &[&missing, &there]).0, values(name, &[&missing, &there]).1);
        };
        link("member");
        link("seealso");
        entry
    }

    /// Returns LDIF of an entry, in a random choice of the forms in RFC 2849.
    fn record(&mut self, dn: &str, entry: &BTreeMap<String, BTreeSet<Vec<u8>>>) -> Vec<u8> {
        let end = if self.random.bool() { "\n" } else { "\r\n" };
        let mut lines: Vec<(String, &[u8])> = Vec::new();
        for (name, values) in entry {
            lines.extend(values.iter().map(|value| (name.clone(), value.as_slice())));
        }
        self.random.shuffle(&mut lines);
        let mut text = Vec::new();
        if self.random.bool() {
            text.extend(
                format!("# of {number}{end}  more of the comment{end}", number = lines.len()).into_bytes(),
            );
        }
        self.line(&mut text, "dn", dn.as_bytes(), end);
        for (name, value) in lines {
            let name = if self.random.bool() { name.to_uppercase() } else { name };
            self.line(&mut text, &name, value, end);
        }
        text.extend(end.as_bytes());
        text
    }

    fn line(&mut self, text: &mut Vec<u8>, name: &str, value: &[u8], end: &str) {
        let is_plain = !value.first().is_some_and(|first| b" :<".contains(first))
            && !value.iter().any(|octet| b"\0\r\n".contains(octet));
        let line = if is_plain && self.random.bool() {
            [format!("{name}:{}", " ".repeat(self.random.usize(..3))).as_bytes(), value].concat()
        } else {
            format!("{name}::{}{}", " ".repeat(self.random.usize(..3)), STANDARD.encode(value)).into_bytes()
        };
        // Fold lines anywhere, even between the octets of a character.
        let mut rest = line.as_slice();
        while rest.len() > 1 && self.random.u8(..4) != 0 {
            let (part, behind) = rest.split_at(self.random.usize(1..rest.len().min(90)));
            text.extend_from_slice(part);
            text.extend(format!("{end} ").bytes());
            rest = behind;
        }
        text.extend_from_slice(rest);
        text.extend(end.bytes());
    }
}

fn values(name: &str, values: &[&str]) -> (String, BTreeSet<Vec<u8>>) {
    (name.to_owned(), values.iter().map(|value| value.as_bytes().to_vec()).collect())
}

/// Parses an export, leaving out attributes that only the server writes.
fn read(text: &str) -> Model {
    const SERVERS: [&str; 6] =
        ["entryuuid", "entrycsn", "createtimestamp", "modifytimestamp", "creatorsname", "modifiersname"];
    let mut reader = LdifReader::new(text.as_bytes());
    let mut model = Model::new();
    while let Some(record) = reader.next_record().unwrap() {
        let LdifBody::Entry(lines) = record.body else { panic!("a change at line {}", record.line) };
        let mut entry: BTreeMap<String, BTreeSet<Vec<u8>>> = BTreeMap::new();
        for line in lines.iter() {
            let name = line.description.to_ascii_lowercase();
            if !SERVERS.contains(&name.as_str()) {
                assert!(
                    entry.entry(name).or_default().insert(line.value.to_vec()),
                    "{} twice",
                    line.description
                );
            }
        }
        assert!(model.insert(record.dn.to_owned(), entry).is_none(), "{} twice", record.dn);
    }
    model
}

/// Returns records that must be rejected, with a part of the reason for each.
fn bad_records() -> Vec<(&'static str, Vec<u8>)> {
    let device = |cn: &str, more: &str| {
        format!("dn: cn={cn},{SUFFIX}\nobjectClass: device\nobjectClass: extensibleObject\n{more}\n")
            .into_bytes()
    };
    let octets = |text: &str| text.as_bytes().to_vec();
    vec![
        ("values from URLs", device("b1", "description:< file:///etc/passwd\n")),
        ("this is a change", format!("dn: cn=b2,{SUFFIX}\nchangetype: delete\n\n").into_bytes()),
        (
            "this is a change",
            format!("dn: cn=b3,{SUFFIX}\nchangetype: modify\nadd: cn\ncn: x\n-\n\n").into_bytes(),
        ),
        (
            "not UTF-8 at byte 1",
            [device("b4", "description: x"), b"\xff\n\n".to_vec()].concat().replace_end(),
        ),
        (
            "name is not UTF-8",
            [b"dn: cn=b\xff,".to_vec(), octets(SUFFIX), octets("\nobjectClass: device\n\n")].concat(),
        ),
        ("invalid base64", device("b6", "description:: a=b=\n")),
        ("':' expected", octets("no LDIF at all\n\n")),
        ("attribute description expected", device("b8", "de scription: x\n")),
        ("must start with 'dn:'", octets("cn: b9\nobjectClass: device\n\n")),
        ("second 'dn:'", device("b10", "dn: cn=b11\n")),
        ("continuation of no line", octets(" stray\n\n")),
        ("changetype must be", device("b12", "changetype: add\n")),
        ("malformed or misplaced 'control:'", octets("dn: cn=b13\ncontrol: x\nchangetype: delete\n\n")),
        ("is not defined in the schema", device("b14", "shoeSize: 4\n")),
        ("is given more than once", device("b15", "description: twice\ndescription: TWICE\n")),
        (
            "superior does not exist",
            octets(&format!("dn: cn=b16,cn=nowhere,{SUFFIX}\nobjectClass: device\n\n")),
        ),
        ("it is not below", octets("dn: o=elsewhere\nobjectClass: organization\n\n")),
        ("an earlier entry has the same name", octets(&format!("dn: {SUFFIX}\nobjectClass: domain\n\n"))),
    ]
}

/// Removes the first newline after an `x`, so that the next octets continue the value.
trait ReplaceEnd {
    fn replace_end(self) -> Self;
}

impl ReplaceEnd for Vec<u8> {
    fn replace_end(self) -> Vec<u8> {
        let at = self.windows(2).position(|two| two == b"x\n").unwrap();
        [&self[..=at], &self[at + 2..]].concat()
    }
}

fn without_comments(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with('#')).flat_map(|line| [line, "\n"]).collect()
}

fn import(settings: &Path, data: &Path, file: &Path, code: i32) -> String {
    must(&["apply", settings.to_str().unwrap()], data);
    let arguments = ["import", "--suffix", SUFFIX, file.to_str().unwrap()];
    command(&arguments, Some(data)).expect_code(code).stderr
}

#[test]
fn values_of_every_syntax_survive_export_and_import() {
    let seed = test_support::seed();
    let (types, schema) = types_of_all_syntaxes();
    let syntax_count = Schema::shipped().syntaxes().len();
    for round in 0..test_support::rounds(ROUNDS) {
        let random = fastrand::Rng::with_seed(seed.wrapping_add(round));
        let mut maker = Maker { random, schema: Arc::clone(&schema), syntax_count };
        let scratch = Scratch::new("round-trip-syntaxes");
        scratch.write("types.schema", &types);
        let text = format!("suffixes = [\"{SUFFIX}\"]\nschema_files = [\"types.schema\"]\n");
        let settings = scratch.write("settings.toml", text);
        let model = maker.model();
        let (suffix, others): (Vec<_>, Vec<_>) = model.iter().partition(|(dn, _)| *dn == SUFFIX);
        let mut records: Vec<Vec<u8>> =
            suffix.into_iter().chain(others).map(|(dn, entry)| maker.record(dn, entry)).collect();
        // Entries may come before their superiors.
        maker.random.shuffle(&mut records[1..]);
        let bad = bad_records();
        for (_, record) in &bad {
            // One invalid record is a second suffix entry, so all invalid records come after the first record.
            records.insert(maker.random.usize(1..=records.len()), record.clone());
        }
        let file = scratch.write("in.ldif", [b"version: 1\n\n".to_vec(), records.concat()].concat());

        let first = scratch.join("first");
        let said = import(&settings, &first, &file, 6);
        assert!(said.contains(&format!("imported {} entries", model.len())), "{said}");
        let rejects = std::fs::read(first.join("rejects-1.ldif")).unwrap();
        let rejects = String::from_utf8_lossy(&rejects);
        for (reason, _) in &bad {
            assert!(rejects.contains(reason), "{reason:?} is missing:\n{rejects}");
        }
        assert_eq!(
            rejects.lines().filter(|line| line.contains("in.ldif, line ")).count(),
            bad.len(),
            "{rejects}"
        );
        must(&["verify"], &first);
        let exported = must(&["export", "--operational"], &first).stdout;
        let found = read(&exported);
        for (dn, entry) in &model {
            assert_eq!(found.get(dn), Some(entry), "{dn}");
        }
        assert_eq!(found.len(), model.len());
        assert!(exported.lines().all(|line| line.len() <= 76), "a line that is not folded");

        let out = scratch.write("out.ldif", &exported);
        let second = scratch.join("data");
        import(&settings, &second, &out, 0);
        must(&["verify"], &second);
        let again = must(&["export", "--operational"], &second).stdout;
        assert!(without_comments(&again) == without_comments(&exported), "export, import, export");
        let schema_file = scratch.join("types.schema");
        let check = ["ldif", "check", "--schema", schema_file.to_str().unwrap(), out.to_str().unwrap()];
        command(&check, None).expect_code(0).expect_output("nothing found");

        let pando = Pando::start(&scratch);
        let online = must(&["export", "--online", "--operational"], &second).stdout;
        assert!(without_comments(&online) == without_comments(&exported), "over LDAP");
        assert!(pando.stop().success());
    }
}
