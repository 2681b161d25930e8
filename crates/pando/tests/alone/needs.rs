//! Installation of Rust by `./dev` (`tools/needs.sh`) on different machines. Each machine is a folder with stand-ins
//! for apt, curl and rustup. The PATH contains only the stand-ins, and the tools that every Debian has.
//!
//! Each test runs alone: it writes programs and then runs them. This fails (ETXTBSY) if a process of another test still
//! has a program open for writing.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use test_support::Scratch;

/// Tools that every machine has.
const TOOLS: [&str; 9] = ["awk", "cp", "env", "grep", "head", "mkdir", "sed", "sh", "sort"];

/// Stand-ins for programs. Each records its arguments.
const STAND_INS: [(&str, &str); 9] = [
    ("id", "echo 1000"),
    ("sudo", r#"exec "$@""#),
    (
        "apt-get",
        r#"[[ $* = *" install "* ]] || exit 0
           echo "apt ${@: -1}" >>"$SAID"
           case $* in
           *--no-remove*rustup) [ "$DEBIANS_RUSTUP" = fits ] && cp "$STAND_INS"/{rustup,rustc,cargo} "$BIN" ;;
           *curl) cp "$STAND_INS/curl" "$BIN" ;;
           esac"#,
    ),
    (
        "apt-cache",
        r#"if [ "$DEBIANS_RUSTUP" = none ]; then echo ' Candidate: (none)'; else echo ' Candidate: 1'; fi"#,
    ),
    (
        "curl",
        r#"echo "curl ${@: -1}" >>"$SAID"
           [ "$INTERNET" = yes ] || exit 6
           echo 'mkdir -p $HOME/.cargo/bin'
           echo 'for it in rustup rustc cargo; do cp $STAND_INS/$it $HOME/.cargo/bin; done'"#,
    ),
    ("rustup", r#"echo "rustup $1 $2" >>"$SAID"; if [ "$1" = toolchain ]; then : >"$HOME/toolchain"; fi"#),
    ("rustc", r#"if [ -e "$HOME/toolchain" ]; then echo 'rustc 999.0.0 (new)'; else exit 1; fi"#),
    ("cargo", "exit 1"),
    ("old", "echo 'rustc 1.63.0 (old)'"),
];

/// Description of a machine.
struct Machine {
    is_root: bool,
    has: &'static [&'static str],
    /// Whether rustup has installed Rust in the home folder. The folder of these programs is not in the PATH.
    has_rust_at_home: bool,
    /// Whether the certificates for TLS are installed.
    has_certificates: bool,
    /// State of Debian's rustup package: `fits`, `none`, or any other word if apt reports a conflict with installed
    /// packages.
    debians_rustup: &'static str,
    internet: &'static str,
}

const BARE: Machine = Machine {
    is_root: true,
    has: &["apt-get", "apt-cache"],
    has_rust_at_home: false,
    has_certificates: false,
    debians_rustup: "none",
    internet: "yes",
};
/// A typical development machine.
const USUAL: Machine = Machine { has: &["apt-get", "apt-cache", "curl"], has_certificates: true, ..BARE };
const OLD: &[&str] = &["apt-get", "apt-cache", "curl", "old"];

