//! Filters (RFC 7644 section 3.4.2.2) and the paths of PATCH (section 3.5.2), which contain filters.

mod parser;
mod value;

pub(crate) use parser::{PatchPath, parse_filter, parse_patch_path};
pub(crate) use value::matches;

use crate::path::AttributePath;
use serde_json::Value;

/// Comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Contains,
    StartsWith,
    EndsWith,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

/// A filter. Its depth is at most [`crate::limits::FILTER_DEPTH_MAX`], so functions on it may recurse.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Filter {
    And(Vec<Filter>),
    Or(Vec<Filter>),
    Not(Box<Filter>),
    Present(AttributePath),
    /// A comparison of a path with a string, number, boolean or null.
    Compare(AttributePath, Operator, Value),
    /// True if a value of the attribute matches a filter on its parts.
    HasValue(AttributePath, Box<Filter>),
}

impl Filter {
    /// Returns the cost of testing one value: the comparisons, with more for long texts.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Filter::And(filters) | Filter::Or(filters) => filters.iter().map(Filter::weight).sum(),
            Filter::Not(filter) | Filter::HasValue(_, filter) => filter.weight(),
            Filter::Present(_) => 1,
            Filter::Compare(_, _, value) => 1 + value.as_str().map_or(0, str::len) / 16,
        }
    }

    /// Narrows this filter to one resource type, for a query that lists resources of several types. `has` returns true
    /// for the attributes of that type. A comparison of another attribute matches nothing.
    pub(crate) fn of_one_type(self, has: &dyn Fn(&AttributePath) -> bool) -> Filter {
        let all = |filters: Vec<Filter>| filters.into_iter().map(|filter| filter.of_one_type(has)).collect();
        match self {
            Filter::And(filters) => Filter::And(all(filters)),
            Filter::Or(filters) => Filter::Or(all(filters)),
            Filter::Not(filter) => Filter::Not(Box::new(filter.of_one_type(has))),
            Filter::Present(ref path) | Filter::Compare(ref path, ..) | Filter::HasValue(ref path, _)
                if !has(path) =>
            {
                Filter::Or(Vec::new())
            }
            filter => filter,
        }
    }
}
