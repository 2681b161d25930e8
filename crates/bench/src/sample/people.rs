//! The people: their ranks, managers and entries.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::names::{COMPANY, Department, NotableName, Office, fold_to_ascii};
use super::{Builder, ORGANISATION_NAME, Sample, SampleEntry, password_value};
use crate::Seeded;

/// uidNumber of the first person. The next constant is the gidNumber of the first department's POSIX group.
const UID_NUMBER_FIRST: usize = 10_000;
pub(super) const GID_NUMBER_FIRST: usize = 5_000;

static PORTRAITS: [&[u8]; 6] = [
    include_bytes!("../../sample/portrait-1.jpg"),
    include_bytes!("../../sample/portrait-2.jpg"),
    include_bytes!("../../sample/portrait-3.jpg"),
    include_bytes!("../../sample/portrait-4.jpg"),
    include_bytes!("../../sample/portrait-5.jpg"),
    include_bytes!("../../sample/portrait-6.jpg"),
];
static CERTIFICATES: [&[u8]; 2] =
    [include_bytes!("../../sample/certificate-1.der"), include_bytes!("../../sample/certificate-2.der")];

/// Properties of a person. They are determined for all people before any entry is written, because the entry of one
/// person refers to other people.
pub(super) struct Person {
    pub(super) uid: String,
    name: Name,
    pub(super) post: JobPosition,
    office: &'static Office,
    pub(super) employee_type: &'static str,
}

#[derive(Clone, Copy)]
struct Name {
    given_name: &'static str,
    surname: &'static str,
    notable: Option<&'static NotableName>,
}

/// A position in the organization. People are numbered across all departments.
pub(super) struct JobPosition {
    pub(super) department: usize,
    team: Option<usize>,
    pub(super) rank: Rank,
    manager: Option<usize>,
    secretary: Option<usize>,
}

/// Rank of a person in the department.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rank {
    Head,
    Assistant,
    Lead,
    Staff,
}

/// Returns the person who heads a department. The head of the first department also heads the company.
pub(super) fn head_of(department: usize) -> usize {
    COMPANY.departments[..department].iter().map(|before| before.people).sum()
}

/// Returns the person who leads a team.
pub(super) fn lead_of(department: usize, team: usize) -> usize {
    head_of(department) + 2 + team
}

/// Returns all people, department by department. In each department the order is: the head, the head's assistant, the
/// leads of teams, and the others.
pub(super) fn roster(seeded: &mut Seeded) -> Vec<Person> {
    let mut namesakes = HashMap::new();
    let mut people = Vec::new();
    for (number, department) in COMPANY.departments.iter().enumerate() {
        for position in 0..department.people {
            let name = Name::for_person(people.len(), seeded);
            let post = JobPosition::at(number, position);
            people.push(Person {
                uid: unique(name.user_name(), &mut namesakes),
                name,
                office: seeded.choose(&COMPANY.offices),
                employee_type: match seeded.below(20) {
                    0 if post.rank == Rank::Staff => "intern",
                    1 | 2 if post.rank == Rank::Staff => "part-time",
                    _ => "employee",
                },
                post,
            });
        }
    }
    people
}

impl Name {
    /// Returns the name of a person. Every 41st person has one of the notable names, until these names are used up.
    fn for_person(index: usize, seeded: &mut Seeded) -> Name {
        let notable = if index % 41 == 3 { COMPANY.notable.get(index / 41) } else { None };
        let (given_name, surname) = match notable {
            Some(notable) => (&notable.latin.0, &notable.latin.1),
            None => (seeded.choose(&COMPANY.given_names), seeded.choose(&COMPANY.surnames)),
        };
        Name { given_name, surname, notable }
    }

    fn full(&self) -> String {
        format!("{} {}", self.given_name, self.surname)
    }

