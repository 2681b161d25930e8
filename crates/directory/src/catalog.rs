//! The catalog: the meaning of the numbers by which rows identify attributes, class sets, suffixes and indexes.
//!
//! The catalog is read from `meta` once, when the directory is opened, and then changes only with records. Numbers are
//! added and never removed, so a reader may use a catalog that is newer than its snapshot. A reader never uses an
//! older catalog, because a new catalog is published before the commit of the rows that need it. Indexes, however, are
//! added and removed. If the rows of a snapshot and the catalog differ about the state of an index, the rows decide.

pub(crate) mod access_rules;
mod allocations;
pub(crate) mod auto_members;
pub(crate) mod bind_names;
pub(crate) mod covered_entries;
mod given_attribute;
pub(crate) mod linking;
mod meta;
pub(crate) mod next_numbers;
mod normal_value;
mod other_schema;
mod returnable;
mod rule_filter;
mod schema_texts;
mod secret;
pub(crate) mod sort_orders;
pub(crate) mod uniqueness;
pub(crate) mod value_limits;
mod virtual_attribute;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use ldap::Dn;
use ldap::response::AttributeFrame;
use schema::{AttributeDescription, ClassId, MatchingRule, NameSyntax, Schema, TypeId};
use store::Read;

use crate::model::account_attribute::AccountAttribute;
use crate::model::allocation::rules_of;
pub use crate::model::allocation::{AttributeAllocation, ClassSetAllocation};
use crate::model::attribute_numbers::AttributeNumbers;
use crate::model::codec::Decoder;
use crate::model::collective::CollectiveSubentries;
use crate::model::dynamic_groups::{DynamicGroups, MEMBER_URL};
use crate::model::index_definition::{AttributeIndex, IndexKinds, IndexRow};
use crate::model::link_types::is_declared_link;
pub use crate::model::link_types::is_link_type;
use crate::model::name::render_dn;
use crate::model::open_error::OpenError;
use crate::model::password_policy::PolicyTable;
use crate::model::rows::{AttrId, ClassSetId, META, NodeFlags};
use crate::model::schema_times::SchemaTimes;
use crate::model::settings::{StoredSettings, SuffixNumber};
use crate::model::sort_order::SortOrderRow;
use crate::model::virtual_entries::VirtualEntry;
use access_rules::AccessRules;
pub(crate) use allocations::Allocations;
use auto_members::AutoMemberRule;
use bind_names::BindNameRule;
pub use given_attribute::{check_modifiable, read_description};
pub(crate) use given_attribute::{check_options, password_options_problem};
use meta::meta_rows;
pub(crate) use meta::{
    META_ADMINISTRATOR, META_ATTRIBUTE, META_CLASS_SET, META_CONTEXT_CSN, META_FOLLOW, META_FORMAT,
    META_GENERATION, META_INDEX, META_INDEX_VERSION, META_JOINS, META_LAST_CSN, META_LAST_ENTRY,
    META_LINEAGE, META_LINKS, META_PROMOTED, META_REPLICATION, META_ROLE, META_SCHEMA, META_SCHEMA_TIMES,
    META_SETTINGS, META_SORT_ORDER, META_SUFFIX, generation, has_values, is_node, log_rows, meta_key,
};
pub use meta::{index_version, last_csn, last_entry_id};
use next_numbers::NextNumberRule;
pub use normal_value::normal_value;
pub(crate) use normal_value::put_normal_value;
use returnable::Returnable;
pub(crate) use schema_texts::{schema_of, schema_problem, without_effect};
pub(crate) use secret::{Secrecy, Secrets, Shown, USER_PASSWORD, is_user_password};
use sort_orders::SortOrder;
use uniqueness::Uniqueness;
use value_limits::ValueLimit;
pub use virtual_attribute::VirtualAttribute;
pub(crate) use virtual_attribute::counts_entries;

/// OID of dynamicObject (RFC 2589 section 5).
const DYNAMIC_OBJECT: &str = "1.3.6.1.4.1.1466.101.119.2";

/// OID of collectiveAttributeSubentry (RFC 3671 section 2.1).
const COLLECTIVE_ATTRIBUTE_SUBENTRY: &str = "2.5.17.2";

/// OIDs of distinguishedNameMatch and uniqueMemberMatch. These rules treat all spellings of a name as one value.
const NAME_RULES: [&str; 2] = ["2.5.13.1", "2.5.13.23"];

