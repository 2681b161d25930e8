//! The supported matching rules: all of RFC 4517 section 4.2, those of RFC 2252, X.520, X.509, RFC 3112, RFC 4523, RFC
//! 4530 and draft-chu-ldap-csn, the bit and chain rules of Active Directory, and OpenLDAP's rules for related names.

use self::Comparison::{AllBits, AnyBit, ByUse, Chain, CsnReplica, Parts, Password, Related, Word};
use self::RuleUse::{Equality, Extensible, Ordering, Substring};
use crate::form::{Alphabet, Form};
use crate::prepare::{Preparation, Spaces};

/// Use of a rule (RFC 4517 section 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RuleUse {
    /// `EQUALITY`.
    Equality,
    /// `ORDERING`.
    Ordering,
    /// `SUBSTR`.
    Substring,
    /// Only in extensible filters.
    Extensible,
}

/// Comparison that an extensible filter with the rule makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// The comparison that the use of the rule defines.
    ByUse,
    /// All bits of the assertion are set in the value.
    AllBits,
    /// At least one bit of the assertion is set in the value.
    AnyBit,
    /// The assertion is one of the value's words.
    Word,
    /// The assertion is the replica id of the value.
    CsnReplica,
    /// The assertion is a password, and the value is a hash of a password.
    Password,
    /// The assertion names parts of a certificate or revocation list.
    Parts,
    /// The assertion names an entry that can be reached from the value through a chain of entries.
    Chain,
    /// The value is a name that has this relation to the asserted name.
    Related(Relation),
}

/// Relation of a name in a value to the name in the assertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    /// The same name, or a name below it.
    Subtree,
    /// A name one RDN below.
    OneLevel,
    /// A name below, but not the same name.
    Subordinate,
    /// A name above, but not the same name.
    Superior,
}

/// One row of the table.
pub(crate) struct RuleInfo {
    pub(crate) oid: &'static str,
    pub(crate) name: &'static str,
    pub(crate) rule_use: RuleUse,
    pub(crate) form: Form,
    pub(crate) assertion_syntax: &'static str,
    pub(crate) comparison: Comparison,
}

const fn rule(
    oid: &'static str,
    name: &'static str,
    rule_use: RuleUse,
    form: Form,
    assertion_syntax: &'static str,
) -> RuleInfo {
    RuleInfo { oid, name, rule_use, form, assertion_syntax, comparison: ByUse }
}

const fn special(comparison: Comparison, rule: RuleInfo) -> RuleInfo {
    RuleInfo { comparison, ..rule }
}

const fn related(relation: Relation, oid: &'static str, name: &'static str) -> RuleInfo {
    special(Related(relation), rule(oid, name, Extensible, Form::Name, DN))
}

const FOLDED: Preparation = Preparation { fold: true, spaces: Spaces::Collapse };
const EXACT: Preparation = Preparation { fold: false, spaces: Spaces::Collapse };
const IGNORE_TEXT: Form = Form::Text(FOLDED, Alphabet::Unicode);
const EXACT_TEXT: Form = Form::Text(EXACT, Alphabet::Unicode);
const IGNORE_IA5: Form = Form::Text(FOLDED, Alphabet::Ascii);
const EXACT_IA5: Form = Form::Text(EXACT, Alphabet::Ascii);
const NUMERIC: Form = Form::Text(Preparation { fold: false, spaces: Spaces::Remove }, Alphabet::Digits);
const TELEPHONE: Form =
    Form::Text(Preparation { fold: true, spaces: Spaces::RemoveWithHyphens }, Alphabet::Unicode);

const BIT_STRING: &str = "1.3.6.1.4.1.1466.115.121.1.6";
const BOOLEAN: &str = "1.3.6.1.4.1.1466.115.121.1.7";
const DIRECTORY_STRING: &str = "1.3.6.1.4.1.1466.115.121.1.15";
const DN: &str = "1.3.6.1.4.1.1466.115.121.1.12";
const GENERALIZED_TIME: &str = "1.3.6.1.4.1.1466.115.121.1.24";
const IA5_STRING: &str = "1.3.6.1.4.1.1466.115.121.1.26";
const INTEGER: &str = "1.3.6.1.4.1.1466.115.121.1.27";
const NAME_AND_UID: &str = "1.3.6.1.4.1.1466.115.121.1.34";
const NUMERIC_STRING: &str = "1.3.6.1.4.1.1466.115.121.1.36";
const OID: &str = "1.3.6.1.4.1.1466.115.121.1.38";
const OCTET_STRING: &str = "1.3.6.1.4.1.1466.115.121.1.40";
const POSTAL_ADDRESS: &str = "1.3.6.1.4.1.1466.115.121.1.41";
const SUBSTRING_ASSERTION: &str = "1.3.6.1.4.1.1466.115.121.1.58";
const TELEPHONE_NUMBER: &str = "1.3.6.1.4.1.1466.115.121.1.50";
const UTC_TIME: &str = "1.3.6.1.4.1.1466.115.121.1.53";
const UUID: &str = "1.3.6.1.1.16.1";
const CSN: &str = "1.3.6.1.4.1.4203.666.11.2.1";
const CSN_REPLICA: &str = "1.3.6.1.4.1.4203.666.11.2.4";
const AUTH_PASSWORD: &str = "1.3.6.1.4.1.4203.1.1.2";

