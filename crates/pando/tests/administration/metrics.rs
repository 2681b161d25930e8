//! Metrics over HTTP: their values, who may read them, and what hostile clients can do.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use ldap::{ResultCode, Scope};
use rustix::process::Signal;
use test_support::clients::{repository, run};
use test_support::cluster::until;
use test_support::metrics::{self, address, exchange, expect_documented, page, value};
use test_support::page::Blocks;
use test_support::pando::Start;
use test_support::tree::plant;
use test_support::{ADMIN_DN, ADMIN_PASSWORD, DEADLINE, Pando, SUFFIX, Scratch};

/// Starts a server that serves metrics and has these additional lines in its node file.
fn start(scratch: &Scratch, more: &str) -> Pando {
    Start::with_node(scratch, format!("[metrics]\nlisten = \"127.0.0.1:0\"\n{more}")).ready()
}

#[test]
fn metrics_agree_with_the_monitor() {
    let scratch = Scratch::new("metrics");
    let (trail, backup) = (scratch.join("trail"), scratch.join("backup"));
    let pando = start(&scratch, &format!("[audit]\nfolder = {trail:?}\n[backup]\nfolder = {backup:?}\n"));
    let mut administrator = pando.administrator();
    let mut other = pando.connect();
    for _ in 0..3 {
        assert_eq!(other.bind(ADMIN_DN, "wrong").unwrap().code, ResultCode::INVALID_CREDENTIALS);
    }
    let missing = format!("ou=missing,{SUFFIX}");
    for _ in 0..5 {
        let reply = administrator.search(&missing, Scope::BaseObject, "(objectClass=*)", &[]).unwrap();
        assert_eq!(reply.outcome.code, ResultCode::NO_SUCH_OBJECT);
    }
    for _ in 0..2 {
        let refused = administrator.delete("cn=Log,cn=monitor").unwrap();
        assert_eq!(refused.code, ResultCode::UNWILLING_TO_PERFORM, "{refused:?}");
    }

    // An event loop counts the time of an operation after it has sent the answer.
    let (status, metrics) = until("the times of all searches", || {
        let found = page(&pando, "/metrics");
        (value(&found.1, "pando_operation_seconds_count{operation=\"search\"}") >= 5.0).then_some(found)
    });
    assert_eq!(status, 200);
    expect_documented(&metrics);
    let finished = |operation: &str, result: &str| {
        let labels = format!("operation=\"{operation}\",result=\"{result}\"");
        value(&metrics, &format!("pando_operations_finished_total{{{labels}}}"))
    };
    assert_eq!(finished("bind", "success"), 1.0);
    assert_eq!(finished("bind", "invalidCredentials"), 3.0);
    assert_eq!(finished("search", "noSuchObject"), 5.0);
    assert_eq!(value(&metrics, "pando_refusals_total{cause=\"… is made by the server\"}"), 2.0);
    // Every finished operation has a duration.
    for (operation, number) in [("bind", 4.0), ("search", 5.0)] {
        let of = |what: &str| value(&metrics, &format!("pando_operation_seconds_{what}"));
        assert_eq!(of(&format!("count{{operation=\"{operation}\"}}")), number, "{operation}");
        assert_eq!(of(&format!("bucket{{operation=\"{operation}\",le=\"+Inf\"}}")), number, "{operation}");
        assert!(of(&format!("sum{{operation=\"{operation}\"}}")) > 0.0, "{operation}");
    }
    // An Argon2id hash takes longer than the upper bound of the first bucket. The duration of a bind includes its wait
    // for a hash thread.
    assert_eq!(value(&metrics, "pando_operation_seconds_bucket{operation=\"bind\",le=\"1.6e-05\"}"), 0.0);

    // Each metric has an entry of cn=monitor, with the same number if nothing has changed meanwhile.
    for (metric, entry) in [
        ("pando_log_position", "cn=Position,cn=Log"),
        ("pando_connections_current", "cn=Current,cn=Connections"),
        ("pando_connections_total", "cn=Total,cn=Connections"),
        ("pando_threads_event_loops", "cn=Event Loops,cn=Threads"),
        ("pando_passwords_hashes_verified_total", "cn=Hashes Verified,cn=Passwords"),
    ] {
        let entry = administrator.entry(&format!("{entry},cn=monitor"), &["*"]).unwrap().unwrap();
        assert_eq!(entry.text("monitorCounter").unwrap().parse(), Ok(value(&metrics, metric)), "{metric}");
        let help = metrics.lines().find_map(|line| line.strip_prefix(&format!("# HELP {metric} ")));
        assert_eq!(entry.text("description").as_deref(), help, "{metric}");
    }
    assert_eq!(value(&metrics, "pando_audit_failing"), 0.0);
    assert_eq!(value(&metrics, "pando_backup_failing"), 0.0);
    assert_eq!(value(&metrics, "pando_log_writes_stopped"), 0.0);
    assert_eq!(value(&metrics, "pando_log_changes_refused"), 0.0);
    assert!(!metrics.contains(SUFFIX), "no names of entries");

    assert_eq!(page(&pando, "/live"), (200, "live\n".to_owned()));
    assert_eq!(page(&pando, "/ready"), (200, "ready\n".to_owned()));
    assert_eq!(page(&pando, "/").0, 404);
    assert!(pando.stop().success());
}