/// Attribute types that a new directory indexes, for equality and ordering.
///
/// Every index row makes an add slower, so the list contains only attributes by which clients are known to search.
/// These are uid, mail, cn, sn and givenName for people; numbers and memberUid for POSIX accounts; entryUUID; and
/// modifyTimestamp and createTimestamp for clients that poll for changes.
pub const DEFAULT_INDEXES: [&str; 11] = [
    "uid",
    "cn",
    "sn",
    "givenName",
    "mail",
    "uidNumber",
    "gidNumber",
    "memberUid",
    "entryUUID",
    "modifyTimestamp",
    "createTimestamp",
];

/// Definition of an attribute number in rows: an attribute type with its options, and properties derived from the type
/// and the options.
#[derive(Clone, Debug)]
pub struct AttributeDef {
    /// Number of the attribute.
    pub id: AttrId,
    /// Type and options.
    pub description: AttributeDescription,
    /// Number of the type without options. Equal to `id` if the attribute has no options.
    pub base: AttrId,
    /// Name in results, in the schema's spelling.
    pub name: String,
    /// The attribute without values, encoded as in search results.
    pub(crate) frame: AttributeFrame,
    /// Whether values are links to entries.
    pub is_link: bool,
    /// Number of the attribute that replaces this attribute and stores its values as links. Entries receive no new
    /// values under the replaced number.
    pub(crate) replaced_by: Option<AttrId>,
    /// Index of the type. The index is set on the attribute without options (`base`) and copied to the attributes with
    /// options.
    pub index: AttributeIndex,
    /// Equality rule; `None` if values are compared as bytes.
    pub equality: Option<MatchingRule>,
    /// Whether the attribute is operational, so that `*` does not select it.
    pub is_operational: bool,
    /// Secrecy of the values.
    pub(crate) secrecy: Secrecy,
    /// Name syntax of the values, if the equality rule compares the values as names; otherwise `None`.
    pub(crate) name_syntax: Option<NameSyntax>,
    /// Meaning of the attribute in the state of an account. `None` for other attributes, and for attributes with
    /// options.
    pub(crate) of_account: Option<AccountAttribute>,
    /// OID of the type, if its definition was removed: see `other_schema`. No entry has such an attribute.
    pub(crate) retired: Option<Box<str>>,
}

impl AttributeDef {
    /// Returns a stored value in the form for clients and exports, in which names follow RFC 4514. Names are stored as
    /// clients wrote them, so that stored data do not depend on this form.
    pub(crate) fn value_text<'v>(&self, schema: &Schema, value: &'v [u8]) -> Cow<'v, [u8]> {
        match self.name_syntax {
            Some(syntax) => schema.name_text(syntax, value),
            None => Cow::Borrowed(value),
        }
    }
}

/// Properties of an attribute type on which filters and stored values depend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TypeFacts {
    /// Whether the type is objectClass.
    pub(crate) is_object_class: bool,
    /// Whether values are links to entries.
    pub(crate) is_link: bool,
    /// The virtual attribute that the type denotes, if any.
    pub(crate) virtual_attribute: Option<VirtualAttribute>,
    /// Whether values of the type or of a subtype are links, or are computed from links and names of entries.
    pub(crate) names_entries: bool,
    /// Whether values of the type or of a subtype are computed when requested.
    pub(crate) has_virtual: bool,
}

impl TypeFacts {
    /// Returns true if inchainMatch can follow the values from entry to entry.
    pub(crate) fn has_chains(&self) -> bool {
        self.is_link || self.virtual_attribute.is_some_and(VirtualAttribute::is_membership)
    }

    fn of(schema: &Schema, type_id: TypeId) -> TypeFacts {
        let attribute_type = schema.type_by_id(type_id);
        let virtual_attribute = VirtualAttribute::of(attribute_type);
        let types = || schema.subtypes(type_id).iter().map(|id| schema.type_by_id(*id));
        TypeFacts {
            is_object_class: attribute_type.oid == "2.5.4.0",
            is_link: is_link_type(attribute_type),
            virtual_attribute,
            names_entries: types().any(is_link_type)
                || virtual_attribute.is_some_and(|attribute| {
                    attribute.is_membership() || attribute == VirtualAttribute::EntryDn
                }),
            has_virtual: types().any(|subtype| VirtualAttribute::of(subtype).is_some()),
        }
    }
}