/// All rules. The index of a rule is its [`MatchingRule`](crate::MatchingRule). The index is not stored.
pub(crate) static RULES: &[RuleInfo] = &[
    rule("2.5.13.0", "objectIdentifierMatch", Equality, Form::ObjectIdentifier, OID),
    rule("2.5.13.1", "distinguishedNameMatch", Equality, Form::Name, DN),
    rule("2.5.13.2", "caseIgnoreMatch", Equality, IGNORE_TEXT, DIRECTORY_STRING),
    rule("2.5.13.3", "caseIgnoreOrderingMatch", Ordering, IGNORE_TEXT, DIRECTORY_STRING),
    rule("2.5.13.4", "caseIgnoreSubstringsMatch", Substring, IGNORE_TEXT, SUBSTRING_ASSERTION),
    rule("2.5.13.5", "caseExactMatch", Equality, EXACT_TEXT, DIRECTORY_STRING),
    rule("2.5.13.6", "caseExactOrderingMatch", Ordering, EXACT_TEXT, DIRECTORY_STRING),
    rule("2.5.13.7", "caseExactSubstringsMatch", Substring, EXACT_TEXT, SUBSTRING_ASSERTION),
    rule("2.5.13.8", "numericStringMatch", Equality, NUMERIC, NUMERIC_STRING),
    rule("2.5.13.9", "numericStringOrderingMatch", Ordering, NUMERIC, NUMERIC_STRING),
    rule("2.5.13.10", "numericStringSubstringsMatch", Substring, NUMERIC, SUBSTRING_ASSERTION),
    rule("2.5.13.11", "caseIgnoreListMatch", Equality, Form::List, POSTAL_ADDRESS),
    rule("2.5.13.12", "caseIgnoreListSubstringsMatch", Substring, Form::List, SUBSTRING_ASSERTION),
    rule("2.5.13.13", "booleanMatch", Equality, Form::Boolean, BOOLEAN),
    rule("2.5.13.14", "integerMatch", Equality, Form::Integer, INTEGER),
    rule("2.5.13.15", "integerOrderingMatch", Ordering, Form::Integer, INTEGER),
    rule("2.5.13.16", "bitStringMatch", Equality, Form::Bits, BIT_STRING),
    rule("2.5.13.17", "octetStringMatch", Equality, Form::Octets, OCTET_STRING),
    rule("2.5.13.18", "octetStringOrderingMatch", Ordering, Form::Octets, OCTET_STRING),
    rule("2.5.13.19", "octetStringSubstringsMatch", Substring, Form::Octets, OCTET_STRING),
    rule("2.5.13.20", "telephoneNumberMatch", Equality, TELEPHONE, TELEPHONE_NUMBER),
    rule("2.5.13.21", "telephoneNumberSubstringsMatch", Substring, TELEPHONE, SUBSTRING_ASSERTION),
    rule("2.5.13.22", "presentationAddressMatch", Equality, IGNORE_TEXT, "1.3.6.1.4.1.1466.115.121.1.43"),
    rule("2.5.13.23", "uniqueMemberMatch", Equality, Form::NameAndUid, NAME_AND_UID),
    rule("2.5.13.24", "protocolInformationMatch", Equality, IGNORE_TEXT, "1.3.6.1.4.1.1466.115.121.1.42"),
    rule("2.5.13.25", "uTCTimeMatch", Equality, Form::UtcTime, UTC_TIME),
    rule("2.5.13.26", "uTCTimeOrderingMatch", Ordering, Form::UtcTime, UTC_TIME),
    rule("2.5.13.27", "generalizedTimeMatch", Equality, Form::Time, GENERALIZED_TIME),
    rule("2.5.13.28", "generalizedTimeOrderingMatch", Ordering, Form::Time, GENERALIZED_TIME),
    rule("2.5.13.29", "integerFirstComponentMatch", Equality, Form::IntegerFirst, INTEGER),
    rule("2.5.13.30", "objectIdentifierFirstComponentMatch", Equality, Form::OidFirst, OID),
    rule("2.5.13.31", "directoryStringFirstComponentMatch", Equality, Form::TextFirst, DIRECTORY_STRING),
    special(Word, rule("2.5.13.32", "wordMatch", Extensible, IGNORE_TEXT, DIRECTORY_STRING)),
    special(Word, rule("2.5.13.33", "keywordMatch", Extensible, IGNORE_TEXT, DIRECTORY_STRING)),
    rule("2.5.13.34", "certificateExactMatch", Equality, Form::Certificate, "1.3.6.1.1.15.1"),
    special(
        Parts,
        rule("2.5.13.35", "certificateMatch", Extensible, Form::CertificateParts, "1.3.6.1.1.15.2"),
    ),
    rule("2.5.13.36", "certificatePairExactMatch", Equality, Form::CertificatePair, "1.3.6.1.1.15.3"),
    special(
        Parts,
        rule("2.5.13.37", "certificatePairMatch", Extensible, Form::CertificatePairParts, "1.3.6.1.1.15.4"),
    ),
    rule("2.5.13.38", "certificateListExactMatch", Equality, Form::CertificateList, "1.3.6.1.1.15.5"),
    special(
        Parts,
        rule("2.5.13.39", "certificateListMatch", Extensible, Form::CertificateListParts, "1.3.6.1.1.15.6"),
    ),
    rule("2.5.13.40", "algorithmIdentifierMatch", Equality, Form::Algorithm, "1.3.6.1.1.15.7"),
    special(
        Parts,
        rule(
            "2.5.13.42",
            "attributeCertificateMatch",
            Extensible,
            Form::AttributeCertificateParts,
            "1.3.6.1.4.1.4203.666.11.10.2.3",
        ),
    ),
    rule(
        "2.5.13.45",
        "attributeCertificateExactMatch",
        Equality,
        Form::AttributeCertificate,
        "1.3.6.1.4.1.4203.666.11.10.2.2",
    ),
    rule("1.3.6.1.4.1.1466.109.114.1", "caseExactIA5Match", Equality, EXACT_IA5, IA5_STRING),
    rule("1.3.6.1.4.1.1466.109.114.2", "caseIgnoreIA5Match", Equality, IGNORE_IA5, IA5_STRING),
    rule(
        "1.3.6.1.4.1.1466.109.114.3",
        "caseIgnoreIA5SubstringsMatch",
        Substring,
        IGNORE_IA5,
        SUBSTRING_ASSERTION,
    ),
    rule("1.3.6.1.4.1.4203.1.2.1", "caseExactIA5SubstringsMatch", Substring, EXACT_IA5, SUBSTRING_ASSERTION),
    rule("1.3.6.1.1.16.2", "uuidMatch", Equality, Form::Uuid, UUID),
    rule("1.3.6.1.1.16.3", "uuidOrderingMatch", Ordering, Form::Uuid, UUID),
    special(
        Password,
        rule("1.3.6.1.4.1.4203.1.2.3", "authPasswordMatch", Extensible, Form::AuthPassword, OCTET_STRING),
    ),
    rule("1.3.6.1.4.1.4203.1.2.2", "authPasswordExactMatch", Equality, Form::AuthPassword, AUTH_PASSWORD),
    rule("1.3.6.1.4.1.4203.666.11.2.2", "CSNMatch", Equality, Form::Csn, CSN),
    rule("1.3.6.1.4.1.4203.666.11.2.3", "CSNOrderingMatch", Ordering, Form::Csn, CSN),
    special(
        CsnReplica,
        rule("1.3.6.1.4.1.4203.666.11.2.5", "CSNSIDMatch", Extensible, Form::Csn, CSN_REPLICA),
    ),
    special(
        AllBits,
        rule("1.2.840.113556.1.4.803", "integerBitAndMatch", Extensible, Form::Integer, INTEGER),
    ),
    special(AnyBit, rule("1.2.840.113556.1.4.804", "integerBitOrMatch", Extensible, Form::Integer, INTEGER)),
    special(Chain, rule("1.2.840.113556.1.4.1941", "inchainMatch", Extensible, Form::Name, DN)),
    related(Relation::OneLevel, "1.3.6.1.4.1.4203.666.4.8", "dnOneLevelMatch"),
    related(Relation::Subtree, "1.3.6.1.4.1.4203.666.4.9", "dnSubtreeMatch"),
    related(Relation::Subordinate, "1.3.6.1.4.1.4203.666.4.10", "dnSubordinateMatch"),
    related(Relation::Superior, "1.3.6.1.4.1.4203.666.4.11", "dnSuperiorMatch"),
    // Rules of other servers that have no specification. They are listed so that the schema files of these servers
    // load. Their values are compared exactly.
    rule("1.3.6.1.4.1.4203.666.4.12", "authzMatch", Equality, EXACT_TEXT, "1.3.6.1.4.1.4203.666.2.7"),
    rule("1.3.6.1.4.1.4203.666.4.2", "OpenLDAPaciMatch", Equality, EXACT_TEXT, "1.3.6.1.4.1.4203.666.2.1"),
    rule("1.3.6.1.4.1.4203.666.4.13", "privateKeyMatch", Equality, Form::Octets, "1.2.840.113549.1.8.1.1"),
    rule("1.2.36.79672281.1.13.3", "rdnMatch", Equality, IGNORE_TEXT, "1.2.36.79672281.1.5.0"),
    rule("1.3.6.1.4.1.26027.1.4.2", "ds-mr-user-password-exact", Equality, Form::Octets, OCTET_STRING),
    rule("1.3.6.1.4.1.26027.1.4.3", "ds-mr-user-password-equality", Equality, Form::Octets, OCTET_STRING),
    rule("1.3.6.1.4.1.26027.1.4.4", "historicalCsnOrderingMatch", Ordering, EXACT_TEXT, DIRECTORY_STRING),
];
