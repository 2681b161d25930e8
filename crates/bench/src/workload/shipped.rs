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

/// The file of a shipped workload.
pub fn text(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(shipped, _)| *shipped == name).map(|(_, text)| *text)
}

/// A shipped workload by its name.
pub fn find(name: &str) -> Option<Workload> {
    // A test reads all of them.
    Workload::parse(name, text(name)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_workload_is_right() {
        for (name, text) in SHIPPED {
            let workload = Workload::parse(name, text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(workload.name, *name);
            assert!(workload.document.is_some_and(|document| !document.figures.is_empty()), "{name}");
        }
    }
}