/// A set of object classes that at least one entry has or had.
#[derive(Clone, Debug)]
pub struct ClassSet {
    /// The classes that the values of objectClass name, ascending by OID.
    pub classes: Vec<ClassId>,
    /// The classes and all their superclasses.
    pub closure: Vec<ClassId>,
    /// The most derived structural class.
    pub structural: Option<ClassId>,
    /// Whether the classes make an entry an alias, a referral or a subentry.
    pub flags: NodeFlags,
    /// Whether a class of the set allows memberURL.
    pub(crate) allows_member_url: bool,
    /// Whether the entries are dynamic: the server deletes them unless clients refresh them (RFC 2589).
    pub(crate) is_dynamic: bool,
    /// OIDs of the classes, if the definition of a class was removed: see `other_schema`. No entry has such a class
    /// set.
    pub(crate) retired: Option<Vec<String>>,
    /// Whether the entries are collective attribute subentries (RFC 3671).
    pub(crate) is_collective: bool,
}

/// A naming context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suffix {
    /// DN in the form for clients.
    pub dn: String,
    /// Normal form of the DN, root first.
    pub key: Vec<u8>,
    /// Number of RDNs, at least 1.
    pub rdn_count: usize,
    /// Number of the suffix in `meta`.
    pub number: SuffixNumber,
}

/// The catalog at one position of the log.
#[derive(Clone, Debug)]
pub struct Catalog {
    /// The schema that defines the types and classes.
    pub schema: Arc<Schema>,
    /// Facts about types, by type number.
    type_facts: Arc<[TypeFacts]>,
    /// Secret attribute types, according to the schema and the settings.
    pub(crate) secrets: Secrets,
    attributes: Vec<AttributeDef>,
    /// Bit sets of `attributes`. These bit sets determine which attributes searches may return.
    returnable: Returnable,
    /// Whether an entry has or had an attribute with which an administrator can restrict binds.
    pub(crate) restricts_binds: bool,
    by_description: HashMap<(TypeId, Box<str>), AttrId>,
    /// Attributes of each type, with and without options, by type number. A vector is faster than a hash table, and
    /// each value of a change needs a lookup.
    by_type: Vec<Vec<AttrId>>,
    /// Attributes of each type and its subtypes, with any options, by type number.
    answering: Vec<AttributeNumbers>,
    /// Attributes whose values are being converted to links. Some entries may still have plain values.
    becoming_links: Vec<AttrId>,
    class_sets: Vec<ClassSet>,
    /// Union of the flags of all class sets.
    class_set_flags: NodeFlags,
    /// Whether a class set makes entries dynamic.
    pub(crate) has_dynamic_entries: bool,
    class_set_ids: HashMap<Vec<ClassId>, ClassSetId>,
    /// Naming contexts by number. No naming context is below another.
    pub suffixes: Vec<Suffix>,
    /// All other directory-wide settings.
    pub(crate) settings: StoredSettings,
    /// Times of the last changes of the schema; `None` until the directory has been opened for writing.
    pub(crate) schema_times: Option<SchemaTimes>,
    /// The subschema subentry, built on first use.
    pub(crate) subschema: Arc<OnceLock<VirtualEntry>>,
    /// Access rules of the settings.
    pub(crate) access_rules: Arc<AccessRules>,
    /// Uniqueness rules of the settings.
    pub(crate) uniqueness: Arc<Uniqueness>,
    /// Rules of the settings for `{next}` numbers.
    pub(crate) next_numbers: Arc<[NextNumberRule]>,
    /// Value limits of the settings.
    pub(crate) value_limits: Arc<[ValueLimit]>,
    /// Rules of the settings that add entries to groups.
    pub(crate) auto_members: Arc<[AutoMemberRule]>,
    /// Rules of the settings for bind names that are not DNs.
    pub(crate) bind_names: Arc<[BindNameRule]>,
    /// Sort orders, by the number in the keys of their rows.
    pub(crate) sort_orders: Arc<[SortOrder]>,
    /// Password policies.
    pub(crate) policies: Arc<PolicyTable>,
    /// Dynamic groups, which describe their members with searches.
    pub(crate) dynamic_groups: Arc<DynamicGroups>,
    /// Subentries with collective attributes; `None` if there are none.
    pub(crate) collective: Option<Arc<CollectiveSubentries>>,
    /// Stored form of the administrator's password; `None` if it was never set.
    pub administrator: Option<Vec<u8>>,
    /// Definitions of attributes that no entry has, if they differ from the definitions in `meta`. The next write
    /// updates `meta`.
    pub(crate) changed: Vec<AttributeAllocation>,
    /// Version of the indexes: see [`Catalog::index_version`].
    index_version: u64,
    /// Number of schema changes since the catalog was read.
    schema_version: u64,
}