    /// Returns the user name. The result is the `uid` of a notable name, otherwise the first letter of the given name
    /// and the surname, in lower-case ASCII letters.
    fn user_name(&self) -> String {
        if let Some(notable) = self.notable {
            return notable.uid.clone();
        }
        let initial = fold_to_ascii(self.given_name).chars().take(1).collect::<String>();
        let letters = initial + &fold_to_ascii(self.surname);
        letters.chars().filter(char::is_ascii_alphabetic).map(|letter| letter.to_ascii_lowercase()).collect()
    }
}

/// Returns `name`, with a number appended if other people already have this name.
fn unique(name: String, namesakes: &mut HashMap<String, usize>) -> String {
    let count = namesakes.entry(name.clone()).or_insert(0);
    *count += 1;
    if *count == 1 { name } else { format!("{name}{count}") }
}

impl JobPosition {
    fn at(department: usize, position: usize) -> JobPosition {
        let head = head_of(department);
        let teams = COMPANY.departments[department].teams.len();
        let rank = match position {
            0 => Rank::Head,
            1 => Rank::Assistant,
            _ if position < 2 + teams => Rank::Lead,
            _ => Rank::Staff,
        };
        let team = (position >= 2 && teams > 0).then(|| (position - 2) % teams);
        let manager = match (rank, team) {
            (Rank::Head, _) if department == 0 => None,
            (Rank::Head, _) => Some(head_of(0)),
            (Rank::Staff, Some(team)) => Some(lead_of(department, team)),
            _ => Some(head),
        };
        let secretary = matches!(rank, Rank::Head | Rank::Lead).then_some(head + 1);
        JobPosition { department, team, rank, manager, secretary }
    }

    fn title(&self, department: &Department, seeded: &mut Seeded) -> String {
        match (self.rank, self.team) {
            (Rank::Head, _) if self.department == 0 => "Chief Executive".to_owned(),
            (Rank::Head, _) => format!("Head of {}", department.name),
            (Rank::Assistant, _) => format!("Assistant to the Head of {}", department.name),
            (Rank::Lead, Some(team)) => format!("Team Lead {}", department.teams[team]),
            _ => seeded.choose(&department.titles).clone(),
        }
    }
}

impl Sample {
    /// Returns the entry of a person: name, office and POSIX account.
    pub(super) fn person(&self, index: usize, seeded: &mut Seeded) -> SampleEntry {
        let person = &self.people[index];
        let has_key = index % 5 == 1;
        let mut classes =
            vec!["top", "person", "organizationalPerson", "inetOrgPerson", "posixAccount", "shadowAccount"];
        classes.extend(has_key.then_some("ldapPublicKey"));
        let builder = Builder::new(self.person_dn(index), &classes);
        let builder = self.identity(builder, person);
        let builder = self.work(builder, index, seeded);
        let builder = contact(builder, person, &self.mail_domain, seeded);
        let builder = unix_account(builder, index, person, seeded);
        let builder = if has_key { builder.text("sshPublicKey", &ssh_key(person, seeded)) } else { builder };
        large_values(builder, index).done()
    }

    fn identity(&self, builder: Builder, person: &Person) -> Builder {
        let Name { given_name, surname, notable } = person.name;
        let full = person.name.full();
        let initials: String = [given_name, surname].iter().filter_map(|name| name.chars().next()).collect();
        let builder = builder
            .text("uid", &person.uid)
            .text("cn", &full)
            .text("sn", surname)
            .text("givenName", given_name)
            .text("initials", &initials)
            .text("displayName", &full);
        let Some(notable) = notable else { return builder };
        let option = |attribute: &str| format!("{attribute};lang-{}", notable.language);
        builder
            .text(&option("cn"), &notable.native_full)
            .text(&option("givenName"), &notable.native.0)
            .text(&option("sn"), &notable.native.1)
    }

    fn work(&self, builder: Builder, index: usize, seeded: &mut Seeded) -> Builder {
        let person = &self.people[index];
        let department = &COMPANY.departments[person.post.department];
        let mut units = vec![&department.name];
        units.extend(person.post.team.map(|team| &department.teams[team]));
        let links =
            |people: Option<usize>| people.map(|other| self.person_dn(other)).into_iter().collect::<Vec<_>>();
        builder
            .text("o", ORGANISATION_NAME)
            .texts("ou", &units)
            .text("title", &person.post.title(department, seeded))
            .text("departmentNumber", &format!("{:02}", person.post.department))
            .text("employeeNumber", &(100_001 + index).to_string())
            .text("employeeType", person.employee_type)
            .texts("manager", &links(person.post.manager))
            .texts("secretary", &links(person.post.secretary))
    }
}

