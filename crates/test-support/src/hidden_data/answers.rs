//! Answers of two servers, without the parts that may differ: times, UUIDs, and opaque values that clients send back.
//!
//! The octets of answers are compared after these parts are replaced by text of the same length: times, CSNs and the
//! remaining seconds of dynamic entries by zeros; each entryUUID by a number, in the order in which a server shows
//! them; and cookies, position tokens, generated passwords and nonces by asterisks.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::time::Duration;

use ldap::{
    Controls, DecodeLimits, DeletedAnswer, PagedResults, Response, ResponseMessage, ResultCode, SyncDone,
    SyncInfo, SyncStateValue, decode_generated_password, oids,
};

/// Maximum wait for an answer.
const LONGEST: Duration = Duration::from_secs(60);

/// Attributes whose values are links if an entry has that name.
const LINKS: [&str; 7] =
    ["member", "manager", "seealso", "friend", "aliasedobjectname", "valueend", "membershipend"];

/// Messages, by the id of their request.
pub(crate) type Answers = BTreeMap<i32, Vec<Vec<u8>>>;

/// A connection to one of the servers.
pub(crate) struct Link {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Link {
    pub(crate) fn open(server: SocketAddr) -> Link {
        let stream = TcpStream::connect(server).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(LONGEST)).unwrap();
        Link { stream, read: Vec::new() }
    }

    pub(crate) fn send(&mut self, octets: &[u8]) {
        self.stream.write_all(octets).unwrap();
    }

    /// Reads until the last answer to each of these requests has arrived.
    pub(crate) fn answers(&mut self, mut open: Vec<i32>) -> Answers {
        let mut answers = Answers::new();
        while !open.is_empty() {
            let frame = self.frame().expect("the server goes on");
            let message = decoded(&frame);
            assert!(message.id.0 != 0, "disconnected: {message:?}");
            if message.response.result().is_some() {
                open.retain(|id| *id != message.id.0);
            }
            answers.entry(message.id.0).or_default().push(frame);
        }
        answers
    }

    /// Returns the next message, or `None` if the server has closed the connection.
    pub(crate) fn frame(&mut self) -> Option<Vec<u8>> {
        let mut buffer = [0; 64 << 10];
        loop {
            if let Ok(Some(len)) = ldap::frame_len(&self.read)
                && self.read.len() >= len
            {
                let rest = self.read.split_off(len);
                return Some(std::mem::replace(&mut self.read, rest));
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => self.read.extend_from_slice(&buffer[..count]),
                Err(error) => panic!("no answer within {LONGEST:?}: {error}"),
            }
        }
    }
}

pub(crate) fn decoded(frame: &[u8]) -> ResponseMessage<'_> {
    ResponseMessage::decode(frame, &DecodeLimits::AUTHENTICATED)
        .unwrap_or_else(|error| panic!("{error}: {frame:02x?}"))
}

/// Values that identify one server, or that it generated.
#[derive(Debug, Default)]
pub(crate) struct ServerValues {
    uuids: Vec<[u8; 16]>,
    /// Texts that only this server's answers contain, such as its generation.
    pub(crate) texts: Vec<String>,
    pub(crate) sync_cookie: Option<Vec<u8>>,
    pub(crate) page_cookie: Option<Vec<u8>>,
    pub(crate) position: Option<[u8; 24]>,
}

impl ServerValues {
    fn number_of(&mut self, uuid: [u8; 16]) -> u128 {
        let place = self.uuids.iter().position(|known| *known == uuid).unwrap_or_else(|| {
            self.uuids.push(uuid);
            self.uuids.len() - 1
        });
        place as u128
    }

