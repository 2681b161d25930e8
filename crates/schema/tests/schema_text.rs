//! Tests of schema files in the layouts of OpenLDAP and 389 DS, and of the message for each mistake.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::Arc;

use schema::{ClassKind, Schema, SchemaBuilder};

fn schema_with(file: &str, text: &str) -> Arc<Schema> {
    let mut builder = SchemaBuilder::shipped();
    builder.add_text(file, text).build().unwrap()
}

#[test]
fn schema_in_the_layout_of_slapd_conf_loads() {
    let schema = schema_with("slapd_conf.schema", include_str!("../testdata/slapd_conf.schema"));
    let colour = schema.attribute_type("ACMECOLOR").unwrap();
    assert_eq!((colour.oid.as_str(), colour.name()), ("1.3.6.1.4.1.99999.77.1.1", "acmeColour"));
    assert_eq!(colour.description.as_deref(), Some("what's written"));
    assert_eq!(
        colour.definition,
        "( 1.3.6.1.4.1.99999.77.1.1 NAME ( 'acmeColour' 'acmeColor' ) DESC 'what\\27s written' SUP name )"
    );
    let size = schema.attribute_type("acmeSize").unwrap();
    assert_eq!((size.length_bound, size.single_value), (Some(8), true));
    assert!(size.definition.ends_with("X-ORIGIN ( 'acme' 'by hand' ) X-EMPTY )"), "{}", size.definition);
    let note = schema.attribute_type("acmeNote").unwrap();
    assert_eq!(note.equality.unwrap().name(), "caseIgnoreMatch");
    let code = schema.attribute_type("acmeCode").unwrap();
    assert_eq!(schema.syntax_by_id(code.syntax).description, "Acme Code");
    assert!(schema.validate_value(code, b"12 34").is_ok());
    assert_eq!(
        schema.validate_value(code, b"12a").unwrap_err().to_string(),
        "not valid as Acme Code: 'a' at byte 2 is not allowed"
    );
    let thing = schema.object_class("acmething").unwrap();
    assert_eq!(thing.kind, ClassKind::Auxiliary);
    assert!(thing.all_must.contains(&colour.id) && thing.all_may.contains(&code.id));
    assert_eq!(schema.content_rules()[0].auxiliary, [thing.id]);
    assert_eq!(schema.name_forms()[0].names, ["personForm"]);
    assert_eq!(schema.structure_rules()[0].superiors, [1]);
}

#[test]
fn schema_ldif_of_389_ds_loads() {
    let schema = schema_with("ds389.ldif", include_str!("../testdata/ds389.ldif"));
    let shape = schema.attribute_type("dsShape").unwrap();
    assert_eq!(shape.equality.unwrap().name(), "caseIgnoreMatch");
    let shade = schema.attribute_type("dsHue").unwrap();
    assert_eq!(shade.sup, Some(schema.attribute_type("name").unwrap().id));
    assert_eq!(schema.attribute_type("DSLOOSE-oid").unwrap().name(), "dsLoose");
    let object = schema.object_class("dsBox").unwrap();
    assert_eq!(object.description.as_deref(), Some("A 'box' with \\"));
    assert!(object.definition.contains("DESC 'A \\27box\\27 with \\5C'"));
}

#[test]
fn schema_ldif_of_cn_config_loads() {
    let schema = schema_with("olc.ldif", include_str!("../testdata/olc.ldif"));
    let two = schema.attribute_type("olcTwo").unwrap();
    assert_eq!((two.oid.as_str(), two.single_value), ("1.3.6.1.4.1.99999.79.2", true));
    assert_eq!(schema.attribute_type("olcThree").unwrap().description.as_deref(), Some("é"));
    assert_eq!(schema.object_class("olcBox").unwrap().all_may.len(), 3);
}

#[test]
fn a_repeated_definition_has_no_effect() {
    let text = "attributetype ( 2.5.4.3 NAME ( 'commonName' 'CN' ) DESC 'again' SUP NAME )\n\
                attributetype ( 0.9.2342.19200300.100.1.3 NAME ( 'mail' 'rfc822Mailbox' ) \
                EQUALITY caseIgnoreIA5Match\n \
                SUBSTR caseIgnoreIA5SubstringsMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.26{320} )";
    let schema = schema_with("again.schema", text);
    assert_eq!(schema.attribute_types().len(), Schema::shipped().attribute_types().len());
    assert_eq!(schema.attribute_type("cn").unwrap().name(), "cn");
}

