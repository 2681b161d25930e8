//! Reads the operations that an audit trail recorded, with the state of their connections.
//!
//! An event does not describe its connection, so the reader tracks the state of connections through the trail. The
//! events of one connection are in order, except changes of entries. The event of a change is written from the
//! directory's log, so it may precede the event of an earlier bind, or follow the event that ends the connection.
//! Therefore the reader delays each event, and then finds the state of the connection at the time of the event.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::path::Path;

use audit::{AuditError, Event, Events, Field, Item, Kind, Traversal};
use directory::rehearse::{OperationType, RecordedOperation};
use directory::{BindMethod, ClientLink, WeekTime};
use ldap::{DecodeLimits, Filter, ResultCode, Scope, SelectionBuf};

/// Maximum number of connections that the reader tracks at the same time.
const CONNECTIONS_MAX: usize = 100_000;

/// Maximum total number of states that are stored for all connections. Each bind and each start of TLS adds a state.
const TURNS_MAX: usize = 1_000_000;

/// Delay of events in microseconds. The delay exceeds the time that may pass between an event and its write to the
/// trail.
const KEPT_BACK_MICROS: u64 = 2_000_000;

/// Maximum total size of the delayed events in octets.
const KEPT_BACK_BYTES: usize = 32 << 20;

/// Prefix of the text that the trail contains in place of a withheld name.
const WITHHELD: &str = "withheld, ";

/// State of a connection from a certain time on.
#[derive(Clone, Copy)]
struct Turn {
    micros: u64,
    has_tls: bool,
    method: Option<BindMethod>,
}

/// States of the connections in a trail.
#[derive(Default)]
struct Connections {
    /// States of each connection, the oldest first.
    known: HashMap<u64, VecDeque<Turn>>,
    order: VecDeque<u64>,
    turns: usize,
}

impl Connections {
    /// Records the effect of an event on the state of its connection. The event was written at `written_micros`.
    fn note(&mut self, event: Event<'_>, written_micros: u64) {
        let micros = event.number(Field::Time).unwrap_or(0);
        let turn = match event.kind() {
            // A restarted server numbers its connections from the beginning again.
            Some(Kind::Started) => return *self = Connections::default(),
            Some(Kind::Opened) => Turn { micros, has_tls: false, method: Some(BindMethod::None) },
            Some(Kind::Tls) => Turn { micros, has_tls: true, method: Some(BindMethod::None) },
            Some(Kind::Bind) if event.number(Field::Result) == Some(u64::from(ResultCode::SUCCESS.0)) => {
                let has_tls = self.last(event).is_some_and(|last| last.has_tls);
                Turn { micros, has_tls, method: method_of(event) }
            }
            _ => return,
        };
        let Some(connection) = event.number(Field::Connection) else { return };
        // The connection began before the trail, so its use of TLS is unknown.
        if event.kind() == Some(Kind::Bind) && !self.known.contains_key(&connection) {
            return;
        }
        if self.order.len() >= CONNECTIONS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.turns -= self.known.remove(&oldest).map_or(0, |turns| turns.len());
        }
        if self.turns >= TURNS_MAX {
            *self = Connections::default();
        }
        let turns = self.known.entry(connection).or_insert_with(|| {
            self.order.push_back(connection);
            VecDeque::new()
        });
        // Of the states that are older than all delayed events, only the newest can still apply to an operation.
        let needed_since = written_micros.saturating_sub(2 * KEPT_BACK_MICROS);
        while turns.get(1).is_some_and(|second| second.micros < needed_since) {
            turns.pop_front();
            self.turns -= 1;
        }
        turns.push_back(turn);
        self.turns += 1;
    }

    fn last(&self, event: Event<'_>) -> Option<Turn> {
        let micros = event.number(Field::Time).unwrap_or(0);
        let turns = self.known.get(&event.number(Field::Connection)?)?;
        let later = turns.partition_point(|turn| turn.micros <= micros);
        turns.get(later.checked_sub(1)?).copied()
    }

    /// Returns the connection of the client that caused an event. The flag is true if the trail describes the
    /// connection.
    fn link(&self, event: Event<'_>) -> (ClientLink, bool) {
        let last = self.last(event);
        let network = event.text(Field::Network).unwrap_or_default();
        let address = network.split(' ').next().and_then(|text| text.parse::<SocketAddr>().ok());
        let is_anonymous = event.bytes(Field::Who).is_none_or(<[u8]>::is_empty);
        let link = ClientLink {
            address: address.map(|address| address.ip()),
            is_protected: address.is_none() || last.is_some_and(|last| last.has_tls),
            method: if is_anonymous { Some(BindMethod::None) } else { last.and_then(|last| last.method) },
            at: event.number(Field::Time).map(WeekTime::of_micros),
            listener: None,
        };
        (link, last.is_some_and(|last| last.method.is_some()))
    }
}

