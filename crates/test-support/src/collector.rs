//! A receiver of traces sent by the OpenTelemetry protocol.

use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::Value;

use super::DEADLINE;

/// A request that contains traces.
pub struct Export {
    /// Request line and headers.
    pub head: String,
    /// The exported spans.
    pub body: Value,
}

/// A receiver of traces, which accepts all requests and keeps connections open.
pub struct Collector {
    /// Address to which servers send.
    pub address: SocketAddr,
    /// Requests in the order of their arrival.
    pub exports: Receiver<Export>,
    /// All spans received so far.
    pub spans: Vec<Value>,
}

impl Collector {
    /// Starts a receiver on a free port.
    pub fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, exports) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let sender = sender.clone();
                // Each server keeps its connection open.
                std::thread::spawn(move || receive(stream, &sender));
            }
        });
        Collector { address, exports, spans: Vec::new() }
    }

    /// Waits for the next request, and adds its spans to those received so far.
    #[track_caller]
    pub fn next_export(&mut self) -> Export {
        let export = self.exports.recv_timeout(DEADLINE).expect("a request with traces");
        let spans = &export.body["resourceSpans"][0]["scopeSpans"][0]["spans"];
        self.spans.extend(spans.as_array().unwrap().iter().cloned());
        export
    }

    /// Waits for a span of an operation for which `fits` returns true.
    #[track_caller]
    pub fn span(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            if let Some(found) = self.spans.iter().find(|span| span["kind"] == 2 && fits(span)) {
                return found.clone();
            }
            self.next_export();
        }
    }

    /// Waits for a span of `operation` whose child spans have the names `stages`.
    #[track_caller]
    pub fn span_with(&mut self, operation: &str, stages: &[&str]) -> Value {
        loop {
            let mut fitting = self.spans.iter().filter(|span| span["kind"] == 2 && is_of(span, operation));
            if let Some(found) = fitting.find(|span| self.stages(span) == stages) {
                return found.clone();
            }
            self.next_export();
        }
    }

    /// Returns the names of the child spans of a span.
    pub fn stages(&self, parent: &Value) -> Vec<&str> {
        let below = self.spans.iter().filter(|span| span["parentSpanId"] == parent["spanId"]);
        below.map(|span| span["name"].as_str().unwrap()).collect()
    }
}

/// Accepts the requests of a connection.
fn receive(mut stream: TcpStream, exports: &Sender<Export>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some((head, body)) = read_request(&mut reader) {
        if exports.send(Export { head, body }).is_err() {
            return;
        }
        let answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
        stream.write_all(answer).unwrap();
    }
}

fn read_request(reader: &mut impl std::io::BufRead) -> Option<(String, Value)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.expect("a length")];
    reader.read_exact(&mut body).unwrap();
    Some((head, serde_json::from_slice(&body).unwrap()))
}

/// Returns the value of an attribute of a span, as text.
pub fn attribute(span: &Value, name: &str) -> Option<String> {
    let list = span["attributes"].as_array().unwrap();
    let found = &list.iter().find(|attribute| attribute["key"] == name)?["value"];
    let value =
        found.get("stringValue").or_else(|| found.get("intValue")).or_else(|| found.get("boolValue"))?;
    Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

/// Returns true if the span is of this operation.
pub fn is_of(span: &Value, operation: &str) -> bool {
    attribute(span, "rpc.method").as_deref() == Some(operation)
}