/// Schema files that other servers export have a byte order mark, folded comments, and attributes of other kinds.
#[test]
fn skips_text_that_is_no_definition() {
    let aa = "attributeTypes: ( 1.3.6.1.4.1.32473.7.1 NAME 'aa' SUP name )\n";
    let bb = "attributeTypes: ( 1.3.6.1.4.1.32473.7.2 NAME 'bb'\n  SUP name )\n";
    let conf = "attributetype ( 1.3.6.1.4.1.32473.7.1 NAME 'aa'\n# in the middle\n SUP name )\n# after it\n  folded\n\
                attributetype ( 1.3.6.1.4.1.32473.7.2 NAME 'bb' SUP name )\n";
    for text in [
        format!("\u{feff}{aa}{bb}"),
        format!("dn: cn=schema\n{aa}# a comment\n  that is folded\n{bb}# another\n  at the end\n"),
        format!("# first\n  folded\n\n{aa}aci: (target=\"ldap:///cn=schema\")(version 3.0;acl \"x\";)\n{bb}"),
        format!("\u{feff}{conf}"),
    ] {
        let schema = schema_with("mine.ldif", &text);
        let found = ["aa", "bb"].map(|name| schema.attribute_type(name).is_some());
        assert_eq!(found, [true, true], "{text}");
    }
    let mut builder = SchemaBuilder::shipped();
    for wrong in ["attributeType5: ( 1.2.3 NAME 'a' )", "atributeTypes: ( a-oid NAME 'a' SUP name )"] {
        let error = builder.add_text("file", wrong).build().unwrap_err();
        assert!(error.to_string().contains("attributeType5") || error.to_string().contains("atributeTypes"));
    }
}

/// Every extension of a definition has an effect, is only descriptive, or is reported as without effect.
#[test]
fn reports_definitions_without_effect() {
    let mut builder = SchemaBuilder::shipped();
    assert_eq!(builder.without_effect(), []);
    let text = "attributetype ( 1.2.3.1 NAME 'a' SUP name X-ORIGIN 'me' X-LINK 'b' )\n\
                attributetype ( 1.2.3.2 NAME 'b' SUP name X-SUBST '1.2' x-ordered 'VALUES' )\n\
                objectclass ( 1.2.3.3 NAME 'c' SUP top AUXILIARY X-PANDO-STANDALONE 'x' )\n\
                ldapsyntax ( 1.2.3.4 DESC 's' X-SUBST '1.3.6.1.4.1.1466.115.121.1.15' X-ENUM ( 'one' 'two' ) )\n\
                ditcontentrule ( 2.5.6.6 NAME 'people' NOT description )\n\
                nameform ( 1.2.3.5 NAME 'byName' OC person MUST cn )\n\
                ditstructurerule ( 7 NAME 'top' FORM byName )\n\
                ditstructurerule ( 8 NAME 'loop' FORM byName SUP ( 8 9 ) )\n\
                ditstructurerule ( 9 FORM byName SUP 8 )\n";
    builder.add_text("mine.schema", text).build().unwrap();
    let notices_found: Vec<_> =
        builder.without_effect().into_iter().map(|one| (one.line, one.text)).collect();
    let idle = |line, text: &str| (line, format!("{text} has no effect here"));
    let unreachable = |line, text: &str| {
        let why = "no entry can be governed by the rule: its superior rules do not lead to an active rule without SUP";
        (line, format!("{text}: {why}"))
    };
    assert_eq!(
        notices_found,
        [
            idle(2, "\"b\": X-SUBST"),
            idle(2, "\"b\": X-ORDERED"),
            idle(4, "\"1.2.3.4\": X-ENUM"),
            unreachable(8, "\"loop\""),
            unreachable(9, "\"9\""),
        ]
    );
}

const STRING: &str = "SYNTAX 1.3.6.1.4.1.1466.115.121.1.15";

