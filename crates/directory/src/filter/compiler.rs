//! Compiles filters for a requester: resolves attribute names and normalizes assertion values.

use ldap::{Assertion, ExtensibleMatch, Filter, FilterKind, Substrings};
use schema::{AttributeDescription, MatchingRule, RuleAssertion, Schema, SubstringAssertion};

use super::{END_EQUALITY, END_ORDERING, Item, Subject, Target, Term, Test, Truth};
use crate::catalog::{Catalog, Shown, VirtualAttribute};
use crate::model::attribute_numbers::AttributeNumbers;
use crate::model::name::has_uid;
use crate::model::outcome::OperationError;
use crate::model::rows::EntryId;
use crate::tree::TreeState;
use crate::tree::operational::is_member_type;

/// Compiles filters for one requester.
pub(crate) struct Compiler<'a> {
    pub(crate) catalog: &'a Catalog,
    /// Secrecy of the attribute types that the requester may see.
    pub(crate) shown: Shown,
    /// Cache of resolved DNs; `None` if the filter is not evaluated on entries of the tree.
    pub(crate) known: Option<&'a dyn Names>,
}

/// Cache of resolved DNs.
pub(crate) trait Names {
    /// Returns the entry whose DN has exactly this spelling, if the DN is in the cache.
    ///
    /// # Errors
    /// The store failed.
    fn cached(&self, dn: &str) -> Result<Option<EntryId>, OperationError>;

    /// Caches the entry of a DN under exactly this spelling.
    fn keep(&self, dn: &str, id: EntryId);

    /// Returns the state in which entries are looked up.
    fn state(&self) -> TreeState<'_>;
}

const UNDEFINED: Term = Term::Constant(Truth::Undefined);

