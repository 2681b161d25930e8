//! Tests of the keys of every rule: which values have equal keys, how keys sort, and which values have no key.

use schema::{MatchingRule, RuleAssertion, Schema};

fn rule(name: &str) -> MatchingRule {
    MatchingRule::find(name).expect(name)
}

fn key(name: &str, value: &str) -> Option<Vec<u8>> {
    let mut out = b"before".to_vec();
    match rule(name).normalize(&Schema::shipped(), value.as_bytes(), &mut out) {
        Ok(()) => Some(out.split_off(6)),
        Err(_) => {
            assert_eq!(out, b"before", "{name} {value}");
            None
        }
    }
}

#[test]
fn equal_values_have_equal_keys() {
    for (name, values) in [
        ("caseIgnoreMatch", &["Foo Bar", " foo   BAR ", "ＦＯＯ bar"][..]),
        ("caseIgnoreMatch", &["", " ", "    "]),
        ("caseExactMatch", &["Foo Bar", " Foo  Bar "]),
        ("caseIgnoreIA5Match", &["A@b", "a@B "]),
        ("numericStringMatch", &["123", " 1 2 3 "]),
        ("telephoneNumberMatch", &["+1 512 315 0280", "+1-512-315-0280", "+15123150280"]),
        ("caseIgnoreListMatch", &["1 Main St.$Town", "1 MAIN  st. $ town"]),
        ("caseIgnoreListMatch", &["\\24 1$x", "\\24  1$X"]),
        ("booleanMatch", &["TRUE"]),
        ("integerMatch", &["12"]),
        ("generalizedTimeMatch", &["199412161032Z", "199412160532-0500", "19941216103200.0Z"]),
        ("uTCTimeMatch", &["9412161032Z", "941216103200Z"]),
        ("bitStringMatch", &["'0101'B"]),
        ("objectIdentifierMatch", &["cn", "CN", "commonName", "2.5.4.3", "oid.2.5.4.3"]),
        ("objectIdentifierMatch", &["inetOrgPerson", "INETORGPERSON", "2.16.840.1.113730.3.2.2"]),
        ("objectIdentifierMatch", &["caseIgnoreMatch", "2.5.13.2"]),
        ("objectIdentifierMatch", &["unheardOf", "UNHEARDOF"]),
        ("distinguishedNameMatch", &["cn=A B,dc=x", "CN=a  b , DC=X", "2.5.4.3=a b,dc=x"]),
        ("distinguishedNameMatch", &["cn=a+sn=b", "sn=B + cn=A"]),
        ("uniqueMemberMatch", &["cn=a#'01'B", "CN=A#'01'B"]),
        ("uuidMatch", &["597ae2f6-16a6-1027-98f4-d28b5365dc14", "597AE2F6-16A6-1027-98F4-D28B5365DC14"]),
        ("authPasswordExactMatch", &["MD5$c2FsdA==$abc", " MD5 $ c2FsdA== $ abc "]),
        (
            "objectIdentifierFirstComponentMatch",
            &["( 2.5.4.3 NAME 'cn' )", "(2.5.4.3)", "( 2.5.4.3 X-A 'b' )"],
        ),
        ("integerFirstComponentMatch", &["( 1 FORM a )", "( 1 NAME 'x' FORM b )"]),
        (
            "CSNMatch",
            &["20261120133441.000001Z#0000Ab#001#000000", "20261120133441.000001Z#0000aB#001#000000"],
        ),
    ] {
        let keys: Vec<_> = values.iter().map(|value| key(name, value).expect(value)).collect();
        assert!(keys.windows(2).all(|pair| pair[0] == pair[1]), "{name} {values:?}");
    }
}

#[test]
fn different_values_have_different_keys() {
    for (name, values) in [
        ("caseIgnoreMatch", &["foobar", "foo bar", "foo", "é", "e"][..]),
        ("caseExactMatch", &["Foo", "foo"]),
        ("caseIgnoreListMatch", &["a$b", "a b", "ab", "a$$b", "a\\24b"]),
        ("bitStringMatch", &["'01'B", "'010'B", "''B"]),
        ("booleanMatch", &["TRUE", "FALSE"]),
        ("objectIdentifierMatch", &["cn", "sn", "person", "unheardOf", "1.2.3"]),
        ("uniqueMemberMatch", &["cn=a", "cn=a#'0'B", "cn=a#'01'B", "cn=a#x", "cn=b"]),
        ("octetStringMatch", &["a", "A", "a ", ""]),
        ("authPasswordExactMatch", &["MD5$a$b", "MD5$a$B", "SHA1$a$b"]),
    ] {
        for (index, one) in values.iter().enumerate() {
            for other in &values[index + 1..] {
                assert_ne!(
                    key(name, one).expect(one),
                    key(name, other).expect(other),
                    "{name} {one} {other}"
                );
            }
        }
    }
}

