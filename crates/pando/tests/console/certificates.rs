//! Sign-ins with a certificate in the browser.

use std::path::PathBuf;

use client::Connection;
use rcgen::DnType;
use serde_json::Value;

use test_support::certificates::{Authority, anna};
use test_support::clients::{Run, run};
use test_support::http::console_address;
use test_support::pando::Start;
use test_support::tree::{add, replace};
use test_support::{ADMIN_PASSWORD, Pando, Scratch};

/// Python program that signs in over TLS, with a certificate and its key or without them, and then lists the sessions.
/// It prints the status and body of each answer.
const SIGN_IN: &str = r"
import json, ssl, sys, urllib.parse, urllib.request
url, authority, form, *own = sys.argv[1:]
context = ssl.create_default_context(cafile=authority)
if own:
    context.load_cert_chain(*own)
opener = urllib.request.build_opener(
    urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context), urllib.request.HTTPCookieProcessor())
opener.addheaders = [('Accept', 'application/json')]
def ask(path, form=None):
    try:
        answer = opener.open(url + path, form)
    except urllib.error.HTTPError as error:
        answer = error
    print(json.dumps([answer.status if hasattr(answer, 'status') else answer.code, json.load(answer)]))
ask('/sign-in')
ask('/sign-in', form.encode())
ask('/sessions')
opener.addheaders = [('Accept', 'text/html')]
print(json.dumps(opener.open(url + '/sign-in').read().decode()))
";

/// A server whose console requests certificates, and the authority that signs the certificates of clients.
struct Site {
    scratch: Scratch,
    pando: Pando,
    clients: Authority,
}

impl Site {
    fn start(name: &str, more: &str) -> Site {
        let scratch = Scratch::new(name);
        let clients = Authority::generate();
        scratch.write("clients.pem", &clients.pem);
        let node = format!(
            "[tls]\nclient_authorities = \"clients.pem\"\n[console]\nlisten = [\"127.0.0.1:0\"]\n{more}"
        );
        let node = scratch.write("node.toml", node);
        let pando = Start::bare(&scratch, "data")
            .arguments(&["--suffix", "dc=example", "--node", node.to_str().unwrap()])
            .ready();
        Site { scratch, pando, clients }
    }

    fn administrator(&self) -> Connection {
        let mut administrator = self.pando.connect();
        assert!(administrator.bind("cn=admin", ADMIN_PASSWORD).unwrap().is_success());
        administrator
    }

    fn sign_in(&self, form: &str, own: Option<(String, String)>) -> Run {
        let authority = Pando::data(&self.scratch).join("tls/authority.pem");
        let url = format!("https://localhost:{}", console_address(&self.pando).port());
        let own: Vec<PathBuf> = own.map_or_else(Vec::new, |(certificate, key)| {
            vec![self.scratch.write("own.pem", certificate), self.scratch.write("own-key.pem", key)]
        });
        let mut arguments = vec!["-c", SIGN_IN, &url, authority.to_str().unwrap(), form];
        arguments.extend(own.iter().map(|file| file.to_str().unwrap()));
        run("/usr/bin/python3", &arguments, "")
    }

