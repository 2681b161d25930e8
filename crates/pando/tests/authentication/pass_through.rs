//! Passwords that another service verifies: a second Pando, or Debian's saslauthd, which binds to the second Pando.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use ldap::{ChangeOperation, ResultCode};
use test_support::clients::run;
use test_support::pando::Start;
use test_support::tree::{bind, person_dn, plant, plant_policy, set_password};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

/// Starts a server that verifies the passwords of anna and bert at the server with this URL.
fn start(scratch: &Scratch, url: &str, authorities: &str) -> Pando {
    start_with(scratch, &format!("server = \"{url}\"\nauthorities = \"{authorities}\""), |name| {
        format!("{{PASSTHROUGH}}{}", person_dn(name))
    })
}

/// Starts a server with these settings, and with anna and bert. The function `stored` returns their stored passwords.
fn start_with(scratch: &Scratch, settings: &str, stored: impl Fn(&str) -> String) -> Pando {
    let node = format!("[pass_through]\n{settings}\ntimeout_seconds = 2\nthreads = 1\n");
    let pando = Start::with_node(scratch, node).ready();
    let mut administrator = pando.administrator();
    plant(&mut administrator);
    for name in ["anna", "bert"] {
        set_password(&mut administrator, name, &stored(name));
    }
    pando
}

/// Debian's saslauthd, which binds to a server as the user whose password it verifies. Dropping this value ends the
/// daemon.
struct Saslauthd(Child);

impl Saslauthd {
    /// Starts the daemon in this folder. The daemon searches for people at `server`, as the administrator.
    fn start(scratch: &Scratch, server: &Pando) -> (Saslauthd, PathBuf) {
        let folder = scratch.join("saslauthd");
        std::fs::create_dir_all(&folder).unwrap();
        let settings = format!(
            "ldap_servers: ldap://{}\nldap_search_base: {SUFFIX}\nldap_filter: uid=%u\nldap_auth_method: bind\n\
             ldap_bind_dn: {ADMIN_DN}\nldap_bind_pw: {ADMIN_PASSWORD}\n",
            server.address()
        );
        let settings = scratch.write("saslauthd.conf", settings);
        let mut child = Command::new("/usr/sbin/saslauthd")
            .args(["-d", "-n", "1", "-a", "ldap", "-O"])
            .arg(settings)
            .arg("-m")
            .arg(&folder)
            .stderr(Stdio::piped())
            .spawn()
            .expect("saslauthd, of Debian's sasl2-bin");
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut heard = String::new();
        while !heard.contains("listening on socket") {
            assert_ne!(said.read_line(&mut heard).unwrap(), 0, "{heard}");
        }
        // The output is read, so that the daemon never blocks on a full pipe.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        (Saslauthd(child), folder.join("mux"))
    }
}

impl Drop for Saslauthd {
    fn drop(&mut self) {
        // All files of the daemon are in the scratch folder.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_other_server_says_whether_a_password_is_right() {
    let there = Scratch::new("pass-there");
    let other = Start::new(&there).arguments(&["--listen", "ldaps://127.0.0.1:0"]).ready();
    plant(&mut other.administrator());
    let certificate = Pando::data(&there).join("tls/certificate.pem");
    let here = Scratch::new("pass-here");
    // The password is verified over StartTLS.
    let pando =
        start(&here, &format!("ldap://127.0.0.1:{}", other.address().port()), certificate.to_str().unwrap());
    assert_eq!(bind(&pando, "anna", "anna-secret"), ResultCode::SUCCESS);
    assert_eq!(bind(&pando, "anna", "wrong"), ResultCode::INVALID_CREDENTIALS);
    assert_eq!(bind(&pando, "bert", "anna-secret"), ResultCode::INVALID_CREDENTIALS);
    let url = format!("ldap://{}", pando.address());
    let plain = ["-Q", "-O", "none", "-H", &url, "-Y", "PLAIN", "-U", "anna", "-w", "anna-secret"];
    run("ldapwhoami", &plain, "").expect_code(0).expect_output("uid=anna");
    // Under a policy, a verification counts as an attempt. If the policy names a storage scheme, the verified password
    // is then stored.
    let mut administrator = pando.administrator();
    let policy = [
        ("objectClass", "pandoPwdPolicy"),
        ("pwdLockout", "TRUE"),
        ("pwdMaxFailure", "2"),
        ("pandoPwdScheme", "ssha512"),
    ];
    plant_policy(&mut administrator, &policy);
    // The writer handles the requests of a connection in order, so the response to this modify means that the password
    // is stored.
    let mut connection = pando.connect();
    assert!(connection.bind(&person_dn("anna"), "anna-secret").unwrap().is_success());
    assert!(connection.bind(test_support::ADMIN_DN, test_support::ADMIN_PASSWORD).unwrap().is_success());
    let note: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "description", &["x"])];
    assert!(connection.modify(&person_dn("anna"), note).unwrap().is_success());
    for _ in 0..2 {
        assert_eq!(bind(&pando, "bert", "wrong"), ResultCode::INVALID_CREDENTIALS);
    }
    assert_eq!(bind(&pando, "bert", "bert-secret"), ResultCode::INVALID_CREDENTIALS, "locked");
    let kept = administrator.entry(&person_dn("anna"), &["userPassword"]).unwrap().unwrap();
    assert!(kept.text("userPassword").unwrap().starts_with("{SSHA512}"), "{kept:?}");
    drop(other);
    assert_eq!(bind(&pando, "anna", "anna-secret"), ResultCode::SUCCESS, "here by now");
}

