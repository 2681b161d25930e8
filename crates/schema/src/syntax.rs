//! Syntaxes: the table of the supported syntaxes, with the check for each syntax.
//!
//! The supported syntaxes are those of RFC 4517 section 3.3, the certificate syntaxes of RFC 4523, and the syntaxes of
//! RFC 2307, RFC 3112, RFC 4530 and draft-chu-ldap-csn. The remaining syntaxes of RFC 2252 are in the table because old
//! schema files use them. No document specifies them, so they accept any octets.

/// Index of a syntax in one [`Schema`](crate::Schema).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SyntaxId(pub u16);

/// An LDAP syntax (RFC 4512 section 4.1.5).
#[derive(Debug, Clone)]
pub struct Syntax {
    /// Numeric OID as text.
    pub oid: String,
    /// Common name, `Directory String` for example.
    pub description: String,
    /// Whether values are only transferred with the `binary` option (RFC 4522).
    pub binary_transfer: bool,
    /// Whether values are readable text. Clients should show other values in base64.
    pub human_readable: bool,
    /// The definition in RFC 4512 notation.
    pub definition: String,
    pub(crate) check: Check,
}

/// A syntax whose values are names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameSyntax {
    /// DN (RFC 4517 section 3.3.9).
    Dn,
    /// Name and Optional UID (RFC 4517 section 3.3.21).
    NameAndUid,
}

/// Check that a value conforms to a syntax. A matching rule that applies to one syntax also applies to all syntaxes
/// with the same check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Check {
    Any,
    AttributeCertificate,
    AttributeTypeDescription,
    AuthPassword,
    BitString,
    Boolean,
    Certificate,
    CertificateAssertion,
    CertificateList,
    CertificatePair,
    ContentRuleDescription,
    Country,
    Csn,
    CsnReplica,
    DeliveryMethod,
    DirectoryString,
    Dn,
    EnhancedGuide,
    Facsimile,
    GeneralizedTime,
    Guide,
    Ia5,
    Integer,
    MatchingRuleDescription,
    MatchingRuleUseDescription,
    NameAndUid,
    NameFormDescription,
    NisNetgroupTriple,
    BootParameter,
    NumericString,
    ObjectClassDescription,
    Oid,
    OtherMailbox,
    PostalAddress,
    Printable,
    StructureRuleDescription,
    SubstringAssertion,
    SubtreeSpecification,
    SyntaxDescription,
    Telephone,
    Teletex,
    Telex,
    UtcTime,
    Uuid,
}