fn account_attribute(schema: &Schema, description: &AttributeDescription) -> Option<AccountAttribute> {
    let is_it = |attribute: &AccountAttribute| {
        let known = schema.attribute_type(attribute.name());
        known.is_some_and(|known| *description == AttributeDescription::of(known.id))
    };
    AccountAttribute::ALL.into_iter().find(is_it)
}

impl Catalog {
    /// Returns an empty catalog.
    pub fn new(schema: Arc<Schema>) -> Catalog {
        let type_ids = (0..).map(TypeId).take(schema.attribute_types().len());
        let facts = type_ids.map(|type_id| TypeFacts::of(&schema, type_id));
        let settings = StoredSettings::default();
        Catalog {
            type_facts: facts.collect(),
            secrets: Secrets::of(&schema, &settings.general.secret_attributes),
            by_type: vec![Vec::new(); schema.attribute_types().len()],
            answering: vec![AttributeNumbers::default(); schema.attribute_types().len()],
            becoming_links: Vec::new(),
            schema,
            attributes: Vec::new(),
            returnable: Returnable::default(),
            restricts_binds: false,
            by_description: HashMap::new(),
            class_sets: Vec::new(),
            class_set_flags: NodeFlags::default(),
            has_dynamic_entries: false,
            class_set_ids: HashMap::new(),
            suffixes: Vec::new(),
            settings,
            schema_times: None,
            subschema: Arc::default(),
            access_rules: Arc::default(),
            uniqueness: Arc::default(),
            next_numbers: Arc::default(),
            value_limits: Arc::default(),
            auto_members: Arc::default(),
            bind_names: Arc::default(),
            sort_orders: Arc::default(),
            policies: Arc::default(),
            dynamic_groups: Arc::default(),
            collective: None,
            administrator: None,
            index_version: 0,
            schema_version: 0,
            changed: Vec::new(),
        }
    }

    /// Reads the catalog of a store. The schema of the catalog is the shipped schema with the schema texts in the
    /// store.
    ///
    /// # Errors
    /// A type or class in use is missing in the schema, the syntax or matching rules of a type in use have changed, or
    /// rows are damaged.
    pub fn load(read: &Read) -> Result<Catalog, OpenError> {
        let settings = StoredSettings::decode(read.get(META, META_SETTINGS)?, read.get(META, META_SCHEMA)?);
        let settings = settings.ok_or(OpenError::damaged("settings"))?;
        let schema = linking::with_stored_links(schema_of(&settings.schema)?, read)?;
        let mut catalog = Catalog::new(schema);
        catalog.set_settings(settings);
        if let Some(row) = read.get(META, META_SCHEMA_TIMES)? {
            let times = SchemaTimes::decode(row).ok_or(OpenError::damaged("schema times"))?;
            catalog.schema_times = Some(times);
        }
        for row in meta_rows(read, META_ATTRIBUTE)? {
            let allocation =
                AttributeAllocation::decode(&mut Decoder(row.1)).ok_or(OpenError::damaged("attribute"))?;
            catalog.check_rules(read, &allocation)?;
            catalog.add_attribute(&allocation)?;
        }
        for row in meta_rows(read, META_CLASS_SET)? {
            let allocation =
                ClassSetAllocation::decode(&mut Decoder(row.1)).ok_or(OpenError::damaged("class set"))?;
            catalog.add_class_set(&allocation)?;
        }
        for row in meta_rows(read, META_SUFFIX)? {
            let dn = std::str::from_utf8(row.1).map_err(|_| OpenError::damaged("suffix"))?;
            catalog.add_numbered_suffix(row.0, dn)?;
        }
        catalog.load_indexes(read)?;
        catalog.administrator = read.get(META, META_ADMINISTRATOR)?.map(<[u8]>::to_vec);
        Ok(catalog)
    }

