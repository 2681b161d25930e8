//! What the load driver asks for: a workload writes one request after the other, keys at random over all the data.

use crate::{Seeded, people};
use ldap::{
    AddRequest, AttributesBuf, ChangeOperation, ChangesBuf, Controls, FilterBuf, Message, MessageId,
    ModifyRequest, Request, Scope, SearchRequest, SelectionBuf,
};

/// A source of requests.
pub trait Workload {
    /// Appends the next request under this id, or returns false when there is no more to ask.
    fn next(&mut self, id: MessageId, out: &mut Vec<u8>) -> bool;
}

/// Searches the whole tree for one person by uid.
pub struct SearchByUid {
    keys: Seeded,
    people: u32,
    attributes: SelectionBuf,
}

impl SearchByUid {
    /// Over `people` entries; `attributes` as in a search request (`1.1` for the DN only).
    pub fn new(seed: u64, people: u32, attributes: &[&str]) -> SearchByUid {
        let attributes = SelectionBuf::from_iter(attributes);
        SearchByUid { keys: Seeded::new(seed), people, attributes }
    }
}

impl Workload for SearchByUid {
    fn next(&mut self, id: MessageId, out: &mut Vec<u8>) -> bool {
        let filter = FilterBuf::parse(&format!("(uid=user.{})", random_person(&mut self.keys, self.people)));
        let filter = filter.expect("a filter made of digits");
        let request = Request::Search(SearchRequest::new(
            people::SUFFIX,
            Scope::WholeSubtree,
            filter.as_filter(),
            self.attributes.as_selection(),
        ));
        Message { id, request, controls: Controls::NONE }.encode(out);
        true
    }
}

fn random_person(keys: &mut Seeded, people: u32) -> u32 {
    keys.below(people as usize) as u32
}

/// Replaces an attribute of one person by a new value.
pub struct ReplaceAttribute {
    keys: Seeded,
    people: u32,
    attribute: String,
}

impl ReplaceAttribute {
    /// Over `people` entries.
    pub fn new(seed: u64, people: u32, attribute: &str) -> ReplaceAttribute {
        ReplaceAttribute { keys: Seeded::new(seed), people, attribute: attribute.to_owned() }
    }
}

impl Workload for ReplaceAttribute {
    fn next(&mut self, id: MessageId, out: &mut Vec<u8>) -> bool {
        let object = people::dn(random_person(&mut self.keys, self.people));
        let value = format!("changed to {:016x}", self.keys.next_u64());
        let mut changes = ChangesBuf::new();
        changes.push(ChangeOperation::Replace, &self.attribute, [value]);
        let request = Request::Modify(ModifyRequest { object: &object, changes: changes.as_changes() });
        Message { id, request, controls: Controls::NONE }.encode(out);
        true
    }
}

/// Adds people, each once, in order. Their parents must be there: see [`people::parents`].
pub struct AddPeople {
    next: u32,
    end: u32,
}

impl AddPeople {
    /// The people from 0 to `people` - 1.
    pub fn new(people: u32) -> AddPeople {
        AddPeople { next: 0, end: people }
    }
}

impl Workload for AddPeople {
    fn next(&mut self, id: MessageId, out: &mut Vec<u8>) -> bool {
        if self.next == self.end {
            return false;
        }
        encode_add(id, &people::person(self.next), out);
        self.next += 1;
        true
    }
}

/// Appends an add request.
pub fn encode_add(id: MessageId, (dn, attributes): &people::Person, out: &mut Vec<u8>) {
    let mut list = AttributesBuf::new();
    for same in attributes.chunk_by(|left, right| left.0 == right.0) {
        list.push(same[0].0, same.iter().map(|(_, value)| value));
    }
    let request = Request::Add(AddRequest { entry: dn, attributes: list.as_attributes() });
    Message { id, request, controls: Controls::NONE }.encode(out);
}
