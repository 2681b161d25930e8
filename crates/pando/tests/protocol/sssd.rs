//! SSSD as hosts use it: names of users and groups, logins, new passwords and sudo rules. It runs in separate
//! namespaces, so that the machine is not changed. Another module tests the configuration in the documentation.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

use test_support::clients::{Run, repository, run};
use test_support::pando::{Start, command};
use test_support::root::was_run_as_root;
use test_support::{Pando, SUFFIX, Scratch};

/// A running SSSD in its namespaces, which end when this value is dropped.
pub(crate) struct Sssd {
    /// The process of unshare. When it ends, all processes in the namespaces end.
    child: Child,
    /// Process id of the first process in the namespaces.
    within: String,
}

impl Sssd {
    /// Starts SSSD with this configuration, and waits until it serves names, logins and sudo.
    #[track_caller]
    pub(crate) fn start(scratch: &Scratch, configuration: &str) -> Sssd {
        let configuration = scratch.write("sssd.conf", configuration);
        let script = repository().join("crates/pando/tests/clients/sssd.sh");
        let mut unshare = Command::new("unshare");
        unshare.args([
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "--propagation",
            "private",
        ]);
        unshare.arg("sh").arg(script).arg(configuration);
        let mut child =
            unshare.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut first).unwrap();
        if first != "up\n" {
            let mut errors = String::new();
            let _ = child.kill();
            let _ = child.stderr.take().unwrap().read_to_string(&mut errors);
            panic!("SSSD does not start ({first:?}): {errors}\n./dev test installs it");
        }
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let within = std::fs::read_to_string(children).unwrap().trim().to_owned();
        Sssd { child, within }
    }

    /// Runs a program in the namespaces of this SSSD, as root.
    pub(crate) fn run(&self, program: &str, arguments: &[&str], input: &str) -> Run {
        let within = ["--target", &self.within, "--mount", "--pid", "--", program];
        run("nsenter", &[&within[..], arguments].concat(), input)
    }

    /// Runs a program as a user, given by the ids of the user and the group.
    pub(crate) fn run_as(&self, [user, group]: [u32; 2], words: &[&str], input: &str) -> Run {
        let (user, group) = (format!("--reuid={user}"), format!("--regid={group}"));
        self.run("setpriv", &[&[user.as_str(), &group, "--clear-groups"], words].concat(), input)
    }

    /// Logs a user in with a password.
    pub(crate) fn log_in(&self, user: &str, password: &str) -> Run {
        self.run("pamtester", &["pando", user, "authenticate", "acct_mgmt"], &format!("{password}\n"))
    }

    /// Returns the members of a group on the host.
    #[track_caller]
    pub(crate) fn members(&self, group: &str) -> BTreeSet<String> {
        let shown = self.run("getent", &["group", group], "").expect_code(0).stdout;
        let members = shown.trim_end().rsplit(':').next().unwrap().split(',');
        members.filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }
}

impl Drop for Sssd {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let logs = self.run("sh", &["-c", "tail -n 30 /var/log/sssd/*"], "");
            eprintln!("--- SSSD's logs\n{}", logs.stdout);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Timeouts that are longer than SSSD's defaults. By default, SSSD gives up after 6 seconds, and kills a process that
/// has worked on one group for 30 seconds. Both can happen on a busy machine.
const PATIENCE: &str =
    "timeout = 120\nldap_search_timeout = 120\nldap_network_timeout = 120\nldap_opt_timeout = 120\n";

/// Regression test: SSSD reads members with the dereference control. If there were more than 2,000 members, the answer
/// had no control and was a success, so that SSSD took the group for empty.
#[test]
fn groups_of_every_size_have_all_their_members() {
    const PEOPLE: usize = 10_000;
    if was_run_as_root(module_path!(), "groups_of_every_size_have_all_their_members") {
        return;
    }
    let scratch = Scratch::new("sssd-groups");
    let mut ldif = format!(
        "dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n\
         dn: uid=sssd,{SUFFIX}\nobjectClass: account\nobjectClass: simpleSecurityObject\nuserPassword: password\n\n"
    );
    let members = |size: usize| (0..size).map(|number| format!("u{number}"));
    for (number, uid) in (100_000..).zip(members(PEOPLE)) {
        let _ = write!(
            ldif,
            "dn: uid={uid},{SUFFIX}\nobjectClass: account\nobjectClass: posixAccount\ncn: {uid}\n\
             uidNumber: {number}\ngidNumber: 100\nhomeDirectory: /home/{uid}\n\n"
        );
    }
    let sizes = [10, 1_000, PEOPLE];
    for (number, size) in (7_000..).zip(sizes) {
        let _ = write!(
            ldif,
            "dn: cn=g{size},{SUFFIX}\nobjectClass: groupOfNames\nobjectClass: posixGroup\ngidNumber: {number}\n"
        );
        members(size).for_each(|uid| ldif += &format!("member: uid={uid},{SUFFIX}\n"));
        ldif.push('\n');
    }
    let file = scratch.write("groups.ldif", ldif);
    let data = Pando::data(&scratch);
    command(&["import", "--suffix", SUFFIX, file.to_str().unwrap()], Some(&data)).expect_code(0);
    let pando = Start::new(&scratch).ready();
    let configuration = format!(
        "[sssd]\nservices = nss, pam, sudo\ndomains = example\n[domain/example]\nid_provider = ldap\n\
         ldap_uri = ldap://localhost:{}\nldap_id_use_start_tls = true\nldap_tls_cacert = {}\n\
         ldap_search_base = {SUFFIX}\nldap_schema = rfc2307bis\n\
         ldap_default_bind_dn = uid=sssd,{SUFFIX}\nldap_default_authtok = password\n{PATIENCE}",
        pando.address().port(),
        data.join("tls/authority.pem").display()
    );
    let sssd = Sssd::start(&scratch, &configuration);
    for size in sizes {
        let shown = sssd.members(&format!("g{size}"));
        assert!(shown == members(size).collect(), "{} of {size} members", shown.len());
    }
    let id = sssd.run("id", &["u7"], "").expect_code(0);
    for name in ["7000(g10)", "7001(g1000)", "7002(g10000)"] {
        assert!(id.stdout.contains(name), "{id}");
    }
}
