//! A thread that replays requests. Has one connection for each connection of a client, and compares the answers.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use client::{ClientError, Connection, Tls};
use ldap::{
    Authentication, Control, ControlsBuf, ExtendedRequest, Message, PagedResults, PasswordModify, Request,
    ResultCode, ServerUrl, decode_generated_password, oids,
};

use crate::answer::Answer;
use crate::difference::{Pair, differences};
use crate::exchange::{Event, Exchange, Kind, decode, frames};
use crate::limits::{ANSWER, COOKIES_MAX, EXCHANGE_BYTES_MAX, MESSAGE_SIZE_MAX};
use crate::shared::Shared;

/// One of the two LDAP servers.
#[derive(Clone, Debug)]
pub struct Server {
    /// URL of the server.
    pub url: ServerUrl,
    /// TLS settings. With `ldap://`, StartTLS is used.
    pub tls: Option<Tls>,
}

/// A thread that replays requests.
pub(crate) struct Worker {
    servers: [Server; 2],
    ignored: BTreeSet<String>,
    shared: Arc<Shared>,
    clients: HashMap<u64, ReplayedClient>,
}

/// Connection to the other server that stands for one connection of a client.
#[derive(Default)]
struct ReplayedClient {
    connection: Option<Connection>,
    /// Reason why no more requests can be replayed for this client; `None` if requests can be replayed.
    unusable: Option<&'static str>,
    /// Pairs of cookies of paged searches: the cookie of the active server, and the cookie of the other server.
    cookies: VecDeque<(Vec<u8>, Vec<u8>)>,
    /// Pages of an incomplete paged search, from the active server and from the other server.
    pages: Option<(Answer, Answer)>,
}

/// Reason why an exchange is not compared.
type SkipReason = &'static str;

impl Worker {
    pub(crate) fn new(servers: [Server; 2], ignored: BTreeSet<String>, shared: Arc<Shared>) -> Worker {
        Worker { servers, ignored, shared, clients: HashMap::new() }
    }

    /// Replays and compares an exchange.
    pub(crate) fn replay(&mut self, event: Event) {
        let exchange = match event {
            Event::Exchange(exchange) => exchange,
            Event::Closed(client) => {
                self.clients.remove(&client);
                return;
            }
        };
        if self.shared.out_of_step().is_some() {
            self.shared.figures().skipped("the other server is out of step");
            return;
        }
        let mut client = self.clients.remove(&exchange.client).unwrap_or_default();
        if let Err(reason) = self.exchange(&mut client, &exchange) {
            if exchange.kind.is_change() {
                self.shared.set_out_of_step(&format!("a change could not be replayed: {reason}"));
            }
            self.shared.figures().skipped(reason);
        }
        self.clients.insert(exchange.client, client);
    }

    fn exchange(&mut self, client: &mut ReplayedClient, exchange: &Exchange) -> Result<(), SkipReason> {
        if let Some(reason) = client.unusable {
            return Err(reason);
        }
        let request = decode(&exchange.request).ok_or("the request cannot be decoded")?;
        if let Request::Bind(bind) = request.request
            && let Authentication::Sasl { mechanism, .. } = bind.authentication
            && !mechanism.eq_ignore_ascii_case("PLAIN")
        {
            // The messages of this bind depend on nonces of each server, or on the connection, so they cannot be
            // replayed.
            client.unusable = Some("the client binds by SASL with a mechanism other than PLAIN");
            return client.unusable.map_or(Ok(()), Err);
        }
        let mut active = Answer::default();
        let is_whole = frames(&exchange.responses).all(|frame| active.take(frame).is_some());
        let prepared = client.prepare(&request, &active)?;
        let started = Instant::now();
        let other =
            match self.send_request(client, exchange, prepared.as_deref().unwrap_or(&exchange.request)) {
                Ok(other) => other,
                Err(reason) => {
                    client.connection = None;
                    client.unusable = Some(reason);
                    return Err(reason);
                }
            };
        let Some(other) = other else { return Err("the answers are too large") };
        let mut figures = self.shared.figures();
        figures.latency(exchange.kind, exchange.answered_by, exchange.latency);
        figures.latency(exchange.kind, 1 - exchange.answered_by, started.elapsed());
        drop(figures);
        if !exchange.is_complete || !is_whole || active.code.is_none() {
            return match exchange.kind.is_change() {
                // The change was replayed, but its result on the active server is unknown.
                true => {
                    self.shared.figures().skipped("the client did not wait for the answer to its change");
                    Ok(())
                }
                false if exchange.kind == Kind::Bind => {
                    Err("the client did not wait for the answer to its bind")
                }
                false => Err("the answers are too large"),
            };
        }
        if active.code == Some(ResultCode::CANCELED) {
            return Err("the client canceled the request");
        }
        let Some((active, other)) = client.whole(&request, active, other)? else { return Ok(()) };
        let pair = match exchange.answered_by {
            0 => Pair { old: &active, new: &other },
            _ => Pair { old: &other, new: &active },
        };
        let found = differences(exchange.kind, &request, &pair, &self.ignored);
        self.shared.figures().compared(found, exchange.overlaps_change);
        Ok(())
    }