/// Returns the method of a bind. Returns `None` if the trail is so old that it does not contain the mechanism.
fn method_of(event: Event<'_>) -> Option<BindMethod> {
    match &*event.text(Field::Method).unwrap_or_default() {
        "simple" => Some(BindMethod::Simple),
        "none" => Some(BindMethod::None),
        name => Some(BindMethod::of_mechanism(name)).filter(|known| *known != BindMethod::None),
    }
}

/// Result of reading an event as an input for access rules.
pub(crate) enum EventReading {
    /// The event is not an operation that access rules decide.
    Nothing,
    /// Access rules decide about the operation, but the trail withholds a part of it.
    Withheld,
    /// The operation was passed to the receiver. `has_link` is false if the trail does not describe the connection.
    Read { has_link: bool },
}

/// Place of an event in a trail.
#[derive(Clone, Copy, Debug)]
pub struct EventPlace {
    /// Number of the block that contains the event.
    pub block: u64,
    /// Time at which the block was written, in microseconds since 1970.
    pub micros: u64,
}

/// Reader of the operations in a trail.
#[derive(Default)]
pub(crate) struct OperationReader {
    connections: Connections,
    kept_back: VecDeque<(EventPlace, Box<[u8]>)>,
    kept_back_bytes: usize,
}

/// Success, or the error that the receiver of events returned.
pub(crate) type Taken<E> = std::result::Result<(), E>;

