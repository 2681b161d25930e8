//! `pando index advise`: lists the indexes that searches of a running server lacked, with their size and gain.

use std::collections::{BTreeSet, HashSet};

use crate::print::{self, Report};
use client::{ClientError, Connection};
use directory::index::IndexKinds;
use ldap::{PagedResults, Scope};
use serde_json::json;
use server::{IndexProposal, SearchCosts};

/// Entry of `cn=monitor` below which each proposal has an entry.
const ADVICE: &str = "cn=Index Advice,cn=monitor";

/// Number of entries from which the size of an index is estimated.
const SAMPLE_ENTRIES: u32 = 1_000;

/// Size of an entry id in a posting, in octets.
const ID_BYTES: u64 = 8;

/// Size of an index key in octets, without the value.
const KEY_BYTES: u64 = 24;

/// Prints the proposals of a server.
pub(super) fn advise(connection: &mut Connection) -> Result<(), String> {
    let failed = |error: ClientError| error.to_string();
    let reply =
        connection.search(ADVICE, Scope::SingleLevel, "(cn=*)", &["cn", "monitoredInfo"]).map_err(failed)?;
    if !reply.outcome.is_success() {
        return Err(format!("{ADVICE}: {}: {}", reply.outcome.code, reply.outcome.diagnostic));
    }
    if reply.entries.is_empty() {
        print::note("No search lacked an index since the server started, or all such indexes exist by now.");
        return Ok(());
    }
    let mut all = Vec::new();
    for entry in &reply.entries {
        let (Some(attribute), Some(text)) = (entry.text("cn"), entry.text("monitoredInfo")) else { continue };
        let proposal: IndexProposal = text.parse().map_err(|error| format!("{attribute}: {error}"))?;
        all.push((attribute, proposal));
    }
    all.sort_by_key(|(_, proposal)| std::cmp::Reverse((proposal.costs.examined, proposal.costs.refused)));
    for (attribute, proposal) in &all {
        let sample = Sample::of(connection, attribute, proposal.costs.candidates).map_err(failed)?;
        print_proposal(attribute, proposal, &sample);
    }
    print::note(
        "Nothing is changed. To build one: pando index add ATTRIBUTE --kinds KINDS, or the settings file.",
    );
    Ok(())
}

fn print_proposal(attribute: &str, proposal: &IndexProposal, sample: &Sample) {
    let SearchCosts { searches, refused, examined, returned, micros, .. } = proposal.costs;
    let kinds = kinds_of(&proposal.setting);
    let bytes = sample.index_bytes(kinds);
    let (setting, kib, having, sampled) =
        (&proposal.setting, bytes.div_ceil(1_024), sample.having, sample.entries);
    let mut text = format!(
        "{attribute}\n  definition: {setting}\n  size: about {kib} KiB ({having} of {sampled} sampled entries have the \
         attribute)\n  gain: {searches} searches examined {examined} entries to return {returned}, in {} ms; {refused} \
         were refused\n",
        micros / 1_000
    );
    text.extend(proposal.filters.iter().map(|filter| format!("  filter: {filter}\n")));
    let filters: Vec<String> = proposal.filters.iter().map(ToString::to_string).collect();
    let object = json!({
        "attribute": attribute, "definition": setting.to_string(), "bytes": bytes, "searches": searches,
        "examined": examined, "returned": returned, "micros": micros, "refused": refused, "filters": filters,
    });
    Report::result(object, text).print();
}

/// Returns the index kinds in the definition of an index.
fn kinds_of(setting: &str) -> IndexKinds {
    let is_named = |name: &str| setting.contains(&format!("\"{name}\""));
    let named = IndexKinds::ALL.iter().filter(|(_, name)| is_named(name));
    named.fold(IndexKinds::NONE, |all, (kind, _)| all.with(*kind))
}

/// Values of an attribute in a sample of entries.
struct Sample {
    /// Number of entries in the sample. `having` of these entries have the attribute.
    entries: u64,
    having: u64,
    /// Number of entries in the directory.
    all: u64,
    values: Vec<String>,
}

