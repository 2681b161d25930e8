//! The simple directory: a map of entries with simple rules. All names and values are compared in lower case.

use std::collections::BTreeMap;

use fastrand::Rng;
use ldap::{ChangeOperation, ResultCode};

use crate::Comparable;
use crate::testing::SUFFIX;

/// A write operation as the client sends it.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Add {
        dn: String,
        attributes: Vec<(&'static str, Vec<String>)>,
    },
    Delete {
        dn: String,
        with_tree: bool,
    },
    Modify {
        dn: String,
        changes: Vec<(ChangeOperation, &'static str, Vec<String>)>,
    },
    ModifyDn {
        dn: String,
        new_rdn: String,
        delete_old_rdn: bool,
        new_superior: Option<String>,
    },
    /// Restores the newest deleted entry that had this DN.
    Undelete {
        dn: String,
        superior: Option<String>,
    },
    /// Adds values of a link attribute that end (expire) at this number of seconds after the beginning. 0 means no end.
    Until {
        dn: String,
        attribute: &'static str,
        values: Vec<String>,
        seconds: u64,
    },
    /// Makes the changes that are due at this number of seconds after the beginning.
    Pass {
        seconds: u64,
    },
    /// Removes all tombstones, a long time after the last delete.
    Purge {
        deletes: u64,
    },
}

/// Tombstone of a deleted entry.
#[derive(Clone, Debug)]
struct Tombstone {
    /// Number of the delete operation, shared by all entries of a deleted tree.
    delete: usize,
    dn: String,
    entry: PlainEntry,
    /// Values that named the deleted entry: the attribute, the entry, whether the value was removed, and the end time
    /// of the value.
    named_by: Vec<(&'static str, usize, bool, Option<u64>)>,
}

/// A value of a link attribute: the entry with this name, or text if there is no such entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Link {
    To(usize),
    Text(String),
}

#[derive(Clone, Debug)]
pub(crate) struct PlainEntry {
    parent: usize,
    /// The RDN in lower case, such as `cn=a`.
    rdn: String,
    pub(crate) class: &'static str,
    pub(crate) values: BTreeMap<&'static str, Vec<String>>,
    links: BTreeMap<&'static str, Vec<Link>>,
    /// End times of links, in seconds after the beginning.
    ends: Ends,
}

