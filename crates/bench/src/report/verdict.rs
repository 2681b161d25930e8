//! The summary of the report: one sentence for each server except the first. The sentence compares the server with the
//! first server.

use super::groups::{Group, Groups, Row};
use super::text;
use serde::Serialize;

/// Ratio up to which two rates count as equal.
const EQUAL_WITHIN: f64 = 1.03;

/// Comparison of the first server with another.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Verdict {
    /// The first server.
    reference: String,
    /// The other server.
    other: String,
    /// The color of the other server.
    colour: usize,
    /// Median of all ratios of rates.
    median: Option<String>,
    /// Whether `median` is a median of several ratios.
    is_median: bool,
    /// The comparison of rates as a sentence.
    text: String,
    /// The comparison of CPU time for each request as a sentence.
    cpu: Option<String>,
}

/// Returns the rate of `reference` divided by the rate of `other`. Returns `None` if a rate is missing, or if the load
/// is an open loop, because both servers then have the same rate.
pub(crate) fn ratio(group: &Group<'_>, reference: &Row<'_>, other: &Row<'_>) -> Option<f64> {
    let (mine, theirs) = (reference.median().per_second, other.median().per_second);
    (!group.is_open_loop() && mine > 0.0 && theirs > 0.0).then(|| mine / theirs)
}

/// Returns the first server's CPU time per request, divided by the other server's CPU time per request.
fn cpu_ratio(reference: &Row<'_>, other: &Row<'_>) -> Option<f64> {
    let cost = |row: &Row<'_>| row.median().cost.as_ref().map(|cost| cost.cpu_micros_per_operation);
    let (mine, theirs) = (cost(reference)?, cost(other)?);
    (mine > 0.0 && theirs > 0.0).then(|| mine / theirs)
}

/// Returns one verdict for each server except the first.
pub(crate) fn verdicts(groups: &Groups<'_>) -> Vec<Verdict> {
    (1..groups.servers.len()).filter_map(|other| verdict(groups, other)).collect()
}

fn verdict(groups: &Groups<'_>, other: usize) -> Option<Verdict> {
    let mut rates = Vec::new();
    let mut costs = Vec::new();
    let (mut left_out, mut cannot, mut neither) = (0_usize, 0_usize, 0_usize);
    for group in &groups.groups {
        let row_of = |server: usize| group.rows.iter().find(|row| row.server == server);
        let (Some(mine), Some(theirs)) = (row_of(0), row_of(other)) else { continue };
        if mine.unsupported().is_some() {
            neither += 1;
        } else if theirs.unsupported().is_some() {
            cannot += 1;
        } else if !mine.is_clean() || !theirs.is_clean() {
            left_out += 1;
        } else {
            rates.extend(ratio(group, mine, theirs));
            costs.extend(cpu_ratio(mine, theirs));
        }
    }
    let mut remarks = Vec::new();
    if left_out > 0 {
        remarks.push(format!("{left_out} more left out because something was wrong"));
    }
    if cannot > 0 {
        remarks.push(format!("{cannot} more that {} cannot do", groups.servers[other].label));
    }
    if neither > 0 {
        remarks.push(format!("{neither} more that {} cannot do", groups.servers[0].label));
    }
    if rates.is_empty() && remarks.is_empty() {
        return None;
    }
    let mut sentence = rates_text(&mut rates);
    if !remarks.is_empty() {
        sentence += &format!(" ({})", remarks.join("; "));
    }
    let median = middle(&rates);
    Some(Verdict {
        reference: groups.servers[0].label.clone(),
        other: groups.servers[other].label.clone(),
        colour: other,
        median: median.map(text::ratio),
        is_median: rates.len() > 1,
        text: sentence,
        cpu: costs_text(&mut costs),
    })
}

fn rates_text(rates: &mut [f64]) -> String {
    rates.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (rates.first(), rates.last()) else {
        return "No workload to compare".to_owned();
    };
    let faster = rates.iter().filter(|ratio| **ratio > EQUAL_WITHIN).count();
    let slower = rates.iter().filter(|ratio| **ratio < 1.0 / EQUAL_WITHIN).count();
    let equal = rates.len() - faster - slower;
    let mut parts = vec![format!("Faster in {faster}")];
    if equal > 0 {
        parts.push(format!("equal within 3% in {equal}"));
    }
    if slower > 0 {
        parts.push(format!("slower in {slower}"));
    }
    let (least, most) = (text::ratio(*least), text::ratio(*most));
    let range = if least == most { String::new() } else { format!(", from {least} to {most}") };
    format!(
        "{} of {} workload{}{range}",
        parts.join(", "),
        rates.len(),
        if rates.len() == 1 { "" } else { "s" }
    )
}

fn costs_text(costs: &mut [f64]) -> Option<String> {
    costs.sort_by(f64::total_cmp);
    let (least, most) = (text::ratio(*costs.first()?), text::ratio(*costs.last()?));
    if least == most {
        return Some(format!("{least} the CPU time a request"));
    }
    let median = text::ratio(middle(costs)?);
    Some(format!("{median} the CPU time a request, the median of {least} to {most}"))
}

/// Returns the median of sorted figures. For an even number of figures, the result is the lower of the two middle
/// figures.
fn middle(sorted: &[f64]) -> Option<f64> {
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_summarized_in_a_sentence() {
        let check = |rates: &[f64], expected: &str| assert_eq!(rates_text(&mut rates.to_vec()), expected);
        check(&[], "No workload to compare");
        check(&[1.5], "Faster in 1 of 1 workload");
        check(
            &[1.5, 0.9, 1.01, 4.0],
            "Faster in 2, equal within 3% in 1, slower in 1 of 4 workloads, from 0.90× to 4.00×",
        );
        let costs = costs_text(&mut [0.5, 2.0, 0.3]).unwrap();
        assert_eq!(costs, "0.50× the CPU time a request, the median of 0.30× to 2.00×");
        assert_eq!(costs_text(&mut [0.5]).unwrap(), "0.50× the CPU time a request");
        assert_eq!(middle(&[1.0, 2.0, 3.0, 4.0]), Some(2.0));
        assert_eq!(middle(&[]), None);
    }
}
