//! Name forms and DIT structure rules (RFC 4512 sections 4.1.7.1 and 4.1.7.2): determines the rule that governs an
//! entry.
//!
//! The governing rule follows from the entry's structural class, the attribute types of its RDN, and the governing rule
//! of its superior. The governing rule is computed and not stored. Moving a subtree therefore updates no entries, and
//! rules of a new schema apply to existing entries.
//!
//! - The RDN of an entry whose class has active name forms must follow one of these name forms.
//! - An entry whose class has active structure rules is governed by one of these rules. If several rules fit, the rule
//!   with the lowest number governs.
//! - A rule without superior rules is for administrative points: the entry of a naming context, and entries whose
//!   administrativeRole is autonomousArea or subschemaAdminSpecificArea (RFC 3672 section 3).
//! - Below a governed entry, every entry must be governed unless it is an administrative point, a subentry or a
//!   referral. Elsewhere, entries of classes without structure rules may have any superior.
//! - Subentries and referrals are not governed, because structure rules apply only to object and alias entries.

use ldap::Dn;
use schema::{ClassId, NameForm, Schema, TypeId};
use store::Read;

use crate::catalog::Catalog;
use crate::model::entry::EntryRow;
use crate::model::limits::TREE_DEPTH_MAX;
use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, EntryId, NodeFlags, NodeRow};
use crate::tree::stored_values::of_content;
use crate::tree::{TreeState, damaged_row, entry_row};

type Result<T> = std::result::Result<T, OperationError>;

const ADMINISTRATIVE_ROLE: &str = "2.5.18.5";

/// Roles of an administrative point that starts a subschema area, by OID and by name.
const POINT_ROLES: [&str; 4] = ["2.5.23.1", "2.5.23.4", "autonomousArea", "subschemaAdminSpecificArea"];

/// Encoding of "no class" in temporary files.
const NO_CLASS: u32 = u32::MAX;

/// Number of a structure rule; `None` for an entry that is not governed.
pub(crate) type GoverningRule = Option<u32>;

/// Facts about an entry on which name forms and structure rules depend.
#[derive(Debug)]
pub(crate) struct Placed {
    /// Structural class; `None` for subentries, referrals, and entries without a structural class.
    pub(crate) class: Option<ClassId>,
    /// Attribute types of the RDN.
    pub(crate) naming: Vec<TypeId>,
    /// Whether the entry is an administrative point.
    pub(crate) is_point: bool,
}

/// Reason why an entry may not have its RDN or its superior.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misplaced {
    /// The RDN follows no name form of the class.
    Name(ClassId),
    /// No structure rule of the class permits the superior. The second field is the rule that governs the superior.
    Place(ClassId, GoverningRule),
}

impl Placed {
    /// Returns the facts about an entry with this RDN. For a suffix entry, `rdn` is its whole DN.
    pub(crate) fn of(
        schema: &Schema,
        (class, flags): (Option<ClassId>, NodeFlags),
        rdn: &str,
        is_point: bool,
    ) -> Placed {
        let class = class.filter(|_| !flags.is_subentry() && !flags.is_referral());
        let parsed = Dn::parse(rdn).ok();
        let avas = parsed.iter().filter_map(Dn::rdn).flat_map(|rdn| rdn.avas);
        let types = avas.filter_map(|ava| schema.attribute_type(ava.attribute));
        Placed { class, naming: types.map(|known| known.id).collect(), is_point }
    }

    /// Returns the facts about a stored entry.
    pub(crate) fn of_node(state: TreeState<'_>, id: EntryId, node: &NodeRow<'_>) -> Result<Placed> {
        match role_attribute(state.catalog) {
            None => Placed::of_stored(state.catalog, (id, node), false),
            Some(_) => Placed::of_row(state.read, state.catalog, id, (node, &entry_row(state.read, id)?)),
        }
    }

    /// Returns the facts about a stored entry, whose entry row is already read.
    pub(crate) fn of_row(
        read: &Read,
        catalog: &Catalog,
        id: EntryId,
        (node, row): (&NodeRow<'_>, &EntryRow<'_>),
    ) -> Result<Placed> {
        let has_role = match role_attribute(catalog) {
            Some(role) => {
                let values = of_content(read, id, role, row.find(role).map(|found| found.content))?;
                is_administrative_point(values.iter().map(Vec::as_slice))
            }
            None => false,
        };
        Placed::of_stored(catalog, (id, node), has_role)
    }

    fn of_stored(catalog: &Catalog, (id, node): (EntryId, &NodeRow<'_>), has_role: bool) -> Result<Placed> {
        let is_point = has_role || node.parent == EntryId::ROOT;
        let rdn = node.rdn_text().ok_or_else(|| damaged_row("nodes", id))?;
        let class = catalog.class_set(node.class_set).structural;
        Ok(Placed::of(&catalog.schema, (class, node.flags), rdn, is_point))
    }

    /// Appends the facts in the encoding for temporary files. At least one byte is appended.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_point));
        let class = self.class.map_or(NO_CLASS, |class| class.0);
        out.extend_from_slice(&class.to_be_bytes());
        self.naming.iter().for_each(|type_id| out.extend_from_slice(&type_id.0.to_be_bytes()));
    }

