//! Decoding of frames. Lists grow with the bytes that are present; they are not allocated from an announced length.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{
    AccountUpdate, Answer, BindMethod, FRAME_BYTES_MAX, FRAME_ITEMS_MAX, ForwardedRequester, LIST_ITEMS_MAX,
    LdapResult, Link, Pair, Prepared, Reply, Request, TransactionChange, VERSION, Work,
};
use crate::codec::Reader;

/// Decodes a frame of requests; returns `None` if it is invalid.
pub fn decode_requests(frame: &[u8]) -> Option<Vec<Request>> {
    decode(frame, |reader| {
        Some(Request {
            operation: reader.operation()?,
            epoch: reader.u64()?,
            link: Link { incarnation: reader.u64()?, number: reader.u64()? },
            position: reader.u64()?,
            requester: requester(reader)?,
            method: method(reader)?,
            strength: reader.u32()?,
            network: network(reader)?,
            listener: option(reader, text)?,
            work: work(reader)?,
        })
    })
}

/// Decodes a frame of answers; returns `None` if it is invalid.
pub fn decode_answers(frame: &[u8]) -> Option<Vec<Answer>> {
    decode(frame, |reader| {
        let operation = reader.operation()?;
        let reply = match reader.u8()? {
            0 => Reply::Decided { position: reader.u64()?, result: result(reader)? },
            1 => Reply::Applied { position: reader.u64()? },
            2 => Reply::TooOld,
            3 => Reply::NotWriter,
            _ => return None,
        };
        Some(Answer { operation, reply })
    })
}

fn decode<T>(frame: &[u8], item: impl Fn(&mut Reader<'_>) -> Option<T>) -> Option<Vec<T>> {
    let mut reader = Reader(frame);
    if frame.len() > FRAME_BYTES_MAX || reader.u8()? != VERSION {
        return None;
    }
    let items = list_of(&mut reader, FRAME_ITEMS_MAX, item)?;
    reader.end()?;
    Some(items)
}

fn requester(reader: &mut Reader<'_>) -> Option<ForwardedRequester> {
    Some(match reader.u8()? {
        0 => ForwardedRequester::Anonymous,
        1 => ForwardedRequester::Administrator { dn: text(reader)? },
        2 => ForwardedRequester::Entry { id: reader.u64()?, dn: text(reader)? },
        _ => return None,
    })
}

fn method(reader: &mut Reader<'_>) -> Option<BindMethod> {
    Some(match reader.u8()? {
        0 => BindMethod::None,
        1 => BindMethod::Simple,
        2 => BindMethod::Sasl(text(reader)?),
        _ => return None,
    })
}

fn network(reader: &mut Reader<'_>) -> Option<Option<IpAddr>> {
    Some(match reader.u8()? {
        0 => None,
        4 => Some(IpAddr::V4(Ipv4Addr::from(reader.array::<4>()?))),
        6 => Some(IpAddr::V6(Ipv6Addr::from(reader.array::<16>()?))),
        _ => return None,
    })
}

fn work(reader: &mut Reader<'_>) -> Option<Work> {
    Some(match reader.u8()? {
        0 => Work::Change { message: reader.bytes()?.to_vec(), passwords: prepared(reader)? },
        1 => Work::Account { id: reader.u64()?, update: update(reader)? },
        2 => Work::Transaction(list(reader, |reader| {
            Some(TransactionChange { message: bytes(reader)?, passwords: prepared(reader)? })
        })?),
        _ => return None,
    })
}

fn prepared(reader: &mut Reader<'_>) -> Option<Prepared> {
    Some(Prepared {
        hashed: list(reader, pair)?,
        matched: list(reader, pair)?,
        former: list(reader, bytes)?,
        former_matching: list(reader, bytes)?,
        scram: list(reader, |reader| Some((bytes(reader)?, list(reader, text)?)))?,
        listed: list(reader, bytes)?,
    })
}

fn update(reader: &mut Reader<'_>) -> Option<AccountUpdate> {
    Some(AccountUpdate {
        failures: list(reader, time)?,
        success: option(reader, time)?,
        clears_failures: flag(reader)?,
        grace: option(reader, time)?,
        rehashed: option(reader, pair)?,
        keys: option(reader, |reader| Some((bytes(reader)?, list(reader, text)?)))?,
        totp_step: option(reader, time)?,
        app_uses: list(reader, |reader| Some((text(reader)?, time(reader)?)))?,
    })
}

fn result(reader: &mut Reader<'_>) -> Option<LdapResult> {
    Some(LdapResult {
        code: reader.u32()?,
        matched_dn: text(reader)?,
        diagnostic: text(reader)?,
        referrals: list(reader, text)?,
        policy: option(reader, Reader::u8)?,
        value: option(reader, bytes)?,
    })
}

fn bytes(reader: &mut Reader<'_>) -> Option<Vec<u8>> {
    reader.bytes().map(<[u8]>::to_vec)
}

fn text(reader: &mut Reader<'_>) -> Option<String> {
    String::from_utf8(bytes(reader)?).ok()
}

fn pair(reader: &mut Reader<'_>) -> Option<Pair> {
    Some((bytes(reader)?, bytes(reader)?))
}

fn time(reader: &mut Reader<'_>) -> Option<i64> {
    reader.array().map(i64::from_be_bytes)
}

fn flag(reader: &mut Reader<'_>) -> Option<bool> {
    match reader.u8()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn option<'m, T>(
    reader: &mut Reader<'m>,
    item: impl FnOnce(&mut Reader<'m>) -> Option<T>,
) -> Option<Option<T>> {
    if flag(reader)? { item(reader).map(Some) } else { Some(None) }
}

fn list<'m, T>(reader: &mut Reader<'m>, item: impl Fn(&mut Reader<'m>) -> Option<T>) -> Option<Vec<T>> {
    list_of(reader, LIST_ITEMS_MAX, item)
}

fn list_of<'m, T>(
    reader: &mut Reader<'m>,
    count_max: usize,
    item: impl Fn(&mut Reader<'m>) -> Option<T>,
) -> Option<Vec<T>> {
    let count = usize::try_from(reader.u32()?).ok().filter(|count| *count <= count_max)?;
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(item(reader)?);
    }
    Some(items)
}
