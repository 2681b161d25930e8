//! Operations on one resource: create, read, replace, patch and delete (RFC 7644 sections 3.3 to 3.6).

use std::collections::{HashMap, HashSet};

use ldap::{ChangeOperation, FilterBuf, filter_value};
use serde_json::{Map, Value};

use crate::attribute::{Attribute, Binding, Mutability};
use crate::check::check_resource;
use crate::error::{Result, ScimError};
use crate::limits::{ATTEMPTS_MAX, IDS_PER_SEARCH, MEMBERS_RETURNED_MAX};
use crate::model::{ENTRY_CSN, ENTRY_UUID, Model, ResourceType};
use crate::patch::{MemberChange, apply, member_ids, parse, take_member_changes};
use crate::read::{RequestedAttributes, Writer, id_of, version_of};
use crate::selection::Selection;
use crate::session::{FoundEntry, Query, Session};
use crate::translate::is_id;
use crate::write::{EntryChanges, changes_of, follow_names, linked_ids, new_entry, wishes};

/// The DNs of resources by their ids.
type Names = HashMap<String, String>;

/// The resources of a service that one client can see.
pub(crate) struct Resources<'a> {
    pub(crate) model: &'a Model,
    pub(crate) url: &'a str,
}

/// A resource after the operation that created or changed it.
#[derive(Debug)]
pub(crate) struct StoredResource {
    pub(crate) id: String,
    pub(crate) version: Option<String>,
    pub(crate) location: String,
    /// The resource; `None` if the answer does not contain it.
    pub(crate) resource: Option<Value>,
}

/// Function that receives the attributes of a resource and returns the changed attributes. It returns `None` if it
/// changes nothing.
type EditAttributes<'a> = dyn Fn(Map<String, Value>) -> Result<Option<Map<String, Value>>> + 'a;

/// A change of a resource.
struct Edit<'a> {
    /// Version that the resource must have; `None` for any version.
    version: Option<&'a str>,
    attributes: &'a EditAttributes<'a>,
    members: &'a [MemberChange],
}

