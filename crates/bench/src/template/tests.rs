//! Tests of each tag of the language, of errors and their lines, and of streaming.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use super::*;
use ldap::ldif::{LdifBody, LdifReader};

/// An entry that was read: its DN, and its attribute descriptions with values.
type Read = (String, Vec<(String, String)>);

fn template(text: &str) -> Template {
    Template::of_text("test", text, None, &Parameters::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn ldif(template: &Template, seed: u64, threads: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let octets = template.generate(seed, NonZeroUsize::new(threads).unwrap(), &mut out).unwrap();
    assert_eq!(octets, out.len() as u64);
    out
}

fn read(ldif: &[u8]) -> Vec<Read> {
    let mut reader = LdifReader::new(ldif);
    let mut entries = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        let LdifBody::Entry(values) = record.body else { panic!("a change") };
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        let values = values.iter().map(|value| (value.description.to_owned(), text(value.value)));
        entries.push((record.dn.to_owned(), values.collect()));
    }
    entries
}

/// Returns the values of `COUNT` entries with the line `value: TEXT`, which may refer to `sn` and `cn`.
fn values(count: u64, text: &str) -> Vec<Vec<String>> {
    let template = template(&format!(
        "branch: ou=p,o=x\nsubordinateTemplate: e:{count}\n\ntemplate: e\nrdnAttr: cn\n\
         cn: n<sequential>\nsn: Müller\nvalue: {text}\n"
    ));
    let entries = read(&ldif(&template, 7, 1));
    assert_eq!(entries.len() as u64, count + 1);
    let of = |(_, values): &Read| {
        values.iter().filter(|(name, _)| name == "value").map(|(_, value)| value.clone()).collect()
    };
    entries[1..].iter().map(of).collect()
}

#[test]
fn tags_generate_their_values() {
    let check = |text: &str, is_right: &dyn Fn(&str) -> bool| {
        for value in values(200, text) {
            assert!(value.len() == 1 && is_right(&value[0]), "{text}: {value:?}");
        }
    };
    fn consists_of(value: &str, length: usize, set: impl Fn(u8) -> bool) -> bool {
        value.len() == length && value.bytes().all(set)
    }
    check("plain", &|value| value == "plain");
    check("<random:alpha:5>", &|value| consists_of(value, 5, |c| c.is_ascii_lowercase()));
    check("<random:alpha:2:4>", &|value| (2..=4).contains(&value.len()));
    check("<Random:Numeric:6>", &|value| consists_of(value, 6, |c| c.is_ascii_digit()));
    check("<random:numeric:-5:5>", &|value| (-5..=5).contains(&value.parse::<i64>().unwrap()));
    check("<random:numeric:1:9:000>", &|value| consists_of(value, 3, |c| c.is_ascii_digit()));
    check("<random:alphanumeric:80>", &|value| consists_of(value, 80, |c| c.is_ascii_alphanumeric()));
    check("<random:hex:8>", &|value| consists_of(value, 8, |c| c.is_ascii_hexdigit()));
    check("<random:base64:16>", &|value| value.len() == 16);
    check("<random:chars:XY:3>", &|value| consists_of(value, 3, |c| matches!(c, b'X' | b'Y')));
    check("<random:chars:XY:1:3>", &|value| (1..=3).contains(&value.len()));
    check("<random:telephone>", &|value| value.starts_with("+1 ") && value.len() == 15);
    check("<random:month>", &|value| value.len() >= 3);
    check("<random:month:3>", &|value| value.len() == 3);
    check("<list:a;2:b;1:c>", &|value| matches!(value, "a" | "b" | "c"));
    check("<list:red,green,blue>", &|value| matches!(value, "red" | "green" | "blue"));
    check("<list:red:9,blue:1>", &|value| matches!(value, "red" | "blue"));
    check("<list:Smith, J:Doe, J>", &|value| matches!(value, "Smith, J" | "Doe, J"));
    check("<file:cities>", &|value| !value.is_empty());
    check("<guid>", &|value| value.len() == 36 && value.as_bytes()[14] == b'4');
    check("{sn}-{sn:2}", &|value| value == "Müller-Mü");
    check("<parentdn>", &|value| value == "ou=p,o=x");
    check("<_ParentDN>", &|value| value == "ou=p_o=x");
    check("<dn:-1>", &|value| value == "o=x");
    check("<dn:1>+<rdn>", &|value| value.split_once('+').is_some_and(|(left, right)| left == right));
    check("<_dn>", &|value| value.ends_with("_ou=p_o=x"));
    check("<_dn_:2>", &|value| value.ends_with("_ou=p"));
    check(r"\<a\> \{b\} \[c\] \\", &|value| value == r"<a> {b} [c] \");
    check("<dnof:e>", &|value| value.ends_with(",ou=p,o=x"));
    check("<ifpresent:sn>yes", &|value| value == "yes");
    check("<ifpresent:sn:müller>yes", &|value| value == "yes");
}

#[test]
fn presence_and_conditions_leave_lines_out() {
    let share = |text: &str| values(2000, text).iter().filter(|values| !values.is_empty()).count();
    assert_eq!(share("<presence:0>x"), 0);
    assert_eq!(share("<presence:100>x"), 2000);
    assert!((900..1100).contains(&share("<presence:50>x")));
    assert_eq!(share("<ifabsent:sn>x"), 0);
    assert_eq!(share("<ifpresent:cn:n7>x"), 1);
    assert_eq!(share("<ifabsent:cn:n7>x"), 1999);
    let both = template(
        "branch: o=x\nsubordinateTemplate: e:500\n\ntemplate: e\nrdnAttr: cn\ncn: <sequential>\n\
         a: <presence:30>a\nb: <ifabsent:a>b\nc: <ifpresent:a>{a}c\n",
    );
    for (_, values) in &read(&ldif(&both, 1, 1))[1..] {
        let names: Vec<_> = values[1..].iter().map(|(name, _)| name.as_str()).collect();
        assert!(names == ["a", "c"] || names == ["b"], "{names:?}");
    }
}

#[test]
fn values_of_a_list_are_chosen_by_weight() {
    let chosen = values(6000, "<list:a;3:b;2:c;1>");
    let count = |wanted: &str| chosen.iter().filter(|value| value[0] == wanted).count();
    assert!((2800..3200).contains(&count("a")) && (850..1150).contains(&count("c")));
}

#[test]
fn pairs_of_first_and_last_names_are_unique() {
    let names: HashSet<_> = values(20_000, "<first> <last>").into_iter().flatten().collect();
    assert_eq!(names.len(), 20_000);
    let again = values(50, "<first>|<first>");
    assert!(again.iter().all(|value| value[0].split_once('|').is_some_and(|(one, other)| one == other)));
}

#[test]
fn sequences_start_over_below_a_new_parent_unless_false() {
    let nested = template(
        "branch: o=x\nsubordinateTemplate: unit:2\n\n\
         template: unit\nrdnAttr: ou\nsubordinateTemplate: e:2\nou: <sequential:1>\n\n\
         template: e\nrdnAttr: cn\ncn: <sequential:5>\nall: <sequential:5:false>\n",
    );
    let entries = read(&ldif(&nested, 1, 1));
    let seen: Vec<_> = entries.iter().map(|(dn, values)| (dn.as_str(), values[1..].first())).collect();
    let all = |value: &str| Some(("all".to_owned(), value.to_owned()));
    assert_eq!(seen[1], ("ou=1,o=x", None));
    assert_eq!(seen[2], ("cn=5,ou=1,o=x", all("5").as_ref()));
    assert_eq!(seen[3], ("cn=6,ou=1,o=x", all("6").as_ref()));
    assert_eq!(seen[5], ("cn=5,ou=2,o=x", all("7").as_ref()));
    assert_eq!(seen[6], ("cn=6,ou=2,o=x", all("8").as_ref()));
}

#[test]
fn templates_extend_others_and_branches_get_missing_attributes() {
    let text = "# a comment\ndefine suffix=dc=example,dc=com\ndefine mail=@[suffix]\n\nbranch: [suffix]\n\
                description: top of\n  [suffix]\n\nbranch: ou=a\\, b,[suffix]\nsubordinateTemplate: two:1\n\n\
                template: one\nrdnAttr: cn+sn\ncn: c, d\nsn: s\n\ntemplate: two\nextends: one\n\
                mail:: <random:base64:10>\nl: {mail:0}[mail]\n";
    let entries = read(&ldif(&template(text), 1, 1));
    let expected = [
        ("objectClass", "top"),
        ("objectClass", "domain"),
        ("dc", "example"),
        ("description", "top of dc=example,dc=com"),
    ];
    let expected: Vec<_> =
        expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    assert_eq!(entries[0], ("dc=example,dc=com".to_owned(), expected));
    assert_eq!(entries[1].1[2], ("ou".to_owned(), "a, b".to_owned()));
    assert_eq!(entries[2].0, "cn=c\\, d+sn=s,ou=a\\, b,dc=example,dc=com");
    assert_eq!(entries[2].1.last().unwrap().1, "@dc=example,dc=com");
}

#[test]
fn errors_of_templates_name_the_line() {
    let check = |text: &str, line: u32, part: &str| {
        let error = match Template::of_text("t", text, None, &Parameters::default()) {
            Err(error) => error,
            Ok(_) => panic!("no error: {text}"),
        };
        assert_eq!(error.place.line, line, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    };
    // Line 5 is the first line of the body.
    let body = |lines: &str, line: u32, part: &str| {
        check(&format!("branch: o=x\nsubordinateTemplate: e:3\n\ntemplate: e\n{lines}\n"), line, part);
    };
    check("", 0, "no branch");
    check("branch: nonsense\n", 1, "no DN");
    check("define x\n", 1, "define NAME=VALUE");
    check("\nbranch: [x]\n", 2, "[x]");
    check("branch: o=[x\n", 1, "not closed");
    check("include com.example.Tag\n", 1, "Java class");
    check("include missing.template\n", 1, "missing.template");
    check("branch: o=x\n\ncn: a\n", 3, "belongs to no");
    check("branch: o=x\nwords\n", 2, "NAME: VALUE");
    check("branch: o=x\nrdnAttr: o\n", 2, "not for branches");
    check("branch: o=x\nsubordinateTemplate: e\n", 2, "NAME:COUNT");
    check("branch: o=x\nsubordinateTemplate: e:10/3\n", 2, "evenly");
    check("branch: o=x\nsubordinateTemplate: e:1\n", 2, "no template e");
    check("branch: o=x\n\ntemplate: e\n\ntemplate: E\n", 5, "already");
    body("cn: a", 4, "no rdnAttr");
    body("rdnAttr: cn", 4, "no attribute cn");
    body("rdnAttr: cn\ncn: <presence:5>a", 6, "every entry");
    body("rdnAttr: cn\ncn: {sn}", 6, "no attribute sn");
    body("rdnAttr: cn\ncn: {sn}\nsn: {cn}", 6, "depends on itself");
    body("rdnAttr: cn\ncn: <dn>", 6, "depends on itself");
    body("rdnAttr: cn\ncn: <nonsense:1>", 6, "<nonsense:1>");
    body("rdnAttr: cn\ncn: <random:alpha>", 6, "random:alpha:LENGTH");
    body("rdnAttr: cn\ncn: <random:alpha:4:3>", 6, "MIN:MAX");
    body("rdnAttr: cn\ncn: <first:1>", 6, "<first>");
    body("rdnAttr: cn\ncn: <random", 6, "not closed");
    body("rdnAttr: cn\ncn: {a:b}", 6, "LENGTH");
    body("rdnAttr: cn\ncn: <file:no-such-file>", 6, "no-such-file");
    body("rdnAttr: cn\ncn: <dnof:e>", 6, "<dnof>");
    body("rdnAttr: cn\ncn: a\nm: x<members:e>", 7, "alone");
    body("rdnAttr: cn\ncn: a\nm: <members:f>", 7, "no template f");
    body("rdnAttr: cn\ncn: a\nsubordinateTemplate: e:1", 7, "below itself");
    body("rdnAttr: cn\ncn: a\nextends: e", 7, "below itself");
    check(
        "branch: o=x\nsubordinateTemplate: g:3\nsubordinateTemplate: e:2\n\ntemplate: e\nrdnAttr: cn\ncn: a\n\n\
         template: g\nrdnAttr: cn\ncn: g\nm: <members:e>\n",
        12,
        "2 entries of e cannot be shared out over 3 groups",
    );
    let huge = u64::MAX;
    check(
        &format!("branch: o=x\nsubordinateTemplate: e:{huge}\n\ntemplate: e\nrdnAttr: cn\ncn: a\n"),
        1,
        "counted",
    );
}

#[test]
fn files_are_found_in_the_folder_of_the_template() {
    let folder: PathBuf = std::env::temp_dir().join(format!("pando-template-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("colours", "red\n\ngreen\n");
    write("constants", "define n=3\n");
    write(
        "main",
        "include constants\nbranch: o=x\nsubordinateTemplate: e:[n]\n\ntemplate: e\nrdnAttr: cn\n\
         cn: <sequential>\nl: <file:colours:sequential>\n",
    );
    let path = folder.join("main").display().to_string();
    let colours = |parameters: &Parameters| -> Vec<String> {
        let template = Template::read(&path, parameters).unwrap();
        read(&ldif(&template, 1, 1))[1..].iter().map(|(_, values)| values[1].1.clone()).collect()
    };
    assert_eq!(colours(&Parameters::default()), ["red", "green", "red"]);
    let constants = BTreeMap::from([("N".to_owned(), "1".to_owned())]);
    assert_eq!(colours(&Parameters { constants, entries: None }), ["red"]);
    let error = Template::read(&path, &Parameters { entries: Some(3), ..Parameters::default() });
    assert!(error.err().unwrap().to_string().contains("numusers"));
    write("main", "include main\n");
    let error = Template::read(&path, &Parameters::default()).err().unwrap();
    assert!(matches!(error.fault, TemplateFault::IncludeDepth), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Returns a template with 14,000 people below units. The people are members of 3 groups that are larger than a piece,
/// and of 2,000 small groups. The names are random.
fn large_groups_template() -> Template {
    template(
        "branch: o=x\nsubordinateTemplate: unit:4\nsubordinateTemplate: large:3\nsubordinateTemplate: small:2000\n\n\
         template: unit\nrdnAttr: ou\nsubordinateTemplate: person:3500\nou: <random:alpha:12>\n\n\
         template: person\nrdnAttr: cn\ndescription: <random:alphanumeric:9>\ncn: {sn} <random:hex:16>\nsn: <last>\n\
         manager: <dnof:person>\n\n\
         template: large\nrdnAttr: cn\ncn: large <sequential>\nmember: <members:person>\n\
         owner: <members:person>\ndescription: after {cn}\n\n\
         template: small\nrdnAttr: cn\ncn: small <sequential>\nmember: <members:person>\n",
    )
}

#[test]
fn the_number_of_threads_does_not_change_the_data() {
    let crowd = large_groups_template();
    let alone = ldif(&crowd, 5, 1);
    for threads in [2, 3, 8] {
        assert!(ldif(&crowd, 5, threads) == alone, "{threads} threads");
    }
    assert!(ldif(&crowd, 6, 1) != alone);
}

#[test]
fn each_entry_is_in_one_group_of_a_kind() {
    let entries = read(&ldif(&large_groups_template(), 5, 2));
    let people: HashSet<_> =
        entries.iter().map(|(dn, _)| dn.as_str()).filter(|dn| dn.matches(',').count() == 2).collect();
    assert_eq!(people.len(), 14_000);
    for (kind, attribute) in [("cn=large", "member"), ("cn=large", "owner"), ("cn=small", "member")] {
        let groups: Vec<_> = entries.iter().filter(|(dn, _)| dn.starts_with(kind)).collect();
        let members = groups.iter().flat_map(|(_, values)| values).filter(|(name, _)| name == attribute);
        let members: Vec<_> = members.map(|(_, member)| member.as_str()).collect();
        assert_eq!(members.len(), people.len(), "{kind}");
        assert_eq!(members.into_iter().collect::<HashSet<_>>(), people, "{kind}");
        let sizes: HashSet<_> = groups.iter().map(|(_, values)| values.len()).collect();
        assert!(sizes.len() <= 2, "{sizes:?}");
    }
    let after =
        |(dn, values): &Read| values.last().is_some_and(|(_, value)| dn.contains(&value["after ".len()..]));
    assert_eq!(
        entries.iter().filter(|entry| entry.0.starts_with("cn=large")).filter(|entry| after(entry)).count(),
        3
    );
    let managers = entries.iter().flat_map(|(_, values)| values).filter(|(name, _)| name == "manager");
    assert!(managers.map(|(_, dn)| dn.as_str()).all(|dn| people.contains(dn)));
}

/// A group with 50,000 members and all people are written in pieces that are far smaller than the group.
#[test]
fn large_groups_are_written_in_parts() {
    struct Largest(usize, u64);
    impl io::Write for Largest {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.max(bytes.len());
            self.1 += bytes.len() as u64;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let parameters = Parameters {
        entries: Some(50_000),
        constants: BTreeMap::from([("groups".to_owned(), "1".to_owned())]),
    };
    let text = shipped::find("oid").unwrap().text.replace("<random:base64:2048>", "x");
    let template = Template::of_text("oid", &text, None, &parameters).unwrap();
    let mut out = Largest(0, 0);
    template.generate(1, NonZeroUsize::new(2).unwrap(), &mut out).unwrap();
    assert!(out.0 < 1 << 20 && out.1 > 25 << 20, "{} of {}", out.0, out.1);
}

#[test]
fn a_failing_writer_ends_the_generation() {
    struct Full(usize);
    impl io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for threads in [1, 4] {
        let error = large_groups_template()
            .generate(1, NonZeroUsize::new(threads).unwrap(), &mut Full(5))
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}

#[test]
fn a_subscriber_has_the_published_size() {
    let parameters = Parameters { entries: Some(2000), ..Parameters::default() };
    let entries = read(&ldif(&Template::read("sun", &parameters).unwrap(), 1, 1));
    let size = |(dn, values): &Read| {
        // Each line has a name, a colon, a space and a line end. An empty line follows each entry.
        dn.len() + 6 + values.iter().map(|(name, value)| name.len() + value.len() + 3).sum::<usize>()
    };
    let average = entries[2..].iter().map(size).sum::<usize>() as f64 / 2000.0;
    assert!((average - 2302.0).abs() < 5.0, "{average}");
}
