//! The page of a measurement, with tables of its figures and notes about the figures.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Maximum number of columns of a line of text.
const COLUMNS_MAX: usize = 120;
/// Title of the table that compares Pando with the replication of other products.
const CHANGES: &str = "As many changes as it goes";

/// Guarantee that an answer to a change gives, for servers whose results do not contain it.
const PROMISES: [(&str, &str); 2] = [
    ("alone", "Pando alone answers when the change is synced to its own disk."),
    (
        "at the writer, at another node",
        "Pando's cluster answers when every broker in sync has synced the change to its disk (at least two of three) \
         and the client's own node shows it: what was answered survives the loss of a broker and of all nodes but one.",
    ),
];

/// Tables of the page. Each row has the title of the table, the prefix of the names of its steps, and the figures in
/// its columns.
const TABLES: [(&str, &str, &[&str]); 8] = [
    ("Searches without changes", "search, ", &["per_second", "p50_ms", "p99_ms", "cpu_micros"]),
    (
        "Changes at a rate, and searches during them",
        "changes at a rate, ",
        &["per_second", "p50_ms", "p99_ms", "cpu_micros"],
    ),
    ("", "search during changes, ", &["per_second", "p50_ms", "p99_ms", "cpu_micros", "changes_per_second"]),
    (
        "Nodes compare their data",
        "nodes compare their data",
        &["seconds", "cpu_seconds", "cpu_micros_per_entry"],
    ),
    ("", "search during a comparison, ", &["per_second", "p50_ms", "p99_ms", "cpu_micros"]),
    (CHANGES, "changes of ", &["per_second", "p50_ms", "p99_ms", "cpu_micros", "wrong", "others_behind_ms"]),
    ("Visible on all nodes", "visible everywhere, ", &["from_the_answer", "from_the_request"]),
    ("Failover: for how long changes stand still", "the writer is killed", &["count", "p50_ms", "max_ms"]),
];

/// Returns the page of all figures.
pub(super) fn of(all: &Value) -> String {
    let steps: Vec<&Value> = all["steps"].as_array().into_iter().flatten().collect();
    let mut page = format!(
        "# A cluster of three nodes, measured on one machine\n\n\
         {} people, {} s for each step, {} s in all, {}; commit {}{}.\nMachine: {} processors ({}), {}.\n\n\
         Three brokers, three nodes, a server alone with the same data, and the load share these processors and one \
         disk:\nrates and latencies are what was left of those, so compare the CPU. The replicated peers are measured \
         when all of these\nhave ended, one group at a time. `cluster.json` has the figures, `NAME.json.zst` what \
         `pando bench run` measured.\n\n    \
         ./dev cluster --measure DIR --entries {0} --seconds {1}\n",
        text(&all["entries"]),
        text(&all["seconds"]),
        text(&all["took_seconds"]),
        text(&all["started"]),
        text(&all["tool"]["commit"]),
        if all["tool"]["is_debug_build"] == true {
            ", a debug build, so its figures mean little"
        } else {
            ""
        },
        text(&all["environment"]["cpus"]),
        text(&all["environment"]["cpu_model"]),
        text(&all["environment"]["kernel"]),
    );
    let _ = write!(page, "\n| of medians | |\n|---|---|\n{}", ratios(&steps));
    for (title, prefix, figures) in TABLES {
        let mut rows: Vec<&Value> =
            steps.iter().filter(|step| name(step).starts_with(prefix)).copied().collect();
        rows.sort_by_key(|row| clients(name(row)));
        if !title.is_empty() {
            let _ = write!(page, "\n## {title}\n");
        }
        let _ = write!(page, "\n| step | {} |\n|---|{}\n", figures.join(" | "), "---|".repeat(figures.len()));
        for row in rows {
            let cells: Vec<String> = figures.iter().map(|figure| text(&row["figures"][*figure])).collect();
            let _ = writeln!(page, "| {} | {} |", name(row), cells.join(" | "));
        }
        if title == CHANGES {
            page.push_str(&promises(all));
        }
    }
    let _ = write!(page, "\n## A node joins, and what a change takes\n\n| | |\n|---|---|\n");
    for step in steps.iter().filter(|step| ["a node joins", "bytes of a change"].contains(&name(step))) {
        for (figure, value) in step["figures"].as_object().into_iter().flatten() {
            let _ = writeln!(page, "| {}: {} | {} |", name(step), figure.replace('_', " "), text(value));
        }
    }
    page.push_str(&peers(all));
    let (replicated, own): (Vec<_>, Vec<_>) = steps.iter().partition(|step| is_of_a_peer(all, name(step)));
    let _ = write!(page, "\n## Processors that each process used\n\n{}", cores(&own));
    for group in groups(all) {
        let of_group: Vec<&Value> =
            replicated.iter().filter(|step| name(step).ends_with(&text(&group["name"]))).copied().collect();
        let _ = write!(page, "\n{}", cores(&of_group));
    }
    page
}

