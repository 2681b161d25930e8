//! `pando version`: the version of the program, of its data formats, and its features.

use std::env::consts::{ARCH, OS};
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::print;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const FEATURES: &[&str] = if cfg!(feature = "kafka") { &["kafka"] } else { &[] };
/// Whether the program is linked statically. Such a program cannot load shared libraries, such as the Kerberos library.
const IS_STATIC: bool = cfg!(target_feature = "crt-static");
const BUILD: &str = if cfg!(debug_assertions) { "debug" } else { "release" };

/// Returns the versions as JSON.
pub(crate) fn json() -> Value {
    let formats = directory::data_formats();
    let formats = formats
        .map(|(name, written, oldest)| json!({ "name": name, "written": written, "oldest_read": oldest }));
    let build = json!({ "profile": BUILD, "os": OS, "architecture": ARCH, "static": IS_STATIC });
    json!({ "version": VERSION, "formats": formats, "features": FEATURES, "build": build })
}

/// Prints the versions.
pub(crate) fn run() -> ExitCode {
    let (version, features, build) = (VERSION, FEATURES, BUILD);
    let formats = directory::data_formats();
    if print::form().is_json {
        println!("{}", json());
        return ExitCode::SUCCESS;
    }
    println!("pando {version}");
    for (name, written, oldest) in formats {
        let older = if oldest < written { format!(", reads from {oldest} on") } else { String::new() };
        println!("{name}: version {written}{older}");
    }
    println!("features: {}", if features.is_empty() { "none".to_owned() } else { features.join(", ") });
    println!("build: {build}, {OS}, {ARCH}{}", if IS_STATIC { ", static" } else { "" });
    ExitCode::SUCCESS
}
