//! Tests of the front: what it records, and which server a client gets.

use std::io::Read as _;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};

use client::Tls;
use ldap::{Authentication, BindRequest, DeleteRequest, Message, MessageId, ServerUrl};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use super::*;

const QUEUE_BYTES: usize = 10_000;

/// A front with two servers that are not used, and a client of it.
fn front_with_client() -> (Rc<Front>, Client, Receiver<Event>) {
    let unused = Server { url: ServerUrl::Local(PathBuf::from("unused")), tls: None };
    let (sender, events) = channel();
    let front = Front::new([unused.clone(), unused], 2, Arc::new(Shared::new(QUEUE_BYTES)), sender);
    let front = Rc::new(front);
    let client = Client::new(Rc::clone(&front), 1, 0);
    (front, client, events)
}

fn send(client: &Client, id: i32, request: Request<'_>) {
    let mut frame = Vec::new();
    Message { id: MessageId(id), request, controls: Controls::NONE }.encode(&mut frame);
    assert_eq!(client.request(&frame), None);
}

fn delete() -> Request<'static> {
    Request::Delete(DeleteRequest { entry: "o=x" })
}

fn bind() -> Request<'static> {
    let authentication = Authentication::Simple(b"");
    Request::Bind(BindRequest { version: 3, name: "", authentication })
}

/// Returns the kinds of the recorded requests, and whether each has its answer.
fn recorded(events: &Receiver<Event>) -> Vec<(Kind, bool)> {
    let recorded = events.try_iter().map(|event| match event {
        Event::Exchange(exchange) => (exchange.kind, exchange.is_complete),
        Event::Closed(_) => panic!("no connection has ended"),
    });
    recorded.collect()
}

/// Regression test: a change after a bind that was not recorded was replayed with the identity of the bind before.
#[test]
fn no_request_is_replayed_after_a_bind_that_is_not_recorded() {
    let (front, client, events) = front_with_client();
    let shared = &front.shared;
    // Like a change, a bind may use the half of the queue that reads may not use.
    assert!(shared.reserve(QUEUE_BYTES / 2, false));
    send(&client, 1, bind());
    client.unanswered(1);
    assert!(shared.reserve(QUEUE_BYTES - shared.bytes(), true));
    send(&client, 2, bind());
    shared.release(QUEUE_BYTES / 2);
    assert_eq!((shared.out_of_step(), recorded(&events)), (None, vec![(Kind::Bind, false)]));
    send(&client, 3, delete());
    assert!(shared.out_of_step().unwrap().contains("at the bind of a client"));
    send(&client, 4, bind());
    send(&client, 5, delete());
    client.unanswered(4);
    client.unanswered(5);
    assert_eq!(recorded(&events), [(Kind::Bind, false), (Kind::Delete, false)]);
}

/// Regression test: a change that the client abandoned counted as outstanding for ever, so that nothing was compared
/// and no switch was possible. A change whose message id was used again was not replayed.
#[test]
fn abandoned_changes_and_changes_with_a_reused_id_are_replayed() {
    let (front, client, events) = front_with_client();
    send(&client, 1, delete());
    send(&client, 2, Request::Abandon(MessageId(1)));
    assert_eq!((front.changes_outstanding.get(), recorded(&events)), (0, vec![(Kind::Delete, false)]));
    send(&client, 3, delete());
    send(&client, 3, delete());
    assert_eq!((front.changes_outstanding.get(), recorded(&events)), (1, vec![(Kind::Delete, false)]));
    // A bind cannot be abandoned.
    send(&client, 4, bind());
    send(&client, 5, Request::Abandon(MessageId(4)));
    assert!(client.pending.borrow().contains_key(&4) && recorded(&events).is_empty());
}

/// Regression test: connections in a TLS handshake, or without a server yet, were not counted.
#[test]
fn connections_count_until_they_end() {
    let (front, ..) = front_with_client();
    let places = [front.admit(), front.admit()];
    assert!(places.iter().all(Option::is_some) && front.admit().is_none());
    drop(places);
    assert!(front.admit().is_some());
}

/// Regression test: a client whose connection to the old server was being made during a switch stayed there.
#[test]
fn a_client_that_connects_during_a_switch_gets_the_new_server() {
    let listener = || TcpListener::bind("127.0.0.1:0").unwrap();
    let (old, new, own) = (listener(), listener(), listener());
    let server = |listener: &TcpListener, tls| {
        let (host, port) = ("127.0.0.1".to_owned(), listener.local_addr().unwrap().port());
        Server { url: ServerUrl::Internet { host, port, tls: false }, tls }
    };
    let (sender, _events) = channel();
    // The connection to the old server waits for the answer to StartTLS.
    let servers = [server(&old, Some(Tls::insecure().unwrap())), server(&new, None)];
    let front = Rc::new(Front::new(servers, 2, Arc::new(Shared::new(QUEUE_BYTES)), sender));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (asked, mut was_asked) = tokio::sync::mpsc::unbounded_channel();
    let old = std::thread::spawn(move || {
        let (mut stream, _) = old.accept().unwrap();
        stream.read_exact(&mut [0; 2]).unwrap();
        asked.send(stream).unwrap();
    });
    LocalSet::new().block_on(&runtime, async {
        let socket = TcpStream::connect(own.local_addr().unwrap()).await.unwrap();
        spawn_local(Rc::clone(&front).serve(Box::new(socket)));
        let stream = was_asked.recv().await.unwrap();
        front.switch(1).await.unwrap();
        drop(stream);
        let connected = async {
            while front.client_count() == 0 {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(60), connected)
            .await
            .expect("the client has a connection to the new server");
    });
    old.join().unwrap();
    assert!(new.accept().is_ok());
}