    /// Returns a message without the parts that may differ.
    pub(crate) fn masked(&mut self, frame: &[u8]) -> Vec<u8> {
        let mut masked = frame.to_vec();
        let message = decoded(frame);
        let within = |part: &[u8]| -> Range<usize> {
            let start = part.as_ptr() as usize - frame.as_ptr() as usize;
            start..start + part.len()
        };
        let hide = |part: Option<&[u8]>| part.map_or(0..0, within);
        let mut hidden = Vec::new();
        let mut uuids = Vec::new();
        for control in message.controls.iter() {
            let value = control.value.unwrap_or_default();
            match control.oid {
                oids::PAGED_RESULTS => {
                    let cookie = PagedResults::decode(value).map(|of| of.cookie);
                    self.page_cookie = cookie.filter(|cookie| !cookie.is_empty()).map(<[u8]>::to_vec);
                    hidden.push(hide(cookie));
                }
                oids::SYNC_DONE => {
                    let cookie = SyncDone::decode(value).and_then(|of| of.cookie);
                    self.sync_cookie = cookie.map(<[u8]>::to_vec).or(self.sync_cookie.take());
                    hidden.push(hide(cookie));
                }
                oids::SYNC_STATE => {
                    if let Some(state) = SyncStateValue::decode(value) {
                        uuids.push(state.uuid);
                        hidden.push(hide(state.cookie));
                    }
                }
                oids::POSITION => {
                    self.position = value.try_into().ok();
                    hidden.push(hide(Some(value)));
                }
                _ => {}
            }
        }
        match message.response {
            Response::Intermediate { value: Some(value), .. } => match SyncInfo::decode(value) {
                Some(SyncInfo::NewCookie(cookie)) => hidden.push(hide(Some(cookie))),
                Some(SyncInfo::Refreshed { cookie, .. }) => hidden.push(hide(cookie)),
                Some(SyncInfo::IdSet(set)) => uuids.extend(set.uuids),
                None => {}
            },
            Response::Extended { value: Some(value), .. } => {
                hidden.push(hide(decode_generated_password(value)));
                for entry in DeletedAnswer::decode(value).unwrap_or_default().entries {
                    uuids.push(entry.uuid);
                    // The time has seven octets.
                    let time = &entry.micros.to_be_bytes()[1..];
                    let at = value.windows(time.len()).position(|part| part == time);
                    hidden.push(hide(at.map(|at| &value[at..at + time.len()])));
                }
            }
            Response::Bind { server_sasl_credentials: Some(said), .. } => {
                hidden.extend(nonces(said, within(said).start))
            }
            _ => {}
        }
        hidden.into_iter().for_each(|range| masked[range].fill(b'*'));
        for uuid in uuids {
            let number = self.number_of(uuid).to_be_bytes();
            while let Some(at) = masked.windows(16).position(|part| part == uuid) {
                masked[at..at + 16].copy_from_slice(&number);
            }
        }
        for text in &self.texts {
            while let Some(at) = masked.windows(text.len()).position(|part| part == text.as_bytes()) {
                masked[at..at + text.len()].fill(b'*');
            }
        }
        self.mask_texts(&mut masked);
        masked
    }

    /// Replaces times, CSNs and UUIDs in text.
    fn mask_texts(&mut self, octets: &mut [u8]) {
        let mut at = 0;
        while at < octets.len() {
            if let Some(len) = uuid_at(&octets[at..]) {
                let text = std::str::from_utf8(&octets[at..at + len]).unwrap().replace('-', "");
                let uuid = u128::from_str_radix(&text, 16).unwrap().to_be_bytes();
                let number = format!("{:036}", self.number_of(uuid));
                octets[at..at + len].copy_from_slice(number.as_bytes());
                at += len;
            } else if let Some(len) = time_at(&octets[at..]) {
                octets[at..at + len].fill(b'0');
                at += len;
            } else if let Some(digits) = seconds_at(&octets[at..]) {
                octets[at..][digits.clone()].fill(b'0');
                at += digits.end;
            } else {
                at += 1;
            }
        }
    }
}

/// Returns the length of a UUID at the beginning of the text, if there is one.
fn uuid_at(octets: &[u8]) -> Option<usize> {
    let text = octets.get(..36)?;
    let is_it = |(place, octet): (usize, &u8)| match place {
        8 | 13 | 18 | 23 => *octet == b'-',
        _ => octet.is_ascii_digit() || (b'a'..=b'f').contains(octet),
    };
    text.iter().enumerate().all(is_it).then_some(36)
}

/// Returns the length of a time or a CSN at the beginning of the text, if there is one.
fn time_at(octets: &[u8]) -> Option<usize> {
    let seconds = octets.get(..14)?;
    if !seconds.iter().all(u8::is_ascii_digit) || !octets.starts_with(b"20") {
        return None;
    }
    let rest = &octets[14..];
    let fraction = rest.iter().take_while(|octet| **octet == b'.' || octet.is_ascii_digit()).count();
    let rest = &rest[fraction..];
    if rest.first() != Some(&b'Z') {
        return None;
    }
    // The rest of a CSN has the form `#oooooo#sss#mmmmmm`.
    let csn = if rest.get(1) == Some(&b'#') { 18 } else { 0 };
    Some(14 + fraction + 1 + csn)
}

/// Returns the place of the digits of entryTtl, if the text begins with this attribute and its value.
fn seconds_at(octets: &[u8]) -> Option<Range<usize>> {
    let mut at = octets.get(..8).filter(|name| name.eq_ignore_ascii_case(b"entryTtl")).map(<[u8]>::len)?;
    for tag in [0x31, 0x04] {
        let length = *octets.get(at..)?.strip_prefix(&[tag])?.first()?;
        at += 2 + if length < 0x80 { 0 } else { usize::from(length & 0x7f) };
    }
    let count = octets.get(at..)?.iter().take_while(|octet| octet.is_ascii_digit()).take(7).count();
    Some(at..at + count)
}

