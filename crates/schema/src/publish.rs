//! The texts of the subschema entry.

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
