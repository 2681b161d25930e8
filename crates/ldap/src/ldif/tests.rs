use std::io::{BufRead, BufReader, Cursor, Read};

use super::*;
use crate::{AttributesBuf, ChangeOperation, Control};

/// Returns each record, or error, as one line of text.
fn read(text: impl AsRef<[u8]>) -> Vec<String> {
    read_from(text.as_ref(), crate::LDIF_RECORD_SIZE_MAX)
}

fn read_from(input: impl BufRead, record_size_max: usize) -> Vec<String> {
    let mut reader = LdifReader::with_record_size_max(input, record_size_max);
    let mut shapes = Vec::new();
    loop {
        match reader.next_record() {
            Ok(Some(record)) => shapes.push(shape(&record)),
            Ok(None) => return shapes,
            Err(error) => shapes.push(error.to_string()),
        }
    }
}

fn shape(record: &LdifRecord<'_>) -> String {
    let values = |values: &LdifValues<'_>| {
        let texts =
            values.iter().map(|value| format!("{}={}", value.description, value.value.escape_ascii()));
        texts.collect::<Vec<_>>().join(" ")
    };
    let body = match record.body {
        LdifBody::Entry(lines) => values(&lines),
        LdifBody::Add(lines) => format!("add {}", values(&lines)),
        LdifBody::Delete => "delete".to_string(),
        LdifBody::Modify(changes) => {
            let change_shape = |change: LdifModification<'_>| {
                format!("{:?} {} [{}]", change.operation, change.description, values(&change.values))
            };
            changes.iter().map(change_shape).collect::<Vec<_>>().join("; ")
        }
        LdifBody::ModifyDn { new_rdn, delete_old_rdn, new_superior } => {
            format!("to {new_rdn} {delete_old_rdn} {new_superior:?}")
        }
    };
    let controls: String = record
        .controls
        .iter()
        .map(|control| {
            let value = control.value.map(|value| value.escape_ascii().to_string());
            format!("{}/{}/{value:?} ", control.oid, control.critical)
        })
        .collect();
    format!("{}: {} {controls}{body}", record.line, record.dn)
}

#[test]
fn entries_parse() {
    let check = |text: &str, expected: &[&str]| assert_eq!(read(text), expected, "{text:?}");
    check("", &[]);
    check("\n\n\n", &[]);
    check("version: 1\n", &[]);
    check("dn:", &["1:  "]);
    check("dn: dc=a", &["1: dc=a "]);
    check("version: 1\ndn: dc=a\ncn: b\n\n\ndn: dc=c\n", &["2: dc=a cn=b", "6: dc=c "]);
    check("version:1\n\ndn:dc=a\ncn:b\n", &["3: dc=a cn=b"]);
    check("dn: dc=a\r\ncn: b\r\n\r\ndn: dc=c\r\n", &["1: dc=a cn=b", "4: dc=c "]);
    check("# x\n# y\n\ndn: dc=a\n# z\n more z\ncn: b\n", &["4: dc=a cn=b"]);
    // A byte order mark before the first line is not part of the text.
    check("\u{feff}dn: dc=a\n", &["1: dc=a "]);
    check("\u{feff}# x\n\ndn: dc=a\n", &["3: dc=a "]);
    // A line may be folded anywhere; unfolding removes one space.
    check("dn: d\n c=a\ncn: b\n  c\n \n d\n", &["1: dc=a cn=b cd"]);
    check("d\n n: dc=a\nc\n n:\n : Yg\n ==\n", &["1: dc=a cn=b"]);
    // Names may be in any case. Spaces before a value are dropped; spaces after it are kept.
    check("DN:   dc=a\nCN;Lang-X:  b \n", &["1: dc=a CN;Lang-X=b "]);
    check("dn:: ZGM9YQ==\nphoto::/wA=\nempty:\nempty::\n", &[r"1: dc=a photo=\xff\x00 empty= empty="]);
    check("dn: cn=ä\nurl: <x\ncolon: a:b::\n", &["1: cn=ä url=<x colon=a:b::"]);
}

