//! Traces of operations, as a receiver of the OpenTelemetry protocol sees them.

use std::net::TcpListener;

use ldap::ResultCode;
use test_support::clients::run;
use test_support::cluster::until;
use test_support::collector::{Collector, attribute, is_of};
use test_support::pando::Start;
use test_support::tree::{add_person, bind, person_dn, plant, plant_policy, replace, set_password};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

fn start(scratch: &Scratch, table: &str) -> Pando {
    Start::with_node(scratch, format!("[traces]\n{table}")).ready()
}

#[test]
fn sampled_operations_are_traced_without_values() {
    let scratch = Scratch::new("traces");
    let mut collector = Collector::start();
    scratch.write("headers", "X-Tenant: trees\n");
    let endpoint = format!("endpoint = \"http://{}/v1/traces\"", collector.address);
    let more = "sample_ratio = 1.0\nservice = \"directory\"\nheader_file = \"headers\"\n";
    let pando = start(&scratch, &format!("{endpoint}\n{more}"));
    let mut admin = pando.administrator();
    plant(&mut admin);
    add_person(&mut admin, "mallory-the-secret");
    admin.search(SUFFIX, ldap::Scope::WholeSubtree, "(&(uid=mallory-the-secret)(cn=*secret*))", &[]).unwrap();
    let missing = format!("uid=nothing-secret,ou=people,{SUFFIX}");
    admin.search(&missing, ldap::Scope::BaseObject, "(objectClass=*)", &[]).unwrap();

    let export = collector.next_export();
    assert!(export.head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{}", export.head);
    let head = export.head.to_lowercase();
    assert!(head.contains("content-type: application/json") && head.contains("x-tenant: trees"), "{head}");
    let resource = export.body["resourceSpans"][0]["resource"].to_string();
    assert!(resource.contains("service.instance.id") && resource.contains("\"directory\""), "{resource}");

    let found =
        collector.span(|span| attribute(span, "db.query.text").is_some_and(|text| text.contains("uid=?")));
    assert_eq!(attribute(&found, "rpc.system.name").as_deref(), Some("ldap"));
    assert_eq!(attribute(&found, "db.response.returned_rows").as_deref(), Some("1"));
    assert_eq!(attribute(&found, "rpc.response.status_code").as_deref(), Some("0"));
    assert_eq!(attribute(&found, "ldap.depth").as_deref(), Some("2"));
    assert_eq!(attribute(&found, "ldap.scope").as_deref(), Some("sub"));
    assert_eq!(found["traceId"].as_str().map(str::len), Some(32));
    let nanos = |name: &str| found[name].as_str().unwrap().parse::<u64>().unwrap();
    assert!(nanos("startTimeUnixNano") <= nanos("endTimeUnixNano"));
    assert_eq!(collector.stages(&found), ["plan", "scan"]);
    let add = collector.span(|span| is_of(span, "add"));
    assert_eq!(collector.stages(&add), ["wait for the writer", "decide", "sync the log"]);
    collector.span(|span| is_of(span, "bind"));
    let refused = collector.span(|span| attribute(span, "rpc.response.status_code").as_deref() == Some("32"));
    assert_eq!(attribute(&refused, "ldap.result").as_deref(), Some("noSuchObject"));
    let all = serde_json::to_string(&collector.spans).unwrap();
    assert!(!all.contains("secret") && !all.contains("example"), "{all}");
    assert!(pando.stop().success());
}

#[test]
fn slow_operations_are_traced_with_their_plan() {
    let scratch = Scratch::new("traces-slow");
    let mut collector = Collector::start();
    let endpoint = format!("endpoint = \"http://{}/v1/traces\"", collector.address);
    let pando = start(&scratch, &format!("{endpoint}\nsample_ratio = 0.0\nslow_milliseconds = 0\n"));
    let mut admin = pando.administrator();
    plant(&mut admin);
    admin.search(SUFFIX, ldap::Scope::WholeSubtree, "(description=*x*)", &[]).unwrap();
    let found =
        collector.span(|span| attribute(span, "db.query.text").as_deref() == Some("(description=*?*)"));
    assert_eq!(attribute(&found, "pando.slow").as_deref(), Some("true"));
    let plan = attribute(&found, "pando.plan").unwrap();
    assert!(plan.contains("6 of 6; substring of description"), "{plan}");
    assert!(pando.stop().success());
}

/// The stages of a bind are the work of other threads, the work of other servers, and the delay of the answer.
#[test]
fn binds_are_traced_with_their_stages() {
    let there = Scratch::new("traces-bind-there");
    let other = Start::new(&there).arguments(&["--listen", "ldaps://127.0.0.1:0"]).ready();
    plant(&mut other.administrator());
    let scratch = Scratch::new("traces-bind");
    let mut collector = Collector::start();
    let pando = start(
        &scratch,
        &format!(
            "endpoint = \"http://{}/v1/traces\"\nsample_ratio = 1.0\n[pass_through]\n\
             server = \"ldap://127.0.0.1:{}\"\nauthorities = {:?}\n",
            collector.address,
            other.address().port(),
            Pando::data(&there).join("tls/certificate.pem"),
        ),
    );
    let mut admin = pando.administrator();
    plant(&mut admin);
    let hashing =
        ["wait for the hash pool", "hash the passwords", "wait for the writer", "decide", "sync the log"];
    collector.span_with("add", &hashing);

    assert_eq!(bind(&pando, "anna", "anna-secret"), ResultCode::SUCCESS);
    let verifying = ["wait for the hash pool", "verify the password"];
    let found = collector.span_with("bind", &verifying);
    assert_eq!(attribute(&found, "ldap.bind_method").as_deref(), Some("simple"));
    let url = format!("ldap://{}", pando.address());
    let plain = ["-Q", "-O", "none", "-H", &url, "-Y", "PLAIN", "-U", "bert", "-w", "bert-secret"];
    run("ldapwhoami", &plain, "").expect_code(0);
    let by_sasl = collector.span(|span| attribute(span, "ldap.bind_method").as_deref() == Some("PLAIN"));
    assert_eq!(collector.stages(&by_sasl), verifying);

    set_password(&mut admin, "anna", &format!("{{PASSTHROUGH}}{}", person_dn("anna")));
    assert_eq!(bind(&pando, "anna", "anna-secret"), ResultCode::SUCCESS);
    collector.span_with("bind", &["wait for a thread", "ask the other service"]);

    plant_policy(
        &mut admin,
        &[("objectClass", "pandoPwdPolicy"), ("pwdMinDelay", "1"), ("pwdMaxDelay", "1")],
    );
    assert_eq!(bind(&pando, "bert", "wrong-secret"), ResultCode::INVALID_CREDENTIALS);
    let delayed = collector.span_with("bind", &[&verifying[..], &["delay the answer"]].concat());
    let nanos = |name: &str| delayed[name].as_str().unwrap().parse::<u64>().unwrap();
    assert!(nanos("endTimeUnixNano") - nanos("startTimeUnixNano") >= 1_000_000_000, "{delayed}");
    let all = serde_json::to_string(&collector.spans).unwrap();
    assert!(!all.contains("secret") && !all.contains("anna") && !all.contains("bert"), "{all}");
    assert!(pando.stop().success() && other.stop().success());
}

/// The spans of a change at a replica and at its supplier are one trace.
#[test]
fn a_forwarded_change_is_one_trace() {
    let (of_supplier, of_replica) = (Scratch::new("traces-supplier"), Scratch::new("traces-replica"));
    let mut collector = Collector::start();
    let table = format!("endpoint = \"http://{}/v1/traces\"\nsample_ratio = 1.0\n", collector.address);
    let supplier = start(&of_supplier, &table);
    plant(&mut supplier.administrator());
    let password = of_replica.write("password", ADMIN_PASSWORD);
    let follows = format!(
        "[replica]\nsupplier = \"ldap://{}\"\nname = \"test\"\nbind_dn = \"{ADMIN_DN}\"\n\
         password_file = {password:?}\n",
        supplier.address()
    );
    let replica = start(&of_replica, &(table + &follows));
    replace(&mut replica.administrator(), SUFFIX, "description", &["secret"]);

    let here = ["wait to be forwarded", "forward to the writer", "wait for the records"];
    let asked = collector.span_with("modify", &here);
    let made = collector.span(|span| {
        span["traceId"] == asked["traceId"] && span["spanId"] != asked["spanId"] && is_of(span, "extended")
    });
    assert_eq!(collector.stages(&made), ["wait for the writer", "decide", "sync the log"]);
    let forwarding = collector.spans.iter().find(|span| span["spanId"] == made["parentSpanId"]).unwrap();
    assert_eq!((&forwarding["name"], &forwarding["parentSpanId"]), (&here[1].into(), &asked["spanId"]));
    let all = serde_json::to_string(&collector.spans).unwrap();
    assert!(!all.contains("secret") && !all.contains("example"), "{all}");
    assert!(replica.stop().success() && supplier.stop().success());
}

/// If no operation is sampled and none is slow, nothing is sent.
#[test]
fn fast_unsampled_operations_are_not_traced() {
    let scratch = Scratch::new("traces-none");
    let collector = Collector::start();
    let endpoint = format!("endpoint = \"http://{}/v1/traces\"", collector.address);
    let pando = start(&scratch, &format!("{endpoint}\nsample_ratio = 0.0\nslow_milliseconds = 600000\n"));
    plant(&mut pando.administrator());
    // Before it ends, a server sends all spans that are still queued.
    assert!(pando.stop().success());
    assert!(collector.exports.try_recv().is_err());
}

#[test]
fn an_unreachable_receiver_fails_no_operation() {
    let scratch = Scratch::new("traces-down");
    // The listener is dropped at once, so nothing accepts connections at this address.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let pando = start(&scratch, &format!("endpoint = \"http://{address}/v1/traces\"\nsample_ratio = 1.0\n"));
    let mut admin = pando.administrator();
    plant(&mut admin);
    let figure = |admin: &mut client::Connection, name: &str| {
        let dn = format!("cn={name},cn=Traces,cn=monitor");
        admin.entry(&dn, &["*"]).unwrap().unwrap().text("monitorCounter").unwrap_or_default()
    };
    until("operations are lost and counted", || {
        replace(&mut admin, SUFFIX, "description", &["x"]);
        figure(&mut admin, "Dropped").parse::<u64>().is_ok_and(|lost| lost > 0).then_some(())
    });
    assert_eq!(figure(&mut admin, "Sent"), "0");
    let lines = pando.log().matches("traces cannot be sent to").count();
    assert_eq!(lines, 1, "{}", pando.log());
    assert!(pando.stop().success());
}

#[test]
fn invalid_trace_tables_are_refused() {
    let scratch = Scratch::new("traces-mistakes");
    for (table, told) in [
        ("sample_ratio = 0.5", "[traces] of the node file: it needs endpoint"),
        ("endpoint = \"collector:4318\"", "http:// or https://"),
        ("endpoint = \"http://127.0.0.1:1/\"\nsample_ratio = 2.0", "from 0 to 1"),
    ] {
        let (status, errors) = Start::with_node(&scratch, format!("[traces]\n{table}\n")).refused();
        assert!(!status.success() && errors.contains(told), "{errors}");
    }
}