    /// If any entry has the attribute, checks that the syntax and the matching rules of the attribute are unchanged.
    /// Stored normal forms depend on the syntax and these rules.
    fn check_rules(&mut self, read: &Read, allocation: &AttributeAllocation) -> Result<(), OpenError> {
        let Some(attribute_type) = self.schema.attribute_type(&allocation.oid) else {
            return allocation.checked_retired();
        };
        let mut now =
            AttributeAllocation { rules: rules_of(attribute_type, &self.schema), ..allocation.clone() };
        if !allocation.is_declared_link() {
            now = now.plain();
        }
        let now = now.rules;
        if now == allocation.rules {
            return Ok(());
        }
        if has_values(read, allocation.id)? {
            return Err(OpenError::ChangedDefinition {
                name: attribute_type.name().to_owned(),
                stored: allocation.rules.clone(),
                now,
            });
        }
        self.changed.push(AttributeAllocation { rules: now, ..allocation.clone() });
        Ok(())
    }

    /// Adds an attribute that a record allocates, unless the catalog already has it.
    ///
    /// # Errors
    /// The schema lacks the type.
    pub fn add_attribute(&mut self, allocation: &AttributeAllocation) -> Result<(), OpenError> {
        if allocation.id.0 as usize != self.attributes.len() {
            return Ok(());
        }
        let Some(attribute_type) = self.schema.attribute_type(&allocation.oid) else {
            allocation.checked_retired()?;
            self.add_retired_attribute(allocation);
            return Ok(());
        };
        let type_id = attribute_type.id;
        let description =
            AttributeDescription { type_id, options: allocation.options.as_str().into(), binary: false };
        let base = match self.attribute_id(type_id, "") {
            Some(base) if !allocation.options.is_empty() => base,
            _ => allocation.id,
        };
        let name = description.returned_name(&self.schema).into_owned();
        let name_syntax = self.schema.syntax_by_id(attribute_type.syntax).name_syntax();
        // Under other equality rules, or without one, two spellings of a name may be distinct values. Such values must
        // stay distinct.
        let compares_names = attribute_type.equality.is_some_and(|rule| NAME_RULES.contains(&rule.oid()));
        let name_syntax = name_syntax.filter(|_| compares_names);
        let def = AttributeDef {
            id: allocation.id,
            base,
            frame: AttributeFrame::new(&name),
            name,
            is_link: is_link_type(attribute_type)
                && (!is_declared_link(attribute_type) || allocation.is_declared_link()),
            replaced_by: None,
            name_syntax,
            index: self.attributes.get(base.0 as usize).map(|def| def.index).unwrap_or_default(),
            equality: attribute_type.equality,
            is_operational: attribute_type.is_operational(),
            secrecy: self.secrets.of_type(type_id),
            of_account: account_attribute(&self.schema, &description),
            description: description.clone(),
            retired: None,
        };
        self.returnable.add(&def);
        self.restricts_binds |= def.of_account.is_some_and(AccountAttribute::restricts_binds);
        self.attributes.push(def);
        let former = self.by_description.insert((type_id, description.options), allocation.id);
        if let Some(numbers) = self.by_type.get_mut(type_id.0 as usize) {
            numbers.push(allocation.id);
        }
        let mut answers_to = Some(type_id);
        while let Some(type_id) = answers_to {
            if let Some(numbers) = self.answering.get_mut(type_id.0 as usize) {
                numbers.push(allocation.id);
            }
            answers_to = self.schema.type_by_id(type_id).sup;
        }
        if let Some(former) = former {
            self.replace_attribute(former, allocation.id);
        }
        Ok(())
    }

    /// Adds a class set that a record allocates, unless the catalog already has it.
    ///
    /// # Errors
    /// The schema lacks a class.
    pub fn add_class_set(&mut self, allocation: &ClassSetAllocation) -> Result<(), OpenError> {
        if allocation.id.0 as usize != self.class_sets.len() {
            return Ok(());
        }
        let mut classes = Vec::with_capacity(allocation.oids.len());
        for oid in &allocation.oids {
            match self.schema.object_class(oid) {
                Some(class) => classes.push(class.id),
                None if allocation.is_retired() => {
                    self.add_retired_class_set(allocation);
                    return Ok(());
                }
                None => {
                    return Err(OpenError::MissingDefinition { what: "object class", oid: oid.clone() });
                }
            }
        }
        let class_set = ClassSet::of(classes, &self.schema);
        self.class_set_flags.0 |= class_set.flags.0;
        self.has_dynamic_entries |= class_set.is_dynamic;
        self.class_set_ids.insert(class_set.classes.clone(), allocation.id);
        self.class_sets.push(class_set);
        Ok(())
    }

