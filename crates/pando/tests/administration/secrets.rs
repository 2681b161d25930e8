//! Searches for secrets in everything that leaves the process: log, audit trail, monitor, metrics, web console, support
//! bundle, `/proc`, and backups.
//!
//! A backup may contain what the directory stores to verify credentials: hashes, SCRAM keys, and secrets of one-time
//! codes. No output may contain clear passwords, or secrets from files of the node: keys, tokens, and credentials for
//! other servers.

use std::fs;
use std::path::Path;

use test_support::clients::run;
use test_support::cluster::until;
use test_support::http::{Browser, get, quoted};
use test_support::metrics::{address, exchange};
use test_support::pando::{Start, command, program};
use test_support::tree::{add_person, bind, person_dn, plant, plant_policy, set_password};
use test_support::{ADMIN_DN, Pando, SUFFIX, Scratch};

const ADMINISTRATOR: &str = "pl4nted-administrator";
const USER: &str = "pl4nted-of-anna";
const OLD: &str = "pl4nted-of-anna-before";
const GUESS: &str = "pl4nted-and-wrong";
const TOKEN: &str = "pl4nted-for-metrics";

/// Texts that two servers have output, each with the name of its source.
struct Outputs(Vec<(String, String)>);

impl Outputs {
    fn add(&mut self, place: &str, text: impl Into<String>) {
        self.0.push((place.to_owned(), text.into()));
    }

    /// Adds the command line and the environment of a process.
    fn process(&mut self, pando: &Pando) {
        for file in ["cmdline", "environ"] {
            let octets = fs::read(format!("/proc/{}/{file}", pando.id())).unwrap();
            self.add(file, String::from_utf8_lossy(&octets));
        }
    }

    /// Adds the contents of the files of a backup: rows and changes.
    fn backup(&mut self, folder: &Path) {
        let before = self.0.len();
        for file in fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
            let content = fs::read(&file).unwrap();
            let content = match file.extension().is_some_and(|ending| ending == "pando") {
                true => zstd::decode_all(&content[..]).unwrap(),
                false => content,
            };
            self.add(&file.display().to_string(), String::from_utf8_lossy(&content));
        }
        assert!(self.0[before..].iter().any(|(_, text)| text.contains("uid=carl") || text.contains("carl")));
    }

    #[track_caller]
    fn expect_without(&self, secrets: &[&str]) {
        for (place, text) in &self.0 {
            for secret in secrets {
                assert!(!text.contains(secret), "{secret} is in {place}: {text:.2000}");
            }
        }
    }
}

/// Returns a line in the middle of a private key.
fn line_of_key(data: &Path) -> String {
    let text = fs::read_to_string(data.join("tls/key.pem")).unwrap();
    text.lines().nth(1).unwrap().to_owned()
}

fn start(scratch: &Scratch) -> Pando {
    let password = scratch.write("administrator", ADMINISTRATOR);
    let token = scratch.write("token", format!("{TOKEN}\n"));
    let node = scratch.write(
        "node.toml",
        format!(
            "[backup]\nfolder = {:?}\n[audit]\nfolder = {:?}\nvalues = \"all\"\n[metrics]\n\
             listen = \"127.0.0.1:0\"\ntoken_file = {token:?}\n[console]\nlisten = [\"127.0.0.1:0\"]\n\
             tls = false\n[log]\nlevel = \"debug\"\n",
            scratch.join("backup"),
            scratch.join("trail"),
        ),
    );
    let [node, password] = [node, password].map(|path| path.to_str().unwrap().to_owned());
    let start = Start::new(scratch).without_environment("PANDO_ADMIN_PASSWORD");
    start.arguments(&["--node", &node, "--admin-password-file", &password]).ready()
}