#[test]
fn invalid_entries_are_refused_with_their_line() {
    let check = |text: &str, expected: &[&str]| assert_eq!(read(text), expected, "{text:?}");
    check("version: 2\ndn: a=b\n", &["line 1: only LDIF version 1 is known"]);
    check("cn: a\n\ndn: dc=b\n", &["line 1: record must start with 'dn:'", "3: dc=b "]);
    check("dn: a=b\nx\n", &["line 2: ':' expected"]);
    check("dn: a=b\n-\n", &["line 2: ':' expected"]);
    check("dn: a=b\n: x\n", &["line 2: attribute description expected before ':'"]);
    check("dn: a=b\nc=d: x\n", &["line 2: attribute description expected before ':'"]);
    check("dn: a=b\nc n: x\n", &["line 2: attribute description expected before ':'"]);
    check("dn: a=b\ncn:: x\n", &["line 2: invalid base64"]);
    check("dn: a=b\n# c\ncn:: !x==\n y\n", &["line 3: invalid base64"]);
    check("dn: a=b\ncn:< file:///etc/passwd\n", &["line 2: values from URLs (':<') are not supported"]);
    check("dn: a=b\ncn: c\ndn: d=e\n", &["line 3: second 'dn:' in a record; is an empty line missing?"]);
    check("dn:: /w==\n", &["line 1: name is not UTF-8"]);
    check(" x\n\ndn: a=b\n", &["line 1: continuation of no line", "3: a=b "]);
    let misplaced = "changetype must be add, delete, modify, modrdn or moddn, right after 'dn:'";
    check("dn: a=b\ncn: c\nchangetype: add\n", &[&format!("line 3: {misplaced}")]);
    check("dn: a=b\nchangetype: list\n", &[&format!("line 2: {misplaced}")]);
    check("dn: a=b\ncontrol: 1.2\n", &[&format!("line 1: {misplaced}")]);
}

#[test]
fn changes_of_rfc_2849_parse() {
    let text = "\
version: 1
# Add a new entry
dn: cn=Fiona Jensen, ou=Marketing, dc=airius, dc=com
changetype: add
objectclass: top
cn: Fiona Jensen

# Delete an existing entry
dn: cn=Robert Jensen, ou=Marketing, dc=airius, dc=com
changetype: delete

dn: cn=Paul Jensen, dc=airius, dc=com
changetype: modrdn
newrdn: cn=Paula Jensen
deleteoldrdn: 1

dn: ou=PD Accountants, dc=airius, dc=com
changetype: moddn
newrdn: ou=Product Development Accountants
deleteoldrdn: 0
newsuperior: ou=Accounting, dc=airius, dc=com

dn: cn=Paula Jensen, dc=airius, dc=com
changetype: modify
add: postaladdress
postaladdress: 123 Anystreet
-
delete: description
-
replace: telephonenumber
telephonenumber: +1 408 555 1234
telephonenumber: +1 408 555 5678
-

dn: ou=Product Development, dc=airius, dc=com
control: 1.2.840.113556.1.4.805 true
control: 1.2.3: value
control: 1.2.4 false:: Yg==
changetype: delete
";
    let expected = [
        "3: cn=Fiona Jensen, ou=Marketing, dc=airius, dc=com add objectclass=top cn=Fiona Jensen",
        "9: cn=Robert Jensen, ou=Marketing, dc=airius, dc=com delete",
        "12: cn=Paul Jensen, dc=airius, dc=com to cn=Paula Jensen true None",
        "17: ou=PD Accountants, dc=airius, dc=com to ou=Product Development Accountants false \
         Some(\"ou=Accounting, dc=airius, dc=com\")",
        "23: cn=Paula Jensen, dc=airius, dc=com Add postaladdress [postaladdress=123 Anystreet]; \
         Delete description []; \
         Replace telephonenumber [telephonenumber=+1 408 555 1234 telephonenumber=+1 408 555 5678]",
        "35: ou=Product Development, dc=airius, dc=com 1.2.840.113556.1.4.805/true/None \
         1.2.3/false/Some(\"value\") 1.2.4/false/Some(\"b\") delete",
    ];
    assert_eq!(read(text), expected);
}