    /// Sends the request to the other server. Returns `None` if the answer is too large to be stored.
    fn send_request(
        &self,
        client: &mut ReplayedClient,
        exchange: &Exchange,
        request: &[u8],
    ) -> Result<Option<Answer>, SkipReason> {
        let failed = |_: ClientError| "the connection to the other server failed";
        let connection = match &mut client.connection {
            Some(connection) => connection,
            empty => {
                let [old, new] = &self.servers;
                let Server { url, tls } = if exchange.answered_by == 0 { new } else { old };
                let mut connection = Connection::open_url(url, tls.as_ref())
                    .map_err(|_| "there is no connection to the other server")?;
                connection.set_timeout(ANSWER).map_err(failed)?;
                connection.set_message_size_max(MESSAGE_SIZE_MAX);
                empty.insert(connection)
            }
        };
        let id = decode(request).ok_or("the request cannot be decoded")?.id;
        connection.send_bytes(request).map_err(failed)?;
        let (mut answer, mut size) = (Answer::default(), 0);
        loop {
            let received = connection.receive(id).map_err(failed)?;
            size += received.as_bytes().len();
            if size > EXCHANGE_BYTES_MAX {
                answer.entries.clear();
            }
            if answer.take(received.as_bytes()).ok_or("the answer cannot be decoded")? {
                return Ok((size <= EXCHANGE_BYTES_MAX).then_some(answer));
            }
        }
    }
}

impl ReplayedClient {
    /// Returns the request for the other server if it must differ from the client's request. It must differ if the
    /// client's request contains a cookie, or if the active server generated a password for the client's request.
    fn prepare(&mut self, request: &Message<'_>, active: &Answer) -> Result<Option<Vec<u8>>, SkipReason> {
        let encoded = |request, controls: &ControlsBuf, id| {
            let mut bytes = Vec::new();
            Message { id, request, controls: controls.as_controls() }.encode(&mut bytes);
            Some(bytes)
        };
        if let Request::Extended(extended) = request.request
            && extended.name == oids::MODIFY_PASSWORD
            && let Some(generated) = active.value.as_deref().and_then(decode_generated_password)
            && let Some(change) = PasswordModify::decode(extended.value)
        {
            let value = PasswordModify { new_password: Some(generated), ..change }.encode();
            let extended = ExtendedRequest { name: extended.name, value: Some(&value) };
            let mut controls = ControlsBuf::new();
            request.controls.iter().for_each(|control| controls.push(control));
            return Ok(encoded(Request::Extended(extended), &controls, request.id));
        }
        let Some(paged) = paged_request(request) else { return Ok(None) };
        if paged.cookie.is_empty() {
            self.pages = None;
            return Ok(None);
        }
        let place = self.cookies.iter().position(|(active, _)| active == paged.cookie);
        let known = place.and_then(|place| self.cookies.remove(place));
        let (_, other) = known.ok_or("the page follows one that was not replayed")?;
        let value = PagedResults { size: paged.size, cookie: &other }.encode();
        let mut controls = ControlsBuf::new();
        for control in request.controls.iter() {
            let is_paged = control.oid == oids::PAGED_RESULTS;
            let value = if is_paged { Some(value.as_slice()) } else { control.value };
            controls.push(Control { value, ..control });
        }
        Ok(encoded(request.request, &controls, request.id))
    }

