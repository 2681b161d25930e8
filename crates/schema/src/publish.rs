//! The texts of the subschema entry, and the rules that extensible filters may apply to an attribute type.

use crate::form::{Alphabet, Form};
use crate::prepare::Spaces;
use crate::syntax::Check;
use crate::{AttributeType, MatchingRule, Schema};

/// The values of the subschema subentry's attributes (RFC 4512 section 4.2), each a complete definition.
#[derive(Debug, Clone, Default)]
pub struct Publication {
    /// `attributeTypes`.
    pub attribute_types: Vec<String>,
    /// `objectClasses`.
    pub object_classes: Vec<String>,
    /// `ldapSyntaxes`.
    pub ldap_syntaxes: Vec<String>,
    /// `matchingRules`.
    pub matching_rules: Vec<String>,
    /// `matchingRuleUse`.
    pub matching_rule_use: Vec<String>,
    /// `dITContentRules`.
    pub dit_content_rules: Vec<String>,
    /// `dITStructureRules`.
    pub dit_structure_rules: Vec<String>,
    /// `nameForms`.
    pub name_forms: Vec<String>,
}

impl Schema {
    /// Returns all attributes of the subschema subentry. Every syntax and rule is listed, used or not, so that no
    /// definition refers to something that a client cannot find. The call takes milliseconds, so callers should keep
    /// the result.
    pub fn publish(&self) -> Publication {
        Publication {
            attribute_types: self.attribute_types().iter().map(|one| one.definition.clone()).collect(),
            object_classes: self.object_classes().iter().map(|one| one.definition.clone()).collect(),
            ldap_syntaxes: self.syntaxes().iter().map(|one| one.definition.clone()).collect(),
            matching_rules: MatchingRule::all().map(rule_definition).collect(),
            matching_rule_use: MatchingRule::all()
                .filter_map(|rule| self.rule_use_definition(rule))
                .collect(),
            dit_content_rules: self.content_rules().iter().map(|one| one.definition.clone()).collect(),
            dit_structure_rules: self.structure_rules().iter().map(|one| one.definition.clone()).collect(),
            name_forms: self.name_forms().iter().map(|one| one.definition.clone()).collect(),
        }
    }

    fn rule_use_definition(&self, rule: MatchingRule) -> Option<String> {
        let applies = |attribute_type: &&AttributeType| self.rule_applies(rule, attribute_type);
        let names: Vec<&str> =
            self.attribute_types().iter().filter(applies).map(AttributeType::name).collect();
        let list = match names[..] {
            [] => return None,
            [name] => name.to_owned(),
            _ => format!("( {} )", names.join(" $ ")),
        };
        Some(format!("( {} NAME '{}' APPLIES {list} )", rule.oid(), rule.name()))
    }

    /// Returns true if an extensible filter may apply `rule` to values of this type (RFC 4512 section 4.1.4). The
    /// filter may apply the rule if the type has the rule, or if the rule is defined for values of the type's syntax
    /// (RFC 4517 section 4.1).
    pub fn rule_applies(&self, rule: MatchingRule, attribute_type: &AttributeType) -> bool {
        let own = [attribute_type.equality, attribute_type.ordering, attribute_type.substring];
        let check = self.syntax_by_id(attribute_type.syntax).check;
        own.contains(&Some(rule))
            || suits(rule.form(), check)
            || (rule.follows_chains() && check == Check::NameAndUid)
    }
}

fn rule_definition(rule: MatchingRule) -> String {
    format!("( {} NAME '{}' SYNTAX {} )", rule.oid(), rule.name(), rule.assertion_syntax())
}

fn suits(form: Form, check: Check) -> bool {
    use Check::{Country, DirectoryString, Ia5, NumericString, Printable, Telephone};
    match form {
        Form::Text(_, Alphabet::Ascii) => check == Ia5,
        Form::Text(_, Alphabet::Digits) => check == NumericString,
        Form::Text(preparation, _) if preparation.spaces == Spaces::RemoveWithHyphens => check == Telephone,
        Form::Text(..) => {
            matches!(check, DirectoryString | Printable | Country | Telephone | Ia5 | NumericString)
        }
        Form::List => check == Check::PostalAddress,
        Form::Integer => check == Check::Integer,
        Form::Boolean => check == Check::Boolean,
        Form::Bits => check == Check::BitString,
        Form::Octets => check == Check::Any,
        Form::Time => check == Check::GeneralizedTime,
        Form::UtcTime => check == Check::UtcTime,
        Form::ObjectIdentifier => check == Check::Oid,
        Form::Name => check == Check::Dn,
        Form::NameAndUid => check == Check::NameAndUid,
        Form::Uuid => check == Check::Uuid,
        Form::Csn => check == Check::Csn,
        Form::OidFirst => matches!(
            check,
            Check::AttributeTypeDescription
                | Check::ObjectClassDescription
                | Check::MatchingRuleDescription
                | Check::MatchingRuleUseDescription
                | Check::ContentRuleDescription
                | Check::NameFormDescription
                | Check::SyntaxDescription
        ),
        Form::IntegerFirst => check == Check::StructureRuleDescription,
        Form::Certificate | Form::CertificateParts => check == Check::Certificate,
        Form::AttributeCertificate | Form::AttributeCertificateParts => check == Check::AttributeCertificate,
        Form::CertificateList | Form::CertificateListParts => check == Check::CertificateList,
        Form::CertificatePair | Form::CertificatePairParts => check == Check::CertificatePair,
        Form::AuthPassword => check == Check::AuthPassword,
        // Rules of these forms have no value syntax of their own, or a syntax that accepts any octets. So such a rule
        // applies only to attribute types whose definitions name the rule.
        Form::TextFirst | Form::Algorithm => false,
    }
}