type Ends = BTreeMap<(&'static str, Link), u64>;

/// Number of the suffix entry, which is its own parent.
const TOP: usize = 0;

#[derive(Clone)]
pub(crate) struct Plain {
    pub(crate) entries: BTreeMap<usize, PlainEntry>,
    next: usize,
    /// Whether members are removed when their entries are deleted.
    has_integrity: bool,
    /// Whether deletes create tombstones.
    keeps_deleted: bool,
    deletes: usize,
    tombstones: BTreeMap<usize, Tombstone>,
}

/// Id that replaces the id of a deleted suffix entry in tombstones, as a superior or as the target of values. A new
/// suffix entry receives the id of the deleted suffix entry.
const GONE: usize = usize::MAX;

const LINKS: [&str; 3] = ["member", "seealso", "manager"];
const WORDS: [&str; 8] = ["a", "b", "ab", "abc", "c", "d e", "zz", "ü"];

/// Returns the suffix entry.
fn top() -> PlainEntry {
    let values = BTreeMap::from([("dc", vec!["example".to_owned()])]);
    let (rdn, links, ends) = (SUFFIX.to_owned(), BTreeMap::new(), Ends::new());
    PlainEntry { parent: TOP, rdn, class: "domain", values, links, ends }
}

fn is_link(attribute: &str) -> bool {
    LINKS.contains(&attribute.to_lowercase().as_str())
}

impl Plain {
    pub(crate) fn new(has_integrity: bool, keeps_deleted: bool) -> Plain {
        let (entries, tombstones) = (BTreeMap::from([(TOP, top())]), BTreeMap::new());
        Plain { entries, next: 1, has_integrity, keeps_deleted, deletes: 0, tombstones }
    }

    pub(crate) fn dn(&self, id: usize) -> String {
        let entry = &self.entries[&id];
        if id == TOP { entry.rdn.clone() } else { format!("{},{}", entry.rdn, self.dn(entry.parent)) }
    }

    fn find(&self, dn: &str) -> Option<usize> {
        let dn = dn.to_lowercase();
        self.entries.keys().copied().find(|id| self.dn(*id) == dn)
    }

    fn has_children(&self, id: usize) -> bool {
        self.entries.iter().any(|(child, entry)| *child != TOP && entry.parent == id)
    }

    fn is_at_or_below(&self, mut id: usize, ancestor: usize) -> bool {
        while id != ancestor && id != TOP {
            id = self.entries[&id].parent;
        }
        id == ancestor
    }

    fn link(&self, value: &str) -> Link {
        self.find(value).map_or_else(|| Link::Text(value.to_lowercase()), Link::To)
    }

    fn text(&self, link: &Link) -> String {
        match link {
            Link::To(id) => self.dn(*id),
            Link::Text(text) => text.clone(),
        }
    }

    fn texts(&self, links: &[Link]) -> Vec<String> {
        links.iter().map(|link| self.text(link)).collect()
    }

    /// Returns the values of any attribute, including links and memberOf.
    pub(crate) fn values(&self, id: usize, attribute: &str) -> Vec<String> {
        let entry = &self.entries[&id];
        if attribute == "memberof" {
            let groups = self.entries.iter().filter(|(_, group)| {
                group.links.get("member").is_some_and(|links| links.contains(&Link::To(id)))
            });
            return groups.map(|(group, _)| self.dn(*group)).collect();
        }
        if attribute == "ismemberof" {
            return self.nested_groups(id).iter().map(|group| self.dn(*group)).collect();
        }
        if attribute == "valueend" {
            let end = |((name, link), seconds): (&(&str, Link), &u64)| {
                format!("{} {name} {}", time(*seconds), self.text(link))
            };
            return entry.ends.iter().map(end).collect();
        }
        if attribute == "membershipend" {
            let mut own = Vec::new();
            for (source, entry) in &self.entries {
                let named = entry.ends.iter().filter(|((_, link), _)| *link == Link::To(id));
                own.extend(
                    named.map(|((name, _), seconds)| {
                        format!("{} {name} {}", time(*seconds), self.dn(*source))
                    }),
                );
            }
            return own;
        }
        match entry.links.get(attribute) {
            Some(links) => self.texts(links),
            None => entry.values.get(attribute).cloned().unwrap_or_default(),
        }
    }

    fn nested_groups(&self, id: usize) -> Vec<usize> {
        let (mut open, mut seen) = (vec![id], Vec::new());
        while let Some(at) = open.pop() {
            for (group, entry) in &self.entries {
                let members = entry.links.get("member");
                if members.is_some_and(|links| links.contains(&Link::To(at))) && !seen.contains(group) {
                    seen.push(*group);
                    open.push(*group);
                }
            }
        }
        seen
    }

    /// Returns true if a chain of values leads from the entry `id` to the entry `target`, a name in lower case.
    pub(crate) fn leads(&self, id: usize, attribute: &str, target: &str) -> bool {
        let (mut open, mut seen) = (vec![id], Vec::new());
        while let Some(at) = open.pop() {
            for end in self.values(at, attribute) {
                if end.to_lowercase() == target {
                    return true;
                }
                let next = self.entries.keys().copied().find(|id| self.dn(*id) == end);
                if let Some(next) = next.filter(|next| !seen.contains(next)) {
                    seen.push(next);
                    open.push(next);
                }
            }
        }
        false
    }

    pub(crate) fn comparable(&self) -> BTreeMap<String, Comparable> {
        let entry = |(id, entry): (&usize, &PlainEntry)| {
            let computed = ["memberof", "ismemberof", "valueend", "membershipend"];
            let names = entry.values.keys().chain(entry.links.keys()).copied().chain(computed);
            let mut attributes: Comparable =
                names.map(|name| (name.to_owned(), self.values(*id, name))).collect();
            attributes.retain(|_, values| !values.is_empty());
            attributes.values_mut().for_each(|values| values.sort());
            let mut classes = vec![entry.class.to_lowercase()];
            if entry.class == "inetOrgPerson" {
                classes.push("posixaccount".to_owned());
            }
            attributes.insert("objectclass".to_owned(), classes);
            let children = self.entries.iter().filter(|(child, e)| **child != TOP && e.parent == *id).count();
            attributes.insert("numsubordinates".to_owned(), vec![children.to_string()]);
            (self.dn(*id), attributes)
        };
        self.entries.iter().map(entry).collect()
    }

    /// Executes an operation. Returns the acceptable result codes, usually one.
    pub(crate) fn execute(&mut self, operation: &Operation) -> Vec<ResultCode> {
        let result = match operation {
            Operation::Add { dn, attributes } => self.add(dn, attributes),
            Operation::Delete { dn, with_tree } => self.delete(dn, *with_tree),
            Operation::Undelete { dn, superior } => self.undelete(dn, superior.as_deref()),
            Operation::Purge { .. } => {
                self.tombstones.clear();
                self.pass(u64::MAX);
                Ok(())
            }
            Operation::Pass { seconds } => {
                self.pass(*seconds);
                Ok(())
            }
            Operation::Until { dn, attribute, values, seconds } => {
                self.modify(dn, &[(ChangeOperation::Add, attribute, values.clone())], Some(*seconds))
            }
            Operation::Modify { dn, changes } => self.modify(dn, changes, None),
            Operation::ModifyDn { dn, new_rdn, delete_old_rdn, new_superior } => {
                self.modify_dn(dn, new_rdn, *delete_old_rdn, new_superior.as_deref())
            }
        };
        result.err().unwrap_or_else(|| vec![ResultCode::SUCCESS])
    }

    fn add(&mut self, dn: &str, attributes: &[(&'static str, Vec<String>)]) -> Result<(), Vec<ResultCode>> {
        let (rdn, parent) = dn.split_once(',').unwrap();
        if self.find(dn).is_some() {
            return Err(vec![ResultCode::ENTRY_ALREADY_EXISTS]);
        }
        if dn == SUFFIX {
            self.entries.insert(TOP, top());
            self.resolve_texts();
            return Ok(());
        }
        let parent = self.find(parent).ok_or(vec![ResultCode::NO_SUCH_OBJECT])?;
        let class = match attributes[0].1[0].as_str() {
            "organizationalUnit" => "organizationalUnit",
            "groupOfNames" => "groupOfNames",
            _ => "inetOrgPerson",
        };
        let rdn = rdn.to_lowercase();
        let id = self.next;
        self.next += 1;
        let links = BTreeMap::new();
        let entry =
            PlainEntry { parent, rdn: rdn.clone(), class, values: BTreeMap::new(), links, ends: Ends::new() };
        self.entries.insert(id, entry);
        for (name, values) in &attributes[1..] {
            self.put(id, name, values);
        }
        let (naming, value) = rdn.split_once('=').unwrap();
        let naming = if naming == "cn" { "cn" } else { "ou" };
        let values = self.entries.get_mut(&id).unwrap().values.entry(naming).or_default();
        if !values.iter().any(|kept| kept == value) {
            values.push(value.to_owned());
        }
        self.resolve_texts();
        Ok(())
    }

    fn put(&mut self, id: usize, name: &'static str, values: &[String]) {
        if is_link(name) {
            let mut links: Vec<Link> = Vec::new();
            for link in values.iter().map(|value| self.link(value)) {
                if !links.contains(&link) {
                    links.push(link);
                }
            }
            self.entries.get_mut(&id).unwrap().links.insert(name, links);
        } else {
            let values = values.iter().map(|value| value.to_lowercase()).collect();
            self.entries.get_mut(&id).unwrap().values.insert(name, values);
        }
    }

    /// Converts names that have an entry to links.
    fn resolve_texts(&mut self) {
        let names: BTreeMap<String, usize> = self.entries.keys().map(|id| (self.dn(*id), *id)).collect();
        for PlainEntry { links, ends, .. } in self.entries.values_mut() {
            for (attribute, links) in links {
                let mut resolved: Vec<Link> = links.clone();
                resolved.retain(|link| matches!(link, Link::To(_)));
                for link in links.drain(..) {
                    let Link::Text(text) = &link else { continue };
                    let Some(id) = names.get(text) else {
                        resolved.push(link);
                        continue;
                    };
                    let to = Link::To(*id);
                    let until = ends.remove(&(*attribute, link));
                    let until = match resolved.contains(&to) {
                        // Two values become one. The remaining value has the later end time, or none if either value
                        // has none.
                        true => until.zip(ends.remove(&(*attribute, to.clone()))).map(|(a, b)| a.max(b)),
                        false => until,
                    };
                    ends.extend(until.map(|until| ((*attribute, to.clone()), until)));
                    if !resolved.contains(&to) {
                        resolved.push(to);
                    }
                }
                *links = resolved;
            }
        }
    }

    fn delete(&mut self, dn: &str, with_tree: bool) -> Result<(), Vec<ResultCode>> {
        let id = self.find(dn).ok_or(vec![ResultCode::NO_SUCH_OBJECT])?;
        if self.has_children(id) && !with_tree {
            return Err(vec![ResultCode::NOT_ALLOWED_ON_NON_LEAF]);
        }
        if self.keeps_deleted {
            self.add_tombstones(id);
        }
        self.remove(id);
        Ok(())
    }

    /// Creates the tombstones of an entry and the entries below it.
    fn add_tombstones(&mut self, top: usize) {
        self.deletes += 1;
        let deleted: Vec<usize> =
            self.entries.keys().copied().filter(|id| self.is_at_or_below(*id, top)).collect();
        for id in deleted {
            let mut named_by = Vec::new();
            for (source, entry) in &self.entries {
                for (attribute, links) in &entry.links {
                    if links.contains(&Link::To(id)) {
                        let vanishes = self.has_integrity && *attribute == "member";
                        let until = entry.ends.get(&(*attribute, Link::To(id))).copied();
                        named_by.push((*attribute, *source, vanishes, until));
                    }
                }
            }
            let (delete, dn, entry) = (self.deletes, self.dn(id), self.entries[&id].clone());
            self.tombstones.insert(id, Tombstone { delete, dn, entry, named_by });
        }
        if top == TOP {
            // The next suffix entry will have the same number.
            self.tombstones.remove(&TOP);
            for Tombstone { entry, named_by, .. } in self.tombstones.values_mut() {
                named_by.retain(|(_, source, ..)| *source != TOP);
                let ends = std::mem::take(&mut entry.ends).into_iter();
                entry.ends = ends.filter(|((_, link), _)| *link != Link::To(TOP)).collect();
                if entry.parent == TOP {
                    entry.parent = GONE;
                }
                for link in entry.links.values_mut().flatten().filter(|link| **link == Link::To(TOP)) {
                    *link = Link::To(GONE);
                }
            }
        }
    }

    fn undelete(&mut self, dn: &str, superior: Option<&str>) -> Result<(), Vec<ResultCode>> {
        let newest = self.tombstones.iter().filter(|(_, of)| of.dn == dn.to_lowercase());
        let (&top, found) = newest.max_by_key(|(_, of)| of.delete).ok_or(vec![ResultCode::NO_SUCH_OBJECT])?;
        let (delete, mut parent, rdn) = (found.delete, found.entry.parent, found.entry.rdn.clone());
        match superior {
            Some(superior) => parent = self.find(superior).ok_or(vec![ResultCode::NO_SUCH_OBJECT])?,
            None if self.entries.contains_key(&parent) => {}
            None => return Err(vec![ResultCode::UNWILLING_TO_PERFORM]),
        }
        if self.find(&format!("{rdn},{}", self.dn(parent))).is_some() {
            return Err(vec![ResultCode::ENTRY_ALREADY_EXISTS]);
        }
        let mut together = vec![top];
        let mut place = 0;
        while let Some(id) = together.get(place).copied() {
            let below = self.tombstones.iter();
            let below = below.filter(|(_, of)| of.delete == delete && of.entry.parent == id);
            together.extend(below.map(|(id, _)| *id));
            place += 1;
        }
        let mut returned = Vec::new();
        for id in &together {
            let mut tombstone = self.tombstones.remove(id).unwrap();
            let is_there = |id: &usize| self.entries.contains_key(id) || together.contains(id);
            let is_group = tombstone.entry.class == "groupOfNames";
            for (attribute, links) in &mut tombstone.entry.links {
                links.retain(|link| !matches!(link, Link::To(target) if !is_there(target)));
                let is_kept = |name, link: &Link| name != *attribute || links.contains(link);
                tombstone.entry.ends.retain(|(name, link), _| is_kept(*name, link));
                if links.is_empty() && is_group && *attribute == "member" {
                    links.push(Link::Text(String::new()));
                }
            }
            returned.push((*id, tombstone));
        }
        for (id, Tombstone { entry, .. }) in &returned {
            self.entries.insert(*id, entry.clone());
        }
        self.entries.get_mut(&top).unwrap().parent = parent;
        self.resolve_texts();
        for (id, Tombstone { dn, named_by, .. }) in returned {
            for (attribute, source, vanished, until) in named_by {
                let Some(source) = self.entries.get_mut(&source) else { continue };
                let links = source.links.entry(attribute).or_default();
                let count = links.len();
                let former = if vanished { String::new() } else { dn.clone() };
                links.retain(|link| *link != Link::Text(former.clone()));
                let of_text = source.ends.remove(&(attribute, Link::Text(former)));
                if (vanished || links.len() < count) && !links.contains(&Link::To(id)) {
                    links.push(Link::To(id));
                    let until = if vanished { until } else { of_text };
                    source.ends.extend(until.map(|until| ((attribute, Link::To(id)), until)));
                }
            }
        }
        Ok(())
    }

    /// Removes an entry, after the entries below it.
    fn remove(&mut self, id: usize) {
        let is_child =
            |(child, entry): (&usize, &PlainEntry)| (entry.parent == id && *child != id).then_some(*child);
        let children: Vec<usize> = self.entries.iter().filter_map(is_child).collect();
        children.into_iter().for_each(|child| self.remove(child));
        let name = self.dn(id);
        self.entries.remove(&id);
        for entry in self.entries.values_mut() {
            let class = entry.class;
            for (attribute, links) in &mut entry.links {
                let Some(place) = links.iter().position(|link| *link == Link::To(id)) else { continue };
                let is_last = links.len() == 1;
                let until = entry.ends.remove(&(*attribute, Link::To(id)));
                if !self.has_integrity || *attribute != "member" {
                    let text = Link::Text(name.clone());
                    entry.ends.extend(until.map(|until| ((*attribute, text), until)));
                }
                match self.has_integrity && *attribute == "member" {
                    false => links[place] = Link::Text(name.clone()),
                    true if is_last && class == "groupOfNames" => links[place] = Link::Text(String::new()),
                    true => drop(links.remove(place)),
                }
            }
        }
    }

    fn modify(
        &mut self,
        dn: &str,
        changes: &[(ChangeOperation, &'static str, Vec<String>)],
        seconds: Option<u64>,
    ) -> Result<(), Vec<ResultCode>> {
        let id = self.find(dn).ok_or(vec![ResultCode::NO_SUCH_OBJECT])?;
        let before = self.entries[&id].clone();
        let result = self.change(id, changes, seconds).and_then(|()| self.check(id));
        if result.is_err() {
            self.entries.insert(id, before);
        }
        result
    }

    fn change(
        &mut self,
        id: usize,
        changes: &[(ChangeOperation, &'static str, Vec<String>)],
        seconds: Option<u64>,
    ) -> Result<(), Vec<ResultCode>> {
        for (kind, name, values) in changes {
            let mut now = self.values(id, name);
            let values: Vec<String> = values.iter().map(|value| value.to_lowercase()).collect();
            match *kind {
                ChangeOperation::Add => {
                    for value in values {
                        let exists = now.contains(&value);
                        if exists && seconds.is_none() {
                            return Err(vec![ResultCode::ATTRIBUTE_OR_VALUE_EXISTS]);
                        }
                        if let Some(seconds) = seconds {
                            let key = (*name, self.link(&value));
                            let ends = &mut self.entries.get_mut(&id).unwrap().ends;
                            let until = ends.remove(&key);
                            if exists && seconds > 0 && until == Some(seconds) {
                                return Err(vec![ResultCode::ATTRIBUTE_OR_VALUE_EXISTS]);
                            }
                            ends.extend((seconds > 0).then_some((key, seconds)));
                        }
                        if !exists {
                            now.push(value);
                        }
                    }
                }
                ChangeOperation::Delete => {
                    if now.is_empty() || values.iter().any(|value| !now.contains(value)) {
                        return Err(vec![ResultCode::NO_SUCH_ATTRIBUTE]);
                    }
                    now.retain(|value| !values.is_empty() && !values.contains(value));
                }
                _ => now = values,
            }
            self.put(id, name, &now);
        }
        // End times of values that are no longer there are removed. A value that was removed and added again in one
        // modify keeps its end time.
        let PlainEntry { links, ends, .. } = self.entries.get_mut(&id).unwrap();
        ends.retain(|(name, link), _| links.get(name).is_some_and(|links| links.contains(link)));
        Ok(())
    }

    /// Removes the values whose end times have passed.
    fn pass(&mut self, seconds: u64) {
        for PlainEntry { class, links, ends, .. } in self.entries.values_mut() {
            let (past, kept): (Ends, Ends) =
                std::mem::take(ends).into_iter().partition(|(_, until)| *until <= seconds);
            *ends = kept;
            for (name, link) in past.into_keys() {
                let of_name = links.get_mut(name).unwrap();
                of_name.retain(|known| *known != link);
                if of_name.is_empty() && *class == "groupOfNames" && name == "member" {
                    of_name.push(Link::Text(String::new()));
                }
            }
        }
    }

    /// Checks the conditions at the end of a modify. If two conditions are violated, either code is acceptable.
    fn check(&self, id: usize) -> Result<(), Vec<ResultCode>> {
        let entry = &self.entries[&id];
        let mut wrong = Vec::new();
        let required: &[&str] = match entry.class {
            "groupOfNames" => &["cn", "member"],
            "inetOrgPerson" => &["cn", "sn"],
            "organizationalUnit" => &["ou"],
            _ => &["dc"],
        };
        if required.iter().any(|name| self.values(id, name).is_empty()) {
            wrong.push(ResultCode::OBJECT_CLASS_VIOLATION);
        }
        if id != TOP {
            let (naming, value) = entry.rdn.split_once('=').unwrap();
            if !self.values(id, naming).iter().any(|kept| kept == value) {
                wrong.push(ResultCode::NOT_ALLOWED_ON_RDN);
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }

    fn modify_dn(
        &mut self,
        dn: &str,
        new_rdn: &str,
        delete_old_rdn: bool,
        new_superior: Option<&str>,
    ) -> Result<(), Vec<ResultCode>> {
        let id = self.find(dn).ok_or(vec![ResultCode::NO_SUCH_OBJECT])?;
        if id == TOP {
            return Err(vec![ResultCode::UNWILLING_TO_PERFORM]);
        }
        let parent = match new_superior {
            None => self.entries[&id].parent,
            Some(superior) => self.find(superior).ok_or(vec![ResultCode::NO_SUCH_OBJECT])?,
        };
        if self.is_at_or_below(parent, id) {
            return Err(vec![ResultCode::UNWILLING_TO_PERFORM]);
        }
        let new_rdn = new_rdn.to_lowercase();
        let other = self.find(&format!("{new_rdn},{}", self.dn(parent)));
        if other.is_some_and(|other| other != id) {
            return Err(vec![ResultCode::ENTRY_ALREADY_EXISTS]);
        }
        let entry = self.entries.get_mut(&id).unwrap();
        let (naming, new_value) = new_rdn.split_once('=').unwrap();
        let old_value = entry.rdn.split_once('=').unwrap().1.to_owned();
        let values = entry.values.get_mut(naming).unwrap();
        if delete_old_rdn {
            values.retain(|value| *value != old_value);
        }
        if !values.iter().any(|value| value == new_value) {
            values.push(new_value.to_owned());
        }
        entry.rdn = new_rdn;
        entry.parent = parent;
        self.resolve_texts();
        Ok(())
    }

    // Names and values come from a small set, so that they often coincide.

    pub(crate) fn random(&self, rng: &mut Rng) -> Operation {
        if self.entries.is_empty() {
            // If all entries were deleted, the suffix entry can be added again.
            let attributes = vec![("objectClass", vec!["domain".to_owned()])];
            return Operation::Add { dn: SUFFIX.to_owned(), attributes };
        }
        if !self.tombstones.is_empty() && rng.u32(0..8) == 0 {
            let kept: Vec<&Tombstone> = self.tombstones.values().collect();
            let dn = kept[rng.usize(0..kept.len())].dn.clone();
            return Operation::Undelete { dn, superior: rng.bool().then(|| self.random_dn(rng)) };
        }
        if rng.u32(0..20) == 0 {
            return Operation::Pass { seconds: 1_000 * rng.u64(0..5) };
        }
        if rng.u32(0..8) == 0 {
            return self.random_until(rng);
        }
        if rng.u32(0..80) == 0 {
            return Operation::Purge { deletes: self.deletes as u64 };
        }
        match rng.u32(0..10) {
            0..4 => self.random_add(rng),
            4..5 => {
                // Trees are deleted only rarely, because otherwise few entries would be left.
                let dn = self.random_dn(rng);
                Operation::Delete { with_tree: rng.u32(0..8) == 0 && dn.len() > SUFFIX.len(), dn }
            }
            5..8 => self.random_modify(rng),
            _ => self.random_modify_dn(rng),
        }
    }

    fn random_until(&self, rng: &mut Rng) -> Operation {
        let dn = self.random_dn(rng);
        let class = self.find(&dn).map_or("inetOrgPerson", |id| self.entries[&id].class);
        let attribute = match class {
            "groupOfNames" => "member",
            "inetOrgPerson" => "manager",
            _ => "seealso",
        };
        let mut values = distinct(rng, |rng| self.random_dn(rng));
        if rng.bool()
            && let Some(id) = self.find(&dn)
        {
            // Also uses values that the entry already has, so that their end times change.
            values.extend(self.values(id, attribute).into_iter().filter(|value| !value.is_empty()));
            let mut seen = Vec::new();
            values.retain(|value| {
                let value = value.to_lowercase();
                let is_new = !seen.contains(&value);
                seen.push(value);
                is_new
            });
        }
        Operation::Until { dn, attribute, values, seconds: 1_000 * rng.u64(0..5) }
    }

    fn random_modify_dn(&self, rng: &mut Rng) -> Operation {
        let dn = self.random_dn(rng);
        let naming = if dn.to_lowercase().starts_with("ou=") { "ou" } else { "cn" };
        Operation::ModifyDn {
            dn,
            new_rdn: format!("{naming}={}", word(rng)),
            delete_old_rdn: rng.bool(),
            new_superior: rng.bool().then(|| self.random_dn(rng)),
        }
    }

    fn random_add(&self, rng: &mut Rng) -> Operation {
        let parent = self.random_dn(rng);
        let words = |rng: &mut Rng| distinct(rng, word);
        let (naming, class) = match rng.u32(0..4) {
            0 => ("ou", "organizationalUnit"),
            1 => ("cn", "groupOfNames"),
            _ => ("cn", "inetOrgPerson"),
        };
        let mut attributes = vec![("objectClass", vec![class.to_owned()])];
        match class {
            "groupOfNames" => attributes.push(("member", distinct(rng, |rng| self.random_dn(rng)))),
            "inetOrgPerson" => {
                attributes[0].1.push("posixAccount".to_owned());
                attributes.push(("uid", words(rng)));
                attributes.push(("uidnumber", vec![rng.u32(0..30).to_string()]));
                attributes.push(("gidnumber", vec!["100".to_owned()]));
                attributes.push(("homedirectory", vec!["/home".to_owned()]));
                attributes.push(("sn", words(rng)));
                attributes
                    .push(("mail", distinct(rng, |rng| format!("{}@x", ["a", "B", "c"][rng.usize(0..3)]))));
                attributes.push(("manager", distinct(rng, |rng| self.random_dn(rng))));
            }
            _ => {}
        }
        attributes.push(("description", words(rng)));
        Operation::Add { dn: format!("{naming}={},{parent}", word(rng)), attributes }
    }

    fn random_modify(&self, rng: &mut Rng) -> Operation {
        let dn = self.random_dn(rng);
        let class = self.find(&dn).map_or("inetOrgPerson", |id| self.entries[&id].class);
        let names: &[&'static str] = match class {
            "groupOfNames" => &["member", "member", "cn", "description", "seealso"],
            "inetOrgPerson" => &["sn", "cn", "description", "manager", "seealso"],
            "organizationalUnit" => &["ou", "description", "seealso"],
            _ => &["description", "seealso"],
        };
        let change = |rng: &mut Rng| {
            let name = names[rng.usize(0..names.len())];
            let mut values =
                if is_link(name) { distinct(rng, |rng| self.random_dn(rng)) } else { distinct(rng, word) };
            let kind = match rng.u32(0..3) {
                0 => ChangeOperation::Delete,
                1 => ChangeOperation::Replace,
                _ => ChangeOperation::Add,
            };
            if kind != ChangeOperation::Add && rng.u32(0..6) == 0 {
                values.clear();
            }
            (kind, name, values)
        };
        Operation::Modify { dn, changes: (0..rng.usize(1..=3)).map(|_| change(rng)).collect() }
    }

    /// Returns the DN of an entry in random spelling, or sometimes a DN without an entry.
    pub(crate) fn random_dn(&self, rng: &mut Rng) -> String {
        if rng.u32(0..6) == 0 {
            let parent = self.random_dn(rng);
            return format!("cn={},{parent}", word(rng));
        }
        let ids: Vec<usize> = self.entries.keys().copied().collect();
        let dn = self.dn(ids[rng.usize(0..ids.len())]);
        if rng.bool() { dn } else { dn.replace("cn=", "CN=").replace("ou=", "Ou=") }
    }
}

/// Returns a time in seconds after the beginning, formatted as in results but in lower case.
fn time(seconds: u64) -> String {
    directory::csn::generalized_time(crate::BEGINNING + seconds).to_lowercase()
}

/// Returns a word in random spelling.
pub(crate) fn word(rng: &mut Rng) -> String {
    let word = WORDS[rng.usize(0..WORDS.len())];
    if rng.bool() { word.to_uppercase() } else { word.to_owned() }
}

/// Returns one to three different values.
fn distinct(rng: &mut Rng, value: impl Fn(&mut Rng) -> String) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for _ in 0..rng.usize(1..=3) {
        let value = value(rng);
        if values.iter().all(|kept| kept.to_lowercase() != value.to_lowercase()) {
            values.push(value);
        }
    }
    values
}
