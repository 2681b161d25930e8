//! Definitions whose OID or name is already defined: they are equal in meaning, different, or contradictory.
//!
//! A shipped definition is never replaced, because the server relies on it; the difference is reported. Two definitions
//! contradict each other if values or entries that conform to one definition cannot conform to the other. Examples are
//! a DN and a number, or two classes with one name and different attributes. Differences in descriptions, extensions
//! and length bounds, and rules that the copy omits, are ignored.

use super::Mistakes;
use super::classes::kind_of;
use super::syntaxes::Syntaxes;
use super::table::{Copy, Table};
use super::types::{number, resolve_type};
use crate::definition::Definition;
use crate::effect::WithoutEffect;
use crate::schema_file::Located;
use crate::syntax::Check;
use crate::{AttributeType, ClassId, MatchingRule, ObjectClassDef, SchemaErrorKind, SyntaxId, TypeId};

/// Maximum number of attributes in the description of a difference.
const LISTED_MAX: usize = 12;

/// OIDs of classes of other servers that have the name of a shipped class and are seldom used. Such a class counts as a
/// difference and not as a contradiction: its entries are refused one by one, so the whole file need not be refused. At
/// present the only such class is dynamicGroup of 389 DS.
const OTHER_CLASSES: [&str; 1] = ["2.16.840.1.113730.3.2.326"];

/// Descriptions of the differences of a copy.
#[derive(Default)]
struct Difference {
    parts: Vec<String>,
    /// Whether one of the differences makes the two definitions contradict each other.
    is_contradiction: bool,
}

impl Difference {
    /// Returns the names that only the copy has, as a difference. Ignores such names if the original is shipped.
    fn of_names(original: &Located, copy: &Located) -> Difference {
        let known = original.definition.many("NAME");
        let is_known = |name: &&String| known.iter().any(|other| other.eq_ignore_ascii_case(name));
        let mut difference = Difference::default();
        if let Some(more) = copy.definition.many("NAME").iter().find(|name| !is_known(name))
            && !original.shipped
        {
            difference.parts.push(format!("without the name {more}"));
        }
        difference
    }

    /// Adds a difference if the property `what` is `own` in the original and has another value, `other`, in the copy.
    fn not(&mut self, what: &str, own: &str, other: &str) {
        if own != other {
            self.parts.push(format!("{what}{own}, not {other}"));
        }
    }

    /// Reports the difference. If neither definition is shipped, any difference is a mistake.
    fn report(
        self,
        copy: &Located,
        original: &Located,
        mistakes: &mut Mistakes,
        notices: &mut Vec<WithoutEffect>,
    ) {
        let (name, oid) = (copy.definition.label(), &copy.definition.oid);
        let what = self.parts.join("; ");
        if self.is_contradiction {
            let kind =
                SchemaErrorKind::Contradiction { name: name.to_owned(), other: original.place(), what };
            mistakes.add(copy.error(kind));
        } else if self.parts.is_empty() {
        } else if original.shipped {
            notices.push(WithoutEffect::notice(copy, &format!("stays as shipped: {what}")));
        } else {
            let kind = SchemaErrorKind::DuplicateOid { oid: oid.clone(), other: original.place() };
            mistakes.add(copy.error(kind));
        }
    }
}

/// Compares the copies of attribute types with their originals.
pub(super) fn compare_types(
    types: &Table<'_>,
    resolved: &[Option<AttributeType>],
    syntaxes: &Syntaxes,
    mistakes: &mut Mistakes,
) -> Vec<WithoutEffect> {
    let mut notices = Vec::new();
    for &Copy { located, of } in &types.copies {
        let (Some(original), Some(Some(own))) = (types.list.get(of), resolved.get(of)) else { continue };
        if original.definition.is_repeated_by(&located.definition) {
            continue;
        }
        let superior = located.definition.one("SUP").map(|name| types.find(name));
        let superior = superior.map(|index| index.and_then(|index| resolved.get(index)?.as_ref()));
        let mut difference = Difference::of_names(original, located);
        match resolve_type(TypeId(number(of)), &located.definition, superior.flatten(), syntaxes) {
            _ if matches!(superior, Some(None)) => {
                let name = located.definition.one("SUP").unwrap_or_default();
                difference.parts.push(format!("the superior {name:?} is not defined"));
            }
            Ok(other) => difference.types((own, &other), (types, syntaxes)),
            Err(kind) => difference.parts.push(kind.to_string()),
        }
        difference.report(located, original, mistakes, &mut notices);
    }
    notices
}

