//! Entries other than the people of departments: contractors with unusual names, hosts, service accounts, aliases and a
//! referral.

use super::names::COMPANY;
use super::{Builder, Sample, SampleEntry, password_value};
use crate::Seeded;

impl Sample {
    /// Returns people whose names are hard to write in a DN.
    pub(super) fn contractors(&self, seeded: &mut Seeded) -> Vec<SampleEntry> {
        let entry = |(name, surname, number): &(String, String, String)| {
            let rdn = format!("cn={}+employeeNumber={number}", ldap::escaped_value(name.as_bytes()));
            let classes = ["top", "person", "organizationalPerson", "inetOrgPerson"];
            Builder::new(format!("{rdn},ou=contractors,{}", self.suffix), &classes)
                .text("cn", name)
                .text("sn", surname)
                .text("employeeNumber", number)
                .text("employeeType", "contractor")
                .text("manager", &self.person_dn(8))
                .text("userPassword", &password_value(seeded))
                .done()
        };
        COMPANY.contractors.iter().map(entry).collect()
    }

    /// Returns hosts, with addresses from the ranges for documentation (RFC 5737, RFC 3849, RFC 7042).
    pub(super) fn hosts(&self) -> Vec<SampleEntry> {
        let names = COMPANY.hosts.iter();
        let names = names.flat_map(|(purpose, count)| (1..=*count).map(move |n| format!("{purpose}-{n:02}")));
        names
            .zip(1..)
            .map(|(name, number)| {
                let classes = ["top", "device", "ipHost", "ieee802Device"];
                Builder::new(format!("cn={name},ou=hosts,{}", self.suffix), &classes)
                    .texts("cn", &[name.clone(), format!("{name}.{}", self.mail_domain)])
                    .texts("ipHostNumber", &[format!("192.0.2.{number}"), format!("2001:db8::{number:x}")])
                    .text("macAddress", &format!("00:00:5e:00:53:{number:02x}"))
                    .text("serialNumber", &format!("SW-{:05}", 7919 * number % 100_000))
                    .text("owner", &self.person_dn(390 + number))
                    .text("l", "Zürich")
                    .done()
            })
            .collect()
    }

    pub(super) fn services(&self, seeded: &mut Seeded) -> Vec<SampleEntry> {
        let entry = |(uid, description): &(String, String)| {
            let classes = ["top", "account", "simpleSecurityObject"];
            Builder::new(self.service_dn(uid), &classes)
                .text("uid", uid)
                .text("description", description)
                .text("userPassword", &password_value(seeded))
                .done()
        };
        COMPANY.services.iter().map(entry).collect()
    }

    /// Returns an alias of an entry and an alias of a subtree. The class alias has no naming attribute, so the entries
    /// also have extensibleObject.
    pub(super) fn aliases(&self) -> Vec<SampleEntry> {
        let alias = |rdn: (&str, &str), target: String| {
            let dn = format!("{}={},ou=aliases,{}", rdn.0, rdn.1, self.suffix);
            Builder::new(dn, &["top", "alias", "extensibleObject"])
                .text(rdn.0, rdn.1)
                .text("aliasedObjectName", &target)
                .done()
        };
        vec![
            alias(("cn", "chief"), self.person_dn(0)),
            alias(("ou", "it"), format!("ou=Operations,ou=departments,{}", self.suffix)),
        ]
    }

    /// Returns a referral (RFC 3296). The host in it does not exist (RFC 2606), so clients that follow the referral
    /// fail.
    pub(super) fn referral(&self) -> SampleEntry {
        Builder::new(format!("ou=partners,{}", self.suffix), &["top", "referral", "extensibleObject"])
            .text("ou", "partners")
            .text("ref", "ldap://ldap.partner.example/ou=people,dc=partner,dc=example")
            .done()
    }
}
