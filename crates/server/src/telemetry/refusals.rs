//! Number of operations that were refused with unwillingToPerform, by cause.
//!
//! The causes are the quotations on the page docs/reference/errors.md. `./dev check causes` compares that page with the
//! list here. The number of causes is fixed, so clients cannot make the table grow.

use super::counter::Counter;

/// The causes: the quotations on the page docs/reference/errors.md. Each cause is the beginning of a diagnostic text.
/// `…` stands for any text.
const CAUSES: [&str; 46] = [
    "no state is recorded for operation …",
    "operation … of the password policy state changes nothing",
    "only a user with an entry",
    "no password policy lets you change",
    "the disk of the server is full",
    "writes are stopped until restart",
    "changes have stopped after",
    "the settings are not valid",
    "this server follows no other",
    "the copy was promoted",
    "its name is not below the base of the copy",
    "an entry that is in no copy here has its entryUUID",
    "a copy of another server's tree is below this entry",
    "a replica changes only through",
    "… is made by the server",
    "… is not a suffix of",
    "… is a suffix entry",
    "… cannot go below itself",
    "… has entries that would",
    "the entry would be … levels deep",
    "a rule of the setting unique",
    "this entry of cn=config cannot",
    "only indexes can be added",
    "of the subschema subentry",
    "what is shipped with the server",
    "… entries to look at",
    "no transaction of this identifier",
    "change … of the transaction was refused",
    "control no operation does not fit",
    "… needs an index for equality",
    "a search that counts has",
    "results with deleted entries",
    "a page of no entries ends",
    "changes cannot be sent in",
    "content is synchronized whole",
    "what is not in the tree",
    "this server keeps no backup",
    "the backup does not have that moment",
    "the disk has too little room to restore",
    "this server writes no audit trail",
    "results are sorted by at most",
    "an attribute is given twice",
    "… has no values to sort by",
    "the value is none of",
    "entries that are not in",
    "a part of a list has",
];

/// The name of all other causes. Their diagnostic texts contain advice.
const OTHER: &str = "other";

/// Number of refusals by one event loop for each of the [`CAUSES`]. The last counter is for all other causes.
#[derive(Debug)]
pub(super) struct Refusals([Counter; CAUSES.len() + 1]);

impl Default for Refusals {
    fn default() -> Refusals {
        Refusals(std::array::from_fn(|_| Counter::default()))
    }
}

impl Refusals {
    /// Counts a refusal by the cause that its diagnostic text shows.
    #[cold]
    pub(super) fn add(&self, text: &str) {
        let cause = CAUSES.iter().position(|cause| is_cause(cause, text)).unwrap_or(CAUSES.len());
        if let Some(counter) = self.0.get(cause) {
            counter.add(1);
        }
    }
}

/// Returns true if `text` begins with the first part of `cause` and contains the other parts after it, in order. `…`
/// separates the parts.
fn is_cause(cause: &str, text: &str) -> bool {
    let mut rest = Some(text);
    for (number, part) in cause.split('…').map(str::trim).enumerate() {
        rest = rest.and_then(|rest| match number {
            0 => rest.strip_prefix(part),
            _ => rest.split_once(part).map(|(_, after)| after),
        });
    }
    rest.is_some()
}

/// Returns the number of refusals in all event loops by cause. Omits causes that did not occur.
pub(super) fn totals(loops: &[&Refusals]) -> Vec<(String, u64)> {
    let causes = CAUSES.iter().copied().chain([OTHER]);
    let total = |(index, cause): (usize, &str)| {
        let counters = loops.iter().filter_map(|refusals| refusals.0.get(index));
        let count = counters.map(Counter::value).sum();
        (count > 0).then(|| (cause.to_owned(), count))
    };
    causes.enumerate().filter_map(total).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_diagnostic_message_counts_under_one_cause() {
        let loops = [Refusals::default(), Refusals::default()];
        for text in [
            "dc=other is not a suffix of this server",
            "\"dc=next\" is not a suffix of this server",
            "the entry would be 300 levels deep",
            "it is said that the entry would be 300 levels deep",
            "give a value: no cause on the page",
        ] {
            loops[text.len() % 2].add(text);
        }
        let expected = [("… is not a suffix of", 2), ("the entry would be … levels deep", 1), (OTHER, 2)];
        assert_eq!(totals(&[&loops[0], &loops[1]]), expected.map(|(cause, count)| (cause.to_owned(), count)));
    }

    #[test]
    fn no_cause_matches_the_text_of_another() {
        for (index, cause) in CAUSES.iter().enumerate() {
            let text = cause.replace('…', "x");
            assert_eq!(CAUSES.iter().position(|cause| is_cause(cause, &text)), Some(index), "{cause}");
        }
    }
}