#[test]
fn variants_of_changes_parse_or_are_refused() {
    let check = |body: &str, expected: &str| {
        assert_eq!(read(format!("dn: a=b\nchangetype: {body}")), [expected], "{body:?}");
    };
    check("modify\n", "1: a=b ");
    check("MODIFY \nIncrement: n \nn: 1", "1: a=b Increment n [n=1]");
    check("modify\nadd: x\nX: 1\n-\n", "1: a=b Add x [X=1]");
    let operation = "'add:', 'delete:', 'replace:' or 'increment:' expected";
    check("modify\n-\n", &format!("line 3: {operation}"));
    check("modify\nadd: x\n-\n-\nadd: x\n", &format!("line 5: {operation}"));
    check("modify\nx: 1\n", &format!("line 3: {operation}"));
    let value = "value of the attribute that changes, or '-' expected";
    check("modify\nadd: x\ny: 1\n", &format!("line 4: {value}"));
    check("delete\nx: 1\n", "line 3: end of the record expected");
    check("modrdn\n", "line 2: 'newrdn:' expected");
    check("modrdn\nnewrdn: a=c\n", "line 2: 'deleteoldrdn:' expected");
    check("modrdn\nnewrdn: a=c\nnewsuperior: x=y\n", "line 4: 'deleteoldrdn:' expected");
    check("modrdn\nnewrdn: a=c\ndeleteoldrdn: 2\n", "line 4: 0 or 1 expected");
    check("modrdn\nnewrdn: a=c\ndeleteoldrdn: 1\nx: y\n", "line 5: 'newsuperior:' expected");
    let long = "modrdn\nnewrdn: a=c\ndeleteoldrdn: 1\nnewsuperior:\nx: y\n";
    check(long, "line 6: end of the record expected");
    check("add\ncontrol: 1.2\n", "line 3: malformed or misplaced 'control:'");
    for control in ["", "x", "1.2 maybe", "1.2 true x"] {
        let text = format!("dn: a=b\ncontrol: {control}\nchangetype: delete\n");
        assert_eq!(read(text), ["line 2: malformed or misplaced 'control:'"], "{control}");
    }
}

#[test]
fn records_are_bounded() {
    let too_long = "record is longer than 20 octets";
    let check = |text: &str, expected: &[&str]| assert_eq!(read_from(text.as_bytes(), 20), expected);
    check("dn: a=b\ncn: 1234567\n", &["1: a=b cn=1234567"]);
    check("dn: a=b\ncn: 1234567890\n", &[&format!("line 2: {too_long}")]);
    check("dn: a=b\ncn: 1\n 2\n 3\n 4\n 5\n 6\n 7\n 8\n 9\n", &[&format!("line 10: {too_long}")]);
    // The reader refuses a line that is too long before it reaches the end of the line.
    let endless = BufReader::new(std::io::repeat(b'x'));
    assert_eq!(read_from(endless, 20), [format!("line 1: {too_long}")]);
}

#[test]
fn input_errors_end_reading() {
    let input = BufReader::new(Cursor::new("dn: a=b\n\ndn: c=d\n").chain(Broken));
    assert_eq!(read_from(input, 100), ["1: a=b ", "line 4: broken disk"]);
}

