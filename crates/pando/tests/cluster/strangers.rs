//! Copies that are interrupted while a node joins, and forwarded changes from senders that are not nodes of the
//! cluster.

use std::io::Read;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};

use client::{ClientError, Connection, Tls};
use ldap::{AddRequest, AttributesBuf, Controls, Message, MessageId, Request, ResultCode};
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use replication::forward::{self, BindMethod, ForwardedRequester, Link, Prepared, Work};
use replication::{NodeId, OperationId};
use test_support::cluster::{Cluster, add, add_unit, figure, position, read, unit, until};
use test_support::pando::Start;
use test_support::{ADMIN_DN, Pando};

/// Octets after which a copy is interrupted: fewer than the packed directory of this test.
const BREAKS_AFTER: u64 = 8_000;

#[test]
fn strangers_change_no_data_and_broken_copies_leave_no_files() {
    let (cluster, first) = Cluster::new("cluster-strangers");
    an_interrupted_copy_is_started_again(&cluster, &first);
    a_stranger_forwards_nothing(&cluster, first);
}

/// Starts a listener that forwards connections to an address. If `closes` is true, the listener closes a connection
/// after it has received [`BREAKS_AFTER`] octets from that address. Otherwise it holds back all further octets.
fn start_interrupting_listener(to: SocketAddr, closes: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut server = TcpStream::connect(to).unwrap();
        let (mut asks, mut asked) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let asking = std::thread::spawn(move || {
            // If the client is killed, close the connection to the server.
            let _ = std::io::copy(&mut asks, &mut asked);
            let _ = asked.shutdown(Shutdown::Both);
        });
        std::io::copy(&mut Read::by_ref(&mut server).take(BREAKS_AFTER), &mut client).unwrap();
        if closes {
            let _ = client.shutdown(Shutdown::Both);
        }
        asking.join().unwrap();
    });
    address
}

