//! The workloads that come with Pando: one for every row of every table of the published benchmarks, and the workloads
//! for the data set `people`.

use super::Workload;

macro_rules! workloads {
    ($($name:literal)*) => {
        /// Names and texts of the shipped workloads.
        const SHIPPED: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../../workloads/", $name, ".toml")))),*
        ];
    };
}

workloads! {
    "oid-search-sequential-sparse" "oid-search-random-sparse" "oid-search-random-low-latency-sparse"
    "oid-authentication-sequential-sparse" "oid-authentication-random-sparse"
    "oid-authentication-random-low-latency-sparse" "oid-compare-sequential-sparse" "oid-compare-random-sparse"
    "oid-compare-random-low-latency-sparse" "oid-search-sequential" "oid-search-random"
    "oid-search-random-low-latency" "oid-authentication-sequential" "oid-authentication-random"
    "oid-authentication-random-low-latency" "oid-compare-sequential" "oid-compare-random"
    "oid-compare-random-low-latency" "oid-search-random-32000" "oid-search-random-64000"
    "oid-search-random-100000" "oid-modify-sequential" "oid-modify-random" "oid-add" "oid-group-search"
    "oid-group-modify" "oid-mixed"
    "salford-s1" "salford-s2" "salford-s3" "salford-s4" "salford-a1a" "salford-a1b" "salford-d1a"
    "salford-d1b" "salford-m1" "salford-m2" "salford-x1" "salford-load-indexed" "salford-load-unindexed"
    "prescriptions"
    "m-vault-search-no-attributes" "m-vault-search-all-attributes" "m-vault-search-no-access-control"
    "m-vault-search-audit" "m-vault-modify" "m-vault-search-and-modify" "m-vault-bind"
    "m-vault-bind-new-connection" "m-vault-bind-cram-md5" "m-vault-bind-scram" "m-vault-add" "m-vault-load"
    "m-vault-time-to-full-speed"
    "sun-search" "sun-search-with-updates" "sun-load"
    "edirectory-base" "edirectory-one-level" "edirectory-modify" "edirectory-bind" "edirectory-bind-nmas"
    "people-search" "people-search-all" "people-search-pipelined" "people-read" "people-compare"
    "people-modify" "people-bind" "people-bind-new-connection" "people-authentication" "people-add-delete"
}

/// Returns the names of the shipped workloads, in the order of documents and tables.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// Returns the text of a shipped workload's file.
pub fn text(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(shipped, _)| *shipped == name).map(|(_, text)| *text)
}

/// Returns a shipped workload by its name.
pub fn find(name: &str) -> Option<Workload> {
    // A test parses all shipped workloads, so this cannot fail.
    Workload::parse(name, text(name)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_workload_is_valid() {
        for (name, text) in SHIPPED {
            let workload = Workload::parse(name, text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(workload.name, *name);
            let is_of_document = workload.document.is_some_and(|document| !document.figures.is_empty());
            assert!(is_of_document || name.starts_with("people-") || *name == "prescriptions", "{name}");
            assert_eq!(workload.jobs.is_empty(), workload.load.is_some(), "{name}");
            for index in &workload.needs.indexes {
                assert!(index.parse::<crate::peers::Index>().is_ok(), "{name}: {index}");
            }
        }
    }
}
