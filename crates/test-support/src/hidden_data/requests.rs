//! Random requests of every kind: each operation, with any of the controls that apply to it, and some that do not.

use std::fmt::{self, Debug, Formatter};

use directory::controls::{ControlContext, SUPPORTED_CONTROLS, fits};
use directory::virtual_entries::{SUPPORTED_EXTENSIONS, UNDELETE};
use fastrand::Rng;
use ldap::{
    AddRequest, AttributesBuf, Authentication, BindRequest, ChangeOperation, ChangesBuf, CompareRequest,
    Control, ControlsBuf, DeleteRequest, DerefAliases, ExtendedRequest, FilterBuf, Message, MessageId,
    ModifyDnRequest, ModifyRequest, Request, Scope, SearchRequest, SelectionBuf, oids,
};

use super::data_rules::{ENDS, JOINS, REVEALED, ROOMS};
use super::values::{Kind, Values, control, extended};
use super::world::{
    HIDDEN_COLLECTIVE, HIDDEN_TYPES, REQUESTERS, World, one_of, pick, requester_dn, uuid_of, uuid_text,
};
use crate::SUFFIX;

/// Source of random choices.
pub(crate) struct Dice<'w> {
    pub(crate) rng: &'w mut Rng,
    pub(crate) world: &'w World,
    /// The last synchronization cookie of each of the two servers.
    pub(crate) sync_cookie: Option<[Vec<u8>; 2]>,
    pub(crate) position: Option<[[u8; 24]; 2]>,
    /// Whether a control makes the search continue until it is cancelled.
    pub(crate) follows: bool,
}

/// A value of an extended operation.
#[derive(Clone)]
pub(crate) struct Sent(pub Values);

impl Debug for Sent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0.as_ref().map(|[one, _]| String::from_utf8_lossy(one).into_owned()))
    }
}

/// An operation. It is the same for both servers, except for values that each server returned before.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Bind { name: String, mechanism: Option<String>, proof: Vec<u8> },
    Search(Search),
    Compare { entry: String, description: String, value: String },
    Add { entry: String, attributes: Vec<(String, Vec<String>)> },
    Delete { entry: String },
    Modify { object: String, changes: Vec<(ChangeOperation, String, Vec<String>)> },
    ModifyDn { entry: String, new_rdn: String, delete_old_rdn: bool, new_superior: Option<String> },
    Extended { name: String, value: Sent },
    Abandon(i32),
    Unbind,
}

#[derive(Clone)]
pub(crate) struct Search {
    pub(crate) base: String,
    pub(crate) scope: Scope,
    pub(crate) deref: DerefAliases,
    pub(crate) size_limit: u32,
    pub(crate) types_only: bool,
    pub(crate) filter: FilterBuf,
    pub(crate) attributes: Vec<String>,
}

impl Debug for Search {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Search { base, scope, deref, size_limit, types_only, filter, attributes } = self;
        write!(
            f,
            "Search {base:?} {scope:?} {deref:?} size {size_limit} types {types_only} {filter} {attributes:?}"
        )
    }
}

/// A control of a request.
#[derive(Clone)]
pub(crate) struct AccessRequest {
    pub(crate) oid: String,
    pub(crate) critical: bool,
    pub(crate) value: Values,
}

impl Debug for AccessRequest {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let known =
            SUPPORTED_CONTROLS.iter().find(|known| known.oid == self.oid).map_or("unknown", |of| of.name);
        let value = self.value.as_ref().map(|[one, _]| String::from_utf8_lossy(one).into_owned());
        write!(f, "{known} (critical {}) {value:?}", self.critical)
    }
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct TestRequest {
    pub(crate) operation: Operation,
    pub(crate) controls: Vec<AccessRequest>,
    /// Whether the search continues until it is cancelled.
    pub(crate) follows: bool,
    /// The directory that already has a hidden entry with the new name; `None` if neither directory or both have one.
    pub(crate) taken_in: Option<usize>,
    /// Whether the answer may reveal, because of a rule for values, that an entry has a value.
    pub(crate) reveals: bool,
}

impl TestRequest {
    /// Returns a request without controls, to which both servers must give the same answer.
    pub(crate) fn plain(operation: Operation) -> TestRequest {
        TestRequest { operation, controls: Vec::new(), follows: false, taken_in: None, reveals: false }
    }

