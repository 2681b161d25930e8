//! SCIM filters (RFC 7644 section 3.4.2.2), and the paths of PATCH operations (section 3.5.2), which may contain
//! filters.

mod parser;
mod value;

pub(crate) use parser::{PatchPath, parse_filter, parse_patch_path};
pub(crate) use value::matches;

use crate::path::AttributePath;
use serde_json::Value;

/// Operator of a comparison.
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

/// A filter. Its depth is at most [`crate::limits::FILTER_DEPTH_MAX`]. Therefore functions may be recursive.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Filter {
    And(Vec<Filter>),
    Or(Vec<Filter>),
    Not(Box<Filter>),
    Present(AttributePath),
    /// Compares the attribute or part at a path with a value: a string, a number, a boolean or null.
    Compare(AttributePath, Operator, Value),
    /// Matches if a value of the attribute matches the inner filter. The inner filter applies to the parts of the
    /// value.
    HasValue(AttributePath, Box<Filter>),
}

impl Filter {
    /// Returns the cost of testing one value with this filter. The cost is the number of comparisons, plus an amount
    /// for long texts.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Filter::And(filters) | Filter::Or(filters) => filters.iter().map(Filter::weight).sum(),
            Filter::Not(filter) | Filter::HasValue(_, filter) => filter.weight(),
            Filter::Present(_) => 1,
            Filter::Compare(_, _, value) => 1 + value.as_str().map_or(0, str::len) / 16,
        }
    }

    /// Restricts this filter to one resource type. Used in a query over several types. `has` returns true for the
    /// attributes of the type. A comparison of any other attribute never matches.
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
