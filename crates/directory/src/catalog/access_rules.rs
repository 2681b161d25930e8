//! The access rules of the settings, their names resolved: which attribute types they are about, and the normal forms
//! of the DNs in them.

use ldap::FilterBuf;
use schema::{Schema, TypeId};

use super::rule_filter::{rule_filter, value_filter};
use super::secret::{Secrets, USER_PASSWORD};
use crate::model::access_rule::{AccessRule, Asker, RESET, Reach, Rights, USE, WRITE};
use crate::model::client_link::ClientLink;
use crate::model::link_conditions::LinkConditions;
use crate::model::name::{NormalName, parse_dn};
use crate::model::usable::Uses;

/// OID of objectClass.
const OBJECT_CLASS: &str = "2.5.4.0";
/// OID of extensibleObject, whose entries may have every user attribute.
const EXTENSIBLE_OBJECT: &str = "1.3.6.1.4.1.1466.101.120.111";

/// A set of attribute types, a bit for each by its number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TypeSet(Vec<u64>);

impl TypeSet {
    pub(crate) fn contains(&self, type_id: TypeId) -> bool {
        let place = type_id.0 as usize;
        self.0.get(place / 64).is_some_and(|bits| bits >> (place % 64) & 1 != 0)
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

    /// Adds what the other has.
    pub(crate) fn add(&mut self, other: &TypeSet) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own |= other);
    }

    /// What both have.
    pub(crate) fn and(&self, other: &TypeSet) -> TypeSet {
        TypeSet(self.0.iter().zip(&other.0).map(|(own, other)| own & other).collect())
    }

    /// Takes away what the other has.
    pub(crate) fn remove(&mut self, other: &TypeSet) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own &= !other);
    }
}

/// The rules that hold where there are none: what [`crate::access`] says of directories without rules, as rules.
pub fn default_rules(anonymous_read: bool) -> Vec<String> {
    let mut rules =
        vec!["users: allow read to authenticated", "own password: allow write of userPassword to self"];
    rules.extend(anonymous_read.then_some("everybody: allow read to anonymous"));
    rules.into_iter().map(str::to_owned).collect()
}

/// Whom a rule is for, DNs in their normal form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RuleAsker {
    Anyone,
    Anonymous,
    Authenticated,
    Itself,
    User(NormalName),
    UsersIn(NormalName),
    /// In a place where there is one.
    UsersMatching(Option<NormalName>, FilterBuf),
    Group(NormalName),
    NamedBy(TypeId),
}

/// A rule ready to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) is_allow: bool,
    pub(crate) rights: Rights,
    pub(crate) types: TypeSet,
    /// What has to match the values of the one type.
    pub(crate) values: Option<FilterBuf>,
    /// The controls and extended operations that it is about.
    pub(crate) uses: Uses,
    pub(crate) place: Option<(Reach, NormalName)>,
    /// Places that it is not about all the same.
    pub(crate) but: Vec<(Reach, NormalName)>,
    /// What has to match the entries.
    pub(crate) filter: Option<FilterBuf>,
    pub(crate) askers: Vec<RuleAsker>,
    /// By what way requests have to come.
    pub(crate) link: LinkConditions,
}

impl Rule {
    /// Whether it depends on where a request comes from.
    pub(crate) fn asks_link(&self) -> bool {
        self.link.are_there()
    }

    /// Whether it holds for requests from here. Where that is not known what it denies is denied, and what it allows is
    /// not.
    pub(crate) fn holds_over(&self, link: Option<&ClientLink>) -> bool {
        self.link.are_met(link).unwrap_or(!self.is_allow)
    }
}

/// All rules of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AccessRules {
    pub(crate) rules: Vec<Rule>,
    /// One could not be read. Settings are checked before they are taken, so another program wrote them: then nobody
    /// but the administrator has any right, since what is missing may be a refusal.
    pub(crate) is_broken: bool,
    asks_link: bool,
    asks_listener: bool,
    asks_uses: bool,
}

impl AccessRules {
    /// Reads the rules of the settings.
    pub(crate) fn of(texts: &[String], schema: &Schema, secrets: &Secrets) -> AccessRules {
        let mut rules = AccessRules::default();
        for text in texts {
            match Rule::read(text, schema, secrets) {
                Ok(rule) => rules.rules.push(rule),
                Err(_) => rules.is_broken = true,
            }
        }
        rules.asks_link = rules.rules.iter().any(Rule::asks_link);
        rules.asks_listener = rules.rules.iter().any(|rule| rule.link.ask_listener());
        rules.asks_uses = rules.rules.iter().any(|rule| rule.rights.has(USE));
        rules
    }

