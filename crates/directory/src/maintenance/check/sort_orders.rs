//! Check of the rows of sort orders.

use std::ops::Bound;

use store::Direction;

use super::{Fix, Report, Result};
use crate::catalog::{META_INDEX_VERSION, META_SORT_ORDER, index_version, meta_key};
use crate::index::slice::key_id;
use crate::index::sort_key::KeyBuffers;
use crate::index::sort_orders::{ReadyOrder, rows_of};
use crate::model::index_definition::Phase;
use crate::model::rows::{ENTRIES, META};
use crate::model::sort_order::SortOrderRow;
use crate::tree::TreeState;

/// Computes the keys of all entries in each complete sort order, and looks up each key. A fault is repaired by
/// rebuilding the sort order.
pub(super) fn check(state: TreeState<'_>, report: &mut Report<'_>) -> Result<()> {
    for order in state.catalog.sort_orders.iter().filter(|order| order.row.phase == Phase::Complete) {
        let Some(rule) = &order.rule else { continue };
        let (rows, ready) = (rows_of(order.number), ReadyOrder::of(state, rule)?);
        let (mut expected, mut missing, mut buffers) = (0, 0, KeyBuffers::default());
        let all = (Bound::Unbounded, Bound::Unbounded);
        for row in state.read.scan(ENTRIES, all, Direction::Forward) {
            let id = key_id(row?.0)?;
            if report.is_unreadable(id.0) {
                continue;
            }
            if let Some(key) = ready.key(state, id, &mut buffers)? {
                expected += 1;
                missing += u64::from(!rows.contains(state.read, &key)?);
            }
        }
        report.checked.rows += expected;
        let members = rows.members(state.read, Bound::Unbounded, Direction::Forward);
        let found = members.map(|member| member.map(|_| 1)).sum::<std::result::Result<u64, _>>()?;
        let fault = match rows.fault(state.read)? {
            Some(fault) => fault,
            None if missing > 0 || found != expected => {
                format!("{missing} of its {expected} entries are missing, and it has {found}")
            }
            None => continue,
        };
        // A rebuild begins with the phase that removes all rows.
        let rebuilt = SortOrderRow::of(&order.row.text, Phase::Clearing).encode();
        let version = (index_version(state.read)? + 1).to_be_bytes().to_vec();
        let fixes = vec![
            Fix::Put(META, meta_key(META_SORT_ORDER, order.number).to_vec(), rebuilt),
            Fix::Put(META, META_INDEX_VERSION.to_vec(), version),
        ];
        report.found(format!("sort order {:?}: {fault}", rule.name), fixes)?;
    }
    Ok(())
}
