//! Encoding of frames.

use std::net::IpAddr;

use super::{
    AccountUpdate, Answer, BindMethod, ForwardedRequester, LdapResult, Pair, Prepared, Reply, Request,
    TransactionChange, VERSION, Work,
};
use crate::codec::{put_length, put_operation};

/// Encodes a frame of requests. The caller enforces the limits defined in [`super`].
pub fn encode_requests(requests: &[Request]) -> Vec<u8> {
    frame(requests, |out, request| {
        put_operation(out, &request.operation);
        out.extend(request.epoch.to_be_bytes());
        out.extend(request.link.incarnation.to_be_bytes());
        out.extend(request.link.number.to_be_bytes());
        out.extend(request.position.to_be_bytes());
        put_requester(out, &request.requester);
        put_method(out, &request.method);
        out.extend(request.strength.to_be_bytes());
        put_network(out, request.network);
        put_option(out, request.listener.as_ref(), |out, name| put_bytes(out, name.as_bytes()));
        put_work(out, &request.work);
    })
}

/// Encodes a frame of answers. The caller enforces the limits defined in [`super`].
pub fn encode_answers(answers: &[Answer]) -> Vec<u8> {
    frame(answers, |out, answer| {
        put_operation(out, &answer.operation);
        match &answer.reply {
            Reply::Decided { position, result } => {
                out.push(0);
                out.extend(position.to_be_bytes());
                put_result(out, result);
            }
            Reply::Applied { position } => {
                out.push(1);
                out.extend(position.to_be_bytes());
            }
            Reply::TooOld => out.push(2),
            Reply::NotWriter => out.push(3),
        }
    })
}

fn frame<T>(items: &[T], put: impl Fn(&mut Vec<u8>, &T)) -> Vec<u8> {
    let mut out = vec![VERSION];
    put_list(&mut out, items, put);
    out
}

fn put_requester(out: &mut Vec<u8>, requester: &ForwardedRequester) {
    match requester {
        ForwardedRequester::Anonymous => out.push(0),
        ForwardedRequester::Administrator { dn } => {
            out.push(1);
            put_bytes(out, dn.as_bytes());
        }
        ForwardedRequester::Entry { id, dn } => {
            out.push(2);
            out.extend(id.to_be_bytes());
            put_bytes(out, dn.as_bytes());
        }
    }
}

fn put_method(out: &mut Vec<u8>, method: &BindMethod) {
    match method {
        BindMethod::None => out.push(0),
        BindMethod::Simple => out.push(1),
        BindMethod::Sasl(mechanism) => {
            out.push(2);
            put_bytes(out, mechanism.as_bytes());
        }
    }
}

fn put_network(out: &mut Vec<u8>, network: Option<IpAddr>) {
    match network {
        None => out.push(0),
        Some(IpAddr::V4(address)) => {
            out.push(4);
            out.extend(address.octets());
        }
        Some(IpAddr::V6(address)) => {
            out.push(6);
            out.extend(address.octets());
        }
    }
}

fn put_work(out: &mut Vec<u8>, work: &Work) {
    match work {
        Work::Change { message, passwords } => {
            out.push(0);
            put_bytes(out, message);
            put_prepared(out, passwords);
        }
        Work::Transaction(changes) => {
            out.push(2);
            put_list(out, changes, |out, TransactionChange { message, passwords }| {
                put_bytes(out, message);
                put_prepared(out, passwords);
            });
        }
        Work::Account { id, update } => {
            out.push(1);
            out.extend(id.to_be_bytes());
            put_update(out, update);
        }
    }
}

fn put_prepared(out: &mut Vec<u8>, passwords: &Prepared) {
    put_list(out, &passwords.hashed, put_pair);
    put_list(out, &passwords.matched, put_pair);
    put_list(out, &passwords.former, |out, form| put_bytes(out, form));
    put_list(out, &passwords.former_matching, |out, form| put_bytes(out, form));
    put_list(out, &passwords.scram, |out, (clear, keys)| {
        put_bytes(out, clear);
        put_list(out, keys, |out, keys| put_bytes(out, keys.as_bytes()));
    });
    put_list(out, &passwords.listed, |out, clear| put_bytes(out, clear));
}

fn put_update(out: &mut Vec<u8>, update: &AccountUpdate) {
    let put_time = |out: &mut Vec<u8>, time: &i64| out.extend(time.to_be_bytes());
    put_list(out, &update.failures, put_time);
    put_option(out, update.success.as_ref(), put_time);
    out.push(u8::from(update.clears_failures));
    put_option(out, update.grace.as_ref(), put_time);
    put_option(out, update.rehashed.as_ref(), put_pair);
    put_option(out, update.keys.as_ref(), |out, (stored, keys)| {
        put_bytes(out, stored);
        put_list(out, keys, |out, keys| put_bytes(out, keys.as_bytes()));
    });
    put_option(out, update.totp_step.as_ref(), put_time);
    put_list(out, &update.app_uses, |out, (options, time)| {
        put_bytes(out, options.as_bytes());
        put_time(out, time);
    });
}

fn put_result(out: &mut Vec<u8>, result: &LdapResult) {
    out.extend(result.code.to_be_bytes());
    put_bytes(out, result.matched_dn.as_bytes());
    put_bytes(out, result.diagnostic.as_bytes());
    put_list(out, &result.referrals, |out, url| put_bytes(out, url.as_bytes()));
    put_option(out, result.policy.as_ref(), |out, error| out.push(*error));
    put_option(out, result.value.as_ref(), |out, value| put_bytes(out, value));
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_length(out, bytes.len());
    out.extend(bytes);
}

fn put_pair(out: &mut Vec<u8>, (value, computed): &Pair) {
    put_bytes(out, value);
    put_bytes(out, computed);
}

fn put_list<T>(out: &mut Vec<u8>, items: &[T], put: impl Fn(&mut Vec<u8>, &T)) {
    put_length(out, items.len());
    items.iter().for_each(|item| put(out, item));
}

fn put_option<T>(out: &mut Vec<u8>, item: Option<&T>, put: impl FnOnce(&mut Vec<u8>, &T)) {
    out.push(u8::from(item.is_some()));
    if let Some(item) = item {
        put(out, item);
    }
}