    /// Replaces the settings. Also recomputes the rules and the secret types, because both depend on the settings.
    pub(crate) fn set_settings(&mut self, settings: StoredSettings) {
        self.secrets = Secrets::of(&self.schema, &settings.general.secret_attributes);
        for def in &mut self.attributes {
            def.secrecy = self.secrets.of_type(def.description.type_id);
        }
        self.returnable = Returnable::of(&self.attributes);
        let rules = &settings.general.access_rules;
        self.access_rules = Arc::new(AccessRules::of(rules, &self.schema, &self.secrets));
        let unique = &settings.general.unique;
        self.uniqueness = Arc::new(Uniqueness::of(unique, &self.schema, &self.secrets));
        // A rule that cannot be parsed is dropped. A value `{next}` is then refused, because it is not an integer.
        let read = |text: &String| NextNumberRule::read(text, &self.schema, &self.secrets).ok();
        self.next_numbers = settings.general.next_numbers.iter().filter_map(read).collect();
        let read = |text: &String| ValueLimit::read(text, &self.schema, &self.secrets).ok();
        self.value_limits = settings.general.value_limits.iter().filter_map(read).collect();
        let read = |text: &String| AutoMemberRule::read(text, &self.schema, &self.secrets).ok();
        self.auto_members = settings.general.auto_members.iter().filter_map(read).collect();
        let read = |text: &String| BindNameRule::read(text, &self.schema, &self.secrets).ok();
        self.bind_names = settings.general.bind_names.iter().filter_map(read).collect();
        self.settings = settings;
    }

    /// Replaces the sort orders.
    fn set_sort_orders(&mut self, rows: impl Iterator<Item = (u32, SortOrderRow)>) {
        let types = (&*self.schema, &self.secrets);
        self.sort_orders = rows.map(|(number, row)| SortOrder::of(number, row, types)).collect();
    }

    /// Returns an unused suffix number.
    pub(crate) fn next_suffix_number(&self) -> SuffixNumber {
        self.suffixes.iter().map(|suffix| suffix.number + 1).max().unwrap_or(0)
    }

    /// Replaces all naming contexts.
    ///
    /// # Errors
    /// As [`add_suffix`](Catalog::add_suffix).
    pub(crate) fn set_suffixes(&mut self, suffixes: &[(SuffixNumber, String)]) -> Result<(), OpenError> {
        self.suffixes.clear();
        suffixes.iter().try_for_each(|(number, dn)| self.add_numbered_suffix(*number, dn).map(drop))
    }

    /// Adds a naming context and returns its number. Returns `None` if the naming context already exists.
    ///
    /// # Errors
    /// `dn` is not a DN, is empty, or is above or below another suffix.
    pub fn add_suffix(&mut self, dn: &str) -> Result<Option<SuffixNumber>, OpenError> {
        let number = self.next_suffix_number();
        let is_new = self.add_numbered_suffix(number, dn)?;
        Ok(is_new.then_some(number))
    }

    fn add_numbered_suffix(&mut self, number: SuffixNumber, dn: &str) -> Result<bool, OpenError> {
        let suffix = Suffix { number, ..self.suffix_of(dn)? };
        if let Some(other) =
            self.suffixes.iter().find(|s| s.key.starts_with(&suffix.key) || suffix.key.starts_with(&s.key))
        {
            if other.key == suffix.key {
                return Ok(false);
            }
            return Err(OpenError::Suffix {
                dn: dn.to_owned(),
                reason: format!("it lies above or below the suffix {}", other.dn),
            });
        }
        self.suffixes.push(suffix);
        Ok(true)
    }

    pub(crate) fn suffix_of(&self, text: &str) -> Result<Suffix, OpenError> {
        let bad = |reason: String| OpenError::Suffix { dn: text.to_owned(), reason };
        let dn = Dn::parse(text).map_err(|error| bad(error.to_string()))?;
        if dn.is_empty() {
            return Err(bad("the empty DN is the root DSE, not a suffix".to_owned()));
        }
        let mut key = Vec::new();
        self.schema.normalize_dn(&dn, &mut key).map_err(|error| bad(error.to_string()))?;
        let rendered = render_dn(&self.schema, &dn);
        Ok(Suffix { dn: rendered, key, rdn_count: dn.len(), number: 0 })
    }

