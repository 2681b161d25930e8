//! Existing values that violate a uniqueness rule. The values are older than the rule, or were imported.

use std::collections::BTreeSet;

use crate::catalog::uniqueness::UniqueRule;
use crate::filter::Covering;
use crate::model::index_definition::IndexPart;
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;
use crate::model::rows::{AttrId, EntryId, INDEX};
use crate::settings::DirectorySettings;
use crate::tree::TreeState;
use crate::tree::target::entry_dn;

type Result<T> = std::result::Result<T, OperationError>;

/// Maximum number of values that a text shows, and maximum number of entries shown for each value.
const EXAMPLES_MAX: usize = 5;

/// Number of entries read in one step.
const BLOCK: usize = 512;

/// Returns a text for each uniqueness rule of `settings` that entries violate. The text contains the number of values
/// that occur in several entries, and examples. Traverses the indexes of the rules.
///
/// # Errors
/// The store failed.
pub(super) fn duplicates(state: TreeState<'_>, settings: &DirectorySettings) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for text in &settings.general.unique {
        // Skip a rule that the schema does not allow. Another check reports this rule as a problem of the settings.
        let Ok(rule) = UniqueRule::read(text, &state.catalog.schema, &state.catalog.secrets) else {
            continue;
        };
        texts.extend(of_rule(state, &rule)?);
    }
    Ok(texts)
}

fn of_rule(state: TreeState<'_>, rule: &UniqueRule) -> Result<Option<String>> {
    let covering = Covering::of(state, &rule.covered)?;
    let bases = rule.types.iter().filter_map(|type_id| state.catalog.attribute_id(*type_id, ""));
    let bases: Vec<AttrId> =
        bases.filter(|base| state.catalog.attribute(*base).index.answers(IndexPart::Values)).collect();
    let (mut count, mut examples) = (0_u64, Vec::new());
    for (place, base) in bases.iter().enumerate() {
        let prefix = IndexPart::Values.key_prefix(*base);
        for row in state.read.scan_keys_below(INDEX, &prefix) {
            let (key, _) = row?;
            let normal = key.get(prefix.len()..).unwrap_or_default();
            if has_key(state, bases.iter().take(place), normal)? {
                continue;
            }
            let entries = holders(state, &covering, &bases, normal)?;
            if entries.len() < 2 {
                continue;
            }
            count += 1;
            if examples.len() < EXAMPLES_MAX {
                let dns = entries.into_iter().map(|id| entry_dn(state, id)).collect::<Result<Vec<_>>>()?;
                let dns: Vec<_> = dns.iter().map(|dn| Quoted(dn).to_string()).collect();
                examples.push(dns.join(" and "));
            }
        }
    }
    if count == 0 {
        return Ok(None);
    }
    let values = if count == 1 { "1 value is".to_owned() } else { format!("{count} values are") };
    let more = if count > examples.len() as u64 { "; and so on" } else { "" };
    Ok(Some(format!(
        "uniqueness rule {:?}: {values} in several entries, which keep them: {}{more}",
        rule.name,
        examples.join("; ")
    )))
}

fn index_row(base: AttrId, normal: &[u8]) -> Vec<u8> {
    [&IndexPart::Values.key_prefix(base)[..], normal].concat()
}

/// Returns true if one of these indexes contains the value.
fn has_key<'b>(
    state: TreeState<'_>,
    mut bases: impl Iterator<Item = &'b AttrId>,
    normal: &[u8],
) -> Result<bool> {
    bases.try_fold(false, |has_it, base| {
        Ok(has_it || state.read.ids(INDEX, &index_row(*base, normal))?.estimate() > 0)
    })
}

/// Returns the entries that the rule covers and that have a value in one of these indexes, up to [`EXAMPLES_MAX`].
fn holders(
    state: TreeState<'_>,
    covering: &Covering,
    bases: &[AttrId],
    normal: &[u8],
) -> Result<BTreeSet<EntryId>> {
    let mut found = BTreeSet::new();
    for base in bases {
        let mut ids = state.read.ids(INDEX, &index_row(*base, normal))?;
        // If the rule has one attribute, a value that only one entry has needs no further checks.
        if bases.len() == 1 && ids.estimate() < 2 {
            continue;
        }
        let mut block = Vec::new();
        while found.len() < EXAMPLES_MAX && ids.next_block(&mut block, BLOCK)? > 0 {
            for id in block.drain(..).map(EntryId) {
                if found.len() < EXAMPLES_MAX && covering.covers(state, id)? {
                    found.insert(id);
                }
            }
        }
    }
    Ok(found)
}
