//! An answer of either server, in a form that can be compared.
//!
//! Octets are compared, with these exceptions:
//! - The order of values and entries is undefined (RFC 4511 section 4.5.2), so both are compared as sets.
//! - slapd normalizes DNs and Pando keeps the given spelling, so they are compared as DNs. Links (member, manager ...)
//!   are compared without regard to case, because Pando returns the present names of their entries.
//! - slapd rewrites names of object classes to the schema's spelling, so they are compared without regard to case.
//! - Pando stores a hash of a password that arrives in clear, so values of userPassword are only counted.
//! - In comparisons with 389 DS and OpenDJ, names of attributes are compared without regard to case, and
//!   structuralObjectClass and the superclasses of inetOrgPerson are left out: these servers add them, or have no such
//!   attribute.

use ber::{Reader, Tag};
use client::{Attribute, Connection, Entry, Reply};
use ldap::{Controls, Dn, EndTransactionResult, ResultCode, Scope, oids};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::{Duration, Instant};
use test_support::corpus::{Client, Operation};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, SUFFIX};

/// Maximum time in which a late server completes a change.
const LATE_MAX: Duration = Duration::from_secs(10);

/// Attributes whose values are DNs.
const DN_ATTRIBUTES: &[&str] = &[
    "member",
    "owner",
    "manager",
    "secretary",
    "seeAlso",
    "roleOccupant",
    "documentAuthor",
    "aliasedObjectName",
    "entryDN",
    "creatorsName",
    "modifiersName",
    "subschemaSubentry",
    "memberOf",
    "collectiveAttributeSubentries",
];

/// One of the two servers.
pub(super) struct Side {
    pub client: Client,
    /// Whether the server completes some changes after it has answered. slapd does this with the overlay refint.
    pub is_late: bool,
    /// Whether to leave out the parts of entries that 389 DS and OpenDJ have in another form.
    pub is_loose: bool,
}

/// Comparable result of an operation.
pub(super) struct Answer {
    pub code: ResultCode,
    pub matched_dn: String,
    pub diagnostic: String,
    pub entries: Entries,
    /// Referrals, continuation references, response controls, and name and value of an extended response.
    pub others: BTreeSet<String>,
    /// The whole tree after a change.
    pub tree: Option<Entries>,
}

/// Values by attribute description, by DN.
pub(super) type Entries = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

impl Side {
    pub(super) fn new(mut connection: Connection) -> Side {
        assert!(connection.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
        Side { client: Client::new(connection), is_late: false, is_loose: false }
    }

    pub(super) fn run(&mut self, operation: &Operation) -> Answer {
        let reply = operation.run(&mut self.client);
        let mut others =
            control_texts("", reply.last.as_ref().map(|last| last.message().controls), self.is_loose);
        let (name, value) = (&reply.extended.name, reply.extended.value.as_deref());
        others.extend(name.as_ref().map(|name| format!("name {name}")));
        match value {
            Some(_) if operation.starts_transaction() => _ = others.insert("an identifier".to_owned()),
            Some(value) if operation.ends_transaction() => others.extend(self.end_texts(value)),
            Some(value) => _ = others.insert(format!("value {value:02x?}")),
            None => {}
        }
        let tree = operation.writes.then(|| self.tree());
        let mut answer = Answer::new(reply, others, tree);
        if self.is_loose {
            answer.entries = without_known_variants(answer.entries);
        }
        answer
    }

    /// Returns the OIDs of the controls and extended operations that the server advertises.
    pub(super) fn supported(&mut self) -> BTreeSet<String> {
        let names = ["supportedControl", "supportedExtension"];
        let root = self.client.connection.entry("", &names).unwrap().unwrap();
        names.iter().flat_map(|name| root.texts(name)).collect()
    }

    /// Waits until a late server has the tree of the other server. Stops waiting if the trees differ for good.
    pub(super) fn complete(&mut self, answer: &mut Answer, wanted: &Answer) {
        let begun = Instant::now();
        while self.is_late && answer.tree != wanted.tree && begun.elapsed() < LATE_MAX {
            answer.tree = Some(self.tree());
        }
    }

    /// Describes the value of the response to the end of a transaction. Changes are numbered in their order.
    fn end_texts(&self, value: &[u8]) -> BTreeSet<String> {
        let Some(result) = EndTransactionResult::decode(value) else {
            return BTreeSet::from([format!("unreadable value {value:02x?}")]);
        };
        let number = |id| match self.client.changes.iter().position(|change| *change == id) {
            Some(index) => format!("change {}", index + 1),
            None => "an unknown change".to_owned(),
        };
        let failed = result.failed.map(|id| format!("{} failed", number(id)));
        let of_change = |(id, controls): &(_, _)| {
            control_texts(&format!("{}: ", number(*id)), Some(*controls), self.is_loose)
        };
        result.controls.iter().flat_map(of_change).chain(failed).collect()
    }

    pub(super) fn tree(&mut self) -> Entries {
        let attributes = ["*", "structuralObjectClass", "hasSubordinates"];
        let reply = self
            .client
            .connection
            .search_managing(SUFFIX, Scope::WholeSubtree, "(objectClass=*)", &attributes)
            .unwrap();
        let mut entries = comparable_entries(&reply.entries);
        if self.is_loose {
            entries = without_known_variants(entries);
            // 389 DS stores memberOf. Only searches compare it.
            entries.values_mut().for_each(|entry| _ = entry.remove("memberof"));
        }
        entries
    }
}

/// Leaves out what 389 DS and OpenDJ have in another form.
fn without_known_variants(entries: Entries) -> Entries {
    // 389 DS needs the last class to store memberOf.
    const CLASSES: [&str; 4] = ["top", "person", "organizationalperson", "nsmemberof"];
    let mut loosened = Entries::new();
    for (dn, attributes) in entries {
        let entry = loosened.entry(dn).or_default();
        for (description, mut values) in attributes {
            let description = description.to_lowercase();
            if description == "hassubordinates" {
                // OpenDJ writes booleans in lower case.
                values = values.iter().map(|value| value.to_uppercase()).collect();
            }
            if description == "objectclass" {
                values.retain(|class| !CLASSES.contains(&class.as_str()));
            }
            if description != "structuralobjectclass" {
                entry.insert(description, values);
            }
        }
    }
    loosened
}

impl Answer {
    fn new(reply: Reply, others: BTreeSet<String>, tree: Option<Entries>) -> Answer {
        let referrals = reply.outcome.referrals.into_iter().map(|url| format!("referral {url}"));
        let references = reply.references.into_iter().map(|mut urls| {
            urls.sort();
            format!("reference {}", urls.join(" "))
        });
        Answer {
            code: reply.outcome.code,
            matched_dn: comparable_dn(&reply.outcome.matched_dn).to_lowercase(),
            diagnostic: reply.outcome.diagnostic,
            entries: comparable_entries(&reply.entries),
            others: referrals.chain(references).chain(others).collect(),
            tree,
        }
    }
}

/// Describes the controls of a response.
fn control_texts(prefix: &str, controls: Option<Controls<'_>>, is_loose: bool) -> BTreeSet<String> {
    let text = |control: ldap::Control<'_>| {
        let value = control.value.unwrap_or_default();
        match control.oid {
            oids::PRE_READ | oids::POST_READ => {
                let entry = copied_entry(value).map(|entry| comparable_entries(&[entry]));
                let entry = entry.map(|entry| if is_loose { without_known_variants(entry) } else { entry });
                format!("{prefix}{} {entry:?}", control.oid)
            }
            oid => format!("{prefix}{oid} {value:02x?}"),
        }
    };
    controls.iter().flat_map(Controls::iter).map(text).collect()
}