impl Resources<'_> {
    pub(crate) fn writer(&self) -> Writer<'_> {
        Writer { model: self.model, url: self.url }
    }

    /// Returns the resource with this id.
    ///
    /// # Errors
    /// 404 if the resource does not exist or the requester cannot see it.
    pub(crate) fn get(
        &self,
        session: &mut Session,
        resource: &ResourceType,
        id: &str,
        selection: &Selection,
    ) -> Result<StoredResource> {
        let found = self.find(session, resource, id, &RequestedAttributes::of(resource, selection))?;
        Ok(self.stored(resource, &found, Some(selection)))
    }

    /// Creates a resource.
    ///
    /// # Errors
    /// 409 uniqueness if there is a resource with this name, and errors about the values.
    pub(crate) fn create(
        &self,
        session: &mut Session,
        resource: &ResourceType,
        body: Map<String, Value>,
        selection: &Selection,
    ) -> Result<StoredResource> {
        let mut object = check_resource(resource, body)?;
        let members = members_of(resource);
        let ids = member_ids(members.and_then(|(attribute, _)| object.remove(attribute.name)));
        let wishes = wishes(resource, &object)?;
        let names = self.names_of(session, ids.iter().cloned().chain(linked_ids(&wishes)))?;
        let dns = ids.iter().map(|id| named(&names, id)).collect::<Result<Vec<_>>>()?;
        let members = members.map(|(_, name)| (name, dns.as_slice()));
        let (dn, attributes) = new_entry(resource, wishes, members, &|id| named(&names, id))?;
        session.add(&dn, &attributes)?;
        self.read_back(session, resource, &dn, Some(selection))
    }

    /// Replaces the attributes of a resource by those in the body.
    ///
    /// # Errors
    /// 404 if the resource does not exist, 412 if `version` is not the current version, and errors about the values.
    pub(crate) fn replace(
        &self,
        session: &mut Session,
        resource: &ResourceType,
        id: &str,
        (body, version): (Map<String, Value>, Option<&str>),
        selection: &Selection,
    ) -> Result<StoredResource> {
        let mut object = check_resource(resource, body)?;
        let members = members_of(resource).map(|(attribute, _)| object.remove(attribute.name));
        let members = members.map(|members| MemberChange::Replace(member_ids(members)));
        let members: Vec<_> = members.into_iter().collect();
        let attributes = |_| Ok(Some(object.clone()));
        let edit = Edit { version, attributes: &attributes, members: &members };
        self.change(session, resource, id, &edit, Some(selection))
    }

    /// Applies the operations of a PATCH request. If a group has many members, the answer contains the resource only if
    /// the client selects attributes.
    ///
    /// # Errors
    /// The same as those of [`Self::replace`].
    pub(crate) fn patch(
        &self,
        session: &mut Session,
        resource: &ResourceType,
        id: &str,
        (body, version): (Map<String, Value>, Option<&str>),
        selection: &Selection,
    ) -> Result<StoredResource> {
        let mut operations = parse(body)?;
        let members = take_member_changes(resource, &mut operations)?;
        let attributes = |mut object: Map<String, Value>| {
            if operations.is_empty() {
                return Ok(None);
            }
            let before = object.clone();
            apply(resource, &mut object, operations.clone())?;
            follow_names(&before, &mut object);
            Ok(Some(object))
        };
        let edit = Edit { version, attributes: &attributes, members: &members };
        let is_shown = selection.is_stated() || self.is_small(session, resource, id)?;
        self.change(session, resource, id, &edit, is_shown.then_some(selection))
    }

    /// Returns true if the resource is a user, or a group with few members.
    fn is_small(&self, session: &mut Session, resource: &ResourceType, id: &str) -> Result<bool> {
        let Some((_, name)) = members_of(resource) else { return Ok(true) };
        // If the attribute has no further values, the range in the answer ends with `*`.
        let attributes = vec![format!("{name};range=0-{}", MEMBERS_RETURNED_MAX - 1)];
        let found =
            self.find(session, resource, id, &RequestedAttributes { attributes, links: Vec::new() })?;
        let mut described = found.entry.attributes.iter().map(|attribute| attribute.description.as_str());
        Ok(described.all(|description| !description.contains(";range=") || description.ends_with("-*")))
    }

    /// Deletes a resource.
    pub(crate) fn delete(
        &self,
        session: &mut Session,
        resource: &ResourceType,
        id: &str,
        version: Option<&str>,
    ) -> Result<()> {
        let found = self.find(session, resource, id, &RequestedAttributes::of_entry())?;
        let assertion = check_version(&found, version)?;
        session.delete(&found.entry.dn, assertion.as_ref())
    }

    /// Changes an entry. If another client changes the entry meanwhile, tries again, unless the request contains a
    /// version.
    fn change(
        &self,
        session: &mut Session,
        resource: &ResourceType,
        id: &str,
        edit: &Edit<'_>,
        shown: Option<&Selection>,
    ) -> Result<StoredResource> {
        for _ in 0..ATTEMPTS_MAX {
            let found = self.find(session, resource, id, &RequestedAttributes::of_change(resource))?;
            let mut assertion = check_version(&found, edit.version)?;
            let mut object = self.writer().attributes(resource, &found);
            strip_read_only(resource, &mut object);
            mark_unset(resource, &mut object);
            let mut changes = EntryChanges::default();
            let before = wishes(resource, &object)?;
            if let Some(object) = (edit.attributes)(object)? {
                let mut wishes = wishes(resource, &object)?;
                // Values that the client does not see, for example a manager without read access, stay.
                wishes.retain(|wish| !before.contains(wish));
                let names = self.names_of(session, linked_ids(&wishes).into_iter())?;
                changes_of(&found, wishes, &|id| named(&names, id), &mut changes)?;
                if !changes.is_empty() {
                    assertion = assertion_of(&found)?;
                }
            }
            for (position, change) in edit.members.iter().enumerate() {
                self.change_members(session, resource, &found.entry.dn, change, position == 0, &mut changes)?;
            }
            if changes.is_empty() {
                return self.read_back(session, resource, &found.entry.dn, shown);
            }
            let EntryChanges { changes, renamed, .. } = &changes;
            match session.modify(&found.entry.dn, changes, renamed.as_ref(), assertion.as_ref()) {
                Err(error) if error.status == 412 && edit.version.is_none() => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    let dn = renamed.as_ref().map_or(&found.entry.dn, |renamed| &renamed.dn);
                    return self.read_back(session, resource, dn, shown);
                }
            }
        }
        Err(ScimError::new(503, "others change this resource at the same time: try again"))
    }

    /// Adds a change of members to the changes of the entry. The change adds and deletes single values, unless it
    /// removes all members.
    fn change_members(
        &self,
        session: &mut Session,
        resource: &ResourceType,
        dn: &str,
        change: &MemberChange,
        is_first: bool,
        changes: &mut EntryChanges,
    ) -> Result<()> {
        let Some((_, name)) = members_of(resource) else { return Ok(()) };
        match change {
            MemberChange::Add(ids) => {
                let names = self.names_of(session, ids.iter().cloned())?;
                let dns = ids.iter().map(|id| named(&names, id)).collect::<Result<Vec<_>>>()?;
                changes.push(ChangeOperation::Add, name, &dns);
            }
            MemberChange::Remove(ids) => {
                // An id that belongs to no resource cannot be the id of a member.
                let names = self.names_of(session, ids.iter().cloned())?;
                let dns: Vec<_> = ids.iter().filter_map(|id| named(&names, id).ok()).collect();
                if !dns.is_empty() {
                    changes.push(ChangeOperation::Delete, name, &dns);
                }
            }
            MemberChange::Replace(ids) if ids.is_empty() => changes.push(ChangeOperation::Replace, name, &[]),
            MemberChange::Replace(ids) => {
                let names = self.names_of(session, ids.iter().cloned())?;
                let dns = ids.iter().map(|id| named(&names, id)).collect::<Result<Vec<_>>>()?;
                if !is_first {
                    changes.push(ChangeOperation::Replace, name, &dns);
                    return Ok(());
                }
                let requested = RequestedAttributes::of_members(resource);
                let found = session.at(dn, &query(resource, &requested, "(objectClass=*)"))?;
                let present = found.map(|found| found.links).unwrap_or_default();
                let unchanged_ids: HashSet<_> =
                    present.iter().map(|link| link.id.to_ascii_lowercase()).collect();
                let wanted: HashSet<_> = ids.iter().map(|id| id.to_ascii_lowercase()).collect();
                let removed = present.iter().filter(|link| !wanted.contains(&link.id.to_ascii_lowercase()));
                let removed: Vec<_> = removed.map(|link| link.dn.clone()).collect();
                let added =
                    ids.iter().zip(dns).filter(|(id, _)| !unchanged_ids.contains(&id.to_ascii_lowercase()));
                let added: Vec<_> = added.map(|(_, dn)| dn).collect();
                for (operation, dns) in [(ChangeOperation::Add, added), (ChangeOperation::Delete, removed)] {
                    if !dns.is_empty() {
                        changes.push(operation, name, &dns);
                    }
                }
            }
        }
        Ok(())
    }

    fn find(
        &self,
        session: &mut Session,
        resource: &ResourceType,
        id: &str,
        requested: &RequestedAttributes,
    ) -> Result<FoundEntry> {
        let missing = || ScimError::not_found(&format!("{} {:?}", resource.name.text(), ldap::Excerpt(id)));
        if !is_id(id) {
            return Err(missing());
        }
        let filter = format!("(&{}({ENTRY_UUID}={}))", resource.class_filter(), filter_value(id));
        session.only(&query(resource, requested, &filter))?.ok_or_else(missing)
    }

    /// Returns the resource of an entry that was just changed.
    fn read_back(
        &self,
        session: &mut Session,
        resource: &ResourceType,
        dn: &str,
        shown: Option<&Selection>,
    ) -> Result<StoredResource> {
        let requested = shown.map_or_else(RequestedAttributes::of_entry, |selection| {
            RequestedAttributes::of(resource, selection)
        });
        let found = session.at(dn, &query(resource, &requested, "(objectClass=*)"))?;
        let hidden = || ScimError::new(403, "the change is made, but you may not read the resource");
        Ok(self.stored(resource, &found.ok_or_else(hidden)?, shown))
    }

    fn stored(
        &self,
        resource: &ResourceType,
        found: &FoundEntry,
        shown: Option<&Selection>,
    ) -> StoredResource {
        let (id, writer) = (id_of(found), self.writer());
        StoredResource {
            location: writer.location(resource, &id),
            version: version_of(found),
            resource: shown.map(|selection| writer.resource(resource, found, selection)),
            id,
        }
    }

    /// Returns the DN of the resource with this id. The resource may have any type.
    pub(crate) fn dn_of(&self, session: &mut Session, id: &str) -> Result<Option<String>> {
        Ok(self.names_of(session, std::iter::once(id.to_owned()))?.remove(&id.to_ascii_lowercase()))
    }

    /// Returns the DNs of the resources with these ids. One search reads up to [`IDS_PER_SEARCH`] ids.
    fn names_of(&self, session: &mut Session, ids: impl Iterator<Item = String>) -> Result<Names> {
        let mut wanted: Vec<String> = ids.filter(|id| is_id(id)).map(|id| id.to_ascii_lowercase()).collect();
        wanted.sort();
        wanted.dedup();
        let mut names = Names::new();
        for resource in self.model.both() {
            wanted.retain(|id| !names.contains_key(id));
            for ids in wanted.chunks(IDS_PER_SEARCH) {
                let items: String = ids.iter().map(|id| format!("({ENTRY_UUID}={id})")).collect();
                let filter = format!("(&{}(|{items}))", resource.class_filter());
                let attributes = [ENTRY_UUID.to_owned()];
                let query = Query {
                    base: &resource.base,
                    filter: &filter,
                    attributes: &attributes,
                    links: &[],
                    sort: None,
                };
                for found in session.all(&query)? {
                    names.insert(id_of(&found).to_ascii_lowercase(), found.entry.dn);
                }
            }
        }
        Ok(names)
    }
}