#[test]
fn keys_sort_as_values_do() {
    for (name, values) in [
        ("caseIgnoreOrderingMatch", &[" ", "a", "A b", "a!", "aa", "ab", "b", "é", "中"][..]),
        ("caseExactOrderingMatch", &["A", "B", "a"]),
        ("numericStringOrderingMatch", &["", "1", "1 1", "12", "2"]),
        ("integerOrderingMatch", &["-1000", "-9", "0", "7", "10", "100000000000000000000000"]),
        (
            "generalizedTimeOrderingMatch",
            &["1994Z", "19941216103159.9Z", "199412161032Z", "199412160533-0500"][1..],
        ),
        ("octetStringOrderingMatch", &["", "A", "AA", "B"]),
        (
            "uuidOrderingMatch",
            &["00000000-0000-0000-0000-000000000001", "0a000000-0000-0000-0000-000000000000"],
        ),
        (
            "CSNOrderingMatch",
            &["20261120133441.000001Z#000000#000#000000", "20261120133441.000001Z#000001#000#000000"],
        ),
    ] {
        assert!(rule(name).is_order_preserving());
        let keys: Vec<_> = values.iter().map(|value| key(name, value).expect(value)).collect();
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{name} {values:?}");
    }
    assert!(!rule("distinguishedNameMatch").is_order_preserving());
}

#[test]
fn invalid_values_have_no_key() {
    for (name, value) in [
        ("caseIgnoreMatch", "é\u{FFFD}"),
        ("caseIgnoreIA5Match", "é"),
        ("numericStringMatch", "12a"),
        ("booleanMatch", "true"),
        ("booleanMatch", "1"),
        ("integerMatch", "1.5"),
        ("integerMatch", ""),
        ("generalizedTimeMatch", "1994"),
        ("uTCTimeMatch", "1994"),
        ("bitStringMatch", "0101"),
        ("bitStringMatch", "'012'B"),
        ("objectIdentifierMatch", "a b"),
        ("objectIdentifierMatch", ""),
        ("distinguishedNameMatch", "no name"),
        ("uuidMatch", "597ae2f6"),
        ("uuidMatch", "597ae2f6-16a6-1027-98f4-d28b5365dc1g"),
        ("CSNMatch", "yesterday"),
        ("authPasswordExactMatch", "secret"),
        ("certificateExactMatch", "not DER"),
        ("objectIdentifierFirstComponentMatch", "2.5.4.3"),
    ] {
        assert_eq!(key(name, value), None, "{name} {value}");
    }
}

#[test]
fn rules_of_one_family_share_keys() {
    for (one, other, expected) in [
        ("caseIgnoreMatch", "caseIgnoreOrderingMatch", true),
        ("caseIgnoreMatch", "caseIgnoreSubstringsMatch", true),
        ("caseIgnoreMatch", "caseIgnoreIA5Match", true),
        ("caseIgnoreMatch", "caseExactMatch", false),
        ("generalizedTimeMatch", "uTCTimeMatch", true),
        ("integerMatch", "integerBitAndMatch", true),
        ("telephoneNumberMatch", "caseIgnoreSubstringsMatch", false),
    ] {
        assert_eq!(rule(one).shares_key_with(rule(other)), expected, "{one} {other}");
    }
}