    /// Replaces the indexes by the indexes in the rows of `read`.
    ///
    /// # Errors
    /// Rows are damaged.
    pub(crate) fn load_indexes(&mut self, read: &Read) -> Result<(), OpenError> {
        self.attributes.iter_mut().for_each(|def| def.index = AttributeIndex::default());
        let version = index_version(read)?;
        for (number, bytes) in meta_rows(read, META_INDEX)? {
            let row = IndexRow::decode(bytes).ok_or(OpenError::damaged("index"))?;
            self.set_index(AttrId(number), row.index, version);
        }
        let rows = meta_rows(read, META_SORT_ORDER)?.into_iter();
        let rows = rows.map(|(number, bytes)| Some((number, SortOrderRow::decode(bytes)?)));
        let rows: Option<Vec<_>> = rows.collect();
        self.set_sort_orders(rows.ok_or(OpenError::damaged("sort order"))?.into_iter());
        self.index_version = version;
        self.load_becoming_links(read)?;
        Ok(())
    }

    /// Sets the index of an attribute type. The index applies to the attribute `base`, which has no options, and to the
    /// attributes of the same type with options. `version` is the new version of all indexes.
    pub(crate) fn set_index(&mut self, base: AttrId, index: AttributeIndex, version: u64) {
        self.attributes.iter_mut().filter(|def| def.base == base).for_each(|def| def.index = index);
        self.index_version = version;
    }

    /// Returns the version of the indexes. The version changes whenever an index starts or stops answering searches.
    /// The rows contain a version, too. If the two versions differ, the catalog does not describe the indexes of the
    /// rows.
    pub fn index_version(&self) -> u64 {
        self.index_version
    }

    /// Returns the version of the schema. When it changes, the numbers of types and classes may change, too.
    pub fn schema_version(&self) -> u64 {
        self.schema_version
    }

    /// Returns the attribute with this number.
    ///
    /// # Panics
    /// Panics if the number was never allocated. Rows refer only to allocated numbers.
    #[expect(clippy::indexing_slicing, reason = "rows refer only to numbers of this catalogue")]
    pub fn attribute(&self, id: AttrId) -> &AttributeDef {
        &self.attributes[id.0 as usize]
    }

    /// Returns the bit sets that decide which attributes searches may return.
    #[inline]
    pub(crate) fn returnable(&self) -> &Returnable {
        &self.returnable
    }

    /// Returns all attributes that entries have or had, by number.
    pub fn attributes(&self) -> &[AttributeDef] {
        &self.attributes
    }

    /// Returns the kinds of each index by the name of its attribute type, in the order of attribute numbers.
    pub(crate) fn indexes(&self) -> Vec<(String, IndexKinds)> {
        let defined = self.attributes.iter().filter(|def| def.id == def.base && !def.index.kinds.is_none());
        defined.map(|def| (def.name.clone(), def.index.kinds)).collect()
    }

    /// Returns the number of an attribute type with these options (lower case, sorted, joined by `;`). Returns `None`
    /// if no entry has or had the attribute.
    pub fn attribute_id(&self, type_id: TypeId, options: &str) -> Option<AttrId> {
        if options.is_empty() {
            // Most requests look up attributes without options. This path avoids an allocation for them.
            let mut numbers = self.stored_attributes_of_type(type_id).iter().copied();
            return numbers.find(|id| self.attribute(*id).description.options.is_empty());
        }
        self.by_description.get(&(type_id, options.into())).copied()
    }

    /// Returns the numbers of all attributes of a type, with any options, that stored entries may have. For an entry
    /// that a change is building, use `WorkingEntry::attributes_of_type`, because the change may allocate more numbers.
    pub fn stored_attributes_of_type(&self, type_id: TypeId) -> &[AttrId] {
        self.by_type.get(type_id.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// Returns the numbers of all attributes that a requested description includes: of the type and its subtypes, with
    /// at least the requested options (RFC 4512 section 2.5).
    pub(crate) fn matching_attributes(&self, requested: &AttributeDescription) -> AttributeNumbers {
        let Some(all) = self.answering.get(requested.type_id.0 as usize) else {
            return AttributeNumbers::default();
        };
        if requested.options.is_empty() {
            return all.clone();
        }
        let has_options = |id: &AttrId| self.attribute(*id).description.has_options_of(requested);
        all.iter().copied().filter(has_options).collect()
    }

    /// Returns the facts about a type of the schema.
    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "the type is of this catalogue's schema, and each type has facts"
    )]
    pub(crate) fn type_facts(&self, type_id: TypeId) -> TypeFacts {
        self.type_facts[type_id.0 as usize]
    }