/// Every mistake has its message, with file and line.
#[test]
fn each_mistake_is_reported_with_its_line() {
    for (text, expected) in [
        // Mistakes of grammar.
        ("attributetype 1.2.3", "1: expected '(', found 1.2.3"),
        (
            "attributetype ( 1.2.3 NAME 'a' <string> ",
            "1: expected a term or ')', found the end of the definition",
        ),
        (
            "attributetype ( 1.2.3 NAME 'a <string> )",
            "1: expected a closing quote, found the end of the definition",
        ),
        ("attributetype ( 1.2.3 <string> ) extra", "1: expected nothing after the last ')', found extra"),
        (
            "attributetype ( 1.2.3 NAME 'a'\n  <string>\n  COLOUR 'red' )",
            "3: COLOUR is not a term of an attribute type",
        ),
        ("attributetype ( 1.2.3 <string> <string> )", "1: SYNTAX is given twice"),
        (
            "attributetype ( 1.2.3 NAME 'a b' <string> )",
            "1: \"a b\" is not a name: a letter, then letters, digits and hyphens",
        ),
        ("attributetype ( 1.2.3 DESC word <string> )", "1: expected a string in quotes, found word"),
        ("attributetype ( x NAME 'a' <string> )", "1: \"x\" is not a numeric OID"),
        ("attributetype ( 1.02 NAME 'a' <string> )", "1: \"1.02\" is not a numeric OID"),
        ("attributetype ( 1.2.3 NAME 'a' )", "1: SUP or SYNTAX is missing"),
        ("attributetype ( 1.2.3 SYNTAX 1.2{x} )", "1: \"{x}\" is not a number"),
        (
            "attributetype ( 1.2.3 <string> USAGE daily )",
            "1: \"daily\" is not a usage: userApplications, directoryOperation, distributedOperation or dSAOperation",
        ),
        ("objectclass ( 1.2.3 MUST ( cn sn ) )", "1: expected '$' or ')', found sn"),
        ("objectclass ( 1.2.3 ABSTRACT AUXILIARY )", "1: ABSTRACT and AUXILIARY exclude each other"),
        ("ditstructurerule ( x FORM f )", "1: \"x\" is not a number"),
        ("ditstructurerule ( 1 )", "1: FORM is missing"),
        ("nameform ( 1.2.3 MUST cn )", "1: OC is missing"),
        ("nameform ( 1.2.3 OC person MUST ( ) )", "1: MUST is missing"),
        // Mistakes outside of definitions.
        (
            "# fine\n\nattributtype ( 1.2.3 <string> )",
            "3: \"attributtype\" is not the beginning of a schema definition",
        ),
        (
            "attributtypes: ( 1.2.3 <string> )",
            "1: \"attributtypes\" is not the beginning of a schema definition",
        ),
        ("attributeTypes:: ???", "1: the value after '::' is not base64"),
        ("attributetype ( acme:1 <string> )", "1: OID macro \"acme\" is not defined above"),
        (
            "objectidentifier acme 1.2\nobjectidentifier acme 1.3",
            "2: OID macro \"acme\" is defined twice with different OIDs",
        ),
        ("objectidentifier acme", "1: expected a macro's name and its OID, found acme"),
        // Undefined names.
        ("attributetype ( 1.2.3 SUP missing )", "1: superior \"missing\" is not defined"),
        ("objectclass ( 1.2.3 SUP missing )", "1: superior \"missing\" is not defined"),
        ("objectclass ( 1.2.3 MAY nothing )", "1: attribute type \"nothing\" in MAY is not defined"),
        (
            "attributetype ( 1.2.3 SYNTAX 1.2.3.4 )",
            "1: syntax \"1.2.3.4\" is not known; a new one is defined with X-SUBST, naming a known one",
        ),
        (
            "ldapsyntax ( 1.2.3 X-SUBST '1.2.3.4' )",
            "1: syntax \"1.2.3.4\" is not known; a new one is defined with X-SUBST, naming a known one",
        ),
        (
            "attributetype ( 1.2.3 EQUALITY sameMatch <string> )",
            "1: matching rule \"sameMatch\" in EQUALITY is not known",
        ),
        (
            "attributetype ( 1.2.3 SUBSTR caseIgnoreMatch <string> )",
            "1: matching rule caseIgnoreMatch cannot be used for SUBSTR",
        ),
        ("ditcontentrule ( 2.5.6.6 AUX missing )", "1: object class \"missing\" in AUX is not defined"),
        ("nameform ( 1.2.3 OC missing MUST cn )", "1: object class \"missing\" in OC is not defined"),
        ("ditstructurerule ( 1 FORM missing )", "1: name form \"missing\" is not defined"),
        (
            "nameform ( 1.2.3 NAME 'f' OC person MUST cn )\nditstructurerule ( 1 FORM f SUP 7 )",
            "2: superior \"7\" is not defined",
        ),
        // Conflicts.
        (
            "attributetype ( 2.5.4.3 NAME 'cn' SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 )",
            "1: cn contradicts cn (core.schema:35): SYNTAX Directory String, not INTEGER; SUP name, not none",
        ),
        (
            "attributetype ( 2.5.4.3 NAME 'badge' <string> )",
            "1: OID 2.5.4.3 is already defined as cn (core.schema:35), differently",
        ),
        (
            "attributetype ( 1.2.3 NAME 'a' <string> )\nattributetype ( 1.2.3 NAME 'a' <string> SINGLE-VALUE )",
            "2: OID 1.2.3 is already defined as a (mine.schema:1), differently",
        ),
        (
            "objectclass ( 2.5.4.3 NAME 'thing' )",
            "1: OID 2.5.4.3 is already defined as cn (core.schema:35), differently",
        ),
        (
            "\nattributetype ( 1.2.3 NAME ( 'SURNAME' 'cn' ) <string> )",
            "2: name \"cn\" already belongs to 2.5.4.3 cn (core.schema:35)",
        ),
        (
            "objectclass ( 1.2.3 NAME 'top' )",
            "1: top contradicts top (system.schema:8): OID 2.5.6.0, not 1.2.3; abstract, not structural; \
             required here: objectClass",
        ),
        ("ditcontentrule ( 2.5.6.6 NOT cn )", "1: attribute type cn is in MUST and in NOT"),
        (
            "ditcontentrule ( 2.5.6.6 )\nditcontentrule ( 2.5.6.6 NOT seeAlso )",
            "2: OID 2.5.6.6 is already defined as person, differently",
        ),
        // Mistakes of inheritance.
        (
            "attributetype ( 1.2.3 NAME 'a' SUP b )\nattributetype ( 1.2.4 NAME 'b' SUP a )",
            "1: a is derived from itself",
        ),
        ("attributetype ( 1.2.3 NAME 'a' SUP a )", "1: a is derived from itself"),
        (
            "objectclass ( 1.2.3 NAME 'a' SUP b )\nobjectclass ( 1.2.4 NAME 'b' SUP ( top $ a ) )",
            "1: a is derived from itself",
        ),
        ("attributetype ( 1.2.3 SUP c-l )", "1: supertype c-l is collective and this is not, or the reverse"),
        (
            "attributetype ( 1.2.3 <string> COLLECTIVE USAGE directoryOperation )",
            "1: a collective attribute cannot be operational",
        ),
        (
            "attributetype ( 1.2.3 <string> COLLECTIVE SINGLE-VALUE )",
            "1: COLLECTIVE and SINGLE-VALUE exclude each other",
        ),
        (
            "objectclass ( 1.2.3 SUP person AUXILIARY )",
            "1: auxiliary class cannot be derived from structural class person",
        ),
        (
            "objectclass ( 1.2.3 SUP posixAccount )",
            "1: structural class cannot be derived from auxiliary class posixAccount",
        ),
        (
            "objectclass ( 1.2.3 SUP person ABSTRACT )",
            "1: abstract class cannot be derived from structural class person",
        ),
        ("ditcontentrule ( 1.3.6.1.1.1.2.0 )", "1: object class 1.3.6.1.1.1.2.0 is not structural"),
        ("nameform ( 1.2.3 OC person MUST cn MAY cn )", "1: attribute type cn is in MUST and in MAY"),
        ("ditcontentrule ( 2.5.6.6 MAY title NOT title )", "1: attribute type title is in MAY and in NOT"),
        ("ditcontentrule ( 2.5.6.6 AUX device )", "1: object class device in AUX is not auxiliary"),
        (
            "ditcontentrule ( 2.5.6.6 NOT createTimestamp )",
            "1: attribute type createTimestamp is operational or collective: content rules are about other \
             attributes",
        ),
        (
            "nameform ( 1.2.3 OC person MUST jpegPhoto )",
            "1: attribute type jpegPhoto cannot name an entry: it is operational or collective, or has no equality \
             rule",
        ),
        ("nameform ( 2.5.4.3 OC person MUST cn )", "1: OID 2.5.4.3 is already defined as cn, differently"),
        (
            "nameform ( 1.2.3 NAME 'f' OC person MUST cn )\nnameform ( 1.2.4 NAME 'F' OC person MUST sn )",
            "2: name \"F\" already belongs to f",
        ),
    ] {
        let text = text.replace("<string>", STRING);
        let mut builder = SchemaBuilder::shipped();
        let built = builder.add_text("mine.schema", &text).build();
        let message = built.map(drop).expect_err(&text).to_string();
        let message = message.strip_prefix("mine.schema:").expect(&message);
        // Line numbers in shipped files may change.
        assert_eq!(without_shipped_line(message), without_shipped_line(expected), "{text}");
    }
}

