//! A source of content synchronization (RFC 4533) that sends the messages that a test specifies.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use ldap::response::{self, SearchEntryLens};
use ldap::{
    Control, Controls, ControlsBuf, DecodeLimits, LdapResult, Message, MessageId, Request, ResponseOp,
    ResultCode, SyncInfo, SyncRequest, SyncState, SyncStateValue, SyncUuid, oids,
};

use super::DEADLINE;

/// A running source. Its threads end with the process.
pub struct SyncSource {
    address: SocketAddr,
    searches: Receiver<SyncSearch>,
}

/// A search of a consumer, with the messages to send next. Dropping it closes the connection.
pub struct SyncSearch {
    stream: TcpStream,
    id: MessageId,
    output: Vec<u8>,
    /// Cookie that the consumer sent.
    pub cookie: Option<Vec<u8>>,
}

impl SyncSource {
    /// Starts a source on a free port.
    pub fn start() -> SyncSource {
        SyncSource::start_distant(Duration::ZERO)
    }

    /// Starts a source on a free port that answers a search without content synchronization after `delay`.
    pub fn start_distant(delay: Duration) -> SyncSource {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, searches) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let sender = sender.clone();
                std::thread::spawn(move || serve(stream.unwrap(), &sender, delay));
            }
        });
        SyncSource { address, searches }
    }

    /// Returns the address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the next search.
    pub fn search(&self) -> SyncSearch {
        self.searches.recv_timeout(DEADLINE).expect("a consumer searches")
    }
}

/// Answers binds, and passes searches on to the test.
fn serve(mut stream: TcpStream, searches: &Sender<SyncSearch>, delay: Duration) {
    let mut input = Vec::new();
    while read_message(&mut stream, &mut input) {
        let message = Message::decode(&input, &DecodeLimits::default()).unwrap();
        let (id, mut out) = (message.id, Vec::new());
        let success = LdapResult::new(ResultCode::SUCCESS, "");
        match message.request {
            Request::Bind(_) => {
                response::encode_bind_response(&mut out, id, &success, None, Controls::NONE);
            }
            Request::Search(_) => match message.controls.find(oids::SYNC_REQUEST) {
                Some(control) => {
                    let request = SyncRequest::decode(control.value.unwrap()).unwrap();
                    let cookie = request.cookie.map(<[u8]>::to_vec);
                    if request.persists {
                        let stream = stream.try_clone().unwrap();
                        let _ = searches.send(SyncSearch { stream, id, output: Vec::new(), cookie });
                    } else {
                        // Refuse the search for a first copy.
                        let refused = LdapResult::new(ResultCode::PROTOCOL_ERROR, "no polls");
                        let done = ResponseOp::SearchDone;
                        response::encode_result(&mut out, id, done, &refused, Controls::NONE);
                    }
                }
                None => {
                    std::thread::sleep(delay);
                    response::encode_result(&mut out, id, ResponseOp::SearchDone, &success, Controls::NONE)
                }
            },
            _ => return,
        }
        if stream.write_all(&out).is_err() {
            return;
        }
    }
}

/// Reads the next message of a client. Returns false at the end of the connection.
pub fn read_message(stream: &mut TcpStream, input: &mut Vec<u8>) -> bool {
    input.clear();
    let mut octet = [0];
    while stream.read(&mut octet).is_ok_and(|count| count == 1) {
        input.push(octet[0]);
        if ldap::frame_len(input).unwrap() == Some(input.len()) {
            return true;
        }
    }
    false
}

impl SyncSearch {
    /// Adds a search result entry with a Sync State control. If the state is delete, `attributes` must be empty.
    pub fn entry(
        &mut self,
        (state, uuid): (SyncState, SyncUuid),
        cookie: Option<&str>,
        dn: &str,
        attributes: &[(&str, &[&str])],
    ) -> &mut SyncSearch {
        let value = SyncStateValue { state, uuid, cookie: cookie.map(str::as_bytes) }.encode();
        let control = Control { oid: oids::SYNC_STATE, critical: false, value: Some(&value) };
        let controls = ControlsBuf::from_iter([control]);
        let controls = controls.as_controls();
        let values_len = |values: &[&str]| values.iter().map(|value| response::value_len(value.len())).sum();
        let attribute_len =
            |(name, values): &(&str, &[&str])| response::attribute_len(name.len(), values_len(values));
        let lens = SearchEntryLens {
            dn_len: dn.len(),
            attributes_len: attributes.iter().map(attribute_len).sum(),
            controls_len: controls.as_bytes().len(),
        };
        let out = &mut self.output;
        response::put_search_entry_header(out, self.id, lens);
        out.extend_from_slice(dn.as_bytes());
        response::put_attributes_header(out, lens.attributes_len);
        for (name, values) in attributes {
            response::put_attribute_header(out, name, values_len(values));
            values.iter().for_each(|value| response::put_value(out, value.as_bytes()));
        }
        response::put_controls(out, controls);
        self
    }

    /// Adds a Sync Info message.
    pub fn info(&mut self, info: &SyncInfo<'_>) -> &mut SyncSearch {
        let value = info.encode();
        let name = Some(oids::SYNC_INFO);
        response::encode_intermediate_response(&mut self.output, self.id, name, Some(&value), Controls::NONE);
        self
    }

    /// Sends the messages in one write, so that the consumer reads them together.
    pub fn send(&mut self) {
        self.stream.write_all(&std::mem::take(&mut self.output)).unwrap();
    }
}

impl Drop for SyncSearch {
    fn drop(&mut self) {
        // The consumer may have closed the connection.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}
