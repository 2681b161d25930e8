//! Checks a record of LDIF without a directory: names, values, and the classes of entries.
//!
//! Conditions that depend on a directory are not checked, such as whether the superior exists or the name is free.

use std::borrow::Cow;
use std::collections::HashSet;

use ldap::Dn;
use ldap::ldif::{LdifBody, LdifRecord, LdifValues};
use schema::{AttributeDescription, DescriptionError, Schema};

use crate::write::schema_check::{Present, check_attributes, object_class_type, read_classes};

/// A fault of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LdifFinding {
    /// Line of the fault, counted from 1.
    pub line: u64,
    /// Description of the fault.
    pub text: String,
}

/// Checks a record: the syntax of names and, with a schema, the attributes, their values, and the classes of an entry.
/// Returns the findings in the order of lines.
pub fn check_record(schema: Option<&Schema>, record: &LdifRecord<'_>) -> Vec<LdifFinding> {
    let mut check = RecordCheck { schema, findings: Vec::new() };
    check.name(record.line, record.dn);
    match record.body {
        LdifBody::Entry(values) | LdifBody::Add(values) => check.entry(record.line, values),
        LdifBody::Delete => {}
        LdifBody::Modify(changes) => {
            for change in changes.iter() {
                check.description(change.line, change.description);
                check.values(change.values);
            }
        }
        LdifBody::ModifyDn { new_rdn, new_superior, .. } => {
            check.name(record.line, new_rdn);
            if let Some(superior) = new_superior {
                check.name(record.line, superior);
            }
        }
    }
    check.findings
}

struct RecordCheck<'s> {
    schema: Option<&'s Schema>,
    findings: Vec<LdifFinding>,
}

impl<'s> RecordCheck<'s> {
    fn found(&mut self, line: u64, text: String) {
        self.findings.push(LdifFinding { line, text });
    }

    fn name(&mut self, line: u64, text: &str) {
        let dn = match Dn::parse(text) {
            Ok(dn) => dn,
            Err(error) => return self.found(line, format!("{text:?} is not a distinguished name: {error}")),
        };
        if let Some(schema) = self.schema
            && let Err(error) = schema.normalize_dn(&dn, &mut Vec::new())
        {
            self.found(line, format!("{text:?}: {error}"));
        }
    }

    fn description(&mut self, line: u64, text: &str) -> Option<AttributeDescription> {
        match self.schema?.parse_description(text) {
            Ok(description) => Some(description),
            Err(DescriptionError::UnknownType(..)) => {
                self.found(line, format!("attribute type {text:?} is not in the schema"));
                None
            }
            Err(error) => {
                self.found(line, error.to_string());
                None
            }
        }
    }

    /// Checks the values of a record. Returns the attributes with their numbers of values.
    fn values(&mut self, values: LdifValues<'_>) -> Vec<Present<'static>> {
        let Some(schema) = self.schema else { return Vec::new() };
        let mut present: Vec<Present<'static>> = Vec::new();
        let mut keys: HashSet<(usize, Vec<u8>)> = HashSet::new();
        let mut unknown: HashSet<&str> = HashSet::new();
        for line in values.iter() {
            if unknown.contains(line.description) {
                continue;
            }
            let Some(description) = self.description(line.line, line.description) else {
                unknown.insert(line.description);
                continue;
            };
            let attribute_type = schema.type_by_id(description.type_id);
            let name = line.description;
            if let Err(error) = schema.validate_value(attribute_type, line.value) {
                self.found(line.line, format!("{name}: {error}"));
            }
            let is_this = |known: &Present<'_>| {
                known.description.type_id == description.type_id
                    && known.description.options == description.options
            };
            let place = present.iter().position(is_this).unwrap_or(present.len());
            if place == present.len() {
                present.push(Present { description: Cow::Owned(description), value_count: 0 });
            }
            if let Some(known) = present.get_mut(place) {
                known.value_count += 1;
            }
            let mut key = Vec::new();
            if attribute_type
                .equality
                .is_none_or(|rule| rule.normalize(schema, line.value, &mut key).is_err())
            {
                key = line.value.to_vec();
            }
            if !keys.insert((place, key)) {
                self.found(line.line, format!("{name}: the value occurs twice"));
            }
        }
        present
    }

    fn entry(&mut self, line: u64, values: LdifValues<'_>) {
        let present = self.values(values);
        let Some(schema) = self.schema else { return };
        let Ok(object_class) = object_class_type(schema) else { return };
        let is_class = |name: &str| {
            schema.parse_description(name).is_ok_and(|description| description.type_id == object_class)
        };
        let classes = values.iter().filter(|line| is_class(line.description)).map(|line| line.value);
        let checked = read_classes(schema, classes)
            .and_then(|class_set| check_attributes(schema, &class_set, &present));
        if let Err(error) = checked {
            self.found(line, error.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use ldap::ldif::LdifReader;

    use super::*;

    fn findings(schema: Option<&Schema>, text: &str) -> Vec<(u64, String)> {
        let mut reader = LdifReader::new(text.as_bytes());
        let mut findings = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            findings.extend(
                check_record(schema, &record).into_iter().map(|finding| (finding.line, finding.text)),
            );
        }
        findings
    }

    #[test]
    fn reports_each_fault_with_its_line_and_text() {
        let schema = Schema::shipped();
        let person = "dn: cn=a,o=b\nobjectClass: person\ncn: a\nsn: a\n";
        let cases = [
            (person.to_owned(), 0, ""),
            ("dn: a\nobjectClass: person\ncn: a\nsn: a\n".to_owned(), 1, "not a distinguished name"),
            ("dn: nonsense=a,o=b\nobjectClass: person\ncn: a\nsn: a\n".to_owned(), 1, "nonsense"),
            (format!("{person}shoeSize: 44\n"), 5, "\"shoeSize\" is not in the schema"),
            (format!("{person}seeAlso: a\n"), 5, "seeAlso: "),
            (format!("{person}description: b\ndescription: B\n"), 6, "the value occurs twice"),
            (format!("{person}mail: a@b\n"), 1, "mail is not allowed"),
            ("dn: cn=a,o=b\nobjectClass: person\ncn: a\n".to_owned(), 1, "requires sn"),
            ("dn: cn=a,o=b\ncn: a\n".to_owned(), 1, "objectClass"),
            ("dn: cn=a\nchangetype: modify\nreplace: seeAlso\nseeAlso: x\n-\n".to_owned(), 4, "seeAlso"),
            ("dn: cn=a\nchangetype: modrdn\nnewrdn: b\ndeleteoldrdn: 0\n".to_owned(), 1, "\"b\""),
        ];
        for (text, line, part) in cases {
            let found = findings(Some(&schema), &text);
            match part {
                "" => assert_eq!(found, [], "{text}"),
                _ => assert!(
                    found.len() == 1 && found[0].0 == line && found[0].1.contains(part),
                    "{text}: {found:?}"
                ),
            }
        }
        assert_eq!(findings(None, "dn: any=a\nshoeSize: 44\n"), []);
    }
}