/// Returns the parts of a SASL message that are random or derived from stored values.
fn nonces(said: &[u8], start: usize) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    for part in said.split(|octet| *octet == b',') {
        if [&b"r="[..], b"s=", b"nonce="].iter().any(|name| part.starts_with(name)) || said.starts_with(b"<")
        {
            found.push(start + at..start + at + part.len());
        }
        at += part.len() + 1;
    }
    found
}

/// Attributes with the time of the last change. An attribute keeps its place if a change within the same second does
/// not change its value; otherwise it comes last.
const TIMES: [&str; 2] = ["entryCSN", "modifyTimestamp"];

/// Returns a message as text, with times at the end. With `are_sets`, values of links are sorted, because names of
/// existing entries are stored in a different order from names that no entry has.
pub(crate) fn in_order(masked: &[u8], are_sets: bool) -> String {
    let message = decoded(masked);
    let mut text = String::new();
    let _ = write!(text, "{:?} ", message.id);
    match &message.response {
        Response::SearchEntry(entry) => {
            let _ = write!(text, "entry {:?}", entry.object_name);
            put_attributes(entry.attributes.iter(), are_sets, &mut text);
        }
        other => drop(write!(text, "{other:?}")),
    }
    for control in message.controls.iter() {
        let value = control.value.unwrap_or_default();
        let copy = [oids::PRE_READ, oids::POST_READ].contains(&control.oid);
        let shown = match control.oid {
            _ if copy => entry_in(value, are_sets),
            oids::DEREFERENCE if are_sets => dereferenced(value),
            _ => format!("{value:02x?}"),
        };
        let _ = write!(text, " {} {} {shown}", control.oid, control.critical);
    }
    text
}

fn put_attributes<'a>(
    attributes: impl Iterator<Item = ldap::PartialAttribute<'a>>,
    are_sets: bool,
    text: &mut String,
) {
    let (times, others): (Vec<_>, Vec<_>) = attributes.partition(|of| TIMES.contains(&of.description));
    for attribute in others {
        let mut values: Vec<String> =
            attribute.values.iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect();
        // Treat a range that contains all values like the attribute without a range.
        let name = attribute.description.to_ascii_lowercase();
        if are_sets && LINKS.contains(&name.strip_suffix(";range=0-*").unwrap_or(&name)) {
            values.sort();
        }
        let _ = write!(text, " {}={values:?}", attribute.description);
    }
    let mut times: Vec<String> = times.iter().map(|of| format!("{of:?}")).collect();
    times.sort();
    let _ = write!(text, " {times:?}");
}

/// Returns the copy of an entry in a control as text. It is encoded like a search result.
fn entry_in(value: &[u8], are_sets: bool) -> String {
    // Build the message that a search result would have.
    let mut message = vec![0x30, 0x84];
    let mut inner = vec![0x02, 0x01, 0x01];
    inner.extend(value);
    if let Some(tag) = inner.get_mut(3) {
        *tag = 0x64;
    }
    message.extend((inner.len() as u32).to_be_bytes());
    message.extend(inner);
    let mut text = String::new();
    match ResponseMessage::decode(&message, &DecodeLimits::AUTHENTICATED).map(|of| of.response) {
        Ok(Response::SearchEntry(entry)) => {
            let _ = write!(text, "{:?}", entry.object_name);
            put_attributes(entry.attributes.iter(), are_sets, &mut text);
        }
        _ => drop(write!(text, "{value:02x?}")),
    }
    text
}

fn dereferenced(value: &[u8]) -> String {
    let mut all: Vec<String> = match ldap::Dereferenced::decode_list(value) {
        Some(all) => all.iter().map(in_text).collect(),
        None => vec![format!("{value:02x?}")],
    };
    all.sort();
    all.join(" ")
}

/// Formats the dereferenced attributes of an entry that a value names.
fn in_text(one: &ldap::Dereferenced<'_>) -> String {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let mut shown = format!("{} {:?}:", one.attribute, text(one.value));
    for (name, values) in &one.attributes {
        let values: Vec<String> = values.iter().map(|value| text(value)).collect();
        let _ = write!(shown, " {name}={values:?}");
    }
    shown
}

/// Returns a message as text for a failure report.
pub(crate) fn in_words(frame: &[u8]) -> String {
    let message = decoded(frame);
    let mut text = match message.response {
        Response::SearchEntry(_) => in_order(frame, false),
        ref other => format!("{other:?}"),
    };
    let controls: Controls<'_> = message.controls;
    for control in controls.iter() {
        let value = String::from_utf8_lossy(control.value.unwrap_or_default()).into_owned();
        let _ = write!(text, " [{} {value:?}]", control.oid);
    }
    text
}

/// Returns the result code of the last message.
pub(crate) fn code_of(messages: &[Vec<u8>]) -> Option<ResultCode> {
    messages.last().and_then(|last| decoded(last).response.result().map(|result| result.code))
}