fn without_shipped_line(message: &str) -> String {
    match message.split_once(".schema:") {
        Some((before, after)) => {
            format!("{before}.schema:{}", after.trim_start_matches(|digit: char| digit.is_ascii_digit()))
        }
        None => message.to_owned(),
    }
}

/// All mistakes are reported, so an operator who loads a file with ten mistakes needs only one attempt to find them.
#[test]
fn all_mistakes_are_reported_at_once() {
    let mut builder = SchemaBuilder::shipped();
    let text = "attributetype ( 1.2.3.1 NAME 'aa' SYNTAX 1.2.3.4.5 )\n\
                attributetype ( 1.2.3.2 NAME 'bb' SYNTAX )\n\
                objectclass ( 1.2.3.3 NAME 'cc' MUST nothere MAY ( nowhere $ aa $ bb ) )\n\
                attributetype ( 1.2.3.4 NAME 'dd' SUP bb )\n";
    builder.add_text("a.schema", text);
    builder.add_text("b.schema", "\nattributetype ( 1.2.3.5 NAME 'ee' EQUALITY noMatch SUP name )");
    let errors = builder.build().unwrap_err();
    let lines: Vec<_> = errors.all().iter().map(|error| (error.file.as_str(), error.line)).collect();
    // Names are not reported as unknown if their definition has a mistake.
    assert_eq!(
        lines,
        [("a.schema", 1), ("a.schema", 2), ("a.schema", 3), ("a.schema", 3), ("b.schema", 2)],
        "{errors}"
    );
    assert_eq!(errors.to_string().lines().count(), 5);
    // Texts after a text with a mistake can use its macros.
    let mut builder = SchemaBuilder::shipped();
    builder.add_text("a.schema", "objectidentifier acme 1.2.3\nattributetype ( x )");
    builder.add_text("b.schema", "attributetype ( acme:1 SUP name )");
    assert_eq!(builder.build().unwrap_err().all().len(), 1);
}

