//! Measurements that a result already contains, so that an interrupted comparison can continue.

use super::Product;
use super::measure::BULK_LOAD;
use super::under_load::Group;
use crate::result::{RunResult, ServerDescription, WorkloadResult};
use crate::workload::Workload;

/// Removes the measurements that must be repeated: all incomplete measurements, and the measurements of the null
/// responder, which are made at the end of a run.
pub fn forget_failed(result: &mut RunResult) {
    result.workloads.retain(|measured| measured.complete);
    result.limits.clear();
    result.ratios.clear();
}

/// Returns true if a workload was measured on a product in a round, or is unsupported.
pub(super) fn is_done(result: &RunResult, workload: &str, round: u32, product: &str) -> bool {
    result.workloads.iter().any(|measured| {
        measured.complete
            && measured.workload == workload
            && measured.round == round
            && measured.server.product == product
    })
}

/// Returns true if a group is complete.
pub fn is_group_done(result: &RunResult, group: &Group, products: &[Product], rounds: u32) -> bool {
    products.iter().all(|product| is_product_done(result, &group.workloads, *product, rounds))
}

/// Returns true if these workloads are complete on a product. If there are no workloads, returns false, because the
/// product must be loaded and compared in any case.
pub(super) fn is_product_done(
    result: &RunResult,
    workloads: &[Workload],
    product: Product,
    rounds: u32,
) -> bool {
    let product = known_server(result, product).product;
    let all = workloads.iter().flat_map(|workload| (1..=rounds).map(move |round| (workload, round)));
    !workloads.is_empty()
        && all.into_iter().all(|(workload, round)| is_done(result, &workload.name, round, &product))
}

/// Returns the description of a product in the result, without the figures of its bulk load. If the product was not
/// measured, the description contains only its name.
pub fn known_server(result: &RunResult, product: Product) -> ServerDescription {
    let label = product.label();
    let is_it = |name: &str| name.strip_prefix(label).is_some_and(|rest| rest.starts_with(' '));
    let measured = result.workloads.iter().find(|measured| is_it(&measured.server.product));
    match measured {
        Some(measured) => ServerDescription { bulk_load: None, ..measured.server.clone() },
        None => ServerDescription { product: label.to_owned(), ..ServerDescription::default() },
    }
}

/// Returns true if a result row is the bulk load of this server.
pub(super) fn is_load_of(row: &WorkloadResult, server: &ServerDescription) -> bool {
    row.workload == BULK_LOAD
        && row.complete
        && row.server.product == server.product
        && row.server.settings == server.settings
        && row.server.data == server.data
        && row.server.entries == server.entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Environment;
    use crate::workload::shipped;

    fn row(workload: &str, product: &str, complete: bool) -> WorkloadResult {
        let server = ServerDescription { product: product.to_owned(), ..ServerDescription::default() };
        WorkloadResult {
            workload: workload.to_owned(),
            round: 1,
            server,
            complete,
            ..WorkloadResult::default()
        }
    }

    #[test]
    fn a_group_is_complete_once_every_server_has_all_rounds() {
        let mut result = RunResult::begin("pando".to_owned(), Environment::default());
        let mut group = Group::load_only("people", None, Vec::new());
        group.workloads = vec![shipped("people-search").unwrap(), shipped("people-read").unwrap()];
        let products = [Product::Pando, Product::Ds389];
        let cannot =
            WorkloadResult { unsupported: Some("no".to_owned()), ..row("people-read", "389 DS 2", true) };
        result.workloads = vec![
            row("people-search", "Pando 1", true),
            row("people-read", "Pando 1", true),
            row("people-search", "389 DS 2", false),
            cannot,
        ];
        assert!(!is_group_done(&result, &group, &products, 1));
        assert!(is_group_done(&result, &group, &products[..1], 1));
        assert!(!is_product_done(&result, &[], Product::Pando, 1));
        assert!(!is_group_done(&result, &group, &products[..1], 2));
        result.workloads.push(row("people-search", "389 DS 2", true));
        assert!(is_group_done(&result, &group, &products, 1));
        forget_failed(&mut result);
        assert_eq!(result.workloads.len(), 4);
        assert_eq!(known_server(&result, Product::Ds389).product, "389 DS 2");
        assert_eq!(known_server(&result, Product::OpenDj).product, "OpenDJ");
    }
}