    /// Whether some depend on where a request comes from.
    pub(crate) fn ask_link(&self) -> bool {
        self.asks_link
    }

    /// Whether for whom they are may change with other entries than the asker's, or with where a request comes from.
    pub(crate) fn ask_others(&self) -> bool {
        let asks = |asker: &RuleAsker| matches!(asker, RuleAsker::Group(_) | RuleAsker::UsersMatching(..));
        self.asks_link || self.rules.iter().any(|rule| rule.askers.iter().any(asks))
    }

    /// Whether some depend on when a request comes.
    pub(crate) fn ask_time(&self) -> bool {
        self.rules.iter().any(|rule| rule.link.ask_time())
    }

    /// Whether some depend on the listener.
    pub(crate) fn ask_listener(&self) -> bool {
        self.asks_listener
    }

    /// Whether some are about controls and extended operations.
    pub(crate) fn ask_uses(&self) -> bool {
        self.asks_uses
    }

    /// Which of those that depend on where a request comes from hold: a bit for each rule, none where no rule asks.
    pub(crate) fn holding_over(&self, link: Option<&ClientLink>) -> Vec<u64> {
        if !self.asks_link {
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

    /// Whether there are rules: otherwise what [`crate::access`] says of directories without them holds.
    pub(crate) fn are_there(&self) -> bool {
        self.is_broken || !self.rules.is_empty()
    }
}

impl Rule {
    /// Reads a rule.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn read(text: &str, schema: &Schema, secrets: &Secrets) -> Result<Rule, String> {
        let read = AccessRule::parse(text)?;
        let AccessRule { name, is_allow, rights, place, askers, link, .. } = read;
        let place = match place {
            Some((reach, dn)) => Some((reach, normal(&dn, schema)?)),
            None => None,
        };
        let askers = askers.iter().map(|asker| RuleAsker::of(asker, schema, secrets));
        let askers = askers.collect::<Result<_, _>>()?;
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
                askers,
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
            askers,
            link,
        })
    }
}

impl RuleAsker {
    fn of(asker: &Asker, schema: &Schema, secrets: &Secrets) -> Result<RuleAsker, String> {
        Ok(match asker {
            Asker::Anyone => RuleAsker::Anyone,
            Asker::Anonymous => RuleAsker::Anonymous,
            Asker::Authenticated => RuleAsker::Authenticated,
            Asker::Itself => RuleAsker::Itself,
            Asker::User(dn) => RuleAsker::User(normal(dn, schema)?),
            Asker::UsersIn(dn) => RuleAsker::UsersIn(normal(dn, schema)?),
            Asker::UsersMatching(place, filter) => {
                let place = place.as_deref().map(|dn| normal(dn, schema)).transpose()?;
                RuleAsker::UsersMatching(place, rule_filter(filter, schema, secrets)?)
            }
            Asker::Group(dn) => RuleAsker::Group(normal(dn, schema)?),
            Asker::NamedBy(name) => {
                let attribute_type = schema.attribute_type(name).ok_or_else(|| unknown(name))?;
                if !super::is_link_type(attribute_type) {
                    return Err(format!(
                        "values of {name} are not links to entries: it takes member, uniqueMember, owner, manager, \
                         secretary, seeAlso, roleOccupant"
                    ));
                }
                RuleAsker::NamedBy(attribute_type.id)
            }
        })
    }
}

fn unknown(name: &str) -> String {
    format!("{name} is no attribute type of the schema")
}

fn normal(dn: &str, schema: &Schema) -> Result<NormalName, String> {
    let parsed = parse_dn(dn).map_err(|error| error.to_string())?;
    let name = NormalName::of(&parsed, schema);
    match &name.failure {
        Some(failure) => Err(format!("{dn:?}: {failure}")),
        None => Ok(name),
    }
}

/// The types that a rule is about, with their subtypes. Without any named, an `allow` is about all but secrets, a
/// `deny` about all of them. `*` and `+` leave secrets out in both: these have to be named.
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
                    let known = known.ok_or_else(|| format!("{class} is no object class of the schema"))?;
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

/// Whether userPassword is among types: who writes those of others resets them.
fn has_password(types: &TypeSet, schema: &Schema) -> bool {
    schema.attribute_type(USER_PASSWORD).is_some_and(|password| types.contains(password.id))
}

/// Whether a filter may ask for a type wherever the entry may be found: objectClass, which every filter for any entry
/// asks for, and which is much the same as what an entry is for.
pub(crate) fn goes_with_the_entry(schema: &Schema, type_id: TypeId) -> bool {
    schema.type_by_id(type_id).oid == OBJECT_CLASS
}