/// `(OID, description, check)`; an OID that begins with a dot continues `1.3.6.1.4.1.1466.115.121.1`.
const TABLE: &[(&str, &str, Check)] = &[
    (".1", "ACI Item", Check::Any),
    (".2", "Access Point", Check::Any),
    (".3", "Attribute Type Description", Check::AttributeTypeDescription),
    (".4", "Audio", Check::Any),
    (".5", "Binary", Check::Any),
    (".6", "Bit String", Check::BitString),
    (".7", "Boolean", Check::Boolean),
    (".8", "X.509 Certificate", Check::Certificate),
    (".9", "X.509 Certificate List", Check::CertificateList),
    (".10", "X.509 Certificate Pair", Check::CertificatePair),
    (".11", "Country String", Check::Country),
    (".12", "DN", Check::Dn),
    (".13", "Data Quality Syntax", Check::Any),
    (".14", "Delivery Method", Check::DeliveryMethod),
    (".15", "Directory String", Check::DirectoryString),
    (".16", "DIT Content Rule Description", Check::ContentRuleDescription),
    (".17", "DIT Structure Rule Description", Check::StructureRuleDescription),
    (".18", "DL Submit Permission", Check::Any),
    (".19", "DSA Quality Syntax", Check::Any),
    (".20", "DSE Type", Check::Any),
    (".21", "Enhanced Guide", Check::EnhancedGuide),
    (".22", "Facsimile Telephone Number", Check::Facsimile),
    (".23", "Fax", Check::Any),
    (".24", "Generalized Time", Check::GeneralizedTime),
    (".25", "Guide", Check::Guide),
    (".26", "IA5 String", Check::Ia5),
    (".27", "INTEGER", Check::Integer),
    (".28", "JPEG", Check::Any),
    (".29", "Master And Shadow Access Points", Check::Any),
    (".30", "Matching Rule Description", Check::MatchingRuleDescription),
    (".31", "Matching Rule Use Description", Check::MatchingRuleUseDescription),
    (".32", "Mail Preference", Check::Any),
    (".33", "MHS OR Address", Check::Any),
    (".34", "Name And Optional UID", Check::NameAndUid),
    (".35", "Name Form Description", Check::NameFormDescription),
    (".36", "Numeric String", Check::NumericString),
    (".37", "Object Class Description", Check::ObjectClassDescription),
    (".38", "OID", Check::Oid),
    (".39", "Other Mailbox", Check::OtherMailbox),
    (".40", "Octet String", Check::Any),
    (".41", "Postal Address", Check::PostalAddress),
    (".42", "Protocol Information", Check::Any),
    (".43", "Presentation Address", Check::Any),
    (".44", "Printable String", Check::Printable),
    (".45", "Subtree Specification", Check::SubtreeSpecification),
    (".46", "Supplier Information", Check::Any),
    (".47", "Supplier Or Consumer", Check::Any),
    (".48", "Supplier And Consumer", Check::Any),
    (".49", "X.509 Supported Algorithm", Check::Any),
    (".50", "Telephone Number", Check::Telephone),
    (".51", "Teletex Terminal Identifier", Check::Teletex),
    (".52", "Telex Number", Check::Telex),
    (".53", "UTC Time", Check::UtcTime),
    (".54", "LDAP Syntax Description", Check::SyntaxDescription),
    (".55", "Modify Rights", Check::Any),
    (".56", "LDAP Schema Definition", Check::Any),
    (".57", "LDAP Schema Description", Check::Any),
    (".58", "Substring Assertion", Check::SubstringAssertion),
    ("1.3.6.1.1.1.0.0", "RFC2307 NIS Netgroup Triple", Check::NisNetgroupTriple),
    ("1.3.6.1.1.1.0.1", "RFC2307 Boot Parameter", Check::BootParameter),
    ("1.3.6.1.1.15.1", "X.509 Certificate Exact Assertion", Check::CertificateAssertion),
    ("1.3.6.1.1.15.2", "X.509 Certificate Assertion", Check::CertificateAssertion),
    ("1.3.6.1.1.15.3", "X.509 Certificate Pair Exact Assertion", Check::CertificateAssertion),
    ("1.3.6.1.1.15.4", "X.509 Certificate Pair Assertion", Check::CertificateAssertion),
    ("1.3.6.1.1.15.5", "X.509 Certificate List Exact Assertion", Check::CertificateAssertion),
    ("1.3.6.1.1.15.6", "X.509 Certificate List Assertion", Check::CertificateAssertion),
    ("1.3.6.1.1.15.7", "X.509 Algorithm Identifier", Check::CertificateAssertion),
    ("1.3.6.1.1.16.1", "UUID", Check::Uuid),
    ("1.3.6.1.4.1.4203.1.1.2", "authentication password syntax", Check::AuthPassword),
    ("1.3.6.1.4.1.4203.666.11.2.1", "CSN", Check::Csn),
    ("1.3.6.1.4.1.4203.666.11.2.4", "CSN SID", Check::CsnReplica),
    // Attribute certificates (X.509 clause 12). No document assigns OIDs to their syntaxes, so these are the OIDs that
    // OpenLDAP uses.
    ("1.3.6.1.4.1.4203.666.11.10.2.1", "X.509 AttributeCertificate", Check::AttributeCertificate),
    (
        "1.3.6.1.4.1.4203.666.11.10.2.2",
        "X.509 AttributeCertificate Exact Assertion",
        Check::CertificateAssertion,
    ),
    ("1.2.840.113556.1.4.906", "Large Integer", Check::Integer),
    // Syntaxes of other servers, listed so that their schema files load.
    ("1.3.6.1.4.1.4203.1.1.1", "OpenLDAP User Password", Check::Any),
    ("1.3.6.1.4.1.4203.666.2.1", "OpenLDAP Experimental ACI", Check::DirectoryString),
    ("1.3.6.1.4.1.4203.666.2.7", "OpenLDAP authz", Check::DirectoryString),
    ("1.3.6.1.4.1.4203.666.11.5.3.1", "OpenLDAP audit control", Check::DirectoryString),
    ("1.3.6.1.4.1.4203.666.11.10.2.3", "AttributeCertificate Assertion", Check::DirectoryString),
    ("1.2.36.79672281.1.5.0", "RDN", Check::DirectoryString),
    ("1.2.840.113549.1.8.1.1", "PKCS#8 PrivateKeyInfo", Check::Any),
    ("1.2.840.113556.1.4.903", "DN With Octets", Check::DirectoryString),
    ("1.2.840.113556.1.4.904", "DN With String", Check::DirectoryString),
    ("1.2.840.113556.1.4.905", "Case Ignore String (Active Directory)", Check::DirectoryString),
    ("1.2.840.113556.1.4.907", "NT Security Descriptor", Check::Any),
    ("1.2.840.113556.1.4.1221", "OR Name", Check::DirectoryString),
    ("1.2.840.113556.1.4.1362", "Case Exact String (Active Directory)", Check::DirectoryString),
    ("1.3.6.1.4.1.26027.1.3.1", "OpenDJ User Password", Check::Any),
    ("1.3.6.1.4.1.26027.1.3.2", "OpenDJ Relative Subtree Specification", Check::DirectoryString),
    ("1.3.6.1.4.1.26027.1.3.3", "OpenDJ Absolute Subtree Specification", Check::DirectoryString),
    ("1.3.6.1.4.1.26027.1.3.4", "Sun ACI", Check::DirectoryString),
    ("1.3.18.0.2.8.1", "IBM Attribute Type Description", Check::DirectoryString),
    ("2.16.840.1.113719.1.1.5.1.0", "NDS Unknown", Check::Any),
    ("2.16.840.1.113719.1.1.5.1.6", "NDS Case Ignore List", Check::DirectoryString),
    ("2.16.840.1.113719.1.1.5.1.12", "NDS Tagged Data", Check::Any),
    ("2.16.840.1.113719.1.1.5.1.13", "NDS Octet List", Check::Any),
    ("2.16.840.1.113719.1.1.5.1.14", "NDS Tagged String", Check::DirectoryString),
    ("2.16.840.1.113719.1.1.5.1.15", "NDS Tagged Name And String", Check::DirectoryString),
    ("2.16.840.1.113719.1.1.5.1.16", "NDS Replica Pointer", Check::Any),
    ("2.16.840.1.113719.1.1.5.1.17", "NDS ACL", Check::DirectoryString),
    ("2.16.840.1.113719.1.1.5.1.19", "NDS Timestamp", Check::Any),
    ("2.16.840.1.113719.1.1.5.1.22", "NDS Counter", Check::Integer),
    ("2.16.840.1.113719.1.1.5.1.23", "NDS Tagged Name", Check::DirectoryString),
    ("2.16.840.1.113719.1.1.5.1.25", "NDS Typed Name", Check::DirectoryString),
];