fn query<'a>(resource: &'a ResourceType, requested: &'a RequestedAttributes, filter: &'a str) -> Query<'a> {
    Query {
        base: &resource.base,
        filter,
        attributes: &requested.attributes,
        links: &requested.links,
        sort: None,
    }
}

/// Returns the attribute that contains the members of a group, and the LDAP attribute that stores it.
fn members_of(resource: &ResourceType) -> Option<(&Attribute, &str)> {
    resource.attributes.iter().find_map(|attribute| match &attribute.binding {
        Binding::Members(name) => Some((attribute, name.as_str())),
        _ => None,
    })
}

fn named(names: &Names, id: &str) -> Result<String> {
    let missing = || ScimError::value(format!("{:?} is the id of no user and no group", ldap::Excerpt(id)));
    names.get(&id.to_ascii_lowercase()).cloned().ok_or_else(missing)
}

/// Removes the attributes that clients cannot set, so that the object has the form of a checked resource.
fn strip_read_only(resource: &ResourceType, object: &mut Map<String, Value>) {
    for attribute in resource.core().filter(|attribute| attribute.mutability == Mutability::ReadOnly) {
        object.remove(attribute.name);
    }
}

/// Records by null that the value of `active` was removed, as PATCH does.
fn mark_unset(resource: &ResourceType, object: &mut Map<String, Value>) {
    let active = resource.core().find(|attribute| matches!(attribute.binding, Binding::Active(_)));
    if let Some(active) = active {
        object.entry(active.name).or_insert(Value::Null);
    }
}