/// A server that accepts connections and stays silent delays only the users that it verifies, until the timeout.
#[test]
fn binds_are_unavailable_if_the_other_server_is_silent() {
    let there = Scratch::new("pass-nobody");
    let other = Pando::start(&there);
    let certificate = Pando::data(&there).join("tls/certificate.pem");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let here = Scratch::new("pass-silent");
    let url = format!("ldaps://127.0.0.1:{}", silent.local_addr().unwrap().port());
    let pando = start(&here, &url, certificate.to_str().unwrap());
    let mut waits = pando.connect();
    let anna = person_dn("anna");
    let authentication = ldap::Authentication::Simple(b"anna-secret");
    let request = ldap::Request::Bind(ldap::BindRequest { version: 3, name: &anna, authentication });
    let id = waits.send(request, ldap::Controls::NONE).unwrap();
    pando.administrator();
    assert_eq!(waits.reply(id).unwrap().outcome.code, ResultCode::UNAVAILABLE);
    assert!(pando.log().contains("does not say whether a password is right"), "{}", pando.log());
    drop((silent, other));
    // No server listens at that address any more.
    assert_eq!(bind(&pando, "anna", "anna-secret"), ResultCode::UNAVAILABLE);
}

#[test]
fn passwords_are_sent_only_over_tls() {
    let scratch = Scratch::new("pass-clear");
    let (_, said) = Start::with_node(&scratch, "[pass_through]\nserver = \"ldap://127.0.0.1:1\"\n").refused();
    assert!(said.contains("over TLS alone"), "{said}");
    // `server` and `saslauthd` exclude each other.
    let both = "[pass_through]\nserver = \"ldapi://%2Fx\"\nsaslauthd = \"/x\"\n";
    let (_, said) = Start::with_node(&scratch, both).refused();
    assert!(said.contains("or saslauthd"), "{said}");
}

/// The stored passwords have the form that slapd uses: `{SASL}NAME@REALM`.
#[test]
fn saslauthd_says_whether_a_password_is_right() {
    let there = Scratch::new("pass-sasl-there");
    let other = Pando::start(&there);
    plant(&mut other.administrator());
    let here = Scratch::new("pass-sasl");
    let (daemon, socket) = Saslauthd::start(&here, &other);
    let settings = format!("saslauthd = {socket:?}");
    let pando = start_with(&here, &settings, |name| format!("{{SASL}}{name}@example.com"));
    assert_eq!(bind(&pando, "anna", "anna-secret"), ResultCode::SUCCESS);
    assert_eq!(bind(&pando, "bert", "bert-secret"), ResultCode::SUCCESS);
    assert_eq!(bind(&pando, "anna", "bert-secret"), ResultCode::INVALID_CREDENTIALS);
    // A password longer than the daemon accepts is wrong.
    assert_eq!(bind(&pando, "anna", &"x".repeat(300)), ResultCode::INVALID_CREDENTIALS);
    assert_eq!(bind(&pando, "anna", "anna-secret"), ResultCode::SUCCESS);
    drop(daemon);
    assert_eq!(bind(&pando, "anna", "anna-secret"), ResultCode::UNAVAILABLE);
    assert!(pando.log().contains("does not say whether a password is right"), "{}", pando.log());
}

/// Checks the octets of the request. If the answer is neither yes nor no, or is missing, the result is unavailable.
#[test]
fn binds_are_unavailable_if_saslauthd_gives_no_valid_answer() {
    let scratch = Scratch::new("pass-sasl-odd");
    let socket = scratch.join("mux");
    let daemon = UnixListener::bind(&socket).unwrap();
    let settings = format!("saslauthd = {socket:?}\nservice = \"directory\"");
    let pando = start_with(&scratch, &settings, |name| format!("{{PASSTHROUGH}}{name}"));
    let ask = |answer: &[u8]| {
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| {
                let mut stream = daemon.accept().unwrap().0;
                let mut question = vec![0; 2 + 4 + 2 + 11 + 2 + 9 + 2];
                stream.read_exact(&mut question).unwrap();
                stream.write_all(answer).unwrap();
                question
            });
            let code = bind(&pando, "anna", "anna-secret");
            (code, asked.join().unwrap())
        })
    };
    let question = b"\0\x04anna\0\x0banna-secret\0\x09directory\0\0".to_vec();
    assert_eq!(ask(b"\0\x03OK "), (ResultCode::SUCCESS, question.clone()));
    assert_eq!(ask(b"\0\x02NO"), (ResultCode::INVALID_CREDENTIALS, question.clone()));
    for odd in [&b"\0\x02ok"[..], b"\0\0", b"\xff\xffO", b"\0", b""] {
        assert_eq!(ask(odd), (ResultCode::UNAVAILABLE, question.clone()), "{odd:?}");
    }
}