/// If a client does not read its answers, a stopping server ends later.
#[test]
fn a_stopping_server_is_not_ready() {
    let scratch = Scratch::new("metrics-stopping");
    let mut pando = start(&scratch, "");
    let mut administrator = pando.administrator();
    plant(&mut administrator);
    let large = "x".repeat(512 << 10);
    for number in 0..50 {
        let dn = format!("ou=large{number},{SUFFIX}");
        let attributes = [("objectClass", "organizationalUnit"), ("description", large.as_str())];
        assert!(administrator.add(&dn, &attributes).unwrap().is_success());
    }
    metrics::wait_for_ready(&pando, 200);
    // 25 MiB are more than the buffers of the connection hold.
    let filter = ldap::FilterBuf::parse("(ou=large*)").unwrap();
    let selection = ldap::SelectionBuf::from_iter(["description"]);
    let (filter, selection) = (filter.as_filter(), selection.as_selection());
    let request = ldap::SearchRequest::new(SUFFIX, Scope::WholeSubtree, filter, selection);
    administrator.send(ldap::Request::Search(request), ldap::Controls::NONE).unwrap();
    pando.signal(Signal::TERM);
    let text = metrics::wait_for_ready(&pando, 503);
    assert_eq!(text, "the server is stopping\n");
    assert_eq!(page(&pando, "/ready/read").0, 503);
    assert_eq!(page(&pando, "/live").0, 200);
    drop(administrator);
    assert!(pando.exit().success());
}

/// Python program that requests a page over TLS and verifies the server's certificate. It sends the token if there is
/// one.
const ASK: &str = r"
import ssl, sys, urllib.error, urllib.request
url, authority, token = sys.argv[1:]
request = urllib.request.Request(url, headers={'Authorization': 'Bearer ' + token} if token else {})
opener = urllib.request.build_opener(
    urllib.request.ProxyHandler({}),
    urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=authority)))
try:
    with opener.open(request) as answer:
        print(answer.status, answer.headers['Content-Type'], answer.read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.headers['WWW-Authenticate'], error.read().decode())
";

#[test]
fn without_the_token_only_readiness_is_served() {
    let scratch = Scratch::new("metrics-tls");
    let token = scratch.write("token", "of the metrics\n");
    let pando = start(&scratch, &format!("tls = true\ntoken_file = {token:?}\n"));
    assert!(pando.log().contains("the token of the metrics"), "others can read the file: {}", pando.log());
    let authority = Pando::data(&scratch).join("tls/certificate.pem");
    let at = address(&pando);
    let ask = |path: &str, token: &str| {
        let url = format!("https://localhost:{}{path}", at.port());
        run("/usr/bin/python3", &["-c", ASK, &url, authority.to_str().unwrap(), token], "").expect_code(0)
    };
    ask("/metrics", "of the metrics")
        .expect_output("200 text/plain; version=0.0.4")
        .expect_output("pando_tls");
    ask("/metrics", "").expect_output("401 Bearer").expect_output("metrics.token_file");
    ask("/metrics", "of the metric").expect_output("401 Bearer");
    ask("/ready", "").expect_output("200 text/plain").expect_output("ready");
    // Without TLS, the answer is not HTTP.
    let answer = exchange(at, b"GET /metrics HTTP/1.1\r\nHost: pando\r\n\r\n").unwrap_or_default();
    assert!(!answer.contains("HTTP/1.1"), "{answer:?}");
    assert!(pando.stop().success());
}