const STEM: &str = "1.3.6.1.4.1.1466.115.121.1";

/// Returns all built-in syntaxes, in the order of the table.
pub(crate) fn built_in() -> Vec<Syntax> {
    let row = |&(oid, description, check): &(&str, &str, Check)| {
        let oid = if oid.starts_with('.') { format!("{STEM}{oid}") } else { oid.to_owned() };
        Syntax::new(oid, description, check, matches!(description, "X.509 Supported Algorithm"))
    };
    TABLE.iter().map(row).collect()
}

impl Syntax {
    fn new(oid: String, description: &str, check: Check, binary_transfer: bool) -> Syntax {
        use Check::{Any, AttributeCertificate, Certificate, CertificateList, CertificatePair};
        let is_der = matches!(check, AttributeCertificate | Certificate | CertificateList | CertificatePair);
        let binary_transfer = binary_transfer || is_der;
        let human_readable = !binary_transfer && check != Any;
        // Publish the two X- terms that OpenLDAP also publishes, because clients use these terms to distinguish text
        // from binary values.
        let mut hints = String::new();
        if binary_transfer {
            hints.push_str(" X-BINARY-TRANSFER-REQUIRED 'TRUE'");
        }
        if !human_readable {
            hints.push_str(" X-NOT-HUMAN-READABLE 'TRUE'");
        }
        Syntax {
            definition: format!("( {oid} DESC '{description}'{hints} )"),
            description: description.to_owned(),
            oid,
            binary_transfer,
            human_readable,
            check,
        }
    }

    /// Returns a copy of a syntax with a new OID (`X-SUBST`).
    pub(crate) fn substitute(oid: &str, description: &str, original: &Syntax, definition: String) -> Syntax {
        Syntax { oid: oid.to_owned(), description: description.to_owned(), definition, ..original.clone() }
    }

    /// Returns the kind of names in values; `None` if values are not names.
    pub fn name_syntax(&self) -> Option<NameSyntax> {
        match self.check {
            Check::Dn => Some(NameSyntax::Dn),
            Check::NameAndUid => Some(NameSyntax::NameAndUid),
            _ => None,
        }
    }
}