/// Installs Rust on a machine. Returns the calls of the stand-ins, followed by the cargo that is used, or by the last
/// line of the error.
fn install(machine: &Machine) -> Vec<String> {
    let scratch = Scratch::new("needs");
    let at = |name: &str| scratch.join(name);
    for name in ["bin", "home", "stand-ins"] {
        fs::create_dir(at(name)).unwrap();
    }
    for tool in TOOLS {
        let found = ["/usr/bin", "/bin"].iter().map(|folder| Path::new(folder).join(tool));
        symlink(found.into_iter().find(|path| path.exists()).unwrap(), at("bin").join(tool)).unwrap();
    }
    for (name, script) in STAND_INS {
        let file = at("stand-ins").join(name);
        let script = if name == "id" && machine.is_root { "echo 0" } else { script };
        fs::write(&file, format!("#!/bin/bash\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let place = |name: &str, folder: &Path, called: &str| {
        fs::create_dir_all(folder).unwrap();
        fs::copy(at("stand-ins").join(name), folder.join(called)).unwrap();
    };
    place("id", &at("bin"), "id");
    for name in machine.has {
        match *name {
            "old" => ["rustc", "cargo"].iter().for_each(|called| place("old", &at("bin"), called)),
            name => place(name, &at("bin"), name),
        }
    }
    if machine.has_rust_at_home {
        for name in ["rustup", "rustc", "cargo"] {
            place(name, &at("home/.cargo/bin"), name);
        }
        fs::write(at("home/toolchain"), "").unwrap();
    }
    fs::write(at("said"), "").unwrap();
    let script = r#"set -euo pipefail; source tools/needs.sh; need_rust; echo "uses $(command -v cargo)""#;
    let output = Command::new("/bin/bash")
        .args(["-c", script])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .env_clear()
        .env("PATH", at("bin"))
        .env("BIN", at("bin"))
        .env("HOME", at("home"))
        .env("STAND_INS", at("stand-ins"))
        .env("SAID", at("said"))
        .env("SSL_CERT_FILE", at(if machine.has_certificates { "said" } else { "nothing" }))
        .env("DEBIANS_RUSTUP", machine.debians_rustup)
        .env("INTERNET", machine.internet)
        .output()
        .unwrap();
    let said = fs::read_to_string(at("said")).unwrap();
    let mut said: Vec<String> = said.lines().map(str::to_owned).collect();
    let last = if output.status.success() { output.stdout } else { output.stderr };
    let last = String::from_utf8(last).unwrap();
    said.push(last.trim().lines().last().unwrap().replace(scratch.path().to_str().unwrap(), ""));
    said
}

#[test]
fn the_script_installs_rust_on_every_supported_machine() {
    let _alone = crate::alone();
    const FROM_DEBIAN: [&str; 4] =
        ["apt rustup", "rustup toolchain install", "rustup default stable", "uses /bin/cargo"];
    const FROM_RUST: [&str; 4] = [
        "curl https://sh.rustup.rs",
        "rustup toolchain install",
        "rustup default stable",
        "uses /home/.cargo/bin/cargo",
    ];
    let check = |about: &str, machine: Machine, expected: &[&str]| {
        assert_eq!(install(&machine), expected, "{about}");
    };
    let from_rust_after = |first: &[&'static str]| [first, &FROM_RUST].concat();
    check("bare Debian 12", BARE, &from_rust_after(&["apt ca-certificates", "apt curl"]));
    check("Debian 12", USUAL, &FROM_RUST);
    check("Debian 12 with Debian's Rust", Machine { has: OLD, ..USUAL }, &FROM_RUST);
    let at_home = Machine { has: OLD, has_rust_at_home: true, ..USUAL };
    check("the same, after ./dev installed one", at_home, &["uses /home/.cargo/bin/cargo"]);
    check("a user who cannot become root", Machine { is_root: false, ..USUAL }, &FROM_RUST);
    let sudo = Machine { is_root: false, has: &["apt-get", "apt-cache", "sudo"], ..USUAL };
    check("a user who can", sudo, &from_rust_after(&["apt curl"]));
    check("Debian 13", Machine { debians_rustup: "fits", ..USUAL }, &FROM_DEBIAN);
    let user = Machine { is_root: false, debians_rustup: "fits", ..USUAL };
    check("Debian 13, a user who cannot become root", user, &FROM_RUST);
    let in_the_way = Machine { has: OLD, debians_rustup: "not with cargo", ..USUAL };
    check("Debian 13 with Debian's Rust", in_the_way, &from_rust_after(&["apt rustup"]));
    check("no Debian", Machine { has: &["curl"], ..BARE }, &FROM_RUST);
}

#[test]
fn the_script_reports_programs_that_it_cannot_install() {
    let _alone = crate::alone();
    let check = |machine: Machine, expected: &[&str]| assert_eq!(install(&machine), expected);
    let by_hand =
        concat!("dev: that did not work: install Rust ", env!("CARGO_PKG_RUST_VERSION"), " or newer by hand");
    check(Machine { internet: "no", ..USUAL }, &["curl https://sh.rustup.rs", by_hand]);
    let message =
        "dev: there is neither root nor sudo here; ask an administrator to install: ca-certificates";
    check(Machine { is_root: false, ..BARE }, &[message]);
    check(Machine { has: &[], ..BARE }, &["dev: install these by hand, this is no Debian: curl"]);
}