fn notices(text: &str) -> Vec<String> {
    let mut builder = SchemaBuilder::shipped();
    builder.add_text("mine.schema", text).build().unwrap();
    builder.without_effect().into_iter().map(|one| format!("{}: {}", one.line, one.text)).collect()
}

/// 389 DS gives mailAlternateAddress the OID of mailLocalAddress, and another class the name dynamicGroup. Its schema
/// must load nevertheless.
#[test]
fn whole_schema_of_389_ds_loads() {
    let text = "dn: cn=schema\n\
        attributeTypes: ( 2.16.840.1.113730.3.1.13 NAME ( 'mailAlternateAddress' ) SYNTAX \
        1.3.6.1.4.1.1466.115.121.1.15 X-ORIGIN 'Netscape' )\n\
        objectClasses: ( 2.16.840.1.113730.3.2.3 NAME 'mailRecipient' SUP top AUXILIARY MAY mailAlternateAddress )\n\
        objectClasses: ( 2.16.840.1.113730.3.2.326 NAME 'dynamicGroup' SUP top AUXILIARY MAY dsOnlyMemberUid )\n\
        attributeTypes: ( 2.16.840.1.113730.3.1.2154 NAME 'dsOnlyMemberUid' SYNTAX 1.3.6.1.4.1.1466.115.121.1.26 )\n";
    let schema = schema_with("mine.schema", text);
    let (own, shipped) = (schema.attribute_type("mailAlternateAddress").unwrap(), "mailLocalAddress");
    assert_eq!(own.oid, "1.3.6.1.4.1.99999.2.205");
    assert_eq!(schema.attribute_type("2.16.840.1.113730.3.1.13").unwrap().name(), shipped);
    let notices = notices(text);
    assert!(notices[0].starts_with("2: \"mailAlternateAddress\": has the OID"), "{notices:?}");
    assert!(notices[1].starts_with("4: \"dynamicGroup\": stays as shipped: OID "), "{notices:?}");
    // The reader accepts a published definition.
    let published = format!("attributeTypes: {}\n", own.definition);
    assert_eq!(schema_with("again", &published).attribute_type("mailAlternateAddress").unwrap().oid, own.oid);
    // If the definition has another name, its OID still counts as taken.
    let other = text.replace("'mailAlternateAddress'", "'mailAlternateAddress' 'another'");
    assert!(SchemaBuilder::shipped().add_text("a", &other).build().is_err());
}