    /// Encodes the request for one of the servers.
    pub(crate) fn encode(&self, id: i32, side: usize, out: &mut Vec<u8>) {
        let mut controls = ControlsBuf::new();
        for AccessRequest { oid, critical, value } in &self.controls {
            let value = value.as_ref().map(|values| values[side].as_slice());
            controls.push(Control { oid, critical: *critical, value });
        }
        let mut send = |request: Request<'_>| {
            Message { id: MessageId(id), request, controls: controls.as_controls() }.encode(out);
        };
        match &self.operation {
            Operation::Bind { name, mechanism: None, proof } => {
                send(Request::Bind(BindRequest {
                    version: 3,
                    name,
                    authentication: Authentication::Simple(proof),
                }));
            }
            Operation::Bind { name, mechanism: Some(mechanism), proof } => {
                let authentication = Authentication::Sasl { mechanism, credentials: Some(proof) };
                send(Request::Bind(BindRequest { version: 3, name, authentication }));
            }
            Operation::Search(search) => {
                let selection: SelectionBuf = search.attributes.iter().collect();
                let request = SearchRequest {
                    deref_aliases: search.deref,
                    size_limit: search.size_limit,
                    types_only: search.types_only,
                    ..SearchRequest::new(
                        &search.base,
                        search.scope,
                        search.filter.as_filter(),
                        selection.as_selection(),
                    )
                };
                send(Request::Search(request));
            }
            Operation::Compare { entry, description, value } => {
                send(Request::Compare(CompareRequest { entry, description, value: value.as_bytes() }));
            }
            Operation::Add { entry, attributes } => {
                let mut buffer = AttributesBuf::new();
                attributes.iter().for_each(|(name, values)| buffer.push(name, values));
                send(Request::Add(AddRequest { entry, attributes: buffer.as_attributes() }));
            }
            Operation::Delete { entry } => send(Request::Delete(DeleteRequest { entry })),
            Operation::Modify { object, changes } => {
                let mut buffer = ChangesBuf::new();
                changes.iter().for_each(|(operation, name, values)| buffer.push(*operation, name, values));
                send(Request::Modify(ModifyRequest { object, changes: buffer.as_changes() }));
            }
            Operation::ModifyDn { entry, new_rdn, delete_old_rdn, new_superior } => {
                let (delete_old_rdn, new_superior) = (*delete_old_rdn, new_superior.as_deref());
                send(Request::ModifyDn(ModifyDnRequest { entry, new_rdn, delete_old_rdn, new_superior }));
            }
            Operation::Extended { name, value } => {
                let value = value.0.as_ref().map(|values| values[side].as_slice());
                send(Request::Extended(ExtendedRequest { name, value }));
            }
            Operation::Abandon(other) => send(Request::Abandon(MessageId(*other))),
            Operation::Unbind => send(Request::Unbind),
        }
    }
}