    /// Returns both answers if they are complete. Joins the pages of a paged search, because the servers may divide the
    /// entries differently. Fails at the page that makes a search too large; its later pages are ignored.
    fn whole(
        &mut self,
        request: &Message<'_>,
        mut active: Answer,
        mut other: Answer,
    ) -> Result<Option<(Answer, Answer)>, SkipReason> {
        let Some(paged) = paged_request(request) else { return Ok(Some((active, other))) };
        let earlier = self.pages.take().filter(|_| !paged.cookie.is_empty());
        let is_followed = earlier.is_some() || paged.cookie.is_empty();
        if let Some((earlier, earlier_other)) = earlier {
            active.add_earlier_pages(earlier);
            other.add_earlier_pages(earlier_other);
        }
        let next = |answer: &Answer| answer.cookie.clone().filter(|cookie| !cookie.is_empty());
        match (next(&active), next(&other)) {
            (None, None) => Ok(is_followed.then_some((active, other))),
            (Some(cookie), Some(other_cookie)) => {
                self.cookies.push_back((cookie, other_cookie));
                self.cookies.drain(..self.cookies.len().saturating_sub(COOKIES_MAX));
                let is_small = active.entries.len() + other.entries.len() <= PAGED_ENTRIES_MAX
                    && active.size.max(other.size) <= EXCHANGE_BYTES_MAX;
                if is_followed && !is_small {
                    return Err("the pages of a search are too large together");
                }
                self.pages = is_followed.then_some((active, other));
                Ok(None)
            }
            // If only one server has further pages, the entries of the two servers differ.
            _ => Ok(is_followed.then_some((active, other))),
        }
    }
}

/// Maximum number of entries of a paged search that are stored until its last page. A search with more entries is not
/// compared.
const PAGED_ENTRIES_MAX: usize = 100_000;

fn paged_request<'r>(request: &Message<'r>) -> Option<PagedResults<'r>> {
    let is_search = matches!(request.request, Request::Search(_));
    let control = request.controls.find(oids::PAGED_RESULTS).filter(|_| is_search)?;
    control.value.and_then(PagedResults::decode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldap::{FilterBuf, MessageId, Scope, SearchRequest};

    /// Regression test: the pages of a paged search were kept up to a number of entries, whatever their size.
    #[test]
    fn pages_that_are_too_large_together_are_dropped() {
        let filter = FilterBuf::parse("(o=*)").unwrap();
        let mut client = ReplayedClient::default();
        let mut page = |cookie: &[u8], size| {
            let value = PagedResults { size: 1, cookie }.encode();
            let control = Control { oid: oids::PAGED_RESULTS, critical: true, value: Some(&value) };
            let controls = ControlsBuf::from_iter([control]);
            let search = SearchRequest::new("", Scope::WholeSubtree, filter.as_filter(), Default::default());
            let (id, request) = (MessageId(1), Request::Search(search));
            let answer = || Answer { cookie: Some(b"next".to_vec()), size, ..Answer::default() };
            let message = Message { id, request, controls: controls.as_controls() };
            let failed = client.whole(&message, answer(), answer()).is_err();
            (failed, client.pages.as_ref().map(|(active, other)| (active.size, other.size)))
        };
        assert_eq!(page(b"", 5), (false, Some((5, 5))));
        assert_eq!(
            page(b"next", EXCHANGE_BYTES_MAX - 5),
            (false, Some((EXCHANGE_BYTES_MAX, EXCHANGE_BYTES_MAX)))
        );
        assert_eq!(page(b"next", 1), (true, None));
        assert_eq!(page(b"next", 1), (false, None), "the search is counted once");
    }
}
