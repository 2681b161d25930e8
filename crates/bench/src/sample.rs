//! The sample organization, which `pando serve --sample` loads. The sample is the same on every machine and at every
//! start.
//!
//! "Sample Works" has a thousand people in twelve departments, and examples of most things that directories contain:
//! nested, unique-name, dynamic and POSIX groups, names in a dozen scripts with language options, portraits,
//! certificates, SSH keys, hosts, service accounts, an alias and a referral. The sample is for exploring with any LDAP
//! client, and for tests that need predictable answers.
//!
//! The password of every user and service account is [`PASSWORD`]: **never load the sample into a server that others
//! can reach**. Passwords are stored as {SSHA}, not as Pando's Argon2id, so that a thousand of them load quickly.
//!
//! ```text
//! <suffix>
//!   ou=departments   one organizationalUnit each, teams below; seeAlso names the head
//!   ou=groups        a groupOfNames per department, nested groups, groupOfUniqueNames, groupOfURLs; all-staff,
//!                    managers and another are posixGroup, too
//!   ou=unix groups   groupOfNames and posixGroup, with member and with memberUid
//!   ou=people        1,000 inetOrgPerson, posixAccount, shadowAccount; manager and secretary link them
//!   ou=contractors   a few with multi-valued and escaped RDNs
//!   ou=hosts         devices with ipHost and ieee802Device
//!   ou=services      account with simpleSecurityObject
//!   ou=aliases       alias entries (RFC 4512 section 2.6)
//!   ou=partners      a referral (RFC 3296): add it with the ManageDsaIT control
//! ```
//!
//! Parents come before children; no other order is guaranteed. Groups of departments precede their members, so they
//! name people who do not exist yet. Other groups follow their members.

mod groups;
mod infrastructure;
mod names;
mod people;
#[cfg(test)]
mod tests;

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ldap::Dn;
use ldap::ldif::LdifWriter;
use sha1::{Digest as _, Sha1};

use crate::Seeded;
pub(crate) use names::COMPANY;
use people::Person;

/// Password of all users in the sample.
pub const PASSWORD: &str = "password";

/// Seed of the sample. A different seed would change every sample, and thus results that users know.
const SEED: u64 = 20_261_120;

const ORGANISATION_NAME: &str = "Sample Works";

/// An entry to add: its DN, and attribute descriptions with their values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleEntry {
    /// The DN as text (RFC 4514).
    pub dn: String,
    /// Attribute descriptions, some with options, and their values. Each description has at least one value.
    /// objectClass is first.
    pub attributes: Vec<(String, Vec<Vec<u8>>)>,
}

/// Reason why there is no sample for a suffix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsupportedSuffix {
    /// The suffix is not a DN, or is empty.
    #[error("\"{0}\" is not a DN that a sample can be put below")]
    NotADn(String),
    /// No suitable object class exists for the attribute type in the suffix's first RDN.
    #[error("no sample for a suffix named by {0}: choose one that begins with dc, o, ou, c, l or st")]
    NamingAttribute(String),
}

/// Returns the entries of the sample organization. The first entry is the suffix entry. This call creates all 1,106
/// entries (2 MB) at once.
///
/// # Errors
/// The suffix is not a DN, or does not begin with an RDN of dc, o, ou, c, l or st.
pub fn organisation(suffix: &str) -> Result<impl Iterator<Item = SampleEntry> + use<>, UnsupportedSuffix> {
    let dn = Dn::parse(suffix).map_err(|_| UnsupportedSuffix::NotADn(suffix.to_owned()))?;
    let first = suffix_entry(suffix)?.sample();
    let mut seeded = Seeded::new(SEED);
    let people = people::roster(&mut seeded);
    let sample = Sample { suffix: suffix.to_owned(), mail_domain: mail_domain(&dn), people };

    let mut entries = vec![first];
    entries.extend(sample.containers());
    entries.extend(sample.departments());
    entries.extend(sample.department_groups());
    entries.extend((0..sample.people.len()).map(|index| sample.person(index, &mut seeded)));
    entries.extend(sample.company_groups());
    entries.extend(sample.unix_groups());
    entries.extend(sample.contractors(&mut seeded));
    entries.extend(sample.hosts());
    entries.extend(sample.services(&mut seeded));
    entries.extend(sample.aliases());
    entries.push(sample.referral());
    Ok(entries.into_iter())
}

