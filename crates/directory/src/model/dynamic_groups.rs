//! Dynamic groups: entries whose `memberURL` values describe members by a search.
//!
//! The catalog keeps all dynamic groups in memory, so that finding the groups of an entry needs no search.

use std::sync::Arc;

use ldap::{FilterBuf, LdapUrl, Scope};
use schema::Schema;

use crate::model::limits::{DYNAMIC_GROUP_OCTETS_MAX, DYNAMIC_GROUPS_MAX, POLICY_NOTICES_MAX};
use crate::model::name::{NormalName, parse_dn};
use crate::model::quoted::Quoted;
use crate::model::rows::{AttrId, EntryId};

/// OID of memberURL.
pub(crate) const MEMBER_URL: &str = "2.16.840.1.113730.3.1.198";

/// Filter of a URL without a filter (RFC 4516 section 2).
const ANY_ENTRY: &str = "(objectClass=*)";

/// A parsed memberURL value: a search that finds the members of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemberUrl {
    /// Number of the attribute that contains the URL.
    pub(crate) attribute: AttrId,
    pub(crate) base: NormalName,
    pub(crate) scope: Scope,
    pub(crate) filter: FilterBuf,
}

/// A group with its URLs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DynamicGroup {
    pub(crate) id: EntryId,
    pub(crate) urls: Vec<MemberUrl>,
    /// Descriptions of values that cannot be applied.
    pub(crate) faults: Vec<String>,
    /// Total length of all memberURL values.
    octets: usize,
}

/// Dynamic groups within the limits, ascending by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DynamicGroups {
    groups: Vec<Arc<DynamicGroup>>,
    /// Number of groups that exceed the limits. Such a group receives no members from its memberURL values.
    left_out: usize,
    octets: usize,
}

impl MemberUrl {
    /// Parses a memberURL value.
    ///
    /// # Errors
    /// A message with the reason why the value finds no members.
    pub(crate) fn parse(value: &[u8], attribute: AttrId, schema: &Schema) -> Result<MemberUrl, String> {
        let text = std::str::from_utf8(value).map_err(|error| error.to_string())?;
        let url = LdapUrl::parse(text).map_err(|error| error.to_string())?;
        if url.host.is_some() {
            return Err("it names a server".to_owned());
        }
        if let Some(extension) = url.extensions.iter().find(|extension| extension.critical) {
            return Err(format!("the extension {} is not known", Quoted(&extension.name)));
        }
        let dn = parse_dn(&url.dn).map_err(|_| "its DN is invalid".to_owned())?;
        let filter = FilterBuf::parse(url.filter.as_deref().unwrap_or(ANY_ENTRY));
        Ok(MemberUrl {
            attribute,
            base: NormalName::of(&dn, schema),
            scope: url.scope.unwrap_or(Scope::BaseObject),
            filter: filter.map_err(|error| error.to_string())?,
        })
    }
}

impl DynamicGroup {
    pub(crate) fn new(id: EntryId) -> DynamicGroup {
        DynamicGroup { id, urls: Vec::new(), faults: Vec::new(), octets: 0 }
    }

    /// Adds a memberURL value. Ignores the value and returns false if the total length exceeds the limit.
    pub(crate) fn add(&mut self, value: &[u8], attribute: AttrId, schema: &Schema) -> bool {
        self.octets += value.len();
        if self.octets > DYNAMIC_GROUP_OCTETS_MAX {
            self.faults.push(format!("further values, beyond {DYNAMIC_GROUP_OCTETS_MAX} octets"));
            return false;
        }
        match MemberUrl::parse(value, attribute, schema) {
            Ok(url) => self.urls.push(url),
            Err(fault) => self.faults.push(format!("{}: {fault}", Quoted(&String::from_utf8_lossy(value)))),
        }
        true
    }

    /// Returns true if the entry has memberURL values, valid or not.
    pub(crate) fn has_values(&self) -> bool {
        self.octets > 0
    }
}

impl DynamicGroups {
    /// Returns the groups within the limits.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &DynamicGroup> {
        self.groups.iter().map(Arc::as_ref)
    }

    /// Returns true if there are no dynamic groups within the limits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns the number of groups within the limits.
    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Returns notices about groups over the limits and about values that cannot be applied.
    pub(crate) fn notices(&self) -> Vec<String> {
        let left_out = (self.left_out > 0).then(|| {
            let text = "groups with memberURL have no members by it: there may be";
            format!(
                "{} {text} {DYNAMIC_GROUPS_MAX}, of {DYNAMIC_GROUP_OCTETS_MAX} octets together",
                self.left_out
            )
        });
        let faults = self.iter().flat_map(|group| group.faults.iter().cloned());
        left_out.into_iter().chain(faults).take(POLICY_NOTICES_MAX).collect()
    }

    /// Returns the number of groups over the limits.
    pub(crate) fn left_out(&self) -> usize {
        self.left_out
    }

    /// Returns the group with this entry id.
    pub(crate) fn of(&self, id: EntryId) -> Option<&DynamicGroup> {
        let place = self.groups.binary_search_by_key(&id, |group| group.id).ok()?;
        self.groups.get(place).map(Arc::as_ref)
    }

    /// Adds a group. Its id must be greater than the ids of all groups added before. Leaves the group out if a limit is
    /// exceeded, or if an earlier group was left out.
    pub(crate) fn push(&mut self, group: DynamicGroup) {
        let octets = self.octets + group.octets;
        let is_full = self.groups.len() >= DYNAMIC_GROUPS_MAX || octets > DYNAMIC_GROUP_OCTETS_MAX;
        if is_full || self.left_out > 0 {
            self.left_out += 1;
        } else {
            self.octets = octets;
            self.groups.push(Arc::new(group));
        }
    }

    /// Adds `count` to the number of groups that exceed the limits. The ids of these groups must be greater than the
    /// ids of all groups added before.
    pub(crate) fn leave_out(&mut self, count: usize) {
        self.left_out += count;
    }

    /// Replaces, adds or removes a group. Returns false if the caller must read all groups again, because other groups
    /// than before may now be within the limits.
    pub(crate) fn set(&mut self, id: EntryId, group: Option<DynamicGroup>) -> bool {
        let place = self.groups.binary_search_by_key(&id, |group| group.id);
        if place == Err(self.groups.len()) {
            if let Some(group) = group {
                self.push(group);
            }
            return true;
        }
        let (before, octets) = match place.ok().and_then(|place| self.groups.get(place)) {
            Some(known) => (1, known.octets),
            None => (0, 0),
        };
        let after = group.as_ref().map_or(0, |group| group.octets);
        let octets = self.octets - octets + after;
        let count = self.groups.len() - before + usize::from(group.is_some());
        if self.left_out > 0 || count > DYNAMIC_GROUPS_MAX || octets > DYNAMIC_GROUP_OCTETS_MAX {
            return false;
        }
        self.octets = octets;
        match (place, group) {
            (Ok(place), Some(group)) => {
                if let Some(known) = self.groups.get_mut(place) {
                    *known = Arc::new(group);
                }
            }
            (Ok(place), None) => drop(self.groups.remove(place)),
            (Err(place), Some(group)) => self.groups.insert(place, Arc::new(group)),
            (Err(_), None) => {}
        }
        true
    }
}
