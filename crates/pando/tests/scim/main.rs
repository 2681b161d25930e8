//! SCIM with the real server, over HTTP.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bulk;
mod groups;
mod hostile;
mod lists;
mod provisioning;
mod rights;
mod users;

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::Connection;
use ldap::ChangeOperation;
use serde_json::{Value, json};
use test_support::http::{console_address, send};
use test_support::pando::Start;
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, Scratch};

const USER: &str = "urn:ietf:params:scim:schemas:core:2.0:User";
const GROUP: &str = "urn:ietf:params:scim:schemas:core:2.0:Group";
const ENTERPRISE: &str = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
const PATCH: &str = "urn:ietf:params:scim:api:messages:2.0:PatchOp";

/// A server with SCIM and without users.
struct Scim {
    scratch: Scratch,
    pando: Pando,
    at: SocketAddr,
    authorization: String,
}

/// An answer: its status, header and body. The body is null if there is none.
#[derive(Debug)]
struct Answer {
    status: u16,
    http: test_support::http::Answer,
    body: Value,
}

impl Scim {
    fn start(name: &str) -> Scim {
        Scim::start_with(Scratch::new(name), "", false)
    }

    /// Starts a server with these additional lines in its node file.
    fn start_with(scratch: Scratch, more: &str, tls: bool) -> Scim {
        let node = format!(
            "{more}[console]\nlisten = [\"127.0.0.1:0\"]\ntls = {tls}\n\
             [scim]\nusers = \"ou=people,dc=example,dc=com\"\ngroups = \"ou=groups,dc=example,dc=com\"\n"
        );
        let pando = Start::with_node(&scratch, node).ready();
        let mut admin = pando.administrator();
        for (dn, class, name) in [
            ("dc=example,dc=com", "domain", ("dc", "example")),
            ("ou=people,dc=example,dc=com", "organizationalUnit", ("ou", "people")),
            ("ou=groups,dc=example,dc=com", "organizationalUnit", ("ou", "groups")),
        ] {
            assert!(admin.add(dn, &[("objectClass", class), name]).unwrap().is_success());
        }
        let policy = "cn=policy,dc=example,dc=com";
        let attributes = [
            ("objectClass", "device"),
            ("objectClass", "pwdPolicy"),
            ("cn", "policy"),
            ("pwdAttribute", "userPassword"),
        ];
        assert!(admin.add(policy, &attributes).unwrap().is_success());
        let settings = [(ChangeOperation::Replace, "pandoPasswordPolicy", &[policy][..])];
        assert!(admin.modify("cn=config", &settings).unwrap().is_success());
        let at = console_address(&pando);
        Scim { scratch, pando, at, authorization: basic(ADMIN_DN, ADMIN_PASSWORD) }
    }

    fn ldap(&self) -> Connection {
        self.pando.administrator()
    }

    /// Sends a request with additional header lines, each with its line end.
    #[track_caller]
    fn ask_with(&self, method: &str, path: &str, head: &str, body: &[u8]) -> Answer {
        exchange(self.at, method, path, head, body)
    }

    #[track_caller]
    fn ask(&self, method: &str, path: &str, body: &Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.ask_with(method, path, &format!("Authorization: {}\r\n", self.authorization), body.as_bytes())
    }

    #[track_caller]
    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &Value::Null)
    }

    /// Creates a resource and returns it.
    #[track_caller]
    fn create(&self, endpoint: &str, resource: &Value) -> Value {
        let answer = self.ask("POST", endpoint, resource);
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.body
    }

    #[track_caller]
    fn user(&self, name: &str) -> Value {
        self.create("/Users", &json!({ "schemas": [USER], "userName": name }))
    }

    #[track_caller]
    fn patch(&self, path: &str, operations: &Value) -> Answer {
        self.ask("PATCH", path, &json!({ "schemas": [PATCH], "Operations": operations }))
    }

    /// Returns the resources that a filter finds.
    #[track_caller]
    fn found(&self, endpoint: &str, filter: &str) -> Vec<Value> {
        let answer = self.get(&format!("{endpoint}?filter={}", encoded(filter)));
        assert_eq!(answer.status, 200, "{answer:?}");
        let resources = answer.body["Resources"].as_array().unwrap().clone();
        assert_eq!(answer.body["totalResults"], resources.len());
        resources
    }
}

/// Sends a request.
#[track_caller]
fn exchange(at: SocketAddr, method: &str, path: &str, head: &str, body: &[u8]) -> Answer {
    let start = format!(
        "{method} /scim/v2{path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\nContent-Length: {}\r\n\
         Content-Type: application/scim+json\r\n{head}\r\n",
        body.len()
    );
    let http = send(at, &[start.as_bytes(), body].concat());
    // A body above the limit for all pages is refused before the SCIM service sees it.
    let is_json = !http.body.is_empty() && http.status != 413;
    let body = if is_json { serde_json::from_slice(&http.body).unwrap() } else { Value::Null };
    Answer { status: http.status, http, body }
}

impl Answer {
    #[track_caller]
    fn expect(self, status: u16, scim_type: Option<&str>) -> Value {
        let found = (self.status, self.body["scimType"].as_str());
        assert_eq!(found, (status, scim_type), "{self:?}");
        self.body
    }
}

fn basic(name: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
}

/// Returns the id of a resource.
fn id(resource: &Value) -> &str {
    resource["id"].as_str().unwrap()
}

fn encoded(text: &str) -> String {
    text.bytes().map(|octet| format!("%{octet:02x}")).collect()
}