impl Dice<'_> {
    /// Returns a random request of one kind.
    pub(crate) fn request(&mut self, context: ControlContext, kind: Kind) -> TestRequest {
        self.follows = false;
        let operation = match context {
            ControlContext::Bind => self.bind(),
            ControlContext::Search => Operation::Search(self.search()),
            ControlContext::Compare => self.compare(),
            ControlContext::Add => self.add(),
            ControlContext::Delete => Operation::Delete { entry: self.changed() },
            ControlContext::Modify => self.modify(),
            ControlContext::ModifyDn => self.modify_dn(),
            ControlContext::Extended => self.extended(kind),
            ControlContext::Unanswered => match kind {
                Kind::OfConnection => Operation::Unbind,
                Kind::Reads | Kind::Writes => Operation::Abandon(2_000_000_000),
            },
        };
        let mut controls = self.controls(context);
        let taken_in = self.side_with_name(&operation);
        let reveals = reveals(&operation);
        if taken_in.is_some() || reveals {
            // A change might succeed on one server only. Replace any No-Op control by a critical one.
            controls.retain(|asked| {
                ![oids::NO_OPERATION, oids::NO_OPERATION_UNBOUNDID].contains(&asked.oid.as_str())
            });
            controls.push(AccessRequest { oid: oids::NO_OPERATION.to_owned(), critical: true, value: None });
        }
        TestRequest { operation, controls, follows: self.follows, taken_in, reveals }
    }

    /// Returns the directory that already has an entry with the name that an operation creates; `None` if neither
    /// directory or both have one.
    fn side_with_name(&self, operation: &Operation) -> Option<usize> {
        let name = match operation {
            Operation::Add { entry, .. } => entry.clone(),
            Operation::ModifyDn { entry, new_rdn, new_superior, .. } => {
                let parent = entry.split_once(',').map(|(_, parent)| parent.to_owned());
                format!("{new_rdn},{}", new_superior.clone().or(parent)?)
            }
            _ => return None,
        };
        self.world.only_side(&name)
    }

    fn controls(&mut self, context: ControlContext) -> Vec<AccessRequest> {
        let mut all = Vec::new();
        if context == ControlContext::Delete && self.rng.u32(..3) == 0 {
            all.push(AccessRequest {
                oid: oids::TREE_DELETE.to_owned(),
                critical: self.rng.bool(),
                value: None,
            });
        }
        let count = [0, 0, 1, 1, 1, 2, 3][self.rng.usize(..7)];
        for _ in 0..count {
            let fitting: Vec<_> =
                SUPPORTED_CONTROLS.iter().filter(|known| fits(known.oid, context)).collect();
            let known = match fitting.is_empty() || self.rng.u32(..12) == 0 {
                true => &SUPPORTED_CONTROLS[self.rng.usize(..SUPPORTED_CONTROLS.len())],
                false => *one_of(self.rng, &fitting),
            };
            // Choose these controls less often, because most requesters may not use them.
            let is_proxied =
                [oids::PROXIED_AUTHORIZATION, oids::PROXIED_AUTHORIZATION_V1].contains(&known.oid);
            if is_proxied && self.rng.u32(..3) > 0 {
                continue;
            }
            if all.iter().any(|other: &AccessRequest| other.oid == known.oid) {
                continue;
            }
            let make =
                control(known.oid).unwrap_or_else(|| panic!("no value is made for control {}", known.oid));
            let critical = is_proxied && self.rng.u32(..8) > 0 || self.rng.bool();
            let before = self.follows;
            let value = make(self);
            self.follows = before || (self.follows && context == ControlContext::Search);
            all.push(AccessRequest { oid: known.oid.to_owned(), critical, value });
        }
        if self.rng.u32(..40) == 0 {
            all.push(AccessRequest { oid: "1.2.3.4".to_owned(), critical: self.rng.bool(), value: None });
        }
        all
    }

    /// Returns the name of a visible, hidden, missing or special entry.
    pub(crate) fn name(&mut self) -> String {
        let World { shown, both, one, absent, .. } = self.world;
        let name = match self.rng.u32(..20) {
            0..=8 => one_of(self.rng, shown).clone(),
            9..=13 => one_of(self.rng, one).0.clone(),
            14 | 15 => one_of(self.rng, both).clone(),
            16 => SUFFIX.to_owned(),
            17 => {
                let units = ["ou=people", "ou=open", "ou=mixed", "ou=groups", "ou=shell", "ou=vault"];
                format!("{},{SUFFIX}", pick(self.rng, &units))
            }
            _ => one_of(self.rng, absent).clone(),
        };
        match self.rng.u32(..24) {
            0 => format!("cn=x,{name}"),
            1 => format!("nosuchtype=x,{name}"),
            2 => format!("c=Norway,{name}"),
            3 => name.to_uppercase(),
            4 => format!("cn=x,cn=y,{name}"),
            5 => name.replace(',', ", "),
            6 => pick(self.rng, &["", "cn=config", "cn=monitor", "cn=subschema", "dc=elsewhere", "no name"])
                .to_owned(),
            7 => {
                let dn = one_of(self.rng, &self.world.deleted);
                format!("entryUUID={},{dn}", uuid_text(uuid_of(dn)))
            }
            _ => name,
        }
    }

    /// Returns the name of an entry to change. Entries that a requester may change are more frequent.
    fn changed(&mut self) -> String {
        let units = ["ou=people,", "ou=open,", "ou=mixed,", "ou=groups,"];
        match self.rng.u32(..8) {
            0 | 1 => self.name(),
            2 => format!("uid=v0,ou=people,{SUFFIX}"),
            3 => one_of(self.rng, &self.world.deleted).clone(),
            _ => {
                let shown = self.world.shown.iter();
                let inner: Vec<&String> =
                    shown.filter(|dn| units.iter().any(|unit| dn.contains(&format!(",{unit}")))).collect();
                one_of(self.rng, &inner).to_string()
            }
        }
    }

    /// Returns a name that a user may have.
    pub(crate) fn user(&mut self) -> String {
        match self.rng.u32(..4) {
            0 => self.name(),
            1 => requester_dn(self.rng.usize(..REQUESTERS)),
            2 => format!("uid=h{},ou=people,{SUFFIX}", self.rng.u32(..3)),
            _ => format!("uid=v{},ou=people,{SUFFIX}", self.rng.u32(..6)),
        }
    }

    /// Returns an authorization identity.
    pub(crate) fn identity(&mut self) -> String {
        match self.rng.u32(..6) {
            0 => String::new(),
            1 => format!("u:{}", pick(self.rng, &["a0", "a1", "v0", "h0", "h1", "nobody"])),
            2 | 3 => format!("dn:{}", requester_dn(self.rng.usize(..REQUESTERS))),
            _ => format!("dn:{}", self.user()),
        }
    }

    /// Returns requested attributes.
    pub(crate) fn attributes(&mut self) -> Vec<String> {
        let all = [
            "*",
            "+",
            "cn",
            "mail",
            "description",
            "member",
            "memberOf",
            "isMemberOf",
            "member;range=0-*",
            "isMemberOf;range=0-1",
            "homePhone;range=0-*",
            "description;range=1-*",
            "homePhone",
            "employeeNumber",
            "title",
            "title;lang-de",
            "title;lang-",
            "numSubordinates",
            "hasSubordinates",
            "@person",
            "1.1",
            "entryDN",
            "objectClass",
            "userPassword",
            "structuralObjectClass",
            "manager",
            "seeAlso",
            "entryUUID",
            "nonsense",
            "aliasedObjectName",
            HIDDEN_COLLECTIVE,
            "postalCode",
            "c-l",
            "o",
            "o;range=0-*",
            "collectiveAttributeSubentries",
            "collectiveExclusions",
            "valueEnd",
            "membershipEnd",
            "entryTtl",
            "entryExpireTimestamp",
            "uidNumber",
            "roomNumber",
            "isDeleted",
            "lastKnownParent",
        ];
        match self.rng.u32(..4) {
            0 => Vec::new(),
            1 => vec!["*".to_owned(), "+".to_owned()],
            _ => (0..self.rng.usize(1..5)).map(|_| pick(self.rng, &all).to_owned()).collect(),
        }
    }

    pub(crate) fn search(&mut self) -> Search {
        let scopes = [Scope::BaseObject, Scope::SingleLevel, Scope::WholeSubtree, Scope::Subordinate];
        let deref =
            [DerefAliases::Never, DerefAliases::InSearching, DerefAliases::FindingBase, DerefAliases::Always];
        Search {
            base: if self.rng.u32(..4) == 0 { SUFFIX.to_owned() } else { self.name() },
            scope: *one_of(self.rng, &scopes),
            deref: *one_of(self.rng, &deref),
            size_limit: if self.rng.u32(..5) == 0 { self.rng.u32(1..5) } else { 0 },
            types_only: self.rng.u32(..8) == 0,
            filter: filter(self, 3),
            attributes: self.attributes(),
        }
    }

    fn bind(&mut self) -> Operation {
        let name = self.user();
        let proof = match self.rng.u32(..6) {
            0 => Vec::new(),
            _ => b"wrong".to_vec(),
        };
        Operation::Bind { name, mechanism: None, proof }
    }

    fn compare(&mut self) -> Operation {
        let (description, value) = self.assertion();
        Operation::Compare { entry: self.name(), description, value }
    }

    /// Returns an attribute and a value that it may have.
    fn assertion(&mut self) -> (String, String) {
        let description = match self.rng.u32(..18) {
            0 => pick(self.rng, &HIDDEN_TYPES).to_owned(),
            1 => "description".to_owned(),
            2 => "memberOf".to_owned(),
            3 => "objectClass".to_owned(),
            4 => "member".to_owned(),
            5 => pick(self.rng, &["manager", "seeAlso", "aliasedObjectName", "friend"]).to_owned(),
            6 => pick(self.rng, &["numSubordinates", "hasSubordinates"]).to_owned(),
            7 => pick(self.rng, &["title", "title;x-only-here", "title;lang-de", "description;x-hidden"])
                .to_owned(),
            8 => "userPassword".to_owned(),
            9 => "entryDN".to_owned(),
            10 => "nonsense".to_owned(),
            11 => pick(self.rng, &["employeeType", "structuralObjectClass", "telephoneNumber"]).to_owned(),
            12 | 13 => {
                pick(self.rng, &[HIDDEN_COLLECTIVE, "postalCode", "c-o", "o", "c-l", "l", "c-o;x-any"])
                    .to_owned()
            }
            14 => {
                pick(self.rng, &["valueEnd", "membershipEnd", "entryExpireTimestamp", "entryTtl"]).to_owned()
            }
            15 => pick(self.rng, &["uidNumber", "roomNumber", "departmentNumber"]).to_owned(),
            _ => pick(self.rng, &["cn", "uid", "mail", "sn", "name", "ou"]).to_owned(),
        };
        let classes =
            ["alias", "referral", "inetOrgPerson", "groupOfNames", "subentry", "top", "organizationalUnit"];
        let value = match description.as_str() {
            "memberOf" | "member" | "manager" | "seeAlso" | "aliasedObjectName" | "friend" | "entryDN" => {
                self.plain_name()
            }
            "objectClass" | "structuralObjectClass" => pick(self.rng, &classes).to_owned(),
            "numSubordinates" => self.rng.u32(..4).to_string(),
            "hasSubordinates" => "TRUE".to_owned(),
            "valueEnd" | "membershipEnd" | "entryExpireTimestamp" | "entryTtl" => {
                pick(self.rng, &["20990101000000Z", "20980101000000Z", "20000101000000Z"]).to_owned()
            }
            "uidNumber" | "roomNumber" | "departmentNumber" => self.value_of(&description),
            "userPassword" => "hidden-secret".to_owned(),
            "employeeType" => pick(self.rng, &["secret", "asker"]).to_owned(),
            "c-l" | "l" => pick(self.rng, &["Oslo", "Rome"]).to_owned(),
            "description" | "title" | "title;x-only-here" | "title;lang-de" | "c-o" | "o" => {
                pick(self.rng, &["plain", "fancy", "secret 0", "secret 1", "secret 00", "hidden"]).to_owned()
            }
            "cn" | "uid" | "name" | "ou" => {
                pick(self.rng, &["v0", "h0", "h1", "a0", "s0", "vault", "attic", "group", "x"]).to_owned()
            }
            _ => pick(
                self.rng,
                &["+49 0", "+49 1", "+49 2", "Person", "Hidden", "hidden@example.com", "+1 555"],
            )
            .to_owned(),
        };
        (description, value)
    }

    /// Returns a value of an attribute for which there are rules.
    fn value_of(&mut self, name: &str) -> String {
        let values: &[&str] = match name {
            "uidNumber" => &["1", "1000", "1500", "{next}", "{next}"],
            "roomNumber" if self.rng.u32(..4) > 0 => return format!("r{}", self.rng.u32(..ROOMS)),
            "roomNumber" => &["r-v1", "r-o0"],
            "departmentNumber" => &["h0", "h1", "h2", "v0", "nobody"],
            "telephoneNumber" => &["+1 555", "+1 556", "+1 557", "none"],
            _ => &[JOINS, JOINS, "a text with more than 24 octets"],
        };
        pick(self.rng, values).to_owned()
    }

    /// Returns an attribute for which there are rules, and a value.
    fn ruled(&mut self) -> (String, String) {
        let name = match self.rng.u32(..10) {
            0..=3 => {
                let links = pick(self.rng, &["member", "member", "seeAlso", "friend"]);
                let description = format!("{links};{}", pick(self.rng, &ENDS));
                return (description, self.plain_name());
            }
            4 | 5 => "description",
            6 => "telephoneNumber",
            7 => "uidNumber",
            _ => pick(self.rng, &REVEALED),
        };
        (name.to_owned(), self.value_of(name))
    }

    /// Returns a well-formed name.
    fn plain_name(&mut self) -> String {
        let World { shown, both, one, absent, .. } = self.world;
        match self.rng.u32(..5) {
            0 => one_of(self.rng, shown).clone(),
            1 => one_of(self.rng, both).clone(),
            2 => one_of(self.rng, absent).clone(),
            _ => one_of(self.rng, one).0.clone(),
        }
    }

    /// Returns the name of an entry to add.
    fn new_name(&mut self) -> String {
        let unit = pick(self.rng, &["people", "open", "mixed", "groups", "vault", "shell", "attic"]);
        let name = pick(
            self.rng,
            &["cn=n0", "cn=n1", "cn=n2", "uid=n3", "ou=n4", "cn=h0", "cn=h1", "uid=h0", "cn=hg0"],
        );
        format!("{name},ou={unit},{SUFFIX}")
    }

    fn add(&mut self) -> Operation {
        let entry = match self.rng.u32(..8) {
            0..=2 => self.new_name(),
            3 => one_of(self.rng, &self.world.one).0.to_uppercase(),
            4 => format!("nosuchtype=x,{}", one_of(self.rng, &self.world.one).0),
            _ => self.name(),
        };
        let class = pick(
            self.rng,
            &["organizationalUnit", "inetOrgPerson", "groupOfNames", "alias", "device", "nonsense"],
        );
        let mut attributes =
            vec![("objectClass".to_owned(), vec![class.to_owned(), "extensibleObject".to_owned()])];
        if self.rng.u32(..6) == 0 {
            attributes[0].1.push("dynamicObject".to_owned());
        }
        let mut put = |name: &str, value: String| attributes.push((name.to_owned(), vec![value]));
        match class {
            "inetOrgPerson" => {
                put("sn", "New".to_owned());
                put("cn", "new".to_owned());
            }
            "groupOfNames" => {
                put("member", self.plain_name());
                put("cn", "new".to_owned());
            }
            "alias" => put("aliasedObjectName", self.plain_name()),
            "organizationalUnit" => put("ou", "new".to_owned()),
            _ => put("cn", "new".to_owned()),
        }
        match self.rng.u32(..6) {
            0 => put("seeAlso", self.plain_name()),
            1 => put("description", pick(self.rng, &["plain", "secret 0"]).to_owned()),
            2 => put("employeeType", pick(self.rng, &["secret", "other"]).to_owned()),
            3 => put("homePhone", "+49 1".to_owned()),
            4 => {
                let (name, value) = self.ruled();
                put(&name, value);
            }
            _ => {}
        }
        Operation::Add { entry, attributes }
    }

    fn modify(&mut self) -> Operation {
        let object = self.changed();
        if self.rng.u32(..3) == 0 {
            let value = self.value_of(REVEALED[0]);
            let change = (ChangeOperation::Replace, REVEALED[0].to_owned(), vec![value]);
            return Operation::Modify { object, changes: vec![change] };
        }
        let mut changes = Vec::new();
        for _ in 0..self.rng.usize(1..3) {
            let operations = [
                ChangeOperation::Replace,
                ChangeOperation::Add,
                ChangeOperation::Delete,
                ChangeOperation::Replace,
                ChangeOperation::Increment,
            ];
            let (description, value) = match self.rng.u32(..13) {
                0 => (pick(self.rng, &["seeAlso", "friend"]).to_owned(), self.plain_name()),
                1 => ("member".to_owned(), self.plain_name()),
                2 => ("member".to_owned(), requester_dn(self.rng.usize(..REQUESTERS))),
                3 | 8 => {
                    ("description".to_owned(), pick(self.rng, &["plain", "fancy", "secret 0"]).to_owned())
                }
                4 => ("uidNumber".to_owned(), "1".to_owned()),
                5 => ("mail".to_owned(), "other@example.com".to_owned()),
                6 => ("userPassword".to_owned(), "another-secret".to_owned()),
                9..=11 => self.ruled(),
                _ => self.assertion(),
            };
            let values = if self.rng.u32(..5) == 0 { Vec::new() } else { vec![value] };
            changes.push((*one_of(self.rng, &operations), description, values));
        }
        Operation::Modify { object, changes }
    }

    fn modify_dn(&mut self) -> Operation {
        let new_rdns = [
            "cn=n0",
            "cn=n1",
            "cn=h0",
            "cn=h1",
            "uid=h0",
            "uid=h1",
            "cn=hg0",
            "ou=attic",
            "cn=x",
            "nonsense=x",
        ];
        let entry = self.changed();
        let hidden = one_of(self.rng, &self.world.one).0.clone();
        let new_superior = match self.rng.u32(..8) {
            0 | 1 => None,
            2..=4 => Some(hidden.clone()),
            5 => Some(format!("cn=x,{hidden}")),
            _ => Some(self.name()),
        };
        let rdn_of = |dn: &str| dn.split_once(',').map_or("cn=x", |(rdn, _)| rdn).to_owned();
        let new_rdn = match self.rng.u32(..4) {
            0 => rdn_of(&entry),
            1 => pick(self.rng, &new_rdns).to_owned(),
            // The name of a hidden entry with the same superior.
            _ => {
                let parent = entry.split_once(',').map_or("", |(_, parent)| parent);
                let World { both, one, .. } = self.world;
                let all = both.iter().chain(one.iter().map(|(dn, _)| dn));
                let beside: Vec<&String> =
                    all.filter(|dn| dn.split_once(',').is_some_and(|(_, of)| of == parent)).collect();
                if beside.is_empty() {
                    "cn=x".to_owned()
                } else {
                    rdn_of(beside[self.rng.usize(..beside.len())])
                }
            }
        };
        let new_rdn = if self.rng.u32(..4) == 0 { new_rdn.to_uppercase() } else { new_rdn };
        Operation::ModifyDn { entry, new_rdn, delete_old_rdn: self.rng.bool(), new_superior }
    }

    fn extended(&mut self, kind: Kind) -> Operation {
        let of_kind = |(oid, _): &(&'static str, &str)| {
            let (of, make) =
                extended(oid).unwrap_or_else(|| panic!("no value is made for extended operation {oid}"));
            (of == kind).then_some((*oid, make))
        };
        let mut all: Vec<_> = SUPPORTED_EXTENSIONS.iter().filter_map(of_kind).collect();
        if kind == Kind::Writes && self.rng.bool() {
            // Most of these requests are refused.
            all.retain(|(oid, _)| [UNDELETE, oids::REFRESH].contains(oid));
        }
        if kind == Kind::Reads && self.rng.u32(..12) == 0 {
            return Operation::Extended { name: oids::TURN.to_owned(), value: Sent(None) };
        }
        let (name, make) = *one_of(self.rng, &all);
        let value = Sent(make(self));
        Operation::Extended { name: name.to_owned(), value }
    }
}

