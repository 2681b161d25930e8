//! Differences between declared entries and those of a server.

use std::collections::{HashMap, HashSet};

use client::Entry;
use directory::password;
use ldap::{Dn, filter_value};

use super::change::{AttributeChange, EntryChange, Kind, OWNED, OWNER};
use super::file::{DeclaredAttribute, DeclaredEntry, DeclaredValue, bare_name};
use crate::comparison::{Comparison, comparison_of};
use crate::named::{Named, USER, parse};

/// Value that the server replaces with the next free number.
const NEXT: &[u8] = b"{next}";

/// Computes the changes for the declarations of one owner.
pub(super) struct Planner<'c> {
    named: &'c mut Named,
    comparison: Comparison,
    owner: &'c str,
}

impl<'c> Planner<'c> {
    pub(super) fn new(named: &'c mut Named, owner: &'c str) -> Result<Planner<'c>, String> {
        let comparison = comparison_of(&mut named.connection).map_err(|error| error.to_string())?;
        Ok(Planner { named, comparison, owner })
    }

    /// Returns the changes in an order in which they can be made: superiors first, and groups after their members. If
    /// `prunes` is true, deletes of entries that are no longer declared come last.
    pub(super) fn changes(
        &mut self,
        entries: &[DeclaredEntry],
        prunes: bool,
    ) -> Result<Vec<EntryChange>, String> {
        let mut sorted: Vec<&DeclaredEntry> = entries.iter().collect();
        sorted.sort_by_key(|entry| (entry.is_group, depth(&entry.dn)));
        let names: HashMap<String, String> = sorted.iter().flat_map(|entry| short_names(entry)).collect();
        let (mut changes, mut declared) = (Vec::new(), HashSet::new());
        for entry in sorted {
            let change = match declared.insert(self.comparison.dn_key(&entry.dn)) {
                true => self.change(entry, &names)?,
                false => Some(refused(entry, "the entry is declared twice".to_owned())),
            };
            changes.extend(change);
        }
        if prunes {
            let mut deletes = self.owned(&declared)?;
            deletes.sort_by_key(|change| std::cmp::Reverse(depth(&change.dn)));
            changes.extend(deletes);
        }
        Ok(changes)
    }

    /// Returns the deletes of the entries of this owner that are no longer declared.
    fn owned(&mut self, declared: &HashSet<Vec<u8>>) -> Result<Vec<EntryChange>, String> {
        let filter = parse(&format!("({OWNER}={})", filter_value(self.owner)))?;
        let mut found: Vec<Entry> = Vec::new();
        self.named.each(None, &filter, &["entryCSN"], &mut |entry| {
            found.push(Entry::from(entry));
            Ok(())
        })?;
        let undeclared =
            found.into_iter().filter(|entry| !declared.contains(&self.comparison.dn_key(&entry.dn)));
        let delete = |entry: Entry| EntryChange {
            kind: Kind::Delete,
            csn: entry.text("entryCSN"),
            dn: entry.dn,
            place: None,
            attributes: Vec::new(),
            refusal: None,
        };
        Ok(undeclared.map(delete).collect())
    }

    /// Returns the change that brings an entry to the declared state. Returns `None` if the entry is already in this
    /// state.
    fn change(
        &mut self,
        entry: &DeclaredEntry,
        names: &HashMap<String, String>,
    ) -> Result<Option<EntryChange>, String> {
        let mut stated: Vec<DeclaredAttribute> = Vec::new();
        for DeclaredAttribute { name, values } in &entry.attributes {
            stated.push(DeclaredAttribute { name: self.comparison.canonical(name), values: values.clone() });
        }
        let members = entry.members.as_deref().map(|members| self.members(members, names)).transpose();
        let members = match members {
            Ok(members) => members,
            Err(reason) => return Ok(Some(refused(entry, reason))),
        };
        let selection = stated.iter().map(|attribute| attribute.name.as_str());
        let fixed = ["objectClass", "member", "uniqueMember", "entryCSN", OWNER, OWNED];
        let fixed = fixed.into_iter().filter(|name| members.is_some() || !name.ends_with("ember"));
        let selection: Vec<&str> = selection.chain(fixed).collect();
        let stored = self.named.connection.entry(&entry.dn, &selection).map_err(|error| error.to_string())?;
        let classes = stored.as_ref().map(|stored| stored.texts("objectClass")).unwrap_or_default();
        if let Some(members) = members {
            let is_unique = is_of_unique_names(&stated, &classes);
            let name = if is_unique { "uniqueMember" } else { "member" }.to_owned();
            stated.push(DeclaredAttribute { name, values: members });
        }
        let Some(stored) = stored else { return Ok(Some(self.addition(entry, stated))) };
        match stored.text(OWNER) {
            Some(owner) if owner == self.owner => {}
            Some(owner) => {
                return Ok(Some(refused(entry, format!("the entry belongs to the owner {owner}"))));
            }
            None if entry.adopt => {}
            None => {
                let reason = "the entry exists without an owner; adopt = true takes it over".to_owned();
                return Ok(Some(refused(entry, reason)));
            }
        }
        self.difference(entry, &stated, &stored)
    }

    fn addition(&self, entry: &DeclaredEntry, mut stated: Vec<DeclaredAttribute>) -> EntryChange {
        let marks = self.marks(&stated);
        if entry.is_group && !stated.iter().any(|attribute| attribute.name == "objectClass") {
            let has_members = stated.iter().any(|attribute| {
                ["member", "uniqueMember"].contains(&attribute.name.as_str()) && !attribute.values.is_empty()
            });
            let class = if has_members { "groupOfNames" } else { "groupOfMembers" };
            let values = vec![DeclaredValue::text(class)];
            stated.insert(0, DeclaredAttribute { name: "objectClass".to_owned(), values });
        }
        for (name, value) in self.rdn_values(&entry.dn) {
            match stated.iter_mut().find(|attribute| attribute.name == name) {
                Some(attribute) => attribute.values = self.with_value(&name, &attribute.values, value),
                None => stated.push(DeclaredAttribute { name, values: vec![value] }),
            }
        }
        let added = stated.into_iter().filter(|attribute| !attribute.values.is_empty()).chain(marks);
        let attributes = added.map(|DeclaredAttribute { name, values }| AttributeChange {
            name,
            added: values,
            ..AttributeChange::default()
        });
        EntryChange { attributes: attributes.collect(), ..declared_change(entry, Kind::Add) }
    }

    fn difference(
        &mut self,
        entry: &DeclaredEntry,
        stated: &[DeclaredAttribute],
        stored: &Entry,
    ) -> Result<Option<EntryChange>, String> {
        let rdn = self.rdn_values(&entry.dn);
        let mut attributes = Vec::new();
        for DeclaredAttribute { name, values } in stated {
            let of_rdn = rdn.iter().filter(|(other, _)| other == name).map(|(_, value)| value.clone());
            let values = of_rdn.fold(values.clone(), |values, value| self.with_value(name, &values, value));
            attributes.extend(self.attribute_change(name, &values, stored.values(name)));
        }
        let mut undeclared = stored.texts(OWNED);
        undeclared.retain(|name| !stated.iter().any(|attribute| attribute.name.eq_ignore_ascii_case(name)));
        if !undeclared.is_empty() {
            let names: Vec<&str> = undeclared.iter().map(String::as_str).collect();
            let rest = self.named.connection.entry(&entry.dn, &names).map_err(|error| error.to_string())?;
            for name in undeclared {
                let values = rest.as_ref().map(|rest| rest.values(&name)).unwrap_or_default();
                let of_rdn = rdn.iter().filter(|(other, _)| other.eq_ignore_ascii_case(&name));
                let rdn_values: Vec<DeclaredValue> = of_rdn.map(|(_, value)| value.clone()).collect();
                let change = self.attribute_change(&name, &rdn_values, values);
                attributes.extend(change.map(|change| AttributeChange { hides_removed: true, ..change }));
            }
        }
        for DeclaredAttribute { name, values } in self.marks(stated) {
            attributes.extend(self.attribute_change(&name, &values, stored.values(&name)));
        }
        if attributes.is_empty() {
            return Ok(None);
        }
        let Some(csn) = stored.text("entryCSN") else {
            return Ok(Some(refused(entry, "the identity may not read entryCSN of the entry".to_owned())));
        };
        Ok(Some(EntryChange { attributes, csn: Some(csn), ..declared_change(entry, Kind::Change) }))
    }

    /// Returns the change from the stored to the declared values. Returns `None` if they are equal, or if the attribute
    /// has values and the declaration requests the next free number.
    fn attribute_change(
        &self,
        name: &str,
        stated: &[DeclaredValue],
        stored: &[Vec<u8>],
    ) -> Option<AttributeChange> {
        let is_next = |value: &DeclaredValue| value.bytes == NEXT;
        if !stored.is_empty() && stated.iter().any(is_next) {
            return None;
        }
        if bare_name(name) == "userpassword" {
            return password_change(name, stated, stored);
        }
        let bytes: Vec<&[u8]> = stated.iter().map(|value| value.bytes.as_slice()).collect();
        let (added, removed) = self.comparison.difference(name, &bytes, stored);
        if added.is_empty() && removed.is_empty() {
            return None;
        }
        // Without an equality rule, a modify cannot delete a single value (RFC 4511 section 4.6), so all values are
        // replaced.
        let is_replaced = !self.comparison.has_equality(name) && !stored.is_empty();
        Some(AttributeChange {
            name: name.to_owned(),
            added: added.iter().filter_map(|place| stated.get(*place)).cloned().collect(),
            removed: removed.iter().filter_map(|place| stored.get(*place)).cloned().collect(),
            replacement: is_replaced.then(|| stated.to_vec()),
            hides_removed: stated.iter().any(|value| value.source.is_some()),
        })
    }

    fn marks(&self, stated: &[DeclaredAttribute]) -> Vec<DeclaredAttribute> {
        let names = stated.iter().map(|attribute| &attribute.name).filter(|name| *name != "objectClass");
        let owned = DeclaredAttribute {
            name: OWNED.to_owned(),
            values: names.map(|name| DeclaredValue::text(name)).collect(),
        };
        let owner =
            DeclaredAttribute { name: OWNER.to_owned(), values: vec![DeclaredValue::text(self.owner)] };
        let marks = [owner, owned].into_iter();
        marks.filter(|mark| mark.name == OWNER || !mark.values.is_empty()).collect()
    }

    /// Returns the DNs of members. The declaration may contain their short names.
    fn members(
        &mut self,
        members: &[String],
        names: &HashMap<String, String>,
    ) -> Result<Vec<DeclaredValue>, String> {
        let dn = |member: &String| match names.get(&member.to_lowercase()) {
            Some(dn) => Ok(DeclaredValue::text(dn)),
            None => self.named.dn(&USER, member).map(|dn| DeclaredValue::text(&dn)),
        };
        members.iter().map(dn).collect()
    }

    /// Returns the attributes and values in the RDN of a DN.
    fn rdn_values(&self, dn: &str) -> Vec<(String, DeclaredValue)> {
        let Ok(parsed) = Dn::parse(dn) else { return Vec::new() };
        let Some(rdn) = parsed.rdn() else { return Vec::new() };
        let value = |value: &[u8]| DeclaredValue { bytes: value.to_vec(), source: None };
        rdn.avas.iter().map(|ava| (self.comparison.canonical(ava.attribute), value(&ava.value))).collect()
    }

    /// Returns the values, and also `more` unless it is equal to one of the values.
    fn with_value(&self, name: &str, values: &[DeclaredValue], more: DeclaredValue) -> Vec<DeclaredValue> {
        let normal = |value: &DeclaredValue| self.comparison.normal(name, &value.bytes);
        let is_there = values.iter().any(|value| normal(value) == normal(&more));
        values.iter().cloned().chain(Some(more).filter(|_| !is_there)).collect()
    }
}