impl Compiler<'_> {
    /// Compiles a filter. Resolves only the DNs that are in the cache `known`. [`Term::find_targets`] resolves the
    /// other DNs.
    pub(crate) fn compile(&self, filter: Filter<'_>) -> Term {
        match filter.kind() {
            FilterKind::And(list) => {
                let terms = list.iter().map(|filter| self.compile(filter));
                fold(terms.collect(), Truth::False, Truth::True, Term::And)
            }
            FilterKind::Or(list) => {
                let terms = list.iter().map(|filter| self.compile(filter));
                fold(terms.collect(), Truth::True, Truth::False, Term::Or)
            }
            FilterKind::Not(filter) => match self.compile(filter) {
                Term::Constant(truth) => Term::Constant(!truth),
                term => Term::Not(Box::new(term)),
            },
            FilterKind::EqualityMatch(assertion) => self.equality(&assertion),
            FilterKind::ApproxMatch(assertion) => self.approximate(&assertion),
            FilterKind::GreaterOrEqual(assertion) => self.ordering(&assertion, Test::AtLeast),
            FilterKind::LessOrEqual(assertion) => self.ordering(&assertion, Test::AtMost),
            FilterKind::Substrings(substrings) => self.substrings(&substrings),
            FilterKind::Present(description) => self.present(description),
            FilterKind::ExtensibleMatch(extensible) => self.extensible(&extensible),
            FilterKind::Unrecognized(_) => UNDEFINED,
        }
    }

    /// Compiles an equality test of a resolved attribute, for the compare operation. Returns `None` if the value does
    /// not conform to the syntax of the matching rule.
    pub(crate) fn equality_of(
        &self,
        description: AttributeDescription,
        rule: MatchingRule,
        value: &[u8],
    ) -> Option<Term> {
        let schema = &self.catalog.schema;
        let class =
            |value| schema.object_class(std::str::from_utf8(value).ok()?.trim()).map(|class| class.id);
        let facts = self.catalog.type_facts(description.type_id);
        if facts.is_object_class && description.options.is_empty() {
            return class(value).map(Term::Class);
        }
        if facts.virtual_attribute == Some(VirtualAttribute::StructuralObjectClass)
            && description.options.is_empty()
        {
            return class(value).map(Term::StructuralClass);
        }
        if let Some(term) = self.end(&description, (END_EQUALITY, value), Test::Equal) {
            return Some(term);
        }
        let target = if facts.names_entries { Target::of(schema, value) } else { None };
        let key = match &target {
            // The normal form of a valid DN is the key of the test.
            Some(Target { name: Some(name), .. }) if rule.oid() == DISTINGUISHED_NAME_MATCH => {
                name.key.clone()
            }
            _ => {
                let mut key = Vec::with_capacity(value.len() + KEY_OVERHEAD);
                rule.normalize_assertion(schema, value, &mut key).ok()?;
                key
            }
        };
        let target = target.map(Box::new);
        let item = Item { target, ..self.item(description, Test::Equal(rule, key)) };
        Some(Term::Item(item))
    }

    fn equality(&self, assertion: &Assertion<'_>) -> Term {
        let Some(description) = self.readable(assertion.description) else { return UNDEFINED };
        let Some(rule) = self.catalog.schema.type_by_id(description.type_id).equality else {
            return UNDEFINED;
        };
        self.cached_link(&description, rule, assertion.value)
            .or_else(|| self.equality_of(description, rule, assertion.value))
            .unwrap_or(UNDEFINED)
    }

    /// Compiles an equality test that compares links with the DN of an entry, if this spelling of the DN is cached. The
    /// test needs no normal form, because a link attribute cannot contain the DN of an existing entry as text. When an
    /// entry is added, each text with its DN becomes a link.
    fn cached_link(
        &self,
        description: &AttributeDescription,
        rule: MatchingRule,
        value: &[u8],
    ) -> Option<Term> {
        let names = self.known?;
        if !self.catalog.type_facts(description.type_id).names_entries {
            return None;
        }
        let item = self.item(description.clone(), Test::Equal(rule, Vec::new()));
        let is_virtual = matches!(item.subject, Subject::Virtual(_));
        let mut defs = item.attributes.iter().map(|id| self.catalog.attribute(*id));
        if !is_virtual && (item.attributes.is_empty() || !defs.all(|def| def.is_link)) {
            return None;
        }
        let text = std::str::from_utf8(value).ok().filter(|text| !has_uid(text))?;
        let id = names.cached(text).ok()??;
        let target = Target { text: text.into(), name: None, entry: Some(id) };
        Some(Term::Item(Item { target: Some(Box::new(target)), ..item }))
    }

    /// Compiles an approximate match (RFC 4511 section 4.5.1.7.6). Text in a natural language is compared by sound, all
    /// other values by equality. The result does not depend on indexes.
    fn approximate(&self, assertion: &Assertion<'_>) -> Term {
        let Some(description) = self.readable(assertion.description) else { return UNDEFINED };
        let attribute_type = self.catalog.schema.type_by_id(description.type_id);
        let is_virtual = self.catalog.type_facts(description.type_id).virtual_attribute.is_some();
        let codes = std::str::from_utf8(assertion.value).map(schema::sound_codes).unwrap_or_default();
        // Punctuation alone has no sound.
        if is_virtual || codes.is_empty() || !matches_by_sound(&self.catalog.schema, attribute_type) {
            return self.equality(assertion);
        }
        Term::Item(self.item(description, Test::Sounds(codes)))
    }

    fn ordering(&self, assertion: &Assertion<'_>, test: fn(MatchingRule, Vec<u8>) -> Test) -> Term {
        let Some(description) = self.readable(assertion.description) else { return UNDEFINED };
        let schema = &self.catalog.schema;
        if let Some(term) = self.end(&description, (END_ORDERING, assertion.value), test) {
            return term;
        }
        let Some(rule) = schema.type_by_id(description.type_id).ordering else { return UNDEFINED };
        let mut key = Vec::new();
        match rule.normalize_assertion(schema, assertion.value, &mut key) {
            Ok(()) => Term::Item(self.item(description, test(rule, key))),
            Err(_) => UNDEFINED,
        }
    }

    /// Compiles a comparison with the times at which links end (expire). Returns `None` if the attribute does not
    /// contain such times, or if the asserted value is not a time.
    fn end(
        &self,
        description: &AttributeDescription,
        (rule, value): (&str, &[u8]),
        test: fn(MatchingRule, Vec<u8>) -> Test,
    ) -> Option<Term> {
        let attribute = self.catalog.type_facts(description.type_id).virtual_attribute?;
        let rule = attribute.is_end().then(|| MatchingRule::find(rule)).flatten()?;
        let mut key = Vec::new();
        rule.normalize_assertion(&self.catalog.schema, value, &mut key).ok()?;
        Some(Term::Item(self.item(description.clone(), test(rule, key))))
    }

    fn substrings(&self, substrings: &Substrings<'_>) -> Term {
        let Some(description) = self.readable(substrings.description) else { return UNDEFINED };
        let Some(rule) = self.catalog.schema.type_by_id(description.type_id).substring else {
            return UNDEFINED;
        };
        let assertion =
            SubstringAssertion::new(rule, substrings.initial, substrings.any.iter(), substrings.final_);
        match assertion {
            Ok(assertion) => Term::Item(self.item(description, Test::Substring(rule, Box::new(assertion)))),
            Err(_) => UNDEFINED,
        }
    }

    /// Compiles a presence test of a resolved attribute.
    pub(crate) fn presence_of(&self, description: AttributeDescription) -> Term {
        Term::Item(self.item(description, Test::Present))
    }

    fn present(&self, description: &str) -> Term {
        // Every entry has objectClass. Most base searches test the presence of objectClass, so this shortcut saves
        // most of them the lookup of the name.
        if description.eq_ignore_ascii_case("objectClass") {
            return Term::Constant(Truth::True);
        }
        let Some(description) = self.readable(description) else { return UNDEFINED };
        if self.catalog.type_facts(description.type_id).is_object_class && description.options.is_empty() {
            // The description is an OID or another spelling of objectClass.
            return Term::Constant(Truth::True);
        }
        self.presence_of(description)
    }

    fn extensible(&self, extensible: &ExtensibleMatch<'_>) -> Term {
        let schema = &self.catalog.schema;
        let rule = match extensible.rule.map(MatchingRule::find) {
            Some(None) => return UNDEFINED,
            Some(Some(rule)) => Some(rule),
            None => None,
        };
        let Some(description) = extensible.description else {
            // The decoder guarantees that the item has an attribute, a rule, or both.
            let Some(rule) = rule.filter(|rule| !rule.follows_chains()) else { return UNDEFINED };
            let Ok(assertion) = RuleAssertion::new(schema, rule, extensible.value) else { return UNDEFINED };
            let mut item = Item::new(Subject::Any, Test::Extensible(rule, Box::new(assertion)));
            item.attributes = self.attributes_fitting(rule);
            item.dn_attributes = extensible.dn_attributes;
            return Term::Item(item);
        };
        let Some(description) = self.readable(description) else { return UNDEFINED };
        if rule.is_some_and(MatchingRule::follows_chains) {
            return self.in_chain(description, extensible).unwrap_or(UNDEFINED);
        }
        let attribute_type = schema.type_by_id(description.type_id);
        let term = match rule {
            Some(rule) if Some(rule) != attribute_type.equality => {
                if !schema.rule_applies(rule, attribute_type) {
                    return UNDEFINED;
                }
                let Ok(assertion) = RuleAssertion::new(schema, rule, extensible.value) else {
                    return UNDEFINED;
                };
                Term::Item(self.item(description, Test::Extensible(rule, Box::new(assertion))))
            }
            _ => {
                let equality = attribute_type.equality;
                equality
                    .and_then(|rule| self.equality_of(description, rule, extensible.value))
                    .unwrap_or(UNDEFINED)
            }
        };
        match term {
            Term::Item(mut item) => {
                item.dn_attributes = extensible.dn_attributes;
                Term::Item(item)
            }
            term => term,
        }
    }

    /// Compiles a test of chains of links (inchainMatch). Returns `None` if the values of the attribute do not name
    /// entries or are still being converted to links, if the item has `:dn:`, or if the asserted value is not a valid
    /// name.
    fn in_chain(&self, description: AttributeDescription, extensible: &ExtensibleMatch<'_>) -> Option<Term> {
        let (schema, facts) = (&self.catalog.schema, self.catalog.type_facts(description.type_id));
        // The values in a DN are not links.
        if !facts.has_chains()
            || self.catalog.is_becoming_link(description.type_id)
            || extensible.dn_attributes
        {
            return None;
        }
        let target = Target::of(schema, extensible.value)?;
        let (rule, mut key) = (schema.type_by_id(description.type_id).equality?, Vec::new());
        rule.normalize_assertion(schema, extensible.value, &mut key).ok()?;
        let mut item = self.item(description, Test::InChain(key));
        item.attributes = item.attributes.only(|id| self.catalog.follows_chains(id));
        Some(Term::Item(Item { target: Some(Box::new(target)), ..item }))
    }

    fn item(&self, description: AttributeDescription, test: Test) -> Item {
        // Virtual attributes have no options, so a description with options matches no value.
        if let Some(attribute) = self.catalog.type_facts(description.type_id).virtual_attribute
            && description.options.is_empty()
        {
            return Item::new(Subject::Virtual(attribute), test);
        }
        let attributes = self.catalog.matching_attributes(&description);
        let counts_described = counts_described(self.catalog, &description, &test);
        Item { attributes, counts_described, ..Item::new(Subject::Attribute(description), test) }
    }

    /// Returns the attribute of a description, if the schema defines it and the requester may read it.
    pub(crate) fn readable(&self, description: &str) -> Option<AttributeDescription> {
        let description = self.catalog.schema.parse_description(description).ok()?;
        self.shown.includes(&self.catalog.secrets, description.type_id).then_some(description)
    }

    pub(super) fn attributes_fitting(&self, rule: MatchingRule) -> AttributeNumbers {
        let schema = &self.catalog.schema;
        let fits = |type_id| {
            schema.rule_applies(rule, schema.type_by_id(type_id))
                && self.shown.includes(&self.catalog.secrets, type_id)
        };
        let all = self.catalog.attributes().iter();
        all.filter(|def| fits(def.description.type_id)).map(|def| def.id).collect()
    }
}