#[test]
fn each_connection_gets_one_answer() {
    let scratch = Scratch::new("metrics-hostile");
    let pando = start(&scratch, "");
    let at = address(&pando);
    for (octets, expected) in [
        (b"POST /metrics HTTP/1.1\r\nHost: pando\r\nContent-Length: 0\r\n\r\n".as_slice(), "HTTP/1.1 405"),
        (b"HEAD /metrics HTTP/1.1\r\nHost: pando\r\n\r\n", "HTTP/1.1 200"),
        (b"GET /metrics HTTP/1.0\r\n\r\n", "HTTP/1.0 200"),
        (b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\x00\x80\x00", "HTTP/1.1 400"),
        (b"GET /../../etc/passwd HTTP/1.1\r\nHost: pando\r\n\r\n", "HTTP/1.1 404"),
        (
            b"GET /metrics HTTP/1.1\r\nHost: pando\r\n\r\nGET /live HTTP/1.1\r\nHost: pando\r\n\r\n",
            "HTTP/1.1 200",
        ),
    ] {
        let answer = exchange(at, octets).unwrap();
        assert!(answer.starts_with(expected), "{octets:?}: {answer:?}");
        assert_eq!(answer.matches("HTTP/1.").count(), 1, "one answer a connection: {answer:?}");
    }
    // A request that is too long is refused while it arrives, so sending may fail, and the answer may be lost.
    let endless = [b"GET /metrics HTTP/1.1\r\nX: ".as_slice(), &vec![b'x'; 1 << 20]].concat();
    let answer = exchange(at, &endless).unwrap_or_default();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer:?}");

    assert!(pando.stop().success());
}

/// Regression test: eight idle clients kept probes out, because no further connection was accepted until 10 seconds had
/// passed. A new connection must be accepted even if other clients stop in the middle of their TLS handshakes.
#[test]
fn idle_clients_do_not_block_probes() {
    for table in ["", "tls = true\n"] {
        let scratch = Scratch::new("metrics-idle");
        let pando = start(&scratch, table);
        let at = address(&pando);
        let hello = client::Tls::insecure().unwrap();
        let mut begun = Vec::new();
        hello.session("localhost").unwrap().write_tls(&mut begun).unwrap();
        let mut idle = Vec::new();
        for number in 0..300_usize {
            let mut stream = TcpStream::connect(at).unwrap();
            let octets: &[u8] = match (number % 3, table.is_empty()) {
                (0, _) => b"",
                (_, true) => b"GET /live HTTP/1.1\r\nX",
                (1, false) => &begun[..7],
                (_, false) => &begun,
            };
            // Writing fails if the server has already closed the connection in favor of another connection.
            let _ = stream.write_all(octets);
            idle.push(stream);
            if number % 30 == 0 {
                let probe = TcpStream::connect(at).unwrap();
                probe.set_read_timeout(Some(DEADLINE)).unwrap();
                assert!(probe_with(probe, &hello, !table.is_empty()).ends_with("live\n"), "{number}");
            }
        }
        assert!(pando.connect().bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
        drop(idle);
        assert!(pando.stop().success());
    }
}

/// Requests `/live`, over TLS if `is_secure`.
fn probe_with(mut stream: TcpStream, tls: &client::Tls, is_secure: bool) -> String {
    let mut answer = String::new();
    let request = b"GET /live HTTP/1.1\r\nHost: pando\r\n\r\n";
    if is_secure {
        let mut session = tls.session("localhost").unwrap();
        let mut stream = rustls::Stream::new(&mut session, &mut stream);
        stream.write_all(request).unwrap();
        stream.read_to_string(&mut answer).unwrap();
    } else {
        stream.write_all(request).unwrap();
        stream.read_to_string(&mut answer).unwrap();
    }
    answer
}

#[test]
fn impossible_settings_are_refused_at_the_start() {
    let scratch = Scratch::new("metrics-refused");
    let refused = |table: &str| {
        let (status, said) = Start::with_node(&scratch, format!("[metrics]\n{table}\n")).refused();
        assert!(!status.success(), "{table}");
        said
    };
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap();
    let said = refused(&format!("listen = \"{at}\""));
    assert!(said.contains(&format!("cannot serve metrics on {at}: ")), "{said}");
    assert!(refused("tls = true").contains("[metrics] of the node file: it needs listen"));
    assert!(refused("listen = \"9389\"").contains("node.toml:2"), "the line");
    assert!(refused("listen = \"127.0.0.1:0\"\ntoken_file = \"missing\"").contains("cannot read"));
}

/// Returns the names of metrics in a text, without the suffixes of histogram series.
fn metric_names(text: &str) -> std::collections::BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names = words.filter(|word| word.starts_with("pando_"));
    names.map(|name| name.strip_suffix("_bucket").unwrap_or(name).to_owned()).collect()
}

