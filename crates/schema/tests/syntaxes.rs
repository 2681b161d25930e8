//! Tests of the values that syntaxes accept and reject, and of the error texts.

use schema::SchemaBuilder;

const STEM: &str = "1.3.6.1.4.1.1466.115.121.1";

#[test]
fn syntaxes_accept_valid_and_refuse_invalid_values() {
    for (syntax, good, bad) in [
        (
            ".3",
            &["( 2.5.4.3 NAME 'cn' SUP name )"][..],
            &["", "( 2.5.4.3", "( x SUP name )", "( 2.5.4.3 NAME 'cn' )"][..],
        ),
        (".6", &["''B", "'0101111101'B"], &["", "0101", "'2'B", "'01'"]),
        (".7", &["TRUE", "FALSE"], &["", "true", "1", "TRUE "]),
        (".11", &["US", "de"], &["", "U", "USA", "1x"]),
        (".12", &["", "cn=a,dc=b", "1.3.6.1.4.1.1466.0=#04024869,DC=example"], &["x", "cn=a,", "cn"]),
        (".14", &["telephone $ videotex", "any", "MHS$g3fax"], &["", "carrier pigeon", "any $"]),
        (".15", &["x", " ", "é", "😀"], &["", "\u{0}"][..1]),
        (".16", &["( 2.5.6.4 DESC 'rule' NOT ( x121Address $ telexNumber ) )"], &["( 2.5.6.4 COLOUR x )"]),
        (".17", &["( 2 DESC 'rule' FORM 2.5.15.3 )"], &["( two FORM 2.5.15.3 )", "( 2 )"]),
        (".21", &["person#(sn$EQ)#oneLevel"], &["", "person"]),
        (".22", &["+1 512", "+1 512$fineResolution$a3Width"], &["", "+1$loud", "$a3Width"]),
        (".24", &["199412161032Z", "2026112013.5+01"], &["", "1994", "19940231000000Z", "199412161032"]),
        (".25", &["sn$EQ"], &["", "("]),
        (".26", &["", "a@b"], &["é"]),
        (".27", &["0", "-1", "123456789012345678901234567890"], &["", "-0", "01", "1.0", " 1"]),
        (".30", &["( 2.5.13.2 NAME 'caseIgnoreMatch' SYNTAX 1.3.6 )"], &["( 2.5.13.2 )"]),
        (".31", &["( 2.5.13.16 APPLIES ( givenName $ surname ) )"], &["( 2.5.13.16 )"]),
        (
            ".34",
            &["cn=a", "o=Test,C=GB#'0101'B", "1.3.6.1.4.1.1466.0=#04024869,O=Test,C=GB#'0101'B"],
            &["x#'01'B"],
        ),
        (".35", &["( 2.5.15.3 NAME 'orgNameForm' OC organization MUST o )"], &["( 2.5.15.3 MUST o )"]),
        (".36", &["15 079 672 281", " "], &["", "1-2"]),
        (".37", &["( 2.5.6.2 NAME 'country' SUP top STRUCTURAL MUST c )"], &["( 2.5.6.2 MUST ( ) c )"]),
        (".38", &["1.2.3.4", "cn"], &["", "1", "a b", "1.2."]),
        (".39", &["MCIMail$me"], &["", "me", "$me"]),
        (".40", &["", "anything \u{0}"], &[]),
        (
            ".41",
            &["1234 Main St.$Anytown, CA 12345$USA", "\\241,000,000 Sweepstakes", "a$$b"],
            &["", "a\\b", "\\2"],
        ),
        (".44", &["This is a PrintableString."], &["", "a_b", "é"]),
        (".50", &["+1 512 315 0280"], &["", "+1_512", "é"]),
        (".51", &["id$graphic:x$private:\u{1}"], &["", "id$colour:x", "id$page"]),
        (".52", &["1$2$3"], &["1$2", "1$2$3$4", "1$$3"]),
        (".53", &["9412161032Z", "941216103201-0500"], &["", "19941216", "9413161032Z"]),
        (".54", &["( 1.3.6.1 DESC 'x' )"], &["( 1.3.6.1 COLOUR 'x' )"]),
        (".58", &["*", "a*b*c", "a\\2Ab*"], &["", "abc", "a\\b*"]),
        (".45", &["{}", "{ base \"ou=x\" }"], &["", "base"]),
        (".8", &[], &["", "x", "0\u{3}\u{1}\u{1}"]),
        (".9", &[], &["", "x"]),
        (".10", &[], &["", "x"]),
        ("1.3.6.1.1.1.0.0", &["(host,user,domain)", "(,-,)"], &["", "host,user,domain", "(a,b)"]),
        ("1.3.6.1.1.1.0.1", &["root=server:/path"], &["", "root", "root=server"]),
        ("1.3.6.1.1.15.1", &["{ serialNumber 1, issuer rdnSequence:\"\" }"], &["", "1$cn=x"]),
        (
            "1.3.6.1.1.16.1",
            &["597ae2f6-16a6-1027-98f4-d28b5365dc14"],
            &["", "597ae2f6-16a6-1027-98f4-d28b5365dc1"],
        ),
        ("1.3.6.1.4.1.4203.1.1.2", &["MD5$salt$hash", " SHA1 $ a $ b "], &["", "md5$a$b", "MD5$a"]),
        (
            "1.3.6.1.4.1.4203.666.11.2.1",
            &["20261120133441.000001Z#000000#000#000000"],
            &["", "20261120133441Z"],
        ),
        ("1.2.840.113556.1.4.906", &["1"], &["x"]),
    ] {
        let oid = if syntax.starts_with('.') { format!("{STEM}{syntax}") } else { syntax.to_owned() };
        let mut builder = SchemaBuilder::shipped();
        builder.add_text("t", &format!("attributetype ( 1.2.3 NAME 'a' SYNTAX {oid} )"));
        let schema = builder.build().unwrap();
        let attribute_type = schema.attribute_type("a").unwrap();
        for value in good {
            assert_eq!(schema.validate_value(attribute_type, value.as_bytes()), Ok(()), "{syntax} {value:?}");
        }
        for value in bad {
            assert!(schema.validate_value(attribute_type, value.as_bytes()).is_err(), "{syntax} {value:?}");
        }
    }
}