/// Decodes the copy of an entry (RFC 4527 section 3.1).
fn copied_entry(value: &[u8]) -> Option<Entry> {
    let mut reader = Reader::new(value);
    let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    let dn = text(fields.octet_string().ok()?);
    let mut list = fields.sequence(Tag::SEQUENCE).ok()?;
    let mut attributes = Vec::new();
    while !list.is_empty() {
        let mut attribute = list.sequence(Tag::SEQUENCE).ok()?;
        let description = text(attribute.octet_string().ok()?);
        let mut set = attribute.sequence(Tag::SET).ok()?;
        let values = std::iter::from_fn(|| set.octet_string().ok().map(<[u8]>::to_vec)).collect();
        attributes.push(Attribute { description, values });
    }
    Some(Entry { dn, attributes })
}

pub(super) fn comparable_entries(entries: &[Entry]) -> Entries {
    let mut comparable = Entries::new();
    for entry in entries {
        let attributes = entry.attributes.iter().map(|attribute| {
            let values = attribute.values.iter().enumerate();
            let values = values.map(|(index, value)| comparable_value(&attribute.description, index, value));
            (attribute.description.clone(), values.collect())
        });
        let double = comparable.insert(comparable_dn(&entry.dn), attributes.collect());
        assert!(double.is_none(), "{} was returned twice", entry.dn);
    }
    comparable
}

fn comparable_value(description: &str, index: usize, value: &[u8]) -> String {
    let text = std::str::from_utf8(value);
    match text {
        _ if description == "userPassword" => format!("password {index}"),
        Ok(dn) if DN_ATTRIBUTES.contains(&description) => comparable_dn(dn).to_lowercase(),
        Ok(dn) if description == "uniqueMember" => match dn.rsplit_once('#') {
            Some((dn, uid)) => format!("{}#{uid}", comparable_dn(dn).to_lowercase()),
            None => comparable_dn(dn).to_lowercase(),
        },
        Ok(class) if description == "objectClass" => class.to_lowercase(),
        Ok(text) => text.to_owned(),
        Err(_) => format!("{value:02x?}"),
    }
}

/// Normalizes a DN: types in lower case, the values of an RDN in order, one form of escaping.
fn comparable_dn(text: &str) -> String {
    let Ok(dn) = Dn::parse(text) else { return format!("not a DN: {text}") };
    let rdns = dn.rdns().map(|rdn| {
        let avas = rdn.avas.iter().map(|ava| {
            let value = String::from_utf8_lossy(&ava.value).into_owned();
            format!("{}={}", ava.attribute.to_lowercase(), ldap::escaped_value(value.as_bytes()))
        });
        avas.collect::<BTreeSet<String>>().into_iter().collect::<Vec<_>>().join("+")
    });
    rdns.collect::<Vec<_>>().join(",")
}

pub(super) fn differing_entries(ours: &Entries, theirs: &Entries) -> String {
    let mut lines = String::new();
    for dn in ours.keys().chain(theirs.keys()).collect::<BTreeSet<_>>() {
        match (ours.get(dn), theirs.get(dn)) {
            (Some(_), None) => _ = writeln!(lines, "    only ours: {dn}"),
            (None, Some(_)) => _ = writeln!(lines, "    only theirs: {dn}"),
            (Some(our_entry), Some(their_entry)) => {
                for description in our_entry.keys().chain(their_entry.keys()).collect::<BTreeSet<_>>() {
                    let (our_values, their_values) =
                        (our_entry.get(description), their_entry.get(description));
                    if our_values != their_values {
                        let _ = writeln!(
                            lines,
                            "    {dn} {description}: ours {our_values:?}, theirs {their_values:?}"
                        );
                    }
                }
            }
            (None, None) => unreachable!("the name comes from one of the two"),
        }
    }
    lines
}
