//! The pages and their paths. Each page has its own module.

mod access;
mod account;
mod account_state;
mod add;
mod audit;
mod compare;
mod deleted;
mod edit;
mod entry;
mod forgotten;
mod health;
mod history;
mod indexes;
mod manage;
mod members;
mod move_or_delete;
mod nodes;
mod overview;
mod password;
mod photo;
mod policies;
mod reset;
mod schema_browser;
mod search;
mod sessions;
mod settings;
mod sign_in;
mod tree;

use std::sync::Arc;

use axum::Router;
use axum::routing::{MethodRouter, get, post};

use crate::app::App;
use crate::page::file;
use crate::texts::{ICON, OPENAPI, STYLE};

/// Returns the router of all pages.
pub(crate) fn router(app: Arc<App>) -> Router {
    let mut router = Router::new()
        .route("/style.css", get(|| async { file("text/css; charset=utf-8", STYLE) }))
        .route("/icon.svg", get(|| async { file("image/svg+xml", ICON) }))
        .route("/openapi.json", get(|| async { file("application/json", OPENAPI) }));
    for (path, _, handlers) in pages() {
        router = router.route(path, handlers);
    }
    router.with_state(app)
}

/// The path, the methods and the handlers of a page.
type PageRoute = (&'static str, &'static [&'static str], MethodRouter<Arc<App>>);

/// Returns all pages. The OpenAPI description must contain the same pages.
fn pages() -> Vec<PageRoute> {
    const READ: &[&str] = &["get"];
    const SEND: &[&str] = &["post"];
    const BOTH: &[&str] = &["get", "post"];
    vec![
        ("/", READ, get(overview::show)),
        ("/health", READ, get(health::show)),
        ("/sign-in", BOTH, get(sign_in::form).post(sign_in::sign_in)),
        ("/forgotten-password", BOTH, get(forgotten::form).post(forgotten::request_link)),
        ("/new-password", BOTH, get(forgotten::link).post(forgotten::open)),
        ("/sign-out", SEND, post(sign_in::sign_out)),
        ("/password", BOTH, get(password::form).post(password::change)),
        ("/account", READ, get(account::show)),
        ("/account/applications", SEND, post(account::change_application)),
        ("/account/codes", BOTH, get(account::codes::form).post(account::codes::change)),
        ("/account/codes/remove", READ, get(account::codes::removal)),
        ("/account/seen", READ, get(account::seen::show)),
        ("/sessions", BOTH, get(sessions::show).post(sessions::end)),
        ("/search", READ, get(search::show)),
        ("/searches", SEND, post(search::saved::change)),
        ("/tree", READ, get(tree::show)),
        ("/entry", READ, get(entry::show)),
        ("/photo", READ, get(photo::show)),
        ("/photo/change", BOTH, get(photo::form).post(photo::change)),
        ("/me", READ, get(entry::own)),
        ("/edit", BOTH, get(edit::form).post(edit::save)),
        ("/add", BOTH, get(add::form).post(add::save)),
        ("/delete", BOTH, get(move_or_delete::delete_form).post(move_or_delete::delete)),
        ("/rename", BOTH, get(move_or_delete::rename_form).post(move_or_delete::rename)),
        ("/reset-password", BOTH, get(reset::form).post(reset::reset)),
        ("/members", BOTH, get(members::show).post(members::change)),
        ("/schema", READ, get(schema_browser::show)),
        ("/manage", READ, get(manage::show)),
        ("/indexes", BOTH, get(indexes::show).post(indexes::change)),
        ("/settings", BOTH, get(settings::show).post(settings::change)),
        ("/audit", READ, get(audit::show)),
        ("/policies", READ, get(policies::show)),
        ("/account-state", BOTH, get(account_state::show).post(account_state::change)),
        ("/nodes", READ, get(nodes::show)),
        ("/history", BOTH, get(history::show).post(history::undo)),
        ("/access", READ, get(access::show)),
        ("/access/rehearse", BOTH, get(access::rehearse::form).post(access::rehearse::rehearse)),
        ("/compare", BOTH, get(compare::show).post(compare::restore)),
        ("/compare/tree", BOTH, get(compare::tree::show).post(compare::tree::restore)),
        ("/deleted", BOTH, get(deleted::show).post(deleted::bring_back)),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use axum::body::Body;
    use axum::http::{HeaderMap, Request, header};
    use tower::ServiceExt as _;

    use super::*;
    use crate::host::{Client, Host, Ldap};
    use crate::limits::{HEALTH_CHECKS_MAX, SIGN_INS_PER_SOURCE_MAX};
    use crate::page::{Format, PageRequest, SignedInRequest};
    use crate::sessions::{BoundUser, Method};

    /// A server that accepts connections and never answers. It sends its ends of the connections to the test.
    struct SilentHost(Sender<UnixStream>);

    impl Host for SilentHost {
        fn connect(&self, _: Client) -> std::io::Result<UnixStream> {
            let (own, other) = UnixStream::pair()?;
            self.0.send(other).unwrap();
            Ok(own)
        }

        fn sends_links(&self) -> bool {
            true
        }

        fn request_link(&self, _: Client, _: &str) -> bool {
            true
        }
    }

    fn silent() -> (Arc<App>, Client, Receiver<UnixStream>) {
        let (sender, connections) = channel();
        let app = App::new(Ldap::new(Arc::new(SilentHost(sender))));
        let address = "192.0.2.1:7".parse().unwrap();
        (Arc::new(app), Client { address, is_secured: true, certificate_subject: None }, connections)
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
    }

    /// Regression test: a client that disconnected gave back its place at once, but its sign-in still occupied a
    /// thread. Thus one address could occupy all threads with wrong passwords, to which the server delays its answers.
    #[test]
    fn a_client_that_disconnects_keeps_its_place_until_its_thread_is_free() {
        const DEADLINE: Duration = Duration::from_secs(60);
        let (app, client, connections) = silent();
        let runtime = runtime();
        let mut opened = Vec::new();
        for (method, path, body) in [
            ("POST", "/sign-in", "name=anna&password=wrong"),
            ("POST", "/new-password", "token=wrong"),
            ("GET", "/health", ""),
        ] {
            let request = Request::builder().method(method).uri(path).extension(client.clone());
            let request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
            let response = router(Arc::clone(&app)).oneshot(request.body(Body::from(body)).unwrap());
            // The HTTP library drops the future of the response if the client disconnects, as the timeout does here.
            let ended = runtime.block_on(async { tokio::time::timeout(Duration::ZERO, response).await });
            assert!(ended.is_err(), "{path}: {ended:?}");
            opened.push(connections.recv_timeout(DEADLINE).unwrap());
        }
        let free = || {
            let places = std::iter::repeat_with(|| app.sign_ins.take(client.address.ip()));
            let places: Vec<_> = places.map_while(|place| place).collect();
            (places.len(), app.health_checks.available_permits())
        };
        assert_eq!(free(), (SIGN_INS_PER_SOURCE_MAX - 2, HEALTH_CHECKS_MAX - 1));
        drop(opened);
        // Waits for the threads.
        drop(runtime);
        assert_eq!(free(), (SIGN_INS_PER_SOURCE_MAX, HEALTH_CHECKS_MAX));
    }

    /// Requests of one session wait for each other without a thread, also after a client has disconnected.
    #[test]
    fn the_turn_of_a_session_ends_with_its_conversation() {
        let (app, client, _connections) = silent();
        let runtime = runtime();
        let bound = BoundUser {
            who: "uid=anna,dc=example".to_owned(),
            entry_uuid: None,
            method: Method::Password,
            must_change: false,
            manages: false,
            audits: false,
            connection: app.ldap.connect(client.clone()).unwrap(),
            from: client.address.ip(),
        };
        let place = app.sessions.place(client.source()).unwrap();
        let session = app.sessions.begin(place, bound, &HeaderMap::new()).unwrap();
        let visit = PageRequest { app, client, format: Format::Json, session: Some(Arc::clone(&session)) };
        let signed = SignedInRequest { visit, session: Arc::clone(&session) };
        let (end, ended) = channel::<()>();
        let talk = signed.talk(move |_| {
            let _ = ended.recv();
            Ok(())
        });
        assert!(runtime.block_on(async { tokio::time::timeout(Duration::ZERO, talk).await }).is_err());
        assert!(session.turn.try_lock().is_err(), "the conversation continues");
        drop(end);
        drop(runtime);
        assert!(session.turn.try_lock().is_ok());
    }

    #[test]
    fn the_openapi_description_has_every_page() {
        let description: serde_json::Value = serde_json::from_str(OPENAPI).unwrap();
        let described: BTreeMap<&str, Vec<&str>> = description["paths"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(path, methods)| {
                (path.as_str(), methods.as_object().unwrap().keys().map(String::as_str).collect())
            })
            .collect();
        let served: BTreeMap<&str, Vec<&str>> =
            pages().into_iter().map(|(path, methods, _)| (path, methods.to_vec())).collect();
        assert_eq!(described, served);
    }
}