/// Callback that receives each event of a trail, in the order of the trail, with the reader and the place of the event.
pub(crate) type TakeEvent<'t, E> = &'t mut dyn FnMut(&OperationReader, Event<'_>, EventPlace) -> Taken<E>;

impl OperationReader {
    /// Reads a trail. Passes each event to `each` when the state of its connection is known, and damage to
    /// `each_damage`.
    ///
    /// # Errors
    /// The trail cannot be read, or `each` fails.
    pub(crate) fn read<E: From<AuditError>>(
        &mut self,
        folder: &Path,
        each: TakeEvent<'_, E>,
        each_damage: &mut dyn FnMut(String),
    ) -> Taken<E> {
        for item in Traversal::begin(folder)? {
            match item? {
                Item::Damage(place, damage) => each_damage(format!("{place}: {damage}")),
                Item::Torn(_) => {}
                Item::Block(block) => {
                    let written = EventPlace { block: block.number, micros: block.written_micros };
                    self.let_go(written.micros.saturating_sub(KEPT_BACK_MICROS), each)?;
                    for event in Events::of(&block.events).filter_map(Result::ok) {
                        self.take(event, written, each)?;
                    }
                }
            }
        }
        self.let_go(u64::MAX, each)
    }

    fn take<E>(&mut self, event: Event<'_>, written: EventPlace, each: TakeEvent<'_, E>) -> Taken<E> {
        if event.kind() == Some(Kind::Started) {
            self.let_go(u64::MAX, each)?;
        }
        self.connections.note(event, written.micros);
        self.kept_back_bytes += event.as_bytes().len();
        self.kept_back.push_back((written, event.as_bytes().into()));
        while self.kept_back_bytes > KEPT_BACK_BYTES {
            self.let_go_of_first(each)?;
        }
        Ok(())
    }

    /// Passes on the delayed events that were written up to the time `until`.
    fn let_go<E>(&mut self, until: u64, each: TakeEvent<'_, E>) -> Taken<E> {
        while self.kept_back.front().is_some_and(|(written, _)| written.micros <= until) {
            self.let_go_of_first(each)?;
        }
        Ok(())
    }

    fn let_go_of_first<E>(&mut self, each: TakeEvent<'_, E>) -> Taken<E> {
        let Some((written, bytes)) = self.kept_back.pop_front() else { return Ok(()) };
        self.kept_back_bytes -= bytes.len();
        match Event::parse(&bytes) {
            Some(event) => each(self, event, written),
            None => Ok(()),
        }
    }

    /// Passes the operation of an event to `each`, if access rules decide about the operation.
    ///
    /// # Errors
    /// `each` fails.
    pub(crate) fn recorded<E>(
        &self,
        event: Event<'_>,
        each: &mut dyn FnMut(&RecordedOperation<'_>) -> Taken<E>,
    ) -> std::result::Result<EventReading, E> {
        let Some(kind) = event.kind().filter(|kind| is_decided(*kind)) else {
            return Ok(EventReading::Nothing);
        };
        if event.number(Field::Result) == Some(u64::from(ResultCode::PROTOCOL_ERROR.0)) {
            return Ok(EventReading::Nothing);
        }
        let text = |field| event.text(field).unwrap_or_default();
        let (who, target, acts_as) = (text(Field::Who), text(Field::Target), event.text(Field::ActsAs));
        let (rdn, superior) = (text(Field::Name), event.text(Field::Superior));
        let names: Vec<_> =
            event.texts(Field::Attribute).filter(|name| !name.starts_with(WITHHELD)).collect();
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        // The trail withholds names of attributes that the schema does not define. If a client requested only such
        // names, the search returned no attributes. This case must be distinguished from a search without names, which
        // returned all attributes.
        let selects_nothing = names.is_empty() && event.bytes(Field::Attribute).is_some();
        let none = selects_nothing.then_some("1.1");
        let selection: SelectionBuf = names.iter().copied().chain(none).collect();
        let act = match kind {
            Kind::Search => {
                let filter = event.bytes(Field::Filter);
                let filter =
                    filter.and_then(|bytes| Filter::from_bytes(bytes, &DecodeLimits::AUTHENTICATED).ok());
                let Some(filter) = filter else { return Ok(EventReading::Withheld) };
                OperationType::Search { scope: scope_of(event), filter, attributes: selection.as_selection() }
            }
            Kind::Compare => match names.first() {
                Some(name) => OperationType::Compare(name),
                None => return Ok(EventReading::Withheld),
            },
            Kind::Modify => OperationType::Modify(&names),
            Kind::Add => OperationType::Add,
            Kind::Delete => OperationType::Delete,
            _ => OperationType::Rename { rdn: &rdn, superior: superior.as_deref() },
        };
        if target.starts_with(WITHHELD) || rdn.starts_with(WITHHELD) {
            return Ok(EventReading::Withheld);
        }
        let (link, has_link) = self.connections.link(event);
        let micros = event.number(Field::Time).unwrap_or(0);
        each(&RecordedOperation {
            who: &who,
            acts_as: acts_as.as_deref(),
            link,
            micros,
            target: &target,
            act,
        })?;
        Ok(EventReading::Read { has_link })
    }
}

fn is_decided(kind: Kind) -> bool {
    let decided = [Kind::Search, Kind::Compare, Kind::Modify, Kind::Add, Kind::Delete, Kind::ModifyDn];
    decided.contains(&kind)
}

fn scope_of(event: Event<'_>) -> Scope {
    match event.number(Field::Scope) {
        Some(0) => Scope::BaseObject,
        Some(1) => Scope::SingleLevel,
        Some(3) => Scope::Subordinate,
        _ => Scope::WholeSubtree,
    }
}

#[cfg(test)]
mod tests {
    use audit::EventWriter;

    use super::*;

    type Given<'e> = Vec<(u64, bool, Option<BindMethod>, bool)>;

    fn event(kind: Kind, micros: u64, more: impl FnOnce(&mut EventWriter<'_>)) -> Vec<u8> {
        let mut fields = Vec::new();
        let mut event = EventWriter::new(&mut fields);
        event.kind(kind).number(Field::Time, micros).number(Field::Connection, 7);
        event.text(Field::Network, "192.0.2.1:50000");
        more(&mut event);
        fields
    }

    fn bind(micros: u64, method: &str, result: u64) -> Vec<u8> {
        event(Kind::Bind, micros, |event| {
            event.text(Field::Method, method).number(Field::Result, result);
        })
    }

    fn operation(micros: u64) -> Vec<u8> {
        event(Kind::Delete, micros, |event| {
            event.text(Field::Who, "cn=a").text(Field::Target, "cn=b");
        })
    }

    /// Returns each operation with its time, whether its connection uses TLS, the bind method, and whether the trail
    /// describes the connection.
    fn read(events: &[(u64, Vec<u8>)]) -> Given<'_> {
        let mut given = Vec::new();
        let mut reader = OperationReader::default();
        let mut each = |reader: &OperationReader, event: Event<'_>, _| {
            let mut link = None;
            let reading = reader.recorded(event, &mut |recorded| {
                link = Some((recorded.micros, recorded.link));
                Ok::<_, AuditError>(())
            });
            if let (Ok(EventReading::Read { has_link }), Some((micros, link))) = (reading, link) {
                assert_eq!(link.address.unwrap().to_string(), "192.0.2.1");
                given.push((micros, link.is_protected, link.method, has_link));
            }
            Ok::<_, AuditError>(())
        };
        for (written, bytes) in events {
            let written = EventPlace { block: 0, micros: *written };
            reader.let_go(written.micros.saturating_sub(KEPT_BACK_MICROS), &mut each).unwrap();
            reader.take(Event::parse(bytes).unwrap(), written, &mut each).unwrap();
        }
        reader.let_go(u64::MAX, &mut each).unwrap();
        given
    }

    #[test]
    fn an_operation_has_the_bind_and_tls_state_of_its_time() {
        let plain = BindMethod::of_mechanism("PLAIN");
        let opened = event(Kind::Opened, 1, |_| {});
        let found = read(&[
            (100, opened.clone()),
            // The event of a change, which was written before the event of an earlier bind.
            (100, operation(30)),
            (200, bind(20, "simple", 0)),
            (200, operation(40)),
            (300, event(Kind::Tls, 50, |_| {})),
            (300, bind(60, "PLAIN", 0)),
            // After a failed bind, the client is anonymous.
            (300, bind(70, "simple", 49)),
            (300, operation(80)),
        ]);
        let simple = Some(BindMethod::Simple);
        assert_eq!(
            found,
            [(30, false, simple, true), (40, false, simple, true), (80, true, Some(plain), true)]
        );
        // The state is unknown if the connection began before the trail, or if the trail is so old that it lacks the
        // mechanism.
        assert_eq!(read(&[(9, bind(2, "simple", 0)), (9, operation(5))]), [(5, false, None, false)]);
        assert_eq!(
            read(&[(9, opened), (9, bind(2, "sasl", 0)), (9, operation(5))]),
            [(5, false, None, false)]
        );
    }

    #[test]
    fn repeated_binds_of_a_connection_are_followed() {
        let mut events = vec![(0, event(Kind::Opened, 0, |_| {}))];
        for round in 1..2_000_u64 {
            let micros = round * 10_000;
            let method = if round % 2 == 0 { "simple" } else { "EXTERNAL" };
            events.push((micros, bind(micros, method, 0)));
            events.push((micros, operation(micros + 1)));
        }
        for (micros, _, method, _) in read(&events) {
            let is_simple = micros / 10_000 % 2 == 0;
            assert_eq!(method == Some(BindMethod::Simple), is_simple, "{micros}");
        }
        let mut connections = Connections::default();
        for (written, bytes) in &events {
            connections.note(Event::parse(bytes).unwrap(), *written);
        }
        assert!(connections.turns < 500 && connections.known[&7].len() == connections.turns);
        // A restarted server numbers its connections from the beginning again.
        connections.note(Event::parse(&event(Kind::Started, 0, |_| {})).unwrap(), 0);
        assert!(connections.known.is_empty());
    }
}
