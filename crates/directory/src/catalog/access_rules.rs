//! Compiled access rules of the settings, with attribute types resolved and DNs in normal form.

use ldap::FilterBuf;
use schema::{Schema, TypeId};

use super::rule_filter::{rule_filter, value_filter};
use super::secret::{Secrets, USER_PASSWORD};
use crate::model::access_rule::{AccessRule, RESET, Reach, RequesterSpec, Rights, USE, WRITE};
use crate::model::client_link::ClientLink;
use crate::model::link_conditions::LinkConditions;
use crate::model::link_types::LINK_TYPES_TEXT;
use crate::model::name::{NormalName, parse_dn};
use crate::model::usable::Uses;

/// OID of objectClass.
const OBJECT_CLASS: &str = "2.5.4.0";
/// OID of extensibleObject. Entries of this class may have every user attribute.
const EXTENSIBLE_OBJECT: &str = "1.3.6.1.4.1.1466.101.120.111";

/// A set of attribute types, one bit per type number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TypeSet(Vec<u64>);

impl TypeSet {
    pub(crate) fn contains(&self, type_id: TypeId) -> bool {
        let place = type_id.0 as usize;
        self.0.get(place / 64).is_some_and(|bits| bits >> (place % 64) & 1 != 0)
    }

    /// Returns true if the set contains all types of `others`.
    pub(crate) fn has_all(&self, others: &TypeSet) -> bool {
        let own = self.0.iter().copied().chain(std::iter::repeat(0));
        others.0.iter().zip(own).all(|(others, own)| others & !own == 0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|bits| *bits == 0)
    }

    pub(crate) fn take_out(&mut self, type_id: TypeId) {
        let place = type_id.0 as usize;
        if let Some(bits) = self.0.get_mut(place / 64) {
            *bits &= !(1 << (place % 64));
        }
    }

    pub(crate) fn insert(&mut self, type_id: TypeId) {
        let place = type_id.0 as usize;
        if self.0.len() <= place / 64 {
            self.0.resize(place / 64 + 1, 0);
        }
        if let Some(bits) = self.0.get_mut(place / 64) {
            *bits |= 1 << (place % 64);
        }
    }

    /// Adds the types of `other`.
    pub(crate) fn add(&mut self, other: &TypeSet) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own |= other);
    }

    /// Returns the types that are in this set and in `other`.
    pub(crate) fn and(&self, other: &TypeSet) -> TypeSet {
        TypeSet(self.0.iter().zip(&other.0).map(|(own, other)| own & other).collect())
    }

    /// Removes the types of `other`.
    pub(crate) fn remove(&mut self, other: &TypeSet) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own &= !other);
    }
}

/// Returns the fixed rights of a directory without rules (see [`crate::access`]) in the form of rules.
pub fn default_rules(anonymous_read: bool) -> Vec<String> {
    let mut rules =
        vec!["users: allow read to authenticated", "own password: allow write of userPassword to self"];
    rules.extend(anonymous_read.then_some("everybody: allow read to anonymous"));
    rules.into_iter().map(str::to_owned).collect()
}

/// Requesters that a rule applies to. DNs are in normal form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RuleRequester {
    Anyone,
    Anonymous,
    Authenticated,
    Itself,
    User(NormalName),
    UsersIn(NormalName),
    /// Users whose entries match the filter and, if a name is given, are at or below the entry with the name.
    UsersMatching(Option<NormalName>, FilterBuf),
    Group(NormalName),
    NamedBy(TypeId),
}

/// An access rule in compiled form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) is_allow: bool,
    pub(crate) rights: Rights,
    pub(crate) types: TypeSet,
    /// Filter on values, if the rule is about single values. The rule then covers one attribute type.
    pub(crate) values: Option<FilterBuf>,
    /// Controls and extended operations that the rule covers.
    pub(crate) uses: Uses,
    pub(crate) place: Option<(Reach, NormalName)>,
    /// Places of entries that the rule excludes.
    pub(crate) but: Vec<(Reach, NormalName)>,
    /// Filter that entries must match.
    pub(crate) filter: Option<FilterBuf>,
    pub(crate) requesters: Vec<RuleRequester>,
    /// Conditions on the connection of a request.
    pub(crate) link: LinkConditions,
}

impl Rule {
    /// Returns true if the rule depends on the connection of a request.
    pub(crate) fn depends_on_link(&self) -> bool {
        self.link.are_there()
    }

    /// Returns true if the rule applies to requests over this connection. If the properties of the connection are
    /// unknown, a `deny` rule applies, and an `allow` rule does not.
    pub(crate) fn holds_over(&self, link: Option<&ClientLink>) -> bool {
        self.link.are_met(link).unwrap_or(!self.is_allow)
    }
}

