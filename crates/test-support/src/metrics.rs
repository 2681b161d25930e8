//! The metrics of a server, as a scraper reads them.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::{DEADLINE, Pando};

/// Returns the address of the metrics listener, from the server's log.
#[track_caller]
pub fn address(pando: &Pando) -> SocketAddr {
    let log = pando.log();
    let (_, rest) = log.rsplit_once("metrics at ").expect("a line about metrics");
    let url = rest.split_whitespace().next().unwrap();
    url.split('/').nth(2).unwrap().parse().unwrap()
}

/// Sends octets, and returns the whole answer as text.
pub fn exchange(address: SocketAddr, octets: &[u8]) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.write_all(octets)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Returns the status and the text of a page.
#[track_caller]
pub fn page(pando: &Pando, path: &str) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: pando\r\n\r\n");
    let answer = exchange(address(pando), request.as_bytes()).unwrap();
    let (head, text) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    (head.split(' ').nth(1).unwrap().parse().unwrap(), text.to_owned())
}

/// Node file of a server with the listener of the metrics on a free port.
pub const NODE_FILE: &str = "[metrics]\nlisten = \"127.0.0.1:0\"\n";

/// Waits until `/ready` has this status, and returns the text.
#[track_caller]
pub fn wait_for_ready(pando: &Pando, status: u16) -> String {
    let begun = Instant::now();
    loop {
        let (found, text) = page(pando, "/ready");
        if found == status {
            return text;
        }
        assert!(begun.elapsed() < DEADLINE, "/ready is {found}: {text}");
        std::thread::yield_now();
    }
}

/// Time after which `/ready` must be false.
const NOTICED_WITHIN: Duration = Duration::from_secs(5);

/// Requests `/ready` until it is false because of `cause`. The cause began at `since`. Every request that begins more
/// than five seconds later must be answered with false, even if the machine is slow.
#[track_caller]
pub fn expect_not_ready(pando: &Pando, since: Instant, cause: &str) -> String {
    loop {
        let elapsed = since.elapsed();
        let (status, text) = page(pando, "/ready");
        if status == 503 && text.contains(cause) {
            return text;
        }
        // On a busy machine, the event loops may be late meanwhile. That is another reason why `/ready` is false.
        assert!(status == 503 || elapsed < NOTICED_WITHIN, "{status} after {elapsed:?}: {text}");
        assert!(elapsed < DEADLINE, "{text}");
        std::thread::yield_now();
    }
}

/// Requests `/ready`, which must be false at once, and waits until the cause is the stated reason.
#[track_caller]
pub fn expect_not_ready_now(pando: &Pando, cause: &str) -> String {
    let since = Instant::now().checked_sub(NOTICED_WITHIN).expect("the machine runs for longer");
    expect_not_ready(pando, since, cause)
}

/// Returns the value of a metric, by its name and labels.
#[track_caller]
pub fn value(metrics: &str, series: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in\n{metrics}")).parse().unwrap()
}

/// Panics if the documentation lacks a metric.
#[track_caller]
pub fn expect_documented(metrics: &str) {
    let documented = documented();
    let names = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let unknown: Vec<_> = names.filter(|name| !documented.contains(*name)).collect();
    assert!(unknown.is_empty(), "docs/how-to/metrics.md lacks {unknown:?}");
}

/// Returns the names of the metrics in the documentation. In an item of its list, a part that ends with an underscore,
/// such as `pando_audit_`, is the prefix of the other names.
pub fn documented() -> BTreeSet<String> {
    let page = super::clients::repository().join("docs/how-to/metrics.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut names = BTreeSet::new();
    for item in page.split("\n- ") {
        let (mut beginnings, mut has_rest) = (Vec::new(), false);
        for word in item.split('`').skip(1).step_by(2) {
            if word.starts_with("pando_") && word.ends_with('_') {
                if std::mem::take(&mut has_rest) {
                    beginnings.clear();
                }
                beginnings.push(word);
            } else if word.starts_with("pando_") {
                names.insert(word.to_owned());
            } else {
                has_rest = true;
                names.extend(beginnings.iter().map(|beginning| format!("{beginning}{word}")));
            }
        }
    }
    names
}