#[test]
fn messages_state_the_fault_and_its_position() {
    let schema = schema::Schema::shipped();
    for (attribute, value, expected) in [
        ("cn", &b""[..], "not valid as Directory String: the value is empty"),
        ("cn", b"ab\xff", "not valid as Directory String: not UTF-8 at byte 2"),
        ("mail", "é".as_bytes(), "not valid as IA5 String: 'Ã' at byte 0 is not allowed"),
        ("uidNumber", b"12x", "not valid as INTEGER: 'x' at byte 2 is not allowed"),
        ("uidNumber", b"007", "not valid as INTEGER: expected a number without leading zeros at byte 0"),
        (
            "createTimestamp",
            b"20260230000000Z",
            "not valid as Generalized Time: the day of the month is out of range",
        ),
        (
            "createTimestamp",
            b"20260101000000",
            "not valid as Generalized Time: expected a time zone (Z, +hhmm or -hhmm) at byte 14",
        ),
        ("pwdReset", b"yes", "not valid as Boolean: expected TRUE or FALSE at byte 0"),
        ("c", b"Germany", "not valid as Country String: expected a two-letter country code at byte 2"),
        ("telephoneNumber", b"+1_2", "not valid as Telephone Number: '_' at byte 2 is not allowed"),
    ] {
        let attribute_type = schema.attribute_type(attribute).unwrap();
        assert_eq!(schema.validate_value(attribute_type, value).unwrap_err().to_string(), expected);
    }
    let attribute_type = schema.attribute_type("member").unwrap();
    let message = schema.validate_value(attribute_type, b"nobody").unwrap_err().to_string();
    assert!(message.starts_with("not valid as DN: "), "{message}");
}