/// Reads an input for each kind of error, so that each message is tested. The match makes a new kind without an input
/// here a compile error.
#[test]
fn every_kind_of_error_has_a_message() {
    fn index_of(kind: &LdifErrorKind) -> usize {
        match kind {
            LdifErrorKind::UnknownVersion => 0,
            LdifErrorKind::StrayContinuation => 1,
            LdifErrorKind::MissingColon => 2,
            LdifErrorKind::BadDescription => 3,
            LdifErrorKind::BadBase64 => 4,
            LdifErrorKind::UrlValue => 5,
            LdifErrorKind::MissingDn => 6,
            LdifErrorKind::SecondDn => 7,
            LdifErrorKind::NotUtf8 => 8,
            LdifErrorKind::BadControl => 9,
            LdifErrorKind::BadChangeType => 10,
            LdifErrorKind::Expected(_) => 11,
            LdifErrorKind::RecordTooLong { .. } => 12,
            LdifErrorKind::Io(_) => 13,
        }
    }
    let long = "cn: ".to_owned() + &"x".repeat(100);
    let samples: [(&[u8], &str); 13] = [
        (b"version: 0\n", "line 1: only LDIF version 1 is known"),
        (b" x\n", "line 1: continuation of no line"),
        (b"dn: a=b\nx\n", "line 2: ':' expected"),
        (b"dn: a=b\n: x\n", "line 2: attribute description expected before ':'"),
        (b"dn: a=b\nx:: a\n", "line 2: invalid base64"),
        (b"dn: a=b\nx:< y\n", "line 2: values from URLs (':<') are not supported"),
        (b"x: y\n", "line 1: record must start with 'dn:'"),
        (b"dn: a=b\ndn: c=d\n", "line 2: second 'dn:' in a record; is an empty line missing?"),
        (b"dn: \xff\n", "line 1: name is not UTF-8"),
        (b"dn: a=b\ncontrol: x\nchangetype: delete\n", "line 2: malformed or misplaced 'control:'"),
        (
            b"dn: a=b\nchangetype: x\n",
            "line 2: changetype must be add, delete, modify, modrdn or moddn, right after 'dn:'",
        ),
        (b"dn: a=b\nchangetype: modrdn\n", "line 2: 'newrdn:' expected"),
        (long.as_bytes(), "line 1: record is longer than 80 octets"),
    ];
    let mut seen = [false; 14];
    for (text, expected) in samples {
        let error = LdifReader::with_record_size_max(text, 80).next_record().unwrap_err();
        assert_eq!(error.to_string(), expected);
        seen[index_of(&error.kind)] = true;
    }
    let broken = BufReader::new(Cursor::new("dn: a=b\n").chain(Broken));
    let error = LdifReader::new(broken).next_record().unwrap_err();
    assert_eq!(error.to_string(), "line 2: broken disk");
    seen[index_of(&error.kind)] = true;
    assert_eq!(seen, [true; 14], "a kind without a sample");
}

/// An input that cannot be read.
struct Broken;

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other("broken disk"))
    }
}

#[test]
fn values_are_grouped_by_attribute() {
    let mut reader = LdifReader::new(&b"dn: a=b\ncn: 1\nSN: x\ncn: 2\nsn: y\nCn: 3\n"[..]);
    let record = reader.next_record().unwrap().unwrap();
    let LdifBody::Entry(values) = record.body else { panic!() };
    let mut attributes = AttributesBuf::new();
    values.append_to(&mut attributes);
    let shapes: Vec<_> = attributes
        .as_attributes()
        .iter()
        .map(|attribute| (attribute.description, attribute.values.iter().flatten().copied().collect()))
        .collect();
    assert_eq!(shapes, [("cn", b"123".to_vec()), ("SN", b"xy".to_vec())]);
}

/// Writes with `write`, checks the length of the lines, and returns the text.
fn write_text(write: impl FnOnce(&mut LdifWriter<Vec<u8>>) -> std::io::Result<()>) -> String {
    let mut writer = LdifWriter::new(Vec::new());
    write(&mut writer).unwrap();
    let text = String::from_utf8(writer.into_inner()).unwrap();
    assert!(text.lines().all(|line| line.len() <= 76), "{text}");
    text
}

