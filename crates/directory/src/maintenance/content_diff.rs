//! Differences between the entries of two servers: entries that only one server has, and attributes that have different
//! values on the servers.
//!
//! Names and values are compared by the schema's matching rules. Passwords, and values without an equality rule, are
//! compared by their octets. The comparison needs memory only for the sorters and two entries.

use store::StoreError;

use super::sorted_entries::SortedEntries;
pub use super::sorted_entries::{Compared, EntryFault, EntrySorter};

/// A difference between the two servers.
#[derive(Debug, PartialEq, Eq)]
pub enum ContentDifference<'d> {
    /// The entry exists only on the first server.
    OnlyFirst(&'d str),
    /// The entry exists only on the second server.
    OnlySecond(&'d str),
    /// Both servers have the entry, with different values.
    Values(&'d str, &'d [AttributeDifference]),
}

/// Attribute of an entry that has different values on the two servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeDifference {
    /// Name of the attribute, with its options.
    pub name: String,
    /// Number of values that only the first server has.
    pub first: usize,
    /// Number of values that only the second server has.
    pub second: usize,
}

/// Counts of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentSummary {
    /// Number of entries that only the first server has.
    pub only_first: u64,
    /// Number of entries that only the second server has.
    pub only_second: u64,
    /// Number of entries that both servers have, with different values.
    pub differing: u64,
    /// Number of entries that both servers have, with the same values.
    pub same: u64,
}

/// Passes each difference to `each`, in the order of names.
///
/// A server may send an entry twice if the entry is moved during the transfer. Such an entry counts once.
///
/// # Errors
/// The disk failed, or `each` returned an error.
pub fn content_diff<E: From<StoreError>>(
    compared: &Compared<'_>,
    (first, second): (EntrySorter<'_>, EntrySorter<'_>),
    each: &mut dyn FnMut(ContentDifference<'_>) -> Result<(), E>,
) -> Result<ContentSummary, E> {
    let (mut first, mut second) = (first.finish()?, second.finish()?);
    let mut summary = ContentSummary::default();
    while !(first.is_at_end && second.is_at_end) {
        match first.order(&second) {
            std::cmp::Ordering::Less => {
                summary.only_first += 1;
                each(ContentDifference::OnlyFirst(first.dn()))?;
                next(&mut first)?;
            }
            std::cmp::Ordering::Greater => {
                summary.only_second += 1;
                each(ContentDifference::OnlySecond(second.dn()))?;
                next(&mut second)?;
            }
            std::cmp::Ordering::Equal => {
                let differences = differences(compared, &first, &second);
                if differences.is_empty() {
                    summary.same += 1;
                } else {
                    summary.differing += 1;
                    each(ContentDifference::Values(first.dn(), &differences))?;
                }
                next(&mut first)?;
                next(&mut second)?;
            }
        }
    }
    Ok(summary)
}

/// Advances to the next name.
fn next(entries: &mut SortedEntries) -> Result<(), StoreError> {
    entries.advance()?;
    while entries.is_repeated && !entries.is_at_end {
        entries.advance()?;
    }
    Ok(())
}

fn differences(
    compared: &Compared<'_>,
    first: &SortedEntries,
    second: &SortedEntries,
) -> Vec<AttributeDifference> {
    if first.lines().eq(second.lines()) {
        return Vec::new();
    }
    let (before, mut after) = (first.attributes(compared), second.attributes(compared));
    let mut found = Vec::new();
    for (name, attribute) in before {
        let (first, second) = match after.remove(&name) {
            Some(other) => {
                (attribute.without(compared, &other).len(), other.without(compared, &attribute).len())
            }
            None => (attribute.values.len(), 0),
        };
        if first + second > 0 {
            found.push(AttributeDifference { name, first, second });
        }
    }
    let added = after.into_iter().map(|(name, attribute)| AttributeDifference {
        name,
        first: 0,
        second: attribute.values.len(),
    });
    found.extend(added);
    found
}

#[cfg(test)]
mod tests {
    use schema::Schema;

    use super::*;

    type Lines<'a> = &'a [(&'a str, &'a [(&'a str, &'a str)])];

    fn compare(first: Lines<'_>, second: Lines<'_>, operational: bool) -> (Vec<String>, ContentSummary) {
        let schema = Schema::shipped();
        let folder = std::env::temp_dir();
        let compared = Compared::stored(&schema, operational, &["l".to_owned()]);
        let sort = |entries: Lines<'_>| {
            let mut sorter = EntrySorter::new(&schema, &folder, 1 << 20);
            for (dn, values) in entries {
                let values = values.iter().map(|(name, value)| (*name, value.as_bytes()));
                sorter.push(0, dn, values).unwrap();
            }
            sorter
        };
        let mut found = Vec::new();
        let summary = content_diff::<StoreError>(&compared, (sort(first), sort(second)), &mut |difference| {
            found.push(match difference {
                ContentDifference::OnlyFirst(dn) => format!("first {dn}"),
                ContentDifference::OnlySecond(dn) => format!("second {dn}"),
                ContentDifference::Values(dn, attributes) => {
                    let attributes =
                        attributes.iter().map(|a| format!(" {} {} {}", a.name, a.first, a.second));
                    format!("values {dn}{}", attributes.collect::<String>())
                }
            });
            Ok(())
        });
        (found, summary.unwrap())
    }

    #[test]
    fn compares_by_the_matching_rules() {
        let first: Lines<'_> = &[
            ("cn=a,o=b", &[("cn", "a"), ("telephoneNumber", "+1 555"), ("member", "cn=x, o=B"), ("l", "1")]),
            ("o=b", &[("o", "b")]),
        ];
        let second: Lines<'_> = &[
            ("o=B", &[("organizationName", "B")]),
            ("CN=A, o=b", &[("member", "CN=X,o=b"), ("CN", "A"), ("telephoneNumber", "+1555"), ("l", "2")]),
            ("o=b", &[("o", "b")]),
        ];
        let (found, summary) = compare(first, second, true);
        assert_eq!((found, summary.same), (Vec::new(), 2));
    }

    #[test]
    fn groups_differences_by_cause() {
        let first: Lines<'_> = &[
            ("o=b", &[("o", "b"), ("userPassword", "{SSHA}a"), ("entryUUID", "1"), ("description", "x")]),
            ("cn=a,o=b", &[("cn", "a")]),
        ];
        let second: Lines<'_> = &[
            ("o=b", &[("o", "b"), ("userPassword", "{ssha}a"), ("entryUUID", "2"), ("sn", "1"), ("sn", "2")]),
            ("cn=c,o=b", &[("cn", "c")]),
        ];
        let mut expected =
            vec!["values o=b description 1 0 userPassword 1 1 sn 0 2", "first cn=a,o=b", "second cn=c,o=b"];
        let (found, summary) = compare(first, second, false);
        assert_eq!(found, expected);
        assert_eq!(summary, ContentSummary { only_first: 1, only_second: 1, differing: 1, same: 0 });
        expected[0] = "values o=b description 1 0 entryUUID 1 1 userPassword 1 1 sn 0 2";
        assert_eq!(compare(first, second, true).0, expected);
    }
}