/// Writes the sample as LDIF (RFC 2849), for other servers and for readers.
///
/// # Errors
/// An [`UnsupportedSuffix`] with the kind `InvalidInput`, or an error of `out`.
pub fn write_ldif(out: impl Write, suffix: &str) -> io::Result<()> {
    let entries = organisation(suffix).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let mut writer = LdifWriter::new(out);
    writer.version()?;
    for entry in entries {
        let values = entry.attributes.iter().flat_map(|(description, values)| {
            values.iter().map(move |value| (description.as_str(), value.as_slice()))
        });
        writer.entry(&entry.dn, values)?;
    }
    Ok(())
}

/// Values that several entries of the sample refer to, such as the suffix.
struct Sample {
    suffix: String,
    mail_domain: String,
    people: Vec<Person>,
}

impl Sample {
    fn person_dn(&self, index: usize) -> String {
        format!("uid={},ou=people,{}", self.people[index].uid, self.suffix)
    }

    fn group_dn(&self, name: &str) -> String {
        format!("cn={name},ou=groups,{}", self.suffix)
    }

    fn service_dn(&self, uid: &str) -> String {
        format!("uid={uid},ou=services,{}", self.suffix)
    }

    fn containers(&self) -> impl Iterator<Item = SampleEntry> {
        const CONTAINERS: &[(&str, &str)] = &[
            ("departments", "How Sample Works is organised"),
            ("groups", "Groups of names: who may do what"),
            ("unix groups", "POSIX groups for the hosts"),
            ("people", "Everyone who works here; the password of each is \"password\""),
            ("contractors", "People who work with us for a while"),
            ("hosts", "Machines"),
            ("services", "Accounts of programs; the password of each is \"password\""),
            ("aliases", "Other names of entries elsewhere"),
        ];
        CONTAINERS.iter().map(|(name, description)| {
            Builder::new(format!("ou={name},{}", self.suffix), &["top", "organizationalUnit"])
                .text("ou", name)
                .text("description", description)
                .done()
        })
    }

    /// Returns the departments and, below each, its teams.
    fn departments(&self) -> Vec<SampleEntry> {
        let mut entries = Vec::new();
        for (number, department) in COMPANY.departments.iter().enumerate() {
            let dn = format!(
                "ou={},ou=departments,{}",
                ldap::escaped_value(department.name.as_bytes()),
                self.suffix
            );
            let head = people::head_of(number);
            entries.push(
                Builder::new(dn.clone(), &["top", "organizationalUnit"])
                    .text("ou", &department.name)
                    .text("seeAlso", &self.person_dn(head))
                    .text("businessCategory", if number == 0 { "Management" } else { "Department" })
                    .text("telephoneNumber", &format!("+41 44 555 00 {number:02}"))
                    .done(),
            );
            entries.extend(department.teams.iter().enumerate().map(|(team, name)| {
                Builder::new(
                    format!("ou={},{dn}", ldap::escaped_value(name.as_bytes())),
                    &["top", "organizationalUnit"],
                )
                .text("ou", name)
                .text("seeAlso", &self.person_dn(people::lead_of(number, team)))
                .text("businessCategory", "Team")
                .done()
            }));
        }
        entries
    }
}