#[test]
fn values_are_written_safely() {
    let check = |value: &str, expected: &str| {
        let text = write_text(|writer| writer.entry("a=b", [("x", value.as_bytes())]));
        assert_eq!(text, format!("dn: a=b\n{expected}\n\n"));
        let read_back = format!("1: a=b x={}", value.as_bytes().escape_ascii());
        assert_eq!(read(&text), [read_back], "{text}");
    };
    check("", "x:");
    check("a b: <", "x: a b: <");
    check(" a", "x:: IGE=");
    check("a ", "x:: YSA=");
    check(":a", "x:: OmE=");
    check("<a", "x:: PGE=");
    check("ä", "x:: w6Q=");
    check("a\nb", "x:: YQpi");
    check("a\0b", "x:: YQBi");
    check("a\tb", "x: a\tb");
    // A terminal would interpret these octets.
    check("\u{1b}[2J", "x:: G1sySg==");
    check("a\u{7f}", "x:: YX8=");
    check(&"y".repeat(73), &format!("x: {}", "y".repeat(73)));
    check(&"y".repeat(74), &format!("x: {}\n y", "y".repeat(73)));
    check(&"y".repeat(149), &format!("x: {}\n {}\n y", "y".repeat(73), "y".repeat(75)));
}

#[test]
fn the_lines_of_a_malformed_record_are_returned() {
    let mut reader = LdifReader::new(&b"dn: a\n# c\nb: c\n d\ne\n\ndn: b\nx: y\n"[..]);
    reader.next_record().unwrap_err();
    assert_eq!(reader.record_lines().collect::<Vec<_>>(), [&b"dn: a"[..], b"b: cd", b"e"]);
    reader.next_record().unwrap();
    assert_eq!(reader.record_lines().collect::<Vec<_>>(), [&b"dn: b"[..], b"x: y"]);
}

#[test]
fn lines_of_every_length_are_folded_and_read_back() {
    let long_name = "x".repeat(100);
    for name in ["cn", "userCertificate;binary", &long_name] {
        for length in (0..250).chain([767, 768, 769, 1_536, 5_000]) {
            for octet in [b'a', 0xff] {
                let value = vec![octet; length];
                let mut text = b"dn: o=a\n".to_vec();
                super::put_ldif_line(&mut text, name, &value);
                assert!(text.split(|octet| *octet == b'\n').all(|line| line.len() <= 76), "{name} {length}");
                let mut reader = LdifReader::new(text.as_slice());
                let record = reader.next_record().unwrap().unwrap();
                let LdifBody::Entry(values) = record.body else { panic!("not an entry") };
                let read = values.iter().map(|line| (line.description, line.value)).collect::<Vec<_>>();
                assert_eq!(read, [(name, value.as_slice())]);
            }
        }
    }
}

#[test]
fn changes_are_written_and_read_back() {
    let controls = [
        Control { oid: "1.2.3", critical: true, value: Some(b"\xff") },
        Control { oid: "1.2.4", critical: false, value: None },
    ];
    let text = write_text(|writer| {
        writer.version()?;
        writer.comment("two\rlines\nof it")?;
        writer.add("cn=ä", &[], [("cn", "ä".as_bytes())])?;
        writer.delete("a=b", &controls)?;
        writer.modify_dn("a=b", &[], "a=c", true, Some("x=y"))?;
        let values: [&[u8]; 2] = [b"1", b"2"];
        writer.modify("a=b", &[], [(ChangeOperation::Replace, "x", values.into_iter())])
    });
    let expected = [
        "5: cn=ä add cn=\\xc3\\xa4",
        "9: a=b 1.2.3/true/Some(\"\\\\xff\") 1.2.4/false/None delete",
        "14: a=b to a=c true Some(\"x=y\")",
        "20: a=b Replace x [x=1 x=2]",
    ];
    assert_eq!(read(&text), expected, "{text}");
}