/// Returns the groups of other replicating servers.
fn groups(all: &Value) -> impl Iterator<Item = &Value> {
    all["replicated_peers"].as_array().into_iter().flatten()
}

fn is_of_a_peer(all: &Value, step: &str) -> bool {
    groups(all).any(|group| step.ends_with(&format!(", {}", text(&group["name"]))))
}

/// Returns the number of clients in the name of a step.
fn clients(step: &str) -> Option<u64> {
    step.strip_prefix("changes of ")?.split(' ').next()?.parse().ok()
}

/// Returns the guarantee of the answers for each row of a table. Rates can be compared only if the guarantees are
/// known.
fn promises(all: &Value) -> String {
    let mut page = "\n`cpu_micros` is the CPU of the process that was asked, for each change; the last tables of this \
                    page have the others.\n`wrong` counts answers that are errors. `others_behind_ms`: so long after \
                    the load had ended all other servers of the\ngroup had all changes. What an answer promises is \
                    not the same everywhere:\n\n"
        .to_owned();
    let peers = groups(all).map(|group| (text(&group["name"]), text(&group["promise"])));
    let own = PROMISES.map(|(name, promise)| (name.to_owned(), promise.to_owned()));
    for (name, promise) in own.into_iter().chain(peers) {
        page.push_str(&wrapped(&format!("- *{name}*: {promise}"), "  "));
    }
    page
}

/// Returns the settings of the other servers.
fn peers(all: &Value) -> String {
    let mut page = String::new();
    for group in groups(all) {
        let _ = write!(page, "\n## Settings of {}\n\n", text(&group["name"]));
        let loaded = format!(
            "{}. One was loaded by `{}` in {} s, the others began with a copy of its database.",
            text(&group["product"]),
            text(&group["loader"]),
            text(&group["load_seconds"])
        );
        page.push_str(&wrapped(&loaded, ""));
        page.push('\n');
        for (setting, value) in group["settings"].as_object().into_iter().flatten() {
            page.push_str(&wrapped(&format!("- {setting}: `{}`", text(value)), "  "));
        }
    }
    page
}

/// Wraps a paragraph at 120 columns, and indents the lines after the first.
fn wrapped(paragraph: &str, indent: &str) -> String {
    let mut lines = String::new();
    let mut columns = 0;
    for word in paragraph.split(' ') {
        let width = word.chars().count();
        if columns > 0 && columns + 1 + width > COLUMNS_MAX {
            lines.push('\n');
            lines.push_str(indent);
            columns = indent.len();
        } else if columns > 0 {
            lines.push(' ');
            columns += 1;
        }
        lines.push_str(word);
        columns += width;
    }
    lines.push('\n');
    lines
}

fn name(step: &Value) -> &str {
    step["step"].as_str().unwrap_or_default()
}

/// Returns the text of a figure for a cell.
fn text(value: &Value) -> String {
    let number = |number: f64| match number {
        _ if number.fract() == 0.0 || number.abs() >= 100.0 => format!("{number:.0}"),
        _ => format!("{number:.2}"),
    };
    match value {
        Value::Number(figure) => figure.as_f64().map_or_else(String::new, number),
        Value::String(text) => text.clone(),
        Value::Object(times) => format!(
            "p50 {}, p99 {}, max {} ms of {}",
            text(&times["p50_ms"]),
            text(&times["p99_ms"]),
            text(&times["max_ms"]),
            text(&times["count"])
        ),
        _ => "-".to_owned(),
    }
}

/// Returns the median of a figure over the steps with this prefix.
fn median(steps: &[&Value], prefix: &str, figure: &str) -> Option<f64> {
    let of = |step: &&&Value| name(step).starts_with(prefix);
    let mut all: Vec<f64> =
        steps.iter().filter(of).filter_map(|step| step["figures"][figure].as_f64()).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}

/// Returns the ratios between steps.
fn ratios(steps: &[&Value]) -> String {
    let rows = [
        (
            "CPU of a search, another node by one alone",
            "cpu_micros",
            "search, at another node",
            "search, alone",
        ),
        (
            "searches a second at another node, during changes by without",
            "per_second",
            "search during changes, at another node",
            "search, at another node",
        ),
        (
            "searches a second alone, during changes by without",
            "per_second",
            "search during changes, alone",
            "search, alone",
        ),
    ];
    let row = |(title, figure, above, below): (&str, &str, &str, &str)| {
        let ratio = Some(median(steps, above, figure)? / median(steps, below, figure)?);
        ratio.map(|ratio| format!("| {title} | {ratio:.3} |\n"))
    };
    rows.into_iter().filter_map(row).collect()
}