/// Tests assertions of extensible filters.
#[test]
fn assertions_of_extensible_filters_match() {
    let schema = Schema::shipped();
    for (name, assertion, value, expected) in [
        ("caseExactMatch", "Foo", "Foo", true),
        ("caseExactMatch", "foo", "Foo", false),
        ("caseIgnoreOrderingMatch", "m", "a", true),
        ("caseIgnoreOrderingMatch", "m", "z", false),
        ("caseIgnoreOrderingMatch", "m", "M", false),
        ("integerOrderingMatch", "10", "9", true),
        ("caseIgnoreSubstringsMatch", "*o b*", "foo bar", true),
        ("integerBitAndMatch", "6", "7", true),
        ("integerBitAndMatch", "6", "3", false),
        ("integerBitAndMatch", "0", "3", true),
        ("integerBitAndMatch", "-2147483648", "-2147483646", true),
        ("integerBitOrMatch", "6", "3", true),
        ("integerBitOrMatch", "8", "7", false),
        ("integerBitOrMatch", "1", "99999999999999999999999", false),
        ("wordMatch", "BAR", "foo bar-baz", true),
        ("wordMatch", "ba", "foo bar", false),
        ("wordMatch", "élan", "un Élan", true),
        ("keywordMatch", "foo", "foo, bar", true),
        ("objectIdentifierFirstComponentMatch", "cn", "( 2.5.4.3 NAME 'cn' )", true),
        ("objectIdentifierFirstComponentMatch", "2.5.4.4", "( 2.5.4.3 NAME 'cn' )", false),
        ("integerFirstComponentMatch", "1", "( 1 FORM a )", true),
        ("dnSubtreeMatch", "OU=People,dc=x", "uid=a, ou=people,DC=X", true),
        ("dnSubtreeMatch", "ou=people,dc=x", "ou=people,dc=x", true),
        ("dnSubtreeMatch", "ou=people,dc=x", "ou=many people,dc=x", false),
        ("dnSubtreeMatch", "ou=people,dc=x", "dc=x", false),
        ("dnSubtreeMatch", "", "dc=x", true),
        ("dnSubordinateMatch", "ou=people,dc=x", "uid=a,ou=b,ou=people,dc=x", true),
        ("dnSubordinateMatch", "ou=people,dc=x", "ou=people,dc=x", false),
        ("dnOneLevelMatch", "dc=x", "ou=people,dc=x", true),
        ("dnOneLevelMatch", "dc=x", "uid=a,ou=people,dc=x", false),
        ("dnOneLevelMatch", "dc=x", "dc=x", false),
        ("dnOneLevelMatch", "dc=x", "2.5.4.0=a+unheardOf=\\00b\\,c+cn=d\\01,dc=x", true),
        ("dnOneLevelMatch", "dc=x", "unheardOf=a,objectClass=b,dc=x", false),
        ("dnOneLevelMatch", "", "dc=x", true),
        ("dnSuperiorMatch", "uid=a,ou=people,dc=x", "dc=x", true),
        ("dnSuperiorMatch", "dc=x", "dc=x", false),
        ("dnSuperiorMatch", "dc=x", "ou=people,dc=x", false),
        ("CSNSIDMatch", "00a", "20261120133441.000001Z#000000#00A#000000", true),
        ("CSNSIDMatch", "00b", "20261120133441.000001Z#000000#00A#000000", false),
    ] {
        let made = RuleAssertion::new(&schema, rule(name), assertion.as_bytes()).expect(assertion);
        assert_eq!(made.matches(&key(name, value).expect(value)), expected, "{name} {assertion} {value}");
    }
    for (name, assertion) in [
        ("objectIdentifierMatch", "unheardOf"),
        ("integerBitAndMatch", "99999999999999999999999"),
        ("caseIgnoreSubstringsMatch", "no star"),
        ("certificateExactMatch", "{ serialNumber }"),
        ("CSNSIDMatch", "xyz"),
        ("dnSubtreeMatch", "people"),
    ] {
        assert!(RuleAssertion::new(&schema, rule(name), assertion.as_bytes()).is_err(), "{name} {assertion}");
    }
}

#[test]
fn rules_apply_to_attributes_with_a_suitable_syntax() {
    let schema = Schema::shipped();
    for (name, attribute, expected) in [
        ("caseExactMatch", "cn", true),
        ("caseExactMatch", "mail", true),
        ("caseIgnoreIA5Match", "mail", true),
        ("caseIgnoreIA5Match", "cn", false),
        ("integerBitAndMatch", "uidNumber", true),
        ("integerBitAndMatch", "cn", false),
        ("distinguishedNameMatch", "member", true),
        ("inchainMatch", "member", true),
        ("inchainMatch", "uniqueMember", true),
        ("inchainMatch", "cn", false),
        ("dnSubtreeMatch", "member", true),
        ("dnSubtreeMatch", "entryDN", true),
        ("dnSubtreeMatch", "uniqueMember", false),
        ("octetStringMatch", "jpegPhoto", true),
        ("telephoneNumberMatch", "cn", false),
        ("certificateExactMatch", "userCertificate", true),
        ("caseExactIA5Match", "vendorName", true),
    ] {
        let attribute_type = schema.attribute_type(attribute).unwrap();
        assert_eq!(schema.rule_applies(rule(name), attribute_type), expected, "{name} {attribute}");
    }
}
