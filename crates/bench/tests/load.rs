//! The load driver against a server that answers everything at once.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use bench::load::requests::{AddPeople, ReplaceAttribute, SearchByUid};
use bench::load::{self, Options};
use ldap::{Controls, DecodeLimits, LdapResult, Message, ResponseOp, ResultCode, response};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// A server that answers every request with this code, and every third with busy instead.
fn answering(code: ResultCode) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || answer(stream.unwrap(), code));
        }
    });
    address
}

fn answer(mut stream: TcpStream, code: ResultCode) {
    let (mut input, mut output, mut chunk) = (Vec::new(), Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = stream.read(&mut chunk) {
        input.extend_from_slice(&chunk[..count]);
        while let Some(len) = ldap::frame_len(&input).unwrap().filter(|len| *len <= input.len()) {
            let message = Message::decode(&input[..len], &DecodeLimits::AUTHENTICATED).unwrap();
            let op = ResponseOp::answering(&message.request).unwrap();
            let code = if message.id.0 % 3 == 0 { ResultCode::BUSY } else { code };
            let result = LdapResult::new(code, "");
            response::encode_result(&mut output, message.id, op, &result, Controls::NONE);
            input.drain(..len);
        }
        if stream.write_all(&output).is_err() {
            return;
        }
        output.clear();
    }
}

fn options(address: SocketAddr) -> Options {
    Options {
        address,
        connections: 5,
        outstanding: 3,
        bind: None,
        warm_up: Duration::ZERO,
        measure: None,
        server_process: Some(std::process::id()),
    }
}

#[test]
fn a_workload_that_ends_is_asked_to_its_end() {
    let summary = load::drive(&options(answering(ResultCode::SUCCESS)), &mut AddPeople::new(1000)).unwrap();
    assert_eq!(summary.operations, 1000);
    assert_eq!(summary.codes.values().sum::<u64>(), 1000);
    assert_eq!(summary.failures(), summary.codes[&ResultCode::BUSY.0]);
    assert_eq!(summary.latency_micros.len(), 1000);
    assert!(summary.server_cpu.is_some());
}

#[test]
fn a_workload_without_end_is_asked_for_a_time() {
    let mut options = options(answering(ResultCode::SUCCESS));
    options.warm_up = Duration::from_millis(20);
    options.measure = Some(Duration::from_millis(100));
    for summary in [
        load::drive(&options, &mut SearchByUid::new(1, 100, &["1.1"])).unwrap(),
        load::drive(&options, &mut ReplaceAttribute::new(1, 100, "description")).unwrap(),
    ] {
        assert!(summary.operations > 0 && summary.elapsed >= Duration::from_millis(100));
        assert!(summary.rate() > 0.0);
    }
}
