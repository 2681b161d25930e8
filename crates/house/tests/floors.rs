//! Runs `house floors` on small checkouts, each with one offence or none.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Runs the check on a checkout of one crate `tower` with these files. Returns its exit code and output.
fn check(name: &str, floors: &str, files: &[(&str, &str)]) -> (Option<i32>, String) {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("floors").join(name);
    let _ = fs::remove_dir_all(&root);
    let house = root.join("crates/house");
    fs::create_dir_all(&house).expect("a folder");
    fs::write(house.join("floors.toml"), format!("[tower]\nfloors = [{floors}]\n")).expect("a file");
    for (file, text) in files {
        let file = root.join("crates/tower/src").join(file);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, text).expect("a file");
    }
    let output =
        Command::new(env!("CARGO_BIN_EXE_house")).arg("floors").arg(&root).output().expect("house runs");
    (output.status.code(), String::from_utf8(output.stdout).expect("text"))
}

const LIB: (&str, &str) = ("lib.rs", "mod cellar;\nmod attic;\npub use cellar::Wine;\n");

#[test]
fn uses_of_lower_floors_are_allowed() {
    let attic = ("attic.rs", "use crate::Wine;\nfn pour(_: Wine) {}\n");
    let (code, text) =
        check("down", r#""cellar", "attic""#, &[LIB, ("cellar.rs", "pub struct Wine;"), attic]);
    assert_eq!((code, text.as_str()), (Some(0), ""));
}

#[test]
fn a_use_of_a_higher_floor_is_reported_with_its_line() {
    let cellar = ("cellar.rs", "pub struct Wine;\n\nfn look() { crate::attic::count(); }\n");
    let (code, text) = check("up", r#""cellar", "attic""#, &[LIB, cellar, ("attic.rs", "pub fn count() {}")]);
    assert_eq!(code, Some(1));
    assert!(text.contains("crates/tower/src/cellar.rs:3 uses crate::attic::count"), "{text}");
}

#[test]
fn a_reexport_at_the_root_hides_no_use() {
    let attic = ("attic.rs", "pub struct Wine;\n");
    let lib = ("lib.rs", "mod cellar;\nmod attic;\npub use attic::Wine;\n");
    let (code, text) =
        check("reexport", r#""cellar", "attic""#, &[lib, ("cellar.rs", "use crate::Wine;\n"), attic]);
    assert_eq!(code, Some(1));
    assert!(text.contains("cellar uses attic, which stands above it"), "{text}");
}

#[test]
fn a_macro_hides_no_use() {
    let cellar =
        ("cellar.rs", "pub struct Wine;\nfn f(x: u8) -> bool { matches!(x, crate::attic::COUNT) }\n");
    let (code, text) =
        check("macro", r#""cellar", "attic""#, &[LIB, cellar, ("attic.rs", "pub const COUNT: u8 = 1;")]);
    assert_eq!(code, Some(1));
    assert!(text.contains("crates/tower/src/cellar.rs:2"), "{text}");
}

#[test]
fn cycles_of_siblings_are_reported_but_not_a_file_with_its_child() {
    let cellar = ("cellar.rs", "mod barrel;\nmod shelf;\npub struct Wine;\n");
    let barrel = ("cellar/barrel.rs", "use super::shelf::Shelf;\nuse super::Wine;\npub struct Barrel;\n");
    let lonely_shelf = ("cellar/shelf.rs", "pub struct Shelf;\n");
    let attic = ("attic.rs", "");
    let (code, text) = check("child", r#""cellar", "attic""#, &[LIB, cellar, barrel, lonely_shelf, attic]);
    assert_eq!((code, text.as_str()), (Some(0), ""));

    let shelf = ("cellar/shelf.rs", "use crate::cellar::barrel::Barrel;\npub struct Shelf;\n");
    let (code, text) = check("circle", r#""cellar", "attic""#, &[LIB, cellar, barrel, shelf, attic]);
    assert_eq!(code, Some(1));
    assert!(text.contains("tower::cellar: these use each other in a circle: barrel, shelf"), "{text}");
}

#[test]
fn uses_by_tests_do_not_count() {
    let cellar = ("cellar.rs", "pub struct Wine;\n#[cfg(test)]\nmod tests {\n    use crate::attic;\n}\n");
    let (code, text) = check("tests", r#""cellar", "attic""#, &[LIB, cellar, ("attic.rs", "")]);
    assert_eq!((code, text.as_str()), (Some(0), ""));
}

#[test]
fn a_module_without_a_floor_is_reported() {
    let (code, text) =
        check("homeless", r#""cellar""#, &[LIB, ("cellar.rs", "pub struct Wine;"), ("attic.rs", "")]);
    assert_eq!(code, Some(1));
    assert!(text.contains("the module attic has no floor"), "{text}");
}