fn cores(steps: &[&Value]) -> String {
    let none = Map::new();
    let of = |step: &Value| step["cores"].as_object().cloned().unwrap_or_else(|| none.clone());
    let all: std::collections::BTreeSet<String> =
        steps.iter().flat_map(|step| of(step).into_iter().map(|(process, _)| process)).collect();
    let all: Vec<String> = all.into_iter().collect();
    let mut table = format!("| step | {} |\n|---|{}\n", all.join(" | "), "---|".repeat(all.len()));
    for step in steps {
        let own = of(step);
        let cells: Vec<String> =
            all.iter().map(|process| own.get(process).map_or_else(|| "-".to_owned(), text)).collect();
        let _ = writeln!(table, "| {} | {} |", name(step), cells.join(" | "));
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_page_has_every_step_in_its_table_and_ratios_of_medians() {
        let search = |name: &str, cpu: f64| {
            let figures = json!({ "per_second": 5000.0, "p50_ms": 0.5, "p99_ms": 1.25, "cpu_micros": cpu });
            json!({ "step": name, "figures": figures, "cores": { "alone": 0.5, "node 2": 0.25 } })
        };
        let seen = json!({ "count": 20, "p50_ms": 1.5, "p99_ms": 2.0, "max_ms": 3.0 });
        let steps = json!([
            search("search, alone, round 1", 10.0),
            search("search, alone, round 2", 30.0),
            search("search, alone, round 3", 20.0),
            search("search, at another node, round 1", 21.0),
            { "step": "visible everywhere, 0 other changes a second", "cores": {},
              "figures": { "from_the_answer": seen, "from_the_request": seen } },
            { "step": "a node joins", "cores": { "node 1": 1.5 }, "figures": { "joined_seconds": 12.345 } },
        ]);
        let page = of(&json!({ "entries": 1000, "seconds": 3, "took_seconds": 60, "steps": steps,
            "tool": { "is_debug_build": true } }));
        assert!(!page.contains("Settings of"), "{page}");
        for line in [
            "| CPU of a search, another node by one alone | 1.050 |",
            "| search, alone, round 2 | 5000 | 0.50 | 1.25 | 30 |",
            "p50 1.50, p99 2, max 3 ms of 20",
            "| a node joins: joined seconds | 12.35 |",
            "| a node joins | - | 1.50 | - |",
            "a debug build",
            "--entries 1000 --seconds 3",
        ] {
            assert!(page.contains(line), "{line}:\n{page}");
        }
    }

    #[test]
    fn the_page_lists_peers_with_their_promises_and_settings() {
        let step = |name: &str, behind: Value, process: &str| {
            let figures = json!({ "per_second": 700.0, "wrong": 0.0, "others_behind_ms": behind });
            json!({ "step": name, "figures": figures, "cores": { process: 0.5 } })
        };
        let steps = json!([
            step("changes of 10 clients, alone", Value::Null, "alone"),
            step("changes of 500 clients, alone", Value::Null, "alone"),
            step("changes of 10 clients, slapd", json!(12.5), "slapd provider"),
        ]);
        let group = json!({
            "name": "slapd", "product": "OpenLDAP 2.5", "promise": "It promises little.", "loader": "slapadd -qw",
            "load_seconds": 3, "settings": { "provider: database": "mdb" },
        });
        let page = of(&json!({ "steps": steps, "replicated_peers": [group] }));
        let of_10 = "| changes of 10 clients, slapd | 700 | - | - | - | 0 | 12.50 |\n| changes of 500 clients, alone |";
        for part in [
            of_10,
            "\n- *slapd*: It promises little.\n",
            "\n## Settings of slapd\n\nOpenLDAP 2.5. One was loaded by `slapadd -qw` in 3 s",
            "\n- provider: database: `mdb`\n",
            "\n| step | alone |\n|---|---|\n| changes of 10 clients, alone | 0.50 |\n| changes of 500",
            "\n| step | slapd provider |\n|---|---|\n| changes of 10 clients, slapd | 0.50 |\n",
        ] {
            assert!(page.contains(part), "no {part:?} in\n{page}");
        }
    }

    #[test]
    fn a_paragraph_is_wrapped_at_120_columns() {
        let page = wrapped(&["word"; 30].join(" "), "  ");
        let widths: Vec<usize> = page.lines().map(str::len).collect();
        assert_eq!(widths, [119, 31], "{page}");
        assert!(page.lines().nth(1).is_some_and(|line| line.starts_with("  word word")), "{page}");
        assert_eq!(wrapped("short", "  "), "short\n");
    }
}