impl Sample {
    /// Reads a sample of a directory with `all` entries. The sample consists of the entries with the smallest
    /// entryUUIDs, because entryUUIDs are usually random. If too few entries have a small entryUUID, the sample
    /// consists of the first entries found.
    fn of(connection: &mut Connection, attribute: &str, all: u64) -> Result<Sample, ClientError> {
        let mut sample = Sample { entries: 0, having: 0, all, values: Vec::new() };
        let share = u128::from(SAMPLE_ENTRIES) * (u128::MAX / u128::from(all.max(1)));
        let last = uuid_text(if all <= SAMPLE_ENTRIES.into() { u128::MAX } else { share });
        for filter in [format!("(entryUUID<={last})"), "(objectClass=*)".to_owned()] {
            let page = PagedResults { size: SAMPLE_ENTRIES, cookie: b"" };
            let found = connection.search_page("", Scope::WholeSubtree, &filter, &[attribute], page)?.entries;
            let values = |entry: &client::Entry| entry.texts(attribute);
            sample.entries = found.len() as u64;
            sample.having = found.iter().filter(|entry| !values(entry).is_empty()).count() as u64;
            sample.values = found.iter().flat_map(values).collect();
            if sample.entries >= u64::from(SAMPLE_ENTRIES / 10).min(all) {
                break;
            }
        }
        Ok(sample)
    }

    /// Estimates the size of a new index from the sample. A key that occurs once in the sample is assumed to be unique
    /// in the directory. A key that occurs several times is counted once.
    fn index_bytes(&self, kinds: IndexKinds) -> u64 {
        let mut bytes = 0;
        let values = IndexKinds::EQUALITY.with(IndexKinds::ORDERING);
        if kinds.without(values) != kinds {
            bytes += self.rows(|value| vec![value.to_lowercase()]);
        }
        if kinds.contains(IndexKinds::PRESENCE) {
            bytes += self.scaled(self.having) * ID_BYTES;
        }
        if kinds.contains(IndexKinds::SUBSTRING) {
            bytes += self.rows(grams);
        }
        if kinds.contains(IndexKinds::APPROXIMATE) {
            bytes += self.rows(|value| value.split(' ').map(str::to_lowercase).collect());
        }
        bytes
    }

    fn rows(&self, keys: impl Fn(&str) -> Vec<String>) -> u64 {
        let (mut once, mut again, mut count) = (HashSet::new(), HashSet::new(), 0_u64);
        for key in self.values.iter().flat_map(|value| keys(value)) {
            count += 1;
            if once.contains(&key) {
                again.insert(key);
            } else {
                once.insert(key);
            }
        }
        let key_bytes = |key: &String| key.len() as u64 + KEY_BYTES;
        let unique: u64 = once.difference(&again).map(key_bytes).sum();
        let shared: u64 = again.iter().map(key_bytes).sum();
        self.scaled(count * ID_BYTES + unique) + shared
    }

    /// Scales a number from the sample to the directory.
    fn scaled(&self, number: u64) -> u64 {
        let scaled = u128::from(number) * u128::from(self.all) / u128::from(self.entries.max(1));
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
}

/// Returns the groups of three letters (trigrams) in a value. `<` marks the beginning of the value, and `>` its end.
fn grams(value: &str) -> Vec<String> {
    let letters: Vec<char> = format!("<{}>", value.to_lowercase()).chars().collect();
    let all: BTreeSet<String> = letters.windows(3).map(|gram| gram.iter().collect()).collect();
    all.into_iter().collect()
}

fn uuid_text(bits: u128) -> String {
    let hex = format!("{bits:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_estimated_from_a_sample() {
        let sample = Sample {
            entries: 4,
            having: 3,
            all: 4_000,
            values: ["Anna", "anna", "Bert"].map(str::to_owned).to_vec(),
        };
        assert_eq!(sample.index_bytes(IndexKinds::PRESENCE), 3_000 * ID_BYTES);
        // The values have 3,000 ids. The key "bert" is unique in the sample, so it stands for 1,000 keys. The key
        // "anna" stands for one.
        let equality = 3_000 * ID_BYTES + 1_000 * (4 + KEY_BYTES) + 4 + KEY_BYTES;
        assert_eq!(sample.index_bytes(IndexKinds::EQUALITY.with(IndexKinds::ORDERING)), equality);
        assert_eq!(grams("Anna"), ["<an", "ann", "na>", "nna"]);
        assert_eq!(uuid_text(u128::MAX >> 4), "0fffffff-ffff-ffff-ffff-ffffffffffff");
        let setting = "indexes.cn = [\"equality\", \"substring\"]";
        assert_eq!(kinds_of(setting), IndexKinds::EQUALITY.with(IndexKinds::SUBSTRING));
    }
}