fn contact(builder: Builder, person: &Person, mail_domain: &str, seeded: &mut Seeded) -> Builder {
    let office = person.office;
    let city = format!("{} {}", office.postal_code, office.locality);
    let telephone = |extension: usize| format!("{} {extension:04}", office.telephone_prefix);
    let extension = seeded.below(10_000);
    let mut mail = vec![format!("{}@{mail_domain}", person.uid)];
    if person.post.rank != Rank::Staff {
        mail.push(format!("{}.office@{mail_domain}", person.uid));
    }
    let builder = builder
        .texts("mail", &mail)
        .text("telephoneNumber", &telephone(extension))
        .text("facsimileTelephoneNumber", &telephone(seeded.below(100)))
        .text("roomNumber", &format!("{}.{:02}", 1 + seeded.below(5), 1 + seeded.below(40)))
        .text("street", &office.street)
        .text("postalCode", &office.postal_code)
        .text("l", &office.locality)
        .text("st", &office.state)
        .text("postalAddress", &format!("{ORGANISATION_NAME}${}${city}${}", office.street, office.country))
        .text("preferredLanguage", &office.language)
        .text("labeledURI", &format!("https://people.{mail_domain}/{} Profile", person.uid));
    if seeded.below(3) == 0 { builder.text("mobile", &telephone(seeded.below(10_000))) } else { builder }
}

fn unix_account(builder: Builder, index: usize, person: &Person, seeded: &mut Seeded) -> Builder {
    let shell = seeded.choose(&["/bin/bash", "/bin/zsh", "/bin/sh"]);
    builder
        .text("uidNumber", &(UID_NUMBER_FIRST + index).to_string())
        .text("gidNumber", &(GID_NUMBER_FIRST + person.post.department).to_string())
        .text("homeDirectory", &format!("/home/{}", person.uid))
        .text("loginShell", shell)
        .text("gecos", &fold_to_ascii(&person.name.full()))
        .text("shadowLastChange", &(20_000 + seeded.below(700)).to_string())
        .text("shadowMin", "0")
        .text("shadowMax", "365")
        .text("shadowWarning", "14")
        .text("userPassword", &password_value(seeded))
}

/// Returns the line of an Ed25519 public key: two length-prefixed strings in base64 (RFC 8709 section 4). No private
/// key exists for it.
fn ssh_key(person: &Person, seeded: &mut Seeded) -> String {
    const ALGORITHM: &[u8] = b"ssh-ed25519";
    let mut blob = Vec::with_capacity(4 + ALGORITHM.len() + 4 + 32);
    blob.extend_from_slice(&(ALGORITHM.len() as u32).to_be_bytes());
    blob.extend_from_slice(ALGORITHM);
    blob.extend_from_slice(&32u32.to_be_bytes());
    blob.extend_from_slice(&seeded.bytes::<32>());
    format!("ssh-ed25519 {} {}", STANDARD.encode(blob), person.uid)
}

/// Adds large values. Every fiftieth person has a portrait. The chief executive and a few others have certificates, and
/// one of them has two.
fn large_values(builder: Builder, index: usize) -> Builder {
    let portrait = index.is_multiple_of(50).then(|| PORTRAITS[index / 50 % PORTRAITS.len()].to_vec());
    let certificates = match index {
        0 => &CERTIFICATES[..],
        8 | 298 => &CERTIFICATES[..1],
        390 => &CERTIFICATES[1..],
        _ => &[],
    };
    builder
        .octets("jpegPhoto", portrait.into_iter().collect())
        .octets("userCertificate;binary", certificates.iter().map(|der| der.to_vec()).collect())
}