/// After an interrupted copy, neither the joining node nor the sending node keeps parts of the copy, whether the
/// network failed or the process was killed. The next copy is complete.
fn an_interrupted_copy_is_started_again(cluster: &Cluster, first: &Pando) {
    let mut one = first.administrator();
    for number in 0..100 {
        let text: String = std::iter::repeat_with(fastrand::alphanumeric).take(500).collect();
        let name = format!("filled-{number}");
        let attributes = [("objectClass", "organizationalUnit"), ("description", text.as_str())];
        add(&mut one, &unit(&name), &attributes);
    }
    let invitation = cluster.invite(2);
    let address: SocketAddr = figure(first, "Address").parse().unwrap();
    let (incoming, outgoing) =
        (cluster.data(2).join("copy-being-received"), cluster.data(1).join("copy-being-sent"));
    let join = |address: SocketAddr| {
        let words = ["join", "--invitation", &invitation, "--copy-from", &address.to_string()];
        cluster.cluster_command(2, &words)
    };
    let is_nothing = || {
        let left = |name: &str| cluster.data(2).join(name).exists();
        !left("data.mdb") && !left("cluster/identity.toml")
    };

    // The network fails.
    let broken = join(start_interrupting_listener(address, true));
    assert!(broken.code != Some(0) && broken.stderr.contains("no copy of node 1"), "{broken}");
    assert!(is_nothing() && !incoming.exists(), "the interrupted copy is removed");

    // The joining node is killed.
    let node_file = cluster.node_file(2);
    let spawn = || {
        Command::new(test_support::pando::program())
            .args(["cluster", "join", "--node", node_file.to_str().unwrap(), "--invitation", &invitation])
            .args(["--copy-from", &start_interrupting_listener(address, false).to_string(), "--data"])
            .arg(cluster.data(2))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut joining = spawn();
    until("the copy has begun", || {
        let has_started = incoming.join("data.mdb").exists();
        // The node is refused while the previous copy is still being sent.
        if !has_started && joining.try_wait().unwrap().is_some() {
            joining = spawn();
        }
        has_started.then_some(())
    });
    joining.kill().unwrap();
    joining.wait().unwrap();
    assert!(is_nothing() && incoming.exists(), "half a copy is not yet data");

    // The sender notices the end at its next write. Until then, it refuses another copy.
    let joined = until("a copy that is whole", || {
        let run = join(address);
        assert!(run.code == Some(0) || run.stderr.contains("another copy is being sent"), "{run}");
        (run.code == Some(0)).then_some(run)
    });
    joined.expect_output("node 2 is made");
    assert!(!incoming.exists());
    until("the sender has cleared up", || (!outgoing.exists()).then_some(()));
    let second = cluster.start(2);
    assert_eq!(add_unit(&mut second.administrator(), "whole").code, ResultCode::SUCCESS);
    cluster.expect_equal(&[(1, first), (2, &second)]);
    assert!(second.stop().success());
}

/// A certificate and its key in PEM form, and the authority that both ends of a connection trust.
struct MemberIdentity {
    authority: String,
    own: Option<(String, String)>,
}

impl MemberIdentity {
    /// Returns the certificate and key of a node, and the cluster's authority.
    fn of(cluster: &Cluster, node: u32) -> MemberIdentity {
        let file = cluster.data(node).join("cluster/identity.toml");
        let text: toml::Table = std::fs::read_to_string(file).unwrap().parse().unwrap();
        let text = |name: &str| text[name].as_str().unwrap().to_owned();
        MemberIdentity {
            authority: text("authority"),
            own: Some((text("certificate"), text("certificate_key"))),
        }
    }

    /// Returns a new certificate for `name`, signed by `issuer`, and its key.
    fn signed(&self, issuer: &Issuer<'_, KeyPair>, name: &str) -> MemberIdentity {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, issuer).unwrap();
        let own = Some((certificate.pem(), key.serialize_pem()));
        MemberIdentity { authority: self.authority.clone(), own }
    }

    /// Returns the TLS settings of a client that has this certificate and trusts the authorities in `trusted`.
    fn tls(&self, trusted: &[u8]) -> Tls {
        match &self.own {
            Some((certificate, key)) => {
                Tls::with_certificate(trusted, certificate.as_bytes(), key.as_bytes()).unwrap()
            }
            None => Tls::authorities(trusted).unwrap(),
        }
    }
}

/// Forges a forwarded change of a node, in which the administrator adds a unit.
fn forged(node: u32, epoch: u64, number: u64, name: &str) -> Vec<u8> {
    let entry = unit(name);
    let mut attributes = AttributesBuf::new();
    attributes.push("objectClass", ["organizationalUnit"]);
    let request = Request::Add(AddRequest { entry: &entry, attributes: attributes.as_attributes() });
    let mut message = Vec::new();
    Message { id: MessageId(1), request, controls: Controls::NONE }.encode(&mut message);
    // This incarnation is larger than any incarnation of the node itself.
    let incarnation = u64::MAX / 2;
    let request = forward::Request {
        operation: OperationId { node: NodeId(node), incarnation, sequence: number },
        epoch,
        link: Link { incarnation, number },
        position: 0,
        requester: ForwardedRequester::Administrator { dn: ADMIN_DN.to_owned() },
        method: BindMethod::Simple,
        strength: 256,
        network: None,
        listener: None,
        work: Work::Change { message, passwords: Prepared::default() },
    };
    let frame = forward::encode_requests(&[request]);
    [&u32::try_from(frame.len()).unwrap().to_be_bytes(), &*frame].concat()
}

/// Sends a frame, over TLS if `tls` is given, and waits until the server has closed the connection.
fn send_and_be_closed(address: SocketAddr, tls: Option<(&Tls, &str)>, frame: &[u8], what: &str) {
    let stream = TcpStream::connect(address).unwrap();
    let connection = match tls {
        None => Connection::over_tcp(stream),
        Some((tls, host)) => Connection::secured(stream, tls, host),
    };
    // In TLS 1.3, a client learns only when it reads that its certificate was refused.
    let Ok(mut connection) = connection else { return };
    let _ = connection.send_bytes(frame);
    if let Err(ClientError::TimedOut) = connection.closed() {
        panic!("{what}: the connection stays open");
    }
}

/// Without the certificate of a member, a sender cannot forward changes on any listener. A member can, but only on the
/// cluster listener.
fn a_stranger_forwards_nothing(cluster: &Cluster, first: Pando) {
    cluster.join(3);
    let third = cluster.start(3);
    until("the log knows node 3", || test_support::cluster::figure_of(&first, "Node 3"));
    assert!(third.stop().success());
    let node = MemberIdentity::of(cluster, 3);

    // The listener for clients requests certificates of the cluster's authority, so it accepts them in TLS.
    assert!(first.stop().success());
    let authority = cluster.scratch.write("authority.pem", &node.authority);
    let file = cluster.node_file(1);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text}[tls]\nclient_authorities = {authority:?}\n")).unwrap();
    let first = Start::bare(&cluster.scratch, "node-1")
        .arguments(&["--node", file.to_str().unwrap(), "--listen", "ldaps://127.0.0.1:0"])
        .ready();
    until("it writes", || (figure(&first, "Role") == "writing").then_some(()));
    let epoch = figure(&first, "Epoch").parse().unwrap();
    let for_nodes: SocketAddr = figure(&first, "Address").parse().unwrap();
    let secure = first.ready_line.split_once("ldaps://").unwrap().1;
    let secure: SocketAddr = secure.split_whitespace().next().unwrap().parse().unwrap();
    let servers = std::fs::read(cluster.data(1).join("tls/certificate.pem")).unwrap();

    // The frame itself is valid: if the node sends it to the cluster listener, the change is applied.
    let tls = node.tls(node.authority.as_bytes());
    let stream = TcpStream::connect(for_nodes).unwrap();
    let mut connection = Connection::secured(stream, &tls, "node-1.pando-cluster").unwrap();
    connection.send_bytes(&forged(3, epoch, 1, "by-the-node")).unwrap();
    let mut administrator = first.administrator();
    until("the change is made", || read(&mut administrator, &unit("by-the-node")));

    let own_key = std::fs::read_to_string(cluster.data(1).join("cluster/authority-key.pem")).unwrap();
    let authority = |key| {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "pando cluster");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Issuer::new(params, key)
    };
    let own = authority(KeyPair::from_pem(&own_key).unwrap());
    let foreign = authority(KeyPair::generate().unwrap());
    let nobody = MemberIdentity { authority: node.authority.clone(), own: None };
    let strangers = [
        ("nobody", &nobody),
        ("a node of another cluster", &node.signed(&foreign, "node-3.pando-cluster")),
        ("a client of the same authority", &node.signed(&own, "somebody")),
        ("a client by another authority", &node.signed(&foreign, "somebody")),
    ];
    let before = position(&first);
    let mut number = 1;
    let mut try_all = |who: &str, papers: &MemberIdentity, listeners: &[&str]| {
        for listener in listeners {
            number += 1;
            let what = format!("{who} at the {listener}");
            let frame = forged(3, epoch, number, &format!("forged-{number}"));
            let (of_cluster, of_server) = (papers.tls(papers.authority.as_bytes()), papers.tls(&servers));
            match *listener {
                "cluster's" => {
                    let tls = Some((&of_cluster, "node-1.pando-cluster"));
                    send_and_be_closed(for_nodes, tls, &frame, &what);
                    // Without TLS, the frame is refused too.
                    send_and_be_closed(for_nodes, None, &frame, &what);
                }
                "secure one" => send_and_be_closed(secure, Some((&of_server, "localhost")), &frame, &what),
                _ => send_and_be_closed(first.address(), None, &frame, &what),
            }
            assert_eq!(position(&first), before, "{what}");
        }
    };
    for (who, papers) in strangers {
        try_all(who, papers, &["cluster's", "secure one", "clear one"]);
    }
    try_all("the node", &node, &["secure one", "clear one"]);

    // After the node is unregistered, its certificate is refused too.
    cluster.cluster_command(1, &["unregister", "3"]).expect_code(0).expect_output("node 3 is unregistered");
    until("the node is gone", || figure(&first, "Node 3").starts_with("gone").then_some(()));
    try_all("a node that is gone", &node, &["cluster's", "secure one", "clear one"]);
    assert_eq!(add_unit(&mut administrator, "afterwards").code, ResultCode::SUCCESS);
    assert_eq!(position(&first), before + 1);
}
