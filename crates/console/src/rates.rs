//! Rates of operations. They are computed from two readings of `cn=monitor`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};

use crate::limits::{RATE_TIME_MAX, RATE_TIME_MIN};
use crate::monitor::Figures;

/// The rates. Each rate counts the listed kinds of operations, which have the same names in `cn=monitor`.
const RATES: [(&str, &[&str]); 3] =
    [("searches", &["search"]), ("binds", &["bind"]), ("changes", &["add", "modify", "delete", "modifydn"])];

/// The numbers and durations of operations at one moment.
#[derive(Clone, Debug)]
struct Reading {
    at: Instant,
    /// For each rate, the number of finished operations and their total duration in microseconds.
    totals: BTreeMap<&'static str, (u64, u64)>,
}

/// The last two readings. All sessions share them.
#[derive(Debug, Default)]
pub(crate) struct Rates(Mutex<(Option<Reading>, Option<Reading>)>);

impl Rates {
    /// Records a reading. Returns the rates since an earlier reading; `null` if there is no earlier reading or if it is
    /// too old.
    pub(crate) fn since_before(&self, figures: &Figures, now: Instant) -> Value {
        let reading = Reading { at: now, totals: totals(figures) };
        let mut readings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, last) = &mut *readings;
        // Replace the last reading only if enough time has passed, because rates over a short time would be of no use.
        if last.as_ref().is_none_or(|last| now.saturating_duration_since(last.at) >= RATE_TIME_MIN) {
            *before = last.replace(reading.clone());
        }
        let fits = |before: &&Reading| {
            let since = now.saturating_duration_since(before.at);
            since >= RATE_TIME_MIN && since <= RATE_TIME_MAX
        };
        before.as_ref().filter(fits).map_or(Value::Null, |before| between(before, &reading))
    }
}

fn totals(figures: &Figures) -> BTreeMap<&'static str, (u64, u64)> {
    let number = |name: &str| figures.get(name).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
    let of = |(name, kinds): &(&'static str, &[&str])| {
        let sum = |suffix: &str, parent: &str| {
            kinds.iter().map(|kind| number(&format!("cn={kind}{suffix},cn={parent}"))).sum::<u64>()
        };
        (*name, (sum("", "operations"), sum(" microseconds", "durations")))
    };
    RATES.iter().map(of).collect()
}

fn between(before: &Reading, after: &Reading) -> Value {
    let seconds = after.at.saturating_duration_since(before.at).as_secs_f64();
    let rate = |(name, _): &(&str, &[&str])| {
        let of = |reading: &Reading| reading.totals.get(name).copied().unwrap_or_default();
        let ((count_before, micros_before), (count, micros)) = (of(before), of(after));
        let operations = count.saturating_sub(count_before);
        let mean = micros.saturating_sub(micros_before).checked_div(operations);
        let per_second = operations as f64 / seconds;
        json!({
            "name": name,
            "per_second": (per_second * 10.0).round() / 10.0,
            "mean_microseconds": mean,
            "mean_milliseconds": mean.map(|micros| format!("{:.2}", micros as f64 / 1_000.0)),
        })
    };
    json!({ "seconds": seconds.round(), "rates": RATES.iter().map(rate).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn rates_are_differences_over_time() {
        let figures = |searches: u64, micros: u64| {
            Figures::from([
                ("cn=search,cn=operations".to_owned(), searches.to_string()),
                ("cn=search microseconds,cn=durations".to_owned(), micros.to_string()),
                ("cn=add,cn=operations".to_owned(), searches.to_string()),
            ])
        };
        let (rates, begin) = (Rates::default(), Instant::now());
        assert_eq!(rates.since_before(&figures(100, 5_000), begin), Value::Null);
        let after = begin + Duration::from_secs(4);
        let found = rates.since_before(&figures(110, 10_000), after);
        assert_eq!(found["seconds"], 4.0);
        let searches = &found["rates"][0];
        assert_eq!((&searches["per_second"], &searches["mean_microseconds"]), (&json!(2.5), &json!(500)));
        assert_eq!(
            (&found["rates"][1]["per_second"], &found["rates"][2]["per_second"]),
            (&json!(0.0), &json!(2.5))
        );
        assert_eq!(found["rates"][1]["mean_microseconds"], Value::Null);
        // A reading at the same time returns the same rates.
        assert_eq!(rates.since_before(&figures(110, 10_000), after)["rates"], found["rates"]);
        // If the server restarts, its counters begin at 0.
        let found = rates.since_before(&figures(3, 90), after + Duration::from_secs(2));
        assert_eq!(found["rates"][0]["per_second"], 0.0);
        let late = rates.since_before(&figures(9, 90), after + Duration::from_secs(4_000));
        assert_eq!(late, Value::Null);
    }
}
