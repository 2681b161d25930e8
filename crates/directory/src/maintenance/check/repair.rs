//! Repair of derived rows.

use store::Batch;

use super::{CheckOptions, CheckSummary, Finding, Fix, Result, check_all};
use crate::database::Writer;
use crate::model::entry::EncodedAttribute;
use crate::model::rows::{AttrId, EntryId, LINKS, link_key};
use crate::snapshot::Directory;
use crate::tree::entry_rows::{load, save};
use crate::tree::stored_values::table_values;

/// Number of changes made in one commit.
const FIXES_PER_COMMIT: usize = 4_096;

/// Maximum number of repair rounds. A repair can reveal another fault, but no fault remains hidden after this many
/// rounds.
const ROUNDS_MAX: usize = 4;

/// Result of a repair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepairSummary {
    /// Number of findings that were repaired.
    pub repaired: u64,
    /// Result of the last check, after all possible repairs.
    pub remaining: CheckSummary,
}

/// Repairs derived rows and checks again, until a check finds nothing more to repair or the maximum number of rounds is
/// reached. Passes each repaired finding to `each` with the flag true. At the end, passes the first findings of the
/// last check to `each` with the flag false.
///
/// Derived rows are changed to agree with the entries, never the reverse. Lost primary data stay lost: a damaged row of
/// `nodes` or `entries`, a large value, a record of the log. A link to a missing entry is removed, because the name of
/// the missing entry is lost. A name that is stored as text becomes a link if an entry with this name exists.
///
/// # Errors
/// The store failed. Repairs that are already committed remain, and do no harm.
pub fn repair(
    directory: &std::sync::Arc<Directory>,
    writer: &mut Writer,
    options: &CheckOptions<'_>,
    each: &mut dyn FnMut(&Finding, bool),
) -> Result<RepairSummary> {
    let (mut repaired, mut round) = (0, 0);
    loop {
        round += 1;
        let snapshot = directory.snapshot()?;
        let mut waiting = PendingRepairs::default();
        let mut repaired_now = 0;
        let mut remaining = Vec::new();
        let checked = check_all(snapshot.state(), options, &mut |finding| {
            if finding.fixes.is_empty() || round == ROUNDS_MAX {
                if remaining.len() < super::FINDINGS_MAX {
                    remaining.push(finding);
                }
                return Ok(());
            }
            repaired_now += 1;
            waiting.fix_count += finding.fixes.len();
            waiting.findings.push(finding);
            if waiting.fix_count >= FIXES_PER_COMMIT { waiting.repair_pending(writer, each) } else { Ok(()) }
        })?;
        waiting.repair_pending(writer, each)?;
        repaired += repaired_now;
        if repaired_now == 0 {
            remaining.iter().for_each(|finding| each(finding, false));
            return Ok(RepairSummary { repaired, remaining: checked });
        }
    }
}

/// Findings that are repaired in one commit, and then reported.
#[derive(Default)]
struct PendingRepairs {
    findings: Vec<Finding>,
    fix_count: usize,
}

impl PendingRepairs {
    fn repair_pending(&mut self, writer: &mut Writer, each: &mut dyn FnMut(&Finding, bool)) -> Result<()> {
        if self.findings.is_empty() {
            return Ok(());
        }
        let mut batch = writer.begin_repair()?;
        for fix in self.findings.iter().flat_map(|finding| &finding.fixes) {
            match fix {
                Fix::Put(map, key, value) => batch.put(*map, key, value)?,
                Fix::Delete(map, key) => drop(batch.delete(*map, key)?),
                Fix::InsertId(map, key, id) => drop(batch.insert_id(*map, key, *id)?),
                Fix::RemoveId(map, key, id) => drop(batch.remove_id(*map, key, *id)?),
                Fix::Count(key, delta) => drop(batch.bump(key, *delta)?),
                Fix::Mark(id, attribute) => update_link_mark(&mut batch, *id, *attribute)?,
            }
        }
        batch.commit()?;
        self.findings.drain(..).for_each(|finding| each(&finding, true));
        self.fix_count = 0;
        Ok(())
    }
}

/// Makes the entry row list this link attribute if and only if the entry has values of the attribute.
fn update_link_mark(batch: &mut Batch<'_>, id: EntryId, attribute: AttrId) -> Result<()> {
    let Some(mut entry) = load(batch, id)? else { return Ok(()) };
    let has_links = batch.ids(LINKS, &link_key(id, attribute))?.estimate() > 0;
    let has_values = has_links || table_values(batch, id, attribute).next().transpose()?.is_some();
    entry.set(attribute, has_values.then(|| EncodedAttribute::links(attribute)));
    save(batch, id, &entry)
}