    /// Returns the class set with this number.
    ///
    /// # Panics
    /// Panics if the number was never allocated. Rows refer only to allocated numbers.
    #[expect(clippy::indexing_slicing, reason = "rows refer only to numbers of this catalogue")]
    pub fn class_set(&self, id: ClassSetId) -> &ClassSet {
        &self.class_sets[id.0 as usize]
    }

    /// Returns the union of the flags of all class sets. If the union lacks a flag, no entry has the flag.
    pub(crate) fn class_set_flags(&self) -> NodeFlags {
        self.class_set_flags
    }

    /// Returns all class sets that entries have or had, by number.
    pub fn class_sets(&self) -> &[ClassSet] {
        &self.class_sets
    }

    /// Returns all class sets that entries have or had, with their numbers.
    pub(crate) fn numbered_class_sets(&self) -> impl Iterator<Item = (ClassSetId, &ClassSet)> {
        (0..).map(ClassSetId).zip(&self.class_sets)
    }

    /// Returns the number of a set of classes (ascending by OID). Returns `None` if no entry has or had this set.
    pub fn class_set_id(&self, classes: &[ClassId]) -> Option<ClassSetId> {
        self.class_set_ids.get(classes).copied()
    }

    /// Returns true if a naming context has this normal name.
    pub(crate) fn has_suffix(&self, key: &[u8]) -> bool {
        self.suffixes.iter().any(|suffix| suffix.key == key)
    }

    /// Returns the suffix that is equal to or above a normal DN.
    pub fn suffix_above(&self, normal_dn: &[u8]) -> Option<&Suffix> {
        self.suffixes.iter().find(|suffix| normal_dn.starts_with(&suffix.key))
    }
}

impl ClassSet {
    /// Returns the class set of these classes. The classes need not be sorted.
    pub fn of(mut classes: Vec<ClassId>, schema: &Schema) -> ClassSet {
        classes.sort_by(|a, b| schema.class_by_id(*a).oid.cmp(&schema.class_by_id(*b).oid));
        classes.dedup();
        let closure = schema.class_closure(&classes);
        let structural = most_derived_structural(&classes, schema);
        let has = |oid: &str| closure.iter().any(|class| schema.class_by_id(*class).oid == oid);
        let flag = |oid: &str, flag: u8| if has(oid) { flag } else { 0 };
        let flags = NodeFlags(
            flag("2.5.6.1", NodeFlags::ALIAS)
                | flag("2.16.840.1.113730.3.2.6", NodeFlags::REFERRAL)
                | flag("2.5.17.0", NodeFlags::SUBENTRY),
        );
        let allows_member_url = schema.attribute_type(MEMBER_URL).is_some_and(|known| {
            let allows = |class: &ClassId| {
                let class = schema.class_by_id(*class);
                class.must.contains(&known.id) || class.may.contains(&known.id)
            };
            closure.iter().any(allows)
        });
        let is_dynamic = has(DYNAMIC_OBJECT);
        let is_collective = flags.is_subentry() && has(COLLECTIVE_ATTRIBUTE_SUBENTRY);
        let retired = None;
        ClassSet {
            classes,
            closure,
            structural,
            flags,
            allows_member_url,
            is_dynamic,
            is_collective,
            retired,
        }
    }
}

/// Returns the structural class that is a subclass of all other structural classes in `classes` (RFC 4512 section
/// 2.4.2). Without structural classes, returns an auxiliary class that may replace a structural class: see
/// [`standalone`](schema::ObjectClassDef::standalone).
fn most_derived_structural(classes: &[ClassId], schema: &Schema) -> Option<ClassId> {
    let structural = |id: &&ClassId| schema.class_by_id(**id).kind == schema::ClassKind::Structural;
    let standalone = || classes.iter().copied().find(|id| schema.class_by_id(*id).standalone);
    let structural = classes.iter().filter(structural).copied();
    structural.max_by_key(|id| schema.class_by_id(*id).closure.len()).or_else(standalone)
}
