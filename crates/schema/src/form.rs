//! Normal forms, which define how values become keys. Several matching rules may have the same form.

use crate::Fault;
use crate::prepare::{Preparation, Spaces};
use crate::syntax_text::only;

/// Characters allowed in the values of a text rule; for other values the rule is Undefined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Alphabet {
    /// Any UTF-8.
    Unicode,
    /// IA5: ASCII.
    Ascii,
    /// Digits and spaces.
    Digits,
}

/// Method of deriving keys from values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// Prepared text (RFC 4518).
    Text(Preparation, Alphabet),
    /// Lines of a postal address, each prepared ignoring case, separated by a zero octet.
    List,
    /// An integer; see [`crate::integer`].
    Integer,
    /// One octet, 0 or 1.
    Boolean,
    /// The digits of a bit string.
    Bits,
    /// The value itself.
    Octets,
    /// Generalized Time; see [`crate::time`].
    Time,
    /// UTC Time. The key is the same as for the same time in [`Form::Time`].
    UtcTime,
    /// `06` and the BER content of the OID, or `0c` and the text of an unknown descriptor in lower case.
    ObjectIdentifier,
    /// A distinguished name; see [`crate::name_key`].
    Name,
    /// A distinguished name and, if there is a UID, a zero octet and its bits. The form is unambiguous, because the key
    /// of an RDN never begins with a zero octet.
    NameAndUid,
    /// Sixteen octets.
    Uuid,
    /// A change sequence number; see [`crate::time::csn_key`].
    Csn,
    /// The OID at the start of a definition, in the form [`Form::ObjectIdentifier`].
    OidFirst,
    /// The number at the start of a definition, in the form [`Form::Integer`].
    IntegerFirst,
    /// The string at the start of a value in parentheses, or a bare value, prepared ignoring case.
    TextFirst,
    /// Serial number and issuer of a certificate.
    Certificate,
    /// Serial number and issuer of an attribute certificate.
    AttributeCertificate,
    /// Both halves of a certificate pair.
    CertificatePair,
    /// Time and issuer of a revocation list.
    CertificateList,
    /// The whole certificate; see [`crate::certificate::component`].
    CertificateParts,
    /// Both whole certificates of a pair.
    CertificatePairParts,
    /// The whole revocation list.
    CertificateListParts,
    /// The whole attribute certificate; see [`crate::certificate::attribute::component`].
    AttributeCertificateParts,
    /// Algorithm and parameters.
    Algorithm,
    /// Scheme, information and value, separated by `$` without spaces around it (RFC 3112 section 2.2).
    AuthPassword,
}

/// String preparation of caseIgnoreMatch.
pub(crate) const IGNORE_CASE: Preparation = Preparation { fold: true, spaces: Spaces::Collapse };

impl Form {
    /// Returns the form without properties that have no effect on keys.
    pub(crate) fn key_kind(self) -> Form {
        match self {
            Form::Text(preparation, _) => Form::Text(preparation, Alphabet::Unicode),
            Form::UtcTime => Form::Time,
            other => other,
        }
    }

    pub(crate) fn is_order_preserving(self) -> bool {
        matches!(
            self,
            Form::Text(..)
                | Form::Integer
                | Form::Boolean
                | Form::Octets
                | Form::Time
                | Form::UtcTime
                | Form::Uuid
                | Form::Csn
        )
    }
}

/// Refuses values with characters outside the rule's alphabet.
pub(crate) fn check_alphabet(alphabet: Alphabet, value: &[u8]) -> Result<(), Fault> {
    match alphabet {
        Alphabet::Unicode => Ok(()),
        Alphabet::Ascii if value.is_ascii() => Ok(()),
        Alphabet::Ascii => only(value, 0, |byte| byte.is_ascii()),
        Alphabet::Digits => only(value, 0, |byte| byte == b' ' || byte.is_ascii_digit()),
    }
}
