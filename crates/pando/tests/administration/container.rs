//! `packaging/container`: the script that starts a server in a container, here run without a container.

use std::path::Path;

use ldap::ResultCode;
use test_support::clients::{Run, run};
use test_support::pando::{Start, program};
use test_support::{ADMIN_DN, Pando, Scratch};

const START_SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/container/start-server.sh");

/// Runs the script with this settings file and command.
fn start(scratch: &Scratch, settings: &Path, command: &[&str]) -> Run {
    let programs = Path::new(program()).parent().unwrap().display();
    let path = std::env::var("PATH").unwrap();
    let variables = [
        format!("PATH={programs}:{path}"),
        format!("PANDO_SETTINGS={}", settings.display()),
        format!("PANDO_DATA={}", Pando::data(scratch).display()),
        START_SERVER.to_owned(),
    ];
    let words = command.iter().map(|&word| word.to_owned());
    run("env", &variables.into_iter().chain(words).collect::<Vec<_>>(), "")
}

#[test]
fn a_container_finds_its_settings_and_its_data_again() {
    let scratch = Scratch::new("container");
    let settings = scratch.write("settings.toml", "suffixes = [\"dc=example,dc=net\"]\n");
    start(&scratch, &settings, &["echo", "it serves"]).expect_code(0).expect_output("applied\nit serves\n");
    let pando = Start::bare(&scratch, "data").arguments(&["--admin-dn", ADMIN_DN]).ready();
    let added =
        pando.administrator().add("dc=example,dc=net", &[("objectClass", "domain"), ("dc", "example")]);
    assert_eq!(added.unwrap().code, ResultCode::SUCCESS);
    assert!(pando.stop().success());

    let again = start(&scratch, &settings, &["pando", "export"]).expect_code(0).expect_output("no change");
    assert!(again.stdout.contains("dn: dc=example,dc=net"), "{again}");

    // If the settings file is wrong, the server does not start with other settings.
    let settings = scratch.write("settings.toml", "suffix = \"dc=example,dc=net\"\n");
    start(&scratch, &settings, &["echo", "it serves"]).expect_code(2).expect_error("suffix");
}

#[test]
fn a_container_without_settings_gets_its_suffix_from_the_environment() {
    let scratch = Scratch::new("container-suffix");
    let none = scratch.join("settings.toml");
    start(&scratch, &none, &["echo", "it serves"]).expect_code(0).expect_output("it serves\n");
    let pando = Start::bare(&scratch, "data").environment("PANDO_SUFFIX", "dc=example,dc=net").ready();
    let contexts = pando.connect().entry("", &["namingContexts"]).unwrap().unwrap();
    assert_eq!(contexts.texts("namingContexts"), ["dc=example,dc=net"]);
}