impl Difference {
    fn types(
        &mut self,
        (own, other): (&AttributeType, &AttributeType),
        (types, syntaxes): (&Table<'_>, &Syntaxes),
    ) {
        self.not("OID ", &own.oid, &other.oid);
        let syntax = |id: SyntaxId| syntaxes.list.get(usize::from(id.0));
        if let (Some(of_own), Some(of_other)) = (syntax(own.syntax), syntax(other.syntax)) {
            if of_own.oid != of_other.oid {
                self.not("SYNTAX ", &of_own.description, &of_other.description);
            }
            // A type with another OID is not meant to be the same type. If the values of this type are text, the
            // difference is no contradiction, because each value is checked.
            let is_text = own.oid != other.oid && family(of_other.check) == Family::Text;
            self.is_contradiction = !is_text && contradict(of_own.check, of_other.check);
        }
        let superior = |id: Option<TypeId>| {
            let located = id.and_then(|id| types.list.get(id.0 as usize));
            located.map_or("none", |located| located.definition.label())
        };
        self.not("SUP ", superior(own.sup), superior(other.sup));
        let rules = [
            ("EQUALITY ", own.equality, other.equality),
            ("ORDERING ", own.ordering, other.ordering),
            ("SUBSTR ", own.substring, other.substring),
        ];
        for (what, own, other) in rules {
            if let Some(other) = other {
                self.not(what, own.map_or("none", MatchingRule::name), other.name());
            }
        }
        let flags = [
            (own.single_value, other.single_value, "single-valued", "multi-valued"),
            (own.collective, other.collective, "collective", "of each entry"),
            (own.no_user_modification, other.no_user_modification, "set by the server", "set by users"),
            (own.is_operational(), other.is_operational(), "operational", "of users"),
        ];
        for (own, other, yes, no) in flags {
            let word = |is| if is { yes } else { no };
            self.not("", word(own), word(other));
        }
    }

    fn classes(&mut self, (own, other): (&ObjectClassDef, &Class<'_>), types: &Table<'_>) {
        self.not("OID ", &own.oid, &other.definition.oid);
        let kind = kind_of(other.definition);
        self.not("", own.kind.name(), kind.name());
        let is_allowed = |id: &TypeId| own.all_must.contains(id) || own.all_may.contains(id);
        let label = |id: &TypeId| {
            types
                .list
                .get(id.0 as usize)
                .map_or_else(String::new, |located| located.definition.label().into())
        };
        let labels = |ids: &[TypeId], is_listed: &dyn Fn(&TypeId) -> bool| {
            ids.iter().filter(|id| is_listed(id)).map(label).collect::<Vec<_>>()
        };
        let mut foreign = labels(&other.allowed, &|id| !is_allowed(id));
        foreign.extend(other.undefined.iter().cloned());
        let is_same =
            own.oid == other.definition.oid || OTHER_CLASSES.contains(&other.definition.oid.as_str());
        self.is_contradiction = !is_same && (own.kind != kind || !foreign.is_empty());
        let lists = [
            (labels(&own.all_must, &|id| !other.required.contains(id)), "required here"),
            (
                labels(&other.required, &|id| is_allowed(id) && !own.all_must.contains(id)),
                "not required here",
            ),
            (foreign, "not allowed here"),
            (labels(&own.all_may, &|id| !other.allowed.contains(id)), "allowed here as well"),
        ];
        for (mut names, what) in lists {
            let more = names.len().saturating_sub(LISTED_MAX);
            names.truncate(LISTED_MAX);
            if !names.is_empty() {
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                self.parts.push(format!("{what}: {}{more}", names.join(", ")));
            }
        }
    }
}

/// The properties of a class that its definition gives, including inherited properties.
struct Class<'a> {
    definition: &'a Definition,
    required: Vec<TypeId>,
    /// Required and optional attributes.
    allowed: Vec<TypeId>,
    /// Attributes that are not defined.
    undefined: Vec<String>,
}

/// Compares the copies of object classes with their originals.
pub(super) fn compare_classes(
    classes: &Table<'_>,
    types: &Table<'_>,
    resolved: &[Option<ObjectClassDef>],
    mistakes: &mut Mistakes,
) -> Vec<WithoutEffect> {
    let mut notices = Vec::new();
    for &Copy { located, of } in &classes.copies {
        let (Some(original), Some(Some(own))) = (classes.list.get(of), resolved.get(of)) else { continue };
        let definition = &located.definition;
        if original.definition.is_repeated_by(definition) {
            continue;
        }
        let mut class = Class { definition, required: vec![], allowed: vec![], undefined: vec![] };
        let superiors = definition.many("SUP").iter().filter_map(|name| classes.find(name));
        for superior in superiors.filter_map(|index| resolved.get(index)?.as_ref()) {
            class.required.extend(&superior.all_must);
            class.allowed.extend(superior.all_must.iter().chain(&superior.all_may));
        }
        if !definition.flag("SUP") && own.id != ClassId(0) {
            let top = classes.find("top").and_then(|index| resolved.get(index)?.as_ref());
            class.required.extend(top.iter().flat_map(|top| &top.all_must));
            class.allowed.extend(top.iter().flat_map(|top| &top.all_must));
        }
        for (term, is_required) in [("MUST", true), ("MAY", false)] {
            for name in definition.many(term) {
                let Some(index) = types.find(name) else {
                    class.undefined.push(name.clone());
                    continue;
                };
                let id = TypeId(number(index));
                class.allowed.push(id);
                class.required.extend(is_required.then_some(id));
            }
        }
        let mut difference = Difference::of_names(original, located);
        difference.classes((own, &class), types);
        difference.report(located, original, mistakes, &mut notices);
    }
    notices
}

/// Kind of values of a syntax.
#[derive(PartialEq, Eq)]
enum Family {
    Text,
    Number,
    Time,
    Boolean,
    Name,
    Bytes,
}

fn family(check: Check) -> Family {
    match check {
        Check::Integer => Family::Number,
        Check::GeneralizedTime | Check::UtcTime => Family::Time,
        Check::Boolean => Family::Boolean,
        Check::Dn | Check::NameAndUid => Family::Name,
        Check::Any
        | Check::AttributeCertificate
        | Check::Certificate
        | Check::CertificateList
        | Check::CertificatePair => Family::Bytes,
        _ => Family::Text,
    }
}

/// Returns true if values of two syntaxes are of different kinds. A syntax of octets contradicts no other syntax,
/// because old files declare values of any kind as octets.
fn contradict(own: Check, other: Check) -> bool {
    let (own, other) = (family(own), family(other));
    own != other && own != Family::Bytes && other != Family::Bytes
}
