//! `pando import` on the command line: plain and compressed files, exit codes, rejects, and kills at any moment.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use ldap::{ResultCode, Scope};
use test_support::pando::program;
use test_support::{Pando, SUFFIX, Scratch, seed};

fn pando(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(arguments).env_remove("PANDO_ADMIN_PASSWORD").stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = pando(arguments).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap())
}

/// Returns the DNs of all entries in a data directory, which must pass `pando verify`.
fn names(data: &str) -> Vec<String> {
    let (code, said) = run(&["verify", "--data", data]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = run(&["export", "--data", data]);
    assert_eq!(code, Some(0), "{said}");
    said.lines().filter_map(|line| line.strip_prefix("dn: ")).map(str::to_owned).collect()
}

fn tree(mark: &str, count: usize) -> String {
    let mut text = format!("version: 1\n\ndn: {SUFFIX}\nobjectClass: domain\ndescription: {mark}\n\n");
    for number in 0..count {
        let dn = format!("cn={mark}{number},{SUFFIX}");
        text.push_str(&format!(
            "dn: {dn}\nobjectClass: groupOfNames\nmember: cn={mark}{},{SUFFIX}\n\n",
            count - 1 - number
        ));
    }
    text
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn packed_files_and_standard_input_are_read() {
    let scratch = Scratch::new("import-packed");
    let plain = tree("a", 300);
    let (first, second) = plain.split_at(plain.find("dn: cn=a150,").unwrap());
    let head = scratch.write("head.ldif.zst", zstd::encode_all(first.as_bytes(), 0).unwrap());
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(second.as_bytes()).unwrap();
    let tail = scratch.write("tail.ldif.gz", packer.finish().unwrap());
    let data = scratch.join("data");
    let (code, said) = run(&["import", "--data", text(&data), text(&tail), text(&head)]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("imported 301 entries of 301 records"), "{said}");
    assert_eq!(names(text(&data)).len(), 301);

    let mut child = pando(&["import", "--data", text(&data), "--replace", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(tree("b", 20).as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(names(text(&data)).iter().all(|dn| dn == SUFFIX || dn.starts_with("cn=b")));
}

#[test]
fn rejected_entries_can_be_repaired_and_imported() {
    let scratch = Scratch::new("import-rejects");
    let data = scratch.join("data");
    let bad = format!("dn: cn=x,{SUFFIX}\nobjectClass: gruopOfNames\nmember: {SUFFIX}\n\nnonsense\n\n");
    let orphan = format!("dn: cn=y,ou=later,{SUFFIX}\r\nobjectClass: groupOfNames\r\nmember: {SUFFIX}\r\n");
    let file = scratch.write("all.ldif", tree("a", 3) + &bad + &orphan);
    let rejects = scratch.join("rejects.ldif");
    let arguments = ["import", "--data", text(&data), "--rejects", text(&rejects), text(&file)];
    let (code, said) = run(&arguments);
    assert_eq!(code, Some(6), "{said}");
    assert!(said.contains("rejects.ldif") && said.contains("imported 4 entries of 7 records"), "{said}");
    let left = fs::read_to_string(&rejects).unwrap();
    assert!(left.contains("line 19: objectClass: value 1 (\"gruopOfNames\")"), "{left}");
    assert!(left.contains("line 23: ':' expected\n# nonsense\n"), "{left}");

    let (code, said) = run(&arguments);
    assert_eq!(code, Some(2), "it would be overwritten: {said}");
    let repaired =
        left.replace("gruop", "group") + &format!("dn: ou=later,{SUFFIX}\nobjectClass: organizationalUnit\n");
    let repaired = scratch.write("repaired.ldif", repaired);
    let (code, said) = run(&["import", "--data", text(&data), "--replace", text(&file), text(&repaired)]);
    assert_eq!(code, Some(6), "the first file still has them: {said}");
    let names = names(text(&data));
    assert!(names.contains(&format!("cn=x,{SUFFIX}")) && names.contains(&format!("cn=y,ou=later,{SUFFIX}")));
    assert!(data.join("rejects-1.ldif").exists(), "{said}");
}

/// The rejects of the first import are corrected and then added to the loaded entries, and keep their entryUUIDs.
#[test]
fn repaired_rejects_are_added_to_the_loaded_entries() {
    let scratch = Scratch::new("import-add");
    let (data, rejects) = (scratch.join("data"), scratch.join("rejects.ldif"));
    let uuid = "5aa38b5e-43f4-4aeb-bc2d-2f4b0c9f2a11";
    let ldif = tree("a", 20)
        + &format!("dn: cn=all,{SUFFIX}\nobjectClass: groupOfNames\nmember: cn=x,{SUFFIX}\n\n")
        + &format!(
            "dn: cn=x,{SUFFIX}\nobjectClass: gruopOfNames\nentryUUID: {uuid}\nmember: {SUFFIX}\nshoeSize: 3\n\n"
        );
    let file = scratch.write("all.ldif", ldif);
    let (code, said) = run(&["import", "--data", text(&data), "--rejects", text(&rejects), text(&file)]);
    assert!(code == Some(6) && said.contains("1 links to entries that are not there"), "{said}");
    let left = fs::read_to_string(&rejects).unwrap();
    assert!(left.contains("gruopOfNames") && left.contains("shoeSize"), "both reasons: {left}");
    let (code, said) = run(&["import", "--data", text(&data), text(&rejects)]);
    assert!(code == Some(2) && said.contains("--add"), "{said}");
    let mended = scratch.write("mended.ldif", left.replace("gruop", "group").replace("shoeSize: 3\n", ""));
    let (code, said) = run(&["import", "--data", text(&data), "--add", text(&mended)]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("imported 1 entries of 1 records") && said.contains("22 entries kept"), "{said}");
    assert_eq!(names(text(&data)).len(), 23);
    // An entry that exists already is rejected, and nothing is lost.
    let (code, said) = run(&["import", "--data", text(&data), "--add", text(&mended)]);
    assert!(code == Some(2) && said.contains("an earlier entry has the same name"), "{said}");
    let server = Pando::start(&scratch);
    let mut admin = server.administrator();
    let added = admin.entry(&format!("cn=x,{SUFFIX}"), &["entryUUID", "memberOf"]).unwrap().unwrap();
    assert_eq!(added.text("entryUUID").as_deref(), Some(uuid));
    assert_eq!(added.texts("memberOf"), [format!("cn=all,{SUFFIX}")], "the text has become a link");
    assert!(server.stop().success());
}

#[test]
fn texts_in_latin_1_and_values_in_files_load() {
    let scratch = Scratch::new("import-texts");
    let data = scratch.join("data");
    let values = scratch.join("values");
    fs::create_dir(&values).unwrap();
    fs::write(values.join("photo.jpg"), b"\xff\xd8\xff picture").unwrap();
    let mut ldif =
        format!("dn: {SUFFIX}\nobjectClass: domain\n\ndn: cn=j,{SUFFIX}\nobjectClass: inetOrgPerson\nsn: J")
            .into_bytes();
    ldif.extend_from_slice(b"\xfcrgen\njpegPhoto:< file:photo.jpg\n\n");
    ldif.extend_from_slice(
        format!("dn: cn=k,{SUFFIX}\nobjectClass: inetOrgPerson\nsn: K\njpegPhoto:< file:../outside\n")
            .as_bytes(),
    );
    let file = scratch.write("all.ldif", ldif);
    let below = ["--values-below", text(&values)];
    let arguments =
        ["import", "--data", text(&data), "--encoding", "latin1", below[0], below[1], text(&file)];
    let (code, said) = run(&arguments);
    assert_eq!(code, Some(6), "{said}");
    assert!(
        said.contains("imported 2 entries of 3 records") && said.contains("line 12: file:../outside"),
        "{said}"
    );
    let (_, said) = run(&["export", "--data", text(&data)]);
    assert!(said.contains("sn:: SsO8cmdlbg==") && said.contains("jpegPhoto:: /9j/IHBpY3R1cmU="), "{said}");
}

#[test]
fn an_import_into_a_served_or_filled_directory_is_refused() {
    let scratch = Scratch::new("import-refused");
    let data = scratch.join("data");
    let file = scratch.write("a.ldif", tree("a", 5));
    let server = Pando::start(&scratch);
    let (code, said) = run(&["import", "--data", text(&data), text(&file)]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains(&server.id().to_string()), "it says which process has it: {said}");
    assert!(server.stop().success());

    let (code, said) = run(&["import", "--data", text(&data), text(&file)]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = run(&["import", "--data", text(&data), text(&file)]);
    assert!(code == Some(2) && said.contains("--replace"), "{said}");
    let (code, said) = run(&["import", "--data", text(&data), "--replace", "/nowhere.ldif"]);
    assert!(code == Some(2) && said.contains("/nowhere.ldif"), "{said}");

    let empty = scratch.write("empty.ldif", "version: 1\n\n");
    let (code, said) = run(&["import", "--data", text(&data), "--replace", text(&empty)]);
    assert!(code == Some(2) && said.contains("there is no record"), "{said}");
    let other = scratch.write("other.ldif", "dn: o=other\nobjectClass: organization\n");
    let (code, said) = run(&["import", "--data", text(&data), "--replace", text(&other)]);
    assert!(code == Some(2) && said.contains("--suffix") && said.contains("rejects-1.ldif"), "{said}");

    let server = Pando::start(&scratch);
    let mut admin = server.administrator();
    let found = admin.search(SUFFIX, Scope::SingleLevel, "(memberOf=*)", &["memberOf"]).unwrap();
    assert_eq!(found.entries.len(), 5);
    assert!(server.stop().success());
}

#[test]
fn a_killed_import_has_changed_nothing_or_everything() {
    const OLD: usize = 40;
    const NEW: usize = 4_000;
    let scratch = Scratch::new("import-kill");
    let mut random = fastrand::Rng::with_seed(seed());
    let data = scratch.join("data");
    let old = scratch.write("old.ldif", tree("old", OLD));
    let new = tree("new", NEW);
    let (code, said) = run(&["import", "--data", text(&data), text(&old)]);
    assert_eq!(code, Some(0), "{said}");
    let (mut kept, mut replaced) = (0, 0);
    for round in 0..12 {
        let mut child = pando(&["import", "--data", text(&data), "--replace", "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Half of the rounds end while the text is read, and the others at some later point.
        let mut input = child.stdin.take().unwrap();
        let length = if round % 2 == 0 { random.usize(..new.len()) } else { new.len() };
        input.write_all(&new.as_bytes()[..length]).unwrap();
        if length == new.len() {
            drop(input);
            let looks = random.u32(..60_000);
            for _ in 0..looks {
                if child.try_wait().unwrap().is_some() {
                    break;
                }
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let names = names(text(&data));
        let is_new = names.iter().any(|dn| dn.starts_with("cn=new"));
        assert_eq!(names.len(), if is_new { NEW + 1 } else { OLD + 1 }, "round {round}");
        assert!(!is_new || !names.iter().any(|dn| dn.starts_with("cn=old")), "round {round}: a mix");
        if is_new {
            replaced += 1;
            let (code, said) = run(&["import", "--data", text(&data), "--replace", text(&old)]);
            assert_eq!(code, Some(0), "{said}");
        } else {
            kept += 1;
        }
    }
    println!("{kept} times the old data, {replaced} times the new");
    let mut left: Vec<_> = fs::read_dir(&data).unwrap().map(|file| file.unwrap().file_name()).collect();
    left.sort();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("import")), "{left:?}");
}

#[test]
fn an_import_without_space_for_its_rejects_can_be_repeated() {
    let scratch = Scratch::new("import-rejects-full");
    let mut ldif = format!("dn: {SUFFIX}\nobjectClass: domain\n\n");
    for number in 0..3_000 {
        ldif += &format!("dn: cn=bad{number},{SUFFIX}\nobjectClass: device\nshoeSize: {number}\n\n");
    }
    let file = scratch.write("bad.ldif", ldif);
    let data = scratch.path().canonicalize().unwrap().join("data");
    let (rejects, room) = (data.join("rejects.ldif"), scratch.join("room"));
    let arguments = ["import", "--data", text(&data), "--rejects", text(&rejects), text(&file)];
    for bytes in [70_000, 200_000, 400_000] {
        fs::write(&room, bytes.to_string()).unwrap();
        fs::create_dir_all(&data).unwrap();
        let mut command = pando(&arguments);
        powercut::PowerCut::new(&data, &scratch.join("journal")).room(&room).apply(&mut command);
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{bytes}: {said}");
        assert!(said.contains(text(&data)) && !said.contains("cannot start"), "{bytes}: {said}");
        assert!(said.contains("No space left") || said.contains("is full"), "{bytes}: {said}");
        assert!(!rejects.exists(), "{bytes}: {said}");
        let (code, said) = run(&arguments);
        assert_eq!(code, Some(6), "{bytes}: {said}");
        assert!(rejects.exists() && said.contains("imported 1 entries of 3001 records"), "{said}");
        fs::remove_dir_all(&data).unwrap();
    }
}

/// Regression test: accounts whose passwords the server cannot verify could not bind, and no message reported it.
#[test]
fn passwords_that_cannot_be_verified_are_counted_by_form() {
    let scratch = Scratch::new("import-hashes");
    let mut ldif = format!("dn: {SUFFIX}\nobjectClass: domain\n\n");
    let values = [
        "{AES}AAAA",
        "{crypt}$7$salt$x",
        "{PBKDF2}10:x",
        "{SSHA}x",
        "{CRYPT}$6$rounds=99999999$salt$x",
        // Hashes of "Sesame-7" in the forms of OpenLDAP, 389 DS and OpenDJ.
        "{CRYPT}abuNfKiTDWHdA",
        "{crypt}$1$saltsalt$4DISc72CpJcFEGDm5BCn1.",
        "{PBKDF2-HMAC-SHA256}10000:A1c6/Yu7rnV/OkssKQCZ7EX6pxxOKsjve71dMEq2kc38tfr823JdHsuGBtVcXxLT",
        "{PBKDF2}10000:9gVK7j0Da3JU8PIuRez7srQuPx78tfr823JdHsuGBtVcXxLT",
    ];
    for (number, value) in values.iter().enumerate() {
        ldif += &format!("dn: cn={number},{SUFFIX}\nobjectClass: person\nsn: x\nuserPassword: {value}\n\n");
    }
    ldif += &format!(
        "dn: uid=s,{SUFFIX}\nobjectClass: account\nobjectClass: sambaSamAccount\nsambaSID: S-1-5-21-1\n\
         sambaNTPassword: 0CB6948805F797BF2A82807973B89537\n"
    );
    let settings = format!("suffixes = [\"{SUFFIX}\"]\nschema_files = [\"samba\"]\n");
    let settings = scratch.write("settings.toml", settings);
    let (file, data) = (scratch.write("hashes.ldif", ldif), scratch.join("data"));
    let (code, said) = run(&["import", "--settings", text(&settings), "--data", text(&data), text(&file)]);
    assert_eq!(code, Some(0), "{said}");
    let forms = [
        "{AES}",
        "{CRYPT} $7$",
        "{PBKDF2} (damaged)",
        "{SSHA} (damaged)",
        "{CRYPT} (beyond the limit of its cost)",
    ];
    for form in forms {
        assert!(said.contains(&format!("1 passwords of the form {form}, which")), "{said}");
    }
    assert_eq!(said.matches("passwords of the form").count(), forms.len(), "{said}");
    assert!(said.contains("1 values of sambaNTPassword kept, which no bind uses"), "{said}");

    let server = Pando::start(&scratch);
    for (number, value) in values.iter().enumerate() {
        let expected =
            if number < forms.len() { ResultCode::INVALID_CREDENTIALS } else { ResultCode::SUCCESS };
        let outcome = server.connect().bind(&format!("cn={number},{SUFFIX}"), "Sesame-7").unwrap();
        assert_eq!(outcome.code, expected, "{value}");
    }
    let report = ["account", "report", "--data", text(&data)];
    let (code, said) = run(&report);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches("cannot be verified").count(), forms.len(), "{said}");
    assert!(said.contains("PBKDF2-HMAC-SHA256") && said.contains("{AES}"), "{said}");
    assert!(server.stop().success());
}

#[test]
fn groups_without_members_load_by_a_setting() {
    let scratch = Scratch::new("import-empty-groups");
    let group = format!("dn: cn=x,{SUFFIX}\nobjectClass: groupOfNames\ncn: x\n\n");
    let file = scratch.write("groups.ldif", format!("dn: {SUFFIX}\nobjectClass: domain\n\n{group}"));
    let settings = format!("suffixes = [\"{SUFFIX}\"]\nschema_files = [\"empty-groups\"]\n");
    let settings = scratch.write("settings.toml", settings);
    let (plain, relaxed) = (scratch.join("plain"), scratch.join("relaxed"));
    let (code, said) = run(&["import", "--data", text(&plain), text(&file)]);
    assert!(code == Some(6) && said.contains("imported 1 entries of 2 records"), "{said}");
    let (code, said) = run(&["import", "--settings", text(&settings), "--data", text(&relaxed), text(&file)]);
    assert!(code == Some(0) && said.contains("1 groups without members"), "{said}");
    assert_eq!(names(text(&relaxed)).len(), 2);
}
