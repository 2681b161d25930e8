//! Rates that load generators report, compared with the server's counts. The generators are `pando bench` and
//! `yardstick`, a second load generator.

use std::process::Command;

use bench::result::RunResult;
use client::Connection;
use test_support::pando::program;
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

/// Maximum number of requests in flight at the end of a window. Even a slow machine completes a hundred times as many.
const IN_FLIGHT_MAX: u64 = 64;

fn plant(connection: &mut Connection) {
    let suffix =
        [("objectClass", "dcObject"), ("objectClass", "organization"), ("dc", "example"), ("o", "Example")];
    assert!(connection.add(SUFFIX, &suffix).unwrap().is_success());
    let people = [("objectClass", "organizationalUnit"), ("ou", "people")];
    assert!(connection.add(&format!("ou=people,{SUFFIX}"), &people).unwrap().is_success());
    for number in 0..10 {
        let uid = format!("user.{number}");
        let person =
            [("objectClass", "inetOrgPerson"), ("uid", &uid), ("cn", "Somebody"), ("sn", "Somebody")];
        assert!(connection.add(&format!("uid={uid},ou=people,{SUFFIX}"), &person).unwrap().is_success());
    }
}

/// Returns the number of searches that the server has completed.
fn searches(connection: &mut Connection) -> u64 {
    let entry =
        connection.entry("cn=search,cn=Operations,cn=monitor", &["monitorOpCompleted"]).unwrap().unwrap();
    entry.text("monitorOpCompleted").unwrap().parse().unwrap()
}

fn yardstick(pando: &Pando, entries: &str, clients: &str, outstanding: &str) -> Result<(u64, u64), String> {
    let address = pando.address().to_string();
    let arguments =
        [&address, ADMIN_DN, ADMIN_PASSWORD, SUFFIX, "uid", "user.", entries, clients, outstanding, "0", "1"];
    let line = yardstick::run(&arguments.map(str::to_owned))?;
    let number = |behind: &str, before: &str| {
        let rest = line.split(behind).nth(1).unwrap();
        rest.split(before).next().unwrap().trim().parse::<u64>().unwrap()
    };
    Ok((number("second,", " right"), number(" s,", " wrong")))
}

#[test]
fn a_second_generator_counts_what_the_server_counts() {
    let scratch = Scratch::new("yardstick");
    let pando = Pando::start(&scratch);
    let mut administrator = pando.administrator();
    plant(&mut administrator);
    for (clients, outstanding) in [("1", "1"), ("4", "16")] {
        let before = searches(&mut administrator);
        let (right, wrong) = yardstick(&pando, "10", clients, outstanding).unwrap();
        let counted = searches(&mut administrator) - before - 1;
        assert_eq!(wrong, 0);
        assert!(right > 0 && right <= counted && counted - right <= IN_FLIGHT_MAX, "{right} of {counted}");
    }
    // Answers without an entry count as wrong.
    let (right, wrong) = yardstick(&pando, "1000000000", "1", "1").unwrap();
    assert!(wrong > right, "{right} {wrong}");
    assert!(pando.stop().success());
}

/// The requests that `pando bench` reports are those that the server counts, except for requests in flight at the end.
#[test]
fn pando_bench_counts_what_the_server_counts() {
    let scratch = Scratch::new("counted");
    let pando = Pando::start(&scratch);
    let mut administrator = pando.administrator();
    plant(&mut administrator);
    let (target, output) = (format!("ldap://{}", pando.address()), scratch.join("result.json"));
    let before = searches(&mut administrator);
    let run = Command::new(program())
        .args(["bench", "run", "people-search", "--target", &target, "--entries", "10", "--clients", "4"])
        .args([
            "--outstanding",
            "16",
            "--duration",
            "1s",
            "--warmup",
            "0",
            "--pause",
            "0",
            "--no-limit",
            "--no-check",
        ])
        .args(["-D", ADMIN_DN, "-w", ADMIN_PASSWORD, "-o"])
        .arg(&output)
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let counted = searches(&mut administrator) - before - 1;
    let said = RunResult::read(&output).unwrap().workloads[0].operations_total();
    // Requests in flight at the end of the window are counted only by the server.
    assert!(said > 0 && said <= counted && counted - said <= IN_FLIGHT_MAX + 64, "{said} of {counted}");
}
