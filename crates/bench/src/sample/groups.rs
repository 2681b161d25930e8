//! Groups of every kind that directories use.

use ldap::{LdapUrl, Scope, UrlScheme};

use super::names::{COMPANY, Department};
use super::people::{GID_NUMBER_FIRST, Person, Rank, head_of};
use super::{Builder, Sample, SampleEntry};

impl Sample {
    /// Returns a group for each department, with all people of the department as members. These groups come before
    /// their members.
    pub(super) fn department_groups(&self) -> Vec<SampleEntry> {
        let group = |(number, department): (usize, &Department)| {
            self.group(&department.key, &format!("Everyone in {}", department.name))
                .text("owner", &self.person_dn(head_of(number)))
                .texts("member", &self.dns_of(|person| person.post.department == number))
                .done()
        };
        COMPANY.departments.iter().enumerate().map(group).collect()
    }

    /// Returns groups across departments. These groups come after their members.
    pub(super) fn company_groups(&self) -> Vec<SampleEntry> {
        let nested = |name: &str, description: &str, members: &[&str]| {
            let members: Vec<String> = members.iter().map(|member| self.group_dn(member)).collect();
            self.group(name, description).texts("member", &members).done()
        };
        let posix = |name: &str, description: &str, gid_number: usize, members: Vec<String>| {
            Builder::new(self.group_dn(name), &["top", "groupOfNames", "posixGroup"])
                .text("cn", name)
                .text("description", description)
                .text("gidNumber", &gid_number.to_string())
                .texts("member", &members)
                .done()
        };
        vec![
            posix("all-staff", "Everyone, one by one", 6_000, self.dns_of(|_| true)),
            posix(
                "managers",
                "Heads of departments and leads of teams",
                6_001,
                self.dns_of(|person| matches!(person.post.rank, Rank::Head | Rank::Lead)),
            ),
            nested("technology", "Groups in a group", &["engineering", "research", "operations"]),
            nested(
                "business",
                "Groups in a group",
                &["sales", "marketing", "finance", "legal", "procurement"],
            ),
            nested("company", "Three levels deep", &["technology", "business", "executive-office"]),
            self.group("on-call", "People, a group and a program together")
                .texts(
                    "member",
                    &[self.person_dn(8), self.group_dn("operations"), self.service_dn("monitoring")],
                )
                .done(),
            posix(
                "Überraschungsfest",
                "A name that is not ASCII",
                6_002,
                self.dns_of(|person| person.uid.starts_with("sm")),
            ),
            Builder::new(self.group_dn("works-council"), &["top", "groupOfUniqueNames"])
                .text("cn", "works-council")
                .text("description", "Elected; unique names")
                .texts("uniqueMember", &(0..9).map(|seat| self.person_dn(60 + seat * 97)).collect::<Vec<_>>())
                .done(),
            self.dynamic_group("interns", "Interns, found by a filter", "(employeeType=intern)"),
            self.dynamic_group("krakow", "People in Kraków, found by a filter", "(l=Kraków)"),
        ]
    }

    fn group(&self, name: &str, description: &str) -> Builder {
        Builder::new(self.group_dn(name), &["top", "groupOfNames"])
            .text("cn", name)
            .text("description", description)
    }

    fn dynamic_group(&self, name: &str, description: &str, filter: &str) -> SampleEntry {
        let url = LdapUrl {
            scheme: UrlScheme::Ldap,
            host: None,
            port: None,
            dn: format!("ou=people,{}", self.suffix),
            attributes: Vec::new(),
            scope: Some(Scope::WholeSubtree),
            filter: Some(filter.to_owned()),
            extensions: Vec::new(),
        };
        Builder::new(self.group_dn(name), &["top", "groupOfURLs"])
            .text("cn", name)
            .text("description", description)
            .text("memberURL", &url.to_string())
            .done()
    }

    /// Returns a POSIX group for each department, and two small POSIX groups.
    pub(super) fn unix_groups(&self) -> Vec<SampleEntry> {
        let departments = COMPANY.departments.iter().enumerate();
        let of_department = |(number, department): (usize, &Department)| {
            self.unix_group(&department.key, GID_NUMBER_FIRST + number, |it| it.post.department == number)
        };
        let mut groups: Vec<SampleEntry> = departments.map(of_department).collect();
        groups.push(self.unix_group("wheel", 4_000, |person| {
            COMPANY.departments[person.post.department].key == "operations" && person.post.rank != Rank::Staff
        }));
        groups.push(self.unix_group("leads", 4_001, |person| person.post.rank == Rank::Lead));
        groups
    }

    fn unix_group(&self, name: &str, gid_number: usize, is_member: impl Fn(&Person) -> bool) -> SampleEntry {
        let uids: Vec<&str> =
            self.people.iter().filter(|person| is_member(person)).map(|person| person.uid.as_str()).collect();
        // Members are stored in both forms: memberUid of RFC 2307, and member of its successor, the schema rfc2307bis.
        let classes = ["top", "groupOfNames", "posixGroup"];
        Builder::new(format!("cn={name},ou=unix groups,{}", self.suffix), &classes)
            .text("cn", name)
            .text("gidNumber", &gid_number.to_string())
            .texts("member", &self.dns_of(&is_member))
            .texts("memberUid", &uids)
            .done()
    }

    fn dns_of(&self, is_member: impl Fn(&Person) -> bool) -> Vec<String> {
        let members = self.people.iter().enumerate().filter(|(_, person)| is_member(person));
        members.map(|(index, _)| self.person_dn(index)).collect()
    }
}