/// All access rules of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AccessRules {
    pub(crate) rules: Vec<Rule>,
    /// Whether a rule could not be parsed. In this case only the administrator has rights, because the rule may be a
    /// `deny`. The server checks settings before it accepts them, so another program must have written the rule.
    pub(crate) is_broken: bool,
    depends_on_link: bool,
    depends_on_listener: bool,
    rules_cover_uses: bool,
}

impl AccessRules {
    /// Compiles the rules of the settings.
    pub(crate) fn of(texts: &[String], schema: &Schema, secrets: &Secrets) -> AccessRules {
        let mut rules = AccessRules::default();
        for text in texts {
            match Rule::read(text, schema, secrets) {
                Ok(rule) => rules.rules.push(rule),
                Err(_) => rules.is_broken = true,
            }
        }
        rules.depends_on_link = rules.rules.iter().any(Rule::depends_on_link);
        rules.depends_on_listener = rules.rules.iter().any(|rule| rule.link.depend_on_listener());
        rules.rules_cover_uses = rules.rules.iter().any(|rule| rule.rights.has(USE));
        rules
    }

    /// Returns true if a rule depends on the connection of a request.
    pub(crate) fn depend_on_link(&self) -> bool {
        self.depends_on_link
    }

    /// Returns true if the rules that apply to a requester also depend on other entries than the requester's own, or on
    /// the connection.
    pub(crate) fn depend_on_others(&self) -> bool {
        let asks = |requester: &RuleRequester| {
            matches!(requester, RuleRequester::Group(_) | RuleRequester::UsersMatching(..))
        };
        self.depends_on_link || self.rules.iter().any(|rule| rule.requesters.iter().any(asks))
    }

    /// Returns true if a rule depends on the time of a request.
    pub(crate) fn depend_on_time(&self) -> bool {
        self.rules.iter().any(|rule| rule.link.depend_on_time())
    }

    /// Returns true if a rule depends on the listener.
    pub(crate) fn depend_on_listener(&self) -> bool {
        self.depends_on_listener
    }

    /// Returns true if a rule covers controls and extended operations.
    pub(crate) fn cover_uses(&self) -> bool {
        self.rules_cover_uses
    }

    /// Returns one bit per rule. The bit is set if the rule applies over this connection. Returns no bits if no rule
    /// depends on the connection.
    pub(crate) fn holding_over(&self, link: Option<&ClientLink>) -> Vec<u64> {
        if !self.depends_on_link {
            return Vec::new();
        }
        let mut holding = vec![0; self.rules.len().div_ceil(64)];
        for (place, rule) in self.rules.iter().enumerate() {
            if let (true, Some(bits)) = (rule.holds_over(link), holding.get_mut(place / 64)) {
                *bits |= 1 << (place % 64);
            }
        }
        holding
    }

    /// Returns true if the settings contain rules. Otherwise the fixed rights of [`crate::access`] apply.
    pub(crate) fn are_there(&self) -> bool {
        self.is_broken || !self.rules.is_empty()
    }
}

impl Rule {
    /// Compiles a rule.
    ///
    /// # Errors
    /// A message that describes the mistake in the rule.
    pub(crate) fn read(text: &str, schema: &Schema, secrets: &Secrets) -> Result<Rule, String> {
        let read = AccessRule::parse(text)?;
        let AccessRule { name, is_allow, rights, place, requesters, link, .. } = read;
        let place = match place {
            Some((reach, dn)) => Some((reach, normal(&dn, schema)?)),
            None => None,
        };
        let requesters = requesters.iter().map(|requester| RuleRequester::of(requester, schema, secrets));
        let requesters = requesters.collect::<Result<_, _>>()?;
        if rights.has(USE) {
            let mut uses = match (read.attributes.is_empty(), is_allow) {
                (false, _) => Uses::named(&read.attributes)?,
                (true, true) => Uses::ALL.without(Uses::BY_NAME),
                (true, false) => Uses::ALL,
            };
            uses = uses.without(Uses::named(&read.but_attributes)?);
            let (types, values, but, filter) = (TypeSet::default(), None, Vec::new(), None);
            let place = None;
            return Ok(Rule {
                name,
                is_allow,
                rights,
                types,
                values,
                uses,
                place,
                but,
                filter,
                requesters,
                link,
            });
        }
        let mut about = types(&read.attributes, is_allow, schema, secrets)?;
        if !read.but_attributes.is_empty() {
            about.remove(&types(&read.but_attributes, is_allow, schema, secrets)?);
        }
        let named = read.attributes.first().and_then(|name| schema.attribute_type(name));
        let values = match (&read.values, named) {
            (Some(text), Some(named)) => Some(value_filter(text, named.id, rights, (schema, secrets))?),
            _ => None,
        };
        let but = read.but_places.iter().map(|(reach, dn)| Ok((*reach, normal(dn, schema)?)));
        let but = but.collect::<Result<_, String>>()?;
        let filter = read.filter.as_deref().map(|text| rule_filter(text, schema, secrets)).transpose()?;
        let rights =
            if rights.has(WRITE) && has_password(&about, schema) { rights.with(RESET) } else { rights };
        Ok(Rule {
            name,
            is_allow,
            rights,
            types: about,
            values,
            uses: Uses::default(),
            place,
            but,
            filter,
            requesters,
            link,
        })
    }
}

