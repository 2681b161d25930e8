//! The workloads that come with Pando: one for every row of every table of the published benchmarks.

use super::Workload;

macro_rules! workloads {
    ($($name:literal)*) => {
        /// Names and texts.
        const SHIPPED: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../../workloads/", $name, ".toml")))),*
        ];
    };
}

workloads! {
    "oid-search-sequential"
}

/// Their names, in order of documents and tables.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// A shipped workload by its name.
pub fn find(name: &str) -> Option<Workload> {
    let (name, text) = SHIPPED.iter().find(|(shipped, _)| *shipped == name)?;
    // A test reads all of them.
    Workload::parse(name, text).ok()
}