#[test]
fn definitions_are_left_out_by_name_or_oid() {
    let mut text = "objectidentifier acme 1.2.3\n# kept\nattributetype ( acme:1 NAME 'one'\n  SUP name )\n\
                    attributetype ( acme:2 NAME ( 'two' 'zwei' ) SUP name )\nattributetype ( acme:3 SUP x\n"
        .to_owned();
    schema::leave_out([&mut text].into_iter(), &|word| ["1.2.3.1", "zwei", "acme:3"].contains(&word));
    assert_eq!(text, "objectidentifier acme 1.2.3\n# kept\n\n\n\n\n");
}

/// The files that are loaded by name need no other file of that kind: each loads alone, and all load together.
#[test]
fn named_files_load() {
    let mut all = SchemaBuilder::shipped();
    for (name, text) in schema::named_files() {
        let mut builder = SchemaBuilder::shipped();
        builder.add_text(name, text).build().unwrap();
        assert_eq!(builder.without_effect(), [], "{name}");
        all.add_text(name, text);
    }
    let schema = all.build().unwrap();
    for name in ["sambaSamAccount", "sudoRole", "krbPrincipal", "eduPerson", "schacContactLocation"] {
        assert!(schema.object_class(name).is_some(), "{name}");
    }
    let group = schema.object_class("groupOfNames").unwrap();
    let member = schema.attribute_type("member").unwrap().id;
    assert!(group.may.contains(&member) && !group.all_must.contains(&member));
    assert!(!schema.object_class("dynamicGroup").unwrap().all_must.contains(&member));
    // A replacement can only make attributes optional.
    for wrong in ["MUST ( cn $ sn ) MAY member", "MUST cn MAY member"] {
        let text =
            format!("objectclass ( 2.5.6.9 NAME 'groupOfNames' SUP top {wrong} X-PANDO-REPLACES 'TRUE' )");
        let error = SchemaBuilder::shipped().add_text("a", &text).build().unwrap_err();
        assert!(error.to_string().contains("may only make required attributes optional"), "{error}");
    }
}

