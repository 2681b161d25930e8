//! Commands of the pages about measurements, with smaller numbers and shorter times than the pages have.

use test_support::Scratch;
use test_support::clients::repository;
use test_support::page::Blocks;

use crate::all_used;
use crate::host::Host;

/// Options that omit the warm-up and the measurement of the null responder. Both take seconds.
const QUICK: &str = "--warmup 0s --no-limit";

/// Replaces the numbers and times on the pages by smaller ones. With the numbers of the pages, the measurements take
/// minutes to hours.
fn short(commands: &str) -> String {
    let numbers = [
        ("--entries 1000000", "--entries 300"),
        ("--entries 100000", "--entries 300"),
        ("--entries 1m", "--entries 300"),
        ("--clients 3200", "--clients 4 --entries 300"),
        ("--clients 64", "--clients 2 --duration 100ms"),
        ("--duration 30s", "--duration 100ms"),
        ("--rounds 5", "--rounds 1"),
        ("--rate 100000", "--rate 200 --duration 500ms"),
    ];
    numbers.iter().fold(commands.to_owned(), |text, (long, short)| text.replace(long, short))
}

/// Imports the people of the page, and serves them at the page's addresses.
fn serve_people(host: &Host) {
    // Loopback has the addresses of the load machines.
    host.run("for last in 1 11 12; do ip address add 10.0.0.$last/32 dev lo; done");
    host.run("printf secret > password; pando generate oid --entries 300 -o people.ldif");
    host.run("pando import --data /var/lib/pando --suffix dc=com people.ldif");
    // As the page says, the server takes passwords without TLS from these networks.
    host.write("node.toml", "[tls]\nclear_networks = [\"127.0.0.0/8\", \"10.0.0.0/24\"]\n");
    let serve = "PANDO_ADMIN_PASSWORD=secret pando serve --data /var/lib/pando --node node.toml";
    host.serve(&format!("{serve} --listen ldap://127.0.0.1 --listen ldap://10.0.0.1"));
}

#[test]
pub(crate) fn benchmark() {
    let (scratch, page) = (Scratch::new("docs-benchmark"), Blocks::of("how-to/benchmark.md"));
    let host = Host::new(&scratch, &["directory"]);
    serve_people(&host);
    let block = short(page.block("pando bench run people-search"));
    let [own, other, report] = block.lines().collect::<Vec<_>>()[..] else { panic!("{block}") };
    host.run(&format!("{own} {QUICK}")).expect_output("errors 0  wrong 0");
    host.run(&format!("{other} {QUICK}")).expect_output("oid-search-sequential");
    host.run(report);
    host.run("grep -q '<svg' report.html");

    host.run(&format!("ln -s {} bench", repository().join("bench").display()));
    let suite = page.block("pando bench suite").lines().next().unwrap().to_owned();
    host.run(&suite).expect_output("reads");

    let sweep = short(page.block("pando bench sweep")).trim_end().to_owned();
    let said = host.run_any(&format!("{sweep} --duration 100ms --warmup 0s"));
    // Some machines have no control groups that a test may write.
    assert!(said.code == Some(0) || said.stderr.contains("memory cannot be limited here"), "{said}");

    let block = page.block("openssl rand");
    let [token, agent, run @ ..] = &block.lines().collect::<Vec<_>>()[..] else { panic!("{block}") };
    host.run(token);
    for address in ["10.0.0.11:4390", "10.0.0.12:4390"] {
        let agent = agent.replace("10.0.0.11:4390", address);
        host.run(&format!("{agent} > {address} 2>&1 &\nuntil grep -q 'waits on' {address}; do :; done"));
    }
    host.run(&format!("{} {QUICK}", short(&run.join("\n"))));
    host.run("grep -q oid-search-random result.json");
    all_used(&page, "how-to/benchmark.md");
}

/// Compares only with OpenLDAP. `./dev test-peers` runs the other servers.
#[test]
pub(crate) fn peers() {
    let (scratch, page) = (Scratch::new("docs-peers"), Blocks::of("how-to/peers.md"));
    let host = Host::new(&scratch, &[]);
    host.run("pando bench list people-search > mine.toml");
    let block = short(page.block("./dev peers"));
    let lines: Vec<&str> = block.lines().map(|line| line.split(" # ").next().unwrap()).collect();
    let [_install, all, own, load, _suite] = lines[..] else { panic!("{block}") };
    let few = "--workloads people-search --peers openldap --rounds 1 --duration 100ms";
    for command in [
        format!("{all} {few} {QUICK}"),
        format!("{own} --entries 300 {QUICK}"),
        load.replace("openldap,opendj", "openldap"),
    ] {
        host.run(&command).expect_output("OpenLDAP");
    }
    all_used(&page, "how-to/peers.md");
}