    /// Decodes facts; `None` if the bytes were not written by [`encode`](Self::encode).
    pub(crate) fn decode(bytes: &[u8]) -> Option<Placed> {
        let (is_point, rest) = bytes.split_first()?;
        let (numbers, []) = rest.as_chunks() else { return None };
        let mut numbers = numbers.iter().map(|number| u32::from_be_bytes(*number));
        let class = numbers.next().filter(|class| *class != NO_CLASS).map(ClassId);
        Some(Placed { class, naming: numbers.map(TypeId).collect(), is_point: *is_point != 0 })
    }

    /// Checks the RDN against the name forms of the class.
    pub(crate) fn check_name(&self, schema: &Schema) -> std::result::Result<(), Misplaced> {
        let Some(class) = self.class else { return Ok(()) };
        let mut forms = schema.name_forms_of(class).peekable();
        match forms.peek().is_none() || forms.any(|form| form.permits(&self.naming)) {
            true => Ok(()),
            false => Err(Misplaced::Name(class)),
        }
    }

    /// Returns the rule that governs the entry, given the rule that governs its superior.
    pub(crate) fn governed_below(
        &self,
        schema: &Schema,
        superior: GoverningRule,
    ) -> std::result::Result<GoverningRule, Misplaced> {
        self.check_name(schema)?;
        let Some(class) = self.class else { return Ok(None) };
        let mut is_regulated = superior.is_some() && !self.is_point;
        let mut governing: GoverningRule = None;
        for (rule, form) in schema.structure_rules_of(class) {
            is_regulated = true;
            let is_place = match rule.is_of_points() {
                true => self.is_point,
                false => superior.is_some_and(|superior| rule.superiors.contains(&superior)),
            };
            if is_place && form.permits(&self.naming) && governing.is_none_or(|other| rule.id < other) {
                governing = Some(rule.id);
            }
        }
        match governing.is_none() && is_regulated {
            true => Err(Misplaced::Place(class, superior)),
            false => Ok(governing),
        }
    }
}

impl Misplaced {
    /// Returns the reason as a sentence for clients and administrators.
    pub(crate) fn describe(self, schema: &Schema) -> String {
        match self {
            Misplaced::Name(class) => {
                let forms: Vec<String> =
                    schema.name_forms_of(class).map(|form| form_text(schema, form)).collect();
                let class = schema.class_by_id(class).name();
                format!("the RDN follows no name form of {class}: {}", forms.join("; "))
            }
            Misplaced::Place(class, superior) => {
                let below = match superior {
                    Some(rule) => format!("below an entry that the DIT structure rule {rule} governs"),
                    None => "here: no DIT structure rule governs the superior".to_owned(),
                };
                let rules: Vec<String> =
                    schema.structure_rules_of(class).map(|(rule, _)| rule.id.to_string()).collect();
                let class = schema.class_by_id(class).name();
                match rules.is_empty() {
                    true => format!("{class} has no DIT structure rule, so it may not be {below}"),
                    false => {
                        format!("no DIT structure rule of {class} ({}) permits it {below}", rules.join(", "))
                    }
                }
            }
        }
    }
}

fn form_text(schema: &Schema, form: &NameForm) -> String {
    let names = |types: &[TypeId]| {
        let names: Vec<_> = types.iter().map(|type_id| schema.type_by_id(*type_id).name()).collect();
        names.join(", ")
    };
    let mut text = format!("{} needs {}", form.name(), names(&form.must));
    if !form.may.is_empty() {
        text += &format!(" and allows {}", names(&form.may));
    }
    text
}

/// Returns true if values of administrativeRole make an entry an administrative point of the subschema.
pub(crate) fn is_administrative_point<'v>(mut roles: impl Iterator<Item = &'v [u8]>) -> bool {
    roles.any(|role| POINT_ROLES.iter().any(|known| role.eq_ignore_ascii_case(known.as_bytes())))
}

/// Returns the type administrativeRole, if the schema defines it.
pub(crate) fn role_type(schema: &Schema) -> Option<TypeId> {
    schema.attribute_type(ADMINISTRATIVE_ROLE).map(|known| known.id)
}

/// Returns the number of administrativeRole, if any entry has ever had the attribute.
fn role_attribute(catalog: &Catalog) -> Option<AttrId> {
    catalog.attribute_id(role_type(&catalog.schema)?, "")
}

/// Returns the rule that governs a stored entry; `None` if no rule governs the entry, or if the entry violates the
/// rules.
pub(crate) fn governing_rule(state: TreeState<'_>, id: EntryId) -> Result<GoverningRule> {
    let schema = &*state.catalog.schema;
    if schema.structure_rules().is_empty() {
        return Ok(None);
    }
    // First go up as long as the governing rule depends on the superior. Then compute the rules from the highest
    // superior reached down to the entry.
    let (mut path, mut at) = (Vec::new(), id);
    while at != EntryId::ROOT && path.len() <= TREE_DEPTH_MAX {
        let node = state.node(at)?.ok_or_else(|| damaged_row("nodes", at))?;
        let placed = Placed::of_node(state, at, &node)?;
        let has_rules = placed.class.is_some_and(|class| schema.structure_rules_of(class).next().is_some());
        if !has_rules {
            break;
        }
        path.push(placed);
        at = node.parent;
    }
    let mut rule = None;
    for placed in path.iter().rev() {
        rule = placed.governed_below(schema, rule).unwrap_or_default();
    }
    Ok(rule)
}