fn declared_change(entry: &DeclaredEntry, kind: Kind) -> EntryChange {
    EntryChange {
        kind,
        dn: entry.dn.clone(),
        place: Some(format!("{}:{}", entry.file.display(), entry.line)),
        attributes: Vec::new(),
        csn: None,
        refusal: None,
    }
}

fn refused(entry: &DeclaredEntry, reason: String) -> EntryChange {
    EntryChange { refusal: Some(reason), ..declared_change(entry, Kind::Change) }
}

fn depth(dn: &str) -> usize {
    Dn::parse(dn).map_or(0, |dn| dn.len())
}

/// Returns the short names of a declared entry, each with the entry's DN. Declarations of groups may name the entry by
/// its short names.
fn short_names(entry: &DeclaredEntry) -> Vec<(String, String)> {
    let dn = Dn::parse(&entry.dn).ok();
    let rdn = dn.as_ref().and_then(Dn::rdn);
    let avas = rdn.map(|rdn| rdn.avas).unwrap_or_default();
    let named = avas.iter().filter(|ava| ava.attribute.eq_ignore_ascii_case("uid"));
    let mut names: Vec<Vec<u8>> = named.map(|ava| ava.value.to_vec()).collect();
    let uids = entry.attributes.iter().filter(|attribute| attribute.name.eq_ignore_ascii_case("uid"));
    names.extend(uids.flat_map(|attribute| attribute.values.iter().map(|value| value.bytes.clone())));
    names.iter().map(|name| (String::from_utf8_lossy(name).to_lowercase(), entry.dn.clone())).collect()
}

fn is_of_unique_names(stated: &[DeclaredAttribute], stored: &[String]) -> bool {
    let stated = stated.iter().find(|attribute| attribute.name == "objectClass");
    let stated = stated.map(|attribute| attribute.values.as_slice()).unwrap_or_default();
    let is = |name: &str| name.eq_ignore_ascii_case("groupOfUniqueNames");
    stored.iter().any(|name| is(name))
        || stated.iter().any(|value| is(&String::from_utf8_lossy(&value.bytes)))
}

/// Returns the change of passwords. Returns `None` if the stored values, which may be hashed, match the declared
/// passwords.
fn password_change(name: &str, stated: &[DeclaredValue], stored: &[Vec<u8>]) -> Option<AttributeChange> {
    let is_stored = |value: &DeclaredValue| {
        stored.iter().any(|stored| {
            *stored == value.bytes
                || !password::is_hashed(&value.bytes) && password::verify(stored, &value.bytes)
        })
    };
    if stated.len() == stored.len() && stated.iter().all(is_stored) {
        return None;
    }
    let added = stated.to_vec();
    Some(AttributeChange {
        name: name.to_owned(),
        replacement: Some(added.clone()),
        added,
        ..AttributeChange::default()
    })
}