/// Returns the suffix entry, with the object class that its naming attribute needs. If the suffix is a domain, the name
/// of the organization is the name of the domain.
///
/// # Errors
/// The suffix is not a DN, or does not begin with an RDN of dc, o, ou, c, l or st.
pub fn suffix_entry(suffix: &str) -> Result<SampleEntry, UnsupportedSuffix> {
    let dn = Dn::parse(suffix).map_err(|_| UnsupportedSuffix::NotADn(suffix.to_owned()))?;
    let Some(naming) = dn.rdn().and_then(|rdn| rdn.avas.first()) else {
        return Err(UnsupportedSuffix::NotADn(suffix.to_owned()));
    };
    let classes: &[&str] = match naming.attribute.to_ascii_lowercase().as_str() {
        "dc" | "domaincomponent" => &["top", "organization", "dcObject"],
        "o" | "organizationname" => &["top", "organization"],
        "ou" | "organizationalunitname" => &["top", "organizationalUnit"],
        "c" | "countryname" => &["top", "country"],
        "l" | "localityname" | "st" | "stateorprovincename" => &["top", "locality"],
        _ => return Err(UnsupportedSuffix::NamingAttribute(naming.attribute.to_owned())),
    };
    let mut builder = Builder::new(suffix.to_owned(), classes);
    for ava in dn.rdn().into_iter().flat_map(|rdn| rdn.avas) {
        builder = builder.octets(ava.attribute, vec![ava.value.to_vec()]);
    }
    let has_name = builder.0.attributes.iter().any(|(name, _)| name.eq_ignore_ascii_case("o"));
    if classes.contains(&"dcObject") && !has_name {
        builder = builder.octets("o", vec![naming.value.to_vec()]);
    }
    Ok(builder.done())
}

impl SampleEntry {
    /// Adds to a plain suffix entry the attributes that the sample's suffix entry has.
    fn sample(mut self) -> SampleEntry {
        let is_domain = self.attributes.iter().any(|(name, _)| name.eq_ignore_ascii_case("dc"));
        let organization = self.attributes.iter_mut().find(|(name, _)| name == "o");
        if let Some((_, values)) = organization.filter(|_| is_domain) {
            *values = vec![ORGANISATION_NAME.as_bytes().to_vec()];
        }
        Builder(self).text("description", "The sample organisation: nothing here is real").done()
    }
}

/// Returns the mail domain of the sample, such as example.com for `dc=example,dc=com`. If the suffix has other
/// attributes or values that are not ASCII, the mail domain is also example.com.
fn mail_domain(suffix: &Dn<'_>) -> String {
    let labels: Option<Vec<String>> = suffix
        .rdns()
        .flat_map(|rdn| rdn.avas)
        .map(|ava| match (ava.attribute.eq_ignore_ascii_case("dc"), std::str::from_utf8(&ava.value)) {
            (true, Ok(label)) if label.is_ascii() => Some(label.to_owned()),
            _ => None,
        })
        .collect();
    labels.map_or_else(|| "example.com".to_owned(), |labels| labels.join("."))
}

/// Returns {SSHA} of [`PASSWORD`], with a salt from the generator.
fn password_value(seeded: &mut Seeded) -> String {
    let salt: [u8; 8] = seeded.bytes();
    let mut raw = Sha1::new().chain_update(PASSWORD).chain_update(salt).finalize().to_vec();
    raw.extend_from_slice(&salt);
    format!("{{SSHA}}{}", STANDARD.encode(raw))
}

/// Builder of an entry, value by value.
struct Builder(SampleEntry);

impl Builder {
    fn new(dn: String, classes: &[&str]) -> Builder {
        Builder(SampleEntry { dn, attributes: Vec::new() }).texts("objectClass", classes)
    }

    fn text(self, description: &str, value: &str) -> Builder {
        self.octets(description, vec![value.as_bytes().to_vec()])
    }

    fn texts<T: AsRef<str>>(self, description: &str, values: &[T]) -> Builder {
        let values = values.iter().map(|value| value.as_ref().as_bytes().to_vec()).collect();
        self.octets(description, values)
    }

    /// Adds an attribute, unless it has no values.
    fn octets(mut self, description: &str, values: Vec<Vec<u8>>) -> Builder {
        if !values.is_empty() {
            self.0.attributes.push((description.to_owned(), values));
        }
        self
    }

    fn done(self) -> SampleEntry {
        self.0
    }
}