    /// Signs in, and returns the answers. The TLS handshake must succeed.
    fn answers(&self, form: &str, own: Option<(String, String)>) -> Vec<Value> {
        let run = self.sign_in(form, own).expect_code(0);
        run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

const BY_CERTIFICATE: &str = "method=certificate";

#[test]
fn a_client_certificate_signs_its_entry_in() {
    let site = Site::start("console-certificates", "");
    let mut administrator = site.administrator();
    add(&mut administrator, "dc=example", &[("objectClass", "domain"), ("dc", "example")]);
    let people = [("objectClass", "organizationalUnit"), ("ou", "people")];
    add(&mut administrator, "ou=people,dc=example", &people);
    let dn = "uid=anna,ou=people,dc=example";
    let person = [
        ("objectClass", "inetOrgPerson"),
        ("uid", "anna"),
        ("cn", "Anna"),
        ("sn", "A"),
        ("userPassword", "anna-secret"),
    ];
    add(&mut administrator, dn, &person);

    let of_anna = || Some(site.clients.issue(&[], &anna()));
    let answers = site.answers(BY_CERTIFICATE, of_anna());
    assert_eq!(answers[0][0], 200, "{answers:?}");
    assert_eq!(answers[0][1]["certificate"], dn, "{answers:?}");
    assert_eq!((&answers[1][0], &answers[1][1]["who"]), (&200.into(), &dn.into()), "{answers:?}");
    assert_eq!(answers[2][1]["sessions"][0]["method"], "certificate", "{answers:?}");
    let page = answers[3].as_str().unwrap();
    assert!(page.contains("Sign in with this certificate") && page.contains(dn), "{page}");

    // A client that has a certificate can also sign in with a password.
    let answers = site.answers("name=anna&password=anna-secret", of_anna());
    assert_eq!(answers[2][1]["sessions"][0]["method"], "password", "{answers:?}");

    // If no entry has the name in the certificate, the page says so.
    for name in ["stranger", "admin"] {
        let own = site.clients.issue(&[], &[(DnType::CommonName, name)]);
        let answers = site.answers(BY_CERTIFICATE, Some(own));
        assert_eq!(answers[1][0], 401, "{answers:?}");
        let said = answers[1][1]["error"].to_string();
        assert!(said.contains("This certificate signs no user in"), "{said}");
        assert!(said.contains("certificate, cn=stranger") || said.contains("administrator"), "{said}");
        assert_eq!(answers[2][0], 401, "{answers:?}");
    }
    // Without a certificate, the page does not offer this sign-in.
    let answers = site.answers(BY_CERTIFICATE, None);
    assert_eq!((&answers[0][1]["certificate"], &answers[1][0]), (&Value::Null, &422.into()), "{answers:?}");
    assert!(!answers[3].as_str().unwrap().contains("this certificate"), "{answers:?}");
    // Invalid certificates are refused by TLS.
    let others = Authority::generate().issue(&[], &anna());
    for own in [others, site.clients.issue_expired(&anna())] {
        assert_ne!(site.sign_in(BY_CERTIFICATE, Some(own)).code, Some(0));
    }
    // The certificate of a locked account is refused.
    let policy = [
        ("objectClass", "device"),
        ("objectClass", "pwdPolicy"),
        ("cn", "policy"),
        ("pwdAttribute", "userPassword"),
        ("pwdLockout", "TRUE"),
    ];
    add(&mut administrator, "cn=policy,dc=example", &policy);
    replace(&mut administrator, "cn=config", "pandoPasswordPolicy", &["cn=policy,dc=example"]);
    let lock = [(ldap::ChangeOperation::Replace, "pwdAccountLockedTime", ["000001010000Z"].as_slice())];
    let locked = administrator.modify(dn, &lock).unwrap();
    assert!(locked.is_success(), "{locked:?}");
    let answers = site.answers(BY_CERTIFICATE, of_anna());
    assert_eq!(answers[1][0], 401, "{answers:?}");
    assert!(answers[1][1]["error"]["detail"].as_str().unwrap().contains("locked"), "{answers:?}");
    assert!(site.pando.stop().success());
}

/// The certificate of a proxy does not authenticate the requests that the proxy forwards.
#[test]
fn a_proxy_certificate_does_not_authenticate_forwarded_requests() {
    let site = Site::start("console-certificates-proxy", "trusted_proxies = [\"127.0.0.0/8\"]\n");
    let mut administrator = site.administrator();
    add(&mut administrator, "dc=example", &[("objectClass", "domain"), ("dc", "example")]);
    let own = site.clients.issue(&[], &anna()[..1]);
    let answers = site.answers(BY_CERTIFICATE, Some(own));
    assert_eq!((&answers[0][1]["certificate"], &answers[1][0]), (&Value::Null, &422.into()), "{answers:?}");
    assert!(site.pando.stop().success());
}
