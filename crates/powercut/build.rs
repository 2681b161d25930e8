//! Compiles the library to preload next to the crate's other output, and passes its path to the crate.

use std::path::PathBuf;
use std::process::exit;

fn main() {
    for file in ["src/interpose.c", "src/faults.c", "src/faults.h"] {
        println!("cargo:rerun-if-changed={file}");
    }
    let Some(out) = std::env::var_os("OUT_DIR") else {
        eprintln!("OUT_DIR is not set: build with cargo");
        exit(1);
    };
    let library = PathBuf::from(out).join("libpowercut.so");
    // `cc` finds the compiler and its flags, but does not link shared libraries.
    let mut command =
        cc::Build::new().pic(true).warnings(true).extra_warnings(true).get_compiler().to_command();
    command.arg("-shared").arg("-o").arg(&library).args(["src/interpose.c", "src/faults.c"]);
    command.args(["-ldl", "-pthread"]);
    match command.status() {
        Ok(status) if status.success() => println!("cargo:rustc-env=POWERCUT_LIBRARY={}", library.display()),
        outcome => {
            eprintln!("{command:?}: {outcome:?}");
            exit(1);
        }
    }
}