#[test]
fn no_output_and_no_backup_has_a_secret() {
    let scratch = Scratch::new("secrets");
    let data = Pando::data(&scratch);
    let pando = start(&scratch);
    let mut admin = pando.connect();
    assert!(admin.bind(ADMIN_DN, ADMINISTRATOR).unwrap().is_success());
    plant(&mut admin);
    plant_policy(&mut admin, &[("objectClass", "pandoPwdPolicy"), ("pandoPwdTotp", "TRUE")]);
    add_person(&mut admin, "carl");
    let anna = person_dn("anna");
    set_password(&mut admin, "anna", OLD);
    set_password(&mut admin, "anna", USER);
    assert_eq!(bind(&pando, "anna", USER), ldap::ResultCode::SUCCESS);
    assert_eq!(bind(&pando, "anna", GUESS), ldap::ResultCode::INVALID_CREDENTIALS);
    let code = command(&["account", "totp", &person_dn("bert")], Some(&data)).expect_code(0);
    let code = code.stdout.lines().next().unwrap().to_owned();
    let mut outputs = Outputs(Vec::new());
    pages(&pando, &mut outputs, &anna);
    let bundle = scratch.join("bundle.tar").to_str().unwrap().to_owned();
    let node = scratch.join("node.toml").to_str().unwrap().to_owned();
    command(&["support", "--node", &node, "-o", &bundle], Some(&data)).expect_code(0);
    outputs.add("bundle", String::from_utf8_lossy(&fs::read(&bundle).unwrap()));
    let doctor = command(&["doctor", "--node", &node], Some(&data));
    outputs.add("doctor", doctor.stdout + &doctor.stderr);
    outputs.process(&pando);
    until("a backup", || {
        let folder = scratch.join("backup");
        let made = command(&["backup", "make", "--full", folder.to_str().unwrap()], Some(&data));
        (made.code == Some(0)).then_some(())
    });
    let key = line_of_key(&data);
    follower(&pando, &mut outputs);
    outputs.add("output", pando.output());
    outputs.add("log", pando.log());
    assert!(pando.stop().success());
    let folder = scratch.join("trail").to_str().unwrap().to_owned();
    let trail = command(&["audit", "--json", "--folder", &folder], None).expect_code(0);
    assert!(trail.stdout.contains("userPassword"), "values are recorded: {trail}");
    outputs.add("audit trail", trail.stdout);
    // The backup is added only after this check, because it contains the secret of one-time codes. A restored server
    // needs that secret.
    outputs.expect_without(&[&code]);
    outputs.backup(&scratch.join("backup"));
    outputs.expect_without(&[ADMINISTRATOR, USER, OLD, GUESS, TOKEN, &key, "PRIVATE KEY"]);
}

/// Collects the pages of the metrics, the monitor and the web console.
fn pages(pando: &Pando, outputs: &mut Outputs, anna: &str) {
    let token = format!("GET /metrics HTTP/1.1\r\nHost: pando\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    let metrics = exchange(address(pando), token.as_bytes()).unwrap();
    assert!(metrics.contains("pando_"), "{metrics}");
    outputs.add("metrics", metrics);
    let refused = exchange(address(pando), b"GET /metrics HTTP/1.1\r\nHost: pando\r\n\r\n").unwrap();
    outputs.add("metrics without the token", refused);
    let mut admin = pando.connect();
    assert!(admin.bind(ADMIN_DN, ADMINISTRATOR).unwrap().is_success());
    for base in ["cn=monitor", "cn=config", SUFFIX] {
        let reply = admin.search(base, ldap::Scope::WholeSubtree, "(objectClass=*)", &["*", "+"]).unwrap();
        outputs.add(base, reply.entries.iter().map(|entry| format!("{entry:?}\n")).collect::<String>());
    }
    let browser = Browser::signed_in(pando, ADMIN_DN, ADMINISTRATOR);
    let entry = format!("/entry?dn={}", quoted(anna));
    let history = format!("/history?dn={}", quoted(anna));
    for path in
        ["/", "/nodes", "/settings", "/searches", "/indexes", "/audit", "/health", "/me", &entry, &history]
    {
        let answer = browser.get(path);
        outputs.add(path, format!("{} {}", answer.head, answer.text()));
    }
    let mut stranger = Browser::new(pando);
    let answer = stranger.sign_in(ADMIN_DN, GUESS);
    outputs.add("a refused sign-in", format!("{} {}", answer.head, answer.text()));
    outputs.add("sign-in", get(browser.address, "/", "").text());
}

/// Adds the output of a second server. The second server follows the first server, and binds to the first server as the
/// administrator.
fn follower(source: &Pando, outputs: &mut Outputs) {
    let scratch = Scratch::new("secrets-copy");
    let password = scratch.write("password", ADMINISTRATOR);
    let start = Start::following(&scratch, source.address(), &password);
    let copy = start.without_environment("PANDO_ADMIN_PASSWORD").ready();
    let data = Pando::data(&scratch);
    until("the entries are copied", || {
        let base = person_dn("carl");
        let found = command(&["export", "--base", &base, "--if-exists"], Some(&data));
        found.stdout.contains("uid: carl").then_some(())
    });
    outputs.process(&copy);
    let backup = scratch.join("backup").to_str().unwrap().to_owned();
    command(&["backup", "make", &backup], Some(&data)).expect_code(0);
    outputs.backup(Path::new(&backup));
    let bundle = scratch.join("bundle.tar").to_str().unwrap().to_owned();
    let made = run(program(), &["support", "--data", data.to_str().unwrap(), "-o", &bundle], "");
    made.expect_code(0);
    outputs.add("bundle of the copy", String::from_utf8_lossy(&fs::read(&bundle).unwrap()));
    outputs.add("log of the copy", copy.log());
    assert!(copy.stop().success());
}