/// Files of other servers define shipped attributes and classes in their own way.
#[test]
fn differences_from_shipped_definitions_are_reported_and_ignored() {
    for (text, expected) in [
        // The same meaning, written differently.
        (
            "objectclass ( 0.9.2342.19200300.100.4.5 NAME 'account' SUP top STRUCTURAL MUST userid MAY ( description \
             $ seeAlso $ localityName $ organizationName $ organizationalUnitName $ host ) )",
            "",
        ),
        ("attributetype ( 2.5.4.4 NAME 'surname' SUP 2.5.4.41 )", ""),
        ("attributetype ( 2.5.4.20 NAME 'telephoneNumber' SYNTAX 1.3.6.1.4.1.1466.115.121.1.50{9} )", ""),
        // Different meanings.
        (
            "attributetype ( 1.2.840.113556.1.2.102 NAME 'memberOf' SYNTAX '1.3.6.1.4.1.1466.115.121.1.12' )",
            "1: \"memberOf\": stays as shipped: set by the server, not set by users; operational, not of users",
        ),
        (
            "attributetype ( 2.5.4.3 NAME 'cn' <string> SINGLE-VALUE )",
            "1: \"cn\": stays as shipped: SUP name, not none; multi-valued, not single-valued",
        ),
        (
            "attributetype ( 1.2.3 NAME 'surname' <string> )",
            "1: \"surname\": stays as shipped: OID 2.5.4.4, not 1.2.3; SUP name, not none",
        ),
        (
            "attributetype ( 1.3.6.1.1.1.1.2 NAME 'gecos' SYNTAX 1.3.6.1.4.1.1466.115.121.1.26 EQUALITY \
             caseIgnoreIA5Match SINGLE-VALUE )",
            "1: \"gecos\": stays as shipped: SYNTAX Directory String, not IA5 String; EQUALITY caseIgnoreMatch, not \
             caseIgnoreIA5Match",
        ),
        (
            "objectclass ( 1.3.6.1.1.1.2.2 NAME 'posixGroup' MUST ( cn $ gidNumber ) MAY ( memberUid $ shoeSize ) )",
            "1: \"posixGroup\": stays as shipped: auxiliary, not structural; not required here: cn; not allowed here: \
             shoeSize; allowed here as well: authPassword, description, userPassword",
        ),
        (
            "objectclass ( 1.3.6.1.4.1.2312.4.2.2 NAME 'automountMap' MUST ou )",
            "1: \"automountMap\": stays as shipped: OID 1.3.6.1.1.1.2.16, not 1.3.6.1.4.1.2312.4.2.2; not required \
             here: ou; allowed here as well: automountMapName, description",
        ),
        // Harmless faults.
        (
            "attributetype ( 1.2.3 NAME 'a' <string> NO-USER-MODIFICATION )",
            "1: \"a\": NO-USER-MODIFICATION has no effect without an operational usage",
        ),
        (
            "attributetype ( 1.2.3 NAME 'a' SUP creatorsName )",
            "1: \"a\": the usage differs from that of the supertype creatorsName",
        ),
        (
            "ldapsyntax ( 1.2.3 DESC 'x' )",
            "1: \"1.2.3\": the syntax is not known here; X-SUBST can name a known one",
        ),
        (
            "matchingrule ( 1.2.3 NAME 'aMatch' <string> )",
            "1: \"aMatch\": the matching rule is not known here",
        ),
    ] {
        let found = notices(&text.replace("<string>", STRING)).join("\n");
        let sorted = |text: &str| {
            let mut words: Vec<_> = text.split([' ', ',', ';']).map(str::to_owned).collect();
            words.sort();
            words
        };
        assert_eq!(sorted(&found), sorted(expected), "{found}");
    }
    // Alternative names and OIDs of a shipped definition are accepted.
    let text = "attributetype ( 1.2.3 NAME ( 'surname' 'lastName' ) SUP name )\n\
                objectclass ( 1.2.4 NAME 'named' AUXILIARY MAY lastName )";
    let schema = schema_with("mine.schema", text);
    assert_eq!(schema.attribute_type("lastname").unwrap().name(), "sn");
    assert_eq!(schema.attribute_type("1.2.3").unwrap().oid, "2.5.4.4");
    assert_eq!(schema.attribute_types().len(), Schema::shipped().attribute_types().len());
}

/// Mistakes in rules of all three kinds: every mistake is reported, except mere consequences of another mistake. Copies
/// are dropped.
#[test]
fn mistakes_of_rules_are_reported_at_once() {
    let text = "ditcontentrule ( 2.5.6.6 AUX ( missing $ device ) MUST nothing )\n\
                nameform ( 1.2.3 NAME 'f' OC absent MUST ( nothing $ cn ) )\n\
                ditstructurerule ( 1 FORM f SUP 7 )\n\
                ditstructurerule ( 2 FORM f )\n\
                ditstructurerule ( 3 FORM g SUP 2 )\n";
    let error = SchemaBuilder::shipped().add_text("a", text).build().unwrap_err().to_string();
    let expected = [
        "a:1: object class \"missing\" in AUX is not defined",
        "a:1: object class device in AUX is not auxiliary",
        "a:1: attribute type \"nothing\" in MUST is not defined",
        "a:2: object class \"absent\" in OC is not defined",
        "a:2: attribute type \"nothing\" in MUST is not defined",
        "a:3: superior \"7\" is not defined",
        "a:5: name form \"g\" is not defined",
    ];
    assert_eq!(error, expected.join("\n"));
    let rules = "ditcontentrule ( 2.5.6.6 NOT title )\n\
                 nameform ( 1.2.3 NAME 'f' OC person MUST cn )\n\
                 ditstructurerule ( 1 FORM f )\n";
    let mut builder = SchemaBuilder::shipped();
    let schema = builder.add_text("a", rules).add_text("b", rules).build().unwrap();
    let published = schema.publish();
    assert_eq!(published.dit_content_rules, ["( 2.5.6.6 NOT title )"]);
    assert_eq!(published.name_forms, ["( 1.2.3 NAME 'f' OC person MUST cn )"]);
    assert_eq!(published.dit_structure_rules, ["( 1 FORM f )"]);
}