/// Returns true if an operation gives, or may give, an entry a value of [`REVEALED`].
fn reveals(operation: &Operation) -> bool {
    match operation {
        Operation::Add { attributes, .. } => {
            attributes.iter().any(|(name, _)| REVEALED.contains(&name.as_str()))
        }
        Operation::Modify { changes, .. } => {
            changes.iter().any(|(_, name, _)| REVEALED.contains(&name.as_str()))
        }
        _ => false,
    }
}

/// Returns a random filter.
pub(crate) fn filter(dice: &mut Dice<'_>, depth: usize) -> FilterBuf {
    let text = filter_text(dice, depth);
    FilterBuf::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn filter_text(dice: &mut Dice<'_>, depth: usize) -> String {
    if depth > 0 && dice.rng.u32(..3) == 0 {
        let parts: String = (0..dice.rng.usize(..3)).map(|_| filter_text(dice, depth - 1)).collect();
        return match dice.rng.u32(..3) {
            0 => format!("(&{parts})"),
            1 => format!("(|{parts})"),
            _ => format!("(!{})", filter_text(dice, depth - 1)),
        };
    }
    let (description, value) = dice.assertion();
    match dice.rng.u32(..16) {
        0..=3 => "(objectClass=*)".to_owned(),
        4 => format!("({description}=*)"),
        5 => format!("({description}>={value})"),
        6 => format!("({description}={}*)", value.chars().take(2).collect::<String>()),
        7 => format!("({description}~={value})"),
        8 => format!("(:caseIgnoreMatch:={value})"),
        9 => format!("(ou:dn:={})", pick(dice.rng, &["vault", "attic", "people"])),
        10 => format!("(:dn:distinguishedNameMatch:={})", dice.plain_name()),
        11 => "(createTimestamp>=20000101000000Z)".to_owned(),
        12 => {
            let links = pick(dice.rng, &["member", "memberOf", "isMemberOf", "manager", "seeAlso", "friend"]);
            format!("({links}:1.2.840.113556.1.4.1941:={})", dice.plain_name())
        }
        _ => format!("({description}={value})"),
    }
}
