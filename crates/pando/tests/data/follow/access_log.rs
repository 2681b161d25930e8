//! Copies of Debian's slapd without the overlay syncprov, from the log of its overlay accesslog.

use super::*;

/// Starts slapd with an access log in this folder. slapd lists content synchronization as supported, because the module
/// is loaded. It refuses such searches, because the database does not have the overlay.
fn source(folder: &Scratch) -> (Slapd, std::path::PathBuf) {
    let log = folder.join("log");
    std::fs::create_dir(&log).unwrap();
    let global = format!(
        "moduleload accesslog\nmoduleload syncprov\n\
         database mdb\nsuffix cn=accesslog\nrootdn {ADMIN_DN}\ndirectory {}\n\
         index entryCSN,objectClass,reqResult eq\n",
        log.display()
    );
    let rules =
        "access to * by * write\noverlay accesslog\nlogdb cn=accesslog\nlogops writes\nlogsuccess TRUE\n";
    let rules = Some(rules.to_owned());
    let amendments = Amendments { global, rules, ..Amendments::default() };
    (Slapd::amended(folder, &["entryUUID"], amendments), log)
}

fn administrator(slapd: &Slapd) -> Connection {
    let mut theirs = Connection::open(slapd.address()).unwrap();
    assert!(theirs.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
    theirs
}

#[test]
fn a_copy_follows_the_access_log_of_slapd() {
    let (scratch, folder) = (Scratch::new("follow-accesslog"), Scratch::new("follow-accesslog-source"));
    let (mut slapd, log) = source(&folder);
    plant_more(&mut administrator(&slapd));
    // slapd stores passwords in clear, and its suffix entry names the log.
    let own = ["userPassword", "auditContext"];
    let mut copy = follower(&scratch, slapd.address());
    assert!(copy.log().contains("the first copy is made"), "{}", copy.log());
    assert!(copy.log().contains("auditContext 1"), "{}", copy.log());
    assert!(!copy.log().contains("were not copied"), "{}", copy.log());
    wait_until_equal(&scratch, slapd.address(), &copy, &own);
    let mut changes = source_changes(administrator(&slapd), false);
    for round in 0..rounds(2) {
        (0..20).for_each(|_| changes.make());
        copy.kill();
        (0..40).for_each(|_| changes.make());
        copy = follower(&scratch, slapd.address());
        (0..20).for_each(|_| changes.make());
        wait_until_equal(&scratch, slapd.address(), &copy, &own);
        assert_eq!(figure(&copy, "Rejected"), "0", "round {round}: {}", copy.log());
    }
    until("a cookie", || figure(&copy, "Cookie").starts_with("accesslog 20").then_some(()));
    assert!(!copy.log().contains("the whole content is compared"), "{}", copy.log());
    // slapd starts with an empty log, which lacks changes that the copy has not read.
    copy.kill();
    (0..20).for_each(|_| changes.make());
    drop(changes);
    slapd.restart_after(|| {
        std::fs::remove_dir_all(&log).unwrap();
        std::fs::create_dir(&log).unwrap();
    });
    let mut changes = source_changes(administrator(&slapd), false);
    changes.count = 10_000;
    let copy = follower(&scratch, slapd.address());
    (0..20).for_each(|_| changes.make());
    wait_until_equal(&scratch, slapd.address(), &copy, &own);
    assert!(copy.log().contains("the whole content is compared"), "{}", copy.log());
    assert_eq!(figure(&copy, "Rejected"), "0", "{}", copy.log());
}