/// Returns true if a test asks which groups contain an entry and the directory has dynamic groups. Dynamic groups
/// whose URLs find the entry also pass such a test.
#[inline]
pub(super) fn counts_described(catalog: &Catalog, description: &AttributeDescription, test: &Test) -> bool {
    !catalog.dynamic_groups.is_empty()
        && matches!(test, Test::Equal(..) | Test::InChain(_))
        && description.options.is_empty()
        && is_member_type(catalog.schema.type_by_id(description.type_id))
}

/// Simplifies an *and* or *or*. If a term is the constant `decisive`, this constant is the result. Terms that are the
/// constant `neutral` are dropped. If one term remains, this term is the result; if no term remains, `neutral` is the
/// result.
fn fold(mut terms: Vec<Term>, decisive: Truth, neutral: Truth, join: fn(Vec<Term>) -> Term) -> Term {
    let is = |term: &Term, truth| matches!(term, Term::Constant(constant) if *constant == truth);
    if terms.iter().any(|term| is(term, decisive)) {
        return Term::Constant(decisive);
    }
    terms.retain(|term| !is(term, neutral));
    match terms.len() {
        0 => Term::Constant(neutral),
        1 => terms.remove(0),
        _ => {
            // The list occupies memory as long as the search lasts, so a list with much unused capacity is shrunk. With
            // less unused capacity, the copy would cost more than it saves.
            if terms.capacity() - terms.len() > 16 {
                terms.shrink_to_fit();
            }
            join(terms)
        }
    }
}

/// OID of the matching rule whose keys are the normal forms of DNs.
const DISTINGUISHED_NAME_MATCH: &str = "2.5.13.1";

/// Extra capacity of a key, for the octets that normalization adds to a short value.
const KEY_OVERHEAD: usize = 8;

/// Returns true if approximate matches of the type compare sounds. They do if the values are text in a natural
/// language: the type has the syntax Directory String (RFC 4517 section 3.3.6) and an equality rule. For all other
/// types, approximate matches test equality.
pub(crate) fn matches_by_sound(schema: &Schema, attribute_type: &schema::AttributeType) -> bool {
    const DIRECTORY_STRING: &str = "1.3.6.1.4.1.1466.115.121.1.15";
    schema.syntax_by_id(attribute_type.syntax).oid == DIRECTORY_STRING && attribute_type.equality.is_some()
}
