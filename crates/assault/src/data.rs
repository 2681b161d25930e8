//! The attacked directory: the sample organization. If an attack needs many candidates, one flat unit with many people
//! is added.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use test_support::pando::{Pando, Start, command};
use test_support::{SUFFIX, Scratch};

/// A user of the sample who is not an administrator.
pub(crate) const PERSON: &str = "uid=ahuber,ou=people,dc=example,dc=com";

/// The password of every user of the sample.
pub(crate) const PERSON_PASSWORD: &str = "password";

/// The organizational unit with many entries.
pub(crate) const MANY: &str = "ou=many,dc=example,dc=com";

/// Returns a folder with the sample organization in `data`, which no server has opened.
pub(crate) fn sample(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    assert!(Start::new(&scratch).arguments(&["--sample"]).ready().stop().success());
    scratch
}

/// Does the same as [`sample`], with additional entries in one unit.
pub(crate) fn sample_and_many(name: &str, count: usize) -> Scratch {
    let scratch = sample(name);
    let data = Pando::data(&scratch);
    let file = scratch.join("all.ldif");
    let file_name = file.to_str().unwrap();
    command(&["export", "--operational", "-o", file_name], Some(&data)).expect_code(0);
    let mut text = fs::read_to_string(&file).unwrap();
    write!(text, "\ndn: {MANY}\nobjectClass: organizationalUnit\n\n").unwrap();
    for number in 0..count {
        write!(
            text,
            "dn: cn=m{number},{MANY}\nobjectClass: device\ndescription: one of many, number {number}\n\n"
        )
        .unwrap();
    }
    fs::write(&file, text).unwrap();
    fs::remove_dir_all(&data).unwrap();
    command(&["import", "--suffix", SUFFIX, file_name], Some(&data)).expect_code(0);
    scratch
}

/// Copies the regular files of a folder into a new one.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}