#[test]
fn work_is_counted_by_listener_index_and_client() {
    let scratch = Scratch::new("metrics-usage");
    let pando = start(&scratch, "");
    let mut administrator = pando.administrator();
    let person = |uid: &str| format!("uid={uid},{SUFFIX}");
    let top_entry = [("objectClass", "domain"), ("dc", "example")];
    assert!(administrator.add(SUFFIX, &top_entry).unwrap().is_success());
    for uid in ["anna", "bert"] {
        let attributes = [("objectClass", "account"), ("objectClass", "simpleSecurityObject"), ("uid", uid)];
        let all = [&attributes[..], &[("userPassword", "secret")]].concat();
        assert!(administrator.add(&person(uid), &all).unwrap().is_success());
    }
    let anonymous = pando.connect();
    let mut anna = pando.connect();
    assert!(anna.bind(&person("anna"), "secret").unwrap().is_success());
    // The last search uses the index twice, but is counted once for this index.
    for filter in [["(uid=bert)"; 4].as_slice(), &["(|(uid=bert)(uid=missing))"]].concat() {
        let found = administrator.search(SUFFIX, Scope::WholeSubtree, filter, &["uid"]).unwrap();
        assert_eq!(found.entries.len(), 1);
    }
    drop(anonymous);

    // An event loop counts operations after it has sent their answers.
    let metrics = until("the work", || {
        let metrics = page(&pando, "/metrics").1;
        let operations = value(&metrics, "pando_listeners_operations_total{listener=\"ldap\"}");
        (operations >= 10.0).then_some(metrics)
    });
    expect_documented(&metrics);
    let of = |name: &str| value(&metrics, &format!("pando_{name}"));
    assert_eq!(of("listeners_accepted_total{listener=\"ldap\"}"), 3.0);
    assert_eq!(of("listeners_operations_total{listener=\"ldapi\"}"), 0.0);
    assert!(of("listeners_bytes_total{listener=\"ldap\"}") > 100.0);
    assert!(of("listeners_bytes_received_total{listener=\"ldap\"}") > 100.0);
    assert_eq!(of("index_use_searches_total{index=\"uid\"}"), 5.0);
    assert_eq!(of("index_use_entries_total{index=\"uid\"}"), 5.0);
    assert_eq!(of("passwords_hashes_waiting"), 0.0);
    assert!(of("passwords_waited_seconds_total") >= 0.0);
    assert!(!metrics.contains("uid=anna"), "no names of clients");

    // The clients that cost most come first. Only requesters who may read cn=monitor see them.
    let top = |connection: &mut client::Connection| {
        let base = "cn=Top Clients,cn=monitor";
        let found = connection.search(base, Scope::SingleLevel, "(cn=*)", &["monitoredInfo"]).unwrap();
        found.entries.iter().filter_map(|entry| entry.text("monitoredInfo")).collect::<Vec<_>>()
    };
    let clients: Vec<server::ClientUse> = until("the work of both", || {
        let listed: Vec<server::ClientUse> =
            top(&mut administrator).iter().map(|text| text.parse().unwrap()).collect();
        let has = |dn: &str, operations| {
            listed.iter().any(|client| client.dn == dn && client.work.operations >= operations)
        };
        (has(ADMIN_DN, 7) && has(&person("anna"), 1)).then_some(listed)
    });
    let costs: Vec<u64> = clients.iter().map(|client| client.work.micros).collect();
    assert!(costs.is_sorted_by(|one, next| one >= next), "{costs:?}");
    let of = |dn: &str| clients.iter().find(|client| client.dn == dn).unwrap();
    assert_eq!((of(&person("anna")).source.as_str(), of(ADMIN_DN).work.examined), ("127.0.0.1", 5));
    assert_eq!(top(&mut anna), Vec::<String>::new());
    assert!(pando.stop().success());
}

