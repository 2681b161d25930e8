//! A proxy before the port on which a node listens for the others: where it is cut, nobody reaches that node.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Passes connections on, until it is cut; its threads end with the process.
pub(crate) struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    is_cut: AtomicBool,
    /// Both ends of all connections there ever were since the last cut.
    open: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    pub(crate) fn start(to: SocketAddr) -> io::Result<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, state) = (listener.local_addr()?, Arc::<State>::default());
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if !shared.is_cut.load(Ordering::SeqCst) {
                    // Where the node does not run, the client finds its connection closed.
                    let _ = TcpStream::connect(to).and_then(|node| shared.join(client, node));
                }
            }
        });
        Ok(Proxy { address, state })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends all connections and takes no others, or takes them again.
    pub(crate) fn cut(&self, is_cut: bool) {
        self.state.is_cut.store(is_cut, Ordering::SeqCst);
        let mut open = self.state.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }
}

impl State {
    fn join(&self, client: TcpStream, node: TcpStream) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.extend([client.try_clone()?, node.try_clone()?]);
        for (mut from, mut to) in [(client.try_clone()?, node.try_clone()?), (node, client)] {
            std::thread::spawn(move || {
                let _ = io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Both);
            });
        }
        Ok(())
    }
}
