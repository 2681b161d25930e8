//! Definitions of one kind, without duplicates.

use super::Mistakes;
use crate::definition::{Aliases, Definition, Kind};
use crate::names::NameTable;
use crate::schema_file::Located;
use crate::{SchemaError, SchemaErrorKind};

/// Name, file and line of the first definition of each OID. All tables share this map, so no two kinds of definition
/// have the same OID.
pub(super) type Oids = std::collections::HashMap<String, String>;

/// A definition with the OID or name of an earlier definition.
pub(super) struct Copy<'a> {
    pub(super) located: &'a Located,
    /// Index of the earlier definition.
    pub(super) of: usize,
}

/// Definitions of one kind, without duplicates. The index of a definition is its id.
pub(super) struct Table<'a> {
    pub(super) list: Vec<&'a Located>,
    /// Names and OIDs of all definitions, including copies.
    pub(super) names: NameTable,
    pub(super) copies: Vec<Copy<'a>>,
    /// Maps each name that only copies have, in lower case, to the canonical name of the published definition.
    pub(super) aliases: Aliases,
}

impl<'a> Table<'a> {
    pub(super) fn collect(
        definitions: impl Iterator<Item = &'a Located>,
        oids: &mut Oids,
        mistakes: &mut Mistakes,
    ) -> Table<'a> {
        let mut table = Table {
            list: Vec::new(),
            names: NameTable::default(),
            copies: Vec::new(),
            aliases: Aliases::new(),
        };
        for located in definitions {
            if let Err(kind) = table.add(located, oids) {
                mistakes.add(located.error(kind));
            }
        }
        // Adds the names that only copies have. Names in the definitions themselves take precedence.
        for Copy { located, of } in &table.copies {
            let definition = &located.definition;
            for name in definition.many("NAME").iter().chain([&definition.oid]) {
                if table.names.insert(name, *of).is_none()
                    && let Some(original) = table.list.get(*of)
                {
                    table.aliases.insert(name.to_ascii_lowercase(), original.definition.label().to_owned());
                }
            }
        }
        table
    }

    fn add(&mut self, located: &'a Located, oids: &mut Oids) -> Result<(), SchemaErrorKind> {
        let definition = &located.definition;
        let names = definition.many("NAME");
        let earlier = self.names.find(&definition.oid);
        let of = earlier.or_else(|| names.iter().find_map(|name| self.names.find(name)));
        let Some(of) = of else {
            if let Some(other) = oids.insert(definition.oid.to_ascii_lowercase(), located.place()) {
                return Err(SchemaErrorKind::DuplicateOid { oid: definition.oid.clone(), other });
            }
            let index = self.list.len();
            self.names.insert(&definition.oid, index);
            for name in names {
                self.names.insert(name, index);
            }
            self.list.push(located);
            return Ok(());
        };
        let other = |index: usize| self.list.get(index).copied();
        let place = |index| other(index).map_or_else(String::new, Located::place);
        let oid_and_place = |index| match other(index) {
            Some(other) => format!("{} {}", other.definition.oid, other.place()),
            None => String::new(),
        };
        if let Some(name) = names.iter().find(|name| self.names.find(name).is_some_and(|index| index != of)) {
            let other = self.names.find(name).map_or_else(String::new, oid_and_place);
            return Err(SchemaErrorKind::DuplicateName { name: name.clone(), other });
        }
        let shares_name = names.iter().any(|name| self.names.find(name) == Some(of));
        let is_shipped = other(of).is_some_and(|other| other.shipped);
        if earlier.is_some() && is_shipped && is_replacement(definition) {
            return self.replace(of, located);
        }
        match (earlier, names.first()) {
            // The OID belongs to one definition, and the name to another.
            (Some(_), Some(_)) if !shares_name => {
                Err(SchemaErrorKind::DuplicateOid { oid: definition.oid.clone(), other: place(of) })
            }
            (None, Some(name)) if !is_shipped => {
                Err(SchemaErrorKind::DuplicateName { name: name.clone(), other: oid_and_place(of) })
            }
            _ => {
                self.copies.push(Copy { located, of });
                Ok(())
            }
        }
    }

    /// Replaces a shipped class by a class with the same attributes. The new class may make required attributes
    /// optional.
    fn replace(&mut self, of: usize, located: &'a Located) -> Result<(), SchemaErrorKind> {
        let Some(original) = self.list.get_mut(of) else { return Ok(()) };
        let (old, new) = (&original.definition, &located.definition);
        let has = |definition: &Definition, terms: &[&str], name: &String| {
            terms
                .iter()
                .any(|term| definition.many(term).iter().any(|other| other.eq_ignore_ascii_case(name)))
        };
        let mut all = old.many("MUST").iter().chain(old.many("MAY"));
        let is_relaxed = all.all(|name| has(new, &["MUST", "MAY"], name))
            && new.many("MUST").iter().all(|name| has(old, &["MUST"], name))
            && old.many("NAME").iter().all(|name| has(new, &["NAME"], name))
            && old.many("SUP") == new.many("SUP")
            && ["ABSTRACT", "AUXILIARY"].iter().all(|term| old.flag(term) == new.flag(term));
        if !is_relaxed {
            return Err(SchemaErrorKind::Contradiction {
                name: new.label().to_owned(),
                other: original.place(),
                what: "X-PANDO-REPLACES may only make required attributes optional".to_owned(),
            });
        }
        *original = located;
        Ok(())
    }

    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.names.find(name)
    }

    /// Returns the indexes in an order in which superiors come before their subordinates. Definitions that derive from
    /// themselves, which is a mistake, are omitted.
    #[expect(
        clippy::indexing_slicing,
        reason = "each definition has its place in all lists, and superiors are places"
    )]
    pub(super) fn by_inheritance(&self, superiors: &[Vec<usize>], mistakes: &mut Mistakes) -> Vec<usize> {
        let mut done = vec![false; self.list.len()];
        let mut order = Vec::with_capacity(self.list.len());
        while order.len() < self.list.len() {
            let before = order.len();
            for index in 0..self.list.len() {
                if !done[index] && superiors[index].iter().all(|&superior| done[superior]) {
                    done[index] = true;
                    order.push(index);
                }
            }
            if order.len() == before {
                mistakes.add(self.cycle(superiors, &done));
                break;
            }
        }
        order
    }

    /// Returns a definition that derives from itself: follows superiors that are not in order yet until one repeats.
    #[expect(
        clippy::indexing_slicing,
        reason = "each definition has its place in all lists, and superiors are places"
    )]
    fn cycle(&self, superiors: &[Vec<usize>], done: &[bool]) -> SchemaError {
        let mut at = done.iter().position(|done| !done).unwrap_or(0);
        let mut seen = Vec::new();
        while !seen.contains(&at) {
            seen.push(at);
            at = superiors[at].iter().copied().find(|&superior| !done[superior]).unwrap_or(at);
        }
        let located = self.list[at];
        located.error(SchemaErrorKind::Cycle(located.definition.label().to_owned()))
    }
}

/// Returns true if a class is meant to replace the shipped class.
fn is_replacement(definition: &Definition) -> bool {
    definition.kind == Kind::ObjectClass
        && definition.extension("X-PANDO-REPLACES").is_some_and(|values| values == ["TRUE"])
}