impl RuleRequester {
    fn of(requester: &RequesterSpec, schema: &Schema, secrets: &Secrets) -> Result<RuleRequester, String> {
        Ok(match requester {
            RequesterSpec::Anyone => RuleRequester::Anyone,
            RequesterSpec::Anonymous => RuleRequester::Anonymous,
            RequesterSpec::Authenticated => RuleRequester::Authenticated,
            RequesterSpec::Itself => RuleRequester::Itself,
            RequesterSpec::User(dn) => RuleRequester::User(normal(dn, schema)?),
            RequesterSpec::UsersIn(dn) => RuleRequester::UsersIn(normal(dn, schema)?),
            RequesterSpec::UsersMatching(place, filter) => {
                let place = place.as_deref().map(|dn| normal(dn, schema)).transpose()?;
                RuleRequester::UsersMatching(place, rule_filter(filter, schema, secrets)?)
            }
            RequesterSpec::Group(dn) => RuleRequester::Group(normal(dn, schema)?),
            RequesterSpec::NamedBy(name) => {
                let attribute_type = schema.attribute_type(name).ok_or_else(|| unknown(name))?;
                if !super::is_link_type(attribute_type) {
                    return Err(format!(
                        "values of {name} are not links to entries: it takes {LINK_TYPES_TEXT}"
                    ));
                }
                RuleRequester::NamedBy(attribute_type.id)
            }
        })
    }
}

fn unknown(name: &str) -> String {
    format!("{name} is not an attribute type of the schema")
}

/// Parses a DN in a rule, and returns its normal form.
pub(super) fn normal(dn: &str, schema: &Schema) -> Result<NormalName, String> {
    let parsed = parse_dn(dn).map_err(|error| error.to_string())?;
    let name = NormalName::of(&parsed, schema);
    match &name.failure {
        Some(failure) => Err(format!("{dn:?}: {failure}")),
        None => Ok(name),
    }
}

/// Returns the types that the names in a rule cover, with their subtypes. Without names, an `allow` rule covers all
/// types except secrets, and a `deny` rule covers all types. `*`, `+` and `@class` exclude secrets in both kinds of
/// rule, so a rule must name secrets to cover them.
fn types(names: &[String], is_allow: bool, schema: &Schema, secrets: &Secrets) -> Result<TypeSet, String> {
    let all = || (0..).map(TypeId).take(schema.attribute_types().len());
    let mut set = TypeSet::default();
    if names.is_empty() {
        all().filter(|id| !is_allow || !secrets.has(*id)).for_each(|id| set.insert(id));
    }
    for name in names {
        let mut add_kind = |wants_operational: bool| {
            for id in all().filter(|id| !secrets.has(*id)) {
                if schema.type_by_id(id).is_operational() == wants_operational {
                    set.insert(id);
                }
            }
        };
        match name.as_str() {
            "*" => add_kind(false),
            "+" => add_kind(true),
            _ => match name.strip_prefix('@') {
                Some(class) => {
                    let known = schema.object_class(class);
                    let known =
                        known.ok_or_else(|| format!("{class} is not an object class of the schema"))?;
                    if known.oid == EXTENSIBLE_OBJECT {
                        add_kind(false);
                    }
                    let named = known.all_must.iter().chain(&known.all_may);
                    named.filter(|id| !secrets.has(**id)).for_each(|id| set.insert(*id));
                }
                None => {
                    let known = schema.attribute_type(name).ok_or_else(|| unknown(name))?;
                    schema.subtypes(known.id).iter().for_each(|id| set.insert(*id));
                }
            },
        }
    }
    Ok(set)
}

/// Returns true if the types include userPassword. In the entry of another user, the right to write userPassword is
/// the right to reset.
fn has_password(types: &TypeSet, schema: &Schema) -> bool {
    schema.attribute_type(USER_PASSWORD).is_some_and(|password| types.contains(password.id))
}

/// Returns true if filters may test the type in every entry that the requester may browse. This applies to objectClass:
/// nearly every filter tests objectClass, and such a test reveals little more than the existence of an entry.
pub(crate) fn is_testable_with_browse(schema: &Schema, type_id: TypeId) -> bool {
    schema.type_by_id(type_id).oid == OBJECT_CLASS
}
