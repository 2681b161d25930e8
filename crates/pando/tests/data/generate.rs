//! `pando generate` on the command line: its output, its errors, and a pipe to an import.

use std::process::{Command, Output, Stdio};

fn pando() -> Command {
    let mut command = Command::new(test_support::pando::program());
    command.env_remove("PANDO_DATA").env_remove("PANDO_NODE");
    command
}

fn generate(arguments: &str) -> Output {
    pando().arg("generate").args(arguments.split(' ')).output().unwrap()
}

#[test]
fn the_text_depends_on_the_seed_and_not_on_threads() {
    let text = |arguments: &str| {
        let output = generate(arguments);
        assert!(output.status.success(), "{arguments}: {output:?}");
        output.stdout
    };
    let once = text("directorymark --entries 1000 --threads 1");
    assert!(once.starts_with(b"dn: c=GB\n"));
    assert_eq!(once, text("directorymark --entries 1000 --threads 3"));
    assert_ne!(once, text("directorymark --entries 1000 --seed 2"));
    assert!(text("--list").starts_with(b"oid "));
    assert!(text("oid --print").starts_with(b"# Oracle"));
    assert!(text("edirectory --print-schema").ends_with(b")\n"));
}

#[test]
fn impossible_data_is_refused_with_a_reason() {
    for (arguments, part) in [
        ("no-such-template", "no-such-template: cannot read"),
        ("directorymark --entries 15", "directorymark:17: 15 entries"),
        ("oid --constant colour=red", "no constant colour"),
        ("oid --constant red", "NAME=VALUE"),
        ("oid --print-schema", "no schema"),
        ("missing --print", "--list"),
    ] {
        let output = generate(arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments}: {message}");
        assert!(message.contains(part) && output.stdout.is_empty(), "{arguments}: {message}");
    }
}

#[test]
fn an_import_reads_generated_data_from_a_pipe() {
    let data =
        std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("generate-{}", std::process::id()));
    let mut making = pando()
        .args(["generate", "oid", "--entries", "500"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let import = pando()
        .args(["import", "--suffix", "dc=com", "--keep-clear-passwords", "--data"])
        .arg(&data)
        .arg("-")
        .stdin(making.stdout.take().unwrap())
        .output()
        .unwrap();
    assert!(making.wait().unwrap().success());
    let message = String::from_utf8(import.stderr).unwrap();
    assert!(import.status.success() && message.contains("imported 553 entries of 553 records"), "{message}");
    std::fs::remove_dir_all(&data).unwrap();
}