#[test]
fn alert_rules_and_dashboard_use_metrics_that_exist() {
    let scratch = Scratch::new("metrics-rules");
    let (trail, backup) = (scratch.join("trail"), scratch.join("backup"));
    let pando =
        start(&scratch, &format!("[audit]\nfolder = {trail:?}\n[backup]\nfolder = {backup:?}\n[tls]\n"));
    // The metrics of a backup appear after the first backup.
    let deadline = Instant::now() + DEADLINE;
    let mut metrics = page(&pando, "/metrics").1;
    while !metrics.contains("pando_backup_last_backup_timestamp_seconds ") {
        assert!(Instant::now() < deadline, "no backup in\n{metrics}");
        std::thread::sleep(Duration::from_millis(20));
        metrics = page(&pando, "/metrics").1;
    }
    assert!(pando.stop().success());
    run("promtool", &["check", "metrics"], &metrics).expect_code(0);

    let folder = repository().join("packaging/monitoring");
    let rules = folder.join("pando.rules.yml");
    run("promtool", &["check", "rules", rules.to_str().unwrap()], "").expect_code(0);
    let dashboard = std::fs::read_to_string(folder.join("grafana-dashboard.json")).unwrap();
    let parsed: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    assert!(parsed["panels"].as_array().unwrap().len() > 20);

    // A single server has no metrics of clusters and replicas, so the test only looks up their names in the
    // documentation.
    let documented = metrics::documented();
    let exists = metric_names(&metrics);
    let is_of_several = |name: &str| name.starts_with("pando_cluster_") || name.starts_with("pando_replica");
    for used in metric_names(&(std::fs::read_to_string(&rules).unwrap() + &dashboard)) {
        assert!(documented.contains(&used), "docs/how-to/metrics.md lacks {used}");
        assert!(exists.contains(&used) || is_of_several(&used), "no server has {used}");
    }
}

/// Checks the configuration in `how-to/metrics.md`, with the shipped alert rules, as Prometheus reads it.
#[test]
fn prometheus_reads_the_configuration_of_the_page() {
    let scratch = Scratch::new("metrics-scrape");
    let rules = repository().join("packaging/monitoring/pando.rules.yml");
    let folder = scratch.path().to_str().unwrap();
    let page = Blocks::of("how-to/metrics.md");
    let jobs = page.block("scrape_configs:").replace("/etc/prometheus", folder);
    let file = scratch.write("prometheus.yml", format!("rule_files: [{rules:?}]\n{jobs}"));
    let check = || run("promtool", &["check", "config", file.to_str().unwrap()], "");
    check().expect_code(1).expect_error("pando-token");
    scratch.write("pando-token", "of the metrics\n");
    scratch.write("pando-certificate.pem", "");
    check().expect_code(0).expect_output("1 rule files found");
}
