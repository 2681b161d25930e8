//! The figures as entries below `cn=monitor`.
//!
//! The structure and the attribute names are the same as in OpenLDAP's monitor tree, so that existing tools can read
//! them: `cn=Operations` with the received and finished operations by kind, `cn=Connections`, `cn=Statistics` and
//! `cn=Time`. Below each kind of operation there are numbers by result code. The other containers exist only in Pando.
//! The `description` of an entry explains its figure.

use directory::csn::generalized_time;
use directory::virtual_entries::VirtualEntry;

use super::figure::{Group, Value};
use crate::telemetry::counters::OperationTotal;

/// DN of the monitor tree.
const ROOT: &str = "cn=monitor";

/// Returns all entries of the tree. A parent is before its children.
pub(super) fn entries(groups: &[Group], totals: &[OperationTotal]) -> Vec<VirtualEntry> {
    let mut tree = Tree::default();
    tree.add(ROOT.to_owned(), "monitorServer", vec![("monitoredInfo", format!("Pando {}", super::RELEASE))]);
    tree.add_operations(totals);
    for group in groups {
        let parent = format!("cn={},{ROOT}", group.name);
        tree.add(parent.clone(), "monitorContainer", Vec::new());
        for figure in &group.figures {
            let (class, attribute, value) = entry_value(&figure.value);
            let attributes = vec![(attribute, value), ("description", figure.help.to_owned())];
            tree.add(format!("cn={},{parent}", figure.name), class, attributes);
        }
    }
    tree.entries
}

/// Returns the object class of a figure's entry, and the name and value of the attribute that contains the figure.
fn entry_value(value: &Value) -> (&'static str, &'static str, String) {
    let info = |text| ("monitoredObject", "monitoredInfo", text);
    match value {
        Value::Count(number) | Value::Level(number) => {
            ("monitorCounterObject", "monitorCounter", number.to_string())
        }
        Value::By(_, _, values) => {
            let texts: Vec<String> = values.iter().map(|(name, number)| format!("{name} {number}")).collect();
            info(texts.join(", "))
        }
        Value::Time(seconds) => ("monitoredObject", "monitorTimestamp", generalized_time(*seconds)),
        Value::Flag(flag) => info(flag.to_string()),
        Value::Fault(Ok(healthy)) => info((*healthy).to_owned()),
        Value::Fault(Err(text)) | Value::State(_, text) | Value::Text(text) => info(text.clone()),
        Value::Progress(done, of) => info(format!("building: entry {done} of {of}")),
    }
}

#[derive(Default)]
struct Tree {
    entries: Vec<VirtualEntry>,
}

impl Tree {
    fn add(&mut self, dn: String, class: &str, attributes: Vec<(&str, String)>) {
        let name = dn.split([',', '=']).nth(1).unwrap_or_default().to_owned();
        let classes = vec![b"top".to_vec(), class.as_bytes().to_vec()];
        let mut all = vec![("objectClass".to_owned(), classes), ("cn".to_owned(), vec![name.into_bytes()])];
        all.extend(attributes.into_iter().map(|(name, value)| (name.to_owned(), vec![value.into_bytes()])));
        self.entries.push(VirtualEntry { dn, attributes: all });
    }

    /// Adds `cn=Operations`: the numbers of received and finished operations, in total, by kind, and by kind and result
    /// code.
    fn add_operations(&mut self, totals: &[OperationTotal]) {
        let finished = |total: &OperationTotal| total.results.iter().map(|(_, count)| count).sum::<u64>();
        let received = totals.iter().map(|total| total.received).sum();
        let parent = format!("cn=Operations,{ROOT}");
        self.add_operation(parent.clone(), received, totals.iter().map(finished).sum());
        for total in totals {
            let of_kind = format!("cn={},{parent}", total.name);
            self.add_operation(of_kind.clone(), total.received, finished(total));
            for (code, count) in &total.results {
                let name = code.map_or_else(|| "other codes".to_owned(), |code| code.to_string());
                let attributes = vec![("monitorCounter", count.to_string())];
                self.add(format!("cn={name},{of_kind}"), "monitorCounterObject", attributes);
            }
        }
    }

    fn add_operation(&mut self, dn: String, received: u64, finished: u64) {
        let attributes =
            vec![("monitorOpInitiated", received.to_string()), ("monitorOpCompleted", finished.to_string())];
        self.add(dn, "monitorOperation", attributes);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;
    use std::time::Duration;

    use ldap::ResultCode;

    use super::*;
    use crate::telemetry::counters::{Counters, Operation, operation_totals};

    #[test]
    fn parents_precede_children_and_entries_are_named_by_rdn() {
        let counters = Counters::default();
        counters.received(Operation::SEARCH);
        counters.completed(Operation::SEARCH, ResultCode::NO_SUCH_OBJECT, Duration::ZERO);
        let groups = super::super::Monitor::new().groups();
        let mut seen = HashSet::new();
        let entries = entries(&groups, &operation_totals(&[Arc::new(counters)]));
        for entry in &entries {
            let dn = ldap::Dn::parse(&entry.dn).unwrap();
            if entry.dn != ROOT {
                assert!(seen.contains(dn.text_from(1)), "{}", entry.dn);
            }
            let cn = &entry.attributes[1].1[0];
            assert!(entry.dn.starts_with(&format!("cn={}", String::from_utf8_lossy(cn))), "{}", entry.dn);
            assert!(seen.insert(entry.dn.as_str()), "{}", entry.dn);
        }
        assert!(seen.contains("cn=noSuchObject,cn=search,cn=Operations,cn=monitor"));
        assert!(seen.contains("cn=CPU User Milliseconds,cn=Process,cn=monitor"));
    }
}