/// Compares the version in the request with the version of the entry. Returns the filter of the assertion control (RFC
/// 4528) with which the directory checks the version again when it makes the change. Returns `None` if the request
/// accepts any version.
fn check_version(found: &FoundEntry, version: Option<&str>) -> Result<Option<FilterBuf>> {
    let Some(stated) = version else { return Ok(None) };
    let is_current = version_of(found).is_some_and(|version| matches_version(stated, &version));
    match stated.trim() {
        "*" => Ok(None),
        _ if is_current => assertion_of(found),
        _ => Err(ScimError::version()),
    }
}

/// Returns true if a list of entity tags is `*` or contains this version. The comparison is weak (RFC 9110 section
/// 8.8.3.2).
pub(crate) fn matches_version(stated: &str, version: &str) -> bool {
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    stated.trim() == "*" || stated.split(',').any(|tag| opaque(tag) == opaque(version))
}

/// Returns a filter that matches the entry as long as it is not changed. Returns `None` if the requester cannot read
/// versions.
fn assertion_of(found: &FoundEntry) -> Result<Option<FilterBuf>> {
    let Some(csn) = found.entry.text(ENTRY_CSN) else { return Ok(None) };
    let invalid = |error: ldap::FilterError| ScimError::filter(error.to_string());
    FilterBuf::parse(&format!("({ENTRY_CSN}={})", filter_value(&csn))).map_err(invalid).map(Some)
}
