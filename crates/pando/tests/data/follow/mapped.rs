//! Copies with names that differ from their sources, and several copies in one server.

use super::*;

const FIRST: &str = "dc=example,dc=org";
const SECOND: &str = "dc=example,dc=net";

/// Starts a server with copies of two sources, at [`FIRST`] and [`SECOND`].
fn of_both(scratch: &Scratch, slapd: SocketAddr, pando: SocketAddr) -> Pando {
    let password = scratch.write("password", ADMIN_PASSWORD);
    let table = |source: SocketAddr, more: &str| {
        let password = password.display();
        format!(
            "[[follow]]\nurl = \"ldap://{source}\"\nbase = \"{SUFFIX}\"\nbind_dn = \"{ADMIN_DN}\"\n\
             password_file = \"{password}\"\n{more}\n"
        )
    };
    let first =
        format!("to = \"{FIRST}\"\nmap = [\"uid=employeeNumber\", \"title=ou\"]\nleave_out = [\"mail\"]");
    let second = format!("to = \"{SECOND}\"\nfilter = \"(!(cn=p7))\"");
    let node = scratch.write("node.toml", table(slapd, &first) + &table(pando, &second));
    let suffixes = ["--suffix", FIRST, "--suffix", SECOND, "--admin-dn", ADMIN_DN];
    Start::bare(scratch, "data").arguments(&suffixes).arguments(&["--node", node.to_str().unwrap()]).ready()
}

fn values(pando: &Pando, dn: &str, attribute: &str) -> Option<Vec<String>> {
    let entry = pando.administrator().entry(dn, &[attribute]).unwrap()?;
    Some(entry.texts(attribute))
}

#[test]
fn entries_of_several_sources_are_renamed_in_the_copy() {
    let (scratch, folder) = (Scratch::new("follow-both"), Scratch::new("follow-both-slapd"));
    let second_folder = Scratch::new("follow-both-pando");
    let rules = "access to * by * write\noverlay syncprov\n".to_owned();
    let amendments = Amendments {
        global: "moduleload syncprov\n".to_owned(),
        rules: Some(rules),
        ..Amendments::default()
    };
    let slapd = Slapd::amended(&folder, &["entryUUID"], amendments);
    let mut theirs = Connection::open(slapd.address()).unwrap();
    assert!(theirs.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
    plant(&mut theirs);
    replace(&mut theirs, &person_dn("anna"), "title", &["boss"]);
    replace(&mut theirs, &person_dn("anna"), "mail", &["a@example.com"]);
    let other = Pando::start(&second_folder);
    plant(&mut other.administrator());
    add_person(&mut other.administrator(), "p7");
    let mut copy = of_both(&scratch, slapd.address(), other.address());
    // The first copy of each source is an import.
    assert_eq!(copy.log().matches("the first copy is made").count(), 2, "{}", copy.log());
    let here = |number: &str| format!("employeeNumber={number},ou=people,{FIRST}");
    assert_eq!(values(&copy, &here("anna"), "ou"), Some(vec!["boss".to_owned()]));
    assert_eq!(values(&copy, &here("anna"), "mail"), Some(Vec::new()));
    let staff = Some(vec![here("anna"), here("bert")]);
    assert_eq!(values(&copy, &format!("cn=staff,ou=groups,{FIRST}"), "member"), staff);
    assert!(copy.connect().bind(&here("anna"), "anna-secret").unwrap().is_success());
    let in_second = |uid: &str| format!("uid={uid},ou=people,{SECOND}");
    assert!(values(&copy, &in_second("anna"), "cn").is_some());
    assert_eq!(values(&copy, &in_second("p7"), "cn"), None);
    // Changes arrive under the names of the copy, also after a kill.
    let change = |theirs: &mut Connection, from: &str, to: &str| {
        let moved = theirs.modify_dn(&person_dn(from), &format!("uid={to}"), Some(SUFFIX)).unwrap();
        assert!(moved.is_success(), "{moved:?}");
        let title =
            theirs.modify(&format!("uid={to},{SUFFIX}"), &[(ChangeOperation::Replace, "title", &[to])]);
        assert!(title.unwrap().is_success());
    };
    change(&mut theirs, "bert", "bob");
    let moved = |number: &str| format!("employeeNumber={number},{FIRST}");
    until("a renamed entry", || (values(&copy, &moved("bob"), "ou")? == ["bob"]).then_some(()));
    copy.kill();
    change(&mut theirs, "anna", "ann");
    assert!(other.administrator().delete(&person_dn("bert")).unwrap().is_success());
    copy = of_both(&scratch, slapd.address(), other.address());
    until("an entry of the first", || (values(&copy, &moved("ann"), "ou")? == ["ann"]).then_some(()));
    until("a delete of the second", || values(&copy, &in_second("bert"), "cn").is_none().then_some(()));
    until("both", || (figure(&copy, "State") == "following").then_some(()));
    assert_eq!(figure(&copy, "Rejected"), "0", "{}", copy.log());
    // A client is referred to the entry's name at the source. Each copy is promoted separately.
    let mut admin = copy.administrator();
    let refused = admin.delete(&moved("ann")).unwrap();
    let url = format!("ldap://{}/uid=ann,{SUFFIX}", slapd.address());
    assert_eq!((refused.code, refused.referrals), (ResultCode::REFERRAL, vec![url]));
    let data = Pando::data(&scratch);
    let promote = ["follow", "--promote", "--base", SECOND, "--data", data.to_str().unwrap()];
    command(&promote, None).expect_code(0);
    assert!(admin.delete(&in_second("anna")).unwrap().is_success());
    assert_eq!(admin.delete(&moved("ann")).unwrap().code, ResultCode::REFERRAL);
    until("the end of one copy", || {
        figure(&copy, "Source 2").contains(&format!("to {SECOND}: promoted")).then_some(())
    });
    assert!(figure(&copy, "Source 1").contains("following"));
}

#[test]
fn copies_do_not_overlap() {
    let scratch = Scratch::new("follow-overlap");
    let table = |to: &str| format!("[[follow]]\nurl = \"ldapi://%2Fnone\"\nbase = \"dc=a\"\nto = \"{to}\"\n");
    let node = scratch.write("node.toml", table("ou=x,dc=b") + &table("OU=X, dc=b"));
    let data = scratch.join("data");
    let serve = ["serve", "--suffix", "dc=b", "--listen", "ldap://127.0.0.1:0", "--data"];
    let arguments = [&serve[..], &[data.to_str().unwrap(), "--node", node.to_str().unwrap()]].concat();
    let said = command(&arguments, None).expect_code(2).stderr;
    assert!(said.contains("follow.to") && said.contains("overlap"), "{said}");
}
