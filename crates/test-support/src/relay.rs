//! A relay between a client and a server, which cuts or holds connections after some bytes.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// End of a connection through the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// One side closes the connection.
    ToTheEnd,
    /// The relay cuts the connection after this number of bytes from the server.
    CutAfter(u64),
    /// The relay stops passing data on after this number of bytes from the server.
    HeldAfter(u64),
    /// The relay stops passing on the server's data after this number of bytes from the clients, in total over all
    /// such connections.
    HeldAfterSent(u64),
}

/// A running relay. It accepts no connections after it is dropped, but existing connections continue.
pub struct Relay {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    held: Receiver<()>,
    /// The client sides of all connections.
    clients: Arc<Mutex<Vec<TcpStream>>>,
}

impl Relay {
    /// Starts a relay to a server. `lasts` returns how a connection ends, given its number, counted from 0.
    pub fn to(server: SocketAddr, mut lasts: impl FnMut(usize) -> ConnectionEnd + Send + 'static) -> Relay {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let is_over = Arc::<AtomicBool>::default();
        let (sender, held) = channel();
        let own = Arc::clone(&is_over);
        let sent = Arc::<AtomicU64>::default();
        let clients = Arc::<Mutex<Vec<TcpStream>>>::default();
        let all = Arc::clone(&clients);
        let run = move || {
            for (number, client) in listener.incoming().enumerate() {
                if own.load(Ordering::SeqCst) {
                    return;
                }
                let client = client.unwrap();
                // Without the server, the connection is closed here. If it were added to `clients`, it would stay open.
                if let Ok(server) = TcpStream::connect(server) {
                    // Otherwise each answer of two segments waits for a delayed acknowledgment.
                    client.set_nodelay(true).unwrap();
                    server.set_nodelay(true).unwrap();
                    all.lock().unwrap().push(client.try_clone().unwrap());
                    match lasts(number) {
                        ConnectionEnd::HeldAfterSent(most) => {
                            hold(&client, &server, (Arc::clone(&sent), most), sender.clone());
                        }
                        lasts => pass(client, server, lasts, sender.clone()),
                    }
                }
            }
        };
        Relay { address, is_over, thread: Some(std::thread::spawn(run)), held, clients }
    }

    /// Cuts all connections.
    pub fn cut(&self) {
        for client in self.clients.lock().unwrap().drain(..) {
            let _ = client.shutdown(Shutdown::Both);
        }
    }

    /// Returns the address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until a connection is held.
    #[track_caller]
    pub fn wait_for_hold(&self) {
        self.held.recv_timeout(super::DEADLINE).expect("a connection is held");
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Passes bytes in both directions, on separate threads.
fn pass(client: TcpStream, server: TcpStream, lasts: ConnectionEnd, held: Sender<()>) {
    let (mut asks, mut asked) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut asks, &mut asked);
        let _ = asked.shutdown(Shutdown::Write);
    });
    std::thread::spawn(move || {
        let (mut client, mut server) = (client, server);
        let most = match lasts {
            ConnectionEnd::ToTheEnd | ConnectionEnd::HeldAfterSent(_) => u64::MAX,
            ConnectionEnd::CutAfter(bytes) | ConnectionEnd::HeldAfter(bytes) => bytes,
        };
        let passed = std::io::copy(&mut Read::by_ref(&mut server).take(most), &mut client).unwrap_or(0);
        let _ = client.flush();
        if matches!(lasts, ConnectionEnd::HeldAfter(_)) && passed == most {
            let _ = held.send(());
            // Discard the server's bytes until the client or the server ends.
            let _ = std::io::copy(&mut server, &mut std::io::sink());
        }
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
    });
}

/// Passes bytes in both directions. Drops the server's bytes after the clients have sent `most` bytes in total.
fn hold(client: &TcpStream, server: &TcpStream, (sent, most): (Arc<AtomicU64>, u64), held: Sender<()>) {
    let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let counted = Arc::clone(&sent);
    std::thread::spawn(move || {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            // Count before passing the bytes on, so that no answer to them can overtake the count.
            let before = counted.fetch_add(count as u64, Ordering::SeqCst);
            if (before..before + count as u64).contains(&(most - 1)) {
                let _ = held.send(());
            }
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
    let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    std::thread::spawn(move || {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if sent.load(Ordering::SeqCst) < most && to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    });
}
