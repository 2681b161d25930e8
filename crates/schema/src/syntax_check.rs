//! Checks of values against syntaxes.

use crate::definition::{Definition, Kind, Macros};
use crate::syntax::{Check, Syntax};
use crate::syntax_text as text;
use crate::{AttributeType, Fault, Schema, SyntaxError, certificate, integer, key, syntax_guide, time};

impl Schema {
    /// Checks a value against the type's syntax.
    ///
    /// # Errors
    /// The fault of the value, for the diagnostic text.
    pub fn validate_value(&self, attribute_type: &AttributeType, value: &[u8]) -> Result<(), SyntaxError> {
        let syntax = self.syntax_by_id(attribute_type.syntax);
        syntax.check(value).map_err(|fault| SyntaxError { syntax: syntax.description.clone(), fault })
    }
}

impl Syntax {
    /// Checks a value.
    pub(crate) fn check(&self, value: &[u8]) -> Result<(), Fault> {
        self.check.run(value)
    }
}

impl Check {
    fn run(self, value: &[u8]) -> Result<(), Fault> {
        match self {
            Check::Any => Ok(()),
            Check::DirectoryString => text::directory_string(value),
            Check::Ia5 => text::ia5_string(value),
            Check::Printable => text::printable_string(value),
            Check::NumericString => text::numeric_string(value),
            Check::Telephone => text::printable_string(value),
            Check::Country => text::country_string(value),
            Check::Boolean => key::boolean_key(value, &mut Vec::new()),
            Check::Integer => integer::parse(value).map(drop),
            Check::BitString => text::bit_string(value).map(drop),
            Check::GeneralizedTime => time::check_generalized(value),
            Check::UtcTime => time::check_utc(value),
            Check::Csn => time::check_csn(value),
            Check::CsnReplica => time::csn_replica_key(value, &mut Vec::new()),
            Check::Uuid => key::uuid_key(value, &mut Vec::new()),
            Check::Oid => text::oid(value),
            Check::Dn => text::name(value),
            Check::NameAndUid => text::name(text::split_name_and_uid(value).0),
            Check::DeliveryMethod => text::delivery_method(value),
            Check::Facsimile => text::facsimile(value),
            Check::OtherMailbox => text::other_mailbox(value),
            Check::PostalAddress => text::postal_address(value),
            Check::SubstringAssertion => text::substring_assertion(value),
            Check::Teletex => text::teletex(value),
            Check::Telex => text::telex(value),
            Check::AuthPassword => text::auth_password(value),
            Check::NisNetgroupTriple => text::netgroup_triple(value),
            Check::BootParameter => text::boot_parameter(value),
            Check::SubtreeSpecification => text::braced(value),
            Check::CertificateAssertion => text::braced(value),
            Check::Guide => syntax_guide::guide(value),
            Check::EnhancedGuide => syntax_guide::enhanced_guide(value),
            Check::Certificate => certificate::check_certificate(value),
            Check::AttributeCertificate => certificate::attribute::check(value),
            Check::CertificateList => certificate::check_list(value),
            Check::CertificatePair => certificate::check_pair(value),
            Check::AttributeTypeDescription
            | Check::ContentRuleDescription
            | Check::MatchingRuleDescription
            | Check::MatchingRuleUseDescription
            | Check::NameFormDescription
            | Check::ObjectClassDescription
            | Check::StructureRuleDescription
            | Check::SyntaxDescription => check_definition(self, text::text(value)?),
        }
    }
}

/// Checks the notation of a value of a description syntax, but not the definitions that it refers to.
fn check_definition(check: Check, text: &str) -> Result<(), Fault> {
    let kind = match check {
        Check::AttributeTypeDescription => Kind::AttributeType,
        Check::ObjectClassDescription => Kind::ObjectClass,
        Check::MatchingRuleDescription => Kind::MatchingRule,
        Check::MatchingRuleUseDescription => Kind::MatchingRuleUse,
        Check::ContentRuleDescription => Kind::ContentRule,
        Check::StructureRuleDescription => Kind::StructureRule,
        Check::NameFormDescription => Kind::NameForm,
        _ => Kind::Syntax,
    };
    match Definition::parse(kind, text, &Macros::new()) {
        Ok(_) => Ok(()),
        Err(mistake) => Err(Fault::Name(mistake.kind.to_string())),
    }
}
